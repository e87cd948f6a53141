use std::ops::Range;
use std::sync::Arc;

use formwork_kernels::Encoding;
use rayon::prelude::*;

use crate::file_map::FileMap;
use crate::ops;

/// A weight matrix with one output per row, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    storage: Storage,
    offset: usize,
    row_bytes: usize,
    encoding: Encoding,
    /// Factor of all elements, beside the scales in the rows.
    factor: f32,
    /// `None` if the matrix is not made of whole rows or columns of one tensor.
    origin: Option<Origin>,
    /// Number of outputs.
    pub(crate) rows: usize,
    /// Number of inputs.
    pub(crate) columns: usize,
}

/// Rows of a tensor of a checkpoint that a matrix consists of. Adapters name the tensor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    /// Name of the tensor, without `.weight`.
    pub(crate) module: Arc<str>,
    /// Number of rows of each of the stacked matrices in the tensor.
    pub(crate) height: usize,
    /// Rows of the tensor, counted through all of its matrices.
    pub(crate) rows: Rows,
    /// True if the rows of the tensor are the columns of the matrix.
    pub(crate) is_transposed: bool,
}

/// Indices of rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Rows {
    Range(Range<usize>),
    Listed(Arc<[usize]>),
}

impl Rows {
    /// Returns the row at `index`.
    pub(crate) fn at(&self, index: usize) -> usize {
        match self {
            Self::Range(rows) => rows.start + index,
            Self::Listed(rows) => rows[index],
        }
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Range(rows) => rows.len(),
            Self::Listed(rows) => rows.len(),
        }
    }
}

impl Origin {
    /// Creates the origin of a matrix with all `rows` rows of the tensor `name`, which contains
    /// matrices of `height` rows each.
    pub(super) fn whole(name: &str, rows: usize, height: usize) -> Self {
        let module = name.strip_suffix(".weight").unwrap_or(name).into();
        Self { module, height, rows: Rows::Range(0..rows), is_transposed: false }
    }

    /// Returns the origin of the transposed matrix.
    pub(super) fn transposed(&self) -> Self {
        Self { is_transposed: !self.is_transposed, ..self.clone() }
    }

    /// Returns the origin of some rows of the matrix. Returns `None` if the matrix is transposed.
    fn part(&self, mut rows: impl Iterator<Item = usize> + Clone) -> Option<Self> {
        if self.is_transposed {
            return None;
        }
        let len = rows.clone().count();
        let first = self.rows.at(rows.clone().next()?);
        let is_range = rows.clone().zip(first..).all(|(row, source)| self.rows.at(row) == source);
        let rows = if is_range {
            Rows::Range(first..first + len)
        } else {
            Rows::Listed(rows.by_ref().map(|row| self.rows.at(row)).collect())
        };
        Some(Self { rows, ..self.clone() })
    }
}

/// Location of the bytes of a matrix.
#[derive(Clone, Debug)]
enum Storage {
    /// A mapped file.
    Mapped(Arc<FileMap>),
    /// Memory, for matrices that were converted on load.
    Owned(Arc<Vec<u8>>),
    /// Nowhere: the weights are only measured ([`Purpose::Measure`]).
    Absent,
}

/// Purpose for which weights are bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// To compute with them.
    Compute,
    /// To find the size of the matrices. Matrices that would have to be converted have no bytes.
    Measure,
}

/// Encoding of a row, and its size in bytes.
#[derive(Clone, Copy)]
pub(super) struct RowFormat {
    pub(super) encoding: Encoding,
    pub(super) bytes: usize,
}

impl Matrix {
    pub(super) const fn mapped(
        map: Arc<FileMap>,
        offset: usize,
        format: RowFormat,
        rows: usize,
        columns: usize,
    ) -> Self {
        let RowFormat { encoding, bytes: row_bytes } = format;
        let storage = Storage::Mapped(map);
        Self { storage, offset, row_bytes, encoding, factor: 1.0, origin: None, rows, columns }
    }

    /// Creates a matrix in memory from the bytes that `bytes` returns. It is not called if the
    /// purpose is only to measure.
    pub(super) fn owned(
        purpose: Purpose,
        format: RowFormat,
        rows: usize,
        columns: usize,
        bytes: impl FnOnce() -> Vec<u8>,
    ) -> Self {
        let RowFormat { encoding, bytes: row_bytes } = format;
        let storage = match purpose {
            Purpose::Compute => Storage::Owned(Arc::new(bytes())),
            Purpose::Measure => Storage::Absent,
        };
        Self { storage, offset: 0, row_bytes, encoding, factor: 1.0, origin: None, rows, columns }
    }

    /// Creates a matrix in memory. `fill` writes the bytes of a range of rows. It is called for
    /// several ranges in parallel, or not at all if the purpose is only to measure.
    pub(super) fn filled(
        purpose: Purpose,
        format: RowFormat,
        rows: usize,
        columns: usize,
        fill: impl Fn(Range<usize>, &mut [u8]) + Sync,
    ) -> Self {
        const ROWS_AT_ONCE: usize = 64;
        Self::owned(purpose, format, rows, columns, || {
            let mut bytes = vec![0; rows * format.bytes];
            bytes.par_chunks_mut(ROWS_AT_ONCE * format.bytes).enumerate().for_each(|(index, out)| {
                let first = index * ROWS_AT_ONCE;
                fill(first..first + out.len() / format.bytes, out);
            });
            bytes
        })
    }

    /// Reports whether the matrix is in a file.
    pub(super) const fn is_mapped(&self) -> bool {
        matches!(self.storage, Storage::Mapped(_))
    }

    /// Creates a matrix of 32-bit floats in memory. Shape of `values`: `[rows, columns]`.
    pub(crate) fn of_floats(values: &[f32], columns: usize) -> Self {
        let format = RowFormat { encoding: Encoding::F32, bytes: 4 * columns };
        let bytes = || values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::owned(Purpose::Compute, format, values.len() / columns.max(1), columns, bytes)
    }

    /// Returns the matrix with all elements multiplied by `factor`.
    pub(crate) fn scaled(self, factor: f32) -> Self {
        Self { factor: self.factor * factor, ..self }
    }

    /// Returns the matrix with the given origin.
    pub(super) fn with_origin(self, origin: Option<Origin>) -> Self {
        Self { origin, ..self }
    }

    /// Returns the rows of a tensor that the matrix consists of.
    pub(crate) const fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Returns the matrix without its factor.
    #[cfg(feature = "candle")]
    pub(crate) fn unscaled(&self) -> Self {
        Self { factor: 1.0, ..self.clone() }
    }

    /// Returns the factor of all elements, which is not part of the rows.
    pub(crate) const fn factor(&self) -> f32 {
        self.factor
    }

    /// Returns a range of rows as a matrix that shares the storage.
    pub(super) fn slice(&self, rows: Range<usize>) -> Self {
        let offset = self.offset + rows.start * self.row_bytes;
        let origin = self.origin.as_ref().and_then(|origin| origin.part(rows.clone()));
        Self { offset, rows: rows.len(), origin, ..self.clone() }
    }

    /// Returns the given rows as a matrix. If they are not adjacent, they are copied.
    pub(super) fn gather(&self, purpose: Purpose, rows: &[usize]) -> Self {
        if let Some(&first) = rows.first()
            && rows.iter().copied().eq(first..first + rows.len())
        {
            return self.slice(first..first + rows.len());
        }
        let bytes = || rows.iter().flat_map(|&row| self.bytes(row..row + 1)).copied().collect();
        let format = RowFormat { encoding: self.encoding, bytes: self.row_bytes };
        let origin = self.origin.as_ref().and_then(|origin| origin.part(rows.iter().copied()));
        let gathered = Self::owned(purpose, format, rows.len(), self.columns, bytes);
        gathered.scaled(self.factor).with_origin(origin)
    }

    /// Returns the bytes of a range of rows.
    ///
    /// # Panics
    /// Panics if the matrix was bound only to be measured.
    fn bytes(&self, rows: Range<usize>) -> &[u8] {
        let all: &[u8] = match &self.storage {
            Storage::Mapped(map) => map,
            Storage::Owned(bytes) => bytes,
            Storage::Absent => panic!("the matrix was bound only to be measured"),
        };
        &all[self.offset + rows.start * self.row_bytes..self.offset + rows.end * self.row_bytes]
    }

    /// Returns the bytes of all rows.
    pub(crate) fn all_bytes(&self) -> &[u8] {
        self.bytes(0..self.rows)
    }

    /// Returns the encoding of the rows.
    pub(crate) const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Expands a range of rows into `out`, of shape `[rows, columns]`.
    pub(crate) fn dequantize(&self, rows: Range<usize>, out: &mut [f32]) {
        let bytes = self.bytes(rows);
        for (row, out) in bytes.chunks_exact(self.row_bytes).zip(out.chunks_exact_mut(self.columns)) {
            formwork_kernels::dequantize(self.encoding, row, out);
            scale_by(self.factor, out);
        }
    }

    /// Releases the pages of these rows from memory if the matrix is in a file. A later access
    /// reads them again.
    pub(super) fn release(&self, rows: Range<usize>) {
        if let Storage::Mapped(map) = &self.storage {
            map.release(self.offset + rows.start * self.row_bytes..self.offset + rows.end * self.row_bytes);
        }
    }

    /// Returns the size of a row in bytes.
    pub(crate) const fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Reports whether the elements are floats rather than quantised blocks.
    pub(crate) const fn is_float(&self) -> bool {
        self.encoding.is_float()
    }
}

/// Multiplies `values` by the factor of a matrix, which usually is 1.
#[expect(clippy::float_cmp, reason = "only what changes nothing is left out")]
pub(super) fn scale_by(factor: f32, values: &mut [f32]) {
    if factor != 1.0 {
        ops::scale(values, factor);
    }
}
