//! Mixtures of experts.

use super::{EXPERT_WIDTH, EXPERTS_USED, FEED_FORWARD, QWEN_EXPERTS, Reader, SIGMOID};
use crate::checkpoint::Family;
use crate::error::Kind;
use crate::spec::fields::Field;
use crate::spec::{
    ExpertGroups, ExpertSpec, FeedForwardSpec, Gating, LayerSpec, ModelSpec, QkNorm, Scores, SharedExpertSpec,
};

const ERNIE_EXPERTS: Field = Field("expert_count", "moe_num_experts");

impl Reader<'_> {
    pub(super) fn qwen2_moe(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        spec.qkv_bias = fields.truth(Field("", "qkv_bias"))?.unwrap_or(true);
        self.qwen_windows(spec)?;
        self.qwen_experts(spec, false)?;
        let width = fields.size(self.shared_field())?;
        set_shared(spec, Some(SharedExpertSpec { width, is_gated: true }));
        Ok(())
    }

    pub(super) fn qwen3_moe(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        spec.qk_norm = Some(QkNorm::PerHead);
        self.qwen_windows(spec)?;
        // GGUF files lack the key. Their models always scale the experts' weights to a sum of 1.
        self.qwen_experts(spec, !self.fields.is_config())
    }

    /// Reads a mixture of Qwen. `scaled` states whether the experts' weights are scaled to a sum of 1
    /// if the checkpoint does not state it.
    pub(super) fn qwen_experts(&self, spec: &mut ModelSpec, scaled: bool) -> Result<(), Kind> {
        self.experts_everywhere()?;
        let scaled = self.fields.truth(Field("", "norm_topk_prob"))?.unwrap_or(scaled);
        let scores = if scaled { Scores::SoftmaxOverChosen } else { Scores::Softmax };
        self.experts(spec, QWEN_EXPERTS, EXPERT_WIDTH, Gating::plain(scores))
    }

    /// Reads the mixture of GLM-4.5 and later. The first layers are dense, and all others have an expert
    /// for all tokens.
    pub(super) fn glm4_moe(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        spec.qkv_bias = true;
        let has_norm = self.checkpoint.tensor(&(self.names().layer(0, "attn_q_norm") + ".weight")).is_some();
        spec.qk_norm = fields.truth(Field("", "use_qk_norm"))?.unwrap_or(has_norm).then_some(QkNorm::PerHead);
        let count = Field("expert_count", "n_routed_experts");
        let gating = self.routed_gating(count)?;
        let dense = fields.size_or_none(Field("leading_dense_block_count", "first_k_dense_replace"))?;
        self.experts_after(spec, dense.unwrap_or(0), (count, EXPERT_WIDTH), gating)?;
        self.counted_shared(spec)
    }

    /// Adds the mixture that some sizes of ERNIE 4.5 have in a range of layers.
    pub(super) fn ernie_experts(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        if fields.size_or_none(ERNIE_EXPERTS)?.is_none() {
            return Ok(());
        }
        let has_bias = self.has_choice_bias(spec.layers.len());
        let gating = Gating { has_bias, normalised: Some(1e-12), ..Gating::plain(Scores::Softmax) };
        let first = fields.size_or_none(Field("leading_dense_block_count", "moe_layer_start_index"))?;
        let every = fields.optional_size(Field("interleave_moe_layer_step", "moe_layer_interval"))?;
        // A negative index stands for the last layer. GGUF files do not contain the index.
        let last = fields.float(Field("", "moe_layer_end_index"))?.filter(|last| *last >= 0.0);
        let last = last.map_or(usize::MAX, |last| last as usize);
        let dense = spec.layers.clone();
        self.experts(spec, ERNIE_EXPERTS, EXPERT_WIDTH, gating)?;
        // GGUF files also contain a width of the shared expert, which is wrong for some sizes.
        self.counted_shared(spec)?;
        for (index, dense) in dense.into_iter().enumerate() {
            let is_within = (first.unwrap_or(0)..=last).contains(&index);
            if !is_within || !(index + 1).is_multiple_of(every.unwrap_or(1)) {
                spec.layers[index] = dense;
            }
        }
        Ok(())
    }

    /// Checks that a Qwen configuration has experts in every layer.
    pub(super) fn experts_everywhere(&self) -> Result<(), Kind> {
        let fields = self.fields;
        let rule = "only models with experts in every layer are supported";
        let step = Field("", "decoder_sparse_step");
        let given = fields.optional_size(step)?.unwrap_or(1);
        fields.rule(given == 1, step, given, rule)?;
        let dense = fields.numbers("mlp_only_layers")?.unwrap_or_default();
        fields.rule(dense.is_empty(), Field("", "mlp_only_layers"), format!("{dense:?}"), rule)
    }

    /// Reads the gating by the logistic function of `count` experts, with groups and a factor.
    pub(super) fn routed_gating(&self, count: Field) -> Result<Gating, Kind> {
        let fields = self.fields;
        let normalised = fields.truth(Field("expert_weights_norm", "norm_topk_prob"))?;
        Ok(Gating {
            groups: self.groups(fields.size(count)?)?,
            normalised: normalised.unwrap_or(true).then_some(1e-20),
            scale: fields.positive(Field("expert_weights_scale", "routed_scaling_factor"))?.unwrap_or(1.0),
            ..SIGMOID
        })
    }

    /// Returns the field for the expert that computes every token: its width, or the number of experts
    /// whose width it has.
    pub(super) fn shared_field(&self) -> Field {
        let width = "expert_shared_feed_forward_length";
        match self.family {
            Family::Ernie => Field("expert_shared_count", "moe_num_shared_experts"),
            Family::DeepSeek | Family::Glm4Moe => Field("expert_shared_count", "n_shared_experts"),
            Family::GraniteHybrid => Field(width, "shared_intermediate_size"),
            Family::NemotronH => Field(width, "moe_shared_expert_intermediate_size"),
            _ => Field(width, "shared_expert_intermediate_size"),
        }
    }

    /// Reads the expert that computes every token, as wide as a number of experts.
    pub(super) fn counted_shared(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let count = self.fields.size_or_none(self.shared_field())?;
        let width = self.fields.size(EXPERT_WIDTH)?;
        set_shared(spec, count.map(|count| SharedExpertSpec { width: count * width, is_gated: false }));
        Ok(())
    }

    /// Returns the field that contains the number of experts per token.
    fn used_field(&self) -> Field {
        if self.family == Family::Ernie { Field(EXPERTS_USED.0, "moe_k") } else { EXPERTS_USED }
    }

    /// Replaces the feed-forward block of each layer by a mixture of experts, except in the first
    /// `dense` layers.
    pub(super) fn experts_after(
        &self,
        spec: &mut ModelSpec,
        dense: usize,
        (count, width): (Field, Field),
        gating: Gating,
    ) -> Result<(), Kind> {
        let first: Vec<LayerSpec> = spec.layers.iter().take(dense).copied().collect();
        self.experts(spec, count, width, gating)?;
        spec.layers[..first.len()].copy_from_slice(&first);
        Ok(())
    }

    /// Reads the groups of `experts` experts. Returns `None` if all experts are one group.
    pub(super) fn groups(&self, experts: usize) -> Result<Option<ExpertGroups>, Kind> {
        let fields = self.fields;
        let (count_field, used_field) =
            (Field("expert_group_count", "n_group"), Field("expert_group_used_count", "topk_group"));
        let count = fields.optional_size(count_field)?.unwrap_or(1);
        let used = fields.optional_size(used_field)?.unwrap_or(1);
        let rule = "it must divide the number of experts";
        fields.rule(experts.is_multiple_of(count), count_field, count, rule)?;
        let is_enough = used <= count && fields.size(EXPERTS_USED)? <= used * (experts / count);
        let rule = "the groups must have the experts that a token uses";
        fields.rule(is_enough, used_field, used, rule)?;
        Ok((count > 1).then_some(ExpertGroups { count, used, best: 2 }))
    }

    /// Replaces the feed-forward block of each layer by a mixture of experts.
    pub(super) fn experts(
        &self,
        spec: &mut ModelSpec,
        count: Field,
        width: Field,
        gating: Gating,
    ) -> Result<(), Kind> {
        let fields = self.fields;
        let used_field = self.used_field();
        let (count, used) = (fields.size(count)?, fields.size(used_field)?);
        fields.rule(used <= count, used_field, used, "it must not exceed the number of experts")?;
        let width = fields.optional_size(width)?.map_or_else(|| fields.size(FEED_FORWARD), Ok)?;
        let experts = ExpertSpec { count, used, width, gating, shared: None, latent: None };
        for layer in &mut spec.layers {
            layer.feed_forward = FeedForwardSpec::Experts(experts);
        }
        Ok(())
    }
}

/// Sets the expert for all tokens in the layers with experts.
pub(super) fn set_shared(spec: &mut ModelSpec, shared: Option<SharedExpertSpec>) {
    for layer in &mut spec.layers {
        if let FeedForwardSpec::Experts(experts) = &mut layer.feed_forward {
            experts.shared = shared;
        }
    }
}
