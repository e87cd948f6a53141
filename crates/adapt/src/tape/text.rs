//! Source text of strings and numbers.

use serde_json::Number;

/// Unescapes the content of a JSON string. Returns `None` if the content is not valid inside
/// quotes.
///
/// Control characters are accepted, because models write them.
pub(crate) fn unescape(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '"']) {
        plain.push_str(&rest[..at]);
        let (read, escaped) = escape(&rest[at..])?;
        plain.push(escaped);
        rest = &rest[at + read..];
    }
    plain.push_str(rest);
    Some(plain)
}

/// Returns the content of the JSON string at the beginning of `text`, which starts with a quote.
/// The content stays escaped.
pub(crate) fn quoted(text: &str) -> Option<&str> {
    let mut at = 1;
    loop {
        at += text.get(at..)?.find(['\\', '"'])?;
        if text.as_bytes()[at] == b'"' {
            return Some(&text[1..at]);
        }
        at += escape(&text[at..])?.0;
    }
}

/// Returns the length and the character of the escape at the beginning of `text`.
pub(crate) fn escape(text: &str) -> Option<(usize, char)> {
    let bytes = text.as_bytes();
    let escaped = match (bytes.first()?, bytes.get(1)?) {
        (b'\\', b'"') => '"',
        (b'\\', b'\\') => '\\',
        (b'\\', b'/') => '/',
        (b'\\', b'b') => '\u{8}',
        (b'\\', b'f') => '\u{c}',
        (b'\\', b'n') => '\n',
        (b'\\', b'r') => '\r',
        (b'\\', b't') => '\t',
        (b'\\', b'u') => return unit_escape(bytes),
        _ => return None,
    };
    Some((2, escaped))
}

/// Decodes `\uXXXX`, or a surrogate pair of two such escapes.
fn unit_escape(bytes: &[u8]) -> Option<(usize, char)> {
    let unit = |at: usize| -> Option<u16> {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits
            .iter()
            .try_fold(0, |unit: u16, &digit| Some(unit << 4 | char::from(digit).to_digit(16)? as u16))
    };
    let first = unit(0)?;
    if let Some(escaped) = char::from_u32(first.into()) {
        return Some((6, escaped));
    }
    let pair = char::decode_utf16([first, unit(6)?]).next()?;
    Some((12, pair.ok()?))
}

/// Removes all whitespace outside of strings from a JSON text.
pub(crate) fn in_one_line(text: &str) -> String {
    let (mut is_string, mut is_escaped) = (false, false);
    let is_kept = |c: &char| {
        let is_part = is_string || !c.is_ascii_whitespace();
        is_string ^= *c == '"' && !is_escaped;
        is_escaped = is_string && *c == '\\' && !is_escaped;
        is_part
    };
    text.chars().filter(is_kept).collect()
}

/// Parses a number of valid JSON syntax. Returns `None` if it fits neither 64 bits nor a double.
///
/// Integers are exact and fractions are rounded to the nearest double. A fraction that would become
/// infinite or lose all digits to zero does not fit.
pub(crate) fn number(literal: &str) -> Option<Number> {
    if !literal.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        let double: f64 = literal.parse().ok()?;
        let is_lost = double == 0.0 && has_digits(literal);
        return if is_lost { None } else { Number::from_f64(double) };
    }
    if literal == "-0" {
        return Number::from_f64(-0.0);
    }
    if let Ok(integer) = literal.parse::<u64>() {
        return Some(integer.into());
    }
    literal.parse::<i64>().ok().map(Number::from)
}

/// Returns the double nearest to a number of valid JSON syntax, unless the double is infinite.
pub(crate) fn double(literal: &str) -> Option<Number> {
    Number::from_f64(literal.parse().ok()?)
}

/// Reports whether any digit before the exponent is not zero.
fn has_digits(literal: &str) -> bool {
    literal.bytes().take_while(|byte| !b"eE".contains(byte)).any(|byte| (b'1'..=b'9').contains(&byte))
}

/// Returns the length of the JSON number at the beginning of `bytes`, and whether the number is
/// written as an integer.
pub(crate) fn number_length(bytes: &[u8]) -> Option<(usize, bool)> {
    let digits =
        |from: usize| bytes[from.min(bytes.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    match digits(at) {
        0 => return None,
        many if many > 1 && bytes[at] == b'0' => return None,
        many => at += many,
    }
    let mut is_integer = true;
    if bytes.get(at) == Some(&b'.') {
        let many = digits(at + 1);
        if many == 0 {
            return None;
        }
        (at, is_integer) = (at + 1 + many, false);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let many = digits(at + 1 + sign);
        if many == 0 {
            return None;
        }
        (at, is_integer) = (at + 1 + sign + many, false);
    }
    Some((at, is_integer))
}
