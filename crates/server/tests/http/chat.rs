use std::sync::Arc;

use axum::http::{Method, StatusCode};
use formwork_lm::ScriptedModel;
use formwork_server::{App, ServedModel, ServerOptions};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::decisions::Thinking;
use crate::fixture::{
    CONTEXT, END, FailsAfter, Lines, app, ask, babbles, chat, get, redact, request, says, says_in, send,
    served, start,
};

#[tokio::test]
async fn a_whole_answer() {
    let answer = chat(&app(says("Hé!")), &json!({})).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.headers["content-type"], "application/json");
    assert!(answer.headers["x-request-id"].to_str().unwrap().starts_with("req-"));
    assert_snapshot!(answer.pretty(), @r#"
    {
      "id": "ID",
      "object": "chat.completion",
      "created": 0,
      "model": "m",
      "choices": [
        {
          "index": 0,
          "message": {
            "role": "assistant",
            "content": "Hé!",
            "refusal": null
          },
          "logprobs": null,
          "finish_reason": "stop"
        }
      ],
      "usage": {
        "prompt_tokens": 19,
        "completion_tokens": 4,
        "total_tokens": 23,
        "prompt_tokens_details": {
          "cached_tokens": 0
        },
        "completion_tokens_details": {
          "reasoning_tokens": 0
        }
      },
      "system_fingerprint": "FINGERPRINT"
    }
    "#);
}

/// Returns the events of a stream as on the wire, with values that vary between calls removed.
async fn stream(app: &App, fields: &Value) -> String {
    let answer = chat(app, fields).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    events(&answer.text)
}

fn events(text: &str) -> String {
    let mut ids = Vec::new();
    let mut lines = Vec::new();
    for event in text.split_terminator("\n\n") {
        let data = event.strip_prefix("data: ").unwrap();
        if data == "[DONE]" {
            lines.push(data.to_owned());
            continue;
        }
        let mut data: Value = serde_json::from_str(data).unwrap();
        ids.push((data["id"].clone(), data["created"].clone()));
        redact(&mut data);
        lines.push(data.to_string());
    }
    ids.retain(|(id, _)| !id.is_null());
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    lines.join("\n")
}

#[tokio::test]
async fn a_stream() {
    let app = app(says("Hé!"));
    assert_snapshot!(stream(&app, &json!({"stream": true})).await, @r#"
    {"id":"ID","object":"chat.completion.chunk","created":0,"model":"m","system_fingerprint":"FINGERPRINT","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}
    {"id":"ID","object":"chat.completion.chunk","created":0,"model":"m","system_fingerprint":"FINGERPRINT","choices":[{"index":0,"delta":{"content":"H"},"logprobs":null,"finish_reason":null}]}
    {"id":"ID","object":"chat.completion.chunk","created":0,"model":"m","system_fingerprint":"FINGERPRINT","choices":[{"index":0,"delta":{"content":"é"},"logprobs":null,"finish_reason":null}]}
    {"id":"ID","object":"chat.completion.chunk","created":0,"model":"m","system_fingerprint":"FINGERPRINT","choices":[{"index":0,"delta":{"content":"!"},"logprobs":null,"finish_reason":null}]}
    {"id":"ID","object":"chat.completion.chunk","created":0,"model":"m","system_fingerprint":"FINGERPRINT","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}
    [DONE]
    "#);
}

#[tokio::test]
async fn a_stream_with_usage() {
    let fields = json!({"stream": true, "stream_options": {"include_usage": true}, "max_tokens": 1});
    assert_snapshot!(stream(&app(says("Hi")), &fields).await, @r#"
    {"id":"ID","object":"chat.completion.chunk","created":0,"model":"m","system_fingerprint":"FINGERPRINT","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}
    {"id":"ID","object":"chat.completion.chunk","created":0,"model":"m","system_fingerprint":"FINGERPRINT","choices":[{"index":0,"delta":{"content":"H"},"logprobs":null,"finish_reason":null}],"usage":null}
    {"id":"ID","object":"chat.completion.chunk","created":0,"model":"m","system_fingerprint":"FINGERPRINT","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}],"usage":null}
    {"id":"ID","object":"chat.completion.chunk","created":0,"model":"m","system_fingerprint":"FINGERPRINT","choices":[],"usage":{"prompt_tokens":19,"completion_tokens":1,"total_tokens":20,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}
    [DONE]
    "#);
}

#[tokio::test]
async fn a_stream_that_fails_ends_with_an_error_event() {
    let fails = FailsAfter { inner: says("Hello"), left: 2 };
    let text = chat(&app(fails), &json!({"stream": true})).await.text;
    assert_snapshot!(events(&text), @r#"
    {"id":"ID","object":"chat.completion.chunk","created":0,"model":"m","system_fingerprint":"FINGERPRINT","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}
    {"id":"ID","object":"chat.completion.chunk","created":0,"model":"m","system_fingerprint":"FINGERPRINT","choices":[{"index":0,"delta":{"content":"H"},"logprobs":null,"finish_reason":null}]}
    {"id":"ID","object":"chat.completion.chunk","created":0,"model":"m","system_fingerprint":"FINGERPRINT","choices":[{"index":0,"delta":{"content":"e"},"logprobs":null,"finish_reason":null}]}
    {"error":{"message":"the generation failed: the forward pass failed","type":"server_error","param":null,"code":null}}
    "#);
    let whole = chat(&app(FailsAfter { inner: says("Hello"), left: 2 }), &json!({})).await;
    assert_eq!(whole.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(whole.json()["error"]["type"], "server_error");
}

#[tokio::test]
async fn a_stream_first_reports_unenforced_schemas() {
    let odd = json!({"type": "function", "function": {"name": "odd", "parameters": {
        "properties": {"x": {"type": "string", "pattern": "(a)\\1"}}}}});
    let fields = json!({"stream": true, "tools": [odd], "on_unsupported_schema": "json_object"});
    let events = stream(&app(says_in(4000, "Hi")), &fields).await;
    let told: Vec<bool> =
        events.lines().map(|line| line.contains(r#""unsupported_schemas":["odd"]"#)).collect();
    assert_eq!(told, [true, false, false, false, false], "{events}");
}

#[tokio::test]
async fn stop_strings_and_limits() {
    let app = app(says("one, two, three"));
    let answer = chat(&app, &json!({"stop": [", th", "x"]})).await;
    assert_eq!(answer.content(), "one, two");
    assert_eq!(answer.json()["choices"][0]["finish_reason"], "stop");
    let answer = chat(&app, &json!({"max_completion_tokens": 3})).await;
    assert_eq!(answer.content(), "one");
    assert_eq!(answer.json()["choices"][0]["finish_reason"], "length");
}

#[tokio::test]
async fn the_seed_determines_the_output_and_is_random_by_default() {
    let app = app(babbles(400));
    let choice = |fields: Value| {
        let app = app.clone();
        async move {
            let mut body = json!({"guided_regex": "[a-z]{24}"});
            for (name, value) in fields.as_object().unwrap() {
                body[name] = value.clone();
            }
            chat(&app, &body).await.content()
        }
    };
    assert_eq!(choice(json!({"seed": 1})).await, choice(json!({"seed": 1})).await);
    assert_ne!(choice(json!({"seed": 1})).await, choice(json!({"seed": 2})).await);
    assert_ne!(choice(json!({})).await, choice(json!({})).await);
    // Greedy sampling takes the first of several equally likely tokens.
    for greedy in [json!({"temperature": 0}), json!({"top_k": 1}), json!({"top_p": 0})] {
        assert_eq!(choice(greedy).await, "a".repeat(24));
    }
}

#[tokio::test]
async fn models_have_names() {
    let aliased = ServedModel { aliases: vec!["default".to_owned()], ..served("org/one", start(says("1"))) };
    let models = vec![aliased, served("two", start(says("2")))];
    let app = App::new(models, ServerOptions::default()).unwrap();
    for (asked, served, said) in
        [("org/one", "org/one", "1"), ("default", "org/one", "1"), ("two", "two", "2")]
    {
        let answer = chat(&app, &json!({"model": asked})).await;
        assert_eq!((answer.json()["model"].as_str(), answer.content().as_str()), (Some(served), said));
    }
    let entry = |name: &str| {
        let length = r#""max_model_len":400,"context_length":400,"meta":{"n_ctx":400,"n_vocab":257}"#;
        format!(r#"{{"id":"{name}","object":"model","created":7,"owned_by":"formwork",{length}}}"#)
    };
    let list = ["org/one", "default", "two"].map(entry).join(",");
    assert_eq!(get(&app, "/v1/models").await.text, format!(r#"{{"object":"list","data":[{list}]}}"#));
    let one = entry("org/one");
    assert_eq!(get(&app, "/v1/models/org/one").await.text, one);
    assert_eq!(get(&app, "/v1/models/org%2Fone").await.text, one);
    assert_eq!(get(&app, "/v1/models/three").await.status, StatusCode::NOT_FOUND);
    assert_eq!(get(&app, "/health").await.text, r#"{"status":"ok"}"#);
}

#[test]
fn apps_need_models_with_names_of_their_own() {
    let error = |models| App::new(models, ServerOptions::default()).err().map(|error| error.to_string());
    assert_eq!(error(vec![]).as_deref(), Some("no models to serve"));
    let alias = ServedModel { aliases: vec!["b".to_owned()], ..served("a", start(says(""))) };
    let models = vec![alias, served("b", start(says("")))];
    assert_eq!(error(models).as_deref(), Some("duplicate model name `b`"));
}

#[tokio::test]
async fn the_prompt_has_the_conversation_the_format_and_the_variables() {
    let template = Arc::new(Lines::default());
    let model = ServedModel { template: template.clone(), ..served("m", start(babbles(2000))) };
    let app = App::new(vec![model], ServerOptions::default()).unwrap();
    let mut prompts = Vec::new();
    for fields in [
        json!({"messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}),
        json!({"chat_template_kwargs": {"thinking": false}, "guided_choice": ["a", "b"], "schema_in_prompt": false}),
        json!({"grammar": "root ::= \"a\""}),
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": [1]}}}}),
    ] {
        let mut body = fields;
        body["max_tokens"] = 5.into();
        assert_eq!(chat(&app, &body).await.status, StatusCode::OK);
        prompts.push(template.last.lock().unwrap().clone());
    }
    assert_snapshot!(prompts.join("\n---\n"), @r#"
    system: Be brief.
    user: Hi
    assistant:
    ---
    thinking=false
    user: Hi
    assistant:
    ---
    system: Answer only with text that this grammar produces:
    root ::= "a"
    user: Hi
    assistant:
    ---
    system: Answer with JSON only. The JSON must match this JSON Schema:
    {"enum":[1]}
    user: Hi
    assistant:
    "#);
}

#[tokio::test]
async fn content_types() {
    let app = app(says("ok"));
    for (given, from_browser) in [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/plain", 400),
        // `curl -d` sends this type.
        ("application/x-www-form-urlencoded", 400),
    ] {
        let with = |header: Option<(&'static str, &'static str)>| {
            let mut request = request(Method::POST, "/v1/chat/completions", ask(&json!({})).to_string());
            request.headers_mut().insert("content-type", given.parse().unwrap());
            if let Some((name, value)) = header {
                request.headers_mut().insert(name, value.parse().unwrap());
            }
            send(&app, request)
        };
        assert_eq!(with(None).await.status, 200, "{given}");
        for header in [
            ("origin", "null"),
            ("origin", "https://page.example"),
            ("sec-fetch-site", "cross-site"),
            ("referer", "https://page.example/"),
        ] {
            assert_eq!(with(Some(header)).await.status, from_browser, "{given}, {header:?}");
        }
    }
}

/// Without a bias the model likes all tokens equally, and greedy sampling takes the first of equal
/// tokens.
#[tokio::test]
async fn biases_and_penalties_decide_among_equals() {
    let app = app(babbles(400));
    let cases = [
        (json!({}), "AAAA"),
        (json!({"logit_bias": {"65": 5, "66": 6}}), "BBBB"),
        (json!({"presence_penalty": 2}), "ABAA"),
        (json!({"frequency_penalty": 1}), "ABAB"),
        (json!({"presence_penalty": -1, "frequency_penalty": -1}), "AAAA"),
        // A constraint excludes tokens regardless of their bias.
        (json!({"guided_regex": "[BC]{4}", "schema_in_prompt": false}), "BBBB"),
        (json!({"guided_regex": "[CD]{4}", "logit_bias": {"67": -100}, "schema_in_prompt": false}), "DDDD"),
        (json!({"guided_regex": "C{4}", "logit_bias": {"67": -100}, "schema_in_prompt": false}), "CCCC"),
    ];
    for (mut fields, expected) in cases {
        for (name, value) in [("temperature", json!(0)), ("max_tokens", json!(4))] {
            fields[name] = value;
        }
        if fields.get("logit_bias").is_none() {
            fields["logit_bias"] = json!({"65": 5, "66": 5});
        }
        assert_eq!(chat(&app, &fields).await.content(), expected, "{fields}");
    }
}

/// The repetition penalty also counts tokens of the prompt.
#[tokio::test]
async fn repetition_looks_at_the_prompt_too() {
    let likes_h = ScriptedModel::new(END + 1, CONTEXT, |_, row| {
        row[usize::from(b'H')] = 3.0;
        row[usize::from(b'z')] = 2.0;
    });
    let app = app(likes_h);
    let fields = |penalty: f32| json!({"temperature": 0, "max_tokens": 1, "repetition_penalty": penalty});
    assert_eq!(chat(&app, &fields(1.0)).await.content(), "H");
    assert_eq!(chat(&app, &fields(1.6)).await.content(), "z");
}

#[tokio::test]
async fn thoughts_that_the_prompt_begins_are_counted_without_a_budget() {
    let engine = start(says("<think>\nHm.\n</think>\n\nHi"));
    let model = ServedModel { template: Arc::new(Thinking), ..served("m", engine) };
    let app = App::new(vec![model], ServerOptions::default()).unwrap();
    for (limit, content, expected) in [(200, "Hi", 4), (3, "", 3)] {
        let answer = chat(&app, &json!({ "max_tokens": limit })).await.json();
        assert_eq!(
            answer["choices"][0]["message"]["content"].as_str().unwrap_or_default(),
            content,
            "{answer}"
        );
        let details = &answer["usage"]["completion_tokens_details"];
        assert_eq!(details["reasoning_tokens"], expected, "{answer}");
    }
}
