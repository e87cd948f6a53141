//! How tiles meet tokens.
//!
//! A few tokens meet the codes as they are packed, or one where vectors are short. More of them share what is unpacked of a few
//! groups of a tile, a panel that stays in the first-level cache while the tokens go over it, a few at a time: their sums
//! stay in registers. Tokens beyond that go
//! in rounds, so that the activations which all tiles meet stay in the second-level cache.

use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::marker::PhantomData;

use super::unpack::{Heads, Kind, Scales, Unpack, levels};
use super::vector::Vector;
use crate::activation::{Activation, Q8Block};
use crate::format::GROUP;
use crate::layout::{PIECES, PLANE, TILE_ROWS, code_bytes, head_bytes, heads_bytes};
use crate::outputs::Outputs;
use crate::products::Tiles;

/// Groups in a panel, 768 bytes each. With 8 to 64 the speed is the same.
const PANEL: usize = 16;
/// Tokens that do not pay for a panel. Unpacking costs next to nothing beside the products of four tokens, writing a panel costs as
/// much as those of three.
const FEW: usize = 12;
/// Bytes of activations that go over the tiles together, half of a second-level cache of 1 MB, and how many tokens that may be.
const ROUND: usize = 1 << 19;
const ROUND_TOKENS: std::ops::RangeInclusive<usize> = 24..=96;
/// How far ahead of the computation weights are asked for, in bytes, into the second-level cache. Nearer and into the first, a
/// token takes a quarter longer.
const AHEAD: usize = 8192;

/// The products of tiles.
///
/// # Safety
/// The processor must have the instructions of `V`, activations must be as long as rows, and `out` have as many tokens, and
/// no more rows than the tiles.
#[inline(always)]
pub(super) unsafe fn products<B: Unpack, V: Vector>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    mut out: Outputs<'_>,
) {
    let Some(first) = x.first() else { return };
    let is_fine = x.iter().any(|x| x.fine_rests().is_some());
    let few = if V::ROWS == TILE_ROWS { FEW } else { 1 };
    if x.len() <= few && !is_fine {
        let bytes = tiles.bytes.chunks_exact(tiles.tile_bytes);
        for (tile, bytes) in (0..out.rows()).step_by(TILE_ROWS).zip(bytes) {
            let mut token = 0;
            while token < x.len() {
                let place = Straight { bytes, columns: tiles.columns, first_row: tile };
                let (x, out) = (&x[token..], out.of(token..x.len()));
                token += match x.len() {
                    1 => straight::<B, V, 1>(place, x, out),
                    2 | 5 if V::ROWS == TILE_ROWS => straight::<B, V, 2>(place, x, out),
                    3 | 6 | 9 if V::ROWS == TILE_ROWS => straight::<B, V, 3>(place, x, out),
                    _ if V::ROWS == TILE_ROWS => straight::<B, V, 4>(place, x, out),
                    _ => unreachable!("one token of few rows"),
                };
            }
        }
        return;
    }
    let token_bytes = if is_fine { 2 } else { 1 } * size_of_val(first.groups());
    let tokens = (ROUND / token_bytes).clamp(*ROUND_TOKENS.start(), *ROUND_TOKENS.end());
    // Whole blocks of tokens.
    let tokens = tokens / 6 * 6;
    for (first, x) in (0..x.len()).step_by(tokens).zip(x.chunks(tokens)) {
        round::<B, V>(tiles, x, out.of(first..first + x.len()));
    }
}

/// A tile that tokens meet as it is.
#[derive(Clone, Copy)]
struct Straight<'a> {
    bytes: &'a [u8],
    columns: usize,
    first_row: usize,
}

/// The first `T` tokens, as few as leave room in the registers for the levels of a group.
#[inline(always)]
unsafe fn straight<B: Unpack, V: Vector, const T: usize>(
    tile: Straight<'_>,
    x: &[Activation<'_>],
    mut out: Outputs<'_>,
) -> usize {
    let groups = tile.columns / GROUP;
    let rows = TILE_ROWS.min(out.rows() - tile.first_row);
    // Where a tile takes two vectors, these go through it by turns.
    let turn = if V::ROWS == TILE_ROWS { groups } else { PANEL };
    for first in (0..groups).step_by(turn) {
        for row in (0..rows).step_by(V::ROWS) {
            let packed = Packed::<B>::new(tile.bytes, tile.columns, first, row);
            let row = tile.first_row + row;
            let mut sums = [V::each_float(0.0); T];
            let mut values = [std::ptr::null::<Q8Block>(); T];
            for t in 0..T {
                values[t] = x[t].groups().as_ptr().add(first);
                if first > 0 {
                    sums[t] = load::<V>(&out.token(t)[row..]);
                }
            }
            let count = turn.min(groups - first);
            let sums = meet::<V, _, T, false>(&packed, count, values, values, sums);
            for (t, sums) in sums.into_iter().enumerate() {
                store::<V>(&mut out.token(t)[row..], sums);
            }
        }
    }
    T
}

/// A few tokens with all tiles.
#[inline(always)]
unsafe fn round<B: Unpack, V: Vector>(tiles: Tiles<'_>, x: &[Activation<'_>], mut out: Outputs<'_>) {
    let groups = tiles.columns / GROUP;
    let rows = out.rows();
    let is_fine = |x: &Activation<'_>| x.fine_rests().is_some();
    let mut panel = Panel::new(B::BIAS.unwrap_or_default());
    for row in (0..rows).step_by(V::ROWS) {
        let tile = &tiles.bytes[row / TILE_ROWS * tiles.tile_bytes..][..tiles.tile_bytes];
        for first in (0..groups).step_by(PANEL) {
            (panel.first, panel.count) = (first, PANEL.min(groups - first));
            let packed = Packed::<B>::new(tile, tiles.columns, first, row % TILE_ROWS);
            panel.fill::<B, V>(&packed);
            let mut token = 0;
            for x in x.chunk_by(|a, b| is_fine(a) == is_fine(b)) {
                let out = out.of(token..token + x.len());
                token += x.len();
                if is_fine(&x[0]) {
                    V::meet::<B::Kind, true>(&panel, row, x, out);
                } else {
                    V::meet::<B::Kind, false>(&panel, row, x, out);
                }
            }
        }
    }
}

/// Tokens with the rows of a panel, which are those from `row` on.
#[inline(always)]
pub(super) unsafe fn meet_panel<K: Kind, V: Vector, const FINE: bool>(
    panel: &Panel,
    row: usize,
    x: &[Activation<'_>],
    mut out: Outputs<'_>,
) {
    let mut token = 0;
    while token < x.len() {
        let (x, out) = (&x[token..], out.of(token..x.len()));
        token += match x.len() {
            1 => block::<K, V, 1, FINE>(panel, row, x, out),
            2 | 3 => block::<K, V, 2, FINE>(panel, row, x, out),
            // Of sixteen registers there are none for six. And not six and two: the fewer, the more each pays for the loads of
            // weights.
            6 | 9.. if V::ROWS == TILE_ROWS => block::<K, V, 6, FINE>(panel, row, x, out),
            _ => block::<K, V, 4, FINE>(panel, row, x, out),
        };
    }
}

/// The first `T` tokens with a panel.
#[inline(always)]
unsafe fn block<K: Kind, V: Vector, const T: usize, const FINE: bool>(
    panel: &Panel,
    row: usize,
    x: &[Activation<'_>],
    mut out: Outputs<'_>,
) -> usize {
    let mut sums = [V::each_float(0.0); T];
    let mut groups = [std::ptr::null::<Q8Block>(); T];
    let mut all = groups;
    for t in 0..T {
        groups[t] = x[t].groups().as_ptr().add(panel.first);
        all[t] = x[t].fine_rests().map_or(groups[t], |rests| rests.as_ptr().add(panel.first));
        if panel.first > 0 {
            sums[t] = load::<V>(&out.token(t)[row..]);
        }
    }
    let sums = meet::<V, _, T, FINE>(&Unpacked::<K>(panel, PhantomData), panel.count, groups, all, sums);
    for (t, sums) in sums.into_iter().enumerate() {
        store::<V>(&mut out.token(t)[row..], sums);
    }
    T
}

/// As many floats as there are, and zeros.
#[inline(always)]
unsafe fn load<V: Vector>(from: &[f32]) -> V::Floats {
    if from.len() >= V::ROWS {
        return V::load_floats(from.as_ptr());
    }
    let mut floats = [0f32; TILE_ROWS];
    floats[..from.len()].copy_from_slice(from);
    V::load_floats(floats.as_ptr())
}

/// As many floats as there is room for.
#[inline(always)]
pub(super) unsafe fn store<V: Vector>(to: &mut [f32], sums: V::Floats) {
    if to.len() >= V::ROWS {
        return V::store_floats(to.as_mut_ptr(), sums);
    }
    let mut floats = [0f32; TILE_ROWS];
    V::store_floats(floats.as_mut_ptr(), sums);
    to.copy_from_slice(&floats[..to.len()]);
}

/// Groups of rows.
trait Source<V: Vector> {
    type Kind: Kind;

    /// See [`BlockFormat::BIAS`].
    fn bias(&self) -> u32;
    /// What comes after group `index` will be wanted soon.
    unsafe fn prefetch(&self, index: usize);
    unsafe fn levels(&self, index: usize) -> [V::Ints; PIECES];
    unsafe fn scales(&self, index: usize) -> Scales<V>;
}

/// Groups as they are packed.
struct Packed<B> {
    heads: *const u8,
    codes: *const u8,
    first: usize,
    row: usize,
    /// Lines of the cache that are asked for at each group: as many as there are for a group.
    lines: usize,
    format: PhantomData<B>,
}

impl<B: Unpack> Packed<B> {
    /// The groups of a tile from `first` on, of its rows from `row` on.
    #[inline(always)]
    unsafe fn new(tile: &[u8], columns: usize, first: usize, row: usize) -> Self {
        let (heads, codes) = tile.split_at(heads_bytes::<B>(columns));
        let lines = tile.len().div_ceil(columns / GROUP * PLANE);
        Self { heads: heads.as_ptr(), codes: codes.as_ptr(), first, row, lines, format: PhantomData }
    }
}

impl<B: Unpack, V: Vector> Source<V> for Packed<B> {
    type Kind = B::Kind;

    #[inline(always)]
    fn bias(&self) -> u32 {
        B::BIAS.unwrap_or_default()
    }

    #[inline(always)]
    unsafe fn prefetch(&self, index: usize) {
        for line in 0..self.lines {
            let ahead = ((self.first + index) * self.lines + line) * PLANE + AHEAD;
            _mm_prefetch::<_MM_HINT_T1>(self.heads.wrapping_add(ahead).cast());
        }
    }

    #[inline(always)]
    unsafe fn levels(&self, index: usize) -> [V::Ints; PIECES] {
        let codes = self.codes.add((self.first + index) * code_bytes::<B>());
        levels::<B, V>(codes.add(self.row * size_of::<i32>()))
    }

    #[inline(always)]
    unsafe fn scales(&self, index: usize) -> Scales<V> {
        let (groups, index) = (B::LEN / GROUP, self.first + index);
        let bytes = self.heads.add(index / groups * head_bytes::<B>());
        B::scales::<V>(Heads { bytes, first: self.row }, index % groups)
    }
}

/// Groups of a tile, unpacked.
pub(crate) struct Panel {
    groups: [PanelGroup; PANEL],
    /// Of the columns.
    first: usize,
    count: usize,
    bias: u32,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct PanelGroup {
    levels: [[u8; PLANE]; PIECES],
    scale: [[f32; TILE_ROWS]; 2],
    offset: [[f32; TILE_ROWS]; 2],
}

impl Panel {
    #[inline(always)]
    fn new(bias: u32) -> Self {
        let (floats, levels) = ([[0.0; TILE_ROWS]; 2], [[0; PLANE]; PIECES]);
        let groups = [PanelGroup { levels, scale: floats, offset: floats }; PANEL];
        Self { groups, first: 0, count: 0, bias }
    }

    #[inline(always)]
    unsafe fn fill<B: Unpack, V: Vector>(&mut self, packed: &Packed<B>) {
        for (index, group) in self.groups[..self.count].iter_mut().enumerate() {
            <Packed<B> as Source<V>>::prefetch(packed, index);
            let pieces = <Packed<B> as Source<V>>::levels(packed, index);
            for (to, piece) in group.levels.iter_mut().zip(pieces) {
                V::store(to.as_mut_ptr(), piece);
            }
            let scales = <Packed<B> as Source<V>>::scales(packed, index);
            for half in 0..if B::SPLIT { 2 } else { 1 } {
                V::store_floats(group.scale[half].as_mut_ptr(), scales.scale[half]);
                if B::OFFSET {
                    V::store_floats(group.offset[half].as_mut_ptr(), scales.offset[half]);
                }
            }
        }
    }
}

/// A panel of some kind of weights.
struct Unpacked<'a, K>(&'a Panel, PhantomData<K>);

impl<K: Kind, V: Vector> Source<V> for Unpacked<'_, K> {
    type Kind = K;

    #[inline(always)]
    fn bias(&self) -> u32 {
        self.0.bias
    }

    #[inline(always)]
    unsafe fn prefetch(&self, _: usize) {}

    #[inline(always)]
    unsafe fn levels(&self, index: usize) -> [V::Ints; PIECES] {
        let group = self.0.groups.get_unchecked(index);
        let mut pieces = [V::zero(); PIECES];
        for (piece, levels) in pieces.iter_mut().zip(&group.levels) {
            *piece = V::load(levels.as_ptr());
        }
        pieces
    }

    #[inline(always)]
    unsafe fn scales(&self, index: usize) -> Scales<V> {
        let group = self.0.groups.get_unchecked(index);
        let zero = V::each_float(0.0);
        let mut scales = Scales { scale: [zero; 2], offset: [zero; 2] };
        for half in 0..if K::SPLIT { 2 } else { 1 } {
            scales.scale[half] = V::load_floats(group.scale[half].as_ptr());
            if K::OFFSET {
                scales.offset[half] = V::load_floats(group.offset[half].as_ptr());
            }
        }
        scales
    }
}

/// Adds the products of `count` groups with `T` tokens: the portable code's arithmetic, a row to a lane. `all` is what has
/// the scale and the sums of all bits: of activations of 16 bits the lower eight, else `x` itself.
#[inline(always)]
unsafe fn meet<V: Vector, S: Source<V>, const T: usize, const FINE: bool>(
    source: &S,
    count: usize,
    x: [*const Q8Block; T],
    all: [*const Q8Block; T],
    mut sums: [V::Floats; T],
) -> [V::Floats; T] {
    let (is_split, has_offset) = (S::Kind::SPLIT, S::Kind::OFFSET);
    let parts = if is_split { 2 } else { 1 };
    for index in 0..count {
        source.prefetch(index);
        let levels = source.levels(index);
        let scales = source.scales(index);
        for part in 0..parts {
            let pieces = part * (PIECES / parts)..(part + 1) * (PIECES / parts);
            let mut integers = [V::zero(); T];
            if FINE {
                for piece in pieces.clone() {
                    for t in 0..T {
                        integers[t] =
                            add_four::<S::Kind, V>(integers[t], levels[piece], x[t].add(index), piece);
                    }
                }
            }
            for t in 0..T {
                let all = &*all[t].add(index);
                if FINE {
                    integers[t] = V::left_lanes(integers[t], 8);
                }
                if S::Kind::BIASED && !(S::Kind::WIDE && V::TAKES_WIDE_BIAS) {
                    let minus = V::each_int(if is_split { all.minuses[part] } else { all.minus });
                    let minus = V::left_lanes(minus, source.bias());
                    integers[t] = if FINE { V::add(integers[t], minus) } else { minus };
                }
            }
            for piece in pieces {
                for t in 0..T {
                    integers[t] =
                        add_four::<S::Kind, V>(integers[t], levels[piece], all[t].add(index), piece);
                }
            }
            for t in 0..T {
                let all = &*all[t].add(index);
                let scale = V::times(scales.scale[part], V::each_float(all.scale));
                sums[t] = V::add_product(scale, V::to_floats(integers[t]), sums[t]);
                if has_offset {
                    let sum = V::each_float(if is_split { all.sums[part] } else { all.sum });
                    sums[t] = V::add_product(scales.offset[part], sum, sums[t]);
                }
            }
        }
    }
    sums
}

/// Adds the products with four activations.
#[inline(always)]
unsafe fn add_four<K: Kind, V: Vector>(
    integers: V::Ints,
    levels: V::Ints,
    x: *const Q8Block,
    piece: usize,
) -> V::Ints {
    let fours: &[[i8; 4]; PIECES] = &*(&raw const (*x).q).cast();
    let four = V::each_int(i32::from_le_bytes(fours[piece].map(i8::cast_unsigned)));
    if K::WIDE { V::dot_wide(integers, levels, four) } else { V::dot(integers, levels, four) }
}
