//! Lets configs that remember undeclared names share the masks of configs that remember none.
//!
//! A name seen in an object only forbids the same name. The mask is therefore nearly the same as if
//! no names had been seen. Each such config has a *plain* config, which has forgotten the names
//! seen, and is [equivalent](crate::machine::ConfigPart::Equivalent) to it. The masks of the two
//! configs may differ only in tokens that contain or end a whole name
//! ([`repeated`](super::repeated)). Inside a name, they may also differ in tokens that continue
//! towards a name seen.
//!
//! The equivalence requires that the object has more unused names than a token can add. All other
//! configs have no plain config, and their masks are computed with steps.

use super::intern::{NO_STACK, Thread};
use super::names::{NO_NAMES, NamesId, UNKNOWN, UNREAD};
use super::unique::add_next;
use super::{Frame, JsonMachine, OUTSIDE, ROOT, StackId, State};
use crate::ByteSet;
use crate::ir::json::program::ObjectRule;
use crate::ir::json::texts::ENDLESS;
use crate::machine::{Config, EquivalentConfig};

/// Maximum number of names that a token is assumed to add to an object.
const ADDED: u32 = 8;

/// Reports whether an object in which `seen` undeclared names have been used still has unused names
/// after any token.
pub(super) fn has_more(rule: &ObjectRule, seen: u32) -> bool {
    rule.least_names == ENDLESS || rule.least_names > seen.saturating_add(rule.min).saturating_add(ADDED)
}

impl JsonMachine {
    /// Reports whether an object in which the names `seen` have been used still has unused names
    /// after any token.
    fn is_ample(&self, rule: &ObjectRule, seen: NamesId) -> bool {
        has_more(rule, self.names.count(seen))
    }

    /// Returns the stack of `frame` on `parent` without any undeclared names seen: its *plain*
    /// stack. `unique` is true if `frame` is an array with tracked items.
    ///
    /// Returns `None` if the stack has no names seen, so that it is its own plain stack. Returns
    /// `Some(NO_STACK)` if the stack has no plain stack.
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

    /// Returns `state` with the name being read replaced by a name that differs from all names seen
    /// and whose characters are not stored. States outside names are returned unchanged.
    ///
    /// Returns `None` if the object may run out of unused names.
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

    /// Returns the thread without names seen. Returns `None` if the two threads might have
    /// different continuations for other reasons than a repeated name.
    fn unnamed_thread(&self, Thread { stack, state, text }: Thread) -> Option<Thread> {
        let plain = self.interner.stack(stack).plain;
        let state = self.unnamed_state(stack, state)?;
        (plain != NO_STACK).then_some(Thread { stack: plain, state, text })
    }

    /// Reports whether a config remembers undeclared names, either seen before or being read.
    fn has_names(&self, config: Config) -> bool {
        self.interner.threads_of(config).iter().any(|&thread| {
            let Thread { stack, state, .. } = self.interner.thread(thread);
            let reads = matches!(state, State::Key { name, .. } if name != UNREAD && name != UNKNOWN);
            reads || self.interner.stack(stack).plain != stack
        })
    }

    /// Returns `config` without the names seen.
    ///
    /// Returns `config` itself if it remembers no names, or if the name being read may still become
    /// a name seen.
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

    /// Replaces the names being read by unknown names, but keeps the names seen.
    ///
    /// The caller must have checked that no name seen begins with the characters read so far.
    /// Returns `None` if no name is being read, or if the config is inside an item that must
    /// differ.
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

    /// Returns the plain config of `config`. Returns `None` if `config` is its own plain config, or
    /// has no plain config.
    pub(super) fn forgetting(&mut self, config: Config) -> Option<Config> {
        if !self.has_names(config) {
            return None;
        }
        self.with_threads(config, Self::unnamed_thread)
    }

    /// Returns the config with the results of `change` for each thread of `config`.
    ///
    /// Returns `None` if `change` returns `None` for some thread, or if it changes no thread.
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

    /// Returns the plain config of a config inside undeclared names, as its equivalent config.
    /// Returns `None` if no undeclared name is being read, or if there is no plain config.
    ///
    /// The `bytes` of the result are the bytes over which a name may continue towards a name seen.
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

    /// Adds to `bytes` the bytes over which the name that `state` reads may continue towards a name
    /// seen.
    pub(super) fn add_rivals(&self, state: State, bytes: &mut ByteSet) {
        let State::Key { name, .. } = state else { return };
        let rivals = self.names.rivals(name);
        if rivals != NO_NAMES {
            let chars: Vec<char> = self.names.next_chars(rivals).into_iter().map(|(c, _)| c).collect();
            add_next(state, &chars, self.names.ends(rivals), bytes);
        }
    }
}
