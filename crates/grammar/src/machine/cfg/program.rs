//! The compiled form of a grammar's rules.

use std::sync::Arc;

use super::build;
use super::states::{ByteEdge, CallEdge, Dot, State, States};
use crate::ir::expr::{RuleId, Rules};
use crate::ir::json::JsonProgram;
use crate::ir::json::program::NodeId;
use crate::ir::text::TextProgram;
use crate::ledger::Ledger;
use crate::machine::Machine;
use crate::machine::text::TextMachine;
use crate::tokens::TokenTerminal;
use crate::{GrammarError, Limits};

/// A program for another machine.
#[derive(Clone, Debug)]
pub(crate) enum EmbeddedProgram {
    /// JSON texts: a schema, and the node whose values the grammar contains.
    Json(Arc<JsonProgram>, NodeId),
    /// Raw strings.
    Text(Arc<TextProgram>),
}

impl EmbeddedProgram {
    /// Creates the machine that reads the texts.
    pub(crate) fn machine(&self) -> Box<dyn Machine> {
        match self {
            Self::Json(program, root) => Box::new(program.machine_of(*root)),
            Self::Text(program) => Box::new(TextMachine::new(Arc::clone(program))),
        }
    }

    fn shortest_text(&self) -> Vec<u8> {
        match self {
            Self::Json(program, root) => program.shortest_text_of(*root),
            Self::Text(program) => program.shortest(),
        }
    }
}

/// The shortest text from a [`Dot`] to the end of its rule, or from a position to the end of the
/// output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shortest {
    /// Length in bytes. [`Shortest::NEVER`] if the end cannot be reached.
    pub(crate) len: u32,
    /// First byte of the text. Meaningless if `len` is 0.
    pub(crate) first: u8,
}

impl Shortest {
    pub(crate) const NEVER: u32 = u32::MAX;
}

/// A compiled grammar. Every edge lies on a path to the end of its rule.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) states: States,
    pub(crate) shortest: Vec<Shortest>,
    /// For each state, its rank in the order in which the shortest texts were found. Each shortest
    /// text is composed of the shortest texts of states with smaller ranks.
    pub(crate) ranks: Vec<u32>,
    /// The start dot of each rule.
    pub(crate) starts: Vec<Dot>,
    pub(crate) root: RuleId,
    /// Programs of the texts that other machines read.
    pub(crate) embedded: Vec<EmbeddedProgram>,
    pub(crate) tokens: Vec<TokenTerminal>,
}

impl Program {
    /// Compiles `rules`.
    ///
    /// # Errors
    /// Returns an error if the root rule matches no finite text, or if the automata exceed a limit.
    pub(crate) fn new(rules: &Rules, limits: &Limits, ledger: &Ledger) -> Result<Self, GrammarError> {
        Self::with_linked(rules, &[], limits, ledger)
    }

    /// Compiles `rules`. Each rule in `linked` is the root of a compiled program, which becomes a part
    /// of the result. Both must spell their token terminals in the same way.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Program::new`].
    pub(crate) fn with_linked(
        rules: &Rules,
        linked: &[(RuleId, &Self)],
        limits: &Limits,
        ledger: &Ledger,
    ) -> Result<Self, GrammarError> {
        build::build(rules, linked, limits, ledger)
    }

    /// Compiles `rules`, which must have no linked rules, and copies no rule into its callers. So
    /// [`rule_of`](Self::rule_of) names the rule of the source.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Program::new`].
    pub(crate) fn in_order(rules: &Rules, limits: &Limits, ledger: &Ledger) -> Result<Self, GrammarError> {
        build::build_in_order(rules, limits, ledger)
    }

    /// Makes room for the programs that will be appended.
    pub(super) fn reserve(&mut self, linked: &[(RuleId, &Self)]) {
        self.states.reserve(linked.iter().map(|(_, other)| &other.states));
        let states = linked.iter().map(|(_, other)| other.states.len()).sum();
        self.shortest.reserve(states);
        self.ranks.reserve(states);
    }

    /// Returns the rule that has the state at `dot`. The program must be [in order](Self::in_order).
    pub(crate) fn rule_of(&self, dot: Dot) -> RuleId {
        RuleId(self.starts.partition_point(|&start| start <= dot).saturating_sub(1) as u32)
    }

    /// Returns the rule whose text the embedded program with this index reads.
    pub(crate) fn rule_of_embedded(&self, index: u32) -> RuleId {
        let rule = self.starts.iter().position(|&start| self.state(start).embedded == Some(index));
        RuleId(rule.unwrap_or_default() as u32)
    }

    pub(crate) fn state(&self, dot: Dot) -> State<'_> {
        self.states.get(dot.index())
    }

    pub(crate) fn start(&self, rule: RuleId) -> Dot {
        self.starts[rule.index()]
    }

    /// Returns the rule that a state calls if the state only calls this rule, as a tail call.
    pub(crate) fn tail_call(&self, state: State<'_>) -> Option<RuleId> {
        let [edge] = *state.calls else { return None };
        let is_only = !state.accepting && state.bytes.is_empty() && state.embedded.is_none();
        (is_only && self.state(edge.target).is_final()).then_some(edge.rule)
    }

    /// Returns a shortest text of the root rule.
    pub(crate) fn shortest_text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        self.push_shortest(self.start(self.root), &mut text);
        text
    }

    /// Appends a shortest text from `dot` to the end of its rule.
    pub(crate) fn push_shortest(&self, dot: Dot, text: &mut Vec<u8>) {
        let len = |dot: Dot| self.shortest[dot.index()].len;
        let mut open = vec![dot];
        while let Some(dot) = open.pop() {
            if len(dot) == 0 {
                continue;
            }
            let before = |other: Dot| self.ranks[other.index()] < self.ranks[dot.index()];
            let state = self.state(dot);
            let is_byte = |edge: &&ByteEdge| before(edge.target) && len(edge.target) + 1 == len(dot);
            if let Some(edge) = state.bytes.iter().find(is_byte) {
                text.push(edge.low);
                open.push(edge.target);
                continue;
            }
            let is_call = |edge: &&CallEdge| {
                let start = self.start(edge.rule);
                before(start) && before(edge.target) && len(start) + len(edge.target) == len(dot)
            };
            if let Some(edge) = state.calls.iter().find(is_call) {
                open.extend([edge.target, self.start(edge.rule)]);
            } else if let Some(embedded) = state.embedded {
                text.extend(self.embedded[embedded as usize].shortest_text());
            }
        }
    }

    /// Reports whether `rule` matches the empty text.
    pub(crate) fn nullable(&self, rule: RuleId) -> bool {
        self.shortest[self.start(rule).index()].len == 0
    }
}
