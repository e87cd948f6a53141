use std::sync::Arc;

use axum::http::{Method, StatusCode};
use formwork_lm::ScriptedModel;
use formwork_server::{App, ServedModel, ServerOptions};
use serde_json::{Value, json};

use crate::fixture::{CONTEXT, END, Native, app, babbles, chat, request, says, send, served, start};

#[tokio::test]
async fn outputs_match_their_constraint_whatever_the_model_likes() {
    let app = app(babbles(4000));
    for seed in 0..8 {
        let send = async |mut fields: Value| {
            fields["seed"] = seed.into();
            fields["max_tokens"] = 300.into();
            let answer = chat(&app, &fields).await;
            assert_eq!(answer.json()["choices"][0]["finish_reason"], "stop");
            answer.content()
        };
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "size": {"enum": ["s", "m"]},
                "tags": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
            },
            "required": ["name", "size", "tags"],
            "additionalProperties": false,
        });
        let format =
            json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": true}});
        for fields in [json!({"response_format": format}), json!({"guided_json": schema})] {
            let value: Value = serde_json::from_str(&send(fields).await).unwrap();
            let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(keys, ["name", "size", "tags"]);
            assert!(value["name"].is_string() && (value["size"] == "s" || value["size"] == "m"));
            let tags = value["tags"].as_array().unwrap();
            assert!(!tags.is_empty() && tags.iter().all(Value::is_number), "{value}");
        }
        let value = send(json!({"response_format": {"type": "json_object"}})).await;
        assert!(serde_json::from_str::<Value>(&value).unwrap().is_object());
        let said = send(json!({"grammar": "root ::= [0-9]{2} (\"+\" [0-9]{2})?"})).await;
        assert!(
            matches!(said.len(), 2 | 5) && said.bytes().all(|byte| byte == b'+' || byte.is_ascii_digit())
        );
        let said = send(json!({"guided_regex": "x{3}y?"})).await;
        assert!(said == "xxx" || said == "xxxy");
        let said = send(json!({"guided_choice": ["yes", "no"]})).await;
        assert!(said == "yes" || said == "no");
    }
}

/// Returns a definition in which one of two options is almost certain by its weight.
fn loot() -> Value {
    let rarity =
        json!({"name": "rarity", "type": "choice", "options": ["common", "rare"], "weights": [1, 1e9]});
    json!({"name": "Loot", "fields": [{"name": "gold", "type": "int", "min": 1, "max": 99}, rarity]})
}

fn is_rare_loot(text: &str) -> bool {
    let value: Value = serde_json::from_str(text).unwrap();
    value["rarity"] == "rare" && (1..=99).contains(&value["gold"].as_u64().unwrap())
}

#[tokio::test]
async fn typed_fields_have_their_weights() {
    let app = app(babbles(4000));
    let yaml = "name: Loot\nfields:\n- {name: gold, type: int, min: 1, max: 99}\n\
                - {name: rarity, type: choice, options: [common, rare], weights: [1, 1e9]}\n";
    for seed in 0..8 {
        let flow = "{name: Loot, fields: [{name: gold, type: int, min: 1, max: 99}, \
                    {name: rarity, type: choice, options: [common, rare], weights: [1, 1e9]}]}";
        for definition in [loot(), yaml.into(), flow.into(), loot().to_string().into()] {
            let answer = chat(&app, &json!({"fields": definition, "seed": seed})).await;
            assert!(is_rare_loot(&answer.content()), "{}", answer.text);
        }
    }
}

/// Returns a server with a model that says `lead`, and then likes all tokens equally.
fn app_that_begins(lead: &'static str) -> App {
    let model = ScriptedModel::new(END + 1, CONTEXT, move |tokens, row| {
        let said: String = tokens.iter().map(|token| char::from(token.0 as u8)).collect();
        let answer = said.rsplit("assistant:").next().unwrap();
        if let Some(next) = lead.strip_prefix(answer).and_then(|rest| rest.bytes().next()) {
            row[usize::from(next)] = 1000.0;
        }
    });
    let served = ServedModel { template: Arc::new(Native), ..served("m", start(model)) };
    App::new(vec![served], ServerOptions::default()).unwrap()
}

#[tokio::test]
async fn weights_count_after_thoughts_and_in_begun_content() {
    let thinking = app_that_begins("<think>\n{\"rarity\": \"common\"}\n</think>\n\n");
    for seed in 0..8 {
        let fields = json!({"fields": loot(), "seed": seed, "schema_in_prompt": false});
        let answer = chat(&thinking, &fields).await;
        assert!(is_rare_loot(&answer.content()), "{}", answer.text);
        assert!(answer.text.contains("reasoning_content"), "{}", answer.text);
        let mut begun = fields;
        begun["messages"] = json!([{"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "{\"gold\": 7, "}]);
        let answer = chat(&thinking, &begun).await;
        let content = answer.content();
        assert!(content == "\"rarity\": \"rare\"}" || is_rare_loot(&content), "{content}");
    }
}

#[tokio::test]
async fn weights_count_on_every_route_with_typed_fields() {
    let app = app(babbles(4000));
    for seed in 0..8 {
        let body = json!({"model": "m", "prompt": "a", "fields": loot(), "seed": seed, "n": 2});
        let answer = send(&app, request(Method::POST, "/v1/completions", body.to_string())).await;
        for choice in answer.json()["choices"].as_array().unwrap() {
            assert!(is_rare_loot(choice["text"].as_str().unwrap()), "{}", answer.text);
        }
        let body = json!({"model": "m", "max_tokens": 300, "fields": loot(), "seed": seed,
            "messages": [{"role": "user", "content": "a"}]});
        let answer = send(&app, request(Method::POST, "/v1/messages", body.to_string())).await;
        assert!(is_rare_loot(answer.json()["content"][0]["text"].as_str().unwrap()), "{}", answer.text);
    }
}

#[tokio::test]
async fn definitions_have_limits() {
    let app = app(says(""));
    let long_name = "a".repeat(100_000);
    let references: Vec<Value> = (0..1000)
        .map(|index| json!({"name": format!("f{index}"), "type": "ref", "to": "s"}))
        .chain([json!({"name": long_name, "type": "ref", "to": "s"})])
        .rev()
        .collect();
    let options: Vec<usize> = (0..1001).collect();
    let weights = vec![1; 1001];
    for (definition, expected) in [
        (
            json!({"fields": references, "definitions": {"s": {"fields": [{"name": "x", "type": "boolean"}]}}}),
            "more bytes of the template of a definition than the limit of 262144",
        ),
        (
            json!({"name": "a", "type": "string", "description": "b".repeat(300_000)}),
            "more bytes of a definition than the limit of 262144",
        ),
        (
            json!({"name": "a", "type": "choice", "options": options, "weights": weights}),
            "more weights of a choice, a variant or the members of an object than the limit of 1000",
        ),
    ] {
        let answer = chat(&app, &json!({"fields": definition, "schema_in_prompt": false})).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{expected}");
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert_eq!(message, format!("`fields`: {expected}"));
    }
}

#[tokio::test]
async fn faults_of_a_definition_name_their_place() {
    let app = app(says(""));
    let bounds = json!({"fields": [{"name": "age", "type": "int", "min": 9, "max": 3}]});
    for (definition, place) in [
        (bounds, "`fields`: age: "),
        ("fields:\n- {name: a, type: it}".into(), "`fields`: a: unknown type"),
        ("fields: [".into(), "`fields`: YAML, line "),
        ("{\"fields\": [".into(), "`fields`: JSON, line "),
        (json!(3), "`fields`: expected an object, or a string with YAML or JSON, found a number"),
    ] {
        let answer = chat(&app, &json!({"fields": definition})).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{definition}");
        let error = &answer.json()["error"];
        assert_eq!(error["param"], "fields");
        assert!(error["message"].as_str().unwrap().starts_with(place), "{error}");
    }
    let both = chat(&app, &json!({"fields": loot(), "guided_regex": "a"})).await;
    assert_eq!(both.status, StatusCode::BAD_REQUEST, "{}", both.text);
}

#[tokio::test]
async fn a_tight_budget_closes_the_output_and_says_so() {
    // Without a budget the model would continue for much longer.
    let app = app(says(
        "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1",
    ));
    let schema = json!({"type": "array", "items": {"const": 1}});
    let fields = json!({"guided_json": schema, "schema_in_prompt": false, "max_tokens": 12});
    let answer = chat(&app, &fields).await;
    let items: Vec<u32> = serde_json::from_str(&answer.content()).unwrap();
    assert!(items.len() > 1);
    let choice = &answer.json()["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["closed_by_budget"]), (&json!("stop"), &json!(true)));
    let mut streamed = fields;
    streamed["stream"] = true.into();
    let text = chat(&app, &streamed).await.text;
    let closed: Vec<_> = text.lines().filter(|line| line.contains("closed_by_budget")).collect();
    assert_eq!(closed.len(), 1);
    assert!(closed[0].contains(r#""finish_reason":"stop","closed_by_budget":true"#), "{}", closed[0]);
}

#[tokio::test]
async fn constraints_that_cannot_be_enforced_name_their_place() {
    let app = app(says(""));
    let schema = json!({"type": "object", "properties": {"a": {"type": "strin"}}});
    let pointer = "#/properties/a";
    for (fields, param, place) in [
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}),
            "response_format.json_schema.schema",
            pointer,
        ),
        (json!({"guided_json": schema}), "guided_json", pointer),
        (json!({"guided_json": false}), "guided_json", ""),
        (json!({"grammar": "root ::= \"a\"\nb ::= c"}), "grammar", "line 2"),
        (json!({"guided_regex": "a(b"}), "guided_regex", "offset 1"),
    ] {
        let answer = chat(&app, &fields).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{fields}");
        let error = &answer.json()["error"];
        assert_eq!((&error["param"], &error["type"]), (&json!(param), &json!("invalid_request_error")));
        assert!(error["message"].as_str().unwrap().contains(place), "{error}");
    }
}

#[tokio::test]
async fn budgets_below_the_guarantee_are_refused_with_the_figure() {
    let app = app(says(""));
    for field in ["max_tokens", "max_completion_tokens"] {
        let mut fields = json!({"guided_choice": ["maybe"]});
        fields[field] = 3.into();
        let answer = chat(&app, &fields).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        let error = &answer.json()["error"];
        assert_eq!((&error["param"], &error["code"]), (&field.into(), &"budget_too_small".into()));
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert_eq!(message, "a budget of 3 tokens is too small; the shortest guaranteed output needs 5");
    }
}
