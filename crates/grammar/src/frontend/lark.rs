//! Parser for Lark grammars, in the dialect of OpenAI's custom tools and of llguidance.
//!
//! A grammar is a list of rules `name: alternatives` and terminals `NAME: alternatives`. An output must
//! match the rule `start`. Strings, regular expressions and terminals in a rule are lexemes. The
//! terminals of `%ignore` may follow each lexeme, but nothing inside a lexeme is ignored.
//!
//! Every reading of a text counts: a lexeme may end wherever its terminal matches, as with Lark's lexer
//! `dynamic_complete`. Prefixes of rules (`?`, `!`, `_`) and aliases (`-> name`) only shape syntax trees,
//! so they have no effect.
//!
//! [`regexes`] describes the syntax of regular expressions, and [`common`] lists the terminals that
//! `%import common` provides. Syntax that cannot be enforced is refused by name.

mod common;
mod regexes;
mod statements;
mod terminals;

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use super::gbnf::{line_ends, shown};
use super::json_schema::Schemas;
use crate::error::{GbnfProblem, Kind, LarkProblem};
use crate::ir::expr::{EmbeddedSchema, Expr, RuleId, Rules, reached};
use crate::tokens::{NamedToken, TokenTerminal};
use crate::{GrammarError, Limits, Warning};

/// Name of the rule that an output must match.
const START: &str = "start";

/// Largest count of a repetition.
const MAX_REPETITION: u32 = 1 << 20;

/// Maximum number of digits of a repetition count in an error message.
const DIGITS: usize = 20;

/// Cost of parsing one item, alternative or statement, in ledger steps.
const PART: usize = 16;

/// Memory of one definition besides its expression, in bytes.
const DEFINITION: usize = 256;

/// Stands for the rule of ignored text until the whole source is parsed.
const IGNORED: RuleId = RuleId(u32::MAX);

/// Parses a whole grammar. `reading` holds the options, remote documents and ledger for embedded schemas.
pub(crate) fn parse(source: &str, reading: Schemas<'_>, limits: &Limits) -> Result<Rules, GrammarError> {
    if source.len() > limits.source_bytes {
        return Err(GrammarError::limit("bytes of source", source.len(), limits.source_bytes));
    }
    let mut parser = Parser {
        source,
        at: 0,
        depth: 0,
        limits,
        reading,
        names: HashMap::new(),
        definitions: Vec::new(),
        ignored: Vec::new(),
        is_in_terminal: false,
        schemas: FxHashMap::default(),
        tokens: Vec::new(),
        token_ids: FxHashMap::default(),
        line: (0, 1),
        groups: Vec::new(),
        current: "",
    };
    parser.statements()?;
    parser.finish()
}

/// A rule or terminal that the source has mentioned or defined.
struct Definition<'s> {
    /// Name, or an empty text for an embedded schema.
    name: &'s str,
    /// Byte offset of the first mention.
    mentioned: usize,
    /// `None` until the definition is parsed.
    defined: Option<Defined>,
}

struct Defined {
    /// Byte offset of the definition.
    at: usize,
    /// Line of the definition, starting at 1.
    line: usize,
    is_imported: bool,
    expr: Expr,
}

struct Parser<'s> {
    source: &'s str,
    at: usize,
    /// Number of open groups.
    depth: usize,
    limits: &'s Limits,
    reading: Schemas<'s>,
    names: HashMap<&'s str, RuleId>,
    definitions: Vec<Definition<'s>>,
    /// Expressions of the `%ignore` statements.
    ignored: Vec<Expr>,
    /// True inside the definition of a terminal and inside `%ignore`.
    is_in_terminal: bool,
    schemas: FxHashMap<RuleId, EmbeddedSchema>,
    tokens: Vec<TokenTerminal>,
    /// Index in `tokens` of each token terminal.
    token_ids: FxHashMap<NamedToken, usize>,
    /// Cache of [`Parser::line_of`]: a byte offset and its line.
    line: (usize, usize),
    /// Byte offset and kind of the open groups, the outermost first.
    groups: Vec<(usize, &'static str)>,
    /// Name of the definition that is being parsed.
    current: &'s str,
}

impl<'s> Parser<'s> {
    fn finish(mut self) -> Result<Rules, GrammarError> {
        let undefined = self.definitions.iter().find(|known| known.defined.is_none());
        if let Some(Definition { name, mentioned, .. }) = undefined {
            let problem = LarkProblem::Undefined { what: kind_of(name), name: (*name).to_owned() };
            return Err(self.error(*mentioned, problem));
        }
        let Some(&root) = self.names.get(START) else {
            return Err(self.error(self.source.len(), LarkProblem::NoStart));
        };
        self.refuse_recursive_terminals()?;
        let mut exprs = Vec::with_capacity(self.definitions.len() + 1);
        let mut lines = Vec::with_capacity(self.definitions.len() + 1);
        let mut names = Vec::with_capacity(self.definitions.len() + 1);
        let mut is_imported = Vec::with_capacity(self.definitions.len());
        for definition in &mut self.definitions {
            let Some(defined) = definition.defined.take() else { continue };
            exprs.push(defined.expr);
            lines.push(defined.line);
            names.push(definition.name.to_owned());
            is_imported.push(defined.is_imported);
        }
        let ignored = (!self.ignored.is_empty()).then_some(RuleId(exprs.len() as u32));
        for expr in &mut exprs {
            settle(expr, ignored);
        }
        if ignored.is_some() {
            let expr = Box::new(Expr::Alternatives(std::mem::take(&mut self.ignored)));
            exprs.push(Expr::Repeat { expr, min: 0, max: None });
            lines.push(0);
            names.push(self.unused_name("ignored"));
        }
        let reached = reached(&exprs, root);
        let unreachable = (0..self.definitions.len())
            .filter(|&rule| !reached[rule] && !is_imported[rule] && !names[rule].is_empty());
        let warning = |rule: usize| Warning::UnreachableRule {
            rule: names[rule].clone(),
            line: lines[rule],
            start: START,
        };
        let mut warnings: Vec<(usize, Warning)> =
            unreachable.map(|rule| (lines[rule], warning(rule))).collect();
        warnings.sort_by_key(|(line, _)| *line);
        let warnings = warnings.into_iter().map(|(_, warning)| warning).collect();
        let (schemas, tokens) = (self.schemas, self.tokens);
        Ok(Rules { lines, schemas, tokens, warnings, ..Rules::new(exprs, names, root) })
    }

    /// Returns `base`, with a number if a definition has that name.
    fn unused_name(&self, base: &str) -> String {
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let mut names = std::iter::once(base.to_owned()).chain(numbered);
        names.find(|name| !self.names.contains_key(name.as_str())).unwrap_or_default()
    }

    /// # Errors
    /// Returns an error at the first terminal that refers to itself, directly or through others.
    fn refuse_recursive_terminals(&self) -> Result<(), GrammarError> {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let mut states = vec![State::New; self.definitions.len()];
        for first in (0..self.definitions.len()).filter(|&at| is_terminal(self.definitions[at].name)) {
            // Terminals whose references are being followed, each with the references that remain.
            let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
            let mut next = Some(first);
            loop {
                if let Some(terminal) = next.take() {
                    match states[terminal] {
                        State::Open => return Err(self.recursive(terminal)),
                        State::Done => {}
                        State::New => {
                            states[terminal] = State::Open;
                            open.push((terminal, self.references(terminal)));
                        }
                    }
                }
                let Some((terminal, references)) = open.last_mut() else { break };
                next = references.pop();
                if next.is_none() {
                    states[*terminal] = State::Done;
                    open.pop();
                }
            }
        }
        Ok(())
    }

    fn recursive(&self, terminal: usize) -> GrammarError {
        let Definition { name, mentioned, ref defined } = self.definitions[terminal];
        let at = defined.as_ref().map_or(mentioned, |defined| defined.at);
        self.error(at, LarkProblem::RecursiveTerminal { name: name.to_owned() })
    }

    /// Returns the definitions that the expression of `definition` refers to.
    fn references(&self, definition: usize) -> Vec<usize> {
        let mut open: Vec<&Expr> =
            self.definitions[definition].defined.iter().map(|defined| &defined.expr).collect();
        let mut references = Vec::new();
        while let Some(expr) = open.pop() {
            match expr {
                Expr::Rule(rule) if *rule != IGNORED => references.push(rule.index()),
                Expr::Sequence(parts) | Expr::Alternatives(parts) => open.extend(parts),
                Expr::Repeat { expr, .. } => open.push(expr),
                Expr::Rule(_) | Expr::Literal(_) | Expr::Class(_) | Expr::Bytes(_) => {}
            }
        }
        references
    }

    /// Parses `sequence | sequence | …`. A bar may begin a following line.
    fn alternatives(&mut self) -> Result<Expr, GrammarError> {
        let mut parts = vec![self.sequence()?];
        loop {
            let before = self.at;
            self.skip_blank();
            if !self.take("|") {
                if self.depth == 0 {
                    self.at = before;
                }
                break;
            }
            self.charge()?;
            parts.push(self.sequence()?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Expr::Alternatives(parts) })
    }

    /// Parses items up to a bar, a closing bracket or the end of the line. An alias may follow.
    fn sequence(&mut self) -> Result<Expr, GrammarError> {
        let mut parts = Vec::new();
        loop {
            self.skip();
            let Some(item) = self.item()? else { break };
            let item = self.repetition(item)?;
            self.charge()?;
            parts.push(item);
        }
        if self.take("->") {
            self.skip();
            self.name()?.ok_or_else(|| self.expected("the name of an alias"))?;
            self.skip();
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Expr::Sequence(parts) })
    }

    /// Charges the ledger for one item or alternative.
    fn charge(&self) -> Result<(), GrammarError> {
        self.reading.ledger.spend(PART)?;
        self.reading.ledger.hold(4 * size_of::<Expr>())
    }

    /// Parses one terminal, reference or group. Returns `None` at the end of the sequence.
    fn item(&mut self) -> Result<Option<Expr>, GrammarError> {
        let start = self.at;
        match self.peek() {
            Some('"') => self.string().map(Some),
            Some('/') => {
                let regex = self.regex()?;
                Ok(Some(self.lexeme(regex)))
            }
            Some('(') => self.group("group", ")").map(Some),
            Some('[') => {
                let expr = Box::new(self.group("optional group", "]")?);
                Ok(Some(Expr::Repeat { expr, min: 0, max: Some(1) }))
            }
            Some('<') => self.token().map(Some),
            Some('%') => self.embedded().map(Some),
            Some('*' | '+' | '?' | '{') => Err(self.error(start, GbnfProblem::NothingToRepeat)),
            Some('~') => Err(self.unsupported(
                start,
                "the complement `~` is",
                "write a regular expression with a negated class",
            )),
            Some('&') => Err(self.unsupported(
                start,
                "the intersection `&` is",
                "write one regular expression for both conditions",
            )),
            Some('@') => Err(self.unsupported(
                start,
                "references to other grammars (`@`) are",
                "write the rules in this grammar",
            )),
            _ => {
                let Some(name) = self.name()? else { return Ok(None) };
                self.reference(name, start).map(Some)
            }
        }
    }

    /// Returns a reference to the rule or terminal `name`, which is at the byte offset `start`.
    fn reference(&mut self, name: &'s str, start: usize) -> Result<Expr, GrammarError> {
        let after = self.at;
        self.skip_space();
        if self.source[self.at..].starts_with("::") && !self.source[self.at..].starts_with("::=") {
            return Err(self.parametric(start));
        }
        if self.source[self.at..].starts_with(':') {
            if let Some(&(group, what)) = self.groups.last() {
                return Err(self.error(group, GbnfProblem::Unterminated { what }));
            }
            return Err(self.error(start, LarkProblem::RuleInside { name: name.to_owned() }));
        }
        self.at = after;
        if self.is_in_terminal && !is_terminal(name) {
            return Err(self.error(start, LarkProblem::RuleInTerminal { name: name.to_owned() }));
        }
        let rule = Expr::Rule(self.intern(name, start)?);
        Ok(if is_terminal(name) { self.lexeme(rule) } else { rule })
    }

    fn parametric(&self, at: usize) -> GrammarError {
        self.unsupported(at, "parametric rules (`::`) are", "write one rule for each value")
    }

    /// Returns a lexeme that matches `expr`: in a rule, ignored text may follow.
    fn lexeme(&self, expr: Expr) -> Expr {
        if self.is_in_terminal { expr } else { Expr::Sequence(vec![expr, Expr::Rule(IGNORED)]) }
    }

    /// Parses alternatives in brackets. Line breaks inside count as blanks.
    fn group(&mut self, what: &'static str, close: &str) -> Result<Expr, GrammarError> {
        if self.depth == self.limits.nesting {
            return Err(self.error(self.at, GbnfProblem::Nesting { limit: self.limits.nesting }));
        }
        let start = self.at;
        self.at += 1;
        self.depth += 1;
        self.groups.push((start, what));
        let expr = self.alternatives()?;
        if self.peek().is_none() {
            return Err(self.error(start, GbnfProblem::Unterminated { what }));
        }
        if !self.take(close) {
            let expected = if close == ")" {
                "`|`, a terminal, a rule name or `)`"
            } else {
                "`|`, a terminal, a rule name or `]`"
            };
            return Err(self.expected(expected));
        }
        self.groups.pop();
        self.depth -= 1;
        Ok(expr)
    }

    /// Parses an optional operator after `item` and applies it.
    fn repetition(&mut self, item: Expr) -> Result<Expr, GrammarError> {
        let before = self.at;
        self.skip_space();
        let start = self.at;
        let (min, max) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('~') => {
                let Some(counts) = self.tilde()? else {
                    self.at = before;
                    return Ok(item);
                };
                counts
            }
            Some('{') => self.braces()?,
            _ => {
                self.at = before;
                return Ok(item);
            }
        };
        if self.at == start {
            self.at += 1; // Skip the operator of one character.
        }
        match max {
            Some(max) if max < min => Err(self.error(start, GbnfProblem::BackwardRepetition { min, max })),
            _ => Ok(Expr::Repeat { expr: Box::new(item), min, max }),
        }
    }

    /// Parses `~n` or `~n..m`. Returns `None` if no number follows.
    fn tilde(&mut self) -> Result<Option<(u32, Option<u32>)>, GrammarError> {
        self.at += 1;
        self.skip_space();
        let Some(min) = self.number()? else { return Ok(None) };
        let after = self.at;
        self.skip_space();
        if !self.take("..") {
            self.at = after;
            return Ok(Some((min, Some(min))));
        }
        self.skip_space();
        let max = self.number()?.ok_or_else(|| self.expected("a number"))?;
        Ok(Some((min, Some(max))))
    }

    /// Parses `{n}`, `{n,}`, `{,m}` or `{n,m}`.
    fn braces(&mut self) -> Result<(u32, Option<u32>), GrammarError> {
        let start = self.at;
        self.at += 1;
        self.skip_space();
        if self.peek().is_some_and(|c| is_in_name(c) && !c.is_ascii_digit() || c == '"' || c == '/') {
            return Err(self.templates(start));
        }
        let min = self.number()?;
        self.skip_space();
        let counts = if self.take(",") {
            self.skip_space();
            let max = self.number()?;
            if min.is_none() && max.is_none() {
                return Err(self.expected("a number"));
            }
            (min.unwrap_or(0), max)
        } else {
            let exact = min.ok_or_else(|| self.expected("a number"))?;
            (exact, Some(exact))
        };
        self.skip_space();
        if !self.take("}") {
            return Err(self.expected("`}`"));
        }
        Ok(counts)
    }

    fn templates(&self, at: usize) -> GrammarError {
        self.unsupported(at, "templates (`name{…}`) are", "write one rule for each use")
    }

    fn number(&mut self) -> Result<Option<u32>, GrammarError> {
        let start = self.at;
        let rest = &self.source[start..];
        self.at += rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = &self.source[start..self.at];
        if digits.is_empty() {
            return Ok(None);
        }
        match digits.parse() {
            Ok(number) if number <= MAX_REPETITION => Ok(Some(number)),
            _ => {
                let is_long = digits.len() > DIGITS;
                let given = if is_long { format!("{}…", &digits[..DIGITS]) } else { digits.to_owned() };
                Err(self.error(start, GbnfProblem::HugeRepetition { given, limit: MAX_REPETITION }))
            }
        }
    }

    /// Parses the name of a rule or terminal: ASCII letters of one case, digits, `_` and, as in
    /// llguidance, `-`. Returns `None` if there is no name at the current position.
    fn name(&mut self) -> Result<Option<&'s str>, GrammarError> {
        let start = self.at;
        let rest = &self.source[start..];
        let mut len = rest.find(|c: char| !is_in_name(c)).unwrap_or(rest.len());
        // The end of `name->alias` is not part of the name.
        if rest[len..].starts_with('>') && rest[..len].ends_with('-') {
            len -= 1;
        }
        let name = &rest[..len];
        let first = name.trim_start_matches('_').chars().next();
        if !first.is_some_and(|c| c.is_ascii_alphabetic()) {
            return Ok(None);
        }
        if name.contains(|c: char| c.is_ascii_lowercase()) && name.contains(|c: char| c.is_ascii_uppercase())
        {
            return Err(self.error(start, LarkProblem::MixedCase { name: name.to_owned() }));
        }
        self.at += len;
        Ok(Some(name))
    }

    fn intern(&mut self, name: &'s str, mentioned: usize) -> Result<RuleId, GrammarError> {
        if let Some(&known) = self.names.get(name) {
            return Ok(known);
        }
        let rule = self.add(Definition { name, mentioned, defined: None })?;
        self.names.insert(name, rule);
        Ok(rule)
    }

    fn add(&mut self, definition: Definition<'s>) -> Result<RuleId, GrammarError> {
        self.reading.ledger.hold(DEFINITION + definition.name.len())?;
        self.definitions.push(definition);
        Ok(RuleId(self.definitions.len() as u32 - 1))
    }

    fn peek(&self) -> Option<char> {
        self.source[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn take(&mut self, text: &str) -> bool {
        let is_found = self.source[self.at..].starts_with(text);
        if is_found {
            self.at += text.len();
        }
        is_found
    }

    /// Skips spaces, tabs, comments and line breaks after a backslash.
    fn skip_space(&mut self) {
        loop {
            let rest = &self.source[self.at..];
            self.at += match rest.chars().next() {
                Some(' ' | '\t') => 1,
                Some('#') => line_len(rest),
                Some('/') if rest.starts_with("//") => line_len(rest),
                Some('\\') => {
                    let after = rest[1..].trim_start_matches([' ', '\t']);
                    if !after.starts_with(['\n', '\r']) {
                        return;
                    }
                    let skipped = rest.len() - after.len();
                    skipped + if after.starts_with("\r\n") { 2 } else { 1 }
                }
                _ => return,
            };
        }
    }

    /// Skips line breaks and everything that [`Parser::skip_space`] skips.
    fn skip_blank(&mut self) {
        loop {
            self.skip_space();
            match self.peek() {
                Some('\n' | '\r') => self.at += 1,
                _ => return,
            }
        }
    }

    /// Skips blanks, which include line breaks in a group.
    fn skip(&mut self) {
        if self.depth > 0 { self.skip_blank() } else { self.skip_space() }
    }

    fn expected(&self, expected: &'static str) -> GrammarError {
        let found = match self.peek() {
            None => "the end of the grammar".to_owned(),
            Some('\n' | '\r') => "the end of the line".to_owned(),
            Some(c) => format!("`{}`", shown(&c.to_string())),
        };
        self.error(self.at, GbnfProblem::Expected { expected, found })
    }

    /// Creates the error for a feature that is refused. `what` ends with a verb, and `instead` says what
    /// to write.
    fn unsupported(&self, at: usize, what: impl Into<String>, instead: &'static str) -> GrammarError {
        self.error(at, LarkProblem::Unsupported { what: what.into(), instead })
    }

    /// Returns the line of the byte offset `at`, counted from 1. Offsets must not decrease between
    /// calls.
    fn line_of(&mut self, at: usize) -> usize {
        let (from, line) = self.line;
        self.line = (at, line + line_ends(&self.source[from.min(at)..at]));
        self.line.1
    }

    fn error(&self, at: usize, problem: impl Into<LarkProblem>) -> GrammarError {
        let before = &self.source[..at];
        let start = before.rfind(['\n', '\r']).map_or(0, |end| end + 1);
        let source_line = self.source[start..].split(['\n', '\r']).next().unwrap_or("").replace('\t', " ");
        let (line, column) = (line_ends(before) + 1, before[start..].chars().count() + 1);
        Kind::Lark { line, column, source_line, problem: problem.into() }.into()
    }
}

/// Returns the number of bytes before the first line break.
fn line_len(text: &str) -> usize {
    text.find(['\n', '\r']).unwrap_or(text.len())
}

const fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Reports whether `name` is the name of a terminal. A name has letters of one case only.
fn is_terminal(name: &str) -> bool {
    name.contains(|c: char| c.is_ascii_uppercase())
}

fn kind_of(name: &str) -> &'static str {
    if is_terminal(name) { "terminal" } else { "rule" }
}

/// Replaces the placeholder after each lexeme by the rule of ignored text, or removes the placeholder if
/// nothing is ignored. Recursion is safe, because the parser limits the nesting depth.
fn settle(expr: &mut Expr, ignored: Option<RuleId>) {
    match expr {
        Expr::Sequence(parts) => {
            if parts.last() == Some(&Expr::Rule(IGNORED)) {
                parts.pop();
                match ignored {
                    Some(rule) => parts.push(Expr::Rule(rule)),
                    None => *expr = parts.pop().unwrap_or_else(Expr::empty),
                }
                return;
            }
            for part in parts {
                settle(part, ignored);
            }
        }
        Expr::Alternatives(parts) => {
            for part in parts {
                settle(part, ignored);
            }
        }
        Expr::Repeat { expr, .. } => settle(expr, ignored),
        Expr::Rule(_) | Expr::Literal(_) | Expr::Class(_) | Expr::Bytes(_) => {}
    }
}

#[cfg(test)]
mod tests;
