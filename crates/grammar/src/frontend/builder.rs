//! Composes a grammar of other grammars, JSON Schemas, token terminals and free text.

use std::collections::BTreeMap;

use serde_json::Value;

use super::json_schema::Schemas;
use super::triggers::{Next, Triggers};
use crate::ir::expr::{EmbeddedSchema, Expr, RuleId, Rules, complement};
use crate::machine::cfg::Program;
use crate::tokens::{NamedToken, TERMINALS, TokenTerminal, is_lead, spelling, spelt};
use crate::{GrammarError, Limits};

/// Maximum number of edges in the trigger automaton of one free text.
const EDGES: usize = 1 << 17;

/// Rules under construction. Rule 0 is the root.
pub(super) struct Builder<'a> {
    pub(super) rules: Rules,
    schemas: Schemas<'a>,
    limits: &'a Limits,
}

/// Continuations at the end of free text.
pub(super) struct Ends {
    /// For each trigger index, the expression that follows the trigger.
    pub(super) triggers: BTreeMap<usize, Expr>,
    /// Expressions that may replace the next character, at every point of the text.
    pub(super) elsewhere: Vec<Expr>,
}

impl<'a> Builder<'a> {
    /// Creates a builder whose root is empty. The caller replaces the root expression.
    pub(super) fn new(schemas: Schemas<'a>, limits: &'a Limits) -> Self {
        Self { rules: Rules::of(Expr::empty()), schemas, limits }
    }

    pub(super) fn rule(&mut self, name: String, expr: Expr) -> RuleId {
        self.rules.exprs.push(expr);
        self.rules.names.push(name);
        RuleId(self.rules.exprs.len() as u32 - 1)
    }

    /// Adds an empty rule for each state of the trigger automaton and returns the first of them.
    /// [`Builder::text`] fills these rules.
    pub(super) fn states(&mut self, automaton: &Triggers) -> Result<RuleId, GrammarError> {
        let first = RuleId(self.rules.exprs.len() as u32);
        let mut edges = 0;
        for state in 0..automaton.len() {
            // A state with a complete trigger is never entered, so its rule stays empty.
            edges += if automaton.is_complete(state) { 0 } else { automaton.edges(state).len() };
            if edges > EDGES {
                return Err(GrammarError::limit("edges in the automaton of its triggers", edges, EDGES));
            }
            self.rule(format!("text-{state}"), Expr::empty());
        }
        Ok(first)
    }

    /// Fills the rules of free text: `first` and the rules after it, one for each automaton state.
    pub(super) fn text(&mut self, first: RuleId, automaton: &Triggers, ends: Ends) {
        let rule = |state: usize| Expr::Rule(RuleId(first.0 + state as u32));
        let triggers: BTreeMap<usize, RuleId> = ends
            .triggers
            .into_iter()
            .map(|(trigger, then)| (trigger, self.rule(format!("trigger-{trigger}"), then)))
            .collect();
        let elsewhere = self.rule("text-end".to_owned(), Expr::Alternatives(ends.elsewhere));
        for state in (0..automaton.len()).filter(|&state| !automaton.is_complete(state)) {
            let mut ways = vec![Expr::Rule(elsewhere)];
            let mut taken = Vec::new();
            for (c, next) in automaton.edges(state) {
                taken.push((c, c));
                let then = match next {
                    Next::State(next) => rule(next),
                    Next::Triggers(complete) => {
                        let known = complete.iter().filter_map(|trigger| triggers.get(trigger));
                        Expr::Alternatives(known.map(|&rule| Expr::Rule(rule)).collect())
                    }
                };
                ways.push(Expr::Sequence(vec![Expr::Class(vec![(c, c)]), then]));
            }
            ways.push(Expr::Sequence(vec![Expr::Class(complement(&taken)), rule(0)]));
            self.rules.exprs[first.index() + state] = Expr::Alternatives(ways);
        }
    }

    /// Adds a rule that matches JSON text of a schema.
    pub(super) fn schema(&mut self, name: String, schema: &Value) -> Result<Expr, GrammarError> {
        let compiled = self.schemas.compile(schema, self.limits)?;
        let (source, program) = (schema.to_string(), compiled.program);
        let rule = self.rule(name, Expr::empty());
        self.rules.schemas.insert(rule, EmbeddedSchema { source, program, warnings: compiled.warnings });
        Ok(Expr::Rule(rule))
    }

    /// Returns an expression that matches one token of the vocabulary, whatever its text is.
    pub(super) fn token(&mut self, id: u32) -> Result<Expr, GrammarError> {
        let index =
            self.terminal(TokenTerminal { negated: false, token: NamedToken::Id(id), origin: None })?;
        Ok(Expr::Literal(spelling(index).to_vec()))
    }

    /// Adds the rules of another grammar and returns a reference to its root.
    ///
    /// # Errors
    /// Returns an error if the other grammar matches nothing.
    pub(super) fn include(&mut self, prefix: &str, other: Rules) -> Result<Expr, GrammarError> {
        // A grammar that matches nothing would silently remove every alternative that contains the grammar.
        Program::new(&other, self.limits, self.schemas.ledger)?;
        let offset = self.rules.exprs.len() as u32;
        let terminals = other.tokens.into_iter().map(|terminal| self.terminal(terminal));
        let terminals: Vec<usize> = terminals.collect::<Result<_, _>>()?;
        for (expr, name) in other.exprs.into_iter().zip(other.names) {
            let expr = moved(expr, offset, &terminals);
            self.rule(format!("{prefix}-{name}"), expr);
        }
        for (rule, schema) in other.schemas {
            self.rules.schemas.insert(RuleId(rule.0 + offset), schema);
        }
        Ok(Expr::Rule(RuleId(other.root.0 + offset)))
    }

    fn terminal(&mut self, terminal: TokenTerminal) -> Result<usize, GrammarError> {
        let tokens = &mut self.rules.tokens;
        if let Some(known) = tokens.iter().position(|known| known.is_same(&terminal)) {
            return Ok(known);
        }
        if tokens.len() == TERMINALS {
            return Err(GrammarError::limit("token terminals", TERMINALS + 1, TERMINALS));
        }
        tokens.push(terminal);
        Ok(tokens.len() - 1)
    }
}

/// Renumbers the rules and token terminals of an expression. Recursion is safe, because the front
/// ends limit the nesting depth.
fn moved(expr: Expr, offset: u32, terminals: &[usize]) -> Expr {
    let all = |parts: Vec<Expr>| parts.into_iter().map(|part| moved(part, offset, terminals)).collect();
    match expr {
        Expr::Rule(rule) => Expr::Rule(RuleId(rule.0 + offset)),
        Expr::Sequence(parts) => Expr::Sequence(all(parts)),
        Expr::Alternatives(parts) => Expr::Alternatives(all(parts)),
        Expr::Repeat { expr, min, max } => {
            Expr::Repeat { expr: Box::new(moved(*expr, offset, terminals)), min, max }
        }
        Expr::Literal(bytes) => Expr::Literal(with_terminals(&bytes, terminals)),
        Expr::Class(_) | Expr::Bytes(_) => expr,
    }
}

/// Replaces each token terminal in a literal by the spelling of its new index.
fn with_terminals(bytes: &[u8], terminals: &[usize]) -> Vec<u8> {
    let mut moved = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        let terminal = after.first().filter(|_| is_lead(byte)).and_then(|&second| spelt([byte, second]));
        rest = after;
        if let Some(&index) = terminal.and_then(|index| terminals.get(index)) {
            moved.extend(spelling(index));
            rest = &after[1..];
        } else {
            moved.push(byte);
        }
    }
    moved
}
