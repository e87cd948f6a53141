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
            Self::Keyword { pointer, reason, .. } => write!(f, "#{pointer}: {reason}"),
            Self::NeverWritten { pointer, keywords } => {
                write!(f, "#{pointer}: no value can satisfy this, so it is never written")?;
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
