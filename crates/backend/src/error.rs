mod response;

use std::error::Error as StdError;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::Feature;
use crate::quota::Exhausted;
use crate::subject::Subject;

/// Reason why a backend did not answer a request.
///
/// ```
/// use formwork_backend::{BackendError, Category};
/// let body = r#"{"error": {"message": "slow down", "code": "rate_limited"}}"#;
/// let error = BackendError::from_status(429, body);
/// assert_eq!(error.category(), Category::RateLimited);
/// assert_eq!(error.code(), Some("rate_limited"));
/// assert_eq!(error.to_string(), "the backend answered 429: slow down");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(transparent)]
pub struct BackendError(#[from] Box<Kind>);

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Kind {
    #[error("invalid server URL `{given}`: {source}")]
    Url { given: String, source: Cause },
    #[error("invalid server URL `{given}`: unsupported scheme `{scheme}`; expected http or https")]
    Scheme { given: String, scheme: String },
    #[error("the API key contains characters that are not allowed in a header")]
    Key,
    #[error("invalid header `{name}`: the name or the value contains characters that are not allowed")]
    Header { name: String },
    #[error("the backend could not be reached: {url}: {source}")]
    Connection { url: String, source: Cause },
    #[error("the backend did not answer within {} seconds", limit.as_secs_f64())]
    Timeout { limit: Duration },
    #[error("the backend answered {status}: {message}")]
    Status {
        status: u16,
        message: String,
        code: Option<String>,
        param: Option<String>,
        retry_after: Option<Duration>,
        /// True if the body says that a safety check refused the request.
        is_safety: bool,
    },
    #[error("the backend's answer is larger than the limit of {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the backend's answer is not a chat completion: {source}")]
    Malformed { source: Cause },
    #[error("the backend's answer is not a chat completion: `choices` is missing or not an array")]
    NoChoices,
    #[error("the backend answers no decisions")]
    DecisionsUnsupported,
    #[error("the backend's answer is not a decision: {reason}")]
    MalformedDecision { reason: &'static str },
    #[error("the stream was interrupted: {source}")]
    Broken { source: Cause },
    #[error("the stream was interrupted: missing [DONE] at the end")]
    Unfinished,
    #[error("the probe of {} is inconclusive: {reason}", feature.name())]
    Inconclusive { feature: Feature, reason: String },
    #[error("the request was not sent: the limit of {limit} requests is reached")]
    RequestLimit { limit: u32 },
    #[error("the request was stopped: the quota of time is used up")]
    TimeSpent,
    #[error("the scripted backend has no more answers")]
    ScriptOver,
    #[error(transparent)]
    Interrupted(Interruption),
    #[error(transparent)]
    Exhausted(Exhausted),
}

/// Cause of an error, found by a library.
///
/// The message and the source are those of the innermost error, because an HTTP library's own
/// message only says that sending failed. Two causes are equal if their messages are equal.
#[derive(Clone, Debug)]
pub(crate) struct Cause(Arc<dyn StdError + Send + Sync>);

impl Cause {
    pub(crate) fn new(error: impl StdError + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }
}

impl Deref for Cause {
    type Target = dyn StdError;

    fn deref(&self) -> &Self::Target {
        root(&*self.0)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Cause {}

/// Returns the innermost cause of an error, or the error itself if it has no cause.
fn root<'e>(error: &'e (dyn StdError + 'static)) -> &'e (dyn StdError + 'static) {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last
}

/// Returns the message of an error's innermost cause. An HTTP library's own message only says that
/// sending failed.
pub fn innermost(error: &dyn StdError) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| root(cause).to_string())
}

/// Reason for ending a run in which nothing failed.
///
/// Code that retries, repairs or continues without an answer must return an interruption unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Interruption {
    /// The caller cancelled the run.
    #[error("cancelled")]
    Cancelled,
    /// The caller paused the run and will resume it later.
    #[error("paused")]
    Paused,
    /// The next request would exceed the remaining quota.
    #[error("the budget is exhausted")]
    BudgetExhausted,
}

impl Interruption {
    /// Returns the name used in records, such as `budget_exhausted`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Paused => "paused",
            Self::BudgetExhausted => "budget_exhausted",
        }
    }
}

/// Classes of errors, grouped by how a caller can react.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Category {
    /// The request is invalid (400, 404, 413, 422 and similar). Sending the same request again
    /// fails again.
    InvalidRequest,
    /// The key is missing, wrong or lacks permission (401, 403).
    Authentication,
    /// A safety check of the provider refused the content of the request, whatever the status (for
    /// example 403 from `OpenRouter` or 400 from `OpenAI`). The key is fine.
    ContentFilter,
    /// Too many requests (429).
    RateLimited,
    /// No answer in time: status 408 or 504, or the client's own timeout.
    Timeout,
    /// The server failed (409, or any 5xx except 504).
    Server,
    /// The server is unreachable, or the connection broke.
    Connection,
    /// The response is not a valid answer, or exceeds the size limit.
    Malformed,
    /// The caller cancelled the run. Retries and repairs return this error unchanged.
    Cancelled,
    /// The caller paused the run. Retries and repairs return this error unchanged.
    Paused,
    /// The request was not sent, because its cost would exceed the quota. Retries and repairs
    /// return this error unchanged.
    Exhausted,
}

impl Category {
    /// Returns the name used in records, such as `RATE_LIMITED`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::Authentication => "AUTHENTICATION",
            Self::ContentFilter => "CONTENT_FILTER",
            Self::RateLimited => "RATE_LIMITED",
            Self::Timeout => "TIMEOUT",
            Self::Server => "SERVER_ERROR",
            Self::Connection => "CONNECTION",
            Self::Malformed => "MALFORMED_RESPONSE",
            Self::Cancelled => "CANCELLED",
            Self::Paused => "PAUSED",
            Self::Exhausted => "BUDGET_EXHAUSTED",
        }
    }
}

impl BackendError {
    /// Creates the error for a status other than 2xx, with the response body.
    ///
    /// The message and the code are extracted from `body` if the body is an error object as OpenAI
    /// sends it.
    pub fn from_status(status: u16, body: &str) -> Self {
        Self::of_status(status, body, None)
    }

    /// Creates the error of a run that the caller cancelled.
    pub fn cancelled() -> Self {
        Interruption::Cancelled.into()
    }

    pub(crate) fn timeout(limit: Duration) -> Self {
        Kind::Timeout { limit }.into()
    }

    /// Returns the class of the error, which shows how a caller can react.
    pub fn category(&self) -> Category {
        match &*self.0 {
            Kind::Status { is_safety: true, .. } => Category::ContentFilter,
            Kind::Status { status: 401 | 403, .. } => Category::Authentication,
            Kind::Status { status: 408 | 504, .. } | Kind::Timeout { .. } => Category::Timeout,
            Kind::Status { status: 429, .. } => Category::RateLimited,
            Kind::Status { status: 409 | 500.., .. } => Category::Server,
            Kind::Url { .. }
            | Kind::Scheme { .. }
            | Kind::Key
            | Kind::Header { .. }
            | Kind::DecisionsUnsupported
            | Kind::Status { .. } => Category::InvalidRequest,
            Kind::Connection { .. } | Kind::Broken { .. } | Kind::Unfinished => Category::Connection,
            Kind::Malformed { .. }
            | Kind::NoChoices
            | Kind::MalformedDecision { .. }
            | Kind::TooLarge { .. }
            | Kind::Inconclusive { .. }
            | Kind::ScriptOver => Category::Malformed,
            Kind::Interrupted(Interruption::Cancelled) => Category::Cancelled,
            Kind::Interrupted(Interruption::Paused) => Category::Paused,
            Kind::Interrupted(Interruption::BudgetExhausted)
            | Kind::Exhausted(_)
            | Kind::TimeSpent
            | Kind::RequestLimit { .. } => Category::Exhausted,
        }
    }

    /// Returns the reason if the run was interrupted (cancelled, paused or out of budget), and `None`
    /// if it failed. An interruption must be passed on unchanged.
    pub fn interruption(&self) -> Option<Interruption> {
        match &*self.0 {
            Kind::Interrupted(interruption) => Some(*interruption),
            Kind::Exhausted(_) | Kind::TimeSpent => Some(Interruption::BudgetExhausted),
            _ => None,
        }
    }

    /// Reports whether the backend may have rejected the requested output constraint, such as
    /// `response_format`. The request may then succeed with a weaker constraint or without one.
    ///
    /// True for statuses 400, 404, 405, 415, 422 and 501, with two exceptions:
    ///
    /// - The error names another cause, such as the model, the length of the prompt or `max_tokens`.
    /// - A safety check refused the request.
    pub fn is_of_mode(&self) -> bool {
        matches!(self.status(), Some(400 | 404 | 405 | 415 | 422 | 501))
            && self.subject(None) != Subject::Elsewhere
    }

    /// Reports whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        // 501 says that the server will never support the request.
        self.status() != Some(501)
            && matches!(
                self.category(),
                Category::RateLimited | Category::Timeout | Category::Server | Category::Connection
            )
    }

    /// Reports whether a model may have processed the request.
    ///
    /// True if the response was invalid or incomplete, or if the answer did not arrive in time.
    /// Status 408 does not count, because the server did not receive the whole request.
    pub(crate) fn may_have_cost(&self) -> bool {
        let is_late = self.category() == Category::Timeout && self.status() != Some(408);
        let is_incomplete = matches!(
            &*self.0,
            Kind::TooLarge { .. }
                | Kind::Malformed { .. }
                | Kind::NoChoices
                | Kind::MalformedDecision { .. }
                | Kind::Broken { .. }
                | Kind::Unfinished
                | Kind::TimeSpent
        );
        is_late || is_incomplete
    }

    /// Reports whether a header was rejected before the request was sent.
    pub fn is_of_header(&self) -> bool {
        matches!(&*self.0, Kind::Header { .. })
    }

    /// Returns the status of the server's error response, or `None` for errors of other kinds.
    pub fn status(&self) -> Option<u16> {
        match &*self.0 {
            Kind::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Returns the backend's error code, such as `rate_limited`, if the backend sent one.
    pub fn code(&self) -> Option<&str> {
        match &*self.0 {
            Kind::Status { code, .. } => code.as_deref(),
            _ => None,
        }
    }

    /// Returns the name of the request field that the backend refused, if the backend sent one.
    pub fn param(&self) -> Option<&str> {
        match &*self.0 {
            Kind::Status { param, .. } => param.as_deref(),
            _ => None,
        }
    }

    /// Returns the message of the server's error response without the status, or an empty text.
    pub(crate) fn message(&self) -> &str {
        match &*self.0 {
            Kind::Status { message, .. } => message,
            _ => "",
        }
    }

    /// Returns the delay that the server requested in `Retry-After`, if any.
    pub fn retry_after(&self) -> Option<Duration> {
        match &*self.0 {
            Kind::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl From<Interruption> for BackendError {
    fn from(interruption: Interruption) -> Self {
        Kind::Interrupted(interruption).into()
    }
}

impl From<Exhausted> for BackendError {
    fn from(exhausted: Exhausted) -> Self {
        Kind::Exhausted(exhausted).into()
    }
}

impl From<Kind> for BackendError {
    fn from(kind: Kind) -> Self {
        Self(Box::new(kind))
    }
}

#[cfg(test)]
mod tests;
