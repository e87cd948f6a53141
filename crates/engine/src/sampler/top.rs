//! Choice of a token by the likeliest tokens of a row.

use formwork_kernels::unscaled_softmax;
use formwork_lm::TopLogits;
use formwork_vocab::TokenId;

use super::{Candidate, HEAVY, Sampling, draw, total_of, uniform};

/// Relative error of the weight of the tokens that a [`TopLogits`] leaves out.
const ERROR: f64 = 1e-4;

/// Weights of the likeliest tokens, relative to the likeliest one.
struct Weights {
    candidates: Vec<Candidate>,
    /// Maximum weight of a token that is left out.
    limit: f32,
    /// Weight of all tokens that are left out.
    rest: f64,
}

impl Weights {
    /// Returns `None` if no token has a finite logit.
    fn new(top: &TopLogits, temperature: f32) -> Option<Self> {
        let mut weights: Vec<f32> = top.tokens.iter().map(|(_, logit)| *logit).collect();
        let best = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if !best.is_finite() || !top.rest.is_finite() {
            return None;
        }
        unscaled_softmax(&mut weights, best, temperature);
        let least = weights.iter().copied().fold(f32::INFINITY, f32::min);
        let limit = if top.rest > 0.0 { least } else { 0.0 };
        let tokens = top.tokens.iter().zip(weights).filter(|(_, weight)| *weight > 0.0);
        let candidates = tokens.map(|(&(token, _), weight)| Candidate { token, weight }).collect();
        Some(Self { candidates, limit, rest: top.rest })
    }

    fn total(&self) -> f64 {
        total_of(&self.candidates) + self.rest
    }

    /// Returns true if a share of the total weight lies between two sums, whatever the error of the rest is.
    fn is_between(&self, at: f64, [before, after]: [f64; 2]) -> bool {
        let error = ERROR * self.rest;
        self.rest == 0.0 || (before == 0.0 || at - before > error) && after - at > error
    }

    /// Returns true if the candidates include the `count` heaviest tokens.
    fn has_heaviest(&self, count: usize) -> bool {
        let heavier = self.candidates.iter().filter(|candidate| candidate.weight > self.limit);
        self.rest == 0.0 || heavier.count() >= count
    }

    /// Returns true if the candidates include the heaviest tokens that have the share `top_p` of the total
    /// weight.
    fn has_share(&self, top_p: f32) -> bool {
        if self.rest == 0.0 {
            return true;
        }
        let mut sorted = self.candidates.clone();
        sorted.sort_unstable_by(Candidate::by_weight);
        let target = self.total() * f64::from(top_p);
        let mut sum = 0.0;
        for Candidate { weight, .. } in sorted {
            let before = sum;
            sum += f64::from(weight);
            if sum >= target {
                return weight > self.limit && self.is_between(target, [before, sum]);
            }
        }
        false
    }
}

impl Sampling {
    /// Returns true if [`choose_top`](Self::choose_top) can choose the token at `position`.
    pub(crate) fn may_choose_top(&self, position: usize) -> bool {
        let removes = self.top_k > 0 || self.min_p > 0.0 || self.top_p < 1.0;
        !self.is_greedy()
            && (self.typical_p >= 1.0 || self.top_k > 0)
            && (removes || !self.leaves_out(position))
    }

    /// Chooses the same token as [`choose`](Self::choose) does by all logits. Returns `None` if the
    /// likeliest tokens are not enough to tell.
    pub(crate) fn choose_top(&self, top: &TopLogits, position: usize) -> Option<TokenId> {
        if !self.may_choose_top(position) {
            return None;
        }
        let weights = Weights::new(top, self.temperature)?;
        let share = uniform(self.seed, position as u64);
        let is_enough = if self.top_k > 0 {
            weights.has_heaviest(self.top_k)
        } else if self.min_p > 0.0 {
            self.min_p > weights.limit
        } else if self.top_p < 1.0 {
            weights.has_share(self.top_p)
        } else {
            return draw_heavy(&weights, share);
        };
        let Weights { candidates, rest, .. } = weights;
        let total = total_of(&candidates) + rest;
        is_enough.then(|| draw(self.filtered(candidates, || total, self.leaves_out(position)), share))
    }
}

/// Draws from all tokens. Returns `None` if the draw may be a token that is left out.
fn draw_heavy(weights: &Weights, share: f64) -> Option<TokenId> {
    if weights.limit >= HEAVY {
        return None;
    }
    let at = weights.total() * share;
    let (heavy, light): (Vec<&Candidate>, Vec<&Candidate>) =
        weights.candidates.iter().partition(|candidate| candidate.weight >= HEAVY);
    // The lighter tokens are in order of id, and some may be left out.
    let is_whole = weights.rest == 0.0;
    let mut sum = 0.0;
    for candidate in heavy.into_iter().chain(light.into_iter().filter(|_| is_whole)) {
        let before = sum;
        sum += f64::from(candidate.weight);
        if sum > at {
            return weights.is_between(at, [before, sum]).then_some(candidate.token);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::uniform;
    use super::*;

    /// Returns the `count` likeliest tokens of a row, and the sum of the others with an error.
    fn top(logits: &[f32], count: usize, temperature: f32, error: f64) -> TopLogits {
        let mut sorted: Vec<(TokenId, f32)> = (0..).map(TokenId).zip(logits.iter().copied()).collect();
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
        // Equal logits stay together.
        let end = sorted.get(count).map_or(0.0, |last| last.1);
        let (mut tokens, others): (Vec<_>, Vec<_>) =
            sorted.iter().copied().partition(|one| count >= logits.len() || one.1 > end);
        tokens.sort_by_key(|one| one.0);
        let weight = |logit: f32| f64::from((logit - sorted[0].1) / temperature).exp();
        let rest: f64 = others.iter().map(|one| weight(one.1)).sum();
        TopLogits { tokens, rest: rest * (1.0 + error) }
    }

    #[test]
    fn likeliest_tokens_choose_as_the_whole_row() {
        const ROWS: u64 = 300;
        let noise = |seed: u64, at: u64| uniform(seed, at) as f32;
        let filters = [
            Sampling::default(),
            Sampling { top_k: 1, ..Sampling::default() },
            Sampling { top_k: 40, top_p: 0.95, min_p: 0.05, ..Sampling::default() },
            Sampling { top_k: 60, typical_p: 0.7, ..Sampling::default() },
            Sampling { min_p: 0.1, top_p: 0.9, ..Sampling::default() },
            Sampling { top_p: 0.9, xtc_probability: 0.5, ..Sampling::default() },
            Sampling { top_p: 0.3, ..Sampling::default() },
            Sampling { xtc_probability: 0.5, ..Sampling::default() },
        ];
        let mut chosen = vec![0u64; filters.len()];
        for seed in 0..ROWS {
            let steepness = [4.0, 12.0, 30.0][seed as usize % 3];
            let logits: Vec<f32> =
                (0..2000).map(|at| steepness * noise(seed, at).powi(5) - noise(seed, at + 5000)).collect();
            let temperature = [0.5, 1.0, 1.3][seed as usize / 3 % 3];
            let count = [90, 300, 2000][seed as usize / 9 % 3];
            let error = [-1e-5, 0.0, 1e-5][seed as usize / 27 % 3];
            let top = top(&logits, count, temperature, error);
            for (filter, chosen) in filters.iter().zip(&mut chosen) {
                let sampling = Sampling { temperature, seed, ..*filter };
                let position = seed as usize * 7;
                if let Some(token) = sampling.choose_top(&top, position) {
                    let whole = sampling.choose(&logits, None, position);
                    assert_eq!(Some(token), whole, "{sampling:?} of {count}");
                    *chosen += 1;
                }
            }
        }
        // Most draws need no more. Without a filter, a lighter token may be drawn from these flat rows.
        assert!(chosen.iter().all(|&chosen| chosen > ROWS / 4), "{chosen:?}");
    }

    #[test]
    fn a_boundary_within_the_error_needs_the_row() {
        // Two tokens of weight 1 have 2 of 4 parts of the total weight, up to its error.
        let top = TopLogits { tokens: vec![(TokenId(3), 0.0), (TokenId(5), 0.0)], rest: 2.0 };
        let sampling = |top_p| Sampling { temperature: 1.0, top_p, ..Sampling::default() };
        assert_eq!(sampling(0.5).choose_top(&top, 0), None);
        // The likeliest tokens that are left out may be as likely as those two.
        assert_eq!(sampling(0.2).choose_top(&top, 0), None);
        let top = TopLogits { tokens: vec![(TokenId(3), 0.0), (TokenId(5), -3.0)], rest: 1.0 };
        assert_eq!(sampling(0.2).choose_top(&top, 0), Some(TokenId(3)));
    }

    #[test]
    fn settings_that_need_all_tokens_are_known() {
        let sampling = Sampling { temperature: 1.0, ..Sampling::default() };
        assert!(sampling.may_choose_top(0));
        assert!(!Sampling { typical_p: 0.9, ..sampling }.may_choose_top(0));
        assert!(!Sampling { temperature: 0.0, ..sampling }.may_choose_top(0));
        let top = TopLogits { tokens: vec![(TokenId(0), f32::NEG_INFINITY)], rest: 0.0 };
        assert_eq!(sampling.choose_top(&top, 0), None);
        assert_eq!(sampling.choose_top(&TopLogits::default(), 0), None);
    }
}
