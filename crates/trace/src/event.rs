//! Names of trace events and their attributes.

use std::borrow::Cow;

use serde::Serialize;

/// Event with a documented name and documented attributes.
///
/// [`Span::event`](super::Span::event) also accepts events with other names, but the health report
/// ignores them.
///
/// | event | attributes |
/// |---|---|
/// | `grammar.applied` | `mode` (as configured, such as `openai_json`), `sent` (`json_schema`, `json_object` or `grammar`), `schema_hash` (SHA-256 of the schema, hexadecimal) |
/// | `aros.soe.enabled` | `mode` |
/// | `aros.soe.skipped` | `mode`, `reason` |
/// | `aros.aop.syntactic.*` | `reason`, `transforms`, `error_preview` |
/// | `aros.aop.coercion.*` | `reason`, `transforms`, `branch_index`, `error_preview` |
/// | `output.coercion.attempt` | `stage`, `reason`, `expected_type`, `actual_type` |
/// | `output.coercion.success` | `stage`, `transforms`, `branch_index`, `patch_preview` |
/// | `output.coercion.fail` | `stage`, `error_preview`, `recovered` (true if a later stage succeeded) |
/// | `reasoning.validation` | `result` (`pass` or `fail`), `score` |
/// | `aros.reasoning.precheck.*` | `reason`, `score`, `feedback`, `consensus` |
/// | `step.repair` | `attempt`, `result` (`valid`, `invalid`, `discarded` or `unanswered`), `errors`, `tokens`, `latency_ms` |
/// | `step.retry` | `attempt` (the next one), `reason`, `errors`, `tokens`, `latency_ms`, `text` (if failures are kept) |
/// | `step.fail` | `reason` (such as `output` or `backend`), `errors`, `tokens`, `latency_ms`, `text` (if failures are kept) |
///
/// `*` stands for `success`, `skip` or `fail`. For `aros.reasoning.precheck`, it stands for `pass`,
/// `fail` or `skipped`.
///
/// `transforms` is a list of names such as `str->int`. `stage` is `extract`, `tolerant`,
/// `syntactic`, `semantic` or `custom`. Attributes without a value are omitted.
///
/// A step in shadow mode only computes corrections and does not apply them. Its events `aros.aop.*`
/// and `output.coercion.*` have the attribute `shadow` with the value `true`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The backend was asked to constrain the output by a schema or a grammar.
    GrammarApplied,
    /// The output is constrained during decoding (structured output enforcement).
    SoeEnabled,
    /// The output is not constrained during decoding, although the configuration requests it.
    SoeSkipped,
    /// Broken JSON was repaired.
    SyntacticSuccess,
    /// The output was valid JSON, so there was nothing to repair.
    SyntacticSkip,
    /// Broken JSON could not be repaired.
    SyntacticFail,
    /// Values were converted to the types in the schema.
    CoercionSuccess,
    /// The values had the types in the schema, so there was nothing to convert.
    CoercionSkip,
    /// A value could not be converted.
    CoercionFail,
    /// A stage begins to process an output.
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
    /// The model was asked to repair an output.
    StepRepair,
    /// An attempt gave no usable output, and another attempt follows.
    StepRetry,
    /// A step ended without a usable output.
    StepFail,
}

impl Event {
    /// All events in the order of their declaration.
    pub const ALL: [Self; 19] = [
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
        Self::StepRepair,
        Self::StepRetry,
        Self::StepFail,
    ];

    /// Returns the name of the event in records, such as `grammar.applied`.
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
            Self::StepRepair => "step.repair",
            Self::StepRetry => "step.retry",
            Self::StepFail => "step.fail",
        }
    }

    /// Returns the event called `name`, or `None` if there is no such event.
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
