//! Which tokens end a sequence, going by their names.
//!
//! Files name one end token, or a few, but chat models end a turn with tokens that often only their template shows. The
//! names in use are few and mean nothing else, provided that the token is a control token: `</s>`, for one, is an HTML
//! tag in Gemma's vocabulary.

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

/// The tokens among `control`, pairs of spelling and token, that end a sequence.
pub(super) fn named<'a>(control: impl Iterator<Item = (&'a str, TokenId)>) -> Vec<TokenId> {
    let mut ends: Vec<_> = control.filter(|(name, _)| NAMES.contains(name)).collect();
    let has = |name| ends.iter().any(|&(given, _)| given == name);
    // Where a message can end in a call, `<|end|>` only ends one of several messages of the same turn.
    let messages = (has("<|return|>") && has("<|call|>")) || (has("<|flush|>") && has("<|calls|>"));
    ends.retain(|&(name, _)| !(messages && name == "<|end|>"));
    ends.into_iter().map(|(_, token)| token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_of_message_is_no_end_where_calls_are() {
        let named = |names: &[&'static str]| named(names.iter().copied().zip((0..).map(TokenId)));
        assert_eq!(named(&["<s>", "<|end|>", "</s>"]), [TokenId(1), TokenId(2)]);
        assert_eq!(named(&["<|end|>", "<|return|>", "<|call|>"]), [TokenId(1), TokenId(2)]);
    }
}
