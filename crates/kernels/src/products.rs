//! Dot products of weight rows with activations.

use std::sync::OnceLock;

use crate::activation::{Activation, Q8Block};
use crate::encoding::Encoding;
use crate::float::{self, Bf16, F16, F32};
use crate::format::{BlockFormat, GROUP, Header};
#[cfg(target_arch = "x86_64")]
use crate::x86;
use crate::{k, legacy, table};

/// Which instructions compute.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Tier {
    /// Whatever the compiler makes of plain loops.
    Portable,
    /// Vectors of 32 bytes.
    Avx2,
    /// The same, with products of bytes that are added up by fours.
    AvxVnni,
    /// The same, in the encoding of AVX-512.
    Avx512Vnni,
}

impl Tier {
    /// Those that this processor has, from slow to fast.
    pub fn available() -> Vec<Self> {
        [Self::Portable, Self::Avx2, Self::AvxVnni, Self::Avx512Vnni]
            .into_iter()
            .filter(|tier| tier.is_available())
            .collect()
    }

    /// The fastest that this processor has.
    pub fn best() -> Self {
        static BEST: OnceLock<Tier> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().pop().unwrap_or(Self::Portable))
    }

    #[cfg(target_arch = "x86_64")]
    fn is_available(self) -> bool {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        match self {
            Self::Portable => true,
            Self::Avx2 => avx2,
            Self::AvxVnni => avx2 && is_x86_feature_detected!("avxvnni"),
            Self::Avx512Vnni => {
                avx2 && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vnni")
                    && is_x86_feature_detected!("avx512vl")
            }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_available(self) -> bool {
        self == Self::Portable
    }
}

/// Weight rows, one after the other in memory.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) bytes: &'a [u8],
    /// Of one row.
    pub(crate) row_bytes: usize,
}

impl<'a> Rows<'a> {
    const fn row(&self, index: usize) -> &'a [u8] {
        self.bytes.split_at(index * self.row_bytes).1.split_at(self.row_bytes).0
    }
}

/// The dot products of weight rows, `row_bytes` each, with activation rows: `out[token][row]`.
///
/// # Panics
/// When there are not as many rows of `out` as of activations, when these are not all as long as there are rows of weights, or when
/// activations are not as long as a row of weights.
pub fn products(
    encoding: Encoding,
    rows: &[u8],
    row_bytes: usize,
    x: &[Activation<'_>],
    out: &mut [&mut [f32]],
) {
    products_by(Tier::best(), encoding, Rows { bytes: rows, row_bytes }, x, out);
}

/// [`products`], by instructions that this processor has.
pub(crate) fn products_by(
    tier: Tier,
    encoding: Encoding,
    rows: Rows<'_>,
    x: &[Activation<'_>],
    out: &mut [&mut [f32]],
) {
    assert!(tier.is_available(), "{tier:?} on a processor without it");
    assert_eq!(x.len(), out.len(), "activations and outputs");
    let count = rows.bytes.len() / rows.row_bytes;
    assert!(out.iter().all(|out| out.len() == count), "outputs for each of {count} rows");
    let columns = encoding.elements(rows.row_bytes);
    let fits = |x: &Activation<'_>| {
        x.values().len() == columns && (encoding.is_float() || x.groups().len() == columns / GROUP)
    };
    assert!(x.iter().all(fits), "activations as long as rows of {columns} weights");
    with_format!(encoding,
        B => match tier {
            Tier::Portable => tiles::<Portable<B>>(rows, x, out),
            // SAFETY: the processor has the tier, as asserted above.
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code)]
            tier => unsafe { x86::products::<B>(tier, rows, x, out) },
            #[cfg(not(target_arch = "x86_64"))]
            _ => tiles::<Portable<B>>(rows, x, out),
        },
        E => for (x, out) in x.iter().zip(out) {
            for (out, row) in out.iter_mut().zip(rows.bytes.chunks_exact(rows.row_bytes)) {
                *out = float::dot_encoded::<E>(row, x.values());
            }
        }
    );
}

/// How a row meets a few tokens. The product with a token does not depend on the others.
pub(crate) trait Tile {
    fn tile<const T: usize>(row: &[u8], x: [&[Q8Block]; T]) -> [f32; T];
}

/// Goes through all tokens with all rows, in tiles: what has been unpacked of a row meets several tokens. One row at a time,
/// as they lie in memory; with two or four, decoding was half as fast where memory is the bound.
#[inline(always)]
pub(crate) fn tiles<K: Tile>(rows: Rows<'_>, x: &[Activation<'_>], out: &mut [&mut [f32]]) {
    let mut token = 0;
    while token < x.len() {
        let (x, out) = (&x[token..], &mut out[token..]);
        token += match x.len() {
            1 => strip::<K, 1>(rows, x, out),
            2 | 3 => strip::<K, 2>(rows, x, out),
            _ => strip::<K, 4>(rows, x, out),
        };
    }
}

/// The first `T` tokens with all rows.
#[inline(always)]
fn strip<K: Tile, const T: usize>(rows: Rows<'_>, x: &[Activation<'_>], out: &mut [&mut [f32]]) -> usize {
    let x: [&[Q8Block]; T] = std::array::from_fn(|t| x[t].groups());
    for row in 0..out[0].len() {
        let sums = K::tile::<T>(rows.row(row), x);
        for (t, sum) in sums.into_iter().enumerate() {
            out[t][row] = sum;
        }
    }
    T
}

/// Lanes in which the elements of a row are added up, each the products of four neighbours in a group.
pub(crate) const LANES: usize = 8;

/// The order in which lanes are added, which is that of vectors folded in half.
#[inline(always)]
fn sum(lanes: [f32; LANES]) -> f32 {
    let quarters: [f32; 4] = std::array::from_fn(|i| lanes[i] + lanes[i + 4]);
    (quarters[0] + quarters[2]) + (quarters[1] + quarters[3])
}

/// Plain loops. Multiply-adds are fused as those of the vectors are, also where that is slow: only processors without AVX2
/// come here on x86-64.
struct Portable<B>(B);

impl<B: BlockFormat> Tile for Portable<B> {
    #[inline(always)]
    fn tile<const T: usize>(row: &[u8], x: [&[Q8Block]; T]) -> [f32; T] {
        x.map(|x| dot::<B>(row, x))
    }
}

#[inline(always)]
fn dot<B: BlockFormat>(row: &[u8], x: &[Q8Block]) -> f32 {
    let mut lanes = [0f32; LANES];
    let mut offsets = 0f32;
    for (block, x) in row.chunks_exact(B::BYTES).zip(x.chunks_exact(B::LEN / GROUP)) {
        let header = B::header(block);
        for (index, x) in x.iter().enumerate() {
            let q = B::group(block, index);
            let (low, high) = scales::<B>(&header, index, x);
            for (i, lane) in lanes.iter_mut().enumerate() {
                let product = |i: usize| i32::from(q[i]) * i32::from(x.q[i]);
                let four = product(4 * i) + product(4 * i + 1) + product(4 * i + 2) + product(4 * i + 3);
                *lane = (if i < LANES / 2 { low } else { high }).mul_add(four as f32, *lane);
            }
            offsets = add_offset::<B>(offsets, &header, index, x);
        }
    }
    sum(lanes) + offsets
}

/// What the products of the two halves of a group are multiplied with.
#[inline(always)]
pub(crate) fn scales<B: BlockFormat>(header: &Header, index: usize, x: &Q8Block) -> (f32, f32) {
    if B::SPLIT {
        (header.scale[2 * index] * x.scale, header.scale[2 * index + 1] * x.scale)
    } else {
        let scale = header.scale[index] * x.scale;
        (scale, scale)
    }
}

/// `offsets` with those of a group.
#[inline(always)]
pub(crate) fn add_offset<B: BlockFormat>(offsets: f32, header: &Header, index: usize, x: &Q8Block) -> f32 {
    match (B::OFFSET, B::SPLIT) {
        (false, _) => offsets,
        (true, false) => header.offset[index].mul_add(x.sum, offsets),
        (true, true) => {
            let offsets = header.offset[2 * index].mul_add(x.sums[0], offsets);
            header.offset[2 * index + 1].mul_add(x.sums[1], offsets)
        }
    }
}
