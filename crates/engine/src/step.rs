//! One step: what is scheduled goes through the model, and what comes of it to the sequences.

use std::time::{Duration, Instant};

use formwork_lm::{Batch, Logits, Role, Run, Wanted, masked};

use crate::Engine;
use crate::engine::contained;
use crate::error::{GenerationError, GenerationKind};
use crate::scheduler::{self, Need};
use crate::sequence::{Feed, Progress, Sequence};

/// Tokens of a prompt that is short: all of these share a pass, but of longer ones the oldest alone. By count, reading the weights takes a
/// quarter as long as computing so many, and more of fewer; for those that generate, the step is as long either way.
const SHORT: usize = 32;

/// What a sequence reads in a step.
struct Turn {
    sequence: Sequence,
    /// Tokens at most, beside those that were drafted.
    count: usize,
    /// Those that wait for the end of its prompt, which is theirs, too.
    followers: Vec<Sequence>,
}

impl Turn {
    /// The turn of a sequence that none follows.
    const fn new(sequence: Sequence, count: usize) -> Self {
        Self { sequence, count, followers: Vec::new() }
    }

    fn feed(&self) -> Feed<'_> {
        self.sequence.feed(self.count)
    }

    fn generates(&self) -> bool {
        self.sequence.need().is_generated()
    }

    /// Whether it reads the end of its prompt.
    fn ends_prompt(&self) -> bool {
        matches!(self.sequence.need(), Need::Prompt { read, len } if self.count >= len - read)
    }
}

impl Engine {
    /// Feeds the running sequences: those that generate in one forward pass, with short prompts or else the oldest of the others where
    /// results do not depend on what shares it, and other prompts in one each. Together these would take as long, and the first of them
    /// would wait for the last; and a prompt that goes alone fails alone, which one that goes with others does not (see `forward`).
    pub(crate) fn step(&mut self, rests: bool) {
        self.drop_unreadable();
        self.use_cache();
        self.draft();
        let needs = self.needs();
        let is_awaited = needs.iter().any(|need| need.is_generated());
        let for_prompts = if rests { 0 } else { self.prompt_tokens(is_awaited) };
        let grain = self.model.prompt_grain();
        let counts = scheduler::tokens(&needs, self.options.step_tokens, for_prompts, grain);
        let (mut together, mut alone) = self.turns(needs, counts);
        self.gather_followers(together.iter_mut().chain(&mut alone));
        let reads_prompts = together.iter().chain(&alone).any(|turn| !turn.generates());
        let started = Instant::now();
        if !together.is_empty() {
            self.forward(together);
        }
        for turn in alone {
            self.forward(vec![turn]);
        }
        self.note_time(started.elapsed(), reads_prompts && is_awaited);
        self.running.sort_by_key(Sequence::order);
    }

    /// Returns true if the next step reads no prompt, because generating sequences have not had their half of
    /// the time.
    pub(crate) fn owes(&mut self) -> bool {
        if !self.running.iter().any(|sequence| sequence.need().is_generated()) {
            self.owed = Duration::ZERO;
        }
        !self.owed.is_zero()
    }

    /// Records the time of a step. Prompts get as much time as generating sequences get alone.
    fn note_time(&mut self, time: Duration, is_lost: bool) {
        let is_timed = self.options.step_time < Duration::MAX;
        self.owed = if is_lost && is_timed { self.owed + time } else { self.owed.saturating_sub(time) };
    }

    /// Returns the approximate number of tokens in a step with prompts. It is smaller if generating sequences
    /// wait.
    pub(crate) fn prompt_tokens(&self, is_awaited: bool) -> usize {
        let in_time = if is_awaited { self.pace.tokens(self.options.step_time) } else { usize::MAX };
        self.options.step_tokens.min(in_time)
    }

    /// The turns of a pass that is shared, and those of a pass each. Sequences without one go on running.
    fn turns(&mut self, needs: Vec<Need>, counts: Vec<usize>) -> (Vec<Turn>, Vec<Turn>) {
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        for ((sequence, need), count) in std::mem::take(&mut self.running).into_iter().zip(needs).zip(counts)
        {
            let goes_alone = sequence.is_suspect();
            match need {
                Need::Generated(_) if !goes_alone => together.push(Turn::new(sequence, count)),
                Need::Generated(_) => alone.push(Turn::new(sequence, count)),
                Need::Prompt { .. } if count > 0 => {
                    let goes_alone = goes_alone || count > SHORT || !self.model.is_batch_invariant();
                    let turns = if goes_alone { &mut alone } else { &mut together };
                    turns.push(Turn::new(sequence, count));
                }
                Need::Prompt { .. } | Need::Nothing => self.running.push(sequence),
            }
        }
        // A prompt of any length reads the weights along with those that generate. A step takes no longer for it, but their tokens come at
        // its end.
        if !together.is_empty()
            && self.model.is_batch_invariant()
            && together.iter().all(Turn::generates)
            && let Some(oldest) =
                alone.iter().position(|turn| !turn.generates() && !turn.sequence.is_suspect())
        {
            together.push(alone.remove(oldest));
        }
        (together, alone)
    }

    /// Has the sequences that wait for what others read go with them, where these come to the end of it.
    fn gather_followers<'t>(&mut self, turns: impl Iterator<Item = &'t mut Turn>) {
        if !self.model.can_fork() {
            return;
        }
        for turn in turns.filter(|turn| turn.ends_prompt()) {
            let follows = |other: &mut Sequence| turn.sequence.reads_as(other);
            turn.followers = self.running.extract_if(.., follows).collect();
        }
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
        let generating = |sequence: &&Sequence| sequence.need().is_generated();
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

    /// One forward pass. Where it fails, a sequence that was alone in it has failed; several read everything again and go on
    /// alone, so that only those end which the fault is in, and so do those that waited for a prompt of it.
    fn forward(&mut self, turns: Vec<Turn>) {
        let logits = self.pass(&turns);
        let is_alone = turns.len() == 1;
        for (index, turn) in turns.into_iter().enumerate() {
            match &logits {
                Ok(logits) => self.take_turn(turn, logits.rows(index)),
                Err(error) => {
                    let mut again = turn.followers;
                    if is_alone {
                        self.settle(turn.sequence, Err(error.clone()));
                    } else {
                        again.push(turn.sequence);
                    }
                    for mut sequence in again {
                        self.model.close(sequence.id);
                        sequence.start_over(self.model.open());
                        self.running.push(sequence);
                    }
                }
            }
        }
        if let Ok(logits) = logits {
            let model = &mut self.model;
            let recycled = contained(|| {
                model.recycle(logits);
                Ok(())
            });
            if let Err(error) = recycled {
                tracing::debug!(%error, "logits could not be given back");
            }
        }
    }

    /// Gives a sequence what came of its turn. Those that wait for the end of its prompt get that: the keys and values are what they
    /// would have computed themselves, and so are the logits.
    fn take_turn(&mut self, turn: Turn, rows: &[Vec<f32>]) {
        let ends_prompt = turn.ends_prompt();
        let Turn { mut sequence, count, followers } = turn;
        if ends_prompt {
            self.keep(&sequence, sequence.prompt().len());
        }
        let is_followed = !followers.is_empty();
        for mut follower in followers {
            let progress = self.follow(&mut follower, &sequence, rows);
            self.settle(follower, progress);
        }
        let feed = sequence.feed(count);
        let fed = feed.tokens.len();
        let progress = if is_followed {
            let rows = wanted_rows(&feed, rows);
            contained(|| sequence.take_rows(fed, &rows, false))
        } else {
            let is_partial = self.takes_largest(&feed);
            self.take_rows(&mut sequence, fed, rows, is_partial)
        };
        self.settle(sequence, progress);
    }

    /// Gives a sequence the rows that it wanted, and takes back from the model what was drafted and not chosen, or has to be read
    /// again.
    fn take_rows(
        &mut self,
        sequence: &mut Sequence,
        count: usize,
        rows: &[Vec<f32>],
        is_partial: bool,
    ) -> Result<Progress, GenerationError> {
        let fed = sequence.read() + count;
        let progress = contained(|| sequence.take_rows(count, rows, is_partial))?;
        if sequence.read() < fed && matches!(progress, Progress::Running) {
            self.model.truncate(sequence.id, sequence.read()).map_err(GenerationKind::model)?;
        }
        Ok(progress)
    }

    /// The logits that sequences want: whole rows, where others want them, too.
    fn pass(&mut self, turns: &[Turn]) -> Result<Logits, GenerationError> {
        let feeds: Vec<Feed<'_>> = turns.iter().map(Turn::feed).collect();
        let runs = turns.iter().zip(&feeds).map(|(turn, feed)| Run {
            sequence: turn.sequence.id,
            tokens: &feed.tokens,
            role: feed.role,
            wanted: match feed.rows[..] {
                _ if !turn.followers.is_empty() => Wanted::All,
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
        let time = started.elapsed();
        let prompts = feeds.iter().filter(|feed| feed.role == Role::Prompt);
        let read: usize = prompts.map(|feed| feed.tokens.len()).sum();
        if logits.is_ok() {
            self.pace.note(feeds.iter().map(|feed| feed.tokens.len()).sum(), time);
        }
        let mut stats = self.stats();
        stats.note_pass(time, feeds.len());
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
    pub(crate) fn step_embedding(&mut self, rests: bool) {
        if rests {
            return;
        }
        let is_awaited = self.running.iter().any(|sequence| sequence.need().is_generated());
        let Some(mut embedding) = self.embeddings.pop_front() else { return };
        let (read, len) = embedding.progress();
        let grain = self.model.prompt_grain();
        let count = match scheduler::piece(read, len, self.prompt_tokens(is_awaited), grain) {
            0 => scheduler::piece(read, len, grain, grain),
            count => count,
        };
        let started = Instant::now();
        let model = &mut *self.model;
        let result = contained(|| embedding.read(model, count));
        let time = started.elapsed();
        if is_awaited {
            self.note_time(time, true);
        }
        if result.is_ok() {
            self.pace.note(count, time);
        }
        let mut stats = self.stats();
        stats.note_pass(time, 1);
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
