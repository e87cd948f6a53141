use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::{fmt, io};

use candle_core::DeviceLocation;
use formwork_kernels::Team;
use formwork_lm::{LanguageModel, ModelError};
use formwork_vocab::{TokenId, Tokenizer};

use crate::borrowed;
use crate::checkpoint::Checkpoint;
use crate::decoder;
use crate::error::Kind;
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
    /// How many threads compute on the CPU; as many as it has cores that this process may use where `None`. What candle computes
    /// has rayon's threads.
    pub threads: Option<NonZeroUsize>,
}

impl OpenOptions {
    /// The most [`OpenOptions::threads`].
    pub const MOST_THREADS: NonZeroUsize = Team::MOST;

    /// The threads that compute.
    fn team(self) -> io::Result<Team> {
        let cores = || {
            // Two threads of one core have one set of vector units.
            let cores = NonZeroUsize::new(num_cpus::get_physical()).unwrap_or(NonZeroUsize::MIN);
            available_parallelism().map_or(cores, |available| available.min(cores))
        };
        Team::new(self.threads.unwrap_or_else(cores))
    }
}

/// Whose code a model's layers are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Definition {
    /// Formwork's: a [`ModelSpec`] tells what to compute.
    Own,
    /// A model of `candle-transformers`: slower, a sequence at a time, and without conversion on load.
    Candle,
}

impl Definition {
    /// What a checkpoint would run with.
    ///
    /// # Errors
    /// When nothing can run it, or a field is missing or wrong.
    pub fn of(checkpoint: &Checkpoint) -> Result<Self, LoadError> {
        let found = match ModelSpec::of_known(checkpoint) {
            Ok(_) => Ok(Self::Own),
            Err(unknown @ Kind::Architecture { .. }) => {
                borrowed::Network::check(checkpoint, unknown).map(|()| Self::Candle)
            }
            Err(error) => Err(error),
        };
        found.map_err(|kind| checkpoint.error(kind))
    }
}

/// What computes.
#[derive(Clone)]
enum Backend {
    Cpu(Arc<decoder::Network>),
    Tensors(Arc<tensors::Network>),
    Borrowed(Arc<borrowed::Network>),
}

fn named(device: &candle_core::Device, on_cpu: &str) -> String {
    match device.location() {
        DeviceLocation::Cpu => on_cpu.to_owned(),
        DeviceLocation::Cuda { gpu_id } => format!("cuda:{gpu_id}"),
        DeviceLocation::Metal { .. } => "metal".to_owned(),
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu(_) => "Cpu",
            Self::Tensors(_) => "Tensors",
            Self::Borrowed(_) => "Borrowed",
        })
    }
}

/// A model, opened and checked, ready to compute with.
///
/// Opening maps the files, reads their directories, and copies the weights, for the CPU in the order of its kernels; of an embedding
/// that is no head as well, rows are read when they are asked for.
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
    /// When a file cannot be read or is broken, the architecture is unknown, a key or tensor is missing or of the wrong shape,
    /// or the device is not there, not in this build, or too small. The message names the file and the place.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self, LoadError> {
        Self::from_checkpoint(Checkpoint::open(path)?, options)
    }

    /// A model from a checkpoint that is already open.
    ///
    /// # Errors
    /// As for [`Model::open`].
    pub fn from_checkpoint(checkpoint: Checkpoint, options: OpenOptions) -> Result<Self, LoadError> {
        let device = options.device.tensors().map_err(|kind| LoadError::new(checkpoint.path(), kind))?;
        let spec = match ModelSpec::of_known(&checkpoint) {
            Err(unknown @ Kind::Architecture { .. }) => {
                let check = borrowed::Network::check(&checkpoint, unknown);
                check.map_err(|kind| checkpoint.error(kind))?;
                return Self::borrowed(checkpoint, options, device);
            }
            spec => spec.map_err(|kind| checkpoint.error(kind))?,
        };
        let weights = Weights::bind(&checkpoint, &spec, options.quantize)?;
        // What was converted is not read again.
        if options.quantize.is_none() {
            for map in checkpoint.maps() {
                map.will_need();
            }
        }
        let context = options.context.map_or(spec.context, |wanted| wanted.min(spec.context));
        let backend = match device {
            None => {
                let team = options.team();
                let network = team.and_then(|team| decoder::Network::new(spec, weights, context, team));
                Backend::Cpu(Arc::new(network.map_err(|error| LoadError::new(checkpoint.path(), error))?))
            }
            Some(device) => {
                let network = tensors::Network::new(spec, &weights, context, device).map_err(|error| {
                    let kind = Kind::Device { device: options.device, error: Box::new(error) };
                    LoadError::new(checkpoint.path(), kind)
                });
                Backend::Tensors(Arc::new(network?))
            }
        };
        Ok(Self { checkpoint, backend, context })
    }

    /// A model of an architecture that only candle's own models have.
    fn borrowed(
        checkpoint: Checkpoint,
        options: OpenOptions,
        device: Option<candle_core::Device>,
    ) -> Result<Self, LoadError> {
        if options.quantize.is_some() {
            return Err(checkpoint.error(Kind::BorrowedQuantize));
        }
        let device = device.unwrap_or(candle_core::Device::Cpu);
        let network = borrowed::Network::open(&checkpoint, device).map_err(|kind| checkpoint.error(kind))?;
        let trained = network.context();
        let context = options.context.map_or(trained, |wanted| wanted.min(trained));
        Ok(Self { checkpoint, backend: Backend::Borrowed(Arc::new(network)), context })
    }

    /// Where the model computes: `cpu`, `cuda:N`, `metal` or `reference`; `candle` on the CPU by one of candle's models.
    pub fn computes_on(&self) -> String {
        match &self.backend {
            Backend::Cpu(_) => "cpu".to_owned(),
            Backend::Tensors(network) => named(network.device(), "reference"),
            Backend::Borrowed(network) => named(network.device(), "candle"),
        }
    }

    /// How many threads compute what is computed on the CPU.
    pub fn threads(&self) -> usize {
        match &self.backend {
            Backend::Cpu(network) => network.threads(),
            Backend::Tensors(_) | Backend::Borrowed(_) => rayon::current_num_threads(),
        }
    }

    /// Reads the weights that every token takes whose logits are all computed, with as many threads as compute, and does nothing else: what
    /// decoding one token after the other may be compared with. Gives how many bytes they are; `None` where nothing was read, because the
    /// weights are not in memory of our own, or a token takes only some of them, as with experts.
    pub fn read_weights(&self) -> Option<usize> {
        match &self.backend {
            Backend::Cpu(network) if network.spec().experts.is_none() => Some(network.read_weights()),
            _ => None,
        }
    }

    /// A decoder over the model's weights. Decoders share the weights and nothing else.
    pub fn language_model(&self) -> Box<dyn LanguageModel> {
        match &self.backend {
            Backend::Cpu(network) => Box::new(decoder::Decoder::new(Arc::clone(network), self.context)),
            Backend::Tensors(network) => Box::new(tensors::Decoder::new(Arc::clone(network), self.context)),
            Backend::Borrowed(network) => Box::new(borrowed::Decoder::new(Arc::clone(network), self.context)),
        }
    }

    /// The files, for their metadata and tensors.
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The model's shape; `None` where one of candle's own models computes.
    pub fn spec(&self) -> Option<&ModelSpec> {
        match &self.backend {
            Backend::Cpu(network) => Some(network.spec()),
            Backend::Tensors(network) => Some(network.spec()),
            Backend::Borrowed(_) => None,
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
    /// When a token is outside the vocabulary, or one of candle's own models computes, which do not show them.
    pub fn hidden_states(&self, tokens: &[TokenId]) -> Result<Vec<Vec<f32>>, ModelError> {
        match &self.backend {
            Backend::Cpu(network) => network.hidden_states(tokens),
            Backend::Tensors(network) => network.hidden_states(tokens),
            Backend::Borrowed(_) => Err(ModelError::backend("candle's own models do not show them")),
        }
    }
}
