//! What an architecture is, as data.
//!
//! A [`ModelSpec`] says everything that the decoder has to know: sizes, where the norms are, how positions enter, which
//! layers look at a window only. It is read from a file's metadata by one small function per family; nothing else in the
//! crate knows an architecture by name.

use crate::LoadError;
use crate::error::Kind;
use crate::gguf::{Gguf, Value};

/// The architectures that can be run.
const KNOWN: &[&str] = &["gemma3", "llama", "qwen2", "qwen3"];

/// How the elements of a head are paired for rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RopePairing {
    /// Elements `2i` and `2i + 1`.
    Interleaved,
    /// Elements `i` and `i + dims / 2`.
    Halves,
}

/// The gate's nonlinearity in the feed-forward block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activation {
    /// `x · σ(x)`
    Silu,
    /// The tanh approximation of the Gaussian error linear unit.
    GeluTanh,
}

/// The rotary frequencies of some layers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RopeSpec {
    /// The base of the geometric series of wavelengths.
    pub theta: f32,
    /// What positions are multiplied with: below 1 where the context was stretched.
    pub scale: f32,
}

/// What differs from layer to layer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LayerSpec {
    /// How many positions a token sees, itself included; all where `None`.
    pub window: Option<usize>,
    /// An index into [`ModelSpec::ropes`].
    pub rope: usize,
}

/// A decoder's shape and conventions.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelSpec {
    /// The architecture's name in GGUF files.
    pub architecture: String,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward block.
    pub feed_forward: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Rows of the embedding and of the head.
    pub vocabulary: usize,
    /// Positions that the model was trained for.
    pub context: usize,
    /// Added to the mean square before the root.
    pub norm_epsilon: f32,
    /// Elements of a head that rotate.
    pub rope_dims: usize,
    /// How they are paired.
    pub rope_pairing: RopePairing,
    /// The distinct sets of frequencies.
    pub ropes: Vec<RopeSpec>,
    /// The layers, first to last.
    pub layers: Vec<LayerSpec>,
    /// Whether queries and keys are normalised per head.
    pub qk_norm: bool,
    /// Whether the query, key and value projections must have biases; where not, they may.
    pub qkv_bias: bool,
    /// Whether the two blocks' results are normalised before they are added.
    pub post_norms: bool,
    /// What embeddings are multiplied with.
    pub embedding_scale: f32,
    /// What attention scores are multiplied with.
    pub attention_scale: f32,
    /// The gate's nonlinearity.
    pub activation: Activation,
}

impl ModelSpec {
    /// Reads the specification from a file's metadata. Shapes of tensors are checked when the weights are bound.
    ///
    /// # Errors
    /// When the architecture is unknown or a key is missing, of the wrong type or out of range.
    pub fn from_gguf(file: &Gguf) -> Result<Self, LoadError> {
        Self::read(file).map_err(|kind| file.error(kind))
    }

    fn read(file: &Gguf) -> Result<Self, Kind> {
        if file.tensors().is_empty() {
            return Err(Kind::VocabularyOnly);
        }
        let architecture = text(file, "general.architecture")?;
        let keys = Keys { file, architecture };
        let mut spec = keys.common()?;
        match architecture {
            "llama" => {}
            "qwen2" => {
                spec.rope_pairing = RopePairing::Halves;
                spec.qkv_bias = true;
            }
            "qwen3" => {
                spec.rope_pairing = RopePairing::Halves;
                spec.qk_norm = true;
            }
            "gemma3" => keys.gemma3(&mut spec)?,
            given => return Err(Kind::Architecture { given: given.to_owned(), known: KNOWN }),
        }
        Ok(spec)
    }
}

/// Gemma 3: one layer in this many looks at everything.
const GEMMA3_GLOBAL_EVERY: usize = 6;
const GEMMA3_LOCAL_THETA: f32 = 10_000.0;
/// The layer count of the one Gemma 3 size (27B) whose attention scale is not the head's.
const GEMMA3_27B_LAYERS: usize = 62;

/// A file's metadata, with the architecture's prefix.
struct Keys<'a> {
    file: &'a Gguf,
    architecture: &'a str,
}

impl Keys<'_> {
    /// What all families share; the result describes a llama.
    fn common(&self) -> Result<ModelSpec, Kind> {
        if !KNOWN.contains(&self.architecture) {
            return Err(Kind::Architecture { given: self.architecture.to_owned(), known: KNOWN });
        }
        let hidden = self.size("embedding_length")?;
        let heads = self.size("attention.head_count")?;
        let kv_heads = self.optional_size("attention.head_count_kv")?.unwrap_or(heads);
        self.rule(
            heads.is_multiple_of(kv_heads),
            "attention.head_count_kv",
            kv_heads,
            "it must divide head_count",
        )?;
        let head_dim = match self.optional_size("attention.key_length")? {
            Some(given) => given,
            None => hidden / heads,
        };
        let even = head_dim > 0 && head_dim.is_multiple_of(2);
        self.rule(even, "attention.key_length", head_dim, "it must be even and positive")?;
        let value_len = self.optional_size("attention.value_length")?.unwrap_or(head_dim);
        self.rule(value_len == head_dim, "attention.value_length", value_len, "it must equal key_length")?;
        let rope_dims = self.optional_size("rope.dimension_count")?.unwrap_or(head_dim);
        let fits = rope_dims.is_multiple_of(2) && rope_dims <= head_dim;
        self.rule(fits, "rope.dimension_count", rope_dims, "it must be even and at most key_length")?;
        let layers = self.size("block_count")?;
        // Each layer has nine tensors at least.
        let enough = layers <= self.file.tensors().len();
        self.rule(enough, "block_count", layers, "the file has fewer tensors than that")?;
        let rope =
            RopeSpec { theta: self.float("rope.freq_base")?.unwrap_or(10_000.0), scale: self.rope_scale()? };
        let norm_epsilon = self.float("attention.layer_norm_rms_epsilon")?;
        Ok(ModelSpec {
            architecture: self.architecture.to_owned(),
            hidden,
            feed_forward: self.size("feed_forward_length")?,
            heads,
            kv_heads,
            head_dim,
            vocabulary: self.vocabulary()?,
            context: self.size("context_length")?,
            norm_epsilon: norm_epsilon
                .ok_or_else(|| Kind::MissingKey { key: self.key("attention.layer_norm_rms_epsilon") })?,
            rope_dims,
            rope_pairing: RopePairing::Interleaved,
            ropes: vec![rope],
            layers: vec![LayerSpec { window: None, rope: 0 }; layers],
            qk_norm: false,
            qkv_bias: false,
            post_norms: false,
            embedding_scale: 1.0,
            attention_scale: 1.0 / (head_dim as f32).sqrt(),
            activation: Activation::Silu,
        })
    }

    fn gemma3(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let window = self.size("attention.sliding_window")?;
        let theta = self.float("rope.freq_base_swa")?.unwrap_or(GEMMA3_LOCAL_THETA);
        // Gemma's converter leaves the base out where it is a million.
        if self.float("rope.freq_base")?.is_none() {
            spec.ropes[0].theta = 1_000_000.0;
        }
        spec.ropes.push(RopeSpec { theta, scale: 1.0 });
        for (index, layer) in spec.layers.iter_mut().enumerate() {
            if (index + 1) % GEMMA3_GLOBAL_EVERY != 0 {
                *layer = LayerSpec { window: Some(window), rope: 1 };
            }
        }
        spec.rope_pairing = RopePairing::Halves;
        spec.qk_norm = true;
        spec.post_norms = true;
        spec.embedding_scale = (spec.hidden as f32).sqrt();
        if spec.layers.len() == GEMMA3_27B_LAYERS {
            spec.attention_scale = 1.0 / ((spec.hidden / spec.heads) as f32).sqrt();
        }
        spec.activation = Activation::GeluTanh;
        Ok(())
    }

    /// Positions are divided by the factor of linear scaling. Other kinds change the frequencies themselves.
    fn rope_scale(&self) -> Result<f32, Kind> {
        let key = self.key("rope.scaling.type");
        let factor = self.float("rope.scaling.factor")?;
        match self.file.value(&key) {
            Some(Value::String(kind)) if kind == "none" => Ok(1.0),
            Some(Value::String(kind)) if kind != "linear" => {
                Err(Kind::KeyValue { key, given: kind.clone(), rule: "only linear and none are supported" })
            }
            _ => Ok(factor.filter(|&factor| factor > 0.0).map_or(1.0, |factor| 1.0 / factor)),
        }
    }

    fn vocabulary(&self) -> Result<usize, Kind> {
        let tensor = "token_embd.weight";
        let info =
            self.file.tensor(tensor).ok_or_else(|| Kind::MissingTensor { tensor: tensor.to_owned() })?;
        // A rank other than two is reported when the tensor is bound.
        Ok(info.shape.get(1).copied().unwrap_or(0) as usize)
    }

    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    fn rule(&self, holds: bool, key: &str, given: usize, rule: &'static str) -> Result<(), Kind> {
        if holds {
            return Ok(());
        }
        Err(Kind::KeyValue { key: self.key(key), given: given.to_string(), rule })
    }

    fn size(&self, key: &str) -> Result<usize, Kind> {
        self.optional_size(key)?.ok_or_else(|| Kind::MissingKey { key: self.key(key) })
    }

    /// A size: positive, and small enough that products of two never overflow.
    fn optional_size(&self, key: &str) -> Result<Option<usize>, Kind> {
        let key = self.key(key);
        let given = match self.file.value(&key) {
            None => return Ok(None),
            Some(&Value::Unsigned(given)) => given,
            Some(&Value::Signed(given)) => given.max(0) as u64,
            Some(other) => {
                let given = other.kind_name();
                return Err(Kind::KeyType { key, given, expected: "an unsigned integer" });
            }
        };
        if !(1..1 << 31).contains(&given) {
            let given = given.to_string();
            return Err(Kind::KeyValue { key, given, rule: "it must be positive and below 2^31" });
        }
        Ok(Some(given as usize))
    }

    fn float(&self, key: &str) -> Result<Option<f32>, Kind> {
        let key = self.key(key);
        match self.file.value(&key) {
            None => Ok(None),
            Some(&Value::Float(given)) if given.is_finite() => Ok(Some(given as f32)),
            Some(Value::Float(given)) => {
                Err(Kind::KeyValue { key, given: given.to_string(), rule: "it must be finite" })
            }
            Some(other) => Err(Kind::KeyType { key, given: other.kind_name(), expected: "a float" }),
        }
    }
}

/// A required text.
fn text<'a>(file: &'a Gguf, key: &str) -> Result<&'a str, Kind> {
    match file.value(key) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => {
            Err(Kind::KeyType { key: key.to_owned(), given: other.kind_name(), expected: "a string" })
        }
        None => Err(Kind::MissingKey { key: key.to_owned() }),
    }
}
