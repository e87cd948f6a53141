//! Parser for GBNF, the grammar notation of llama.cpp.
//!
//! A grammar is a list of rules `name ::= alternatives`. An output must match the rule `root`.
//! Terminals are `"literals"`, `[classes]` and `.` (any character). `( )` groups, `|` separates
//! alternatives, `* + ? {n} {n,} {n,m}` repeat, and `#` starts a comment. A rule ends at a line
//! break outside parentheses, unless the line ends with `|` or the next line begins with `|`.
//! Characters are Unicode scalar values in UTF-8. Left recursion is allowed.
//!
//! `<[7]>` matches the token with id 7, and `<think>` matches the token with that text. A leading
//! `!` negates, so `!<think>` matches any other token. No token terminal matches a token that ends
//! generation. `%json` followed by a JSON Schema matches JSON text that the schema accepts.

mod characters;
mod counts;
mod print;
pub mod spelling;
mod terminals;

use std::collections::HashMap;

use rustc_hash::FxHashMap;

pub(crate) use print::print;
pub(super) use terminals::offset;

use super::json_schema::Schemas;
use crate::error::{GbnfProblem, Kind};
use crate::ir::expr::{EmbeddedSchema, Expr, RuleId, Rules, reached};
use crate::tokens::{NamedToken, TokenTerminal};
use crate::{GrammarError, Limits, Warning};

/// Largest count in a repetition `{m,n}`.
const MAX_REPETITION: u32 = 1 << 20;

/// Cost of parsing one item of a sequence, in ledger steps.
const PART: usize = 16;

/// Maximum number of digits of a repetition count in an error message.
const DIGITS: usize = 20;

/// Parses a whole grammar. `reading` holds the options, remote documents and ledger for embedded schemas.
pub(crate) fn parse(source: &str, reading: Schemas<'_>, limits: &Limits) -> Result<Rules, GrammarError> {
    if source.len() > limits.source_bytes {
        return Err(GrammarError::limit("bytes of source", source.len(), limits.source_bytes));
    }
    let mut parser = Parser {
        source,
        at: 0,
        depth: 0,
        stacked: 0,
        limits,
        reading,
        names: HashMap::new(),
        rules: Vec::new(),
        schemas: FxHashMap::default(),
        tokens: Vec::new(),
        token_ids: FxHashMap::default(),
        lines: (0, 0),
        groups: Vec::new(),
        overlong: None,
        current: "",
    };
    let parsed = parser.rules();
    let parsed = parsed.and_then(|()| parser.finish());
    parsed.map_err(|error| parser.unclosed(error))
}

/// A rule that the source has mentioned or defined.
struct Rule<'s> {
    name: &'s str,
    /// Byte offset of the first mention.
    mentioned: usize,
    /// Byte offset of the definition, and the parsed expression. `None` until the definition is
    /// parsed.
    defined: Option<(usize, Expr)>,
}

struct Parser<'s> {
    source: &'s str,
    at: usize,
    depth: usize,
    /// Number of repetition operators in the current rule that directly follow another one, as the
    /// `?` in `a*?`. Each of them adds one level of nesting, like a group.
    stacked: usize,
    limits: &'s Limits,
    reading: Schemas<'s>,
    names: HashMap<&'s str, RuleId>,
    rules: Vec<Rule<'s>>,
    schemas: FxHashMap<RuleId, EmbeddedSchema>,
    tokens: Vec<TokenTerminal>,
    /// Index in `tokens` of each terminal, by the terminal's `negated` flag and token.
    token_ids: FxHashMap<(bool, NamedToken), usize>,
    /// Cache of [`Parser::line_of`]: a byte offset, and the number of line breaks before it.
    lines: (usize, usize),
    /// Byte offsets of the open groups, the outermost first.
    groups: Vec<usize>,
    /// Byte offset and kind of the first literal or class whose text contains a line break and
    /// `::=`. Its closing quote or bracket is probably missing.
    overlong: Option<(usize, &'static str)>,
    /// Name of the rule that is being parsed.
    current: &'s str,
}

impl<'s> Parser<'s> {
    fn rules(&mut self) -> Result<(), GrammarError> {
        self.skip_blank();
        while self.at < self.source.len() {
            self.rule()?;
            self.skip_blank();
        }
        Ok(())
    }

    /// Returns the error to report instead of `error`. If a literal or class contains the beginning
    /// of another rule, its missing end is the likely cause of `error`.
    fn unclosed(&self, error: GrammarError) -> GrammarError {
        match self.overlong {
            Some((start, what)) => self.error(start, GbnfProblem::Unterminated { what }),
            None => error,
        }
    }

    fn finish(&mut self) -> Result<Rules, GrammarError> {
        let Some(&root) = self.names.get("root") else {
            return Err(self.error(self.source.len(), GbnfProblem::NoRoot));
        };
        let mut exprs = Vec::with_capacity(self.rules.len());
        for at in 0..self.rules.len() {
            let rule = &mut self.rules[at];
            match &mut rule.defined {
                Some((_, expr)) => exprs.push(std::mem::replace(expr, Expr::empty())),
                None if rule.name == "root" => {
                    return Err(self.error(self.source.len(), GbnfProblem::NoRoot));
                }
                None => {
                    let (name, mentioned) = (rule.name.to_owned(), rule.mentioned);
                    return Err(self.error(mentioned, GbnfProblem::Undefined { name }));
                }
            }
        }
        let names = self.rules.iter().map(|rule| rule.name.to_owned()).collect();
        let lines = self.lines_of_rules();
        let warnings = self.unreachable(&reached(&exprs, root), &lines);
        let (schemas, tokens) = (std::mem::take(&mut self.schemas), std::mem::take(&mut self.tokens));
        Ok(Rules { lines, schemas, tokens, warnings, ..Rules::new(exprs, names, root) })
    }

    /// Returns the line of each rule's definition, counted from 1.
    fn lines_of_rules(&self) -> Vec<usize> {
        let places = self.rules.iter().enumerate();
        let mut places: Vec<(usize, usize)> =
            places.filter_map(|(index, rule)| Some((rule.defined.as_ref()?.0, index))).collect();
        places.sort_unstable();
        let mut lines = vec![0; self.rules.len()];
        let (mut from, mut line) = (0, 1);
        for (at, index) in places {
            line += line_ends(&self.source[from..at]);
            from = at;
            lines[index] = line;
        }
        lines
    }

    /// Returns a warning for each rule whose flag in `reached` is false, in the order of the rules'
    /// `lines`. Embedded schemas have rules without names, which cause no warning.
    fn unreachable(&self, reached: &[bool], lines: &[usize]) -> Vec<Warning> {
        let rules = self.rules.iter().zip(reached.iter().zip(lines));
        let missed = rules.filter(|(rule, (reached, _))| !**reached && !rule.name.is_empty());
        let mut warnings: Vec<(usize, &str)> = missed.map(|(rule, (_, line))| (*line, rule.name)).collect();
        warnings.sort_unstable();
        let warning = |(line, name): (usize, &str)| Warning::UnreachableRule {
            rule: name.to_owned(),
            line,
            start: "root",
        };
        warnings.into_iter().map(warning).collect()
    }

    /// Parses `name ::= alternatives` and stops at the line break that ends the rule.
    fn rule(&mut self) -> Result<(), GrammarError> {
        let start = self.at;
        let name = self.name().ok_or_else(|| self.expected("a rule name"))?;
        self.skip_space();
        if !self.take("::=") {
            return Err(self.expected("`::=`"));
        }
        let id = self.intern(name, start);
        if let Some((first, _)) = self.rules[id.index()].defined {
            let first = self.line_column(first).0;
            return Err(self.error(start, GbnfProblem::Duplicate { name: name.to_owned(), first }));
        }
        self.skip_blank();
        self.stacked = 0;
        self.current = name;
        let expr = self.alternatives(false)?;
        self.rules[id.index()].defined = Some((start, expr));
        match self.peek() {
            None | Some('\n' | '\r') => Ok(()),
            _ => Err(self.expected("`|`, a terminal, a rule name or the end of the line")),
        }
    }

    /// Parses `sequence | sequence | …`. `nested` is true inside parentheses, where line breaks
    /// count as blanks.
    fn alternatives(&mut self, nested: bool) -> Result<Expr, GrammarError> {
        let mut parts = vec![self.sequence(nested)?];
        loop {
            let before = self.at;
            // The next alternative may begin on a following line.
            self.skip_blank();
            if !self.take("|") {
                if !nested {
                    self.at = before;
                }
                break;
            }
            self.skip_blank();
            parts.push(self.sequence(nested)?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Expr::Alternatives(parts) })
    }

    fn sequence(&mut self, nested: bool) -> Result<Expr, GrammarError> {
        let mut parts = Vec::new();
        loop {
            self.skip(nested);
            let Some(item) = self.item()? else { break };
            let item = self.repetitions(item, nested)?;
            self.reading.ledger.spend(PART)?;
            self.reading.ledger.hold(2 * size_of::<Expr>())?;
            parts.push(item);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Expr::Sequence(parts) })
    }

    /// Parses one terminal, reference or group. Returns `None` at the end of the sequence.
    fn item(&mut self) -> Result<Option<Expr>, GrammarError> {
        let start = self.at;
        match self.peek() {
            Some('"') => self.literal().map(Some),
            Some('[') => self.class().map(Some),
            Some('.') => {
                self.at += 1;
                Ok(Some(Expr::Class(vec![('\0', char::MAX)])))
            }
            Some('(') => self.group().map(Some),
            Some('<') => self.token().map(Some),
            Some('!') if self.source[self.at..].starts_with("!<") => self.token().map(Some),
            Some('%') if self.source[self.at..].starts_with(terminals::JSON) => self.json().map(Some),
            Some('*' | '+' | '?' | '{') => Err(self.error(start, GbnfProblem::NothingToRepeat)),
            _ => {
                let Some(name) = self.name() else { return Ok(None) };
                let after = self.at;
                self.skip_space();
                if self.source[self.at..].starts_with("::=") {
                    let name = name.to_owned();
                    if let Some(&group) = self.groups.last() {
                        return Err(self.error(group, GbnfProblem::Unterminated { what: "group" }));
                    }
                    return Err(self.error(start, GbnfProblem::RuleInside { name }));
                }
                self.at = after;
                Ok(Some(Expr::Rule(self.intern(name, start))))
            }
        }
    }

    fn group(&mut self) -> Result<Expr, GrammarError> {
        if self.depth == self.limits.nesting {
            return Err(self.error(self.at, GbnfProblem::Nesting { limit: self.limits.nesting }));
        }
        let start = self.at;
        self.at += 1;
        self.depth += 1;
        self.groups.push(start);
        self.skip_blank();
        let expr = self.alternatives(true)?;
        self.skip_blank();
        if self.peek().is_none() {
            return Err(self.error(start, GbnfProblem::Unterminated { what: "group" }));
        }
        if !self.take(")") {
            return Err(self.expected("`|`, a terminal, a rule name or `)`"));
        }
        self.groups.pop();
        self.depth -= 1;
        Ok(expr)
    }

    /// Sets `overlong` if the literal or class from `start` to the current position contains a line
    /// break and `::=`. `what` is its kind for the error message.
    fn note_overlong(&mut self, start: usize, what: &'static str) {
        if self.overlong.is_none() {
            let text = &self.source[start..self.at];
            let has_rule = text.contains(['\n', '\r']) && text.contains("::=");
            self.overlong = has_rule.then_some((start, what));
        }
    }

    /// Parses the postfix operators `*`, `+`, `?` and `{…}` that follow an item, and applies them
    /// to `expr`, which is the item.
    fn repetitions(&mut self, mut expr: Expr, nested: bool) -> Result<Expr, GrammarError> {
        let mut layers = 0;
        loop {
            let before = self.at;
            self.skip(nested);
            let (min, max) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => self.counts(nested)?,
                _ => {
                    self.at = before;
                    return Ok(expr);
                }
            };
            self.at += 1; // Skip the operator or the closing brace.
            self.stacked += usize::from(layers > 0);
            layers += 1;
            if self.stacked > self.limits.nesting {
                return Err(self.error(before, GbnfProblem::Nesting { limit: self.limits.nesting }));
            }
            expr = Expr::Repeat { expr: Box::new(expr), min, max };
        }
    }

    /// Parses `{m}`, `{m,}`, `{,n}` or `{m,n}` and stops at the closing brace. Returns the minimum
    /// and the maximum.
    fn counts(&mut self, nested: bool) -> Result<(u32, Option<u32>), GrammarError> {
        let start = self.at;
        // A count inside a group may span lines, but rarely does. So an error on a line without a
        // closing brace is reported as an unclosed count.
        let line = self.source[start..].split(['\n', '\r']).next().unwrap_or_default();
        let is_closed = line.contains('}');
        self.closed_counts(nested).map_err(|error| {
            let problem = GbnfProblem::Unterminated { what: "count" };
            if is_closed { error } else { self.error(start, problem) }
        })
    }

    fn closed_counts(&mut self, nested: bool) -> Result<(u32, Option<u32>), GrammarError> {
        let start = self.at;
        self.at += 1;
        self.skip(nested);
        let min = self.number()?;
        self.skip(nested);
        let (min, max) = if self.take(",") {
            self.skip(nested);
            let max = self.number()?;
            if min.is_none() && max.is_none() {
                return Err(self.expected("a number"));
            }
            (min.unwrap_or(0), max)
        } else {
            let exact = min.ok_or_else(|| self.expected("a number"))?;
            (exact, Some(exact))
        };
        self.skip(nested);
        if self.peek() != Some('}') {
            return Err(self.expected("`}`"));
        }
        match max {
            Some(max) if max < min => Err(self.error(start, GbnfProblem::BackwardRepetition { min, max })),
            _ => Ok((min, max)),
        }
    }

    fn number(&mut self) -> Result<Option<u32>, GrammarError> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        let digits = &self.source[start..self.at];
        if digits.is_empty() {
            return Ok(None);
        }
        match digits.parse() {
            Ok(number) if number <= MAX_REPETITION => Ok(Some(number)),
            _ => {
                let given = if digits.len() > DIGITS {
                    format!("{}…", &digits[..DIGITS])
                } else {
                    digits.to_owned()
                };
                let problem = GbnfProblem::HugeRepetition { given, limit: MAX_REPETITION };
                Err(self.error(start, problem))
            }
        }
    }

    /// Parses a rule name: ASCII letters, digits, `-` and, as in other engines, `_`. Returns `None`
    /// if there is no name at the current position.
    fn name(&mut self) -> Option<&'s str> {
        let rest = &self.source[self.at..];
        let len =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).unwrap_or(rest.len());
        self.at += len;
        (len > 0).then_some(&rest[..len])
    }

    fn intern(&mut self, name: &'s str, mentioned: usize) -> RuleId {
        *self.names.entry(name).or_insert_with(|| {
            self.rules.push(Rule { name, mentioned, defined: None });
            RuleId(self.rules.len() as u32 - 1)
        })
    }

    /// Adds a rule without a name for an embedded schema. The rule's expression is a placeholder
    /// that matches nothing.
    fn unnamed(&mut self, mentioned: usize) -> RuleId {
        let nothing = Expr::Alternatives(Vec::new());
        self.rules.push(Rule { name: "", mentioned, defined: Some((mentioned, nothing)) });
        RuleId(self.rules.len() as u32 - 1)
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
        let found = self.source[self.at..].starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Skips spaces, tabs and comments.
    fn skip_space(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.at += 1,
                Some('#') => {
                    let rest = &self.source[self.at..];
                    self.at += rest.find(['\n', '\r']).unwrap_or(rest.len());
                }
                _ => return,
            }
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

    fn skip(&mut self, nested: bool) {
        if nested { self.skip_blank() } else { self.skip_space() }
    }

    fn expected(&self, expected: &'static str) -> GrammarError {
        let found = match self.peek() {
            None => "the end of the grammar".to_owned(),
            Some('\n' | '\r') => "the end of the line".to_owned(),
            Some(c) => format!("`{}`", shown(&c.to_string())),
        };
        self.error(self.at, GbnfProblem::Expected { expected, found })
    }

    /// Returns the line of the byte offset `at`, counted from 1. Offsets must not decrease between
    /// calls.
    fn line_of(&mut self, at: usize) -> usize {
        let (from, before) = self.lines;
        let lines = before + line_ends(&self.source[from.min(at)..at]);
        self.lines = (at, lines);
        lines + 1
    }

    fn error(&self, at: usize, problem: GbnfProblem) -> GrammarError {
        let (line, column) = self.line_column(at);
        let before = &self.source[..at];
        let start = before.rfind(['\n', '\r']).map_or(0, |end| end + 1);
        let source_line = self.source[start..].split(['\n', '\r']).next().unwrap_or("").replace('\t', " ");
        Kind::Gbnf { line, column, source_line, problem }.into()
    }

    /// Returns the line and column of the byte offset `at`, both counted from 1. Columns count
    /// characters.
    fn line_column(&self, at: usize) -> (usize, usize) {
        let before = &self.source[..at];
        let line_start = before.rfind(['\n', '\r']).map_or(0, |end| end + 1);
        (line_ends(before) + 1, before[line_start..].chars().count() + 1)
    }
}

/// Counts the line breaks in a text. `\r\n` counts once, and `\n` and `\r` count once each.
pub(super) fn line_ends(text: &str) -> usize {
    text.matches(['\n', '\r']).count() - text.matches("\r\n").count()
}

/// Escapes control characters, so the text fits on one line of a message.
pub(super) fn shown(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(source: &str) -> Result<Rules, GrammarError> {
        parse(source, Schemas::alone(crate::SchemaOptions::default()), &Limits::default())
    }

    fn message(source: &str) -> String {
        parsed(source).expect_err(source).to_string()
    }

    #[test]
    fn errors_name_line_column_and_what_was_expected() {
        insta::assert_snapshot!(
            [
                "root ::= \"a",
                "root := \"a\"",
                "root ::= item\nitem ::= other \"x\"",
                "root ::= \"a\"\nroot ::= \"b\"",
                "item ::= \"a\"",
                "",
                "root ::= (\"a\" | \"b\"",
                "root ::= \"a\" )",
                "root ::= [z-a]",
                "root ::= [abc",
                "root ::= \"\\q\"",
                "root ::= \"\\xZZ\"",
                "root ::= \"\\UFFFFFFFF\"",
                "root ::= \"a\"{3,2}",
                "root ::= \"a\"{99999999999}",
                "root ::= \"a\"{,}",
                "root ::= <[7>",
                "root ::= <>",
                "root ::= !<a\n>",
                "root ::= %json {\"type\": }",
                "root ::= %json\n  {\"type\": \"text\"}",
                "root ::= %json",
            ]
            .map(message)
            .join("\n")
        );
    }

    #[test]
    fn reports_an_unclosed_bracket_at_its_position() {
        for (source, line, column, what) in [
            ("root ::= \"[\" (item (\",\" item)* \"]\"\nitem ::= [0-9]+", 1, 14, "group"),
            ("root ::= (\"a\" | (\"b\" item\nitem ::= \"x\"", 1, 17, "group"),
            ("root ::= (\"a\" |\n  \"b\" # no end\n", 1, 10, "group"),
            ("root ::= item [abc\nitem ::= [0-9]+", 1, 15, "class"),
            ("root ::= item [abc\nitem ::= \"x\" [0-9] y", 1, 15, "class"),
            ("root ::= \"abc item\nitem ::= \"x\"", 1, 10, "literal"),
            ("root ::= item \"abc\nitem ::= \"x\" \"y\"", 1, 15, "literal"),
            ("root ::= \"a\"{2 item\nitem ::= \"x\"", 1, 13, "count"),
            ("root ::= \"a\"{2,", 1, 13, "count"),
            ("root ::= (\"a\"{2,3\n)", 1, 14, "count"),
        ] {
            let error = parsed(source).expect_err(source);
            assert_eq!(error.to_string(), format!("line {line}, column {column}: this {what} is not closed"));
        }
        // Text may contain line breaks and something that looks like a rule.
        let source = "root ::= \"a\nb ::= c\" [x\ny ::= z]";
        assert_eq!(parsed(source).expect("closed").exprs.len(), 1);
    }

    #[test]
    fn the_excerpt_points_at_the_place() {
        let error = parsed("root ::= item\nitem ::= \"a\" missing").expect_err("undefined");
        assert_eq!(error.excerpt().as_deref(), Some("item ::= \"a\" missing\n             ^"));
        assert_eq!(error.line_column(), Some((2, 14)));
    }

    #[test]
    fn reports_unreachable_rules_with_their_lines() {
        let source = "left ::= right\nroot ::= \"a\" used\r\nright ::= left\n# a comment\n\nused ::= \"b\" %json {}\nlost ::= used";
        let warnings: Vec<_> =
            parsed(source).expect("valid").warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            warnings,
            [
                "line 1: rule `left` is unreachable from `root`",
                "line 3: rule `right` is unreachable from `root`",
                "line 7: rule `lost` is unreachable from `root`",
            ]
        );
    }

    #[test]
    fn deep_groups_end_at_the_limit() {
        let source = format!("root ::= {}\"a\"{}", "(".repeat(60_000), ")".repeat(60_000));
        assert!(message(&source).contains("nested deeper"));
    }

    #[test]
    fn rules_end_at_line_breaks_except_after_a_bar() {
        let grammar = "root ::= \"a\" # comment\n  | \"b\" |\n \"c\" (\n x\n)\n\nx ::= [^a-c\\]-]";
        let rules = parsed(grammar).expect("valid");
        assert_eq!(rules.exprs.len(), 2);
        assert!(matches!(&rules.exprs[0], Expr::Alternatives(parts) if parts.len() == 3));
    }
}
