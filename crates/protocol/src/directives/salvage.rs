//! Recovers text for the user from an answer without a valid envelope.

use std::fmt::Write;

use crate::adapt::object::{is_blank, without_thoughts};

/// Returns the value of `assistant_text` in an unreadable answer, even if the string is cut off.
/// Without such a value, returns the text before the first brace or code fence.
pub(super) fn assistant_text(content: &str) -> String {
    let content = without_thoughts(content);
    written(content).unwrap_or_else(|| {
        let end = [content.find('{'), content.find("```")].into_iter().flatten().min();
        content[..end.unwrap_or(content.len())].trim_matches(is_blank).to_owned()
    })
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
        ] {
            assert_eq!(assistant_text(content), text, "{content}");
        }
    }
}
