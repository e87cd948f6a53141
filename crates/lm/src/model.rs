use std::fmt;

use formwork_vocab::{TokenId, TokenSet};

use crate::ModelError;

/// A handle to one sequence's KV cache in a model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SequenceId(pub u32);

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a run's tokens came from. On the CPU the numeric path follows the role and the position, never how a batch was
/// packed, so that a request gives the same tokens alone and among others. Libraries for GPUs choose theirs by shape, so
/// there results may differ by rounding with what else is in a batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Tokens of the prompt.
    Prompt,
    /// Tokens that were sampled, or that a grammar forced.
    Generated,
}

/// Which logits to compute after a run's last token.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// None: more tokens of this sequence follow anyway.
    Nothing,
    /// The whole row.
    All,
    /// Only these tokens; every other logit is `-inf`. On these tokens the values equal those of [`Wanted::All`], bit by
    /// bit.
    Only(&'a TokenSet),
}

impl Wanted<'_> {
    /// Leaves of a whole row what is wanted.
    pub fn masked(self, mut row: Vec<f32>) -> Vec<f32> {
        match self {
            Self::Nothing => Vec::new(),
            Self::All => row,
            Self::Only(set) => {
                for (index, logit) in row.iter_mut().enumerate() {
                    if !set.contains(TokenId(index as u32)) {
                        *logit = f32::NEG_INFINITY;
                    }
                }
                row
            }
        }
    }
}

/// Tokens to append to one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The sequence that grows.
    pub sequence: SequenceId,
    /// The tokens, at least one.
    pub tokens: &'a [TokenId],
    /// Where they came from.
    pub role: Role,
    /// What is wanted after the last of them.
    pub wanted: Wanted<'a>,
}

/// Runs of different sequences that go through the model together.
#[derive(Clone, Debug, Default)]
pub struct Batch<'a> {
    /// The runs; a sequence occurs at most once.
    pub runs: Vec<Run<'a>>,
}

impl Batch<'_> {
    /// What a back end checks before it changes anything: that each sequence is open and occurs once, that its tokens are in
    /// the vocabulary, and that they fit the context. `len` gives how many tokens an open sequence has, `None` for one that is
    /// not open.
    ///
    /// # Errors
    /// For the first run of which that is not so.
    pub fn check(
        &self,
        len: impl Fn(SequenceId) -> Option<usize>,
        vocabulary: usize,
        context: usize,
    ) -> Result<(), ModelError> {
        for (index, run) in self.runs.iter().enumerate() {
            let len = len(run.sequence).ok_or_else(|| ModelError::unknown_sequence(run.sequence))?;
            if self.runs[..index].iter().any(|other| other.sequence == run.sequence) {
                return Err(ModelError::repeated_sequence(run.sequence));
            }
            ModelError::check_tokens(run.tokens, vocabulary)?;
            let len = len + run.tokens.len();
            if len > context {
                return Err(ModelError::context_full(len, context));
            }
        }
        Ok(())
    }
}

/// The logits of a batch: one row per run, in the batch's order; empty for runs that wanted nothing.
#[derive(Clone, Debug, Default)]
pub struct Logits {
    rows: Vec<Vec<f32>>,
}

impl Logits {
    /// Collects rows, each of vocabulary length or empty.
    pub const fn new(rows: Vec<Vec<f32>>) -> Self {
        Self { rows }
    }

    /// The row of run `index`. Shape: `[vocabulary]`, or empty.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.rows[index]
    }
}

/// A causal language model with a KV cache per sequence.
pub trait LanguageModel: Send {
    /// The length of a logits row. It may be larger than the tokenizer's vocabulary (padding rows).
    fn vocab_size(&self) -> usize;

    /// How many tokens one sequence can hold.
    fn context_len(&self) -> usize;

    /// Opens an empty sequence.
    fn open(&mut self) -> SequenceId;

    /// Frees a sequence. Closing one that is not open does nothing.
    fn close(&mut self, sequence: SequenceId);

    /// Forgets all but the first `len` tokens of a sequence.
    ///
    /// # Errors
    /// When the sequence is not open.
    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError>;

    /// Appends every run to its sequence and computes the logits that are wanted.
    ///
    /// # Errors
    /// When a sequence is not open, a token is outside the vocabulary, the context is full or the back end fails. The
    /// sequences of the batch are then in an unspecified state and should be closed.
    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError>;
}
