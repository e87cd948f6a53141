//! Objects with members that depend on each other.
//!
//! Such members form [`Group`](crate::ir::json::program::Group)s, which are independent of each
//! other. Each group has alternatives: combinations of a node for each of its members. The frame of
//! an object with groups has the set of alternatives that are already excluded. The set takes the
//! place of the number of members, which such an object does not count. When a member comes, the
//! alternatives in which this member has another node are excluded. In the declared order, skipping
//! a member excludes the alternatives that require this member. In any order, missing members are
//! checked when the object closes.

use super::JsonMachine;
use crate::ir::json::program::ObjectRule;
use crate::options::Order;

/// For each group, its excluded alternatives as bits. Groups at the end may be missing if they
/// exclude no alternatives.
pub(super) type Out = Vec<u64>;

impl JsonMachine {
    /// Returns the excluded alternatives after one more member, or `None` if some group has no
    /// alternatives left.
    ///
    /// `seen` and `out` are the members seen and the excluded alternatives before the member.
    /// `chosen` is the index and the node of the member if it is declared. If `chosen` is `None`,
    /// the member is undeclared, and no more declared members follow.
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

    /// Returns the least number of bytes from the end of a member to the end of an object with
    /// groups. `seen` reports the members that cannot come any more, and `out` has the excluded
    /// alternatives.
    ///
    /// The members stand at `depth`.
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

    /// Returns the least number of bytes of the members that the groups still require, including
    /// commas. `None` if a required member has no value.
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
                    // `seen` also reports skipped members. The alternatives that require those are
                    // excluded already.
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

/// Returns the nodes that the declared member at `index` has in the alternatives that are not
/// excluded.
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

/// Reports whether each group has an alternative, not excluded by `out`, whose required members
/// have all been seen.
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
