use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::manifest::{Manifest, manifests};

/// Where models are kept and fetched from.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// The folder for files that Python packages carry, and for what is remembered about checked files.
    pub cache: PathBuf,
    /// The Hugging Face hub's own cache, which other programs share.
    pub hub_cache: PathBuf,
    /// The hub's address; hf-hub's default when absent.
    pub endpoint: Option<String>,
    /// The token to show to the hub.
    pub token: Option<AccessToken>,
    /// Whether the hub may be asked.
    pub use_hub: bool,
    /// Whether nothing at all may be fetched.
    pub offline: bool,
    /// How long the hub has to give a first answer.
    pub patience: Duration,
    /// The models with a short name, the default first.
    pub manifests: Vec<Manifest>,
    /// The programs that may be pip, in the order to try.
    pub pip: Vec<PipCommand>,
}

/// A token for the hub, which does not show in debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(pub String);

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

/// A program with the arguments that make it pip.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PipCommand {
    /// The program, looked up as the operating system does.
    pub program: PathBuf,
    /// What comes before pip's own arguments.
    pub arguments: Vec<OsString>,
}

impl PipCommand {
    /// `program` with `arguments`.
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
    /// The usual sources, with the two caches at `cache` and `hub_cache`.
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

    /// What the environment asks for; `variable` looks a variable up.
    ///
    /// Read are `FORMWORK_CACHE`, `XDG_CACHE_HOME`, `HOME` (or `USERPROFILE`), and as the hub's own clients do `HF_HOME`,
    /// `HF_HUB_CACHE`, `HF_ENDPOINT`, `HF_TOKEN`, `HF_TOKEN_PATH` (else the token file in `HF_HOME`) and
    /// `HF_HUB_OFFLINE`. An empty variable counts as absent.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let folder = |name: &str| variable(name).map(PathBuf::from);
        let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());

        let home = folder("HOME").or_else(|| folder("USERPROFILE")).unwrap_or_default();
        let caches = folder("XDG_CACHE_HOME").unwrap_or_else(|| home.join(".cache"));
        let hub_home = folder("HF_HOME").unwrap_or_else(|| caches.join("huggingface"));
        let cache = folder("FORMWORK_CACHE").unwrap_or_else(|| caches.join("formwork"));
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
