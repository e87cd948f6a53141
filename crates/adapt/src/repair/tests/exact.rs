//! Numbers and names are read exactly or refused.

use super::*;

fn any() -> Shape {
    Shape::of_schema(json!({ "type": "object", "properties": { "id": {}, "a": {} } }), "any")
        .expect("a schema")
}

#[test]
fn rejects_numbers_out_of_range_with_their_place() {
    for (text, place) in [
        (r#"{"id": 12345678901234567890123}"#, "id"),
        (r#"Here: {"a": {"b": [1, -9223372036854775809]}} and more"#, "a.b.1"),
        ("<think>so</think>{\"a\": [1e400]}", "a.0"),
    ] {
        let reading = any().read(text);
        assert_eq!(reading.value, None, "{text}");
        let told = format!("Field \"{place}\": the number fits neither a 64-bit integer nor a double");
        assert_eq!(reading.errors, [told], "{text}");
    }
    let list = Shape::of_schema(json!({ "type": "array" }), "list").expect("a schema");
    for text in ["[1, 12345678901234567890123]", "So:\n```\n[1, 12345678901234567890123]\n```\n"] {
        let told = ["Field \"1\": the number fits neither a 64-bit integer nor a double"];
        assert_eq!(list.read(text).errors, told, "{text}");
    }
    let reading = list.read("So:\n```\n[1, 12345678901234567890123]\n```\n```\n[1]\n```");
    assert_eq!(reading.value, None);
    assert!(reading.errors[0].contains("ambiguous: the values at line 3"), "{:?}", reading.errors);
}

#[test]
fn rejects_duplicate_names_with_their_place() {
    for (text, place, name) in [
        (r#"{"id": 1, "id": 2}"#, "id", "id"),
        (r#"{"a": [{"x": {"to": "Ann", "to": "Bob"}}]}"#, "a.0.x.to", "to"),
        (r#"So: {"a": {"\u0062": 1, "b": 2}} "#, "a.b", "b"),
    ] {
        let reading = any().read(text);
        assert_eq!(reading.value, None, "{text}");
        assert_eq!(reading.errors, [format!("Field \"{place}\": duplicate name `{name}`")], "{text}");
    }
    let shape = Shape::tool_calls();
    let text = r#"{"toolCalls": [{"name": "pay", "arguments": {"to": "Ann", "to": "Bob"}}]}"#;
    assert_eq!(shape.read(text).errors, ["Field \"toolCalls.0.arguments.to\": duplicate name `to`"]);
}

#[test]
fn rounds_to_the_nearest_double() {
    for text in [
        "0.1234567890123456789",
        "7.2057594037927933e16",
        "8.10109172351e-10",
        "123456789012345680e-3",
        "1.0715660391465826e-75",
    ] {
        let expected: f64 = text.parse().expect("a number");
        let value = any().read(&format!("{{\"id\": {text}}}")).value.expect("a value");
        assert_eq!(value["id"].as_f64().map(f64::to_bits), Some(expected.to_bits()), "{text}");
    }
}

#[test]
fn xml_calls_lose_no_data() {
    let shape = Shape::tool_calls();
    let big = "12345678901234567890123";
    let wrapped = |inner: &str| format!("<function_calls>{inner}</function_calls>");
    let parameter = |text: &str| {
        wrapped(&format!("<invoke name=\"pay\"><parameter name=\"ids\">{text}</parameter></invoke>"))
    };
    for (text, told) in [
        (parameter(&format!("[1, {big}]")), "the number fits neither a 64-bit integer nor a double"),
        (parameter("{\"to\": 1, \"to\": 2}"), "duplicate name `to`"),
        (
            wrapped(&format!("{{\"name\": \"pay\", \"arguments\": {{\"id\": {big}}}}}")),
            "neither a 64-bit integer",
        ),
        (
            wrapped("{\"name\": \"pay\", \"arguments\": \"{\\\"to\\\": 1, \\\"to\\\": 2}\"}"),
            "duplicate name `to`",
        ),
        (wrapped("[{\"name\": \"pay\", \"name\": \"ask\", \"arguments\": {}}]"), "duplicate name `name`"),
    ] {
        let reading = shape.read(&text);
        assert_eq!(reading.value, None, "{text}");
        assert!(reading.errors[0].contains(told), "{text}: {:?}", reading.errors);
    }
    let value = shape.read(&parameter(big)).value.expect("a value");
    assert_eq!(value["toolCalls"][0]["arguments"]["ids"], big, "a number alone stays as it is written");
}
