//! Rules for strings, and for the names of undeclared members.

use super::automata::{Automaton, State};
use super::{Shared, Writer, alternatives, class, sequence};
use crate::error::GrammarError;
use crate::ir::expr::{Expr, RuleId};
use crate::ir::json::program::{FREE, LanguageRule, ObjectRule, TextRule};
use crate::ir::json::trie::Trie;
use crate::regular::TextDfa;

/// Returns the spelling of a string in the generate profile, with its quotes.
pub(super) fn json(text: String) -> String {
    serde_json::Value::String(text).to_string()
}

/// Returns an expression for one character in `ranges`, in the spelling of the generate profile.
/// The ranges are code points.
pub(crate) fn spelling(ranges: &[(u32, u32)]) -> Expr {
    let mut plain = Vec::new();
    let mut escapes: [(&str, Vec<(char, char)>); 3] =
        [("\\", Vec::new()), ("\\u000", Vec::new()), ("\\u001", Vec::new())];
    for &(low, high) in ranges {
        for c in (low..=high.min(0x7f)).filter_map(char::from_u32) {
            if !(c.is_ascii_control() || matches!(c, '"' | '\\')) {
                plain.push((c, c));
                continue;
            }
            let text = json(c.to_string());
            let text = &text[1..text.len() - 1];
            match escapes.iter_mut().rev().find(|(start, _)| text.starts_with(start)) {
                Some((_, ends)) => ends.extend(text.chars().next_back().map(|end| (end, end))),
                None => plain.push((c, c)),
            }
        }
        let rest = char::from_u32(low.max(0x80)).zip(char::from_u32(high));
        plain.extend(rest.filter(|(low, high)| low <= high));
    }
    let escaped = escapes.into_iter().filter(|(_, ends)| !ends.is_empty());
    let escaped = escaped.map(|(start, ends)| sequence([Expr::Literal(start.into()), class(ends)]));
    alternatives(
        Some(plain).filter(|plain| !plain.is_empty()).map(class).into_iter().chain(escaped).collect(),
    )
}

/// The ranges of all code points.
pub(super) const ALL: [(u32, u32); 2] = [(0, 0xd7ff), (0xe000, 0x10_ffff)];

fn quoted(inside: Expr) -> Expr {
    sequence([Expr::Literal(b"\"".into()), inside, Expr::Literal(b"\"".into())])
}

impl Writer<'_> {
    /// Returns a reference to the rule for any character of a string.
    pub(super) fn char(&mut self) -> Result<Expr, GrammarError> {
        self.shared(Shared::Char, "char", |_, _| Ok(spelling(&ALL)))
    }

    /// Returns an expression for one character in `ranges`.
    pub(super) fn chars(&mut self, ranges: &[(u32, u32)]) -> Result<Expr, GrammarError> {
        if ranges == ALL { self.char() } else { Ok(spelling(ranges)) }
    }

    pub(super) fn text(&mut self, rule: u32) -> Result<Expr, GrammarError> {
        let TextRule { min, max } = self.program.texts[rule as usize];
        let char = self.char()?;
        let string = quoted(Expr::Repeat { expr: Box::new(char), min, max });
        if rule == FREE { self.shared(Shared::String, "string", |_, _| Ok(string)) } else { Ok(string) }
    }

    /// Returns a reference to the rule for the strings of a language rule.
    pub(super) fn language(&mut self, rule: u32) -> Result<Expr, GrammarError> {
        self.shared(Shared::Language(rule), "text", |writer, name| {
            let LanguageRule { language, max, .. } = writer.program.language_rules[rule as usize];
            let dfa = writer.program.languages[language as usize].dfa();
            let automaton = match max {
                None => of_language(dfa, |label| label != 0),
                Some(max) => writer.bounded(dfa, max)?,
            };
            Ok(quoted(writer.automaton(&automaton, name)?))
        })
    }

    /// Returns an automaton for the texts of `dfa` with at most `max` characters.
    pub(super) fn bounded(&mut self, dfa: &TextDfa, max: u32) -> Result<Automaton, GrammarError> {
        let mut states = Vec::new();
        let edges: usize = (0..dfa.len() as u32).map(|state| dfa.transitions(state).len()).sum();
        // Each layer holds all states after one number of characters.
        for chars in 0..=max {
            self.spend(dfa.len() + edges)?;
            for state in 0..dfa.len() as u32 {
                let to = |target: u32| ((chars + 1) as usize * dfa.len()) + target as usize;
                let edges = dfa.transitions(state).iter().filter(|_| chars < max);
                let edges = edges.map(|&(low, high, target)| (to(target), (low, high))).collect();
                states.push(State { edges, ends: dfa.label(state) != 0 });
            }
        }
        Ok(Automaton { states, start: dfa.start() as usize }.trimmed())
    }

    /// Returns an expression for the names of undeclared members with the label `label`, with their
    /// quotes.
    pub(super) fn other_name(
        &mut self,
        object: &ObjectRule,
        label: u32,
        name: RuleId,
    ) -> Result<Expr, GrammarError> {
        let automaton = match object.labels {
            Some(labels) => {
                let dfa = self.program.languages[labels as usize].dfa();
                of_language(dfa, |other| other == label).trimmed()
            }
            None if object.members.is_empty() => return self.text(FREE),
            None => outside(&object.names),
        };
        Ok(quoted(self.automaton(&automaton, name)?))
    }
}

pub(super) fn of_language(dfa: &TextDfa, ends: impl Fn(u32) -> bool) -> Automaton {
    let state = |state: u32| {
        let edges = dfa.transitions(state).iter();
        let edges = edges.map(|&(low, high, target)| (target as usize, (low, high))).collect();
        State { edges, ends: ends(dfa.label(state)) }
    };
    Automaton { states: (0..dfa.len() as u32).map(state).collect(), start: dfa.start() as usize }
}

/// Returns an automaton for all texts except the words of a trie.
pub(super) fn outside(words: &Trie) -> Automaton {
    let any = words.len();
    let mut states: Vec<State> = (0..words.len() as u32)
        .map(|at| {
            let node = words.node(at);
            let mut edges: Vec<_> =
                node.children.iter().map(|&(c, child)| (child as usize, (c.into(), c.into()))).collect();
            let mut from = 0;
            for next in node.children.iter().map(|&(c, _)| u32::from(c)).chain([0x11_0000]) {
                for (low, high) in ALL {
                    let (low, high) = (low.max(from), high.min(next.saturating_sub(1)));
                    if low <= high && from < next {
                        edges.push((any, (low, high)));
                    }
                }
                from = next + 1;
            }
            State { edges, ends: node.word.is_none() }
        })
        .collect();
    states.push(State { edges: ALL.map(|range| (any, range)).into(), ends: true });
    Automaton { states, start: 0 }
}
