use std::fmt;

use formwork_vocab::{TokenId, TokenSet};

use crate::ModelError;

/// Handle to the KV cache of one sequence in a model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SequenceId(pub u32);

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Origin of the tokens of a run.
///
/// A back end may choose its numeric path by the role. The native CPU decoder ignores the role: its
/// results depend only on a sequence's tokens, so a request generates the same tokens alone and in
/// a batch. GPU libraries choose kernels by shape. With them, results may differ by rounding with
/// the other runs of the batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Tokens of the prompt.
    Prompt,
    /// Tokens that were sampled or forced by a grammar.
    Generated,
}

/// Rows of logits to compute for a run.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// No logits, because more tokens of the sequence follow.
    Nothing,
    /// The logits of all tokens, after the run's last token.
    All,
    /// The logits of these tokens; all others are `-inf`. The values have the same bits as with
    /// [`Wanted::All`].
    Only(&'a TokenSet),
    /// The largest finite logit of these tokens, or of all tokens if `None`, with every token that
    /// ties for it.
    ///
    /// These logits have the same bits as with [`Wanted::All`]. All other logits may be `-inf`. A
    /// model may compute this faster than the whole row.
    Largest(Option<&'a TokenSet>),
    /// One row after each of the run's last tokens, oldest first. The slice has one element per
    /// row.
    ///
    /// An element is the set of tokens to compute, or `None` for all tokens. Each row equals the
    /// row of a run that ends there. The bits are the same if the numeric path does not depend on
    /// the batch.
    Each(&'a [Option<&'a TokenSet>]),
}

impl<'a> Wanted<'a> {
    /// Returns the token set of each requested row, oldest first; `None` means all tokens. The last
    /// row is the one after the run's last token.
    pub fn rows(self) -> Vec<Option<&'a TokenSet>> {
        match self {
            Self::Nothing => Vec::new(),
            Self::All => vec![None],
            Self::Only(set) => vec![Some(set)],
            Self::Largest(set) => vec![set],
            Self::Each(rows) => rows.to_vec(),
        }
    }

    /// Returns the number of requested rows.
    pub const fn count(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::All | Self::Only(_) | Self::Largest(_) => 1,
            Self::Each(rows) => rows.len(),
        }
    }
}

/// Sets the logits of all tokens outside `wanted` to `-inf`. Returns the row unchanged if `wanted`
/// is `None`.
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
    /// Sequence to append to.
    pub sequence: SequenceId,
    /// Tokens to append, at least one.
    pub tokens: &'a [TokenId],
    /// Origin of the tokens.
    pub role: Role,
    /// Rows of logits to compute.
    pub wanted: Wanted<'a>,
}

/// Runs of different sequences that are computed in one forward pass.
#[derive(Clone, Debug, Default)]
pub struct Batch<'a> {
    /// The runs. Each sequence occurs at most once.
    pub runs: Vec<Run<'a>>,
}

impl Batch<'_> {
    /// Validates the batch. Back ends call this before they change any state.
    ///
    /// Each sequence must be open and occur once. Its tokens must be inside the vocabulary and fit
    /// the context. A run must not request more rows than it has tokens. `len` returns the number
    /// of tokens of a sequence, or `None` if the sequence is not open.
    ///
    /// # Errors
    /// Returns an error for the first run that violates one of these rules.
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

/// Logits of a batch: for each run, in the batch's order, the rows that it requested.
#[derive(Clone, Debug, Default)]
pub struct Logits {
    runs: Vec<Vec<Vec<f32>>>,
}

impl Logits {
    /// Creates the logits from the rows of each run. Every row has the length of the vocabulary.
    pub const fn new(runs: Vec<Vec<Vec<f32>>>) -> Self {
        Self { runs }
    }

    /// Returns the rows of run `index`, oldest first. Shape: `[rows][vocabulary]`.
    pub fn rows(&self, index: usize) -> &[Vec<f32>] {
        &self.runs[index]
    }

    /// Returns the last row of run `index`. Shape: `[vocabulary]`, or empty if the run requested no
    /// rows.
    pub fn row(&self, index: usize) -> &[f32] {
        self.runs[index].last().map_or(&[], Vec::as_slice)
    }

    /// Returns the rows of all runs, run by run.
    pub fn into_rows(self) -> impl Iterator<Item = Vec<f32>> {
        self.runs.into_iter().flatten()
    }
}

/// A causal language model with a KV cache per sequence.
pub trait LanguageModel: Send {
    /// Returns the length of a row of logits. Padding rows can make it larger than the tokenizer's
    /// vocabulary.
    fn vocab_size(&self) -> usize;

    /// Returns the maximum number of tokens of a sequence.
    fn context_len(&self) -> usize;

    /// Opens an empty sequence.
    fn open(&mut self) -> SequenceId;

    /// Frees a sequence. Does nothing if the sequence is not open.
    fn close(&mut self, sequence: SequenceId);

    /// Removes all tokens of a sequence except the first `len`.
    ///
    /// # Errors
    /// Returns an error if the sequence is not open.
    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError>;

    /// Returns the granularity at which prompts may be split.
    ///
    /// Splitting a prompt into runs at multiples of this number of tokens does not change the
    /// result; splitting elsewhere may. Prompts with a common prefix can share the cache of the
    /// prefix up to its last multiple of this number.
    fn prompt_grain(&self) -> usize {
        1
    }

    /// Reports whether [`LanguageModel::fork`] is supported and [`LanguageModel::truncate`] is
    /// cheap.
    fn can_fork(&self) -> bool {
        false
    }

    /// Reports whether a token's logits have the same bits whatever else is in the batch.
    fn is_batch_invariant(&self) -> bool {
        false
    }

    /// Opens a sequence that starts with the first `len` tokens of another one.
    ///
    /// The two sequences share the cache of these tokens. Nothing is computed, and nothing is
    /// copied until one of them writes.
    ///
    /// # Errors
    /// Returns an error if the sequence is not open or the model does not support forks.
    fn fork(&mut self, sequence: SequenceId, len: usize) -> Result<SequenceId, ModelError> {
        let _ = (sequence, len);
        Err(ModelError::unsupported("sharing sequences"))
    }

    /// Returns the number of bytes of keys and values per token.
    fn kv_bytes_per_token(&self) -> usize {
        0
    }

    /// Appends tokens to a sequence as a prompt and returns their hidden states after the final
    /// norm. Shape: `[tokens, hidden]`.
    ///
    /// # Errors
    /// Returns an error in the cases of [`LanguageModel::forward`], or if the model does not expose
    /// hidden states.
    fn hidden_states(&mut self, sequence: SequenceId, tokens: &[TokenId]) -> Result<Vec<f32>, ModelError> {
        let _ = (sequence, tokens);
        Err(ModelError::unsupported("embeddings"))
    }

    /// Appends every run to its sequence and computes the requested logits.
    ///
    /// # Errors
    /// Returns an error if a sequence is not open, a token is outside the vocabulary, the context
    /// is full, or the back end fails. The sequences of the batch are then in an unspecified state
    /// and should be closed.
    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError>;

    /// Returns logits that are no longer needed to the model. Later calls can reuse their memory
    /// without a new allocation.
    fn recycle(&mut self, logits: Logits) {
        drop(logits);
    }
}
