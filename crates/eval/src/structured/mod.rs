//! Evaluation of structured outputs: does a server return what a JSON Schema asks for, and which
//! keywords does it enforce?
//!
//! A [`Case`] has a schema, a prompt and possibly the expected value. Each trial sends the prompt
//! with the schema as `response_format`, and judges the answer with the `jsonschema` crate alone.
//!
//! A case with `violates` is a *probe*: its prompt asks for a value that violates one keyword of the
//! schema. A server that enforces the keyword cannot return the value. [`keyword_probes`] returns the
//! built-in probes. The [`Verdict`] of a probe says how the server treated the keyword.

mod case;
mod evaluation;
mod judge;
mod keywords;
mod probes;
mod summary;
mod table;
mod trial;

pub use case::{Case, CaseError};
pub use evaluation::{STRUCTURED_VERSION, StructuredEvaluation, StructuredSettings};
pub use keywords::ANY_SCHEMA;
pub use probes::keyword_probes;
pub use summary::{CaseRow, StructuredGroups, StructuredStats, StructuredSummary};
pub use table::{KeywordRow, KeywordVerdict};
pub use trial::{StructuredKey, StructuredTrial, Verdict, Violation};

#[cfg(test)]
mod tests;
