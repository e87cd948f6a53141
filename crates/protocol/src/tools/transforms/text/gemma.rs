//! Calls as Gemma writes them: `call:put{n:3,path:<|"|>a.txt<|"|>}`.

use serde_json::{Map, Number, Value};

use super::super::super::registry::ToolSource;
use super::Call;
use super::values::may_be_text;

/// Maximum depth of nested values.
const DEPTH: usize = 64;
/// Marks around strings, as Gemma 4 and `FunctionGemma` write them.
const QUOTES: [&str; 3] = ["<|\"|>", "<escape>", "\""];

/// Parses one call at the start of `text`. Returns the call and the number of bytes read.
pub(super) fn call(text: &str) -> Option<(Call, usize)> {
    let (name, arguments, len) = members(text)?;
    Some((Call::of_object(name, arguments), len))
}

/// Parses one call at the start of `text`. Returns its name, its arguments and the number of bytes read.
fn members(text: &str) -> Option<(&str, Map<String, Value>, usize)> {
    let mut reader = Reader { text, at: 0 };
    reader.expect("call:")?;
    let rest = reader.rest();
    let end = rest.find('{')?;
    let name = rest[..end].trim();
    reader.at += end;
    let Value::Object(arguments) = reader.object(0)? else { return None };
    (!name.is_empty() && !name.contains(['<', '\n'])).then_some((name, arguments, reader.at))
}

/// Parses calls as the whole text whose tokens a server removed. A string has lost its quotes, so the
/// arguments must be scalars that the schema does not admit as strings.
pub(super) fn stripped(text: &str, tools: &dyn ToolSource) -> Option<Vec<Call>> {
    let mut calls = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, arguments, len) = members(rest)?;
        let is_clear = |(key, value): (&String, &Value)| {
            matches!(value, Value::Null | Value::Bool(_) | Value::Number(_)) && !may_be_text(tools, name, key)
        };
        if !arguments.iter().all(is_clear) {
            return None;
        }
        calls.push(Call::of_object(name, arguments));
        rest = rest[len..].trim_start();
    }
    (!calls.is_empty()).then_some(calls)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn accept(&mut self, wanted: &str) -> bool {
        let start = self.text.len() - self.rest().trim_start().len();
        let found = self.text[start..].starts_with(wanted);
        if found {
            self.at = start + wanted.len();
        }
        found
    }

    fn expect(&mut self, wanted: &str) -> Option<()> {
        self.accept(wanted).then_some(())
    }

    /// Reports whether a string is next.
    fn is_at_string(&self) -> bool {
        QUOTES.iter().any(|quote| self.rest().trim_start().starts_with(quote))
    }

    fn string(&mut self) -> Option<String> {
        let quote = QUOTES.into_iter().find(|quote| self.accept(quote))?;
        let end = self.rest().find(quote)?;
        let text = self.rest()[..end].to_owned();
        self.at += end + quote.len();
        Some(text)
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH {
            return None;
        }
        if self.is_at_string() {
            return self.string().map(Value::String);
        }
        match self.rest().trim_start().chars().next()? {
            '{' => self.object(depth),
            '[' => self.items(depth),
            _ => self.scalar(),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.expect("{")?;
        let mut members = Map::new();
        while !self.accept("}") {
            if !members.is_empty() {
                self.expect(",")?;
            }
            let key = if self.is_at_string() {
                self.string()?
            } else {
                let end = self.rest().find(':')?;
                let key = self.rest()[..end].trim().to_owned();
                self.at += end;
                key
            };
            self.expect(":")?;
            if key.is_empty() || key.contains(['{', '}', ',', '<']) {
                return None;
            }
            let value = self.value(depth + 1)?;
            // A repeated member has no clear meaning.
            if members.insert(key, value).is_some() {
                return None;
            }
        }
        Some(members.into())
    }

    fn items(&mut self, depth: usize) -> Option<Value> {
        self.expect("[")?;
        let mut items = Vec::new();
        while !self.accept("]") {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(self.value(depth + 1)?);
        }
        Some(items.into())
    }

    fn scalar(&mut self) -> Option<Value> {
        let rest = self.rest();
        let end = rest.find([',', '}', ']'])?;
        self.at += end;
        match rest[..end].trim() {
            "true" | "True" => Some(true.into()),
            "false" | "False" => Some(false.into()),
            "null" | "None" => Some(Value::Null),
            number => serde_json::from_str::<Number>(number).ok().map(Value::Number),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parses_values_of_every_type() {
        let text = r#"call:put{n:3,opts:{deep:true,tags:[<|"|>a<|"|>]},path:<|"|>a, {b}.txt<|"|>,x:null}<tool_call|>"#;
        let (call, end) = call(text).expect("a call");
        let expected =
            json!({ "n": 3, "opts": { "deep": true, "tags": ["a"] }, "path": "a, {b}.txt", "x": null });
        assert_eq!(serde_json::from_str::<Value>(&call.arguments).expect("JSON"), expected);
        assert_eq!((call.name.as_str(), &text[end..]), ("put", "<tool_call|>"));
        assert_eq!(super::call("call:now{}").map(|(call, _)| call.arguments), Some("{}".to_owned()));
        for text in ["call:f", "call:f{a}", "call:f{a:b}", "call:f{a:<|\"|>x}", "call:{a:1}", "f{a:1}"] {
            assert!(super::call(text).is_none(), "{text}");
        }
    }
}
