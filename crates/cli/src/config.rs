//! Reads `formwork.toml` and the environment. The protocol crate parses the text.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use formwork_protocol::RemoteBackend;
use formwork_protocol::config::{Config, Provider};

use crate::backend::{self, tell_retry};
use crate::files;

/// Reads and parses the configuration file that `--config` names.
pub(crate) fn read(path: &Path) -> Result<Config> {
    parse(path, &files::read_option("--config", path)?)
}

/// Configuration file to use if none is named.
pub(crate) const FILE: &str = "formwork.toml";

/// Reads the configuration file that `--config` names, or else [`FILE`] in this folder if it
/// exists. Returns its path and contents; without a file, the configuration is empty.
pub(crate) fn find(path: Option<&Path>) -> Result<(Option<PathBuf>, Config)> {
    match path {
        Some(path) => Ok((Some(path.to_owned()), read(path)?)),
        None if Path::new(FILE).exists() => {
            let path = Path::new(FILE);
            Ok((Some(path.to_owned()), parse(path, &files::read_text(path)?)?))
        }
        None => Ok((None, Config::default())),
    }
}

/// Parses the text of a configuration file. The error names the file.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Config> {
    Config::parse(text).map_err(|error| anyhow!("{}: {error}", path.display()))
}

/// Creates the backend of a provider, with the API key from the provider's environment variable.
pub(crate) fn backend(provider: &Provider) -> Result<RemoteBackend> {
    let key = provider.api_key_env.as_deref().map(key_in).transpose()?;
    Ok(provider.backend(key.as_deref())?.on_retry(tell_retry))
}

fn key_in(variable: &str) -> Result<String> {
    backend::key(variable).with_context(|| format!("api_key_env = {variable}"))
}
