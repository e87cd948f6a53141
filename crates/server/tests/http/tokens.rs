use std::sync::Arc;

use axum::http::{Method, StatusCode};
use formwork_lm::{ChatInput, ChatTemplate, TemplateError};
use formwork_server::{App, ServedModel, ServerOptions};
use serde_json::{Value, json};

use crate::fixture::{Answer, CONTEXT, Native, app, request, says, send, served, start};

async fn post(app: &App, path: &str, body: &Value) -> Answer {
    send(app, request(Method::POST, path, body.to_string())).await
}

async fn ok(app: &App, path: &str, body: &Value) -> Value {
    let answer = post(app, path, body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.json()
}

/// Returns the status, and `param` with the message of an error.
async fn refused(app: &App, path: &str, body: &Value) -> (StatusCode, String) {
    let answer = post(app, path, body).await;
    let error = &answer.json()["error"];
    let param = error["param"].as_str().unwrap_or("null");
    (answer.status, format!("{param}: {}", error["message"].as_str().unwrap()))
}

#[tokio::test]
async fn tokens_in_the_form_of_llama_cpp() {
    let app = app(says(""));
    let plain = ok(&app, "/tokenize", &json!({"content": "hi"})).await;
    assert_eq!(
        plain,
        json!({"count": 2, "max_model_len": CONTEXT, "tokens": [104, 105], "token_strs": null})
    );
    // A piece that is not valid UTF-8 is listed as bytes.
    let pieces = ok(&app, "/tokenize", &json!({"content": "aé", "with_pieces": true})).await;
    let expected =
        json!([{"id": 97, "piece": "a"}, {"id": 195, "piece": [195]}, {"id": 169, "piece": [169]}]);
    assert_eq!(pieces["tokens"], expected);
    let back = ok(&app, "/detokenize", &json!({"tokens": [97, 195, 169, 256]})).await;
    assert_eq!(back, json!({"content": "aé</s>", "prompt": "aé</s>"}));
}

#[tokio::test]
async fn tokens_in_the_form_of_vllm() {
    let app = app(says(""));
    let body = json!({"model": "m", "prompt": "hi", "add_special_tokens": false, "return_token_strs": true});
    let answer = ok(&app, "/tokenize", &body).await;
    assert_eq!(answer["tokens"], json!([104, 105]));
    assert_eq!(answer["token_strs"], json!(["h", "i"]));
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    let answer = ok(&app, "/tokenize", &chat).await;
    assert_eq!(answer["count"], "user: Hi\nassistant:".len());
}

/// A template that renders its input literally.
struct Shows;

impl ChatTemplate for Shows {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let messages: Vec<_> =
            input.messages.iter().map(|message| format!("<{}>{}", message.role, message.text())).collect();
        let opening = if input.add_generation_prompt { "<assistant>" } else { "" };
        Ok(format!("{}{}{opening}", serde_json::to_string(&input.variables).unwrap(), messages.concat()))
    }
}

#[tokio::test]
async fn the_prompt_of_a_conversation() {
    let model = ServedModel { template: Arc::new(Shows), ..served("m", start(says(""))) };
    let app = App::new(vec![model], ServerOptions::default()).unwrap();
    let messages = json!([{"role": "user", "content": "Hi"}]);
    let prompt = ok(&app, "/apply-template", &json!({"messages": messages})).await;
    assert_eq!(prompt, json!({"prompt": "{}<user>Hi<assistant>"}));
    let body = json!({
        "model": "m",
        "messages": messages,
        "add_generation_prompt": false,
        "chat_template_kwargs": {"thinking": true},
    });
    assert_eq!(ok(&app, "/apply-template", &body).await, json!({"prompt": "{\"thinking\":true}<user>Hi"}));
    // The prompt contains everything that a chat request would add.
    let body = json!({"messages": messages, "response_format": {"type": "json_object"}});
    let prompt = ok(&app, "/apply-template", &body).await;
    assert_eq!(prompt, json!({"prompt": "{}<system>Answer with one JSON object only.<user>Hi<assistant>"}));
}

#[tokio::test]
async fn tools_are_in_the_prompt_of_a_conversation() {
    let tool = json!({"type": "function", "function": {"name": "add", "description": "A sum.", "parameters": {"type": "object"}}});
    let odd = json!({"type": "function", "function": {"name": "odd"}});
    let body = json!({"messages": [{"role": "user", "content": "Hi"}], "tools": [tool, odd]});
    // This template does not support tools, so the system message describes them.
    let model = ServedModel { template: Arc::new(Shows), ..served("m", start(says(""))) };
    let app = App::new(vec![model], ServerOptions::default()).unwrap();
    let of = async |fields: Value| {
        let mut body = body.clone();
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        ok(&app, "/apply-template", &body).await["prompt"].as_str().unwrap().to_owned()
    };
    let both = of(json!({})).await;
    assert!(both.starts_with("{}<system>You can call these functions:\n<tools>\n"), "{both}");
    assert!(
        both.contains(&tool.to_string()) && both.contains("\"odd\"") && both.ends_with("<user>Hi<assistant>")
    );
    assert_eq!(of(json!({"tool_choice": "none"})).await, "{}<user>Hi<assistant>");
    let one = of(json!({"tool_choice": {"type": "function", "function": {"name": "add"}}})).await;
    assert!(one.contains("\"add\"") && !one.contains("\"odd\""), "{one}");
    // A template that supports tools gets them as a variable.
    let knows = ServedModel { template: Arc::new(Native), ..served("m", start(says(""))) };
    let app = App::new(vec![knows], ServerOptions::default()).unwrap();
    let prompt = ok(
        &app,
        "/apply-template",
        &json!({"messages": [{"role": "user", "content": "Hi"}], "tools": [tool]}),
    )
    .await;
    // Templates read `properties` without a check.
    let mut declared = tool;
    declared["function"]["parameters"]["properties"] = json!({});
    assert_eq!(prompt, json!({"prompt": format!("tools:[{declared}]\nuser:Hi\nassistant:")}));
}

#[tokio::test]
async fn rejects_invalid_requests() {
    let app = app(says(""));
    let cases = [
        ("/tokenize", json!({"content": 1}), "content: `content`: expected a string, found a number"),
        (
            "/tokenize",
            json!({"content": "a", "prompt": "b"}),
            "prompt: `prompt`: cannot be combined with `content`",
        ),
        (
            "/tokenize",
            json!({"content": "a", "output_format": "pieces"}),
            "output_format: `output_format`: unrecognized request argument, whose name is like that of a constraint; it would not be enforced",
        ),
        ("/tokenize", json!({}), "messages: `messages`: this field is required"),
        ("/detokenize", json!({}), "tokens: `tokens`: this field is required"),
        (
            "/detokenize",
            json!({"tokens": [1, -1]}),
            "tokens[1]: `tokens[1]`: -1 is out of range; expected at least 0",
        ),
        (
            "/detokenize",
            json!({"tokens": [1, 257]}),
            "tokens[1]: `tokens[1]`: token 257 is out of range (vocabulary size 257)",
        ),
        (
            "/detokenize",
            json!({"tokens": [5_000_000_000_u64]}),
            "tokens[0]: `tokens[0]`: 5000000000 is out of range; expected 0..=4294967295",
        ),
        ("/apply-template", json!({"messages": []}), "messages: `messages`: must not be empty"),
        (
            "/apply-template",
            json!({"messages": [{"role": "user", "content": "raise"}]}),
            "messages: chat template: roles must alternate (line 3)",
        ),
    ];
    for (path, body, expected) in cases {
        assert_eq!(refused(&app, path, &body).await, (StatusCode::BAD_REQUEST, expected.to_owned()));
    }
    let unknown = refused(&app, "/tokenize", &json!({"model": "x", "content": "a"})).await;
    assert_eq!(unknown.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn requires_a_model_name_if_several_are_served() {
    let models = vec![served("m", start(says(""))), served("n", start(says("")))];
    let app = App::new(models, ServerOptions::default()).unwrap();
    let body = json!({"content": "a"});
    assert_eq!(
        refused(&app, "/tokenize", &body).await,
        (
            StatusCode::BAD_REQUEST,
            "model: `model` is required because several models are served; expected one of m, n".to_owned()
        )
    );
    assert_eq!(ok(&app, "/tokenize", &json!({"model": "n", "content": "a"})).await["count"], 1);
}
