//! Definitions of fields: what is made of them agrees.

mod agreement;
pub(crate) mod examples;
mod llama;
mod ranges;
mod refusals;
mod rust_types;
mod weights;
