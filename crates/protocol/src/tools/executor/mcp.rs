use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use process_wrap::tokio::{CommandWrap, KillOnDrop};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ContentBlock, Implementation,
    ProtocolVersion, ResourceContents,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, RoleClient, RunningService,
    ServiceError,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport, TokioChildProcess};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::process::Command;

use super::super::envelope::{Problem, ToolResult, codes};
use super::super::error::{Kind, ToolsError};
use super::super::registry::{Tool, ToolDefinition};
use super::{Environment, ToolExecutor, reason};
use crate::Body;
use crate::process::Tail;

/// Options of an MCP connection.
#[derive(Clone, Debug)]
pub struct McpOptions {
    /// Prefix for the names of the server's tools, to avoid conflicts between servers.
    pub prefix: String,
    /// Timeout for the handshake, for listing the tools and for each call.
    pub timeout: Duration,
    /// Key sent as `authorization: Bearer KEY`; used for servers over HTTP only.
    pub bearer: Option<String>,
    /// Environment that a server process starts with. Not used for servers over HTTP or pipes.
    pub environment: Environment,
    /// Environment variables to add to `environment`.
    pub variables: BTreeMap<String, String>,
}

impl Default for McpOptions {
    /// Returns options without a prefix or a key, with a timeout of 60 seconds and the inherited
    /// environment.
    fn default() -> Self {
        Self {
            prefix: String::new(),
            timeout: Duration::from_secs(60),
            bearer: None,
            environment: Environment::default(),
            variables: BTreeMap::new(),
        }
    }
}

/// Connection to an MCP server through the protocol's official SDK. The server's tools work only as
/// long as the client exists.
///
/// The client uses the `initialize` handshake, which nearly all servers support. If a server
/// rejects `initialize`, the client tries `server/discover`, which replaces it in protocol version
/// 2026-07-28.
///
/// The client offers no capabilities: servers cannot sample from the model or ask the user.
pub struct McpClient {
    service: RunningService<RoleClient, ClientConfig>,
    server: Arc<Server>,
}

/// Name, options and standard error of a server, shared with its tools.
struct Server {
    name: String,
    options: McpOptions,
    stderr: Tail,
}

impl McpClient {
    /// Starts a server process from `command`, a program and its arguments, without a shell.
    /// Connects over the standard input and output of the process.
    ///
    /// # Errors
    /// Returns an error if `command` is empty, the process does not start, or the handshake fails.
    pub async fn spawn<S: Into<String>>(
        command: impl IntoIterator<Item = S>,
        options: McpOptions,
    ) -> Result<Self, ToolsError> {
        let command: Vec<String> = command.into_iter().map(Into::into).collect();
        let program = command.first().filter(|program| !program.is_empty()).ok_or(Kind::NoCommand)?;
        let server = Server { name: program.clone(), options, stderr: Tail::default() };
        let start = || {
            server.start(&command).map_err(|error| {
                Kind::Start { server: server.name.clone(), reason: error.to_string() }.into()
            })
        };
        let service = server.connect(start).await?;
        Ok(Self { service, server: Arc::new(server) })
    }

    /// Connects to a server over streamable HTTP.
    ///
    /// # Errors
    /// Returns an error if `url` is not an HTTP URL or the handshake fails.
    pub async fn http(url: &str, options: McpOptions) -> Result<Self, ToolsError> {
        let fault = |reason: String| Kind::Url { given: url.to_owned(), reason };
        let parsed = reqwest::Url::parse(url).map_err(|error| fault(error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(
                fault(format!("unsupported scheme `{}`; expected http or https", parsed.scheme())).into()
            );
        }
        // A TLS provider may already be installed, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = Server { name: url.to_owned(), options, stderr: Tail::default() };
        let mut config = StreamableHttpClientTransportConfig::with_uri(url);
        config.auth_header.clone_from(&server.options.bearer);
        let service =
            server.connect(|| Ok(StreamableHttpClientTransport::from_config(config.clone()))).await?;
        Ok(Self { service, server: Arc::new(server) })
    }

    /// Connects to a server over a pair of pipes: reads its messages from `read` and sends messages
    /// to `write`. Only the `initialize` handshake is supported.
    ///
    /// # Errors
    /// Returns an error if the handshake fails.
    pub async fn over(
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
        options: McpOptions,
    ) -> Result<Self, ToolsError> {
        let server = Server { name: "pipe".to_owned(), options, stderr: Tail::default() };
        let service = server.handshake((read, write), ClientLifecycleMode::Initialize).await;
        let service = match service {
            Ok(service) => service,
            Err((reason, _)) => return Err(server.lost(reason).await),
        };
        Ok(Self { service, server: Arc::new(server) })
    }

    /// Lists all tools of the server. The second list has an error for each tool that cannot be
    /// used, for example because of an invalid schema.
    ///
    /// The name of each tool starts with [`McpOptions::prefix`]. Dots, slashes and spaces in names
    /// are replaced by `_`.
    ///
    /// # Errors
    /// Returns an error if the server does not list its tools.
    pub async fn tools(&self) -> Result<(Vec<Tool>, Vec<ToolsError>), ToolsError> {
        let listed = tokio::time::timeout(self.server.options.timeout, self.service.peer().list_all_tools());
        let listed = match listed.await {
            Ok(Ok(listed)) => listed,
            Ok(Err(error)) => {
                let stderr = self.server.stderr_after(&error).await;
                return Err(self.server.fault(reason::of_request(&error), &stderr));
            }
            Err(_) => {
                return Err(self.server.fault(
                    "the server took too long to list its tools".to_owned(),
                    &self.server.stderr.text(),
                ));
            }
        };
        let (mut tools, mut refused) = (Vec::new(), Vec::new());
        for listed in listed {
            let name = format!("{}{}", self.server.options.prefix, listed.name);
            // MCP names may have dots and slashes, which providers reject.
            let name = name.replace(['.', '/', ' '], "_");
            let description = listed.description.or(listed.title.map(Into::into)).unwrap_or_default();
            let parameters = Value::Object((*listed.input_schema).clone());
            let executor = McpTool {
                name: listed.name.into_owned(),
                peer: self.service.peer().clone(),
                server: Arc::clone(&self.server),
            };
            match Tool::new(ToolDefinition::new(name, description, parameters), executor) {
                Ok(tool) => tools.push(tool),
                Err(error) => refused.push(error),
            }
        }
        Ok((tools, refused))
    }

    /// Closes the connection. A server started as a process gets a few seconds to exit.
    pub async fn close(mut self) {
        // An already closed connection is not an error.
        let _ = self.service.close().await;
    }
}

impl Server {
    fn start(&self, command: &[String]) -> std::io::Result<TokioChildProcess> {
        let mut process = Command::new(&command[0]);
        process.args(&command[1..]);
        if self.options.environment == Environment::Clear {
            process.env_clear();
        }
        process.envs(&self.options.variables);
        let mut process = CommandWrap::from(process);
        process.wrap(KillOnDrop);
        #[cfg(unix)]
        process.wrap(process_wrap::tokio::ProcessGroup::leader());
        let (process, stderr) = TokioChildProcess::builder(process).stderr(Stdio::piped()).spawn()?;
        if let Some(stderr) = stderr {
            self.stderr.follow(stderr);
        }
        Ok(process)
    }

    /// Connects with the `initialize` handshake. If the server rejects it, connects with
    /// `server/discover`. `open` creates the transport for each handshake.
    async fn connect<T, E, A>(
        &self,
        open: impl Fn() -> Result<T, ToolsError>,
    ) -> Result<RunningService<RoleClient, ClientConfig>, ToolsError>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let first = match self.handshake(open()?, ClientLifecycleMode::Initialize).await {
            Ok(service) => return Ok(service),
            Err((reason, true)) => reason,
            Err((reason, false)) => return Err(self.lost(reason).await),
        };
        let preferred_versions = vec![ProtocolVersion::LATEST];
        let discover = ClientLifecycleMode::Discover { preferred_versions };
        match self.handshake(open()?, discover).await {
            Ok(service) => Ok(service),
            Err(_) => Err(self.lost(first).await),
        }
    }

    /// Performs the handshake `way` over `transport`.
    ///
    /// The error consists of the reason and a flag. The flag is true if the server rejected this
    /// handshake, so that another handshake may succeed.
    async fn handshake<T, E, A>(
        &self,
        transport: T,
        way: ClientLifecycleMode,
    ) -> Result<RunningService<RoleClient, ClientConfig>, (String, bool)>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let this = Implementation::new("formwork", env!("CARGO_PKG_VERSION"));
        let config = ClientConfig::new(ClientCapabilities::default(), this)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
        match tokio::time::timeout(self.options.timeout, config.serve_with_lifecycle(transport, way)).await {
            Ok(Ok(service)) => Ok(service),
            Ok(Err(error)) => {
                Err((reason::of_handshake(&error), matches!(error, ClientInitializeError::JsonRpcError(_))))
            }
            Err(_) => Err(("the server took too long to answer".to_owned(), false)),
        }
    }

    /// Returns the standard error output of the server; waits for the rest if the connection ended.
    async fn stderr_after(&self, error: &ServiceError) -> String {
        match error {
            ServiceError::TransportSend(_) | ServiceError::TransportClosed => self.stderr.last_words().await,
            _ => self.stderr.text(),
        }
    }

    /// Builds the error for a failed connection, with the last line of standard error.
    async fn lost(&self, reason: String) -> ToolsError {
        self.fault(reason, &self.stderr.last_words().await)
    }

    fn fault(&self, mut reason: String, stderr: &str) -> ToolsError {
        if let Some(last) = stderr.lines().last() {
            reason = format!("{reason} ({last})");
        }
        Kind::Connect { server: self.name.clone(), reason }.into()
    }
}

/// Tool of an MCP server.
struct McpTool {
    /// Name of the tool on the server.
    name: String,
    peer: Peer<RoleClient>,
    server: Arc<Server>,
}

impl McpTool {
    async fn call(&self, arguments: &Body) -> ToolResult {
        let params = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments.clone());
        let limit = self.server.options.timeout;
        // When this future is dropped, the SDK notifies the server of the cancellation.
        match tokio::time::timeout(limit, self.peer.call_tool(params)).await {
            Ok(Ok(result)) => envelope(result),
            Ok(Err(error)) => ToolResult::failed(self.failure(error).await),
            Err(_) => {
                let message = format!("the tool did not answer within {} seconds", limit.as_secs_f64());
                ToolResult::failed(Problem::new(codes::TIMEOUT, message))
            }
        }
    }

    async fn failure(&self, error: ServiceError) -> Problem {
        match error {
            ServiceError::McpError(error) => {
                Problem::from(error.message.into_owned()).with("rpc_code", error.code.0)
            }
            ServiceError::TransportSend(_) | ServiceError::TransportClosed => {
                let message = format!("the MCP server is unavailable: {}", reason::of_request(&error));
                let problem = Problem::new(codes::TOOL_UNAVAILABLE, message);
                let stderr = self.server.stderr.last_words().await;
                if stderr.is_empty() { problem } else { problem.with("stderr", stderr) }
            }
            other => format!("the MCP server returned no result: {}", reason::of_request(&other)).into(),
        }
    }
}

impl ToolExecutor for McpTool {
    fn execute<'a>(&'a self, arguments: &'a Body) -> BoxFuture<'a, ToolResult> {
        self.call(arguments).boxed()
    }
}

/// Converts a server's result to an envelope.
///
/// Structured content takes precedence over text. A single text block becomes the data itself.
fn envelope(result: CallToolResult) -> ToolResult {
    let mut omitted = 0;
    let blocks: Vec<Value> = result.content.iter().map(|block| told(block, &mut omitted)).collect();
    let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
    let text = texts.collect::<Vec<_>>().join("\n");
    let mut envelope = if result.is_error == Some(true) {
        let message = if text.is_empty() { "the tool failed without a message" } else { text.as_str() };
        ToolResult { data: result.structured_content.unwrap_or_default(), ..ToolResult::failed(message) }
    } else if let Some(structured) = result.structured_content {
        ToolResult::ok(structured)
    } else {
        match &blocks[..] {
            [] => ToolResult::ok(Value::Null),
            [block] if block["type"] == "text" => {
                // Many servers write JSON as text. Only objects and arrays are parsed; numbers and
                // the like stay text.
                let parsed = serde_json::from_str(&text).ok();
                let parsed = parsed.filter(|value: &Value| value.is_object() || value.is_array());
                ToolResult::ok(parsed.unwrap_or(Value::String(text)))
            }
            _ => ToolResult::ok(blocks),
        }
    };
    if omitted > 0 {
        let message = "binary content, such as images and audio, was omitted";
        envelope = envelope.with_warning(Problem::new("CONTENT_OMITTED", message).with("blocks", omitted));
    }
    envelope
}

/// Converts a content block to JSON for the model. Binary content is replaced by its type and size,
/// and counted in `omitted`.
fn told(block: &ContentBlock, omitted: &mut usize) -> Value {
    let mut left_out = |kind: &str, mime_type: &str, data: &str| {
        *omitted += 1;
        json!({ "type": kind, "mime_type": mime_type, "base64_bytes": data.len() })
    };
    match block {
        ContentBlock::Text(text) => json!({ "type": "text", "text": text.text }),
        ContentBlock::Image(image) => left_out("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => left_out("audio", &audio.mime_type, &audio.data),
        ContentBlock::ResourceLink(link) => {
            json!({ "type": "resource_link", "uri": link.uri, "name": link.name })
        }
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                json!({ "type": "resource", "uri": uri, "text": text })
            }
            ResourceContents::BlobResourceContents { uri, blob, mime_type, .. } => {
                let mut told = left_out("resource", mime_type.as_deref().unwrap_or_default(), blob);
                told["uri"] = uri.clone().into();
                told
            }
            _ => json!({ "type": "resource" }),
        },
        _ => json!({ "type": "unknown" }),
    }
}
