//! `formwork serve`

mod probe;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use formwork_engine::EngineOptions;
use formwork_grammar::Limits;
use formwork_model::hub::LocalModel;
use formwork_protocol::tools::Transforms;
use formwork_server::{App, HostedTools, LoadedModel, ModelSource, Providers, ServerOptions, StoreLimits};

use crate::args::{ServeArgs, UnknownFieldsArg, UnsupportedSchemaArg};
use crate::load::Opening;
use crate::lora::Adapter;
use crate::{config, decide, files, load, remotes};

pub(crate) fn serve(args: ServeArgs) -> Result<bool> {
    let (host, port, has_page) = (args.host.clone(), args.port, !args.no_page);
    if args.probe {
        return probe::is_ready(&host, port);
    }
    let (app, served) = app(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(listen(&host, port, app, &served, has_page));
    // Requests that outlast the shutdown limit are abandoned.
    runtime.shutdown_background();
    result.map(|()| true)
}

/// Builds the server, with the names of its models and providers. Its models are not loaded yet.
pub(crate) fn app(mut args: ServeArgs) -> Result<(App, Vec<String>)> {
    let providers = providers(&args)?;
    if args.model.is_empty() && args.on_demand.is_empty() && !args.providers_only {
        args.model.push(formwork_model::hub::default_manifest().name.clone());
    }
    let tools = tools(&args)?;
    let options = ServerOptions { providers, tools, ..options(&args)? };
    let sources = sources(&args)?;
    let models = sources.iter().map(|source| source.id.clone());
    let remote = options.providers.names().map(|name| format!("provider {name}"));
    let served: Vec<String> = models.chain(remote).collect();
    Ok((App::with_sources(Vec::new(), sources, options)?, served))
}

/// Returns the tools that requests may use, with the options and profiles of the configuration file.
fn tools(args: &ServeArgs) -> Result<HostedTools> {
    let mut tools = crate::tools::hosted(&args.tools)?;
    let config = config::load(args.config.as_deref())?.config;
    Transforms::default().resolve(&config.tool_calling.options()?).context("[tool_calling]")?;
    (tools.defaults, tools.profiles) = (config.tool_calling.clone(), config.profiles());
    Ok(tools)
}

/// Returns the providers of the configuration file, with the API keys from the environment.
fn providers(args: &ServeArgs) -> Result<Providers> {
    let config::ConfigFile { path, config } = config::load(args.config.as_deref())?;
    let place = || path.as_deref().unwrap_or(Path::new(config::FILE)).display().to_string();
    let providers = Providers::from_config(&config, |variable| std::env::var(variable).ok());
    let providers = providers.with_context(place)?;
    for (name, variable) in providers.without_key() {
        eprintln!(
            "formwork: warning: {}: provider {name} has no API key, because {variable} is not set; requests to \
             it fail",
            place()
        );
    }
    if args.providers_only && providers.names().next().is_none() {
        bail!("--providers-only: there are no providers; name a file with `[providers]` by --config");
    }
    Ok(providers)
}

fn options(args: &ServeArgs) -> Result<ServerOptions> {
    let mut api_keys = args.api_key.clone();
    if let Some(path) = &args.api_key_file {
        let text = files::read_option("--api-key-file", path)?;
        let keys = text.lines().map(str::trim).filter(|line| !line.is_empty());
        api_keys.extend(keys.map(str::to_owned));
        // A key file that is empty by mistake must not open the server to everyone.
        if api_keys.is_empty() {
            bail!("{}: the file has no API keys", path.display());
        }
    }
    if api_keys.is_empty() {
        api_keys.extend(std::env::var("FORMWORK_API_KEY").ok());
    }
    if api_keys.iter().any(String::is_empty) {
        bail!("an API key must not be empty");
    }
    let default = ServerOptions::default();
    let limits = &args.grammar;
    let bytes = limits.bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let or = |given: Option<NonZeroUsize>, default: usize| given.map_or(default, NonZeroUsize::get);
    let grammar_limits = Limits {
        work: or(limits.work, default.grammar_limits.work),
        bytes: bytes.unwrap_or(default.grammar_limits.bytes),
        states: or(limits.states, default.grammar_limits.states),
        nesting: or(limits.nesting, default.grammar_limits.nesting),
        ..default.grammar_limits
    };
    let schemas =
        args.schemas.as_deref().map(remotes::folder).transpose().context("--schemas")?.unwrap_or_default();
    Ok(ServerOptions {
        api_keys,
        grammar_limits,
        compilers: limits.compilers.unwrap_or(default.compilers),
        constraint_bytes: limits.cache.map_or(default.constraint_bytes, |bytes| bytes as usize),
        schemas: Arc::new(schemas),
        cors_origins: args.cors_origin.clone(),
        page: !args.no_page,
        read_timeout: args.read_timeout,
        request_timeout: args.request_timeout,
        models_max_bytes: args.models_max_bytes,
        refuse_unknown_fields: args.unknown_fields == UnknownFieldsArg::Refuse,
        responses_store: StoreLimits {
            entries: args.responses_store_entries,
            bytes: args.responses_store_bytes as usize,
        },
        any_object: args.on_unsupported_schema == UnsupportedSchemaArg::JsonObject,
        calibration: args.calibration.as_deref().map(decide::calibration).transpose()?,
        ..ServerOptions::default()
    })
}

/// Returns the models to serve, and downloads missing files. Requests never download a model.
fn sources(args: &ServeArgs) -> Result<Vec<ModelSource>> {
    let names =
        || args.model.iter().map(|name| (name, true)).chain(args.on_demand.iter().map(|name| (name, false)));
    let aliases = args.alias.iter().map(|alias| parse_alias(alias)).collect::<Result<Vec<_>>>()?;
    if let Some((alias, model)) = aliases.iter().find(|(_, model)| !names().any(|(name, _)| name == model)) {
        bail!("--alias {alias}={model}: {model} is not served; add it with -m or --on-demand");
    }
    let mut adapters = adapters(args)?;
    if args.open.draft.is_some() {
        ensure!(names().count() == 1, "--draft serves one model; serve the others with another command");
        ensure!(args.speculate != Some(0), "--draft has no effect with --speculate 0");
    }
    ensure!(
        args.open.chat_template.is_none() || names().count() == 1,
        "--chat-template serves one model; serve the others with another command"
    );
    let opening = args.open.opening()?;
    let source = |(name, at_start): (&String, bool)| {
        let LocalModel { path, name: id, .. } = load::resolve(name)?;
        let mut aliases: Vec<String> =
            aliases.iter().filter(|(_, model)| model == name).map(|(alias, _)| (*alias).to_owned()).collect();
        // A path reveals the layout of this machine, so a path is not published as an alias.
        if *name != id && !Path::new(name).exists() {
            aliases.push(name.clone());
        }
        let engine = EngineOptions {
            parallel: args.parallel.get(),
            queue: args.queue.get(),
            prefix_cache_bytes: args.prefix_cache as usize,
            speculate: args.speculate,
            ..EngineOptions::default()
        };
        let bytes = bytes_of(&path).with_context(|| path.display().to_string())?;
        let adapters = adapters.remove(name.as_str()).unwrap_or_default();
        let draft = opening.draft.as_deref().map(bytes_of).transpose().context("--draft")?;
        let bytes = bytes + adapters.iter().map(Adapter::bytes).sum::<u64>() + draft.unwrap_or_default();
        let adapter_names = adapters.iter().map(|adapter| adapter.name.clone()).collect();
        let opening = Opening { adapters, ..opening.clone() };
        let load = move || {
            let (engine, template) = load::start(&path, &opening, engine)?;
            Ok(LoadedModel { engine, template })
        };
        let (created, load) = (now(), Box::new(load));
        Ok(ModelSource { id, aliases, created, adapters: adapter_names, bytes, at_start, load })
    };
    names().map(source).collect()
}

/// Opens the adapters of `--lora`. Returns them by the model that the command line names.
fn adapters(args: &ServeArgs) -> Result<HashMap<&str, Vec<Adapter>>> {
    let models: Vec<&str> = args.model.iter().chain(&args.on_demand).map(String::as_str).collect();
    let mut adapters: HashMap<&str, Vec<Adapter>> = HashMap::new();
    for lora in &args.lora {
        let (wanted, name) = lora.model_and_name();
        let known = || models.join(", ");
        let model = match (wanted, models.as_slice()) {
            (None, [model]) => model,
            (None, _) => {
                bail!("--lora {name}: several models are served; write MODEL:{name} with one of {}", known())
            }
            (Some(wanted), _) => match models.iter().find(|model| **model == wanted) {
                Some(model) => model,
                None => bail!("--lora {wanted}:{name}: {wanted} is not served; expected one of {}", known()),
            },
        };
        adapters.entry(model).or_default().push(lora.open().with_context(|| format!("--lora {name}"))?);
    }
    Ok(adapters)
}

/// Returns the size of a model's weights in bytes: one file, all parts of a split file, or all
/// safetensors files of a folder.
fn bytes_of(path: &Path) -> Result<u64> {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let (folder, begin, extension) = match name.split_once("-00001-of-") {
        _ if path.is_dir() => (path, "", "safetensors"),
        Some((stem, _)) => (path.parent().unwrap_or(path), stem, "gguf"),
        None => return Ok(path.metadata()?.len()),
    };
    let mut bytes = 0;
    for entry in folder.read_dir()? {
        let file = entry?.path();
        let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let is_part = begin.is_empty() || name.strip_prefix(begin).is_some_and(|rest| rest.contains("-of-"));
        if is_part && file.extension() == Some(OsStr::new(extension)) {
            // Files of the hub's cache are symbolic links, which `metadata` follows.
            bytes += file.metadata()?.len();
        }
    }
    Ok(bytes)
}

async fn listen(host: &str, port: u16, app: App, served: &[String], has_page: bool) -> Result<()> {
    let listener = tokio::net::TcpListener::bind((host, port))
        .await
        .with_context(|| format!("cannot listen on {host}:{port}"))?;
    let address = listener.local_addr()?;
    eprintln!("serving {} on http://{address}/v1", served.join(", "));
    if has_page {
        eprintln!("a page to try it is at http://{address}/");
    }
    let loading = app.clone();
    let limit = ServerOptions::default().shutdown_limit.as_secs();
    let stopped = async move {
        stop_signal().await;
        eprintln!("stopping; running requests have {limit} s to finish");
    };
    let mut serving = std::pin::pin!(formwork_server::serve(listener, app, stopped));
    tokio::select! {
        served = &mut serving => return Ok(served?),
        loaded = loading.load() => loaded?,
    }
    Ok(serving.await?)
}

/// Waits for Ctrl-C or SIGTERM, the signal that service supervisors send.
async fn stop_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

fn parse_alias(alias: &str) -> Result<(&str, &str)> {
    match alias.split_once('=') {
        Some((name, model)) if !name.is_empty() && !model.is_empty() => Ok((name, model)),
        _ => bail!("--alias {alias}: expected NAME=MODEL"),
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_the_size_of_all_weight_files() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let write = |name: &str, bytes: usize| std::fs::write(folder.path().join(name), vec![0; bytes]);
        for (name, bytes) in [("a.gguf", 1), ("b-00001-of-00002.gguf", 2), ("b-00002-of-00002.gguf", 4)] {
            write(name, bytes)?;
        }
        for (name, bytes) in [("c.safetensors", 8), ("d.safetensors", 16), ("tokenizer.json", 32)] {
            write(name, bytes)?;
        }
        assert_eq!(bytes_of(&folder.path().join("a.gguf"))?, 1);
        assert_eq!(bytes_of(&folder.path().join("b-00001-of-00002.gguf"))?, 6);
        assert_eq!(bytes_of(folder.path())?, 24);
        assert!(bytes_of(&folder.path().join("e.gguf")).is_err());
        Ok(())
    }
}
