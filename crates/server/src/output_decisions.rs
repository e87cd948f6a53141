//! Probabilities of the choices within a generation's output: the extension `decisions`.

use std::time::Instant;

use formwork_engine::{
    ChoiceTracker, Decided, DecisionError, DecisionRequest, EngineHandle, Request, SearchLimits,
    TrackedChoice,
};
use formwork_grammar::{ChoicePoint, ChoiceReader, Grammar};
use formwork_openai::{DecisionScope, Format, OutputDecision};
use formwork_vocab::TokenId;

use crate::decisions::bounds;
use crate::error::{ApiError, Kind};

/// Maximum number of choices that one request to the engine should measure. Each has its own copy of the
/// prompt.
pub const DECISION_BATCH: usize = 64;
/// Message for an output with more choices than are measured.
pub const TOO_MANY: &str =
    "the output has more choices than are measured: 16,384 options, or 8,388,608 bytes that are tried";
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
        Self { scope, grammar, is_json: format.is_json() }
    }

    /// Returns a reader of an output.
    pub(crate) fn reader(&self) -> ChoiceReader {
        choice_reader(&self.grammar, self.is_json)
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
    ending: Ending,
}

/// State of the end of an output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Open,
    /// The output is complete.
    Whole,
    /// The output was cut off.
    CutOff,
}

/// Probabilities of choices.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) decisions: Vec<OutputDecision>,
    /// Reason why other choices have no probabilities.
    pub(crate) error: Option<String>,
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
            ending: Ending::Open,
        })
    }

    /// Reads the next token of the output.
    pub(crate) fn token(&mut self, token: TokenId) {
        self.tracker.token(token);
    }

    /// Reads the next text of the output, after its tokens.
    pub(crate) fn show(&mut self, text: &str) {
        self.tracker.show(text);
    }

    /// Reads the next content, a part of the text that was shown.
    pub(crate) fn content(&mut self, text: &str) {
        self.unread.push_str(text);
    }

    /// Notes that the output has ended, and whether it was cut off.
    pub(crate) const fn end(&mut self, is_cut_off: bool) {
        self.ending = if is_cut_off { Ending::CutOff } else { Ending::Whole };
    }

    /// Returns true if choices should be measured now.
    pub(crate) fn is_due(&self) -> bool {
        let is_ended = self.ending != Ending::Open;
        is_ended || self.unread.len() >= PIECE || (self.is_live && !self.unread.is_empty())
    }

    /// Measures the choices that are decided. Returns `None` in place of `self` if no more choices are
    /// measured.
    pub(crate) async fn measure(mut self) -> (Option<Self>, Measured) {
        let mut measured = Measured::default();
        let read = tokio::task::spawn_blocking(move || {
            let mut points = self.tracker.content(&std::mem::take(&mut self.unread));
            if self.ending == Ending::Whole {
                points.extend(self.tracker.finish());
            }
            points.retain(|point| self.scope.includes(point));
            (self, points)
        });
        let Ok((mut this, points)) = read.await else { return measured.stopped(&Kind::Panicked.into()) };
        let mut points = points.into_iter();
        loop {
            let batch: Vec<ChoicePoint> = points.by_ref().take(DECISION_BATCH).collect();
            if batch.is_empty() {
                if this.tracker.is_cut() {
                    measured.error = Some(TOO_MANY.to_owned());
                    return (None, measured);
                }
                return (Some(this).filter(|this| this.ending == Ending::Open), measured);
            }
            let submitted = tokio::task::spawn_blocking(move || {
                let (choices, error) = questions(&mut this.tracker, batch);
                let request = decision_request(&choices, this.deadline);
                let decision = (!choices.is_empty()).then(|| this.engine.decide(request)).transpose();
                (this, choices, error, decision)
            });
            let Ok((next, choices, error, decision)) = submitted.await else {
                return measured.stopped(&Kind::Panicked.into());
            };
            this = next;
            measured.error = measured.error.or_else(|| Some(error?.to_string()));
            let decided = match decision {
                Ok(None) => continue,
                Ok(Some(decision)) => decision.result().await.map_err(ApiError::from),
                Err(error) => Err(refused(error)),
            };
            match decided {
                Ok(decided) => measured.decisions.extend(output_decisions(&choices, &decided)),
                Err(error) => return measured.stopped(&error),
            }
        }
    }
}

impl Measured {
    /// Adds the error after which nothing more is measured.
    fn stopped(mut self, error: &ApiError) -> (Option<OutputDecisions>, Self) {
        self.error = Some(error.to_string());
        (None, self)
    }

    /// Adds later measurements.
    pub(crate) fn extend(&mut self, later: Self) {
        self.decisions.extend(later.decisions);
        self.error = self.error.take().or(later.error);
    }
}

/// Returns the questions of choice points, and the error of a choice that has none.
pub fn questions(
    tracker: &mut ChoiceTracker,
    points: Vec<ChoicePoint>,
) -> (Vec<TrackedChoice>, Option<DecisionError>) {
    let (mut choices, mut error) = (Vec::new(), None);
    for point in points {
        match tracker.questions(point) {
            Ok(choice) => choices.extend(choice),
            Err(faulty) => error = Some(faulty),
        }
    }
    (choices, error)
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
