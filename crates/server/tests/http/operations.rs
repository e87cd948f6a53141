//! Operations: metrics and CORS.

use axum::http::{Method, StatusCode};
use formwork_server::{App, ServerOptions};
use serde_json::json;

use crate::fixture::{Answer, app, ask, chat, get, request, says, send, served, start};

#[tokio::test]
async fn metrics() {
    let app = app(says("Hi"));
    chat(&app, &json!({})).await;
    chat(&app, &json!({"n": 0})).await;
    // All unknown paths and methods are counted under one label.
    get(&app, "/a").await;
    get(&app, "/b").await;
    send(&app, request(Method::from_bytes(b"MADEUP").unwrap(), "/health", "")).await;
    let answer = get(&app, "/metrics").await;
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let chats = "formwork_http_requests_total{route=\"/v1/chat/completions\",method=\"POST\"";
    for line in [
        &format!("{chats},status=\"200\"}} 1"),
        &format!("{chats},status=\"400\"}} 1"),
        "formwork_http_requests_total{route=\"other\",method=\"GET\",status=\"404\"} 2",
        "formwork_http_requests_total{route=\"/health\",method=\"other\",status=\"405\"} 1",
        "formwork_model_loaded{model=\"m\"} 1",
        "# TYPE formwork_time_to_first_token_seconds histogram",
        "# TYPE formwork_requests_total counter",
    ] {
        assert!(answer.text.lines().any(|found| found == line), "{line} is not in\n{}", answer.text);
    }
    // Each metric family has exactly one `TYPE` line.
    for line in answer.text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let family = family.unwrap_or(name);
        assert_eq!(answer.text.matches(&format!("# TYPE {family} ")).count(), 1, "{line}");
    }
}

fn with(options: ServerOptions) -> App {
    App::new(vec![served("m", start(says("Hi")))], options).unwrap()
}

async fn from_origin(app: &App, method: Method, headers: &[(&'static str, &str)]) -> Answer {
    let body = if method == Method::POST { ask(&json!({})).to_string() } else { String::new() };
    let mut request = request(method, "/v1/chat/completions", body);
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    send(app, request).await
}

#[tokio::test]
async fn pages_of_other_origins_read_nothing_unless_allowed() {
    let page = [("origin", "https://page.example")];
    let preflight = [page[0], ("access-control-request-method", "POST")];
    let plain = with(ServerOptions::default());
    let answer = from_origin(&plain, Method::OPTIONS, &preflight).await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(!answer.headers.contains_key("access-control-allow-origin"));
    let other = vec!["https://other.example".to_owned()];
    let other = with(ServerOptions { cors_origins: other, ..ServerOptions::default() });
    for (method, headers) in [(Method::OPTIONS, &preflight[..]), (Method::POST, &page[..])] {
        let answer = from_origin(&other, method, headers).await;
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
        assert_eq!(answer.headers["vary"], "origin");
    }
}

#[tokio::test]
async fn pages_of_allowed_origins_may_call() {
    let page = [("origin", "https://page.example")];
    for (allowed, told) in [("https://page.example", "https://page.example"), ("*", "*")] {
        let app = with(ServerOptions {
            cors_origins: vec!["https://other.example".to_owned(), allowed.to_owned()],
            api_keys: vec!["secret".to_owned()],
            ..ServerOptions::default()
        });
        let asked = "authorization,content-type,x-stainless-os";
        let preflight =
            [page[0], ("access-control-request-method", "POST"), ("access-control-request-headers", asked)];
        // A preflight request has no API key.
        let answer = from_origin(&app, Method::OPTIONS, &preflight).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT);
        assert_eq!(answer.headers["access-control-allow-origin"], told);
        assert_eq!(answer.headers["access-control-allow-headers"], asked);
        assert_eq!(answer.headers["access-control-allow-methods"], "GET, POST, DELETE");
        // Error responses have CORS headers, too.
        let refused = from_origin(&app, Method::POST, &page).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
        assert_eq!(refused.headers["access-control-allow-origin"], told);
        let answer = from_origin(&app, Method::POST, &[page[0], ("authorization", "Bearer secret")]).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.headers["access-control-allow-origin"], told);
    }
}
