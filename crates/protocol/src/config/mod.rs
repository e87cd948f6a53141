//! The configuration file, `formwork.toml`: defaults of adaptation, providers, models and sampling profiles.
//!
//! A [`Config`] is read from text; who has the text, and the keys that it only names by their variables, is the caller's business. All
//! of it is checked when it is read: names that are referred to exist, numbers are such as are taken, addresses are addresses. What
//! is wrong is told by its key and line ([`ConfigError`]). Whatever a call says itself comes before what is said here.
//!
//! `grammars/formwork.toml` is an example with every key.

mod aros;
mod check;
mod error;
mod place;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

pub use aros::{AnyOfStrategy, Aros, OutputProcessing, StructuredOutput};
pub use error::ConfigError;

use crate::catalogue::{self, Verdict, Workaround};
use crate::sampling::{DEFAULT_PROFILE, ModelPattern, Profiles, Sampling, SamplingProfile};
use crate::{BackendError, Body, RemoteBackend, RetryPolicy};

/// The provider that needs no entry: the engine in this process.
pub const LOCAL_PROVIDER: &str = "local";

/// The providers whose quirks are known, besides the engine in this process.
pub const PROVIDER_PRESETS: [&str; 3] = ["openai", "openrouter", "formwork"];

/// A whole configuration file.
///
/// ```
/// use formwork_protocol::config::Config;
/// let config = Config::parse(
///     r#"
///     [providers.router]
///     base_url = "https://openrouter.ai/api"
///     api_key_env = "OPENROUTER_API_KEY"
///     preset = "openrouter"
///
///     [models.glm]
///     provider = "router"
///     model = "z-ai/glm-4.7"
///     "#,
/// )?;
/// assert_eq!(config.models["glm"].profile(), "default");
/// let error = Config::parse("[models.glm]\nprovider = \"ruoter\"\nmodel = \"z-ai/glm-4.7\"").unwrap_err();
/// assert_eq!(error.to_string(), "line 2: `models.glm.provider`: there is no `ruoter`, but local");
/// # Ok::<(), formwork_protocol::config::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Defaults of adaptation.
    #[serde(default)]
    pub aros: Aros,
    /// Servers by their names.
    #[serde(default)]
    pub providers: BTreeMap<String, Provider>,
    /// Models by their names.
    #[serde(default)]
    pub models: BTreeMap<String, Model>,
    /// Sampling profiles by their names, besides the predefined ones or in place of them.
    #[serde(default)]
    pub sampling_profiles: BTreeMap<String, Profile>,
}

/// A server that speaks `OpenAI`'s protocol.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Its address.
    pub base_url: String,
    /// What comes between the address and the endpoint; by default `/v1`, or nothing where the address ends in a version.
    pub api_prefix: Option<String>,
    /// The environment variable that has the key.
    pub api_key_env: Option<String>,
    /// Headers that every request has.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// How requests that fail are sent again.
    #[serde(default)]
    pub retry: Retry,
    /// How long an answer may take, in seconds.
    pub timeout: Option<f64>,
    /// The name under which its quirks are known.
    pub preset: Option<String>,
    /// Fields that requests have unless they say otherwise.
    #[serde(default)]
    pub llm_options_defaults: Body,
}

/// How requests that fail are sent again; times are in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// How often at most, after the first time.
    pub retries: Option<u32>,
    /// The pause before the first retry.
    pub first: Option<f64>,
    /// The longest pause.
    pub longest: Option<f64>,
    /// When to give up.
    pub deadline: Option<f64>,
}

/// A model of a provider. What is left out comes from the catalogue, where the model has an entry.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The provider's name.
    #[serde(default = "local_provider")]
    pub provider: String,
    /// The model's name at the provider.
    pub model: String,
    /// The sampling profile that suits it.
    pub profile: Option<String>,
    /// What is worked around.
    pub presets: Option<Vec<Workaround>>,
    /// Whether to use it for tools.
    pub verdict: Option<Verdict>,
    /// What the verdict rests on.
    pub notes: Option<String>,
}

/// A sampling profile.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// 0 always takes the likeliest token.
    pub temperature: Option<f64>,
    /// The share of probability that the likeliest tokens must reach together.
    pub top_p: Option<f64>,
    /// How many of the likeliest tokens are kept; 0 keeps all.
    pub top_k: Option<u32>,
    /// How likely a token must be relative to the likeliest.
    pub min_p: Option<f64>,
    /// The models that it is for, with `*` for any characters; none are all.
    #[serde(default)]
    pub models: Vec<ModelPattern>,
    /// The groups that it is part of.
    #[serde(default)]
    pub groups: Vec<String>,
}

fn local_provider() -> String {
    LOCAL_PROVIDER.to_owned()
}

impl Config {
    /// Reads a file's text, and checks it.
    ///
    /// # Errors
    /// When it is not TOML, has a key that is not known, or a value that is not taken.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|error| ConfigError::of_toml(text, &error))?;
        check::check(&config).map_err(|fault| ConfigError::of_fault(text, fault))?;
        Ok(config)
    }

    /// The predefined sampling profiles with those of the file.
    pub fn profiles(&self) -> Profiles {
        let mut profiles = Profiles::predefined();
        for (name, profile) in &self.sampling_profiles {
            profiles.insert(SamplingProfile {
                name: name.clone(),
                groups: profile.groups.clone(),
                models: profile.models.clone(),
                sampling: profile.sampling(),
            });
        }
        profiles
    }
}

impl Provider {
    /// A server of which nothing but the address is known.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_prefix: None,
            api_key_env: None,
            headers: BTreeMap::new(),
            retry: Retry::default(),
            timeout: None,
            preset: None,
            llm_options_defaults: Body::new(),
        }
    }

    /// The server, with its key.
    ///
    /// # Errors
    /// When the address is none, or a header or the key has characters that it may not have.
    pub fn backend(&self, key: Option<&str>) -> Result<RemoteBackend, BackendError> {
        let mut backend = match &self.api_prefix {
            Some(prefix) => RemoteBackend::with_prefix(&self.base_url, prefix)?,
            None => RemoteBackend::new(&self.base_url)?,
        };
        for (name, value) in &self.headers {
            backend = backend.with_header(name, value)?;
        }
        if let Some(key) = key {
            backend = backend.with_key(key)?;
        }
        if let Some(timeout) = self.timeout.and_then(seconds) {
            backend = backend.with_timeout(timeout);
        }
        Ok(backend.with_retry(self.retry.policy()))
    }
}

impl Retry {
    fn policy(self) -> RetryPolicy {
        let usual = RetryPolicy::default();
        RetryPolicy {
            retries: self.retries.unwrap_or(usual.retries),
            first: self.first.and_then(seconds).unwrap_or(usual.first),
            longest: self.longest.and_then(seconds).unwrap_or(usual.longest),
            deadline: self.deadline.and_then(seconds).or(usual.deadline),
        }
    }
}

impl Model {
    /// The sampling profile that suits it.
    pub fn profile(&self) -> &str {
        let known = catalogue::find(&self.model).map_or(DEFAULT_PROFILE, catalogue::CatalogueEntry::profile);
        self.profile.as_deref().unwrap_or(known)
    }

    /// What is worked around.
    pub fn workarounds(&self) -> &[Workaround] {
        let known = || catalogue::find(&self.model).map_or(&[][..], |entry| entry.workarounds);
        self.presets.as_deref().unwrap_or_else(known)
    }

    /// Whether to use it for tools, where that is known.
    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict.or_else(|| catalogue::find(&self.model).map(|entry| entry.verdict))
    }
}

impl Profile {
    fn sampling(&self) -> Sampling {
        Sampling { temperature: self.temperature, top_p: self.top_p, top_k: self.top_k, min_p: self.min_p }
    }
}

/// Those that are checked to be times are some.
fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests;
