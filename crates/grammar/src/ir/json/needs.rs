//! Cost of the members that an object still needs, if names must differ.
//!
//! Members are needed for `minProperties`, and for obligations that only undeclared members can
//! meet. Undeclared names with the same label differ only in their lengths, so the number of names
//! of each length suffices. The cheapest members have the shortest unused names. All assignments of
//! members to obligations are tried.

use rustc_hash::FxHashMap;

use super::cost::Shortest;
use super::spelling::{WHOLE, shortest_spelling};
use crate::regular::TextDfa;

/// Maximum length of the names that are counted, in bytes.
const LONGEST: u32 = 1 << 12;

/// Maximum number of steps for counting the names with one label.
const STEPS: usize = 1 << 24;

/// A number of bytes, and the number of line breaks that are indented as deeply as the object.
///
/// Each such line takes two more bytes per level of depth.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Amount {
    pub(crate) bytes: u32,
    pub(crate) lines: u32,
}

impl Amount {
    pub(crate) const fn bytes(bytes: u32) -> Self {
        Self { bytes, lines: 0 }
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), lines: self.lines.saturating_add(other.lines) }
    }

    /// Returns the amount reduced by `part`.
    pub(crate) const fn without(self, part: Self) -> Self {
        Self { bytes: self.bytes.saturating_sub(part.bytes), lines: self.lines.saturating_sub(part.lines) }
    }

    pub(crate) const fn times(self, count: u32) -> Self {
        Self { bytes: self.bytes.saturating_mul(count), lines: self.lines.saturating_mul(count) }
    }

    /// Returns the number of bytes for an object at `depth`.
    pub(crate) fn at(self, depth: u32) -> u64 {
        u64::from(self.bytes) + 2 * u64::from(self.lines) * u64::from(depth)
    }
}

/// Returns the length of a single name, for callers that need only one. `nearest` is the shortest
/// name with its closing quote. Returns an empty list if there is no name.
pub(crate) fn shortest_only(nearest: Option<Shortest>) -> Lengths {
    nearest.map(|name| (name.len - 1, 1)).into_iter().collect()
}

/// The number of names of each length, as pairs `(length, number)` with the shortest length first.
///
/// The length of a name is the number of bytes of its shortest spelling.
pub(crate) type Lengths = Vec<(u32, u32)>;

/// The names with one label, counted by length on demand.
#[derive(Debug)]
pub(crate) struct NameCounts {
    /// The number of names of each length. The index is the length.
    counts: Vec<u32>,
    /// The sum of `counts`.
    total: u64,
    /// The numbers of texts of the last [`SPELLINGS`] lengths, the longest length first. A row has,
    /// for each state, the number of texts of its length that lead from the state to an end.
    rows: Vec<Vec<u32>>,
    /// For each state, its transitions: the target, and the numbers of characters as [`spelled`]
    /// returns them.
    edges: Vec<Vec<(u32, [u32; SPELLINGS])>>,
    start: u32,
    /// Lengths of the declared names, which are not counted.
    declared: Vec<u32>,
    /// True if every name is counted, because no name has a greater length.
    complete: bool,
    /// Number of steps so far, for the limit [`STEPS`].
    steps: usize,
}

/// Maximum number of bytes of a character's shortest spelling.
const SPELLINGS: usize = 6;

/// Returns the numbers of characters from `low` to `high` by the length of their shortest spelling.
/// Entry `i` counts the characters with a spelling of `i + 1` bytes.
fn spelled(low: u32, high: u32) -> [u32; SPELLINGS] {
    let mut counts = [0; SPELLINGS];
    for (from, to) in WHOLE {
        let (from, to) = (from.max(low), to.min(high));
        if let (true, Some(c)) = (from <= to, char::from_u32(from)) {
            counts[shortest_spelling(c).len as usize - 1] += to - from + 1;
        }
    }
    counts
}

impl NameCounts {
    /// Creates the counts for the names that have `label` in the language of `dfa`.
    pub(crate) fn labelled(dfa: &TextDfa, label: u32) -> Self {
        let states = 0..dfa.len() as u32;
        let edges = states.clone().map(|state| {
            let transitions = dfa.transitions(state).iter();
            transitions.map(|&(low, high, target)| (target, spelled(low, high))).collect()
        });
        let ends = states.clone().map(|state| u32::from(dfa.label(state) == label)).collect();
        Self::new(edges.collect(), ends, dfa.start(), Vec::new())
    }

    /// Creates the counts for all names except the declared ones. `declared` has the lengths of the
    /// declared names.
    pub(crate) fn others(declared: impl Iterator<Item = u32>) -> Self {
        Self::new(vec![vec![(0, spelled(0, u32::from(char::MAX)))]], vec![1], 0, declared.collect())
    }

    fn new(edges: Vec<Vec<(u32, [u32; SPELLINGS])>>, ends: Vec<u32>, start: u32, declared: Vec<u32>) -> Self {
        let mut counts = Self {
            counts: Vec::new(),
            total: 0,
            rows: Vec::new(),
            edges,
            start,
            declared,
            complete: false,
            steps: 0,
        };
        counts.push(ends);
        counts
    }

    /// Adds the counts of the next length. `row` is an entry of `rows`.
    fn push(&mut self, row: Vec<u32>) {
        let length = self.counts.len() as u32;
        let declared = self.declared.iter().filter(|&&declared| declared == length).count() as u32;
        let count = row[self.start as usize].saturating_sub(declared);
        self.counts.push(count);
        self.total += u64::from(count);
        self.rows.insert(0, row);
        self.rows.truncate(SPELLINGS);
        self.complete = self.rows.len() == SPELLINGS && self.rows.iter().flatten().all(|&texts| texts == 0);
    }

    /// Returns the numbers of the shortest names by length, for at least `count` names. Returns the
    /// numbers of all names if there are fewer than `count`.
    ///
    /// Returns `None` if counting exceeds [`LONGEST`] or [`STEPS`].
    pub(crate) fn shortest(&mut self, count: u64) -> Option<Lengths> {
        while self.total < count && !self.complete {
            self.steps += self.edges.iter().map(Vec::len).sum::<usize>() + self.edges.len();
            if self.counts.len() > LONGEST as usize || self.steps > STEPS {
                return None;
            }
            let row = self.edges.iter().map(|edges| {
                let texts = edges.iter().flat_map(|&(to, by)| {
                    let rows = self.rows.iter().zip(by);
                    rows.map(move |(row, chars)| u64::from(row[to as usize]) * u64::from(chars))
                });
                texts.fold(0u64, u64::saturating_add).min(u32::MAX.into()) as u32
            });
            let row = row.collect();
            self.push(row);
        }
        let mut left = count;
        let mut lengths = Lengths::new();
        for (length, &number) in self.counts.iter().enumerate() {
            if left == 0 {
                break;
            }
            if number > 0 {
                lengths.push((length as u32, number));
            }
            left = left.saturating_sub(number.into());
        }
        Some(lengths)
    }

    pub(crate) fn byte_len(&self) -> usize {
        4 * (self.counts.len() + self.rows.iter().map(Vec::len).sum::<usize>())
            + 28 * self.edges.iter().map(Vec::len).sum::<usize>()
    }
}

/// The possible undeclared members whose names have one label.
pub(crate) struct Kind {
    /// The unused names, by length.
    pub(crate) names: Lengths,
    /// Choices for a member: the obligations that it meets, as bits, and its cost without the name.
    pub(crate) ways: Vec<(u8, Amount)>,
}

/// The members that an object needs before it may end.
pub(crate) struct Needs {
    pub(crate) depth: u32,
    /// The cost of each optional declared member that may still come.
    pub(crate) optional: Vec<Amount>,
    /// The possible undeclared members, one entry for each label.
    pub(crate) kinds: Vec<Kind>,
    /// Obligations that are not met yet, as bits.
    pub(crate) pending: u8,
    /// Number of members that are present or required.
    pub(crate) members: u32,
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
}

impl Needs {
    /// Returns the least cost of the members that the object still needs, and their number. Returns
    /// `None` if the needs cannot be met.
    pub(crate) fn least(&self) -> Option<(Amount, u32)> {
        let mut best: Option<(Amount, u32)> = None;
        for (met, taken, values) in self.covers() {
            let total = self.members.checked_add(met)?;
            let Some(names) = self.names(&taken) else { continue };
            let missing = self.min.saturating_sub(total);
            if self.max.is_some_and(|max| u64::from(total) + u64::from(missing) > u64::from(max)) {
                continue;
            }
            let Some(fill) = self.fill(taken, missing) else { continue };
            let amount = values.and(names).and(fill);
            if best.is_none_or(|(best, _)| amount.at(self.depth) < best.at(self.depth)) {
                best = Some((amount, met + missing));
            }
        }
        best
    }

    /// Returns the ways to meet all obligations. Each way has the number of members, their number
    /// for each kind, and the cost of their values without names.
    fn covers(&self) -> Vec<(u32, Vec<u32>, Amount)> {
        let mut open = FxHashMap::from_iter([((self.pending, vec![0; self.kinds.len()]), Amount::default())]);
        let mut covers = Vec::new();
        let mut members = 0;
        while !open.is_empty() {
            let mut next: FxHashMap<(u8, Vec<u32>), Amount> = FxHashMap::default();
            for ((pending, taken), amount) in open {
                if pending == 0 {
                    covers.push((members, taken, amount));
                    continue;
                }
                // The order of members is free here, so the first obligation can be met first.
                let first = pending & pending.wrapping_neg();
                for (at, kind) in self.kinds.iter().enumerate() {
                    for &(bits, value) in kind.ways.iter().filter(|(bits, _)| bits & first != 0) {
                        let mut taken = taken.clone();
                        taken[at] += 1;
                        let amount = amount.and(value);
                        let known = next.entry((pending & !bits, taken)).or_insert(amount);
                        if amount.at(self.depth) < known.at(self.depth) {
                            *known = amount;
                        }
                    }
                }
            }
            members += 1;
            open = next;
        }
        covers
    }

    /// Returns the cost of the shortest names for undeclared members. `taken` is the number of
    /// members of each kind. Returns `None` if a kind has too few names.
    fn names(&self, taken: &[u32]) -> Option<Amount> {
        let mut bytes = 0u32;
        for (kind, &taken) in self.kinds.iter().zip(taken) {
            let mut left = taken;
            for &(length, number) in &kind.names {
                let some = left.min(number);
                bytes = bytes.saturating_add(length.saturating_mul(some));
                left -= some;
            }
            if left > 0 {
                return None;
            }
        }
        Some(Amount::bytes(bytes))
    }

    /// Returns the cost of the `missing` cheapest members that are neither required nor meet an
    /// obligation. `taken` is the number of names of each kind that are used already. Returns
    /// `None` if there are too few members.
    fn fill(&self, taken: Vec<u32>, missing: u32) -> Option<Amount> {
        if missing == 0 {
            return Some(Amount::default());
        }
        let mut all: Vec<(Amount, u32)> = self.optional.iter().map(|&member| (member, 1)).collect();
        for (kind, mut taken) in self.kinds.iter().zip(taken) {
            let ways = kind.ways.iter().map(|&(_, value)| value);
            let Some(value) = ways.min_by_key(|value| value.at(self.depth)) else { continue };
            for &(length, number) in &kind.names {
                let left = number.saturating_sub(taken);
                taken = taken.saturating_sub(number);
                if left > 0 {
                    all.push((value.and(Amount::bytes(length)), left));
                }
            }
        }
        all.sort_by_key(|(member, _)| member.at(self.depth));
        let (mut total, mut left) = (Amount::default(), missing);
        for (member, number) in all {
            let some = left.min(number);
            total = total.and(member.times(some));
            left -= some;
        }
        (left == 0).then_some(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_by_length() {
        let mut all = NameCounts::others([0, 1].into_iter());
        // The declared names are the empty name and one name of the 94 with one byte.
        assert_eq!(all.shortest(1), Some(vec![(1, 93)]));
        let two = 94 * 94 + 7 + 1920;
        assert_eq!(all.shortest(94), Some(vec![(1, 93), (2, two)]));
        assert!(all.shortest(1 << 31).unwrap().len() <= 5);
    }

    #[test]
    fn the_cheapest_members_that_differ_are_chosen() {
        let value = Amount::bytes(10);
        let kind = |names: &[(u32, u32)], ways: &[(u8, u32)]| Kind {
            names: names.to_vec(),
            ways: ways.iter().map(|&(bits, bytes)| (bits, Amount::bytes(bytes))).collect(),
        };
        let needs = |kinds, pending, min, max| Needs {
            depth: 0,
            optional: vec![value, Amount::bytes(13)],
            kinds,
            pending,
            members: 1,
            min,
            max,
        };
        let least = |needs: Needs| needs.least().map(|(amount, members)| (amount.bytes, members));
        assert_eq!(least(needs(vec![], 0, 0, None)), Some((0, 0)));
        assert_eq!(least(needs(vec![], 0, 3, None)), Some((23, 2)));
        assert_eq!(least(needs(vec![], 0, 4, None)), None);
        assert_eq!(
            least(needs(vec![kind(&[(0, 1), (1, 9)], &[(0, 11)])], 0, 4, None)),
            Some((10 + 11 + 12, 3))
        );
        assert_eq!(least(needs(vec![kind(&[(0, 1)], &[(0, 11)])], 0, 4, Some(3))), None);
        // One member can meet both obligations, or two members with different names.
        let both = || kind(&[(0, 1), (3, 9)], &[(0, 1), (1, 5), (2, 5), (3, 20)]);
        assert_eq!(least(needs(vec![both()], 3, 0, None)), Some((13, 2)));
        assert_eq!(least(needs(vec![both()], 3, 0, Some(2))), Some((20, 1)));
        assert_eq!(least(needs(vec![kind(&[(0, 1)], &[(1, 5), (2, 5)])], 3, 0, None)), None);
    }
}
