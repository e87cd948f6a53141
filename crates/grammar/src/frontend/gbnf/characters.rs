//! Literals and character classes.

use super::{Parser, shown};
use crate::GrammarError;
use crate::error::GbnfProblem;
use crate::ir::expr::{Expr, complement, next_char, normalise};

impl Parser<'_> {
    pub(super) fn literal(&mut self) -> Result<Expr, GrammarError> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.peek() {
                Some('"') => break,
                None => return Err(self.error(start, GbnfProblem::Unterminated { what: "literal" })),
                _ => text.push(self.character()?),
            }
        }
        self.at += 1;
        self.note_overlong(start, "literal");
        Ok(Expr::Literal(text.into_bytes()))
    }

    pub(super) fn class(&mut self) -> Result<Expr, GrammarError> {
        let start = self.at;
        self.at += 1;
        let negated = self.take("^");
        let mut ranges = Vec::new();
        loop {
            match self.peek() {
                Some(']') => break,
                None => return Err(self.error(start, GbnfProblem::Unterminated { what: "class" })),
                _ => ranges.push(self.class_range()?),
            }
        }
        self.at += 1;
        self.note_overlong(start, "class");
        if ranges.is_empty() {
            return Ok(Expr::empty()); // As in llama.cpp, `[]` and `[^]` match the empty text.
        }
        normalise(&mut ranges, next_char);
        Ok(Expr::Class(if negated { complement(&ranges) } else { ranges }))
    }

    /// Parses one character or a range such as `a-z`. A `-` directly before `]` stands for itself.
    fn class_range(&mut self) -> Result<(char, char), GrammarError> {
        let start = self.at;
        let low = self.character()?;
        let rest = &self.source[self.at..];
        if !rest.starts_with('-') || rest.starts_with("-]") {
            return Ok((low, low));
        }
        self.at += 1;
        let high = self.character()?;
        if high < low {
            return Err(self.error(start, GbnfProblem::BackwardRange));
        }
        Ok((low, high))
    }

    /// Parses one character of a literal or class and decodes escapes.
    fn character(&mut self) -> Result<char, GrammarError> {
        let start = self.at;
        let c = self.next().ok_or_else(|| self.expected("a character"))?;
        if c != '\\' {
            return Ok(c);
        }
        let escape = self.next().ok_or_else(|| self.expected("an escape"))?;
        match escape {
            'n' => Ok('\n'),
            't' => Ok('\t'),
            'r' => Ok('\r'),
            '\\' | '"' | '[' | ']' | '-' | '^' => Ok(escape),
            'x' => self.hex(start, 2),
            'u' => self.hex(start, 4),
            'U' => self.hex(start, 8),
            _ => {
                let text = shown(&self.source[start..self.at]);
                Err(self.error(start, GbnfProblem::Escape { text }))
            }
        }
    }

    /// Parses `digits` hexadecimal digits as a code point. `start` is the byte offset of the
    /// escape's backslash.
    fn hex(&mut self, start: usize, digits: usize) -> Result<char, GrammarError> {
        let mut value = 0;
        for _ in 0..digits {
            let digit = self.peek().and_then(|c| c.to_digit(16));
            let digit = digit.ok_or_else(|| self.expected("a hexadecimal digit"))?;
            value = value << 4 | digit;
            self.at += 1;
        }
        char::from_u32(value).ok_or_else(|| self.error(start, GbnfProblem::NotACharacter { given: value }))
    }
}
