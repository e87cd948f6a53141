use crate::float::{Bf16, F16, F32, FloatFormat};
use crate::format::BlockFormat;
use crate::{k, legacy, table};

/// How a row of weights is written down, of the types that there is arithmetic for.
///
/// The names are those of the [GGUF specification](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), as Rust
/// writes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// 32-bit floats.
    F32,
    /// 16-bit floats, five bits of exponent.
    F16,
    /// The upper halves of 32-bit floats.
    Bf16,
    /// 4 bits, a scale for 32.
    Q4_0,
    /// 4 bits, a scale and an offset for 32.
    Q4_1,
    /// 5 bits, a scale for 32.
    Q5_0,
    /// 5 bits, a scale and an offset for 32.
    Q5_1,
    /// 8 bits, a scale for 32.
    Q8_0,
    /// 2 bits, scales and offsets for 16.
    Q2K,
    /// 3 bits, scales for 16.
    Q3K,
    /// 4 bits, scales and offsets for 32.
    Q4K,
    /// 5 bits, scales and offsets for 32.
    Q5K,
    /// 6 bits, scales for 16.
    Q6K,
    /// 16 levels, a scale for 32.
    Iq4Nl,
    /// 16 levels, scales for 32 in blocks of 256.
    Iq4Xs,
    /// 4-bit floats, a power of two for 32.
    Mxfp4,
}

impl Encoding {
    /// How many elements so many bytes hold, in whole blocks.
    pub const fn elements(self, bytes: usize) -> usize {
        let (len, block) = self.block();
        bytes / block * len
    }

    /// The elements and the bytes of a block; of floats, of one.
    pub const fn block(self) -> (usize, usize) {
        with_format!(self, B => (B::LEN, B::BYTES), F => (1, F::BYTES))
    }

    /// What activations have to be rounded to for products with such rows.
    pub const fn operand(self) -> Operand {
        match self {
            Self::F32 => Operand::Floats,
            Self::F16 | Self::Bf16 => Operand::Words,
            _ => Operand::Bytes,
        }
    }

    /// Whether elements are floats by themselves, not parts of blocks.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::Bf16)
    }
}

/// What activations are rounded to where they meet weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// Integers of 8 bits, a step for 32 of them ([`Q8Block`](crate::Q8Block)), or of 16 by two of these.
    Bytes,
    /// Integers of 16 bits ([`Q16Block`](crate::Q16Block)).
    Words,
    /// They stay as they are.
    Floats,
}
