//! Architectures without a definition of our own, by the models of `candle-transformers`.
//!
//! These models have one sequence each and a cache that only grows, so every sequence here has a model of its own, which
//! shares its weights with the others, and goes back by reading its tokens again. Not all of them take several tokens right
//! once there are some, so a text is read at once from its beginning, and what follows token by token.

#[cfg_attr(not(feature = "candle-models"), path = "none.rs")]
mod models;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use candle_core::{DType, Device, Error, Result, Tensor};
use formwork_lm::{Batch, LanguageModel, Logits, ModelError, Role, Run, SequenceId, masked};
use formwork_vocab::TokenId;
use rustc_hash::FxHashMap;

use crate::checkpoint::Checkpoint;
use crate::error::Kind;

/// From so many tokens of a prompt on a text is read again from its beginning, instead of token by token.
const READ_AGAIN: usize = 16;

/// A model that appends tokens, `[1, tokens]`, to its one sequence and gives the logits after the last of them.
trait Borrowed: Send {
    /// `offset` is how many tokens there are already.
    fn forward(&mut self, tokens: &Tensor, offset: usize) -> Result<Tensor>;
}

/// Makes a model without tokens.
type Make = dyn Fn() -> Box<dyn Borrowed> + Send + Sync;

/// What is shared by all sequences of a model.
pub(crate) struct Network {
    make: Box<Make>,
    vocabulary: usize,
    /// Positions that the model was trained for.
    context: usize,
    device: Device,
}

impl Network {
    pub(crate) const fn device(&self) -> &Device {
        &self.device
    }

    /// The model of a checkpoint that is [known](Self::check).
    pub(crate) fn open(checkpoint: &Checkpoint, device: Device) -> std::result::Result<Self, Kind> {
        models::open(checkpoint, device)
    }

    /// That candle has a model for a checkpoint's architecture; else `unknown`, the error that says which are known, with
    /// those of candle.
    pub(crate) fn check(checkpoint: &Checkpoint, unknown: Kind) -> std::result::Result<(), Kind> {
        models::check(checkpoint, unknown)
    }

    pub(crate) const fn context(&self) -> usize {
        self.context
    }
}

/// A model with its open sequences.
pub(crate) struct Decoder {
    network: Arc<Network>,
    context: usize,
    sequences: FxHashMap<SequenceId, Sequence>,
    next: u32,
}

impl Decoder {
    /// A decoder without sequences, each of which can hold `context` tokens.
    pub(crate) fn new(network: Arc<Network>, context: usize) -> Self {
        Self { network, context, sequences: FxHashMap::default(), next: 0 }
    }
}

#[derive(Default)]
struct Sequence {
    tokens: Vec<TokenId>,
    /// With the first of the tokens in it.
    model: Option<Box<dyn Borrowed>>,
    /// How many.
    read: usize,
}

impl Sequence {
    /// Appends tokens; gives the rows that are wanted after the last of them.
    fn append(&mut self, network: &Network, run: &Run<'_>) -> Result<Vec<Vec<f32>>> {
        self.tokens.extend(run.tokens);
        let from_start = self.read == 0 || (run.role == Role::Prompt && run.tokens.len() >= READ_AGAIN);
        if from_start {
            self.model = None;
            self.read = 0;
        }
        let model = self.model.get_or_insert_with(|| (network.make)());
        let wanted = run.wanted.rows();
        // The first row that is wanted comes after so many tokens.
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
                // Of all positions, where a model gives them all.
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

/// What code that is not ours and trusts its input comes to: a panic there is an error here.
fn caught<T>(compute: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(compute)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Error::msg(format!("candle's model panicked: {}", text.unwrap_or("without a word"))))
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

    /// A text is read at once.
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
