//! Search for calls in a text with thoughts and code.

use super::super::super::arguments::fence;
use super::super::super::thoughts::{Event, Scanner, THOUGHTS};
use super::formats::Whole;
use super::marks::Marks;
use super::{
    Answer, Call, WRAPPERS, are_named, gemma, is_known, json, markers, python, short, tagged, without_ends,
};

/// Maximum number of marks without a call, which bounds the time. The text after them is kept.
const MISSES: usize = 256;

/// Returns the calls in `said` and the text around them, which includes thoughts. Returns `None` if
/// there are no calls.
pub(super) fn read(said: &str, answer: &Answer<'_>) -> Option<(Vec<Call>, String)> {
    let found = Reading::new(said, answer).run();
    if !found.calls.is_empty() {
        return Some((found.calls, found.text));
    }
    let outside = found.outside.trim();
    if let Some(calls) = whole(outside, answer) {
        return Some((calls, found.thoughts));
    }
    let calls = {
        // A fence that is the whole text is a call like its content.
        let inner = fence(outside)?.1;
        let found = Reading::new(inner, answer).run();
        (found.outside.trim().is_empty() && !found.calls.is_empty()).then_some(found.calls)?
    };
    Some((calls, found.thoughts))
}

/// Returns the calls with which a thought ends, and the place of the first. Returns `None` if the thought
/// ends otherwise or was cut off.
pub(super) fn at_end(thought: &str, answer: &Answer<'_>) -> Option<(Vec<Call>, usize)> {
    if answer.is_truncated {
        return None;
    }
    let thought = without_ends(thought);
    let mut scanner = Scanner::new(thought, true);
    let mut marks = Marks::new(thought, answer.format);
    let (mut at, mut misses) = (0, 0);
    // The last calls without text between them, with their place.
    let (mut calls, mut place) = (Vec::new(), 0..0);
    loop {
        let event = scanner.next(at);
        let limit = event.as_ref().map_or(thought.len(), Event::start);
        let mark = marks
            .next(at)
            .filter(|mark| misses < MISSES && (mark.at < limit || (mark.at == limit && mark.is_fence())));
        if let Some(mark) = mark {
            let after = &thought[mark.at..];
            if let Some((read, len)) = mark.read(after, answer.tools) {
                let between = without_header(&thought[place.end..mark.at]);
                if !between.trim().is_empty() {
                    calls.clear();
                }
                if calls.is_empty() {
                    place.start = place.end + between.len();
                }
                calls.extend(read);
                at = mark.at + len;
                place.end = at;
                continue;
            }
            misses += 1;
            if mark.at < limit {
                at = limit.min(mark.at + mark.skipped(after));
                continue;
            }
        }
        let Some(event) = event else { break };
        at = event.end();
    }
    let is_last = !calls.is_empty() && thought[place.end..].trim().is_empty();
    (is_last && are_named(answer.tools, &calls)).then_some((calls, place.start))
}

/// State of a search from left to right.
struct Reading<'a> {
    said: &'a str,
    answer: &'a Answer<'a>,
    at: usize,
    misses: usize,
    thoughts_count: usize,
    found: Found,
    /// Lengths of `found` and the place in `said` at the start of the segment after the last thought.
    segment: (usize, usize, usize, usize),
}

#[derive(Default)]
struct Found {
    calls: Vec<Call>,
    /// The text without the calls.
    text: String,
    /// The part of `text` in thoughts.
    thoughts: String,
    /// The part of `text` outside thoughts.
    outside: String,
}

impl<'a> Reading<'a> {
    fn new(said: &'a str, answer: &'a Answer<'a>) -> Self {
        Self {
            said,
            answer,
            at: 0,
            misses: 0,
            thoughts_count: 0,
            found: Found::default(),
            segment: (0, 0, 0, 0),
        }
    }

    fn run(mut self) -> Found {
        let mut scanner = Scanner::new(self.said, true);
        let mut marks = Marks::new(self.said, self.answer.format);
        loop {
            let event = scanner.next(self.at);
            let mark = marks.next(self.at).filter(|_| self.misses < MISSES);
            let limit = event.as_ref().map_or(self.said.len(), Event::start);
            if let Some(mark) = mark.filter(|mark| mark.at < limit || (mark.at == limit && mark.is_fence())) {
                let after = &self.said[mark.at..];
                let read = mark.read(after, self.answer.tools);
                let is_whole = |len| !self.answer.is_truncated || len < after.len() || is_closed(after);
                if let Some((read, len)) = read.filter(|(_, len)| is_whole(*len)) {
                    let before = without_header(&self.said[self.at..mark.at]);
                    let before = before.trim_start().strip_prefix(ANSWER).unwrap_or(before);
                    self.found.text.push_str(before);
                    self.found.outside.push_str(before);
                    self.found.calls.extend(read);
                    self.at = mark.at + len;
                    continue;
                }
                self.misses += 1;
                if mark.at < limit {
                    self.keep(limit.min(mark.at + mark.skipped(after)));
                    continue;
                }
            }
            match event {
                Some(Event::Literal(code)) => self.keep(code.end),
                Some(Event::Open(tag)) => {
                    self.keep(tag.range.start);
                    let end = scanner.end(&tag).filter(|_| self.thoughts_count < THOUGHTS);
                    let inside = &self.said[tag.range.end..];
                    let called =
                        (end.is_none() && self.thoughts_count == 0).then(|| at_end(inside, self.answer));
                    if let Some((calls, start)) = called.flatten() {
                        self.think(tag.range.end + start);
                        self.found.calls.extend(calls);
                        return self.found;
                    }
                    // A thought that was cut off has no calls, and no text follows it.
                    let thought = end.unwrap_or(self.said.len());
                    self.think(thought);
                    scanner.begin(thought);
                }
                Some(Event::Close(tag)) => {
                    // The segment is a thought that the prompt began.
                    let (calls, text, outside, start) = self.segment;
                    self.found.calls.truncate(calls);
                    self.found.text.truncate(text);
                    self.found.outside.truncate(outside);
                    self.at = start;
                    self.think(tag.range.end);
                    scanner.begin(tag.range.end);
                }
                None => {
                    self.keep(self.said.len());
                    // Text after the last thought; the end of a thought may be such a token as well.
                    let (_, start, ..) = self.segment;
                    if !self.found.calls.is_empty() {
                        let end = start + without_ends(&self.found.text[start..]).len();
                        self.found.text.truncate(end);
                    }
                    return self.found;
                }
            }
        }
    }

    /// Keeps the text up to `end`.
    fn keep(&mut self, end: usize) {
        self.found.text.push_str(&self.said[self.at..end]);
        self.found.outside.push_str(&self.said[self.at..end]);
        self.at = end;
    }

    /// Keeps the text up to `end` as a thought, and begins a segment.
    fn think(&mut self, end: usize) {
        self.found.text.push_str(&self.said[self.at..end]);
        self.found.thoughts.push_str(&self.said[self.at..end]);
        self.at = end;
        self.thoughts_count += 1;
        self.segment = (self.found.calls.len(), self.found.text.len(), self.found.outside.len(), end);
    }
}

/// Opening of an answer of Kimi K3.
const ANSWER: &str = "<|open|>response<|sep|>";

/// Reports whether the calls with which a text ends have all their arguments. Some readers take a call
/// without its last tags.
fn is_closed(text: &str) -> bool {
    let text = text.trim_end();
    let last = text.rfind('<').filter(|_| text.ends_with('>')).and_then(|at| tagged::tag(&text[at..]));
    match last {
        Some(tag) => {
            tag.is_closing && (WRAPPERS.contains(&tag.name) || ["invoke", "function"].contains(&tag.name))
        }
        None => text.ends_with(['>', '}', ']', ')', '`']),
    }
}

/// Removes the header of a harmony message at the end of the text before a call, and the tags of Kimi K3
/// there.
fn without_header(before: &str) -> &str {
    let text = before.trim_end();
    let text = text.strip_suffix("<|open|>tools<|sep|>").unwrap_or(text).trim_end();
    let text = text.strip_suffix("<|close|>response<|sep|>").unwrap_or(text);
    // A server that removes the tokens leaves the words.
    let Some(words) = text.strip_suffix("commentary") else { return without_channel(text, before) };
    let stripped = without_channel(words.trim_end(), words);
    stripped.strip_suffix("assistant").unwrap_or(stripped)
}

fn without_channel<'t>(text: &'t str, before: &'t str) -> &'t str {
    let stripped = text.strip_suffix("<|channel|>").unwrap_or(text);
    let stripped = stripped.strip_suffix("<|start|>assistant").unwrap_or(stripped);
    if stripped.len() < before.trim_end().len() { stripped } else { before }
}

/// Returns the calls in `said` if it consists of calls only: a fence with the info string
/// `tool_call`, or calls of known tools without an opening.
fn whole(said: &str, answer: &Answer<'_>) -> Option<Vec<Call>> {
    let Answer { tools, format, .. } = *answer;
    let said = said.trim();
    let named = fence(said).is_some_and(|(info, _)| ["tool_call", "tool_calls"].contains(&info));
    if let Some(calls) = (named && format.has(Whole::Json)).then(|| json::whole(said, tools)).flatten() {
        return Some(calls);
    }
    let said = ["Action:", "function call"].iter().find_map(|head| said.strip_prefix(head)).unwrap_or(said);
    let said = without_ends(said.trim_start());
    let python = || {
        let listed = python::calls(said).filter(|(_, end)| said[*end..].trim().is_empty());
        listed.map(|read| read.0).or_else(|| python::bare_calls(said))
    };
    let with = |form: Whole, read: &dyn Fn() -> Option<Vec<Call>>| format.has(form).then(read).flatten();
    let calls = with(Whole::Json, &|| json::whole(said, tools))
        .or_else(|| with(Whole::Python, &python))
        .or_else(|| with(Whole::Named, &|| markers::stripped(said)))
        .or_else(|| with(Whole::Braces, &|| gemma::stripped(said, tools)))?;
    calls.iter().all(|call| is_known(tools, short(&call.name))).then_some(calls)
}
