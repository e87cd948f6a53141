//! Checks on canonical text that the grammar, schema and validator of random definitions agree.
//! Also checks that definitions survive a round trip through each format.

use formwork_fields::{Definition, Format, SchemaOptions as Export};
use formwork_grammar::{Grammar, Limits, SchemaOptions};
use formwork_tests::random::Random;
use formwork_tests::random::fields::{self, Values, canonical};

use super::llama;

const DEFINITIONS: u64 = 5000;

/// Number of matching values per definition, and of values that may not match.
const VALUES: usize = 3;

#[test]
fn grammar_schema_and_validator_agree_on_canonical_text() {
    let mut verdicts = [0u32; 2];
    for seed in 0..DEFINITIONS {
        let definition = fields::definition(&mut Random::new(seed));
        let told = |text: &str| {
            format!(
                "seed {seed}, {text}\n{}\n{}",
                definition.gbnf(),
                definition.to_text(Format::Json).unwrap()
            )
        };
        let grammar =
            definition.grammar(&Limits::default()).unwrap_or_else(|error| panic!("{}: {error}", told("")));
        assert!(grammar.warnings().is_empty(), "{}: {:?}", told(""), grammar.warnings());
        let repetition = llama::largest_repetition(&definition.gbnf());
        assert!(repetition < 2000, "{}: {repetition}", told(""));
        let portable = definition.schema();
        let portable =
            jsonschema::validator_for(&portable).unwrap_or_else(|error| panic!("{}: {error}", told("")));
        let is_open = !definition.open_steps().is_empty();
        let schema = definition.schema_with(Export { multiple_of: true });
        let by_schema = Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default());
        let by_schema = by_schema.unwrap_or_else(|error| panic!("{}: {error}", told("")));
        let schema =
            jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{}: {error}", told("")));
        let verdict_of = |text: &str| {
            let value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", told(text)));
            (schema.is_valid(&value), definition.validate(text).is_empty())
        };
        for bent in [0, 12, 5] {
            let mut values = Values::new(&definition, Random::new(seed ^ 0x5eed), bent);
            for _ in 0..VALUES {
                let text = canonical(&values.value());
                let accepted = grammar.accepts(text.as_bytes());
                assert_eq!((accepted, accepted), verdict_of(&text), "{}", told(&text));
                assert_eq!(accepted, by_schema.accepts(text.as_bytes()), "{}", told(&text));
                let is_portable = portable.is_valid(&serde_json::from_str(&text).expect("JSON"));
                assert!(is_portable == accepted || (is_portable && is_open), "{}", told(&text));
                verdicts[usize::from(accepted)] += 1;
            }
        }
        for output in grammar.samples(seed).max_bytes(2000 + grammar.shortest().len()).take(VALUES) {
            let text = String::from_utf8(output).expect("UTF-8");
            assert_eq!(verdict_of(&text), (true, true), "{}", told(&text));
            assert!(by_schema.accepts(text.as_bytes()), "{}", told(&text));
        }
    }
    let [invalid, valid] = verdicts;
    eprintln!("{valid} values were valid and {invalid} were not");
    assert!(valid > 20_000 && invalid > 8000, "{valid} valid, {invalid} invalid");
}

#[test]
fn definitions_are_the_same_after_every_format() {
    let mut in_csharp = 0;
    for seed in 0..DEFINITIONS {
        let definition = fields::definition(&mut Random::new(seed));
        for format in [Format::Json, Format::Yaml, Format::Toml] {
            let text = definition.to_text(format).expect("written");
            let read = Definition::parse(&text, format);
            assert_eq!(read.as_ref(), Ok(&definition), "seed {seed}:\n{text}");
        }
        if let Ok(text) = definition.to_text(Format::CSharp) {
            let read = Definition::parse(&text, Format::CSharp);
            assert_eq!(read.as_ref(), Ok(&definition), "seed {seed}:\n{text}");
            in_csharp += 1;
        }
        let value = serde_json::to_value(&definition).expect("written");
        assert_eq!(serde_json::from_value::<Definition>(value).expect("read"), definition);
    }
    assert!(in_csharp > 100, "{in_csharp}");
}
