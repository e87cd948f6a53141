//! Dot products with vectors of 32 bytes (AVX2 and AVX-VNNI) and of 64 bytes (AVX-512 with VNNI).

#![allow(unsafe_code, reason = "vector instructions, and loads from slices of known length")]
#![allow(unsafe_op_in_unsafe_fn, reason = "nearly every line is unsafe")]

mod amx;
mod quantize;
mod vector;

pub(crate) use self::amx::is_usable as has_amx;
use self::vector::{Avx2, AvxVnni, Eight, Sixteen};
use crate::activation::{Activation, Q8Block, rest_groups};
use crate::attention::{POSITIONS, Query, Words};
use crate::bounds::{Bounds, CoarseQuery};
use crate::f16_as_i16::Q16Block;
use crate::format::GROUP;
use crate::matrix_mut::MatrixMut;
use crate::products::{Tier, Tiles};
use crate::vectors::{LoadColumn, Unpack, attention, bounds, f16_as_i16, floats, gemm};

/// Reports whether tests can run [`Tier::AvxVnni`] on a processor without AVX-VNNI, with the
/// equivalent instructions of AVX-512.
pub(crate) fn has_stand_in() -> bool {
    cfg!(test) && is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512vnni")
}

/// Computes the products of tiles of blocks.
///
/// # Safety
/// The processor must support `tier`, which must be one of this module. `tiles` must be packed as
/// `B`. Activations must be rounded to 8 or 16 bits and as long as rows. `out` must have the number
/// of tokens of `x`, and at most the rows of the tiles.
pub(crate) unsafe fn products<B: Unpack>(
    tier: Tier,
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: MatrixMut<'_>,
) {
    match tier {
        Tier::Portable | Tier::Neon | Tier::NeonDot => unreachable!("tier of another module"),
        Tier::Avx2 => products_avx2::<B>(tiles, x, out),
        Tier::AvxVnni => products_avx_vnni::<B>(tiles, x, out),
        Tier::Avx512Vnni => products_avx512::<B>(tiles, x, out),
        Tier::Amx => amx::products::<B>(tiles, x, out),
    }
}

/// Computes [`products`] with AVX2.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C, and the requirements of [`products`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn products_avx2<B: Unpack>(tiles: Tiles<'_>, x: &[Activation<'_>], out: MatrixMut<'_>) {
    gemm::products::<B, Eight<Avx2>>(tiles, x, out);
}

/// Computes [`products`] with AVX-VNNI.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-VNNI, or in tests the stand-in
/// ([`has_stand_in`]). The requirements of [`products`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
#[cfg_attr(not(test), target_feature(enable = "avxvnni"))]
unsafe fn products_avx_vnni<B: Unpack>(tiles: Tiles<'_>, x: &[Activation<'_>], out: MatrixMut<'_>) {
    gemm::products::<B, Eight<AvxVnni>>(tiles, x, out);
}

/// Computes [`products`] with AVX-512.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-512 F, BW, VL and VNNI. The requirements of
/// [`products`] apply.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn products_avx512<B: Unpack>(tiles: Tiles<'_>, x: &[Activation<'_>], out: MatrixMut<'_>) {
    gemm::products::<B, Sixteen>(tiles, x, out);
}

/// Computes the bounds of the products of a tile's rows.
///
/// # Safety
/// The processor must support `tier`, which must be one of this module. `tile` must be a single
/// tile that is packed as `B`, and its rows must be as long as the activations of `x`.
pub(crate) unsafe fn bounds<B: Unpack>(tier: Tier, tile: Tiles<'_>, x: &CoarseQuery) -> Bounds {
    match tier {
        Tier::Portable | Tier::Neon | Tier::NeonDot => unreachable!("tier of another module"),
        Tier::Avx2 | Tier::AvxVnni => bounds_avx2::<B>(tile, x),
        Tier::Avx512Vnni | Tier::Amx => bounds_avx512::<B>(tile, x),
    }
}

/// Computes [`bounds()`] with AVX2.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C, and the requirements of [`bounds()`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn bounds_avx2<B: Unpack>(tile: Tiles<'_>, x: &CoarseQuery) -> Bounds {
    bounds::bounds::<B, Eight<Avx2>>(tile, x)
}

/// Computes [`bounds()`] with AVX-512.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-512 F, BW, VL and VNNI. The requirements of
/// [`bounds()`] apply.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn bounds_avx512<B: Unpack>(tile: Tiles<'_>, x: &CoarseQuery) -> Bounds {
    bounds::bounds::<B, Sixteen>(tile, x)
}

/// Computes the products of tiles of floats.
///
/// # Safety
/// The requirements of [`products`] apply, except that activations need not be rounded.
pub(crate) unsafe fn float_products<F: LoadColumn>(
    tier: Tier,
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: MatrixMut<'_>,
) {
    match tier {
        Tier::Portable | Tier::Neon | Tier::NeonDot => unreachable!("tier of another module"),
        Tier::Avx2 | Tier::AvxVnni => floats_avx2::<F>(tiles, x, out),
        Tier::Avx512Vnni | Tier::Amx => floats_avx512::<F>(tiles, x, out),
    }
}

/// Computes [`float_products`] with AVX2.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C, and the requirements of [`float_products`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn floats_avx2<F: LoadColumn>(tiles: Tiles<'_>, x: &[Activation<'_>], out: MatrixMut<'_>) {
    floats::products::<F, Eight<Avx2>>(tiles, x, out);
}

/// Computes [`float_products`] with AVX-512.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-512 F, BW and VL. The requirements of
/// [`float_products`] apply.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl")]
unsafe fn floats_avx512<F: LoadColumn>(tiles: Tiles<'_>, x: &[Activation<'_>], out: MatrixMut<'_>) {
    floats::products::<F, Sixteen>(tiles, x, out);
}

/// Computes the products of tiles of 16-bit floats.
///
/// # Safety
/// The requirements of [`products`] apply, with activations that are rounded to [`Q16Block`]s.
pub(crate) unsafe fn word_products<F: LoadColumn>(
    tier: Tier,
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: MatrixMut<'_>,
) {
    match tier {
        Tier::Portable | Tier::Neon | Tier::NeonDot => unreachable!("tier of another module"),
        Tier::Avx2 => words_avx2::<F>(tiles, x, out),
        Tier::AvxVnni => words_avx_vnni::<F>(tiles, x, out),
        Tier::Avx512Vnni | Tier::Amx => words_avx512::<F>(tiles, x, out),
    }
}

/// Computes [`word_products`] with AVX2.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C, and the requirements of [`word_products`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn words_avx2<F: LoadColumn>(tiles: Tiles<'_>, x: &[Activation<'_>], out: MatrixMut<'_>) {
    f16_as_i16::products::<F, Eight<Avx2>>(tiles, x, out);
}

/// Computes [`word_products`] with AVX-VNNI.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-VNNI, or in tests the stand-in
/// ([`has_stand_in`]). The requirements of [`word_products`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
#[cfg_attr(not(test), target_feature(enable = "avxvnni"))]
unsafe fn words_avx_vnni<F: LoadColumn>(tiles: Tiles<'_>, x: &[Activation<'_>], out: MatrixMut<'_>) {
    f16_as_i16::products::<F, Eight<AvxVnni>>(tiles, x, out);
}

/// Computes [`word_products`] with AVX-512.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-512 F, BW, VL and VNNI. The requirements of
/// [`word_products`] apply.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn words_avx512<F: LoadColumn>(tiles: Tiles<'_>, x: &[Activation<'_>], out: MatrixMut<'_>) {
    f16_as_i16::products::<F, Sixteen>(tiles, x, out);
}

/// Computes the products of queries with a block of keys.
///
/// # Safety
/// `tier` must be an x86 tier that the processor supports. Every query must have as many pairs as
/// each key. `out` must be as long as `queries`. `block.positions` must be at most [`POSITIONS`].
pub(crate) unsafe fn key_products(
    tier: Tier,
    queries: &[Query<'_>],
    block: &Words<'_>,
    out: &mut [&mut [f32; POSITIONS]],
) {
    match tier {
        Tier::Portable | Tier::Neon | Tier::NeonDot => unreachable!("tier of another module"),
        Tier::Avx2 => key_products_avx2(queries, block, out),
        Tier::AvxVnni => key_products_avx_vnni(queries, block, out),
        Tier::Avx512Vnni | Tier::Amx => key_products_avx512(queries, block, out),
    }
}

/// Computes [`key_products`] with AVX2.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C, and the requirements of [`key_products`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn key_products_avx2(queries: &[Query<'_>], block: &Words<'_>, out: &mut [&mut [f32; POSITIONS]]) {
    attention::key_products::<Eight<Avx2>>(queries, block, out);
}

/// Computes [`key_products`] with AVX-VNNI.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-VNNI, or in tests the stand-in
/// ([`has_stand_in`]). The requirements of [`key_products`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
#[cfg_attr(not(test), target_feature(enable = "avxvnni"))]
unsafe fn key_products_avx_vnni(queries: &[Query<'_>], block: &Words<'_>, out: &mut [&mut [f32; POSITIONS]]) {
    attention::key_products::<Eight<AvxVnni>>(queries, block, out);
}

/// Computes [`key_products`] with AVX-512.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-512 F, BW, VL and VNNI. The requirements of
/// [`key_products`] apply.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn key_products_avx512(queries: &[Query<'_>], block: &Words<'_>, out: &mut [&mut [f32; POSITIONS]]) {
    attention::key_products::<Sixteen>(queries, block, out);
}

/// Adds the weighted values of a block to the outputs.
///
/// # Safety
/// The processor must support `tier`, which must be one of this module. Every output must be as
/// long as a value. `out` must be as long as `weights`. `block.positions` must be at most
/// [`POSITIONS`].
pub(crate) unsafe fn add_values(
    tier: Tier,
    weights: &[&[f32; POSITIONS]],
    block: &Words<'_>,
    out: &mut [&mut [f32]],
) {
    match tier {
        Tier::Portable | Tier::Neon | Tier::NeonDot => unreachable!("tier of another module"),
        Tier::Avx2 => add_values_avx2(weights, block, out),
        Tier::AvxVnni => add_values_avx_vnni(weights, block, out),
        Tier::Avx512Vnni | Tier::Amx => add_values_avx512(weights, block, out),
    }
}

/// Computes [`add_values`] with AVX2.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C, and the requirements of [`add_values`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_values_avx2(weights: &[&[f32; POSITIONS]], block: &Words<'_>, out: &mut [&mut [f32]]) {
    attention::add_values::<Eight<Avx2>>(weights, block, out);
}

/// Computes [`add_values`] with AVX-VNNI.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-VNNI, or in tests the stand-in
/// ([`has_stand_in`]). The requirements of [`add_values`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
#[cfg_attr(not(test), target_feature(enable = "avxvnni"))]
unsafe fn add_values_avx_vnni(weights: &[&[f32; POSITIONS]], block: &Words<'_>, out: &mut [&mut [f32]]) {
    attention::add_values::<Eight<AvxVnni>>(weights, block, out);
}

/// Computes [`add_values`] with AVX-512.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-512 F, BW, VL and VNNI. The requirements of
/// [`add_values`] apply.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn add_values_avx512(weights: &[&[f32; POSITIONS]], block: &Words<'_>, out: &mut [&mut [f32]]) {
    attention::add_values::<Sixteen>(weights, block, out);
}

/// Rounds activations to 8 bits.
///
/// # Safety
/// The processor must have AVX2.
pub(crate) unsafe fn quantize(values: &[[f32; GROUP]], groups: &mut [Q8Block]) {
    quantize::quantize(values, groups);
}

/// Rounds activations to 16 bits.
///
/// # Safety
/// The processor must have AVX2 and FMA.
pub(crate) unsafe fn quantize_words(values: &[[f32; GROUP]], groups: &mut [Q16Block]) {
    quantize::quantize_words(values, groups);
}

/// Computes the residuals of rounded activations with the portable code, compiled for the tier.
///
/// # Safety
/// The processor must support `tier`, which must be one of this module.
pub(crate) unsafe fn rests(tier: Tier, values: &[[f32; GROUP]], groups: &[Q8Block], rests: &mut [Q8Block]) {
    match tier {
        Tier::Avx512Vnni | Tier::Amx => rests_avx512(values, groups, rests),
        _ => rests_avx2(values, groups, rests),
    }
}

/// Computes [`rests`] with AVX2.
///
/// # Safety
/// The processor must have AVX2.
#[target_feature(enable = "avx2")]
unsafe fn rests_avx2(values: &[[f32; GROUP]], groups: &[Q8Block], rests: &mut [Q8Block]) {
    rest_groups(values, groups, rests);
}

/// Computes [`rests`] with AVX-512.
///
/// # Safety
/// The processor must have AVX2 and AVX-512 F, BW and VL.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl")]
unsafe fn rests_avx512(values: &[[f32; GROUP]], groups: &[Q8Block], rests: &mut [Q8Block]) {
    rest_groups(values, groups, rests);
}
