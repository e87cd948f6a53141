use std::io;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::Uri;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{delete, get, post};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tower::util::MapRequest;

use crate::app::App;
use crate::error::{ApiError, Kind};
use crate::responses::{self, conversations};
use crate::{
    auth, body, chat, completions, cors, decisions, dialect, directives, embeddings, grammar, infill, listen,
    log, messages, metrics, models, ollama, openapi, page, rerank, tokens, tools,
};

/// Paths of OpenAI's API without `/v1`, which some clients leave out of the base URL.
const UNVERSIONED: [&str; 7] = [
    "/chat/completions",
    "/completions",
    "/responses",
    "/conversations",
    "/decisions",
    "/embeddings",
    "/models",
];
/// Starts of further paths without `/v1`.
const UNVERSIONED_STARTS: [&str; 3] = ["/models/", "/responses/", "/conversations/"];

/// Creates the router with all routes and middleware of `app`. Paths may end in a slash, and those of
/// OpenAI's API may lack `/v1`.
pub fn router(app: App) -> Router {
    Router::new().fallback_service(MapRequest::new(routes(app), with_usual_path))
}

fn routes(app: App) -> Router {
    let page = Router::new().route("/", get(page::index)).route("/page/{name}", get(page::get));
    let page = if app.options().page { page } else { Router::new() };
    page.route("/v1/chat/completions", post(chat::create))
        .route("/v1/completions", post(completions::create))
        .route("/v1/responses", post(responses::create))
        .route("/v1/messages", post(messages::create))
        .route("/v1/messages/count_tokens", post(messages::count_tokens))
        .route("/v1/responses/input_tokens", post(responses::input_tokens))
        .route("/v1/responses/{id}", get(responses::stored::get))
        .route("/v1/responses/{id}", delete(responses::stored::delete))
        .route("/v1/responses/{id}/cancel", post(responses::stored::cancel))
        .route("/v1/responses/{id}/input_items", get(responses::stored::input_items))
        .route("/v1/conversations", post(conversations::create))
        .route("/v1/conversations/{id}", get(conversations::get))
        .route("/v1/conversations/{id}", post(conversations::update))
        .route("/v1/conversations/{id}", delete(conversations::delete))
        .route("/v1/conversations/{id}/items", get(conversations::items))
        .route("/v1/conversations/{id}/items", post(conversations::add_items))
        .route("/v1/conversations/{id}/items/{item_id}", get(conversations::get_item))
        .route("/v1/conversations/{id}/items/{item_id}", delete(conversations::delete_item))
        .route("/infill", post(infill::create))
        .route("/tokenizer_info", get(tokens::info))
        .route("/v1/directives", post(directives::create))
        .route("/v1/directives/parse", post(directives::parse))
        .route("/v1/embeddings", post(embeddings::create))
        .route("/v1/decisions", post(decisions::create))
        .route("/v1/systemone", post(decisions::system_one))
        .route("/v1/rerank", post(rerank::create))
        .route("/v2/rerank", post(rerank::create))
        .route("/rerank", post(rerank::create))
        .route("/v1/score", post(rerank::score))
        .route("/score", post(rerank::score))
        .route("/v1/tools/run", post(tools::run))
        .route("/v1/grammar/check", post(grammar::check))
        .route("/v1/grammar/explain", post(grammar::explain))
        .route("/v1/grammar/sample", post(grammar::sample))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::get))
        .route("/tokenize", post(tokens::tokenize))
        .route("/detokenize", post(tokens::detokenize))
        .route("/apply-template", post(tokens::apply_template))
        .route("/api/chat", post(ollama::chat))
        .route("/api/generate", post(ollama::generate))
        .route("/api/embed", post(ollama::embed))
        .route("/api/embeddings", post(ollama::embed_prompt))
        .route("/api/tags", get(ollama::tags))
        .route("/api/show", post(ollama::show))
        .route("/api/ps", get(ollama::ps))
        .route("/api/version", get(ollama::version))
        .route("/health", get(models::health))
        .route("/metrics", get(metrics::metrics))
        .route("/openapi.json", get(openapi::get))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        // `body::receive` enforces the limit.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(app.clone(), body::receive))
        .layer(from_fn_with_state(app.clone(), auth::check))
        .layer(from_fn_with_state(app.clone(), cors::allow))
        .layer(from_fn_with_state(app.clone(), metrics::count))
        .layer(from_fn(dialect::convert))
        .layer(from_fn(log::log))
        .with_state(app)
}

/// Serves `app` on `listener` until `shutdown` resolves.
///
/// After that, accepts no new connections, and gives running requests up to
/// [`shutdown_limit`](crate::ServerOptions::shutdown_limit) to finish. Requests that take longer
/// are cut off when the async runtime ends.
///
/// # Errors
/// Returns an error if the listener keeps failing for a minute.
pub async fn serve(
    listener: TcpListener,
    app: App,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (limit, timeout) = (app.options().shutdown_limit, app.options().read_timeout);
    let (signal, signalled) = oneshot::channel();
    let serving = listen::listen(listener, router(app), timeout, async {
        shutdown.await;
        tracing::info!(?limit, "shutting down");
        let _ = signal.send(());
    });
    let overdue = async move {
        let _ = signalled.await;
        tokio::time::sleep(limit).await;
    };
    tokio::select! {
        served = serving => served,
        () = overdue => {
            tracing::warn!("shutdown limit reached; aborting running requests");
            Ok(())
        }
    }
}

/// Rewrites a path to the one that the routes have.
fn with_usual_path(mut request: Request) -> Request {
    let uri = request.uri();
    let given = uri.path();
    let path = given.trim_end_matches('/');
    let is_unversioned =
        UNVERSIONED.contains(&path) || UNVERSIONED_STARTS.iter().any(|start| path.starts_with(start));
    let version = if is_unversioned { "/v1" } else { "" };
    if path.is_empty() || (path.len() == given.len() && version.is_empty()) {
        return request;
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    if let Ok(rewritten) = format!("{version}{path}{query}").parse() {
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(rewritten);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

async fn unknown_route(request: Request) -> ApiError {
    Kind::Route { path: request.uri().path().to_owned() }.into()
}

async fn wrong_method(request: Request) -> ApiError {
    let (parts, _) = request.into_parts();
    Kind::Method { path: parts.uri.path().to_owned(), method: parts.method }.into()
}
