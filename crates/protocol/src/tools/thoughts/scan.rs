//! Places of thoughts and of code in a text.

use std::ops::Range;

use serde::de::IgnoredAny;

use super::code::Code;
use crate::adapt::thoughts::TAGS;

/// Next place of a text that is not plain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tools) enum Event {
    /// Markdown code or a JSON value, in which tags are text.
    Literal(Range<usize>),
    /// An opening tag.
    Open(Tag),
    /// A closing tag outside thoughts.
    Close(Tag),
}

/// Tag of thoughts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tools) struct Tag {
    /// Index of the family in [`TAGS`].
    pub(in crate::tools) family: usize,
    pub(in crate::tools) range: Range<usize>,
}

impl Event {
    pub(in crate::tools) const fn start(&self) -> usize {
        match self {
            Self::Literal(range) => range.start,
            Self::Open(tag) | Self::Close(tag) => tag.range.start,
        }
    }

    pub(in crate::tools) const fn end(&self) -> usize {
        match self {
            Self::Literal(range) => range.end,
            Self::Open(tag) | Self::Close(tag) => tag.range.end,
        }
    }
}

/// Finds thoughts and code from left to right. A segment is the text between two thoughts.
pub(in crate::tools) struct Scanner<'a> {
    text: &'a str,
    /// `text` in lower case if it differs. Positions are the same.
    lower: Option<String>,
    tags: Vec<Needle>,
    /// Place of the last closing tag.
    last_close: Option<usize>,
    code: Code,
    /// JSON value at the start of the segment, if it is not skipped yet.
    value: Option<Range<usize>>,
    /// True if the segment begins with `{` and is not JSON, such as JSON that was cut off.
    is_broken: bool,
    /// Number of brackets that are open in a broken segment, and the end of the counted text.
    depth: (i64, usize),
}

/// Tag with the cached place of its next occurrence.
struct Needle {
    family: usize,
    word: &'static str,
    is_closing: bool,
    next: Option<usize>,
}

impl<'a> Scanner<'a> {
    /// Creates a scanner at the start of `text`. If `is_strict` is true, code that is not closed
    /// extends to the end of the text.
    pub(in crate::tools) fn new(text: &'a str, is_strict: bool) -> Self {
        let has_upper = text.contains('<') && text.bytes().any(|byte| byte.is_ascii_uppercase());
        let lower = has_upper.then(|| text.to_ascii_lowercase());
        let families = TAGS.iter().enumerate();
        let tags = families.flat_map(|(family, (open, close))| {
            let open = Some(Needle { family, word: open, is_closing: false, next: Some(0) });
            // `<|end|>` and `<channel|>` end other messages as well.
            let is_own = ["/", "THINKING", "close"].iter().any(|word| close.contains(word));
            let close = is_own.then_some(Needle { family, word: close, is_closing: true, next: Some(0) });
            open.into_iter().chain(close)
        });
        let mut scanner = Self {
            text,
            lower,
            tags: tags.collect(),
            last_close: None,
            code: Code::of(text, is_strict),
            value: None,
            is_broken: false,
            depth: (0, 0),
        };
        for at in 0..scanner.tags.len() {
            scanner.tags[at].next = scanner.find(scanner.tags[at].word, 0);
        }
        scanner.tags.retain(|tag| tag.next.is_some());
        let closes = scanner.tags.iter().filter(|tag| tag.is_closing);
        scanner.last_close = closes.filter_map(|tag| scanner.rfind(tag.word)).max();
        scanner.begin(0);
        scanner
    }

    /// Begins a segment at `at`, the end of a thought.
    pub(in crate::tools) fn begin(&mut self, at: usize) {
        self.code.begin(self.text, at, self.last_close.is_some_and(|last| last >= at));
        let start = self.text.len() - self.text[at..].trim_start().len();
        (self.value, self.is_broken, self.depth) = (None, false, (0, start));
        if self.text[start..].starts_with(['{', '[']) {
            let mut values =
                serde_json::Deserializer::from_str(&self.text[start..]).into_iter::<IgnoredAny>();
            if values.next().is_some_and(|value| value.is_ok()) {
                self.value = Some(start..start + values.byte_offset());
            } else {
                self.is_broken = self.text[start..].starts_with('{');
            }
        }
    }

    /// Returns the first event at `from` or after it. `from` never decreases.
    pub(in crate::tools) fn next(&mut self, from: usize) -> Option<Event> {
        let mut from = from;
        loop {
            let value = self.value.clone().filter(|value| value.start >= from);
            let literal = value.into_iter().chain(self.code.next(from)).min_by_key(|range| range.start);
            let found = self.tag(from);
            let Some((at, tag)) =
                found.filter(|(at, _)| literal.as_ref().is_none_or(|range| *at < range.start))
            else {
                return literal.map(Event::Literal);
            };
            let Needle { family, word, is_closing, .. } = self.tags[tag];
            if self.is_broken && self.is_open(at) {
                from = at + word.len();
                continue;
            }
            let tag = Tag { family, range: at..at + word.len() };
            return Some(if is_closing { Event::Close(tag) } else { Event::Open(tag) });
        }
    }

    /// Returns the end of the thought that `open` begins, or `None` if the thought is cut off.
    pub(in crate::tools) fn end(&self, open: &Tag) -> Option<usize> {
        let close = TAGS[open.family].1;
        self.find(close, open.range.end).map(|at| at + close.len())
    }

    /// Returns the first tag at `from` or after it: its place, and its index in `tags`.
    fn tag(&mut self, from: usize) -> Option<(usize, usize)> {
        let mut first = None;
        for at in 0..self.tags.len() {
            if self.tags[at].next.is_some_and(|next| next < from) {
                self.tags[at].next = self.find(self.tags[at].word, from);
            }
            if let Some(next) = self.tags[at].next
                && first.is_none_or(|(found, _)| next < found)
            {
                first = Some((next, at));
            }
        }
        first
    }

    /// Finds a tag. The case of a tag like `<think>` does not matter.
    fn find(&self, word: &str, from: usize) -> Option<usize> {
        self.haystack(word)[from..].find(word).map(|at| from + at)
    }

    fn rfind(&self, word: &str) -> Option<usize> {
        self.haystack(word).rfind(word)
    }

    fn haystack(&self, word: &str) -> &str {
        let is_lower = !word.bytes().any(|byte| byte.is_ascii_uppercase());
        self.lower.as_deref().filter(|_| is_lower).unwrap_or(self.text)
    }

    /// Reports whether more brackets open than close between the start of the segment and `at`.
    fn is_open(&mut self, at: usize) -> bool {
        let (depth, counted) = &mut self.depth;
        for byte in &self.text.as_bytes()[*counted..at.max(*counted)] {
            match byte {
                b'{' | b'[' => *depth += 1,
                b'}' | b']' => *depth -= 1,
                _ => {}
            }
        }
        *counted = at.max(*counted);
        *depth > 0
    }
}
