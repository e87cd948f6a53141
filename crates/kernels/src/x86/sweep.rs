//! How tiles meet tokens.
//!
//! One token reads the codes straight from memory. Several share what is unpacked of a few groups of a tile, a panel that stays
//! in the first-level cache while the tokens go over it, a few at a time: their sums stay in registers. Tokens beyond that go
//! in rounds, so that the activations which all tiles meet stay in the second-level cache.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::marker::PhantomData;

use super::unpack::{Heads, Scales, Unpack, levels};
use super::vector::Vector;
use crate::activation::{Activation, Q8Block};
use crate::format::{BlockFormat, GROUP, bias};
use crate::layout::{PIECES, PLANE, TILE_ROWS, code_bytes, head_bytes, heads_bytes};
use crate::products::Tiles;

/// Groups in a panel: 32 of 768 bytes.
const PANEL: usize = 32;
/// Tokens of a round.
const ROUND: usize = 96;
/// Tokens whose sums fit the registers.
const BLOCK: usize = 6;
/// How far ahead of the computation weights are asked for, in bytes.
const AHEAD: usize = 2048;

/// The products of tiles.
///
/// # Safety
/// The processor must have the instructions of `V`, activations must be as long as rows, and all of `out` have as many
/// rows, no more than the tiles.
#[inline(always)]
pub(super) unsafe fn products<B: Unpack, V: Vector>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: &mut [&mut [f32]],
) {
    match x {
        [x] if x.fine_rests().is_none() => one_token::<B, V>(tiles, x, out[0]),
        _ => {
            for (x, out) in x.chunks(ROUND).zip(out.chunks_mut(ROUND)) {
                if x[0].fine_rests().is_some() {
                    round::<B, V, true>(tiles, x, out);
                } else {
                    round::<B, V, false>(tiles, x, out);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn one_token<B: Unpack, V: Vector>(tiles: Tiles<'_>, x: &Activation<'_>, out: &mut [f32]) {
    let groups = tiles.columns / GROUP;
    // Where a tile takes two vectors, these go through it by turns.
    let turn = if V::ROWS == TILE_ROWS { groups } else { B::LEN / GROUP };
    for (tile, out) in tiles.bytes.chunks_exact(tiles.tile_bytes).zip(out.chunks_mut(TILE_ROWS)) {
        let mut sums = [0f32; TILE_ROWS];
        let lines = tiles.tile_bytes.div_ceil(groups * PLANE);
        for first in (0..groups).step_by(turn) {
            for row in (0..TILE_ROWS).step_by(V::ROWS) {
                let packed = Packed::<B>::new(tile, tiles.columns, first, row).ahead(lines);
                let to = sums.as_mut_ptr().add(row);
                let x = [x.groups().as_ptr().add(first)];
                let count = turn.min(groups - first);
                let [sum] = meet::<V, _, 1, false>(&packed, count, x, x, [V::load_floats(to)]);
                V::store_floats(to, sum);
            }
        }
        out.copy_from_slice(&sums[..out.len()]);
    }
}

/// A few tokens with all tiles.
#[inline(always)]
unsafe fn round<B: Unpack, V: Vector, const FINE: bool>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: &mut [&mut [f32]],
) {
    let groups = tiles.columns / GROUP;
    let rows = out[0].len();
    let mut panel = Panel::<B>::new();
    for first in (0..groups).step_by(PANEL) {
        let count = PANEL.min(groups - first);
        for (tile, bytes) in tiles.bytes.chunks_exact(tiles.tile_bytes).enumerate() {
            let tile_rows = tile * TILE_ROWS..rows.min((tile + 1) * TILE_ROWS);
            for row in (0..tile_rows.len()).step_by(V::ROWS) {
                let packed = Packed::<B>::new(bytes, tiles.columns, first, row);
                panel.fill::<V>(&packed, count);
                let place = Place { first, count, row: tile * TILE_ROWS + row };
                let mut token = 0;
                while token < x.len() {
                    let (x, out) = (&x[token..], &mut out[token..]);
                    token += match x.len() {
                        1 => block::<B, V, 1, FINE>(&panel, place, x, out),
                        2 => block::<B, V, 2, FINE>(&panel, place, x, out),
                        3 => block::<B, V, 3, FINE>(&panel, place, x, out),
                        // Not six and one: the fewer, the more each pays for the loads of weights.
                        4 | 7 | 8 => block::<B, V, 4, FINE>(&panel, place, x, out),
                        5 | 9 | 10 => block::<B, V, 5, FINE>(&panel, place, x, out),
                        _ => block::<B, V, BLOCK, FINE>(&panel, place, x, out),
                    };
                }
            }
        }
    }
}

/// What a panel holds.
#[derive(Clone, Copy)]
struct Place {
    first: usize,
    /// Groups.
    count: usize,
    row: usize,
}

/// The first `T` tokens with a panel.
#[inline(always)]
unsafe fn block<B: Unpack, V: Vector, const T: usize, const FINE: bool>(
    panel: &Panel<B>,
    place: Place,
    x: &[Activation<'_>],
    out: &mut [&mut [f32]],
) -> usize {
    let mut sums = [V::each_float(0.0); T];
    let mut groups = [std::ptr::null::<Q8Block>(); T];
    let mut all = groups;
    for t in 0..T {
        groups[t] = x[t].groups().as_ptr().add(place.first);
        all[t] = x[t].fine_rests().map_or(groups[t], |rests| rests.as_ptr().add(place.first));
        if place.first > 0 {
            sums[t] = load::<V>(&out[t][place.row..]);
        }
    }
    let sums = meet::<V, _, T, FINE>(panel, place.count, groups, all, sums);
    for t in 0..T {
        store::<V>(&mut out[t][place.row..], sums[t]);
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
    type Format: Unpack;

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
    lines: usize,
    format: PhantomData<B>,
}

impl<B: Unpack> Packed<B> {
    /// The groups of a tile from `first` on, of its rows from `row` on.
    #[inline(always)]
    unsafe fn new(tile: &[u8], columns: usize, first: usize, row: usize) -> Self {
        let (heads, codes) = tile.split_at(heads_bytes::<B>(columns));
        Self { heads: heads.as_ptr(), codes: codes.as_ptr(), first, row, lines: 0, format: PhantomData }
    }

    /// So many lines are asked for ahead of each group.
    #[inline(always)]
    fn ahead(self, lines: usize) -> Self {
        Self { lines, ..self }
    }
}

impl<B: Unpack, V: Vector> Source<V> for Packed<B> {
    type Format = B;

    #[inline(always)]
    unsafe fn prefetch(&self, index: usize) {
        for line in 0..self.lines {
            let ahead = ((self.first + index) * self.lines + line) * PLANE + AHEAD;
            _mm_prefetch::<_MM_HINT_T0>(self.heads.wrapping_add(ahead).cast());
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

/// Groups unpacked.
struct Panel<B> {
    groups: [PanelGroup; PANEL],
    format: PhantomData<B>,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct PanelGroup {
    levels: [[u8; PLANE]; PIECES],
    scale: [[f32; TILE_ROWS]; 2],
    offset: [[f32; TILE_ROWS]; 2],
}

impl<B: Unpack> Panel<B> {
    #[inline(always)]
    fn new() -> Self {
        let (floats, levels) = ([[0.0; TILE_ROWS]; 2], [[0; PLANE]; PIECES]);
        Self { groups: [PanelGroup { levels, scale: floats, offset: floats }; PANEL], format: PhantomData }
    }

    #[inline(always)]
    unsafe fn fill<V: Vector>(&mut self, packed: &Packed<B>, count: usize) {
        for (index, group) in self.groups[..count].iter_mut().enumerate() {
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

impl<B: Unpack, V: Vector> Source<V> for Panel<B> {
    type Format = B;

    #[inline(always)]
    unsafe fn prefetch(&self, _: usize) {}

    #[inline(always)]
    unsafe fn levels(&self, index: usize) -> [V::Ints; PIECES] {
        let group = self.groups.get_unchecked(index);
        let mut pieces = [V::zero(); PIECES];
        for i in 0..PIECES {
            pieces[i] = V::load(group.levels[i].as_ptr());
        }
        pieces
    }

    #[inline(always)]
    unsafe fn scales(&self, index: usize) -> Scales<V> {
        let group = self.groups.get_unchecked(index);
        let zero = V::each_float(0.0);
        let mut scales = Scales { scale: [zero; 2], offset: [zero; 2] };
        for half in 0..if B::SPLIT { 2 } else { 1 } {
            scales.scale[half] = V::load_floats(group.scale[half].as_ptr());
            if B::OFFSET {
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
    let (is_split, has_offset) = (S::Format::SPLIT, S::Format::OFFSET);
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
                            add_four::<S::Format, V>(integers[t], levels[piece], x[t].add(index), piece);
                    }
                }
            }
            for t in 0..T {
                let all = &*all[t].add(index);
                if FINE {
                    integers[t] = V::left_lanes(integers[t], 8);
                }
                if let (Some(shift), true) = (S::Format::BIAS, corrects::<S::Format, V>()) {
                    let minus = V::each_int(if is_split { all.minuses[part] } else { all.minus });
                    let minus = V::left_lanes(minus, shift);
                    integers[t] = if FINE { V::add(integers[t], minus) } else { minus };
                }
            }
            for piece in pieces {
                for t in 0..T {
                    integers[t] =
                        add_four::<S::Format, V>(integers[t], levels[piece], all[t].add(index), piece);
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

/// Whether levels need more than seven bits.
const fn is_wide<B: Unpack>() -> bool {
    bias::<B>() == 128
}

/// Whether what the bias adds is there to be taken away.
const fn corrects<B: Unpack, V: Vector>() -> bool {
    !(is_wide::<B>() && V::TAKES_WIDE_BIAS)
}

/// Adds the products with four activations.
#[inline(always)]
unsafe fn add_four<B: Unpack, V: Vector>(
    integers: V::Ints,
    levels: V::Ints,
    x: *const Q8Block,
    piece: usize,
) -> V::Ints {
    let four = V::each_int((*x).q.as_ptr().cast::<i32>().add(piece).read());
    if is_wide::<B>() { V::dot_wide(integers, levels, four) } else { V::dot(integers, levels, four) }
}
