//! Incremental parsing of an answer's text.

mod harmony;
mod json;
mod literals;
mod members;
mod nested;
mod tagged;

use formwork_vocab::{TokenId, Vocabulary};

use crate::answer::Content;
use crate::format::{ChatFormat, Thoughts};
use crate::tool::Tools;

/// Part of an answer that a [`Reader`] recognized in new text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delta {
    /// More text of the thoughts.
    Thought(String),
    /// More text of the content.
    Content(String),
    /// Start of a call to the tool with this name. All earlier calls have ended.
    Call(String),
    /// More text of the last call's arguments.
    Arguments(String),
}

/// Incremental parser of one answer.
///
/// Text that matches the [grammar](ChatFormat::answer) of the same format is parsed exactly. Other
/// text counts as content from the position where it leaves the format.
pub struct Reader {
    kind: Kind,
}

enum Kind {
    Tagged(Box<tagged::Tagged>),
    Harmony(harmony::Channels),
}

impl Reader {
    /// Creates a reader for one answer. `content`, `tools` and `thoughts` must be the arguments
    /// with which [`ChatFormat::answer`] made the grammar of the answer.
    pub fn new(format: &ChatFormat, content: &Content, tools: &Tools, thoughts: Thoughts) -> Self {
        let kind = match &format.harmony {
            Some(harmony) => Kind::Harmony(harmony::Channels::new(harmony, thoughts == Thoughts::Begun)),
            None => Kind::Tagged(Box::new(tagged::Tagged::new(format, content, tools, thoughts))),
        };
        Self { kind }
    }

    /// Lets a call end the thoughts, for answers that were generated without the grammar. Some models
    /// call a tool without closing their thoughts.
    ///
    /// `tools` must be the tools of the answer. Only calls of these tools end the thoughts.
    #[must_use]
    pub fn with_calls_in_thoughts(mut self, tools: &Tools) -> Self {
        if let Kind::Tagged(reader) = &mut self.kind {
            reader.allow_calls_in_thoughts(tools);
        }
        self
    }

    /// Parses the next text of the answer and returns the recognized parts. Text that may belong to
    /// a tag is held back until more text decides.
    pub fn text(&mut self, text: &str) -> Vec<Delta> {
        let mut deltas = Deltas::default();
        match &mut self.kind {
            Kind::Tagged(reader) => reader.text(text, &mut deltas),
            Kind::Harmony(reader) => reader.text(text, &mut deltas),
        }
        deltas.0
    }

    /// Parses the next token of the answer if it is a control token. Its spelling must not be
    /// passed to [`text`](Self::text) as well.
    pub fn control(&mut self, token: TokenId, vocabulary: &Vocabulary) -> Vec<Delta> {
        let mut deltas = Deltas::default();
        match &mut self.kind {
            Kind::Tagged(reader) => {
                reader.control(token, &String::from_utf8_lossy(vocabulary.bytes(token)), &mut deltas);
            }
            Kind::Harmony(reader) => reader.control(token),
        }
        deltas.0
    }

    /// Returns true if the answer is currently in thoughts, in a call, or after the last call. Text
    /// held back at this point does not become content.
    pub fn is_outside_content(&self) -> bool {
        match &self.kind {
            Kind::Tagged(reader) => reader.is_outside_content(),
            Kind::Harmony(reader) => reader.is_outside_content(),
        }
    }

    /// Ends the answer. Returns the parts recognized in the text that was held back.
    pub fn finish(&mut self) -> Vec<Delta> {
        let mut deltas = Deltas::default();
        if let Kind::Tagged(reader) = &mut self.kind {
            reader.finish(&mut deltas);
        }
        deltas.0
    }
}

/// Deltas found so far; adjacent text of the same kind is joined.
#[derive(Default)]
struct Deltas(Vec<Delta>);

impl Deltas {
    fn thought(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Delta::Thought(last)) => last.push_str(text),
            _ => self.0.push(Delta::Thought(text.to_owned())),
        }
    }

    fn content(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Delta::Content(last)) => last.push_str(text),
            _ => self.0.push(Delta::Content(text.to_owned())),
        }
    }

    fn call(&mut self, name: &str) {
        self.0.push(Delta::Call(name.to_owned()));
    }

    /// Returns the text of the arguments.
    fn into_arguments(self) -> String {
        self.0
            .into_iter()
            .filter_map(|delta| if let Delta::Arguments(text) = delta { Some(text) } else { None })
            .collect()
    }

    fn arguments(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Delta::Arguments(last)) => last.push_str(text),
            _ => self.0.push(Delta::Arguments(text.to_owned())),
        }
    }
}

/// Returns the length of the longest suffix of `text` that is a proper prefix of `marker`.
fn held_back(text: &str, marker: &str) -> usize {
    (1..marker.len())
        .rev()
        .filter(|&len| marker.is_char_boundary(len))
        .find(|&len| text.ends_with(&marker[..len]))
        .unwrap_or(0)
}
