//! Tests of every type against the reference implementation, and of all tiers against each other.

mod grids;

use std::collections::HashMap;

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::safetensors::load_buffer;
use candle_core::{Device, Tensor};

use super::*;
use crate::f16_as_i16::power;
use crate::float::{Bf16, CHAINS, F16, F32, FloatFormat};
use crate::format::{BlockFormat, bias};

/// Random blocks and their values according to the reference implementation. See `generate.py` next
/// to the file.
const BLOCKS: &[u8] = include_bytes!("../tests/dequantized/blocks.safetensors");

/// Names of the types in the file.
const NAMES: [(&str, Encoding); 28] = [
    ("F32", Encoding::F32),
    ("F16", Encoding::F16),
    ("BF16", Encoding::Bf16),
    ("Q4_0", Encoding::Q4_0),
    ("Q4_1", Encoding::Q4_1),
    ("Q5_0", Encoding::Q5_0),
    ("Q5_1", Encoding::Q5_1),
    ("Q8_0", Encoding::Q8_0),
    ("Q2_K", Encoding::Q2K),
    ("Q3_K", Encoding::Q3K),
    ("Q4_K", Encoding::Q4K),
    ("Q5_K", Encoding::Q5K),
    ("Q6_K", Encoding::Q6K),
    ("IQ4_NL", Encoding::Iq4Nl),
    ("IQ4_XS", Encoding::Iq4Xs),
    ("MXFP4", Encoding::Mxfp4),
    ("IQ1_S", Encoding::Iq1S),
    ("IQ1_M", Encoding::Iq1M),
    ("IQ2_XXS", Encoding::Iq2Xxs),
    ("IQ2_XS", Encoding::Iq2Xs),
    ("IQ2_S", Encoding::Iq2S),
    ("IQ3_XXS", Encoding::Iq3Xxs),
    ("IQ3_S", Encoding::Iq3S),
    ("TQ1_0", Encoding::Tq1_0),
    ("TQ2_0", Encoding::Tq2_0),
    ("Q1_0", Encoding::Q1_0),
    ("Q2_0", Encoding::Q2_0),
    ("NVFP4", Encoding::Nvfp4),
];

/// Weights of one type, as stored and as floats.
struct Sample {
    encoding: Encoding,
    blocks: Vec<u8>,
    values: Vec<f32>,
}

impl Sample {
    /// Returns a sample of every type.
    fn all() -> Vec<Self> {
        let file: HashMap<String, Tensor> = load_buffer(BLOCKS, &Device::Cpu).unwrap();
        assert_eq!(2 * NAMES.len(), file.len(), "each tensor belongs to a type");
        let sample = |(name, encoding)| {
            let tensor = |part: &str| {
                let suffix = format!(".{name}.{part}");
                file.iter().find(|(name, _)| name.ends_with(&suffix)).expect("one of each").1
            };
            let blocks = tensor("blocks").to_vec1().unwrap();
            let values = tensor("values").to_vec1().unwrap();
            Self { encoding, blocks, values }
        };
        NAMES.into_iter().map(sample).collect()
    }

    fn is_float(&self) -> bool {
        self.encoding.is_float()
    }

    fn dot(&self, x: &[f32]) -> f64 {
        let groups = Activation::quantize(x);
        let columns = self.encoding.elements(self.blocks.len());
        let mut bytes = vec![0; PackedRows::bytes_for(Packing::plain(self.encoding), 1, columns)];
        pack(Packing::plain(self.encoding), &self.blocks, self.blocks.len(), &mut bytes);
        let packed = PackedRows::new(Packing::plain(self.encoding), 1, columns, &bytes);
        let words = words(x, columns);
        f64::from(packed.tile(0, Activation::new(x, &groups).with_words(&words))[0])
    }

    /// Returns the maximum error from rounding weights and activations to 16 bits.
    fn rounding_of_words(&self, x: &[f32]) -> f64 {
        let power = if self.encoding == Encoding::F16 { power::<F16> } else { power::<Bf16> };
        let step = power(&self.blocks).map_or(0.0, |power| 1.0 / f64::from(power));
        let groups = self.values.chunks(GROUP).zip(x.chunks(GROUP)).zip(words(x, x.len()));
        let half_steps = |((weights, x), group): ((&[f32], &[f32]), Q16Block)| -> f64 {
            let scale = f64::from(group.scale);
            let pairs = weights.iter().zip(x);
            pairs
                .map(|(w, x)| {
                    (f64::from(w.abs()) + step / 2.0) * scale / 2.0 + f64::from(x.abs()) * step / 2.0
                })
                .sum()
        };
        groups.map(half_steps).sum()
    }

    /// Returns the contribution of each element to the dot product with `x`.
    fn terms(&self, x: &[f32]) -> impl Iterator<Item = f64> {
        self.values.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x))
    }
}

/// Rounds rows of activations to 16 bits.
fn words(values: &[f32], columns: usize) -> Vec<Q16Block> {
    let count = Q16Block::count(columns);
    let mut words = vec![Q16Block::default(); values.len() / columns * count];
    for (x, words) in values.chunks(columns).zip(words.chunks_mut(count)) {
        Q16Block::quantize_into(x, words);
    }
    words
}

pub(crate) fn noise(len: usize, mut state: u64) -> Vec<f32> {
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

#[test]
fn dequantized_weights_are_exactly_those_of_the_reference() {
    for Sample { encoding, blocks, values } in Sample::all() {
        let mut given = vec![f32::NAN; values.len()];
        dequantize(encoding, &blocks, &mut given);
        // All values are finite, so equal values have equal bits, except for the sign of a zero.
        assert_eq!(given, values, "{encoding:?}");
    }
}

/// Returns values as they occur in matrices: near normal, with a scale for each 64 elements and
/// some outliers.
fn weights(len: usize) -> Vec<f32> {
    let parts = [11, 12, 13].map(|seed| noise(len, seed));
    let scales = noise(len / 64 + 1, 14);
    let value = |i: usize| {
        let normal = parts[0][i] + parts[1][i] + parts[2][i];
        let outlier = if i.is_multiple_of(97) { 4.0 } else { 1.0 };
        0.02 * (1.5 + scales[i / 64]) * normal * outlier
    };
    (0..len).map(value).collect()
}

#[test]
fn quantized_weights_are_as_close_as_those_of_candle() {
    let values = weights(1 << 16);
    let tensor = Tensor::from_slice(&values, values.len(), &Device::Cpu).unwrap();
    for (encoding, dtype) in [
        (Encoding::F16, GgmlDType::F16),
        (Encoding::Bf16, GgmlDType::BF16),
        (Encoding::Q4_0, GgmlDType::Q4_0),
        (Encoding::Q8_0, GgmlDType::Q8_0),
        (Encoding::Q4K, GgmlDType::Q4K),
        (Encoding::Q6K, GgmlDType::Q6K),
    ] {
        let expected = QTensor::quantize(&tensor, dtype).unwrap();
        let expected = expected.data().unwrap();
        let mut blocks = vec![0; expected.len()];
        quantizer(encoding).unwrap()(&values, &mut blocks);
        let [own, candles] = [&blocks[..], &expected].map(|blocks| {
            let mut given = vec![f32::NAN; values.len()];
            dequantize(encoding, blocks, &mut given);
            let squares = given.iter().zip(&values).map(|(given, x)| f64::from(given - x).powi(2));
            squares.sum::<f64>().sqrt()
        });
        eprintln!("{encoding:?}: {:.4} of candle's error", own / candles);
        assert!(own <= 1.001 * candles, "{encoding:?}: {own} {candles}");
    }
}

#[test]
fn quantized_weights_of_extreme_blocks_are_finite_and_close() {
    type Value = fn(usize) -> f32;
    let blocks: [(&str, Value); 8] = [
        ("zeros", |_| 0.0),
        ("a positive constant", |_| 3.0),
        ("a negative constant", |_| -3.0),
        ("one element", |i| if i == 77 { 1.0 } else { 0.0 }),
        ("positive", |i| (i + 1) as f32),
        ("negative", |i| -((i + 1) as f32)),
        ("small", |i| (i as f32 - 100.0) * 1e-3),
        ("large", |i| (i as f32 - 100.0) * 1e3),
    ];
    for (name, value) in blocks {
        let values: Vec<f32> = (0..256).map(value).collect();
        let most = values.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        for (encoding, steps) in
            [(Encoding::Q4_0, 8.0), (Encoding::Q8_0, 127.0), (Encoding::Q4K, 7.5), (Encoding::Q6K, 32.0)]
        {
            let (len, bytes) = encoding.block();
            let mut blocks = vec![0; 256 / len * bytes];
            quantizer(encoding).unwrap()(&values, &mut blocks);
            let mut given = vec![f32::NAN; 256];
            dequantize(encoding, &blocks, &mut given);
            for (given, x) in given.iter().zip(&values) {
                assert!((given - x).abs() <= 1.1 * most / steps, "{encoding:?}, {name}: {given} for {x}");
            }
        }
    }
}

#[test]
fn quantized_constants_are_precise() {
    for value in noise(300, 5) {
        let values = [1.5 + value; 256];
        for encoding in [Encoding::Q4_0, Encoding::Q8_0, Encoding::Q4K, Encoding::Q6K] {
            let (len, bytes) = encoding.block();
            let mut blocks = vec![0; 256 / len * bytes];
            quantizer(encoding).unwrap()(&values, &mut blocks);
            let mut given = [f32::NAN; 256];
            dequantize(encoding, &blocks, &mut given);
            let error = given.iter().zip(&values).map(|(given, x)| (given - x).abs() / x);
            let most = error.fold(0.0, f32::max);
            assert!(most < 0.01, "{encoding:?}: {most} of {}", values[0]);
        }
    }
}

#[test]
fn dot_products_are_off_by_the_rounding_of_activations_at_most() {
    for sample in Sample::all() {
        let x = noise(sample.values.len(), 3);
        let error = (sample.dot(&x) - sample.terms(&x).sum::<f64>()).abs();
        let size: f64 = sample.terms(&x).map(f64::abs).sum();
        let groups = sample.values.chunks_exact(GROUP).zip(Activation::quantize(&x));
        let half_steps = |(weights, group): (&[f32], Q8Block)| {
            weights.iter().map(|w| f64::from(w.abs()) * f64::from(group.scale) / 2.0).sum::<f64>()
        };
        let rounding: f64 = match sample.encoding.operand() {
            Operand::Bytes => groups.map(half_steps).sum(),
            Operand::Words => sample.rounding_of_words(&x),
            Operand::Floats => 0.0,
        };
        assert!(error <= rounding + 1e-5 * size, "{:?}: {error} {rounding} {size}", sample.encoding);
    }
}

#[test]
fn dot_products_with_exact_activations_are_exact_to_rounding() {
    for sample in Sample::all() {
        // Integers up to 127 are unchanged by rounding to 8 bits if their group has a 127.
        let mut x: Vec<f32> = noise(sample.values.len(), 5).iter().map(|x| (x * 127.0).round()).collect();
        for group in x.chunks_exact_mut(GROUP) {
            group[0] = 127.0;
        }
        let error = (sample.dot(&x) - sample.terms(&x).sum::<f64>()).abs();
        let size: f64 = sample.terms(&x).map(f64::abs).sum();
        assert!(error <= 1e-5 * size, "{:?}: {error} {size}", sample.encoding);
    }
}

/// Packed weights and the rows that they were packed from.
struct PackedSample {
    packing: Packing,
    rows: usize,
    columns: usize,
    row_bytes: usize,
    bytes: Vec<u8>,
    packed: Vec<u8>,
}

impl PackedSample {
    fn new(packing: Packing, rows: usize, row_bytes: usize, bytes: Vec<u8>) -> Self {
        let columns = packing.encoding().elements(row_bytes);
        let mut packed = vec![0xff; PackedRows::bytes_for(packing, rows, columns)];
        pack(packing, &bytes, row_bytes, &mut packed);
        Self { packing, rows, columns, row_bytes, bytes, packed }
    }

    /// Creates rows from the blocks of the sample in shuffled order.
    fn shuffled(sample: &Sample, packing: Packing, rows: usize, columns: usize) -> Self {
        let blocks: Vec<&[u8]> = sample.blocks.chunks(sample.block_bytes()).collect();
        let count = rows * columns * blocks.len() / sample.values.len();
        let bytes = (0..count).flat_map(|i| blocks[i * 7919 % 1009 % blocks.len()]).copied().collect();
        Self::new(packing, rows, count / rows * sample.block_bytes(), bytes)
    }

    fn view(&self) -> PackedRows<'_> {
        PackedRows::new(self.packing, self.rows, self.columns, &self.packed)
    }

    /// Returns the bits of the products, `[tokens][rows]`.
    fn products(&self, tier: Tier, x: &[Activation<'_>]) -> Vec<u32> {
        let mut sums = vec![f32::NAN; self.rows * x.len()];
        self.view().products_by(tier, 0, x, MatrixMut::new(&mut sums, self.rows));
        sums.into_iter().map(f32::to_bits).collect()
    }

    /// Returns the bits of the products according to the definition.
    fn defined(&self, x: &[Activation<'_>]) -> Vec<u32> {
        let encoding = self.packing.encoding();
        let mut rows: Vec<(&[u8], bool)> = Vec::new();
        for tile in self.bytes.chunks(TILE_ROWS * self.row_bytes) {
            let are_words = are_words(encoding, tile.chunks(self.row_bytes));
            rows.extend(tile.chunks(self.row_bytes).map(|row| (row, are_words)));
        }
        let products = |x| rows.iter().map(move |&(row, are_words)| dot(encoding, row, are_words, x));
        x.iter().flat_map(products).map(f32::to_bits).collect()
    }
}

impl Sample {
    /// Returns the packings that the type supports.
    fn packings(&self) -> Vec<Packing> {
        let mut packings = vec![Packing::plain(self.encoding), Packing::split_bits(self.encoding)];
        packings.dedup();
        packings
    }

    fn block_bytes(&self) -> usize {
        self.encoding.block().1
    }

    /// Returns the smallest number of columns that is at least `groups` groups and whole blocks.
    fn columns(&self, groups: usize) -> usize {
        (groups * GROUP).next_multiple_of(self.encoding.block().0)
    }
}

/// Rows of activations with all their roundings.
struct Tokens {
    columns: usize,
    values: Vec<f32>,
    groups: Vec<Q8Block>,
    rests: Vec<Q8Block>,
    words: Vec<Q16Block>,
}

impl Tokens {
    fn new(count: usize, columns: usize) -> Self {
        let values = noise(count * columns, 7 + count as u64);
        let groups = Activation::quantize(&values);
        let rests = Activation::rests(&values, &groups);
        let words = words(&values, columns);
        Self { columns, values, groups, rests, words }
    }

    fn all(&self, is_fine: bool) -> Vec<Activation<'_>> {
        self.rounded(if is_fine { |_| true } else { |_| false })
    }

    /// Returns all rows, with 16 bits if `is_fine` is true for their index.
    fn rounded(&self, is_fine: fn(usize) -> bool) -> Vec<Activation<'_>> {
        let len = self.columns / GROUP;
        let token = |(t, values)| {
            let groups = &self.groups[t * len..(t + 1) * len];
            let x = if is_fine(t) {
                Activation::fine(values, groups, &self.rests[t * len..(t + 1) * len])
            } else {
                Activation::new(values, groups)
            };
            let len = Q16Block::count(self.columns);
            x.with_words(&self.words[t * len..(t + 1) * len])
        };
        self.values.chunks(self.columns).enumerate().map(token).collect()
    }
}

/// Reports whether all rows of a tile are 16-bit floats that can be rounded to 16-bit integers.
fn are_words<'a>(encoding: Encoding, mut rows: impl Iterator<Item = &'a [u8]>) -> bool {
    match encoding {
        Encoding::F16 => rows.all(|row| power::<F16>(row).is_some()),
        Encoding::Bf16 => rows.all(|row| power::<Bf16>(row).is_some()),
        _ => false,
    }
}

/// Returns the dot product of a row as stored in a file. This is the definition.
fn dot(encoding: Encoding, row: &[u8], are_words: bool, x: &Activation<'_>) -> f32 {
    match encoding {
        Encoding::F16 => word_dot::<F16>(row, are_words, x),
        Encoding::Bf16 => word_dot::<Bf16>(row, are_words, x),
        _ => with_format!(encoding, B => block_dot::<B>(row, x), E => float_dot::<E>(row, x.values())),
    }
}

fn word_dot<F: FloatFormat>(row: &[u8], are_words: bool, x: &Activation<'_>) -> f32 {
    let mut sum = 0f32;
    let Some(power) = power::<F>(row).filter(|_| are_words) else {
        let mut chains = [0f32; 2];
        for (i, (weight, x)) in row.chunks(F::BYTES).zip(x.values()).enumerate() {
            chains[i % 2] = F::decode(weight).mul_add(*x, chains[i % 2]);
        }
        return chains[0] + chains[1];
    };
    for (weights, x) in row.chunks(GROUP * F::BYTES).zip(x.words()) {
        let products = weights.chunks(F::BYTES).zip(x.q);
        let weight = |bytes| (F::decode(bytes) * power).round_ties_even() as i32;
        sum = x.scale.mul_add(products.map(|(w, q)| weight(w) * i32::from(q)).sum::<i32>() as f32, sum);
    }
    sum * (1.0 / power)
}

fn block_dot<B: BlockFormat>(row: &[u8], x: &Activation<'_>) -> f32 {
    let mut sum = 0f32;
    for (at, block) in row.chunks(B::BYTES).enumerate() {
        let header = B::header(&B::head(block));
        for index in 0..B::LEN / GROUP {
            let group = at * (B::LEN / GROUP) + index;
            let (high, low) = (&x.groups()[group], x.fine_rests().map(|rests| &rests[group]));
            let activation = |i: usize| match low {
                None => i32::from(high.q[i]),
                Some(low) => 256 * i32::from(high.q[i]) + i32::from(low.q[i]),
            };
            let scale = low.unwrap_or(high).scale;
            let codes = B::codes(block, index);
            let weight = |i: usize| i32::from(B::level(codes[i])) - i32::from(bias::<B>());
            let len = if B::SPLIT { GROUP / 2 } else { GROUP };
            for (part, first) in (0..GROUP).step_by(len).enumerate() {
                let part = index * (GROUP / len) + part;
                let elements = first..first + len;
                let integer: i32 = elements.clone().map(|i| weight(i) * activation(i)).sum();
                sum = (header.scale[part] * scale).mul_add(integer as f32, sum);
                if B::OFFSET {
                    let integer: i32 = elements.map(activation).sum();
                    sum = header.offset[part].mul_add(scale * integer as f32, sum);
                }
            }
        }
    }
    sum
}

fn float_dot<F: FloatFormat>(row: &[u8], x: &[f32]) -> f32 {
    let mut chains = [0f32; CHAINS];
    for (i, (weight, x)) in row.chunks(F::BYTES).zip(x).enumerate() {
        chains[i % CHAINS] = F::decode(weight).mul_add(*x, chains[i % CHAINS]);
    }
    (chains[0] + chains[1]) + (chains[2] + chains[3])
}

/// Blocks of a single repeated byte have the largest and smallest integers. Skips scales with
/// infinite or NaN products.
#[test]
fn the_largest_products_fit_their_lanes() {
    let mut compared = 0;
    for mut sample in Sample::all().into_iter().filter(|sample| !sample.is_float()) {
        let len = sample.values.len();
        let signs: [fn(usize) -> f32; 4] = [
            |_| 1.0,
            |_| -1.0,
            |i| if i.is_multiple_of(2) { 1.0 } else { -1.0 },
            |i| if i / 2 % 2 == 0 { 1.0 } else { -1.0 },
        ];
        for byte in 0..=u8::MAX {
            sample.blocks.fill(byte);
            for sign in signs {
                let x: Vec<f32> = (0..len).map(sign).collect();
                let groups = Activation::quantize(&x);
                let x = Activation::new(&x, &groups);
                let row_bytes = sample.blocks.len();
                for packing in sample.packings() {
                    let one = PackedSample::new(packing, 1, row_bytes, sample.blocks.clone());
                    let more = PackedSample::new(packing, 17, row_bytes, sample.blocks.repeat(17));
                    let expected = one.defined(&[x])[0];
                    if !f32::from_bits(expected).is_finite() {
                        for tier in Tier::available() {
                            one.check_bounds(tier, &x, 0.5);
                        }
                        continue;
                    }
                    compared += 1;
                    for tier in Tier::available() {
                        let mut given = [one.products(tier, &[x]), more.products(tier, &[x; 5])].concat();
                        // With emulated tile registers, testing all bytes would take a minute.
                        if byte.is_multiple_of(15) {
                            given.extend(more.products(tier, &[x; 9]));
                        }
                        let is_equal = given.iter().all(|&given| given == expected);
                        assert!(is_equal, "{packing:?}, {tier:?}, bytes of {byte}");
                        one.check_bounds(tier, &x, 0.5);
                    }
                }
            }
        }
    }
    assert!(compared > 5000, "{compared}");
}

#[test]
fn packed_rows_are_those_of_the_file() {
    for sample in Sample::all() {
        let shapes = [(1, 1), (16, 3), (37, 18)];
        let packings = sample.packings();
        for ((rows, groups), packing) in
            shapes.into_iter().flat_map(|shape| packings.iter().map(move |&p| (shape, p)))
        {
            let sample = PackedSample::shuffled(&sample, packing, rows, sample.columns(groups));
            let (mut given, mut expected) = (vec![0.0; sample.columns], vec![0.0; sample.columns]);
            for (row, bytes) in sample.bytes.chunks(sample.row_bytes).enumerate() {
                sample.view().dequantize(row, &mut given);
                dequantize(packing.encoding(), bytes, &mut expected);
                assert_eq!(given, expected, "{packing:?}, row {row} of {rows}");
            }
        }
    }
}

/// Returns the size of a block when packed, which is larger for types whose indices become codes. The
/// head has a scale, and for IQ1 to IQ3 eight or sixteen factors of four bits.
fn packed_block_bytes(encoding: Encoding) -> usize {
    match encoding {
        Encoding::Iq1S => 6 + 256 * 2 / 8,
        Encoding::Iq2Xxs => 6 + 256 * 3 / 8,
        Encoding::Iq3Xxs | Encoding::Iq3S => 6 + 256 * 4 / 8,
        Encoding::Iq1M | Encoding::Iq2Xs | Encoding::Iq2S => 10 + 256 * 3 / 8,
        Encoding::Tq1_0 => 2 + 256 * 2 / 8,
        _ => encoding.block().1,
    }
}

#[test]
fn packed_rows_take_the_stated_room() {
    for sample in Sample::all() {
        for columns in [576, 640, 2048, 4096] {
            let (len, bytes) = (sample.encoding.block().0, packed_block_bytes(sample.encoding));
            for packing in sample.packings().into_iter().filter(|_| columns % len == 0) {
                let (packed, least) = (PackedRows::tile_bytes(packing, columns), 16 * columns / len * bytes);
                // Heads are padded to 64 bytes. Nested rows have one more byte each.
                assert!((least..least + 64 + 16).contains(&packed), "{packing:?}, {columns} columns");
            }
        }
    }
}

/// Processors without tile registers emulate their instructions.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn tile_registers_are_tested_wherever_vectors_are_wide() {
    let tiers = Tier::available();
    assert_eq!(tiers.contains(&Tier::Avx512Vnni), tiers.contains(&Tier::Amx));
}

/// Activations may be at any distances in memory.
#[test]
fn tokens_can_be_anywhere() {
    for sample in Sample::all() {
        let packed = PackedSample::shuffled(&sample, Packing::plain(sample.encoding), 18, sample.columns(5));
        let tokens = Tokens::new(40, packed.columns);
        let mut x = tokens.all(false);
        let backwards: Vec<_> = x.iter().rev().copied().collect();
        x.sort_by_key(|x| x.values()[0].to_bits());
        for x in [x, backwards] {
            let expected = packed.defined(&x);
            for tier in Tier::available() {
                assert!(packed.products(tier, &x) == expected, "{:?}, {tier:?}", sample.encoding);
            }
        }
    }
}

/// Tests all tiers of this processor with tiles of many shapes.
#[test]
fn tiers_and_tiles_give_the_bits_of_the_definition() {
    for sample in Sample::all() {
        for packing in sample.packings() {
            tiers_give_the_bits_of_the_definition(&sample, packing);
        }
    }
}

fn tiers_give_the_bits_of_the_definition(sample: &Sample, packing: Packing) {
    for (rows, groups, tokens) in [
        (37, 18, 1..=40),
        (16, 1, 1..=3),
        (5, 33, 1..=17),
        (17, 72, 6..=6),
        (17, 72, 13..=13),
        (33, 3, 100..=100),
        (17, 3, 144..=145),
    ] {
        let packed = PackedSample::shuffled(sample, packing, rows, sample.columns(groups));
        for count in tokens {
            let tokens = Tokens::new(count, packed.columns);
            for x in [|_| false, |_| true, |t| t == 0, |t: usize| t % 5 < 2].map(|fine| tokens.rounded(fine))
            {
                let expected = packed.defined(&x);
                for tier in Tier::available() {
                    let given = packed.products(tier, &x);
                    assert!(given == expected, "{packing:?}, {tier:?}, {rows} rows, {count} tokens");
                }
            }
        }
    }
}

impl PackedSample {
    /// Checks the bounds of all rows and returns them as `[lower, upper]`. Returns `None` if the
    /// rows are not nested.
    fn check_bounds(&self, tier: Tier, x: &Activation<'_>, share: f32) -> Option<Vec<[f32; 2]>> {
        let mut coarse_query = CoarseQuery::default();
        coarse_query.take(*x, share);
        let products = self.defined(std::slice::from_ref(x));
        let rows = products.into_iter().map(f32::from_bits).enumerate().map(|(row, product)| {
            let bounds = self.view().bounds_by(tier, row / TILE_ROWS, &coarse_query)?;
            let [lower, upper] = [bounds.lower[row % TILE_ROWS], bounds.upper[row % TILE_ROWS]];
            let is_outside = product < lower || product > upper;
            // An infinite or NaN product may be the largest, so the bounds must not exclude it.
            let can_be_largest = product.is_finite() || upper.is_nan() || upper == f32::INFINITY;
            let holds = !is_outside && can_be_largest && (lower <= upper || !product.is_finite());
            assert!(holds, "{:?}, {tier:?}, {share}: {lower} {product} {upper}", self.packing);
            Some([lower, upper])
        });
        rows.collect()
    }
}

/// Bounds hold for any fraction of rows that is read. If everything is read, only rounding errors
/// remain.
#[test]
fn bounds_hold_and_narrow() {
    let mut nested = 0;
    for sample in Sample::all() {
        for packing in sample.packings() {
            for (rows, groups) in [(37, 18), (5, 8), (64, 72)] {
                let packed = PackedSample::shuffled(&sample, packing, rows, sample.columns(groups));
                let tokens = Tokens::new(4, packed.columns);
                // Some groups of activations are far larger than others.
                let mut uneven = tokens.values.clone();
                uneven.iter_mut().enumerate().for_each(|(i, x)| *x *= [1.0, 30.0, 1e-3][i / GROUP % 3]);
                let rounded = Activation::quantize(&uneven);
                let tokens = Tokens { values: uneven, groups: rounded, ..tokens };
                for (x, tier) in
                    tokens.all(false).iter().flat_map(|x| Tier::available().into_iter().map(move |t| (x, t)))
                {
                    let width = |share| -> Option<f32> {
                        let bounds = packed.check_bounds(tier, x, share)?;
                        Some(bounds.iter().map(|[lower, upper]| upper - lower).sum())
                    };
                    assert_eq!(packing.is_nested(), width(0.3).is_some());
                    assert_eq!(
                        packed.check_bounds(Tier::Portable, x, 0.5),
                        packed.check_bounds(tier, x, 0.5)
                    );
                    let Some(widths) = [1.0, 0.5, 0.0].map(width).into_iter().collect::<Option<Vec<f32>>>()
                    else {
                        continue;
                    };
                    assert!(
                        widths.is_sorted_by(|a, b| a >= b) && widths[2] < widths[0] / 20.0,
                        "{packing:?}: {widths:?}"
                    );
                    nested += 1;
                }
            }
        }
    }
    assert!(nested > 0, "some types are nested");
}

/// Rows of floats need not be whole groups.
#[test]
fn floats_have_any_number_of_columns() {
    for sample in Sample::all().iter().filter(|sample| sample.is_float()) {
        for columns in [1, 3, 7, 30, 101] {
            let packed = PackedSample::shuffled(sample, Packing::plain(sample.encoding), 18, columns);
            let tokens = Tokens::new(5, 32);
            let values = &tokens.values[..columns];
            let words = words(values, columns);
            let x = [Activation::new(values, &[]).with_words(&words); 5];
            for tier in Tier::available() {
                assert_eq!(packed.defined(&x), packed.products(tier, &x), "{columns} columns, {tier:?}");
            }
        }
    }
}

/// Equal values have the largest sums of products for their norm, and single values the largest
/// integers.
#[test]
fn the_largest_products_of_words_fit_their_lanes() {
    let patterns: [fn(usize) -> f32; 6] = [
        |_| 1.0,
        |i| if i.is_multiple_of(2) { 1.0 } else { -1.0 },
        |i| if i.is_multiple_of(GROUP) { 1.0 } else { 0.0 },
        |i| if i % GROUP < 2 { -1.0 } else { 1e-3 },
        |i| if i / GROUP == 1 { 1.0 } else { 2e-3 },
        |i| (i % 7) as f32 - 3.0,
    ];
    for (weights, x) in patterns.into_iter().flat_map(|w| patterns.into_iter().map(move |x| (w, x))) {
        for size in [1.0, 1.3, 0.7, 6e4, 1e-4] {
            let row: Vec<u8> = (0..96)
                .flat_map(|i| half::f16::from_f32((size * weights(i)).clamp(-65504.0, 65504.0)).to_le_bytes())
                .collect();
            let packed = PackedSample::new(Packing::plain(Encoding::F16), 17, row.len(), row.repeat(17));
            for factor in [1.0, 3.1e30, 2e-30] {
                let values: Vec<f32> = (0..96).map(|i| factor * x(i)).collect();
                let words = words(&values, 96);
                let x = [Activation::new(&values, &[]).with_words(&words); 9];
                let expected = packed.defined(&x);
                assert!(expected.iter().all(|&sum| f32::from_bits(sum).is_finite()));
                for tier in Tier::available() {
                    assert_eq!(expected, packed.products(tier, &x), "{tier:?}");
                }
            }
        }
    }
}

/// Rows that would lose too much by rounding use unrounded activations.
#[test]
fn rows_of_words_are_off_by_little_or_not_at_all() {
    let ordinary = noise(100, 11);
    let with = |value: f32| {
        let mut row = ordinary.clone();
        row[33] = value;
        row
    };
    let small = |factor: f32| ordinary.iter().map(|w| w * factor).collect();
    let rows: [Vec<f32>; 10] = [
        with(30.0),
        with(300.0),
        with(3e4),
        with(1e30),
        small(1e-30),
        small(1e-36),
        small(1e-39),
        small(3e38),
        vec![0.0; 100],
        ordinary.clone(),
    ];
    let values = noise(100, 3);
    let words = words(&values, 100);
    let x = Activation::new(&values, &[]).with_words(&words);
    for row in rows {
        let bytes: Vec<u8> = row.iter().flat_map(|w| half::bf16::from_f32(*w).to_le_bytes()).collect();
        let packed = PackedSample::new(Packing::plain(Encoding::Bf16), 17, 200, bytes.repeat(17));
        let terms = || {
            let weights = bytes.chunks(2).map(|bytes| f64::from(Bf16::decode(bytes)));
            weights.zip(&values).map(|(w, &x)| w * f64::from(x))
        };
        let norm = |of: &mut dyn Iterator<Item = f64>| of.map(|x| x * x).sum::<f64>().sqrt();
        let norms = norm(&mut bytes.chunks(2).map(|bytes| f64::from(Bf16::decode(bytes))))
            * norm(&mut values.iter().map(|&x| f64::from(x)));
        for (count, tier) in Tier::available().into_iter().flat_map(|tier| [(1, tier), (20, tier)]) {
            let given = packed.products(tier, &vec![x; count]);
            assert_eq!(packed.defined(&vec![x; count]), given, "{tier:?}");
            let error = (f64::from(f32::from_bits(given[0])) - terms().sum::<f64>()).abs();
            assert!(
                error <= norms / 4000.0 + f64::from(f32::MIN_POSITIVE) / 1e4,
                "{:?}: {error} of {norms}",
                row[33]
            );
        }
    }
}

/// A row that would lose too much by rounding affects the other rows of its tile, but not the next
/// tile.
#[test]
fn a_tile_meets_activations_as_they_are_if_one_of_its_rows_has_to() {
    for (columns, outlier) in [(101, 3), (33, 15), (64, 0)] {
        let mut weights = noise(33 * columns, 17);
        weights[outlier * columns..][..columns].iter_mut().for_each(|w| *w *= 1e-39);
        let bytes: Vec<u8> = weights.iter().flat_map(|w| half::bf16::from_f32(*w).to_le_bytes()).collect();
        let packed = PackedSample::new(Packing::plain(Encoding::Bf16), 33, 2 * columns, bytes);
        let rows: Vec<_> = packed.bytes.chunks(packed.row_bytes).collect();
        let tiles = rows.chunks(TILE_ROWS).map(|tile| are_words(Encoding::Bf16, tile.iter().copied()));
        assert_eq!(vec![false, true, true], tiles.collect::<Vec<_>>());
        for count in [1, 2, 7, 20] {
            let values = noise(count * columns, 5);
            let words = words(&values, columns);
            let words = words.chunks(Q16Block::count(columns));
            let token = |(values, words)| Activation::new(values, &[]).with_words(words);
            let x: Vec<_> = values.chunks(columns).zip(words).map(token).collect();
            for tier in Tier::available() {
                assert!(packed.defined(&x) == packed.products(tier, &x), "{tier:?}, {columns} columns");
            }
        }
    }
}

/// One pass over the tiles takes all tokens of a prompt's pass. One more token needs another pass
/// over the tiles.
#[test]
fn words_go_over_the_tiles_as_often_as_it_takes() {
    for sample in Sample::all().iter().filter(|sample| sample.encoding.operand() == Operand::Words) {
        let packed = PackedSample::shuffled(sample, Packing::plain(sample.encoding), 33, 64);
        let tokens = Tokens::new(289, 64);
        let x = tokens.all(false);
        let expected = packed.defined(&x);
        for tier in Tier::available() {
            assert!(packed.products(tier, &x) == expected, "{:?}, {tier:?}", sample.encoding);
        }
    }
}

#[test]
fn empty_products_are_zero() {
    for sample in Sample::all() {
        for packing in sample.packings() {
            let empty = PackedRows::bytes_for(packing, 3, 0);
            let empty = PackedSample {
                packing,
                rows: 3,
                columns: 0,
                row_bytes: 0,
                bytes: vec![],
                packed: vec![0; empty],
            };
            let packed = PackedSample::shuffled(&sample, packing, 18, sample.columns(1));
            for tier in Tier::available() {
                assert_eq!([0; 6], empty.products(tier, &[Activation::new(&[], &[]); 2])[..], "{packing:?}");
                assert!(packed.products(tier, &[]).is_empty());
            }
        }
    }
}

#[test]
fn non_finite_rows_have_non_finite_products() {
    for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let row = |value: f32| {
            let bits = move |i| if i == 33 { value } else { 0.5 }.to_bits().to_le_bytes();
            (0..40).flat_map(move |i| bits(i)[2..].to_vec())
        };
        let rows: Vec<u8> = (0..16).flat_map(|i| row(if i == 5 { broken } else { 0.5 })).collect();
        let packed = PackedSample::new(Packing::plain(Encoding::Bf16), 16, 80, rows);
        let values = noise(40, 3);
        let words = words(&values, 40);
        for (count, tier) in Tier::available().into_iter().flat_map(|tier| [(1, tier), (20, tier)]) {
            let products =
                packed.products(tier, &vec![Activation::new(&values, &[]).with_words(&words); count]);
            for (i, product) in products.into_iter().map(f32::from_bits).enumerate() {
                assert_eq!(i % 16 != 5, product.is_finite(), "{tier:?}, row {}", i % 16);
            }
        }
    }
}

#[test]
fn tiles_and_runs_of_rows_give_the_same_bits() {
    let samples = Sample::all();
    let packings = samples.iter().flat_map(|sample| sample.packings().into_iter().map(move |p| (sample, p)));
    for (sample, packing) in packings {
        let packed = PackedSample::shuffled(sample, packing, 37, sample.columns(9));
        let tokens = Tokens::new(2, packed.columns);
        let x = tokens.all(false);
        let expected = packed.defined(&x);
        let view = packed.view();
        for (row, expected) in expected[..37].iter().enumerate() {
            assert_eq!(*expected, view.tile(row / TILE_ROWS, x[0])[row % TILE_ROWS].to_bits());
        }
        let mut sums = vec![0.0; 2 * 37];
        view.products(0, &x, MatrixMut::new(&mut sums, 37));
        assert_eq!(expected, sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>());
        // Starts at the second tile.
        let mut out = [0.0; 20];
        view.products(1, &x[..1], MatrixMut::new(&mut out, 20));
        assert_eq!(expected[16..36], out.map(f32::to_bits));
    }
}

#[test]
fn fine_activations_are_off_by_a_step_of_sixteen_bits_at_most() {
    for sample in Sample::all().iter().filter(|sample| !sample.is_float()) {
        let tokens = Tokens::new(1, sample.values.len());
        let packing = Packing::plain(sample.encoding);
        let packed = PackedSample::new(packing, 1, sample.blocks.len(), sample.blocks.clone());
        let given = f64::from(f32::from_bits(packed.products(Tier::best(), &tokens.all(true))[0]));
        let error = (given - sample.terms(&tokens.values).sum::<f64>()).abs();
        let groups = sample.values.chunks_exact(GROUP).zip(&tokens.rests);
        let steps = |(weights, rest): (&[f32], &Q8Block)| {
            weights.iter().map(|w| f64::from(w.abs()) * f64::from(rest.scale)).sum::<f64>()
        };
        let size: f64 = sample.terms(&tokens.values).map(f64::abs).sum();
        let rounding: f64 = groups.map(steps).sum();
        assert!(error <= rounding + 1e-5 * size, "{:?}: {error} {rounding} {size}", sample.encoding);
    }
}
