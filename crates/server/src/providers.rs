//! Remote servers that requests may name, by the names of the configuration.
//!
//! A request names a provider and never a URL, so a client cannot make this server call any other
//! address. Keys and headers stay in the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use formwork_protocol::config::{Config, LOCAL_PROVIDER, Model, Provider};
use formwork_protocol::directives::{Preset, presets};
use formwork_protocol::{BackendError, Body, ChatBackend, PromptRunner};

use crate::app::App;
use crate::error::{ApiError, Kind};
use crate::local::LocalBackend;

/// Remote servers by name. Cheap to clone.
///
/// ```
/// use formwork_protocol::config::Config;
/// use formwork_server::Providers;
/// let config = Config::parse(
///     "[providers.router]\nbase_url = \"https://openrouter.ai/api\"\napi_key_env = \"KEY\"",
/// )?;
/// let providers = Providers::from_config(&config, |_| Some("secret".to_owned()))?;
/// assert_eq!(providers.names().collect::<Vec<_>>(), ["router"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Providers {
    by_name: Arc<BTreeMap<String, Entry>>,
}

enum Entry {
    Ready(Box<RemoteProvider>),
    /// The environment variable with the key has no value.
    NoKey {
        variable: String,
    },
}

/// A remote server, with the settings of the requests to it.
#[derive(Clone)]
pub struct RemoteProvider {
    /// Name of the provider in the configuration.
    pub name: String,
    /// Sends requests to the server, with the key and the headers of the configuration.
    pub backend: Arc<dyn ChatBackend>,
    /// Configuration of the provider.
    pub settings: Provider,
    /// Models of the provider in the configuration.
    pub models: Vec<Model>,
    /// Sampling parameters of the profile of each model, by the model's name at the provider.
    pub sampling: BTreeMap<String, Body>,
}

impl RemoteProvider {
    /// Creates a runner that sends requests for `model` to the provider, with the default fields of
    /// the configuration.
    pub fn prompts(&self, model: impl Into<String>) -> PromptRunner {
        PromptRunner::new(Arc::clone(&self.backend), model)
            .with_defaults(self.settings.llm_options_defaults.clone())
    }

    /// Returns the settings for requesting directives of `model`: those of the provider, and above
    /// them those of the model if the configuration has it.
    pub(crate) fn directives(&self, model: &str) -> Preset {
        let known = self.models.iter().find(|known| known.model == model).map(Model::directives);
        presets::merge([self.settings.directives(), known.unwrap_or_default()])
    }
}

impl Providers {
    /// Creates backends for all providers of `config`. `key` returns the value of an environment
    /// variable that contains a key.
    ///
    /// If `key` returns `None` or an empty value, the provider is listed by
    /// [`Providers::without_key`], and requests for the provider fail.
    ///
    /// # Errors
    /// Returns the name of the first provider with an invalid URL, header or key, and the error.
    pub fn from_config(config: &Config, key: impl Fn(&str) -> Option<String>) -> Result<Self, ProviderError> {
        let mut by_name = BTreeMap::new();
        let profiles = config.profiles();
        for (name, settings) in &config.providers {
            let found = settings.api_key_env.as_deref().map(|variable| {
                let key = key(variable).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
                key.ok_or_else(|| variable.to_owned())
            });
            let entry = match found.transpose() {
                Err(variable) => Entry::NoKey { variable },
                Ok(key) => {
                    let backend = settings
                        .backend(key.as_deref())
                        .map_err(|source| ProviderError { name: name.clone(), source })?;
                    let (name, settings) = (name.clone(), settings.clone());
                    let of_provider = config.models.values().filter(|model| model.provider == name);
                    let models: Vec<Model> = of_provider.cloned().collect();
                    let sampling = models.iter().map(|model| {
                        let profile = profiles.get(model.profile());
                        let sampling = profile.map(|profile| profile.sampling.options());
                        (model.model.clone(), sampling.unwrap_or_default())
                    });
                    let sampling = sampling.collect();
                    Entry::Ready(Box::new(RemoteProvider {
                        name,
                        backend: Arc::new(backend),
                        settings,
                        models,
                        sampling,
                    }))
                }
            };
            by_name.insert(name.clone(), entry);
        }
        Ok(Self { by_name: Arc::new(by_name) })
    }

    /// Returns the names of all providers, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// Returns each provider without a key, with the environment variable that has no value.
    pub fn without_key(&self) -> impl Iterator<Item = (&str, &str)> {
        self.by_name.iter().filter_map(|(name, entry)| match entry {
            Entry::NoKey { variable } => Some((name.as_str(), variable.as_str())),
            Entry::Ready(_) => None,
        })
    }

    /// Returns the provider called `name`.
    pub(crate) fn get(&self, name: &str) -> Result<&RemoteProvider, ApiError> {
        match self.by_name.get(name) {
            Some(Entry::Ready(provider)) => Ok(provider),
            Some(Entry::NoKey { variable }) => {
                let (name, variable) = (name.to_owned(), variable.clone());
                Err(Kind::ProviderKey { name, variable }.into())
            }
            None => {
                let known: Vec<_> = std::iter::once(LOCAL_PROVIDER).chain(self.names()).collect();
                Err(Kind::Provider { given: name.to_owned(), known: known.join(", ") }.into())
            }
        }
    }
}

/// Error of a provider that cannot be used, with its name.
#[derive(Debug, thiserror::Error)]
#[error("providers.{name}: {source}")]
pub struct ProviderError {
    name: String,
    source: BackendError,
}

impl App {
    /// Returns the remote server called `provider` in the configuration. Returns `None` for the
    /// models of this app: without a name, or with the name `local`.
    ///
    /// # Errors
    /// Returns an error that lists the existing names if there is no such provider. Also returns an
    /// error if the provider's key is missing.
    pub fn provider(&self, provider: Option<&str>) -> Result<Option<&RemoteProvider>, ApiError> {
        let named = provider.filter(|name| *name != LOCAL_PROVIDER);
        named.map(|name| self.options().providers.get(name)).transpose()
    }

    /// Returns the backend of the provider called `provider`, or of the models of this app. See
    /// [`App::provider`].
    ///
    /// # Errors
    /// Returns an error in the same cases as [`App::provider`].
    pub fn backend(&self, provider: Option<&str>) -> Result<Arc<dyn ChatBackend>, ApiError> {
        Ok(match self.provider(provider)? {
            Some(provider) => Arc::clone(&provider.backend),
            None => Arc::new(LocalBackend::new(self.clone())),
        })
    }
}
