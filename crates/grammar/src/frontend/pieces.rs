//! Parts of a grammar that are compiled by themselves.

use std::borrow::Cow;
use std::sync::Arc;

use super::builder::moved;
use crate::ir::expr::{Expr, RuleId, Rules};
use crate::ledger::Ledger;
use crate::machine::cfg::Program;
use crate::{GrammarError, Limits};

/// Rules with their compiled form, which several grammars can contain.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) rules: Rules,
    pub(crate) program: Program,
}

/// Rules with placeholders for [pieces](Piece).
#[derive(Debug)]
pub(crate) struct Composed {
    pub(crate) rules: Rules,
    /// The pieces, each with the rule that stands for it. The token terminals of a piece have the same
    /// indices as in `rules`.
    pub(crate) pieces: Vec<(RuleId, Arc<Piece>)>,
}

impl Piece {
    /// Compiles `rules`.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Program::new`].
    pub(super) fn new(rules: Rules, limits: &Limits, ledger: &Ledger) -> Result<Self, GrammarError> {
        let program = Program::new(&rules, limits, ledger)?;
        Ok(Self { rules, program })
    }
}

impl From<Rules> for Composed {
    fn from(rules: Rules) -> Self {
        Self { rules, pieces: Vec::new() }
    }
}

impl Composed {
    /// Compiles all rules.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Program::new`].
    pub(crate) fn program(&self, limits: &Limits, ledger: &Ledger) -> Result<Program, GrammarError> {
        let linked: Vec<_> = self.pieces.iter().map(|(rule, piece)| (*rule, &piece.program)).collect();
        Program::with_linked(&self.rules, &linked, limits, ledger)
    }

    /// Returns the rules together with the rules of the pieces.
    pub(crate) fn flattened(&self) -> Cow<'_, Rules> {
        if self.pieces.is_empty() {
            return Cow::Borrowed(&self.rules);
        }
        let mut rules = self.rules.clone();
        rules.linked.clear();
        for (rule, piece) in &self.pieces {
            let offset = rules.exprs.len() as u32;
            let terminals: Vec<usize> = (0..piece.rules.tokens.len()).collect();
            let prefix = rules.names[rule.index()].clone();
            for (expr, name) in piece.rules.exprs.iter().zip(&piece.rules.names) {
                rules.exprs.push(moved(expr.clone(), offset, &terminals));
                rules.names.push(format!("{prefix}-{name}"));
            }
            let own = |id: RuleId| RuleId(id.0 + offset);
            rules.schemas.extend(piece.rules.schemas.iter().map(|(&id, schema)| (own(id), schema.clone())));
            rules.texts.extend(piece.rules.texts.iter().map(|(&id, text)| (own(id), Arc::clone(text))));
            rules.sealed.extend(piece.rules.sealed.iter().map(|&id| own(id)));
            rules.exprs[rule.index()] = Expr::Rule(own(piece.rules.root));
        }
        Cow::Owned(rules)
    }
}
