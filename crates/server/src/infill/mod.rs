//! `POST /infill`: fills in text between a prefix and a suffix.

mod tokens;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use formwork_engine::{Finish, FinishReason};
use formwork_fields::Lead;
use formwork_grammar::Constraint;
use formwork_openai::{Infill, InfillRequest, InfillSummary, InfillTimings};
use formwork_vocab::tokenizer::EncodeOptions;
use futures_util::stream;

use crate::answer::Answer;
use crate::app::{App, Served, ServerOptions};
use crate::body::JsonBody;
use crate::chat::Whole;
use crate::choice::{Choice, Said};
use crate::error::{ApiError, Kind};
use crate::ignored::with_ignored;
use crate::prepare;
use crate::stream::{error_event, event};
pub(crate) use tokens::FillTokens;
use tokens::TextFile;

pub(crate) async fn create(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    let request = InfillRequest::from_json(&body)?;
    app.check_ignored(&request.ignored)?;
    let served = app.model(&request.model).await?;
    let answer = Answer::new("infill-", &served.model.id);
    let (streams, ignored) = (request.stream, request.ignored.clone());
    let constraint = app.constraint(&served, request.format.clone(), request.undeclared).await?;
    let options = app.options().clone();
    let choice = app.offload(move || start(&served, &request, constraint, &options)).await?;
    if streams {
        return Ok(with_ignored(respond(choice, answer), &ignored));
    }
    let Whole { content, end, .. } = Whole::collect(choice).await?;
    answer.log(&end.finish);
    let infill = last(content.unwrap_or_default(), &answer, &end.finish);
    Ok(with_ignored(Json(infill), &ignored))
}

fn start(
    served: &Arc<Served>,
    request: &InfillRequest,
    constraint: Option<Constraint>,
    options: &ServerOptions,
) -> Result<Choice, ApiError> {
    let tokenizer = served.model.engine.tokenizer();
    let fill = served.fill.as_ref().ok_or(Kind::NoInfill { field: "input_suffix" })?;
    let files = request.files.iter().map(|file| TextFile { name: &file.name, text: &file.text });
    let files: Vec<TextFile<'_>> = files.collect();
    let refused = |source| ApiError::from(Kind::Text { field: "input_prefix", source });
    let mut prompt = fill.encode(tokenizer, &files, &request.prefix, &request.suffix).map_err(refused)?;
    prompt.extend(tokenizer.encode(&request.begun, EncodeOptions::default()).map_err(refused)?);
    let mut engine = prepare::engine_request(prompt, &request.parameters, options);
    engine.constraint = constraint;
    let lead = Lead { begun: request.begun.clone(), ..Lead::default() };
    let format = request.format.as_ref();
    engine.guide = format.and_then(|format| prepare::guide(format, tokenizer.vocabulary(), lead));
    engine.begun.clone_from(&request.begun);
    if !request.parameters.ignore_eos {
        engine.stop_tokens.extend(&fill.ends);
    }
    let generation = served.model.engine.generate(engine).map_err(|error| {
        prepare::refused(error, &request.parameters, request.format.as_ref()).about_prompt()
    })?;
    Ok(Choice::raw(generation, served))
}

/// Streams the text. Dropping the response cancels the generation.
fn respond(choice: Choice, answer: Answer) -> Response {
    let events = stream::unfold((choice, answer), |(mut choice, answer)| async {
        loop {
            let event = match choice.next().await? {
                Said::Content(content, ..) => event(&Infill { content, stop: false, summary: None }),
                Said::End(end) => {
                    answer.log(&end.finish);
                    event(&last(String::new(), &answer, &end.finish))
                }
                Said::Failed(error) => error_event(&error),
                Said::Masks(_) | Said::Thought(_) | Said::Call { .. } | Said::Arguments { .. } => continue,
            };
            return Some((Ok::<_, Infallible>(event), (choice, answer)));
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

/// Returns the last event of a stream, or the whole response.
fn last(content: String, answer: &Answer, finish: &Finish) -> Infill {
    let stop_type = match finish.reason {
        FinishReason::Length => "limit",
        FinishReason::Stop if finish.stop_string.is_some() => "word",
        FinishReason::Stop => "eos",
    };
    let (usage, timings) = (finish.usage, finish.timings);
    let rate = |tokens: usize, seconds: f64| if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 };
    let (prompt, decode) = (timings.prompt.as_secs_f64(), timings.decode.as_secs_f64());
    let prompt_n = usage.prompt_tokens.saturating_sub(usage.cached_tokens);
    let summary = InfillSummary {
        model: answer.model.clone(),
        stop_type: stop_type.to_owned(),
        stopping_word: finish.stop_string.clone().unwrap_or_default(),
        truncated: false,
        tokens_predicted: usage.completion_tokens,
        tokens_evaluated: usage.prompt_tokens,
        tokens_cached: usage.cached_tokens,
        timings: InfillTimings {
            prompt_n,
            prompt_ms: prompt * 1000.0,
            prompt_per_second: rate(prompt_n, prompt),
            predicted_n: usage.completion_tokens,
            predicted_ms: decode * 1000.0,
            predicted_per_second: rate(usage.completion_tokens, decode),
        },
    };
    Infill { content, stop: true, summary: Some(summary) }
}
