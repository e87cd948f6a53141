//! Reads JSON text that must satisfy a compiled schema, byte by byte.
//!
//! JSON is deterministic, so no parse forest is needed. A *frame* is an open array with its number
//! of items, or an open object with the names seen. A *stack* is a frame on a parent stack. A
//! *thread* is a stack and the token that is being read on top of it. A *config* is a set of
//! threads: one for each reading that the schema's alternatives allow for the text so far. Usually
//! there is a single thread.
//!
//! Stacks, threads and configs are interned, so equal states have equal ids. Inside a string
//! without bounds, every character therefore leads back to the same config. A counter stops growing
//! when no bound distinguishes its values any more.
//!
//! A thread that cannot be completed is never created. Each thread is interned with the length of
//! its shortest completion: the rest of the token being read, plus the rest of all open arrays and
//! objects. The second part is stored in the stack, and is summed up as frames are pushed. No
//! function recurses with the nesting of the text.
//!
//! If the items of an array must differ (`uniqueItems`), the array's frame has the set of values
//! seen. A thread inside such an item has the text of the item so far ([`unique`]). A search finds
//! the shortest way to make the item a new value ([`search`]). The search is skipped if the
//! beginning of the item already differs from all values seen. If more items are required, values
//! are assigned to them in advance ([`required`]).
//!
//! Several threads may open the same array or object at the same byte, on different stacks. The
//! frame is then pushed only once, on a parent that stands for all these stacks. When the frame
//! closes, each of the stacks resumes. The alternatives of a recursive schema therefore do not
//! multiply with the depth. Stacks inside items that must differ are not joined in this way.
//!
//! No name occurs twice in an object. A declared name is identified by its index among the declared
//! names. For undeclared names, the object's frame has the set of names seen, and a thread inside a
//! name has the name's characters so far ([`names`]). Undeclared names may be divided into classes
//! with different schemas, for example by `patternProperties`. Each class has a number, its
//! *label*.
//!
//! An object may have *obligations*: requirements that only undeclared members can meet.
//!
//! # Limitations
//! Alternatives that begin with the same array or object are followed side by side, as separate
//! threads.

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
pub(crate) mod rules;
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
use crate::ir::json::program::{NodeId, ObjectRule};
use crate::ir::json::spelling::Decode;
use crate::ir::json::values::SetId;
use crate::mask::named_tokens::NamedTokens;
use crate::options::Profile;
use closing::{Nearest, SeenLengths};
use groups::AfterNames;
use intern::{Interner, Stack, Thread};
use names::{NameId, Names, NamesId};
pub(crate) use rules::spelling;
use trace::EMPTY;
use unique::Items;

/// Runs a [`JsonProgram`].
#[derive(Debug)]
pub(crate) struct JsonMachine {
    program: Arc<JsonProgram>,
    /// The node whose values the machine reads.
    root: NodeId,
    interner: Interner,
    /// Ids of the threads of the config that is being built.
    next: Vec<u32>,
    /// State that all arrays with items that must differ share.
    items: Items,
    /// For each state of an object with groups: the bytes to the end of the object after each name.
    grouped: RefCell<FxHashMap<GroupedKey, Arc<AfterNames>>>,
    grouped_bytes: Cell<usize>,
    /// Results of the last calls of [`seen_lengths`](JsonMachine::seen_lengths), newest first.
    seen_lengths: RefCell<VecDeque<SeenLengths>>,
    /// Shortest completions through declared names, for the last object with many declared names.
    nearest: RefCell<Option<Nearest>>,
    /// Sets of names of undeclared members.
    names: Names,
    /// For each object rule and label, the number of undeclared names of each length.
    name_counts: RefCell<FxHashMap<(u32, u32), NameCounts>>,
    /// Arrays and objects that the current byte opens, each with its parent stack.
    opened: Vec<(Frame, StackId)>,
    /// True if some array of the schema has counters.
    counts: bool,
    /// True if some object of the schema has so few undeclared names that a single token may use
    /// all of them.
    scarce: bool,
}

/// Key of [`JsonMachine::grouped`]: object rule, members seen, excluded alternatives, and depth.
type GroupedKey = (u32, u32, u32, u32);

/// Id of an interned stack.
type StackId = u32;

/// The stack without open arrays and objects.
const ROOT: StackId = 0;

/// An open array or object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Frame {
    /// An open array of the rule `rule`.
    ///
    /// - `items` is the number of items, including the item that is being read.
    /// - `counts` is the id of the values of the array's counters.
    /// - `seen` is the set of values before the current item, if items must differ.
    /// - `start` is the offset of the current item in the thread's text.
    Array { rule: u32, items: u32, counts: u32, seen: SetId, start: u32 },
    /// An open object of the rule `rule`. The member whose name is being read does not count yet.
    ///
    /// - `seen` is the position in the declared order. With [`Order::Any`](crate::Order::Any), it
    ///   is the id of the set of declared members seen.
    /// - `members` is the number of members, if the rule bounds that number. For a rule with
    ///   groups, it is the id of the set of excluded alternatives.
    /// - `pending` has the obligations that no member has met yet, as bits.
    /// - `names` is the set of undeclared names seen. It is empty once no more members may come.
    Object { rule: u32, seen: u32, members: u32, pending: u8, names: NamesId },
}

/// The state of the token that is being read on top of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    /// Before a value.
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
    /// Inside a string without a pattern. `chars` is the number of characters so far, up to the
    /// highest bound of the rule.
    Text {
        rule: u32,
        chars: u32,
        decode: Decode,
    },
    /// Inside a string with a pattern. `chars` is the number of characters so far, or always 0 if
    /// the rule has no maximum.
    Language {
        rule: u32,
        state: u32,
        chars: u32,
        decode: Decode,
    },
    /// Inside one of several fixed strings. `at` is a node in the trie of these strings.
    Word {
        trie: u32,
        at: u32,
        decode: Decode,
    },
    /// After `[`, before the first item.
    ArrayStart {
        gap: GapRest,
    },
    /// After `{`, before the first member.
    ObjectStart {
        gap: GapRest,
    },
    /// Before a name, at a position where the object may not close: after a comma, or in fixed
    /// white space after `{`.
    KeyStart {
        gap: GapRest,
    },
    /// Inside a name.
    ///
    /// - `at` is a node in the trie of declared names, or [`OUTSIDE`] if the name is not declared.
    /// - `other` is a state of the language that labels undeclared names. It is 0 if there is no
    ///   such language, and [`OUTSIDE`] if the name can only be a declared name.
    /// - `name` identifies the characters so far, if they are stored.
    Key {
        at: u32,
        other: u32,
        name: NameId,
        decode: Decode,
    },
    /// After a name, before the colon. `node` is the node of the member's value.
    Colon {
        node: u32,
        gap: GapRest,
    },
    /// After an item or a member.
    AfterValue,
    /// In the white space before the closing bracket.
    Close {
        gap: GapRest,
    },
    /// After the whole value.
    End,
}

/// Value of `at` or `other` in [`State::Key`] if the name has left the trie of declared names, or
/// the language of undeclared names.
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
    /// Returns a shortest text that satisfies the schema.
    pub(crate) fn shortest_text(self: &Arc<Self>) -> Vec<u8> {
        self.shortest_text_of(self.root)
    }

    /// Returns a shortest text of a value of the node `node`.
    pub(crate) fn shortest_text_of(self: &Arc<Self>, node: NodeId) -> Vec<u8> {
        let mut automaton = Automaton::new(Box::new(self.machine_of(node)));
        let start = automaton.start();
        automaton.closing(start)
    }

    /// Creates a machine for the schema.
    pub(crate) fn machine(self: &Arc<Self>) -> JsonMachine {
        self.machine_of(self.root)
    }

    /// Creates a machine that reads the values of the node `node`.
    pub(crate) fn machine_of(self: &Arc<Self>, node: NodeId) -> JsonMachine {
        JsonMachine::new(Arc::clone(self), node)
    }
}

impl JsonMachine {
    fn new(program: Arc<JsonProgram>, root: NodeId) -> Self {
        let items = Items::new(&program);
        let is_scarce = |rule: &ObjectRule| rule.tracks() && !unnamed::has_more(rule, 0);
        let scarce = program.objects.iter().any(is_scarce);
        let counts = program.arrays.iter().any(|rule| !rule.counters.is_empty());
        Self {
            program,
            root,
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

    /// Drops each thread in `next` that equals another thread except for lower counts in an array.
    ///
    /// An item that satisfies a counter's subschema may also be read without raising the counter.
    /// That reading allows no continuation that the other reading does not allow.
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

    /// Returns the number of threads of a config.
    #[cfg(test)]
    fn threads(&self, config: Config) -> usize {
        self.interner.threads_of(config).len()
    }

    /// Interns the threads in `next` as a config, and clears `next`.
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

/// Weight of one name seen in the search for a new name, for [`JsonMachine::names_below`]. The
/// weight of one member in a sum over all members is 1.
const NEW_NAME: usize = 64;
/// Mean number of transitions per state of the automaton of undeclared names that doubles
/// [`NEW_NAME`].
const TRANSITIONS: usize = 16;
/// Weight of one thread. `NAMES` units of [`JsonMachine::names_below`] add a weight of 1.
const THREAD: usize = 4;
const NAMES: usize = 16;
/// Number of members in a sum that weigh as much as one declared name.
const SUMMED: usize = 4;

impl JsonMachine {
    /// Returns the config with only one thread of `config`: the thread with the shortest
    /// completion.
    fn nearest(&mut self, config: Config) -> Config {
        let threads = self.interner.threads_of(config).iter().copied();
        match threads.min_by_key(|&thread| self.interner.thread_closing(thread).len) {
            Some(thread) => self.interner.config(&[thread]),
            None => config,
        }
    }

    /// Estimates the work of computing the shortest completion of a thread inside a name. The work
    /// consists of the search for a new name, and of a sum over the members for each declared name
    /// that the text may become. Returns 0 for threads outside names.
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
        if grouped {
            // All names of a state are computed together.
            return counted + below + (rule.members.len() + rule.grouped_members()) / SUMMED;
        }
        let each = if rule.counts() { rule.members.len() } else { 0 };
        counted + below * (1 + each / SUMMED)
    }
}

impl Machine for JsonMachine {
    fn start(&mut self) -> Config {
        let gap = self.program.spacing.around.rest(0);
        self.items.text = EMPTY;
        self.push(ROOT, State::Value { node: self.root, gap });
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
