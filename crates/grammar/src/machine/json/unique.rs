//! Arrays whose items must differ (`uniqueItems`), and arrays in which two items must be equal (its
//! negation).
//!
//! The frame of such an array holds the set of values seen. A thread inside an item holds the text
//! of the item. For nested items it holds the outermost text, which contains the others. When an
//! item ends, its text is read as a value. The value must not be in the set, and is added to it.
//!
//! Usually the beginning of an item already rules out all values seen. From then on the item is
//! *apart*: it may become anything, as if items need not differ. Masks use the same fact. A thread
//! in a string or a name is [equivalent](crate::machine::ConfigPart::Equivalent) to a thread with
//! an unknown text. They differ only over the few characters by which the item may still become a
//! value seen.
//!
//! If two items must be equal, the frame holds the same set until an item repeats a value. While
//! two more items fit, a shortest value may come twice. If only one more item fits, it must be one
//! of the values seen.

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

/// State of arrays whose items must differ.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) values: Values,
    pub(super) trace: Trace,
    /// Text of the thread being advanced, before the current byte; `text` includes that byte.
    pub(super) before: TextId,
    pub(super) text: TextId,
    /// By array rule, the values that its required items can have, the cheapest first.
    pub(super) candidates: FxHashMap<u32, Vec<Candidate>>,
    /// By array rule, the ids of the values that later items may need.
    named: FxHashMap<u32, Box<[ValueId]>>,
    /// By rule of an array in which two items must be equal, a shortest value of its items.
    pub(super) cheapest: FxHashMap<u32, ValueId>,
    /// By stack, the values that the current item must not have because a later item needs them, sorted.
    critical: FxHashMap<StackId, Box<[ValueId]>>,
    /// By trie, the values of its words, in the order of the words' indexes.
    words: FxHashMap<u32, Vec<ValueId>>,
    /// By the stack of an array and the text of an item, the values that the item may still become,
    /// if any.
    prospects: FxHashMap<(StackId, TextId), Option<Prospect>>,
    prospect_bytes: usize,
    /// True if threads are gathered for a search instead of the next config.
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

    /// Records the values that the current item of a stack must not have.
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
    /// Records the text of a thread before and after a byte.
    ///
    /// The text excludes white space between tokens, and the rest of an item that is unknown already.
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

    /// Reports whether the innermost item that must differ is unknown. All items around it are then
    /// unknown, too.
    pub(super) fn is_unknown(&self, stack: StackId, text: TextId) -> bool {
        let tracking = self.interner.stack(stack).tracking;
        let Some(Frame::Array { start, .. }) = self.interner.stack(tracking).frame else { return false };
        self.items.trace.hides(text, start)
    }

    /// Reports whether `stack` is an array with items that must differ, outside any item of another
    /// such array.
    pub(super) fn is_outermost(&self, stack: StackId) -> bool {
        let top = self.interner.stack(stack);
        top.tracking == stack && self.interner.stack(top.parent).tracking == ROOT
    }

    /// Returns the stack after the current item, whose text has been recorded.
    ///
    /// Returns `None` if the array does not allow the item's value.
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

    /// Returns the stack after a number that ends before `byte`.
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

    /// Reports whether the current item of an array cannot become any value that is forbidden or
    /// needed later.
    ///
    /// Forbidden values are those seen; later required items may need others. The array is on top
    /// of `stack`, and the item begins at `start` in the text.
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

    /// Returns the shortest text from a trie node of fixed strings to a word that has not been seen.
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

    /// Replaces the text of the item by an unknown one, for a thread in a string or a name.
    ///
    /// The unknown text differs from all values seen. If the item cannot become a value seen, the
    /// two threads have the same future. Texts that hold another whole string after this one are an
    /// exception. Returns `None` for other threads, and if the array may run out of values.
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

    /// Returns the equivalent config with the thread of [`JsonMachine::unseen`].
    ///
    /// The `bytes` of the result are those over which the item may continue towards a value seen.
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

    /// Returns the bytes over which an item may continue towards a value seen.
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

/// Adds the bytes that may begin one of `chars` in any spelling, or continue the character being read.
///
/// Adds the closing quote if `ends` is true and no character is being read.
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
