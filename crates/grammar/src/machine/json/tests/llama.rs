//! Tests that written grammars keep within the limit of llama.cpp's parser on repetitions.
//!
//! The parser refuses a repetition if its count, multiplied by the number of symbols that its item
//! adds, is 2,000 or more. The first use of a rule's name adds a symbol, and so do a group and each
//! optional part of a repetition. A repeated literal, class or name counts as one symbol.

use rustc_hash::FxHashSet;
use serde_json::{Value, json};

use super::oracle::{Random, schema};
use crate::frontend::gbnf;
use crate::frontend::json_schema::Schemas;
use crate::ir::expr::{Expr, RuleId};
use crate::{Formats, Grammar, Limits, SchemaOptions};

/// Product of count and symbols at which the parser refuses a repetition.
const THRESHOLD: usize = 2000;

#[derive(Default)]
struct Counter {
    names: FxHashSet<RuleId>,
    symbols: usize,
    most: usize,
}

impl Counter {
    fn read(&mut self, expr: &Expr) {
        match expr {
            Expr::Literal(_) | Expr::Class(_) | Expr::Bytes(_) => {}
            Expr::Rule(rule) => self.symbols += usize::from(self.names.insert(*rule)),
            Expr::Sequence(parts) | Expr::Alternatives(parts) => {
                for part in parts {
                    // A sequence in a sequence and alternatives inside another expression are groups.
                    let is_group = matches!(
                        (expr, part),
                        (_, Expr::Alternatives(_)) | (Expr::Sequence(_), Expr::Sequence(_))
                    );
                    self.symbols += usize::from(is_group);
                    self.read(part);
                }
            }
            Expr::Repeat { expr, min, max } => {
                let before = self.symbols;
                let is_group =
                    matches!(**expr, Expr::Sequence(_) | Expr::Alternatives(_) | Expr::Repeat { .. });
                self.symbols += usize::from(is_group);
                self.read(expr);
                let brought = if is_group { self.symbols - before } else { 1 };
                let total = max.filter(|max| *max > 0).unwrap_or((*min).max(1)) as usize;
                self.most = self.most.max(brought * total);
                self.symbols += max.map_or(1, |max| (max - min) as usize);
            }
        }
    }
}

/// Returns the largest product of count and symbols among the repetitions of a grammar.
fn largest_repetition(text: &str) -> usize {
    let rules = gbnf::parse(text, Schemas::alone(SchemaOptions::default()), &Limits::default()).expect(text);
    let mut counter = Counter::default();
    for expr in &rules.exprs {
        counter.read(expr);
    }
    counter.most
}

fn check(schema: &Value) -> bool {
    let options = SchemaOptions { formats: Formats::Assert, ..SchemaOptions::default() };
    let Ok(grammar) = Grammar::json_schema(schema, &options, &Limits::default()) else { return false };
    let Ok(text) = grammar.to_gbnf() else { return false };
    let most = largest_repetition(&text);
    assert!(most < THRESHOLD, "{most}: {schema}\n{}", text.get(..4000).unwrap_or(&text));
    true
}

#[test]
fn counts_symbols_as_llama_cpp_does() {
    assert_eq!(largest_repetition("root ::= [a-z]{0,1999}"), 1999);
    assert_eq!(largest_repetition("root ::= (a b?){100}\na ::= \"a\"\nb ::= a"), 400);
    assert_eq!(largest_repetition("root ::= ([a]{0,1999})?"), 2000);
    assert!(largest_repetition("root ::= ([a]{0,1000}){0,4}") > THRESHOLD);
}

#[test]
fn written_counts_multiply_to_less_than_the_bound() {
    for (least, most) in [(0, 999), (0, 2000), (900, 4096), (0, 5000), (3000, 100_001)] {
        let text = json!({ "type": "string", "minLength": least, "maxLength": most });
        assert!(check(&text), "{text}");
        let array = json!({ "type": "array", "items": { "type": "null" }, "maxItems": most });
        assert!(check(&array), "{array}");
        check(&json!({ "type": "array", "items": text, "maxItems": most }));
        check(&json!({ "type": "array", "items": array, "minItems": 3, "maxItems": 60 }));
        check(&json!({ "type": "object", "properties": { "a": text, "b": array } }));
    }
    for pattern in ["^[a-z]{0,4096}$", "^([a-z]{1,60}-){0,20}$", "^(a{500}b{500}){3}$"] {
        let item = json!({ "type": "string", "pattern": pattern });
        assert!(check(&item), "{item}");
        check(&json!({ "type": "array", "items": item, "maxItems": 2500 }));
    }
}

#[test]
fn written_counts_of_random_schemas_keep_to_the_bound() {
    let random = &mut Random(0x5851_f42d_4c95_7f2d);
    let mut checked = 0;
    for _ in 0..20 {
        let schema = schema(random, 3);
        let nested = json!({ "type": "array", "items": schema, "maxItems": 1500 });
        checked += usize::from(check(&nested));
    }
    assert!(checked > 10, "{checked}");
}

/// Counts in the rules of a GBNF source are written within the limit too.
#[test]
fn counts_of_grammars_are_written_within_the_bound() {
    for (source, yes, no) in [
        ("root ::= ((\"a\" \"b\"){0,900} \"c\"){2,3}", "ababccabc", "abc"),
        ("root ::= (\"a\"{1500} \"b\"){2}", "", "ab"),
        ("root ::= \"a\"{3000,}", "", "a"),
        ("root ::= x{2100}\nx ::= \"a\" | \"b\"?", "ab", "c"),
        ("root ::= (\"x\" (\"a\"? \"b\"){0,1200})?", "xabb", "xa"),
        ("root ::= ((\"a\"{0,50}){0,50}){0,50} \"b\"", "aaab", "ba"),
    ] {
        let text = Grammar::gbnf(source, &Limits::default()).expect(source).to_gbnf().expect(source);
        assert!(largest_repetition(&text) < THRESHOLD, "{text}");
        let again = Grammar::gbnf(&text, &Limits::default()).expect(&text);
        assert!(yes.is_empty() || again.accepts(yes.as_bytes()), "{text}");
        assert!(!again.accepts(no.as_bytes()), "{text}");
    }
}
