//! Minimal deterministic automata over code points, for several languages at once.
//!
//! A state is a tuple of derivatives, one for each language: the texts that each language still
//! accepts. The tuples are explored from the start, over an [alphabet](super::alphabet) of
//! character classes. States from which no language accepts anything are removed, and equivalent
//! states are merged. The automaton is complete before its first use, so its size is known.
//!
//! # Limits
//! In the worst case, the number of states is exponential in the size of the expression: `.*x.{20}`
//! needs 2²⁰ states. [`TextDfa::new`] therefore has a limit on states, and a limit on work that is
//! proportional to the limit on states.

use std::collections::VecDeque;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::alphabet::Alphabet;
use super::charset::LAST;
use super::derivative::{Derivatives, Pieces, overlay_each};
use super::expression::{ExprId, Expressions};
use super::minimize::{Edge, Incoming, minimize};

/// Number of steps of work allowed for each allowed state. Ordinary expressions take 5 to 50 steps
/// per state.
const WORK_PER_STATE: usize = 1 << 8;

/// Maximum number of character ranges in the transitions of all states together.
const TRANSITIONS: usize = 1 << 21;

/// A deterministic automaton over code points for several languages. Each state has a label: the
/// set of languages that accept at the state.
///
/// From every state except the start, some text leads to a state at which a language accepts. No
/// two states are equivalent: some text leads from them to states with different labels.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(crate) struct TextDfa {
    /// For each state, the index of its first transition in `transitions`. The last entry is the
    /// number of all transitions.
    offsets: Vec<u32>,
    transitions: Vec<(u32, u32, u32)>,
    state_labels: Vec<u32>,
    labels: Vec<Box<[bool]>>,
    free: Vec<bool>,
}

impl TextDfa {
    /// Builds the automaton of `languages`, with at most `limit` states and at most 256 steps of
    /// work per allowed state.
    ///
    /// # Errors
    /// Returns an error if the automaton exceeds a limit, or if the ledger of `expressions` exceeds
    /// one of its limits.
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

    /// Returns the approximate memory in bytes.
    pub(crate) fn byte_len(&self) -> usize {
        let states = size_of_val(&*self.offsets) + size_of_val(&*self.state_labels) + self.free.len();
        states + size_of_val(&*self.transitions) + size_of_val(&*self.labels)
    }

    /// Returns the state after `c`. `None` if no language accepts any text that continues this way.
    pub(crate) fn next(&self, state: u32, c: char) -> Option<u32> {
        let c = u32::from(c);
        let transitions = self.transitions(state);
        let after = transitions.partition_point(|&(low, ..)| low <= c);
        let &(_, high, target) = transitions[..after].last()?;
        (c <= high).then_some(target)
    }

    /// Returns the transitions of `state` as `(first, last, target)`, sorted. `first` and `last`
    /// are the inclusive limits of a range of code points. The ranges contain no surrogates.
    /// Adjacent ranges with the same target are merged.
    pub(crate) fn transitions(&self, state: u32) -> &[(u32, u32, u32)] {
        let state = state as usize;
        &self.transitions[self.offsets[state] as usize..self.offsets[state + 1] as usize]
    }

    /// Returns the transitions of `state` whose ranges overlap `from..=to`.
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

    /// Returns all labels. A label has one entry for each language, which is true if the language
    /// accepts. In label 0, no language accepts.
    pub(crate) fn labels(&self) -> &[Box<[bool]>] {
        &self.labels
    }

    /// Reports whether every text leads from `state` back to `state`. Its label then holds after
    /// every continuation.
    pub(crate) fn is_free(&self, state: u32) -> bool {
        self.free[state as usize]
    }
}

/// The error of an automaton that would exceed a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooLarge {
    /// Name of the limited quantity, for example `automaton states`.
    pub(crate) what: &'static str,
    pub(crate) given: usize,
    pub(crate) limit: usize,
}

/// The index of a language, and its derivative, which is not ∅.
type Component = (u32, ExprId);

struct Builder<'a> {
    expressions: &'a mut Expressions,
    derivatives: Derivatives,
    count: usize,
    /// The components of all states, one state after the other. `ends` has the index at which each
    /// state's components end.
    components: Vec<Component>,
    ends: Vec<u32>,
    /// Ids of the states with a single component, which most states have. All other states are in
    /// `compound`.
    simple: FxHashMap<Component, u32>,
    compound: FxHashMap<Box<[Component]>, u32>,
    edges: Vec<Edge>,
    state_labels: Vec<u32>,
    labels: Vec<Box<[bool]>>,
    label_ids: FxHashMap<Box<[bool]>, u32>,
    /// Buffer for the label that is being computed.
    label: Vec<bool>,
    /// Memory charged for states and edges so far, in bytes.
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

    /// Returns the id of the state with these components. Creates the state if it is new.
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
        let mut incoming = Incoming::new(&edges);
        let alive = live(&edges, &incoming, &self.state_labels);
        if alive.contains(&false) {
            edges.retain(|edge| alive[edge.to as usize]);
            incoming = Incoming::new(&edges);
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

/// Number of code points, not counting surrogates.
const LETTERS: u32 = LAST + 1 - 0x800;

/// Returns for each state whether a state with a label other than 0 can be reached.
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

/// The merged states, numbered in breadth-first order from the start.
struct Numbers {
    /// For each state, the number of its merged state. `u32::MAX` if the state is not reached.
    of_state: Vec<u32>,
    /// For each merged state, one of the states that were merged.
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
