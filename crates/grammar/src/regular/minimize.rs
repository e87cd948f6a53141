//! Merging states that no continuation tells apart.
//!
//! Hopcroft's idea, in the form for automata whose transitions are few: not only the states are partitioned but the
//! transitions too, by letter and by the class of their target. A class of transitions splits the states into those that
//! it leaves and the rest; a class of states splits the transitions into those that enter it and the rest. Each split
//! makes the smaller part the new class, so no transition is looked at more than O(log n) times: O(m log n) in all, where a
//! chain of n states takes rounds of refinement n² steps.
//!
//! (Valmari and Lehtinen, *Efficient minimization of DFAs with partial transition functions*, 2008.)

/// A transition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) from: u32,
    pub(crate) letter: u32,
    pub(crate) to: u32,
}

/// The class of each state: states are in one class if they have equal labels after every continuation.
///
/// From every state on an edge some label other than 0 can be reached, and edges that are absent lead to label 0 forever.
pub(crate) fn minimize(labels: &[u32], edges: &[Edge], incoming: &Incoming) -> Vec<u32> {
    let mut states = Partition::by_key(labels.len(), |state| labels[state]);
    let mut transitions = Partition::by_key(edges.len(), |edge| edges[edge].letter);
    // Splitting by all classes but one is splitting by all.
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

/// A partition of `0..n` that is refined by marking elements and splitting the marked from the rest.
struct Partition {
    /// Grouped by class, the marked first within each.
    elements: Vec<u32>,
    /// Where each element is among these.
    places: Vec<u32>,
    class_of: Vec<u32>,
    /// Of each class: where it begins, where it ends, how many are marked.
    classes: Vec<(u32, u32, u32)>,
    touched: Vec<u32>,
}

impl Partition {
    fn by_key(count: usize, key: impl Fn(usize) -> u32) -> Self {
        let Groups { offsets, members } = Groups::by_key(count, &key);
        let mut partition = Self {
            places: vec![0; count],
            class_of: vec![0; count],
            classes: Vec::new(),
            touched: Vec::new(),
            elements: members,
        };
        for group in offsets.windows(2).filter(|group| group[0] < group[1]) {
            for place in group[0]..group[1] {
                let element = partition.elements[place as usize] as usize;
                partition.places[element] = place;
                partition.class_of[element] = partition.classes.len() as u32;
            }
            partition.classes.push((group[0], group[1], 0));
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

    /// Makes the smaller part of each touched class, marked or not, a class of its own, and takes the marks away.
    fn split(&mut self) {
        for class in std::mem::take(&mut self.touched) {
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
    }
}

/// Numbers up to a count, grouped by a key.
struct Groups {
    /// Where the members of each key begin, and the end of the last.
    offsets: Vec<u32>,
    /// In order within each group.
    members: Vec<u32>,
}

impl Groups {
    fn by_key(count: usize, key: impl Fn(usize) -> u32) -> Self {
        let keys = (0..count).map(&key).max().map_or(0, |most| most as usize + 1);
        let mut offsets = vec![0; keys + 1];
        for element in 0..count {
            offsets[key(element) as usize + 1] += 1;
        }
        for at in 0..keys {
            offsets[at + 1] += offsets[at];
        }
        let mut next = offsets.clone();
        let mut members = vec![0; count];
        for element in 0..count {
            let place = &mut next[key(element) as usize];
            members[*place as usize] = element as u32;
            *place += 1;
        }
        Self { offsets, members }
    }
}

/// The edges that enter each state.
pub(crate) struct Incoming(Groups);

impl Incoming {
    pub(crate) fn new(states: usize, edges: &[Edge]) -> Self {
        let mut groups = Groups::by_key(edges.len(), |edge| edges[edge].to);
        groups.offsets.resize(states + 1, edges.len() as u32);
        Self(groups)
    }

    pub(crate) fn of(&self, state: u32) -> &[u32] {
        let state = state as usize;
        &self.0.members[self.0.offsets[state] as usize..self.0.offsets[state + 1] as usize]
    }
}
