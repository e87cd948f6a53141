//! Recognition of tokens that end a sequence, by their names.
//!
//! A file names one or a few end tokens. Chat models also end a turn with tokens that often occur
//! in their chat template only. Such tokens have few different names, and a control token with one
//! of these names has no other meaning.
//!
//! Other tokens can have such a name by accident. In Gemma's vocabulary, for example, `</s>` is
//! also an HTML tag.

use crate::TokenId;

const NAMES: [&str; 19] = [
    "</s>",
    "<EOT>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|call|>",
    "<|calls|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|flush|>",
    "<|im_end|>",
    "<|return|>",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
    "[EOS]",
    "[EOT]",
];

/// Returns the tokens that end a sequence. `control` contains the spelling and id of every control
/// token.
pub(super) fn named<'a>(control: impl Iterator<Item = (&'a str, TokenId)>) -> Vec<TokenId> {
    let mut ends: Vec<_> = control.filter(|(name, _)| NAMES.contains(name)).collect();
    let has = |name| ends.iter().any(|&(given, _)| given == name);
    // In models whose messages can end in a call, `<|end|>` ends a message but not the turn.
    let messages = (has("<|return|>") && has("<|call|>")) || (has("<|flush|>") && has("<|calls|>"));
    ends.retain(|&(name, _)| !(messages && name == "<|end|>"));
    ends.into_iter().map(|(_, token)| token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_message_is_not_an_end_token_if_calls_exist() {
        let named = |names: &[&'static str]| named(names.iter().copied().zip((0..).map(TokenId)));
        assert_eq!(named(&["<s>", "<|end|>", "</s>"]), [TokenId(1), TokenId(2)]);
        assert_eq!(named(&["<|end|>", "<|return|>", "<|call|>"]), [TokenId(1), TokenId(2)]);
    }
}
