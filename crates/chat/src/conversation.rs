//! Conversion of a conversation to a template's input.

use std::collections::{HashMap, VecDeque};

use formwork_lm::{ChatInput, Message};
use serde_json::{Map, Value, json};

use crate::declarations;
use crate::format::ChatFormat;
use crate::probe::{Native, PLAN};
use crate::tool::Tool;
use crate::turns::has_calls;

impl ChatFormat {
    /// Converts a conversation to the input of the model's template.
    ///
    /// Messages have OpenAI's wire format: calls are in `tool_calls` with their arguments as text,
    /// and results have the role `tool`.
    ///
    /// `variables` are further variables of the template. `tools` are passed as the variable
    /// `tools` if the template supports tools. Otherwise, the system message describes them.
    ///
    /// The variable `enable_thinking` switches thoughts in each template that can do so. The template gets
    /// the effort nearest to `reasoning_effort` that it takes.
    pub fn input(
        &self,
        messages: &[Message],
        tools: &[Tool],
        mut variables: Map<String, Value>,
    ) -> ChatInput {
        self.thinking.set(&mut variables);
        let mut messages = results_behind_calls(messages);
        results_in_order(&mut messages);
        let mut messages: Vec<Message> = match (self.native, self.written) {
            (Some(native), _) => {
                let messages = if native.calls_alone { with_calls_alone(messages) } else { messages };
                let mut messages: Vec<Message> =
                    messages.iter().map(|message| adapted(message, native)).collect();
                self.rename_calls(&mut messages);
                if native.one_call { with_single_calls(messages) } else { messages }
            }
            (None, Some(written)) => written.messages(&messages, &self.calls),
            (None, None) => plain(&messages),
        };
        for message in &mut messages {
            if message.role == "developer" {
                "system".clone_into(&mut message.role);
            }
            // Many templates fail without content.
            if message.content.is_none() && !message.fields.contains_key("tool_calls") {
                message.content = Some(String::new());
            }
        }
        if !tools.is_empty() {
            if self.declares_tools() {
                let declared = tools.iter().map(|tool| declarations::with_properties(tool.declaration()));
                variables.insert("tools".to_owned(), declared.collect());
            } else {
                add_to_system(&mut messages, &self.described(tools));
            }
        }
        if !self.system {
            system_to_user(&mut messages);
        }
        ChatInput { messages, add_generation_prompt: true, variables }
    }

    /// Gives calls and their results the ids of the format, if it has ids of its own. Ids may come from
    /// other servers.
    fn rename_calls(&self, messages: &mut [Message]) {
        let mut count = 0;
        let mut new_ids: HashMap<String, String> = HashMap::new();
        for message in messages {
            if let Some(id) = message.fields.get_mut("tool_call_id")
                && let Some(new) = id.as_str().and_then(|id| new_ids.get(id))
            {
                *id = new.as_str().into();
            }
            let Some(Value::Array(calls)) = message.fields.get_mut("tool_calls") else { continue };
            for call in calls {
                let name = call.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
                let Some(new) = self.call_id(name, count) else { return };
                count += 1;
                // A later call may have the id of an earlier one.
                if let Some(old) = call["id"].as_str() {
                    new_ids.insert(old.to_owned(), new.clone());
                }
                if call.is_object() {
                    call["id"] = new.into();
                }
            }
        }
    }

    /// Returns a description of the tools for a template that does not declare them.
    fn described(&self, tools: &[Tool]) -> String {
        let list: Vec<String> = tools.iter().map(|tool| tool.declaration().to_string()).collect();
        let (list, example) = (list.join("\n"), self.calls.example());
        let arguments =
            if self.has_own_arguments() { "its arguments" } else { "a JSON object with its arguments" };
        format!(
            "You can call these functions:\n<tools>\n{list}\n</tools>\n\nTo call one, write its name and {arguments} in this \
             way:\n{example}"
        )
    }
}

/// Puts the results after a message with calls into the order of the calls, since many templates do not
/// write ids. Results without a name get the name of the function.
fn results_in_order(messages: &mut [Message]) {
    let mut rest = messages;
    while let Some(at) = rest.iter().position(|message| message.fields.contains_key("tool_calls")) {
        let (with_calls, after) = rest[at..].split_at_mut(1);
        let calls = with_calls[0].fields["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        let calls: HashMap<&str, (usize, &Value)> = calls
            .iter()
            .enumerate()
            .filter_map(|(place, call)| Some((call["id"].as_str()?, (place, &call["function"]["name"]))))
            .collect();
        let call_of = |message: &Message| calls.get(message.fields.get("tool_call_id")?.as_str()?);
        let len = after.iter().take_while(|message| message.role == "tool").count();
        let (results, after) = after.split_at_mut(len);
        results.sort_by_key(|result| call_of(result).map_or(usize::MAX, |(place, _)| *place));
        for result in results {
            let name = call_of(result).map(|(_, name)| (*name).clone());
            if let Some(name) = name.filter(Value::is_string) {
                result.fields.entry("name").or_insert(name);
            }
        }
        rest = after;
    }
}

/// Puts results behind the answer with their calls, although messages of the user may stand between them.
///
/// Calls without ids get some. A result without an id gets that of the next call of its function, or of the
/// next call. A result without a call becomes a message of the user, because many templates leave it out or
/// refuse it.
fn results_behind_calls(messages: &[Message]) -> Vec<Message> {
    let mut all: Vec<Message> = Vec::with_capacity(messages.len());
    let mut open = OpenCalls::default();
    // Messages after the last answer that are no results of its calls.
    let mut others: Vec<Message> = Vec::new();
    let mut count = 0;
    for message in messages {
        let mut message = message.clone();
        if message.role == "assistant" {
            all.append(&mut others);
            let calls = message.fields.get_mut("tool_calls").and_then(Value::as_array_mut);
            open = OpenCalls::of(calls.map(Vec::as_mut_slice).unwrap_or_default(), &mut count);
            all.push(message);
        } else if message.role != "tool" {
            others.push(message);
        } else if open.take(&mut message) || open.has_calls && others.is_empty() {
            all.push(message);
        } else {
            others.push(result_as_text(&message));
        }
    }
    all.append(&mut others);
    all
}

/// The calls of an answer that have no result yet.
#[derive(Default)]
struct OpenCalls {
    has_calls: bool,
    /// Ids of the calls in their order. `None` for a call with a result.
    ids: Vec<Option<String>>,
    /// The first place in `ids` that may have no result.
    next: usize,
    places: HashMap<String, usize>,
    /// Places of the calls by the names of their functions.
    names: HashMap<String, VecDeque<usize>>,
}

impl OpenCalls {
    /// Reads the calls of an answer. Calls without an id get one from `count`, the number of calls before.
    fn of(calls: &mut [Value], count: &mut usize) -> Self {
        let mut open = Self { has_calls: !calls.is_empty(), ..Self::default() };
        for (place, call) in calls.iter_mut().enumerate().filter(|(_, call)| call.is_object()) {
            *count += 1;
            if call["id"].as_str().is_none_or(str::is_empty) {
                call["id"] = format!("call{count:05}").into();
            }
            let id = call["id"].as_str().unwrap_or_default().to_owned();
            let name = call["function"]["name"].as_str().unwrap_or_default().to_owned();
            open.names.entry(name).or_default().push_back(place);
            open.places.insert(id.clone(), place);
            open.ids.resize(place, None);
            open.ids.push(Some(id));
        }
        open
    }

    /// Takes the call of a result, and gives its id to a result without one.
    /// Returns false if there is no such call.
    fn take(&mut self, result: &mut Message) -> bool {
        let text = |name: &str| result.fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let (id, name) = (text("tool_call_id"), text("name"));
        if !id.is_empty() {
            let known = self.places.get(id).and_then(|&place| self.ids[place].take());
            return known.is_some();
        }
        while self.ids.get(self.next).is_some_and(Option::is_none) {
            self.next += 1;
        }
        let mut place = self.next;
        if let Some(places) = self.names.get_mut(name) {
            while let Some(of_function) = places.pop_front() {
                if self.ids[of_function].is_some() {
                    place = of_function;
                    break;
                }
            }
        }
        let Some(id) = self.ids.get_mut(place).and_then(Option::take) else { return false };
        result.fields.insert("tool_call_id".to_owned(), id.into());
        true
    }
}

/// Splits answers with several calls into answers with one call, each followed by its result, for templates
/// that write one call only. The results must have the order of the calls.
fn with_single_calls(messages: Vec<Message>) -> Vec<Message> {
    let mut all = Vec::with_capacity(messages.len());
    let mut rest = messages.into_iter().peekable();
    while let Some(mut message) = rest.next() {
        let calls = match message.fields.get_mut("tool_calls") {
            Some(Value::Array(calls)) if calls.len() > 1 => std::mem::take(calls),
            _ => {
                all.push(message);
                continue;
            }
        };
        // Further answers have no text, in the form that the template wants.
        let content = message.content.as_ref().map(|_| String::new());
        let further =
            || Message { role: "assistant".to_owned(), content: content.clone(), fields: Map::new() };
        let mut answer = Some(message);
        for call in calls {
            let mut one = answer.take().unwrap_or_else(further);
            let result = rest.next_if(|message| message.fields.get("tool_call_id") == Some(&call["id"]));
            one.fields.insert("tool_calls".to_owned(), vec![call].into());
            all.push(one);
            all.extend(result);
        }
    }
    all
}

/// Splits answers with text and calls into two, for templates that leave out the calls of such an answer.
fn with_calls_alone(messages: Vec<Message>) -> Vec<Message> {
    let mut all = Vec::with_capacity(messages.len());
    for mut message in messages {
        let calls = if message.text().is_empty() { None } else { message.fields.shift_remove("tool_calls") };
        let role = message.role.clone();
        all.push(message);
        if let Some(calls) = calls {
            let fields = Map::from_iter([("tool_calls".to_owned(), calls)]);
            all.push(Message { role, content: Some(String::new()), fields });
        }
    }
    all
}

/// Appends `text` to the system message, or inserts a system message if there is none.
fn add_to_system(messages: &mut Vec<Message>, text: &str) {
    match messages.first_mut().filter(|first| is_system(first)) {
        Some(first) => first.content = Some(format!("{}\n\n{text}", first.text())),
        None => messages.insert(0, Message::new("system", text)),
    }
}

fn is_system(message: &Message) -> bool {
    message.role == "system" || message.role == "developer"
}

/// Moves system messages into the first user message, for templates without a system message.
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

/// Converts the calls of a message to the form that the template expects.
fn adapted(message: &Message, native: Native) -> Message {
    let mut message = message.clone();
    if let Some(id) = message.fields.get_mut("tool_call_id").filter(|_| native.short_ids) {
        *id = short_id(id);
    }
    if native.has_plan && has_calls(&message) {
        let thought = message.fields.get("reasoning_content").and_then(Value::as_str);
        let plan = thought.unwrap_or(message.text()).to_owned();
        message.fields.entry(PLAN).or_insert(plan.into());
    }
    let Some(Value::Array(calls)) = message.fields.get_mut("tool_calls") else { return message };
    let as_text = native.arguments_as_text;
    for call in calls {
        if let Some(id) = call.get_mut("id").filter(|_| native.short_ids) {
            *id = short_id(id);
        }
        let Some(arguments) = call.pointer_mut("/function/arguments") else { continue };
        // Arguments that are not JSON stay text, because earlier answers may come from another
        // model.
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

/// Returns the last nine letters and digits of an id, which are enough to keep ids apart. Shorter
/// ids are padded with zeros on the left.
fn short_id(id: &Value) -> Value {
    let plain = id.as_str().unwrap_or_default().chars().filter(char::is_ascii_alphanumeric);
    let plain: Vec<char> = plain.collect();
    let end: String = plain[plain.len().saturating_sub(9)..].iter().collect();
    format!("{end:0>9}").into()
}

/// Converts calls and results to text, for templates that support neither.
///
/// A result and the result or user message after it become one message, because such templates
/// often require user and assistant to alternate.
pub(crate) fn plain(messages: &[Message]) -> Vec<Message> {
    let mut plain: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        let mut message = message.clone();
        if message.role == "tool" {
            message = result_as_text(&message);
        }
        if let Some(Value::Array(calls)) = message.fields.shift_remove("tool_calls") {
            let said = Some(message.text().to_owned()).filter(|text| !text.is_empty());
            let parts: Vec<String> = said.into_iter().chain(calls.iter().map(written)).collect();
            message.content = Some(parts.join("\n"));
        }
        // A user message after a result is appended to the result.
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

fn result_as_text(result: &Message) -> Message {
    Message::new("user", format!("<tool_response>\n{}\n</tool_response>", result.text()))
}

fn written(call: &Value) -> String {
    let function = &call["function"];
    let arguments = match &function["arguments"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    format!("<tool_call>\n{{\"name\": {}, \"arguments\": {arguments}}}\n</tool_call>", function["name"])
}
