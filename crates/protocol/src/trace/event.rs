//! The names of events and what they say.

use std::borrow::Cow;

use serde::Serialize;

/// An event with a documented name. Other names may be given to [`Span::event`](super::Span::event) as well; the health check counts
/// these.
///
/// | event | attributes |
/// |---|---|
/// | `grammar.applied` | `mode` (`json`, `grammar`, …), `schema_hash` (SHA-256 of the schema, hexadecimal) |
/// | `aros.soe.enabled` | `mode` |
/// | `aros.soe.skipped` | `reason` |
/// | `aros.aop.syntactic.success`, `.skip`, `.fail` | `reason`, `transforms`, `error_preview` |
/// | `aros.aop.coercion.success`, `.skip`, `.fail` | `reason`, `transforms`, `branch_index`, `error_preview` |
/// | `output.coercion.attempt` | `stage`, `reason`, `expected_type`, `actual_type` |
/// | `output.coercion.success` | `stage`, `transforms` (a list of names such as `str->int`), `branch_index`, `patch_preview` |
/// | `output.coercion.fail` | `stage`, `error_preview`, `recovered` (true, where a later stage did it) |
/// | `reasoning.validation` | `result` (`pass` or `fail`), `score` |
/// | `aros.reasoning.precheck.pass`, `.fail`, `.skipped` | `reason`, `score` |
///
/// `stage` is `extract`, `tolerant`, `syntactic`, `semantic` or `custom`. What does not apply is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The backend was asked to hold the model to a schema or a grammar.
    GrammarApplied,
    /// An output is constrained while it is written.
    SoeEnabled,
    /// An output that should have been constrained is not.
    SoeSkipped,
    /// Broken JSON was repaired.
    SyntacticSuccess,
    /// There was nothing to repair.
    SyntacticSkip,
    /// Broken JSON could not be repaired.
    SyntacticFail,
    /// A value was converted to the type of its schema.
    CoercionSuccess,
    /// There was nothing to convert.
    CoercionSkip,
    /// A value could not be converted.
    CoercionFail,
    /// A stage begins to change an output.
    OutputAttempt,
    /// A stage has changed an output.
    OutputSuccess,
    /// A stage could not make of an output what it should.
    OutputFail,
    /// A plan was judged.
    ReasoningValidation,
    /// The check before a generation found nothing wrong.
    PrecheckPass,
    /// It found something wrong.
    PrecheckFail,
    /// There was nothing to check.
    PrecheckSkipped,
}

impl Event {
    /// All of them.
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

    /// The name that is written down.
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

    /// The event of a name.
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
    fn each_event_has_a_name_of_its_own() {
        for (at, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, at);
            assert_eq!(Event::of_name(event.name()), Some(event));
        }
        assert_eq!(Event::of_name("output.coercion"), None);
    }
}
