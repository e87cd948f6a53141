use rustc_hash::FxHashMap;

use super::trace::TextId;
use super::{Frame, ROOT, StackId, State};
use crate::ir::json::cost::Shortest;
use crate::ir::json::program::Counts;
use crate::machine::Config;

/// All stacks, threads and configs created so far, each once.
#[derive(Debug)]
pub(super) struct Interner {
    stacks: Vec<Stack>,
    stack_ids: FxHashMap<(StackId, Frame), StackId>,
    /// The stacks that each join stands for, by the index of the join.
    joins: Vec<Box<[StackId]>>,
    join_ids: FxHashMap<Box<[StackId]>, StackId>,
    threads: Vec<(Thread, Shortest)>,
    thread_ids: FxHashMap<Thread, u32>,
    configs: Vec<Threads>,
    /// The config that holds one thread alone, by thread, or [`NO_CONFIG`].
    singles: Vec<u32>,
    config_ids: FxHashMap<Box<[u32]>, u32>,
    sets: Vec<Box<[u64]>>,
    set_ids: FxHashMap<Box<[u64]>, u32>,
    /// Values of an array's counters, by id.
    counts: Vec<Counts>,
    counts_ids: FxHashMap<Counts, u32>,
    byte_len: usize,
}

/// An interned stack, with values that depend only on the stack, or the *join* of several stacks.
///
/// A join is created when one frame is pushed on several stacks at the same byte. It is the parent
/// of stacks, and never the stack of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack {
    pub(super) parent: StackId,
    /// The innermost open array or object. `None` if nothing is open, or if this is a join.
    pub(super) frame: Option<Frame>,
    /// For a join, its index in `Interner::joins` plus 1. Zero for other stacks.
    join: u32,
    /// Number of open arrays and objects.
    pub(super) depth: u32,
    /// Least number of bytes from the end of the current item to the end of this array or object.
    pub(super) own: u32,
    /// Least number of bytes from the end of the current item to the end of the whole text.
    pub(super) total: u32,
    /// True if the array or object may close after the current item.
    pub(super) closable: bool,
    /// The nearest stack, this one included, whose top is an array with tracked items; [`ROOT`] if
    /// there is none.
    ///
    /// Items are tracked if they must differ, or if two of them must be equal and no two are so far.
    pub(super) tracking: StackId,
    /// The nearest such stack whose array has items before the current one, or needs more.
    pub(super) contested: StackId,
    /// This stack without the undeclared names seen, which differs only in the names that must not
    /// be repeated.
    ///
    /// The stack itself if it holds no such names, or [`NO_STACK`] if it has no equivalent without them.
    pub(super) plain: StackId,
}

/// One of the alternatives that the text so far leaves open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Thread {
    pub(super) stack: StackId,
    pub(super) state: State,
    /// Bytes read so far of the outermost open item that must differ from its siblings
    /// (`uniqueItems`).
    pub(super) text: TextId,
}

/// Sorted threads of a config. Nearly all configs have a single thread.
#[derive(Debug)]
struct Threads {
    first: u32,
    /// All threads; empty if there is only one.
    all: Box<[u32]>,
    closing: Shortest,
}

/// Id of the counts in an array without items.
pub(super) const UNCOUNTED: u32 = 0;

const NO_CONFIG: u32 = u32::MAX;

/// Marks that there is no stack.
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

    pub(super) fn find_stack(&self, parent: StackId, frame: Frame) -> Option<StackId> {
        self.stack_ids.get(&(parent, frame)).copied()
    }

    /// Adds a stack.
    ///
    /// `unique` is `None` if the items are not tracked. Otherwise it is true if the array has items
    /// already or needs more. Without `plain`, the new stack is its own plain stack.
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

    /// Returns the parent that stands for a sorted, non-empty list of stacks.
    ///
    /// The stacks have the same depth, since they read the same text.
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

    /// Returns the stacks that a parent stands for: only itself, unless it is a join.
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

    /// Returns the config of a sorted set of threads.
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

    /// Reports whether a set of members contains `member`.
    pub(super) fn set_has(&self, set: u32, member: usize) -> bool {
        self.sets[set as usize].get(member / 64).is_some_and(|word| word >> (member % 64) & 1 == 1)
    }

    /// Returns the set with `member` added. The empty set has the id 0.
    pub(super) fn set_with(&mut self, set: u32, member: usize) -> u32 {
        let mut words = self.sets[set as usize].to_vec();
        words.resize(words.len().max(member / 64 + 1), 0);
        words[member / 64] |= 1 << (member % 64);
        self.set_of(words)
    }

    /// Returns the words of a set.
    pub(super) fn set(&self, set: u32) -> &[u64] {
        &self.sets[set as usize]
    }

    /// Returns the id of the set with these words. The last word must not be zero.
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
