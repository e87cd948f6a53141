//! The block types whose four bits are places in a table, not numbers.

use crate::float::half;
use crate::format::{BlockFormat, GROUP, Header, each};

pub(crate) struct Iq4Nl;
pub(crate) struct Iq4Xs;
pub(crate) struct Mxfp4;

/// The levels of [`Iq4Nl`] and [`Iq4Xs`], closer together around zero, where most weights are.
pub(crate) const IQ4_LEVELS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the values of a float of four bits: a sign, two bits of exponent and one of mantissa.
pub(crate) const E2M1_LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

static LEVELS: [u32; 256] = pairs(IQ4_LEVELS);
static TWICE_E2M1: [u32; 256] = pairs(E2M1_LEVELS);

/// What a byte's two nibbles stand for, for each byte: the low one's integer in the low 16 bits, the high one's above.
const fn pairs(integers: [i8; 16]) -> [u32; 256] {
    let mut pairs = [0; 256];
    let mut byte = 0;
    while byte < pairs.len() {
        let (low, high) = (integers[byte & 15] as i16 as u16, integers[byte >> 4] as i16 as u16);
        pairs[byte] = low as u32 | (high as u32) << 16;
        byte += 1;
    }
    pairs
}

/// The integers that 16 bytes stand for: those of the low nibbles first. A look-up per byte becomes one gather of 16 where
/// that is fast (AVX-512), and dot products take less than half the time that a look-up per nibble makes them take.
#[inline(always)]
fn look_up(pairs: &[u32; 256], bytes: &[u8]) -> [i16; GROUP] {
    let bytes: &[u8; 16] = &bytes.as_chunks().0[0];
    let found: [u32; 16] = each(|i| pairs[usize::from(bytes[i])]);
    let mut q = [0; GROUP];
    for i in 0..16 {
        q[i] = found[i] as i16;
        q[i + 16] = (found[i] >> 16) as i16;
    }
    q
}

/// Half of a scale of eight bits, `2^(exponent - 127)`. The two least are below the normal floats.
#[inline(always)]
fn half_power(exponent: u8) -> f32 {
    let exponent = u32::from(exponent);
    f32::from_bits(if exponent < 2 { 1 << 21 << exponent } else { (exponent - 1) << 23 })
}

impl BlockFormat for Iq4Nl {
    const LEN: usize = 32;
    const BYTES: usize = 18;

    #[inline(always)]
    fn header(block: &[u8]) -> Header {
        Header { scale: [half(block, 0); 16], offset: [0.0; 16] }
    }

    #[inline(always)]
    fn group(block: &[u8], _: usize) -> [i16; GROUP] {
        look_up(&LEVELS, &block[2..18])
    }
}

impl BlockFormat for Iq4Xs {
    const LEN: usize = 256;
    const BYTES: usize = 136;

    /// Eight six-bit scales: bit pairs in two bytes, low nibbles in the next four.
    #[inline(always)]
    fn header(block: &[u8]) -> Header {
        let d = half(block, 0);
        let pairs = u16::from_le_bytes([block[2], block[3]]);
        let bytes: &[u8; 4] = &block[4..8].as_chunks().0[0];
        let mut header = Header { scale: [0.0; 16], offset: [0.0; 16] };
        for i in 0..8 {
            let nibble = bytes[i / 2] >> (i % 2 * 4) & 15;
            let pair = (pairs >> (2 * i) & 3) as u8;
            header.scale[i] = d * f32::from((nibble | pair << 4) as i8 - 32);
        }
        header
    }

    #[inline(always)]
    fn group(block: &[u8], index: usize) -> [i16; GROUP] {
        look_up(&LEVELS, &block[8 + index * 16..])
    }
}

impl BlockFormat for Mxfp4 {
    const LEN: usize = 32;
    const BYTES: usize = 17;

    #[inline(always)]
    fn header(block: &[u8]) -> Header {
        Header { scale: [half_power(block[0]); 16], offset: [0.0; 16] }
    }

    #[inline(always)]
    fn group(block: &[u8], _: usize) -> [i16; GROUP] {
        look_up(&TWICE_E2M1, &block[1..17])
    }
}
