//! Tests of several `contains` that apply to the same array.

use serde_json::{Value, json};

use super::tables::check;
use super::{accepts, close, machine, run};
use crate::machine::{Config, Machine};
use crate::options::{Layout, SchemaOptions};

fn compact() -> SchemaOptions {
    SchemaOptions { layout: Layout::Compact, ..SchemaOptions::default() }
}

/// Returns a schema for arrays of strings that contain each of `words`.
fn containing(words: &[String]) -> Value {
    let all: Vec<Value> = words.iter().map(|word| json!({"contains": {"const": word}})).collect();
    json!({"type": "array", "items": {"type": "string"}, "allOf": all})
}

fn words(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("w{at}")).collect()
}

#[test]
fn each_of_many_constants_is_contained() {
    for count in [5, 16, 32] {
        let words = words(count);
        let mut machine = machine(&containing(&words), SchemaOptions::accept()).unwrap();
        let text = |words: &[String]| serde_json::to_string(words).unwrap();
        assert!(accepts(&mut machine, text(&words)));
        let reversed: Vec<_> = words.iter().rev().flat_map(|word| [word.clone(), "x".to_owned()]).collect();
        assert!(accepts(&mut machine, text(&reversed)));
        assert!(!accepts(&mut machine, text(&words[1..])));
        assert!(!accepts(&mut machine, text(&[&words[1..], &words[1..]].concat())));
    }
}

/// The shortest completion has the computed length, and the possible readings of an item do not
/// multiply the threads.
#[test]
fn many_counts_close_in_what_is_missing() {
    let words = words(20);
    let mut machine = machine(&containing(&words), compact()).unwrap();
    let mut config = machine.start();
    assert_eq!(close(&mut machine, config).len(), serde_json::to_string(&words).unwrap().len());
    for (at, word) in words.iter().enumerate() {
        for byte in format!("{}\"{word}\"", if at == 0 { "[" } else { "," }).bytes() {
            config = machine.step(config, byte);
            assert_ne!(config, Config::DEAD);
            assert!(machine.threads(config) <= 21, "{} threads in {word}", machine.threads(config));
        }
        assert_eq!(machine.threads(config), 1);
        let rest = close(&mut machine, config);
        assert_eq!(rest.len(), 1 + words[at + 1..].iter().map(|word| word.len() + 3).sum::<usize>());
    }
}

#[test]
fn counts_are_exact() {
    let both = json!({"type": "array", "maxItems": 3, "items": {"enum": [1, 2, 3]}, "allOf": [
        {"contains": {"const": 1}, "minContains": 2},
        {"contains": {"const": 2}},
        {"contains": {"const": 3}, "minContains": 0, "maxContains": 0}
    ]});
    let (few, most) =
        (json!({"contains": {"const": 1}}), json!({"contains": {"const": 2}, "maxContains": 1}));
    check(vec![
        (both, SchemaOptions::accept(), &["[1, 1, 2]", "[2, 1, 1]"], &["[1, 2]", "[1, 2, 2", "[3", "[2, 2"]),
        (
            json!({"type": "array", "minItems": 3, "allOf": [few, most]}),
            SchemaOptions::accept(),
            &["[1, 2, 1]", "[2, 1, null]"],
            &["[1, 2]", "[1, 2, 2", "[1, 3, 3]", "[2, 2"],
        ),
        (
            json!({"type": "array", "contains": {"type": "string"}, "minContains": 2, "allOf": [
                {"contains": {"type": "string"}, "maxContains": 3}, {"contains": {"const": "a"}}
            ]}),
            SchemaOptions::accept(),
            &["[\"a\", \"b\"]", "[1, \"b\", \"a\", \"\"]"],
            &["[\"a\"]", "[\"b\", \"c\"]", "[\"\", \"\", \"\", \"", "[\"b\", \"c\", \"d"],
        ),
    ]);
}

#[test]
fn limits_counts_of_items() {
    let patterns = (0..9).map(|at| json!({"contains": {"pattern": format!("x{at}")}})).collect::<Vec<_>>();
    let rows = [
        containing(&words(33)),
        json!({"type": "array", "items": {"type": "string"}, "allOf": patterns}),
        json!({"type": "array", "contains": {"const": 1}, "minContains": 5000}),
        json!({"type": "array", "prefixItems": [{"const": 7}], "contains": {"const": 1}, "minContains": 900,
            "minItems": 4000}),
    ];
    let errors = rows.iter().map(|schema| machine(schema, compact()).unwrap_err().to_string());
    insta::assert_snapshot!(errors.collect::<Vec<_>>().join("\n"), @r"
    #/allOf/32/contains: `contains`: 33 `contains` conditions for one array, more than the limit of 32
    #/allOf/8/contains: `contains`: 512 combinations of subschemas that one item may satisfy, more than the limit of 256
    #/contains: `contains`: a count of items above 4096 is not supported
    #/contains: `contains`: 65537 transitions between item counts, more than the limit of 65536
    ");
}

/// Every prefix of a valid text can be completed.
#[test]
fn every_beginning_of_a_valid_text_is_alive() {
    let schema = containing(&words(6));
    let mut machine = machine(&schema, compact()).unwrap();
    let text = br#"["w5","w","w3","w0","w0","w4","w1","w22","w2"]"#;
    for end in 0..=text.len() {
        let (config, _) = run(&mut machine, &text[..end]);
        assert_ne!(config, Config::DEAD);
        close(&mut machine, config);
    }
}
