//! The OpenAI wire types: requests, responses, stream events and errors.
//!
//! Only this crate knows the wire format. Requests are parsed strictly, so that nothing a caller
//! asks for is silently dropped. An unknown field is an error that names the field, and so is an
//! unsupported field that would change the output. `null` is the same as an absent field. Responses
//! are plain data for serde.
//! ```
//! use formwork_openai::ChatRequest;
//! let body = br#"{"model": "m", "messages": [{"role": "user", "content": "Hi"}], "audio": {}}"#;
//! let error = ChatRequest::from_json(body).unwrap_err();
//! assert_eq!(error.param(), Some("audio"));
//! assert_eq!(error.to_string(), "`audio`: only null is supported here");
//! ```
//!
//! # Out of scope
//! HTTP statuses and headers belong to the server. This crate sets no defaults, except where the
//! wire format defines one.

mod chat;
mod completion;
mod directives;
mod embeddings;
mod error;
mod failure;
mod grammar;
mod models;
mod request;
mod responses;
mod tokens;

pub use chat::{
    AssistantMessage, CallDelta, CalledFunction, ChatChoice, ChatChunk, ChatCompletion, ChunkChoice,
    ChunkUsage, CompletionDetails, Delta, FinishReason, FunctionDelta, LikelyToken, Logprobs, MessageCall,
    PromptDetails, TokenLogprob, Usage,
};
pub use completion::{Completion, CompletionChoice, CompletionLogprobs, CompletionPrompt, CompletionRequest};
pub use directives::{DirectiveDefinition, DirectiveMode, DirectivesRequest};
pub use embeddings::{
    Embedding, EmbeddingFormat, EmbeddingInput, EmbeddingList, EmbeddingPooling, EmbeddingRequest,
    EmbeddingUsage, EmbeddingVector,
};
pub use error::RequestError;
pub use failure::{Failure, FailureBody};
pub use grammar::{
    GrammarCheck, GrammarExplanation, GrammarNote, GrammarProblem, GrammarRequest, GrammarSamples,
    GrammarTask,
};
pub use models::{Model, ModelList};
pub use request::{
    ChatMessage, ChatRequest, Dry, Format, Function, Parameters, Role, StreamOptions, StructuralTag,
    StructuralTags, TagContent, TokenLimit, ToolCall, ToolSet, Undeclared,
};
pub use responses::{
    ContentPart, IncompleteDetails, InputItem, Item, OutputText, Response, ResponseError, ResponseEvent,
    ResponseRequest, ResponseUsage, Status,
};
pub use tokens::{
    DetokenizeRequest, Detokenized, Piece, RenderedTemplate, TemplateRequest, TokenPiece, TokenizeInput,
    TokenizeRequest, Tokenized, TokenizedIds,
};
