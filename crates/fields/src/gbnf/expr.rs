//! GBNF expressions, written in the syntax that llama.cpp reads.

use std::fmt;

use formwork_grammar::gbnf::{class_character, counts, literal};

use crate::Characters;

/// Maximum length in bytes of an expression that is kept on one line.
const LINE: usize = 100;

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Expr {
    Text(String),
    /// One character of a set.
    Class(Characters),
    Rule(String),
    Sequence(Vec<Self>),
    /// Any one of the expressions. Never empty.
    Alternatives(Vec<Self>),
    /// Repetition of an expression, with minimum and maximum count. `None` is unbounded.
    Repeat(Box<Self>, usize, Option<usize>),
}

impl Expr {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Concatenates expressions. Adjacent literals are merged.
    pub(crate) fn sequence(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut joined: Vec<Self> = Vec::new();
        for part in parts {
            let parts = if let Self::Sequence(parts) = part { parts } else { vec![part] };
            for part in parts {
                match (joined.last_mut(), part) {
                    (Some(Self::Text(before)), Self::Text(text)) => before.push_str(&text),
                    (_, part) => joined.push(part),
                }
            }
        }
        if joined.len() == 1 { joined.remove(0) } else { Self::Sequence(joined) }
    }

    pub(crate) fn alternatives(mut parts: Vec<Self>) -> Self {
        if parts.len() == 1 { parts.remove(0) } else { Self::Alternatives(parts) }
    }

    /// Repeats the expression `min` to `max` times. Returns an empty sequence if `max` is 0.
    pub(crate) fn repeat(self, min: usize, max: Option<usize>) -> Self {
        match (min, max) {
            (_, Some(0)) => Self::Sequence(Vec::new()),
            (1, Some(1)) => self,
            _ => Self::Repeat(Box::new(self), min, max),
        }
    }

    pub(crate) fn optional(self) -> Self {
        self.repeat(0, Some(1))
    }

    fn write(&self, context: Context, out: &mut String) {
        let group = match self {
            Self::Alternatives(_) => context > Context::Alternative,
            Self::Sequence(parts) => context == Context::Repeat && parts.len() != 1,
            Self::Text(_) | Self::Class(_) | Self::Rule(_) => false,
            Self::Repeat(..) => context == Context::Repeat,
        };
        out.push_str(if group { "(" } else { "" });
        match self {
            Self::Text(text) => literal(text, out),
            Self::Class(set) => class(set, out),
            Self::Rule(name) => out.push_str(name),
            Self::Sequence(parts) if parts.is_empty() => out.push_str("\"\""),
            Self::Sequence(parts) => joined(parts, " ", Context::Sequence, out),
            Self::Alternatives(parts) => joined(parts, " | ", Context::Alternative, out),
            Self::Repeat(item, min, max) => {
                item.write(Context::Repeat, out);
                counts(*min, *max, out);
            }
        }
        out.push_str(if group { ")" } else { "" });
    }
}

/// Context of an expression, in order of binding strength. The context determines whether
/// parentheses are needed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Context {
    Alternative,
    Sequence,
    Repeat,
}

impl fmt::Display for Expr {
    /// Writes the expression as the right side of a rule. Long alternatives and sequences span
    /// several lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        self.write(Context::Alternative, &mut line);
        match self {
            Self::Alternatives(parts) if line.len() > LINE => {
                line.clear();
                joined(parts, " |\n  ", Context::Alternative, &mut line);
            }
            Self::Sequence(parts) if line.len() > LINE => {
                line.clear();
                line.push('(');
                for part in parts {
                    // Literals and repetitions start a new line. Other parts follow on the same
                    // line, so a member's name and value stay together.
                    let begins = matches!(part, Self::Text(_) | Self::Repeat(..));
                    line.push_str(if begins { "\n  " } else { " " });
                    part.write(Context::Sequence, &mut line);
                }
                line.push_str("\n)");
            }
            _ => {}
        }
        f.write_str(&line)
    }
}

fn joined(parts: &[Expr], between: &str, context: Context, out: &mut String) {
    for (at, part) in parts.iter().enumerate() {
        out.push_str(if at > 0 { between } else { "" });
        part.write(context, out);
    }
}

fn class(set: &Characters, out: &mut String) {
    let (ranges, outside) = (set.ranges(), set.complement());
    // A class that reaches `char::MAX` is usually shorter in negated form.
    let negated = !outside.is_empty() && ranges.last().is_some_and(|last| last.1 == char::MAX);
    out.push_str(if negated { "[^" } else { "[" });
    for &(low, high) in if negated { outside.as_slice() } else { ranges } {
        class_character(low, out);
        if low < high {
            out.push('-');
            class_character(high, out);
        }
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_parentheses_only_where_needed() {
        let text = |text: &str| Expr::text(text);
        let either = Expr::alternatives(vec![text("a"), Expr::sequence([text("b"), Expr::Rule("c".into())])]);
        assert_eq!(either.to_string(), r#""a" | "b" c"#);
        assert_eq!(Expr::sequence([text("x"), either.clone()]).to_string(), r#""x" ("a" | "b" c)"#);
        assert_eq!(either.clone().repeat(2, None).to_string(), r#"("a" | "b" c){2,}"#);
        assert_eq!(either.repeat(1, Some(1)).to_string(), r#""a" | "b" c"#);
        assert_eq!(text("ab").repeat(0, Some(3)).to_string(), r#""ab"{0,3}"#);
        assert_eq!(text("a").repeat(0, Some(0)).to_string(), r#""""#);
        let escaped = Expr::sequence([text("a"), text("\"\\\n\u{1}é€")]).to_string();
        assert_eq!(escaped, r#""a\"\\\n\x01\xE9\u20AC""#);
    }

    #[test]
    fn escapes_special_characters_in_classes() {
        let class = |ranges: &[(char, char)]| Expr::Class(Characters::of(ranges.to_vec())).to_string();
        assert_eq!(class(&[('-', '-'), ('[', '^')]), r"[\x2D\[-\x5E]");
        assert_eq!(class(&[(' ', '!'), ('#', '['), (']', char::MAX)]), r#"[^\x00-\x1F"\\]"#);
        assert_eq!(class(&[('\u{2000}', '\u{FFFF}')]), r"[\u2000-\uFFFF]");
        assert_eq!(class(&[('\0', '\u{D7FF}'), ('\u{E001}', char::MAX)]), r"[^\uE000]");
    }
}
