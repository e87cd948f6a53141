//! Converts a request to a preset and a run request.

use formwork_grammar::{Grammar, SchemaOptions};
use formwork_openai::{
    DirectiveDefinition, DirectiveMode, DirectiveRules, DirectivesRequest, RequiredDirective,
};
use formwork_protocol::directives::{
    Definition, Mode, Preset, Registry, RegistryError, Requirement, RunRequest, StructuredOutputOptions,
    presets,
};
use formwork_protocol::merge;

use crate::app::ServerOptions;
use crate::constraints::Compiling;
use crate::error::{ApiError, Kind};
use crate::providers::RemoteProvider;

/// Builds the preset and the run request.
pub(super) fn prepare(
    request: DirectivesRequest,
    provider: Option<&RemoteProvider>,
    server: &ServerOptions,
    compiling: Compiling,
) -> Result<(Preset, RunRequest), ApiError> {
    let modes: Option<Vec<Mode>> = request.modes.map(|modes| modes.into_iter().map(mode).collect());
    let is_local = provider.is_none();
    if is_local && modes.as_ref().is_none_or(|modes| modes.contains(&Mode::JsonSchema)) {
        check_payloads(&request.rules.definitions, server, compiling)?;
    }
    let mut options = options(request.rules)?;
    if let Some(name) = request.schema_name {
        options = options.with_schema_name(name).map_err(|source| bad_registry("", source))?;
    }
    options.output_instructions = request.output_instructions;
    options.inject_response_format = request.inject_response_format;
    let mut run = RunRequest::of_history(request.messages, options);
    let sampling = provider.and_then(|provider| provider.sampling.get(&*request.chat.model));
    let fields = merge(&sampling.cloned().unwrap_or_default(), &request.fields);
    run.overrides = merge(&fields, &request.request_overrides);
    run.modes = modes;
    let bounded = |given: usize| u32::try_from(given).unwrap_or(u32::MAX);
    let own = Preset {
        repair_retries: request.repair_retries.map(bounded),
        max_requests: request.max_requests.map(bounded),
        type_by_decision: request.type_by_decision,
        ..Preset::default()
    };
    let known = match provider {
        Some(provider) => provider.directives(&request.chat.model),
        // The engine supports all modes, so a refusal is never about a mode.
        None => Preset { stop_on_refusal: Some(true), ..presets::provider_defaults("local") },
    };
    Ok((presets::merge([known, own]), run))
}

/// Builds the options that say which answers are valid.
pub(super) fn options(rules: DirectiveRules) -> Result<StructuredOutputOptions, ApiError> {
    let definitions = rules.definitions.into_iter().map(definition).collect();
    let mut registry = Registry::new(definitions).map_err(|source| bad_registry("registry.", source))?;
    if let Some(instructions) = rules.instructions {
        registry = registry.with_instructions(instructions);
    }
    let mut options = StructuredOutputOptions::new(registry);
    let bad = |source| bad_registry("", source);
    if let Some(types) = rules.allowed_types {
        options = options.with_allowed_types(types).map_err(bad)?;
    }
    options = options.with_type_aliases(rules.type_aliases).map_err(bad)?;
    let required = |given: RequiredDirective| {
        let RequiredDirective { kind, min, max } = given;
        Requirement { kind, min, max }
    };
    options = options.with_required(rules.require.into_iter().map(required)).map_err(bad)?;
    options.max_bytes = rules.max_bytes.unwrap_or(options.max_bytes);
    options.max_directives = rules.max_directives;
    options.max_text_length = rules.max_text_length;
    Ok(options)
}

/// Checks that each payload schema can be enforced.
fn check_payloads(
    definitions: &[DirectiveDefinition],
    server: &ServerOptions,
    compiling: Compiling,
) -> Result<(), ApiError> {
    for (at, definition) in definitions.iter().enumerate() {
        let Some(schema) = &definition.payload_schema else { continue };
        let (options, limits) = (SchemaOptions::default(), &compiling.limits(&server.grammar_limits));
        let compiled = Grammar::json_schema_with_remotes(schema, &server.schemas, &options, limits);
        compiled.map_err(|source| {
            let place = format!("registry.definitions[{at}].payload_schema");
            Kind::Payload { place, source }
        })?;
    }
    Ok(())
}

fn bad_registry(prefix: &str, source: RegistryError) -> ApiError {
    Kind::Registry { place: format!("{prefix}{}", source.place()), source }.into()
}

fn definition(given: DirectiveDefinition) -> Definition {
    Definition {
        kind: given.kind,
        description: given.description,
        aliases: given.aliases,
        payload_schema: given.payload_schema,
        instructions: given.instructions,
        patch: given.patch,
    }
}

const fn mode(given: DirectiveMode) -> Mode {
    match given {
        DirectiveMode::JsonSchema => Mode::JsonSchema,
        DirectiveMode::JsonObject => Mode::JsonObject,
        DirectiveMode::PromptOnly => Mode::PromptOnly,
    }
}
