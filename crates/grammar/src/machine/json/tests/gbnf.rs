//! Tests that a schema written as GBNF has the same language as the schema.

use serde_json::{Value, json};

use super::oracle::{Random, schema};
use crate::{Grammar, Layout, Limits, SchemaOptions};

fn grammar(schema: &Value, layout: Layout) -> Grammar {
    let options = SchemaOptions { layout, ..SchemaOptions::default() };
    Grammar::json_schema(schema, &options, &Limits::default()).unwrap()
}

fn gbnf(schema: &Value) -> String {
    grammar(schema, Layout::Spaced).to_gbnf().unwrap()
}

#[test]
fn prints_readable_gbnf() {
    insta::assert_snapshot!(gbnf(&json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 40},
            "age": {"type": "integer", "minimum": 0, "maximum": 130},
            "score": {"type": "number"},
            "colour": {"enum": ["red", "green", null]},
            "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{1,8}(-[a-z]+)*$"}, "minItems": 1},
            "child": {"$ref": "#"}
        },
        "required": ["name", "colour"],
        "additionalProperties": false
    })));
}

/// Follows random bytes through `a`, and checks that `b` accepts each complete text on the path.
///
/// `b` may reject the texts for which `may_refuse` holds.
fn agree(random: &mut Random, a: &Grammar, b: &Grammar, context: &str, may_refuse: impl Fn(&[u8]) -> bool) {
    let mut recognizer = a.recognizer();
    let mut text = Vec::new();
    for _ in 0..40 {
        if recognizer.accepting() {
            assert!(b.accepts(&text) || may_refuse(&text), "{context}\n{}", String::from_utf8_lossy(&text));
        }
        let following: Vec<u8> =
            (0..=u8::MAX).filter(|&byte| recognizer.following().contains(byte)).collect();
        if following.is_empty() {
            return;
        }
        let byte = *random.pick(&following);
        text.push(byte);
        recognizer.extend(&[byte]).unwrap();
        let mut other = b.recognizer();
        if other.extend(&text).is_err() && may_refuse(&text) {
            return;
        }
        assert!(b.recognizer().extend(&text).is_ok(), "{context}\n{}", String::from_utf8_lossy(&text));
    }
}

#[test]
fn gbnf_has_the_language_of_its_schema() {
    let random = &mut Random(0x9e37_79b9_7f4a_7c15);
    let mut compared = 0;
    for _ in 0..300 {
        let schema = schema(random, 3);
        for layout in [Layout::Compact, Layout::Flexible] {
            let options = SchemaOptions { layout, ..SchemaOptions::default() };
            let Ok(grammar) = Grammar::json_schema(&schema, &options, &Limits::default()) else { continue };
            // GBNF cannot express that items must differ.
            let Ok(text) = grammar.to_gbnf() else { continue };
            let gbnf = Grammar::gbnf(&text, &Limits::default())
                .unwrap_or_else(|error| panic!("{schema}\n{text}\n{error}"));
            let context = format!("{schema}\n{text}");
            for _ in 0..2 {
                agree(random, &grammar, &gbnf, &context, |_| false);
                let repeats = text.starts_with("# The names");
                agree(random, &gbnf, &grammar, &context, |text| repeats && may_repeat_a_name(text));
            }
            compared += 1;
        }
    }
    assert!(compared > 250, "{compared}");
}

/// Reports whether a text repeats a name in an object, or whether its last name may become a
/// repeated one.
fn may_repeat_a_name(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut open: Vec<Vec<&str>> = Vec::new();
    let mut rest = &*text;
    while let Some(at) = rest.find(['{', '}', '"']) {
        let mark = rest.as_bytes()[at];
        rest = &rest[at + 1..];
        match mark {
            b'{' => open.push(Vec::new()),
            b'}' => drop(open.pop()),
            _ => {
                let mut escaped = false;
                let end = rest.bytes().position(|byte| {
                    let ends = byte == b'"' && !escaped;
                    escaped = byte == b'\\' && !escaped;
                    ends
                });
                let string = &rest[..end.unwrap_or(rest.len())];
                rest = end.map_or("", |end| &rest[end + 1..]);
                let name =
                    end.is_none() || rest.trim_start().is_empty() || rest.trim_start().starts_with(':');
                if let (true, Some(names)) = (name, open.last_mut()) {
                    if names
                        .iter()
                        .any(|known| *known == string || (end.is_none() && known.starts_with(string)))
                    {
                        return true;
                    }
                    names.push(string);
                }
            }
        }
    }
    // After a comma or an opening quote, there may be no unused name left.
    text.trim_end().ends_with(',') || text.ends_with('"')
}

#[test]
fn a_comment_says_that_names_may_repeat() {
    let open = gbnf(&json!({"type": "object", "additionalProperties": {"type": "null"}}));
    assert!(open.starts_with("# The names of undeclared members may be repeated here."), "{open}");
    let closed = gbnf(&json!({"type": "object", "properties": {"a": {"type": "null"}}}));
    assert!(!closed.contains('#'), "{closed}");
}
