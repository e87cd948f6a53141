//! Checks errors with their places.

use super::*;
use crate::SchemaOptions;

fn error(source: &str) -> GrammarError {
    let limits = Limits::default();
    parse(source, Schemas::alone(SchemaOptions::default()), &limits).expect_err(source)
}

/// Checks that the message for each source starts with the text beside the source.
fn check(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        let message = error(source).to_string();
        let expected = expected.split_once(' ').map(|(place, problem)| {
            let (line, column) = place.split_once(':').expect("a place");
            format!("line {line}, column {column}: {problem}")
        });
        let expected = expected.expect("a place and a problem");
        assert!(message.starts_with(&expected), "{source}\n  expected: {expected}\n  found:    {message}");
    }
}

#[test]
fn refuses_unsupported_features_by_name() {
    check(&[
        ("start.2: \"a\"", "1:6 priorities (`.1` after a name) are not supported"),
        ("start: A\nA.-1: \"a\"", "2:2 priorities"),
        ("start: x{\"a\"}\nx{y}: y", "1:9 templates (`name{…}`) are not supported"),
        ("x{y}: y\nstart: \"a\"", "1:2 templates"),
        ("start: A\n%declare A", "2:1 `%declare` is not supported; define the terminal"),
        ("start: \"a\"\n%override start: \"b\"", "2:1 `%override` is not supported"),
        ("start: \"a\"\n%extend start: \"b\"", "2:1 `%extend` is not supported"),
        (
            "%import python.NAME\nstart: NAME",
            "1:9 an import of another grammar than `common` is not supported",
        ),
        ("%import .common.INT\nstart: INT", "1:9 an import of another grammar"),
        ("%llguidance {}\nstart: \"a\"", "1:1 `%llguidance` is not supported"),
        ("start: %lark { start: \"a\" }", "1:8 `%lark` is not supported"),
        ("start: %regex { \"substring_words\": \"a\" }", "1:8 `%regex` is not supported"),
        ("start[lazy]: /a/", "1:6 the attribute `lazy` of `start` is not supported"),
        ("start: x\nx[suffix=\"a\"]: /a/", "2:2 the attribute `suffix` of `x` is not supported"),
        ("start[stop=\"a\"]: /a/", "1:6 the attribute `stop`"),
        ("start[max_tokens=3]: /a/", "1:6 the attribute `max_tokens`"),
        ("start[temperature=0.5]: /a/", "1:6 the attribute `temperature`"),
        ("start[capture]: /a/", "1:6 the attribute `capture`"),
        ("start: A & B", "1:10 the intersection `&` is not supported"),
        ("start: A\nA: ~\"b\"", "2:4 the complement `~` is not supported"),
        ("start: A ~B", "1:10 the complement `~` is not supported"),
        ("start: @other", "1:8 references to other grammars (`@`) are not supported"),
        ("start: x::0x3", "1:8 parametric rules (`::`) are not supported"),
        ("start::_: \"a\"", "1:1 parametric rules"),
        ("start: /a(?=b)/", "1:10 look-around is not supported"),
        ("start: /(?<!a)b/", "1:9 look-around is not supported"),
        ("start: /(a)\\1/", "1:12 a back-reference is not supported"),
        ("start: \"é\" /a*?/", "1:14 lazy repetition is not supported"),
        ("start: /a{2,}?b??/", "1:10 lazy repetition is not supported"),
        ("start: /(?U)a*/", "1:11 the flag `U` is not supported"),
        ("start: /\\bif/", "1:9 a word boundary is not supported"),
        ("start: /a$b/", "1:10 an anchor inside a regular expression is not supported"),
        ("start: /^a/m", "1:9 an anchor inside a regular expression is not supported"),
        ("start: /a/l", "1:11 the flag `l` is not supported"),
    ]);
}

#[test]
fn errors_name_line_column_and_what_was_expected() {
    check(&[
        ("", "1:1 rule `start` is not defined"),
        ("begin: \"a\"\n", "2:1 rule `start` is not defined"),
        ("start: item", "1:8 rule `item` is not defined"),
        ("start: \"a\"\n  | ITEM", "2:5 terminal `ITEM` is not defined"),
        ("start: \"a\"\n\nstart: \"b\"", "3:1 rule `start` is defined twice; the first time on line 1"),
        ("start: A\nA: \"a\"\nA: \"b\"", "3:1 terminal `A` is defined twice; the first time on line 2"),
        ("start: INT\nINT: \"1\"\n%import common.INT", "3:1 terminal `INT` is defined twice"),
        ("start: A\nA: B\nB: \"b\" A", "2:1 terminal `A` refers to itself; only rules can be recursive"),
        ("start: A\nA: \"a\" A | \"b\"", "2:1 terminal `A` refers to itself"),
        ("start: A\nA: x\nx: \"a\"", "2:4 `x` is a rule, but a terminal can contain other terminals only"),
        ("start: \"a\"\n%ignore start", "2:9 `start` is a rule"),
        ("start: A\nA: %json {}", "2:4 `%json` cannot be part of a terminal"),
        ("start: A\nA: <[3]>", "2:4 a token cannot be part of a terminal"),
        ("start: Abc", "1:8 `Abc` mixes upper and lower case"),
        ("start: \"a\"\n?A: \"a\"", "2:1 `A` is a terminal; only rules take the prefixes"),
        ("start ::= \"a\"", "1:7 expected `:`, because `::=` belongs to GBNF, found `:`"),
        ("start \"a\"", "1:7 expected `:`, found `\"`"),
        ("start: \"a\" item: \"b\"", "1:12 `item:` starts a rule, but the rule before it"),
        ("start: (\"a\"\nitem: \"b\"", "1:8 this group is not closed"),
        ("start: [\"a\"\n%ignore \" \"", "1:8 this optional group is not closed"),
        ("start: (\"a\"", "1:8 this group is not closed"),
        ("start: (\"a\"]", "1:12 expected `|`, a terminal, a rule name or `)`, found `]`"),
        ("start: \"a\")", "1:11 expected `|`, a terminal, a rule name or the end of the line, found `)`"),
        (
            "start: \"a\" = \"b\"",
            "1:12 expected `|`, a terminal, a rule name or the end of the line, found `=`",
        ),
        ("start: \"a\"\n| | = ", "2:5 expected `|`"),
        ("start: \"a\"\n\n\"b\"", "3:1 expected a rule name, a terminal name or `%`, found `\"`"),
        ("| \"a\"", "1:1 expected a rule name; `|` continues the rule of the line before"),
        ("start: \"a\n\"", "1:8 this string is not closed"),
        ("start: \"a", "1:8 this string is not closed"),
        ("start: /abc\nA: \"b\"", "1:8 this regular expression is not closed"),
        ("start: A\nA: /abc\nB: /abc/", "2:4 this regular expression is not closed"),
        ("start: \"\\q\"", "1:9 `\\q` is not an escape"),
        ("start: \"\\u12g4\"", "1:13 expected a hexadecimal digit, found `g`"),
        ("start: \"\\ud800\"", "1:9 U+D800 is not a character"),
        ("start: \"a\"x", "1:11 `x` is not a flag; expected i, or a blank"),
        ("start: /a/ig", "1:12 `g` is not a flag; expected i, m, s, u and x"),
        ("start: \"ab\"..\"c\"", "1:8 the ends of a range are strings of one character"),
        ("start: \"a\"..\"\"", "1:13 the ends of a range are strings of one character"),
        ("start: \"b\"..\"a\"", "1:8 the start of the range is greater than its end"),
        ("start: \"a\"..b", "1:13 expected a string, found `b`"),
        ("start: \"a\"~3..2", "1:11 the minimum of 3 repetitions is greater than the maximum of 2"),
        ("start: \"a\"{99999999999}", "1:12 repetition count 99999999999 exceeds the limit"),
        ("start: \"a\"{,}", "1:13 expected a number"),
        ("start: \"a\"{2", "1:13 expected `}`, found the end of the grammar"),
        ("start: * \"a\"", "1:8 nothing to repeat"),
        ("start: \"a\"*?", "1:12 nothing to repeat"),
        ("start: /[b-a]/", "1:10 regular expression: invalid character class range"),
        ("start: \"a\" /(b/", "1:13 regular expression: unclosed group"),
        ("start: /a/\n  | /\\p{Nope}/", "2:6 regular expression: Unicode property not found"),
        ("start: /(?-u:\\xFF)/", "1:14 regular expression: pattern can match invalid UTF-8"),
        ("start: <[x]>", "1:8 invalid token `<[x]>`; expected <[id]> or <text>"),
        ("start: <a", "1:8 invalid token `<a`"),
        ("start: %json {\"type\": }", "1:23 the schema is not JSON"),
        ("start: %json {\"type\": \"text\"}", "1:8 schema: "),
        ("start: \"a\" -> ", "1:15 expected the name of an alias, found the end of the grammar"),
        ("start: \"a\"\n%import common.FOO", "2:16 `FOO` is not a terminal of `common`"),
        ("start: \"a\"\n%import common.foo", "2:16 expected the name of a terminal"),
        ("start: \"a\"\n%import common (INT WS)", "2:21 expected `,` or `)`, found `W`"),
        ("start: \"a\"\n%ignore", "2:8 expected a terminal, found the end of the grammar"),
        ("start: \"a\"\n%unknown", "2:1 expected a rule, a terminal, `%import` or `%ignore`, found `%`"),
        ("start: \"a\" %ignore", "1:12 expected a terminal, a rule name or the end of the line, found `%`"),
    ]);
}

#[test]
fn the_excerpt_points_at_the_place() {
    let error = error("start: item\nitem: \"a\" missing");
    assert_eq!(error.excerpt().as_deref(), Some("item: \"a\" missing\n          ^"));
    assert_eq!(error.line_column(), Some((2, 11)));
    assert_eq!(error.problem(), "rule `missing` is not defined");
}

#[test]
fn nesting_ends_at_the_limit() {
    let limit = Limits::default().nesting;
    let nested = |groups: usize, regex: usize| {
        let regex = format!("/{}a{}/", "(".repeat(regex), ")".repeat(regex));
        format!("start: {}{regex}{}", "(".repeat(groups), ")".repeat(groups))
    };
    let parsed = |source: String| {
        parse(&source, Schemas::alone(SchemaOptions::default()), &Limits::default()).map(drop)
    };
    assert!(parsed(nested(limit, 0)).is_ok());
    assert!(parsed(nested(limit / 2, limit / 2 - 1)).is_ok());
    for source in [nested(limit + 1, 0), nested(limit / 2, limit / 2 + 1)] {
        assert!(error(&source).to_string().contains("nested deeper than the limit of 256"));
    }
}
