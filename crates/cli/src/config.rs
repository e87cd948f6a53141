//! Reads `formwork.toml` and the environment. The protocol crate parses the text.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use formwork_protocol::config::Config;

use crate::files;

/// Configuration file to use if none is named.
pub(crate) const FILE: &str = "formwork.toml";

/// A configuration and the path of its file, if there is one.
#[derive(Default)]
pub(crate) struct ConfigFile {
    pub(crate) path: Option<PathBuf>,
    pub(crate) config: Config,
}

/// Reads the configuration file that `--config` names, or else `formwork.toml` in the current
/// folder. Without either, all settings have their defaults.
pub(crate) fn load(named: Option<&Path>) -> Result<ConfigFile> {
    if let Some(path) = named {
        return Ok(ConfigFile { path: Some(path.to_owned()), config: read(path)? });
    }
    let path = Path::new(FILE);
    if !path.exists() {
        return Ok(ConfigFile::default());
    }
    Ok(ConfigFile { path: Some(path.to_owned()), config: parse(path, &files::read_text(path)?)? })
}

/// Reads and parses the configuration file that `--config` names.
pub(crate) fn read(path: &Path) -> Result<Config> {
    parse(path, &files::read_option("--config", path)?)
}

/// Parses the text of a configuration file. The error names the file.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Config> {
    Config::parse(text).map_err(|error| anyhow!("{}: {error}", path.display()))
}
