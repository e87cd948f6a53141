use std::sync::Arc;

use super::JsonMachine;
use super::cost::Cost;
use super::layout::Spacing;
use super::number::NumberDfa;
use super::trie::Trie;
use crate::frontend::json_schema::{Order, Profile};

/// A compiled schema: a graph of nodes, one for each set of subschemas that apply to one value together.
///
/// Only what some value satisfies is left in it.
#[derive(Debug)]
pub(crate) struct JsonProgram {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: NodeId,
    pub(crate) numbers: Vec<NumberDfa>,
    pub(crate) texts: Vec<TextRule>,
    pub(crate) words: Vec<Trie>,
    pub(crate) arrays: Vec<ArrayRule>,
    pub(crate) objects: Vec<ObjectRule>,
    pub(crate) spacing: Spacing,
    pub(crate) profile: Profile,
    pub(crate) order: Order,
}

impl JsonProgram {
    /// A machine at the start of a value.
    pub(crate) fn machine(self: &Arc<Self>) -> JsonMachine {
        JsonMachine::new(Arc::clone(self))
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
    pub(crate) arrays: Vec<u32>,
    pub(crate) objects: Vec<u32>,
    pub(crate) cost: Cost,
}

/// Strings of a length in code points.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TextRule {
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ArrayRule {
    pub(crate) prefix: Vec<NodeId>,
    /// What items after the prefix are.
    pub(crate) rest: Option<NodeId>,
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
}

impl ArrayRule {
    pub(crate) fn item(&self, index: u32) -> Option<NodeId> {
        self.prefix.get(index as usize).copied().or(self.rest)
    }

    /// The number of items after one more; those that make no difference are counted as one.
    pub(crate) fn count(&self, items: u32) -> u32 {
        let last = self.max.unwrap_or((self.prefix.len() as u32).max(self.min));
        items.saturating_add(1).min(last)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ObjectRule {
    pub(crate) members: Vec<Member>,
    /// What a member of any other name is.
    pub(crate) additional: Option<NodeId>,
    pub(crate) min: u32,
    pub(crate) max: Option<u32>,
    pub(crate) names: Trie,
    /// For each position in the declared order, the first required member from there on, or the number of members.
    pub(crate) next_required: Vec<u32>,
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
    pub(crate) const fn counts(&self) -> bool {
        self.min > 0 || self.max.is_some()
    }

    pub(crate) fn count(&self, members: u32) -> u32 {
        if self.counts() { (members + 1).min(self.max.unwrap_or(self.min)) } else { 0 }
    }
}
