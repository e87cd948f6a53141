//! The engine: prefill, masked decode, sampling and scheduling.
//!
//! One thread owns the model and all sequences; everything else talks to it through an [`EngineHandle`]. A [`Request`]
//! goes in, a [`Generation`] comes out: a stream of [`Output`]s that ends with [`Output::Finished`]. Dropping it cancels.
//!
//! With a constraint, every sampled token is inside the mask, tokens that the grammar forces skip the model's head, and
//! the output is complete within the token budget: a request whose budget is too small to guarantee that is refused
//! before the first token.
//!
//! A step takes all sequences that generate and pieces of prompts through the model. Prompts that begin alike are read once.
//! Neither what runs beside a request nor what was read before it changes its tokens, where the model's results do not depend
//! on the batch.
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

mod bias;
mod dry;
mod embedding;
mod engine;
mod error;
mod event;
mod handle;
mod lookup;
mod outbox;
mod pace;
mod prefix_cache;
pub mod prompt;
mod reasoning;
mod request;
mod sampler;
mod scheduler;
mod sequence;
mod stats;
mod step;
mod text;

pub use bias::Penalties;
pub use dry::Dry;
pub use engine::{Engine, EngineOptions};
pub use error::{EmbedError, GenerationError, RequestError};
pub use event::{Finish, FinishReason, Output, Timings, TokenLogprob, Usage};
pub use handle::{EngineHandle, Generation};
pub use request::{OnBudget, Pooling, Reasoning, Request};
pub use sampler::Sampling;
pub use stats::{Histogram, Stats};
