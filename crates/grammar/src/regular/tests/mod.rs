//! Tests the laws of expressions and automata. A naive matcher that tries every split of a text
//! gives the expected results.

mod ecma;
mod pattern;
mod tree;

use proptest::prelude::*;

use self::tree::{Tree, texts, trees};
use super::{CharSet, ExprId, Expressions, Portable, TextDfa};

/// Returns the state after `text`. `None` if no language accepts any text that begins with `text`.
fn run(dfa: &TextDfa, text: &str) -> Option<u32> {
    text.chars().try_fold(dfa.start(), |state, c| dfa.next(state, c))
}

fn accepts(dfa: &TextDfa, language: usize, text: &str) -> bool {
    run(dfa, text).is_some_and(|state| dfa.labels()[dfa.label(state) as usize][language])
}

/// Checks the properties that every automaton must have.
fn check_shape(dfa: &TextDfa) {
    assert!(dfa.labels()[0].iter().all(|accepts| !accepts));
    let mut alive = (0..dfa.len() as u32).map(|state| dfa.label(state) != 0).collect::<Vec<_>>();
    for _ in 0..dfa.len() {
        for state in 0..dfa.len() as u32 {
            alive[state as usize] |= dfa.transitions(state).iter().any(|t| alive[t.2 as usize]);
        }
    }
    for state in 0..dfa.len() as u32 {
        assert!(alive[state as usize] || state == dfa.start(), "state {state} is dead");
        let transitions = dfa.transitions(state);
        for pair in transitions.windows(2) {
            assert!(pair[0].1 < pair[1].0, "ranges overlap");
            assert!(pair[0].1 + 1 < pair[1].0 || pair[0].2 != pair[1].2, "ranges could be one");
        }
        for &(low, high, target) in transitions {
            assert!(low <= high && (target as usize) < dfa.len());
            assert!(char::from_u32(low).is_some() && char::from_u32(high).is_some());
        }
        let covered: u32 = transitions.iter().map(|t| t.1 - t.0 + 1).sum();
        let loops = transitions.iter().all(|t| t.2 == state) && covered == 0x0011_0000 - 0x800;
        assert_eq!(dfa.is_free(state), loops);
    }
}

/// Checks that no two states accept the same continuations, by refinement in rounds.
fn check_minimal(dfa: &TextDfa) {
    let mut classes = (0..dfa.len() as u32).map(|state| dfa.label(state)).collect::<Vec<_>>();
    for _ in 0..dfa.len() {
        let rows = (0..dfa.len() as u32).map(|state| {
            let mut row: Vec<(u32, u32, u32)> = Vec::new();
            for &(low, high, target) in dfa.transitions(state) {
                let class = classes[target as usize];
                match row.last_mut() {
                    Some(last) if last.1 + 1 == low && last.2 == class => last.1 = high,
                    _ => row.push((low, high, class)),
                }
            }
            (classes[state as usize], row)
        });
        let rows = rows.collect::<Vec<_>>();
        let mut distinct = rows.clone();
        distinct.sort();
        distinct.dedup();
        classes = rows.iter().map(|row| distinct.binary_search(row).unwrap() as u32).collect();
    }
    classes.sort_unstable();
    classes.dedup();
    assert_eq!(classes.len(), dfa.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn derivatives_decide_membership(tree in trees()) {
        let mut expressions = Expressions::new();
        let expr = tree.build(&mut expressions);
        let (min, max) = expressions.lengths(expr);
        for text in texts(5) {
            let length = text.len() as u32;
            prop_assert!(!tree.matches(&text) || (min <= length && length <= max), "{:?}", text);
            let after = text.chars().fold(expr, |expr, c| expressions.derive(expr, c));
            prop_assert_eq!(expressions.nullable(after), tree.matches(&text), "{:?}", text);
        }
    }

    #[test]
    fn automata_accept_what_their_languages_hold(trees in prop::collection::vec(trees(), 1..4)) {
        let mut expressions = Expressions::new();
        let languages = trees.iter().map(|tree| tree.build(&mut expressions)).collect::<Vec<_>>();
        let dfa = TextDfa::new(&mut expressions, &languages, 2000).unwrap();
        check_shape(&dfa);
        check_minimal(&dfa);
        for text in texts(5) {
            for (language, tree) in trees.iter().enumerate() {
                prop_assert_eq!(accepts(&dfa, language, &text), tree.matches(&text), "{:?}", text);
            }
        }
    }

    #[test]
    fn a_portable_expression_has_the_same_texts_in_every_collection(tree in trees(), other in trees()) {
        let mut expressions = Expressions::new();
        let expr = tree.build(&mut expressions);
        let portable = Portable::new(&expressions, expr);
        prop_assert_eq!(portable.add_to(&mut expressions), expr);
        let mut expressions = Expressions::new();
        other.build(&mut expressions);
        let expr = portable.add_to(&mut expressions);
        for text in texts(5) {
            let after = text.chars().fold(expr, |expr, c| expressions.derive(expr, c));
            prop_assert_eq!(expressions.nullable(after), tree.matches(&text), "{:?}", text);
        }
    }

    #[test]
    fn derivatives_agree_within_each_part_of_the_partition(tree in trees()) {
        let mut expressions = Expressions::new();
        let expr = tree.build(&mut expressions);
        let starts = expressions.partition(expr);
        prop_assert_eq!(starts[0], 0);
        prop_assert!(starts.is_sorted());
        for c in ['\0', 'a', 'b', 'c', 'd', '\u{D7FF}', '\u{E000}', '\u{10FFFF}'] {
            let start = starts[starts.partition_point(|&start| start <= c.into()) - 1];
            let start = char::from_u32(start).unwrap();
            prop_assert_eq!(expressions.derive(expr, c), expressions.derive(expr, start));
        }
    }
}

#[test]
fn laws_make_equal_expressions_one() {
    let mut e = Expressions::new();
    let (a, b, c) = (e.literal("a"), e.literal("b"), e.literal("c"));
    let (ab, bc) = (e.any_of(vec![a, b]), e.concat(b, c));
    assert_eq!(ab, e.class(CharSet::new([('a', 'b')])));
    assert_eq!(e.any_of(vec![b, Expressions::NOTHING, a, b]), ab);
    assert_eq!(e.any_of(vec![a, Expressions::EVERYTHING]), Expressions::EVERYTHING);
    assert_eq!(e.all_of(vec![a, b]), Expressions::NOTHING);
    assert_eq!(e.all_of(vec![a, Expressions::EVERYTHING]), a);
    assert_eq!(e.all_of(vec![]), Expressions::EVERYTHING);
    assert_eq!(e.any_of(vec![]), Expressions::NOTHING);
    let not_a = e.not(a);
    assert_eq!(e.not(not_a), a);
    assert_eq!(e.any_of(vec![a, not_a]), Expressions::EVERYTHING);
    assert_eq!(e.all_of(vec![a, not_a]), Expressions::NOTHING);
    assert_eq!(e.not(Expressions::NOTHING), Expressions::EVERYTHING);
    let (left, right) = (e.concat(a, b), e.concat(a, bc));
    assert_eq!(e.concat(left, c), right);
    assert_eq!(e.repeat(a, 0, Some(0)), Expressions::EMPTY);
    assert_eq!(e.repeat(a, 1, Some(1)), a);
    assert_eq!(e.repeat(a, 3, Some(2)), Expressions::NOTHING);
    let star = e.repeat(a, 0, None);
    assert_eq!(e.repeat(star, 2, None), star);
    assert_eq!(e.concat(star, star), star);
    let plus = e.repeat(a, 1, None);
    assert_eq!(e.concat(a, star), plus);
    assert_eq!(e.concat(star, a), plus);
    let (some, all) = (e.repeat(a, 1, Some(3)), e.repeat(ab, 0, None));
    let least = e.concat(a, all);
    assert_eq!(e.concat(some, all), least);
    let maybe = e.repeat(a, 0, Some(3));
    assert_eq!((e.concat(maybe, all), e.concat(all, maybe)), (all, all));
    let (two, five) = (e.repeat(a, 2, Some(2)), e.repeat(a, 5, Some(5)));
    let (two, five) = (e.concat(two, all), e.concat(five, all));
    assert_eq!((e.any_of(vec![two, five]), e.any_of(vec![five, all])), (two, all));
    let any = e.repeat(Expressions::ANY, 0, None);
    assert_eq!(any, Expressions::EVERYTHING);
    assert_eq!(e.concat(any, any), any);
    let (short, long) = (e.repeat(bc, 1, Some(3)), e.repeat(bc, 2, Some(5)));
    assert_eq!(e.any_of(vec![short, long]), e.repeat(bc, 1, Some(5)));
    let (short, long) = (e.repeat(Expressions::ANY, 3, None), e.repeat(ab, 0, Some(5)));
    assert_eq!(e.all_of(vec![short, long]), e.repeat(ab, 3, Some(5)));
    let (x, y) = (e.concat(a, c), e.concat(b, c));
    assert_eq!(e.any_of(vec![x, y]), e.concat(ab, c));
}

#[test]
fn empty_languages_have_only_the_start_state() {
    let mut e = Expressions::new();
    let (x, y) = (e.literal("abc"), e.literal("abd"));
    let both = e.all_of(vec![x, y]);
    for languages in [&[][..], &[both], &[Expressions::NOTHING]] {
        let dfa = TextDfa::new(&mut e, languages, 100).unwrap();
        assert_eq!((dfa.len(), dfa.transitions(0).len(), dfa.label(0)), (1, 0, 0));
    }
    let dfa = TextDfa::new(&mut e, &[Expressions::EVERYTHING, both], 100).unwrap();
    assert!(dfa.len() == 1 && dfa.is_free(0));
    assert_eq!(&*dfa.labels()[dfa.label(0) as usize], [true, false]);
}

#[test]
fn counts_take_one_state_each() {
    let mut e = Expressions::new();
    let digit = e.class(CharSet::new([('0', '9')]));
    let counted = e.repeat(digit, 0, Some(2048));
    assert_eq!(TextDfa::new(&mut e, &[counted], 4096).unwrap().len(), 2049);
    let lower = e.class(CharSet::new([('a', 'z')]));
    let pair = e.concat(digit, lower);
    let counted = e.repeat(pair, 1, Some(64));
    assert_eq!(TextDfa::new(&mut e, &[counted], 4096).unwrap().len(), 129);
}

/// An intersection with length bounds that the other language always satisfies adds no states.
#[test]
fn bounds_that_hold_anyway_are_not_counted() {
    let mut e = Expressions::new();
    let digit = e.class(CharSet::new([('0', '9')]));
    let word = e.literal("word");
    let item = e.any_of(vec![digit, word]);
    let list = e.repeat(item, 3, Some(20));
    let alone = TextDfa::new(&mut e, &[list], 1000).unwrap().len();
    for (min, max) in [(0, 80), (3, 100), (1, 1000)] {
        let length = e.repeat(Expressions::ANY, min, Some(max));
        let both = e.all_of(vec![list, length]);
        assert_eq!(TextDfa::new(&mut e, &[both], 1000).unwrap().len(), alone);
    }
    let short = e.repeat(Expressions::ANY, 0, Some(2));
    assert_eq!(e.all_of(vec![list, short]), Expressions::NOTHING);
    let length = e.repeat(Expressions::ANY, 10, Some(12));
    let both = e.all_of(vec![list, length]);
    let dfa = TextDfa::new(&mut e, &[both], 1000).unwrap();
    assert!(
        accepts(&dfa, 0, "wordword12")
            && !accepts(&dfa, 0, "123456789")
            && !accepts(&dfa, 0, "wordwordword1")
    );
}

#[test]
fn states_beyond_the_limit_are_counted() {
    let mut e = Expressions::new();
    let x = e.literal("x");
    let tail = e.repeat(Expressions::ANY, 20, Some(20));
    let tail = e.concat(x, tail);
    let expr: ExprId = e.concat(Expressions::EVERYTHING, tail);
    let error = TextDfa::new(&mut e, &[expr], 1000).unwrap_err();
    assert_eq!((error.what, error.limit), ("automaton states", 1000));
    assert!(error.given > 1000 && error.given < 3000, "{error:?}");
}

#[test]
fn long_and_deep_expressions_do_not_overflow_the_stack() {
    let mut e = Expressions::new();
    let text = "ab".repeat(50_000);
    let mut expr = e.literal(&text);
    assert_eq!(e.len(), 4 + 2 + 100_000 - 1);
    let optional = e.literal("c");
    let optional = e.repeat(optional, 0, Some(1));
    for _ in 0..50_000 {
        let not = e.not(expr);
        expr = e.concat(optional, not);
    }
    let after = e.derive(expr, 'a');
    assert!(e.len() > 0 && after != Expressions::NOTHING);
}

#[test]
fn naive_matcher_counts_repetitions() {
    let a = Tree::Class("a");
    let tree = Tree::Repeat(Box::new(a), 1, Some(2));
    assert!(tree.matches("aa") && !tree.matches("aaa") && !tree.matches(""));
}
