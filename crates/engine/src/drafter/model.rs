//! Drafts of a draft model, which reads the texts of the sequences.

use std::time::Instant;

use formwork_lm::{Batch, LanguageModel, Role, Run, SequenceId, Wanted};
use formwork_vocab::TokenId;

use super::{Average, Costs, Drafting, FEW};
use crate::error::{GenerationError, GenerationKind};
use crate::sequence::Sequence;

/// Minimum and maximum number of tokens of texts that the draft model reads in a step, apart from the
/// tokens that it drafts.
const READ: std::ops::RangeInclusive<usize> = 16..=512;
/// Share of the time of the large model's pass that reading may take.
const READ_SHARE: f64 = 0.5;
/// A text is not read if it has more unread tokens than this number for each token that the sequence
/// may still generate.
const WORTH: usize = 32;
/// Minimum number of tokens of a fork. Fewer are read again.
const FORK: usize = 32;

/// A draft model with the texts that it has read.
pub(super) struct DraftModel {
    model: Box<dyn LanguageModel>,
    /// Texts that the model has read, the least recently used first.
    texts: Vec<Text>,
    /// Number of tokens of both models' vocabularies.
    vocabulary: usize,
    /// Maximum number of tokens of texts whose sequences have ended.
    kept_tokens: usize,
    /// Average time to read a token of a longer text, in seconds.
    reading: Average,
}

/// A text that the draft model has read.
struct Text {
    id: SequenceId,
    /// Order of the sequence that has the text, or had it last.
    owner: u64,
    tokens: Vec<TokenId>,
}

impl Text {
    /// Returns the number of first tokens that a sequence shares. Its last token does not count.
    fn common(&self, sequence: &Sequence) -> usize {
        let tokens = sequence.tokens();
        let before = &tokens[..tokens.len() - 1];
        self.tokens.iter().zip(before).take_while(|(own, token)| own == token).count()
    }
}

/// A sequence for which tokens are being drafted, and its text.
struct Reading<'a> {
    drafting: Drafting<'a>,
    text: Text,
}

impl DraftModel {
    /// Creates a draft model without texts. `vocabulary` is the number of tokens of both models'
    /// vocabularies; `kept_bytes` limits the keys and values of texts whose sequences have ended.
    pub(super) fn new(model: Box<dyn LanguageModel>, vocabulary: usize, kept_bytes: usize) -> Self {
        Self {
            vocabulary,
            kept_tokens: kept_bytes / model.kv_bytes_per_token().max(1),
            model,
            texts: Vec::new(),
            reading: Average::default(),
        }
    }

    /// Closes the texts whose sequences have ended.
    pub(super) fn clear(&mut self, running: &[Sequence]) {
        self.keep(running, 0);
    }

    /// Drafts at most `most` tokens for each of the sequences that have no drafts.
    ///
    /// # Errors
    /// Returns an error if the draft model fails.
    pub(super) fn draft(
        &mut self,
        costs: &mut Costs,
        sequences: &mut [Sequence],
        most: usize,
    ) -> Result<(), GenerationError> {
        let running: Vec<u64> = sequences.iter().map(Sequence::order).collect();
        let generating = sequences.iter().filter(|sequence| sequence.need().is_generated()).count();
        let cost = costs.of(generating);
        let mut planned = Vec::new();
        for sequence in sequences.iter_mut() {
            let room = self.model.context_len().saturating_sub(sequence.tokens().len());
            let count = sequence.plan_drafts(cost, most).min(room);
            let is_readable = sequence.tokens().iter().all(|token| token.index() < self.vocabulary);
            if count > 0 && is_readable {
                self.ensure_text(sequence, &running)?;
                planned.push((sequence, count));
            }
        }
        let mut to_read = self.tokens_to_read(costs.large);
        let mut all = Vec::new();
        for (sequence, count) in planned {
            let Some(text) = self.take_text(sequence)? else { continue };
            let unread = &sequence.tokens()[text.tokens.len()..];
            // The rest of a long text is read in later steps.
            let read = unread.len().min(FEW + to_read);
            let is_worth_it = unread.len() <= WORTH * sequence.remaining().max(1);
            if read == 0 || !is_worth_it {
                self.texts.push(text);
                continue;
            }
            to_read -= read.saturating_sub(FEW);
            let count = if read == unread.len() { count } else { 0 };
            let unread = unread[..read].to_vec();
            let drafting = Drafting { ahead: sequence.look_ahead(), sequence, unread, count };
            all.push(Reading { drafting, text });
        }
        if all.is_empty() {
            costs.fade();
        }
        while !all.is_empty() {
            self.pass(costs, &mut all)?;
            let (rest, ended): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|reading| reading.drafting.count > 0);
            self.texts.extend(ended.into_iter().map(|reading| reading.text));
            all = rest;
        }
        self.keep(sequences, self.kept_tokens);
        Ok(())
    }

    /// Returns the number of tokens of texts that may be read in a step.
    fn tokens_to_read(&self, large: Average) -> usize {
        let tokens = match (self.reading.0, large.0) {
            (Some(reading), Some(large)) if reading > 0.0 => (READ_SHARE * large / reading) as usize,
            _ => *READ.start(),
        };
        tokens.clamp(*READ.start(), *READ.end())
    }

    /// Closes the least recently used texts of ended sequences, until the others have at most `most`
    /// tokens.
    fn keep(&mut self, running: &[Sequence], most: usize) {
        let mut kept = 0;
        for index in (0..self.texts.len()).rev() {
            let text = &self.texts[index];
            if running.iter().any(|sequence| sequence.order() == text.owner) {
                continue;
            }
            if kept + text.tokens.len() > most {
                self.model.close(text.id);
                self.texts.remove(index);
            } else {
                kept += text.tokens.len();
            }
        }
    }

    /// Gives a sequence without a text that of a sequence that has ended, or a fork of another's, or an
    /// empty one. Must be called for all sequences of a step before texts are taken.
    fn ensure_text(&mut self, sequence: &Sequence, running: &[u64]) -> Result<(), GenerationError> {
        let owner = sequence.order();
        if self.texts.iter().any(|text| text.owner == owner) {
            return Ok(());
        }
        let shared = self.texts.iter().map(|text| text.common(sequence)).enumerate();
        let best = shared.max_by_key(|&(_, common)| common).filter(|&(_, common)| common >= FORK);
        let text = match best {
            Some((index, _)) if !running.contains(&self.texts[index].owner) => {
                self.texts[index].owner = owner;
                return Ok(());
            }
            Some((index, common)) if self.model.can_fork() => self.fork(index, common, owner)?,
            _ => Text { id: self.model.open(), owner, tokens: Vec::new() },
        };
        self.texts.push(text);
        Ok(())
    }

    /// Takes the text of a sequence, less what is not a beginning of it. The last token of the sequence
    /// is never part of the text.
    fn take_text(&mut self, sequence: &Sequence) -> Result<Option<Text>, GenerationError> {
        let own = self.texts.iter().position(|text| text.owner == sequence.order());
        let Some(mut text) = own.map(|index| self.texts.remove(index)) else { return Ok(None) };
        let common = text.common(sequence);
        if common < text.tokens.len() {
            self.model.truncate(text.id, common).map_err(GenerationKind::model)?;
            text.tokens.truncate(common);
        }
        Ok(Some(text))
    }

    /// Returns a text with the first `len` tokens of the text at `index`.
    fn fork(&mut self, index: usize, len: usize, owner: u64) -> Result<Text, GenerationError> {
        let text = &self.texts[index];
        let id = self.model.fork(text.id, len).map_err(GenerationKind::model)?;
        Ok(Text { id, owner, tokens: text.tokens[..len].to_vec() })
    }

    /// Reads what is unread in one pass, and drafts a token for each sequence that has tokens to draft.
    fn pass(&mut self, costs: &mut Costs, all: &mut [Reading<'_>]) -> Result<(), GenerationError> {
        let started = Instant::now();
        let runs = all.iter().map(|Reading { drafting, text }| Run {
            sequence: text.id,
            tokens: &drafting.unread,
            role: if drafting.unread.len() > FEW { Role::Prompt } else { Role::Generated },
            wanted: match drafting.count {
                0 => Wanted::Nothing,
                _ => Wanted::Largest(drafting.ahead.mask()),
            },
        });
        let logits = self.model.forward(&Batch { runs: runs.collect() }).map_err(GenerationKind::model)?;
        let seconds = started.elapsed().as_secs_f64();
        let lens = all.iter().map(|reading| reading.drafting.unread.len());
        let tokens: usize = lens.clone().sum();
        if lens.clone().all(|len| len <= FEW) {
            costs.own.note(seconds);
        } else if tokens >= *READ.start() {
            self.reading.note(seconds / tokens as f64);
        }
        for (index, Reading { drafting, text }) in all.iter_mut().enumerate() {
            text.tokens.append(&mut drafting.unread);
            if drafting.count > 0 {
                drafting.push_likeliest(logits.row(index), self.vocabulary);
            }
        }
        self.model.recycle(logits);
        Ok(())
    }
}
