use crate::activation::Activation;
use crate::bounds::{Bounds, Sketch};
use crate::encoding::Encoding;
use crate::float::{Bf16, F16, F32, FloatFormat};
use crate::format::{BlockFormat, GROUP, each, expand};
use crate::layout::{
    Parts, TILE_ROWS, float_tile_bytes, head, head_bytes, levels, pack_floats, pack_tile, tile_bytes,
};
use crate::nested::Nested;
use crate::outputs::Outputs;
use crate::packing::Packing;
use crate::products::{Tier, Tiles, bounds_by, products_by};
use crate::words::{pack_words, place, word_tile_bytes};
use crate::{k, legacy, table};

/// A weight matrix whose rows are interleaved by sixteens ([`TILE_ROWS`]), the order in which the kernels read them.
///
/// A view: the bytes belong to the caller, who makes room for [`PackedRows::bytes_for`] and fills it with [`pack`]. Rows that
/// fill no tile are followed by rows of zeros. Any address will do; of one that is a multiple of 64, no load crosses a cache line,
/// and on pages of 2 MB a single token reads up to twice as fast as on those of 4 kB (`Q4_0` on one core of a Zen 4: 25 GB/s instead of
/// 19, and more where the machine is busy).
///
/// ```
/// use formwork_kernels::{Activation, Encoding, Outputs, PackedRows, Packing, pack};
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
/// packed.products(0, &[Activation::new(&values, &groups)], Outputs::new(&mut out, 3));
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
    /// Rows that [`pack`] has written to `bytes`.
    ///
    /// # Panics
    /// When there are not as many bytes as [`PackedRows::bytes_for`] says, or rows are not whole blocks.
    pub fn new(packing: Packing, rows: usize, columns: usize, bytes: &'a [u8]) -> Self {
        assert_eq!(Self::bytes_for(packing, rows, columns), bytes.len(), "bytes of packed rows");
        assert!(
            columns.is_multiple_of(packing.encoding().block().0),
            "{columns} columns of {:?} are not whole blocks",
            packing.encoding()
        );
        Self { packing, rows, columns, tile_bytes: Self::tile_bytes(packing, columns), bytes }
    }

    /// The room that rows take: their bytes in a file, and what fills up the last tile and the heads of each.
    pub const fn bytes_for(packing: Packing, rows: usize, columns: usize) -> usize {
        rows.div_ceil(TILE_ROWS) * Self::tile_bytes(packing, columns)
    }

    /// The bytes of a tile, a multiple of 64. Tiles can be packed each by itself.
    pub const fn tile_bytes(packing: Packing, columns: usize) -> usize {
        with_packing!(packing,
            B => tile_bytes::<B>(columns),
            W => word_tile_bytes::<W>(columns),
            E => float_tile_bytes::<E>(columns)
        )
    }

    /// How many rows there are.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// How many elements a row has.
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// The dot products of rows, from a tile's first on and as many as there are outputs for, with activation rows. A product does not
    /// depend on what else is asked for.
    ///
    /// # Panics
    /// When there are not as many tokens of outputs as of activations, more outputs than rows, or when activations are not as long as
    /// rows, or not rounded to the [`Operand`](crate::Operand) of the rows.
    pub fn products(&self, first_tile: usize, x: &[Activation<'_>], out: Outputs<'_>) {
        self.products_by(Tier::best(), first_tile, x, out);
    }

    /// The dot products of the rows of a tile; zeros where it has none.
    pub fn tile(&self, tile: usize, x: Activation<'_>) -> [f32; TILE_ROWS] {
        let mut out = [0.0; TILE_ROWS];
        products_by(Tier::best(), self.packing, self.tiles(tile, 1), &[x], Outputs::new(&mut out, TILE_ROWS));
        out
    }

    /// Bounds of a tile's products, for much less than the products themselves; `None` where rows are not nested. The bounds hold
    /// for what [`PackedRows::tile`] gives, bit by bit, of the activations that the sketch has taken.
    ///
    /// # Panics
    /// When the activations are not as long as rows.
    pub fn bounds(&self, tile: usize, x: &Sketch) -> Option<Bounds> {
        self.bounds_by(Tier::best(), tile, x)
    }

    /// [`PackedRows::bounds`], by instructions that this processor has.
    pub(crate) fn bounds_by(&self, tier: Tier, tile: usize, x: &Sketch) -> Option<Bounds> {
        bounds_by(tier, self.packing, self.tiles(tile, 1), x)
    }

    /// Expands a row, exactly as [`dequantize`](crate::dequantize) does.
    ///
    /// # Panics
    /// When there is no such row, or `out` is not as long as rows are.
    pub fn dequantize(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        assert_eq!(self.columns, out.len(), "room for a row");
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

    /// [`PackedRows::products`], by instructions that this processor has.
    pub(crate) fn products_by(&self, tier: Tier, first_tile: usize, x: &[Activation<'_>], out: Outputs<'_>) {
        let rows = out.rows();
        assert!(first_tile * TILE_ROWS + rows <= self.rows, "outputs for {} rows", self.rows);
        products_by(tier, self.packing, self.tiles(first_tile, rows.div_ceil(TILE_ROWS)), x, out);
    }

    fn tiles(&self, first: usize, count: usize) -> Tiles<'a> {
        let bytes = &self.bytes[first * self.tile_bytes..(first + count) * self.tile_bytes];
        Tiles { bytes, tile_bytes: self.tile_bytes, columns: self.columns }
    }
}

/// Packs rows of `row_bytes` each. `out` has room for whole tiles, of which only the last may lack rows.
///
/// # Panics
/// When `out` has more or less room than the rows take, or `row_bytes` is 0.
pub fn pack(packing: Packing, rows: &[u8], row_bytes: usize, out: &mut [u8]) {
    let columns = packing.encoding().elements(row_bytes);
    let tile_bytes = PackedRows::tile_bytes(packing, columns);
    let needed = PackedRows::bytes_for(packing, rows.len() / row_bytes, columns);
    assert_eq!(needed, out.len(), "room for packed rows");
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
