//! Rewriting of what follows a value: commas and other separators, closing brackets, and prose.

use super::Mend;
use super::rewriter::Rewriter;
use super::string::begins_member;
use crate::tape::Fault;

/// Separator of two items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    Comma,
    Semicolon,
    /// A blank between two numbers.
    Blank,
}

impl Rewriter<'_> {
    /// Reads the separator or the closing bracket after a value. Returns true if a value must
    /// follow.
    pub(super) fn after_value(&mut self) -> Result<bool, Fault> {
        if let Some(open) = self.open.last_mut() {
            open.comma = None;
        }
        let (ends, written) = (self.at, self.out.len());
        self.blanks()?;
        match self.peek() {
            Some(b',') => self.separator(Separator::Comma, 1),
            Some(b';') if self.may(Mend::Semicolon) => self.separator(Separator::Semicolon, 1),
            Some(_) if self.rest().starts_with('\u{ff0c}') && self.may(Mend::WidePunctuation) => {
                self.separator(Separator::Comma, '\u{ff0c}'.len_utf8())
            }
            Some(_) if self.rest().starts_with('\u{ff1b}') && self.may(Mend::WidePunctuation) => {
                self.separator(Separator::Semicolon, '\u{ff1b}'.len_utf8())
            }
            Some(b'}' | b']') => self.closer().map(|_| false),
            None => self.close_at_end().map(|()| false),
            _ if self.item_begins() && self.could(Mend::MissingComma) => {
                let is_number = self.out.as_bytes()[..written].last().is_some_and(u8::is_ascii_digit);
                if is_number && !self.in_object() && !self.text[ends..self.at].contains('\n') {
                    self.check_after_number(ends)?;
                }
                self.may(Mend::MissingComma);
                self.comma();
                self.item()
            }
            _ if self.prose_follows(ends)
                && self.could(Mend::MissingCloser)
                && self.may(Mend::TrailingText) =>
            {
                // The value counts as complete, because the model went on to write prose.
                self.at = self.bytes.len();
                self.may(Mend::MissingCloser);
                while !self.open.is_empty() {
                    self.close(false)?;
                    if let Some(open) = self.open.last_mut() {
                        open.comma = None;
                    }
                }
                Ok(false)
            }
            _ if self.in_object() => Err(Fault::Expected("`,` or `}`")),
            _ => Err(Fault::Expected("`,` or `]`")),
        }
    }

    /// Reads a separator of `length` bytes, and the start of the item after the separator.
    fn separator(&mut self, separator: Separator, length: usize) -> Result<bool, Fault> {
        self.set_separator(separator)?;
        self.at += length;
        self.comma();
        self.item()
    }

    /// Records the separator of two items.
    ///
    /// # Errors
    /// Returns an error for the second kind of separator in an array, because one of the kinds may
    /// be a part of the numbers, as in `[1,5; 2,5]`.
    fn set_separator(&mut self, separator: Separator) -> Result<(), Fault> {
        let Some(open) = self.open.last_mut().filter(|open| !open.is_object) else { return Ok(()) };
        if open.separator.is_some_and(|other| other != separator) {
            return Err(Fault::Expected("the same separator between all elements"));
        }
        open.separator = Some(separator);
        Ok(())
    }

    /// Checks that the text here, after a number that ended at `ends`, is another element.
    ///
    /// # Errors
    /// Returns an error if the text could belong to the number, as in `10 -5`, `1 200` and `1'200`.
    fn check_after_number(&mut self, ends: usize) -> Result<(), Fault> {
        let rest = self.rest();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 3 || rest.starts_with('-') || self.at == ends {
            return Err(Fault::Expected("`,` or `]`"));
        }
        if digits > 0 { self.set_separator(Separator::Blank) } else { Ok(()) }
    }

    /// Reports whether another item clearly begins here, without a comma before the item.
    fn item_begins(&self) -> bool {
        let rest = self.rest();
        if !self.in_object() {
            return rest.starts_with(['"', '\'', '{', '[', '-'])
                || rest.starts_with(|c: char| c.is_ascii_digit());
        }
        begins_member(rest)
    }

    /// Reports whether only prose follows the value that ended at `ends`. A blank line and a letter
    /// must begin the prose, because other text may belong to the value.
    fn prose_follows(&self, ends: usize) -> bool {
        let before = &self.text[ends..self.at];
        let lines = before[before.trim_end().len()..].matches('\n').count();
        let rest = self.rest();
        lines >= 2 && rest.starts_with(char::is_alphabetic) && !rest.contains(['"', '{', '[', '}', ']'])
    }
}
