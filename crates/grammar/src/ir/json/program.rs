use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::cost::Cost;
use super::layout::Spacing;
use super::number::NumberDfa;
use super::texts::Texts;
use super::trie::Trie;
use crate::options::{Order, Profile, SchemaOptions};

/// A compiled schema: a graph of nodes, one for each set of subschemas that apply to one value together.
///
/// Only what some value satisfies is left in it.
#[derive(Debug)]
pub(crate) struct JsonProgram {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: NodeId,
    pub(crate) numbers: Vec<NumberDfa>,
    /// The first is [`FREE`].
    pub(crate) texts: Vec<TextRule>,
    pub(crate) words: Vec<Trie>,
    /// Languages of strings, as values and as names.
    pub(crate) languages: Vec<Arc<Texts>>,
    pub(crate) language_rules: Vec<LanguageRule>,
    pub(crate) arrays: Vec<ArrayRule>,
    pub(crate) objects: Vec<ObjectRule>,
    pub(crate) spacing: Spacing,
    pub(crate) profile: Profile,
    pub(crate) order: Order,
}

impl JsonProgram {
    /// A program without nodes.
    pub(crate) const fn empty(options: SchemaOptions) -> Self {
        Self {
            nodes: Vec::new(),
            root: 0,
            numbers: Vec::new(),
            texts: Vec::new(),
            words: Vec::new(),
            languages: Vec::new(),
            language_rules: Vec::new(),
            arrays: Vec::new(),
            objects: Vec::new(),
            spacing: Spacing::new(options.layout, options.profile),
            profile: options.profile,
            order: options.order,
        }
    }
}

pub(crate) type NodeId = u32;

/// The values that one place allows: any of these.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) null: bool,
    pub(crate) bools: [bool; 2],
    pub(crate) number: Option<u32>,
    pub(crate) texts: Vec<u32>,
    pub(crate) words: Option<u32>,
    pub(crate) languages: Vec<u32>,
    pub(crate) arrays: Vec<u32>,
    pub(crate) objects: Vec<u32>,
    pub(crate) cost: Cost,
}

/// The text rule of every string.
pub(crate) const FREE: u32 = 0;

/// Strings of a length in code points.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TextRule {
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
}

/// Strings of a language.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LanguageRule {
    pub(crate) language: u32,
    /// Code points at most, where the language has longer ones.
    pub(crate) max: Option<u32>,
    /// The rule of strings of that length.
    pub(crate) free: u32,
}

impl TextRule {
    pub(crate) const ANY: Self = Self { min: 0, max: None };
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ArrayRule {
    /// What each of the first items is: one of these.
    pub(crate) prefix: Vec<Vec<NodeChoice>>,
    /// What items after the prefix are.
    pub(crate) rest: Vec<NodeChoice>,
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
    /// Items that are counted by what they satisfy.
    pub(crate) counters: Vec<Counter>,
    /// With counters: what it takes to end.
    pub(crate) after: After,
    /// Whether no two items may be equal.
    pub(crate) unique: bool,
    /// Whether two items must be equal.
    pub(crate) repeats: Option<Repeats>,
    /// Of items that must differ, where some are required: what these can be.
    pub(crate) required: Option<Required>,
    /// Of items that must differ: whether at every place there are more values than any text has items.
    pub(crate) ample: bool,
}

/// What the required items of an array can be, if its items must differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Required {
    /// By node, in order of the nodes, its shortest values: all of them, or one more than items are required.
    pub(crate) pools: Vec<(NodeId, Arc<[ItemText]>)>,
}

/// How two items of an array come to be equal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Repeats {
    /// All items from this index on are of one node, and there is room for two of them.
    pub(crate) from: u32,
    /// A shortest value of that node, without white space around its tokens.
    pub(crate) cheapest: Box<[u8]>,
}

/// A shortest text of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ItemText {
    /// Without white space around its tokens.
    pub(crate) compact: Box<[u8]>,
    /// The bytes that it takes at the left margin, and the line breaks among them.
    pub(crate) bytes: u32,
    pub(crate) lines: u32,
}

/// One way to be an item, or a member of some undeclared name: a node, and the counters that it raises or the
/// obligations that it meets, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NodeChoice {
    pub(crate) bits: u32,
    pub(crate) node: NodeId,
}

impl NodeChoice {
    /// Of some obligations, those that it does not meet.
    pub(crate) const fn unmet(self, obligations: u8) -> u8 {
        obligations & !(self.bits as u8)
    }
}

/// How many items may satisfy a subschema.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Counter {
    pub(crate) min: u16,
    pub(crate) max: Option<u16>,
}

/// The most counters of one array, one for each bit of [`NodeChoice::bits`].
pub(crate) const COUNTERS: usize = 32;

/// The counts of an array's counters, without the zeros at the end; counts that make no difference are one.
pub(crate) type Counts = Box<[u16]>;

/// What it takes to end an array with counters, from the end of an item on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum After {
    /// By the counts and the number of items.
    Listed(FxHashMap<Counts, FxHashMap<u32, Cost>>),
    /// All items have the same ways, and each way raises one counter at most. The costs are those of a comma and an item.
    Separate {
        /// By counter, the cheapest item that raises it.
        raising: Vec<Cost>,
        /// The cheapest item of which any number may come.
        other: Cost,
        /// The closing bracket.
        end: Cost,
    },
}

impl Default for After {
    fn default() -> Self {
        Self::Listed(FxHashMap::default())
    }
}

impl ArrayRule {
    pub(crate) fn item(&self, index: u32) -> &[NodeChoice] {
        self.prefix.get(index as usize).unwrap_or(&self.rest)
    }

    /// The number of items after one more; those that make no difference are counted as one.
    pub(crate) fn count(&self, items: u32) -> u32 {
        let equal = self.repeats.as_ref().map_or(0, |repeats| repeats.from + 1);
        let last = self.max.unwrap_or((self.prefix.len() as u32).max(self.min).max(equal));
        items.saturating_add(1).min(last)
    }

    /// The counts after an item that raises some, unless that is one too many.
    pub(crate) fn raise(&self, counts: &[u16], bits: u32) -> Option<Counts> {
        let mut raised = counts.to_vec();
        for (at, counter) in self.counters.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1) {
            raised.resize(raised.len().max(at + 1), 0);
            if counter.max == Some(raised[at]) {
                return None;
            }
            raised[at] = (raised[at] + 1).min(counter.max.unwrap_or(counter.min));
        }
        let len = raised.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        raised.truncate(len);
        Some(raised.into())
    }

    /// Whether the array may end after some items.
    pub(crate) fn closable(&self, items: u32, counts: &[u16]) -> bool {
        items >= self.min && self.missing(counts).all(|missing| missing == 0)
    }

    /// By counter, the number of items that it still asks for.
    pub(crate) fn missing(&self, counts: &[u16]) -> impl Iterator<Item = u32> {
        let counts = counts.iter().copied().chain(std::iter::repeat(0));
        self.counters.iter().zip(counts).map(|(counter, count)| counter.min.saturating_sub(count).into())
    }

    /// With counters that are raised separately: the number of items to come that raise each, and that of all others.
    /// `None` where there is no room for them.
    pub(crate) fn needed(&self, items: u32, counts: &[u16]) -> Option<(Vec<u32>, u32)> {
        let missing: Vec<u32> = self.missing(counts).collect();
        let raising: u32 = missing.iter().sum();
        let others = self.min.saturating_sub(items.saturating_add(raising));
        let room = self.max.map_or(u32::MAX, |max| max.saturating_sub(items));
        (raising.saturating_add(others) <= room).then_some((missing, others))
    }

    /// With counters: from the end of the last of some items to the end of the array, which stands at `depth`.
    pub(crate) fn to_end(&self, items: u32, counts: &[u16], depth: u32) -> Option<u32> {
        match &self.after {
            After::Listed(after) => Some(after.get(counts)?.get(&items)?.at(depth)?.len),
            After::Separate { raising, other, end } => {
                let (missing, others) = self.needed(items, counts)?;
                let mut total = end.at(depth)?.len;
                let each = missing.iter().zip(raising).chain([(&others, other)]);
                for (&count, cost) in each.filter(|(count, _)| **count > 0) {
                    total = total.saturating_add(cost.at(depth)?.len.saturating_mul(count));
                }
                Some(total)
            }
        }
    }

    /// Whether counts are at least as good as others: whatever may follow those may follow these.
    pub(crate) fn dominates(&self, counts: &[u16], others: &[u16]) -> bool {
        let count = |counts: &[u16], at: usize| counts.get(at).copied().unwrap_or(0);
        self.counters.iter().enumerate().all(|(at, counter)| {
            let (one, other) = (count(counts, at), count(others, at));
            one == other || (counter.max.is_none() && one > other)
        })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ObjectRule {
    pub(crate) members: Vec<Member>,
    /// What a member of any other name is, by the label of the name: one of these ways.
    pub(crate) others: Vec<Vec<NodeChoice>>,
    /// The language that labels undeclared names; without one all have the label 0.
    pub(crate) labels: Option<u32>,
    /// Obligations that undeclared members have to meet, as bits.
    pub(crate) obligations: u8,
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
    pub(crate) names: Trie,
    /// The smallest number of undeclared names that a label of members has; `ENDLESS` where each label has
    /// endless ones.
    pub(crate) least_names: u32,
    /// For each state of `labels`, the number of names that go on from it. Empty where every beginning has
    /// endless ones.
    pub(crate) names_below: Vec<u32>,
    /// For each position in the declared order, the first required member from there on, or the number of members.
    pub(crate) next_required: Vec<u32>,
    /// Members that depend on each other. With groups, nothing depends on the number of members, and nothing is pending.
    pub(crate) groups: Vec<Group>,
    /// By member, the group that it is in, and its place there. Empty without groups.
    pub(crate) grouped: Vec<Option<(u32, u32)>>,
}

/// Members of an object that depend on each other and on no others.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Their indexes.
    pub(crate) members: Vec<u32>,
    /// For each way in which they may be together, what each of them is.
    pub(crate) alternatives: Vec<Vec<Member>>,
}

/// The most alternatives of a group.
pub(crate) const GROUP_ALTERNATIVES: usize = 64;

impl Group {
    /// The alternatives that are not out.
    pub(crate) fn left(&self, out: u64) -> impl Iterator<Item = (usize, &[Member])> {
        let all = self.alternatives.iter().map(Vec::as_slice).enumerate();
        all.filter(move |(at, _)| out >> at & 1 == 0)
    }

    /// The alternatives for which something holds, as bits.
    pub(crate) fn without(&self, holds: impl Fn(&[Member]) -> bool) -> u64 {
        let all = self.alternatives.iter().enumerate();
        all.filter(|(_, members)| holds(members)).fold(0, |bits, (at, _)| bits | 1 << at)
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Member {
    /// `None` where no value satisfies the member's schema, so that it must be absent.
    pub(crate) node: Option<NodeId>,
    pub(crate) required: bool,
    /// Bytes of the shortest spelling of the name, without quotes.
    pub(crate) name_len: u32,
}

impl ObjectRule {
    /// Counts the members of all alternatives of all groups.
    pub(crate) fn grouped_members(&self) -> usize {
        self.groups.iter().map(|group| group.members.len() * group.alternatives.len()).sum()
    }

    /// Finds the next required member for each position.
    pub(crate) fn require(&mut self) {
        let count = self.members.len();
        self.next_required = vec![count as u32; count + 1];
        for at in (0..count).rev() {
            self.next_required[at] =
                if self.members[at].required { at as u32 } else { self.next_required[at + 1] };
        }
    }

    /// Whether several undeclared members may come, so that their names have to be kept.
    pub(crate) fn tracks(&self) -> bool {
        self.max.is_none_or(|max| max > 1) && self.others.iter().any(|ways| !ways.is_empty())
    }

    /// Whether no member may come after so many.
    pub(crate) fn is_full(&self, members: u32) -> bool {
        self.max == Some(members)
    }

    pub(crate) const fn counts(&self) -> bool {
        self.min > 0 || self.max.is_some()
    }

    pub(crate) fn count(&self, members: u32) -> u32 {
        if self.counts() { (members + 1).min(self.max.unwrap_or(self.min)) } else { 0 }
    }
}
