//! Texts of the placeholders in prompt templates.

use std::fmt::Display;

use crate::Characters;
use crate::field::{Choice, Float, Int, Scalar, Template, Text};

/// Form of a placeholder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `integer between 1–100`, `string of 3–20 characters`.
    Long,
    /// `1–100`, `string of 3–20 characters`: the form within the first structure of a variant. The
    /// strings there explain the short form in the other structures.
    First,
    /// `1–100`, `3–20 chars`.
    Short,
}

impl Form {
    /// Returns the form within the structure `index` of a variant.
    pub(super) fn within_structure(self, index: usize) -> Self {
        if index == 0 && self != Self::Short { Self::First } else { Self::Short }
    }
}

pub(super) fn quoted(text: &str) -> String {
    Scalar::from(text).text()
}

pub(super) fn one_line(hint: &str) -> String {
    hint.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a description in parentheses, with a leading space. Returns an empty string if there is
/// no description.
pub(super) fn in_brackets(hint: Option<&str>) -> String {
    hint.map(|hint| format!(" ({})", one_line(hint))).unwrap_or_default()
}

pub(super) fn integer(int: &Int, form: Form) -> String {
    bounds(int.min, int.max, "integer", form)
}

pub(super) fn number(float: &Float, form: Form) -> String {
    let digits = match float.decimals {
        None => String::new(),
        Some(0) => " without decimals".to_owned(),
        Some(1) => " with at most 1 decimal".to_owned(),
        Some(decimals) => format!(" with at most {decimals} decimals"),
    };
    bounds(float.min, float.max, "number", form) + &digits
}

fn bounds<N: Display>(min: Option<N>, max: Option<N>, what: &str, form: Form) -> String {
    let of = if form == Form::Long { format!("{what} of ") } else { String::new() };
    match (min, max) {
        (Some(min), Some(max)) if form == Form::Long => format!("{what} between {min}–{max}"),
        (Some(min), Some(max)) => format!("{min}–{max}"),
        (Some(min), None) => format!("{of}at least {min}"),
        (None, Some(max)) => format!("{of}at most {max}"),
        (None, None) => what.to_owned(),
    }
}

pub(super) fn string(text: &Text, form: Form) -> String {
    let set = set(text.characters.as_ref());
    match (length(text), form) {
        (None, _) => format!("string{set}"),
        (Some(length), Form::Short) => format!("{length} chars{set}"),
        (Some(length), _) => format!("string of {length} characters{set}"),
    }
}

/// Returns ` of [class]` with the allowed characters in the notation of a regex class. Returns an
/// empty string if the characters are not restricted.
fn set(characters: Option<&Characters>) -> String {
    characters.map(|set| format!(" of [{set}]")).unwrap_or_default()
}

/// Returns the bounds of the length of a text, such as `3–20`. Returns `None` if any length is
/// allowed.
fn length(text: &Text) -> Option<String> {
    match (text.min_length, text.max_length) {
        (0, None) => None,
        (min, None) => Some(format!("{min} or more")),
        (min, Some(max)) => Some(format!("{min}–{max}")),
    }
}

/// Returns the text of a template string, with a placeholder such as `<text of 3–20 characters>` in
/// each place.
pub(super) fn filled(template: &Template, hint: Option<&str>) -> String {
    let length = length(&template.text).map(|length| format!(" of {length} characters"));
    let set = set(template.text.characters.as_ref());
    let place = format!("<text{}{set}{}>", length.unwrap_or_default(), in_brackets(hint));
    template.literals().join(&place)
}

pub(super) fn options(choice: &Choice, shares: bool) -> String {
    let total: f64 = choice.weights.iter().sum();
    let share = |index: usize| match choice.weights.get(index).filter(|_| shares) {
        Some(weight) => format!(" ({})", percent(weight / total)),
        None => String::new(),
    };
    let options = choice.options.iter().enumerate();
    let options: Vec<String> = options.map(|(index, option)| option.text() + &share(index)).collect();
    format!("choice between [{}]", options.join(", "))
}

/// Returns `, with shares of 75%, 25%`. Returns an empty string if there are no weights.
pub(super) fn shares(weights: &[f64]) -> String {
    let total: f64 = weights.iter().sum();
    let shares: Vec<String> = weights.iter().map(|weight| percent(weight / total)).collect();
    if shares.is_empty() { String::new() } else { format!(", with shares of {}", shares.join(", ")) }
}

/// Returns ` (75%)`.
pub(super) fn in_percent(probability: f64) -> String {
    format!(" ({})", percent(probability))
}

/// Formats a share from 0 to 1 as a percentage.
///
/// From 1% to 99%, percentages are whole. Closer to 0% or 100%, they have up to three decimals, so
/// that only a share of exactly 1 is shown as 100%.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let least = percent.min(100.0 - percent);
    if share >= 1.0 || least >= 1.0 {
        return format!("{percent:.0}%");
    }
    if least < 0.001 {
        return if percent < 50.0 { "under 0.001%" } else { "over 99.999%" }.to_owned();
    }
    // Subtract a small amount, because 100 - 99.9 is slightly less than 0.1 in floating point.
    let digits = (-least.log10() - 1e-6).ceil() as usize;
    format!("{percent:.digits$}%")
}
