//! From a conversation to what a template renders.

use formwork_lm::{ChatInput, Message};
use serde_json::{Map, Value, json};

use crate::format::{CallFormat, ChatFormat, Native};
use crate::tags::Marked;
use crate::tool::Tool;

impl ChatFormat {
    /// The conversation as the model's template wants it. Messages are as on OpenAI's wire: calls in `tool_calls`, with
    /// arguments as text, and results of role `tool`.
    pub fn input(
        &self,
        messages: &[Message],
        tools: &[Tool],
        mut variables: Map<String, Value>,
    ) -> ChatInput {
        let mut messages: Vec<Message> = match self.native {
            Some(native) => messages.iter().map(|message| adapted(message, native)).collect(),
            None => plain(messages),
        };
        if !tools.is_empty() {
            if self.declares_tools() {
                variables.insert("tools".to_owned(), tools.iter().map(Tool::declaration).collect());
            } else {
                add_to_system(&mut messages, &self.described(tools));
            }
        }
        if !self.system {
            system_to_user(&mut messages);
        }
        ChatInput { messages, add_generation_prompt: true, variables }
    }

    /// The tools, told to a model whose template does not.
    fn described(&self, tools: &[Tool]) -> String {
        let list: Vec<String> = tools.iter().map(|tool| tool.declaration().to_string()).collect();
        let CallFormat { open, between, close, .. } = &self.calls;
        let [open, between, close] = [open, between, close].map(Marked::text);
        let list = list.join("\n");
        format!(
            "You can call these functions:\n<tools>\n{list}\n</tools>\n\nTo call one, write its name and a JSON object with \
             its arguments in this way:\n{open}NAME{between}{{…}}{close}"
        )
    }
}

/// Puts `text` at the end of the system message; adds one in front where there is none.
fn add_to_system(messages: &mut Vec<Message>, text: &str) {
    match messages.first_mut().filter(|first| is_system(first)) {
        Some(first) => first.content = Some(format!("{}\n\n{text}", first.text())),
        None => messages.insert(0, Message::new("system", text)),
    }
}

fn is_system(message: &Message) -> bool {
    message.role == "system" || message.role == "developer"
}

/// For templates without a system message: the first user says it.
fn system_to_user(messages: &mut Vec<Message>) {
    let said: Vec<Message> = messages.extract_if(.., |message| is_system(message)).collect();
    if said.is_empty() {
        return;
    }
    let said: Vec<&str> = said.iter().map(Message::text).collect();
    let said = said.join("\n\n");
    match messages.iter_mut().find(|message| message.role == "user") {
        Some(first) => first.content = Some(format!("{said}\n\n{}", first.text())),
        None => messages.insert(0, Message::new("user", said)),
    }
}

/// Calls as the template wants them.
fn adapted(message: &Message, native: Native) -> Message {
    let mut message = message.clone();
    if let Some(id) = message.fields.get_mut("tool_call_id").filter(|_| native.short_ids) {
        *id = short_id(id);
    }
    let Some(Value::Array(calls)) = message.fields.get_mut("tool_calls") else { return message };
    let as_text = native.arguments_as_text;
    for call in calls {
        if let Some(id) = call.get_mut("id").filter(|_| native.short_ids) {
            *id = short_id(id);
        }
        let Some(arguments) = call.pointer_mut("/function/arguments") else { continue };
        // What is no JSON stays text: earlier answers may have come from elsewhere.
        if let (false, Some(text)) = (as_text, arguments.as_str())
            && let Ok(value) = serde_json::from_str::<Value>(text)
        {
            *arguments = value;
        } else if as_text && !arguments.is_string() {
            *arguments = json!(arguments.to_string());
        }
    }
    message.content = match message.content {
        Some(text) if text.is_empty() && native.null_content => None,
        None if !native.null_content => Some(String::new()),
        content => content,
    };
    message
}

/// The last nine letters and digits of an id, which are as good as all.
fn short_id(id: &Value) -> Value {
    let plain = id.as_str().unwrap_or_default().chars().filter(char::is_ascii_alphanumeric);
    let plain: Vec<char> = plain.collect();
    let end: String = plain[plain.len().saturating_sub(9)..].iter().collect();
    format!("{end:0>9}").into()
}

/// Calls and results as text, for templates that know neither. What stands together is one message, since such templates often
/// insist that user and assistant take turns.
fn plain(messages: &[Message]) -> Vec<Message> {
    let mut plain: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        let mut message = message.clone();
        if message.role == "tool" {
            message = Message::new("user", format!("<tool_response>\n{}\n</tool_response>", message.text()));
        }
        if let Some(Value::Array(calls)) = message.fields.shift_remove("tool_calls") {
            let said = Some(message.text().to_owned()).filter(|text| !text.is_empty());
            let parts: Vec<String> = said.into_iter().chain(calls.iter().map(written)).collect();
            message.content = Some(parts.join("\n"));
        }
        // What a user says after results goes with them.
        let joins = |last: &&mut Message| {
            last.role == "user" && message.role == "user" && last.text().ends_with("</tool_response>")
        };
        match plain.last_mut().filter(joins) {
            Some(last) => last.content = Some(format!("{}\n{}", last.text(), message.text())),
            None => plain.push(message),
        }
    }
    plain
}

fn written(call: &Value) -> String {
    let function = &call["function"];
    let arguments = match &function["arguments"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    format!("<tool_call>\n{{\"name\": {}, \"arguments\": {arguments}}}\n</tool_call>", function["name"])
}
