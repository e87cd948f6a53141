//! Many tokens: rows by sixteens, unpacked once for all of them.
//!
//! A row to a lane of 32 bits: four neighbouring elements of sixteen rows make a vector of bytes, and one instruction multiplies them
//! with the same four activations and adds up, which gives lane `i` of each row as the portable code has it. Everything after that is the
//! portable code's arithmetic with sixteen rows side by side, so the bits are the same. What it costs to bring rows into this
//! order, several tokens have to share.

use std::arch::x86_64::{
    __m256i, __m512, __m512i, _MM_HINT_T0, _mm_prefetch, _mm256_add_epi8, _mm256_set1_epi8, _mm512_add_ps,
    _mm512_castsi256_si512, _mm512_cvtepi32_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_inserti64x4,
    _mm512_loadu_ps, _mm512_mul_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_setzero_si512, _mm512_shuffle_i32x4, _mm512_storeu_ps, _mm512_unpackhi_epi32,
    _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use super::{Avx512Vnni, Unpack, Vectors};
use crate::activation::{Activation, Q8Block};
use crate::format::GROUP;
use crate::products::{LANES, Rows, tiles};

/// Rows in a panel.
const ROWS: usize = 16;
/// Tokens that pay for the unpacking of a panel.
pub(super) const FROM: usize = 6;

/// What is added to weights that may be below zero.
const BIAS: i8 = i8::MIN;

/// The products of rows and tokens.
///
/// # Safety
/// The processor must have AVX-512 with VNNI.
#[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512vnni")]
pub(super) unsafe fn products<B: Unpack>(rows: Rows<'_>, x: &[Activation<'_>], out: &mut [&mut [f32]]) {
    let x: Vec<Token<'_>> = x.iter().map(Token::new::<B>).collect();
    let count = out[0].len();
    let mut panel = Panel { groups: Vec::with_capacity(x[0].groups.len()) };
    for first in (0..count / ROWS * ROWS).step_by(ROWS) {
        panel.unpack::<B>(rows, first);
        for (x, out) in x.chunks(2).zip(out.chunks_mut(2)) {
            match (x, out) {
                ([a, b], [to_a, to_b]) => {
                    let [sums_a, sums_b] = panel.meet::<B, 2>([a, b]);
                    _mm512_storeu_ps(to_a[first..first + ROWS].as_mut_ptr(), sums_a);
                    _mm512_storeu_ps(to_b[first..first + ROWS].as_mut_ptr(), sums_b);
                }
                ([a], [to_a]) => {
                    let [sums] = panel.meet::<B, 1>([a]);
                    _mm512_storeu_ps(to_a[first..first + ROWS].as_mut_ptr(), sums);
                }
                _ => unreachable!("as many outputs as tokens"),
            }
        }
    }
    let done = count / ROWS * ROWS;
    if done < count {
        let rest = Rows { bytes: &rows.bytes[done * rows.row_bytes..], ..rows };
        let x: Vec<Activation<'_>> = x.iter().map(|token| token.activation).collect();
        let mut out: Vec<&mut [f32]> = out.iter_mut().map(|out| &mut out[done..]).collect();
        tiles::<Vectors<B, Avx512Vnni>>(rest, &x, &mut out);
    }
}

/// A token's activations, and what takes the bias back.
struct Token<'a> {
    activation: Activation<'a>,
    groups: &'a [Q8Block],
    /// Of each group, what takes from each lane what the bias adds to it; nothing where weights have none.
    corrections: Vec<[i32; LANES]>,
}

impl<'a> Token<'a> {
    fn new<B: Unpack>(activation: &Activation<'a>) -> Self {
        let groups = activation.groups();
        let correction = |group: &Q8Block| {
            let (fours, _) = group.q.as_chunks::<4>();
            std::array::from_fn(|lane| {
                i32::from(BIAS) * fours[lane].iter().map(|&q| i32::from(q)).sum::<i32>()
            })
        };
        let corrections = if B::SIGNED { groups.iter().map(correction).collect() } else { Vec::new() };
        Self { activation: *activation, groups, corrections }
    }
}

/// Sixteen rows.
struct Panel {
    groups: Vec<PanelGroup>,
}

/// A group of each row.
#[derive(Clone, Copy)]
struct PanelGroup {
    /// By lanes: four unsigned bytes of each row.
    weights: [__m512i; LANES],
    /// Of the two halves; the second only where these differ.
    scales: [__m512; 2],
    offsets: [__m512; 2],
}

impl Panel {
    /// Takes the rows from `first` on.
    #[inline(always)]
    unsafe fn unpack<B: Unpack>(&mut self, rows: Rows<'_>, first: usize) {
        self.groups.clear();
        let bytes = &rows.bytes[first * rows.row_bytes..(first + ROWS) * rows.row_bytes];
        for block in 0..rows.row_bytes / B::BYTES {
            // What comes next lies behind all rows of this panel.
            for line in (0..ROWS * B::BYTES).step_by(64) {
                let next = bytes.len() + block * ROWS * B::BYTES + line;
                _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(next).cast());
            }
            let blocks: [&[u8]; ROWS] = std::array::from_fn(|row| {
                let from = row * rows.row_bytes + block * B::BYTES;
                &bytes[from..from + B::BYTES]
            });
            match (B::LEN / GROUP, B::SPLIT) {
                (1, false) => self.unpack_blocks::<B, 1>(blocks),
                (1, true) => self.unpack_blocks::<B, 2>(blocks),
                (..=8, false) => self.unpack_blocks::<B, 8>(blocks),
                _ => self.unpack_blocks::<B, 16>(blocks),
            }
        }
    }

    /// Takes a block of each row, with room for `PARTS` scales.
    #[inline(always)]
    unsafe fn unpack_blocks<B: Unpack, const PARTS: usize>(&mut self, blocks: [&[u8]; ROWS]) {
        let parts = if B::SPLIT { 2 } else { 1 };
        let (mut scales, mut offsets) = ([[0f32; ROWS]; PARTS], [[0f32; ROWS]; PARTS]);
        for (row, block) in blocks.iter().enumerate() {
            let header = B::header(block);
            for part in 0..PARTS {
                scales[part][row] = header.scale[part];
                offsets[part][row] = header.offset[part];
            }
        }
        for index in 0..B::LEN / GROUP {
            let of_half = |values: &[[f32; ROWS]; PARTS], half: usize| {
                _mm512_loadu_ps(values[(index * parts + half).min(PARTS - 1)].as_ptr())
            };
            let mut bytes = [_mm256_set1_epi8(0); ROWS];
            for (bytes, block) in bytes.iter_mut().zip(blocks) {
                let q = B::unpack(block, index);
                *bytes = if B::SIGNED { _mm256_add_epi8(q, _mm256_set1_epi8(BIAS)) } else { q };
            }
            self.groups.push(PanelGroup {
                weights: by_lanes(bytes),
                scales: [of_half(&scales, 0), of_half(&scales, parts - 1)],
                offsets: [of_half(&offsets, 0), of_half(&offsets, parts - 1)],
            });
        }
    }

    /// The products of the sixteen rows with `T` tokens.
    #[inline(always)]
    unsafe fn meet<B: Unpack, const T: usize>(&self, x: [&Token<'_>; T]) -> [__m512; T] {
        let mut lanes = [[_mm512_setzero_ps(); LANES]; T];
        let mut offsets = [_mm512_setzero_ps(); T];
        let count = self.groups.len();
        let groups: [&[Q8Block]; T] = x.map(|x| &x.groups[..count]);
        let corrections: [&[[i32; LANES]]; T] =
            x.map(|x| if B::SIGNED { &x.corrections[..count] } else { &[] });
        for (at, group) in self.groups.iter().enumerate() {
            let mut scales = [[_mm512_setzero_ps(); 2]; T];
            for t in 0..T {
                let x = &groups[t][at];
                let scale = _mm512_set1_ps(x.scale);
                scales[t][0] = _mm512_mul_ps(group.scales[0], scale);
                scales[t][1] = if B::SPLIT { _mm512_mul_ps(group.scales[1], scale) } else { scales[t][0] };
                if B::OFFSET && B::SPLIT {
                    for half in 0..2 {
                        offsets[t] =
                            _mm512_fmadd_ps(group.offsets[half], _mm512_set1_ps(x.sums[half]), offsets[t]);
                    }
                } else if B::OFFSET {
                    offsets[t] = _mm512_fmadd_ps(group.offsets[0], _mm512_set1_ps(x.sum), offsets[t]);
                }
            }
            for lane in 0..LANES {
                let weights = group.weights[lane];
                for t in 0..T {
                    let (fours, _) = groups[t][at].q.as_chunks::<4>();
                    let x = _mm512_set1_epi32(i32::from_le_bytes(fours[lane].map(i8::cast_unsigned)));
                    let from = if B::SIGNED {
                        _mm512_set1_epi32(corrections[t][at][lane])
                    } else {
                        _mm512_setzero_si512()
                    };
                    let four = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(from, weights, x));
                    lanes[t][lane] = _mm512_fmadd_ps(scales[t][lane / (LANES / 2)], four, lanes[t][lane]);
                }
            }
        }
        let mut out = [_mm512_setzero_ps(); T];
        for t in 0..T {
            out[t] = _mm512_add_ps(sum(lanes[t]), offsets[t]);
        }
        out
    }
}

/// The lanes' sums, in the order of the portable code.
#[inline(always)]
unsafe fn sum(lanes: [__m512; LANES]) -> __m512 {
    let mut quarters = [_mm512_setzero_ps(); LANES / 2];
    for i in 0..LANES / 2 {
        quarters[i] = _mm512_add_ps(lanes[i], lanes[i + LANES / 2]);
    }
    _mm512_add_ps(_mm512_add_ps(quarters[0], quarters[2]), _mm512_add_ps(quarters[1], quarters[3]))
}

/// From a group of each row to four elements of all: a transposition of 16 x 8 pieces of 32 bits.
#[inline(always)]
unsafe fn by_lanes(rows: [__m256i; ROWS]) -> [__m512i; LANES] {
    // The pieces `i` and `i + 4` of rows 0 to 3, of 4 to 7 and so on, a quarter of a vector each.
    let first = four_by_four([
        pair(rows[0], rows[4]),
        pair(rows[1], rows[5]),
        pair(rows[2], rows[6]),
        pair(rows[3], rows[7]),
    ]);
    let last = four_by_four([
        pair(rows[8], rows[12]),
        pair(rows[9], rows[13]),
        pair(rows[10], rows[14]),
        pair(rows[11], rows[15]),
    ]);
    let mut out = [_mm512_setzero_si512(); LANES];
    for i in 0..LANES / 2 {
        out[i] = _mm512_shuffle_i32x4::<0b10_00_10_00>(first[i], last[i]);
        out[i + LANES / 2] = _mm512_shuffle_i32x4::<0b11_01_11_01>(first[i], last[i]);
    }
    out
}

#[inline(always)]
unsafe fn pair(low: __m256i, high: __m256i) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

/// Transposes the four pieces in each quarter of four vectors.
#[inline(always)]
unsafe fn four_by_four([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (low_ab, high_ab) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (low_cd, high_cd) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(low_ab, low_cd),
        _mm512_unpackhi_epi64(low_ab, low_cd),
        _mm512_unpacklo_epi64(high_ab, high_cd),
        _mm512_unpackhi_epi64(high_ab, high_cd),
    ]
}
