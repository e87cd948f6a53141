//! Dot products by vectors of 32 bytes (AVX2, and the byte products of VNNI) and of 64 (AVX-512 with VNNI).

#![allow(unsafe_code, reason = "vector instructions, and loads of what slices of known length hold")]
#![allow(unsafe_op_in_unsafe_fn, reason = "every line would be a block of its own")]

mod amx;
mod quantize;
mod vector;

pub(crate) use self::amx::is_usable as has_amx;
use self::vector::{Avx2, AvxVnni, Eight, Sixteen};
use crate::activation::{Activation, Q8Block, rest_groups};
use crate::attention::{POSITIONS, Query, Words};
use crate::bounds::{Bounds, Sketch};
use crate::format::GROUP;
use crate::outputs::Outputs;
use crate::products::{Tier, Tiles};
use crate::vectors::{LoadColumn, Unpack, attention, bounds, floats, sweep, words};
use crate::words::Q16Block;

/// Whether there is something to test [`Tier::AvxVnni`] with where the processor lacks it.
pub(crate) fn has_stand_in() -> bool {
    cfg!(test) && is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512vnni")
}

/// The products of tiles of blocks.
///
/// # Safety
/// The processor must have the tier, which must not be the portable one; activations must be as long as rows, and `out` have as
/// many tokens, and no more rows than the tiles.
pub(crate) unsafe fn products<B: Unpack>(
    tier: Tier,
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: Outputs<'_>,
) {
    match tier {
        Tier::Portable | Tier::Neon | Tier::NeonDot => unreachable!("not a tier of this module"),
        Tier::Avx2 => products_avx2::<B>(tiles, x, out),
        Tier::AvxVnni => products_avx_vnni::<B>(tiles, x, out),
        Tier::Avx512Vnni => products_avx512::<B>(tiles, x, out),
        Tier::Amx => amx::products::<B>(tiles, x, out),
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn products_avx2<B: Unpack>(tiles: Tiles<'_>, x: &[Activation<'_>], out: Outputs<'_>) {
    sweep::products::<B, Eight<Avx2>>(tiles, x, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
#[cfg_attr(not(test), target_feature(enable = "avxvnni"))]
unsafe fn products_avx_vnni<B: Unpack>(tiles: Tiles<'_>, x: &[Activation<'_>], out: Outputs<'_>) {
    sweep::products::<B, Eight<AvxVnni>>(tiles, x, out);
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn products_avx512<B: Unpack>(tiles: Tiles<'_>, x: &[Activation<'_>], out: Outputs<'_>) {
    sweep::products::<B, Sixteen>(tiles, x, out);
}

/// The bounds of the products of a tile's rows.
///
/// # Safety
/// The processor must have the tier, which must not be the portable one, and rows must be as long as the activations.
pub(crate) unsafe fn bounds<B: Unpack>(tier: Tier, tile: Tiles<'_>, x: &Sketch) -> Bounds {
    match tier {
        Tier::Portable | Tier::Neon | Tier::NeonDot => unreachable!("not a tier of this module"),
        Tier::Avx2 | Tier::AvxVnni => bounds_avx2::<B>(tile, x),
        Tier::Avx512Vnni | Tier::Amx => bounds_avx512::<B>(tile, x),
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn bounds_avx2<B: Unpack>(tile: Tiles<'_>, x: &Sketch) -> Bounds {
    bounds::bounds::<B, Eight<Avx2>>(tile, x)
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn bounds_avx512<B: Unpack>(tile: Tiles<'_>, x: &Sketch) -> Bounds {
    bounds::bounds::<B, Sixteen>(tile, x)
}

/// The products of tiles of floats.
///
/// # Safety
/// As with [`products`].
pub(crate) unsafe fn float_products<F: LoadColumn>(
    tier: Tier,
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: Outputs<'_>,
) {
    match tier {
        Tier::Portable | Tier::Neon | Tier::NeonDot => unreachable!("not a tier of this module"),
        Tier::Avx2 | Tier::AvxVnni => floats_avx2::<F>(tiles, x, out),
        Tier::Avx512Vnni | Tier::Amx => floats_avx512::<F>(tiles, x, out),
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn floats_avx2<F: LoadColumn>(tiles: Tiles<'_>, x: &[Activation<'_>], out: Outputs<'_>) {
    floats::products::<F, Eight<Avx2>>(tiles, x, out);
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl")]
unsafe fn floats_avx512<F: LoadColumn>(tiles: Tiles<'_>, x: &[Activation<'_>], out: Outputs<'_>) {
    floats::products::<F, Sixteen>(tiles, x, out);
}

/// The products of tiles of 16-bit floats.
///
/// # Safety
/// As with [`products`].
pub(crate) unsafe fn word_products<F: LoadColumn>(
    tier: Tier,
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: Outputs<'_>,
) {
    match tier {
        Tier::Portable | Tier::Neon | Tier::NeonDot => unreachable!("not a tier of this module"),
        Tier::Avx2 => words_avx2::<F>(tiles, x, out),
        Tier::AvxVnni => words_avx_vnni::<F>(tiles, x, out),
        Tier::Avx512Vnni | Tier::Amx => words_avx512::<F>(tiles, x, out),
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn words_avx2<F: LoadColumn>(tiles: Tiles<'_>, x: &[Activation<'_>], out: Outputs<'_>) {
    words::products::<F, Eight<Avx2>>(tiles, x, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
#[cfg_attr(not(test), target_feature(enable = "avxvnni"))]
unsafe fn words_avx_vnni<F: LoadColumn>(tiles: Tiles<'_>, x: &[Activation<'_>], out: Outputs<'_>) {
    words::products::<F, Eight<AvxVnni>>(tiles, x, out);
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn words_avx512<F: LoadColumn>(tiles: Tiles<'_>, x: &[Activation<'_>], out: Outputs<'_>) {
    words::products::<F, Sixteen>(tiles, x, out);
}

/// The products of queries with a block of keys.
///
/// # Safety
/// The processor must have the tier, which must not be the portable one, and queries must be as long as the keys.
pub(crate) unsafe fn key_products(
    tier: Tier,
    queries: &[Query<'_>],
    block: &Words<'_>,
    out: &mut [&mut [f32; POSITIONS]],
) {
    match tier {
        Tier::Portable | Tier::Neon | Tier::NeonDot => unreachable!("not a tier of this module"),
        Tier::Avx2 => key_products_avx2(queries, block, out),
        Tier::AvxVnni => key_products_avx_vnni(queries, block, out),
        Tier::Avx512Vnni | Tier::Amx => key_products_avx512(queries, block, out),
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn key_products_avx2(queries: &[Query<'_>], block: &Words<'_>, out: &mut [&mut [f32; POSITIONS]]) {
    attention::key_products::<Eight<Avx2>>(queries, block, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
#[cfg_attr(not(test), target_feature(enable = "avxvnni"))]
unsafe fn key_products_avx_vnni(queries: &[Query<'_>], block: &Words<'_>, out: &mut [&mut [f32; POSITIONS]]) {
    attention::key_products::<Eight<AvxVnni>>(queries, block, out);
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn key_products_avx512(queries: &[Query<'_>], block: &Words<'_>, out: &mut [&mut [f32; POSITIONS]]) {
    attention::key_products::<Sixteen>(queries, block, out);
}

/// Adds values times their weights.
///
/// # Safety
/// The processor must have the tier, which must not be the portable one, and outputs must be as long as values.
pub(crate) unsafe fn add_values(
    tier: Tier,
    weights: &[&[f32; POSITIONS]],
    block: &Words<'_>,
    out: &mut [&mut [f32]],
) {
    match tier {
        Tier::Portable | Tier::Neon | Tier::NeonDot => unreachable!("not a tier of this module"),
        Tier::Avx2 => add_values_avx2(weights, block, out),
        Tier::AvxVnni => add_values_avx_vnni(weights, block, out),
        Tier::Avx512Vnni | Tier::Amx => add_values_avx512(weights, block, out),
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_values_avx2(weights: &[&[f32; POSITIONS]], block: &Words<'_>, out: &mut [&mut [f32]]) {
    attention::add_values::<Eight<Avx2>>(weights, block, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
#[cfg_attr(not(test), target_feature(enable = "avxvnni"))]
unsafe fn add_values_avx_vnni(weights: &[&[f32; POSITIONS]], block: &Words<'_>, out: &mut [&mut [f32]]) {
    attention::add_values::<Eight<AvxVnni>>(weights, block, out);
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn add_values_avx512(weights: &[&[f32; POSITIONS]], block: &Words<'_>, out: &mut [&mut [f32]]) {
    attention::add_values::<Sixteen>(weights, block, out);
}

/// Rounds activations.
///
/// # Safety
/// The processor must have a tier other than the portable one.
pub(crate) unsafe fn quantize(values: &[[f32; GROUP]], groups: &mut [Q8Block]) {
    quantize::quantize(values, groups);
}

/// Rounds activations to 16 bits.
///
/// # Safety
/// The processor must have a tier other than the portable one.
pub(crate) unsafe fn quantize_words(values: &[[f32; GROUP]], groups: &mut [Q16Block]) {
    quantize::quantize_words(values, groups);
}

/// Rounds what rounding has left: the portable code, compiled for the tier.
///
/// # Safety
/// The processor must have the tier.
pub(crate) unsafe fn rests(tier: Tier, values: &[[f32; GROUP]], groups: &[Q8Block], rests: &mut [Q8Block]) {
    match tier {
        Tier::Avx512Vnni | Tier::Amx => rests_avx512(values, groups, rests),
        _ => rests_avx2(values, groups, rests),
    }
}

#[target_feature(enable = "avx2")]
unsafe fn rests_avx2(values: &[[f32; GROUP]], groups: &[Q8Block], rests: &mut [Q8Block]) {
    rest_groups(values, groups, rests);
}

#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl")]
unsafe fn rests_avx512(values: &[[f32; GROUP]], groups: &[Q8Block], rests: &mut [Q8Block]) {
    rest_groups(values, groups, rests);
}
