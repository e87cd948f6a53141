//! Architectures that the native decoder does not support, run by the models of
//! `candle-transformers`.
//!
//! Such a model has a single sequence and a cache that only grows. Each sequence here therefore has
//! its own instance of the model. The instances share their weights. If a sequence is truncated,
//! its remaining tokens are computed again.
//!
//! Some of these models compute several tokens at once correctly only with an empty cache. A text
//! is therefore computed in one step from its beginning, and later tokens one by one.

mod architectures;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use candle_core::{DType, Device, Error, Result, Tensor};
use formwork_lm::{Batch, LanguageModel, Logits, ModelError, Role, Run, SequenceId, masked};
use formwork_vocab::TokenId;
use rustc_hash::FxHashMap;

use super::device::name;
use crate::backend::{Adapters, Backend};
use crate::checkpoint::Checkpoint;
use crate::error::Kind;
use crate::spec::ModelSpec;

/// Minimum length of a prompt run, in tokens, for which the whole sequence is computed again in one
/// step. Shorter runs are appended token by token.
const READ_AGAIN: usize = 16;

/// A model of `candle-transformers` with a single sequence.
trait CandleModel: Send {
    /// Appends `tokens`, of shape `[1, tokens]`, and returns the logits after the last one.
    /// `offset` is the number of tokens already in the sequence.
    fn forward(&mut self, tokens: &Tensor, offset: usize) -> Result<Tensor>;
}

/// Function that creates an instance of the model with an empty cache.
type Make = dyn Fn() -> Box<dyn CandleModel> + Send + Sync;

/// State shared by all sequences of a model.
pub(crate) struct Network {
    make: Box<Make>,
    vocabulary: usize,
    /// Number of positions that the model was trained for.
    context: usize,
    device: Device,
}

impl Network {
    /// Opens the model of a checkpoint that passed [`Network::check`].
    pub(crate) fn open(checkpoint: &Checkpoint, device: Device) -> std::result::Result<Self, Kind> {
        architectures::open(checkpoint, device)
    }

    /// Checks that candle has a model for the checkpoint's architecture. Otherwise returns the
    /// error `unknown`, with candle's architectures added to its list.
    pub(crate) fn check(checkpoint: &Checkpoint, unknown: Kind) -> std::result::Result<(), Kind> {
        architectures::check(checkpoint, unknown)
    }

    pub(crate) const fn context(&self) -> usize {
        self.context
    }
}

impl Backend for Network {
    fn device_name(&self) -> String {
        name(&self.device, "candle")
    }

    fn threads(&self) -> usize {
        rayon::current_num_threads()
    }

    fn spec(&self) -> Option<&ModelSpec> {
        None
    }

    fn decoder(self: Arc<Self>, context: usize, _: Adapters) -> Box<dyn LanguageModel> {
        Box::new(Decoder::new(self, context))
    }

    fn hidden_states(&self, _: &[TokenId]) -> std::result::Result<Vec<Vec<f32>>, ModelError> {
        Err(ModelError::backend("candle's own models do not expose hidden states"))
    }
}

/// A decoder with its open sequences.
pub(crate) struct Decoder {
    network: Arc<Network>,
    context: usize,
    sequences: FxHashMap<SequenceId, Sequence>,
    next: u32,
}

impl Decoder {
    /// Creates a decoder without sequences. Each sequence can hold `context` tokens.
    pub(crate) fn new(network: Arc<Network>, context: usize) -> Self {
        Self { network, context, sequences: FxHashMap::default(), next: 0 }
    }
}

#[derive(Default)]
struct Sequence {
    tokens: Vec<TokenId>,
    /// Instance of the model, whose cache contains the first `read` tokens. `None` if no token was
    /// computed since the sequence was opened or reset.
    model: Option<Box<dyn CandleModel>>,
    /// Number of tokens in the cache of `model`.
    read: usize,
}

impl Sequence {
    /// Appends the tokens of `run` and returns the logits that the run requests, row by row.
    fn append(&mut self, network: &Network, run: &Run<'_>) -> Result<Vec<Vec<f32>>> {
        self.tokens.extend(run.tokens);
        let from_start = self.read == 0 || (run.role == Role::Prompt && run.tokens.len() >= READ_AGAIN);
        if from_start {
            self.model = None;
            self.read = 0;
        }
        let model = self.model.get_or_insert_with(|| (network.make)());
        let wanted = run.wanted.rows();
        // The first requested row comes after this number of tokens.
        let first = self.tokens.len() + 1 - wanted.len().max(1);
        let mut rows = Vec::with_capacity(wanted.len());
        while self.read < self.tokens.len() {
            let len = if self.read == 0 { first } else { 1 };
            let ids: Vec<u32> = self.tokens[self.read..self.read + len].iter().map(|token| token.0).collect();
            let ids = Tensor::from_vec(ids, (1, len), &network.device)?;
            let logits = caught(|| model.forward(&ids, self.read))?;
            self.read += len;
            if self.read >= first
                && let Some(&wanted) = wanted.get(self.read - first)
            {
                let logits = logits.flatten_all()?.to_dtype(DType::F32)?.to_vec1::<f32>()?;
                // Some models return the logits of all positions; the last ones are needed.
                let row = logits[logits.len() - network.vocabulary.min(logits.len())..].to_vec();
                rows.push(masked(row, wanted));
            }
        }
        Ok(rows)
    }

    fn truncate(&mut self, len: usize) {
        self.tokens.truncate(len);
        if self.read > len {
            self.model = None;
            self.read = 0;
        }
    }
}

/// Calls `compute` and converts a panic to an error. candle's models panic on some invalid inputs.
fn caught<T>(compute: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(compute)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Error::msg(format!("candle's model panicked: {}", text.unwrap_or("unknown reason"))))
    })
}

impl LanguageModel for Decoder {
    fn vocab_size(&self) -> usize {
        self.network.vocabulary
    }

    fn context_len(&self) -> usize {
        self.context
    }

    fn open(&mut self) -> SequenceId {
        let id = SequenceId(self.next);
        self.next = self.next.wrapping_add(1);
        self.sequences.insert(id, Sequence::default());
        id
    }

    fn close(&mut self, sequence: SequenceId) {
        self.sequences.remove(&sequence);
    }

    fn truncate(&mut self, sequence: SequenceId, len: usize) -> std::result::Result<(), ModelError> {
        let found = self.sequences.get_mut(&sequence);
        found.ok_or_else(|| ModelError::unknown_sequence(sequence))?.truncate(len);
        Ok(())
    }

    /// Returns the context length, because a prompt is computed in one step.
    fn prompt_grain(&self) -> usize {
        self.context
    }

    fn forward(&mut self, batch: &Batch<'_>) -> std::result::Result<Logits, ModelError> {
        let len = |sequence| self.sequences.get(&sequence).map(|sequence| sequence.tokens.len());
        batch.check(len, self.network.vocabulary, self.context)?;
        let mut rows = Vec::new();
        for run in &batch.runs {
            let Some(sequence) = self.sequences.get_mut(&run.sequence) else { continue };
            rows.push(sequence.append(&self.network, run).map_err(ModelError::backend)?);
        }
        Ok(Logits::new(rows))
    }
}
