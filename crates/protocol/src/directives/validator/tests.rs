use super::*;
use crate::directives::{Definition, Registry};

fn options() -> StructuredOutputOptions {
    let toast = json!({
        "properties": { "message": { "type": "string" }, "level": { "enum": ["info", "error"] } },
        "required": ["message"],
    });
    let definitions = vec![
        Definition { aliases: vec!["show_form".to_owned()], ..Definition::new("ui.show_form") },
        Definition { payload_schema: Some(toast), ..Definition::new("ui.toast") },
        Definition { patch: true, ..Definition::new("ui.patch") },
    ];
    StructuredOutputOptions::new(Registry::new(definitions).expect("a registry")).with_payload_validator(
        |kind, payload| {
            let form_id = payload.get("form_id").and_then(Value::as_str).unwrap_or_default();
            let missing = kind == "ui.show_form" && form_id.trim().is_empty();
            missing.then(|| Issue::new("MISSING_FORM_ID")).into_iter().collect()
        },
    )
}

#[allow(clippy::needless_pass_by_value, reason = "cases are written where they are used")]
fn validate(options: &StructuredOutputOptions, envelope: Value) -> Result<Envelope, Problem> {
    Validator::new(options).validate(envelope.as_object().cloned().expect("an object"))
}

/// Returns the valid directives, and the code and index of each warning.
#[allow(clippy::needless_pass_by_value, reason = "cases are written where they are used")]
fn read(options: &StructuredOutputOptions, directives: Value) -> (Value, Vec<(String, Option<usize>)>) {
    let envelope = json!({ "assistant_text": "", "directives": directives });
    let envelope = validate(options, envelope).expect("an envelope");
    let warnings = envelope.warnings.into_iter().map(|warning| (warning.code, warning.index));
    (serde_json::to_value(envelope.directives).expect("data"), warnings.collect())
}

#[test]
fn the_envelope_requires_both_fields() {
    for (envelope, code, message) in [
        (json!({ "directives": [] }), "MISSING_FIELD", "missing `assistant_text`"),
        (json!({ "assistant_text": "" }), "MISSING_FIELD", "missing `directives`"),
        (
            json!({ "assistant_text": null, "directives": [] }),
            "INVALID_FIELD",
            "`assistant_text` is null, not a string",
        ),
        (
            json!({ "assistant_text": "", "directives": {} }),
            "INVALID_FIELD",
            "`directives` is an object, not an array",
        ),
    ] {
        let problem = validate(&options(), envelope).expect_err("no envelope");
        assert_eq!((problem.code.as_str(), problem.message.as_str()), (code, message));
        assert_eq!(problem.category, ProblemCategory::Envelope);
    }
    let empty = validate(&options(), json!({ "assistant_text": "", "directives": [] })).expect("an envelope");
    assert_eq!(empty, Envelope { assistant_text: String::new(), directives: vec![], warnings: vec![] });
}

#[test]
fn drops_unusable_directives_with_a_warning() {
    let form = json!({ "type": "ui.show_form", "payload": { "form_id": "f", "more": [1] } });
    let directives = json!([
        7,
        { "payload": {} },
        { "type": 7, "payload": {} },
        { "type": "ui.close", "payload": {} },
        { "type": "ui.toast" },
        { "type": "ui.toast", "payload": "Hi" },
        { "type": "ui.toast", "payload": { "message": "Hi", "level": "loud" } },
        form,
        { "type": "ui.show_form", "payload": { "form_id": " " } },
        { "type": "ui.patch", "payload": { "ops": [{ "op": "set", "path": "/other/a", "value": 1 }] } },
        { "type": "ui.patch", "payload": {} },
    ]);
    let (kept, warnings) = read(&options(), directives);
    assert_eq!(kept, json!([form]));
    let expected = [
        ("NOT_AN_OBJECT", 0),
        ("MISSING_TYPE", 1),
        ("INVALID_TYPE", 2),
        ("UNKNOWN_TYPE", 3),
        ("MISSING_PAYLOAD", 4),
        ("INVALID_PAYLOAD", 5),
        ("PAYLOAD_SCHEMA", 6),
        ("MISSING_FORM_ID", 8),
        ("INVALID_PATH", 9),
        ("OPS_NOT_AN_ARRAY", 10),
    ];
    assert_eq!(warnings, expected.map(|(code, index)| (code.to_owned(), Some(index))));
}

#[test]
fn a_warning_has_all_details() {
    let envelope = json!({
        "assistant_text": "",
        "directives": [{ "type": "ui_toast", "payload": { "level": "loud" } }],
        "thought": "hm",
    });
    let warnings = validate(&options(), envelope).expect("an envelope").warnings;
    insta::assert_snapshot!(format!("{:#}", serde_json::to_value(&warnings).expect("data")));
    let told: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn resolves_names_to_types() {
    let payload = json!({ "form_id": "f" });
    for given in ["ui.show_form", "ui_show_form", "ui-show-form", "show_form"] {
        let (kept, warnings) = read(&options(), json!([{ "type": given, "payload": payload }]));
        assert_eq!((kept, warnings), (json!([{ "type": "ui.show_form", "payload": payload }]), vec![]));
    }
    let only = options().with_allowed_types(["ui.toast"]).expect("a type");
    let (kept, warnings) = read(&only, json!([{ "type": "show_form", "payload": payload }]));
    assert_eq!((kept, warnings), (json!([]), vec![("TYPE_NOT_ALLOWED".to_owned(), Some(0))]));
    let any = StructuredOutputOptions::new(Registry::default());
    let (kept, _) = read(&any, json!([{ "type": "what.ever", "payload": {} }]));
    assert_eq!(kept, json!([{ "type": "what.ever", "payload": {} }]));
}

#[test]
fn keeps_unknown_fields_in_payloads_only() {
    let payload = json!({ "message": "Hi", "icon": { "name": "x" } });
    let directives = json!([{ "type": "ui.toast", "payload": payload, "id": 1 }]);
    let (kept, warnings) = read(&options(), directives);
    assert_eq!(kept, json!([{ "type": "ui.toast", "payload": payload }]));
    assert_eq!(warnings, [("UNKNOWN_FIELD".to_owned(), Some(0))]);
}

#[test]
fn normalizes_payloads_before_validation() {
    let directives =
        json!([{ "type": "ui.patch", "payload": { "ops": { "op": "add", "path": "name", "value": 1 } } }]);
    let (kept, warnings) = read(&options(), directives);
    assert_eq!(warnings, []);
    assert_eq!(kept[0]["payload"], json!({ "ops": [{ "op": "set", "path": "/draft/name", "value": 1 }] }));
    let options = options().with_payload_normalizer(|kind, payload| {
        if kind == "ui.toast"
            && let Some(text) = payload.shift_remove("text")
        {
            payload.insert("message".to_owned(), text);
        }
    });
    let (kept, warnings) = read(&options, json!([{ "type": "ui.toast", "payload": { "text": "Hi" } }]));
    assert_eq!((&kept[0]["payload"], warnings), (&json!({ "message": "Hi" }), vec![]));
}

#[test]
fn the_text_is_never_a_thought_or_a_bracket() {
    for (text, expected, code) in [
        ("<think>They want a form.</think>\n\nHere.", "Here.", Some("THOUGHT_REMOVED")),
        ("<think>They want", "", Some("THOUGHT_REMOVED")),
        ("[", "", None),
        ("{}", "", None),
        (":)", ":)", None),
        ("", "", None),
        (" [1] Here. ", " [1] Here. ", None),
    ] {
        let envelope = validate(&options(), json!({ "assistant_text": text, "directives": [] }));
        let envelope = envelope.expect("an envelope");
        assert_eq!(envelope.assistant_text, expected);
        assert_eq!(envelope.warnings.first().map(|warning| warning.code.as_str()), code, "{text}");
    }
}

#[test]
fn reads_payloads_in_other_forms() {
    let ops = json!([{ "op": "set", "path": "/draft/a", "value": 1 }]);
    for payload in [
        json!({ "patch": [{ "path": "a", "value": 1 }] }),
        json!({ "operations": r#"[{"op": "add", "path": "a", "value": 1}]"# }),
        json!([{ "path": "a", "value": 1 }]),
        json!(r#"{"ops": [{"path": "a", "value": 1}]}"#),
    ] {
        let (directives, warnings) = read(&options(), json!([{ "type": "ui.patch", "payload": payload }]));
        assert_eq!((&directives[0]["payload"], warnings.len()), (&json!({ "ops": ops }), 0), "{payload}");
    }
    let text = json!([{ "type": "ui.toast", "payload": r#"{"message": "Hi"}"# }]);
    assert_eq!(read(&options(), text).0[0]["payload"], json!({ "message": "Hi" }));
    for payload in [json!("Hi"), json!("[1]"), json!([1])] {
        let (_, warnings) = read(&options(), json!([{ "type": "ui.toast", "payload": payload }]));
        assert_eq!(warnings[0].0, "INVALID_PAYLOAD");
    }
}
