//! Dot products of weight rows with activations.

use crate::activation::{Activation, Q8Block};
use crate::bounds::{Bounds, CoarseQuery, bounds};
use crate::encoding::{Encoding, Operand};
use crate::f16_as_i16::{Q16Block, word_tile};
use crate::float::{Bf16, CHAINS, F16, F32, FloatFormat};
use crate::format::{BlockFormat, GROUP, Header, each};
use crate::layout::{PIECES, Parts, TILE_ROWS, Tiles, head, head_bytes, levels};
use crate::matrix_mut::MatrixMut;
use crate::packing::Packing;
use crate::split_bits::SplitBits;
use crate::tier::{Tier, with_tier};
use crate::{grid, k, legacy, nvfp4, table, ternary};

/// Computes the products of tiles with the instructions of `tier`. The last tile may have more rows
/// than `out`.
#[allow(unsafe_code, reason = "kernels need the instructions of their tier")]
pub(crate) fn products_by(
    tier: Tier,
    packing: Packing,
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    mut out: MatrixMut<'_>,
) {
    tier.check();
    assert_eq!(x.len(), out.tokens(), "number of activations and of outputs");
    let groups = tiles.columns / GROUP;
    let fits = |x: &Activation<'_>| {
        let is_rounded = match packing.encoding().operand() {
            Operand::Bytes => x.groups().len() == groups && x.fine_rests().is_none_or(|x| x.len() == groups),
            Operand::Words => x.words().len() == Q16Block::count(tiles.columns),
            Operand::Floats => true,
        };
        x.values().len() == tiles.columns && is_rounded
    };
    let operand = packing.encoding().operand();
    assert!(x.iter().all(fits), "activations must match rows of {} weights as {operand:?}", tiles.columns);
    if tiles.columns == 0 || x.is_empty() {
        (0..x.len()).for_each(|token| out.token(token).fill(0.0));
        return;
    }
    assert!(
        out.rows() <= tiles.bytes.len() / tiles.tile_bytes * TILE_ROWS,
        "more output rows than packed rows"
    );
    // SAFETY of the calls below: `check` asserts that the processor has the tier. The assertions above
    // check that activations are as long as rows and rounded as needed. They also check that `out`
    // has the number of tokens of `x`, and at most the rows of the tiles. `tiles` comes from
    // `PackedRows`, which checks its size for this packing.
    with_packing!(packing,
        B => with_tier!(tier,
            // SAFETY: see above.
            kernels => unsafe { kernels::products::<B>(tiles, x, out) },
            portable => portable(tiles, x, out, tile::<B>)
        ),
        W => with_tier!(tier,
            // SAFETY: see above.
            kernels => unsafe { kernels::word_products::<W>(tiles, x, out) },
            portable => portable(tiles, x, out, word_tile::<W>)
        ),
        E => with_tier!(tier,
            // SAFETY: see above.
            kernels => unsafe { kernels::float_products::<E>(tiles, x, out) },
            portable => portable(tiles, x, out, float_tile::<E>)
        )
    );
}

/// Computes the bounds of a tile's products with the instructions of `tier`. Returns `None` if the
/// rows are not nested.
#[allow(unsafe_code, reason = "kernels need the instructions of their tier")]
pub(crate) fn bounds_by(tier: Tier, packing: Packing, tile: Tiles<'_>, x: &CoarseQuery) -> Option<Bounds> {
    tier.check();
    assert_eq!(tile.tile_bytes, tile.bytes.len(), "length of one tile");
    assert_eq!(tile.columns, x.groups.len() * GROUP, "length of activations and of rows");
    macro_rules! by {
        ($format:ty) => {
            with_tier!(tier,
                // SAFETY: `check` asserts that the processor has the tier. The assertions above check
                // that `tile` is a single tile with rows as long as the activations.
                // `CoarseQuery::take` lists only groups that the coarse query has.
                kernels => unsafe { kernels::bounds::<SplitBits<$format>>(tile, x) },
                portable => bounds::<SplitBits<$format>>(tile.bytes, x)
            )
        };
    }
    match (packing.encoding(), packing.is_nested()) {
        (Encoding::Q8_0, true) => Some(by!(legacy::Q8_0)),
        (Encoding::Q6K, true) => Some(by!(k::Q6K)),
        _ => None,
    }
}

/// Computes the products of tiles with plain loops.
///
/// Multiply-adds are fused as in the vector code, even where this is slow. On x86-64, only
/// processors without AVX2, FMA or F16C run this code.
fn portable(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    mut out: MatrixMut<'_>,
    tile: fn(&[u8], &[Activation<'_>], &mut [[f32; TILE_ROWS]]),
) {
    let mut sums = vec![[0.0; TILE_ROWS]; x.len()];
    let rows = out.rows();
    for (first, bytes) in (0..rows).step_by(TILE_ROWS).zip(tiles.bytes.chunks_exact(tiles.tile_bytes)) {
        sums.fill([0.0; TILE_ROWS]);
        tile(bytes, x, &mut sums);
        let last = rows.min(first + TILE_ROWS);
        for (token, sums) in sums.iter().enumerate() {
            out.token(token)[first..last].copy_from_slice(&sums[..last - first]);
        }
    }
}

/// Multiplies sixteen rows with each token. Defines the bits that all other tiers must reproduce.
fn tile<B: BlockFormat>(tile: &[u8], x: &[Activation<'_>], sums: &mut [[f32; TILE_ROWS]]) {
    let columns = x[0].values().len();
    let parts = Parts::of::<B>(tile, columns);
    let groups = B::LEN / GROUP;
    for (block, heads) in parts.heads.chunks_exact(head_bytes::<B>()).take(columns / B::LEN).enumerate() {
        let headers: [Header; TILE_ROWS] = std::array::from_fn(|row| B::header(&head::<B>(heads, row)));
        for index in 0..groups {
            let weights = levels::<B, TILE_ROWS>(parts.codes::<B>(block * groups + index), 0);
            for (x, sums) in x.iter().zip(&mut *sums) {
                add_group::<B>(&headers, index, &weights, Group::new(x, block * groups + index), sums);
            }
        }
    }
}

/// A token's activations of a group.
#[derive(Clone, Copy)]
struct Group<'a> {
    /// The 8-bit integers, and for 16-bit activations their lower 8 bits as the second part.
    parts: [Option<&'a [i8; GROUP]>; 2],
    /// The block with the scale and the sums at full precision.
    all: &'a Q8Block,
}

impl<'a> Group<'a> {
    fn new(x: &Activation<'a>, group: usize) -> Self {
        let high = &x.groups()[group];
        match x.fine_rests() {
            None => Self { parts: [Some(&high.q), None], all: high },
            Some(rests) => Self { parts: [Some(&high.q), Some(&rests[group].q)], all: &rests[group] },
        }
    }
}

/// Adds the products of a group. The integer sums are exact, so the order of their terms is free.
#[inline(always)]
fn add_group<B: BlockFormat>(
    headers: &[Header; TILE_ROWS],
    index: usize,
    weights: &[[[u8; 4]; TILE_ROWS]; PIECES],
    x: Group<'_>,
    sums: &mut [f32; TILE_ROWS],
) {
    let parts = if B::SPLIT { 2 } else { 1 };
    for part in 0..parts {
        let pieces = part * (PIECES / parts)..(part + 1) * (PIECES / parts);
        let (minus, sum) =
            if B::SPLIT { (x.all.minuses[part], x.all.sums[part]) } else { (x.all.minus, x.all.sum) };
        for row in 0..TILE_ROWS {
            let mut integer = 0;
            for q in x.parts.into_iter().flatten() {
                let of_piece = |piece: usize| {
                    let q: &[[i8; 4]] = q.as_chunks().0;
                    let products: [i32; 4] =
                        each(|i| i32::from(weights[piece][row][i]) * i32::from(q[piece][i]));
                    products.iter().sum::<i32>()
                };
                integer = 256 * integer + pieces.clone().map(of_piece).sum::<i32>();
            }
            integer += B::BIAS.map_or(0, |shift| minus << shift);
            let header = &headers[row];
            sums[row] = (header.scale[parts * index + part] * x.all.scale).mul_add(integer as f32, sums[row]);
            if B::OFFSET {
                sums[row] = header.offset[parts * index + part].mul_add(sum, sums[row]);
            }
        }
    }
}

/// Multiplies sixteen rows of floats with each token, and adds up columns in [`CHAINS`] chains.
fn float_tile<F: FloatFormat>(tile: &[u8], x: &[Activation<'_>], sums: &mut [[f32; TILE_ROWS]]) {
    for (x, sums) in x.iter().zip(sums) {
        let mut chains = [[0f32; TILE_ROWS]; CHAINS];
        let columns = tile.chunks_exact(TILE_ROWS * F::BYTES).zip(x.values());
        for (at, (column, x)) in columns.enumerate() {
            for (sum, weight) in chains[at % CHAINS].iter_mut().zip(column.chunks_exact(F::BYTES)) {
                *sum = F::decode(weight).mul_add(*x, *sum);
            }
        }
        let [a, b, c, d] = chains;
        *sums = each(|row| (a[row] + b[row]) + (c[row] + d[row]));
    }
}
