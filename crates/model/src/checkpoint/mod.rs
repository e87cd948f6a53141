//! Checkpoints, which contain the weights and hyperparameters of a model. A checkpoint is either a
//! GGUF file, or a folder with safetensors and a `config.json`.

mod ends;
mod family;
mod modules;
mod names;
mod python_json;
pub(crate) mod safetensors;
mod text;

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use formwork_lm::{ChatTemplate, TemplateError};
use formwork_vocab::Tokenizer;

pub(crate) use self::family::Family;
pub(crate) use self::modules::{DenseModule, Modules};
pub(crate) use self::names::Names;
pub use self::safetensors::Safetensors;
pub(crate) use self::text::text_name;
use crate::LoadError;
use crate::error::Kind;
use crate::file_map::FileMap;
use crate::gguf::{Gguf, TensorInfo, Value};
use crate::template::{JinjaTemplate, PlainTemplate};
use formwork_kernels::Encoding;

/// A validated checkpoint on disk. The weights are not copied from the mapped files.
#[derive(Clone, Debug)]
pub enum Checkpoint {
    /// A GGUF file, or all parts of a split GGUF file.
    Gguf(Gguf),
    /// A folder with a `config.json` and safetensors.
    Safetensors(Safetensors),
}

impl Checkpoint {
    /// Opens a checkpoint. `path` is a GGUF file, a folder with safetensors and a `config.json`, or
    /// a file in such a folder.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or is malformed. The message contains the path of
    /// the file and the location in it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref();
        if path.is_dir() {
            return Safetensors::open(path).map(Self::Safetensors);
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("safetensors" | "json")) {
            let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let model = Safetensors::open(folder.unwrap_or(Path::new(".")))?;
            // The path must name a file of the model, not an unrelated file in the same folder.
            return if model.has_file(path) {
                Ok(Self::Safetensors(model))
            } else {
                Err(LoadError::new(path, Kind::OtherFile))
            };
        }
        Gguf::open(path).map(Self::Gguf)
    }

    /// Returns the path of the GGUF file, or of the folder.
    pub fn path(&self) -> &Path {
        match self {
            Self::Gguf(file) => file.path(),
            Self::Safetensors(model) => model.path(),
        }
    }

    /// Returns the total size in bytes of all files with tensors.
    pub fn byte_len(&self) -> usize {
        self.maps().iter().map(|map| map.len()).sum()
    }

    /// Returns the entries of all tensors, with their shapes, types and locations.
    pub fn tensors(&self) -> &[TensorInfo] {
        match self {
            Self::Gguf(file) => file.tensors(),
            Self::Safetensors(model) => model.tensors(),
        }
    }

    /// Returns the entry of the tensor `name`, or `None` if the checkpoint does not have this
    /// tensor.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        match self {
            Self::Gguf(file) => file.tensor(name),
            Self::Safetensors(model) => model.tensor(name),
        }
    }

    /// Returns the number of parameters: the total number of elements of all tensors.
    pub fn parameters(&self) -> u64 {
        self.tensors().iter().map(TensorInfo::elements).sum()
    }

    /// Returns the name that a GGUF file contains. Without such a name, returns the name of the
    /// file or folder.
    pub fn name(&self) -> String {
        if let Self::Gguf(file) = self
            && let Some(Value::String(name)) = file.value("general.name")
        {
            return name.clone();
        }
        let path = self.path();
        let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
        name.unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the source of the chat template, or `None` if the checkpoint has none.
    pub fn chat_template(&self) -> Option<&str> {
        match self {
            Self::Gguf(file) => match file.value("tokenizer.chat_template") {
                Some(Value::String(template)) => Some(template),
                _ => None,
            },
            Self::Safetensors(model) => model.chat_template(),
        }
    }

    /// Compiles the chat template. A model without a template gets the [`PlainTemplate`].
    ///
    /// `now` is the time for templates that write the date. With `None` the date is fixed.
    ///
    /// # Errors
    /// Returns an error if the source is larger than 1 MiB or is not a valid template.
    pub fn compile_template(
        &self,
        tokenizer: &Tokenizer,
        now: Option<SystemTime>,
    ) -> Result<Arc<dyn ChatTemplate>, TemplateError> {
        let Some(source) = self.chat_template() else { return Ok(Arc::new(PlainTemplate)) };
        let response_template = match self {
            Self::Gguf(_) => None,
            Self::Safetensors(model) => model.response_template().cloned(),
        };
        let template =
            JinjaTemplate::for_tokenizer(source, tokenizer)?.with_response_template(response_template);
        Ok(Arc::new(match now {
            Some(now) => template.with_now(now),
            None => template,
        }))
    }

    /// Creates the tokenizer of the checkpoint.
    ///
    /// # Errors
    /// Returns an error if a field or file is missing or malformed, or if the fields do not define
    /// a valid tokenizer.
    pub fn tokenizer(&self) -> Result<Tokenizer, LoadError> {
        match self {
            Self::Gguf(file) => crate::tokenizer(file),
            Self::Safetensors(model) => model.tokenizer(),
        }
    }

    /// Returns the name of the architecture in the checkpoint, such as `llama`.
    pub(crate) fn architecture(&self) -> Result<&str, Kind> {
        match self {
            Self::Gguf(file) => {
                let key = "general.architecture";
                match file.value(key) {
                    Some(Value::String(name)) => Ok(name),
                    Some(other) => Err(Kind::KeyType {
                        key: key.to_owned(),
                        given: other.kind_name(),
                        expected: "a string",
                    }),
                    None => Err(Kind::MissingKey { key: key.to_owned() }),
                }
            }
            Self::Safetensors(model) => model.model_type(),
        }
    }

    /// Reports whether the head and the embedding are the same matrix. Returns `None` if the
    /// checkpoint does not specify this.
    pub(crate) fn ties_embeddings(&self) -> Option<bool> {
        match self {
            Self::Gguf(_) => None,
            Self::Safetensors(model) => model.config().get("tie_word_embeddings")?.as_bool(),
        }
    }

    /// Returns the number of rows of the embedding matrix, which is the tensor `tensor`. This is the
    /// size of the vocabulary.
    pub(crate) fn vocabulary(&self, tensor: &str) -> Result<usize, Kind> {
        let info = self.tensor(tensor).ok_or_else(|| Kind::MissingTensor { tensor: tensor.to_owned() })?;
        // A rank other than 2 is reported when the tensor is bound.
        Ok(info.shape.get(1).copied().unwrap_or(0) as usize)
    }

    /// Returns a tensor of `len` rotary factors. Returns `None` if there is no such tensor, and an
    /// error if a factor is not positive.
    pub(crate) fn floats(&self, tensor: &str, len: usize) -> Result<Option<Vec<f32>>, Kind> {
        if self.tensor(tensor).is_none() {
            return Ok(None);
        }
        let values = self.values(tensor, &[len as u64])?;
        if let Some(index) = values.iter().position(|&value| !value.is_finite() || value <= 0.0) {
            return Err(Kind::RopeFactor { tensor: tensor.to_owned(), index, given: values[index] });
        }
        Ok(Some(values))
    }

    /// Returns the elements of the tensor `name`, converted to `f32`. The tensor must have the
    /// given shape.
    pub(crate) fn values(&self, name: &str, shape: &[u64]) -> Result<Vec<f32>, Kind> {
        let (info, encoding) = self.encoded(name, shape)?;
        let mut values = vec![0.0; info.elements() as usize];
        formwork_kernels::dequantize(encoding, self.bytes(info), &mut values);
        Ok(values)
    }

    /// Returns the entry of the tensor `name`, which must have the given shape, and the encoding of
    /// its elements. Returns an error if there are no kernels for its type.
    pub(crate) fn encoded(&self, name: &str, shape: &[u64]) -> Result<(&TensorInfo, Encoding), Kind> {
        let info = self.shaped(name, shape)?;
        let unsupported = || Kind::UnsupportedType { tensor: name.to_owned(), given: info.dtype.name() };
        Ok((info, info.dtype.compute().ok_or_else(unsupported)?))
    }

    /// Returns the entry of the tensor `name`, which must have the given shape.
    pub(crate) fn shaped(&self, name: &str, shape: &[u64]) -> Result<&TensorInfo, Kind> {
        let tensor = || name.to_owned();
        let info = self.tensor(name).ok_or_else(|| Kind::MissingTensor { tensor: tensor() })?;
        if info.shape == shape {
            return Ok(info);
        }
        Err(Kind::Shape { tensor: tensor(), given: info.shape.clone(), expected: shape.to_vec() })
    }

    /// Returns the maps of all files that contain tensors. [`TensorInfo::file`] is the index of a
    /// file.
    pub(crate) fn maps(&self) -> &[Arc<FileMap>] {
        match self {
            Self::Gguf(file) => file.maps(),
            Self::Safetensors(model) => model.maps(),
        }
    }

    /// Returns the map of the file that contains a tensor.
    pub(crate) fn map(&self, tensor: &TensorInfo) -> &Arc<FileMap> {
        &self.maps()[tensor.file]
    }

    pub(crate) fn bytes(&self, tensor: &TensorInfo) -> &[u8] {
        &self.map(tensor)[tensor.offset..tensor.offset + tensor.byte_len]
    }

    /// Adds the path of a file to an error.
    ///
    /// If the error concerns an existing tensor, this is the path of the tensor's file. If a tensor
    /// is missing, this is the path of the checkpoint. Other errors of safetensors get the path of
    /// the `config.json`.
    pub(crate) fn error(&self, kind: Kind) -> LoadError {
        let file = kind.tensor().and_then(|name| self.tensor(name)).map(|tensor| self.map(tensor).path());
        match (file, self) {
            (Some(file), _) => LoadError::new(file, kind),
            (None, Self::Safetensors(model))
                if !matches!(kind, Kind::MissingTensor { .. } | Kind::VocabularyOnly) =>
            {
                LoadError::new(&model.config_path(), kind)
            }
            _ => LoadError::new(self.path(), kind),
        }
    }
}
