//! Finds subschemas that no value can have, for warnings and for the error about an unsatisfiable
//! schema.

use rustc_hash::FxHashSet;

use super::Solver;
use crate::error::GrammarError;
use crate::frontend::json_schema::atom::AtomId;
use crate::frontend::json_schema::build::{Draft, DraftNode};
use crate::frontend::json_schema::read::Strings;
use crate::ir::json::program::NodeId;

/// Maximum number of reported places.
const REPORTED: usize = 16;

/// The result of [`Solver::life`]: atoms with and without values.
pub(super) struct Life {
    /// For each node, the atoms of the node and of its alternatives that have a value. Empty for a
    /// node without values.
    live: Vec<Vec<AtomId>>,
    /// Declared members without values: the node of the object, and an atom of the member.
    dead: Vec<(NodeId, AtomId)>,
}

impl Solver<'_> {
    /// Finds the alternatives and members that have values, for all nodes of `draft`.
    pub(super) fn life(&mut self, draft: &Draft) -> Result<Life, GrammarError> {
        let mut life = Life { live: Vec::with_capacity(draft.nodes.len()), dead: Vec::new() };
        for (id, node) in (0..).zip(&draft.nodes) {
            let mut live = Vec::new();
            if !self.cost(id).is_none() {
                live.extend(node.atoms.iter().copied());
                for alternative in &node.alternatives {
                    self.ledger.spend(4 + alternative.atoms.len())?;
                    let mut has_value = alternative.scalars || node.alternatives.len() == 1;
                    for &at in &alternative.arrays {
                        has_value = has_value || !self.array_cost(&node.arrays[at])?.is_none();
                    }
                    has_value |=
                        alternative.objects.iter().any(|&at| !self.object_cost(&node.objects[at]).is_none());
                    if has_value {
                        live.extend(alternative.atoms.iter().copied());
                    }
                }
                live.sort_unstable();
                live.dedup();
                for (_, member, _) in node.objects.iter().flat_map(|object| &object.members) {
                    if self.cost(*member).is_none() {
                        life.dead.extend(draft.nodes[*member as usize].atoms.first().map(|&atom| (id, atom)));
                    }
                }
            }
            life.live.push(live);
        }
        Ok(life)
    }

    /// Returns a chain of nodes without values, from `root` to the innermost cause, which is last.
    pub(super) fn to_blame(&self, draft: &Draft, root: NodeId) -> Vec<NodeId> {
        let mut nodes = vec![root];
        let mut met = FxHashSet::from_iter([root]);
        while let Some(next) = self.part_without_values(&draft.nodes[nodes[nodes.len() - 1] as usize]) {
            if !met.insert(next) {
                break;
            }
            nodes.push(next);
        }
        nodes
    }

    /// Returns the node of a required member or item of `node` that has no value. Returns `None` if
    /// all required members and items have values.
    fn part_without_values(&self, node: &DraftNode) -> Option<NodeId> {
        let empty = |&node: &NodeId| self.cost(node).is_none();
        let members = node.objects.iter().flat_map(|object| &object.members);
        let member = members.filter(|(.., required)| *required).map(|&(_, node, _)| node).find(empty);
        let items = node.arrays.iter().flat_map(|array| {
            let required = array.prefix.iter().chain(std::iter::once(&array.rest));
            required.take(array.min.min(array.prefix.len() as u32 + 1) as usize)
        });
        let item = items.filter_map(|ways| Some(ways.first()?.node)).find(empty);
        member.or(item)
    }
}

/// Returns the places of members and branches that have no value in any reachable node. `tried` has
/// the branches, each with its node, and `reached` has the reachable nodes.
pub(super) fn dead(
    life: &Life,
    tried: &FxHashSet<(NodeId, AtomId)>,
    reached: &FxHashSet<NodeId>,
    strings: &Strings,
) -> Vec<String> {
    let mut live = FxHashSet::default();
    for &node in reached {
        live.extend(life.live[node as usize].iter().copied());
    }
    let candidates = life.dead.iter().chain(tried);
    let dead = candidates.filter(|(node, atom)| reached.contains(node) && !live.contains(atom));
    let mut places: Vec<&String> = dead.filter_map(|(_, atom)| strings.places.get(atom)).collect();
    places.sort_unstable();
    places.dedup();
    places.into_iter().take(REPORTED).cloned().collect()
}
