//! Rules and costs of objects with groups, which are members that depend on each other.

use super::Solver;
use super::objects::name_len;
use crate::frontend::json_schema::build::{DraftGroup, DraftObject};
use crate::ir::json::cost::Cost;
use crate::ir::json::program::{Group, Member, NodeId};

impl Solver<'_> {
    /// Returns the cost of an object with groups.
    pub(super) fn grouped_cost(&self, object: &DraftObject) -> Cost {
        let spacing = &self.program.spacing;
        let comma = Cost::new(1, b',').and(&spacing.after_comma_cost(1));
        // `empty`: the object can still be without members. `begun`: the cost of its members so
        // far, if there is at least one.
        let (mut empty, mut begun) = (true, Cost::NONE);
        let mut one_of = |ways: Vec<Vec<(&str, NodeId)>>| {
            let mut next = Cost::NONE;
            for way in &ways {
                let (mut first, mut later) = (Cost::NONE, begun.clone());
                for (at, &(name, node)) in way.iter().enumerate() {
                    let member = self.member_cost(name_len(name), node);
                    first = if at == 0 { member.clone() } else { first.and(&comma).and(&member) };
                    later = later.and(&comma).and(&member);
                }
                next.or(&later);
                if empty {
                    next.or(&first);
                }
            }
            begun = next;
            empty &= ways.iter().any(Vec::is_empty);
        };
        for (name, node, _) in object.members.iter().filter(|(.., required)| *required) {
            one_of(vec![vec![(name.as_str(), *node)]]);
        }
        for group in &object.groups {
            let names = group.members.iter().map(|&at| object.members[at as usize].0.as_str());
            let names: Vec<&str> = names.collect();
            let required = |alternative: &Vec<(NodeId, bool)>| {
                let members = names.iter().zip(alternative).filter(|(_, (_, required))| *required);
                members.map(|(name, &(node, _))| (*name, node)).collect::<Vec<_>>()
            };
            one_of(group.alternatives.iter().map(required).collect());
        }
        let mut cost = Cost::NONE;
        if empty {
            cost.or(&Cost::new(2, b'{'));
        }
        let start = Cost::new(1, b'{').and(&spacing.bracket_cost(1));
        let end = spacing.bracket_cost(0).and(&Cost::new(1, b'}'));
        cost.or(&start.and(&begun).and(&end));
        cost
    }

    /// Returns the groups of `object` without their unsatisfiable alternatives.
    pub(super) fn groups(&self, object: &DraftObject) -> Vec<Group> {
        let group = |group: &DraftGroup| {
            let member = |(&index, &(node, required)): (&u32, &(NodeId, bool))| {
                let possible = !self.cost(node).is_none();
                let name_len = name_len(&object.members[index as usize].0);
                Member { node: possible.then_some(node), required, name_len }
            };
            let members = |alternative: &Vec<_>| group.members.iter().zip(alternative).map(member).collect();
            let mut alternatives: Vec<Vec<Member>> = group.alternatives.iter().map(members).collect();
            alternatives
                .retain(|members| !members.iter().any(|member| member.required && member.node.is_none()));
            Group { members: group.members.clone(), alternatives }
        };
        object.groups.iter().map(group).collect()
    }
}
