//! Tests that alternatives which differ only below the value being read share one thread.

use serde_json::json;

use super::{accepts, close, machine, run};
use crate::machine::json::JsonMachine;
use crate::machine::{Config, Machine};
use crate::options::SchemaOptions;

/// Creates a machine for objects that are nested in objects or arrays. Each object has one of three
/// kinds.
fn ambiguous() -> JsonMachine {
    let kind = |name: &str| {
        let inner =
            json!({"anyOf": [{"$ref": "#"}, {"type": "array", "items": {"$ref": "#"}, "minItems": 1}]});
        json!({"type": "object", "properties": {"a": inner, name: {"const": name}}, "additionalProperties": false})
    };
    let schema = json!({"anyOf": [kind("x"), kind("y"), kind("zz")]});
    machine(&schema, SchemaOptions::accept()).expect("supported")
}

#[test]
fn alternatives_do_not_multiply_with_the_depth() {
    let mut machine = ambiguous();
    let mut config = machine.start();
    for depth in 0..200 {
        for &byte in if depth % 3 == 0 { b"{\"a\":[".as_slice() } else { b"{\"a\":" } {
            config = machine.step(config, byte);
            assert!(machine.interner.threads_of(config).len() <= 3, "{depth}");
        }
    }
    let end = close(&mut machine, config);
    assert_eq!(String::from_utf8_lossy(&end).matches('}').count(), 201);
}

#[test]
fn alternatives_continue_separately_after_a_common_start() {
    let mut machine = ambiguous();
    for text in [
        r#"{"a":{"a":[{"x":"x"},{}],"y":"y"},"zz":"zz"}"#,
        r#"{"a":{"a":{"a":{},"zz":"zz"},"zz":"zz"},"x":"x"}"#,
        r#"{"x":"x","a":{"y":"y","a":[{"a":{}}]}}"#,
    ] {
        assert!(accepts(&mut machine, text), "{text}");
    }
    for (text, at) in [
        (r#"{"a":{"a":{},"y":"y"},"y":"y","x":"x"}"#, 29),
        (r#"{"x":"x","a":{"a":{}},"y":"y"}"#, 21),
        (r#"{"a":{"a":[{"x":"x"},{}],"y":"y"},"zz":"zz","a":{}}"#, 43),
    ] {
        assert_eq!(run(&mut machine, text.as_bytes()), (Config::DEAD, at), "{text}");
    }
}
