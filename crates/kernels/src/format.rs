/// Number of elements that share an activation scale.
pub const GROUP: usize = 32;

/// The raw header of a block as it is stored: 16-bit floats and small integers. A format uses only
/// the first few entries of each array.
#[derive(Clone, Copy, Default)]
pub(crate) struct Head {
    pub(crate) halves: [u16; 2],
    pub(crate) bytes: [u8; 16],
}

/// The decoded scales and offsets of a block.
///
/// Element `i` has the value `scale[part] * q[i] + offset[part]`, where `q[i]` is its integer. The
/// part is `i / 16` if each half group has its own scale ([`BlockFormat::SPLIT`]), and `i / 32`
/// otherwise. Entries after the last part of the block have no meaning.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    pub(crate) scale: [f32; 16],
    pub(crate) offset: [f32; 16],
}

/// Returns the array whose element `i` is `value(i)`. The compiler always turns this plain loop
/// into vector code. With the standard library's `from_fn` and `map`, it sometimes leaves calls.
#[inline(always)]
pub(crate) fn each<T: Copy + Default, const N: usize>(value: impl Fn(usize) -> T) -> [T; N] {
    let mut out = [T::default(); N];
    for (i, out) in out.iter_mut().enumerate() {
        *out = value(i);
    }
    out
}

/// A block type of the GGUF format: its sizes and the decoding of its blocks.
///
/// An element is stored as a *code*. A code stands for a *level*, an unsigned integer. The level
/// minus the *bias* is the element's integer, which is multiplied by the scale.
pub(crate) trait BlockFormat {
    /// Number of elements in a block, a multiple of [`GROUP`].
    const LEN: usize;
    /// Number of bytes in a block.
    const BYTES: usize;
    /// Number of bits in the code of an element: 1, 2, 3, 4, 5, 6 or 8.
    const BITS: usize;
    /// Number of low code bits that are packed apart from the high bits. 0 except for
    /// [`SplitBits`](crate::split_bits::SplitBits).
    const LOW: usize = 0;
    /// Number of 16-bit floats in the raw header of a block.
    const HALVES: usize;
    /// Number of small integers in the raw header of a block, one byte each.
    const SMALL: usize = 0;
    /// True if the two halves of a group have their own scales.
    const SPLIT: bool = false;
    /// True if the format has offsets in addition to scales.
    const OFFSET: bool = false;
    /// Base-2 logarithm of the bias. `None` if the bias is 0, because the integers are never
    /// negative.
    const BIAS: Option<u32> = None;
    /// The level of each code of up to four bits. `None` if a code is itself the level.
    const LEVELS: Option<[u8; 16]> = None;

    /// Reads the raw header of a block of [`BlockFormat::BYTES`] bytes.
    fn head(block: &[u8]) -> Head;

    /// Decodes the scales and offsets of a block from its raw header.
    fn header(head: &Head) -> Header;

    /// Unpacks the codes of group `index` of a block of [`BlockFormat::BYTES`] bytes.
    fn codes(block: &[u8], index: usize) -> [u8; GROUP];

    /// Returns the level of a code, which is the element's integer plus the bias.
    #[inline(always)]
    fn level(code: u8) -> u8 {
        match &Self::LEVELS {
            None => code,
            Some(levels) => levels[usize::from(code & 15)],
        }
    }
}

/// Returns the bias of `B`, which is subtracted from levels to get integers.
#[inline(always)]
pub(crate) const fn bias<B: BlockFormat>() -> u8 {
    match B::BIAS {
        None => 0,
        Some(shift) => 1 << shift,
    }
}

/// Expands the levels of group `index` of a block into floats, with the block's scales and offsets.
#[inline(always)]
pub(crate) fn expand<B: BlockFormat>(
    header: &Header,
    index: usize,
    levels: [u8; GROUP],
    out: &mut [f32; GROUP],
) {
    let (low, high) = if B::SPLIT { (2 * index, 2 * index + 1) } else { (index, index) };
    let (scale, offset) =
        ([header.scale[low], header.scale[high]], [header.offset[low], header.offset[high]]);
    // Formats without offsets add 0, which can only change the sign of a zero. Without the
    // addition, the compiler does not always vectorise the loop, and Q4_0 takes five times as long.
    for i in 0..GROUP {
        let q = i16::from(levels[i]) - i16::from(bias::<B>());
        out[i] = scale[i / 16] * f32::from(q) + offset[i / 16];
    }
}
