use std::fmt;
use std::ops::Range;

use super::cursor::Cursor;
use crate::error::Kind;

/// The types of metadata values, by their number in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueKind {
    /// `u8`
    U8,
    /// `i8`
    I8,
    /// `u16`
    U16,
    /// `i16`
    I16,
    /// `u32`
    U32,
    /// `i32`
    I32,
    /// `f32`
    F32,
    /// One byte, 0 or 1.
    Bool,
    /// Length-prefixed UTF-8.
    String,
    /// An element type, a count and the elements.
    Array,
    /// `u64`
    U64,
    /// `i64`
    I64,
    /// `f64`
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

    /// The size of one value in the file, in bytes; `None` where it varies.
    pub(super) const fn byte_len(self) -> Option<usize> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }

    /// The type's name, for people.
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
    /// Any unsigned integer.
    Unsigned(u64),
    /// Any signed integer.
    Signed(i64),
    /// Either float; an `f32` is widened, which is exact.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Text.
    String(String),
    /// Many values of one type; the elements stay in the file.
    Array(Array),
}

/// An array of metadata: its elements stay in the file until they are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array {
    pub(super) kind: ValueKind,
    pub(super) len: usize,
    pub(super) bytes: Range<usize>,
}

impl Array {
    /// The type of the elements.
    pub const fn kind(&self) -> ValueKind {
        self.kind
    }

    /// How many elements there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements; `file` is the whole file.
    pub(super) fn values<'a>(&self, file: &'a [u8]) -> impl Iterator<Item = Result<Value, Kind>> + use<'a> {
        let kind = self.kind;
        let base = self.bytes.start;
        let mut cursor = Cursor::new(&file[self.bytes.clone()]);
        (0..self.len).map(move |_| scalar(&mut cursor, kind).map_err(|error| moved(error, base)))
    }

    /// The elements of an array of strings, without a copy; `None` for other arrays.
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

/// Makes an offset inside an array one inside the file.
fn moved(error: Kind, base: usize) -> Kind {
    match error {
        Kind::Truncated { what, at, limit } => Kind::Truncated { what, at: at + base, limit: limit + base },
        Kind::Utf8 { what, at } => Kind::Utf8 { what, at: at + base },
        other => other,
    }
}

impl Value {
    /// The value's type, for messages.
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
            // Most floats were written as f32 and read shortest as such.
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

/// Reads the value of `key`.
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
    // A string takes at least its length field.
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

/// Reads one value that is not an array.
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
