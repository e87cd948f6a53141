//! `formwork serve`

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use formwork_engine::EngineOptions;
use formwork_server::{App, ServedModel, ServerOptions};

use crate::args::ServeArgs;
use crate::load::{self, Loaded};

pub(crate) fn serve(args: ServeArgs) -> Result<bool> {
    let mut names = args.model;
    if names.is_empty() {
        names.push(formwork_model::hub::default_manifest().name.clone());
    }
    let aliases = args.alias.iter().map(|alias| parse_alias(alias)).collect::<Result<Vec<_>>>()?;
    if let Some((alias, model)) = aliases.iter().find(|(_, model)| !names.iter().any(|name| name == model)) {
        bail!("--alias {alias}={model}: {model} is not served; name it with -m");
    }
    let options = EngineOptions { parallel: args.parallel.get(), ..EngineOptions::default() };
    let mut models = Vec::with_capacity(names.len());
    for name in &names {
        let Loaded { engine, template, name: id } = load::load(name, args.open.options(), options)?;
        let mut aliases: Vec<String> =
            aliases.iter().filter(|(_, model)| model == name).map(|(alias, _)| (*alias).to_owned()).collect();
        // A path says where a file lies on this machine, which is nobody's business.
        if *name != id && !std::path::Path::new(name).exists() {
            aliases.push(name.clone());
        }
        models.push(ServedModel { id, aliases, created: now(), engine, template });
    }
    let api_key = args.api_key.or_else(|| std::env::var("FORMWORK_API_KEY").ok());
    let served: Vec<String> = models.iter().map(|model| model.id.clone()).collect();
    let app = App::new(models, ServerOptions { api_key, ..ServerOptions::default() })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(listen(&args.host, args.port, app, &served));
    // What outlasted the shutdown limit is not waited for.
    runtime.shutdown_background();
    result.map(|()| true)
}

async fn listen(host: &str, port: u16, app: App, served: &[String]) -> Result<()> {
    let listener = tokio::net::TcpListener::bind((host, port))
        .await
        .with_context(|| format!("cannot listen on {host}:{port}"))?;
    eprintln!("serving {} on http://{}/v1", served.join(", "), listener.local_addr()?);
    Ok(formwork_server::serve(listener, app, stop_signal()).await?)
}

/// Ctrl-C, or the signal that service supervisors send.
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
