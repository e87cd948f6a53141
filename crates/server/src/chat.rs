use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use formwork_openai::{
    AssistantMessage, Called, ChatChoice, ChatCompletion, ChatRequest, Logprobs, MessageCall, OutputDecision,
    TokenMask, Usage,
};
use futures_util::future::try_join_all;

use crate::answer::{Answer, FINGERPRINT, usage};
use crate::app::{App, Served};
use crate::body::JsonBody;
use crate::choice::{Choice, End, Said};
use crate::error::{ApiError, Kind};
use crate::ignored::{Notes, with_ignored};
use crate::mask_view::MaskViews;
use crate::output_decisions::{Measured, OutputDecisions};
use crate::{prepare, stream};

/// `POST /v1/chat/completions`.
pub(crate) async fn create(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    let request = ChatRequest::from_json(&body)?;
    app.check_ignored(&request.ignored)?;
    let served = app.model(&request.model).await?;
    let answer = Answer::new("chatcmpl-", &served.model.id);
    let (stream, logprobs, ignored) = (request.stream, request.logprobs.is_some(), request.ignored.clone());
    let started = Started::new(&app, served, request).await?;
    let notes = started.notes.clone();
    let response = match stream {
        Some(options) => stream::respond(started, answer, options),
        None => Json(collect(started, &answer, logprobs).await?).into_response(),
    };
    Ok(notes.add_to(with_ignored(response, &ignored)))
}

/// The running outputs of a chat request.
pub(crate) struct Started {
    pub(crate) choices: Vec<Choice>,
    /// Names of the tools that accept any object because their schemas cannot be enforced.
    pub(crate) unsupported: Vec<String>,
    pub(crate) notes: Notes,
    /// Number of tokens of the prompt.
    pub(crate) prompt_tokens: usize,
    /// True if the model may call tools.
    pub(crate) has_tools: bool,
    /// True if calls are reported in `function_call`.
    pub(crate) has_functions: bool,
}

impl Started {
    /// Prepares a chat request and starts its generations.
    pub(crate) async fn new(app: &App, served: Arc<Served>, chat: ChatRequest) -> Result<Self, ApiError> {
        let options = app.options().clone();
        app.offload_or_compile(move |compiling| {
            let prepared = served.prepare(&chat, &options, compiling)?;
            let generations = served.model.engine.generate_many(&prepared.request, chat.parameters.n);
            let generations = generations.map_err(|error| {
                let error = prepare::refused(error, &chat.parameters, chat.format.as_ref());
                error.about_description(|| served.described(&chat))
            })?;
            let is_live = chat.stream.is_some();
            let decisions = || {
                let choices = prepared.choices.as_ref();
                let begun = prepared.reading.begun_content();
                let engine = &served.model.engine;
                let start =
                    |choices| OutputDecisions::new(engine, &prepared.request, choices, begun, is_live);
                choices.map(start).transpose()
            };
            let masks = || {
                let places = prepared.places.as_ref()?;
                Some(MaskViews::new(places.restarted(), prepared.reading.begun_content()))
            };
            let choice = |generation| {
                let choice = Choice::new(generation, &prepared.reading, &served)?;
                Ok::<_, ApiError>(choice.with_masks(masks()).with_decisions(decisions()?))
            };
            let choices = generations.into_iter().map(choice).collect::<Result<_, _>>()?;
            Ok(Self {
                choices,
                unsupported: prepared.unsupported,
                notes: prepared.notes,
                prompt_tokens: prepared.request.prompt.len(),
                has_tools: !chat.tools.tools.is_empty(),
                has_functions: chat.has_functions,
            })
        })
        .await
    }
}

/// Collects the whole answer. Dropping the future, for example on a disconnect, cancels the
/// generations.
pub(crate) async fn collect(
    started: Started,
    answer: &Answer,
    logprobs: bool,
) -> Result<ChatCompletion, ApiError> {
    let whole = started.choices.into_iter().map(Whole::collect);
    let whole = try_join_all(whole).await?;
    let used = whole.iter().fold(Usage::default(), |used, choice| used.and(usage(&choice.end.finish)));
    let choices = whole.into_iter().enumerate().map(|(index, choice)| {
        answer.log(&choice.end.finish);
        choice.choice(index as u32, logprobs, started.has_functions)
    });
    Ok(ChatCompletion {
        id: answer.id.clone(),
        object: "chat.completion".to_owned(),
        created: answer.created,
        model: answer.model.clone(),
        choices: choices.collect(),
        usage: used,
        system_fingerprint: Some(FINGERPRINT.to_owned()),
        unsupported_schemas: started.unsupported,
    })
}

/// One complete output.
pub(crate) struct Whole {
    pub(crate) thought: String,
    pub(crate) content: Option<String>,
    pub(crate) logprobs: Vec<formwork_openai::TokenLogprob>,
    /// Effect of the constraint on each token, if it is asked for.
    pub(crate) masks: Option<Vec<TokenMask>>,
    pub(crate) measured: Option<Measured>,
    pub(crate) calls: Vec<MessageCall>,
    pub(crate) end: End,
}

impl Whole {
    pub(crate) async fn collect(mut choice: Choice) -> Result<Self, ApiError> {
        let (mut thought, mut content, mut logprobs) = (String::new(), None, Vec::new());
        let mut masks = choice.reports_masks().then(Vec::new);
        let (mut calls, mut decisions): (Vec<MessageCall>, Vec<OutputDecision>) = (Vec::new(), Vec::new());
        loop {
            match choice.next().await {
                Some(Said::Masks(more)) => masks.get_or_insert_default().extend(more),
                Some(Said::Thought(text)) => thought.push_str(&text),
                Some(Said::Content(text, tokens, decided)) => {
                    decisions.extend(decided);
                    content.get_or_insert_with(String::new).push_str(&text);
                    logprobs.extend(tokens);
                }
                Some(Said::Call { id, name, is_custom, .. }) => {
                    let new = if is_custom { MessageCall::custom } else { MessageCall::function };
                    calls.push(new(id, name, String::new()));
                }
                Some(Said::Arguments { text, .. }) => match calls.last_mut().map(|last| &mut last.called) {
                    Some(Called::Function(function)) => function.arguments.push_str(&text),
                    Some(Called::Custom(custom)) => custom.input.push_str(&text),
                    None => {}
                },
                Some(Said::End(mut end)) => {
                    let mut measured = end.measured.take();
                    if let Some(Measured { decisions: last, .. }) = &mut measured {
                        decisions.append(last);
                        *last = decisions;
                    }
                    return Ok(Self { thought, content, logprobs, masks, measured, calls, end });
                }
                Some(Said::Failed(error)) => return Err(error),
                None => return Err(Kind::Panicked.into()),
            }
        }
    }

    fn choice(mut self, index: u32, logprobs: bool, has_functions: bool) -> ChatChoice {
        let closed_by_budget = self.end.finish.closed_by_budget;
        let finish_reason = self.end.reason(has_functions);
        // An answer without any text has empty content; an answer with only calls has none.
        let content = self.content.or_else(|| self.calls.is_empty().then(String::new));
        let function_call = self.calls.pop_if(|_| has_functions).and_then(|call| match call.called {
            Called::Function(function) => Some(function),
            Called::Custom(_) => None,
        });
        let message = AssistantMessage {
            content,
            function_call,
            reasoning_content: Some(self.thought).filter(|text| !text.is_empty()),
            tool_calls: self.calls,
            ..AssistantMessage::new(String::new())
        };
        let logprobs = logprobs.then_some(Logprobs { content: self.logprobs, refusal: None });
        let (decisions, decisions_error) =
            self.measured.map(|measured| (measured.decisions, measured.error)).unzip();
        let decisions_error = decisions_error.flatten();
        ChatChoice {
            index,
            message,
            logprobs,
            mask_view: self.masks,
            decisions,
            decisions_error,
            finish_reason,
            closed_by_budget,
        }
    }
}
