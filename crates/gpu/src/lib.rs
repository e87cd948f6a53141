//! Kernels for models on GPUs, in WGSL over `wgpu`: Vulkan on NVIDIA, AMD and Intel, and Metal on
//! Apple.
//!
//! This crate knows devices, buffers, kernels and the storage of weights, and no models. It is the
//! only one that names `wgpu`. A caller creates [`Kernel`]s and [`Buffer`]s on a [`Gpu`], binds them
//! ([`Gpu::bind`]), and runs lists of [`Step`]s.
//!
//! - [`weights`] stores matrices in planes of codes and scales.
//! - [`product`] multiplies them with activations of 8 bits or of 32-bit floats.
//! - [`attention`] writes keys and values, and attends to them.
//! - [`layer`] has the other steps of a layer, such as norms and activations.
//! - [`latent`] has the steps of latent attention.
//! - [`mixture`] chooses experts, and adds their outputs.
//! - [`recurrent`] has convolutions and recurrences, whose states are in slots.
//! - [`top`] finds the likeliest tokens.
//!
//! # Results
//!
//! Products of 8-bit activations sum integers exactly. For equal operands they differ from the CPU's in
//! the order of the sums over groups only. A GPU may round the operands differently, since WGSL lets
//! divisions be off by a few units in the last place. A result depends on a token and those before it, and not on the
//! other tokens of a pass: all sums have a fixed order.

pub mod attention;
mod buffer;
mod core_trial;
mod device;
mod error;
mod kernel;
pub mod latent;
pub mod layer;
mod matrix_cores;
mod memory;
pub mod mixture;
pub mod product;
pub mod recurrent;
mod self_test;
mod source;
pub mod top;
pub mod weights;

#[cfg(test)]
mod tests;

pub use self::buffer::Buffer;
pub use self::core_trial::choose_matrix_cores;
pub use self::device::{Adapter, AdapterKind, Gpu, Limits, WeakGpu, adapters};
pub use self::error::GpuError;
pub use self::kernel::{Access, Bindings, Kernel, Recorded, Step, Submitted};
pub use self::matrix_cores::MatrixCores;
pub use self::self_test::{SELF_TEST_ROWS, is_batch_invariant};
