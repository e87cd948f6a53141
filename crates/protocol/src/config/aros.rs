use serde::Deserialize;

use crate::adapt::{AdaptError, AdaptOptions, AnyOfStrategy, Depth, OutputProcessing};

/// Section `[aros]`: defaults for adapting outputs to their schemas. A step can override most of
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Aros {
    /// Master switch. If false, outputs are neither constrained nor adapted, whatever the other
    /// settings say.
    pub enabled: bool,
    /// Constraint on outputs during generation.
    pub structured_output_default: StructuredOutput,
    /// Level of processing for outputs that do not match their schema.
    pub enable_aop_default: OutputProcessing,
    /// Tolerance of decoding: 0 accepts only JSON, 1 also accepts JSON5, and 2 also repairs broken
    /// JSON.
    pub coercion_tolerant_level: u8,
    /// Maximum number of times that JSON inside a string is unescaped, from 0 to 8.
    pub max_unescape_depth: u8,
    /// Choice among the branches of `anyOf` and `oneOf`.
    pub anyof_strategy: AnyOfStrategy,
    /// True if plans are checked before a generation.
    pub enable_reasoning_precheck: bool,
    /// True if traces record corrections in a separate table.
    pub correction_ledger_enabled: bool,
}

impl Default for Aros {
    fn default() -> Self {
        Self {
            enabled: true,
            structured_output_default: StructuredOutput::Auto,
            enable_aop_default: OutputProcessing::Minimal,
            coercion_tolerant_level: 0,
            max_unescape_depth: 2,
            anyof_strategy: AnyOfStrategy::FirstPass,
            enable_reasoning_precheck: false,
            correction_ledger_enabled: false,
        }
    }
}

impl Aros {
    /// Returns the options of adaptation. If adaptation is disabled, the level is `off`.
    ///
    /// # Errors
    /// Returns an error if the tolerance level is greater than 2 or the unescape depth is greater
    /// than 8.
    pub fn adapt_options(&self) -> Result<AdaptOptions, AdaptError> {
        let level = if self.enabled { self.enable_aop_default } else { OutputProcessing::Off };
        Ok(AdaptOptions {
            tolerance: self.coercion_tolerant_level.try_into()?,
            max_unescape_depth: Depth::try_from(self.max_unescape_depth)?.get(),
            anyof_strategy: self.anyof_strategy,
            ..AdaptOptions::of_level(level)
        })
    }
}

/// Constraint on an output during generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// No constraint.
    Off,
    /// Strictest constraint that the backend supports, if the step has a schema or grammar.
    Auto,
    /// Constraint by `response_format`.
    #[serde(alias = "openai_json")]
    Json,
    /// Constraint by grammar.
    Grammar,
    /// Same as `Grammar`, for configurations that name the Outlines library.
    Outlines,
    /// Same as `Grammar`, for configurations that name the `XGrammar` library.
    Xgrammar,
}

impl StructuredOutput {
    /// Returns the name used in traces.
    pub const fn mode_name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Json => "openai_json",
            Self::Grammar => "grammar",
            Self::Outlines => "outlines",
            Self::Xgrammar => "xgrammar",
        }
    }
}
