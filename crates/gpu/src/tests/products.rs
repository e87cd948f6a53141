use formwork_kernels::{Encoding, GROUP, WeightGroup, dequantize, each_group};

use super::{gpu, noise, open};
use crate::product::{Activations, Batch, Inputs, Operand, Output, Outputs, Product};
use crate::weights::{Codes, Matrix, Rows, Scales, Storage};
use crate::{Buffer, Gpu};

/// Random blocks of every type: see `generate.py` next to the file.
const BLOCKS: &[u8] = include_bytes!("../../../kernels/tests/dequantized/blocks.safetensors");

const ENCODINGS: [(&str, Encoding); 28] = [
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

const ROWS: usize = 37;
const LANES: usize = 32;

/// A matrix of some encoding. Its rows are the blocks of the file, each from another block on.
struct Sample {
    encoding: Encoding,
    columns: usize,
    row_bytes: usize,
    bytes: Vec<u8>,
}

impl Sample {
    fn new(name: &str, encoding: Encoding, columns: usize) -> Self {
        let header_len = u64::from_le_bytes(BLOCKS[..8].try_into().unwrap()) as usize;
        let header: serde_json::Value = serde_json::from_slice(&BLOCKS[8..8 + header_len]).unwrap();
        let suffix = format!(".{name}.blocks");
        let entry = header.as_object().unwrap().iter().find(|(name, _)| name.ends_with(&suffix)).unwrap().1;
        let offset = |index: usize| entry["data_offsets"][index].as_u64().unwrap() as usize;
        let blocks = &BLOCKS[8 + header_len + offset(0)..8 + header_len + offset(1)];
        let (len, size) = encoding.block();
        let (count, row_bytes) = (blocks.len() / size, columns / len * size);
        let block = |index: usize| &blocks[index % count * size..][..size];
        let bytes = (0..ROWS).flat_map(|row| (0..columns / len).flat_map(move |i| block(row * 7 + i)));
        Self { encoding, columns, row_bytes, bytes: bytes.copied().collect() }
    }

    fn rows(&self) -> Rows<'_> {
        let Self { encoding, columns, row_bytes, ref bytes } = *self;
        Rows { bytes, row_bytes, encoding, columns }
    }

    fn row(&self, index: usize) -> &[u8] {
        &self.bytes[index * self.row_bytes..][..self.row_bytes]
    }

    fn expanded(&self, row: usize) -> Vec<f32> {
        let mut values = vec![0.0; self.columns];
        dequantize(self.encoding, self.row(row), &mut values);
        values
    }
}

/// Activations of a token, as floats and rounded to 8 bits by the CPU's rule.
struct Token {
    values: Vec<f32>,
    codes: Vec<i8>,
    steps: Vec<f32>,
}

impl Token {
    fn new(columns: usize, seed: u64) -> Self {
        let mut values = noise(columns, seed);
        values.resize(columns.next_multiple_of(GROUP), 0.0);
        let mut token = Self { values, codes: Vec::new(), steps: Vec::new() };
        for group in token.values.chunks(GROUP) {
            let step = group.iter().fold(0f32, |most, x| most.max(x.abs())) / 127.0;
            token.codes.extend(group.iter().map(|x| (x * (1.0 / step)).round_ties_even() as i8));
            token.steps.push(step);
        }
        token
    }

    fn sums(&self, group: usize) -> [i32; 2] {
        let codes = &self.codes[group * GROUP..][..GROUP];
        let sum = |half: &[i8]| half.iter().map(|code| i32::from(*code)).sum();
        [sum(&codes[..16]), sum(&codes[16..])]
    }

    /// Returns the product with a row as the kernels define it: groups in order by lane, then the
    /// lanes in a tree.
    fn product(&self, sample: &Sample, row: usize, fma: fn(f32, f32, f32) -> f32) -> f32 {
        let mut groups: Vec<WeightGroup> = Vec::new();
        each_group(sample.encoding, sample.row(row), |group| groups.push(group));
        let mut lanes = [0f32; LANES];
        for (index, group) in groups.iter().enumerate() {
            let acc = &mut lanes[index % LANES];
            let codes = &self.codes[index * GROUP..][..GROUP];
            let dot = |half: usize| -> i32 {
                let range = half * 16..half * 16 + 16;
                let pairs = group.integers[range.clone()].iter().zip(&codes[range]);
                pairs.map(|(w, x)| i32::from(*w) * i32::from(*x)).sum()
            };
            let (step, sums) = (self.steps[index], self.sums(index));
            let ([low, high], [low_offset, high_offset]) = (group.scales, group.offsets);
            let mut add = |a: f32, b: f32| *acc = fma(a, b, *acc);
            match Storage::of(sample.encoding).scales {
                Scales::Nothing => unreachable!(),
                Scales::Half => add(low * step, (dot(0) + dot(1)) as f32),
                Scales::HalfPair | Scales::Header => {
                    add(low * step, (dot(0) + dot(1)) as f32);
                    add(low_offset, step * (sums[0] + sums[1]) as f32);
                }
                Scales::Small | Scales::Pair => {
                    add(low * step, dot(0) as f32);
                    add(high * step, dot(1) as f32);
                }
                Scales::Four => {
                    add(low * step, dot(0) as f32);
                    add(low_offset, step * sums[0] as f32);
                    add(high * step, dot(1) as f32);
                    add(high_offset, step * sums[1] as f32);
                }
            }
        }
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                lanes[lane] += lanes[lane + half];
            }
            half /= 2;
        }
        lanes[0]
    }
}

fn activations(gpu: &Gpu, tokens: &[Token]) -> Activations {
    let floats: Vec<f32> = tokens.iter().flat_map(|token| token.values.clone()).collect();
    let codes: Vec<i8> = tokens.iter().flat_map(|token| token.codes.clone()).collect();
    let heads = |token: &Token| -> Vec<[u32; 2]> {
        let head = |(group, step): (usize, &f32)| {
            let [low, high] = token.sums(group);
            [step.to_bits(), low as u32 & 0xffff | (high as u32) << 16]
        };
        token.steps.iter().enumerate().map(head).collect()
    };
    let heads: Vec<[u32; 2]> = tokens.iter().flat_map(heads).collect();
    Activations {
        floats: gpu.upload(&floats).unwrap(),
        codes: gpu.upload(&codes).unwrap(),
        heads: gpu.upload(&heads).unwrap(),
    }
}

/// Returns the products of `tokens` with all rows of the matrix, or with listed rows.
fn products(
    gpu: &Gpu,
    matrix: &Matrix,
    (tokens, operand): (&[Token], Operand),
    list: Option<&[u32]>,
    bias: Option<&Buffer>,
) -> Vec<f32> {
    let rows = list.map_or(matrix.rows, |list| list.len() as u32);
    let batch = Batch { tokens: tokens.len() as u32, rows, ..Batch::default() };
    let uniform = gpu.upload(&[batch]).unwrap();
    let x = activations(gpu, tokens);
    let output = Output { buffer: gpu.buffer(u64::from(rows) * 4 * 20), stride: rows, first: 0 };
    let outputs = list.map_or(Outputs::All, |list| Outputs::Listed(gpu.upload(list).unwrap()));
    let inputs = Inputs { batch: &uniform, x: &x, operand, bias, factor: 1.0, outputs };
    let mut steps = Vec::new();
    Product::new(gpu, matrix, &inputs, &output).steps(gpu, batch, &mut steps);
    gpu.run_and_read(steps, &output.buffer, tokens.len() * rows as usize).unwrap()
}

/// The product of a row and a token, in `f64`, with and without rounding the activations.
fn exact(sample: &Sample, row: usize, token: &Token, operand: Operand) -> f64 {
    let value = |i: usize| match operand {
        Operand::Bytes => f64::from(token.codes[i]) * f64::from(token.steps[i / GROUP]),
        Operand::Floats => f64::from(token.values[i]),
    };
    sample.expanded(row).iter().enumerate().map(|(i, w)| f64::from(*w) * value(i)).sum()
}

#[test]
fn products_of_all_types_match_plain_rust() {
    let Some(gpu) = gpu() else { return };
    let fused = |a: f32, b: f32, c: f32| a.mul_add(b, c);
    let separate = |a: f32, b: f32, c: f32| a * b + c;
    for (name, encoding) in ENCODINGS {
        // 40 groups: some lanes have two.
        let sample = Sample::new(name, encoding, 1280);
        let matrix = Matrix::upload(&gpu, &[sample.rows()]).unwrap();
        let all: Vec<Token> = (0..11).map(|seed| Token::new(sample.columns, seed + 1)).collect();
        for operand in [Operand::Bytes, Operand::Floats] {
            if matrix.storage.codes.is_float() && operand == Operand::Bytes {
                continue;
            }
            let (mut difference, mut norm, mut equal, mut together) = (0.0, 0.0, [0; 2], Vec::new());
            for count in [11, 1, 3] {
                let tokens = &all[..count];
                let given = products(&gpu, &matrix, (tokens, operand), None, None);
                if count == 11 {
                    together.clone_from(&given);
                }
                // A token has the same bits alone and with others.
                let same = given.iter().zip(&together).all(|(x, y)| x.to_bits() == y.to_bits());
                assert!(same, "{name} {operand:?} {count} tokens");
            }
            for (at, given) in together.iter().enumerate() {
                let (row, token) = (at % ROWS, &all[at / ROWS]);
                let expected = exact(&sample, row, token, operand);
                difference += (f64::from(*given) - expected).powi(2);
                norm += expected.powi(2);
                if operand == Operand::Bytes {
                    for (equal, fma) in equal.iter_mut().zip([fused, separate]) {
                        let expected = token.product(&sample, row, fma);
                        *equal += usize::from(expected.to_bits() == given.to_bits());
                    }
                }
            }
            let error = (difference / norm).sqrt();
            eprintln!("{name} {operand:?}: {error:.1e}, {equal:?} of {}", together.len());
            assert!(error < 1e-5, "{name} {operand:?}: {error:e}");
            let is_exact = operand == Operand::Floats || equal.contains(&together.len());
            assert!(is_exact, "{name}: {equal:?} of {}", together.len());
        }
    }
}

#[test]
fn products_of_prompts_match_exact_ones() {
    let Some(gpu) = gpu() else { return };
    for (name, encoding) in ENCODINGS {
        // An odd number of groups, more rows than a workgroup has, and some tokens of a second one.
        let columns = if encoding.block().0 > 32 { 768 } else { 352 };
        let sample = Sample::new(name, encoding, columns);
        let rows = sample.rows();
        let matrix = Matrix::upload(&gpu, &[rows, rows]).unwrap();
        let tokens: Vec<Token> = (0..70).map(|seed| Token::new(columns, seed + 1)).collect();
        let is_float = matrix.storage.codes.is_float();
        let operand = if is_float { Operand::Floats } else { Operand::Bytes };
        let run = |tokens: &[Token], has_cores: bool| {
            gpu.use_matrix_cores(has_cores);
            let batch = Batch { tokens: tokens.len() as u32, ..Batch::default() };
            let uniform = gpu.upload(&[batch]).unwrap();
            let x = activations(&gpu, tokens);
            let output = Output { buffer: gpu.buffer(4 * 74 * 70), stride: 74, first: 0 };
            let inputs =
                Inputs { batch: &uniform, x: &x, operand, bias: None, factor: 1.0, outputs: Outputs::All };
            let mut steps = Vec::new();
            Product::new(&gpu, &matrix, &inputs, &output).prompt_steps(&gpu, batch, &mut steps);
            gpu.run_and_read::<f32>(steps, &output.buffer, 74 * tokens.len()).unwrap()
        };
        // Matrix cores have weights and activations of 16 bits.
        for (has_cores, bound) in [(false, 1e-5), (true, 1e-3)] {
            if has_cores && (is_float || gpu.adapter().matrix_cores.is_none()) {
                continue;
            }
            let given = run(&tokens, has_cores);
            let (mut difference, mut norm) = (0.0, 0.0);
            for (at, given) in given.iter().enumerate() {
                let expected = exact(&sample, at % 74 % ROWS, &tokens[at / 74], operand);
                difference += (f64::from(*given) - expected).powi(2);
                norm += expected.powi(2);
            }
            let error = f64::sqrt(difference / norm);
            eprintln!("{name}, matrix cores {has_cores}: {error:.1e}");
            assert!(error < bound, "{name}: {error:e}");
            assert_eq!(run(&tokens[..1], has_cores), given[..74], "{name}: one token alone");
        }
    }
}

#[test]
fn listed_rows_and_parts_have_the_bits_of_whole_products() {
    let Some(gpu) = gpu() else { return };
    let Some(small) = open(Some(4096)) else { return };
    for (name, encoding) in [("Q8_0", Encoding::Q8_0), ("Q4_K", Encoding::Q4K), ("F16", Encoding::F16)] {
        let sample = Sample::new(name, encoding, 512);
        let tokens: Vec<Token> = (0..3).map(|seed| Token::new(512, seed + 1)).collect();
        let [whole, cut] = [&*gpu, &small].map(|gpu| Matrix::upload(gpu, &[sample.rows()]).unwrap());
        assert!(whole.parts.len() == 1 && cut.parts.len() > 2);
        let all = products(&gpu, &whole, (&tokens, Operand::Bytes), None, None);
        assert_eq!(products(&small, &cut, (&tokens, Operand::Bytes), None, None), all, "{name}");
        let list = [36, 0, 17, 5, 35];
        let expected: Vec<f32> =
            (0..3).flat_map(|token| list.map(|row| all[token * ROWS + row as usize])).collect();
        for (gpu, matrix) in [(&*gpu, &whole), (&small, &cut)] {
            assert_eq!(
                products(gpu, matrix, (&tokens, Operand::Bytes), Some(&list), None),
                expected,
                "{name}"
            );
        }
        let bias = noise(ROWS, 9);
        let with_bias: Vec<f32> = all.iter().enumerate().map(|(at, y)| y + bias[at % ROWS]).collect();
        let buffer = small.upload(&bias).unwrap();
        assert_eq!(
            products(&small, &cut, (&tokens, Operand::Bytes), None, Some(&buffer)),
            with_bias,
            "{name}"
        );
    }
}

/// Scales of 16 bits share words, and an odd number of them ends within one.
#[test]
fn an_odd_number_of_scales_is_stored() {
    let Some(gpu) = gpu() else { return };
    let sample = Sample::new("Q8_0", Encoding::Q8_0, 11 * GROUP);
    let tokens = [Token::new(sample.columns, 1)];
    let matrix = Matrix::upload(&gpu, &[sample.rows()]).unwrap();
    let given = products(&gpu, &matrix, (&tokens, Operand::Floats), None, None);
    for (row, given) in given.iter().enumerate() {
        let expected = exact(&sample, row, &tokens[0], Operand::Floats);
        assert!((f64::from(*given) - expected).abs() < 1e-4 * expected.abs().max(1.0), "row {row}");
    }
}

#[test]
fn joined_matrices_have_the_rows_of_all() {
    let Some(gpu) = gpu() else { return };
    let samples = [512, 512].map(|columns| Sample::new("Q6_K", Encoding::Q6K, columns));
    let tokens = [Token::new(512, 1)];
    let matrix = Matrix::upload(&gpu, &[samples[0].rows(), samples[1].rows()]).unwrap();
    assert_eq!((matrix.rows, matrix.storage.codes), (2 * ROWS as u32, Codes::SixBits));
    let all = products(&gpu, &matrix, (&tokens, Operand::Bytes), None, None);
    assert_eq!(all[..ROWS], all[ROWS..]);
}
