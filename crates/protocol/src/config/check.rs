//! Checks that types cannot express.

use super::error::{Fault, Reason};
use super::{Config, LOCAL_PROVIDER, Model, PROVIDER_PRESETS, Profile, Provider};
use crate::directives::{Preset, presets};
use crate::sampling::{DEFAULT_PROFILE, Sampling};

/// Request fields that must not have defaults.
const RESERVED: [&str; 6] = ["model", "messages", "tools", "tool_choice", "response_format", "stream"];
/// Largest allowed value of `max_unescape_depth`. In practice, JSON is nested in strings less deeply.
const UNESCAPE_DEPTH: u8 = 8;

/// Returns the first error. The order is the table `[aros]`, providers, sampling profiles, models, traces.
pub(super) fn check(config: &Config) -> Result<(), Fault> {
    aros(config).map_err(|fault| at(&["aros"], fault))?;
    for (name, entry) in &config.providers {
        provider(name, entry).map_err(|fault| at(&["providers", name], fault))?;
    }
    for (name, entry) in &config.sampling_profiles {
        profile(name, entry).map_err(|fault| at(&["sampling_profiles", name], fault))?;
    }
    for (name, entry) in &config.models {
        model(config, entry).map_err(|fault| at(&["models", name], fault))?;
    }
    match &config.traces.database {
        Some(path) if path.as_os_str().is_empty() => Err(at(&["traces"], (vec!["database"], Reason::Empty))),
        _ => Ok(()),
    }
}

/// A reason, and its key path relative to the checked table.
type Wrong = (Vec<&'static str>, Reason);

fn at(path: &[&str], (keys, reason): Wrong) -> Fault {
    Fault { path: path.iter().copied().chain(keys).map(str::to_owned).collect(), reason }
}

fn aros(config: &Config) -> Result<(), Wrong> {
    let level = config.aros.coercion_tolerant_level;
    within(level <= 2, "coercion_tolerant_level", level.into(), "0, 1 or 2")?;
    let depth = config.aros.max_unescape_depth;
    within(depth <= UNESCAPE_DEPTH, "max_unescape_depth", depth.into(), "a depth of at most 8")
}

fn provider(name: &str, provider: &Provider) -> Result<(), Wrong> {
    if name == LOCAL_PROVIDER {
        return Err((Vec::new(), Reason::Local));
    }
    let retry = &provider.retry;
    let times = [
        (vec!["timeout"], provider.timeout, false),
        (vec!["retry", "first"], retry.first, true),
        (vec!["retry", "longest"], retry.longest, true),
        (vec!["retry", "deadline"], retry.deadline, true),
    ];
    for (path, time, may_be_zero) in times {
        let Some(given) = time else { continue };
        let is_time = super::seconds(given).is_some_and(|time| may_be_zero || !time.is_zero());
        if !is_time {
            let wanted = if may_be_zero { "a number of seconds" } else { "a positive number of seconds" };
            return Err((path, Reason::Number { given, wanted }));
        }
    }
    if let Some(field) = RESERVED.into_iter().find(|&field| provider.llm_options_defaults.contains_key(field))
    {
        return Err((vec!["llm_options_defaults"], Reason::Reserved { field: field.to_owned() }));
    }
    directives(&provider.directives)?;
    if let Some(preset) = &provider.preset {
        known(&["preset"], preset, PROVIDER_PRESETS.iter().map(|&name| name.to_owned()))?;
    }
    provider.backend(None).map(|_| ()).map_err(|error| {
        let path = if error.is_of_header() { vec!["headers"] } else { vec!["base_url"] };
        (path, error.into())
    })
}

fn profile(name: &str, profile: &Profile) -> Result<(), Wrong> {
    profile.sampling().check().map_err(|error| (vec![error.field], error.into()))?;
    // A request for the default profile asks for the backend's own values.
    if name == DEFAULT_PROFILE && profile.sampling() != Sampling::default() {
        return Err((Vec::new(), Reason::Default));
    }
    Ok(())
}

fn model(config: &Config, model: &Model) -> Result<(), Wrong> {
    if model.model.is_empty() {
        return Err((vec!["model"], Reason::Empty));
    }
    directives(&model.directives)?;
    if model.provider != LOCAL_PROVIDER && !config.providers.contains_key(&model.provider) {
        let names = std::iter::once(LOCAL_PROVIDER.to_owned()).chain(config.providers.keys().cloned());
        known(&["provider"], &model.provider, names)?;
    }
    if let Some(profile) = &model.profile {
        known(&["profile"], profile, config.profiles().iter().map(|profile| profile.name.clone()))?;
    }
    Ok(())
}

/// Checks that no field of requests for directives is set that the protocol sets itself.
fn directives(preset: &Preset) -> Result<(), Wrong> {
    for (key, fields) in [
        ("request_overrides", &preset.request_overrides),
        ("structured_request_overrides", &preset.structured_request_overrides),
        ("prompt_only_request_overrides", &preset.prompt_only_request_overrides),
    ] {
        if let Some(field) = presets::RESERVED.into_iter().find(|&field| fields.contains_key(field)) {
            return Err((vec!["directives", key], Reason::Reserved { field: field.to_owned() }));
        }
    }
    match &preset.modes {
        Some(modes) if modes.is_empty() => Err((vec!["directives", "modes"], Reason::Empty)),
        _ => Ok(()),
    }
}

fn known(path: &[&'static str], given: &str, names: impl Iterator<Item = String>) -> Result<(), Wrong> {
    let known: Vec<String> = names.collect();
    if known.iter().any(|name| name == given) {
        return Ok(());
    }
    Err((path.to_vec(), Reason::Unknown { given: given.to_owned(), known }))
}

fn within(good: bool, key: &'static str, given: f64, wanted: &'static str) -> Result<(), Wrong> {
    if good { Ok(()) } else { Err((vec![key], Reason::Number { given, wanted })) }
}
