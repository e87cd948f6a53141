//! Import of the pattern of a template string, as the export writes it: fixed texts with repeated
//! classes of characters between them.

use serde_json::{Map, Value};

use super::scalars::{class_set, count, is_last_line_break};
use super::{Pointer, Read};
use crate::field::{Kind, PLACE, Template, Text};
use crate::{Characters, schema};

/// Converts a string schema with a `pattern` of fixed texts and places to a template string. Returns
/// `None` for other patterns.
///
/// # Errors
/// Returns an error if a keyword beside the pattern cannot be expressed.
pub(super) fn template(pattern: &str, schema: &Map<String, Value>, at: &Pointer) -> Read<Option<Kind>> {
    let Some((literals, place)) = parts(pattern) else { return Ok(None) };
    let fixed: usize = literals.iter().map(|literal| literal.chars().count()).sum();
    let (least, most) = (count(schema, "minLength", at)?, count(schema, "maxLength", at)?);
    let (mut min, mut max) = place.counts;
    if literals.len() == 2 {
        // The lengths of the whole string bound the text of the only place.
        min = min.max(least.unwrap_or(0).saturating_sub(fixed));
        let most = most.map(|most| most.checked_sub(fixed).ok_or_else(|| at.keyword("maxLength")));
        max = [max, most.transpose()?].into_iter().flatten().min();
    } else if least.is_some() || most.is_some() {
        return Err(at.keyword(if least.is_some() { "minLength" } else { "maxLength" }));
    }
    let characters = Some(place.characters).filter(|set| *set != Characters::default());
    let text = Text { min_length: min, max_length: max, characters };
    let template = Template { template: literals.join(PLACE), text };
    if let Some(not) = schema.get("not") {
        // The pattern excludes such texts already.
        let is_excluded = is_last_line_break(not) && !schema::may_end_with_line_break(&template);
        if !is_excluded {
            return Err(at.keyword("not"));
        }
    }
    Ok(Some(Kind::Template(template)))
}

/// Text that a place stands for.
#[derive(PartialEq)]
struct Generated {
    characters: Characters,
    /// Minimum and maximum number of characters.
    counts: (usize, Option<usize>),
}

/// Returns the fixed texts of a pattern, and what stands between them. Returns `None` for a pattern
/// without places, with different places, or with other syntax.
fn parts(pattern: &str) -> Option<(Vec<String>, Generated)> {
    let mut rest = pattern.strip_prefix('^')?.strip_suffix('$')?;
    let mut literals = vec![String::new()];
    let mut place: Option<Generated> = None;
    while let Some(c) = rest.chars().next() {
        if c == '[' {
            let end = class_end(rest)?;
            let characters = class_set(&rest[1..end])?;
            let (counts, length) = repetition(&rest[end + 1..])?;
            rest = &rest[end + 1 + length..];
            let generated = Generated { characters, counts };
            if place.as_ref().is_some_and(|first| *first != generated) {
                return None;
            }
            place = Some(generated);
            literals.push(String::new());
            continue;
        }
        let (c, length) = literal(rest)?;
        literals.last_mut()?.push(c);
        rest = &rest[length..];
    }
    // Fixed text that looks like a place would become one.
    let is_plain = literals.iter().all(|literal| !literal.contains(PLACE));
    place.filter(|_| is_plain).map(|place| (literals, place))
}

/// Returns the offset of the bracket that closes the class at the start of `text`.
fn class_end(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b']' => return Some(at),
            _ => {}
        }
    }
    None
}

/// Reads `*`, `{m}`, `{m,}` or `{m,n}` at the start of `text`, and returns the counts and the length
/// in bytes.
fn repetition(text: &str) -> Option<((usize, Option<usize>), usize)> {
    if text.starts_with('*') {
        return Some(((0, None), 1));
    }
    let (inside, _) = text.strip_prefix('{')?.split_once('}')?;
    let counts = match inside.split_once(',') {
        None => (inside.parse().ok()?, Some(inside.parse().ok()?)),
        Some((min, "")) => (min.parse().ok()?, None),
        Some((min, max)) => (min.parse().ok()?, Some(max.parse().ok()?)),
    };
    Some((counts, inside.len() + 2))
}

/// Reads a character or an escape at the start of `text`, and returns the character that it matches
/// and its length in bytes.
fn literal(text: &str) -> Option<(char, usize)> {
    let mut chars = text.chars();
    let first = chars.next()?;
    if first != '\\' {
        return (!"^$.*+?()[]{}|".contains(first)).then_some((first, first.len_utf8()));
    }
    match chars.next()? {
        'n' => Some(('\n', 2)),
        'r' => Some(('\r', 2)),
        't' => Some(('\t', 2)),
        'u' => {
            let digits = text.get(2..6)?;
            let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
            Some((char::from_u32(code)?, 6))
        }
        c if c.is_ascii_punctuation() => Some((c, 2)),
        _ => None,
    }
}
