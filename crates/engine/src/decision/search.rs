//! Best-first search over the token sequences that spell a question's texts.

use std::cmp::Ordering;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use formwork_vocab::{TokenId, Vocabulary};

use super::enclosure::{Enclosure, ShareBounds};
use super::sampler_state::{SamplerState, TokenLaw};
use super::texts::{Place, StepCache, TextTrie};
use super::{Ending, Question, SearchLimits, Visited};

/// Index of a prefix in [`Search::prefixes`].
pub(crate) type PrefixId = u32;

/// Maximum number of prefixes that one round reads. The model reads them in shared passes.
const ROUND: usize = 64;
/// A round reads the likeliest prefix, and others that are at most this number of times less likely.
/// Less likely ones may turn out not to matter.
const SPREAD: f64 = 16.0;

/// Search over the token sequences of one question.
///
/// The tree of token prefixes is read best first. A [round](Search::next) depends only on the rows of
/// earlier rounds, so the search visits the same prefixes regardless of other questions.
#[derive(Debug)]
pub(crate) struct Search {
    trie: TextTrie,
    /// Option of each text.
    options: Vec<u32>,
    ending: Ending,
    /// Sampler after the prompt, or `None` for the model's own distribution.
    sampler: Option<SamplerState>,
    /// For each place, the option of all texts that may still follow, if it is the same. Empty without a
    /// sampler.
    certain: Vec<Option<u32>>,
    limits: SearchLimits,
    temperature: f64,
    visited: Visited,
    /// Maximum number of tokens of a prefix that is read.
    room: usize,
    /// Logarithm of the probability of each prefix that is too long to be read, with its place.
    too_long: Vec<(f64, Place)>,
    steps: StepCache,
    /// All prefixes seen so far. A parent precedes its children.
    prefixes: Vec<Prefix>,
    frontier: BinaryHeap<Candidate>,
    /// Prefixes of the current round whose rows are missing, in the order of their rows.
    round: VecDeque<PrefixId>,
    /// Logarithm of the visited probability of each option.
    ln_lower: Vec<f64>,
    shares: ShareBounds,
    /// Number of prefixes read, without the root.
    read: usize,
    is_done: bool,
}

/// A prefix of tokens after the prompt.
#[derive(Clone, Copy, Debug)]
struct Prefix {
    parent: PrefixId,
    token: TokenId,
    at: Place,
    /// Logarithm of the prefix's probability.
    ln: f64,
    /// Number of tokens.
    depth: u32,
}

/// A prefix of the frontier. The likeliest one is the greatest; of equal ones, the first one.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Candidate {
    ln: f64,
    id: PrefixId,
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ln.total_cmp(&other.ln).then(other.id.cmp(&self.id))
    }
}

impl Search {
    /// The empty prefix, whose row is the one after the prompt.
    const ROOT: PrefixId = 0;

    /// Creates the search for a [checked](Question::check) question. At most `room` tokens are read after
    /// the prompt.
    pub(crate) fn new(question: &Question, limits: SearchLimits, room: usize) -> Self {
        let (texts, options) = question.texts();
        let trie = TextTrie::new(&texts);
        let certain = question.sampler.as_ref().map(|_| trie.certain(&options)).unwrap_or_default();
        let root = Prefix { parent: Self::ROOT, token: TokenId(0), at: TextTrie::ROOT, ln: 0.0, depth: 0 };
        let count = question.options.len();
        Self {
            trie,
            options,
            ending: question.ending.clone(),
            sampler: question.sampler.clone(),
            certain,
            limits,
            temperature: question.temperature,
            visited: question.visited,
            room,
            too_long: Vec::new(),
            steps: StepCache::default(),
            prefixes: vec![root],
            frontier: BinaryHeap::new(),
            round: VecDeque::from([Self::ROOT]),
            ln_lower: vec![f64::NEG_INFINITY; count],
            shares: ShareBounds::new(count),
            read: 0,
            is_done: false,
        }
    }

    /// Returns true if no further rows are needed.
    pub(crate) const fn is_done(&self) -> bool {
        self.is_done
    }

    /// Returns the prefixes of the round whose rows are missing, in the order in which [`Self::take`]
    /// wants them. The first round has only the root, the empty prefix.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = PrefixId> + '_ {
        self.round.iter().copied()
    }

    /// Returns the parent of a prefix and the token after it, or `None` for the root.
    pub(crate) fn parent(&self, id: PrefixId) -> Option<(PrefixId, TokenId)> {
        let prefix = self.prefixes[id as usize];
        (id != Self::ROOT).then_some((prefix.parent, prefix.token))
    }

    /// Returns true if tokens may follow a prefix, and not only the end of the answer.
    pub(crate) fn continues(&self, id: PrefixId) -> bool {
        self.trie.continues(self.prefixes[id as usize].at)
    }

    /// Takes the row of logits after the first awaited prefix. Chooses the next round after the last row
    /// of a round.
    pub(crate) fn take(&mut self, row: &[f32], vocabulary: &Vocabulary) {
        let Some(id) = self.round.pop_front() else { return };
        let Prefix { at, ln, depth, .. } = self.prefixes[id as usize];
        self.read += usize::from(id != Self::ROOT);
        let law = self.law(id, &row[..row.len().min(vocabulary.len())]);
        if !matches!(law, TokenLaw::Impossible) {
            if let (Some(text), Ending::Tokens(ends)) = (self.trie.text(at), &self.ending) {
                for ln_end in law.ln_ends(ends) {
                    add(&mut self.ln_lower[self.options[text as usize] as usize], ln + ln_end);
                }
            }
            let is_open = matches!(self.ending, Ending::Open);
            let steps = self.steps.get(&self.trie, at, vocabulary.trie(), is_open);
            for &(token, text) in &steps.beyond {
                add(&mut self.ln_lower[self.options[text as usize] as usize], ln + law.ln(token));
            }
            for &(token, to) in &steps.inside {
                let ln = ln + law.ln(token);
                if ln == f64::NEG_INFINITY {
                    continue;
                }
                let complete = self.trie.text(to).filter(|_| is_open);
                let complete = complete.map(|text| self.options[text as usize]);
                // The constraint leaves nothing else, however the rest is spelt.
                let certain = || self.certain.get(to as usize).copied().flatten();
                if let Some(option) = complete.or_else(certain) {
                    add(&mut self.ln_lower[option as usize], ln);
                } else if depth as usize >= self.room {
                    self.too_long.push((ln, to));
                } else {
                    let child = self.prefixes.len() as PrefixId;
                    self.prefixes.push(Prefix { parent: id, token, at: to, ln, depth: depth + 1 });
                    self.frontier.push(Candidate { ln, id: child });
                }
            }
        }
        if self.round.is_empty() {
            self.choose_round();
        }
    }

    /// Returns the distribution of the token after a prefix.
    fn law<'l>(&self, id: PrefixId, row: &'l [f32]) -> TokenLaw<'l> {
        let Some(sampler) = &self.sampler else {
            let ln_total = ln_sum_exp(row);
            return if ln_total > f64::NEG_INFINITY {
                TokenLaw::Logits(row, ln_total)
            } else {
                TokenLaw::Impossible
            };
        };
        let (mut tokens, mut at) = (Vec::new(), id);
        while let Some((parent, token)) = self.parent(at) {
            tokens.push(token);
            at = parent;
        }
        let mut sampler = sampler.clone();
        let is_allowed = tokens.into_iter().rev().all(|token| sampler.push(token));
        if is_allowed { sampler.law(row) } else { TokenLaw::Impossible }
    }

    fn choose_round(&mut self) {
        self.narrow();
        let left = self.limits.nodes.saturating_sub(self.read);
        let is_visited = |ln: &f64| *ln > f64::NEG_INFINITY;
        let has_visited = match self.visited {
            Visited::AsNeeded => true,
            Visited::Option(option) => self.ln_lower.get(option).is_none_or(is_visited),
            Visited::All => self.ln_lower.iter().all(is_visited),
        };
        let is_close = self.shares.width() <= self.limits.tolerance && has_visited;
        if is_close || left == 0 || self.frontier.is_empty() {
            self.is_done = true;
            return;
        }
        let Some(best) = self.frontier.peek() else { return };
        let least = best.ln - SPREAD.ln();
        while self.round.len() < ROUND.min(left)
            && let Some(candidate) = self.frontier.peek_mut().filter(|candidate| candidate.ln >= least)
        {
            self.round.push_back(PeekMut::pop(candidate).id);
        }
    }

    /// Narrows the bounds on the shares.
    fn narrow(&mut self) {
        if self.is_exhausted() {
            // Every sequence was visited, so the bounds meet.
            let scale = largest(&self.ln_lower);
            let exact: Vec<f64> = self.ln_lower.iter().map(|ln| (ln - scale).exp()).collect();
            if scale > f64::NEG_INFINITY {
                self.shares.narrow(&exact, &exact);
            }
            return;
        }
        let (scale, upper) = self.upper();
        let temper = |probability: f64| probability.powf(1.0 / self.temperature);
        let lower: Vec<f64> = self.ln_lower.iter().map(|ln| temper((ln - scale).exp())).collect();
        let upper: Vec<f64> = upper.into_iter().map(temper).collect();
        self.shares.narrow(&lower, &upper);
    }

    /// Returns true if every sequence of tokens was visited.
    fn is_exhausted(&self) -> bool {
        self.frontier.is_empty() && self.too_long.is_empty()
    }

    /// Returns the upper bound of each option, divided by `exp` of the first result.
    fn upper(&self) -> (f64, Vec<f64>) {
        let best = self.frontier.peek().map_or(f64::NEG_INFINITY, |best| best.ln);
        let best = self.too_long.iter().fold(best, |best, (ln, _)| best.max(*ln));
        let scale = largest(&self.ln_lower).max(best);
        let mut upper: Vec<f64> = self.ln_lower.iter().map(|ln| (ln - scale).exp()).collect();
        if scale == f64::NEG_INFINITY {
            return (scale, vec![0.0; upper.len()]);
        }
        // Probability of the frontier's prefixes at each place and above it.
        let mut reaching = vec![0.0; self.trie.len()];
        for candidate in &self.frontier {
            reaching[self.prefixes[candidate.id as usize].at as usize] += (candidate.ln - scale).exp();
        }
        for &(ln, at) in &self.too_long {
            reaching[at as usize] += (ln - scale).exp();
        }
        for at in 0..self.trie.len() as Place {
            if at != TextTrie::ROOT {
                reaching[at as usize] += reaching[self.trie.parent(at) as usize];
            }
            if let Some(text) = self.trie.text(at) {
                upper[self.options[text as usize] as usize] += reaching[at as usize];
            }
        }
        (scale, upper)
    }

    /// Returns the bounds after the search.
    pub(crate) fn enclosure(&self, prompt_tokens: usize) -> Enclosure {
        let (scale, upper) = self.upper();
        let is_exhausted = self.is_exhausted();
        let ln_upper = if is_exhausted {
            self.ln_lower.clone()
        } else {
            upper.into_iter().map(|upper| (scale + upper.ln()).min(0.0)).collect()
        };
        Enclosure {
            ln_lower: self.ln_lower.clone(),
            ln_upper,
            error: if is_exhausted { 0.0 } else { self.shares.width() },
            nodes: self.read,
            prompt_tokens,
        }
    }
}

/// Returns the logarithm of the sum of the exponentials of a row, or `-inf` if no logit is finite.
fn ln_sum_exp(row: &[f32]) -> f64 {
    /// The terms below e⁻⁵⁰ of the largest one are less than 2⁻⁵³ of the sum even together.
    const NEGLIGIBLE: f32 = -50.0;
    let largest = row.iter().copied().filter(|logit| logit.is_finite()).fold(f32::NEG_INFINITY, f32::max);
    if largest == f32::NEG_INFINITY {
        return f64::NEG_INFINITY;
    }
    let terms = row.iter().filter(|&&logit| logit - largest > NEGLIGIBLE && logit.is_finite());
    let sum: f64 = terms.map(|&logit| (f64::from(logit) - f64::from(largest)).exp()).sum();
    f64::from(largest) + sum.ln()
}

/// Adds a probability to another one, both as logarithms.
fn add(sum: &mut f64, ln: f64) {
    let (high, low) = if *sum > ln { (*sum, ln) } else { (ln, *sum) };
    if low > f64::NEG_INFINITY {
        *sum = high + (low - high).exp().ln_1p();
    } else {
        *sum = high;
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}
