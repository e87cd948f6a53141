use rustc_hash::FxHashMap;

use super::trace::TextId;
use super::{Frame, ROOT, StackId, State};
use crate::ir::json::cost::Shortest;
use crate::ir::json::program::Counts;
use crate::machine::Config;

/// Tables of all stacks, threads and configs. Each is stored once.
#[derive(Debug)]
pub(super) struct Interner {
    stacks: Vec<Stack>,
    stack_ids: FxHashMap<(StackId, Frame), StackId>,
    /// For each join, the stacks that it stands for.
    joins: Vec<Box<[StackId]>>,
    join_ids: FxHashMap<Box<[StackId]>, StackId>,
    threads: Vec<(Thread, Shortest)>,
    thread_ids: FxHashMap<Thread, u32>,
    configs: Vec<Threads>,
    /// For each thread, the config with this thread alone, or [`NO_CONFIG`].
    singles: Vec<u32>,
    config_ids: FxHashMap<Box<[u32]>, u32>,
    sets: Vec<Box<[u64]>>,
    set_ids: FxHashMap<Box<[u64]>, u32>,
    /// Values of the counters of arrays, by their ids.
    counts: Vec<Counts>,
    counts_ids: FxHashMap<Counts, u32>,
    byte_len: usize,
}

/// An interned stack, or the *join* of several stacks. All fields depend only on the stack itself.
///
/// A join is created when the same frame is pushed on several stacks at the same byte. The join is
/// then the parent of one new stack. A join is never the stack of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack {
    pub(super) parent: StackId,
    /// The innermost open array or object. `None` if nothing is open, or if this is a join.
    pub(super) frame: Option<Frame>,
    /// The index of a join in [`Interner::joins`] plus 1. 0 for a stack that is not a join.
    join: u32,
    /// Number of open arrays and objects.
    pub(super) depth: u32,
    /// Least number of bytes from the end of the current item or member to the end of this array or
    /// object.
    pub(super) own: u32,
    /// Least number of bytes from the end of the current item or member to the end of the whole
    /// text.
    pub(super) total: u32,
    /// True if the array or object may close after the current item or member.
    pub(super) closable: bool,
    /// The innermost array with *tracked* items: the stack, this one or one below it, whose top is
    /// such an array. [`ROOT`] if there is none.
    ///
    /// Items are tracked if they must all differ. They are also tracked if two of them must be
    /// equal and no two are equal so far.
    pub(super) tracking: StackId,
    /// The innermost array with tracked items that has items before the current one or needs more
    /// items. [`ROOT`] if there is none.
    pub(super) contested: StackId,
    /// The stack that differs from this one only in having seen no undeclared names.
    ///
    /// This is the stack itself if it has seen no such names. It is [`NO_STACK`] if the stack
    /// without names would not be equivalent.
    pub(super) plain: StackId,
}

/// One possible reading of the text so far.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Thread {
    pub(super) stack: StackId,
    pub(super) state: State,
    /// Text so far of the outermost open item that is tracked ([`Stack::tracking`]).
    pub(super) text: TextId,
}

/// The threads of a config, sorted by id. Nearly all configs have a single thread.
#[derive(Debug)]
struct Threads {
    first: u32,
    /// All threads. Empty if there is only `first`.
    all: Box<[u32]>,
    closing: Shortest,
}

/// Id of the counts of an array in which no counter has been raised.
pub(super) const UNCOUNTED: u32 = 0;

const NO_CONFIG: u32 = u32::MAX;

/// Marks a missing stack.
pub(super) const NO_STACK: StackId = u32::MAX;

impl Default for Interner {
    fn default() -> Self {
        let root = Stack {
            parent: ROOT,
            frame: None,
            join: 0,
            depth: 0,
            own: 0,
            total: 0,
            closable: false,
            tracking: ROOT,
            contested: ROOT,
            plain: ROOT,
        };
        Self {
            stacks: vec![root],
            stack_ids: FxHashMap::default(),
            joins: Vec::new(),
            join_ids: FxHashMap::default(),
            threads: Vec::new(),
            thread_ids: FxHashMap::default(),
            configs: Vec::new(),
            singles: Vec::new(),
            config_ids: FxHashMap::default(),
            sets: vec![Box::default()],
            set_ids: FxHashMap::from_iter([(Box::default(), 0)]),
            counts: vec![Box::default()],
            counts_ids: FxHashMap::from_iter([(Box::default(), UNCOUNTED)]),
            byte_len: 0,
        }
    }
}

impl Interner {
    pub(super) fn stack(&self, id: StackId) -> &Stack {
        &self.stacks[id as usize]
    }

    #[cfg(test)]
    pub(super) fn stacks(&self) -> impl Iterator<Item = &Stack> {
        self.stacks.iter()
    }

    pub(super) fn find_stack(&self, parent: StackId, frame: Frame) -> Option<StackId> {
        self.stack_ids.get(&(parent, frame)).copied()
    }

    /// Adds the stack of `frame` on `parent`.
    ///
    /// `unique` is `None` if the items of the array are not tracked. Otherwise it is true if the
    /// array has seen items or needs more. If `plain` is `None`, the new stack is its own plain
    /// stack.
    pub(super) fn add_stack(
        &mut self,
        parent: StackId,
        frame: Frame,
        (own, closable): (u32, bool),
        (unique, plain): (Option<bool>, Option<StackId>),
    ) -> StackId {
        let id = self.stacks.len() as StackId;
        let &Stack { total, depth, tracking, contested, .. } = self.stack(parent);
        self.stacks.push(Stack {
            parent,
            frame: Some(frame),
            join: 0,
            depth: depth + 1,
            own,
            total: total.saturating_add(own),
            closable,
            tracking: if unique.is_some() { id } else { tracking },
            contested: if unique == Some(true) { id } else { contested },
            plain: plain.unwrap_or(id),
        });
        self.stack_ids.insert((parent, frame), id);
        self.byte_len += 2 * size_of::<Stack>();
        id
    }

    /// Returns the join of `stacks`, which must be sorted and not empty. Returns the stack itself
    /// if there is only one.
    ///
    /// All stacks have the same depth, because they have read the same text.
    pub(super) fn join(&mut self, stacks: &[StackId]) -> StackId {
        if let &[only] = stacks {
            return only;
        }
        if let Some(&known) = self.join_ids.get(stacks) {
            return known;
        }
        let mut plain: Vec<_> = stacks.iter().map(|&stack| self.stack(stack).plain).collect();
        plain.sort_unstable();
        plain.dedup();
        let plain = match plain.last() {
            Some(&NO_STACK) => Some(NO_STACK),
            _ if plain == stacks => None,
            _ => Some(self.join(&plain)),
        };
        let depth = self.stack(stacks[0]).depth;
        let total = stacks.iter().map(|&stack| self.stack(stack).total).min().unwrap_or(u32::MAX);
        let id = self.stacks.len() as StackId;
        let all: Box<[StackId]> = stacks.into();
        self.byte_len += 2 * size_of_val(stacks) + size_of::<Stack>() + 64;
        self.joins.push(all.clone());
        self.join_ids.insert(all, id);
        let join = self.joins.len() as u32;
        // Stacks inside items that must differ are never joined, so both fields are `ROOT`.
        self.stacks.push(Stack {
            parent: ROOT,
            frame: None,
            join,
            depth,
            own: 0,
            total,
            closable: false,
            tracking: ROOT,
            contested: ROOT,
            plain: plain.unwrap_or(id),
        });
        id
    }

    /// Returns the stacks that `parent` stands for: the stacks of a join, or `parent` itself.
    pub(super) fn joined<'a>(&'a self, parent: &'a StackId) -> &'a [StackId] {
        match self.stack(*parent).join {
            0 => std::slice::from_ref(parent),
            join => &self.joins[join as usize - 1],
        }
    }

    pub(super) fn find_thread(&self, thread: Thread) -> Option<u32> {
        self.thread_ids.get(&thread).copied()
    }

    pub(super) fn add_thread(&mut self, thread: Thread, closing: Shortest) -> u32 {
        let id = self.threads.len() as u32;
        self.threads.push((thread, closing));
        self.singles.push(NO_CONFIG);
        self.thread_ids.insert(thread, id);
        self.byte_len += 2 * size_of::<(Thread, Shortest)>();
        id
    }

    pub(super) fn thread(&self, id: u32) -> Thread {
        self.threads[id as usize].0
    }

    pub(super) fn thread_closing(&self, id: u32) -> Shortest {
        self.threads[id as usize].1
    }

    /// Returns the config with these threads, which must be sorted. Returns [`Config::DEAD`] if
    /// there are no threads.
    pub(super) fn config(&mut self, threads: &[u32]) -> Config {
        let known = match *threads {
            [] => return Config::DEAD,
            [thread] => Some(self.singles[thread as usize]).filter(|&id| id != NO_CONFIG),
            _ => self.config_ids.get(threads).copied(),
        };
        known.map_or_else(|| self.add_config(threads), Config)
    }

    fn add_config(&mut self, threads: &[u32]) -> Config {
        let id = self.configs.len() as u32;
        let closings = threads.iter().map(|&thread| self.thread_closing(thread));
        let Some(closing) = closings.min_by_key(|closing| closing.len) else { return Config::DEAD };
        let first = threads[0];
        let all: Box<[u32]> = if threads.len() == 1 { Box::default() } else { Box::from(threads) };
        if threads.len() == 1 {
            self.singles[first as usize] = id;
        } else {
            self.config_ids.insert(all.clone(), id);
        }
        self.byte_len += 2 * size_of_val(&*all) + size_of::<Threads>();
        self.configs.push(Threads { first, all, closing });
        Config(id)
    }

    pub(super) fn threads_of(&self, config: Config) -> &[u32] {
        match self.configs.get(config.0 as usize) {
            Some(threads) if threads.all.is_empty() => std::slice::from_ref(&threads.first),
            Some(threads) => &threads.all,
            None => &[],
        }
    }

    pub(super) fn closing(&self, config: Config) -> Option<Shortest> {
        self.configs.get(config.0 as usize).map(|threads| threads.closing)
    }

    /// Reports whether the set of members with the id `set` contains `member`.
    pub(super) fn set_has(&self, set: u32, member: usize) -> bool {
        self.sets[set as usize].get(member / 64).is_some_and(|word| word >> (member % 64) & 1 == 1)
    }

    /// Returns the id of `set` with `member` added. The empty set has the id 0.
    pub(super) fn set_with(&mut self, set: u32, member: usize) -> u32 {
        let mut words = self.sets[set as usize].to_vec();
        words.resize(words.len().max(member / 64 + 1), 0);
        words[member / 64] |= 1 << (member % 64);
        self.set_of(words)
    }

    /// Returns the bits of a set, as 64-bit words.
    pub(super) fn set(&self, set: u32) -> &[u64] {
        &self.sets[set as usize]
    }

    /// Returns the id of the set with these bits. The last word must not be zero.
    pub(super) fn set_of(&mut self, words: Vec<u64>) -> u32 {
        if let Some(&id) = self.set_ids.get(words.as_slice()) {
            return id;
        }
        let id = self.sets.len() as u32;
        self.byte_len += 2 * size_of_val(words.as_slice()) + 64;
        self.sets.push(words.clone().into());
        self.set_ids.insert(words.into(), id);
        id
    }

    pub(super) fn counts(&self, id: u32) -> &[u16] {
        &self.counts[id as usize]
    }

    pub(super) fn counts_id(&mut self, counts: Counts) -> u32 {
        if let Some(&known) = self.counts_ids.get(&counts) {
            return known;
        }
        let id = self.counts.len() as u32;
        self.byte_len += 2 * size_of_val(&*counts) + 64;
        self.counts.push(counts.clone());
        self.counts_ids.insert(counts, id);
        id
    }

    pub(super) const fn byte_len(&self) -> usize {
        self.byte_len
    }
}
