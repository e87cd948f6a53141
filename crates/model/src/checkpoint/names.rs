//! Names of tensors in GGUF files and in safetensors.

use super::{Checkpoint, Family};

/// Converts the name of a tensor from Llama's name in GGUF files to the name in a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    in_config: bool,
    family: Family,
    /// First part of all names in safetensors except that of the head. Empty in checkpoints without
    /// a head.
    root: &'static str,
    /// Index of the layer of the head for drafts, which has names of its own in safetensors.
    draft_layer: Option<usize>,
}

/// Names of a family that differ from the common ones: the name in GGUF files, and the name in
/// safetensors, both without `.weight`.
type Differences = &'static [(&'static str, &'static str)];

const GEMMA: Differences =
    &[("ffn_norm", "pre_feedforward_layernorm"), ("post_attention_norm", "post_attention_layernorm")];

const GEMMA4: Differences = &[
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("ffn_gate_inp", "router.proj"),
    ("ffn_gate_inp.scale", "router.scale"),
    ("ffn_down_exps.scale", "router.per_expert_scale"),
    ("ffn_gate_up_exps", "experts.gate_up_proj"),
    ("ffn_down_exps", "experts.down_proj"),
];

const PHI3: Differences = &[("ffn_up", "mlp.gate_up_proj")];

const GLM4: Differences = &[
    ("post_attention_norm", "post_self_attn_layernorm"),
    ("post_ffw_norm", "post_mlp_layernorm"),
    ("ffn_up", "mlp.gate_up_proj"),
];

const MIXTRAL: Differences = &[
    ("ffn_gate", "block_sparse_moe.w1"),
    ("ffn_down", "block_sparse_moe.w2"),
    ("ffn_up", "block_sparse_moe.w3"),
    ("ffn_gate_inp", "block_sparse_moe.gate"),
    ("exp_probs_b.bias", "block_sparse_moe.e_score_correction_bias"),
];

const ERNIE: Differences = &[("exp_probs_b.bias", "mlp.moe_statics.e_score_correction_bias")];

const GPT_OSS: Differences = &[("ffn_gate_inp", "mlp.router")];

const HUNYUAN: Differences =
    &[("attn_q_norm", "self_attn.query_layernorm"), ("attn_k_norm", "self_attn.key_layernorm")];

const LFM2: Differences = &[
    ("attn_norm", "operator_norm"),
    ("attn_q_norm", "self_attn.q_layernorm"),
    ("attn_k_norm", "self_attn.k_layernorm"),
    ("attn_output", "self_attn.out_proj"),
    ("ffn_norm", "ffn_norm"),
    ("ffn_gate", "feed_forward.w1"),
    ("ffn_down", "feed_forward.w2"),
    ("ffn_up", "feed_forward.w3"),
    ("ffn_gate_inp", "feed_forward.gate"),
    ("exp_probs_b.bias", "feed_forward.expert_bias"),
    ("token_embd_norm", "embedding_norm"),
];

/// Qwen3-Next, Qwen3.5 and later, and the mixtures of Qwen2, which have the same experts.
const QWEN_HYBRID: Differences = &[
    ("ffn_gate_shexp", "mlp.shared_expert.gate_proj"),
    ("ffn_up_shexp", "mlp.shared_expert.up_proj"),
    ("ffn_down_shexp", "mlp.shared_expert.down_proj"),
    ("ffn_gate_up_exps", "mlp.experts.gate_up_proj"),
    ("ffn_down_exps", "mlp.experts.down_proj"),
    ("attn_qkv", "linear_attn.in_proj_qkv"),
    ("attn_gate", "linear_attn.in_proj_z"),
    ("ssm_in", "linear_attn.in_proj_qkvz"),
    ("ssm_ba", "linear_attn.in_proj_ba"),
    ("ssm_alpha", "linear_attn.in_proj_a"),
    ("ssm_beta", "linear_attn.in_proj_b"),
    ("ssm_conv1d", "linear_attn.conv1d"),
    ("ssm_a", "linear_attn.A_log"),
    ("ssm_dt.bias", "linear_attn.dt_bias"),
    ("ssm_norm", "linear_attn.norm"),
    ("ssm_out", "linear_attn.out_proj"),
];

const DEEPSEEK: Differences = &[
    ("attn_q_a", "self_attn.q_a_proj"),
    ("attn_q_a_norm", "self_attn.q_a_layernorm"),
    ("attn_q_b", "self_attn.q_b_proj"),
    ("attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"),
    ("attn_kv_a_norm", "self_attn.kv_a_layernorm"),
    ("attn_kv_b", "self_attn.kv_b_proj"),
    ("ffn_gate_up_exps", "mlp.experts.gate_up_proj"),
    ("ffn_down_exps", "mlp.experts.down_proj"),
];

const GRANITE_HYBRID: Differences = &[
    ("ffn_gate_inp", "block_sparse_moe.router.layer"),
    ("ffn_gate_up_exps", "block_sparse_moe.input_linear.weight"),
    ("ffn_down_exps", "block_sparse_moe.output_linear.weight"),
    ("ffn_up", "shared_mlp.input_linear"),
    ("ffn_down", "shared_mlp.output_linear"),
    ("ffn_up_shexp", "shared_mlp.input_linear"),
    ("ffn_down_shexp", "shared_mlp.output_linear"),
    ("ssm_in", "mamba.in_proj"),
    ("ssm_conv1d", "mamba.conv1d"),
    ("ssm_a", "mamba.A_log"),
    ("ssm_d", "mamba.D"),
    ("ssm_dt.bias", "mamba.dt_bias"),
    ("ssm_norm", "mamba.norm"),
    ("ssm_out", "mamba.out_proj"),
];

const NEMOTRON_H: Differences = &[
    ("token_embd", "embeddings"),
    ("output_norm", "norm_f"),
    ("attn_norm", "norm"),
    ("attn_q", "mixer.q_proj"),
    ("attn_k", "mixer.k_proj"),
    ("attn_v", "mixer.v_proj"),
    ("attn_output", "mixer.o_proj"),
    ("ffn_up", "mixer.up_proj"),
    ("ffn_down", "mixer.down_proj"),
    ("ffn_up_shexp", "mixer.shared_experts.up_proj"),
    ("ffn_down_shexp", "mixer.shared_experts.down_proj"),
    ("ffn_gate_inp", "mixer.gate"),
    ("ffn_latent_down", "mixer.fc1_latent_proj"),
    ("ffn_latent_up", "mixer.fc2_latent_proj"),
    ("exp_probs_b.bias", "mixer.gate.e_score_correction_bias"),
    ("ssm_in", "mixer.in_proj"),
    ("ssm_conv1d", "mixer.conv1d"),
    ("ssm_a", "mixer.A_log"),
    ("ssm_d", "mixer.D"),
    ("ssm_dt.bias", "mixer.dt_bias"),
    ("ssm_norm", "mixer.norm"),
    ("ssm_out", "mixer.out_proj"),
];

const BERT: Differences = &[
    ("token_embd", "embeddings.word_embeddings"),
    ("position_embd", "embeddings.position_embeddings"),
    ("token_types", "embeddings.token_type_embeddings"),
    ("token_embd_norm", "embeddings.LayerNorm"),
    ("attn_q", "attention.self.query"),
    ("attn_k", "attention.self.key"),
    ("attn_v", "attention.self.value"),
    ("attn_output", "attention.output.dense"),
    ("attn_output_norm", "attention.output.LayerNorm"),
    ("ffn_up", "intermediate.dense"),
    ("ffn_down", "output.dense"),
    ("layer_output_norm", "output.LayerNorm"),
    ("cls", "pooler.dense"),
];

const NOMIC_BERT: Differences = &[
    ("token_embd", "embeddings.word_embeddings"),
    ("token_types", "embeddings.token_type_embeddings"),
    ("token_embd_norm", "emb_ln"),
    ("attn_qkv", "attn.Wqkv"),
    ("attn_output", "attn.out_proj"),
    ("attn_output_norm", "norm1"),
    ("ffn_gate", "mlp.fc12"),
    ("ffn_up", "mlp.fc11"),
    ("ffn_down", "mlp.fc2"),
    ("layer_output_norm", "norm2"),
];

const MODERN_BERT: Differences = &[
    ("token_embd", "embeddings.tok_embeddings"),
    ("token_embd_norm", "embeddings.norm"),
    ("attn_norm", "attn_norm"),
    ("attn_qkv", "attn.Wqkv"),
    ("attn_output", "attn.Wo"),
    ("ffn_norm", "mlp_norm"),
    ("ffn_up", "mlp.Wi"),
    ("ffn_down", "mlp.Wo"),
    ("output_norm", "final_norm"),
];

const fn differences(family: Family) -> Differences {
    match family {
        Family::Gemma2 | Family::Gemma3 => GEMMA,
        Family::Bert => BERT,
        Family::NomicBert => NOMIC_BERT,
        Family::ModernBert => MODERN_BERT,
        Family::Gemma4 => GEMMA4,
        Family::Phi3 => PHI3,
        Family::Glm4 => GLM4,
        Family::Mixtral | Family::MiniMax => MIXTRAL,
        Family::Ernie => ERNIE,
        Family::GptOss => GPT_OSS,
        Family::DeepSeek => DEEPSEEK,
        Family::Hunyuan => HUNYUAN,
        Family::Lfm2 => LFM2,
        Family::Qwen2Moe | Family::Qwen3Next | Family::Qwen35 => QWEN_HYBRID,
        Family::GraniteHybrid => GRANITE_HYBRID,
        Family::NemotronH => NEMOTRON_H,
        _ => &[],
    }
}

/// Returns the common name of a tensor in safetensors, without the prefix of the model or layer.
fn common(name: &str) -> &str {
    match name {
        "token_embd" => "embed_tokens",
        "output_norm" => "norm",
        "per_layer_token_embd" => "embed_tokens_per_layer",
        "per_layer_model_proj" => "per_layer_model_projection",
        "per_layer_proj_norm" => "per_layer_projection_norm",
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_qkv" => "self_attn.qkv_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k_norm" => "self_attn.k_norm",
        "attn_sinks.weight" => "self_attn.sinks",
        "attn_output" => "self_attn.o_proj",
        "ffn_norm" | "post_attention_norm" => "post_attention_layernorm",
        "post_ffw_norm" => "post_feedforward_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        "inp_gate" => "per_layer_input_gate",
        "proj" => "per_layer_projection",
        "post_norm" => "post_per_layer_input_norm",
        "pre_ffw_norm_2" => "pre_feedforward_layernorm_2",
        "post_ffw_norm_1" => "post_feedforward_layernorm_1",
        "post_ffw_norm_2" => "post_feedforward_layernorm_2",
        "layer_output_scale.weight" => "layer_scalar",
        "ffn_gate_shexp" => "mlp.shared_experts.gate_proj",
        "ffn_up_shexp" => "mlp.shared_experts.up_proj",
        "ffn_down_shexp" => "mlp.shared_experts.down_proj",
        "ffn_gate_inp_shexp" => "mlp.shared_expert_gate",
        "exp_probs_b.bias" => "mlp.gate.e_score_correction_bias",
        "ffn_gate_inp" => "mlp.gate",
        "shortconv.conv" => "conv.conv",
        "shortconv.in_proj" => "conv.in_proj",
        "shortconv.out_proj" => "conv.out_proj",
        _ => name,
    }
}

/// Returns the start of the names of tensors in most safetensors of a family.
const fn usual_root(family: Family) -> &'static str {
    if matches!(family, Family::NemotronH) { "backbone." } else { "model." }
}

impl Names {
    pub(crate) fn new(checkpoint: &Checkpoint, family: Family) -> Self {
        let in_config = matches!(checkpoint, Checkpoint::Safetensors(_));
        let usual = usual_root(family);
        let roots = [usual, "bert.", ""];
        let has = |root: &&&'static str| {
            let names = Self { in_config, family, root, draft_layer: None };
            checkpoint.tensor(&(names.global("token_embd") + ".weight")).is_some()
        };
        let root = if in_config { roots.iter().find(has).copied() } else { None };
        Self { in_config, family, root: root.unwrap_or(usual), draft_layer: None }
    }

    /// Returns the names of a model in which the layer at `index` is that of the head for drafts.
    pub(crate) const fn with_draft_layer(self, index: usize) -> Self {
        Self { draft_layer: Some(index), ..self }
    }

    pub(crate) const fn family(self) -> Family {
        self.family
    }

    /// Returns the names of a family in safetensors if `in_config` is true, and otherwise those in GGUF
    /// files.
    pub(crate) const fn of_format(in_config: bool, family: Family) -> Self {
        Self { in_config, family, root: usual_root(family), draft_layer: None }
    }

    /// Returns the number that must be added to each weight of a norm.
    pub(crate) fn norm_offset(self) -> f32 {
        // These norms multiply by one plus the weight. GGUF files store the sum.
        let family =
            matches!(self.family, Family::Gemma2 | Family::Gemma3 | Family::Qwen3Next | Family::Qwen35);
        if self.in_config && family { 1.0 } else { 0.0 }
    }

    /// Reports whether GGUF files store the growth of a recurrent state itself. Safetensors store
    /// the logarithm of its negative.
    pub(crate) const fn has_growth(self) -> bool {
        !self.in_config
    }

    /// Returns the name of a tensor that does not belong to a layer, such as `token_embd`, without
    /// `.weight` or `.bias`.
    pub(crate) fn global(self, name: &str) -> String {
        if !self.in_config {
            return name.to_owned();
        }
        if name == "output" { "lm_head".to_owned() } else { format!("{}{}", self.root, self.own(name)) }
    }

    /// Returns the name of a tensor of the layer at `index`.
    ///
    /// `part` is the last part of its name in GGUF files, without `.weight` or `.bias`, such as
    /// `attn_q`. For a tensor whose name in safetensors has no such ending, `part` has the ending, and
    /// the result is the whole name.
    pub(crate) fn layer(self, index: usize, part: &str) -> String {
        if self.in_config && self.draft_layer == Some(index) {
            return match part {
                "nextn.eh_proj" => "mtp.fc".to_owned(),
                "nextn.enorm" => "mtp.pre_fc_norm_embedding".to_owned(),
                "nextn.hnorm" => "mtp.pre_fc_norm_hidden".to_owned(),
                "nextn.shared_head_norm" => "mtp.norm".to_owned(),
                "nextn.embed_tokens" => "mtp.embed_tokens".to_owned(),
                "nextn.shared_head_head" => "mtp.lm_head".to_owned(),
                part => format!("mtp.layers.0.{}", self.own(part)),
            };
        }
        if self.in_config {
            let layers = match self.family {
                Family::Bert => "encoder.layer",
                Family::NomicBert => "encoder.layers",
                _ => "layers",
            };
            return format!("{}{layers}.{index}.{}", self.root, self.own(part));
        }
        let renames_norm = matches!(
            self.family,
            Family::GptOss | Family::SeedOss | Family::Glm4Moe | Family::Qwen3Next | Family::Qwen35
        );
        let part = if part == "ffn_norm" && renames_norm { "post_attention_norm" } else { part };
        format!("blk.{index}.{part}")
    }

    /// Returns the family's name in safetensors of a tensor.
    fn own(self, name: &str) -> &str {
        let own = differences(self.family).iter().find(|(common, _)| *common == name);
        own.map_or_else(|| common(name), |(_, own)| own)
    }

    /// Returns the names of the two tensors that contain the matrices of all experts of a layer: gates
    /// and ups together, and downs. Returns `None` if the family has no such tensors.
    pub(crate) fn stacked_experts(self, index: usize) -> Option<[String; 2]> {
        let parts = ["ffn_gate_up_exps", "ffn_down_exps"];
        let names = parts.map(|part| self.layer(index, part));
        if !self.in_config {
            return Some(names.map(|name| name + ".weight"));
        }
        differences(self.family).iter().any(|(part, _)| *part == parts[0]).then_some(names)
    }

    /// Returns the name of the tensor that contains the matrix `part` of all experts of a layer.
    /// Returns `None` if each expert has a tensor of its own.
    pub(crate) fn experts(self, index: usize, part: &str) -> Option<String> {
        (!self.in_config).then(|| self.layer(index, &format!("{part}_exps")))
    }

    /// Returns the common prefix of the expert tensors of a layer, if the family stores transposed
    /// matrices of all experts. Otherwise returns `None`.
    pub(crate) fn transposed_experts(self, index: usize) -> Option<String> {
        let so = self.in_config && self.family == Family::GptOss;
        so.then(|| format!("model.layers.{index}.mlp.experts"))
    }

    /// Returns the name of the matrix `part` of one expert in the layer at `index`.
    pub(crate) fn expert(self, index: usize, expert: usize, part: &str) -> String {
        if !self.in_config {
            // Older GGUF files have one tensor per expert.
            return self.layer(index, &format!("{part}.{expert}"));
        }
        let name = self.layer(index, part);
        match name.rsplit_once('.') {
            Some((block, matrix)) => format!("{block}.experts.{expert}.{matrix}"),
            None => name,
        }
    }
}
