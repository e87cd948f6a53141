//! Choice points of text that is not JSON.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::Value;

use super::explorer::{Explorer, MAX_OPTIONS, Step, Verdict};
use super::{ChoiceKind, ChoiceOption, ChoicePoint, OptionValue};
use crate::Grammar;
use crate::machine::Config;

/// Maximum length of a choice within an output, in bytes.
const MAX_WITHIN: usize = 256;

/// Reads text and finds its choice points.
pub(super) struct TextReader {
    explorer: Explorer,
    /// All bytes so far.
    text: Vec<u8>,
    /// Configs before each byte, and after the last one.
    configs: Vec<Config>,
    /// All outputs of the grammar, if they are few.
    outputs: Option<Vec<Vec<u8>>>,
    /// Offset from which choices are looked for.
    from: usize,
    /// Offset up to which the end of a choice at `from` was looked for.
    tried: usize,
}

impl TextReader {
    pub(super) fn new(grammar: &Grammar) -> Self {
        let mut explorer = Explorer::new(grammar);
        let start = explorer.start();
        let judge =
            |(): &(), step: Step<'_>| if step.may_end { Verdict::Both(()) } else { Verdict::Continue(()) };
        let mut outputs = explorer.enumerate(start, (), judge).filter(|texts| texts.len() <= MAX_OPTIONS);
        if let Some(outputs) = &mut outputs
            && explorer.may_end(start)
        {
            outputs.insert(0, Vec::new());
        }
        Self { explorer, text: Vec::new(), configs: vec![start], outputs, from: 0, tried: 0 }
    }

    pub(super) const fn is_spent(&self) -> bool {
        self.explorer.is_spent()
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<ChoicePoint> {
        for &byte in bytes {
            let last = self.configs.last().copied().unwrap_or(Config::DEAD);
            let next = self.explorer.step(last, byte);
            if next == Config::DEAD {
                break;
            }
            self.configs.push(next);
            self.text.push(byte);
        }
        if self.outputs.is_some() { Vec::new() } else { self.points(false) }
    }

    pub(super) fn finish(&mut self) -> Vec<ChoicePoint> {
        let Some(outputs) = self.outputs.take() else { return self.points(true) };
        let written = outputs.iter().position(|output| *output == self.text);
        // An empty text has no tokens whose probability could be compared.
        let has_empty = outputs.iter().any(Vec::is_empty);
        let Some(chosen) = written.filter(|_| outputs.len() > 1 && !has_empty) else { return Vec::new() };
        point(0..self.text.len(), outputs, chosen, true).into_iter().collect()
    }

    /// Returns the choice points that are decided. A choice that the text has not left yet is decided only
    /// if `is_whole` is true.
    fn points(&mut self, is_whole: bool) -> Vec<ChoicePoint> {
        let mut found = Vec::new();
        while self.from < self.text.len() && !self.explorer.is_spent() {
            match self.choice() {
                Found::Choice(point) => {
                    self.move_to(point.end);
                    found.push(point);
                }
                // More bytes may lead to the place through which all texts go.
                Found::NotYet if !is_whole => break,
                Found::NotYet | Found::Nothing => self.move_to(self.from + 1),
            }
        }
        found
    }

    fn move_to(&mut self, from: usize) {
        (self.from, self.tried) = (from, from);
        if self.explorer.is_large() {
            self.explorer.renew();
            self.configs = vec![self.explorer.start()];
            for &byte in &self.text {
                let last = self.configs.last().copied().unwrap_or(Config::DEAD);
                self.configs.push(self.explorer.step(last, byte));
            }
        }
        self.explorer.begin_place();
    }

    /// Looks for a choice that starts at `from`.
    fn choice(&mut self) -> Found {
        let (from, start) = (self.from, self.configs[self.from]);
        if !self.may_choose(from) {
            return Found::Nothing;
        }
        let mut seen = HashSet::from([start]);
        for to in from + 1..self.configs.len() {
            let end = self.configs[to];
            if to > from + MAX_WITHIN || !seen.insert(end) {
                return Found::Nothing;
            }
            if to <= self.tried {
                continue;
            }
            self.tried = to;
            if self.explorer.following(end).iter().any(|byte| self.explorer.step(end, byte) == end) {
                // The rest of a repetition, such as `[a-z]+`.
                continue;
            }
            let judge = |(): &(), step: Step<'_>| match step {
                Step { next, .. } if next == end => Verdict::Complete,
                // An output that ends on the way does not go through the place.
                Step { may_end: true, .. } => Verdict::Abandon,
                _ => Verdict::Continue(()),
            };
            if self.explorer.may_end(start) {
                return Found::Nothing;
            }
            let Some(texts) = self.explorer.enumerate(start, (), judge) else { continue };
            let chosen = texts.iter().position(|text| *text == self.text[from..to]);
            let is_choice = (2..=MAX_OPTIONS).contains(&texts.len());
            let Some(chosen) = chosen.filter(|_| is_choice) else { continue };
            if let Some(point) = point(from..to, texts, chosen, false) {
                return Found::Choice(point);
            }
        }
        Found::NotYet
    }

    /// Returns true if different characters may follow an offset between characters.
    fn may_choose(&mut self, from: usize) -> bool {
        let first = self.text[from];
        let len = match first {
            0x80..0xc0 => return false,
            0..0x80 => 1,
            0xc0..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
        let to = self.configs.len().min(from + len);
        (from..to).any(|at| self.explorer.following(self.configs[at]).len() > 1)
    }
}

/// Result of looking for a choice.
enum Found {
    Choice(ChoicePoint),
    /// There may be one that the text has not left yet.
    NotYet,
    Nothing,
}

/// Returns a choice point whose options are the given texts, or `None` if a text ends within a character.
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
