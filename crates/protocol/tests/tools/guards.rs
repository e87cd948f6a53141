//! Limits on arguments, results and calls, masks, and empty final messages.

use formwork_protocol::tools::FilteredToolRegistry;

use super::*;

#[tokio::test]
async fn refuses_large_arguments_that_the_model_may_shorten() {
    let long = format!("{{\"text\": \"{}\"}}", "x".repeat(200));
    let script = [calls("a", "echo", &long), calls("b", "echo", r#"{"text": "x"}"#), says("Done.")];
    let given = json!({ "tool_use_mode": "enforced", "max_tool_args_bytes": 100 });
    let (run, asked) = run(given, script).await;
    assert!(run.ok, "the second call mended the first");
    assert_eq!((code(&run, 0, 0), code(&run, 1, 0)), (Some("ARGUMENTS_TOO_LARGE"), None));
    // The record has the original arguments; the history has an empty object instead.
    assert_eq!(run.turns[0].calls[0].call.arguments, long);
    let history = &asked[1]["messages"];
    assert_eq!(history[1]["tool_calls"][0]["function"]["arguments"], "{}");
    let told: Value = serde_json::from_str(history[2]["content"].as_str().expect("text")).expect("JSON");
    assert_eq!((&told["ok"], &told["data"], &told["warnings"]), (&json!(false), &json!(null), &json!([])));
    assert_eq!(
        told["errors"],
        json!([{
            "code": "ARGUMENTS_TOO_LARGE",
            "message": "the arguments have 212 bytes, but the limit is 100; call the tool again with shorter arguments",
            "bytes": 212,
            "limit": 100,
        }])
    );
}

#[tokio::test]
async fn replaces_large_results() {
    let long = format!("{{\"text\": \"{}\"}}", "x".repeat(500));
    let script = [calls("a", "echo", &long), says("Too long.")];
    let given =
        json!({ "max_tool_output_bytes": 300, "tool_result_transforms": ["tool_result_compact_envelope"] });
    let (run, asked) = run(given, script).await;
    assert_eq!(code(&run, 0, 0), Some("TOOL_OUTPUT_TOO_LARGE"));
    let sent = asked[1]["messages"][2]["content"].as_str().expect("text");
    assert!(
        sent.len() < 300 && sent.starts_with(r#"{"ok":false,"errors":[{"code":"TOOL_OUTPUT_TOO_LARGE""#),
        "{sent}"
    );
    // The limit applies to the text as sent, which has 100 bytes without the empty fields.
    let arguments = format!("{{\"text\":\"{}\"}}", "x".repeat(70));
    let script = || [calls("a", "echo", &arguments), says("Done.")];
    let given =
        json!({ "max_tool_output_bytes": 100, "tool_result_transforms": ["tool_result_compact_envelope"] });
    let (run, asked) = super::run(given, script()).await;
    assert_eq!(asked[1]["messages"][2]["content"].as_str().map(str::len), Some(100));
    assert_eq!(code(&run, 0, 0), None);
    let (run, _) = super::run(json!({ "max_tool_output_bytes": 100 }), script()).await;
    assert_eq!(code(&run, 0, 0), Some("TOOL_OUTPUT_TOO_LARGE"));
}

#[tokio::test]
async fn limits_default_to_200_000_bytes() {
    let of = |bytes: usize| format!("{{\"text\":\"{}\"}}", "x".repeat(bytes - 11));
    let script = [calls("a", "maybe", &of(200_000)), calls("b", "maybe", &of(200_001)), says("Done.")];
    let (run, _) = run(json!({}), script).await;
    assert_eq!((code(&run, 0, 0), code(&run, 1, 0)), (None, Some("ARGUMENTS_TOO_LARGE")));
    let script = [calls("a", "echo", &of(199_000)), calls("b", "echo", &of(200_000)), says("Done.")];
    let (run, _) = super::run(json!({}), script).await;
    assert_eq!((code(&run, 0, 0), code(&run, 1, 0)), (None, Some("TOOL_OUTPUT_TOO_LARGE")));
}

#[tokio::test]
async fn ignores_and_counts_calls_beyond_the_limit() {
    let three = || calls_all(&[("a", "echo", "{}"), ("b", "maybe", "{}"), ("c", "echo", "{}")]);
    for (given, executed) in [
        (json!({ "max_tool_calls_per_turn": 2 }), 2),
        (json!({ "request_overrides": { "parallel_tool_calls": false } }), 1),
        (json!({ "request_overrides": { "parallel_tool_calls": false }, "max_tool_calls_per_turn": 2 }), 2),
        (json!({ "request_overrides": { "parallel_tool_calls": true } }), 3),
        (json!({}), 3),
    ] {
        let (run, asked) = run(given.clone(), [three(), says("Done.")]).await;
        assert!(run.ok);
        assert_eq!(run.turns[0].calls.len(), executed, "{given}");
        assert_eq!(run.turns[0].ignored_tool_calls_count, 3 - executed, "{given}");
        assert_eq!(run.stats.ignored_tool_calls_count, 3 - executed);
        // The history has the executed calls and one result for each.
        let messages = asked[1]["messages"].as_array().expect("messages");
        let ids: Vec<_> =
            messages[1]["tool_calls"].as_array().expect("calls").iter().map(|call| &call["id"]).collect();
        assert_eq!(ids, ["a", "b", "c"][..executed].iter().collect::<Vec<_>>(), "{given}");
        let results: Vec<_> = messages[2..].iter().map(|message| &message["tool_call_id"]).collect();
        assert_eq!(results, ids);
    }
}

#[tokio::test]
async fn applies_the_defaults_of_the_model() {
    let backend = Arc::new(ScriptedBackend::new([
        Ok(calls_all(&[("a", "echo", "{}"), ("b", "echo", "{}")])),
        Ok(says("Done.")),
    ]));
    let defaults = json!({ "parallel_tool_calls": false }).as_object().cloned().expect("an object");
    let prompt = PromptRunner::new(backend, "m").with_defaults(defaults);
    let runner = ToolLoopRunner::new(prompt, Arc::new(registry()), options(json!({}))).expect("a runner");
    let run = runner.run(question()).await.expect("not cancelled");
    assert_eq!(run.turns[0].ignored_tool_calls_count, 1);
}

#[tokio::test]
async fn does_not_send_or_run_masked_tools() {
    let tools = FilteredToolRegistry::new(Arc::new(registry())).deny(["maybe"]);
    let script = vec![Ok(calls("a", "maybe", "{}")), Ok(says("Not allowed."))];
    let (run, asked) = run_with(Arc::new(tools), json!({}), script).await;
    let names: Vec<_> =
        asked[0]["tools"].as_array().expect("tools").iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["get_weather", "echo"]);
    assert_eq!(code(&run, 0, 0), Some("TOOL_NOT_ALLOWED"));
    assert_eq!(run.setup.masked, ["maybe"]);
}

#[tokio::test]
async fn requests_an_empty_final_message_again_without_tools() {
    let script = || [calls("a", "echo", ""), says(" \n"), says("Done.")];
    let given = json!({ "request_overrides": { "parallel_tool_calls": false, "temperature": 0 } });
    let (run, asked) = run(given, script()).await;
    assert_eq!((run.ok, run.text.as_deref()), (true, Some("Done.")));
    assert_eq!((warnings(&run, 1), run.turns[2].is_finalization), (vec!["EMPTY_FINAL"], true));
    assert_eq!(asked[2].keys().collect::<Vec<_>>(), ["temperature", "model", "messages"]);
    let messages = asked[2]["messages"].as_array().expect("messages");
    let last = json!({ "role": "user", "content": "Your last message was empty. Answer now, from the results above." });
    assert_eq!((messages.len(), &messages[3]), (4, &last));
    // The empty message and the request for another one are not part of the conversation.
    assert_eq!(run.messages.len(), 4);
    assert_eq!(run.messages[3], json!({ "role": "assistant", "content": "Done." }));

    let given = json!({ "fix_empty_final_disable_tools": false, "fix_empty_final_prompt": "Well?" });
    let (_, asked) = super::run(given, script()).await;
    assert!(asked[2].contains_key("tools"));
    assert_eq!(asked[2]["messages"][3]["content"], "Well?");
}

#[tokio::test]
async fn a_final_message_that_stays_empty_is_a_failure() {
    let twice = [calls("a", "echo", ""), says(""), says("")];
    let (run, asked) = run(json!({}), twice).await;
    assert_eq!((errors(&run), asked.len(), &run.text), (vec!["EMPTY_FINAL"], 3, &None));
    let (run, asked) =
        super::run(json!({ "fix_empty_final": false }), [calls("a", "echo", ""), says("")]).await;
    assert_eq!((errors(&run), asked.len()), (vec!["EMPTY_FINAL"], 2));
    // A call in a request without tools is ignored.
    let again = [calls("a", "echo", ""), says(""), calls("b", "echo", "")];
    let (run, _) = super::run(json!({}), again).await;
    assert_eq!((errors(&run), run.turns[2].ignored_tool_calls_count), (vec!["EMPTY_FINAL"], 1));
    // If an enforced call is missing, asking for text does not help.
    let (run, asked) = super::run(json!({ "tool_use_mode": "enforced" }), [says("")]).await;
    assert_eq!((errors(&run), asked.len()), (vec!["NO_TOOL_CALLS", "EMPTY_FINAL"], 1));
}

#[tokio::test]
async fn the_request_for_a_final_message_is_not_a_turn() {
    let script = [calls("a", "echo", ""), says(""), says("Done.")];
    assert!(run(json!({ "max_turns": 2 }), script).await.0.ok);
    let calls_again = [calls("a", "echo", ""), says(""), calls("b", "echo", ""), says("Done.")];
    let (run, _) = run(json!({ "max_turns": 3, "fix_empty_final_disable_tools": false }), calls_again).await;
    assert!(run.ok, "with tools, it may call once more");
}

#[tokio::test]
async fn limits_the_bytes_of_a_conversation() {
    let text = "x".repeat(1000);
    let call = |id: &str| calls(id, "echo", &json!({ "id": id, "text": text }).to_string());
    let given = json!({ "max_conversation_bytes": 5000 });
    let (run, asked) = run(given.clone(), [call("a"), call("b"), call("c"), says("Done.")]).await;
    assert_eq!((errors(&run), asked.len()), (vec!["CONVERSATION_TOO_LARGE"], 3));
    let bytes: usize = run.messages.iter().map(|message| message.to_string().len()).sum();
    assert_eq!(
        (&run.errors[0].details["bytes"], &run.errors[0].details["limit"]),
        (&json!(bytes), &json!(5000))
    );
    assert_eq!(run.errors[0].message, format!("the conversation has {bytes} bytes, but the limit is 5000"));
    // The calls of one message stop at the limit.
    let one = json!({ "text": text }).to_string();
    let many: Vec<(&str, &str, &str)> = (0..50).map(|_| ("", "echo", one.as_str())).collect();
    let (run, asked) = super::run(given.clone(), [calls_all(&many), says("Done.")]).await;
    assert_eq!((errors(&run), asked.len()), (vec!["CONVERSATION_TOO_LARGE"], 1));
    assert!(run.turns[0].calls.len() < 10);
    assert_eq!(run.turns[0].calls.len() + run.turns[0].ignored_tool_calls_count, 50);
    // The first messages count as well.
    let given = json!({ "max_conversation_bytes": 10 });
    let (run, asked) = super::run(given, [says("Done.")]).await;
    assert_eq!((errors(&run), asked.len()), (vec!["CONVERSATION_TOO_LARGE"], 0));
}

#[tokio::test]
async fn equal_numbers_make_a_call_repeated() {
    for (one, other) in [("1", "1.0"), ("2.0", "2e0"), ("[1, {\"n\": 3.0}]", "[1.0, {\"n\": 3}]")] {
        let of = |id: &str, days: &str| calls(id, "echo", &format!("{{\"days\": {days}}}"));
        let script = [of("a", one), of("b", other), says("Done.")];
        let (run, _) = run(json!({ "repeated_calls": "stop" }), script).await;
        assert_eq!(errors(&run), ["REPEATED_CALL"], "{one} {other}");
    }
}

#[tokio::test]
async fn calls_with_a_contradictory_member_do_not_run() {
    let twice = r#"{"text": "a", "text": "b"}"#;
    let (run, _) = run(json!({}), [calls("a", "echo", twice), says("Done.")]).await;
    assert_eq!(code(&run, 0, 0), Some("ARGUMENTS_INVALID"));
    assert!(run.turns[0].calls[0].result.errors[0].message.contains("`text` twice"));
    let tagged = format!("<tool_call>{{\"name\": \"echo\", \"arguments\": {twice}}}</tool_call>");
    let given = json!({ "response_transforms": ["assistant_content_tool_call_tags_to_tool_calls"] });
    let (run, _) = super::run(given, [says(&tagged), says("Done.")]).await;
    assert_eq!(code(&run, 0, 0), Some("ARGUMENTS_INVALID"));
}
