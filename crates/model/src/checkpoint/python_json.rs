//! JSON as Python writes it, with the numbers `Infinity`, `-Infinity` and `NaN`.

use std::borrow::Cow;

/// Numbers that Python's `json` module writes and JSON does not have. The longest comes first.
const NUMBERS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];

/// Puts quotation marks around numbers that JSON does not have. Everything else stays unchanged.
pub(super) fn quote_numbers(text: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::new();
    let mut copied = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest[0] == b'"' {
            at += string_len(rest);
        } else if let Some(number) = NUMBERS.iter().find(|number| rest.starts_with(number)) {
            out.extend_from_slice(&text[copied..at]);
            out.push(b'"');
            out.extend_from_slice(number);
            out.push(b'"');
            at += number.len();
            copied = at;
        } else {
            at += 1;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.extend_from_slice(&text[copied..]);
    Cow::Owned(out)
}

/// Returns the length of the string at the start of `text`, with its quotation marks. A string that
/// does not end takes all of `text`.
fn string_len(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_outside_strings_get_quotation_marks() {
        let quoted = |text: &str| String::from_utf8(quote_numbers(text.as_bytes()).into_owned()).unwrap();
        let limits = r#"{"time_step_limit": [0.0, Infinity], "low": -Infinity, "x": NaN}"#;
        assert_eq!(
            quoted(limits),
            r#"{"time_step_limit": [0.0, "Infinity"], "low": "-Infinity", "x": "NaN"}"#
        );
        for text in [r#"{"a": "Infinity NaN"}"#, r#"{"a\" NaN": 1, "b\\": 2}"#, r#""NaN"#, r#""NaN\"#, ""] {
            assert!(matches!(quote_numbers(text.as_bytes()), Cow::Borrowed(same) if same == text.as_bytes()));
        }
    }
}
