//! Calls in the text of answers, in the formats of all families.

use std::sync::LazyLock;

use formwork_protocol::tools::Preset;

use super::*;

/// Tools whose arguments have all types.
static TOOLS: LazyLock<Arc<ToolRegistry>> = LazyLock::new(|| Arc::new(tools()));

fn tools() -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    let save = json!({ "type": "object", "properties": {
        "path": { "type": "string" }, "lines": { "type": "integer" }, "deep": { "$ref": "#/$defs/deep" },
        "note": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
    }, "required": ["path"], "$defs": { "deep": { "type": "object" } } });
    let given = Closure::new(|given: &Body| Value::Object(given.clone()));
    registry.add(ToolDefinition::new("save_file", "Saves a file.", save), given).expect("a tool");
    let now = Closure::new(|given: &Body| Value::Object(given.clone()));
    registry.add(ToolDefinition::new("now", "The time.", json!({ "type": "object" })), now).expect("a tool");
    registry
}

/// Runs a loop on `message` with the format `format`. Returns the calls of its first turn and the content
/// in the history.
async fn read(message: Value, format: &str) -> (Vec<(String, Value)>, Value) {
    let given = json!({
        "text_call_format": format, "fix_empty_final": false,
        "response_transforms": ["assistant_content_tool_call_tags_to_tool_calls"],
    });
    let script = vec![Ok(ScriptedBackend::message(message)), Ok(says("Done."))];
    let (run, _) = run_with(TOOLS.clone(), given, script).await;
    let calls = run.turns[0].calls.iter();
    let arguments = |text: &str| serde_json::from_str(text).expect("JSON");
    let calls = calls.map(|call| (call.call.name.clone(), arguments(&call.call.arguments))).collect();
    (calls, run.messages.get(1).map_or(Value::Null, |message| message["content"].clone()))
}

/// A family: the names of its format, one call of `save_file` with all types, and the call with a call of
/// `now` after it. `@` stands for the text of `path` in the family's notation.
struct Family {
    names: &'static [&'static str],
    one: &'static str,
    two: &'static str,
    /// Form of a text in the notation.
    text: Text,
}

#[derive(Clone, Copy, PartialEq)]
enum Text {
    Json,
    Raw,
    Python,
}

/// Arguments of the call with all types, without `path`.
fn others() -> Value {
    json!({ "lines": 3, "deep": { "a": [true, null, "x"] }, "note": null })
}

const FAMILIES: &[Family] = &[
    Family {
        names: &["hermes"],
        one: "<tool_call>\n{\"name\": \"save_file\", \"arguments\": {\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}}\n</tool_call>",
        two: "\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
        text: Text::Json,
    },
    Family {
        names: &["qwen3_coder"],
        one: "<tool_call>\n<function=save_file>\n<parameter=path>\n@\n</parameter>\n<parameter=lines>\n3\n</parameter>\n<parameter=deep>\n{\"a\": [true, null, \"x\"]}\n</parameter>\n<parameter=note>\nNone\n</parameter>\n</function>\n</tool_call>",
        two: "\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
        text: Text::Raw,
    },
    // Qwen3-Coder may leave out `<tool_call>`.
    Family {
        names: &["qwen3_coder", "seed_oss"],
        one: "<function=save_file>\n<parameter=path>\n@\n</parameter>\n<parameter=lines>\n3\n</parameter>\n<parameter=deep>\n{\"a\": [True, None, 'x']}\n</parameter>\n<parameter=note>\nnull\n</parameter>\n</function>",
        two: "\n<function=now>\n</function>",
        text: Text::Raw,
    },
    Family {
        names: &["glm"],
        one: "<tool_call>save_file\n<arg_key>path</arg_key>\n<arg_value>@</arg_value>\n<arg_key>lines</arg_key>\n<arg_value>3</arg_value>\n<arg_key>deep</arg_key>\n<arg_value>{\"a\": [true, null, \"x\"]}</arg_value>\n<arg_key>note</arg_key>\n<arg_value>null</arg_value>\n</tool_call>",
        two: "\n<tool_call>now\n</tool_call><|observation|>",
        text: Text::Raw,
    },
    Family {
        names: &["glm"],
        one: "<tool_call>save_file<arg_key>path</arg_key><arg_value>@</arg_value><arg_key>lines</arg_key><arg_value>3</arg_value><arg_key>deep</arg_key><arg_value>{\"a\": [true, null, \"x\"]}</arg_value><arg_key>note</arg_key><arg_value>null</arg_value></tool_call>",
        two: "<tool_call>now</tool_call>",
        text: Text::Raw,
    },
    // A Flash model of GLM 5.3 writes JSON after the name.
    Family {
        names: &["glm"],
        one: "<tool_call>save_file>{\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}</tool_call>",
        two: "<tool_call>now>{}</tool_call>",
        text: Text::Json,
    },
    Family {
        names: &["hunyuan"],
        one: "<tool_calls:opensource>\n<tool_call:opensource>save_file<tool_sep:opensource>\n<arg_key:opensource>path</arg_key:opensource>\n<arg_value:opensource>@</arg_value:opensource>\n<arg_key:opensource>lines</arg_key:opensource>\n<arg_value:opensource>3</arg_value:opensource>\n<arg_key:opensource>deep</arg_key:opensource>\n<arg_value:opensource>{\"a\": [true, null, \"x\"]}</arg_value:opensource>\n<arg_key:opensource>note</arg_key:opensource>\n<arg_value:opensource>null</arg_value:opensource>\n</tool_call:opensource>",
        two: "\n<tool_call:opensource>now<tool_sep:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
        text: Text::Raw,
    },
    Family {
        names: &["minimax"],
        one: "<minimax:tool_call>\n<invoke name=\"save_file\">\n<parameter name=\"path\">@</parameter>\n<parameter name=\"lines\">3</parameter>\n<parameter name=\"deep\">{\"a\": [true, null, \"x\"]}</parameter>\n<parameter name=\"note\">null</parameter>\n</invoke>",
        two: "\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>[e~[",
        text: Text::Raw,
    },
    Family {
        names: &["dsml"],
        one: "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"save_file\">\n<｜DSML｜parameter name=\"path\" string=\"true\">@</｜DSML｜parameter>\n<｜DSML｜parameter name=\"lines\" string=\"false\">3</｜DSML｜parameter>\n<｜DSML｜parameter name=\"deep\" string=\"false\">{\"a\": [true, null, \"x\"]}</｜DSML｜parameter>\n<｜DSML｜parameter name=\"note\" string=\"false\">null</｜DSML｜parameter>\n</｜DSML｜invoke>",
        two: "\n<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls><｜end▁of▁sentence｜>",
        text: Text::Raw,
    },
    Family {
        names: &["dsml"],
        one: "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"save_file\">\n<｜DSML｜parameter name=\"path\" string=\"true\">@</｜DSML｜parameter>\n<｜DSML｜parameter name=\"lines\" string=\"false\">3</｜DSML｜parameter>\n<｜DSML｜parameter name=\"deep\" string=\"false\">{\"a\": [true, null, \"x\"]}</｜DSML｜parameter>\n<｜DSML｜parameter name=\"note\" string=\"false\">null</｜DSML｜parameter>\n</｜DSML｜invoke>",
        two: "\n<｜DSML｜invoke name=\"now\">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
        text: Text::Raw,
    },
    Family {
        names: &["dsml"],
        one: "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"save_file\">\n<｜DSML｜ parameter name=\"path\" string=\"true\">@</｜DSML｜ parameter>\n<｜DSML｜ parameter name=\"lines\" string=\"false\">3</｜DSML｜ parameter>\n<｜DSML｜ parameter name=\"deep\" string=\"false\">{\"a\": [true, null, \"x\"]}</｜DSML｜ parameter>\n<｜DSML｜ parameter name=\"note\" string=\"false\">null</｜DSML｜ parameter>\n</｜DSML｜ invoke>",
        two: "\n<｜DSML｜ invoke name=\"now\">\n</｜DSML｜ invoke>\n</｜DSML｜ calls>",
        text: Text::Raw,
    },
    Family {
        names: &["seed_oss"],
        one: "<seed:tool_call>\n<function=save_file>\n<parameter=path>@</parameter>\n<parameter=lines>3</parameter>\n<parameter=deep>{'a': [True, None, 'x']}</parameter>\n<parameter=note>None</parameter>\n</function>\n</seed:tool_call>",
        two: "\n<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>",
        text: Text::Raw,
    },
    Family {
        names: &["kimi_k2"],
        one: "<|tool_calls_section_begin|><|tool_call_begin|>functions.save_file:0<|tool_call_argument_begin|>{\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}<|tool_call_end|>",
        two: "<|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|><|im_end|>",
        text: Text::Json,
    },
    Family {
        names: &["kimi_k3"],
        one: "<|open|>tools<|sep|><|open|>call tool=\"save_file\" index=\"1\"<|sep|><|open|>argument key=\"path\" type=\"string\"<|sep|>@<|close|>argument<|sep|><|open|>argument key=\"lines\" type=\"number\"<|sep|>3<|close|>argument<|sep|><|open|>argument key=\"deep\" type=\"object\"<|sep|>{\"a\": [true, null, \"x\"]}<|close|>argument<|sep|><|open|>argument key=\"note\" type=\"null\"<|sep|>null<|close|>argument<|sep|><|close|>call<|sep|>",
        two: "<|open|>call tool=\"now\" index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>",
        text: Text::Raw,
    },
    Family {
        names: &["gemma"],
        one: "<|tool_call>call:save_file{deep:{a:[true,null,<|\"|>x<|\"|>]},lines:3,note:None,path:<|\"|>@<|\"|>}<tool_call|>",
        two: "<|tool_call>call:now{}<tool_call|><|tool_response>",
        text: Text::Raw,
    },
    Family {
        names: &["gemma"],
        one: "<start_function_call>call:save_file{deep:{a:[true,null,<escape>x<escape>]},lines:3,note:null,path:<escape>@<escape>}<end_function_call>",
        two: "<start_function_call>call:now{}<end_function_call><start_function_response>",
        text: Text::Raw,
    },
    Family {
        names: &["lfm"],
        one: "<|tool_call_start|>[save_file(path=@, lines=3, deep={\"a\": [true, null, \"x\"]}, note=None)",
        two: ", now()]<|tool_call_end|>",
        text: Text::Python,
    },
    Family {
        names: &["mistral"],
        one: "[TOOL_CALLS][{\"name\": \"save_file\", \"arguments\": {\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}, \"id\": \"ab12cd34e\"}",
        two: ", {\"name\": \"now\", \"arguments\": {}, \"id\": \"fg56hi78j\"}]</s>",
        text: Text::Json,
    },
    Family {
        names: &["mistral"],
        one: "[TOOL_CALLS]save_file[CALL_ID]ab12cd34e[ARGS]{\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}",
        two: "[TOOL_CALLS]now[CALL_ID]fg56hi78j[ARGS]{}</s>",
        text: Text::Json,
    },
    Family {
        names: &["mistral"],
        one: "[TOOL_CALLS]save_file[ARGS]{\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}",
        two: "[TOOL_CALLS]now[ARGS]{}",
        text: Text::Json,
    },
    Family {
        names: &["deepseek"],
        one: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>save_file\n```json\n{\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}\n```<｜tool▁call▁end｜>",
        two: "\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        text: Text::Json,
    },
    Family {
        names: &["deepseek"],
        one: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>save_file<｜tool▁sep｜>{\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}<｜tool▁call▁end｜>",
        two: "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        text: Text::Json,
    },
    Family {
        names: &["cohere"],
        one: "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"save_file\", \"parameters\": {\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}}",
        two: ",\n    {\"tool_call_id\": \"1\", \"tool_name\": \"now\", \"parameters\": {}}\n]<|END_ACTION|><|END_OF_TURN_TOKEN|>",
        text: Text::Json,
    },
    Family {
        names: &["nemotron"],
        one: "<TOOLCALL>[{\"name\": \"save_file\", \"arguments\": {\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}}",
        two: ", {\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>",
        text: Text::Json,
    },
    Family {
        names: &["tool_calls"],
        one: "<tool_calls>\n{\"name\": \"save_file\", \"arguments\": {\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}}",
        two: "\n{\"name\": \"now\", \"arguments\": {}}\n</tool_calls>",
        text: Text::Json,
    },
    Family {
        names: &["apertus"],
        one: "<|tools_prefix|>[{\"save_file\": {\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}}",
        two: ", {\"now\": {}}]<|tools_suffix|>",
        text: Text::Json,
    },
    Family {
        names: &["granite"],
        one: "<|tool_call|>[{\"name\": \"save_file\", \"arguments\": {\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}}",
        two: ", {\"name\": \"now\", \"arguments\": {}}]<|end_of_text|>",
        text: Text::Json,
    },
    Family {
        names: &["phi"],
        one: "functools[{\"name\": \"save_file\", \"arguments\": {\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}}",
        two: ", {\"name\": \"now\", \"arguments\": {}}]",
        text: Text::Json,
    },
    Family {
        names: &["internlm"],
        one: "<|action_start|><|plugin|>\n{\"name\": \"save_file\", \"parameters\": {\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}}<|action_end|>",
        two: "<|action_start|><|plugin|>\n{\"name\": \"now\", \"parameters\": {}}<|action_end|><|im_end|>",
        text: Text::Json,
    },
    Family {
        names: &["gigachat"],
        one: "<|function_call|>{\"name\": \"save_file\", \"arguments\": {\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}}",
        two: "<|function_call|>{\"name\": \"now\", \"arguments\": {}}",
        text: Text::Json,
    },
    Family {
        names: &["solar"],
        one: "<|tool_calls|><|tool_call:begin|>ab12cd34e<|tool_call:name|>save_file<|tool_call:args|>{\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}<|tool_call:end|>",
        two: "<|tool_call:begin|>fg56hi78j<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|><|calls|>",
        text: Text::Json,
    },
    Family {
        names: &["step"],
        one: "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"save_file\"><steptml:parameter name=\"path\">@</steptml:parameter><steptml:parameter name=\"lines\">3</steptml:parameter><steptml:parameter name=\"deep\">{\"a\": [true, null, \"x\"]}</steptml:parameter><steptml:parameter name=\"note\">null</steptml:parameter></steptml:invoke><｜tool_call_end｜>",
        two: "<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"now\"></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
        text: Text::Raw,
    },
    Family {
        names: &["minicpm"],
        one: "<function name=\"save_file\"><param name=\"path\"><![CDATA[@]]></param><param name=\"lines\">3</param><param name=\"deep\">{'a': [True, None, 'x']}</param><param name=\"note\">None</param></function>",
        two: "\n<function name=\"now\"></function>",
        text: Text::Raw,
    },
    Family {
        names: &["harmony"],
        one: "<|channel|>commentary to=functions.save_file <|constrain|>json<|message|>{\"path\": @, \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}<|call|>",
        two: "<|start|>assistant to=functions.now<|channel|>commentary json<|message|>{}<|call|>",
        text: Text::Json,
    },
];

/// Names of all formats.
const NAMES: [&str; 28] = [
    "hermes",
    "qwen3_coder",
    "seed_oss",
    "glm",
    "hunyuan",
    "minimax",
    "minicpm",
    "dsml",
    "step",
    "deepseek",
    "kimi_k2",
    "kimi_k3",
    "mistral",
    "llama",
    "pythonic",
    "lfm",
    "gemma",
    "cohere",
    "nemotron",
    "tool_calls",
    "apertus",
    "granite",
    "phi",
    "internlm",
    "gigachat",
    "solar",
    "json",
    "harmony",
];

impl Family {
    /// Returns both calls, with `path` as the path of the first.
    fn calls(&self, path: &str) -> String {
        let path = match self.text {
            Text::Json => json!(path).to_string(),
            Text::Raw => path.to_owned(),
            Text::Python => {
                format!("'{}'", path.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n"))
            }
        };
        format!("{}{}", self.one.replace('@', &path), self.two)
    }
}

/// Returns what both calls of a family are.
fn expected(path: &str) -> Vec<(String, Value)> {
    let mut all = others();
    all["path"] = json!(path);
    vec![("save_file".to_owned(), all), ("now".to_owned(), json!({}))]
}

fn message(content: &str) -> Value {
    json!({ "role": "assistant", "content": content })
}

#[tokio::test]
async fn reads_calls_of_every_family_with_arguments_of_every_type() {
    for family in FAMILIES {
        for path in
            ["a.txt", "5", "null", "two\nlines", "it's \"q\" \\n", " é ", "a <b> & {c} [d]", "```\nx\n```"]
        {
            let text = family.calls(path);
            let (calls, content) = read(message(&text), "auto").await;
            assert_eq!((calls, content), (expected(path), json!(null)), "{text}");
        }
        for name in family.names {
            let text = family.calls("a.txt");
            assert_eq!(read(message(&text), name).await.0, expected("a.txt"), "{name}: {text}");
        }
    }
}

#[tokio::test]
async fn keeps_text_and_thoughts_before_calls() {
    for family in FAMILIES {
        let calls = family.calls("a.txt");
        for before in ["I look.", "Use `<tool_call>` so:", "<think>Hm.</think>I look.", "1 < 2, a[0] = {}"] {
            for space in ["\n", "\n\n", ""] {
                let text = format!("{before}{space}{calls}");
                let (found, content) = read(message(&text), "auto").await;
                assert_eq!((found, content), (expected("a.txt"), json!(before)), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn a_call_ends_the_thought_before_it() {
    for family in FAMILIES {
        let calls = family.calls("a.txt");
        let (found, content) = read(message(&format!("<think>\nI look.\n{calls}")), "auto").await;
        assert_eq!((found, content), (expected("a.txt"), json!("<think>\nI look.")), "{calls}");
        // The server has put the thought into a field of its own.
        for field in ["reasoning_content", "reasoning"] {
            for content in [json!(null), json!(""), json!("\n")] {
                let thought = format!("I look.\n{calls}");
                let message = json!({ "role": "assistant", "content": content, field: thought });
                assert_eq!(read(message, "auto").await.0, expected("a.txt"), "{calls}");
            }
            let text = format!("I could\n{calls}\nbut I will not.");
            let message = json!({ "role": "assistant", "content": null, field: text });
            assert_eq!(read(message, "auto").await.0, [], "{calls}");
            let message = json!({ "role": "assistant", "content": "No.", field: calls });
            assert_eq!(read(message, "auto").await, (vec![], json!("No.")), "{calls}");
        }
        // An answer that was cut off has not decided to call.
        let given = json!({ "response_transforms": ["assistant_content_tool_call_tags_to_tool_calls"], "fix_empty_final": false });
        let cut_off = cut(says(&format!("<think>I look.\n{calls}")));
        let (run, _) = run_with(TOOLS.clone(), given, vec![Ok(cut_off)]).await;
        assert_eq!(run.stats.tool_calls, 0, "{calls}");
    }
}

#[tokio::test]
async fn calls_that_are_only_shown_are_text() {
    for family in FAMILIES {
        let calls = family.calls("a.txt");
        for text in [
            format!("Write it like this:\n```\n{}\n```\nGot it?", family.calls("b").replace("```", "")),
            format!("<think>I could {calls}.</think>No."),
            json!({ "example": calls, "more": [calls] }).to_string(),
        ] {
            assert_eq!(read(message(&text), "auto").await, (vec![], json!(text)), "{text}");
        }
        // A name that is no tool.
        let other = calls.replace("save_file", "delete_all").replace("now", "later");
        if !family.names.contains(&"hermes") && !["nemotron", "tool_calls"].contains(&family.names[0]) {
            assert_eq!(read(message(&other), "auto").await, (vec![], json!(other)), "{other}");
        }
    }
}

#[tokio::test]
async fn texts_that_are_nearly_calls_are_text() {
    for text in [
        "The <tool_call> tag begins a call, and </tool_call> ends it.",
        "<tool_call></tool_call>",
        "<tool_call>now and then</tool_call>",
        "<tool_call>save_file<arg_key>path</arg_key>",
        "<tool_call>save_file<arg_key>path</arg_key><arg_value>a",
        "<tool_call>now>{</tool_call>",
        "<tool_call>now>[1]</tool_call>",
        "<function=now",
        "<function=now>",
        "<function=now> is how a call begins.",
        "<function=save_file><parameter=path>a",
        "<invoke name=\"now\"> is how a call begins.",
        "< invoke name=\"now\"> is how a call begins.",
        "a < invoke",
        "<｜DSML｜function_calls>",
        "<｜DSML｜ calls> begins calls",
        "[TOOL_CALLS]",
        "[TOOL_CALLS]now",
        "[TOOL_CALLS]now[ARGS]{",
        "[TOOL_CALLS] is a token of Mistral.",
        "functools[now]",
        "from functools import cache",
        "to=functions.now is a recipient.",
        "to=functions.now<|message|>no JSON",
        "call:now",
        "call:now{a:b}",
        "call:save_file{path:a.txt}",
        "call:now{} is a call",
        "<|tool_call>call:now{",
        "<|tool_call_start|>[now(]<|tool_call_end|>",
        "<|tool_call_start|>[now('x')]<|tool_call_end|>",
        "<|tool_call_begin|>functions.now:0",
        "<|open|>call tool=\"now\" index=\"1\"<|sep|>",
        "<|open|>tools<|sep|><|close|>tools<|sep|>",
        "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>",
        "<｜tool_calls_begin｜>function",
        "<|START_ACTION|>[]<|END_ACTION|>",
        "{\"name\": \"Ada\", \"arguments\": {}}",
        "[{\"name\": \"Ada\"}]",
        "{\"answer\": 42}",
        "[1, 2, 3]",
        "now",
        "now: 12:30",
        "Right now{ish}",
        "functions.now:0",
        "functionnow\n```json\n{}",
    ] {
        assert_eq!(read(message(text), "auto").await, (vec![], json!(text)), "{text}");
    }
}

#[tokio::test]
async fn reads_what_servers_leave_of_calls_without_tokens() {
    let object =
        "{\"path\": \"a.txt\", \"lines\": 3, \"deep\": {\"a\": [true, null, \"x\"]}, \"note\": null}";
    let first = format!("{{\"name\": \"save_file\", \"arguments\": {object}}}");
    let second = "{\"name\": \"now\", \"arguments\": {}}";
    let dsml = |dsml: &str, space: &str| {
        FAMILIES
            .iter()
            .filter(|family| family.names == ["dsml"])
            .map(|family| family.calls("a.txt"))
            .map(|calls| calls.replace(dsml, space))
            .collect::<Vec<_>>()
    };
    let mut texts = dsml("｜DSML｜", "");
    texts.extend([
        format!("[{first}, {second}]"),
        format!("{first}\n{second}"),
        format!("\n{first}\n\n{second}\n"),
        format!("[{{\"save_file\": {object}}}, {{\"now\": {{}}}}]"),
        format!("save_file{object}now{{}}"),
        format!("functions.save_file:0{object}functions.now:1{{}}"),
        format!("functionsave_file\n```json\n{object}\n```\nfunctionnow\n```json\n{{}}\n```"),
        format!("commentary to=functions.save_file json{object}assistantcommentary to=functions.now json{{}}"),
        "[save_file(path='a.txt', lines=3, deep={\"a\": [True, None, 'x']}, note=None), now()]".to_owned(),
        "<function=save_file>\n<parameter=path>\na.txt\n</parameter>\n<parameter=lines>\n3\n</parameter>\n<parameter=deep>\n{\"a\": [true, null, \"x\"]}\n</parameter>\n<parameter=note>\nnull\n</parameter>\n</function>\n\n<function=now>\n</function>".to_owned(),
    ]);
    for text in texts {
        let (calls, content) = read(message(&text), "auto").await;
        assert_eq!((calls, content), (expected("a.txt"), json!(null)), "{text}");
    }
    let now = ("now".to_owned(), json!({}));
    assert_eq!(read(message("call:now{}call:now{}"), "auto").await.0, [now.clone(), now]);
    // What is missing cannot be guessed.
    for text in [
        "save_filepatha.txt",
        "save_fileab12cd34e{\"path\": \"a\"}",
        "toolscall tool=\"now\" index=\"1\"calltools",
        "call:save_file{path:a}",
        "call:save_file{path:5}",
        "call:now{a:3}",
    ] {
        assert_eq!(read(message(text), "auto").await, (vec![], json!(text)), "{text}");
    }
}

#[tokio::test]
async fn a_cut_text_has_no_call_that_is_not_complete() {
    for family in FAMILIES {
        let calls = family.calls("a.txt");
        let all = expected("a.txt");
        for at in (0..calls.len()).filter(|at| calls.is_char_boundary(*at)) {
            let (found, _) = read(message(&calls[..at]), "auto").await;
            let matches = match found.as_slice() {
                [] => true,
                // The first call ends before its last tags. Of its arguments, the last ones may be missing.
                [(name, arguments)] => {
                    let members = arguments.as_object().expect("an object");
                    *name == all[0].0 && members.iter().all(|(name, value)| all[0].1[name] == *value)
                }
                found => found == all,
            };
            assert!(matches, "{}: {found:?}", &calls[..at]);
        }
        assert_eq!(read(message(&calls), "auto").await.0, all);
    }
}

#[tokio::test]
async fn a_truncated_call_does_not_run_without_its_last_arguments() {
    let given = json!({ "response_transforms": ["assistant_content_tool_call_tags_to_tool_calls"] });
    for family in FAMILIES {
        let calls = family.calls("a.txt");
        for at in (0..calls.len()).filter(|at| calls.is_char_boundary(*at)) {
            let script = vec![Ok(cut(says(&calls[..at]))), Ok(says("Done."))];
            let (run, _) = run_with(TOOLS.clone(), given.clone(), script).await;
            for call in &run.turns[0].calls {
                let expected = expected("a.txt");
                let is_whole = expected.contains(&(call.call.name.clone(), call.result.data.clone()));
                assert!(is_whole || !call.result.ok, "{}: {call:?}", &calls[..at]);
            }
        }
    }
}

#[tokio::test]
async fn a_named_format_leaves_the_others_alone() {
    for family in FAMILIES {
        let text = family.calls("a.txt");
        for name in NAMES.iter().filter(|name| !family.names.contains(name)) {
            let (found, _) = read(message(&text), name).await;
            // Some formats share an opening.
            let shares = [
                "<minimax:tool_call>",
                "<seed:tool_call>",
                "<tool_call>",
                "<tool_calls>",
                "<function=",
                "<|tool_call|>",
            ];
            assert!(found.is_empty() || shares.iter().any(|tag| text.starts_with(tag)), "{name}: {text}");
        }
    }
    // A named format is read without the transform.
    let text = "[TOOL_CALLS]now[ARGS]{}";
    for (format, count) in [("mistral", 1), ("auto", 0), ("glm", 0)] {
        let script = vec![Ok(says(text)), Ok(says("Done."))];
        let (run, _) = run_with(TOOLS.clone(), json!({ "text_call_format": format }), script).await;
        assert_eq!(run.stats.tool_calls, count, "{format}");
    }
    let preset = Preset::new(json!({ "text_call_format": "unknown" })).expect_err("refused").to_string();
    assert!(NAMES.iter().all(|name| preset.contains(&format!("`{name}`"))), "{preset}");
}
