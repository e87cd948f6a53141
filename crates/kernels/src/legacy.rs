//! The block types of 32 elements.

use crate::float::half;
use crate::format::{BlockFormat, GROUP, Header, each};

pub(crate) struct Q4_0;
pub(crate) struct Q4_1;
pub(crate) struct Q5_0;
pub(crate) struct Q5_1;
pub(crate) struct Q8_0;

/// The nibbles of 16 bytes: the low ones first, then the high ones.
#[inline(always)]
fn nibbles(bytes: &[u8]) -> [i16; GROUP] {
    let bytes: &[u8; 16] = &bytes.as_chunks().0[0];
    let mut q = [0; GROUP];
    for i in 0..16 {
        q[i] = i16::from(bytes[i] & 15);
        q[i + 16] = i16::from(bytes[i] >> 4);
    }
    q
}

/// The nibbles of `bytes` with a fifth bit each from the four bytes of `high`.
#[inline(always)]
fn five_bits(high: &[u8], bytes: &[u8]) -> [i16; GROUP] {
    let bytes: &[u8; 16] = &bytes.as_chunks().0[0];
    let high = [u16::from_le_bytes([high[0], high[1]]), u16::from_le_bytes([high[2], high[3]])];
    let mut q = [0; GROUP];
    for i in 0..16 {
        q[i] = i16::from(bytes[i] & 15) | ((high[0] >> i & 1) << 4) as i16;
        q[i + 16] = i16::from(bytes[i] >> 4) | ((high[1] >> i & 1) << 4) as i16;
    }
    q
}

impl BlockFormat for Q4_0 {
    const LEN: usize = 32;
    const BYTES: usize = 18;

    #[inline(always)]
    fn header(block: &[u8]) -> Header {
        Header { scale: [half(block, 0); 16], offset: [0.0; 16] }
    }

    #[inline(always)]
    fn group(block: &[u8], _: usize) -> [i16; GROUP] {
        let q = nibbles(&block[2..18]);
        each(|i| q[i] - 8)
    }
}

impl BlockFormat for Q4_1 {
    const LEN: usize = 32;
    const BYTES: usize = 20;
    const OFFSET: bool = true;

    #[inline(always)]
    fn header(block: &[u8]) -> Header {
        Header { scale: [half(block, 0); 16], offset: [half(block, 2); 16] }
    }

    #[inline(always)]
    fn group(block: &[u8], _: usize) -> [i16; GROUP] {
        nibbles(&block[4..20])
    }
}

impl BlockFormat for Q5_0 {
    const LEN: usize = 32;
    const BYTES: usize = 22;

    #[inline(always)]
    fn header(block: &[u8]) -> Header {
        Header { scale: [half(block, 0); 16], offset: [0.0; 16] }
    }

    #[inline(always)]
    fn group(block: &[u8], _: usize) -> [i16; GROUP] {
        let q = five_bits(&block[2..6], &block[6..22]);
        each(|i| q[i] - 16)
    }
}

impl BlockFormat for Q5_1 {
    const LEN: usize = 32;
    const BYTES: usize = 24;
    const OFFSET: bool = true;

    #[inline(always)]
    fn header(block: &[u8]) -> Header {
        Header { scale: [half(block, 0); 16], offset: [half(block, 2); 16] }
    }

    #[inline(always)]
    fn group(block: &[u8], _: usize) -> [i16; GROUP] {
        five_bits(&block[4..8], &block[8..24])
    }
}

impl BlockFormat for Q8_0 {
    const LEN: usize = 32;
    const BYTES: usize = 34;

    #[inline(always)]
    fn header(block: &[u8]) -> Header {
        Header { scale: [half(block, 0); 16], offset: [0.0; 16] }
    }

    #[inline(always)]
    fn group(block: &[u8], _: usize) -> [i16; GROUP] {
        let bytes: &[u8; GROUP] = &block[2..34].as_chunks().0[0];
        each(|i| i16::from(bytes[i] as i8))
    }
}
