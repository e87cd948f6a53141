//! The length of the shortest completion of a thread, or that there is none.
//!
//! The length is exact: a thread's is the least over its next choices, a choice's is that of its own bytes, of the
//! cheapest value of the node chosen, and of what the stack still needs. Lengths saturate at `u32::MAX`.

use super::cost::Shortest;
use super::intern::Stack;
use super::program::{ArrayRule, Member, ObjectRule};
use super::spelling::Decode;
use super::{Frame, JsonMachine, OUTSIDE, ROOT, StackId, State};
use crate::frontend::json_schema::Order;

impl JsonMachine {
    /// The shortest completion of a thread.
    pub(super) fn closing(&self, stack: StackId, state: State) -> Option<Shortest> {
        let program = &*self.program;
        let top = self.interner.stack(stack);
        match state {
            State::Value { node, gap } => {
                Some(self.value(node, top.depth)?.after(gap.closing()).then(top.total))
            }
            State::Literal { literal, at } => {
                let rest = &literal.text()[usize::from(at)..];
                Some(Shortest::new(rest.len() as u32, rest[0]).then(top.total))
            }
            State::Number { dfa, state } => match program.numbers[dfa as usize].closing(state) {
                (0, _) => self.after_value(stack),
                (len, first) => Some(Shortest::new(len, first).then(top.total)),
            },
            State::Text { rule, chars, decode } => {
                let open = u32::from(decode != Decode::Whole);
                let more = program.texts[rule as usize].min.saturating_sub(chars + open);
                let end = Shortest::new(more.saturating_add(1), if more > 0 { b' ' } else { b'"' });
                Some(end.after(decode.closing()).then(top.total))
            }
            State::Word { trie, at, decode } => Some(self.word(trie, at, decode)?.then(top.total)),
            State::ArrayStart { gap } => self.array_start(top, gap.closing()),
            State::ObjectStart { .. } if top.closable => {
                Some(Shortest::new(1, b'}').then(self.interner.stack(top.parent).total))
            }
            State::KeyStart { gap } | State::ObjectStart { gap } => {
                Some(self.key(top, 0, Decode::Whole)?.after((1, b'"')).after(gap.closing()))
            }
            State::Key { at, decode } => self.key(top, at, decode),
            State::Colon { node, gap } => {
                let gap_after = program.spacing.after_colon.least_at(top.depth);
                let value = self.value(node, top.depth)?.len.saturating_add(gap_after);
                Some(Shortest::new(1, b':').then(value).after(gap.closing()).then(top.total))
            }
            State::AfterValue => self.after_value(stack),
            State::Close { gap } => {
                let bracket = Shortest::new(1, top.frame?.bracket());
                Some(bracket.after(gap.closing()).then(self.interner.stack(top.parent).total))
            }
            State::End => Some(Shortest::new(0, 0)),
        }
    }

    fn value(&self, node: u32, depth: u32) -> Option<Shortest> {
        self.program.nodes[node as usize].cost.at(depth)
    }

    fn after_value(&self, stack: StackId) -> Option<Shortest> {
        if stack == ROOT {
            return Some(Shortest::new(0, 0));
        }
        let top = self.interner.stack(stack);
        let bracket = Shortest::new(1, top.frame?.bracket());
        let gap = self.program.spacing.bracket.rest(top.depth - 1).closing();
        let first = if top.closable { bracket.after(gap).first } else { b',' };
        Some(Shortest::new(top.total, first))
    }

    fn word(&self, trie: u32, at: u32, decode: Decode) -> Option<Shortest> {
        let trie = &self.program.words[trie as usize];
        let node = trie.node(at);
        if decode == Decode::Whole {
            return Some(node.nearest());
        }
        let finished = node.children.iter().filter_map(|&(c, child)| {
            Some(decode.finish(c, self.program.profile)?.then(trie.node(child).nearest().len))
        });
        finished.min_by_key(|way| way.len)
    }

    fn array_start(&self, top: &Stack, gap: (u32, u8)) -> Option<Shortest> {
        let Some(Frame::Array { rule, .. }) = top.frame else { return None };
        let rule = &self.program.arrays[rule as usize];
        let below = self.interner.stack(top.parent).total;
        if rule.min == 0 {
            return Some(Shortest::new(1, b']').then(below));
        }
        let after = self.after_item(rule, rule.count(0), top.depth)?;
        Some(self.value(rule.item(0)?, top.depth)?.after(gap).then(after).then(below))
    }

    /// From the end of the last of `items` items to the end of the array, whose items stand at `depth`.
    pub(super) fn after_item(&self, rule: &ArrayRule, items: u32, depth: u32) -> Option<u32> {
        let spacing = &self.program.spacing;
        let mut total = spacing.bracket.least_at(depth - 1) + 1;
        let comma = 1 + spacing.after_comma.least_at(depth);
        let prefix = rule.prefix.len() as u32;
        for index in items..rule.min.min(prefix) {
            let item = self.value(rule.item(index)?, depth)?;
            total = total.saturating_add(comma).saturating_add(item.len);
        }
        let rest = rule.min.saturating_sub(items.max(prefix));
        if rest > 0 {
            let item = self.value(rule.rest?, depth)?;
            total = total.saturating_add((comma.saturating_add(item.len)).saturating_mul(rest));
        }
        Some(total)
    }

    /// From the end of a member, when `members` are complete, to the end of the object, whose members stand at `depth`.
    /// Members that `seen` has are not to come.
    pub(super) fn after_member(
        &self,
        rule: &ObjectRule,
        seen: impl Fn(usize) -> bool,
        members: u32,
        depth: u32,
    ) -> Option<u32> {
        let mut total = self.program.spacing.bracket.least_at(depth - 1) + 1;
        let mut required = 0;
        let mut optional = Vec::new();
        let unseen = rule.members.iter().enumerate().filter(|&(index, _)| !seen(index));
        for member in unseen.map(|(_, member)| member) {
            if member.required {
                required += 1;
                total = total.saturating_add(self.member(member, depth)?);
            } else if rule.min > 0 && member.node.is_some() {
                optional.extend(self.member(member, depth));
            }
        }
        if rule.max.is_some_and(|max| members + required > max) {
            return None;
        }
        let missing = rule.min.saturating_sub(members + required) as usize;
        if missing > 0 {
            if let Some(node) = rule.additional {
                let name = rule.names.node(0).outside().len - 1;
                let one = self.member_text(name, node, depth)?;
                optional.extend(std::iter::repeat_n(one, missing));
            }
            optional.sort_unstable();
            let cheapest = optional.get(..missing)?;
            total = cheapest.iter().fold(total, |total, &member| total.saturating_add(member));
        }
        Some(total)
    }

    /// A comma and a whole member.
    fn member(&self, member: &Member, depth: u32) -> Option<u32> {
        self.member_text(member.name_len, member.node?, depth)
    }

    fn member_text(&self, name_len: u32, node: u32, depth: u32) -> Option<u32> {
        let comma = 1 + self.program.spacing.after_comma.least_at(depth);
        Some((comma + name_len + 2).saturating_add(self.after_name(node, depth)?))
    }

    /// From a name's closing quote to the end of the value.
    fn after_name(&self, node: u32, depth: u32) -> Option<u32> {
        let colon = 1 + self.program.spacing.after_colon.least_at(depth);
        Some(self.value(node, depth)?.len.saturating_add(colon))
    }

    /// From inside a name to the end of everything, by the best of the names that may still come of it.
    fn key(&self, top: &Stack, at: u32, decode: Decode) -> Option<Shortest> {
        let Some(Frame::Object { rule, seen, members }) = top.frame else { return None };
        let object = Object { machine: self, rule: &self.program.objects[rule as usize], seen, members, top };
        let names = &object.rule.names;
        let below = self.interner.stack(top.parent).total;
        let outside = object.after_other();
        if at == OUTSIDE {
            return Some(Shortest::new(1, b'"').after(decode.closing()).then(outside?).then(below));
        }
        let node = names.node(at);
        if decode == Decode::Whole {
            let declared = object.nearest(at);
            let other = outside.map(|outside| node.outside().then(outside));
            return Some(Shortest::shorter(declared, other)?.then(below));
        }
        let mut best = None;
        for &(c, child) in &node.children {
            let Some(end) = decode.finish(c, self.program.profile) else { continue };
            let declared = object.nearest(child).map(|rest| end.then(rest.len));
            let other = outside.map(|outside| end.then(names.node(child).outside().len).then(outside));
            best = Shortest::shorter(best, Shortest::shorter(declared, other));
        }
        if let Some(outside) = outside {
            let ranges = decode.candidates().into_iter();
            let mut ends = ranges.flat_map(|(low, high)| low..=high).filter_map(|code| {
                let c = char::from_u32(code).filter(|&c| node.child(c).is_none())?;
                decode.finish(c, self.program.profile)
            });
            best = Shortest::shorter(best, ends.next().map(|end| end.then(1).then(outside)));
        }
        Some(best?.then(below))
    }
}

/// The open object on top of a stack, while a name is read.
struct Object<'a> {
    machine: &'a JsonMachine,
    rule: &'a ObjectRule,
    seen: u32,
    members: u32,
    top: &'a Stack,
}

impl Object<'_> {
    /// From a node of the trie through the best declared name below it to the end of the object.
    fn nearest(&self, at: u32) -> Option<Shortest> {
        let below = self.rule.names.words_below(at).filter_map(|(index, rest)| {
            let index = index as usize;
            if !self.machine.may_follow(self.rule, self.seen, index) {
                return None;
            }
            let member = &self.rule.members[index];
            let value = self.machine.after_name(member.node?, self.top.depth)?;
            Some(rest.then(value).then(self.after_choice(Some(index))?))
        });
        below.min_by_key(|way| way.len)
    }

    /// From the closing quote of an undeclared name to the end of the object.
    fn after_other(&self) -> Option<u32> {
        let node = self.rule.additional?;
        let position = self.rule.next_required.get(self.seen as usize);
        if self.machine.program.order == Order::Declared
            && position.is_some_and(|&next| (next as usize) < self.rule.members.len())
        {
            return None;
        }
        let value = self.machine.after_name(node, self.top.depth)?;
        Some(value.saturating_add(self.after_choice(None)?))
    }

    /// From the end of the value of a chosen member to the end of the object.
    fn after_choice(&self, index: Option<usize>) -> Option<u32> {
        let depth = self.top.depth;
        if !self.rule.counts() {
            let required = index.map(|index| &self.rule.members[index]).filter(|member| member.required);
            let paid = required.map_or(Some(0), |member| self.machine.member(member, depth))?;
            return Some(self.top.own - paid);
        }
        let after_declared = index.is_none() && self.machine.program.order == Order::Declared;
        let skipped = |other: usize| match (index, self.machine.program.order) {
            (Some(index), Order::Declared) => other <= index,
            (Some(index), Order::Any) => other == index || self.machine.has_seen(self.seen, other),
            (None, _) => after_declared || self.machine.has_seen(self.seen, other),
        };
        self.machine.after_member(self.rule, skipped, self.members + 1, depth)
    }
}

impl JsonMachine {
    pub(super) fn has_seen(&self, seen: u32, index: usize) -> bool {
        match self.program.order {
            Order::Declared => index < seen as usize,
            Order::Any => self.interner.set_has(seen, index),
        }
    }

    /// Whether a declared member may come next.
    pub(super) fn may_follow(&self, rule: &ObjectRule, seen: u32, index: usize) -> bool {
        let in_order =
            self.program.order == Order::Any || index <= rule.next_required[seen as usize] as usize;
        in_order && rule.members[index].node.is_some() && !self.has_seen(seen, index)
    }
}
