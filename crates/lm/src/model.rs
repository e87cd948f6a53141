use std::fmt;

use formwork_vocab::{TokenId, TokenSet};

use crate::{Abilities, EncodedText, ModelError};

/// Handle to one sequence of a model, with its tokens and its KV cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SequenceId(pub u32);

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Origin of the tokens of a run.
///
/// A back end may use different kernels for prompts and for generated tokens.
///
/// The native CPU decoder ignores the role. Its results depend only on the tokens of a sequence, so
/// a request generates the same tokens alone and in a batch. GPU libraries choose kernels by the
/// shape of the batch, so the other runs of a batch can change the rounding of the results.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Tokens of the prompt.
    Prompt,
    /// Tokens that were sampled or forced by a grammar.
    Generated,
}

/// Rows of logits that a run requests. A row holds one logit for each token of the vocabulary.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// No row, for example because further tokens of the sequence follow in the next batch.
    Nothing,
    /// One row, after the run's last token, with the logits of all tokens.
    All,
    /// One row, after the run's last token, with the logits of the tokens in the set. All other
    /// logits are `-inf`. The computed logits are bit-identical to those of [`Wanted::All`].
    Only(&'a TokenSet),
    /// One row, after the run's last token, in which only the largest finite logit matters.
    ///
    /// The row contains this logit for every token whose logit is equally large. These logits are
    /// bit-identical to the logits of [`Wanted::All`]. Any other logit may be `-inf`. A model may
    /// compute such a row faster than a whole row.
    ///
    /// Only tokens of the set are considered, or all tokens if the set is `None`.
    Largest(Option<&'a TokenSet>),
    /// The likeliest tokens after the run's last token, or a row.
    ///
    /// The model returns [`TopLogits`] if they are enough for the request. Otherwise it returns one row,
    /// with the logits of the tokens in the request's set. All other logits are `-inf`.
    Top(TopRequest<'a>),
    /// Several rows, after each of the run's last tokens, oldest first. The slice has one element
    /// for each row: the set of tokens to compute, or `None` for all tokens.
    ///
    /// Each row equals the row of a run that ends at its token. The rows are bit-identical if the
    /// model is [batch-invariant](LanguageModel::is_batch_invariant).
    Each(&'a [Option<&'a TokenSet>]),
}

impl<'a> Wanted<'a> {
    /// Returns the token set of each requested row, oldest first. `None` means all tokens. The last
    /// row belongs to the run's last token.
    pub fn rows(self) -> Vec<Option<&'a TokenSet>> {
        match self {
            Self::Nothing => Vec::new(),
            Self::All => vec![None],
            Self::Only(set) => vec![Some(set)],
            Self::Largest(set) => vec![set],
            Self::Top(request) => vec![request.set],
            Self::Each(rows) => rows.to_vec(),
        }
    }

    /// Returns the number of rows that the run requests.
    pub const fn count(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::All | Self::Only(_) | Self::Largest(_) | Self::Top(_) => 1,
            Self::Each(rows) => rows.len(),
        }
    }
}

/// Request for the likeliest tokens of a row ([`Wanted::Top`]).
#[derive(Clone, Copy)]
pub struct TopRequest<'a> {
    /// Tokens that are considered. `None` means all.
    pub set: Option<&'a TokenSet>,
    /// Temperature of [`TopLogits::rest`], above 0.
    pub temperature: f32,
    /// Judges the likeliest tokens. If the result is false, the model returns a row.
    pub is_enough: &'a (dyn Fn(&TopLogits) -> bool + Sync),
}

impl fmt::Debug for TopRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopRequest")
            .field("set", &self.set)
            .field("temperature", &self.temperature)
            .finish_non_exhaustive()
    }
}

/// The likeliest tokens of a row.
#[derive(Clone, Debug, Default)]
pub struct TopLogits {
    /// The tokens in the order of their ids, with their logits. The logits are finite and bit-identical to
    /// those of [`Wanted::All`]. Every other token of the set has at most the smallest of these logits.
    pub tokens: Vec<(TokenId, f32)>,
    /// True if no other token of the set has a finite logit.
    pub is_complete: bool,
    /// Sum of `exp((logit - largest) / temperature)` over all other tokens of the set, where `largest` is
    /// the largest logit. The error is at most 1e-4 of it, or 1e-30.
    pub rest: f64,
}

impl TopLogits {
    /// Returns up to `count` of the likeliest tokens of a row. Shape of the row: `[vocabulary]`. Logits that
    /// are not finite are left out. `temperature` is above 0.
    pub fn of(row: &[f32], count: usize, temperature: f32) -> Self {
        let mut tokens: Vec<(TokenId, f32)> = (0..).map(TokenId).zip(row.iter().copied()).collect();
        tokens.retain(|(_, logit)| logit.is_finite());
        tokens.sort_by(|a, b| b.1.total_cmp(&a.1));
        let largest = tokens.first().map_or(0.0, |(_, logit)| *logit);
        let others = tokens.split_off(count.min(tokens.len()));
        let weight = |&(_, logit): &(TokenId, f32)| f64::from((logit - largest) / temperature).exp();
        tokens.sort_by_key(|(token, _)| *token);
        Self { tokens, is_complete: others.is_empty(), rest: others.iter().map(weight).sum() }
    }
}

/// Returns `row` with the logits of all tokens outside `wanted` set to `-inf`. If `wanted` is
/// `None`, the row is unchanged.
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

/// Tokens to append to one sequence, and the logits to compute.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Sequence to append to.
    pub sequence: SequenceId,
    /// Tokens to append, at least one.
    pub tokens: &'a [TokenId],
    /// Origin of the tokens.
    pub role: Role,
    /// Rows of logits to compute after the last tokens of the run.
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
    /// - Every sequence must be open and occur in one run only. `len` returns the number of tokens
    ///   of a sequence, or `None` if the sequence is not open.
    /// - Every token must be inside a vocabulary of `vocabulary` tokens.
    /// - A sequence must not exceed `context` tokens after its run.
    /// - A run must not request more rows than it has tokens.
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

/// Logits of a run.
#[derive(Clone, Debug)]
pub enum RunLogits {
    /// The requested rows, oldest first. Shape: `[rows][vocabulary]`.
    Rows(Vec<Vec<f32>>),
    /// The likeliest tokens of the only requested row ([`Wanted::Top`]).
    Top(TopLogits),
}

impl Default for RunLogits {
    fn default() -> Self {
        Self::Rows(Vec::new())
    }
}

/// Logits of a batch: those that each run requested, in the order of the batch.
#[derive(Clone, Debug, Default)]
pub struct Logits {
    runs: Vec<RunLogits>,
}

impl Logits {
    /// Creates the logits from the rows of each run. The length of every row must be the size of
    /// the vocabulary.
    pub fn new(runs: Vec<Vec<Vec<f32>>>) -> Self {
        runs.into_iter().map(RunLogits::Rows).collect()
    }

    /// Returns the rows of the run at `index` in the batch, oldest first. Shape:
    /// `[rows][vocabulary]`. The slice is empty if the run has [`RunLogits::Top`].
    pub fn rows(&self, index: usize) -> &[Vec<f32>] {
        match &self.runs[index] {
            RunLogits::Rows(rows) => rows,
            RunLogits::Top(_) => &[],
        }
    }

    /// Returns the last row of the run at `index` in the batch. Shape: `[vocabulary]`. The slice is
    /// empty if the run has no rows.
    pub fn row(&self, index: usize) -> &[f32] {
        self.rows(index).last().map_or(&[], Vec::as_slice)
    }

    /// Returns the likeliest tokens of the run at `index` in the batch. `None` if the run has rows.
    pub fn top(&self, index: usize) -> Option<&TopLogits> {
        match &self.runs[index] {
            RunLogits::Rows(_) => None,
            RunLogits::Top(top) => Some(top),
        }
    }

    /// Returns an iterator over the logits of all runs.
    pub fn into_runs(self) -> impl Iterator<Item = RunLogits> {
        self.runs.into_iter()
    }
}

impl FromIterator<RunLogits> for Logits {
    fn from_iter<I: IntoIterator<Item = RunLogits>>(runs: I) -> Self {
        Self { runs: runs.into_iter().collect() }
    }
}

/// Identifies an adapter of a model: its index in [`LanguageModel::adapters`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct AdapterId(pub u32);

impl AdapterId {
    /// Returns the index of the adapter.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Tokens that continue a sequence as drafts ([`LanguageModel::draft`]).
#[derive(Clone, Copy, Debug)]
pub struct DraftRun<'a> {
    /// Sequence to continue. It must have tokens.
    pub sequence: SequenceId,
    /// Tokens that follow those of the sequence, and those of earlier drafts. At least one.
    pub tokens: &'a [TokenId],
    /// Tokens that may come next. `None` means all.
    pub wanted: Option<&'a TokenSet>,
}

/// A causal language model that keeps a KV cache for each sequence.
pub trait LanguageModel: Send {
    /// Returns the length of a row of logits. The length can exceed the size of the tokenizer's
    /// vocabulary, because some models pad the vocabulary.
    fn vocab_size(&self) -> usize;

    /// Returns the context length: the maximum number of tokens of a sequence.
    fn context_len(&self) -> usize;

    /// Opens a sequence without tokens.
    fn open(&mut self) -> SequenceId;

    /// Returns the names of the adapters that sequences can be computed with.
    fn adapters(&self) -> &[String] {
        &[]
    }

    /// Opens a sequence without tokens that is computed with an adapter. Forks of the sequence have the
    /// same adapter.
    ///
    /// # Errors
    /// Returns an error if the model does not have the adapter.
    fn open_with(&mut self, adapter: AdapterId) -> Result<SequenceId, ModelError> {
        Err(ModelError::unknown_adapter(adapter, self.adapters().len()))
    }

    /// Closes a sequence and frees its KV cache. Does nothing if the sequence is not open.
    fn close(&mut self, sequence: SequenceId);

    /// Removes all tokens of a sequence except the first `len`.
    ///
    /// # Errors
    /// Returns an error if the sequence is not open.
    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError>;

    /// Returns the number of tokens at whose multiples a prompt may be split into runs. A split at
    /// any other position may change the result.
    ///
    /// Prompts with a common prefix can share the KV cache of this prefix, up to its last multiple
    /// of this number.
    fn prompt_grain(&self) -> usize {
        1
    }

    /// Reports whether the model supports [`LanguageModel::fork`].
    fn can_fork(&self) -> bool {
        false
    }

    /// Reports whether removing a few tokens with [`LanguageModel::truncate`] takes no time.
    ///
    /// A model with a recurrent state computes some of the remaining tokens again
    /// ([`LanguageModel::replayed_tokens`]).
    fn truncates_cheaply(&self) -> bool {
        self.can_fork()
    }

    /// Reports whether removing drafts with [`LanguageModel::truncate`] takes no time.
    ///
    /// Drafts are the tokens of a sequence's last run that follow the first requested row, if the run has
    /// the role [`Role::Generated`] and at most 32 such tokens. The tokens before them may have to be
    /// computed again if they are removed, too.
    fn removes_drafts_cheaply(&self) -> bool {
        self.truncates_cheaply()
    }

    /// Reports whether the model has a head that drafts tokens ([`LanguageModel::draft`]).
    fn has_draft_head(&self) -> bool {
        false
    }

    /// Continues sequences by drafts, with the model's own head (multi-token prediction, MTP). Returns a
    /// row for each run, as with [`Wanted::Largest`], for the token after the run's last one.
    ///
    /// The head is a guess at what the model would compute, and takes a fraction of the time. The
    /// sequences do not change: they forget their drafts with the next call of
    /// [`LanguageModel::forward`] or [`LanguageModel::truncate`].
    ///
    /// # Errors
    /// Returns an error in any of these cases:
    ///
    /// - The model has no such head, or has closed it.
    /// - A sequence is not open, occurs twice or has no tokens.
    /// - A run has no tokens, a token outside the vocabulary, or no room in the context.
    /// - The back end fails.
    fn draft(&mut self, runs: &[DraftRun<'_>]) -> Result<Logits, ModelError> {
        let _ = runs;
        Err(ModelError::unsupported("drafts by a head of the model"))
    }

    /// Stops using the model's own head for drafts, which otherwise computes all tokens of all sequences.
    fn close_draft_head(&mut self) {}

    /// Returns the number of tokens that were computed again so far, because a sequence was cut where
    /// the model has no copy of its state.
    fn replayed_tokens(&self) -> u64 {
        0
    }

    /// Reports whether the logits of a run are bit-identical regardless of the other runs in the
    /// batch.
    fn is_batch_invariant(&self) -> bool {
        false
    }

    /// Opens a sequence that starts with the first `len` tokens of the sequence `sequence`.
    ///
    /// Both sequences share the KV cache of these tokens. Nothing is computed. Nothing is copied
    /// until one of the sequences appends tokens.
    ///
    /// # Errors
    /// Returns an error if `sequence` is not open, or if the model does not support forks.
    fn fork(&mut self, sequence: SequenceId, len: usize) -> Result<SequenceId, ModelError> {
        let _ = (sequence, len);
        Err(ModelError::unsupported("sharing sequences"))
    }

    /// Returns the size of the KV cache for one token, in bytes.
    fn kv_bytes_per_token(&self) -> usize {
        0
    }

    /// Appends tokens to a sequence as a prompt. Returns the hidden state after each token, which
    /// is the output of the final norm. Shape: `[tokens, hidden]`.
    ///
    /// # Errors
    /// Returns an error in the cases of [`LanguageModel::forward`], or if the model does not expose
    /// hidden states.
    fn hidden_states(&mut self, sequence: SequenceId, tokens: &[TokenId]) -> Result<Vec<f32>, ModelError> {
        let _ = (sequence, tokens);
        Err(ModelError::unsupported("embeddings"))
    }

    /// Returns the name of the model's architecture, as in GGUF files. `None` if it is not known.
    fn architecture(&self) -> Option<&str> {
        None
    }

    /// Returns the purposes of the model.
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// Reports whether tokens depend on later ones, so that a text must be read at once. Such a model
    /// supports only [`LanguageModel::encode`].
    fn reads_whole_texts(&self) -> bool {
        false
    }

    /// Reports whether [`LanguageModel::encode`] computes several texts faster than one after another.
    fn encodes_together(&self) -> bool {
        self.reads_whole_texts()
    }

    /// Computes the hidden states of whole texts. Each element of the result belongs to a text and has
    /// the shape `[tokens, hidden]`.
    ///
    /// # Errors
    /// Returns an error in the cases of [`LanguageModel::hidden_states`].
    fn encode(&mut self, texts: &[EncodedText<'_>]) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut encode = |text: &EncodedText<'_>| {
            let sequence = self.open();
            let states = self.hidden_states(sequence, text.tokens);
            self.close(sequence);
            states
        };
        texts.iter().map(&mut encode).collect()
    }

    /// Converts the pooled hidden states of a text to the text's vector.
    fn project(&self, pooled: Vec<f32>) -> Vec<f32> {
        pooled
    }

    /// Returns the score of a query and a document, given their pooled hidden states.
    ///
    /// # Errors
    /// Returns an error if the model computes no scores.
    fn score(&self, pooled: &[f32]) -> Result<f32, ModelError> {
        let _ = pooled;
        Err(ModelError::unsupported("scores of documents"))
    }

    /// Appends every run to its sequence and computes the requested logits.
    ///
    /// # Errors
    /// Returns an error if the [check](Batch::check) of the batch fails, or if the back end fails.
    /// The sequences of the batch are then in an unspecified state and should be closed.
    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError>;

    /// Gives logits that are not needed any more back to the model, which can reuse their memory.
    fn recycle(&mut self, logits: Logits) {
        drop(logits);
    }
}
