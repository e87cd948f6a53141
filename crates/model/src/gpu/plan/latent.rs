//! Steps of latent attention.

use formwork_gpu::Buffer;
use formwork_gpu::attention::{Rotation, Shared};
use formwork_gpu::latent::{BoundLatent, LatentAttention};
use formwork_gpu::layer::{self, Bound, Columns, RowNorm};
use formwork_gpu::product::Outputs;

use super::bind::Bind;
use super::steps::{Products, Steps};
use super::workspace::LatentSpace;
use crate::gpu::weights::{Latent, Linear};
use crate::spec::RopePairing;

pub(super) struct PlannedLatent {
    heads: u32,
    /// Projection to a short vector, and its norm.
    down: Option<(Products, Bound)>,
    query: Products,
    latent: Products,
    /// Rounding of the queries' plain parts, and their projection.
    round_plain: Bound,
    key: Products,
    /// Index of the kind.
    kind: usize,
    attention: BoundLatent,
    /// Rounding of the heads' latent vectors, their projection, and the rounding of the values.
    round_latent: Bound,
    value: Products,
    round_values: Bound,
    output: Products,
}

impl PlannedLatent {
    pub(super) fn steps(&self, steps: &mut Steps<'_>) {
        let (tokens, items) = (steps.tokens(), steps.shape.items[self.kind] as u32);
        let pairs = tokens * self.heads;
        steps.begin("queries, keys, values");
        if let Some((down, norm)) = &self.down {
            steps.products(down);
            steps.push(norm.by_x(tokens));
        }
        steps.products(&self.query);
        steps.products(&self.latent);
        steps.begin("projections of heads").push(self.round_plain.by_y(pairs));
        steps.products(&self.key);
        let BoundLatent { keys, attention } = &self.attention;
        let [enter, attend, combine] = attention.steps(tokens, items, steps.shape.is_tiled);
        steps.begin("rotation, cache").push(keys.by_x(tokens));
        steps.push(enter);
        steps.begin("attention").push(attend);
        steps.begin("joining of spans").push(combine);
        steps.begin("projections of heads").push(self.round_latent.by_y(pairs));
        steps.products(&self.value);
        steps.push(self.round_values.by_y(tokens));
        steps.begin("output").products(&self.output);
    }
}

impl Bind<'_> {
    pub(super) fn latent(
        &self,
        block: &Latent,
        (kind, own): (usize, &LatentSpace),
        memory: &[Buffer; 2],
    ) -> PlannedLatent {
        let (gpu, space, shape) = (self.gpu, self.workspace, block.shape);
        let batch = &space.batch;
        let down = block.down.as_ref().map(|(linear, norm)| {
            let width = linear.matrix.rows as usize;
            let y = Columns { buffer: &own.low, stride: width, first: 0 };
            let norm = RowNorm { y, width, epsilon: shape.norm_epsilon, weight: norm, added: None };
            (self.products(linear, &space.x, (&own.low, width)), norm.bind(gpu, batch, &own.low_x))
        });
        let query_x = if down.is_some() { &own.low_x } else { &space.x };
        let query_dim = shape.plain_dim + shape.rope_dim;
        let query_len = shape.heads * query_dim;
        let head_products = |linear: &Linear, x, out| {
            let rows = linear.matrix.rows / shape.heads as u32;
            let outputs = Outputs::Experts { choice: own.heads.clone(), rows, has_pairs: true };
            self.products_of(linear, x, (out, rows as usize), &outputs)
        };
        let attention = LatentAttention {
            heads: shape.heads,
            plain_dim: shape.plain_dim,
            rope_dim: shape.rope_dim,
            rank: shape.rank,
            scale: self.spec.attention_scale,
            epsilon: shape.norm_epsilon,
            norm: &block.norm,
            rotation: Rotation {
                pairs: shape.rope_dim / 2,
                is_interleaved: self.spec.rope_pairing == RopePairing::Interleaved,
                first: self.sets[shape.rope],
            },
            projected: &own.projected,
            latent: &own.latent,
            kv: self.kv,
        };
        let shared = Shared { qkv: &space.mixed, stride: query_len, ..self.shared(kind) };
        let value_len = shape.heads * shape.value_dim;
        let plain = Columns { buffer: &space.mixed, stride: query_dim, first: 0 };
        let attended =
            Columns { buffer: &space.attended.floats, stride: attention.key_dim(), first: shape.rope_dim };
        let values = Columns { buffer: &own.values, stride: value_len, first: 0 };
        PlannedLatent {
            heads: shape.heads as u32,
            down,
            query: self.products(&block.query, query_x, (&space.mixed, query_len)),
            latent: self.products(&block.short, &space.x, (&own.latent, shape.rank + shape.rope_dim)),
            round_plain: layer::round(gpu, batch, plain, (&own.plain_x, shape.plain_dim)),
            key: head_products(&block.key, &own.plain_x, &own.projected),
            kind,
            attention: attention.bind(gpu, &shared, [&memory[0], &memory[1]]),
            round_latent: layer::round(gpu, batch, attended, (&own.latent_x, shape.rank)),
            value: head_products(&block.value, &own.latent_x, &own.values),
            round_values: layer::round(gpu, batch, values, (&own.values_x, value_len)),
            output: self.products(&block.output, &own.values_x, (&space.y, self.hidden())),
        }
    }
}
