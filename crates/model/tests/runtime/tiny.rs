//! Random models of a few kilobytes.

use std::collections::HashMap;
use std::io::Write as _;

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use formwork_lm::{Batch, LanguageModel, Logits, ModelError, Role, Run, SequenceId, Wanted};
use formwork_model::{Model, OpenOptions};
use formwork_vocab::TokenId;

use crate::writer::Writer;

pub(crate) const HIDDEN: usize = 64;
pub(crate) const HEADS: usize = 4;
pub(crate) const KV_HEADS: usize = 2;
pub(crate) const FEED_FORWARD: usize = 96;
pub(crate) const VOCABULARY: usize = 200;
pub(crate) const CONTEXT: usize = 600;
/// Window of Gemma's local layers.
pub(crate) const WINDOW: usize = 8;
pub(crate) const EPSILON: f32 = 1e-5;

/// Maximum change of a number by storing keys and values in 16 bits, relative to the largest number
/// in its row.
pub(crate) const HALF_KEYS: f32 = 2e-3;

/// A model's file and its weights.
pub(crate) struct Tiny {
    pub(crate) architecture: &'static str,
    pub(crate) layers: usize,
    /// Width of a head. For Gemma it differs from `HIDDEN / HEADS`.
    pub(crate) head_dim: usize,
    pub(crate) weights: HashMap<String, Vec<f32>>,
    pub(crate) file: Vec<u8>,
}

/// Creates a model of `architecture` with matrices of type `dtype`.
pub(crate) fn tiny(architecture: &'static str, dtype: GgmlDType) -> Tiny {
    build(architecture, dtype, false, None)
}

/// Creates a model with the given number of layers.
#[allow(dead_code, reason = "where only the layers count")]
pub(crate) fn deep(architecture: &'static str, dtype: GgmlDType, layers: usize) -> Tiny {
    build(architecture, dtype, false, Some(layers))
}

/// Creates the model of [`tiny`] with its quantised matrices expanded to floats.
pub(crate) fn expanded(architecture: &'static str, dtype: GgmlDType) -> Tiny {
    build(architecture, dtype, true, None)
}

fn build(
    architecture: &'static str,
    dtype: GgmlDType,
    is_expanded: bool,
    wanted_layers: Option<usize>,
) -> Tiny {
    let gemma = architecture == "gemma3";
    let (layers, head_dim) = if gemma { (7, 32) } else { (2, 16) };
    let layers = wanted_layers.unwrap_or(layers);
    let mut build = Build {
        writer: Writer::default(),
        weights: HashMap::new(),
        is_expanded,
        state: 0x5eed + architecture.len() as u64,
    };
    metadata(&mut build.writer, architecture, layers as u32, head_dim as u32);
    build.matrix("token_embd.weight", HIDDEN, VOCABULARY, dtype);
    build.norm("output_norm.weight", HIDDEN);
    if architecture == "llama" {
        build.matrix("output.weight", HIDDEN, VOCABULARY, dtype);
        build.norm("rope_freqs.weight", head_dim / 2);
    }
    for layer in 0..layers {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let (query, key) = (HEADS * head_dim, KV_HEADS * head_dim);
        build.norm(&name("attn_norm.weight"), HIDDEN);
        for (part, rows) in [("attn_q", query), ("attn_k", key), ("attn_v", key)] {
            build.matrix(&name(&format!("{part}.weight")), HIDDEN, rows, dtype);
            if architecture == "qwen2" {
                build.norm(&name(&format!("{part}.bias")), rows);
            }
        }
        if gemma || architecture == "qwen3" {
            build.norm(&name("attn_q_norm.weight"), head_dim);
            build.norm(&name("attn_k_norm.weight"), head_dim);
        }
        build.matrix(&name("attn_output.weight"), query, HIDDEN, dtype);
        build.norm(&name("ffn_norm.weight"), HIDDEN);
        if gemma {
            build.norm(&name("post_attention_norm.weight"), HIDDEN);
            build.norm(&name("post_ffw_norm.weight"), HIDDEN);
        }
        build.matrix(&name("ffn_gate.weight"), HIDDEN, FEED_FORWARD, dtype);
        build.matrix(&name("ffn_up.weight"), HIDDEN, FEED_FORWARD, dtype);
        build.matrix(&name("ffn_down.weight"), FEED_FORWARD, HIDDEN, dtype);
    }
    Tiny { architecture, layers, head_dim, file: build.writer.finish(), weights: build.weights }
}

pub(crate) const TEMPLATE: &str =
    "{{ bos_token }}{{ messages[0].content }}{{ eos_token }} {{ strftime_now('%Y') }}";

fn metadata(writer: &mut Writer, architecture: &str, layers: u32, head_dim: u32) {
    let key = |name: &str| format!("{architecture}.{name}");
    writer.string("general.architecture", architecture);
    writer.string("general.name", "Tiny");
    writer.u32(&key("block_count"), layers);
    writer.u32(&key("context_length"), CONTEXT as u32);
    writer.u32(&key("embedding_length"), HIDDEN as u32);
    writer.u32(&key("feed_forward_length"), FEED_FORWARD as u32);
    writer.u32(&key("attention.head_count"), HEADS as u32);
    writer.u32(&key("attention.head_count_kv"), KV_HEADS as u32);
    writer.u32(&key("attention.key_length"), head_dim);
    writer.f32(&key("attention.layer_norm_rms_epsilon"), EPSILON);
    writer.f32(&key("rope.freq_base"), 50_000.0);
    if architecture == "gemma3" {
        writer.u32(&key("attention.sliding_window"), WINDOW as u32);
    }
    writer.string("tokenizer.ggml.model", "gpt2");
    writer.strings("tokenizer.ggml.tokens", &["a".to_owned(), "b".to_owned(), "ab".to_owned()]);
    writer.u32("tokenizer.ggml.bos_token_id", 0);
    writer.u32("tokenizer.ggml.eos_token_id", 1);
    writer.string("tokenizer.chat_template", TEMPLATE);
}

struct Build {
    writer: Writer,
    weights: HashMap<String, Vec<f32>>,
    is_expanded: bool,
    state: u64,
}

impl Build {
    /// Returns a random number from -1 to 1.
    fn next(&mut self) -> f32 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn matrix(&mut self, name: &str, columns: usize, rows: usize, dtype: GgmlDType) {
        let scale = 2.0 / (columns as f32).sqrt();
        let mut values: Vec<f32> = (0..columns * rows).map(|_| self.next() * scale).collect();
        let mut dtype = dtype;
        if self.is_expanded {
            let tensor = Tensor::from_slice(&values, values.len(), &Device::Cpu).unwrap();
            let rounded = QTensor::quantize(&tensor, dtype).unwrap().dequantize(&Device::Cpu).unwrap();
            (values, dtype) = (rounded.to_vec1().unwrap(), GgmlDType::F32);
        }
        self.writer.tensor(name, &[columns as u64, rows as u64], dtype, &values);
        self.weights.insert(name.to_owned(), values);
    }

    /// Adds a vector of random numbers around 1.
    fn norm(&mut self, name: &str, len: usize) {
        let values: Vec<f32> = (0..len).map(|_| 1.0 + self.next() * 0.4).collect();
        self.writer.tensor(name, &[len as u64], GgmlDType::F32, &values);
        self.weights.insert(name.to_owned(), values);
    }
}

/// Returns the device named by `FORMWORK_TEST_DEVICE`, by default the reference.
pub(crate) fn tested() -> formwork_model::Device {
    let name = std::env::var("FORMWORK_TEST_DEVICE").unwrap_or_else(|_| "reference".to_owned());
    name.parse().unwrap()
}

/// Writes bytes to a temporary file and opens the model.
pub(crate) fn open(file: &[u8]) -> Result<Model, formwork_model::LoadError> {
    open_with(file, OpenOptions::default())
}

pub(crate) fn open_with(file: &[u8], options: OpenOptions) -> Result<Model, formwork_model::LoadError> {
    let mut on_disk = tempfile::NamedTempFile::new().unwrap();
    on_disk.write_all(file).unwrap();
    Model::open(on_disk.path(), options)
}

/// Returns `len` tokens that depend on `seed`.
pub(crate) fn tokens(len: usize, seed: usize) -> Vec<TokenId> {
    (0..len).map(|at| TokenId(((at * 37 + seed * 91 + at * at) % VOCABULARY) as u32)).collect()
}

/// Appends one run and returns its last row of logits.
pub(crate) fn append(
    model: &mut dyn LanguageModel,
    sequence: SequenceId,
    tokens: &[TokenId],
    role: Role,
    wanted: Wanted<'_>,
) -> Result<Vec<f32>, ModelError> {
    // The recycled rows contain NaN. This checks that reused memory is fully overwritten.
    let vocabulary = model.vocab_size();
    model.recycle(Logits::new(vec![vec![vec![f32::NAN; vocabulary]; 3]]));
    let logits = model.forward(&Batch { runs: vec![Run { sequence, tokens, role, wanted }] })?;
    Ok(logits.row(0).to_vec())
}
