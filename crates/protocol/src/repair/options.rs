use serde::{Deserialize, Serialize};

use crate::directives::Mode;

/// Default limit on repair attempts.
pub const MAX_ATTEMPTS: u32 = 2;

/// Highest limit on repair attempts, and on further attempts of a step, that files and commands
/// accept. The HTTP API has the same limit.
pub const MOST_ATTEMPTS: u32 = 8;

/// Options for repairing invalid answers.
///
/// ```
/// use formwork_protocol::repair::RepairOptions;
/// let options: RepairOptions = serde_json::from_str(r#"{"schemaRepairMaxAttempts": 1, "strict": true}"#)?;
/// assert_eq!(options, RepairOptions { max_attempts: 1, strict: true, ..RepairOptions::default() });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RepairOptions {
    /// True if the model is asked to repair invalid answers.
    #[serde(rename = "schemaRepairEnabled", alias = "enabled")]
    pub enabled: bool,
    /// Maximum number of repairs for each question or text, over all modes.
    #[serde(rename = "schemaRepairMaxAttempts", alias = "max_attempts")]
    pub max_attempts: u32,
    /// True if an invalid answer is rejected even if some of its fields are usable.
    #[serde(rename = "schemaValidationStrict", alias = "strict")]
    pub strict: bool,
    /// Modes in which the model is asked, in order.
    pub modes: Vec<Mode>,
}

impl Default for RepairOptions {
    fn default() -> Self {
        Self { enabled: true, max_attempts: MAX_ATTEMPTS, strict: false, modes: Mode::ALL.to_vec() }
    }
}

impl RepairOptions {
    /// Returns the maximum number of repairs, which is 0 if repairs are disabled.
    pub const fn attempts(&self) -> u32 {
        if self.enabled { self.max_attempts } else { 0 }
    }
}
