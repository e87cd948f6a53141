//! Rules and costs of objects.

use super::Solver;
use crate::error::{GrammarError, SchemaProblem};
use crate::frontend::json_schema::Problem;
use crate::frontend::json_schema::build::DraftObject;
use crate::ir::json::cost::Cost;
use crate::ir::json::needs::{Amount, Kind, Lengths, NameCounts, Needs, shortest_only};
use crate::ir::json::program::{Member, NodeChoice, NodeId, ObjectRule};
use crate::ir::json::shortest_spelling;
use crate::ir::json::texts::ENDLESS;
use crate::ir::json::trie::Trie;

/// Maximum number of undeclared members that an object may need. Each position in a name is
/// compared with all names seen.
const MANY: u32 = 1 << 10;

/// Maximum depth at which the cost is exact for an object that needs more than its required
/// members.
const DEEPEST: u32 = 1 << 16;

impl Solver<'_> {
    /// Returns the cost of `object`. No value is possible if it is [`Cost::NONE`].
    pub(super) fn object_cost(&self, object: &DraftObject) -> Cost {
        if !object.groups.is_empty() {
            return self.grouped_cost(object);
        }
        let required = || object.members.iter().filter(|(.., required)| *required);
        let count = required().count() as u32;
        if object.obligations != 0 || count < object.min {
            return envelope(|depth| self.cost_with_more(object, depth));
        }
        if object.max.is_some_and(|max| count > max) {
            return Cost::NONE;
        }
        if count == 0 {
            return Cost::new(2, b'{');
        }
        let spacing = &self.program.spacing;
        let mut cost = Cost::new(1, b'{').and(&spacing.bracket_cost(1));
        for (name, node, _) in required() {
            cost = cost.and(&self.member_cost(name_len(name), *node));
        }
        cost = cost.and(&self.comma().times(count - 1));
        cost.and(&spacing.bracket_cost(0)).and(&Cost::new(1, b'}'))
    }

    /// Returns the least cost at `depth` of an object that needs more than its required members,
    /// because of `minProperties` or an obligation. Returns `None` if no such object is possible.
    fn cost_with_more(&self, object: &DraftObject, depth: u32) -> Option<Amount> {
        let comma = self.comma();
        let member = |name: u32, node: NodeId| comma.and(&self.member_cost(name, node)).line_at(depth);
        let spacing = &self.program.spacing;
        let around = Cost::new(2, b'{').and(&spacing.bracket_cost(1)).and(&spacing.bracket_cost(0));
        let mut total = around.line_at(depth)?;
        let (mut members, mut optional) = (0, Vec::new());
        for (name, node, required) in &object.members {
            let amount = member(name_len(name), *node);
            if *required {
                members += 1;
                total = total.and(amount?);
            } else {
                optional.extend(amount);
            }
        }
        let most = object.min.saturating_sub(members).saturating_add(object.obligations.count_ones());
        let mut kinds = Vec::new();
        for (label, ways) in (0..).zip(others(object)) {
            let ways = ways.iter().filter_map(|way| Some((way.bits as u8, member(0, way.node)?)));
            let ways: Vec<_> = ways.collect();
            if !ways.is_empty() {
                kinds.push(Kind { names: self.names(object, label, most)?, ways });
            }
        }
        let (min, max, pending) = (object.min, object.max, object.obligations);
        let needs = Needs { depth, optional, kinds, pending, members, min, max };
        let (rest, more) = needs.least()?;
        if members + more == 0 {
            return Some(Amount::bytes(2));
        }
        Some(total.and(rest).without(comma.line_at(depth)?))
    }

    /// Returns the lengths of the `count` shortest undeclared names with `label`. Returns `None` if
    /// they are too many or too long to count, and records the `minProperties` of `object` as the
    /// cause.
    fn names(&self, object: &DraftObject, label: u32, count: u32) -> Option<Lengths> {
        let names = if count > MANY {
            None
        } else if let Some(labels) = object.labels {
            let texts = &self.program.languages[labels as usize];
            let dfa = texts.dfa();
            if count == 1 {
                return Some(shortest_only(texts.nearest(dfa.start(), label)));
            }
            let mut counts = self.name_counts.borrow_mut();
            let counts = counts.entry((labels, label)).or_insert_with(|| NameCounts::labelled(dfa, label));
            counts.shortest(count.into())
        } else {
            let declared = object.members.iter().map(|(name, ..)| name_len(name));
            NameCounts::others(declared).shortest(count.into())
        };
        if names.is_none() {
            self.uncounted.borrow_mut().get_or_insert_with(|| object.min_pointer.clone());
        }
        names
    }

    /// Returns an error if some object needed more names than are counted.
    pub(super) fn check_counted(&self) -> Result<(), GrammarError> {
        match &*self.uncounted.borrow() {
            Some(pointer) => {
                let reason = "too many undeclared members, or members with too long names, are required";
                let problem = SchemaProblem::UnsupportedForm { reason };
                Err(Problem::new(pointer, "minProperties", problem).into())
            }
            None => Ok(()),
        }
    }

    /// Returns [`ObjectRule::least_names`] and [`ObjectRule::names_below`] for undeclared members
    /// with the choices `others`. `labels` is the index of the language that labels the names, and
    /// `declared` is the number of declared members.
    fn name_counts(&self, others: &[Vec<NodeChoice>], labels: Option<u32>, declared: u32) -> (u32, Vec<u32>) {
        let Some(labels) = labels else { return (ENDLESS, Vec::new()) };
        let texts = &self.program.languages[labels as usize];
        let is_possible = |label: u32| others.get(label as usize).is_some_and(|ways| !ways.is_empty());
        let possible = (0..others.len() as u32).filter(|&label| is_possible(label));
        let count = |label: u32| texts.counts_below(|other| other == label)[texts.dfa().start() as usize];
        let least = possible.map(count).min().unwrap_or(ENDLESS);
        let below = texts.counts_below(is_possible);
        let has_end = below.iter().any(|&count| count != 0 && count != ENDLESS);
        (
            if least == ENDLESS { least } else { least.saturating_sub(declared) },
            if has_end { below } else { Vec::new() },
        )
    }

    /// Returns the cost of a comma between members, with the white space after it.
    fn comma(&self) -> Cost {
        Cost::new(1, b',').and(&self.program.spacing.after_comma_cost(1))
    }

    /// Returns the cost of a member with the value `node`. `name_len` is the length of the shortest
    /// spelling of its name.
    pub(super) fn member_cost(&self, name_len: u32, node: NodeId) -> Cost {
        let colon = Cost::new(name_len.saturating_add(3), b'"').and(&self.program.spacing.after_colon_cost());
        colon.and(&self.cost(node).indented())
    }

    /// Returns the rule of `object` for the program, without its unsatisfiable parts.
    pub(super) fn object(&mut self, object: &DraftObject) -> Result<ObjectRule, GrammarError> {
        let possible = |node: NodeId| Some(node).filter(|&node| !self.cost(node).is_none());
        let (mut others, labels) = if object.omits {
            (vec![Vec::new()], None)
        } else {
            (object.others.iter().map(|ways| self.possible(ways)).collect::<Vec<_>>(), object.labels)
        };
        if let Some(labels) = labels {
            // The names of each label are counted state by state.
            let states = self.program.languages[labels as usize].dfa().len();
            self.ledger.spend(states.saturating_mul(others.len()))?;
        }
        let mut few = self.few_names(&mut others, labels);
        few.retain(|(name, _)| !object.members.iter().any(|(declared, ..)| declared == name));
        let declared = object.members.iter().map(|(name, ..)| name).chain(few.iter().map(|(name, _)| name));
        let names = Trie::new(declared.map(String::as_str));
        let (least_names, names_below) = self.name_counts(&others, labels, object.members.len() as u32);
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
        members.extend(few.iter().map(|(name, node)| Member {
            node: Some(*node),
            required: false,
            name_len: name_len(name),
        }));
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
            least_names,
            names_below,
            next_required,
            groups,
            grouped,
        };
        rule.require();
        // An output has at least `min` members, and each position in the output is compared with
        // all members.
        let (count, min) = (rule.members.len(), rule.min as usize);
        self.ledger
            .spend(64usize.saturating_mul(min).saturating_mul(count + min))
            .map_err(|error| error.at(&object.min_pointer))?;
        Ok(rule)
    }
}

/// Returns the choices for undeclared members, by label. The list is empty if such members are
/// omitted.
fn others(object: &DraftObject) -> &[Vec<NodeChoice>] {
    if object.omits { &[] } else { &object.others }
}

/// Builds a cost from the function `least`, which returns the line with the minimum at a depth.
///
/// Two lines that are minimal at different depths intersect between these depths. At the
/// intersection, one of the two lines is minimal, or another line is lower. A lower line is
/// examined in the same way.
fn envelope(least: impl Fn(u32) -> Option<Amount>) -> Cost {
    let mut cost = Cost::NONE;
    let (Some(first), Some(last)) = (least(0), least(DEEPEST)) else { return cost };
    let mut open = vec![((0, first), (DEEPEST, last))];
    while let Some(((low, a), (high, b))) = open.pop() {
        cost.or(&Cost::of(a, b'{'));
        cost.or(&Cost::of(b, b'{'));
        if a.lines <= b.lines || high - low < 2 {
            continue;
        }
        let meet = b.bytes.saturating_sub(a.bytes) / (2 * (a.lines - b.lines));
        let meet = meet.clamp(low + 1, high - 1);
        match least(meet) {
            Some(between) if between.at(meet) < a.at(meet).min(b.at(meet)) => {
                open.extend([((low, a), (meet, between)), ((meet, between), (high, b))]);
            }
            _ => {}
        }
    }
    cost
}

/// Returns the length of the shortest spelling of `name` in bytes, without quotes.
pub(super) fn name_len(name: &str) -> u32 {
    name.chars().map(|c| shortest_spelling(c).len).sum()
}
