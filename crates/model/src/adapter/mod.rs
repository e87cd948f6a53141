//! LoRA adapters: low-rank changes of the matrices of a model.
//!
//! An adapter has two small matrices for each matrix `W` that it changes: `A` of shape
//! `[rank, inputs]` and `B` of shape `[outputs, rank]`. A sequence with the adapter is computed with
//! `W x + scale · B (A x)`. The weights of the model are neither changed nor copied.
//!
//! Two formats are read: the folders of [PEFT](https://huggingface.co/docs/peft), and GGUF files of
//! llama.cpp. Both name the matrices as the model's checkpoint of the same format does. [`bind`] finds
//! the matrices of the model, also if the checkpoint has the other format.

mod bind;
mod gguf;
mod peft;
mod places;

use std::collections::BTreeMap;
use std::path::Path;

pub(crate) use self::bind::{Adapter, Delta, EmbeddingDelta, bind};
use crate::LoadError;
use crate::checkpoint::Checkpoint;
use crate::error::Kind;
use crate::gguf::TensorInfo;

/// An opened adapter, which is not bound to a model yet.
#[derive(Clone, Debug)]
pub struct AdapterFile {
    /// The file with the tensors.
    tensors: Checkpoint,
    /// Name of the architecture of the model. Only GGUF files have one.
    architecture: Option<String>,
    alpha: f64,
    /// The changed matrices, by their names in the format of the adapter without `.weight`.
    pairs: BTreeMap<String, Pair>,
}

/// Tensors that change a matrix, or several matrices that are stacked in one tensor.
#[derive(Clone, PartialEq, Debug)]
struct Pair {
    a: String,
    b: String,
    rank: usize,
    /// Factor of the product of the two matrices.
    scale: f64,
    /// True if PEFT stores the pair as the change of an embedding.
    is_embedding: bool,
}

/// The two tensors of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    A,
    B,
}

impl AdapterFile {
    /// Opens an adapter. `path` is a GGUF file, or a PEFT folder with `adapter_config.json` and
    /// `adapter_model.safetensors`, or one of these two files.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or is malformed, or if the adapter needs a feature that
    /// is not supported. The message contains the path of the file and the tensor or field.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref();
        if path.is_dir() {
            return peft::open(path);
        }
        match path.file_name().and_then(|name| name.to_str()) {
            Some(peft::CONFIG | peft::TENSORS) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                peft::open(folder.unwrap_or(Path::new(".")))
            }
            _ => gguf::open(path),
        }
    }

    /// Reports whether `path` is an adapter: a PEFT folder or one of its files, or a GGUF file whose
    /// metadata says so.
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        let name = path.file_name().and_then(|name| name.to_str());
        if path.is_dir() {
            return path.join(peft::CONFIG).exists();
        }
        matches!(name, Some(peft::CONFIG | peft::TENSORS)) || gguf::is_adapter(path)
    }

    /// Returns the path of the file with the tensors.
    pub fn path(&self) -> &Path {
        self.tensors.maps().first().map_or(self.tensors.path(), |map| map.path())
    }

    /// Returns the name of the format.
    pub const fn format(&self) -> &'static str {
        if self.is_gguf() { "GGUF" } else { "PEFT safetensors" }
    }

    /// Returns the number by which PEFT scales adapters: their effect is multiplied by this number and
    /// divided by the rank. A pair of tensors can have another one.
    pub const fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Returns the names of the changed matrices, each with its rank. Names are those of the format.
    pub fn modules(&self) -> impl Iterator<Item = (&str, usize)> {
        self.pairs.iter().map(|(module, pair)| (module.as_str(), pair.rank))
    }

    /// Returns the number of elements of all tensors.
    pub fn parameters(&self) -> u64 {
        self.tensors.parameters()
    }

    const fn is_gguf(&self) -> bool {
        matches!(self.tensors, Checkpoint::Gguf(_))
    }

    /// Adds the path of the file with the tensors to an error.
    pub(crate) fn error(&self, kind: Kind) -> LoadError {
        LoadError::new(self.path(), kind)
    }
}

/// Collects the pairs of the tensors of a file. `side` returns the module of a tensor and its side, and
/// `scale` the factor of a module with a given rank.
fn pairs(
    tensors: &[TensorInfo],
    side: impl Fn(&TensorInfo) -> Result<(String, Side, bool), Kind>,
    scale: impl Fn(&str, &TensorInfo) -> Result<(usize, f64), Kind>,
) -> Result<BTreeMap<String, Pair>, Kind> {
    let mut halves: BTreeMap<String, [Option<&TensorInfo>; 2]> = BTreeMap::new();
    let mut embeddings = Vec::new();
    for tensor in tensors {
        if !matches!(tensor.shape.len(), 2 | 3) {
            let reason = "expected a matrix; adapters of convolutions and vectors are not supported";
            return Err(Kind::AdapterTensor { tensor: tensor.name.clone(), reason });
        }
        let (module, side, is_embedding) = side(tensor)?;
        if is_embedding {
            embeddings.push(module.clone());
        }
        let half = &mut halves.entry(module).or_default()[side as usize];
        if half.replace(tensor).is_some() {
            return Err(Kind::DuplicateTensor {
                tensor: tensor.name.clone(),
                at: tensor.offset as u64 as usize,
            });
        }
    }
    let pair = |(module, halves): (String, [Option<&TensorInfo>; 2])| {
        let [Some(a), Some(b)] = halves else {
            let tensor = halves.iter().flatten().next().map(|info| info.name.clone()).unwrap_or_default();
            return Err(Kind::AdapterTensor { tensor, reason: "the other matrix of the pair is missing" });
        };
        let (rank, scale) = scale(&module, b)?;
        let is_embedding = embeddings.contains(&module);
        Ok((module, Pair { a: a.name.clone(), b: b.name.clone(), rank, scale, is_embedding }))
    };
    halves.into_iter().map(pair).collect()
}
