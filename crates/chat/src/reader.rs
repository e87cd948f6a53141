//! From an answer's text, piece by piece, to what it says.

mod harmony;
mod json;
mod tagged;

use formwork_vocab::{TokenId, Vocabulary};

use crate::answer::Content;
use crate::format::{ChatFormat, Thoughts};
use crate::tool::Tools;

/// What new text of an answer means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delta {
    /// More of what the model thinks.
    Thought(String),
    /// More of what it says.
    Content(String),
    /// It calls a tool of this name, after those before.
    Call(String),
    /// More of the arguments of the last call.
    Arguments(String),
}

/// Reads one answer. Text that a [grammar](ChatFormat::answer) of the same format bounds is read exactly; any other text is
/// content from where it leaves the format.
pub struct Reader {
    kind: Kind,
}

enum Kind {
    Tagged(tagged::Tagged),
    Harmony(harmony::Channels),
}

impl Reader {
    /// A reader for an answer as [`ChatFormat::answer`] has it.
    pub fn new(format: &ChatFormat, content: &Content, tools: &Tools, thoughts: Thoughts) -> Self {
        let kind = match &format.harmony {
            Some(harmony) => Kind::Harmony(harmony::Channels::new(harmony)),
            None => Kind::Tagged(tagged::Tagged::new(format, content, tools, thoughts)),
        };
        Self { kind }
    }

    /// Takes more text.
    pub fn text(&mut self, text: &str) -> Vec<Delta> {
        let mut deltas = Deltas::default();
        match &mut self.kind {
            Kind::Tagged(reader) => reader.text(text, &mut deltas),
            Kind::Harmony(reader) => reader.text(text, &mut deltas),
        }
        deltas.0
    }

    /// Takes a token that is no text.
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

    /// Whether the answer is at a place that is no content, so that what was taken in and not shown will not be.
    pub fn is_outside_content(&self) -> bool {
        match &self.kind {
            Kind::Tagged(reader) => reader.is_outside_content(),
            Kind::Harmony(reader) => reader.is_outside_content(),
        }
    }

    /// Ends the answer: what was held back is shown.
    pub fn finish(&mut self) -> Vec<Delta> {
        let mut deltas = Deltas::default();
        if let Kind::Tagged(reader) = &mut self.kind {
            reader.finish(&mut deltas);
        }
        deltas.0
    }
}

/// What is found, with pieces of the same thing as one.
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

    fn arguments(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Delta::Arguments(last)) => last.push_str(text),
            _ => self.0.push(Delta::Arguments(text.to_owned())),
        }
    }
}
