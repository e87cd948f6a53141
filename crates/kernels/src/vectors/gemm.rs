//! Loops over tiles and tokens.
//!
//! A *round* is a pass over all tiles with a limited number of tokens, which are divided into
//! *blocks* of a few tokens. A *span* is a range of groups of a tile that fits the first-level
//! cache.
//!
//! If a vector holds all rows of a tile, each block is multiplied directly with the packed codes of
//! a span, one block after the other. The unpacked levels of a group and the sums of the block stay
//! in registers. Scales of blocks of 256 elements take more work than those of 32, so they are
//! computed once for all tokens.
//!
//! Shorter vectors have fewer registers and use panels instead: a few groups of a tile, unpacked
//! into the first-level cache.
//!
//! More tokens than a round need another pass over the tiles. The limit keeps the activations,
//! which all tiles use, in the second-level cache.

#![allow(unsafe_op_in_unsafe_fn, reason = "nearly every line is an operation of `Vector`")]

use std::marker::PhantomData;

use super::unpack::{Heads, Kind, Scales, Unpack, levels};
use super::{Vector, prefetch, prefetch_all};
use crate::activation::{Activation, Q8Block};
use crate::format::{GROUP, bias};
use crate::layout::{PIECES, PLANE, TILE_ROWS, Tiles, code_bytes, head_bytes, heads_bytes, low_bytes};
use crate::matrix_mut::MatrixMut;

/// Number of groups in a span of a tile.
const SPAN: usize = 64;
/// Number of groups in a panel. A group takes 768 bytes. This is also the number of groups in a
/// span if the rows of a tile take two vectors. The two vectors then process a span one after the
/// other.
pub(crate) const PANEL: usize = 16;
/// Maximum number of tokens in a block. Of 32 registers, eight hold levels, and sums take two per
/// token.
const BLOCK: usize = 6;
/// Maximum size of the activations of a round, in bytes: half of a second-level cache of 1 MB.
pub(crate) const ROUND: usize = 1 << 19;
/// Minimum and maximum number of tokens in a round.
const ROUND_TOKENS: std::ops::RangeInclusive<usize> = 24..=96;
/// Prefetch distance in bytes, into the second-level cache. With a shorter distance into the
/// first-level cache, a token takes a quarter longer.
const AHEAD: usize = 8192;

/// Computes the products of tiles.
///
/// # Safety
/// The processor must support the instructions of `V`. `tiles` must be packed as `B`. Activations
/// must be rounded to 8 or 16 bits and as long as rows. `out` must have the number of tokens of
/// `x`, and at most the rows of the tiles.
#[inline(always)]
pub(crate) unsafe fn products<B: Unpack, V: Vector>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    mut out: MatrixMut<'_>,
) {
    let Some(first) = x.first() else { return };
    let tokens = (ROUND / size_of_val(first.groups())).clamp(*ROUND_TOKENS.start(), *ROUND_TOKENS.end());
    // Rounds down to whole blocks of tokens.
    let tokens = tokens / BLOCK * BLOCK;
    for (first, x) in (0..x.len()).step_by(tokens).zip(x.chunks(tokens)) {
        let out = out.of(first..first + x.len());
        // Constants keep code that is not reached from being compiled.
        if const { is_direct::<V>() } || (x.len() == 1 && !is_fine(&x[0])) {
            by_spans::<B, V>(tiles, x, out);
        } else if const { !is_direct::<V>() } {
            by_panels::<B, V>(tiles, x, out);
        }
    }
}

/// Reports whether several tokens are multiplied directly with packed codes, without panels.
const fn is_direct<V: Vector>() -> bool {
    V::ROWS == TILE_ROWS
}

/// Reports whether the activations have 16 bits instead of 8.
pub(crate) fn is_fine(x: &Activation<'_>) -> bool {
    x.fine_rests().is_some()
}

/// Multiplies a round of tokens with all tiles, directly from packed codes. Several tokens need a
/// vector of all rows ([`is_direct`]).
///
/// # Safety
/// The requirements of [`products`] apply.
#[inline(always)]
unsafe fn by_spans<B: Unpack, V: Vector>(tiles: Tiles<'_>, x: &[Activation<'_>], mut out: MatrixMut<'_>) {
    let (groups, rows) = (tiles.columns / GROUP, out.rows());
    let len = if V::ROWS == TILE_ROWS { SPAN } else { PANEL };
    let mut room = None;
    let blocks = Blocks::of(x);
    for (tile, bytes) in (0..rows).step_by(TILE_ROWS).zip(tiles.bytes.chunks_exact(tiles.tile_bytes)) {
        for first in (0..groups).step_by(len) {
            for row in (0..TILE_ROWS.min(rows - tile)).step_by(V::ROWS) {
                let packed = Packed::<B>::new(bytes, tiles.columns, first, row);
                let span = Span { first, count: len.min(groups - first), row: tile + row };
                if const { !is_direct::<V>() } {
                    // Inlined: a span of a shorter vector is too small for a call.
                    span.block::<_, V, 1, false>(&packed, x, out.of(0..x.len()));
                } else if const { B::LEN > GROUP } && x.len() > 2 * BLOCK {
                    // For up to two blocks of tokens, computing the scales twice is as fast.
                    let scaled = Scaled::new::<V>(packed, room.get_or_insert_default(), span.count);
                    span.meet::<_, V>(scaled, &blocks, x, out.of(0..x.len()));
                } else {
                    span.meet::<_, V>(packed, &blocks, x, out.of(0..x.len()));
                }
            }
        }
    }
}

/// The division of the tokens of a round into blocks.
struct Blocks {
    /// Number of tokens in each block, or [`Blocks::FINE`] for a single token with 16-bit
    /// activations.
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
                    // Avoids blocks of one token beside larger ones, because a single token pays
                    // alone for loading the weights.
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

/// A range of groups in the rows of one vector.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    /// Index of the first group.
    pub(crate) first: usize,
    /// Number of groups.
    pub(crate) count: usize,
    /// Index of the first row among the rows of the outputs.
    pub(crate) row: usize,
}

impl Span {
    /// Multiplies the span with all tokens. The first span of the rows stores its products in
    /// `out`, and later spans add theirs.
    ///
    /// # Safety
    /// The processor must support the instructions of `V`. `source` must have the groups of the
    /// span, `x` and `out` must have the tokens of `blocks`, and activations must be as long as
    /// rows.
    #[inline(always)]
    unsafe fn meet<S: Source<V>, V: Vector>(
        self,
        mut source: S,
        blocks: &Blocks,
        x: &[Activation<'_>],
        mut out: MatrixMut<'_>,
    ) {
        let mut token = 0;
        for block in &blocks.sizes[..blocks.count] {
            let (x, out) = (&x[token..], out.of(token..x.len()));
            match *block {
                Blocks::FINE => V::block::<S, 1, true>(self, &source, x, out),
                2 => V::block::<S, 2, false>(self, &source, x, out),
                3 => V::block::<S, 3, false>(self, &source, x, out),
                4 => V::block::<S, 4, false>(self, &source, x, out),
                6 => V::block::<S, 6, false>(self, &source, x, out),
                _ => V::block::<S, 1, false>(self, &source, x, out),
            }
            token += usize::from(*block).max(1);
            source.is_near();
        }
    }

    /// Multiplies the span with the first `T` tokens, as [`Span::meet`] does.
    ///
    /// # Safety
    /// The requirements of [`Span::meet`] apply. `x` and `out` must have at least `T` tokens, with
    /// 16-bit activations if `FINE`.
    #[inline(always)]
    pub(crate) unsafe fn block<S: Source<V>, V: Vector, const T: usize, const FINE: bool>(
        self,
        source: &S,
        x: &[Activation<'_>],
        mut out: MatrixMut<'_>,
    ) {
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
    }
}

/// Multiplies a round of tokens with all tiles, by panels.
///
/// # Safety
/// The requirements of [`products`] apply.
#[inline(always)]
unsafe fn by_panels<B: Unpack, V: Vector>(tiles: Tiles<'_>, x: &[Activation<'_>], mut out: MatrixMut<'_>) {
    let groups = tiles.columns / GROUP;
    let rows = out.rows();
    let mut panel = Panel::new(B::BIAS.unwrap_or_default());
    for row in (0..rows).step_by(V::ROWS) {
        let tile = &tiles.bytes[row / TILE_ROWS * tiles.tile_bytes..][..tiles.tile_bytes];
        for first in (0..groups).step_by(PANEL) {
            panel.span = Span { first, count: PANEL.min(groups - first), row };
            let packed = Packed::<B>::new(tile, tiles.columns, first, row % TILE_ROWS);
            V::fill::<B, false>(&mut panel, &packed);
            V::meet::<B::Kind>(&panel, x, out.of(0..x.len()));
        }
    }
}

/// Multiplies all tokens with the rows of a panel.
///
/// # Safety
/// The processor must support the instructions of `V`. The panel must be filled, `x` and `out` must
/// have the same number of tokens, and activations must be as long as rows.
#[inline(always)]
pub(crate) unsafe fn meet_panel<K: Kind, V: Vector>(
    panel: &Panel,
    x: &[Activation<'_>],
    mut out: MatrixMut<'_>,
) {
    let source = Unpacked::<K>(panel, PhantomData);
    let mut token = 0;
    while token < x.len() {
        let (x, out) = (&x[token..], out.of(token..x.len()));
        // Takes two tokens only if there are not four: the more tokens, the less each pays for
        // loading the weights.
        token += match x.iter().take(4).take_while(|x| !is_fine(x)).count() {
            0 => {
                V::block::<_, 1, true>(panel.span, &source, x, out);
                1
            }
            1 => {
                V::block::<_, 1, false>(panel.span, &source, x, out);
                1
            }
            2 | 3 => {
                V::block::<_, 2, false>(panel.span, &source, x, out);
                2
            }
            _ => {
                V::block::<_, 4, false>(panel.span, &source, x, out);
                4
            }
        };
    }
}

/// Loads a vector of floats. Lanes after the end of `from` are 0.
///
/// # Safety
/// The processor must support the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn load<V: Vector>(from: &[f32]) -> V::Floats {
    if from.len() >= V::ROWS {
        return V::load_floats(from.as_ptr());
    }
    let mut floats = [0f32; TILE_ROWS];
    floats[..from.len()].copy_from_slice(from);
    V::load_floats(floats.as_ptr())
}

/// Stores the first lanes of `sums`, as many as `to` has room for.
///
/// # Safety
/// The processor must support the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn store<V: Vector>(to: &mut [f32], sums: V::Floats) {
    if to.len() >= V::ROWS {
        return V::store_floats(to.as_mut_ptr(), sums);
    }
    let mut floats = [0f32; TILE_ROWS];
    V::store_floats(floats.as_mut_ptr(), sums);
    to.copy_from_slice(&floats[..to.len()]);
}

/// Source of unpacked groups for `V::ROWS` matrix rows, one row in each vector lane.
pub(crate) trait Source<V: Vector> {
    type Kind: Kind;

    /// Returns the base-2 logarithm of the bias of the levels, as
    /// [`BlockFormat::BIAS`](crate::format::BlockFormat::BIAS).
    fn bias(&self) -> u32;

    /// Prefetches the data that is read some time after group `index`.
    ///
    /// # Safety
    /// No requirements: prefetching is allowed for any address.
    unsafe fn prefetch(&self, index: usize);

    /// Returns the levels of group `index`, by pieces.
    ///
    /// # Safety
    /// The processor must support the instructions of `V`, and the source must have group `index`.
    unsafe fn levels(&self, index: usize) -> [V::Ints; PIECES];

    /// Returns the scales of group `index`.
    ///
    /// # Safety
    /// The processor must support the instructions of `V`, and the source must have group `index`.
    unsafe fn scales(&self, index: usize) -> Scales<V>;

    /// Stops further prefetching. Called when all data of the source is in the cache.
    fn is_near(&mut self);
}

/// A source of groups that unpacks the packed codes of a tile on demand.
pub(crate) struct Packed<B> {
    heads: *const u8,
    codes: *const u8,
    low: *const u8,
    first: usize,
    row: usize,
    /// Number of groups in a row.
    groups: usize,
    tile_bytes: usize,
    /// Number of cache lines that are prefetched for each group. 0 if all data is in the cache.
    lines: usize,
    format: PhantomData<B>,
}

impl<B: Unpack> Packed<B> {
    /// Creates a source for the groups of a tile from `first` on, and for its rows from `row` on.
    ///
    /// # Safety
    /// `tile` must be packed as `B` with `columns` columns, and must outlive the result. `row` must
    /// be less than [`TILE_ROWS`].
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

    /// Prefetches a fixed number of cache lines per group, so that the prefetches follow the bytes
    /// of the tiles in order.
    ///
    /// # Safety
    /// No requirements: prefetching is allowed for any address.
    #[inline(always)]
    unsafe fn prefetch_through(&self, group: usize) {
        for line in 0..self.lines {
            prefetch(self.heads.wrapping_add((group * self.lines + line) * PLANE + AHEAD));
        }
    }

    /// Prefetches the data of a group, which may belong to one of the next tiles.
    ///
    /// # Safety
    /// No requirements: prefetching is allowed for any address.
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
            // The low bits are stored separately, so the data of a group is not contiguous.
            let bytes = code_bytes::<B>() + low_bytes::<B>() + head_bytes::<B>() / (B::LEN / GROUP);
            self.prefetch_group(group + AHEAD / bytes);
        }
    }

    #[inline(always)]
    unsafe fn levels(&self, index: usize) -> [V::Ints; PIECES] {
        let (group, row) = (self.first + index, self.row * size_of::<i32>());
        // Without separate low bits, this address is past the tile and is not read.
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

/// The scales and offsets of a group for sixteen rows.
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
    /// Stores the scales and offsets of a vector's rows.
    ///
    /// # Safety
    /// The processor must support the instructions of `V`.
    #[inline(always)]
    unsafe fn store<K: Kind, V: Vector>(&mut self, scales: Scales<V>) {
        for half in 0..if K::SPLIT { 2 } else { 1 } {
            V::store_floats(self.scale[half].as_mut_ptr(), scales.scale[half]);
            if K::OFFSET {
                V::store_floats(self.offset[half].as_mut_ptr(), scales.offset[half]);
            }
        }
    }

    /// Loads the scales and offsets of a vector's rows.
    ///
    /// # Safety
    /// The processor must support the instructions of `V`.
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

/// Buffer for the scales and offsets of the groups in a span.
struct ScaleRoom([GroupScales; SPAN]);

impl Default for ScaleRoom {
    fn default() -> Self {
        Self([GroupScales::default(); SPAN])
    }
}

/// A source of groups that unpacks packed codes on demand, but has computed all scales in advance.
struct Scaled<'a, B> {
    packed: Packed<B>,
    scales: &'a ScaleRoom,
}

impl<'a, B: Unpack> Scaled<'a, B> {
    /// Computes the scales of `count` groups into `room`.
    ///
    /// # Safety
    /// The processor must support the instructions of `V`. `packed` must have `count` groups, and
    /// its tile must outlive the result.
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

/// A buffer with the unpacked groups of a span.
pub(crate) struct Panel {
    pub(crate) groups: [PanelGroup; PANEL],
    pub(crate) span: Span,
    bias: u32,
}

/// An unpacked group: its levels or signed integers, indexed by piece, and its scales.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct PanelGroup {
    pub(crate) levels: [[u8; PLANE]; PIECES],
    pub(crate) scales: GroupScales,
}

impl Panel {
    /// Creates an empty panel. `bias` is the base-2 logarithm of the bias of the levels.
    #[inline(always)]
    pub(crate) fn new(bias: u32) -> Self {
        let group = PanelGroup { levels: [[0; PLANE]; PIECES], scales: GroupScales::default() };
        Self { groups: [group; PANEL], span: Span { first: 0, count: 0, row: 0 }, bias }
    }

    /// Unpacks the groups of the span into the panel. Stores their levels, or if `SIGNED`, the
    /// levels minus the bias.
    ///
    /// # Safety
    /// The processor must support the instructions of `V`, and `packed` must have the groups of the
    /// span.
    #[inline(always)]
    pub(crate) unsafe fn fill<B: Unpack, V: Vector, const SIGNED: bool>(&mut self, packed: &Packed<B>) {
        for (index, group) in self.groups[..self.span.count].iter_mut().enumerate() {
            <Packed<B> as Source<V>>::prefetch(packed, index);
            let pieces = <Packed<B> as Source<V>>::levels(packed, index);
            for (to, mut piece) in group.levels.iter_mut().zip(pieces) {
                if SIGNED && B::Kind::BIASED {
                    piece = V::minus_bytes(piece, V::splat_bytes(bias::<B>().cast_signed()));
                }
                V::store(to.as_mut_ptr(), piece);
            }
            group.scales.store::<B::Kind, V>(<Packed<B> as Source<V>>::scales(packed, index));
        }
    }
}

/// A source of groups that reads a filled panel.
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

/// Returns `sums` plus the products of `count` groups of the source with `T` tokens. The arithmetic
/// is that of the portable code with a row in each lane.
///
/// `x` points to the 8-bit groups of each token. `all` points to the blocks whose scales and sums
/// apply: for 16-bit activations (`FINE`) the blocks of the lower 8 bits, otherwise `x` itself.
///
/// # Safety
/// The processor must support the instructions of `V`. `source` must have `count` groups. Each
/// pointer of `x` and `all` must be valid for reading `count` blocks, with the alignment of
/// [`Q8Block`].
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
                    integers[t] = V::shl_lanes(integers[t], 8);
                }
                if S::Kind::BIASED && !(S::Kind::WIDE && V::TAKES_WIDE_BIAS) {
                    let minus = V::each_int(if is_split { all.minuses[part] } else { all.minus });
                    let minus = V::shl_lanes(minus, source.bias());
                    integers[t] = if FINE { V::add(integers[t], minus) } else { minus };
                }
            }
            if const { V::NARROWS && S::Kind::PAIRS > 1 && !FINE } {
                for first in pieces.clone().step_by(S::Kind::PAIRS) {
                    let mut narrow = [V::zero(); T];
                    let some = first..pieces.end.min(first + S::Kind::PAIRS);
                    for piece in some {
                        for t in 0..T {
                            let four = four::<V>(all[t].add(index), piece);
                            narrow[t] = V::dot_narrow(narrow[t], levels[piece], four);
                        }
                    }
                    for t in 0..T {
                        integers[t] = V::add(integers[t], V::widen_narrow(narrow[t]));
                    }
                }
            } else {
                for piece in pieces {
                    for t in 0..T {
                        integers[t] =
                            add_four::<S::Kind, V>(integers[t], levels[piece], all[t].add(index), piece);
                    }
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

/// Returns `integers` plus the products of the levels of piece `piece` with its four activations in
/// `x`.
///
/// # Safety
/// The processor must support the instructions of `V`. `x` must be valid for reading a block, with
/// the alignment of [`Q8Block`].
#[inline(always)]
unsafe fn add_four<K: Kind, V: Vector>(
    integers: V::Ints,
    levels: V::Ints,
    x: *const Q8Block,
    piece: usize,
) -> V::Ints {
    let four = four::<V>(x, piece);
    if K::WIDE { V::dot_wide(integers, levels, four) } else { V::dot(integers, levels, four) }
}

/// Returns the four activations of piece `piece` of the block `x`, in every lane.
///
/// # Safety
/// The requirements of [`add_four`] apply.
#[inline(always)]
unsafe fn four<V: Vector>(x: *const Q8Block, piece: usize) -> V::Ints {
    let fours: &[[i8; 4]; PIECES] = &*(&raw const (*x).q).cast();
    V::each_int(i32::from_le_bytes(fours[piece].map(i8::cast_unsigned)))
}
