//! Arithmetic on quantised weight rows.
//!
//! Every block type is described once, by a `BlockFormat`: how 32 elements of a block become small integers, a scale
//! and an offset. From that come both uses: [`dequantize`], whose values are exactly those of the reference
//! implementation, and dot products with activation rows that were themselves rounded to 8 bits per group of 32, or to 16
//! ([`Activation`]).
//!
//! Rows of 16-bit floats meet activations of 16 bits ([`Q16Block`]), those of 32-bit floats meet them as they are: see [`Operand`].
//!
//! Products are of [`PackedRows`], whose rows were interleaved by sixteens when they were loaded. Processors with vector units for
//! small integers have code of their own ([`Tier`]), which unpacks differently and gives the same bits, but for those of what is no
//! number. The products of attention are
//! [`key_products`] and [`add_values`].
//!
//! A row's product with a token is defined group by group, in order: `sum = fma(scale_w * scale_x, integer as f32, sum)` with the exact
//! sum of the group's integer products, then `sum = fma(offset_w, sum_x, sum)` where the type has offsets. Types with scales for
//! half groups do so for each half. A row of 16-bit floats has one scale, a power of two, and its sum is multiplied with that in the
//! end; where rounding would take too much from one of a tile's sixteen rows, all of them meet activations as they are. Nothing else
//! enters, neither the other tiles and tokens nor the order inside a group. That is what makes results
//! independent of batching and lets the head compute any subset of its tiles. Columns of 32-bit floats are added up in four chains
//! by their number modulo four, and the chains as `(0 + 1) + (2 + 3)`.

#![expect(
    clippy::inline_always,
    reason = "left to itself, the compiler calls the unpacking of a block, through memory: half the speed"
)]
#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, unused_imports, reason = "what only vectors need")
)]

/// Runs `$body` with `$format` as the format of `$encoding`, or `$float` for a type without blocks.
macro_rules! with_format {
    ($encoding:expr, $format:ident => $body:expr, $float:ident => $plain:expr) => {
        match $encoding {
            Encoding::Q4_0 => {
                type $format = legacy::Q4_0;
                $body
            }
            Encoding::Q4_1 => {
                type $format = legacy::Q4_1;
                $body
            }
            Encoding::Q5_0 => {
                type $format = legacy::Q5_0;
                $body
            }
            Encoding::Q5_1 => {
                type $format = legacy::Q5_1;
                $body
            }
            Encoding::Q8_0 => {
                type $format = legacy::Q8_0;
                $body
            }
            Encoding::Q2K => {
                type $format = k::Q2K;
                $body
            }
            Encoding::Q3K => {
                type $format = k::Q3K;
                $body
            }
            Encoding::Q4K => {
                type $format = k::Q4K;
                $body
            }
            Encoding::Q5K => {
                type $format = k::Q5K;
                $body
            }
            Encoding::Q6K => {
                type $format = k::Q6K;
                $body
            }
            Encoding::Iq4Nl => {
                type $format = table::Iq4Nl;
                $body
            }
            Encoding::Iq4Xs => {
                type $format = table::Iq4Xs;
                $body
            }
            Encoding::Mxfp4 => {
                type $format = table::Mxfp4;
                $body
            }
            Encoding::F16 => {
                type $float = F16;
                $plain
            }
            Encoding::Bf16 => {
                type $float = Bf16;
                $plain
            }
            Encoding::F32 => {
                type $float = F32;
                $plain
            }
        }
    };
}

/// The same for rows that are packed ([`Packing`]), those of 16-bit floats apart.
macro_rules! with_packing {
    ($packing:expr, $format:ident => $body:expr, $word:ident => $words:expr, $float:ident => $plain:expr) => {
        match ($packing.encoding(), $packing.is_nested()) {
            (Encoding::Q8_0, true) => {
                type $format = Nested<legacy::Q8_0>;
                $body
            }
            (Encoding::Q6K, true) => {
                type $format = Nested<k::Q6K>;
                $body
            }
            (Encoding::F16, _) => {
                type $word = F16;
                $words
            }
            (Encoding::Bf16, _) => {
                type $word = Bf16;
                $words
            }
            (encoding, _) => with_format!(encoding, $format => $body, $float => $plain),
        }
    };
}

mod activation;
mod attention;
mod bounds;
mod dequantize;
mod encoding;
mod float;
mod format;
mod k;
mod layout;
mod legacy;
mod memory;
#[cfg(target_arch = "aarch64")]
mod neon;
mod nested;
mod outputs;
mod packed;
mod packing;
mod pool;
mod products;
mod table;
mod team;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vectors;
mod words;
#[cfg(target_arch = "x86_64")]
mod x86;

/// The code for vectors of this machine.
#[cfg(target_arch = "aarch64")]
use self::neon as machine;
#[cfg(target_arch = "x86_64")]
use self::x86 as machine;

pub use self::activation::{Activation, Q8Block};
pub use self::attention::{
    KvBlock, KvFormat, KvShape, POSITIONS, Pair, Prefetch, Query, add_values, key_products,
};
pub use self::bounds::{Bounds, Sketch};
pub use self::dequantize::dequantize;
pub use self::encoding::{Encoding, Operand};
pub use self::float::dot as dot_f32;
pub use self::format::GROUP;
pub use self::layout::TILE_ROWS;
pub use self::memory::zeroed_memory;
pub use self::outputs::Outputs;
pub use self::packed::{PackedRows, pack};
pub use self::packing::Packing;
pub use self::pool::{Pool, Slot};
pub use self::products::Tier;
pub use self::team::{RowGroup, Team};
pub use self::words::Q16Block;

/// `a * b + c`, fused where the target does that in one instruction.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) { a.mul_add(b, c) } else { a * b + c }
}

#[cfg(test)]
mod tests;
