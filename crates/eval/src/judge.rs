//! The independent judge, which validates recorded answers against JSON Schemas. It only uses the
//! `jsonschema` crate, because the parsers, validators and grammars of this workspace are under
//! test.

use std::collections::BTreeMap;

use jsonschema::Validator;
use serde_json::{Value, json};

use super::Checks;
use formwork_backend::Body;

/// Judge of directives answers, which must be envelopes.
pub(super) struct EnvelopeJudge {
    envelope: Validator,
    /// Validators of payloads, by directive type.
    payloads: BTreeMap<String, Validator>,
}

impl EnvelopeJudge {
    /// Creates a judge for the given directive types, as pairs of name and payload schema. Returns
    /// `None` if a schema does not compile.
    pub(super) fn new(types: &[(&str, Value)]) -> Option<Self> {
        let properties = json!({ "type": { "type": "string" }, "payload": { "type": "object" } });
        let directive =
            json!({ "type": "object", "properties": properties, "required": ["type", "payload"] });
        let properties = json!({
            "assistant_text": { "type": "string" },
            "directives": { "type": "array", "items": directive },
        });
        let required = json!(["assistant_text", "directives"]);
        let envelope = json!({ "type": "object", "properties": properties, "required": required });
        let payloads = types
            .iter()
            .map(|(name, schema)| Some(((*name).to_owned(), jsonschema::draft202012::new(schema).ok()?)));
        Some(Self {
            envelope: jsonschema::draft202012::new(&envelope).ok()?,
            payloads: payloads.collect::<Option<_>>()?,
        })
    }

    /// Judges the complete text of one answer: the envelope, the types of directives and their
    /// payloads.
    pub(super) fn judge(&self, text: &str) -> Checks {
        let mut checks = Checks::default();
        let envelope: Option<Value> = serde_json::from_str(text).ok();
        let envelope = envelope.filter(|envelope| self.envelope.is_valid(envelope));
        checks.envelopes.add(envelope.is_some());
        for directive in envelope.iter().filter_map(|envelope| envelope["directives"].as_array()).flatten() {
            let payload = directive["type"].as_str().and_then(|name| self.payloads.get(name));
            checks.types.add(payload.is_some());
            if let Some(schema) = payload {
                checks.payloads.add(schema.is_valid(&directive["payload"]));
            }
        }
        checks
    }
}

/// Judges the tool calls in the message of an answer. The request contains the available tools.
pub(super) fn judge_calls(request: &Body, message: &Value) -> Checks {
    let mut checks = Checks::default();
    for call in calls(message) {
        let arguments = call.and_then(|call| well_formed(request, call));
        checks.calls.add(arguments.is_some());
        checks.arguments.add(arguments.is_some_and(|(schema, arguments)| is_valid(schema, &arguments)));
    }
    checks
}

/// Returns the tool calls in a message. If the message has calls in an unexpected form, returns a
/// single `None`, which counts as a malformed call.
fn calls(message: &Value) -> Vec<Option<&Value>> {
    match &message["tool_calls"] {
        Value::Array(calls) => calls.iter().map(Some).collect(),
        Value::Null if message.get("function_call").is_none_or(Value::is_null) => Vec::new(),
        _ => vec![None],
    }
}

/// Returns the parameter schema of the called tool and the arguments of the call. Returns `None` if
/// the call does not follow the `OpenAI` format, or if the request does not have the tool.
fn well_formed<'a>(request: &'a Body, call: &Value) -> Option<(&'a Value, Value)> {
    let function = call.get("id").and_then(Value::as_str).and_then(|_| call.get("function"))?;
    let arguments: Value = serde_json::from_str(function.get("arguments")?.as_str()?).ok()?;
    let mut sent = request.get("tools")?.as_array()?.iter().map(|tool| &tool["function"]);
    let tool = sent.find(|sent| sent["name"] == function["name"])?;
    arguments.is_object().then_some((&tool["parameters"], arguments))
}

fn is_valid(schema: &Value, instance: &Value) -> bool {
    jsonschema::draft202012::new(schema).is_ok_and(|schema| schema.is_valid(instance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rate;

    const fn rate(ok: usize, of: usize) -> Rate {
        Rate { ok, of }
    }

    #[test]
    fn judges_envelopes_by_their_whole_text() {
        let form = json!({ "type": "object", "properties": { "form_id": { "type": "string" } }, "required": ["form_id"] });
        let judge = EnvelopeJudge::new(&[("ui.show_form", form)]).expect("schemas");
        let judged = |text: &str| {
            let checks = judge.judge(text);
            (checks.envelopes, checks.types, checks.payloads)
        };
        let none = Rate::default();
        assert_eq!(judged(r#"{"assistant_text": "", "directives": []}"#), (rate(1, 1), none, none));
        for broken in [
            "",
            "Sure!",
            r#"```json {"assistant_text": "", "directives": []} ```"#,
            r#"{"assistant_text": ""}"#,
            r#"{"assistant_text": null, "directives": []}"#,
            r#"{"assistant_text": "", "directives": [{"type": "ui.show_form"}]}"#,
        ] {
            assert_eq!(judged(broken), (rate(0, 1), none, none), "{broken}");
        }
        let mixed = json!({ "assistant_text": "", "directives": [
            { "type": "ui.show_form", "payload": { "form_id": "a" } },
            { "type": "ui.show_form", "payload": { "form_id": 1 } },
            { "type": "ui_show_form", "payload": { "form_id": "a" } },
        ] });
        assert_eq!(judged(&mixed.to_string()), (rate(1, 1), rate(2, 3), rate(1, 2)));
    }

    #[test]
    fn judges_calls_by_the_tools_that_were_sent() {
        let parameters =
            json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        let tools = json!({ "tools": [{ "type": "function", "function": { "name": "f", "parameters": parameters } }] });
        let request = tools.as_object().cloned().expect("an object");
        let judged = |message: Value| {
            let checks = judge_calls(&request, &message);
            (checks.calls, checks.arguments)
        };
        let call = |name: &str, arguments: Value| json!({ "id": "c", "type": "function", "function": { "name": name, "arguments": arguments } });
        let calls = |calls: Value| json!({ "role": "assistant", "tool_calls": calls });
        assert_eq!(judged(json!({ "content": "no" })), (Rate::default(), Rate::default()));
        assert_eq!(judged(calls(json!([call("f", json!("{\"n\": 1}"))]))), (rate(1, 1), rate(1, 1)));
        assert_eq!(judged(calls(json!([call("f", json!("{\"n\": \"1\"}"))]))), (rate(1, 1), rate(0, 1)));
        for odd in [
            calls(json!([call("g", json!("{\"n\": 1}"))])),
            calls(json!([call("f", json!({ "n": 1 }))])),
            calls(json!([call("f", json!("{"))])),
            calls(json!([call("f", json!("[]"))])),
            calls(json!([{ "function": { "name": "f", "arguments": "{\"n\": 1}" } }])),
            calls(call("f", json!("{\"n\": 1}"))),
            json!({ "function_call": { "name": "f", "arguments": "{\"n\": 1}" } }),
        ] {
            assert_eq!(judged(odd.clone()), (rate(0, 1), rate(0, 1)), "{odd}");
        }
    }
}
