use super::*;

fn found(content: &str) -> String {
    match parse(content, 200_000) {
        Ok(members) => Value::Object(members).to_string(),
        Err(problem) => problem.code,
    }
}

#[test]
fn each_parse_error_has_a_code() {
    for (content, code) in [
        ("", EMPTY),
        (" \n\u{feff}", EMPTY),
        ("I cannot do that.", NO_JSON),
        ("```\n```", NO_JSON),
        ("<think>{}</think>\n", EMPTY),
        ("[{\"type\": \"a\"}]", NOT_AN_OBJECT),
        ("\"{}\"", NOT_AN_OBJECT),
        ("null", NOT_AN_OBJECT),
        ("{'assistant_text': 'a'}", INVALID_JSON),
        ("{\"assistant_text\": \"a\",}", INVALID_JSON),
        ("{\"assistant_text\": \"two\nlines\", \"directives\": []}", INVALID_JSON),
        ("{\"assistant_text\": \"a", TRUNCATED),
        ("{\"assistant_text\": \"a\", \"directives\": [{\"type\": \"x\", \"payload\": {}}", TRUNCATED),
        ("```json\n{\"assistant_text\": \"a\"\n", TRUNCATED),
        ("{", TRUNCATED),
        ("{\"assistant_text\": \"a\", \"directives\": [], \"directives\": [1]}", DUPLICATE_FIELD),
        ("so: {\"assistant_text\": \"a\", \"assistant_text\": \"b\"}", DUPLICATE_FIELD),
    ] {
        assert_eq!(found(content), code, "{content}");
    }
    assert_eq!(found("{\"a\": 1, \"a\": 2}"), r#"{"a":2}"#, "others are the caller's");
}

#[test]
fn positions_refer_to_the_whole_text() {
    let problem = parse("Hé!\n```json\n{\n  \"é\": oops\n}\n```", 1000).expect_err("broken");
    assert_eq!(problem.message, "line 4, column 8: expected value");
    assert_eq!(problem.details.as_deref(), Some(&json!({ "line": 4, "column": 8 })));
    let problem = parse("{\"a\": [1,\n2", 1000).expect_err("broken");
    assert_eq!(problem.message, "the JSON is cut off at line 2, column 1");
}

#[test]
fn limits_the_size_in_bytes() {
    let content = "é".repeat(5);
    assert_eq!(parse(&content, 10).expect_err("prose").code, NO_JSON);
    let problem = parse(&content, 9).expect_err("too large");
    assert_eq!(
        (problem.code.as_str(), problem.details.as_deref()),
        (TOO_LARGE, Some(&json!({ "given": 10, "limit": 9 })))
    );
}
