//! Which experts of a mixture a token goes to.

use crate::ops::softmax;
use crate::spec::{ExpertSpec, Gating};

/// For each expert the tokens that go to it, with their weights, from a router's scores, `[tokens, experts]`.
pub(crate) fn route(spec: ExpertSpec, scores: &[f32]) -> Vec<Vec<(usize, f32)>> {
    let mut chosen = vec![Vec::new(); spec.count];
    for (token, scores) in scores.chunks_exact(spec.count).enumerate() {
        for (expert, weight) in choose(spec, scores) {
            chosen[expert].push((token, weight));
        }
    }
    chosen
}

/// The experts of a token with the highest scores, the lower of equal ones first, and their weights.
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
