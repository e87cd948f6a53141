//! The languages of `format`.
//!
//! Each is built the way its RFC's grammar writes it, or as a pattern where that reads better. What a format asks for
//! beyond its grammar is enforced too: days of the month, leap years, the hours of leap seconds, lengths of names.
//!
//! # Subsets
//! Where a format's language is not regular, or its automaton would be huge, a part of it stands for the whole:
//! everything in it is valid, and what is valid but left out is said here.
//! - `time`, `date-time`: leap seconds at offsets of whole and half hours only; `date-time` has them on any day.
//! - `hostname`: no labels that begin with `xn--` from draft 7 on (punycode cannot be decoded by an automaton), and
//!   names whose labels, each rounded up to a multiple of 16 with its dot, fit into 240 characters. `email` likewise.
//! - `email`: quoted pairs only where they are needed, and no `<` in quoted strings.
//! - `idn-hostname`, and the domain of `idn-email`: the letters of the most common scripts, where they need no rule about their
//!   context, in up to 4 labels, each of up to 7 characters, or of up to 15 with up to 5 outside of ASCII. So their
//!   punycode fits for certain.
//! - `uri-template`: no operators reserved for later. `relative-json-pointer`: no index manipulation.
//! - `regex`: groups nested up to two deep, no back-references, no named groups, and counts of at most three digits.

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

/// The automaton of a format, whose expression is `language`: built once per process, since formats are the same in every
/// schema and some take longer to build than all the rest.
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

/// The texts of a format; `None` if no specification defines the name.
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

/// RFC 4122, section 3; any version and variant.
fn uuid(rules: &mut Abnf<'_>) -> ExprId {
    rules.pattern("[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")
}

/// RFC 6901, section 3.
fn json_pointer(rules: &mut Abnf<'_>) -> ExprId {
    rules.pattern("(?:/(?:[^/~]|~[01])*)*")
}

/// draft-handrews-relative-json-pointer-01, section 3.
fn relative_json_pointer(rules: &mut Abnf<'_>) -> ExprId {
    rules.pattern("(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^/~]|~[01])*)*)")
}

#[cfg(test)]
mod tests;
