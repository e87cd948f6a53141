//! Removal of thoughts from the text of an answer.
//!
//! Most servers put thoughts into a field of their own. Some leave them in the content, in the tags
//! of the model's family. Tags in code are text.

use std::borrow::Cow;

/// Opening and closing tag.
type Tags = (&'static str, &'static str);

/// Opening and closing tags of thoughts.
const TAGS: [Tags; 12] = [
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

/// Openings and endings of the final message in formats that mark it.
const FINAL: [(&str, &str); 3] = [
    ("<|channel|>final<|message|>", "<|return|>"),
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ("<|START_TEXT|>", "<|END_TEXT|>"),
];

/// Maximum number of removed thoughts, which bounds the time. Further ones are kept as text.
const THOUGHTS: usize = 64;

/// Returns `content` without thoughts, trimmed if there were any.
///
/// Thoughts are the text between two tags. A closing tag without an opening one ends thoughts that
/// the prompt began. An opening tag at the start of a line without a closing one starts thoughts
/// that were cut off.
pub(super) fn without_thoughts(content: &str) -> Cow<'_, str> {
    // A tag in a JSON text is part of a string.
    if content.trim_start().starts_with('{') {
        return Cow::Borrowed(content);
    }
    let tags: Vec<_> = TAGS.into_iter().filter(|(open, _)| content.contains(open)).collect();
    let start = after_thoughts_of_prompt(content);
    let mut rest = &content[start..];
    let (mut kept, mut is_changed) = (String::new(), start > 0);
    for _ in 0..THOUGHTS {
        let Some((at, open, close)) = next_open(rest, &tags) else { break };
        let inside = &rest[at + open.len()..];
        let Some(end) = inside.find(close) else {
            let is_cut = rest[..at].trim_end_matches([' ', '\t']).ends_with('\n')
                || (kept.trim().is_empty() && rest[..at].trim().is_empty());
            let end = if is_cut { at } else { rest.len() };
            kept.push_str(&rest[..end]);
            is_changed |= is_cut;
            rest = "";
            break;
        };
        kept.push_str(&rest[..at]);
        rest = &inside[end + close.len()..];
        is_changed = true;
    }
    if !is_changed {
        return unwrapped(content);
    }
    kept.push_str(rest);
    Cow::Owned(unwrapped(kept.trim()).into_owned())
}

/// Returns the position after thoughts that have no opening tag, or 0 if there are none.
pub(super) fn after_thoughts_of_prompt(content: &str) -> usize {
    if !TAGS.iter().any(|(_, close)| content.contains(close)) {
        return 0;
    }
    let code = Code::of(content);
    let ends = TAGS.iter().filter_map(|(open, close)| {
        // `<|end|>` and `<channel|>` end other messages as well.
        if !close.contains(['/']) && !close.contains("THINKING") {
            return None;
        }
        let at = content.match_indices(close).map(|(at, _)| at).find(|at| !code.has(*at))?;
        (!content[..at].contains(open)).then_some(at + close.len())
    });
    ends.max().unwrap_or(0)
}

/// Returns the first opening tag outside code, with its closing tag.
fn next_open(text: &str, tags: &[Tags]) -> Option<(usize, &'static str, &'static str)> {
    if tags.is_empty() {
        return None;
    }
    let code = Code::of(text);
    let first = |(open, close): &Tags| {
        let at = text.match_indices(open).map(|(at, _)| at).find(|at| !code.has(*at))?;
        Some((at, *open, *close))
    };
    tags.iter().filter_map(first).min_by_key(|(at, ..)| *at)
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

/// Ranges of Markdown code: fenced blocks, and spans in backticks within a line. If a fence is not
/// closed, no fence counts, since the open one may be part of a thought.
struct Code(Vec<std::ops::Range<usize>>);

impl Code {
    fn of(text: &str) -> Self {
        if !text.contains('`') {
            return Self(Vec::new());
        }
        let mut ranges = Vec::new();
        let mut fence: Option<usize> = None;
        let mut at = 0;
        let is_fence = |line: &str| line.trim_start().starts_with("```");
        let has_fences = text.lines().filter(|line| is_fence(line)).count() % 2 == 0;
        for line in text.split_inclusive('\n') {
            if has_fences && is_fence(line) {
                match fence.take() {
                    Some(start) => ranges.push(start..at + line.len()),
                    None => fence = Some(at),
                }
            } else if fence.is_none() {
                let ticks: Vec<usize> = line.match_indices('`').map(|(tick, _)| at + tick).collect();
                ranges.extend(ticks.chunks_exact(2).map(|pair| pair[0]..pair[1]));
            }
            at += line.len();
        }
        Self(ranges)
    }

    fn has(&self, at: usize) -> bool {
        let after = self.0.partition_point(|range| range.start <= at);
        after > 0 && self.0[after - 1].contains(&at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            assert_eq!(without_thoughts(text), text);
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
