//! Ollama's API: embeddings, and the lists of models.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use formwork_lm::Abilities;
use formwork_server::{App, ModelSource, ServedModel, ServerOptions};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::embeddings::{Purposeful, embeds};
use crate::fixture::{CONTEXT, Native, app, get, request, says, send, served, start};
use crate::ollama::post;

#[tokio::test]
async fn embeddings_have_length_one() {
    let app = app(embeds());
    let long = "x".repeat(CONTEXT + 1);
    let answer = post(&app, "/api/embed", &json!({"input": ["aabb", long]})).await.json();
    let vectors = answer["embeddings"].as_array().unwrap();
    for vector in vectors {
        let squares = vector.as_array().unwrap().iter().map(|x| x.as_f64().unwrap().powi(2));
        assert!((squares.sum::<f64>() - 1.0).abs() < 1e-5);
    }
    assert_eq!((vectors.len(), &answer["prompt_eval_count"]), (2, &json!(4 + CONTEXT)));
    assert!(answer["total_duration"].is_u64() && answer["load_duration"].is_u64());
    let one = post(&app, "/api/embed", &json!({"input": "aabb", "keep_alive": "5m"})).await.json();
    assert_eq!(one["embeddings"], json!([vectors[0]]));
    let older = post(&app, "/api/embeddings", &json!({"prompt": "aabb", "options": {"num_ctx": 8}})).await;
    assert_eq!(older.json(), json!({"embedding": vectors[0]}));
    assert_eq!(post(&app, "/api/embed", &json!({})).await.json()["embeddings"], json!([]));
    assert_eq!(post(&app, "/api/embeddings", &json!({"prompt": ""})).await.json(), json!({"embedding": []}));
    let refused = post(&app, "/api/embed", &json!({"input": long, "truncate": false})).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn models_are_listed_and_described() {
    let source = ModelSource {
        id: "later".to_owned(),
        aliases: Vec::new(),
        created: 1_709_208_000,
        adapters: vec!["poet".to_owned()],
        bytes: 1234,
        at_start: false,
        load: Box::new(|| Err("not here".into())),
    };
    let thinks = ServedModel { template: Arc::new(Native), ..served("m", start(says("Ho"))) };
    let embedding = Abilities { generates: false, ..Abilities::default() };
    let vectors = served("v", start(Purposeful(embeds(), embedding)));
    let app = App::with_sources(vec![thinks, vectors], vec![source], ServerOptions::default()).unwrap();
    let tags = get(&app, "/api/tags").await.json();
    let names: Vec<&Value> = tags["models"].as_array().unwrap().iter().map(|model| &model["name"]).collect();
    assert_eq!(names, ["m", "v", "later", "later:poet"]);
    assert_snapshot!(serde_json::to_string_pretty(&tags["models"][3]).unwrap(), @r#"
    {
      "name": "later:poet",
      "model": "later:poet",
      "modified_at": "2024-02-29T12:00:00.000000000Z",
      "size": 1234,
      "digest": "",
      "details": {
        "parent_model": "later",
        "format": "",
        "family": "",
        "families": [],
        "parameter_size": "",
        "quantization_level": ""
      }
    }
    "#);
    let show = async |name: &str| {
        let body = json!({"model": name}).to_string();
        send(&app, request(Method::POST, "/api/show", body)).await.json()
    };
    assert_snapshot!(serde_json::to_string_pretty(&show("m:latest").await).unwrap(), @r#"
    {
      "modelfile": "",
      "parameters": "",
      "template": "{{ .System }}{{ .Tools }}{{ .Messages }}",
      "details": {
        "parent_model": "",
        "format": "",
        "family": "",
        "families": [],
        "parameter_size": "",
        "quantization_level": ""
      },
      "model_info": {
        "general.architecture": "formwork",
        "general.context_length": 400,
        "formwork.context_length": 400
      },
      "capabilities": [
        "completion",
        "tools",
        "thinking"
      ],
      "modified_at": "1970-01-01T00:00:07.000000000Z"
    }
    "#);
    assert_eq!(show("v").await["capabilities"], json!(["embedding"]));
    let later = show("later").await;
    assert_eq!(later["capabilities"], json!(["completion", "tools"]));
    assert_eq!(later["model_info"], json!({"general.architecture": "formwork"}));
    // Unloading does not load the model first, which would fail here.
    for path in ["/api/generate", "/api/chat"] {
        let body = json!({"model": "later", "keep_alive": 0}).to_string();
        let unloaded = send(&app, request(Method::POST, path, body)).await.json();
        assert_eq!((&unloaded["model"], &unloaded["done_reason"]), (&json!("later"), &json!("unload")));
    }
    let older = json!({"name": "m", "verbose": true}).to_string();
    assert_eq!(send(&app, request(Method::POST, "/api/show", older)).await.status, StatusCode::OK);
    let unknown = json!({"model": "x"}).to_string();
    assert_eq!(send(&app, request(Method::POST, "/api/show", unknown)).await.status, StatusCode::NOT_FOUND);
    let ps = get(&app, "/api/ps").await.json();
    assert_eq!(ps["models"].as_array().unwrap().len(), 2);
    assert_snapshot!(serde_json::to_string_pretty(&ps["models"][0]).unwrap(), @r#"
    {
      "name": "m",
      "model": "m",
      "size": 0,
      "digest": "",
      "details": {
        "parent_model": "",
        "format": "",
        "family": "",
        "families": [],
        "parameter_size": "",
        "quantization_level": ""
      },
      "expires_at": "2999-12-31T23:59:59.000000000Z",
      "size_vram": 0,
      "context_length": 400
    }
    "#);
    assert_eq!(get(&app, "/api/version").await.json(), json!({"version": "0.13.5"}));
}
