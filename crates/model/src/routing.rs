//! Routing of tokens to the experts of a mixture.

use crate::ops::softmax;
use crate::spec::{ExpertSpec, Gating};

/// Returns, for each expert, the tokens routed to it and their weights. Shape of `scores`:
/// `[tokens, experts]`.
pub(crate) fn route(spec: ExpertSpec, scores: &[f32]) -> Vec<Vec<(usize, f32)>> {
    let mut chosen = vec![Vec::new(); spec.count];
    for (token, scores) in scores.chunks_exact(spec.count).enumerate() {
        for (expert, weight) in choose(spec, scores) {
            chosen[expert].push((token, weight));
        }
    }
    chosen
}

/// Returns a token's experts with the highest scores, highest first, and their weights. Ties go to
/// the lower index.
fn choose(spec: ExpertSpec, scores: &[f32]) -> Vec<(usize, f32)> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    order.truncate(spec.used);
    let mut weights: Vec<f32> = match spec.gating {
        Gating::SoftmaxOverChosen => order.iter().map(|&expert| scores[expert]).collect(),
        Gating::Softmax => scores.to_vec(),
    };
    softmax(&mut weights);
    let weight = |(place, expert): (usize, usize)| match spec.gating {
        Gating::SoftmaxOverChosen => (expert, weights[place]),
        Gating::Softmax => (expert, weights[expert]),
    };
    order.into_iter().enumerate().map(weight).collect()
}
