//! Arrays whose items must differ (`uniqueItems`), and arrays in which two items must be equal (the
//! negation of `uniqueItems`).
//!
//! The frame of such an array has the set of values seen. A thread inside an item has the text of
//! the item so far. If such items are nested, the thread has the text of the outermost item, which
//! contains the others. When an item ends, its text is read as a value. The value must not be in
//! the set, and is then added to the set.
//!
//! Usually, the beginning of an item already differs from all values seen. From then on the item is
//! *apart*: it may become any value, as if items need not differ. Masks use this too. A thread in a
//! string or a name is [equivalent](crate::machine::ConfigPart::Equivalent) to a thread with an
//! unknown text. The two differ only over the few characters by which the item may still become a
//! value seen.
//!
//! If two items must be equal, the frame has the set of values seen until an item repeats a value.
//! If there is room for two more items, the item with the shortest text may come twice. If there is
//! room for only one more item, it must repeat a value seen.

use rustc_hash::FxHashMap;

use super::classes::add_character;
use super::intern::Thread;
use super::required::Candidate;
use super::search::FoundClosings;
use super::trace::{EMPTY, TextId, Trace};
use super::{Frame, JsonMachine, ROOT, StackId, State};
use crate::ByteSet;
use crate::ir::json::cost::Shortest;
use crate::ir::json::program::JsonProgram;
use crate::ir::json::spelling::Decode;
use crate::ir::json::values::{NOTHING, PAIRED, Prospect, SetId, ValueId, Values};
use crate::machine::{Config, EquivalentConfig};

/// State that all arrays with tracked items share.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) values: Values,
    pub(super) trace: Trace,
    /// Text of the item that the current thread is in, before the current byte. `text` is the text
    /// after the current byte.
    pub(super) before: TextId,
    pub(super) text: TextId,
    /// For each array rule, the values that its required items may have, the shortest first.
    pub(super) candidates: FxHashMap<u32, Vec<Candidate>>,
    /// For each array rule, the ids of the values that required items may need later.
    named: FxHashMap<u32, Box<[ValueId]>>,
    /// For each rule of an array in which two items must be equal, a shortest value of an item.
    pub(super) cheapest: FxHashMap<u32, ValueId>,
    /// For each array on top of a stack, the values that the current item must not have because a
    /// later item needs them. Sorted.
    critical: FxHashMap<StackId, Box<[ValueId]>>,
    /// For each trie of fixed strings, the value of each word, by the index of the word.
    words: FxHashMap<u32, Vec<ValueId>>,
    /// For each array on top of a stack and each text of an item, the forbidden or needed values
    /// that the item may still become. `None` if there are no such values.
    prospects: FxHashMap<(StackId, TextId), Option<Prospect>>,
    prospect_bytes: usize,
    /// True if a search collects threads. False if threads belong to the next config.
    pub(super) searching: bool,
    pub(super) known: FoundClosings,
}

impl Items {
    pub(super) fn new(program: &JsonProgram) -> Self {
        let mut items = Self::default();
        for (rule, array) in program.arrays.iter().enumerate() {
            if let Some(repeats) = &array.repeats
                && let Some(value) = items.values.value(&repeats.cheapest)
            {
                items.cheapest.insert(rule as u32, value);
                items.named.insert(rule as u32, [value].into());
            }
            let Some(required) = &array.required else { continue };
            let candidates = required.candidates(&mut items.values);
            let named = candidates.iter().map(|candidate| candidate.value).collect();
            items.named.insert(rule as u32, named);
            items.candidates.insert(rule as u32, candidates);
        }
        items
    }

    /// Records that the current item of the array on top of `stack` must not have the values
    /// `critical`.
    pub(super) fn set_critical(&mut self, stack: StackId, critical: Vec<ValueId>) {
        if !critical.is_empty() {
            self.prospect_bytes += 64 + size_of_val(&*critical);
            self.critical.insert(stack, critical.into());
        }
    }

    pub(super) fn byte_len(&self) -> usize {
        self.prospect_bytes + self.values.byte_len() + self.trace.byte_len() + self.known.byte_len()
    }
}

const fn in_string(state: State) -> bool {
    matches!(state, State::Text { .. } | State::Language { .. } | State::Word { .. } | State::Key { .. })
}

impl JsonMachine {
    /// Sets `items.before` and `items.text` to the text of a thread before and after `byte`.
    ///
    /// The text omits white space between tokens. Once the item is unknown, the text stays the
    /// same.
    pub(super) fn record(&mut self, Thread { stack, state, text }: Thread, byte: u8) {
        self.items.before = text;
        self.items.text = text;
        let tracking = self.interner.stack(stack).tracking;
        if tracking != ROOT
            && (in_string(state) || !byte.is_ascii_whitespace())
            && !self.is_unknown(stack, text)
        {
            self.items.text = self.items.trace.then(text, byte);
        }
    }

    /// Reports whether the text of the innermost tracked item has an unknown part. The texts of all
    /// items around it then have an unknown part too.
    pub(super) fn is_unknown(&self, stack: StackId, text: TextId) -> bool {
        let tracking = self.interner.stack(stack).tracking;
        let Some(Frame::Array { start, .. }) = self.interner.stack(tracking).frame else { return false };
        self.items.trace.hides(text, start)
    }

    /// Reports whether the top of `stack` is an array with tracked items that is not itself inside
    /// a tracked item.
    pub(super) fn is_outermost(&self, stack: StackId) -> bool {
        let top = self.interner.stack(stack);
        top.tracking == stack && self.interner.stack(top.parent).tracking == ROOT
    }

    /// Returns the stack after the end of the current item of the array on top of `stack`. The
    /// item's text has been recorded.
    ///
    /// Returns `None` if the array does not allow the value of the item.
    pub(super) fn end_item(&mut self, stack: StackId) -> Option<StackId> {
        let top = *self.interner.stack(stack);
        let Some(Frame::Array { rule, items, counts, seen, start }) = top.frame else { return Some(stack) };
        let array = &self.program.arrays[rule as usize];
        let repeats = array.repeats.is_some();
        if !array.unique && (!repeats || seen == PAIRED) {
            return Some(stack);
        }
        let last = array.max == Some(items);
        let Items { values, trace, text, critical, .. } = &mut self.items;
        let mut seen = seen;
        if !trace.hides(*text, start) {
            let value = values.value(&trace.bytes(*text, start))?;
            if critical.get(&stack).is_some_and(|critical| critical.binary_search(&value).is_ok()) {
                return None;
            }
            seen = match values.with(seen, value) {
                None if repeats => PAIRED,
                // The last item must be equal to an earlier one.
                Some(_) if repeats && last => return None,
                with => with?,
            };
        }
        if self.is_outermost(stack) {
            self.items.text = EMPTY;
        }
        let seen = if last && !repeats { NOTHING } else { seen };
        self.stack(top.parent, Frame::Array { rule, items, counts, seen, start: 0 })
    }

    /// Returns the stack after a number that ends before `byte`. The number may be an item of the
    /// array on top of `stack`.
    pub(super) fn end_number(&mut self, stack: StackId, byte: u8) -> Option<StackId> {
        if stack == ROOT || self.interner.stack(stack).tracking != stack {
            return Some(stack);
        }
        self.items.text = self.items.before;
        let stack = self.end_item(stack)?;
        let text = self.items.text;
        if !self.is_outermost(stack) && !byte.is_ascii_whitespace() && !self.is_unknown(stack, text) {
            self.items.text = self.items.trace.then(text, byte);
        }
        Some(stack)
    }

    /// Reports whether the current item of the array on top of `stack` is *apart*: it can become no
    /// value seen, and no value that a later required item may need.
    ///
    /// `seen` is the set of values seen. The item begins at offset `start` of `text`.
    pub(super) fn is_apart(&mut self, stack: StackId, (seen, start): (SetId, u32), text: TextId) -> bool {
        let top = self.interner.stack(stack);
        let rule = top.frame.filter(|_| !top.closable).map_or(u32::MAX, Frame::rule);
        let Items { values, trace, prospects, prospect_bytes, named, .. } = &mut self.items;
        let others: &[ValueId] = named.get(&rule).map_or(&[], |named| named);
        if (seen == NOTHING && others.is_empty()) || trace.hides(text, start) {
            return true;
        }
        if trace.len(text) <= start {
            return false;
        }
        if let Some(known) = prospects.get(&(stack, text)) {
            return known.is_none();
        }
        let prospect = match prospects.get(&(stack, trace.before(text))) {
            Some(None) => None,
            Some(Some(before)) => values.go_on(before, &trace.bytes(text, start + before.read)),
            None => values.go_on(&values.start(seen, others), &trace.bytes(text, start)),
        };
        *prospect_bytes += 64 + prospect.as_ref().map_or(0, Prospect::byte_len);
        let is_apart = prospect.is_none();
        prospects.insert((stack, text), prospect);
        is_apart
    }

    /// Returns the shortest text from the node `at` of a trie of fixed strings to the end of a word
    /// that is not in `seen`. `None` if there is no such word.
    pub(super) fn nearest_unseen(&mut self, trie: u32, at: u32, seen: SetId) -> Option<Shortest> {
        let Items { values, words, .. } = &mut self.items;
        let program = &self.program;
        let fixed = &program.words[trie as usize];
        let ids = words.entry(trie).or_insert_with(|| {
            let mut ids = vec![0; fixed.words().count()];
            for (index, word) in fixed.words() {
                ids[index as usize] = values.text(&word);
            }
            ids
        });
        let unseen = fixed.words_below(at).filter(|&(index, _)| !values.has(seen, ids[index as usize]));
        unseen.map(|(_, rest)| rest).min_by_key(|rest| rest.len)
    }

    /// Returns the thread with an unknown text that differs from all values seen, for a thread in a
    /// string or a name.
    ///
    /// If the item is apart, both threads allow the same continuations, except texts that contain
    /// another whole string after the current one. Returns `None` for all other threads, and if an
    /// array may run out of values.
    pub(super) fn unseen(&mut self, thread: Thread) -> Option<Thread> {
        let tracking = self.interner.stack(thread.stack).tracking;
        if tracking == ROOT || !in_string(thread.state) || matches!(thread.state, State::Word { .. }) {
            return None;
        }
        let Frame::Array { start, .. } = self.interner.stack(tracking).frame? else { return None };
        if self.items.trace.hides(thread.text, start) {
            return None;
        }
        let mut at = tracking;
        while at != ROOT {
            let stack = self.interner.stack(at);
            let Frame::Array { rule, .. } = stack.frame? else { return None };
            if !self.program.arrays[rule as usize].ample {
                return None;
            }
            at = self.interner.stack(stack.parent).tracking;
        }
        let state = self.unnamed_state(thread.stack, thread.state)?;
        Some(Thread { text: self.items.trace.unknown(start + 1), state, ..thread })
    }

    /// Returns the config with the thread of [`JsonMachine::unseen`], as the equivalent config of
    /// `config`.
    ///
    /// The `bytes` of the result are the bytes over which the item may continue towards a value
    /// seen.
    pub(super) fn unseen_likeness(&mut self, config: Config) -> Option<EquivalentConfig> {
        let &[thread] = self.interner.threads_of(config) else { return None };
        let thread = self.interner.thread(thread);
        let unseen = self.unseen(thread)?;
        self.items.text = unseen.text;
        self.push(unseen.stack, unseen.state);
        let other = self.gathered();
        let mut bytes = self.towards_seen(thread);
        self.add_rivals(thread.state, &mut bytes);
        Some(EquivalentConfig { other, bytes })
    }

    /// Returns the bytes over which the current items of all open arrays may continue towards a
    /// value seen.
    fn towards_seen(&mut self, Thread { stack, state, text }: Thread) -> ByteSet {
        let mut bytes = ByteSet::default();
        let mut at = self.interner.stack(stack).contested;
        while at != ROOT {
            let stack = *self.interner.stack(at);
            if let Some(Frame::Array { seen, start, .. }) = stack.frame
                && !self.is_apart(at, (seen, start), text)
            {
                let prospect = self.items.prospects.get(&(at, text)).and_then(Option::as_ref);
                let (chars, ends) =
                    prospect.map(|known| self.items.values.next_chars(known)).unwrap_or_default();
                add_next(state, &chars, ends, &mut bytes);
            }
            at = self.interner.stack(stack.parent).contested;
        }
        bytes
    }
}

/// Adds the bytes that may begin one of `chars` in any spelling. If `ends` is true, also adds the
/// closing quote.
///
/// If a character is being read in `state`, adds the bytes that may continue the character instead.
pub(super) fn add_next(state: State, chars: &[char], ends: bool, bytes: &mut ByteSet) {
    if let State::Text { decode, .. } | State::Language { decode, .. } | State::Key { decode, .. } = state
        && decode != Decode::Whole
    {
        return add_character(decode, bytes);
    }
    if ends {
        bytes.insert(b'"');
    }
    for c in chars {
        bytes.insert(b'\\');
        bytes.insert(c.encode_utf8(&mut [0; 4]).as_bytes()[0]);
    }
}
