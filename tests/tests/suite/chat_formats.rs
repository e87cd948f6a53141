//! Answer formats: detected from chat templates, written as grammars, and parsed again.

use std::path::Path;

use formwork_chat::{ChatFormat, Content, Delta, Reader, Thoughts, Tool, Tools};
use formwork_grammar::{Grammar, Limits, Part, SchemaOptions};
use formwork_lm::{ChatTemplate, Message};
use formwork_model::template::JinjaTemplate;
use formwork_tests::random::Random;
use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
use serde_json::{Map, Value, json};

const CONTROLS: [&str; 9] = [
    "</s>",
    "<|call|>",
    "[TOOL_CALLS]",
    "<|start|>",
    "<|channel|>",
    "<|message|>",
    "<|constrain|>",
    "<|end|>",
    "<|eom|>",
];

/// Creates a vocabulary of all bytes and the control tokens that templates write.
fn vocabulary() -> Vocabulary {
    let bytes = (0..=255u8).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Text });
    let controls = CONTROLS.map(|text| Token { bytes: text.into(), kind: TokenKind::Control });
    Vocabulary::new(bytes.chain(controls).collect(), vec![TokenId(256), TokenId(264)]).expect("a vocabulary")
}

const TAIL: &str = "{% if add_generation_prompt %}\nassistant: {% endif %}";

/// Returns small templates that write calls like the families of models do.
pub(crate) fn templates() -> Vec<(&'static str, String)> {
    let user = "{% for m in messages %}{% if m.role != 'assistant' %}\n{{ m.role }}: {{ m.content }}</s>{% else %}\nassistant: ";
    let tools = "{% if tools %}tools: {{ tools | tojson }}{% endif %}";
    let joined = |head: &str, call: &str| format!("{head}{user}{call}</s>{{% endif %}}{{% endfor %}}{TAIL}");
    let words = "{{ m.content }}";
    let hermes = "{% for c in m.tool_calls %}\n<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}";
    let mistral = "{% if m.tool_calls %}[TOOL_CALLS][{% for c in m.tool_calls %}{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}, \"id\": \"{{ c.id }}\"}{% if not loop.last %}, {% endif %}{% endfor %}]{% endif %}";
    let llama = "{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}{{ raise_exception('one call only') }}{% endif %}{\"name\": \"{{ m.tool_calls[0].function.name }}\", \"parameters\": {{ m.tool_calls[0].function.arguments | tojson }}}{% else %}{{ m.content }}{% endif %}";
    let thinks = "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}";
    let functionary = format!(
        "{tools}{{% for m in messages %}}\n{{{{ m.role }}}}: {{% if m.role == 'assistant' %}}{{% if m.content %}}>>>all\n{{{{ m.content }}}}{{% endif %}}{{% for c in m.tool_calls %}}>>>{{{{ c.function.name }}}}\n{{{{ '' + c.function.arguments }}}}{{% endfor %}}{{% else %}}{{{{ m.content }}}}{{% endif %}}</s>{{% endfor %}}{{% if add_generation_prompt %}}\nassistant: >>>{{% endif %}}"
    );
    let harmony = format!(
        "{tools}{{% for m in messages %}}<|start|>{{{{ m.role }}}}{{% if m.tool_calls %}} to=functions.{{{{ m.tool_calls[0].function.name }}}}<|channel|>commentary json<|message|>{{{{ m.tool_calls[0].function.arguments | tojson }}}}<|call|>{{% elif m.role == 'assistant' %}}<|channel|>final<|message|>{{{{ m.content }}}}</s>{{% else %}}<|message|>{{{{ m.content }}}}<|end|>{{% endif %}}{{% endfor %}}{{% if add_generation_prompt %}}<|start|>assistant{{% endif %}}"
    );
    vec![
        ("none", joined("", words)),
        ("hermes", joined(tools, &format!("{words}{hermes}"))),
        ("thinking", joined(tools, &format!("{thinks}{words}{hermes}"))),
        ("mistral", joined(tools, &format!("{words}{mistral}"))),
        ("llama", joined(tools, llama)),
        ("functionary", functionary),
        ("harmony", harmony),
        ("tags", joined(tools, &format!("{words}{TAGS}"))),
        ("keys", joined(tools, &format!("{words}{KEYS}"))),
        ("marked types", joined(tools, &format!("{words}{MARKED_TYPES}"))),
        ("braces", format!("{BRACES_VALUE}{}", joined(tools, &format!("{words}{BRACES}")))),
        ("python", joined(tools, &format!("{words}{PYTHON}"))),
        ("nested tags", format!("{NESTED_VALUE}{}", joined(tools, &format!("{NO_THOUGHT}{words}{NESTED}")))),
        ("sections", joined(tools, &format!("{words}{SECTIONS}"))),
        ("numbered", joined(tools, &format!("{words}{NUMBERED}"))),
        ("ids", joined(tools, &format!("{words}{IDS}"))),
        ("ids first", joined(tools, &format!("{words}{IDS_FIRST}"))),
    ]
}

/// Calls with a tag for each argument, like Qwen3-Coder's.
const TAGS: &str = "{% for c in m.tool_calls %}\n<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments | items %}<parameter={{ k }}>\n{{ v if v is string else v | tojson if v is mapping or v is sequence else v | string }}\n</parameter>\n{% endfor %}</function>\n</tool_call>{% endfor %}";
/// Calls with a tag for each name and each value, like GLM's.
const KEYS: &str = "{% for c in m.tool_calls %}<tool_call>{{ c.function.name }}{% for k, v in c.function.arguments | items %}<arg_key>{{ k }}</arg_key><arg_value>{{ v if v is string else v | tojson }}</arg_value>{% endfor %}</tool_call>{% endfor %}";
/// Calls whose tags say whether a value is a string, like those of DeepSeek V3.2.
const MARKED_TYPES: &str = "{% if m.tool_calls %}\n\n<x:calls>\n{% for c in m.tool_calls %}<x:invoke name=\"{{ c.function.name }}\">\n{% for k, v in c.function.arguments | items %}<x:parameter name=\"{{ k }}\" string=\"{{ 'true' if v is string else 'false' }}\">{{ v if v is string else v | tojson }}</x:parameter>\n{% endfor %}</x:invoke>\n{% endfor %}</x:calls>{% endif %}";
/// Values with bare names and quotes of their own, like Gemma 4's.
const BRACES_VALUE: &str = "{% macro value(v) %}{% if v is string %}<|\"|>{{ v }}<|\"|>{% elif v is mapping %}{{ '{' }}{% for k, w in v | dictsort %}{{ k }}:{{ value(w) }}{% if not loop.last %},{% endif %}{% endfor %}{{ '}' }}{% elif v is sequence %}[{% for w in v %}{{ value(w) }}{% if not loop.last %},{% endif %}{% endfor %}]{% else %}{{ v | tojson }}{% endif %}{% endmacro %}";
const BRACES: &str = "{% for c in m.tool_calls %}<|tool_call>call:{{ c.function.name }}{{ value(c.function.arguments) }}<tool_call|>{% endfor %}";
/// Calls of functions in Python, like LFM2's.
const PYTHON: &str = "{% if m.tool_calls %}<|tool_call_start|>[{% for c in m.tool_calls %}{{ c.function.name }}({% for k, v in c.function.arguments | items %}{{ k }}={% if v is string %}'{{ v }}'{% elif v is mapping or v is sequence %}{{ v | tojson }}{% else %}{{ v | string }}{% endif %}{% if not loop.last %}, {% endif %}{% endfor %}){% if not loop.last %}, {% endif %}{% endfor %}]<|tool_call_end|>{% endif %}";
/// Thoughts before each answer; without them, only their end, as in `MiniMax` M3's template.
const NO_THOUGHT: &str = "{% if m.reasoning_content %}<mm:think>{{ m.reasoning_content }}</mm:think>{% else %}</mm:think>{% endif %}";
/// Tags at every depth that are named after members, like `MiniMax` M3's.
const NESTED_VALUE: &str = "{% macro value(v) %}{% if v is mapping %}{% for k, w in v | items if w is not none %}~|<{{ k }}>{{ value(w) }}~|</{{ k }}>{% endfor %}{% elif v is string %}{{ v }}{% elif v is sequence %}{% for w in v %}~|<item>{{ value(w) }}~|</item>{% endfor %}{% elif v is none %}{% else %}{{ v | tojson }}{% endif %}{% endmacro %}";
const NESTED: &str = "{% if m.tool_calls %}~|<calls>\n{% for c in m.tool_calls %}~|<invoke name=\"{{ c.function.name }}\">{{ value(c.function.arguments) }}~|</invoke>\n{% endfor %}~|</calls>{% endif %}";
/// Strings with some characters in sections, like `MiniCPM5`'s.
const SECTIONS: &str = "{% for c in m.tool_calls %}<function name=\"{{ c.function.name }}\">{% for k, v in c.function.arguments | items %}<param name=\"{{ k }}\">{% if v is string and ('<' in v or '&' in v or '\\n' in v) %}<![CDATA[{{ v }}]]>{% else %}{{ v }}{% endif %}</param>{% endfor %}</function>{% if not loop.last %}\n{% endif %}{% endfor %}";
/// JSON calls that are counted, like Kimi K2's.
const NUMBERED: &str = "{% if m.tool_calls %}<|calls|>{% for c in m.tool_calls %}<|name|>functions.{{ c.function.name }}:{{ loop.index0 }}<|arguments|>{{ c.function.arguments | tojson }}<|done|>{% endfor %}<|all|>{% endif %}";
/// JSON calls with an id before the name, like Solar's.
const IDS_FIRST: &str = "{% if m.tool_calls %}<|tool_calls|>{% for c in m.tool_calls %}<|begin|>{{ c.id }}<|name|>{{ c.function.name }}<|args|>{{ c.function.arguments | tojson }}<|done|>{% endfor %}<|calls|>{% endif %}";
/// JSON calls with an id before the arguments, like those of Mistral Small 3.2.
const IDS: &str = "{% for c in m.tool_calls %}[TOOL_CALLS]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGS]{{ c.function.arguments | tojson }}{% endfor %}";

pub(crate) fn format_of(source: &str) -> ChatFormat {
    ChatFormat::of(&JinjaTemplate::new(source, None, None).expect("a template"), &vocabulary())
}

fn tool(name: &str, properties: &Value) -> Tool {
    let parameters = json!({ "type": "object", "properties": properties, "required": properties.as_object()
        .map(|all| all.keys().cloned().collect::<Vec<_>>()), "additionalProperties": false });
    Tool {
        name: name.to_owned(),
        description: None,
        parameters,
        custom: None,
        place: format!("tools.{name}"),
    }
}

/// Tools whose arguments have all types.
pub(crate) fn typed_tools() -> Tools {
    let all = json!({
        "any": { "type": ["string", "number", "boolean", "null", "array"], "maxItems": 2, "items": { "type": "string" } },
        "deep": { "type": "object", "properties": { "a": { "type": "array", "items": { "enum": ["it's", "\"", 1.5, null] } } },
            "required": ["a"], "additionalProperties": false },
        "flag": { "type": "boolean" },
        "pick": { "enum": ["one", "two\nlines", 5, "5", null] },
        "rows": { "type": "array", "maxItems": 2, "items": { "type": "object", "additionalProperties": false,
            "properties": { "label": { "type": "string" }, "note": { "type": ["string", "null"] },
                "next": { "$ref": "#/properties/rows" } }, "required": ["label"] } },
        "shape": { "type": "string", "pattern": "^[<a-c'\"]{1,4}$" },
        "text": { "type": "string", "minLength": 1, "maxLength": 12 },
        "words": { "type": "string" },
        "zoo": { "type": "object", "additionalProperties": { "type": ["number", "string"] } },
    });
    let mut all = tool("everything", &all);
    all.parameters["required"] = json!(["flag"]);
    let now = tool("now", &json!({}));
    Tools { tools: vec![all, now], required: true, parallel: true }
}

/// The types of all values must survive every format.
#[test]
fn arguments_of_all_types_are_read_as_they_were_written() {
    let mut random = Random::new(62);
    for (name, source) in templates() {
        let format = format_of(&source);
        let tools = typed_tools();
        let own = ![
            "none",
            "hermes",
            "thinking",
            "mistral",
            "llama",
            "functionary",
            "harmony",
            "numbered",
            "ids",
            "ids first",
        ]
        .contains(&name);
        assert_eq!(format.has_own_arguments(), own, "{name}");
        let part = format.answer(&Content::Free, &tools, Thoughts::None).expect("bounded");
        let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default()).expect(name);
        for output in grammar.samples(8).max_bytes(300).take(200) {
            let symbols = symbols(&output);
            let reader = || Reader::new(&format, &Content::Free, &tools, Thoughts::None);
            let whole = read(reader(), &symbols, &mut random, 0);
            let shown = || format!("{name}: {} is {whole:?}", String::from_utf8_lossy(&output));
            for cuts in [30, 100] {
                assert_eq!(whole, read(reader(), &symbols, &mut random, cuts), "{}", shown());
            }
            check(&whole, &tools, &Content::Free, &shown);
        }
    }
}

fn tools() -> Tools {
    let weather = tool("get_weather", &json!({ "city": { "type": "string", "maxLength": 8 } }));
    let add = tool(
        "add",
        &json!({ "a": { "type": "integer" }, "more": { "type": "array", "items": { "type": "object" } } }),
    );
    Tools { tools: vec![weather, add], required: false, parallel: true }
}

/// Splits a grammar's output into characters and control tokens.
fn symbols(output: &[u8]) -> Vec<Result<char, TokenId>> {
    let text = String::from_utf8_lossy(output);
    let mut symbols = Vec::new();
    let mut rest: &str = &text;
    while let Some(c) = rest.chars().next() {
        let token = rest.strip_prefix("<[").and_then(|rest| rest.split_once("]>"));
        let token = token.and_then(|(id, after)| Some((id.parse().ok().filter(|id| *id > 255)?, after)));
        if let Some((id, after)) = token {
            symbols.push(Err(TokenId(id)));
            rest = after;
        } else {
            symbols.push(Ok(c));
            rest = &rest[c.len_utf8()..];
        }
    }
    symbols
}

/// Reads symbols in pieces. Text is cut before a character with a probability of `cuts` percent.
fn read(mut reader: Reader, symbols: &[Result<char, TokenId>], random: &mut Random, cuts: u64) -> Vec<Delta> {
    let vocabulary = vocabulary();
    let mut deltas = Vec::new();
    let mut text = String::new();
    for symbol in symbols {
        if symbol.is_err() || random.below(100) < cuts as usize {
            deltas.extend(reader.text(&std::mem::take(&mut text)));
        }
        match symbol {
            Ok(c) => text.push(*c),
            Err(token) => deltas.extend(reader.control(*token, &vocabulary)),
        }
    }
    deltas.extend(reader.text(&text));
    deltas.extend(reader.finish());
    merged(deltas)
}

fn merged(deltas: Vec<Delta>) -> Vec<Delta> {
    let mut merged: Vec<Delta> = Vec::new();
    for delta in deltas {
        match (merged.last_mut(), &delta) {
            (Some(Delta::Content(last)), Delta::Content(text))
            | (Some(Delta::Thought(last)), Delta::Thought(text))
            | (Some(Delta::Arguments(last)), Delta::Arguments(text)) => last.push_str(text),
            _ => merged.push(delta),
        }
    }
    merged
}

#[test]
fn what_a_grammar_writes_is_read_the_same_in_any_pieces() {
    let mut random = Random::new(61);
    let shape = json!({ "type": "object", "properties": { "answer": { "maxLength": 20 } },
        "required": ["answer"], "additionalProperties": false });
    let shape = Part::Json(shape.into());
    for (name, source) in templates() {
        let format = format_of(&source);
        for content in [Content::Free, Content::Shaped(shape.clone())] {
            for (required, parallel) in [(false, true), (false, false), (true, true), (true, false)] {
                let tools = Tools { required, parallel, ..tools() };
                // A prompt may end inside the thoughts.
                let begun = random.below(2) == 1 && format.thoughts_open().is_some();
                let thoughts = if begun { Thoughts::Begun } else { format.thoughts("user: Hi\nassistant: ") };
                let part = format.answer(&content, &tools, thoughts).expect("bounded");
                let grammar =
                    Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default()).expect("good");
                for output in grammar.samples(7).max_bytes(200).take(60) {
                    let symbols = symbols(&output);
                    let reader = || Reader::new(&format, &content, &tools, thoughts);
                    let whole = read(reader(), &symbols, &mut random, 0);
                    let shown = || format!("{name}: {} is {whole:?}", String::from_utf8_lossy(&output));
                    for cuts in [10, 50, 100] {
                        assert_eq!(whole, read(reader(), &symbols, &mut random, cuts), "{}", shown());
                    }
                    check(&whole, &tools, &content, &shown);
                }
            }
        }
    }
}

fn check(deltas: &[Delta], tools: &Tools, content: &Content, shown: &dyn Fn() -> String) {
    let mut calls = deltas.iter().enumerate().filter_map(|(at, delta)| match delta {
        Delta::Call(name) => Some((at, name)),
        _ => None,
    });
    let count = calls.clone().count();
    assert!(if tools.required { count > 0 } else { true }, "{}", shown());
    assert!(tools.parallel || count <= 1, "{}", shown());
    calls.by_ref().for_each(|(at, name)| {
        let tool =
            tools.tools.iter().find(|tool| tool.name == *name).unwrap_or_else(|| panic!("{}", shown()));
        let Some(Delta::Arguments(text)) = deltas.get(at + 1) else { panic!("{}", shown()) };
        let grammar = Grammar::json_schema(&tool.parameters, &SchemaOptions::default(), &Limits::default());
        assert!(grammar.expect("good").accepts(text.as_bytes()), "{}", shown());
    });
    let words: Vec<&str> = deltas
        .iter()
        .filter_map(|delta| match delta {
            Delta::Content(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    if matches!(content, Content::Shaped(_)) {
        assert_eq!(words.len() + count.min(1), 1, "{}", shown());
        if let [text] = words[..] {
            let value: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{}", shown()));
            assert!(
                value["answer"].is_null() || value.as_object().is_some_and(|all| all.len() == 1),
                "{}",
                shown()
            );
        }
    }
}

#[test]
fn text_outside_the_format_is_content() {
    let mut random = Random::new(5);
    for (name, source) in templates().into_iter().filter(|(name, _)| *name != "harmony") {
        let format = format_of(&source);
        for text in
            ["Hello, world", "a <tool_cal", "<tool_call>no call", "{\"name\": 3}", " \n", "[TOOL_CALLS]x"]
        {
            let text = if name == "functionary" { format!("all\n{text}") } else { text.to_owned() };
            let symbols: Vec<_> = text.chars().map(Ok).collect();
            let reader = Reader::new(&format, &Content::Free, &tools(), Thoughts::None);
            let read: String = read(reader, &symbols, &mut random, 50)
                .iter()
                .map(|delta| match delta {
                    Delta::Content(text) => text.as_str(),
                    other => panic!("{name}: {text} is {other:?}"),
                })
                .collect();
            assert_eq!(read, text.trim_start_matches("all\n"), "{name}");
        }
    }
}

#[test]
fn thoughts_come_before_the_rest() {
    let (_, source) = templates().swap_remove(2);
    let format = format_of(&source);
    assert_eq!(format.thoughts("assistant: <think>\n"), Thoughts::Begun);
    assert_eq!(format.thoughts("assistant: <think>\n\n</think>\n\n"), Thoughts::None);
    assert_eq!(format.thoughts_close().as_deref(), Some("</think>"));
    let mut random = Random::new(5);
    let mut read = |text: &str, thoughts: Thoughts| {
        let symbols: Vec<_> = text.chars().map(Ok).collect();
        read(Reader::new(&format, &Content::Free, &Tools::default(), thoughts), &symbols, &mut random, 50)
    };
    let expected = [Delta::Thought("So <b>…".to_owned()), Delta::Content("42".to_owned())];
    for _ in 0..20 {
        assert_eq!(read("<think>So <b>…</think>\n\n42", Thoughts::Possible), expected);
        assert_eq!(read("So <b>…</think>42", Thoughts::Begun), expected);
    }
    assert_eq!(read("42 <think>", Thoughts::Possible), [Delta::Content("42 <think>".to_owned())]);
    assert_eq!(read("So <b>…", Thoughts::Begun), expected[..1]);
}

#[test]
fn an_answer_without_thoughts_may_begin_with_their_end() {
    let (_, source) = templates().into_iter().find(|(name, _)| *name == "nested tags").expect("a template");
    let format = format_of(&source);
    let part = format.answer(&Content::Free, &tools(), Thoughts::Possible).expect("bounded");
    let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default()).expect("good");
    let call = "~|<calls>\n~|<invoke name=\"add\">~|<a>1~|</a>~|<more>~|</more>~|</invoke>\n~|</calls>";
    let expected = [Delta::Call("add".to_owned()), Delta::Arguments("{\"a\": 1, \"more\": []}".to_owned())];
    let thought = [Delta::Thought("So.".to_owned())];
    for (start, before) in [("", &[][..]), ("</mm:think>", &[]), ("<mm:think>So.</mm:think>", &thought)] {
        let text = format!("{start}{call}");
        assert!(grammar.accepts(text.as_bytes()), "{text}");
        for cuts in [0, 30, 100] {
            let symbols: Vec<_> = text.chars().map(Ok).collect();
            let reader = Reader::new(&format, &Content::Free, &tools(), Thoughts::Possible);
            assert_eq!(
                read(reader, &symbols, &mut Random::new(5), cuts),
                [before, &expected].concat(),
                "{text}"
            );
        }
    }
    let prompt = |end: &str| format.thoughts(&format!("user: Hi\nassistant: {end}"));
    assert_eq!(prompt("</mm:think>"), Thoughts::None);
    assert_eq!(prompt("<mm:think>"), Thoughts::Begun);
    assert_eq!(prompt(""), Thoughts::Possible);
}

#[test]
fn a_prompt_may_end_inside_the_thoughts_of_gpt_oss() {
    let (_, source) = templates().into_iter().find(|(name, _)| *name == "harmony").expect("a template");
    let format = format_of(&source);
    assert_eq!(format.thoughts_open().as_deref(), Some("<|channel|>analysis<|message|>"));
    // A grammar keeps the model from thinking again after its thoughts were ended.
    assert!(format.answer(&Content::Free, &Tools::default(), Thoughts::Begun).is_some());
    assert!(format.answer(&Content::Free, &Tools::default(), Thoughts::Possible).is_none());
    let vocabulary = vocabulary();
    let token = |text: &str| {
        let found = vocabulary.ids().find(|&token| vocabulary.bytes(token) == text.as_bytes());
        Err(found.expect("a token"))
    };
    let text = |text: &str| text.chars().map(Ok).collect::<Vec<_>>();
    let mut symbols = text("So.");
    symbols.extend([token("<|end|>"), token("<|start|>")]);
    symbols.extend(text("assistant"));
    symbols.push(token("<|channel|>"));
    symbols.extend(text("final"));
    symbols.push(token("<|message|>"));
    symbols.extend(text("42"));
    let reader = Reader::new(&format, &Content::Free, &Tools::default(), Thoughts::Begun);
    let expected = [Delta::Thought("So.".to_owned()), Delta::Content("42".to_owned())];
    assert_eq!(read(reader, &symbols, &mut Random::new(3), 50), expected);
}

#[test]
fn a_conversation_with_calls_reaches_every_template() {
    let call = json!([{ "id": "call00001", "type": "function", "function": { "name": "add", "arguments": "{\"a\": 1}" } }]);
    let mut assistant = Message { role: "assistant".to_owned(), content: None, fields: Map::new() };
    assistant.fields.insert("tool_calls".to_owned(), call);
    let mut result = Message::new("tool", "it is 2");
    result.fields.insert("tool_call_id".to_owned(), "call00001".into());
    let messages = [
        Message::new("system", "Be exact."),
        Message::new("user", "1 + 1?"),
        assistant,
        result.clone(),
        result,
    ];
    for (name, source) in templates() {
        let template = JinjaTemplate::new(&source, None, None).expect("a template");
        let format = ChatFormat::of(&template, &vocabulary());
        let input = format.input(&messages, &tools().tools, Map::new());
        let text = template.render(&input).expect(name);
        for part in ["Be exact.", "get_weather", "maxLength", "it is 2"] {
            assert!(text.contains(part), "{name}: {part} is not in {text}");
        }
        let calls = [
            "{\"a\": 1}",
            "<parameter=a>\n1\n",
            "<arg_key>a</arg_key>",
            "\"a\" string=\"false\">1<",
            "{a:1}",
            "add(a=1)",
            "~|<a>1~|</a>",
            "<param name=\"a\">1</param>",
        ];
        assert!(calls.iter().any(|call| text.contains(call)), "{name}: {text}");
    }
}

/// Checks the formats of real templates by the text with which their calls begin.
#[test]
fn formats_of_real_templates() {
    let Some(folder) = std::env::var_os("FORMWORK_CHAT_TEMPLATES") else { return };
    for (file, begins) in [
        ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "<tool_call>\n{\"name\": \"add"),
        ("Qwen-Qwen2.5-7B-Instruct", "<tool_call>\n{\"name\": \"add"),
        ("Qwen-Qwen3-0.6B", "<tool_call>\n{\"name\": \"add"),
        ("meta-llama-Llama-3.1-8B-Instruct", "{\"name\": \"add\", \"parameters\": "),
        ("meta-llama-Llama-3.2-3B-Instruct", "{\"name\": \"add\", \"parameters\": "),
        ("mistralai-Mistral-Nemo-Instruct-2407", "<[258]>[{\"name\": \"add"),
        (
            "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n",
        ),
        ("meetkai-functionary-medium-v3.2", "add\n{"),
        ("openai-gpt-oss-120b", " to=functions.add<[260]>commentary json<[261]>"),
        ("google-gemma-2-2b-it", "<tool_call>\n{\"name\": \"add"),
        ("microsoft-Phi-3.5-mini-instruct", "<tool_call>\n{\"name\": \"add"),
    ] {
        let source = std::fs::read_to_string(Path::new(&folder).join(format!("{file}.jinja"))).expect(file);
        let template = JinjaTemplate::new(&source, Some("<s>"), Some("</s>")).expect(file);
        let format = ChatFormat::of(&template, &vocabulary());
        let one = Tools { tools: vec![tool("add", &json!({}))], required: true, parallel: false };
        let part = format.answer(&Content::Free, &one, Thoughts::None).expect("bounded");
        let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default()).expect("good");
        let shortest = String::from_utf8(grammar.shortest()).expect("text");
        assert!(shortest.starts_with(begins), "{file}: {shortest}");
        let input = format.input(
            &[Message::new("system", "S."), Message::new("user", "Q?")],
            &tools().tools,
            Map::new(),
        );
        let text = template.render(&input).expect(file);
        assert!(text.contains("get_weather") && text.contains("S."), "{file}: {text}");
    }
}

/// Real templates whose calls are not written as the model writes them, or not in the template's way:
///
/// - Kimi K2.5 has a form that probing does not find; Kimi K2 calls `append` on a list.
/// - LFM2.5 writes strings without escapes, and lists in Python.
/// - Gemma writes text after calls, Kimi K3 has sections, and gpt-oss writes one call only.
const CALLS_ELSEWHERE: [&str; 6] = [
    "kimi-k2",
    "lfm2.5.jinja, \"raw text",
    "lfm2.5.jinja, \"nested",
    "gemma-4-2026-07.jinja, \"text",
    "kimi-k3.jinja, \"text",
    "gpt-oss.jinja, \"text",
];

/// Checks the calls of real templates of 2026: the grammar allows what the template writes, and the reader
/// finds the calls again.
#[test]
fn calls_of_real_templates() {
    let Some(folder) = std::env::var_os("FORMWORK_CALL_VECTORS") else { return };
    let folder = Path::new(&folder);
    let vectors = std::fs::read_to_string(folder.join("vectors.json")).expect("vectors");
    let vectors: Value = serde_json::from_str(&vectors).expect("JSON");
    let mut random = Random::new(11);
    let mut wrong = Vec::new();
    for vector in vectors["vectors"].as_array().expect("a list") {
        let file = vector["template"].as_str().expect("a name");
        let name = format!("{file}, {}", vector["case"]);
        let Some(turn) = vector["turn"].as_str() else { continue };
        if CALLS_ELSEWHERE.iter().any(|known| name.starts_with(known)) {
            continue;
        }
        let source = std::fs::read_to_string(folder.join(file)).expect(file);
        let template = JinjaTemplate::new(&source, Some(""), Some("")).expect(file);
        let bytes = (0..=255u8).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Text });
        let plain = Vocabulary::new(bytes.collect(), vec![TokenId(0)]).expect("a vocabulary");
        let format = ChatFormat::of(&template, &plain);
        let list = vector["tools"].as_array().expect("tools").iter().map(|tool| Tool {
            name: tool["function"]["name"].as_str().expect("a name").to_owned(),
            description: None,
            parameters: tool["function"]["parameters"].clone(),
            custom: None,
            place: "tool".to_owned(),
        });
        let tools = Tools { tools: list.collect(), required: true, parallel: true };
        let part = format.answer(&Content::Free, &tools, Thoughts::None).expect("bounded");
        let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default()).expect(&name);
        let Some(calls) = vector["assistant"]["tool_calls"].as_array() else { continue };
        let shortest = String::from_utf8(grammar.shortest()).expect("text");
        // The turn may have thoughts and content before the calls, and the end of the turn after them.
        let first = shortest.chars().next();
        let starts = turn.char_indices().filter(|(_, c)| Some(*c) == first);
        let mut recognized = None;
        for (at, _) in starts {
            let mut recognizer = grammar.recognizer();
            let mut end = None;
            for (len, byte) in turn[at..].bytes().enumerate() {
                if recognizer.extend(&[byte]).is_err() {
                    break;
                }
                if recognizer.accepting() {
                    end = Some(at + len + 1);
                }
            }
            if let Some(end) = end {
                recognized = Some(&turn[at..end]);
                break;
            }
        }
        let Some(text) = recognized else {
            wrong.push(format!("{name}: not allowed: {turn:?}, but {shortest:?}"));
            continue;
        };
        for cut in [1, 3, 1000] {
            let symbols: Vec<_> = text.chars().map(Ok).collect();
            let reader = Reader::new(&format, &Content::Free, &tools, Thoughts::None);
            let deltas = read(reader, &symbols, &mut random, cut);
            let mut found: Vec<(String, String)> = Vec::new();
            for delta in deltas {
                match delta {
                    Delta::Call(name) => found.push((name, String::new())),
                    Delta::Arguments(text) => found.last_mut().expect("a call").1.push_str(&text),
                    Delta::Content(_) | Delta::Thought(_) => {}
                }
            }
            let found: Vec<Value> = found
                .into_iter()
                .map(|(name, text)| {
                    json!([name, serde_json::from_str::<Value>(&text).unwrap_or(json!(text))])
                })
                .collect();
            let expected: Vec<Value> = calls
                .iter()
                .map(|call| json!([call["function"]["name"], call["function"]["arguments"]]))
                .collect();
            // A template may leave out members that are `null`.
            let shown = |call: &Value| {
                let mut call = call.clone();
                if let Some(arguments) = call[1].as_object_mut() {
                    arguments.retain(|name, value| !value.is_null() || text.contains(name));
                }
                call
            };
            let expected: Vec<Value> = expected.iter().map(shown).collect();
            if found != expected {
                wrong.push(format!("{name}: read {found:?} from {text:?}"));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Text of other servers may have other white space, literals of Python and JSON, and may lack closing
/// tags. What cannot be a call stays content.
#[test]
fn calls_of_other_servers_are_read_tolerantly() {
    let tools = Tools {
        tools: vec![
            tool(
                "save",
                &json!({ "path": { "type": "string" }, "more": { "type": ["array", "boolean", "null"] } }),
            ),
            tool("now", &json!({})),
        ],
        required: false,
        parallel: true,
    };
    let mut random = Random::new(63);
    let mut check = |template: &str, text: &str, expected: &[(&str, Value)]| {
        let (_, source) = templates().into_iter().find(|(name, _)| *name == template).expect("a template");
        let format = format_of(&source);
        for cut in [0, 20, 100] {
            let symbols: Vec<_> = text.chars().map(Ok).collect();
            let reader = Reader::new(&format, &Content::Free, &tools, Thoughts::None);
            let mut found: Vec<(String, String)> = Vec::new();
            for delta in read(reader, &symbols, &mut random, cut) {
                match delta {
                    Delta::Call(name) => found.push((name, String::new())),
                    Delta::Arguments(text) => found.last_mut().expect("a call").1.push_str(&text),
                    Delta::Content(_) | Delta::Thought(_) => {}
                }
            }
            let found: Vec<(&str, Value)> = found
                .iter()
                .map(|(name, text)| (name.as_str(), serde_json::from_str(text).unwrap_or(json!(text))))
                .collect();
            assert_eq!(found, expected, "{template}: {text}");
        }
    };
    let both = json!({ "path": "a", "more": [true, null] });
    let calls = [("save", both.clone()), ("now", json!({}))];
    for text in [
        "<tool_call>\n<function=save>\n<parameter=path>\na\n</parameter>\n<parameter=more>\n[true, null]\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
        "<tool_call><function=save><parameter=path>a</parameter><parameter=more>[True, None]</parameter></function></tool_call><tool_call><function=now></function></tool_call>",
        "<tool_call>\n<function=save>\n<parameter=path>\na\n</parameter>\n\n<parameter=more>\n[True, None]</parameter>\n</tool_call>\n\n<tool_call>\n<function=now>\n</tool_call>",
    ] {
        check("tags", text, &calls);
    }
    check("tags", "<tool_call>\n<function=save>\n<parameter=path>\na", &[("save", json!("{\"path\": \"a"))]);
    check(
        "keys",
        "<tool_call>save\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n<arg_key>more</arg_key>\n<arg_value>[true,null]</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
        &calls,
    );
    check(
        "braces",
        "<|tool_call>call:save{path: \"a\", \"more\": [True, null]}<tool_call|><|tool_call>call:now{}<tool_call|>",
        &calls,
    );
    check(
        "braces",
        "<|tool_call>call:save{path:<|\"|>\\n<|\"|>}<tool_call|>",
        &[("save", json!({ "path": "\\n" }))],
    );
    check("python", "<|tool_call_start|>[save(path=\"a\",more=[True,None]),now()]<|tool_call_end|>", &calls);
    check(
        "python",
        "<|tool_call_start|>[save(path='\\ud83d\\ude00\\x41')]<|tool_call_end|>",
        &[("save", json!({ "path": "😀A" }))],
    );
    check("tags", "<tool_call>\n<function=other>\n<parameter=path>\na\n</parameter>", &[]);
    let both = json!({ "path": "a", "more": [true, "x"] });
    let calls = [("save", both.clone()), ("now", json!({}))];
    for text in [
        "~|<calls>~|<invoke name=\"save\">\n~|<path>a~|</path>\n~|<more>\n ~|<item>true~|</item> ~|<item>x~|</item>\n~|</more>~|</invoke>~|<invoke name=\"now\">~|</invoke>~|</calls>",
        // Closing tags are missing.
        "~|<calls>\n~|<invoke name=\"save\">~|<path>a~|</path>~|<more>~|<item>true~|</item>~|<item>x~|</invoke>\n~|<invoke name=\"now\">~|</invoke>\n~|</calls>",
        "~|<calls>\n~|<invoke name=\"save\">~|<path>a~|</path>~|<more>~|<item>true~|</item>~|<item>x~|</item>~|</more>~|<invoke name=\"now\">~|</invoke>",
        // A member in JSON, and a member that occurs twice.
        "~|<calls>\n~|<invoke name=\"save\">~|<path>a~|</path>~|<path>b~|</path>~|<more>[true, \"x\"]~|</more>~|</invoke>\n~|<invoke name=\"now\">~|</invoke>\n~|</calls>",
    ] {
        check("nested tags", text, &calls);
    }
    check(
        "nested tags",
        "~|<calls>\n~|<invoke name=\"save\">~|<path>a~|<b>",
        &[("save", json!("{\"path\": \"a~|<b>"))],
    );
    check("nested tags", "~|<calls>\n~|<invoke name=\"other\">~|<path>a~|</path>~|</invoke>", &[]);
    for text in [
        "<function name=\"save\"><param name=\"path\">a</param><param name=\"more\">[True, 'x']</param></function>\n<function name=\"now\"></function>",
        "<function name=\"save\">\n<param name=\"path\"> <![CDATA[a]]> </param>\n<param name=\"more\"><![CDATA[[true, \"x\"]]]></param>\n</function>\n<function name=\"now\">\n</function>",
    ] {
        check("sections", text, &calls);
    }
    check(
        "sections",
        "<function name=\"save\"><param name=\"path\"><![CDATA[]]></param><param name=\"more\">None</param></function>",
        &[("save", json!({ "path": "", "more": null }))],
    );
}
