//! Random patterns with assertions, and a matcher that tries every possibility.

use std::collections::BTreeSet;

use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// The source of a character class, and the characters that the class matches.
    Class(&'static str, &'static str),
    Concat(Vec<Pattern>),
    Alternatives(Vec<Pattern>),
    Repeat(Box<Pattern>, usize, Option<usize>),
    Start,
    End,
    Boundary(bool),
    Ahead(Box<Pattern>, bool),
    Behind(Box<Pattern>, bool),
}

impl Pattern {
    pub(super) fn source(&self) -> String {
        match self {
            Self::Class(source, _) => (*source).to_owned(),
            Self::Concat(items) => items.iter().map(Self::source).collect(),
            Self::Alternatives(items) => {
                let items = items.iter().map(Self::source).collect::<Vec<_>>();
                format!("(?:{})", items.join("|"))
            }
            Self::Repeat(inner, min, None) => format!("(?:{}){{{min},}}", inner.source()),
            Self::Repeat(inner, min, Some(max)) => format!("(?:{}){{{min},{max}}}", inner.source()),
            Self::Start => "^".to_owned(),
            Self::End => "$".to_owned(),
            Self::Boundary(negated) => if *negated { r"\B" } else { r"\b" }.to_owned(),
            Self::Ahead(inner, negated) => {
                format!("(?{}{})", if *negated { "!" } else { "=" }, inner.source())
            }
            Self::Behind(inner, negated) => {
                format!("(?<{}{})", if *negated { "!" } else { "=" }, inner.source())
            }
        }
    }

    pub(super) fn is_found_in(&self, text: &[char]) -> bool {
        (0..=text.len()).any(|from| !self.ends(text, from).is_empty())
    }

    pub(super) fn is_all_of(&self, text: &[char]) -> bool {
        self.ends(text, 0).contains(&text.len())
    }

    /// Returns the indices in `text` at which a match that starts at index `from` may end.
    fn ends(&self, text: &[char], from: usize) -> BTreeSet<usize> {
        let holds = |holds: bool| if holds { BTreeSet::from([from]) } else { BTreeSet::new() };
        match self {
            Self::Class(_, chars) => match text.get(from) {
                Some(&c) if chars.contains(c) => BTreeSet::from([from + 1]),
                _ => BTreeSet::new(),
            },
            Self::Concat(items) => items.iter().fold(holds(true), |ends, item| {
                ends.into_iter().flat_map(|at| item.ends(text, at)).collect()
            }),
            Self::Alternatives(items) => items.iter().flat_map(|item| item.ends(text, from)).collect(),
            Self::Repeat(inner, min, max) => {
                let round = |ends: BTreeSet<usize>| -> BTreeSet<usize> {
                    ends.into_iter().flat_map(|at| inner.ends(text, at)).collect()
                };
                let mut last = (0..*min).fold(holds(true), |ends, _| round(ends));
                let mut all = last.clone();
                for _ in *min..max.unwrap_or(min + text.len() + 1) {
                    last = round(last);
                    all.extend(&last);
                }
                all
            }
            Self::Start => holds(from == 0),
            Self::End => holds(from == text.len()),
            Self::Boundary(negated) => {
                let is_word = |c: Option<&char>| c.is_some_and(|&c| c != '-');
                let before = from.checked_sub(1).and_then(|at| text.get(at));
                holds((is_word(before) != is_word(text.get(from))) != *negated)
            }
            Self::Ahead(inner, negated) => holds(inner.ends(text, from).is_empty() == *negated),
            Self::Behind(inner, negated) => {
                let is_behind = (0..=from).any(|start| inner.ends(text, start).contains(&from));
                holds(is_behind != *negated)
            }
        }
    }
}

/// Returns a strategy for random patterns over `a`, `b` and `-`, with assertions if `assertions` is
/// true.
pub(super) fn patterns(assertions: bool) -> impl Strategy<Value = Pattern> {
    let class = prop::sample::select(vec![
        ("a", "a"),
        ("b", "b"),
        ("-", "-"),
        (".", "ab-"),
        ("[ab]", "ab"),
        ("[^a]", "b-"),
        (r"\x61", "a"),
        (r"\w", "ab"),
        (r"\W", "-"),
        (r"[\-b]", "-b"),
    ]);
    let class = class.prop_map(|(source, chars)| Pattern::Class(source, chars)).boxed();
    let anchor = prop::sample::select(vec![Pattern::Start, Pattern::End]).boxed();
    let boundary = any::<bool>().prop_map(Pattern::Boundary).boxed();
    let leaf = if assertions {
        prop_oneof![6 => class, 2 => anchor, 1 => boundary].boxed()
    } else {
        prop_oneof![6 => class, 1 => anchor].boxed()
    };
    leaf.prop_recursive(4, 16, 3, move |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let counts = (0..3_usize, prop::option::of(0..3_usize));
        let repeat = (boxed.clone(), counts)
            .prop_map(|(inner, (min, more))| Pattern::Repeat(inner, min, more.map(|more| min + more)));
        let ahead =
            (boxed.clone(), any::<bool>()).prop_map(|(inner, negated)| Pattern::Ahead(inner, negated));
        let behind = (boxed, any::<bool>()).prop_map(|(inner, negated)| Pattern::Behind(inner, negated));
        let concat = prop::collection::vec(inner.clone(), 0..4).prop_map(Pattern::Concat);
        let alternatives = prop::collection::vec(inner, 1..4).prop_map(Pattern::Alternatives);
        if assertions {
            prop_oneof![5 => concat, 3 => alternatives, 3 => repeat, 1 => ahead, 1 => behind].boxed()
        } else {
            prop_oneof![5 => concat, 3 => alternatives, 3 => repeat].boxed()
        }
    })
}
