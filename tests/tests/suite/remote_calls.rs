//! Calls in the text of remote answers, read by tool loops.

use std::path::Path;
use std::sync::Arc;

use formwork_protocol::tools::{Closure, ToolDefinition, ToolLoopRunner, ToolRegistry};
use formwork_protocol::{Body, PromptRunner, ScriptedBackend};
use serde_json::{Value, json};

/// A loop reads the calls in the texts of real templates.
#[tokio::test]
async fn reads_the_calls_that_real_templates_write() {
    let Some(folder) = std::env::var_os("FORMWORK_CALL_VECTORS") else { return };
    let text = std::fs::read_to_string(Path::new(&folder).join("vectors.json")).expect("vectors");
    let vectors: Value = serde_json::from_str(&text).expect("JSON");
    let mut faults = Vec::new();
    let mut count = 0;
    for vector in vectors["vectors"].as_array().expect("vectors") {
        let Some(turn) = vector["after_prompt"].as_str().or(vector["turn"].as_str()) else { continue };
        let calls = vector["assistant"]["tool_calls"].as_array().cloned().unwrap_or_default();
        let mut tools = ToolRegistry::new();
        for tool in vector["tools"].as_array().into_iter().flatten() {
            let tool = &tool["function"];
            let text = |name: &str| tool[name].as_str().unwrap_or_default();
            let definition =
                ToolDefinition::new(text("name"), text("description"), tool["parameters"].clone());
            let given = Closure::new(|given: &Body| Value::Object(given.clone()));
            tools.add(definition, given).expect("a tool");
        }
        let options = json!({
            "response_transforms": ["assistant_content_tool_call_tags_to_tool_calls"], "fix_empty_final": false,
        });
        let options = serde_json::from_value(options).expect("options");
        let script = [Ok(ScriptedBackend::says(turn)), Ok(ScriptedBackend::says("Done."))];
        let prompt = PromptRunner::new(Arc::new(ScriptedBackend::new(script)), "model");
        let runner = ToolLoopRunner::new(prompt, Arc::new(tools), options).expect("a runner");
        let question = json!({ "role": "user", "content": "?" });
        let run = runner.run(vec![question]).await.expect("not cancelled");
        let found: Vec<(String, Value)> = run.turns[0]
            .calls
            .iter()
            .map(|call| {
                (call.call.name.clone(), serde_json::from_str(&call.call.arguments).unwrap_or_default())
            })
            .collect();
        let name = |call: &Value| call["function"]["name"].as_str().unwrap_or_default().to_owned();
        // Some templates write one call only, or the id of a call without its name.
        let written = calls.iter().filter(|call| turn.contains(&name(call)));
        let expected = written.map(|call| {
            let mut arguments = call["function"]["arguments"].clone();
            if let (true, Some(members)) =
                (vector["template"] == "minimax-m3.jinja", arguments.as_object_mut())
            {
                // This template writes no null.
                members.retain(|_, value| !value.is_null());
            }
            (name(call), arguments)
        });
        let expected: Vec<(String, Value)> = expected.collect();
        // This template escapes no quotes, so the end of the text is not clear.
        if vector["template"] == "lfm2.5.jinja" && turn.contains("'y'") {
            assert_eq!(found, []);
            continue;
        }
        count += 1;
        if found != expected {
            faults.push(format!("{} {}: {turn:?} is {found:?}", vector["template"], vector["case"]));
        }
    }
    assert!(count > 100, "{count} turns");
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n"));
}
