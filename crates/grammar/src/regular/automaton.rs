//! Minimal deterministic automata over code points, for several languages at once.
//!
//! A state is what each language still accepts, as a tuple of derivatives. The tuples are explored from the start over an
//! [alphabet](super::alphabet) of classes, states from which nothing is accepted are cut away, and states that no
//! continuation tells apart are merged. The automaton is complete before it is used: its size is known, and so is which
//! states are the same.
//!
//! # Limits
//! The number of states is exponential in the expression at worst (`.*x.{20}` needs 2²⁰). [`TextDfa::new`] stops at a
//! limit, and so does its work, in proportion.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::alphabet::Alphabet;
use super::charset::LAST;
use super::derivative::{Derivatives, Pieces, overlay_each};
use super::expression::{ExprId, Expressions};
use super::minimize::{Edge, minimize};

/// Steps of work allowed for each state of the limit. Ordinary expressions take 5 to 50 for each of their states.
const WORK_PER_STATE: usize = 1 << 10;

/// A deterministic automaton over code points for several languages: `labels` tell which of them accept at a state.
///
/// Every state but the start is live: some text leads from it to a state where a language accepts. No two states have
/// the same labels for all continuations.
#[derive(Debug)]
pub(crate) struct TextDfa {
    /// Where the transitions of each state begin, and the end of the last.
    offsets: Vec<u32>,
    transitions: Vec<(u32, u32, u32)>,
    state_labels: Vec<u32>,
    labels: Vec<Box<[bool]>>,
    free: Vec<bool>,
}

impl TextDfa {
    /// The automaton of `languages`, or the number of states reached when their number or the work went beyond `limit`.
    pub(crate) fn new(
        expressions: &mut Expressions,
        languages: &[ExprId],
        limit: usize,
    ) -> Result<Self, usize> {
        let mut builder = Builder::new(expressions, languages);
        builder.explore(limit)?;
        Ok(builder.finish())
    }

    #[expect(clippy::unused_self, reason = "that the start is always 0 is no one else's business")]
    pub(crate) fn start(&self) -> u32 {
        0
    }

    /// The number of states, at least 1.
    pub(crate) fn len(&self) -> usize {
        self.state_labels.len()
    }

    /// The state after `c`; `None` if no language accepts any longer.
    pub(crate) fn next(&self, state: u32, c: char) -> Option<u32> {
        let c = u32::from(c);
        let transitions = self.transitions(state);
        let after = transitions.partition_point(|&(low, ..)| low <= c);
        let &(_, high, target) = transitions[..after].last()?;
        (c <= high).then_some(target)
    }

    /// The transitions to live states: inclusive ranges in order, without surrogates, neighbours with one target merged.
    pub(crate) fn transitions(&self, state: u32) -> &[(u32, u32, u32)] {
        let state = state as usize;
        &self.transitions[self.offsets[state] as usize..self.offsets[state + 1] as usize]
    }

    /// Which languages accept here, as an index into [`labels`](Self::labels).
    pub(crate) fn label(&self, state: u32) -> u32 {
        self.state_labels[state as usize]
    }

    /// For each label, whether each language accepts. Label 0 is that none does.
    pub(crate) fn labels(&self) -> &[Box<[bool]>] {
        &self.labels
    }

    /// Whether every text leads back to this very state, so that its label holds for all continuations.
    pub(crate) fn is_free(&self, state: u32) -> bool {
        self.free[state as usize]
    }
}

/// The derivatives that are not ∅, with the number of their language.
type Tuple = Box<[(u32, ExprId)]>;

struct Builder<'a> {
    expressions: &'a mut Expressions,
    derivatives: Derivatives,
    count: usize,
    tuples: Vec<Tuple>,
    ids: FxHashMap<Tuple, u32>,
    edges: Vec<Edge>,
    state_labels: Vec<u32>,
    labels: Vec<Box<[bool]>>,
    label_ids: FxHashMap<Box<[bool]>, u32>,
}

impl<'a> Builder<'a> {
    fn new(expressions: &'a mut Expressions, languages: &[ExprId]) -> Self {
        let alphabet = Alphabet::new(expressions, languages);
        let rejecting: Box<[bool]> = vec![false; languages.len()].into();
        let mut builder = Self {
            expressions,
            derivatives: Derivatives::over(alphabet),
            count: languages.len(),
            tuples: Vec::new(),
            ids: FxHashMap::default(),
            edges: Vec::new(),
            state_labels: Vec::new(),
            labels: vec![rejecting.clone()],
            label_ids: FxHashMap::from_iter([(rejecting, 0)]),
        };
        let alive = |&(_, expr): &(u32, ExprId)| expr != Expressions::NOTHING;
        let start = (0..).zip(languages.iter().copied()).filter(alive).collect();
        builder.state(start);
        builder
    }

    /// The id of a state, which is new at its first occurrence.
    fn state(&mut self, tuple: Tuple) -> u32 {
        if let Some(&id) = self.ids.get(&tuple) {
            return id;
        }
        let id = self.tuples.len() as u32;
        let mut label: Box<[bool]> = vec![false; self.count].into();
        for &(language, expr) in &*tuple {
            label[language as usize] = self.expressions.nullable(expr);
        }
        let next = self.labels.len() as u32;
        let label_id = *self.label_ids.entry(label).or_insert_with_key(|label| {
            self.labels.push(label.clone());
            next
        });
        self.state_labels.push(label_id);
        self.ids.insert(tuple.clone(), id);
        self.tuples.push(tuple);
        id
    }

    fn explore(&mut self, limit: usize) -> Result<(), usize> {
        let most_work = self.expressions.work() + limit.saturating_mul(WORK_PER_STATE);
        let letters = self.derivatives.alphabet().map_or(0, Alphabet::len) as u32;
        let mut state = 0;
        while let Some(tuple) = self.tuples.get(state).cloned() {
            let too_far = self.tuples.len() > limit || self.expressions.work() + self.edges.len() > most_work;
            if too_far {
                return Err(self.tuples.len());
            }
            let languages = tuple.iter().map(|component| component.0).collect::<Vec<_>>();
            let functions = tuple
                .iter()
                .map(|&(_, expr)| self.derivatives.of(self.expressions, expr))
                .collect::<Vec<Pieces>>();
            let mut pieces: Vec<(u32, Tuple)> = Vec::new();
            overlay_each(&functions, |first, derivatives| {
                let components = languages.iter().copied().zip(derivatives.iter().copied());
                let tuple = components.filter(|component| component.1 != Expressions::NOTHING).collect();
                pieces.push((first, tuple));
            });
            self.expressions.spend(pieces.len() * functions.len());
            let ends = pieces.iter().skip(1).map(|piece| piece.0).chain([letters]).collect::<Vec<_>>();
            for ((first, tuple), end) in pieces.into_iter().zip(ends) {
                if !tuple.is_empty() {
                    let to = self.state(tuple);
                    self.edges.extend((first..end).map(|letter| Edge { from: state as u32, letter, to }));
                }
            }
            state += 1;
        }
        Ok(())
    }

    fn finish(self) -> TextDfa {
        let alive = live(&self.edges, &self.state_labels);
        let mut edges = self.edges;
        edges.retain(|edge| alive[edge.to as usize]);
        let classes = minimize(&self.state_labels, &edges);
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
            dfa.offsets.push(dfa.transitions.len() as u32);
            dfa.state_labels.push(self.state_labels[member as usize]);
        }
        dfa
    }
}

/// The number of code points that are no surrogates.
const LETTERS: u32 = LAST + 1 - 0x800;

/// Whether from each state some state with a label other than 0 is reached.
fn live(edges: &[Edge], labels: &[u32]) -> Vec<bool> {
    let mut alive = labels.iter().map(|&label| label != 0).collect::<Vec<_>>();
    let mut backward = edges.iter().map(|edge| (edge.to, edge.from)).collect::<Vec<_>>();
    backward.sort_unstable();
    backward.dedup();
    let mut pending = (0..labels.len() as u32).filter(|&state| alive[state as usize]).collect::<Vec<_>>();
    while let Some(state) = pending.pop() {
        let first = backward.partition_point(|edge| edge.0 < state);
        for &(_, from) in backward[first..].iter().take_while(|edge| edge.0 == state) {
            if !std::mem::replace(&mut alive[from as usize], true) {
                pending.push(from);
            }
        }
    }
    alive
}

/// The merged states in the order in which a search from the start meets them.
struct Numbers {
    /// The number of each state; states that are not reached have none.
    of_state: Vec<u32>,
    /// One member of each.
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
