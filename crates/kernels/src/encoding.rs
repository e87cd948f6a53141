use crate::float::{Bf16, F16, F32, FloatFormat};
use crate::format::BlockFormat;
use crate::{grid, k, legacy, nvfp4, table, ternary};

/// Storage format of a row of weights. The variants are the formats that this crate can compute
/// with.
///
/// The names are those of the [GGUF
/// specification](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), in Rust's spelling.
/// The numbers of bits below are bits per element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// 32-bit floats.
    F32,
    /// 16-bit floats with a 5-bit exponent.
    F16,
    /// bfloat16: the upper halves of 32-bit floats.
    Bf16,
    /// 4 bits, with a scale per 32 elements.
    Q4_0,
    /// 4 bits, with a scale and an offset per 32 elements.
    Q4_1,
    /// 5 bits, with a scale per 32 elements.
    Q5_0,
    /// 5 bits, with a scale and an offset per 32 elements.
    Q5_1,
    /// 8 bits, with a scale per 32 elements.
    Q8_0,
    /// 2 bits, with a scale and an offset per 16 elements.
    Q2K,
    /// 3 bits, with a scale per 16 elements.
    Q3K,
    /// 4 bits, with a scale and an offset per 32 elements.
    Q4K,
    /// 5 bits, with a scale and an offset per 32 elements.
    Q5K,
    /// 6 bits, with a scale per 16 elements.
    Q6K,
    /// 4-bit indices into a table of 16 levels, with a scale per 32 elements.
    Iq4Nl,
    /// 4-bit indices into a table of 16 levels, with a scale per 32 elements, in blocks of 256.
    Iq4Xs,
    /// 4-bit floats, with a power of two as the scale per 32 elements.
    Mxfp4,
    /// 11-bit indices per 8 elements (-1, 0 and 1, all plus or minus an eighth), with a scale per 32
    /// elements. 1.56 bits in a file, and 2.19 when packed.
    Iq1S,
    /// The elements of [`Encoding::Iq1S`], with a scale per 16 elements. 1.75 bits in a file, and
    /// 3.31 when packed.
    Iq1M,
    /// 8-bit indices and signs per 8 elements, with a scale per 32 elements. 2.06 bits in a file, and
    /// 3.19 when packed.
    Iq2Xxs,
    /// 9-bit indices and signs per 8 elements, with a scale per 16 elements. 2.31 bits in a file, and
    /// 3.31 when packed.
    Iq2Xs,
    /// 10-bit indices and signs per 8 elements, with a scale per 16 elements. 2.56 bits in a file,
    /// and 3.31 when packed.
    Iq2S,
    /// 8-bit indices and signs per 4 elements, with a scale per 32 elements. 3.06 bits in a file, and
    /// 4.19 when packed.
    Iq3Xxs,
    /// 9-bit indices and signs per 4 elements, with a scale per 32 elements. 3.44 bits in a file, and
    /// 4.19 when packed.
    Iq3S,
    /// -1, 0 and 1, five elements per byte, with a scale per 256 elements. 1.69 bits in a file, and
    /// 2.06 when packed.
    Tq1_0,
    /// 2 bits, with a scale per 256 elements.
    Tq2_0,
    /// -1 and 1, with a scale per 128 elements.
    Q1_0,
    /// 2 bits, with a scale per 64 elements.
    Q2_0,
    /// 4-bit floats, with an 8-bit float as the scale per 16 elements, in blocks of 64.
    Nvfp4,
}

impl Encoding {
    /// Returns the number of elements that `bytes` bytes store. An incomplete block at the end does
    /// not count.
    pub const fn elements(self, bytes: usize) -> usize {
        let (len, block) = self.block();
        bytes / block * len
    }

    /// Returns the number of elements in a block, and the size of a block in bytes. A float counts
    /// as a block of one element.
    pub const fn block(self) -> (usize, usize) {
        with_format!(self, B => (B::LEN, B::BYTES), F => (1, F::BYTES))
    }

    /// Returns the form in which rows of this encoding need the activations that they are
    /// multiplied with.
    pub const fn operand(self) -> Operand {
        match self {
            Self::F32 => Operand::Floats,
            Self::F16 | Self::Bf16 => Operand::Words,
            _ => Operand::Bytes,
        }
    }

    /// Reports whether elements are stored as plain floats instead of quantised blocks.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::Bf16)
    }
}

/// Form of the activations in a product with weights: the precision to which they are rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// 8-bit integers with a scale per 32 elements ([`Q8Block`](crate::Q8Block)). Also accepts the
    /// 16-bit form with two such blocks per group ([`Activation::fine`](crate::Activation::fine)).
    Bytes,
    /// 16-bit integers ([`Q16Block`](crate::Q16Block)).
    Words,
    /// 32-bit floats, not rounded.
    Floats,
}
