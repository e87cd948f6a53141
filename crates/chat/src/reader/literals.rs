//! Reads literals of other languages than JSON, and writes them as JSON.

use formwork_grammar::{ValueType, ValueTypes};
use serde_json::Value;

use super::members::Progress;
use super::{Deltas, held_back};

/// Incremental reader of one literal: JSON, Python, or JSON with bare names and other quotes.
pub(super) struct LiteralReader {
    /// Quotes around strings without escapes, if the notation has such quotes.
    quotes: Option<(String, String)>,
    place: Place,
    /// The open arrays and objects. True for an object.
    open: Vec<bool>,
}

#[derive(Clone, Copy)]
enum Place {
    /// Before a value. True if a closing bracket may come instead.
    Value(bool),
    /// Before a name or the closing brace.
    Name,
    /// In a string with this quote and escapes.
    Escaped(char),
    /// In a string without escapes.
    Plain,
    /// After a value.
    After,
}

impl LiteralReader {
    pub(super) const fn new(quotes: Option<(String, String)>) -> Self {
        Self { quotes, place: Place::Value(false), open: Vec::new() }
    }

    /// Reads as much of `held` as possible, and removes what was read.
    pub(super) fn read(&mut self, held: &mut String, deltas: &mut Deltas) -> Progress {
        let mut at = 0;
        let progress = loop {
            let text = &held[at..];
            let read = match self.place {
                Place::Value(may_close) => self.value(text, may_close, deltas),
                Place::Name => self.name(text, deltas),
                Place::Escaped(quote) => self.escaped(text, quote, deltas),
                Place::Plain => self.plain(text, deltas),
                Place::After if self.open.is_empty() => break Progress::Done,
                Place::After => self.after(text, deltas),
            };
            let Some(read) = read else { break Progress::Wait };
            at += read;
        };
        held.drain(..at);
        progress
    }

    /// Reads the start of a value. Returns the number of bytes read. `None` if more text is needed.
    fn value(&mut self, held: &str, may_close: bool, deltas: &mut Deltas) -> Option<usize> {
        let text = held.trim_start();
        let skipped = held.len() - text.len();
        let first = text.chars().next()?;
        if let Some((quote, _)) = &self.quotes {
            if text.starts_with(quote.as_str()) {
                deltas.arguments("\"");
                self.place = Place::Plain;
                return Some(skipped + quote.len());
            }
            if quote.starts_with(text) {
                return None;
            }
        }
        match first {
            '\'' | '"' => {
                deltas.arguments("\"");
                self.place = Place::Escaped(first);
                Some(skipped + 1)
            }
            '[' | '{' => {
                deltas.arguments(if first == '[' { "[" } else { "{" });
                self.open.push(first == '{');
                self.place = if first == '[' { Place::Value(true) } else { Place::Name };
                Some(skipped + 1)
            }
            ']' if may_close => {
                self.close(deltas);
                Some(skipped + 1)
            }
            _ => {
                let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | ']' | '}' | ')' | '<');
                let end = text.find(is_end)?;
                let any = ValueTypes::ALL.without(ValueType::String);
                deltas.arguments(&typed(&text[..end], any));
                self.place = Place::After;
                Some(skipped + end)
            }
        }
    }

    fn name(&mut self, held: &str, deltas: &mut Deltas) -> Option<usize> {
        let text = held.trim_start();
        let skipped = held.len() - text.len();
        if text.starts_with('}') {
            self.close(deltas);
            return Some(skipped + 1);
        }
        let custom = self
            .quotes
            .as_ref()
            .and_then(|(open, close)| Some((text.strip_prefix(open.as_str())?, open.len(), close.as_str())));
        let quoted = match text.chars().next()? {
            '\'' => Some((&text[1..], 1, "'")),
            '"' => Some((&text[1..], 1, "\"")),
            _ => None,
        };
        let (name, end) = if let Some((inside, open, close)) = custom.or(quoted) {
            let at = inside.find(close)?;
            let colon = inside[at..].find(':')?;
            (&inside[..at], open + at + colon + 1)
        } else {
            let at = text.find(':')?;
            (text[..at].trim(), at + 1)
        };
        deltas.arguments(&format!("\"{}\": ", escaped(name)));
        self.place = Place::Value(false);
        Some(skipped + end)
    }

    fn plain(&mut self, held: &str, deltas: &mut Deltas) -> Option<usize> {
        let close = self.quotes.as_ref().map_or("\"", |(_, close)| close.as_str());
        if let Some(at) = held.find(close) {
            deltas.arguments(&format!("{}\"", escaped(&held[..at])));
            self.place = Place::After;
            return Some(at + close.len());
        }
        let shown = held.len() - held_back(held, close);
        deltas.arguments(&escaped(&held[..shown]));
        (shown > 0).then_some(shown)
    }

    fn escaped(&mut self, held: &str, quote: char, deltas: &mut Deltas) -> Option<usize> {
        let mut text = String::new();
        let mut rest = held;
        let mut ended = false;
        while let Some(c) = rest.chars().next() {
            if c == quote {
                rest = &rest[1..];
                ended = true;
                break;
            }
            if c != '\\' {
                text.push(c);
                rest = &rest[c.len_utf8()..];
                continue;
            }
            let Some((c, len)) = escape(&rest[1..]) else { break };
            text.extend(c);
            rest = &rest[1 + len..];
        }
        deltas.arguments(&escaped(&text));
        if ended {
            deltas.arguments("\"");
            self.place = Place::After;
        }
        let read = held.len() - rest.len();
        (read > 0).then_some(read)
    }

    fn after(&mut self, held: &str, deltas: &mut Deltas) -> Option<usize> {
        let text = held.trim_start();
        let c = text.chars().next()?;
        match c {
            ',' => {
                deltas.arguments(", ");
                self.place = if self.open.last() == Some(&true) { Place::Name } else { Place::Value(true) };
            }
            ']' | '}' => self.close(deltas),
            // Not a literal of any language. What follows cannot be understood.
            _ => {}
        }
        Some(held.len() - text.len() + c.len_utf8())
    }

    fn close(&mut self, deltas: &mut Deltas) {
        if let Some(is_object) = self.open.pop() {
            deltas.arguments(if is_object { "}" } else { "]" });
        }
        self.place = Place::After;
    }
}

/// Returns the text of a JSON string without its quotes.
pub(super) fn escaped(text: &str) -> String {
    let json = Value::from(text).to_string();
    json[1..json.len() - 1].to_owned()
}

/// Reads an escape after its backslash. Returns its character, if it has one, and its length in bytes.
/// `None` if the text ends inside of the escape.
fn escape(text: &str) -> Option<(Option<char>, usize)> {
    let c = text.chars().next()?;
    let simple = |c| Some((Some(c), 1));
    let code = |at: usize, digits: usize| {
        let code = text.get(at..at + digits)?;
        let is_hexadecimal = code.bytes().all(|byte| byte.is_ascii_hexdigit());
        u32::from_str_radix(code, 16).ok().filter(|_| is_hexadecimal)
    };
    let backslash = Some((Some('\\'), 0));
    let hexadecimal = |digits: usize| {
        if text.len() <= digits {
            return None;
        }
        let Some(first) = code(1, digits) else { return backslash };
        if let Some(c) = char::from_u32(first) {
            return Some((Some(c), 1 + digits));
        }
        // The first half of a surrogate pair needs the second one.
        let rest = &text[1 + digits..];
        if digits != 4 || !(0xd800..0xdc00).contains(&first) {
            return backslash;
        }
        if rest.len() < 6 && ("\\u".starts_with(rest) || rest.starts_with("\\u")) {
            return None;
        }
        let second = code(7, 4).filter(|second| rest.starts_with("\\u") && (0xdc00..0xe000).contains(second));
        let pair =
            second.and_then(|second| char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + second - 0xdc00));
        pair.map_or(backslash, |c| Some((Some(c), 11)))
    };
    match c {
        'n' => simple('\n'),
        'r' => simple('\r'),
        't' => simple('\t'),
        'b' => simple('\u{8}'),
        'f' => simple('\u{c}'),
        '\\' | '\'' | '"' | '/' => simple(c),
        '\n' => Some((None, 1)),
        'x' => hexadecimal(2),
        'u' => hexadecimal(4),
        'U' => hexadecimal(8),
        // Other backslashes stand for themselves.
        _ => Some((Some('\\'), 0)),
    }
}

/// Returns the JSON text of a raw value that has one of `types`. A text that has none of them is a
/// string.
pub(super) fn typed(text: &str, types: ValueTypes) -> String {
    let as_string = || format!("\"{}\"", escaped(text));
    let may_be_text = types.has(ValueType::String);
    // Beside strings, only the exact spellings of other values count.
    let word = if may_be_text { text } else { text.trim() };
    let is = |exact: [&str; 2]| {
        exact.contains(&word) || (!may_be_text && exact.iter().any(|exact| exact.eq_ignore_ascii_case(word)))
    };
    if types.has(ValueType::Null) && is(["null", "None"]) {
        return "null".to_owned();
    }
    if types.has(ValueType::Boolean) {
        for (exact, json) in [(["true", "True"], "true"), (["false", "False"], "false")] {
            if is(exact) {
                return json.to_owned();
            }
        }
    }
    if types.has(ValueType::Number) && is_number(word) {
        return word.to_owned();
    }
    let is_container = |kind, bracket| types.has(kind) && word.starts_with(bracket);
    if !is_container(ValueType::Array, '[') && !is_container(ValueType::Object, '{') {
        return as_string();
    }
    if serde_json::from_str::<Value>(word).is_ok() {
        return word.to_owned();
    }
    let mut deltas = Deltas::default();
    let mut held = word.to_owned();
    match LiteralReader::new(None).read(&mut held, &mut deltas) {
        Progress::Done if held.trim().is_empty() => deltas.into_arguments(),
        _ => as_string(),
    }
}

/// Reports whether `text` is a number of JSON.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).count();
    let text = text.strip_prefix('-').unwrap_or(text);
    let whole = digits(text);
    if whole == 0 || (whole > 1 && text.starts_with('0')) {
        return false;
    }
    let mut rest = &text[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let len = digits(fraction);
        if len == 0 {
            return false;
        }
        rest = &fraction[len..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let len = digits(exponent);
        return len > 0 && exponent.len() == len;
    }
    rest.is_empty()
}
