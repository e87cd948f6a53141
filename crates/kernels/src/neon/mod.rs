//! Kernels for AArch64: a module for each tier, both with the same functions.

#![allow(unsafe_code, reason = "instructions that some processors lack")]
#![allow(unsafe_op_in_unsafe_fn, reason = "nearly every line is unsafe")]

pub(crate) mod dot;
pub(crate) mod plain;
mod vector;
