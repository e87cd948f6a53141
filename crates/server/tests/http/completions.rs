//! `/v1/completions`: raw prompts, with whole and streamed answers.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use formwork_engine::{Engine, EngineOptions};
use formwork_lm::ScriptedModel;
use formwork_server::{App, ServerOptions};
use formwork_vocab::Tokenizer;
use insta::assert_snapshot;
use serde_json::{Map, Value, json};

use crate::fixture::{Answer, CONTEXT, END, app, babbles, redact_fingerprint, request, send, served};

/// Creates a model that continues with `text` after the last `>` and then ends.
fn continues(text: &'static str) -> App {
    app(ScriptedModel::new(END + 1, CONTEXT, move |tokens, row| {
        let start = tokens.iter().rposition(|token| token.index() == usize::from(b'>')).unwrap() + 1;
        let next = text.as_bytes().get(tokens.len() - start).map_or(END, |&byte| byte.into());
        row[next] = 1000.0;
    }))
}

async fn complete(app: &App, fields: &Value) -> Answer {
    let mut body = json!({"model": "m", "prompt": "say>"});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    send(app, request(Method::POST, "/v1/completions", body.to_string())).await
}

async fn whole(app: &App, fields: &Value) -> Value {
    let answer = complete(app, fields).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    redacted(&answer.text)
}

/// Removes values that vary between calls.
fn redacted(text: &str) -> Value {
    let mut value: Value = serde_json::from_str(text).unwrap();
    if let Some(id) = value.get("id") {
        let id = id.as_str().unwrap();
        assert!(id.starts_with("cmpl-") && id.len() == 37, "{id}");
        value["id"] = "ID".into();
        value["created"] = 0.into();
    }
    redact_fingerprint(&mut value);
    value
}

/// Returns the data of a stream's events.
async fn stream(app: &App, fields: &Value) -> Vec<Value> {
    let mut fields = fields.clone();
    fields["stream"] = true.into();
    let answer = complete(app, &fields).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let data = answer.text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap());
    data.map(|data| if data == "[DONE]" { data.into() } else { redacted(data) }).collect()
}

fn lines(events: &[Value]) -> String {
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    lines.join("\n")
}

fn texts(answer: &Value) -> Vec<&str> {
    let choices = answer["choices"].as_array().unwrap().iter();
    choices
        .enumerate()
        .map(|(index, choice)| {
            assert_eq!(choice["index"], index);
            choice["text"].as_str().unwrap()
        })
        .collect()
}

/// Returns `param`, `code` and the message of an error.
async fn refused(app: &App, fields: &Value) -> String {
    let answer = complete(app, fields).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);
    let error = &answer.json()["error"];
    assert_eq!(error["type"], "invalid_request_error");
    format!("{} {}: {}", error["param"], error["code"], error["message"].as_str().unwrap())
}

#[tokio::test]
async fn an_answer_and_its_pieces() {
    let app = continues("Hé!");
    assert_snapshot!(whole(&app, &json!({"logprobs": 1})).await, @r#"{"id":"ID","object":"text_completion","created":0,"model":"m","choices":[{"index":0,"text":"Hé!","logprobs":{"tokens":["H","�","�","!"],"token_logprobs":[0.0,0.0,0.0,0.0],"top_logprobs":[{"H":0.0},{"�":0.0},{"�":0.0},{"!":0.0}],"text_offset":[0,1,1,2]},"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":4,"total_tokens":8,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"system_fingerprint":"FINGERPRINT"}"#);
    let fields = json!({"logprobs": 1, "stream_options": {"include_usage": true}, "echo": false});
    assert_snapshot!(lines(&stream(&app, &fields).await), @r#"
    {"id":"ID","object":"text_completion","created":0,"model":"m","choices":[{"index":0,"text":"H","logprobs":{"tokens":["H"],"token_logprobs":[0.0],"top_logprobs":[{"H":0.0}],"text_offset":[0]},"finish_reason":null}],"usage":null,"system_fingerprint":"FINGERPRINT"}
    {"id":"ID","object":"text_completion","created":0,"model":"m","choices":[{"index":0,"text":"é","logprobs":{"tokens":["�","�"],"token_logprobs":[0.0,0.0],"top_logprobs":[{"�":0.0},{"�":0.0}],"text_offset":[1,1]},"finish_reason":null}],"usage":null,"system_fingerprint":"FINGERPRINT"}
    {"id":"ID","object":"text_completion","created":0,"model":"m","choices":[{"index":0,"text":"!","logprobs":{"tokens":["!"],"token_logprobs":[0.0],"top_logprobs":[{"!":0.0}],"text_offset":[2]},"finish_reason":null}],"usage":null,"system_fingerprint":"FINGERPRINT"}
    {"id":"ID","object":"text_completion","created":0,"model":"m","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}],"usage":null,"system_fingerprint":"FINGERPRINT"}
    {"id":"ID","object":"text_completion","created":0,"model":"m","choices":[],"usage":{"prompt_tokens":4,"completion_tokens":4,"total_tokens":8,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"system_fingerprint":"FINGERPRINT"}
    "[DONE]"
    "#);
    assert_snapshot!(lines(&stream(&app, &json!({"max_tokens": 1, "echo": true})).await), @r#"
    {"id":"ID","object":"text_completion","created":0,"model":"m","choices":[{"index":0,"text":"say>H","logprobs":null,"finish_reason":null}],"system_fingerprint":"FINGERPRINT"}
    {"id":"ID","object":"text_completion","created":0,"model":"m","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"length"}],"system_fingerprint":"FINGERPRINT"}
    "[DONE]"
    "#);
}

#[tokio::test]
async fn prompts_are_taken_as_they_are() {
    let app = continues("ok");
    let answer = whole(&app, &json!({"prompt": [97, END, 62], "echo": true})).await;
    assert_eq!((texts(&answer), &answer["usage"]["prompt_tokens"]), (vec!["a</s>>ok"], &json!(3)));
    // An empty prompt is rejected, because the model has no beginning-of-sequence token.
    for nothing in [json!(""), json!(["a>", ""]), json!([[97], []])] {
        assert_eq!(refused(&app, &json!({"prompt": nothing})).await, "\"prompt\" null: the prompt is empty");
    }
    assert_eq!(
        refused(&app, &json!({"prompt": "x".repeat(CONTEXT)})).await,
        "\"prompt\" \"context_length_exceeded\": this model's maximum context length is 400 tokens; the prompt has 400 tokens, and the output needs at least 1"
    );
    assert_eq!(
        refused(&app, &json!({"prompt": [1, 257]})).await,
        "\"prompt[1]\" null: `prompt[1]`: token 257 is out of range (vocabulary size 257)"
    );
}

/// Creates a tokenizer with byte tokens and two control tokens; one of these starts every text.
fn with_bos() -> Tokenizer {
    // Byte-level BPE spells bytes that are not printable as characters from U+0100 on.
    let spelling = |byte: u8| match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
        _ => char::from_u32(
            0x100 + (0..byte).filter(|b| !matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..)).count() as u32,
        )
        .unwrap(),
    };
    let vocabulary: Map<String, Value> =
        (0..=255).map(|byte| (spelling(byte).to_string(), byte.into())).collect();
    let added = |id: usize, content: &str| {
        json!({
            "id": id, "content": content, "special": true,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        })
    };
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let json = json!({
        "version": "1.0",
        "added_tokens": [added(END, "</s>"), added(END + 1, "<s>")],
        "pre_tokenizer": byte_level,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [END + 1], "tokens": ["<s>"]}},
        },
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    });
    Tokenizer::from_json(json.to_string().as_bytes()).unwrap()
}

#[tokio::test]
async fn control_tokens_in_prompts() {
    // Outputs the length of its prompt and then `;`.
    let counts = ScriptedModel::new(END + 2, CONTEXT, |tokens, row| {
        let last = tokens.last().unwrap().0 as u8;
        row[usize::from(if last.is_ascii_digit() { b';' } else { b'0' + tokens.len() as u8 })] = 1000.0;
    });
    let engine = Engine::start(Box::new(counts), Arc::new(with_bos()), EngineOptions::default());
    let app = App::new(vec![served("m", engine)], ServerOptions::default()).unwrap();
    for (prompt, text) in [
        // The spelling of a control token in a text becomes that token.
        (json!("a</s>b"), "a</s>b4;"),
        (json!("a</s"), "a</s5;"),
        // The prompt consists of the beginning-of-sequence token only.
        (json!(""), "1;"),
        // A prompt of tokens is used unchanged, without a beginning-of-sequence token.
        (json!([97, END, 98]), "a</s>b3;"),
    ] {
        let answer = whole(&app, &json!({"prompt": prompt, "echo": true, "max_tokens": 2})).await;
        assert_eq!(texts(&answer), [text]);
    }
}

#[tokio::test]
async fn without_a_limit_free_text_has_sixteen_tokens() {
    let app = continues("0123456789012345678901234567890");
    let answer = whole(&app, &json!({})).await;
    assert_eq!(
        (texts(&answer), &answer["choices"][0]["finish_reason"]),
        (vec!["0123456789012345"], &json!("length"))
    );
    // A constrained output has no default limit and ends where its grammar does.
    let answer = whole(&app, &json!({"guided_regex": "[0-9]{20}"})).await;
    assert_eq!(
        (texts(&answer), &answer["choices"][0]["finish_reason"]),
        (vec!["01234567890123456789"], &json!("stop"))
    );
}

#[tokio::test]
async fn each_prompt_has_its_outputs() {
    let app = continues("!");
    let fields = json!({"prompt": ["a>", "bc>"], "n": 2, "echo": true});
    let answer = whole(&app, &fields).await;
    assert_eq!(texts(&answer), ["a>!", "a>!", "bc>!", "bc>!"]);
    // Each prompt counts once, even with several outputs.
    assert_eq!(
        (&answer["usage"]["prompt_tokens"], &answer["usage"]["completion_tokens"]),
        (&json!(5), &json!(4))
    );
    let mut fields = fields;
    fields["stream_options"] = json!({"include_usage": true});
    let events = stream(&app, &fields).await;
    assert_eq!(joined(&events, 4).iter().map(|(text, ..)| text.as_str()).collect::<Vec<_>>(), texts(&answer));
    let [.., usage, done] = &events[..] else { panic!("{events:?}") };
    let mut expected = answer["usage"].clone();
    expected["prompt_tokens_details"] = usage["usage"]["prompt_tokens_details"].clone();
    assert_eq!((&usage["usage"], done), (&expected, &json!("[DONE]")));
}

/// Joins the events of each choice: its text, its log-probability lists, and its finish reason.
fn joined(events: &[Value], count: usize) -> Vec<(String, Value, Value)> {
    let mut whole = vec![(String::new(), Value::Null, Value::Null); count];
    for choice in events.iter().filter_map(|event| event.get("choices")?.get(0)) {
        let (text, logprobs, reason) = &mut whole[choice["index"].as_u64().unwrap() as usize];
        assert!(reason.is_null(), "{choice}");
        text.push_str(choice["text"].as_str().unwrap());
        reason.clone_from(&choice["finish_reason"]);
        let Some(lists) = choice["logprobs"].as_object() else { continue };
        for (name, list) in lists {
            let all = &mut logprobs[name];
            if all.is_null() {
                *all = json!([]);
            }
            all.as_array_mut().unwrap().extend(list.as_array().unwrap().clone());
        }
    }
    whole
}

#[tokio::test]
async fn chunks_add_up_to_the_whole() {
    let app = app(babbles(CONTEXT));
    for seed in 0..40 {
        let fields = json!({
            "n": 2, "seed": seed, "logprobs": seed % 3, "max_tokens": 12, "guided_regex": "[a-cé]*",
            "stop": ["aa", "éb"], "on_budget": if seed % 2 == 0 { "close" } else { "length" },
        });
        let answer = whole(&app, &fields).await;
        let choices = answer["choices"].as_array().unwrap().iter();
        let expected: Vec<_> = choices
            .map(|choice| {
                let text = choice["text"].as_str().unwrap().to_owned();
                // Without any tokens, no event has log-probabilities.
                let logprobs = Some(&choice["logprobs"]).filter(|lists| lists["tokens"] != json!([]));
                (text, logprobs.cloned().unwrap_or_default(), choice["finish_reason"].clone())
            })
            .collect();
        assert_eq!(joined(&stream(&app, &fields).await, 2), expected, "{fields}");
    }
}

#[tokio::test]
async fn best_of_returns_the_likeliest() {
    let likes_early_letters = ScriptedModel::new(END + 1, CONTEXT, |_, row| {
        for (place, letter) in (b'a'..=b'h').enumerate() {
            row[usize::from(letter)] = 20.0 - 0.3 * place as f32;
        }
    });
    let app = app(likes_early_letters);
    let asked = json!({"seed": 7, "max_tokens": 2, "n": 12, "logprobs": 0});
    let all = whole(&app, &asked).await;
    let likelihood = |choice: &Value| {
        let logprobs = choice["logprobs"]["token_logprobs"].as_array().unwrap().iter();
        logprobs.map(|logprob| logprob.as_f64().unwrap()).sum::<f64>()
    };
    let mut sorted = all["choices"].as_array().unwrap().clone();
    sorted.sort_by(|a, b| likelihood(b).total_cmp(&likelihood(a)));
    let expected: Vec<&str> = sorted[..3].iter().map(|choice| choice["text"].as_str().unwrap()).collect();
    let best = whole(&app, &json!({"seed": 7, "max_tokens": 2, "n": 3, "best_of": 12})).await;
    assert_eq!(texts(&best), expected);
    assert!(best["choices"][0]["logprobs"].is_null());
    // The usage also counts outputs that were not selected.
    assert_eq!(best["usage"]["completion_tokens"], 24);
}

#[tokio::test]
async fn rejects_fields_that_need_a_conversation() {
    let app = continues("");
    assert_eq!(
        refused(&app, &json!({"reasoning_budget": 5})).await,
        "\"reasoning_budget\" null: `reasoning_budget`: only null is supported here"
    );
    assert_eq!(
        refused(&app, &json!({"tools": [{}]})).await,
        "\"tools\" null: `tools`: only [] is supported here; send it to `/v1/chat/completions`"
    );
}

/// Checks the log-probabilities of an echoed prompt: whole, streamed, and without an output.
#[tokio::test]
async fn an_echo_has_log_probabilities() {
    let app = app(ScriptedModel::new(END + 1, CONTEXT, |tokens, row| {
        row[tokens.len() % 200] = 3.0;
    }));
    // A token of the script has the logit 3, and the 256 others 0.
    let likely = 3.0 - (3f64.exp() + 256.0).ln();
    let fields =
        json!({"prompt": "h\u{e9}>", "echo": true, "logprobs": 1, "max_tokens": 2, "temperature": 0});
    let answer = whole(&app, &fields).await;
    let choice = &answer["choices"][0];
    assert_eq!(choice["text"], "h\u{e9}>\u{4}\u{5}");
    let lists = &choice["logprobs"];
    assert_eq!(lists["text_offset"], json!([0, 1, 1, 2, 3, 4]));
    assert_eq!((&lists["token_logprobs"][0], &lists["top_logprobs"][0]), (&Value::Null, &Value::Null));
    for (index, expected) in [(1, likely - 3.0), (3, likely - 3.0), (4, likely), (5, likely)] {
        assert!((lists["token_logprobs"][index].as_f64().unwrap() - expected).abs() < 1e-5, "{lists}");
    }
    assert_eq!(lists["top_logprobs"][3].as_object().unwrap().len(), 2);
    let mut joined = json!({"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []});
    for event in stream(&app, &fields).await.iter().filter(|event| event.is_object()) {
        for (name, list) in event["choices"][0]["logprobs"].as_object().into_iter().flatten() {
            joined[name].as_array_mut().unwrap().extend(list.as_array().unwrap().iter().cloned());
        }
    }
    assert_eq!(&joined, lists);
    let mut none = fields;
    none["max_tokens"] = 0.into();
    none["prompt"] = json!([[104, 62], [1]]);
    let answer = whole(&app, &none).await;
    assert_eq!(
        (&answer["choices"][0]["text"], &answer["choices"][0]["finish_reason"]),
        (&json!("h>"), &json!("length"))
    );
    assert_eq!(answer["choices"][0]["logprobs"]["tokens"], json!(["h", ">"]));
    assert_eq!(answer["choices"][1]["logprobs"]["token_logprobs"], json!([null]));
    assert_eq!(answer["usage"]["completion_tokens"], 0);
    none["logprobs"] = Value::Null;
    assert_eq!(texts(&whole(&app, &none).await), ["h>", "\u{1}"]);
    assert_eq!(
        refused(&app, &json!({"max_tokens": 0})).await,
        "\"max_tokens\" null: `max_tokens`: requires `echo`"
    );
}

#[tokio::test]
async fn the_number_of_reported_log_probabilities_is_bounded() {
    let app = app(babbles(CONTEXT));
    let prompts = vec!["a".repeat(300); 128];
    let fields = json!({"prompt": prompts, "echo": true, "logprobs": 20, "n": 2, "max_tokens": 1});
    let refused = refused(&app, &fields).await;
    assert!(
        refused.starts_with("\"logprobs\" null: 1058400 log-probabilities exceed the limit of 1048576"),
        "{refused}"
    );
    let fields = json!({"echo": true, "max_tokens": 0, "max_completion_tokens": 5});
    assert!(complete(&app, &fields).await.text.contains("`max_completion_tokens`: cannot be combined"));
}
