//! A model's tensors, bound by name to their places in the mapped file.

use std::ops::Range;
use std::sync::Arc;

use candle_core::quantized::GgmlDType;

use crate::LoadError;
use crate::error::Kind;
use crate::file_map::FileMap;
use crate::gguf::{Gguf, TensorInfo};
use crate::quant::{self, Activation};
use crate::spec::ModelSpec;

/// A weight matrix in the file, one output per row.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    map: Arc<FileMap>,
    offset: usize,
    row_bytes: usize,
    dtype: GgmlDType,
    /// Outputs.
    pub(crate) rows: usize,
    /// Inputs.
    pub(crate) columns: usize,
}

impl Matrix {
    /// The bytes of some rows; rows are contiguous.
    fn bytes(&self, rows: Range<usize>) -> &[u8] {
        &self.map[self.offset + rows.start * self.row_bytes..self.offset + rows.end * self.row_bytes]
    }

    /// Expands some rows into `out`, `[rows, columns]`.
    pub(crate) fn dequantize(&self, rows: Range<usize>, out: &mut [f32]) {
        let bytes = self.bytes(rows);
        for (row, out) in bytes.chunks_exact(self.row_bytes).zip(out.chunks_exact_mut(self.columns)) {
            quant::dequantize(self.dtype, row, out);
        }
    }

    /// Multiplies the rows from `first` on with one activation row, as many as `out` has room for.
    pub(crate) fn dot(&self, first: usize, x: &Activation<'_>, out: &mut [f32]) {
        quant::dot(self.dtype, self.bytes(first..first + out.len()), self.row_bytes, x, out);
    }

    /// The bytes that one row takes in the file.
    pub(crate) const fn row_bytes(&self) -> usize {
        self.row_bytes
    }
}

/// A matrix and the bias that is added to its product.
#[derive(Debug)]
pub(crate) struct Linear {
    pub(crate) weight: Matrix,
    pub(crate) bias: Option<Vec<f32>>,
}

/// One decoder layer.
#[derive(Debug)]
pub(crate) struct LayerWeights {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) query: Linear,
    pub(crate) key: Linear,
    pub(crate) value: Linear,
    /// Per head, `[head_dim]`, where the model normalises queries and keys.
    pub(crate) qk_norm: Option<QkNorm>,
    pub(crate) output: Linear,
    pub(crate) post_attention_norm: Option<Vec<f32>>,
    pub(crate) feed_forward_norm: Vec<f32>,
    pub(crate) gate: Linear,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
    pub(crate) post_feed_forward_norm: Option<Vec<f32>>,
}

/// The norms of the heads of queries and keys.
#[derive(Debug)]
pub(crate) struct QkNorm {
    pub(crate) query: Vec<f32>,
    pub(crate) key: Vec<f32>,
}

/// All weights of a model.
#[derive(Debug)]
pub(crate) struct Weights {
    /// `[vocabulary, hidden]`
    pub(crate) embedding: Matrix,
    pub(crate) layers: Vec<LayerWeights>,
    pub(crate) output_norm: Vec<f32>,
    /// `[vocabulary, hidden]`; the embedding, where the file has no head of its own.
    pub(crate) head: Matrix,
    /// What each rotary frequency is divided by, `[rope_dims / 2]`.
    pub(crate) rope_factors: Option<Vec<f32>>,
}

impl Weights {
    /// Finds every tensor that `spec` calls for and checks its shape.
    pub(crate) fn bind(file: &Gguf, spec: &ModelSpec) -> Result<Self, LoadError> {
        Binder { file, spec }.bind().map_err(|kind| file.error(kind))
    }
}

struct Binder<'a> {
    file: &'a Gguf,
    spec: &'a ModelSpec,
}

impl Binder<'_> {
    fn bind(&self) -> Result<Weights, Kind> {
        let spec = self.spec;
        let embedding = self.matrix("token_embd.weight", spec.hidden, spec.vocabulary)?;
        let head = match self.file.tensor("output.weight") {
            Some(_) => self.matrix("output.weight", spec.hidden, spec.vocabulary)?,
            None => embedding.clone(),
        };
        Ok(Weights {
            embedding,
            layers: (0..spec.layers.len()).map(|index| self.layer(index)).collect::<Result<_, _>>()?,
            output_norm: self.vector("output_norm.weight", spec.hidden)?,
            head,
            rope_factors: self.optional_vector("rope_freqs.weight", spec.rope_dims / 2)?,
        })
    }

    fn layer(&self, index: usize) -> Result<LayerWeights, Kind> {
        let spec = self.spec;
        let name = |part: &str| format!("blk.{index}.{part}");
        let norm = |part: &str| self.vector(&name(part), spec.hidden);
        let linear = |part: &str, columns, rows| self.linear(&name(part), columns, rows);
        let projection = |part: &str, heads: usize| {
            let bound = linear(part, spec.hidden, heads * spec.head_dim)?;
            if spec.qkv_bias && bound.bias.is_none() {
                return Err(Kind::MissingTensor { tensor: name(part) + ".bias" });
            }
            Ok(bound)
        };
        let head_norm = |part: &str| self.vector(&name(part), spec.head_dim);
        let post_norm = |part: &str| spec.post_norms.then(|| norm(part)).transpose();
        Ok(LayerWeights {
            attention_norm: norm("attn_norm.weight")?,
            query: projection("attn_q", spec.heads)?,
            key: projection("attn_k", spec.kv_heads)?,
            value: projection("attn_v", spec.kv_heads)?,
            qk_norm: if spec.qk_norm {
                Some(QkNorm {
                    query: head_norm("attn_q_norm.weight")?,
                    key: head_norm("attn_k_norm.weight")?,
                })
            } else {
                None
            },
            output: linear("attn_output", spec.heads * spec.head_dim, spec.hidden)?,
            post_attention_norm: post_norm("post_attention_norm.weight")?,
            feed_forward_norm: norm("ffn_norm.weight")?,
            gate: linear("ffn_gate", spec.hidden, spec.feed_forward)?,
            up: linear("ffn_up", spec.hidden, spec.feed_forward)?,
            down: linear("ffn_down", spec.feed_forward, spec.hidden)?,
            post_feed_forward_norm: post_norm("post_ffw_norm.weight")?,
        })
    }

    fn linear(&self, name: &str, columns: usize, rows: usize) -> Result<Linear, Kind> {
        Ok(Linear {
            weight: self.matrix(&format!("{name}.weight"), columns, rows)?,
            bias: self.optional_vector(&format!("{name}.bias"), rows)?,
        })
    }

    fn matrix(&self, name: &str, columns: usize, rows: usize) -> Result<Matrix, Kind> {
        let (info, dtype) = self.tensor(name, &[columns as u64, rows as u64])?;
        let row_bytes = columns / info.dtype.block_len() * info.dtype.block_bytes();
        let map = Arc::clone(self.file.map());
        Ok(Matrix { map, offset: info.offset, row_bytes, dtype, rows, columns })
    }

    fn vector(&self, name: &str, len: usize) -> Result<Vec<f32>, Kind> {
        let (info, dtype) = self.tensor(name, &[len as u64])?;
        let mut values = vec![0.0; len];
        quant::dequantize(dtype, &self.file.map()[info.offset..info.offset + info.byte_len], &mut values);
        Ok(values)
    }

    fn optional_vector(&self, name: &str, len: usize) -> Result<Option<Vec<f32>>, Kind> {
        self.file.tensor(name).map(|_| self.vector(name, len)).transpose()
    }

    /// A tensor of the given shape and of a type that there is arithmetic for.
    fn tensor(&self, name: &str, shape: &[u64]) -> Result<(&TensorInfo, GgmlDType), Kind> {
        let tensor = || name.to_owned();
        let info = self.file.tensor(name).ok_or_else(|| Kind::MissingTensor { tensor: tensor() })?;
        if info.shape != shape {
            let (given, expected) = (info.shape.clone(), shape.to_vec());
            return Err(Kind::Shape { tensor: tensor(), given, expected });
        }
        match info.dtype.compute() {
            Some(dtype) => Ok((info, dtype)),
            None => Err(Kind::UnsupportedType { tensor: tensor(), given: info.dtype.name() }),
        }
    }
}
