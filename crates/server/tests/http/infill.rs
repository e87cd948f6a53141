//! Text that a model fills in: `suffix` of completions, `/infill`, and Ollama's `suffix`.

use std::sync::{Arc, Mutex};

use axum::http::{Method, StatusCode};
use formwork_engine::{Engine, EngineOptions};
use formwork_lm::ScriptedModel;
use formwork_server::{App, ServerOptions};
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};
use serde_json::{Value, json};

use crate::fixture::{app, babbles, request, send, served};

/// Control tokens after the 256 bytes.
pub(crate) const CONTROLS: [&str; 7] = [
    "</s>",
    "<|fim_prefix|>",
    "<|fim_suffix|>",
    "<|fim_middle|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
];

/// Returns a tokenizer of bytes whose vocabulary has the control tokens.
pub(crate) fn tokenizer() -> Arc<Tokenizer> {
    let byte = |byte| Token { bytes: vec![byte], kind: TokenKind::Text };
    let control = |text: &str| Token { bytes: text.into(), kind: TokenKind::Control };
    let tokens = (0..=255).map(byte).chain(CONTROLS.map(control)).collect();
    Arc::new(Tokenizer::greedy(Vocabulary::new(tokens, vec![TokenId(256)]).unwrap()))
}

/// Spells tokens of a prompt.
fn spelt(tokens: &[TokenId]) -> String {
    let spell = |token: &TokenId| match token.index().checked_sub(256) {
        None => char::from(token.0 as u8).to_string(),
        Some(control) => CONTROLS[control].to_owned(),
    };
    tokens.iter().map(spell).collect()
}

/// Creates an app whose model writes `ab` and ends with the padding token, and the list of its prompts.
fn fills() -> (App, Arc<Mutex<Vec<String>>>) {
    let prompts: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&prompts);
    let model = ScriptedModel::new(256 + CONTROLS.len(), 400, move |tokens, row| {
        let text = spelt(tokens);
        let next = if text.ends_with("ab") {
            260
        } else if text.ends_with('a') {
            usize::from(b'b')
        } else {
            seen.lock().unwrap().push(text);
            usize::from(b'a')
        };
        row[next] = 1000.0;
    });
    let engine = Engine::start(Box::new(model), tokenizer(), EngineOptions::default());
    (App::new(vec![served("m", engine)], ServerOptions::default()).unwrap(), prompts)
}

async fn post(app: &App, path: &str, body: &Value) -> Value {
    let answer = send(app, request(Method::POST, path, body.to_string())).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.json()
}

#[tokio::test]
async fn a_completion_ends_before_its_suffix() {
    let (app, prompts) = fills();
    let answer =
        post(&app, "/v1/completions", &json!({"prompt": "x(", "suffix": ")<|fim_pad|>", "max_tokens": 9}))
            .await;
    assert_eq!(
        (&answer["choices"][0]["text"], &answer["choices"][0]["finish_reason"]),
        (&json!("ab"), &json!("stop"))
    );
    let prompt = prompts.lock().unwrap().pop().unwrap();
    // Spellings of control tokens in the texts are bytes here, so they are found as they are.
    assert_eq!(prompt, "<|fim_prefix|>x(<|fim_suffix|>)<|fim_pad|><|fim_middle|>");
    let answer =
        post(&app, "/api/generate", &json!({"model": "m", "prompt": "y", "suffix": ")", "stream": false}))
            .await;
    assert_eq!(answer["response"], "ab");
    assert_eq!(prompts.lock().unwrap().pop().unwrap(), "<|fim_prefix|>y<|fim_suffix|>)<|fim_middle|>");
}

#[tokio::test]
async fn files_come_before_the_text() {
    let (app, prompts) = fills();
    let body = json!({"input_prefix": "p\n", "input_suffix": "\ns", "prompt": "z", "n_predict": 8,
        "input_extra": [{"filename": "a.rs", "text": "one\n"}], "samplers": ["top_k", "infill"], "t_max_predict_ms": 500});
    let answer = post(&app, "/infill", &body).await;
    assert_eq!(
        (&answer["content"], &answer["stop"], &answer["stop_type"]),
        (&json!("ab"), &json!(true), &json!("eos"))
    );
    assert_eq!((&answer["tokens_predicted"], &answer["timings"]["predicted_n"]), (&json!(2), &json!(2)));
    let expected = "<|repo_name|>project\n<|file_sep|>a.rs\none\n<|file_sep|>file\n<|fim_prefix|>p\n<|fim_suffix|>\ns<|fim_middle|>z";
    assert_eq!(prompts.lock().unwrap().pop().unwrap(), expected);
    let mut streamed = body;
    streamed["stream"] = true.into();
    let answer = send(&app, request(Method::POST, "/infill", streamed.to_string())).await;
    let events = answer.text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap());
    let events: Vec<Value> = events.map(|event| serde_json::from_str(event).unwrap()).collect();
    let text: String = events.iter().map(|event| event["content"].as_str().unwrap()).collect();
    assert_eq!((text.as_str(), &events.last().unwrap()["stop"]), ("ab", &json!(true)));
}

#[tokio::test]
async fn a_constraint_covers_the_beginning_of_the_gap() {
    let (app, _) = fills();
    let body = json!({"prompt": "12", "guided_regex": "[0-9]{3}ab?"});
    let answer = post(&app, "/infill", &body).await;
    let text = answer["content"].as_str().unwrap();
    assert!(text.len() == 3 && text.ends_with("ab"), "{text}");
    let limited = post(&app, "/infill", &json!({"n_predict": 1})).await;
    assert_eq!((&limited["content"], &limited["stop_type"]), (&json!("a"), &json!("limit")));
}

#[tokio::test]
async fn a_vocabulary_without_the_tokens_is_an_error() {
    let app = app(babbles(100));
    for (path, body, param) in [
        ("/v1/completions", json!({"prompt": "a", "suffix": "b"}), "suffix"),
        ("/infill", json!({"input_prefix": "a"}), "input_suffix"),
    ] {
        let answer = send(&app, request(Method::POST, path, body.to_string())).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert_eq!(answer.json()["error"]["param"], param);
    }
}
