use serde_json::Value;

use super::*;

#[test]
fn maps_statuses_to_categories() {
    let category = |status| BackendError::from_status(status, "").category();
    for (status, expected) in [
        (400, Category::InvalidRequest),
        (401, Category::Authentication),
        (403, Category::Authentication),
        (404, Category::InvalidRequest),
        (408, Category::Timeout),
        (409, Category::Server),
        (413, Category::InvalidRequest),
        (422, Category::InvalidRequest),
        (429, Category::RateLimited),
        (500, Category::Server),
        (503, Category::Server),
        (504, Category::Timeout),
    ] {
        assert_eq!(category(status), expected, "{status}");
    }
}

#[test]
fn a_safety_refusal_is_not_about_the_key() {
    let openrouter = r#"{"error": {"code": 403, "message": "Your chosen model requires moderation and your input was flagged", "metadata": {"reasons": ["violence"], "flagged_input": "…"}}}"#;
    let raw = r#"{"error": {"code": 403, "message": "Provider returned error", "metadata": {"provider_name": "xAI", "raw": "{\"error\":\"Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO\"}"}}}"#;
    let nested = r#"{"error": {"message": "no", "code": null, "innererror": {"code": "ResponsibleAIPolicyViolation"}}}"#;
    for (status, body) in [
        (403, openrouter),
        (403, raw),
        (400, nested),
        (403, "Failed check: SAFETY_CHECK_TYPE_BIO"),
        (400, r#"{"error": {"message": "no", "code": "content_policy_violation"}}"#),
        (400, r#"{"error": {"message": "no", "code": "content_filter"}}"#),
        (403, r#"{"error": {"message": "The request was blocked by our safety system."}}"#),
        (451, ""),
    ] {
        let error = BackendError::from_status(status, body);
        assert_eq!(error.category(), Category::ContentFilter, "{body}");
        assert!(!error.is_of_mode() && !error.is_transient() && error.status() == Some(status));
    }
    for (status, body, expected) in [
        (403, r#"{"error": {"message": "your key may not use this model"}}"#, Category::Authentication),
        (
            403,
            r#"{"error": {"message": "key disabled for safety reasons", "code": "invalid_api_key"}}"#,
            Category::Authentication,
        ),
        (401, r#"{"error": {"message": "flagged"}}"#, Category::Authentication),
        (400, r#"{"error": {"message": "`safety_identifier` is unknown"}}"#, Category::InvalidRequest),
        (429, r#"{"error": {"message": "too many flagged requests"}}"#, Category::RateLimited),
        (500, r#"{"error": {"message": "the safety system is down"}}"#, Category::Server),
    ] {
        assert_eq!(BackendError::from_status(status, body).category(), expected, "{body}");
    }
}

#[test]
fn only_a_rejected_mode_leads_to_an_easier_one() {
    let is_of_mode = |status, code: &str| {
        BackendError::from_status(status, &format!(r#"{{"error": {{"message": "no", "code": "{code}"}}}}"#))
            .is_of_mode()
    };
    assert!(is_of_mode(400, "invalid_json_schema") && is_of_mode(422, ""));
    for code in ["context_length_exceeded", "budget_too_small", "model_not_found"] {
        assert!(!is_of_mode(400, code), "{code}");
    }
    assert!(!is_of_mode(401, "") && !is_of_mode(500, ""));
}

#[test]
fn a_refusal_that_names_another_cause_ends_the_ladder() {
    let is_of_mode = |status, message: &str| {
        let body = serde_json::json!({ "error": { "message": message } });
        BackendError::from_status(status, &body.to_string()).is_of_mode()
    };
    assert!(is_of_mode(400, "response_format is not supported") && is_of_mode(404, "no such route"));
    for message in ["prompt is too long: 9 tokens > 8 maximum", "unknown model `x`", "model is loading"] {
        assert!(!is_of_mode(400, message) && !is_of_mode(404, message), "{message}");
    }
}

#[test]
fn an_error_in_a_body_keeps_its_status() {
    for (error, expected) in [
        (serde_json::json!({ "message": "no", "code": 400 }), Some(400)),
        (serde_json::json!({ "message": "no", "code": "429" }), Some(429)),
        (serde_json::json!({ "message": "no", "code": "x", "status": 422 }), Some(422)),
        (serde_json::json!({ "message": "no", "type": "invalid_request_error", "code": null }), Some(400)),
        (serde_json::json!({ "message": "no", "code": 7 }), Some(502)),
        (serde_json::json!("no"), Some(502)),
        (Value::Null, None),
    ] {
        let found = BackendError::in_body(&serde_json::json!({ "error": error }));
        assert_eq!(found.and_then(|error| error.status()), expected, "{error}");
    }
}

#[test]
fn a_cause_is_the_innermost_error() {
    let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    let outer = std::io::Error::other(TestError(refused));
    let error = BackendError::from(Kind::Connection {
        url: "http://x/v1/chat/completions".to_owned(),
        source: Cause::new(outer),
    });
    let told = "the backend could not be reached: http://x/v1/chat/completions: connection refused";
    assert_eq!(error.to_string(), told);
    let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    assert_eq!(source.map(std::io::Error::kind), Some(std::io::ErrorKind::ConnectionRefused));
    assert_eq!(error, error.clone());
}

#[derive(Debug, Error)]
#[error("sending failed")]
struct TestError(#[source] std::io::Error);

#[test]
fn reads_error_messages_of_any_shape() {
    for (body, told, code) in [
        (r#"{"error": {"message": "no", "code": null}}"#, "no", None),
        (r#"{"error": {"message": "no", "code": 400}}"#, "no", Some("400")),
        (r#"{"error": "no"}"#, "no", None),
        (r#"{"message": "no"}"#, "no", None),
        ("<html>no</html>\n", "<html>no</html>", None),
        ("", "", None),
    ] {
        let error = BackendError::from_status(500, body);
        assert_eq!(error.to_string(), format!("the backend answered 500: {told}"), "{body}");
        assert_eq!(error.code(), code, "{body}");
    }
}
