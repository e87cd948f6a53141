//! Extraction of JSON from a text with prose, Markdown fences, reasoning or nested strings.
//!
//! A region is a part of the text that begins like JSON and has balanced brackets. The largest
//! region is extracted. A region that begins with the bracket of the schema's kind takes precedence
//! over larger ones.
//!
//! If the chosen region is not JSON, no smaller region is used instead, because that would be a
//! guess. A region inside another construct is never extracted either. Such constructs are brackets
//! that are not JSON, strings in a region and reasoning. Among regions of equal size, the valid one
//! is extracted. If none is valid, or if several valid ones differ, extraction fails.

mod region;

use std::borrow::Cow;

use super::kinds::Kinds;
use super::object::is_blank;
use super::report::{Outcome, Stage, StageReport, Violation};
use super::tape::{Document, Place, SyntaxError, Tape, unescape};
use super::{AdaptLimits, Adapter};
use region::{Fit, Region};

/// `Violation::keyword` for a text or value that can be read in several ways.
pub(super) const AMBIGUOUS: &str = "ambiguous";

/// Error of a text that could not be read.
pub(super) struct Unread {
    /// The region that is closest to JSON, if any, and its position.
    pub(super) region: Option<(String, Place)>,
    pub(super) violation: Violation,
}

/// Result of examining a text once.
enum Look<'t> {
    /// A value. The flag is true if there was other text around the value.
    Value(Tape<'t>, bool),
    /// The content of a string that contains JSON, unescaped.
    Inner(String),
    /// A region that is not JSON, with its offset and the error.
    Broken(&'t str, usize, SyntaxError),
    /// Nothing to read, with the reason.
    Nothing(Violation),
}

/// Extracts the value from `text`.
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
                let message = format!("the JSON is nested in more than {max_depth} string encodings");
                let violation = Violation::new("", "limit", message);
                return (
                    StageReport::fail(Stage::Extract, &violation),
                    Err(Unread { region: None, violation }),
                );
            }
            Look::Broken(region, offset, error) => {
                let violation = within(depth, violation(&layer, offset, &error));
                let report = StageReport {
                    transforms: report.transforms,
                    ..StageReport::fail(Stage::Extract, &violation)
                };
                let region = Some((region.to_owned(), Place::of(&layer, offset)));
                return (report, Err(Unread { region, violation }));
            }
            Look::Nothing(violation) => {
                let has_places = violation.keyword == AMBIGUOUS;
                let violation = if has_places { within(depth, violation) } else { violation };
                return (
                    StageReport::fail(Stage::Extract, &violation),
                    Err(Unread { region: None, violation }),
                );
            }
        }
    }
}

/// Adds to a message that the position is in a string, not in the text itself.
fn within(depth: u8, violation: Violation) -> Violation {
    match depth {
        0 => violation,
        _ => Violation { message: format!("in the string, {}", violation.message), ..violation },
    }
}

/// Describes a syntax error in the part of `text` that begins at `offset`.
pub(super) fn violation(text: &str, offset: usize, error: &SyntaxError) -> Violation {
    at(Place::of(text, offset + error.offset), error)
}

/// Describes a syntax error at a known position.
pub(super) fn at(Place { line, column }: Place, error: &SyntaxError) -> Violation {
    Violation::new(&error.path, "syntax", format!("line {line}, column {column}: {}", error.fault))
}

fn look<'t>(adapter: &Adapter, text: &'t str) -> Look<'t> {
    let AdaptLimits { max_depth, .. } = adapter.options().limits;
    let kinds = adapter.kinds;
    let whole = text.trim_matches(is_blank);
    match Tape::parse(whole, max_depth) {
        Ok(tape) => return string_or_value(adapter, tape, whole.len() < text.trim().len()),
        // The text is well-formed but refused. The problem is in the value, not in text around the
        // value.
        Err(error) if error.fault.is_refusal() => return Look::Broken(whole, offset_in(text, whole), error),
        Err(_) => {}
    }
    let body = region::without_thoughts(whole);
    if body.is_empty() && !whole.is_empty() {
        return nothing("the text contains only reasoning and no answer");
    }
    let regions = if kinds.has(Kinds::OBJECT | Kinds::ARRAY) {
        region::regions(body, wanted(adapter.meant))
    } else {
        Vec::new()
    };
    let rank = regions.iter().map(Region::rank).max();
    if let Some(inner) = in_string(adapter, body, &regions) {
        return Look::Inner(inner);
    }
    // A single fenced block that is JSON takes precedence over regions of another kind.
    if rank.is_none_or(|(fit, _)| fit < Fit::Wanted)
        && let Some(block) = region::only_block(body)
        && let Ok(tape) = Tape::parse(block.trim_matches(is_blank), max_depth)
    {
        return string_or_value(adapter, tape, true);
    }
    let mut largest = regions.iter().filter(|region| Some(region.rank()) == rank);
    let Some(first) = largest.next() else { return nothing("no JSON found in the text") };
    let mut alike = vec![first];
    alike.extend(largest.filter(|region| region.text != first.text));
    if alike.len() > 1 {
        return only(adapter, text, &alike);
    }
    match Tape::parse(first.text, max_depth) {
        Ok(tape) => Look::Value(tape, true),
        Err(error) => Look::Broken(first.text, offset_in(text, first.text), error),
    }
}

fn nothing(message: impl Into<String>) -> Look<'static> {
    Look::Nothing(Violation::new("", "syntax", message))
}

/// Among regions of equal size, returns the valid one.
fn only<'t>(adapter: &Adapter, text: &str, regions: &[&Region<'t>]) -> Look<'t> {
    let valid = |region: &&Region<'t>| {
        let tape = Tape::parse(region.text, adapter.options().limits.max_depth).ok();
        tape.filter(|tape| tape.is_valid(&adapter.on_tapes))
    };
    let mut readings = regions.iter().filter_map(valid);
    if let Some(reading) = readings.next() {
        let value = reading.value();
        if readings.all(|other| other.value() == value) {
            return Look::Value(reading, true);
        }
    }
    let place = |region: &&Region<'_>| {
        let Place { line, column } = Place::of(text, offset_in(text, region.text));
        format!("at line {line}, column {column}")
    };
    let places: Vec<String> = regions.iter().take(2).map(place).collect();
    let message = format!("ambiguous: the values {} have the same size", places.join(" and "));
    Look::Nothing(Violation::new("", AMBIGUOUS, message))
}

/// Returns the content of a string if the schema rejects the string, because the content may be the
/// value.
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

/// Returns the unescaped content of a string that begins with a bracket.
///
/// If a region of the wanted kind exists, the string must contain the best such region. Otherwise
/// the string must be outside of all regions, and may lack its quotes.
fn in_string(adapter: &Adapter, body: &str, regions: &[Region<'_>]) -> Option<String> {
    if !may_unescape(adapter) {
        return None;
    }
    let best = regions.iter().rev().max_by_key(|region| region.rank());
    let wanted = best.filter(|best| best.fit == Fit::Wanted);
    // Regions are ordered and disjoint.
    let is_part = |at: usize, least: Fit| {
        let before = regions.partition_point(|region| region.start <= at);
        before.checked_sub(1).is_some_and(|last| at < regions[last].end() && regions[last].fit >= least)
    };
    let is_taken = |&(start, inside): &(usize, &str)| {
        !is_part(start - 1, Fit::Broken)
            && wanted.is_none_or(|wanted| (start..start + inside.len()).contains(&wanted.start))
    };
    let until = wanted.map_or(body.len(), |wanted| wanted.start);
    let inside = region::strings(body, until).find(is_taken).map(|(_, inside)| inside);
    let unquoted = || {
        let escaped = region::escaped(body).filter(|_| wanted.is_none())?;
        Some(escaped).filter(|escaped| !is_part(offset_in(body, escaped), Fit::Other))
    };
    inside.or_else(unquoted).and_then(unescape)
}

fn may_unescape(adapter: &Adapter) -> bool {
    adapter.options().max_unescape_depth > 0 && adapter.kinds.has(Kinds::OBJECT | Kinds::ARRAY)
}

/// Returns the first bracket of the schema's values, if all begin with the same bracket.
fn wanted(kinds: Kinds) -> Option<u8> {
    match (kinds.has(Kinds::OBJECT), kinds.has(Kinds::ARRAY)) {
        (true, false) => Some(b'{'),
        (false, true) => Some(b'['),
        _ => None,
    }
}

fn offset_in(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

#[cfg(test)]
mod tests;
