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
