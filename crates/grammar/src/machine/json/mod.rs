//! The JSON machine: JSON text byte by byte against a compiled schema.
//!
//! JSON is deterministic, so no parse forest is needed. A *thread* is a stack and what is being read on top of it: a
//! stack node is an interned (parent, frame), a frame an open array with its number of items or an open object with the
//! names it has seen. A config is a set of threads, one for each alternative that the text so far leaves open, and mostly
//! that is a single one.
//!
//! Stacks, threads and configs are interned, so equal states have equal ids: inside a string without bounds every
//! character leads back to the same config, and counters stop where no bound can tell the counts apart.
//!
//! A thread that cannot be completed is never made. Each is interned with the length of its shortest completion: that
//! of the token being read plus, from the stack node, that of everything still open, which is summed as frames are
//! pushed. What has no such length is left out. Nothing here recurses, however deep the text nests.
//!
//! Where the items of an array must differ (`uniqueItems`), its frame has the set of the values seen, and a thread in an
//! item has the text of it ([`unique`]). Whether such an item can still become another value than those seen, and in how
//! few bytes, takes a search ([`search`]), unless its beginning tells it from all of them. What items are required after
//! it is an assignment of values to them ([`required`]).
//!
//! Where threads that differ only below open the same array or object, it is opened once, on a parent that stands for all
//! of their stacks, and when it closes each goes on. So alternatives of a recursive schema do not multiply with the depth:
//! a config has at most one stack for each way to be inside one value of each rule.
//!
//! No name comes twice in an object. Declared ones are told by their place among all that are declared; of undeclared ones
//! the frame of the object has the set of those seen, and a thread in a name has what has been read of it ([`names`]).
//!
//! # What it does not do
//! Alternatives that agree on a long prefix of one array or object are followed side by side.

pub(crate) mod classes;
mod closing;
mod describe;
mod fill;
mod groups;
mod intern;
mod names;
mod new_names;
mod repeated;
pub(crate) mod required;

mod rules;
pub(crate) mod search;
mod step;
mod tolerance;
mod trace;
mod unique;
mod unnamed;

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use formwork_vocab::TokenId;
use rustc_hash::FxHashMap;

use super::automaton::Automaton;
use super::{Config, ConfigPart, EquivalentConfig, Machine, Tolerance};
use crate::ByteSet;
use crate::ir::json::JsonProgram;
use crate::ir::json::layout::GapRest;
use crate::ir::json::needs::NameCounts;
use crate::ir::json::program::ObjectRule;
use crate::ir::json::spelling::Decode;
use crate::ir::json::values::SetId;
use crate::mask::named_tokens::NamedTokens;
use crate::options::Profile;
use closing::{Nearest, SeenLengths};
use intern::{Interner, Stack, Thread};
use names::{NameId, Names, NamesId};
use trace::EMPTY;
use unique::Items;

/// Runs a [`JsonProgram`].
#[derive(Debug)]
pub(crate) struct JsonMachine {
    program: Arc<JsonProgram>,
    interner: Interner,
    /// The threads of the config being built.
    next: Vec<u32>,
    /// What is known of items that must differ.
    items: Items,
    /// For objects whose members depend on each other, what comes after each declared name ([`closing`]).
    grouped: RefCell<FxHashMap<GroupedKey, Arc<[Option<u32>]>>>,
    grouped_bytes: Cell<usize>,
    /// The results of the last calls of [`seen_lengths`](JsonMachine::seen_lengths).
    seen_lengths: RefCell<VecDeque<SeenLengths>>,
    /// The nearest declared names of the last object with many.
    nearest: RefCell<Option<Nearest>>,
    /// The names of undeclared members.
    names: Names,
    /// By object and label, how many names there are of each length.
    name_counts: RefCell<FxHashMap<(u32, u32), NameCounts>>,
    /// The arrays and objects that the byte being read opens, and on which stacks.
    opened: Vec<(Frame, StackId)>,
    /// Whether some array counts items.
    counts: bool,
    /// A token may use up all undeclared names of some object.
    scarce: bool,
}

/// A rule, what has been seen, the alternatives that are out, and the depth.
type GroupedKey = (u32, u32, u32, u32);

/// An interned stack.
type StackId = u32;

/// The stack with nothing open.
const ROOT: StackId = 0;

/// An open array or object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Frame {
    /// `items` counts the one being read. Where items must differ, `seen` are the values before it, and `start` is where
    /// it begins in the text of the thread.
    /// `counts` are an id of the interner.
    Array { rule: u32, items: u32, counts: u32, seen: SetId, start: u32 },
    /// `seen` is the position in the declared order, or in any order the id of a set of members. The member whose name
    /// is being read is not in it. `members` is their number where the rule bounds it, and the set of the alternatives
    /// that are out where it has groups. `pending` are the obligations that no member has met yet.
    /// `names` are the undeclared names seen, as long as more may come.
    Object { rule: u32, seen: u32, members: u32, pending: u8, names: NamesId },
}

/// What is being read on top of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    /// A value is to come.
    Value {
        node: u32,
        gap: GapRest,
    },
    /// Inside `null`, `false` or `true`.
    Literal {
        literal: Literal,
        at: u8,
    },
    Number {
        dfa: u32,
        state: u32,
    },
    /// Inside a string of bounded length.
    Text {
        rule: u32,
        chars: u32,
        decode: Decode,
    },
    /// Inside a string of a language. `chars` stays zero where the rule has no bound.
    Language {
        rule: u32,
        state: u32,
        chars: u32,
        decode: Decode,
    },
    /// Inside one of several fixed strings.
    Word {
        trie: u32,
        at: u32,
        decode: Decode,
    },
    /// After `[`; the frame has no item yet.
    ArrayStart {
        gap: GapRest,
    },
    /// After `{`.
    ObjectStart {
        gap: GapRest,
    },
    /// A name is to come.
    KeyStart {
        gap: GapRest,
    },
    /// Inside a name: at a node of the object's trie, or [`OUTSIDE`], and at a state of the language that labels
    /// undeclared names: [`OUTSIDE`] once the name can only be a declared one, zero where there is no such language.
    /// `name` is what has been read of it, where that matters.
    Key {
        at: u32,
        other: u32,
        name: NameId,
        decode: Decode,
    },
    /// After a name.
    Colon {
        node: u32,
        gap: GapRest,
    },
    /// After an item or a member.
    AfterValue,
    /// Before the closing bracket.
    Close {
        gap: GapRest,
    },
    /// After the whole value.
    End,
}

/// The name being read has left the trie of declared ones, or the language of the others.
const OUTSIDE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Literal {
    Null,
    False,
    True,
}

impl Literal {
    const fn text(self) -> &'static [u8] {
        match self {
            Self::Null => b"null",
            Self::False => b"false",
            Self::True => b"true",
        }
    }
}

impl JsonProgram {
    /// Returns a shortest text.
    pub(crate) fn shortest_text(self: &Arc<Self>) -> Vec<u8> {
        let mut automaton = Automaton::new(Box::new(self.machine()));
        let start = automaton.start();
        automaton.closing(start)
    }

    /// A machine at the start of a value.
    pub(crate) fn machine(self: &Arc<Self>) -> JsonMachine {
        JsonMachine::new(Arc::clone(self))
    }
}

impl JsonMachine {
    fn new(program: Arc<JsonProgram>) -> Self {
        let items = Items::new(&program);
        let is_scarce = |rule: &ObjectRule| rule.tracks() && !unnamed::has_more(rule, 0);
        let scarce = program.objects.iter().any(is_scarce);
        let counts = program.arrays.iter().any(|rule| !rule.counters.is_empty());
        Self {
            program,
            interner: Interner::default(),
            next: Vec::new(),
            opened: Vec::new(),
            items,
            grouped: RefCell::default(),
            grouped_bytes: Cell::default(),
            nearest: RefCell::default(),
            seen_lengths: RefCell::default(),
            names: Names::default(),
            name_counts: RefCell::default(),
            counts,
            scarce,
        }
    }

    /// Drops the threads that are like another one except that an array has counted less. An item may be read as one that
    /// is not counted, even if it is, and what may follow then is part of what may follow otherwise.
    fn drop_dominated(&mut self) {
        let mut next = std::mem::take(&mut self.next);
        let mut alike = FxHashMap::<_, Vec<(u32, u32)>>::default();
        for &id in &next {
            let Thread { stack, state, text } = self.interner.thread(id);
            let &Stack { parent, frame, .. } = self.interner.stack(stack);
            if let Some(frame @ Frame::Array { counts, .. }) = frame {
                alike.entry((parent, frame.uncounted(), state, text)).or_default().push((id, counts));
            }
        }
        let mut dropped = Vec::new();
        for ((_, frame, ..), counted) in alike.into_iter().filter(|(_, counted)| counted.len() > 1) {
            let rule = &self.program.arrays[frame.rule() as usize];
            let counts = |at: usize| self.interner.counts(counted[at].1);
            let is_dominated = |at: usize| {
                (0..counted.len()).any(|other| other != at && rule.dominates(counts(other), counts(at)))
            };
            dropped.extend((0..counted.len()).filter(|&at| is_dominated(at)).map(|at| counted[at].0));
        }
        dropped.sort_unstable();
        next.retain(|id| dropped.binary_search(id).is_err());
        self.next = next;
    }

    /// The number of threads of a config.
    #[cfg(test)]
    fn threads(&self, config: Config) -> usize {
        self.interner.threads_of(config).len()
    }

    /// Interns the threads gathered in `next`.
    fn gathered(&mut self) -> Config {
        if !self.opened.is_empty() {
            self.enter_opened();
        }
        self.next.sort_unstable();
        self.next.dedup();
        if self.next.len() > 1 && self.counts {
            self.drop_dominated();
        }
        let config = self.interner.config(&self.next);
        self.next.clear();
        config
    }
}

/// The weight of a seen name in the search for a new one. Adding up a member has weight 1.
const NEW_NAME: usize = 64;
/// The transitions of an automaton of names that double the weight of a seen name.
const TRANSITIONS: usize = 16;
/// The weight of a thread, and the number of names that weigh as much as a place of a grammar.
const THREAD: usize = 4;
const NAMES: usize = 16;
/// The number of members summed up for each declared name that weigh as much as a name.
const SUMMED: usize = 4;

impl JsonMachine {
    /// Returns the config of the thread with the shortest completion alone.
    fn nearest(&mut self, config: Config) -> Config {
        let threads = self.interner.threads_of(config).iter().copied();
        match threads.min_by_key(|&thread| self.interner.thread_closing(thread).len) {
            Some(thread) => self.interner.config(&[thread]),
            None => config,
        }
    }

    /// Estimates the work of closing an object whose next name is being read: a sum over its members for each
    /// declared name that the text may become, and the search for a new name.
    fn names_below(&self, Thread { stack, state, .. }: Thread) -> usize {
        let State::Key { at, .. } = state else { return 0 };
        let Some(Frame::Object { rule, seen, names, .. }) = self.interner.stack(stack).frame else {
            return 0;
        };
        let rule = &self.program.objects[rule as usize];
        let is_any_order = self.program.order == crate::Order::Any;
        let members = if rule.counts() || is_any_order { rule.members.len() } else { 0 };
        let transitions = |labels: u32| self.program.languages[labels as usize].dfa().mean_transitions();
        let wide = NEW_NAME * (rule.labels.map_or(0, transitions) / TRANSITIONS);
        let names = self.names.count(names) as usize;
        let counted = rule.others.len().max(1) * (members + wide + (NEW_NAME + wide) * names);
        if at == OUTSIDE {
            return counted;
        }
        let below = rule.names.count_below(at);
        let grouped = !rule.groups.is_empty();
        let below = match self.program.order {
            crate::Order::Declared if !grouped => {
                below.min((rule.next_required[seen as usize].saturating_sub(seen)) as usize + 1)
            }
            _ => below,
        };
        if is_any_order && !grouped {
            return counted + below;
        }
        let each = if grouped || rule.counts() { rule.members.len() + rule.grouped_members() } else { 0 };
        counted + below * (1 + each / SUMMED)
    }
}

impl Machine for JsonMachine {
    fn start(&mut self) -> Config {
        let gap = self.program.spacing.around.rest(0);
        self.items.text = EMPTY;
        self.push(ROOT, State::Value { node: self.program.root, gap });
        self.gathered()
    }

    fn step(&mut self, config: Config, byte: u8) -> Config {
        for at in 0..self.interner.threads_of(config).len() {
            let thread = self.interner.threads_of(config)[at];
            let thread = self.interner.thread(thread);
            self.advance(thread, byte);
        }
        self.gathered()
    }

    fn accepting(&self, config: Config) -> bool {
        self.interner.closing(config).is_some_and(|closing| closing.len == 0)
    }

    fn closing_len(&self, config: Config) -> u32 {
        self.interner.closing(config).map_or(u32::MAX, |closing| closing.len)
    }

    fn closing_byte(&self, config: Config) -> u8 {
        self.interner.closing(config).map_or(0, |closing| closing.first)
    }

    fn plausible(&self, config: Config) -> ByteSet {
        self.plausible_bytes(config)
    }

    fn strings(&self) -> Option<Profile> {
        Some(self.program.profile)
    }

    fn parts(&mut self, config: Config, parts: &mut Vec<ConfigPart>) {
        self.split(config, parts);
    }

    fn equivalent_config(&mut self, config: Config) -> Option<EquivalentConfig> {
        self.unseen_likeness(config)
            .or_else(|| self.unnamed_likeness(config))
            .or_else(|| self.undeclared_likeness(config))
    }

    fn without_names(&mut self, config: Config) -> Config {
        self.unnamed(config)
    }

    fn add_repeating(&self, config: Config, named: &NamedTokens, tokens: &mut Vec<TokenId>) {
        self.repeating(config, named, tokens);
    }

    fn tolerance(&mut self, config: Config) -> Option<Tolerance> {
        self.any_text(config)
    }

    fn closing(&mut self, config: Config) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.closing_len(config) as usize);
        let mut at = config;
        while !self.accepting(at) {
            at = self.nearest(at);
            let byte = self.closing_byte(at);
            at = self.step(at, byte);
            debug_assert!(at != Config::DEAD);
            bytes.push(byte);
        }
        bytes
    }

    fn tells_tolerance(&self, _: Config) -> bool {
        true
    }

    fn expected(&self, config: Config, following: ByteSet) -> Vec<String> {
        self.describe(config, following)
    }

    fn weight(&self, config: Config) -> usize {
        let threads = self.interner.threads_of(config);
        threads.iter().map(|&thread| THREAD + self.names_below(self.interner.thread(thread)) / NAMES).sum()
    }

    fn byte_len(&self) -> usize {
        let counts = self.name_counts.borrow().values().map(NameCounts::byte_len).sum::<usize>();
        self.interner.byte_len()
            + self.items.byte_len()
            + self.names.byte_len()
            + counts
            + self.grouped_bytes.get()
    }
}
