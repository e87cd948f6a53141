use formwork_openai::{
    AssistantMessage, ChatChoice, ChatChunk, ChatCompletion, ChunkChoice, ChunkUsage, Delta, Failure,
    FailureBody, FinishReason, Item, MessageCall, ResponseEvent, Status, Usage,
};
use serde::{Serialize, de::DeserializeOwned};

/// Checks that `value` is serialized as `text`, and that parsing `text` returns an equal value.
fn check<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T, text: &str) {
    assert_eq!(serde_json::to_string(value).expect("serializable"), text);
    assert_eq!(&serde_json::from_str::<T>(text).expect("readable"), value);
}

fn chunk(choices: Vec<ChunkChoice>) -> ChatChunk {
    ChatChunk {
        id: "c".to_owned(),
        object: "chat.completion.chunk".to_owned(),
        created: 1,
        model: "m".to_owned(),
        system_fingerprint: None,
        choices,
        usage: None,
        unsupported_schemas: vec![],
    }
}

fn choice(delta: Delta, finish_reason: Option<FinishReason>) -> ChunkChoice {
    ChunkChoice {
        index: 0,
        delta,
        logprobs: None,
        mask_view: Vec::new(),
        decisions: Vec::new(),
        decisions_error: None,
        finish_reason,
        closed_by_budget: false,
    }
}

#[test]
fn completions() {
    let completion = |closed_by_budget| ChatCompletion {
        id: "c".to_owned(),
        object: "chat.completion".to_owned(),
        created: 1,
        model: "m".to_owned(),
        choices: vec![ChatChoice {
            index: 0,
            message: AssistantMessage::new("Hi".to_owned()),
            logprobs: None,
            mask_view: None,
            decisions: None,
            decisions_error: None,
            finish_reason: FinishReason::Stop,
            closed_by_budget,
        }],
        usage: Usage::new(3, 2, 1, 0),
        unsupported_schemas: Vec::new(),
        system_fingerprint: None,
    };
    check(
        &completion(false),
        r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":0}},"system_fingerprint":null}"#,
    );
    let closed = serde_json::to_value(completion(true)).expect("serializable");
    assert_eq!(closed["choices"][0]["closed_by_budget"], true);
}

#[test]
fn chunks() {
    check(
        &chunk(vec![choice(Delta::opening(true), None)]),
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":null,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}"#,
    );
    check(
        &chunk(vec![choice(Delta::closing(), Some(FinishReason::Length))]),
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":null,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}]}"#,
    );
    check(
        &ChatChunk { usage: Some(ChunkUsage::Total(Usage::new(1, 2, 0, 0))), ..chunk(vec![]) },
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":null,"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}"#,
    );
    let pending = ChatChunk { usage: Some(ChunkUsage::Pending), ..chunk(vec![]) };
    assert!(
        serde_json::to_string(&pending).expect("serializable").ends_with(r#""choices":[],"usage":null}"#)
    );
}

#[test]
fn calls() {
    check(
        &MessageCall::function("c1".to_owned(), "add".to_owned(), "{}".to_owned()),
        r#"{"id":"c1","type":"function","function":{"name":"add","arguments":"{}"}}"#,
    );
    check(
        &MessageCall::custom("c1".to_owned(), "sql".to_owned(), "a\n".to_owned()),
        r#"{"id":"c1","type":"custom","custom":{"name":"sql","input":"a\n"}}"#,
    );
    check(
        &Delta::call(0, "c1".to_owned(), "add".to_owned()),
        r#"{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"add","arguments":""}}]}"#,
    );
    check(
        &Delta::custom_call(1, "c1".to_owned(), "sql".to_owned()),
        r#"{"tool_calls":[{"index":1,"id":"c1","type":"custom","custom":{"name":"sql","input":""}}]}"#,
    );
    check(&Delta::input(1, "a".to_owned()), r#"{"tool_calls":[{"index":1,"custom":{"input":"a"}}]}"#);
    check(
        &Item::CustomToolCall {
            id: "ctc_1".to_owned(),
            call_id: "c1".to_owned(),
            name: "sql".to_owned(),
            namespace: None,
            input: "a".to_owned(),
            status: Status::Completed,
        },
        r#"{"type":"custom_tool_call","id":"ctc_1","call_id":"c1","name":"sql","input":"a","status":"completed"}"#,
    );
    check(
        &Item::FunctionCall {
            id: "fc_1".to_owned(),
            call_id: "c1".to_owned(),
            name: "find".to_owned(),
            namespace: Some("crm".to_owned()),
            arguments: "{}".to_owned(),
            status: Status::Completed,
        },
        r#"{"type":"function_call","id":"fc_1","call_id":"c1","name":"find","namespace":"crm","arguments":"{}","status":"completed"}"#,
    );
    let (item_id, output_index) = ("ctc_1".to_owned(), 2);
    let delta = ResponseEvent::InputDelta { item_id: item_id.clone(), output_index, delta: "a".to_owned() };
    let done = ResponseEvent::InputDone { item_id, output_index, input: "ab".to_owned() };
    for (event, text) in [
        (
            delta,
            r#"{"type":"response.custom_tool_call_input.delta","item_id":"ctc_1","output_index":2,"delta":"a"}"#,
        ),
        (
            done,
            r#"{"type":"response.custom_tool_call_input.done","item_id":"ctc_1","output_index":2,"input":"ab"}"#,
        ),
    ] {
        check(&event, text);
        assert!(text.contains(event.name()));
    }
}

#[test]
fn failures() {
    let error = Failure {
        message: "no".to_owned(),
        class: "invalid_request_error".to_owned(),
        param: Some("stop".to_owned()),
        code: None,
    };
    check(
        &FailureBody { error },
        r#"{"error":{"message":"no","type":"invalid_request_error","param":"stop","code":null}}"#,
    );
}
