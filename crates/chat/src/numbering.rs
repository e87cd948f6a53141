//! Numbers of calls that are part of a model's format.

use crate::tags::NUMBER;

/// Numbers that a template writes with calls.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Numbering {
    /// Number of the first call.
    pub(crate) first: u32,
    /// True if the numbers count the calls of the whole conversation, not of one turn.
    pub(crate) through: bool,
    /// The form of ids, if the format writes ids with the function's name and the number.
    pub(crate) ids: Option<IdForm>,
}

/// Ids of the form `start name middle number`, for example `functions.f:0`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct IdForm {
    start: String,
    middle: String,
}

impl Numbering {
    /// Returns the numbering of calls with the texts `open` before a name and `between` after a name.
    pub(crate) fn of(open: &str, between: &str, first: u32, through: bool) -> Self {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let start = &open[open.trim_end_matches(is_name).len()..];
        let middle = between.split_once(NUMBER).map(|(middle, _)| middle);
        let is_middle = |middle: &&str| middle.chars().all(|c| matches!(c, ':' | '.' | '-' | '_'));
        let form = middle.filter(is_middle).filter(|middle| !middle.is_empty() && through);
        let ids = form.map(|middle| IdForm { start: start.to_owned(), middle: middle.to_owned() });
        Self { first, through, ids }
    }

    /// Returns the number of the first call after `calls` calls of earlier turns.
    pub(crate) fn after(&self, calls: u32) -> u32 {
        self.first.saturating_add(if self.through { calls } else { 0 })
    }
}

impl IdForm {
    pub(crate) fn id(&self, name: &str, number: u32) -> String {
        format!("{}{name}{}{number}", self.start, self.middle)
    }
}

/// Returns an id of the form that templates expect if they print the id of a call and not its name.
pub(crate) fn named_id(name: &str, number: u32) -> String {
    format!("functions.{name}:{number}")
}
