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

/// Where a run's tokens came from. On the CPU the numeric path follows the role and the position at most (that of our own decoder
/// the position alone), never how a batch was packed, so that a request gives the same tokens alone and among others. Libraries for GPUs
/// choose theirs by shape, so there results may differ by rounding with what else is in a batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Tokens of the prompt.
    Prompt,
    /// Tokens that were sampled, or that a grammar forced.
    Generated,
}

/// Which logits to compute after a run's last tokens.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// None: more tokens of this sequence follow anyway.
    Nothing,
    /// The whole row.
    All,
    /// Only these tokens; every other logit is `-inf`. On these tokens the values equal those of [`Wanted::All`], bit by
    /// bit.
    Only(&'a TokenSet),
    /// Of these tokens, or of all, those with the largest finite logit, which have it as they would with [`Wanted::All`], bit by bit;
    /// whatever else may be `-inf`. It takes less of a model than the whole row.
    Largest(Option<&'a TokenSet>),
    /// A row after each of the last so many tokens of the run, oldest first: the whole row, or only some tokens. Every row is
    /// what it would be if the run ended there, bit by bit where the numeric path does not depend on the batch.
    Each(&'a [Option<&'a TokenSet>]),
}

impl<'a> Wanted<'a> {
    /// The rows, oldest first: for each the tokens that it is wanted for, `None` for all. The last is the one after the run.
    pub fn rows(self) -> Vec<Option<&'a TokenSet>> {
        match self {
            Self::Nothing => Vec::new(),
            Self::All => vec![None],
            Self::Only(set) => vec![Some(set)],
            Self::Largest(set) => vec![set],
            Self::Each(rows) => rows.to_vec(),
        }
    }

    /// How many rows are wanted.
    pub const fn count(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::All | Self::Only(_) | Self::Largest(_) => 1,
            Self::Each(rows) => rows.len(),
        }
    }
}

/// Leaves of a whole row of logits what is wanted: the tokens of a set, or all.
pub fn masked(mut row: Vec<f32>, wanted: Option<&TokenSet>) -> Vec<f32> {
    let Some(set) = wanted else { return row };
    let words = set.words().iter().copied().chain(std::iter::repeat(0));
    for (logits, word) in row.chunks_mut(64).zip(words) {
        match word {
            u64::MAX => {}
            0 => logits.fill(f32::NEG_INFINITY),
            _ => {
                for (bit, logit) in logits.iter_mut().enumerate() {
                    *logit = if word >> bit & 1 == 1 { *logit } else { f32::NEG_INFINITY };
                }
            }
        }
    }
    row
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
    /// What is wanted after them.
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
    /// the vocabulary and as many as there are rows wanted, and that they fit the context. `len` gives how many tokens an open sequence has, `None` for one that is
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
            if run.wanted.count() > run.tokens.len() {
                return Err(ModelError::too_many_rows(run.wanted.count(), run.tokens.len()));
            }
            let len = len + run.tokens.len();
            if len > context {
                return Err(ModelError::context_full(len, context));
            }
        }
        Ok(())
    }
}

/// The logits of a batch: the rows that each run wanted, in the batch's order.
#[derive(Clone, Debug, Default)]
pub struct Logits {
    runs: Vec<Vec<Vec<f32>>>,
}

impl Logits {
    /// Collects the rows of each run, every one of vocabulary length.
    pub const fn new(runs: Vec<Vec<Vec<f32>>>) -> Self {
        Self { runs }
    }

    /// The rows of run `index`, oldest first. Shape: `[rows][vocabulary]`.
    pub fn rows(&self, index: usize) -> &[Vec<f32>] {
        &self.runs[index]
    }

    /// The row after the last token of run `index`. Shape: `[vocabulary]`, or empty where nothing was wanted.
    pub fn row(&self, index: usize) -> &[f32] {
        self.runs[index].last().map_or(&[], Vec::as_slice)
    }

    /// The rows of all runs.
    pub fn into_rows(self) -> impl Iterator<Item = Vec<f32>> {
        self.runs.into_iter().flatten()
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

    /// A prompt may be cut into runs at positions that are multiples of this, and nowhere else, without changing a result;
    /// and what was computed of another prompt may stand for the beginning of this one up to such a position.
    fn prompt_grain(&self) -> usize {
        1
    }

    /// Whether [`LanguageModel::fork`] works, and going back in a sequence costs next to nothing.
    fn can_fork(&self) -> bool {
        false
    }

    /// Whether a token's logits have the same bits whatever goes through the model with it.
    fn is_batch_invariant(&self) -> bool {
        false
    }

    /// Opens a sequence that begins with the first `len` tokens of another, which it shares with it: nothing is computed, and
    /// nothing copied before one of them writes.
    ///
    /// # Errors
    /// When the sequence is not open, or the model cannot do that.
    fn fork(&mut self, sequence: SequenceId, len: usize) -> Result<SequenceId, ModelError> {
        let _ = (sequence, len);
        Err(ModelError::unsupported("sharing sequences"))
    }

    /// Bytes of keys and values for each token of a sequence.
    fn kv_bytes_per_token(&self) -> usize {
        0
    }

    /// Appends tokens to a sequence as a prompt, and gives their hidden states after the final norm. Shape: `[tokens, hidden]`.
    ///
    /// # Errors
    /// As for [`LanguageModel::forward`], and when the model does not show them.
    fn hidden_states(&mut self, sequence: SequenceId, tokens: &[TokenId]) -> Result<Vec<f32>, ModelError> {
        let _ = (sequence, tokens);
        Err(ModelError::unsupported("embeddings"))
    }

    /// Appends every run to its sequence and computes the logits that are wanted.
    ///
    /// # Errors
    /// When a sequence is not open, a token is outside the vocabulary, the context is full or the back end fails. The
    /// sequences of the batch are then in an unspecified state and should be closed.
    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError>;

    /// Takes back logits that are done with: the next may have their memory, which then need not be asked for and cleared.
    fn recycle(&mut self, logits: Logits) {
        drop(logits);
    }
}
