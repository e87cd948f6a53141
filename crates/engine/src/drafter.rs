//! Drafts from a smaller model with the same vocabulary.
//!
//! Before each pass of the large model, the small one continues the sequences by a few tokens. It
//! chooses its likeliest token among those that the constraint allows. The large model checks all
//! drafts of a sequence in one pass, so wrong drafts cost time but change nothing.

use std::time::{Duration, Instant};

use formwork_lm::{Batch, LanguageModel, ModelError, Role, Run, SequenceId, Wanted};
use formwork_vocab::TokenId;

use crate::lookup::check_cost;
use crate::sequence::{Ahead, Sequence};

/// Weight of the latest pass in an average time.
const WEIGHT: f64 = 0.1;
/// Maximum number of unread tokens in a pass that is timed. The first pass of a step reads the tokens
/// that the large model has just chosen.
const FEW: usize = 4;
/// Cost of drafting a token before it has been measured, relative to a pass with one token.
const UNKNOWN: f32 = 0.2;

/// A draft model with the texts that it has read.
pub(crate) struct Drafter {
    model: Box<dyn LanguageModel>,
    /// Texts that the model has read, the least recently used first.
    texts: Vec<Text>,
    /// Maximum number of texts.
    places: usize,
    /// Maximum number of tokens that a text is behind its sequence when drafting starts. Longer gaps
    /// are read over several passes.
    step_tokens: usize,
    /// Average time of a pass that drafts a token, in seconds.
    own: Average,
    /// Average time of the large model's passes with one token per sequence, in seconds.
    large: Average,
}

/// A text that the draft model has read.
struct Text {
    id: SequenceId,
    tokens: Vec<TokenId>,
}

/// A sequence for which tokens are being drafted.
struct Drafting<'a> {
    sequence: &'a mut Sequence,
    ahead: Ahead,
    text: Text,
    /// Tokens of the sequence and its drafts that the draft model has not read.
    unread: Vec<TokenId>,
    /// Number of tokens still to draft.
    count: usize,
}

/// Average of times, in which later ones count more.
#[derive(Clone, Copy, Default)]
struct Average(Option<f64>);

impl Average {
    fn note(&mut self, time: Duration, share: f64) {
        let seconds = time.as_secs_f64() * share;
        self.0 = Some(self.0.map_or(seconds, |known| known + WEIGHT * (seconds - known)));
    }
}

impl Drafter {
    pub(crate) fn new(model: Box<dyn LanguageModel>, places: usize, step_tokens: usize) -> Self {
        Self {
            model,
            texts: Vec::new(),
            places: places.max(1),
            step_tokens: step_tokens.max(1),
            own: Average::default(),
            large: Average::default(),
        }
    }

    /// Records the time of a pass of the large model in which `sequences` sequences read `tokens`
    /// generated or drafted tokens.
    pub(crate) fn note_pass(&mut self, time: Duration, sequences: usize, tokens: usize) {
        let drafts = tokens.saturating_sub(sequences) as f32;
        let share = 1.0 / check_cost(1).mul_add(drafts, 1.0);
        self.large.note(time, f64::from(share));
    }

    /// Drafts at most `most` tokens for each of the sequences that have no drafts.
    ///
    /// # Errors
    /// Returns an error if the draft model fails. It should not be used any more then.
    pub(crate) fn draft(&mut self, sequences: &mut [Sequence], most: usize) -> Result<(), ModelError> {
        let generating = sequences.iter().filter(|sequence| sequence.need().is_generated()).count();
        let cost = check_cost(generating) + self.cost();
        let mut all = Vec::new();
        for sequence in sequences {
            let count = sequence.plan_drafts(cost, most).min(self.room(sequence.tokens().len()));
            if count == 0 {
                continue;
            }
            let text = self.take_text(sequence.tokens())?;
            let unread = sequence.tokens()[text.tokens.len()..].to_vec();
            all.push(Drafting { ahead: sequence.look_ahead(), sequence, text, unread, count });
        }
        let mut done = Vec::new();
        while !all.is_empty() {
            self.pass(&mut all)?;
            let (rest, ended): (Vec<_>, Vec<_>) = all.into_iter().partition(|drafting| drafting.count > 0);
            done.extend(ended.into_iter().map(|drafting| drafting.text));
            all = rest;
        }
        self.texts.extend(done);
        while self.texts.len() > self.places {
            let oldest = self.texts.remove(0);
            self.model.close(oldest.id);
        }
        Ok(())
    }

    /// Returns the time to draft a token, relative to the large model's time for one.
    fn cost(&self) -> f32 {
        match (self.own.0, self.large.0) {
            (Some(own), Some(large)) if large > 0.0 => (own / large) as f32,
            _ => UNKNOWN,
        }
    }

    /// Returns the number of tokens that fit in the draft model's context after `len` tokens.
    fn room(&self, len: usize) -> usize {
        self.model.context_len().saturating_sub(len)
    }

    /// Takes the text that has the longest beginning in common with `tokens`, less what follows it.
    /// The last of the tokens is never part of the text.
    fn take_text(&mut self, tokens: &[TokenId]) -> Result<Text, ModelError> {
        let before = &tokens[..tokens.len() - 1];
        let common = |text: &Text| text.tokens.iter().zip(before).take_while(|(a, b)| a == b).count();
        let best = self.texts.iter().map(common).enumerate().max_by_key(|&(_, common)| common);
        // A text that shares only little may soon be continued by its own sequence.
        let is_own = |&(index, common): &(usize, usize)| 2 * common > self.texts[index].tokens.len();
        let Some((index, common)) = best.filter(is_own) else {
            return Ok(Text { id: self.model.open(), tokens: Vec::new() });
        };
        let mut text = self.texts.remove(index);
        if common < text.tokens.len() {
            self.model.truncate(text.id, common)?;
            text.tokens.truncate(common);
        }
        Ok(text)
    }

    /// Reads what is unread in one pass, and drafts a token for each sequence of which nothing is left
    /// unread then.
    fn pass(&mut self, all: &mut [Drafting<'_>]) -> Result<(), ModelError> {
        let started = Instant::now();
        let limit = self.step_tokens;
        let is_short = |drafting: &Drafting<'_>| drafting.unread.len() <= limit;
        let runs = all.iter().map(|drafting| Run {
            sequence: drafting.text.id,
            tokens: &drafting.unread[..drafting.unread.len().min(limit)],
            role: if drafting.unread.len() > 1 { Role::Prompt } else { Role::Generated },
            wanted: if is_short(drafting) { Wanted::Largest(drafting.ahead.mask()) } else { Wanted::Nothing },
        });
        let logits = self.model.forward(&Batch { runs: runs.collect() })?;
        // Reading a longer part of a prompt takes longer than drafting.
        let is_typical = all.iter().all(|drafting| drafting.unread.len() <= FEW);
        for (index, drafting) in all.iter_mut().enumerate() {
            let read = drafting.unread.len().min(limit);
            drafting.text.tokens.extend(drafting.unread.drain(..read));
            let vocabulary = drafting.sequence.vocabulary_len();
            drafting.count = match likeliest(logits.row(index), vocabulary) {
                Some(token) if drafting.sequence.push_draft(&mut drafting.ahead, token) => {
                    drafting.unread.push(token);
                    drafting.count - 1
                }
                _ => 0,
            };
        }
        self.model.recycle(logits);
        if is_typical {
            self.own.note(started.elapsed(), 1.0);
        }
        Ok(())
    }
}

/// Returns the token with the largest finite logit among the first `vocabulary`.
fn likeliest(row: &[f32], vocabulary: usize) -> Option<TokenId> {
    let row = &row[..row.len().min(vocabulary)];
    let (index, logit) = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))?;
    logit.is_finite().then_some(TokenId(index as u32))
}
