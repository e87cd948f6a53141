//! Composes a grammar from other grammars, JSON Schemas, token terminals and free text.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::json_schema::{Compiled, Schemas};
use super::pieces::{Composed, Piece};
use super::schema::Schema;
use super::triggers::{Next, Triggers};
use crate::ir::expr::{EmbeddedSchema, Expr, RuleId, Rules, SchemaSource, complement};
use crate::machine::cfg::Program;
use crate::tokens::{NamedToken, TERMINALS, TokenTerminal, is_lead, spelling, spelt};
use crate::{GrammarError, Limits};

/// Maximum number of edges in the trigger automaton of one free text.
const EDGES: usize = 1 << 17;

/// Builds one grammar from several parts. Rule 0 of the grammar is the root.
pub(super) struct Builder<'a> {
    pub(super) rules: Rules,
    pieces: Vec<(RuleId, Arc<Piece>)>,
    schemas: Schemas<'a>,
    limits: &'a Limits,
}

/// The expressions that may follow free text.
pub(super) struct Ends {
    /// Maps the index of a trigger to the expression that must follow the trigger. A trigger
    /// without an entry must not occur in the text.
    pub(super) triggers: BTreeMap<usize, Expr>,
    /// Expressions that may follow the text at any point. An empty expression lets the text end
    /// there.
    pub(super) elsewhere: Vec<Expr>,
}

impl<'a> Builder<'a> {
    /// Creates a builder whose root is empty. The caller replaces the root expression.
    pub(super) fn new(schemas: Schemas<'a>, limits: &'a Limits) -> Self {
        Self { rules: Rules::of(Expr::empty()), pieces: Vec::new(), schemas, limits }
    }

    /// Adds a rule to the grammar and returns its id.
    pub(super) fn rule(&mut self, name: String, expr: Expr) -> RuleId {
        self.rules.exprs.push(expr);
        self.rules.names.push(name);
        RuleId(self.rules.exprs.len() as u32 - 1)
    }

    /// Adds one empty rule for each state of `automaton`, with consecutive ids, and returns the
    /// first id. [`Builder::text`] fills these rules.
    ///
    /// # Errors
    /// Returns an error if the automaton has too many edges.
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

    /// Fills the rules that [`Builder::states`] added for `automaton`. `first` is the id of the
    /// first rule. The rule of a state matches the rest of the free text, followed by one of the
    /// expressions in `ends`.
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

    /// Compiles `schema` and adds a rule called `name`, which matches JSON text that the schema
    /// accepts. Returns a reference to the rule.
    pub(super) fn schema(&mut self, name: String, schema: &Schema) -> Result<Expr, GrammarError> {
        let compiled = self.schemas.compile(schema.as_value(), self.limits)?;
        Ok(self.compiled_schema(name, schema, &compiled))
    }

    /// Adds a rule called `name` like [`Builder::schema`], for a schema that is compiled. Returns a
    /// reference to the rule.
    pub(super) fn compiled_schema(&mut self, name: String, schema: &Schema, compiled: &Compiled) -> Expr {
        let rule = self.rule(name, Expr::empty());
        let Compiled { program, warnings } = compiled;
        let embedded = EmbeddedSchema {
            source: Some(SchemaSource::Value(schema.shared())),
            root: program.root,
            program: Arc::clone(program),
            warnings: warnings.clone(),
        };
        self.rules.schemas.insert(rule, embedded);
        Expr::Rule(rule)
    }

    /// Adds a rule called `name` that stands for `piece`. Returns a reference to the rule. The token
    /// terminals of the piece must begin with those of the grammar.
    pub(super) fn link(&mut self, name: String, piece: Arc<Piece>) -> Expr {
        let rule = self.rule(name, Expr::empty());
        self.rules.linked.insert(rule);
        let own = self.rules.tokens.len();
        self.rules.tokens.extend(piece.rules.tokens.iter().skip(own).cloned());
        self.rules.warnings.extend(piece.rules.warnings.iter().cloned());
        self.pieces.push((rule, piece));
        Expr::Rule(rule)
    }

    /// Returns the grammar.
    pub(super) fn finish(self) -> Composed {
        Composed { rules: self.rules, pieces: self.pieces }
    }

    /// Returns an expression that matches the token with the given id, whatever the token's text
    /// is.
    pub(super) fn token(&mut self, id: u32) -> Result<Expr, GrammarError> {
        let index =
            self.terminal(TokenTerminal { negated: false, token: NamedToken::Id(id), origin: None })?;
        Ok(Expr::Literal(spelling(index).to_vec()))
    }

    /// Adds the rules of `other` and returns a reference to its root. The name of each rule gets
    /// `prefix` in front.
    ///
    /// # Errors
    /// Returns an error if `other` matches nothing, or if a limit is exceeded.
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
        let texts = other.texts.into_iter().map(|(rule, text)| (RuleId(rule.0 + offset), text));
        self.rules.texts.extend(texts);
        self.rules.sealed.extend(other.sealed.into_iter().map(|rule| RuleId(rule.0 + offset)));
        Ok(Expr::Rule(RuleId(other.root.0 + offset)))
    }

    /// Returns the index of `terminal` among the token terminals, and adds the terminal if it is
    /// new.
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

/// Rewrites an expression of another grammar for this one. Adds `offset` to each rule id, and
/// replaces the token terminal with index `i` by `terminals[i]`. Recursion is safe, because the
/// front ends limit the nesting depth.
pub(super) fn moved(expr: Expr, offset: u32, terminals: &[usize]) -> Expr {
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

/// Replaces each token terminal in a literal: the spelling of index `i` becomes the spelling of
/// `terminals[i]`.
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
