//! The families of Gemma.

use super::{
    ATTENTION_SCALE, EXPERT_WIDTH, EXPERTS_USED, HEADS, KV_HEADS, MAX_HEAD_DIM, QWEN_EXPERTS, Reader, THETA,
    WINDOW, give_windowed,
};
use crate::error::Kind;
use crate::spec::fields::Field;
use crate::spec::{
    Activation, AttentionSpec, ExpertSpec, FeedForwardSpec, Gating, KeyValues, ModelSpec, NormPlacement,
    QkNorm, RopeSpec, Scores,
};

const LOCAL_HEAD_DIM: Field = Field("attention.key_length_swa", "head_dim");
const PER_LAYER_INPUT: Field = Field("embedding_length_per_layer_input", "hidden_size_per_layer_input");
const SHARED_KV: Field = Field("attention.shared_kv_layers", "num_kv_shared_layers");
const LOCAL_THETA: Field = Field("rope.freq_base_swa", "rope_local_base_freq");
const ATTENTION_SOFTCAP: Field = Field("attn_logit_softcapping", "attn_logit_softcapping");
const LOGIT_SOFTCAP: Field = Field("final_logit_softcapping", "final_logit_softcapping");
const QUERY_SCALAR: Field = Field("", "query_pre_attn_scalar");
/// Gemma 3 has one layer with full attention in this number of layers.
const GEMMA3_GLOBAL_EVERY: usize = 6;
/// Default window of Gemma 2, for GGUF files without the key.
const GEMMA2_WINDOW: usize = 4096;
/// Number of layers of the 27B sizes of Gemma. These models scale attention by hidden size and
/// number of heads, instead of by head width.
const GEMMA2_27B_LAYERS: usize = 46;
const GEMMA3_27B_LAYERS: usize = 62;

impl Reader<'_> {
    pub(super) fn gemma2(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        spec.attention_softcap = self.fields.positive(ATTENTION_SOFTCAP)?.or(self.unless_config(50.0));
        spec.logit_softcap = self.fields.positive(LOGIT_SOFTCAP)?.or(self.unless_config(30.0));
        let usual = self.unless_config(GEMMA2_WINDOW);
        self.windows_or(spec, usual, |layer| layer.is_multiple_of(2))?;
        self.gemma(spec, GEMMA2_27B_LAYERS)
    }

    pub(super) fn gemma3(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        // GGUF files omit the base if it is 1,000,000, and the base of local layers if it is
        // 10,000.
        if fields.float(THETA)?.is_none() && !fields.is_config() {
            spec.ropes[0].theta = 1_000_000.0;
        }
        let local = fields.within("rope_parameters").and_then(|ropes| ropes.within("sliding_attention"));
        let theta = match local {
            Some(local) => local.float(THETA)?,
            None => fields.positive(LOCAL_THETA)?,
        };
        let theta = theta.unwrap_or(10_000.0);
        fields.rule(theta > 1.0, LOCAL_THETA, theta, "it must be above 1")?;
        fields.size(WINDOW)?;
        self.windows(spec, |layer| !(layer + 1).is_multiple_of(GEMMA3_GLOBAL_EVERY))?;
        give_windowed(spec, RopeSpec::plain(spec.ropes[0].dims, theta));
        spec.qk_norm = Some(QkNorm::PerHead);
        self.gemma(spec, GEMMA3_27B_LAYERS)
    }

    pub(super) fn gemma4(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        spec.norms = NormPlacement::Both;
        spec.embedding_scale = (spec.hidden as f32).sqrt();
        spec.attention_scale = 1.0;
        spec.activation = Activation::GeluTanh;
        spec.qk_norm = Some(QkNorm::PerHead);
        (spec.value_norm, spec.layer_scales) = (true, true);
        spec.logit_softcap = fields.positive(LOGIT_SOFTCAP)?;
        spec.per_layer_input = fields.size_or_none(PER_LAYER_INPUT)?;
        fields.size(WINDOW)?;
        self.windows(spec, |layer| !(layer + 1).is_multiple_of(GEMMA3_GLOBAL_EVERY))?;
        let full_dim = spec.attentions().next().map_or(0, |(_, attention)| attention.head_dim);
        let local_dim = fields.optional_size(LOCAL_HEAD_DIM)?.unwrap_or(full_dim);
        let sound = local_dim.is_multiple_of(2) && local_dim <= MAX_HEAD_DIM;
        fields.rule(sound, LOCAL_HEAD_DIM, local_dim, "it must be even and at most 65536")?;
        for (_, attention) in spec.attentions_mut().filter(|(_, attention)| attention.window.is_some()) {
            attention.head_dim = local_dim;
        }
        let ropes = fields.within("rope_parameters").and_then(|ropes| ropes.within("sliding_attention"));
        let theta = ropes.unwrap_or(fields).positive(if ropes.is_some() { THETA } else { LOCAL_THETA })?;
        give_windowed(spec, RopeSpec::plain(local_dim, theta.unwrap_or(10_000.0)));
        self.gemma4_keys(spec)?;
        self.gemma4_experts(spec)
    }

    /// Sets the key-value heads of the layers of Gemma 4, and the layers that read those of others.
    pub(super) fn gemma4_keys(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        let names = self.names();
        let has_values =
            |layer: usize| self.checkpoint.tensor(&(names.layer(layer, "attn_v") + ".weight")).is_some();
        let one_projection = fields.truth(Field("", "attention_k_eq_v"))?.unwrap_or(!fields.is_config());
        let full_heads = fields.optional_size(Field("", "num_global_key_value_heads"))?;
        for (index, attention) in spec.attentions_mut() {
            if one_projection && attention.window.is_none() {
                attention.kv_heads = full_heads.unwrap_or(attention.kv_heads);
                let divides = attention.kv_heads > 0 && attention.heads.is_multiple_of(attention.kv_heads);
                fields.rule(divides, KV_HEADS, attention.kv_heads, "it must divide the number of heads")?;
                if !has_values(index) {
                    attention.key_values = KeyValues::OneProjection;
                }
            }
        }
        let shared = fields.size_or_none(SHARED_KV)?.unwrap_or(0);
        let own = spec.layers.len().saturating_sub(shared);
        let is_double = fields.truth(Field("", "use_double_wide_mlp"))? == Some(true);
        let sources: Vec<(usize, AttentionSpec)> =
            spec.attentions().take(own).map(|(index, attention)| (index, *attention)).collect();
        for (_, attention) in spec.attentions_mut().skip(own) {
            let is_of_kind =
                |source: &&(usize, AttentionSpec)| source.1.window.is_some() == attention.window.is_some();
            let rule = "a layer of each kind must have keys and values";
            let Some((index, source)) = sources.iter().rfind(is_of_kind) else {
                return Err(Kind::KeyValue { key: fields.name(SHARED_KV), given: shared.to_string(), rule });
            };
            attention.kv_heads = source.kv_heads;
            attention.key_values = KeyValues::OfLayer(*index);
        }
        for layer in spec.layers.iter_mut().skip(own).filter(|_| is_double) {
            if let FeedForwardSpec::Dense { width } = &mut layer.feed_forward {
                *width *= 2;
            }
        }
        Ok(())
    }

    /// Adds the mixture that some sizes of Gemma 4 have beside the dense block.
    pub(super) fn gemma4_experts(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        let Some(count) = fields.size_or_none(QWEN_EXPERTS)? else { return Ok(()) };
        let used = fields.size(Field("expert_used_count", "top_k_experts"))?;
        fields.rule(used <= count, EXPERTS_USED, used, "it must not exceed the number of experts")?;
        let gating = Gating::plain(Scores::SoftmaxOverChosen);
        let width = fields.size(EXPERT_WIDTH)?;
        let experts = ExpertSpec { count, used, width, gating, shared: None, latent: None };
        for layer in &mut spec.layers {
            if let FeedForwardSpec::Dense { width } = layer.feed_forward {
                layer.feed_forward = FeedForwardSpec::DenseAndExperts { width, experts };
            }
        }
        Ok(())
    }

    pub(super) fn gemma(&self, spec: &mut ModelSpec, odd_layers: usize) -> Result<(), Kind> {
        spec.norms = NormPlacement::Both;
        spec.embedding_scale = (spec.hidden as f32).sqrt();
        if let Some(scalar) = self.fields.positive(QUERY_SCALAR)? {
            spec.attention_scale = 1.0 / scalar.sqrt();
        } else if let Some(scale) = self.fields.positive(ATTENTION_SCALE)? {
            spec.attention_scale = scale;
        } else if spec.layers.len() == odd_layers {
            spec.attention_scale = 1.0 / ((spec.hidden / self.fields.size(HEADS)?) as f32).sqrt();
        }
        spec.activation = Activation::GeluTanh;
        Ok(())
    }
}
