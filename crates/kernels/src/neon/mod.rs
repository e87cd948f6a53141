//! Kernels for `AArch64`: a module for each tier, both with the same functions.

#![allow(unsafe_code, reason = "instructions that some processors lack")]

pub(crate) mod dot;
pub(crate) mod plain;
mod vector;
