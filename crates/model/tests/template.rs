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

#[test]
fn lists_of_a_template_can_change() {
    let cases = [
        ("{% set a = [1] %}{% for x in [2, 3] %}{% set _ = a.append(x) %}{% endfor %}{{ a }}", "[1, 2, 3]"),
        (
            "{% set n = namespace(ids=[]) %}{% set _ = n.ids.append('x') %}{{ n.ids.pop(0) }}{{ n.ids | length }}",
            "x0",
        ),
        (
            "{% macro add(a) %}{% set _ = a.append(5) %}{% endmacro %}{% set b = [] %}{{ add(b) }}{{ add(b) }}{{ b | join('-') }}",
            "5-5",
        ),
        (
            "{% set a = [1, 2, 3, 4] %}{{ a.pop() }}{{ a.pop(-2) }}{% set _ = a.insert(1, 9) %}{% set _ = a.insert(-9, 0) %}{{ a }}",
            "42[0, 1, 9, 3]",
        ),
        (
            "{% set a = [1, 2, 1] %}{% set _ = a.remove(1) %}{% set _ = a.extend(a) %}{% set _ = a.reverse() %}{{ a | tojson }}",
            "[1, 2, 1, 2]",
        ),
        (
            "{% set a = messages | list %}{% set _ = a.append({'role': 'x'}) %}{{ a | length }}{{ messages | length }}{{ a[-1].role }}",
            "21x",
        ),
        (
            "{% set a = ['y'] %}{% set b = a %}{% set _ = b.append('z') %}{{ a[1:] + ['w'] }}{{ 'z' in a }}{{ a == ['y', 'z'] }}",
            "['z', 'w']TrueTrue",
        ),
        (
            "{% set a = [1, 2] %}{% set _ = a.clear() %}{% if not a %}empty{% endif %}{{ a is sequence }}{{ a is iterable }}{{ a.count(1) }}",
            "emptyTrueTrue0",
        ),
    ];
    for (source, expected) in cases {
        // A second rendering starts with new lists.
        let template = compile(source);
        let input = || ChatInput { messages: vec![Message::new("user", "Hello")], ..ChatInput::default() };
        for _ in 0..2 {
            assert_eq!(template.render(&input()).unwrap(), expected, "{source}");
        }
    }
}

#[test]
fn changes_of_lists_are_bounded() {
    let cases = [
        ("{% set a = [1] %}{% for x in range(99) %}{% set _ = a.extend(a) %}{% endfor %}", "limit"),
        ("{% set a = [] %}{% set _ = a.append(a) %}", "into itself"),
        ("{% set a = [] %}{% set b = [{'x': a}] %}{% set _ = a.append(b) %}", "into itself"),
        ("{% set n = namespace(a=[]) %}{% set _ = n.a.append(n) %}", "namespace"),
        ("{% set a = [] %}{{ a.pop() }}", "out of range"),
        ("{% set a = [] %}{{ a.pop(0, 1) }}", "argument"),
        (
            "{% set a = [] %}{% set _ = a.append(1) %}{% set _ = messages.append(1) %}",
            "only lists that the template makes",
        ),
        (
            "{% set a = [] %}{% set n = namespace(b=[]) %}{% for x in range(999) %}{% set n.b = [n.b] %}{% endfor %}{% set _ = a.append(n.b) %}",
            "deeply",
        ),
        (
            "{% set a = [] %}{% set b = range(90000) | list %}{% for x in range(9999) %}{% set _ = a.append(b) %}{% endfor %}",
            "too much work",
        ),
        (
            "{% set a = range(99999) | list %}{% for x in range(9999) %}{% set _ = a.insert(50000, 1) %}{% endfor %}",
            "too much work",
        ),
    ];
    for (source, expected) in cases {
        let error = render(source).unwrap_err();
        assert!(error.message.contains(expected), "{source}: {error}");
    }
}

#[test]
fn templates_that_read_parts_get_parts() {
    // As SmolVLM's: a content that is a text has no members.
    let source = "{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{% if part.type == 'text' %}\
                  {{ part.text }}{% endif %}{% endfor %}{{ m.name }}{% endfor %}";
    let template = JinjaTemplate::new(source, None, None).unwrap();
    let mut named = Message::new("tool", "22 °C");
    named.fields.insert("name".to_owned(), "weather".into());
    let empty = Message { role: "assistant".to_owned(), content: None, fields: serde_json::Map::new() };
    let messages = vec![Message::new("user", "Warm?"), empty, named];
    let prompt = template.render(&ChatInput { messages, ..ChatInput::default() }).unwrap();
    assert_eq!(prompt, "<user>Warm?<assistant><tool>22 °Cweather");
}
