//! `formwork.toml`: the library reads its text, and here are the file and the environment.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use formwork_protocol::RemoteBackend;
use formwork_protocol::config::{Config, Provider};

use crate::backend::{self, tell_retry};
use crate::load;

/// The configuration in a file.
pub(crate) fn read(path: &Path) -> Result<Config> {
    Config::parse(&load::read_text(path)?).map_err(|error| anyhow!("{}: {error}", path.display()))
}

/// A provider's server, with the key that is in its variable.
pub(crate) fn backend(provider: &Provider) -> Result<RemoteBackend> {
    let key = provider.api_key_env.as_deref().map(key_in).transpose()?;
    Ok(provider.backend(key.as_deref())?.on_retry(tell_retry))
}

fn key_in(variable: &str) -> Result<String> {
    backend::key(variable).with_context(|| format!("the key's variable {variable}"))
}
