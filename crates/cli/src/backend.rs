//! Chat backends of the commands: a model in this process or a remote server.

mod memory;
pub(crate) mod models;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use formwork_model::Device;
use formwork_protocol::config::Config;
use formwork_protocol::{
    Answer, BackendError, Body, Capabilities, ChatBackend, Chunks, Feature, Notice, Retry, StreamReceiver,
};
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::args::{KvCacheArg, OpenArgs};
use crate::config::{self, ConfigFile};
use memory::FileMemory;
use models::OpenedModel;

#[derive(clap::Args)]
pub(crate) struct BackendArgs {
    /// Name of a model in `[models]` of the configuration, or a local model as for `formwork run` [default: the
    /// default model]; with --base-url, name of a model on that server.
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// OpenAI-compatible server to use instead of a local model, such as `https://api.openai.com/v1`.
    #[arg(long, value_name = "URL", requires = "model", conflicts_with_all = ["ctx", "quantize", "threads", "device"])]
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

    /// Configuration file with models, providers and defaults [default: ./formwork.toml, if it exists].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

impl BackendArgs {
    /// Reports whether the model of the command line runs in this process.
    pub(crate) fn is_local(&self) -> bool {
        self.base_url.is_none() && !self.configuration().is_ok_and(|file| self.is_of_provider(&file.config))
    }

    fn is_of_provider(&self, config: &Config) -> bool {
        let model = self.model.as_ref().and_then(|name| config.models.get(name));
        model.is_some_and(|model| config.providers.contains_key(&model.provider))
    }

    /// Returns the path of the configuration file, whether the file exists or not.
    pub(crate) fn configuration_path(&self) -> &Path {
        self.config.as_deref().unwrap_or(Path::new(config::FILE))
    }

    /// Reads the configuration that `--config` names, or else ./formwork.toml.
    pub(crate) fn configuration(&self) -> Result<ConfigFile> {
        config::load(self.config.as_deref())
    }

    /// Refuses `--model` and `--base-url` if a run with the models `names` uses neither. `None` stands
    /// for the model of the command line, and `named` says where the other names come from.
    pub(crate) fn check_named(&self, config: &Config, names: &[Option<&str>], named: &str) -> Result<()> {
        if names.contains(&None) {
            return Ok(());
        }
        // A name that is not in the configuration is a model of the server.
        let has_server = names.iter().flatten().any(|name| !config.models.contains_key(*name));
        if self.base_url.is_some() && !has_server {
            bail!("--base-url has no effect: {named}");
        }
        let is_named = |model: &String| self.base_url.is_some() && names.contains(&Some(model.as_str()));
        if self.model.as_ref().is_some_and(|model| !is_named(model)) {
            bail!("--model has no effect: {named}");
        }
        Ok(())
    }

    /// Refuses the options that only a model in this process uses.
    pub(crate) fn check_remote(&self) -> Result<()> {
        let OpenArgs {
            ctx,
            quantize,
            device,
            gpu_layers,
            cpu_experts,
            gpu_memory,
            threads,
            kv_cache,
            state_cache,
            draft,
            chat_template,
        } = &self.open;
        let options = [
            ("--ctx", ctx.is_some()),
            ("--quantize", quantize.is_some()),
            ("--device", *device != Device::Auto),
            ("--gpu-layers", gpu_layers.is_some()),
            ("--cpu-experts", cpu_experts.is_some()),
            ("--gpu-memory", gpu_memory.is_some()),
            ("--threads", threads.is_some()),
            ("--kv-cache", *kv_cache != KvCacheArg::Auto),
            ("--state-cache", state_cache.is_some()),
            ("--draft", draft.is_some()),
            ("--chat-template", chat_template.is_some()),
        ];
        for (option, is_given) in options {
            if is_given {
                bail!("{option} has no effect: no model of this run is loaded into this process");
            }
        }
        Ok(())
    }

    /// Opens the model of the command line; returns its backend with the model's name there. A
    /// local model is loaded into this process and called without a socket. Requests get the default
    /// fields of the configuration.
    pub(crate) fn open(&self) -> Result<(Arc<dyn ChatBackend>, String)> {
        let config = self.configuration()?.config;
        match models::open(self, &config, [None])?.remove(&None::<String>) {
            Some(OpenedModel { backend, id, defaults }) if defaults.is_empty() => Ok((backend, id)),
            Some(OpenedModel { backend, id, defaults }) => {
                Ok((Arc::new(Defaulted { backend, defaults }), id))
            }
            None => bail!("no model"),
        }
    }
}

/// Backend whose requests have default fields.
struct Defaulted {
    backend: Arc<dyn ChatBackend>,
    defaults: Body,
}

impl Defaulted {
    fn completed(&self, body: &Body) -> Body {
        let mut all = self.defaults.clone();
        all.extend(body.clone());
        all
    }
}

impl ChatBackend for Defaulted {
    fn name(&self) -> &str {
        self.backend.name()
    }

    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>> {
        let body = self.completed(body);
        Box::pin(async move { self.backend.chat(&body).await })
    }

    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        let body = self.completed(body);
        Box::pin(async move { self.backend.stream(&body).await })
    }

    fn chat_streamed<'a>(
        &'a self,
        body: &'a Body,
        receiver: StreamReceiver<'a>,
    ) -> BoxFuture<'a, Result<Answer, BackendError>> {
        let body = self.completed(body);
        Box::pin(async move { self.backend.chat_streamed(&body, receiver).await })
    }

    fn decide<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Value, BackendError>> {
        self.backend.decide(body)
    }

    fn known_capabilities(&self, model: &str) -> Option<Capabilities> {
        self.backend.known_capabilities(model)
    }

    fn capabilities<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        self.backend.capabilities(model)
    }

    fn supports<'a>(&'a self, model: &'a str, feature: Feature) -> BoxFuture<'a, Result<bool, BackendError>> {
        self.backend.supports(model, feature)
    }

    fn refute(&self, model: &str, feature: Feature) {
        self.backend.refute(model, feature);
    }

    fn remembered_in(&self, model: &str) -> Option<String> {
        self.backend.remembered_in(model)
    }

    fn confirm(&self, model: &str, feature: Feature) {
        self.backend.confirm(model, feature);
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

/// Reports on standard error what was found out about a server.
pub(crate) fn tell_notice(notice: &Notice) {
    eprintln!("formwork: {notice}");
}
