//! Model loading and inference, on native CPU kernels and, with the feature `candle`, on candle.
//!
//! The crate reads GGUF files and safetensors, fetches models from the hub, runs the decoder and
//! renders chat templates.

mod adapter;
mod backend;
#[cfg_attr(not(feature = "candle"), path = "without_candle.rs")]
mod candle;
mod checkpoint;
mod cpu;
mod device;
mod error;
mod file_map;
pub mod gguf;
#[cfg_attr(not(feature = "gpu"), path = "without_gpu.rs")]
mod gpu;
pub mod hub;
mod memory;
mod model;
mod ops;
#[cfg(any(feature = "candle", feature = "gpu"))]
mod paged;
mod rope;
mod routing;
pub mod spec;
pub mod synthetic;
pub mod template;
mod tokenizer;
mod weights;

pub use adapter::AdapterFile;
pub use backend::StepTime;
pub use checkpoint::{Checkpoint, Safetensors};
pub use device::{Device, GpuInfo, GpuLayers, GpuList, GpuNumber};
pub use error::LoadError;
pub use formwork_kernels::Tier;
pub use gpu::{HAS_GPU_KERNELS, gpus};
pub use memory::MemoryUse;
pub use model::{Definition, KvCacheType, Model, OpenOptions};
pub use tokenizer::tokenizer;
pub use weights::Quantization;

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
