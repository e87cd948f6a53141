//! Definitions and the statements that begin with `%`.

use super::{Defined, PART, Parser, common, is_terminal, kind_of};
use crate::GrammarError;
use crate::error::{GbnfProblem, LarkProblem};
use crate::ir::expr::Expr;

impl<'s> Parser<'s> {
    pub(super) fn statements(&mut self) -> Result<(), GrammarError> {
        self.skip_blank();
        while let Some(first) = self.peek() {
            self.reading.ledger.spend(PART)?;
            if first == '%' {
                self.directive()?;
            } else {
                self.definition()?;
            }
            match self.peek() {
                None | Some('\n' | '\r') => {}
                _ => return Err(self.expected("`|`, a terminal, a rule name or the end of the line")),
            }
            self.skip_blank();
        }
        Ok(())
    }

    /// Parses `name: alternatives`.
    fn definition(&mut self) -> Result<(), GrammarError> {
        let start = self.at;
        while self.peek().is_some_and(|c| matches!(c, '?' | '!')) {
            self.at += 1;
        }
        if self.source[self.at..].starts_with('|') {
            return Err(self.expected("a rule name; `|` continues the rule of the line before"));
        }
        let name = self.name()?.ok_or_else(|| self.expected("a rule name, a terminal name or `%`"))?;
        if is_terminal(name) && self.source[start..].starts_with(['?', '!']) {
            return Err(self.error(start, LarkProblem::Prefix { name: name.to_owned() }));
        }
        self.skip_space();
        self.colon(name, start)?;
        self.define(name, start, |parser| {
            parser.is_in_terminal = is_terminal(name);
            let expr = parser.alternatives()?;
            parser.is_in_terminal = false;
            Ok(expr)
        })
    }

    /// Parses the colon after the name of a definition, which is at the byte offset `start`.
    fn colon(&mut self, name: &str, start: usize) -> Result<(), GrammarError> {
        let rest = &self.source[self.at..];
        let at = self.at;
        match rest.chars().next() {
            Some('.') => Err(self.unsupported(
                at,
                "priorities (`.1` after a name) are",
                "remove the priority, because every reading of a text is allowed",
            )),
            Some('{') => Err(self.templates(at)),
            Some('[') => {
                let inside = rest[1..].trim_start();
                let end = inside.find(|c: char| !super::is_in_name(c)).unwrap_or(inside.len());
                let what = match &inside[..end] {
                    "" => "attributes in brackets are".to_owned(),
                    attribute => format!("the attribute `{attribute}` of `{name}` is"),
                };
                Err(self.unsupported(at, what, "remove the brackets before the colon"))
            }
            _ if rest.starts_with("::=") => Err(self.expected("`:`, because `::=` belongs to GBNF")),
            _ if rest.starts_with("::") => Err(self.parametric(start)),
            Some(':') => {
                self.at += 1;
                Ok(())
            }
            _ => Err(self.expected("`:`")),
        }
    }

    /// Adds the definition of `name`, whose expression `read` parses. `start` is the byte offset of the
    /// definition.
    fn define(
        &mut self,
        name: &'s str,
        start: usize,
        read: impl FnOnce(&mut Self) -> Result<Expr, GrammarError>,
    ) -> Result<(), GrammarError> {
        let id = self.intern(name, start)?;
        if let Some(first) = &self.definitions[id.index()].defined {
            let (what, name, first) = (kind_of(name), name.to_owned(), first.line);
            return Err(self.error(start, LarkProblem::Duplicate { what, name, first }));
        }
        let line = self.line_of(start);
        let outer = std::mem::replace(&mut self.current, name);
        let expr = read(self)?;
        self.current = outer;
        let is_imported = self.source[start..].starts_with('%');
        self.definitions[id.index()].defined = Some(Defined { at: start, line, is_imported, expr });
        Ok(())
    }

    /// Parses a statement that begins with `%`.
    fn directive(&mut self) -> Result<(), GrammarError> {
        let start = self.at;
        let word = self.word_after_percent();
        match word {
            "ignore" => {
                self.skip_space();
                if matches!(self.peek(), None | Some('\n' | '\r')) {
                    return Err(self.expected("a terminal"));
                }
                self.is_in_terminal = true;
                let expr = self.alternatives()?;
                self.is_in_terminal = false;
                self.charge()?;
                self.ignored.push(expr);
                Ok(())
            }
            "import" => self.import(start),
            "declare" => {
                Err(self.unsupported(start, "`%declare` is", "define the terminal, so that it matches text"))
            }
            "override" | "extend" => Err(self.unsupported(
                start,
                format!("`%{word}` is"),
                "define every rule once, in this grammar",
            )),
            "llguidance" => Err(self.unsupported(
                start,
                "`%llguidance` is",
                "remove it; options are not part of a grammar",
            )),
            _ => {
                self.at = start;
                Err(self.expected("a rule, a terminal, `%import` or `%ignore`"))
            }
        }
    }

    /// Parses a word such as `%json` and returns it without the percent sign.
    pub(super) fn word_after_percent(&mut self) -> &'s str {
        let rest = &self.source[self.at + 1..];
        let len = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        self.at += 1 + len;
        &rest[..len]
    }

    /// Parses `common.NAME`, `common.NAME -> OTHER` or `common (NAME, …)`.
    fn import(&mut self, start: usize) -> Result<(), GrammarError> {
        self.skip_space();
        let path = self.at;
        if self.name()? != Some("common") {
            return Err(self.unsupported(
                path,
                "an import of another grammar than `common` is",
                "write the rules in this grammar",
            ));
        }
        self.skip_space();
        if self.take("(") {
            loop {
                self.skip_blank();
                let at = self.at;
                let name = self.imported_name()?;
                self.define(name, start, |parser| parser.common(name, at))?;
                self.skip_blank();
                if self.take(")") {
                    self.skip_space();
                    return Ok(());
                }
                if !self.take(",") {
                    return Err(self.expected("`,` or `)`"));
                }
            }
        }
        if !self.take(".") {
            return Err(self.expected("`.` or `(`"));
        }
        let at = self.at;
        let name = self.imported_name()?;
        let after = self.at;
        self.skip_space();
        let mut alias = name;
        if self.take("->") {
            self.skip_space();
            alias = self.imported_name()?;
        } else {
            self.at = after;
        }
        self.skip_space();
        self.define(alias, start, |parser| parser.common(name, at))
    }

    fn imported_name(&mut self) -> Result<&'s str, GrammarError> {
        let start = self.at;
        let name = self.name()?.filter(|name| is_terminal(name));
        name.ok_or_else(|| {
            self.at = start;
            self.expected("the name of a terminal")
        })
    }

    /// Returns the terminal `name` of Lark's grammar `common`. The name is at the byte offset `at`.
    fn common(&mut self, name: &str, at: usize) -> Result<Expr, GrammarError> {
        let Some(pattern) = common::pattern(name) else {
            return Err(self.error(at, LarkProblem::NotCommon { name: name.to_owned() }));
        };
        self.compile(pattern, "", at)
    }
}

impl Parser<'_> {
    /// Parses `%json` and a schema, or refuses another word after a percent sign in a rule.
    pub(super) fn embedded(&mut self) -> Result<Expr, GrammarError> {
        let start = self.at;
        match self.word_after_percent() {
            "json" if self.is_in_terminal => {
                Err(self.error(start, LarkProblem::NotInTerminal { what: "`%json`" }))
            }
            "json" => self.json(start),
            "lark" => Err(self.unsupported(start, "`%lark` is", "write the rules in this grammar")),
            "regex" => {
                Err(self.unsupported(start, "`%regex` is", "write a regular expression between slashes"))
            }
            _ => {
                self.at = start;
                if let Some(&(group, what)) = self.groups.last() {
                    return Err(self.error(group, GbnfProblem::Unterminated { what }));
                }
                Err(self.expected("a terminal, a rule name or the end of the line"))
            }
        }
    }
}
