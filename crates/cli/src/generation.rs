//! Builds generation requests from the options that `run` and `chat` share.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use anyhow::Result;
use formwork_engine::{
    EngineHandle, EngineOptions, Finish, Generation, Penalties, Request, Sampling, prompt,
};
use formwork_grammar::{ChoiceReader, Constraint};
use formwork_lm::{ChatInput, Message};
use formwork_server::Places;

use crate::args::{GenerateArgs, ProfileArg};
use crate::load::{self, Loaded, ShapeSource};

/// A loaded model with the constraint and settings from the command line.
pub(crate) struct Generator {
    loaded: Loaded,
    constraint: Option<Constraint>,
    shape: Option<ShapeSource>,
    /// True if outputs are JSON text.
    is_json: bool,
    system: Option<String>,
    template: Request,
}

impl Generator {
    pub(crate) fn new(args: &GenerateArgs) -> Result<Self> {
        // Compile the shape first: a broken schema is reported before any download.
        let shape = ShapeSource::read(&args.shape)?;
        let compile = |shape: &ShapeSource| shape.compile(&args.shape, ProfileArg::Generate, &args.schema);
        let grammar = shape.as_ref().map(compile).transpose()?;
        let (opening, options) = (args.model.open.opening()?, EngineOptions::default());
        let loaded = load::load_with(&args.model.model, opening, options, args.lora.as_ref())?;
        let vocabulary = loaded.engine.tokenizer().vocabulary();
        let constraint = grammar.map(|grammar| Constraint::new(&grammar, vocabulary.clone())).transpose()?;
        let sampling = Sampling {
            temperature: args.temperature,
            top_k: args.top_k,
            top_p: args.top_p,
            min_p: args.min_p,
            seed: args.seed.unwrap_or_else(|| RandomState::new().hash_one(0)),
            ..Sampling::default()
        };
        let template = Request {
            constraint: constraint.clone(),
            guide: shape.as_ref().and_then(|shape| shape.guide(vocabulary)),
            sampling,
            penalties: Penalties {
                presence: args.presence_penalty,
                frequency: args.frequency_penalty,
                repetition: args.repetition_penalty,
            },
            max_tokens: args.max_tokens,
            stop: args.stop.clone(),
            ..Request::new(Vec::new())
        };
        let is_json = shape.as_ref().is_some_and(ShapeSource::is_json);
        let shape = shape.filter(|_| !args.no_schema_prompt);
        Ok(Self { loaded, constraint, shape, is_json, system: args.system.clone(), template })
    }

    pub(crate) const fn engine(&self) -> &EngineHandle {
        &self.loaded.engine
    }

    pub(crate) fn name(&self) -> &str {
        &self.loaded.name
    }

    /// Reports whether a constraint is active.
    pub(crate) const fn is_constrained(&self) -> bool {
        self.constraint.is_some()
    }

    /// Returns the places of the mask view of an output.
    pub(crate) fn places(&self) -> Places {
        Places::new(self.is_json, self.constraint.as_ref().map(Constraint::grammar))
    }

    /// Returns a reader of the choices in an output, or `None` without a constraint.
    pub(crate) fn choice_reader(&self) -> Option<ChoiceReader> {
        let constraint = self.constraint.as_ref()?;
        Some(formwork_server::choice_reader(constraint.grammar(), self.is_json))
    }

    /// Starts generating the next message of a conversation.
    pub(crate) fn generate(&self, conversation: &[Message]) -> Result<Generation> {
        self.start(self.request(conversation)?)
    }

    /// Starts a [request](Self::request).
    pub(crate) fn start(&self, request: Request) -> Result<Generation> {
        self.engine().generate(request).map_err(|error| {
            let described = self.shape.as_ref().filter(|_| error.is_too_long()).and_then(ShapeSource::shape);
            match described.map(|shape| self.engine().tokenizer().encode_fragment(&shape.instruction())) {
                Some(Ok(tokens)) => anyhow::Error::from(error).context(format!(
                    "the description of the schema or grammar takes {} prompt tokens; --no-schema-prompt omits it",
                    tokens.len()
                )),
                _ => error.into(),
            }
        })
    }

    /// Builds the request that continues a conversation, with the system message and the shape
    /// added.
    pub(crate) fn request(&self, conversation: &[Message]) -> Result<Request> {
        let system = self.system.iter().map(|system| Message::new("system", system.as_str()));
        let mut messages: Vec<Message> = system.chain(conversation.iter().cloned()).collect();
        if let Some(shape) = self.shape.as_ref().and_then(ShapeSource::shape) {
            shape.add_to(&mut messages);
        }
        let input = ChatInput { messages, add_generation_prompt: true, ..ChatInput::default() };
        let text = self.loaded.template.render(&input)?;
        let prompt = prompt::encode(self.loaded.engine.tokenizer(), &text)?;
        Ok(Request { prompt, ..self.template.clone() })
    }
}

/// Formats token counts and timings as one line.
pub(crate) fn stats_line(finish: &Finish, before: Duration) -> String {
    let usage = finish.usage;
    // Prefill produces the first token.
    let decoded = usage.completion_tokens.saturating_sub(1);
    let (prompt, decode) = (finish.timings.prompt.as_secs_f64(), finish.timings.decode.as_secs_f64());
    let model = if decode > 0.0 {
        format!("prompt read in {prompt:.3} s, then {:.1} tokens/s", decoded as f64 / decode)
    } else {
        "no tokens from the model".to_owned()
    };
    format!(
        "{} prompt tokens, {} output tokens ({} forced); first token after {:.3} s ({:.3} s to load), {model}; grammar \
         {:.1} ms; {}{}",
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.forced_tokens,
        (before + finish.timings.first_token).as_secs_f64(),
        before.as_secs_f64(),
        finish.timings.grammar.as_secs_f64() * 1e3,
        match finish.reason {
            formwork_engine::FinishReason::Stop => "stop",
            formwork_engine::FinishReason::Length => "length",
        },
        if finish.closed_by_budget { ", closed to fit the token limit" } else { "" },
    )
}
