//! The ends of JSON values, byte by byte.

/// A JSON value that is being read and is no object and no array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scalar {
    /// A string. True after a backslash.
    String(bool),
    Number,
    /// `true`, `false` or `null`, with the number of bytes left.
    Literal(usize),
}

impl Scalar {
    /// Returns the value that starts with a byte, or `None` if the byte starts an object or an array.
    pub(super) const fn starting(byte: u8) -> Option<Self> {
        match byte {
            b'"' => Some(Self::String(false)),
            b't' | b'n' => Some(Self::Literal(3)),
            b'f' => Some(Self::Literal(4)),
            b'{' | b'[' => None,
            _ => Some(Self::Number),
        }
    }

    /// Returns the value after its next byte, or `None` if the byte ends the value. A number ends before the
    /// byte, all other values end after it.
    pub(super) fn next(self, byte: u8) -> Option<Self> {
        match self {
            Self::String(true) => Some(Self::String(false)),
            Self::String(false) => (byte != b'"').then_some(Self::String(byte == b'\\')),
            Self::Number => is_of_number(byte).then_some(self),
            Self::Literal(left) => (left > 1).then(|| Self::Literal(left - 1)),
        }
    }
}

/// Returns true for the bytes of numbers.
pub(super) const fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}

/// Returns true for the white space of JSON.
pub(super) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// Returns the JSON type of the values that start with a byte.
pub(super) const fn type_of(byte: u8) -> &'static str {
    match byte {
        b'"' => "string",
        b'{' => "object",
        b'[' => "array",
        b't' | b'f' => "boolean",
        b'n' => "null",
        _ => "number",
    }
}
