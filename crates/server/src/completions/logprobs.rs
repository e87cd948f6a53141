//! Log-probabilities in the lists of OpenAI's completions.

use formwork_engine::TokenLogprob;
use formwork_openai::CompletionLogprobs;
use formwork_vocab::{TokenId, Tokenizer};
use serde_json::{Map, Value};

use crate::choice;

/// First token of a prompt. A model gives it no probability.
#[derive(Clone, Copy)]
pub(super) struct FirstToken {
    pub(super) token: TokenId,
    /// True if the text of the choice has the token's text. False for a beginning-of-sequence token that
    /// was added to the prompt.
    pub(super) is_in_text: bool,
}

/// Returns the lists for a part of a choice. `offset` is the number of characters before the part, and
/// afterwards those before the next part. `first` is the first token of an echoed prompt, in the first
/// part.
pub(super) fn lists(
    first: Option<FirstToken>,
    tokens: &[TokenLogprob],
    tokenizer: &Tokenizer,
    offset: &mut usize,
) -> CompletionLogprobs {
    let mut lists = CompletionLogprobs::default();
    if let Some(FirstToken { token, is_in_text }) = first {
        let bytes = tokenizer.vocabulary().bytes(token);
        lists.tokens.push(String::from_utf8_lossy(bytes).into_owned());
        lists.token_logprobs.push(None);
        lists.top_logprobs.push(None);
        lists.text_offset.push(*offset);
        *offset += if is_in_text { starts(bytes) } else { 0 };
    }
    for token in tokens {
        let token = choice::logprob(token, tokenizer);
        // A character that spans several tokens starts in the first of them.
        let is_continued = token.bytes.first().is_some_and(|&byte| is_continuation(byte));
        lists.text_offset.push(offset.saturating_sub(usize::from(is_continued)));
        *offset += starts(&token.bytes);
        lists.token_logprobs.push(Some(token.logprob));
        let top = token.top_logprobs.into_iter().map(|likely| (likely.token, number(likely.logprob)));
        let mut top: Map<_, _> = top.collect();
        // The token itself is always listed, even if other tokens are likelier.
        top.entry(token.token.as_str()).or_insert_with(|| number(token.logprob));
        lists.top_logprobs.push(Some(top));
        lists.tokens.push(token.token);
    }
    lists
}

/// Converts a log-probability to a JSON number with the digits of the `f32`, as in other fields.
fn number(logprob: f32) -> Value {
    logprob.to_string().parse::<f64>().map_or(Value::Null, Into::into)
}

/// Returns the number of characters that start in `bytes`.
fn starts(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| !is_continuation(byte)).count()
}

/// Returns true for a UTF-8 byte that is not the first of a character.
const fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}
