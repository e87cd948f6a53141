//! Parses token terminals such as `<[7]>` and `!<think>`, and embedded schemas after `%json`.

use std::sync::Arc;

use serde_json::Value;

use super::{Parser, shown};
use crate::GrammarError;
use crate::error::GbnfProblem;
use crate::ir::expr::{EmbeddedSchema, Expr, SchemaSource};
use crate::tokens::{NamedToken, Origin, TERMINALS, TokenTerminal, spelling};

/// Marker before an embedded JSON Schema.
pub(super) const JSON: &str = "%json";

impl Parser<'_> {
    /// Parses `<[id]>` or `<text>`. A leading `!` selects all tokens except the named one.
    pub(super) fn token(&mut self) -> Result<Expr, GrammarError> {
        let start = self.at;
        let negated = self.take("!");
        let rest = &self.source[self.at..];
        let end = rest.find(['>', '\n']).filter(|&end| rest[end..].starts_with('>'));
        let Some(end) = end else { return Err(self.bad_token(start)) };
        let text = &rest[..=end];
        let token = match text.strip_prefix("<[") {
            Some(rest) => {
                let id = rest.strip_suffix("]>").filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()));
                NamedToken::Id(id.and_then(|id| id.parse().ok()).ok_or_else(|| self.bad_token(start))?)
            }
            None if text.len() > "<>".len() => NamedToken::Text(text.to_owned()),
            None => return Err(self.bad_token(start)),
        };
        self.at += text.len();
        let terminal = TokenTerminal { negated, token, origin: None };
        let known = self.token_ids.get(&(negated, terminal.token.clone())).copied();
        let index = known.unwrap_or(self.tokens.len());
        if index == TERMINALS {
            return Err(self.error(start, GbnfProblem::TokenTerminals { limit: TERMINALS }));
        }
        if known.is_none() {
            let line = self.line_of(start);
            let origin = Origin { rule: self.current.to_owned(), line };
            self.tokens.push(TokenTerminal { origin: Some(origin), ..terminal.clone() });
            self.token_ids.insert((terminal.negated, terminal.token), index);
        }
        Ok(Expr::Literal(spelling(index).to_vec()))
    }

    fn bad_token(&self, start: usize) -> GrammarError {
        let rest = &self.source[start..];
        let len = rest.find(['>', '\n']).map_or(rest.len(), |end| end + 1);
        self.error(start, GbnfProblem::TokenTerminal { text: shown(rest[..len].trim_end()) })
    }

    /// Parses `%json` and a schema. Adds a rule without a name for the schema and returns a
    /// reference to the rule.
    pub(super) fn json(&mut self) -> Result<Expr, GrammarError> {
        let start = self.at;
        self.at += JSON.len();
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
                return Err(self.error(from + offset(&self.source[from..], line, column), problem));
            }
        };
        self.at += len;
        let compiled = self.reading.compile(&schema, self.limits);
        let compiled = compiled.map_err(|error| {
            let is_over_limit = error.is_over_limit();
            self.error(start, GbnfProblem::Schema { error: error.to_string(), is_over_limit })
        })?;
        let source = self.source[from..self.at].to_owned();
        let rule = self.unnamed(start);
        let (program, warnings) = (Arc::clone(&compiled.program), compiled.warnings);
        let (source, root) = (Some(SchemaSource::Text(source)), program.root);
        self.schemas.insert(rule, EmbeddedSchema { source, program, root, warnings });
        Ok(Expr::Rule(rule))
    }
}

/// Returns the byte offset of a position in `text`. `line` and `column` are counted from 1, and columns
/// count bytes.
pub(in crate::frontend) fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let mut at = (before + column.saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
