//! Per keyword: a schema, texts in its language and texts that are not.

use serde_json::json;

use super::{accepts, close, machine};
use crate::frontend::json_schema::SchemaOptions;
use crate::machine::Machine;

#[test]
fn smoke() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string", "maxLength": 3}}, "required": ["a"]});
    let mut m = machine(&schema, SchemaOptions::default()).unwrap();
    for t in [r#"{"a": 1}"#, r#"{"a": -12, "b": "xéz"}"#, r#"{"a": 0, "c": [1, {}, null]}"#] {
        assert!(accepts(&mut m, t), "{t}");
    }
    for t in [r#"{"a": 01}"#, r#"{"b": "x"}"#, r#"{"a": 0, "a": 1}"#, r#"{"b": "", "a": 1}"#] {
        assert!(!accepts(&mut m, t), "{t}");
    }
    let start = m.start();
    assert_eq!(String::from_utf8(close(&mut m, start)).unwrap(), r#"{"a": 0}"#);
}
