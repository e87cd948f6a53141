//! Families whose layers have convolutions or recurrences beside attention.

use formwork_kernels::COLUMNS;

use super::experts::set_shared;
use super::{EXPERT_WIDTH, EXPERTS, FEED_FORWARD, MAX_HEAD_DIM, QWEN_EXPERTS, Reader, SIGMOID, WINDOW};
use crate::checkpoint::Family;
use crate::error::Kind;
use crate::spec::fields::Field;
use crate::spec::{
    Activation, ConvolutionSpec, DeltaRuleSpec, FeedForwardSpec, Gating, HeadSharing, Mamba2Spec, MixerSpec,
    ModelSpec, QkNorm, Scores, SharedExpertSpec,
};

const RECURRENT_LAYERS: Field = Field("attention.recurrent_layers", "");
const FULL_INTERVAL: Field = Field("full_attention_interval", "full_attention_interval");
/// Qwen3-Next and later have one layer with attention in this number of layers.
const QWEN_FULL_INTERVAL: usize = 4;

const GROUPS: Field = Field("ssm.group_count", "linear_num_key_heads");
const STATE_HEADS: Field = Field("ssm.time_step_rank", "linear_num_value_heads");
const STATE_ROWS: Field = Field("ssm.state_size", "linear_key_head_dim");
const KERNEL: Field = Field("ssm.conv_kernel", "linear_conv_kernel_dim");
const INNER: Field = Field("ssm.inner_size", "");

/// Upper limit of the number of positions that a convolution sees, far above that of any model.
const MAX_KERNEL: usize = 64;
/// Upper limit of the number of elements of a layer's state, far above that of any model.
const MAX_STATE: usize = 1 << 26;

/// Kind of a layer of Nemotron-H, which has one block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Mamba,
    Attention,
    Dense,
    Experts,
}

impl Reader<'_> {
    pub(super) fn lfm2(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        spec.qk_norm = Some(QkNorm::PerHead);
        let kernel = self.bounded(Field("shortconv.l_cache", "conv_L_cache"), MAX_KERNEL)?;
        let convolution = MixerSpec::ShortConvolution(ConvolutionSpec { channels: spec.hidden, kernel });
        let attention = fields.numbers("full_attn_idxs")?;
        let has_state = match (self.listed_states(spec)?, attention) {
            (None, Some(listed)) => {
                (0..spec.layers.len()).map(|index| !listed.contains(&(index as f32))).collect()
            }
            (listed, _) => {
                listed.ok_or_else(|| fields.missing(Field("attention.head_count_kv", "layer_types")))?
            }
        };
        replace_mixers(spec, &has_state, convolution);
        if let Some(window) = fields.size_or_none(WINDOW)? {
            spec.attentions_mut().for_each(|(_, attention)| attention.window = Some(window));
        }
        if fields.size_or_none(QWEN_EXPERTS)?.is_none() {
            return self.lfm2_width(spec);
        }
        let gating = Gating {
            has_bias: fields.truth(Field("", "use_expert_bias"))?.unwrap_or(true),
            normalised: fields.truth(Field("", "norm_topk_prob"))?.unwrap_or(true).then_some(1e-6),
            scale: fields.positive(Field("expert_weights_scale", "routed_scaling_factor"))?.unwrap_or(1.0),
            ..SIGMOID
        };
        let dense = fields.size_or_none(Field("leading_dense_block_count", "num_dense_layers"))?;
        self.experts_after(spec, dense.unwrap_or(0), (QWEN_EXPERTS, EXPERT_WIDTH), gating)
    }

    /// Adjusts the width of the feed-forward blocks as a configuration of LFM2 asks. GGUF files contain
    /// the result.
    fn lfm2_width(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        if !fields.is_config() || fields.truth(Field("", "block_auto_adjust_ff_dim"))? == Some(false) {
            return Ok(());
        }
        let given =
            fields.optional_size(Field("", "block_ff_dim"))?.map_or_else(|| fields.size(FEED_FORWARD), Ok)?;
        let factor = fields.positive(Field("", "block_ffn_dim_multiplier"))?.unwrap_or(1.0);
        let multiple = fields.optional_size(Field("", "block_multiple_of"))?.unwrap_or(256);
        let width = ((2 * given / 3) as f32 * factor) as usize;
        let width = width.div_ceil(multiple).saturating_mul(multiple);
        fields.rule(width > 0, FEED_FORWARD, given, "it must not be adjusted to 0")?;
        for layer in &mut spec.layers {
            layer.feed_forward = FeedForwardSpec::Dense { width };
        }
        Ok(())
    }

    /// Reads Qwen3-Next and Qwen3.5 and later, dense or with experts.
    pub(super) fn qwen_hybrid(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        spec.qk_norm = Some(QkNorm::PerHead);
        let every = fields.optional_size(FULL_INTERVAL)?.unwrap_or(QWEN_FULL_INTERVAL);
        let has_state = self.listed_states(spec)?;
        let has_state = has_state.unwrap_or_else(|| {
            (0..spec.layers.len()).map(|index| !(index + 1).is_multiple_of(every)).collect()
        });
        replace_mixers(spec, &has_state, MixerSpec::DeltaRule(self.delta_rule()?));
        let is_gated = fields.truth(Field("", "attn_output_gate"))?.unwrap_or(true);
        spec.attentions_mut().for_each(|(_, attention)| attention.is_gated = is_gated);
        if fields.size_or_none(QWEN_EXPERTS)?.is_none() {
            return Ok(());
        }
        self.qwen_experts(spec, true)?;
        let shared = fields.size_or_none(self.shared_field())?;
        set_shared(spec, shared.map(|width| SharedExpertSpec { width, is_gated: true }));
        Ok(())
    }

    fn delta_rule(&self) -> Result<DeltaRuleSpec, Kind> {
        let fields = self.fields;
        let key_heads = self.bounded(GROUPS, MAX_HEAD_DIM)?;
        let value_heads = self.bounded(STATE_HEADS, MAX_HEAD_DIM)?;
        let rule = "it must be a multiple of the number of key heads";
        fields.rule(value_heads.is_multiple_of(key_heads), STATE_HEADS, value_heads, rule)?;
        let value_dim = if fields.is_config() {
            self.bounded(Field("", "linear_value_head_dim"), MAX_HEAD_DIM)?
        } else {
            self.width_of_heads(value_heads)?
        };
        // GGUF files of Qwen3.5 have the value heads in another order.
        let alternates = self.family == Family::Qwen35 && !fields.is_config();
        let key_dim = self.bounded(STATE_ROWS, MAX_HEAD_DIM)?;
        self.check_state(STATE_ROWS, value_heads, key_dim, value_dim)?;
        Ok(DeltaRuleSpec {
            key_heads,
            value_heads,
            key_dim,
            value_dim,
            kernel: self.bounded(KERNEL, MAX_KERNEL)?,
            sharing: if alternates { HeadSharing::Alternating } else { HeadSharing::Neighbours },
        })
    }

    pub(super) fn granite_hybrid(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        self.granite(spec)?;
        if fields.text(Field("", "position_embedding_type"))? == Some("nope") {
            spec.attentions_mut().for_each(|(_, attention)| attention.rope = None);
        }
        let listed = self.listed_states(spec)?;
        let has_state =
            listed.ok_or_else(|| fields.missing(Field("attention.head_count_kv", "layer_types")))?;
        let names = ["mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv"];
        replace_mixers(spec, &has_state, MixerSpec::Mamba2(self.mamba2(names)?));
        let shared_width = fields.size_or_none(self.shared_field())?;
        if fields.size_or_none(EXPERTS)?.is_some() {
            self.experts(spec, EXPERTS, FEED_FORWARD, Gating::plain(Scores::SoftmaxOverChosen))?;
            set_shared(spec, shared_width.map(|width| SharedExpertSpec { width, is_gated: false }));
        } else if let Some(width) = shared_width {
            // Without experts, the expert for all tokens is a dense block.
            spec.layers.iter_mut().for_each(|layer| layer.feed_forward = FeedForwardSpec::Dense { width });
        }
        Ok(())
    }

    pub(super) fn nemotron_h(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        spec.activation = Activation::ReluSquared;
        spec.attentions_mut().for_each(|(_, attention)| attention.rope = None);
        let names = ["mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel"];
        let mamba = self.mamba2(names)?;
        let blocks = self.nemotron_blocks(spec)?;
        let dense: Vec<FeedForwardSpec> = spec.layers.iter().map(|layer| layer.feed_forward).collect();
        if blocks.contains(&Block::Experts) {
            self.nemotron_experts(spec)?;
        }
        for ((layer, block), dense) in spec.layers.iter_mut().zip(blocks).zip(dense) {
            (layer.mixer, layer.feed_forward) = match block {
                Block::Mamba => (MixerSpec::Mamba2(mamba), FeedForwardSpec::Nothing),
                Block::Attention => (layer.mixer, FeedForwardSpec::Nothing),
                Block::Dense => (MixerSpec::Nothing, dense),
                Block::Experts => (MixerSpec::Nothing, layer.feed_forward),
            };
        }
        Ok(())
    }

    fn nemotron_experts(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        let count = Field("expert_count", "n_routed_experts");
        self.experts(spec, count, EXPERT_WIDTH, self.routed_gating(count)?)?;
        let shared = fields.size_or_none(self.shared_field())?;
        let latent = fields.size_or_none(Field("moe_latent_size", "moe_latent_size"))?;
        set_shared(spec, shared.map(|width| SharedExpertSpec { width, is_gated: false }));
        for layer in &mut spec.layers {
            if let FeedForwardSpec::Experts(experts) = &mut layer.feed_forward {
                experts.latent = latent;
            }
        }
        Ok(())
    }

    /// Returns the kind of each layer of Nemotron-H. GGUF files do not name it, so it is that of the
    /// tensors.
    fn nemotron_blocks(&self, spec: &ModelSpec) -> Result<Vec<Block>, Kind> {
        let fields = self.fields;
        if !fields.is_config() {
            let has = |index, part: &str| {
                self.checkpoint.tensor(&(self.names().layer(index, part) + ".weight")).is_some()
            };
            let kind = |index| match () {
                () if has(index, "ssm_in") => Block::Mamba,
                () if has(index, "ffn_gate_inp") => Block::Experts,
                () if has(index, "ffn_up") => Block::Dense,
                () => Block::Attention,
            };
            return Ok((0..spec.layers.len()).map(kind).collect());
        }
        let pattern = Field("", "hybrid_override_pattern");
        let types = Field("", "layers_block_type");
        let (field, given): (Field, Vec<String>) = match (fields.texts(types.1)?, fields.text(pattern)?) {
            (Some(listed), _) => (types, listed.into_iter().map(str::to_owned).collect()),
            (None, Some(letters)) => (pattern, letters.chars().map(String::from).collect()),
            (None, None) => return Err(fields.missing(pattern)),
        };
        self.one_for_each_layer(spec, field, given.len())?;
        let block = |name: String| match &*name {
            "M" | "mamba" | "linear_attention" => Ok(Block::Mamba),
            "*" | "attention" | "full_attention" => Ok(Block::Attention),
            "-" | "mlp" => Ok(Block::Dense),
            "E" | "moe" => Ok(Block::Experts),
            _ => Err(Kind::KeyValue {
                key: fields.name(field),
                given: name,
                rule: "expected mamba, attention, mlp or moe",
            }),
        };
        given.into_iter().map(block).collect()
    }

    /// Reads a Mamba2 block. `names` are the keys in a configuration: numbers of heads, of elements of
    /// a head, of groups, of rows of the state, and of positions that the convolution sees.
    fn mamba2(&self, names: [&'static str; 5]) -> Result<Mamba2Spec, Kind> {
        let fields = self.fields;
        let [heads_key, head_dim_key, groups_key, state_key, kernel_key] = names;
        let heads_field = Field(STATE_HEADS.0, heads_key);
        let heads = self.bounded(heads_field, MAX_HEAD_DIM)?;
        let groups_field = Field(GROUPS.0, groups_key);
        let groups = self.bounded(groups_field, MAX_HEAD_DIM)?;
        let rule = "it must divide the number of heads";
        fields.rule(heads.is_multiple_of(groups), groups_field, groups, rule)?;
        let head_dim = if fields.is_config() {
            self.bounded(Field("", head_dim_key), MAX_HEAD_DIM)?
        } else {
            self.width_of_heads(heads)?
        };
        let state_field = Field(STATE_ROWS.0, state_key);
        let state = self.bounded(state_field, MAX_HEAD_DIM)?;
        self.check_state(state_field, heads, state, head_dim)?;
        Ok(Mamba2Spec {
            heads,
            head_dim,
            groups,
            state,
            kernel: self.bounded(Field(KERNEL.0, kernel_key), MAX_KERNEL)?,
            time_step_limits: self.time_step_limits()?,
        })
    }

    /// Reads the least and the largest time step. GGUF files do not contain them.
    fn time_step_limits(&self) -> Result<[f32; 2], Kind> {
        let given = self.fields.numbers_or_infinity("time_step_limit")?;
        let limits = match given.as_deref() {
            None => [0.0, f32::INFINITY],
            Some(&[least, largest]) => [least, largest],
            Some(_) => [f32::NAN; 2],
        };
        let sound = 0.0 <= limits[0] && limits[0] <= limits[1];
        let rule = "expected two numbers, the smaller one first";
        self.fields.rule(sound, Field("", "time_step_limit"), format!("{given:?}"), rule)?;
        Ok(limits)
    }

    /// Checks that the states of `heads` heads are not absurdly large. `field` has the number of rows.
    fn check_state(&self, field: Field, heads: usize, rows: usize, columns: usize) -> Result<(), Kind> {
        let len = heads.checked_mul(rows).and_then(|len| len.checked_mul(columns.next_multiple_of(COLUMNS)));
        let fits = len.is_some_and(|len| len <= MAX_STATE);
        let given = format!("{rows}, with {heads} heads of {columns} elements");
        self.fields.rule(fits, field, given, "a state must not exceed 2^26 elements")
    }

    /// Returns the width of each of `heads` heads of a recurrence, in a GGUF file.
    fn width_of_heads(&self, heads: usize) -> Result<usize, Kind> {
        let inner = self.fields.size(INNER)?;
        let rule = "it must be a multiple of the number of heads";
        self.fields.rule(inner.is_multiple_of(heads), INNER, inner, rule)?;
        Ok(inner / heads)
    }

    /// Reads a size that is at most `most`.
    pub(super) fn bounded(&self, field: Field, most: usize) -> Result<usize, Kind> {
        let given = self.fields.size(field)?;
        self.fields.rule(given <= most, field, given, "it is too large")?;
        Ok(given)
    }

    /// Returns whether each layer has a state, if the checkpoint lists the layers.
    fn listed_states(&self, spec: &ModelSpec) -> Result<Option<Vec<bool>>, Kind> {
        let fields = self.fields;
        let field = Field("", "layer_types");
        if let Some(types) = fields.texts(field.1)? {
            self.one_for_each_layer(spec, field, types.len())?;
            let has_state = |kind: &str| match kind {
                "conv" | "mamba" | "linear_attention" => Ok(true),
                "attention" | "full_attention" => Ok(false),
                _ => Err(Kind::KeyValue {
                    key: fields.name(field),
                    given: kind.to_owned(),
                    rule: "expected conv, mamba, linear_attention, attention or full_attention",
                }),
            };
            return types.into_iter().map(has_state).collect::<Result<_, _>>().map(Some);
        }
        if let Some(mut flags) = fields.flags(RECURRENT_LAYERS) {
            // The list may include the layers of drafts, which the specification does not have.
            flags.truncate(spec.layers.len());
            self.one_for_each_layer(spec, RECURRENT_LAYERS, flags.len())?;
            return Ok(Some(flags));
        }
        // In GGUF files, layers without attention have no key-value heads.
        let is_listed = spec.layers.iter().any(|layer| layer.mixer == MixerSpec::Nothing);
        Ok(is_listed.then(|| spec.layers.iter().map(|layer| layer.mixer == MixerSpec::Nothing).collect()))
    }
}

/// Gives the mixer to the layers with a state.
fn replace_mixers(spec: &mut ModelSpec, has_state: &[bool], mixer: MixerSpec) {
    for (layer, has_state) in spec.layers.iter_mut().zip(has_state) {
        if *has_state {
            layer.mixer = mixer;
        }
    }
}
