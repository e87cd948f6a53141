//! Model files with real shapes and random weights, for timing large models without a download.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model: formwork_model::synthetic::Synthetic = "llama-1b-q4_k".parse()?;
//! let path = model.write(std::path::Path::new("models"))?;
//! # Ok(())
//! # }
//! ```
//!
//! The rows of a matrix repeat a few random rows, which takes the same time to read and multiply as
//! different rows. The model's output is meaningless. The vocabulary consists of the 256 bytes and
//! of numbers.

mod gemma4;
mod shapes;

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use formwork_kernels::{Encoding, Quantize, quantizer};
use thiserror::Error;

use self::shapes::{SHAPES, Shape};

/// A synthetic model: the shape of a real model, and the types of its matrices.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic {
    shape: &'static Shape,
    weights: &'static Weights,
}

#[derive(Debug)]
struct Weights {
    name: &'static str,
    layers: Type,
    /// Type of the embedding and of the output head, which affect quality most.
    vocabulary: Type,
}

#[derive(Clone, Copy, Debug)]
struct Type {
    /// Number of the type in GGUF files.
    number: u32,
    encoding: Encoding,
    quantize: Quantize,
}

impl Type {
    const fn new(number: u32, encoding: Encoding) -> Self {
        let quantize = quantizer(encoding).expect("an encoding that can be written");
        Self { number, encoding, quantize }
    }
}

const F32: Type = Type::new(0, Encoding::F32);
const F16: Type = Type::new(1, Encoding::F16);
const Q4_0: Type = Type::new(2, Encoding::Q4_0);
const Q8_0: Type = Type::new(8, Encoding::Q8_0);
const Q4_K: Type = Type::new(12, Encoding::Q4K);
const Q6_K: Type = Type::new(14, Encoding::Q6K);

static WEIGHTS: [Weights; 5] = [
    Weights { name: "q4_0", layers: Q4_0, vocabulary: Q6_K },
    Weights { name: "q4_k", layers: Q4_K, vocabulary: Q6_K },
    Weights { name: "q6_k", layers: Q6_K, vocabulary: Q6_K },
    Weights { name: "q8_0", layers: Q8_0, vocabulary: Q8_0 },
    Weights { name: "f16", layers: F16, vocabulary: F16 },
];

/// Error for a text that is not the name of a synthetic model.
#[derive(Debug, Error)]
#[error(
    "unknown synthetic model {given:?}; expected SHAPE-TYPE, with SHAPE one of {} and TYPE one of {}",
    SHAPES.map(|shape| shape.name).join(", "),
    WEIGHTS.each_ref().map(|weights| weights.name).join(", ")
)]
pub struct SyntheticNameError {
    given: String,
}

impl FromStr for Synthetic {
    type Err = SyntheticNameError;

    fn from_str(name: &str) -> Result<Self, SyntheticNameError> {
        let found = name.rsplit_once('-').and_then(|(shape, weights)| {
            Some(Self {
                shape: SHAPES.iter().find(|known| known.name == shape)?,
                weights: WEIGHTS.iter().find(|known| known.name == weights)?,
            })
        });
        found.ok_or_else(|| SyntheticNameError { given: name.to_owned() })
    }
}

impl fmt::Display for Synthetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.shape.name, self.weights.name)
    }
}

/// Error from writing a synthetic model.
#[derive(Debug, Error)]
#[error("{}: cannot be written", path.display())]
pub struct WriteError {
    path: PathBuf,
    #[source]
    error: io::Error,
}

impl Synthetic {
    /// Returns small models that together have every type of weights and every architecture of the large
    /// ones, to check that a device computes them.
    pub fn checks() -> impl Iterator<Item = Self> {
        let [first, others @ ..] = &shapes::SMALL;
        let types = WEIGHTS.iter().map(|weights| Self { shape: first, weights });
        // Float weights leave the smallest differences between devices.
        let [.., floats] = &WEIGHTS;
        types.chain(others.iter().map(|shape| Self { shape, weights: floats }))
    }

    /// Reports whether the layers have float weights.
    pub const fn has_float_weights(&self) -> bool {
        matches!(self.weights.layers.encoding, Encoding::F32 | Encoding::F16 | Encoding::Bf16)
    }

    /// Writes the model to a file in `folder` and returns the path. An existing file of the right
    /// size is kept.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, WriteError> {
        let path = folder.join(format!("{self}.gguf"));
        let tensors = self.shape.tensors(self.weights);
        let header = self.header(&tensors);
        match self.write_file(&path, &header, &tensors) {
            Ok(()) => Ok(path),
            Err(error) => Err(WriteError { path, error }),
        }
    }

    fn write_file(&self, path: &Path, header: &[u8], tensors: &[TensorEntry]) -> io::Result<()> {
        let len = header.len().next_multiple_of(ALIGNMENT) as u64;
        let len = len + tensors.iter().map(|tensor| tensor.padded_bytes() as u64).sum::<u64>();
        if path.metadata().is_ok_and(|metadata| metadata.len() == len) {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let partial = tempfile::NamedTempFile::with_prefix_in(format!("{self}."), folder)?;
        let mut file = BufWriter::new(partial.as_file());
        file.write_all(header)?;
        for tensor in tensors {
            pad(&mut file)?;
            tensor.write(&mut file)?;
        }
        pad(&mut file)?;
        file.flush()?;
        drop(file);
        partial.as_file().sync_all()?;
        partial.persist(path)?;
        Ok(())
    }

    fn header(&self, tensors: &[TensorEntry]) -> Vec<u8> {
        let shape = self.shape;
        let mut entries = Entries::default();
        shape.write_metadata(&mut entries);
        entries.text("general.name", &self.to_string());
        entries.text("tokenizer.ggml.model", "gpt2");
        entries.text("tokenizer.ggml.pre", "llama-bpe");
        entries.texts("tokenizer.ggml.tokens", &vocabulary(shape.vocabulary));
        entries.texts("tokenizer.ggml.merges", &[]);
        let mut header = b"GGUF".to_vec();
        header.extend(3u32.to_le_bytes());
        header.extend((tensors.len() as u64).to_le_bytes());
        header.extend(entries.count.to_le_bytes());
        header.extend(entries.bytes);
        let mut offset = 0u64;
        for tensor in tensors {
            text(&mut header, &tensor.name);
            header.extend((tensor.shape.len() as u32).to_le_bytes());
            for &len in &tensor.shape {
                header.extend((len as u64).to_le_bytes());
            }
            header.extend(tensor.of.number.to_le_bytes());
            header.extend(offset.to_le_bytes());
            offset += tensor.padded_bytes() as u64;
        }
        header
    }
}

/// Default alignment of the format.
const ALIGNMENT: usize = 32;

fn pad(file: &mut BufWriter<&File>) -> io::Result<()> {
    let at = file.stream_position()?;
    file.write_all(&[0; ALIGNMENT][..(at.next_multiple_of(ALIGNMENT as u64) - at) as usize])
}

#[derive(Debug)]
struct TensorEntry {
    name: String,
    /// Sizes, fastest-running dimension first.
    shape: Vec<usize>,
    of: Type,
    /// The value of all elements. `None` for random elements.
    constant: Option<f32>,
}

impl TensorEntry {
    fn columns(&self) -> usize {
        self.shape[0]
    }

    fn rows(&self) -> usize {
        self.shape[1..].iter().product()
    }

    fn row_bytes(&self) -> usize {
        let (block_len, block_bytes) = self.of.encoding.block();
        self.columns() / block_len * block_bytes
    }

    fn padded_bytes(&self) -> usize {
        (self.rows() * self.row_bytes()).next_multiple_of(ALIGNMENT)
    }

    fn write(&self, file: &mut BufWriter<&File>) -> io::Result<()> {
        /// Number of distinct rows in a matrix.
        const DIFFERENT: usize = 61;
        let count = DIFFERENT.min(self.rows());
        let scale = if self.constant.is_some() { 0.0 } else { 1.7 / (self.columns() as f32).sqrt() };
        let offset = self.constant.unwrap_or(0.0);
        let mut state = 0x5eed_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f32 / (1 << 23) as f32 - 1.0) * scale + offset
        };
        let values: Vec<f32> = (0..count * self.columns()).map(|_| next()).collect();
        let mut rows = vec![0; count * self.row_bytes()];
        (self.of.quantize)(&values, &mut rows);
        let mut rest = self.rows() * self.row_bytes();
        while rest > 0 {
            let len = rest.min(rows.len());
            file.write_all(&rows[..len])?;
            rest -= len;
        }
        Ok(())
    }
}

/// Returns a vocabulary of `len` tokens: the 256 bytes, then numbers.
fn vocabulary(len: usize) -> Vec<String> {
    // Byte-level vocabularies represent a byte that is not printable by a character from U+0100 on.
    let is_plain = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut shifted = 256..;
    let bytes = (0..256u32).map(|byte| if is_plain(byte) { Some(byte) } else { shifted.next() });
    let mut tokens: Vec<String> = bytes.filter_map(|code| char::from_u32(code?)).map(String::from).collect();
    tokens.extend((tokens.len()..len).map(|token| format!("{token}.")));
    tokens
}

/// Metadata of a GGUF file.
#[derive(Default)]
struct Entries {
    bytes: Vec<u8>,
    count: u64,
}

impl Entries {
    fn entry(&mut self, key: &str, kind: u32) {
        text(&mut self.bytes, key);
        self.bytes.extend(kind.to_le_bytes());
        self.count += 1;
    }

    fn number(&mut self, key: &str, value: usize) {
        self.entry(key, 4);
        self.bytes.extend((value as u32).to_le_bytes());
    }

    fn numbers(&mut self, key: &str, values: impl ExactSizeIterator<Item = usize>) {
        self.entry(key, 9);
        self.bytes.extend(5u32.to_le_bytes());
        self.bytes.extend((values.len() as u64).to_le_bytes());
        for value in values {
            self.bytes.extend((value as i32).to_le_bytes());
        }
    }

    fn flag(&mut self, key: &str, value: bool) {
        self.entry(key, 7);
        self.bytes.push(value.into());
    }

    fn flags(&mut self, key: &str, values: impl ExactSizeIterator<Item = bool>) {
        self.entry(key, 9);
        self.bytes.extend(7u32.to_le_bytes());
        self.bytes.extend((values.len() as u64).to_le_bytes());
        self.bytes.extend(values.map(u8::from));
    }

    fn float(&mut self, key: &str, value: f32) {
        self.entry(key, 6);
        self.bytes.extend(value.to_le_bytes());
    }

    fn text(&mut self, key: &str, value: &str) {
        self.entry(key, 8);
        text(&mut self.bytes, value);
    }

    fn texts(&mut self, key: &str, values: &[String]) {
        self.entry(key, 9);
        self.bytes.extend(8u32.to_le_bytes());
        self.bytes.extend((values.len() as u64).to_le_bytes());
        for value in values {
            text(&mut self.bytes, value);
        }
    }
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use candle_core::quantized::{GgmlDType, QTensor};
    use candle_core::{Device, Tensor};
    use formwork_vocab::TokenId;
    use formwork_vocab::tokenizer::EncodeOptions;

    use super::*;
    use crate::{Checkpoint, MemoryUse, Model, OpenOptions};

    const fn uniform(name: &'static str, of: Type) -> Weights {
        Weights { name, layers: of, vocabulary: of }
    }

    /// Creates a type whose blocks candle quantises.
    macro_rules! candles {
        ($name:literal, $number:literal, $encoding:ident, $dtype:ident) => {
            uniform(
                $name,
                Type {
                    number: $number,
                    encoding: Encoding::$encoding,
                    quantize: |values, out| {
                        let values = Tensor::from_slice(values, values.len(), &Device::Cpu).unwrap();
                        let blocks = QTensor::quantize(&values, GgmlDType::$dtype).unwrap();
                        out.copy_from_slice(&blocks.data().unwrap());
                    },
                },
            )
        };
    }

    /// Types that are used in tests only.
    static OTHERS: [Weights; 8] = [
        uniform("f32", F32),
        uniform("bf16", Type::new(30, Encoding::Bf16)),
        candles!("q4_1", 3, Q4_1, Q4_1),
        candles!("q5_0", 6, Q5_0, Q5_0),
        candles!("q5_1", 7, Q5_1, Q5_1),
        candles!("q2_k", 10, Q2K, Q2K),
        candles!("q3_k", 11, Q3K, Q3K),
        candles!("q5_k", 13, Q5K, Q5K),
    ];

    impl Synthetic {
        /// Returns small models for tests, one for each type.
        pub(crate) fn small() -> impl Iterator<Item = Self> {
            WEIGHTS.iter().chain(&OTHERS).map(|weights| Self { shape: &shapes::SMALL[0], weights })
        }
    }

    #[test]
    fn names_round_trip() {
        for (shape, weights) in SHAPES.iter().flat_map(|shape| WEIGHTS.iter().map(move |of| (shape, of))) {
            let name = format!("{}-{}", shape.name, weights.name);
            assert_eq!(name.parse::<Synthetic>().unwrap().to_string(), name);
        }
        let error = "llama-7b-q4_k".parse::<Synthetic>().unwrap_err().to_string();
        assert!(
            error.starts_with("unknown synthetic model \"llama-7b-q4_k\"; expected SHAPE-TYPE"),
            "{error}"
        );
    }

    #[test]
    fn a_small_synthetic_model_can_run() {
        let folder = tempfile::tempdir().unwrap();
        for small in Synthetic::small() {
            let path = small.write(folder.path()).unwrap();
            // An incomplete file is written again.
            let whole = std::fs::read(&path).unwrap();
            std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
            assert_eq!(small.write(folder.path()).unwrap(), path);
            assert_eq!(std::fs::read(&path).unwrap(), whole);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
            let model = Model::open(&path, OpenOptions::default()).unwrap();
            assert_eq!(
                model.tokenizer().unwrap().encode("a é\n", EncodeOptions::default()).unwrap().len(),
                5
            );
            let states = model.hidden_states(&[TokenId(7)]).unwrap();
            assert!(states.iter().flatten().all(|x| x.is_finite()), "{small}");
            std::fs::remove_file(path).unwrap();
        }
    }

    /// Reads the metadata and the names of all tensors of the large models. Random elements are left out.
    #[test]
    fn large_synthetic_models_have_the_tensors_of_their_architecture() {
        let folder = tempfile::tempdir().unwrap();
        for shape in &SHAPES {
            let model = Synthetic { shape, weights: &WEIGHTS[1] };
            let tensors = shape.tensors(model.weights);
            let header = model.header(&tensors);
            let mut len = header.len().next_multiple_of(ALIGNMENT) as u64;
            let path = folder.path().join(format!("{model}.gguf"));
            std::fs::write(&path, header).unwrap();
            let file = File::options().append(true).open(&path).unwrap();
            for tensor in &tensors {
                file.set_len(len).unwrap();
                if tensor.constant.is_some() {
                    tensor.write(&mut BufWriter::new(&file)).unwrap();
                }
                len += tensor.padded_bytes() as u64;
            }
            file.set_len(len).unwrap();
            let checkpoint = Checkpoint::open(&path).unwrap();
            MemoryUse::of(&checkpoint, OpenOptions::default()).unwrap();
            // Weights take about as much on a GPU as in the file: matrices of 6 bits take 7% more.
            #[cfg(feature = "gpu")]
            {
                let [in_file, on_gpu] = crate::gpu::weight_bytes(&checkpoint).unwrap();
                eprintln!("{model}: {in_file} bytes in the file, {on_gpu} on a GPU");
                assert!(on_gpu as f64 <= 1.05 * in_file as f64, "{model}: {in_file}, {on_gpu}");
            }
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn synthetic_models_of_all_architectures_compute() {
        let folder = tempfile::tempdir().unwrap();
        for shape in &shapes::SMALL {
            let path = Synthetic { shape, weights: &WEIGHTS[0] }.write(folder.path()).unwrap();
            let model = Model::open(&path, OpenOptions::default()).unwrap();
            let tokens: Vec<TokenId> = (7..27).map(TokenId).collect();
            for state in model.hidden_states(&tokens).unwrap() {
                assert!(state.iter().all(|x| x.is_finite() && x.abs() < 1e4), "{}", shape.name);
            }
        }
    }
}
