//! Reads an envelope while it arrives.
//!
//! The reader only previews an answer. It never fails: where the text is not as expected, it reports
//! nothing more, and the whole answer decides.

use super::text::{ends_with_closing_tag, is_marks, may_become_thought, without_leading_thoughts};
use super::{AttemptKind, Directive, Mode, Validator};
use crate::adapt::object::is_blank;

/// Maximum number of bytes of a text that may still become the opening tag of a thought.
const TAG: usize = 32;

/// Event of a streamed run.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEvent {
    /// A request is sent. Text and directives of earlier attempts are void.
    Attempt {
        /// Mode of the request.
        mode: Mode,
        /// Purpose of the request.
        kind: AttemptKind,
    },
    /// Further text of `assistant_text`.
    Text(String),
    /// A whole and valid directive.
    Directive {
        /// Index of the directive in the answer's `directives`, from 0.
        index: usize,
        /// The directive, with its canonical type.
        directive: Directive,
    },
}

/// Reads one answer.
#[derive(Default)]
pub(super) struct EnvelopeReader {
    state: State,
    /// Name of the current member.
    key: String,
    /// True if the current object has a member of an envelope.
    found: bool,
    /// Raw text of the current directive.
    item: String,
    /// Number of directives so far.
    index: usize,
    /// Value of `assistant_text` so far.
    text: String,
    /// Escape sequence that is not complete yet, and a high surrogate before it.
    escape: String,
    surrogate: Option<u16>,
    /// Number of bytes of `text` that were reported or are no text. `None` before the beginning of
    /// the text is known.
    reported: Option<usize>,
    /// Text before the envelope that may be a thought.
    opening: String,
    /// True inside a thought before the envelope.
    is_thinking: bool,
}

#[derive(Default)]
enum State {
    /// At the very beginning, perhaps inside a thought.
    #[default]
    Beginning,
    /// Before an object.
    Outside,
    /// Before a member's name.
    Key,
    /// In a member's name; true after a backslash.
    Name(bool),
    Colon,
    Value,
    Text,
    /// In a value that is not reported.
    Skip(Scan),
    /// Between directives.
    List,
    Item(Scan),
    /// After the envelope.
    Done,
}

/// Position in a JSON value of any kind.
#[derive(Clone, Copy, Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

/// End of a value.
enum End {
    /// With the current character.
    Here,
    /// Before the current character.
    Before,
}

impl Scan {
    fn push(&mut self, c: char) -> Option<End> {
        if self.in_string {
            match c {
                _ if self.escaped => self.escaped = false,
                '\\' => self.escaped = true,
                '"' => {
                    self.in_string = false;
                    return (self.depth == 0).then_some(End::Here);
                }
                _ => {}
            }
            return None;
        }
        match c {
            '"' => self.in_string = true,
            '{' | '[' => self.depth += 1,
            '}' | ']' | ',' if self.depth == 0 => return Some(End::Before),
            '}' | ']' => {
                self.depth -= 1;
                return (self.depth == 0).then_some(End::Here);
            }
            _ => {}
        }
        None
    }
}

impl EnvelopeReader {
    /// Reads the next piece of the answer and returns the new events.
    pub(super) fn push(&mut self, piece: &str, validator: &Validator<'_>) -> Vec<RunEvent> {
        let mut events = Vec::new();
        for c in piece.chars() {
            self.take(c, validator, &mut events);
        }
        if matches!(self.state, State::Text) {
            events.extend(self.new_text(false));
        }
        events
    }

    fn take(&mut self, c: char, validator: &Validator<'_>, events: &mut Vec<RunEvent>) {
        match &mut self.state {
            State::Beginning => self.begin(c, validator, events),
            State::Outside if c == '{' => {
                self.state = State::Key;
                self.found = false;
            }
            State::Outside | State::Done => {}
            State::Key => match c {
                '"' => {
                    self.key.clear();
                    self.state = State::Name(false);
                }
                '}' if self.found => self.state = State::Done,
                ',' => {}
                c if is_blank(c) => {}
                _ => self.state = State::Outside,
            },
            State::Name(escaped) => match c {
                '"' if !*escaped => {
                    if let Some(name) = unescaped(&self.key) {
                        self.key = name;
                    }
                    self.state = State::Colon;
                }
                c => {
                    *escaped = c == '\\' && !*escaped;
                    self.key.push(c);
                }
            },
            State::Colon => match c {
                ':' => self.state = State::Value,
                c if is_blank(c) => {}
                _ => self.state = State::Outside,
            },
            State::Value => match (self.key.as_str(), c) {
                (_, c) if is_blank(c) => {}
                ("assistant_text", '"') => {
                    self.found = true;
                    self.state = State::Text;
                }
                ("directives", '[') => {
                    self.found = true;
                    self.state = State::List;
                }
                _ => {
                    self.state = State::Skip(Scan::default());
                    self.take(c, validator, events);
                }
            },
            State::Text => {
                if c == '"' && self.escape.is_empty() {
                    events.extend(self.new_text(true));
                    self.state = State::Key;
                } else {
                    self.decode(c);
                }
            }
            State::Skip(scan) => match scan.push(c) {
                None => {}
                Some(End::Here) => self.state = State::Key,
                Some(End::Before) => {
                    self.state = State::Key;
                    self.take(c, validator, events);
                }
            },
            State::List => match c {
                ']' => self.state = State::Key,
                // Not JSON. Taken as an item, it would end before itself, again and again.
                '}' => self.state = State::Outside,
                ',' => {}
                c if is_blank(c) => {}
                c => {
                    self.item.clear();
                    self.state = State::Item(Scan::default());
                    self.take(c, validator, events);
                }
            },
            State::Item(scan) => {
                let end = scan.push(c);
                if !matches!(end, Some(End::Before)) {
                    self.item.push(c);
                }
                match end {
                    None => {}
                    Some(End::Here) => events.extend(self.directive(validator)),
                    Some(End::Before) => {
                        events.extend(self.directive(validator));
                        self.take(c, validator, events);
                    }
                }
            }
        }
    }

    /// Reads a character of the beginning, where a thought may mention objects.
    fn begin(&mut self, c: char, validator: &Validator<'_>, events: &mut Vec<RunEvent>) {
        if self.opening.is_empty() && is_blank(c) {
            return;
        }
        self.opening.push(c);
        if self.is_thinking {
            if ends_with_closing_tag(&self.opening) && !without_leading_thoughts(&self.opening).1 {
                self.opening.clear();
                self.is_thinking = false;
            }
        } else if may_become_thought(&self.opening) {
            self.is_thinking = without_leading_thoughts(&self.opening).1;
        } else {
            self.state = State::Outside;
            for c in std::mem::take(&mut self.opening).chars() {
                self.take(c, validator, events);
            }
        }
    }

    /// Ends a directive and reports it if it is valid.
    fn directive(&mut self, validator: &Validator<'_>) -> Option<RunEvent> {
        self.state = State::List;
        let index = self.index;
        self.index += 1;
        let item = serde_json::from_str(&self.item).ok()?;
        let directive = validator.directive(index, item, &mut Vec::new()).ok()?;
        Some(RunEvent::Directive { index, directive })
    }

    /// Adds a character of a JSON string to the text.
    fn decode(&mut self, c: char) {
        if self.escape.is_empty() && c != '\\' {
            self.text.push(c);
            return;
        }
        self.escape.push(c);
        let unit = match self.escape.as_bytes() {
            [_] => return,
            [_, b'u', digits @ ..] if digits.len() < 4 => return,
            [_, b'u', ..] => u16::from_str_radix(&self.escape[2..], 16).ok(),
            [_, b'n'] => Some(10),
            [_, b't'] => Some(9),
            [_, b'r'] => Some(13),
            [_, b'b'] => Some(8),
            [_, b'f'] => Some(12),
            _ => self.escape[1..].chars().next().and_then(|c| u16::try_from(u32::from(c)).ok()),
        };
        self.escape.clear();
        let Some(unit) = unit else { return };
        let units = self.surrogate.take().into_iter().chain([unit]);
        if (0xD800..0xDC00).contains(&unit) {
            self.surrogate = Some(unit);
        } else {
            self.text.extend(char::decode_utf16(units).filter_map(Result::ok));
        }
    }

    /// Returns the text that was not reported yet. Thoughts and lone brackets are no text. `ended`
    /// is true if the whole text is known.
    fn new_text(&mut self, ended: bool) -> Option<RunEvent> {
        let reported = match self.reported {
            Some(reported) => reported,
            None if !ended && self.text.len() < TAG && may_become_thought(&self.text) => return None,
            None => {
                let (visible, is_open) = without_leading_thoughts(&self.text);
                if is_open || (!ended && may_become_thought(visible)) || is_marks(visible) {
                    return None;
                }
                self.text.len() - visible.len()
            }
        };
        self.reported = Some(self.text.len());
        let new = &self.text[reported..];
        (!new.is_empty()).then(|| RunEvent::Text(new.to_owned()))
    }
}

/// Returns the name that the text between its quotes stands for. Returns `None` if the text is not
/// valid or needs no decoding.
fn unescaped(name: &str) -> Option<String> {
    if !name.contains('\\') {
        return None;
    }
    serde_json::from_str(&format!("\"{name}\"")).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::directives::{Definition, Registry, StructuredOutputOptions, read};

    fn options() -> StructuredOutputOptions {
        let toast = Definition { aliases: vec!["toast".to_owned()], ..Definition::new("ui.toast") };
        StructuredOutputOptions::new(Registry::new(vec![toast]).expect("a registry"))
    }

    /// Reads `content` in pieces of `size` characters. Returns the text and the directives.
    fn read_in(content: &str, size: usize) -> (String, Vec<Directive>) {
        let options = options();
        let validator = Validator::new(&options);
        let (mut reader, mut text, mut directives) = (EnvelopeReader::default(), String::new(), Vec::new());
        let characters: Vec<char> = content.chars().collect();
        for piece in characters.chunks(size) {
            for event in reader.push(&piece.iter().collect::<String>(), &validator) {
                match event {
                    RunEvent::Text(new) => text += &new,
                    RunEvent::Directive { directive, .. } => directives.push(directive),
                    RunEvent::Attempt { .. } => {}
                }
            }
        }
        (text, directives)
    }

    #[test]
    fn a_streamed_answer_equals_the_whole_one() {
        let toast = r#"{"type": "Toast", "payload": {"message": "a ] } \" b", "n": [1, {"x": []}]}}"#;
        for content in [
            format!(
                r#"{{"assistant_text": "Hi \"you\"\n\u00e9\ud83d\ude00 {{[", "directives": [{toast}, {toast}]}}"#
            ),
            format!(
                r#"{{"directives": [{toast}, 7, "x", {{"type": "no", "payload": {{}}}}], "more": {{"assistant_text": "no"}}, "assistant_text": ""}}"#
            ),
            format!(
                "Sure!\n```json\n{{\"assistant_text\": \"Hi\", \"directives\": [{toast}]}}\n```\nBye {{}}"
            ),
            format!(
                r#"<think>{{"assistant_text": "no"}}</think> {{"assistant_text": "Hi", "directives": [{toast}]}}"#
            ),
            r#"{"assistant_text": "<think>So {</think>\nHi", "directives": []}"#.to_owned(),
            r#"{"assistant_text": "<b>Hi</b>", "directives": []}"#.to_owned(),
            r#"{"assistant_text": "[", "directives": []}"#.to_owned(),
            r#"{"assistant_text": "[1] is", "directives": []}"#.to_owned(),
            r#"{"x": 1} {"assistant_text": "Hi", "directives": []}"#.to_owned(),
            r#"{"assistant_text":"Hi","directives":[]}"#.to_owned(),
            format!(r#"{{"\u0061ssistant_text": "Hi", "\u0064irectives": [{toast}]}}"#),
            format!(
                r#"{{"\"assistant_text": "no", "assistant\u005ftext": "Hi", "directive\u0073": [{toast}]}}"#
            ),
        ] {
            let whole = read(&content, &options());
            assert!(whole.ok, "{content}: {:?}", whole.errors);
            for size in [1, 2, 3, 7, 1000] {
                let streamed = read_in(&content, size);
                assert_eq!(streamed, (whole.assistant_text.clone(), whole.directives.clone()), "{content}");
            }
        }
    }

    #[test]
    fn no_text_panics_or_reports_what_is_not_an_envelope() {
        for content in [
            "",
            "no",
            "{",
            "[[[[",
            "{\"a\" 1}",
            "<think>",
            "\"}{",
            "{]]]]",
            "{\"assistant_text\": \"\\u12",
            "{\"directives\": [,,]]",
            "{\"directives\": [}",
            "{\"directives\": [1}}]",
        ] {
            assert_eq!(read_in(content, 1), (String::new(), Vec::new()), "{content}");
        }
        assert_eq!(read_in(r#"{"assistant_text": "cut o"#, 2).0, "cut o");
        assert_eq!(read_in(r#"{"assistant_text": "\ud83d!"}"#, 1).0, "!");
    }

    proptest! {
        #[test]
        fn any_text_is_read(content in r#"[\[\]{}:,"\\u0a<>/ ]{0,40}"#, size in 1_usize..4) {
            for begin in ["", "<think>", "{", r#"{"directives": ["#, r#"{"assistant_text": ""#] {
                read_in(&format!("{begin}{content}"), size);
            }
        }
    }
}
