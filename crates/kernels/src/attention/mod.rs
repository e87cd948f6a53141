//! The two products of attention, for blocks of positions: a query with keys, and weights with
//! values.
//!
//! Keys and values are stored as floats, or as integers of 16 or 8 bits ([`KvFormat`]). Integers of
//! 16 bits take half the memory and half the instructions, and lose about as much precision as 16-bit
//! floats. Integers of 8 bits take about a quarter of the memory, and are expanded to 16 bits before
//! the products. The products of a query do not depend on the other queries of the call.

mod bytes;
mod f16_as_i16;
mod floats;

pub use self::f16_as_i16::Pair;
use self::floats::Floats;

pub(crate) use self::bytes::{Bytes, expand_keys, expand_values};
pub(crate) use self::f16_as_i16::{LANES, Levels, Weights, WordQuery, Words, sum_of_lanes};
use crate::tier::{Tier, with_tier};

/// Number of positions in a block.
pub const POSITIONS: usize = 64;

/// Storage format of keys and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KvFormat {
    /// 32-bit floats.
    F32,
    /// 16-bit integers, with a power of two as the scale of each key and each value.
    I16,
    /// 8-bit integers, with a factor for every 32 elements and a power of two as the scale of each
    /// key and each value.
    I8,
}

impl KvFormat {
    /// Reports whether heads of `head_dim` elements are supported. Integers support up to 4,096
    /// elements.
    pub const fn takes(self, head_dim: usize) -> bool {
        matches!(self, Self::F32) || head_dim <= f16_as_i16::LONGEST
    }
}

/// Memory layout of a block: the keys and values of one head at [`POSITIONS`] positions, in
/// elements of 32 bits.
///
/// With [`KvShape::within_keys`], the values are a part of the keys and take no memory of their own.
///
/// A vector lane holds one position of the keys, or one element of the values. Zeroed memory stands
/// for keys and values of zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KvShape {
    format: KvFormat,
    head_dim: usize,
    /// First element of the values within the keys, if they are a part of the keys.
    values_from: Option<usize>,
}

impl KvShape {
    /// Creates the layout for heads of `head_dim` elements.
    ///
    /// # Panics
    /// Panics if the format does not support such heads.
    pub fn new(format: KvFormat, head_dim: usize) -> Self {
        assert!(format.takes(head_dim), "{format:?} does not support heads of {head_dim} elements");
        Self { format, head_dim, values_from: None }
    }

    /// Creates the layout for keys of `head_dim` elements whose elements from `first` on are also the
    /// values.
    ///
    /// # Panics
    /// Panics if the format does not support such keys, or if `first` is odd or exceeds `head_dim`.
    pub fn within_keys(format: KvFormat, head_dim: usize, first: usize) -> Self {
        assert!(first.is_multiple_of(2) && first <= head_dim, "values cannot start at element {first}");
        Self { values_from: Some(first), ..Self::new(format, head_dim) }
    }

    /// Returns the storage format of keys and values.
    pub const fn format(self) -> KvFormat {
        self.format
    }

    /// Returns the number of elements in a key.
    pub const fn head_dim(self) -> usize {
        self.head_dim
    }

    /// Returns the number of elements in a value.
    pub const fn value_dim(self) -> usize {
        match self.values_from {
            Some(first) => self.head_dim - first,
            None => self.head_dim,
        }
    }

    /// Returns the number of 32-bit elements of the memory into which keys or values are copied before
    /// they are used ([`KvBlock::with_keys`], [`KvBlock::with_values`]). 0 if they are used in place.
    pub const fn room_len(self) -> usize {
        match (self.format, self.values_from) {
            (KvFormat::I8, _) => bytes::room_len(self.head_dim, self.value_dim()),
            (_, None) => 0,
            (KvFormat::F32, Some(_)) => POSITIONS * self.value_dim(),
            (KvFormat::I16, Some(_)) => POSITIONS / 2 * self.value_dim(),
        }
    }

    /// Returns the number of elements of a value that have memory of their own.
    const fn stored_value_dim(self) -> usize {
        if self.values_from.is_some() { 0 } else { self.head_dim }
    }

    /// Returns the number of 32-bit elements in a block.
    pub const fn block_len(self) -> usize {
        let value_dim = self.stored_value_dim();
        match self.format {
            KvFormat::F32 => floats::len(self.head_dim, value_dim),
            KvFormat::I16 => f16_as_i16::len(self.head_dim, value_dim),
            KvFormat::I8 => bytes::len(self.head_dim, value_dim),
        }
    }

    /// Stores the key and the value of position `row` in the memory of a block. `value` is empty if
    /// the values are a part of the keys.
    ///
    /// # Panics
    /// Panics if `row` is not less than [`POSITIONS`], or if `key` or `value` is not as long as the
    /// head. Also panics if `memory` is not as long as a block.
    pub fn write(self, memory: &mut [u32], row: usize, key: &[f32], value: &[f32]) {
        let value_len = self.stored_value_dim();
        assert_eq!((key.len(), value.len()), (self.head_dim, value_len), "lengths of key and value");
        assert_eq!(memory.len(), self.block_len(), "length of the memory of a block");
        assert!(row < POSITIONS, "position {row} is out of range ({POSITIONS} positions per block)");
        match self.format {
            KvFormat::F32 => Floats::write(memory, row, key, value),
            KvFormat::I16 => Words::write(memory, row, key, value),
            KvFormat::I8 => Bytes::write(memory, row, key, value),
        }
    }
}

/// A block of keys and values whose first positions are in use.
#[derive(Clone, Copy, Debug)]
pub struct KvBlock<'a> {
    shape: KvShape,
    rows: Rows<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Rows<'a> {
    Floats(Floats<'a>),
    Words(Words<'a>),
    Bytes(Bytes<'a>),
}

impl<'a> KvBlock<'a> {
    /// Creates a view of the memory of a block, with the first `positions` positions in use.
    ///
    /// # Panics
    /// Panics if `memory` is not as long as a block, or if `positions` exceeds [`POSITIONS`].
    pub fn new(shape: KvShape, memory: &'a [u32], positions: usize) -> Self {
        assert_eq!(memory.len(), shape.block_len(), "length of the memory of a block");
        assert!(positions <= POSITIONS, "{positions} positions exceed the {POSITIONS} positions of a block");
        let rows = match shape.format {
            KvFormat::F32 => Rows::Floats(Floats::new(shape.head_dim, memory)),
            KvFormat::I16 => Rows::Words(Words::new(shape.head_dim, memory, positions)),
            KvFormat::I8 => {
                Rows::Bytes(Bytes::new((shape.head_dim, shape.stored_value_dim()), memory, positions))
            }
        };
        Self { shape, rows }
    }

    /// Returns the block with keys for [`key_products`]. Keys of 8 bits are expanded to `room`, and the
    /// result then has no values.
    ///
    /// # Panics
    /// Panics if `room` is shorter than [`KvShape::room_len`].
    #[must_use]
    pub fn with_keys(self, room: &'a mut [u32]) -> Self {
        self.with_keys_by(Tier::best(), room)
    }

    fn with_keys_by(mut self, tier: Tier, room: &'a mut [u32]) -> Self {
        if let Rows::Bytes(bytes) = self.rows {
            self.rows = Rows::Words(bytes.expand_keys(tier, &mut room[..self.shape.room_len()]));
        }
        self
    }

    /// Returns the block with values for [`add_values`]. Values that are a part of the keys are copied
    /// to `room`. Values of 8 bits are expanded to `room`, and the result then has no keys.
    ///
    /// # Panics
    /// Panics if `room` is shorter than [`KvShape::room_len`].
    #[must_use]
    pub fn with_values(self, room: &'a mut [u32]) -> Self {
        self.with_values_by(Tier::best(), room)
    }

    fn with_values_by(mut self, tier: Tier, room: &'a mut [u32]) -> Self {
        let Self { shape, rows } = &mut self;
        let room = &mut room[..shape.room_len()];
        match (rows, shape.values_from) {
            (Rows::Bytes(bytes), first) => {
                self.rows = Rows::Words(bytes.expand_values(tier, (shape.value_dim(), first), room));
            }
            (_, None) => {}
            (Rows::Floats(floats), Some(first)) => floats.copy_values(first, room),
            (Rows::Words(words), Some(first)) => words.copy_values(first, room),
        }
        self
    }

    /// Returns the memory of the keys, for prefetching. Empty for [`KvFormat::F32`].
    pub fn keys(&self) -> Prefetch<'a> {
        match self.rows {
            Rows::Floats(_) => Prefetch(&[]),
            Rows::Words(words) => Prefetch(words.keys),
            Rows::Bytes(bytes) => Prefetch(bytes.key_memory()),
        }
    }

    /// Returns the memory of the values, for prefetching. Empty for [`KvFormat::F32`].
    pub fn values(&self) -> Prefetch<'a> {
        match self.rows {
            Rows::Floats(_) => Prefetch(&[]),
            Rows::Words(words) => Prefetch(words.values),
            Rows::Bytes(bytes) => Prefetch(bytes.value_memory()),
        }
    }

    /// Returns true if the values have memory, of `dim` elements for each position.
    const fn has_values(&self, dim: usize) -> bool {
        match self.rows {
            Rows::Floats(floats) => floats.values.len() == POSITIONS * dim,
            Rows::Words(words) => words.values.len() == POSITIONS / 2 * dim,
            Rows::Bytes(_) => false,
        }
    }

    /// Returns the block with `next` set as the memory to prefetch during its products. Blocks of
    /// floats, and blocks whose 8-bit integers are not expanded yet, ignore the setting.
    #[must_use]
    pub const fn prefetching(mut self, next: Prefetch<'a>) -> Self {
        if let Rows::Words(words) = &mut self.rows {
            words.next = next.0;
        }
        self
    }
}

/// Keys or values that will be read next. A head has only a few contiguous kilobytes of them, too
/// few for the processor's own prefetcher to recognise.
#[derive(Clone, Copy, Default, Debug)]
pub struct Prefetch<'a>(&'a [Pair]);

/// A query, rounded if the format of the blocks needs it.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    values: &'a [f32],
    scale: f32,
    rounded: WordQuery<'a>,
}

impl<'a> Query<'a> {
    /// Returns the number of pairs that hold a query of `head_dim` elements after rounding.
    pub const fn pairs(head_dim: usize) -> usize {
        head_dim.div_ceil(2)
    }

    /// Creates a query whose products are multiplied by `scale`. If `format` needs a rounded query,
    /// the result is written to `room`.
    ///
    /// # Panics
    /// Panics if the length of `room` is not [`Query::pairs`] of the query's length.
    pub fn new(format: KvFormat, values: &'a [f32], scale: f32, room: &'a mut [Pair]) -> Self {
        assert_eq!(Self::pairs(values.len()), room.len(), "number of pairs of a query");
        let rounded = match format {
            KvFormat::F32 => WordQuery::default(),
            KvFormat::I16 | KvFormat::I8 => WordQuery::new(values, scale, room),
        };
        Self { values, scale, rounded }
    }

    pub(crate) const fn rounded(&self) -> WordQuery<'a> {
        self.rounded
    }
}

/// Computes the products of queries with the keys of a block: `out[query][position]`. Entries of
/// unused positions are unspecified.
///
/// # Panics
/// Panics if a query is not as long as the keys, or was made for another format. Also panics if
/// `out` is not as long as `queries`, or if the block needs [`KvBlock::with_keys`].
pub fn key_products(queries: &[Query<'_>], block: KvBlock<'_>, out: &mut [&mut [f32; POSITIONS]]) {
    key_products_by(Tier::best(), queries, block, out);
}

/// For each query, adds the weighted sum of the block's values to `out[query]`. The value at
/// `position` has the weight `weights[query][position]`. Weights of unused positions must be 0.
///
/// # Panics
/// Panics if `weights` and `out` have different lengths, if an output is not as long as a value, or if
/// the block needs [`KvBlock::with_values`].
pub fn add_values(weights: &[&[f32; POSITIONS]], block: KvBlock<'_>, out: &mut [&mut [f32]]) {
    add_values_by(Tier::best(), weights, block, out);
}

#[allow(unsafe_code, reason = "kernels need the instructions of their tier")]
fn key_products_by(tier: Tier, queries: &[Query<'_>], block: KvBlock<'_>, out: &mut [&mut [f32; POSITIONS]]) {
    tier.check();
    assert_eq!(queries.len(), out.len(), "number of queries and of products");
    assert!(
        queries.iter().all(|query| query.values.len() == block.shape.head_dim),
        "queries must be as long as keys"
    );
    let words = match &block.rows {
        Rows::Words(words) => words,
        Rows::Floats(floats) => {
            for (query, out) in queries.iter().zip(out) {
                floats.key_products(query.values, query.scale, out);
            }
            return;
        }
        Rows::Bytes(_) => panic!("the keys of a block must be expanded first"),
    };
    let pairs = Query::pairs(block.shape.head_dim);
    assert!(words.keys.len() == pairs * POSITIONS, "the block has no keys");
    assert!(queries.iter().all(|query| query.rounded.pairs.len() == pairs), "queries must be rounded");
    with_tier!(tier,
        // SAFETY: `check` asserts that the processor has the tier. The assertions above check that all
        // queries have as many pairs as the keys, and that `out` is as long as `queries`.
        // `KvBlock::new` checks the number of positions.
        kernels => unsafe { kernels::key_products(queries, words, out) },
        portable => for (query, out) in queries.iter().zip(out) {
            words.key_products(&query.rounded, out);
        }
    );
}

#[allow(unsafe_code, reason = "kernels need the instructions of their tier")]
fn add_values_by(tier: Tier, weights: &[&[f32; POSITIONS]], block: KvBlock<'_>, out: &mut [&mut [f32]]) {
    tier.check();
    assert_eq!(weights.len(), out.len(), "number of weights and of outputs");
    let dim = block.shape.value_dim();
    assert!(out.iter().all(|out| out.len() == dim), "outputs must be as long as values");
    assert!(block.has_values(dim), "the values of a block must be copied or expanded first");
    if let Rows::Words(Words { positions, .. }) = block.rows {
        let is_zero = |weights: &&[f32; POSITIONS]| weights[positions..].iter().all(|weight| *weight == 0.0);
        debug_assert!(weights.iter().all(is_zero), "weights of positions outside the span must be zero");
    }
    let words = match &block.rows {
        Rows::Words(words) => words,
        Rows::Floats(floats) => {
            for (weights, out) in weights.iter().zip(out) {
                floats.add_values(weights, out);
            }
            return;
        }
        Rows::Bytes(_) => unreachable!("`has_values` is false"),
    };
    with_tier!(tier,
        // SAFETY: `check` asserts that the processor has the tier. The assertions above check that all
        // outputs are as long as the values, and that `out` is as long as `weights`. `KvBlock::new`
        // checks the number of positions.
        kernels => unsafe { kernels::add_values(weights, words, out) },
        portable => for (weights, out) in weights.iter().zip(out) {
            words.add_values(&Weights::new(weights, words.value_steps), 0, out);
        }
    );
}

#[cfg(test)]
mod tests {
    use super::f16_as_i16::LONGEST;
    use super::*;
    use crate::tests::noise;

    /// Keys and values of a block, queries and weights.
    #[derive(Clone)]
    struct Case {
        format: KvFormat,
        /// Number of positions in use.
        positions: usize,
        keys: Vec<Vec<f32>>,
        values: Vec<Vec<f32>>,
        queries: Vec<Vec<f32>>,
        weights: Vec<[f32; POSITIONS]>,
    }

    impl Case {
        fn new(dim: usize, count: usize, row: impl Fn(usize, u64) -> Vec<f32>) -> Self {
            let rows = |count, seed| (0..count as u64).map(|at| row(dim, seed + at)).collect();
            let weights = |query: u64| {
                let mut weights: [f32; POSITIONS] =
                    noise(POSITIONS, query).try_into().expect("as many as positions");
                for weight in &mut weights {
                    *weight = weight.abs() / 32.0;
                }
                weights
            };
            let weights = (0..count as u64).map(weights).collect();
            Self {
                format: KvFormat::I16,
                positions: POSITIONS,
                keys: rows(POSITIONS, 1),
                values: rows(POSITIONS, 100),
                queries: rows(count, 200),
                weights,
            }
        }

        fn shape(&self) -> KvShape {
            KvShape::new(self.format, self.keys[0].len())
        }

        /// Returns the memory of a block with all keys and values.
        fn memory(&self) -> Vec<u32> {
            let mut memory = vec![0; self.shape().block_len()];
            for (row, (key, value)) in self.keys.iter().zip(&self.values).enumerate() {
                self.shape().write(&mut memory, row, key, value);
            }
            memory
        }

        fn products(&self, tier: Tier) -> Vec<[f32; POSITIONS]> {
            let pairs = Query::pairs(self.keys[0].len());
            let mut room = vec![[7; 2]; pairs * self.queries.len()];
            let rooms = room.chunks_mut(pairs);
            let queries: Vec<_> = self
                .queries
                .iter()
                .zip(rooms)
                .map(|(query, room)| Query::new(self.format, query, 0.5, room))
                .collect();
            let mut all = vec![[f32::NAN; POSITIONS]; queries.len()];
            let memory = self.memory();
            let mut room = vec![u32::MAX; self.shape().room_len()];
            let block = KvBlock::new(self.shape(), &memory, self.positions).with_keys_by(tier, &mut room);
            key_products_by(tier, &queries, block, &mut all.iter_mut().collect::<Vec<_>>());
            all
        }

        fn outputs(&self, tier: Tier) -> Vec<Vec<f32>> {
            let dim = self.keys[0].len();
            let mut all: Vec<_> = (0..self.weights.len() as u64).map(|at| noise(dim, at)).collect();
            let mut outs: Vec<&mut [f32]> = all.iter_mut().map(Vec::as_mut_slice).collect();
            let weights: Vec<_> = self.weights.iter().collect();
            let memory = self.memory();
            let mut room = vec![u32::MAX; self.shape().room_len()];
            let block = KvBlock::new(self.shape(), &memory, self.positions);
            let next = block.values();
            let block = block.with_values_by(tier, &mut room).prefetching(next);
            add_values_by(tier, &weights, block, &mut outs);
            all
        }
    }

    fn bits<'a>(rows: impl IntoIterator<Item = &'a [f32]>) -> Vec<Vec<u32>> {
        rows.into_iter().map(|row| row.iter().map(|value| value.to_bits()).collect()).collect()
    }

    const INTEGERS: [KvFormat; 2] = [KvFormat::I16, KvFormat::I8];
    const SHAPES: [(usize, usize); 8] =
        [(1, 1), (7, 2), (8, 2), (40, 3), (64, 4), (72, 5), (100, 6), (256, 16)];

    #[test]
    fn every_tier_gives_the_portable_bits() {
        for ((dim, count), format) in
            SHAPES.into_iter().flat_map(|shape| INTEGERS.map(|format| (shape, format)))
        {
            let mut case = Case { format, ..Case::new(dim, count, noise) };
            case.weights[0][5..].fill(0.0);
            for tier in Tier::available() {
                let products = |tier| bits(case.products(tier).iter().map(<[f32; 64]>::as_slice));
                assert_eq!(products(tier), products(Tier::Portable), "{tier:?}, {dim}");
                let outputs = |tier| bits(case.outputs(tier).iter().map(Vec::as_slice));
                assert_eq!(outputs(tier), outputs(Tier::Portable), "{tier:?}, {dim}");
            }
        }
    }

    #[test]
    fn products_do_not_depend_on_the_queries_beside() {
        let all = Case::new(64, 7, noise);
        for tier in Tier::available() {
            let (products, outputs) = (all.products(tier), all.outputs(tier));
            for at in 0..7 {
                let alone = |rows: &[Vec<f32>]| vec![rows[at].clone()];
                let case = Case {
                    format: KvFormat::I16,
                    positions: POSITIONS,
                    keys: all.keys.clone(),
                    values: all.values.clone(),
                    queries: alone(&all.queries),
                    weights: vec![all.weights[at]],
                };
                assert_eq!(case.products(tier), products[at..=at]);
                let before = |row: &[f32], at| -> Vec<f32> {
                    row.iter().zip(noise(64, at as u64)).map(|(out, before)| out - before).collect()
                };
                let [own] = &case.outputs(tier)[..] else { panic!("one output") };
                let (own, among) = (before(own, 0), before(&outputs[at], at));
                assert!(own.iter().zip(among).all(|(a, b)| (a - b).abs() < 1e-6), "{tier:?}, {at}");
            }
        }
    }

    #[test]
    fn positions_that_do_not_count_change_nothing() {
        let formats = [KvFormat::I16, KvFormat::I8, KvFormat::F32];
        for ((dim, count), format) in
            SHAPES.into_iter().flat_map(|shape| formats.map(|format| (shape, format)))
        {
            let mut case = Case { format, ..Case::new(dim, count, noise) };
            for positions in [63, 48, 33, 32, 31, 16, 7, 2, 1] {
                for weights in &mut case.weights {
                    weights[positions..].fill(0.0);
                }
                let mut stale = Case { positions, ..case.clone() };
                for rows in [&mut stale.keys, &mut stale.values] {
                    for (row, value) in rows[positions..].iter_mut().zip([f32::NAN, f32::INFINITY, 1e30]) {
                        row.fill(value);
                    }
                }
                for tier in Tier::available() {
                    let products = |case: &Case| {
                        let products = case.products(tier);
                        bits(products.iter().map(|row| &row[..positions]))
                    };
                    let outputs = |case: &Case| bits(case.outputs(tier).iter().map(Vec::as_slice));
                    assert_eq!(products(&stale), products(&case), "{tier:?}, {dim}, {positions}");
                    assert_eq!(outputs(&stale), outputs(&case), "{tier:?}, {dim}, {positions}");
                }
            }
        }
    }

    /// Returns the largest relative errors of products and of outputs. Errors of products are
    /// relative to the product of the norms, and errors of outputs to the sum of the weighted
    /// norms.
    fn errors(case: &Case) -> (f64, f64) {
        let dot = |a: &[f32], b: &[f32]| -> f64 {
            a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let norm = |a: &[f32]| dot(a, a).sqrt();
        let mut worst = (0f64, 0f64);
        for (query, products) in case.queries.iter().zip(case.products(Tier::best())) {
            for (key, product) in case.keys.iter().zip(products) {
                let error = f64::from(product) - 0.5 * dot(query, key);
                worst.0 = worst.0.max(error.abs() / (0.5 * norm(query) * norm(key)));
            }
        }
        for (at, (weights, out)) in case.weights.iter().zip(case.outputs(Tier::best())).enumerate() {
            let before = noise(out.len(), at as u64);
            let terms = || case.values.iter().zip(weights);
            let size: f64 = terms().map(|(value, weight)| norm(value) * f64::from(*weight)).sum();
            let error = |element: usize| {
                let exact: f64 =
                    terms().map(|(value, weight)| f64::from(value[element]) * f64::from(*weight)).sum();
                f64::from(out[element]) - f64::from(before[element]) - exact
            };
            let squares: f64 = (0..out.len()).map(|element| error(element).powi(2)).sum();
            worst.1 = worst.1.max(squares.sqrt() / size);
        }
        worst
    }

    /// Maximum relative error of a product of two numbers that are rounded to 16-bit floats.
    const HALVES: f64 = 2.0 / 4096.0;
    /// Maximum relative error of a product if one of the numbers is rounded to 8 bits, with a factor that
    /// is rounded up by at most a 64th, and the other number to 16 bits.
    const BYTES: f64 = 1.02 / 254.0 + HALVES;

    const fn most(format: KvFormat) -> f64 {
        if matches!(format, KvFormat::I8) { BYTES } else { HALVES }
    }

    #[test]
    fn loses_no_more_than_the_rounding() {
        for ((dim, count), format) in
            SHAPES.into_iter().flat_map(|shape| INTEGERS.map(|format| (shape, format)))
        {
            let alike = Case::new(dim, count, noise);
            let spread = Case::new(dim, count, |dim, seed| {
                noise(dim, seed).iter().map(|x| x * x.abs().powi(7) * 1e6 / (seed as f32 + 1.0)).collect()
            });
            for case in [alike, spread] {
                let (products, outputs) = errors(&Case { format, ..case });
                let most = most(format);
                assert!(products < most && outputs < most, "{format:?} {dim}: {products:e} {outputs:e}");
            }
        }
    }

    #[test]
    fn the_longest_keys_fit() {
        for row in [|dim, _| vec![3.0; dim], noise] {
            for format in INTEGERS {
                let mut case = Case { format, ..Case::new(LONGEST, 1, row) };
                case.queries = case.keys[..1].to_vec();
                let (products, _) = errors(&case);
                assert!(products < 4e-3, "{format:?}: {products:e}");
            }
        }
    }

    #[test]
    fn formats_report_supported_head_sizes() {
        assert!(INTEGERS.iter().all(|format| format.takes(LONGEST) && !format.takes(LONGEST + 1)));
        assert!(KvFormat::F32.takes(LONGEST + 1));
    }

    #[test]
    fn floats_are_as_exact_as_floats() {
        for (dim, count) in SHAPES {
            let case = Case { format: KvFormat::F32, ..Case::new(dim, count, noise) };
            let (products, outputs) = errors(&case);
            assert!(products < 1e-6 && outputs < 1e-6, "{dim}: {products:e} {outputs:e}");
        }
    }

    #[test]
    fn no_sum_leaves_32_bits() {
        let rows: [fn(usize, u64) -> Vec<f32>; 4] = [
            |dim, _| vec![3.0; dim],
            |dim, seed| noise(dim, seed).iter().map(|x| x.signum()).collect(),
            |dim, seed| (0..dim).map(|at| if at as u64 == seed % dim as u64 { 1e18 } else { 0.0 }).collect(),
            |dim, _| (0..dim).map(|at| if at % 3 == 0 { 1e15 } else { 9e14 }).collect(),
        ];
        for row in rows {
            for (dim, format) in
                [1, 2, 63, 64, 256].into_iter().flat_map(|dim| INTEGERS.map(|format| (dim, format)))
            {
                let mut case = Case { format, ..Case::new(dim, 2, row) };
                case.weights = vec![[1.0 / 64.0; POSITIONS], std::array::from_fn(|at| f32::from(at == 9))];
                // Queries equal to keys make the sums as large as possible.
                case.queries = case.keys[..2].to_vec();
                let ((products, outputs), most) = (errors(&case), most(format));
                assert!(products < most && outputs < most, "{format:?} {dim}: {products:e} {outputs:e}");
            }
        }
    }

    #[test]
    fn non_finite_values_affect_only_visible_positions() {
        let bad = [(f32::NAN, 8), (f32::INFINITY, 64), (f32::NEG_INFINITY, 7)];
        let formats = [KvFormat::I16, KvFormat::I8, KvFormat::F32];
        for ((bad, dim), format) in bad.into_iter().flat_map(|bad| formats.map(|format| (bad, format))) {
            let mut case = Case { format, ..Case::new(dim, 1, noise) };
            case.keys[3][1] = bad;
            case.values[60][1] = bad;
            case.values[2].fill(0.0);
            case.keys[2].fill(1e-42);
            for tier in Tier::available() {
                let products = case.products(tier);
                assert!(!products[0][3].is_finite() && products[0][2].abs() < 1e-40, "{tier:?}");
                assert_eq!(products[0].iter().filter(|product| !product.is_finite()).count(), 1);
                assert!(!case.outputs(tier)[0][1].is_finite(), "{tier:?}");
            }
            case.weights[0][60] = 0.0;
            for tier in Tier::available() {
                assert!(case.outputs(tier)[0].iter().all(|out| out.is_finite()), "{tier:?}");
            }
        }
    }

    #[test]
    fn values_within_keys_are_those_beside_them() {
        for (dim, first) in [(64, 0), (100, 34), (7, 2), (96, 64)] {
            for format in [KvFormat::I16, KvFormat::I8, KvFormat::F32] {
                let case = Case { format, ..Case::new(dim, 2, noise) };
                let shape = KvShape::within_keys(format, dim, first);
                let mut memory = vec![0; shape.block_len()];
                for (row, key) in case.keys.iter().enumerate() {
                    shape.write(&mut memory, row, key, &[]);
                }
                let mut room = vec![u32::MAX; shape.room_len()];
                let block = KvBlock::new(shape, &memory, 63).with_values(&mut room);
                let mut weights = case.weights[0];
                weights[63] = 0.0;
                let mut out = vec![0.0; shape.value_dim()];
                add_values(&[&weights], block, &mut [&mut out]);
                for (element, out) in out.iter().enumerate() {
                    let terms =
                        case.keys.iter().zip(weights).map(|(key, weight)| key[first + element] * weight);
                    let (size, exact) = (terms.clone().map(f32::abs).sum::<f32>(), terms.sum::<f32>());
                    assert!((out - exact).abs() < 0.02 * size, "{format:?}, {dim}, {element}: {out} {exact}");
                }
            }
        }
    }

    #[test]
    fn eight_bits_take_about_half_of_sixteen() {
        for (dim, most) in [(64, 0.58), (128, 0.55), (256, 0.53)] {
            let len = |format| KvShape::new(format, dim).block_len() as f64;
            assert!(len(KvFormat::I8) < most * len(KvFormat::I16), "{dim}");
        }
    }
}
