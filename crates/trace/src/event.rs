//! Names of trace events and their attributes.

use std::borrow::Cow;

use serde::Serialize;

/// Event with a documented name.
///
/// [`Span::event`](super::Span::event) accepts other names, too, but the health report counts only
/// these.
///
/// | event | attributes |
/// |---|---|
/// | `grammar.applied` | `mode` (such as `json`), `schema_hash` (SHA-256 of the schema, hexadecimal) |
/// | `aros.soe.enabled` | `mode` |
/// | `aros.soe.skipped` | `mode`, `reason` |
/// | `aros.aop.syntactic.*` | `reason`, `transforms`, `error_preview` |
/// | `aros.aop.coercion.*` | `reason`, `transforms`, `branch_index`, `error_preview` |
/// | `output.coercion.attempt` | `stage`, `reason`, `expected_type`, `actual_type` |
/// | `output.coercion.success` | `stage`, `transforms`, `branch_index`, `patch_preview` |
/// | `output.coercion.fail` | `stage`, `error_preview`, `recovered` (true if a later stage succeeded) |
/// | `reasoning.validation` | `result` (`pass` or `fail`), `score` |
/// | `aros.reasoning.precheck.*` | `reason`, `score`, `feedback`, `consensus` |
///
/// The names with `*` end in `success`, `skip` or `fail`, and for the precheck in `pass`, `fail` or
/// `skipped`. `transforms` is a list of names such as `str->int`. `stage` is `extract`, `tolerant`,
/// `syntactic`, `semantic` or `custom`. In shadow mode, the events of `aros.aop` and
/// `output.coercion` have `shadow` set to true. Attributes that do not apply are omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The backend was asked to constrain the output by a schema or a grammar.
    GrammarApplied,
    /// The output is constrained during decoding.
    SoeEnabled,
    /// The output is not constrained, although this is configured.
    SoeSkipped,
    /// Broken JSON was repaired.
    SyntacticSuccess,
    /// There was nothing to repair.
    SyntacticSkip,
    /// Broken JSON could not be repaired.
    SyntacticFail,
    /// A value was converted to the type in its schema.
    CoercionSuccess,
    /// There was nothing to convert.
    CoercionSkip,
    /// A value could not be converted.
    CoercionFail,
    /// A stage starts to process an output.
    OutputAttempt,
    /// A stage has changed an output.
    OutputSuccess,
    /// A stage could not process an output.
    OutputFail,
    /// A plan was judged.
    ReasoningValidation,
    /// The precheck passed.
    PrecheckPass,
    /// The precheck failed.
    PrecheckFail,
    /// The precheck had nothing to check.
    PrecheckSkipped,
}

impl Event {
    /// All events in the order of their declaration.
    pub const ALL: [Self; 16] = [
        Self::GrammarApplied,
        Self::SoeEnabled,
        Self::SoeSkipped,
        Self::SyntacticSuccess,
        Self::SyntacticSkip,
        Self::SyntacticFail,
        Self::CoercionSuccess,
        Self::CoercionSkip,
        Self::CoercionFail,
        Self::OutputAttempt,
        Self::OutputSuccess,
        Self::OutputFail,
        Self::ReasoningValidation,
        Self::PrecheckPass,
        Self::PrecheckFail,
        Self::PrecheckSkipped,
    ];

    /// Returns the name used in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GrammarApplied => "grammar.applied",
            Self::SoeEnabled => "aros.soe.enabled",
            Self::SoeSkipped => "aros.soe.skipped",
            Self::SyntacticSuccess => "aros.aop.syntactic.success",
            Self::SyntacticSkip => "aros.aop.syntactic.skip",
            Self::SyntacticFail => "aros.aop.syntactic.fail",
            Self::CoercionSuccess => "aros.aop.coercion.success",
            Self::CoercionSkip => "aros.aop.coercion.skip",
            Self::CoercionFail => "aros.aop.coercion.fail",
            Self::OutputAttempt => "output.coercion.attempt",
            Self::OutputSuccess => "output.coercion.success",
            Self::OutputFail => "output.coercion.fail",
            Self::ReasoningValidation => "reasoning.validation",
            Self::PrecheckPass => "aros.reasoning.precheck.pass",
            Self::PrecheckFail => "aros.reasoning.precheck.fail",
            Self::PrecheckSkipped => "aros.reasoning.precheck.skipped",
        }
    }

    /// Returns the event with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }
}

impl From<Event> for Cow<'static, str> {
    fn from(event: Event) -> Self {
        Self::Borrowed(event.name())
    }
}

impl Serialize for Event {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_names_are_unique() {
        for (at, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, at);
            assert_eq!(Event::of_name(event.name()), Some(event));
        }
        assert_eq!(Event::of_name("output.coercion"), None);
    }
}
