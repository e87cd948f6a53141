//! Conversations as clients write them, for real chat templates.
//!
//! The environment variable `FORMWORK_CALL_VECTORS` names a folder of templates.

use std::sync::Arc;

use formwork_chat::{ChatFormat, Thoughts, Tool};
use formwork_lm::Message;
use formwork_model::template::JinjaTemplate;
use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
use serde_json::{Map, Value, json};

const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Templates that begin thoughts, whatever a request asks for.
const ALWAYS_THINKING: [&str; 5] = ["glm-5.3", "minimax-m2", "minimax-m2.7", "nemotron-nano-v2", "step-3.5"];

/// Returns the real templates by name, or nothing if there is no folder of them.
fn templates() -> Vec<(String, JinjaTemplate)> {
    let Some(folder) = std::env::var_os("FORMWORK_CALL_VECTORS") else { return Vec::new() };
    let files = std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let templates = files.filter(|path| path.extension().is_some_and(|end| end == "jinja")).map(|path| {
        let source = std::fs::read_to_string(&path).expect("a template");
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, JinjaTemplate::new(&source, Some("<s>"), Some("</s>")).expect("a template"))
    });
    let templates: Vec<_> = templates.collect();
    assert!(!templates.is_empty(), "{} has no templates", folder.display());
    templates
}

fn format_of(template: &JinjaTemplate) -> ChatFormat {
    let bytes = (0..=255u8).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Text });
    let vocabulary = Vocabulary::new(bytes.collect(), vec![TokenId(0)]).expect("a vocabulary");
    ChatFormat::of(template, &vocabulary)
}

fn tool(parameters: Value) -> Tool {
    let parameters = Arc::new(parameters);
    Tool { name: "add".to_owned(), description: None, parameters, custom: None, place: String::new() }
}

fn calling(ids: &[&str]) -> Message {
    let call = |id: &&str| json!({ "id": id, "type": "function", "function": { "name": "add", "arguments": "{\"a\": 1}" } });
    let mut message = Message { role: "assistant".to_owned(), content: None, fields: Map::new() };
    message.fields.insert("tool_calls".to_owned(), ids.iter().map(call).collect());
    message
}

fn result(id: &str, text: &str) -> Message {
    let mut message = Message::new("tool", text);
    message.fields.insert("tool_call_id".to_owned(), id.into());
    message
}

/// Returns conversations with the texts that their prompts must have.
fn conversations() -> Vec<(&'static str, Vec<Message>, Vec<&'static str>)> {
    let system = |text: &str| Message::new("system", text);
    let user = |text: &str| Message::new("user", text);
    let says = |text: &str| Message::new("assistant", text);
    let empty = Message { role: "assistant".to_owned(), content: None, fields: Map::new() };
    let (one, done) = (calling(&["call_1"]), result("call_1", "DONE"));
    vec![
        ("developer", vec![Message::new("developer", "RULES"), user("ASKED")], vec!["RULES", "ASKED"]),
        ("two systems", vec![system("RULES"), system("MORE"), user("ASKED")], vec!["RULES", "MORE", "ASKED"]),
        (
            "a later system",
            vec![user("ASKED"), says("SAID"), system("RULES"), user("AGAIN")],
            vec!["SAID", "RULES", "AGAIN"],
        ),
        ("only a system", vec![system("RULES")], vec!["RULES"]),
        ("two users", vec![user("ASKED"), user("AGAIN")], vec!["ASKED", "AGAIN"]),
        ("an answer first", vec![says("SAID"), user("ASKED")], vec!["SAID", "ASKED"]),
        (
            "two answers",
            vec![user("ASKED"), says("SAID"), says("MORE"), user("AGAIN")],
            vec!["SAID", "MORE", "AGAIN"],
        ),
        ("an empty answer", vec![user("ASKED"), empty, user("AGAIN")], vec!["ASKED", "AGAIN"]),
        ("a call", vec![user("ASKED"), one.clone(), done.clone()], vec!["add", "DONE"]),
        (
            "a call and a user",
            vec![user("ASKED"), one.clone(), done.clone(), user("AGAIN")],
            vec!["DONE", "AGAIN"],
        ),
        (
            "two calls",
            vec![user("ASKED"), calling(&["call_1", "call_2"]), done.clone(), result("call_2", "READY")],
            vec!["DONE", "READY"],
        ),
        (
            "a note between results",
            vec![
                user("ASKED"),
                calling(&["call_1", "call_2"]),
                result("call_2", "READY"),
                user("AGAIN"),
                done.clone(),
            ],
            vec!["DONE", "READY", "AGAIN"],
        ),
        (
            "two turns of calls",
            vec![user("ASKED"), one.clone(), done.clone(), calling(&["call_2"]), result("call_2", "READY")],
            vec!["DONE", "READY"],
        ),
        ("a call without a result", vec![user("ASKED"), one, user("AGAIN")], vec!["ASKED", "AGAIN"]),
        ("a result without a call", vec![user("ASKED"), done], vec!["ASKED", "DONE"]),
    ]
}

#[test]
fn conversations_of_clients_reach_real_templates() {
    for (name, template) in templates() {
        let format = format_of(&template);
        let simple = tool(json!({ "type": "object", "properties": { "a": { "type": "integer" } } }));
        for tools in [&[][..], &[simple]] {
            for (shape, messages, texts) in conversations() {
                let input = format.input(&messages, tools, Map::new());
                let prompt = formwork_chat::render(&template, &input);
                let prompt = prompt.unwrap_or_else(|error| panic!("{name}, {shape}: {error}"));
                // Some templates write the system message after the first message of the user.
                let is_placed = |text: &&str| prompt.rfind(*text).filter(|_| !text.starts_with("RULES"));
                let places: Vec<usize> = texts.iter().filter_map(is_placed).collect();
                assert!(places.is_sorted(), "{name}, {shape}: {texts:?} have another order in {prompt}");
                for text in texts {
                    assert!(prompt.contains(text), "{name}, {shape}: {text} is not in {prompt}");
                }
            }
        }
    }
}

#[test]
fn declarations_of_clients_reach_real_templates() {
    let odd = json!({ "type": "object", "properties": {
        "a": { "anyOf": [{ "type": "integer" }, { "type": "null" }] }, "b": { "type": ["string", "null"] },
        "c": { "enum": [1, null] }, "d": true, "e": { "$ref": "#/$defs/X" }, "f": { "type": "array" },
        "g": { "type": "array", "items": { "type": "object", "properties": { "z": { "const": 1 } } } },
    }, "$defs": { "X": { "type": "string" } } });
    for (name, template) in templates() {
        let format = format_of(&template);
        for parameters in [json!({}), json!(true), json!({ "type": "object" }), odd.clone()] {
            let input =
                format.input(&[Message::new("user", "ASKED")], &[tool(parameters.clone())], Map::new());
            let prompt = formwork_chat::render(&template, &input);
            assert!(prompt.is_ok_and(|prompt| prompt.contains("add")), "{name}: {parameters}");
        }
    }
}

#[test]
fn requests_switch_thoughts_of_real_templates() {
    for (name, template) in templates() {
        let format = format_of(&template);
        let prompt = |variables: Value| {
            let variables = variables.as_object().expect("variables").clone();
            let input = format.input(&[Message::new("user", "ASKED")], &[], variables);
            let prompt = formwork_chat::render(&template, &input);
            let prompt = prompt.unwrap_or_else(|error| panic!("{name}, {:?}: {error}", input.variables));
            let thoughts = format.thoughts(&prompt);
            (thoughts, format.thoughts(&format.without_begun_thoughts(prompt, &input)))
        };
        for effort in EFFORTS {
            prompt(json!({ "reasoning_effort": effort }));
            prompt(json!({ "reasoning_effort": effort, "enable_thinking": true }));
        }
        let (off, ended) = prompt(json!({ "enable_thinking": false }));
        assert_ne!(ended, Thoughts::Begun, "{name}");
        assert!(off != Thoughts::Begun || ALWAYS_THINKING.contains(&name.as_str()), "{name}");
    }
}
