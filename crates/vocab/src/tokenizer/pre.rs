//! Rules for splitting text into words, by the names that GGUF files use.
//!
//! A GGUF file does not contain the regular expressions of its tokenizer. The field
//! `tokenizer.ggml.pre` contains only a name, which the table below maps to expressions.
//!
//! If there are several expressions, each splits the pieces that the expression before has
//! produced. Text between two matches is a word too, so an expression need not end in `|\s+`.
//!
//! llama.cpp replaces some expressions, because its own engine cannot run them. The table then has
//! the original expression from the model's `tokenizer.json`. Contractions are always written out
//! as in `'[sS]`, because `(?i:'s)` would also match `'ſ`.

use super::bpe::Units;
use crate::VocabError;
use crate::error::Kind;

/// Rules for splitting text into words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Splitting {
    /// Regular expressions in Oniguruma's syntax, in the order in which they split the text.
    pub(super) patterns: &'static [&'static str],
    /// Units that a word starts with.
    pub(super) units: Units,
    /// Words that become the token of their spelling, even if merging would yield other tokens.
    pub(super) whole: Whole,
    /// Default of `tokenizer.ggml.add_bos_token`: true if prompts start with the
    /// beginning-of-sequence token.
    pub(super) add_bos: bool,
}

/// Words that are not merged from smaller tokens if the vocabulary contains them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whole {
    /// No words.
    None,
    /// Words that consist of line feeds. The merges of Gemma 4 cannot produce the tokens for
    /// several line feeds.
    LineFeeds,
    /// All words.
    All,
}

impl Splitting {
    const fn new(patterns: Patterns) -> Self {
        Self { patterns, units: Units::Bytes, whole: Whole::None, add_bos: false }
    }

    const fn whole(self) -> Self {
        Self { whole: Whole::All, ..self }
    }

    const fn with_bos(self) -> Self {
        Self { add_bos: true, ..self }
    }
}

/// Name of the rules for a file without the field `tokenizer.ggml.pre`.
pub(super) const UNNAMED: &str = "default";

/// Rules of Gemma 4. Files of model `gemma4` do not use `tokenizer.ggml.pre`.
pub(super) const GEMMA4: Splitting = Splitting {
    patterns: &[r"[^\n]+|[\n]+"],
    units: Units::Characters,
    whole: Whole::LineFeeds,
    add_bos: true,
};

/// Returns the rules called `name`, or an error that lists the known names.
pub(super) fn splitting(name: &str) -> Result<Splitting, VocabError> {
    let unknown = || {
        let mut known: Vec<_> = TABLE.iter().flat_map(|row| row.0.iter().copied()).collect();
        known.sort_unstable();
        Kind::UnknownPre { given: name.to_owned(), known: known.join(", ") }
    };
    let row = TABLE.iter().find(|row| row.0.contains(&name)).ok_or_else(unknown)?;
    Ok(row.1)
}

type Patterns = &'static [&'static str];

/// Names and their rules.
#[rustfmt::skip]
static TABLE: &[(&[&str], Splitting)] = &[
    (&["default"], Splitting::new(DEFAULT)),
    (&[
        "a.x-4.0", "exaone4", "gigachat", "gpt-2", "granite-docling", "jais", "jina-de", "jina-es",
        "jina-v1-en", "jina-v2-code", "jina-v2-de", "jina-v2-es", "mellum", "modern-bert", "mpt", "olmo",
        "phi-2", "roberta-bpe", "trillion",
    ], Splitting::new(GPT2)),
    (&[
        "codeshell", "command-r", "exaone", "mellum2", "minerva-7b", "refact", "smollm", "starcoder",
    ], Splitting::new(DIGITS_GPT2)),
    (&["falcon"], Splitting::new(FALCON)),
    (&[
        "falcon-h1", "falcon3", "jina-v5-nano", "lfm2", "llama-bpe", "llama-v3", "llama3", "midm-2.0",
        "pixtral",
    ], Splitting::new(LLAMA3).whole().with_bos()),
    (&["chatglm-bpe", "dbrx", "smaug-bpe"], Splitting::new(LLAMA3)),
    (&["glm4", "glm5"], Splitting::new(LLAMA3).whole()),
    (&["minicpm5"], Splitting::new(MINICPM5).whole()),
    (&[
        "deepseek-r1-qwen", "f2llmv2", "grok-2", "hunyuan", "kormo", "megrez", "qwen2", "solar-open",
        "stablelm2",
    ], Splitting::new(QWEN2)),
    (&["ufakzeka"], Splitting::new(UFAKZEKA)),
    (&["laguna"], Splitting::new(LAGUNA)),
    (&["qwen35"], Splitting::new(QWEN35)),
    (&["jais-2"], Splitting::new(JAIS2)),
    (&["seed-coder"], Splitting::new(SEED_CODER)),
    (&["bailingmoe", "bailingmoe2", "llada-moe"], Splitting::new(BAILING)),
    (&["exaone-moe"], Splitting::new(EXAONE_MOE)),
    (&["tekken"], Splitting::new(TEKKEN).whole().with_bos()),
    (&["gpt-4o", "kanana2", "llama4", "minimax-m2", "talkie"], Splitting::new(GPT4O)),
    (&["granite-embed-multi-97m"], Splitting::new(GPT4O).whole()),
    (&["cohere2moe", "tiny_aya"], Splitting::new(TINY_AYA)),
    (&["kimi-k2"], Splitting::new(KIMI_K2)),
    (&["youtu"], Splitting::new(YOUTU).whole()),
    (&["deepseek-llm"], Splitting::new(DEEPSEEK_LLM)),
    (&["deepseek-coder"], Splitting::new(DEEPSEEK_CODER)),
    (&["deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"], Splitting::new(DEEPSEEK3)),
    (&["spark2_5"], Splitting::new(SPARK)),
    (&["afmoe"], Splitting::new(AFMOE)),
    (&["bloom", "gpt3-finnish", "poro-chat"], Splitting::new(BLOOM)),
    (&["viking"], Splitting::new(VIKING)),
    (&["superbpe"], Splitting::new(SUPERBPE)),
    (&["chameleon"], Splitting::new(CHAMELEON).with_bos()),
    (&["gemma4", "granite-embed-multi-311m"], GEMMA4),
    (&["sarvam-moe"], Splitting { whole: Whole::None, add_bos: false, ..GEMMA4 }),
];

static DEFAULT: Patterns = &[
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    r"[0-9][0-9][0-9]",
];

static GPT2: Patterns = &[r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"];

static DIGITS_GPT2: Patterns =
    &[r"\p{N}", r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"];

static FALCON: Patterns = &[
    r"[\p{P}\$\+<=>\^~\|`]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"[0-9][0-9][0-9]",
];

static LLAMA3: Patterns = &[
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

static MINICPM5: Patterns = &[
    r"\p{N}{1,3}",
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

static QWEN2: Patterns = &[
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

static UFAKZEKA: Patterns =
    &[r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"];

static LAGUNA: Patterns = &[
    r"[^\n]+|[\n]+",
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

static QWEN35: Patterns = &[
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

static JAIS2: Patterns = &[
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}",
];

static SEED_CODER: Patterns = &[
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
];

static BAILING: Patterns = &[
    r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
];

static EXAONE_MOE: Patterns = &[
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
];

static TEKKEN: Patterns = &[
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

static GPT4O: Patterns = &[
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

static TINY_AYA: Patterns = &[
    r"\d{1,3}(?=(?:\d{3})*\b)",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

static KIMI_K2: Patterns = &[
    r"\p{Han}+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

static YOUTU: Patterns = &[
    r"[\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

static DEEPSEEK_LLM: Patterns = &[
    r"[\r\n]",
    r"\s?[A-Za-z\x{00B5}\x{00C0}-\x{00D6}\x{00D8}-\x{00F6}\x{00F8}-\x{01BA}\x{01BC}-\x{01BF}\x{01C4}-\x{0293}\x{0295}-\x{02AF}\x{0370}-\x{0373}\x{0376}\x{0377}\x{037B}-\x{037D}\x{037F}\x{0386}\x{0388}-\x{038A}\x{038C}\x{038E}-\x{03A1}\x{03A3}-\x{03F5}\x{03F7}-\x{0481}\x{048A}-\x{052F}\x{0531}-\x{0556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+",
    r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+",
    r"\s+$",
    r"[\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+",
    r"\p{N}+",
];

static DEEPSEEK_CODER: Patterns = &[
    r"[\r\n]",
    r"\s?\p{L}+",
    r"\s?\p{P}+",
    r"[\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+",
    r"\p{N}",
];

static DEEPSEEK3: Patterns = &[
    r"\p{N}{1,3}",
    r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
];

static SPARK: Patterns = &[
    r"\p{N}{1,3}",
    r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"##,
    r"\p{N}",
];

static AFMOE: Patterns = &[
    r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
    r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{0E40}-\x{0E7F}\x{0E80}-\x{0EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
];

static BLOOM: Patterns = &[r" ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{0964}\x{06D4}\x{060C})]+"];

static VIKING: Patterns =
    &[r" ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{0964}\x{06D4}\x{060C})]+", r"\p{N}"];

static SUPERBPE: Patterns = &[r"\p{N}+", r"(?=(\d{3})+(?!\d))"];

static CHAMELEON: Patterns = &[
    r"<sentinel:[0-9]+>",
    r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
    r"([\t\n]|    |  )",
    r"\p{N}",
    r"[\p{P}!-/:-@\[-`{-~]",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
];

#[cfg(test)]
mod tests {
    use tokenizers::utils::SysRegex;

    use super::*;

    #[test]
    fn every_expression_compiles_and_every_name_is_there_once() {
        let mut names: Vec<_> = TABLE.iter().flat_map(|row| row.0.iter().copied()).collect();
        for name in &names {
            for pattern in splitting(name).unwrap().patterns {
                SysRegex::new(pattern).unwrap();
            }
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn only_llama_3_and_its_kin_keep_words_whole() {
        let rules = |name| splitting(name).map(|rules| (rules.whole, rules.add_bos)).unwrap();
        assert_eq!(rules("llama-bpe"), (Whole::All, true));
        assert_eq!(rules("glm5"), (Whole::All, false));
        assert_eq!(rules("chatglm-bpe"), (Whole::None, false));
        assert_eq!(rules("smollm"), (Whole::None, false));
    }

    #[test]
    fn an_unknown_name_lists_the_known_names() {
        let error = splitting("wombat").unwrap_err().to_string();
        assert!(error.contains("`wombat`") && error.contains("llama-bpe, llama-v3"), "{error}");
    }
}
