use half::slice::HalfFloatSliceExt;

use crate::fma;
use crate::format::GROUP;

/// Number of partial sums in a dot product of floats.
const LANES: usize = 16;

/// Number of chains in which the columns of a product of floats are added up.
pub(crate) const CHAINS: usize = 4;

/// A float type of weight files.
pub(crate) trait FloatFormat {
    const BYTES: usize;
    fn decode(bytes: &[u8]) -> f32;

    /// Decodes the values in `bytes` into the first elements of `out`. `bytes` holds at most
    /// [`GROUP`] values.
    fn decode_group(bytes: &[u8], out: &mut [f32; GROUP]) {
        for (out, bytes) in out.iter_mut().zip(bytes.chunks_exact(Self::BYTES)) {
            *out = Self::decode(bytes);
        }
    }
}

pub(crate) struct F32;
pub(crate) struct F16;
pub(crate) struct Bf16;

impl FloatFormat for F32 {
    const BYTES: usize = 4;
    #[inline(always)]
    fn decode(bytes: &[u8]) -> f32 {
        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

impl FloatFormat for F16 {
    const BYTES: usize = 2;
    #[inline(always)]
    fn decode(bytes: &[u8]) -> f32 {
        from_half(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    /// Decodes with the processor's conversion instruction, if available.
    fn decode_group(bytes: &[u8], out: &mut [f32; GROUP]) {
        let mut halves = [half::f16::ZERO; GROUP];
        for (half, bytes) in halves.iter_mut().zip(bytes.as_chunks().0) {
            *half = half::f16::from_le_bytes(*bytes);
        }
        halves.convert_to_f32_slice(out);
    }
}

impl FloatFormat for Bf16 {
    const BYTES: usize = 2;
    #[inline(always)]
    fn decode(bytes: &[u8]) -> f32 {
        f32::from_bits(u32::from(u16::from_le_bytes([bytes[0], bytes[1]])) << 16)
    }
}

/// Returns the value of the half-precision float with these bits.
#[inline(always)]
pub(crate) fn from_half(bits: u16) -> f32 {
    half::f16::from_bits(bits).to_f32()
}

pub(crate) fn expand<F: FloatFormat>(row: &[u8], out: &mut [f32]) {
    for (out, bytes) in out.iter_mut().zip(row.chunks_exact(F::BYTES)) {
        *out = F::decode(bytes);
    }
}

/// Returns the dot product of `a` and `b`. The order of the additions depends only on the length.
///
/// # Panics
/// Panics if the lengths differ.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "rows must have the same length");
    let mut lanes = [0f32; LANES];
    let ((a_chunks, a_rest), (b_chunks, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for i in 0..LANES {
            lanes[i] = fma(a[i], b[i], lanes[i]);
        }
    }
    a_rest.iter().zip(b_rest).fold(lanes.iter().sum(), |sum, (a, b)| fma(*a, *b, sum))
}
