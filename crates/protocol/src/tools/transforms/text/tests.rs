mod quoting;

use super::*;
use crate::tools::{Closure, ToolDefinition, ToolRegistry};

/// Returns the tools that the formats without markers need, and the types of their arguments.
fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    let parameters = json!({ "type": "object", "properties": {
        "city": { "type": "string" }, "days": { "type": "integer" },
        "when": { "type": ["string", "null"] }, "opts": { "type": "object" },
    } });
    for (name, parameters) in [("warmth", parameters), ("now", json!({ "type": "object" }))] {
        tools.add(ToolDefinition::new(name, "", parameters), Closure::new(|_| json!(null))).expect("a tool");
    }
    tools
}

fn answer(tools: &ToolRegistry) -> Answer<'_> {
    Answer { tools, format: TextCallFormat::Auto, is_truncated: false }
}

/// Returns the calls as name and arguments, and the remaining content.
fn after(content: &str) -> (Vec<(String, String)>, Value) {
    let mut message = json!({ "role": "assistant", "content": content, "tool_calls": [] });
    tags(message.as_object_mut().expect("an object"), &answer(&tools()));
    let text = |call: &Value, name: &str| call["function"][name].as_str().unwrap_or_default().to_owned();
    let calls = message["tool_calls"].as_array().expect("calls").iter();
    (calls.map(|call| (text(call, "name"), text(call, "arguments"))).collect(), message["content"].clone())
}

#[test]
fn converts_tags_to_calls() {
    for (content, rest) in [
        (r#"<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>"#, json!(null)),
        ("Well.\n<tool_call>\n{\"name\": \"f\", \"parameters\": {\"a\": 1}}\n</tool_call>\n", json!("Well.")),
        (r#"<tool_call>{"name": "f", "arguments": "{\"a\":1}"}"#, json!(null)),
        ("<tool_call>```json\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n```</tool_call>", json!(null)),
        ("```tool_call\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n```", json!(null)),
        (r#"<tool_call>{"function": {"name": "f", "arguments": {"a": 1}}}</tool_call>"#, json!(null)),
        (
            "<think>I <tool_call>{\"name\": \"g\"}</tool_call></think><tool_call>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]</tool_call>",
            json!("<think>I <tool_call>{\"name\": \"g\"}</tool_call></think>"),
        ),
    ] {
        assert_eq!(after(content), (vec![("f".to_owned(), "{\"a\":1}".to_owned())], rest), "{content}");
    }
    let two = "<tool_call>{\"name\": \"f\"}</tool_call> and <tool_call>{\"name\": \"g\"}</tool_call>";
    let calls = [("f", ""), ("g", "")].map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(after(two), (calls.to_vec(), json!("and")));
}

#[test]
fn keeps_other_content_as_text() {
    for content in [
        "",
        "no tags",
        "<tool_call>get_weather(Paris)</tool_call> x",
        "<tool_call>{\"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"argum",
        "</tool_call>",
        "<tool_call>[]</tool_call>",
        "```json\n{\"name\": \"f\", \"arguments\": {}}\n```",
    ] {
        assert_eq!(after(content), (vec![], json!(content)), "{content}");
    }
    let mixed = "<tool_call>x</tool_call><tool_call>{\"name\": \"f\"}</tool_call>";
    assert_eq!(after(mixed), (vec![("f".to_owned(), String::new())], json!("<tool_call>x</tool_call>")));
}

#[test]
fn keeps_existing_calls_unchanged() {
    let tag = "<tool_call>{\"name\": \"f\"}</tool_call>";
    for message in [
        json!({ "content": tag, "tool_calls": [{ "function": { "name": "g" } }] }),
        json!({ "content": tag, "tool_calls": { "function": { "name": "g" } } }),
        json!({ "content": tag, "function_call": { "name": "g" } }),
        json!({ "content": null }),
    ] {
        let mut after = message.clone();
        tags(after.as_object_mut().expect("an object"), &answer(&tools()));
        assert_eq!(after, message);
    }
}

/// Checks that the content is two calls and that `rest` is left.
fn two(content: &str, rest: &Value) {
    let (calls, left) = after(content);
    let names: Vec<_> = calls.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["warmth", "now"], "{content}");
    let arguments: Value = serde_json::from_str(&calls[0].1).expect("JSON");
    assert_eq!(arguments, json!({ "city": "Bern", "days": 2 }), "{content}");
    assert!(["", "{}"].contains(&calls[1].1.as_str()), "{content}");
    assert_eq!(left, *rest, "{content}");
}

#[test]
fn reads_calls_of_every_family() {
    let n = &json!(null);
    let object = r#"{"city": "Bern", "days": 2}"#;
    let (first, second) =
        (format!(r#"{{"name": "warmth", "arguments": {object}}}"#), r#"{"name": "now", "arguments": {}}"#);
    let list = format!("[{first}, {second}]");
    for (open, close) in [
        ("<tool_call>", "</tool_call>"),
        ("<tool_calls>", "</tool_calls>"),
        ("<TOOLCALL>", "</TOOLCALL>"),
        ("<function_calls>\n", "\n</function_calls>"),
        ("<|tool_call|>", ""),
        ("<|tool_call_start|>", "<|tool_call_end|>"),
        ("[TOOL_CALLS]", ""),
        ("[TOOL_CALLS] ", ""),
        ("<|START_ACTION|>", "<|END_ACTION|>"),
        ("functools", ""),
        ("", ""),
        ("```json\n", "\n```"),
        ("Action: ```json\n", "\n```"),
        ("", "<|eot_id|>"),
    ] {
        two(&format!("{open}{list}{close}"), n);
        let command = list.replace("\"name\"", "\"tool_name\"").replace("\"arguments\"", "\"parameters\"");
        two(&format!("{open}{command}{close}"), n);
    }
    two(&format!("<tool_calls>\n{first}\n{second}\n</tool_calls>"), n);
    two(&format!("<tool_call>\n{first}\n</tool_call>\n<tool_call>\n{second}\n</tool_call>"), n);
    two(&format!("<|python_tag|>{first}; {second}"), n);
    two(
        &format!(
            "<|action_start|><|plugin|>\n{first}<|action_end|><|action_start|><|plugin|>{second}<|action_end|>"
        ),
        n,
    );
    two(&format!("<|function_call|>{first}<|function_call|>{second}"), n);
    two(&format!(r#"<|tools_prefix|>[{{"warmth": {object}}}, {{"now": {{}}}}]<|tools_suffix|>"#), n);
    two(&format!("[TOOL_CALLS]warmth[ARGS]{object}[TOOL_CALLS]now[ARGS]{{}}"), n);
    two(
        &format!(
            "[TOOL_CALLS]warmth[CALL_ID]ab12cd34e[ARGS]{object}[TOOL_CALLS]now[CALL_ID]fg56hi78j[ARGS]{{}}"
        ),
        n,
    );
    two(
        &format!(
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.warmth:0<|tool_call_argument_begin|>{object}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{{}}<|tool_call_end|><|tool_calls_section_end|>"
        ),
        n,
    );
    two(
        &format!(
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>warmth<｜tool▁sep｜>{object}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{{}}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
        ),
        n,
    );
    two(
        &format!(
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>warmth\n```json\n{object}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{{}}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
        ),
        n,
    );
    two(
        &format!(
            "<|tool_call:begin|>ab1<|tool_call:name|>warmth<|tool_call:args|>{object}<|tool_call:end|><|tool_call:begin|>fg5<|tool_call:name|>now<|tool_call:args|>{{}}<|tool_call:end|>"
        ),
        n,
    );
    two(
        &format!(
            "<|channel|>commentary to=functions.warmth <|constrain|>json<|message|>{object}<|call|><|start|>assistant to=functions.now<|channel|>commentary json<|message|>{{}}<|call|>"
        ),
        n,
    );
}

#[test]
fn reads_calls_with_an_element_for_each_argument() {
    let n = &json!(null);
    for (open, close) in [
        ("<tool_call>\n", "\n</tool_call>"),
        ("<tool_call>", "</tool_call>"),
        ("", ""),
        ("<seed:tool_call>\n", "\n</seed:tool_call>"),
    ] {
        two(
            &format!(
                "{open}<function=warmth>\n<parameter=city>\nBern\n</parameter>\n<parameter=days>\n2\n</parameter>\n</function>{close}\n{open}<function=now>\n</function>{close}"
            ),
            n,
        );
    }
    for (open, close) in [
        ("<minimax:tool_call>\n", "\n</minimax:tool_call>"),
        ("<function_calls>\n", "\n</function_calls>"),
        ("", ""),
    ] {
        two(
            &format!(
                "{open}<invoke name=\"warmth\">\n<parameter name=\"city\">Bern</parameter>\n<parameter name=\"days\">2</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>{close}"
            ),
            n,
        );
    }
    two(
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"warmth\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Bern</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"now\">\n\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        n,
    );
    two(
        "<function name=\"warmth\"><param name=\"city\"><![CDATA[Bern]]></param><param name=\"days\">2</param></function>\n<function name=\"now\"></function>",
        n,
    );
    two(
        "<tool_call>warmth\n<arg_key>city</arg_key>\n<arg_value>Bern</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
        n,
    );
    two(
        "<tool_call>warmth<arg_key>city</arg_key><arg_value>Bern</arg_value><arg_key>days</arg_key><arg_value>2</arg_value></tool_call><tool_call>now</tool_call>",
        n,
    );
    two(
        "<tool_calls:opensource>\n<tool_call:opensource>warmth<tool_sep:opensource>\n<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>Bern</arg_value:opensource>\n<arg_key:opensource>days</arg_key:opensource>\n<arg_value:opensource>2</arg_value:opensource>\n</tool_call:opensource>\n<tool_call:opensource>now<tool_sep:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
        n,
    );
    two(
        "<|open|>call tool=\"warmth\" index=\"1\"<|sep|><|open|>argument key=\"city\" type=\"string\"<|sep|>Bern<|close|>argument<|sep|><|open|>argument key=\"days\" type=\"number\"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|><|open|>call tool=\"now\" index=\"2\"<|sep|><|close|>call<|sep|>",
        n,
    );
    two(
        "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"warmth\">]<]minimax[>[<city>Bern]<]minimax[>[</city>]<]minimax[>[<days>2]<]minimax[>[</days>]<]minimax[>[</invoke>\n]<]minimax[>[<invoke name=\"now\">]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
        n,
    );
    two(
        "Let me look.\n<function=warmth><parameter=city>Bern</parameter><parameter=days>2</parameter></function><function=now></function>",
        &json!("Let me look."),
    );
}

#[test]
fn reads_calls_in_other_notations() {
    let n = &json!(null);
    for (open, close) in [
        ("<|tool_call_start|>", "<|tool_call_end|>"),
        ("", ""),
        ("", "<|eot|>"),
        ("<tool_call>", "</tool_call>"),
    ] {
        two(&format!("{open}[warmth(city='Bern', days=2), now()]{close}"), n);
    }
    two("warmth(city=\"Bern\", days=2)\nnow()", n);
    two(
        "<|tool_call>call:warmth{city:<|\"|>Bern<|\"|>,days:2}<tool_call|><|tool_call>call:now{}<tool_call|>",
        n,
    );
    two(
        "<start_function_call>call:warmth{city:<escape>Bern<escape>,days:2}<end_function_call><start_function_call>call:now{}<end_function_call>",
        n,
    );
}

#[test]
fn reads_python_and_mistral_calls_of_more_families() {
    let n = &json!(null);
    let list = "warmth(city='Bern', days=2), now()";
    two(&format!("<|python_start|>[{list}]<|python_end|>"), n);
    two(&format!("<|python_start|>{list}<|python_end|>"), n);
    two("<function_calls>\nwarmth(city=\"Bern\", days=2)\nnow()\n</function_calls>", n);
    two("Well.\n<function_calls>\nwarmth(city=\"Bern\", days=2)\nnow()\n</function_calls>", &json!("Well."));
    two("<|python_tag|>warmth.call(city=\"Bern\", days=2)\nnow.call()", n);
    two("<|python_tag|>warmth.call(city=\"Bern\", days=2); now.call()<|eom_id|>", n);
    two("```tool_code\nwarmth(city='Bern', days=2)\nnow()\n```", n);
    two("I look.\n```tool_code\n[warmth(city='Bern', days=2), now()]\n```\n", &json!("I look."));
    let printed = after("```tool_code\nprint(default_api.warmth(city='Bern'))\n```");
    assert_eq!(printed.0, vec![("default_api.warmth".to_owned(), "{\"city\":\"Bern\"}".to_owned())]);
    two("warmth{\"city\": \"Bern\", \"days\": 2}now{}", n);
    two("warmth[ARGS]{\"city\": \"Bern\", \"days\": 2}\nnow[CALL_ID]ab12cd34e[ARGS]{}", n);
    for other in [
        "f{\"city\": 1}",
        "warmth {city}",
        "```tool_code\nprint(1)\n```",
        "```tool_code\nwarmth(city='B')",
        "<|python_tag|>import os\nprint(os)",
        "<|python_tag|>print(a=1)",
    ] {
        assert_eq!(after(other), (vec![], json!(other)), "{other}");
    }
}

#[test]
fn arguments_get_the_types_of_the_schema() {
    let of = |name: &str, text: &str| {
        let (calls, _) = after(&format!("<function=warmth><parameter={name}>{text}</parameter></function>"));
        serde_json::from_str::<Value>(&calls[0].1).expect("JSON")[name].clone()
    };
    assert_eq!(of("city", "5"), "5");
    assert_eq!(of("city", "\n\nfive\n"), "\nfive");
    assert_eq!((of("days", "5"), of("days", "five")), (json!(5), json!("five")));
    assert_eq!(
        (of("when", "None"), of("when", "null"), of("when", "5")),
        (json!(null), json!(null), json!("5"))
    );
    assert_eq!(of("opts", "{'deep': True}"), json!({ "deep": true }));
    assert_eq!(of("opts", r#"{"a": 1, "a": 1.0}"#), json!({ "a": 1.0 }));
    // The tool's schema refuses the text.
    assert_eq!(of("opts", r#"{"a": 1, "a": 2}"#), r#"{"a": 1, "a": 2}"#);
    assert_eq!(
        (of("free", "True"), of("free", "[1]"), of("free", "a b")),
        (json!(true), json!([1]), json!("a b"))
    );
}

#[test]
fn formats_without_markers_need_known_tools() {
    for content in [
        "{\"name\": \"Ada\", \"parameters\": {}}",
        "[print(a=1)]",
        "print(a=1)",
        "Use functools and now().",
        "<tool_call>later</tool_call>",
        "now() is a call",
        "<function=warmth><parameter=city>Ber",
        "The <function> element",
        "<function=warmth>x</function>",
    ] {
        assert_eq!(after(content), (vec![], json!(content)), "{content}");
    }
}

#[test]
fn takes_bounded_time_for_hostile_texts() {
    for mark in [
        "<tool_call>",
        "<function=f>",
        "<invoke name=\"f\">",
        "[TOOL_CALLS]",
        "<|tool_call_start|>[",
        "<tool_call><calls>",
        "{",
        "[",
        "to=functions.f<|message|>",
        "<think>",
        "</think>",
        "<think>a</think>",
        "`",
        "`a` ``b",
        "```\n",
        "```tool_code\nf(\n",
        "<|python_tag|>f(",
        "f{",
    ] {
        let content = mark.repeat(20_000);
        let started = std::time::Instant::now();
        assert_eq!(after(&content).0, vec![]);
        assert!(started.elapsed() < std::time::Duration::from_secs(5), "{mark}");
    }
}

#[test]
fn takes_bounded_time_for_many_calls() {
    for (mark, count) in [
        ("[TOOL_CALLS]now{}", 20_000),
        (r#"<tool_call>{"name": "now"}</tool_call>"#, 20_000),
        (r#"`a` <tool_call>{"name": "now"}</tool_call>"#, 20_000),
        ("<function=now></function>", 20_000),
        ("</think><function=now></function>", 1),
    ] {
        let started = std::time::Instant::now();
        assert_eq!(after(&format!("</thinking>{}", mark.repeat(20_000))).0.len(), count, "{mark}");
        assert!(started.elapsed() < std::time::Duration::from_secs(5), "{mark}");
    }
}
