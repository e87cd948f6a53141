//! `formwork.toml`: the library reads its text, and here are the file and the environment.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use formwork_protocol::config::{Config, Provider};
use formwork_protocol::{RemoteBackend, Retry};

use crate::load;

/// The configuration in a file.
pub(crate) fn read(path: &Path) -> Result<Config> {
    Config::parse(&load::read_text(path)?).map_err(|error| anyhow!("{}: {error}", path.display()))
}

/// A provider's server, with the key that is in its variable. Retries are told on standard error.
pub(crate) fn backend(provider: &Provider) -> Result<RemoteBackend> {
    let key = provider.api_key_env.as_deref().map(variable).transpose()?;
    Ok(provider.backend(key.as_deref())?.on_retry(told))
}

fn variable(name: &str) -> Result<String> {
    std::env::var(name).with_context(|| format!("the key's variable {name}"))
}

fn told(retry: &Retry) {
    let Retry { error, attempt, pause } = retry;
    tracing::warn!(attempt, seconds = pause.as_secs_f64(), %error, "trying again");
}
