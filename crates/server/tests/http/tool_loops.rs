//! Tool loops with the in-process backend: calls are complete and valid for any model.

use std::sync::Arc;

use formwork_protocol::PromptRunner;
use formwork_protocol::tools::{
    Closure, ToolCallingOptions, ToolDefinition, ToolLoopRunner, ToolRegistry, ToolRun, Transforms, replay,
};
use formwork_server::LocalBackend;
use serde_json::{Value, json};

use crate::fixture::{app, babbles, says_in};

const CONTEXT: usize = 6000;

fn registry() -> Arc<ToolRegistry> {
    let order = json!({
        "type": "object",
        "properties": {
            "item": { "enum": ["pizza", "soup"] },
            "count": { "type": "integer", "minimum": 1, "maximum": 20 },
            "note": { "type": "string", "maxLength": 12 },
            "extras": { "type": "array", "items": { "type": "string", "pattern": "^[a-z]{1,5}$" }, "maxItems": 2 },
        },
        "required": ["item", "count"],
        "additionalProperties": false,
    });
    let ping = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let mut registry = ToolRegistry::new();
    let add = |registry: &mut ToolRegistry, name: &str, parameters| {
        let echo = Closure::new(|given| Value::Object(given.clone()));
        registry.add(ToolDefinition::new(name, "", parameters), echo).unwrap();
    };
    add(&mut registry, "place_order", order);
    add(&mut registry, "ping", ping);
    Arc::new(registry)
}

async fn run(model: formwork_lm::ScriptedModel, options: Value) -> ToolRun {
    let options: ToolCallingOptions = serde_json::from_value(options).unwrap();
    let prompt = PromptRunner::new(Arc::new(LocalBackend::new(app(model))), "m");
    let runner = ToolLoopRunner::new(prompt, registry(), options).unwrap();
    runner.run(vec![json!({ "role": "user", "content": "Order something." })]).await.unwrap()
}

#[tokio::test]
async fn a_model_that_babbles_makes_valid_calls_only() {
    let mut calls = 0;
    for seed in 0..25 {
        let options = json!({
            "tool_use_mode": "enforced", "max_turns": 2,
            "request_overrides": { "seed": seed, "temperature": 1.5, "max_tokens": 400 },
        });
        let run = run(babbles(CONTEXT), options).await;
        for call in run.turns.iter().flat_map(|turn| &turn.calls) {
            assert!(call.result.ok, "{call:?}");
            calls += 1;
        }
        assert!(run.stats.tool_calls > 0 && run.turns.iter().all(|turn| turn.error.is_none()), "{run:?}");
        assert_eq!(replay(&run, &Transforms::default()).unwrap(), run);
    }
    assert!(calls >= 25);
}

#[tokio::test]
async fn a_model_that_calls_in_vain_is_refused_as_over_http() {
    let unsupported = json!({ "request_overrides": { "logit_bias": "x" } });
    let run = run(says_in(CONTEXT, "Hi"), unsupported).await;
    assert_eq!(run.errors[0].code, "INVALID_REQUEST");
    assert_eq!(run.errors[0].details["status"], 400);
}

#[tokio::test]
async fn the_history_that_a_run_leaves_is_one_that_the_engine_reads() {
    // The model always gives the same answer, so every turn calls the tool again.
    let text = "Wait.\n<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>";
    let run = run(says_in(CONTEXT, text), json!({ "max_turns": 3 })).await;
    assert_eq!((run.errors[0].code.as_str(), run.stats.tool_calls_ok), ("MAX_TURNS", 3));
    let roles: Vec<_> = run.messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "tool", "assistant", "tool"]);
    assert_eq!(run.messages[1]["content"], "Wait.");
}
