//! Names of members in texts of any notation.

use std::collections::{HashMap, HashSet};

use super::region::Closers;

/// Maximum number of characters of a name.
pub(super) const LONGEST_NAME: usize = 256;

/// A name before a colon or an equals sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label<'t> {
    pub(super) name: &'t str,
    /// Byte offset of the name or its opening quote.
    pub(super) start: usize,
    /// Byte offset of the colon or equals sign.
    pub(super) separator: usize,
    pub(super) quotes: Quotes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quotes {
    None,
    Plain,
    /// Each quote has a backslash.
    Escaped,
}

/// Returns the names of the members of an object, which may be broken. Names of inner objects are
/// left out.
pub(super) fn names(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    // Some templates double the braces.
    let top = if text.starts_with("{{") { 2 } else { 1 };
    let (mut names, mut closers) = (Vec::new(), Closers::default());
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'/' | b'#' | b'<' => {
                let is_in_address = at > 0 && matches!(bytes[at - 1], b':' | b'/');
                if let Some(length) = closers.comment(text, at).filter(|_| !is_in_address) {
                    at += length;
                    continue;
                }
            }
            b':' | b'=' | 0xEF if depth == top && begins_separator(&text[at..]) => {
                names.extend(label_before(text, at).map(|label| label.name));
            }
            _ => {}
        }
        at += 1;
    }
    names
}

/// Returns the offset of the closing quote of the string at `at`, or the end of the text.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    loop {
        match bytes.get(end) {
            Some(b'\\') => end += 1,
            None | Some(b'"') => return end,
            Some(_) => {}
        }
        end += 1;
    }
}

/// Returns the names before any colon or equals sign, at any depth and in strings as well.
pub(super) fn labels(text: &str) -> impl Iterator<Item = Label<'_>> {
    text.match_indices([':', '=', '\u{ff1a}']).filter_map(|(at, _)| label_before(text, at))
}

/// Returns the words of a text, which may be names without quotes.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && !"_$-".contains(c)).filter(|word| !word.is_empty())
}

/// Reports whether `text` begins with a colon, a full-width colon, an equals sign or an arrow.
pub(super) fn begins_separator(text: &str) -> bool {
    text.starts_with([':', '=', '\u{ff1a}'])
}

/// Returns the name that ends before the separator at byte `separator`.
fn label_before(text: &str, separator: usize) -> Option<Label<'_>> {
    let before = text[..separator].trim_end();
    let quote = before.chars().next_back();
    let openers = quote.map_or(&[][..], openers);
    let Some(inside) = quote.filter(|_| !openers.is_empty()).and_then(|quote| before.strip_suffix(quote))
    else {
        let is_part = |c: char| c.is_alphanumeric() || "_$-".contains(c);
        let before = before.trim_end_matches(['*', '`']);
        let name = before.char_indices().rev().take(LONGEST_NAME).take_while(|(_, c)| is_part(*c));
        let start = name.last()?.0;
        return Some(Label { name: &before[start..], start, separator, quotes: Quotes::None });
    };
    let name = inside.trim_end_matches('\\');
    let opening = name.char_indices().rev().take(LONGEST_NAME).find(|(_, c)| openers.contains(c))?;
    let (start, opener) = opening;
    let quotes = if name.len() < inside.len() { Quotes::Escaped } else { Quotes::Plain };
    Some(Label { name: &name[start + opener.len_utf8()..], start, separator, quotes })
}

/// Returns the quotes that begin a string that ends with `quote`. Empty if `quote` is none.
const fn openers(quote: char) -> &'static [char] {
    match quote {
        '"' => &['"'],
        '\'' => &['\''],
        '\u{201d}' => &['\u{201c}', '\u{201d}', '\u{201e}'],
        '\u{201c}' => &['\u{201e}'],
        '\u{2019}' => &['\u{2018}', '\u{2019}', '\u{201a}'],
        '\u{2018}' => &['\u{201a}'],
        '\u{bb}' => &['\u{ab}'],
        '\u{ab}' => &['\u{bb}'],
        _ => &[],
    }
}

/// The properties of a schema that a text names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mention {
    /// True if the text names a property.
    pub(super) has_any: bool,
    /// True if the text names a property, and all properties that the schema requires.
    pub(super) has_required: bool,
}

/// The properties of a schema.
#[derive(Clone, Copy)]
pub(super) struct Named<'s> {
    /// Tells whether the schema requires the property.
    properties: &'s HashMap<String, bool>,
    /// Number of required properties.
    required: usize,
}

impl<'s> Named<'s> {
    pub(super) fn new(properties: &'s HashMap<String, bool>) -> Self {
        Self { properties, required: properties.values().filter(|is_required| **is_required).count() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.properties.is_empty()
    }

    /// Reports whether the schema requires any property.
    pub(super) const fn has_required(&self) -> bool {
        self.required > 0
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.properties.contains_key(name)
    }

    /// Finds the properties among `names`.
    pub(super) fn mention<'t>(&self, names: impl IntoIterator<Item = &'t str>) -> Mention {
        let found: HashSet<&str> = names.into_iter().filter(|name| self.has(name)).collect();
        let required = found.iter().filter(|name| self.properties[**name]).count();
        let has_any = !found.is_empty();
        Mention { has_any, has_required: has_any && required == self.required }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_names_of_members_in_any_notation() {
        for text in [
            "{\"a\": 1, \"b\": {\"c\": 2}}",
            "{'a': 1, 'b': 2}",
            "{a: 1, b: 2}",
            "{\u{201c}a\u{201d}: 1, \u{201c}b\u{201d}: 2}",
            "{\"a\" => 1, \"b\" => 2}",
            "{\"a\"\u{ff1a}1\u{ff0c}\"b\"\u{ff1a}2}",
            "{{\"a\": 1, \"b\": 2}}",
            "{// see \"c\n \"a\": 1, /* \"c\": \" */ \"b\": 2}",
            "{a = 1, b = 2}",
            "{\"a\": \"c: {\", \"b\": ",
        ] {
            assert_eq!(names(text), ["a", "b"], "{text}");
        }
        let label = labels(r#"{\"a\": 1}"#).next().expect("a label");
        assert_eq!((label.name, label.start, label.quotes), ("a", 2, Quotes::Escaped));
    }
}
