//! Positions of keys in a TOML text.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Returns the line of the byte at `offset`, from 1.
pub(crate) fn line(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    1 + before.filter(|&&byte| byte == b'\n').count()
}

/// Returns the dotted key whose name or value contains the byte at `offset`. If several do, returns
/// the innermost.
pub(crate) fn key_at(text: &str, offset: usize) -> Option<String> {
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

/// Returns the byte offset of the key at `path`. If the key does not exist, returns the offset of
/// its innermost existing table.
pub(crate) fn offset_of(text: &str, path: &[String]) -> usize {
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

/// Calls `see` twice for each key: with the span of the key, and with the span of its value.
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
