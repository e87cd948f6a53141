//! The blocks of a layer that mix information of different positions.

/// Kind and shape of the block of a layer that mixes information of different positions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum MixerSpec {
    /// No block. The layer is its feed-forward block.
    Nothing,
    /// Attention to the keys and values of positions.
    Attention(AttentionSpec),
    /// Attention to short keys from which the keys and values of all heads are computed. Used by
    /// `DeepSeek` V2 and later.
    Latent(LatentSpec),
    /// A gated convolution over the last few positions. Used by LFM2.
    ShortConvolution(ConvolutionSpec),
    /// The gated delta rule: a linear recurrence whose state learns values by their keys. Used by
    /// Qwen3-Next and Qwen3.5.
    DeltaRule(DeltaRuleSpec),
    /// Mamba2: a linear recurrence with a decay that depends on the token.
    Mamba2(Mamba2Spec),
}

impl MixerSpec {
    /// Reports whether the block keeps a state of fixed size for a sequence. The state is that after
    /// the last position, and cannot be cut back to an earlier one.
    pub const fn has_state(&self) -> bool {
        matches!(self, Self::ShortConvolution(_) | Self::DeltaRule(_) | Self::Mamba2(_))
    }

    /// Returns the shape in which the block attends to cached keys and values. `None` if it has no
    /// cache.
    pub const fn cached(&self) -> Option<AttentionSpec> {
        match self {
            Self::Attention(attention) => Some(*attention),
            Self::Latent(latent) => Some(latent.attention()),
            _ => None,
        }
    }

    /// Returns the causal convolution of the block. `None` if it has none.
    pub const fn convolution(&self) -> Option<ConvolutionSpec> {
        match self {
            Self::ShortConvolution(convolution) => Some(*convolution),
            Self::DeltaRule(delta) => Some(delta.convolution()),
            Self::Mamba2(mamba) => Some(mamba.convolution()),
            Self::Nothing | Self::Attention(_) | Self::Latent(_) => None,
        }
    }

    /// Returns the shape of the block's recurrence. `None` for a block without one.
    pub const fn recurrence(&self) -> Option<RecurrenceSpec> {
        match *self {
            Self::DeltaRule(DeltaRuleSpec { value_heads, key_dim, value_dim, .. }) => Some(RecurrenceSpec {
                heads: value_heads,
                rows: key_dim,
                columns: value_dim,
                is_delta_rule: true,
            }),
            Self::Mamba2(Mamba2Spec { heads, head_dim, state, .. }) => {
                Some(RecurrenceSpec { heads, rows: state, columns: head_dim, is_delta_rule: false })
            }
            _ => None,
        }
    }
}

/// Shape of a linear recurrence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecurrenceSpec {
    /// Number of heads, each with a state of its own.
    pub heads: usize,
    /// Number of rows of a state: the width of a key.
    pub rows: usize,
    /// Number of columns of a state: the width of a value.
    pub columns: usize,
    /// True if the state forgets the old value of a key before it learns a new one.
    pub is_delta_rule: bool,
}

/// Shape of a latent attention block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LatentSpec {
    /// Number of heads.
    pub heads: usize,
    /// Width of the vector from which queries are computed. `None` if queries are computed from the
    /// block's input.
    pub query_rank: Option<usize>,
    /// Width of the vector from which keys and values are computed.
    pub rank: usize,
    /// Width of the part of a query or key that is not rotated.
    pub plain_dim: usize,
    /// Width of the part of a query or key that is rotated. All heads share this part of the keys.
    pub rope_dim: usize,
    /// Width of a value.
    pub value_dim: usize,
    /// Index into [`ModelSpec::ropes`](super::ModelSpec::ropes).
    pub rope: usize,
    /// Added to the mean square of the two vectors from which queries, and keys and values, are
    /// computed.
    pub norm_epsilon: f32,
}

impl LatentSpec {
    /// Returns the shape in which all heads attend to the cached vectors: a rotated part, followed by
    /// the vector from which keys and values are computed. This vector is the value.
    pub const fn attention(&self) -> AttentionSpec {
        AttentionSpec {
            heads: self.heads,
            kv_heads: 1,
            head_dim: self.rope_dim + self.rank,
            key_values: KeyValues::WithinKeys(self.rope_dim),
            window: None,
            rope: Some(self.rope),
            is_gated: false,
        }
    }
}

/// Shape of a causal convolution of each channel over the last positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConvolutionSpec {
    /// Number of channels.
    pub channels: usize,
    /// Number of positions that a token sees, including its own.
    pub kernel: usize,
}

/// Assignment of value heads to the key heads that they share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadSharing {
    /// Neighbouring value heads share a key head.
    Neighbours,
    /// Value head `i` has the key head `i` modulo the number of key heads.
    Alternating,
}

/// Shape of a gated delta rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeltaRuleSpec {
    /// Number of heads of queries and keys. Divides `value_heads`.
    pub key_heads: usize,
    /// Number of heads of values, each with a state of its own.
    pub value_heads: usize,
    /// Width of a query or key.
    pub key_dim: usize,
    /// Width of a value.
    pub value_dim: usize,
    /// Number of positions that the convolution before the recurrence sees.
    pub kernel: usize,
    /// Assignment of value heads to key heads.
    pub sharing: HeadSharing,
}

impl DeltaRuleSpec {
    /// Returns the number of elements of the queries of a token, which is also that of the keys.
    pub const fn key_len(&self) -> usize {
        self.key_heads * self.key_dim
    }

    /// Returns the number of elements of the values of a token.
    pub const fn value_len(&self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Returns the convolution of queries, keys and values.
    pub const fn convolution(&self) -> ConvolutionSpec {
        ConvolutionSpec { channels: 2 * self.key_len() + self.value_len(), kernel: self.kernel }
    }

    /// Returns the key head of a value head.
    pub const fn key_head(&self, value_head: usize) -> usize {
        match self.sharing {
            HeadSharing::Neighbours => value_head * self.key_heads / self.value_heads,
            HeadSharing::Alternating => value_head % self.key_heads,
        }
    }
}

/// Shape of a Mamba2 block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mamba2Spec {
    /// Number of heads.
    pub heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Number of groups of heads. The heads of a group share the vectors that write and read the
    /// state, and their outputs are normalised together. Divides `heads`.
    pub groups: usize,
    /// Number of rows of the state of a head.
    pub state: usize,
    /// Number of positions that the convolution before the recurrence sees.
    pub kernel: usize,
    /// Least and largest time step.
    pub time_step_limits: [f32; 2],
}

impl Mamba2Spec {
    /// Returns the number of elements of the output of a token.
    pub const fn inner_len(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Returns the convolution of the values and of the vectors that write and read the state.
    pub const fn convolution(&self) -> ConvolutionSpec {
        let channels = self.inner_len() + 2 * self.groups * self.state;
        ConvolutionSpec { channels, kernel: self.kernel }
    }
}

/// Origin of the keys and values of an attention block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyValues {
    /// Two projections of the block.
    Own,
    /// One projection of the block. The values are the keys before their norm and rotation.
    OneProjection,
    /// The keys and values of the earlier layer at this index, which has the same shape.
    OfLayer(usize),
    /// Keys whose elements from this one on are also the values.
    WithinKeys(usize),
}

/// Shape of an attention block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttentionSpec {
    /// Number of query heads.
    pub heads: usize,
    /// Number of key-value heads. Divides `heads`.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Origin of the keys and values.
    pub key_values: KeyValues,
    /// Number of positions that a token attends to, including its own. `None` means all.
    pub window: Option<usize>,
    /// Index into [`ModelSpec::ropes`](super::ModelSpec::ropes). `None` for a layer without rotary
    /// embeddings.
    pub rope: Option<usize>,
    /// True if the output of each query head is multiplied by the logistic function of a projection
    /// of the block's input.
    pub is_gated: bool,
}

impl AttentionSpec {
    /// Returns the number of elements of the queries of a token.
    pub const fn query_len(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Returns the width of a value.
    pub const fn value_dim(&self) -> usize {
        match self.key_values {
            KeyValues::WithinKeys(first) => self.head_dim - first,
            _ => self.head_dim,
        }
    }

    /// Returns the number of elements of the results of a token.
    pub const fn result_len(&self) -> usize {
        self.heads * self.value_dim()
    }

    /// Returns the number of elements of the keys of a token, which is also that of the values.
    pub const fn key_len(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}
