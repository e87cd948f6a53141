//! Objects with members that depend on each other.
//!
//! Such members form [`Group`](crate::ir::json::program::Group)s, which are independent of each
//! other. Each group has alternatives: combinations of a node for each of its members. The frame of
//! an object with groups has the set of alternatives that are already excluded. The set takes the
//! place of the number of members, which such an object does not count. When a member comes, the
//! alternatives in which this member has another node are excluded. In the declared order, skipping
//! a member excludes the alternatives that require this member. In any order, missing members are
//! checked when the object closes.
//!
//! Once no member of a group can come any more, it does not matter which of its alternatives are left.
//! The set then has the first one, so that threads in which members had different nodes meet again.

use std::sync::OnceLock;

use super::JsonMachine;
use super::closing::Object;
use crate::ir::json::program::{Group, ObjectRule};
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
        // In the declared order, the members before this one cannot come any more.
        let end = match self.program.order {
            Order::Declared => chosen.map_or(rule.members.len(), |(index, _)| index),
            Order::Any => 0,
        };
        if self.program.order == Order::Declared {
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
            let is_over = |&index: &u32| {
                let index = index as usize;
                index < end || chosen.is_some_and(|(chosen, _)| chosen == index) || self.has_seen(seen, index)
            };
            for (group, out) in rule.groups.iter().zip(&mut after) {
                if group.members.iter().all(is_over) {
                    *out = group.settled();
                }
            }
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
            total = total.saturating_add(self.after_group(group, word(out, at), &seen, depth)?);
        }
        Some(total)
    }

    /// Returns the least number of bytes of the members that one group still requires, including commas.
    /// `out` has the excluded alternatives of the group.
    fn after_group(&self, group: &Group, out: u64, seen: impl Fn(usize) -> bool, depth: u32) -> Option<u32> {
        let costs = group.left(out).filter_map(|(_, members)| {
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
        costs.min()
    }
}

/// Least numbers of bytes after the names of an object with groups, in one state of the object.
#[derive(Debug)]
pub(super) struct AfterNames {
    /// For each declared name, the least number of bytes from its closing quote to the end of the object.
    /// `None` if the name may not come. Computed on first use.
    declared: OnceLock<Box<[Option<u32>]>>,
    /// The least number of bytes from the end of an undeclared member's value to the end of the object.
    /// `None` if no undeclared member may come.
    pub(super) undeclared: Option<u32>,
}

impl AfterNames {
    pub(super) fn new(object: &Object<'_>) -> Self {
        let Object { machine, rule, seen, members, top, .. } = *object;
        let after = machine.out_after(rule, (seen, machine.interner.set(members)), None);
        let undeclared = after.and_then(|after| {
            machine.after_grouped(rule, |other| object.is_skipped(None, other), &after, top.depth)
        });
        Self { declared: OnceLock::new(), undeclared }
    }

    /// Returns the least number of bytes after each declared name of `object`, which must be that of
    /// [`new`](Self::new).
    pub(super) fn declared(&self, object: &Object<'_>) -> &[Option<u32>] {
        self.declared.get_or_init(|| {
            let Object { machine, rule, seen, members, .. } = *object;
            let mut shares = Shares::new(object, machine.interner.set(members));
            let after = |index: usize| {
                if machine.has_seen(seen, index) {
                    return None;
                }
                let after = shares.bytes_after_name(index);
                if machine.program.order == Order::Declared {
                    shares.skip(index);
                }
                after
            };
            (0..rule.members.len()).map(after).collect()
        })
    }
}

/// The bytes that each group and each required member of an object still needs. The next member changes the
/// share of its own group only.
struct Shares<'a> {
    object: &'a Object<'a>,
    out: Out,
    /// For each group, the result of [`JsonMachine::after_group`].
    groups: Vec<Option<u32>>,
    /// Number of groups and of required members without a possible value.
    impossible: usize,
    /// Sum of all other shares, and the bytes of the end of the object.
    total: u64,
}

impl<'a> Shares<'a> {
    fn new(object: &'a Object<'a>, out: &[u64]) -> Self {
        let Object { machine, rule, seen, top, .. } = *object;
        let depth = top.depth;
        let mut out = out.to_vec();
        out.resize(rule.groups.len(), 0);
        let has_seen = |index: usize| machine.has_seen(seen, index);
        let groups = rule.groups.iter().zip(&out);
        let groups: Vec<_> =
            groups.map(|(group, &out)| machine.after_group(group, out, has_seen, depth)).collect();
        let members = rule.members.iter().enumerate();
        let required = members.filter(|&(index, member)| member.required && !has_seen(index));
        let required = required.map(|(_, member)| machine.member(member, depth));
        let all = || groups.iter().copied().chain(required.clone());
        let impossible = all().filter(Option::is_none).count();
        let end = machine.program.spacing.bracket.least_at(depth - 1) + 1;
        let total = u64::from(end) + all().flatten().map(u64::from).sum::<u64>();
        Self { object, out, groups, impossible, total }
    }

    /// Returns the least number of bytes from the closing quote of the declared name at `index` to the end of
    /// the object. `None` if the name may not come.
    fn bytes_after_name(&self, index: usize) -> Option<u32> {
        let Object { machine, rule, seen, top, .. } = *self.object;
        let member = &rule.members[index];
        let own = member.node?;
        if machine.program.order == Order::Declared && index > rule.next_required[seen as usize] as usize {
            return None;
        }
        let Some(&Some((at, slot))) = rule.grouped.get(index) else {
            let value = machine.after_name(own, top.depth)?;
            let share = if member.required { machine.member(member, top.depth) } else { Some(0) };
            return Some(value.saturating_add(self.total_with(share, 0)?));
        };
        let (at, slot) = (at as usize, slot as usize);
        let group = &rule.groups[at];
        let ways = nodes_of(rule, &self.out, index).into_iter().filter_map(|node| {
            let value = machine.after_name(node, top.depth)?;
            let out = self.out[at] | group.without(|members| members[slot].node != Some(node));
            let is_skipped = |other| self.object.is_skipped(Some(index), other);
            let share = machine.after_group(group, out, is_skipped, top.depth)?;
            Some(value.saturating_add(self.total_with(self.groups[at], share)?))
        });
        ways.min()
    }

    /// Excludes the alternatives that require the member at `index`, because a later member comes next.
    fn skip(&mut self, index: usize) {
        let Object { machine, rule, top, .. } = *self.object;
        let Some(&Some((at, slot))) = rule.grouped.get(index) else { return };
        let (at, slot) = (at as usize, slot as usize);
        let group = &rule.groups[at];
        self.out[at] |= group.without(|members| members[slot].required);
        let after = machine.after_group(group, self.out[at], |other| other <= index, top.depth);
        let before = std::mem::replace(&mut self.groups[at], after);
        self.impossible = self.impossible + usize::from(after.is_none()) - usize::from(before.is_none());
        self.total = self.total + u64::from(after.unwrap_or(0)) - u64::from(before.unwrap_or(0));
    }

    /// Returns the bytes to the end of the object after one share, `old`, is replaced by `new`. `None` if
    /// another share is impossible.
    fn total_with(&self, old: Option<u32>, new: u32) -> Option<u32> {
        if self.impossible > usize::from(old.is_none()) {
            return None;
        }
        let total = self.total - u64::from(old.unwrap_or(0)) + u64::from(new);
        Some(u32::try_from(total).unwrap_or(u32::MAX))
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::Frame;
    use super::*;
    use crate::frontend::json_schema::{Remotes, compile};
    use crate::machine::{Config, Machine};
    use crate::{Layout, Limits, SchemaOptions};

    impl AfterNames {
        /// Computes what the object needs for each name anew.
        fn one_by_one(object: &Object<'_>) -> Self {
            let Object { machine, rule, seen, members, top, .. } = *object;
            let out = machine.interner.set(members);
            let after = |index: Option<usize>, out: &[u64]| {
                machine.after_grouped(rule, |other| object.is_skipped(index, other), out, top.depth)
            };
            let after_name = |index: usize| {
                let may_follow = machine.may_follow(rule, (seen, members), index);
                let ways = nodes_of(rule, out, index).into_iter().filter(|_| may_follow).filter_map(|node| {
                    let value = machine.after_name(node, top.depth)?;
                    let out = machine.out_after(rule, (seen, out), Some((index, node)))?;
                    Some(value.saturating_add(after(Some(index), &out)?))
                });
                ways.min()
            };
            let undeclared = machine.out_after(rule, (seen, out), None);
            let declared: Box<[_]> = (0..rule.members.len()).map(after_name).collect();
            Self { declared: declared.into(), undeclared: undeclared.and_then(|out| after(None, &out)) }
        }
    }

    /// Returns a schema whose objects have several groups, and members outside of groups.
    fn schema(next: &mut impl FnMut(usize) -> usize) -> Value {
        let name = |group: usize, member: usize| format!("{}{member}", ["a", "b", "c"][group]);
        let types = ["integer", "string", "null", "array"];
        let mut groups = Vec::new();
        let mut properties = serde_json::Map::new();
        for group in 0..3 {
            for member in 0..3 {
                properties.insert(name(group, member), json!({}));
            }
            properties.insert(format!("free{group}"), json!({ "type": "boolean" }));
            let mut branch = || {
                let required: Vec<_> =
                    (0..3).filter(|_| next(2) == 0).map(|member| name(group, member)).collect();
                let member = name(group, next(3));
                json!({ "required": required, "properties": { member: { "type": types[next(4)] } } })
            };
            let branches = [branch(), branch(), branch()];
            groups.push(json!({ ["anyOf", "oneOf"][group % 2]: branches }));
        }
        json!({ "properties": properties, "required": ["free1"], "allOf": groups, "type": "object" })
    }

    #[test]
    fn members_of_one_group_change_no_other() {
        let mut seed = 5_u64;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let mut compared = [0; 2];
        for round in 0..60 {
            let order = [Order::Declared, Order::Any][round % 2];
            let options = SchemaOptions { order, ..SchemaOptions::default() };
            let Ok(compiled) = compile(&schema(&mut next), &Remotes::new(), options, &Limits::default())
            else {
                continue;
            };
            let mut machine = compiled.program.machine();
            for _ in 0..40 {
                let mut config = machine.start();
                for _ in 0..200 {
                    let bytes: Vec<u8> = machine.plausible(config).iter().collect();
                    // Often the shortest way on, so that many members come.
                    let byte = match next(3) {
                        0 if !bytes.is_empty() => bytes[next(bytes.len())],
                        _ => machine.closing_byte(config),
                    };
                    config = machine.step(config, byte);
                    if config == Config::DEAD || machine.accepting(config) {
                        break;
                    }
                }
            }
            for top in machine.interner.stacks() {
                let Some(Frame::Object { rule: id, seen, members, pending, names }) = top.frame else {
                    continue;
                };
                let rule = &machine.program.objects[id as usize];
                if rule.groups.is_empty() {
                    continue;
                }
                let object = Object { machine: &machine, id, rule, seen, members, pending, names, top };
                let (all, slow) = (AfterNames::new(&object), AfterNames::one_by_one(&object));
                assert_eq!(all.declared(&object), slow.declared(&object), "{order:?}, {seen} seen");
                assert_eq!(all.undeclared, slow.undeclared);
                compared[round % 2] += 1;
            }
        }
        assert!(compared.into_iter().min() > Some(200), "{compared:?}");
    }

    #[test]
    fn threads_meet_after_the_last_member_of_a_group() {
        let types = ["string", "null", "boolean", "array", "object"];
        let group = |at: usize| {
            let branch =
                |kind: &&str| json!({ "properties": { format!("p{at}"): { "not": { "type": kind } } } });
            json!({ "anyOf": types.iter().map(branch).collect::<Vec<_>>() })
        };
        let schema = json!({ "type": "object", "allOf": (0..12).map(group).collect::<Vec<_>>() });
        for order in [Order::Declared, Order::Any] {
            let options = SchemaOptions { order, layout: Layout::Compact, ..SchemaOptions::default() };
            let compiled = compile(&schema, &Remotes::new(), options, &Limits::default()).expect("a schema");
            let mut machine = compiled.program.machine();
            assert!(!machine.program.objects[0].groups.is_empty());
            let members: Vec<String> = (0..12).map(|at| format!("\"p{at}\":1")).collect();
            let mut config = machine.start();
            for byte in format!("{{{}}}", members.join(",")).bytes() {
                config = machine.step(config, byte);
            }
            assert!(machine.accepting(config), "{order:?}");
            // Each member may have five nodes, so there would be 5¹² states of the object.
            let stacks = machine.interner.stacks().count();
            assert!(stacks < 500, "{order:?}: {stacks}");
        }
    }
}
