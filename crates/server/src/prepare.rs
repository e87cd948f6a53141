//! From a request on the wire to a running generation. Compiling, rendering and encoding take time: call this off the
//! async threads.

use formwork_engine::prompt::{self, Shape};
use formwork_engine::{Generation, Penalties, Request, RequestError, Sampling};
use formwork_lm::{ChatInput, Message};
use formwork_openai::{ChatRequest, Format};
use formwork_vocab::TokenId;

use crate::app::Served;
use crate::error::{ApiError, Kind};
use crate::random::random;

/// The temperature of requests that give none, as OpenAI has it.
const TEMPERATURE: f32 = 1.0;

impl Served {
    /// Starts to generate what `request` asks for.
    pub(crate) fn start(&self, request: &ChatRequest) -> Result<Generation, ApiError> {
        let tokenizer = self.model.engine.tokenizer();
        let compile = |format: &Format| {
            let compiled = self.constraints.get(format, tokenizer.vocabulary());
            compiled.map_err(|source| Kind::Constraint { field: format.field(), source })
        };
        let constraint = request.format.as_ref().map(compile).transpose()?;
        let input = ChatInput {
            messages: messages(request),
            add_generation_prompt: true,
            variables: request.chat_template_kwargs.clone(),
        };
        let text = self.model.template.render(&input).map_err(Kind::Template)?;
        let generation = self.model.engine.generate(Request {
            constraint,
            sampling: sampling(request),
            penalties: Penalties {
                presence: request.presence_penalty,
                frequency: request.frequency_penalty,
                repetition: request.repetition_penalty,
            },
            logit_bias: request.logit_bias.iter().map(|&(token, bias)| (TokenId(token), bias)).collect(),
            max_tokens: request.max_tokens.map(|limit| limit.tokens),
            stop: request.stop.clone(),
            ..Request::new(prompt::encode(tokenizer, &text).map_err(Kind::Prompt)?)
        });
        generation.map_err(|error| refused(error, request))
    }
}

/// The conversation, with the format described to the model.
pub(crate) fn messages(request: &ChatRequest) -> Vec<Message> {
    let message = |m: &formwork_openai::ChatMessage| Message::new(m.role.name(), m.content.as_str());
    let mut messages = request.messages.iter().map(message).collect();
    if let (true, Some(format)) = (request.schema_in_prompt, &request.format) {
        let shape = match format {
            // What the tags are for is the caller's to tell.
            Format::StructuralTags(_) => return messages,
            Format::JsonObject => Shape::JsonObject,
            Format::JsonSchema { schema, .. } => Shape::Schema(schema),
            Format::Gbnf(source) => Shape::Gbnf(source),
            Format::Regex(pattern) => Shape::Regex(pattern),
            Format::Choice(choices) => Shape::Choices(choices),
        };
        shape.add_to(&mut messages);
    }
    messages
}

fn sampling(request: &ChatRequest) -> Sampling {
    let neutral = Sampling::default();
    Sampling {
        temperature: request.temperature.unwrap_or(TEMPERATURE),
        top_k: request.top_k.unwrap_or(neutral.top_k),
        // OpenAI allows 0: the fewest tokens that reach the least probability are the one likeliest.
        top_p: request.top_p.unwrap_or(neutral.top_p).max(f32::MIN_POSITIVE),
        min_p: request.min_p.unwrap_or(neutral.min_p),
        seed: request.seed.unwrap_or_else(random),
        ..neutral
    }
}

/// The engine names fields by what they mean; the request may spell them otherwise.
fn refused(source: RequestError, request: &ChatRequest) -> ApiError {
    if source.is_busy() {
        return Kind::Busy(source).into();
    }
    if source.is_stopped() {
        return Kind::Stopped(source).into();
    }
    let field = match source.field() {
        Some("messages") => return Kind::TooLong(source).into(),
        Some("max_tokens") => request.max_tokens.map(|limit| limit.field),
        Some("response_format") => request.format.as_ref().map(Format::field),
        other => other,
    };
    Kind::Refused { field, source }.into()
}
