//! Steps of latent attention: all heads attend to the same keys, which consist of a rotated part and a
//! latent vector. The keys are also the values.

use crate::attention::{Attention, BoundAttention, KeyValues, KvType, Rotation, Shared};
use crate::kernel::Access::{Read, Uniform, Write};
use crate::layer::{BATCH, Bound, unsigned};
use crate::source::{fill, float};
use crate::{Buffer, Gpu};

/// A latent attention block.
pub struct LatentAttention<'a> {
    /// Number of heads.
    pub heads: usize,
    /// Width of the part of a query that is not rotated, before its projection to the latent space.
    pub plain_dim: usize,
    /// Width of the rotated part of a query or key, an even number.
    pub rope_dim: usize,
    /// Width of a latent vector, an even number.
    pub rank: usize,
    /// Factor of the scores.
    pub scale: f32,
    /// Added to the mean square of the latent vector.
    pub epsilon: f32,
    /// Weights of the norm of the latent vector.
    pub norm: &'a Buffer,
    /// Rotation of queries and keys.
    pub rotation: Rotation,
    /// Projections of the queries' plain parts. Shape: `[tokens, heads, rank]`.
    pub projected: &'a Buffer,
    /// Latent vectors, each with the part of the key to rotate. Shape: `[tokens, rank + rope_dim]`.
    pub latent: &'a Buffer,
    /// Type of keys and values.
    pub kv: KvType,
}

/// The steps of a latent attention block between the products.
#[derive(Clone)]
pub struct BoundLatent {
    /// Writes the keys. It has one workgroup for each token.
    pub keys: Bound,
    /// Writes the queries, and attends.
    pub attention: BoundAttention,
}

impl LatentAttention<'_> {
    /// Returns the width of a key.
    pub const fn key_dim(&self) -> usize {
        self.rope_dim + self.rank
    }

    /// Binds the steps. `shared.qkv` has the queries before the projection of their plain parts, of shape
    /// `[tokens, heads, plain_dim + rope_dim]`. The result has the shape
    /// `[tokens, heads, rope_dim + rank]`; its first `rope_dim` columns have no meaning.
    pub fn bind(&self, gpu: &Gpu, shared: &Shared<'_>, [keys, values]: [&Buffer; 2]) -> BoundLatent {
        let values_of = [
            ("ROTATION", unsigned(self.rotation.first)),
            ("INTERLEAVED", self.rotation.is_interleaved.to_string()),
            ("PAIR>", format!("{}>", self.kv.pair())),
            ("STORE(pair)", self.kv.store().to_owned()),
            ("EPSILON", float(self.epsilon)),
            ("SCALE", float(self.scale)),
            ("HEADS", unsigned(self.heads)),
            ("PLAIN", unsigned(self.plain_dim)),
            ("ROPE", unsigned(self.rope_dim)),
            ("RANK", unsigned(self.rank)),
        ];
        let source = |main: &str| {
            BATCH.to_owned() + &fill(&(include_str!("shaders/turned.wgsl").to_owned() + main), &values_of)
        };
        let query_buffers = [
            (Uniform, shared.batch),
            (Read, shared.qkv),
            (Read, self.projected),
            (Read, shared.rotations),
            (Read, shared.slots),
            (Write, shared.queries),
        ];
        let queries = source(include_str!("shaders/latent_query.wgsl"));
        let queries = Bound::new(gpu, &queries, self.heads as u32, &query_buffers);
        let key_buffers = [
            (Uniform, shared.batch),
            (Read, self.latent),
            (Read, self.norm),
            (Read, shared.rotations),
            (Read, shared.slots),
            (Write, keys),
            (Write, values),
        ];
        let written = Bound::new(gpu, &source(include_str!("shaders/latent_key.wgsl")), 1, &key_buffers);
        let attention = Attention {
            heads: self.heads,
            kv_heads: 1,
            head_dim: self.key_dim(),
            window: None,
            softcap: None,
            scale: self.scale,
            epsilon: self.epsilon,
            qk_norm: None,
            value_norm: false,
            key_values: KeyValues::Written,
            rotation: None,
            sinks: None,
            is_gated: false,
            kv: self.kv,
        };
        BoundLatent { keys: written, attention: attention.bind_after(gpu, (queries, shared), keys, values) }
    }
}
