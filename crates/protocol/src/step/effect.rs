//! Options of a step that would have no effect. They are errors, so that nobody relies on them.

use super::definition::Processing;
use super::error::Fault;
use crate::Body;
use crate::adapt::{AnyOfStrategy, OutputProcessing, Tolerance};
use crate::config::{Aros, StructuredOutput};

/// Request fields that each request sets, so that `options` cannot.
const RESERVED: [&str; 7] =
    ["model", "messages", "tools", "tool_choice", "response_format", "grammar", "stream"];

/// Returns the first field of `options` that each request sets itself.
pub(super) fn reserved(options: &Body) -> Option<&'static str> {
    RESERVED.into_iter().find(|&field| options.contains_key(field))
}

/// Returns the first option that has no effect, with its path. If the configuration disables all
/// processing, every option is accepted.
pub(super) fn check(processing: &Processing, aros: Aros) -> Result<(), (Vec<&'static str>, Fault)> {
    if !aros.enabled {
        return Ok(());
    }
    let none = |path: Vec<&'static str>, reason: &'static str| Err((path, Fault::NoEffect { reason }));
    let wanted = processing.structured_output.unwrap_or(aros.structured_output_default);
    if processing.grammar.is_some() && matches!(wanted, StructuredOutput::Off | StructuredOutput::Json) {
        return none(vec!["grammar"], "`structured_output` is neither auto nor grammar");
    }
    if processing.modes.is_some()
        && (processing.grammar.is_some()
            || !matches!(wanted, StructuredOutput::Auto | StructuredOutput::Json))
    {
        return none(
            vec!["modes"],
            "the modes are those of `structured_output` auto and json without a grammar",
        );
    }
    let has_schema = processing.schema.is_some();
    if processing.schema_in_prompt == Some(true) && !has_schema {
        return none(vec!["schema_in_prompt"], "the step has no schema");
    }
    if processing.repair.is_some() && !has_schema {
        return none(vec!["repair"], "the step has no schema");
    }
    if !processing.processors.is_empty() && !has_schema {
        return none(vec!["processors"], "the step has no schema");
    }
    let level = processing.aop.unwrap_or(aros.enable_aop_default);
    let coercion = &processing.coercion;
    if level != OutputProcessing::Full {
        if coercion.tolerant_level.is_some_and(|level| level != Tolerance::Strict) {
            return none(vec!["coercion", "tolerant_level"], "`aop` is not full");
        }
        if coercion.anyof_strategy.is_some_and(|strategy| strategy != AnyOfStrategy::FirstPass) {
            return none(vec!["coercion", "anyof_strategy"], "`aop` is not full");
        }
    }
    if level == OutputProcessing::Off && processing.shadow {
        return none(vec!["shadow"], "`aop` is off");
    }
    precheck(processing, aros)
}

fn precheck(processing: &Processing, aros: Aros) -> Result<(), (Vec<&'static str>, Fault)> {
    let options = &processing.reasoning_precheck;
    // A disabled precheck may keep its options.
    if !options.enabled.unwrap_or(aros.enable_reasoning_precheck) {
        return Ok(());
    }
    let none = |key, reason| Err((vec!["reasoning_precheck", key], Fault::NoEffect { reason }));
    if options.planner_agent.is_some() && options.consensus_samples < 2 {
        return none("planner_agent", "`consensus_samples` is below 2");
    }
    if options.planner_agent.is_none() && options.consensus_samples >= 2 {
        return none("consensus_samples", "there is no `planner_agent`");
    }
    Ok(())
}
