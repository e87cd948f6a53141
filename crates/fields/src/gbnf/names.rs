//! Rule names. llama.cpp allows letters, digits and `-`.

use std::collections::HashMap;

/// Maximum number of characters that a rule name takes from one field name.
const PART: usize = 40;

/// Rule names in use.
pub(super) struct Names {
    /// Names in use, each with the last number that has been appended to the name. The number is 1
    /// if no number has been appended.
    taken: HashMap<String, usize>,
}

impl Names {
    /// Creates a set in which the `reserved` names are in use.
    pub(super) fn new(reserved: &[&str]) -> Self {
        Self { taken: reserved.iter().map(|name| ((*name).to_owned(), 1)).collect() }
    }

    /// Returns an unused name for the last element of `path`. Tries the element alone, then with up
    /// to two parents as prefix, then with a number as suffix.
    pub(super) fn fresh(&mut self, path: &[&str]) -> String {
        let parts: Vec<String> = path.iter().map(|part| plain(part)).collect();
        // Two parents are usually enough, and longer names are hard to read.
        for from in (parts.len().saturating_sub(3)..parts.len()).rev() {
            let name = parts[from..].join("-");
            if !self.taken.contains_key(&name) {
                self.taken.insert(name.clone(), 1);
                return name;
            }
        }
        let name = parts.last().cloned().unwrap_or_default();
        loop {
            let count = self.taken.entry(name.clone()).or_insert(0);
            *count += 1;
            let numbered = format!("{name}-{count}");
            if !self.taken.contains_key(&numbered) {
                self.taken.insert(numbered.clone(), 1);
                return numbered;
            }
        }
    }
}

/// Converts a field name to a part of a rule name. Characters other than ASCII letters and digits
/// become `-`.
fn plain(name: &str) -> String {
    let kept = name.chars().take(PART).map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let kept: String = kept.collect();
    let kept = kept.trim_matches('-');
    if kept.is_empty() { "field".to_owned() } else { kept.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_names_are_short_and_unique() {
        let mut names = Names::new(&["root", "char"]);
        assert_eq!(names.fresh(&["enemy_level"]), "enemy-level");
        assert_eq!(names.fresh(&["stats", "enemy level"]), "stats-enemy-level");
        assert_eq!(names.fresh(&["stats", "enemy.level"]), "enemy-level-2");
        assert_eq!(names.fresh(&["root"]), "root-2");
        assert_eq!(names.fresh(&["名前"]), "field");
        assert_eq!(names.fresh(&["a", "-"]), "a-field");
        assert_eq!(names.fresh(&["enemy-level-3"]), "enemy-level-3");
        assert_eq!(names.fresh(&["enemy-level"]), "enemy-level-4");
    }
}
