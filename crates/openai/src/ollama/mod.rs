//! Types of Ollama's API, under `/api`.
//!
//! A request is converted to the request of OpenAI's API that has the same meaning, so both have the same
//! effects and errors. Fields that Ollama does not have are extensions, such as `on_unsupported_schema`.
//! ```
//! use formwork_openai::ollama::GenerationRequest;
//! let body = br#"{"model": "m", "prompt": "Hi", "options": {"mirostat": 2}}"#;
//! let error = GenerationRequest::generate_from_json(body).unwrap_err();
//! assert_eq!(error.to_string(), "`options.mirostat`: only 0 is supported here");
//! ```

mod embed;
mod generation;
mod message;
mod models;
mod options;
mod reply;

pub use embed::{EmbedReply, EmbedRequest, PromptEmbedding};
pub use generation::{GenerationRequest, LoadRequest};
pub use models::{
    ListedModel, ListedModels, LoadedModel, LoadedModels, ModelDetails, ShowReply, ShowRequest, VersionReply,
};
pub use reply::{EndReason, Metrics, Reply, ReplyCall, ReplyEnd, ReplyFunction, ReplyMessage};

pub use crate::time::timestamp;
