//! Matrices in the memory layout of the kernels.
//!
//! A file stores rows one after the other. The kernels read tiles of sixteen interleaved rows.
//! [`Weights::pack`] copies all matrices except the embedding to this layout. It releases the
//! file's pages during the copy, so that memory holds each matrix only once.

use std::io;
use std::sync::Arc;

use formwork_kernels::{
    Activation, Bounds, CoarseQuery, MatrixMut, Operand, PackedRows, Packing, TILE_ROWS, pack, zeroed_memory,
};
use memmap2::Mmap;
use rayon::prelude::*;

#[cfg(feature = "gpu")]
use super::FeedForward;
use super::matrix::{Origin, scale_by};
use super::{Matrix, Order, Weights};

/// A weight matrix with one output per row, in the layout of the kernels.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    memory: Arc<Mmap>,
    /// Offset of the matrix in `memory`, in bytes.
    offset: usize,
    /// Index of the matrix among those of the model, in the order of [`Weights::each`].
    index: usize,
    origin: Option<Origin>,
    packing: Packing,
    /// Factor of all elements: see [`Matrix::factor`].
    factor: f32,
    /// Number of outputs.
    pub(crate) rows: usize,
    /// Number of inputs.
    pub(crate) columns: usize,
}

impl Packed {
    fn view(&self) -> PackedRows<'_> {
        let len = PackedRows::bytes_for(self.packing, self.rows, self.columns);
        let bytes = &self.memory[self.offset..self.offset + len];
        PackedRows::new(self.packing, self.rows, self.columns, bytes)
    }

    /// Returns the index of the matrix among those of the model.
    pub(crate) const fn index(&self) -> usize {
        self.index
    }

    /// Returns the rows of a tensor that the matrix consists of.
    pub(crate) const fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Returns the size of a tile of sixteen rows, in bytes.
    pub(crate) const fn tile_bytes(&self) -> usize {
        PackedRows::tile_bytes(self.packing, self.columns)
    }

    /// Expands row `row` into `out`.
    pub(crate) fn dequantize(&self, row: usize, out: &mut [f32]) {
        self.view().dequantize(row, out);
        scale_by(self.factor, out);
    }

    /// Multiplies rows by the activations `x`, one row of activations per token. The first row of
    /// `out` is the first row of tile `first_tile`. The number of rows of `out` is the number of
    /// rows to multiply.
    pub(crate) fn products(&self, first_tile: usize, x: &[Activation<'_>], mut out: MatrixMut<'_>) {
        let tokens = out.tokens();
        self.view().products(first_tile, x, out.of(0..tokens));
        for out in out.into_tokens() {
            scale_by(self.factor, out);
        }
    }

    /// Returns the products of the sixteen rows of tile `tile` with the activations of one token.
    pub(crate) fn tile(&self, tile: usize, x: Activation<'_>) -> [f32; TILE_ROWS] {
        let mut products = self.view().tile(tile, x);
        scale_by(self.factor, &mut products);
        products
    }

    /// Returns bounds of the products of the rows of tile `tile`, or `None` if the packing does not
    /// support bounds ([`Packed::is_nested`]).
    pub(crate) fn bounds(&self, tile: usize, x: &CoarseQuery) -> Option<Bounds> {
        let mut bounds = self.view().bounds(tile, x)?;
        scale_by(self.factor, &mut bounds.lower);
        scale_by(self.factor, &mut bounds.upper);
        Some(bounds)
    }

    /// Reports whether the packing supports bounds of products.
    pub(crate) const fn is_nested(&self) -> bool {
        self.packing.is_nested()
    }

    /// Returns the memory of all matrices that were packed together with this one.
    pub(crate) fn neighbours(&self) -> &[u8] {
        &self.memory
    }

    /// Returns the form in which products with this matrix need the activations.
    pub(crate) const fn operand(&self) -> Operand {
        self.packing.encoding().operand()
    }
}

/// Packed matrices, which are handed out in the order in which they were packed.
struct Packer {
    memory: Arc<Mmap>,
    /// Offset and index of the next matrix.
    offset: usize,
    index: usize,
}

impl Packer {
    /// Packs the matrices that `each` passes to its argument. It must pass the same ones in each call.
    fn new(each: impl Fn(&mut dyn FnMut(&Matrix, Order))) -> io::Result<Self> {
        let mut len = 0;
        each(&mut |matrix, order| len += packed_bytes(matrix, order));
        let mut memory = zeroed_memory(len.max(1))?;
        let mut room = &mut memory[..];
        each(&mut |matrix, order| {
            let own = room.split_off_mut(..packed_bytes(matrix, order)).unwrap_or_default();
            fill(matrix, order(matrix.encoding()), own);
        });
        Ok(Self { memory: Arc::new(memory.make_read_only()?), offset: 0, index: 0 })
    }

    /// Returns the packed form of the next matrix.
    fn next(&mut self, matrix: &Matrix, order: Order) -> Packed {
        let packed = Packed {
            memory: Arc::clone(&self.memory),
            offset: self.offset,
            index: self.index,
            origin: matrix.origin().cloned(),
            packing: order(matrix.encoding()),
            factor: matrix.factor(),
            rows: matrix.rows,
            columns: matrix.columns,
        };
        self.offset += packed_bytes(matrix, order);
        self.index += 1;
        packed
    }
}

impl Weights<Matrix> {
    /// Packs all matrices except the embedding.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(crate) fn pack(self) -> io::Result<Weights<Packed>> {
        let mut packer = Packer::new(|mut see| self.each(&mut see))?;
        Ok(self.map(&mut |matrix, order| packer.next(&matrix, order)))
    }
}

/// Packs the matrices of feed-forward blocks together.
///
/// # Errors
/// Returns an error if there is not enough memory.
#[cfg(feature = "gpu")]
pub(crate) fn pack_blocks(blocks: Vec<Option<FeedForward>>) -> io::Result<Vec<Option<FeedForward<Packed>>>> {
    let mut packer = Packer::new(|see| {
        blocks.iter().flatten().for_each(|block| block.each(&mut |matrix| see(matrix, PLAIN)));
    })?;
    let mut pack = |matrix: Matrix| packer.next(&matrix, PLAIN);
    Ok(blocks.into_iter().map(|block| block.map(|block| block.map(&mut pack))).collect())
}

/// Returns the size of the packed matrices of a feed-forward block, in bytes.
#[cfg(feature = "gpu")]
pub(crate) fn packed_block_bytes(block: &FeedForward) -> usize {
    let mut bytes = 0;
    block.each(&mut |matrix| bytes += packed_bytes(matrix, PLAIN));
    bytes
}

/// Size of a model's matrices, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    /// Matrices that are packed.
    pub(crate) packed: usize,
    /// Matrices that stay in the file.
    pub(crate) mapped: usize,
    /// Matrices in memory before they are packed, because they are not read as they are stored.
    pub(crate) converted: usize,
}

impl Weights<Matrix> {
    /// Returns the size of the matrices.
    pub(crate) fn size(&self) -> Size {
        let mut size = Size::default();
        self.each(&mut |matrix, order| {
            size.packed += packed_bytes(matrix, order);
            if !matrix.is_mapped() {
                size.converted += matrix.rows * matrix.row_bytes();
            }
        });
        let tables =
            [self.embedding.as_ref(), self.per_layer_inputs.as_ref().map(|inputs| &inputs.embedding)];
        for table in tables.into_iter().flatten() {
            let bytes = table.rows * table.row_bytes();
            *if table.is_mapped() { &mut size.mapped } else { &mut size.packed } += bytes;
        }
        size
    }
}

/// Packing of all matrices but those of heads.
const PLAIN: Order = Packing::plain;

/// Packs matrices that do not belong to the weights of a model. The index of each is its place in
/// `matrices`.
///
/// # Errors
/// Returns an error if there is not enough memory.
pub(crate) fn pack_all(matrices: &[Matrix]) -> io::Result<Vec<Packed>> {
    let mut packer = Packer::new(|see| matrices.iter().for_each(|matrix| see(matrix, PLAIN)))?;
    Ok(matrices.iter().map(|matrix| packer.next(matrix, PLAIN)).collect())
}

fn packed_bytes(matrix: &Matrix, order: Order) -> usize {
    PackedRows::bytes_for(order(matrix.encoding()), matrix.rows, matrix.columns)
}

/// Packs the rows of `matrix` into `out` in parallel. Releases the source pages as soon as they are
/// packed.
fn fill(matrix: &Matrix, packing: Packing, out: &mut [u8]) {
    /// Size of a parallel task: small enough for the cache, large enough to outweigh the overhead
    /// of a task.
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
    // Read-ahead may have loaded pages again after their release.
    matrix.release(0..matrix.rows);
}
