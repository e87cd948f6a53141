use formwork_chat::Tools;
use formwork_openai::{ChatRequest, RequestError};
use serde_json::{Value, json};

fn read(fields: &Value) -> Result<ChatRequest, RequestError> {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    ChatRequest::from_json(body.to_string().as_bytes())
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "description": "d", "strict": true,
        "parameters": {"properties": {"b": {}, "a": true}}}})
}

fn tools(choice: &Value) -> Result<Tools, RequestError> {
    let fields =
        json!({"tools": [tool("a"), tool("b")], "tool_choice": choice, "parallel_tool_calls": false});
    read(&fields).map(|request| request.tools)
}

#[test]
fn every_choice_of_tools() {
    let function = |name: &str| json!({"type": "function", "function": {"name": name}});
    let allowed = |mode: &str| json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [function("b")]}});
    for (choice, names, required) in [
        (json!(null), vec!["a", "b"], false),
        (json!("auto"), vec!["a", "b"], false),
        (json!("none"), vec![], false),
        (json!("required"), vec!["a", "b"], true),
        (function("b"), vec!["b"], true),
        (allowed("auto"), vec!["b"], false),
        (allowed("required"), vec!["b"], true),
    ] {
        let set = tools(&choice).expect("a choice");
        assert_eq!(set.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), names, "{choice}");
        assert_eq!((set.required, set.parallel), (required, false), "{choice}");
    }
    for (choice, expected) in [
        (function("c"), "`tool_choice`: unknown tool `c`"),
        (
            json!("all"),
            "`tool_choice`: unsupported value `all`; supported values: none, auto, required, and objects of type function, custom and allowed_tools",
        ),
        (json!({"type": "function"}), "`tool_choice.function`: this field is required"),
        (
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}),
            "`tool_choice.tools`: must not be empty",
        ),
    ] {
        assert_eq!(tools(&choice).expect_err("refused").to_string(), expected);
    }
}

#[test]
fn arguments_are_objects() {
    let request =
        read(&json!({"tools": [tool("a"), {"type": "function", "function": {"name": "b"}}]})).expect("tools");
    let set = request.tools;
    assert_eq!(set.tools[0].parameters.to_string(), r#"{"properties":{"b":{},"a":true},"type":"object"}"#);
    assert_eq!(set.tools[1].parameters["additionalProperties"], false);
    assert_eq!(set.tools[1].place, "tools[1].function.parameters");
    assert!(set.parallel && !set.required && request.any_object.is_none());
}

#[test]
fn names_invalid_tools() {
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    let of =
        |parameters: Value| json!({"type": "function", "function": {"name": "x", "parameters": parameters}});
    for (given, expected) in [
        (
            json!({"type": "Function", "function": {"name": "a"}}),
            "`tools[0].type`: unsupported value `Function`; supported values: function and custom",
        ),
        (named(""), "`tools[0].function.name`: must not be empty"),
        (
            named("a b"),
            "`tools[0].function.name`: expected a name of 1 to 128 letters, digits, `_`, `-` and `.`",
        ),
        (
            of(json!({"type": "string"})),
            "`tools[0].function.parameters`: expected a schema of type `object`, since arguments are an object",
        ),
        (of(json!([])), "`tools[0].function.parameters`: expected an object, found an array"),
    ] {
        assert_eq!(read(&json!({"tools": [given]})).expect_err("refused").to_string(), expected);
    }
    let twice = read(&json!({"tools": [tool("a"), tool("a")]})).expect_err("refused").to_string();
    assert_eq!(twice, "`tools[1].function.name`: duplicate tool name `a`");
    let tags = json!({"type": "structural_tag", "triggers": ["<"], "structures": [{"begin": "<a>", "schema": {}, "end": ""}]});
    let both =
        read(&json!({"tools": [tool("a")], "response_format": tags})).expect_err("refused").to_string();
    assert_eq!(both, "`response_format`: cannot be combined with `tools`");
}

#[test]
fn calls_and_results_are_messages() {
    let call =
        json!({"id": "c1", "type": "function", "function": {"name": "a", "arguments": "{}"}, "index": 0});
    let request = read(&json!({"messages": [
        {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "4"}]},
    ]}));
    let messages = request.expect("messages").messages;
    assert_eq!((&messages[0].content, messages[0].reasoning.as_deref()), (&None, Some("hm")));
    assert_eq!(
        (messages[0].tool_calls[0].name.as_str(), messages[1].tool_call_id.as_deref()),
        ("a", Some("c1"))
    );
    let silent = read(&json!({"messages": [{"role": "assistant"}]})).expect_err("refused").to_string();
    assert_eq!(silent, "`messages[0]`: expected `content` or `tool_calls`");
}
