//! Places of the matrices of a model in an adapter.

use super::AdapterFile;
use crate::checkpoint::{Checkpoint, Family, Names};
use crate::error::Kind;
use crate::spec::{MixerSpec, ModelSpec};
use crate::weights::Origin;

/// Matrices of layers that have the same inputs and outputs in GGUF files and in safetensors, up to
/// their order.
const PARTS: [&str; 29] = [
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_qkv",
    "attn_output",
    "attn_gate",
    "attn_q_a",
    "attn_q_b",
    "attn_kv_a_mqa",
    "attn_kv_b",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
    "ffn_gate_shexp",
    "ffn_up_shexp",
    "ffn_down_shexp",
    "ffn_gate_inp",
    "ffn_gate_inp_shexp",
    "ffn_latent_down",
    "ffn_latent_up",
    "inp_gate",
    "proj",
    "shortconv.in_proj",
    "shortconv.out_proj",
    "ssm_in",
    "ssm_out",
    "ssm_ba",
    "ssm_alpha",
    "ssm_beta",
];
/// Matrices of experts.
const EXPERT_PARTS: [&str; 3] = ["ffn_gate", "ffn_up", "ffn_down"];
/// Matrices that do not belong to a layer.
const GLOBALS: [&str; 2] = ["output", "per_layer_model_proj"];

/// Finds the matrices of a model in an adapter.
pub(super) struct Places<'a> {
    spec: &'a ModelSpec,
    family: Family,
    /// Names in the model's checkpoint, and in the adapter.
    base: Names,
    adapter: Names,
    /// True if the model's checkpoint is a GGUF file.
    is_gguf: bool,
    is_same_format: bool,
}

/// A matrix in an adapter.
pub(super) struct Place {
    pub(super) module: String,
    /// Index of the matrix among those that are stacked in the tensor.
    pub(super) matrix: usize,
    /// Part of the matrix, whose order of rows or columns may differ between the formats.
    order: Order,
}

/// Difference between the orders of rows or columns in GGUF files and in safetensors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Same,
    /// Rows of heads of this width. In GGUF files, the rows that rotate together are neighbours.
    Rotated {
        head_dim: usize,
    },
    /// Rows from row `first` on, in groups of `len` for each value head. In GGUF files, neighbouring
    /// heads have different key heads.
    ValueHeads {
        first: usize,
        len: usize,
        key_heads: usize,
        heads: usize,
    },
    /// Columns in groups for each value head.
    ValueColumns {
        len: usize,
        key_heads: usize,
        heads: usize,
    },
}

impl<'a> Places<'a> {
    pub(super) fn new(file: &AdapterFile, base: &Checkpoint, spec: &'a ModelSpec) -> Result<Self, Kind> {
        let (family, _) = Family::of(base)?;
        if let Some(given) = &file.architecture
            && !family.is_called(given)
        {
            let expected = spec.architecture.clone();
            return Err(Kind::AdapterArchitecture { given: given.clone(), expected });
        }
        let is_gguf = matches!(base, Checkpoint::Gguf(_));
        // GGUF files of Mixtral have the architecture of Llama.
        let is_mixtral = is_gguf && family == Family::Llama && spec.has_experts();
        let named = if is_mixtral { Family::Mixtral } else { family };
        Ok(Self {
            spec,
            family,
            base: Names::new(base, family),
            adapter: Names::of_format(!file.is_gguf(), named),
            is_gguf,
            is_same_format: is_gguf == file.is_gguf(),
        })
    }

    /// Returns the name of the embedding in the adapter.
    pub(super) fn embedding(&self) -> String {
        self.adapter.global("token_embd")
    }

    /// Returns the possible places of a matrix in the adapter.
    pub(super) fn of(&self, origin: &Origin) -> Vec<Place> {
        let module = &*origin.module;
        let matrix = origin.rows.at(0) / origin.height.max(1);
        let place = |module: String, matrix: usize, order| Place { module, matrix, order };
        if self.is_same_format {
            return vec![place(module.to_owned(), matrix, Order::Same)];
        }
        let mut places = Vec::new();
        for part in GLOBALS {
            if self.base.global(part) == module {
                places.push(place(self.adapter.global(part), 0, Order::Same));
            }
        }
        let Some(layer) = number_after(module, if self.is_gguf { "blk." } else { ".layers." }) else {
            return places;
        };
        for part in PARTS {
            if self.base.layer(layer, part) == module {
                places.push(place(self.adapter.layer(layer, part), 0, self.order(layer, part)));
            }
        }
        for part in EXPERT_PARTS {
            // GGUF files stack the experts of a layer, and PEFT names each of them.
            if self.is_gguf {
                if self.base.experts(layer, part).is_some_and(|stacked| stacked == module) {
                    places.push(place(self.adapter.expert(layer, matrix, part), 0, Order::Same));
                }
            } else if let Some(expert) = number_after(module, ".experts.")
                && self.base.expert(layer, expert, part) == module
                && let Some(stacked) = self.adapter.experts(layer, part)
            {
                places.push(place(stacked, expert, Order::Same));
            }
        }
        places
    }

    /// Returns how the two formats differ in the order of a matrix.
    fn order(&self, layer: usize, part: &str) -> Order {
        match (&self.spec.layers[layer.min(self.spec.layers.len() - 1)].mixer, part) {
            (MixerSpec::Attention(shape), "attn_q" | "attn_k") if self.family.pairs_neighbours() => {
                Order::Rotated { head_dim: shape.head_dim }
            }
            (MixerSpec::DeltaRule(shape), _) if self.family == Family::Qwen35 => {
                let (key_heads, heads) = (shape.key_heads, shape.value_heads);
                let rows = |first, len| Order::ValueHeads { first, len, key_heads, heads };
                match part {
                    "attn_qkv" => rows(2 * shape.key_len(), shape.value_dim),
                    "attn_gate" => rows(0, shape.value_dim),
                    "ssm_alpha" | "ssm_beta" => rows(0, 1),
                    "ssm_out" => Order::ValueColumns { len: shape.value_dim, key_heads, heads },
                    _ => Order::Same,
                }
            }
            _ => Order::Same,
        }
    }

    /// Returns the row of the adapter's matrix for a row of the model's tensor, both counted within one
    /// of the stacked matrices.
    pub(super) fn row(&self, place: &Place, row: usize) -> usize {
        match place.order {
            Order::Same | Order::ValueColumns { .. } => row,
            Order::Rotated { head_dim } => {
                let (head, within) = (row / head_dim, row % head_dim);
                let half = head_dim / 2;
                let within = if self.is_gguf {
                    within / 2 + within % 2 * half
                } else {
                    2 * (within % half) + within / half
                };
                head * head_dim + within
            }
            Order::ValueHeads { first, .. } if row < first => row,
            Order::ValueHeads { first, len, key_heads, heads } => {
                first + self.value_row(row - first, len, key_heads, heads)
            }
        }
    }

    /// Returns the columns of the adapter's matrix for the columns of the model's matrix. `None` if they
    /// have the same order.
    pub(super) fn columns(&self, place: &Place) -> Option<Vec<usize>> {
        let Order::ValueColumns { len, key_heads, heads } = place.order else { return None };
        Some((0..len * heads).map(|column| self.value_row(column, len, key_heads, heads)).collect())
    }

    fn value_row(&self, row: usize, len: usize, key_heads: usize, heads: usize) -> usize {
        let (head, within) = (row / len, row % len);
        let shared = heads / key_heads;
        let head = if self.is_gguf {
            head % key_heads * shared + head / key_heads
        } else {
            head % shared * key_heads + head / shared
        };
        head * len + within
    }
}

/// Returns the number that follows the first occurrence of `mark` in a name.
fn number_after(name: &str, mark: &str) -> Option<usize> {
    let (_, rest) = name.split_once(mark)?;
    let end = rest.find('.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}
