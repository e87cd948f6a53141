use crate::encoding::Encoding;

/// Order in which rows of a type are packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packing {
    encoding: Encoding,
    is_nested: bool,
}

impl Packing {
    /// Returns the order with which products read the fewest bytes.
    pub const fn plain(encoding: Encoding) -> Self {
        Self { encoding, is_nested: false }
    }

    /// Returns the order that stores the high bits of all codes before their low bits, for `Q8_0`
    /// and `Q6K`. The other types have few low bits and are packed as by [`Packing::plain`].
    ///
    /// For nested rows, [`PackedRows::bounds`](crate::PackedRows::bounds) shows which rows may have
    /// the largest products.
    pub const fn split_bits(encoding: Encoding) -> Self {
        Self { encoding, is_nested: matches!(encoding, Encoding::Q8_0 | Encoding::Q6K) }
    }

    /// Returns the type of the rows.
    pub const fn encoding(self) -> Encoding {
        self.encoding
    }

    /// Reports whether high bits are stored before low bits.
    pub const fn is_nested(self) -> bool {
        self.is_nested
    }
}
