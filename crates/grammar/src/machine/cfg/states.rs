//! The states of automata over bytes and rule calls.
//!
//! The edges of all states are in two lists. Automata of many small states can thus be built, appended and
//! dropped without an allocation for each state.

use crate::ir::expr::RuleId;

/// A position in a rule's automaton: an index into [`Program::states`](super::program::Program::states). Ids
/// from 2³¹ up stand for positions in [embedded](super::embedded) texts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Dot(pub(crate) u32);

impl Dot {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An edge over any byte of `low..=high`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ByteEdge {
    pub(crate) low: u8,
    pub(crate) high: u8,
    pub(crate) target: Dot,
}

/// An edge over any text that a rule matches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct CallEdge {
    pub(crate) rule: RuleId,
    pub(crate) target: Dot,
}

/// The possible continuations at a [`Dot`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct State<'s> {
    /// True if the rule may end here.
    pub(crate) accepting: bool,
    pub(crate) bytes: &'s [ByteEdge],
    pub(crate) calls: &'s [CallEdge],
    /// Index into [`Program::embedded`](super::program::Program::embedded) if another machine reads the rest
    /// of the rule; otherwise `None`.
    pub(crate) embedded: Option<u32>,
}

impl<'s> State<'s> {
    /// Reports whether the rule must end here. A call edge that leads to such a state is a tail
    /// call.
    pub(crate) const fn is_final(&self) -> bool {
        self.accepting && !self.goes_on()
    }

    /// Reports whether more text of the rule may follow.
    pub(crate) const fn goes_on(&self) -> bool {
        !self.bytes.is_empty() || !self.calls.is_empty() || self.embedded.is_some()
    }

    /// Reports whether the state has at most one target for each byte and each rule. The edges must be
    /// sorted.
    pub(super) fn has_one_target(&self) -> bool {
        let bytes = self.bytes.windows(2).all(|pair| pair[0].high < pair[1].low);
        bytes && self.calls.windows(2).all(|pair| pair[0].rule != pair[1].rule)
    }

    /// Returns the targets of all edges.
    pub(super) fn targets(self) -> impl Iterator<Item = Dot> + use<'s> {
        let bytes = self.bytes.iter().map(|edge| edge.target);
        bytes.chain(self.calls.iter().map(|edge| edge.target))
    }
}

/// A list of states.
#[derive(Clone, Debug, Default)]
pub(crate) struct States {
    heads: Vec<Head>,
    bytes: Vec<ByteEdge>,
    calls: Vec<CallEdge>,
}

/// A state, without its edges. The edges begin where those of the state before end.
#[derive(Clone, Copy, Debug)]
struct Head {
    accepting: bool,
    /// [`NONE`], or the index of an embedded program.
    embedded: u32,
    bytes_end: u32,
    calls_end: u32,
}

const NONE: u32 = u32::MAX;

impl States {
    /// Creates an empty list with room for `states` states that mostly have one byte edge.
    pub(super) fn with_capacity(states: usize) -> Self {
        Self { heads: Vec::with_capacity(states), bytes: Vec::with_capacity(states), calls: Vec::new() }
    }

    pub(crate) const fn len(&self) -> usize {
        self.heads.len()
    }

    /// Returns the state at `index`.
    pub(crate) fn get(&self, index: usize) -> State<'_> {
        let head = self.heads[index];
        let (bytes, calls) = self.edge_starts(index);
        State {
            accepting: head.accepting,
            bytes: &self.bytes[bytes..head.bytes_end as usize],
            calls: &self.calls[calls..head.calls_end as usize],
            embedded: (head.embedded != NONE).then_some(head.embedded),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = State<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Returns the byte edges and the call edges of all states.
    pub(super) fn edges(&self) -> (&[ByteEdge], &[CallEdge]) {
        (&self.bytes, &self.calls)
    }

    /// Returns the memory of the states and their edges, in bytes.
    pub(super) fn byte_len(&self) -> usize {
        size_of_val(&*self.heads) + size_of_val(&*self.bytes) + size_of_val(&*self.calls)
    }

    /// Appends a state.
    pub(super) fn push(&mut self, state: State<'_>) {
        self.bytes.extend_from_slice(state.bytes);
        self.calls.extend_from_slice(state.calls);
        self.finish_state(state.accepting, state.embedded);
    }

    /// Appends a state with other targets.
    pub(super) fn push_mapped(&mut self, state: State<'_>, mut target: impl FnMut(Dot) -> Dot) {
        for edge in state.bytes {
            self.push_byte(ByteEdge { target: target(edge.target), ..*edge });
        }
        for edge in state.calls {
            self.push_call(CallEdge { target: target(edge.target), ..*edge });
        }
        self.finish_state(state.accepting, state.embedded);
    }

    /// Removes all states.
    pub(super) fn clear(&mut self) {
        self.heads.clear();
        self.bytes.clear();
        self.calls.clear();
    }

    /// Adds a byte edge to the state that [`finish_state`](Self::finish_state) appends. The edges must be
    /// sorted. An edge that continues the range of the edge before it to the same target extends that edge.
    pub(super) fn push_byte(&mut self, edge: ByteEdge) {
        let (start, _) = self.edge_starts(self.len());
        if let Some(last) = self.bytes[start..].last_mut()
            && last.target == edge.target
            && u16::from(last.high) + 1 == u16::from(edge.low)
        {
            last.high = edge.high;
        } else {
            self.bytes.push(edge);
        }
    }

    /// Adds a call edge to the state that [`finish_state`](Self::finish_state) appends.
    pub(super) fn push_call(&mut self, edge: CallEdge) {
        self.calls.push(edge);
    }

    /// Appends a state with the edges that were added since the state before.
    pub(super) fn finish_state(&mut self, accepting: bool, embedded: Option<u32>) {
        self.heads.push(Head {
            accepting,
            embedded: embedded.unwrap_or(NONE),
            bytes_end: self.bytes.len() as u32,
            calls_end: self.calls.len() as u32,
        });
    }

    /// Makes room for the states of `others`.
    pub(super) fn reserve<'o>(&mut self, others: impl Iterator<Item = &'o Self> + Clone) {
        self.heads.reserve(others.clone().map(Self::len).sum());
        self.bytes.reserve(others.clone().map(|other| other.bytes.len()).sum());
        self.calls.reserve(others.map(|other| other.calls.len()).sum());
    }

    /// Appends the states of an automaton without embedded programs, whose dots are indices into `other`.
    pub(super) fn append(&mut self, other: &Self) {
        self.append_program(other, 0, 0);
    }

    /// Appends the states of a program whose rules and embedded programs follow the first `rules` and
    /// `embedded` ones.
    pub(super) fn append_program(&mut self, other: &Self, rules: u32, embedded: u32) {
        let (dots, bytes, calls) = (self.len() as u32, self.bytes.len() as u32, self.calls.len() as u32);
        let moved = |target: Dot| Dot(target.0 + dots);
        self.heads.extend(other.heads.iter().map(|head| Head {
            embedded: if head.embedded == NONE { NONE } else { head.embedded + embedded },
            bytes_end: head.bytes_end + bytes,
            calls_end: head.calls_end + calls,
            ..*head
        }));
        self.bytes.extend(other.bytes.iter().map(|edge| ByteEdge { target: moved(edge.target), ..*edge }));
        let calls = other.calls.iter();
        self.calls.extend(
            calls.map(|edge| CallEdge { rule: RuleId(edge.rule.0 + rules), target: moved(edge.target) }),
        );
    }

    /// Removes the byte edges and call edges of the first `count` states for which `keeps_byte` or
    /// `keeps_call` returns false.
    pub(super) fn retain(
        &mut self,
        count: usize,
        keeps_byte: impl Fn(&ByteEdge) -> bool,
        keeps_call: impl Fn(&CallEdge) -> bool,
    ) {
        let (bytes, calls) = self.edge_starts(count);
        if self.bytes[..bytes].iter().all(&keeps_byte) && self.calls[..calls].iter().all(&keeps_call) {
            return;
        }
        // Number of edges that are kept so far.
        let (mut bytes, mut calls) = (0, 0);
        let (mut bytes_start, mut calls_start) = (0, 0);
        for (index, head) in self.heads.iter_mut().enumerate() {
            let (bytes_end, calls_end) = (head.bytes_end as usize, head.calls_end as usize);
            for at in bytes_start..bytes_end {
                self.bytes[bytes] = self.bytes[at];
                bytes += usize::from(index >= count || keeps_byte(&self.bytes[at]));
            }
            for at in calls_start..calls_end {
                self.calls[calls] = self.calls[at];
                calls += usize::from(index >= count || keeps_call(&self.calls[at]));
            }
            (head.bytes_end, head.calls_end) = (bytes as u32, calls as u32);
            (bytes_start, calls_start) = (bytes_end, calls_end);
        }
        self.bytes.truncate(bytes);
        self.calls.truncate(calls);
    }

    /// Returns the indices of the first edges of the state at `index`, which may be the one after the last.
    fn edge_starts(&self, index: usize) -> (usize, usize) {
        let before = index.checked_sub(1).map(|before| self.heads[before]);
        before.map_or((0, 0), |head| (head.bytes_end as usize, head.calls_end as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn byte(low: u8, high: u8, target: u32) -> ByteEdge {
        ByteEdge { low, high, target: Dot(target) }
    }

    const fn call(rule: u32, target: u32) -> CallEdge {
        CallEdge { rule: RuleId(rule), target: Dot(target) }
    }

    /// Returns a list of two states, the first one with a byte edge and a call edge to the second one.
    fn two() -> States {
        let mut states = States::default();
        states.push(State { bytes: &[byte(1, 2, 1)], calls: &[call(0, 1)], ..State::default() });
        states.push(State { accepting: true, embedded: Some(0), ..State::default() });
        states
    }

    #[test]
    fn touching_ranges_to_one_target_become_one_edge() {
        let mut states = States::default();
        states.push_byte(byte(5, 7, 0));
        states.finish_state(false, None);
        for edge in [byte(8, 9, 0), byte(10, 10, 0), byte(11, 12, 1), byte(14, 15, 1)] {
            states.push_byte(edge);
        }
        states.finish_state(true, None);
        assert_eq!(states.get(0).bytes, [byte(5, 7, 0)], "edges of another state do not join");
        assert_eq!(states.get(1).bytes, [byte(8, 10, 0), byte(11, 12, 1), byte(14, 15, 1)]);
    }

    #[test]
    fn appended_programs_keep_their_edges() {
        let mut states = two();
        states.append_program(&two(), 10, 20);
        assert_eq!(states.get(0), two().get(0));
        let moved = State { bytes: &[byte(1, 2, 3)], calls: &[call(10, 3)], ..State::default() };
        assert_eq!(states.get(2), moved);
        assert_eq!(states.get(3), State { accepting: true, embedded: Some(20), ..State::default() });
    }

    #[test]
    fn edges_of_the_first_states_can_be_removed() {
        let mut states = two();
        states.append(&two());
        states.retain(2, |_| false, |_| true);
        assert_eq!(states.get(0), State { calls: &[call(0, 1)], ..State::default() });
        assert_eq!(states.get(1), two().get(1));
        assert_eq!(states.get(2).bytes, [byte(1, 2, 3)], "the other states keep theirs");
        assert_eq!(states.edges(), (&[byte(1, 2, 3)][..], &[call(0, 1), call(0, 3)][..]));
    }
}
