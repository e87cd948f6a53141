//! `POST /v1/tools/run`: runs a tool loop on a served model or a provider.

mod hosted;
mod prepare;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use formwork_openai::ToolRunRequest;
use formwork_protocol::PromptRunner;
use formwork_protocol::catalogue;
use formwork_protocol::config::LOCAL_PROVIDER;
use formwork_protocol::tools::{
    FilteredToolRegistry, McpClient, ToolCallingOptions, ToolLoopRunner, ToolRegistry, ToolRun, ToolSource,
    ToolUseMode,
};

use crate::app::App;
use crate::body::JsonBody;
use crate::error::{ApiError, Kind};
use crate::local::LocalBackend;
pub use hosted::{CallbackHost, HostedTools, McpServer, McpTarget};

/// `POST /v1/tools/run`.
///
/// The answer is the record of the run, also if the run failed.
pub(crate) async fn run(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Json<ToolRun>, ApiError> {
    let request = ToolRunRequest::from_json(&body)?;
    let hosted = app.options().tools.clone();
    let _permit = hosted.permit().ok_or(Kind::TooManyRuns)?;
    let provider = app.provider(request.provider.as_deref())?;
    let (prompt, name) = if let Some(provider) = provider {
        let by_url = catalogue::provider_of_url(&provider.settings.base_url);
        let name = provider.settings.preset.as_deref().or(by_url).unwrap_or_default();
        (provider.prompts(&*request.model), name.to_owned())
    } else {
        // Reports an unknown model before any other error.
        let model = app.model(&request.model).await?.model.id.clone();
        (PromptRunner::new(Arc::new(LocalBackend::new(app.clone())), model), LOCAL_PROVIDER.to_owned())
    };
    let (options, registry) = {
        let (request, hosted) = (request.clone(), hosted.clone());
        // Schemas of the request are compiled, which may take a while.
        app.offload(move || prepare::prepare(&request, &hosted, &name)).await?
    };
    let limit = app.options().request_timeout;
    let run = looped(request, &hosted, prompt, options, registry);
    let Some(limit) = limit else { return run.await };
    // The whole run ends at the limit. Dropping it ends its request, its tools and its servers.
    tokio::time::timeout(limit, run).await.unwrap_or_else(|_| Err(Kind::RunOverdue { limit }.into()))
}

/// Connects to the MCP servers of the request, and runs the loop.
async fn looped(
    request: ToolRunRequest,
    hosted: &HostedTools,
    prompt: PromptRunner,
    options: ToolCallingOptions,
    registry: ToolRegistry,
) -> Result<Json<ToolRun>, ApiError> {
    let servers = prepare::connect(&request, hosted).await?;
    let registry = with_servers(registry, &servers).await?;
    if registry.tools().is_empty() && options.tool_use_mode == ToolUseMode::Enforced {
        return Err(prepare::fault("tools", "a tool call is required, but no tools are given"));
    }
    let source = masked(&request, registry)?;
    let runner = ToolLoopRunner::new(prompt, source, options)
        .map_err(|error| prepare::fault("options", error.to_string()))?;
    let ran = runner.run(request.messages).await;
    for server in servers {
        McpClient::close(server).await;
    }
    // A run is only cancelled by dropping it.
    ran.map(Json).map_err(|_| Kind::Panicked.into())
}

/// Adds the tools of the connected MCP servers.
async fn with_servers(mut registry: ToolRegistry, servers: &[McpClient]) -> Result<ToolRegistry, ApiError> {
    for server in servers {
        let (tools, refused) =
            server.tools().await.map_err(|error| prepare::fault("mcp", error.to_string()))?;
        for error in refused {
            tracing::warn!(%error, "tool skipped");
        }
        for tool in tools {
            registry.insert(tool).map_err(|error| prepare::fault("mcp", error.to_string()))?;
        }
    }
    Ok(registry)
}

/// Applies `allow` and `deny`.
fn masked(request: &ToolRunRequest, registry: ToolRegistry) -> Result<Arc<dyn ToolSource>, ApiError> {
    let known: Vec<String> = registry.tools().iter().map(|tool| tool.name().to_owned()).collect();
    let lists = [("allow", request.allow.as_deref().unwrap_or_default()), ("deny", &request.deny)];
    for (field, names) in lists {
        if let Some((at, name)) = names.iter().enumerate().find(|(_, name)| !known.contains(name)) {
            let reason = format!("unknown tool `{name}`; expected one of {}", known.join(", "));
            return Err(prepare::fault(format!("{field}[{at}]"), reason));
        }
    }
    let mut source = FilteredToolRegistry::new(Arc::new(registry)).deny(request.deny.clone());
    if let Some(allow) = &request.allow {
        source = source.allow(allow.clone());
    }
    Ok(Arc::new(source))
}
