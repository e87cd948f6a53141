//! Kernels for x86-64: a module for each tier, all with the same functions.
//!
//! A module re-exports functions of a lower tier if its own instructions do not make them faster.

#![allow(unsafe_code, reason = "vector instructions, and loads from slices of known length")]

pub(crate) mod amx;
pub(crate) mod avx2;
pub(crate) mod avx512;
pub(crate) mod avx_vnni;
mod quantize;
mod vector;

pub(crate) use self::amx::is_usable as has_amx;
#[cfg(doc)]
use crate::tier::Tier;

/// Reports whether tests can run [`Tier::AvxVnni`] on a processor without AVX-VNNI, with the
/// equivalent instructions of AVX-512.
pub(crate) fn has_stand_in() -> bool {
    cfg!(test) && is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512vnni")
}
