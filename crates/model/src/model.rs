use std::fmt;
use std::path::Path;
use std::sync::Arc;

use formwork_lm::{LanguageModel, ModelError};
use formwork_vocab::{TokenId, Tokenizer};

use crate::checkpoint::Checkpoint;
use crate::decoder;
use crate::spec::ModelSpec;
use crate::tensors;
use crate::weights::{Quantization, Weights};
use crate::{Device, LoadError};

/// How to open a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// The most tokens that a sequence may hold; what the model was trained for where `None`, and never more than that.
    /// Where rotary frequencies depend on the context ([`LongFactors`](crate::spec::LongFactors)), they are chosen by this.
    pub context: Option<usize>,
    /// What matrices of plain floats are converted to.
    pub quantize: Option<Quantization>,
    /// Where to compute.
    pub device: Device,
}

/// What computes.
#[derive(Clone)]
enum Backend {
    Cpu(Arc<decoder::Network>),
    Tensors(Arc<tensors::Network>),
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu(_) => "Cpu",
            Self::Tensors(_) => "Tensors",
        })
    }
}

/// A model, opened and checked, ready to compute with.
///
/// Opening maps the files and reads their directories; weights are read when they are first used, but for those that are
/// converted.
#[derive(Clone, Debug)]
pub struct Model {
    checkpoint: Checkpoint,
    backend: Backend,
    context: usize,
}

impl Model {
    /// Opens a GGUF file or a folder of safetensors, as [`Checkpoint::open`] does.
    ///
    /// # Errors
    /// When a file cannot be read or is broken, the architecture is unknown, or a key or tensor is missing or of the wrong
    /// shape. The message names the file and the place.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self, LoadError> {
        Self::from_checkpoint(Checkpoint::open(path)?, options)
    }

    /// A model from a checkpoint that is already open.
    ///
    /// # Errors
    /// As for [`Model::open`].
    pub fn from_checkpoint(checkpoint: Checkpoint, options: OpenOptions) -> Result<Self, LoadError> {
        let device = options.device.tensors().map_err(|kind| checkpoint.error(kind))?;
        let spec = ModelSpec::of(&checkpoint)?;
        let weights = Weights::bind(&checkpoint, &spec, options.quantize)?;
        // What was converted is not read again.
        if options.quantize.is_none() {
            for map in checkpoint.maps() {
                map.will_need();
            }
        }
        let context = options.context.map_or(spec.context, |wanted| wanted.min(spec.context));
        let backend = match device {
            None => Backend::Cpu(Arc::new(decoder::Network::new(spec, weights, context))),
            Some(device) => {
                let network = tensors::Network::new(spec, &weights, context, device);
                Backend::Tensors(Arc::new(network.map_err(|error| checkpoint.error(error.into()))?))
            }
        };
        Ok(Self { checkpoint, backend, context })
    }

    /// A decoder over the model's weights. Decoders share the weights and nothing else.
    pub fn language_model(&self) -> Box<dyn LanguageModel> {
        match &self.backend {
            Backend::Cpu(network) => Box::new(decoder::Decoder::new(Arc::clone(network), self.context)),
            Backend::Tensors(network) => Box::new(tensors::Decoder::new(Arc::clone(network), self.context)),
        }
    }

    /// The files, for their metadata and tensors.
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The model's shape.
    pub fn spec(&self) -> &ModelSpec {
        match &self.backend {
            Backend::Cpu(network) => network.spec(),
            Backend::Tensors(network) => network.spec(),
        }
    }

    /// How many tokens a sequence can hold.
    pub const fn context_len(&self) -> usize {
        self.context
    }

    /// The model's name, as [`Checkpoint::name`] gives it.
    pub fn name(&self) -> String {
        self.checkpoint.name()
    }

    /// The model's tokenizer.
    ///
    /// # Errors
    /// When a field is missing or of the wrong type, or the fields do not make a tokenizer.
    pub fn tokenizer(&self) -> Result<Tokenizer, LoadError> {
        self.checkpoint.tokenizer()
    }

    /// The chat template, where there is one.
    pub fn chat_template(&self) -> Option<&str> {
        self.checkpoint.chat_template()
    }

    /// How many weights the model has.
    pub fn parameters(&self) -> u64 {
        self.checkpoint.parameters()
    }

    /// The residual stream of a text as it enters the first layer and as it leaves each, `[tokens, hidden]` every time:
    /// for comparing a model with its reference, layer by layer.
    ///
    /// # Errors
    /// When a token is outside the vocabulary.
    pub fn hidden_states(&self, tokens: &[TokenId]) -> Result<Vec<Vec<f32>>, ModelError> {
        match &self.backend {
            Backend::Cpu(network) => network.hidden_states(tokens),
            Backend::Tensors(network) => network.hidden_states(tokens),
        }
    }
}
