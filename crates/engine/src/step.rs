//! One step: runs the scheduled tokens through the model and gives the results to the sequences.

use std::time::{Duration, Instant};

use formwork_lm::{Batch, Logits, Role, Run, TopRequest, Wanted, masked};
use formwork_vocab::TokenSet;

use crate::Engine;
use crate::decision::{DecisionJob, DecisionPass};
use crate::embedding::{Embedding, Reading};
use crate::engine::{contained, open};
use crate::error::{GenerationError, GenerationKind};
use crate::scheduler::{self, Need};
use crate::sequence::{Feed, FeedLogits, LogitsNeed, Progress, Sequence};

/// Maximum length of a short prompt piece, in tokens.
///
/// All short pieces of a step share the pass of the generating sequences. If there are none, the
/// oldest longer piece does. By calculation, reading the weights takes a quarter of the time of
/// computing 32 tokens, and a larger share for fewer tokens. For generating sequences, the step is
/// equally long with or without the short pieces in their pass.
const SHORT: usize = 32;

/// Number of prompt tokens in a step whose logits are computed, rounded up to a multiple of the model's
/// grain. Each row is as long as the vocabulary.
const ROWS: usize = 64;

/// Tokens that a sequence reads in a step.
struct ScheduledRun {
    sequence: Sequence,
    /// Maximum number of tokens, not counting drafts.
    count: usize,
    /// Sequences with the same prompt that wait until this sequence has read it.
    followers: Vec<Sequence>,
}

impl ScheduledRun {
    /// Creates the turn of a sequence without followers.
    const fn new(sequence: Sequence, count: usize) -> Self {
        Self { sequence, count, followers: Vec::new() }
    }

    fn feed(&self) -> Feed<'_> {
        self.sequence.feed(self.count)
    }

    fn generates(&self) -> bool {
        self.sequence.need().is_generated()
    }

    /// Returns true if the turn reads the end of the prompt.
    fn ends_prompt(&self) -> bool {
        matches!(self.sequence.need(), Need::Prompt { read, len } if self.count >= len - read)
    }
}

/// Turns of a step by their forward passes.
#[derive(Default)]
struct Passes {
    /// Turns that share one pass.
    together: Vec<ScheduledRun>,
    /// Turns that get a pass each.
    alone: Vec<ScheduledRun>,
}

impl Engine {
    /// Feeds the running sequences to the model.
    ///
    /// The generating sequences share one forward pass. If the model is batch invariant, the short
    /// prompts join this pass, or else the oldest long prompt. Every other prompt gets a pass of
    /// its own: a shared pass would take as long, and the first prompt would wait for the last. A
    /// prompt that fails alone also affects no other sequence (see `forward`). Sequences of a
    /// failed pass get passes of their own, too.
    pub(crate) fn step(&mut self, rests: bool) {
        let started = Instant::now();
        self.drop_unreadable();
        self.use_cache();
        self.draft();
        let needs = self.needs();
        let is_awaited = needs.iter().any(|need| need.is_generated());
        let for_prompts = if rests { 0 } else { self.prompt_tokens(is_awaited) };
        let grain = self.model.prompt_grain();
        let rows = ROWS.next_multiple_of(grain.max(1));
        // The scheduler sees only as much of a prompt as the step may read of it.
        let readable = |(need, sequence): (&Need, &Sequence)| match *need {
            Need::Prompt { read, len } if sequence.reports_prompt() => {
                Need::Prompt { read, len: len.min(read + rows) }
            }
            need => need,
        };
        let readable: Vec<Need> = needs.iter().zip(&self.running).map(readable).collect();
        let counts = scheduler::tokens(&readable, self.options.step_tokens, for_prompts, grain);
        let Passes { mut together, mut alone } = self.passes(needs, counts);
        self.gather_followers(together.iter_mut().chain(&mut alone));
        let reads_prompts = together.iter().chain(&alone).any(|turn| !turn.generates());
        if !together.is_empty() {
            self.forward(together);
        }
        for turn in alone {
            self.forward(vec![turn]);
        }
        self.note_time(started.elapsed(), reads_prompts && is_awaited);
        self.running.sort_by_key(Sequence::order);
    }

    /// Returns true if the next step reads no prompt, because generating sequences have not had
    /// their half of the time.
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

    /// Returns the approximate number of tokens in a step with prompts. It is smaller if generating
    /// sequences wait.
    pub(crate) fn prompt_tokens(&self, is_awaited: bool) -> usize {
        let in_time = if is_awaited { self.pace.tokens(self.options.step_time) } else { usize::MAX };
        self.options.step_tokens.min(in_time)
    }

    /// Gives each sequence its turn in the shared pass or in a pass of its own.
    ///
    /// Sequences without a turn stay in `running`.
    fn passes(&mut self, needs: Vec<Need>, counts: Vec<usize>) -> Passes {
        let Passes { mut together, mut alone } = Passes::default();
        for ((sequence, need), count) in std::mem::take(&mut self.running).into_iter().zip(needs).zip(counts)
        {
            let goes_alone = sequence.is_suspect();
            match need {
                Need::Generated(_) if !goes_alone => together.push(ScheduledRun::new(sequence, count)),
                Need::Generated(_) => alone.push(ScheduledRun::new(sequence, count)),
                Need::Prompt { .. } if count > 0 => {
                    let goes_alone = goes_alone || count > SHORT || !self.model.is_batch_invariant();
                    let turns = if goes_alone { &mut alone } else { &mut together };
                    turns.push(ScheduledRun::new(sequence, count));
                }
                Need::Prompt { .. } | Need::Nothing => self.running.push(sequence),
            }
        }
        // A prompt of any length shares the weight reads of generating sequences. The step takes no
        // longer, but the generated tokens arrive only at its end.
        if !together.is_empty()
            && self.model.is_batch_invariant()
            && together.iter().all(ScheduledRun::generates)
            && let Some(oldest) =
                alone.iter().position(|turn| !turn.generates() && !turn.sequence.is_suspect())
        {
            together.push(alone.remove(oldest));
        }
        Passes { together, alone }
    }

    /// Attaches waiting sequences to the turn that reads the end of the same prompt.
    fn gather_followers<'t>(&mut self, turns: impl Iterator<Item = &'t mut ScheduledRun>) {
        if !self.model.can_fork() {
            return;
        }
        for turn in turns.filter(|turn| turn.ends_prompt()) {
            let follows = |other: &mut Sequence| turn.sequence.reads_as(other);
            turn.followers = self.running.extract_if(.., follows).collect();
        }
    }

    /// Starts prompts from the longest prefix in the cache.
    fn use_cache(&mut self) {
        for sequence in &mut self.running {
            let Need::Prompt { read, .. } = sequence.need() else { continue };
            if sequence.reports_prompt() {
                continue;
            }
            let (cache, model) = (&mut self.cache, &mut *self.model);
            let fork = || {
                Ok(cache
                    .fork(model, sequence.adapter(), sequence.prompt(), read)
                    .map_err(GenerationKind::model)?)
            };
            match contained(fork) {
                Ok(Some(prefix)) => {
                    self.model.close(sequence.id);
                    sequence.resume(prefix.sequence, prefix.len);
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "cannot use a cached prefix"),
            }
        }
    }

    /// Drafts tokens for the generating sequences.
    fn draft(&mut self) {
        /// Default maximum number of drafted tokens.
        const MOST: usize = 8;
        let pays = self.model.is_batch_invariant() && self.model.removes_drafts_cheaply();
        let unasked = if pays || self.drafter.is_some() { MOST } else { 0 };
        let most = self.options.speculate.unwrap_or(unasked);
        if most == 0 || !self.model.can_fork() {
            return;
        }
        self.draft_from_texts(if self.options.speculate.is_some() || pays { most } else { 0 });
        let Some(mut drafter) = self.drafter.take() else { return };
        match contained(|| drafter.draft(&mut *self.model, &mut self.running, most)) {
            Ok(()) => self.drafter = Some(drafter),
            Err(error) => {
                tracing::warn!(%error, "the draft model or head failed; it is not used any more");
                self.model.close_draft_head();
            }
        }
    }

    /// Drafts at most `most` tokens for each generating sequence, from earlier places in its text.
    fn draft_from_texts(&mut self, most: usize) {
        let generating = |sequence: &&Sequence| sequence.need().is_generated();
        let sequences = self.running.iter().filter(generating).count();
        let model_cost = self.drafter.as_ref().map(|drafter| drafter.cost(sequences));
        for mut sequence in std::mem::take(&mut self.running) {
            let drafted = contained(|| {
                sequence.draft(most, sequences, model_cost);
                Ok(())
            });
            match drafted {
                Ok(()) => self.running.push(sequence),
                Err(error) => self.settle(sequence, Err(error)),
            }
        }
    }

    /// Returns the needs of the running sequences.
    ///
    /// A sequence needs nothing while an earlier one is reading the same prompt.
    fn needs(&self) -> Vec<Need> {
        let can_follow = self.model.can_fork();
        let need = |(index, sequence): (usize, &Sequence)| {
            let follows = self.running[..index].iter().any(|leader| leader.reads_as(sequence));
            if can_follow && follows { Need::Nothing } else { sequence.need() }
        };
        self.running.iter().enumerate().map(need).collect()
    }

    /// Adds the part of an interrupted prompt that was read to the cache, in case the request is
    /// repeated.
    pub(crate) fn keep_begun(&mut self, sequence: &Sequence) {
        if let Need::Prompt { read, .. } = sequence.need() {
            self.keep(sequence, read);
        }
    }

    /// Adds the first `read` tokens of a sequence, prompt and output, to the cache. The model must
    /// have read them.
    pub(crate) fn keep(&mut self, sequence: &Sequence, read: usize) {
        let (cache, model) = (&mut self.cache, &mut *self.model);
        let insert = || {
            let prompt = &sequence.tokens()[..read];
            let inserted = cache.insert(model, sequence.adapter(), prompt, sequence.id);
            Ok(inserted.map_err(GenerationKind::model)?)
        };
        if let Err(error) = contained(insert) {
            tracing::debug!(%error, "cannot cache a prefix");
        }
        self.stats().cache_tokens = self.cache.tokens();
    }

    /// Forks the leader's prompt for a follower with the same prompt, and gives the follower the
    /// logits.
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
        contained(|| follower.take_logits(0, FeedLogits::Rows(&rows)))
    }

    /// Ends sequences with a token that the model cannot read, so that other sequences do not fail
    /// with them.
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

    /// Runs one forward pass.
    ///
    /// If a pass with one sequence fails, this sequence fails. If a pass with several sequences
    /// fails, all of them start over in a pass each, so that only faulty sequences end. Followers
    /// of a failed prompt start over, too.
    fn forward(&mut self, turns: Vec<ScheduledRun>) {
        let logits = self.pass(&turns);
        let is_alone = turns.len() == 1;
        for (index, turn) in turns.into_iter().enumerate() {
            match &logits {
                Ok(logits) => self.take_turn(turn, logits, index),
                Err(error) => {
                    let mut again = turn.followers;
                    if is_alone {
                        self.settle(turn.sequence, Err(error.clone()));
                    } else {
                        again.push(turn.sequence);
                    }
                    for mut sequence in again {
                        self.model.close(sequence.id);
                        match open(&mut *self.model, sequence.adapter()) {
                            Ok(id) => {
                                sequence.start_over(id);
                                self.running.push(sequence);
                            }
                            Err(error) => self.settle(sequence, Err(error)),
                        }
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
                tracing::debug!(%error, "cannot recycle logits");
            }
        }
    }

    /// Gives a sequence the results of its turn, and forks the prompt for its followers.
    ///
    /// A follower that read the prompt itself would get the same keys, values and logits.
    fn take_turn(&mut self, turn: ScheduledRun, logits: &Logits, index: usize) {
        let rows = logits.rows(index);
        let ends_prompt = turn.ends_prompt();
        let ScheduledRun { mut sequence, count, followers } = turn;
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
            contained(|| sequence.take_logits(fed, FeedLogits::Rows(&rows)))
        } else {
            let logits = match logits.top(index) {
                Some(top) => FeedLogits::Top(top),
                None if self.needs_of(&feed) == LogitsNeed::Largest => FeedLogits::Largest(rows),
                None => FeedLogits::Rows(rows),
            };
            self.take_logits(&mut sequence, fed, logits)
        };
        self.settle(sequence, progress);
    }

    /// Gives a sequence its logits, and truncates its KV cache.
    ///
    /// Truncating removes drafted tokens that were rejected, and a token that must be read again.
    fn take_logits(
        &mut self,
        sequence: &mut Sequence,
        count: usize,
        logits: FeedLogits<'_>,
    ) -> Result<Progress, GenerationError> {
        let fed = sequence.read() + count;
        let progress = contained(|| sequence.take_logits(count, logits))?;
        if sequence.read() < fed && matches!(progress, Progress::Running) {
            self.model.truncate(sequence.id, sequence.read()).map_err(GenerationKind::model)?;
        }
        Ok(progress)
    }

    /// Runs a forward pass and returns the logits. Runs with followers get whole rows, because each
    /// follower may have a different mask.
    fn pass(&mut self, turns: &[ScheduledRun]) -> Result<Logits, GenerationError> {
        let feeds: Vec<Feed<'_>> = turns.iter().map(ScheduledRun::feed).collect();
        let known = self.known.clone();
        let enough: Vec<_> = turns.iter().map(|turn| turn.sequence.top_judge()).collect();
        let runs = turns.iter().zip(&feeds).zip(&enough).map(|((turn, feed), is_enough)| Run {
            sequence: turn.sequence.id,
            tokens: &feed.tokens,
            role: feed.role,
            wanted: match (&feed.rows[..], self.needs_of(feed)) {
                _ if !turn.followers.is_empty() => Wanted::All,
                (&[set], LogitsNeed::Largest) => Wanted::Largest(set.or(known.as_deref())),
                (&[set], LogitsNeed::Top) => {
                    let set = set.or(known.as_deref());
                    Wanted::Top(TopRequest { set, temperature: turn.sequence.temperature(), is_enough })
                }
                ([], _) => Wanted::Nothing,
                ([None], _) => Wanted::All,
                ([Some(mask)], _) => Wanted::Only(mask),
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
            let tokens = feeds.iter().map(|feed| feed.tokens.len()).sum();
            self.pace.note(tokens, time);
            if read == 0
                && let Some(drafter) = &mut self.drafter
            {
                drafter.note_pass(time, feeds.len(), tokens);
            }
        }
        let (head_rows, unmasked) = count_head_rows(turns, &feeds, self.model.vocab_size());
        let replayed = self.model.replayed_tokens();
        let mut stats = self.stats();
        stats.note_pass(time, feeds.len());
        stats.head_rows += head_rows as u64;
        stats.unmasked_head_rows += unmasked as u64;
        stats.prompt_tokens += read as u64;
        stats.replayed_tokens = replayed;
        drop(stats);
        logits
    }

    /// Returns the logits that are needed to choose a token after a feed.
    ///
    /// The model must read a token again if the largest logit is rejected. A token that is chosen by the
    /// likeliest ones is rejected at most once, where an output closes.
    fn needs_of(&self, feed: &Feed<'_>) -> LogitsNeed {
        match feed.needs {
            LogitsNeed::Largest if !self.model.truncates_cheaply() => LogitsNeed::Whole,
            needs => needs,
        }
    }

    /// Reads texts to be embedded: several short ones in one pass, or a piece of the oldest one.
    pub(crate) fn step_embedding(&mut self, rests: bool) {
        if rests {
            return;
        }
        let is_awaited = self.running.iter().any(|sequence| sequence.need().is_generated());
        let room = self.prompt_tokens(is_awaited);
        let mut texts = self.whole_texts(room);
        if !texts.is_empty() {
            let count = texts.iter().map(|text| text.progress().len).sum();
            let started = Instant::now();
            let model = &mut *self.model;
            let result = contained(|| Embedding::read_whole(&mut texts, model));
            self.note_reading((count, texts.len()), started, (is_awaited, result.is_ok()));
            let is_shared = texts.len() > 1;
            for mut text in texts {
                // The failure of a shared pass ends none of its texts. Each is read alone.
                let mut own = result.clone();
                if own.is_err() && is_shared {
                    let model = &mut *self.model;
                    own = contained(|| Embedding::read_whole(std::slice::from_mut(&mut text), model));
                }
                text.end(own, &*self.model);
            }
            return;
        }
        let Some(mut embedding) = self.embeddings.pop_front() else { return };
        let Reading { read, len } = embedding.progress();
        let grain = self.model.prompt_grain();
        let count = match scheduler::piece(read, len, room, grain) {
            0 => scheduler::piece(read, len, grain, grain),
            count => count,
        };
        let started = Instant::now();
        let model = &mut *self.model;
        let result = contained(|| embedding.read(model, count));
        self.note_reading((count, 1), started, (is_awaited, result.is_ok()));
        if result.is_ok() && read + count < len {
            return self.embeddings.push_front(embedding);
        }
        self.close_embedding(&embedding);
        embedding.end(result, &*self.model);
    }

    /// Takes the oldest texts that one pass with `room` tokens can read as a whole. The result is empty
    /// if the oldest text is to be read in pieces, or if the model reads texts one after another.
    fn whole_texts(&mut self, mut room: usize) -> Vec<Embedding> {
        let mut texts = Vec::new();
        if !self.model.encodes_together() {
            return texts;
        }
        while let Some(text) = self.embeddings.front() {
            let Reading { read, len } = text.progress();
            let is_first = texts.is_empty() && self.model.reads_whole_texts();
            // A whole text is read without adapters.
            if read > 0 || text.has_adapter() || (len > room && !is_first) {
                break;
            }
            room = room.saturating_sub(len);
            texts.extend(self.embeddings.pop_front());
        }
        texts
    }

    /// Computes a pass of the next request for decisions, which then lets the other one take its turn.
    pub(crate) fn step_decision(&mut self, rests: bool) {
        if rests {
            return;
        }
        let Some(mut job) = self.decisions.pop_front() else { return };
        let is_awaited = self.running.iter().any(|sequence| sequence.need().is_generated());
        let room = self.prompt_tokens(is_awaited);
        let mut passes = None;
        let (model, cache) = (&mut *self.model, &mut self.cache);
        let vocabulary = self.tokenizer.vocabulary();
        let done = contained(|| job.step(model, cache, (vocabulary, room), &mut passes));
        if let Some(DecisionPass { prompt_tokens, nodes, runs, started }) = passes {
            self.note_reading((prompt_tokens, runs), started, (is_awaited, done.is_ok()));
            self.stats().decision_nodes += nodes as u64;
        }
        match done {
            Ok(false) => {
                // Two requests take turns. The others have no sequences yet.
                let place = self.decisions.len().min(1);
                self.decisions.insert(place, job);
            }
            done => self.end_decision(job, done.map(drop)),
        }
    }

    pub(crate) fn end_decision(&mut self, mut job: DecisionJob, result: Result<(), GenerationError>) {
        let model = &mut *self.model;
        let closed = contained(|| {
            job.close(model);
            Ok(())
        });
        job.end(result.and(closed), &mut self.stats());
    }

    /// Adds a pass over `tokens` tokens of `texts` texts to the statistics.
    fn note_reading(
        &mut self,
        (tokens, texts): (usize, usize),
        started: Instant,
        (is_awaited, is_ok): (bool, bool),
    ) {
        let time = started.elapsed();
        if is_awaited {
            self.note_time(time, true);
        }
        if is_ok {
            self.pace.note(tokens, time);
        }
        let mut stats = self.stats();
        stats.note_pass(time, texts);
        stats.prompt_tokens += tokens as u64;
    }
}

/// Returns the number of the head's rows that the masks of a pass allow, and the number without masks.
fn count_head_rows(turns: &[ScheduledRun], feeds: &[Feed<'_>], vocabulary: usize) -> (usize, usize) {
    let rows = turns.iter().zip(feeds).flat_map(|(turn, feed)| {
        let is_masked = turn.followers.is_empty();
        feed.rows.iter().map(move |mask| mask.filter(|_| is_masked).map_or(vocabulary, TokenSet::count))
    });
    rows.fold((0, 0), |(allowed, all), row| (allowed + row, all + vocabulary))
}

/// Reduces whole logits rows to the tokens that a feed wants.
fn wanted_rows(feed: &Feed<'_>, rows: &[Vec<f32>]) -> Vec<Vec<f32>> {
    feed.rows.iter().zip(rows).map(|(wanted, row)| masked(row.clone(), *wanted)).collect()
}
