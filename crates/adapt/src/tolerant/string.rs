//! Rewriting of strings: quotes, escapes, and the search for the end.

use std::fmt::Write;

use super::Mend;
use super::rewriter::Rewriter;
use crate::tape::{Fault, escape};

/// Maximum number of characters after a quote that are inspected to decide whether the quote ends
/// the string.
const AHEAD: usize = 256;

impl Rewriter<'_> {
    /// Rewrites the string that begins here and ends with `quote`.
    pub(super) fn string(&mut self, quote: char, is_name: bool) -> Result<(), Fault> {
        let first = self.rest().chars().next().map_or(0, char::len_utf8);
        self.at += first;
        self.out.push('"');
        loop {
            let rest = self.rest();
            let plain =
                rest.find(|c: char| c == quote || c == '"' || c == '\\' || c < ' ').unwrap_or(rest.len());
            self.out.push_str(&self.text[self.at..self.at + plain]);
            self.at += plain;
            let Some(c) = self.rest().chars().next() else { break };
            match c {
                c if c == quote => {
                    if is_name || !self.could(Mend::InnerQuote) || self.ends_string(quote) {
                        self.at += quote.len_utf8();
                        self.out.push('"');
                        return Ok(());
                    }
                    self.may(Mend::InnerQuote);
                    if quote == '"' {
                        self.out.push('\\');
                    }
                    self.out.push(quote);
                    self.at += quote.len_utf8();
                }
                '"' => {
                    self.out.push_str("\\\"");
                    self.at += 1;
                }
                '\\' => {
                    if !self.escape()? {
                        break;
                    }
                }
                control if self.may(Mend::ControlCharacter) => {
                    self.control(control);
                    self.at += 1;
                }
                _ => return Err(Fault::Control),
            }
        }
        // A name that is cut off is removed together with its member.
        if !self.may(if is_name { Mend::CutMember } else { Mend::CutValue }) {
            return Err(Fault::End);
        }
        self.at = self.bytes.len();
        self.out.push('"');
        Ok(())
    }

    /// Rewrites an escape. Returns false if the text ends inside the escape.
    fn escape(&mut self) -> Result<bool, Fault> {
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
        if escaped != 'u' && self.may(Mend::Backslash) {
            self.out.push_str("\\\\");
            self.at += 1;
            return Ok(true);
        }
        Err(Fault::Escape)
    }

    fn control(&mut self, control: char) {
        match control {
            '\n' => self.out.push_str("\\n"),
            '\r' => self.out.push_str("\\r"),
            '\t' => self.out.push_str("\\t"),
            other => {
                let _ = write!(self.out, "\\u{:04x}", u32::from(other));
            }
        }
    }

    /// Reports whether the quote here ends its string, judged by the text after the quote.
    fn ends_string(&self, quote: char) -> bool {
        let after = &self.rest()[quote.len_utf8()..];
        let window = after.char_indices().nth(AHEAD).map_or(after, |(end, _)| &after[..end]);
        if let Some(next) = window.strip_prefix(quote) {
            // Of two adjacent quotes, the second ends the string if the text after it allows that.
            return !self.follows_value(next);
        }
        self.follows_value(window)
    }

    /// Reports whether `after` is plausible after the end of a value.
    fn follows_value(&self, after: &str) -> bool {
        let next = after.trim_start();
        let is_apart = next.len() < after.len();
        // A line break is more likely after a string than inside one.
        if after[..after.len() - next.len()].contains('\n') {
            return true;
        }
        let in_object = self.in_object();
        match next.chars().next() {
            None | Some('}' | ']') => true,
            Some('/') => next.starts_with("//") || next.starts_with("/*"),
            Some(',') => {
                let item = next[1..].trim_start();
                match item.chars().next() {
                    None | Some('"' | '\'' | '}' | ']' | '\u{201c}' | '/' | ',') => true,
                    Some('{' | '[' | '-' | '0'..='9') => !in_object,
                    Some(_) if in_object => begins_member(item),
                    Some(_) => ["true", "false", "null", "True", "False", "None"]
                        .iter()
                        .any(|word| item.starts_with(word)),
                }
            }
            // The comma may be missing.
            Some('"' | '\'') if in_object => is_apart && begins_member(next),
            Some('"' | '{' | '[') => is_apart && !in_object,
            Some(_) if in_object => is_apart && begins_member(next),
            Some(_) => false,
        }
    }
}

/// Reports whether `text` begins with a name and a colon.
pub(super) fn begins_member(text: &str) -> bool {
    let after = if let Some(quote @ ('"' | '\'')) = text.chars().next() {
        text[1..].split_once(quote).map(|(_, after)| after)
    } else {
        let end = text.find(|c: char| !c.is_alphanumeric() && !"_$-".contains(c)).unwrap_or(text.len());
        (end > 0).then(|| &text[end..])
    };
    after.is_some_and(|after| after.trim_start().starts_with(':'))
}
