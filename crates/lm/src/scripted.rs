use std::collections::HashMap;

use formwork_vocab::TokenId;

use crate::{AdapterId, Batch, LanguageModel, Logits, ModelError, Role, Run, SequenceId, Wanted, masked};

/// Model for tests whose logits are computed by a function of the sequence's tokens.
///
/// ```
/// use formwork_lm::{Batch, LanguageModel, Role, Run, ScriptedModel, Wanted};
/// use formwork_vocab::TokenId;
/// // A model over 10 tokens that always prefers the successor of the last one.
/// let mut model = ScriptedModel::new(10, 32, |tokens, row| {
///     let last = tokens.last().map_or(0, |token| token.index());
///     row[(last + 1) % 10] = 1.0;
/// });
/// let sequence = model.open();
/// let run = Run { sequence, tokens: &[TokenId(4)], role: Role::Prompt, wanted: Wanted::All };
/// let logits = model.forward(&Batch { runs: vec![run] })?;
/// assert_eq!(logits.row(0)[5], 1.0);
/// # Ok::<(), formwork_lm::ModelError>(())
/// ```
pub struct ScriptedModel {
    vocab_size: usize,
    context_len: usize,
    script: Script,
    grain: usize,
    adapters: Vec<String>,
    sequences: HashMap<SequenceId, Vec<TokenId>>,
    /// Adapters of the sequences that have one.
    adapted: HashMap<SequenceId, AdapterId>,
    next: u32,
}

type Script = Box<dyn FnMut(&[TokenId], &mut [f32]) + Send>;

impl ScriptedModel {
    /// Creates a model with a vocabulary of `vocab_size` tokens and a context of `context_len`
    /// tokens.
    ///
    /// `script` computes a row of logits. It receives the tokens of the sequence up to the row, and
    /// a row of zeros to which it writes the logits.
    pub fn new(
        vocab_size: usize,
        context_len: usize,
        script: impl FnMut(&[TokenId], &mut [f32]) + Send + 'static,
    ) -> Self {
        let script = Box::new(script);
        Self {
            vocab_size,
            context_len,
            script,
            grain: 1,
            adapters: Vec::new(),
            sequences: HashMap::new(),
            adapted: HashMap::new(),
            next: 0,
        }
    }

    /// Sets the value of [`LanguageModel::prompt_grain`], which is 1 by default.
    #[must_use]
    pub const fn with_prompt_grain(mut self, grain: usize) -> Self {
        self.grain = grain;
        self
    }

    /// Adds adapters. The logits of a sequence with the adapter at index `i` are those of the script,
    /// moved by `i + 1` tokens.
    #[must_use]
    pub fn with_adapters(mut self, names: &[&str]) -> Self {
        self.adapters = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Returns the tokens of a sequence, or `None` if the sequence is not open.
    pub fn tokens(&self, sequence: SequenceId) -> Option<&[TokenId]> {
        self.sequences.get(&sequence).map(Vec::as_slice)
    }

    /// Returns the number of open sequences.
    pub fn open_sequences(&self) -> usize {
        self.sequences.len()
    }
}

impl LanguageModel for ScriptedModel {
    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn context_len(&self) -> usize {
        self.context_len
    }

    fn open(&mut self) -> SequenceId {
        let id = SequenceId(self.next);
        self.next += 1;
        self.sequences.insert(id, Vec::new());
        id
    }

    fn adapters(&self) -> &[String] {
        &self.adapters
    }

    fn open_with(&mut self, adapter: AdapterId) -> Result<SequenceId, ModelError> {
        if adapter.index() >= self.adapters.len() {
            return Err(ModelError::unknown_adapter(adapter, self.adapters.len()));
        }
        let id = self.open();
        self.adapted.insert(id, adapter);
        Ok(id)
    }

    fn close(&mut self, sequence: SequenceId) {
        self.sequences.remove(&sequence);
        self.adapted.remove(&sequence);
    }

    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError> {
        let tokens =
            self.sequences.get_mut(&sequence).ok_or_else(|| ModelError::unknown_sequence(sequence))?;
        tokens.truncate(len);
        Ok(())
    }

    fn prompt_grain(&self) -> usize {
        self.grain
    }

    fn can_fork(&self) -> bool {
        true
    }

    fn is_batch_invariant(&self) -> bool {
        true
    }

    fn fork(&mut self, sequence: SequenceId, len: usize) -> Result<SequenceId, ModelError> {
        let tokens = self.sequences.get(&sequence).ok_or_else(|| ModelError::unknown_sequence(sequence))?;
        let tokens = tokens[..len.min(tokens.len())].to_vec();
        let id = self.open();
        self.sequences.insert(id, tokens);
        if let Some(&adapter) = self.adapted.get(&sequence) {
            self.adapted.insert(id, adapter);
        }
        Ok(id)
    }

    fn kv_bytes_per_token(&self) -> usize {
        size_of::<TokenId>()
    }

    /// Returns the logits after each token as hidden states, so the hidden size is the vocabulary
    /// size.
    fn hidden_states(&mut self, sequence: SequenceId, tokens: &[TokenId]) -> Result<Vec<f32>, ModelError> {
        let mut states = Vec::new();
        for token in tokens {
            let run = Run { sequence, tokens: &[*token], role: Role::Prompt, wanted: Wanted::All };
            states.extend_from_slice(self.forward(&Batch { runs: vec![run] })?.row(0));
        }
        Ok(states)
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        let len = |sequence| self.sequences.get(&sequence).map(Vec::len);
        batch.check(len, self.vocab_size, self.context_len)?;
        let mut rows = Vec::with_capacity(batch.runs.len());
        for run in &batch.runs {
            let Some(tokens) = self.sequences.get_mut(&run.sequence) else { continue };
            tokens.extend_from_slice(run.tokens);
            let wanted = run.wanted.rows();
            let moved = self.adapted.get(&run.sequence).map_or(0, |adapter| adapter.index() + 1);
            let is_largest = matches!(run.wanted, Wanted::Largest(_));
            let first = tokens.len() + 1 - wanted.len();
            let row = |(index, wanted)| {
                let mut row = vec![0.0; self.vocab_size];
                (self.script)(&tokens[..first + index], &mut row);
                row.rotate_right(moved);
                let row = masked(row, wanted);
                if is_largest { largest(row) } else { row }
            };
            rows.push(wanted.into_iter().enumerate().map(row).collect());
        }
        Ok(Logits::new(rows))
    }
}

/// Returns `row` with all logits set to `-inf`, except those equal to the largest finite logit.
/// [`Wanted::Largest`] permits this.
fn largest(mut row: Vec<f32>) -> Vec<f32> {
    let largest = row.iter().copied().filter(|logit| logit.is_finite()).fold(f32::NEG_INFINITY, f32::max);
    for logit in row.iter_mut().filter(|logit| **logit < largest) {
        *logit = f32::NEG_INFINITY;
    }
    row
}
