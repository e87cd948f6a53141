//! Ollama's requests.

#![allow(clippy::unwrap_used, reason = "a test without its request has failed")]

use formwork_grammar::Part;
use formwork_openai::ollama::GenerationRequest;
use formwork_openai::{ChatRequest, CompletionPrompt, IgnoredFields, RequestError};
use serde_json::{Value, json};

fn chat(fields: &Value) -> Result<GenerationRequest, RequestError> {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    GenerationRequest::chat_from_json(body.to_string().as_bytes())
}

fn read_chat(fields: &Value) -> ChatRequest {
    match chat(fields).unwrap() {
        GenerationRequest::Chat(chat) => chat,
        other => panic!("{other:?}"),
    }
}

fn generate(fields: &Value) -> Result<GenerationRequest, RequestError> {
    GenerationRequest::generate_from_json(fields.to_string().as_bytes())
}

#[test]
fn options_become_parameters() {
    let plain = read_chat(&json!({})).parameters;
    assert_eq!((plain.temperature, plain.top_k, plain.top_p), (Some(0.8), Some(40), Some(0.9)));
    assert_eq!((plain.max_tokens, plain.seed, plain.unlimited), (None, None, true));
    let request = read_chat(&json!({"options": {
        "temperature": 0, "top_k": 3, "top_p": 0.5, "min_p": 0.1, "typical_p": 0.7, "repeat_penalty": 1.25,
        "repeat_last_n": -1, "presence_penalty": 0.5, "frequency_penalty": 1, "seed": 7, "num_predict": 9,
        "stop": ["a", "b"], "num_ctx": 4096, "num_thread": 2, "mirostat": 0, "tfs_z": 1.0,
    }}));
    let given = request.parameters;
    assert_eq!((given.temperature, given.top_k, given.top_p), (Some(0.0), Some(3), Some(0.5)));
    assert_eq!((given.min_p, given.typical_p, given.seed), (Some(0.1), Some(0.7), Some(7)));
    let penalties = (given.repetition_penalty, given.presence_penalty, given.frequency_penalty);
    assert_eq!(penalties, (1.25, 0.5, 1.0));
    assert_eq!(given.max_tokens.unwrap().tokens, 9);
    assert_eq!(given.stop, ["a", "b"]);
    assert_eq!(request.ignored.known, ["options.num_thread", "options.num_ctx"]);
    for fields in [json!({"num_predict": -1}), json!({"num_predict": -2}), json!({"seed": -1})] {
        let given = read_chat(&json!({"options": fields})).parameters;
        assert_eq!((given.max_tokens, given.seed), (None, None), "{fields}");
    }
    let ignored = read_chat(&json!({"options": {"repeat_last_n": 64}})).ignored;
    assert_eq!(ignored.known, ["options.repeat_last_n"]);
}

#[test]
fn refuses_typed_fields_that_would_not_be_enforced() {
    let error = chat(&json!({"fields": {"name": "a", "type": "int"}})).unwrap_err();
    assert_eq!(error.param(), Some("fields"));
    assert!(error.to_string().contains("would not be enforced"), "{error}");
    assert_eq!(read_chat(&json!({"note": {"fields": {"a": 1}}})).ignored.unknown, ["note"]);
}

#[test]
fn refuses_options_that_would_have_no_effect() {
    for (options, message) in [
        (json!({"mirostat": 1}), "`options.mirostat`: only 0 is supported here"),
        (json!({"tfs_z": 0.5}), "`options.tfs_z`: only 1 is supported here"),
        (
            json!({"repeat_last_n": 64, "repeat_penalty": 1.1}),
            "`options.repeat_last_n`: only -1 is supported here; penalties see all tokens",
        ),
        (
            json!({"num_predict": 0}),
            "`options.num_predict`: 0 is out of range; expected -2, -1 or at least 1",
        ),
        (
            json!({"num_predict": 1, "max_tokens": 2}),
            "`options.num_predict`: cannot be combined with `max_tokens`",
        ),
        (json!({"temperature": "hot"}), "`options.temperature`: expected a number, found a string"),
        (json!({"stop": vec!["a"; 65]}), "`options.stop`: 65 entries exceed the limit of 64"),
        (json!({"n": 2}), "`options.n`: only 1 is supported here"),
        (
            json!({"temprature": 1}),
            "`options.temprature`: unrecognized request argument, whose name is like that of a parameter; it \
             would have no effect",
        ),
    ] {
        assert_eq!(chat(&json!({"options": options})).unwrap_err().to_string(), message);
    }
}

#[test]
fn formats_are_json_or_a_schema() {
    assert_eq!(read_chat(&json!({"format": ""})).format, None);
    assert_eq!(read_chat(&json!({"format": "json"})).format.unwrap().part, Part::JsonObject);
    let format = read_chat(&json!({"format": {"type": "integer"}})).format.unwrap();
    assert_eq!((format.part, format.field), (Part::Json(json!({"type": "integer"}).into()), "format"));
    for (format, message) in [
        (json!("yaml"), "`format`: unsupported value `yaml`; supported values: json and a JSON Schema"),
        (json!(3), "`format`: expected a JSON Schema, found a number"),
    ] {
        assert_eq!(chat(&json!({"format": format})).unwrap_err().to_string(), message);
    }
}

#[test]
fn messages_have_calls_with_arguments_as_objects() {
    let request = read_chat(&json!({"messages": [
        {"role": "user", "content": "Hi", "images": []},
        {"role": "assistant", "thinking": "Hm.", "content": "", "tool_calls": [
            {"function": {"index": 0, "name": "f", "arguments": {"a": 1}}}]},
        {"role": "tool", "tool_name": "f", "content": "2"},
    ]}));
    let [_, assistant, tool] = request.messages.try_into().unwrap();
    assert_eq!(assistant.reasoning.as_deref(), Some("Hm."));
    assert_eq!(assistant.tool_calls[0].arguments, r#"{"a":1}"#);
    assert_eq!((tool.name.as_deref(), tool.tool_call_id.as_deref()), (Some("f"), Some("")));
    assert_eq!(request.ignored, IgnoredFields::default());
    let error =
        chat(&json!({"messages": [{"role": "user", "content": "", "images": ["aGk="]}]})).unwrap_err();
    assert_eq!(error.param(), Some("messages[0].images"));
}

#[test]
fn thoughts_are_switched() {
    let variables = |think: Value| Value::from(read_chat(&json!({"think": think})).chat_template_kwargs);
    assert_eq!(variables(json!(false)), json!({"enable_thinking": false}));
    assert_eq!(variables(json!("low")), json!({"enable_thinking": true, "reasoning_effort": "low"}));
}

#[test]
fn requests_without_text_load_the_model() {
    for (request, unload) in [
        (chat(&json!({"messages": []})), false),
        (chat(&json!({"messages": null, "keep_alive": 0})), true),
        (generate(&json!({"model": "m"})), false),
        (generate(&json!({"model": "m", "prompt": "", "keep_alive": "0s"})), true),
        (generate(&json!({"model": "m", "keep_alive": "10m"})), false),
    ] {
        let GenerationRequest::Load(load) = request.unwrap() else { panic!("text") };
        assert_eq!((load.model.as_str(), load.unload), ("m", unload));
    }
}

#[test]
fn a_prompt_is_a_chat_unless_it_is_raw() {
    let GenerationRequest::Chat(chat) = generate(&json!({"prompt": "a", "system": "b"})).unwrap() else {
        panic!("no chat")
    };
    let texts: Vec<_> = chat.messages.iter().map(|message| message.content.as_deref().unwrap()).collect();
    assert_eq!((texts, chat.stream.is_some()), (vec!["b", "a"], true));
    let options = json!({"num_predict": 3});
    let fields = json!({"prompt": "a", "raw": true, "stream": false, "think": true, "options": options});
    let raw = generate(&fields).unwrap();
    assert!(!raw.is_streamed());
    let GenerationRequest::Raw(raw) = raw else { panic!("not raw") };
    assert_eq!(raw.prompts, [CompletionPrompt::Text("a".to_owned())]);
    assert_eq!(raw.parameters.max_tokens.unwrap().tokens, 3);
    assert_eq!(raw.ignored.known, ["think"]);
    for (fields, message) in [
        (json!({"raw": true, "system": "b"}), "`system`: cannot be combined with `raw`"),
        (json!({"raw": true, "thinking_budget": 9}), "`thinking_budget`: only null is supported here"),
        (
            json!({"raw": true, "thinking": {"type": "enabled", "budget_tokens": 9}}),
            "`thinking.budget_tokens`: only null is supported here",
        ),
        (
            json!({"raw": true, "options": {"reasoning_budget": 9}, "thinking_budget": 8}),
            "`options.reasoning_budget`: only null is supported here",
        ),
        (json!({"suffix": "b", "system": "c"}), "`system`: cannot be combined with `suffix`"),
        (
            json!({"template": "b"}),
            "`template`: only \"\" is supported here; the model's own template is used",
        ),
        (
            json!({"context": [1]}),
            "`context`: only [] is supported here; send the conversation to `/api/chat`",
        ),
        (json!({"images": ["b"]}), "`images`: only [] is supported here; this server reads no images"),
    ] {
        let mut body = fields;
        body["prompt"] = "a".into();
        assert_eq!(generate(&body).unwrap_err().to_string(), message);
    }
}
