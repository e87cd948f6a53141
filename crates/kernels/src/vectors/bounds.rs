//! Bounds of the products of nested rows.

#![allow(unsafe_op_in_unsafe_fn, reason = "nearly every line is an operation of `Vector`")]

use super::unpack::{Heads, Unpack, low_levels, nibbles};
use super::{Vector, prefetch_all};
use crate::bounds::{Bounds, CoarseQuery};
use crate::format::GROUP;
use crate::layout::{PIECES, TILE_ROWS, Tiles, code_bytes, head_bytes, heads_bytes, low_bytes};
use crate::split_bits::{middle, spread_step};

/// Prefetch distance, in tiles.
const AHEAD: usize = 2;

/// Computes the bounds of the products of a tile's rows with the activations `x`.
///
/// # Safety
/// The processor must support the instructions of `V`. `tile` must be a single tile that is packed
/// as `B`, and its rows must be as long as the activations of `x`. `x` may only list groups that it
/// has.
#[inline(always)]
pub(crate) unsafe fn bounds<B: Unpack, V: Vector>(tile: Tiles<'_>, x: &CoarseQuery) -> Bounds {
    const { assert!(B::BITS == B::LOW + 4 && matches!(B::LOW, 2 | 4)) };
    let heads = tile.bytes.as_ptr();
    let codes = heads.add(heads_bytes::<B>(tile.columns));
    let low = codes.add(tile.columns / GROUP * code_bytes::<B>());
    let spreads = heads.add(tile.columns / B::LEN * head_bytes::<B>());
    let next = AHEAD * tile.tile_bytes;
    let parts = if B::SPLIT { 2 } else { 1 };
    let mut out = Bounds { lower: [0.0; TILE_ROWS], upper: [0.0; TILE_ROWS] };
    prefetch_all(heads.wrapping_add(next), heads_bytes::<B>(tile.columns));
    for row in (0..TILE_ROWS).step_by(V::ROWS) {
        let at = row * size_of::<i32>();
        let (mut sums, mut slacks) = (V::each_float(0.0), V::each_float(0.0));
        for (groups, is_whole) in [(&x.coarse, false), (&x.whole, true)] {
            for &group in groups {
                let group = group as usize;
                let of = x.groups.get_unchecked(group);
                let codes = codes.add(group * code_bytes::<B>() + at);
                prefetch_all(codes.wrapping_add(next), code_bytes::<B>());
                let high = nibbles::<V>(codes);
                let mut rest = [V::zero(); PIECES];
                if is_whole {
                    let low = low.add(group * low_bytes::<B>() + at);
                    prefetch_all(low.wrapping_add(next), low_bytes::<B>());
                    rest = low_levels::<B, V>(low);
                }
                let bytes = heads.add(group / (B::LEN / GROUP) * head_bytes::<B>());
                let scales = B::scales::<V>(Heads { bytes, first: row }, group % (B::LEN / GROUP));
                let fours: &[[i8; 4]; PIECES] = &*(&raw const of.x.q).cast();
                for part in 0..parts {
                    let pieces = part * (PIECES / parts)..(part + 1) * (PIECES / parts);
                    let (mut highs, mut lows) = (V::zero(), V::zero());
                    for piece in pieces {
                        let four = V::each_int(i32::from_le_bytes(fours[piece].map(i8::cast_unsigned)));
                        highs = V::dot(highs, high[piece], four);
                        if is_whole {
                            lows = V::dot(lows, rest[piece], four);
                        }
                    }
                    // Removes the bias from the sum. If the low bits are not read, adds their
                    // midpoint.
                    let minus = if B::SPLIT { of.x.minuses[part] } else { of.x.minus };
                    let bias = 1 << B::BIAS.unwrap_or_default();
                    let taken = if is_whole { bias } else { bias - middle::<B>() };
                    let integers = V::add(V::shl_lanes(highs, B::LOW as u32), V::each_int(minus * taken));
                    let integers = if is_whole { V::add(integers, lows) } else { integers };
                    let scale = V::times(scales.scale[part], V::each_float(of.x.scale));
                    sums = V::add_product(scale, V::to_floats(integers), sums);
                    let slack = of.slack[if B::SPLIT { part } else { 2 }];
                    slacks = V::add_product(V::abs(scales.scale[part]), V::each_float(slack), slacks);
                }
            }
        }
        let spreads = V::to_floats(V::widen(V::load_bytes(spreads.add(row))));
        let slacks = V::times(slacks, V::times(spreads, V::each_float(spread_step::<B>())));
        V::store_floats(out.upper[row..].as_mut_ptr(), V::add_floats(sums, slacks));
        let minus = V::times(slacks, V::each_float(-1.0));
        V::store_floats(out.lower[row..].as_mut_ptr(), V::add_floats(sums, minus));
    }
    out
}
