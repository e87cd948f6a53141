//! The differences of each family of architectures from Llama.

mod dense;
mod encoder;
mod experts;
mod gemma;
mod hybrid;
mod latent;
mod layers;
mod ropes;

use formwork_lm::Abilities;

use super::fields::{Field, Fields};
use super::rope::RopeSpec;
use super::{
    Activation, AttentionSpec, FeedForwardSpec, Gating, KeyValues, LayerSpec, MixerSpec, ModelSpec, NormKind,
    NormPlacement, QkNorm, RopePairing, Scores,
};
use crate::checkpoint::{Checkpoint, Family, Names};
use crate::error::Kind;

const HIDDEN: Field = Field("embedding_length", "hidden_size");
const HEADS: Field = Field("attention.head_count", "num_attention_heads");
const KV_HEADS: Field = Field("attention.head_count_kv", "num_key_value_heads");
const HEAD_DIM: Field = Field("attention.key_length", "head_dim");
const FULL_HEAD_DIM: Field = Field("", "global_head_dim");
const VALUE_DIM: Field = Field("attention.value_length", "v_head_dim");
const ROPE_DIMS: Field = Field("rope.dimension_count", "partial_rotary_factor");
const LAYERS: Field = Field("block_count", "num_hidden_layers");
const FEED_FORWARD: Field = Field("feed_forward_length", "intermediate_size");
const CONTEXT: Field = Field("context_length", "max_position_embeddings");
const EPSILON: Field = Field("attention.layer_norm_rms_epsilon", "rms_norm_eps");
const WINDOW: Field = Field("attention.sliding_window", "sliding_window");
const WINDOW_PATTERN: Field = Field("attention.sliding_window_pattern", "sliding_window_pattern");
const THETA: Field = Field("rope.freq_base", "rope_theta");
const FINETUNED: Field = Field("rope.scaling.finetuned", "");
const ATTENTION_SCALE: Field = Field("attention.scale", "attention_multiplier");
const EMBEDDING_SCALE: Field = Field("embedding_scale", "embedding_multiplier");
const RESIDUAL_SCALE: Field = Field("residual_scale", "residual_multiplier");
const LOGIT_SCALE: Field = Field("logit_scale", "logits_scaling");
const EXPERTS: Field = Field("expert_count", "num_local_experts");
const QWEN_EXPERTS: Field = Field("expert_count", "num_experts");
const EXPERTS_USED: Field = Field("expert_used_count", "num_experts_per_tok");
const EXPERT_WIDTH: Field = Field("expert_feed_forward_length", "moe_intermediate_size");
const ACTIVATION: Field = Field("", "hidden_act");

/// `SmolLM3` has one layer without rotary embeddings in this number of layers.
const SMOLLM3_NO_ROPE_EVERY: usize = 4;
/// Gating by the logistic function, with a bias for the choice and weights that sum to 1.
const SIGMOID: Gating = Gating { has_bias: true, normalised: Some(1e-20), ..Gating::plain(Scores::Sigmoid) };

/// `OLMo` 3 has one layer with full attention in this number of layers.
const OLMO3_GLOBAL_EVERY: usize = 4;

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
    reader.leave_out_drafts(&mut spec)?;
    reader.differences(&mut spec)?;
    reader.both_ways(&mut spec)?;
    spec.abilities = reader.abilities(&mut spec)?;
    reader.check_layers(&spec)?;
    spec.draft_head = reader.draft_head(&spec);
    Ok(spec)
}

/// Adds a set of rotary frequencies and assigns it to all layers with a window.
fn give_windowed(spec: &mut ModelSpec, rope: RopeSpec) {
    let set = spec.ropes.len();
    let windowed = spec.attentions_mut().filter(|(_, attention)| attention.window.is_some());
    windowed.for_each(|(_, attention)| attention.rope = Some(set));
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
        let is_latent = self.family == Family::DeepSeek;
        let head_dim = if is_latent {
            self.latent_dims()?.into_iter().sum()
        } else {
            full.or(fields.optional_size(HEAD_DIM)?).unwrap_or(hidden / heads)
        };
        let sound = head_dim.is_multiple_of(2) && (2..=MAX_HEAD_DIM).contains(&head_dim);
        fields.rule(sound, HEAD_DIM, head_dim, "it must be even, positive and at most 65536")?;
        let value_dim = fields.optional_size(VALUE_DIM)?.unwrap_or(head_dim);
        fields.rule(
            is_latent || value_dim == head_dim,
            VALUE_DIM,
            value_dim,
            "it must equal the width of keys",
        )?;
        let rope_dims = if is_latent { self.latent_dims()?[1] } else { self.rope_dims(head_dim)? };
        let fits = rope_dims > 0 && rope_dims.is_multiple_of(2) && rope_dims <= head_dim;
        fields.rule(fits, ROPE_DIMS, rope_dims, "it must be even and at most the width of a head")?;
        let layers = fields.size(LAYERS)?;
        // Each layer has several tensors.
        let enough = layers <= self.checkpoint.tensors().len();
        fields.rule(enough, LAYERS, layers, "it must not exceed the number of tensors")?;
        let kv_heads = fields.sizes(KV_HEADS, layers)?.unwrap_or_else(|| vec![heads; layers]);
        // Layers without attention have none.
        let may_lack = matches!(self.family, Family::Lfm2 | Family::GraniteHybrid | Family::NemotronH);
        let is_odd = |&&kv_heads: &&usize| match kv_heads {
            0 => !may_lack,
            _ => !heads.is_multiple_of(kv_heads),
        };
        let odd = kv_heads.iter().find(is_odd);
        let rule = "it must divide the number of heads";
        fields.rule(odd.is_none(), KV_HEADS, odd.copied().unwrap_or(0), rule)?;
        let widths = match fields.sizes(FEED_FORWARD, layers)? {
            Some(widths) => widths,
            // A model with experts in all layers may lack the field.
            None => fields.sizes(EXPERT_WIDTH, layers)?.ok_or_else(|| fields.missing(FEED_FORWARD))?,
        };
        let may_lack = self.family == Family::NemotronH;
        let rule = "it must be positive in each layer";
        fields.rule(may_lack || !widths.contains(&0), FEED_FORWARD, 0, rule)?;
        let context = fields.size(CONTEXT)?;
        let layer = |(kv_heads, width)| LayerSpec {
            mixer: match kv_heads {
                0 => MixerSpec::Nothing,
                _ => MixerSpec::Attention(AttentionSpec {
                    heads,
                    kv_heads,
                    head_dim,
                    key_values: KeyValues::Own,
                    window: None,
                    rope: Some(0),
                    is_gated: false,
                }),
            },
            feed_forward: FeedForwardSpec::Dense { width },
        };
        let mut spec = ModelSpec {
            architecture: architecture.to_owned(),
            hidden,
            vocabulary: self.checkpoint.vocabulary(&(self.names().global("token_embd") + ".weight"))?,
            context,
            norm_epsilon: self.epsilon()?,
            rope_pairing: RopePairing::Halves,
            ropes: Vec::new(),
            layers: kv_heads.into_iter().zip(widths).map(layer).collect(),
            draft_head: None,
            qk_norm: None,
            value_norm: false,
            layer_scales: false,
            per_layer_input: None,
            qkv_bias: false,
            norms: NormPlacement::Before,
            norm_kind: NormKind::Rms,
            embedding_scale: 1.0,
            attention_scale: 1.0 / (head_dim as f32).sqrt(),
            temperature: None,
            residual_scale: 1.0,
            logit_scale: 1.0,
            attention_softcap: None,
            logit_softcap: None,
            attention_sinks: false,
            activation: Activation::Silu,
            encoder: None,
            output_norm: true,
            abilities: Abilities::default(),
        };
        spec.ropes.push(self.rope(&spec, rope_dims)?);
        Ok(spec)
    }

    fn names(&self) -> Names {
        Names::new(self.checkpoint, self.family)
    }

    fn epsilon(&self) -> Result<f32, Kind> {
        let others = [
            Field("attention.layer_norm_epsilon", "norm_eps"),
            Field("", "layer_norm_epsilon"),
            Field("", "layer_norm_eps"),
        ];
        for field in [EPSILON].into_iter().chain(others) {
            if let Some(epsilon) = self.fields.positive(field)? {
                return Ok(epsilon);
            }
        }
        Err(self.fields.missing(EPSILON))
    }

    fn differences(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let (fields, family) = (self.fields, self.family);
        match family {
            Family::Bert => self.bert(spec)?,
            Family::NomicBert => self.nomic_bert(spec)?,
            Family::ModernBert => self.modern_bert(spec)?,
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
            Family::Qwen2Moe => self.qwen2_moe(spec)?,
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
            Family::Granite => self.granite(spec)?,
            Family::GraniteHybrid => self.granite_hybrid(spec)?,
            Family::DeepSeek => self.latent(spec)?,
            Family::Lfm2 => self.lfm2(spec)?,
            Family::NemotronH => self.nemotron_h(spec)?,
            Family::Qwen3Next | Family::Qwen35 => self.qwen_hybrid(spec)?,
            Family::SeedOss => spec.qkv_bias = true,
            Family::Ernie => {
                // The pairs are neighbours in both formats.
                spec.rope_pairing = RopePairing::Interleaved;
                self.ernie_experts(spec)?;
            }
            Family::Olmoe => {
                spec.qk_norm = Some(QkNorm::Whole);
                self.experts(spec, QWEN_EXPERTS, FEED_FORWARD, Gating::plain(Scores::Softmax))?;
            }
            Family::Exaone4 => self.exaone4(spec)?,
            Family::Cohere2 => self.cohere2(spec)?,
            Family::Hunyuan => spec.qk_norm = Some(QkNorm::PerRotatedHead),
            Family::Glm4 => self.glm4(spec)?,
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

    fn granite(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        self.pair_neighbours(spec);
        spec.embedding_scale = fields.positive(EMBEDDING_SCALE)?.unwrap_or(1.0);
        spec.residual_scale = fields.positive(RESIDUAL_SCALE)?.unwrap_or(1.0);
        spec.logit_scale = 1.0 / fields.positive(LOGIT_SCALE)?.unwrap_or(1.0);
        spec.attention_scale = fields.positive(ATTENTION_SCALE)?.unwrap_or(spec.attention_scale);
        // In GGUF files of this architecture, the key states whether layers use rotary embeddings.
        if fields.truth(FINETUNED)? == Some(false) {
            spec.attentions_mut().for_each(|(_, attention)| attention.rope = None);
        }
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
        for (index, attention) in spec.attentions_mut() {
            let local = match (&types, &flags, every) {
                (Some(types), ..) => types.get(index) == Some(&"sliding_attention"),
                (_, Some(flags), _) => flags.get(index) == Some(&true),
                // One layer in `every` has full attention.
                (.., Some(every)) => !(index + 1).is_multiple_of(every),
                _ => is_local(index),
            };
            attention.window = local.then_some(window);
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

    /// Returns `usual` for a GGUF file and `None` for a `config.json`. GGUF files omit some fields
    /// that have the usual value.
    fn unless_config<T>(&self, usual: T) -> Option<T> {
        (!self.fields.is_config()).then_some(usual)
    }

    fn leave_out_ropes(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let every = self.fields.optional_size(Field("", "no_rope_layer_interval"))?;
        let every = every.unwrap_or(SMOLLM3_NO_ROPE_EVERY);
        // Despite its name, the list has a 1 for each layer with rotary embeddings.
        let listed = self.fields.numbers("no_rope_layers")?;
        if let Some(listed) = &listed {
            self.one_for_each_layer(spec, Field("", "no_rope_layers"), listed.len())?;
        }
        for (index, attention) in spec.attentions_mut() {
            let rotates = match &listed {
                Some(listed) => listed[index] != 0.0,
                None => !(index + 1).is_multiple_of(every),
            };
            attention.rope = rotates.then_some(0);
        }
        Ok(())
    }

    /// Checks that the activation named by a `config.json` matches the family.
    fn check_activation(&self, spec: &ModelSpec) -> Result<(), Kind> {
        let Some(given) = self.fields.text(ACTIVATION)? else { return Ok(()) };
        let (fits, rule) = match spec.activation {
            Activation::ReluSquared => (given == "relu2", "this architecture supports only relu2"),
            Activation::Gelu | Activation::PlainGelu => {
                (given == "gelu", "this architecture supports only gelu")
            }
            Activation::Silu if self.family == Family::NomicBert => {
                (matches!(given, "swiglu" | "silu"), "this architecture supports only swiglu")
            }
            Activation::Silu | Activation::ClampedSwiglu { .. } => {
                (matches!(given, "silu" | "swish"), "this architecture supports only silu")
            }
            // Some Gemma configurations have `gelu` here and the actual function in
            // `hidden_activation`.
            Activation::GeluTanh => (given.starts_with("gelu"), "this architecture supports only gelu"),
        };
        self.fields.rule(fits, ACTIVATION, given, rule)
    }
}
