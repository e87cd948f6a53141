//! Custom tools in chat requests and in requests for responses.

use formwork_chat::{CustomInput, Tools};
use formwork_grammar::Part;
use formwork_openai::ollama::GenerationRequest;
use formwork_openai::{ChatRequest, ResponseRequest};
use serde_json::{Value, json};

fn with(mut body: Value, fields: &Value) -> Vec<u8> {
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body.to_string().into_bytes()
}

fn chat(fields: &Value) -> Result<ChatRequest, String> {
    let body = with(json!({"messages": [{"role": "user", "content": "Hi"}]}), fields);
    ChatRequest::from_json(&body).map_err(|error| error.to_string())
}

fn response(fields: &Value) -> Result<ChatRequest, String> {
    let body = with(json!({"input": "Hi"}), fields);
    ResponseRequest::from_json(&body).map(|request| request.chat).map_err(|error| error.to_string())
}

/// Returns a tool in the form of a chat request.
fn nested(mut tool: Value) -> Value {
    if let Some(format) = tool.get("format").filter(|format| format["type"] == "grammar") {
        let mut grammar = format.clone();
        grammar.as_object_mut().expect("an object").shift_remove("type");
        tool["format"] = json!({"type": "grammar", "grammar": grammar});
    }
    tool.as_object_mut().expect("an object").shift_remove("type");
    json!({"type": "custom", "custom": tool})
}

fn regex(name: &str) -> Value {
    let format = json!({"type": "grammar", "syntax": "regex", "definition": "[a-z]+"});
    json!({"type": "custom", "name": name, "description": "d", "format": format})
}

fn names(set: &Tools) -> Vec<&str> {
    set.tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn both_apis_have_custom_tools() {
    let text = json!({"type": "custom", "name": "b", "format": {"type": "text"}});
    let flat = json!([regex("a"), text, {"type": "custom", "name": "c"}]);
    let in_chat: Vec<Value> = flat.as_array().expect("tools").iter().cloned().map(nested).collect();
    let grammar = CustomInput::Grammar {
        part: Part::Regex("[a-z]+".to_owned()),
        notation: "regular expression",
        definition: "[a-z]+".to_owned(),
    };
    for (request, place) in [
        (response(&json!({"tools": flat})), "tools[0].format.definition"),
        (chat(&json!({"tools": in_chat})), "tools[0].custom.format.grammar.definition"),
    ] {
        let request = request.expect("a request");
        let tools = &request.tools.tools;
        assert_eq!(names(&request.tools), ["a", "b", "c"]);
        assert_eq!((tools[0].description.as_deref(), tools[0].place.as_str()), (Some("d"), place));
        let inputs: Vec<_> = tools.iter().map(|tool| tool.custom.clone()).collect();
        assert_eq!(inputs, [Some(grammar.clone()), Some(CustomInput::Text), Some(CustomInput::Text)]);
        assert_eq!(request.ignored.all().count(), 0);
    }
}

#[test]
fn a_choice_names_the_type_of_a_tool() {
    let function = json!({"type": "function", "name": "f"});
    let named = |kind: &str, name: &str| json!({"type": kind, "name": name});
    let allowed =
        |tools: &[Value]| json!({"type": "allowed_tools", "mode": "required", "tools": tools.to_vec()});
    let read = |choice: &Value| {
        let fields = json!({"tools": [regex("a"), regex("b"), function], "tool_choice": choice});
        response(&fields).map(|request| request.tools)
    };
    let read_nested = |choice: &Value| {
        let in_object = |named: &Value| {
            let kind = named["type"].as_str().expect("a type");
            json!({"type": kind, kind: {"name": named["name"]}})
        };
        let choice = if choice["type"] == "allowed_tools" {
            let tools: Vec<Value> =
                choice["tools"].as_array().expect("tools").iter().map(in_object).collect();
            json!({"type": "allowed_tools", "allowed_tools": {"mode": choice["mode"], "tools": tools}})
        } else {
            in_object(choice)
        };
        let tools =
            json!([nested(regex("a")), nested(regex("b")), {"type": "function", "function": {"name": "f"}}]);
        chat(&json!({"tools": tools, "tool_choice": choice})).map(|request| request.tools)
    };
    for (choice, expected, parallel) in [
        (named("custom", "b"), vec!["b"], false),
        (named("function", "f"), vec!["f"], false),
        (allowed(&[named("custom", "a"), named("function", "f")]), vec!["a", "f"], true),
    ] {
        for set in [read(&choice), read_nested(&choice)] {
            let set = set.expect("a choice");
            assert_eq!((names(&set), set.required, set.parallel), (expected.clone(), true, parallel));
        }
    }
    for (choice, expected) in [
        (named("custom", "c"), "`tool_choice`: unknown tool `c`"),
        (named("custom", "f"), "`tool_choice`: tool `f` is not of the type `custom`"),
        (allowed(&[named("function", "a")]), "`tool_choice`: tool `a` is not of the type `function`"),
    ] {
        assert_eq!(read(&choice).expect_err("refused"), expected);
        assert_eq!(read_nested(&choice).expect_err("refused"), expected);
    }
}

#[test]
fn names_what_is_wrong_with_a_custom_tool() {
    let of = |format: Value| json!({"type": "custom", "name": "a", "format": format});
    let grammar = |syntax: &str| json!({"type": "grammar", "syntax": syntax, "definition": "start: \"a\""});
    for (tool, in_response, in_chat) in [
        (
            of(grammar("ebnf")),
            "`tools[0].format.syntax`: unsupported value `ebnf`; supported values: lark and regex",
            "`tools[0].custom.format.grammar.syntax`: unsupported value `ebnf`; supported values: lark and regex",
        ),
        (
            of(json!({"type": "grammar", "syntax": "regex"})),
            "`tools[0].format.definition`: this field is required",
            "`tools[0].custom.format.grammar.definition`: this field is required",
        ),
        (
            of(json!({"type": "json"})),
            "`tools[0].format.type`: unsupported value `json`; supported values: text and grammar",
            "`tools[0].custom.format.type`: unsupported value `json`; supported values: text and grammar",
        ),
        (
            of(json!({"type": "text", "max": 1})),
            "`tools[0].format.max`: unrecognized request argument",
            "`tools[0].custom.format.max`: unrecognized request argument",
        ),
        (
            json!({"type": "custom"}),
            "`tools[0].name`: this field is required",
            "`tools[0].custom.name`: this field is required",
        ),
        (
            json!({"type": "custom", "name": "a b"}),
            "`tools[0].name`: expected a name of 1 to 128 letters, digits, `_`, `-` and `.`",
            "`tools[0].custom.name`: expected a name of 1 to 128 letters, digits, `_`, `-` and `.`",
        ),
        (
            json!({"type": "custom", "name": "a", "allowed_callers": ["programmatic"]}),
            "`tools[0].allowed_callers`: only a list with `direct` is supported here",
            "`tools[0].custom.allowed_callers`: only a list with `direct` is supported here",
        ),
    ] {
        assert_eq!(response(&json!({"tools": [tool]})).expect_err("refused"), in_response);
        assert_eq!(chat(&json!({"tools": [nested(tool)]})).expect_err("refused"), in_chat);
    }
    let twice = json!({"tools": [regex("a"), {"type": "function", "name": "a"}]});
    assert_eq!(response(&twice).expect_err("refused"), "`tools[1].name`: duplicate tool name `a`");
    let misspelt = json!({"tools": [{"type": "costum", "custom": {"name": "a"}}]});
    let expected = "`tools[0].type`: unsupported value `costum`; supported values: function and custom";
    assert_eq!(chat(&misspelt).expect_err("refused"), expected);
}

#[test]
fn hints_have_no_effect() {
    let tool = json!({"type": "custom", "name": "a", "strict": true, "allowed_callers": ["direct"],
        "defer_loading": false, "async": true});
    for (request, start) in [
        (response(&json!({"tools": [tool]})), "tools[0]"),
        (chat(&json!({"tools": [nested(tool.clone())]})), "tools[0].custom"),
    ] {
        let ignored = ["allowed_callers", "async", "defer_loading"].map(|name| format!("{start}.{name}"));
        assert_eq!(request.expect("a request").ignored.known, ignored);
    }
}

#[test]
fn other_apis_have_no_custom_tools() {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}],
        "tools": [nested(regex("a"))]});
    let error = GenerationRequest::chat_from_json(body.to_string().as_bytes()).expect_err("refused");
    let expected = "`tools[0].type`: unsupported value `custom`; supported values: function";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn calls_become_calls_of_functions() {
    let input = "say \"hi\"\n";
    let arguments = r#"{"input": "say \"hi\"\n"}"#;
    let call = json!({"id": "c1", "type": "custom", "custom": {"name": "a", "input": input}});
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "ok"});
    let request = chat(&json!({"messages": [{"role": "assistant", "tool_calls": [call]}, result]}));
    let items = json!({"input": [
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "a", "input": input, "status": "completed"},
        {"type": "custom_tool_call_output", "id": "ctco_1", "call_id": "c1", "output": "ok"},
    ]});
    let in_parts = json!({"input": [
        {"type": "custom_tool_call", "call_id": "c1", "name": "a", "input": input},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "ok"}]},
    ]});
    for request in [request, response(&items), response(&in_parts)] {
        let request = request.expect("a request");
        let [message, result] = request.messages.as_slice() else { panic!("{:?}", request.messages) };
        let call = &message.tool_calls[0];
        assert_eq!((call.id.as_str(), call.name.as_str(), call.arguments.as_str()), ("c1", "a", arguments));
        assert_eq!((result.content.as_deref(), result.tool_call_id.as_deref()), (Some("ok"), Some("c1")));
        assert_eq!(request.ignored.all().count(), 0);
    }
    let no_input = json!({"input": [{"type": "custom_tool_call", "call_id": "c1", "name": "a"}]});
    assert_eq!(response(&no_input).expect_err("refused"), "`input[0].input`: this field is required");
    let no_object =
        json!({"messages": [{"role": "assistant", "tool_calls": [{"id": "c1", "type": "custom"}]}]});
    let expected = "`messages[0].tool_calls[0].custom`: this field is required";
    assert_eq!(chat(&no_object).expect_err("refused"), expected);
}
