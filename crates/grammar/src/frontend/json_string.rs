//! Texts of another grammar as JSON strings.
//!
//! Each character is spelt as in the strings of the generate profile: `"`, `\` and control characters have
//! one escape each, and all other characters stand for themselves. So a text has exactly one spelling, and
//! the grammar of the texts becomes the grammar of their spellings if each character is replaced on its own.

use crate::GrammarError;
use crate::error::Kind;
use crate::ir::expr::{Expr, Rules};
use crate::ledger::Ledger;
use crate::machine::json::spelling;

/// Cost of one character class, in ledger steps.
const CLASS: usize = 128;

/// Returns rules for the JSON strings whose decoded texts `rules` match.
///
/// # Errors
/// Returns an error if the rules have JSON Schemas, token terminals or bytes that are not UTF-8, or if a
/// limit is exceeded.
pub(super) fn quoted(mut rules: Rules, ledger: &Ledger) -> Result<Rules, GrammarError> {
    if !rules.texts.is_empty() {
        return Err(unsupported("a raw string"));
    }
    if !rules.schemas.is_empty() {
        return Err(unsupported("a JSON Schema"));
    }
    if !rules.tokens.is_empty() {
        return Err(unsupported("a token"));
    }
    for expr in &mut rules.exprs {
        let before = std::mem::replace(expr, Expr::empty());
        *expr = spelt(before, ledger)?;
    }
    let quote = || Expr::Literal(b"\"".into());
    let text = Expr::Rule(rules.root);
    rules.exprs.push(Expr::Sequence(vec![quote(), text, quote()]));
    rules.names.push("json-string".to_owned());
    rules.root.0 = rules.exprs.len() as u32 - 1;
    Ok(rules)
}

/// Replaces each character by its spelling.
fn spelt(expr: Expr, ledger: &Ledger) -> Result<Expr, GrammarError> {
    let all = |parts: Vec<Expr>| -> Result<Vec<Expr>, GrammarError> {
        parts.into_iter().map(|part| spelt(part, ledger)).collect()
    };
    Ok(match expr {
        Expr::Literal(bytes) => {
            let text = String::from_utf8(bytes).map_err(|_| unsupported("bytes that are not UTF-8"))?;
            let string = serde_json::Value::String(text).to_string();
            Expr::Literal(string[1..string.len() - 1].into())
        }
        Expr::Class(ranges) => class(&ranges, ledger)?,
        Expr::Bytes(ranges) => {
            if ranges.iter().any(|(_, high)| !high.is_ascii()) {
                return Err(unsupported("bytes that are not UTF-8"));
            }
            class(&ranges, ledger)?
        }
        Expr::Rule(_) => expr,
        Expr::Sequence(parts) => Expr::Sequence(all(parts)?),
        Expr::Alternatives(parts) => Expr::Alternatives(all(parts)?),
        Expr::Repeat { expr, min, max } => Expr::Repeat { expr: Box::new(spelt(*expr, ledger)?), min, max },
    })
}

/// Returns an expression for the spelling of one character in `ranges`.
fn class(
    ranges: &[(impl Into<u32> + Copy, impl Into<u32> + Copy)],
    ledger: &Ledger,
) -> Result<Expr, GrammarError> {
    ledger.spend(CLASS + ranges.len())?;
    let ranges: Vec<(u32, u32)> = ranges.iter().map(|&(low, high)| (low.into(), high.into())).collect();
    Ok(spelling(&ranges))
}

fn unsupported(what: &'static str) -> GrammarError {
    Kind::JsonString { what }.into()
}

#[cfg(test)]
mod tests {
    use formwork_vocab::TokenId;
    use serde_json::json;

    use crate::{Grammar, GrammarError, Limits, Part, SchemaOptions, Trigger};

    fn compiled(part: Part) -> Result<Grammar, GrammarError> {
        let part = Part::JsonString(Box::new(part));
        Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default())
    }

    fn accepts(part: &Part, text: &str) -> bool {
        let grammar = compiled(part.clone()).unwrap_or_else(|error| panic!("{part:?}: {error}"));
        grammar.accepts(json!(text).to_string().as_bytes())
    }

    #[test]
    fn a_string_decodes_to_a_text_of_the_grammar() {
        let texts =
            ["", "a", "\"", "\\", "\n", "a\tb", "é\u{1f600}", "\u{7f}\u{2028}", "\u{1}\u{1f}", "/", "aa"];
        for pattern in [r#"["\\]*"#, r"[\s\S]", r"[^a]*", r"\P{ASCII}+", r"a(\tb)?", r"[\x00-\x1f]+", "/|"] {
            let plain = Grammar::regex(pattern, &Limits::default()).expect(pattern);
            let part = Part::Regex(pattern.to_owned());
            for text in texts {
                let expected = plain.accepts(text.as_bytes());
                assert_eq!(accepts(&part, text), expected, "{pattern}: {text:?}");
            }
        }
    }

    #[test]
    fn each_text_has_one_spelling() {
        let any = compiled(Part::any_text()).expect("any text");
        for text in [r#""a\nb""#, r#""\u001f""#, r#""\b\f\r""#, "\"é/\"", r#""\"\\""#] {
            assert!(any.accepts(text.as_bytes()), "{text}");
        }
        for text in
            [r#""\u00e9""#, r#""\/""#, r#""\u000a""#, r#""\u001F""#, "\"\n\"", r#"""""#, r#""\""#, "a", "\"a"]
        {
            assert!(!any.accepts(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn every_kind_of_text_can_be_in_a_string() {
        let gbnf = Part::Gbnf("root ::= \"say \\\"\" root? \"\\\"\" [\\n]".to_owned());
        assert!(accepts(&gbnf, "say \"say \"\"\n\"\n") && !accepts(&gbnf, "say \"\""));
        let choices = Part::Choices(vec!["\\d".to_owned(), "\"".to_owned()]);
        assert!(accepts(&choices, "\\d") && accepts(&choices, "\"") && !accepts(&choices, "\\"));
        let triggers = vec![(Trigger::Text("\n\"".to_owned()), Part::literal("end\n"))];
        let text = Part::Text { triggers, may_end: false };
        assert!(accepts(&text, "a\nb\\\n\"end\n") && !accepts(&text, "a\n\"b"));
        let list = Part::List {
            item: Box::new(Part::literal("\"")),
            separator: Box::new(Part::literal("\n")),
            max: Some(2),
        };
        assert!(accepts(&list, "\"\n\"") && !accepts(&list, "\"\n\"\n\""));
        let inner = Part::JsonString(Box::new(Part::literal("a\"\n")));
        assert!(accepts(&inner, r#""a\"\n""#) && !accepts(&inner, "a\"\n"));
        // The syntax of the `regex` crate has classes of bytes.
        assert!(accepts(&Part::Regex(r"(?-u:[\x00-\x7f])+".to_owned()), "\"\\\n"));
    }

    #[test]
    fn is_a_part_among_others() {
        let input = Part::JsonString(Box::new(Part::Regex("[^b]+".to_owned())));
        let call = Part::sequence([Part::literal("{\"input\": "), input, Part::literal("}")]);
        let grammar =
            Grammar::of_parts(&call, &SchemaOptions::default(), &Limits::default()).expect("a call");
        assert!(grammar.accepts(br#"{"input": "say \"x\""}"#));
        assert!(!grammar.accepts(br#"{"input": "b"}"#) && !grammar.accepts(br#"{"input": ""}"#));
    }

    #[test]
    fn refuses_what_is_no_text() {
        let schema = Part::Json(json!({ "type": "integer" }).into());
        let end =
            Part::Text { triggers: vec![(Trigger::Token(TokenId(7)), Part::literal(""))], may_end: true };
        for (part, what) in [
            (schema.clone(), "a JSON Schema"),
            (Part::JsonObject, "a JSON Schema"),
            (Part::Gbnf("root ::= \"a\" %json {\"type\": \"null\"}".to_owned()), "a JSON Schema"),
            (Part::Token(TokenId(3)), "a token"),
            (Part::Gbnf("root ::= \"a\" <[3]>".to_owned()), "a token"),
            (end, "a token"),
        ] {
            let error = compiled(Part::sequence([Part::literal("a"), part])).expect_err(what).to_string();
            assert_eq!(error, format!("a grammar within a JSON string cannot contain {what}"));
        }
        let error = compiled(Part::at("tools[0]", schema)).expect_err("a schema").to_string();
        assert_eq!(error, "a grammar within a JSON string cannot contain a JSON Schema");
    }

    #[test]
    fn errors_of_the_grammar_keep_their_place() {
        let error = compiled(Part::Regex("(a".to_owned())).expect_err("an open group").to_string();
        assert_eq!(error, "regex, offset 0: a group is not closed");
        let error = compiled(Part::Regex("a^b".to_owned())).expect_err("nothing").to_string();
        assert!(error.starts_with("no output can satisfy the grammar"), "{error}");
    }
}
