use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// Returns the assistant messages with calls.
fn calling(messages: &mut [Value]) -> impl Iterator<Item = &mut Map<String, Value>> {
    let calls = |message: &Value| {
        message["role"] == "assistant"
            && message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty())
    };
    messages.iter_mut().filter(move |message| calls(message)).filter_map(Value::as_object_mut)
}

/// Adds `reasoning_content` to assistant messages with calls that lack it. `DeepSeek`'s thinking
/// models require this field.
///
/// The value is copied from `reasoning`, the field in which `OpenRouter` returns thoughts. If a
/// message has no `reasoning`, the value is an empty text, which the models accept.
pub(super) fn reasoning(messages: &mut [Value]) {
    for message in calling(messages) {
        if message.get("reasoning_content").is_none_or(Value::is_null) {
            let thoughts = message.get("reasoning").filter(|thoughts| thoughts.is_string());
            let thoughts = thoughts.cloned().unwrap_or_else(|| "".into());
            message.insert("reasoning_content".to_owned(), thoughts);
        }
    }
}

/// Replaces `null` content in messages with calls by an empty text, since some servers require
/// text.
pub(super) fn content(messages: &mut [Value]) {
    for message in calling(messages) {
        if message.get("content").is_none_or(Value::is_null) {
            message.insert("content".to_owned(), "".into());
        }
    }
}

/// Adds a placeholder signature to the first call of each message that has no signature.
///
/// Gemini 3 rejects a history in which the first call of a turn lacks the signature of the thoughts
/// before it. OpenAI-compatible servers carry the signature in the call's
/// `extra_content.google.thought_signature`. A signature is missing if another model made the call
/// or a provider dropped it. For this case Google documents the text
/// `skip_thought_signature_validator`.
pub(super) fn signature(messages: &mut [Value]) {
    for message in calling(messages) {
        // OpenRouter keeps the signatures of a whole message in this field.
        let is_signed = |details: &Value| details.as_array().is_some_and(|details| !details.is_empty());
        if message.get("reasoning_details").is_some_and(is_signed) {
            continue;
        }
        let call =
            message.get_mut("tool_calls").and_then(|calls| calls.get_mut(0)).and_then(Value::as_object_mut);
        let Some(call) = call else { continue };
        let extra = call.entry("extra_content").or_insert_with(|| json!({}));
        let Some(extra) = extra.as_object_mut() else { continue };
        if let Some(google) = extra.entry("google").or_insert_with(|| json!({})).as_object_mut() {
            google.entry("thought_signature").or_insert_with(|| "skip_thought_signature_validator".into());
        }
    }
}

/// Adds the tool's name to result messages, for chat templates that match results by name instead
/// of ID.
pub(super) fn names(messages: &mut [Value]) {
    let mut names: HashMap<String, Value> = HashMap::new();
    for message in messages {
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            if let Some(id) = call["id"].as_str() {
                names.insert(id.to_owned(), call["function"]["name"].clone());
            }
        }
        let name = message["tool_call_id"].as_str().and_then(|id| names.get(id)).cloned();
        if let (Some(name), "tool", Some(message)) =
            (name, message["role"].as_str().unwrap_or_default().to_owned().as_str(), message.as_object_mut())
        {
            message.entry("name").or_insert(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(change: fn(&mut [Value]), message: Value) -> Value {
        let mut messages = vec![json!({ "role": "user", "content": null }), message];
        change(&mut messages);
        assert_eq!(messages[0], json!({ "role": "user", "content": null }));
        messages.remove(1)
    }

    fn message(more: Value) -> Value {
        let mut message = json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": "a" }] });
        let more: Map<String, Value> = serde_json::from_value(more).expect("an object");
        message.as_object_mut().expect("an object").extend(more);
        message
    }

    #[test]
    fn adds_empty_reasoning_where_missing() {
        assert_eq!(after(reasoning, message(json!({})))["reasoning_content"], "");
        assert_eq!(after(reasoning, message(json!({ "reasoning": "so" })))["reasoning_content"], "so");
        assert_eq!(
            after(reasoning, message(json!({ "reasoning_content": "so" })))["reasoning_content"],
            "so"
        );
        let plain = json!({ "role": "assistant", "content": "Hi" });
        assert_eq!(after(reasoning, plain.clone()), plain);
    }

    #[test]
    fn adds_empty_content_where_missing() {
        assert_eq!(after(content, message(json!({})))["content"], "");
        assert_eq!(after(content, message(json!({ "content": "Hm" })))["content"], "Hm");
        let plain = json!({ "role": "assistant", "content": null });
        assert_eq!(after(content, plain.clone()), plain);
    }

    #[test]
    fn skips_missing_signatures() {
        let signature_of = |message: &Value| {
            message["tool_calls"][0]["extra_content"]["google"]["thought_signature"].clone()
        };
        assert_eq!(signature_of(&after(signature, message(json!({})))), "skip_thought_signature_validator");
        let own = json!([{ "id": "a", "extra_content": { "google": { "thought_signature": "s" } } }, { "id": "b" }]);
        let signed = message(json!({ "tool_calls": own }));
        assert_eq!(after(signature, signed.clone()), signed);
        let detailed = message(json!({ "reasoning_details": [{ "type": "reasoning.encrypted" }] }));
        assert_eq!(after(signature, detailed.clone()), detailed);
    }

    #[test]
    fn adds_tool_names_to_results() {
        let call = json!({ "id": "a", "function": { "name": "f" } });
        let mut messages = vec![
            json!({ "role": "assistant", "tool_calls": [call] }),
            json!({ "role": "tool", "tool_call_id": "a" }),
            json!({ "role": "tool", "tool_call_id": "a", "name": "g" }),
            json!({ "role": "tool", "tool_call_id": "b" }),
        ];
        names(&mut messages);
        let found: Vec<_> = messages[1..].iter().map(|message| message["name"].clone()).collect();
        assert_eq!(found, [json!("f"), json!("g"), json!(null)]);
    }
}
