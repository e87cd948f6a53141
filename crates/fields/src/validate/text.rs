//! Strings by their characters, and template strings.

use crate::field::{Template, Text};

/// Whether a text may have a character.
pub(super) fn may_be(text: &Text, c: char) -> bool {
    match &text.characters {
        Some(set) => set.contains(c),
        None => c >= ' ' || c == '\n' || c == '\t',
    }
}

/// Whether a string is the template with a text in each place. Texts may begin and end where the fixed parts allow, so all ends
/// of a place are followed at once.
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

/// Where a text may end that begins at one of `starts`.
fn after_place(text: &Text, starts: &[bool], chars: &[char]) -> Vec<bool> {
    // How many allowed characters there are from each place on.
    let mut runs = vec![0; chars.len() + 1];
    for (at, &c) in chars.iter().enumerate().rev() {
        runs[at] = if may_be(text, c) { runs[at + 1] + 1 } else { 0 };
    }
    // Where ranges of ends begin, less where they are over.
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
