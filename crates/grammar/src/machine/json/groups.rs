//! Members that depend on each other, in groups that do not ([`Group`](crate::ir::json::program::Group)).
//!
//! The frame of an object with groups has the set of the alternatives that are out, in place of a number of members: such
//! an object never counts them. A member takes out the alternatives in which it is something else. In the declared order, a
//! member that is passed over takes out those that require it; in any order these are looked at where the object closes.

use super::JsonMachine;
use crate::ir::json::program::ObjectRule;
use crate::options::Order;

/// For each group, the alternatives that are out, as bits. Groups at the end may be missing.
pub(super) type Out = Vec<u64>;

impl JsonMachine {
    /// The alternatives that are out after a member of some node, or `None` if no object has it here.
    ///
    /// Without an index, all that comes is undeclared.
    pub(super) fn out_after(
        &self,
        rule: &ObjectRule,
        (seen, out): (u32, &[u64]),
        chosen: Option<(usize, u32)>,
    ) -> Option<Out> {
        let mut after = out.to_vec();
        after.resize(rule.groups.len(), 0);
        if self.program.order == Order::Declared {
            let end = chosen.map_or(rule.members.len(), |(index, _)| index);
            for passed in seen as usize..end {
                if let Some(&Some((group, slot))) = rule.grouped.get(passed) {
                    let required =
                        rule.groups[group as usize].without(|members| members[slot as usize].required);
                    after[group as usize] |= required;
                }
            }
        }
        if let Some((index, node)) = chosen
            && let Some(&Some((group, slot))) = rule.grouped.get(index)
        {
            let other =
                |members: &[crate::ir::json::program::Member]| members[slot as usize].node != Some(node);
            after[group as usize] |= rule.groups[group as usize].without(other);
        }
        let alive = rule.groups.iter().zip(&after).all(|(group, &out)| group.left(out).next().is_some());
        alive.then(|| {
            while after.last() == Some(&0) {
                after.pop();
            }
            after
        })
    }

    /// From the end of a member to the end of an object with groups, whose members stand at `depth`.
    pub(super) fn after_grouped(
        &self,
        rule: &ObjectRule,
        seen: impl Fn(usize) -> bool,
        out: &[u64],
        depth: u32,
    ) -> Option<u32> {
        let mut total = self.program.spacing.bracket.least_at(depth - 1) + 1;
        for (_, member) in rule.members.iter().enumerate().filter(|&(index, _)| !seen(index)) {
            if member.required {
                total = total.saturating_add(self.member(member, depth)?);
            }
        }
        Some(total.saturating_add(self.after_groups(rule, out, seen, depth)?))
    }

    /// The least that the members cost that groups still require, each with its comma.
    fn after_groups(
        &self,
        rule: &ObjectRule,
        out: &[u64],
        seen: impl Fn(usize) -> bool,
        depth: u32,
    ) -> Option<u32> {
        let mut total: u32 = 0;
        for (at, group) in (0..).zip(&rule.groups) {
            let costs = group.left(word(out, at)).filter_map(|(_, members)| {
                let mut cost: u32 = 0;
                for (&index, member) in group.members.iter().zip(members) {
                    // What is passed over does not come any more: then the alternative is out.
                    if member.required && !seen(index as usize) {
                        cost = cost.saturating_add(self.member(member, depth)?);
                    }
                }
                Some(cost)
            });
            total = total.saturating_add(costs.min()?);
        }
        Some(total)
    }
}

/// The nodes that a declared member may be of.
pub(super) fn nodes_of(rule: &ObjectRule, out: &[u64], index: usize) -> Vec<u32> {
    let Some(&Some((group, slot))) = rule.grouped.get(index) else {
        return rule.members[index].node.into_iter().collect();
    };
    let mut nodes: Vec<u32> = rule.groups[group as usize]
        .left(word(out, group))
        .filter_map(|(_, members)| members[slot as usize].node)
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Whether each group has an alternative of which no required member is missing.
pub(super) fn groups_hold(rule: &ObjectRule, out: &[u64], seen: impl Fn(usize) -> bool) -> bool {
    (0..).zip(&rule.groups).all(|(at, group)| {
        group.left(word(out, at)).any(|(_, members)| {
            group.members.iter().zip(members).all(|(&index, member)| !member.required || seen(index as usize))
        })
    })
}

fn word(out: &[u64], group: u32) -> u64 {
    out.get(group as usize).copied().unwrap_or(0)
}
