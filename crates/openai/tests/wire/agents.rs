//! Fields and blocks that coding agents and their libraries send.

use formwork_grammar::{Grammar, Limits, Part, SchemaOptions};
use formwork_openai::anthropic::MessagesRequest;
use formwork_openai::ollama::GenerationRequest;
use formwork_openai::{ChatRequest, ResponseRequest};
use serde_json::{Value, json};

const IMAGE: &str = "[An image, which this model cannot see.]";

fn chat(fields: &Value) -> Result<ChatRequest, String> {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    ChatRequest::from_json(body.to_string().as_bytes()).map_err(|error| error.to_string())
}

fn texts(request: &ChatRequest) -> Vec<&str> {
    request.messages.iter().map(|message| message.content.as_deref().unwrap_or_default()).collect()
}

#[test]
fn switches_of_thoughts_have_further_spellings() {
    for (fields, expected) in [
        (
            json!({"thinking": {"type": "enabled", "clear_thinking": false}}),
            json!({"enable_thinking": true, "clear_thinking": false}),
        ),
        (
            json!({"thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}}),
            json!({}),
        ),
        (json!({"thinking": "medium"}), json!({"enable_thinking": true, "reasoning_effort": "medium"})),
        (json!({"thinking": "none"}), json!({"enable_thinking": false, "reasoning_effort": "none"})),
        (
            json!({"chat_template_args": {"enable_thinking": true}, "chat_template_kwargs": {"a": 1}}),
            json!({"a": 1, "enable_thinking": true}),
        ),
    ] {
        let request = chat(&fields).expect("a request");
        assert_eq!(Value::Object(request.chat_template_kwargs), expected, "{fields}");
    }
    let error = chat(&json!({"thinking": "much"})).map(|_| ()).expect_err("no effort");
    assert!(error.starts_with("`thinking`: "), "{error}");
}

#[test]
fn fields_without_effect_are_named() {
    let request = chat(&json!({"prediction": {"type": "content", "content": "x"}, "random_seed": 7}))
        .expect("a request");
    assert_eq!(request.parameters.seed, Some(7));
    assert_eq!(request.ignored.known, ["prediction"]);
    assert!(chat(&json!({"seed": 1, "random_seed": 7})).is_err());
    let body = json!({"input": [
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}, {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"role": "user", "content": "Why?"}], "max_tool_calls": 3});
    let request = ResponseRequest::from_json(body.to_string().as_bytes()).expect("a request").chat;
    assert_eq!(texts(&request), ["Hi", "No.", "Why?"]);
    let listed = ResponseRequest::from_json(body.to_string().as_bytes()).expect("a request").input;
    assert_eq!(listed[2]["content"][0]["text"], "No.");
    assert_eq!(request.ignored.known, ["input[].encrypted_content", "max_tool_calls"]);
    let search = json!({"type": "tool_search", "execution": "client", "parameters": {"type": "object"}});
    let body = json!({"input": "Hi", "tools": [search]});
    let request = ResponseRequest::from_json(body.to_string().as_bytes()).expect("a request").chat;
    assert_eq!(request.ignored.known, ["tools[0]"]);
}

#[test]
fn images_after_results_become_placeholders() {
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    let said = |content: Value| json!({"role": "user", "content": content});
    let call = json!({"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let result = json!({"role": "tool", "tool_call_id": "1", "content": "see the image"});
    let messages = json!([said(json!("Look.")), call, result, said(json!([image]))]);
    let request = chat(&json!({"messages": messages})).expect("a request");
    assert_eq!(texts(&request).last(), Some(&IMAGE));
    assert_eq!(request.ignored.known, ["messages[].content[]"]);
    let error = chat(&json!({"messages": [said(json!([image]))]})).map(|_| ()).expect_err("an image");
    assert!(error.starts_with("`messages[0].content[0].type`"), "{error}");

    let body = json!({"input": [said(json!("Look.")),
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "see the image"},
        said(json!([{"type": "input_image", "image_url": "data:,"}]))]});
    let request = ResponseRequest::from_json(body.to_string().as_bytes()).expect("a request").chat;
    assert_eq!(texts(&request).last(), Some(&IMAGE));
}

#[test]
fn documents_after_results_become_placeholders() {
    let pdf = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}});
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}});
    let read = |messages: Value| {
        let body = json!({"model": "m", "max_tokens": 9, "messages": messages});
        MessagesRequest::from_json(body.to_string().as_bytes()).map_err(|error| error.to_string())
    };
    let call =
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]});
    let result = json!({"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "read"}, pdf]});
    let user = |content: Value| json!({"role": "user", "content": content});
    for messages in [
        json!([user(json!("Read.")), call, user(json!([result, pdf, image]))]),
        json!([user(json!("Read.")), call, user(json!([result])), user(json!([pdf, image]))]),
    ] {
        let request = read(messages).expect("a request").chat;
        let expected = [
            "read\n[A document, which this model cannot read.]",
            "[A document, which this model cannot read.]\n[An image, which this model cannot see.]",
        ];
        assert_eq!(texts(&request)[2..], expected);
    }
    let error = read(json!([user(json!([pdf]))])).map(|_| ()).expect_err("a document");
    assert!(error.starts_with("`messages[0].content[0].source.type`"), "{error}");
}

#[test]
fn options_may_stand_beside_the_options() {
    let read = |fields: &Value| {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": {"name": "edit", "parameters": {"type": "object"}}}]});
        for (name, value) in fields.as_object().expect("an object") {
            body[name] = value.clone();
        }
        match GenerationRequest::chat_from_json(body.to_string().as_bytes()) {
            Ok(GenerationRequest::Chat(request)) => Ok(request),
            Ok(_) => Err("no chat".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    };
    let request = read(&json!({"max_output_tokens": 40, "temperature": 0.5, "seed": 3,
        "tool_choice": {"type": "function", "name": "edit"}}))
    .expect("a request");
    let tokens = request.parameters.max_tokens.map(|limit| limit.tokens);
    assert_eq!(
        (tokens, request.parameters.temperature, request.parameters.seed),
        (Some(40), Some(0.5), Some(3))
    );
    assert!(request.tools.required && request.tools.tools[0].name == "edit");
    let request = read(&json!({"temperature": 0.5, "options": {"temperature": 0.1}})).expect("a request");
    assert_eq!(request.parameters.temperature, Some(0.1));
    assert_eq!(request.ignored.known, ["temperature"]);
    let error = read(&json!({"temperature": "hot"})).map(|_| ()).expect_err("no number");
    assert!(error.starts_with("`options.temperature`"), "{error}");
}

#[test]
fn a_function_with_empty_properties_has_no_arguments() {
    let parameters = |given: Value| {
        let tool = json!({"type": "function", "function": {"name": "f", "parameters": given}});
        let request = chat(&json!({"tools": [tool]})).expect("a request");
        (*request.tools.tools[0].parameters).clone()
    };
    let closed = json!({"type": "object", "properties": {}, "additionalProperties": false});
    assert_eq!(parameters(json!({"type": "object", "properties": {}})), closed);
    for open in [
        json!({"type": "object"}),
        json!({"type": "object", "properties": {}, "additionalProperties": true}),
        json!({"type": "object", "properties": {}, "required": ["a"]}),
        json!({"type": "object", "properties": {}, "anyOf": [{"required": ["a"]}]}),
    ] {
        assert_eq!(parameters(open.clone()), open);
    }
}

#[test]
fn tools_that_the_client_runs_have_known_arguments() {
    let read = |tools: Value, choice: Value| {
        let body = json!({"model": "m", "max_tokens": 9, "tools": tools, "tool_choice": choice,
            "messages": [{"role": "user", "content": "Hi"}]});
        MessagesRequest::from_json(body.to_string().as_bytes()).map_err(|error| error.to_string())
    };
    let tools = json!([{"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 9},
        {"type": "memory_20250818", "name": "memory"}, {"type": "web_search_20250305", "name": "web_search"}]);
    let request = read(tools.clone(), json!({"type": "any"})).expect("a request").chat;
    let names: Vec<&str> = request.tools.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["bash", "str_replace_based_edit_tool", "memory"]);
    assert_eq!(request.ignored.known, ["tools[1].max_characters", "tools[3]"]);
    let valid = |index: usize, arguments: Value| {
        let part = Part::Json((*request.tools.tools[index].parameters).clone().into());
        let grammar = Grammar::of_parts(&part, &SchemaOptions::accept(), &Limits::default());
        grammar.expect("a schema").accepts(arguments.to_string().as_bytes())
    };
    for (index, arguments, is_valid) in [
        (0, json!({"command": "ls"}), true),
        (0, json!({"restart": true}), true),
        (0, json!({}), false),
        (1, json!({"command": "view", "path": "a", "view_range": [1, -1]}), true),
        (1, json!({"command": "insert", "path": "a", "insert_line": 0, "insert_text": "b"}), true),
        (1, json!({"command": "insert", "path": "a", "insert_line": 0, "new_str": "b"}), false),
        (1, json!({"command": "delete", "path": "a"}), false),
        (2, json!({"command": "delete", "path": "a"}), true),
        (2, json!({"command": "rename", "old_path": "a", "new_path": "b"}), true),
    ] {
        assert_eq!(valid(index, arguments.clone()), is_valid, "{arguments}");
    }
    let chosen = read(tools, json!({"type": "tool", "name": "bash"})).expect("a request").chat;
    assert!(chosen.tools.required && chosen.tools.tools.len() == 1);
}
