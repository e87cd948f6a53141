//! Masks of configs in which undeclared names have been seen.
//!
//! A name seen forbids only its repetition, so a mask is nearly the same as without any names seen.
//! A config is [equivalent](crate::machine::ConfigPart::Equivalent) to its *plain* config, which
//! has forgotten the names seen. The two differ in tokens that hold a whole name
//! ([`repeated`](super::repeated)). Inside a name they also differ in tokens that continue towards
//! a name seen.
//!
//! The equivalence holds while an object has more names left than a token can add. Other configs
//! are stepped through.

use super::intern::{NO_STACK, Thread};
use super::names::{NO_NAMES, NamesId, UNKNOWN, UNREAD};
use super::unique::add_next;
use super::{Frame, JsonMachine, OUTSIDE, ROOT, StackId, State};
use crate::ByteSet;
use crate::ir::json::program::ObjectRule;
use crate::ir::json::texts::ENDLESS;
use crate::machine::{Config, EquivalentConfig};

/// Largest number of names that a token is assumed to add to an object.
const ADDED: u32 = 8;

/// Reports whether an object with `seen` names has names left, whatever names a token adds.
pub(super) fn has_more(rule: &ObjectRule, seen: u32) -> bool {
    rule.least_names == ENDLESS || rule.least_names > seen.saturating_add(rule.min).saturating_add(ADDED)
}

impl JsonMachine {
    /// Reports whether an object with the names `seen` has names left, whatever names a token adds.
    fn is_ample(&self, rule: &ObjectRule, seen: NamesId) -> bool {
        has_more(rule, self.names.count(seen))
    }

    /// Returns the stack of `frame` on `parent` without names seen.
    ///
    /// Returns `None` if the stack is its own plain stack, and `Some(NO_STACK)` if it has no plain
    /// stack.
    pub(super) fn plain_stack(&mut self, parent: StackId, frame: Frame, unique: bool) -> Option<StackId> {
        let below = *self.interner.stack(parent);
        let own = match frame {
            Frame::Object { rule, names, .. } if names != NO_NAMES => Some((rule, names)),
            _ => None,
        };
        if own.is_none() && below.plain == parent {
            return None;
        }
        let ample =
            own.is_none_or(|(rule, names)| self.is_ample(&self.program.objects[rule as usize], names));
        if below.plain == NO_STACK || below.tracking != ROOT || unique || !ample {
            return Some(NO_STACK);
        }
        let frame = match frame {
            Frame::Object { rule, seen, members, pending, .. } => {
                Frame::Object { rule, seen, members, pending, names: NO_NAMES }
            }
            array @ Frame::Array { .. } => array,
        };
        Some(self.stack(below.plain, frame).unwrap_or(NO_STACK))
    }

    /// Returns the state inside a name that is unknown, except that it differs from all names seen.
    ///
    /// Returns `None` if the object may run out of names.
    pub(super) fn unnamed_state(&self, stack: StackId, state: State) -> Option<State> {
        let State::Key { at, other, name, decode } = state else { return Some(state) };
        if name == UNREAD || name == UNKNOWN {
            return Some(state);
        }
        let Some(Frame::Object { rule, names, .. }) = self.interner.stack(stack).frame else { return None };
        if !self.is_ample(&self.program.objects[rule as usize], names) {
            return None;
        }
        if at != OUTSIDE {
            return Some(State::Key { at, other, name: UNREAD, decode });
        }
        let decode =
            if self.is_undeclared(stack, at, other) { decode.forget(self.program.profile) } else { decode };
        Some(State::Key { at, other, name: UNKNOWN, decode })
    }

    /// Returns the thread without names seen, or `None` if it might continue in another way.
    fn unnamed_thread(&self, Thread { stack, state, text }: Thread) -> Option<Thread> {
        let plain = self.interner.stack(stack).plain;
        let state = self.unnamed_state(stack, state)?;
        (plain != NO_STACK).then_some(Thread { stack: plain, state, text })
    }

    /// Reports whether a config keeps undeclared names, seen or being read.
    fn has_names(&self, config: Config) -> bool {
        self.interner.threads_of(config).iter().any(|&thread| {
            let Thread { stack, state, .. } = self.interner.thread(thread);
            let reads = matches!(state, State::Key { name, .. } if name != UNREAD && name != UNKNOWN);
            reads || self.interner.stack(stack).plain != stack
        })
    }

    /// Returns the config without names seen.
    ///
    /// Returns `config` itself if it keeps no names, or if the name being read may still become one
    /// of those seen.
    pub(super) fn unnamed(&mut self, config: Config) -> Config {
        if !self.has_names(config) {
            return config;
        }
        let threads = self.interner.threads_of(config);
        let rival = threads.iter().any(|&thread| match self.interner.thread(thread).state {
            State::Key { name, .. } => self.names.rivals(name) != NO_NAMES,
            _ => false,
        });
        if rival {
            return config;
        }
        self.forgetting(config).or_else(|| self.with_unknown_names(config)).unwrap_or(config)
    }

    /// Replaces the names being read by unknown ones, but keeps the names seen.
    ///
    /// Expects that no name seen begins with the characters read so far. Returns `None` if no name
    /// is being read, or if items must differ.
    fn with_unknown_names(&mut self, config: Config) -> Option<Config> {
        self.with_threads(config, |machine, mut thread| {
            if machine.interner.stack(thread.stack).tracking != ROOT {
                return None;
            }
            if let State::Key { at, name, .. } = &mut thread.state
                && *name != UNREAD
                && *name != UNKNOWN
            {
                *name = if *at == OUTSIDE { UNKNOWN } else { UNREAD };
            }
            Some(thread)
        })
    }

    /// Returns the plain config, or `None` if `config` is plain itself or has no plain config.
    pub(super) fn forgetting(&mut self, config: Config) -> Option<Config> {
        if !self.has_names(config) {
            return None;
        }
        self.with_threads(config, Self::unnamed_thread)
    }

    /// Applies `change` to each thread of a config.
    ///
    /// Returns `None` if `change` does so for some thread, or changes no thread.
    fn with_threads(
        &mut self,
        config: Config,
        change: impl Fn(&Self, Thread) -> Option<Thread>,
    ) -> Option<Config> {
        let count = self.interner.threads_of(config).len();
        let mut changed = false;
        let mut threads = Vec::with_capacity(count);
        for at in 0..count {
            let thread = self.interner.thread(self.interner.threads_of(config)[at]);
            let other = change(self, thread)?;
            changed |= other != thread;
            threads.push(other);
        }
        if !changed {
            return None;
        }
        for thread in threads {
            self.items.text = thread.text;
            self.push(thread.stack, thread.state);
        }
        Some(self.gathered())
    }

    /// Returns the equivalent config of a config inside undeclared names: its plain config.
    ///
    /// The `bytes` of the result are those over which a name may continue towards a name seen.
    pub(super) fn unnamed_likeness(&mut self, config: Config) -> Option<EquivalentConfig> {
        let mut bytes = ByteSet::default();
        let mut named = false;
        for &thread in self.interner.threads_of(config) {
            let thread = self.interner.thread(thread);
            if let State::Key { name, .. } = thread.state {
                named |= name != UNREAD && name != UNKNOWN;
                self.add_rivals(thread.state, &mut bytes);
            }
        }
        if !named {
            return None;
        }
        let other = self.forgetting(config)?;
        Some(EquivalentConfig { other, bytes })
    }

    /// Adds the bytes over which the name being read may continue towards a name seen.
    pub(super) fn add_rivals(&self, state: State, bytes: &mut ByteSet) {
        let State::Key { name, .. } = state else { return };
        let rivals = self.names.rivals(name);
        if rivals != NO_NAMES {
            let chars: Vec<char> = self.names.next_chars(rivals).into_iter().map(|(c, _)| c).collect();
            add_next(state, &chars, self.names.ends(rivals), bytes);
        }
    }
}
