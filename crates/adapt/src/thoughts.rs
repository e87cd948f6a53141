//! A model's reasoning in a text: the tags around it, and its removal.

/// Opening and closing tags in which model families write their thoughts.
pub const TAGS: [(&str, &str); 12] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<think:opensource>", "</think:opensource>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("◁think▷", "◁/think▷"),
];

/// Returns the text after a model's reasoning, which some servers leave in the text.
///
/// The opening tag may be missing. If the reasoning does not end, the result is empty. A tag inside
/// of open brackets is part of a value.
pub(crate) fn without_thoughts(text: &str) -> &str {
    let (mut from, mut is_thought) = (0, false);
    for (start, end, is_closing) in marks(text) {
        if !is_thought {
            let before = &text[from..start];
            let is_after_json = before.contains(['{', '[']);
            // After JSON, only a closing tag before further JSON ends reasoning.
            if is_open(before) || (is_after_json && !(is_closing && text[end..].contains(['{', '[']))) {
                break;
            }
        }
        is_thought = !is_closing;
        if is_closing {
            from = end;
        }
    }
    if is_thought { "" } else { &text[from..] }
}

/// Reports whether `text` has more opening than closing brackets.
fn is_open(text: &str) -> bool {
    let count = |brackets: [u8; 2]| text.bytes().filter(|byte| brackets.contains(byte)).count();
    count([b'{', b'[']) > count([b'}', b']'])
}

/// Returns the start and end of each `<think>` or `<thinking>` tag, and whether the tag is a
/// closing tag.
pub(crate) fn marks(text: &str) -> impl Iterator<Item = (usize, usize, bool)> {
    text.match_indices("think").filter_map(|(at, word)| {
        let after = &text[at + word.len()..];
        let rest = after.strip_prefix("ing").unwrap_or(after).strip_prefix('>')?;
        let before = text[..at].strip_suffix('/');
        let start = before.unwrap_or(&text[..at]).strip_suffix('<')?.len();
        Some((start, text.len() - rest.len(), before.is_some()))
    })
}
