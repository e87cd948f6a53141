//! Hints about common mistakes of models that write JSON.

/// Returns hints about the mistakes in `text`.
///
/// If `is_read` is true, a value was read, and hints about syntax are omitted. The mistakes may
/// then be in the text around the value.
pub(super) fn hints(text: &str, is_read: bool) -> Vec<&'static str> {
    let has = |what: &str| text.to_ascii_lowercase().contains(what);
    let syntax = if is_read { Syntax::default() } else { Syntax::of(text) };
    [
        (
            has("<function_calls") || has(":function_calls"),
            "Remove the <function_calls> XML wrapper. Return pure JSON only.",
        ),
        (text.contains("```"), "Remove markdown code block markers. Return pure JSON only."),
        (syntax.bare_words, "Property names and string values must be in double quotes."),
        (syntax.trailing_comma, "Remove trailing commas before closing braces/brackets."),
        (syntax.single_quotes, "Use double quotes for strings, not single quotes."),
        (syntax.raw_newline, "Escape newlines in strings as \\n"),
        (syntax.comment, "Remove comments: JSON has none."),
        (syntax.open, "The JSON is cut off: close all strings, braces and brackets, and keep it shorter."),
    ]
    .into_iter()
    .filter_map(|(holds, hint)| holds.then_some(hint))
    .collect()
}

/// Syntax in a text that JSON does not allow. The scan covers the first value, from the first brace
/// or bracket on.
#[derive(Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is one of the known patterns")]
struct Syntax {
    bare_words: bool,
    trailing_comma: bool,
    single_quotes: bool,
    raw_newline: bool,
    comment: bool,
    open: bool,
}

impl Syntax {
    fn of(text: &str) -> Self {
        let mut found = Self::default();
        let Some(start) = text.find(['{', '[']) else { return found };
        let mut rest = text[start..].chars().peekable();
        let (mut depth, mut after_comma) = (0_usize, false);
        let mut word = String::new();
        while let Some(c) = rest.next() {
            if c.is_alphanumeric() || "_-.+".contains(c) {
                word.push(c);
                continue;
            }
            found.bare_words |= is_bare(&word);
            after_comma &= word.is_empty();
            word.clear();
            match c {
                '"' => found.string(&mut rest),
                '\'' => {
                    found.single_quotes = true;
                    rest.find(|&c| c == '\'');
                }
                '/' if rest.peek().is_some_and(|&next| next == '/') => {
                    found.comment = true;
                    rest.find(|&c| c == '\n');
                }
                '{' | '[' => depth += 1,
                '}' | ']' => {
                    found.trailing_comma |= after_comma;
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return found;
                    }
                }
                _ => {}
            }
            after_comma = c == ',' || (after_comma && c.is_whitespace());
        }
        found.open = true;
        found
    }

    /// Skips to the end of a string.
    fn string(&mut self, rest: &mut impl Iterator<Item = char>) {
        let mut is_escaped = false;
        for c in rest {
            match c {
                '"' if !is_escaped => return,
                '\n' => self.raw_newline = true,
                _ => {}
            }
            is_escaped = c == '\\' && !is_escaped;
        }
    }
}

/// Reports whether a word outside of strings is not a JSON literal.
fn is_bare(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_') && !["true", "false", "null"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_known_pattern_has_a_hint() {
        for (text, told) in [
            ("<function_calls>x</function_calls>", "function_calls"),
            ("```json\n{}\n```", "markdown"),
            ("{a: 1}", "Property names"),
            ("{\"a\": True}", "Property names"),
            ("{\"a\": 1,\n }", "trailing commas"),
            ("[1, ]", "trailing commas"),
            ("{'a': 1}", "double quotes for strings"),
            ("{\"a\": \"b\nc\"}", "newlines"),
            ("{\"a\": 1 // one\n}", "comments"),
            ("{\"a\": [1, 2", "cut off"),
        ] {
            let hints = hints(text, false);
            assert!(hints.len() == 1 && hints[0].contains(told), "{text}: {hints:?}");
        }
    }

    #[test]
    fn hints_have_the_documented_texts() {
        for (text, told) in [
            (
                "<function_calls>x</function_calls>",
                "Remove the <function_calls> XML wrapper. Return pure JSON only.",
            ),
            ("```json\n{}\n```", "Remove markdown code block markers. Return pure JSON only."),
            ("{a: 1}", "Property names and string values must be in double quotes."),
            ("[1,]", "Remove trailing commas before closing braces/brackets."),
            ("{'a': 1}", "Use double quotes for strings, not single quotes."),
            ("[\"a\nb\"]", "Escape newlines in strings as \\n"),
        ] {
            assert_eq!(hints(text, false), [told], "{text}");
        }
    }

    #[test]
    fn valid_json_has_no_hints() {
        for text in
            ["{\"a\": [true, null, -1.5e+3, \"it's, }\"]}", "[]", "no JSON, it's {\"a\": 1}, and, more"]
        {
            assert_eq!(hints(text, false), [""; 0], "{text}");
        }
        assert_eq!(hints("{'a': 1} {\"a\": 1}", true), [""; 0], "a value was read");
    }
}
