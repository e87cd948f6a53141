use serde::Deserialize;

/// `[aros]`: how outputs are adapted to their schemas unless a step says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Aros {
    /// Whether any of it is done; alone it does nothing.
    pub enabled: bool,
    /// Whether outputs are constrained while they are written.
    pub structured_output_default: StructuredOutput,
    /// How much is done to outputs that do not fit.
    pub enable_aop_default: OutputProcessing,
    /// How tolerant decoding is: 0 takes JSON alone, 1 JSON5 as well, 2 repairs what is broken.
    pub coercion_tolerant_level: u8,
    /// How often text that is JSON in a string is taken out of it.
    pub max_unescape_depth: u8,
    /// Which branch of several is taken.
    pub anyof_strategy: AnyOfStrategy,
    /// Whether plans are checked before a generation.
    pub enable_reasoning_precheck: bool,
    /// Whether corrections are written down in a table of their own.
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

/// Whether an output is constrained while it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// It is not.
    Off,
    /// As well as the backend can.
    Auto,
    /// By `response_format`.
    #[serde(alias = "openai_json")]
    Json,
    /// By a grammar.
    Grammar,
}

/// How much is done to an output that does not fit its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputProcessing {
    /// Nothing.
    Off,
    /// JSON is found, unescaped and parsed, and a few conversions are made.
    Minimal,
    /// Tolerant decoding and branches of `anyOf` and `oneOf` as well.
    Full,
}

/// Which branch of `anyOf` or `oneOf` a value is made to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnyOfStrategy {
    /// The first that it fits.
    FirstPass,
    /// The only one that it fits.
    Unique,
}
