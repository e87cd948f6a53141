use crate::encoding::Encoding;
use crate::float::{self, Bf16, F16, F32, FloatFormat};
use crate::format::{BlockFormat, GROUP, bias, each, expand};
use crate::{grid, k, legacy, nvfp4, table, ternary};

/// Expands the bytes of one weight row into floats. `out` needs one element for each weight of the
/// row.
pub fn dequantize(encoding: Encoding, row: &[u8], out: &mut [f32]) {
    with_format!(encoding, B => dequantize_blocks::<B>(row, out), E => float::expand::<E>(row, out));
}

/// A group of 32 weights as integers with scales and offsets. Element `i` has the value
/// `scales[i / 16] * integers[i] + offsets[i / 16]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WeightGroup {
    /// The integers of the elements.
    pub integers: [i8; GROUP],
    /// Scales of the two halves. They are equal unless [`GroupShape::halves`] is true.
    pub scales: [f32; 2],
    /// Offsets of the two halves. They are 0 unless [`GroupShape::offsets`] is true.
    pub offsets: [f32; 2],
}

/// Properties that all groups of an encoding share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupShape {
    /// True if the two halves of a group have scales of their own.
    pub halves: bool,
    /// True if groups have offsets.
    pub offsets: bool,
}

/// Returns the shape of an encoding's groups, or `None` for floats.
pub const fn group_shape(encoding: Encoding) -> Option<GroupShape> {
    with_format!(
        encoding,
        B => Some(GroupShape { halves: B::SPLIT, offsets: B::OFFSET }),
        E => { let _ = E::BYTES; None }
    )
}

/// Decodes one weight row to groups, and calls `see` with each, first to last. Floats have no
/// groups.
pub fn each_group(encoding: Encoding, row: &[u8], see: impl FnMut(WeightGroup)) {
    with_format!(encoding, B => each_group_of::<B>(row, see), E => { let _ = E::BYTES; });
}

fn each_group_of<B: BlockFormat>(row: &[u8], mut see: impl FnMut(WeightGroup)) {
    for block in row.chunks_exact(B::BYTES) {
        let header = B::header(&B::head(block));
        for index in 0..B::LEN / GROUP {
            let codes = B::codes(block, index);
            let integers = each(|i| (i16::from(B::level(codes[i])) - i16::from(bias::<B>())) as i8);
            let parts = if B::SPLIT { [2 * index, 2 * index + 1] } else { [index; 2] };
            let offsets = if B::OFFSET { parts.map(|part| header.offset[part]) } else { [0.0; 2] };
            see(WeightGroup { integers, scales: parts.map(|part| header.scale[part]), offsets });
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_the_values_of_expanded_rows() {
        let encodings = [
            Encoding::Q4_0,
            Encoding::Q4_1,
            Encoding::Q8_0,
            Encoding::Q2K,
            Encoding::Q3K,
            Encoding::Q4K,
            Encoding::Q5K,
            Encoding::Q6K,
            Encoding::Iq4Nl,
            Encoding::Iq4Xs,
            Encoding::Mxfp4,
            Encoding::Iq1S,
            Encoding::Iq2Xxs,
            Encoding::Iq3S,
            Encoding::Tq1_0,
            Encoding::Nvfp4,
        ];
        for encoding in encodings {
            let (len, bytes) = encoding.block();
            let row: Vec<u8> = (0..3 * bytes).map(|i| (i * 37 % 113) as u8).collect();
            let mut expanded = vec![0.0; 3 * len];
            dequantize(encoding, &row, &mut expanded);
            let mut values = Vec::new();
            each_group(encoding, &row, |group| {
                let value =
                    |i: usize| group.scales[i / 16] * f32::from(group.integers[i]) + group.offsets[i / 16];
                values.extend((0..GROUP).map(value));
            });
            assert_eq!(values.len(), expanded.len(), "{encoding:?}");
            // The sign of a zero can differ, and the bits of NaN.
            let bits = |values: &[f32]| -> Vec<u32> {
                let plain = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { (x + 0.0).to_bits() };
                values.iter().map(plain).collect()
            };
            assert_eq!(bits(&values), bits(&expanded), "{encoding:?}");
        }
    }
}
