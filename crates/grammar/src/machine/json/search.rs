//! Searches for the shortest completion of a thread inside an item that must differ from other
//! items.
//!
//! If items need not differ, the length of a shortest completion is computed directly
//! ([`closing`](super::closing)). If they must differ, this length is only a lower bound. It is
//! exact for a *settled* thread. A thread is settled if no open item can still become a value seen,
//! and if each open array needs no more items or has a plan for them
//! ([`required`](super::required)).
//!
//! From any other thread, an A* search finds a shortest path to a settled thread. The lower bound
//! is the search's estimate. Usually, the first path tried already leads to a settled thread. The
//! completions of all threads on the path are stored, so that the machine can follow the path.
//!
//! The search tries one spelling of each value, the generated spelling, unless the text has begun
//! another one. The number of places that it visits is bounded. At the limit, the search returns
//! the best completion found so far. If there is none, the search continues from the longest path
//! until it finds any completion. If that fails too, the thread counts as a thread without a
//! completion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::intern::Thread;
use super::trace::{EMPTY, TextId};
use super::{Frame, JsonMachine, ROOT, State};
use crate::ByteSet;
use crate::ir::json::cost::Shortest;
use crate::ir::json::layout::GapRest;
use crate::ir::json::program::ItemText;
use crate::ir::json::spelling::{Decode, Decoded};
use crate::options::Profile;

/// Number of places after which a search without a result expands the longest path first. The
/// search ends after twice this number.
const FUEL: usize = 1 << 14;

/// Number of places after which the search for the values of a node expands the longest path first.
/// The search ends after twice this number.
const PLACES: usize = 1 << 16;

/// Maximum number of consecutive zeros in a number that a search tries.
const ZEROS: usize = 20;

/// A gap without white space.
const NO_GAP: GapRest = GapRest::Fixed { left: 0, line: false };

/// Results of searches, kept for later searches.
#[derive(Debug, Default)]
pub(super) struct FoundClosings {
    /// For each thread before the first byte of an item, its shortest completion. `None` if it has
    /// no completion.
    starts: FxHashMap<Thread, Option<Shortest>>,
    /// The threads that the last byte leads to, each with a lower bound of its shortest completion.
    found: Vec<(Thread, Shortest)>,
}

impl FoundClosings {
    pub(super) fn byte_len(&self) -> usize {
        self.starts.len() * 2 * size_of::<(Thread, Option<Shortest>)>()
    }
}

/// The shortest completion of a thread, as far as it is known without a search.
enum Outlook {
    Unknown,
    /// The thread has no completion.
    Dead,
    Closing(Shortest),
}

impl Outlook {
    fn of(closing: Option<Shortest>) -> Self {
        closing.map_or(Self::Dead, Self::Closing)
    }
}

/// A thread that a search has reached.
struct Place {
    thread: Thread,
    /// Lower bound of the shortest completion of `thread`.
    least: Shortest,
    parent: u32,
    byte: u8,
    bytes: u32,
    /// True if the search itself has chosen the spelling of the token being read. False if the text
    /// before the search began the token.
    chosen: bool,
    /// Number of consecutive zeros at the end of the number being read.
    zeros: usize,
    /// The byte over which the place has been expanded; `None` before the first expansion.
    tried: Option<u8>,
}

/// The places of a search, with a queue of the places to expand.
///
/// The queue is ordered by the number of bytes of the path plus the completion. Among places with
/// equal numbers, the longest path comes first.
#[derive(Default)]
struct Frontier {
    places: Vec<Place>,
    open: BinaryHeap<Reverse<(u32, Reverse<u32>, u32)>>,
    /// True if the longest path is expanded first, regardless of the cost of its completion. This
    /// finds some completion soon, but perhaps not the shortest one.
    deep: bool,
    /// True if the search lists values instead of finding one completion.
    lists: bool,
    /// The shortest complete path found so far: its number of bytes including the completion, the
    /// index of its last place, and the completion from there.
    best: Option<(u32, u32, Shortest)>,
}

impl Frontier {
    fn new(thread: Thread, least: Shortest, chosen: bool) -> Self {
        let mut frontier = Self::default();
        frontier.add(Place { thread, least, parent: 0, byte: 0, bytes: 0, chosen, zeros: 0, tried: None });
        frontier
    }

    fn add(&mut self, place: Place) {
        self.places.push(place);
        self.reopen(self.places.len() as u32 - 1);
    }

    fn reopen(&mut self, id: u32) {
        let place = &self.places[id as usize];
        // A reopened place ranks behind equally long ones, since bytes other than the best one
        // usually cost more. In a list of values, this puts values that are almost complete first.
        let again = u32::from((self.lists || self.deep) && place.tried.is_some());
        let whole = place.bytes.saturating_add(place.least.len).saturating_add(again);
        let key = if self.deep {
            (again << 31 | (u32::MAX >> 1).saturating_sub(place.bytes), u32::MAX - whole)
        } else {
            (whole, place.bytes)
        };
        self.open.push(Reverse((key.0, Reverse(key.1), id)));
    }

    /// Records that the last place in `places`, which has a path of `bytes` bytes, has the
    /// completion `closing`.
    fn note(&mut self, bytes: u32, closing: Shortest) {
        let whole = bytes.saturating_add(closing.len);
        if self.best.is_none_or(|(best, ..)| whole < best) {
            self.best = Some((whole, self.places.len() as u32 - 1, closing));
        }
    }

    fn go_deep(&mut self) {
        self.deep = true;
        for Reverse((.., id)) in std::mem::take(&mut self.open) {
            self.reopen(id);
        }
    }

    fn next(&mut self) -> Option<u32> {
        self.open.pop().map(|Reverse((.., id))| id)
    }
}

impl JsonMachine {
    /// Returns the shortest completion of a thread, with a search if necessary. Returns `None` if
    /// the thread has no completion.
    pub(super) fn exact_closing(&mut self, thread: Thread) -> Option<Shortest> {
        let relaxed = self.closing(thread.stack, thread.state)?;
        match self.known_closing(thread, relaxed) {
            Outlook::Closing(closing) => return Some(closing),
            Outlook::Dead => return None,
            Outlook::Unknown => {}
        }
        let State::Value { node, gap } = thread.state else { return self.search(thread, relaxed) };
        // The white space before an item does not affect its completion.
        let start = Thread { state: State::Value { node, gap: NO_GAP }, ..thread };
        if let Some(known) = self.items.known.starts.get(&start) {
            return Some((*known)?.after(gap.closing()));
        }
        let least = self.closing(start.stack, start.state)?;
        let found = self.search(start, least);
        self.items.known.starts.insert(start, found);
        Some(found?.after(gap.closing()))
    }

    /// Returns the shortest completion of a thread if it can be computed without a search.
    ///
    /// `relaxed` is the shortest completion if items need not differ.
    fn known_closing(&mut self, thread: Thread, relaxed: Shortest) -> Outlook {
        let Thread { stack, state, text } = thread;
        let mut at = self.interner.stack(stack).contested;
        let mut closing = Some(relaxed);
        while at != ROOT {
            let top = *self.interner.stack(at);
            let Some(Frame::Array { rule, items, counts, seen, start }) = top.frame else { break };
            let array = &self.program.arrays[rule as usize];
            let enough = top.closable;
            if let Some(repeats) = &array.repeats {
                let (from, last) = (repeats.from, array.max == Some(items));
                let inside = at != stack || !matches!(state, State::AfterValue);
                let apart = items <= from || !inside || self.is_apart(at, (seen, start), text);
                match self.one_more_equal((rule, seen), items, top.depth) {
                    Some(more) if apart => closing = closing.map(|closing| closing.then(more)),
                    None if inside && last && apart => return Outlook::Dead,
                    _ => return Outlook::Unknown,
                }
                at = self.interner.stack(top.parent).contested;
                continue;
            }
            let settled = match state {
                State::ArrayStart { .. } if at == stack => true,
                State::AfterValue | State::Close { .. } if at == stack => enough || array.required.is_some(),
                State::Value { node, gap }
                    if at == stack
                        && let Some(plan) =
                            self.plan((rule, seen), (items, counts), top.depth, Some(node)) =>
                {
                    let rest = self.between(plan.items - 1, top.depth).saturating_add(plan.bytes);
                    let below = self.interner.stack(top.parent).total;
                    closing = Some(Shortest::new(rest, plan.first).after(gap.closing()).then(below));
                    true
                }
                // The string is the whole item, so it must be a word that has not been seen.
                State::Word { trie, at: node, decode: Decode::Whole } if at == stack && enough => {
                    closing = self.nearest_unseen(trie, node, seen).map(|word| word.then(top.total));
                    true
                }
                _ => (enough || array.required.is_some()) && self.is_apart(at, (seen, start), text),
            };
            if !settled {
                return Outlook::Unknown;
            }
            at = self.interner.stack(top.parent).contested;
        }
        Outlook::of(closing)
    }

    /// Searches for the shortest path from `thread` to a settled thread, and returns the completion
    /// along this path. `least` is a lower bound of the completion.
    fn search(&mut self, thread: Thread, least: Shortest) -> Option<Shortest> {
        let registers = (self.items.before, self.items.text);
        let mut frontier = Frontier::new(thread, least, false);
        let mut found = None;
        let rule = self.interner.stack(self.interner.stack(thread.stack).contested).frame.map(Frame::rule);
        // Any two equal items will do; finding the shortest two takes too long.
        frontier.deep = rule.is_some_and(|rule| self.program.arrays[rule as usize].repeats.is_some());
        while frontier.places.len() < 2 * FUEL {
            if frontier.places.len() > FUEL && !frontier.deep {
                if frontier.best.is_some() {
                    break;
                }
                frontier.go_deep();
            }
            let Some(id) = frontier.next() else { break };
            let Place { thread, least, .. } = frontier.places[id as usize];
            match self.outlook(thread, least) {
                // The estimate was too low, so another place may come first now.
                Outlook::Closing(closing) if closing.len > least.len && !frontier.deep => {
                    frontier.places[id as usize].least = closing;
                    frontier.reopen(id);
                }
                Outlook::Closing(closing) => {
                    found = Some(self.note_way(&frontier, id, closing));
                    break;
                }
                Outlook::Dead => {}
                Outlook::Unknown => self.expand(&mut frontier, id),
            }
        }
        if found.is_none()
            && let Some((_, id, closing)) = frontier.best
        {
            found = Some(self.note_way(&frontier, id, closing));
        }
        (self.items.before, self.items.text) = registers;
        found
    }

    fn outlook(&mut self, thread: Thread, least: Shortest) -> Outlook {
        match self.interner.find_thread(thread) {
            Some(known) => Outlook::Closing(self.interner.thread_closing(known)),
            None => self.known_closing(thread, least),
        }
    }

    /// Interns the threads on the path to the place `id`, each with its completion. `closing` is
    /// the completion of the thread at `id`. Returns the completion of the first thread.
    fn note_way(&mut self, frontier: &Frontier, mut id: u32, mut closing: Shortest) -> Shortest {
        loop {
            let &Place { thread, parent, byte, .. } = &frontier.places[id as usize];
            if self.interner.find_thread(thread).is_none() {
                self.interner.add_thread(thread, closing);
            }
            if id == 0 {
                return closing;
            }
            closing = Shortest::new(closing.len.saturating_add(1), byte);
            id = parent;
        }
    }

    /// Expands a place over the byte that would be best if items need not differ.
    ///
    /// If the place has been expanded before, expands it over all other bytes instead.
    fn expand(&mut self, frontier: &mut Frontier, id: u32) {
        let &Place { thread, least, chosen, tried, zeros, .. } = &frontier.places[id as usize];
        let bytes = match tried {
            None => self.closing_number(thread).into_iter().chain([least.first]).collect(),
            Some(tried) => {
                let closing = self.closing_number(thread).unwrap_or(tried);
                self.worth_trying(thread, chosen, zeros).without(&[tried, closing])
            }
        };
        for byte in bytes.iter() {
            self.items.searching = true;
            self.advance(thread, byte);
            self.items.searching = false;
            let place = &frontier.places[id as usize];
            let chosen = chosen || is_between(thread.state);
            let zeros = if byte == b'0' { zeros + 1 } else { 0 };
            let bytes = place.bytes + 1;
            let mut found = std::mem::take(&mut self.items.known.found);
            for (thread, least) in found.drain(..) {
                frontier.add(Place { thread, least, parent: id, byte, bytes, chosen, zeros, tried: None });
                if !frontier.lists
                    && matches!(thread.state, State::AfterValue)
                    && let Outlook::Closing(closing) = self.outlook(thread, least)
                {
                    frontier.note(bytes, closing);
                }
            }
            self.items.known.found = found;
        }
        if tried.is_none() {
            frontier.places[id as usize].tried = Some(least.first);
            frontier.reopen(id);
        }
    }

    /// Returns the byte that would close the array after a number, in an array in which two items
    /// must be equal.
    ///
    /// The estimate does not consider this byte, because the array may close only if the complete
    /// number repeats a value.
    fn closing_number(&self, Thread { stack, state, .. }: Thread) -> Option<u8> {
        let top = self.interner.stack(stack);
        let (State::Number { .. }, Some(Frame::Array { rule, .. })) = (state, top.frame) else { return None };
        self.program.arrays[rule as usize].repeats.as_ref()?;
        let gap = self.program.spacing.bracket.rest(top.depth - 1).closing();
        Some(Shortest::new(1, b']').after(gap).first)
    }

    /// Adds a thread to the threads that the current byte of a search leads to.
    pub(super) fn push_found(&mut self, thread: Thread) {
        let known = self.interner.find_thread(thread).map(|known| self.interner.thread_closing(known));
        let least = known.or_else(|| self.closing(thread.stack, thread.state));
        self.items.known.found.extend(least.map(|least| (thread, least)));
    }

    /// Returns the bytes over which a search expands `thread`. Bytes that only lead to another
    /// spelling of the same value are omitted.
    fn worth_trying(&self, thread: Thread, chosen: bool, zeros: usize) -> ByteSet {
        let plausible = self.plausible_in(thread.stack, thread.state);
        let is_number = matches!(thread.state, State::Number { .. });
        let exponent = is_number.then(|| self.exponent_of_zero(thread.text)).flatten();
        let keep = |byte: u8| match thread.state {
            State::Text { rule, decode, .. } => {
                let unbounded = self.program.texts[rule as usize].max.is_none();
                let plain = (b' '..0x7f).contains(&byte) && byte != b'\\';
                is_generated(decode, chosen, byte) && (plain || !unbounded || decode != Decode::Whole)
            }
            State::Language { decode, .. } | State::Word { decode, .. } | State::Key { decode, .. } => {
                is_generated(decode, chosen, byte)
            }
            State::Number { .. } => {
                (byte != b'0' || zeros < ZEROS)
                    && !(chosen && matches!(byte, b'e' | b'E'))
                    && exponent.is_none_or(|begun| !byte.is_ascii_digit() || (!begun && byte == b'0'))
            }
            State::Value { gap, .. }
            | State::ArrayStart { gap }
            | State::ObjectStart { gap }
            | State::KeyStart { gap }
            | State::Colon { gap, .. }
            | State::Close { gap } => gap.is_fixed() || !byte.is_ascii_whitespace(),
            State::AfterValue | State::End => {
                !byte.is_ascii_whitespace() || self.program.spacing.bracket.rest(0).is_fixed()
            }
            State::Literal { .. } => true,
        };
        plausible.iter().filter(|&byte| keep(byte)).collect()
    }

    /// Returns `Some` if `text` ends in the exponent of a zero, such as `0.0e5`. The value is true
    /// if the exponent has a digit.
    ///
    /// All exponents of a zero have the same value, so a search needs to try only one.
    fn exponent_of_zero(&self, text: TextId) -> Option<bool> {
        let mut bytes = self.items.trace.backwards(text);
        let digits = bytes.by_ref().take_while(|byte| !matches!(byte, b'e' | b'E'));
        let mut has_digit = false;
        for byte in digits {
            match byte {
                b'0'..=b'9' => has_digit = true,
                b'+' | b'-' => {}
                _ => return None,
            }
        }
        let mut mantissa = bytes.take_while(|byte| byte.is_ascii_digit() || *byte == b'.').peekable();
        mantissa.peek()?;
        mantissa.all(|byte| matches!(byte, b'0' | b'.')).then_some(has_digit)
    }

    /// Returns one text for each of `count` different values of `node`, usually the shortest first.
    /// If the node has fewer values, returns one text for each of them.
    ///
    /// Returns `None` if the search would visit too many places.
    pub(crate) fn cheapest(&mut self, node: u32, count: usize) -> Option<Vec<ItemText>> {
        let thread = Thread { stack: ROOT, state: State::Value { node, gap: NO_GAP }, text: EMPTY };
        let Some(least) = self.closing(ROOT, thread.state) else { return Some(Vec::new()) };
        let mut frontier = Frontier::new(thread, least, true);
        frontier.lists = true;
        let (mut texts, mut known) = (Vec::new(), FxHashSet::default());
        while frontier.places.len() < 2 * PLACES {
            if frontier.places.len() > PLACES && !frontier.deep {
                frontier.go_deep();
            }
            let Some(id) = frontier.next() else { return Some(texts) };
            let place = &frontier.places[id as usize];
            if place.least.len == 0 && place.tried.is_none() {
                let text = text_of(&frontier, id);
                let compact = compact(&text);
                let value = self.items.values.value(&compact);
                if value.is_some_and(|value| known.insert(value)) {
                    let lines = text.split(|&byte| byte == b'\n').count() as u32 - 1;
                    texts.push(ItemText { compact: compact.into(), bytes: text.len() as u32, lines });
                }
                if texts.len() == count {
                    return Some(texts);
                }
                // The text may end here, so no byte is the best one.
                frontier.places[id as usize].tried = Some(0);
            }
            if !matches!(frontier.places[id as usize].thread.state, State::End) {
                self.expand(&mut frontier, id);
            }
        }
        None
    }
}

/// Returns a JSON text without the white space between its tokens.
fn compact(text: &[u8]) -> Vec<u8> {
    let (mut inside, mut escaped) = (false, false);
    let mut keep = |byte: u8| {
        let kept = inside || !byte.is_ascii_whitespace();
        inside ^= byte == b'"' && !escaped;
        escaped = inside && byte == b'\\' && !escaped;
        kept
    };
    text.iter().copied().filter(|&byte| keep(byte)).collect()
}

/// Reports whether the next byte begins a token, or a character of a string. The search can then
/// choose the spelling.
const fn is_between(state: State) -> bool {
    match state {
        State::Literal { .. } | State::Number { .. } => false,
        State::Text { decode, .. }
        | State::Language { decode, .. }
        | State::Word { decode, .. }
        | State::Key { decode, .. } => matches!(decode, Decode::Whole),
        _ => true,
    }
}

/// Reports whether the search tries `byte` at a position in a string. This is so if generated
/// strings may have `byte` here, or if the text before the search has begun the character.
fn is_generated(decode: Decode, chosen: bool, byte: u8) -> bool {
    (!chosen && decode != Decode::Whole) || !matches!(decode.step(byte, Profile::Generate), Decoded::Reject)
}

/// Returns the bytes on the path to a place.
fn text_of(frontier: &Frontier, mut id: u32) -> Vec<u8> {
    let mut text = Vec::new();
    while id != 0 {
        let place = &frontier.places[id as usize];
        text.push(place.byte);
        id = place.parent;
    }
    text.reverse();
    text
}
