//! The built-in probes: for each keyword of JSON Schema, a schema and a value that violates it.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{ANY_SCHEMA, Case};

/// A probe as written in `probes.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Probe {
    /// Name of the keyword in results.
    pub(super) keyword: String,
    /// Distinguishes the probes of a keyword.
    #[serde(default)]
    pub(super) variant: Option<String>,
    /// Schema of the value, with one use of the keyword.
    pub(super) schema: Value,
    /// Definitions that the schema refers to.
    #[serde(default)]
    pub(super) defs: Option<Value>,
    /// Value that violates the keyword and no other, as the prompt asks for it.
    pub(super) wrong: Value,
    /// Value that satisfies the schema, for tests.
    #[cfg_attr(not(test), allow(dead_code, reason = "only tests read it"))]
    pub(super) right: Value,
}

pub(super) static PROBES: LazyLock<Vec<Probe>> =
    LazyLock::new(|| serde_json::from_str(include_str!("probes.json")).unwrap_or_default());

/// Returns the built-in probes. The first one asks for plain text, so its verdict says whether the
/// server reads schemas at all.
///
/// Each schema is an object with the member `value`, closed and with all members required, because
/// some servers accept nothing else. The prompt spells out a value that violates the keyword.
///
/// ```
/// use formwork_eval::keyword_probes;
/// let probes = keyword_probes();
/// let probe = probes.iter().find(|probe| probe.violates.as_deref() == Some("maximum")).unwrap();
/// assert!(probe.prompt.ends_with(r#"{"value":150}"#));
/// assert_eq!(probe.schema["properties"]["value"]["maximum"], 10);
/// ```
pub fn keyword_probes() -> Vec<Case> {
    let plain = Case {
        id: "keyword/any-schema".to_owned(),
        schema: frame(&json!({ "type": "string" }), None),
        prompt: "Reply with exactly this text, and nothing else: Hello.".to_owned(),
        expected: None,
        violates: Some(ANY_SCHEMA.to_owned()),
    };
    std::iter::once(plain).chain(PROBES.iter().map(Probe::case)).collect()
}

impl Probe {
    pub(super) fn case(&self) -> Case {
        let slug = self.keyword.replace(": ", "-").replace('/', "-").replace('$', "");
        let variant = self.variant.as_ref().map(|variant| format!("-{variant}")).unwrap_or_default();
        let wrong = json!({ "value": self.wrong });
        Case {
            id: format!("keyword/{slug}{variant}"),
            schema: frame(&self.schema, self.defs.as_ref()),
            prompt: format!("Reply with exactly this JSON, and nothing else: {wrong}"),
            expected: None,
            violates: Some(self.keyword.clone()),
        }
    }
}

/// Returns the schema of an object whose only member is `value`.
fn frame(value: &Value, defs: Option<&Value>) -> Value {
    let mut schema = json!({
        "type": "object",
        "properties": { "value": value },
        "required": ["value"],
        "additionalProperties": false,
    });
    if let Some(defs) = defs {
        schema["$defs"] = defs.clone();
    }
    schema
}
