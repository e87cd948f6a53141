use std::ops::Range;
use std::sync::Arc;

use formwork_kernels::Encoding;

use crate::file_map::FileMap;

/// A weight matrix with one output per row, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    storage: Storage,
    offset: usize,
    row_bytes: usize,
    encoding: Encoding,
    /// Number of outputs.
    pub(crate) rows: usize,
    /// Number of inputs.
    pub(crate) columns: usize,
}

/// Location of the bytes of a matrix.
#[derive(Clone, Debug)]
enum Storage {
    /// A mapped file.
    Mapped(Arc<FileMap>),
    /// Memory, for matrices that were converted on load.
    Owned(Arc<Vec<u8>>),
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
        Self { storage: Storage::Mapped(map), offset, row_bytes, encoding, rows, columns }
    }

    pub(super) fn owned(bytes: Vec<u8>, format: RowFormat, rows: usize, columns: usize) -> Self {
        let RowFormat { encoding, bytes: row_bytes } = format;
        Self { storage: Storage::Owned(Arc::new(bytes)), offset: 0, row_bytes, encoding, rows, columns }
    }

    /// Returns a range of rows as a matrix that shares the storage.
    pub(super) fn slice(&self, rows: Range<usize>) -> Self {
        Self { offset: self.offset + rows.start * self.row_bytes, rows: rows.len(), ..self.clone() }
    }

    /// Returns the given rows as a matrix. If they are not adjacent, they are copied.
    pub(super) fn gather(&self, rows: &[usize]) -> Self {
        if let Some(&first) = rows.first()
            && rows.iter().copied().eq(first..first + rows.len())
        {
            return self.slice(first..first + rows.len());
        }
        let bytes = rows.iter().flat_map(|&row| self.bytes(row..row + 1)).copied().collect();
        let format = RowFormat { encoding: self.encoding, bytes: self.row_bytes };
        Self::owned(bytes, format, rows.len(), self.columns)
    }

    /// Returns the bytes of a range of rows.
    fn bytes(&self, rows: Range<usize>) -> &[u8] {
        let all: &[u8] = match &self.storage {
            Storage::Mapped(map) => map,
            Storage::Owned(bytes) => bytes,
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
