//! Answer formats: detected from chat templates, written as grammars, and parsed again.

use std::path::Path;
use std::sync::Arc;

use formwork_chat::{ChatFormat, Content, Delta, JsonReason, Reader, Thoughts, Tool, Tools};
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
    let tokens = SECTIONS.replace("<o>", "<|start|>").replace("<s>", "<|message|>").replace("<c>", "<|end|>");
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
        ("keywords", joined(tools, &format!("{words}{KEYWORDS}"))),
        (
            "list of keywords",
            joined(tools, &format!("{words}{}", KEYWORDS.replace("<calls>", "[").replace("</calls>", "]"))),
        ),
        ("no last answer", format!("{NO_LAST_ANSWER}{}", joined(tools, &format!("{words}{TAGS}")))),
        ("nested tags", format!("{NESTED_VALUE}{}", joined(tools, &format!("{NO_THOUGHT}{words}{NESTED}")))),
        ("cdata", joined(tools, &format!("{words}{CDATA}"))),
        ("numbered", joined(tools, &format!("{words}{NUMBERED}"))),
        ("ids", joined(tools, &format!("{words}{IDS}"))),
        ("ids first", joined(tools, &format!("{words}{IDS_FIRST}"))),
        ("sections", format!("{tools}{SECTIONS}")),
        ("sections by tokens", format!("{tools}{tokens}")),
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
/// Calls of functions whose values are JSON, like `OLMo` 3's.
const KEYWORDS: &str = "{% if m.tool_calls %}<calls>{% for c in m.tool_calls %}{{ c.function.name }}({% for k, v in c.function.arguments | items %}{{ k }}={{ v | tojson }}{% if not loop.last %}, {% endif %}{% endfor %}){% if not loop.last %}, {% endif %}{% endfor %}</calls>{% endif %}";
/// Leaves out an answer at the end of the conversation, like the template of Nemotron Nano.
const NO_LAST_ANSWER: &str =
    "{% set messages = messages[:-1] if messages[-1].role == 'assistant' else messages %}";
/// Thoughts before each answer; without them, only their end, as in `MiniMax` M3's template.
const NO_THOUGHT: &str = "{% if m.reasoning_content %}<mm:think>{{ m.reasoning_content }}</mm:think>{% else %}</mm:think>{% endif %}";
/// Tags at every depth that are named after members, like `MiniMax` M3's.
const NESTED_VALUE: &str = "{% macro value(v) %}{% if v is mapping %}{% for k, w in v | items if w is not none %}~|<{{ k }}>{{ value(w) }}~|</{{ k }}>{% endfor %}{% elif v is string %}{{ v }}{% elif v is sequence %}{% for w in v %}~|<item>{{ value(w) }}~|</item>{% endfor %}{% elif v is none %}{% else %}{{ v | tojson }}{% endif %}{% endmacro %}";
const NESTED: &str = "{% if m.tool_calls %}~|<calls>\n{% for c in m.tool_calls %}~|<invoke name=\"{{ c.function.name }}\">{{ value(c.function.arguments) }}~|</invoke>\n{% endfor %}~|</calls>{% endif %}";
/// Strings with some characters in sections, like `MiniCPM5`'s.
const CDATA: &str = "{% for c in m.tool_calls %}<function name=\"{{ c.function.name }}\">{% for k, v in c.function.arguments | items %}<param name=\"{{ k }}\">{% if v is string and ('<' in v or '&' in v or '\\n' in v) %}<![CDATA[{{ v }}]]>{% else %}{{ v }}{% endif %}</param>{% endfor %}</function>{% if not loop.last %}\n{% endif %}{% endfor %}";
/// JSON calls that are counted, like Kimi K2's.
const NUMBERED: &str = "{% if m.tool_calls %}<|calls|>{% for c in m.tool_calls %}<|name|>functions.{{ c.function.name }}:{{ loop.index0 }}<|arguments|>{{ c.function.arguments | tojson }}<|done|>{% endfor %}<|all|>{% endif %}";
/// JSON calls with an id before the name, like Solar's.
const IDS_FIRST: &str = "{% if m.tool_calls %}<|tool_calls|>{% for c in m.tool_calls %}<|begin|>{{ c.id }}<|name|>{{ c.function.name }}<|args|>{{ c.function.arguments | tojson }}<|done|>{% endfor %}<|calls|>{% endif %}";
/// Sections of thoughts, content and calls, like Kimi K3's.
const SECTIONS: &str = "{% for m in messages %}<o>m {{ m.role }}<s>{% if m.role == 'assistant' %}<o>think<s>{{ m.reasoning_content }}<c>think<s><o>response<s>{{ m.content }}<c>response<s>{% if m.tool_calls %}<o>tools<s>{% for c in m.tool_calls %}<o>call {{ c.function.name }} {{ loop.index }}<s>{% for k, v in c.function.arguments | items %}<o>argument {{ k }} {{ 'string' if v is string else 'number' if v is number and v is not boolean else 'boolean' if v is boolean else 'null' if v is none else 'object' if v is mapping else 'array' }}<s>{{ v if v is string else v | tojson }}<c>argument<s>{% endfor %}<c>call<s>{% endfor %}<c>tools<s>{% endif %}{% else %}{{ m.content }}{% endif %}<c>m<s></s>{% endfor %}{% if add_generation_prompt %}<o>m assistant<s><o>{{ 'response' if enable_thinking is false else 'think' }}<s>{% endif %}";
/// JSON calls with an id before the arguments, like those of Mistral Small 3.2.
const IDS: &str = "{% for c in m.tool_calls %}[TOOL_CALLS]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGS]{{ c.function.arguments | tojson }}{% endfor %}";

pub(crate) fn format_of(source: &str) -> ChatFormat {
    ChatFormat::of(&JinjaTemplate::new(source, None, None).expect("a template"), &vocabulary())
}

pub(crate) fn tool(name: &str, properties: &Value) -> Tool {
    let parameters = json!({ "type": "object", "properties": properties, "required": properties.as_object()
        .map(|all| all.keys().cloned().collect::<Vec<_>>()), "additionalProperties": false });
    Tool {
        name: name.to_owned(),
        description: None,
        parameters: Arc::new(parameters),
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
    Arc::make_mut(&mut all.parameters)["required"] = json!(["flag"]);
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
        for text in [
            "Hello, world",
            "a <tool_cal",
            "<tool_call>no call",
            "{\"name\": 3}",
            " \n",
            "[TOOL_CALLS]x",
            "[1, 2]",
            "[a link](there)",
            "See [add(x=1)].",
        ] {
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
            "argument a number<s>1<c>",
            "argument a number<|message|>1<|end|>",
        ];
        assert!(calls.iter().any(|call| text.contains(call)), "{name}: {text}");
    }
}

/// Clients that run tools in parallel append results in any order.
#[test]
fn results_have_the_order_of_their_calls() {
    let call =
        |id: &str| json!({ "id": id, "type": "function", "function": { "name": "add", "arguments": "{}" } });
    let mut assistant = Message { role: "assistant".to_owned(), content: None, fields: Map::new() };
    assistant.fields.insert("tool_calls".to_owned(), json!([call("first"), call("second")]));
    let result = |id: &str| {
        let mut message = Message::new("tool", format!("result of the {id}"));
        message.fields.insert("tool_call_id".to_owned(), id.into());
        message
    };
    let note = Message::new("user", "a note");
    let messages = [Message::new("user", "1 + 1?"), assistant, result("second"), note, result("first")];
    for (name, source) in templates() {
        let template = JinjaTemplate::new(&source, None, None).expect("a template");
        let input = ChatFormat::of(&template, &vocabulary()).input(&messages, &tools().tools, Map::new());
        let text = template.render(&input).expect(name);
        let [first, second] = ["result of the first", "result of the second"].map(|result| text.find(result));
        assert!(first < second && first.is_some(), "{name}: {text}");
    }
}

/// Ollama's clients send no ids, but the names of the functions.
#[test]
fn results_without_ids_belong_to_the_calls_of_their_functions() {
    let call =
        |name: &str| json!({ "id": "", "type": "function", "function": { "name": name, "arguments": "{}" } });
    let mut assistant = Message { role: "assistant".to_owned(), content: None, fields: Map::new() };
    assistant.fields.insert("tool_calls".to_owned(), json!([call("add"), call("now"), call("add")]));
    let result = |name: &str, text: &str| {
        let mut message = Message::new("tool", text);
        message.fields.insert("tool_call_id".to_owned(), "".into());
        message.fields.insert("name".to_owned(), name.into());
        message
    };
    let results = [result("now", "RESULT2"), result("add", "RESULT1"), result("add", "RESULT3")];
    let messages: Vec<Message> =
        [Message::new("user", "1 + 1?"), assistant].into_iter().chain(results).collect();
    for (name, source) in templates() {
        let template = JinjaTemplate::new(&source, None, None).expect("a template");
        let input = ChatFormat::of(&template, &vocabulary()).input(&messages, &tools().tools, Map::new());
        let text = template.render(&input).expect(name);
        let places: Vec<_> =
            ["RESULT1", "RESULT2", "RESULT3"].iter().filter_map(|text_of| text.find(text_of)).collect();
        assert!(places.len() == 3 && places.is_sorted(), "{name}: {text}");
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
/// - LFM2.5 writes strings without escapes, so that a quote ends them.
/// - Gemma's template writes the text of a turn after its calls; the model writes the text first.
/// - gpt-oss's template writes only the first of several calls.
const CALLS_ELSEWHERE: [&str; 3] =
    ["lfm2.5.jinja, \"raw text", "gemma-4-2026-07.jinja, \"text", "gpt-oss.jinja, \"text"];

/// Returns the longest part of `turn` that a grammar accepts, at the first place with such a part. The turn
/// may have thoughts and content before the calls, and its end after the calls.
fn recognized<'t>(grammar: &Grammar, turn: &'t str, first: char) -> Option<&'t str> {
    let starts = turn.char_indices().filter(|(_, c)| *c == first);
    starts.into_iter().find_map(|(at, _)| {
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
        end.map(|end| &turn[at..end])
    })
}

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
        let mut turn = turn.to_owned();
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
            parameters: Arc::new(tool["function"]["parameters"].clone()),
            custom: None,
            place: "tool".to_owned(),
        });
        let list: Vec<Tool> = list.collect();
        let Some(calls) = vector["assistant"]["tool_calls"].as_array() else { continue };
        for (place, call) in calls.iter().enumerate() {
            // The model's ids instead of those of another server.
            let name = call["function"]["name"].as_str().expect("a name");
            if let (Some(own), Some(id)) = (format.call_id(name, place as u32), call["id"].as_str()) {
                turn = turn.replace(id, &own);
            }
        }
        // Text before calls may stand in a section, which is empty if a call is required.
        let ways = [true, false].map(|required| Tools { tools: list.clone(), required, parallel: true });
        let mut shortest = String::new();
        let found = ways.into_iter().find_map(|tools| {
            let part = format.answer(&Content::Free, &tools, Thoughts::None).expect("bounded");
            let grammar =
                Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default()).expect(&name);
            shortest = String::from_utf8(grammar.shortest()).expect("text");
            Some((recognized(&grammar, &turn, shortest.chars().next()?)?, tools))
        });
        let Some((text, tools)) = found else {
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
        check("cdata", text, &calls);
    }
    check(
        "cdata",
        "<function name=\"save\"><param name=\"path\"><![CDATA[]]></param><param name=\"more\">None</param></function>",
        &[("save", json!({ "path": "", "more": null }))],
    );
}

/// Returns the format of one of the small templates, after thoughts in tags.
fn thinking_format(call: &str) -> ChatFormat {
    let thinks = "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}";
    let user = "{% for m in messages %}{% if m.role != 'assistant' %}\n{{ m.role }}: {{ m.content }}</s>{% else %}\nassistant: ";
    let tools = "{% if tools %}tools: {{ tools | tojson }}{% endif %}";
    format_of(&format!("{tools}{user}{thinks}{call}</s>{{% endif %}}{{% endfor %}}{TAIL}"))
}

const CONTROL_CALLS: &str = "{% for c in m.tool_calls %}[TOOL_CALLS]{{ c.function.name }}<|message|>{{ c.function.arguments | tojson }}<|end|>{% endfor %}";

/// While thoughts are generated, a call cannot start in them.
#[test]
fn thoughts_are_closed_before_a_call() {
    for (call, marker) in [(TAGS, "<tool_call>"), (KEYS, "<tool_call>"), (CONTROL_CALLS, "<[258]>")] {
        let format = thinking_format(call);
        let part = format.answer(&Content::Free, &tools(), Thoughts::Begun).expect("bounded");
        let grammar =
            Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default()).expect("a grammar");
        let accepts = |text: &str| {
            let mut recognizer = grammar.recognizer();
            recognizer.extend(text.as_bytes()).is_ok() && recognizer.accepting()
        };
        assert!(accepts("So <tool> or <b>.</think>Yes."), "{call}");
        assert!(!accepts("So <tool_call>.</think>Yes.") || marker.starts_with("<["), "{call}");
        for output in grammar.samples(3).max_bytes(200).take(100) {
            let text = String::from_utf8_lossy(&output);
            let (thought, _) = text.split_once("</think>").expect("closed thoughts");
            assert!(!thought.contains(marker), "{text}");
        }
        // Without tools, thoughts may have any text.
        let content = Content::Shaped(Part::literal("Yes."));
        let part = format.answer(&content, &Tools::default(), Thoughts::Begun).expect("bounded");
        let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default());
        assert!(grammar.expect("a grammar").accepts(b"<tool_call></think>Yes."));
    }
}

/// Text of other servers may have calls in thoughts that are not closed.
#[test]
fn a_call_may_end_thoughts_of_other_servers() {
    let mut random = Random::new(17);
    let thought = |text: &str| Delta::Thought(text.to_owned());
    let add = [Delta::Call("add".to_owned()), Delta::Arguments("{\"a\": 1}".to_owned())];
    let cases = [
        (TAGS, "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"),
        (KEYS, "<tool_call>add<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>"),
        (CONTROL_CALLS, "[TOOL_CALLS]add<|message|>{\"a\": 1}<|end|>"),
    ];
    for (call, text) in cases {
        let format = thinking_format(call);
        let vocabulary = vocabulary();
        for is_token in [false, true] {
            let mut check = |text: &str, expected: &[Delta]| {
                let mut symbols: Vec<Result<char, TokenId>> = Vec::new();
                let mut rest = text;
                while let Some(c) = rest.chars().next() {
                    let control = vocabulary.ids().skip(256).find_map(|token| {
                        let spelling = std::str::from_utf8(vocabulary.bytes(token)).ok()?;
                        Some((token, rest.strip_prefix(spelling)?))
                    });
                    if let Some((token, after)) = control.filter(|_| is_token) {
                        symbols.push(Err(token));
                        rest = after;
                    } else {
                        symbols.push(Ok(c));
                        rest = &rest[c.len_utf8()..];
                    }
                }
                for cuts in [0, 30, 100] {
                    let reader = Reader::new(&format, &Content::Free, &tools(), Thoughts::Begun);
                    let reader = reader.with_calls_in_thoughts(&tools());
                    assert_eq!(read(reader, &symbols, &mut random, cuts), expected, "{text}");
                }
            };
            let expected = [&[thought("I add.")], &add[..]].concat();
            check(&format!("I add.\n{text}"), &expected);
            if call != CONTROL_CALLS || is_token {
                check(&format!("I add.</think>\n\n{text}"), &expected);
            }
            check("Is <tool_call>\n a tag?</think>", &[thought("Is <tool_call>\n a tag?")]);
            check("I add <tool_call>", &[thought("I add <tool_call>")]);
            let other = text.replace("add", "other");
            if call != CONTROL_CALLS || !is_token {
                check(&format!("I add {other}."), &[thought(&format!("I add {other}."))]);
            }
        }
        // Without the option, thoughts end with their closing tag.
        let symbols: Vec<_> = text.chars().map(Ok).collect();
        let reader = Reader::new(&format, &Content::Free, &tools(), Thoughts::Begun);
        assert_eq!(read(reader, &symbols, &mut random, 50), [thought(text)]);
    }
}

/// Calls numbered through the conversation, like those of Kimi K2, and calls that are their ids, like those
/// of Kimi K2.5.
const COUNTED: &str = "{% if m.tool_calls %}<|calls|>{% for c in m.tool_calls %}<|name|>functions.{{ c.function.name }}:{{ count.n }}<|arguments|>{{ c.function.arguments | tojson }}<|done|>{% set count.n = count.n + 1 %}{% endfor %}<|all|>{% endif %}";
const NAMED_IDS: &str = "{% if m.tool_calls %}<|calls|>{% for c in m.tool_calls %}<|name|>{{ c.id }}<|arguments|>{{ c.function.arguments | tojson }}<|done|>{% endfor %}<|all|>{% endif %}";

#[test]
fn numbers_of_calls_go_on_through_a_conversation() {
    let head = "{% set count = namespace(n=0) %}{% if tools %}tools: {{ tools | tojson }}{% endif %}{% for m in messages %}{% if m.role != 'assistant' %}\n{{ m.name or m.role }}: {{ m.tool_call_id }} {{ m.content }}</s>{% else %}\nassistant: {{ m.content }}";
    let call = |id: &str, name: &str| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": "{\"a\": 1}" } });
    let assistant = |calls: Value| {
        let mut message = Message::new("assistant", "");
        message.fields.insert("tool_calls".to_owned(), calls);
        message
    };
    let result = |id: &str, text: &str| {
        let mut message = Message::new("tool", text);
        message.fields.insert("tool_call_id".to_owned(), id.into());
        message
    };
    let messages = [
        Message::new("user", "Q?"),
        assistant(json!([call("call_x", "add"), call("call_y", "get_weather")])),
        result("call_y", "second"),
        result("call_x", "first"),
        assistant(json!([call("call_x", "add")])),
        result("call_x", "third"),
    ];
    for calls in [COUNTED, NAMED_IDS] {
        let source = format!("{head}{calls}</s>{{% endif %}}{{% endfor %}}{TAIL}");
        let template = JinjaTemplate::new(&source, None, None).expect("a template");
        let format = ChatFormat::of(&template, &vocabulary());
        assert_eq!(format.call_id("add", 3).as_deref(), Some("functions.add:3"), "{calls}");
        let input = format.input(&messages, &tools().tools, Map::new());
        let text = template.render(&input).expect("a prompt");
        let (_, text) = text.split_once("Q?").expect("the question");
        let expected = "</s>assistant: <|calls|><|name|>functions.add:0<|arguments|>{\"a\": 1}<|done|><|name|>functions.get_weather:1<|arguments|>{\"a\": 1}<|done|><|all|></s>add: functions.add:0 first</s>get_weather: functions.get_weather:1 second</s>assistant: <|calls|><|name|>functions.add:2<|arguments|>{\"a\": 1}<|done|><|all|></s>add: functions.add:2 third</s>assistant: ";
        assert_eq!(text, expected);
        let tools = Tools { required: true, ..tools() };
        let part = format.answer_after(3, &Content::Free, &tools, Thoughts::None).expect("bounded");
        let grammar =
            Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default()).expect("a grammar");
        let answer = |first: u32| {
            let call = |number: u32| {
                format!("<|name|>functions.get_weather:{number}<|arguments|>{{\"city\": \"Bern\"}}<|done|>")
            };
            format!("<|calls|>{}{}<|all|>", call(first), call(first + 1))
        };
        assert!(grammar.accepts(answer(3).as_bytes()), "{calls}");
        assert!(!grammar.accepts(answer(0).as_bytes()), "{calls}");
    }
    // Other formats have no ids of their own.
    let (_, source) = templates().swap_remove(1);
    assert_eq!(format_of(&source).call_id("add", 0), None);
}

#[test]
fn formats_are_described_by_a_sample() {
    let described = |name: &str| {
        let (_, source) = templates().into_iter().find(|(other, _)| *other == name).expect("a template");
        format_of(&source).describe()
    };
    let cases = [
        (
            "hermes",
            "JSON",
            "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\", \"days\": 2}}\n</tool_call>",
        ),
        (
            "mistral",
            "JSON",
            "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\", \"days\": 2}}]",
        ),
        (
            "tags",
            "raw text",
            "<tool_call>\n<function=get_weather>\n<parameter=city>\nBern\n</parameter>\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>",
        ),
        ("braces", "quoted text", "<|tool_call>call:get_weather{city:<|\"|>Bern<|\"|>,days:2}<tool_call|>"),
        ("python", "Python", "<|tool_call_start|>[get_weather(city='Bern', days=2)]<|tool_call_end|>"),
        (
            "numbered",
            "JSON",
            "<|calls|><|name|>functions.get_weather:0<|arguments|>{\"city\": \"Bern\", \"days\": 2}<|done|><|all|>",
        ),
        (
            "harmony",
            "harmony",
            "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Bern\", \"days\": 2}<|call|>",
        ),
    ];
    for (name, notation, sample) in cases {
        let described = described(name);
        assert_eq!((described.notation, described.sample.as_str()), (notation, sample), "{name}");
        assert_eq!(described.json_reason, None, "{name}");
        assert!(described.turn_ends.contains(&"</s>".to_owned()), "{name}: {:?}", described.turn_ends);
    }
    let thoughts = described("thinking").thoughts;
    assert_eq!(thoughts, Some(("<think>".to_owned(), "</think>".to_owned())));
    let none = described("none");
    assert_eq!(none.json_reason, Some(JsonReason::NoCalls));
    assert!(none.sample.starts_with("<tool_call>\n{\"name\": \"get_weather\""), "{}", none.sample);
}

#[test]
fn a_token_at_the_end_of_conversations_is_no_part_of_calls() {
    // The end-of-sequence token and the header of an answer begin alike, as those of Phi-4-mini do.
    let source = "{{ tools | tojson }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls %}\
                  <|tool_call|>{{ c.function | tojson }}<|/tool_call|>{% endfor %}</s>{% endfor %}\
                  {% if add_generation_prompt %}<|assistant|>{% else %}<|eom|>{% endif %}";
    let described = format_of(source).describe();
    let sample = "<|tool_call|>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\", \"days\": 2}}<|/tool_call|>";
    assert_eq!((described.sample.as_str(), described.json_reason), (sample, None));
}

#[test]
fn a_call_beside_text_gets_an_answer_of_its_own_if_the_template_leaves_it_out() {
    // As DeepSeek's distilled models do.
    let call = "{% for c in m.tool_calls %}\n<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": \
                {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}";
    let source = format!(
        "{{{{ tools | tojson }}}}{{% for m in messages %}}<{{{{ m.role }}}}>{{% if m.content %}}{{{{ m.content }}}}\
         {{% else %}}{call}{{% endif %}}</s>{{% endfor %}}{{% if add_generation_prompt %}}<assistant>{{% endif %}}"
    );
    let mut conversation = foreign_conversation();
    conversation[1].content = Some("I look.".to_owned());
    let input = format_of(&source).input(&conversation, &[], Map::new());
    let prompt =
        JinjaTemplate::new(&source, None, None).expect("a template").render(&input).expect("rendered");
    assert!(prompt.contains("<assistant>I look.</s><assistant><tool_call>\n{\"name\""), "{prompt}");
}

#[test]
fn the_plan_of_a_call_is_its_thought() {
    let source = "{{ tools | tojson }}{% for m in messages %}<{{ m.role }}>{% if m.tool_calls %}<|plan|>{{ m.tool_plan }}\
                  <|/plan|><|action|>{% for c in m.tool_calls %}{\"name\": \"{{ c.function.name }}\", \"parameters\": \
                  {{ c.function.arguments | tojson }}}{% endfor %}<|/action|>{% else %}{{ m.content }}{% endif %}</s>\
                  {% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
    let format = format_of(source);
    let described = format.describe();
    assert_eq!(described.thoughts, Some(("<|plan|>".to_owned(), "<|/plan|>".to_owned())));
    let sample =
        "<|action|>{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Bern\", \"days\": 2}}<|/action|>";
    assert_eq!(described.sample, sample);
    let mut conversation = foreign_conversation();
    conversation[1].fields.insert("reasoning_content".to_owned(), "First the weather.".into());
    let input = format.input(&conversation, &[], Map::new());
    let prompt =
        JinjaTemplate::new(source, None, None).expect("a template").render(&input).expect("rendered");
    assert!(prompt.contains("<|plan|>First the weather.<|/plan|><|action|>"), "{prompt}");
}

/// Returns a conversation with a call whose id another server made, and its result.
fn foreign_conversation() -> Vec<Message> {
    let id = "call_0123456789abcdefABCDEF";
    let call = json!([{ "id": id, "type": "function", "function": { "name": "add", "arguments": "{\"a\": 1, \"more\": []}" } }]);
    let mut assistant = Message { role: "assistant".to_owned(), content: None, fields: Map::new() };
    assistant.fields.insert("tool_calls".to_owned(), call);
    let mut result = Message::new("tool", "it is 2");
    result.fields.insert("tool_call_id".to_owned(), id.into());
    vec![
        Message::new("user", "1 + 1?"),
        assistant,
        result,
        Message::new("assistant", "2"),
        Message::new("user", "Why?"),
    ]
}

#[test]
fn ids_are_shortened_where_a_template_needs_it() {
    let check = "{% if m.tool_call_id and m.tool_call_id | length != 9 %}{{ raise_exception('id') }}{% endif %}{% for c in m.tool_calls %}{% if c.id | length != 9 %}{{ raise_exception('id') }}{% endif %}{% endfor %}";
    let (_, mistral) = templates().swap_remove(3);
    let source = mistral.replace("{% for m in messages %}", &format!("{{% for m in messages %}}{check}"));
    let template = JinjaTemplate::new(&source, None, None).expect("a template");
    let format = ChatFormat::of(&template, &vocabulary());
    let input = format.input(&foreign_conversation(), &tools().tools, Map::new());
    let text = template.render(&input).expect("a prompt");
    assert!(text.contains("\"id\": \"defABCDEF\""), "{text}");
}

/// Real templates must render calls and results with ids of other servers.
#[test]
fn foreign_ids_reach_real_templates() {
    let Some(folder) = std::env::var_os("FORMWORK_CALL_VECTORS") else { return };
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "jinja") {
            continue;
        }
        let file = path.file_name().expect("a name").to_string_lossy().into_owned();
        let source = std::fs::read_to_string(&path).expect("text");
        let template = JinjaTemplate::new(&source, Some(""), Some("")).expect(&file);
        let format = ChatFormat::of(&template, &vocabulary());
        let input = format.input(&foreign_conversation(), &tools().tools, Map::new());
        let text = template.render(&input).unwrap_or_else(|error| panic!("{file}: {error}"));
        for part in ["1 + 1?", "it is 2", "Why?"] {
            assert!(text.contains(part), "{file}: {part} is not in {text}");
        }
        if let Some(id) = format.call_id("add", 0) {
            assert!(text.contains(&id) && !text.contains("call_0123"), "{file}: {text}");
        }
    }
}

/// Content in a section is read without the section, with and without calls, and wherever the prompt ends.
#[test]
fn content_may_stand_in_a_section() {
    let (_, source) = templates().into_iter().find(|(name, _)| *name == "sections").expect("a template");
    let format = format_of(&source);
    let mut random = Random::new(19);
    assert_eq!(format.thoughts("<o>m assistant<s><o>think<s>"), Thoughts::Begun);
    assert_eq!(format.thoughts("<o>m assistant<s><o>response<s>"), Thoughts::InContent);
    let call = "<o>tools<s><o>call add 1<s><o>argument a number<s>1<c>argument<s><o>argument more array<s>[]<c>argument<s><c>call<s><c>tools<s><c>m<s>";
    let thought = || Delta::Thought("Hm.".to_owned());
    let content = |text: &str| Delta::Content(text.to_owned());
    let called = || [Delta::Call("add".to_owned()), Delta::Arguments("{\"a\": 1, \"more\": []}".to_owned())];
    let none = Tools::default();
    let cases = [
        (
            "Hm.<c>think<s><o>response<s>Yes <b>.<c>response<s><c>m<s>".to_owned(),
            Thoughts::Begun,
            tools(),
            vec![thought(), content("Yes <b>.")],
        ),
        (
            format!("Hm.<c>think<s><o>response<s>Yes.<c>response<s>{call}"),
            Thoughts::Begun,
            tools(),
            [&[thought(), content("Yes.")], &called()[..]].concat(),
        ),
        (
            format!("Hm.<c>think<s><o>response<s><c>response<s>{call}"),
            Thoughts::Begun,
            tools(),
            [&[thought()], &called()[..]].concat(),
        ),
        (format!("<c>response<s>{call}"), Thoughts::InContent, tools(), called().to_vec()),
        ("Yes.<c>response<s>".to_owned(), Thoughts::InContent, tools(), vec![content("Yes.")]),
        (
            "Hm.<c>think<s><o>response<s>Yes.<c>response<s><c>m<s>".to_owned(),
            Thoughts::Begun,
            none,
            vec![thought(), content("Yes.")],
        ),
    ];
    for (text, thoughts, tools, expected) in cases {
        if let Some(part) = format.answer(&Content::Free, &tools, thoughts) {
            let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default());
            assert!(grammar.expect("a grammar").accepts(text.as_bytes()), "{text}");
        }
        let symbols: Vec<_> = text.chars().map(Ok).collect();
        for cuts in [0, 30, 100] {
            let reader = Reader::new(&format, &Content::Free, &tools, thoughts);
            assert_eq!(read(reader, &symbols, &mut random, cuts), expected, "{text}");
        }
    }
}
