use serde_json::json;

use super::*;

/// A template that wants turns to alternate, after at most one system message.
struct Alternating;

impl ChatTemplate for Alternating {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let turns = input.messages.iter().skip_while(|message| message.role == "system");
        for (index, message) in turns.enumerate() {
            if (message.role == "user") != (index % 2 == 0) {
                return Err(error("roles must alternate"));
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

/// A template that wants a message of the user.
struct WithUser;

impl ChatTemplate for WithUser {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let has_user = input.messages.iter().any(|message| message.role == "user");
        if has_user { Ok(text(&input.messages)) } else { Err(error("no user query")) }
    }
}

/// A template that wants answers with text or calls, and an answer to each result.
struct Answered;

impl ChatTemplate for Answered {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let is_empty = |message: &Message| {
            message.role == "assistant"
                && message.text().is_empty()
                && !message.fields.contains_key("tool_calls")
        };
        let unanswered = |pair: &[Message]| {
            (pair[0].role == "tool" || pair[0].fields.contains_key("tool_calls")) && pair[1].role == "user"
        };
        if input.messages.iter().any(is_empty) || input.messages.windows(2).any(unanswered) {
            return Err(error("an answer is missing"));
        }
        Ok(text(&input.messages))
    }
}

/// A template that knows single types only.
struct SimpleTypes;

impl ChatTemplate for SimpleTypes {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let kind = &input.variables["tools"][0]["function"]["parameters"]["properties"]["a"]["type"];
        let kind = kind.as_str().ok_or_else(|| error("a list of types"))?;
        Ok(format!("{kind}: {}", input.messages[0].text()))
    }
}

/// A template that fails.
struct Refusing;

impl ChatTemplate for Refusing {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        Err(error(&format!("{} messages", input.messages.len())))
    }
}

fn error(message: &str) -> TemplateError {
    TemplateError { message: message.to_owned(), line: None }
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
fn turns_are_joined_only_where_a_template_needs_it() {
    let turns = [("system", "a"), ("system", "b"), ("user", "c "), ("user", "d"), ("assistant", "e")];
    let joined = "<system>a\n\nb<user>c \n\nd<assistant>e";
    assert_eq!(rendered(&Alternating, &turns).unwrap(), joined);
    assert_eq!(rendered(&OneSystem, &turns).unwrap(), joined);
    let alternating = [("system", "a"), ("system", "b"), ("user", "c"), ("assistant", "e")];
    assert_eq!(rendered(&Alternating, &alternating).unwrap(), "<system>a<system>b<user>c<assistant>e");
    let before = [("user", "a"), ("system", "b"), ("assistant", "c"), ("assistant", "d"), ("user", "e")];
    assert_eq!(rendered(&Alternating, &before).unwrap(), "<system>b<user>a<assistant>c\n\nd<user>e");
}

/// The prompt before a later system message must not change, because its keys and values are in the cache.
#[test]
fn later_system_messages_stay_at_their_place() {
    let turns = [("system", "a"), ("user", "b"), ("assistant", "c"), ("system", "d"), ("user", "e")];
    let expected = "<system>a<user>b<assistant>c<user><system>\nd\n</system>\n\ne";
    assert_eq!(rendered(&Alternating, &turns).unwrap(), expected);
    assert_eq!(rendered(&OneSystem, &turns).unwrap(), expected);
}

#[test]
fn missing_turns_are_added() {
    assert_eq!(rendered(&Alternating, &[("assistant", "a")]).unwrap(), "<user><assistant>a");
    let turns = [("user", "a"), ("assistant", ""), ("tool", "b"), ("user", "c")];
    assert_eq!(rendered(&WithUser, &[("system", "a")]).unwrap(), "<user>a");
    assert_eq!(rendered(&WithUser, &[("system", "a"), ("system", "b")]).unwrap(), "<system>a<user>b");
    let mut messages: Vec<Message> = turns.iter().map(|(role, text)| Message::new(*role, *text)).collect();
    messages[1].fields.insert("tool_calls".to_owned(), vec![1].into());
    let input = ChatInput { messages, ..ChatInput::default() };
    assert_eq!(render(&Answered, &input).unwrap(), "<user>a<assistant><tool>b<assistant>OK.<user>c");
    let mut without_result = input;
    without_result.messages.remove(2);
    let expected = "<user>a<assistant><assistant>OK.<user>c";
    assert_eq!(render(&Answered, &without_result).unwrap(), expected);
}

#[test]
fn empty_answers_are_left_out_if_a_template_refuses_them() {
    let turns = [("user", "a"), ("assistant", ""), ("user", "b")];
    assert_eq!(rendered(&Answered, &turns).unwrap(), "<user>a\n\nb");
}

#[test]
fn refused_declarations_are_simplified() {
    let tools = |kind: Value| {
        json!([{ "type": "function", "function": { "name": "f", "description": "",
        "parameters": { "type": "object", "properties": { "a": { "type": kind } } } } }])
    };
    for kind in [json!("string"), json!(["string", "null"])] {
        let variables = [("tools".to_owned(), tools(kind))].into_iter().collect();
        let messages = vec![Message::new("user", "a")];
        let input = ChatInput { messages, variables, ..ChatInput::default() };
        assert_eq!(render(&SimpleTypes, &input).unwrap(), "string: a");
    }
}

#[test]
fn what_no_change_helps_is_the_first_error() {
    let error = rendered(&Refusing, &[("assistant", "a"), ("assistant", "b")]).unwrap_err();
    assert_eq!(error.message, "2 messages");
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
    let [merged] = joined(messages).try_into().unwrap();
    assert_eq!(merged.text(), "b");
    assert_eq!(merged.fields["reasoning_content"], "x\ny");
    assert_eq!(merged.fields["tool_calls"], Value::from(vec![1, 2]));
}

/// A template that leaves out calls.
struct WithoutCalls;

impl ChatTemplate for WithoutCalls {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        Ok(text(&input.messages))
    }
}

#[test]
fn calls_that_a_template_leaves_out_become_text() {
    let call = json!([{ "id": "1", "type": "function", "function": { "name": "add", "arguments": "{}" } }]);
    let mut calling = Message { role: "assistant".to_owned(), content: None, fields: serde_json::Map::new() };
    calling.fields.insert("tool_calls".to_owned(), call);
    let messages = vec![Message::new("user", "ASKED"), calling, Message::new("tool", "DONE")];
    let input = ChatInput { messages, ..ChatInput::default() };
    let prompt = render(&WithoutCalls, &input).expect("rendered");
    let places: Vec<_> = ["ASKED", "\"add\"", "DONE"].map(|text| prompt.find(text)).into();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{prompt}");
}

/// A template that writes the system message with the first message of the user, and joins lines.
struct JoiningLines;

impl ChatTemplate for JoiningLines {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let has_user = input.messages.iter().any(|message| message.role == "user");
        Ok(if has_user { text(&input.messages).replace("\n\n", "\n") } else { String::new() })
    }
}

#[test]
fn changed_white_space_is_no_lost_text() {
    let prompt = rendered(&JoiningLines, &[("system", "RULES\n\nand more")]).expect("rendered");
    assert_eq!(prompt, "<user>RULES\nand more");
}
