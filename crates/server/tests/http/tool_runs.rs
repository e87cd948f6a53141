//! `POST /v1/tools/run`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::{HeaderMap, Method, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use formwork_lm::ScriptedModel;
use formwork_protocol::tools::{
    Closure, McpOptions, NextTool, Preset, ToolDefinition, ToolRegistry, ToolRun, Transforms, replay,
};
use formwork_server::{App, CallbackHost, HostedTools, McpServer, McpTarget, ServerOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::fixture::{self, Answer, END, request, send, served, start};
use crate::upstream::{Reply, Upstream};

const CALL: &str =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";

/// Creates a model that calls `get_weather` and then answers.
fn caller() -> ScriptedModel {
    ScriptedModel::new(END + 1, 8000, |tokens, row| {
        let said: Vec<u8> = tokens.iter().map(|token| token.0 as u8).collect();
        let text = String::from_utf8_lossy(&said);
        let (before, written) = text.rsplit_once("assistant:").unwrap();
        let has_result = before.contains("\"sky\"") || before.contains("TOOL_ERROR");
        let wanted = if has_result { "The sky is clear." } else { CALL };
        let next = wanted.as_bytes().get(written.len()).map_or(END, |&byte| byte.into());
        row[next] = 1000.0;
    })
}

/// Server of a callback that remembers the bodies and headers of its requests.
#[derive(Clone, Default)]
struct Weather(Arc<Mutex<Vec<(Value, HeaderMap)>>>);

impl Weather {
    async fn start(&self) -> String {
        let asked = Arc::clone(&self.0);
        let answer = move |headers: HeaderMap, Json(body): Json<Value>| {
            let asked = Arc::clone(&asked);
            async move {
                asked.lock().unwrap().push((body.clone(), headers));
                Json(json!({ "city": body["city"], "sky": "clear" }))
            }
        };
        let away = || async { (StatusCode::TEMPORARY_REDIRECT, [("location", "/tools/weather")]) };
        let router = Router::new()
            .route("/tools/weather", post(answer.clone()))
            .route("/admin", post(answer))
            .route("/tools/moved", post(away));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    fn asked(&self) -> Vec<Value> {
        self.0.lock().unwrap().iter().map(|(body, _)| body.clone()).collect()
    }
}

fn hosted(url: &str) -> HostedTools {
    let mut registry = ToolRegistry::new();
    let definition = ToolDefinition::new("get_weather", "", json!({ "type": "object" }));
    registry.add(definition, Closure::new(|_| json!({ "sky": "grey" }))).unwrap();
    let callback = CallbackHost {
        bearer: Some("secret".to_owned()),
        ..CallbackHost::new(&format!("{url}/tools")).unwrap()
    };
    let script = r#"
while read -r line; do
    id=${line#*\"id\":}; id=${id%%[,\}]*}
    case $line in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"tools":[{"name":"weather","inputSchema":{"type":"object"}}]}}' ;;
    *'"tools/call"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"content":[{"type":"text","text":"{\"sky\": \"red\"}"}]}}' ;;
    esac
done"#;
    let options =
        McpOptions { prefix: "get_".to_owned(), timeout: Duration::from_secs(20), ..McpOptions::default() };
    let server = |command: &[&str]| McpServer {
        target: McpTarget::Command(command.iter().map(|&part| part.to_owned()).collect()),
        options: options.clone(),
    };
    let mcp = [("sky", server(&["sh", "-c", script])), ("gone", server(&["/nowhere/server"]))];
    let mcp: BTreeMap<String, McpServer> =
        mcp.into_iter().map(|(name, server)| (name.to_owned(), server)).collect();
    HostedTools::new(registry, mcp, vec![callback])
}

fn app(tools: HostedTools) -> App {
    let options = ServerOptions { tools, ..ServerOptions::default() };
    App::new(vec![served("m", start(caller()))], options).unwrap()
}

async fn ask(app: &App, fields: &Value) -> Answer {
    send(app, request(Method::POST, "/v1/tools/run", fixture::ask(fields).to_string())).await
}

async fn run(app: &App, fields: &Value) -> ToolRun {
    let answer = ask(app, fields).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    serde_json::from_str(&answer.text).unwrap()
}

/// Returns the status, the field and the message of an error.
async fn refused(app: &App, fields: &Value) -> (StatusCode, String, String) {
    let answer = ask(app, fields).await;
    let error = answer.json()["error"].clone();
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    (answer.status, text("param"), text("message"))
}

fn callback(url: &str) -> Value {
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"], "additionalProperties": false });
    json!({ "name": "get_weather", "description": "The weather.", "parameters": parameters, "url": url })
}

#[tokio::test]
async fn calls_an_allowed_callback_and_returns_the_record() {
    let weather = Weather::default();
    let url = weather.start().await;
    let app = app(hosted(&url));
    let tools = json!([callback(&format!("{url}/tools/weather"))]);
    let options = json!({ "tool_use_mode": "enforced", "max_turns": 3 });
    let run = run(&app, &json!({ "tools": tools, "options": options, "seed": 1, "temperature": 0.5 })).await;
    assert_eq!((run.ok, run.text.as_deref()), (true, Some("The sky is clear.")), "{:?}", run.errors);
    assert_eq!(weather.asked(), [json!({ "city": "Paris" })]);
    assert_eq!(weather.0.lock().unwrap()[0].1["authorization"], "Bearer secret");
    assert_eq!(run.turns[0].calls[0].result.data, json!({ "city": "Paris", "sky": "clear" }));
    // The record has the options, and can be replayed.
    let overrides = &run.setup.options.request_overrides;
    assert_eq!((&overrides["seed"], &overrides["temperature"]), (&json!(1), &json!(0.5)));
    assert_eq!((run.setup.options.max_turns.get(), run.setup.backend.as_str()), (3, "local"));
    assert_eq!(replay(&run, &Transforms::default()).unwrap(), run);
    assert!(!serde_json::to_string(&run).unwrap().contains("secret"));
}

#[tokio::test]
async fn refuses_addresses_that_the_operator_did_not_allow() {
    let weather = Weather::default();
    let url = weather.start().await;
    let app = app(hosted(&url));
    for address in [
        format!("{url}/admin"),
        format!("{url}/tools/../admin"),
        format!("{url}/toolsmith"),
        format!("{url}/tools/%2e%2e/admin"),
        "http://127.0.0.1:1/tools/weather".to_owned(),
        format!("{url}@127.0.0.1:1/tools/weather"),
        "file:///etc/passwd".to_owned(),
        "weather".to_owned(),
    ] {
        let (status, param, message) = refused(&app, &json!({ "tools": [callback(&address)] })).await;
        assert_eq!(
            (status, param.as_str()),
            (StatusCode::BAD_REQUEST, "tools[0].url"),
            "{address}: {message}"
        );
        assert!(message.contains("does not allow callbacks"), "{message}");
    }
    // A redirect does not leave the address either.
    let run = run(
        &app,
        &json!({ "tools": [callback(&format!("{url}/tools/moved"))], "options": { "max_turns": 2 } }),
    )
    .await;
    assert_eq!(run.turns[0].calls[0].result.errors[0].details["status"], 307);
    assert_eq!(weather.asked(), Vec::<Value>::new());
    // Without a configuration, nothing is allowed.
    let closed = self::app(HostedTools::default());
    for fields in
        [json!({ "tools": [callback(&url)] }), json!({ "tools": ["get_weather"] }), json!({ "mcp": ["sky"] })]
    {
        assert_eq!(refused(&closed, &fields).await.0, StatusCode::BAD_REQUEST, "{fields}");
    }
}

#[tokio::test]
async fn uses_tools_and_mcp_servers_of_the_operator_by_name() {
    let app = app(hosted("http://127.0.0.1:9"));
    let run_named = run(&app, &json!({ "tools": ["get_weather"] })).await;
    assert_eq!((run_named.ok, &run_named.turns[0].calls[0].result.data), (true, &json!({ "sky": "grey" })));
    let served = run(&app, &json!({ "mcp": ["sky"], "deny": [] })).await;
    assert_eq!((served.ok, &served.turns[0].calls[0].result.data), (true, &json!({ "sky": "red" })));
    let masked = run(&app, &json!({ "mcp": ["sky"], "deny": ["get_weather"] })).await;
    assert_eq!((masked.setup.tools.len(), masked.setup.masked), (0, vec!["get_weather".to_owned()]));
    let (status, param, message) = refused(&app, &json!({ "mcp": ["sky"], "tools": ["get_weather"] })).await;
    assert_eq!((status, param.as_str()), (StatusCode::BAD_REQUEST, "mcp"), "{message}");
    let (status, _, message) = refused(&app, &json!({ "mcp": ["gone"] })).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    assert!(!message.contains("nowhere"), "{message}");
}

#[tokio::test]
async fn takes_every_option_of_the_library() {
    let app = app(hosted("http://127.0.0.1:9"));
    let options = json!({
        "tool_use_mode": "enforced", "tool_failure_policy": "tolerated", "max_tool_args_bytes": 1000,
        "max_tool_output_bytes": 1001, "max_conversation_bytes": 2_000_000, "max_tool_calls_per_turn": 2, "fix_empty_final": false,
        "fix_empty_final_disable_tools": false, "fix_empty_final_prompt": "Well?", "max_turns": 5,
        "repeated_calls": "stop", "tool_timeout_ms": 1002, "tool_choice": "auto", "force_first_call": false,
        "next_tool": "model",
        "request_overrides": { "max_tokens": 90 },
        "message_transforms": ["tool_messages_name_if_missing"], "tool_transforms": ["tools_without_descriptions"],
        "response_transforms": ["assistant_content_tool_call_tags_to_tool_calls"], "text_call_format": "glm",
        "tool_call_transforms": ["tool_call_name_without_namespace"],
        "tool_result_transforms": ["tool_result_compact_envelope"],
    });
    let run =
        run(&app, &json!({ "tools": ["get_weather"], "options": options, "presets": ["openai"] })).await;
    let used = serde_json::to_value(&run.setup.options).unwrap();
    for (name, value) in options.as_object().unwrap() {
        let expected = if name == "request_overrides" {
            json!({ "parallel_tool_calls": false, "max_tokens": 90 })
        } else {
            value.clone()
        };
        assert_eq!(used[name], expected, "{name}");
    }
    assert_eq!(used.as_object().unwrap().len(), options.as_object().unwrap().len());
    assert!(run.ok, "{:?}", run.errors);
}

#[tokio::test]
async fn requests_override_the_options_of_the_operator() {
    let mut hosted = hosted("http://127.0.0.1:9");
    hosted.defaults = Preset::new(json!({ "max_turns": 3, "max_tool_args_bytes": 1000 })).unwrap();
    let app = app(hosted);
    let given = json!({ "max_turns": 2, "next_tool": "decision", "tool_choice": "none" });
    let options = run(&app, &json!({ "options": given })).await.setup.options;
    assert_eq!((options.max_turns.get(), options.max_tool_args_bytes), (2, 1000));
    assert_eq!(options.next_tool, NextTool::Decision);
}

#[tokio::test]
async fn reports_the_place_of_an_invalid_field() {
    let app = app(hosted("http://127.0.0.1:9"));
    for (fields, param, told) in [
        (json!({ "messages": [] }), "messages", "must not be empty"),
        (json!({ "messages": [{ "content": "Hi" }] }), "messages[0].role", "required"),
        (json!({ "stream": true }), "stream", "unrecognized"),
        (json!({ "tools": [{ "name": "f" }] }), "tools[0].url", "required"),
        (
            json!({ "tools": [{ "name": "f", "url": "http://x", "command": ["rm"] }] }),
            "tools[0].command",
            "unrecognized",
        ),
        (json!({ "tools": ["nothing"] }), "tools[0]", "unknown tool `nothing`; expected one of get_weather"),
        (json!({ "tools": ["get_weather", "get_weather"] }), "tools[1]", "duplicate tool"),
        (json!({ "mcp": ["nothing"] }), "mcp[0]", "unknown MCP server `nothing`; expected one of gone, sky"),
        (json!({ "allow": ["x"] }), "allow[0]", "unknown tool `x`"),
        (
            json!({ "presets": ["x"] }),
            "presets[0]",
            "unknown preset `x`; expected one of default_tool_calling",
        ),
        (json!({ "profile": "grok_default" }), "profile", "does not apply to `m`"),
        (json!({ "options": { "max_turn": 1 } }), "options", "unknown field `max_turn`"),
        (json!({ "options": { "max_turns": 1000 } }), "options.max_turns", "expected 1..=100"),
        (json!({ "options": { "tool_transforms": ["x"] } }), "options", "unknown tool transform `x`"),
        (
            json!({ "options": { "request_overrides": { "tools": [] } } }),
            "options.request_overrides.tools",
            "the loop sets",
        ),
        (json!({ "options": { "tool_use_mode": "enforced" } }), "tools", "no tools are given"),
        (json!({ "top_p": 2 }), "top_p", "expected a number from 0 to 1"),
        (json!({ "temperature": "hot" }), "temperature", "expected a number"),
        (json!({ "max_tokens": 0 }), "max_tokens", "expected an integer"),
        (json!({ "model": "other" }), "model", "unknown model"),
        (json!({ "provider": "other" }), "provider", "unknown provider `other`"),
    ] {
        let (status, given, message) = refused(&app, &fields).await;
        assert_eq!(given, param, "{fields}: {message}");
        assert!(message.contains(told) && status.is_client_error(), "{fields}: {message}");
    }
    let bad_schema =
        json!({ "name": "f", "url": "http://127.0.0.1:9/tools/f", "parameters": { "type": "text" } });
    let (status, param, _) = refused(&app, &json!({ "tools": [bad_schema] })).await;
    assert_eq!((status, param.as_str()), (StatusCode::BAD_REQUEST, "tools[0]"));
}

#[tokio::test]
async fn limits_the_number_of_runs() {
    let hosted = hosted("http://127.0.0.1:9").with_max_runs(std::num::NonZeroUsize::MIN);
    let app = app(hosted);
    let fields = json!({ "tools": ["get_weather"] });
    let (first, second) = tokio::join!(ask(&app, &fields), ask(&app, &fields));
    let mut statuses = [first.status, second.status];
    statuses.sort();
    assert_eq!(statuses, [StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE]);
    assert_eq!(ask(&app, &fields).await.status, StatusCode::OK, "the permit is returned");
}

#[tokio::test]
async fn runs_over_a_provider() {
    let replies = vec![Reply::Says(CALL), Reply::Says("<think>Hm.</think>It is grey.")];
    let upstream = Upstream::start(replies).await;
    let options = ServerOptions { tools: hosted("http://127.0.0.1:9"), ..ServerOptions::default() };
    let more = "preset = \"openrouter\"\nllm_options_defaults = { top_k = 9, stream_options = {} }";
    let app = upstream.app_with(more, options);
    let fields =
        json!({ "provider": "up", "model": "z-ai/glm-4.7", "tools": ["get_weather"], "profile": "default" });
    let run = run(&app, &fields).await;
    // The catalogue says that calls of this model may be in the text.
    assert_eq!((run.ok, run.text.as_deref()), (true, Some("It is grey.")), "{:?}", run.errors);
    let asked = upstream.asked();
    assert_eq!((&asked[0]["model"], &asked[0]["top_k"], asked.len()), (&json!("z-ai/glm-4.7"), &json!(9), 2));
    assert!(asked[0].get("stream_options").is_none());
    // A failure of the provider is in the record.
    let failed = self::run(&app, &fields).await;
    assert_eq!((failed.ok, failed.errors[0].code.as_str()), (false, "SERVER_ERROR"));
}

#[tokio::test]
async fn requires_an_api_key() {
    let options = ServerOptions { api_keys: vec!["secret".to_owned()], ..ServerOptions::default() };
    let app = App::new(vec![served("m", start(caller()))], options).unwrap();
    assert_eq!(ask(&app, &json!({})).await.status, StatusCode::UNAUTHORIZED);
}

/// Creates a model that calls `get_weather` in each of its answers, with pauses.
fn restless() -> ScriptedModel {
    ScriptedModel::new(END + 1, 8000, |tokens, row| {
        std::thread::sleep(Duration::from_millis(1));
        let said: Vec<u8> = tokens.iter().map(|token| token.0 as u8).collect();
        let text = String::from_utf8_lossy(&said);
        let (_, written) = text.rsplit_once("assistant:").unwrap();
        let next = CALL.as_bytes().get(written.len()).map_or(END, |&byte| byte.into());
        row[next] = 1000.0;
    })
}

#[tokio::test]
async fn the_request_timeout_ends_the_whole_run_of_a_local_model() {
    let weather = Weather::default();
    let url = weather.start().await;
    let request_timeout = Some(Duration::from_millis(500));
    let options = ServerOptions { tools: hosted(&url), request_timeout, ..ServerOptions::default() };
    let app = App::new(vec![served("m", start(restless()))], options).unwrap();
    let tools = json!([callback(&format!("{url}/tools/weather"))]);
    let started = std::time::Instant::now();
    let answer = ask(&app, &json!({ "tools": tools, "options": { "max_turns": 100 } })).await;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT, "{}", answer.text);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn the_operator_limits_the_bytes_of_a_conversation() {
    let app = app(hosted("http://127.0.0.1:9"));
    let of = |bytes: usize| json!({ "options": { "max_conversation_bytes": bytes } });
    let (status, param, message) = refused(&app, &of(8_000_001)).await;
    assert_eq!((status, param.as_str()), (StatusCode::BAD_REQUEST, "options.max_conversation_bytes"));
    assert_eq!(message, "`options.max_conversation_bytes`: 8000001 is out of range; expected 0..=8000000");
    assert_eq!(run(&app, &of(10)).await.errors[0].code, "CONVERSATION_TOO_LARGE");
}
