//! Random expressions, and a naive matcher.

use proptest::prelude::*;

use crate::regular::{CharSet, ExprId, Expressions};

/// An expression before normalisation.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Nothing,
    Empty,
    Everything,
    Class(&'static str),
    Literal(&'static str),
    Concat(Box<Tree>, Box<Tree>),
    Repeat(Box<Tree>, u32, Option<u32>),
    AnyOf(Vec<Tree>),
    AllOf(Vec<Tree>),
    Not(Box<Tree>),
}

impl Tree {
    pub(super) fn build(&self, e: &mut Expressions) -> ExprId {
        match self {
            Self::Nothing => Expressions::NOTHING,
            Self::Empty => Expressions::EMPTY,
            Self::Everything => Expressions::EVERYTHING,
            Self::Class(chars) => e.class(CharSet::new(chars.chars().map(|c| (c, c)))),
            Self::Literal(text) => e.literal(text),
            Self::Concat(a, b) => {
                let (a, b) = (a.build(e), b.build(e));
                e.concat(a, b)
            }
            Self::Repeat(tree, min, max) => {
                let inner = tree.build(e);
                e.repeat(inner, *min, *max)
            }
            Self::AnyOf(trees) => {
                let items = trees.iter().map(|tree| tree.build(e)).collect();
                e.any_of(items)
            }
            Self::AllOf(trees) => {
                let items = trees.iter().map(|tree| tree.build(e)).collect();
                e.all_of(items)
            }
            Self::Not(tree) => {
                let inner = tree.build(e);
                e.not(inner)
            }
        }
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Empty => text.is_empty(),
            Self::Everything => true,
            Self::Class(chars) => text.chars().count() == 1 && chars.contains(text),
            Self::Literal(literal) => text == *literal,
            Self::Concat(a, b) => (0..=text.len()).any(|at| a.matches(&text[..at]) && b.matches(&text[at..])),
            Self::Repeat(tree, min, max) => tree.matches_times(text, *min, *max),
            Self::AnyOf(trees) => trees.iter().any(|tree| tree.matches(text)),
            Self::AllOf(trees) => trees.iter().all(|tree| tree.matches(text)),
            Self::Not(tree) => !tree.matches(text),
        }
    }

    fn matches_times(&self, text: &str, min: u32, max: Option<u32>) -> bool {
        let nullable = self.matches("");
        if text.is_empty() {
            return min == 0 || (nullable && max != Some(0));
        }
        if max == Some(0) {
            return false;
        }
        // An empty round only counts towards the minimum.
        let min = if nullable { 0 } else { min };
        (1..=text.len()).any(|at| {
            self.matches(&text[..at])
                && self.matches_times(&text[at..], min.saturating_sub(1), max.map(|max| max - 1))
        })
    }
}

/// Returns a strategy for random expressions over `a`, `b` and `c`.
pub(super) fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        1 => Just(Tree::Nothing),
        1 => Just(Tree::Empty),
        1 => Just(Tree::Everything),
        6 => prop::sample::select(vec!["a", "b", "c", "ab", "bc", "abc"]).prop_map(Tree::Class),
        3 => prop::sample::select(vec!["ab", "abc", "ba"]).prop_map(Tree::Literal),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let counts = (0..3_u32, prop::option::of(0..3_u32));
        prop_oneof![
            4 => (boxed.clone(), boxed.clone()).prop_map(|(a, b)| Tree::Concat(a, b)),
            3 => (boxed.clone(), counts).prop_map(|(tree, (min, more))| {
                Tree::Repeat(tree, min, more.map(|more| min + more))
            }),
            3 => prop::collection::vec(inner.clone(), 2..4).prop_map(Tree::AnyOf),
            2 => prop::collection::vec(inner, 2..4).prop_map(Tree::AllOf),
            1 => boxed.prop_map(Tree::Not),
        ]
    })
}

/// Returns every text over `a`, `b` and `c` of at most `longest` characters.
pub(super) fn texts(longest: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut last = all.clone();
    for _ in 0..longest {
        last = last.iter().flat_map(|text| ["a", "b", "c"].map(|c| format!("{text}{c}"))).collect();
        all.extend_from_slice(&last);
    }
    all
}
