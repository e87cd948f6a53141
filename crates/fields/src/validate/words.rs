//! Descriptions of expected values, for error messages.

use super::number;
use crate::field::{Array, Choice, Float, Int, Template, Text};

/// Maximum number of options that an error message lists.
const NAMED: usize = 20;

pub(super) fn integer(int: &Int) -> String {
    match (int.min, int.max) {
        (Some(min), Some(max)) => format!("an integer between {min} and {max}"),
        (Some(min), None) => format!("a 64-bit integer of at least {min}"),
        (None, Some(max)) => format!("a 64-bit integer of at most {max}"),
        (None, None) => "a 64-bit integer".to_owned(),
    }
}

pub(super) fn number(float: &Float) -> String {
    let (min, max, decimals) = number::range(float);
    let digits = match decimals {
        0 => "without decimals".to_owned(),
        1 => "with at most 1 decimal".to_owned(),
        _ => format!("with at most {decimals} decimals"),
    };
    format!("a number between {min} and {max} {digits}")
}

pub(super) fn length(text: &Text) -> String {
    format!("{} characters", range(text.min_length, text.max_length))
}

pub(super) fn items(array: &Array) -> String {
    format!("{} items", range(array.min_items, array.max_items))
}

fn range(min: usize, max: Option<usize>) -> String {
    match max {
        Some(max) if min == max => format!("{min}"),
        Some(max) => format!("{min} to {max}"),
        None => format!("{min} or more"),
    }
}

pub(super) fn options(choice: &Choice) -> String {
    let options: Vec<String> = choice.options.iter().take(NAMED).map(crate::field::Scalar::text).collect();
    let more = if options.len() < choice.options.len() { ", …" } else { "" };
    format!("one of {}{more}", options.join(", "))
}

pub(super) fn template(template: &Template) -> String {
    format!("{:?} with {} for each `<generated>`", template.template, length(&template.text))
}
