//! Recognition of control tokens that occur inside the calls and thoughts of an answer.
//!
//! A parser reads calls and thoughts from the text of an answer. In Gemma 4, control tokens enclose
//! both, and `<|"|>` encloses each string of a call. Without the spelling of these tokens, the text
//! is ambiguous.
//!
//! llama.cpp writes these tokens as user-defined tokens to GGUF files. A `tokenizer.json` and other
//! GGUF files have them as control tokens.

/// Spellings of the tokens. `<|tool_response>` is not one of them, because it ends a turn.
const NAMES: [&str; 6] =
    ["<|\"|>", "<|channel>", "<|tool_call>", "<channel|>", "<tool_call|>", "<tool_response|>"];

/// Reports whether the control token with this spelling is text, like a user-defined token.
pub(super) fn is_text(spelling: &str) -> bool {
    NAMES.contains(&spelling)
}
