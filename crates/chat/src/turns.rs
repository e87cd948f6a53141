//! Conversations whose turns a template does not take as they are.
//!
//! Some templates want the user and the assistant to alternate, or a single system message at the
//! start. Clients write several system messages and several messages of one speaker in a row.

use formwork_lm::{ChatInput, ChatTemplate, Message, TemplateError};
use serde_json::Value;

/// Renders a conversation. If the template refuses its turns, or leaves out the text of a system or
/// user message, the conversation is rendered with [merged turns](merged).
///
/// # Errors
/// Returns the error of the template for the conversation as it is, if the template refuses the merged
/// turns as well.
pub fn render(template: &dyn ChatTemplate, input: &ChatInput) -> Result<String, TemplateError> {
    let rendered = template.render(input);
    if rendered.as_ref().is_ok_and(|text| has_all(text, &input.messages)) {
        return rendered;
    }
    let messages = merged(&input.messages);
    if messages.len() == input.messages.len() {
        return rendered;
    }
    let again = template.render(&ChatInput { messages, ..input.clone() });
    match (rendered, again) {
        (_, Ok(text)) => Ok(text),
        (rendered, Err(_)) => rendered,
    }
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

/// Returns true if a text has the texts of all system and user messages, in their order.
fn has_all(text: &str, messages: &[Message]) -> bool {
    let mut rest = text;
    for message in messages.iter().filter(|message| message.role == "system" || message.role == "user") {
        // Templates remove spaces around a text.
        let said = message.text().trim();
        match rest.find(said) {
            Some(at) => rest = &rest[at + said.len()..],
            None => return false,
        }
    }
    true
}

/// Joins all system messages at the start, and messages of the user or of the assistant in a row.
fn merged(messages: &[Message]) -> Vec<Message> {
    let is_system = |message: &&Message| message.role == "system";
    let mut all: Vec<Message> = Vec::with_capacity(messages.len());
    let others = messages.iter().filter(|message| !is_system(message));
    for message in messages.iter().filter(is_system).chain(others) {
        let last = all.last_mut().filter(|last| last.role == message.role && message.role != "tool");
        match last {
            Some(last) => add(last, message),
            None => all.push(message.clone()),
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
mod tests {
    use super::*;

    /// A template that wants turns to alternate, after at most one system message.
    struct Alternating;

    impl ChatTemplate for Alternating {
        fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
            let turns = input.messages.iter().skip_while(|message| message.role == "system");
            for (index, message) in turns.enumerate() {
                if (message.role == "user") != (index % 2 == 0) {
                    return Err(TemplateError { message: "roles must alternate".to_owned(), line: None });
                }
            }
            Ok(text(&input.messages))
        }
    }

    /// A template that writes only the first system message.
    struct OneSystem;

    impl ChatTemplate for OneSystem {
        fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
            let mut messages = input.messages.clone();
            let mut count = 0;
            messages.retain(|message| {
                count += usize::from(message.role == "system");
                message.role != "system" || count == 1
            });
            Ok(text(&messages))
        }
    }

    fn text(messages: &[Message]) -> String {
        let turn = |message: &Message| format!("<{}>{}", message.role, message.text().trim());
        messages.iter().map(turn).collect::<Vec<_>>().concat()
    }

    fn rendered(template: &dyn ChatTemplate, turns: &[(&str, &str)]) -> Result<String, TemplateError> {
        let messages = turns.iter().map(|(role, text)| Message::new(*role, *text)).collect();
        render(template, &ChatInput { messages, ..ChatInput::default() })
    }

    #[test]
    fn turns_are_merged_only_where_a_template_needs_it() {
        let turns = [("system", "a"), ("system", "b"), ("user", "c "), ("user", "d"), ("assistant", "e")];
        let merged = "<system>a\n\nb<user>c \n\nd<assistant>e";
        assert_eq!(rendered(&Alternating, &turns).unwrap(), merged);
        assert_eq!(rendered(&OneSystem, &turns).unwrap(), merged);
        let alternating = [("system", "a"), ("system", "b"), ("user", "c"), ("assistant", "e")];
        assert_eq!(rendered(&Alternating, &alternating).unwrap(), "<system>a<system>b<user>c<assistant>e");
        let later = [("user", "a"), ("system", "b"), ("assistant", "c"), ("assistant", "d"), ("user", "e")];
        let merged = "<system>b<user>a<assistant>c\n\nd<user>e";
        assert_eq!(rendered(&Alternating, &later).unwrap(), merged);
    }

    #[test]
    fn what_no_merging_helps_is_the_first_error() {
        let error = rendered(&Alternating, &[("assistant", "a")]).unwrap_err();
        assert_eq!(error.message, "roles must alternate");
        let error = rendered(&Alternating, &[("assistant", "a"), ("assistant", "b")]).unwrap_err();
        assert_eq!(error.message, "roles must alternate");
    }

    #[test]
    fn calls_and_thoughts_of_merged_messages_are_kept() {
        let with = |text: &str, thought: &str, id: i32| {
            let mut message = Message::new("assistant", text);
            message.fields.insert("reasoning_content".to_owned(), thought.into());
            message.fields.insert("tool_calls".to_owned(), vec![id].into());
            message
        };
        let mut messages = vec![with("", "x", 1), with("b", "y", 2)];
        messages[0].content = None;
        let [merged] = merged(&messages).try_into().unwrap();
        assert_eq!(merged.text(), "b");
        assert_eq!(merged.fields["reasoning_content"], "x\ny");
        assert_eq!(merged.fields["tool_calls"], Value::from(vec![1, 2]));
    }
}
