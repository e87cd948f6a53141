mod top;

use formwork_kernels::unscaled_softmax;
use formwork_lm::masked;
use formwork_vocab::{TokenId, TokenSet};

use crate::error::{RequestError, Setting};
use crate::lanes::{largest, total};

/// Settings for choosing the next token from the logits.
///
/// The temperature is applied first, then `top_k`, `typical_p`, `min_p`, `top_p` and XTC in this
/// order. Each filter works on the tokens that the previous one kept. With a temperature of 0 all
/// other settings are ignored.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    /// Temperature in 0..=100 (OpenAI allows 0..=2). 0 takes the likeliest token; higher values are
    /// more random.
    pub temperature: f32,
    /// Keeps this number of likeliest tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the smallest set of likeliest tokens whose probabilities sum to this value; 1 keeps
    /// all.
    pub top_p: f32,
    /// Keeps tokens whose probability relative to the likeliest token is at least this value; 0
    /// keeps all.
    pub min_p: f32,
    /// Keeps the tokens whose surprise is nearest to the expected surprise, until their
    /// probabilities sum to this value; 1 keeps all (Meister et al., "Locally typical sampling",
    /// 2023).
    pub typical_p: f32,
    /// Probability of removing the likeliest tokens from a draw ("exclude top choices"); 0 turns
    /// XTC off. Removes all tokens with a probability of at least `xtc_threshold`, except the least
    /// likely of them.
    pub xtc_probability: f32,
    /// Minimum probability of a top choice for `xtc_probability`. No two tokens can exceed 0.5, so
    /// larger values remove nothing.
    pub xtc_threshold: f32,
    /// Seed of the random draws. A draw depends only on the seed and the position.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            seed: 0,
        }
    }
}

impl Sampling {
    /// Returns true if the likeliest token is taken, regardless of the other settings.
    pub(crate) fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    pub(crate) fn check(&self) -> Result<(), RequestError> {
        const SHARE: &str = "0..=1";
        const ABOVE_0: &str = "a value above 0 and at most 1";
        let is_share = |given: f32| (0.0..=1.0).contains(&given);
        let is_above_0 = |given: f32| given > 0.0 && given <= 1.0;
        let Self { temperature, top_p, min_p, typical_p, xtc_probability, xtc_threshold, .. } = *self;
        let is_temperature = (0.0..=100.0).contains(&temperature);
        Setting { name: "temperature", given: temperature, range: "0..=100" }.check(is_temperature)?;
        Setting { name: "top_p", given: top_p, range: ABOVE_0 }.check(is_above_0(top_p))?;
        Setting { name: "min_p", given: min_p, range: SHARE }.check(is_share(min_p))?;
        Setting { name: "typical_p", given: typical_p, range: ABOVE_0 }.check(is_above_0(typical_p))?;
        for (name, given) in [("xtc_probability", xtc_probability), ("xtc_threshold", xtc_threshold)] {
            Setting { name, given, range: SHARE }.check(is_share(given))?;
        }
        Ok(())
    }

    /// Chooses a token of `mask`, or of all tokens without a mask, as output token number
    /// `position`.
    ///
    /// `logits` has the shape `[vocabulary]`. Returns `None` if no allowed token has a finite
    /// logit.
    pub(crate) fn choose(&self, logits: &[f32], mask: Option<&TokenSet>, position: usize) -> Option<TokenId> {
        if self.is_greedy() {
            return argmax(logits, mask);
        }
        let weights = self.weights(logits, mask)?;
        let draw_at = uniform(self.seed, position as u64);
        Some(match self.kept(&weights, self.leaves_out(position)) {
            Some(candidates) => draw(candidates, draw_at),
            None => draw_of_all(weights, draw_at),
        })
    }

    /// Returns true if XTC removes tokens from the draw at `position`.
    fn leaves_out(&self, position: usize) -> bool {
        self.xtc_probability > 0.0 && uniform(self.seed ^ XTC, position as u64) < self.xtc_probability.into()
    }

    /// Returns the probability with which [`choose`](Self::choose) returns each token, over all seeds.
    /// Shape: `[vocabulary]`.
    ///
    /// Returns `None` if no allowed token has a finite logit.
    pub(crate) fn law(&self, logits: &[f32], mask: Option<&TokenSet>) -> Option<Vec<f64>> {
        let mut law = vec![0.0; logits.len()];
        if self.is_greedy() {
            law[argmax(logits, mask)?.index()] = 1.0;
            return Some(law);
        }
        let weights = self.weights(logits, mask)?;
        let xtc = f64::from(self.xtc_probability);
        for (share, leaves_out) in [(1.0 - xtc, false), (xtc, true)] {
            if share <= 0.0 {
                continue;
            }
            if let Some(candidates) = self.kept(&weights, leaves_out) {
                let total = total_of(&candidates);
                for Candidate { token, weight } in candidates {
                    law[token.index()] += share * f64::from(weight) / total;
                }
            } else {
                let total = total(&weights);
                for (sum, &weight) in law.iter_mut().zip(&weights) {
                    *sum += share * f64::from(weight) / total;
                }
            }
        }
        Some(law)
    }

    /// Returns the candidates that all filters keep, or `None` without a filter. With `leaves_out`, XTC is
    /// one of the filters.
    fn kept(&self, weights: &[f32], leaves_out: bool) -> Option<Vec<Candidate>> {
        let candidates = self.heaviest(weights, leaves_out)?;
        Some(self.filtered(candidates, || total(weights), leaves_out))
    }

    /// Removes candidates by the filters. `total` returns the weight of all tokens.
    fn filtered(
        &self,
        mut candidates: Vec<Candidate>,
        total: impl FnOnce() -> f64,
        leaves_out: bool,
    ) -> Vec<Candidate> {
        if self.top_k > 0 && self.top_k < candidates.len() {
            candidates.select_nth_unstable_by(self.top_k - 1, Candidate::by_weight);
            candidates.truncate(self.top_k);
        }
        if self.typical_p < 1.0 {
            keep_typical(&mut candidates, self.typical_p);
        }
        if self.min_p > 0.0 {
            let best = candidates.iter().map(|candidate| candidate.weight).fold(0.0, f32::max);
            candidates.retain(|candidate| candidate.weight >= self.min_p * best);
        }
        if self.top_p < 1.0 {
            let total = if self.comes_to_top_p_first() { total() } else { total_of(&candidates) };
            keep_top_p(&mut candidates, total * f64::from(self.top_p));
        }
        if leaves_out {
            leave_out_top_choices(&mut candidates, self.xtc_threshold);
        }
        candidates
    }

    /// Returns the probabilities of all tokens, scaled so that the likeliest has 1. `None` if there
    /// is no candidate.
    fn weights(&self, logits: &[f32], mask: Option<&TokenSet>) -> Option<Vec<f32>> {
        let mut weights = masked(logits.to_vec(), mask);
        let mut best = largest(&weights);
        if best == f32::INFINITY {
            weights
                .iter_mut()
                .filter(|weight| !weight.is_finite())
                .for_each(|weight| *weight = f32::NEG_INFINITY);
            best = largest(&weights);
        }
        if best == f32::NEG_INFINITY {
            return None;
        }
        unscaled_softmax(&mut weights, best, self.temperature);
        Some(weights)
    }

    /// Returns true if no filter before `top_p` removes tokens.
    fn comes_to_top_p_first(&self) -> bool {
        self.top_k == 0 && self.typical_p >= 1.0 && self.min_p == 0.0
    }

    /// Returns a superset of the candidates that the first filter keeps, or `None` without a
    /// filter.
    fn heaviest(&self, weights: &[f32], leaves_out: bool) -> Option<Vec<Candidate>> {
        if self.top_k > 0 {
            return Some(heaviest(weights, |candidates| candidates.len() >= self.top_k));
        }
        if self.typical_p < 1.0 {
            return Some(not_lighter(weights, 0.0));
        }
        if self.min_p > 0.0 {
            return Some(not_lighter(weights, self.min_p));
        }
        if self.top_p < 1.0 {
            let target = total(weights) * f64::from(self.top_p);
            return Some(heaviest(weights, |candidates| total_of(candidates) >= target));
        }
        leaves_out.then(|| not_lighter(weights, 0.0))
    }
}

/// A token and its probability up to a common factor.
#[derive(Clone, Copy)]
struct Candidate {
    token: TokenId,
    weight: f32,
}

impl Candidate {
    /// Orders heavier candidates first. Breaks ties by id, so that the order does not depend on how
    /// a selection moved the candidates.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "sorting passes references")]
    fn by_weight(a: &Self, b: &Self) -> std::cmp::Ordering {
        b.weight.total_cmp(&a.weight).then(a.token.cmp(&b.token))
    }
}

/// Returns the allowed token with the largest finite logit; on ties, the one with the lowest id.
fn argmax(logits: &[f32], mask: Option<&TokenSet>) -> Option<TokenId> {
    /// Number of logits compared at a time.
    const CHUNK: usize = 256;
    let (mut best, mut most) = (None, f32::NEG_INFINITY);
    for (first, chunk) in (0..).step_by(CHUNK).zip(logits.chunks(CHUNK)) {
        // Few chunks exceed the maximum so far; only these are searched token by token.
        if largest(chunk) <= most {
            continue;
        }
        for (token, &logit) in (first..).map(TokenId).zip(chunk) {
            if logit > most && logit.is_finite() && mask.is_none_or(|mask| mask.contains(token)) {
                (best, most) = (Some(token), logit);
            }
        }
    }
    best
}

/// Returns the candidates with a positive weight of at least `least`.
fn not_lighter(weights: &[f32], least: f32) -> Vec<Candidate> {
    /// Number of weights compared at a time.
    const CHUNK: usize = 64;
    let mut candidates = Vec::new();
    for (first, chunk) in (0..).step_by(CHUNK).zip(weights.chunks(CHUNK)) {
        if largest(chunk) < least {
            continue;
        }
        let tokens = (first..).map(TokenId).zip(chunk);
        let tokens = tokens.filter(|(_, weight)| **weight >= least && **weight > 0.0);
        candidates.extend(tokens.map(|(token, &weight)| Candidate { token, weight }));
    }
    candidates
}

/// Returns enough of the heaviest candidates for `is_enough`, and possibly more.
fn heaviest(weights: &[f32], is_enough: impl Fn(&[Candidate]) -> bool) -> Vec<Candidate> {
    for exponent in [-6, -10, -16] {
        let candidates = not_lighter(weights, 2f32.powi(exponent));
        if is_enough(&candidates) {
            return candidates;
        }
    }
    not_lighter(weights, 0.0)
}

fn total_of(candidates: &[Candidate]) -> f64 {
    candidates.iter().map(|candidate| f64::from(candidate.weight)).sum()
}

/// Keeps the fewest heaviest candidates whose weights reach the target. Selects larger and larger
/// heads, so that little more than the kept candidates is sorted.
fn keep_top_p(candidates: &mut Vec<Candidate>, target: f64) {
    let mut head = 64;
    loop {
        let sorted = head.min(candidates.len());
        if sorted < candidates.len() {
            candidates.select_nth_unstable_by(sorted, Candidate::by_weight);
        }
        candidates[..sorted].sort_unstable_by(Candidate::by_weight);
        let mut sum = 0.0;
        let reached = candidates[..sorted].iter().position(|candidate| {
            sum += f64::from(candidate.weight);
            sum >= target
        });
        if let Some(last) = reached {
            candidates.truncate(last + 1);
            return;
        }
        if sorted == candidates.len() {
            return;
        }
        head *= 8;
    }
}

/// Keeps the candidates whose surprise, -ln p, is nearest to the mean surprise, the entropy, until
/// their share exceeds `typical_p`.
fn keep_typical(candidates: &mut Vec<Candidate>, typical_p: f32) {
    let total = total_of(candidates);
    let surprise = |candidate: &Candidate| -(f64::from(candidate.weight) / total).ln();
    let entropy: f64 = candidates.iter().map(|one| f64::from(one.weight) / total * surprise(one)).sum();
    let distance = |candidate: &Candidate| (surprise(candidate) - entropy).abs();
    candidates.sort_by(|a, b| distance(a).total_cmp(&distance(b)).then(a.token.cmp(&b.token)));
    let mut share = 0.0;
    let last = candidates.iter().position(|candidate| {
        share += f64::from(candidate.weight) / total;
        share > f64::from(typical_p)
    });
    candidates.truncate(last.map_or(usize::MAX, |last| last + 1));
}

/// Seed salt that keeps the draws of XTC independent of the draws of tokens.
const XTC: u64 = 0x0058_5443;

/// Removes all candidates with a share of at least `threshold`, except the least likely of them.
fn leave_out_top_choices(candidates: &mut Vec<Candidate>, threshold: f32) {
    let enough = f64::from(threshold) * total_of(candidates);
    let is_top = |candidate: &Candidate| f64::from(candidate.weight) >= enough;
    let least = candidates.iter().copied().filter(is_top).max_by(Candidate::by_weight);
    if let Some(least) = least {
        candidates.retain(|candidate| !is_top(candidate) || candidate.token == least.token);
    }
}

/// Weight of a token that is drawn before all lighter ones, if no filter removes tokens. With the likeliest
/// tokens alone, most draws can then be decided ([`Sampling::choose_top`]).
const HEAVY: f32 = 1.0 / 1024.0;

/// Returns the token at `share` (0 to 1) of the total weight of all tokens. Tokens of at least [`HEAVY`]
/// come first, both parts in order of id.
fn draw_of_all(mut weights: Vec<f32>, share: f64) -> TokenId {
    /// Number of weights skipped at a time.
    const CHUNK: usize = 512;
    let heavy = not_lighter(&weights, HEAVY);
    let left = total(&weights) * share;
    let of_heavy = total_of(&heavy);
    if left < of_heavy {
        return token_at(&heavy, left);
    }
    for candidate in &heavy {
        weights[candidate.token.index()] = 0.0;
    }
    let mut left = left - of_heavy;
    let totals: Vec<f64> = weights.chunks(CHUNK).map(total).collect();
    // Rounding may leave a remainder; the draw is then the last token with weight.
    let Some(last) = totals.iter().rposition(|total| *total > 0.0) else { return token_at(&heavy, of_heavy) };
    let mut chunk = 0;
    while chunk < last && left >= totals[chunk] {
        left -= totals[chunk];
        chunk += 1;
    }
    let first = chunk * CHUNK;
    let own = &weights[first..weights.len().min(first + CHUNK)];
    let mut last = 0;
    for (index, &weight) in own.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        last = index;
        left -= f64::from(weight);
        if left < 0.0 {
            break;
        }
    }
    TokenId((first + last) as u32)
}

/// Returns the candidate at `share` (0 to 1) of the total weight, in order of id.
fn draw(mut candidates: Vec<Candidate>, share: f64) -> TokenId {
    // Without a filter that sorts, the candidates are still in order of id. They may then be the
    // whole vocabulary, so skipping the sort saves time.
    if !candidates.is_sorted_by_key(|candidate| candidate.token) {
        candidates.sort_unstable_by_key(|candidate| candidate.token);
    }
    let left = total_of(&candidates) * share;
    token_at(&candidates, left)
}

/// Returns the candidate at the weight `left`, in order of id.
fn token_at(candidates: &[Candidate], mut left: f64) -> TokenId {
    for candidate in candidates {
        left -= f64::from(candidate.weight);
        if left < 0.0 {
            return candidate.token;
        }
    }
    // Rounding may leave a remainder. The heaviest candidate is as good as the last, and its weight
    // is never zero.
    candidates.iter().copied().min_by(Candidate::by_weight).map_or(TokenId(0), |candidate| candidate.token)
}

/// The golden ratio as a fraction of 2^64.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns a number in [0, 1) that depends only on the arguments.
///
/// Computes the output function of `SplitMix64` at a counter (Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", 2014).
fn uniform(seed: u64, position: u64) -> f64 {
    let mix = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let state = mix(seed.wrapping_add(GAMMA)).wrapping_add((position + 1).wrapping_mul(GAMMA));
    (mix(state) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling(temperature: f32, seed: u64) -> Sampling {
        Sampling { temperature, seed, ..Sampling::default() }
    }

    #[test]
    fn greedy_is_argmax_within_the_mask_and_takes_the_first_of_equals() {
        let logits = [1.0, 5.0, 3.0, 5.0, f32::NAN];
        assert_eq!(sampling(0.0, 0).choose(&logits, None, 0), Some(TokenId(1)));
        let mut mask = TokenSet::empty(5);
        mask.insert(TokenId(0));
        mask.insert(TokenId(2));
        assert_eq!(sampling(0.0, 0).choose(&logits, Some(&mask), 0), Some(TokenId(2)));
        assert_eq!(sampling(0.0, 0).choose(&logits, Some(&TokenSet::empty(5)), 0), None);
    }

    #[test]
    fn frequencies_follow_the_softmax() {
        let logits = [0.0, 1.0, 2.0];
        let draws = 20_000;
        let mut counts = [0u32; 3];
        for seed in 0..draws {
            let token = sampling(1.0, seed).choose(&logits, None, 7).expect("finite");
            counts[token.index()] += 1;
        }
        let total: f32 = logits.iter().map(|logit: &f32| logit.exp()).sum();
        for (logit, count) in logits.iter().zip(counts) {
            let share = count as f32 / draws as f32;
            assert!((share - logit.exp() / total).abs() < 0.015, "{share} for logit {logit}");
        }
    }

    #[test]
    fn filters_keep_the_specified_tokens() {
        let logits: Vec<f32> = (0..1000).map(|i| -(i as f32) * 0.01).collect();
        let kept = |sampling: Sampling| {
            (0..4000)
                .filter_map(|seed| Sampling { seed, ..sampling }.choose(&logits, None, 0))
                .map(|token| token.0)
                .max()
        };
        let base = sampling(1.0, 0);
        assert_eq!(kept(Sampling { top_k: 3, ..base }), Some(2));
        assert_eq!(kept(Sampling { min_p: 0.985, ..base }), Some(1));
        // The first n tokens have a share of about 1 - e^(-n/100), so half is reached at n = 70.
        let top = kept(Sampling { top_p: 0.5, ..base }).expect("some");
        assert!((60..=70).contains(&top), "{top}");
        assert_eq!(kept(Sampling { top_p: 1e-6, ..base }), Some(0));
    }

    /// Returns all tokens drawn with 3000 seeds from these probabilities.
    fn drawn(sampling: Sampling, probabilities: &[f32]) -> Vec<u32> {
        let logits: Vec<f32> = probabilities.iter().map(|p| p.ln()).collect();
        let draws = (0..3000).filter_map(|seed| Sampling { seed, ..sampling }.choose(&logits, None, 3));
        let drawn: std::collections::BTreeSet<u32> = draws.map(|token| token.0).collect();
        drawn.into_iter().collect()
    }

    #[test]
    fn typical_tokens_are_about_as_surprising_as_the_mean() {
        // Surprises 0.69, 1.39, 2.08, 2.08; the entropy is 1.21. So the order is 1, 0, and then 2
        // and 3.
        let probabilities = [0.5, 0.25, 0.125, 0.125];
        let typical = |typical_p| drawn(Sampling { typical_p, ..sampling(1.0, 0) }, &probabilities);
        assert_eq!(typical(0.2), [1]);
        assert_eq!(typical(0.5), [0, 1]);
        assert_eq!(typical(0.8), [0, 1, 2]);
        assert_eq!(typical(1.0), [0, 1, 2, 3]);
    }

    #[test]
    fn xtc_removes_all_top_choices_but_one() {
        let probabilities = [0.4, 0.1, 0.3, 0.15, 0.05];
        let xtc = |xtc_probability, xtc_threshold| {
            drawn(Sampling { xtc_probability, xtc_threshold, ..sampling(1.0, 0) }, &probabilities)
        };
        assert_eq!(xtc(1.0, 0.2), [1, 2, 3, 4]);
        assert_eq!(xtc(1.0, 0.12), [1, 3, 4]);
        assert_eq!(xtc(1.0, 0.35), [0, 1, 2, 3, 4]);
        assert_eq!(xtc(1.0, 0.6), [0, 1, 2, 3, 4]);
        assert_eq!(xtc(0.0, 0.12), [0, 1, 2, 3, 4]);
        // Of two equally likely tokens one stays.
        let equals = drawn(Sampling { xtc_probability: 1.0, ..sampling(1.0, 0) }, &[0.5, 0.5]);
        assert_eq!(equals, [1]);
    }

    #[test]
    fn xtc_removes_top_choices_with_the_given_probability() {
        let logits = [0.6f32.ln(), 0.4f32.ln()];
        let draws = 20_000;
        let sampling = |seed| Sampling { xtc_probability: 0.5, ..sampling(1.0, seed) };
        let first = (0..draws).filter(|&seed| sampling(seed).choose(&logits, None, 1) == Some(TokenId(0)));
        // XTC removes the first token half of the time; otherwise the token has its own
        // probability.
        let share = first.count() as f32 / draws as f32;
        assert!((share - 0.3).abs() < 0.015, "{share}");
    }

    /// Chooses a token by the definitions: sorts everything and computes in `f64`.
    fn chosen_by_definition(
        sampling: &Sampling,
        logits: &[f32],
        mask: &TokenSet,
        position: usize,
    ) -> Option<TokenId> {
        let allowed = mask.iter().filter(|token| logits[token.index()].is_finite());
        let mut all: Vec<(TokenId, f64)> =
            allowed.map(|token| (token, f64::from(logits[token.index()]))).collect();
        let best = all.iter().map(|one| one.1).fold(f64::NEG_INFINITY, f64::max);
        for one in &mut all {
            one.1 = ((one.1 - best) / f64::from(sampling.temperature)).exp();
        }
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        if sampling.top_k > 0 {
            all.truncate(sampling.top_k);
        }
        all.retain(|one| one.1 >= f64::from(sampling.min_p));
        let target = all.iter().map(|one| one.1).sum::<f64>() * f64::from(sampling.top_p);
        let mut sum = 0.0;
        let reached = all.iter().position(|one| {
            sum += one.1;
            sum >= target
        });
        all.truncate(reached.map_or(usize::MAX, |last| last + 1));
        let is_free = sampling.top_k == 0 && sampling.min_p == 0.0 && sampling.top_p >= 1.0;
        all.sort_by_key(|one| (is_free && one.1 < f64::from(HEAVY), one.0));
        let mut left = all.iter().map(|one| one.1).sum::<f64>() * uniform(sampling.seed, position as u64);
        let reached = all.iter().find(|one| {
            left -= one.1;
            left < 0.0
        });
        reached.or(all.last()).map(|one| one.0)
    }

    #[test]
    fn draws_match_the_definition() {
        let noise = |seed: u64, at: u64| uniform(seed, at) as f32;
        let mut positions = 0..;
        for seed in 0..40 {
            let mut logits: Vec<f32> =
                (0..3000).map(|i| 12.0 * noise(seed, i).powi(3) - 6.0 * noise(seed, i + 9999)).collect();
            let mut mask = TokenSet::empty(logits.len());
            let share = [1.0, 0.9, 0.01][seed as usize % 3];
            (0..logits.len() as u32)
                .filter(|&i| noise(seed + 1, i.into()) < share)
                .for_each(|i| mask.insert(TokenId(i)));
            for (i, odd) in
                [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].into_iter().enumerate().take(seed as usize % 4)
            {
                logits[i * 700] = odd;
            }
            let given = (mask.count() < logits.len()).then_some(&mask);
            for top_k in [0, 1, 40, 2999] {
                for (min_p, top_p) in [(0.0, 1.0), (0.05, 1.0), (0.0, 0.9), (0.02, 0.5), (0.0, 0.999)] {
                    let temperature = [0.3, 1.0, 5.0][seed as usize / 3 % 3];
                    let sampling = Sampling { top_k, top_p, min_p, ..sampling(temperature, seed) };
                    let position = positions.next().unwrap_or_default();
                    let expected = chosen_by_definition(&sampling, &logits, &mask, position);
                    assert_eq!(expected, sampling.choose(&logits, given, position), "{sampling:?}");
                }
            }
        }
    }

    #[test]
    fn names_invalid_settings() {
        let error = |sampling: Sampling| sampling.check().expect_err("refused").to_string();
        assert_eq!(error(sampling(-1.0, 0)), "temperature is -1; expected 0..=100");
        assert_eq!(
            error(Sampling { top_p: 0.0, ..sampling(1.0, 0) }),
            "top_p is 0; expected a value above 0 and at most 1"
        );
        assert!(error(sampling(f32::NAN, 0)).starts_with("temperature is NaN"));
    }
}
