/// Elements that share an activation scale.
pub const GROUP: usize = 32;

/// What a block holds besides the codes of its elements, as it lies there: floats of 16 bits and small integers, as many as
/// the format has.
#[derive(Clone, Copy, Default)]
pub(crate) struct Head {
    pub(crate) halves: [u16; 2],
    pub(crate) bytes: [u8; 16],
}

/// The floats of a block: element `i` is `scale[i / 16] * q[i] + offset[i / 16]`, where each format fills in as many as
/// it has groups. Formats without scales of their own for half groups fill in one per group: see [`BlockFormat::SPLIT`].
#[derive(Clone, Copy)]
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
    /// Bits in the code of an element: 2, 3, 4, 5, 6 or 8.
    const BITS: usize;
    /// How many of these, the low ones, lie apart when packed: see [`Nested`](crate::nested::Nested).
    const LOW: usize = 0;
    /// Floats of 16 bits and small integers in the head of a block.
    const HALVES: usize;
    const SMALL: usize = 0;
    /// Whether the two halves of a group have scales of their own.
    const SPLIT: bool = false;
    /// Whether there are offsets.
    const OFFSET: bool = false;
    /// `1 << BIAS` is what codes, or the levels they stand for, are above the integers that they mean; none where the integers
    /// are never below zero.
    const BIAS: Option<u32> = None;
    /// What codes of four bits stand for, where they are places in a table.
    const LEVELS: Option<[u8; 16]> = None;

    /// Reads the head of a block of [`BlockFormat::BYTES`] bytes.
    fn head(block: &[u8]) -> Head;

    /// Computes the floats of a block.
    fn header(head: &Head) -> Header;

    /// Unpacks the codes of group `index` of a block of [`BlockFormat::BYTES`] bytes.
    fn codes(block: &[u8], index: usize) -> [u8; GROUP];

    /// The integer that a code means, above zero by the bias.
    #[inline(always)]
    fn level(code: u8) -> u8 {
        match &Self::LEVELS {
            None => code,
            Some(levels) => levels[usize::from(code & 15)],
        }
    }
}

/// What is taken from levels to have integers.
#[inline(always)]
pub(crate) const fn bias<B: BlockFormat>() -> u8 {
    match B::BIAS {
        None => 0,
        Some(shift) => 1 << shift,
    }
}

/// The elements of a group from their levels.
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
    // Where there is no offset this adds 0, at the price of the sign of a zero: without the addition the loop is not always
    // turned into vector code, and Q4_0 takes five times as long.
    for i in 0..GROUP {
        let q = i16::from(levels[i]) - i16::from(bias::<B>());
        out[i] = scale[i / 16] * f32::from(q) + offset[i / 16];
    }
}
