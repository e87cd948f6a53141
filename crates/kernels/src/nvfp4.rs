//! The block type NVFP4: 4-bit floats, with an 8-bit float as the scale per 16 elements.
//!
//! A tensor of this type has a further factor, which is not part of the blocks. The owner of the
//! rows multiplies their products by it.

use crate::format::{BlockFormat, GROUP, Head, Header, each};
use crate::table::{E2M1_BIAS, E2M1_LEVELS, biased};

pub(crate) struct Nvfp4;

/// Half of the factor between a 32-bit float and an 8-bit float with the same exponent bits. The
/// exponent biases are 127 and 7. It is halved because the levels are twice the values of elements.
pub(crate) const UNBIAS: f32 = f32::from_bits((127 + 127 - 7 - 1) << 23);

impl BlockFormat for Nvfp4 {
    const LEN: usize = 64;
    const BYTES: usize = 36;
    const BITS: usize = 4;
    const HALVES: usize = 0;
    const SMALL: usize = 4;
    const SPLIT: bool = true;
    const BIAS: Option<u32> = Some(E2M1_BIAS);
    const LEVELS: Option<[u8; 16]> = Some(biased(E2M1_LEVELS, E2M1_BIAS));

    /// Reads the scales: a 4-bit exponent above a 3-bit mantissa. The top bit is not used, and the
    /// scale with all other bits set counts as 0, as in the reference implementation.
    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        let mut head = Head::default();
        for (scale, byte) in head.bytes.iter_mut().zip(&block[..4]) {
            let bits = byte & 0x7f;
            *scale = if bits == 0x7f { 0 } else { bits };
        }
        head
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        let scale = |i: usize| f32::from_bits(u32::from(head.bytes[i]) << 20) * UNBIAS;
        Header { scale: each(|i| if i < 4 { scale(i) } else { 0.0 }), offset: [0.0; 16] }
    }

    /// Unpacks two runs of 16 elements. Byte `i` of a run holds element `i` in its low nibble and
    /// element `i + 8` in its high nibble.
    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        let bytes: &[u8; 16] = &block[4 + index * 16..].as_chunks().0[0];
        each(|i| bytes[i / 16 * 8 + i % 8] >> (i % 16 / 8 * 4) & 15)
    }
}
