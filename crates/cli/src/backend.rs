//! Chat backends of the commands: a model in this process or a remote server.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use formwork_engine::EngineOptions;
use formwork_protocol::{ChatBackend, RemoteBackend, Retry, RetryPolicy};
use formwork_server::{App, LocalBackend, ServedModel, ServerOptions};

use crate::args::OpenArgs;
use crate::load;

#[derive(clap::Args)]
pub(crate) struct BackendArgs {
    /// Local model, as for `formwork run` [default: the default model]; with --base-url, name of a model on
    /// that server.
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// OpenAI-compatible server to use instead of a local model, such as `https://api.openai.com/v1`.
    #[arg(long, value_name = "URL", requires = "model", conflicts_with_all = ["ctx", "quantize"])]
    pub(crate) base_url: Option<String>,

    /// Path between the server's URL and its endpoints [default: `/v1`, or empty if the URL ends in a version].
    #[arg(long, value_name = "PATH", requires = "base_url")]
    pub(crate) api_prefix: Option<String>,

    /// Environment variable with the server's API key.
    #[arg(long, value_name = "VARIABLE", requires = "base_url")]
    pub(crate) api_key_env: Option<String>,

    /// Time limit for retrying a busy server, in seconds [default: 3 retries without a time limit].
    #[arg(long, value_name = "SECONDS", requires = "base_url")]
    pub(crate) retry_deadline: Option<u64>,

    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

impl BackendArgs {
    /// Reports whether the model runs in this process.
    pub(crate) const fn is_local(&self) -> bool {
        self.base_url.is_none()
    }

    /// Opens the backend; returns it with the model's name there. A local model is loaded into this
    /// process and called without a socket.
    pub(crate) fn open(&self) -> Result<(Arc<dyn ChatBackend>, String)> {
        match &self.base_url {
            Some(url) => self.remote(url),
            None => {
                let default = || formwork_model::hub::default_manifest().name.clone();
                self.open_local(&self.model.clone().unwrap_or_else(default))
            }
        }
    }

    fn remote(&self, url: &str) -> Result<(Arc<dyn ChatBackend>, String)> {
        let Some(model) = self.model.clone() else {
            bail!("--base-url requires --model, the name of a model on that server")
        };
        let mut remote = match &self.api_prefix {
            Some(prefix) => RemoteBackend::with_prefix(url, prefix)?,
            None => RemoteBackend::new(url)?,
        };
        if let Some(variable) = &self.api_key_env {
            let key = key(variable).with_context(|| format!("--api-key-env {variable}"))?;
            remote = remote.with_key(&key)?;
        }
        let deadline = self.retry_deadline.map(Duration::from_secs);
        let remote = remote.with_retry(RetryPolicy { deadline, ..RetryPolicy::default() });
        Ok((Arc::new(remote.on_retry(tell_retry)), model))
    }

    /// Loads the local model `model` into this process.
    pub(crate) fn open_local(&self, model: &str) -> Result<(Arc<dyn ChatBackend>, String)> {
        let loaded = load::load(model, self.open.options(), EngineOptions::default())?;
        let served = ServedModel {
            id: loaded.name.clone(),
            aliases: Vec::new(),
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            engine: loaded.engine,
            template: loaded.template,
        };
        let app = App::new(vec![served], ServerOptions::default())?;
        Ok((Arc::new(LocalBackend::new(app)), loaded.name))
    }
}

/// Reads a server's API key from an environment variable.
pub(crate) fn key(variable: &str) -> Result<String> {
    Ok(std::env::var(variable)?.trim().to_owned())
}

/// Reports on standard error that a request is about to be sent again, or that the model is asked
/// for a repair.
pub(crate) fn tell_retry(retry: &Retry) {
    if retry.is_schema_repair {
        let most = retry.max_attempts.unwrap_or_default();
        eprintln!("formwork: repair {}/{most}: {}", retry.attempt, retry.cause);
        return;
    }
    let (category, pause) = (retry.cause.name(), retry.pause.as_secs_f64());
    eprintln!("formwork: retrying in {pause:.1} s (attempt {}): {category}: {}", retry.attempt, retry.cause);
}
