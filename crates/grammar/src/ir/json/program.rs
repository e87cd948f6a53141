use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::cost::Cost;
use super::layout::Spacing;
use super::number::NumberDfa;
use super::texts::Texts;
use super::trie::Trie;
use crate::options::{Order, Profile, SchemaOptions};

/// A compiled schema: a graph of nodes. Each node stands for a set of subschemas that apply to one
/// value together.
///
/// Alternatives that no value satisfies have been removed.
#[derive(Debug)]
pub(crate) struct JsonProgram {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: NodeId,
    /// Automata of numbers.
    pub(crate) numbers: Vec<Arc<NumberDfa>>,
    /// Rules for strings by length. The first rule is [`FREE`].
    pub(crate) texts: Vec<TextRule>,
    /// Sets of strings, from `enum` and `const`.
    pub(crate) words: Vec<Trie>,
    /// Languages of strings, for values and for names.
    pub(crate) languages: Vec<Arc<Texts>>,
    /// Rules for strings by language.
    pub(crate) language_rules: Vec<LanguageRule>,
    pub(crate) arrays: Vec<ArrayRule>,
    pub(crate) objects: Vec<ObjectRule>,
    pub(crate) spacing: Spacing,
    pub(crate) profile: Profile,
    pub(crate) order: Order,
}

impl JsonProgram {
    /// Creates a program without nodes.
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

/// Index of a [`Node`] in a program.
pub(crate) type NodeId = u32;

/// The values that a node of the graph accepts: all values that at least one of the fields accepts.
///
/// The `u32` values are indices into the tables of [`JsonProgram`]. The indices in `languages`
/// refer to [`JsonProgram::language_rules`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) null: bool,
    /// True for each accepted boolean: `false` first, then `true`.
    pub(crate) bools: [bool; 2],
    pub(crate) number: Option<u32>,
    pub(crate) texts: Vec<u32>,
    pub(crate) words: Option<u32>,
    pub(crate) languages: Vec<u32>,
    pub(crate) arrays: Vec<u32>,
    pub(crate) objects: Vec<u32>,
    /// The least number of bytes that a value of the node takes.
    pub(crate) cost: Cost,
}

/// Index of the text rule that allows every string.
pub(crate) const FREE: u32 = 0;

/// Strings whose length in code points is at least `min` and at most `max`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TextRule {
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
}

/// Strings of a language with a maximum length.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LanguageRule {
    /// Index in [`JsonProgram::languages`].
    pub(crate) language: u32,
    /// Maximum length in code points, if the language has longer strings.
    pub(crate) max: Option<u32>,
    /// Index of the text rule that allows all strings up to the same maximum length.
    pub(crate) free: u32,
}

impl TextRule {
    pub(crate) const ANY: Self = Self { min: 0, max: None };
}

/// The arrays that a node accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ArrayRule {
    /// For each of the first items, its choices.
    pub(crate) prefix: Vec<Vec<NodeChoice>>,
    /// The choices for every item after the prefix.
    pub(crate) rest: Vec<NodeChoice>,
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
    /// Bounds on the number of items that satisfy certain subschemas. [`NodeChoice::bits`] refers
    /// to these counters.
    pub(crate) counters: Vec<Counter>,
    /// The costs to end the array, if there are counters.
    pub(crate) after: After,
    /// True if no two items may be equal.
    pub(crate) unique: bool,
    /// The requirement that two items are equal, or `None` without such a requirement.
    pub(crate) repeats: Option<Repeats>,
    /// Values of the required items. `None` if items may be equal, or if no list of values is
    /// needed.
    pub(crate) required: Option<Required>,
    /// True if items must differ, and every item has more possible values than any text has items.
    pub(crate) ample: bool,
}

/// Values of the required items of an array whose items must differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Required {
    /// For each node that a required item may have, its shortest values. The list has all values of
    /// the node, or one value more than the number of required items. Nodes are in increasing
    /// order.
    pub(crate) pools: Vec<(NodeId, Arc<[ItemText]>)>,
}

/// Describes two equal items that an array must have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Repeats {
    /// All items from this index on have the same node, and there is room for two of them.
    pub(crate) from: u32,
    /// A shortest value of this node, without white space between its tokens.
    pub(crate) cheapest: Box<[u8]>,
}

/// A shortest text of one value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ItemText {
    /// The text without white space between its tokens.
    pub(crate) compact: Box<[u8]>,
    /// Length in bytes at depth 0.
    pub(crate) bytes: u32,
    /// Number of line breaks in the text.
    pub(crate) lines: u32,
}

/// One choice for an item, or for a member with an undeclared name.
///
/// `bits` are the counters that the item raises, or the obligations that the member meets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NodeChoice {
    pub(crate) bits: u32,
    pub(crate) node: NodeId,
}

impl NodeChoice {
    /// Returns the obligations in `obligations` that the member does not meet.
    pub(crate) const fn unmet(self, obligations: u8) -> u8 {
        obligations & !(self.bits as u8)
    }
}

/// Bounds on the number of items that satisfy a subschema.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Counter {
    pub(crate) min: u16,
    pub(crate) max: Option<u16>,
}

/// Maximum number of counters of one array, one for each bit of [`NodeChoice::bits`].
pub(crate) const COUNTERS: usize = 32;

/// The current count of each counter of an array, without trailing zeros. A count stops growing
/// where more items make no difference.
pub(crate) type Counts = Box<[u16]>;

/// Costs from the end of an item to the end of an array with counters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum After {
    /// The costs by counts, and then by number of items.
    Listed(FxHashMap<Counts, FxHashMap<u32, Cost>>),
    /// The costs of an array in which all items have the same choices, and each choice raises at
    /// most one counter.
    ///
    /// The cost of an item includes its comma.
    Separate {
        /// For each counter, the cost of the cheapest item that raises it.
        raising: Vec<Cost>,
        /// The cost of the cheapest item that may occur any number of times.
        other: Cost,
        /// The cost of the closing bracket, with the white space before it.
        end: Cost,
    },
}

impl Default for After {
    fn default() -> Self {
        Self::Listed(FxHashMap::default())
    }
}

impl ArrayRule {
    /// Returns the choices for the item at `index`.
    pub(crate) fn item(&self, index: u32) -> &[NodeChoice] {
        self.prefix.get(index as usize).unwrap_or(&self.rest)
    }

    /// Returns the number of items after `items` items and one more. The number stops growing where
    /// more items make no difference.
    pub(crate) fn count(&self, items: u32) -> u32 {
        let equal = self.repeats.as_ref().map_or(0, |repeats| repeats.from + 1);
        let last = self.max.unwrap_or((self.prefix.len() as u32).max(self.min).max(equal));
        items.saturating_add(1).min(last)
    }

    /// Returns the counts after `counts` and an item that raises the counters in `bits`. Returns
    /// `None` if a count exceeds its maximum.
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

    /// Reports whether the array may end after `items` items with these `counts`.
    pub(crate) fn closable(&self, items: u32, counts: &[u16]) -> bool {
        items >= self.min && self.missing(counts).all(|missing| missing == 0)
    }

    /// Returns, for each counter, the number of items that must still raise it.
    pub(crate) fn missing(&self, counts: &[u16]) -> impl Iterator<Item = u32> {
        let counts = counts.iter().copied().chain(std::iter::repeat(0));
        self.counters.iter().zip(counts).map(|(counter, count)| counter.min.saturating_sub(count).into())
    }

    /// For counters that are raised separately ([`After::Separate`]), returns the numbers of items
    /// that must follow.
    ///
    /// The first result has the number of items for each counter, and the second is the number of
    /// other items. Returns `None` if the array has no room for all of them.
    pub(crate) fn needed(&self, items: u32, counts: &[u16]) -> Option<(Vec<u32>, u32)> {
        let missing: Vec<u32> = self.missing(counts).collect();
        let raising: u32 = missing.iter().sum();
        let others = self.min.saturating_sub(items.saturating_add(raising));
        let room = self.max.map_or(u32::MAX, |max| max.saturating_sub(items));
        (raising.saturating_add(others) <= room).then_some((missing, others))
    }

    /// Returns the least number of bytes from the end of an item to the end of an array with
    /// counters, after `items` items with these `counts`. The array stands at `depth`. Returns
    /// `None` if it cannot end.
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

    /// Reports whether everything that may follow the counts `others` may also follow the counts
    /// `counts`.
    pub(crate) fn dominates(&self, counts: &[u16], others: &[u16]) -> bool {
        let count = |counts: &[u16], at: usize| counts.get(at).copied().unwrap_or(0);
        self.counters.iter().enumerate().all(|(at, counter)| {
            let (one, other) = (count(counts, at), count(others, at));
            one == other || (counter.max.is_none() && one > other)
        })
    }
}

/// The objects that a node accepts.
#[derive(Clone, Debug)]
pub(crate) struct ObjectRule {
    /// The declared members.
    pub(crate) members: Vec<Member>,
    /// For each label of undeclared names, the choices for a member with such a name.
    pub(crate) others: Vec<Vec<NodeChoice>>,
    /// Index in [`JsonProgram::languages`] of the automaton that labels undeclared names. If
    /// `None`, all undeclared names have label 0.
    pub(crate) labels: Option<u32>,
    /// Obligations that only undeclared members can meet, as bits.
    pub(crate) obligations: u8,
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
    /// The names of the declared members.
    pub(crate) names: Trie,
    /// A lower bound on the number of undeclared names of each label that has choices.
    /// [`ENDLESS`](super::texts::ENDLESS) if all these labels have infinitely many names.
    pub(crate) least_names: u32,
    /// For each state of the automaton in `labels`, the number of allowed names that continue from
    /// the state. Empty if every number is infinite or 0.
    pub(crate) names_below: Vec<u32>,
    /// For each position in the declared order, the index of the next required member at or after
    /// the position. The number of members if there is no such member.
    pub(crate) next_required: Vec<u32>,
    /// Groups of members that depend on each other. An object with groups has no obligations and no
    /// bounds on the number of members.
    pub(crate) groups: Vec<Group>,
    /// For each member, the index of its group and its index in the group, if it has a group. Empty
    /// if there are no groups.
    pub(crate) grouped: Vec<Option<(u32, u32)>>,
}

/// Members of an object that depend on each other, and on no other members.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Indices of the members in [`ObjectRule::members`].
    pub(crate) members: Vec<u32>,
    /// The alternatives of the group. Each has a rule for each member of the group.
    pub(crate) alternatives: Vec<Vec<Member>>,
}

/// Maximum number of alternatives of a group.
pub(crate) const GROUP_ALTERNATIVES: usize = 64;

impl Group {
    /// Returns the alternatives that are still possible, each with its index. `out` has the
    /// excluded alternatives, as bits.
    pub(crate) fn left(&self, out: u64) -> impl Iterator<Item = (usize, &[Member])> {
        let all = self.alternatives.iter().map(Vec::as_slice).enumerate();
        all.filter(move |(at, _)| out >> at & 1 == 0)
    }

    /// Returns the excluded alternatives, as bits, if only the first one is left.
    pub(crate) const fn settled(&self) -> u64 {
        (u64::MAX >> (GROUP_ALTERNATIVES - self.alternatives.len())) & !1
    }

    /// Returns the alternatives for which `holds` is true, as bits.
    pub(crate) fn without(&self, holds: impl Fn(&[Member]) -> bool) -> u64 {
        let all = self.alternatives.iter().enumerate();
        all.filter(|(_, members)| holds(members)).fold(0, |bits, (at, _)| bits | 1 << at)
    }
}

/// A declared member of an object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Member {
    /// The node of the value. `None` if no value satisfies the member's schema, so that the member
    /// must be absent.
    pub(crate) node: Option<NodeId>,
    pub(crate) required: bool,
    /// Length of the shortest spelling of the name in bytes, without quotes.
    pub(crate) name_len: u32,
}

impl ObjectRule {
    /// Returns the number of members, summed over all alternatives of all groups.
    pub(crate) fn grouped_members(&self) -> usize {
        self.groups.iter().map(|group| group.members.len() * group.alternatives.len()).sum()
    }

    /// Computes `next_required`.
    pub(crate) fn require(&mut self) {
        let count = self.members.len();
        self.next_required = vec![count as u32; count + 1];
        for at in (0..count).rev() {
            self.next_required[at] =
                if self.members[at].required { at as u32 } else { self.next_required[at + 1] };
        }
    }

    /// Reports whether the object may have several undeclared members, so that their names must be
    /// tracked.
    pub(crate) fn tracks(&self) -> bool {
        self.max.is_none_or(|max| max > 1) && self.others.iter().any(|ways| !ways.is_empty())
    }

    /// Reports whether an object with `members` members must not have another one.
    pub(crate) fn is_full(&self, members: u32) -> bool {
        self.max == Some(members)
    }

    /// Reports whether the rule bounds the number of members.
    pub(crate) const fn counts(&self) -> bool {
        self.min > 0 || self.max.is_some()
    }

    /// Returns the number of members after `members` members and one more. The number stops growing
    /// where more members make no difference. Without bounds on the number, the result is always 0.
    pub(crate) fn count(&self, members: u32) -> u32 {
        if self.counts() { (members + 1).min(self.max.unwrap_or(self.min)) } else { 0 }
    }
}
