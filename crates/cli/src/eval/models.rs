//! Resolves the models on the command line to backends and sampling profiles.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};
use clap::ValueEnum;
use formwork_engine::EngineOptions;
use formwork_eval::{EvalModel, EvalProfile};
use formwork_lm::{ChatInput, ChatTemplate, Message};
use formwork_model::Device;
use formwork_protocol::ChatBackend;
use formwork_protocol::catalogue::{self, Workaround};
use formwork_protocol::config::{Config, LOCAL_PROVIDER, Model, Provider};
use formwork_protocol::sampling::{Profiles, SamplingProfile};
use formwork_server::{App, LocalBackend, ServedModel, ServerOptions};

use super::args::SharedArgs;
use crate::args::{KvCacheArg, OpenArgs};
use crate::backend::models::of_provider;
use crate::config;
use crate::load::{self, Loaded};

/// Name in `--models` that stands for all models.
const ALL: &str = "all";

/// The models to evaluate, with the backends that answer for them.
#[derive(Default)]
pub(super) struct Subjects {
    pub(super) models: Vec<EvalModel>,
    pub(super) backends: BTreeMap<String, Arc<dyn ChatBackend>>,
}

/// A requested model.
struct Asked {
    /// Name in the results.
    name: String,
    /// Name in requests, or the path or hub id of a local model.
    id: String,
    /// Remote server of the model; `None` for the local engine.
    provider: Option<Provider>,
    workarounds: Vec<Workaround>,
    /// Name of the recommended sampling profile.
    profile: String,
}

/// Resolves the requested models and loads the local ones. `preset` is the provider of the server that
/// the command line names.
pub(super) fn subjects(args: &SharedArgs, config: &Config, preset: Option<&str>) -> Result<Subjects> {
    let profiles = config.profiles();
    let selected = profiles.select(&args.profiles)?;
    let mut subjects = Subjects::default();
    // A server of the command line replaces the providers of the configuration.
    let file = args.config.as_deref().unwrap_or(Path::new(config::FILE));
    let place = args.base_url.is_none().then_some(file);
    let mut served = Vec::new();
    for asked in asked(args, config, preset)? {
        let name = &asked.name;
        let profiles = profiles_of(args, &profiles, &selected, &asked);
        if profiles.is_empty() {
            eprintln!(
                "formwork: warning: no selected profile applies to {name}; --ignore-applicability uses them anyway"
            );
            continue;
        }
        ensure!(subjects.models.iter().all(|known| known.name != *name), "duplicate model name {name}");
        let model = EvalModel {
            name: name.clone(),
            workarounds: asked.workarounds,
            ..EvalModel::new(asked.id, LOCAL_PROVIDER, profiles)
        };
        match &asked.provider {
            Some(provider) => subjects.add_remote(model, provider, place)?,
            None => served.push(subjects.add_local(args, model)?),
        }
    }
    ensure!(!subjects.models.is_empty(), "no models to evaluate");
    subjects.serve(served)?;
    Ok(subjects)
}

impl Subjects {
    /// Adds a model of a provider. `place` is the configuration file that has the provider.
    fn add_remote(&mut self, model: EvalModel, provider: &Provider, place: Option<&Path>) -> Result<()> {
        let backend = of_provider(provider, place)?;
        self.models.push(EvalModel {
            backend: backend.endpoint().to_owned(),
            provider: provider.preset.clone(),
            defaults: provider.llm_options_defaults.clone(),
            ..model.clone()
        });
        self.backends.insert(model.name, Arc::new(backend));
        Ok(())
    }

    /// Loads a local model, which is served under its name in the results.
    fn add_local(&mut self, args: &SharedArgs, model: EvalModel) -> Result<ServedModel> {
        let options = EngineOptions { parallel: args.parallel.get(), ..EngineOptions::default() };
        let Loaded { engine, template, .. } = load::load(&model.id, args.open.opening()?, options)?;
        if is_plain(&*template) {
            eprintln!(
                "formwork: warning: {} has no chat template; it receives messages unchanged",
                model.name
            );
        }
        let id = model.name.clone();
        self.models.push(EvalModel {
            id: id.clone(),
            backend: described(&args.open, &*template),
            provider: Some(LOCAL_PROVIDER.to_owned()),
            ..model
        });
        Ok(ServedModel { id, aliases: Vec::new(), created: 0, engine, template })
    }

    /// Serves all local models from one backend.
    fn serve(&mut self, served: Vec<ServedModel>) -> Result<()> {
        if served.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = served.iter().map(|model| model.id.clone()).collect();
        let backend = LocalBackend::new(App::new(served, ServerOptions::default())?);
        let of = |name| (name, Arc::new(backend.clone()) as Arc<dyn ChatBackend>);
        self.backends.extend(names.into_iter().map(of));
        Ok(())
    }
}

/// Describes the local engine, with every option that changes results.
fn described(open: &OpenArgs, template: &dyn ChatTemplate) -> String {
    let quantize = open.quantize.and_then(|wanted| wanted.to_possible_value());
    let parts = [
        open.ctx.map(|tokens| format!(" --ctx {tokens}")),
        quantize.map(|wanted| format!(" --quantize {}", wanted.get_name())),
        (open.kv_cache != KvCacheArg::Auto).then(|| " --kv-cache q8".to_owned()),
        (open.device != Device::Auto).then(|| format!(" --device {}", open.device)),
        open.gpu_layers.map(|layers| format!(" --gpu-layers {layers}")),
        open.cpu_experts.map(|count| format!(" --cpu-experts {count}")),
        open.chat_template.as_ref().map(|path| format!(" --chat-template {}", path.display())),
        is_plain(template).then(|| ", without a chat template".to_owned()),
    ];
    parts.into_iter().flatten().fold(LOCAL_PROVIDER.to_owned(), |name, part| name + &part)
}

/// Reports whether the template passes messages on unchanged, as for a base model.
fn is_plain(template: &dyn ChatTemplate) -> bool {
    let messages = vec![Message::new("user", "?")];
    template.render(&ChatInput { messages, ..ChatInput::default() }).is_ok_and(|text| text == "?")
}

fn asked(args: &SharedArgs, config: &Config, preset: Option<&str>) -> Result<Vec<Asked>> {
    let provider = args.base_url.as_ref().map(|base_url| provider(args, base_url, preset));
    let mut asked: Vec<_> = args.model.iter().map(|name| named(name, provider.clone())).collect();
    for name in &args.models {
        if name == ALL && !config.models.contains_key(ALL) {
            asked.extend(all(config, provider.as_ref())?);
            continue;
        }
        let known = || config.models.keys().cloned().collect::<Vec<_>>().join(", ");
        let model = config.models.get(name).ok_or_else(|| {
            anyhow!("unknown model {name} in the configuration; expected one of {}", known())
        })?;
        asked.push(configured(name, model, config));
    }
    ensure!(
        provider.is_none() || !args.model.is_empty() || args.models.iter().any(|name| name == ALL),
        "--base-url: name models of the server with --model, or the whole catalogue with --models {ALL}"
    );
    if asked.is_empty() {
        asked.push(named(&formwork_model::hub::default_manifest().name, None));
    }
    Ok(asked)
}

/// Returns the models that `--models all` stands for: the catalogue on a server, or the models of
/// the configuration.
fn all(config: &Config, provider: Option<&Provider>) -> Result<Vec<Asked>> {
    let Some(provider) = provider else {
        ensure!(
            !config.models.is_empty(),
            "--models {ALL}: needs --base-url for the models of the catalogue, or --config with models"
        );
        return Ok(config.models.iter().map(|(name, model)| configured(name, model, config)).collect());
    };
    // The catalogue's names of local models have no vendor.
    let remote = catalogue::entries().iter().filter(|entry| entry.model.contains('/'));
    Ok(remote.map(|entry| named(entry.model, Some(provider.clone()))).collect())
}

fn configured(name: &str, model: &Model, config: &Config) -> Asked {
    Asked {
        name: name.to_owned(),
        id: model.model.clone(),
        // The configuration was validated, so any other name is a provider's.
        provider: config.providers.get(&model.provider).cloned(),
        workarounds: model.workarounds().to_vec(),
        profile: model.profile().to_owned(),
    }
}

/// Resolves a model named on the command line, with its entry in the catalogue.
fn named(id: &str, provider: Option<Provider>) -> Asked {
    let path = Path::new(id);
    // A path reveals the layout of this machine, so results show the file stem only.
    let stem = path.file_stem().filter(|_| provider.is_none() && path.exists());
    let name = stem.map_or_else(|| id.to_owned(), |stem| stem.to_string_lossy().into_owned());
    let known = catalogue::find(&name);
    Asked {
        id: id.to_owned(),
        provider,
        workarounds: known.map_or(&[][..], |entry| entry.workarounds).to_vec(),
        profile: known.map_or("default", catalogue::CatalogueEntry::profile).to_owned(),
        name,
    }
}

/// Builds a provider from the command line's server options.
fn provider(args: &SharedArgs, base_url: &str, preset: Option<&str>) -> Provider {
    let (api_key_env, preset) = (args.api_key_env.clone(), preset.map(str::to_owned));
    Provider { api_key_env, preset, ..Provider::new(base_url) }
}

/// Returns the selected profiles that apply to the model. The group `recommended` adds the model's
/// recommended profile.
fn profiles_of(
    args: &SharedArgs,
    profiles: &Profiles,
    selected: &[&SamplingProfile],
    asked: &Asked,
) -> Vec<EvalProfile> {
    let applies = |profile: &&&SamplingProfile| {
        args.ignore_applicability || profile.applies_to(&asked.id) || profile.applies_to(&asked.name)
    };
    let mut wanted: Vec<&SamplingProfile> = selected.iter().filter(applies).copied().collect();
    let own = profiles.get(&asked.profile).filter(|_| args.profiles.iter().any(|name| name == "recommended"));
    wanted.extend(own.filter(|own| !wanted.iter().any(|known| known.name == own.name)));
    let profile =
        |profile: &SamplingProfile| EvalProfile { name: profile.name.clone(), sampling: profile.sampling };
    wanted.into_iter().map(profile).collect()
}
