use crate::encoding::Encoding;

/// In which order rows of some type are packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packing {
    encoding: Encoding,
    is_nested: bool,
}

impl Packing {
    /// The order in which products read least.
    pub const fn plain(encoding: Encoding) -> Self {
        Self { encoding, is_nested: false }
    }

    /// With the high bits of codes before their low bits, where the type has a good many of these: of such rows
    /// [`PackedRows::bounds`](crate::PackedRows::bounds) tells which may have the largest products. Other types are packed
    /// as ever.
    pub const fn nested(encoding: Encoding) -> Self {
        Self { encoding, is_nested: matches!(encoding, Encoding::Q8_0 | Encoding::Q6K) }
    }

    /// The type of the rows.
    pub const fn encoding(self) -> Encoding {
        self.encoding
    }

    /// Whether high bits come before low bits.
    pub const fn is_nested(self) -> bool {
        self.is_nested
    }
}
