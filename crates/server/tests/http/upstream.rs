//! A scripted server on a socket, and an app that has it as the provider `up`.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use formwork_protocol::config::Config;
use formwork_server::{App, Providers, ServerOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Answer of the scripted server.
#[derive(Clone)]
pub(crate) enum Reply {
    /// A message with this text.
    Says(&'static str),
    /// A body with a status other than 200, and headers.
    Fails(u16, Value, Vec<(&'static str, &'static str)>),
    /// Pieces of a streamed message.
    Streams(Vec<&'static str>),
    /// A message with this text after a time in milliseconds.
    Late(u64, &'static str),
}

impl Reply {
    pub(crate) fn fails(status: u16, message: &str) -> Self {
        Self::Fails(status, json!({ "error": { "message": message } }), Vec::new())
    }
}

#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) url: String,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    asked: Arc<Mutex<Vec<(HeaderMap, Value)>>>,
}

impl Upstream {
    /// Starts a server that returns `replies` in order, one for each request.
    pub(crate) async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let upstream = Self { url, replies: Arc::new(Mutex::new(replies.into())), asked: Arc::default() };
        let router = Router::new().fallback(answer).with_state(upstream.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        upstream
    }

    /// Returns the bodies of all requests so far.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        self.asked.lock().unwrap().last().unwrap().0.clone()
    }

    /// Creates an app without models that has the server as the provider `up`. `more` has further
    /// lines of the provider's table.
    pub(crate) fn app(&self, more: &str) -> App {
        self.app_with(more, ServerOptions::default())
    }

    pub(crate) fn app_with(&self, more: &str, options: ServerOptions) -> App {
        let text = format!(
            "[providers.up]\nbase_url = \"{}\"\nretry = {{ retries = 0 }}\n{more}\n[providers.shut]\nbase_url = \"{}\"\napi_key_env = \"ABSENT\"",
            self.url, self.url
        );
        let key = |name: &str| (name != "ABSENT").then(|| "secret".to_owned());
        let providers = Providers::from_config(&Config::parse(&text).unwrap(), key).unwrap();
        App::new(Vec::new(), ServerOptions { providers, ..options }).unwrap()
    }
}

async fn answer(State(upstream): State<Upstream>, headers: HeaderMap, body: Bytes) -> Response {
    upstream.asked.lock().unwrap().push((headers, serde_json::from_slice(&body).unwrap()));
    let reply = upstream.replies.lock().unwrap().pop_front();
    match reply {
        None => (StatusCode::INTERNAL_SERVER_ERROR, "the script is over").into_response(),
        Some(Reply::Says(text)) => axum::Json(message(text)).into_response(),
        Some(Reply::Late(ms, text)) => {
            tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
            axum::Json(message(text)).into_response()
        }
        Some(Reply::Fails(status, body, headers)) => {
            let mut response = (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response();
            for (name, value) in headers {
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            response
        }
        Some(Reply::Streams(pieces)) => {
            let mut text = String::new();
            for piece in pieces {
                let chunk = json!({ "choices": [{ "index": 0, "delta": { "content": piece } }] });
                write!(text, "data: {chunk}\n\n").unwrap();
            }
            let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
            write!(text, "data: {end}\n\ndata: [DONE]\n\n").unwrap();
            Response::builder().header("content-type", "text/event-stream").body(Body::from(text)).unwrap()
        }
    }
}

fn message(text: &str) -> Value {
    json!({ "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }] })
}
