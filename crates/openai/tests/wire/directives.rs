use formwork_openai::{DirectiveMode, DirectivesParseRequest, DirectivesRequest, RequiredDirective};
use serde_json::{Value, json};

/// Returns the body of a minimal request with the additional members of `fields`.
fn body(fields: &Value) -> Vec<u8> {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body.to_string().into_bytes()
}

fn refused(fields: &Value) -> String {
    match DirectivesRequest::from_json(&body(fields)) {
        Ok(_) => panic!("{fields} was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn reads_all_supported_fields() {
    let registry = json!({
        "definitions": [{
            "type": "ui.toast", "description": "d", "aliases": ["toast"], "payload_schema": true, "instructions": "i", "patch": true,
        }],
        "instructions": "all",
    });
    let fields = json!({
        "registry": registry, "allowed_types": ["ui.toast"], "type_aliases": {"note": "ui.toast"}, "require": ["ui.toast", {"type": "ui.close", "min": 0, "max": 1}],
        "max_requests": 3, "max_directives": 2, "max_text_length": 40, "stream": true,
        "modes": ["prompt_only", "json_schema", "json_object"], "repair_retries": 0, "max_bytes": 10, "schema_name": "s",
        "output_instructions": "o", "inject_response_format": false, "include_plans": true,
        "temperature": 0, "max_tokens": 9, "seed": null, "user": "u",
    });
    let request = DirectivesRequest::from_json(&body(&fields)).expect("a good request");
    assert_eq!((request.chat.model.as_str(), request.chat.parameters.temperature), ("m", Some(0.0)));
    assert_eq!(request.messages, [json!({"role": "user", "content": "Hi"})]);
    assert_eq!(Value::from(request.fields), json!({"temperature": 0, "max_tokens": 9, "user": "u"}));
    let definition = &request.rules.definitions[0];
    assert_eq!((definition.kind.as_str(), definition.description.as_str()), ("ui.toast", "d"));
    assert_eq!(
        (&definition.aliases[..], &definition.payload_schema),
        (&["toast".to_owned()][..], &Some(json!(true)))
    );
    assert_eq!((definition.instructions.as_deref(), definition.patch), (Some("i"), true));
    assert_eq!(request.rules.instructions.as_deref(), Some("all"));
    assert_eq!(request.rules.allowed_types, Some(vec!["ui.toast".to_owned()]));
    assert_eq!(request.rules.type_aliases, [("note".to_owned(), "ui.toast".to_owned())]);
    let toast = RequiredDirective { kind: "ui.toast".to_owned(), min: 1, max: None };
    let close = RequiredDirective { kind: "ui.close".to_owned(), min: 0, max: Some(1) };
    assert_eq!(request.rules.require, [toast, close]);
    assert_eq!(
        (request.max_requests, request.rules.max_text_length, request.stream),
        (Some(3), Some(40), true)
    );
    assert_eq!(request.rules.max_directives, Some(2));
    let modes = [DirectiveMode::PromptOnly, DirectiveMode::JsonSchema, DirectiveMode::JsonObject];
    assert_eq!(request.modes.as_deref(), Some(&modes[..]));
    assert_eq!((request.repair_retries, request.rules.max_bytes), (Some(0), Some(10)));
    assert_eq!(
        (request.schema_name.as_deref(), request.output_instructions.as_deref()),
        (Some("s"), Some("o"))
    );
    assert!(!request.inject_response_format && request.include_plans);
}

#[test]
fn accepts_minimal_requests() {
    let request = DirectivesRequest::from_json(&body(&json!({}))).expect("a good request");
    assert!(
        request.rules.definitions.is_empty()
            && request.rules.allowed_types.is_none()
            && request.modes.is_none()
    );
    assert!(request.inject_response_format && !request.include_plans);
}

#[test]
fn names_the_invalid_field() {
    for (fields, told) in [
        (json!({"messages": null}), "`messages`: this field is required"),
        (json!({"registries": {}}), "`registries`: unrecognized request argument"),
        (json!({"temperature": 11}), "`temperature`: 11 is out of range; expected 0..=10"),
        (json!({"registry": {}}), "`registry.definitions`: this field is required"),
        (json!({"registry": {"definitions": [], "x": 1}}), "`registry.x`: unrecognized request argument"),
        (
            json!({"registry": {"definitions": [{"type": "a"}, {"type": ""}]}}),
            "`registry.definitions[1].type`: must not be empty",
        ),
        (
            json!({"registry": {"definitions": [{"type": "a", "schema": {}}]}}),
            "`registry.definitions[0].schema`: unrecognized request argument",
        ),
        (
            json!({"registry": {"definitions": [{"type": "a", "payload_schema": []}]}}),
            "`registry.definitions[0].payload_schema`: expected a JSON Schema, found an array",
        ),
        (json!({"allowed_types": [1]}), "`allowed_types[0]`: expected a string, found a number"),
        (json!({"type_aliases": {"a": 1}}), "`type_aliases.a`: expected a string, found a number"),
        (json!({"modes": []}), "`modes`: must not be empty"),
        (
            json!({"modes": ["json"]}),
            "`modes[0]`: unsupported value `json`; supported values: json_schema, json_object and prompt_only",
        ),
        (json!({"repair_retries": 9}), "`repair_retries`: 9 is out of range; expected 0..=8"),
        (json!({"max_bytes": 0}), "`max_bytes`: 0 is out of range; expected at least 1"),
        (
            json!({"response_format": {"type": "text"}}),
            "`response_format`: this field is set by directives and cannot be given",
        ),
        (json!({"tools": []}), "`tools`: this field is set by directives and cannot be given"),
        (
            json!({"stream_options": {}}),
            "`stream_options`: this field is set by directives and cannot be given",
        ),
        (json!({"require": [{"min": 1}]}), "`require[0].type`: this field is required"),
        (
            json!({"require": [{"type": "a", "exactly": 1}]}),
            "`require[0].exactly`: unrecognized request argument",
        ),
        (
            json!({"require": [{"type": "a", "max": -1}]}),
            "`require[0].max`: -1 is out of range; expected 0..=4096",
        ),
        (json!({"max_text_length": 5000}), "`max_text_length`: 5000 is out of range; expected 0..=4096"),
        (json!({"max_requests": 0}), "`max_requests`: 0 is out of range; expected at least 1"),
        (json!({"request_overrides": {}}), "`request_overrides`: requires `provider`"),
    ] {
        assert_eq!(refused(&fields), told);
    }
}

#[test]
fn reads_a_text_to_parse() {
    let read = |body: Value| DirectivesParseRequest::from_json(body.to_string().as_bytes());
    let request = read(json!({"text": "Hi", "require": ["a"], "max_bytes": 9})).expect("a good request");
    assert_eq!(
        (request.text.as_str(), request.rules.max_bytes, request.rules.require.len()),
        ("Hi", Some(9), 1)
    );
    for (body, told) in [
        (json!({}), "`text`: this field is required"),
        (json!({"text": 1}), "`text`: expected a string, found a number"),
        (json!({"text": "", "model": "m"}), "`model`: unrecognized request argument"),
    ] {
        assert_eq!(read(body).expect_err("refused").to_string(), told);
    }
}
