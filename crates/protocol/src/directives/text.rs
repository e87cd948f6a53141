//! Removes what is not for the user from the text of an answer.

use crate::adapt::object::is_blank;
use crate::adapt::thoughts::TAGS;

/// Characters of JSON and Markdown that are no text on their own. Others, as in `:)`, may be.
const MARKS: &[char] = &['[', ']', '{', '}', '"', '`', ','];

/// Returns `text` without the thoughts at its beginning, and whether an opening tag of thoughts is
/// not closed yet; all text after such a tag is a thought. The text is only trimmed at its start,
/// and only if something was removed.
pub(super) fn without_leading_thoughts(text: &str) -> (&str, bool) {
    let mut rest = text;
    loop {
        let trimmed = rest.trim_start_matches(is_blank);
        let opened = |&(open, close)| Some((close, after_tag(trimmed, open)?));
        let Some((close, inside)) = TAGS.iter().find_map(opened) else {
            return if rest.len() == text.len() { (text, false) } else { (trimmed, false) };
        };
        let begin = close.chars().next().unwrap_or_default();
        let after = |(at, _): (usize, &str)| after_tag(&inside[at..], close);
        match inside.match_indices(begin).find_map(after) {
            Some(after) => rest = after,
            None => return ("", true),
        }
    }
}

/// Returns the text after `tag` if `text` begins with the tag, in upper or lower case.
fn after_tag<'t>(text: &'t str, tag: &str) -> Option<&'t str> {
    let (given, rest) = text.split_at_checked(tag.len())?;
    given.eq_ignore_ascii_case(tag).then_some(rest)
}

/// Reports whether `text` could become an opening tag of thoughts, such as `<thi`.
pub(super) fn may_become_thought(text: &str) -> bool {
    let text = text.trim_start_matches(is_blank);
    TAGS.iter().any(|(open, _)| open.get(..text.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(text)))
}

/// Reports whether `text` ends with a closing tag of thoughts.
pub(super) fn ends_with_closing_tag(text: &str) -> bool {
    TAGS.iter().any(|(_, close)| {
        let begin = text.len().checked_sub(close.len());
        begin.and_then(|begin| text.get(begin..)).is_some_and(|end| end.eq_ignore_ascii_case(close))
    })
}

/// Reports whether `text` consists of brackets, quotes and the like, without any word.
pub(super) fn is_marks(text: &str) -> bool {
    let text = text.trim_matches(is_blank);
    !text.is_empty() && text.chars().all(|c| MARKS.contains(&c) || is_blank(c))
}

/// Returns the part of `text`, prose with JSON in it, before the JSON or a code fence begins.
pub(super) fn before_json(text: &str) -> &str {
    let begins = |(at, _): &(usize, &str)| {
        let next = text[at + 1..].trim_start_matches(is_blank);
        next.is_empty()
            || next.starts_with(['{', '[', ']', '"'])
            || text[..*at].trim_matches(is_blank).is_empty()
    };
    let array = text.match_indices('[').find(begins).map(|(at, _)| at);
    let end = [text.find('{'), text.find("```"), array].into_iter().flatten().min();
    let text = text[..end.unwrap_or(text.len())].trim_matches(is_blank);
    if is_marks(text) { "" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_are_removed_from_the_beginning() {
        for (text, expected) in [
            ("Hello", ("Hello", false)),
            (" Hello ", (" Hello ", false)),
            ("<think>So.</think>\n\nHello", ("Hello", false)),
            ("<THINK>So.</Think>Hello", ("Hello", false)),
            ("[THINK]So [1].[/THINK] Hello", ("Hello", false)),
            ("<|channel>thought\nSo.<channel|>Hello", ("Hello", false)),
            ("◁think▷So.◁/think▷Hello", ("Hello", false)),
            ("[THINK]So", ("", true)),
            ("<think></think><reasoning>a</reasoning> b", ("b", false)),
            ("\n<thinking>So.\nHm", ("", true)),
            ("Use <think> tags.", ("Use <think> tags.", false)),
            ("<thinker>a</thinker>", ("<thinker>a</thinker>", false)),
            ("<thé", ("<thé", false)),
        ] {
            assert_eq!(without_leading_thoughts(text), expected, "{text}");
        }
        assert!(
            ["", " ", "<", "<thi", "<Think", "<think>", "[", "[th", "<|channel|>ana", "◁"]
                .into_iter()
                .all(may_become_thought)
        );
        assert!(["a", "<b", "<think>a", "[1", "◁é"].into_iter().all(|text| !may_become_thought(text)));
    }

    #[test]
    fn brackets_are_no_text() {
        assert!(["[", "[]", " {}\n", "```", "\"\"", "[ { "].into_iter().all(is_marks));
        assert!(["", " ", "[1]", "a", "...", ":)", "?"].into_iter().all(|text| !is_marks(text)));
        for (text, expected) in [
            ("Here: [", "Here:"),
            ("Here: [{\"type\"", "Here:"),
            ("[1, 2]", ""),
            ("As [1] says.", "As [1] says."),
            ("` [", ""),
            ("Sure.\n```json", "Sure."),
        ] {
            assert_eq!(before_json(text), expected, "{text}");
        }
    }
}
