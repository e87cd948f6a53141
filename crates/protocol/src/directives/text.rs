//! Removes what is not for the user from the text of an answer.

use crate::adapt::object::is_blank;

/// Names of the tags in which models write their thoughts.
const THOUGHTS: [&str; 4] = ["think", "thinking", "thought", "reasoning"];
/// Characters of JSON and Markdown that are no text on their own. Others, as in `:)`, may be.
const MARKS: &[char] = &['[', ']', '{', '}', '"', '`', ','];

/// Returns `text` without the thoughts at its beginning, and whether an opening tag of thoughts is
/// not closed yet; all text after such a tag is a thought. The text is only trimmed at its start,
/// and only if something was removed.
pub(super) fn without_leading_thoughts(text: &str) -> (&str, bool) {
    let mut rest = text;
    loop {
        let trimmed = rest.trim_start_matches(is_blank);
        let Some((name, inside)) = THOUGHTS.iter().find_map(|name| Some((*name, opened(trimmed, name)?)))
        else {
            return if rest.len() == text.len() { (text, false) } else { (trimmed, false) };
        };
        match closed(inside, name) {
            Some(after) => rest = after,
            None => return ("", true),
        }
    }
}

/// Returns the text after the opening tag `<name>` at the start of `text`, if there is one.
fn opened<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let rest = text.strip_prefix('<')?;
    let (tag, rest) = rest.split_at_checked(name.len())?;
    rest.strip_prefix('>').filter(|_| tag.eq_ignore_ascii_case(name))
}

/// Returns the text after the first closing tag `</name>`.
fn closed<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.match_indices("</").find_map(|(at, _)| {
        let (tag, rest) = text[at + 2..].split_at_checked(name.len())?;
        rest.strip_prefix('>').filter(|_| tag.eq_ignore_ascii_case(name))
    })
}

/// Reports whether `text` could become an opening tag of thoughts, such as `<thi`.
pub(super) fn may_become_thought(text: &str) -> bool {
    let text = text.trim_start_matches(is_blank).to_ascii_lowercase();
    text.is_empty() || THOUGHTS.iter().any(|name| format!("<{name}>").starts_with(&text))
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
            ("<think></think><reasoning>a</reasoning> b", ("b", false)),
            ("\n<thinking>So.\nHm", ("", true)),
            ("Use <think> tags.", ("Use <think> tags.", false)),
            ("<thinker>a</thinker>", ("<thinker>a</thinker>", false)),
            ("<thé", ("<thé", false)),
        ] {
            assert_eq!(without_leading_thoughts(text), expected, "{text}");
        }
        assert!(["", " ", "<", "<thi", "<Think", "<think>"].into_iter().all(may_become_thought));
        assert!(["a", "<b", "<think>a"].into_iter().all(|text| !may_become_thought(text)));
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
