//! Judgement of one answer. Only the `jsonschema` crate and a JSON parser decide.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use super::keywords::{self, ANY_SCHEMA};
use super::{Case, Verdict, Violation};
use crate::Failure;
use formwork_protocol::adapt::thoughts::TAGS;

/// Maximum number of violations that are recorded for an answer.
const VIOLATIONS: usize = 20;
/// Maximum number of violations that are searched for the keyword of a probe.
const ERRORS: usize = 1000;
/// Maximum number of places at which a value is searched in a text around it.
const STARTS: usize = 64;

/// Judgement of the text of an answer.
pub(super) struct Judgement {
    pub(super) valid: bool,
    pub(super) complete: bool,
    pub(super) closed: bool,
    pub(super) equal: Option<bool>,
    pub(super) violations: Vec<Violation>,
    pub(super) verdict: Option<Verdict>,
    /// First reason why the answer is not as it should be. `None` if it is.
    pub(super) failure: Option<Failure>,
}

/// Judges the text of an answer to a case. `is_complete` is false if the answer was cut off.
pub(super) fn judge(case: &Case, validator: &Validator, text: &str, is_complete: bool) -> Judgement {
    let (value, closed) = read(text);
    let mut probed = false;
    let is_framed = case.violates.as_ref().is_some_and(|wanted| is_framed(case, wanted));
    let mut violations = Vec::new();
    for error in value.iter().flat_map(|value| validator.iter_errors(value)).take(ERRORS) {
        let path = error.evaluation_path().as_str().to_owned();
        let keyword = keyword_of(&error, &path);
        let place = error.instance_path().as_str().to_owned();
        probed |= case
            .violates
            .as_ref()
            .is_some_and(|wanted| *wanted == keyword || keywords::on_path(&path).contains(wanted));
        // The answer has not even the outer form of the schema, so the server does not follow the schema.
        probed |= is_framed && place.is_empty();
        if violations.len() < VIOLATIONS {
            violations.push(Violation { keyword, place, message: short(&error.to_string()) });
        }
    }
    let valid = value.is_some() && violations.is_empty();
    let equal = case
        .expected
        .as_ref()
        .map(|_| value.as_ref().and_then(|value| case.is_expected(value)) == Some(true));
    let verdict = case.violates.as_ref().map(|wanted| {
        let is_other = !probed && *wanted != ANY_SCHEMA;
        // A value may be missing only because the text was cut off.
        let is_cut_off = !closed && !is_complete;
        // Text around the value says nothing about the keyword.
        if valid && !is_cut_off {
            Verdict::Enforced
        } else if text.trim().is_empty() || is_cut_off || (value.is_some() && is_other) {
            Verdict::Inconclusive
        } else {
            Verdict::Ignored
        }
    });
    let mut judgement =
        Judgement { valid, complete: is_complete, closed, equal, violations, verdict, failure: None };
    judgement.failure = failure(text, value.is_some(), &judgement);
    judgement
}

/// Reports whether the keyword is about a value inside of the schema's outer form. In the built-in
/// probes, this value is the member `value`.
fn is_framed(case: &Case, keyword: &str) -> bool {
    let members = case.schema.get("properties").and_then(Value::as_object);
    let is_built_in = members.is_some_and(|members| members.len() == 1 && members.contains_key("value"));
    is_built_in || !keywords::is_at_top(&case.schema, keyword)
}

/// Returns the first reason why an answer is not as it should be.
fn failure(text: &str, has_value: bool, judged: &Judgement) -> Option<Failure> {
    let fail = |category: &str, message: String| Some(Failure::new(category, message));
    if text.trim().is_empty() {
        return fail("EMPTY", "the answer has no text".to_owned());
    }
    if !judged.complete {
        return fail("TRUNCATED", "the token limit cut off the answer".to_owned());
    }
    if !has_value {
        return fail("NOT_JSON", "the answer has no JSON value".to_owned());
    }
    if let Some(first) = judged.violations.first() {
        let place = if first.place.is_empty() { "the whole value" } else { first.place.as_str() };
        return fail("INVALID", format!("`{}` at {place}: {}", first.keyword, first.message));
    }
    if !judged.closed {
        return fail("NOT_CLOSED", "the answer has text before or after the JSON value".to_owned());
    }
    if judged.equal == Some(false) {
        return fail("NOT_EQUAL", "the answer is not the expected value".to_owned());
    }
    None
}

/// Returns the JSON value of an answer, and whether the answer consists of nothing else. If there is
/// text around the value, returns the first object or array after thoughts, or a value at the start.
fn read(text: &str) -> (Option<Value>, bool) {
    if let Ok(value) = formwork_json::from_str(text) {
        return (Some(value), true);
    }
    let text = after_thoughts(text);
    let at_start =
        |text: &str| formwork_json::from_start::<Value>(text).ok().flatten().map(|(value, _)| value);
    let trimmed = text.trim_start();
    let mut starts = trimmed.match_indices(['{', '[']).map(|(at, _)| &trimmed[at..]).take(STARTS);
    (at_start(trimmed).or_else(|| starts.find_map(at_start)), false)
}

/// Returns the text after the thoughts at its beginning, which the prompt may have begun. Thoughts that
/// were cut off extend to the end.
fn after_thoughts(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some((open, close)) = TAGS.into_iter().find(|(open, _)| rest.starts_with(open)) {
        let inside = &rest[open.len()..];
        rest = inside.split_once(close).map_or("", |(_, after)| after).trim_start();
    }
    if rest.starts_with(['{', '[']) {
        return rest;
    }
    let closes = TAGS.iter().map(|(_, close)| *close).filter(|close| close.contains('/'));
    let closes = closes.filter_map(|close| rest.split_once(close));
    closes.map(|(_, after)| after.trim_start()).min_by_key(|after| after.len()).unwrap_or(rest)
}

/// Returns the name of the violated keyword.
fn keyword_of(error: &ValidationError<'_>, path: &str) -> String {
    match error.kind() {
        ValidationErrorKind::Format { format } => keywords::format_name(format),
        _ => keywords::on_path(path).pop().unwrap_or_else(|| error.kind().keyword().to_owned()),
    }
}

/// Maximum number of characters in the message of a violation. The messages quote the answer.
const MESSAGE: usize = 300;

fn short(message: &str) -> String {
    match message.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}
