//! Detects a template's formats by rendering marker texts that are easy to find in the output.

use formwork_lm::{ChatInput, ChatTemplate, Message};
use serde_json::{Map, Value, json};

const QUESTION: &str = "probequestion";
const WORDS: &str = "probewords";
const NAMES: [&str; 2] = ["probefirst", "probesecond"];
/// Nine characters, the length that some templates require.
const IDS: [&str; 2] = ["probeid01", "probeid02"];
const RESULT: &str = "proberesult";
const THOUGHT: &str = "probethought";

/// Texts that a template writes around calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Calls {
    /// Text before the first name.
    pub(crate) open: String,
    /// Text between a name and its arguments.
    pub(crate) between: String,
    /// Text between the arguments of a call and the name of the next. `None` if the template allows
    /// one call only.
    pub(crate) separator: Option<String>,
    /// Text after the last arguments.
    pub(crate) close: String,
    /// Requirements of the template.
    pub(crate) native: Native,
}

/// Requirements of a template that supports calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each flag is detected independently")]
pub(crate) struct Native {
    /// True if the template writes the declarations of the tools into the prompt.
    pub(crate) declares_tools: bool,
    /// True if the template expects arguments as text instead of an object.
    pub(crate) arguments_as_text: bool,
    /// True if the template requires ids of nine letters and digits.
    pub(crate) short_ids: bool,
    /// True if a message with only calls must have no content, instead of empty content.
    pub(crate) null_content: bool,
}

/// A template under test.
pub(crate) struct Probe<'a> {
    template: &'a dyn ChatTemplate,
    /// Spellings of the end-of-sequence tokens.
    ends: &'a [String],
}

impl<'a> Probe<'a> {
    pub(crate) const fn new(template: &'a dyn ChatTemplate, ends: &'a [String]) -> Self {
        Self { template, ends }
    }

    fn render(&self, messages: Vec<Message>, prompt: bool, tools: bool) -> Option<String> {
        let mut variables = Map::new();
        if tools {
            variables.insert("tools".to_owned(), NAMES.iter().map(|name| declaration(name)).collect());
        }
        let input = ChatInput { messages, add_generation_prompt: prompt, variables };
        self.template.render(&input).ok()
    }

    /// Returns true if system messages appear in the prompt.
    pub(crate) fn has_system(&self) -> bool {
        let messages = vec![Message::new("system", WORDS), Message::new("user", QUESTION)];
        self.render(messages, true, false).is_some_and(|text| text.contains(WORDS))
    }

    /// Returns the text that the template adds to the end of a prompt to start the assistant's
    /// answer, such as `<|im_start|>assistant`.
    pub(crate) fn header(&self) -> Option<String> {
        let question = || vec![Message::new("user", QUESTION)];
        let without = self.render(question(), false, false)?;
        let with = self.render(question(), true, false)?;
        Some(with.strip_prefix(without.as_str()).unwrap_or_default().to_owned())
    }

    /// Returns true if the variable `enable_thinking` can turn thoughts off: if it is false, the
    /// prompt ends with `</think>`.
    pub(crate) fn can_forgo_thoughts(&self) -> bool {
        let variables = Map::from_iter([("enable_thinking".to_owned(), Value::Bool(false))]);
        let messages = vec![Message::new("user", QUESTION)];
        let input = ChatInput { messages, add_generation_prompt: true, variables };
        self.template.render(&input).is_ok_and(|text| text.trim_end().ends_with("</think>"))
    }

    /// Returns the text that the template writes between the end of a prompt and the words of the
    /// assistant.
    pub(crate) fn before_words(&self) -> Option<String> {
        let answer = Message::new("assistant", WORDS);
        let text = self.continuation(vec![answer], false)?;
        text.split_once(WORDS).map(|(before, _)| before.to_owned())
    }

    /// Returns the texts before and after a thought, if the template writes thoughts.
    pub(crate) fn around_thought(&self) -> Option<(String, String)> {
        let mut answer = Message::new("assistant", WORDS);
        answer.fields.insert("reasoning_content".to_owned(), THOUGHT.into());
        answer.fields.insert("thinking".to_owned(), THOUGHT.into());
        let text = self.continuation(vec![answer], false)?;
        let (open, rest) = text.split_once(THOUGHT)?;
        let (close, _) = rest.split_once(WORDS)?;
        Some((open.to_owned(), close.to_owned()))
    }

    /// Returns the layout of calls, if the template writes calls and results.
    pub(crate) fn calls(&self) -> Option<Calls> {
        let prompt = self.render(vec![Message::new("user", QUESTION)], true, true)?;
        let declares_tools = NAMES.iter().all(|name| prompt.contains(name));
        let ways = [(false, false), (false, true), (true, false), (true, true)];
        let (native, (open, between, close)) =
            ways.into_iter().find_map(|(arguments_as_text, null_content)| {
                let native = Native { declares_tools, arguments_as_text, short_ids: false, null_content };
                Some((native, self.one_call(native)?))
            })?;
        let result = vec![call(&NAMES[..1], native), result()];
        if !self.continuation(result, true)?.contains(RESULT) {
            return None;
        }
        let separator = self.separator(native, &between);
        let short_ids = !self.takes_long_ids(native);
        let native = Native { short_ids, ..native };
        Some(Calls { open, between, separator, close: without_id(self.until_end(&close)), native })
    }

    /// Returns true if the template accepts ids of more than nine characters.
    fn takes_long_ids(&self, native: Native) -> bool {
        let mut messages = vec![call(&NAMES[..1], native), result()];
        for message in &mut messages {
            for place in ["/tool_call_id", "/tool_calls/0/id"] {
                let mut fields = Value::Object(std::mem::take(&mut message.fields));
                if let Some(id) = fields.pointer_mut(place) {
                    *id = "call_0123456789abcdef01234567".into();
                }
                if let Value::Object(changed) = fields {
                    message.fields = changed;
                }
            }
        }
        self.continuation(messages, true).is_some()
    }

    fn one_call(&self, native: Native) -> Option<(String, String, String)> {
        let text = self.continuation(vec![call(&NAMES[..1], native)], true)?;
        let (open, between, close) = taken_apart(&text, 0)?;
        // If a brace precedes the object, the template puts its own braces around the arguments,
        // and the arguments as a whole are not JSON.
        let is_json = !between.trim_end().ends_with('{');
        let has_id = open.contains(IDS[0]) || between.contains(IDS[0]);
        (is_json && !has_id).then_some((open, between, close))
    }

    fn separator(&self, native: Native, between: &str) -> Option<String> {
        let text = self.continuation(vec![call(&NAMES, native)], true)?;
        let (_, _, rest) = taken_apart(&text, 0)?;
        let (separator, second, _) = taken_apart(&rest, 1)?;
        (second == between).then(|| without_id(&separator)).filter(|text| !text.contains(IDS[0]))
    }

    /// Returns the text that the template writes for the messages `after` a question, without an
    /// empty block of thoughts.
    ///
    /// The text starts where the prompt for an answer would end.
    fn continuation(&self, mut after: Vec<Message>, tools: bool) -> Option<String> {
        let question = || vec![Message::new("user", QUESTION)];
        let base = self.render(question(), false, tools)?;
        let header = self.render(question(), true, tools)?;
        let header = header.strip_prefix(base.as_str()).unwrap_or_default();
        let mut messages = question();
        messages.append(&mut after);
        let text = self.render(messages, false, tools)?;
        let text = text.strip_prefix(base.as_str())?;
        // A prompt may end with the start of a thought, which is missing in an answer without
        // thoughts.
        let shorter = header.split("<think>").next().unwrap_or_default();
        let starts = [header, header.trim_end(), shorter, shorter.trim_end()];
        let start = starts.into_iter().find_map(|start| text.strip_prefix(start));
        let text = start.unwrap_or(text);
        let thought = text.split_once("</think>").filter(|(before, _)| !before.contains(THOUGHT));
        Some(thought.map_or(text, |(_, rest)| rest.trim_start_matches('\n')).to_owned())
    }

    /// Returns `text` up to the first end-of-sequence token.
    fn until_end<'t>(&self, text: &'t str) -> &'t str {
        let end = self.ends.iter().filter_map(|end| text.find(end.as_str())).min();
        text[..end.unwrap_or(text.len())].trim_end()
    }
}

/// Finds the probe call number `nth`, 0 or 1, in `text`. Returns the texts before its name, between
/// the name and the arguments, and after the arguments.
fn taken_apart(text: &str, nth: usize) -> Option<(String, String, String)> {
    let (open, rest) = text.split_once(NAMES[nth])?;
    let forms = [format!("{{\"key{nth}\": \"value\"}}"), format!("{{\"key{nth}\":\"value\"}}")];
    forms.iter().find_map(|form| {
        let (between, close) = rest.split_once(form.as_str())?;
        (!between.is_empty()).then(|| (open.to_owned(), between.to_owned(), close.to_owned()))
    })
}

/// Removes the JSON member with the id of a call from `text`, since models need not write ids.
fn without_id(text: &str) -> String {
    let Some(at) = IDS.iter().find_map(|id| text.find(id)) else { return text.to_owned() };
    let start = text[..at].rfind(',').unwrap_or(at);
    let end = text[at..].find('"').map_or(text.len(), |quote| at + quote + 1);
    format!("{}{}", &text[..start], &text[end..])
}

fn declaration(name: &str) -> Value {
    json!({ "type": "function", "function": { "name": name, "description": "", "parameters": {
        "type": "object", "properties": {}, "required": [] } } })
}

fn call(names: &[&str], native: Native) -> Message {
    let calls = names.iter().enumerate().map(|(nth, name)| {
        let arguments = json!({ format!("key{nth}"): "value" });
        let arguments = if native.arguments_as_text { json!(arguments.to_string()) } else { arguments };
        json!({ "id": IDS[nth], "type": "function", "function": { "name": name, "arguments": arguments } })
    });
    let mut message = Message::new("assistant", "");
    message.fields.insert("tool_calls".to_owned(), calls.collect());
    message.content = message.content.filter(|_| !native.null_content);
    message
}

fn result() -> Message {
    let mut message = Message::new("tool", RESULT);
    message.fields.insert("tool_call_id".to_owned(), IDS[0].into());
    message.fields.insert("name".to_owned(), NAMES[0].into());
    message
}
