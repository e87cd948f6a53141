//! Families with latent attention: `DeepSeek` V2 and V3, Kimi K2, GLM-4.7-Flash and Mistral 4.

use super::{EXPERT_WIDTH, HEAD_DIM, HEADS, MAX_HEAD_DIM, Reader};
use crate::error::Kind;
use crate::spec::fields::Field;
use crate::spec::{Gating, LatentSpec, MixerSpec, ModelSpec, RopePairing, RopeScaling, Scores, Yarn};

const QUERY_RANK: Field = Field("attention.q_lora_rank", "q_lora_rank");
const RANK: Field = Field("attention.kv_lora_rank", "kv_lora_rank");
const KEY_DIM: Field = Field("attention.key_length_mla", "");
const VALUE_DIM: Field = Field("attention.value_length_mla", "v_head_dim");
const ROTATED: Field = Field("rope.dimension_count", "qk_rope_head_dim");
const PLAIN: Field = Field("", "qk_nope_head_dim");
const EXPERTS: Field = Field("expert_count", "n_routed_experts");
const EXPONENT: Field = Field("rope.scaling.yarn_log_multiplier", "mscale_all_dim");
const PAIRING: Field = Field("", "rope_interleave");

/// Added to the mean square of the compressed queries, keys and values. The reference implementation
/// does not read it from the configuration.
const NORM_EPSILON: f32 = 1e-6;
/// Largest rank of compressed queries, keys and values, far above that of any model.
const MAX_RANK: usize = 4096;

impl Reader<'_> {
    /// Returns the widths of the parts of a query head: not rotated and rotated.
    pub(super) fn latent_dims(&self) -> Result<[usize; 2], Kind> {
        let fields = self.fields;
        let rotated = self.bounded(ROTATED, MAX_HEAD_DIM)?;
        if fields.is_config() {
            return Ok([self.bounded(PLAIN, MAX_HEAD_DIM)?, rotated]);
        }
        // Older files have the widths under the names of plain attention.
        let field = if fields.optional_size(KEY_DIM)?.is_some() { KEY_DIM } else { HEAD_DIM };
        let whole = self.bounded(field, MAX_HEAD_DIM)?;
        fields.rule(whole > rotated, field, whole, "it must exceed the rotated part")?;
        Ok([whole - rotated, rotated])
    }

    pub(super) fn latent(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        let [plain_dim, rope_dim] = self.latent_dims()?;
        let is_paired = fields.truth(PAIRING)?.unwrap_or(true);
        spec.rope_pairing = if is_paired { RopePairing::Interleaved } else { RopePairing::Halves };
        let query_rank = fields.size_or_none(QUERY_RANK)?;
        let rank = self.bounded(RANK, MAX_RANK)?;
        let fits = rank + rope_dim <= MAX_RANK && rope_dim.is_multiple_of(2);
        fields.rule(fits, ROTATED, rope_dim, "it must be even, and at most 4096 with the rank")?;
        let is_older = !fields.is_config() && fields.optional_size(KEY_DIM)?.is_none();
        let value_dim = self.bounded(if is_older { super::VALUE_DIM } else { VALUE_DIM }, MAX_HEAD_DIM)?;
        let shape = LatentSpec {
            heads: self.bounded(HEADS, MAX_HEAD_DIM)?,
            query_rank,
            rank,
            plain_dim,
            rope_dim,
            value_dim,
            rope: 0,
            norm_epsilon: NORM_EPSILON,
        };
        for layer in &mut spec.layers {
            layer.mixer = MixerSpec::Latent(shape);
        }
        self.latent_scale(spec)?;
        self.temperature(spec)?;
        self.latent_experts(spec)
    }

    /// Sets the factor of the attention scores, which grows where frequencies are stretched.
    fn latent_scale(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        let [plain_dim, rope_dim] = self.latent_dims()?;
        spec.attention_scale = 1.0 / ((plain_dim + rope_dim) as f32).sqrt();
        let RopeScaling::Yarn(Yarn { factor, .. }) = spec.ropes[0].scaling else { return Ok(()) };
        let ropes = fields.within("rope_parameters").or_else(|| fields.within("rope_scaling"));
        if let Some(exponent) = ropes.unwrap_or(fields).float(EXPONENT)? {
            // GGUF files contain a tenth of the exponent.
            let exponent = if fields.is_config() { exponent } else { 10.0 * exponent };
            spec.attention_scale *= Yarn::magnitude_of(factor, exponent).powi(2);
        }
        Ok(())
    }

    fn latent_experts(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        if fields.size_or_none(EXPERTS)?.is_none() {
            return Ok(());
        }
        let has_bias = self.has_choice_bias(spec.layers.len());
        self.check_scores(has_bias)?;
        let mut groups = match fields.text(Field("", "topk_method"))? {
            Some("greedy") => None,
            _ => self.groups(fields.size(EXPERTS)?)?,
        };
        if let Some(groups) = &mut groups
            && !has_bias
        {
            groups.best = 1;
        }
        // Models that choose by a bias weigh by the logistic function, and the others by softmax.
        let gating = Gating {
            scores: if has_bias { Scores::Sigmoid } else { Scores::Softmax },
            has_bias,
            groups,
            normalised: fields
                .truth(Field("expert_weights_norm", "norm_topk_prob"))?
                .unwrap_or(false)
                .then_some(1e-20),
            scale: fields.positive(Field("expert_weights_scale", "routed_scaling_factor"))?.unwrap_or(1.0),
        };
        let dense = match fields.texts("mlp_layer_types")? {
            Some(types) => {
                self.one_for_each_layer(spec, Field("", "mlp_layer_types"), types.len())?;
                types.iter().take_while(|kind| **kind == "dense").count()
            }
            None => {
                fields.size_or_none(Field("leading_dense_block_count", "first_k_dense_replace"))?.unwrap_or(0)
            }
        };
        self.experts_after(spec, dense, (EXPERTS, EXPERT_WIDTH), gating)?;
        self.counted_shared(spec)
    }

    /// Checks that the function of the router, if the checkpoint names it, is that of models with or
    /// without a bias.
    fn check_scores(&self, has_bias: bool) -> Result<(), Kind> {
        let fields = self.fields;
        let rule = "expected the logistic function with a bias for the choice, and softmax without one";
        let field = Field("expert_gating_func", "scoring_func");
        if fields.is_config() {
            let given = fields.text(field)?;
            let expected = if has_bias { "sigmoid" } else { "softmax" };
            return fields.rule(
                given.is_none_or(|given| given == expected),
                field,
                given.unwrap_or(""),
                rule,
            );
        }
        let given = fields.size_or_none(field)?;
        let expected = if has_bias { 2 } else { 1 };
        fields.rule(given.is_none_or(|given| given == expected), field, given.unwrap_or(0), rule)
    }

    /// Returns true if a layer has a bias for the choice of experts.
    pub(super) fn has_choice_bias(&self, layers: usize) -> bool {
        let names = self.names();
        (0..layers).any(|layer| self.checkpoint.tensor(&names.layer(layer, "exp_probs_b.bias")).is_some())
    }
}
