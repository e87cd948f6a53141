//! Grammars and schemas designed to exhaust time or memory are refused with a named limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use formwork_grammar::{Constraint, Grammar, Limits, SchemaOptions};
use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
use serde_json::json;

fn gbnf_error(source: &str) -> String {
    Grammar::gbnf(source, &Limits::default()).expect_err("refused").to_string()
}

/// Returns `levels` rules that each call the next one twice.
fn doubling(levels: usize) -> String {
    let rules = (0..levels).map(|level| format!("a{level} ::= a{} a{}\n", level + 1, level + 1));
    format!("root ::= a0\n{}a{levels} ::= \"x\"\n", rules.collect::<String>())
}

#[test]
fn outputs_that_must_be_huge_are_refused() {
    for source in [
        doubling(40),
        doubling(31),
        "root ::= \"x\"{1048576}".to_owned(),
        "root ::= \"x\"* a{4096}\na ::= \"x\"{1048576}".to_owned(),
    ] {
        assert!(gbnf_error(&source).contains("limit of"), "{source}");
    }
    for schema in [
        json!({"type": "string", "minLength": 100_000_000}),
        json!({"type": "array", "items": {"type": "integer"}, "minItems": 100_000_000}),
        json!({
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {"type": "array", "items": {"type": "null"}, "minItems": 3_000_000}
        }),
    ] {
        let error = Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default());
        assert!(error.expect_err("refused").to_string().contains("limit of"), "{schema}");
    }
}

/// Rules without recursion are inlined in their callers. The amount of copying is bounded, even for
/// rules without states.
#[test]
fn rules_that_double_are_not_written_out_for_ever() {
    for least in ["\"\"", "()", "(\"x\"){0}", "\"y\"?"] {
        let doubling: Vec<String> = (1..=40).map(|rule| format!("a{rule} ::= a{0} a{0}", rule - 1)).collect();
        let source = format!("root ::= \"x\" a40\na0 ::= {least}\n{}", doubling.join("\n"));
        let grammar = Grammar::gbnf(&source, &Limits::default()).expect(&source);
        assert!(grammar.accepts(b"x") && !grammar.accepts(b"xx"), "{least}");
    }
    let flat = format!("root ::= \"x\" {}\ny ::= {}", "y ".repeat(20_000), "() ".repeat(20_000));
    assert!(Grammar::gbnf(&flat, &Limits::default()).expect("small").accepts(b"x"));
    let repeated = format!("a{}b", "+".repeat(100));
    assert!(Grammar::regex(&repeated, &Limits::default()).expect(&repeated).accepts(b"aaab"));
}

/// Calls within a token do not use stack in proportion to the token's length.
#[test]
fn long_tokens_do_not_take_the_stack() {
    let mut texts = ["a", "b", "(", ")"].map(str::to_owned).to_vec();
    texts.extend(["a", "("].map(|text| text.repeat(10_000)));
    let tokens = texts.iter().map(|text| Token { bytes: text.clone().into_bytes(), kind: TokenKind::Text });
    let vocabulary = Arc::new(Vocabulary::new(tokens.collect(), vec![]).expect("a good vocabulary"));
    for (source, long) in [("root ::= \"a\" root \"b\" | \"a\"", 4), ("root ::= \"(\" root \")\" | \"a\"", 5)]
    {
        let grammar = Grammar::gbnf(source, &Limits::default()).expect(source);
        let mut matcher = Constraint::new(&grammar, Arc::clone(&vocabulary)).expect("no terminals").matcher();
        for _ in 0..4 {
            assert!(matcher.mask().contains(TokenId(long)), "{source}");
            matcher.commit(TokenId(u32::from(source.contains('(')) * 2)).expect("in the mask");
        }
    }
}

#[test]
fn deep_nesting_is_refused_however_it_is_spelt() {
    let groups = format!("root ::= {}\"a\"{}", "(".repeat(60_000), ")".repeat(60_000));
    let stacked = format!("root ::= {}\"a\"{}", "(".repeat(255), format!("){}", "*".repeat(255)).repeat(255));
    for source in [groups, stacked] {
        assert!(gbnf_error(&source).contains("nested deeper"));
    }
}

#[test]
fn repeated_optional_parts_are_refused_or_compile_in_time() {
    for source in [
        "root ::= ([a-z]?){0,5000}",
        "root ::= (\" \"? [a-z]?){0,1000}",
        "root ::= (\"a\"? (\"\"?){0,119}){0,5600}",
        "root ::= (\"a\" | \"a\")*",
        "root ::= ((\"a\"*)*)*",
        "root ::= (\"\"{1000000}){1000000}",
    ] {
        if let Ok(grammar) = Grammar::gbnf(source, &Limits::default()) {
            assert!(grammar.accepts(b"") || grammar.accepts(b"a"), "{source}");
        }
    }
}

/// A row of this grammar has millions of visits: each of many calls returns to all others.
#[test]
fn rows_are_refused_before_all_visits() {
    let source = r#"root ::= root [0-9]* "{"? | ("{"{1,} | root* root{27,}) | root{0,802} | "0"? "0" | "\"""#;
    let start = Instant::now();
    assert!(gbnf_error(source).contains("parser positions to visit for a mask"));
    let time = start.elapsed();
    assert!(time < Duration::from_secs(1), "{time:?}; 3.3 s with all visits");
}

#[test]
fn bounds_in_the_millions_cost_nothing_until_they_are_reached() {
    let schema = json!({"type": "string", "maxLength": 1_000_000});
    let grammar =
        Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default()).expect("supported");
    assert!(grammar.accepts(b"\"short\""));
    let choices: Vec<String> = (0..20_000).map(|number| format!("choice number {number}")).collect();
    let grammar = Grammar::choices(&choices, &Limits::default()).expect("small enough");
    assert!(grammar.accepts(b"choice number 19999") && !grammar.accepts(b"choice number 20000"));
}

#[test]
fn what_repetition_unrolls_to_is_told_before_it_is_unrolled() {
    for source in
        ["root ::= (\"a\"{0,1000}){0,1000}", "root ::= .{0,1000000}", "root ::= (([a-z]{9}){99}){999}"]
    {
        assert!(gbnf_error(source).contains("states, more than the limit of"), "{source}");
    }
    let pattern = "((ab{0,100}){0,100}){0,100}";
    let error = Grammar::regex(pattern, &Limits::default()).expect_err("refused").to_string();
    assert!(error.contains("states, more than the limit of"), "{error}");
}

#[test]
fn alternatives_of_a_recursive_schema_do_not_multiply() {
    let kind = |name: &str| json!({"type": "object", "properties": {"a": {"$ref": "#"}, name: {}}, "additionalProperties": false});
    let schema = json!({"anyOf": [kind("x"), kind("y"), kind("z"), kind("u"), kind("v"), kind("w")]});
    let grammar =
        Grammar::json_schema(&schema, &SchemaOptions::accept(), &Limits::default()).expect("supported");
    let text = |end: &str| format!("{}{{}}{}{end}", "{\"a\":".repeat(300), ",\"x\":1}".repeat(299));
    assert!(grammar.accepts(text(",\"w\":1}").as_bytes()));
    assert!(!grammar.accepts(text(",\"q\":1}").as_bytes()));
}

#[test]
fn long_lists_of_numbers_are_read_together() {
    let numbers: Vec<_> = (0..20_000).map(|at| at * 7919).collect();
    let grammar =
        Grammar::json_schema(&json!({"enum": numbers}), &SchemaOptions::accept(), &Limits::default())
            .expect("supported");
    assert!(grammar.accepts(b"15838") && grammar.accepts(b"158372081.0") && !grammar.accepts(b"15839"));
}

/// Sources that would take seconds, or hundreds of megabytes, without limits on the work of
/// compilation.
#[test]
fn hungry_expressions_are_refused_or_compile_in_time() {
    let classes: String = (0..3000).map(|at| char::from_u32(0x4e00 + at).expect("a letter")).collect();
    let classes = classes.chars().map(|c| format!("[{c}-\u{9fff}]")).collect::<Vec<_>>().concat();
    for pattern in [
        "\\p{L}".repeat(20_000),
        format!("(?i){}", "\\p{L}\\p{Lu}".repeat(9_000)),
        "{".repeat(120_000),
        vec!["a*"; 2000].join("\\b"),
        "(.*x.{20}){10}".to_owned(),
        "(?=.*x.{18})(?=.*y.{17}).*".to_owned(),
        "((?<=a.{12})b|(?<!b.{9})a|c)*".to_owned(),
        format!("(?={classes})"),
        "(a?b?c?){0,99}".repeat(200),
    ] {
        if let Ok(grammar) = Grammar::regex(&pattern, &Limits::default()) {
            assert!(grammar.accepts(&grammar.shortest()), "{}", &pattern[..20]);
        }
    }
}

#[test]
fn grammars_that_are_at_thousands_of_places_at_once_are_refused() {
    let calls: Vec<String> = (0..20_000).map(|at| format!("r{at} ::= r{0} r{0} | \"a\"\n", at + 1)).collect();
    let chain = format!("root ::= r0\n{}r20000 ::= \"b\"", calls.concat());
    assert!(gbnf_error(&chain).contains("parser positions at once, more than the limit of"));
}

/// Creates a vocabulary of every byte, and of words over the letters in these grammars.
fn words() -> Arc<Vocabulary> {
    let mut texts: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    for length in 2..=6_u32 {
        let words = (0..3_usize.pow(length))
            .map(|at| (0..length).map(|place| b"abx"[at / 3_usize.pow(place) % 3]).collect());
        texts.extend(words);
    }
    let tokens = texts.into_iter().map(|bytes| Token { bytes, kind: TokenKind::Text });
    Arc::new(Vocabulary::new(tokens.collect(), vec![]).expect("a good vocabulary"))
}

/// Returns the processor time of this thread in milliseconds, or `None` if the system does not
/// report it.
fn processor_ms() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(stat.split(' ').next()?.parse::<f64>().ok()? / 1e6)
}

/// Grammars with expensive steps are refused, or their steps are bounded. The bound here is far
/// above the promised tenth of a second, to allow for slow or busy machines.
#[test]
fn steps_of_ambiguous_grammars_are_bounded() {
    let optional = |rules: usize| {
        let rules_of = |at| format!("r{at} ::= \"a\"? r{} \"b\"?\n", at + 1);
        format!("root ::= r0\n{}r{rules} ::= \"x\"", (0..rules).map(rules_of).collect::<String>())
    };
    let joined = |rules: usize| {
        let rules_of =
            |at| format!("a{at} ::= a{0} {1} a{0}\n", at + 1, if at % 2 == 0 { "\"x\"" } else { "" });
        format!("root ::= a0\n{}a{rules} ::= \"x\"?", (0..rules).map(rules_of).collect::<String>())
    };
    for source in [
        optional(50),
        optional(300),
        optional(2000),
        joined(8),
        joined(15),
        "root ::= \"ab\" | root{526} | (\"\" root \"ab\") | root | \"x\"".to_owned(),
        "root ::= root+ root* (root{0,40} | root \"b\"){12,} | root \"a\"* root | \"x\"".to_owned(),
        "root ::= (root | \"a\" root){0,300} \"b\" | (\"ab\"? root \"x\"?){20} | \"a\"".to_owned(),
        format!("root ::= \"a\" \"{}\"", "\u{e9}".repeat(24_000)),
    ] {
        let name: String = source.chars().take(60).collect();
        let Ok(grammar) = Grammar::gbnf(&source, &Limits::default()) else { continue };
        let mut matcher = Constraint::new(&grammar, words()).expect("no terminals").matcher();
        for step in 0..8 {
            let began = processor_ms();
            let mask = matcher.mask();
            let closing = matcher.closing_tokens().expect("every byte is a token");
            let within = matcher.mask_within(closing);
            if let (Some(began), Some(ended)) = (began, processor_ms()) {
                assert!(ended - began < 1000.0, "{name}: {} ms", ended - began);
            }
            assert!(within.iter().all(|token| mask.contains(token)), "{name}");
            let Some(token) = mask.iter().nth(step * 37 % mask.iter().count().max(1)) else { break };
            matcher.commit(token).expect("in the mask");
        }
    }
}
