use crate::encoding::Encoding;
use crate::float::{self, Bf16, F16, F32};
use crate::format::{BlockFormat, GROUP, Header};
use crate::{k, legacy, table};

/// Expands a row of weights. `out` has as many elements as the row.
pub fn dequantize(encoding: Encoding, row: &[u8], out: &mut [f32]) {
    with_format!(encoding, B => dequantize_blocks::<B>(row, out), E => float::expand::<E>(row, out));
}

fn dequantize_blocks<B: BlockFormat>(row: &[u8], out: &mut [f32]) {
    for (block, out) in row.chunks_exact(B::BYTES).zip(out.chunks_exact_mut(B::LEN)) {
        let Header { scale, offset } = B::header(block);
        for (index, out) in out.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
            let q = B::group(block, index);
            let (low, high) = if B::SPLIT { (2 * index, 2 * index + 1) } else { (index, index) };
            let (scale, offset) = ([scale[low], scale[high]], [offset[low], offset[high]]);
            // Where there is no offset this adds 0, at the price of the sign of a zero: without the addition the loop is
            // not always turned into vector code, and Q4_0 takes five times as long.
            for i in 0..GROUP {
                out[i] = scale[i / 16] * f32::from(q[i]) + offset[i / 16];
            }
        }
    }
}
