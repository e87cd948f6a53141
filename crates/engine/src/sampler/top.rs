//! Choice of a token by the likeliest tokens of a row.

use formwork_kernels::unscaled_softmax;
use formwork_lm::TopLogits;
use formwork_vocab::TokenId;

use super::{Candidate, HEAVY, Sampling, draw, total_of, uniform};

/// Relative error of the weight of the tokens that a [`TopLogits`] leaves out.
const ERROR: f64 = 1e-4;

/// Relative error of sums that are added in another order.
const ROUNDING: f64 = 1e-12;

/// Weights of the likeliest tokens, relative to the likeliest one.
struct Weights {
    candidates: Vec<Candidate>,
    /// Maximum weight of a token that is left out. 0 if none is.
    limit: f32,
    /// Weight of all tokens that are left out.
    rest: f64,
}

impl Weights {
    /// Returns `None` if no token has a finite logit, or if the rest is unknown.
    fn new(top: &TopLogits, temperature: f32) -> Option<Self> {
        let mut weights: Vec<f32> = top.tokens.iter().map(|(_, logit)| *logit).collect();
        let best = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if !best.is_finite() || !top.rest.is_finite() {
            return None;
        }
        unscaled_softmax(&mut weights, best, temperature);
        // A smaller logit may have a larger weight by rounding.
        let least = weights.iter().copied().fold(f32::INFINITY, f32::min) * (1.0 + 1e-5);
        let limit = if top.is_complete { 0.0 } else { least };
        let tokens = top.tokens.iter().zip(weights).filter(|(_, weight)| *weight > 0.0);
        let candidates = tokens.map(|(&(token, _), weight)| Candidate { token, weight }).collect();
        Some(Self { candidates, limit, rest: top.rest })
    }

    fn total(&self) -> f64 {
        total_of(&self.candidates) + self.rest
    }

    /// Returns true if `at` lies between two sums of weights, whatever the error of the total weight is.
    fn is_between(&self, at: f64, [before, after]: [f64; 2]) -> bool {
        let error = ERROR * self.rest + ROUNDING * self.total();
        (before == 0.0 || at - before > error) && after - at > error
    }

    /// Returns true if the candidates include the `count` heaviest tokens.
    fn has_heaviest(&self, count: usize) -> bool {
        let heavier = self.candidates.iter().filter(|candidate| candidate.weight > self.limit);
        self.limit == 0.0 || heavier.count() >= count
    }

    /// Returns true if the candidates include the heaviest tokens that have the share `top_p` of the total
    /// weight.
    fn has_share(&self, top_p: f32) -> bool {
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
        let total = weights.total();
        let leaves_out = self.leaves_out(position);
        is_enough.then(|| draw(self.filtered(weights.candidates, || total, leaves_out), share))
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
    let is_whole = weights.limit == 0.0;
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
            let error = [-1e-4, 0.0, 1e-4][seed as usize / 27 % 3];
            let mut top = TopLogits::of(&logits, count, temperature);
            top.rest *= 1.0 + error;
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

    /// Tokens with these weights, and others that weigh `rest` together.
    fn weighing(weights: &[f32], rest: f64) -> TopLogits {
        let tokens = (3..).map(TokenId).zip(weights.iter().map(|weight| weight.ln()));
        TopLogits { tokens: tokens.collect(), is_complete: false, rest }
    }

    #[test]
    fn a_boundary_within_the_error_needs_the_row() {
        // The first two tokens have 1.5 of about 2 parts of the weight. The error of the rest is 1e-5.
        let top = weighing(&[1.0, 0.5, 0.3, 0.1], 0.1);
        let cut = |target: f64| {
            let sampling = Sampling { temperature: 1.0, top_p: (target / 2.0) as f32, ..Sampling::default() };
            sampling.choose_top(&top, 0).is_some()
        };
        assert!(cut(0.7) && cut(1.5 - 5e-5) && cut(1.5 + 5e-5));
        assert!(!cut(1.5 - 5e-6) && !cut(1.5 + 5e-6));
        // A token that is left out may be as likely as the last one.
        assert!(!cut(1.85));
    }

    #[test]
    fn a_draw_within_the_error_needs_the_row() {
        let sampling = Sampling { temperature: 1.0, seed: 5, ..Sampling::default() };
        let share = uniform(5, 0);
        // The draw is at the end of the second token, up to `off`.
        let drawn = |off: f64| {
            let rest = (1.5 + off) / share - 1.5005;
            sampling.choose_top(&weighing(&[1.0, 0.5, 0.0005], rest), 0)
        };
        let error = 1e-4 * (1.5 / share - 1.5005);
        assert_eq!(drawn(-2.0 * error), Some(TokenId(4)));
        assert_eq!([drawn(-0.5 * error), drawn(0.5 * error)], [None; 2]);
        // Beyond the two heavy tokens, a token that is left out may come next.
        assert_eq!(drawn(2.0 * error), None);
    }

    #[test]
    fn tokens_of_tiny_weight_may_be_left_out_although_they_weigh_nothing() {
        // XTC keeps the least likely of the 40 likeliest tokens, whatever they weigh.
        let logits: Vec<f32> = (0..100).map(|token| -15.0 * token as f32).collect();
        let sampling = Sampling {
            temperature: 0.1,
            top_k: 40,
            xtc_probability: 1.0,
            xtc_threshold: 0.0,
            ..Sampling::default()
        };
        let top = TopLogits { rest: 0.0, ..TopLogits::of(&logits, 10, 0.1) };
        assert_eq!(sampling.choose_top(&top, 0), None);
        assert_eq!(
            sampling.choose_top(&TopLogits::of(&logits, 100, 0.1), 0),
            sampling.choose(&logits, None, 0)
        );
    }

    #[test]
    fn some_settings_need_all_tokens() {
        let sampling = Sampling { temperature: 1.0, ..Sampling::default() };
        assert!(sampling.may_choose_top(0));
        assert!(!Sampling { typical_p: 0.9, ..sampling }.may_choose_top(0));
        assert!(!Sampling { temperature: 0.0, ..sampling }.may_choose_top(0));
        let top = TopLogits { tokens: vec![(TokenId(0), f32::NEG_INFINITY)], ..TopLogits::default() };
        assert_eq!(sampling.choose_top(&top, 0), None);
        assert_eq!(sampling.choose_top(&TopLogits::default(), 0), None);
    }
}
