//! Compares chat templates with the output of Python's `jinja2`.
//!
//! `template_data/reference.py` generates `expected.json` for `template_data`, and for a folder
//! named by `FORMWORK_CHAT_TEMPLATES`. The templates of a folder without this file are only
//! rendered.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use formwork_lm::{ChatInput, ChatTemplate, Message, TemplateError};
use formwork_model::template::JinjaTemplate;
use serde::Deserialize;

/// 9 March 2025, 14:05:07, as in `reference.py`.
const NOW: Duration = Duration::from_secs(1_741_529_107);

#[derive(Deserialize)]
struct Conversation {
    messages: Vec<Message>,
    add_generation_prompt: bool,
    variables: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Expected {
    Text(String),
    /// Message of an error that the template itself raised.
    Raised(String),
    /// Any other error of Python. Rendering may fail as well or may succeed.
    Error(serde::de::IgnoredAny),
}

/// Expected results by template and conversation.
type Expectations = BTreeMap<String, BTreeMap<String, Expected>>;

fn data() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/template_data"))
}

fn conversations() -> BTreeMap<String, Conversation> {
    serde_json::from_str(&fs::read_to_string(data().join("conversations.json")).unwrap()).unwrap()
}

fn input(conversation: &Conversation) -> ChatInput {
    ChatInput {
        messages: conversation.messages.clone(),
        add_generation_prompt: conversation.add_generation_prompt,
        variables: conversation.variables.clone(),
    }
}

fn compile(source: &str) -> JinjaTemplate {
    JinjaTemplate::new(source, Some("<s>"), Some("</s>")).unwrap().with_now(UNIX_EPOCH + NOW)
}

fn render(source: &str) -> Result<String, TemplateError> {
    let messages = vec![Message::new("user", "Hello")];
    JinjaTemplate::new(source, Some("<s>"), None)?.render(&ChatInput { messages, ..ChatInput::default() })
}

/// Renders every template of `folder` with every conversation. Returns the number of compared
/// renderings.
fn check_folder(folder: &Path) -> usize {
    let expected = fs::read_to_string(folder.join("expected.json")).ok();
    let expected: Expectations =
        expected.map(|text| serde_json::from_str(&text).unwrap()).unwrap_or_default();
    let mut failures = Vec::new();
    let mut compared = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "jinja") {
            continue;
        }
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let template = compile(&fs::read_to_string(&path).unwrap());
        for (name, conversation) in conversations() {
            let rendered = template.render(&input(&conversation));
            let agrees = match (expected.get(&file).and_then(|cases| cases.get(&name)), &rendered) {
                (Some(Expected::Text(text)), Ok(rendered)) => text == rendered,
                (Some(Expected::Raised(message)), Err(error)) => *message == error.message,
                (Some(Expected::Text(_) | Expected::Raised(_)), _) => false,
                (Some(Expected::Error(_)) | None, _) => continue,
            };
            compared += usize::from(agrees);
            if !agrees {
                let expected = &expected[&file][&name];
                failures.push(format!("{file} {name}:\n{rendered:?}\nshould be\n{expected:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    compared
}

/// Number of renderings that fail in Python. They use a variable that only some conversations have,
/// or concatenate text with `None`.
const FAILURES: usize = 6;

#[test]
fn our_templates_render_as_in_python() {
    assert_eq!(check_folder(data()), 5 * conversations().len() - FAILURES);
}

#[test]
fn the_folder_of_real_templates_renders_as_in_python() {
    if let Some(folder) = std::env::var_os("FORMWORK_CHAT_TEMPLATES") {
        let compared = check_folder(Path::new(&folder));
        println!("{compared} renderings are those of jinja2");
    }
}

#[test]
fn an_error_names_its_line_and_the_expression() {
    let error = render("fine\n{{ messages[0].tone.pitch }}").unwrap_err();
    assert_eq!(error.line, Some(2));
    assert!(error.message.contains("messages[0].tone"), "{error}");

    let error = render("{% for m in messages %}\n\n{% if %}").unwrap_err();
    assert_eq!(error.line, Some(3));
    assert!(error.message.starts_with("syntax error"), "{error}");

    let error = render("\n{{ messages | shout }}").unwrap_err();
    assert_eq!(error.line, Some(2));
    assert!(error.message.contains("shout"), "{error}");

    let error = render("{{ strftime_now('%Q') }}").unwrap_err();
    assert!(error.message.contains("strftime_now does not support %Q"), "{error}");

    let error = render(
        "{% macro refuse() %}\n{{ raise_exception('no: ' ~ messages[0].role) }}{% endmacro %}{{ refuse() }}",
    );
    assert_eq!(error.unwrap_err(), TemplateError { message: "no: user".into(), line: Some(2) });
}

#[test]
fn limits_template_execution() {
    let nested = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
    assert!(render(nested).unwrap_err().message.contains("fuel"));
    let endless = "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}";
    assert!(render(endless).unwrap_err().message.contains("recursion limit"));
    assert!(render("{{ range(1000000000) | list }}").is_err());
    assert!(render("{{ 'x' * 1000000000000 }}").is_err());
    let long = "{% set line = 'x' * 60000 %}{% for a in range(9999) %}{{ line }}{% endfor %}";
    assert!(render(long).unwrap_err().message.contains("limit of"));
    assert!(render(&"{% if true %}".repeat(50_000)).is_err());
    assert!(render(&format!("{{{{ {}1{} }}}}", "(".repeat(50_000), ")".repeat(50_000))).is_err());
    assert!(render(&"x".repeat(2 << 20)).unwrap_err().message.contains("limit"));
}

#[test]
fn a_template_sees_only_its_variables() {
    for source in ["{% include 'other' %}", "{% import 'other' as other %}", "{% extends 'other' %}"] {
        assert!(render(source).is_err(), "{source}");
    }
    assert_eq!(
        render("{{ bos_token }}{{ eos_token }}{{ tools }}{{ eos_token is defined }}").unwrap(),
        "<s>NoneFalse"
    );
}

#[test]
fn rejects_variables_that_replace_the_conversation() {
    let variables = [("messages".to_owned(), serde_json::json!([]))].into_iter().collect();
    let error = compile("").render(&ChatInput { variables, ..ChatInput::default() }).unwrap_err();
    assert_eq!(error.message, "variable messages is reserved for the conversation");
}

#[test]
fn without_a_clock_the_date_stands_still() {
    assert_eq!(render("{{ strftime_now('%d %b %Y') }}").unwrap(), "01 Jan 2025");
}
