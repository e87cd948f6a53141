//! Probabilities of the choices within a generation's output: the extension `decisions`.

use std::time::Instant;

use formwork_engine::{
    ChoiceTracker, Decided, DecisionError, DecisionRequest, EngineHandle, Request, SearchLimits,
    TrackedChoice,
};
use formwork_grammar::{ChoicePoint, ChoiceReader, Grammar, Part};
use formwork_openai::{DecisionScope, Format, OutputDecision};
use formwork_vocab::TokenId;

use crate::decisions::bounds;
use crate::error::{ApiError, Kind};

/// Maximum number of choices that one request to the engine measures. Each has its own copy of the prompt.
const BATCH: usize = 64;
/// Length of content, in bytes, after which choices are measured although nobody waits for them.
const PIECE: usize = 4096;

/// The choices of a request's outputs.
pub(crate) struct OutputChoices {
    pub(crate) scope: DecisionScope,
    pub(crate) grammar: Grammar,
    is_json: bool,
}

impl OutputChoices {
    /// Creates the choices of outputs that have a format, which `grammar` describes.
    pub(crate) fn new(scope: DecisionScope, format: &Format, grammar: Grammar) -> Self {
        Self { scope, grammar, is_json: is_json(&format.part) }
    }

    /// Returns a reader of an output.
    pub(crate) fn reader(&self) -> ChoiceReader {
        choice_reader(&self.grammar, self.is_json)
    }
}

/// Returns true if the outputs of a part are JSON text.
pub fn is_json(part: &Part) -> bool {
    match part {
        Part::Json(_) | Part::JsonObject => true,
        Part::At { part, .. } => is_json(part),
        _ => false,
    }
}

/// Creates a reader of the choices in an output.
pub fn choice_reader(grammar: &Grammar, is_json: bool) -> ChoiceReader {
    if is_json { ChoiceReader::json(grammar) } else { ChoiceReader::text(grammar) }
}

/// Measures the choices of one output while it is generated.
pub(crate) struct OutputDecisions {
    tracker: ChoiceTracker,
    scope: DecisionScope,
    engine: EngineHandle,
    deadline: Option<Instant>,
    /// True if every choice is measured as soon as it is decided.
    is_live: bool,
    /// Content that the tracker has not read.
    unread: String,
    /// True once the output has ended.
    is_whole: bool,
}

impl OutputDecisions {
    /// Starts at the beginning of an output. The prompt already has the content `begun`.
    pub(crate) fn new(
        engine: &EngineHandle,
        request: &Request,
        choices: &OutputChoices,
        begun: &str,
        is_live: bool,
    ) -> Result<Self, ApiError> {
        let tracker = engine.tracker(request, choices.reader());
        let mut tracker = tracker.map_err(|source| Kind::Refused { field: Some("messages"), source })?;
        tracker.begin(begun);
        Ok(Self {
            tracker,
            scope: choices.scope.clone(),
            engine: engine.clone(),
            deadline: request.deadline,
            is_live,
            unread: String::new(),
            is_whole: false,
        })
    }

    /// Reads the next token of the output.
    pub(crate) fn token(&mut self, token: TokenId) {
        self.tracker.token(token);
    }

    /// Reads the next content, after its tokens.
    pub(crate) fn content(&mut self, text: &str) {
        self.unread.push_str(text);
    }

    /// Notes that the output has ended.
    pub(crate) const fn end(&mut self) {
        self.is_whole = true;
    }

    /// Returns true if choices should be measured now.
    pub(crate) fn is_due(&self) -> bool {
        self.is_whole || self.unread.len() >= PIECE || (self.is_live && !self.unread.is_empty())
    }

    /// Measures the choices that are decided.
    pub(crate) async fn measure(mut self) -> Result<(Self, Vec<OutputDecision>), ApiError> {
        let read = tokio::task::spawn_blocking(move || {
            let mut points = self.tracker.content(&std::mem::take(&mut self.unread));
            if self.is_whole {
                points.extend(self.tracker.finish());
            }
            points.retain(|point| self.scope.includes(point));
            (self, points)
        });
        let (mut this, points) = read.await.map_err(|_| Kind::Panicked)?;
        let (mut points, mut decisions) = (points.into_iter(), Vec::new());
        loop {
            let batch: Vec<ChoicePoint> = points.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return Ok((this, decisions));
            }
            let submitted = tokio::task::spawn_blocking(move || {
                let choices: Vec<TrackedChoice> =
                    batch.into_iter().filter_map(|point| this.tracker.questions(point)).collect();
                let request = decision_request(&choices, this.deadline);
                let decision = (!choices.is_empty()).then(|| this.engine.decide(request)).transpose();
                (this, choices, decision)
            });
            let decision;
            let choices;
            (this, choices, decision) = submitted.await.map_err(|_| Kind::Panicked)?;
            if let Some(decision) = decision.map_err(refused)? {
                let decided = decision.result().await.map_err(ApiError::from)?;
                decisions.extend(output_decisions(&choices, &decided));
            }
        }
    }
}

/// Returns the request for the probabilities of choices.
pub fn decision_request(choices: &[TrackedChoice], deadline: Option<Instant>) -> DecisionRequest {
    let questions = choices.iter().flat_map(|choice| [choice.question.clone(), choice.sampled.clone()]);
    let limits = SearchLimits::default();
    DecisionRequest { questions: questions.collect(), limits, deadline, is_part: true }
}

/// Returns the probabilities of choices, given the result of their [`decision_request`].
pub fn output_decisions(choices: &[TrackedChoice], decided: &Decided) -> Vec<OutputDecision> {
    let pairs = decided.enclosures.as_chunks::<2>().0;
    let decision = |(choice, [own, sampled]): (&TrackedChoice, &[_; 2])| {
        OutputDecision::new(&choice.point, &bounds(own), &bounds(sampled))
    };
    choices.iter().zip(pairs).filter_map(decision).collect()
}

fn refused(error: DecisionError) -> ApiError {
    match error {
        DecisionError::Refused(source) if source.is_stopped() => Kind::Stopped(source).into(),
        DecisionError::Refused(source) => Kind::Refused { field: Some("decisions"), source }.into(),
        DecisionError::Failed(source) => source.into(),
        error => Kind::Option { param: "decisions".to_owned(), source: error }.into(),
    }
}
