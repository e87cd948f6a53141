use std::fmt;

/// What a grammar says that has no effect on what is accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Warning {
    /// A keyword of a JSON Schema that is not enforced.
    Keyword {
        /// Its place in the schema, as a JSON pointer.
        pointer: String,
        /// Its name.
        keyword: String,
        /// Why it has no effect.
        reason: &'static str,
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
            Self::Keyword { pointer, reason, .. } => write!(f, "#{pointer}: {reason}"),
            Self::UnreachableRule { rule, line } => {
                write!(f, "line {line}: `root` never comes to the rule `{rule}`")
            }
        }
    }
}
