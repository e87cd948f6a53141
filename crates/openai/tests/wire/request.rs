use formwork_grammar::{Part, TagContent, Undeclared};
use formwork_openai::{ChatRequest, Format, IgnoredFields, Role, StreamOptions, TokenLimit};
use serde_json::{Value, json};

/// Returns the body of a minimal request with the additional members of `fields`.
fn body(fields: &Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

fn read(fields: &Value) -> ChatRequest {
    let read = ChatRequest::from_json(body(fields).to_string().as_bytes());
    read.unwrap_or_else(|error| panic!("{fields}: {error}"))
}

fn refused(fields: &Value) -> (Option<String>, String) {
    let read = ChatRequest::from_json(body(fields).to_string().as_bytes());
    let Err(error) = read else { panic!("{fields} was accepted") };
    (error.param().map(str::to_owned), error.to_string())
}

#[test]
fn reads_all_supported_fields() {
    let request = read(&json!({
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": "c", "refusal": null, "tool_calls": null, "annotations": []},
        ],
        "stream": true, "stream_options": {"include_usage": true},
        "max_completion_tokens": 7, "max_tokens": 7, "temperature": 0.5, "top_p": 1, "top_k": 40, "min_p": 0.05,
        "seed": -1, "stop": ["x", "y"], "guided_regex": "a+", "schema_in_prompt": false,
        "undeclared": "allow",
        "chat_template_kwargs": {"enable_thinking": false, "nothing": null},
    }));
    assert_eq!(request.model, "m");
    let messages: Vec<_> =
        request.messages.iter().map(|m| (m.role, m.content.as_deref().unwrap_or_default())).collect();
    assert_eq!(messages, [(Role::System, "Be brief."), (Role::User, "a\nb"), (Role::Assistant, "c")]);
    assert_eq!(request.stream, Some(StreamOptions { include_usage: true }));
    assert_eq!(request.parameters.max_tokens, Some(TokenLimit { tokens: 7, field: "max_completion_tokens" }));
    assert_eq!(
        (request.parameters.temperature, request.parameters.top_p, request.parameters.min_p),
        (Some(0.5), Some(1.0), Some(0.05))
    );
    assert_eq!((request.parameters.top_k, request.parameters.seed), (Some(40), Some(u64::MAX)));
    assert_eq!(request.parameters.stop, ["x", "y"]);
    let format = Format { part: Part::Regex("a+".to_owned()), field: "guided_regex", typed: None };
    assert_eq!(request.format, Some(format));
    assert!(!request.schema_in_prompt);
    assert_eq!(request.undeclared, Undeclared::Allow);
    assert_eq!(request.chat_template_kwargs["nothing"], Value::Null);
}

#[test]
fn accepts_null_and_neutral_values() {
    let plain = read(&json!({}));
    for fields in [
        json!({"temperature": null, "stop": null, "max_tokens": null, "response_format": null, "anything": null}),
        json!({"response_format": {"type": "text"}, "stream": false, "stream_options": null}),
        json!({"n": 1, "logprobs": false, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}}),
        json!({"tools": [], "tool_choice": "auto", "functions": null, "parallel_tool_calls": true}),
        json!({"tool_choice": "none", "modalities": ["text"]}),
        json!({"user": "u", "metadata": {"k": "v"}, "store": true, "service_tier": "flex"}),
        json!({"safety_identifier": "s", "prompt_cache_key": "p"}),
        json!({"schema_in_prompt": true, "undeclared": "omit", "chat_template_kwargs": {}}),
    ] {
        assert_eq!(ChatRequest { ignored: IgnoredFields::default(), ..read(&fields) }, plain, "{fields}");
    }
    assert_eq!(read(&json!({"repetition_penalty": 1})), plain);
    let bias = read(&json!({"logit_bias": {"7": -100, "8": 0.5}})).parameters.logit_bias;
    assert_eq!(bias, [(7, -100.0), (8, 0.5)]);
    assert_eq!(read(&json!({"top_k": -1})).parameters.top_k, Some(0));
    assert_eq!(read(&json!({"stop": "x"})).parameters.stop, ["x"]);
}

#[test]
fn formats_report_their_field() {
    let schema = json!({"type": "object", "properties": {"b": {"default": null}, "a": true}});
    let wrapped = json!({"name": "n", "description": "d", "strict": true, "schema": schema});
    let cases = [
        (json!({"response_format": {"type": "json_object"}}), "response_format"),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": wrapped}}),
            "response_format.json_schema.schema",
        ),
        (json!({"guided_json": schema}), "guided_json"),
        (json!({"guided_json": schema.to_string()}), "guided_json"),
        (json!({"grammar": "root ::= \"a\""}), "grammar"),
        (json!({"guided_regex": ""}), "guided_regex"),
        (json!({"guided_choice": ["a", ""]}), "guided_choice"),
        (json!({"guided_grammar": "root ::= \"a\""}), "guided_grammar"),
        (
            json!({"structured_outputs": {"json": schema, "disable_fallback": true}}),
            "structured_outputs.json",
        ),
        (json!({"structured_outputs": {"choice": ["a"]}}), "structured_outputs.choice"),
        (json!({"structured_outputs": {"regex": "a"}}), "structured_outputs.regex"),
        (json!({"structured_outputs": {"grammar": "root ::= \"a\""}}), "structured_outputs.grammar"),
        (json!({"structured_outputs": {"json_object": true}}), "structured_outputs.json_object"),
        (json!({"json_schema": schema.to_string()}), "json_schema"),
        (json!({"json_schema": schema}), "json_schema"),
        (json!({"regex": "a"}), "regex"),
        (json!({"ebnf": "root ::= \"a\""}), "ebnf"),
        (json!({"response_format": {"type": "json_object", "schema": schema}}), "response_format.schema"),
        (
            json!({"response_format": {"type": "json_schema", "name": "n", "schema": schema}}),
            "response_format.schema",
        ),
    ];
    for (fields, field) in cases {
        let format = read(&fields).format.expect("a format");
        assert_eq!(format.field, field);
        if let Part::Json(read) = format.part {
            assert_eq!(read.as_value().to_string(), schema.to_string(), "order and nulls are kept");
        }
    }
}

#[test]
fn vllms_grammars_are_gbnf_or_lark() {
    let cases = [
        ("start: \"a\"", true),
        ("// Lark\n?start :\"::=\"", true),
        ("\n  !start: A\nA: \"a\"", true),
        ("root ::= start\nstart ::= \"start:\"", false),
        ("starting: \"a\"", false),
    ];
    for (source, is_lark) in cases {
        let part = if is_lark { Part::Lark(source.to_owned()) } else { Part::Gbnf(source.to_owned()) };
        for fields in [json!({"guided_grammar": source}), json!({"structured_outputs": {"grammar": source}})]
        {
            assert_eq!(read(&fields).format.expect("a format").part, part, "{source}");
        }
        // llama.cpp and SGLang take no Lark.
        for fields in [json!({"grammar": source}), json!({"ebnf": source})] {
            assert_eq!(read(&fields).format.expect("a format").part, Part::Gbnf(source.to_owned()));
        }
    }
}

#[test]
fn structural_tags_are_read_in_both_forms() {
    let schema = json!({"type": "object"});
    let old = json!({"type": "structural_tag", "triggers": ["<f="],
        "structures": [{"begin": "<f=a>", "schema": schema, "end": "</f>"}]});
    let new = json!({"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<f="],
        "tags": [{"type": "tag", "begin": "<f=a>", "end": "</f>",
            "content": {"type": "json_schema", "json_schema": schema}}]}});
    let [old, new] = [old, new].map(|format| read(&json!({"response_format": format})).format);
    let Some(Format { part: Part::Tags(tags), .. }) = &old else { panic!("these are structural tags") };
    assert!(!tags.at_least_one && tags.tags.len() == 1);
    assert_eq!(old, new);
    let flags = json!({"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<"],
        "at_least_one": true, "stop_after_first": true, "tags": [
            {"begin": "<a>", "content": {"type": "regex", "pattern": "a*"}, "end": ""},
            {"begin": "<b>", "content": {"type": "grammar", "grammar": "root ::= \"b\""}, "end": "</b>"}]}});
    let format = read(&json!({"response_format": flags})).format;
    let Some(Format { part: Part::Tags(tags), .. }) = format else { panic!("these are structural tags") };
    assert!(tags.at_least_one && tags.stop_after_first);
    let contents: Vec<_> = tags.tags.into_iter().map(|tag| tag.content).collect();
    let gbnf = TagContent::Gbnf("root ::= \"b\"".to_owned());
    assert_eq!(contents, [TagContent::Regex("a*".to_owned()), gbnf]);
    for (fields, expected) in [
        (json!({"format": {"type": "or"}}), "`response_format.format.elements`: this field is required"),
        (
            json!({"triggers": ["a"], "structures": [{"begin": "a"}]}),
            "`response_format.structures[0].schema`: this field is required",
        ),
    ] {
        let mut format = fields;
        format["type"] = "structural_tag".into();
        assert_eq!(refused(&json!({"response_format": format})).1, expected);
    }
}

#[test]
fn errors_name_the_field() {
    let cases = [
        (json!({"messages": null}), "`messages`: this field is required"),
        (json!({"messages": []}), "`messages`: must not be empty"),
        (json!({"messages": "Hi"}), "`messages`: expected an array of messages, found a string"),
        (json!({"messages": ["Hi"]}), "`messages[0]`: expected an object, found a string"),
        (json!({"messages": [{"content": "Hi"}]}), "`messages[0].role`: this field is required"),
        (
            json!({"messages": [{"role": "assistant", "content": null}]}),
            "`messages[0]`: expected `content` or `tool_calls`",
        ),
        (
            json!({"messages": [{"role": "assistant", "tool_calls": [{}]}]}),
            "`messages[0].tool_calls[0].function`: this field is required",
        ),
        (
            json!({"messages": [{"role": "user", "content": 1}]}),
            "`messages[0].content`: expected a string or an array of text parts, found a number",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "text", "text": ""}, {"type": "image_url"}]}]}),
            "`messages[0].content[1].type`: unsupported value `image_url`; supported values: text",
        ),
        (json!({"stream": 1}), "`stream`: expected a boolean, found a number"),
        (json!({"stream_options": {}}), "`stream_options`: requires `stream` to be true"),
        (json!({"max_tokens": 0}), "`max_tokens`: 0 is out of range; expected at least 1"),
        (json!({"max_tokens": 1.5}), "`max_tokens`: expected an integer, found a number"),
        (json!({"max_tokens": 3, "min_tokens": 4}), "`min_tokens`: 4 is more than `max_tokens`, which is 3"),
        (json!({"min_tokens": -1}), "`min_tokens`: -1 is out of range; expected at least 0"),
        (json!({"ignore_eos": 1}), "`ignore_eos`: expected a boolean, found a number"),
        (
            json!({"max_tokens": 3, "max_completion_tokens": 4}),
            "`max_tokens`: 3 differs from `max_completion_tokens`, which is 4",
        ),
        (json!({"max_tokens": -2}), "`max_tokens`: -2 is out of range; expected at least 1"),
        (json!({"temperature": 10.5}), "`temperature`: 10.5 is out of range; expected 0..=10"),
        (json!({"temperature": "hot"}), "`temperature`: expected a number, found a string"),
        (json!({"top_p": -0.1}), "`top_p`: -0.1 is out of range; expected 0..=1"),
        (json!({"min_p": 1.1}), "`min_p`: 1.1 is out of range; expected 0..=1"),
        (json!({"top_k": -2}), "`top_k`: -2 is out of range; expected at least -1"),
        (json!({"seed": 0.5}), "`seed`: expected a 64-bit integer, found a number"),
        (json!({"stop": 1}), "`stop`: expected a string or an array of strings, found a number"),
        (json!({"stop": vec!["a"; 65]}), "`stop`: 65 entries exceed the limit of 64"),
        (json!({"n": 129}), "`n`: 129 is out of range; expected 1..=128"),
        (json!({"logprobs": 2}), "`logprobs`: expected a boolean, found a number"),
        (
            json!({"logprobs": true, "top_logprobs": 21}),
            "`top_logprobs`: 21 is out of range; expected 0..=20",
        ),
        (json!({"top_logprobs": 2}), "`top_logprobs`: requires `logprobs`"),
        (json!({"tools": [{}]}), "`tools[0].function`: this field is required"),
        (json!({"tool_choice": "required"}), "`tool_choice`: requires `tools` that can be called here"),
        (json!({"skip_special_tokens": false}), "`skip_special_tokens`: only true is supported here"),
        (
            json!({"repeat_penalty": 1.3, "repetition_penalty": 1}),
            "`repeat_penalty`: cannot be combined with `repetition_penalty`",
        ),
        (json!({"response_format": "json"}), "`response_format`: expected an object, found a string"),
        (
            json!({"response_format": {"type": "yaml"}}),
            "`response_format.type`: unsupported value `yaml`; supported values: text, json_object, json_schema and structural_tag",
        ),
        (
            json!({"response_format": {"type": "json_object", "strict": true}}),
            "`response_format.strict`: unrecognized request argument",
        ),
        (
            json!({"structured_outputs": {"json": {}, "regex": "a"}}),
            "`structured_outputs.regex`: cannot be combined with `json`",
        ),
        (json!({"structured_outputs": {}}), "`structured_outputs`: must not be empty"),
        (
            json!({"structured_outputs": {"json": {}, "whitespace_pattern": " "}}),
            "`structured_outputs.whitespace_pattern`: unrecognized request argument",
        ),
        (
            json!({"response_format": {"type": "json_schema"}}),
            "`response_format.json_schema`: this field is required",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}),
            "`response_format.json_schema.schema`: this field is required",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": []}}}),
            "`response_format.json_schema.schema`: expected a JSON Schema, found an array",
        ),
        (
            json!({"guided_json": "{"}),
            "`guided_json`: not valid JSON: EOF while parsing an object at line 1 column 1",
        ),
        (json!({"grammar": ""}), "`grammar`: must not be empty"),
        (json!({"guided_choice": []}), "`guided_choice`: must not be empty"),
        (json!({"guided_choice": ["a", 1]}), "`guided_choice[1]`: expected a string, found a number"),
        (
            json!({"response_format": {"type": "json_object"}, "grammar": "root ::= \"a\""}),
            "`grammar`: cannot be combined with `response_format`",
        ),
        (json!({"chat_template_kwargs": []}), "`chat_template_kwargs`: expected an object, found an array"),
    ];
    assert_refused(cases);
}

fn assert_refused(cases: impl IntoIterator<Item = (Value, &'static str)>) {
    for (fields, message) in cases {
        let (param, given) = refused(&fields);
        assert_eq!(given, message, "{fields}");
        assert!(message.starts_with(&format!("`{}`: ", param.expect("a field"))), "{message}");
    }
}

#[test]
fn errors_of_biases_and_penalties_name_the_field() {
    assert_refused([
        (json!({"logit_bias": {"1": 101}}), "`logit_bias.1`: 101 is out of range; expected -100..=100"),
        (json!({"logit_bias": {"the": 1}}), "`logit_bias.the`: expected a token id as key"),
        (json!({"logit_bias": [1]}), "`logit_bias`: expected an object, found an array"),
        (
            json!({"presence_penalty": 100.5}),
            "`presence_penalty`: 100.5 is out of range; expected -100..=100",
        ),
        (json!({"frequency_penalty": "1"}), "`frequency_penalty`: expected a number, found a string"),
        (json!({"repetition_penalty": 0}), "`repetition_penalty`: 0 is out of range; expected 0.01..=100"),
    ]);
}

#[test]
fn rejects_bodies_that_are_not_objects() {
    for (body, message) in [
        ("{\n  \"model\": }", "the body is not valid JSON: expected value at line 2 column 12"),
        ("", "the body is not valid JSON: EOF while parsing a value at line 1 column 0"),
        ("[]", "the body must be a JSON object, not an array"),
    ] {
        let error = ChatRequest::from_json(body.as_bytes()).expect_err("refused");
        assert_eq!(error.to_string(), message);
        assert_eq!(error.param(), None);
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let error = ChatRequest::from_json(deep.as_bytes()).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "the body is nested deeper than the limit of 1024 levels at line 1 column 1025"
    );
}

#[test]
fn fields_that_cannot_change_the_output_are_ignored_and_named() {
    for (fields, known, unknown) in [
        (
            json!({"user": "u", "num_ctx": 8192, "keep_alive": "5m"}),
            vec!["user", "num_ctx", "keep_alive"],
            vec![],
        ),
        (
            json!({"usage": {"include": true}, "provider": {"order": ["a"]}}),
            vec!["usage", "provider"],
            vec![],
        ),
        (json!({"trace": {"a": [1, {"b": 2}]}, "metadata_json": ""}), vec![], vec!["trace", "metadata_json"]),
        (json!({"mirostat": 0, "min_tokens": 0, "length_penalty": 1.0, "documents": []}), vec![], vec![]),
        (json!({"new_penalty": 0, "add_generation_prompt": true}), vec![], vec!["new_penalty"]),
        (json!({"stop": ["", "a"]}), vec!["stop[0]"], vec![]),
        (
            json!({"stream": true, "stream_options": {"include_obfuscation": true, "x": 1}}),
            vec!["stream_options.include_obfuscation"],
            vec!["stream_options.x"],
        ),
        (
            json!({"messages": [
                {"role": "user", "id": 1, "content": [{"type": "text", "text": "a", "cache_control": {}}]},
                {"role": "assistant", "content": [{"type": "text", "text": "b", "role": "assistant"}],
                    "refusal": "no", "response_metadata": {}},
            ]}),
            vec!["messages[].content[].cache_control", "messages[].refusal"],
            vec!["messages[].id", "messages[].content[].role", "messages[].response_metadata"],
        ),
        (
            json!({"tools": [
                {"type": "web_search"},
                {"type": "function", "function": {"name": "f", "output_schema": {}}, "cache_control": {}},
            ]}),
            vec!["tools[0]", "tools[1].function.output_schema"],
            vec!["tools[1].cache_control"],
        ),
    ] {
        let ignored = read(&fields).ignored;
        let mut given = [ignored.known, ignored.unknown];
        let mut expected =
            [known, unknown].map(|paths| paths.into_iter().map(str::to_owned).collect::<Vec<_>>());
        given.iter_mut().chain(&mut expected).for_each(|paths| paths.sort_unstable());
        assert_eq!(given, expected, "{fields}");
    }
}

#[test]
fn the_list_of_ignored_fields_is_bounded() {
    let names: serde_json::Map<_, _> = (0..200).map(|i| (format!("x{i}"), json!(1))).collect();
    assert_eq!(read(&Value::Object(names)).ignored.unknown.len(), 32);
}

#[test]
fn unknown_constraints_and_parameters_are_never_ignored() {
    let constraint =
        "unrecognized request argument, whose name is like that of a constraint; it would not be enforced";
    let parameter =
        "unrecognized request argument, whose name is like that of a parameter; it would have no effect";
    for (name, value, expected) in [
        ("output_schema", json!({"type": "object"}), constraint),
        ("jsonMode", json!(true), constraint),
        ("guided_lark", json!("a"), constraint),
        ("response_mime_type", json!("application/json"), constraint),
        ("allowed_words", json!(["a"]), constraint),
        ("grammer", json!("root ::= \"a\""), constraint),
        ("gramar", json!("root ::= \"a\""), constraint),
        ("shema", json!({"type": "object"}), constraint),
        ("jsonschema", json!({"type": "object"}), constraint),
        ("fromat", json!("json"), constraint),
        ("sead", json!(1), parameter),
        ("stpo", json!(["a"]), parameter),
        ("topp", json!(0.1), parameter),
        ("tool", json!([{"type": "function"}]), parameter),
        ("num_predit", json!(8), parameter),
        ("new_penalty", json!(1.1), parameter),
        ("do_greedy", json!(true), parameter),
        ("maxOutputTokens", json!(5), parameter),
        ("min_length_words", json!(5), parameter),
        ("temprature", json!(0), parameter),
        ("parallelToolCalls", json!(false), parameter),
        ("thinking_mode", json!("off"), parameter),
        ("temprature", json!(1), parameter),
        ("max_token", json!(5), parameter),
        ("prompt_template", json!("a"), parameter),
        ("dry_run", json!(true), parameter),
        (
            "vendor",
            json!({"a": [{"guided_json": {"type": "object"}}]}),
            "unrecognized request argument with `guided_json`, which would have no effect here",
        ),
        (
            "vendor",
            json!({"sampling": {"temperature": 0.5}}),
            "unrecognized request argument with `temperature`, which would have no effect here",
        ),
        ("vendor", json!(vec![vec![1; 40]; 40]), "unrecognized request argument with more than 1000 values"),
        ("extra_body", json!({"a": 1}), "only {} is supported here; send its fields beside `model`"),
    ] {
        let mut fields = json!({});
        fields[name] = value;
        assert_eq!(refused(&fields).1, format!("`{name}`: {expected}"));
    }
    for name in ["input_schema", "paramters", "inputSchema", "strickt"] {
        let mut tool = json!({"type": "function", "function": {"name": "f"}});
        tool["function"][name] = json!({"type": "object"});
        let given = refused(&json!({"tools": [tool]})).1;
        assert_eq!(given, format!("`tools[0].function.{name}`: {constraint}"));
    }
}

#[test]
fn notes_with_similar_names_are_no_parameters() {
    for name in [
        "information",
        "choice_id",
        "text_content",
        "desktop_platform",
        "prompt_version",
        "sample_id",
        "step",
        "mode",
        "color_scheme",
        "supported_formats",
        "formal",
        "grammarly",
    ] {
        let mut fields = json!({});
        fields[name] = json!("a");
        assert_eq!(read(&fields).ignored.unknown, [name]);
    }
    let many: serde_json::Map<_, _> = (0..300).map(|i| (format!("x{i}"), json!(1))).collect();
    let (_, error) = refused(&Value::Object(many));
    assert_eq!(error, "`x256`: more than 256 unrecognized request arguments");
}

#[test]
fn reasoning_is_switched_in_every_spelling() {
    let off = [
        json!({"enable_thinking": false}),
        json!({"think": false}),
        json!({"thinking": false}),
        json!({"thinking": {"type": "disabled"}}),
        json!({"reasoning": {"enabled": false}}),
        json!({"reasoning_effort": "none"}),
    ];
    for fields in off {
        assert_eq!(read(&fields).chat_template_kwargs["enable_thinking"], false, "{fields}");
    }
    assert_eq!(read(&json!({"think": "high"})).chat_template_kwargs["reasoning_effort"], "high");
    for fields in [
        json!({"thinking": {"type": "enabled", "budget_tokens": 9}}),
        json!({"thinking_budget": 9}),
        json!({"reasoning": {"max_tokens": 9}}),
        json!({"reasoning_budget": 9, "thinking_budget": 5}),
    ] {
        assert_eq!(read(&fields).parameters.reasoning_budget, Some(9), "{fields}");
    }
}

#[test]
fn messages_that_ask_for_more_are_refused() {
    for (message, expected) in [
        (
            json!({"role": "user", "content": "a", "prefix": true}),
            "`messages[0].prefix`: only a last message of the assistant, with content and without calls, can be continued",
        ),
        (
            json!({"role": "user", "content": "a", "images": ["b"]}),
            "`messages[0].images`: only [] is supported here; this server reads no images",
        ),
    ] {
        assert_eq!(refused(&json!({"messages": [message]})).1, expected);
    }
}

#[test]
fn values_of_other_servers_clients_are_read() {
    assert_eq!(read(&json!({"model": null})).model, "");
    assert_eq!(read(&json!({"max_tokens": -1})).parameters.max_tokens, None);
    assert_eq!(read(&json!({"max_tokens": 16.0})).parameters.max_tokens.map(|limit| limit.tokens), Some(16));
    assert_eq!(read(&json!({"verbosity": "low"})).chat_template_kwargs["verbosity"], "low");
    let choice = json!({"tool_choice": "any", "tools": [{"type": "function", "function": {"name": "f"}}]});
    assert!(read(&choice).tools.required);
    let messages = read(&json!({"messages": [
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
        {"role": "tool", "content": [{"type": "text", "text": "b"}, {"type": "image_url", "image_url": {}}]},
        {"role": "tool", "content": null},
    ]}))
    .messages;
    assert_eq!(messages[0].tool_calls[0].arguments, r#"{"a":1}"#);
    let contents: Vec<_> = messages[1..].iter().map(|message| message.content.as_deref()).collect();
    assert_eq!(contents, [Some("b\n[An image, which this model cannot see.]"), Some("")]);
}

#[test]
fn results_without_ids_belong_to_the_calls_of_their_function_in_order() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let calls = json!({"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]});
    let result = json!({"role": "tool", "name": "f", "content": "1"});
    let messages = read(&json!({"messages": [calls, result, result]})).messages;
    let ids: Vec<_> = messages[1..].iter().map(|message| message.tool_call_id.as_deref()).collect();
    assert_eq!(ids, [Some("a"), Some("b")]);
}

/// Checks that results without ids take no search through the conversation.
#[test]
fn many_results_without_ids_are_read_in_linear_time() {
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let mut messages = vec![json!({"role": "assistant", "content": null, "tool_calls": [call]})];
    messages.resize(100_000, json!({"role": "tool", "name": "f", "content": "a"}));
    let started = std::time::Instant::now();
    let request = read(&json!({"messages": messages}));
    assert_eq!(request.messages.last().unwrap().tool_call_id.as_deref(), Some("c"));
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}
