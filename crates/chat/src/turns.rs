//! Conversations whose turns a template does not take as they are.
//!
//! Some templates want the user and the assistant to alternate, a single system message at the start, or
//! a message of the user. Clients write several system messages, several messages of one speaker in a
//! row, and messages of the user directly after the result of a call.

use std::borrow::Cow;

use formwork_lm::{ChatInput, ChatTemplate, Message, TemplateError};
use serde_json::Value;

use crate::conversation::plain;
use crate::declarations;

/// Content of an answer that separates the result of a call from the next message of the user.
const ACKNOWLEDGEMENT: &str = "OK.";

/// Renders a conversation.
///
/// If the template refuses the conversation, or leaves out a call or the text of a system or user message,
/// the conversation is rendered with other turns. Each of these changes is tried after those before it:
///
/// 1. Messages in a row of one speaker are joined. System messages before the first answer are joined at
///    the start, and later ones become messages of the user at their place.
/// 2. Answers without text and calls are left out.
/// 3. In a conversation without a message of the user, the last system message becomes one.
/// 4. An answer is added between a call or its result and a message of the user. An empty message of the
///    user is added before an answer at the start.
/// 5. Calls and their results become text, first without the other changes.
///
/// If the template refuses all of them, the tools are declared with simple types. Their descriptions have the
/// schemas then.
///
/// # Errors
/// Returns the error of the template for the conversation as it is, if the template refuses the changed
/// conversations as well.
pub fn render(template: &dyn ChatTemplate, input: &ChatInput) -> Result<String, TemplateError> {
    // The prompt that lacks the fewest messages, with their number.
    let mut best = match template.render(input) {
        Ok(text) => match missing(&text, &input.messages) {
            0 => return Ok(text),
            lost => Ok((lost, text)),
        },
        Err(error) => Err(error),
    };
    let mut tried = vec![input.messages.clone()];
    for step in 1..=STEPS {
        let messages = with_other_turns(&input.messages, step);
        if tried.contains(&messages) {
            continue;
        }
        let changed = ChatInput { messages, ..input.clone() };
        if let Ok(text) = template.render(&changed) {
            match missing(&text, &changed.messages) {
                0 => return Ok(text),
                lost if best.as_ref().map_or(true, |(least, _)| lost < *least) => best = Ok((lost, text)),
                _ => {}
            }
        }
        tried.push(changed.messages);
    }
    let error = match best {
        Ok((_, text)) => return Ok(text),
        Err(error) => error,
    };
    let simplified = input.variables.get("tools").and_then(declarations::simplified);
    let Some(tools) = simplified else { return Err(error) };
    let mut simpler = input.clone();
    simpler.variables.insert("tools".to_owned(), tools);
    render(template, &simpler).map_err(|_| error)
}

/// A prompt that ends inside the answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BegunPrompt {
    /// Text before the content of the answer.
    pub before: String,
    /// Content of the answer so far.
    pub content: String,
}

/// Renders a conversation up to the end of its last message, which is the beginning of the answer.
/// Returns `None` if the template does not write the content of the message as it is. It may remove
/// spaces at its start.
///
/// # Errors
/// Returns an error in the cases of [`render`].
pub fn render_begun(
    template: &dyn ChatTemplate,
    input: &ChatInput,
) -> Result<Option<BegunPrompt>, TemplateError> {
    /// Follows the text of the message, to find its end in the prompt. Private-use characters that no
    /// template treats in a special way.
    const MARK: &str = "\u{f8f0}\u{f8f1}\u{f8f2}";
    let mut input = ChatInput { add_generation_prompt: false, ..input.clone() };
    let Some(last) = input.messages.last_mut() else { return Ok(None) };
    let said = last.text().to_owned();
    last.content = Some(format!("{said}{MARK}"));
    let text = render(template, &input)?;
    let Some((text, _)) = text.rsplit_once(MARK) else { return Ok(None) };
    let found = [said.as_str(), said.trim_start()].into_iter().find_map(|content| {
        let before = text.strip_suffix(content)?;
        Some(BegunPrompt { before: before.to_owned(), content: content.to_owned() })
    });
    Ok(found)
}

/// Returns the number of messages that a prompt lacks: system and user messages whose texts are not in it, in
/// their order, and answers with a function whose name is not in it.
fn missing(prompt: &str, messages: &[Message]) -> usize {
    match missing_from(prompt, messages, |text| Cow::Borrowed(text.trim())) {
        0 => 0,
        // Some templates change white space within a text.
        _ => missing_from(prompt, messages, |text| Cow::Owned(text.split_whitespace().collect())),
    }
}

/// Returns the number of missing messages of [`missing`]. `form` changes the white space of a text before it
/// is compared.
fn missing_from<'t>(
    prompt: &'t str,
    messages: &'t [Message],
    form: impl Fn(&'t str) -> Cow<'t, str>,
) -> usize {
    let compared = form(prompt);
    let mut rest = &*compared;
    let mut count = 0;
    for message in messages {
        count += usize::from(called(message).any(|name| !prompt.contains(name)));
        if !is(message, "system") && !is(message, "user") {
            continue;
        }
        let said = form(message.text());
        match rest.find(&*said) {
            Some(at) => rest = &rest[at + said.len()..],
            None => count += 1,
        }
    }
    count
}

/// Number of changed conversations that [`render`] tries.
const STEPS: usize = 6;

/// Returns messages with the first `steps` changes of [`render`]. If `steps` is 5, only the fifth change is
/// made. If it is 6, all five are.
fn with_other_turns(messages: &[Message], steps: usize) -> Vec<Message> {
    if steps == 5 {
        return plain(messages);
    }
    let mut messages = with_systems_first(messages);
    if steps >= 2 {
        messages
            .retain(|message| !is(message, "assistant") || !message.text().is_empty() || has_calls(message));
    }
    let has_user = messages.iter().any(|message| is(message, "user"));
    if steps >= 3
        && !has_user
        && let Some(system) = messages.iter_mut().rfind(|message| is(message, "system"))
    {
        "user".clone_into(&mut system.role);
    }
    if steps >= 6 {
        messages = plain(&messages);
    }
    let messages = joined(messages);
    if steps >= 4 { with_alternation(messages) } else { messages }
}

fn is(message: &Message, role: &str) -> bool {
    message.role == role
}

/// Returns the names of the functions that an answer calls.
fn called(message: &Message) -> impl Iterator<Item = &str> {
    let calls = message.fields.get("tool_calls").and_then(Value::as_array);
    calls.into_iter().flatten().filter_map(|call| call.pointer("/function/name")?.as_str())
}

pub(crate) fn has_calls(message: &Message) -> bool {
    message.fields.contains_key("tool_calls")
}

/// Moves system messages before the first answer to the start, and makes later ones messages of the user.
/// So the prompt before a later message stays as it was.
fn with_systems_first(messages: &[Message]) -> Vec<Message> {
    let answer = messages.iter().position(|message| is(message, "assistant"));
    let (before, after) = messages.split_at(answer.unwrap_or(messages.len()));
    let (systems, others): (Vec<_>, Vec<_>) =
        before.iter().cloned().partition(|message| is(message, "system"));
    let after = after.iter().map(|message| {
        if is(message, "system") {
            Message::new("user", format!("<system>\n{}\n</system>", message.text()))
        } else {
            message.clone()
        }
    });
    systems.into_iter().chain(others).chain(after).collect()
}

/// Adds answers and messages of the user, so that they alternate.
fn with_alternation(messages: Vec<Message>) -> Vec<Message> {
    let mut all: Vec<Message> = Vec::with_capacity(messages.len() + 1);
    for message in messages {
        let last = all.last();
        let after_call = last.is_some_and(|last| is(last, "tool") || has_calls(last));
        if is(&message, "user") && after_call {
            all.push(Message::new("assistant", ACKNOWLEDGEMENT));
        } else if is(&message, "assistant") && last.is_none_or(|last| is(last, "system")) {
            all.push(Message::new("user", ""));
        }
        all.push(message);
    }
    all
}

/// Joins messages of one speaker in a row, except for results of calls.
fn joined(messages: Vec<Message>) -> Vec<Message> {
    let mut all: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match all.last_mut().filter(|last| last.role == message.role && !is(&message, "tool")) {
            Some(last) => add(last, &message),
            None => all.push(message),
        }
    }
    all
}

/// Adds a message to the one before it, of the same speaker.
fn add(last: &mut Message, message: &Message) {
    last.content = match (last.content.take(), &message.content) {
        (Some(before), Some(text)) if !before.is_empty() && !text.is_empty() => {
            Some(format!("{before}\n\n{text}"))
        }
        (Some(before), Some(_) | None) if !before.is_empty() => Some(before),
        (before, text) => text.clone().or(before),
    };
    for (name, value) in &message.fields {
        match (last.fields.get_mut(name), value) {
            (Some(Value::Array(calls)), Value::Array(more)) => calls.extend(more.iter().cloned()),
            (Some(Value::String(thought)), Value::String(more)) if name == "reasoning_content" => {
                thought.push('\n');
                thought.push_str(more);
            }
            (Some(_), _) => {}
            (None, _) => {
                last.fields.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
