use formwork_openai::{CompletionPrompt, CompletionRequest};
use serde_json::{Value, json};

fn read(fields: &Value) -> Result<CompletionRequest, String> {
    let mut body = json!({"model": "m", "prompt": "Hi"});
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    CompletionRequest::from_json(body.to_string().as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn prompts_come_in_four_forms() {
    let text = |text: &str| CompletionPrompt::Text(text.to_owned());
    for (prompt, expected) in [
        (json!("a"), vec![text("a")]),
        (json!(["a", "b"]), vec![text("a"), text("b")]),
        (json!([1, 2]), vec![CompletionPrompt::Tokens(vec![1, 2])]),
        (json!([[1], [2, 3]]), vec![CompletionPrompt::Tokens(vec![1]), CompletionPrompt::Tokens(vec![2, 3])]),
    ] {
        assert_eq!(read(&json!({"prompt": prompt})).expect("a prompt").prompts, expected);
    }
}

#[test]
fn rejects_fields_that_completions_lack() {
    for (fields, expected) in [
        (json!({"prompt": []}), "`prompt`: must not be empty"),
        (json!({"prompt": [1, -1]}), "`prompt[1]`: -1 is out of range; expected at least 0"),
        (json!({"n": 3, "best_of": 2}), "`best_of`: 2 is out of range; expected at least `n`"),
        (json!({"best_of": 2, "stream": true}), "`best_of`: cannot be combined with `stream`"),
        (json!({"suffix": "x", "echo": true}), "`echo`: cannot be combined with `suffix`"),
        (json!({"logprobs": 21}), "`logprobs`: 21 is out of range; expected 0..=20"),
        (
            json!({"messages": []}),
            "`messages`: only null is supported here; send it to `/v1/chat/completions`",
        ),
    ] {
        assert_eq!(read(&fields).expect_err("refused"), expected);
    }
    let request =
        read(&json!({"n": 2, "echo": true, "max_tokens": 3, "guided_regex": "a"})).expect("a request");
    assert_eq!((request.best_of, request.echo, request.format.is_some()), (2, true, true));
}
