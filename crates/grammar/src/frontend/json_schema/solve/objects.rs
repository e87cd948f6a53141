//! What is left of objects, and what they cost.

use super::Solver;
use crate::error::{GrammarError, SchemaProblem};
use crate::frontend::json_schema::Problem;
use crate::frontend::json_schema::build::DraftObject;
use crate::machine::json::cost::Cost;
use crate::machine::json::program::{Member, NodeId, ObjectRule, Way};
use crate::machine::json::shortest_spelling;
use crate::machine::json::trie::Trie;

impl Solver<'_> {
    pub(super) fn object_cost(&self, object: &DraftObject) -> Cost {
        if !object.groups.is_empty() {
            return self.grouped_cost(object);
        }
        let required: Vec<_> = object.members.iter().filter(|(.., required)| *required).collect();
        let covers = if object.obligations == 0 {
            vec![Cost::new(0, b'"')]
        } else {
            let mut covers = self.covers(object);
            covers.insert(0, Cost::NONE);
            covers
        };
        let mut cost = Cost::NONE;
        for (met, cover) in covers.iter().enumerate().filter(|(_, cover)| !cover.is_none()) {
            let missing = (object.min as usize).saturating_sub(required.len() + met);
            let count = required.len() + met + missing;
            if object.max.is_some_and(|max| count > max as usize) {
                continue;
            }
            if count == 0 {
                return Cost::new(2, b'{');
            }
            let spacing = &self.program.spacing;
            let mut one = Cost::new(1, b'{').and(&spacing.bracket_cost(1));
            for (name, node, _) in &required {
                one = one.and(&self.member_cost(name_len(name), *node));
            }
            let comma = Cost::new(1, b',').and(&spacing.after_comma_cost(1));
            one = one.and(&comma.times(count as u32 - 1)).and(cover);
            one = one.and(&self.cheapest_members(object, missing));
            cost.or(&one.and(&spacing.bracket_cost(0)).and(&Cost::new(1, b'}')));
        }
        cost
    }

    /// The least that one, two, … undeclared members cost that meet all obligations together.
    pub(super) fn covers(&self, object: &DraftObject) -> Vec<Cost> {
        let all = usize::from(object.obligations);
        let mut best = vec![Cost::NONE; all + 1];
        best[0] = Cost::new(0, b'"');
        let mut covers = Vec::new();
        for _ in 0..object.obligations.count_ones() {
            let mut next = vec![Cost::NONE; all + 1];
            for (met, before) in best.iter().enumerate().filter(|(_, before)| !before.is_none()) {
                for meeting in 1..=object.obligations {
                    let other = self.cheapest_other(object, meeting);
                    next[met | usize::from(meeting)].or(&before.and(&other));
                }
            }
            covers.push(next[all].clone());
            best = next;
        }
        covers
    }

    /// The cheapest undeclared member that meets some obligations.
    pub(super) fn cheapest_other(&self, object: &DraftObject, meeting: u8) -> Cost {
        let mut cost = Cost::NONE;
        for (label, ways) in others(object).iter().enumerate() {
            let ways = ways.iter().filter(|way| way.unmet(meeting) == 0 && !self.cost(way.node).is_none());
            let mut ways = ways.peekable();
            if ways.peek().is_none() {
                continue;
            }
            let Some(name) = self.other_name_len(object, label as u32) else { continue };
            for way in ways {
                cost.or(&self.member_cost(name, way.node));
            }
        }
        cost
    }

    pub(super) fn other_name_len(&self, object: &DraftObject, label: u32) -> Option<u32> {
        let end = match object.labels {
            Some(labels) => {
                let texts = &self.program.languages[labels as usize];
                texts.nearest(texts.dfa().start(), label)?
            }
            None => names(object).node(0).outside(),
        };
        Some(end.len - 1)
    }

    pub(super) fn is_open(&self, object: &DraftObject) -> bool {
        others(object).iter().flatten().any(|way| !self.cost(way.node).is_none())
    }

    /// The least cost of some members that are not required.
    pub(super) fn cheapest_members(&self, object: &DraftObject, missing: usize) -> Cost {
        if missing == 0 {
            return Cost::new(0, b'"');
        }
        let mut optional: Vec<_> = object.members.iter().filter(|(.., required)| !required).collect();
        optional.retain(|(_, node, _)| !self.cost(*node).is_none());
        let open = self.is_open(object);
        let most = optional.len() + usize::from(open);
        if missing > most && !open {
            return Cost::NONE;
        }
        // More undeclared members than one are refused later, if the object is still in the program then.
        let missing = missing.min(most);
        let mut best = vec![Cost::NONE; missing + 1];
        best[0] = Cost::new(0, b'"');
        let other = self.cheapest_other(object, 0);
        let costs = optional.iter().map(|(name, node, _)| self.member_cost(name_len(name), *node));
        for cost in costs.chain(open.then_some(other)) {
            for chosen in (0..missing).rev() {
                let with = best[chosen].and(&cost);
                best[chosen + 1].or(&with);
            }
        }
        best.swap_remove(missing)
    }

    pub(super) fn member_cost(&self, name_len: u32, node: NodeId) -> Cost {
        let colon = Cost::new(name_len.saturating_add(3), b'"').and(&self.program.spacing.after_colon_cost());
        colon.and(&self.cost(node).indented())
    }

    pub(super) fn object(&mut self, object: &DraftObject) -> Result<ObjectRule, GrammarError> {
        let possible = |node: NodeId| Some(node).filter(|&node| !self.cost(node).is_none());
        let (others, labels) = if object.omits {
            (vec![Vec::new()], None)
        } else {
            (object.others.iter().map(|ways| self.possible(ways)).collect::<Vec<_>>(), object.labels)
        };
        if object.min > 1 && others.iter().any(|ways| !ways.is_empty()) {
            let reason = "more than one is supported only where all names are declared";
            let problem = SchemaProblem::UnsupportedForm { reason };
            return Err(Problem::new(&object.min_pointer, "minProperties", problem).into());
        }
        let names = names(object);
        let groups = self.groups(object);
        let mut members: Vec<_> = object
            .members
            .iter()
            .map(|(name, node, required)| Member {
                node: possible(*node),
                required: *required,
                name_len: name_len(name),
            })
            .collect();
        let mut grouped = if groups.is_empty() { Vec::new() } else { vec![None; members.len()] };
        for (at, group) in (0..).zip(&groups) {
            for (slot, &index) in (0..).zip(&group.members) {
                grouped[index as usize] = Some((at, slot));
                let mut nodes = group.alternatives.iter().filter_map(|members| members[slot as usize].node);
                let member = &mut members[index as usize];
                (member.node, member.required) = (nodes.next(), false);
            }
        }
        self.ledger.note(8 * (names.len() + members.len()));
        self.ledger.hold(64 * names.len() + size_of::<Member>() * members.len() + 256)?;
        let DraftObject { obligations, min, max, .. } = *object;
        let next_required = Vec::new();
        let mut rule = ObjectRule {
            members,
            others,
            labels,
            obligations,
            min,
            max,
            names,
            next_required,
            groups,
            grouped,
        };
        rule.require();
        Ok(rule)
    }
}

/// What undeclared members are, by label.
fn others(object: &DraftObject) -> &[Vec<Way>] {
    if object.omits { &[] } else { &object.others }
}

fn names(object: &DraftObject) -> Trie {
    Trie::new(object.members.iter().map(|(name, ..)| name.as_str()))
}

pub(super) fn name_len(name: &str) -> u32 {
    name.chars().map(|c| shortest_spelling(c).len).sum()
}
