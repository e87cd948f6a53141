//! Rules for arrays and objects.

use rustc_hash::FxHashMap;

use super::notation::{Around, Level};
use super::{Writer, alternatives, optional, sequence};
use crate::error::GrammarError;
use crate::ir::expr::{Expr, RuleId};
use crate::ir::json::program::{ArrayRule, Counts, NodeChoice, ObjectRule};

/// Maximum number of combinations of alternatives with which an object with groups is written.
const COMBINATIONS: usize = 256;

/// Maximum depth of nested optional items in one expression.
const DEPTH: u32 = 32;

/// State of an object while its members are written: the position in the declared order, the number
/// of members, the pending obligations, and whether a member has been written.
type ObjectState = (u32, u32, u8, bool);

/// The rules for the states of one array or object. `todo` has the states whose rule has no
/// expression yet.
struct States<S> {
    rules: FxHashMap<S, RuleId>,
    todo: Vec<(S, RuleId)>,
    name: RuleId,
}

impl<S: Clone + Eq + std::hash::Hash> States<S> {
    fn new(name: RuleId) -> Self {
        Self { rules: FxHashMap::default(), todo: Vec::new(), name }
    }

    fn rule(&mut self, state: S, writer: &mut Writer<'_>) -> Expr {
        if let Some(&rule) = self.rules.get(&state) {
            return Expr::Rule(rule);
        }
        let rule = writer.rule(&writer.name_in(self.name, "rest"));
        self.rules.insert(state.clone(), rule);
        self.todo.push((state, rule));
        Expr::Rule(rule)
    }
}

/// A kind of values with parts.
#[derive(Clone, Copy)]
enum Container {
    Array,
    Object,
}

impl Container {
    const fn around(self, level: &Level) -> &Around {
        match self {
            Self::Array => &level.array,
            Self::Object => &level.object,
        }
    }
}

fn text(text: &str) -> Expr {
    Expr::Literal(text.into())
}

impl Writer<'_> {
    /// Returns an expression for the text between two items, or between two members.
    fn comma(&mut self, container: Container) -> Result<Expr, GrammarError> {
        if let Some(level) = self.current() {
            return Ok(container.around(level).separator.clone());
        }
        let gap = self.gap(self.program.spacing.after_comma)?;
        Ok(sequence([text(","), gap]))
    }

    /// Returns an expression for `inside` between brackets. `inside` is optional if `empty` is true.
    fn bracketed(&mut self, container: Container, inside: Expr, empty: bool) -> Result<Expr, GrammarError> {
        if let Some(level) = self.current() {
            let Around { open, close, empty: nothing, .. } = container.around(level);
            return Ok(match inside {
                Expr::Alternatives(ways) if ways.is_empty() && !self.is_filled => nothing.clone(),
                inside => {
                    let whole = sequence([open.clone(), inside, close.clone()]);
                    let empty = empty && !self.is_filled;
                    if empty { alternatives(vec![nothing.clone(), whole]) } else { whole }
                }
            });
        }
        let (open, close) = match container {
            Container::Array => ("[", "]"),
            Container::Object => ("{", "}"),
        };
        let gap = self.gap(self.program.spacing.bracket)?;
        let inside = match inside {
            // Only the empty array or object is possible.
            Expr::Alternatives(ways) if ways.is_empty() => Expr::empty(),
            inside if empty => optional(sequence([inside, gap.clone()])),
            inside => sequence([inside, gap.clone()]),
        };
        Ok(sequence([text(open), gap, inside, text(close)]))
    }

    /// Returns an expression for one of the choices `ways` of an item or a member. New rules get
    /// the name `name`.
    fn ways(&mut self, ways: &[NodeChoice], name: &str) -> Result<Expr, GrammarError> {
        self.spend(ways.len())?;
        let rules = ways.iter().map(|way| Expr::Rule(self.item_or_value(way.node, name)));
        Ok(alternatives(rules.collect()))
    }

    pub(super) fn array(&mut self, array: u32, name: RuleId) -> Result<Expr, GrammarError> {
        let array = &self.program.arrays[array as usize];
        if array.repeats.is_some() {
            return Err(GrammarError::not_gbnf("two items of an array must be equal"));
        }
        if array.unique {
            return Err(GrammarError::not_gbnf("items of an array must differ"));
        }
        let empty = array.closable(0, &[]);
        let inside = if array.max == Some(0) {
            alternatives(Vec::new())
        } else if array.counters.is_empty() {
            let first = self.ways(array.item(0), &self.name_in(name, "item"))?;
            let rest = self.items(array, 1, name, 0)?;
            sequence([first, rest])
        } else {
            self.counted(array, name)?
        };
        self.bracketed(Container::Array, inside, empty)
    }

    /// Returns an expression for the items from index `from` to the end of the array, each after a
    /// comma.
    fn items(
        &mut self,
        array: &ArrayRule,
        from: u32,
        name: RuleId,
        depth: u32,
    ) -> Result<Expr, GrammarError> {
        let prefix = array.prefix.len() as u32;
        let end = array.max.unwrap_or(u32::MAX).min(prefix);
        let item_name = self.name_in(name, "item");
        let mut parts = Vec::new();
        for index in from..end {
            let item = sequence([self.comma(Container::Array)?, self.ways(array.item(index), &item_name)?]);
            if index >= array.min {
                let rest = if depth == DEPTH {
                    let rule = self.rule(&self.name_in(name, "rest"));
                    let rest = self.items(array, index + 1, name, 0)?;
                    self.define(rule, rest)?;
                    Expr::Rule(rule)
                } else {
                    self.items(array, index + 1, name, depth + 1)?
                };
                parts.push(optional(sequence([item, rest])));
                return Ok(sequence(parts));
            }
            parts.push(item);
        }
        let before = from.max(prefix);
        if !array.rest.is_empty() && array.max.is_none_or(|max| max > before) {
            let item = sequence([self.comma(Container::Array)?, self.ways(&array.rest, &item_name)?]);
            let min = array.min.saturating_sub(before);
            let max = array.max.map(|max| max - before);
            parts.push(Expr::Repeat { expr: Box::new(item), min, max });
        }
        Ok(sequence(parts))
    }

    /// Returns an expression for the items of an array with counters. Each state of the counters
    /// has a rule.
    fn counted(&mut self, array: &ArrayRule, name: RuleId) -> Result<Expr, GrammarError> {
        let mut states = States::new(name);
        let start = self.counted_from(array, (0, &[]), &mut states)?;
        while let Some((state, rule)) = states.todo.pop() {
            let more = self.counted_from(array, (state.0, &state.1), &mut states)?;
            let more = sequence([self.comma(Container::Array)?, more]);
            let rest = if array.closable(state.0, &state.1) { optional(more) } else { more };
            self.define(rule, rest)?;
        }
        Ok(start)
    }

    /// Returns an expression for the next item of an array with counters, and all items after it.
    fn counted_from(
        &mut self,
        array: &ArrayRule,
        (items, counts): (u32, &[u16]),
        states: &mut States<(u32, Counts)>,
    ) -> Result<Expr, GrammarError> {
        let mut ways = Vec::new();
        let item_name = self.name_in(states.name, "item");
        for &way in array.item(items).iter().filter(|_| array.max.is_none_or(|max| items < max)) {
            let Some(counts) = array.raise(counts, way.bits) else { continue };
            let next = (array.count(items), counts);
            if array.to_end(next.0, &next.1, 0).is_some() {
                let rest = states.rule(next, self);
                ways.push(sequence([self.ways(&[way], &item_name)?, rest]));
            }
        }
        Ok(alternatives(ways))
    }

    pub(super) fn object(&mut self, object: u32, name: RuleId) -> Result<Expr, GrammarError> {
        let object = &self.program.objects[object as usize];
        if object.groups.is_empty() {
            return self.object_of(object, name);
        }
        let mut ways = Vec::new();
        for object in without_groups(object)? {
            let rule = self.rule(&self.name_in(name, "way"));
            let way = self.object_of(&object, rule)?;
            self.define(rule, way)?;
            ways.push(Expr::Rule(rule));
        }
        Ok(alternatives(ways))
    }

    fn object_of(&mut self, object: &ObjectRule, name: RuleId) -> Result<Expr, GrammarError> {
        self.repeats |= object.tracks();
        let start = (0, 0, object.obligations, false);
        let inside = if object.counts() || object.obligations > 0 {
            let mut states = States::new(name);
            let inside = self.members(object, start, &mut states)?;
            while let Some((state, rule)) = states.todo.pop() {
                let rest = self.members(object, state, &mut states)?;
                self.define(rule, rest)?;
            }
            inside
        } else {
            self.plain_members(object, name)?
        };
        self.bracketed(Container::Object, inside, may_end(object, start))
    }

    /// Returns an expression for the members of an object without obligations and without bounds on
    /// the number of members.
    ///
    /// Each member that may come first has an alternative, in which the members after it follow.
    fn plain_members(&mut self, object: &ObjectRule, name: RuleId) -> Result<Expr, GrammarError> {
        let count = object.members.len() as u32;
        let required = object.next_required[0];
        let mut ways = Vec::new();
        // Parts that may follow a member, in reverse order.
        let mut rest = Vec::new();
        if let Some(other) = self.other(object, name)? {
            let more = sequence([self.comma(Container::Object)?, other.clone()]);
            rest.push(Expr::Repeat { expr: Box::new(more), min: 0, max: None });
            if required == count {
                ways.push(sequence([other].into_iter().chain(rest.clone())));
            }
        }
        for index in (0..count).rev() {
            let Some(member) = self.declared(object, index, name)? else { continue };
            if index <= required {
                ways.push(sequence([member.clone()].into_iter().chain(rest.iter().rev().cloned())));
            }
            let after = sequence([self.comma(Container::Object)?, member]);
            let is_required = object.members[index as usize].required;
            rest.push(if is_required { after } else { optional(after) });
            // If several members may come first, they share the rest.
            if index > 0 && index <= required {
                let rule = self.rule(&self.name_in(name, "rest"));
                self.define(rule, sequence(rest.drain(..).rev()))?;
                rest.push(Expr::Rule(rule));
            }
        }
        ways.reverse();
        Ok(alternatives(ways))
    }

    /// Returns an expression for the declared member at `index`, or `None` if no value satisfies
    /// its schema.
    fn declared(
        &mut self,
        object: &ObjectRule,
        index: u32,
        name: RuleId,
    ) -> Result<Option<Expr>, GrammarError> {
        let Some(node) = object.members[index as usize].node else { return Ok(None) };
        self.spend(1)?;
        let word = object.names.word(index);
        if let Some(level) = self.current() {
            return self.declared_in(level, (&word, node), name).map(Some);
        }
        let value = Expr::Rule(self.node(node, &self.name_in(name, &word)));
        self.member(text(&super::strings::json(word)), value).map(Some)
    }

    /// Returns a reference to the rule for an undeclared member, or `None` if the object allows
    /// none.
    fn other(&mut self, object: &ObjectRule, name: RuleId) -> Result<Option<Expr>, GrammarError> {
        let mut ways = Vec::new();
        for (label, others) in object.others.iter().enumerate().filter(|(_, others)| !others.is_empty()) {
            if let Some(level) = self.current() {
                for way in others {
                    ways.push(self.other_in(level, object, (label as u32, way.node), name)?);
                }
                continue;
            }
            let key = self.other_name(object, label as u32, name)?;
            let value = self.ways(others, &self.name_in(name, "value"))?;
            ways.push(self.member(key, value)?);
        }
        if ways.is_empty() {
            return Ok(None);
        }
        let rule = self.rule(&self.name_in(name, "other"));
        self.define(rule, alternatives(ways))?;
        Ok(Some(Expr::Rule(rule)))
    }

    /// Returns an expression for all members that may follow in `state`.
    fn members(
        &mut self,
        object: &ObjectRule,
        state: ObjectState,
        states: &mut States<ObjectState>,
    ) -> Result<Expr, GrammarError> {
        let (at, members, pending, begun) = state;
        let required = object.next_required[at as usize];
        let count = object.members.len() as u32;
        let next = (object.count(members), true);
        let mut ways = Vec::new();
        for index in at..count.min(required + 1) {
            if let Some(member) = self.declared(object, index, states.name)? {
                ways.push((member, (index + 1, next.0, pending, next.1)));
            }
        }
        if required == count {
            for (label, others) in object.others.iter().enumerate().filter(|(_, others)| !others.is_empty()) {
                if let Some(level) = self.current() {
                    for way in others {
                        let state = (count, next.0, way.unmet(pending), next.1);
                        ways.push((
                            self.other_in(level, object, (label as u32, way.node), states.name)?,
                            state,
                        ));
                    }
                    continue;
                }
                let key = self.other_name(object, label as u32, states.name)?;
                for way in others {
                    let value = self.ways(&[*way], &self.name_in(states.name, "value"))?;
                    let state = (count, next.0, way.unmet(pending), next.1);
                    ways.push((self.member(key.clone(), value)?, state));
                }
            }
        }
        self.spend(ways.len())?;
        let full = object.counts() && object.max == Some(members);
        ways.retain(|(_, next)| !full && can_end(object, *next));
        let comma = if begun { self.comma(Container::Object)? } else { Expr::empty() };
        let ways: Vec<_> = ways
            .into_iter()
            .map(|(member, next)| sequence([comma.clone(), member, states.rule(next, self)]))
            .collect();
        Ok(match (begun, ways.is_empty()) {
            (true, true) => Expr::empty(),
            (true, false) if may_end(object, state) => optional(alternatives(ways)),
            _ => alternatives(ways),
        })
    }

    fn member(&mut self, key: Expr, value: Expr) -> Result<Expr, GrammarError> {
        let gap = self.gap(self.program.spacing.after_colon)?;
        Ok(sequence([key, text(":"), gap, value]))
    }
}

/// Returns an object without groups for each combination of the groups' alternatives.
fn without_groups(object: &ObjectRule) -> Result<Vec<ObjectRule>, GrammarError> {
    let mut objects = vec![ObjectRule { groups: Vec::new(), grouped: Vec::new(), ..object.clone() }];
    for group in &object.groups {
        if objects.len() * group.alternatives.len() > COMBINATIONS {
            return Err(GrammarError::not_gbnf("an object has too many combinations of dependent members"));
        }
        let mut combined = Vec::with_capacity(objects.len() * group.alternatives.len());
        for object in &objects {
            for alternative in &group.alternatives {
                let mut object = object.clone();
                for (&index, member) in group.members.iter().zip(alternative) {
                    object.members[index as usize] = member.clone();
                }
                combined.push(object);
            }
        }
        objects = combined;
    }
    for object in &mut objects {
        object.require();
    }
    Ok(objects)
}

fn may_end(object: &ObjectRule, (at, members, pending, _): ObjectState) -> bool {
    let required = object.next_required[at as usize] as usize;
    required == object.members.len() && members >= object.min && pending == 0
}

/// Reports whether an object can be completed from a state, possibly with further members.
fn can_end(object: &ObjectRule, (at, members, pending, _): ObjectState) -> bool {
    let left = &object.members[at as usize..];
    let required = left.iter().filter(|member| member.required).count() as u32;
    let possible = left.iter().filter(|member| member.node.is_some()).count() as u32;
    let ways = || object.others.iter().flatten();
    // By set of obligations, the least number of undeclared members that meet them.
    let mut least = [u32::MAX; 256];
    least[0] = 0;
    for met in 0..=usize::from(pending) {
        for way in ways() {
            let next = met | usize::from(pending & !way.unmet(pending));
            least[next] = least[next].min(least[met].saturating_add(1));
        }
    }
    let others = least[usize::from(pending)];
    let fits = object.max.is_none_or(|max| members.saturating_add(required).saturating_add(others) <= max);
    let enough = ways().next().is_some() || members + possible >= object.min;
    others < u32::MAX && fits && enough
}
