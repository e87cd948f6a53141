//! Models that are loaded on demand.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{Method, StatusCode};
use formwork_lm::ScriptedModel;
use formwork_server::{App, LoadedModel, ModelSource, ServedModel, ServerOptions, router};
use formwork_vocab::TokenId;
use serde_json::json;
use tower::ServiceExt;

use crate::fixture::{Answer, CONTEXT, END, Lines, ask, get, request, says, send, served, start};

/// Creates a source of a model that answers with `text`, and a counter of its loads.
fn source(id: &str, bytes: u64, text: &'static str) -> (ModelSource, Arc<AtomicUsize>) {
    let loads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&loads);
    let load = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(LoadedModel { engine: start(says(text)), template: Arc::new(Lines::default()) })
    };
    let source = ModelSource {
        id: id.to_owned(),
        aliases: vec![],
        created: 7,
        adapters: vec![],
        bytes,
        at_start: false,
        load: Box::new(load),
    };
    (source, loads)
}

fn with(sources: Vec<ModelSource>, models_max_bytes: Option<u64>) -> App {
    let options = ServerOptions { models_max_bytes, ..ServerOptions::default() };
    App::with_sources(vec![], sources, options).unwrap()
}

async fn chat_with(app: &App, model: &str) -> Answer {
    let body = ask(&json!({"model": model})).to_string();
    send(app, request(Method::POST, "/v1/chat/completions", body)).await
}

/// Returns the models that the metrics report as loaded.
async fn in_memory(app: &App) -> Vec<String> {
    let text = get(app, "/metrics").await.text;
    let loaded = |line: &str| {
        let rest = line.strip_prefix("formwork_model_loaded{model=\"")?;
        rest.strip_suffix("\"} 1").map(str::to_owned)
    };
    text.lines().filter_map(loaded).collect()
}

#[tokio::test]
async fn loads_a_model_on_its_first_request() {
    let (mut lazy, loads) = source("lazy", 1, "Hi");
    lazy.aliases.push("alias".to_owned());
    let app = App::with_sources(vec![served("m", start(says("Ho")))], vec![lazy], ServerOptions::default())
        .unwrap();
    // All names and aliases are listed, and listing loads nothing.
    let listed = get(&app, "/v1/models").await.json();
    let ids: Vec<_> = listed["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, ["m", "lazy", "alias"]);
    assert_eq!(get(&app, "/v1/models/alias").await.status, StatusCode::OK);
    assert_eq!(chat_with(&app, "m").await.content(), "Ho");
    assert_eq!(get(&app, "/health").await.status, StatusCode::OK);
    assert_eq!(loads.load(Ordering::SeqCst), 0);
    for _ in 0..2 {
        let answer = chat_with(&app, "alias").await;
        assert_eq!(answer.content(), "Hi");
        assert_eq!(answer.json()["model"], "lazy");
    }
    assert_eq!(loads.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_request_cannot_name_a_file() {
    let (source, loads) = source("lazy", 1, "Hi");
    let app = with(vec![source], None);
    for name in ["/models/lazy.gguf", "./lazy", "lazy.gguf", "../lazy", "hub/lazy"] {
        let answer = chat_with(&app, name).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{name}");
        assert_eq!(answer.json()["error"]["code"], "model_not_found");
    }
    assert_eq!(loads.load(Ordering::SeqCst), 0);
}

/// Creates a source that reports the start of its load and then waits for a signal.
fn gated(id: &str) -> (ModelSource, Arc<AtomicUsize>, Receiver<()>, Sender<()>) {
    let (mut source, loads) = source(id, 1, "Hi");
    let (began, beginning) = channel();
    let (go_on, gate) = channel();
    let (began, gate) = (Mutex::new(began), Mutex::new(gate));
    let load = source.load;
    source.load = Box::new(move || {
        let _ = began.lock().unwrap().send(());
        let _: Result<(), _> = gate.lock().unwrap().recv();
        load()
    });
    (source, loads, beginning, go_on)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_share_one_load() {
    let (source, loads, beginning, go_on) = gated("lazy");
    let app = with(vec![source], None);
    let asking = |app: &App| {
        let app = app.clone();
        tokio::spawn(async move { chat_with(&app, "lazy").await.content() })
    };
    let mut waiting = vec![asking(&app)];
    tokio::task::spawn_blocking(move || beginning.recv().unwrap()).await.unwrap();
    // A cancelled request does not affect others that wait for the same load.
    waiting.remove(0).abort();
    waiting.extend((0..3).map(|_| asking(&app)));
    assert!(in_memory(&app).await.is_empty());
    drop(go_on);
    for answer in waiting {
        assert_eq!(answer.await.unwrap(), "Hi");
    }
    assert_eq!(loads.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_unhealthy_until_models_are_loaded() {
    let (mut source, _, beginning, go_on) = gated("m");
    source.at_start = true;
    let app = with(vec![source], None);
    let loading = tokio::spawn({
        let app = app.clone();
        async move { app.load().await }
    });
    tokio::task::spawn_blocking(move || beginning.recv().unwrap()).await.unwrap();
    let health = get(&app, "/health").await;
    assert_eq!(health.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(health.json(), json!({"status": "loading"}));
    drop(go_on);
    loading.await.unwrap().unwrap();
    assert_eq!(get(&app, "/health").await.json(), json!({"status": "ok"}));
}

#[tokio::test]
async fn unloads_the_least_recently_used_model() {
    let (a, _) = source("a", 40, "A");
    let (b, b_loads) = source("b", 40, "B");
    let (c, _) = source("c", 40, "C");
    let app = with(vec![a, b, c], Some(100));
    for (name, loaded) in [("a", "a"), ("b", "a b"), ("a", "a b"), ("c", "a c"), ("c", "a c"), ("b", "b c")] {
        assert_eq!(chat_with(&app, name).await.content(), name.to_uppercase());
        assert_eq!(in_memory(&app).await.join(" "), loaded, "after {name}");
    }
    assert_eq!(b_loads.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn keeps_a_busy_model_loaded() {
    let (go_on, gate) = channel::<()>();
    let gate = Mutex::new(Some(gate));
    let (mut slow, _) = source("slow", 60, "");
    slow.load = Box::new(move || {
        let gate = gate.lock().unwrap().take().ok_or("loaded twice")?;
        let model = ScriptedModel::new(END + 1, CONTEXT, move |_, row| {
            let _ = gate.recv();
            row[END] = 1000.0;
        });
        Ok(LoadedModel { engine: start(model), template: Arc::new(Lines::default()) })
    });
    let (other, _) = source("other", 60, "Hi");
    let app = with(vec![slow, other], Some(100));
    let body = Body::from(ask(&json!({"model": "slow", "stream": true})).to_string());
    let running = request(Method::POST, "/v1/chat/completions", body);
    let running = router(app.clone()).oneshot(running).await.unwrap();
    let busy = chat_with(&app, "other").await;
    assert_eq!(busy.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(busy.headers["retry-after"], "1");
    let error = &busy.json()["error"];
    assert_eq!(error["code"], "overloaded");
    assert_eq!(
        error["message"],
        "not enough room to load model `other` while others are in use; try again later"
    );
    assert_eq!(in_memory(&app).await, ["slow"]);
    drop(go_on);
    axum::body::to_bytes(running.into_body(), usize::MAX).await.unwrap();
    assert_eq!(when_free(&app, "other").await, StatusCode::OK);
    assert_eq!(in_memory(&app).await, ["other"]);
}

/// Sends a request until there is room for the model, and returns the status. The engine frees a
/// generation's seat shortly after its last output.
async fn when_free(app: &App, model: &str) -> StatusCode {
    for _ in 0..10_000 {
        let answer = chat_with(app, model).await;
        if answer.status != StatusCode::SERVICE_UNAVAILABLE {
            return answer.status;
        }
        tokio::task::yield_now().await;
    }
    panic!("the idle model does not make way");
}

#[tokio::test]
async fn reports_and_retries_a_failed_load() {
    let (mut source, loads) = source("lazy", 1, "Hi");
    let load = source.load;
    let tries = AtomicUsize::new(0);
    source.load = Box::new(move || match tries.fetch_add(1, Ordering::SeqCst) {
        0 => Err("/secret/path: no such file".into()),
        1 => panic!("as the test wants it"),
        _ => load(),
    });
    let app = with(vec![source], None);
    for _ in 0..2 {
        let failed = chat_with(&app, "lazy").await;
        assert_eq!(failed.status, StatusCode::INTERNAL_SERVER_ERROR);
        let error = &failed.json()["error"];
        assert_eq!(error["code"], "model_load_failed");
        // The response must not reveal file paths.
        assert_eq!(error["message"], "cannot load model `lazy`; see the server's log");
    }
    assert_eq!(chat_with(&app, "lazy").await.content(), "Hi");
    assert_eq!(loads.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn reports_unservable_models_at_startup() {
    let error = |sources: Vec<ModelSource>, max| {
        let options = ServerOptions { models_max_bytes: max, ..ServerOptions::default() };
        App::with_sources(vec![], sources, options).err().unwrap().to_string()
    };
    assert_eq!(error(vec![], None), "no models to serve");
    let two = vec![source("a", 1, "").0, source("a", 1, "").0];
    assert_eq!(error(two, None), "duplicate model name `a`");
    let stays = || ModelSource { at_start: true, ..source("stays", 60, "").0 };
    assert_eq!(
        error(vec![stays(), source("large", 50, "").0], Some(100)),
        "model `large` does not fit: 110 bytes, including the models that stay loaded, exceed the limit of 100"
    );
    let failing = ModelSource { load: Box::new(|| Err("no such file".into())), ..stays() };
    let app = with(vec![failing], None);
    assert_eq!(app.load().await.unwrap_err().to_string(), "cannot load model `stays`: no such file");
}

/// Creates a model that writes `a` without an adapter, and with adapters the letters after it.
fn adapted(adapters: &[&str]) -> ScriptedModel {
    let script = |tokens: &[TokenId], row: &mut [f32]| {
        row[usize::from(b'a')] = 1.0;
        row[END] = if tokens.len() > 60 { 2.0 } else { 0.0 };
    };
    ScriptedModel::new(258, CONTEXT, script).with_adapters(adapters)
}

#[tokio::test]
async fn requests_choose_an_adapter_by_name() {
    let model = served("org/m", start(adapted(&["sql", "two"])));
    let model = ServedModel { aliases: vec!["default".to_owned()], ..model };
    let app = App::new(vec![model, served("two", start(adapted(&[])))], ServerOptions::default()).unwrap();
    let first = async |name: &str| {
        let body = json!({"model": name, "prompt": "x", "max_tokens": 1, "temperature": 0}).to_string();
        let answer = send(&app, request(Method::POST, "/v1/completions", body)).await.json();
        (
            answer["model"].as_str().unwrap().to_owned(),
            answer["choices"][0]["text"].as_str().unwrap().to_owned(),
        )
    };
    for (name, served, text) in [
        ("org/m", "org/m", "a"),
        ("org/m:sql", "org/m:sql", "b"),
        ("default:two", "org/m:two", "c"),
        ("sql", "org/m:sql", "b"),
        ("two", "two", "a"),
    ] {
        assert_eq!(first(name).await, (served.to_owned(), text.to_owned()), "{name}");
    }
    let list = get(&app, "/v1/models").await.json();
    let ids = |field: &str| -> Vec<Option<&str>> {
        list["data"].as_array().unwrap().iter().map(|model| model[field].as_str()).collect()
    };
    assert_eq!(
        ids("id"),
        [Some("org/m"), Some("default"), Some("org/m:sql"), Some("org/m:two"), Some("two")]
    );
    assert_eq!(ids("parent"), [None, None, Some("org/m"), Some("org/m"), None]);
    let one = r#"{"id":"sql","object":"model","created":7,"owned_by":"formwork","root":"org/m","parent":"org/m","max_model_len":400,"context_length":400,"meta":{"n_ctx":400,"n_vocab":257}}"#;
    assert_eq!(get(&app, "/v1/models/sql").await.text, one);
    let unknown = chat_with(&app, "org/m:other").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    let message = unknown.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("`org/m:other`") && message.contains("org/m:sql, org/m:two, two"), "{message}");
}

#[tokio::test]
async fn a_model_is_loaded_with_its_adapters_and_unloaded_with_them() {
    let lazy = |id: &str, has: &'static [&'static str]| ModelSource {
        adapters: vec!["sql".to_owned()],
        load: Box::new(|| {
            Ok(LoadedModel { engine: start(adapted(has)), template: Arc::new(Lines::default()) })
        }),
        ..source(id, 60, "").0
    };
    let app = with(vec![lazy("m", &["sql"]), lazy("n", &["sql"]), lazy("broken", &[])], Some(100));
    assert_eq!(chat_with(&app, "m:sql").await.status, StatusCode::OK);
    assert_eq!(in_memory(&app).await, ["m"]);
    // The name of the adapter alone is ambiguous.
    assert_eq!(chat_with(&app, "sql").await.status, StatusCode::NOT_FOUND);
    assert_eq!(when_free(&app, "n").await, StatusCode::OK);
    assert_eq!(in_memory(&app).await, ["n"]);
    assert_eq!(when_free(&app, "broken").await, StatusCode::INTERNAL_SERVER_ERROR);
}
