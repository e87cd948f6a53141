//! Rewriting of backslashes and control characters in strings.

use std::fmt::Write;

use super::Mend;
use super::rewriter::Rewriter;
use crate::tape::{Fault, escape};

/// LaTeX commands that begin like an escape of JSON.
const LATEX: [&str; 20] = [
    "nabla",
    "neq",
    "nmid",
    "notin",
    "nu",
    "rangle",
    "rceil",
    "rfloor",
    "rho",
    "right",
    "rightarrow",
    "tau",
    "text",
    "textbf",
    "textit",
    "tfrac",
    "theta",
    "tilde",
    "times",
    "triangle",
];

impl Rewriter<'_> {
    /// Reports whether the backslash here is not part of an escape.
    ///
    /// `\f` and `\b` before a letter count, too: LaTeX is more likely than a form feed or backspace.
    pub(super) fn is_plain_backslash(&self) -> bool {
        let mut after = self.rest().chars().skip(1);
        let (Some(escaped), next) = (after.next(), after.next()) else { return false };
        match escaped {
            '"' | '\\' | '/' | 'n' | 'r' | 't' | '\'' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => false,
            'b' | 'f' => next.is_some_and(char::is_alphabetic),
            'u' => braced(self.rest()).is_none() && next.is_some_and(|c| !c.is_ascii_hexdigit()),
            'x' => !self.rest().get(2..4).is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit())),
            'v' | '0' => next.is_some_and(char::is_alphanumeric),
            _ => true,
        }
    }

    /// Copies the backslash here as text. `start` is the offset of the string's content.
    ///
    /// An escaped quote of the string stays escaped.
    ///
    /// # Errors
    /// Returns an error if the backslash begins another escape of JSON or JSON5, because then the
    /// string mixes text and escapes. Exceptions are folders of a path, and LaTeX commands.
    pub(super) fn raw_backslash(&mut self, start: usize, quotes: &[char]) -> Result<(), Fault> {
        let rest = self.rest();
        let mut after = rest.chars().skip(1);
        let (escaped, next) = (after.next(), after.next());
        if let Some(quote) = escaped.filter(|c| *c == '"' || quotes.contains(c)) {
            if quote == '"' {
                self.out.push('\\');
            }
            self.out.push(quote);
            self.at += 1 + quote.len_utf8();
            return Ok(());
        }
        let has_hex = |count: usize| {
            let digits = rest.get(2..2 + count);
            digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        };
        let is_escape = match escaped {
            Some('n' | 'r' | 't') => {
                let is_folder = next.is_some_and(|c| c.is_lowercase() || c.is_numeric() || c == '_');
                !(is_folder && is_path(&self.text[start..]) || is_latex(rest))
            }
            Some('u') => has_hex(4) || braced(rest).is_some(),
            Some('x') => has_hex(2) && !is_path(&self.text[start..]),
            Some('\\' | '/' | '\'' | '\n' | '\r' | '\u{2028}' | '\u{2029}') => true,
            _ => false,
        };
        if is_escape {
            return Err(Fault::Escape);
        }
        self.out.push_str("\\\\");
        self.at += 1;
        Ok(())
    }

    /// Rewrites an escape. Returns false if the text ends inside the escape.
    pub(super) fn escape(&mut self) -> Result<bool, Fault> {
        if let Some((length, _)) = escape(self.rest()) {
            self.out.push_str(&self.text[self.at..self.at + length]);
            self.at += length;
            return Ok(true);
        }
        let mut after = self.rest().chars().skip(1);
        let Some(escaped) = after.next() else { return Ok(false) };
        let hex = |digits: &str| u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
        let (length, means) = match escaped {
            '\'' => (2, Some('\'')),
            'v' => (2, Some('\u{b}')),
            '0' if !after.next().is_some_and(|c| c.is_ascii_digit()) => (2, Some('\0')),
            'x' => match self
                .rest()
                .get(2..4)
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            {
                Some(digits) => (4, hex(digits)),
                None => (0, None),
            },
            'u' => braced(self.rest()).map_or((0, None), |(length, c)| (length, Some(c))),
            '\n' | '\u{2028}' | '\u{2029}' => (1 + escaped.len_utf8(), None),
            '\r' if self.rest()[1..].starts_with("\r\n") => (3, None),
            '\r' => (2, None),
            _ => (0, None),
        };
        if length > 0 && self.may(Mend::EscapeForm) {
            self.at += length;
            match means {
                Some(c) if c < ' ' => self.control(c),
                Some(c @ ('"' | '\\')) => self.out.extend(['\\', c]),
                Some(c) => self.out.push(c),
                None => {}
            }
            return Ok(true);
        }
        // An incomplete surrogate pair or `\u` escape is not completed, because the missing digits
        // are unknown.
        let is_cut = escaped == 'u' && self.rest().len() < 12 && !self.rest().contains(['"', '\'']);
        if is_cut && self.could(Mend::CutValue) {
            return Ok(false);
        }
        Err(Fault::Escape)
    }

    pub(super) fn control(&mut self, control: char) {
        match control {
            '\n' => self.out.push_str("\\n"),
            '\r' => self.out.push_str("\\r"),
            '\t' => self.out.push_str("\\t"),
            other => {
                let _ = write!(self.out, "\\u{:04x}", u32::from(other));
            }
        }
    }
}

/// Reports whether a string begins like a path with a drive.
fn is_path(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text[1..].starts_with(":\\")
}

/// Reports whether a LaTeX command in [`LATEX`] begins here.
fn is_latex(text: &str) -> bool {
    let name = &text[1..];
    let end = name.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(name.len());
    LATEX.contains(&&name[..end])
}

/// Returns the length and the character of an escape such as `\u{1F600}` at the beginning of `text`.
fn braced(text: &str) -> Option<(usize, char)> {
    let inside = text.strip_prefix("\\u{")?;
    let digits = &inside[..inside.bytes().take(7).position(|byte| byte == b'}')?];
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let escaped = char::from_u32(u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?)?;
    Some((digits.len() + 4, escaped))
}
