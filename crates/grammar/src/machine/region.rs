//! Finds a class of characters such that any text over the class may follow a state of an automaton over
//! characters ([`Tolerance`]).
//!
//! Every state that texts over the class lead to must accept the whole class, so the class shrinks as more
//! states are found. There is a trade-off between long texts over a small class and short texts over a
//! large class.

use super::Tolerance;
use crate::ByteSet;
use crate::mask::char_classes::{ODD, ODD_BYTE};

/// Maximum number of characters to look ahead. Few tokens are longer.
pub(super) const LONG: u32 = 24;

/// Length at which the comparison of two tolerances stops preferring the longer one. Longer tokens
/// are rare.
const USUAL: u32 = 8;

/// Maximum number of states that are examined.
const STATES: usize = 256;

/// An automaton over characters.
pub(super) trait CharGraph {
    /// Returns the ASCII characters that are written as they are.
    fn plain(&self) -> ByteSet;

    /// Returns the transitions of `state`: disjoint ranges of code points, each with its target.
    fn transitions(&self, state: u32) -> impl Iterator<Item = ((u32, u32), u32)>;

    /// Reports whether texts of the class may lead to `state`.
    fn is_live(&self, state: u32) -> bool;

    /// Returns the least number of characters from `state` to the end. Called only if the number of
    /// characters is bounded.
    fn fewest(&self, state: u32) -> Option<u32>;

    /// Adds the first bytes of everything that may come next in `state`.
    fn add_first_bytes(&self, state: u32, bytes: &mut ByteSet);
}

/// Returns a tolerance at a position between two characters. `None` if there is none.
///
/// At most `left` more characters may follow; `u32::MAX` if there is no limit.
pub(super) fn any_text(graph: &impl CharGraph, state: u32, left: u32) -> Option<Tolerance> {
    let mut region = Region::new(graph, state, left)?;
    let mut best = None;
    for steps in 1..=LONG {
        let closed = !region.step();
        let tolerance = region.tolerance(steps, closed);
        if best.as_ref().is_none_or(|best| value(best) <= value(&tolerance)) {
            best = Some(tolerance);
        }
        if closed || region.class.is_empty() || region.states.len() > STATES {
            break;
        }
    }
    best.filter(|best| !best.class.is_empty())
}

/// Estimates the number of tokens that a tolerance allows.
pub(super) fn value(tolerance: &Tolerance) -> usize {
    tolerance.class.len() * tolerance.chars.min(USUAL) as usize
}

/// A class of characters, and the states that texts over the class lead to.
struct Region<'a, G> {
    graph: &'a G,
    /// Maximum number of characters that may follow; `u32::MAX` if there is no limit.
    left: u32,
    class: ByteSet,
    states: Vec<u32>,
    /// Number of states in `states` that are known to accept the whole class. The others were found
    /// in the last step.
    settled: usize,
    /// Maximum number of characters after which all states can still reach the end.
    reach: u32,
    /// True if some state is reached in more than one way, perhaps after different numbers of
    /// characters.
    meets: bool,
}

impl<'a, G: CharGraph> Region<'a, G> {
    fn new(graph: &'a G, state: u32, left: u32) -> Option<Self> {
        let (class, states) = (ByteSet::ALL, vec![state]);
        let mut region = Self { graph, left, class, states, settled: 0, reach: left, meets: false };
        region.reach = region.before(state)?;
        Some(region)
    }

    /// Returns the maximum number of characters before `state`, so that the text can still end
    /// within `left` characters. `None` if `state` cannot end within that limit.
    fn before(&self, state: u32) -> Option<u32> {
        match self.left {
            u32::MAX => Some(u32::MAX),
            left => left.checked_sub(self.graph.fewest(state)?),
        }
    }

    /// Restricts the class to the characters that the newest states accept, and finds the states to
    /// which these characters lead.
    ///
    /// If a new state would remove more characters from the class than lead to it, the characters
    /// that lead to it are removed instead. Returns false if there are no new states.
    fn step(&mut self) -> bool {
        let found = self.states.len();
        for at in self.settled..found {
            self.class = self.class & self.class_of(self.states[at]);
        }
        for at in self.settled..found {
            for (target, by) in self.targets(self.states[at]) {
                let by = by & self.class;
                if self.states.contains(&target) || by.is_empty() {
                    self.meets |= !by.is_empty();
                    continue;
                }
                let lost = self.class & !self.class_of(target);
                match self.before(target).filter(|_| lost.len() <= by.len()) {
                    Some(reach) => {
                        self.reach = self.reach.min(reach);
                        self.states.push(target);
                    }
                    None => self.class = self.class & !by,
                }
            }
        }
        self.settled = found;
        self.states.len() > found
    }

    /// Returns the tolerance after `steps` calls of [`step`](Self::step). `closed` is true if the
    /// last step found no new state.
    fn tolerance(&self, steps: u32, closed: bool) -> Tolerance {
        let (class, chars) = (self.class, if closed { self.reach } else { self.reach.min(steps) });
        let mut exits = ByteSet::default();
        for &state in &self.states {
            self.graph.add_first_bytes(state, &mut exits);
        }
        let ends_at = |&state: &u32| (self.class_of(state) & class).is_empty();
        let exhausted = !self.meets && chars == steps && self.states[self.settled..].iter().all(ends_at);
        let ends = (!closed && exhausted) || (self.left != u32::MAX && chars == self.left);
        Tolerance { class, chars, exits: exits & !class, ends, accepting: None }
    }

    /// Returns the characters that `state` accepts next, in the encoding of [`Tolerance::class`].
    fn class_of(&self, state: u32) -> ByteSet {
        let mut class = ByteSet::default();
        let (mut usual, mut odd) = (0, 0);
        let live = self.graph.transitions(state).filter(|&(_, target)| self.graph.is_live(target));
        for ((low, high), _) in live {
            add_ascii((low, high), &mut class);
            let beyond = beyond_ascii(low, high);
            (usual, odd) = (usual + beyond.0, odd + beyond.1);
        }
        class = class & self.graph.plain();
        let all = beyond_ascii(0, u32::from(char::MAX));
        if usual == all.0 {
            class.insert_range(0x80, ODD_BYTE - 1);
        }
        if odd == all.1 {
            class.insert(ODD_BYTE);
        }
        class
    }

    /// Returns the states to which `state` leads over characters of the class, each with these
    /// characters.
    fn targets(&self, state: u32) -> Vec<(u32, ByteSet)> {
        let mut targets: Vec<(u32, ByteSet)> = Vec::new();
        for ((low, high), target) in self.graph.transitions(state) {
            let mut own = ByteSet::default();
            add_ascii((low, high), &mut own);
            let (usual, odd) = beyond_ascii(low, high);
            if usual > 0 {
                own.insert_range(0x80, ODD_BYTE - 1);
            }
            if odd > 0 {
                own.insert(ODD_BYTE);
            }
            let own = own & self.class;
            match targets.iter_mut().find(|(known, _)| *known == target) {
                Some((_, known)) => *known = *known | own,
                None => targets.push((target, own)),
            }
        }
        targets.retain(|(_, own)| !own.is_empty());
        targets
    }
}

/// Adds the ASCII characters of a range to a class.
fn add_ascii((low, high): (u32, u32), class: &mut ByteSet) {
    if low < 0x80 {
        class.insert_range(low as u8, high.min(0x7f) as u8);
    }
}

/// Returns the number of characters beyond ASCII in a range: first the characters outside [`ODD`],
/// and then the characters in [`ODD`].
fn beyond_ascii(low: u32, high: u32) -> (u32, u32) {
    let overlap = |from: u32, to: u32| (high.min(to) + 1).saturating_sub(low.max(from));
    let odd = ODD.iter().map(|&(from, to)| overlap(from.into(), to.into())).sum();
    (overlap(0x80, 0xd7ff) + overlap(0xe000, char::MAX.into()) - odd, odd)
}
