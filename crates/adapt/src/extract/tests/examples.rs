//! Texts with an example, draft or format beside the answer.

use serde_json::{Value, json};

use crate::{AdaptOptions, Adaptation, Adapter, Tolerance};

fn order() -> Value {
    json!({
        "type": "object",
        "properties": {
            "item": { "type": "string" },
            "quantity": { "type": "integer" },
            "price": { "type": "number" },
            "gift": { "type": "boolean" },
            "notes": { "type": ["string", "null"] },
            "tags": { "type": "array", "items": { "type": "string" } },
        },
        "required": ["item", "quantity"],
        "additionalProperties": false,
    })
}

fn orders() -> Value {
    json!({ "type": "array", "items": order() })
}

fn adapted(schema: &Value, text: &str, tolerance: Tolerance) -> Adaptation {
    let options = AdaptOptions::full().with_tolerance(tolerance);
    Adapter::new(schema, options).expect("a schema").adapt(text)
}

/// Checks that a text is refused at every tolerance because it has several possible answers.
fn refuses(schema: &Value, text: &str) {
    for tolerance in [Tolerance::Strict, Tolerance::Json5, Tolerance::Repair] {
        let adaptation = adapted(schema, text, tolerance);
        assert!(!adaptation.is_valid(), "{text} at {tolerance:?}: {:?}", adaptation.value());
        let violation = &adaptation.violations()[0];
        assert_eq!(violation.keyword, "ambiguous", "{text} at {tolerance:?}: {violation}");
        assert!(violation.message.contains("line "), "{violation}");
    }
}

/// Answers in notations that are read at some tolerance or at none, or that are cut off.
const ANSWERS: [&str; 31] = [
    "{\u{201c}item\u{201d}: \u{201c}lamp\u{201d}, \u{201c}quantity\u{201d}: 2}",
    r#"{"item" => "lamp", "quantity" => 2}"#,
    "{\"item\"\u{ff1a}\"lamp\"\u{ff0c}\"quantity\"\u{ff1a}2}",
    r#"{{"item": "lamp", "quantity": 2}}"#,
    "{// see \"notes\n \"item\": \"lamp\", \"quantity\": 2}",
    "{/* \" */ \"item\": \"lamp\", \"quantity\": 2}",
    r#"{item = "lamp", quantity = 2}"#,
    r#"{"item": "lamp", "quantity": 2 pcs}"#,
    r#"{"item": "lamp, "quantity": 2}"#,
    r#"{"item": "lamp", "quantity": "two"}"#,
    "{item: lamp; quantity: <2>}",
    r#"[{"item": "lamp", "quantity": 2}]"#,
    r#"[{"item": "lamp", "quantity": 2}, {"item": "chair", "quantity": 1}]"#,
    r#"{"order": {"item": "lamp", "quantity": 2}}"#,
    r#""{\"item\": \"lamp\", \"quantity\": 2}""#,
    r#"{\"item\": \"lamp\", \"quantity\": 2}"#,
    r#""item": "lamp", "quantity": 2"#,
    "<order><item>lamp</item><quantity>2</quantity></order>",
    "<item>lamp</item>\n<quantity>2</quantity>",
    r#"<order item="lamp" quantity="2"/>"#,
    r#"Order(item="lamp", quantity=2)"#,
    "item: lamp\nquantity: 2",
    r#"{"item": "lamp", "quan"#,
    "{",
    "[",
    "[\"",
    r#"{item -> "lamp", quantity -> 2}"#,
    r#"{"item" "lamp" "quantity" 2}"#,
    "{`item`: `lamp`, `quantity`: 2}",
    "{&quot;item&quot;: &quot;lamp&quot;, &quot;quantity&quot;: 2}",
    "two lamps",
];

#[test]
fn an_example_is_not_taken_for_an_answer_in_another_notation() {
    for answer in ANSWERS {
        refuses(&order(), &format!("Example: {{\"item\": \"x\", \"quantity\": 0}}. Answer: {answer}"));
    }
    // Without words for an example and an answer, the text has the same meaning.
    for answer in [
        "| item | quantity |\n|---|---|\n| lamp | 2 |",
        "**item**: lamp\n**quantity**: 2",
        "- item: lamp\n- quantity: 2",
        r#"{"Item": "lamp", "Quantity": 2}"#,
        "item=lamp&quantity=2",
    ] {
        refuses(&order(), &format!("Example: {{\"item\": \"x\", \"quantity\": 0}}\n{answer}"));
    }
    refuses(&order(), "Beispiel: {\"item\": \"x\", \"quantity\": 0}. Antwort: zwei Lampen");
    let unmarked = ANSWERS.iter().filter(|answer| !answer.starts_with("item:") && **answer != "two lamps");
    for answer in unmarked.clone() {
        refuses(&order(), &format!("{{\"item\": \"x\", \"quantity\": 0}} or rather\n{answer}"));
        refuses(
            &order(),
            &format!("```json\n{{\"item\": \"x\", \"quantity\": 0}}\n```\nbecomes\n\n{answer}"),
        );
    }
}

#[test]
fn a_format_after_the_answer_is_not_taken() {
    let is_whole =
        |answer: &&&str| answer.contains("lamp\"") && answer.contains('2') && !answer.contains("quan\"");
    for answer in ANSWERS.iter().filter(is_whole).filter(|answer| answer.starts_with(['{', '"', '<'])) {
        refuses(&order(), &format!("Answer: {answer}. (Format: {{\"item\":\"x\",\"quantity\":0}})"));
    }
    for text in [
        r#"{"item": "lamp", "quantity": 2 pcs} is it. The format was {"item": "x", "quantity": 0}"#,
        r#"Answer: {"item": "lamp", "quantity": 2 pcs}, not {"item": "x", "quantity": 0}"#,
        r#"<order><item>lamp</item><quantity>2 pcs</quantity></order>, not {"item": "x", "quantity": 0}"#,
    ] {
        refuses(&order(), text);
    }
    refuses(&orders(), r#"Answer: [{"item": "lamp", "quantity": "2 pcs"}] (not [])"#);
    refuses(&order(), r#"Answer: {"item": "lamp", "quantity": "2 pcs"}, not {"item": "x", "quantity": 0}"#);
}

#[test]
fn an_example_of_a_list_is_not_taken_for_the_list() {
    let example = r#"[{"item":"x","quantity":0}] is an example. Answer: "#;
    for answer in [
        r#"[{"item": "lamp", "quan"#,
        r#"[{"item": "lamp", "quantity": 2 pcs}]"#,
        r#"[{"item": "lamp", "quantity": "two"}]"#,
        r#"["lamp", 2]"#,
        r#"{"item": "lamp", "quantity": 2 pcs}"#,
        r#"[{"item" => "lamp", "quantity" => 2}]"#,
        "[",
        "[[",
    ] {
        refuses(&orders(), &format!("{example}{answer}"));
    }
    refuses(&orders(), r#"[] is the default, but [{"item": "lamp", "quantity": 2 pcs}]"#);
    refuses(&orders(), r#"[{"item": "x", "quantity": 0}] but {"orders": [{"item": "lamp", "quantity": 2}]}"#);
    let words = json!({ "type": "array", "items": { "type": "string" } });
    refuses(&words, r#"["x"] at first, then ["lamp" or "desk"]"#);
    refuses(&words, r#"["x"] at first, then [["lamp"], 2]"#);
    let adaptation = adapted(&words, r#"["lamp", "desk"], as [1] and [2, 3] say."#, Tolerance::Repair);
    assert_eq!(adaptation.value(), Some(&json!(["lamp", "desk"])));
}

#[test]
fn a_bracket_in_prose_does_not_hide_the_answer() {
    for prose in [
        "Dates in [2024-01, 2024-06).",
        "Prices in [0, 1).",
        "Regex ['\"] is fine.",
        "In the set {a: 1, b answer is",
        "[\"note: the list.",
        "{\"notes\" are optional.",
        "[\u{201c}",
        "Rows [1, [2, [3.",
    ] {
        let answer = r#"Answer: {"item": "lamp", "quantity": 2}"#;
        refuses(&order(), &format!("Format: {{\"item\": \"x\", \"quantity\": 0}}. {prose} {answer}"));
        refuses(&order(), &format!("So {{\"item\": \"x\", \"quantity\": 0}}. {prose} {answer}]"));
    }
    // More brackets without an end than are scanned.
    let cut = "```\n{\"a\": \"b\n```\n".repeat(20);
    let text = format!("{{\"item\": \"x\", \"quantity\": 0}}\n{cut}{{\"item\": \"lamp\", \"quantity\": 2}}");
    refuses(&order(), &text);
}

#[test]
fn an_example_in_a_string_is_not_taken() {
    let example = r#""{\"item\": \"x\", \"quantity\": 0}""#;
    for answer in [
        r#""{\"item\": \"lamp\", \"quantity\": 2}""#,
        r#"{item = "lamp", quantity = 2}"#,
        "<order><item>lamp</item><quantity>2</quantity></order>",
    ] {
        refuses(&order(), &format!("{example} at first, then {answer}"));
    }
}

#[test]
fn members_after_an_early_end_are_not_lost() {
    let value = r#"{"item": "lamp", "quantity": 2}"#;
    for rest in [
        r#" "gift": true}"#,
        " 'gift': true}",
        r#", "gift": true}"#,
        ", 'gift': true}",
        r#"; "gift": true}"#,
        ", \u{201c}gift\u{201d}: true}",
        r#", {"gift": true}"#,
        r#" {"gift": true}"#,
        "\n{\"gift\": true}\n{\"price\": 5}",
        " and {\"gift\": true}",
        "\n\"notes\": \"x\"",
        "\nnotes: \"x\"",
        ", notes: x}",
        ", notes = x}",
        ", {\"quantity\": 3}",
        r#"}, "gift": true}"#,
        r#"], "gift": true}"#,
        r#"."gift": true}"#,
        ", [{\"gift\": true}]",
    ] {
        for tolerance in [Tolerance::Strict, Tolerance::Json5, Tolerance::Repair] {
            let adaptation = adapted(&order(), &format!("{value}{rest}"), tolerance);
            let is_whole =
                adaptation.value().is_some_and(|value| value.as_object().map_or(0, serde_json::Map::len) > 2);
            assert!(!adaptation.is_valid() || is_whole, "{rest} at {tolerance:?}: {:?}", adaptation.value());
        }
    }
    refuses(&order(), &format!("{{\"gift\": true}}, {value}"));
    refuses(&orders(), &format!("[{value}] {{\"item\": \"chair\", \"quantity\": 1}}"));
    refuses(&orders(), &format!("[{value}], {{\"item\": \"chair\", \"quantity\": 1}}]"));
    let numbers = json!({ "type": "array", "items": { "type": "integer" } });
    for text in ["[1, 2], 3, 4]", "[1, 2], 3]", "[1, 2], \"3\"]"] {
        let adaptation = adapted(&numbers, text, Tolerance::Repair);
        assert!(adaptation.value() != Some(&json!([1, 2])), "{text}");
    }
}

#[test]
fn a_final_answer_is_taken_beside_drafts_and_explanations() {
    let value = json!({ "item": "lamp", "quantity": 2 });
    let answer = value.to_string();
    for text in [
        format!("Draft {{\"item\": \"lamp\"}}, final {answer}"),
        format!("Draft {{\"item\": \"lamp\", \"quantity\": \"two\"}}, final {answer}"),
        format!("Format: {{\"item\": <string>, \"quantity\": <integer>}}. Answer: {answer}"),
        format!("Format: {{item = string, quantity = integer}}. Answer: {answer}"),
        format!("Schema: {{\"properties\": {{\"item\": {{}}, \"quantity\": {{}}}}}}. Answer: {answer}"),
        format!("Example: {answer}. Answer: {answer}"),
        format!("The answer in your format: {answer}. Anything else?"),
        format!("{answer}\n\n- item: the lamp\n- quantity: 2, as you said"),
        format!("{answer}\n\n- **item**: the lamp\n- **quantity**: 2"),
        format!("{answer}\n\n- \"item\": the lamp\n- \"quantity\": 2"),
        format!("{answer}\n\nNote: the quantity is 2."),
        format!("<answer>{answer}</answer>"),
        format!("I fill {{item, quantity}} like so: {answer} Tell me {{if}} it fits {{item, quantity}}."),
        format!("Here is an example order: {answer}. Let me know if the output is correct."),
        format!("Here is the JSON in the format you asked for:\n{answer}\nThe output is valid."),
        format!("See [1], 2, [a] and {{x}}: {answer} [3]"),
        format!("{answer}, that is [{answer}]"),
        format!("I fill `item` and `quantity`, so \"item\": \"lamp\": {answer}"),
    ] {
        for tolerance in [Tolerance::Strict, Tolerance::Json5, Tolerance::Repair] {
            let adaptation = adapted(&order(), &text, tolerance);
            let told = adaptation.violations();
            assert_eq!(adaptation.value(), Some(&value), "{text} at {tolerance:?}: {told:?}");
        }
    }
}

#[test]
fn too_many_regions_exceed_a_limit() {
    let text = "{\"item\": \"x\", \"quantity\": 0} ".repeat(1025);
    let adaptation = adapted(&order(), &text, Tolerance::Strict);
    assert_eq!(
        adaptation.violations()[0].to_string(),
        "the text has 1025 parts that look like JSON; the limit is 1024"
    );
    assert_eq!(adaptation.violations()[0].keyword, "limit");
}

/// Extraction of hostile texts takes linear time, also if the text mentions the schema's
/// properties.
#[test]
fn searches_for_other_answers_in_linear_time() {
    let size = 1 << 20;
    let of = |part: &str| part.repeat(size / part.len());
    let value = r#"{"item": "x", "quantity": 0} "#.to_owned();
    for text in [
        "{\"item\": [".to_owned() + &of("\u{201c},"),
        "{\"item\": ".to_owned() + &of("<!--"),
        "{\"item\": \"a\" ".to_owned() + &of("# "),
        of("{\"item\" <!-- }"),
        of("{\"item\" # }"),
        of("[\u{201c} ]"),
        of("{\"item\":\u{ab}}"),
        of("{\"item\": \"x\", \"quantity\": 0}\u{201c}"),
        of("{}\u{201c}"),
        of("{}'"),
        of("[], 1"),
        of("[], 1, \"2\" "),
        value.clone() + &of("\"item\": "),
        value.clone() + &of("item: "),
        value.clone() + &of("<item>"),
        value.clone() + &of("</item>"),
        value.clone() + &of("\\\"item\\\":"),
        value.clone() + &of("{\"item\":<a></} "),
        value.clone() + &of("[1] "),
        value.clone() + &of("{\"gift\":true}"),
        value.clone() + &of("{x: 1} "),
        value.clone() + &of("answer "),
        of("{item = 1, quantity = <a></} ") + &value,
        of("{item = 1, quantity = 2} ") + &value,
        of(":"),
        value.clone() + &of(" :"),
        value + &of("\" :"),
    ] {
        for tolerance in [Tolerance::Strict, Tolerance::Repair] {
            let adapter =
                Adapter::new(&order(), AdaptOptions::minimal().with_tolerance(tolerance)).expect("a schema");
            let taken = adapter.adapt(&text).elapsed();
            let begin: String = text.chars().take(60).collect();
            assert!(taken.as_secs() < 5, "{taken:?} for {begin}…");
        }
    }
}
