//! One step: what is scheduled goes through the model, and what comes of it to the sequences.

use std::time::Instant;

use formwork_lm::{Batch, Logits, Role, Run, Wanted};

use crate::Engine;
use crate::engine::contained;
use crate::error::{GenerationError, GenerationKind};
use crate::scheduler::{self, Need};
use crate::sequence::Sequence;

/// A sequence in a step, and how many tokens of its prompt it may read.
type Scheduled = (Sequence, usize);

impl Engine {
    /// Feeds the running sequences: those that generate in one forward pass, and prompts in one each, since models read them
    /// one after the other anyway, and one that fails then fails alone.
    pub(crate) fn step(&mut self) {
        self.drop_unreadable();
        let needs: Vec<Need> = self.running.iter().map(Sequence::need).collect();
        let counts = scheduler::prompt_tokens(&needs, self.options.step_tokens, self.model.prompt_grain());
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        for ((sequence, need), count) in std::mem::take(&mut self.running).into_iter().zip(needs).zip(counts)
        {
            match need {
                Need::Generated(_) if !sequence.is_suspect() => together.push((sequence, 0)),
                Need::Generated(_) => alone.push((sequence, 0)),
                Need::Prompt { .. } if count > 0 => alone.push((sequence, count)),
                Need::Prompt { .. } => self.running.push(sequence),
            }
        }
        if !together.is_empty() {
            self.forward(together);
        }
        for scheduled in alone {
            self.forward(vec![scheduled]);
        }
        self.running.sort_by_key(Sequence::order);
    }

    /// Ends sequences with a token that the model cannot read: they must not take others down with them.
    fn drop_unreadable(&mut self) {
        let limit = self.model.vocab_size();
        for sequence in std::mem::take(&mut self.running) {
            match sequence.unread().iter().find(|token| token.index() >= limit) {
                None => self.running.push(sequence),
                Some(token) => {
                    let error = GenerationKind::NoEmbedding { given: token.0, limit };
                    self.settle(sequence, Err(error.into()));
                }
            }
        }
    }

    /// One forward pass. Where it fails, a sequence that was alone in it has failed; several read everything again and go on
    /// alone, so that only those end which the fault is in.
    fn forward(&mut self, scheduled: Vec<Scheduled>) {
        let (logits, counts) = self.logits(&scheduled);
        let is_alone = scheduled.len() == 1;
        for (index, (mut sequence, _)) in scheduled.into_iter().enumerate() {
            let progress = match &logits {
                Ok(logits) => contained(|| sequence.take_rows(counts[index], logits.rows(index))),
                Err(error) if is_alone => Err(error.clone()),
                Err(_) => {
                    self.model.close(sequence.id);
                    sequence.start_over(self.model.open());
                    self.running.push(sequence);
                    continue;
                }
            };
            self.settle(sequence, progress);
        }
    }

    /// The logits that sequences want, and how many tokens of each went through the model.
    fn logits(&mut self, scheduled: &[Scheduled]) -> (Result<Logits, GenerationError>, Vec<usize>) {
        let feeds: Vec<_> = scheduled.iter().map(|(sequence, count)| sequence.feed(*count)).collect();
        let runs = scheduled.iter().zip(&feeds).map(|((sequence, _), feed)| Run {
            sequence: sequence.id,
            tokens: feed.tokens,
            role: feed.role,
            wanted: match feed.rows[..] {
                [] => Wanted::Nothing,
                [None] => Wanted::All,
                [Some(mask)] => Wanted::Only(mask),
                _ => Wanted::Each(&feed.rows),
            },
        });
        let batch = Batch { runs: runs.collect() };
        let started = Instant::now();
        let model = &mut self.model;
        let logits = contained(|| Ok(model.forward(&batch).map_err(GenerationKind::model)?));
        let counts: Vec<usize> = feeds.iter().map(|feed| feed.tokens.len()).collect();
        let is_prompt = |feed: &crate::sequence::Feed<'_>| feed.role == Role::Prompt;
        let read = feeds.iter().filter(|feed| is_prompt(feed)).map(|feed| feed.tokens.len()).sum::<usize>();
        let mut stats = self.stats();
        stats.note_pass(started.elapsed(), counts.len());
        stats.prompt_tokens += read as u64;
        drop(stats);
        (logits, counts)
    }

    /// Reads a piece of the oldest text that is to be embedded.
    pub(crate) fn step_embedding(&mut self) {
        let Some(mut embedding) = self.embeddings.pop_front() else { return };
        let (read, len) = embedding.progress();
        let grain = self.model.prompt_grain();
        let count = match scheduler::piece(read, len, self.options.step_tokens, grain) {
            0 => scheduler::piece(read, len, grain, grain),
            count => count,
        };
        let started = Instant::now();
        let model = &mut *self.model;
        let result = contained(|| embedding.read(model, count));
        let mut stats = self.stats();
        stats.note_pass(started.elapsed(), 1);
        stats.prompt_tokens += count as u64;
        drop(stats);
        if result.is_ok() && read + count < len {
            return self.embeddings.push_front(embedding);
        }
        self.close_embedding(&embedding);
        embedding.end(result);
    }
}
