//! Recovers text for the user from an answer without a valid envelope.

use std::fmt::Write;

use super::text::{before_json, is_marks, without_leading_thoughts};
use crate::adapt::object::without_thoughts;

/// Returns the value of `assistant_text` in an unreadable answer, even if the string is cut off.
/// Without such a value, returns the text before the JSON or a code fence. Thoughts and lone
/// brackets are no text.
pub(super) fn assistant_text(content: &str) -> String {
    let (content, _) = without_leading_thoughts(without_thoughts(content));
    let text = written(content).unwrap_or_else(|| before_json(content).to_owned());
    let (text, _) = without_leading_thoughts(&text);
    if is_marks(text) { String::new() } else { text.to_owned() }
}

/// Returns the string after `"assistant_text":`, up to its closing quote or the end of the answer.
/// Returns `None` if there is no such string or if its escapes are invalid.
fn written(content: &str) -> Option<String> {
    const NAME: &str = "\"assistant_text\"";
    let rest = &content[content.find(NAME)? + NAME.len()..];
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    // Builds a valid JSON literal: control characters are escaped, and an incomplete escape at the
    // end is dropped.
    let mut literal = String::from('"');
    let mut characters = rest.chars();
    while let Some(c) = characters.next() {
        match c {
            '"' => break,
            '\\' => {
                let rest = characters.as_str();
                let length = if rest.starts_with('u') { 5 } else { 1 };
                let Some(escape) = rest.get(..length) else { break };
                literal.push('\\');
                literal.push_str(escape);
                characters = rest[length..].chars();
            }
            c if c.is_control() => {
                let _ = write!(literal, "\\u{:04x}", u32::from(c));
            }
            c => literal.push(c),
        }
    }
    literal.push('"');
    serde_json::from_str(&literal).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovers_the_text_of_broken_answers() {
        for (content, text) in [
            ("Just prose.", "Just prose."),
            ("<think>So</think>\nProse.", "Prose."),
            (r#"{"assistant_text": "Hi \"you\"", "directives": [{"#, "Hi \"you\""),
            (r#"{"assistant_text": "cut o"#, "cut o"),
            (r#"{"assistant_text": "cut at \"#, "cut at "),
            (r#"{"assistant_text": "cut at \u00"#, "cut at "),
            (r#"{"assistant_text" : "a\u00e9b", oops"#, "aéb"),
            ("{\"assistant_text\": \"two\nlines\", oops", "two\nlines"),
            ("Here it is:\n```json\n{\"oops\"", "Here it is:"),
            ("\u{feff} Here: {oops", "Here:"),
            (r#"{"assistant_text": 7}"#, ""),
            (r#"{"assistant_text": "bad \x", "#, ""),
            (r#"{"directives": []}"#, ""),
            ("", ""),
            ("<think>So, the user", ""),
            ("<think>a</think><thinking>b", ""),
            (r#"{"assistant_text": "<think>So</think>Hi", oops"#, "Hi"),
            (r#"{"assistant_text": "<think>So"#, ""),
            (r#"{"assistant_text": "[", oops"#, ""),
            ("[]", ""),
            ("[{\"type\": \"ui.toast\"", ""),
            ("Done [1]. [{", "Done [1]."),
        ] {
            assert_eq!(assistant_text(content), text, "{content}");
        }
    }
}
