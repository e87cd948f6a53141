use std::fmt::{self, Formatter};
use std::hash::{Hash, Hasher};
use std::mem;
use std::sync::Arc;

use rustc_hash::FxHasher;
use serde_json::Value;

/// A JSON Schema as a part of a grammar's description.
///
/// Two schemas are equal if they print the same JSON text. In contrast to [`Value`], the order of
/// the members counts, because outputs have the order of the schema. Copies share the value.
///
/// ```
/// use formwork_grammar::Schema;
/// use serde_json::json;
/// let (ab, ba) = (json!({ "a": true, "b": true }), json!({ "b": true, "a": true }));
/// assert!(ab == ba);
/// assert!(Schema::from(ab) != Schema::from(ba));
/// ```
#[derive(Clone)]
pub struct Schema {
    value: Arc<Value>,
    /// Hash of the value, which each compilation needs several times.
    hash: u64,
    /// Number of bytes that were hashed.
    bytes: usize,
}

impl Schema {
    /// Returns the schema as JSON.
    pub fn as_value(&self) -> &Value {
        &self.value
    }

    pub(super) fn shared(&self) -> Arc<Value> {
        Arc::clone(&self.value)
    }

    /// Returns the number of bytes that the hash covers: names and values, with 8 bytes for each length or
    /// type.
    pub(super) const fn byte_len(&self) -> usize {
        self.bytes
    }

    /// Returns the hash of the value, computed when the schema was created.
    pub(super) const fn known_hash(&self) -> u64 {
        self.hash
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.value).finish()
    }
}

/// A hasher that counts the bytes it hashes.
#[derive(Default)]
struct CountingHasher {
    inner: FxHasher,
    bytes: usize,
}

impl Hasher for CountingHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.inner.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.inner.finish()
    }
}

impl From<Value> for Schema {
    fn from(value: Value) -> Self {
        Arc::new(value).into()
    }
}

impl From<Arc<Value>> for Schema {
    fn from(value: Arc<Value>) -> Self {
        let mut state = CountingHasher::default();
        hash(&value, &mut state);
        Self { value, hash: state.finish(), bytes: state.bytes }
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        let is_same = || Arc::ptr_eq(&self.value, &other.value) || same_text(&self.value, &other.value);
        self.hash == other.hash && is_same()
    }
}

impl Eq for Schema {}

impl Hash for Schema {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(&self.value, state);
    }
}

/// Reports whether two values print the same JSON text.
fn same_text(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_text(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let same_member = |((a_name, a), (b_name, b))| a_name == b_name && same_text(a, b);
            a.len() == b.len() && a.iter().zip(b).all(same_member)
        }
        // The numbers 0.0 and -0.0 are equal and print different texts.
        (Value::Number(a), Value::Number(b)) => {
            a == b && a.as_f64().map(f64::to_bits) == b.as_f64().map(f64::to_bits)
        }
        _ => a == b,
    }
}

fn hash<H: Hasher>(value: &Value, state: &mut H) {
    mem::discriminant(value).hash(state);
    match value {
        Value::Null => {}
        Value::Bool(value) => value.hash(state),
        Value::Number(number) => number.hash(state),
        Value::String(text) => text.hash(state),
        Value::Array(items) => {
            items.len().hash(state);
            for item in items {
                hash(item, state);
            }
        }
        Value::Object(members) => {
            members.len().hash(state);
            for (name, value) in members {
                name.hash(state);
                hash(value, state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use rustc_hash::FxBuildHasher;

    use super::*;

    /// Caches estimate the memory of a key by the bytes that its hash reads.
    #[test]
    fn hashing_reads_the_whole_schema() {
        let schema = Schema::from(serde_json::json!({ "const": "x".repeat(1000) }));
        let mut state = CountingHasher::default();
        schema.hash(&mut state);
        assert!(state.bytes > 1000, "{}", state.bytes);
        assert_eq!((state.finish(), state.bytes), (schema.known_hash(), schema.byte_len()));
    }

    #[test]
    fn schemas_are_equal_if_they_print_the_same_text() {
        let texts = [
            "null",
            "true",
            "false",
            "0",
            "0.0",
            "-0.0",
            "1",
            "1.0",
            "-1",
            "18446744073709551615",
            "1.8446744073709552e+19",
            r#""""#,
            r#""1""#,
            "[]",
            "{}",
            "[1,2]",
            "[2,1]",
            "[[1],2]",
            "[[1,2]]",
            r#"{"a":1,"b":{"c":2,"d":3}}"#,
            r#"{"b":{"c":2,"d":3},"a":1}"#,
            r#"{"a":1,"b":{"d":3,"c":2}}"#,
            r#"{"a":1,"b":{"c":2,"d":4}}"#,
            r#"{"a":1,"b":{"c":2},"d":3}"#,
        ];
        let schemas = || texts.map(|text| Schema::from(serde_json::from_str::<Value>(text).unwrap()));
        for (a, a_text) in schemas().into_iter().zip(texts) {
            assert_eq!(a.as_value().to_string(), a_text);
            for (b, b_text) in schemas().into_iter().zip(texts) {
                assert_eq!(a == b, a_text == b_text, "{a_text} and {b_text}");
                let [a, b] = [&a, &b].map(|schema| FxBuildHasher.hash_one(schema));
                assert!(a_text != b_text || a == b, "the hash of {a_text}");
            }
        }
    }
}
