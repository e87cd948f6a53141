//! The engine: prefill, masked decode, sampling and scheduling.
//!
//! One thread owns the model and all sequences. Everything else talks to this thread through an
//! [`EngineHandle`]. Submitting a [`Request`] returns a [`Generation`]: a stream of [`Output`]s
//! that ends with [`Output::Finished`] or [`Output::Failed`]. Dropping the [`Generation`] cancels
//! the request.
//!
//! With a constraint, every sampled token is inside the mask, and tokens that the grammar forces
//! skip the model's head. The output is complete within the token budget. A request whose budget is
//! too small for this guarantee is refused before the first token.
//!
//! [`EngineHandle::decide`] generates nothing: it returns the probabilities of given answers, with bounds
//! on their errors.
//!
//! A step runs all generating sequences and pieces of prompts through the model. A prefix that
//! several prompts share is read once. If the model's results do not depend on the batch, a request
//! gets the same tokens regardless of concurrent and earlier requests.
//!
//! ```
//! use std::sync::Arc;
//! use formwork_engine::{Engine, EngineOptions, Output, Request};
//! use formwork_grammar::{Constraint, Grammar, Limits};
//! use formwork_lm::ScriptedModel;
//! use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};
//!
//! let bytes = (0..=255u8).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Text });
//! let tokenizer = Arc::new(Tokenizer::greedy(Vocabulary::new(bytes.collect(), vec![])?));
//! let model = ScriptedModel::new(256, 64, |_, _| {});
//! let engine = Engine::start(Box::new(model), Arc::clone(&tokenizer), EngineOptions::default());
//!
//! let grammar = Grammar::choices(&["true", "false"], &Limits::default())?;
//! let mut request = Request::new(tokenizer.encode_fragment("Is it? ")?);
//! request.constraint = Some(Constraint::new(&grammar, Arc::clone(tokenizer.vocabulary()))?);
//! let (text, finish) = engine.generate(request)?.collect()?;
//! assert!(text == "true" || text == "false");
//! assert_eq!(finish.usage.completion_tokens, text.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arrival;
mod bias;
mod decision;
mod drafter;
mod dry;
mod embedding;
mod engine;
mod error;
mod event;
mod handle;
mod lanes;
mod lookup;
mod mask_view;
mod outbox;
mod pace;
mod prefix_cache;
mod processors;
pub mod prompt;
mod reasoning;
mod request;
mod sampler;
mod scheduler;
mod sequence;
mod softmax;
mod stats;
mod step;
mod text;

pub use bias::Penalties;
pub use decision::{
    ChoiceTracker, Decided, DecisionRequest, Enclosure, Ending, Question, SamplerState, SearchLimits,
    TrackedChoice, Visited,
};
pub use dry::Dry;
pub use embedding::TextRequest;
pub use engine::{Engine, EngineOptions};
pub use error::{DecisionError, EmbedError, GenerationError, RequestError};
pub use event::{Finish, FinishReason, Output, Timings, TokenLogprob, Usage};
pub use formwork_lm::Pooling;
pub use handle::{Decision, EngineHandle, Generation};
pub use mask_view::{MaskedToken, TokenMask, TokenOrigin};
pub use request::{EndTokens, OnBudget, Reasoning, Request};
pub use sampler::Sampling;
pub use stats::{Bucket, Histogram, Stats};

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
