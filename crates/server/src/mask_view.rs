//! The extension `mask_view`: what a constraint did to each token of an output.

use formwork_engine::TokenMask;
use formwork_openai::{MaskedToken, TokenOrigin};
use formwork_vocab::Vocabulary;

use crate::choice::spelling;

/// Maximum number of offsets to search for the beginning of the content.
const SEARCH: usize = 4096;
/// Maximum length of a JSON pointer, in bytes. Each token has one.
const MAX_POINTER: usize = 1024;

/// The tokens of one output, with the places of their text.
///
/// Call [`token`](Self::token) for each token, [`show`](Self::show) for the text that tokens complete, and
/// [`content`](Self::content) for the part of this text that is content.
#[derive(Default)]
pub struct MaskViews {
    /// Tokens that have not been taken, each with the offset of its text.
    pending: Vec<(TokenMask, usize)>,
    /// Text of all tokens.
    text: Vec<u8>,
    /// Number of bytes of the text that were shown.
    shown: usize,
    /// Places in the content, if it is JSON.
    pointers: Option<Pointers>,
    /// Offset in `text` of the content, once it is known.
    content_at: Option<usize>,
    /// Offset in `text` up to which `pointers` have read the content.
    read: usize,
}

impl MaskViews {
    /// Creates the view of an output whose content is JSON text if `is_json` is true. The prompt already has
    /// the content `begun`.
    pub fn new(is_json: bool, begun: &str) -> Self {
        let pointers = is_json.then(|| {
            let mut pointers = Pointers::default();
            begun.bytes().for_each(|byte| pointers.push(byte));
            pointers
        });
        Self { pointers, ..Self::default() }
    }

    /// Adds the next token.
    pub fn token(&mut self, mask: TokenMask, vocabulary: &Vocabulary) {
        let start = self.text.len();
        if vocabulary.kind(mask.token).is_text() {
            self.text.extend_from_slice(vocabulary.bytes(mask.token));
        }
        self.pending.push((mask, start));
    }

    /// Notes that the next text was shown, whose tokens were added before.
    pub const fn show(&mut self, text: &str) {
        self.shown += text.len();
    }

    /// Notes the next content, a part of the text that was shown.
    pub fn content(&mut self, content: &str) {
        if self.content_at.is_none() && !content.is_empty() {
            let shown = &self.text[..self.shown.min(self.text.len())];
            let last = shown.len().checked_sub(content.len());
            // Readers hold back little text, so content is near the end of what was shown.
            let mut offsets = last.into_iter().flat_map(|last| (0..=last).rev().take(SEARCH));
            self.content_at = offsets.find(|&at| shown[at..].starts_with(content.as_bytes()));
        }
    }

    /// Notes that the next text was shown and is content.
    pub fn show_content(&mut self, text: &str) {
        self.show(text);
        self.content(text);
    }

    /// Returns the tokens since the last call.
    pub fn take(&mut self, vocabulary: &Vocabulary) -> Vec<formwork_openai::TokenMask> {
        let pending = std::mem::take(&mut self.pending);
        pending.into_iter().map(|(mask, start)| self.view(&mask, start, vocabulary)).collect()
    }

    fn view(
        &mut self,
        mask: &TokenMask,
        start: usize,
        vocabulary: &Vocabulary,
    ) -> formwork_openai::TokenMask {
        let (token, bytes) = spelling(mask.token, vocabulary);
        let end = start + if vocabulary.kind(mask.token).is_text() { bytes.len() } else { 0 };
        let top = mask.top.iter().map(|seen| {
            let (token, bytes) = spelling(seen.token, vocabulary);
            let (probability, allowed) = (seen.probability, seen.is_allowed);
            MaskedToken { token, id: seen.token.0, bytes, probability, allowed }
        });
        formwork_openai::TokenMask {
            token,
            id: mask.token.0,
            bytes,
            start,
            end,
            origin: origin(mask.origin),
            allowed: mask.allowed,
            probability: mask.probability,
            removed: mask.removed,
            path: self.path(start, end),
            top: top.collect(),
        }
    }

    /// Returns the JSON pointer of the value that has the byte at `start`. Must be called in order.
    fn path(&mut self, start: usize, end: usize) -> Option<String> {
        let at = self.content_at?;
        let pointers = self.pointers.as_mut()?;
        // A token may begin before the content, with the last bytes of a tag. Tokens whose text was not known
        // to be content have no path.
        let start = start.max(at);
        let next = *self.text.get(start..end)?.first()?;
        for &byte in self.text.get(self.read.max(at)..start)? {
            pointers.push(byte);
        }
        let path = if pointers.is_complete() { None } else { pointers.pointer(next) };
        for &byte in &self.text[start..end] {
            pointers.push(byte);
        }
        self.read = end;
        path
    }
}

const fn origin(origin: formwork_engine::TokenOrigin) -> TokenOrigin {
    match origin {
        formwork_engine::TokenOrigin::Sampled => TokenOrigin::Sampled,
        formwork_engine::TokenOrigin::OnlyToken => TokenOrigin::OnlyToken,
        formwork_engine::TokenOrigin::OnlyText => TokenOrigin::OnlyText,
        formwork_engine::TokenOrigin::ReasoningBudget => TokenOrigin::ReasoningBudget,
        formwork_engine::TokenOrigin::TokenBudget => TokenOrigin::TokenLimit,
    }
}

/// The place in a JSON text, byte by byte. The text must be the beginning of valid JSON.
#[derive(Default)]
struct Pointers {
    /// Objects and arrays that are open, outermost first.
    open: Vec<Container>,
    lexeme: Lexeme,
    /// True from the first byte of the whole value.
    is_begun: bool,
}

/// An object or array that is open.
struct Container {
    key: Key,
    /// True from the start of the place for a value to the end of this value.
    has_value: bool,
}

/// Key of the last value in a container.
enum Key {
    /// Spelling of a member's name, with its quotes.
    Name(Vec<u8>),
    Index(usize),
}

/// Part of the text that has the last byte.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Lexeme {
    #[default]
    Other,
    /// A string. True after a backslash.
    String(bool),
    /// A number or a literal.
    Word,
}

impl Pointers {
    /// Returns the JSON pointer of the value that a next byte would belong to. Returns `None` if it is longer than
    /// [`MAX_POINTER`], or if a name in it is no Unicode text.
    fn pointer(&self, next: u8) -> Option<String> {
        let is_ended = match self.lexeme {
            Lexeme::String(_) => false,
            Lexeme::Word => !is_of_word(next),
            Lexeme::Other => matches!(next, b',' | b']' | b'}'),
        };
        let has_value = self.open.last().is_some_and(|last| last.has_value && !is_ended);
        let around = self.open.len().saturating_sub(usize::from(!has_value));
        let mut pointer = String::new();
        for container in &self.open[..around] {
            match &container.key {
                Key::Index(index) => pointer = format!("{pointer}/{index}"),
                Key::Name(spelling) if pointer.len() + spelling.len() > MAX_POINTER => return None,
                Key::Name(spelling) => {
                    let name: String = serde_json::from_slice(spelling).ok()?;
                    pointer = pointer + "/" + &name.replace('~', "~0").replace('/', "~1");
                }
            }
            if pointer.len() > MAX_POINTER {
                return None;
            }
        }
        Some(pointer)
    }

    /// Returns true after the end of the whole value.
    const fn is_complete(&self) -> bool {
        self.is_begun && self.open.is_empty() && matches!(self.lexeme, Lexeme::Other)
    }

    /// Reads the next byte.
    fn push(&mut self, byte: u8) {
        self.is_begun |= !byte.is_ascii_whitespace();
        if let Lexeme::String(is_escaped) = self.lexeme {
            self.name(byte);
            self.lexeme = Lexeme::String(byte == b'\\' && !is_escaped);
            if byte == b'"' && !is_escaped {
                self.end_value();
            }
            return;
        }
        if self.lexeme == Lexeme::Word && !is_of_word(byte) {
            self.end_value();
        }
        match byte {
            b'{' => self.open.push(Container { key: Key::Name(Vec::new()), has_value: false }),
            b'[' => self.open.push(Container { key: Key::Index(0), has_value: true }),
            b'}' | b']' => {
                self.open.pop();
                self.end_value();
            }
            b'"' => {
                if let Some(Container { key: Key::Name(spelling), has_value: false }) = self.open.last_mut() {
                    spelling.clear();
                }
                self.name(byte);
                self.lexeme = Lexeme::String(false);
            }
            b':' => self.open.last_mut().into_iter().for_each(|container| container.has_value = true),
            b',' => {
                if let Some(Container { key: Key::Index(index), has_value }) = self.open.last_mut() {
                    (*index, *has_value) = (*index + 1, true);
                }
            }
            _ if is_of_word(byte) => self.lexeme = Lexeme::Word,
            _ => {}
        }
    }

    /// Adds a byte to the name of a member, if one is being read.
    fn name(&mut self, byte: u8) {
        if let Some(Container { key: Key::Name(spelling), has_value: false }) = self.open.last_mut() {
            spelling.push(byte);
        }
    }

    /// Notes the end of a value or of a name, which is in a place for no value.
    fn end_value(&mut self) {
        self.lexeme = Lexeme::Other;
        if let Some(container) = self.open.last_mut() {
            container.has_value = false;
        }
    }
}

/// Returns true for the bytes of numbers and literals.
const fn is_of_word(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'a'..=b'z' | b'E')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pointer of each byte of a text.
    fn pointers(text: &str) -> Vec<String> {
        let mut pointers = Pointers::default();
        let mut next = |byte| {
            let pointer = pointers.pointer(byte).expect("short");
            pointers.push(byte);
            pointer
        };
        text.bytes().map(&mut next).collect()
    }

    #[test]
    fn every_byte_belongs_to_a_value() {
        let text = r#" {"a": [1, {"b/~c": "x]\"y"}, []], "é": true} "#;
        let found = pointers(text);
        let of = |part: &str, after: &str| {
            let at = text.find(after).expect("a place");
            let at = at + text[at..].find(part).expect("a part");
            let first = found[at].clone();
            assert!(found[at..at + part.len()].iter().all(|pointer| *pointer == first), "{part}");
            first
        };
        for (part, after, expected) in [
            (" ", " {", ""),
            ("{\"a\":", "{", ""),
            ("[", "[1", "/a"),
            ("1", "1,", "/a/0"),
            (",", "1,", "/a"),
            ("{\"b/~c\":", "{\"b", "/a/1"),
            (" \"x]\\\"y\"", " \"x", "/a/1/b~1~0c"),
            ("}", "}, []", "/a/1"),
            (",", ", []", "/a"),
            ("[]", "[]]", "/a/2"),
            ("]", "], \"", "/a"),
            (",", ", \"é", ""),
            ("\"é\":", "\"é", ""),
            ("true", "true", "/é"),
            ("} ", "} ", ""),
        ] {
            assert_eq!(of(part, after), expected, "{part}");
        }
    }

    #[test]
    fn long_pointers_and_names_that_are_no_text_are_left_out() {
        for text in
            [format!("{{\"{}\": ", "n".repeat(MAX_POINTER)), "[".repeat(600), r#"{"\ud800": "#.to_owned()]
        {
            let mut pointers = Pointers::default();
            text.bytes().for_each(|byte| pointers.push(byte));
            assert_eq!(pointers.pointer(b'1'), None, "{text}");
        }
    }
}
