//! From what the command line names to models with backends and profiles.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use formwork_engine::EngineOptions;
use formwork_lm::{ChatInput, ChatTemplate, Message};
use formwork_model::Device;
use formwork_protocol::catalogue::{self, Workaround};
use formwork_protocol::config::{Config, LOCAL_PROVIDER, Provider};
use formwork_protocol::eval::{EvalModel, EvalProfile};
use formwork_protocol::sampling::{Profiles, SamplingProfile};
use formwork_protocol::{Body, ChatBackend};
use formwork_server::{App, LocalBackend, ServedModel, ServerOptions};

use super::args::EvalArgs;
use crate::args::OpenArgs;
use crate::{config, load};

/// What is evaluated, with what answers for it.
pub(super) struct Subjects {
    pub(super) models: Vec<EvalModel>,
    pub(super) backends: BTreeMap<String, Arc<dyn ChatBackend>>,
}

/// A model that was asked for.
struct Asked {
    /// What it is called in results.
    name: String,
    /// What it is called in requests; for the local engine, where it is.
    id: String,
    /// Its server, if it is not the local engine.
    provider: Option<Provider>,
    workarounds: Vec<Workaround>,
    /// The sampling profile that suits it.
    profile: String,
}

/// Finds the models, and loads the local ones.
pub(super) fn subjects(args: &EvalArgs, config: &Config) -> Result<Subjects> {
    let profiles = config.profiles();
    let selected = profiles.select(&args.profiles)?;
    let asked = asked(args, config)?;
    let mut subjects = Subjects { models: Vec::new(), backends: BTreeMap::new() };
    let mut served = Vec::new();
    for asked in asked {
        let profiles = profiles_of(args, &profiles, &selected, &asked);
        if profiles.is_empty() {
            eprintln!(
                "formwork: warning: none of the profiles is for {}; --ignore-applicability uses them all",
                asked.name
            );
            continue;
        }
        if subjects.models.iter().any(|known| known.name == asked.name) {
            bail!("two models are called {}", asked.name);
        }
        let model = EvalModel {
            name: asked.name.clone(),
            workarounds: asked.workarounds,
            ..EvalModel::new(asked.id.clone(), LOCAL_PROVIDER, profiles)
        };
        subjects.models.push(match &asked.provider {
            Some(provider) => {
                let backend = config::backend(provider)?;
                let model = EvalModel {
                    backend: backend.endpoint().to_owned(),
                    provider: provider.preset.clone(),
                    defaults: provider.llm_options_defaults.clone(),
                    ..model
                };
                subjects.backends.insert(asked.name, Arc::new(backend));
                model
            }
            None => {
                let (one, model) = local(args, model)?;
                served.push(one);
                model
            }
        });
    }
    if subjects.models.is_empty() {
        bail!("there is no model to evaluate");
    }
    if !served.is_empty() {
        let names: Vec<String> = served.iter().map(|model| model.id.clone()).collect();
        let backend: Arc<dyn ChatBackend> =
            Arc::new(LocalBackend::new(App::new(served, ServerOptions::default())?));
        subjects.backends.extend(names.into_iter().map(|name| (name, Arc::clone(&backend))));
    }
    Ok(subjects)
}

/// Loads a model, which answers under its name in results.
fn local(args: &EvalArgs, model: EvalModel) -> Result<(ServedModel, EvalModel)> {
    let options = EngineOptions { parallel: args.parallel.get(), ..EngineOptions::default() };
    let loaded = load::load(&model.id, args.open.options(), options)?;
    if is_plain(&*loaded.template) {
        eprintln!(
            "formwork: warning: {} has no chat template; it is given the messages as they are",
            model.name
        );
    }
    let backend = engine(&args.open, &*loaded.template);
    let served = ServedModel {
        id: model.name.clone(),
        aliases: Vec::new(),
        created: 0,
        engine: loaded.engine,
        template: loaded.template,
    };
    let provider = Some(LOCAL_PROVIDER.to_owned());
    Ok((served, EvalModel { id: model.name.clone(), provider, backend, ..model }))
}

/// The local engine, with whatever of it changes results.
fn engine(open: &OpenArgs, template: &dyn ChatTemplate) -> String {
    let quantize = open.quantize.and_then(|wanted| wanted.to_possible_value());
    let parts = [
        open.ctx.map(|tokens| format!(" --ctx {tokens}")),
        quantize.map(|wanted| format!(" --quantize {}", wanted.get_name())),
        (open.device != Device::Auto).then(|| format!(" --device {}", open.device)),
        is_plain(template).then(|| ", without a chat template".to_owned()),
    ];
    parts.into_iter().flatten().fold(LOCAL_PROVIDER.to_owned(), |name, part| name + &part)
}

/// Whether messages are given to the model as they are, as to a base model.
fn is_plain(template: &dyn ChatTemplate) -> bool {
    let messages = vec![Message::new("user", "?")];
    template.render(&ChatInput { messages, ..ChatInput::default() }).is_ok_and(|text| text == "?")
}

fn asked(args: &EvalArgs, config: &Config) -> Result<Vec<Asked>> {
    let provider = args.base_url.as_ref().map(|base_url| provider(args, base_url));
    let mut asked: Vec<_> = args.model.iter().map(|name| named(name, provider.clone())).collect();
    for name in &args.models {
        let known = || config.models.keys().cloned().collect::<Vec<_>>().join(", ");
        let model = config
            .models
            .get(name)
            .ok_or_else(|| anyhow!("the configuration has no model {name}, but {}", known()))?;
        asked.push(Asked {
            name: name.clone(),
            id: model.model.clone(),
            // The configuration was checked: any other name is that of a provider.
            provider: config.providers.get(&model.provider).cloned(),
            workarounds: model.workarounds().to_vec(),
            profile: model.profile().to_owned(),
        });
    }
    if asked.is_empty() {
        asked.push(named(&formwork_model::hub::default_manifest().name, None));
    }
    Ok(asked)
}

/// A model of the command line, with what the catalogue knows of it.
fn named(id: &str, provider: Option<Provider>) -> Asked {
    let path = std::path::Path::new(id);
    // A path says where a file lies on this machine, which is not for results.
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

/// The server of the command line, as a configuration would have it.
fn provider(args: &EvalArgs, base_url: &str) -> Provider {
    let (api_key_env, preset) = (args.api_key_env.clone(), args.provider.clone());
    Provider { api_key_env, preset, ..Provider::new(base_url) }
}

/// The profiles that were asked for and are for the model; by the group `recommended` also the one that suits it.
fn profiles_of(
    args: &EvalArgs,
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

/// The body of a flag that may be absent.
pub(super) fn defaults(args: &EvalArgs) -> Body {
    args.llm_options_defaults.clone().unwrap_or_default()
}
