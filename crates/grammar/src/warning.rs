use std::borrow::Cow;
use std::fmt;

use crate::error::display_pointer;

/// A part of a grammar that has no effect, or that is read differently from its definition.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Warning {
    /// A keyword of a JSON Schema that is not enforced, or that is read as in another draft.
    Keyword {
        /// JSON pointer of the place in the schema.
        pointer: String,
        /// Name of the keyword.
        keyword: String,
        /// Reason why the keyword has no effect, or a description of how it is read instead.
        reason: Cow<'static, str>,
    },
    /// A member or a branch of a JSON Schema that no value satisfies. No output contains it.
    NeverWritten {
        /// JSON pointer of the place in the schema.
        pointer: String,
        /// Keywords that contradict each other at this location, as far as they are known.
        keywords: Vec<String>,
    },
    /// A rule of a GBNF or Lark grammar that is unreachable from the rule that a grammar starts with.
    UnreachableRule {
        /// Name of the rule.
        rule: String,
        /// Line of the definition, starting at 1.
        line: usize,
        /// Name of the rule that a grammar starts with: `root` in GBNF and `start` in Lark.
        start: &'static str,
    },
    /// A warning about a [`Part::At`](crate::Part::At).
    At {
        /// Location of the part.
        place: String,
        /// The warning about the part.
        warning: Box<Self>,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyword { pointer, reason, .. } => write!(f, "{}: {reason}", display_pointer(pointer)),
            Self::NeverWritten { pointer, keywords } => {
                let place = display_pointer(pointer);
                write!(f, "{place}: no value can satisfy this, so it is never generated")?;
                for (at, keyword) in keywords.iter().enumerate() {
                    write!(f, "{}`{keyword}`", if at == 0 { "; see " } else { " and " })?;
                }
                Ok(())
            }
            Self::UnreachableRule { rule, line, start } => {
                write!(f, "line {line}: rule `{rule}` is unreachable from `{start}`")
            }
            Self::At { place, warning } => write!(f, "{place}: {warning}"),
        }
    }
}
