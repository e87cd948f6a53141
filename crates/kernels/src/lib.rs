//! Arithmetic on quantised weight rows.
//!
//! `BlockFormat` describes each block type once. A group of 32 elements decodes to small integers
//! with a scale and an offset. The description has two uses. [`dequantize`] returns exactly the
//! values of the reference implementation. Dot products multiply weights with activation rows that
//! are rounded to 8 or 16 bits per group of 32 ([`Activation`]).
//!
//! Rows of 16-bit floats are multiplied with 16-bit activations ([`Q16Block`]), and rows of 32-bit
//! floats with unrounded activations: see [`Operand`].
//!
//! Products read [`PackedRows`], whose rows are interleaved in tiles of sixteen when a model is
//! loaded. Processors with vector instructions for small integers have their own code ([`Tier`]).
//! That code unpacks weights differently but computes the same bits, except for the bits of NaN.
//! Attention has two products of its own: [`key_products`] and [`add_values`].
//!
//! The product of a weight row and a token's activation row is defined group by group, in order.
//! Each group has one or two steps:
//!
//! - `sum = fma(scale_w * scale_x, integer as f32, sum)`, where `integer` is the exact sum of the
//!   group's integer products.
//! - `sum = fma(offset_w, sum_x, sum)`, for types with offsets.
//!
//! Types with a scale for each half of a group do these steps for each half.
//!
//! A row of 16-bit floats has a single scale, a power of two. The final sum is multiplied by its
//! inverse. If rounding would lose too much precision in one of a tile's sixteen rows, the whole
//! tile uses unrounded activations. For 32-bit floats, a product has four partial sums: column `c`
//! is added to partial sum `c % 4`. The result is `(0 + 1) + (2 + 3)`.
//!
//! A product depends on nothing else: not on other tiles or tokens, and not on the order inside a
//! group. Results are therefore independent of batching, and the output head can compute any subset
//! of its tiles.

#![expect(
    clippy::inline_always,
    reason = "without forced inlining, the compiler unpacks blocks through memory at half the speed"
)]
#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, unused_imports, reason = "used only by vector kernels")
)]

/// Evaluates `$body` with `$format` bound to the block format of `$encoding`. If `$encoding` is a
/// float type, evaluates `$plain` with `$float` bound to the type instead.
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
            Encoding::Iq1S => {
                type $format = grid::Iq1S;
                $body
            }
            Encoding::Iq1M => {
                type $format = grid::Iq1M;
                $body
            }
            Encoding::Iq2Xxs => {
                type $format = grid::Iq2Xxs;
                $body
            }
            Encoding::Iq2Xs => {
                type $format = grid::Iq2Xs;
                $body
            }
            Encoding::Iq2S => {
                type $format = grid::Iq2S;
                $body
            }
            Encoding::Iq3Xxs => {
                type $format = grid::Iq3Xxs;
                $body
            }
            Encoding::Iq3S => {
                type $format = grid::Iq3S;
                $body
            }
            Encoding::Tq1_0 => {
                type $format = ternary::Tq1_0;
                $body
            }
            Encoding::Tq2_0 => {
                type $format = ternary::Tq2_0;
                $body
            }
            Encoding::Q1_0 => {
                type $format = ternary::Q1_0;
                $body
            }
            Encoding::Q2_0 => {
                type $format = ternary::Q2_0;
                $body
            }
            Encoding::Nvfp4 => {
                type $format = nvfp4::Nvfp4;
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

/// Selects an expression by a [`Packing`], as `with_format!` does by an encoding. If the packing is
/// nested, `$format` is bound to `SplitBits` of the block format. If the encoding is a 16-bit float
/// type, evaluates `$words` with `$word` bound to the type.
macro_rules! with_packing {
    ($packing:expr, $format:ident => $body:expr, $word:ident => $words:expr, $float:ident => $plain:expr) => {
        match ($packing.encoding(), $packing.is_nested()) {
            (Encoding::Q8_0, true) => {
                type $format = SplitBits<legacy::Q8_0>;
                $body
            }
            (Encoding::Q6K, true) => {
                type $format = SplitBits<k::Q6K>;
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
mod exp;
mod f16_as_i16;
mod float;
mod format;
mod grid;
mod grids;
mod k;
mod layout;
mod legacy;
mod matrix_mut;
mod memory;
mod multiply_add;
#[cfg(target_arch = "aarch64")]
mod neon;
mod nvfp4;
mod packed;
mod packing;
mod pool;
mod products;
mod quantize;
mod recurrence;
mod split_bits;
mod table;
mod team;
mod ternary;
mod tier;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vectors;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use self::activation::{Activation, Q8Block};
pub use self::attention::{
    KvBlock, KvFormat, KvShape, POSITIONS, Pair, Prefetch, Query, add_values, key_products,
};
pub use self::bounds::{Bounds, CoarseQuery};
pub use self::dequantize::{GroupShape, WeightGroup, dequantize, each_group, group_shape};
pub use self::encoding::{Encoding, Operand};
pub use self::exp::{exp, exp_with, unscaled_softmax};
pub use self::f16_as_i16::Q16Block;
pub use self::float::dot as dot_f32;
pub use self::format::GROUP;
pub use self::layout::TILE_ROWS;
pub use self::matrix_mut::MatrixMut;
pub use self::memory::zeroed_memory;
pub use self::multiply_add::{AsBuilt, Fused, MultiplyAdd};
pub use self::packed::{PackedRows, pack};
pub use self::packing::Packing;
pub use self::pool::{Pool, Slot};
pub use self::quantize::{Quantize, quantizer};
pub use self::recurrence::{COLUMNS, Recurrence, Vectors, advance};
pub use self::team::{RowGroup, Team};
pub use self::tier::Tier;

/// Returns `a * b + c`, fused if the target has an instruction for it.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    AsBuilt::multiply_add(a, b, c)
}

#[cfg(test)]
mod tests;
