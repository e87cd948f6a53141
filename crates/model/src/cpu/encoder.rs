//! Forward pass of models whose tokens attend to the whole text.
//!
//! Such a model reads a text at once, so it needs no cache of keys and values. Several texts pass
//! through the layers together and share each read of the weights.
//!
//! The result of a token depends only on its own text.

use std::ops::Range;

use formwork_lm::EncodedText;

use super::Network;
use super::attention::attend_both_ways;
use super::layer::Pass;
use super::product::{Rounding, products};
use super::workspace::{Workspace, room};
use crate::ops::{normalise_in_place, rms_norm_in_place, scale};
use crate::rope::Rotation;
use crate::weights::{AttentionWeights, LayerWeights, Mixer, Packed};

/// Texts of a pass: the range of the tokens of each, and the rotations of all tokens.
struct Texts {
    ranges: Vec<Range<usize>>,
    rotations: Vec<Rotation>,
}

impl Network {
    /// Computes the output of the last layer for all tokens of the texts. Shape: `[tokens, hidden]`.
    ///
    /// `visit` is called with the residual stream, once before the first layer and once after each
    /// layer.
    pub(super) fn encode(
        &self,
        texts: &[EncodedText<'_>],
        workspace: &mut Workspace,
        visit: &mut dyn FnMut(&[f32]),
    ) -> Vec<f32> {
        let mut start = 0;
        let range = |text: &EncodedText<'_>| {
            start += text.tokens.len();
            start - text.tokens.len()..start
        };
        let ranges: Vec<Range<usize>> = texts.iter().map(range).collect();
        let positions = ranges.iter().flat_map(|range| 0..range.len());
        let rotations = self.rope.rotations(&self.team, positions.clone());
        let roundings = positions.map(Rounding::at).collect();
        let mut x = self.embedded(texts, start);
        visit(&x);
        let tokens = (0..start).collect();
        let pass = Pass { spec: &self.spec, team: &self.team, roundings, adapters: Vec::new(), tokens };
        let texts = Texts { ranges, rotations };
        for layer in self.weights.layers.iter().enumerate() {
            pass.mix_both_ways(layer.1, &texts, &mut x, workspace);
            pass.feed(layer, &mut x, workspace);
            visit(&x);
        }
        x
    }

    /// Returns the input of the first layer: the vectors of tokens, positions and kinds of tokens.
    fn embedded(&self, texts: &[EncodedText<'_>], tokens: usize) -> Vec<f32> {
        let (spec, input) = (&self.spec, &self.weights.input);
        let mut x = vec![0.0; tokens * spec.hidden];
        let mut row = vec![0.0; spec.hidden];
        let mut rows = x.chunks_exact_mut(spec.hidden);
        for text in texts {
            for ((position, token), x) in text.tokens.iter().enumerate().zip(&mut rows) {
                match &self.weights.embedding {
                    Some(embedding) => embedding.dequantize(token.index()..token.index() + 1, x),
                    None => self.weights.head.dequantize(token.index(), x),
                }
                scale(x, spec.embedding_scale);
                if let Some(positions) = &input.positions {
                    positions.dequantize(position..position + 1, &mut row);
                    add(x, &row);
                }
                let kind = usize::from(text.second.is_some_and(|second| position >= second));
                if let Some(kind) = input.token_types.get(kind).or(input.token_types.first()) {
                    add(x, kind);
                }
            }
        }
        if let Some(norm) = &input.norm {
            normalise_in_place(&self.team, spec, &mut x, norm);
        }
        x
    }
}

impl Pass<'_> {
    /// Computes the mixer of a layer: updates the residual stream `x`, of shape `[tokens, hidden]`.
    fn mix_both_ways(
        &self,
        weights: &LayerWeights<Packed>,
        texts: &Texts,
        x: &mut [f32],
        workspace: &mut Workspace,
    ) {
        // The reader of specifications refused other mixers.
        let Mixer::Attention(attention) = &weights.mixer else { return };
        self.normed(x, weights.mixer_norm.as_ref(), workspace);
        self.attention_both_ways(attention, texts, workspace);
        self.add(x, &mut workspace.result[..x.len()], weights.post_mixer_norm.as_ref());
    }

    /// Computes an attention block. Reads `workspace.normed` and writes `workspace.result`, both of
    /// shape `[tokens, hidden]`.
    fn attention_both_ways(
        &self,
        weights: &AttentionWeights<Packed>,
        texts: &Texts,
        workspace: &mut Workspace,
    ) {
        let (spec, team, shape) = (self.spec, self.team, weights.shape);
        let (Some(key), Some(value)) = (&weights.key, &weights.value) else { return };
        let tokens = self.roundings.len();
        let Workspace { normed, result, queries, keys, values, attended, rounded, .. } = workspace;
        let queries = room(queries, tokens * shape.query_len());
        let keys = room(keys, tokens * shape.key_len());
        let values = room(values, tokens * shape.key_len());
        let input = self.input(&normed[..tokens * spec.hidden]);
        let parts = [(&weights.query, &mut *queries), (key, &mut *keys), (value, &mut *values)];
        products(team, rounded, input, parts);
        if let Some(norm) = &weights.qk_norm {
            rms_norm_in_place(team, queries, &norm.query, spec.norm_epsilon);
            rms_norm_in_place(team, keys, &norm.key, spec.norm_epsilon);
        }
        if let Some(rope) = shape.rope {
            let rotation = &texts.rotations[rope];
            rotation.apply(team, queries, shape.query_len(), shape.head_dim);
            rotation.apply(team, keys, shape.key_len(), shape.head_dim);
        }
        scale(queries, spec.attention_scale);
        let attended = room(attended, tokens * shape.query_len());
        attend_both_ways(team, shape, &texts.ranges, [queries, keys, values], attended);
        let result = room(result, tokens * spec.hidden);
        let input = self.input(attended);
        products(team, rounded, input, [(&weights.output, result)]);
    }
}

fn add(x: &mut [f32], other: &[f32]) {
    x.iter_mut().zip(other).for_each(|(x, y)| *x += y);
}
