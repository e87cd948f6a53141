//! Models whose tokens attend to the whole text, and the purposes of models.

use std::ffi::OsStr;

use formwork_lm::{Abilities, EmbeddingProfile, Pooling, Ranking};

use super::{ACTIVATION, Reader, THETA, WINDOW_PATTERN, give_windowed};
use crate::checkpoint::{Checkpoint, Family};
use crate::error::Kind;
use crate::gguf::Value;
use crate::spec::fields::Field;
use crate::spec::{
    Activation, EncoderSpec, KeyValues, MixerSpec, ModelSpec, NormKind, NormPlacement, RopeSpec,
};

const CAUSAL: Field = Field("attention.causal", "is_causal");
const BOTH_WAYS: Field = Field("", "use_bidirectional_attention");
const POOLING: Field = Field("pooling_type", "");
const LOCAL_THETA: Field = Field("rope.freq_base_swa", "local_rope_theta");
const GLOBAL_EVERY: Field = Field("attention.sliding_window_pattern", "global_attn_every_n_layers");
const LOCAL_ATTENTION: Field = Field("attention.sliding_window", "local_attention");
const RERANK_TEMPLATE: &str = "tokenizer.chat_template.rerank";
/// `ModernBERT` has one layer with full attention in this number of layers, the first of which has it.
const MODERN_BERT_GLOBAL_EVERY: usize = 3;
const MODERN_BERT_THETA: f32 = 160_000.0;

/// Prompt of Qwen3-Reranker, from its model card.
const QWEN3_TEMPLATE: &str = "<|im_start|>system\nJudge whether the Document meets the requirements based on the \
     Query and the Instruct provided. Note that the answer can only be \"yes\" or \
     \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: {instruction}\n<Query>: {query}\n<Document>: \
     {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

impl Reader<'_> {
    pub(super) fn bert(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let kind = Field("", "position_embedding_type");
        let given = self.fields.text(kind)?.unwrap_or("absolute");
        self.fields.rule(given == "absolute", kind, given, "this architecture supports only absolute")?;
        spec.qkv_bias = true;
        spec.activation = Activation::PlainGelu;
        spec.attentions_mut().for_each(|(_, attention)| attention.rope = None);
        self.after_sums(spec, true);
        Ok(())
    }

    pub(super) fn nomic_bert(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        for (key, rule) in [
            ("prenorm", "this architecture has its norms after the blocks"),
            ("rotary_emb_interleaved", "this architecture rotates halves"),
            ("use_rms_norm", "this architecture supports only LayerNorm"),
        ] {
            let field = Field("", key);
            fields.rule(fields.truth(field)? != Some(true), field, "true", rule)?;
        }
        for key in ["rotary_emb_scale_base", "rotary_scaling_factor", "num_local_experts"] {
            let field = Field("", key);
            let given = fields.float(field)?.unwrap_or(0.0);
            fields.rule(given == 0.0, field, given, "this architecture does not support the field")?;
        }
        self.after_sums(spec, false);
        Ok(())
    }

    /// Describes an encoder whose sums are normalised.
    fn after_sums(&self, spec: &mut ModelSpec, positions: bool) {
        spec.norms = NormPlacement::Residual;
        spec.norm_kind = NormKind::LayerNorm;
        spec.output_norm = false;
        spec.encoder = Some(EncoderSpec { positions, token_types: self.token_types(), norm: true });
    }

    /// Returns the number of kinds of tokens that have vectors.
    fn token_types(&self) -> Option<usize> {
        let info = self.checkpoint.tensor(&(self.names().global("token_types") + ".weight"))?;
        // A wrong shape is reported when the tensor is bound.
        Some(info.shape.get(1).map_or(1, |&count| count as usize))
    }

    pub(super) fn modern_bert(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let fields = self.fields;
        spec.norm_kind = NormKind::LayerNorm;
        spec.activation = Activation::Gelu;
        let given = fields.text(Field("", "hidden_activation"))?.unwrap_or("gelu");
        fields.rule(given == "gelu", ACTIVATION, given, "this architecture supports only gelu")?;
        spec.encoder = Some(EncoderSpec { positions: false, token_types: None, norm: true });
        let nested = |kind: &str| fields.within("rope_parameters").and_then(|ropes| ropes.within(kind));
        let full = match nested("full_attention") {
            Some(full) => full.positive(THETA)?,
            None => fields.positive(Field("rope.freq_base", "global_rope_theta"))?,
        };
        spec.ropes[0].theta = full.unwrap_or(MODERN_BERT_THETA);
        let window = fields.size(LOCAL_ATTENTION)?;
        let flags = fields.flags(WINDOW_PATTERN);
        let every = if flags.is_some() { None } else { fields.optional_size(GLOBAL_EVERY)? };
        let every = every.unwrap_or(MODERN_BERT_GLOBAL_EVERY);
        let types = fields.texts("layer_types")?;
        if let Some(given) = types.as_ref().map(Vec::len).or(flags.as_ref().map(Vec::len)) {
            self.one_for_each_layer(spec, Field("attention.sliding_window_pattern", "layer_types"), given)?;
        }
        for (index, attention) in spec.attentions_mut() {
            let is_local = match (&types, &flags) {
                (Some(types), _) => types[index] == "sliding_attention",
                (None, Some(flags)) => flags[index],
                (None, None) => !index.is_multiple_of(every),
            };
            attention.window = is_local.then_some(window);
        }
        let local = match nested("sliding_attention") {
            Some(local) => local.positive(THETA)?,
            None => fields.positive(LOCAL_THETA)?,
        };
        let local = local.unwrap_or(10_000.0);
        give_windowed(spec, RopeSpec::plain(spec.ropes[0].dims, local));
        let sound = spec.ropes.iter().all(|rope| rope.theta > 1.0);
        fields.rule(sound, THETA, local, "it must be above 1")
    }

    /// Makes the tokens of a decoder attend to the whole text, if the checkpoint says so.
    pub(super) fn both_ways(&self, spec: &mut ModelSpec) -> Result<(), Kind> {
        let is_gemma = self.family == Family::Gemma3;
        let is_open = spec.encoder.is_some()
            || spec.architecture == "gemma-embedding"
            || self.fields.truth(CAUSAL)? == Some(false)
            || (is_gemma && self.fields.truth(BOTH_WAYS)? == Some(true));
        if !is_open {
            return Ok(());
        }
        spec.encoder.get_or_insert(EncoderSpec { positions: false, token_types: None, norm: false });
        let is_plain = |mixer: &MixerSpec| {
            matches!(mixer, MixerSpec::Attention(attention)
                if attention.key_values == KeyValues::Own && !attention.is_gated)
        };
        let is_plain = spec.layers.iter().all(|layer| is_plain(&layer.mixer))
            && spec.attention_softcap.is_none()
            && !spec.attention_sinks
            && !spec.value_norm
            && spec.temperature.is_none()
            && spec.per_layer_input.is_none()
            && spec.qk_norm != Some(crate::spec::QkNorm::PerRotatedHead);
        self.fields.rule(is_plain, CAUSAL, false, "this architecture attends only to earlier tokens")
    }

    /// Reads the purposes of the model.
    pub(super) fn abilities(&self, spec: &mut ModelSpec) -> Result<Abilities, Kind> {
        let mut profile = EmbeddingProfile { width: Some(spec.hidden), ..EmbeddingProfile::default() };
        let mut is_declared = spec.encoder.is_some();
        match self.checkpoint {
            Checkpoint::Safetensors(model) => {
                if let Some(modules) = model.modules() {
                    is_declared = true;
                    profile.pooling = modules.pooling;
                    profile.normalizes = modules.normalizes;
                    profile.prompts.clone_from(&modules.prompts);
                    profile.default_prompt.clone_from(&modules.default_prompt);
                    profile.lowercases = modules.lowercases;
                    let mut width = spec.hidden;
                    for dense in &modules.dense {
                        let rule = "it must be the number of outputs of the layer before";
                        let field = Field("", "in_features");
                        self.fields.rule(dense.inputs == width, field, dense.inputs, rule)?;
                        width = dense.outputs;
                    }
                    profile.width = Some(width);
                    spec.context = modules.max_tokens.map_or(spec.context, |most| most.min(spec.context));
                }
                if let Some(ranking) = self.ranking_of_config()? {
                    return Ok(Abilities { generates: false, embedding: None, ranking: Some(ranking) });
                }
            }
            Checkpoint::Gguf(file) => {
                for name in ["dense_2.weight", "dense_3.weight"] {
                    if self.checkpoint.tensor(name).is_some() {
                        profile.width = Some(self.checkpoint.vocabulary(name)?);
                    }
                }
                let pooling = self.fields.size_or_none(POOLING)?;
                is_declared |= pooling.is_some();
                profile.pooling = match pooling {
                    None | Some(1) => Pooling::Mean,
                    Some(2) => Pooling::First,
                    Some(3) => Pooling::Last,
                    Some(4) => {
                        let template = match file.value(RERANK_TEMPLATE) {
                            Some(Value::String(template)) => Some(template.clone()),
                            _ if spec.encoder.is_some() => None,
                            _ if self.family == Family::Qwen3 => Some(QWEN3_TEMPLATE.to_owned()),
                            _ => return Err(Kind::MissingKey { key: RERANK_TEMPLATE.to_owned() }),
                        };
                        let pooling = if spec.encoder.is_some() { Pooling::First } else { Pooling::Last };
                        let ranking = Some(Ranking { pooling, template });
                        return Ok(Abilities { generates: false, embedding: None, ranking });
                    }
                    Some(other) => {
                        let rule = "expected 0 (none), 1 (mean), 2 (CLS), 3 (last) or 4 (rank)";
                        return self.fields.rule(false, POOLING, other, rule).map(|()| Abilities::default());
                    }
                };
            }
        }
        if !is_declared {
            return Ok(Abilities::default());
        }
        Ok(Abilities { generates: false, embedding: Some(profile), ranking: None })
    }

    /// Returns how a reranker in the form of safetensors reads a query and a document. `None` for
    /// other models.
    fn ranking_of_config(&self) -> Result<Option<Ranking>, Kind> {
        let Checkpoint::Safetensors(model) = self.checkpoint else { return Ok(None) };
        let is_encoder = matches!(self.family, Family::Bert | Family::ModernBert);
        if model.is_for("ForSequenceClassification") {
            let is_known = is_encoder || self.family == Family::Qwen3;
            let rule = "classifiers are supported for bert, modernbert and qwen3 only";
            self.fields.rule(is_known, Field("", "architectures"), "ForSequenceClassification", rule)?;
            if !is_encoder {
                let template = Some(QWEN3_TEMPLATE.to_owned());
                return Ok(Some(Ranking { pooling: Pooling::Last, template }));
            }
            let pooling = Field("", "classifier_pooling");
            let pooling = match self.fields.text(pooling)? {
                None | Some("cls") => Pooling::First,
                Some("mean") => Pooling::Mean,
                Some(other) => {
                    self.fields.rule(false, pooling, other, "expected cls or mean")?;
                    Pooling::First
                }
            };
            return Ok(Some(Ranking { pooling, template: None }));
        }
        // The files of Qwen3-Reranker do not differ from those of a language model, except in the name.
        // A cache of the hub has the name in a folder above.
        let name = |part: &OsStr| part.to_string_lossy().to_lowercase();
        let names = model.path().iter().map(name).filter(|name| name.starts_with("models--"));
        let mut names = names.chain(model.path().file_name().map(name));
        let is_named = self.family == Family::Qwen3 && names.any(|name| name.contains("reranker"));
        let template = Some(QWEN3_TEMPLATE.to_owned());
        Ok(is_named.then_some(Ranking { pooling: Pooling::Last, template }))
    }
}
