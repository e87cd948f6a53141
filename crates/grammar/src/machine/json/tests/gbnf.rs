//! Schemas written as GBNF: the same texts as the schema's own machine.

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
fn what_is_written_reads_well() {
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

/// Follows random bytes through one grammar; whatever ends there, the other accepts.
fn agree(random: &mut Random, a: &Grammar, b: &Grammar, context: &str) {
    let mut recognizer = a.recognizer();
    let mut text = Vec::new();
    for _ in 0..40 {
        if recognizer.accepting() {
            assert!(b.accepts(&text), "{context}\n{}", String::from_utf8_lossy(&text));
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
        assert!(other.extend(&text).is_ok(), "{context}\n{}", String::from_utf8_lossy(&text));
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
            // Items that must differ cannot be said.
            let Ok(text) = grammar.to_gbnf() else { continue };
            let gbnf = Grammar::gbnf(&text, &Limits::default())
                .unwrap_or_else(|error| panic!("{schema}\n{text}\n{error}"));
            let context = format!("{schema}\n{text}");
            for _ in 0..2 {
                agree(random, &grammar, &gbnf, &context);
                agree(random, &gbnf, &grammar, &context);
            }
            compared += 1;
        }
    }
    assert!(compared > 250, "{compared}");
}
