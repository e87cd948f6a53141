//! The model runtime: reading GGUF files, sound and broken, and the decoder's laws.

mod broken;
mod golden;
mod laws;
mod reference;
mod tiny;
mod writer;
