//! Schemas of requests: referenced documents, limits, and the description in the prompt.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use formwork_grammar::{Limits, Remotes};
use formwork_server::{App, ServerOptions};
use serde_json::{Value, json};

use crate::fixture::{Answer, app, chat, request, says, says_in, send, served, start};

fn with(options: ServerOptions) -> App {
    App::new(vec![served("m", start(says_in(4000, "7")))], options).unwrap()
}

fn format(schema: &Value) -> Value {
    json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}})
}

fn message(answer: &Answer) -> String {
    answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn schemas_refer_to_the_documents_of_the_server() {
    let day = json!({"$id": "https://t.example/day", "const": 7});
    let schemas = Arc::new(Remotes::from([("types/day.json".to_owned(), day)]));
    let app = with(ServerOptions { schemas, ..ServerOptions::default() });
    for reference in ["types/day.json", "https://t.example/day"] {
        let answer = chat(&app, &format(&json!({"$ref": reference}))).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        assert_eq!(answer.json()["choices"][0]["message"]["content"], "7");
    }
    let answer = chat(&app, &format(&json!({"$ref": "other.json"}))).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        message(&answer),
        "#/$ref: `$ref`: `other.json` is in another document, `other.json`, which was not given"
    );
}

#[tokio::test]
async fn a_schema_over_a_limit_is_refused_with_its_place() {
    let grammar_limits = Limits { nesting: 3, ..ServerOptions::default().grammar_limits };
    let app = with(ServerOptions { grammar_limits, ..ServerOptions::default() });
    let nested = |levels| (0..levels).fold(json!({"const": 7}), |inner, _| json!({"allOf": [inner]}));
    assert_eq!(chat(&app, &format(&nested(2))).await.status, StatusCode::OK);
    let answer = chat(&app, &format(&nested(4))).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(message(&answer).starts_with("#/allOf/0/allOf/0"), "{}", answer.text);
    assert!(message(&answer).ends_with("nested deeper than the limit of 3"), "{}", answer.text);
}

#[tokio::test]
async fn reports_nesting_as_a_limit_not_as_syntax() {
    let app = app(says("null"));
    let nested = |levels: usize| {
        let schema = format!("{}true{}", "{\"items\": ".repeat(levels), "}".repeat(levels));
        format!(
            "{{\"model\": \"m\", \"schema_in_prompt\": false, \"messages\": [{{\"role\": \"user\", \"content\": \"a\"}}], \
             \"response_format\": {{\"type\": \"json_schema\", \"json_schema\": {{\"name\": \"a\", \"schema\": {schema}}}}}}}"
        )
    };
    let post = |body: String| send(&app, request(Method::POST, "/v1/chat/completions", body));
    let answer = post(nested(200)).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let answer = post(nested(300)).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(message(&answer).ends_with("nested deeper than the limit of 256"), "{}", answer.text);
    let answer = post(nested(100_000)).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(message(&answer).starts_with("the body is nested deeper than the limit of 1024 levels"));
}

#[tokio::test]
async fn a_too_long_description_names_the_field_that_omits_it() {
    let app = app(says("\"a\""));
    let schema = json!({"enum": ["a", "b".repeat(500)]});
    let answer = chat(&app, &format(&schema)).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(answer.json()["error"]["code"], "context_length_exceeded");
    let expected = "the description of the response format takes 578 prompt tokens; set \
                    `schema_in_prompt: false` to omit it";
    assert!(message(&answer).ends_with(expected), "{}", answer.text);
    let mut fields = format(&schema);
    fields["schema_in_prompt"] = false.into();
    assert_eq!(chat(&app, &fields).await.status, StatusCode::OK);
}
