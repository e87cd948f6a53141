//! Field definitions: grammars, schemas, validators and templates of a definition agree.

mod agreement;
pub(crate) mod examples;
mod llama;
mod ranges;
mod refusals;
mod rust_types;
mod weights;
