//! The differences of each family of architectures from Llama.

use super::fields::{Field, Fields};
use super::rope::{LongFactors, RopeScaling, RopeSpec, Yarn};
use super::{
    Activation, AttentionSpec, ExpertGroups, ExpertSpec, FeedForwardSpec, Gating, KeyValues, LayerSpec,
    ModelSpec, NormPlacement, QkNorm, RopePairing, Scores, SharedExpertSpec, Temperature,
};
use crate::checkpoint::{Checkpoint, Family, Names};
use crate::error::Kind;

const HIDDEN: Field = Field("embedding_length", "hidden_size");
const HEADS: Field = Field("attention.head_count", "num_attention_heads");
const KV_HEADS: Field = Field("attention.head_count_kv", "num_key_value_heads");
const HEAD_DIM: Field = Field("attention.key_length", "head_dim");
const FULL_HEAD_DIM: Field = Field("", "global_head_dim");
const LOCAL_HEAD_DIM: Field = Field("attention.key_length_swa", "head_dim");
const PER_LAYER_INPUT: Field = Field("embedding_length_per_layer_input", "hidden_size_per_layer_input");
const SHARED_KV: Field = Field("attention.shared_kv_layers", "num_kv_shared_layers");
const VALUE_DIM: Field = Field("attention.value_length", "v_head_dim");
const ROPE_DIMS: Field = Field("rope.dimension_count", "partial_rotary_factor");
const LAYERS: Field = Field("block_count", "num_hidden_layers");
const FEED_FORWARD: Field = Field("feed_forward_length", "intermediate_size");
const CONTEXT: Field = Field("context_length", "max_position_embeddings");
const EPSILON: Field = Field("attention.layer_norm_rms_epsilon", "rms_norm_eps");
const WINDOW: Field = Field("attention.sliding_window", "sliding_window");
const WINDOW_PATTERN: Field = Field("attention.sliding_window_pattern", "sliding_window_pattern");
const THETA: Field = Field("rope.freq_base", "rope_theta");
const LOCAL_THETA: Field = Field("rope.freq_base_swa", "rope_local_base_freq");
const SCALING: Field = Field("rope.scaling.type", "rope_type");
const FACTOR: Field = Field("rope.scaling.factor", "factor");
const ORIGINAL: Field = Field("rope.scaling.original_context_length", "original_max_position_embeddings");
const MAGNITUDE: Field = Field("rope.scaling.attn_factor", "attention_factor");
const MAGNITUDE_OWN: Field = Field("", "mscale");
const MAGNITUDE_ALL: Field = Field("rope.scaling.yarn_log_multiplier", "mscale_all_dim");
const TEMPERATURE: Field = Field("attention.temperature_scale", "llama_4_scaling_beta");
const FINETUNED: Field = Field("rope.scaling.finetuned", "");
const BETA_FAST: Field = Field("rope.scaling.yarn_beta_fast", "beta_fast");
const BETA_SLOW: Field = Field("rope.scaling.yarn_beta_slow", "beta_slow");
const TRUNCATE: Field = Field("", "truncate");
const ATTENTION_SOFTCAP: Field = Field("attn_logit_softcapping", "attn_logit_softcapping");
const LOGIT_SOFTCAP: Field = Field("final_logit_softcapping", "final_logit_softcapping");
const ATTENTION_SCALE: Field = Field("attention.scale", "attention_multiplier");
const QUERY_SCALAR: Field = Field("", "query_pre_attn_scalar");
const EMBEDDING_SCALE: Field = Field("embedding_scale", "embedding_multiplier");
const RESIDUAL_SCALE: Field = Field("residual_scale", "residual_multiplier");
const LOGIT_SCALE: Field = Field("logit_scale", "logits_scaling");
const EXPERTS: Field = Field("expert_count", "num_local_experts");
const QWEN_EXPERTS: Field = Field("expert_count", "num_experts");
const EXPERTS_USED: Field = Field("expert_used_count", "num_experts_per_tok");
const EXPERT_WIDTH: Field = Field("expert_feed_forward_length", "moe_intermediate_size");
const ACTIVATION: Field = Field("", "hidden_act");

/// Gemma 3 has one layer with full attention in this number of layers.
const GEMMA3_GLOBAL_EVERY: usize = 6;
/// `SmolLM3` has one layer without rotary embeddings in this number of layers.
const SMOLLM3_NO_ROPE_EVERY: usize = 4;
/// Gating by the logistic function, with a bias for the choice and weights that sum to 1.
const SIGMOID: Gating = Gating { has_bias: true, normalised: Some(1e-20), ..Gating::plain(Scores::Sigmoid) };

/// EXAONE 4 has one layer with full attention in this number of layers.
const EXAONE4_GLOBAL_EVERY: usize = 4;
/// `OLMo` 3 has one layer with full attention in this number of layers.
const OLMO3_GLOBAL_EVERY: usize = 4;
/// Default window of Gemma 2, for GGUF files without the key.
const GEMMA2_WINDOW: usize = 4096;
/// Number of layers of the 27B sizes of Gemma. These models scale attention by hidden size and
/// number of heads, instead of by head width.
const GEMMA2_27B_LAYERS: usize = 46;
const GEMMA3_27B_LAYERS: usize = 62;

/// Upper limit of a head's width, far above that of any model. It rejects absurd values before the
/// tensors' shapes are checked.
const MAX_HEAD_DIM: usize = 1 << 16;

/// Reads the specification of a checkpoint.
pub(super) fn read(checkpoint: &Checkpoint) -> Result<ModelSpec, Kind> {
    if checkpoint.tensors().is_empty() {
        return Err(Kind::VocabularyOnly);
    }
    let (family, architecture) = Family::of(checkpoint)?;
    let fields = match checkpoint {
        Checkpoint::Gguf(file) => Fields::Gguf(file, architecture),
        Checkpoint::Safetensors(model) => Fields::Config(model.config()),
    };
    let reader = Reader { checkpoint, family, fields };
    let mut spec = reader.common(architecture)?;
    reader.differences(&mut spec)?;
    Ok(spec)
}

/// Adds a set of rotary frequencies and assigns it to all layers with a window.
fn give_windowed(spec: &mut ModelSpec, rope: RopeSpec) {
    let windowed = spec.layers.iter_mut().filter(|layer| layer.attention.window.is_some());
    windowed.for_each(|layer| layer.attention.rope = Some(spec.ropes.len()));
    spec.ropes.push(rope);
}

struct Reader<'a> {
    checkpoint: &'a Checkpoint,
    family: Family,
    fields: Fields<'a>,
}

impl Reader<'_> {
    /// Reads the fields that all families share. The result describes a Llama.
    fn common(&self, architecture: &str) -> Result<ModelSpec, Kind> {
        let fields = self.fields;
        let hidden = fields.size(HIDDEN)?;
        let heads = fields.size(HEADS)?;
        let full = if self.family == Family::Gemma4 { fields.optional_size(FULL_HEAD_DIM)? } else { None };
        let head_dim = full.or(fields.optional_size(HEAD_DIM)?).unwrap_or(hidden / heads);
        let sound = head_dim.is_multiple_of(2) && (2..=MAX_HEAD_DIM).contains(&head_dim);
        fields.rule(sound, HEAD_DIM, head_dim, "it must be even, positive and at most 65536")?;
        let value_dim = fields.optional_size(VALUE_DIM)?.unwrap_or(head_dim);
        fields.rule(value_dim == head_dim, VALUE_DIM, value_dim, "it must equal the width of keys")?;
        let rope_dims = self.rope_dims(head_dim)?;
        let fits = rope_dims > 0 && rope_dims.is_multiple_of(2) && rope_dims <= head_dim;
        fields.rule(fits, ROPE_DIMS, rope_dims, "it must be even and at most the width of a head")?;
        let layers = fields.size(LAYERS)?;
        // Each layer has several tensors.
        let enough = layers <= self.checkpoint.tensors().len();
        fields.rule(enough, LAYERS, layers, "it must not exceed the number of tensors")?;
        let kv_heads = fields.sizes(KV_HEADS, layers)?.unwrap_or_else(|| vec![heads; layers]);
        let odd = kv_heads.iter().find(|&&kv_heads| kv_heads == 0 || !heads.is_multiple_of(kv_heads));
        let rule = "it must divide the number of heads";
        fields.rule(odd.is_none(), KV_HEADS, odd.copied().unwrap_or(0), rule)?;
        let widths = fields.sizes(FEED_FORWARD, layers)?.ok_or_else(|| fields.missing(FEED_FORWARD))?;
        fields.rule(!widths.contains(&0), FEED_FORWARD, 0, "it must be positive in each layer")?;
        let context = fields.size(CONTEXT)?;
        let layer = |(kv_heads, width)| LayerSpec {
            attention: AttentionSpec {
                heads,
                kv_heads,
                head_dim,
                key_values: KeyValues::Own,
                window: None,
                rope: Some(0),
            },
            feed_forward: FeedForwardSpec::Dense { width },
        };
        let mut spec = ModelSpec {
            architecture: architecture.to_owned(),
            hidden,
            vocabulary: self.checkpoint.vocabulary()?,
            context,
            norm_epsilon: fields.positive(EPSILON)?.ok_or_else(|| fields.missing(EPSILON))?,
            rope_pairing: RopePairing::Halves,
            ropes: Vec::new(),
            layers: kv_heads.into_iter().zip(widths).map(layer).collect(),
            qk_norm: None,
            value_norm: false,
            layer_scales: false,
            per_layer_input: None,
            qkv_bias: false,
            norms: NormPlacement::Before,
            embedding_scale: 1.0,
            attention_scale: 1.0 / (head_dim as f32).sqrt(),
            temperature: None,
            residual_scale: 1.0,
            logit_scale: 1.0,
            attention_softcap: None,
            logit_softcap: None,
            attention_sinks: false,
            activation: Activation::Silu,
        };
        spec.ropes.push(self.rope(&spec, rope_dims)?);
        Ok(spec)
    }

    fn differences(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let (fields, family) = (self.fields, self.family);
        match family {
            Family::Llama | Family::Mistral | Family::Mixtral => {
                self.pair_neighbours(spec);
                // A Llama `config.json` has no window. In GGUF files the name `llama` also covers
                // Mistral and Mixtral, so there the window is read.
                if family != Family::Llama || !fields.is_config() {
                    self.windows(spec, |_| true)?;
                }
                if family == Family::Mistral {
                    self.temperature(spec)?;
                }
                let has_experts = family == Family::Mixtral || fields.size_or_none(EXPERTS)?.is_some();
                if has_experts {
                    self.experts(spec, EXPERTS, FEED_FORWARD, Gating::plain(Scores::SoftmaxOverChosen))?;
                }
            }
            Family::Qwen2 => {
                spec.qkv_bias = true;
                self.qwen_windows(spec)?;
            }
            Family::Qwen3 => {
                spec.qk_norm = Some(QkNorm::PerHead);
                self.qwen_windows(spec)?;
            }
            Family::Qwen3Moe => self.qwen3_moe(spec)?,
            Family::Gemma2 => self.gemma2(spec)?,
            Family::Gemma3 => self.gemma3(spec)?,
            Family::Gemma4 => self.gemma4(spec)?,
            Family::Phi3 => self.windows(spec, |_| true)?,
            Family::SmolLm3 => {
                self.pair_neighbours(spec);
                self.leave_out_ropes(spec)?;
            }
            Family::Olmo2 => {
                spec.qk_norm = Some(QkNorm::Whole);
                spec.norms = NormPlacement::After;
                // OLMo 3 is OLMo 2 with windows. It stretches the frequencies of the layers without
                // a window only.
                self.windows(spec, |layer| !(layer + 1).is_multiple_of(OLMO3_GLOBAL_EVERY))?;
                let RopeSpec { dims, theta, .. } = spec.ropes[0];
                give_windowed(spec, RopeSpec::plain(dims, theta));
            }
            Family::Granite => {
                self.pair_neighbours(spec);
                spec.embedding_scale = fields.positive(EMBEDDING_SCALE)?.unwrap_or(1.0);
                spec.residual_scale = fields.positive(RESIDUAL_SCALE)?.unwrap_or(1.0);
                spec.logit_scale = 1.0 / fields.positive(LOGIT_SCALE)?.unwrap_or(1.0);
                spec.attention_scale = fields.positive(ATTENTION_SCALE)?.unwrap_or(spec.attention_scale);
                // In GGUF files of this architecture, the key states whether layers use rotary
                // embeddings.
                if fields.truth(FINETUNED)? == Some(false) {
                    spec.layers.iter_mut().for_each(|layer| layer.attention.rope = None);
                }
            }
            Family::SeedOss => spec.qkv_bias = true,
            // The pairs are neighbours in both formats.
            Family::Ernie => spec.rope_pairing = RopePairing::Interleaved,
            Family::Olmoe => {
                spec.qk_norm = Some(QkNorm::Whole);
                self.experts(spec, QWEN_EXPERTS, FEED_FORWARD, Gating::plain(Scores::Softmax))?;
            }
            Family::Exaone4 => self.exaone4(spec)?,
            Family::Glm4Moe => self.glm4_moe(spec)?,
            Family::MiniMax => {
                spec.qk_norm = Some(QkNorm::Whole);
                let width = if fields.is_config() { FEED_FORWARD } else { EXPERT_WIDTH };
                self.experts(spec, EXPERTS, width, SIGMOID)?;
            }
            Family::GptOss => {
                spec.qkv_bias = true;
                spec.attention_sinks = true;
                self.windows(spec, |layer| layer.is_multiple_of(2))?;
                let limit = fields.positive(Field("", "swiglu_limit"))?.unwrap_or(7.0);
                spec.activation = Activation::ClampedSwiglu { limit };
                let width = if fields.is_config() { FEED_FORWARD } else { EXPERT_WIDTH };
                self.experts(spec, EXPERTS, width, Gating::plain(Scores::SoftmaxOverChosen))?;
            }
        }
        self.check_activation(spec)
    }

    /// Reads the growth of the attention scores in long contexts.
    fn temperature(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        let ropes =
            fields.within("rope_parameters").or_else(|| fields.within("rope_scaling")).unwrap_or(fields);
        if let Some(beta) = ropes.positive(TEMPERATURE)? {
            spec.temperature = Some(Temperature { beta, original: ropes.size(ORIGINAL)? });
        }
        Ok(())
    }

    /// Reads the windows of EXAONE 4. Layers without a window have no rotary embeddings, unless no layer
    /// has a window.
    fn exaone4(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        spec.norms = NormPlacement::After;
        spec.qk_norm = Some(QkNorm::PerHead);
        self.windows(spec, |layer| !(layer + 1).is_multiple_of(EXAONE4_GLOBAL_EVERY))?;
        if spec.layers.iter().any(|layer| layer.attention.window.is_some()) {
            let full = spec.layers.iter_mut().filter(|layer| layer.attention.window.is_none());
            full.for_each(|layer| layer.attention.rope = None);
        }
        Ok(())
    }

    /// Reads the mixture of GLM-4.5 and later. The first layers are dense, and all others have an expert
    /// for all tokens.
    fn glm4_moe(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        spec.qkv_bias = true;
        let names = Names::new(self.checkpoint, self.family);
        let has_norm = self.checkpoint.tensor(&(names.layer(0, "attn_q_norm") + ".weight")).is_some();
        spec.qk_norm = fields.truth(Field("", "use_qk_norm"))?.unwrap_or(has_norm).then_some(QkNorm::PerHead);
        // In GGUF files, the last layers are those of drafts.
        let drafts = fields.size_or_none(Field("nextn_predict_layers", ""))?.unwrap_or(0);
        let layers = spec.layers.len().saturating_sub(drafts);
        fields.rule(
            layers > 0,
            LAYERS,
            spec.layers.len(),
            "it must exceed the number of layers for drafts",
        )?;
        spec.layers.truncate(layers);
        let dense = fields.size_or_none(Field("leading_dense_block_count", "first_k_dense_replace"))?;
        let dense: Vec<LayerSpec> = spec.layers.iter().take(dense.unwrap_or(0)).copied().collect();
        let count = fields.optional_size(Field("expert_group_count", "n_group"))?.unwrap_or(1);
        let used = fields.optional_size(Field("expert_group_used_count", "topk_group"))?.unwrap_or(1);
        let scale = fields.positive(Field("expert_weights_scale", "routed_scaling_factor"))?.unwrap_or(1.0);
        let is_normalised = fields.truth(Field("expert_weights_norm", "norm_topk_prob"))?.unwrap_or(true);
        let gating = Gating {
            groups: (count > 1).then_some(ExpertGroups { count, used, best: 2 }),
            normalised: is_normalised.then_some(1e-20),
            scale,
            ..SIGMOID
        };
        self.experts(spec, Field("expert_count", "n_routed_experts"), EXPERT_WIDTH, gating)?;
        let shared = fields.size_or_none(Field("expert_shared_count", "n_shared_experts"))?;
        for layer in &mut spec.layers {
            if let FeedForwardSpec::Experts(experts) = &mut layer.feed_forward {
                let shared =
                    shared.map(|shared| SharedExpertSpec { width: shared * experts.width, is_gated: false });
                experts.shared = shared;
                let divides = experts.count.is_multiple_of(count) && used <= count;
                let field = Field("expert_group_count", "n_group");
                fields.rule(divides, field, count, "it must divide the number of experts")?;
            }
        }
        spec.layers[..dense.len()].copy_from_slice(&dense);
        Ok(())
    }

    /// Selects the pairing of GGUF files for these architectures. The converter permutes the rows
    /// of queries and keys so that pairs are neighbours.
    fn pair_neighbours(&self, spec: &mut ModelSpec) {
        if !self.fields.is_config() {
            spec.rope_pairing = RopePairing::Interleaved;
        }
    }

    /// Sets the window of the layers that have one. `is_local` selects the layers if the checkpoint
    /// does not.
    fn windows(&self, spec: &mut ModelSpec, is_local: impl Fn(usize) -> bool) -> Result<(), Kind> {
        self.windows_or(spec, None, is_local)
    }

    /// Does the same as [`Reader::windows`], with the default window `usual`.
    fn windows_or(
        &self,
        spec: &mut ModelSpec,
        usual: Option<usize>,
        is_local: impl Fn(usize) -> bool,
    ) -> Result<(), Kind> {
        let Some(window) = self.fields.size_or_none(WINDOW)?.or(usual) else { return Ok(()) };
        let types = self.fields.texts("layer_types")?;
        if let Some(types) = &types {
            let field = Field("", "layer_types");
            self.one_for_each_layer(spec, field, types.len())?;
            let known = |kind: &&&str| !matches!(**kind, "sliding_attention" | "full_attention");
            let unknown = types.iter().find(known);
            self.fields.rule(
                unknown.is_none(),
                field,
                unknown.unwrap_or(&""),
                "expected sliding_attention or full_attention",
            )?;
        }
        let flags = self.fields.flags(WINDOW_PATTERN);
        if let Some(flags) = &flags {
            self.one_for_each_layer(spec, WINDOW_PATTERN, flags.len())?;
        }
        let is_listed = types.is_some() || flags.is_some();
        let every = if is_listed { None } else { self.fields.optional_size(WINDOW_PATTERN)? };
        for (index, layer) in spec.layers.iter_mut().enumerate() {
            let local = match (&types, &flags, every) {
                (Some(types), ..) => types.get(index) == Some(&"sliding_attention"),
                (_, Some(flags), _) => flags.get(index) == Some(&true),
                // One layer in `every` has full attention.
                (.., Some(every)) => !(index + 1).is_multiple_of(every),
                _ => is_local(index),
            };
            layer.attention.window = local.then_some(window);
        }
        Ok(())
    }

    fn one_for_each_layer(&self, spec: &ModelSpec, field: Field, given: usize) -> Result<(), Kind> {
        self.fields.rule(given == spec.layers.len(), field, given, "expected one entry per layer")
    }

    /// Reads the windows of Qwen models. `use_sliding_window` enables them, from layer
    /// `max_window_layers` on.
    fn qwen_windows(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        if self.fields.truth(Field("", "use_sliding_window"))? != Some(true) {
            return Ok(());
        }
        let first = self.fields.size_or_none(Field("", "max_window_layers"))?.unwrap_or(0);
        self.windows(spec, |layer| layer >= first)
    }

    fn qwen3_moe(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        spec.qk_norm = Some(QkNorm::PerHead);
        self.qwen_windows(spec)?;
        let step = Field("", "decoder_sparse_step");
        let given = fields.optional_size(step)?.unwrap_or(1);
        fields.rule(given == 1, step, given, "only models with experts in every layer are supported")?;
        let dense = fields.numbers("mlp_only_layers")?.unwrap_or_default();
        let every = "only models with experts in every layer are supported";
        fields.rule(dense.is_empty(), Field("", "mlp_only_layers"), format!("{dense:?}"), every)?;
        // GGUF files lack this key. Their models always scale the experts' weights to a sum of 1.
        let scaled = fields.truth(Field("", "norm_topk_prob"))?.unwrap_or(!fields.is_config());
        let scores = if scaled { Scores::SoftmaxOverChosen } else { Scores::Softmax };
        self.experts(spec, QWEN_EXPERTS, EXPERT_WIDTH, Gating::plain(scores))
    }

    fn experts(&self, spec: &mut ModelSpec, count: Field, width: Field, gating: Gating) -> Result<(), Kind> {
        let fields = self.fields;
        let (count, used) = (fields.size(count)?, fields.size(EXPERTS_USED)?);
        fields.rule(used <= count, EXPERTS_USED, used, "it must not exceed the number of experts")?;
        let width = fields.optional_size(width)?.map_or_else(|| fields.size(FEED_FORWARD), Ok)?;
        let experts = ExpertSpec { count, used, width, gating, shared: None };
        for layer in &mut spec.layers {
            layer.feed_forward = FeedForwardSpec::Experts(experts);
        }
        Ok(())
    }

    fn gemma2(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        spec.attention_softcap = self.fields.positive(ATTENTION_SOFTCAP)?.or(self.unless_config(50.0));
        spec.logit_softcap = self.fields.positive(LOGIT_SOFTCAP)?.or(self.unless_config(30.0));
        let usual = self.unless_config(GEMMA2_WINDOW);
        self.windows_or(spec, usual, |layer| layer.is_multiple_of(2))?;
        self.gemma(spec, GEMMA2_27B_LAYERS)
    }

    /// Returns `usual` for a GGUF file and `None` for a `config.json`. GGUF files omit some fields
    /// that have the usual value.
    fn unless_config<T>(&self, usual: T) -> Option<T> {
        (!self.fields.is_config()).then_some(usual)
    }

    fn gemma3(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
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

    fn gemma4(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
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
        let full_dim = spec.layers[0].attention.head_dim;
        let local_dim = fields.optional_size(LOCAL_HEAD_DIM)?.unwrap_or(full_dim);
        let sound = local_dim.is_multiple_of(2) && local_dim <= MAX_HEAD_DIM;
        fields.rule(sound, LOCAL_HEAD_DIM, local_dim, "it must be even and at most 65536")?;
        for layer in spec.layers.iter_mut().filter(|layer| layer.attention.window.is_some()) {
            layer.attention.head_dim = local_dim;
        }
        let ropes = fields.within("rope_parameters").and_then(|ropes| ropes.within("sliding_attention"));
        let theta = ropes.unwrap_or(fields).positive(if ropes.is_some() { THETA } else { LOCAL_THETA })?;
        give_windowed(spec, RopeSpec::plain(local_dim, theta.unwrap_or(10_000.0)));
        self.gemma4_keys(spec)?;
        self.gemma4_experts(spec)
    }

    /// Sets the key-value heads of the layers of Gemma 4, and the layers that read those of others.
    fn gemma4_keys(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        let names = Names::new(self.checkpoint, self.family);
        let has_values =
            |layer: usize| self.checkpoint.tensor(&(names.layer(layer, "attn_v") + ".weight")).is_some();
        let one_projection = fields.truth(Field("", "attention_k_eq_v"))?.unwrap_or(!fields.is_config());
        let full_heads = fields.optional_size(Field("", "num_global_key_value_heads"))?;
        for (index, layer) in spec.layers.iter_mut().enumerate() {
            let attention = &mut layer.attention;
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
        for index in own..spec.layers.len() {
            let is_local = |layer: &LayerSpec| layer.attention.window.is_some();
            let of = is_local(&spec.layers[index]);
            let source = spec.layers[..own].iter().rposition(|layer| is_local(layer) == of);
            let rule = "a layer of each kind must have keys and values";
            let Some(source) = source else {
                return Err(Kind::KeyValue { key: fields.name(SHARED_KV), given: shared.to_string(), rule });
            };
            spec.layers[index].attention.kv_heads = spec.layers[source].attention.kv_heads;
            spec.layers[index].attention.key_values = KeyValues::OfLayer(source);
            if let FeedForwardSpec::Dense { width } = &mut spec.layers[index].feed_forward {
                *width *= if is_double { 2 } else { 1 };
            }
        }
        Ok(())
    }

    /// Adds the mixture that some sizes of Gemma 4 have beside the dense block.
    fn gemma4_experts(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        let Some(count) = fields.size_or_none(QWEN_EXPERTS)? else { return Ok(()) };
        let used = fields.size(Field("expert_used_count", "top_k_experts"))?;
        fields.rule(used <= count, EXPERTS_USED, used, "it must not exceed the number of experts")?;
        let gating = Gating::plain(Scores::SoftmaxOverChosen);
        let experts = ExpertSpec { count, used, width: fields.size(EXPERT_WIDTH)?, gating, shared: None };
        for layer in &mut spec.layers {
            if let FeedForwardSpec::Dense { width } = layer.feed_forward {
                layer.feed_forward = FeedForwardSpec::DenseAndExperts { width, experts };
            }
        }
        Ok(())
    }

    fn gemma(&self, spec: &mut ModelSpec, odd_layers: usize) -> Result<(), Kind> {
        spec.norms = NormPlacement::Both;
        spec.embedding_scale = (spec.hidden as f32).sqrt();
        if let Some(scalar) = self.fields.positive(QUERY_SCALAR)? {
            spec.attention_scale = 1.0 / scalar.sqrt();
        } else if let Some(scale) = self.fields.positive(ATTENTION_SCALE)? {
            spec.attention_scale = scale;
        } else if spec.layers.len() == odd_layers {
            spec.attention_scale = 1.0 / ((spec.hidden / spec.layers[0].attention.heads) as f32).sqrt();
        }
        spec.activation = Activation::GeluTanh;
        Ok(())
    }

    fn leave_out_ropes(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let every = self.fields.optional_size(Field("", "no_rope_layer_interval"))?;
        let every = every.unwrap_or(SMOLLM3_NO_ROPE_EVERY);
        // Despite its name, the list has a 1 for each layer with rotary embeddings.
        let listed = self.fields.numbers("no_rope_layers")?;
        if let Some(listed) = &listed {
            self.one_for_each_layer(spec, Field("", "no_rope_layers"), listed.len())?;
        }
        for (index, layer) in spec.layers.iter_mut().enumerate() {
            let rotates = match &listed {
                Some(listed) => listed[index] != 0.0,
                None => !(index + 1).is_multiple_of(every),
            };
            layer.attention.rope = rotates.then_some(0);
        }
        Ok(())
    }

    /// Checks that the activation named by a `config.json` matches the family.
    fn check_activation(&self, spec: &ModelSpec) -> Result<(), Kind> {
        let Some(given) = self.fields.text(ACTIVATION)? else { return Ok(()) };
        let (fits, rule) = match spec.activation {
            Activation::Silu | Activation::ClampedSwiglu { .. } => {
                (matches!(given, "silu" | "swish"), "this architecture supports only silu")
            }
            // Some Gemma configurations have `gelu` here and the actual function in
            // `hidden_activation`.
            Activation::GeluTanh => (given.starts_with("gelu"), "this architecture supports only gelu"),
        };
        self.fields.rule(fits, ACTIVATION, given, rule)
    }

    fn rope_dims(&self, head_dim: usize) -> Result<usize, Kind> {
        if !self.fields.is_config() {
            return Ok(self.fields.optional_size(ROPE_DIMS)?.unwrap_or(head_dim));
        }
        if let Some(dims) = self.fields.optional_size(Field("", "rotary_dim"))? {
            return Ok(dims);
        }
        let fraction = match self.fields.within("rope_parameters") {
            Some(ropes) => ropes.float(ROPE_DIMS)?.or(self.fields.float(ROPE_DIMS)?),
            None => self.fields.float(ROPE_DIMS)?,
        };
        Ok((head_dim as f32 * fraction.unwrap_or(1.0)) as usize)
    }

    /// Reads the frequencies of all layers, or of the layers with full attention if windowed layers
    /// have their own.
    fn rope(&self, spec: &ModelSpec, dims: usize) -> Result<RopeSpec, Kind> {
        let fields = self.fields;
        let nested = fields.within("rope_parameters");
        let nested = nested.map(|ropes| ropes.within("full_attention").unwrap_or(ropes));
        let scaling = nested.or_else(|| fields.within("rope_scaling"));
        let theta = match nested {
            Some(nested) => nested.positive(THETA)?.or(fields.positive(THETA)?),
            None => fields.positive(THETA)?,
        };
        let theta = theta.unwrap_or(10_000.0);
        fields.rule(theta > 1.0, THETA, theta, "it must be above 1")?;
        let scaling = match (scaling, fields) {
            (Some(scaling), _) => self.scaling(scaling, (theta, dims), spec)?,
            (None, Fields::Gguf(..)) => self.scaling(fields, (theta, dims), spec)?,
            (None, Fields::Config(_)) => RopeScaling::None,
        };
        Ok(RopeSpec { dims, theta, scaling })
    }

    /// Reads the scaling from `fields`. In a `config.json` the fields of the scaling are in a
    /// nested object.
    fn scaling(
        &self,
        fields: Fields<'_>,
        (theta, dims): (f32, usize),
        spec: &ModelSpec,
    ) -> Result<RopeScaling, Kind> {
        let pairs = dims / 2;
        if let Some(factors) = self.checkpoint.floats("rope_freqs.weight", pairs)? {
            return Ok(RopeScaling::Factors(factors));
        }
        let kind = fields.text(SCALING)?.or(fields.text(Field("", "type"))?);
        let factor =
            || -> Result<f32, Kind> { fields.positive(FACTOR)?.ok_or_else(|| fields.missing(FACTOR)) };
        let original = || match fields.optional_size(ORIGINAL)? {
            Some(original) => Ok(original),
            None => self.fields.optional_size(ORIGINAL).map(|original| original.unwrap_or(spec.context)),
        };
        Ok(match kind {
            // Older GGUF files have a factor but no type. Their scaling is linear.
            None if !fields.is_config() => match fields.positive(FACTOR)? {
                Some(factor) => RopeScaling::Linear { factor },
                None => self
                    .long_factors(fields, original()?, (spec, pairs))?
                    .map_or(RopeScaling::None, RopeScaling::Long),
            },
            // A factor without a type is an error: computing without scaling would silently give
            // wrong results.
            None if fields.positive(FACTOR)?.is_some() => return Err(fields.missing(SCALING)),
            None | Some("none" | "default") => RopeScaling::None,
            // A part of the pairs of a whole head rotates; the frequencies are those of the whole head.
            Some("proportional") => {
                let fraction = fields.positive(ROPE_DIMS)?.unwrap_or(1.0);
                let rotated = (pairs as f32 * fraction) as usize;
                let factor = |pair: usize| if pair < rotated { 1.0 } else { f32::INFINITY };
                RopeScaling::Factors((0..pairs).map(factor).collect())
            }
            Some("linear") => RopeScaling::Linear { factor: factor()? },
            Some("llama3") => {
                let low = fields.positive(Field("", "low_freq_factor"))?.unwrap_or(1.0);
                let high = fields.positive(Field("", "high_freq_factor"))?.unwrap_or(4.0);
                let field = Field("", "high_freq_factor");
                fields.rule(low < high, field, high, "it must be above low_freq_factor")?;
                RopeScaling::llama3((theta, dims), factor()?, (low, high), original()?)
            }
            Some("yarn") => RopeScaling::Yarn(self.yarn(fields, factor()?, original()?)?),
            Some("longrope" | "su") => {
                let factors = self.long_factors(fields, original()?, (spec, pairs))?;
                let missing = || {
                    if fields.is_config() {
                        fields.missing(Field("", "long_factor"))
                    } else {
                        Kind::MissingTensor { tensor: "rope_factors_long.weight".to_owned() }
                    }
                };
                RopeScaling::Long(factors.ok_or_else(missing)?)
            }
            Some(other) => {
                let rule = "expected none, linear, llama3, yarn or longrope";
                let key = fields.name(SCALING);
                return Err(Kind::KeyValue { key, given: other.to_owned(), rule });
            }
        })
    }

    fn yarn(&self, fields: Fields<'_>, factor: f32, original: usize) -> Result<Yarn, Kind> {
        // Some models state the exponents of two magnitudes, whose ratio is the magnitude.
        let all = fields.float(MAGNITUDE_ALL)?.filter(|all| *all != 0.0);
        let own = if fields.is_config() {
            fields.float(MAGNITUDE_OWN)?.filter(|own| *own != 0.0)
        } else {
            Some(1.0)
        };
        let usual = match (own, all) {
            (Some(own), Some(all)) => Yarn::magnitude_of(factor, own) / Yarn::magnitude_of(factor, all),
            _ => Yarn::magnitude_of(factor, 1.0),
        };
        let given = fields.positive(MAGNITUDE)?;
        // A GGUF file's factor multiplies the usual magnitude; a `config.json` states the final
        // value.
        let magnitude = match (given, fields.is_config()) {
            (Some(given), true) => given,
            (given, _) => given.unwrap_or(1.0) * usual,
        };
        Ok(Yarn {
            factor,
            original,
            beta_fast: fields.positive(BETA_FAST)?.unwrap_or(32.0),
            beta_slow: fields.positive(BETA_SLOW)?.unwrap_or(1.0),
            truncate: fields.truth(TRUNCATE)?.unwrap_or(fields.is_config() || self.family != Family::GptOss),
            magnitude,
        })
    }

    fn long_factors(
        &self,
        fields: Fields<'_>,
        original: usize,
        (spec, pairs): (&ModelSpec, usize),
    ) -> Result<Option<LongFactors>, Kind> {
        let factors = |tensor: &str, key: &'static str| match self.checkpoint.floats(tensor, pairs)? {
            Some(factors) => Ok(Some(factors)),
            None => fields.numbers(key),
        };
        let long = factors("rope_factors_long.weight", "long_factor")?;
        let short = factors("rope_factors_short.weight", "short_factor")?;
        let (Some(long), Some(short)) = (long, short) else { return Ok(None) };
        for (list, key) in [(&long, "long_factor"), (&short, "short_factor")] {
            let positive = list.len() == pairs && list.iter().all(|&factor| factor > 0.0);
            fields.rule(positive, Field(key, key), list.len(), "expected one positive factor per pair")?;
        }
        fields.rule(original > 1, ORIGINAL, original, "it must be more than 1")?;
        let stretched = spec.context as f32 / original as f32;
        let usual =
            if stretched > 1.0 { (1.0 + stretched.ln() / (original as f32).ln()).sqrt() } else { 1.0 };
        let magnitude = fields.positive(MAGNITUDE)?.unwrap_or(usual);
        Ok(Some(LongFactors { short, long, original, magnitude }))
    }
}
