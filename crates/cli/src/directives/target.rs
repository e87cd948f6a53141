//! Resolves the model of a run: local, of a server, or of the configuration.

use std::sync::Arc;

use anyhow::{Result, bail};
use formwork_protocol::config::{Config, Model, Provider};
use formwork_protocol::directives::{Preset, presets};
use formwork_protocol::{Body, ChatBackend};

use super::args::RunArgs;
use crate::backend::models;

/// Model of a run, with its settings.
#[derive(Default)]
pub(super) struct Target {
    /// Provider of the configuration that has the model.
    provider: Option<Provider>,
    /// Name of the model there, or of a local model. `None` if the arguments say which.
    model: Option<String>,
    /// True if the model runs in this process.
    pub(super) is_local: bool,
    /// Known settings for the model.
    pub(super) preset: Preset,
    /// Sampling parameters of the model's profile.
    pub(super) sampling: Body,
}

impl Target {
    pub(super) fn new(args: &RunArgs) -> Result<Self> {
        let config = args.backend.configuration()?.config;
        if let Some(provider) = args.provider.as_deref().and_then(|name| config.providers.get(name)) {
            return Self::of_provider(args, &config, provider);
        }
        let quirks = args.provider.as_deref().map(|name| quirks(name, &config)).transpose()?;
        let named = args.backend.model.as_deref().filter(|_| args.backend.base_url.is_none());
        let Some(model) = named.and_then(|name| config.models.get(name)) else {
            let is_local = args.backend.is_local();
            let known = is_local.then(|| presets::provider_defaults("local"));
            let preset = quirks.or(known).unwrap_or_default();
            return Ok(Self { is_local, preset, ..Self::default() });
        };
        let provider = config.providers.get(&model.provider).cloned();
        let known = quirks.unwrap_or_else(|| {
            provider.as_ref().map_or_else(|| presets::provider_defaults("local"), Provider::directives)
        });
        Ok(Self {
            is_local: provider.is_none(),
            provider,
            model: Some(model.model.clone()),
            preset: presets::merge([known, model.directives()]),
            sampling: sampling(&config, model),
        })
    }

    fn of_provider(args: &RunArgs, config: &Config, provider: &Provider) -> Result<Self> {
        if args.backend.base_url.is_some() {
            bail!("--provider names a provider of the configuration, which has its own URL; omit --base-url");
        }
        let Some(id) = &args.backend.model else {
            bail!("--provider requires --model, the name of a model of the provider")
        };
        let name = args.provider.as_deref().unwrap_or_default();
        let known = config.models.values().find(|model| model.provider == name && model.model == *id);
        let of_model = known.map(Model::directives).unwrap_or_default();
        Ok(Self {
            provider: Some(provider.clone()),
            model: Some(id.clone()),
            preset: presets::merge([provider.directives(), of_model]),
            sampling: known.map(|model| sampling(config, model)).unwrap_or_default(),
            ..Self::default()
        })
    }

    /// Returns the default fields of requests.
    pub(super) fn defaults(&self) -> Body {
        self.provider.as_ref().map(|provider| provider.llm_options_defaults.clone()).unwrap_or_default()
    }

    /// Opens the backend; returns it with the model's name there.
    pub(super) fn open(&self, args: &RunArgs) -> Result<(Arc<dyn ChatBackend>, String)> {
        match (&self.provider, &self.model) {
            (Some(provider), Some(model)) => {
                args.backend.check_remote()?;
                let place = args.backend.configuration_path();
                Ok((Arc::new(models::of_provider(provider, Some(place))?), model.clone()))
            }
            (_, Some(model)) => args.backend.open_local(model),
            (_, None) => args.backend.open(),
        }
    }
}

/// Returns the sampling parameters of a model's profile.
fn sampling(config: &Config, model: &Model) -> Body {
    let profiles = config.profiles();
    profiles.get(model.profile()).map(|profile| profile.sampling.options()).unwrap_or_default()
}

/// Returns the settings for the provider `name`.
fn quirks(name: &str, config: &Config) -> Result<Preset> {
    if presets::PROVIDERS.contains(&name) {
        return Ok(presets::provider_defaults(name));
    }
    let known: Vec<&str> = config.providers.keys().map(String::as_str).chain(presets::PROVIDERS).collect();
    bail!("--provider: unknown provider {name}; expected one of {}", known.join(", "))
}
