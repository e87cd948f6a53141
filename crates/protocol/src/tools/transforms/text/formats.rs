//! Names of the formats in which models write calls.

use serde::{Deserialize, Serialize};

/// Format of calls in the text of a message.
///
/// | name | models |
/// |---|---|
/// | `auto` | all formats; the opening of a call decides |
/// | `hermes` | Hermes, Qwen 2.5 and 3, Granite 4, ERNIE 4.5, SmolLM3: JSON in `<tool_call>` |
/// | `qwen3_coder` | Qwen3-Coder to Qwen 3.8, Nemotron 3, Step 3.5: `<function=…>` |
/// | `seed_oss` | Seed-OSS: `<function=…>` in `<seed:tool_call>` |
/// | `glm` | GLM 4.5 to 5.3, Ling 3: `<arg_key>` and `<arg_value>` |
/// | `hunyuan` | Hunyuan 3: the tags of GLM with a suffix |
/// | `minimax` | `MiniMax` M2 and M3: `<invoke name="…">` |
/// | `minicpm` | `MiniCPM5`: `<function name="…">` |
/// | `dsml` | `DeepSeek` V3.2, V4 and V4.1: `<｜DSML｜invoke name="…">` |
/// | `step` | Step 3: `<steptml:invoke name="…">` |
/// | `deepseek` | `DeepSeek` V3, R1 and V3.1: JSON between tokens |
/// | `kimi_k2`, `kimi_k3` | Kimi K2 and K3 |
/// | `mistral` | Mistral v3 to v13: `[TOOL_CALLS]` |
/// | `llama` | Llama 3: JSON as the whole text, or after `<\|python_tag\|>` |
/// | `pythonic` | Llama 4, Olmo 3, Gemma 3: calls of Python |
/// | `lfm` | LFM2 and LFM2.5: calls of Python between tokens |
/// | `gemma` | Gemma 4, `FunctionGemma`: `call:f{…}` |
/// | `cohere` | Command R+, R7B and A |
/// | `nemotron` | Nemotron Nano v2: `<TOOLCALL>` |
/// | `tool_calls` | Apriel, Hunyuan-A13B, `MiniMax` M1: JSON in `<tool_calls>` |
/// | `apertus` | Apertus: `<\|tools_prefix\|>` |
/// | `granite` | Granite 3: `<\|tool_call\|>` |
/// | `phi` | Phi-4-mini: `functools[…]` |
/// | `internlm` | InternLM 2: `<\|action_start\|>` |
/// | `gigachat` | `GigaChat` 3 |
/// | `solar` | Solar Open |
/// | `json` | xLAM: JSON as the whole text |
/// | `harmony` | gpt-oss: messages to `functions.…` |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the table above describes the variants")]
pub enum TextCallFormat {
    #[default]
    Auto,
    Hermes,
    #[serde(rename = "qwen3_coder")]
    Qwen3Coder,
    SeedOss,
    Glm,
    Hunyuan,
    Minimax,
    Minicpm,
    Dsml,
    Step,
    Deepseek,
    KimiK2,
    KimiK3,
    Mistral,
    Llama,
    Pythonic,
    Lfm,
    Gemma,
    Cohere,
    Nemotron,
    ToolCalls,
    Apertus,
    Granite,
    Phi,
    Internlm,
    Gigachat,
    Solar,
    Json,
    Harmony,
}

/// Form of calls that are a whole text without an opening.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whole {
    /// JSON objects, or a list of them.
    Json,
    /// A list of Python calls, or one call a line.
    Python,
    /// A name before JSON: what other formats leave without their tokens.
    Named,
    /// `call:f{…}` without strings, whose quotes are tokens.
    Braces,
}

impl TextCallFormat {
    /// Reports whether calls of this format may begin at the start of `text`.
    pub(super) fn opens(self, text: &str) -> bool {
        let opens: &[&str] = match self {
            Self::Auto => return true,
            Self::Hermes => &["<tool_call>", "```tool_call"],
            Self::Qwen3Coder => &["<tool_call>", "<function="],
            Self::SeedOss => &["<seed:tool_call>", "<function="],
            Self::Glm => &["<tool_call>"],
            Self::Hunyuan => &["<tool_calls:", "<tool_call:"],
            // The namespace token of M3 is removed before.
            Self::Minimax => &["<minimax:tool_call>", "<tool_call>", "<invoke "],
            Self::Minicpm => &["<function name="],
            // Servers may remove the token `｜DSML｜`.
            Self::Dsml => {
                &["<｜DSML｜", "<function_calls>", "<tool_calls>", "<invoke ", "< calls>", "< invoke "]
            }
            Self::Step => &["<｜tool_calls_begin｜>", "<｜tool_call_begin｜>", "<steptml:"],
            Self::Deepseek => &["<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"],
            Self::KimiK2 => &["<|tool_calls_section_begin|>", "<|tool_call_begin|>"],
            Self::KimiK3 => &["<|open|>"],
            Self::Mistral => &["[TOOL_CALLS]"],
            Self::Llama => &["<|python_tag|>"],
            Self::Pythonic => &["<|python_start|>", "<function_calls>", "```tool_code"],
            Self::Lfm => &["<|tool_call_start|>"],
            Self::Gemma => &["<|tool_call>", "<start_function_call>"],
            Self::Cohere => &["<|START_ACTION|>"],
            Self::Nemotron => &["<TOOLCALL>"],
            Self::ToolCalls => &["<tool_calls>"],
            Self::Apertus => &["<|tools_prefix|>"],
            Self::Granite => &["<|tool_call|>"],
            Self::Phi => &["functools", "<|tool_call|>"],
            Self::Internlm => &["<|action_start|>"],
            Self::Gigachat => &["<|function_call|>", "function call<|role_sep|>"],
            Self::Solar => &["<|tool_calls|>", "<|tool_call:begin|>"],
            Self::Json => &[],
            Self::Harmony => &["to=functions."],
        };
        opens.iter().any(|open| text.starts_with(open))
    }

    /// Reports whether a whole text of this form may be calls.
    pub(super) fn has(self, whole: Whole) -> bool {
        match self {
            Self::Auto => true,
            Self::Hermes
            | Self::Llama
            | Self::Cohere
            | Self::Apertus
            | Self::Granite
            | Self::Phi
            | Self::Internlm
            | Self::Gigachat
            | Self::Json => whole == Whole::Json,
            Self::Lfm | Self::Pythonic => whole == Whole::Python,
            Self::Mistral => matches!(whole, Whole::Json | Whole::Named),
            Self::Deepseek | Self::KimiK2 => whole == Whole::Named,
            Self::Gemma => whole == Whole::Braces,
            _ => false,
        }
    }
}
