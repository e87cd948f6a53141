use std::path::{Path, PathBuf};
#[cfg(feature = "gpu")]
use std::time::Duration;
use std::{fmt, io};

use thiserror::Error;

use crate::Device;
use crate::memory::{MemoryUse, bytes};

/// Error from opening a model file. The message starts with the file's path.
#[derive(Debug)]
pub struct LoadError {
    path: PathBuf,
    kind: Kind,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.kind)
    }
}

impl std::error::Error for LoadError {
    /// Returns the cause of the error, for example an I/O error. The message of this error does not
    /// contain the message of the cause.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.kind.source()
    }
}

impl LoadError {
    pub(crate) fn new(path: &Path, kind: impl Into<Kind>) -> Self {
        Self { path: path.to_owned(), kind: kind.into() }
    }

    pub(crate) const fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Returns the path of the file or folder that could not be opened.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[derive(Debug, Error)]
pub(crate) enum Kind {
    #[error("cannot be read")]
    Io(#[from] io::Error),
    #[error(
        "a context of {context} tokens takes {}, but {} are free ({needed}){}",
        bytes(*total),
        bytes(*limit),
        if *fits == 0 { String::new() } else { format!("; {fits} tokens fit") }
    )]
    Memory { needed: MemoryUse, context: usize, total: usize, limit: usize, fits: usize },
    #[error("the file is empty")]
    Empty,
    #[error("not a GGUF file: it starts with {given:02x?}")]
    Magic { given: Vec<u8> },
    #[error("unsupported GGUF version {given}; expected 2 or 3{}", endian_hint(*given))]
    Version { given: u32 },
    #[error("the file ends at offset {limit} inside {what} at offset {at}")]
    Truncated { what: &'static str, at: usize, limit: usize },
    #[error("{given} {what} declared at offset {at}, but the rest of the file holds at most {limit}")]
    Count { what: &'static str, given: u64, limit: u64, at: usize },
    #[error("{what} at offset {at} is not UTF-8")]
    Utf8 { what: &'static str, at: usize },
    #[error("metadata key {key:?} at offset {at} has the unknown value type {given}")]
    ValueType { key: String, given: u32, at: usize },
    #[error("metadata key {key:?} at offset {at} holds an array of arrays, which is not supported")]
    NestedArray { key: String, at: usize },
    #[error("metadata key {key:?} occurs a second time at offset {at}")]
    DuplicateKey { key: String, at: usize },
    #[error("tensor {tensor:?} occurs a second time at offset {at}")]
    DuplicateTensor { tensor: String, at: usize },
    #[error("general.alignment is {given}; expected a power of two between 8 and 65536")]
    Alignment { given: u64 },
    #[error("tensor {tensor:?} at offset {at} has {given} dimensions, more than the limit of {limit}")]
    Rank { tensor: String, given: u32, limit: u32, at: usize },
    #[error("tensor {tensor:?} at offset {at} has the invalid shape {shape:?}")]
    ImpossibleShape { tensor: String, shape: Vec<u64>, at: usize },
    #[error("tensor {tensor:?} at offset {at} has the unknown type {given}")]
    TensorType { tensor: String, given: u32, at: usize },
    #[error(
        "tensor {tensor:?} has rows of {given} elements; expected a multiple of {limit}, the size of a {dtype} block"
    )]
    RowLength { tensor: String, given: u64, limit: u64, dtype: &'static str },
    #[error(
        "tensor {tensor:?} starts at data offset {given}, which is not a multiple of the alignment {limit}"
    )]
    TensorAlignment { tensor: String, given: u64, limit: u64 },
    #[error("tensor {tensor:?} takes {len} bytes from offset {at}, past the end of the file at {limit}")]
    TensorOutside { tensor: String, at: u64, len: u64, limit: u64 },
    #[error("tensors {first:?} and {second:?} overlap at offset {at}")]
    Overlap { first: String, second: String, at: u64 },
    #[error("metadata key {key:?} is missing")]
    MissingKey { key: String },
    #[error("metadata key {key:?} holds {given}, expected {expected}")]
    KeyType { key: String, given: &'static str, expected: &'static str },
    #[error("metadata key {key:?} is {given}: {rule}")]
    KeyValue { key: String, given: String, rule: &'static str },
    #[error("the module {module} is missing")]
    MissingModule { module: &'static str },
    #[error("the tokenizer has no token for the answer {answer:?} of a reranker")]
    NoAnswer { answer: &'static str },
    #[error("tensor {tensor:?} is missing")]
    MissingTensor { tensor: String },
    #[error("tensor {tensor:?} has shape {given:?}, expected {expected:?}")]
    Shape { tensor: String, given: Vec<u64>, expected: Vec<u64> },
    #[error("tensor {tensor:?} has type {given}, which this build does not support")]
    UnsupportedType { tensor: String, given: &'static str },
    #[error("unsupported architecture {given:?}; expected one of {}{}", known.join(", "), more_architectures())]
    Architecture { given: String, known: Vec<&'static str> },
    #[cfg(feature = "candle")]
    #[error("the architecture {architecture:?} runs on the CPU only; use the device `cpu`")]
    NativeOnly { architecture: String },
    #[error("tensor {tensor:?} has {given} at index {index}; expected a factor above 0")]
    RopeFactor { tensor: String, index: usize, given: f32 },
    #[error("tensor {tensor:?} has {given} at index {index}; expected a finite scale that is not negative")]
    Scale { tensor: String, index: usize, given: f32 },
    #[error("tensor {tensor:?} has {given} groups for rows of {columns} elements; expected a divisor")]
    Groups { tensor: String, given: usize, columns: usize },
    #[error("tensor {tensor:?} has group {given} at index {index}; expected a group below {limit}")]
    GroupIndex { tensor: String, index: usize, given: i32, limit: usize },
    #[error("tensor {tensor:?} has an element that is not finite")]
    NotFinite { tensor: String },
    #[error("this is part {index} of {count}; open the first part, {first}")]
    NotFirstPart { index: u64, count: u64, first: String },
    #[error(
        "the first of {count} parts must be named NAME-00001-of-{count:05}.gguf, so that the others can be found"
    )]
    PartName { count: u64 },
    #[error("not part {index} of {count} of the same file")]
    OtherPart { index: u64, count: u64 },
    #[error("the parts have {given} tensors, but split.tensors.count is {expected}")]
    PartTensors { given: u64, expected: u64 },
    #[error("invalid or unexpected JSON")]
    Json(#[source] serde_json::Error),
    #[error("not part of the model in this folder; to open the model, give the path of the folder")]
    OtherFile,
    #[error("the header takes {given} bytes, more than the limit of {limit}")]
    HeaderLength { given: usize, limit: usize },
    #[error("invalid entry of tensor {tensor:?}")]
    Entry {
        tensor: String,
        #[source]
        error: serde_json::Error,
    },
    #[error("tensor {tensor:?} at offset {at} has the unknown type {given:?}")]
    DtypeName { tensor: String, given: String, at: u64 },
    #[error(
        "tensor {tensor:?} has data bytes {from} to {to}, but its type and shape require {expected} bytes"
    )]
    ByteCount { tensor: String, from: u64, to: u64, expected: u64 },
    #[error("{given:?} is not the name of a file in the same folder")]
    ShardName { given: String },
    #[error("tensor {tensor:?} is not in {file}")]
    NotInShard { tensor: String, file: String },
    #[error("tensor {tensor:?} cannot be applied: {reason}")]
    AdapterTensor { tensor: String, reason: &'static str },
    #[error("tensor {tensor:?} changes no matrix of the model, whose architecture is {architecture:?}")]
    UnmatchedTensor { tensor: String, architecture: String },
    #[error("the adapter is for the architecture {given:?}, but the model's is {expected:?}")]
    AdapterArchitecture { given: String, expected: String },
    #[error("adapters are computed on the CPU only; use the device `cpu`")]
    AdapterDevice,
    #[error("keys and values of 8 bits are supported on the CPU only, and not by candle's own models")]
    KvCacheDevice,
    #[error("adapters of models that attend to the whole text are not supported")]
    AdapterEncoder,
    #[error("the file holds no tensors, only metadata")]
    VocabularyOnly,
    #[cfg(feature = "candle")]
    #[error("the device {device} cannot be used")]
    Device {
        device: Device,
        #[source]
        error: Box<candle_core::Error>,
    },
    #[cfg(feature = "gpu")]
    #[error("the device {device} cannot be used")]
    Gpu {
        device: Device,
        #[source]
        error: formwork_gpu::GpuError,
    },
    #[cfg(feature = "gpu")]
    #[error(
        "the kernels for GPUs do not support {part} (architecture {architecture:?}); use the device `cpu`"
    )]
    GpuModel { architecture: String, part: &'static str },
    #[cfg(feature = "gpu")]
    #[error("the first layers cannot be tried on the device {device} and on the CPU")]
    GpuTrial {
        device: Device,
        #[source]
        error: formwork_lm::ModelError,
    },
    #[cfg(feature = "gpu")]
    #[error("the results of the GPU differ from those of the CPU")]
    GpuDiffers,
    #[cfg(feature = "gpu")]
    #[error(
        "the GPU takes {} ms for the first layers of a token, and the CPU {} ms",
        milliseconds(gpu),
        milliseconds(cpu)
    )]
    GpuSlower { gpu: Duration, cpu: Duration },
    #[cfg(feature = "gpu")]
    #[error("only {placed} of {layers} layers fit in the memory of the GPU")]
    GpuShare { placed: usize, layers: usize },
    #[error("layers cannot be divided on the device {device}; use the device `gpu`, or `gpu:N`")]
    GpuLayers { device: Device },
    #[error("the device {device} cannot leave experts to the CPU; use the device `gpu`, or `gpu:N`")]
    CpuExperts { device: Device },
    #[error("candle's own models do not run on the device {device}; use the device `cpu`")]
    GpuCandle { device: Device },
    #[error(
        "the device {device} needs a build with the feature {feature:?} (cargo build --features {feature})"
    )]
    DeviceFeature { device: Device, feature: &'static str },
    #[cfg(feature = "candle")]
    #[error("candle's own models cannot read GGUF files in several parts")]
    CandleModelParts,
    #[error("this architecture runs on candle's own model, which cannot quantize weights when loading")]
    CandleModelQuantize,
    #[cfg(feature = "candle")]
    #[error("error in the tensor library")]
    Tensor(#[from] candle_core::Error),
    #[error("cannot build the tokenizer")]
    Tokenizer(#[from] formwork_vocab::VocabError),
}

impl Kind {
    /// Creates the error for a device that failed with `error`.
    #[cfg(feature = "candle")]
    pub(crate) fn device(device: Device, error: candle_core::Error) -> Self {
        Self::Device { device, error: Box::new(error) }
    }

    /// Adds `more` to the list of known architectures, if this is [`Kind::Architecture`].
    #[cfg(feature = "candle")]
    pub(crate) fn with_known(self, more: Vec<&'static str>) -> Self {
        match self {
            Self::Architecture { given, mut known } => {
                known.extend(more);
                known.sort_unstable();
                known.dedup();
                Self::Architecture { given, known }
            }
            other => other,
        }
    }

    /// Returns the name of the tensor whose shape, type or content is wrong, or `None` for other
    /// errors.
    pub(crate) fn tensor(&self) -> Option<&str> {
        match self {
            Self::Shape { tensor, .. }
            | Self::UnsupportedType { tensor, .. }
            | Self::RowLength { tensor, .. }
            | Self::Scale { tensor, .. }
            | Self::Groups { tensor, .. }
            | Self::GroupIndex { tensor, .. }
            | Self::NotFinite { tensor }
            | Self::RopeFactor { tensor, .. } => Some(tensor),
            _ => None,
        }
    }
}

/// Returns the end of the message for an unknown architecture. The text is empty if the feature
/// `candle` is enabled. Otherwise, it says that this feature adds architectures.
const fn more_architectures() -> &'static str {
    if cfg!(feature = "candle") {
        ""
    } else {
        "; the feature \"candle\" adds others (cargo build --features candle)"
    }
}

const fn endian_hint(version: u32) -> &'static str {
    if matches!(version.swap_bytes(), 1..=3) { "; the file is big-endian" } else { "" }
}

/// Returns a time in milliseconds, for messages.
#[cfg(feature = "gpu")]
fn milliseconds(time: &Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 100.0
}
