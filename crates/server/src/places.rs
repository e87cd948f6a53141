//! The places in a constraint that the tokens of an output belong to.

use formwork_grammar::{Grammar, RuleReader};

/// Maximum length of a JSON pointer, in bytes. Each token has one.
const MAX_POINTER: usize = 1024;

/// Finds the place of each token of one output's content.
#[derive(Default)]
pub struct Places(Reader);

#[derive(Default)]
enum Reader {
    /// The output has no places.
    #[default]
    None,
    /// Places are JSON pointers.
    Json(Pointers),
    /// Places are rules of a grammar.
    Rules(Box<RuleReader>),
}

/// The place of a token.
#[derive(Default)]
pub(crate) struct Place {
    pub(crate) path: Option<String>,
    pub(crate) rules: Vec<String>,
}

impl Places {
    /// Creates a finder for an output that `grammar` describes, and that is JSON text if `is_json` is true.
    pub fn new(is_json: bool, grammar: Option<&Grammar>) -> Self {
        if is_json {
            return Self(Reader::Json(Pointers::default()));
        }
        let rules = grammar.and_then(RuleReader::new);
        Self(rules.map_or(Reader::None, |rules| Reader::Rules(Box::new(rules))))
    }

    /// Returns a finder for another output of the same kind.
    pub(crate) fn restarted(&self) -> Self {
        Self(match &self.0 {
            Reader::None => Reader::None,
            Reader::Json(_) => Reader::Json(Pointers::default()),
            Reader::Rules(rules) => Reader::Rules(Box::new(rules.restarted())),
        })
    }

    /// Reads the next token. Returns the place that its first byte belongs to.
    pub(crate) fn read(&mut self, token: &[u8]) -> Place {
        match &mut self.0 {
            Reader::None => Place::default(),
            Reader::Json(pointers) => {
                let first = token.first().filter(|_| !pointers.is_complete());
                let path = first.and_then(|&first| pointers.pointer(first));
                for &byte in token {
                    pointers.push(byte);
                }
                Place { path, rules: Vec::new() }
            }
            Reader::Rules(rules) => {
                let rules = rules.push(token).into_iter().map(str::to_owned).collect();
                Place { path: None, rules }
            }
        }
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
