//! A model's reasoning in a text: the tags around it, and its removal.

/// Opening and closing tags in which model families write their thoughts.
pub const TAGS: [(&str, &str); 13] = [
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
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
];

/// Returns the text after a model's reasoning, which some servers leave in the text.
///
/// The opening tag may be missing. If the reasoning does not end, the result is empty. A tag inside
/// of open brackets is part of a value, and a tag within a sentence that nothing closes is a word.
pub(crate) fn without_thoughts(text: &str) -> &str {
    // `opened` is the place of the opening tag that is not closed yet.
    let (mut from, mut is_thought, mut opened) = (0, false, 0);
    for (start, end, is_closing) in marks(text) {
        if !is_thought {
            let before = &text[from..start];
            let is_after_json = before.contains(['{', '[']);
            // After JSON, only a closing tag before further JSON ends reasoning.
            if is_open(before) || (is_after_json && !(is_closing && text[end..].contains(['{', '[']))) {
                break;
            }
        }
        if is_closing {
            from = end;
        } else if !is_thought {
            opened = start;
        }
        is_thought = !is_closing;
    }
    if is_thought && !is_within_sentence(&text[from..opened]) { "" } else { &text[from..] }
}

/// Reports whether the text before a tag ends within a sentence, as in ``I write `<think>` ``.
fn is_within_sentence(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let word = line.trim_end_matches([' ', '`', '"', '\'', '(']);
    word.ends_with(|c: char| c.is_alphanumeric() || c == ',')
}

/// Reports whether `text` has more opening than closing brackets.
fn is_open(text: &str) -> bool {
    let count = |brackets: [u8; 2]| text.bytes().filter(|byte| brackets.contains(byte)).count();
    count([b'{', b'[']) > count([b'}', b']'])
}

/// Returns the start and end of each tag of [`TAGS`], and whether the tag is a closing tag, in the
/// order of the text.
pub(crate) fn marks(text: &str) -> impl Iterator<Item = (usize, usize, bool)> {
    // Each tag begins with one of these characters.
    text.match_indices(['<', '[', '◁']).filter_map(|(at, _)| {
        let rest = &text[at..];
        let mark = |tag: &str, is_closing| rest.starts_with(tag).then(|| (at, at + tag.len(), is_closing));
        TAGS.iter().find_map(|(open, close)| mark(open, false).or_else(|| mark(close, true)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_the_tags_of_all_families_in_order() {
        for (open, close) in TAGS {
            let text = format!("a < b [1]{open}é{close}<thinker>");
            let start = "a < b [1]".len();
            let inside = start + open.len() + "é".len();
            let expected = [(start, start + open.len(), false), (inside, inside + close.len(), true)];
            assert_eq!(marks(&text).collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
