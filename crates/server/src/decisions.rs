//! `POST /v1/decisions` and `POST /v1/systemone`, and the same in this process.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use formwork_chat::decision::{
    Asked, AskedPrompt, Asker, Calibration, OptionBounds, PromptHead, ThoughtEnd, prompt_count,
};
use formwork_engine::{
    Decided, Decision, DecisionError, DecisionRequest, Enclosure, Ending, EngineHandle, Output, Question,
    Request, SearchLimits, Visited,
};
use formwork_lm::Message;
use formwork_openai::{
    AnswerDetails, ChatMessage, DecisionSettings, Decisions, DecisionsRequest, DecisionsUsage, IgnoredFields,
    NamedQuestion, SystemOne, SystemOneRequest,
};
use formwork_vocab::TokenId;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::app::{App, Served, ServedModel, ServerOptions};
use crate::body::JsonBody;
use crate::error::{ApiError, Kind};
use crate::ignored::with_ignored;
use crate::prepare::message;

/// Maximum number of prompts of a request. Every order of a question's options is a prompt.
const MAX_PROMPTS: usize = 4096;
/// Maximum number of tokens of all prompts of a request together.
const MAX_TOKENS: usize = 1 << 25;
/// The same for a request that wants the tokens back.
const MAX_RETURNED: usize = 1 << 20;

/// Names under which clients of System One expect a model.
const SYSTEM_ONE_MODELS: &str = "jev-";

/// `POST /v1/decisions`.
pub(crate) async fn create(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    let (answer, ignored) = answer(&app, &body).await?;
    Ok(with_ignored(Json(answer), &ignored))
}

/// Answers the body of a request to `/v1/decisions`. The second result has the names of the fields that
/// were ignored.
pub(crate) async fn answer(app: &App, body: &[u8]) -> Result<(Decisions, IgnoredFields), ApiError> {
    let mut request = DecisionsRequest::from_json(body)?;
    app.check_ignored(&request.ignored)?;
    let served = app.model(&request.model).await?;
    app.calibrate(&mut request.settings);
    let questions = Questions::new(&request.messages, &request.questions, &request.settings, app.deadline());
    let measured = app.measure(served, questions).await?;
    let ignored = request.ignored.clone();
    Ok((measured.decisions(&request), ignored))
}

/// `POST /v1/systemone`.
pub(crate) async fn system_one(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let mut request = SystemOneRequest::from_json(&body)?;
    let served = match app.model(&request.model).await {
        Err(error) if error.is_unknown_model() && request.model.starts_with(SYSTEM_ONE_MODELS) => {
            app.model_or_only(None).await?
        }
        served => served?,
    };
    app.calibrate(&mut request.settings);
    let questions = Questions::new(&request.messages, &request.questions, &request.settings, app.deadline());
    let measured = app.measure(served, questions).await?;
    Ok(Json(measured.system_one(&request)).into_response())
}

/// Decisions of a model in this process, in the forms of the server's routes.
pub struct LocalDecisions {
    served: Served,
    calibration: Option<Calibration>,
}

impl LocalDecisions {
    /// Creates the decisions of a loaded model. `calibration` applies to requests that have none.
    pub fn new(model: ServedModel, calibration: Option<Calibration>) -> Self {
        Self { served: Served::new(model, &ServerOptions::default()), calibration }
    }

    /// Answers the body of a request to `/v1/decisions`.
    ///
    /// # Errors
    /// Returns the error that the route would have.
    pub async fn decisions(&self, body: &[u8]) -> Result<Decisions, ApiError> {
        let mut request = DecisionsRequest::from_json(body)?;
        calibrate(&mut request.settings, self.calibration.as_ref());
        let questions = Questions::new(&request.messages, &request.questions, &request.settings, None);
        Ok(self.measure(questions).await?.decisions(&request))
    }

    /// Answers the body of a request to `/v1/systemone`.
    ///
    /// # Errors
    /// Returns the error that the route would have.
    pub async fn system_one(&self, body: &[u8]) -> Result<SystemOne, ApiError> {
        let mut request = SystemOneRequest::from_json(body)?;
        calibrate(&mut request.settings, self.calibration.as_ref());
        let questions = Questions::new(&request.messages, &request.questions, &request.settings, None);
        Ok(self.measure(questions).await?.system_one(&request))
    }

    async fn measure(&self, questions: Questions) -> Result<Measurements, ApiError> {
        let prepared = questions.prepare(&self.served)?.think(&self.served).await?;
        prepared.submit(&self.served)?.measure().await
    }
}

/// The measurements of a request.
struct Measurements {
    model: String,
    details: Vec<AnswerDetails>,
    /// Number of tokens that were read or taken from the cache.
    read: usize,
    /// Number of tokens that were taken from the cache.
    cached: usize,
    /// Number of tokens of thoughts.
    thought: usize,
    limits: SearchLimits,
}

impl Measurements {
    fn decisions(self, request: &DecisionsRequest) -> Decisions {
        let (usage, limits) = (self.usage(), (self.limits.tolerance, self.limits.nodes));
        Decisions::new(self.model, request, self.details, usage, limits)
    }

    const fn usage(&self) -> DecisionsUsage {
        DecisionsUsage::new(self.read, self.cached, self.thought)
    }

    fn system_one(self, request: &SystemOneRequest) -> SystemOne {
        let (usage, limits) = (self.usage(), (self.limits.tolerance, self.limits.nodes));
        SystemOne::new(self.model, request, self.details, usage, limits)
    }
}

/// Prompts in the engine.
struct Submitted {
    model: String,
    named: Vec<NamedQuestion>,
    settings: DecisionSettings,
    asked: Vec<Asked>,
    prompts: Decision,
    /// The same prompts without the conversation, if they calibrate the others.
    content_free: Option<Decision>,
    thoughts: Thoughts,
    limits: SearchLimits,
}

impl Submitted {
    /// Waits for the probabilities, and combines those of each question.
    async fn measure(self) -> Result<Measurements, ApiError> {
        let Self { model, named, settings, asked, prompts, content_free, thoughts, limits } = self;
        let mut reasoning = thoughts.texts.into_iter();
        let Decided { enclosures, prompt_tokens, cached_tokens } = prompts.result().await?;
        let (mut read, mut cached) = (prompt_tokens, cached_tokens);
        let mut empty = Vec::new();
        if let Some(decision) = content_free {
            let decided = decision.result().await?;
            (read, cached) = (read + decided.prompt_tokens, cached + decided.cached_tokens);
            empty = decided.enclosures;
        }
        let mut lengths = enclosures.iter().map(|enclosure| enclosure.prompt_tokens);
        let (mut measured, mut empty) = (enclosures.iter().map(bounds), empty.iter().map(bounds));
        let detail = |(asked, named): (&Asked, &NamedQuestion)| {
            let own: Vec<OptionBounds> = measured.by_ref().take(asked.prompts.len()).collect();
            let own_empty: Vec<OptionBounds> = empty.by_ref().take(asked.content_free.len()).collect();
            let answer = asked.answer(&own, &own_empty);
            let answer =
                answer.ok_or_else(|| ApiError::from(Kind::NoProbability { param: named.place.clone() }))?;
            if settings.strict && answer.error > limits.tolerance {
                let (error, tolerance) = (answer.error, limits.tolerance);
                return Err(Kind::Inexact { param: named.place.clone(), error, tolerance }.into());
            }
            let ids = |prompt: &AskedPrompt| prompt.tokens.iter().map(|token| token.0).collect();
            let prompt_tokens = lengths.by_ref().take(asked.prompts.len()).sum();
            let ids = settings.return_prompt_token_ids.then(|| asked.prompts.iter().map(ids).collect());
            let reasoning = reasoning.by_ref().take(asked.prompts.len()).collect();
            Ok(AnswerDetails { answer, prompt_tokens, prompt_token_ids: ids, reasoning })
        };
        let details = asked.iter().zip(&named).map(detail).collect::<Result<Vec<_>, ApiError>>()?;
        Ok(Measurements { model, details, read, cached, thought: thoughts.tokens, limits })
    }
}

pub(crate) fn bounds(enclosure: &Enclosure) -> OptionBounds {
    let Enclosure { ln_lower, ln_upper, error, .. } = enclosure.clone();
    let is_exact = error == 0.0 && ln_lower == ln_upper;
    OptionBounds { ln_lower, ln_upper, is_exact }
}

/// The questions of a request on their way to the engine.
struct Questions {
    messages: Vec<Message>,
    named: Vec<NamedQuestion>,
    settings: DecisionSettings,
    limits: SearchLimits,
    deadline: Option<Instant>,
}

impl Questions {
    fn new(
        messages: &[ChatMessage],
        questions: &[NamedQuestion],
        settings: &DecisionSettings,
        deadline: Option<Instant>,
    ) -> Self {
        let default = SearchLimits::default();
        let limits = SearchLimits {
            tolerance: settings.tolerance.unwrap_or(default.tolerance),
            nodes: settings.max_nodes.unwrap_or(default.nodes),
        };
        Self {
            messages: messages.iter().map(message).collect(),
            named: questions.to_vec(),
            settings: settings.clone(),
            limits,
            deadline,
        }
    }

    /// Renders and encodes the prompts. Takes time for long conversations.
    fn prepare(self, served: &Served) -> Result<Prepared, ApiError> {
        let engine = &served.model.engine;
        let asker = Asker {
            format: &served.format,
            template: &*served.model.template,
            tokenizer: engine.tokenizer(),
        };
        let asking = &self.settings.asking;
        let given: usize = self.named.iter().map(|named| prompt_count(&named.question, asking)).sum();
        let given = if asking.calibration.content_free { 2 * given } else { given };
        if given > MAX_PROMPTS {
            return Err(Kind::TooManyPrompts { given, limit: MAX_PROMPTS }.into());
        }
        let (mut head, mut asked, mut total) = (PromptHead::default(), Vec::new(), 0);
        for named in &self.named {
            let of_question = asker.ask(&self.messages, &named.question, asking, &mut head);
            let of_question =
                of_question.map_err(|source| Kind::Asked { param: named.place.clone(), source })?;
            let all = of_question.prompts.iter().chain(&of_question.content_free);
            total += all.map(|prompt| prompt.tokens.len()).sum::<usize>();
            let limit = if self.settings.return_prompt_token_ids { MAX_RETURNED } else { MAX_TOKENS };
            if total > limit {
                return Err(Kind::TooManyPromptTokens { given: total, limit }.into());
            }
            for prompt in &of_question.prompts {
                let (given, limit) = (prompt.tokens.len(), engine.context_len());
                let answer = prompt.answers.iter().flatten().map(String::len).max().unwrap_or_default();
                let thought = prompt.thought.as_ref().map_or(0, |end| end.tokens.len());
                let room = answer + thought + asking.reasoning.unwrap_or_default();
                if given + room > limit {
                    let param = named.place.clone();
                    return Err(Kind::QuestionTooLong { param, given, room, limit }.into());
                }
            }
            asked.push(of_question);
        }
        Ok(Prepared { questions: self, asked, thoughts: Thoughts::default() })
    }
}

/// Questions with their prompts.
struct Prepared {
    questions: Questions,
    asked: Vec<Asked>,
    thoughts: Thoughts,
}

/// The thoughts before the answers.
#[derive(Default)]
struct Thoughts {
    /// Thought of each prompt about the conversation. Empty if none were asked for.
    texts: Vec<String>,
    /// Number of their tokens.
    tokens: usize,
}

impl Prepared {
    /// Lets the model think before its answers, if the request asks for it.
    async fn think(mut self, served: &Served) -> Result<Self, ApiError> {
        /// Number of thoughts at a time.
        const TOGETHER: usize = 8;
        let Some(most) = self.questions.settings.asking.reasoning else { return Ok(self) };
        let (engine, deadline) = (&served.model.engine, self.questions.deadline);
        let prompts = self.asked.iter().flat_map(|asked| asked.prompts.iter().chain(&asked.content_free));
        let wanted = prompts.map(|prompt| (prompt.tokens.clone(), prompt.thought.clone()));
        let wanted: Vec<_> = wanted.map(|wanted| thought(engine.clone(), wanted, most, deadline)).collect();
        let outputs: Vec<Vec<TokenId>> = stream::iter(wanted).buffered(TOGETHER).try_collect().await?;
        let mut outputs = outputs.into_iter();
        for asked in &mut self.asked {
            let shown = asked.prompts.len();
            let prompts = asked.prompts.iter_mut().chain(&mut asked.content_free);
            for (place, (prompt, output)) in prompts.zip(outputs.by_ref()).enumerate() {
                let thought = prompt.think(&output, engine.tokenizer()).map_err(Kind::Prompt)?;
                let Some((text, tokens)) = thought else { continue };
                self.thoughts.tokens += tokens;
                self.thoughts.texts.extend((place < shown).then_some(text));
            }
        }
        Ok(self)
    }

    /// Checks the prompts and sends them to the engine.
    fn submit(self, served: &Served) -> Result<Submitted, ApiError> {
        let Self { questions: Questions { named, settings, limits, deadline, .. }, mut asked, thoughts } =
            self;
        let engine = &served.model.engine;
        // A prior that was not visited would make its option impossible.
        let is_divided = settings.asking.calibration.content_free;
        let visited = if is_divided { Visited::All } else { Visited::AsNeeded };
        let keeps = settings.return_prompt_token_ids;
        let (mut prompts, mut content_free) = (Vec::new(), Vec::new());
        // Question of each prompt.
        let mut owners = Vec::new();
        for (index, (named, of_question)) in named.iter().zip(&mut asked).enumerate() {
            let temperature = of_question.temperature;
            for place in 0..of_question.prompts.len() {
                let prompt = &mut of_question.prompts[place];
                let question = Question { visited, ..question(prompt, temperature, keeps) };
                question.check(engine.tokenizer().vocabulary()).map_err(|error| {
                    option_error(error, named, |option| of_question.option(place, option))
                })?;
                prompts.push(question);
                owners.push(index);
            }
            let empty = of_question.content_free.iter_mut();
            let empty = empty.map(|prompt| Question { visited, ..question(prompt, temperature, false) });
            content_free.extend(empty);
        }
        let submit = |questions: Vec<Question>| {
            let decision = engine.decide(DecisionRequest { questions, limits, deadline, is_part: false });
            decision.map_err(|error| match error {
                DecisionError::TooLong { question, given, room, limit } => {
                    let param = named[owners[question]].place.clone();
                    Kind::QuestionTooLong { param, given, room, limit }.into()
                }
                error => refused(error, &named[0]),
            })
        };
        let prompts = submit(prompts)?;
        let content_free = if content_free.is_empty() { None } else { Some(submit(content_free)?) };
        let model = served.model.id.clone();
        Ok(Submitted { model, named, settings, asked, prompts, content_free, thoughts, limits })
    }
}

/// Returns the likeliest thought after a prompt: at most `most` tokens, perhaps with its end.
async fn thought(
    engine: EngineHandle,
    (prompt, end): (Vec<TokenId>, Option<ThoughtEnd>),
    most: usize,
    deadline: Option<Instant>,
) -> Result<Vec<TokenId>, ApiError> {
    let Some(end) = end else { return Ok(Vec::new()) };
    let request = Request { max_tokens: Some(most), reports_tokens: true, deadline, ..Request::new(prompt) };
    let generation = engine.generate(request);
    let mut generation = generation.map_err(|source| Kind::Refused { field: Some("input"), source })?;
    let mut output = Vec::new();
    while let Some(told) = generation.next().await {
        match told {
            Output::Generated(token) => {
                output.push(token);
                if end.is_in(&output, engine.tokenizer()) {
                    break;
                }
            }
            Output::Finished(_) => break,
            Output::Failed(error) => return Err(error.into()),
            Output::Text(_)
            | Output::Control(_)
            | Output::Token(_)
            | Output::Masked(_)
            | Output::PromptToken(_) => {}
        }
    }
    Ok(output)
}

/// Returns the question of a prompt. The prompt loses its tokens unless `keeps` is true.
fn question(prompt: &mut AskedPrompt, temperature: f64, keeps: bool) -> Question {
    let tokens = if keeps { prompt.tokens.clone() } else { std::mem::take(&mut prompt.tokens) };
    let ending = if prompt.ends.is_empty() { Ending::Open } else { Ending::Tokens(prompt.ends.clone()) };
    Question {
        prompt: tokens,
        options: prompt.answers.clone(),
        ending,
        temperature,
        visited: Visited::AsNeeded,
        sampler: None,
    }
}

/// Converts the error of an option. `option` returns the option's index in the request.
fn option_error(
    error: DecisionError,
    named: &NamedQuestion,
    option: impl FnOnce(usize) -> usize,
) -> ApiError {
    let index = match error {
        DecisionError::EmptyText { option }
        | DecisionError::RepeatedText { option }
        | DecisionError::PrefixText { option, .. }
        | DecisionError::Unspellable { option } => option,
        error => return refused(error, named),
    };
    let param = match named.options_field {
        field @ ("choices" | "levels") => format!("{}.{field}[{}]", named.place, option(index)),
        field => format!("{}.{field}", named.place),
    };
    Kind::Option { param, source: error }.into()
}

fn refused(error: DecisionError, named: &NamedQuestion) -> ApiError {
    match error {
        DecisionError::Refused(source) if source.is_busy() => Kind::Busy(source).into(),
        DecisionError::Refused(source) if source.is_stopped() => Kind::Stopped(source).into(),
        DecisionError::Refused(source) => {
            let field = source.field().filter(|field| *field == "model").or(Some("input"));
            Kind::Refused { field, source }.into()
        }
        DecisionError::Failed(source) => source.into(),
        error => Kind::Option { param: named.place.clone(), source: error }.into(),
    }
}

impl App {
    /// Asks the questions. Prompts are made on the threads for long computations.
    async fn measure(&self, served: Arc<Served>, questions: Questions) -> Result<Measurements, ApiError> {
        let of = Arc::clone(&served);
        let prepared = self.offload(move || questions.prepare(&of)).await?.think(&served).await?;
        self.offload(move || prepared.submit(&served)).await?.measure().await
    }

    /// Sets the server's calibration in a request that has none.
    fn calibrate(&self, settings: &mut DecisionSettings) {
        calibrate(settings, self.options().calibration.as_ref());
    }

    fn deadline(&self) -> Option<Instant> {
        self.options().request_timeout.map(|timeout| Instant::now() + timeout)
    }
}

fn calibrate(settings: &mut DecisionSettings, calibration: Option<&Calibration>) {
    if let (false, Some(calibration)) = (settings.has_calibration, calibration) {
        settings.asking.calibration.clone_from(calibration);
        settings.has_calibration = true;
    }
}
