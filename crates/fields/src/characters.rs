use std::fmt::{self, Write};
use std::str::FromStr;

use crate::error::{CharactersProblem, FieldsError};

/// Set of characters allowed in a string.
///
/// The notation follows the bracket expressions of regular expressions, without the brackets. It
/// consists of characters and ranges (`a-z`). A leading `^` selects all characters of
/// [`Characters::default`] except those listed.
///
/// A `\` escapes the characters `[`, `]`, `\`, `-` and `^`. Other escapes are `\n`, `\t` and code
/// points such as `\u{1F600}`. A `-` at either end needs no escape.
///
/// ```
/// use formwork_fields::Characters;
/// let word: Characters = "a-zA-Z0-9 _-".parse()?;
/// assert!(word.contains('q') && word.contains('-') && !word.contains('é'));
/// let all: Characters = "^,".parse()?;
/// assert!(all.contains('"') && all.contains('\n') && !all.contains(',') && !all.contains('\0'));
/// # Ok::<(), formwork_fields::FieldsError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Characters {
    /// Ranges of allowed characters, in ascending order. Both ends of a range are inclusive. Ranges
    /// do not overlap and are not adjacent.
    ranges: Vec<(char, char)>,
}

/// All characters that a JSON string can contain either unescaped or as one of the escapes `\n`,
/// `\t`, `\"` and `\\`.
const ALL: [(char, char); 2] = [('\t', '\n'), (' ', char::MAX)];

impl Default for Characters {
    /// Returns the set that consists of tab, line break and all characters from U+0020 on.
    ///
    /// In JSON text, tab, line break, `"` and `\` are escaped as `\t`, `\n`, `\"` and `\\`. The
    /// other characters of the set need no escape.
    fn default() -> Self {
        Self { ranges: ALL.to_vec() }
    }
}

impl Characters {
    /// Reports whether the set contains the character `c`.
    pub fn contains(&self, c: char) -> bool {
        self.ranges.iter().any(|&(low, high)| (low..=high).contains(&c))
    }

    /// Returns the ranges of the set in ascending order. Both ends of a range are inclusive.
    pub fn ranges(&self) -> &[(char, char)] {
        &self.ranges
    }

    /// Returns the set without the characters of the ranges `others`.
    pub(crate) fn without(&self, others: &[(char, char)]) -> Self {
        let mut ranges = self.ranges.clone();
        for &(low, high) in others {
            let mut left = Vec::with_capacity(ranges.len() + 1);
            for (from, to) in ranges {
                if to < low || high < from {
                    left.push((from, to));
                    continue;
                }
                if let Some(before) = before(low).filter(|&before| from <= before) {
                    left.push((from, before));
                }
                if let Some(after) = after(high).filter(|&after| after <= to) {
                    left.push((after, to));
                }
            }
            ranges = left;
        }
        Self { ranges }
    }

    /// Returns the ranges of all Unicode characters that are not in the set, control characters
    /// included. The ranges are in ascending order.
    pub(crate) fn complement(&self) -> Vec<(char, char)> {
        Self { ranges: vec![('\0', char::MAX)] }.without(&self.ranges).ranges
    }

    /// Creates a set from inclusive ranges. The ranges may overlap and may be in any order.
    pub(crate) fn of(mut ranges: Vec<(char, char)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(char, char)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match merged.last_mut() {
                Some(last) if after(last.1).is_none_or(|next| low <= next) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        Self { ranges: merged }
    }
}

/// Returns the character before `c`, or `None` if `c` is U+0000. The surrogate code points U+D800
/// to U+DFFF are skipped, because they are not characters.
fn before(c: char) -> Option<char> {
    match c {
        '\u{E000}' => Some('\u{D7FF}'),
        c => char::from_u32(u32::from(c).checked_sub(1)?),
    }
}

fn after(c: char) -> Option<char> {
    match c {
        '\u{D7FF}' => Some('\u{E000}'),
        c => char::from_u32(u32::from(c) + 1),
    }
}

impl FromStr for Characters {
    type Err = FieldsError;

    fn from_str(source: &str) -> Result<Self, FieldsError> {
        parse(source).map_err(FieldsError::characters)
    }
}

/// Parses a character set in the notation of [`Characters`], such as `a-zA-Z_`.
pub(crate) fn parse(source: &str) -> Result<Characters, CharactersProblem> {
    let negated = source.starts_with('^');
    let mut rest = source.strip_prefix('^').unwrap_or(source);
    let mut ranges = Vec::new();
    while !rest.is_empty() {
        let low = character(&mut rest)?;
        let mut high = low;
        if rest.starts_with('-') && rest.len() > 1 {
            rest = &rest[1..];
            high = character(&mut rest)?;
        }
        if high < low {
            return Err(CharactersProblem::Backward { low, high });
        }
        ranges.push((low, high));
    }
    let all = Characters::default();
    if negated {
        let left = all.without(&ranges);
        return if left.ranges.is_empty() { Err(CharactersProblem::Empty) } else { Ok(left) };
    }
    let given = Characters::of(ranges);
    match given.without(&ALL).ranges.first() {
        Some(&(c, _)) => Err(CharactersProblem::Control { c }),
        None if given.ranges.is_empty() => Err(CharactersProblem::Empty),
        None => Ok(given),
    }
}

/// Removes the first character or escape from `rest`, and returns the character that it stands for.
fn character(rest: &mut &str) -> Result<char, CharactersProblem> {
    let mut chars = rest.chars();
    let first = chars.next().ok_or(CharactersProblem::Empty)?;
    *rest = chars.as_str();
    match first {
        '[' | ']' => Err(CharactersProblem::Bracket { c: first }),
        '\\' => escape(rest),
        _ => Ok(first),
    }
}

/// Removes an escape from `rest`, whose backslash the caller has removed, and returns the character
/// that the escape stands for.
fn escape(rest: &mut &str) -> Result<char, CharactersProblem> {
    let mut chars = rest.chars();
    let c = chars.next();
    *rest = chars.as_str();
    match c {
        Some('n') => Ok('\n'),
        Some('t') => Ok('\t'),
        Some('u') => {
            let digits = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let (digits, after) = digits.ok_or(CharactersProblem::Code)?;
            *rest = after;
            // `from_str_radix` would also accept a sign.
            let is_code = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_code);
            code.and_then(char::from_u32).ok_or(CharactersProblem::Code)
        }
        Some(c @ ('[' | ']' | '\\' | '-' | '^')) => Ok(c),
        _ => Err(CharactersProblem::Escape { c }),
    }
}

impl fmt::Display for Characters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outside = Self::default().without(&self.ranges);
        // A set that reaches `char::MAX` is usually shorter in negated form.
        let negated = self.ranges.last().is_some_and(|last| last.1 == char::MAX);
        if negated {
            f.write_char('^')?;
        }
        for &(low, high) in if negated { &outside.ranges } else { &self.ranges } {
            show(low, f)?;
            if low < high {
                // A range of two characters needs no `-` between them.
                f.write_str(if after(low) == Some(high) { "" } else { "-" })?;
                show(high, f)?;
            }
        }
        Ok(())
    }
}

fn show(c: char, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match c {
        '\n' => f.write_str("\\n"),
        '\t' => f.write_str("\\t"),
        '[' | ']' | '\\' | '-' | '^' => write!(f, "\\{c}"),
        ' '..='~' => f.write_char(c),
        _ if c.is_alphanumeric() => f.write_char(c),
        _ => write!(f, "\\u{{{:X}}}", u32::from(c)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(source: &str) -> String {
        parse(source).expect_err(source).to_string()
    }

    #[test]
    fn display_round_trips() {
        for source in [
            "a-z",
            "a",
            "-",
            "--",
            "a-",
            "-a",
            "a-c-",
            "^",
            "^a",
            "^^",
            "\\^a",
            "a^",
            "\\[\\]\\\\\\-",
            "\\n\\t\"",
            "é-ü日",
            "\\u{1F600}-\\u{10FFFF}",
            "\u{D000}-\u{F000}",
            "^\u{E000}",
            "^\u{D7FF}",
            " -~",
            "^\\n",
            "\u{7f}",
        ] {
            let set = parse(source).expect(source);
            assert_eq!(parse(&set.to_string()).as_ref(), Ok(&set), "{source:?} as {set}");
            assert!(set.ranges.is_sorted() && !set.ranges.is_empty());
        }
        assert_eq!(parse("^").unwrap(), Characters::default());
        assert_eq!(parse("c-ea-bz").unwrap().ranges, [('a', 'e'), ('z', 'z')]);
        assert_eq!(parse("^b").unwrap().to_string(), "^b");
    }

    #[test]
    fn rejects_malformed_sets() {
        assert_eq!(problem(""), "the character set is empty");
        assert_eq!(problem("^\\n\\t -\\u{10FFFF}"), "the character set is empty");
        assert_eq!(problem("z-a"), "the range z-a runs backwards");
        assert_eq!(problem("[a-z]"), "`[` must be written `\\[`: a character set has no brackets around it");
        assert_eq!(problem("\r"), "U+000D is a control character; only `\\n` and `\\t` are allowed");
        assert!(problem("\\d").contains("`\\d` is not an escape"));
        assert!(problem("a\\").contains("`\\` is not an escape"));
        for code in ["\\u{D800}", "\\u{+41}", "\\u{}", "\\u{110000}", "\\u0041"] {
            assert!(problem(code).contains("as in \\u{1F600}"), "{code}");
        }
    }
}
