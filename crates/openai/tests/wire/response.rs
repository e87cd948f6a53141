use formwork_openai::{
    AssistantMessage, ChatChoice, ChatChunk, ChatCompletion, ChunkChoice, ChunkUsage, Delta, Failure,
    FailureBody, FinishReason, Usage,
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
    ChunkChoice { index: 0, delta, logprobs: None, finish_reason, closed_by_budget: false }
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
