//! Advances one thread by one byte.

use super::closing::SeenNames;
use super::groups::{groups_hold, nodes_of};
use super::intern::Thread;
use super::intern::UNCOUNTED;
use super::names::{NO_NAMES, NameId, NamesId, UNKNOWN, UNREAD};
use super::trace::{EMPTY, TextId};
use super::{Frame, JsonMachine, Literal, OUTSIDE, ROOT, StackId, State};
use crate::ir::json::layout::{Gap, GapRest, GapStep};
use crate::ir::json::program::{ArrayRule, LanguageRule, ObjectRule};
use crate::ir::json::spelling::{Decode, Decoded};
use crate::ir::json::values::{NOTHING, PAIRED};
use crate::options::Order;

impl Frame {
    pub(super) const fn bracket(self) -> u8 {
        match self {
            Self::Array { .. } => b']',
            Self::Object { .. } => b'}',
        }
    }

    pub(super) const fn rule(self) -> u32 {
        match self {
            Self::Array { rule, .. } | Self::Object { rule, .. } => rule,
        }
    }

    /// Returns the frame with all counters at zero.
    pub(super) const fn uncounted(self) -> Self {
        match self {
            Self::Array { rule, items, seen, start, .. } => {
                Self::Array { rule, items, counts: UNCOUNTED, seen, start }
            }
            Self::Object { .. } => self,
        }
    }
}

impl JsonMachine {
    /// Adds a thread to the config that is being built, or to the results of the current search.
    /// Omits the thread if it cannot be completed.
    pub(super) fn push(&mut self, stack: StackId, state: State) {
        let tracked = self.interner.stack(stack).tracking != ROOT;
        let thread = Thread { stack, state, text: if tracked { self.items.text } else { EMPTY } };
        if self.items.searching {
            return self.push_found(thread);
        }
        let id = self.interner.find_thread(thread).or_else(|| {
            let closing = self.exact_closing(thread)?;
            // The search in `exact_closing` may have added the thread.
            let known = self.interner.find_thread(thread);
            Some(known.unwrap_or_else(|| self.interner.add_thread(thread, closing)))
        });
        self.next.extend(id);
    }

    /// Adds the threads that `byte` leads to from `thread`.
    pub(super) fn advance(&mut self, thread: Thread, byte: u8) {
        self.record(thread, byte);
        let Thread { stack, state, .. } = thread;
        match state {
            State::Value { node, gap } => match gap.step(byte) {
                GapStep::Within(gap) => self.push(stack, State::Value { node, gap }),
                GapStep::Past => self.begin_value(stack, node, byte),
                GapStep::Reject => {}
            },
            State::Literal { literal, at } => self.literal(stack, literal, at, byte),
            State::Number { dfa, state } => {
                let automaton = &self.program.numbers[dfa as usize];
                if let Some(state) = automaton.step(state, byte) {
                    self.push(stack, State::Number { dfa, state });
                } else if automaton.closing(state).0 == 0
                    && let Some(stack) = self.end_number(stack, byte)
                {
                    self.advance_past_value(stack, byte);
                }
            }
            State::Text { rule, chars, decode } => self.text(stack, (rule, chars, decode), byte),
            State::Language { rule, state, chars, decode } => {
                self.language_byte(stack, (rule, state, chars, decode), byte);
            }
            State::Word { trie, at, decode } => self.word_byte(stack, (trie, at, decode), byte),
            State::ArrayStart { gap } => self.array_start_byte(stack, gap, byte),
            State::ObjectStart { gap } => self.object_start_byte(stack, gap, byte),
            State::KeyStart { gap } => match gap.step(byte) {
                GapStep::Within(gap) => self.push(stack, State::KeyStart { gap }),
                GapStep::Past if byte == b'"' => self.begin_key(stack),
                GapStep::Past | GapStep::Reject => {}
            },
            State::Key { at, other, name, decode } => self.key_byte(stack, (at, other, name, decode), byte),
            State::Colon { node, gap } => match gap.step(byte) {
                GapStep::Within(gap) => self.push(stack, State::Colon { node, gap }),
                GapStep::Past if byte == b':' => {
                    let gap = self.program.spacing.after_colon.rest(0);
                    self.push(stack, State::Value { node, gap });
                }
                GapStep::Past | GapStep::Reject => {}
            },
            State::AfterValue | State::End => self.advance_past_value(stack, byte),
            State::Close { gap } => match gap.step(byte) {
                GapStep::Within(gap) => self.push(stack, State::Close { gap }),
                GapStep::Past => self.close(stack, byte),
                GapStep::Reject => {}
            },
        }
    }

    fn begin_value(&mut self, stack: StackId, node: u32, byte: u8) {
        let program = std::sync::Arc::clone(&self.program);
        let node = &program.nodes[node as usize];
        let decode = Decode::Whole;
        match byte {
            b'n' if node.null => self.push(stack, State::Literal { literal: Literal::Null, at: 1 }),
            b'f' if node.bools[0] => self.push(stack, State::Literal { literal: Literal::False, at: 1 }),
            b't' if node.bools[1] => self.push(stack, State::Literal { literal: Literal::True, at: 1 }),
            b'-' | b'0'..=b'9' => {
                let Some(dfa) = node.number else { return };
                if let Some(state) = program.numbers[dfa as usize].step(0, byte) {
                    self.push(stack, State::Number { dfa, state });
                }
            }
            b'"' => {
                for &rule in &node.texts {
                    self.push(stack, State::Text { rule, chars: 0, decode });
                }
                if let Some(trie) = node.words {
                    self.push(stack, State::Word { trie, at: 0, decode });
                }
                for &rule in &node.languages {
                    let language = program.language_rules[rule as usize].language;
                    self.push_language(stack, rule, program.languages[language as usize].dfa().start(), 0);
                }
            }
            b'[' => {
                for &rule in &node.arrays {
                    let counts = UNCOUNTED;
                    self.open(stack, Frame::Array { rule, items: 0, counts, seen: NOTHING, start: 0 });
                }
            }
            b'{' => {
                for &rule in &node.objects {
                    let pending = program.objects[rule as usize].obligations;
                    let names = NO_NAMES;
                    self.open(stack, Frame::Object { rule, seen: 0, members: 0, pending, names });
                }
            }
            _ => {}
        }
    }

    /// Opens the array or object `frame` on `parent`.
    ///
    /// Outside items that must differ, the frame is only queued: the set of stacks on which it
    /// opens is complete once all threads have read the byte.
    fn open(&mut self, parent: StackId, frame: Frame) {
        if self.interner.stack(parent).tracking == ROOT && !self.items.searching {
            self.opened.push((frame, parent));
        } else {
            // Threads in items that must differ have texts of their own, and a search has no config.
            self.enter(parent, frame);
        }
    }

    /// Enters the queued arrays and objects. Each frame is entered once, on the join of its stacks.
    pub(super) fn enter_opened(&mut self) {
        let mut opened = std::mem::take(&mut self.opened);
        opened.sort_unstable();
        opened.dedup();
        self.items.text = EMPTY;
        for group in opened.chunk_by(|a, b| a.0 == b.0) {
            let parent = match *group {
                [(_, parent)] => parent,
                _ => self.interner.join(&group.iter().map(|&(_, parent)| parent).collect::<Vec<_>>()),
            };
            self.enter(parent, group[0].0);
        }
        opened.clear();
        self.opened = opened;
    }

    fn enter(&mut self, parent: StackId, frame: Frame) {
        let Some(stack) = self.stack(parent, frame) else { return };
        let gap = self.program.spacing.bracket.rest(self.interner.stack(stack).depth);
        let state = match frame {
            Frame::Array { .. } => State::ArrayStart { gap },
            Frame::Object { .. } => State::ObjectStart { gap },
        };
        self.push(stack, state);
    }

    /// Returns the stack with `frame` on top of `parent`. `None` if that stack cannot be completed.
    pub(super) fn stack(&mut self, parent: StackId, frame: Frame) -> Option<StackId> {
        if let Some(id) = self.interner.find_stack(parent, frame) {
            return Some(id);
        }
        let depth = self.interner.stack(parent).depth + 1;
        let (own, unique) = match frame {
            Frame::Array { rule, items, counts, seen, .. } => {
                let array = &self.program.arrays[rule as usize];
                let closable = array.closable(items, self.interner.counts(counts));
                if array.repeats.is_some() && seen != PAIRED {
                    let own = self.after_unpaired((rule, seen), items, depth)?;
                    let plain = self.plain_stack(parent, frame, true);
                    return Some(self.interner.add_stack(parent, frame, (own, false), (Some(true), plain)));
                }
                let unique = array.unique.then_some(seen != NOTHING || !closable);
                if array.required.is_some() && !closable {
                    let plan = self.plan((rule, seen), (items, counts), depth, None)?;
                    let own = self.between(plan.items, depth).saturating_add(plan.bytes);
                    let plain = self.plain_stack(parent, frame, true);
                    let stack = self.interner.add_stack(parent, frame, (own, false), (unique, plain));
                    self.items.set_critical(stack, plan.critical);
                    return Some(stack);
                }
                let own = self.after_item(array, items, self.interner.counts(counts), depth)?;
                ((own, closable), unique)
            }
            Frame::Object { rule: id, seen, members, pending, names } => {
                let rule = &self.program.objects[id as usize];
                let missing = |(index, member): (usize, &crate::ir::json::program::Member)| {
                    member.required && !self.has_seen(seen, index)
                };
                let met = if rule.groups.is_empty() {
                    members >= rule.min && pending == 0
                } else {
                    groups_hold(rule, self.interner.set(members), |index| self.has_seen(seen, index))
                };
                let closable = met && !rule.members.iter().enumerate().any(missing);
                let seen = |index| self.has_seen(seen, index);
                let names = SeenNames { rule: id, seen: names, taken: None };
                ((self.after_member(names, seen, (members, pending), depth)?, closable), None)
            }
        };
        let plain = self.plain_stack(parent, frame, unique.is_some());
        Some(self.interner.add_stack(parent, frame, own, (unique, plain)))
    }

    /// Adds the threads after the end of a value that lies on `parent`.
    pub(super) fn complete(&mut self, parent: StackId) {
        let text = self.items.text;
        for at in 0..self.interner.joined(&parent).len() {
            let stack = self.interner.joined(&parent)[at];
            if stack == ROOT {
                self.push(ROOT, State::End);
            } else if let Some(stack) = self.end_item(stack) {
                self.push(stack, State::AfterValue);
            }
            self.items.text = text;
        }
    }

    fn literal(&mut self, stack: StackId, literal: Literal, at: u8, byte: u8) {
        let text = literal.text();
        if text[usize::from(at)] != byte {
            return;
        }
        if usize::from(at) + 1 == text.len() {
            self.complete(stack);
        } else {
            self.push(stack, State::Literal { literal, at: at + 1 });
        }
    }

    fn text(&mut self, stack: StackId, (rule, chars, decode): (u32, u32, Decode), byte: u8) {
        let bounds = &self.program.texts[rule as usize];
        let full = bounds.max == Some(chars);
        let last = bounds.max.unwrap_or(bounds.min);
        match decode.step(byte, self.program.profile) {
            Decoded::Char(_) if !full => {
                let chars = (chars + 1).min(last);
                self.push(stack, State::Text { rule, chars, decode: Decode::Whole });
            }
            Decoded::Partial(decode) if !full => {
                let decode = decode.forget(self.program.profile);
                self.push(stack, State::Text { rule, chars, decode });
            }
            Decoded::Quote if chars >= bounds.min => self.complete(stack),
            Decoded::Char(_) | Decoded::Partial(_) | Decoded::Quote | Decoded::Reject => {}
        }
    }

    /// Adds a thread inside a string of a language.
    ///
    /// Once the language allows any continuation, the thread reads a string without a pattern.
    fn push_language(&mut self, stack: StackId, rule: u32, state: u32, chars: u32) {
        let decode = Decode::Whole;
        let LanguageRule { language, free, .. } = self.program.language_rules[rule as usize];
        if self.program.languages[language as usize].dfa().is_free(state) {
            self.push(stack, State::Text { rule: free, chars, decode });
        } else {
            self.push(stack, State::Language { rule, state, chars, decode });
        }
    }

    fn language_byte(
        &mut self,
        stack: StackId,
        (rule, state, chars, decode): (u32, u32, u32, Decode),
        byte: u8,
    ) {
        let LanguageRule { language, max, .. } = self.program.language_rules[rule as usize];
        let dfa = self.program.languages[language as usize].dfa();
        match decode.step(byte, self.program.profile) {
            Decoded::Char(c) => {
                let chars = if max.is_some() { chars + 1 } else { 0 };
                if let Some(state) = dfa.next(state, c).filter(|_| max.is_none_or(|max| chars <= max)) {
                    self.push_language(stack, rule, state, chars);
                }
            }
            Decoded::Partial(decode) => self.push(stack, State::Language { rule, state, chars, decode }),
            Decoded::Quote if dfa.label(state) != 0 => self.complete(stack),
            Decoded::Quote | Decoded::Reject => {}
        }
    }

    fn word_byte(&mut self, stack: StackId, (trie, at, decode): (u32, u32, Decode), byte: u8) {
        let node = self.program.words[trie as usize].node(at);
        match decode.step(byte, self.program.profile) {
            Decoded::Char(c) => {
                if let Some(at) = node.child(c) {
                    self.push(stack, State::Word { trie, at, decode: Decode::Whole });
                }
            }
            Decoded::Partial(decode) => self.push(stack, State::Word { trie, at, decode }),
            Decoded::Quote if node.word.is_some() => self.complete(stack),
            Decoded::Quote | Decoded::Reject => {}
        }
    }

    fn array_start_byte(&mut self, stack: StackId, gap: GapRest, byte: u8) {
        let top = *self.interner.stack(stack);
        let Some(Frame::Array { rule, items: 0, counts, .. }) = top.frame else { return };
        let step = gap.step(byte);
        if byte == b']' {
            let array = &self.program.arrays[rule as usize];
            if array.repeats.is_none() && array.closable(0, self.interner.counts(counts)) {
                self.complete(top.parent);
            }
            return;
        }
        if let GapStep::Within(gap) = step
            && !gap.is_fixed()
        {
            return self.push(stack, State::ArrayStart { gap });
        }
        self.item(stack, self.items.before, |machine, stack, node| match step {
            GapStep::Within(gap) => machine.push(stack, State::Value { node, gap }),
            GapStep::Past => machine.begin_value(stack, node, byte),
            GapStep::Reject => {}
        });
    }

    /// Calls `go_on(machine, stack, node)` for each choice that the next item of the array on top
    /// of `stack` has.
    ///
    /// `text` is the text before the item.
    fn item(&mut self, stack: StackId, text: TextId, mut go_on: impl FnMut(&mut Self, StackId, u32)) {
        let top = *self.interner.stack(stack);
        let Some(Frame::Array { rule, items, counts, seen, .. }) = top.frame else { return };
        let program = std::sync::Arc::clone(&self.program);
        let array = &program.arrays[rule as usize];
        if array.max.is_some_and(|max| items >= max) {
            return;
        }
        let next = array.count(items);
        let tracked = array.unique || (array.repeats.is_some() && seen != PAIRED);
        let start = if tracked { self.items.trace.len(text) } else { 0 };
        for way in array.item(items) {
            let Some(counts) = self.raise(array, counts, way.bits) else { continue };
            if let Some(stack) =
                self.stack(top.parent, Frame::Array { rule, items: next, counts, seen, start })
            {
                go_on(self, stack, way.node);
            }
        }
    }

    /// Returns the id of the counts after an item that raises the counters in `bits`. `None` if a
    /// count would exceed its maximum.
    fn raise(&mut self, array: &ArrayRule, counts: u32, bits: u32) -> Option<u32> {
        if bits == 0 {
            return Some(counts);
        }
        let raised = array.raise(self.interner.counts(counts), bits)?;
        Some(self.interner.counts_id(raised))
    }

    fn object_start_byte(&mut self, stack: StackId, gap: GapRest, byte: u8) {
        let top = *self.interner.stack(stack);
        match gap.step(byte) {
            _ if byte == b'}' => {
                if top.closable {
                    self.complete(top.parent);
                }
            }
            GapStep::Within(gap) if gap.is_fixed() => self.push(stack, State::KeyStart { gap }),
            GapStep::Within(gap) => self.push(stack, State::ObjectStart { gap }),
            GapStep::Past if byte == b'"' => self.begin_key(stack),
            GapStep::Past | GapStep::Reject => {}
        }
    }

    fn begin_key(&mut self, stack: StackId) {
        let Some(Frame::Object { rule, names, .. }) = self.interner.stack(stack).frame else { return };
        let labels = self.program.objects[rule as usize].labels;
        let other = labels.map_or(0, |labels| self.program.languages[labels as usize].dfa().start());
        let name = if names == NO_NAMES { UNREAD } else { self.names.start(names) };
        self.push(stack, State::Key { at: 0, other, name, decode: Decode::Whole });
    }

    fn key_byte(&mut self, stack: StackId, (at, other, name, decode): (u32, u32, NameId, Decode), byte: u8) {
        let Some(Frame::Object { rule, seen, members, names, .. }) = self.interner.stack(stack).frame else {
            return;
        };
        let program = std::sync::Arc::clone(&self.program);
        let object = &program.objects[rule as usize];
        let labels = object.labels.map(|labels| program.languages[labels as usize].dfa());
        match decode.step(byte, program.profile) {
            Decoded::Char(c) => {
                let child = if at == OUTSIDE { None } else { object.names.node(at).child(c) };
                let next = match labels {
                    Some(dfa) if other != OUTSIDE => dfa.next(other, c).unwrap_or(OUTSIDE),
                    _ => other,
                };
                let next = (child.unwrap_or(OUTSIDE), next);
                if next != (OUTSIDE, OUTSIDE) {
                    let name = self.name_after(object, (at, name), next, c);
                    let (at, other) = next;
                    self.push(stack, State::Key { at, other, name, decode: Decode::Whole });
                }
            }
            Decoded::Partial(decode) => {
                let any = labels.is_none_or(|dfa| other != OUTSIDE && dfa.is_free(other));
                let forgets = at == OUTSIDE && any && (name == UNREAD || name == UNKNOWN);
                let decode = if forgets { decode.forget(program.profile) } else { decode };
                self.push(stack, State::Key { at, other, name, decode });
            }
            Decoded::Quote => {
                let word = if at == OUTSIDE { None } else { object.names.node(at).word };
                match word.map(|word| word as usize) {
                    Some(index) if !self.may_follow(object, (seen, members), index) => {}
                    Some(index) => self.choose_declared(stack, index),
                    None if other == OUTSIDE || self.names.ends(self.names.rivals(name)) => {}
                    None => {
                        let label = labels.map_or(0, |dfa| dfa.label(other));
                        let names = match name {
                            _ if !object.tracks() => NO_NAMES,
                            UNKNOWN => names,
                            UNREAD => self.names.with(names, &object.names.text_at(at)),
                            _ => self.names.with(names, &self.names.text(name)),
                        };
                        self.choose_other(stack, label, names);
                    }
                }
            }
            Decoded::Reject => {}
        }
    }

    /// Returns the id of a name after one more character `c`.
    ///
    /// `from` and `at` are the nodes in the trie of declared names before and after the character.
    /// `other` is the state of the language of undeclared names after the character.
    fn name_after(
        &mut self,
        object: &ObjectRule,
        (from, name): (u32, NameId),
        (at, other): (u32, u32),
        c: char,
    ) -> NameId {
        match name {
            _ if !object.tracks() || other == OUTSIDE => UNREAD,
            UNKNOWN => UNKNOWN,
            UNREAD if at != OUTSIDE => UNREAD,
            UNREAD => {
                let start = self.names.start(NO_NAMES);
                let text = object.names.text_at(from);
                let before = text.chars().fold(start, |name, c| self.names.then(name, c));
                self.names.then(before, c)
            }
            _ => self.names.then(name, c),
        }
    }

    /// Adds the threads after the name of the declared member at `index`.
    fn choose_declared(&mut self, stack: StackId, index: usize) {
        let top = *self.interner.stack(stack);
        let Some(Frame::Object { rule, seen, members, pending, names }) = top.frame else { return };
        let program = std::sync::Arc::clone(&self.program);
        let object = &program.objects[rule as usize];
        if !object.groups.is_empty() {
            return self.choose_grouped(stack, object, index);
        }
        let Some(node) = object.members[index].node else { return };
        let members = object.count(members);
        let names = if object.is_full(members) { NO_NAMES } else { names };
        let seen = self.with_seen(seen, index);
        self.push_member(top.parent, Frame::Object { rule, seen, members, pending, names }, node);
    }

    /// Adds the threads after the name of the declared member at `index` in an object with groups:
    /// one thread for each node that the member may have.
    fn choose_grouped(&mut self, stack: StackId, object: &ObjectRule, index: usize) {
        let top = *self.interner.stack(stack);
        let Some(Frame::Object { rule, seen, members, pending, names }) = top.frame else { return };
        for node in nodes_of(object, self.interner.set(members), index) {
            let out = self.out_after(object, (seen, self.interner.set(members)), Some((index, node)));
            let Some(out) = out else { continue };
            let members = self.interner.set_of(out);
            let seen = self.with_seen(seen, index);
            self.push_member(top.parent, Frame::Object { rule, seen, members, pending, names }, node);
        }
    }

    fn with_seen(&mut self, seen: u32, index: usize) -> u32 {
        match self.program.order {
            Order::Declared => index as u32 + 1,
            Order::Any => self.interner.set_with(seen, index),
        }
    }

    /// Adds the threads after an undeclared name with the label `label`. `names` are the names
    /// seen, including this name.
    fn choose_other(&mut self, stack: StackId, label: u32, names: NamesId) {
        let top = *self.interner.stack(stack);
        let Some(Frame::Object { rule, mut seen, members, pending, .. }) = top.frame else { return };
        let program = std::sync::Arc::clone(&self.program);
        let object = &program.objects[rule as usize];
        if program.order == Order::Declared
            && (object.next_required[seen as usize] as usize) < object.members.len()
        {
            return;
        }
        let members = if object.groups.is_empty() {
            object.count(members)
        } else {
            let out = self.out_after(object, (seen, self.interner.set(members)), None);
            let Some(out) = out else { return };
            self.interner.set_of(out)
        };
        if program.order == Order::Declared {
            seen = object.members.len() as u32;
        }
        let names = if object.is_full(members) { NO_NAMES } else { names };
        for way in &object.others[label as usize] {
            let pending = way.unmet(pending);
            self.push_member(top.parent, Frame::Object { rule, seen, members, pending, names }, way.node);
        }
    }

    /// Adds the thread after the name of a member with the node `node`. `frame` is the object
    /// including this member.
    fn push_member(&mut self, parent: StackId, frame: Frame, node: u32) {
        let Some(stack) = self.stack(parent, frame) else { return };
        let gap = self.program.spacing.before_colon.rest(0);
        self.push(stack, State::Colon { node, gap });
    }

    fn advance_past_value(&mut self, stack: StackId, byte: u8) {
        let spacing = self.program.spacing;
        if stack == ROOT {
            if let GapStep::Within(_) = spacing.around.rest(0).step(byte) {
                self.push(ROOT, State::End);
            }
            return;
        }
        let top = *self.interner.stack(stack);
        if byte == b',' {
            return self.next_item(stack);
        }
        if spacing.before_comma == Gap::Any
            && let GapStep::Within(_) = GapRest::Any.step(byte)
        {
            return self.push(stack, State::AfterValue);
        }
        if !top.closable {
            return;
        }
        match spacing.bracket.rest(top.depth - 1).step(byte) {
            GapStep::Within(gap) => self.push(stack, State::Close { gap }),
            GapStep::Past => self.close(stack, byte),
            GapStep::Reject => {}
        }
    }

    /// Adds the threads after a comma in the array or object on top of `stack`.
    fn next_item(&mut self, stack: StackId) {
        let top = *self.interner.stack(stack);
        let gap = self.program.spacing.after_comma.rest(top.depth);
        match top.frame {
            Some(Frame::Array { .. }) => {
                if self.is_outermost(stack) {
                    self.items.text = EMPTY;
                }
                self.item(stack, self.items.text, |machine, stack, node| {
                    machine.push(stack, State::Value { node, gap });
                });
            }
            Some(Frame::Object { .. }) => self.push(stack, State::KeyStart { gap }),
            None => {}
        }
    }

    fn close(&mut self, stack: StackId, byte: u8) {
        let top = *self.interner.stack(stack);
        if top.frame.is_some_and(|frame| frame.bracket() == byte) {
            self.complete(top.parent);
        }
    }
}
