use crate::encoding::Encoding;
use crate::float::{self, Bf16, F16, F32};
use crate::format::{BlockFormat, GROUP, each, expand};
use crate::{grid, k, legacy, nvfp4, table, ternary};

/// Expands the bytes of one weight row into floats. `out` needs one element for each weight of the
/// row.
pub fn dequantize(encoding: Encoding, row: &[u8], out: &mut [f32]) {
    with_format!(encoding, B => dequantize_blocks::<B>(row, out), E => float::expand::<E>(row, out));
}

fn dequantize_blocks<B: BlockFormat>(row: &[u8], out: &mut [f32]) {
    for (block, out) in row.chunks_exact(B::BYTES).zip(out.chunks_exact_mut(B::LEN)) {
        let header = B::header(&B::head(block));
        for (index, out) in out.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
            let codes = B::codes(block, index);
            expand::<B>(&header, index, each(|i| B::level(codes[i])), out);
        }
    }
}
