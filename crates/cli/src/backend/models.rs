//! Resolves names of models to backends, by the command line and the configuration.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use formwork_engine::EngineOptions;
use formwork_protocol::catalogue::Workaround;
use formwork_protocol::config::{Config, Model, Provider};
use formwork_protocol::{Body, Capabilities, ChatBackend, PromptRunner, RemoteBackend, RetryPolicy};
use formwork_server::{App, LocalBackend, ServedModel, ServerOptions};
use serde_json::Value;

use super::{BackendArgs, FileMemory, key, tell_notice, tell_retry};
use crate::load;

/// An opened model: its backend, its name there and its default request fields.
#[derive(Clone)]
pub(crate) struct OpenedModel {
    pub(crate) backend: Arc<dyn ChatBackend>,
    pub(crate) id: String,
    pub(crate) defaults: Body,
}

impl OpenedModel {
    /// Returns a runner for the model. `defaults` override the model's own.
    pub(crate) fn prompts(&self, defaults: Body) -> PromptRunner {
        let mut all = self.defaults.clone();
        all.extend(defaults);
        PromptRunner::new(Arc::clone(&self.backend), self.id.clone()).with_defaults(all)
    }
}

/// Place of a model, before it is opened.
#[derive(Debug, PartialEq)]
enum Place<'a> {
    /// A model in this process, by its path, short name or hub id.
    Local { id: String },
    /// A model of the server that the command line names.
    Server { url: &'a str, id: String },
    /// A model of a provider of the configuration.
    Provider { provider: &'a Provider, id: String },
}

/// Opens the models with these names. `None` stands for the model of the command line.
///
/// A name is looked up in `[models]`. Any other name is a model of the server that the command line
/// names, or a local model.
pub(crate) fn open<'n>(
    args: &BackendArgs,
    config: &Config,
    names: impl IntoIterator<Item = Option<&'n str>>,
) -> Result<BTreeMap<Option<String>, OpenedModel>> {
    let names: Vec<Option<String>> = names.into_iter().map(|name| name.map(str::to_owned)).collect();
    // Find all places first, because loading a model takes long.
    let mut places = Vec::new();
    for name in names {
        let (place, model) = place(args, config, name.as_deref())?;
        places.push((name, place, model));
    }
    if !places.iter().any(|(_, place, _)| matches!(place, Place::Local { .. })) {
        args.check_remote()?;
    }
    let (mut opened, mut served, mut local) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for (name, place, model) in places {
        let defaults = model.map(|model| sampling(config, model)).transpose()?.unwrap_or_default();
        let (backend, id, mut provided) = match place {
            Place::Local { id } => {
                local.push((name, id, defaults));
                continue;
            }
            Place::Server { url, id } => (args.server(url)?, id, Body::new()),
            Place::Provider { provider, id } => {
                let is_plain =
                    model.is_some_and(|model| model.workarounds().contains(&Workaround::PromptOnly));
                let backend = of_provider(provider, Some(args.configuration_path()))?;
                let backend = if is_plain { backend.with_capabilities(Capabilities::NONE) } else { backend };
                (backend, id, provider.llm_options_defaults.clone())
            }
        };
        let backend: Arc<dyn ChatBackend> = Arc::new(backend);
        provided.extend(defaults);
        opened.insert(name, OpenedModel { backend, id, defaults: provided });
    }
    for (_, id, _) in &local {
        if !served.contains_key(id) {
            served.insert(id.clone(), load_local(args, id)?);
        }
    }
    if local.is_empty() {
        return Ok(opened);
    }
    let names: BTreeMap<String, String> =
        served.iter().map(|(id, model)| (id.clone(), model.id.clone())).collect();
    let app = App::new(served.into_values().collect(), ServerOptions::default())?;
    let backend: Arc<dyn ChatBackend> = Arc::new(LocalBackend::new(app));
    for (name, id, defaults) in local {
        let id = names.get(&id).cloned().unwrap_or(id);
        opened.insert(name, OpenedModel { backend: Arc::clone(&backend), id, defaults });
    }
    Ok(opened)
}

/// Returns the place of a model, and its entry in the configuration.
fn place<'a>(
    args: &'a BackendArgs,
    config: &'a Config,
    name: Option<&str>,
) -> Result<(Place<'a>, Option<&'a Model>)> {
    let of_args = || args.model.clone();
    let Some(id) = name.map(str::to_owned).or_else(of_args) else {
        return Ok((Place::Local { id: formwork_model::hub::default_manifest().name.clone() }, None));
    };
    // A model that the command line names together with a server is one of the server's.
    if let Some(model) = config.models.get(&id).filter(|_| name.is_some() || args.base_url.is_none()) {
        let id = model.model.clone();
        // The configuration was checked, so any other name of a provider is known.
        let place = match config.providers.get(&model.provider) {
            Some(provider) => Place::Provider { provider, id },
            None => Place::Local { id },
        };
        return Ok((place, Some(model)));
    }
    if let Some(url) = &args.base_url {
        return Ok((Place::Server { url, id }, None));
    }
    if name.is_some() && !is_local(&id) {
        let known: Vec<&str> = config.models.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none is set".to_owned() } else { known.join(", ") };
        bail!(
            "unknown model `{id}`; expected a name in `[models]` of the configuration ({known}), or a local model as for \
             `formwork run`"
        );
    }
    Ok((Place::Local { id }, None))
}

/// Reports whether a name can be that of a local model: a short name, a path or a hub id.
fn is_local(id: &str) -> bool {
    id.contains('/')
        || Path::new(id).exists()
        || formwork_model::hub::manifests().iter().any(|known| known.name == id)
}

/// Returns the request fields of the sampling profile that the configuration sets for a model.
fn sampling(config: &Config, model: &Model) -> Result<Body> {
    let Some(name) = &model.profile else { return Ok(Body::new()) };
    let profiles = config.profiles();
    let Some(profile) = profiles.get(name) else { return Ok(Body::new()) };
    let fields = serde_json::to_value(profile.sampling)?;
    let fields = fields.as_object().cloned().unwrap_or_default();
    Ok(fields.into_iter().filter(|(_, value)| *value != Value::Null).collect())
}

/// Creates the backend of a provider, with the API key from the provider's environment variable.
/// `place` is the configuration file that has the provider; `None` stands for the command line.
pub(crate) fn of_provider(provider: &Provider, place: Option<&Path>) -> Result<RemoteBackend> {
    let key_of = |variable: &str| {
        key(variable).with_context(|| match place {
            Some(place) => format!("{}: api_key_env = {variable}", place.display()),
            None => format!("--api-key-env {variable}"),
        })
    };
    let key = provider.api_key_env.as_deref().map(key_of).transpose()?;
    Ok(watched(provider.backend(key.as_deref())?))
}

/// Adds the memory of servers, and the messages to the user.
fn watched(remote: RemoteBackend) -> RemoteBackend {
    let remote = remote.on_retry(tell_retry).on_notice(tell_notice);
    match FileMemory::of_user() {
        Some(memory) => remote.with_memory(Arc::new(memory)),
        None => remote,
    }
}

impl BackendArgs {
    /// Loads the local model `model` into this process.
    pub(crate) fn open_local(&self, model: &str) -> Result<(Arc<dyn ChatBackend>, String)> {
        let served = load_local(self, model)?;
        let id = served.id.clone();
        let app = App::new(vec![served], ServerOptions::default())?;
        Ok((Arc::new(LocalBackend::new(app)), id))
    }

    fn server(&self, url: &str) -> Result<RemoteBackend> {
        let mut remote = match &self.api_prefix {
            Some(prefix) => RemoteBackend::with_prefix(url, prefix)?,
            None => RemoteBackend::new(url)?,
        };
        if let Some(variable) = &self.api_key_env {
            let key = key(variable).with_context(|| format!("--api-key-env {variable}"))?;
            remote = remote.with_key(&key)?;
        }
        let deadline = self.retry_deadline.map(Duration::from_secs);
        Ok(watched(remote.with_retry(RetryPolicy { deadline, ..RetryPolicy::default() })))
    }
}

fn load_local(args: &BackendArgs, id: &str) -> Result<ServedModel> {
    let loaded = load::load(id, args.open.opening()?, EngineOptions::default())?;
    Ok(ServedModel {
        id: loaded.name,
        aliases: Vec::new(),
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        engine: loaded.engine,
        template: loaded.template,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        backend: BackendArgs,
    }

    fn args(args: &[&str]) -> BackendArgs {
        Command::try_parse_from([&["x"], args].concat()).unwrap().backend
    }

    fn config() -> Config {
        Config::parse(
            "[providers.router]\nbase_url = \"http://127.0.0.1:1\"\nllm_options_defaults = { max_tokens = 9 }\n\
             [models.glm]\nprovider = \"router\"\nmodel = \"z-ai/glm\"\nprofile = \"warm\"\n\
             [models.small]\nmodel = \"a/b\"\n[sampling_profiles.warm]\ntemperature = 1.5\n",
        )
        .unwrap()
    }

    #[test]
    fn names_are_looked_up_in_the_configuration_first() {
        let (config, none, small) = (config(), args(&[]), args(&["-m", "small"]));
        let server = args(&["--base-url", "http://x", "-m", "glm"]);
        let router = &config.providers["router"];
        let (of, id) = (|args, name| place(args, &config, name).map(|(place, _)| place), str::to_owned);
        assert_eq!(of(&none, Some("glm")).unwrap(), Place::Provider { provider: router, id: id("z-ai/glm") });
        assert_eq!(of(&none, Some("small")).unwrap(), Place::Local { id: id("a/b") });
        assert_eq!(of(&none, Some("org/name")).unwrap(), Place::Local { id: id("org/name") });
        assert_eq!(of(&server, Some("x")).unwrap(), Place::Server { url: "http://x", id: id("x") });
        assert_eq!(of(&server, Some("small")).unwrap(), Place::Local { id: id("a/b") });
        assert_eq!(of(&server, None).unwrap(), Place::Server { url: "http://x", id: id("glm") });
        assert_eq!(of(&small, None).unwrap(), Place::Local { id: id("a/b") });
        let error = of(&none, Some("glmm")).unwrap_err().to_string();
        assert!(error.starts_with("unknown model `glmm`; expected a name in `[models]`"), "{error}");
        assert!(error.contains("(glm, small)"), "{error}");
    }

    #[test]
    fn refuses_options_of_local_models_for_remote_ones() {
        let config = config();
        let given = [["--threads", "2"], ["--ctx", "64"], ["--device", "cpu"], ["--quantize", "q8_0"]];
        for [option, value] in given {
            for model in [None, Some("glm")] {
                let error = open(&args(&["-m", "glm", option, value]), &config, [model]).err().unwrap();
                assert!(error.to_string().starts_with(&format!("{option} has no effect: ")), "{error}");
            }
        }
    }

    #[test]
    fn refuses_a_model_and_a_server_that_a_run_does_not_use() {
        let config = config();
        let (plain, server) = (args(&["-m", "foo"]), args(&["--base-url", "http://x", "-m", "foo"]));
        let told = |args: &BackendArgs, names: &[Option<&str>]| {
            args.check_named(&config, names, "here").err().map(|error| error.to_string())
        };
        assert_eq!(told(&plain, &[Some("glm"), None]), None);
        assert_eq!(told(&plain, &[Some("glm")]).unwrap(), "--model has no effect: here");
        assert_eq!(told(&server, &[Some("glm")]).unwrap(), "--base-url has no effect: here");
        assert_eq!(told(&server, &[Some("bar")]).unwrap(), "--model has no effect: here");
        assert_eq!(told(&server, &[Some("foo")]), None);
        assert_eq!(told(&args(&[]), &[Some("glm")]), None);
    }

    #[test]
    fn a_missing_key_names_the_file_that_asks_for_it() {
        let provider =
            Provider { api_key_env: Some("NO_SUCH_VARIABLE".to_owned()), ..Provider::new("http://x") };
        let told = |place| format!("{:#}", of_provider(&provider, place).err().unwrap());
        assert_eq!(
            told(Some(Path::new("a/formwork.toml"))),
            "a/formwork.toml: api_key_env = NO_SUCH_VARIABLE: environment variable not found"
        );
        assert_eq!(told(None), "--api-key-env NO_SUCH_VARIABLE: environment variable not found");
    }

    #[test]
    fn a_provider_and_a_profile_set_default_fields() {
        let config = config();
        let opened = open(&args(&[]), &config, [Some("glm")]).unwrap();
        let model = &opened[&Some("glm".to_owned())];
        assert_eq!(model.id, "z-ai/glm");
        assert_eq!(
            Value::from(model.defaults.clone()),
            serde_json::json!({ "max_tokens": 9, "temperature": 1.5 })
        );
        let own = serde_json::json!({ "max_tokens": 5 }).as_object().cloned().unwrap();
        assert_eq!(model.prompts(own).defaults()["max_tokens"], 5);
    }
}
