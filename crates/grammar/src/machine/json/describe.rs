//! Describes in words what may come next in a JSON text.

use super::{Frame, JsonMachine, OUTSIDE, StackId, State};
use crate::ByteSet;
use crate::ir::json::program::{Node, TextRule};
use crate::ir::json::trie::Trie;
use crate::machine::Config;
use crate::options::Order;

/// Maximum number of words that a description lists.
const SHOWN: usize = 8;

impl JsonMachine {
    /// Describes what may follow `config`, with one line for each alternative. `following` has the
    /// bytes that may come next.
    pub(super) fn describe(&self, config: Config, following: ByteSet) -> Vec<String> {
        let mut lines = Vec::new();
        for &thread in self.interner.threads_of(config) {
            let thread = self.interner.thread(thread);
            self.describe_thread(thread.stack, thread.state, following, &mut lines);
        }
        let mut met = rustc_hash::FxHashSet::default();
        lines.retain(|line| met.insert(line.clone()));
        lines
    }

    fn describe_thread(&self, stack: StackId, state: State, following: ByteSet, lines: &mut Vec<String>) {
        let program = &*self.program;
        match state {
            State::Value { node, .. } => self.describe_node(&program.nodes[node as usize], lines),
            State::Literal { literal, .. } => {
                lines.push(format!("the rest of `{}`", String::from_utf8_lossy(literal.text())));
            }
            State::Number { dfa, state } if program.numbers[dfa as usize].closing(state).0 == 0 => {
                lines.push("more of the number".to_owned());
                self.after_value_in_words(stack, following, lines);
            }
            State::Number { .. } => lines.push("the rest of a number".to_owned()),
            State::Text { rule, chars, .. } => {
                let TextRule { min, max } = program.texts[rule as usize];
                let left = TextRule {
                    min: min.saturating_sub(chars),
                    max: max.map(|max| max.saturating_sub(chars)),
                };
                lines.push(format!("the rest of a string{}", bounds(&left, "more ")));
            }
            State::Language { .. } => {
                lines.push("the rest of a string that matches a pattern or format".to_owned());
            }
            State::Word { trie, at, .. } => {
                lines.push(format!("the rest of {}", listed(&program.words[trie as usize], at, |_| true)));
            }
            State::ArrayStart { .. } => {
                if let Some(Frame::Array { rule, .. }) = self.interner.stack(stack).frame {
                    for way in program.arrays[rule as usize].item(0) {
                        self.describe_node(&program.nodes[way.node as usize], lines);
                    }
                }
                lines.extend(self.bracket(stack));
            }
            State::ObjectStart { .. } => {
                self.names(stack, (0, 0), "", lines);
                lines.extend(self.bracket(stack));
            }
            State::KeyStart { .. } => self.names(stack, (0, 0), "", lines),
            State::Key { at, other, .. } => self.names(stack, (at, other), "the rest of ", lines),
            State::Colon { .. } => lines.push("`:`".to_owned()),
            State::AfterValue => self.after_value_in_words(stack, following, lines),
            State::Close { .. } => lines.extend(self.bracket(stack)),
            State::End => lines.push("white space".to_owned()),
        }
    }

    /// Returns a description of the closing bracket of the array or object on top of `stack`.
    /// `None` if it may not close.
    fn bracket(&self, stack: StackId) -> Option<String> {
        let top = self.interner.stack(stack);
        let bracket = top.frame.filter(|_| top.closable)?.bracket();
        Some(format!("`{}`", char::from(bracket)))
    }

    fn after_value_in_words(&self, stack: StackId, following: ByteSet, lines: &mut Vec<String>) {
        let next = match self.interner.stack(stack).frame {
            Some(Frame::Array { .. }) => "`,` and another item",
            Some(Frame::Object { .. }) => "`,` and another member",
            None => return,
        };
        lines.extend(following.contains(b',').then(|| next.to_owned()));
        lines.extend(self.bracket(stack));
    }

    /// Adds a line for the declared names and a line for the undeclared names that may follow at a
    /// place in a name. Each line begins with `start`.
    fn names(&self, stack: StackId, (at, other): (u32, u32), start: &str, lines: &mut Vec<String>) {
        let Some(Frame::Object { rule, seen, members, .. }) = self.interner.stack(stack).frame else {
            return;
        };
        let object = &self.program.objects[rule as usize];
        if at != OUTSIDE {
            let free = |index: u32| self.may_follow(object, (seen, members), index as usize);
            if object.names.words_below(at).any(|(index, _)| free(index)) {
                lines.push(format!("{start}the name {}", listed(&object.names, at, free)));
            }
        }
        let late = || object.next_required[seen as usize] as usize == object.members.len();
        let open = object.others.iter().any(|ways| !ways.is_empty());
        if other != OUTSIDE && open && (self.program.order == Order::Any || late()) {
            let which = if object.members.is_empty() { "a name" } else { "another name" };
            lines.push(format!("{start}{which}"));
        }
    }

    fn describe_node(&self, node: &Node, lines: &mut Vec<String>) {
        let program = &*self.program;
        let literals = [(node.null, "null"), (node.bools[0], "false"), (node.bools[1], "true")];
        lines.extend(literals.iter().filter(|(present, _)| *present).map(|(_, text)| format!("`{text}`")));
        lines.extend(node.number.map(|_| "a number".to_owned()));
        for &rule in &node.texts {
            lines.push(format!("a string{}", bounds(&program.texts[rule as usize], "")));
        }
        if let Some(words) = node.words {
            lines.push(listed(&program.words[words as usize], 0, |_| true));
        }
        lines.extend(node.languages.first().map(|_| "a string that matches a pattern or format".to_owned()));
        lines.extend(node.arrays.first().map(|_| "an array".to_owned()));
        lines.extend(node.objects.first().map(|_| "an object".to_owned()));
    }
}

fn bounds(rule: &TextRule, more: &str) -> String {
    match (rule.min, rule.max) {
        (0, None) => String::new(),
        (0, Some(0)) => " without more characters".to_owned(),
        (0, Some(max)) => format!(" of at most {max} {more}characters"),
        (min, None) => format!(" of at least {min} {more}characters"),
        (min, Some(max)) if min == max => format!(" of {min} {more}characters"),
        (min, Some(max)) => format!(" of {min} to {max} {more}characters"),
    }
}

/// Lists at most [`SHOWN`] of the words below the trie node `at` for which `which` is true, and
/// gives the number of the others.
fn listed(words: &Trie, at: u32, which: impl Fn(u32) -> bool) -> String {
    let all: Vec<_> = words.words_below(at).map(|(index, _)| index).filter(|&index| which(index)).collect();
    let shown = all.iter().take(SHOWN).map(|&index| serde_json::Value::String(words.word(index)).to_string());
    let shown = shown.collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} or {more} others"),
    }
}
