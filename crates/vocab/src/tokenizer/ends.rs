//! Recognition of tokens that end a sequence, by their names.
//!
//! A file names one or a few end tokens. Chat models also end a turn with tokens that often occur
//! in their chat template only. Such tokens have few different names, and a token with one of these
//! names has no other meaning.
//!
//! Some files do not mark an end token as a control token. Names in [`CLEAR`] are therefore
//! recognised for user-defined tokens too. Names in [`CONTROL`] also occur in ordinary text. In
//! Gemma's vocabulary, for example, `</s>` is also an HTML tag.

use crate::TokenId;

/// Names of control or user-defined tokens that end a sequence.
const CLEAR: [&str; 17] = [
    "<end_of_turn>",
    "<end_of_utterance>",
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
    // Gemma 4 ends a turn with this token when it waits for the results of calls.
    "<|tool_response>",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
    "[e~[",
    "_<EOT>",
];

/// Names of control tokens that end a sequence.
const CONTROL: [&str; 5] = ["</s>", "<EOT>", "<eos>", "[EOS]", "[EOT]"];

/// Returns the tokens that end a sequence. `tokens` contains the spelling and id of every control
/// and user-defined token, and true if the token is a control token.
pub(super) fn named<'a>(tokens: impl Iterator<Item = (&'a str, TokenId, bool)>) -> Vec<TokenId> {
    let is_end = |name: &str, control| CLEAR.contains(&name) || (control && CONTROL.contains(&name));
    let mut ends: Vec<_> = tokens.filter(|&(name, _, control)| is_end(name, control)).collect();
    let has = |name| ends.iter().any(|&(given, ..)| given == name);
    // In models whose messages can end in a call, `<|end|>` ends a message but not the turn.
    let messages = (has("<|return|>") && has("<|call|>")) || (has("<|flush|>") && has("<|calls|>"));
    ends.retain(|&(name, ..)| !(messages && name == "<|end|>"));
    ends.into_iter().map(|(_, token, _)| token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(control: bool, names: &[&str]) -> Vec<u32> {
        let ids = names.iter().zip((0..).map(TokenId));
        named(ids.map(|(name, id)| (*name, id, control))).into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn end_of_message_is_not_an_end_token_if_calls_exist() {
        assert_eq!(ends(true, &["<s>", "<|end|>", "</s>"]), [1, 2]);
        assert_eq!(ends(true, &["<|end|>", "<|return|>", "<|call|>"]), [1, 2]);
    }

    #[test]
    fn names_of_ordinary_text_need_control_tokens() {
        let names = ["</s>", "<|im_end|>", "[EOS]", "[e~[", "<|user|>"];
        assert_eq!(ends(true, &names), [0, 1, 2, 3]);
        assert_eq!(ends(false, &names), [1, 3]);
    }
}
