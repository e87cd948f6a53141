//! Tools in namespaces, and tools that items add.

use std::sync::Arc;

use formwork_openai::{Earlier, ResponseRequest, StoredItems};
use serde_json::{Value, json};

fn read(fields: &Value) -> Result<ResponseRequest, String> {
    let mut body = json!({"model": "m", "input": "Hi"});
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    ResponseRequest::from_json(body.to_string().as_bytes()).map_err(|error| error.to_string())
}

fn function(name: &str) -> Value {
    json!({"type": "function", "name": name, "description": "Does it.", "strict": false,
        "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}})
}

fn namespace(name: &str, tools: &[Value]) -> Value {
    json!({"type": "namespace", "name": name, "description": "Of the sea.", "tools": tools})
}

fn names(request: &ResponseRequest) -> Vec<&str> {
    request.chat.tools.tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn the_tools_of_a_namespace_have_its_name_before_theirs() {
    let custom = json!({"type": "custom", "name": "note"});
    let tools = [function("find"), namespace("mcp__tides", &[function("find"), custom])];
    let request = read(&json!({"tools": tools})).expect("a request");
    assert_eq!(names(&request), ["find", "mcp__tides__find", "mcp__tides__note"]);
    let [_, find, note] = &request.chat.tools.tools[..] else { panic!("three tools") };
    assert_eq!(find.place, "tools[1].tools[0].parameters");
    let about = "Does it.\n\nAbout all tools that begin with mcp__tides__: Of the sea.";
    assert_eq!(find.description.as_deref(), Some(about));
    assert!(note.custom.is_some() && note.description.is_none());
    assert_eq!(request.namespaces.find("mcp__tides__note"), Some(("mcp__tides", "note")));
    assert_eq!(request.namespaces.find("find"), None);
    assert_eq!(request.repeated["tools"], json!(tools));
}

#[test]
fn calls_and_choices_name_the_namespace() {
    let request = read(&json!({
        "tools": [function("find"), namespace("crm", &[function("find")])],
        "tool_choice": {"type": "function", "name": "find", "namespace": "crm"},
        "input": [
            {"role": "user", "content": "Hi"},
            {"type": "function_call", "call_id": "c1", "name": "find", "namespace": "crm", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "note", "namespace": "crm", "input": "x"},
            {"type": "function_call", "call_id": "c3", "name": "find", "namespace": null, "arguments": "{}"},
        ],
    }));
    let request = request.expect("a request");
    assert_eq!(names(&request), ["crm__find"]);
    let calls = request.chat.messages[1].tool_calls.iter().map(|call| call.name.as_str());
    assert_eq!(calls.collect::<Vec<_>>(), ["crm__find", "crm__note", "find"]);
    assert_eq!(request.input[1]["namespace"], "crm");
    assert!(request.input[3].get("namespace").is_none());
}

#[test]
fn items_add_tools() {
    let mut changed = function("a");
    changed["description"] = "Does more.".into();
    let request = read(&json!({"tools": [function("a"), function("b")], "input": [
        {"role": "user", "content": "Hi"},
        {"type": "additional_tools", "role": "developer", "id": "at_1",
            "tools": [changed, namespace("crm", &[function("find")])]},
    ]}));
    let request = request.expect("a request");
    assert_eq!(names(&request), ["b", "a", "crm__find"]);
    assert_eq!(request.chat.tools.tools[1].description.as_deref(), Some("Does more."));
    assert_eq!(request.chat.tools.tools[2].place, "input[1].tools[1].tools[0].parameters");
    assert_eq!(request.namespaces.find("crm__find"), Some(("crm", "find")));
    assert_eq!(request.chat.messages.len(), 1);
    assert_eq!(
        (&request.input[1]["type"], &request.input[1]["id"]),
        (&json!("additional_tools"), &json!("at_1"))
    );
}

/// The server stores items as they are listed, and a later request reads them.
struct OneItem(Arc<str>);

impl StoredItems for OneItem {
    fn is_on(&self) -> bool {
        true
    }

    fn max_bytes(&self) -> usize {
        1 << 20
    }

    fn before(&mut self, _: &Earlier) -> Option<Vec<Arc<str>>> {
        Some(vec![Arc::clone(&self.0)])
    }

    fn item(&self, _: &str) -> Option<Arc<str>> {
        None
    }
}

#[test]
fn stored_tools_come_before_those_of_the_request() {
    let mut old = function("f");
    old["description"] = "Old.".into();
    old["defer_loading"] = true.into();
    old["notes_of_the_client"] = 1.into();
    let first = read(&json!({"input": [{"role": "user", "content": "Hi"},
        {"type": "additional_tools", "tools": [old, function("g")]}]}))
    .expect("a request");
    assert_eq!(
        first.chat.ignored.all().collect::<Vec<_>>(),
        ["input[1].tools[0].defer_loading", "input[1].tools[0].notes_of_the_client"]
    );
    let item = serde_json::to_string(&first.input[1]).expect("JSON");
    let body =
        json!({"model": "m", "previous_response_id": "resp_1", "input": "Go on.", "tools": [function("f")]});
    let second = ResponseRequest::with_stored(body.to_string().as_bytes(), &mut OneItem(item.into()))
        .expect("a request");
    assert_eq!(names(&second), ["g", "f"]);
    assert_eq!(second.chat.tools.tools[1].description.as_deref(), Some("Does it."));
}

#[test]
fn errors_name_the_tool() {
    let hosted = json!({"type": "web_search"});
    let many: Vec<Value> = (0..513).map(|index| function(&format!("f{index}"))).collect();
    for (fields, expected) in [
        (
            json!({"tools": [namespace("crm", &[hosted])]}),
            "`tools[0].tools[0].type`: unsupported value `web_search`; supported values: function and custom",
        ),
        (
            json!({"tools": [namespace("crm", &[namespace("b", &[])])]}),
            "`tools[0].tools[0].type`: unsupported value `namespace`; supported values: function and custom",
        ),
        (json!({"tools": [namespace("crm", &[function("a"), function("a")])]}), "`tools[0].tools[1].name`: "),
        (
            json!({"tools": [function("crm__a"), namespace("crm", &[function("a")])]}),
            "`tools[1].tools[0].name`: ",
        ),
        (json!({"tools": [{"type": "namespace", "name": "crm"}]}), "`tools[0].tools`: "),
        (json!({"tools": [namespace("a b", &[])]}), "`tools[0].name`: "),
        (
            json!({"tools": [{"type": "namespaces", "name": "crm", "tools": []}]}),
            "`tools[0].type`: unsupported value `namespaces`; supported values: function, custom and namespace",
        ),
        (json!({"tools": [namespace("a", &many), namespace("b", &many)]}), "`tools`: "),
        (
            json!({"tools": many, "input": [{"role": "user", "content": "Hi"},
            {"type": "additional_tools", "tools": [namespace("b", &many)]}]}),
            "`tools`: ",
        ),
        (
            json!({"tools": [namespace("a__b", &[function("c")])], "input": [{"role": "user", "content": "Hi"},
            {"type": "additional_tools", "tools": [namespace("a", &[function("b__c")])]}]}),
            "`input[1].tools[0].tools[0].parameters`: ",
        ),
        (
            json!({"input": [{"role": "user", "content": "Hi"}, {"type": "additional_tools",
            "tools": [{"type": "function", "name": "f", "input_schema": {"type": "object"}}]}]}),
            "`input[1].tools[0].input_schema`: ",
        ),
        (json!({"input": [{"type": "additional_tools", "role": "user", "tools": []}]}), "`input[0].role`: "),
        (
            json!({"tools": [function("a")], "tool_choice": {"type": "function", "name": "a", "namespace": "crm"}}),
            "`tool_choice`: ",
        ),
    ] {
        let error = read(&fields).map(|request| request.chat.tools).expect_err(expected);
        assert!(error.starts_with(expected), "{error} instead of {expected}");
    }
    assert!(read(&json!({"tools": [namespace("a", &many)]})).is_ok());
}
