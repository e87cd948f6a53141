use std::ops::Range;
use std::sync::Arc;

use formwork_kernels::Encoding;

use crate::file_map::FileMap;

/// A weight matrix, one output per row.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    storage: Storage,
    offset: usize,
    row_bytes: usize,
    encoding: Encoding,
    /// Outputs.
    pub(crate) rows: usize,
    /// Inputs.
    pub(crate) columns: usize,
}

/// Where the bytes of a matrix are.
#[derive(Clone, Debug)]
enum Storage {
    /// In a file.
    Mapped(Arc<FileMap>),
    /// In memory, where the matrix was converted when it was loaded.
    Owned(Arc<Vec<u8>>),
}

/// How the bytes of rows are to be read.
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

    /// Some rows as a matrix of their own.
    pub(super) fn slice(&self, rows: Range<usize>) -> Self {
        Self { offset: self.offset + rows.start * self.row_bytes, rows: rows.len(), ..self.clone() }
    }

    /// The bytes of some rows; rows are contiguous.
    fn bytes(&self, rows: Range<usize>) -> &[u8] {
        let all: &[u8] = match &self.storage {
            Storage::Mapped(map) => map,
            Storage::Owned(bytes) => bytes,
        };
        &all[self.offset + rows.start * self.row_bytes..self.offset + rows.end * self.row_bytes]
    }

    /// The bytes of all rows.
    pub(crate) fn all_bytes(&self) -> &[u8] {
        self.bytes(0..self.rows)
    }

    /// How a row is written down.
    pub(crate) const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Expands some rows into `out`, `[rows, columns]`.
    pub(crate) fn dequantize(&self, rows: Range<usize>, out: &mut [f32]) {
        let bytes = self.bytes(rows);
        for (row, out) in bytes.chunks_exact(self.row_bytes).zip(out.chunks_exact_mut(self.columns)) {
            formwork_kernels::dequantize(self.encoding, row, out);
        }
    }

    /// Gives the memory that holds some rows' pages of its file back to the system. They are read again where they are asked for.
    pub(super) fn release(&self, rows: Range<usize>) {
        if let Storage::Mapped(map) = &self.storage {
            map.release(self.offset + rows.start * self.row_bytes..self.offset + rows.end * self.row_bytes);
        }
    }

    /// The bytes that one row takes.
    pub(crate) const fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Whether the elements are plain floats.
    pub(crate) const fn is_float(&self) -> bool {
        self.encoding.is_float()
    }
}
