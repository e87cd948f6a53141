//! Weights at the two ends of models for whole texts: vectors of positions and kinds of tokens, and the
//! layers after the pooling.

use formwork_kernels::dot_f32;

use super::{Matrix, Norm};
use crate::ops::{gelu, sigmoid};

/// Vectors that are added to those of tokens.
#[derive(Debug, Default)]
pub(crate) struct InputWeights {
    /// Vectors of positions. Shape: `[positions, hidden]`.
    pub(crate) positions: Option<Matrix>,
    /// Vectors of kinds of tokens. Shape: `[kinds, hidden]`.
    pub(crate) token_types: Vec<Vec<f32>>,
    /// Norm of the sum.
    pub(crate) norm: Option<Norm>,
}

/// Layers after the pooling of hidden states.
#[derive(Debug, Default)]
pub(crate) struct TextHead {
    /// Layers that compute the embedding of a text.
    pub(crate) dense: Vec<Dense>,
    /// Layers that compute the score of a query and a document.
    pub(crate) ranking: Option<RankHead>,
}

/// A linear layer and its activation. Few vectors pass through it, so it is computed without rounding.
#[derive(Debug)]
pub(crate) struct Dense {
    /// Shape: `[outputs, inputs]`.
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Option<Vec<f32>>,
    pub(crate) activation: DenseActivation,
}

/// Activation of a [`Dense`] layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DenseActivation {
    Identity,
    Tanh,
    Gelu,
}

/// Layers that compute a score.
#[derive(Debug)]
pub(crate) struct RankHead {
    /// Layer before the scores.
    pub(crate) hidden: Option<Dense>,
    /// Norm of its output.
    pub(crate) norm: Option<(Norm, f32)>,
    /// One output, or two: that of relevant documents and that of others.
    pub(crate) labels: Dense,
    /// True if a single output is converted to a probability.
    pub(crate) is_probability: bool,
}

impl Dense {
    /// Computes the output for one vector.
    pub(crate) fn apply(&self, x: &[f32]) -> Vec<f32> {
        let rows = self.weight.chunks_exact(x.len());
        let mut out: Vec<f32> = rows.map(|row| dot_f32(row, x)).collect();
        for (y, b) in out.iter_mut().zip(self.bias.iter().flatten()) {
            *y += b;
        }
        for y in &mut out {
            *y = match self.activation {
                DenseActivation::Identity => *y,
                DenseActivation::Tanh => y.tanh(),
                DenseActivation::Gelu => gelu(*y),
            };
        }
        out
    }
}

impl RankHead {
    /// Returns the score for the pooled hidden states of a query and a document.
    pub(crate) fn score(&self, pooled: &[f32]) -> f32 {
        let mut x = match &self.hidden {
            Some(hidden) => hidden.apply(pooled),
            None => pooled.to_vec(),
        };
        if let Some((norm, epsilon)) = &self.norm {
            crate::ops::layer_norm_row(&mut x, norm, *epsilon);
        }
        match self.labels.apply(&x)[..] {
            // The softmax of two values is the logistic function of their difference.
            [relevant, other] => sigmoid(relevant - other),
            [score, ..] if self.is_probability => sigmoid(score),
            [score, ..] => score,
            [] => 0.0,
        }
    }
}
