use super::*;
use crate::Feature;
use crate::tools::{Closure, ToolCallingOptions, ToolDefinition, ToolRegistry};

const GOOD: &str = r#"{"count": 2}"#;

async fn with(can: &[Feature], block: &Value) -> (Body, Vec<(String, Value)>) {
    let backend = ScriptedBackend::new([Ok(ScriptedBackend::says(GOOD))]);
    let backend = Arc::new(backend.with_capabilities(can.iter().copied().collect()));
    let (output, events) = ran(&step(&backend, block)).await;
    output.expect("an output");
    (backend.asked().remove(0), events)
}

#[tokio::test]
async fn each_name_selects_what_the_backend_supports() {
    let all = Feature::ALL;
    for (given, can, mode, format) in [
        ("openai_json", &all[..], "openai_json", Some("json_schema")),
        ("json", &all[..], "openai_json", Some("json_schema")),
        ("auto", &all[..], "openai_json", Some("json_schema")),
        ("auto", &[Feature::JsonObject][..], "openai_json", Some("json_object")),
        ("auto", &[][..], "openai_json", None),
        ("outlines", &all[..], "outlines", Some("json_schema")),
        ("xgrammar", &all[..], "xgrammar", Some("json_schema")),
        ("grammar", &all[..], "grammar", Some("json_schema")),
        ("outlines", &[Feature::JsonSchema][..], "outlines", None),
    ] {
        let (asked, events) = with(can, &json!({ "structured_output": given })).await;
        let sent = asked.get("response_format").map(|format| format["type"].as_str().unwrap_or_default());
        assert_eq!(sent, format, "{given} {can:?}");
        if format.is_some() {
            assert_eq!(names(&events), ["aros.soe.enabled", "grammar.applied"], "{given}");
            let attributes = json!({ "mode": mode, "schema_hash": constraint::hash(&schema()) });
            assert_eq!(named(&events, "grammar.applied"), [&attributes]);
        } else {
            let attributes = json!({ "mode": mode, "reason": "unsupported" });
            assert_eq!(events, [("aros.soe.skipped".to_owned(), attributes)]);
        }
    }
}

#[tokio::test]
async fn off_records_nothing() {
    let (asked, events) = with(&Feature::ALL, &json!({ "structured_output": "off" })).await;
    assert!(!asked.contains_key("response_format") && events.is_empty());
}

#[tokio::test]
async fn sends_a_strict_schema_if_providers_accept_it() {
    let closed = json!({ "type": "object", "properties": { "count": { "type": "integer" } }, "required": ["count"], "additionalProperties": false });
    for (schema, strict) in [(schema(), false), (closed, true)] {
        let (asked, _) = with(&Feature::ALL, &json!({ "schema": schema })).await;
        let named = &asked["response_format"]["json_schema"];
        assert_eq!((&named["strict"], &named["schema"]), (&json!(strict), &schema));
    }
}

#[tokio::test]
async fn sends_the_grammar_of_a_step() {
    let block = json!({ "structured_output": "grammar", "grammar": "root ::= \"{}\"" });
    let (asked, events) = with(&[Feature::Grammar], &block).await;
    assert_eq!(asked["grammar"], "root ::= \"{}\"");
    assert_eq!(named(&events, "grammar.applied")[0]["mode"], "grammar");
}

#[tokio::test]
async fn retries_without_a_refused_constraint() {
    let refused = Err(BackendError::from_status(400, "no such response_format"));
    let backend = Arc::new(ScriptedBackend::new([refused, Ok(ScriptedBackend::says(GOOD))]));
    let (output, events) = ran(&step(&backend, &json!({}))).await;
    assert_eq!(output.expect("an output").attempts, 1);
    assert!(!backend.asked()[1].contains_key("response_format"));
    let attributes = json!({ "mode": "openai_json", "reason": "refused" });
    assert_eq!(events, [("aros.soe.skipped".to_owned(), attributes)]);
}

#[tokio::test]
async fn does_not_constrain_with_tools() {
    let answers =
        [ScriptedBackend::calls("1", "look", "{}"), ScriptedBackend::says("```\n{\"count\": \"2\"}\n```")];
    let backend = Arc::new(ScriptedBackend::new(answers.map(Ok)));
    let tools = |_: &Context| {
        let mut registry = ToolRegistry::new();
        let look = Closure::new(|_: &Body| json!("two"));
        registry.add(ToolDefinition::new("look", "Looks.", json!({})), look).expect("a tool");
        Arc::new(registry) as Arc<dyn ToolSource>
    };
    let step = step(&backend, &json!({})).with_tools(tools, ToolCallingOptions::default());
    let (output, events) = ran(&step).await;
    assert_eq!(output.expect("an output").value, json!({ "count": 2 }));
    assert_eq!(events[0], ("aros.soe.skipped".to_owned(), json!({ "mode": "auto", "reason": "tools" })));
    assert_eq!(backend.asked().len(), 2);
}

#[tokio::test]
async fn enforced_outputs_must_be_valid_unchanged() {
    let block = json!({ "structured_output": "outlines", "enforce_grammar": true });
    let backend = says(&["```\n{\"count\": 2}\n```", " {\"count\": 2}\n"]);
    let (output, events) = ran(&step(&backend, &block)).await;
    assert_eq!(output.expect("an output").attempts, 2);
    assert!(named(&events, "output.coercion.success").is_empty());
    let backend = says(&[r#"{"count": "2"}"#; 2]);
    let (output, _) = ran(&step(&backend, &block)).await;
    assert_eq!(output.expect_err("a string").errors(), ["Field \"count\": Expected integer, got string"]);
}

#[test]
fn the_order_of_keys_does_not_change_the_hash() {
    let one = json!({ "type": "object", "required": ["a", "b"] });
    let other = json!({ "required": ["a", "b"], "type": "object" });
    assert_eq!(constraint::hash(&one), constraint::hash(&other));
    // printf '{"type":"object"}' | sha256sum
    let known = "a2c799262a3ce3c19ef5cdd983bf3d12b43ab3c426227091b909dcb7054738c0";
    assert_eq!(constraint::hash(&json!({ "type": "object" })), known);
}
