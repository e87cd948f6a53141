//! Custom tools, which take a text: forced inputs, streams and histories.

use std::sync::Arc;

use axum::http::StatusCode;
use formwork_server::{App, ServedModel, ServerOptions};
use serde_json::{Value, json};

use crate::fixture::{Native, app, babbles, chat, get, says_in, served, start};
use crate::stored_responses::{LONG, app as lines_app, id, ok, post, prompt, respond, stream};

/// The only text that the pattern of [`run`] matches. Its JSON string has escapes.
const INPUT: &str = "say \"hé\"\n\\o/\u{1f600}";

/// A custom tool with one possible input, in the form of `/v1/responses`.
fn run() -> Value {
    let definition = r#"say "hé"\n\\o/😀"#;
    json!({"type": "custom", "name": "run", "description": "Runs it.",
        "format": {"type": "grammar", "syntax": "regex", "definition": definition}})
}

/// The same tool in the form of a chat request.
fn run_in_chat() -> Value {
    let format = json!({"type": "grammar", "grammar": {"syntax": "regex", "definition": run()["format"]["definition"]}});
    json!({"type": "custom", "custom": {"name": "run", "description": "Runs it.", "format": format}})
}

fn add() -> Value {
    json!({"name": "add", "parameters": {"type": "object", "properties": {"a": {"enum": [1]}},
        "required": ["a"], "additionalProperties": false}})
}

/// Creates an app with a template that supports tools, whose model says `text`.
fn native(text: &'static str) -> App {
    let model = ServedModel { template: Arc::new(Native), ..served("m", start(says_in(LONG, text))) };
    App::new(vec![model], ServerOptions::default()).unwrap()
}

/// Returns the deltas of a streamed chat.
async fn deltas(app: &App, fields: &Value) -> Vec<Value> {
    let mut fields = fields.clone();
    fields["stream"] = true.into();
    let answer = chat(app, &fields).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let events = answer.text.split_terminator("\n\n").filter_map(|event| event.strip_prefix("data: "));
    let events = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    events.map(|event| event["choices"][0]["delta"].clone()).collect()
}

#[tokio::test]
async fn a_chat_has_the_input_of_a_call() {
    let function = json!({"type": "function", "function": add()});
    let allowed = json!({"type": "allowed_tools", "allowed_tools": {
        "mode": "required", "tools": [{"type": "custom", "custom": {"name": "run"}}]}});
    // A model without preferences is forced by the grammar.
    let app = app(babbles(LONG));
    for choice in [json!({"type": "custom", "custom": {"name": "run"}}), allowed] {
        let fields = json!({"tools": [function, run_in_chat()], "tool_choice": choice,
            "parallel_tool_calls": false});
        let answer = ok(&chat(&app, &fields).await)["choices"][0].clone();
        assert_eq!(answer["finish_reason"], "tool_calls");
        let mut call = answer["message"]["tool_calls"][0].clone();
        assert!(call["id"].as_str().unwrap().starts_with("call_"));
        call["id"] = "ID".into();
        let custom = json!({"name": "run", "input": INPUT});
        assert_eq!(call, json!({"id": "ID", "type": "custom", "custom": custom}));

        let calls: Vec<Value> = deltas(&app, &fields).await;
        let calls: Vec<&Value> = calls.iter().filter_map(|delta| delta["tool_calls"].get(0)).collect();
        let first = calls[0];
        assert_eq!((&first["index"], &first["type"]), (&json!(0), &json!("custom")));
        assert_eq!(first["custom"], json!({"name": "run", "input": ""}));
        let pieces = calls.iter().map(|call| call["custom"]["input"].as_str().unwrap());
        assert_eq!(pieces.collect::<String>(), INPUT);
        assert_eq!(calls[1], &json!({"index": 0, "custom": {"input": "s"}}));
        assert!(calls.iter().all(|call| call.get("function").is_none()));
    }
}

#[tokio::test]
async fn a_lark_grammar_forces_the_input() {
    let definition =
        "start: \"*** Begin\" LF line+ \"*** End\" LF?\nline: \"+\" /(.+)/ LF\n%import common.LF";
    let format = json!({"type": "grammar", "syntax": "lark", "definition": definition});
    let tool = json!({"type": "custom", "name": "patch", "format": format});
    let text = "<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"*** Begin\\n+a \\\"b\\\"\\n*** End\"}}\n</tool_call>";
    let response = respond(&native(text), &json!({"input": "Hi", "tools": [tool]})).await;
    assert_eq!(response["output"][0]["input"], "*** Begin\n+a \"b\"\n*** End");
    // A model without preferences is held to the grammar.
    let body = json!({"input": "Hi", "tools": [tool], "tool_choice": "required", "max_output_tokens": 200});
    let response = respond(&app(babbles(LONG)), &body).await;
    let input = response["output"][0]["input"].as_str().unwrap();
    assert!(input.starts_with("*** Begin\n+"), "{input}");
    let broken = json!({"type": "custom", "name": "p", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}});
    let answer = post(&app(babbles(LONG)), "/v1/responses", &json!({"input": "Hi", "tools": [broken]})).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(
        answer.text.contains("tools[0].format.definition") && answer.text.contains("line 1"),
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn one_answer_calls_functions_and_custom_tools() {
    let text = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"note\", \"arguments\": {\"input\": \"a\\tb\"}}\n</tool_call>";
    let app = app(says_in(LONG, text));
    let tools =
        json!([{"type": "function", "function": add()}, {"type": "custom", "custom": {"name": "note"}}]);
    let answer = ok(&chat(&app, &json!({"tools": tools})).await);
    let calls = &answer["choices"][0]["message"]["tool_calls"];
    assert_eq!(calls[0]["function"], json!({"name": "add", "arguments": "{\"a\": 1}"}));
    assert_eq!(calls[1]["custom"], json!({"name": "note", "input": "a\tb"}));
    let streamed = deltas(&app, &json!({"tools": tools})).await;
    let kinds: Vec<&Value> = streamed.iter().filter_map(|delta| delta["tool_calls"][0].get("type")).collect();
    assert_eq!(kinds, ["function", "custom"]);
    assert_eq!(streamed.last(), Some(&json!({})));
    let inputs = streamed.iter().filter_map(|delta| delta["tool_calls"][0]["custom"]["input"].as_str());
    assert_eq!(inputs.collect::<Vec<_>>(), ["", "a", "\t", "b"]);
}

#[tokio::test]
async fn a_response_has_the_input_of_a_call() {
    let app = app(babbles(LONG));
    let allowed =
        json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "run"}]});
    for choice in [json!({"type": "custom", "name": "run"}), allowed, json!("required")] {
        let body =
            json!({"input": "Hi", "tools": [run()], "tool_choice": choice, "parallel_tool_calls": false});
        let response = respond(&app, &body).await;
        let item = &response["output"][0];
        assert!(id(item).starts_with("ctc_") && item["call_id"].as_str().unwrap().starts_with("call_"));
        assert_eq!((&item["type"], &item["status"]), (&json!("custom_tool_call"), &json!("completed")));
        assert_eq!((&item["name"], &item["input"]), (&json!("run"), &json!(INPUT)));
        assert_eq!(response["tools"], json!([run()]));
        let path = format!("/v1/responses/{}", id(&response));
        assert_eq!(ok(&get(&app, &path).await), response);

        let events = stream(&app, &body).await;
        let of = |kind: &str| -> Vec<&Value> {
            events.iter().filter(|event| event["type"] == format!("response.{kind}")).collect()
        };
        let [added] = of("output_item.added")[..] else { panic!("{events:?}") };
        let [done] = of("output_item.done")[..] else { panic!("{events:?}") };
        assert_eq!(
            (&added["item"]["type"], &added["item"]["input"], &added["item"]["status"]),
            (&json!("custom_tool_call"), &json!(""), &json!("in_progress"))
        );
        assert_eq!((&done["item"]["input"], &done["item"]["id"]), (&json!(INPUT), &added["item"]["id"]));
        let pieces = of("custom_tool_call_input.delta");
        assert!(pieces.iter().all(|piece| piece["item_id"] == added["item"]["id"]));
        let text: String = pieces.iter().map(|piece| piece["delta"].as_str().unwrap()).collect();
        assert_eq!((text.as_str(), pieces.len()), (INPUT, INPUT.chars().count()));
        assert_eq!(of("custom_tool_call_input.done")[0]["input"], INPUT);
        assert_eq!(of("completed")[0]["response"]["output"], json!([done["item"]]));
        assert!(of("function_call_arguments.delta").is_empty());
    }
}

#[tokio::test]
async fn an_input_that_the_limit_cuts_off_is_incomplete() {
    let app =
        native("<tool_call>\n{\"name\": \"note\", \"arguments\": {\"input\": \"ab\\ncd\"}}\n</tool_call>");
    let body = json!({"input": "Hi", "tools": [{"type": "custom", "name": "note"}], "on_budget": "length",
        "max_output_tokens": "<tool_call>\n{\"name\": \"note\", \"arguments\": {\"input\": \"ab\\".len()});
    let item = respond(&app, &body).await["output"][0].clone();
    assert_eq!((&item["input"], &item["status"]), (&json!("ab"), &json!("incomplete")));
}

#[tokio::test]
async fn a_result_continues_its_call() {
    let text = "<tool_call>\n{\"name\": \"note\", \"arguments\": {\"input\": \"a\\\"b\"}}\n</tool_call>";
    let app = native(text);
    let tools = json!([{"type": "custom", "name": "note"}]);
    let first = respond(&app, &json!({"input": "Rain?", "tools": tools})).await;
    let called = &first["output"][0];
    assert_eq!(called["input"], "a\"b");
    let parts = json!([{"type": "input_text", "text": "Rain."}]);
    for output in [json!("Rain."), parts] {
        let result =
            json!({"type": "custom_tool_call_output", "call_id": called["call_id"], "output": output});
        let body = json!({"input": [result], "previous_response_id": id(&first), "tools": tools});
        let second = respond(&app, &body).await;
        let listed = ok(&get(&app, &format!("/v1/responses/{}/input_items?order=asc", id(&second))).await);
        assert_eq!(&listed["data"][1], called);
        let result = &listed["data"][2];
        assert!(id(result).starts_with("ctco_"));
        assert_eq!((&result["type"], &result["output"]), (&json!("custom_tool_call_output"), &output));
    }
    // The items themselves, as clients without stored responses send them.
    let body = json!({"store": false, "tools": tools, "input": [
        {"role": "user", "content": "Rain?"}, called,
        {"type": "custom_tool_call_output", "call_id": called["call_id"], "output": "Rain."}]});
    assert_eq!(respond(&app, &body).await["output"][0]["input"], "a\"b");
    let conversation =
        json!({"items": [{"type": "custom_tool_call", "call_id": "c1", "name": "note", "input": "x"}]});
    let created = ok(&post(&app, "/v1/conversations", &conversation).await);
    let items = ok(&get(&app, &format!("/v1/conversations/{}/items", id(&created))).await);
    assert!(id(&items["data"][0]).starts_with("ctc_"), "{items}");
    assert_eq!((&items["data"][0]["input"], &items["data"][0]["call_id"]), (&json!("x"), &json!("c1")));
}

#[tokio::test]
async fn the_prompt_has_functions_with_an_input() {
    let (app, template) = lines_app();
    let call = json!({"id": "c1", "type": "custom", "custom": {"name": "run", "input": "a\"\n"}});
    let messages = json!([
        {"role": "user", "content": "Run."},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]);
    assert_eq!(chat(&app, &json!({"messages": messages, "tools": [run_in_chat()]})).await.content(), "Yes.");
    let prompt = prompt(&template);
    let description = format!(
        "Runs it.\n\n`input` must match this regular expression:\n{}",
        run()["format"]["definition"].as_str().unwrap()
    );
    assert!(prompt.contains(&json!(description).to_string()), "{prompt}");
    assert!(prompt.contains(r#""properties":{"input":{"type":"string"}}"#), "{prompt}");
    let history = "user: Run.\nassistant: <tool_call>\n{\"name\": \"run\", \"arguments\": {\"input\": \"a\\\"\\n\"}}\n</tool_call>\nuser: <tool_response>\nok\n</tool_response>\nassistant:";
    assert!(prompt.ends_with(history), "{prompt}");
}

#[tokio::test]
async fn a_grammar_that_cannot_be_enforced_is_always_an_error() {
    let app = app(babbles(LONG));
    let mut tool = run_in_chat();
    tool["custom"]["format"]["grammar"]["definition"] = "(a)\\1".into();
    for fields in [json!({"tools": [tool]}), json!({"tools": [tool], "on_unsupported_schema": "json_object"})]
    {
        let answer = chat(&app, &fields).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        let error = answer.json()["error"].clone();
        assert_eq!(error["param"], "tools[0].custom.format.grammar.definition");
        assert_eq!(error["message"], "tool `run`: regex, offset 3: back-references are not supported");
    }
}
