//! The supported families of architectures.

use super::Checkpoint;
use crate::error::Kind;

/// A group of architectures with the same structure and the same tensor names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    Bert,
    NomicBert,
    ModernBert,
    Llama,
    Mistral,
    Mixtral,
    Qwen2,
    Qwen2Moe,
    Qwen3,
    Qwen3Moe,
    Gemma2,
    Gemma3,
    Gemma4,
    Cohere2,
    Phi3,
    SmolLm3,
    Olmo2,
    Granite,
    GptOss,
    Hunyuan,
    SeedOss,
    Ernie,
    Olmoe,
    Exaone4,
    Glm4,
    Glm4Moe,
    MiniMax,
    Lfm2,
    DeepSeek,
    Qwen3Next,
    Qwen35,
    GraniteHybrid,
    NemotronH,
}

/// The name in GGUF files, the `model_type` in a `config.json`, and the family.
const NAMES: &[(&str, &str, Family)] = &[
    ("bert", "bert", Family::Bert),
    ("cohere2", "cohere2", Family::Cohere2),
    ("deepseek2", "deepseek_v2", Family::DeepSeek),
    ("deepseek2", "deepseek_v3", Family::DeepSeek),
    ("deepseek2", "glm4_moe_lite", Family::DeepSeek),
    ("deepseek2", "kimi_k2", Family::DeepSeek),
    ("ernie4_5", "ernie4_5", Family::Ernie),
    ("ernie4_5-moe", "ernie4_5_moe", Family::Ernie),
    ("exaone4", "exaone4", Family::Exaone4),
    ("gemma2", "gemma2", Family::Gemma2),
    ("gemma3", "gemma3_text", Family::Gemma3),
    ("gemma-embedding", "gemma3_text", Family::Gemma3),
    ("gemma4", "gemma4_text", Family::Gemma4),
    ("gemma4", "gemma4_unified_text", Family::Gemma4),
    ("glm4", "glm4", Family::Glm4),
    ("glm4moe", "glm4_moe", Family::Glm4Moe),
    ("gpt-oss", "gpt_oss", Family::GptOss),
    ("granite", "granite", Family::Granite),
    ("granitehybrid", "granitemoehybrid", Family::GraniteHybrid),
    ("hunyuan-dense", "hunyuan_v1_dense", Family::Hunyuan),
    ("lfm2", "lfm2", Family::Lfm2),
    ("lfm2moe", "lfm2_moe", Family::Lfm2),
    ("llama", "llama", Family::Llama),
    ("llama", "mistral", Family::Mistral),
    ("llama", "mixtral", Family::Mixtral),
    ("minimax-m2", "minimax_m2", Family::MiniMax),
    ("mistral3", "ministral3", Family::Mistral),
    ("mistral4", "mistral4", Family::DeepSeek),
    ("modern-bert", "modernbert", Family::ModernBert),
    ("nemotron_h", "nemotron_h", Family::NemotronH),
    ("nemotron_h_moe", "nemotron_h", Family::NemotronH),
    ("nomic-bert", "nomic_bert", Family::NomicBert),
    ("olmo2", "olmo2", Family::Olmo2),
    ("olmo2", "olmo3", Family::Olmo2),
    ("olmoe", "olmoe", Family::Olmoe),
    ("phi3", "phi3", Family::Phi3),
    ("qwen2", "qwen2", Family::Qwen2),
    ("qwen2moe", "qwen2_moe", Family::Qwen2Moe),
    ("qwen3", "qwen3", Family::Qwen3),
    ("qwen3moe", "qwen3_moe", Family::Qwen3Moe),
    ("qwen35", "qwen3_5_text", Family::Qwen35),
    ("qwen35moe", "qwen3_5_moe_text", Family::Qwen35),
    ("qwen3next", "qwen3_next", Family::Qwen3Next),
    ("qwen3vl", "qwen3_vl_text", Family::Qwen3),
    ("qwen3vlmoe", "qwen3_vl_moe_text", Family::Qwen3Moe),
    ("seed_oss", "seed_oss", Family::SeedOss),
    ("smollm3", "smollm3", Family::SmolLm3),
];

impl Family {
    /// Reports whether `name` is the name of an architecture of this family in GGUF files.
    pub(crate) fn is_called(self, name: &str) -> bool {
        NAMES.iter().any(|&(gguf, _, family)| gguf == name && family == self)
    }

    /// Reports whether llama.cpp's converter permutes the rows of queries and keys so that the rows that
    /// rotate together are neighbours.
    pub(crate) const fn pairs_neighbours(self) -> bool {
        matches!(
            self,
            Self::Llama | Self::Mistral | Self::Mixtral | Self::SmolLm3 | Self::Granite | Self::GraniteHybrid
        )
    }

    /// Returns the family of a checkpoint, and the name of its architecture in GGUF files.
    pub(crate) fn of(checkpoint: &Checkpoint) -> Result<(Self, &'static str), Kind> {
        let given = checkpoint.architecture()?;
        let in_config = matches!(checkpoint, Checkpoint::Safetensors(_));
        let name =
            |&(gguf, config, _): &(&'static str, &'static str, Self)| if in_config { config } else { gguf };
        let known = NAMES.iter().find(|entry| name(entry) == given);
        known.map(|&(gguf, _, family)| (family, gguf)).ok_or_else(|| {
            let mut known: Vec<&str> = NAMES.iter().map(name).collect();
            known.dedup();
            Kind::Architecture { given: given.to_owned(), known }
        })
    }
}
