//! Properties of a config that masks use instead of steps: its plausible bytes, and its parts.
//!
//! Inside a string without a pattern, the tokens that stay in the string are the same everywhere.
//! For the tokens that end the string, the continuation after the quote does not depend on the
//! characters of the string. [`Machine::parts`](crate::machine::Machine::parts) finds such places,
//! so that masks can take these tokens from tables. The tables are built with [`StringReader`],
//! which uses the same string decoder as the machine.

use super::intern::Thread;
use super::names::{UNKNOWN, UNREAD};
use super::trace::EMPTY;
use super::{Frame, JsonMachine, OUTSIDE, ROOT, StackId, State};
use crate::ByteSet;
use crate::ir::json::layout::{Gap, GapRest};
use crate::ir::json::program::ObjectRule;
use crate::ir::json::spelling::{Decode, Decoded};
use crate::ir::json::texts::Texts;
use crate::ir::json::trie::TrieNode;
use crate::machine::{Config, ConfigPart, EquivalentConfig, Text};
use crate::options::Profile;

/// Reads a string without a pattern, byte by byte, from a position between two characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StringReader {
    profile: Profile,
    decode: Decode,
    chars: u32,
}

/// Result of reading one byte with a [`StringReader`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadOutcome {
    /// The string continues.
    Inside(StringReader),
    /// The byte is the closing quote. The value is the number of characters before the quote.
    End(u32),
    Reject,
}

impl StringReader {
    pub(crate) const fn new(profile: Profile) -> Self {
        Self { profile, decode: Decode::Whole, chars: 0 }
    }

    pub(crate) fn read(self, byte: u8) -> ReadOutcome {
        match self.decode.step(byte, self.profile) {
            Decoded::Char(_) => {
                ReadOutcome::Inside(Self { decode: Decode::Whole, chars: self.chars + 1, ..self })
            }
            Decoded::Partial(decode) => ReadOutcome::Inside(Self { decode, ..self }),
            Decoded::Quote => ReadOutcome::End(self.chars),
            Decoded::Reject => ReadOutcome::Reject,
        }
    }

    /// Returns the number of characters read. An incomplete character counts as one.
    pub(crate) fn chars(&self) -> u32 {
        self.chars + u32::from(self.decode != Decode::Whole)
    }
}

/// The result of [`read_string`].
pub(crate) enum StringRead {
    /// The string ends: its characters up to the closing quote, and the number of bytes up to the
    /// quote, inclusive.
    Ended(String, usize),
    /// The string does not end: its complete characters. `within` is true if the bytes end inside
    /// another character.
    Begun {
        text: String,
        within: bool,
    },
    Rejected,
}

/// Reads the string in which `bytes` begin. The first byte must come between two characters of the
/// string.
pub(crate) fn read_string(bytes: &[u8], profile: Profile) -> StringRead {
    let mut decode = Decode::Whole;
    let mut text = String::new();
    for (at, &byte) in bytes.iter().enumerate() {
        decode = match decode.step(byte, profile) {
            Decoded::Char(c) => {
                text.push(c);
                Decode::Whole
            }
            Decoded::Partial(decode) => decode,
            Decoded::Quote => return StringRead::Ended(text, at + 1),
            Decoded::Reject => return StringRead::Rejected,
        };
    }
    StringRead::Begun { text, within: decode != Decode::Whole }
}

impl JsonMachine {
    pub(super) fn plausible_bytes(&self, config: Config) -> ByteSet {
        let mut bytes = ByteSet::default();
        for &thread in self.interner.threads_of(config) {
            let Thread { stack, state, .. } = self.interner.thread(thread);
            self.add_plausible(stack, state, &mut bytes);
        }
        bytes
    }

    pub(super) fn plausible_in(&self, stack: StackId, state: State) -> ByteSet {
        let mut bytes = ByteSet::default();
        self.add_plausible(stack, state, &mut bytes);
        bytes
    }

    fn add_plausible(&self, stack: StackId, state: State, bytes: &mut ByteSet) {
        let program = &*self.program;
        match state {
            State::Value { node, gap } => self.add_value(node, gap, bytes),
            State::Literal { literal, at } => bytes.insert(literal.text()[usize::from(at)]),
            State::Number { dfa, state } => {
                let dfa = &program.numbers[dfa as usize];
                let own = b"+-.Ee0123456789".iter().filter(|&&byte| dfa.step(state, byte).is_some());
                own.for_each(|&byte| bytes.insert(byte));
                if dfa.closing(state).0 == 0 {
                    self.add_after_value(stack, bytes);
                }
            }
            State::Word { trie, at, decode: Decode::Whole } => {
                add_children(program.words[trie as usize].node(at), bytes);
            }
            State::Language { rule, state, decode: Decode::Whole, .. } => {
                let language = program.language_rules[rule as usize].language;
                add_transitions(&program.languages[language as usize], state, bytes);
            }
            State::Key { at, other, decode: Decode::Whole, .. } if !self.is_undeclared(stack, at, other) => {
                let Some(rule) = self.object_rule(stack) else { return };
                if at != OUTSIDE {
                    add_children(rule.names.node(at), bytes);
                }
                if let Some(labels) = rule.labels
                    && other != OUTSIDE
                {
                    add_transitions(&program.languages[labels as usize], other, bytes);
                } else if rule.labels.is_none() && !self.is_closed(stack) {
                    add_character(Decode::Whole, bytes);
                }
            }
            State::Text { decode, .. }
            | State::Language { decode, .. }
            | State::Word { decode, .. }
            | State::Key { decode, .. } => add_character(decode, bytes),
            State::ArrayStart { gap } => {
                bytes.insert(b']');
                add_gap(gap, bytes);
                if let Some(Frame::Array { rule, .. }) = self.interner.stack(stack).frame {
                    for way in program.arrays[rule as usize].item(0) {
                        self.add_value(way.node, gap, bytes);
                    }
                }
            }
            State::ObjectStart { gap } => {
                bytes.insert(b'}');
                bytes.insert(b'"');
                add_gap(gap, bytes);
            }
            State::KeyStart { gap } => {
                bytes.insert(b'"');
                add_gap(gap, bytes);
            }
            State::Colon { gap, .. } => {
                bytes.insert(b':');
                add_gap(gap, bytes);
            }
            State::AfterValue | State::End => self.add_after_value(stack, bytes),
            State::Close { gap } => {
                bytes.extend(b"]}");
                add_gap(gap, bytes);
            }
        }
    }

    fn add_value(&self, node: u32, gap: GapRest, bytes: &mut ByteSet) {
        let node = &self.program.nodes[node as usize];
        add_gap(gap, bytes);
        let starts: [(bool, &[u8]); 7] = [
            (node.null, b"n"),
            (node.bools[0], b"f"),
            (node.bools[1], b"t"),
            (node.number.is_some(), b"-0123456789"),
            (!node.texts.is_empty() || node.words.is_some() || !node.languages.is_empty(), b"\""),
            (!node.arrays.is_empty(), b"["),
            (!node.objects.is_empty(), b"{"),
        ];
        for (_, start) in starts.iter().filter(|(possible, _)| *possible) {
            bytes.extend(start);
        }
    }

    fn add_after_value(&self, stack: StackId, bytes: &mut ByteSet) {
        let spacing = &self.program.spacing;
        if stack == ROOT {
            return add_gap(spacing.around.rest(0), bytes);
        }
        let top = self.interner.stack(stack);
        bytes.insert(b',');
        if spacing.before_comma == Gap::Any {
            add_gap(GapRest::Any, bytes);
        }
        // If two items must be equal, the item that ends here may be the second one, so the array
        // may close.
        let repeats = |rule: u32| self.program.arrays[rule as usize].repeats.is_some();
        let may_close = matches!(top.frame, Some(Frame::Array { rule, .. }) if repeats(rule));
        if top.closable || may_close {
            bytes.extend(b"]}");
            add_gap(spacing.bracket.rest(top.depth - 1), bytes);
        }
    }

    pub(super) fn object_rule(&self, stack: StackId) -> Option<&ObjectRule> {
        match self.interner.stack(stack).frame {
            Some(Frame::Object { rule, .. }) => Some(&self.program.objects[rule as usize]),
            _ => None,
        }
    }

    /// Returns the id of the thread with this stack and state and no text, if it is interned.
    pub(super) fn find_plain(&self, stack: StackId, state: State) -> Option<u32> {
        self.interner.find_thread(Thread { stack, state, text: EMPTY })
    }

    /// Reports whether only declared names may come next in the object on top of `stack`.
    ///
    /// The object must have no language that labels undeclared names.
    fn is_closed(&self, stack: StackId) -> bool {
        let state = State::Key { at: OUTSIDE, other: 0, name: UNKNOWN, decode: Decode::Whole };
        self.find_plain(stack, state).is_none() && self.closing(stack, state).is_none()
    }

    /// Reports whether undeclared names may come next in the object on top of `stack`, and all of
    /// them have the same continuations.
    fn is_open(&self, stack: StackId) -> bool {
        self.object_rule(stack).is_some_and(|rule| rule.labels.is_none()) && !self.is_closed(stack)
    }

    /// Reports whether a name is certainly undeclared, and its remaining characters make no
    /// difference.
    pub(super) fn is_undeclared(&self, stack: StackId, at: u32, other: u32) -> bool {
        let labels = self.object_rule(stack).and_then(|rule| rule.labels);
        at == OUTSIDE
            && labels.is_none_or(|labels| {
                other != OUTSIDE && self.program.languages[labels as usize].dfa().is_free(other)
            })
    }

    pub(super) fn split(&mut self, config: Config, parts: &mut Vec<ConfigPart>) {
        if let &[thread] = self.interner.threads_of(config) {
            let thread = self.interner.thread(thread);
            if self.interner.stack(thread.stack).tracking != ROOT
                && let like @ ConfigPart::Equivalent { .. } = self.part_of(config, thread)
            {
                return parts.push(like);
            }
        }
        if let Some(other) = self.forgetting(config) {
            let within = self.repeats_within(config);
            return parts.push(ConfigPart::Equivalent { config, other, names: true, within });
        }
        if let &[thread] = self.interner.threads_of(config) {
            return parts.push(self.part_of(config, self.interner.thread(thread)));
        }
        let threads = self.interner.threads_of(config).to_vec();
        let (mut plain, mut special, mut after_special) = (Vec::new(), Vec::new(), Vec::new());
        // Configs after strings with the same bounds are merged into one part.
        let mut texts: Vec<((u32, u32), Vec<u32>)> = Vec::new();
        for thread in threads {
            let single = self.interner.config(&[thread]);
            match self.part_of(single, self.interner.thread(thread)) {
                ConfigPart::Plain(_) | ConfigPart::Shared { .. } => plain.push(thread),
                like @ ConfigPart::Equivalent { .. } => parts.push(like),
                ConfigPart::Text(Text { min, max, after }) => {
                    let after = self.interner.threads_of(after);
                    match texts.iter_mut().find(|(bounds, _)| *bounds == (min, max)) {
                        Some((_, all)) => all.extend(after),
                        None => texts.push(((min, max), after.to_vec())),
                    }
                }
                ConfigPart::Special { text, .. } => {
                    special.push(thread);
                    after_special.extend(self.interner.threads_of(text.after));
                }
            }
        }
        for ((min, max), after) in texts {
            let after = self.config_of(after);
            parts.push(ConfigPart::Text(Text { min, max, after }));
        }
        if !special.is_empty() {
            let after = self.config_of(after_special);
            let config = self.config_of(special);
            parts.push(ConfigPart::Special { config, text: Text { min: 0, max: u32::MAX, after } });
        }
        if !plain.is_empty() {
            parts.push(ConfigPart::Plain(self.config_of(plain)));
        }
    }

    fn config_of(&mut self, threads: Vec<u32>) -> Config {
        self.next.extend(threads);
        self.gathered()
    }

    /// Returns the only part of `config`, whose only thread is `thread`.
    fn part_of(&mut self, config: Config, thread: Thread) -> ConfigPart {
        if let State::Text { decode: Decode::Whole, .. }
        | State::Language { decode: Decode::Whole, .. }
        | State::Key { decode: Decode::Whole, .. } = thread.state
            && let Some(unseen) = self.unseen(thread)
        {
            self.items.text = unseen.text;
            self.push(unseen.stack, unseen.state);
            return ConfigPart::Equivalent { config, other: self.gathered(), names: false, within: true };
        }
        let Thread { stack, state, text } = thread;
        let known = self.interner.stack(stack).tracking != ROOT && !self.is_unknown(stack, text);
        match state {
            // The text of the item is kept, so what follows the string depends on the string.
            State::Text { .. } | State::Key { .. } if known => ConfigPart::Plain(config),
            State::Text { rule, chars, decode: Decode::Whole } => {
                let rule = &self.program.texts[rule as usize];
                let min = rule.min.saturating_sub(chars);
                let max = rule.max.map_or(u32::MAX, |max| max.saturating_sub(chars));
                self.items.text = text;
                self.complete(stack);
                ConfigPart::Text(Text { min, max, after: self.gathered() })
            }
            // A kept name must not occur again, so what follows depends on the name.
            State::Key { name, .. } if name != UNREAD && name != UNKNOWN => ConfigPart::Plain(config),
            State::Key { at, other, decode: Decode::Whole, .. } if self.is_undeclared(stack, at, other) => {
                ConfigPart::Text(self.undeclared(thread, other))
            }
            State::Key { decode: Decode::Whole, .. } if self.is_open(stack) => {
                ConfigPart::Special { config, text: self.undeclared(thread, 0) }
            }
            _ => ConfigPart::Plain(config),
        }
    }

    /// Returns the text for the inside of an undeclared name of the object on top of the thread's
    /// stack.
    fn undeclared(&mut self, thread: Thread, other: u32) -> Text {
        let state = State::Key { at: OUTSIDE, other, name: UNKNOWN, decode: Decode::Whole };
        self.advance(Thread { state, ..thread }, b'"');
        Text { min: 0, max: u32::MAX, after: self.gathered() }
    }

    /// Returns the config in which the names being read are undeclared, as the equivalent config of
    /// `config`.
    ///
    /// The `bytes` of the result are the bytes over which a name may still become a declared name.
    /// Returns `None` unless all threads are in names, and their objects allow undeclared names
    /// that all have the same continuations.
    pub(super) fn undeclared_likeness(&mut self, config: Config) -> Option<EquivalentConfig> {
        let mut bytes = ByteSet::default();
        let threads = self.interner.threads_of(config).len();
        for at in 0..threads {
            let thread = self.interner.threads_of(config)[at];
            if !self.add_undeclared(thread, &mut bytes) {
                self.next.clear();
                return None;
            }
        }
        let other = self.gathered();
        (other != config).then_some(EquivalentConfig { other, bytes })
    }

    /// Adds the thread with an undeclared name to `next`, as the equivalent of `thread`. Adds the
    /// bytes over which the two threads may differ to `bytes`.
    ///
    /// Returns false if there is no equivalent thread.
    fn add_undeclared(&mut self, thread: u32, bytes: &mut ByteSet) -> bool {
        let Thread { stack, state: State::Key { at, other, name: UNREAD | UNKNOWN, decode }, text } =
            self.interner.thread(thread)
        else {
            return false;
        };
        if !self.is_open(stack) {
            return false;
        }
        if at == OUTSIDE {
            self.next.push(thread);
            return true;
        }
        let Some(rule) = self.object_rule(stack) else { return false };
        match decode {
            Decode::Whole => add_children(rule.names.node(at), bytes),
            _ => add_character(decode, bytes),
        }
        let decode = decode.forget(self.program.profile);
        self.items.text = text;
        self.push(stack, State::Key { at: OUTSIDE, other, name: UNKNOWN, decode });
        true
    }
}

fn add_gap(gap: GapRest, bytes: &mut ByteSet) {
    match gap {
        GapRest::Fixed { left: 0, .. } | GapRest::UpTo(0) => {}
        GapRest::Fixed { line, .. } => bytes.insert(if line { b'\n' } else { b' ' }),
        GapRest::UpTo(_) => bytes.extend(b" \n"),
        GapRest::Any => bytes.extend(b" \n\t\r"),
    }
}

/// Adds the bytes that may begin, in any spelling, a character for which `node` has a child. Also
/// adds the closing quote.
fn add_children(node: &TrieNode, bytes: &mut ByteSet) {
    bytes.extend(b"\"\\");
    for (c, _) in &node.children {
        let mut utf8 = [0; 4];
        bytes.insert(c.encode_utf8(&mut utf8).as_bytes()[0]);
    }
}

/// Adds the bytes that may begin, in any spelling, a character for which `state` has a transition.
/// Also adds the closing quote.
pub(super) fn add_transitions(texts: &Texts, state: u32, bytes: &mut ByteSet) {
    bytes.extend(b"\"\\");
    for &(low, high, _) in texts.dfa().transitions(state) {
        if low < 0x80 {
            bytes.insert_range(low.max(0x20) as u8, high.min(0x7f) as u8);
        }
        if high >= 0x80 {
            let first =
                |code: u32| char::from_u32(code).map_or(0xed, |c| c.encode_utf8(&mut [0; 4]).as_bytes()[0]);
            bytes.insert_range(first(low.max(0x80)), first(high));
        }
    }
}

/// Adds the bytes that may continue the character being read. Between two characters, adds the
/// bytes that may begin a character, and the closing quote.
pub(super) fn add_character(decode: Decode, bytes: &mut ByteSet) {
    match decode {
        Decode::Whole => bytes.insert_range(b' ', u8::MAX),
        Decode::Utf8 { low, high, .. } => bytes.insert_range(low, high),
        Decode::Escape => bytes.extend(b"\"\\/bfnrtu"),
        Decode::Hex { .. } | Decode::Low { .. } => bytes.extend(b"0123456789abcdefABCDEF"),
        Decode::High { .. } => bytes.insert(b'\\'),
        Decode::HighEscape { .. } => bytes.insert(b'u'),
    }
}
