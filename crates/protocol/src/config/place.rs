//! Where things are in a TOML text.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The line of a byte, from 1.
pub(super) fn line(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    1 + before.filter(|&&byte| byte == b'\n').count()
}

/// The dotted key at a byte, or whose value is there; the innermost, where there are several.
pub(super) fn key_at(text: &str, offset: usize) -> Option<String> {
    let document = DeTable::parse(text).ok()?;
    let mut best: Option<(Range<usize>, Vec<String>)> = None;
    visit(document.get_ref(), &mut Vec::new(), &mut |path, span| {
        let is_smaller = best.as_ref().is_none_or(|(known, _)| span.len() <= known.len());
        if span.contains(&offset) && is_smaller {
            best = Some((span, path.to_vec()));
        }
    });
    best.map(|(_, path)| path.join("."))
}

/// The byte at which the key at the end of `path` is, or the innermost table on the way that there is.
pub(super) fn offset_of(text: &str, path: &[String]) -> usize {
    let Ok(document) = DeTable::parse(text) else { return 0 };
    let mut table = document.get_ref();
    let mut offset = 0;
    for name in path {
        let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == name.as_str()) else { break };
        offset = key.span().start;
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    offset
}

/// Shows all keys with their spans, and again with those of their values.
fn visit(table: &DeTable<'_>, path: &mut Vec<String>, see: &mut impl FnMut(&[String], Range<usize>)) {
    for (key, value) in table {
        path.push(key.get_ref().to_string());
        see(path, key.span());
        see(path, Spanned::span(value));
        if let DeValue::Table(inner) = value.get_ref() {
            visit(inner, path, see);
        }
        path.pop();
    }
}
