//! Calls as Python writes them: `[get_weather(city='Paris', days=2), now()]`.

use serde_json::{Map, Number, Value};

use super::Call;

/// Maximum depth of nested values.
const DEPTH: usize = 64;

/// Parses a list of calls at the start of `text`. Returns the calls and the number of bytes read.
/// Returns `None` if the text has anything else, such as positional arguments.
pub(super) fn calls(text: &str) -> Option<(Vec<Call>, usize)> {
    let mut reader = Reader { text, at: 0 };
    reader.expect('[')?;
    let mut calls = vec![reader.call()?];
    while reader.accept(',') {
        calls.push(reader.call()?);
    }
    reader.expect(']')?;
    Some((calls, reader.at))
}

/// Parses calls without brackets, one on each line or separated by commas, as the whole text.
pub(super) fn bare_calls(text: &str) -> Option<Vec<Call>> {
    let mut reader = Reader { text: text.trim(), at: 0 };
    let mut calls = Vec::new();
    while !reader.rest().is_empty() {
        calls.push(reader.call()?);
        reader.skip();
        reader.accept(',');
    }
    (!calls.is_empty()).then_some(calls)
}

/// Parses calls without brackets at the start of `text`. Returns the calls and the number of bytes read.
pub(super) fn bare(text: &str) -> Option<(Vec<Call>, usize)> {
    let mut reader = Reader { text, at: 0 };
    let (mut calls, mut end) = (Vec::new(), 0);
    while let Some(call) = reader.call() {
        calls.push(call);
        end = reader.at;
        reader.skip();
        let _ = reader.accept(',') || reader.accept(';');
    }
    (!calls.is_empty()).then_some((calls, end))
}

/// Parses a single value as the whole text, such as `True` or `{'k': None}`.
pub(super) fn value(text: &str) -> Option<Value> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.skip();
    reader.rest().is_empty().then_some(value)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn accept(&mut self, wanted: char) -> bool {
        self.skip();
        let found = self.rest().starts_with(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Option<()> {
        self.accept(wanted).then_some(())
    }

    /// Reads a name with optional namespaces, such as `functions.get_weather`.
    fn name(&mut self) -> Option<&'a str> {
        self.skip();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_alphanumeric() && !"_.-".contains(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        self.at += end;
        name.starts_with(|c: char| c.is_alphabetic() || c == '_').then_some(name)
    }

    fn call(&mut self) -> Option<Call> {
        let name = self.name()?;
        self.expect('(')?;
        let mut arguments = Map::new();
        while !self.accept(')') {
            if !arguments.is_empty() {
                self.expect(',')?;
                if self.accept(')') {
                    break;
                }
            }
            let key = self.name()?.to_owned();
            self.expect('=')?;
            let value = self.value(0)?;
            if arguments.insert(key, value).is_some() {
                return None;
            }
        }
        Some(Call::of_object(name, arguments))
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH {
            return None;
        }
        self.skip();
        match self.rest().chars().next()? {
            '\'' | '"' => self.string().map(Value::String),
            '[' => self.items('[', ']', depth),
            '(' => self.items('(', ')', depth),
            '{' => self.object(depth),
            _ => self.scalar(),
        }
    }

    fn items(&mut self, open: char, close: char, depth: usize) -> Option<Value> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.accept(close) {
            if !items.is_empty() {
                self.expect(',')?;
                if self.accept(close) {
                    break;
                }
            }
            items.push(self.value(depth + 1)?);
        }
        Some(items.into())
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.expect('{')?;
        let mut members = Map::new();
        while !self.accept('}') {
            if !members.is_empty() {
                self.expect(',')?;
                if self.accept('}') {
                    break;
                }
            }
            self.skip();
            let key = self.string()?;
            self.expect(':')?;
            let value = self.value(depth + 1)?;
            // A repeated member has no clear meaning.
            if members.insert(key, value).is_some() {
                return None;
            }
        }
        Some(members.into())
    }

    fn scalar(&mut self) -> Option<Value> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_alphanumeric() && !"+-._".contains(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        self.at += end;
        match word {
            "True" | "true" => Some(true.into()),
            "False" | "false" => Some(false.into()),
            "None" | "null" => Some(Value::Null),
            number => serde_json::from_str::<Number>(number).ok().map(Value::Number),
        }
    }

    /// Reads a string in single or double quotes. Raw newlines are part of the string.
    fn string(&mut self) -> Option<String> {
        let rest = self.rest();
        let quote = rest.chars().next().filter(|c| ['\'', '"'].contains(c))?;
        let mut text = String::new();
        let mut characters = rest.char_indices().skip(1);
        while let Some((at, c)) = characters.next() {
            match c {
                c if c == quote => {
                    self.at += at + 1;
                    return Some(text);
                }
                '\\' => {
                    let (_, escaped) = characters.next()?;
                    let digits = match escaped {
                        'x' => 2,
                        'u' => 4,
                        'U' => 8,
                        _ => 0,
                    };
                    let c = match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        '\n' => continue,
                        'x' | 'u' | 'U' => {
                            let code: String =
                                characters.by_ref().take(digits).map(|(_, digit)| digit).collect();
                            char::from_u32(u32::from_str_radix(&code, 16).ok()?)?
                        }
                        '\\' | '\'' | '"' => escaped,
                        other => {
                            text.push('\\');
                            other
                        }
                    };
                    text.push(c);
                }
                c => text.push(c),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parses_calls_with_values_of_every_type() {
        let text = r#"[put(path='it\'s "a".txt', n=-3, f=1.5e2, deep=True, none=None, opts={"k": true, 'l': [1, (2,)]}, text="a
b",), now()] and more"#;
        let (calls, end) = calls(text).expect("calls");
        let expected = json!({
            "path": "it's \"a\".txt", "n": -3, "f": 150.0, "deep": true, "none": null,
            "opts": { "k": true, "l": [1, [2]] }, "text": "a\nb",
        });
        assert_eq!(calls[0].name, "put");
        assert_eq!(serde_json::from_str::<Value>(&calls[0].arguments).expect("JSON"), expected);
        assert_eq!((calls[1].name.as_str(), calls[1].arguments.as_str()), ("now", "{}"));
        assert_eq!(&text[end..], " and more");
        assert_eq!(bare_calls("now()\nput(n=1)").map(|calls| calls.len()), Some(2));
    }

    #[test]
    fn refuses_other_python() {
        for text in [
            "[f('Paris')]",
            "[f(a=b)]",
            "[f(a=1]",
            "[f(a=1, a=2)]",
            "[f(a={'b': 1, 'b': 2})]",
            "[1, 2]",
            "[]",
            "[f(a='x)]",
            "[f(a=0x1)]",
        ] {
            assert!(calls(text).is_none(), "{text}");
        }
        let deep = format!("[f(a={}1{})]", "[".repeat(1000), "]".repeat(1000));
        assert!(calls(&deep).is_none());
    }
}
