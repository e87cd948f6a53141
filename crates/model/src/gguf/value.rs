use std::fmt;
use std::ops::Range;

use super::cursor::Cursor;
use crate::error::Kind;

/// Type of a metadata value, or of the elements of a metadata array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueKind {
    /// An unsigned 8-bit integer.
    U8,
    /// A signed 8-bit integer.
    I8,
    /// An unsigned 16-bit integer.
    U16,
    /// A signed 16-bit integer.
    I16,
    /// An unsigned 32-bit integer.
    U32,
    /// A signed 32-bit integer.
    I32,
    /// A 32-bit float.
    F32,
    /// A boolean in one byte, 0 or 1.
    Bool,
    /// A UTF-8 string that is preceded by its length.
    String,
    /// An array: the type of its elements, their number and the elements.
    Array,
    /// An unsigned 64-bit integer.
    U64,
    /// A signed 64-bit integer.
    I64,
    /// A 64-bit float.
    F64,
}

impl ValueKind {
    pub(super) const fn from_id(id: u32) -> Option<Self> {
        Some(match id {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Bool,
            8 => Self::String,
            9 => Self::Array,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            _ => return None,
        })
    }

    /// Returns the size of a value in the file, in bytes. Returns `None` for strings and arrays,
    /// whose sizes vary.
    pub(super) const fn byte_len(self) -> Option<usize> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }

    /// Returns the name of the type for error messages, such as `u8` or `a string`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::String => "a string",
            Self::Array => "an array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        }
    }
}

/// A metadata value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// An unsigned integer of any width.
    Unsigned(u64),
    /// A signed integer of any width.
    Signed(i64),
    /// A float of any width. The conversion from 32 bits is exact.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    String(String),
    /// An array. Only its location is stored here, not its elements.
    Array(Array),
}

/// Array in the metadata of a file. [`Gguf::array_values`](super::Gguf::array_values) reads its
/// elements from the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array {
    pub(super) kind: ValueKind,
    pub(super) len: usize,
    pub(super) bytes: Range<usize>,
}

impl Array {
    /// Returns the type of the elements.
    pub const fn kind(&self) -> ValueKind {
        self.kind
    }

    /// Returns the number of elements.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Reports whether the array has no elements.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns an iterator over the elements of the array. `file` is the content of the whole file.
    pub(super) fn values<'a>(&self, file: &'a [u8]) -> impl Iterator<Item = Result<Value, Kind>> + use<'a> {
        let kind = self.kind;
        let base = self.bytes.start;
        let mut cursor = Cursor::new(&file[self.bytes.clone()]);
        (0..self.len).map(move |_| scalar(&mut cursor, kind).map_err(|error| moved(error, base)))
    }

    /// Returns an iterator over the elements of an array of strings, borrowed from `file`. Returns
    /// `None` if the elements are not strings.
    pub(super) fn strings<'a>(
        &self,
        file: &'a [u8],
    ) -> Option<impl Iterator<Item = Result<&'a str, Kind>> + use<'a>> {
        let base = self.bytes.start;
        let mut cursor = Cursor::new(&file[self.bytes.clone()]);
        (self.kind == ValueKind::String).then(|| {
            (0..self.len).map(move |_| cursor.string("a string").map_err(|error| moved(error, base)))
        })
    }
}

/// Adds `base` to the offset in an error, to convert an offset in an array to an offset in the
/// file.
fn moved(error: Kind, base: usize) -> Kind {
    match error {
        Kind::Truncated { what, at, limit } => Kind::Truncated { what, at: at + base, limit: limit + base },
        Kind::Utf8 { what, at } => Kind::Utf8 { what, at: at + base },
        other => other,
    }
}

impl Value {
    /// Returns the name of the value's type for error messages, such as `a string`.
    pub const fn kind_name(&self) -> &'static str {
        match self {
            Self::Unsigned(_) => "an unsigned integer",
            Self::Signed(_) => "a signed integer",
            Self::Float(_) => "a float",
            Self::Bool(_) => "a bool",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(value) => value.fmt(f),
            Self::Signed(value) => value.fmt(f),
            // A value that fits an `f32` exactly is printed as one: most values are stored as
            // `f32`, and their shortest decimal form is shorter.
            Self::Float(value) if f64::from(*value as f32).to_bits() == value.to_bits() => {
                (*value as f32).fmt(f)
            }
            Self::Float(value) => value.fmt(f),
            Self::Bool(value) => value.fmt(f),
            Self::String(value) => value.fmt(f),
            Self::Array(array) => write!(f, "[{} × {}]", array.len, array.kind.name()),
        }
    }
}

/// Reads a metadata value and its type. `key` is the key of the value, for error messages.
pub(super) fn read(cursor: &mut Cursor<'_>, key: &str) -> Result<Value, Kind> {
    let kind = read_kind(cursor, key)?;
    if kind != ValueKind::Array {
        return scalar(cursor, kind);
    }
    let at = cursor.at();
    let kind = read_kind(cursor, key)?;
    if kind == ValueKind::Array {
        return Err(Kind::NestedArray { key: key.to_owned(), at });
    }
    // A string takes at least the 8 bytes of its length.
    let len = cursor.count("array elements", kind.byte_len().unwrap_or(8))?;
    let start = cursor.at();
    if let Some(size) = kind.byte_len() {
        cursor.take((len * size) as u64, "an array")?;
    } else {
        for _ in 0..len {
            let bytes = cursor.u64("a string's length")?;
            cursor.take(bytes, "a string")?;
        }
    }
    Ok(Value::Array(Array { kind, len, bytes: start..cursor.at() }))
}

fn read_kind(cursor: &mut Cursor<'_>, key: &str) -> Result<ValueKind, Kind> {
    let at = cursor.at();
    let given = cursor.u32("a value type")?;
    ValueKind::from_id(given).ok_or_else(|| Kind::ValueType { key: key.to_owned(), given, at })
}

/// Reads a value that is not an array.
fn scalar(cursor: &mut Cursor<'_>, kind: ValueKind) -> Result<Value, Kind> {
    let Some(size) = kind.byte_len() else {
        return cursor.string("a string").map(|text| Value::String(text.to_owned()));
    };
    let mut field = [0; 8];
    field[..size].copy_from_slice(cursor.take(size as u64, "a value")?);
    let raw = u64::from_le_bytes(field);
    Ok(match kind {
        ValueKind::I8 => Value::Signed(i64::from(raw as i8)),
        ValueKind::I16 => Value::Signed(i64::from(raw as i16)),
        ValueKind::I32 => Value::Signed(i64::from(raw as i32)),
        ValueKind::I64 => Value::Signed(raw as i64),
        ValueKind::F32 => Value::Float(f64::from(f32::from_bits(raw as u32))),
        ValueKind::F64 => Value::Float(f64::from_bits(raw)),
        ValueKind::Bool => Value::Bool(raw != 0),
        _ => Value::Unsigned(raw),
    })
}
