//! Spelling of GBNF terminals and counts, for programs that write grammars.
//!
//! llama.cpp and [`Grammar::gbnf`](crate::Grammar::gbnf) read these spellings.
//! [`Grammar::to_gbnf`](crate::Grammar::to_gbnf) writes them.
//!
//! ```
//! use formwork_grammar::{Grammar, Limits, gbnf};
//! let mut source = String::from("root ::= ");
//! gbnf::literal("say \"hi\"", &mut source);
//! gbnf::counts(1, Some(3), &mut source);
//! assert_eq!(source, r#"root ::= "say \"hi\""{1,3}"#);
//! let grammar = Grammar::gbnf(&source, &Limits::default())?;
//! assert!(grammar.accepts(b"say \"hi\"say \"hi\""));
//! # Ok::<(), formwork_grammar::GrammarError>(())
//! ```

use std::fmt::Write;

/// Appends a literal in double quotes that matches `text`.
pub fn literal(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            _ => character(c, out),
        }
    }
    out.push('"');
}

/// Appends a character as it stands inside the brackets of a class.
pub fn class_character(c: char, out: &mut String) {
    match c {
        '\\' | ']' | '[' => out.extend(['\\', c]),
        // Some versions of llama.cpp do not accept `\-` and `\^`.
        '-' | '^' => escape('x', 2, c, out),
        _ => character(c, out),
    }
}

/// Appends the suffix that repeats the item before it `min` to `max` times. `None` is unbounded.
pub fn counts(min: usize, max: Option<usize>, out: &mut String) {
    // Writing to a `String` cannot fail.
    let _ = match (min, max) {
        (0, None) => write!(out, "*"),
        (1, None) => write!(out, "+"),
        (0, Some(1)) => write!(out, "?"),
        (min, None) => write!(out, "{{{min},}}"),
        (min, Some(max)) if min == max => write!(out, "{{{min}}}"),
        (min, Some(max)) => write!(out, "{{{min},{max}}}"),
    };
}

fn character(c: char, out: &mut String) {
    let code = u32::from(c);
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        ' '..='~' => out.push(c),
        _ if code < 0x100 => escape('x', 2, c, out),
        _ if c.is_alphanumeric() => out.push(c),
        _ if code < 0x1_0000 => escape('u', 4, c, out),
        _ => escape('U', 8, c, out),
    }
}

fn escape(letter: char, digits: usize, c: char, out: &mut String) {
    // Writing to a `String` cannot fail.
    let _ = write!(out, "\\{letter}{:0digits$X}", u32::from(c));
}
