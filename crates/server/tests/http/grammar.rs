use axum::http::{Method, StatusCode};
use formwork_server::{App, ServerOptions};
use serde_json::{Value, json};

use crate::fixture::{Answer, app, request, says, send, served, start};

async fn ask(app: &App, task: &str, body: &Value) -> Answer {
    send(app, request(Method::POST, &format!("/v1/grammar/{task}"), body.to_string())).await
}

async fn ok(app: &App, task: &str, body: &Value) -> Value {
    let answer = ask(app, task, body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.json()
}

fn schema(schema: &Value) -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
}

#[tokio::test]
async fn accepts_an_enforceable_constraint() {
    let app = app(says(""));
    let answer = ok(&app, "check", &json!({"guided_regex": "[a-c]{2}"})).await;
    assert_eq!(answer["ok"], true);
    assert_eq!(answer["shortest"].as_str().unwrap().len(), 2);
    assert_eq!((&answer["minimum_bytes"], &answer["minimum_tokens"]), (&json!(2), &json!(2)));
    assert_eq!((&answer["error"], &answer["warnings"]), (&Value::Null, &json!([])));
    assert!(answer["states"].as_u64().unwrap() > 0);
    let format = schema(&json!({"type": "integer", "examples": [1], "contentEncoding": "base64"}));
    let warned = ok(&app, "check", &json!({"response_format": format})).await;
    assert_eq!(warned["ok"], true);
    let unused = ok(&app, "check", &json!({"grammar": "root ::= \"a\"\nother ::= \"b\""})).await;
    assert_eq!(
        unused["warnings"],
        json!([{
            "message": "line 2: rule `other` is unreachable from `root`",
            "pointer": null,
            "keyword": null,
            "rule": "other",
            "line": 2,
        }])
    );
}

#[tokio::test]
async fn the_place_in_a_regular_expression_is_an_offset() {
    let answer = ok(&app(says("")), "check", &json!({"guided_regex": "é(b"})).await;
    assert_eq!((&answer["error"]["offset"], &answer["error"]["line"]), (&json!(2), &Value::Null));
}

#[tokio::test]
async fn checks_a_definition_of_fields() {
    let app = app(says(""));
    let right =
        ok(&app, "check", &json!({"fields": {"name": "age", "type": "int", "min": 1, "max": 9}})).await;
    assert_eq!((&right["ok"], &right["shortest"]), (&json!(true), &json!("1")));
    let wrong = ok(&app, "check", &json!({"fields": "name: age\ntype: int\n  min: 1"})).await;
    assert_eq!((&wrong["ok"], &wrong["error"]["line"]), (&json!(false), &json!(3)), "{wrong}");
    assert!(wrong["error"]["column"].is_number(), "{wrong}");
    assert!(!wrong["error"]["problem"].as_str().unwrap().contains("line"), "{wrong}");
    let description = "b".repeat(300_000);
    let large = json!({"fields": {"name": "a", "type": "string", "description": description}});
    assert_eq!(ok(&app, "check", &large).await["ok"], false);
}

#[tokio::test]
async fn reports_an_unenforceable_constraint() {
    let app = app(says(""));
    let answer = ok(&app, "check", &json!({"grammar": "root ::= \"a\" other"})).await;
    assert_eq!(
        answer["error"],
        json!({
            "param": "grammar",
            "message": "line 1, column 14: rule `other` is not defined",
            "problem": "rule `other` is not defined",
            "pointer": null,
            "keyword": null,
            "offset": null,
            "line": 1,
            "column": 14,
            "excerpt": "root ::= \"a\" other\n             ^",
        })
    );
    assert_eq!((&answer["ok"], &answer["shortest"]), (&json!(false), &Value::Null));
    let format = schema(&json!({"properties": {"a": {"type": "text"}}}));
    let answer = ok(&app, "check", &json!({"response_format": format})).await;
    let error = &answer["error"];
    assert_eq!(error["param"], "response_format.json_schema.schema");
    assert_eq!(error["pointer"], "/properties/a/type");
    assert_eq!(error["keyword"], "type");
    // The other endpoints fail for a grammar that does not compile.
    for task in ["explain", "sample"] {
        let refused = ask(&app, task, &json!({"grammar": "root ::= \"a\" other"})).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert_eq!(refused.json()["error"]["param"], "grammar");
    }
}

#[tokio::test]
async fn explains_possible_continuations() {
    let app = app(says(""));
    let body = json!({"guided_choice": ["yes", "yet", "no"], "text": "ye"});
    let answer = ok(&app, "explain", &body).await;
    assert_eq!(answer["matches"], true);
    assert_eq!(answer["at"], 2);
    assert_eq!(answer["bytes"], "`s`-`t`");
    assert_eq!(answer["tokens"], 2);
    assert_eq!(answer["may_end"], false);
    let body = json!({"guided_choice": ["yes", "yet", "no"], "text": "yep"});
    let answer = ok(&app, "explain", &body).await;
    assert_eq!((&answer["matches"], &answer["at"]), (&json!(false), &json!(2)));
    assert_eq!((&answer["bytes"], &answer["tokens"]), (&json!("`s`-`t`"), &Value::Null));
    let ended = ok(&app, "explain", &json!({"guided_choice": ["no"], "text": "no"})).await;
    assert_eq!((&ended["may_end"], &ended["bytes"]), (&json!(true), &json!("nothing")));
    let format = schema(&json!({"type": "object", "properties": {"a": {"type": "integer"}}}));
    let answer = ok(&app, "explain", &json!({"response_format": format, "text": "{\"a\": "})).await;
    assert!(!answer["expected"].as_array().unwrap().is_empty(), "{answer}");
}

#[tokio::test]
async fn samples_random_outputs() {
    let app = app(says(""));
    let body = json!({"guided_regex": "[a-f]{3}", "n": 20, "seed": 7});
    let first = ok(&app, "sample", &body).await;
    let outputs = first["outputs"].as_array().unwrap();
    assert!(outputs.len() == 20 && outputs.iter().all(|output| output.as_str().unwrap().len() == 3));
    assert_eq!(first, ok(&app, "sample", &body).await);
    let drawn = ok(&app, "sample", &json!({"guided_regex": "[a-f]{3}"})).await;
    let again = json!({"guided_regex": "[a-f]{3}", "seed": drawn["seed"]});
    assert_eq!(ok(&app, "sample", &again).await, drawn);
    let bounded = json!({"guided_json": {"type": "array"}, "n": 20, "seed": 1, "max_bytes": 10});
    for output in ok(&app, "sample", &bounded).await["outputs"].as_array().unwrap() {
        let output = output.as_str().unwrap();
        assert!(output.len() <= 10 && output.starts_with('['), "{output}");
    }
}

#[tokio::test]
async fn rejects_invalid_requests() {
    let app = app(says(""));
    let none = "a constraint is required, such as `response_format`, `grammar`, `guided_json`, `guided_regex` and `guided_choice`";
    let cases = [
        ("check", json!({}), format!("`response_format`: {none}")),
        ("check", json!({"response_format": {"type": "text"}}), format!("`response_format`: {none}")),
        ("check", json!({"guided_regex": "a", "n": 1}), "`n`: unrecognized request argument".to_owned()),
        (
            "check",
            json!({"guided_regex": "a", "grammar": "root ::= \"a\""}),
            "`guided_regex`: cannot be combined with `grammar`".to_owned(),
        ),
        (
            "explain",
            json!({"guided_regex": "a", "text": "a".repeat(70_000)}),
            "`text`: 70000 bytes exceed the limit of 65536".to_owned(),
        ),
        (
            "sample",
            json!({"guided_regex": "a", "n": 65}),
            "`n`: 65 is out of range; expected 1..=64".to_owned(),
        ),
        (
            "sample",
            json!({"guided_regex": "a{9}", "max_bytes": 8}),
            "`max_bytes` is 8, but the shortest output has 9 bytes".to_owned(),
        ),
    ];
    for (task, body, expected) in cases {
        let answer = ask(&app, task, &body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);
        assert_eq!(answer.json()["error"]["message"], expected);
    }
}

#[tokio::test]
async fn a_grammar_needs_no_model() {
    let models = vec![served("m", start(says(""))), served("n", start(says("")))];
    let app = App::new(models, ServerOptions::default()).unwrap();
    let answer = ok(&app, "check", &json!({"guided_regex": "ab"})).await;
    assert_eq!((&answer["ok"], &answer["minimum_tokens"]), (&json!(true), &Value::Null));
    let answer = ok(&app, "check", &json!({"model": "n", "guided_regex": "ab"})).await;
    assert_eq!(answer["minimum_tokens"], 2);
}
