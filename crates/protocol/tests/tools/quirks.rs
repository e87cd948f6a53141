//! Provider quirks in calls and their normalization.

use super::*;

const PARIS: &str = r#"{"city":"Paris"}"#;

/// Runs a message in some shape, followed by an answer. Checks that the call is always parsed to
/// the same result.
async fn understood(message: Value, warned: &[&str]) {
    let first = ScriptedBackend::message(message.clone());
    let (run, asked) = run(json!({ "tool_use_mode": "enforced" }), [first, says("Clear.")]).await;
    assert!(run.ok, "{message}: {:?}", run.errors);
    assert_eq!(run.turns[0].calls[0].result.data, json!({ "city": "Paris", "sky": "clear" }), "{message}");
    assert_eq!(warnings(&run, 0), warned, "{message}");
    // The history has the normalized shape.
    let said = &asked[1]["messages"][1];
    assert_eq!((&said["role"], said.get("function_call")), (&json!("assistant"), None));
    let call = &said["tool_calls"][0];
    assert_eq!((&call["type"], &call["function"]["name"]), (&json!("function"), &json!("get_weather")));
    let arguments = call["function"]["arguments"].as_str().expect("text");
    assert_eq!(serde_json::from_str::<Value>(arguments).expect("JSON"), json!({ "city": "Paris" }));
    assert_eq!(asked[1]["messages"][2]["tool_call_id"], call["id"]);
}

#[tokio::test]
async fn reads_calls_of_every_shape() {
    let function = json!({ "name": "get_weather", "arguments": PARIS });
    let call = json!({ "id": "a", "type": "function", "function": function });
    let of = |arguments: Value| {
        let function = json!({ "name": "get_weather", "arguments": arguments });
        json!({ "content": null, "tool_calls": [{ "id": "a", "type": "function", "function": function }] })
    };
    understood(json!({ "content": null, "tool_calls": [call] }), &[]).await;
    understood(json!({ "content": null, "function_call": function }), &["FUNCTION_CALL_SHAPE"]).await;
    understood(json!({ "content": "", "tool_calls": call }), &["TOOL_CALLS_OBJECT"]).await;
    understood(json!({ "tool_calls": { "0": call } }), &["TOOL_CALLS_OBJECT"]).await;
    understood(json!({ "tool_calls": [{ "function": function }] }), &["CALL_ID_MISSING"]).await;
    understood(of(json!({ "city": "Paris" })), &["ARGUMENTS_OBJECT"]).await;
    understood(of(json!(format!("```json\n{PARIS}\n```"))), &["ARGUMENTS_FENCED"]).await;
    understood(of(json!(json!(PARIS).to_string())), &["ARGUMENTS_ENCODED_TWICE"]).await;
}

#[tokio::test]
async fn blank_arguments_are_an_empty_object() {
    for blank in [json!(""), json!("  "), json!(null), json!("null"), json!({})] {
        let function = json!({ "name": "echo", "arguments": blank });
        let message = json!({ "content": null, "tool_calls": [{ "id": "a", "function": function }] });
        let (run, asked) = run(json!({}), [ScriptedBackend::message(message), says("Done.")]).await;
        assert_eq!(run.turns[0].calls[0].result.data, json!({}), "{blank}");
        assert_eq!(asked[1]["messages"][1]["tool_calls"][0]["function"]["arguments"], "{}", "{blank}");
    }
    // If the schema has required fields, the model receives an error.
    let (run, _) = run(json!({}), [calls("a", "get_weather", ""), says("Where?")]).await;
    assert_eq!(code(&run, 0, 0), Some("ARGUMENTS_INVALID"));
    let message = &run.turns[0].calls[0].result.errors[0].message;
    assert!(message.contains("\"city\" is a required property"), "{message}");
}

#[tokio::test]
async fn reports_invalid_arguments_that_the_model_may_correct() {
    let script = [
        calls("a", "get_weather", "{city: Paris}"),
        calls("b", "get_weather", r#"{"city": 7}"#),
        calls("c", "get_weather", PARIS),
        says("Clear."),
    ];
    let (run, asked) = run(json!({ "tool_use_mode": "enforced" }), script).await;
    assert!(run.ok);
    let codes = [0, 1, 2].map(|turn| code(&run, turn, 0));
    assert_eq!(codes, [Some("ARGUMENTS_JSON_PARSE_ERROR"), Some("ARGUMENTS_INVALID"), None]);
    let told = asked[2]["messages"][4]["content"].as_str().expect("text");
    assert!(told.contains("/city: the value is not of type \\\"string\\\""), "{told}");
    // Some servers parse the arguments in the history, so they must be JSON.
    assert_eq!(asked[1]["messages"][1]["tool_calls"][0]["function"]["arguments"], "{}");
}

#[tokio::test]
async fn does_not_accept_truncated_answers_as_complete() {
    let script = [
        cut(calls("a", "echo", r#"{"text": "and th"#)),
        cut(calls("b", "echo", "")),
        cut(says("The weather is")),
    ];
    let (run, _) = run(json!({}), script).await;
    assert!(run.ok);
    for turn in 0..2 {
        assert_eq!(code(&run, turn, 0), Some("ARGUMENTS_JSON_PARSE_ERROR"));
        assert_eq!(run.turns[turn].calls[0].result.errors[0].details["truncated"], true);
    }
    assert_eq!([0, 1, 2].map(|turn| warnings(&run, turn)), [["TRUNCATED"]; 3]);
    assert_eq!(run.turns[2].finish_reason.as_deref(), Some("length"));
    // The run itself states that its text is cut off.
    assert_eq!((run.is_truncated(), run.warnings[0].code.as_str()), (true, "TRUNCATED"));
    assert_eq!(run.text.as_deref(), Some("The weather is"));
    // Of several calls, only the last can be cut off.
    let two = calls_all(&[("a", "echo", ""), ("b", "echo", "")]);
    let (run, _) = super::run(json!({}), [cut(two), says("Done.")]).await;
    assert_eq!((code(&run, 0, 0), code(&run, 0, 1)), (None, Some("ARGUMENTS_JSON_PARSE_ERROR")));
    // If the thoughts used up all tokens, the final message is empty.
    let (run, _) = super::run(json!({}), [cut(says("")), says("Done.")]).await;
    assert_eq!((run.ok, warnings(&run, 0)), (true, vec!["TRUNCATED", "EMPTY_FINAL"]));
    assert!(!run.is_truncated(), "the text of the second answer is complete");
}

#[tokio::test]
async fn reads_malformed_answers_as_empty_final_messages() {
    for odd in
        [json!({ "choices": [] }), json!({ "choices": [{ "message": null }] }), json!({ "choices": [7] })]
    {
        let (run, _) = run(json!({ "fix_empty_final": false }), [odd.clone()]).await;
        assert_eq!(errors(&run), ["EMPTY_FINAL"], "{odd}");
    }
}

#[tokio::test]
async fn joins_content_in_parts() {
    let parts = json!({ "content": [{ "type": "text", "text": "The sky " }, { "type": "text", "text": "is clear." }] });
    let (run, _) = run(json!({}), [ScriptedBackend::message(parts)]).await;
    assert_eq!(run.text.as_deref(), Some("The sky is clear."));
}

#[tokio::test]
async fn keeps_text_beside_a_call_in_the_history() {
    let mut both = calls("a", "echo", "{}");
    both["choices"][0]["message"]["content"] = json!("Let me see.");
    both["choices"][0]["message"]["reasoning_details"] = json!([{ "type": "reasoning.text", "text": "Hm." }]);
    let (run, asked) = run(json!({}), [both, says("Done.")]).await;
    assert_eq!(run.text.as_deref(), Some("Done."));
    let said = &asked[1]["messages"][1];
    assert_eq!(
        (&said["content"], &said["reasoning_details"][0]["text"]),
        (&json!("Let me see."), &json!("Hm."))
    );
}

#[tokio::test]
async fn records_transport_errors_by_category() {
    let refused = r#"{"error": {"message": "no tools for this model", "code": "unsupported"}}"#;
    for (status, category) in [
        (429, "RATE_LIMITED"),
        (500, "SERVER_ERROR"),
        (504, "TIMEOUT"),
        (401, "AUTHENTICATION"),
        (403, "AUTHENTICATION"),
        (400, "INVALID_REQUEST"),
    ] {
        let script = vec![Ok(calls("a", "echo", "")), Err(BackendError::from_status(status, refused))];
        let (run, _) = run_with(Arc::new(registry()), json!({}), script).await;
        assert_eq!((run.ok, errors(&run)), (false, vec![category]));
        assert_eq!(run.turns[1].error, Some(run.errors[0].clone()));
        assert_eq!(
            (&run.errors[0].details["status"], &run.errors[0].details["provider_code"]),
            (&json!(status), &json!("unsupported"))
        );
        // Results before the error are kept.
        assert_eq!((run.stats.tool_calls_ok, run.messages.len()), (1, 3));
    }
}

#[tokio::test]
async fn thoughts_in_the_content_are_not_the_final_text() {
    for thoughts in ["<think>Hm.</think>", "<think>\nIt is cut o", "Hm.\n</think>\n", "[THINK]Hm.[/THINK]"] {
        let (run, asked) = run(json!({}), [says(thoughts), says("<think>Hm.</think>\n\nClear.")]).await;
        assert_eq!((warnings(&run, 0), asked.len()), (vec!["EMPTY_FINAL"], 2), "{thoughts}");
        assert_eq!((run.ok, run.text.as_deref()), (true, Some("Clear.")));
        // The history keeps what the model wrote.
        assert_eq!(run.messages[1]["content"], "<think>Hm.</think>\n\nClear.");
    }
    let (run, _) = run(json!({ "fix_empty_final": false }), [says("<think>Hm.</think>")]).await;
    assert_eq!((errors(&run), &run.text), (vec!["EMPTY_FINAL"], &None));
    let enforced = json!({ "tool_use_mode": "enforced" });
    let (run, _) = super::run(enforced, [calls("a", "echo", "{}"), says("<think>Hm.</think>Done.")]).await;
    assert_eq!((run.ok, run.text.as_deref()), (true, Some("Done.")));
}

#[tokio::test]
async fn a_refusal_is_not_an_empty_message() {
    let refused = ScriptedBackend::message(json!({ "content": null, "refusal": "I cannot help." }));
    let (run, asked) = run(json!({}), [refused]).await;
    assert_eq!((errors(&run), asked.len()), (vec!["REFUSED"], 1));
    assert_eq!(run.errors[0].details["refusal"], "I cannot help.");
    let mut filtered = says("");
    filtered["choices"][0]["finish_reason"] = json!("content_filter");
    let (run, _) = super::run(json!({}), [filtered.clone()]).await;
    assert_eq!(errors(&run), ["CONTENT_FILTER"]);
    filtered["choices"][0]["message"]["content"] = json!("The weather");
    let (run, _) = super::run(json!({}), [filtered.clone()]).await;
    assert_eq!((run.ok, run.is_filtered(), errors(&run)), (false, true, vec!["CONTENT_FILTER_CUT"]));
    assert_eq!((run.text.as_deref(), run.warnings.len()), (Some("The weather"), 0));
    assert!(!run.errors[0].message.contains("withheld"));
    let (run, _) = super::run(json!({ "tool_use_mode": "enforced" }), [filtered]).await;
    assert_eq!((run.is_filtered(), errors(&run)), (false, vec!["NO_TOOL_CALLS", "CONTENT_FILTER_CUT"]));
}

#[tokio::test]
async fn a_safety_refusal_is_not_about_the_key() {
    let flagged = r#"{"error": {"code": 403, "message": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"}}"#;
    let script = vec![Err(BackendError::from_status(403, flagged))];
    let (run, _) = run_with(Arc::new(registry()), json!({}), script).await;
    assert_eq!((errors(&run), &run.errors[0].details["status"]), (vec!["CONTENT_FILTER"], &json!(403)));
}

#[tokio::test]
async fn reads_calls_in_text_with_the_types_of_the_tools() {
    let fallback = json!({ "response_transforms": ["assistant_content_tool_call_tags_to_tool_calls"], "tool_use_mode": "enforced" });
    for text in [
        r#"<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>"#,
        "<think>Hm.</think><tool_call><function=get_weather><parameter=city>Paris</parameter></function></tool_call>",
        "<|tool_call_start|>[get_weather(city='Paris')]<|tool_call_end|>",
        r#"{"name": "get_weather", "parameters": {"city": "Paris"}}"#,
    ] {
        let parts = ScriptedBackend::message(json!({ "content": [{ "type": "text", "text": text }] }));
        for first in [says(text), parts] {
            let (run, asked) = run(fallback.clone(), [first, says("Clear.")]).await;
            assert!(run.ok, "{text}: {:?}", run.errors);
            assert_eq!(run.turns[0].calls[0].result.data["city"], "Paris", "{text}");
            assert_eq!(asked[1]["messages"][1]["tool_calls"][0]["function"]["name"], "get_weather");
        }
    }
}
