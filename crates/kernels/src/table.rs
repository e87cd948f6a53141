//! The block types with tables: a 4-bit code is an index into a table of levels.

use crate::float::from_half;
use crate::format::{BlockFormat, GROUP, Head, Header};
use crate::legacy::{nibbles, plain_header, scale_head};

pub(crate) struct Iq4Nl;
pub(crate) struct Iq4Xs;
pub(crate) struct Mxfp4;

/// Levels of [`Iq4Nl`] and [`Iq4Xs`]. They are closer together around zero, where most weights are.
const IQ4_LEVELS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
const IQ4_BIAS: u32 = 7;

/// Twice the values of a 4-bit float: one sign bit, two exponent bits and one mantissa bit.
pub(crate) const E2M1_LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
pub(crate) const E2M1_BIAS: u32 = 4;

/// Returns the levels plus the bias, as [`BlockFormat::LEVELS`] has them.
pub(crate) const fn biased(levels: [i8; 16], bias: u32) -> [u8; 16] {
    let mut biased = [0; 16];
    let mut i = 0;
    while i < levels.len() {
        biased[i] = (levels[i] as i16 + (1 << bias)) as u8;
        i += 1;
    }
    biased
}

/// Returns half of the scale `2^(exponent - 127)`. The results for the exponents 0 and 1 are
/// subnormal.
#[inline(always)]
fn half_power(exponent: u8) -> f32 {
    let exponent = u32::from(exponent);
    f32::from_bits(if exponent < 2 { 1 << 21 << exponent } else { (exponent - 1) << 23 })
}

impl BlockFormat for Iq4Nl {
    const LEN: usize = 32;
    const BYTES: usize = 18;
    const BITS: usize = 4;
    const HALVES: usize = 1;
    const BIAS: Option<u32> = Some(IQ4_BIAS);
    const LEVELS: Option<[u8; 16]> = Some(biased(IQ4_LEVELS, IQ4_BIAS));

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        scale_head(block)
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        plain_header(head)
    }

    #[inline(always)]
    fn codes(block: &[u8], _: usize) -> [u8; GROUP] {
        nibbles(&block[2..18])
    }
}

impl BlockFormat for Iq4Xs {
    const LEN: usize = 256;
    const BYTES: usize = 136;
    const BITS: usize = 4;
    const HALVES: usize = 1;
    const SMALL: usize = 6;
    const BIAS: Option<u32> = Some(IQ4_BIAS);
    const LEVELS: Option<[u8; 16]> = Some(biased(IQ4_LEVELS, IQ4_BIAS));

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        let mut head = scale_head(block);
        head.bytes[..6].copy_from_slice(&block[2..8]);
        head
    }

    /// Decodes eight six-bit scales. The first two bytes contain the high bit pairs, the next four
    /// the low nibbles.
    #[inline(always)]
    fn header(head: &Head) -> Header {
        let d = from_half(head.halves[0]);
        let mut header = Header { scale: [0.0; 16], offset: [0.0; 16] };
        for i in 0..8 {
            let nibble = head.bytes[2 + i / 2] >> (i % 2 * 4) & 15;
            let pair = head.bytes[i / 4] >> (i % 4 * 2) & 3;
            header.scale[i] = d * f32::from((nibble | pair << 4) as i8 - 32);
        }
        header
    }

    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        nibbles(&block[8 + index * 16..])
    }
}

impl BlockFormat for Mxfp4 {
    const LEN: usize = 32;
    const BYTES: usize = 17;
    const BITS: usize = 4;
    const HALVES: usize = 0;
    const SMALL: usize = 1;
    const BIAS: Option<u32> = Some(E2M1_BIAS);
    const LEVELS: Option<[u8; 16]> = Some(biased(E2M1_LEVELS, E2M1_BIAS));

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        let mut head = Head::default();
        head.bytes[0] = block[0];
        head
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        Header { scale: [half_power(head.bytes[0]); 16], offset: [0.0; 16] }
    }

    #[inline(always)]
    fn codes(block: &[u8], _: usize) -> [u8; GROUP] {
        nibbles(&block[1..17])
    }
}
