//! Tools that the server's operator offers to requests.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use formwork_protocol::sampling::Profiles;
use formwork_protocol::tools::{McpClient, McpOptions, Preset, ToolRegistry, ToolsError, UrlPrefix};
use tokio::sync::Semaphore;

/// Tools that requests to `/v1/tools/run` may use. Cheap to clone.
///
/// A request names tools and MCP servers. It cannot contain commands, and the addresses of its
/// callbacks must be below one of the prefixes.
#[derive(Clone)]
pub struct HostedTools {
    /// Tools that requests may name.
    pub registry: Arc<ToolRegistry>,
    /// MCP servers that requests may name. Each run has its own connection.
    pub mcp: Arc<BTreeMap<String, McpServer>>,
    /// Addresses that requests may call.
    pub callbacks: Arc<Vec<CallbackHost>>,
    /// Options of runs that requests do not set.
    pub defaults: Preset,
    /// Sampling profiles that requests may name.
    pub profiles: Profiles,
    /// Maximum value of `max_turns` in a request.
    pub max_turns: NonZeroUsize,
    /// Permits for runs.
    runs: Arc<Semaphore>,
}

impl HostedTools {
    /// Maximum number of runs at the same time, unless [`HostedTools::with_max_runs`] sets it.
    pub const MAX_RUNS: usize = 32;

    /// Creates a set of tools that is offered to requests. Requests may have up to 100 turns.
    pub fn new(
        registry: ToolRegistry,
        mcp: BTreeMap<String, McpServer>,
        callbacks: Vec<CallbackHost>,
    ) -> Self {
        Self {
            registry: Arc::new(registry),
            mcp: Arc::new(mcp),
            callbacks: Arc::new(callbacks),
            defaults: Preset::default(),
            profiles: Profiles::predefined(),
            max_turns: const { NonZeroUsize::new(100).expect("not zero") },
            runs: Arc::new(Semaphore::new(Self::MAX_RUNS)),
        }
    }

    /// Sets the maximum number of runs at the same time. Further requests are rejected with status
    /// 503.
    #[must_use]
    pub fn with_max_runs(mut self, runs: NonZeroUsize) -> Self {
        self.runs = Arc::new(Semaphore::new(runs.get()));
        self
    }

    /// Returns a permit for a run, or `None` if there are too many.
    pub(super) fn permit(&self) -> Option<tokio::sync::OwnedSemaphorePermit> {
        Arc::clone(&self.runs).try_acquire_owned().ok()
    }

    /// Returns the entry that allows calling `url`.
    pub(super) fn callback(&self, url: &str) -> Option<&CallbackHost> {
        self.callbacks.iter().find(|host| host.prefix.covers(url))
    }
}

impl Default for HostedTools {
    /// Returns a set without tools, servers and addresses.
    fn default() -> Self {
        Self::new(ToolRegistry::new(), BTreeMap::new(), Vec::new())
    }
}

/// MCP server of the operator.
#[derive(Clone, Debug)]
pub struct McpServer {
    /// Address of the server.
    pub target: McpTarget,
    /// Options of the connections.
    pub options: McpOptions,
}

/// Address of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpTarget {
    /// Program with its arguments, which is started for each run.
    Command(Vec<String>),
    /// URL of a server over streamable HTTP.
    Url(String),
}

impl McpServer {
    /// Connects to the server.
    ///
    /// # Errors
    /// Returns an error if the server cannot be started or reached.
    pub async fn connect(&self) -> Result<McpClient, ToolsError> {
        match &self.target {
            McpTarget::Command(command) => McpClient::spawn(command.clone(), self.options.clone()).await,
            McpTarget::Url(url) => McpClient::http(url, self.options.clone()).await,
        }
    }
}

/// Addresses that callbacks of a request may have.
#[derive(Clone, Debug)]
pub struct CallbackHost {
    /// Prefix of the addresses.
    pub prefix: UrlPrefix,
    /// Key sent as `authorization: Bearer KEY`. Requests do not see it.
    pub bearer: Option<String>,
    /// Timeout of each call.
    pub timeout: Duration,
    /// Maximum size of a response in bytes.
    pub output_limit: usize,
}

impl CallbackHost {
    /// Creates an entry without a key, with a timeout of 30 seconds and a limit of 1 MiB.
    ///
    /// # Errors
    /// Returns an error if `prefix` is not the URL of an HTTP server.
    pub fn new(prefix: &str) -> Result<Self, ToolsError> {
        let prefix = UrlPrefix::new(prefix)?;
        Ok(Self { prefix, bearer: None, timeout: Duration::from_secs(30), output_limit: 1 << 20 })
    }
}
