//! Matrices in the order in which the kernels read them.
//!
//! A file has its rows one after the other; the kernels take sixteen at a time, interleaved. [`Weights::pack`] brings all matrices
//! but the embedding into that order once, in memory of its own, and gives the pages of the file back as it goes, so that a
//! model takes its size once and not twice.

use std::io;
use std::sync::Arc;

use formwork_kernels::{
    Activation, Bounds, Operand, Outputs, PackedRows, Packing, Sketch, TILE_ROWS, pack, zeroed_memory,
};
use memmap2::Mmap;
use rayon::prelude::*;

use super::{Matrix, Order, Weights};

/// A weight matrix in the order of the kernels, one output per row.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    memory: Arc<Mmap>,
    /// Where it begins.
    offset: usize,
    packing: Packing,
    /// Outputs.
    pub(crate) rows: usize,
    /// Inputs.
    pub(crate) columns: usize,
}

impl Packed {
    fn view(&self) -> PackedRows<'_> {
        let len = PackedRows::bytes_for(self.packing, self.rows, self.columns);
        let bytes = &self.memory[self.offset..self.offset + len];
        PackedRows::new(self.packing, self.rows, self.columns, bytes)
    }

    /// The bytes that sixteen rows take.
    pub(crate) const fn tile_bytes(&self) -> usize {
        PackedRows::tile_bytes(self.packing, self.columns)
    }

    /// Expands a row.
    pub(crate) fn dequantize(&self, row: usize, out: &mut [f32]) {
        self.view().dequantize(row, out);
    }

    /// Multiplies the rows from a tile's first on with activation rows, as many as there are outputs for.
    pub(crate) fn products(&self, first_tile: usize, x: &[Activation<'_>], out: Outputs<'_>) {
        self.view().products(first_tile, x, out);
    }

    /// The products of a tile's rows with one activation row.
    pub(crate) fn tile(&self, tile: usize, x: Activation<'_>) -> [f32; TILE_ROWS] {
        self.view().tile(tile, x)
    }

    /// Bounds of the products of a tile's rows; `None` where the matrix is not packed for that.
    pub(crate) fn bounds(&self, tile: usize, x: &Sketch) -> Option<Bounds> {
        self.view().bounds(tile, x)
    }

    /// Whether there are bounds of products.
    pub(crate) const fn is_nested(&self) -> bool {
        self.packing.is_nested()
    }

    /// All matrices that were packed with this one.
    pub(crate) fn neighbours(&self) -> &[u8] {
        &self.memory
    }

    /// What activations are rounded to where they meet the rows.
    pub(crate) const fn operand(&self) -> Operand {
        self.packing.encoding().operand()
    }
}

impl Weights<Matrix> {
    /// Packs all matrices but the embedding.
    ///
    /// # Errors
    /// When the system has no memory for them.
    pub(crate) fn pack(self) -> io::Result<Weights<Packed>> {
        let mut len = 0;
        self.each(&mut |matrix, order| len += packed_bytes(matrix, order));
        let mut memory = zeroed_memory(len.max(1))?;
        let mut room = &mut memory[..];
        self.each(&mut |matrix, order| {
            let own = room.split_off_mut(..packed_bytes(matrix, order)).unwrap_or_default();
            fill(matrix, order(matrix.encoding()), own);
        });
        let memory = Arc::new(memory.make_read_only()?);
        let mut offset = 0;
        Ok(self.map(&mut |matrix, order| {
            let start = offset;
            offset += packed_bytes(&matrix, order);
            let Matrix { rows, columns, .. } = matrix;
            let packing = order(matrix.encoding());
            Packed { memory: Arc::clone(&memory), offset: start, packing, rows, columns }
        }))
    }
}

fn packed_bytes(matrix: &Matrix, order: Order) -> usize {
    PackedRows::bytes_for(order(matrix.encoding()), matrix.rows, matrix.columns)
}

/// Writes the rows of `matrix` to `out`, in parallel, and releases them as it goes.
fn fill(matrix: &Matrix, packing: Packing, out: &mut [u8]) {
    /// Small enough for the cache, large enough to be worth a thread.
    const BYTES_AT_ONCE: usize = 1 << 18;
    let (columns, row_bytes) = (matrix.columns, matrix.row_bytes());
    if matrix.rows == 0 || columns == 0 {
        return;
    }
    let tiles = (BYTES_AT_ONCE / (TILE_ROWS * row_bytes)).max(1);
    let tile_bytes = PackedRows::tile_bytes(packing, columns);
    let rows_at_once = tiles * TILE_ROWS;
    matrix
        .all_bytes()
        .par_chunks(rows_at_once * row_bytes)
        .zip(out.par_chunks_mut(tiles * tile_bytes))
        .enumerate()
        .for_each(|(piece, (rows, out))| {
            pack(packing, rows, row_bytes, out);
            let first = piece * rows_at_once;
            matrix.release(first..matrix.rows.min(first + rows_at_once));
        });
    // And what has come with the neighbours of pages that were read.
    matrix.release(0..matrix.rows);
}
