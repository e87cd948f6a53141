//! Dot products by vectors of 32 bytes: AVX2, and the byte products of VNNI.
//!
//! Each type unpacks a group of 32 elements to bytes. Products are of an unsigned and a signed byte, so where weights may
//! be below zero their signs go over to the activations. All of this is exact, and the lanes are those of the portable
//! code, so the results have the same bits.

#![allow(unsafe_code, reason = "vector instructions, and loads of what slices of fixed length hold")]
#![allow(unsafe_op_in_unsafe_fn, reason = "every line would be a block of its own")]

mod panels;

use std::arch::x86_64::{
    __m128i, __m256, __m256i, _MM_HINT_T0, _mm_add_ps, _mm_add_ss, _mm_and_si128, _mm_cvtsi32_si128,
    _mm_cvtss_f32, _mm_loadu_si128, _mm_movehl_ps, _mm_prefetch, _mm_set1_epi8, _mm_set1_ps, _mm_shuffle_ps,
    _mm_srli_epi16, _mm256_abs_epi8, _mm256_add_epi8, _mm256_and_si256, _mm256_andnot_si256,
    _mm256_broadcastsi128_si256, _mm256_castps256_ps128, _mm256_cmpeq_epi8, _mm256_cvtepi32_ps,
    _mm256_dpbusd_avx_epi32, _mm256_dpbusd_epi32, _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_si256,
    _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_or_si256, _mm256_set_m128, _mm256_set_m128i,
    _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_set1_ps,
    _mm256_setr_epi64x, _mm256_setzero_ps, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_sign_epi8,
    _mm256_srl_epi16, _mm256_sub_epi8,
};
use std::marker::PhantomData;

use crate::activation::{Activation, Q8Block};
use crate::format::{BlockFormat, GROUP};
use crate::k::{Q2K, Q3K, Q4K, Q5K, Q6K};
use crate::legacy::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use crate::products::{Rows, Tier, Tile, add_offset, scales, tiles};
use crate::table::{E2M1_LEVELS, IQ4_LEVELS, Iq4Nl, Iq4Xs, Mxfp4};

/// The products of rows and tokens.
///
/// # Safety
/// The processor must have the tier, which must not be the portable one.
pub(crate) unsafe fn products<B: Unpack>(
    tier: Tier,
    rows: Rows<'_>,
    x: &[Activation<'_>],
    out: &mut [&mut [f32]],
) {
    match tier {
        Tier::Portable => unreachable!("not a tier of this module"),
        Tier::Avx2 => avx2::<B>(rows, x, out),
        Tier::AvxVnni => avx_vnni::<B>(rows, x, out),
        Tier::Avx512Vnni => avx512_vnni::<B>(rows, x, out),
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<B: Unpack>(rows: Rows<'_>, x: &[Activation<'_>], out: &mut [&mut [f32]]) {
    tiles::<Vectors<B, Avx2>>(rows, x, out);
}

#[target_feature(enable = "avx2,fma,avxvnni")]
unsafe fn avx_vnni<B: Unpack>(rows: Rows<'_>, x: &[Activation<'_>], out: &mut [&mut [f32]]) {
    tiles::<Vectors<B, AvxVnni>>(rows, x, out);
}

#[target_feature(enable = "avx2,fma,avx512f,avx512vnni,avx512vl")]
unsafe fn avx512_vnni<B: Unpack>(rows: Rows<'_>, x: &[Activation<'_>], out: &mut [&mut [f32]]) {
    if x.len() < panels::FROM {
        tiles::<Vectors<B, Avx512Vnni>>(rows, x, out);
    } else {
        panels::products::<B>(rows, x, out);
    }
}

/// Sums of four products each, of an unsigned and a signed byte.
trait Fours {
    /// # Safety
    /// The processor must have the instructions.
    unsafe fn fours(unsigned: __m256i, signed: __m256i) -> __m256i;
}

struct Avx2;
struct AvxVnni;
struct Avx512Vnni;

impl Fours for Avx2 {
    /// Sums of two fit 16 bits: no magnitude is above 128, no activation above 127.
    #[inline(always)]
    unsafe fn fours(unsigned: __m256i, signed: __m256i) -> __m256i {
        _mm256_madd_epi16(_mm256_maddubs_epi16(unsigned, signed), _mm256_set1_epi16(1))
    }
}

impl Fours for AvxVnni {
    #[inline(always)]
    unsafe fn fours(unsigned: __m256i, signed: __m256i) -> __m256i {
        _mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), unsigned, signed)
    }
}

impl Fours for Avx512Vnni {
    #[inline(always)]
    unsafe fn fours(unsigned: __m256i, signed: __m256i) -> __m256i {
        _mm256_dpbusd_epi32(_mm256_setzero_si256(), unsigned, signed)
    }
}

/// How far ahead of the computation weights are asked for, in bytes.
const AHEAD: usize = 1024;

struct Vectors<B, F>(PhantomData<(B, F)>);

impl<B: Unpack, F: Fours> Tile for Vectors<B, F> {
    #[inline(always)]
    fn tile<const T: usize>(row: &[u8], x: [&[Q8Block]; T]) -> [f32; T] {
        const { assert!(B::LEN.is_multiple_of(GROUP)) };
        let groups = B::LEN / GROUP;
        for x in x {
            assert!(
                x.len() >= row.len() / B::BYTES * groups,
                "a row of weights is longer than the activations"
            );
        }
        // SAFETY: only the functions above come here, on processors that have the instructions; and there are as many
        // groups of activations as of weights.
        unsafe {
            let mut lanes = [_mm256_setzero_ps(); T];
            let mut offsets = [0f32; T];
            for (at, block) in row.chunks_exact(B::BYTES).enumerate() {
                for line in (0..B::BYTES).step_by(64) {
                    _mm_prefetch::<_MM_HINT_T0>(block.as_ptr().wrapping_add(line + AHEAD).cast());
                }
                let header = B::header(block);
                for index in 0..groups {
                    let q = B::unpack(block, index);
                    let magnitude = if B::SIGNED { _mm256_abs_epi8(q) } else { q };
                    for t in 0..T {
                        let x = x[t].get_unchecked(at * groups + index);
                        let signed = _mm256_loadu_si256(x.q.as_ptr().cast());
                        let signed = if B::SIGNED { _mm256_sign_epi8(signed, q) } else { signed };
                        let fours = _mm256_cvtepi32_ps(F::fours(magnitude, signed));
                        let (low, high) = scales::<B>(&header, index, x);
                        let scale = if B::SPLIT {
                            _mm256_set_m128(_mm_set1_ps(high), _mm_set1_ps(low))
                        } else {
                            _mm256_set1_ps(low)
                        };
                        lanes[t] = _mm256_fmadd_ps(scale, fours, lanes[t]);
                        offsets[t] = add_offset::<B>(offsets[t], &header, index, x);
                    }
                }
            }
            let mut out = [0.0; T];
            for t in 0..T {
                out[t] = sum(lanes[t]) + offsets[t];
            }
            out
        }
    }
}

/// The lanes' sum, in the order of the portable code.
#[inline(always)]
unsafe fn sum(lanes: __m256) -> f32 {
    let quarters = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
    let halves = _mm_add_ps(quarters, _mm_movehl_ps(quarters, quarters));
    _mm_cvtss_f32(_mm_add_ss(halves, _mm_shuffle_ps::<1>(halves, halves)))
}

/// A block type whose groups become vectors of bytes.
pub(crate) trait Unpack: BlockFormat {
    /// Whether the integers may be below zero.
    const SIGNED: bool;

    /// The integers of group `index` of a block of [`BlockFormat::BYTES`] bytes.
    ///
    /// # Safety
    /// The processor must have AVX2.
    unsafe fn unpack(block: &[u8], index: usize) -> __m256i;
}

/// `bytes[at..at + 32]`
#[inline(always)]
unsafe fn load(bytes: &[u8], at: usize) -> __m256i {
    _mm256_loadu_si256(bytes[at..at + 32].as_ptr().cast())
}

/// `bytes[at..at + 16]`
#[inline(always)]
unsafe fn load_half(bytes: &[u8], at: usize) -> __m128i {
    _mm_loadu_si128(bytes[at..at + 16].as_ptr().cast())
}

/// The nibbles of `bytes[at..at + 16]`: the low ones first, then the high ones.
#[inline(always)]
unsafe fn nibbles(bytes: &[u8], at: usize) -> __m256i {
    let (bytes, mask) = (load_half(bytes, at), _mm_set1_epi8(15));
    _mm256_set_m128i(_mm_and_si128(_mm_srli_epi16::<4>(bytes), mask), _mm_and_si128(bytes, mask))
}

/// `bytes >> shift & mask`, of each byte. The mask must leave out what comes from its neighbour.
#[inline(always)]
unsafe fn bits(bytes: __m256i, shift: usize, mask: i8) -> __m256i {
    let shifted = _mm256_srl_epi16(bytes, _mm_cvtsi32_si128(shift as i32));
    _mm256_and_si256(shifted, _mm256_set1_epi8(mask))
}

/// `value` in the bytes whose bit in `bytes[at..at + 4]` is set.
#[inline(always)]
unsafe fn spread(bytes: &[u8], at: usize, value: i8) -> __m256i {
    let word = i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    // Each byte of the word eight times, of which each then keeps a bit of its own.
    let copies = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let single = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
    let word = _mm256_shuffle_epi8(_mm256_set1_epi32(word), copies);
    let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(word, single), single);
    _mm256_and_si256(is_set, _mm256_set1_epi8(value))
}

#[inline(always)]
unsafe fn minus(q: __m256i, bias: i8) -> __m256i {
    _mm256_sub_epi8(q, _mm256_set1_epi8(bias))
}

/// The levels that nibbles stand for.
#[inline(always)]
unsafe fn look_up(levels: &[i8; 16], nibbles: __m256i) -> __m256i {
    let levels = _mm256_broadcastsi128_si256(_mm_loadu_si128(levels.as_ptr().cast()));
    _mm256_shuffle_epi8(levels, nibbles)
}

impl Unpack for Q8_0 {
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn unpack(block: &[u8], _: usize) -> __m256i {
        load(block, 2)
    }
}

impl Unpack for Q4_0 {
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn unpack(block: &[u8], _: usize) -> __m256i {
        minus(nibbles(block, 2), 8)
    }
}

impl Unpack for Q4_1 {
    const SIGNED: bool = false;

    #[inline(always)]
    unsafe fn unpack(block: &[u8], _: usize) -> __m256i {
        nibbles(block, 4)
    }
}

impl Unpack for Q5_0 {
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn unpack(block: &[u8], _: usize) -> __m256i {
        minus(_mm256_or_si256(nibbles(block, 6), spread(block, 2, 16)), 16)
    }
}

impl Unpack for Q5_1 {
    const SIGNED: bool = false;

    #[inline(always)]
    unsafe fn unpack(block: &[u8], _: usize) -> __m256i {
        _mm256_or_si256(nibbles(block, 8), spread(block, 4, 16))
    }
}

impl Unpack for Q4K {
    const SIGNED: bool = false;

    #[inline(always)]
    unsafe fn unpack(block: &[u8], index: usize) -> __m256i {
        bits(load(block, 16 + index / 2 * 32), index % 2 * 4, 15)
    }
}

impl Unpack for Q5K {
    const SIGNED: bool = false;

    #[inline(always)]
    unsafe fn unpack(block: &[u8], index: usize) -> __m256i {
        let low = bits(load(block, 48 + index / 2 * 32), index % 2 * 4, 15);
        let single = _mm256_set1_epi8((1u8 << index).cast_signed());
        let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(load(block, 16), single), single);
        _mm256_or_si256(low, _mm256_and_si256(is_set, _mm256_set1_epi8(16)))
    }
}

impl Unpack for Q6K {
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn unpack(block: &[u8], index: usize) -> __m256i {
        let (half_block, part) = (index / 4, index % 4);
        let low = bits(load(block, half_block * 64 + part % 2 * 32), part / 2 * 4, 15);
        let high = bits(load(block, 128 + half_block * 32), part * 2, 3);
        // Two bits, times 16: neighbours in a pair of bytes do not meet.
        let high = _mm256_add_epi8(high, high);
        let high = _mm256_add_epi8(high, high);
        let high = _mm256_add_epi8(high, high);
        minus(_mm256_or_si256(low, _mm256_add_epi8(high, high)), 32)
    }
}

impl Unpack for Q3K {
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn unpack(block: &[u8], index: usize) -> __m256i {
        let low = bits(load(block, 32 + index / 4 * 32), index % 4 * 2, 3);
        let single = _mm256_set1_epi8((1u8 << index).cast_signed());
        let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(load(block, 0), single), single);
        _mm256_sub_epi8(low, _mm256_andnot_si256(is_set, _mm256_set1_epi8(4)))
    }
}

impl Unpack for Q2K {
    const SIGNED: bool = false;

    #[inline(always)]
    unsafe fn unpack(block: &[u8], index: usize) -> __m256i {
        bits(load(block, 16 + index / 4 * 32), index % 4 * 2, 3)
    }
}

impl Unpack for Iq4Nl {
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn unpack(block: &[u8], _: usize) -> __m256i {
        look_up(&IQ4_LEVELS, nibbles(block, 2))
    }
}

impl Unpack for Iq4Xs {
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn unpack(block: &[u8], index: usize) -> __m256i {
        look_up(&IQ4_LEVELS, nibbles(block, 8 + index * 16))
    }
}

impl Unpack for Mxfp4 {
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn unpack(block: &[u8], _: usize) -> __m256i {
        look_up(&E2M1_LEVELS, nibbles(block, 1))
    }
}
