//! Tests of patterns: the meaning of each construct, and random patterns against two other
//! matchers.

use proptest::prelude::*;
use regex_automata::dfa::{Automaton, dense};
use regex_automata::{Anchored, Input};

use super::pattern::patterns;
use super::{accepts, check_minimal, check_shape};
use crate::regular::ecma::{self, PatternError, PatternProblem, pattern};
use crate::regular::{Expressions, TextDfa};

fn compile(source: &str) -> Result<TextDfa, PatternError> {
    let mut expressions = Expressions::new();
    let expr = pattern(&mut expressions, source)?;
    Ok(TextDfa::new(&mut expressions, &[expr], 10_000).unwrap())
}

/// Returns every text over `a`, `b` and `-` of at most `longest` characters.
fn texts(longest: u32) -> impl Iterator<Item = String> {
    (0..=longest).flat_map(|len| {
        (0..3_usize.pow(len)).map(move |number| {
            let digits = (0..len).map(|place| number / 3_usize.pow(place) % 3);
            digits.map(|digit| ['a', 'b', '-'][digit]).collect()
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn patterns_with_assertions_agree_with_a_naive_matcher(tree in patterns(true)) {
        let source = tree.source();
        match compile(&source) {
            Ok(dfa) => {
                check_shape(&dfa);
                check_minimal(&dfa);
                for text in texts(5) {
                    let chars = text.chars().collect::<Vec<_>>();
                    prop_assert_eq!(accepts(&dfa, 0, &text), tree.is_found_in(&chars), "{:?} in {:?}", source, text);
                }
            }
            Err(error) => prop_assert_eq!(error.reason, PatternProblem::NothingToRepeat, "{}", source),
        }
    }

    #[test]
    fn the_general_construction_agrees_with_a_naive_matcher(tree in patterns(true)) {
        let source = tree.source();
        let Ok(read) = ecma::read(&source) else { return Ok(()) };
        let mut expressions = Expressions::new();
        let [found, whole] = ecma::general_texts(&mut expressions, &read.ast).expect("small");
        let dfa = TextDfa::new(&mut expressions, &[found, whole], 10_000).unwrap();
        check_shape(&dfa);
        for text in texts(5) {
            let chars = text.chars().collect::<Vec<_>>();
            prop_assert_eq!(accepts(&dfa, 0, &text), tree.is_found_in(&chars), "{:?} in {:?}", source, text);
            prop_assert_eq!(accepts(&dfa, 1, &text), tree.is_all_of(&chars), "{:?} is {:?}", source, text);
        }
        let whole = ecma::whole(&mut expressions, &read.ast).expect("small");
        let dfa = TextDfa::new(&mut expressions, &[whole], 10_000).unwrap();
        for text in texts(5) {
            let chars = text.chars().collect::<Vec<_>>();
            prop_assert_eq!(accepts(&dfa, 0, &text), tree.is_all_of(&chars), "{:?} is {:?}", source, text);
        }
    }

    #[test]
    fn patterns_match_as_another_engine_does(tree in patterns(false)) {
        let source = tree.source();
        // Patterns that exceed a limit are skipped.
        let Ok(dfa) = compile(&source) else { return Ok(()) };
        let config = regex_automata::util::syntax::Config::new().unicode(false).utf8(false);
        let other = dense::Builder::new().syntax(config).build(&source).unwrap();
        for text in texts(6) {
            let start = other.start_state_forward(&Input::new(&text).anchored(Anchored::No)).unwrap();
            let mut state = start;
            let mut is_found = other.is_match_state(state);
            for &b in text.as_bytes() {
                state = other.next_state(state, b);
                is_found |= other.is_match_state(state);
            }
            is_found |= other.is_match_state(other.next_eoi_state(state));
            prop_assert_eq!(accepts(&dfa, 0, &text), is_found, "{:?} in {:?}", source, text);
        }
    }
}

#[test]
fn constructs_mean_what_the_specification_says() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("", &["", "a"], &[]),
        ("foo", &["foo", "a foo b"], &["fo", "fo o"]),
        ("^abc$", &["abc"], &["abc\n", "xabc", "abcd"]),
        ("^a|b$", &["ax", "xb"], &["xax"]),
        ("a.b", &["a🙂b"], &["a\nb", "a\rb", "a\u{2028}b", "a\u{2029}b", "ab"]),
        ("(?s)^a.b$", &["a\nb"], &["ab"]),
        (r"^\d$", &["0", "9"], &["\u{7c0}", "a"]),
        (r"^\D$", &["\u{7c0}", "a"], &["0"]),
        (r"^\w$", &["a", "Z", "0", "_"], &["é", "-"]),
        (r"^\W$", &["é", "-"], &["a"]),
        (
            r"^\s$",
            &[
                " ", "\t", "\u{b}", "\u{c}", "\u{a0}", "\u{feff}", "\n", "\r", "\u{2028}", "\u{2029}",
                "\u{2003}",
            ],
            &["\u{1}", "\u{2013}", "\u{200b}", "\u{85}"],
        ),
        (r"^\S$", &["\u{1}", "\u{2013}", "\u{85}"], &[" ", "\u{feff}"]),
        (r"^\cC\cc\t\n\v\f\r\0$", &["\u{3}\u{3}\t\n\u{b}\u{c}\r\0"], &[]),
        (r"^\x41\u0042\u{43}\u{1F642}\uD83D\uDE42$", &["ABC🙂🙂"], &[]),
        (r"\uD83D", &[], &["🙂", ""]),
        (r"^[\uD83D\uDE42]$", &["🙂"], &[]),
        (r"^[^\uD800-\uDFFF]$", &["🙂", "a"], &[""]),
        (r"^[\u0000-\uD800\uDFFF-\uFFFF]$", &["a", "\u{e000}", "\u{d7ff}"], &["🙂"]),
        (r"^\p{Lu}\p{Letter}\p{Script=Greek}\P{L}$", &["Äéλ1"], &["äéλ1", "Äélx"]),
        (r"^\p{digit}+$", &["42", "৪২"], &["-"]),
        (r"^\p{ASCII}\p{Alphabetic}[\p{Nd}x]\p{Any}\p{scx=Deva}$", &["~é৪🙂।"], &[]),
        (r"^\p{White_Space}\p{Emoji}$", &["\u{85}🙂"], &[]),
        (r"^[a\-c][a-][-a][\]\\^][^^]$", &["a--\\a", "-aa^]", "caa]a"], &["b--\\a", "a--\\^"]),
        (r"^[\w-.]$", &["a", "-", "."], &["/"]),
        (r"^[\b]$", &["\u{8}"], &["b"]),
        ("^[]$", &[], &["", "a"]),
        ("^[^]$", &["\n", "a"], &["", "ab"]),
        ("^a{2}b{1,}c{0,1}d{,x}$", &["aabd{,x}", "aabbcd{,x}"], &["abd{,x}"]),
        ("^{a}x{}]}{{$", &["{a}x{}]}{{"], &[]),
        ("^a{2,3}?b+?c*?d??$", &["aab", "aaabbccd"], &["ab"]),
        ("^(?:ab)(c)(?<n>d)(?P<m>e)$", &["abcde"], &[]),
        (r"^\-\@\_\/\:\#\ $", &["-@_/:# "], &[]),
        ("^(?i)aB[c-d][^e](?-i:f)$", &["AbCxf", "abDxf"], &["abcEf", "abcxF"]),
        ("^a(?i:b)c$", &["abc", "aBc"], &["Abc", "abC"]),
        (r"^(?i)k$", &["k", "K", "\u{212a}"], &[]),
        (r"\bfoo\b", &["foo", "a foo.", "-foo-"], &["food", "afoo", "fo o"]),
        (r"^\b", &["a"], &["", "-"]),
        (r"o\Bo", &["oo"], &["o o", "o"]),
        (r"^(?=.{1,3}$)a*$", &["a", "aaa"], &["", "aaaa"]),
        (r"^(?!.*foo)(?!bar).*$", &["", "fo", "xbar"], &["foo", "a foo", "bar", "barx"]),
        (r"^((?!foo).)*$", &["", "fo", "fofo"], &["afoo", "foo", "fofoo"]),
        (r"^(?:(?!--)[a-z-])*;$", &["a-b;", ";"], &["a--b;", "--;"]),
        (r"^(?:a(?=b)|b(?!c)|c)+$", &["ab", "abab", "cab"], &["aa", "abc"]),
        (r"(?<=a)b", &["ab", "xaby"], &["b", "bb"]),
        (r"(?<!a)b", &["b", "xb"], &["ab", ""]),
        (r"^.*(?<!\.exe)$", &["a.ex", "exe"], &["a.exe", ".exe"]),
        (r"^[a-z-]+(?<!-)$", &["a", "a-b"], &["-", "a-"]),
        (r"(?<=^|,)x(?<=^.{3})$", &["a,x"], &["ax", "x", "aa,x"]),
        (r"^(?<![\w\d])abc(?![\w\d])", &["abc", "abc-"], &["abcd", "xabc"]),
        ("^^a$$", &["a"], &["aa"]),
        ("a^b|a$b|^$", &[""], &["ab", "a"]),
        ("(?:^a|b)c$", &["ac", "xbc"], &["xac"]),
        ("x*^a", &["a", "ab"], &["xa"]),
        ("(?:^a|b)+c", &["abc", "xbbc", "abbc"], &["xac", "aac-"]),
        ("^(?!.*--)(?!-)[a-z0-9-]{3,63}(?<!-)$", &["abc", "a-b"], &["a--b", "-ab", "ab-", "ab", "a b"]),
        ("^(?=.*[0-9]).{2,}(?<=[a-z])$", &["1a", "x1y"], &["a1", "aa", "a"]),
        ("^(?:a(?<=b)|c)d|x(?:(?<=ax)b)+$", &["cd", "axb"], &["ad", "axbb", "xb"]),
        ("^(?:a(?<!aaa))*$", &["", "aa"], &["aaa", "b"]),
        (r"^(?:\w+(?<!ly)\b ?)+$", &["a cat", "on"], &["only a", "a fly"]),
        ("(^a|b)*$", &["abb", "xx", ""], &[]),
        ("^(^a|b)*$", &["abb", "bb", ""], &["ba", "aab", "c"]),
        ("^(a$|b)+$", &["bba", "a", "b"], &["ab", "", "aa"]),
        ("(?:^|,)*x", &["x", ",x", "ax"], &[",", "a"]),
        (r"^(?:\b|-)*a$", &["a", "--a"], &["b", "-"]),
        ("(?<=a(?=b)).(?<=(?<!c)ab)c$", &["abc", "xabc"], &["ab", "cabc", "acc"]),
        ("a(?=b)c(?<=d)", &[], &["ac", "abcd"]),
        ("(?<=a$)|b", &["a", "xa", "b"], &["ac", ""]),
        ("(?:^a){1000}", &[], &["", "aa"]),
    ];
    for (source, found, missing) in cases {
        let dfa = compile(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        check_shape(&dfa);
        for text in *found {
            assert!(accepts(&dfa, 0, text), "{source} is in {text:?}");
        }
        for text in *missing {
            assert!(!accepts(&dfa, 0, text), "{source} is not in {text:?}");
        }
    }
}

#[test]
fn errors_name_the_place() {
    let cases = [
        ("a(b", "a group is not closed, at offset 1"),
        ("a)b", "unmatched closing parenthesis, at offset 1"),
        ("é[b", "a character class is not closed, at offset 2"),
        ("[a-", "a character class is not closed, at offset 0"),
        ("*a", "nothing to repeat, at offset 0"),
        ("a**", "nothing to repeat, at offset 2"),
        ("a|+", "nothing to repeat, at offset 2"),
        ("^*", "nothing to repeat, at offset 1"),
        ("{2}", "nothing to repeat, at offset 0"),
        ("(?=a)+", "nothing to repeat, at offset 5"),
        ("a{3,2}", "the minimum of a repetition is greater than its maximum, at offset 1"),
        ("a{99999999999}", "the count of a repetition is too large, at offset 1"),
        ("a{,5}", "regex engines disagree about a repetition without a minimum; write `{0,n}`, at offset 1"),
        ("[z-a]", "the start of a range is greater than its end, at offset 1"),
        ("a\\", "the expression ends in a backslash, at offset 1"),
        (r"^a\Z", "the escape is unknown, at offset 2"),
        (r"\a", "the escape is unknown, at offset 0"),
        (r"\01", "the escape is unknown, at offset 0"),
        (r"\c1", "the escape is unknown, at offset 0"),
        (r"\x4", "the escape needs more hexadecimal digits, at offset 0"),
        (r"\u123", "the escape needs more hexadecimal digits, at offset 0"),
        (r"\u{}", "the escape needs more hexadecimal digits, at offset 0"),
        (r"\u{110000}", "the code point is greater than 10FFFF, at offset 0"),
        (r"\pL", "a property needs braces and a name, at offset 0"),
        (r"\p{^L}", "a property needs braces and a name, at offset 0"),
        (r"\p{Klingon}", "the Unicode property is unknown, at offset 0"),
        ("(?<1>a)", "a group's name is malformed, at offset 3"),
        ("(?#a)", "the kind of group is unknown, at offset 0"),
        ("(?)", "the kind of group is unknown, at offset 0"),
        ("(?x)a", "the flag is unknown, at offset 2"),
        ("(?m)^a", "multi-line anchors are not supported, at offset 2"),
        (r"(a)\1", "back-references are not supported, at offset 3"),
        (r"(?<n>a)\k<n>", "back-references are not supported, at offset 7"),
        ("(?>a)", "atomic groups are not supported, at offset 0"),
        ("(?:^a){99999}", "the pattern with look-around or anchors is too large, at offset 0"),
    ];
    for (source, message) in cases {
        let error = compile(source).expect_err(source);
        assert_eq!(error.to_string(), message, "{source}");
    }
}

#[test]
fn groups_are_nested_up_to_a_limit() {
    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")*".repeat(depth));
    assert!(accepts(&compile(&nested(250)).unwrap(), 0, "aaa"));
    let error = compile(&nested(60_000)).unwrap_err();
    assert_eq!(error, PatternError { offset: 250, reason: PatternProblem::TooDeep });
    let open = "(".repeat(60_000);
    assert_eq!(compile(&open).unwrap_err().reason, PatternProblem::TooDeep);
}

#[test]
fn nested_rounds_with_assertions_are_bounded() {
    let mut source = "(?:^a|b)".to_owned();
    for _ in 0..8 {
        source = format!("(?:{source}){{1,60}}");
    }
    assert_eq!(compile(&source).unwrap_err().reason, PatternProblem::TooManyRounds);
}

#[test]
fn contexts_and_states_are_bounded() {
    for source in [
        "(?=a)x(?<=a.{20})b",
        "^(?:(?=a)(?<=b)){9999}",
        "(?:(?<=a.{9}b.{9})(?=c.{9}d)x?)*$",
        "(?:^a){70}{70}",
    ] {
        let started = std::time::Instant::now();
        let result = compile(source).map(|dfa| dfa.len());
        assert!(started.elapsed().as_secs() < 5, "{source}: {result:?}");
    }
}
