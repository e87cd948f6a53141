use super::Processing;
use crate::adapt::{AdaptError, AdaptOptions};
use crate::config::{Aros, StructuredOutput};
use crate::directives::Mode;
use crate::precheck::PrecheckOptions;
use crate::repair::RepairOptions;

/// Processing settings of a step, resolved from its `processing` block and the defaults of a
/// configuration.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Settings {
    /// Constraint of the output during decoding.
    pub structured_output: StructuredOutput,
    /// Modes in which JSON is requested, in order. The first mode that the backend enforces is used.
    pub modes: Vec<Mode>,
    /// True if prompts contain the schema, unless the backend enforces it.
    pub schema_in_prompt: bool,
    /// Options of the adaptation.
    pub adapt: AdaptOptions,
    /// Options of the precheck, which runs before the model is called; `None` if the precheck is
    /// off.
    pub precheck: Option<PrecheckOptions>,
    /// Options for asking the model to repair an invalid output; `None` if repairs are off.
    pub repair: Option<RepairOptions>,
    /// GBNF grammar that constrains the output instead of the schema.
    pub grammar: Option<String>,
    /// True to accept only outputs that match the schema without adaptation.
    pub enforce_grammar: bool,
    /// True to record each successful stage of an adaptation in the correction ledger, a separate
    /// table of the trace.
    pub correction_ledger: bool,
    /// True if the configuration enables processing. If false, adaptations are not traced.
    pub is_on: bool,
}

impl Settings {
    /// Returns settings with all processing disabled.
    pub fn off() -> Self {
        Self {
            structured_output: StructuredOutput::Off,
            modes: Mode::ALL.to_vec(),
            schema_in_prompt: false,
            adapt: AdaptOptions::off(),
            precheck: None,
            repair: None,
            grammar: None,
            enforce_grammar: false,
            correction_ledger: false,
            is_on: false,
        }
    }

    /// Resolves the options of `processing`, with the defaults of `aros` for options that are not
    /// set. Returns [`off`](Self::off) if `aros.enabled` is false.
    ///
    /// # Errors
    /// Returns an error if a number in `aros` is out of range.
    pub fn resolved(processing: &Processing, aros: &Aros) -> Result<Self, AdaptError> {
        if !aros.enabled {
            return Ok(Self::off());
        }
        let adapt = aros.adapt_options()?;
        let adapt = match processing.aop {
            Some(level) => adapt.at_level(level),
            None => adapt,
        };
        let precheck = &processing.reasoning_precheck;
        let is_checked = precheck.enabled.unwrap_or(aros.enable_reasoning_precheck);
        Ok(Self {
            structured_output: processing.structured_output.unwrap_or(aros.structured_output_default),
            modes: processing.modes.clone().unwrap_or_else(|| Mode::ALL.to_vec()),
            schema_in_prompt: processing.schema_in_prompt.unwrap_or(true),
            adapt: adapt.with_coercion(&processing.coercion).with_shadow(processing.shadow),
            precheck: is_checked.then(|| precheck.clone()),
            repair: processing.repair.clone(),
            grammar: processing.grammar.clone(),
            enforce_grammar: processing.enforce_grammar,
            correction_ledger: aros.correction_ledger_enabled,
            is_on: true,
        })
    }
}
