//! Results of a model beside logits: vectors of texts, and scores of pairs of texts.

use std::collections::BTreeMap;

use formwork_vocab::TokenId;

/// Method that combines the hidden states of a text's tokens into one vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pooling {
    /// Mean of all hidden states.
    #[default]
    Mean,
    /// Hidden state of the first token.
    First,
    /// Hidden state of the last token.
    Last,
}

/// Purposes of a model.
#[derive(Clone, PartialEq, Debug)]
pub struct Abilities {
    /// True if the model generates text.
    pub generates: bool,
    /// Computation of a text's vector. `None` for a model that only scores pairs of texts.
    pub embedding: Option<EmbeddingProfile>,
    /// Scoring of a query and a document. `None` if the model computes no scores.
    pub ranking: Option<Ranking>,
}

impl Default for Abilities {
    /// Returns the abilities of a plain language model.
    fn default() -> Self {
        Self { generates: true, embedding: Some(EmbeddingProfile::default()), ranking: None }
    }
}

impl Abilities {
    /// Returns the purposes in words, for messages.
    pub const fn describe(&self) -> &'static str {
        match self {
            Self { generates: true, ranking: None, .. } => "generates text",
            Self { generates: true, .. } => "generates text and scores documents",
            Self { ranking: Some(_), .. } => "only scores documents for a query",
            _ => "only computes embeddings",
        }
    }
}

/// Computation of a text's vector, as the model's files describe it.
#[derive(Clone, PartialEq, Debug)]
pub struct EmbeddingProfile {
    /// Combination of the hidden states.
    pub pooling: Pooling,
    /// True if vectors are scaled to length 1.
    pub normalizes: bool,
    /// Number of elements of a vector. `None` if the model does not state it.
    pub width: Option<usize>,
    /// Texts to put before an input, by name.
    pub prompts: BTreeMap<String, String>,
    /// Name of the prompt of inputs without another one.
    pub default_prompt: Option<String>,
    /// True if inputs are converted to lower case.
    pub lowercases: bool,
}

impl Default for EmbeddingProfile {
    fn default() -> Self {
        Self {
            pooling: Pooling::Mean,
            normalizes: true,
            width: None,
            prompts: BTreeMap::new(),
            default_prompt: None,
            lowercases: false,
        }
    }
}

/// Form in which a model reads a query and a document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ranking {
    /// Combination of the hidden states.
    pub pooling: Pooling,
    /// Text with the placeholders `{query}` and `{document}`, and perhaps `{instruction}`. `None` if
    /// the model reads a pair: both texts with the tokens that the tokenizer adds to them.
    pub template: Option<String>,
}

/// A whole text, for [`LanguageModel::encode`](crate::LanguageModel::encode).
#[derive(Clone, Copy, Debug)]
pub struct EncodedText<'a> {
    /// Tokens, at least one.
    pub tokens: &'a [TokenId],
    /// Index of the first token of the second text, if the text is a pair. Some models distinguish
    /// the two.
    pub second: Option<usize>,
}
