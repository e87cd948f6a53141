//! `POST /v1/completions`. Prompts are used as they are: no instruction describes the response
//! format.

mod pieces;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use formwork_engine::{Finish, Generation, Output, TokenLogprob};
use formwork_grammar::Constraint;
use formwork_openai::{
    ChunkUsage, Completion, CompletionChoice, CompletionLogprobs, CompletionPrompt, CompletionRequest,
    FinishReason, Usage,
};
use formwork_vocab::tokenizer::EncodeOptions;
use formwork_vocab::{TokenId, Tokenizer};
use futures_util::future::try_join_all;

use crate::answer::{Answer, FINGERPRINT, usage};
use crate::app::{App, Served, ServerOptions};
use crate::body::JsonBody;
use crate::error::{ApiError, Kind};
use crate::ignored::with_ignored;
use crate::tokens::check_tokens;
use crate::{choice, prepare};

/// Default token limit for outputs without a constraint, as in OpenAI's API.
const MAX_TOKENS: usize = 16;

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
    let (of, format, undeclared) = (Arc::clone(&served), request.format.clone(), request.undeclared);
    let constraint = move |compiling| {
        let constraint = format.as_ref().map(|format| of.constraint(format, undeclared, compiling));
        constraint.transpose()
    };
    let constraint = app.offload_or_compile(constraint).await?;
    app.offload(move || Started::new(served, request, constraint.as_ref(), &options)).await
}

/// The running generations of a request.
pub(crate) struct Started {
    served: Arc<Served>,
    request: CompletionRequest,
    /// Texts of the prompts, if the request asks to echo them.
    echoes: Vec<String>,
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
        let (mut echoes, mut generations) = (Vec::new(), Vec::new());
        for prompt in &request.prompts {
            let tokens = tokens(prompt, tokenizer)?;
            if request.echo {
                echoes.push(echo(prompt, &tokens, tokenizer));
            }
            let mut engine = prepare::engine_request(tokens, &request.parameters, options);
            engine.constraint = constraint.cloned();
            let is_short = constraint.is_none() && !request.parameters.unlimited;
            engine.max_tokens = engine.max_tokens.or_else(|| is_short.then_some(MAX_TOKENS));
            let chooses = request.best_of > request.parameters.n;
            engine.logprobs = request.logprobs.or_else(|| chooses.then_some(0));
            let started = served.model.engine.generate_many(&engine, request.best_of);
            let refused = |error| prepare::refused(error, &request.parameters, request.format.as_ref());
            generations.extend(started.map_err(|error| refused(error).about_prompt())?);
        }
        Ok(Self { served, request, echoes, generations })
    }

    /// Returns the echo at the start of choice `index`.
    fn echo(&self, index: usize) -> &str {
        self.echoes.get(index / self.request.parameters.n).map_or("", String::as_str)
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
    let mut whole = try_join_all(generations.into_iter().map(Whole::collect)).await?;
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
            let logprobs = started
                .request
                .logprobs
                .map(|_| logprobs(&output.tokens, started.served.model.engine.tokenizer(), &mut 0));
            let text = format!("{}{}", started.echo(index), output.text);
            choices.push(CompletionChoice { logprobs, text, ..ended(index, &output.finish) });
        }
    }
    Ok(completion(answer, choices, Some(ChunkUsage::Total(used))))
}

/// One complete output.
struct Whole {
    text: String,
    tokens: Vec<TokenLogprob>,
    finish: Finish,
}

impl Whole {
    async fn collect(mut generation: Generation) -> Result<Self, ApiError> {
        let (mut text, mut tokens) = (String::new(), Vec::new());
        loop {
            match generation.next().await {
                Some(Output::Text(piece)) => text.push_str(&piece),
                Some(Output::Token(token)) => tokens.push(token),
                Some(Output::Control(_) | Output::PromptToken(_)) => {}
                Some(Output::Finished(finish)) => return Ok(Self { text, tokens, finish }),
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

/// Converts a log-probability to a JSON number with the digits of the `f32`, as in other fields.
fn number(logprob: f32) -> serde_json::Value {
    logprob.to_string().parse::<f64>().map_or(serde_json::Value::Null, Into::into)
}

/// Converts log-probabilities to OpenAI's lists. `offset` is the number of characters before the
/// tokens.
fn logprobs(tokens: &[TokenLogprob], tokenizer: &Tokenizer, offset: &mut usize) -> CompletionLogprobs {
    let mut lists = CompletionLogprobs::default();
    for token in tokens {
        let token = choice::logprob(token, tokenizer);
        // A character that spans several tokens starts in the first of them.
        let is_continued = token.bytes.first().is_some_and(|&byte| is_continuation(byte));
        lists.text_offset.push(offset.saturating_sub(usize::from(is_continued)));
        *offset += token.bytes.iter().filter(|&&byte| !is_continuation(byte)).count();
        lists.token_logprobs.push(token.logprob);
        let top = token.top_logprobs.into_iter().map(|likely| (likely.token, number(likely.logprob)));
        let mut top: serde_json::Map<_, _> = top.collect();
        // The token itself is always listed, even if other tokens are likelier.
        top.entry(token.token.as_str()).or_insert_with(|| number(token.logprob));
        lists.top_logprobs.push(top);
        lists.tokens.push(token.token);
    }
    lists
}

/// Returns true for a UTF-8 byte that is not the first of a character.
const fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
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
    CompletionChoice { index, text, logprobs: None, finish_reason: None, closed_by_budget: false }
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
