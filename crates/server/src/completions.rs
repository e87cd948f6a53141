//! `POST /v1/completions`. Prompts are used as they are: no instruction describes the response
//! format.

mod logprobs;
mod pieces;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use formwork_engine::{Finish, Generation, Output, TokenLogprob};
use formwork_fields::Lead;
use formwork_grammar::Constraint;
use formwork_openai::{
    ChunkUsage, Completion, CompletionChoice, CompletionPrompt, CompletionRequest, FinishReason, Format,
    TokenMask, Usage,
};
use formwork_vocab::tokenizer::EncodeOptions;
use formwork_vocab::{TokenId, Tokenizer, Vocabulary};
use futures_util::future::try_join_all;

use crate::answer::{Answer, FINGERPRINT, usage};
use crate::app::{App, Served, ServerOptions};
use crate::body::JsonBody;
use crate::error::{ApiError, Kind};
use crate::ignored::with_ignored;
use crate::mask_view::MaskViews;
use crate::places::Places;
use crate::prepare;
use crate::tokens::check_tokens;
use logprobs::FirstToken;

/// Default token limit for outputs without a constraint, as in OpenAI's API.
const MAX_TOKENS: usize = 16;

/// Maximum number of log-probabilities of prompts in a response.
const MAX_LOGPROBS: usize = 1 << 20;

pub(crate) async fn create(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    let request = CompletionRequest::from_json(&body)?;
    app.check_ignored(&request.ignored)?;
    let served = app.model(&request.model).await?;
    let answer = Answer::new("cmpl-", &served.model.id);
    let started = start(&app, served, request).await?;
    let ignored = started.request.ignored.clone();
    let response = match started.request.stream {
        Some(options) => pieces::respond(started, answer, options),
        None => Json(collect(started, &answer).await?).into_response(),
    };
    Ok(with_ignored(response, &ignored))
}

/// Prepares a request and starts its generations.
pub(crate) async fn start(
    app: &App,
    served: Arc<Served>,
    request: CompletionRequest,
) -> Result<Started, ApiError> {
    let options = app.options().clone();
    let constraint = app.constraint(&served, request.format.clone(), request.undeclared).await?;
    app.offload(move || Started::new(served, request, constraint.as_ref(), &options)).await
}

/// The running generations of a request.
pub(crate) struct Started {
    served: Arc<Served>,
    request: CompletionRequest,
    /// Texts of the prompts, if the request asks to echo them.
    echoes: Vec<String>,
    /// First token of each prompt, if the log-probabilities of prompts are reported.
    firsts: Vec<FirstToken>,
    /// Places of the mask view of an output, if it is asked for.
    places: Option<Places>,
    /// Generations, `best_of` for each prompt.
    pub(crate) generations: Vec<Generation>,
}

impl Started {
    fn new(
        served: Arc<Served>,
        request: CompletionRequest,
        constraint: Option<&Constraint>,
        options: &ServerOptions,
    ) -> Result<Self, ApiError> {
        let tokenizer = served.model.engine.tokenizer();
        let (mut echoes, mut firsts, mut generations) = (Vec::new(), Vec::new(), Vec::new());
        let mut reported = 0;
        let format = request.format.as_ref();
        let guide = format.and_then(|format| prepare::guide(format, tokenizer.vocabulary(), Lead::default()));
        for prompt in &request.prompts {
            let tokens = match &request.suffix {
                Some(suffix) => served.filled_in(prompt, suffix)?,
                None => tokens(prompt, tokenizer)?,
            };
            if request.echo {
                echoes.push(echo(prompt, &tokens, tokenizer));
                let is_in_text = matches!(prompt, CompletionPrompt::Tokens(_)) || !tokenizer.add_bos();
                let first = tokens.first().filter(|_| request.logprobs.is_some());
                firsts.extend(first.map(|&token| FirstToken { token, is_in_text }));
                reported += tokens.len();
                let likely = request.logprobs.map_or(0, |likely| likely + 1);
                let given = reported.saturating_mul(request.best_of).saturating_mul(likely);
                if given > MAX_LOGPROBS {
                    let limit = MAX_LOGPROBS;
                    return Err(Kind::TooManyLogprobs { given, limit, tokens: reported }.into());
                }
            }
            let mut engine = prepare::engine_request(tokens, &request.parameters, options);
            engine.constraint = constraint.cloned();
            engine.guide.clone_from(&guide);
            let is_short = constraint.is_none() && !request.parameters.unlimited;
            let most = MAX_TOKENS.max(engine.min_tokens);
            engine.max_tokens = engine.max_tokens.or_else(|| is_short.then_some(most));
            let chooses = request.best_of > request.parameters.n;
            engine.prompt_logprobs = request.only_echo || request.echo && request.logprobs.is_some();
            engine.mask_view = request.mask_view;
            engine.logprobs = request.logprobs.or_else(|| (chooses || request.only_echo).then_some(0));
            let fills = request.suffix.is_some() && !request.parameters.ignore_eos;
            if let Some(fill) = served.fill.as_ref().filter(|_| fills) {
                engine.stop_tokens.extend(&fill.ends);
            }
            let started = served.model.engine.generate_many(&engine, request.best_of);
            let refused = |error| prepare::refused(error, &request.parameters, request.format.as_ref());
            generations.extend(started.map_err(|error| refused(error).about_prompt())?);
        }
        let is_json = request.format.as_ref().is_some_and(Format::is_json);
        let places = request.mask_view.map(|_| Places::new(is_json, constraint.map(Constraint::grammar)));
        Ok(Self { served, request, echoes, firsts, places, generations })
    }

    /// Returns an empty mask view of an output, if it is asked for.
    fn masks(&self) -> Option<MaskViews> {
        self.places.as_ref().map(|places| MaskViews::new(places.restarted(), ""))
    }

    /// Returns the echo at the start of choice `index`.
    fn echo(&self, index: usize) -> &str {
        self.echoes.get(index / self.request.parameters.n).map_or("", String::as_str)
    }

    /// Returns the first token of the prompt of choice `index`, if the prompt's log-probabilities are
    /// reported.
    fn first(&self, index: usize) -> Option<FirstToken> {
        self.firsts.get(index / self.request.parameters.n).copied()
    }
}

impl Served {
    /// Encodes a prompt and its suffix for a model that fills in the text between them.
    fn filled_in(&self, prompt: &CompletionPrompt, suffix: &str) -> Result<Vec<TokenId>, ApiError> {
        let tokenizer = self.model.engine.tokenizer();
        let fill = self.fill.as_ref().ok_or(Kind::NoInfill { field: "suffix" })?;
        let prefix = match prompt {
            CompletionPrompt::Text(text) => text.clone(),
            CompletionPrompt::Tokens(ids) => {
                let tokens = check_tokens(ids, tokenizer, "prompt")?;
                String::from_utf8_lossy(&tokenizer.decode_text(&tokens, false)).into_owned()
            }
        };
        let tokens = fill.encode(tokenizer, &[], &prefix, suffix);
        tokens.map_err(|source| Kind::Text { field: "prompt", source }.into())
    }
}

fn tokens(prompt: &CompletionPrompt, tokenizer: &Tokenizer) -> Result<Vec<TokenId>, ApiError> {
    match prompt {
        CompletionPrompt::Tokens(ids) => check_tokens(ids, tokenizer, "prompt"),
        CompletionPrompt::Text(text) => {
            let options = EncodeOptions { special: true, bos: tokenizer.add_bos() };
            let tokens = tokenizer.encode(text, options);
            tokens.map_err(|source| Kind::Text { field: "prompt", source }.into())
        }
    }
}

/// Returns a prompt's text: the given text, or the decoded tokens.
fn echo(prompt: &CompletionPrompt, tokens: &[TokenId], tokenizer: &Tokenizer) -> String {
    match prompt {
        CompletionPrompt::Text(text) => text.clone(),
        CompletionPrompt::Tokens(_) => {
            String::from_utf8_lossy(&tokenizer.decode_text(tokens, true)).into_owned()
        }
    }
}

async fn collect(mut started: Started, answer: &Answer) -> Result<Completion, ApiError> {
    let (n, best_of) = (started.request.parameters.n, started.request.best_of);
    let generations = std::mem::take(&mut started.generations);
    let tokenizer = started.served.model.engine.tokenizer();
    let collect = |generation| Whole::collect(generation, started.masks(), tokenizer.vocabulary());
    let mut whole = try_join_all(generations.into_iter().map(collect)).await?;
    let mut used = Usage::default();
    let mut choices = Vec::new();
    while !whole.is_empty() {
        let mut outputs: Vec<Whole> = whole.drain(..best_of.min(whole.len())).collect();
        let of_prompt = outputs.iter().fold(Usage::default(), |used, output| used.and(usage(&output.finish)));
        used = sum(used, of_prompt);
        if best_of > n {
            outputs.sort_by(|a, b| b.likelihood().total_cmp(&a.likelihood()));
        }
        for output in outputs.into_iter().take(n) {
            answer.log(&output.finish);
            let index = choices.len();
            let lists = || logprobs::lists(started.first(index), &output.tokens, tokenizer, &mut 0);
            let logprobs = started.request.logprobs.map(|_| lists());
            let text = format!("{}{}", started.echo(index), output.text);
            let mask_view = output.masks;
            choices.push(CompletionChoice { logprobs, mask_view, text, ..ended(index, &output.finish) });
        }
    }
    Ok(completion(answer, choices, Some(ChunkUsage::Total(used))))
}

/// One complete output.
struct Whole {
    text: String,
    /// Log-probabilities of the prompt, if they are reported, and of the output.
    tokens: Vec<TokenLogprob>,
    /// Effect of the constraint on each token, if it is asked for.
    masks: Option<Vec<TokenMask>>,
    finish: Finish,
}

impl Whole {
    async fn collect(
        mut generation: Generation,
        mut views: Option<MaskViews>,
        vocabulary: &Vocabulary,
    ) -> Result<Self, ApiError> {
        let (mut text, mut tokens) = (String::new(), Vec::new());
        loop {
            match generation.next().await {
                Some(Output::Text(piece)) => {
                    if let Some(views) = &mut views {
                        views.show_content(&piece);
                    }
                    text.push_str(&piece);
                }
                Some(Output::Masked(mask)) => {
                    if let Some(views) = &mut views {
                        views.token(mask, vocabulary);
                    }
                }
                Some(Output::Token(token) | Output::PromptToken(token)) => tokens.push(token),
                Some(Output::Control(_) | Output::Generated(_)) => {}
                Some(Output::Finished(finish)) => {
                    let masks = views.map(|mut views| views.take(vocabulary));
                    return Ok(Self { text, tokens, masks, finish });
                }
                Some(Output::Failed(error)) => return Err(error.into()),
                // A generation always reports an end before it is over.
                None => return Err(Kind::Panicked.into()),
            }
        }
    }

    /// Returns the mean log-probability of the tokens.
    fn likelihood(&self) -> f64 {
        let sum = self.finish.cumulative_logprob.unwrap_or(0.0);
        sum / self.finish.usage.completion_tokens.max(1) as f64
    }
}

fn sum(a: Usage, b: Usage) -> Usage {
    Usage::new(
        a.prompt_tokens + b.prompt_tokens,
        a.completion_tokens + b.completion_tokens,
        a.prompt_tokens_details.cached_tokens + b.prompt_tokens_details.cached_tokens,
        0,
    )
}

fn ended(index: usize, finish: &Finish) -> CompletionChoice {
    let finish_reason = match finish.reason {
        formwork_engine::FinishReason::Stop => FinishReason::Stop,
        formwork_engine::FinishReason::Length => FinishReason::Length,
    };
    CompletionChoice {
        finish_reason: Some(finish_reason),
        closed_by_budget: finish.closed_by_budget,
        ..piece(index, String::new())
    }
}

fn piece(index: usize, text: String) -> CompletionChoice {
    CompletionChoice {
        index,
        text,
        logprobs: None,
        mask_view: None,
        finish_reason: None,
        closed_by_budget: false,
    }
}

fn completion(answer: &Answer, choices: Vec<CompletionChoice>, usage: Option<ChunkUsage>) -> Completion {
    Completion {
        id: answer.id.clone(),
        object: "text_completion".to_owned(),
        created: answer.created,
        model: answer.model.clone(),
        choices,
        usage,
        system_fingerprint: Some(FINGERPRINT.to_owned()),
    }
}
