//! The configuration file, `formwork.toml`. It defines defaults of adaptation, providers, models,
//! sampling profiles, options of tool loops and the location of traces.
//!
//! A [`Config`] is parsed from text. The caller reads the file, and also the API keys, for which
//! the file only names environment variables. Parsing checks everything: names must exist, numbers
//! must be in range, and addresses must be valid. A [`ConfigError`] reports the key and line of an
//! error. Values given in a call override the configuration.
//!
//! `grammars/formwork.toml` of the repository is an example with every key.

mod aros;
mod check;
mod error;
pub(crate) mod place;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

pub use crate::adapt::{AnyOfStrategy, OutputProcessing};
pub use aros::{Aros, StructuredOutput};
pub use error::ConfigError;

use crate::catalogue::{self, Verdict, Workaround};
use crate::directives::{Mode, Preset as DirectivesPreset, presets};
use crate::sampling::{DEFAULT_PROFILE, ModelPattern, Profiles, Sampling, SamplingProfile};
use crate::{BackendError, Body, Dialect, Feature, RemoteBackend, RetryPolicy, TokenLimitField};

/// Name of the provider that needs no entry: the engine in this process.
pub const LOCAL_PROVIDER: &str = "local";

/// Remote providers with known quirks.
pub const PROVIDER_PRESETS: [&str; 4] = ["openai", "openrouter", "volcanoengine", "formwork"];

/// A configuration file.
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
/// let misspelt = "[models.glm]\nprovider = \"ruoter\"\nmodel = \"z-ai/glm-4.7\"";
/// let error = Config::parse(misspelt).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "line 2: `models.glm.provider`: unknown name `ruoter`; expected one of local"
/// );
/// # Ok::<(), formwork_protocol::config::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Defaults of adaptation.
    #[serde(default)]
    pub aros: Aros,
    /// Providers by name.
    #[serde(default)]
    pub providers: BTreeMap<String, Provider>,
    /// Models by name.
    #[serde(default)]
    pub models: BTreeMap<String, Model>,
    /// Sampling profiles by name. They extend the predefined profiles, or replace those with the
    /// same name.
    #[serde(default)]
    pub sampling_profiles: BTreeMap<String, Profile>,
    /// Options of tool loops, with the fields of
    /// [`ToolCallingOptions`](crate::tools::ToolCallingOptions).
    #[serde(default)]
    pub tool_calling: crate::tools::Preset,
    /// Location of traces.
    #[serde(default)]
    pub traces: Traces,
}

/// Location of traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traces {
    /// Path of the database. A relative path is relative to the folder of the configuration file;
    /// the caller resolves it.
    pub database: Option<PathBuf>,
}

/// A server that implements the `OpenAI` protocol.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// URL of the server.
    pub base_url: String,
    /// Path between the URL and the endpoint. By default `/v1`, or empty if the URL ends in a
    /// version.
    pub api_prefix: Option<String>,
    /// Name of the environment variable that contains the API key.
    pub api_key_env: Option<String>,
    /// Headers of every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Retries of failed requests.
    #[serde(default)]
    pub retry: Retry,
    /// Timeout for an answer, in seconds; 600 by default.
    pub timeout: Option<f64>,
    /// Name of the quirks preset, one of [`PROVIDER_PRESETS`].
    pub preset: Option<String>,
    /// Default values of request fields. A request can override them.
    #[serde(default)]
    pub llm_options_defaults: Body,
    /// Settings for requesting directives. They override those of `preset`.
    #[serde(default)]
    pub directives: DirectivesPreset,
    /// Constraints that the server enforces for all its models. If unset, each model is probed once
    /// for each constraint that is needed.
    pub capabilities: Option<Vec<Feature>>,
    /// Name of the field that limits the tokens of an answer. If unset, the name is learned from
    /// refused requests.
    pub token_limit_field: Option<TokenLimitField>,
    /// False if the server refuses requests that set `temperature`. If unset, this is learned from
    /// refused requests.
    pub accepts_temperature: Option<bool>,
}

/// Retries of failed requests. Unset fields use the defaults of [`RetryPolicy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Maximum number of retries, not counting the first attempt.
    pub retries: Option<u32>,
    /// Pause before the first retry, in seconds.
    pub first: Option<f64>,
    /// Maximum pause, in seconds. A server can ask for a longer pause.
    pub longest: Option<f64>,
    /// Time limit for retries, in seconds from the first attempt. With a deadline set, rate-limited
    /// requests (429) ignore `retries`.
    pub deadline: Option<f64>,
}

/// A model of a provider. Unset fields are taken from the catalogue if it lists the model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Name of the provider; the local engine by default.
    #[serde(default = "local_provider")]
    pub provider: String,
    /// Name of the model at the provider.
    pub model: String,
    /// Name of the sampling profile.
    pub profile: Option<String>,
    /// Workarounds for the model.
    pub presets: Option<Vec<Workaround>>,
    /// Recommendation about using the model for tools.
    pub verdict: Option<Verdict>,
    /// Basis of the verdict.
    pub notes: Option<String>,
    /// Settings for requesting directives. They override those of the provider and of the
    /// workarounds.
    #[serde(default)]
    pub directives: DirectivesPreset,
}

/// A sampling profile.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Sampling temperature; 0 always selects the most likely token.
    pub temperature: Option<f64>,
    /// Cumulative probability of the most likely tokens that are kept, from 0 to 1.
    pub top_p: Option<f64>,
    /// Number of most likely tokens that are kept; 0 keeps all.
    pub top_k: Option<u32>,
    /// Minimum probability of a token, as a fraction of the highest probability.
    pub min_p: Option<f64>,
    /// Models that the profile applies to, with `*` for any characters. An empty list means all
    /// models.
    #[serde(default)]
    pub models: Vec<ModelPattern>,
    /// Groups that select this profile together with others.
    #[serde(default)]
    pub groups: Vec<String>,
}

fn local_provider() -> String {
    LOCAL_PROVIDER.to_owned()
}

impl Config {
    /// Parses and checks the text of a configuration file.
    ///
    /// # Errors
    /// Returns an error if the text is not valid TOML, contains an unknown key, or has an invalid
    /// value.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|error| ConfigError::of_toml(text, &error))?;
        check::check(&config).map_err(|fault| ConfigError::of_fault(text, fault))?;
        Ok(config)
    }

    /// Returns the predefined sampling profiles together with the file's.
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
    /// Creates a provider that has only a URL.
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
            directives: DirectivesPreset::default(),
            capabilities: None,
            token_limit_field: None,
            accepts_temperature: None,
        }
    }

    /// Returns the settings for requesting directives of this provider: those of its preset, and
    /// above them those of its table `directives`.
    pub fn directives(&self) -> DirectivesPreset {
        let known = presets::provider_defaults(self.preset.as_deref().unwrap_or_default());
        presets::merge([known, self.directives.clone()])
    }

    /// Creates a backend for the server. `key` is the API key.
    ///
    /// # Errors
    /// Returns an error if the URL is not an HTTP URL, or if a header or the key contains forbidden
    /// characters.
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
        if let Some(capabilities) = &self.capabilities {
            backend = backend.with_capabilities(capabilities.iter().copied().collect());
        }
        let dialect = Dialect {
            token_limit_field: self.token_limit_field,
            accepts_temperature: self.accepts_temperature,
        };
        Ok(backend.with_dialect(dialect).with_retry(self.retry.policy()))
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
    /// Returns the name of the sampling profile: the configured one, the catalogue's, or the
    /// default.
    pub fn profile(&self) -> &str {
        let known = catalogue::find(&self.model).map_or(DEFAULT_PROFILE, catalogue::CatalogueEntry::profile);
        self.profile.as_deref().unwrap_or(known)
    }

    /// Returns the workarounds: the configured ones, or the catalogue's.
    pub fn workarounds(&self) -> &[Workaround] {
        let known = || catalogue::find(&self.model).map_or(&[][..], |entry| entry.workarounds);
        self.presets.as_deref().unwrap_or_else(known)
    }

    /// Returns the settings for requesting directives of this model: those of its workarounds, and
    /// above them those of its table `directives`.
    pub fn directives(&self) -> DirectivesPreset {
        let is_prompt_only = self.workarounds().contains(&Workaround::PromptOnly);
        let known = is_prompt_only.then(|| presets::directives([Mode::PromptOnly]));
        presets::merge([known.unwrap_or_default(), self.directives.clone()])
    }

    /// Returns the verdict about tools: the configured one, or the catalogue's.
    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict.or_else(|| catalogue::find(&self.model).map(|entry| entry.verdict))
    }
}

impl Profile {
    fn sampling(&self) -> Sampling {
        Sampling { temperature: self.temperature, top_p: self.top_p, top_k: self.top_k, min_p: self.min_p }
    }
}

/// Converts seconds to a duration. Returns `None` for negative, infinite or too large values.
fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests;
