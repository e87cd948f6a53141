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

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use abnf::Abnf;
use rustc_hash::FxHashMap;

use super::dialect::Draft;
use crate::ir::json::texts::Texts;
use crate::regular::{ExprId, Expressions, TextDfa, TooLarge};

type FormatCache = FxHashMap<(String, Draft), Arc<Texts>>;

/// Returns the automaton of the format called `name`, whose expression is `language`. The automaton
/// may have at most `limit` states.
///
/// The automaton is built once per process. Formats are the same in every schema, and some take
/// longer to build than the rest of a compilation.
pub(super) fn texts(
    expressions: &mut Expressions,
    language: ExprId,
    name: &str,
    draft: Draft,
    limit: usize,
) -> Result<Arc<Texts>, TooLarge> {
    static KNOWN: LazyLock<Mutex<FormatCache>> = LazyLock::new(Mutex::default);
    let key = (name.to_owned(), draft);
    if let Some(known) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(Arc::clone(known));
    }
    let dfa = expressions.uncharged(|expressions| TextDfa::new(expressions, &[language], limit))?;
    let texts = Arc::new(Texts::new(dfa));
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&texts));
    Ok(texts)
}

/// Returns the language of the format called `name` in `draft`. Returns `None` if no specification
/// defines the name.
pub(super) fn format(expressions: &mut Expressions, name: &str, draft: Draft) -> Option<ExprId> {
    let rules = &mut Abnf::new(expressions);
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
