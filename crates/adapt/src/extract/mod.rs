//! Extraction of JSON from a text with prose, Markdown fences, reasoning or nested strings.
//!
//! A region is a part of the text that begins like JSON and has balanced brackets. Among several
//! regions, those are tried first that the stages of the level make valid. If their values are
//! equal, the first region is extracted. If they differ, [`Prefer`] decides; by default, extraction
//! fails and lists their places.
//!
//! If no region can become valid, the largest one is extracted, so that its errors are reported. A
//! region that begins with the bracket of the schema's kind takes precedence over larger ones.
//!
//! An object with a property that the schema names takes precedence over an object without such a
//! property. Many schemas accept any object.
//!
//! A valid value may be an example, a draft or a format. Extraction fails as well if another part of
//! the text may be the answer, for example in another notation or cut off.
//!
//! A region inside another construct is never extracted. Such constructs are brackets that are not
//! JSON, strings in a region and reasoning. If several regions have the largest size, extraction
//! fails.

mod names;
mod region;
mod rivals;

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::Adapter;
use super::chain::Deadline;
use super::cues::Placed;
use super::kinds::Kinds;
use super::object::is_blank;
use super::options::{OutputProcessing, Prefer, Tolerance};
use super::report::{Outcome, Stage, StageReport, Violation};
use super::tape::{Document, Place, SyntaxError, Tape, unescape};
use super::thoughts;
use names::Named;
use region::{Fit, Region};
use rivals::{Chosen, rivals};

/// `Violation::keyword` for a text or value that can be read in several ways.
pub(super) const AMBIGUOUS: &str = "ambiguous";

/// Maximum number of regions that are tried. If there are more, the text is not an answer with some
/// prose.
const MOST_REGIONS: usize = 1 << 10;
/// Maximum number of places in an error.
const SHOWN_PLACES: usize = 8;

/// Error of a text that could not be read.
pub(super) struct Unread {
    pub(super) region: Option<Unparsed>,
    pub(super) violation: Violation,
}

/// The region that is closest to JSON.
pub(super) struct Unparsed {
    pub(super) text: String,
    /// Position of its beginning.
    pub(super) begins: Place,
    /// True if no other text follows.
    pub(super) is_last: bool,
    /// Error of the region.
    pub(super) error: SyntaxError,
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
pub(super) fn extract(
    adapter: &Adapter,
    text: &str,
    level: OutputProcessing,
    deadline: Deadline,
) -> (StageReport, Result<Document, Unread>) {
    let mut report = StageReport::new(Stage::Extract, Outcome::Success, "JSON was found");
    let max_depth = adapter.options().max_unescape_depth;
    let mut layer = Cow::Borrowed(text);
    let mut depth = 0;
    loop {
        match look(adapter, &layer, level, deadline) {
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
                let region = Some(Unparsed {
                    text: region.to_owned(),
                    begins: Place::of(&layer, offset),
                    is_last: layer[offset + region.len()..].trim().is_empty(),
                    error,
                });
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

fn look<'t>(adapter: &Adapter, text: &'t str, level: OutputProcessing, deadline: Deadline) -> Look<'t> {
    let syntax = adapter.options().syntax();
    let kinds = adapter.kinds;
    let whole = text.trim_matches(is_blank);
    match Tape::parse(whole, syntax) {
        Ok(tape) => return string_or_value(adapter, tape, whole.len() < text.trim().len()),
        // The text is well-formed but refused. The problem is in the value, not in text around the
        // value.
        Err(error) if error.fault.is_refusal() => return Look::Broken(whole, offset_in(text, whole), error),
        Err(_) => {}
    }
    let body = thoughts::without_thoughts(whole);
    if body.is_empty() && !whole.is_empty() {
        return nothing("the text contains only reasoning and no answer");
    }
    let mut regions = if kinds.has(Kinds::OBJECT | Kinds::ARRAY) {
        region::regions(body, wanted(adapter.meant))
    } else {
        Vec::new()
    };
    if regions.len() > 1 {
        region::mark_named(&mut regions, Named::new(adapter.named()));
    }
    let rank = regions.iter().map(Region::rank).max();
    if let Some((part, inner)) = in_string(adapter, body, &regions) {
        let chosen = Chosen { text: part, value: None, settled: HashSet::new(), regions: &regions };
        return match alone(adapter, text, body, &chosen, deadline) {
            Ok(()) => Look::Inner(inner),
            Err(violation) => Look::Nothing(violation),
        };
    }
    match fitting(adapter, text, &regions, level, deadline) {
        Ok(None) => {}
        Ok(Some((region, chosen))) => {
            return match alone(adapter, text, body, &chosen, deadline) {
                Ok(()) => read(adapter, text, region),
                Err(violation) => Look::Nothing(violation),
            };
        }
        Err(violation) => return Look::Nothing(violation),
    }
    // A single fenced block that is JSON takes precedence over regions of another kind.
    if rank.is_none_or(|(fit, ..)| fit < Fit::Wanted)
        && let Some(block) = region::only_block(body)
        && let Ok(tape) = Tape::parse(block.trim_matches(is_blank), syntax)
    {
        return string_or_value(adapter, tape, true);
    }
    let mut largest = regions.iter().filter(|region| Some(region.rank()) == rank);
    let Some(first) = largest.next() else { return nothing("no JSON found in the text") };
    if let Some(other) = largest.find(|region| region.text != first.text) {
        return Look::Nothing(ambiguous("have the same size", text, &[first.text, other.text]));
    }
    let value = adapter.fitted(first.text, level, adapter.options().tolerance, deadline);
    if value.is_some() || adapter.options().allow_truncated {
        let last = regions.iter().rev().find(|region| region.text == first.text).unwrap_or(first);
        let chosen = Chosen { text: last.text, value, settled: HashSet::new(), regions: &regions };
        if let Err(violation) = alone(adapter, text, body, &chosen, deadline) {
            return Look::Nothing(violation);
        }
    }
    read(adapter, text, first)
}

/// Checks that no other part of the text may be the answer instead of the chosen value.
///
/// # Errors
/// Returns a violation with the places of the values.
fn alone<'t>(
    adapter: &Adapter,
    text: &str,
    body: &'t str,
    chosen: &Chosen<'_, 't>,
    deadline: Deadline,
) -> Result<(), Violation> {
    let mut parts = rivals(adapter, body, chosen, deadline)?;
    if parts.is_empty() {
        return Ok(());
    }
    let place = |part: &&str| offset_in(text, part);
    let own = offset_in(text, chosen.text);
    let before = parts.iter().filter(|part| place(part) < own).count();
    let which = match (before, parts.len()) {
        (0, _) => "first",
        (before, all) if before == all => "last",
        _ => "one between",
    };
    parts.insert(before, chosen.text);
    let reason = format!("look like answers, and only the {which} matches the schema");
    Err(ambiguous(&reason, text, &parts))
}

/// Parses a region.
fn read<'t>(adapter: &Adapter, text: &str, region: &Region<'t>) -> Look<'t> {
    match Tape::parse(region.text, adapter.options().syntax()) {
        Ok(tape) => Look::Value(tape, true),
        Err(error) => Look::Broken(region.text, offset_in(text, region.text), error),
    }
}

fn nothing(message: impl Into<String>) -> Look<'static> {
    Look::Nothing(Violation::new("", "syntax", message))
}

/// Among several regions, returns the one to extract because its value is valid or can become so.
/// Returns `None` if there is no such region, or only one region in all.
///
/// # Errors
/// Returns a violation if the values of several regions are valid, or could be with more tolerance,
/// and differ, and the options prefer none of them. Also returns a violation if there are too many
/// regions.
fn fitting<'r, 't>(
    adapter: &Adapter,
    text: &str,
    regions: &'r [Region<'t>],
    level: OutputProcessing,
    deadline: Deadline,
) -> Result<Option<(&'r Region<'t>, Chosen<'r, 't>)>, Violation> {
    let mut wanted: Vec<&Region<'t>> = regions.iter().filter(|region| region.fit == Fit::Wanted).collect();
    if wanted.iter().any(|region| region.has_named) {
        wanted.retain(|region| region.has_named || region.text.starts_with('['));
    }
    if wanted.len() < 2 {
        return Ok(None);
    }
    if wanted.len() > MOST_REGIONS {
        let count = wanted.len();
        let message = format!("the text has {count} parts that look like JSON; the limit is {MOST_REGIONS}");
        return Err(Violation::new("", "limit", message));
    }
    let mut found: Vec<Fitting<'_, 't>> = Vec::new();
    let mut settled = HashSet::new();
    for region in wanted {
        deadline.check()?;
        let fitted = |level, tolerance| adapter.fitted(region.text, level, tolerance, deadline);
        let value = fitted(level, adapter.options().tolerance);
        let fits = value.is_some();
        // A region that more tolerance would make valid may be meant as well.
        let Some(value) = value.or_else(|| fitted(OutputProcessing::Full, Tolerance::Repair)) else {
            continue;
        };
        settled.insert(region.start);
        match found.iter_mut().find(|known| known.value == value) {
            None => found.push(Fitting { region, last: region, value, fits }),
            Some(known) => {
                known.last = region;
                if fits && !known.fits {
                    (known.region, known.fits) = (region, true);
                }
            }
        }
    }
    let all: Vec<&str> = found.iter().map(|found| found.region.text).collect();
    let count = found.len();
    found.retain(|found| found.fits);
    let fitting = match adapter.options().prefer {
        Prefer::Only if count > 1 && !found.is_empty() => {
            return Err(ambiguous("match the schema", text, &all));
        }
        Prefer::Only | Prefer::First => found.into_iter().next(),
        Prefer::Last => found.into_iter().next_back(),
        Prefer::Largest => {
            let most = found.iter().map(|found| found.region.text.len()).max();
            found.retain(|found| Some(found.region.text.len()) == most);
            if found.len() > 1 {
                let largest: Vec<&str> = found.iter().map(|found| found.region.text).collect();
                return Err(ambiguous("match the schema and have the same size", text, &largest));
            }
            found.pop()
        }
    };
    Ok(fitting.map(|Fitting { region, last, value, .. }| {
        (region, Chosen { text: last.text, value: Some(value), settled, regions })
    }))
}

/// A region whose value is valid, or could be with more tolerance.
struct Fitting<'r, 't> {
    region: &'r Region<'t>,
    /// The last region with the same value.
    last: &'r Region<'t>,
    value: Value,
    /// True if the options suffice.
    fits: bool,
}

/// Creates the violation for parts of the text with different values. `reason` completes the sentence "the
/// values at … and at …".
fn ambiguous(reason: &str, text: &str, parts: &[&str]) -> Violation {
    let place = |part: &&str| {
        let Place { line, column } = Place::of(text, offset_in(text, part));
        format!("at line {line}, column {column}")
    };
    let mut places: Vec<String> = parts.iter().take(SHOWN_PLACES).map(place).collect();
    if parts.len() > SHOWN_PLACES {
        places.push(format!("{} more", parts.len() - SHOWN_PLACES));
    }
    let last = places.pop().unwrap_or_default();
    Violation::new("", AMBIGUOUS, format!("ambiguous: the values {} and {last} {reason}", places.join(", ")))
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

/// Returns a string that begins with a bracket, and its unescaped content.
///
/// If a region of the wanted kind exists, the string must contain the best such region. Otherwise
/// the string must be outside of all regions, and may lack its quotes.
fn in_string<'t>(adapter: &Adapter, body: &'t str, regions: &[Region<'_>]) -> Option<(&'t str, String)> {
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
    let part = inside.or_else(unquoted)?;
    Some((part, unescape(part)?))
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
