//! Languages of the `format` keyword.
//!
//! Each language follows the grammar of its RFC, or is a pattern if a pattern is easier to read.
//! Rules beyond the grammar are enforced too: days of a month, leap years, hours of leap seconds,
//! and lengths of names.
//!
//! # Subsets
//! Some languages are not regular, or their automaton would be huge. A subset then stands for the
//! language. Every text of the subset is valid. These valid texts are missing:
//! - `time`, `date-time`: leap seconds at offsets other than whole and half hours. `date-time`
//!   accepts leap seconds on any day.
//! - `hostname`: labels that begin with `xn--`, from draft 7 on, because an automaton cannot decode
//!   punycode.
//! - `hostname`: names of more than 240 characters, where each label with its dot is rounded up to
//!   a multiple of 16. `email` and `idn-email` have a limit of 176 for ASCII domains.
//! - `email`: quoted pairs that are not needed, and `<` in quoted strings.
//! - `idn-hostname`, and the domain of `idn-email`: letters of less common scripts, letters with a
//!   contextual rule, names of more than 4 labels, and long labels. A label has at most 7
//!   characters, or at most 15 with at most 5 outside ASCII, so its punycode always fits.
//! - `uri-template`: operators reserved for future extensions.
//! - `relative-json-pointer`: index manipulation.
//! - `regex`: groups nested more than two deep, back-references, named groups, and counts of more
//!   than three digits.

mod abnf;
mod calendar;
mod mail;
mod name;
mod regex;
mod uri;

use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use abnf::Abnf;
use rustc_hash::FxHashMap;

use super::dialect::Draft;
use crate::ir::json::texts::Texts;
use crate::regular::{ExprId, Expressions, Portable, TextDfa, TooLarge};

/// A format: its language, and the automaton of its language.
///
/// Both are built once per process. Formats are the same in every schema, and some take longer to
/// build than the rest of a compilation.
#[derive(Debug)]
pub(super) struct Format {
    language: Portable,
    texts: OnceLock<Arc<Texts>>,
}

impl Format {
    /// Returns the format called `name` in `draft`. Returns `None` if no specification defines the
    /// name.
    pub(super) fn get(name: &str, draft: Draft) -> Option<Arc<Self>> {
        type Known = FxHashMap<(String, Draft), Arc<Format>>;
        static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.to_owned(), draft);
        if let Some(format) = known.get(&key) {
            return Some(Arc::clone(format));
        }
        let mut expressions = Expressions::new();
        let language = language(&mut Abnf::new(&mut expressions), name, draft)?;
        let language = Portable::new(&expressions, language);
        let format = Arc::new(Self { language, texts: OnceLock::new() });
        known.insert(key, Arc::clone(&format));
        Some(format)
    }

    /// Adds the language of the format to `expressions`.
    pub(super) fn language(&self, expressions: &mut Expressions) -> ExprId {
        self.language.add_to(expressions)
    }

    /// Returns the automaton of the language.
    ///
    /// # Errors
    /// Returns an error if the automaton is not built yet and has more than `limit` states.
    pub(super) fn texts(&self, limit: usize) -> Result<Arc<Texts>, TooLarge> {
        if let Some(known) = self.texts.get() {
            return Ok(Arc::clone(known));
        }
        let mut expressions = Expressions::new();
        let language = self.language(&mut expressions);
        let dfa = TextDfa::new(&mut expressions, &[language], limit)?;
        Ok(Arc::clone(self.texts.get_or_init(|| Arc::new(Texts::new(dfa)))))
    }
}

/// Returns the language of the format called `name` in `draft`. Returns `None` if no specification
/// defines the name.
fn language(rules: &mut Abnf<'_>, name: &str, draft: Draft) -> Option<ExprId> {
    Some(match name {
        "date" => calendar::date(rules),
        "time" => calendar::time(rules),
        "date-time" => calendar::date_time(rules),
        "duration" => calendar::duration(rules),
        "email" => mail::email(rules, draft),
        "idn-email" => mail::idn_email(rules),
        "hostname" => name::hostname(rules, draft),
        "idn-hostname" => name::idn_hostname(rules),
        "ipv4" => name::ipv4(rules),
        "ipv6" => name::ipv6(rules),
        "uri" => uri::absolute(rules, uri::Repertoire::Ascii),
        "uri-reference" => uri::reference(rules, uri::Repertoire::Ascii),
        "iri" => uri::absolute(rules, uri::Repertoire::Unicode),
        "iri-reference" => uri::reference(rules, uri::Repertoire::Unicode),
        "uri-template" => uri::template(rules),
        "uuid" => uuid(rules),
        "json-pointer" => json_pointer(rules),
        "relative-json-pointer" => relative_json_pointer(rules),
        "regex" => regex::regex(rules),
        _ => return None,
    })
}

/// Returns the language of UUIDs of any version and variant (RFC 4122, section 3).
fn uuid(rules: &mut Abnf<'_>) -> ExprId {
    rules.pattern("[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")
}

/// Returns the language of JSON pointers (RFC 6901, section 3).
fn json_pointer(rules: &mut Abnf<'_>) -> ExprId {
    rules.pattern("(?:/(?:[^/~]|~[01])*)*")
}

/// Returns the language of relative JSON pointers (draft-handrews-relative-json-pointer-01, section
/// 3).
fn relative_json_pointer(rules: &mut Abnf<'_>) -> ExprId {
    rules.pattern("(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^/~]|~[01])*)*)")
}

#[cfg(test)]
mod tests;
