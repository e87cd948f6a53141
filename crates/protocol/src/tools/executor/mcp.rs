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
use super::tail::Tail;
use super::{Environment, ToolExecutor, reason};
use crate::Body;

/// How an MCP server is used.
#[derive(Clone, Debug)]
pub struct McpOptions {
    /// What its tools' names begin with here, so that servers whose tools have the same names can be used together.
    pub prefix: String,
    /// How long it may take to start, to list its tools, and to answer each call.
    pub timeout: Duration,
    /// A key that is sent as `authorization: Bearer KEY`; of servers over HTTP.
    pub bearer: Option<String>,
    /// Which variables it is started with; of servers that are started.
    pub environment: Environment,
    /// Variables besides those.
    pub variables: BTreeMap<String, String>,
}

impl Default for McpOptions {
    /// No prefix, a minute, no key, the variables of this process.
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

/// A connection to an MCP server, through the protocol's official SDK. Its tools run as long as it lives.
///
/// Servers are spoken to by the handshake that nearly all of them have; one that refuses it is asked by `server/discover`, which
/// took its place in 2026-07-28. Servers are offered no capabilities: none may sample from the model or ask its user.
pub struct McpClient {
    service: RunningService<RoleClient, ClientConfig>,
    server: Arc<Server>,
}

/// What is known of a server, for its tools to tell.
struct Server {
    name: String,
    options: McpOptions,
    stderr: Tail,
}

impl McpClient {
    /// Starts a server and speaks to it over its standard input and output. No shell is in between.
    ///
    /// # Errors
    /// When it does not start, or is no MCP server.
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

    /// Speaks to a server over streamable HTTP.
    ///
    /// # Errors
    /// When `url` is not that of an MCP server.
    pub async fn http(url: &str, options: McpOptions) -> Result<Self, ToolsError> {
        let fault = |reason: String| Kind::Url { given: url.to_owned(), reason };
        let parsed = reqwest::Url::parse(url).map_err(|error| fault(error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(fault(format!("its scheme is {}", parsed.scheme())).into());
        }
        // Another provider of TLS may be there already, and is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = Server { name: url.to_owned(), options, stderr: Tail::default() };
        let mut config = StreamableHttpClientTransportConfig::with_uri(url);
        config.auth_header.clone_from(&server.options.bearer);
        let service =
            server.connect(|| Ok(StreamableHttpClientTransport::from_config(config.clone()))).await?;
        Ok(Self { service, server: Arc::new(server) })
    }

    /// Speaks to a server over a pair of pipes.
    ///
    /// # Errors
    /// When there is no MCP server behind them.
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

    /// The tools that the server has, all pages of them, and why others of them cannot be used.
    ///
    /// # Errors
    /// When the server does not tell.
    pub async fn tools(&self) -> Result<(Vec<Tool>, Vec<ToolsError>), ToolsError> {
        let listed = tokio::time::timeout(self.server.options.timeout, self.service.peer().list_all_tools());
        let listed = match listed.await {
            Ok(Ok(listed)) => listed,
            Ok(Err(error)) => {
                let stderr = self.server.stderr_after(&error).await;
                return Err(self.server.fault(reason::of_request(&error), &stderr));
            }
            Err(_) => {
                return Err(self.server.fault("it took too long".to_owned(), &self.server.stderr.text()));
            }
        };
        let (mut tools, mut refused) = (Vec::new(), Vec::new());
        for listed in listed {
            let name = format!("{}{}", self.server.options.prefix, listed.name);
            // Names may have dots and slashes there, which providers do not take.
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

    /// Ends the connection, and with it a server that was started: it gets some seconds to end by itself.
    pub async fn close(mut self) {
        // Whether it was there to be closed makes no difference.
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

    /// Shakes hands over what `open` opens, in the way of the server's generation.
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

    /// The connection, or why there is none, and whether another way of asking may get one.
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
            Err(_) => Err(("it took too long to answer".to_owned(), false)),
        }
    }

    /// What the server has written to standard error, to the last where it has ended.
    async fn stderr_after(&self, error: &ServiceError) -> String {
        match error {
            ServiceError::TransportSend(_) | ServiceError::TransportClosed => self.stderr.last_words().await,
            _ => self.stderr.text(),
        }
    }

    /// Why there is no connection any more.
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

/// One tool of a server.
struct McpTool {
    /// Its name there.
    name: String,
    peer: Peer<RoleClient>,
    server: Arc<Server>,
}

impl McpTool {
    async fn call(&self, arguments: &Body) -> ToolResult {
        let params = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments.clone());
        let limit = self.server.options.timeout;
        // When the call is dropped, the SDK tells the server that it is off.
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
                let message = format!("the MCP server cannot be asked: {}", reason::of_request(&error));
                let problem = Problem::new(codes::TOOL_UNAVAILABLE, message);
                let stderr = self.server.stderr.last_words().await;
                if stderr.is_empty() { problem } else { problem.with("stderr", stderr) }
            }
            other => format!("the MCP server gives no result: {}", reason::of_request(&other)).into(),
        }
    }
}

impl ToolExecutor for McpTool {
    fn execute<'a>(&'a self, arguments: &'a Body) -> BoxFuture<'a, ToolResult> {
        self.call(arguments).boxed()
    }
}

/// What a server answers, as an envelope: what is structured before what is text, and one text as itself.
fn envelope(result: CallToolResult) -> ToolResult {
    let mut omitted = 0;
    let blocks: Vec<Value> = result.content.iter().map(|block| told(block, &mut omitted)).collect();
    let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
    let text = texts.collect::<Vec<_>>().join("\n");
    let mut envelope = if result.is_error == Some(true) {
        let message = if text.is_empty() { "the tool failed without saying why" } else { text.as_str() };
        ToolResult { data: result.structured_content.unwrap_or_default(), ..ToolResult::failed(message) }
    } else if let Some(structured) = result.structured_content {
        ToolResult::ok(structured)
    } else {
        match &blocks[..] {
            [] => ToolResult::ok(Value::Null),
            [block] if block["type"] == "text" => {
                // Many servers write JSON as text; numbers and the like are left as they were written.
                let parsed = serde_json::from_str(&text).ok();
                let parsed = parsed.filter(|value: &Value| value.is_object() || value.is_array());
                ToolResult::ok(parsed.unwrap_or(Value::String(text)))
            }
            _ => ToolResult::ok(blocks),
        }
    };
    if omitted > 0 {
        let message = "images, sound and other bytes are left out";
        envelope = envelope.with_warning(Problem::new("CONTENT_OMITTED", message).with("blocks", omitted));
    }
    envelope
}

/// A block as a model can read it: of what is not text only what it is.
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
