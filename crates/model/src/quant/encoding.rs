/// How a row of weights is written down, of the types that there is arithmetic for.
///
/// The names are those of the [GGUF specification](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), as Rust
/// writes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoding {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Iq4Nl,
    Iq4Xs,
    Mxfp4,
}
