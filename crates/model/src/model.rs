use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::SystemTime;
use std::{fmt, io};

use formwork_kernels::Team;
use formwork_lm::{Batch, ChatTemplate, LanguageModel, ModelError, Role, Run, TemplateError, Wanted};
use formwork_vocab::{TokenId, Tokenizer};

use crate::adapter::AdapterFile;
use crate::backend::{Adapters, Backend, StepTime};
use crate::candle;
use crate::checkpoint::Checkpoint;
use crate::cpu;
use crate::error::Kind;
use crate::gpu;
use crate::memory::MemoryUse;
use crate::spec::ModelSpec;
use crate::weights::{Purpose, Quantization, StoredMethod, Weights};
use crate::{Device, GpuLayers, GpuNumber, LoadError};

/// Options for opening a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// Maximum number of tokens of a sequence, prompt and output together. The default and upper
    /// limit is the length that the model was trained for. With [`OpenOptions::memory`], the default
    /// is less if that length does not fit.
    ///
    /// For some models, this length also determines the rotary frequencies
    /// ([`LongFactors`](crate::spec::LongFactors)).
    pub context: Option<usize>,
    /// Type to which float matrices are converted when the model is loaded. `None` keeps their
    /// type.
    pub quantize: Option<Quantization>,
    /// Device that computes the model.
    pub device: Device,
    /// Number of compute threads on the CPU. The default is the number of physical cores that this
    /// process may use.
    ///
    /// candle's back ends ignore this option and use rayon's global thread pool.
    pub threads: Option<NonZeroUsize>,
    /// Maximum size in bytes of the copies of recurrent states that a decoder keeps, so that
    /// sequences can be cut without computing them again. The default is 1 GiB. The states of
    /// sequences in use come on top. Models without such states ignore this option.
    pub state_bytes: Option<usize>,
    /// Layers that a GPU with Formwork's own kernels computes. The CPU computes the others. The default is
    /// [`GpuLayers::Auto`] for the device [`Device::Auto`], and otherwise [`GpuLayers::All`].
    pub gpu_layers: Option<GpuLayers>,
    /// Number of first mixtures of experts that the CPU computes although a GPU computes the rest of their
    /// layers. A token needs only few of the experts, so they take much memory and little time. The default
    /// for [`GpuLayers::Auto`] is the least number with which the rest fits, and otherwise 0.
    pub cpu_experts: Option<usize>,
    /// Memory in bytes of each GPU for [`GpuLayers::Auto`]. The default is what the driver reports.
    pub gpu_memory: Option<u64>,
    /// Type in which the CPU keeps the keys and values of sequences.
    pub kv_cache: KvCacheType,
    /// True to load the model's own head for drafts, if it has one (multi-token prediction, MTP). The
    /// head takes the memory of a layer, and prompts take as much more time as a layer does. Only the
    /// native CPU kernels support it.
    pub draft_head: bool,
    /// Memory in bytes that the model and one sequence of full length may take on the CPU
    /// ([`MemoryUse::with_context`]). A model that takes more is not opened. `None` means no limit.
    /// candle's own models and models on GPUs ignore this option. For a model that is divided, the limit is for
    /// the part on the CPU.
    pub memory: Option<usize>,
}

/// Type in which keys and values are kept in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KvCacheType {
    /// 16 bits, or 32 bits if the weights that keys and values are computed with are floats of 32
    /// bits.
    #[default]
    Auto,
    /// 8 bits, with a factor for every 32 elements: about half the memory of 16 bits. Only the native
    /// CPU kernels support it.
    Q8,
}

impl OpenOptions {
    /// Upper limit of [`OpenOptions::threads`].
    pub const MOST_THREADS: NonZeroUsize = Team::MOST;

    /// Removes from a specification what will not be loaded.
    pub(crate) fn adjusted(self, mut spec: ModelSpec) -> ModelSpec {
        spec.draft_head = spec.draft_head.filter(|_| self.draft_head);
        spec
    }

    /// Starts the compute threads for the native CPU kernels.
    pub(crate) fn team(self) -> io::Result<Arc<Team>> {
        let cores = || {
            // Two hardware threads of one core share its vector units, so only physical cores
            // count.
            let cores = NonZeroUsize::new(num_cpus::get_physical()).unwrap_or(NonZeroUsize::MIN);
            available_parallelism().map_or(cores, |available| available.min(cores))
        };
        Team::new(self.threads.unwrap_or_else(cores)).map(Arc::new)
    }
}

/// Implementation of a model's layers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Definition {
    /// Formwork's own decoder, described by a [`ModelSpec`].
    Own,
    /// A model of `candle-transformers`. It is slower, computes one sequence at a time and cannot
    /// convert weights on load.
    Candle,
}

impl Definition {
    /// Returns the implementation that a checkpoint would run with.
    ///
    /// # Errors
    /// Returns an error if no implementation supports the architecture, or if a hyperparameter is
    /// missing or invalid.
    pub fn of(checkpoint: &Checkpoint) -> Result<Self, LoadError> {
        let found = match ModelSpec::of_known(checkpoint) {
            Ok(_) => StoredMethod::of(checkpoint).map(|_| Self::Own),
            Err(unknown @ Kind::Architecture { .. }) => {
                candle::check_model(checkpoint, unknown).map(|()| Self::Candle)
            }
            Err(error) => Err(error),
        };
        found.map_err(|kind| checkpoint.error(kind))
    }
}

/// An open and validated model.
///
/// Opening a model maps its files, reads their directories and copies the weights. On the CPU, the
/// copy is packed for the kernels. If the embedding is not also the output head, it stays in the
/// mapped file and its rows are read on demand, unless the embedding is converted.
#[derive(Clone)]
pub struct Model {
    checkpoint: Checkpoint,
    backend: Arc<dyn Backend>,
    context: usize,
    adapters: Adapters,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("checkpoint", &self.checkpoint)
            .field("device", &self.backend.device_name())
            .field("context", &self.context)
            .field("adapters", &self.adapters.names)
            .finish()
    }
}

/// Least context that a limit of the memory leaves to a model whose context is not given.
const LEAST_CONTEXT: usize = 512;

/// Returns the number of tokens of a sequence that fit in `limit` bytes, at most `context`.
///
/// # Errors
/// Returns an error if the given context does not fit, or if too small a context would fit.
fn fitting(needed: MemoryUse, (context, is_given): (usize, bool), limit: usize) -> Result<usize, Kind> {
    let fits = needed.context_within(limit).map_or(0, |fits| fits.min(context));
    let least = if is_given { context } else { context.min(LEAST_CONTEXT) };
    if fits >= least {
        return Ok(fits);
    }
    let total = needed.with_context(least);
    Err(Kind::Memory { needed, context: least, total, limit, fits })
}

impl Model {
    /// Opens a GGUF file or a folder of safetensors, as [`Checkpoint::open`] does.
    ///
    /// # Errors
    /// Returns an error in any of the cases below. The message names the file and the place.
    ///
    /// - A file cannot be read or is malformed.
    /// - The architecture is unknown.
    /// - A hyperparameter or tensor is missing, or a tensor has the wrong shape.
    /// - The device is absent, not supported by this build, or out of memory.
    /// - The model does not fit in [`OpenOptions::memory`].
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self, LoadError> {
        Self::from_checkpoint(Checkpoint::open(path)?, options)
    }

    /// Creates a model from an open checkpoint.
    ///
    /// # Errors
    /// Returns an error in the cases of [`Model::open`].
    pub fn from_checkpoint(checkpoint: Checkpoint, options: OpenOptions) -> Result<Self, LoadError> {
        Self::opened(checkpoint, options, false)
    }

    /// Opens a model. `is_found` is true if nobody asked for the GPU of the options.
    fn opened(checkpoint: Checkpoint, options: OpenOptions, is_found: bool) -> Result<Self, LoadError> {
        let device =
            candle::device(options.device).map_err(|kind| LoadError::new(checkpoint.path(), kind))?;
        if options.device == Device::Auto
            && device.is_none()
            && let Some(model) = Self::on_found_gpu(&checkpoint, options)
        {
            return Ok(model);
        }
        let numbers: Vec<GpuNumber> = match options.device {
            Device::Gpu(number) => vec![number],
            Device::Gpus(list) => list.iter().collect(),
            device if matches!(options.gpu_layers, Some(GpuLayers::Count(_))) => {
                return Err(LoadError::new(checkpoint.path(), Kind::GpuLayers { device }));
            }
            device if options.cpu_experts.is_some_and(|count| count > 0) => {
                return Err(LoadError::new(checkpoint.path(), Kind::CpuExperts { device }));
            }
            _ => Vec::new(),
        };
        let open = |number: GpuNumber| Ok((number, gpu::device(number)?));
        let gpus: Result<Vec<_>, Kind> = numbers.into_iter().map(open).collect();
        let gpus = gpus.map_err(|kind| LoadError::new(checkpoint.path(), kind))?;
        let spec = match ModelSpec::of_known(&checkpoint) {
            Err(unknown @ Kind::Architecture { .. }) => {
                candle::check_model(&checkpoint, unknown).map_err(|kind| checkpoint.error(kind))?;
                return Self::with_candle_model(checkpoint, options, device);
            }
            spec => options.adjusted(spec.map_err(|kind| checkpoint.error(kind))?),
        };
        // Without a request for a GPU, what no GPU computes runs on the CPU.
        let device = device.filter(|_| options.device != Device::Auto || !spec.is_native_only());
        let is_native = device.is_none() && gpus.is_empty();
        if !gpus.is_empty() {
            gpu::check(&spec).map_err(|kind| LoadError::new(checkpoint.path(), kind))?;
        }
        let mut spec = ModelSpec { draft_head: spec.draft_head.filter(|_| is_native), ..spec };
        let wanted = options.context.map_or(spec.context, |wanted| wanted.min(spec.context));
        let context = match options.memory.filter(|_| is_native) {
            None => wanted,
            Some(limit) => {
                let is_given = options.context.is_some();
                let fits = |options: OpenOptions| {
                    let needed = MemoryUse::of(&checkpoint, options)?;
                    fitting(needed, (wanted, is_given), limit).map_err(|kind| checkpoint.error(kind))
                };
                match fits(options) {
                    // The model may fit without its head for drafts.
                    Err(_) if spec.draft_head.is_some() => {
                        spec.draft_head = None;
                        fits(OpenOptions { draft_head: false, ..options })?
                    }
                    fits => fits?,
                }
            }
        };
        if !is_native && options.kv_cache != KvCacheType::Auto {
            return Err(checkpoint.error(Kind::KvCacheDevice));
        }
        let weights = Weights::bind(&checkpoint, &spec, options.quantize, Purpose::Compute)?;
        // Conversion has already read the weights, so read-ahead is useful only without it.
        if options.quantize.is_none() {
            for map in checkpoint.maps() {
                map.will_need();
            }
        }
        let backend = match device {
            _ if !gpus.is_empty() => {
                let request = gpu::Request { context, options, is_found };
                let opened = gpu::open(spec, weights, request, gpus);
                let opened = opened.map_err(|kind| LoadError::new(checkpoint.path(), kind));
                let (backend, context) = opened?;
                return Ok(Self { checkpoint, backend, context, adapters: Adapters::default() });
            }
            None => {
                let network =
                    options.team().and_then(|team| cpu::Network::new(spec, weights, (wanted, options), team));
                network.map(|network| Arc::new(network) as Arc<dyn Backend>).map_err(Kind::from)
            }
            Some(device) => candle::open(spec, &weights, context, (options.device, device)),
        };
        let backend = backend.map_err(|kind| LoadError::new(checkpoint.path(), kind))?;
        Ok(Self { checkpoint, backend, context, adapters: Adapters::default() })
    }

    /// Opens a model on the first GPU that may be faster than the CPU. The layers that do not fit are left to
    /// the CPU. Returns `None` if there is no such GPU, if it cannot be used, or if the CPU takes less time.
    fn on_found_gpu(checkpoint: &Checkpoint, options: OpenOptions) -> Option<Self> {
        let device = gpu::found().filter(|_| options.kv_cache == KvCacheType::Auto)?;
        let supported = ModelSpec::of_known(checkpoint).and_then(|spec| gpu::check(&spec));
        if let Err(reason) = supported {
            tracing::debug!(%device, %reason, "computing on the CPU");
            return None;
        }
        let opened = Self::opened(checkpoint.clone(), OpenOptions { device, ..options }, true);
        let error: Box<dyn std::error::Error> = match opened {
            Ok(model) => match model.is_usable() {
                Ok(true) => return Some(model),
                Ok(false) => "its results are not reliable".into(),
                Err(error) => error.into(),
            },
            Err(error) if gpu::is_slower(error.kind()) => {
                tracing::info!(%device, %error, "computing on the CPU");
                return None;
            }
            Err(error) => error.into(),
        };
        tracing::warn!(%device, error, "cannot use the device; computing on the CPU");
        None
    }

    /// Computes two tokens. Reports whether the results are finite, and independent of other requests.
    fn is_usable(&self) -> Result<bool, ModelError> {
        let mut model = self.language_model();
        let (sequence, tokens) = (model.open(), &[TokenId(0)]);
        let mut is_finite = true;
        for role in [Role::Prompt, Role::Generated] {
            let runs = vec![Run { sequence, tokens, role, wanted: Wanted::All }];
            is_finite &= model.forward(&Batch { runs })?.row(0).iter().all(|logit| logit.is_finite());
        }
        Ok(is_finite && model.is_batch_invariant())
    }

    /// Opens a model that only candle's own models support. A `device` of `None` is the CPU.
    fn with_candle_model(
        checkpoint: Checkpoint,
        options: OpenOptions,
        device: Option<candle::TensorDevice>,
    ) -> Result<Self, LoadError> {
        if matches!(options.device, Device::Gpu(_) | Device::Gpus(_)) {
            return Err(checkpoint.error(Kind::GpuCandle { device: options.device }));
        }
        if options.quantize.is_some() {
            return Err(checkpoint.error(Kind::CandleModelQuantize));
        }
        if options.kv_cache != KvCacheType::Auto {
            return Err(checkpoint.error(Kind::KvCacheDevice));
        }
        let opened = candle::open_model(&checkpoint, device);
        let (backend, trained) = opened.map_err(|kind| checkpoint.error(kind))?;
        let context = options.context.map_or(trained, |wanted| wanted.min(trained));
        Ok(Self { checkpoint, backend, context, adapters: Adapters::default() })
    }

    /// Returns the name of the device: `cpu`, `gpu:N`, `gpu:cpu`, `cuda:N`, `metal` or `reference`. The name is
    /// `candle` if one of candle's own models runs on the CPU. Several devices have their numbers of layers:
    /// `gpu:0 (20 layers), cpu (12 layers)`, or `gpu:0, cpu (experts of 12 layers)`.
    pub fn computes_on(&self) -> String {
        self.backend.device_name()
    }

    /// Returns the number of threads that compute on the CPU.
    pub fn threads(&self) -> usize {
        self.backend.threads()
    }

    /// Reads all packed weights once, with all compute threads, and returns their size in bytes.
    ///
    /// A benchmark can compare the time of this read with the time of decoding a token, which reads
    /// the same weights. Returns `None` without reading anything if the model does not use the
    /// native CPU kernels. Also returns `None` for a mixture of experts, because a token then reads
    /// only some of the weights.
    pub fn read_weights(&self) -> Option<usize> {
        self.backend.read_weights()
    }

    /// Measures the steps of a forward pass of `tokens` tokens after `position` others of their
    /// sequence, by the clock of the device. Blocks that the CPU computes are not measured.
    ///
    /// # Errors
    /// Returns an error if the model does not run on Formwork's kernels for GPUs, or if the device
    /// fails.
    pub fn step_times(&self, tokens: usize, position: usize) -> Result<Vec<StepTime>, ModelError> {
        self.backend.step_times(tokens, position)
    }

    /// Creates a decoder. All decoders of a model share its weights but no other state.
    pub fn language_model(&self) -> Box<dyn LanguageModel> {
        Arc::clone(&self.backend).decoder(self.context, self.adapters.clone())
    }

    /// Adds a LoRA adapter called `name`, which sequences of later decoders can use
    /// ([`LanguageModel::open_with`]). The effect of the adapter is multiplied by `scale`.
    ///
    /// # Errors
    /// Returns an error if a tensor of the adapter does not fit the model, or if the model does not run on
    /// the native CPU kernels.
    pub fn add_adapter(
        &mut self,
        name: impl Into<String>,
        file: &AdapterFile,
        scale: f32,
    ) -> Result<(), LoadError> {
        let bound = self.backend.bind(file, &self.checkpoint, scale).map_err(|kind| file.error(kind))?;
        self.adapters.names.push(name.into());
        self.adapters.bound.push(Arc::new(bound));
        Ok(())
    }

    /// Returns the size in bytes of all adapters in memory.
    pub fn adapter_bytes(&self) -> usize {
        self.adapters.bound.iter().map(|adapter| adapter.bytes()).sum()
    }

    /// Returns the checkpoint that the model was opened from, with its metadata and tensors.
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Returns the model's specification, or `None` for one of candle's own models.
    pub fn spec(&self) -> Option<&ModelSpec> {
        self.backend.spec()
    }

    /// Returns the maximum number of tokens of a sequence.
    pub const fn context_len(&self) -> usize {
        self.context
    }

    /// Returns the model's name, as [`Checkpoint::name`] does.
    pub fn name(&self) -> String {
        self.checkpoint.name()
    }

    /// Creates the model's tokenizer.
    ///
    /// # Errors
    /// Returns an error if a field is missing or has the wrong type, or if the fields do not define
    /// a valid tokenizer.
    pub fn tokenizer(&self) -> Result<Tokenizer, LoadError> {
        self.checkpoint.tokenizer()
    }

    /// Returns the source of the chat template, if the checkpoint has one.
    pub fn chat_template(&self) -> Option<&str> {
        self.checkpoint.chat_template()
    }

    /// Compiles the chat template, with the texts of the tokens that start and end a sequence. A
    /// base model without a template gets a [`PlainTemplate`](crate::template::PlainTemplate).
    ///
    /// `now` is the time for templates that write the date. With `None` the date is fixed, so equal
    /// messages give equal prompts ([`JinjaTemplate`](crate::template::JinjaTemplate)).
    ///
    /// # Errors
    /// Returns an error if the source is larger than 1 MiB or is not a valid template.
    pub fn compile_template(
        &self,
        tokenizer: &Tokenizer,
        now: Option<SystemTime>,
    ) -> Result<Arc<dyn ChatTemplate>, TemplateError> {
        self.checkpoint.compile_template(tokenizer, now)
    }

    /// Returns the number of weights.
    pub fn parameters(&self) -> u64 {
        self.checkpoint.parameters()
    }

    /// Computes the residual stream of `tokens` as it enters the first layer and as it leaves each
    /// layer.
    ///
    /// Element 0 of the result is the input of the first layer, and element `i` the output of layer
    /// `i - 1`. The shape of each element is `[tokens, hidden]`. Tests use the result to compare a
    /// model with a reference implementation layer by layer.
    ///
    /// # Errors
    /// Returns an error if a token is outside the vocabulary, or if the architecture runs on one of
    /// candle's own models.
    pub fn hidden_states(&self, tokens: &[TokenId]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.backend.hidden_states(tokens)
    }
}
