use crate::encoding::Encoding;

/// Encoding of weight rows, and the order of their bits in a packed tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packing {
    encoding: Encoding,
    is_nested: bool,
}

impl Packing {
    /// Returns the order in which computing products reads the fewest bytes.
    pub const fn plain(encoding: Encoding) -> Self {
        Self { encoding, is_nested: false }
    }

    /// Returns the *nested* order, for `Q8_0` and `Q6K`: the high four bits of all codes come
    /// before the low bits. Other types have few low bits and are packed as by [`Packing::plain`].
    ///
    /// [`PackedRows::bounds`](crate::PackedRows::bounds) can skip most low bits of nested rows. The
    /// bounds show which rows may have the largest products.
    pub const fn split_bits(encoding: Encoding) -> Self {
        Self { encoding, is_nested: matches!(encoding, Encoding::Q8_0 | Encoding::Q6K) }
    }

    /// Returns the encoding of the rows.
    pub const fn encoding(self) -> Encoding {
        self.encoding
    }

    /// Reports whether the order is nested: all high bits before the low bits
    /// ([`Packing::split_bits`]).
    pub const fn is_nested(self) -> bool {
        self.is_nested
    }
}
