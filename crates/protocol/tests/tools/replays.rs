//! Replays reproduce their records.

use formwork_protocol::tools::{FilteredToolRegistry, Transforms, replay};

use super::*;

/// Replays a record after a round trip through JSON.
fn again(run: &ToolRun) -> ToolRun {
    let text = serde_json::to_string(run).expect("JSON");
    let read: ToolRun = serde_json::from_str(&text).expect("a record");
    assert_eq!(read, *run);
    replay(&read, &Transforms::default()).expect("a replay")
}

#[tokio::test]
async fn replays_reproduce_every_kind_of_run() {
    let long = format!("{{\"text\": \"{}\"}}", "x".repeat(300));
    let fenced = "```json\n{\"city\": \"Paris\"}\n```";
    let function = json!({ "name": "get_weather", "arguments": { "city": "Paris" } });
    let legacy = ScriptedBackend::message(json!({ "content": "Hm.", "function_call": function }));
    let scripts = [
        vec![Ok(says("Hi"))],
        vec![Ok(calls("a", "get_weather", fenced)), Ok(legacy), Ok(says("Clear."))],
        vec![
            Ok(calls_all(&[("a", "echo", ""), ("a", "maybe", r#"{"fail": true}"#), ("", "hidden", "")])),
            Ok(says("Done.")),
        ],
        vec![
            Ok(calls("a", "echo", &long)),
            Ok(calls("b", "get_weather", "{")),
            Ok(says("")),
            Ok(says("Done.")),
        ],
        vec![Ok(calls("a", "echo", r#"{"text": "x"}"#)), Err(BackendError::from_status(500, "oops"))],
        vec![Ok(calls("a", "nothing", "")), Ok(calls("b", "get_weather", "")), Ok(says("")), Ok(says(""))],
        vec![
            Ok(calls("a", "echo", "")),
            Ok(calls("b", "echo", "")),
            Ok(calls("c", "echo", "")),
            Ok(calls("d", "echo", "")),
        ],
    ];
    let given = [
        json!({ "max_turns": 4 }),
        json!({ "tool_use_mode": "enforced", "max_tool_args_bytes": 200, "max_tool_output_bytes": 150, "max_turns": 3 }),
        json!({
            "tool_use_mode": "enforced", "tool_failure_policy": "tolerated", "max_tool_calls_per_turn": 1,
            "request_overrides": { "parallel_tool_calls": false, "temperature": 0.1, "model": "x" },
            "message_transforms": ["assistant_tool_calls_reasoning_content_empty_if_missing"],
            "tool_transforms": ["tools_without_descriptions"],
            "response_transforms": ["assistant_content_tool_call_tags_to_tool_calls"],
            "tool_call_transforms": ["tool_call_name_without_namespace"],
            "tool_result_transforms": ["tool_result_compact_envelope"],
        }),
        json!({ "tool_use_mode": "disabled", "fix_empty_final": false }),
    ];
    for given in &given {
        for script in &scripts {
            let tools = FilteredToolRegistry::new(Arc::new(registry())).deny(["maybe"]);
            let (run, _) = run_with(Arc::new(tools), given.clone(), script.clone()).await;
            assert_eq!(again(&run), run, "{given}");
        }
    }
}

#[tokio::test]
async fn detects_a_changed_record() {
    let (run, _) = run(json!({}), [calls("a", "echo", r#"{"x": 1}"#), says("Done.")]).await;
    let fault = |change: fn(&mut ToolRun)| {
        let mut changed = run.clone();
        change(&mut changed);
        replay(&changed, &Transforms::default()).expect_err("departs").to_string()
    };
    let departs = "the replay differs from the record in turn";
    let asks = fault(|run| run.turns[1].plan.messages[0] = json!({}));
    assert_eq!(asks, format!("{departs} 2: the request is different"));
    let calls = fault(|run| run.turns[0].calls[0].call.arguments = "{}".to_owned());
    assert_eq!(calls, format!("{departs} 1: the call is different"));
    let more = fault(|run| run.turns.truncate(1));
    assert_eq!(more, format!("{departs} 2: the record has no further request"));
    assert!(fault(|run| run.turns[1].reply = None).ends_with("the record has no answer"));
    // With a changed result, the next request differs from the record.
    assert!(fault(|run| run.turns[0].calls[0].result.data = json!(2)).ends_with("the request is different"));
}

/// Returns the record as versions before 0.2 wrote it, with the whole request in each turn.
fn with_whole_plans(run: &ToolRun) -> Value {
    let mut record = serde_json::to_value(run).expect("JSON");
    for turn in 0..run.turns.len() {
        record["turns"][turn]["plan"] = serde_json::to_value(run.plan(turn)).expect("JSON");
    }
    record
}

#[tokio::test]
async fn records_with_whole_requests_can_be_replayed() {
    let script = || [calls("a", "echo", r#"{"x": 1}"#), calls("b", "echo", "{}"), says(""), says("Done.")];
    for given in [
        json!({}),
        json!({ "message_transforms": ["assistant_tool_calls_content_empty_if_null"] }),
        json!({ "tool_choice": "required" }),
    ] {
        let (run, asked) = run(given.clone(), script()).await;
        let old: ToolRun = serde_json::from_value(with_whole_plans(&run)).expect("a record");
        assert_eq!(old, run, "{given}");
        assert_eq!(again(&old), run, "{given}");
        for (turn, asked) in asked.iter().enumerate() {
            let plan = run.plan(turn).expect("a turn");
            assert_eq!(Value::Array(plan.messages), asked["messages"], "{given}");
        }
        assert_eq!(run.plan(run.turns.len()), None);
    }
}

#[tokio::test]
async fn the_size_of_a_record_is_linear() {
    let text = "x".repeat(10_000);
    let size = async |turns: usize| {
        let call =
            |turn: usize| calls(&format!("c{turn}"), "echo", &json!({ "n": turn, "text": text }).to_string());
        let script: Vec<Value> = (0..turns).map(call).chain([says("Done.")]).collect();
        let (run, _) = run(json!({ "max_turns": 100 }), script).await;
        assert!(run.ok, "{:?}", run.errors);
        serde_json::to_string(&run).expect("JSON").len()
    };
    let (small, large) = (size(10).await, size(40).await);
    assert!(large < 5 * small, "{small} bytes for 10 turns, {large} for 40");
}
