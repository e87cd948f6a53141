use std::time::{SystemTime, UNIX_EPOCH};

use formwork_engine::Finish;
use formwork_openai::{
    AssistantMessage, ChatChoice, ChatChunk, ChatCompletion, ChunkChoice, ChunkUsage, Delta, FinishReason,
    Usage,
};
use tracing::Span;

use crate::random::random;

/// What with the request's seed decides the output: the program that computes it.
const FINGERPRINT: &str = concat!("formwork-", env!("CARGO_PKG_VERSION"));

/// What is the same on all parts of one answer.
pub(crate) struct Answer {
    id: String,
    created: u64,
    model: String,
    /// The request's: a streamed answer outlives it.
    span: Span,
}

impl Answer {
    /// A new answer by `model`, within the current span.
    pub(crate) fn new(model: &str) -> Self {
        let id = format!("chatcmpl-{:016x}{:016x}", random(), random());
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self { id, created, model: model.to_owned(), span: Span::current() }
    }

    /// The whole answer.
    pub(crate) fn completion(self, content: String, finish: &Finish) -> ChatCompletion {
        self.log(finish);
        let choice = ChatChoice {
            index: 0,
            message: AssistantMessage::new(content),
            logprobs: None,
            finish_reason: reason(finish),
            closed_by_budget: finish.closed_by_budget,
        };
        ChatCompletion {
            id: self.id,
            object: "chat.completion".to_owned(),
            created: self.created,
            model: self.model,
            choices: vec![choice],
            usage: usage(finish),
            system_fingerprint: Some(FINGERPRINT.to_owned()),
        }
    }

    /// A piece that adds `delta`.
    pub(crate) fn piece(&self, delta: Delta) -> ChatChunk {
        let choice =
            ChunkChoice { index: 0, delta, logprobs: None, finish_reason: None, closed_by_budget: false };
        self.chunk(vec![choice])
    }

    /// The last piece of the choice.
    pub(crate) fn closing(&self, finish: &Finish) -> ChatChunk {
        self.log(finish);
        self.chunk(vec![ChunkChoice {
            index: 0,
            delta: Delta::closing(),
            logprobs: None,
            finish_reason: Some(reason(finish)),
            closed_by_budget: finish.closed_by_budget,
        }])
    }

    /// The piece that follows the choice when usage was asked for.
    pub(crate) fn usage(&self, finish: &Finish) -> ChatChunk {
        ChatChunk { usage: Some(ChunkUsage::Total(usage(finish))), ..self.chunk(Vec::new()) }
    }

    fn chunk(&self, choices: Vec<ChunkChoice>) -> ChatChunk {
        ChatChunk {
            id: self.id.clone(),
            object: "chat.completion.chunk".to_owned(),
            created: self.created,
            model: self.model.clone(),
            system_fingerprint: Some(FINGERPRINT.to_owned()),
            choices,
            usage: None,
        }
    }

    fn log(&self, finish: &Finish) {
        let Finish { reason, closed_by_budget, usage, timings, .. } = finish;
        let [first_ms, prompt_ms, decode_ms] =
            [timings.first_token, timings.prompt, timings.decode].map(|time| time.as_millis());
        self.span.in_scope(|| {
            tracing::info!(?reason, closed_by_budget, ?usage, first_ms, prompt_ms, decode_ms, "generated");
        });
    }
}

const fn reason(finish: &Finish) -> FinishReason {
    match finish.reason {
        formwork_engine::FinishReason::Stop => FinishReason::Stop,
        formwork_engine::FinishReason::Length => FinishReason::Length,
    }
}

const fn usage(finish: &Finish) -> Usage {
    Usage::new(finish.usage.prompt_tokens, finish.usage.completion_tokens)
}
