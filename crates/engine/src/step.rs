//! One step: what is scheduled goes through the model, and what comes of it to the sequences.

use std::time::Instant;

use formwork_lm::{Batch, Logits, Role, Run, Wanted, masked};

use crate::Engine;
use crate::engine::contained;
use crate::error::{GenerationError, GenerationKind};
use crate::scheduler::{self, Need};
use crate::sequence::{Feed, Progress, Sequence};

impl Engine {
    /// Feeds the running sequences: those that generate in one forward pass, and prompts in one each, since models read them
    /// one after the other anyway, and one that fails then fails alone.
    pub(crate) fn step(&mut self) {
        self.drop_unreadable();
        self.use_cache();
        self.draft();
        let needs = self.needs();
        let counts = scheduler::prompt_tokens(&needs, self.options.step_tokens, self.model.prompt_grain());
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        for ((sequence, need), count) in std::mem::take(&mut self.running).into_iter().zip(needs).zip(counts)
        {
            match need {
                Need::Generated(_) if !sequence.is_suspect() => together.push(sequence),
                Need::Generated(_) => alone.push((sequence, 0)),
                Need::Prompt { .. } if count > 0 => alone.push((sequence, count)),
                Need::Prompt { .. } | Need::Nothing => self.running.push(sequence),
            }
        }
        if !together.is_empty() {
            self.forward(together);
        }
        for (sequence, count) in alone {
            match sequence.need() {
                Need::Prompt { .. } => self.read_prompt(sequence, count),
                _ => self.forward(vec![sequence]),
            }
        }
        self.running.sort_by_key(Sequence::order);
    }

    /// Lets prompts begin with what was read of others.
    fn use_cache(&mut self) {
        for sequence in &mut self.running {
            let Need::Prompt { read, .. } = sequence.need() else { continue };
            let (cache, model) = (&mut self.cache, &mut *self.model);
            let fork = || Ok(cache.fork(model, sequence.prompt(), read).map_err(GenerationKind::model)?);
            match contained(fork) {
                Ok(Some((id, len))) => {
                    self.model.close(sequence.id);
                    sequence.resume(id, len);
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "a prefix could not be used"),
            }
        }
    }

    /// Drafts tokens for those that generate.
    fn draft(&mut self) {
        /// The most tokens, where nothing is said of it.
        const MOST: usize = 8;
        let unasked = if self.model.is_batch_invariant() { MOST } else { 0 };
        let most = self.options.speculate.unwrap_or(unasked);
        if most == 0 || !self.model.can_fork() {
            return;
        }
        let generating = |sequence: &&Sequence| matches!(sequence.need(), Need::Generated(_));
        let sequences = self.running.iter().filter(generating).count();
        for mut sequence in std::mem::take(&mut self.running) {
            let drafted = contained(|| {
                sequence.draft(most, sequences);
                Ok(())
            });
            match drafted {
                Ok(()) => self.running.push(sequence),
                Err(error) => self.settle(sequence, Err(error)),
            }
        }
    }

    /// What the running sequences need. One whose whole prompt is being read for another waits for that.
    fn needs(&self) -> Vec<Need> {
        let can_follow = self.model.can_fork();
        let need = |(index, sequence): (usize, &Sequence)| {
            let follows = self.running[..index].iter().any(|leader| leader.reads_as(sequence));
            if can_follow && follows { Need::Nothing } else { sequence.need() }
        };
        self.running.iter().enumerate().map(need).collect()
    }

    /// Reads the next `count` tokens of a prompt. Those that wait for its end get what came of it: the keys and values are
    /// what they would have computed themselves, and so are the logits.
    fn read_prompt(&mut self, mut sequence: Sequence, count: usize) {
        let is_whole = sequence.feed(count).tokens.len() == sequence.prompt().len() - sequence.read();
        let (followers, others) = std::mem::take(&mut self.running)
            .into_iter()
            .partition::<Vec<_>, _>(|other| is_whole && self.model.can_fork() && sequence.reads_as(other));
        self.running = others;
        let logits = self.pass(std::slice::from_ref(&(&sequence, count)), !followers.is_empty());
        let logits = match logits {
            Ok(logits) => logits,
            Err(error) => {
                self.running.extend(followers);
                return self.settle(sequence, Err(error));
            }
        };
        if is_whole {
            self.keep(&sequence, sequence.prompt().len());
        }
        for mut follower in followers {
            let progress = self.follow(&mut follower, &sequence, logits.rows(0));
            self.settle(follower, progress);
        }
        let rows = wanted_rows(&sequence.feed(count), logits.rows(0));
        let progress = contained(|| sequence.take_rows(count, &rows, false));
        self.settle(sequence, progress);
    }

    /// Takes what was read of a prompt that is broken off into the cache: who gave up may ask again.
    pub(crate) fn keep_begun(&mut self, sequence: &Sequence) {
        if let Need::Prompt { read, .. } = sequence.need() {
            self.keep(sequence, read);
        }
    }

    /// Takes the first `read` tokens of a sequence's prompt, which are read, into the cache.
    fn keep(&mut self, sequence: &Sequence, read: usize) {
        let (cache, model) = (&mut self.cache, &mut *self.model);
        let insert = || {
            let inserted = cache.insert(model, &sequence.prompt()[..read], sequence.id);
            Ok(inserted.map_err(GenerationKind::model)?)
        };
        if let Err(error) = contained(insert) {
            tracing::debug!(%error, "a prefix could not be kept");
        }
        self.stats().cache_tokens = self.cache.tokens();
    }

    /// Gives a sequence what another one has read, its own prompt, with the logits after it.
    fn follow(
        &mut self,
        follower: &mut Sequence,
        leader: &Sequence,
        rows: &[Vec<f32>],
    ) -> Result<Progress, GenerationError> {
        let len = leader.prompt().len();
        let model = &mut *self.model;
        let fork = contained(|| Ok(model.fork(leader.id, len).map_err(GenerationKind::model)?))?;
        self.model.close(follower.id);
        let rows = wanted_rows(&follower.feed(usize::MAX), rows);
        follower.resume(fork, len);
        contained(|| follower.take_rows(0, &rows, false))
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

    /// One forward pass of sequences that generate. Where it fails, a sequence that was alone in it has failed; several read
    /// everything again and go on alone, so that only those end which the fault is in.
    fn forward(&mut self, scheduled: Vec<Sequence>) {
        let feeds: Vec<(&Sequence, usize)> = scheduled.iter().map(|sequence| (sequence, 0)).collect();
        let logits = self.pass(&feeds, false);
        let is_alone = scheduled.len() == 1;
        for (index, mut sequence) in scheduled.into_iter().enumerate() {
            let count = sequence.feed(0).tokens.len();
            let progress = match &logits {
                Ok(logits) => self.take_rows(&mut sequence, count, logits.rows(index)),
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

    /// Gives a sequence the rows that it wanted, and takes back from the model what was drafted and not chosen, or has to be read
    /// again.
    fn take_rows(
        &mut self,
        sequence: &mut Sequence,
        count: usize,
        rows: &[Vec<f32>],
    ) -> Result<Progress, GenerationError> {
        let fed = sequence.read() + count;
        let is_partial = self.takes_largest(&sequence.feed(0));
        let progress = contained(|| sequence.take_rows(count, rows, is_partial))?;
        if sequence.read() < fed && matches!(progress, Progress::Running) {
            self.model.truncate(sequence.id, sequence.read()).map_err(GenerationKind::model)?;
        }
        Ok(progress)
    }

    /// The logits that sequences want, each with how many tokens of its prompt it may read; `whole` rows, if so asked.
    fn pass(&mut self, scheduled: &[(&Sequence, usize)], whole: bool) -> Result<Logits, GenerationError> {
        let feeds: Vec<Feed<'_>> = scheduled.iter().map(|(sequence, count)| sequence.feed(*count)).collect();
        let runs = scheduled.iter().zip(&feeds).map(|((sequence, _), feed)| Run {
            sequence: sequence.id,
            tokens: &feed.tokens,
            role: feed.role,
            wanted: match feed.rows[..] {
                _ if whole => Wanted::All,
                [mask] if self.takes_largest(feed) => Wanted::Largest(mask),
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
        let prompts = feeds.iter().filter(|feed| feed.role == Role::Prompt);
        let read: usize = prompts.map(|feed| feed.tokens.len()).sum();
        let mut stats = self.stats();
        stats.note_pass(started.elapsed(), feeds.len());
        stats.prompt_tokens += read as u64;
        drop(stats);
        logits
    }

    /// Whether the largest logit will do: that of a token, not of a row past the vocabulary, and where it costs little to ask again
    /// if it does not.
    fn takes_largest(&self, feed: &Feed<'_>) -> bool {
        let is_masked = feed.rows.iter().all(Option::is_some);
        let has_padding = self.model.vocab_size() > self.tokenizer.vocabulary().len();
        feed.is_greedy && self.model.can_fork() && (is_masked || !has_padding)
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

/// Of whole rows, what a feed wants.
fn wanted_rows(feed: &Feed<'_>, rows: &[Vec<f32>]) -> Vec<Vec<f32>> {
    feed.rows.iter().zip(rows).map(|(wanted, row)| masked(row.clone(), *wanted)).collect()
}
