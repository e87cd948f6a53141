use std::sync::Arc;

use formwork_openai::{Earlier, ResponseRequest, Role, StoredItems};
use serde_json::{Value, json};

fn read(fields: &Value) -> Result<ResponseRequest, String> {
    let mut body = json!({"model": "m", "input": "Hi"});
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    ResponseRequest::from_json(body.to_string().as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn typed_fields_are_refused_where_they_are_unknown() {
    let error = read(&json!({"fields": {"name": "a", "type": "int"}})).expect_err("not of this route");
    assert!(error.contains("`fields`") && error.contains("would not be enforced"), "{error}");
}

#[test]
fn items_become_messages() {
    let request = read(&json!({"instructions": "Be brief.", "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "1 + 1, 2 + 2?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
            "content": [{"type": "output_text", "text": "Well.", "annotations": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": "{}", "status": "completed"},
        {"type": "function_call", "call_id": "c2", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "2"},
        {"type": "function_call_output", "call_id": "c2", "output": "4"},
    ]}));
    let messages = request.expect("a request").chat.messages;
    let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::Tool, Role::Tool]);
    let assistant = &messages[2];
    assert_eq!((assistant.reasoning.as_deref(), assistant.content.as_deref()), (Some("hm"), Some("Well.")));
    assert_eq!(assistant.tool_calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["c1", "c2"]);
}

#[test]
fn the_rest_is_a_chat_and_is_repeated() {
    let schema = json!({"type": "object"});
    let tool = json!({"type": "function", "name": "add", "parameters": {}, "strict": true});
    let request = read(&json!({
        "text": {"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": true}},
        "tools": [tool], "tool_choice": {"type": "function", "name": "add"}, "max_output_tokens": 9, "stream": true,
        "reasoning": {"effort": "none"}, "metadata": {"k": "v"}, "store": true,
    }))
    .expect("a request");
    assert_eq!(request.chat.format.map(|format| format.field), Some("text.format.schema"));
    assert!(request.chat.tools.required && request.chat.stream.is_some());
    assert_eq!(request.chat.tools.tools[0].place, "tools[0].parameters");
    let limit = request.chat.parameters.max_tokens.expect("a limit");
    assert_eq!((limit.tokens, limit.field), (9, "max_output_tokens"));
    assert_eq!(request.chat.chat_template_kwargs["enable_thinking"], false);
    assert_eq!(
        (&request.repeated["max_output_tokens"], &request.repeated["top_p"]),
        (&json!(9), &json!(1.0))
    );
    assert_eq!(request.repeated["tools"], json!([tool]));
}

#[test]
fn rejects_unsupported_requests_and_those_that_need_a_store() {
    for (fields, expected) in [
        (
            json!({"previous_response_id": "resp_1"}),
            "`previous_response_id`: nothing is stored here; send the earlier items in `input`",
        ),
        (
            json!({"input": [{"type": "item_reference", "id": "msg_1"}]}),
            "`input[0].id`: unknown item `msg_1`; send the item itself",
        ),
        (json!({"input": [{"type": "reasoning", "summary": []}]}), "`input`: must not be empty"),
        (json!({"background": true}), "`background`: only false is supported here"),
        (json!({"input": []}), "`input`: must not be empty"),
        (
            json!({"input": [{"type": "computer_call", "id": "x"}]}),
            "`input[0].type`: unsupported value `computer_call`; supported values: message, function_call, function_call_output, custom_tool_call, custom_tool_call_output, reasoning and additional_tools",
        ),
        (json!({"messages": []}), "`messages`: only null is supported here; use `input`"),
        (
            json!({"tools": [{"type": "function", "function": {"name": "a"}}]}),
            "`tools[0].name`: this field is required",
        ),
    ] {
        assert_eq!(read(&fields).expect_err("refused"), expected);
    }
}

#[test]
fn items_of_the_assistant_in_a_row_are_one_message() {
    let call = json!({"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"});
    let says = |text: &str| json!({"role": "assistant", "content": text});
    let thinks =
        |text: &str| json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]});
    let result = json!({"type": "function_call_output", "call_id": "c1", "output": "2"});
    let request = read(&json!({"input": [
        {"role": "user", "content": "a"}, {"type": "item_reference", "id": "rs_1"},
        thinks("x"), call, says("b"), thinks("y"), says("c"), result, thinks("z"),
    ]}))
    .expect("a request");
    assert_eq!(request.chat.ignored.known, ["input[]"]);
    let messages = request.chat.messages;
    let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool]);
    let assistant = &messages[1];
    assert_eq!((assistant.content.as_deref(), assistant.reasoning.as_deref()), (Some("b\nc"), Some("x\ny")));
    assert_eq!(assistant.tool_calls.len(), 1);
}

#[test]
fn what_coding_agents_send_is_read() {
    let request = read(&json!({
        "client_metadata": {"a": "b"}, "truncation": "auto", "include": ["reasoning.encrypted_content"],
        "text": {"verbosity": "low"}, "tools": [
            {"type": "web_search"}, {"type": "function", "name": "f", "parameters": {}},
        ],
        "input": [{"type": "reasoning", "summary": [], "encrypted_content": ""}, {"role": "user", "content": "a"}],
    }))
    .expect("a request");
    assert_eq!(request.chat.tools.tools.len(), 1);
    assert_eq!(request.chat.messages.len(), 1);
    assert_eq!(request.chat.chat_template_kwargs["verbosity"], "low");
    let mut ignored = request.chat.ignored.known;
    ignored.sort_unstable();
    assert_eq!(ignored, ["client_metadata", "tools[0]"]);
}

/// A store with one response of one item.
struct OneResponse;

impl StoredItems for OneResponse {
    fn is_on(&self) -> bool {
        true
    }

    fn max_bytes(&self) -> usize {
        200
    }

    fn before(&mut self, earlier: &Earlier) -> Option<Vec<Arc<str>>> {
        (*earlier == Earlier::Response("resp_1".to_owned())).then(|| vec![ITEM.into()])
    }

    fn item(&self, id: &str) -> Option<Arc<str>> {
        (id == "msg_1").then(|| ITEM.into())
    }
}

const ITEM: &str = r#"{"type":"message","id":"msg_1","role":"user","content":[{"type":"input_text","text":"Hi"}],"status":"completed"}"#;

#[test]
fn stored_items_precede_the_input() {
    let read = |body: Value| {
        let request = ResponseRequest::with_stored(body.to_string().as_bytes(), &mut OneResponse);
        request.map_err(|error| (error.to_string(), error.code()))
    };
    let request = read(json!({"previous_response_id": "resp_1", "input": "Ho", "instructions": "Be brief."}));
    let request = request.expect("a request");
    let texts: Vec<_> = request.chat.messages.iter().map(|message| message.content.as_deref()).collect();
    assert_eq!(texts, [Some("Be brief."), Some("Hi"), Some("Ho")]);
    assert_eq!(request.earlier, Some(Earlier::Response("resp_1".to_owned())));
    let listed = json!([{"type": "message", "id": "", "role": "user",
        "content": [{"type": "input_text", "text": "Ho"}], "status": "completed"}]);
    assert_eq!((json!(request.input), request.store), (listed, true));
    let reference = json!({"type": "item_reference", "id": "msg_1"});
    let request = read(json!({"input": [reference], "store": false})).expect("a request");
    assert_eq!((json!(request.input).to_string(), request.store), (format!("[{ITEM}]"), false));
    assert_eq!(request.chat.ignored.all().count(), 0);
    for (body, expected, code) in [
        (
            json!({"previous_response_id": "resp_2", "input": "Ho"}),
            "`previous_response_id`: unknown response `resp_2`; it was not stored, was deleted, or made room for newer ones",
            Some("previous_response_not_found"),
        ),
        (
            json!({"conversation": {"id": "conv_2"}, "input": "Ho"}),
            "`conversation`: unknown conversation `conv_2`; it was not created, was deleted, or made room for newer ones",
            Some("conversation_not_found"),
        ),
        (
            json!({"input": [reference, reference]}),
            "`input[1]`: stored items of 224 bytes exceed the limit of 200",
            None,
        ),
    ] {
        assert_eq!(read(body).expect_err("refused"), (expected.to_owned(), code));
    }
}

#[test]
fn log_probabilities_are_requested_in_two_ways() {
    let logprobs = |fields: Value| read(&fields).map(|request| request.chat.logprobs);
    let include = json!(["message.output_text.logprobs"]);
    assert_eq!(logprobs(json!({"include": ["reasoning.encrypted_content"], "top_logprobs": 0})), Ok(None));
    assert_eq!(logprobs(json!({"include": include})), Ok(Some(0)));
    assert_eq!(logprobs(json!({"include": include, "top_logprobs": 20})), Ok(Some(20)));
    assert_eq!(logprobs(json!({"top_logprobs": 3})), Ok(Some(3)));
    let refused = logprobs(json!({"include": ["x"]})).expect_err("refused");
    assert!(refused.starts_with("`include[0]`: unsupported value `x`"), "{refused}");
    assert!(logprobs(json!({"top_logprobs": 21})).is_err());
}
