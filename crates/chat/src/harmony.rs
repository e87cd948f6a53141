//! The format of gpt-oss: messages on channels, separated by control tokens.
//!
//! An answer starts after `<|start|>assistant`. Thoughts are on the channel `analysis`, text for
//! the user on `final`, and calls on `commentary` with a recipient. See
//! <https://cookbook.openai.com/articles/openai-harmony>.

use formwork_vocab::{TokenId, Vocabulary};

/// Control tokens of the format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Harmony {
    pub(crate) start: TokenId,
    pub(crate) channel: TokenId,
    pub(crate) constrain: TokenId,
    pub(crate) message: TokenId,
    pub(crate) end: TokenId,
    pub(crate) call: TokenId,
}

/// Text before a function's name in a header.
pub(crate) const RECIPIENT: &str = "to=functions.";

impl Harmony {
    /// Spelling of the token that ends a message if another message follows.
    pub(crate) const END: &'static str = "<|end|>";

    /// Start of another message of the assistant.
    pub(crate) const START: &'static str = "<|start|>assistant";

    /// Start of the content of an answer.
    pub(crate) const FINAL: &'static str = "<|channel|>final<|message|>";
    /// Start of the thoughts of an answer.
    pub(crate) const ANALYSIS: &'static str = "<|channel|>analysis<|message|>";

    /// Returns the format, or `None` if the model does not use it. `before_words` is the text that
    /// the template writes before an assistant's words.
    pub(crate) fn of(before_words: &str, vocabulary: &Vocabulary) -> Option<Self> {
        if !before_words.contains("<|channel|>final<|message|>") {
            return None;
        }
        let token = |text: &str| {
            vocabulary.ids().find(|&token| {
                vocabulary.bytes(token) == text.as_bytes() && !vocabulary.kind(token).is_text()
            })
        };
        Some(Self {
            start: token("<|start|>")?,
            channel: token("<|channel|>")?,
            constrain: token("<|constrain|>")?,
            message: token("<|message|>")?,
            end: token(Self::END)?,
            call: token("<|call|>")?,
        })
    }
}
