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
fn templates() -> Vec<(&'static str, String)> {
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
    ]
}

fn format_of(source: &str) -> ChatFormat {
    ChatFormat::of(&JinjaTemplate::new(source, None, None).expect("a template"), &vocabulary())
}

fn tool(name: &str, properties: &Value) -> Tool {
    let parameters = json!({ "type": "object", "properties": properties, "required": properties.as_object()
        .map(|all| all.keys().cloned().collect::<Vec<_>>()), "additionalProperties": false });
    Tool { name: name.to_owned(), description: None, parameters, place: format!("tools.{name}") }
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
    assert!(words.len() <= 1, "{}", shown());
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
        for part in ["Be exact.", "get_weather", "maxLength", "{\"a\": 1}", "it is 2"] {
            assert!(text.contains(part), "{name}: {part} is not in {text}");
        }
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
        ("openai-gpt-oss-120b", "<[260]>commentary to=functions.add <[262]>json<[261]>"),
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
