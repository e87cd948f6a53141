//! Converts a request to options and tools.

use formwork_openai::{RunTool, ToolRunRequest};
use formwork_protocol::sampling::Sampling;
use formwork_protocol::tools::{
    HttpTool, Lookup, McpClient, Preset, RESERVED, ToolCallingOptions, ToolDefinition, ToolRegistry,
    ToolSource,
};
use serde_json::Value;

use super::HostedTools;
use crate::error::{ApiError, Kind};

/// Returns the error of a field of the request.
pub(super) fn fault(place: impl Into<String>, reason: impl Into<String>) -> ApiError {
    Kind::ToolRun { place: place.into(), reason: reason.into() }.into()
}

/// Returns the options of the run and the tools that the request names, without those of MCP
/// servers. `provider` is the name of the provider's preset.
pub(super) fn prepare(
    request: &ToolRunRequest,
    hosted: &HostedTools,
    provider: &str,
) -> Result<(ToolCallingOptions, ToolRegistry), ApiError> {
    Ok((options(request, hosted, provider)?, tools(request, hosted)?))
}

/// Returns the options: those of the model, the profile, the operator, the presets, `options` and the sampling
/// parameters, each overriding the ones before.
fn options(
    request: &ToolRunRequest,
    hosted: &HostedTools,
    provider: &str,
) -> Result<ToolCallingOptions, ApiError> {
    let mut merged = Preset::for_model(provider, &request.model);
    if let Some(name) = &request.profile {
        let sampling = hosted.profiles.sampling(name, &request.model);
        let sampling = sampling.map_err(|error| fault("profile", error.to_string()))?;
        merged = merged.merge(&Preset::of_overrides(sampling.options()));
    }
    merged = merged.merge(&hosted.defaults);
    for (at, name) in request.presets.iter().enumerate() {
        let named = Preset::named(name).ok_or_else(|| {
            let known = Preset::NAMES.join(", ");
            fault(format!("presets[{at}]"), format!("unknown preset `{name}`; expected one of {known}"))
        })?;
        merged = merged.merge(&named);
    }
    let given = Value::Object(request.options.clone());
    if let Some(overrides) = given.get("request_overrides").and_then(Value::as_object)
        && let Some(name) = RESERVED.iter().find(|name| overrides.contains_key(**name))
    {
        return Err(fault(format!("options.request_overrides.{name}"), "the loop sets this field"));
    }
    let own = Preset::new(given).map_err(|error| fault("options", error.to_string()))?;
    let options_of = |preset: &Preset| preset.options().map_err(|error| fault("options", error.to_string()));
    let most = options_of(&merged)?.max_conversation_bytes;
    merged = merged.merge(&own).merge(&Preset::of_overrides(sampling(request)?));
    let options = options_of(&merged)?;
    if options.max_conversation_bytes > most {
        let reason = format!("{} is out of range; expected 0..={most}", options.max_conversation_bytes);
        return Err(fault("options.max_conversation_bytes", reason));
    }
    if options.max_turns > hosted.max_turns {
        let reason = format!("{} is out of range; expected 1..={}", options.max_turns, hosted.max_turns);
        return Err(fault("options.max_turns", reason));
    }
    Ok(options)
}

/// Checks the sampling parameters.
fn sampling(request: &ToolRunRequest) -> Result<formwork_protocol::Body, ApiError> {
    let mut known = request.sampling.clone();
    for name in ["seed", "max_tokens"] {
        let Some(value) = known.shift_remove(name) else { continue };
        let is_good =
            if name == "seed" { value.is_i64() || value.is_u64() } else { value.as_u64() > Some(0) };
        if !is_good {
            return Err(fault(name, "expected an integer in range"));
        }
    }
    for (name, value) in &known {
        if !value.is_number() {
            return Err(fault(name, "expected a number"));
        }
    }
    let sampling: Sampling =
        serde_json::from_value(known.into()).map_err(|error| fault("top_k", error.to_string()))?;
    sampling.check().map_err(|error| fault(error.field, error.to_string()))?;
    Ok(request.sampling.clone())
}

/// Returns the tools that the request names and its callbacks.
fn tools(request: &ToolRunRequest, hosted: &HostedTools) -> Result<ToolRegistry, ApiError> {
    let mut registry = ToolRegistry::new();
    for (at, tool) in request.tools.iter().enumerate() {
        let place = format!("tools[{at}]");
        let added = match tool {
            RunTool::Hosted(name) => {
                let Lookup::Found(tool) = hosted.registry.find(name) else {
                    let known = hosted.registry.tools().iter().map(|tool| tool.name()).collect::<Vec<_>>();
                    return Err(unknown(place, "tool", name, &known));
                };
                registry.insert(tool.clone())
            }
            RunTool::Callback { name, description, parameters, url } => {
                let definition = ToolDefinition::new(name, description, parameters.clone());
                registry.add(definition, callback(&place, url, hosted)?)
            }
        };
        added.map_err(|error| fault(place, error.to_string()))?;
    }
    Ok(registry)
}

fn callback(place: &str, url: &str, hosted: &HostedTools) -> Result<HttpTool, ApiError> {
    let place = format!("{place}.url");
    let Some(host) = hosted.callback(url) else {
        // The prefixes of the operator are not listed, since they may be internal addresses.
        let reason = "the server's configuration does not allow callbacks to this address";
        return Err(fault(place, reason));
    };
    let mut tool = HttpTool::new(url).map_err(|error| fault(&*place, error.to_string()))?;
    if let Some(bearer) = &host.bearer {
        tool = tool.with_bearer(bearer).map_err(|error| fault(&*place, error.to_string()))?;
    }
    Ok(tool.with_timeout(host.timeout).with_output_limit(host.output_limit))
}

/// Connects to the MCP servers that the request names.
pub(super) async fn connect(
    request: &ToolRunRequest,
    hosted: &HostedTools,
) -> Result<Vec<McpClient>, ApiError> {
    let mut servers = Vec::new();
    for (at, name) in request.mcp.iter().enumerate() {
        let place = format!("mcp[{at}]");
        let Some(server) = hosted.mcp.get(name) else {
            let known = hosted.mcp.keys().map(String::as_str).collect::<Vec<_>>();
            return Err(unknown(place, "MCP server", name, &known));
        };
        if request.mcp[..at].contains(name) {
            return Err(fault(place, format!("duplicate MCP server `{name}`")));
        }
        // The reason may show commands and addresses of the operator.
        servers.push(server.connect().await.map_err(|error| {
            tracing::warn!(server = name, %error, "cannot connect to an MCP server");
            ApiError::from(Kind::McpServer { name: name.clone() })
        })?);
    }
    Ok(servers)
}

fn unknown(place: String, what: &str, name: &str, known: &[&str]) -> ApiError {
    let expected = match known {
        [] => format!("the server's configuration has no {what}s"),
        known => format!("expected one of {}", known.join(", ")),
    };
    fault(place, format!("unknown {what} `{name}`; {expected}"))
}
