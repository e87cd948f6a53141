//! Minimal deterministic automata over code points, for several languages at once.
//!
//! A state is a tuple of derivatives, which say what each language still accepts. The tuples are
//! explored from the start over an [alphabet](super::alphabet) of classes. States from which no
//! language accepts are removed, and equivalent states are merged. The automaton is complete before
//! its first use, so its size and its equivalent states are known.
//!
//! # Limits
//! In the worst case, the number of states is exponential in the size of the expression (`.*x.{20}`
//! needs 2²⁰). [`TextDfa::new`] stops at a limit on states, and at a limit on work in proportion.

use std::collections::VecDeque;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::alphabet::Alphabet;
use super::charset::LAST;
use super::derivative::{Derivatives, Pieces, overlay_each};
use super::expression::{ExprId, Expressions};
use super::minimize::{Edge, Incoming, minimize};

/// Steps of work allowed per allowed state. Ordinary expressions take 5 to 50 steps per state.
const WORK_PER_STATE: usize = 1 << 8;

/// Maximum number of ranges in the transitions of all states together.
const TRANSITIONS: usize = 1 << 21;

/// A deterministic automaton over code points for several languages. The label of a state says
/// which languages accept there.
///
/// Every state except the start is live: some text leads from it to a state where a language
/// accepts. No two states have the same labels for all continuations.
#[derive(Debug)]
pub(crate) struct TextDfa {
    /// Index of each state's first transition, followed by the number of all transitions.
    offsets: Vec<u32>,
    transitions: Vec<(u32, u32, u32)>,
    state_labels: Vec<u32>,
    labels: Vec<Box<[bool]>>,
    free: Vec<bool>,
}

impl TextDfa {
    /// Builds the automaton of `languages`, with at most `limit` states and work in proportion.
    ///
    /// # Errors
    /// Returns an error if the automaton exceeds a limit, or if the ledger of `expressions` is
    /// over.
    pub(crate) fn new(
        expressions: &mut Expressions,
        languages: &[ExprId],
        limit: usize,
    ) -> Result<Self, TooLarge> {
        expressions.check()?;
        let mut builder = Builder::new(expressions, languages)?;
        let explored = builder.explore(limit);
        // Memory that only construction needs is free again.
        builder.expressions.release(builder.kept + builder.derivatives.byte_len());
        explored?;
        builder.finish()
    }

    #[expect(clippy::unused_self, reason = "callers must not rely on the start being state 0")]
    pub(crate) fn start(&self) -> u32 {
        0
    }

    /// Returns the number of states, at least 1.
    pub(crate) fn len(&self) -> usize {
        self.state_labels.len()
    }

    /// Returns the state after `c`; `None` if no language accepts any continuation.
    pub(crate) fn next(&self, state: u32, c: char) -> Option<u32> {
        let c = u32::from(c);
        let transitions = self.transitions(state);
        let after = transitions.partition_point(|&(low, ..)| low <= c);
        let &(_, high, target) = transitions[..after].last()?;
        (c <= high).then_some(target)
    }

    /// Returns the transitions to live states, as inclusive ranges in order. Ranges contain no
    /// surrogates, and neighbouring ranges with the same target are merged.
    pub(crate) fn transitions(&self, state: u32) -> &[(u32, u32, u32)] {
        let state = state as usize;
        &self.transitions[self.offsets[state] as usize..self.offsets[state + 1] as usize]
    }

    /// Returns the transitions that overlap the code points from `from` to `to`.
    pub(crate) fn transitions_within(&self, state: u32, from: u32, to: u32) -> &[(u32, u32, u32)] {
        let transitions = self.transitions(state);
        let first = transitions.partition_point(|&(_, high, _)| high < from);
        let end = transitions.partition_point(|&(low, ..)| low <= to);
        &transitions[first..end.max(first)]
    }

    /// Returns the average number of transitions per state, rounded down.
    pub(crate) fn mean_transitions(&self) -> usize {
        self.transitions.len() / self.len()
    }

    /// Returns the label of a state, as an index into [`labels`](Self::labels).
    pub(crate) fn label(&self, state: u32) -> u32 {
        self.state_labels[state as usize]
    }

    /// Returns the labels. A label says for each language whether it accepts. In label 0, no
    /// language accepts.
    pub(crate) fn labels(&self) -> &[Box<[bool]>] {
        &self.labels
    }

    /// Reports whether every text leads back to this state, so that its label holds for all
    /// continuations.
    pub(crate) fn is_free(&self, state: u32) -> bool {
        self.free[state as usize]
    }
}

/// The error of an automaton that would exceed a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooLarge {
    /// The limited quantity.
    pub(crate) what: &'static str,
    pub(crate) given: usize,
    pub(crate) limit: usize,
}

/// The derivative of one language, which is not ∅, with the number of the language.
type Component = (u32, ExprId);

struct Builder<'a> {
    expressions: &'a mut Expressions,
    derivatives: Derivatives,
    count: usize,
    /// Components of all states, one state after the other. `ends` holds the end of each state's
    /// components.
    components: Vec<Component>,
    ends: Vec<u32>,
    /// States with a single component. Most states have one, so they are stored apart from the
    /// others.
    simple: FxHashMap<Component, u32>,
    compound: FxHashMap<Box<[Component]>, u32>,
    edges: Vec<Edge>,
    state_labels: Vec<u32>,
    labels: Vec<Box<[bool]>>,
    label_ids: FxHashMap<Box<[bool]>, u32>,
    /// The label under construction.
    label: Vec<bool>,
    /// Bytes charged for states and edges.
    kept: usize,
}

impl<'a> Builder<'a> {
    fn new(expressions: &'a mut Expressions, languages: &[ExprId]) -> Result<Self, TooLarge> {
        let alphabet = Alphabet::new(expressions, languages)?;
        let rejecting: Box<[bool]> = vec![false; languages.len()].into();
        let mut builder = Self {
            expressions,
            derivatives: Derivatives::over(alphabet),
            count: languages.len(),
            components: Vec::new(),
            ends: Vec::new(),
            simple: FxHashMap::default(),
            compound: FxHashMap::default(),
            edges: Vec::new(),
            state_labels: Vec::new(),
            labels: vec![rejecting.clone()],
            label_ids: FxHashMap::from_iter([(rejecting, 0)]),
            label: Vec::new(),
            kept: 0,
        };
        let alive = |&(_, expr): &Component| expr != Expressions::NOTHING;
        let start = (0..).zip(languages.iter().copied()).filter(alive).collect::<Vec<_>>();
        builder.state(&start);
        Ok(builder)
    }

    /// Returns the id of a state, and creates the state if it is new.
    fn state(&mut self, components: &[Component]) -> u32 {
        let known = match components {
            [component] => self.simple.get(component),
            _ => self.compound.get(components),
        };
        if let Some(&id) = known {
            return id;
        }
        let id = self.ends.len() as u32;
        match components {
            &[component] => self.simple.insert(component, id),
            _ => self.compound.insert(components.into(), id),
        };
        self.components.extend_from_slice(components);
        self.ends.push(self.components.len() as u32);
        self.label.clear();
        self.label.resize(self.count, false);
        for &(language, expr) in components {
            self.label[language as usize] = self.expressions.nullable(expr);
        }
        let label = self.label_id();
        self.state_labels.push(label);
        id
    }

    fn label_id(&mut self) -> u32 {
        if let Some(&id) = self.label_ids.get(self.label.as_slice()) {
            return id;
        }
        let id = self.labels.len() as u32;
        let label: Box<[bool]> = self.label.as_slice().into();
        self.labels.push(label.clone());
        self.label_ids.insert(label, id);
        id
    }

    fn explore(&mut self, limit: usize) -> Result<(), TooLarge> {
        let before = self.expressions.work();
        let most_work = limit.saturating_mul(WORK_PER_STATE);
        let mut state = 0;
        let mut begin = 0;
        while let Some(&end) = self.ends.get(state) {
            if self.ends.len() > limit {
                return Err(TooLarge { what: "automaton states", given: self.ends.len(), limit });
            }
            let work = self.expressions.work() - before + self.edges.len();
            self.expressions.check()?;
            if work > most_work {
                return Err(TooLarge { what: "steps to build the automaton", given: work, limit: most_work });
            }
            match self.components[begin..end as usize] {
                [component] => self.leave_simple(state as u32, component),
                ref components => {
                    let components = components.to_vec();
                    self.leave(state as u32, &components);
                }
            }
            begin = end as usize;
            state += 1;
            let bytes = 2 * size_of::<Edge>() * self.edges.len()
                + 64 * self.ends.len()
                + 2 * size_of::<Component>() * self.components.len()
                + 2 * self.count * self.labels.len();
            self.expressions.keep(bytes.saturating_sub(self.kept));
            self.kept = self.kept.max(bytes);
        }
        Ok(())
    }

    /// Adds the edges of a state with one component.
    fn leave_simple(&mut self, state: u32, (language, expr): Component) {
        let pieces = self.derivatives.of(self.expressions, expr);
        for (at, &(first, derivative)) in pieces.iter().enumerate() {
            if derivative != Expressions::NOTHING {
                let end = pieces.get(at + 1).map_or(self.letters(), |piece| piece.0);
                let to = self.state(&[(language, derivative)]);
                self.connect(state, first..end, to);
            }
        }
    }

    /// Adds the edges of a state with any number of components.
    fn leave(&mut self, state: u32, components: &[Component]) {
        let functions = components
            .iter()
            .map(|&(_, expr)| self.derivatives.of(self.expressions, expr))
            .collect::<Vec<Pieces>>();
        // The components of all targets, one target after the other. Each piece holds the first
        // letter and the end of its target.
        let mut targets: Vec<Component> = Vec::new();
        let mut pieces: Vec<(u32, usize)> = Vec::new();
        overlay_each(&functions, |first, derivatives| {
            let languages = components.iter().map(|component| component.0);
            let alive = |component: &Component| component.1 != Expressions::NOTHING;
            targets.extend(languages.zip(derivatives.iter().copied()).filter(alive));
            pieces.push((first, targets.len()));
        });
        self.expressions.spend(pieces.len() * functions.len());
        let mut begin = 0;
        for (at, &(first, until)) in pieces.iter().enumerate() {
            if until > begin {
                let end = pieces.get(at + 1).map_or(self.letters(), |piece| piece.0);
                let to = self.state(&targets[begin..until]);
                self.connect(state, first..end, to);
            }
            begin = until;
        }
    }

    fn letters(&self) -> u32 {
        self.derivatives.alphabet().map_or(0, Alphabet::len) as u32
    }

    fn connect(&mut self, from: u32, letters: Range<u32>, to: u32) {
        self.edges.extend(letters.map(|letter| Edge { from, letter, to }));
    }

    fn finish(self) -> Result<TextDfa, TooLarge> {
        let mut edges = self.edges;
        self.expressions.spend(edges.len());
        self.expressions.check()?;
        let mut incoming = Incoming::new(self.state_labels.len(), &edges);
        let alive = live(&edges, &incoming, &self.state_labels);
        if alive.contains(&false) {
            edges.retain(|edge| alive[edge.to as usize]);
            incoming = Incoming::new(self.state_labels.len(), &edges);
        }
        let classes = minimize(&self.state_labels, &edges, &incoming);
        let numbers = breadth_first(&edges, &classes);
        let (number_of, members) = (&numbers.of_state, &numbers.members);

        let ranges = self.derivatives.alphabet().map_or(&[][..], |alphabet| &alphabet.classes);
        let mut dfa = TextDfa {
            offsets: vec![0],
            transitions: Vec::new(),
            state_labels: Vec::new(),
            labels: self.labels,
            free: Vec::new(),
        };
        for &member in members {
            let first = edges.partition_point(|edge| edge.from < member);
            let mut row = Vec::new();
            for edge in edges[first..].iter().take_while(|edge| edge.from == member) {
                let to = number_of[edge.to as usize];
                row.extend(ranges[edge.letter as usize].iter().map(|&(low, high)| (low, high, to)));
            }
            row.sort_by_key(|range| range.0);
            row.dedup_by(|next, last| {
                let is_one = last.1 + 1 == next.0 && last.2 == next.2;
                if is_one {
                    last.1 = next.1;
                }
                is_one
            });
            let number = number_of[member as usize];
            let loops = row.iter().all(|range| range.2 == number);
            dfa.free.push(loops && row.iter().map(|range| range.1 - range.0 + 1).sum::<u32>() == LETTERS);
            dfa.transitions.append(&mut row);
            let given = dfa.transitions.len();
            if given > TRANSITIONS {
                return Err(TooLarge {
                    what: "character ranges in the automaton",
                    given,
                    limit: TRANSITIONS,
                });
            }
            dfa.offsets.push(dfa.transitions.len() as u32);
            dfa.state_labels.push(self.state_labels[member as usize]);
        }
        let labels = self.count * dfa.labels.len();
        self.expressions.keep(size_of::<(u32, u32, u32)>() * dfa.transitions.len() + labels);
        Ok(dfa)
    }
}

/// Number of code points, without surrogates.
const LETTERS: u32 = LAST + 1 - 0x800;

/// Reports for each state whether it reaches a state with a label other than 0.
fn live(edges: &[Edge], incoming: &Incoming, labels: &[u32]) -> Vec<bool> {
    let mut alive = labels.iter().map(|&label| label != 0).collect::<Vec<_>>();
    let mut pending = (0..labels.len() as u32).filter(|&state| alive[state as usize]).collect::<Vec<_>>();
    while let Some(state) = pending.pop() {
        for &edge in incoming.of(state) {
            let from = edges[edge as usize].from;
            if !std::mem::replace(&mut alive[from as usize], true) {
                pending.push(from);
            }
        }
    }
    alive
}

/// The merged states in breadth-first order from the start.
struct Numbers {
    /// Number of each state; `u32::MAX` for states that are not reached.
    of_state: Vec<u32>,
    /// One member of each merged state.
    members: Vec<u32>,
}

fn breadth_first(edges: &[Edge], classes: &[u32]) -> Numbers {
    let mut number_of_class = vec![u32::MAX; classes.len()];
    number_of_class[classes[0] as usize] = 0;
    let mut members = vec![0];
    let mut pending = VecDeque::from([0]);
    while let Some(state) = pending.pop_front() {
        let first = edges.partition_point(|edge| edge.from < state);
        for edge in edges[first..].iter().take_while(|edge| edge.from == state) {
            let number = &mut number_of_class[classes[edge.to as usize] as usize];
            if *number == u32::MAX {
                *number = members.len() as u32;
                members.push(edge.to);
                pending.push_back(edge.to);
            }
        }
    }
    let of_state = classes.iter().map(|&class| number_of_class[class as usize]).collect();
    Numbers { of_state, members }
}
