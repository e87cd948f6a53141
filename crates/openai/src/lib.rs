//! Types of the OpenAI API: requests, responses, stream events and errors. The modules [`anthropic`] and
//! [`ollama`] have those of Anthropic's and Ollama's APIs.
//!
//! No other crate knows the wire format. Nothing in a request is ignored silently: [`IgnoredFields`]
//! names the fields without effect, and the tools that only a host can run. A field that would change
//! the output is an error if it is not supported. So is an unknown field whose name is like that of a
//! constraint or of a parameter, and any unknown field of a request for directives, tools or grammars. A
//! field that is `null` counts as absent. Tools and
//! constraints are parsed into the types of the crates `chat` and `grammar`. Responses are plain data
//! for serde.
//!
//! A field that is marked as an extension is not part of OpenAI's API.
//! ```
//! use formwork_openai::ChatRequest;
//! let body = br#"{"model": "m", "messages": [{"role": "user", "content": "Hi"}], "audio": {}}"#;
//! let error = ChatRequest::from_json(body).unwrap_err();
//! assert_eq!(error.param(), Some("audio"));
//! assert_eq!(error.to_string(), "`audio`: only null is supported here");
//! ```
//!
//! # Out of scope
//! The server decides on HTTP statuses and headers. This crate only sets defaults that the wire
//! format defines.

pub mod anthropic;
mod chat;
mod completion;
mod decisions;
mod directives;
mod embeddings;
mod error;
mod failure;
mod grammar;
mod infill;
mod mask_view;
mod models;
pub mod ollama;
mod output_decisions;
mod request;
mod rerank;
mod responses;
mod time;
mod tokens;
mod tool_runs;

pub use chat::{
    AssistantMessage, CallDelta, Called, CalledCustom, CalledDelta, CalledFunction, ChatChoice, ChatChunk,
    ChatCompletion, ChunkChoice, ChunkUsage, CompletionDetails, CustomDelta, Delta, DeltaContent,
    FinishReason, FunctionDelta, LikelyToken, Logprobs, MessageCall, PromptDetails, TokenLogprob, Usage,
};
pub use completion::{Completion, CompletionChoice, CompletionLogprobs, CompletionPrompt, CompletionRequest};
pub use decisions::{
    AnswerDetails, AnswerTokens, ChoiceProbability, Confidence, DecisionSettings, Decisions, DecisionsAnswer,
    DecisionsRequest, DecisionsSettings, DecisionsUsage, LevelProbability, Measured, NamedQuestion,
    OptionJson, OutputTokens, SystemOne, SystemOneAnswer, SystemOneRequest, SystemOneUsage, read_calibration,
};
pub use directives::{
    DirectiveDefinition, DirectiveMode, DirectiveRules, DirectivesParseRequest, DirectivesRequest,
    RequiredDirective,
};
pub use embeddings::{
    Embedding, EmbeddingFormat, EmbeddingInput, EmbeddingList, EmbeddingPooling, EmbeddingPrompt,
    EmbeddingRequest, EmbeddingUsage, EmbeddingVector, Truncation,
};
pub use error::{DefinitionProblem, RequestError};
pub use failure::{Failure, FailureBody};
pub use grammar::{
    GrammarCheck, GrammarExplanation, GrammarNote, GrammarProblem, GrammarRequest, GrammarSamples,
    GrammarTask,
};
pub use infill::{Infill, InfillFile, InfillRequest, InfillSummary, InfillTimings};
pub use mask_view::{MaskedToken, TokenMask, TokenOrigin};
pub use models::{Model, ModelList, ModelMeta};
pub use output_decisions::{DecisionScope, OptionName, OptionShare, OutputDecision};
pub use request::{
    ChatMessage, ChatRequest, Dry, Format, IgnoredFields, Namespaces, Parameters, Role, StreamOptions,
    TokenLimit, ToolCall, structural_tag,
};
pub use rerank::{RerankRequest, RerankResult, RerankedDocument, Reranking, Score, ScoreRequest, Scores};
pub use responses::{
    ContentPart, Conversation, ConversationRequest, Deleted, Earlier, IncompleteDetails, InputDetails,
    InputTokens, Item, ItemList, NothingStored, OutputText, Response, ResponseError, ResponseEvent,
    ResponseRequest, ResponseUsage, Status, StoredItems,
};
pub use tokens::{
    DetokenizeRequest, Detokenized, Piece, RenderedTemplate, TemplateRequest, TokenPiece, TokenizeInput,
    TokenizeRequest, Tokenized, TokenizedIds, TokenizerInfo,
};
pub use tool_runs::{RunTool, ToolRunRequest};
