//! Validation of characters and template strings.

use crate::field::{Template, Text};

/// Reports whether a string of the kind `text` may contain the character `c`.
pub(super) fn may_be(text: &Text, c: char) -> bool {
    match &text.characters {
        Some(set) => set.contains(c),
        None => c >= ' ' || c == '\n' || c == '\t',
    }
}

/// Reports whether a string matches a template.
///
/// A generated text may contain the fixed text that follows its place, so a place can have several
/// possible ends. All of them are tracked at once.
pub(super) fn is_filled(template: &Template, string: &str) -> bool {
    let chars: Vec<char> = string.chars().collect();
    let literals: Vec<Vec<char>> =
        template.literals().into_iter().map(|literal| literal.chars().collect()).collect();
    let Some((first, others)) = literals.split_first() else { return false };
    let mut ends = vec![false; chars.len() + 1];
    if chars.starts_with(first) {
        ends[first.len()] = true;
    }
    for literal in others {
        ends = after_place(&template.text, &ends, &chars);
        let mut after = vec![false; chars.len() + 1];
        for (at, _) in ends.iter().enumerate().filter(|(_, is_end)| **is_end) {
            if chars[at..].starts_with(literal) {
                after[at + literal.len()] = true;
            }
        }
        ends = after;
    }
    ends[chars.len()]
}

/// Returns the positions at which a generated text may end. Element `i` of `starts` is true if the
/// text may begin before character `i`, and the result has the same form.
fn after_place(text: &Text, starts: &[bool], chars: &[char]) -> Vec<bool> {
    // Number of consecutive allowed characters from each position.
    let mut runs = vec![0; chars.len() + 1];
    for (at, &c) in chars.iter().enumerate().rev() {
        runs[at] = if may_be(text, c) { runs[at + 1] + 1 } else { 0 };
    }
    // Difference array: +1 where a range of ends begins, -1 after the range.
    let mut changes = vec![0i64; chars.len() + 2];
    for (start, _) in starts.iter().enumerate().filter(|(_, is_start)| **is_start) {
        let most = runs[start].min(text.max_length.unwrap_or(usize::MAX));
        if text.min_length <= most {
            changes[start + text.min_length] += 1;
            changes[start + most + 1] -= 1;
        }
    }
    let mut open = 0;
    let ends = changes.iter().take(starts.len()).map(|change| {
        open += change;
        open > 0
    });
    ends.collect()
}
