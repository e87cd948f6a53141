//! Record of a whole run.

use super::*;

#[tokio::test]
async fn a_record_is_complete() {
    let script = [calls("call_1", "get_weather", r#"{"city": "Paris"}"#), says("The sky is clear.")];
    let given = json!({ "tool_use_mode": "enforced", "request_overrides": { "parallel_tool_calls": false } });
    let tools =
        formwork_protocol::tools::FilteredToolRegistry::new(Arc::new(registry())).allow(["get_weather"]);
    let (mut run, _) = run_with(Arc::new(tools), given, script.into_iter().map(Ok).collect()).await;
    run.stats.latency_ms = 0;
    for turn in &mut run.turns {
        turn.latency_ms = 0;
        turn.calls.iter_mut().for_each(|call| call.latency_ms = 0);
        turn.reply = turn.reply.take().map(|reply| reply["choices"][0]["message"].clone());
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&run).expect("JSON"));
}
