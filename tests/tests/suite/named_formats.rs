//! Formats of models whose templates do not show their calls.

use std::sync::Arc;

use formwork_chat::{ChatFormat, Content, Delta, Reader, Thoughts, Tool, Tools};
use formwork_grammar::{Grammar, Limits, SchemaOptions};
use formwork_lm::{ChatTemplate, Message};
use formwork_model::template::JinjaTemplate;
use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
use serde_json::{Map, Value, json};

/// A template that declares tools and writes the text of all messages, but no calls.
const SILENT: &str = "{% if tools %}<tools>{{ tools | tojson }}</tools>\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Creates a vocabulary of all bytes and the control tokens `controls`.
fn vocabulary(controls: &[&str]) -> Vocabulary {
    let bytes = (0..=255u8).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Text });
    let controls = ["<|im_end|>"].iter().chain(controls);
    let controls = controls.map(|text| Token { bytes: (*text).into(), kind: TokenKind::Control });
    Vocabulary::new(bytes.chain(controls).collect(), vec![TokenId(256)]).expect("a vocabulary")
}

fn tools() -> Tools {
    let save = json!({ "type": "object", "properties": {
        "path": { "type": "string" }, "lines": { "type": "integer" },
        "more": { "type": "object", "properties": { "deep": { "type": "array", "items": { "type": ["boolean", "null", "string"] } } },
            "additionalProperties": false },
    }, "required": ["path"], "additionalProperties": false });
    let none = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let tool = |name: &str, parameters: Value| Tool {
        name: name.to_owned(),
        description: None,
        parameters: Arc::new(parameters),
        custom: None,
        place: format!("tools.{name}"),
    };
    Tools { tools: vec![tool("save", save), tool("now", none)], required: true, parallel: true }
}

/// A family: its control tokens, a text of its template, and a turn with two calls, or with one call if
/// the family has no more.
type Family = (&'static str, &'static [&'static str], &'static str, &'static str);

const FAMILIES: [Family; 9] = [
    ("llama", &[], "{# [func_name1(params_name1=params_value1) #}", "[save(path=\"it's\", lines=2), now()]"),
    (
        "granite",
        &["<|tool_call|>"],
        "{# available_tools #}",
        "<|tool_call|>[{\"name\": \"save\", \"arguments\": {\"path\": \"it's\", \"lines\": 2}}, {\"name\": \"now\", \"arguments\": {}}]",
    ),
    (
        "phi",
        &[],
        "{# functools[ #}",
        "functools[{\"name\": \"save\", \"arguments\": {\"path\": \"it's\", \"lines\": 2}}, {\"name\": \"now\", \"arguments\": {}}]",
    ),
    (
        "hunyuan",
        &[],
        "{# <tool_calls>[{\"name\": #}",
        "<tool_calls>[{\"name\": \"save\", \"arguments\": {\"path\": \"it's\", \"lines\": 2}}, {\"name\": \"now\", \"arguments\": {}}]</tool_calls>",
    ),
    (
        "lfm2",
        &["<|tool_call_start|>", "<|tool_call_end|>"],
        "",
        "<|tool_call_start|>[save(path='it\\'s', lines=2), now()]<|tool_call_end|>",
    ),
    (
        "internlm",
        &["<|action_start|>", "<|plugin|>", "<|action_end|>"],
        "",
        "<|action_start|><|plugin|>\n{\"name\": \"save\", \"parameters\": {\"path\": \"it's\", \"lines\": 2}}<|action_end|>",
    ),
    (
        "gigachat",
        &["<|function_call|>", "<|message_sep|>", "<|role_sep|>"],
        "",
        "<|function_call|>{\"name\": \"save\", \"arguments\": {\"path\": \"it's\", \"lines\": 2}}",
    ),
    (
        "functiongemma",
        &["<start_function_call>", "<end_function_call>", "<escape>"],
        "",
        "<start_function_call>call:save{lines:2,path:<escape>it's<escape>}<end_function_call><start_function_call>call:now{}<end_function_call>",
    ),
    (
        "step",
        &[
            "<｜tool_calls_begin｜>",
            "<｜tool_call_begin｜>",
            "<｜tool_sep｜>",
            "<｜tool_call_end｜>",
            "<｜tool_calls_end｜>",
        ],
        "",
        "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"save\"><steptml:parameter name=\"path\">it's</steptml:parameter><steptml:parameter name=\"lines\">2</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"now\"></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
    ),
];

/// A model whose template does not show its calls, and a turn with calls.
struct Subject {
    name: &'static str,
    vocabulary: Vocabulary,
    template: JinjaTemplate,
    turn: &'static str,
}

impl Subject {
    fn format(&self) -> ChatFormat {
        ChatFormat::of(&self.template, &self.vocabulary)
    }
}

/// Returns the families with marks, and models with a response template.
fn subjects() -> Vec<Subject> {
    let template =
        |mark: &str| JinjaTemplate::new(&format!("{mark}{SILENT}"), None, None).expect("a template");
    let families = FAMILIES.into_iter().map(|(name, controls, mark, turn)| Subject {
        name,
        vocabulary: vocabulary(controls),
        template: template(mark),
        turn,
    });
    let captured = json!({ "type": "function", "function": { "name": "{name}", "arguments": "{content}" } });
    let read = [
        (
            "read as objects",
            json!({ "open": "<call>", "close": "</call>", "repeats": true, "content": "json",
                "transform": { "type": "function", "function": "{content}" } }),
            "<call>{\"name\": \"save\", \"arguments\": {\"path\": \"it's\", \"lines\": 2}}</call><call>{\"name\": \"now\", \"arguments\": {}}</call>",
        ),
        (
            "read as tags",
            json!({ "open_pattern": r"<call>\s*<(?P<name>[^>]+)>", "close_pattern": r"</call>\s*",
                "repeats": true, "content": "xml-inline", "transform": captured,
                "content_args": { "tag_pattern": r"<key>(?P<key>[^<]+)</key>\s*<value>(?P<value>.*?)</value>" } }),
            "<call><save><key>path</key><value>it's</value><key>lines</key><value>2</value></call><call><now></call>",
        ),
        (
            "read as tags after a name",
            json!({ "open_pattern": r"<call>(?P<name>[^<]+)", "close": "</call>", "repeats": true,
                "content": "xml-inline", "transform": captured,
                "content_args": { "tag_pattern": "<key>(?P<key>[^<]+)</key><value>(?P<value>.*?)</value>" } }),
            "<call>save<key>path</key><value>it's</value><key>lines</key><value>2</value></call><call>now</call>",
        ),
        (
            "read as quoted text",
            json!({ "open_pattern": r"<call>call:(?P<name>\w+)", "close": "</call>", "repeats": true,
                "content": "json", "transform": captured,
                "content_args": { "string_delims": [["~'~", "~'~"]], "unquoted_keys": true } }),
            "<call>call:save{lines:2,path:~'~it's~'~}</call><call>call:now{}</call>",
        ),
        (
            "read as Python",
            json!({ "open": "<calls>", "close": "</calls>", "content": "python-call-list",
                "transform_each": true,
                "transform": { "function": { "name": "{name}", "arguments": "{arguments}" } } }),
            "<calls>[save(path=\"it's\", lines=2), now()]</calls>",
        ),
    ];
    let read = read.into_iter().map(|(name, calls, turn)| Subject {
        name,
        vocabulary: vocabulary(&[]),
        template: template("").with_response_template(Some(json!({ "fields": { "tool_calls": calls } }))),
        turn,
    });
    families.chain(read).collect()
}

fn format_of(source: &str, vocabulary: &Vocabulary) -> ChatFormat {
    ChatFormat::of(&JinjaTemplate::new(source, None, None).expect("a template"), vocabulary)
}

/// Reads `text`, in which control tokens have their spelling, and is cut after each `step` characters.
fn read(format: &ChatFormat, vocabulary: &Vocabulary, text: &str, step: usize) -> Vec<(String, Value)> {
    let mut reader = Reader::new(format, &Content::Free, &tools(), Thoughts::None);
    let controls: Vec<(TokenId, String)> = (256..u32::try_from(vocabulary.len()).expect("few tokens"))
        .map(TokenId)
        .map(|token| (token, String::from_utf8_lossy(vocabulary.bytes(token)).into_owned()))
        .collect();
    let (mut deltas, mut rest, mut piece) = (Vec::new(), text, String::new());
    while let Some(c) = rest.chars().next() {
        let control = controls.iter().find(|(_, spelling)| rest.starts_with(spelling.as_str()));
        if control.is_some() || piece.chars().count() == step {
            deltas.extend(reader.text(&std::mem::take(&mut piece)));
        }
        if let Some((token, spelling)) = control {
            deltas.extend(reader.control(*token, vocabulary));
            rest = &rest[spelling.len()..];
        } else {
            piece.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    deltas.extend(reader.text(&piece));
    deltas.extend(reader.finish());
    let mut calls: Vec<(String, String)> = Vec::new();
    for delta in deltas {
        match delta {
            Delta::Call(name) => calls.push((name, String::new())),
            Delta::Arguments(text) => calls.last_mut().expect("a call").1.push_str(&text),
            Delta::Content(text) => assert_eq!(text.trim(), "", "{text}"),
            Delta::Thought(_) => {}
        }
    }
    let value = |(name, text): (String, String)| (name, serde_json::from_str(&text).expect("JSON"));
    calls.into_iter().map(value).collect()
}

#[test]
fn marks_of_a_model_choose_its_format() {
    for subject in subjects() {
        let (format, Subject { name, vocabulary, template, turn }) = (subject.format(), subject);
        assert!(format.declares_tools(), "{name}");
        let first = ("save".to_owned(), json!({ "path": "it's", "lines": 2 }));
        let mut expected = vec![first, ("now".to_owned(), json!({}))];
        expected.truncate(turn.matches("now").count() + 1);
        for step in [1, 3, 1000] {
            assert_eq!(read(&format, &vocabulary, turn, step), expected, "{name}");
        }
        // The conversation has earlier calls in the same form.
        let calls: Vec<Value> = expected
            .iter()
            .map(|(name, arguments)| json!({ "id": "a", "type": "function", "function": { "name": name, "arguments": arguments.to_string() } }))
            .collect();
        let mut assistant = Message::new("assistant", "");
        assistant.fields.insert("tool_calls".to_owned(), calls.into());
        let mut result = Message::new("tool", "it is done");
        result.fields.insert("tool_call_id".to_owned(), "a".into());
        let input =
            format.input(&[Message::new("user", "Hi"), assistant, result], &tools().tools, Map::new());
        let text = template.render(&input).expect(name);
        let spaced = text.replace("\":", "\": ").replace("\":  ", "\": ").replace(",\"", ", \"");
        assert!(text.contains(turn) || spaced.contains(turn), "{name}: {text}");
        assert!(text.contains("<|im_start|>tool\nit is done"), "{name}: {text}");
    }
}

#[test]
fn what_a_grammar_writes_in_a_named_format_is_read_back() {
    for subject in subjects() {
        let (format, Subject { name, vocabulary, .. }) = (subject.format(), subject);
        let part = format.answer(&Content::Free, &tools(), Thoughts::None).expect("bounded");
        let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default()).expect(name);
        let mut count = 0;
        for output in grammar.samples(8).max_bytes(250).take(60) {
            let mut text = String::from_utf8_lossy(&output).into_owned();
            for token in 256..u32::try_from(vocabulary.len()).expect("few tokens") {
                let spelling = String::from_utf8_lossy(vocabulary.bytes(TokenId(token))).into_owned();
                text = text.replace(&format!("<[{token}]>"), &spelling);
            }
            let whole = read(&format, &vocabulary, &text, 1000);
            assert_eq!(whole, read(&format, &vocabulary, &text, 1), "{name}: {text}");
            for (called, arguments) in &whole {
                let tools = tools();
                let tool = tools.tools.iter().find(|tool| tool.name == *called).expect(name);
                let validator = jsonschema::validator_for(&tool.parameters).expect("a schema");
                assert!(validator.is_valid(arguments), "{name}: {text} is {arguments}");
            }
            count += whole.len();
        }
        assert!(count > 30, "{name}: {count}");
    }
}

#[test]
fn a_response_template_counts_where_the_chat_template_shows_nothing() {
    let response = json!({ "version": 1, "fields": {
        "thinking": { "open": "<note>", "close": "</note>" },
        "tool_calls": { "open": "<call>", "close": "</call>", "content": "json",
            "transform": { "function": "{content}" } },
    } });
    let calls = "{% for c in m.tool_calls %}<tool>{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}</tool>{% endfor %}<|im_end|>";
    let showing = SILENT.replace("<|im_end|>", calls);
    let describe = |source: &str, response: Option<Value>| {
        let template = JinjaTemplate::new(source, None, None).expect("a template");
        ChatFormat::of(&template.with_response_template(response), &vocabulary(&[])).describe()
    };
    let both = describe(&showing, Some(response.clone()));
    assert!(both.sample.starts_with("<tool>{\"name\""), "{}", both.sample);
    let alone = describe(SILENT, Some(response.clone()));
    assert!(alone.sample.starts_with("<call>{\"name\": \"get_weather\""), "{}", alone.sample);
    assert_eq!(alone.json_reason, None);
    assert_eq!(alone.thoughts, Some(("<note>".to_owned(), "</note>".to_owned())));
    let mut unknown = response;
    unknown["version"] = 2.into();
    assert_eq!(describe(SILENT, Some(unknown)), describe(SILENT, None));
}

#[test]
fn a_format_needs_all_of_its_marks() {
    let unnamed = format_of(SILENT, &vocabulary(&[]));
    for (name, controls, mark, turn) in FAMILIES {
        let calls_hermes = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
        let hermes = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
        // A template that writes calls is right, except for the ones that are known to be wrong.
        let vocabulary = vocabulary(controls);
        let written = format_of(&format!("{mark}{calls_hermes}"), &vocabulary);
        let text = if name == "phi" { turn } else { hermes };
        assert!(!read(&written, &vocabulary, text, 1).is_empty(), "{name}");
        if controls.is_empty() {
            continue;
        }
        let fewer = self::vocabulary(&controls[1..]);
        let format = format_of(&format!("{mark}{SILENT}"), &fewer);
        assert_eq!(read(&format, &fewer, hermes, 1), [("now".to_owned(), json!({}))], "{name}");
    }
    assert_eq!(
        read(
            &unnamed,
            &vocabulary(&[]),
            "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
            1
        )
        .len(),
        1
    );
}
