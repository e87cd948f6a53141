//! Tools of MCP servers over pipes, over the pipes of a process, and over HTTP.

use std::time::Duration;

use formwork_protocol::tools::{McpClient, McpOptions, ToolCall, ToolDispatcher, ToolResult};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::http::{good, response, serve};
use super::*;

/// Returns the server's response to a request, or `None` for a notification.
fn answer(request: &Value) -> Option<Value> {
    let params = &request["params"];
    let result = match request["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "tests", "version": "1" },
        }),
        // The tools are listed on two pages.
        "tools/list" if params["cursor"].is_null() => {
            json!({ "tools": [listed("text"), listed("a.b/c")], "nextCursor": "2" })
        }
        "tools/list" => {
            json!({ "tools": [listed("late"), { "name": "bad", "inputSchema": { "type": "string" } }] })
        }
        "tools/call" => return called(request),
        _ => return None,
    };
    Some(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
}

fn listed(name: &str) -> Value {
    json!({ "name": name, "description": format!("Does {name}."), "inputSchema": { "type": "object" } })
}

/// Returns the result that the arguments of the call ask for.
fn called(request: &Value) -> Option<Value> {
    let arguments = &request["params"]["arguments"];
    if arguments["hang"] == true {
        return None;
    }
    if let Some(message) = arguments["rpc_error"].as_str() {
        let error = json!({ "code": -32602, "message": message });
        return Some(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }));
    }
    let text = |text: &Value| json!({ "type": "text", "text": text });
    let mut result = json!({ "content": [text(&request["params"]["name"])] });
    for (name, value) in arguments.as_object().into_iter().flatten() {
        result[name] = value.clone();
    }
    Some(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
}

/// Connects a client to a server in this process. The server ends on a call with `end`.
async fn piped(options: McpOptions) -> (McpClient, Arc<ToolRegistry>) {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        let (read, mut write) = tokio::io::split(theirs);
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let request: Value = serde_json::from_str(&line).expect("JSON");
            if request["params"]["arguments"]["end"] == true {
                return;
            }
            if let Some(answer) = answer(&request) {
                write.write_all(format!("{answer}\n").as_bytes()).await.expect("a client");
            }
        }
    });
    let (read, write) = tokio::io::split(ours);
    let client = McpClient::over(read, write, options).await.expect("a server");
    let (tools, refused) = client.tools().await.expect("tools");
    let refused: Vec<_> = refused.iter().map(ToString::to_string).collect();
    assert_eq!(refused.len(), 1);
    assert!(refused[0].ends_with("the parameters must be a JSON Schema of type object"), "{}", refused[0]);
    let mut registry = ToolRegistry::new();
    for tool in tools {
        registry.insert(tool).expect("a new one");
    }
    (client, Arc::new(registry))
}

async fn call(registry: &Arc<ToolRegistry>, name: &str, arguments: Value) -> ToolResult {
    let dispatcher = ToolDispatcher::new(registry.clone());
    dispatcher
        .dispatch(&ToolCall { id: "1".to_owned(), name: name.to_owned(), arguments: arguments.to_string() })
        .await
}

#[tokio::test]
async fn lists_all_pages_of_tools_under_valid_names() {
    let (_client, registry) = piped(McpOptions { prefix: "x_".to_owned(), ..McpOptions::default() }).await;
    let names: Vec<_> = registry.tools().iter().map(|tool| tool.name().to_owned()).collect();
    assert_eq!(names, ["x_text", "x_a_b_c", "x_late"]);
    assert_eq!(registry.tools()[0].definition().description, "Does text.");
    // The server is called by the tool's original name.
    assert_eq!(call(&registry, "x_a_b_c", json!({})).await, ToolResult::ok("a.b/c"));
}

#[tokio::test]
async fn converts_results_of_servers_to_envelopes() {
    let (_client, registry) = piped(McpOptions::default()).await;
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" });
    for (arguments, data) in [
        (json!({}), json!("text")),
        (json!({ "content": [text("{\"a\": 1}")] }), json!({ "a": 1 })),
        (json!({ "content": [text("7")] }), json!("7")),
        (json!({ "content": [] }), json!(null)),
        (json!({ "content": [text("x")], "structuredContent": { "a": 1 } }), json!({ "a": 1 })),
        (json!({ "content": [text("a"), text("b")] }), json!([text("a"), text("b")])),
    ] {
        assert_eq!(call(&registry, "text", arguments.clone()).await, ToolResult::ok(data), "{arguments}");
    }
    let result = call(&registry, "text", json!({ "content": [text("see"), image] })).await;
    assert_eq!(result.data[1], json!({ "type": "image", "mime_type": "image/png", "base64_bytes": 4 }));
    assert_eq!(result.warnings[0].code, "CONTENT_OMITTED");

    let result = call(&registry, "text", json!({ "content": [text("no such city")], "isError": true })).await;
    assert_eq!((result.ok, &result.errors), (false, &vec![Problem::new("TOOL_ERROR", "no such city")]));
    let result = call(&registry, "text", json!({ "rpc_error": "bad arguments" })).await;
    assert_eq!(result.errors, [Problem::new("TOOL_ERROR", "bad arguments").with("rpc_code", -32602)]);
}

#[tokio::test]
async fn a_server_that_exits_or_hangs_is_a_failure() {
    let (_client, registry) =
        piped(McpOptions { timeout: Duration::from_millis(100), ..McpOptions::default() }).await;
    let result = call(&registry, "text", json!({ "hang": true })).await;
    assert_eq!(result.errors, [Problem::new("TIMEOUT", "the tool did not answer within 0.1 seconds")]);
    for _ in 0..2 {
        let result = call(&registry, "text", json!({ "end": true })).await;
        assert_eq!(result.errors[0].code, "TOOL_UNAVAILABLE");
    }
}

/// Shell script of a server with one tool. It answers by method and copies the ID from the request.
#[cfg(unix)]
const SHELL: &str = r#"
echo starting >&2
while read -r line; do
    id=${line#*\"id\":}; id=${id%%[,\}]*}
    case $line in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"tools":[{"name":"hello","inputSchema":{"type":"object"}}]}}' ;;
    *'"die"'*) echo 'out of memory' >&2; exit 1 ;;
    *'"tools/call"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"content":[{"type":"text","text":"hello"}]}}' ;;
    esac
done
"#;

#[cfg(unix)]
#[tokio::test]
async fn starts_servers_as_processes() {
    let client = McpClient::spawn(["/bin/sh", "-c", SHELL], McpOptions::default()).await.expect("a server");
    let mut registry = ToolRegistry::new();
    for tool in client.tools().await.expect("tools").0 {
        registry.insert(tool).expect("a new one");
    }
    let registry = Arc::new(registry);
    assert_eq!(call(&registry, "hello", json!({})).await, ToolResult::ok("hello"));
    let gone = call(&registry, "hello", json!({ "die": true })).await;
    assert_eq!(gone.errors[0].code, "TOOL_UNAVAILABLE");
    assert_eq!(gone.errors[0].details["stderr"], "starting\nout of memory");
    client.close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn reports_invalid_servers() {
    let fault = async |command: &[&str]| {
        let client = McpClient::spawn(command.iter().copied(), McpOptions::default()).await;
        client.err().expect("refused").to_string()
    };
    assert!(
        fault(&["/nowhere/server"])
            .await
            .starts_with("the MCP server `/nowhere/server` could not be started: ")
    );
    assert_eq!(fault(&[]).await, "the tool's command is empty");
    let told = fault(&["/bin/sh", "-c", "exit 1"]).await;
    assert!(told.starts_with("cannot use the MCP server `/bin/sh`: "), "{told}");
    in_plain_words(&told);
    let told = fault(&["/bin/sh", "-c", "read -r line; echo 'no port' >&2; exit 1"]).await;
    let why = "the server closed the connection before it answered (no port)";
    assert_eq!(told, format!("cannot use the MCP server `/bin/sh`: {why}"));
    let another = r#"read -r line; echo '{"jsonrpc":"2.0","id":0,"result":{"tools":[]}}'; read -r line"#;
    in_plain_words(&fault(&["/bin/sh", "-c", another]).await);
    let bad = McpClient::http("ftp://x", McpOptions::default()).await.err().expect("refused").to_string();
    assert_eq!(bad, "invalid MCP server URL `ftp://x`: unsupported scheme `ftp`; expected http or https");
}

/// Checks that a message has no names of SDK types.
fn in_plain_words(told: &str) {
    for word in ["rmcp", "reqwest", "Transport", "Some(", "None", "Error", "JsonRpc", "{", "::"] {
        assert!(!told.contains(word), "{told}");
    }
}

#[tokio::test]
async fn errors_of_http_servers_are_in_plain_words() {
    let refused = async |url: &str| {
        let told = McpClient::http(url, McpOptions::default()).await.err().expect("refused").to_string();
        in_plain_words(&told);
        told.strip_prefix(&format!("cannot use the MCP server `{url}`: ")).expect(&told).to_owned()
    };
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = nobody.local_addr().expect("an address");
    drop(nobody);
    let told = refused(&format!("http://{address}/mcp")).await;
    assert!(told.starts_with("the server could not be reached: "), "{told}");
    for (status, headers, body, expected) in [
        ("401 Unauthorized", "", "", "the answer is not an MCP message: HTTP 401 Unauthorized"),
        (
            "401 Unauthorized",
            "www-authenticate: Bearer\r\n",
            "",
            "the server requires a key, or rejected the given one",
        ),
        ("404 Not Found", "content-type: text/plain\r\n", "no such page", "HTTP 404 Not Found: no such page"),
        ("503 Service Unavailable", "", "", "the server answered with status 503"),
        ("200 OK", "content-type: text/html\r\n", "<html>", "text/html"),
        ("200 OK", "content-type: application/json\r\n", "[1]", ""),
        (
            "200 OK",
            "content-type: application/json\r\n",
            r#"{"jsonrpc":"2.0","id":0,"result":{"tools":[]}}"#,
            "",
        ),
    ] {
        let url = serve(move |_| response(status, headers, body)).await;
        let told = refused(&format!("{url}/mcp")).await;
        assert!(told.contains(expected), "{status}: {told}");
    }
}

#[tokio::test]
async fn errors_of_http_calls_are_in_plain_words() {
    let url = serve(|request| {
        let (_, body) = request.split_once("\r\n\r\n").expect("a request");
        let Ok(request) = serde_json::from_str::<Value>(body) else {
            return response("405 Method Not Allowed", "", "");
        };
        if request["method"] == "tools/call" {
            return response("500 Internal Server Error", "", "");
        }
        answer(&request).map_or_else(|| response("202 Accepted", "", ""), |answer| good(&answer))
    })
    .await;
    let client = McpClient::http(&format!("{url}/mcp"), McpOptions::default()).await.expect("a server");
    let mut registry = ToolRegistry::new();
    for tool in client.tools().await.expect("tools").0 {
        registry.insert(tool).expect("a new one");
    }
    let result = call(&Arc::new(registry), "late", json!({})).await;
    assert_eq!(result.errors[0].code, "TOOL_UNAVAILABLE");
    assert_eq!(
        result.errors[0].message,
        "the MCP server is unavailable: the server answered with status 500"
    );
    client.close().await;
}

#[tokio::test]
async fn connects_to_servers_over_http() {
    let url = serve(|request| {
        let (head, body) = request.split_once("\r\n\r\n").expect("a request");
        if !head.starts_with("POST /mcp ") {
            return response("405 Method Not Allowed", "", "");
        }
        if !head.to_lowercase().contains("authorization: bearer k") {
            return response("401 Unauthorized", "", "");
        }
        let request: Value = serde_json::from_str(body).expect("JSON");
        // Notifications are accepted without a response body.
        answer(&request).map_or_else(|| response("202 Accepted", "", ""), |answer| good(&answer))
    })
    .await;
    let url = format!("{url}/mcp");
    let refused = McpClient::http(&url, McpOptions::default()).await.err().expect("refused").to_string();
    assert!(refused.contains("cannot use the MCP server"), "{refused}");
    let options = McpOptions { bearer: Some("k".to_owned()), ..McpOptions::default() };
    let client = McpClient::http(&url, options).await.expect("a server");
    let mut registry = ToolRegistry::new();
    for tool in client.tools().await.expect("tools").0 {
        registry.insert(tool).expect("a new one");
    }
    assert_eq!(call(&Arc::new(registry), "late", json!({})).await, ToolResult::ok("late"));
    client.close().await;
}

#[tokio::test]
async fn a_model_calls_the_tools_of_a_server() {
    let (_client, registry) = piped(McpOptions::default()).await;
    let script = vec![Ok(calls("a", "late", "{}")), Ok(says("late"))];
    let (run, _) = run_with(registry, json!({ "tool_use_mode": "enforced" }), script).await;
    assert_eq!((run.ok, &run.turns[0].calls[0].result.data), (true, &json!("late")));
}
