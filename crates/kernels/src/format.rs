/// Elements that share an activation scale.
pub const GROUP: usize = 32;

/// The floats of a block: element `i` is `scale[i / 16] * q[i] + offset[i / 16]`, where each format fills in as many as
/// it has groups. Formats without scales of their own for half groups fill in one per group: see [`BlockFormat::SPLIT`].
pub(crate) struct Header {
    pub(crate) scale: [f32; 16],
    pub(crate) offset: [f32; 16],
}

/// Fills an array from its indices. A plain loop, which the compiler always unrolls into vector code; the library's
/// `from_fn` and `map` are sometimes left as calls.
#[inline(always)]
pub(crate) fn each<T: Copy + Default, const N: usize>(value: impl Fn(usize) -> T) -> [T; N] {
    let mut out = [T::default(); N];
    for (i, out) in out.iter_mut().enumerate() {
        *out = value(i);
    }
    out
}

/// A block type of the GGUF format.
pub(crate) trait BlockFormat {
    /// Elements in a block, a multiple of [`GROUP`].
    const LEN: usize;
    /// Bytes in a block.
    const BYTES: usize;
    /// Whether the two halves of a group have scales of their own.
    const SPLIT: bool = false;
    /// Whether there are offsets.
    const OFFSET: bool = false;

    /// Computes the floats of a block of [`BlockFormat::BYTES`] bytes.
    fn header(block: &[u8]) -> Header;

    /// Unpacks the integers of group `index`.
    fn group(block: &[u8], index: usize) -> [i16; GROUP];
}
