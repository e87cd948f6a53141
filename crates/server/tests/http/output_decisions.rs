//! The field `decisions` of chats and responses.

use axum::http::{Method, StatusCode};
use formwork_server::App;
use serde_json::{Value, json};

use crate::fixture::{self, Answer, Native, app, chat, request, says, says_in, send, varied};

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "team": { "enum": ["billing", "bugs", "sales"] },
            "urgent": { "type": "boolean" },
            "tags": { "type": "array", "items": { "enum": ["a", 1, 12] }, "maxItems": 3 },
            "next": { "enum": ["reply", null] },
            "note": { "type": "string", "maxLength": 4 }
        },
        "required": ["team", "urgent", "tags"]
    })
}

fn fields(decisions: &Value) -> Value {
    json!({
        "response_format": { "type": "json_schema", "json_schema": { "name": "s", "schema": schema() } },
        "decisions": decisions, "seed": 5, "temperature": 0.9, "max_tokens": 300, "schema_in_prompt": false
    })
}

fn decisions(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.json()["choices"][0]["decisions"].as_array().expect("decisions").clone()
}

/// Checks a decision against the content of the answer.
fn check(decision: &Value, content: &str) {
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{decision}"));
    let (start, end) =
        (decision["start"].as_u64().unwrap() as usize, decision["end"].as_u64().unwrap() as usize);
    let options = decision["probabilities"].as_array().unwrap();
    for law in ["probability", "sampled"] {
        let sum: f64 = options.iter().map(|option| number(&option[law])).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{decision}");
    }
    let is_chosen = |option: &&Value| {
        option.get("value") == decision.get("value") && option.get("type") == decision.get("type")
    };
    let chosen = options.iter().find(is_chosen).unwrap_or_else(|| panic!("{decision}"));
    assert_eq!(
        (&chosen["probability"], &chosen["sampled"]),
        (&decision["probability"], &decision["sampled"])
    );
    assert!(number(&decision["mass"]) > 0.0 && number(&decision["error"]) <= 1e-4, "{decision}");
    assert!((0.0..=1.0).contains(&number(&decision["confidence"])));
    let (value, written) = (&decision["value"], &content[start..end]);
    match decision["kind"].as_str().unwrap() {
        "value" => {
            assert_eq!(value.to_string(), written);
            let whole: Value = serde_json::from_str(content).unwrap();
            assert_eq!(whole.pointer(decision["path"].as_str().unwrap()), Some(value));
        }
        "member" if value.is_null() => assert_eq!(written, "}"),
        "member" => assert!(written.ends_with(&value.to_string()), "{decision}: {written}"),
        "end" => assert_eq!(written == "]", value.as_bool().unwrap(), "{decision}: {written}"),
        other => panic!("{other}"),
    }
}

fn check_all(decisions: &[Value], content: &str) {
    for decision in decisions {
        check(decision, content);
    }
}

#[tokio::test]
async fn choices_have_probabilities_beside_the_message() {
    let app = app(varied(3000));
    let without = chat(&app, &fields(&json!(false))).await;
    assert!(without.json()["choices"][0].get("decisions").is_none());
    let with = chat(&app, &fields(&json!(true))).await;
    let content = with.content();
    assert_eq!(content, without.content());
    assert_eq!(with.json()["usage"], without.json()["usage"]);
    let decisions = decisions(&with);
    check_all(&decisions, &content);
    let of_kind = |kind: &str| decisions.iter().filter(|decision| decision["kind"] == kind).count();
    assert!(of_kind("value") >= 2 && of_kind("end") >= 1 && of_kind("member") >= 1, "{decisions:?}");
    let again = self::decisions(&chat(&app, &fields(&json!(true))).await);
    assert_eq!(again, decisions);
}

#[tokio::test]
async fn pointers_choose_among_the_choices() {
    let app = app(varied(3000));
    let all = decisions(&chat(&app, &fields(&json!([""]))).await);
    for pointers in
        [json!(["/team"]), json!(["/tags"]), json!(["/next", "/urgent"]), json!(["/nothing"]), json!([])]
    {
        let given = decisions(&chat(&app, &fields(&pointers)).await);
        let is_wanted = |decision: &&Value| {
            let wanted = pointers.as_array().unwrap().iter().map(|pointer| pointer.as_str().unwrap());
            let path = decision["path"].as_str().unwrap();
            let names = decision["probabilities"].as_array().unwrap().iter().map(|option| &option["value"]);
            let names: Vec<&Value> = names.filter(|_| decision["kind"] == "member").collect();
            wanted.into_iter().any(|pointer| {
                path == pointer
                    || path.starts_with(&format!("{pointer}/"))
                    || names.contains(&&json!(pointer[1..]))
            })
        };
        let expected: Vec<&Value> = all.iter().filter(is_wanted).collect();
        assert_eq!(given.iter().collect::<Vec<_>>(), expected, "{pointers}");
    }
}

/// Returns the data of server-sent events.
fn events(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn a_stream_has_them_in_the_chunk_that_completes_each_choice() {
    let app = app(varied(3000));
    let whole = chat(&app, &fields(&json!(true))).await;
    let mut streamed = fields(&json!(true));
    streamed["stream"] = json!(true);
    let text = chat(&app, &streamed).await.text;
    let (mut content, mut given) = (String::new(), Vec::new());
    for event in events(&text) {
        let choice = &event["choices"][0];
        let before = content.len();
        content.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        for decision in choice.get("decisions").and_then(Value::as_array).into_iter().flatten() {
            let end = decision["end"].as_u64().unwrap() as usize;
            // A number is complete with the byte after it.
            let is_number = decision["value"].is_number();
            assert!(before < end + usize::from(is_number) && end <= content.len(), "{decision} in {content}");
            given.push(decision.clone());
        }
    }
    assert_eq!((content, given), (whole.content(), decisions(&whole)));
}

#[tokio::test]
async fn texts_that_are_not_json_have_them() {
    let app = app(varied(3000));
    let answer = chat(&app, &json!({ "guided_choice": ["yes", "yes, but", "no"], "decisions": true })).await;
    let content = answer.content();
    let given = decisions(&answer);
    assert_eq!((given.len(), &given[0]["value"]), (1, &json!(content)));
    assert_eq!((&given[0]["kind"], &given[0]["path"]), (&json!("text"), &json!("")));
    let grammar = "root ::= \"Color: \" (\"red\" | \"blue\") \".\" [a-z]*";
    let answer = chat(&app, &json!({ "grammar": grammar, "decisions": true, "max_tokens": 40 })).await;
    let (content, given) = (answer.content(), decisions(&answer));
    let color = content["Color: ".len()..].split('.').next().unwrap();
    assert_eq!((given.len(), &given[0]["value"]), (1, &json!(color)));
}

#[tokio::test]
async fn several_answers_have_their_own() {
    let app = app(varied(3000));
    let mut two = fields(&json!(["/team"]));
    two["n"] = json!(3);
    let answer = chat(&app, &two).await.json();
    let teams = |choice: &Value| {
        let content: Value = serde_json::from_str(choice["message"]["content"].as_str().unwrap()).unwrap();
        (content["team"].clone(), choice["decisions"][0]["value"].clone())
    };
    let probability = |choice: &Value| choice["decisions"][0]["probabilities"].clone();
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 3);
    for choice in choices {
        let (written, chosen) = teams(choice);
        assert_eq!(written, chosen);
        assert_eq!(probability(choice), probability(&choices[0]));
    }
}

#[tokio::test]
async fn begun_content_thoughts_and_calls_have_none() {
    let thinking =
        "<think>\nIs it {\"team\"?\n</think>\n\n{\"team\": \"sales\", \"urgent\": true, \"tags\": []}";
    let model = fixture::served("m", fixture::start(says(thinking)));
    let model = formwork_server::ServedModel { template: std::sync::Arc::new(Native), ..model };
    let app = App::new(vec![model], formwork_server::ServerOptions::default()).unwrap();
    let answer = chat(&app, &fields(&json!(true))).await;
    let content = answer.content();
    let given = decisions(&answer);
    check_all(&given, &content);
    let paths: Vec<&str> = given.iter().map(|decision| decision["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/team", "/urgent", "/tags", ""]);
    assert!(given.iter().all(|decision| decision["probability"] == 1.0), "{given:?}");

    let app = fixture::app(varied(3000));
    let mut begun = fields(&json!(true));
    begun["messages"] =
        json!([{ "role": "user", "content": "Hi" }, { "role": "assistant", "content": "{\"team\": \"bil" }]);
    begun["continue_final_message"] = json!(true);
    let answer = chat(&app, &begun).await;
    let content = answer.content();
    let given = decisions(&answer);
    assert_eq!(given[0]["path"], "/urgent");
    for decision in given {
        let [start, end] = ["start", "end"].map(|name| decision[name].as_u64().unwrap() as usize);
        if decision["kind"] == "value" {
            assert_eq!(decision["value"].to_string(), content[start..end]);
        }
    }
}

#[tokio::test]
async fn responses_have_them_in_the_message_and_in_the_events() {
    let app = app(varied(3000));
    let mut body = json!({
        "model": "m", "input": "Hi", "decisions": true, "seed": 5, "max_output_tokens": 300,
        "text": { "format": { "type": "json_schema", "name": "s", "schema": schema() } }
    });
    let ask = |body: &Value| request(Method::POST, "/v1/responses", body.to_string());
    let whole = send(&app, ask(&body)).await.json();
    let message = &whole["output"][0];
    let content = message["content"][0]["text"].as_str().unwrap();
    let given = message["decisions"].as_array().unwrap();
    assert!(!given.is_empty());
    check_all(given, content);
    body["stream"] = json!(true);
    let events = events(&send(&app, ask(&body)).await.text);
    let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta");
    let streamed: Vec<Value> =
        deltas.flat_map(|event| event["decisions"].as_array().cloned().unwrap_or_default()).collect();
    let last = &events.last().unwrap()["response"]["output"][0];
    assert_eq!(last["decisions"], json!(streamed));
    assert_eq!(&streamed, given);
}

#[tokio::test]
async fn an_answer_near_the_end_of_the_context_keeps_its_probabilities() {
    let long = "x".repeat(200);
    let schema = json!({ "enum": ["y", long] });
    let app = app(says_in(60, "\"y\""));
    let fields = json!({
        "response_format": { "type": "json_schema", "json_schema": { "name": "s", "schema": schema } },
        "decisions": true, "schema_in_prompt": false
    });
    let answer = chat(&app, &fields).await;
    assert_eq!(answer.content(), "\"y\"");
    let given = decisions(&answer);
    assert!(given[0]["probability"].as_f64().unwrap() > 0.999_999, "{given:?}");
}

#[tokio::test]
async fn a_failed_measurement_leaves_the_answer() {
    let text = "{\"team\": \"sales\", \"urgent\": true, \"tags\": []}";
    let mut failed = 0;
    for left in 0..200 {
        let app = app(fixture::FailsAfter { inner: says(text), left });
        let answer = chat(&app, &fields(&json!(true))).await;
        if answer.status != StatusCode::OK {
            continue;
        }
        let choice = &answer.json()["choices"][0];
        assert_eq!(choice["message"]["content"], text);
        let Some(error) = choice.get("decisions_error") else { break };
        assert!(error.as_str().unwrap().contains("the forward pass failed"), "{error}");
        assert!(choice["decisions"].is_array());
        failed += 1;
    }
    assert!(failed > 0);
}

#[tokio::test]
async fn an_output_that_is_cut_off_chose_nothing_at_its_end() {
    let app = app(says("yes, but"));
    let fields = json!({ "guided_choice": ["yes", "yes, but"], "decisions": true, "max_tokens": 3, "on_budget": "length" });
    let answer = chat(&app, &fields).await;
    assert_eq!((answer.content().as_str(), decisions(&answer).len()), ("yes", 0));
}

#[tokio::test]
async fn a_message_with_decisions_can_be_sent_back() {
    let app = app(varied(3000));
    let body = json!({
        "model": "m", "input": "Hi", "decisions": true, "seed": 5, "max_output_tokens": 300,
        "text": { "format": { "type": "json_schema", "name": "s", "schema": schema() } }
    });
    let ask = |body: &Value| request(Method::POST, "/v1/responses", body.to_string());
    let message = send(&app, ask(&body)).await.json()["output"][0].clone();
    let again = json!({ "model": "m", "input": [message, { "role": "user", "content": "And?" }], "max_output_tokens": 3 });
    let answer = send(&app, ask(&again)).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    assert!(answer.headers.keys().all(|name| !name.as_str().contains("ignored")), "{:?}", answer.headers);
}

#[tokio::test]
async fn faulty_fields_are_refused() {
    let app = app(varied(3000));
    for (fields, param, message) in [
        (json!({ "decisions": true }), "decisions", "a constraint is required"),
        (fields(&json!("/team")), "decisions", "expected true, false or a list of JSON pointers"),
        (fields(&json!(["team"])), "decisions[0]", "not a JSON pointer"),
        (fields(&json!(["/a", "/b~2"])), "decisions[1]", "not a JSON pointer"),
        (fields(&json!([1])), "decisions[0]", "a string"),
    ] {
        let answer = chat(&app, &fields).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);
        let error = &answer.json()["error"];
        assert_eq!(error["param"], param, "{error}");
        assert!(error["message"].as_str().unwrap().contains(message), "{error}");
    }
}
