use std::path::Path;
use std::sync::Arc;

use formwork_lm::LanguageModel;
use formwork_vocab::Tokenizer;
use formwork_vocab::tokenizer::GgufTokenizer;

use crate::LoadError;
use crate::decoder::{Decoder, Network};
use crate::gguf::{Gguf, TensorInfo, Value};
use crate::spec::ModelSpec;
use crate::tokenizer::gguf_tokenizer;
use crate::weights::Weights;

/// How to open a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// The most tokens that a sequence may hold; what the model was trained for where `None`, and never more than that.
    pub context: Option<usize>,
}

/// A model file, opened and checked, ready to compute with.
///
/// Opening maps the file and reads its directory; weights are read when they are first used.
#[derive(Clone, Debug)]
pub struct Model {
    file: Gguf,
    network: Arc<Network>,
    context: usize,
}

impl Model {
    /// Opens a GGUF file.
    ///
    /// # Errors
    /// When the file cannot be read or is broken, its architecture is unknown, or a key or tensor is missing or of the
    /// wrong shape. The message names the file and the place.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self, LoadError> {
        Self::from_gguf(Gguf::open(path)?, options)
    }

    /// A model from a file that is already open.
    ///
    /// # Errors
    /// As for [`Model::open`].
    pub fn from_gguf(file: Gguf, options: OpenOptions) -> Result<Self, LoadError> {
        let spec = ModelSpec::from_gguf(&file)?;
        let weights = Weights::bind(&file, &spec)?;
        file.map().will_need();
        let context = options.context.map_or(spec.context, |wanted| wanted.min(spec.context));
        Ok(Self { file, network: Arc::new(Network::new(spec, weights)), context })
    }

    /// A decoder over the model's weights. Decoders share the weights and nothing else.
    pub fn language_model(&self) -> Box<dyn LanguageModel> {
        Box::new(Decoder::new(Arc::clone(&self.network), self.context))
    }

    /// The file, for its metadata and tensors.
    pub const fn file(&self) -> &Gguf {
        &self.file
    }

    /// The model's shape.
    pub fn spec(&self) -> &ModelSpec {
        self.network.spec()
    }

    /// How many tokens a sequence can hold.
    pub const fn context_len(&self) -> usize {
        self.context
    }

    /// The model's name: what the file says, or else the file's name.
    pub fn name(&self) -> String {
        match self.file.value("general.name") {
            Some(Value::String(name)) => name.clone(),
            _ => self.file.path().file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }

    /// The tokenizer's fields, as they are in the file.
    ///
    /// # Errors
    /// When a field is missing or of the wrong type.
    pub fn tokenizer_fields(&self) -> Result<GgufTokenizer, LoadError> {
        gguf_tokenizer(&self.file)
    }

    /// The model's tokenizer.
    ///
    /// # Errors
    /// When a field is missing or of the wrong type, or the fields do not make a tokenizer.
    pub fn tokenizer(&self) -> Result<Tokenizer, LoadError> {
        crate::tokenizer(&self.file)
    }

    /// The chat template in the file, where there is one.
    pub fn chat_template(&self) -> Option<&str> {
        match self.file.value("tokenizer.chat_template") {
            Some(Value::String(template)) => Some(template),
            _ => None,
        }
    }

    /// How many weights the model has.
    pub fn parameters(&self) -> u64 {
        self.file.tensors().iter().map(TensorInfo::elements).sum()
    }
}
