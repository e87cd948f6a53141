//! A decision request in the model thread.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use formwork_lm::{AdapterId, Batch, LanguageModel, Role, Run, SequenceId, Wanted};
use formwork_vocab::{TokenId, Vocabulary};
use tokio::sync::oneshot;

use super::search::{PrefixId, Search};
use super::{Decided, DecisionRequest, Enclosure};
use crate::engine::open;
use crate::error::GenerationKind;
use crate::outbox::Seat;
use crate::prefix_cache::PrefixCache;
use crate::scheduler::piece;
use crate::{GenerationError, Stats};

/// Approximate memory for the keys and values of forks, in bytes.
const FORKS: usize = 512 << 20;
/// Number of tokens whose keys and values a fork copies at most, by the back ends of `formwork_model`.
const COPIED: usize = 64;
/// Maximum number of tokens that the questions in the model have of their own, unless there is only one.
const OWN: usize = 4096;

/// Maximum number of prefixes for a question if the model cannot fork.
const UNFORKED: usize = 32;

/// Numbers of sequences that a job may have in the model. They change no result.
#[derive(Clone, Copy)]
struct Room {
    /// Maximum number of questions.
    active: usize,
    /// Maximum number of rows of one pass. Each row is as long as the vocabulary.
    rows: usize,
    /// Maximum number of prefixes whose sequences stay in the model for their children, over all questions.
    /// The sequence of any other prefix is computed again for each of its children.
    kept: usize,
}

impl Room {
    fn of(model: &dyn LanguageModel) -> Self {
        let forks = FORKS / model.kv_bytes_per_token().max(1) / COPIED;
        let each = (forks / 4).clamp(4, 64);
        Self { active: each, rows: each, kept: each }
    }
}

/// A decision request on its way through the model.
pub(crate) struct DecisionJob {
    request: DecisionRequest,
    adapter: Option<AdapterId>,
    /// Sequence with the common prefix of the prompts of all waiting questions, once reading has started.
    base: Option<SequenceId>,
    /// Length of the common prefix.
    base_len: usize,
    /// Number of tokens of the common prefix that the model has read.
    read: usize,
    /// Number of tokens of the common prefix and of the rest of each prompt that has started.
    prompt_tokens: usize,
    cached: usize,
    /// Questions that have not started.
    waiting: VecDeque<usize>,
    active: Vec<Active>,
    /// Sequences of the current pass for prefixes.
    in_flight: Vec<SequenceId>,
    enclosures: Vec<Option<Enclosure>>,
    reply: oneshot::Sender<Result<Decided, GenerationError>>,
    seat: Seat,
}

/// A question in the model.
struct Active {
    /// Index in the request.
    index: usize,
    /// Sequence of the prompt.
    sequence: SequenceId,
    /// Number of tokens of the prompt that the model has read.
    read: usize,
    /// Number of tokens of the prompt after the common prefix.
    own: usize,
    search: Search,
    /// Sequences of prefixes that have children.
    kept: HashMap<PrefixId, SequenceId>,
}

/// A part of a pass.
struct Part {
    /// Index in `active`.
    active: usize,
    sequence: SequenceId,
    tokens: Vec<TokenId>,
    task: Task,
}

enum Task {
    /// A piece of the prompt. True if the piece ends the prompt.
    Prompt(bool),
    /// A prefix of the search.
    Prefix(PrefixId),
}

impl DecisionJob {
    pub(crate) fn new(
        request: DecisionRequest,
        adapter: Option<AdapterId>,
        reply: oneshot::Sender<Result<Decided, GenerationError>>,
        seat: Seat,
    ) -> Self {
        let count = request.questions.len();
        Self {
            request,
            adapter,
            base: None,
            base_len: 0,
            read: 0,
            prompt_tokens: 0,
            cached: 0,
            waiting: (0..count).collect(),
            active: Vec::new(),
            in_flight: Vec::new(),
            enclosures: vec![None; count],
            reply,
            seat,
        }
    }

    /// Returns true if the request belongs to a generation.
    pub(crate) const fn is_part(&self) -> bool {
        self.request.is_part
    }

    /// Returns true if the receiver of the result is gone.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.reply.is_closed()
    }

    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.request.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Computes one pass of at most about `room` tokens. Returns true if the request is complete.
    pub(crate) fn step(
        &mut self,
        model: &mut dyn LanguageModel,
        cache: &mut PrefixCache,
        (vocabulary, room): (&Vocabulary, usize),
        passes: &mut Option<DecisionPass>,
    ) -> Result<bool, GenerationError> {
        if self.base.is_none() {
            self.begin(model, cache)?;
        }
        let Some(base) = self.base else { return Ok(true) };
        if self.read < self.base_len {
            let count = next_piece(self.read, self.base_len, room, model.prompt_grain());
            let next = self.waiting.front().copied().unwrap_or_default();
            let tokens = &self.request.questions[next].prompt[self.read..self.read + count];
            let run = Run { sequence: base, tokens, role: Role::Prompt, wanted: Wanted::Nothing };
            let started = Instant::now();
            let logits = model.forward(&Batch { runs: vec![run] }).map_err(GenerationKind::model)?;
            model.recycle(logits);
            *passes = Some(DecisionPass { prompt_tokens: count, nodes: 0, runs: 1, started });
            self.read += count;
            let is_first = self.waiting.len() == self.request.questions.len();
            if self.read == self.base_len && is_first {
                let prefix = &self.request.questions[0].prompt[..self.base_len];
                cache.insert(model, self.adapter, prefix, base).map_err(GenerationKind::model)?;
            }
            return Ok(false);
        }
        self.start_questions(model, base)?;
        if self.read < self.base_len {
            return Ok(false);
        }
        let parts = self.parts(model, room)?;
        self.pass(model, vocabulary, &parts, passes)?;
        self.end_questions(model);
        Ok(self.active.is_empty() && self.waiting.is_empty())
    }

    /// Opens the sequence of the common prefix, from the cache if it has a part of the prefix.
    fn begin(
        &mut self,
        model: &mut dyn LanguageModel,
        cache: &mut PrefixCache,
    ) -> Result<(), GenerationError> {
        let questions = &self.request.questions;
        let Some(first) = questions.first() else { return Ok(()) };
        if model.can_fork() {
            self.base_len = self.common_len(model.prompt_grain());
            self.prompt_tokens = self.base_len;
            // The cache never returns a whole prompt, so it gets one token more.
            let prefix = &first.prompt[..(self.base_len + 1).min(first.prompt.len())];
            let cached = cache.fork(model, self.adapter, prefix, 0).map_err(GenerationKind::model)?;
            if let Some(cached) = cached {
                (self.base, self.read, self.cached) = (Some(cached.sequence), cached.len, cached.len);
                return Ok(());
            }
        }
        self.base = Some(open(model, self.adapter)?);
        Ok(())
    }

    /// Returns the length of the common prefix of the prompts of all waiting questions, in multiples of
    /// `grain`. The row after the last token of each prompt is wanted.
    fn common_len(&self, grain: usize) -> usize {
        let mut prompts = self.waiting.iter().map(|&index| &self.request.questions[index].prompt);
        let Some(first) = prompts.next() else { return 0 };
        let known = self.base_len;
        let common = prompts.fold(first.len().saturating_sub(1), |common, prompt| {
            let pairs = first[known..].iter().zip(&prompt[known..]).take(common.saturating_sub(known));
            let equal = known + pairs.take_while(|(a, b)| a == b).count();
            equal.min(prompt.len().saturating_sub(1))
        });
        common / grain.max(1) * grain.max(1)
    }

    /// Returns the number of tokens of a waiting question's prompt after the common prefix.
    fn own_len(&self, index: usize) -> usize {
        self.request.questions[index].prompt.len() - self.base_len
    }

    /// Makes the common prefix longer if the prompts of the waiting questions continue the next one, as those
    /// of the values in one text do. Returns true if the prefix is longer.
    fn extend_base(&mut self, model: &dyn LanguageModel) -> bool {
        if self.waiting.len() < 2 || !model.can_fork() {
            return false;
        }
        let (grain, next) = (model.prompt_grain().max(1), self.waiting[0]);
        let len = self.common_len(grain);
        let continues = len + grain >= self.request.questions[next].prompt.len();
        if continues && len > self.base_len {
            self.prompt_tokens += len - self.base_len;
            self.base_len = len;
            return true;
        }
        false
    }

    fn start_questions(
        &mut self,
        model: &mut dyn LanguageModel,
        base: SequenceId,
    ) -> Result<(), GenerationError> {
        // Without forks, each question reads its prompt again for every prefix.
        let most = if model.can_fork() { Room::of(model).active } else { 1 };
        let mut owned: usize = self.active.iter().map(|question| question.own).sum();
        while self.active.len() < most
            && let Some(&next) = self.waiting.front()
            && (self.active.is_empty() || owned + self.own_len(next) <= OWN)
            && let Some(index) = self.waiting.pop_front()
        {
            let own = self.own_len(index);
            owned += own;
            self.prompt_tokens += own;
            let mut limits = self.request.limits;
            if !model.can_fork() {
                // Every prefix reads the whole prompt again.
                limits.nodes = limits.nodes.min(UNFORKED);
            }
            let question = &self.request.questions[index];
            let room = model.context_len().saturating_sub(question.prompt.len());
            let search = Search::new(question, limits, room);
            let sequence = if model.can_fork() {
                model.fork(base, self.base_len).map_err(GenerationKind::model)?
            } else {
                open(model, self.adapter)?
            };
            let kept = HashMap::new();
            self.active.push(Active { index, sequence, read: self.base_len, own, search, kept });
            if self.extend_base(model) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the runs of the next pass, with new sequences for prefixes.
    fn parts(&mut self, model: &mut dyn LanguageModel, room: usize) -> Result<Vec<Part>, GenerationError> {
        let mut parts: Vec<Part> = Vec::new();
        let (mut left, mut rows) = (room.max(1), Room::of(model).rows);
        let is_alone = !model.can_fork();
        for (active, question) in self.active.iter().enumerate() {
            let prompt = &self.request.questions[question.index].prompt;
            if question.read < prompt.len() {
                let grain = model.prompt_grain();
                let mut count = piece(question.read, prompt.len(), left, grain);
                if parts.is_empty() {
                    count = next_piece(question.read, prompt.len(), left, grain);
                }
                let ends = question.read + count == prompt.len();
                if count == 0 || (ends && rows == 0) {
                    break;
                }
                left = left.saturating_sub(count);
                rows -= usize::from(ends);
                let tokens = prompt[question.read..question.read + count].to_vec();
                parts.push(Part { active, sequence: question.sequence, tokens, task: Task::Prompt(ends) });
            } else {
                for prefix in question.search.awaited() {
                    let (sequence, from) = question.nearest(prefix);
                    let tokens = question.tokens(prefix, from);
                    if rows == 0 || (tokens.len() > left && !parts.is_empty()) {
                        break;
                    }
                    left = left.saturating_sub(tokens.len());
                    rows -= 1;
                    let (sequence, tokens) = if is_alone {
                        let whole = [prompt, &*question.tokens(prefix, None)].concat();
                        (open(model, self.adapter)?, whole)
                    } else {
                        let len = prompt.len() + from.map_or(0, |from| question.tokens(from, None).len());
                        (model.fork(sequence, len).map_err(GenerationKind::model)?, tokens)
                    };
                    self.in_flight.push(sequence);
                    parts.push(Part { active, sequence, tokens, task: Task::Prefix(prefix) });
                    if is_alone {
                        break;
                    }
                }
            }
            if left == 0 || is_alone {
                break;
            }
        }
        Ok(parts)
    }

    fn pass(
        &mut self,
        model: &mut dyn LanguageModel,
        vocabulary: &Vocabulary,
        parts: &[Part],
        passes: &mut Option<DecisionPass>,
    ) -> Result<(), GenerationError> {
        let run = |part: &'_ Part| {
            let (role, wanted) = match part.task {
                Task::Prompt(true) => (Role::Prompt, Wanted::All),
                Task::Prompt(false) => (Role::Prompt, Wanted::Nothing),
                Task::Prefix(_) => (Role::Generated, Wanted::All),
            };
            (role, wanted)
        };
        let runs = parts.iter().map(|part| {
            let (role, wanted) = run(part);
            Run { sequence: part.sequence, tokens: &part.tokens, role, wanted }
        });
        let batch = Batch { runs: runs.collect() };
        let started = Instant::now();
        let logits = model.forward(&batch).map_err(GenerationKind::model)?;
        let is_prompt = |part: &&Part| matches!(part.task, Task::Prompt(_));
        let prompt_tokens = parts.iter().filter(is_prompt).map(|part| part.tokens.len()).sum();
        let nodes = parts.len() - parts.iter().filter(is_prompt).count();
        *passes = Some(DecisionPass { prompt_tokens, nodes, runs: parts.len(), started });
        self.in_flight.clear();
        let most_kept = Room::of(model).kept;
        let mut kept: usize = self.active.iter().map(|question| question.kept.len()).sum();
        for (index, part) in parts.iter().enumerate() {
            let question = &mut self.active[part.active];
            match part.task {
                Task::Prompt(ends) => {
                    question.read += part.tokens.len();
                    if ends {
                        question.search.take(logits.row(index), vocabulary);
                    }
                }
                Task::Prefix(prefix) => {
                    question.search.take(logits.row(index), vocabulary);
                    if model.can_fork() && kept < most_kept && question.search.continues(prefix) {
                        question.kept.insert(prefix, part.sequence);
                        kept += 1;
                    } else {
                        model.close(part.sequence);
                    }
                }
            }
        }
        model.recycle(logits);
        Ok(())
    }

    fn end_questions(&mut self, model: &mut dyn LanguageModel) {
        for question in self.active.extract_if(.., |question| question.search.is_done()) {
            question.close(model);
            let prompt_tokens = self.request.questions[question.index].prompt.len();
            self.enclosures[question.index] = Some(question.search.enclosure(prompt_tokens));
        }
    }

    /// Closes all sequences of the job.
    pub(crate) fn close(&mut self, model: &mut dyn LanguageModel) {
        for question in self.active.drain(..) {
            question.close(model);
        }
        for sequence in self.in_flight.drain(..) {
            model.close(sequence);
        }
        if let Some(base) = self.base.take() {
            model.close(base);
        }
    }

    /// Frees the seat and then sends the result or the error.
    pub(crate) fn end(self, result: Result<(), GenerationError>, stats: &mut Stats) {
        let prompt_tokens = self.prompt_tokens;
        match result {
            Ok(()) => {
                if !self.request.is_part {
                    stats.decisions += self.request.questions.len() as u64;
                }
                stats.cached_tokens += self.cached as u64;
                stats.prompt_tokens += self.cached as u64;
            }
            Err(_) => stats.failed += 1,
        }
        let enclosures = self.enclosures.into_iter().flatten().collect();
        let decided = result.map(|()| Decided { enclosures, prompt_tokens, cached_tokens: self.cached });
        drop(self.seat);
        // The receiver may be gone.
        let _ = self.reply.send(decided);
    }
}

/// Statistics of one pass.
#[derive(Clone, Copy)]
pub(crate) struct DecisionPass {
    pub(crate) prompt_tokens: usize,
    /// Number of prefixes of searches.
    pub(crate) nodes: usize,
    pub(crate) runs: usize,
    pub(crate) started: Instant,
}

impl Active {
    /// Returns the sequence of the nearest ancestor of a prefix, and the ancestor. `None` is the prompt.
    fn nearest(&self, prefix: PrefixId) -> (SequenceId, Option<PrefixId>) {
        let mut at = prefix;
        while let Some((parent, _)) = self.search.parent(at) {
            if let Some(&sequence) = self.kept.get(&parent) {
                return (sequence, Some(parent));
            }
            at = parent;
        }
        (self.sequence, None)
    }

    /// Returns the tokens of a prefix after one of its ancestors. `None` is the prompt.
    fn tokens(&self, prefix: PrefixId, from: Option<PrefixId>) -> Vec<TokenId> {
        let (mut tokens, mut at) = (Vec::new(), prefix);
        while Some(at) != from
            && let Some((parent, token)) = self.search.parent(at)
        {
            tokens.push(token);
            at = parent;
        }
        tokens.reverse();
        tokens
    }

    fn close(&self, model: &mut dyn LanguageModel) {
        for &sequence in self.kept.values() {
            model.close(sequence);
        }
        model.close(self.sequence);
    }
}

/// Returns the length of the next piece of a prompt, which is at least one grain.
fn next_piece(read: usize, len: usize, room: usize, grain: usize) -> usize {
    match piece(read, len, room, grain) {
        0 => piece(read, len, grain.max(1), grain),
        count => count,
    }
}
