//! The shortest completions of threads in items that must differ.
//!
//! Without regard to that the length of a shortest completion is known at once ([`closing`](super::closing)); it is never
//! too large, and it is exact for a thread that is *settled*: no item on its stack can still become a value seen, and no
//! array needs more items, or it is known which. From any other thread the way to a settled one is searched, best first,
//! with that length as the estimate (A*). Mostly the first way tried is one. What is found is kept for every thread on the
//! way, so that it can be followed.
//!
//! The search takes one spelling of each value only, as generated texts have them, beside what a spelling that has been
//! begun makes necessary. Its fuel is bounded: where it runs out, the thread counts as one without a completion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::cost::Shortest;
use super::intern::Thread;
use super::layout::Rest;
use super::spelling::{Decode, Decoded};
use super::trace::EMPTY;
use super::values::NOTHING;
use super::{Frame, JsonMachine, ROOT, State};
use crate::ByteSet;
use crate::frontend::json_schema::Profile;

/// The most threads that one search looks at.
const FUEL: usize = 1 << 12;

/// The most that the search for the cheapest values of a node looks at.
const VALUES_FUEL: usize = 1 << 16;

/// The most zeros in a row that a fraction has in a search.
const ZEROS: usize = 20;

/// No white space.
const NO_GAP: Rest = Rest::Fixed { left: 0, line: false };

/// What searches have found.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// From the first byte of an item.
    starts: FxHashMap<Thread, Option<Shortest>>,
    /// The threads come to over the last byte, with the least that their completions take.
    found: Vec<(Thread, Shortest)>,
}

impl Known {
    pub(super) fn byte_len(&self) -> usize {
        self.starts.len() * 2 * size_of::<(Thread, Option<Shortest>)>()
    }
}

/// What is known of a thread's completions without a search.
enum Outlook {
    Unknown,
    /// It has none.
    Dead,
    Closing(Shortest),
}

impl Outlook {
    fn of(closing: Option<Shortest>) -> Self {
        closing.map_or(Self::Dead, Self::Closing)
    }
}

/// A thread that a search has come to.
struct Place {
    thread: Thread,
    /// The least that a completion takes.
    least: Shortest,
    parent: u32,
    byte: u8,
    bytes: u32,
    /// Whether the spelling of what is being read was chosen by the search.
    chosen: bool,
    /// Zeros at the end of the number being read.
    zeros: usize,
    /// The byte that has been tried already.
    tried: Option<u8>,
}

/// The places of a search, and those to go on from: by the bytes of a completion, the longest way so far first.
#[derive(Default)]
struct Frontier {
    places: Vec<Place>,
    open: BinaryHeap<Reverse<(u32, Reverse<u32>, u32)>>,
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
        self.open.push(Reverse((place.bytes.saturating_add(place.least.len), Reverse(place.bytes), id)));
    }

    fn next(&mut self) -> Option<u32> {
        self.open.pop().map(|Reverse((.., id))| id)
    }
}

impl JsonMachine {
    /// The shortest completion of a thread.
    pub(super) fn exact_closing(&mut self, thread: Thread) -> Option<Shortest> {
        let relaxed = self.closing(thread.stack, thread.state)?;
        match self.known_closing(thread, relaxed) {
            Outlook::Closing(closing) => return Some(closing),
            Outlook::Dead => return None,
            Outlook::Unknown => {}
        }
        let State::Value { node, gap } = thread.state else { return self.search(thread, relaxed) };
        // The white space before an item makes no difference to it.
        let start = Thread { state: State::Value { node, gap: NO_GAP }, ..thread };
        if let Some(known) = self.items.known.starts.get(&start) {
            return Some((*known)?.after(gap.closing()));
        }
        let least = self.closing(start.stack, start.state)?;
        let found = self.search(start, least);
        self.items.known.starts.insert(start, found);
        Some(found?.after(gap.closing()))
    }

    /// The shortest completion of a thread, or that it has none, where that is known without a search; `relaxed` is it if
    /// items need not differ.
    fn known_closing(&mut self, thread: Thread, relaxed: Shortest) -> Outlook {
        let Thread { stack, state, text } = thread;
        let mut at = self.interner.stack(stack).contested;
        let mut closing = Some(relaxed);
        while at != ROOT {
            let top = *self.interner.stack(at);
            let Some(Frame::Array { rule, items, counts, seen, start }) = top.frame else { break };
            let array = &self.program.arrays[rule as usize];
            let enough = array.closable(items, self.interner.counts(counts));
            let settled = match state {
                State::ArrayStart { .. } if at == stack => true,
                State::AfterValue | State::Close { .. } if at == stack => {
                    enough || !array.distinct.is_empty()
                }
                State::Value { gap, .. }
                    if at == stack && items <= array.min && self.items.least.contains_key(&rule) =>
                {
                    let item = self.distinct_item(rule, (items, seen), top.depth);
                    let below = self.interner.stack(top.parent).total;
                    closing = item.map(|item| item.after(gap.closing()).then(below));
                    true
                }
                // The string is the item.
                State::Word { trie, at: node, decode: Decode::Whole } if at == stack && enough => {
                    closing = self.nearest_unseen(trie, node, seen).map(|word| word.then(top.total));
                    true
                }
                _ => enough && self.is_apart(at, (seen, start), text),
            };
            if !settled {
                return Outlook::Unknown;
            }
            at = self.interner.stack(top.parent).contested;
        }
        Outlook::of(closing)
    }

    /// A required item and all after it.
    fn distinct_item(&self, rule: u32, (items, seen): (u32, u32), depth: u32) -> Option<Shortest> {
        let array = &self.program.arrays[rule as usize];
        let least = self.items.least.get(&rule)?;
        let at = least.iter().position(|&(value, _)| !self.items.values.has(seen, value))?;
        let after = self.after_distinct(&least[at + 1..], (items, array.min), seen, depth)?;
        Some(Shortest::new(least[at].1, array.distinct[at][0]).then(after))
    }

    /// The shortest way from a thread to a settled one, and on from there.
    fn search(&mut self, thread: Thread, least: Shortest) -> Option<Shortest> {
        let registers = (self.items.before, self.items.text);
        let mut frontier = Frontier::new(thread, least, false);
        let mut found = None;
        for _ in 0..FUEL {
            let Some(id) = frontier.next() else { break };
            let Place { thread, least, .. } = frontier.places[id as usize];
            let known = match self.interner.find_thread(thread) {
                Some(known) => Outlook::Closing(self.interner.thread_closing(known)),
                None => self.known_closing(thread, least),
            };
            match known {
                // The estimate was too low; others may be better now.
                Outlook::Closing(closing) if closing.len > least.len => {
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
        (self.items.before, self.items.text) = registers;
        found
    }

    /// Adds the threads on the way to a place, with their completions; returns that of the first.
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

    /// Goes on from a place: over the byte that is best if items need not differ, and, when its turn comes again, over
    /// all others.
    fn expand(&mut self, frontier: &mut Frontier, id: u32) {
        let &Place { thread, least, chosen, tried, zeros, .. } = &frontier.places[id as usize];
        let bytes = match tried {
            None => ByteSet::from_iter([least.first]),
            Some(tried) => self.worth_trying(thread, chosen, zeros).without(&[tried]),
        };
        for byte in bytes.iter() {
            self.items.searching = true;
            self.advance(thread, byte);
            self.items.searching = false;
            let place = &frontier.places[id as usize];
            let chosen = chosen || is_between(thread.state);
            let zeros = if byte == b'0' { zeros + 1 } else { 0 };
            let bytes = place.bytes + 1;
            for (thread, least) in self.items.known.found.drain(..) {
                frontier.add(Place { thread, least, parent: id, byte, bytes, chosen, zeros, tried: None });
            }
        }
        if tried.is_none() {
            frontier.places[id as usize].tried = Some(least.first);
            frontier.reopen(id);
        }
    }

    /// Gathers a thread for a search.
    pub(super) fn push_found(&mut self, thread: Thread) {
        let known = self.interner.find_thread(thread).map(|known| self.interner.thread_closing(known));
        let least = known.or_else(|| self.closing(thread.stack, thread.state));
        self.items.known.found.extend(least.map(|least| (thread, least)));
    }

    /// The bytes that may lead to values not met yet, apart from those that only spell the same in another way.
    fn worth_trying(&self, thread: Thread, chosen: bool, zeros: usize) -> ByteSet {
        let plausible = self.plausible_in(thread.stack, thread.state);
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
                (byte != b'0' || zeros < ZEROS) && !(chosen && matches!(byte, b'e' | b'E'))
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

    /// The texts of the values of a node, one each, the shortest first: `count` of them, or all that there are. `None`
    /// where there are too many to go through.
    pub(crate) fn cheapest(&mut self, node: u32, count: usize) -> Option<Vec<Box<[u8]>>> {
        let thread = Thread { stack: ROOT, state: State::Value { node, gap: NO_GAP }, text: EMPTY };
        let Some(least) = self.closing(ROOT, thread.state) else { return Some(Vec::new()) };
        let mut frontier = Frontier::new(thread, least, true);
        let (mut texts, mut seen) = (Vec::new(), NOTHING);
        for _ in 0..VALUES_FUEL {
            let Some(id) = frontier.next() else { return Some(texts) };
            let place = &frontier.places[id as usize];
            if place.least.len == 0 && place.tried.is_none() {
                let text = text_of(&frontier, id);
                if let Some(value) = self.items.values.value(&text)
                    && let Some(more) = self.items.values.with(seen, value)
                {
                    seen = more;
                    texts.push(text.into());
                }
                if texts.len() == count {
                    return Some(texts);
                }
                // Nothing is best where the text may end.
                frontier.places[id as usize].tried = Some(0);
            }
            if !matches!(frontier.places[id as usize].thread.state, State::End) {
                self.expand(&mut frontier, id);
            }
        }
        None
    }
}

/// Whether the next byte begins a token, whose spelling then is the search's to choose.
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

/// Whether generated texts have a byte there.
fn is_generated(decode: Decode, chosen: bool, byte: u8) -> bool {
    (!chosen && decode != Decode::Whole) || !matches!(decode.step(byte, Profile::Generate), Decoded::Reject)
}

/// The bytes on the way to a place.
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
