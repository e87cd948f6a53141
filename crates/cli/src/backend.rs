//! What answers chats: a model in this process, or a server.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use formwork_engine::EngineOptions;
use formwork_protocol::{ChatBackend, RemoteBackend, Retry};
use formwork_server::{App, LocalBackend, ServedModel, ServerOptions};

use crate::args::OpenArgs;
use crate::load;

#[derive(clap::Args)]
pub(crate) struct BackendArgs {
    /// A model to run here, as for `formwork run` [default: the default model]; with --base-url, its name there.
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// A server of OpenAI's API to ask, such as `https://api.openai.com/v1`.
    #[arg(long, value_name = "URL", requires = "model", conflicts_with_all = ["ctx", "quantize"])]
    pub(crate) base_url: Option<String>,

    /// The environment variable with the server's key.
    #[arg(long, value_name = "VARIABLE", requires = "base_url")]
    pub(crate) api_key_env: Option<String>,

    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

impl BackendArgs {
    /// Whether the model runs here.
    pub(crate) const fn is_local(&self) -> bool {
        self.base_url.is_none()
    }

    /// What answers, and the model's name there. A model that runs here is loaded, without a socket.
    pub(crate) fn open(&self) -> Result<(Arc<dyn ChatBackend>, String)> {
        match &self.base_url {
            Some(url) => self.remote(url),
            None => self.local(),
        }
    }

    fn remote(&self, url: &str) -> Result<(Arc<dyn ChatBackend>, String)> {
        let Some(model) = self.model.clone() else { bail!("--base-url needs --model, its name there") };
        let mut remote = RemoteBackend::new(url)?;
        if let Some(variable) = &self.api_key_env {
            let key = key(variable).with_context(|| format!("--api-key-env {variable}"))?;
            remote = remote.with_key(&key)?;
        }
        Ok((Arc::new(remote.on_retry(tell_retry)), model))
    }

    fn local(&self) -> Result<(Arc<dyn ChatBackend>, String)> {
        let default = || formwork_model::hub::default_manifest().name.clone();
        let model = self.model.clone().unwrap_or_else(default);
        let loaded = load::load(&model, self.open.options(), EngineOptions::default())?;
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

/// A server's key, from the environment.
pub(crate) fn key(variable: &str) -> Result<String> {
    Ok(std::env::var(variable)?.trim().to_owned())
}

/// Says that a request is about to be sent again.
pub(crate) fn tell_retry(retry: &Retry) {
    let (category, pause) = (retry.error.category().name(), retry.pause.as_secs_f64());
    eprintln!("formwork: attempt {} in {pause:.1} s: {category}: {}", retry.attempt, retry.error);
}
