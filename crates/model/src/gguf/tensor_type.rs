use std::fmt;

use formwork_kernels::Encoding;

/// Storage type of a tensor. Elements are stored in blocks with a fixed number of elements and
/// bytes.
///
/// The [GGUF specification](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) defines the
/// type numbers and block sizes. Types without kernels are included too, so that files with such
/// tensors can be inspected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorType {
    name: &'static str,
    block_len: u16,
    block_bytes: u16,
    compute: Option<Encoding>,
}

impl TensorType {
    /// Returns the type with the number `id` in GGUF files, or `None` if the number is unknown.
    pub(crate) const fn from_id(id: u32) -> Option<Self> {
        use Encoding as E;
        Some(match id {
            0 => Self::new("F32", 1, 4, Some(E::F32)),
            1 => Self::new("F16", 1, 2, Some(E::F16)),
            2 => Self::new("Q4_0", 32, 18, Some(E::Q4_0)),
            3 => Self::new("Q4_1", 32, 20, Some(E::Q4_1)),
            6 => Self::new("Q5_0", 32, 22, Some(E::Q5_0)),
            7 => Self::new("Q5_1", 32, 24, Some(E::Q5_1)),
            8 => Self::new("Q8_0", 32, 34, Some(E::Q8_0)),
            9 => Self::new("Q8_1", 32, 36, None),
            10 => Self::new("Q2_K", 256, 84, Some(E::Q2K)),
            11 => Self::new("Q3_K", 256, 110, Some(E::Q3K)),
            12 => Self::new("Q4_K", 256, 144, Some(E::Q4K)),
            13 => Self::new("Q5_K", 256, 176, Some(E::Q5K)),
            14 => Self::new("Q6_K", 256, 210, Some(E::Q6K)),
            15 => Self::new("Q8_K", 256, 292, None),
            16 => Self::new("IQ2_XXS", 256, 66, Some(E::Iq2Xxs)),
            17 => Self::new("IQ2_XS", 256, 74, Some(E::Iq2Xs)),
            18 => Self::new("IQ3_XXS", 256, 98, Some(E::Iq3Xxs)),
            19 => Self::new("IQ1_S", 256, 50, Some(E::Iq1S)),
            20 => Self::new("IQ4_NL", 32, 18, Some(E::Iq4Nl)),
            21 => Self::new("IQ3_S", 256, 110, Some(E::Iq3S)),
            22 => Self::new("IQ2_S", 256, 82, Some(E::Iq2S)),
            23 => Self::new("IQ4_XS", 256, 136, Some(E::Iq4Xs)),
            24 => Self::new("I8", 1, 1, None),
            25 => Self::new("I16", 1, 2, None),
            26 => Self::new("I32", 1, 4, None),
            27 => Self::new("I64", 1, 8, None),
            28 => Self::new("F64", 1, 8, None),
            29 => Self::new("IQ1_M", 256, 56, Some(E::Iq1M)),
            30 => Self::new("BF16", 1, 2, Some(E::Bf16)),
            34 => Self::new("TQ1_0", 256, 54, Some(E::Tq1_0)),
            35 => Self::new("TQ2_0", 256, 66, Some(E::Tq2_0)),
            39 => Self::new("MXFP4", 32, 17, Some(E::Mxfp4)),
            40 => Self::new("NVFP4", 64, 36, Some(E::Nvfp4)),
            41 => Self::new("Q1_0", 128, 18, Some(E::Q1_0)),
            42 => Self::new("Q2_0", 64, 18, Some(E::Q2_0)),
            _ => return None,
        })
    }

    /// Returns the type with the name `name` in safetensors headers, or `None` if the name is
    /// unknown.
    pub(crate) fn from_safetensors(name: &str) -> Option<Self> {
        use Encoding as E;
        Some(match name {
            "F32" => Self::new("F32", 1, 4, Some(E::F32)),
            "F16" => Self::new("F16", 1, 2, Some(E::F16)),
            "BF16" => Self::new("BF16", 1, 2, Some(E::Bf16)),
            "F64" => Self::new("F64", 1, 8, None),
            "I64" => Self::new("I64", 1, 8, None),
            "I32" => Self::new("I32", 1, 4, None),
            "I16" => Self::new("I16", 1, 2, None),
            "I8" => Self::new("I8", 1, 1, None),
            "U64" => Self::new("U64", 1, 8, None),
            "U32" => Self::new("U32", 1, 4, None),
            "U16" => Self::new("U16", 1, 2, None),
            "U8" => Self::new("U8", 1, 1, None),
            "BOOL" => Self::new("BOOL", 1, 1, None),
            "F8_E4M3" => Self::new("F8_E4M3", 1, 1, None),
            "F8_E5M2" => Self::new("F8_E5M2", 1, 1, None),
            "F8_E8M0" => Self::new("F8_E8M0", 1, 1, None),
            _ => return None,
        })
    }

    const fn new(name: &'static str, block_len: u16, block_bytes: u16, compute: Option<Encoding>) -> Self {
        Self { name, block_len, block_bytes, compute }
    }

    /// Returns the usual name of the type, such as `Q4_K`.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Returns the number of elements in a block.
    pub const fn block_len(self) -> usize {
        self.block_len as usize
    }

    /// Returns the number of bytes in a block.
    pub const fn block_bytes(self) -> usize {
        self.block_bytes as usize
    }

    /// Returns the encoding with which kernels read the type. Returns `None` if there are no such
    /// kernels.
    pub(crate) const fn compute(self) -> Option<Encoding> {
        self.compute
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}
