//! The `OpenAPI` document matches the server's behaviour.

use std::collections::BTreeSet;

use axum::http::{Method, StatusCode};
use formwork_engine::{Engine, EngineOptions};
use formwork_lm::{Abilities, Pooling, Ranking, ScriptedModel};
use formwork_server::{App, ServedModel, ServerOptions};
use serde_json::Value;

use crate::embeddings::Purposeful;
use crate::fixture::{get, request, send, served};
use crate::infill;

fn app() -> App {
    // The examples name these models.
    let aliases = ["smollm2-135m-instruct", "qwen3-reranker-0.6b"].map(str::to_owned).to_vec();
    let ranking = Some(Ranking { pooling: Pooling::Mean, template: None });
    // One of the routes needs the tokens of this vocabulary.
    let model = ScriptedModel::new(256 + infill::CONTROLS.len(), 4000, |_, _| {});
    let model = Purposeful(model, Abilities { ranking, ..Abilities::default() });
    let engine = Engine::start(Box::new(model), infill::tokenizer(), EngineOptions::default());
    let model = ServedModel { aliases, ..served("m", engine) };
    App::new(vec![model], ServerOptions::default()).unwrap()
}

async fn document(app: &App) -> Value {
    let answer = get(app, "/openapi.json").await;
    assert_eq!(answer.status, StatusCode::OK);
    answer.json()
}

/// Returns the method, path and operation of each entry in the document.
fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, methods): (&String, &'_ Value)| -> Vec<_> {
        let methods = methods.as_object().unwrap();
        methods.keys().map(|method| (method.clone(), path.clone())).collect()
    };
    let named = paths.iter().flat_map(of);
    named
        .map(|(method, path)| {
            let operation = &document["paths"][&path][&method];
            (method, path, operation)
        })
        .collect()
}

#[tokio::test]
async fn every_route_is_described() {
    // A router does not list its routes, so the test extracts them from the source.
    let source = include_str!("../../src/serve.rs");
    let routes = source.split(".route(\"").skip(1).map(|rest| {
        let (path, rest) = rest.split_once("\", ").unwrap();
        let (method, _) = rest.split_once('(').unwrap();
        (method.to_owned(), path.replace("{*", "{"))
    });
    let routes = routes.collect::<BTreeSet<_>>();
    let app = app();
    let document = document(&app).await;
    let described: BTreeSet<_> =
        operations(&document).into_iter().map(|(method, path, _)| (method, path)).collect();
    assert!(routes.len() > 10);
    assert_eq!(described, routes);
}

/// Sends a request, and returns the id in the answer.
async fn id_of(app: &App, path: &str, body: &str) -> String {
    let answer = send(app, request(Method::POST, path, body.to_owned())).await;
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// Replaces the parameters of a path by ids that exist.
async fn with_ids(app: &App, path: &str) -> String {
    if path.starts_with("/v1/responses/{id}") {
        let body = r#"{"input": "Hi", "max_output_tokens": 1}"#;
        return path.replace("{id}", &id_of(app, "/v1/responses", body).await);
    }
    if path.starts_with("/v1/conversations/{id}") {
        let body = r#"{"items": [{"role": "user", "content": "Hi"}]}"#;
        let id = id_of(app, "/v1/conversations", body).await;
        let items = get(app, &format!("/v1/conversations/{id}/items")).await.json();
        return path.replace("{id}", &id).replace("{item_id}", items["first_id"].as_str().unwrap());
    }
    path.replace("{id}", "smollm2-135m-instruct").replace("{name}", "style.css")
}

#[tokio::test]
async fn every_example_is_accepted() {
    let app = app();
    let document = document(&app).await;
    let mut count = 0;
    for (method, path, operation) in operations(&document) {
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        let path = with_ids(&app, &path).await;
        let examples = &operation["requestBody"]["content"]["application/json"]["examples"];
        let bodies: Vec<String> = match examples.as_object() {
            Some(examples) => examples.values().map(|example| example["value"].to_string()).collect(),
            None => vec![String::new()],
        };
        let is_answered = operation["responses"].get("200").is_some();
        assert!(method != Method::POST || examples.is_object() || !is_answered, "{path} has no example");
        for body in bodies {
            let answer = send(&app, request(method.clone(), &path, body.clone())).await;
            if !is_answered {
                assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}: {}", answer.text);
                continue;
            }
            assert_eq!(answer.status, StatusCode::OK, "{path} {body}: {}", answer.text);
            let given = answer.headers["content-type"].to_str().unwrap();
            let given = given.split(';').next().unwrap();
            assert!(operation["responses"]["200"]["content"].get(given).is_some(), "{path}: {given}");
            count += 1;
        }
    }
    assert!(count > 15);
}

#[tokio::test]
async fn every_reference_resolves() {
    fn check(value: &Value, document: &Value) {
        if let Some(target) = value.get("$ref").and_then(Value::as_str) {
            assert!(document.pointer(target.trim_start_matches('#')).is_some(), "{target}");
        }
        match value {
            Value::Object(members) => {
                assert!(!members.contains_key("x-fields"));
                members.values().for_each(|member| check(member, document));
            }
            Value::Array(items) => items.iter().for_each(|item| check(item, document)),
            _ => {}
        }
    }
    let document = document(&app()).await;
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(document["components"]["schemas"]["ChatRequest"]["properties"]["guided_regex"].is_object());
    check(&document, &document);
}
