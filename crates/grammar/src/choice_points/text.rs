//! Choice points of text that is not JSON.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::Value;

use super::texts::{MAX_STEPS, Next, Step, enumerate};
use super::{ChoiceKind, ChoiceOption, ChoicePoint, OptionValue};
use crate::machine::Config;
use crate::machine::automaton::Automaton;

/// Maximum length of the texts of a choice within an output, in bytes.
const MAX_LEN: usize = 256;

/// Reads text and finds its choice points.
pub(super) struct TextReader {
    automaton: Automaton,
    /// All bytes so far.
    text: Vec<u8>,
    /// Configs before each byte, and after the last one.
    configs: Vec<Config>,
    /// All outputs of the grammar, if they are few.
    outputs: Option<Vec<Vec<u8>>>,
    /// Offset from which choices are looked for.
    from: usize,
}

impl TextReader {
    pub(super) fn new(mut automaton: Automaton) -> Self {
        let start = automaton.start();
        let judge = |(): &(), step: Step<'_>| {
            if step.automaton.accepting(step.next) { Next::Both(()) } else { Next::On(()) }
        };
        let outputs = enumerate(&mut automaton, (start, ()), &mut { MAX_STEPS }, judge);
        Self { automaton, text: Vec::new(), configs: vec![start], outputs, from: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<ChoicePoint> {
        for &byte in bytes {
            let Some(&last) = self.configs.last().filter(|config| **config != Config::DEAD) else { break };
            self.configs.push(self.automaton.run(last, &[byte]));
            self.text.push(byte);
        }
        if self.outputs.is_some() { Vec::new() } else { self.points(false) }
    }

    pub(super) fn finish(&mut self) -> Vec<ChoicePoint> {
        let Some(outputs) = self.outputs.take() else { return self.points(true) };
        let written = outputs.iter().position(|output| *output == self.text);
        let Some(chosen) = written.filter(|_| outputs.len() > 1) else { return Vec::new() };
        point(0..self.text.len(), outputs, chosen, true).into_iter().collect()
    }

    /// Returns the choice points that are decided. A choice that the text has not left yet is decided only
    /// if `is_whole` is true.
    fn points(&mut self, is_whole: bool) -> Vec<ChoicePoint> {
        let mut found = Vec::new();
        while self.from < self.text.len() {
            let left = self.text.len() - self.from;
            match self.choice_at(self.from) {
                Some(point) => {
                    self.from = point.end;
                    found.push(point);
                }
                // More bytes may lead to the place through which all texts go.
                None if left < MAX_LEN && !is_whole && !self.is_in_loop(self.from) => break,
                None => self.from += 1,
            }
        }
        found
    }

    /// Returns true if the text after an offset has come to a place twice.
    fn is_in_loop(&mut self, from: usize) -> bool {
        let mut seen = HashSet::new();
        let has_choice = self.automaton.following(self.configs[from]).len() > 1;
        !has_choice || self.configs[from..].iter().any(|config| !seen.insert(*config))
    }

    /// Returns the choice that starts at an offset, if the text has come to its end.
    fn choice_at(&mut self, from: usize) -> Option<ChoicePoint> {
        let start = self.configs[from];
        let is_inside = self.text[from] & 0xc0 == 0x80;
        if is_inside || (self.text[from] < 0x80 && self.automaton.following(start).len() < 2) {
            return None;
        }
        let (mut seen, mut steps) = (HashSet::from([start]), MAX_STEPS);
        for to in from + 1..self.configs.len().min(from + MAX_LEN + 1) {
            let end = self.configs[to];
            if end == Config::DEAD || !seen.insert(end) {
                return None;
            }
            if self.automaton.following(end).iter().any(|byte| self.automaton.run(end, &[byte]) == end) {
                // The rest of a repetition, such as `[a-z]+`.
                continue;
            }
            let judge =
                |(): &(), step: Step<'_>| if step.next == end { Next::Complete } else { Next::On(()) };
            let Some(texts) = enumerate(&mut self.automaton, (start, ()), &mut steps, judge) else {
                continue;
            };
            let Some(chosen) = texts.iter().position(|text| *text == self.text[from..to]) else { continue };
            // An output that ends on the way does not go through the place.
            let ends_early = texts.iter().any(|text| {
                (0..text.len()).any(|len| {
                    let config = self.automaton.run(start, &text[..len]);
                    self.automaton.accepting(config)
                })
            });
            if texts.len() > 1 && !ends_early {
                return point(from..to, texts, chosen, false);
            }
        }
        None
    }
}

/// Returns a choice point whose options are the given texts.
fn point(range: Range<usize>, texts: Vec<Vec<u8>>, chosen: usize, to_end: bool) -> Option<ChoicePoint> {
    let option = |text: Vec<u8>| {
        let text = String::from_utf8(text).ok()?;
        Some(ChoiceOption { value: OptionValue::Value(Value::from(text.as_str())), texts: vec![text] })
    };
    let options: Vec<ChoiceOption> = texts.into_iter().map(option).collect::<Option<_>>()?;
    Some(ChoicePoint {
        kind: ChoiceKind::Text,
        path: String::new(),
        start: range.start,
        end: range.end,
        options,
        chosen,
        to_end,
    })
}
