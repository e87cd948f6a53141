use super::super::matrix::{Purpose, RowFormat};
use crate::checkpoint::Checkpoint;
use crate::error::Kind;
use formwork_kernels::{Encoding, GROUP};

/// The tensors of a quantised matrix, or of the matrices of several experts.
pub(super) struct Source<'a> {
    checkpoint: &'a Checkpoint,
    pub(super) purpose: Purpose,
    /// Start of the names of all tensors of the matrix.
    prefix: &'a str,
    /// Character between `prefix` and the name of a part.
    separator: char,
    /// Name of the tensor with the elements, for errors that do not concern another tensor.
    name: &'a str,
    /// Number of matrices.
    pub(super) count: usize,
    /// Number of rows of each matrix.
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl<'a> Source<'a> {
    /// Finds the tensors of the matrix `name`. Returns `None` if `shape` is not that of a matrix or
    /// of several matrices.
    pub(super) fn new(
        checkpoint: &'a Checkpoint,
        purpose: Purpose,
        name: &'a str,
        shape: &[u64],
    ) -> Option<Self> {
        let (columns, rows, count) = match *shape {
            [columns, rows] => (columns, rows, 1),
            [columns, rows, count] => (columns, rows, count),
            _ => return None,
        };
        // The tensors of stacked experts are not inside a module of their own.
        let (prefix, separator) = name.strip_suffix(".weight").map_or((name, '_'), |module| (module, '.'));
        let [count, rows, columns] = [count, rows, columns].map(|size| size as usize);
        Some(Self { checkpoint, purpose, prefix, separator, name, count, rows, columns })
    }

    /// Returns the number of rows of all matrices together.
    pub(super) const fn all_rows(&self) -> usize {
        self.count * self.rows
    }

    /// Returns the full name of the tensor `part`.
    pub(super) fn name(&self, part: &str) -> String {
        match part {
            "weight" => self.name.to_owned(),
            // `NAME_scale_inv` stands beside the tensor `NAME`.
            _ if self.separator == '_' => format!("{}_{}", self.prefix, part.trim_start_matches("weight_")),
            _ => format!("{}.{part}", self.prefix),
        }
    }

    pub(super) fn has(&self, part: &str) -> bool {
        self.checkpoint.tensor(&self.name(part)).is_some()
    }

    /// Returns the name of the type of the tensor `part`, or `None` if there is no such tensor.
    pub(super) fn dtype(&self, part: &str) -> Option<&'static str> {
        self.checkpoint.tensor(&self.name(part)).map(|tensor| tensor.dtype.name())
    }

    /// Returns the shape of the tensor `part`, fastest-running dimension first.
    pub(super) fn shape(&self, part: &str) -> Result<&'a [u64], Kind> {
        let tensor = self.name(part);
        let found = self.checkpoint.tensor(&tensor);
        found.map(|tensor| &*tensor.shape).ok_or(Kind::MissingTensor { tensor })
    }

    /// Returns the bytes of the tensor `part`, after checking its type and shape.
    pub(super) fn bytes(&self, part: &str, dtype: &str, shape: &[usize]) -> Result<&'a [u8], Kind> {
        let tensor = self.name(part);
        let shape: Vec<u64> = shape.iter().map(|&dim| dim as u64).collect();
        let info = self.checkpoint.shaped(&tensor, &shape)?;
        if info.dtype.name() == dtype {
            return Ok(self.checkpoint.bytes(info));
        }
        Err(Kind::UnsupportedType { tensor, given: info.dtype.name() })
    }

    /// Returns the elements of the tensor `part` of 32-bit integers.
    pub(super) fn words(&self, part: &str, shape: &[usize]) -> Result<Words<'a>, Kind> {
        self.bytes(part, "I32", shape).map(|bytes| Words(bytes.as_chunks().0))
    }

    /// Returns the elements of the tensor `part`, which are floats or powers of two.
    ///
    /// # Errors
    /// Returns an error if the tensor is missing, or if an element is negative or not finite.
    pub(super) fn scales(&self, part: &str) -> Result<Vec<f32>, Kind> {
        let (tensor, shape) = (self.name(part), self.shape(part)?);
        let values = match self.dtype(part) {
            // The bits of an exponent alone.
            Some("F8_E8M0") => {
                let dims: Vec<usize> = shape.iter().map(|&dim| dim as usize).collect();
                let power = |&exponent: &u8| match exponent {
                    u8::MAX => f32::NAN,
                    exponent => (f32::from(exponent) - 127.0).exp2(),
                };
                self.bytes(part, "F8_E8M0", &dims)?.iter().map(power).collect()
            }
            _ => self.checkpoint.values(&tensor, shape)?,
        };
        match values.iter().position(|scale| !scale.is_finite() || *scale < 0.0) {
            Some(index) => Err(Kind::Scale { tensor, index, given: values[index] }),
            None => Ok(values),
        }
    }

    /// Returns the error for a tensor `part` that does not have the shape `expected`.
    pub(super) fn wrong_shape(&self, part: &str, expected: &[usize]) -> Kind {
        let given = self.shape(part).unwrap_or_default().to_vec();
        let expected = expected.iter().map(|&dim| dim as u64).collect();
        Kind::Shape { tensor: self.name(part), given, expected }
    }

    /// Returns the format of rows of `encoding`.
    ///
    /// # Errors
    /// Returns an error if the rows are not whole blocks.
    pub(super) fn row_format(&self, encoding: Encoding) -> Result<RowFormat, Kind> {
        let (len, bytes) = encoding.block();
        if self.columns.is_multiple_of(len) {
            return Ok(RowFormat { encoding, bytes: self.columns / len * bytes });
        }
        let (given, limit) = (self.columns as u64, len as u64);
        Err(Kind::RowLength { tensor: self.name.to_owned(), given, limit, dtype: "quantised" })
    }

    /// Returns the error for elements that are not finite.
    pub(super) fn not_finite(&self) -> Kind {
        Kind::NotFinite { tensor: self.name.to_owned() }
    }

    /// Reports whether groups of `len` columns are whole groups of the kernels.
    pub(super) const fn is_aligned(&self, len: usize) -> bool {
        len.is_multiple_of(GROUP) && self.columns.is_multiple_of(GROUP)
    }
}

/// A tensor of 32-bit integers that contain several codes each.
#[derive(Clone, Copy)]
pub(super) struct Words<'a>(&'a [[u8; 4]]);

impl Words<'_> {
    /// Returns the word at `index`.
    pub(super) fn at(self, index: usize) -> u32 {
        u32::from_le_bytes(self.0[index])
    }
}

/// Returns the code of `bits` bits at position `index` of a word. The first code is in the lowest
/// bits.
pub(super) const fn code(word: u32, index: usize, bits: usize) -> u8 {
    (word >> (index * bits) & ((1 << bits) - 1)) as u8
}
