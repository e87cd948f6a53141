//! Search for calls in a text with thoughts and code.

use super::super::super::arguments::fence;
use super::super::super::registry::ToolSource;
use super::super::super::thoughts::{Event, Scanner, THOUGHTS};
use super::marks::Marks;
use super::{Call, is_known, json, markers, python, short};

/// Maximum number of marks without a call, which bounds the time. The text after them is kept.
const MISSES: usize = 256;

/// Returns the calls in `said` and the text around them, which includes thoughts. Returns `None` if
/// there are no calls.
pub(super) fn read(said: &str, tools: &dyn ToolSource) -> Option<(Vec<Call>, String)> {
    let found = Reading::new(said, tools).run();
    if !found.calls.is_empty() {
        return Some((found.calls, found.text));
    }
    let outside = found.outside.trim();
    if let Some((calls, _)) = whole(outside, tools) {
        return Some((calls, found.thoughts));
    }
    let calls = {
        // A fence that is the whole text is a call like its content.
        let inner = fence(outside)?.1;
        let found = Reading::new(inner, tools).run();
        (found.outside.trim().is_empty() && !found.calls.is_empty()).then_some(found.calls)?
    };
    Some((calls, found.thoughts))
}

/// State of a search from left to right.
struct Reading<'a> {
    said: &'a str,
    tools: &'a dyn ToolSource,
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
    fn new(said: &'a str, tools: &'a dyn ToolSource) -> Self {
        Self {
            said,
            tools,
            at: 0,
            misses: 0,
            thoughts_count: 0,
            found: Found::default(),
            segment: (0, 0, 0, 0),
        }
    }

    fn run(mut self) -> Found {
        let mut scanner = Scanner::new(self.said, true);
        let mut marks = Marks::new(self.said);
        loop {
            let event = scanner.next(self.at);
            let mark = marks.next(self.at).filter(|_| self.misses < MISSES);
            let limit = event.as_ref().map_or(self.said.len(), Event::start);
            if let Some(mark) = mark.filter(|mark| mark.at < limit || (mark.at == limit && mark.is_fence())) {
                let after = &self.said[mark.at..];
                if let Some((read, len)) = mark.read(after, self.tools) {
                    let before = without_header(&self.said[self.at..mark.at]);
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

/// Removes the header of a harmony message at the end of the text before a call.
fn without_header(before: &str) -> &str {
    let text = before.trim_end();
    let text = text.strip_suffix("commentary").map_or(text, str::trim_end);
    let stripped = text.strip_suffix("<|channel|>").unwrap_or(text);
    let stripped = stripped.strip_suffix("<|start|>assistant").unwrap_or(stripped);
    if stripped.len() < text.len() { stripped } else { before }
}

/// Returns the calls in `said` if it consists of calls only: a fence with the info string
/// `tool_call`, or calls of known tools in JSON or Python. The remaining text is empty.
fn whole(said: &str, tools: &dyn ToolSource) -> Option<(Vec<Call>, String)> {
    let said = said.trim();
    let named = fence(said).is_some_and(|(info, _)| ["tool_call", "tool_calls"].contains(&info));
    if let Some(calls) = named.then(|| json::whole(said, tools)).flatten() {
        return Some((calls, String::new()));
    }
    let said = said.strip_prefix("Action:").map_or(said, str::trim_start);
    let ends = ["<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|im_end|>"];
    let said = ends.iter().find_map(|end| said.strip_suffix(end)).unwrap_or(said);
    let calls = json::whole(said, tools)
        .or_else(|| python::calls(said).filter(|(_, end)| said[*end..].trim().is_empty()).map(|read| read.0))
        .or_else(|| python::bare_calls(said))
        .or_else(|| markers::stripped(said))?;
    calls.iter().all(|call| is_known(tools, short(&call.name))).then_some((calls, String::new()))
}
