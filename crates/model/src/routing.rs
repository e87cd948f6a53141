//! Routing of tokens to the experts of a mixture.

use crate::ops::softmax;
use crate::spec::{ExpertSpec, Gating};

/// Selects the experts of each token by `scores`, of shape `[tokens, experts]`.
///
/// Element `e` of the result lists the tokens that are routed to expert `e`, each with the weight
/// of the expert's output.
pub(crate) fn route(spec: ExpertSpec, scores: &[f32]) -> Vec<Vec<(usize, f32)>> {
    let mut chosen = vec![Vec::new(); spec.count];
    for (token, scores) in scores.chunks_exact(spec.count).enumerate() {
        for (expert, weight) in choose(spec, scores) {
            chosen[expert].push((token, weight));
        }
    }
    chosen
}

/// Returns the `spec.used` experts with the highest scores of a token, highest first, each with its
/// weight. Among equal scores, the lower index comes first.
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
