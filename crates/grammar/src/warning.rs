use std::fmt;

use crate::error::display_pointer;

/// A part of a grammar that has no effect, or that is read in another way than its definition.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Warning {
    /// A keyword of a JSON Schema that is not enforced, or that is read as in another draft.
    Keyword {
        /// Its place in the schema, as a JSON pointer.
        pointer: String,
        /// Its name.
        keyword: String,
        /// Why it has no effect, or what it is read as.
        reason: &'static str,
    },
    /// A member or a branch of a JSON Schema that no value satisfies, so that none is ever written.
    NeverWritten {
        /// Its place in the schema, as a JSON pointer.
        pointer: String,
        /// The keywords that clash there, as far as they are known.
        keywords: Vec<String>,
    },
    /// A rule of a GBNF grammar that `root` never comes to.
    UnreachableRule {
        /// Its name.
        rule: String,
        /// The line of its definition, from 1.
        line: usize,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyword { pointer, reason, .. } => write!(f, "{}: {reason}", display_pointer(pointer)),
            Self::NeverWritten { pointer, keywords } => {
                let place = display_pointer(pointer);
                write!(f, "{place}: no value can satisfy this, so it is never written")?;
                for (at, keyword) in keywords.iter().enumerate() {
                    write!(f, "{}`{keyword}`", if at == 0 { "; see " } else { " and " })?;
                }
                Ok(())
            }
            Self::UnreachableRule { rule, line } => {
                write!(f, "line {line}: `root` never comes to the rule `{rule}`")
            }
        }
    }
}
