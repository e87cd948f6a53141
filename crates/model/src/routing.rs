//! Routing of tokens to the experts of a mixture.

use crate::ops::{sigmoid, softmax};
use crate::spec::{ExpertGroups, ExpertSpec, Scores};

/// Selects the experts of each token by `logits`, of shape `[tokens, experts]`. `bias` is added to the
/// scores for the choice only, and `scales` are factors of the weights. Shape of both: `[experts]`.
///
/// Element `e` of the result lists the tokens that are routed to expert `e`, each with the weight
/// of the expert's output.
pub(crate) fn route(
    spec: ExpertSpec,
    logits: &[f32],
    bias: Option<&[f32]>,
    scales: Option<&[f32]>,
) -> Vec<Vec<(usize, f32)>> {
    let mut chosen = vec![Vec::new(); spec.count];
    for (token, logits) in logits.chunks_exact(spec.count).enumerate() {
        for (expert, weight) in choose(spec, logits, bias) {
            chosen[expert].push((token, scales.map_or(weight, |scales| weight * scales[expert])));
        }
    }
    chosen
}

/// Returns the `spec.used` experts with the highest scores of a token, highest first, each with its
/// weight. Among equal scores, the lower index comes first.
fn choose(spec: ExpertSpec, logits: &[f32], bias: Option<&[f32]>) -> Vec<(usize, f32)> {
    let gating = spec.gating;
    let mut scores = logits.to_vec();
    match gating.scores {
        Scores::Softmax => {
            softmax(&mut scores);
        }
        Scores::Sigmoid => scores.iter_mut().for_each(|score| *score = sigmoid(*score)),
        // The order of the logits is that of the scores.
        Scores::SoftmaxOverChosen => {}
    }
    let mut ranks = scores.clone();
    if let Some(bias) = bias {
        ranks.iter_mut().zip(bias).for_each(|(rank, bias)| *rank += bias);
    }
    if let Some(groups) = gating.groups {
        leave_best_groups(groups, &mut ranks);
    }
    let mut order: Vec<usize> = (0..ranks.len()).collect();
    order.sort_by(|&a, &b| ranks[b].total_cmp(&ranks[a]));
    order.truncate(spec.used);
    let mut weights: Vec<f32> = order.iter().map(|&expert| scores[expert]).collect();
    if gating.scores == Scores::SoftmaxOverChosen {
        softmax(&mut weights);
    }
    let sum = gating.normalised.map_or(1.0, |epsilon| weights.iter().sum::<f32>() + epsilon);
    order.into_iter().zip(weights).map(|(expert, weight)| (expert, weight / sum * gating.scale)).collect()
}

/// Sets the ranks of all experts outside the best groups to `-inf`. Among equal groups, the lower
/// index comes first.
fn leave_best_groups(groups: ExpertGroups, ranks: &mut [f32]) {
    let len = ranks.len() / groups.count;
    let score = |group: &[f32]| {
        let mut group = group.to_vec();
        group.sort_by(|a, b| b.total_cmp(a));
        group.iter().take(groups.best).sum::<f32>()
    };
    let scores: Vec<f32> = ranks.chunks_exact(len).map(score).collect();
    let mut order: Vec<usize> = (0..groups.count).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    for &group in &order[groups.used..] {
        ranks[group * len..(group + 1) * len].fill(f32::NEG_INFINITY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Gating;

    #[test]
    fn chooses_among_the_experts_of_the_best_groups() {
        let groups = Some(ExpertGroups { count: 2, used: 1, best: 2 });
        let gating = Gating { groups, scale: 2.0, ..Gating::plain(Scores::Sigmoid) };
        let spec = ExpertSpec { count: 4, used: 2, width: 1, gating, shared: None, latent: None };
        // The first group has the best expert, the second one the better two.
        let logits = [3.0, -3.0, 1.0, 2.0];
        let chosen = choose(spec, &logits, None);
        assert_eq!(chosen, [(3, 2.0 * sigmoid(2.0)), (2, 2.0 * sigmoid(1.0))]);
        // The bias counts for the choice, and not for the weight.
        let chosen = choose(spec, &logits, Some(&[0.0, 1.0, 0.0, 0.0]));
        assert_eq!(chosen, [(1, 2.0 * sigmoid(-3.0)), (0, 2.0 * sigmoid(3.0))]);
    }
}
