//! Merges equivalent states of an automaton.
//!
//! This is Hopcroft's algorithm, in a form for automata with few transitions. It refines two
//! partitions together: a partition of the states, and a partition of the transitions. At the end,
//! the transitions are grouped by letter and by the class of their target. A class of transitions
//! splits the states by whether they have such a transition. A class of states splits the
//! transitions by whether they enter the class. In each split, the smaller part becomes the new
//! class, so each transition is visited O(log n) times. The total time is O(m log n) for m
//! transitions. Refinement in rounds would take n² steps for a chain of n states.
//!
//! (Valmari and Lehtinen, *Efficient minimization of DFAs with partial transition functions*,
//! 2008.)

use crate::buckets::Buckets;

/// A transition over one letter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) from: u32,
    pub(crate) letter: u32,
    pub(crate) to: u32,
}

/// Returns the class of each state. Two states are in one class if every text leads from both to
/// states with equal labels.
///
/// Every edge must lead to a state from which a state with a label other than 0 can be reached. A
/// missing edge stands for label 0, whatever follows.
pub(crate) fn minimize(labels: &[u32], edges: &[Edge], incoming: &Incoming) -> Vec<u32> {
    let mut states = Partition::by_key(labels.len(), |state| labels[state]);
    let mut transitions = Partition::by_key(edges.len(), |edge| edges[edge].letter);
    // Splitting by all classes except one has the same result as splitting by all.
    let mut next_states = 1;
    let mut next_transitions = 0;
    while next_transitions < transitions.len() {
        for at in transitions.range(next_transitions) {
            states.mark(edges[transitions.elements[at] as usize].from);
        }
        states.split();
        next_transitions += 1;
        while next_states < states.len() {
            for at in states.range(next_states) {
                for &edge in incoming.of(states.elements[at]) {
                    transitions.mark(edge);
                }
            }
            transitions.split();
            next_states += 1;
        }
    }
    states.class_of
}

/// A partition of `0..n` into classes. To refine the partition, elements are marked, and
/// [`split`](Self::split) then separates the marked elements of each class from the others.
struct Partition {
    /// Elements grouped by class. Marked elements come first within each class.
    elements: Vec<u32>,
    /// Index of each element in `elements`.
    places: Vec<u32>,
    class_of: Vec<u32>,
    /// `(start, end, marked)` for each class: its range in `elements`, and the number of marked
    /// elements.
    classes: Vec<(u32, u32, u32)>,
    touched: Vec<u32>,
}

impl Partition {
    fn by_key(count: usize, key: impl Fn(usize) -> u32) -> Self {
        let mut partition = Self {
            elements: Vec::with_capacity(count),
            places: vec![0; count],
            class_of: vec![0; count],
            classes: Vec::new(),
            touched: Vec::new(),
        };
        for bucket in Buckets::by_key(count, key).iter() {
            let begin = partition.elements.len() as u32;
            for (place, &element) in (begin..).zip(bucket) {
                partition.places[element as usize] = place;
                partition.class_of[element as usize] = partition.classes.len() as u32;
            }
            partition.elements.extend_from_slice(bucket);
            partition.classes.push((begin, partition.elements.len() as u32, 0));
        }
        partition
    }

    fn len(&self) -> usize {
        self.classes.len()
    }

    fn range(&self, class: usize) -> std::ops::Range<usize> {
        let (begin, end, _) = self.classes[class];
        begin as usize..end as usize
    }

    fn mark(&mut self, element: u32) {
        let class = self.class_of[element as usize];
        let (begin, _, marked) = &mut self.classes[class as usize];
        let (place, boundary) = (self.places[element as usize], *begin + *marked);
        if place < boundary {
            return;
        }
        if *marked == 0 {
            self.touched.push(class);
        }
        *marked += 1;
        let other = self.elements[boundary as usize];
        self.elements.swap(place as usize, boundary as usize);
        self.places[other as usize] = place;
        self.places[element as usize] = boundary;
    }

    /// Splits each class with marked elements into marked and unmarked elements, and removes the
    /// marks. The smaller part becomes a new class.
    fn split(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        for class in touched.drain(..) {
            let (begin, end, marked) = self.classes[class as usize];
            let boundary = begin + marked;
            self.classes[class as usize].2 = 0;
            if boundary == end {
                continue;
            }
            let (kept, new) = if marked <= end - boundary {
                ((boundary, end, 0), (begin, boundary, 0))
            } else {
                ((begin, boundary, 0), (boundary, end, 0))
            };
            self.classes[class as usize] = kept;
            for &element in &self.elements[new.0 as usize..new.1 as usize] {
                self.class_of[element as usize] = self.classes.len() as u32;
            }
            self.classes.push(new);
        }
        // Keeps its memory for the next split.
        self.touched = touched;
    }
}

/// For each state, the indices of the edges that lead to the state.
pub(crate) struct Incoming(Buckets);

impl Incoming {
    pub(crate) fn new(edges: &[Edge]) -> Self {
        Self(Buckets::by_key(edges.len(), |edge| edges[edge].to))
    }

    pub(crate) fn of(&self, state: u32) -> &[u32] {
        self.0.of(state)
    }
}
