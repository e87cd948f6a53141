//! Finds the tokens that may repeat an undeclared name of an object.
//!
//! While an object has unused names left, a name seen only forbids the same name. The mask then
//! equals the mask without names seen, except for two kinds of tokens. The first kind ends with a
//! name seen, or contains it. The second kind ends inside a name that can only become a name seen.

use formwork_vocab::{TokenId, TokenTrie, TrieNode};

use super::intern::{NO_STACK, Thread};
use super::names::{NO_NAMES, Names, NamesId, UNKNOWN, UNREAD};
use super::{Frame, JsonMachine, OUTSIDE, StackId, State};
use crate::ir::json::program::ObjectRule;
use crate::ir::json::spelling::Decode;
use crate::machine::Config;
use crate::mask::named_tokens::{ByText, NameRead, NamedTokens};
use crate::regular::TextDfa;

impl JsonMachine {
    /// Reports whether tokens that stay inside the name being read may be forbidden too.
    ///
    /// Always returns true if the config is inside a character of such a name.
    pub(super) fn repeats_within(&self, config: Config) -> bool {
        self.interner.threads_of(config).iter().any(|&thread| {
            let Thread { stack, state, .. } = self.interner.thread(thread);
            match state {
                State::Key { name: UNREAD | UNKNOWN, .. } => false,
                State::Key { decode, .. } => {
                    decode != Decode::Whole
                        || self.object_rule(stack).is_some_and(|rule| !rule.names_below.is_empty())
                }
                _ => false,
            }
        })
    }

    /// Appends the tokens in `named` that may repeat a name.
    ///
    /// Tokens that stay inside the name being read are not appended, even if
    /// [`repeats_within`](Self::repeats_within) reports that some of them may be forbidden.
    pub(super) fn repeating(&self, config: Config, named: &NamedTokens, tokens: &mut Vec<TokenId>) {
        let threads = self.interner.threads_of(config).iter().map(|&thread| self.interner.thread(thread));
        if self.scarce || threads.clone().any(|thread| self.interner.stack(thread.stack).plain == NO_STACK) {
            // A token may use up the names of an object, so every token that holds a name must be
            // checked.
            tokens.extend(named.whole.all());
        }
        let mut stacks: Vec<StackId> = threads.clone().map(|thread| thread.stack).collect();
        let named_stack = |stack: &StackId| self.interner.stack(*stack).plain != *stack;
        stacks.retain(named_stack);
        // All stacks of a config have the same depth.
        while !stacks.is_empty() {
            stacks.sort_unstable();
            stacks.dedup();
            for &stack in &stacks {
                if let Some(Frame::Object { rule, names, .. }) = self.interner.stack(stack).frame {
                    self.add_begun(&self.program.objects[rule as usize], names, named, tokens);
                }
            }
            let parents = stacks.iter().map(|&stack| self.interner.stack(stack).parent);
            let parents = parents.flat_map(|parent| self.interner.joined(&parent).to_vec());
            stacks = parents.filter(named_stack).collect();
        }
        let mut read = None;
        for thread in threads {
            let Some((name, rivals)) = self.name_read(thread) else { continue };
            if name != NameRead::Unknown {
                self.names.add_ends(rivals, &named.ending, tokens);
            }
            read = match read {
                Some(other) if other != name => Some(NameRead::Unknown),
                _ => Some(name),
            };
        }
        tokens.extend(named.repeating(read.as_ref()));
    }

    /// Appends the tokens that contain a name in `seen`, and the tokens that end inside a name if
    /// all names with this beginning have been seen.
    fn add_begun(&self, rule: &ObjectRule, seen: NamesId, named: &NamedTokens, tokens: &mut Vec<TokenId>) {
        if seen == NO_NAMES {
            return;
        }
        self.names.add_ends(seen, &named.whole, tokens);
        let Some(labels) = rule.labels.filter(|_| !rule.names_below.is_empty()) else { return };
        let dfa = self.program.languages[labels as usize].dfa();
        self.names.add_all(seen, &named.within_char, tokens);
        let mut exhausted = Exhausted { names: &self.names, rule, dfa, begun: &named.begun, tokens };
        exhausted.walk(seen);
    }

    /// Returns the name that a thread is reading, and its rivals. Returns `None` if no undeclared
    /// name is being read, or if the object needs no comparison of names.
    fn name_read(&self, Thread { stack, state, .. }: Thread) -> Option<(NameRead, NamesId)> {
        let State::Key { at, other, name, decode } = state else { return None };
        let rule = self.object_rule(stack)?;
        if !rule.tracks() || other == OUTSIDE {
            return None;
        }
        let read = match name {
            _ if decode != Decode::Whole => NameRead::Unknown,
            UNKNOWN => NameRead::Unknown,
            UNREAD => NameRead::Start(rule.names.text_at(at)),
            _ => NameRead::Start(self.names.text(name)),
        };
        Some((read, self.names.rivals(name)))
    }
}

impl Names {
    /// Appends the tokens in `tokens` whose text is a name in `set`.
    fn add_ends(&self, set: NamesId, tokens: &ByText, all: &mut Vec<TokenId>) {
        if self.ends(set) {
            all.extend(&tokens.empty);
        }
        self.meet(set, &tokens.trie, |set, here| {
            if self.ends(set) {
                all.extend(here);
            }
        });
    }

    /// Appends the tokens in `tokens` whose text is the beginning of a name in `set`.
    fn add_all(&self, set: NamesId, tokens: &ByText, all: &mut Vec<TokenId>) {
        all.extend(&tokens.empty);
        self.meet(set, &tokens.trie, |_, here| all.extend(here));
    }

    /// Calls `visit(remainders, tokens)` for each node of `trie` below the root whose text begins a
    /// name in `set`.
    fn meet(&self, set: NamesId, trie: &TokenTrie, mut visit: impl FnMut(NamesId, &[TokenId])) {
        let mut open = vec![(set, TrieNode::ROOT)];
        while let Some((set, node)) = open.pop() {
            for &(byte, set) in self.children(set) {
                if let Some(child) = trie.child(node, byte) {
                    visit(set, trie.tokens_at(child));
                    open.push((set, child));
                }
            }
        }
    }
}

/// A walk over the names seen that finds the beginnings that can no longer become an unused name.
struct Exhausted<'a> {
    names: &'a Names,
    rule: &'a ObjectRule,
    dfa: &'a TextDfa,
    begun: &'a ByText,
    tokens: &'a mut Vec<TokenId>,
}

impl Exhausted<'_> {
    fn walk(&mut self, seen: NamesId) {
        let mut open = vec![(seen, TrieNode::ROOT, self.dfa.start())];
        while let Some((set, node, state)) = open.pop() {
            for (c, set) in self.names.next_chars(set) {
                let Some(state) = self.dfa.next(state, c) else { continue };
                let mut utf8 = [0; 4];
                let mut bytes = c.encode_utf8(&mut utf8).bytes();
                let child = bytes.try_fold(node, |node, byte| self.begun.trie.child(node, byte));
                let Some(child) = child else { continue };
                let taken = self.names.count(set).saturating_add(self.rule.members.len() as u32);
                if self.rule.names_below[state as usize] > taken {
                    open.push((set, child, state));
                } else {
                    self.tokens.extend(self.begun.trie.tokens_below(child));
                }
            }
        }
    }
}
