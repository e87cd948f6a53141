use serde::{Deserialize, Serialize};

use crate::directives::Mode;

/// The most attempts to repair an answer, unless something else is said.
pub const MAX_ATTEMPTS: u32 = 2;

/// How answers that do not fit are repaired.
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
    /// Whether the model is asked to repair what does not fit.
    #[serde(rename = "schemaRepairEnabled", alias = "enabled")]
    pub enabled: bool,
    /// How often at most, for each thing that is asked.
    #[serde(rename = "schemaRepairMaxAttempts", alias = "max_attempts")]
    pub max_attempts: u32,
    /// Whether an answer of which only a part fits is worth nothing.
    #[serde(rename = "schemaValidationStrict", alias = "strict")]
    pub strict: bool,
    /// The modes to ask in, the first first.
    pub modes: Vec<Mode>,
}

impl Default for RepairOptions {
    fn default() -> Self {
        Self { enabled: true, max_attempts: MAX_ATTEMPTS, strict: false, modes: Mode::ALL.to_vec() }
    }
}

impl RepairOptions {
    /// How often the model may be asked for a repair.
    pub const fn attempts(&self) -> u32 {
        if self.enabled { self.max_attempts } else { 0 }
    }
}
