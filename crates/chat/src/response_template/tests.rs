use serde_json::{Value, json};

use super::ResponseTemplate;

/// Returns an example of a call in the layout of a template with these `tool_calls`.
fn example(calls: &Value) -> Option<String> {
    let template = json!({ "start_anchor": "<|assistant|>", "fields": { "tool_calls": calls } });
    let calls = ResponseTemplate::of(&template).expect("version 1").calls(&[], &["<|eot|>".to_owned()])?;
    let separator = calls.separator.as_ref().map(|separator| format!(" then {}", separator.text()));
    Some(calls.example() + &separator.unwrap_or_default())
}

#[test]
fn reads_the_layouts_of_calls() {
    for (calls, expected) in [
        (
            json!({
                "open": "<tool_call>", "close_pattern": r"</tool_call>\s*", "repeats": true, "content": "json",
                "transform": { "type": "function", "function": "{content}" },
            }),
            r#"<tool_call>{"name": "NAME", "arguments": {…}}</tool_call> then }</tool_call><tool_call>{"name": ""#,
        ),
        (
            json!({
                "open": ["<call>", "<CALL>"], "close": "</call>", "content": "json",
                "transform": { "function": { "name": "{content.tool}", "arguments": "{content.input}" } },
            }),
            r#"<call>{"tool": "NAME", "input": {…}}</call>"#,
        ),
        (
            json!({
                "open": "[TOOLS]", "close_pattern": "$", "content": "json", "transform_each": true,
                "transform": { "function": { "name": "{name}", "arguments": "{parameters}" } },
            }),
            r#"[TOOLS][{"name": "NAME", "parameters": {…}}] then }, {"name": ""#,
        ),
        (
            json!({
                "open_pattern": r#"\{"name":\s*"(?P<name>[^"]+)",\s*"parameters":\s*"#,
                "close_pattern": r"\}<\|eot\|>\s*", "repeats": true, "content": "json",
                "transform": { "function": { "name": "{name}", "arguments": "{content}" } },
            }),
            r#"{"name":"NAME","parameters":{…}} then }{"name":""#,
        ),
        (
            json!({
                "open_pattern": r"<\|call>call:(?P<name>\w+)", "close_pattern": r"<call\|>\s*",
                "content": "json", "repeats": true,
                "content_args": { "string_delims": [["<q>", "<q>"]], "unquoted_keys": true },
                "transform": { "function": { "name": "{name}", "arguments": "{content}" } },
            }),
            "<|call>call:NAME{ARGUMENT:<q>VALUE<q>}<call|> then }<call|><|call>call:",
        ),
        (
            json!({
                "open_pattern": r"<tool_call>\s*<function=(?P<name>[^\n>]+)>",
                "close_pattern": r"</function>\s*</tool_call>\s*", "repeats": true, "content": "xml-inline",
                "content_args": {
                    "tag_pattern": r"<parameter=(?P<key>[^>\n]+)>\s*(?P<value>.*?)\s*</parameter>",
                },
                "transform": { "function": { "name": "{name}", "arguments": "{content}" } },
            }),
            "<tool_call><function=NAME><parameter=ARGUMENT>VALUE</parameter></function></tool_call> then </function></tool_call><tool_call><function=",
        ),
        (
            json!({
                "open_pattern": r"<tool_call>(?P<name>\S+)\n?", "close": "</tool_call>", "content": "xml-inline",
                "content_args": { "tag_pattern": r"<k>(?P<key>[^<]+)</k>\s*\n<v>(?P<value>.*?)</v>" },
                "transform": { "function": { "name": "{name}", "arguments": "{content}" } },
            }),
            "<tool_call>NAME<k>ARGUMENT</k>\n<v>VALUE</v></tool_call>",
        ),
        (
            json!({
                "open": "<|calls|>", "close": "<|end|>", "content": "python-call-list", "transform_each": true,
                "transform": { "function": { "name": "{name}", "arguments": "{arguments}" } },
            }),
            "<|calls|>[NAME(ARGUMENT=\"VALUE\")]<|end|> then ), ",
        ),
    ] {
        assert_eq!(example(&calls).as_deref(), Some(expected), "{calls}");
    }
}

#[test]
fn ignores_unknown_versions_settings_and_patterns() {
    let function = json!({ "function": "{content}" });
    for calls in [
        json!(null),
        json!({ "open": "<call>", "content": "json", "transform": function }),
        json!({ "open": "<call>", "close": "</call>", "content": "kv-lines", "transform": function }),
        json!({ "open": "", "close": "</call>", "content": "json", "transform": function }),
        json!({ "open_pattern": "(?=<call>)", "close": "</call>", "content": "json", "transform": function }),
        json!({ "open_pattern": "(", "close": "</call>", "content": "json", "transform": function }),
        json!({ "open_pattern": "[a-z]+:", "close": ".", "content": "json", "transform": function }),
        json!({ "open_pattern": "(x{4000}){4000}", "close": ".", "content": "json", "transform": function }),
        json!({ "open_pattern": "(?:(?:){999}){9999999}", "close": ".", "content": "json", "transform": function }),
        json!({ "open_pattern": "[^a]+:", "close": ".", "content": "json", "transform": function }),
        json!({ "open": "<call>", "close": ".", "content": "json", "transform": function, "new": 1 }),
        json!({ "open": "<call>", "close": ".", "content": "json", "transform": function,
            "content_args": { "unquoted_keys": true } }),
        json!({ "open": "<call>", "close": ".", "content": "python-call-list", "transform": function }),
        json!({
            "open_pattern": "<(?P<name>.+)>", "close": "</call>", "content": "json",
            "content_args": { "string_delims": [["", ""]], "unquoted_keys": true },
            "transform": { "function": { "name": "{name}", "arguments": "{content}" } },
        }),
        json!({
            "open_pattern": "<(?P<name>.+)>", "close": "</call>", "content": "xml-inline",
            "content_args": { "tag_pattern": r"<(?P<key>\w+)\s(?P<value>.*?)>" },
            "transform": { "function": { "name": "{name}", "arguments": "{content}" } },
        }),
        json!({
            "open_pattern": "<call>(?P<name>.+)", "close_pattern": "$", "content": "xml-inline",
            "content_args": { "tag_pattern": "<(?P<key>.+)=(?P<value>.*?)>" },
            "transform": { "function": { "name": "{name}", "arguments": "{content}" } },
        }),
        json!({ "open": 1, "close": "</call>", "content": "json", "transform": function }),
        json!({
            "open_pattern": "<(?P<name>.+)>", "close": "</call>", "content": "xml-inline",
            "content_args": { "tag_pattern": "(?P<value>.*?)=(?P<key>.*?);" },
            "transform": { "function": { "name": "{name}", "arguments": "{content}" } },
        }),
    ] {
        assert_eq!(example(&calls), None, "{calls}");
    }
    assert!(ResponseTemplate::of(&json!({ "version": 2, "fields": {} })).is_none());
    assert!(ResponseTemplate::of(&json!({ "fields": [] })).is_none());
}

#[test]
fn reads_the_tags_around_thoughts() {
    for (field, expected) in [
        (json!({ "open": "<think>", "close_pattern": r"</think>\s*" }), Some(("<think>", "</think>"))),
        (json!({ "open": "[THINK]", "close": ["[/THINK]", "[END]"] }), Some(("[THINK]", "[/THINK]"))),
        (json!({ "open": "<think>\n", "close": "\n</think>" }), Some(("<think>", "</think>"))),
        (json!({ "open_pattern": r"(?=.*</think>)", "close": "</think>" }), None),
        (json!({ "open": "<think>", "close_pattern": r"\s*" }), None),
        (json!({ "open": "<think>" }), None),
    ] {
        let template = json!({ "fields": { "thinking": field } });
        let thoughts = ResponseTemplate::of(&template).expect("version 1").thoughts();
        let thoughts = thoughts.as_ref().map(|(open, close)| (open.as_str(), close.as_str()));
        assert_eq!(thoughts, expected, "{field}");
    }
}
