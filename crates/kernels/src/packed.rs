use crate::activation::Activation;
use crate::bounds::{Bounds, CoarseQuery};
use crate::encoding::Encoding;
use crate::f16_as_i16::{pack_words, place, word_tile_bytes};
use crate::float::{Bf16, F16, F32, FloatFormat};
use crate::format::{BlockFormat, GROUP, each, expand};
use crate::layout::{
    Parts, TILE_ROWS, Tiles, float_tile_bytes, head, head_bytes, levels, pack_floats, pack_tile, tile_bytes,
};
use crate::matrix_mut::MatrixMut;
use crate::packing::Packing;
use crate::products::{bounds_by, products_by};
use crate::split_bits::SplitBits;
use crate::tier::Tier;
use crate::{grid, k, legacy, nvfp4, table, ternary};

/// A weight matrix in the order in which the kernels read it: rows interleaved in tiles of sixteen
/// ([`TILE_ROWS`]).
///
/// This is a view. The caller owns the bytes, allocates [`PackedRows::bytes_for`] of them and fills
/// The type borrows its bytes. The caller allocates [`PackedRows::bytes_for`] bytes and fills them
/// with [`pack`]. If the last tile has fewer than sixteen rows, rows of zeros fill it up.
///
/// The bytes may have any alignment. If they are aligned to 64, no load crosses a cache line. On
/// pages of 2 MB instead of 4 kB, the product with a single token is up to twice as fast. For
/// example, the product with `Q4_0` rows on one core of a Zen 4 reads 25 GB/s instead of 19. The
/// difference is larger on a busy machine.
///
/// ```
/// use formwork_kernels::{Activation, Encoding, MatrixMut, PackedRows, Packing, pack};
///
/// // Three rows of 32 eight-bit weights with the scale 1: a row of ones, one of twos and one of threes.
/// let rows: Vec<u8> = (1..=3).flat_map(|q| [&[0x00, 0x3c][..], &[q; 32]].concat()).collect();
/// let packing = Packing::plain(Encoding::Q8_0);
/// let mut bytes = vec![0; PackedRows::bytes_for(packing, 3, 32)];
/// pack(packing, &rows, 34, &mut bytes);
/// let packed = PackedRows::new(packing, 3, 32, &bytes);
///
/// let values = [1.0; 32];
/// let groups = Activation::quantize(&values);
/// let mut out = [0.0; 3];
/// packed.products(0, &[Activation::new(&values, &groups)], MatrixMut::new(&mut out, 3));
/// assert_eq!([32.0, 64.0, 96.0], out);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PackedRows<'a> {
    packing: Packing,
    rows: usize,
    columns: usize,
    tile_bytes: usize,
    bytes: &'a [u8],
}

impl<'a> PackedRows<'a> {
    /// Creates a view of a `[rows, columns]` matrix that [`pack`] has written to `bytes`.
    ///
    /// # Panics
    /// Panics if the length of `bytes` is not [`PackedRows::bytes_for`], or if `columns` is not a
    /// multiple of the encoding's block length.
    pub fn new(packing: Packing, rows: usize, columns: usize, bytes: &'a [u8]) -> Self {
        assert_eq!(Self::bytes_for(packing, rows, columns), bytes.len(), "length of the packed bytes");
        assert!(
            columns.is_multiple_of(packing.encoding().block().0),
            "{columns} columns of {:?} are not whole blocks",
            packing.encoding()
        );
        Self { packing, rows, columns, tile_bytes: Self::tile_bytes(packing, columns), bytes }
    }

    /// Returns the size of a packed matrix in bytes. This is the size in a file plus padding: the
    /// last tile is filled up to sixteen rows, and the block headers of a tile to a multiple of 64
    /// bytes. [`Encoding`] states which types are larger when packed.
    pub const fn bytes_for(packing: Packing, rows: usize, columns: usize) -> usize {
        rows.div_ceil(TILE_ROWS) * Self::tile_bytes(packing, columns)
    }

    /// Returns the size of a tile in bytes, a multiple of 64. Tiles can be packed independently of
    /// each other.
    pub const fn tile_bytes(packing: Packing, columns: usize) -> usize {
        with_packing!(packing,
            B => tile_bytes::<B>(columns),
            W => word_tile_bytes::<W>(columns),
            E => float_tile_bytes::<E>(columns)
        )
    }

    /// Returns the number of rows.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of elements in a row.
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// Computes the dot products of rows with the activation rows `x`, one per token.
    ///
    /// Row 0 of `out` is the first row of tile `first_tile`. The number of rows of `out` is the
    /// number of rows to multiply. A product does not depend on the other rows and tokens of the
    /// call.
    ///
    /// # Panics
    /// Panics if `x` and `out` have different numbers of tokens, or if `out` has more rows than the
    /// matrix from `first_tile` on. Also panics if activations are not as long as rows, or not
    /// rounded to the [`Operand`](crate::Operand) of the rows.
    pub fn products(&self, first_tile: usize, x: &[Activation<'_>], out: MatrixMut<'_>) {
        self.products_by(Tier::best(), first_tile, x, out);
    }

    /// Returns the dot products of the sixteen rows of tile `tile` with the activation row `x`.
    /// Rows of padding have the product 0.
    pub fn tile(&self, tile: usize, x: Activation<'_>) -> [f32; TILE_ROWS] {
        let mut out = [0.0; TILE_ROWS];
        products_by(
            Tier::best(),
            self.packing,
            self.tiles(tile, 1),
            &[x],
            MatrixMut::new(&mut out, TILE_ROWS),
        );
        out
    }

    /// Returns lower and upper bounds of the products of tile `tile`. Returns `None` if the rows
    /// are not nested ([`Packing::is_nested`]).
    ///
    /// Computing bounds costs much less than computing products. The bounds hold for the result of
    /// [`PackedRows::tile`] with the activations that were passed to [`CoarseQuery::take`].
    ///
    /// # Panics
    /// Panics if the activations are not as long as rows.
    pub fn bounds(&self, tile: usize, x: &CoarseQuery) -> Option<Bounds> {
        self.bounds_by(Tier::best(), tile, x)
    }

    /// Computes [`PackedRows::bounds`] with the instructions of `tier`.
    pub(crate) fn bounds_by(&self, tier: Tier, tile: usize, x: &CoarseQuery) -> Option<Bounds> {
        bounds_by(tier, self.packing, self.tiles(tile, 1), x)
    }

    /// Expands row `row` into `out`, exactly as [`dequantize`](crate::dequantize) does.
    ///
    /// # Panics
    /// Panics if the matrix has no row `row`, or if `out` is not as long as a row.
    pub fn dequantize(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows, "row {row} is out of range ({} rows)", self.rows);
        assert_eq!(self.columns, out.len(), "length of the output row");
        let tile = self.tiles(row / TILE_ROWS, 1).bytes;
        let row = row % TILE_ROWS;
        with_packing!(self.packing,
            B => dequantize_blocks::<B>(tile, row, out),
            W => for (column, out) in out.iter_mut().enumerate() {
                *out = W::decode(&tile[place(row, column)..]);
            },
            E => for (out, column) in out.iter_mut().zip(tile.chunks_exact(TILE_ROWS * E::BYTES)) {
                *out = E::decode(&column[row * E::BYTES..]);
            }
        );
    }

    /// Computes [`PackedRows::products`] with the instructions of `tier`.
    pub(crate) fn products_by(
        &self,
        tier: Tier,
        first_tile: usize,
        x: &[Activation<'_>],
        out: MatrixMut<'_>,
    ) {
        let rows = out.rows();
        assert!(first_tile * TILE_ROWS + rows <= self.rows, "outputs exceed the {} rows", self.rows);
        products_by(tier, self.packing, self.tiles(first_tile, rows.div_ceil(TILE_ROWS)), x, out);
    }

    fn tiles(&self, first: usize, count: usize) -> Tiles<'a> {
        let bytes = &self.bytes[first * self.tile_bytes..(first + count) * self.tile_bytes];
        Tiles { bytes, tile_bytes: self.tile_bytes, columns: self.columns }
    }
}

/// Packs `rows` into the tiles of `out`. `rows` contains the rows one after the other, each of
/// `row_bytes` bytes. If their number is not a multiple of sixteen, rows of zeros fill up the last
/// tile.
///
/// # Panics
/// Panics if the length of `out` is not [`PackedRows::bytes_for`] these rows, or if `row_bytes` is
/// 0.
pub fn pack(packing: Packing, rows: &[u8], row_bytes: usize, out: &mut [u8]) {
    let columns = packing.encoding().elements(row_bytes);
    let tile_bytes = PackedRows::tile_bytes(packing, columns);
    let needed = PackedRows::bytes_for(packing, rows.len() / row_bytes, columns);
    assert_eq!(needed, out.len(), "length of the packing buffer");
    let tiles = rows.chunks(TILE_ROWS * row_bytes).zip(out.chunks_exact_mut(tile_bytes));
    with_packing!(packing,
        B => tiles.for_each(|(rows, out)| pack_tile::<B>(rows, row_bytes, out)),
        W => tiles.for_each(|(rows, out)| pack_words::<W>(rows, row_bytes, out)),
        E => tiles.for_each(|(rows, out)| pack_floats::<E>(rows, row_bytes, out))
    );
}

fn dequantize_blocks<B: BlockFormat>(tile: &[u8], row: usize, out: &mut [f32]) {
    let parts = Parts::of::<B>(tile, out.len());
    let blocks = parts.heads.chunks_exact(head_bytes::<B>()).zip(out.chunks_exact_mut(B::LEN));
    for (block, (heads, out)) in blocks.enumerate() {
        let header = B::header(&head::<B>(heads, row));
        for (index, out) in out.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
            let levels = levels::<B, 1>(parts.codes::<B>(block * (B::LEN / GROUP) + index), row);
            expand::<B>(&header, index, each(|i| levels[i / 4][0][i % 4]), out);
        }
    }
}
