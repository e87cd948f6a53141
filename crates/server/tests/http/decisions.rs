//! `/v1/decisions` and `/v1/systemone`.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use formwork_chat::decision::Calibration;
use formwork_engine::{Engine, EngineOptions};
use formwork_server::{App, ServedModel, ServerOptions};
use serde_json::{Value, json};

use crate::fixture::{self, Answer, Lines, app, get, request, send, served, varied};

async fn decide(app: &App, body: &Value) -> Answer {
    send(app, request(Method::POST, "/v1/decisions", body.to_string())).await
}

async fn system_one(app: &App, body: &Value) -> Answer {
    send(app, request(Method::POST, "/v1/systemone", body.to_string())).await
}

fn three_questions() -> Value {
    json!([
        { "type": "predicate", "name": "angry", "instructions": "Angry?" },
        { "type": "choice", "instructions": [{ "type": "input_text", "text": "Which?" }], "choices": [
            { "value": true, "description": "so it is" }, { "value": "true" }, { "value": "other" } ] },
        { "type": "score", "name": "angry", "instructions": "How much?",
          "levels": [{ "label": "low" }, { "label": "high", "description": "very" }] },
    ])
}

fn sum(values: &Value) -> f64 {
    values.as_array().unwrap().iter().map(|entry| entry["probability"].as_f64().unwrap()).sum()
}

#[tokio::test]
async fn answers_have_the_order_and_the_form_of_openai() {
    let app = app(varied(2000));
    let body = json!({ "model": "m", "input": "A state.", "questions": three_questions(),
        "prompt_cache_key": "k", "prompt_cache_options": { "mode": "implicit", "ttl": "30m" },
        "safety_identifier": "s" });
    let answer = decide(&app, &body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let given = answer.json();
    let [predicate, choice, score] = &given["answers"].as_array().unwrap()[..] else { panic!("{given}") };
    assert_eq!((&predicate["type"], &predicate["name"]), (&json!("predicate"), &json!("angry")));
    let probability = predicate["probability"].as_f64().unwrap();
    assert!(probability > 0.0 && probability < 1.0);
    assert_eq!((&choice["type"], &choice["name"]), (&json!("choice"), &Value::Null));
    let values: Vec<&Value> =
        choice["probabilities"].as_array().unwrap().iter().map(|entry| &entry["value"]).collect();
    assert_eq!(values, [&json!(true), &json!("true"), &json!("other")]);
    assert!(values.contains(&&choice["choice"]));
    assert!((sum(&choice["probabilities"]) - 1.0).abs() < 1e-12);
    assert_eq!(score["probabilities"][1]["label"], "high");
    assert_eq!(score["probabilities"][1]["value"], 1);
    assert_eq!(score["score"], score["probabilities"][1]["probability"]);
    for answer in [predicate, choice, score] {
        assert!(answer["mass"].as_f64().unwrap() > 0.0);
        assert!(answer["error"].as_f64().unwrap() <= 1e-4);
        assert!(answer["prompt_tokens"].as_u64().unwrap() > 20);
    }
    let usage = &given["usage"];
    assert_eq!(usage["input_tokens"], usage["total_tokens"]);
    assert_eq!(
        (&usage["output_tokens"], &usage["input_tokens_details"]["cached_tokens"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(given["formwork"]["prompt_format_version"], 1);
    assert_eq!(given["formwork"]["orders"], 2);
    assert_eq!(given["formwork"]["calibration"], Value::Null);
    let metrics = get(&app, "/metrics").await.text;
    // A score is asked in one order.
    assert!(metrics.contains("formwork_decisions_total{model=\"m\"} 5"), "{metrics}");
}

#[tokio::test]
async fn the_wording_of_prompts_is_fixed() {
    let template = Arc::new(Lines::default());
    let engine = fixture::start(varied(2000));
    let model = ServedModel { template: Arc::clone(&template) as _, ..served("m", engine) };
    let app = App::new(vec![model], ServerOptions::default()).unwrap();
    let mut prompts = Vec::new();
    for (question, settings) in [
        (json!({ "type": "predicate", "instructions": "Angry?" }), json!({ "orders": 1 })),
        (three_questions()[1].clone(), json!({})),
        (three_questions()[1].clone(), json!({ "answers": "json", "orders": 1 })),
        (three_questions()[2].clone(), json!({})),
        (three_questions()[2].clone(), json!({ "answers": "text" })),
        (three_questions()[1].clone(), json!({ "independent": true })),
    ] {
        let body = json!({ "input": "S", "questions": [question], "formwork": settings });
        let answer = decide(&app, &body).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        // A mark stands before the question while the template renders.
        prompts.push(template.last.lock().unwrap().replace("\u{e000}?\u{e000}", ""));
    }
    let head = "enable_thinking=false\nuser: S\n\n";
    let expected = [
        "Angry?\n\nAnswer with yes or no only.",
        // The last prompt has the options in reverse.
        "Which?\n\nA. other\nB. true\nC. true: so it is\n\nAnswer with the letter of one option only.",
        "Which?\n\n- true: so it is\n- \"true\"\n- \"other\"\n\nAnswer with JSON only: {\"answer\": OPTION}",
        "How much?\n\n0. low\n1. high: very\n\nAnswer with the number of one level only.",
        "How much?\n\n- low\n- high: very\n\nAnswer with the text of one level only, without its description.",
        "Which?\n\nProposed answer: other\n\nIs the proposed answer right? Answer with no or yes only.",
    ];
    assert_eq!(prompts, expected.map(|text| format!("{head}{text}\nassistant:")));
}

#[tokio::test]
async fn faults_name_their_place() {
    let app = app(varied(4000));
    let predicate = json!({ "type": "predicate", "instructions": "?" });
    let choice = |choices: Value| json!({ "type": "choice", "instructions": "?", "choices": choices });
    let values =
        |count: usize| -> Value { (0..count).map(|value| json!({ "value": format!("v{value}") })).collect() };
    let levels = |count: usize| -> Value {
        let levels: Value = (0..count).map(|level| json!({ "label": format!("l{level}") })).collect();
        json!({ "type": "score", "instructions": "?", "levels": levels })
    };
    let image = json!([{ "role": "user", "content": [{ "type": "input_image", "image_url": "data:," }] }]);
    let with = |questions: Value| json!({ "input": "S", "questions": questions });
    let asked = |input: Value| json!({ "input": input, "questions": [predicate] });
    let json_part =
        |data: Value| json!([{ "role": "user", "content": [{ "type": "input_json", "data": data }] }]);
    let deep = (0..33).fold(json!(1), |inner, _| json!({ "a": inner }));
    let cases = [
        (with(json!([])), "questions", "must not be empty"),
        (
            with((0..401).map(|_| predicate.clone()).collect()),
            "questions",
            "401 entries exceed the limit of 400",
        ),
        (with(json!([predicate, choice(values(1))])), "questions[1].choices", "1 entries are too few"),
        (with(json!([choice(values(256))])), "questions[0].choices", "256 entries exceed the limit of 255"),
        (with(json!([levels(1)])), "questions[0].levels", "1 entries are too few"),
        (with(json!([levels(11)])), "questions[0].levels", "11 entries exceed the limit of 10"),
        (
            with(json!([predicate, choice(json!([{ "value": "a" }, { "value": "b" }, { "value": "a" }]))])),
            "questions[1].choices[2]",
            "repeats an earlier entry",
        ),
        (
            with(json!([choice(json!([{ "value": "a" }, { "value": "" }]))])),
            "questions[0].choices[1].value",
            "empty",
        ),
        (with(json!([{ "type": "box", "instructions": "?" }])), "questions[0].type", "`box`"),
        (with(json!([{ "type": "predicate", "instructions": " " }])), "questions[0].instructions", "empty"),
        (asked(image), "input[0].content[0].type", "`input_image`"),
        (asked(json_part(deep)), "input[0].content[0].data", "33 levels of nesting exceed the limit of 32"),
        (asked(json_part(json!({ "a": vec![1; 10_001] }))), "input[0].content[0].data", "10003 entries"),
        (
            asked(json_part(json!({ "a": "x".repeat(262_144) }))),
            "input[0].content[0].data",
            "limit of 262144",
        ),
        (asked(json_part(json!(["text"]))), "input[0].content[0].data", "an array of objects"),
        (
            asked(json!([{ "type": "function_call_output", "call_id": "c", "output": "r" }])),
            "input[0].call_id",
            "no earlier call has this id",
        ),
        (json!({ "input": "S", "questions": [predicate], "stream": true }), "stream", "unrecognized"),
        (
            json!({ "input": "S", "questions": [predicate], "formwork": { "prior": 1 } }),
            "formwork.prior",
            "unrecognized",
        ),
        (
            json!({ "input": "S", "questions": [predicate], "formwork": { "prompt_format_version": 2 } }),
            "formwork.prompt_format_version",
            "expected 1",
        ),
        (
            json!({ "input": "S", "questions": [choice(values(27))], "formwork": { "answers": "label" } }),
            "questions[0]",
            "27 options exceed the limit of 26",
        ),
        (
            json!({ "input": "S", "questions": (0..20).map(|_| choice(values(255))).collect::<Value>(),
                "formwork": { "orders": "cyclic" } }),
            "questions",
            "5100 prompts exceed the limit of 4096",
        ),
        (
            json!({ "input": "S", "questions": [predicate], "formwork": { "max_nodes": 8193 } }),
            "formwork.max_nodes",
            "expected 0..=8192",
        ),
        (
            json!({ "input": "S", "questions": [three_questions()[1]], "formwork": { "answers": "text" } }),
            "questions[0]",
            "option 1 has the text of an earlier option",
        ),
        (
            json!({ "input": "S", "questions": [choice(json!([{ "value": "a" }, { "value": "ab" }]))],
                "formwork": { "answers": "text", "end": false } }),
            "questions[0].choices[0]",
            "beginning of the text of option 1",
        ),
    ];
    for (body, param, message) in cases {
        let answer = decide(&app, &body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{param}: {}", answer.text);
        let error = &answer.json()["error"];
        assert_eq!(error["param"], param, "{error}");
        assert!(error["message"].as_str().unwrap().contains(message), "{error}");
    }
}

#[tokio::test]
async fn limits_are_inclusive_and_long_prompts_name_their_question() {
    let app = app(varied(4000));
    let predicate = json!({ "type": "predicate", "instructions": "?" });
    let with = |questions: Value| json!({ "input": "S", "questions": questions });
    let choice = |count: usize| {
        let values: Value = (0..count).map(|value| json!({ "value": format!("v{value}") })).collect();
        json!({ "type": "choice", "instructions": "?", "choices": values })
    };
    let levels: Value = (0..10).map(|level| json!({ "label": format!("l{level}") })).collect();
    let levels = json!({ "type": "score", "instructions": "?", "levels": levels });
    let long = json!({ "input": "S", "questions": [predicate, { "type": "predicate", "instructions": "x".repeat(4000) }] });
    let error = &decide(&app, &long).await.json()["error"];
    assert_eq!(
        (&error["code"], &error["param"]),
        (&json!("context_length_exceeded"), &json!("questions[1]"))
    );
    let unknown = json!({ "model": "x", "input": "S", "questions": [predicate] });
    assert_eq!(decide(&app, &unknown).await.status, StatusCode::NOT_FOUND);
    for questions in [json!([choice(255)]), json!([levels]), json!([choice(2)])] {
        let answer = decide(&app, &with(questions)).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    }
}

/// Returns the answers of a request without the counts of tokens.
async fn answers(app: &App, input: &str, questions: Vec<Value>, settings: Value) -> Vec<Value> {
    let body = json!({ "input": input, "questions": questions, "formwork": settings });
    let answer = decide(app, &body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    answer.json()["answers"].as_array().unwrap().clone()
}

#[tokio::test]
async fn an_answer_has_the_same_bits_alone_together_and_cached() {
    let options =
        EngineOptions { parallel: 1, prefix_cache_bytes: 0, step_tokens: 16, ..EngineOptions::default() };
    let small = Engine::start(Box::new(varied(4000)), fixture::tokenizer(), options);
    let small = App::new(vec![served("m", small)], ServerOptions::default()).unwrap();
    let large = app(varied(4000));
    let state = "A state that is read once. ".repeat(20);
    let mut questions = three_questions().as_array().unwrap().clone();
    let values: Value = (0..40).map(|value| json!({ "value": format!("option {value}") })).collect();
    questions.push(json!({ "type": "choice", "instructions": "Many?", "choices": values }));
    let together = answers(&large, &state, questions.clone(), json!({})).await;
    let again = answers(&large, &state, questions.iter().rev().cloned().collect(), json!({})).await;
    assert!(again.iter().rev().eq(&together));
    for (question, expected) in questions.iter().zip(&together) {
        let alone = answers(&small, &state, vec![question.clone(), question.clone()], json!({})).await;
        assert_eq!(&alone, &[expected.clone(), expected.clone()]);
    }
    let body = json!({ "input": state, "questions": questions });
    let usage = decide(&large, &body).await.json()["usage"].clone();
    assert!(usage["input_tokens_details"]["cached_tokens"].as_u64().unwrap() >= 512, "{usage}");
}

#[tokio::test]
async fn orders_permute_probabilities_bit_by_bit() {
    let app = app(varied(4000));
    let probabilities = |answer: &Value| -> Vec<u64> {
        let entries = answer["probabilities"].as_array().unwrap().iter();
        entries.map(|entry| entry["probability"].as_f64().unwrap().to_bits()).collect()
    };
    let choice = |values: &[&str]| {
        let choices: Value = values.iter().map(|value| json!({ "value": value })).collect();
        json!({ "type": "choice", "instructions": "?", "choices": choices })
    };
    let given = ["first", "second", "third", "fourth"];
    let (reversed, rotated) =
        (["fourth", "third", "second", "first"], ["third", "fourth", "first", "second"]);
    let mixed = ["second", "fourth", "first", "third"];
    for (settings, other) in [
        (json!({}), reversed),
        (json!({ "orders": "cyclic" }), rotated),
        (json!({ "independent": true }), mixed),
        (json!({ "independent": true, "orders": 1, "calibration": { "temperature": 2.5 } }), mixed),
    ] {
        let both = answers(&app, "S", vec![choice(&given), choice(&other)], settings.clone()).await;
        let (known, moved) = (probabilities(&both[0]), probabilities(&both[1]));
        for (value, bits) in given.iter().zip(&known) {
            let at = other.iter().position(|other| other == value).unwrap();
            assert_eq!(moved[at], *bits, "{value} with {settings}");
        }
    }
}

#[tokio::test]
async fn calibration_changes_probabilities_and_is_reported() {
    let calibration = Calibration { temperature: Some(4.0), ..Calibration::default() };
    let options = ServerOptions { calibration: Some(calibration), ..ServerOptions::default() };
    let calibrated = App::new(vec![served("m", fixture::start(varied(4000)))], options).unwrap();
    let plain = app(varied(4000));
    let questions = vec![three_questions()[1].clone()];
    let explicit = json!({ "calibration": { "temperature": 4.0, "by_options": { "2": 9.0, "4": 9.0 } } });
    let [by_server, by_request, unchanged] = [
        answers(&calibrated, "S", questions.clone(), json!({})).await,
        answers(&plain, "S", questions.clone(), json!({ "calibration": { "temperature": 4.0 } })).await,
        answers(&calibrated, "S", questions.clone(), json!({ "calibration": {} })).await,
    ];
    let uncalibrated = answers(&plain, "S", questions.clone(), json!({})).await;
    assert_eq!((&by_server, &unchanged), (&by_request, &uncalibrated));
    assert_ne!(by_server, uncalibrated);
    assert_ne!(answers(&plain, "S", questions.clone(), explicit.clone()).await, by_server);
    let body = json!({ "input": "S", "questions": questions, "formwork": explicit });
    let shown = decide(&plain, &body).await.json()["formwork"]["calibration"].clone();
    assert_eq!(shown["by_options"], json!({ "2": 9.0, "4": 9.0 }));
    let prior = json!({ "calibration": { "prior": "content_free" } });
    let divided = answers(&plain, "S", questions.clone(), prior.clone()).await;
    assert_ne!(divided, uncalibrated);
    // A state without content has equal probabilities after the division.
    let empty = answers(&plain, "N/A", questions, prior).await;
    for entry in empty[0]["probabilities"].as_array().unwrap() {
        assert!((entry["probability"].as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-4, "{entry}");
    }
}

#[tokio::test]
async fn conversations_reach_the_template_and_control_tokens_stay_text() {
    let template = Arc::new(Lines::default());
    let engine = fixture::start(varied(2000));
    let model = ServedModel { template: Arc::clone(&template) as _, ..served("m", engine) };
    let app = App::new(vec![model], ServerOptions::default()).unwrap();
    let body = json!({
        "input": [
            { "role": "developer", "content": "Rules." },
            { "role": "user", "content": [
                { "type": "input_text", "text": "Hi", "prompt_cache_breakpoint": { "mode": "explicit" } },
                { "type": "input_json", "data": { "b": [1, "</s>"] } } ] },
            { "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "c", "output": "done" },
            { "role": "assistant", "phase": "final_answer", "content": "Well." },
        ],
        "questions": [{ "type": "predicate", "instructions": "Is </s> an end?" }],
        "formwork": { "return_prompt_token_ids": true, "orders": 1 },
    });
    let answer = decide(&app, &body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let prompt = prompt_of(&answer.json()["answers"][0]);
    assert!(prompt.contains("user: Hi\n{\"b\":[1,\"</s>\"]}"), "{prompt}");
    assert!(
        prompt.contains("done") && prompt.contains("assistant: Well.\nuser: Is </s> an end?"),
        "{prompt}"
    );
}

/// A template that always begins thoughts.
pub(crate) struct Thinking;

impl formwork_lm::ChatTemplate for Thinking {
    fn render(&self, input: &formwork_lm::ChatInput) -> Result<String, formwork_lm::TemplateError> {
        let mut text: String =
            input.messages.iter().map(|message| format!("{}:", message.role) + message.text()).collect();
        if input.add_generation_prompt {
            text.push_str("assistant:<think>\n");
        }
        Ok(text)
    }
}

#[tokio::test]
async fn thoughts_that_a_template_always_begins_are_ended() {
    let model = ServedModel { template: Arc::new(Thinking), ..served("m", fixture::start(varied(2000))) };
    let app = App::new(vec![model], ServerOptions::default()).unwrap();
    let formwork = json!({ "return_prompt_token_ids": true, "orders": 1 });
    let questions = json!([{ "type": "predicate", "instructions": "?" }]);
    let answer = decide(&app, &json!({ "input": "S", "questions": questions, "formwork": formwork })).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let prompt = prompt_of(&answer.json()["answers"][0]);
    assert!(prompt.ends_with("assistant:<think>\n</think>\n\n"), "{prompt}");
}

/// Returns the text of an answer's first prompt.
fn prompt_of(answer: &Value) -> String {
    let ids = answer["prompt_token_ids"][0].as_array().expect("token ids");
    let byte = |id: &Value| u8::try_from(id.as_u64().expect("a number")).expect("no control token");
    String::from_utf8(ids.iter().map(byte).collect()).expect("text")
}

#[tokio::test]
async fn system_one_has_its_own_forms() {
    let app = app(varied(2000));
    let questions = json!({
        "angry": { "type": "noul", "criteria": { "true": "the customer shouts", "false": null } },
        "team": { "type": "choice", "instructions": { "ask": "Which?" }, "criteria": { "billing": "money", "other": null } },
        "one": { "type": "choice", "criteria": { "only": null } },
        "urgency": { "type": "score", "instructions": "How much?", "criteria": ["low", "medium", "high"] },
        "objects": { "type": "score", "criteria": [{ "a": 1 }, "b"] },
    });
    let body = json!({ "model": "jev-latest", "state": { "text": "A state." }, "questions": questions });
    let answer = system_one(&app, &body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let given = answer.json();
    let answers = &given["answers"];
    let names: Vec<&String> = answers.as_object().unwrap().keys().collect();
    assert_eq!(names, ["angry", "team", "one", "urgency", "objects"]);
    assert_eq!(answers["objects"]["legend"], json!({ "0": "{\"a\":1}", "1": "b" }));
    assert!(answers["angry"]["noul"].is_number() && answers["angry"].get("confidence").is_none());
    assert_eq!(
        (&answers["one"]["probabilities"], &answers["one"]["confidence"]),
        (&json!({ "only": 1.0 }), &json!(1.0))
    );
    assert_eq!(answers["urgency"]["legend"], json!({ "0": "low", "1": "medium", "2": "high" }));
    let probabilities = &answers["urgency"]["probabilities"];
    let expected = probabilities["1"].as_f64().unwrap() + 2.0 * probabilities["2"].as_f64().unwrap();
    assert!((answers["urgency"]["score"].as_f64().unwrap() - expected).abs() < 1e-12);
    assert!(given["usage"]["input_tokens"].as_u64().unwrap() > 0);
    // Names do not reach the model, and both routes ask in the same way.
    let renamed = json!({ "model": "m", "state": "S", "questions": { "x": { "type": "noul", "instructions": "Angry?" } } });
    let renamed = system_one(&app, &renamed).await.json()["answers"]["x"]["noul"].clone();
    let same = json!({ "input": "S", "questions": [{ "type": "predicate", "instructions": "Angry?" }] });
    assert_eq!(decide(&app, &same).await.json()["answers"][0]["probability"], renamed);
}

#[tokio::test]
async fn faults_of_system_one_have_its_form() {
    let app = app(varied(2000));
    for (body, place) in [
        (json!({ "state": "S", "questions": {} }), json!(["body", "questions"])),
        (json!({ "questions": { "a": { "type": "noul", "instructions": "?" } } }), json!(["body", "state"])),
        (
            json!({ "state": "S", "questions": { "a": { "type": "noul" } } }),
            json!(["body", "questions", "a", "instructions"]),
        ),
        (
            json!({ "state": "S", "questions": { "a": { "type": "box" } } }),
            json!(["body", "questions", "a", "type"]),
        ),
        (
            json!({ "state": "S", "questions": { "a": { "type": "score", "criteria": ["", "b"] } } }),
            json!(["body", "questions", "a", "criteria", 0]),
        ),
        (
            json!({ "state": "S", "questions": { "a": { "type": "noul", "instructions": "?" } }, "assets": { "x": 1 } }),
            json!(["body", "assets"]),
        ),
    ] {
        let answer = system_one(&app, &body).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", answer.text);
        let detail = &answer.json()["detail"][0];
        assert_eq!(detail["loc"], place, "{detail}");
        assert!(detail["msg"].is_string() && detail["type"].is_string());
    }
    let unknown =
        json!({ "model": "x", "state": "S", "questions": { "a": { "type": "noul", "instructions": "?" } } });
    let answer = system_one(&app, &unknown).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert!(answer.json()["detail"].is_string() && answer.json()["error"].is_string());
}

#[tokio::test]
async fn a_thought_may_come_before_the_answer() {
    let model = served("m", fixture::start(fixture::says_in(3000, "<think>\nIt is.\n</think>\n\nyes")));
    let model = ServedModel { template: Arc::new(fixture::Native), ..model };
    let app = App::new(vec![model], ServerOptions::default()).unwrap();
    let body = |reasoning: u32| {
        json!({ "model": "m", "input": "A state.", "formwork": { "reasoning": reasoning, "return_prompt_token_ids": true },
            "questions": [{ "type": "predicate", "instructions": "Is it?" }] })
    };
    let answer = decide(&app, &body(100)).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let given = answer.json();
    assert_eq!(given["answers"][0]["reasoning"], json!(["It is.\n", "It is.\n"]));
    assert!(given["answers"][0]["probability"].as_f64().unwrap() > 0.999, "{given}");
    let usage = &given["usage"];
    assert_eq!(usage["output_tokens_details"]["reasoning_tokens"], 14);
    assert_eq!(usage["total_tokens"].as_u64().unwrap(), usage["input_tokens"].as_u64().unwrap() + 14);
    assert_eq!(given["formwork"]["reasoning"], 100);
    let prompt = given["answers"][0]["prompt_token_ids"][0].as_array().unwrap();
    let prompt: Vec<u8> = prompt.iter().map(|token| token.as_u64().unwrap() as u8).collect();
    assert!(
        prompt.ends_with(b"assistant:<think>\nIt is.\n</think>\n\n"),
        "{}",
        String::from_utf8_lossy(&prompt)
    );
    // A thought that is too long is cut off and ended.
    let given = decide(&app, &body(5)).await.json();
    assert_eq!(given["answers"][0]["reasoning"], json!(["It is", "It is"]));
    let one = json!({ "model": "m", "state": "A state.", "formwork": { "reasoning": 9 },
        "questions": { "q": { "type": "noul", "instructions": "Is it?" } } });
    let given = system_one(&app, &one).await.json();
    assert_eq!(
        (&given["answers"]["q"]["reasoning"][0], &given["usage"]["output_tokens"]),
        (&json!("It is.\n"), &json!(14))
    );
}

#[tokio::test]
async fn a_model_without_thoughts_refuses_reasoning() {
    let app = app(varied(2000));
    let body = json!({ "model": "m", "input": "A state.", "formwork": { "reasoning": 10 },
        "questions": [{ "type": "predicate", "instructions": "Is it?" }] });
    let answer = decide(&app, &body).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(answer.text.contains("writes no thoughts"), "{}", answer.text);
    let none = json!({ "model": "m", "input": "A state.", "formwork": { "reasoning": 0 },
        "questions": [{ "type": "predicate", "instructions": "Is it?" }] });
    let answer = decide(&app, &none).await;
    assert_eq!(
        (answer.status, answer.json()["formwork"]["reasoning"].clone()),
        (StatusCode::OK, Value::Null)
    );
}
