//! How tiles meet tokens.
//!
//! Where a vector has all rows of a tile, a few tokens meet the codes as they are packed: what is unpacked of a group stays in
//! registers, and so do their sums, through a span of groups that the first-level cache holds while one block of tokens after the
//! other goes over it. Scales of blocks of 256, which take more work than those of 32, are made once for all tokens.
//!
//! Shorter vectors, of which there are fewer registers, have panels: a few groups of a tile, unpacked in the first-level cache.
//!
//! Tokens beyond a round go over the tiles again, so that the activations which all tiles meet stay in the second-level cache.

use std::marker::PhantomData;

use super::unpack::{Heads, Kind, Scales, Unpack, levels};
use super::{Vector, prefetch, prefetch_all};
use crate::activation::{Activation, Q8Block};
use crate::format::{GROUP, bias};
use crate::layout::{PIECES, PLANE, TILE_ROWS, code_bytes, head_bytes, heads_bytes, low_bytes};
use crate::outputs::Outputs;
use crate::products::Tiles;

/// Groups in a span of a tile.
const SPAN: usize = 64;
/// Groups in a panel, 768 bytes each, and in a span where a tile takes two vectors, which go through it by turns.
pub(crate) const PANEL: usize = 16;
/// The most tokens in a block. Of registers there are 32 for eight vectors of levels and two of sums for each token.
const BLOCK: usize = 6;
/// Bytes of activations that go over the tiles together, half of a second-level cache of 1 MB, and how many tokens that may be.
pub(crate) const ROUND: usize = 1 << 19;
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
pub(crate) unsafe fn products<B: Unpack, V: Vector>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    mut out: Outputs<'_>,
) {
    let Some(first) = x.first() else { return };
    let is_wide = V::ROWS == TILE_ROWS;
    let tokens = (ROUND / size_of_val(first.groups())).clamp(*ROUND_TOKENS.start(), *ROUND_TOKENS.end());
    // Whole blocks of tokens.
    let tokens = tokens / BLOCK * BLOCK;
    for (first, x) in (0..x.len()).step_by(tokens).zip(x.chunks(tokens)) {
        let out = out.of(first..first + x.len());
        if is_wide || (x.len() == 1 && !is_fine(&x[0])) {
            by_spans::<B, V>(tiles, x, out);
        } else {
            by_panels::<B, V>(tiles, x, out);
        }
    }
}

pub(crate) fn is_fine(x: &Activation<'_>) -> bool {
    x.fine_rests().is_some()
}

/// A round of tokens with all tiles, as they are packed.
#[inline(always)]
unsafe fn by_spans<B: Unpack, V: Vector>(tiles: Tiles<'_>, x: &[Activation<'_>], mut out: Outputs<'_>) {
    let (groups, rows) = (tiles.columns / GROUP, out.rows());
    let len = if V::ROWS == TILE_ROWS { SPAN } else { PANEL };
    let mut room = None;
    let blocks = Blocks::of(x);
    for (tile, bytes) in (0..rows).step_by(TILE_ROWS).zip(tiles.bytes.chunks_exact(tiles.tile_bytes)) {
        for first in (0..groups).step_by(len) {
            for row in (0..TILE_ROWS.min(rows - tile)).step_by(V::ROWS) {
                let packed = Packed::<B>::new(bytes, tiles.columns, first, row);
                let span = Span { first, count: len.min(groups - first), row: tile + row };
                // For two blocks of tokens it is as fast to make scales twice.
                if B::LEN > GROUP && x.len() > 2 * BLOCK {
                    let scaled = Scaled::new::<V>(packed, room.get_or_insert_default(), span.count);
                    span.meet::<_, V>(scaled, &blocks, x, out.of(0..x.len()));
                } else {
                    span.meet::<_, V>(packed, &blocks, x, out.of(0..x.len()));
                }
            }
        }
    }
}

/// How the tokens of a round are cut into blocks.
struct Blocks {
    /// How many tokens, or [`Blocks::FINE`] for one of 16 bits.
    sizes: [u8; *ROUND_TOKENS.end()],
    count: usize,
}

impl Blocks {
    const FINE: u8 = 0;

    fn of(x: &[Activation<'_>]) -> Self {
        let mut blocks = Self { sizes: [Self::FINE; *ROUND_TOKENS.end()], count: 0 };
        for x in x.chunk_by(|a, b| is_fine(a) == is_fine(b)) {
            let mut rest = x.len();
            while rest > 0 {
                let size = match rest {
                    _ if is_fine(&x[0]) => Self::FINE,
                    // No block of one beside others: it pays for the loads of weights alone.
                    1..=3 => rest as u8,
                    5 => 2,
                    4 | 7 | 8 => 4,
                    _ => BLOCK as u8,
                };
                blocks.sizes[blocks.count] = size;
                blocks.count += 1;
                rest -= usize::from(size.max(1));
            }
        }
        blocks
    }
}

/// Some groups of a vector's rows.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) first: usize,
    pub(crate) count: usize,
    pub(crate) row: usize,
}

impl Span {
    /// All tokens.
    #[inline(always)]
    unsafe fn meet<S: Source<V>, V: Vector>(
        self,
        mut source: S,
        blocks: &Blocks,
        x: &[Activation<'_>],
        mut out: Outputs<'_>,
    ) {
        let is_wide = V::ROWS == TILE_ROWS;
        let mut token = 0;
        for block in &blocks.sizes[..blocks.count] {
            let (x, out) = (&x[token..], out.of(token..x.len()));
            token += match *block {
                Blocks::FINE if is_wide => self.block::<S, V, 1, true>(&source, x, out),
                2 if is_wide => self.block::<S, V, 2, false>(&source, x, out),
                3 if is_wide => self.block::<S, V, 3, false>(&source, x, out),
                4 if is_wide => self.block::<S, V, 4, false>(&source, x, out),
                6 if is_wide => self.block::<S, V, 6, false>(&source, x, out),
                _ => self.block::<S, V, 1, false>(&source, x, out),
            };
            source.is_near();
        }
    }

    /// The first `T` tokens.
    #[inline(always)]
    unsafe fn block<S: Source<V>, V: Vector, const T: usize, const FINE: bool>(
        self,
        source: &S,
        x: &[Activation<'_>],
        mut out: Outputs<'_>,
    ) -> usize {
        let mut sums = [V::each_float(0.0); T];
        let mut groups = [std::ptr::null::<Q8Block>(); T];
        let mut all = groups;
        for t in 0..T {
            groups[t] = x[t].groups().as_ptr().add(self.first);
            all[t] =
                if FINE { x[t].fine_rests().unwrap_or_default().as_ptr().add(self.first) } else { groups[t] };
            if self.first > 0 {
                sums[t] = load::<V>(&out.token(t)[self.row..]);
            }
        }
        let sums = meet::<V, S, T, FINE>(source, self.count, groups, all, sums);
        for (t, sums) in sums.into_iter().enumerate() {
            store::<V>(&mut out.token(t)[self.row..], sums);
        }
        T
    }
}

/// A round of tokens with panels of all tiles.
#[inline(always)]
unsafe fn by_panels<B: Unpack, V: Vector>(tiles: Tiles<'_>, x: &[Activation<'_>], mut out: Outputs<'_>) {
    let groups = tiles.columns / GROUP;
    let rows = out.rows();
    let mut panel = Panel::new(B::BIAS.unwrap_or_default());
    for row in (0..rows).step_by(V::ROWS) {
        let tile = &tiles.bytes[row / TILE_ROWS * tiles.tile_bytes..][..tiles.tile_bytes];
        for first in (0..groups).step_by(PANEL) {
            panel.span = Span { first, count: PANEL.min(groups - first), row };
            let packed = Packed::<B>::new(tile, tiles.columns, first, row % TILE_ROWS);
            panel.fill::<B, V, false>(&packed);
            V::meet::<B::Kind>(&panel, x, out.of(0..x.len()));
        }
    }
}

/// Tokens with the rows of a panel.
#[inline(always)]
pub(crate) unsafe fn meet_panel<K: Kind, V: Vector>(
    panel: &Panel,
    x: &[Activation<'_>],
    mut out: Outputs<'_>,
) {
    let source = Unpacked::<K>(panel, PhantomData);
    let mut token = 0;
    while token < x.len() {
        let (x, out) = (&x[token..], out.of(token..x.len()));
        // Not two where there are four: the fewer, the more each pays for the loads of weights.
        token += match x.iter().take(4).take_while(|x| !is_fine(x)).count() {
            0 => panel.span.block::<_, V, 1, true>(&source, x, out),
            1 => panel.span.block::<_, V, 1, false>(&source, x, out),
            2 | 3 => panel.span.block::<_, V, 2, false>(&source, x, out),
            _ => panel.span.block::<_, V, 4, false>(&source, x, out),
        };
    }
}

/// As many floats as there are, and zeros.
#[inline(always)]
pub(crate) unsafe fn load<V: Vector>(from: &[f32]) -> V::Floats {
    if from.len() >= V::ROWS {
        return V::load_floats(from.as_ptr());
    }
    let mut floats = [0f32; TILE_ROWS];
    floats[..from.len()].copy_from_slice(from);
    V::load_floats(floats.as_ptr())
}

/// As many floats as there is room for.
#[inline(always)]
pub(crate) unsafe fn store<V: Vector>(to: &mut [f32], sums: V::Floats) {
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
    /// From now on all of it is in the cache.
    fn is_near(&mut self);
}

/// Groups as they are packed.
pub(crate) struct Packed<B> {
    heads: *const u8,
    codes: *const u8,
    low: *const u8,
    first: usize,
    row: usize,
    /// Groups of a row.
    groups: usize,
    tile_bytes: usize,
    /// Lines of the cache that are prefetched for a group: as many as there are, or none where all is near.
    lines: usize,
    format: PhantomData<B>,
}

impl<B: Unpack> Packed<B> {
    /// The groups of a tile from `first` on, of its rows from `row` on.
    #[inline(always)]
    pub(crate) unsafe fn new(tile: &[u8], columns: usize, first: usize, row: usize) -> Self {
        let (heads, codes) = tile.split_at(heads_bytes::<B>(columns));
        let groups = columns / GROUP;
        let low = codes[groups * code_bytes::<B>()..].as_ptr();
        Self {
            heads: heads.as_ptr(),
            codes: codes.as_ptr(),
            low,
            first,
            row,
            groups,
            tile_bytes: tile.len(),
            lines: tile.len().div_ceil(groups * PLANE),
            format: PhantomData,
        }
    }

    /// Prefetches as many lines as there are for a group, and so goes through the tiles as their bytes follow each other.
    #[inline(always)]
    unsafe fn prefetch_through(&self, group: usize) {
        for line in 0..self.lines {
            prefetch(self.heads.wrapping_add((group * self.lines + line) * PLANE + AHEAD));
        }
    }

    /// Prefetches what a group is read from, which may be one of the tiles that follow.
    #[inline(always)]
    unsafe fn prefetch_group(&self, mut group: usize) {
        let mut tile = 0;
        while group >= self.groups {
            group -= self.groups;
            tile += self.tile_bytes;
        }
        let codes = group * code_bytes::<B>();
        prefetch_all(self.codes.wrapping_add(tile + codes), code_bytes::<B>());
        let low = group * low_bytes::<B>();
        prefetch_all(self.low.wrapping_add(tile + low), low_bytes::<B>());
        let groups = B::LEN / GROUP;
        if group.is_multiple_of(groups) {
            let head = group / groups * head_bytes::<B>();
            prefetch_all(self.heads.wrapping_add(tile + head), head_bytes::<B>());
        }
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
        let group = self.first + index;
        if B::LOW == 0 {
            self.prefetch_through(group);
        } else if self.lines > 0 {
            // Low bits lie apart from the others.
            let bytes = code_bytes::<B>() + low_bytes::<B>() + head_bytes::<B>() / (B::LEN / GROUP);
            self.prefetch_group(group + AHEAD / bytes);
        }
    }

    #[inline(always)]
    unsafe fn levels(&self, index: usize) -> [V::Ints; PIECES] {
        let (group, row) = (self.first + index, self.row * size_of::<i32>());
        // Where no low bits lie apart, this is beyond the tile and nothing is read from it.
        let low = self.low.wrapping_add(group * low_bytes::<B>() + row);
        levels::<B, V>(self.codes.add(group * code_bytes::<B>() + row), low)
    }

    #[inline(always)]
    unsafe fn scales(&self, index: usize) -> Scales<V> {
        let (groups, index) = (B::LEN / GROUP, self.first + index);
        let bytes = self.heads.add(index / groups * head_bytes::<B>());
        B::scales::<V>(Heads { bytes, first: self.row }, index % groups)
    }

    #[inline(always)]
    fn is_near(&mut self) {
        self.lines = 0;
    }
}

/// The scales of a group.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct GroupScales {
    scale: [[f32; TILE_ROWS]; 2],
    offset: [[f32; TILE_ROWS]; 2],
}

impl Default for GroupScales {
    fn default() -> Self {
        let floats = [[0.0; TILE_ROWS]; 2];
        Self { scale: floats, offset: floats }
    }
}

impl GroupScales {
    #[inline(always)]
    unsafe fn store<K: Kind, V: Vector>(&mut self, scales: Scales<V>) {
        for half in 0..if K::SPLIT { 2 } else { 1 } {
            V::store_floats(self.scale[half].as_mut_ptr(), scales.scale[half]);
            if K::OFFSET {
                V::store_floats(self.offset[half].as_mut_ptr(), scales.offset[half]);
            }
        }
    }

    #[inline(always)]
    pub(crate) unsafe fn load<K: Kind, V: Vector>(&self) -> Scales<V> {
        let zero = V::each_float(0.0);
        let mut scales = Scales { scale: [zero; 2], offset: [zero; 2] };
        for half in 0..if K::SPLIT { 2 } else { 1 } {
            scales.scale[half] = V::load_floats(self.scale[half].as_ptr());
            if K::OFFSET {
                scales.offset[half] = V::load_floats(self.offset[half].as_ptr());
            }
        }
        scales
    }
}

/// Room for the scales of a span.
struct ScaleRoom([GroupScales; SPAN]);

impl Default for ScaleRoom {
    fn default() -> Self {
        Self([GroupScales::default(); SPAN])
    }
}

/// Groups as they are packed, but for their scales.
struct Scaled<'a, B> {
    packed: Packed<B>,
    scales: &'a ScaleRoom,
}

impl<'a, B: Unpack> Scaled<'a, B> {
    #[inline(always)]
    unsafe fn new<V: Vector>(packed: Packed<B>, room: &'a mut ScaleRoom, count: usize) -> Self {
        for (index, group) in room.0[..count].iter_mut().enumerate() {
            <Packed<B> as Source<V>>::prefetch(&packed, index);
            group.store::<B::Kind, V>(<Packed<B> as Source<V>>::scales(&packed, index));
        }
        Self { packed, scales: room }
    }
}

impl<B: Unpack, V: Vector> Source<V> for Scaled<'_, B> {
    type Kind = B::Kind;

    #[inline(always)]
    fn bias(&self) -> u32 {
        B::BIAS.unwrap_or_default()
    }

    #[inline(always)]
    unsafe fn prefetch(&self, _: usize) {}

    #[inline(always)]
    unsafe fn levels(&self, index: usize) -> [V::Ints; PIECES] {
        <Packed<B> as Source<V>>::levels(&self.packed, index)
    }

    #[inline(always)]
    unsafe fn scales(&self, index: usize) -> Scales<V> {
        self.scales.0.get_unchecked(index).load::<B::Kind, V>()
    }

    #[inline(always)]
    fn is_near(&mut self) {}
}

/// Groups of a tile, unpacked.
pub(crate) struct Panel {
    pub(crate) groups: [PanelGroup; PANEL],
    pub(crate) span: Span,
    bias: u32,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct PanelGroup {
    pub(crate) levels: [[u8; PLANE]; PIECES],
    pub(crate) scales: GroupScales,
}

impl Panel {
    #[inline(always)]
    pub(crate) fn new(bias: u32) -> Self {
        let group = PanelGroup { levels: [[0; PLANE]; PIECES], scales: GroupScales::default() };
        Self { groups: [group; PANEL], span: Span { first: 0, count: 0, row: 0 }, bias }
    }

    /// Unpacks the groups of the span: levels, or the integers that they stand for.
    #[inline(always)]
    pub(crate) unsafe fn fill<B: Unpack, V: Vector, const SIGNED: bool>(&mut self, packed: &Packed<B>) {
        for (index, group) in self.groups[..self.span.count].iter_mut().enumerate() {
            <Packed<B> as Source<V>>::prefetch(packed, index);
            let pieces = <Packed<B> as Source<V>>::levels(packed, index);
            for (to, mut piece) in group.levels.iter_mut().zip(pieces) {
                if SIGNED && B::Kind::BIASED {
                    piece = V::minus_bytes(piece, V::each_byte(bias::<B>().cast_signed()));
                }
                V::store(to.as_mut_ptr(), piece);
            }
            group.scales.store::<B::Kind, V>(<Packed<B> as Source<V>>::scales(packed, index));
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
        self.0.groups.get_unchecked(index).scales.load::<K, V>()
    }

    #[inline(always)]
    fn is_near(&mut self) {}
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
