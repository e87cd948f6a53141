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
            let attributes =
                json!({ "mode": mode, "sent": format, "schema_hash": constraint::hash(&schema()) });
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
    let refused = || Err(BackendError::from_status(400, "no such response_format"));
    for (refusals, sent) in [(1, Some("json_object")), (2, None)] {
        let answers = (0..refusals).map(|_| refused()).chain([Ok(ScriptedBackend::says(GOOD))]);
        let backend = Arc::new(ScriptedBackend::new(answers));
        let (output, events) = ran(&step(&backend, &json!({}))).await;
        assert_eq!(output.expect("an output").attempts, 1);
        let last = backend.asked().pop().expect("a request");
        assert_eq!(last.get("response_format").and_then(|format| format["type"].as_str()), sent);
        assert!(last["messages"][0]["content"].as_str().is_some_and(|text| text.contains("JSON Schema")));
        let attributes = json!({ "mode": "openai_json", "reason": "refused" });
        let skips = named(&events, "aros.soe.skipped");
        assert_eq!(skips, vec![&attributes; refusals + usize::from(sent.is_none())]);
        let applied = named(&events, "grammar.applied");
        assert_eq!(applied.first().and_then(|applied| applied["sent"].as_str()), sent);
    }
}

#[tokio::test]
async fn uses_only_the_modes_of_the_step() {
    let (asked, _) = with(&Feature::ALL, &json!({ "modes": ["json_object", "prompt_only"] })).await;
    assert_eq!(asked["response_format"]["type"], "json_object");
    let (asked, events) = with(&Feature::ALL, &json!({ "modes": ["prompt_only"] })).await;
    assert!(!asked.contains_key("response_format"));
    assert_eq!(named(&events, "aros.soe.skipped")[0]["reason"], "modes");
    let backend = says(&[]);
    let backend =
        Arc::new(Arc::into_inner(backend).expect("one").with_capabilities(crate::Capabilities::NONE));
    let (output, _) = ran(&step(&backend, &json!({ "modes": ["json_schema"] }))).await;
    let told = "no mode of `modes` can be used (json_schema): unsupported";
    assert_eq!(output.expect_err("no mode").to_string(), told);
}

#[tokio::test]
async fn lists_are_not_requested_as_objects() {
    let block = json!({ "schema": { "type": "array" } });
    let backend = ScriptedBackend::new([Ok(ScriptedBackend::says("[1]"))]);
    let backend = Arc::new(backend.with_capabilities([Feature::JsonObject].into_iter().collect()));
    assert!(ran(&step(&backend, &block)).await.0.is_ok());
    assert!(!backend.asked()[0].contains_key("response_format"));
}

#[tokio::test]
async fn prompts_contain_the_schema_once() {
    let file = "
agents:
  s:
    prompt: 'Fill this: {{ schema }}'
    processing:
      structured_output: off
      schema: { type: object, required: [count] }
";
    let file = StepsFile::parse(file, Format::Yaml).expect("a file");
    let run = Tracer::default().run("r");
    for (context, prompt) in [
        (json!({}), r#"Fill this: {"type":"object","required":["count"]}"#),
        // A value of the context takes precedence, so the schema is appended.
        (
            json!({ "schema": "x" }),
            "Fill this: x\n\nAnswer with JSON that matches this JSON Schema, and with nothing else:\n{\"type\":\"object\",\"required\":[\"count\"]}",
        ),
    ] {
        let backend = says(&[GOOD]);
        let step = file.build("s", &Aros::default(), &|_| prompts(&backend)).expect("a step");
        step.run(&StepInput::default(), &mut body(context), &run).await.expect("an output");
        assert_eq!(backend.asked()[0]["messages"][0]["content"], prompt);
    }
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
