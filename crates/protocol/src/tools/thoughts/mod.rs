//! Removal of thoughts from the text of an answer.
//!
//! Most servers put thoughts into a field of their own. Some leave them in the content, in the tags
//! of the model's family. Tags in code are text.

mod code;
mod scan;

use std::borrow::Cow;

pub(super) use scan::{Event, Scanner};

/// Openings and endings of the final message in formats that mark it.
const FINAL: [(&str, &str); 4] = [
    ("<|channel|>final<|message|>", "<|return|>"),
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ("<|START_TEXT|>", "<|END_TEXT|>"),
    ("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
];

/// Maximum number of thoughts in a text, which bounds the time.
pub(super) const THOUGHTS: usize = 64;

/// Returns `content` without thoughts, trimmed if there were any. Thoughts after the first
/// [`THOUGHTS`] are kept as text.
///
/// Thoughts are the text between two tags. A closing tag without an opening one ends thoughts that
/// the prompt began. An opening tag at the start of a line without a closing one starts thoughts
/// that were cut off. Tags in code, or in JSON at the start of the text, are text.
pub(super) fn without_thoughts(content: &str) -> Cow<'_, str> {
    let mut scanner = Scanner::new(content, false);
    let (mut kept, mut is_changed, mut at) = (String::new(), false, 0);
    let (mut removed, mut families) = (0, Vec::new());
    while let Some(event) = scanner.next(at) {
        match event {
            Event::Literal(range) => {
                kept.push_str(&content[at..range.end]);
                at = range.end;
            }
            Event::Open(_) if removed == THOUGHTS => break,
            Event::Open(tag) => {
                families.push(tag.family);
                let end = scanner.end(&tag);
                let before = &content[at..tag.range.start];
                let is_cut = before.trim_end_matches([' ', '\t']).ends_with('\n')
                    || (kept.trim().is_empty() && before.trim().is_empty());
                let Some(end) = end.or_else(|| is_cut.then_some(content.len())) else { break };
                kept.push_str(before);
                (is_changed, removed, at) = (true, removed + 1, end);
                scanner.begin(at);
            }
            Event::Close(tag) if families.contains(&tag.family) => {
                kept.push_str(&content[at..tag.range.end]);
                at = tag.range.end;
            }
            Event::Close(tag) => {
                families.push(tag.family);
                kept.clear();
                (is_changed, at) = (true, tag.range.end);
                scanner.begin(at);
            }
        }
    }
    if !is_changed {
        return unwrapped(content);
    }
    kept.push_str(&content[at..]);
    Cow::Owned(unwrapped(kept.trim()).into_owned())
}

/// Returns the final message, if the whole text is in its markers. Otherwise returns the text.
fn unwrapped(text: &str) -> Cow<'_, str> {
    let trimmed = text.trim();
    let trimmed = trimmed.strip_prefix("<|start|>assistant").unwrap_or(trimmed);
    for (open, close) in FINAL {
        if let Some(inner) = trimmed.strip_prefix(open) {
            return Cow::Borrowed(inner.strip_suffix(close).unwrap_or(inner).trim());
        }
    }
    Cow::Borrowed(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::thoughts::TAGS;

    #[test]
    fn removes_thoughts_of_every_family() {
        for (open, close) in TAGS {
            for text in [
                format!("{open}Hm.{close}Done."),
                format!("\n{open}\nHm.\n{close}\n\nDone.\n"),
                format!("{open}a{close}\n{open}b{close}Done."),
                format!("Done.\n{open}It is cut o"),
                format!("Done.{open}Hm.{close}"),
            ] {
                assert_eq!(without_thoughts(&text), "Done.", "{text}");
            }
            assert_eq!(without_thoughts(&format!("{open}Hm.{close}\n")), "");
            assert_eq!(without_thoughts(&format!("{open}It is cut o")), "");
            assert_eq!(without_thoughts(&format!("a {open}b{close}c")), "a c");
        }
        for begun_by_prompt in ["Hm.</think>Done.", "\nHm.\n</thinking>\n\nDone.", "Hm.[/THINK]Done."] {
            assert_eq!(without_thoughts(begun_by_prompt), "Done.");
        }
        let harmony = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Done.<|return|>";
        assert_eq!(without_thoughts(harmony), "Done.");
        assert_eq!(without_thoughts("<|START_RESPONSE|>Done.<|END_RESPONSE|>"), "Done.");
    }

    #[test]
    fn keeps_other_text_unchanged() {
        for text in [
            "",
            " Done. \n",
            "I think <b>so</b>.",
            "Use `<think>` and `</think>` for thoughts.",
            "Close with `</think>`.",
            "```xml\n<think>\n</think>\n```\nlike this",
            "```xml\nHm.\n</think>\n```",
            "The tag <think> opens a thought.",
            r#"{"tag": "<think>a</think>"}"#,
            r#"{"tag": "<think>a</think>", "cut": "o"#,
            r#"["<think>a</think>"]"#,
            "``a ` <think>b</think>``",
            "~~~\n<think>a</think>\n~~~",
        ] {
            assert_eq!(without_thoughts(text), text);
        }
    }

    #[test]
    fn removes_thoughts_in_any_case_and_around_json() {
        for (text, expected) in [
            ("<THINK>Hm.</THINK>Done.", "Done."),
            ("<Think>Hm.</think>Done.", "Done."),
            ("Hm.</THINKING>Done.", "Done."),
            ("{\"plan\":1}</think>Done.", "Done."),
            ("[1, 2]</think>Done.", "Done."),
            ("{ so I plan }</think>Done.", "Done."),
            ("<think>a</think>{\"tag\": \"</think>\"}", "{\"tag\": \"</think>\"}"),
            ("[think](a)[/think]", "[think](a)[/think]"),
        ] {
            assert_eq!(without_thoughts(text), expected, "{text}");
        }
    }

    #[test]
    fn a_fence_in_a_thought_does_not_hide_its_end() {
        let text = "Let me write\n```\nHm.</think>\n```sh\nls\n```";
        assert_eq!(without_thoughts(text), "```sh\nls\n```");
    }

    #[test]
    fn takes_bounded_time_for_many_tags() {
        let text = "<think>a</think>".repeat(100_000);
        assert_eq!(without_thoughts(&text).len(), text.len() - 64 * 16);
        assert_eq!(without_thoughts(&"<think>".repeat(100_000)), "");
    }
}
