//! Strings, character ranges, token terminals and embedded schemas.

use std::sync::Arc;

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};
use serde_json::Value;

use super::super::gbnf::{offset, shown};
use super::{Defined, Definition, Parser};
use crate::GrammarError;
use crate::error::{GbnfProblem, LarkProblem};
use crate::ir::expr::{EmbeddedSchema, Expr, SchemaSource};
use crate::tokens::{NamedToken, Origin, TERMINALS, TokenTerminal, spelling};

impl Parser<'_> {
    /// Parses a string with its flag, or a range such as `"a".."z"`.
    pub(super) fn string(&mut self) -> Result<Expr, GrammarError> {
        let start = self.at;
        let text = self.quoted()?;
        let flag = self.at;
        let flags = self.flags();
        if flags.is_empty() {
            let after = self.at;
            self.skip_space();
            if self.take("..") {
                self.skip_space();
                let range = self.range(start, &text)?;
                return Ok(self.lexeme(range));
            }
            self.at = after;
        } else if flags != "i" {
            return Err(self.error(flag, LarkProblem::Flag { flag: flags.to_owned(), known: "i" }));
        }
        self.reading.ledger.hold(text.len())?;
        // The empty string is no lexeme, so ignored text does not follow.
        if text.is_empty() {
            return Ok(Expr::empty());
        }
        let string = if flags.is_empty() { Expr::Literal(text.into_bytes()) } else { self.folded(&text)? };
        Ok(self.lexeme(string))
    }

    /// Parses the second string of a range. `low` is the first string, at the byte offset `start`.
    fn range(&mut self, start: usize, low: &str) -> Result<Expr, GrammarError> {
        let end = self.at;
        if self.peek() != Some('"') {
            return Err(self.expected("a string"));
        }
        let high = self.quoted()?;
        let one = |text: &str, at| {
            let mut chars = text.chars();
            chars
                .next()
                .filter(|_| chars.next().is_none())
                .ok_or_else(|| self.error(at, LarkProblem::RangeEnd))
        };
        let (low, high) = (one(low, start)?, one(&high, end)?);
        if high < low {
            return Err(self.error(start, GbnfProblem::BackwardRange));
        }
        Ok(Expr::Class(vec![(low, high)]))
    }

    /// Parses a string in double quotes with the escapes of JSON.
    fn quoted(&mut self) -> Result<String, GrammarError> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let at = self.at;
            match self.next() {
                Some('"') => return Ok(text),
                None | Some('\n' | '\r') => {
                    return Err(self.error(start, GbnfProblem::Unterminated { what: "string" }));
                }
                Some('\\') => text.push(self.escape(at)?),
                Some(c) => text.push(c),
            }
        }
    }

    /// Parses an escape after its backslash, which is at the byte offset `start`.
    fn escape(&mut self, start: usize) -> Result<char, GrammarError> {
        match self.next() {
            Some(c @ ('"' | '\\' | '/')) => Ok(c),
            Some('b') => Ok('\u{8}'),
            Some('f') => Ok('\u{c}'),
            Some('n') => Ok('\n'),
            Some('r') => Ok('\r'),
            Some('t') => Ok('\t'),
            Some('u') => {
                let mut code = self.hex()?;
                if (0xd800..0xdc00).contains(&code) && self.take("\\u") {
                    // A character beyond U+FFFF is written as two surrogates.
                    let low = self.hex()?;
                    if (0xdc00..0xe000).contains(&low) {
                        code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                    }
                }
                char::from_u32(code)
                    .ok_or_else(|| self.error(start, GbnfProblem::NotACharacter { given: code }))
            }
            _ => {
                let text = shown(&self.source[start..self.at]);
                Err(self.error(start, LarkProblem::Escape { text }))
            }
        }
    }

    fn hex(&mut self) -> Result<u32, GrammarError> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|c| c.to_digit(16));
            let digit = digit.ok_or_else(|| self.expected("a hexadecimal digit"))?;
            value = value << 4 | digit;
            self.at += 1;
        }
        Ok(value)
    }

    /// Returns an expression that matches `text` in upper and lower case.
    fn folded(&self, text: &str) -> Result<Expr, GrammarError> {
        self.reading.ledger.spend(16 * text.len())?;
        self.reading.ledger.hold(2 * size_of::<Expr>() * text.len())?;
        let chars = text.chars().map(|c| {
            let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
            // Without the tables of the regex crate, only the character itself would match.
            if class.try_case_fold_simple().is_err() {
                return Expr::Class(vec![(c, c)]);
            }
            Expr::Class(class.iter().map(|range| (range.start(), range.end())).collect())
        });
        Ok(Expr::Sequence(chars.collect()))
    }

    /// Parses `<[id]>` or `<text>`.
    pub(super) fn token(&mut self) -> Result<Expr, GrammarError> {
        let start = self.at;
        let rest = &self.source[start..];
        let end = rest.find(['>', '\n', '\r']).filter(|&end| rest[end..].starts_with('>'));
        let text = &rest[..end.map_or(super::line_len(rest), |end| end + 1)];
        let bad = || self.error(start, LarkProblem::TokenTerminal { text: shown(text.trim_end()) });
        if end.is_none() {
            return Err(bad());
        }
        let token = match text.strip_prefix("<[") {
            Some(rest) => {
                let id = rest.strip_suffix("]>").filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()));
                NamedToken::Id(id.and_then(|id| id.parse().ok()).ok_or_else(bad)?)
            }
            None if text.len() > "<>".len() => NamedToken::Text(text.to_owned()),
            None => return Err(bad()),
        };
        if self.is_in_terminal {
            return Err(self.error(start, LarkProblem::NotInTerminal { what: "a token" }));
        }
        self.at += text.len();
        let index = self.token_index(token, start)?;
        Ok(self.lexeme(Expr::Literal(spelling(index).to_vec())))
    }

    /// Returns the index of the token terminal for `token`, which is at the byte offset `start`.
    fn token_index(&mut self, token: NamedToken, start: usize) -> Result<usize, GrammarError> {
        if let Some(&known) = self.token_ids.get(&token) {
            return Ok(known);
        }
        let index = self.tokens.len();
        if index == TERMINALS {
            return Err(self.error(start, GbnfProblem::TokenTerminals { limit: TERMINALS }));
        }
        let origin = Some(Origin { rule: self.current.to_owned(), line: self.line_of(start) });
        self.tokens.push(TokenTerminal { negated: false, token: token.clone(), origin });
        self.token_ids.insert(token, index);
        Ok(index)
    }

    /// Parses the schema of `%json`, which is at the byte offset `start`. Adds a rule without a name for
    /// the schema and returns a reference to the rule.
    pub(super) fn json(&mut self, start: usize) -> Result<Expr, GrammarError> {
        self.skip_blank();
        let from = self.at;
        let (schema, len) = match formwork_json::from_start::<Value>(&self.source[from..]) {
            Ok(Some(read)) => read,
            Ok(None) => return Err(self.expected("a JSON Schema")),
            Err(error) => {
                let (line, column) = error.place();
                let problem = match error.nesting_limit() {
                    Some(limit) => GbnfProblem::Nesting { limit },
                    None => GbnfProblem::NotJson { message: error.problem() },
                };
                let at = from + offset(&self.source[from..], line, column);
                return Err(self.error(at, problem));
            }
        };
        self.at += len;
        let compiled = self.reading.compile(&schema, self.limits).map_err(|error| {
            let is_over_limit = error.is_over_limit();
            self.error(start, GbnfProblem::Schema { error: error.to_string(), is_over_limit })
        })?;
        let source = self.source[from..self.at].to_owned();
        let line = self.line_of(start);
        // The expression of an embedded schema is not used.
        let expr = Expr::Alternatives(Vec::new());
        let defined = Some(Defined { at: start, line, is_imported: false, expr });
        let rule = self.add(Definition { name: "", mentioned: start, defined })?;
        let (program, warnings) = (Arc::clone(&compiled.program), compiled.warnings);
        let (source, root) = (Some(SchemaSource::Text(source)), program.root);
        self.schemas.insert(rule, EmbeddedSchema { source, program, root, warnings });
        Ok(self.lexeme(Expr::Rule(rule)))
    }
}
