//! Path of a field within its definition, such as `stats.strength`.

use std::fmt;

use crate::error::{Fault, FieldsError, Problem};

/// Path as a linked list: each path contains its last step and a reference to the path before.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Self>,
    step: Step<'a>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    /// The whole definition. Written as `$` if no other step follows, and otherwise omitted.
    Root,
    Definition(&'a str),
    Name(&'a str),
    Index(usize),
    Element,
}

impl<'a> Path<'a> {
    pub(crate) const fn root() -> Self {
        Self { parent: None, step: Step::Root, depth: 0 }
    }

    pub(crate) const fn definition(name: &'a str) -> Self {
        Self { parent: None, step: Step::Definition(name), depth: 0 }
    }

    pub(crate) const fn name(&'a self, name: &'a str) -> Self {
        self.then(Step::Name(name))
    }

    /// Returns the path extended by `name`, or by `index` if there is no name.
    pub(crate) fn name_or_index(&'a self, name: Option<&'a str>, index: usize) -> Self {
        name.map_or_else(|| self.then(Step::Index(index)), |name| self.name(name))
    }

    pub(crate) const fn element(&'a self) -> Self {
        self.then(Step::Element)
    }

    /// Returns the number of steps after the root or named structure at which the path starts.
    pub(crate) const fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn error(&self, problem: Problem) -> FieldsError {
        Fault::Field { path: self.to_string(), problem }.into()
    }

    const fn then(&'a self, step: Step<'a>) -> Self {
        Self { parent: Some(self), step, depth: self.depth + 1 }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_first = match self.parent {
            None | Some(Path { step: Step::Root, .. }) => true,
            Some(parent) => {
                parent.fmt(f)?;
                false
            }
        };
        let dot = if is_first { "" } else { "." };
        match self.step {
            // Unambiguous, because a member named `$` is written as `["$"]`.
            Step::Root => f.write_str("$"),
            Step::Definition(name) => write!(f, "definitions.{name}"),
            Step::Name(name) if is_plain(name) && !(is_first && name == "definitions") => {
                write!(f, "{dot}{name}")
            }
            Step::Name(name) => write!(f, "[{}]", serde_json::Value::from(name)),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Element => f.write_str("[]"),
        }
    }
}

/// Reports whether a path can contain the name without brackets and quotes.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}
