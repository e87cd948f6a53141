//! JSON in what is not only JSON: prose around it, fences, thoughts in front, strings that it is in.
//!
//! The largest region that begins as JSON does and is balanced is taken, of the schema's kind if there is one. If that is not JSON, no
//! smaller one is taken in its place: that would be a guess.

mod region;

use std::borrow::Cow;

use super::kinds::Kinds;
use super::report::{Outcome, Stage, StageReport, Violation};
use super::tape::{Document, Place, SyntaxError, Tape, unescape};
use super::{AdaptLimits, Adapter};
use region::Region;

/// What could not be read.
pub(super) struct Unread {
    /// What is nearest to JSON, if anything is.
    pub(super) region: Option<String>,
    pub(super) violation: Violation,
}

/// What one look at a text gives.
enum Look<'t> {
    /// A value, and whether there was more around it.
    Value(Tape<'t>, bool),
    /// JSON in a string, with the string's escapes taken out.
    Inner(String),
    /// A region, its offset, and why it is not JSON.
    Broken(&'t str, usize, SyntaxError),
    Nothing,
}

/// Finds the value in `text`.
pub(super) fn extract(adapter: &Adapter, text: &str) -> (StageReport, Result<Document, Unread>) {
    let mut report = StageReport::new(Stage::Extract, Outcome::Success, "JSON was found");
    let max_depth = adapter.options().max_unescape_depth;
    let mut layer = Cow::Borrowed(text);
    let mut depth = 0;
    loop {
        match look(adapter, &layer) {
            Look::Value(tape, was_wrapped) => {
                if was_wrapped {
                    report.did("extract");
                }
                let document = tape.into_document();
                if depth == 0 && !was_wrapped {
                    return (StageReport::skip(Stage::Extract, "the text is JSON"), Ok(document));
                }
                report.did("json.loads");
                return (report, Ok(document));
            }
            Look::Inner(inner) if depth < max_depth => {
                report.did("unescape");
                depth += 1;
                layer = Cow::Owned(inner);
            }
            Look::Inner(_) => {
                let message = format!("there are more than {max_depth} layers of strings around the JSON");
                let violation = Violation::new("", "limit", message);
                return (
                    StageReport::fail(Stage::Extract, &violation),
                    Err(Unread { region: None, violation }),
                );
            }
            Look::Broken(region, offset, error) => {
                let violation = violation(&layer, offset, &error);
                let report = StageReport {
                    transforms: report.transforms,
                    ..StageReport::fail(Stage::Extract, &violation)
                };
                return (report, Err(Unread { region: Some(region.to_owned()), violation }));
            }
            Look::Nothing => {
                let violation = Violation::new("", "syntax", "there is no JSON in the text");
                return (
                    StageReport::fail(Stage::Extract, &violation),
                    Err(Unread { region: None, violation }),
                );
            }
        }
    }
}

/// Why a part of `text` at `offset` is not JSON, in words.
pub(super) fn violation(text: &str, offset: usize, error: &SyntaxError) -> Violation {
    let Place { line, column } = Place::of(text, offset + error.offset);
    Violation::new(&error.path, "syntax", format!("line {line}, column {column}: {}", error.fault))
}

fn look<'t>(adapter: &Adapter, text: &'t str) -> Look<'t> {
    let AdaptLimits { max_depth, .. } = adapter.options().limits;
    let kinds = adapter.kinds;
    let whole = text.trim_matches(is_blank);
    match Tape::parse(whole, max_depth) {
        Ok(tape) => return string_or_value(adapter, tape, whole.len() < text.trim().len()),
        // The value is clear; what is wrong with it is not around it.
        Err(error) if error.fault.is_refusal() => return Look::Broken(whole, offset_in(text, whole), error),
        Err(_) => {}
    }
    let body = region::without_thoughts(whole);
    let found =
        if kinds.has(Kinds::OBJECT | Kinds::ARRAY) { region::largest(body, preferred(kinds)) } else { None };
    if let Some(inner) = in_string(adapter, body, found) {
        return Look::Inner(inner);
    }
    // What is not of the kind that is asked for goes after a block that is JSON.
    if found.is_none_or(|found| !found.is_preferred)
        && let Some(block) = region::only_block(body)
        && let Ok(tape) = Tape::parse(block.trim_matches(is_blank), max_depth)
    {
        return string_or_value(adapter, tape, true);
    }
    let Some(found) = found else { return Look::Nothing };
    match Tape::parse(found.text, max_depth) {
        Ok(tape) => Look::Value(tape, true),
        Err(error) => Look::Broken(found.text, offset_in(text, found.text), error),
    }
}

/// A string may have the value in it, where the schema wants none.
fn string_or_value<'t>(adapter: &Adapter, tape: Tape<'t>, was_wrapped: bool) -> Look<'t> {
    match tape.as_str() {
        Some(inner)
            if may_unescape(adapter) && inner.contains(['{', '[']) && !tape.is_valid(&adapter.on_tapes) =>
        {
            Look::Inner(inner.into_owned())
        }
        _ => Look::Value(tape, was_wrapped),
    }
}

/// What is in a string that begins with a bracket, where that is not a part of what was found: it is around that, or there is nothing
/// better. The string's quotes may be missing.
fn in_string(adapter: &Adapter, body: &str, found: Option<Region<'_>>) -> Option<String> {
    if !may_unescape(adapter) {
        return None;
    }
    let is_better = found.is_some_and(|found| found.is_preferred);
    let inside = region::in_string(body).filter(|inside| {
        let starts = |found: Region<'_>| offset_in(body, found.text);
        let range = offset_in(body, inside)..offset_in(body, inside) + inside.len();
        !is_better || found.is_some_and(|found| range.contains(&starts(found)))
    });
    let inside = inside.or_else(|| if is_better { None } else { region::escaped(body) });
    inside.and_then(unescape)
}

fn may_unescape(adapter: &Adapter) -> bool {
    adapter.options().max_unescape_depth > 0 && adapter.kinds.has(Kinds::OBJECT | Kinds::ARRAY)
}

/// The bracket that the schema's values begin with, if they all begin with the same.
fn preferred(kinds: Kinds) -> Option<u8> {
    match (kinds.has(Kinds::OBJECT), kinds.has(Kinds::ARRAY)) {
        (true, false) => Some(b'{'),
        (false, true) => Some(b'['),
        _ => None,
    }
}

fn offset_in(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

/// Whitespace, and the marks of byte order that some servers leave in.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

#[cfg(test)]
mod tests;
