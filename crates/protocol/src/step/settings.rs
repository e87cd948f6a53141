use super::Processing;
use crate::adapt::{AdaptError, AdaptOptions};
use crate::config::{Aros, StructuredOutput};
use crate::precheck::PrecheckOptions;
use crate::repair::RepairOptions;

/// What is done for a step's output: its `processing` block over the defaults of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whether it is constrained while it is written.
    pub structured_output: StructuredOutput,
    /// What is done to it afterwards.
    pub adapt: AdaptOptions,
    /// What is checked before.
    pub precheck: Option<PrecheckOptions>,
    /// How it is repaired.
    pub repair: Option<RepairOptions>,
    /// The grammar that it is held to, in GBNF, in place of its schema.
    pub grammar: Option<String>,
    /// Whether only an output counts that fits as it came.
    pub enforce_grammar: bool,
    /// Whether corrections are written down in a table of their own.
    pub correction_ledger: bool,
    /// Whether any of this is done, and traced.
    pub is_on: bool,
}

impl Settings {
    /// Nothing.
    pub fn off() -> Self {
        Self {
            structured_output: StructuredOutput::Off,
            adapt: AdaptOptions::off(),
            precheck: None,
            repair: None,
            grammar: None,
            enforce_grammar: false,
            correction_ledger: false,
            is_on: false,
        }
    }

    /// What a block says, and the configuration where it does not; nothing, where that is not enabled.
    ///
    /// # Errors
    /// When a number of the configuration is not one that it may have.
    pub fn resolved(processing: &Processing, aros: &Aros) -> Result<Self, AdaptError> {
        if !aros.enabled {
            return Ok(Self::off());
        }
        let adapt = AdaptOptions::from_config(aros)?;
        let adapt = match processing.aop {
            Some(level) => adapt.at_level(level),
            None => adapt,
        };
        let precheck = &processing.reasoning_precheck;
        let is_checked = precheck.enabled.unwrap_or(aros.enable_reasoning_precheck);
        Ok(Self {
            structured_output: processing.structured_output.unwrap_or(aros.structured_output_default),
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
