//! Names of rules: letters, digits and `-`, as llama.cpp has them.

use std::collections::HashMap;

/// The longest part of a name that comes from a field's.
const PART: usize = 40;

/// The names of rules so far.
pub(super) struct Names {
    /// How often each was asked for.
    taken: HashMap<String, usize>,
}

impl Names {
    /// With names that are taken.
    pub(super) fn new(reserved: &[&str]) -> Self {
        Self { taken: reserved.iter().map(|name| ((*name).to_owned(), 1)).collect() }
    }

    /// A name for the last of `path`: its own, or with those before it as far as it takes to be new, or with a number.
    pub(super) fn fresh(&mut self, path: &[&str]) -> String {
        let parts: Vec<String> = path.iter().map(|part| plain(part)).collect();
        // Two of them tell mostly enough, and longer ones are hard to read.
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

/// What is left of a field's name.
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
    fn names_are_short_plain_and_different() {
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
