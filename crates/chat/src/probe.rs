//! Detects a template's formats by rendering marker texts that are easy to find in the output.

use std::fmt;

use formwork_lm::{ChatInput, ChatTemplate, Message};
use formwork_vocab::TokenId;
use serde_json::{Map, Value, json};

use crate::arguments::{self, Arguments, Members};
use crate::numbering::{Numbering, named_id};
use crate::tags::{ID, NUMBER};

const QUESTION: &str = "probequestion";
const WORDS: &str = "probewords";
const NAMES: [&str; 3] = ["probefirst", "probesecond", "probethird"];
/// Nine characters, the length that some templates require.
const IDS: [&str; 3] = ["probeid01", "probeid02", "probeid03"];
const RESULT: &str = "proberesult";
const THOUGHT: &str = "probethought";

/// Texts that a template writes around calls. [`ID`] stands for the id of a call, and [`NUMBER`] for a
/// number that counts calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Calls {
    /// Layout of the arguments.
    pub(crate) arguments: Arguments,
    /// Text before the first name.
    pub(crate) open: String,
    /// Text between a name and its arguments.
    pub(crate) between: String,
    /// Text between the arguments of a call and the name of the next. `None` if the template allows
    /// one call only.
    pub(crate) separator: Option<String>,
    /// Text after the last arguments.
    pub(crate) close: String,
    /// Text after `close` if results follow, up to the next turn. Empty if the template ends the turn
    /// with an end-of-sequence token there.
    pub(crate) turn_end: String,
    /// Numbers of calls.
    pub(crate) numbering: Numbering,
    /// Requirements of the template.
    pub(crate) native: Native,
}

/// Requirements of a template that supports calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each flag is detected independently")]
pub(crate) struct Native {
    /// True if the template writes the declarations of the tools into the prompt.
    pub(crate) declares_tools: bool,
    /// True if the template expects arguments as text instead of an object.
    pub(crate) arguments_as_text: bool,
    /// True if the template requires ids of nine letters and digits.
    pub(crate) short_ids: bool,
    /// True if the template writes the ids of calls as the names of their functions.
    pub(crate) named_ids: bool,
    /// True if a message with only calls must have no content, instead of empty content.
    pub(crate) null_content: bool,
    /// True if the template does not write several calls of one answer.
    pub(crate) one_call: bool,
    /// True if the template leaves out the calls of an answer that has text.
    pub(crate) calls_alone: bool,
    /// True if the template writes the thought before calls as their plan (`tool_plan`), as Command's do.
    pub(crate) has_plan: bool,
}

/// Reason why calls are JSON in tags instead of the template's own format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JsonReason {
    /// The template does not render a conversation with tools.
    NoPrompt,
    /// The template does not write calls.
    NoCalls,
    /// The template writes calls in a way that is not known.
    UnknownLayout,
    /// The template does not write the results of calls.
    NoResults,
    /// Calls look like other text.
    LikeText,
}

impl fmt::Display for JsonReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPrompt => "the chat template does not render a conversation with tools",
            Self::NoCalls => "the chat template does not write calls",
            Self::UnknownLayout => "the chat template writes calls in an unknown layout",
            Self::NoResults => "the chat template does not write the results of calls",
            Self::LikeText => "the chat template writes calls that look like other text",
        })
    }
}

/// Name of the field with the plan of calls.
pub(crate) const PLAN: &str = "tool_plan";

/// A template under test.
pub(crate) struct Probe<'a> {
    template: &'a dyn ChatTemplate,
    /// Spellings of the end-of-sequence tokens.
    ends: &'a [String],
    /// Text with which answers without thoughts begin.
    no_thoughts: Option<String>,
}

impl<'a> Probe<'a> {
    pub(crate) const fn new(template: &'a dyn ChatTemplate, ends: &'a [String]) -> Self {
        Self { template, ends, no_thoughts: None }
    }

    /// Sets the text with which answers without thoughts begin. It belongs neither to the content nor to
    /// the calls.
    pub(crate) fn without_thoughts(self, text: Option<String>) -> Self {
        Self { no_thoughts: text, ..self }
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

    /// Returns true if the template writes the declarations of tools into the prompt.
    pub(crate) fn declares_tools(&self) -> bool {
        let prompt = self.render(vec![Message::new("user", QUESTION)], true, true);
        prompt.is_some_and(|prompt| NAMES[..2].iter().all(|name| prompt.contains(name)))
    }

    /// Returns true if the template writes messages with results, after a message without calls.
    pub(crate) fn writes_results(&self) -> bool {
        let messages = vec![Message::new("assistant", WORDS), result(0, Native::default())];
        self.continuation(messages, true).is_some_and(|text| text.contains(RESULT))
    }

    /// Returns the text that the template adds to the end of a prompt to start the assistant's
    /// answer, such as `<|im_start|>assistant`.
    pub(crate) fn header(&self) -> Option<String> {
        let question = || vec![Message::new("user", QUESTION)];
        let without = self.render(question(), false, false)?;
        let with = self.render(question(), true, false)?;
        Some(with.strip_prefix(without.as_str()).unwrap_or_default().to_owned())
    }

    /// Returns a prompt with further variables of the template.
    pub(crate) fn prompt_with(&self, variables: Map<String, Value>) -> Option<String> {
        let messages = vec![Message::new("user", QUESTION)];
        self.template.render(&ChatInput { messages, add_generation_prompt: true, variables }).ok()
    }

    /// Returns true if the variable `enable_thinking` can turn thoughts off: if it is false, the
    /// prompt ends with `</think>`.
    pub(crate) fn can_forgo_thoughts(&self) -> bool {
        let variables = Map::from_iter([("enable_thinking".to_owned(), Value::Bool(false))]);
        self.prompt_with(variables).is_some_and(|text| text.trim_end().ends_with("</think>"))
    }

    /// Returns the text that the template writes between the end of a prompt and the words of the
    /// assistant.
    pub(crate) fn before_words(&self) -> Option<String> {
        let answer = Message::new("assistant", WORDS);
        let text = self.continuation(vec![answer], false)?;
        text.split_once(WORDS).map(|(before, _)| before.to_owned())
    }

    /// Returns the texts that the template writes before and after the words of the assistant.
    pub(crate) fn around_words(&self) -> Option<(String, String)> {
        let text = self.continuation(vec![Message::new("assistant", WORDS)], true)?;
        let (before, after) = text.split_once(WORDS)?;
        Some((before.to_owned(), self.until_end(after).to_owned()))
    }

    /// Returns the texts before and after a thought, if the template writes thoughts.
    ///
    /// Some templates write thoughts only in messages with calls.
    pub(crate) fn around_thought(&self) -> Option<(String, String)> {
        let native = Native::default();
        let answers = [Message::new("assistant", WORDS), call(&NAMES[..1], native)];
        answers.into_iter().find_map(|mut answer| {
            for field in ["reasoning_content", "reasoning", "thinking", PLAN] {
                answer.fields.insert(field.to_owned(), THOUGHT.into());
            }
            let text = self.continuation(vec![answer], true)?;
            let (open, close) = text.split_once(THOUGHT)?;
            Some((open.to_owned(), close.to_owned()))
        })
    }

    /// Returns true if the template writes the plan of an answer with a call.
    fn has_plan(&self, native: Native) -> bool {
        let mut answer = call(&NAMES[..1], native);
        answer.fields.insert(PLAN.to_owned(), THOUGHT.into());
        self.with_calls(answer, native).is_some_and(|text| text.contains(THOUGHT))
    }

    /// Returns true if the template writes the text of an answer without its call.
    fn leaves_out_calls(&self, native: Native) -> bool {
        let mut answer = call(&NAMES[..1], native);
        answer.content = Some(WORDS.to_owned());
        let text = self.continuation(vec![answer, result(0, native)], true);
        text.is_some_and(|text| text.contains(WORDS) && !text.contains(NAMES[0]))
    }

    /// Returns the layout of calls, if the template writes calls and results.
    ///
    /// # Errors
    /// Returns the reason if the format has to be JSON in tags instead.
    pub(crate) fn calls(&self, controls: &[(TokenId, String)]) -> Result<Calls, JsonReason> {
        let prompt = self.render(vec![Message::new("user", QUESTION)], true, true);
        let prompt = prompt.ok_or(JsonReason::NoPrompt)?;
        let declares_tools = NAMES[..2].iter().all(|name| prompt.contains(name));
        let ways = [(false, false), (false, true), (true, false), (true, true)];
        let ways = [false, true].into_iter().flat_map(|named_ids| ways.map(|way| (named_ids, way)));
        let mut ways = ways.map(|(named_ids, (arguments_as_text, null_content))| Native {
            declares_tools,
            arguments_as_text,
            short_ids: false,
            named_ids,
            null_content,
            one_call: false,
            calls_alone: false,
            has_plan: false,
        });
        let found = ways.find_map(|native| {
            if let Some(one) = self.one_call(native) {
                return Some((native, Arguments::Json, one));
            }
            let (members, one) = self.one_call_in_members(native)?;
            // A template that expects arguments as text writes an object as Python does.
            let as_text = Native { arguments_as_text: true, ..native };
            if let Some(one) = members.is_python_dict().then(|| self.one_call(as_text)).flatten() {
                return Some((as_text, Arguments::Json, one));
            }
            let arguments = Arguments::of(members, controls);
            Some((native, arguments, one))
        });
        let (native, arguments, one) = found.ok_or_else(|| self.why_unknown())?;
        let result = self.continuation(vec![call(&NAMES[..1], native), result(0, native)], true);
        let result = result.filter(|text| text.contains(RESULT)).ok_or(JsonReason::NoResults)?;
        let turn_end = after_call(&result, &arguments, &one.close).map(|text| self.turn_end(&text));
        let turn_end = turn_end.unwrap_or_default();
        let several = self.several(native, &arguments);
        let texts = several.as_ref().and_then(|several| several.counted(&one));
        let (open, between, separator) = match texts {
            Some((open, between, separator)) => (open, between, Some(separator)),
            None => (one.open.clone(), one.between.clone(), None),
        };
        let first = number_in(&open, &one.open).or_else(|| {
            let first = several.as_ref()?.between.first()?;
            number_in(&between, first)
        });
        let first = first.unwrap_or_default();
        let goes_on = self.number_later(native, &open, &between).is_some_and(|later| later == first + 2);
        let numbering = Numbering::of(&open, &between, first, goes_on);
        let takes_ids = ["call_0123456789abcdef01234567", "1"].iter().all(|id| self.takes_id(id, native));
        let short_ids = !native.named_ids && !takes_ids;
        let native = Native {
            short_ids,
            one_call: several.is_none(),
            calls_alone: self.leaves_out_calls(native),
            has_plan: self.has_plan(native),
            ..native
        };
        let [open, between] = [open, between].map(|text| with_placeholder(&text));
        Ok(Calls { arguments, open, between, separator, close: one.close, turn_end, numbering, native })
    }

    /// Returns the reason why the layout of calls was not found.
    fn why_unknown(&self) -> JsonReason {
        let has_calls = |arguments_as_text: bool| {
            let native = Native { arguments_as_text, ..Native::default() };
            let text = self.with_calls(call(&NAMES[..1], native), native);
            text.is_some_and(|text| text.contains(NAMES[0]) || text.contains(IDS[0]))
        };
        if has_calls(false) || has_calls(true) { JsonReason::UnknownLayout } else { JsonReason::NoCalls }
    }

    /// Returns the number of a call in a turn after another turn with two calls.
    fn number_later(&self, native: Native, open: &str, between: &str) -> Option<u32> {
        let turns = vec![
            call(&NAMES[..2], native),
            result(0, native),
            result(1, native),
            calls_from(2, &NAMES[2..], native),
        ];
        let text = self.continuation(turns, true)?;
        let (before, after) = text.rsplit_once(NAMES[2])?;
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        if let Some((start, _)) = between.split_once(NUMBER) {
            return digits(after.strip_prefix(start)?).parse().ok();
        }
        let (_, end) = open.rsplit_once(NUMBER)?;
        let before = before.strip_suffix(end)?;
        before[before.trim_end_matches(|c: char| c.is_ascii_digit()).len()..].parse().ok()
    }

    /// Returns the control text at the start of `text`, the text between a call and its result. Empty if
    /// an end-of-sequence token stands there.
    fn turn_end(&self, text: &str) -> String {
        let text = text.trim_start();
        let is_end = self.ends.iter().any(|end| text.starts_with(end.as_str()));
        let tag = text.find('>').filter(|_| text.starts_with('<') && !is_end);
        tag.map_or("", |at| &text[..=at]).to_owned()
    }

    /// Returns true if the template accepts a call with the id `id`.
    fn takes_id(&self, id: &str, native: Native) -> bool {
        let mut messages = vec![call(&NAMES[..1], native), result(0, native)];
        for message in &mut messages {
            for place in ["/tool_call_id", "/tool_calls/0/id"] {
                let mut fields = Value::Object(std::mem::take(&mut message.fields));
                if let Some(given) = fields.pointer_mut(place) {
                    *given = id.into();
                }
                if let Value::Object(changed) = fields {
                    message.fields = changed;
                }
            }
        }
        self.continuation(messages, true).is_some()
    }

    /// Returns the texts around a call whose arguments are JSON.
    fn one_call(&self, native: Native) -> Option<OneCall> {
        let text = self.with_calls(call(&NAMES[..1], native), native)?;
        let (open, between, close) = taken_apart(&text, 0, &json_forms(0))?;
        // If a brace precedes the object, the template puts its own braces around the arguments,
        // and the arguments as a whole are not JSON.
        let is_json = !between.is_empty() && !between.trim_end().ends_with('{');
        let close = without_id(self.until_end(&close));
        is_json.then_some(OneCall { open, between, close })
    }

    /// Returns the layout of arguments that are members with texts around them, and the texts around a
    /// call.
    fn one_call_in_members(&self, native: Native) -> Option<(Members, OneCall)> {
        let text = |arguments: Value| {
            let text = self.with_calls(call_with(NAMES[0], arguments, native), native)?;
            let (open, rest) = text.split_once(NAMES[0])?;
            Some((open.to_owned(), self.until_end(rest).to_owned()))
        };
        if native.arguments_as_text {
            return None;
        }
        let found = arguments::found(&|arguments| text(arguments).map(|(_, rest)| rest))?;
        let (open, _) = text(json!({}))?;
        let one = OneCall { open, between: found.between, close: found.close };
        (!one.open.is_empty()).then_some((found.members, one))
    }

    /// Returns the texts of three calls, if the template writes several calls.
    fn several(&self, native: Native, arguments: &Arguments) -> Option<Several> {
        let text = self.with_calls(call(&NAMES, native), native)?;
        let mut several = Several { before: Vec::new(), between: Vec::new() };
        let mut rest = text;
        for nth in 0..NAMES.len() {
            let (before, between, after) = taken_apart(&rest, nth, &forms(arguments, nth))?;
            several.before.push(with_placeholder(&without_id(&before)));
            several.between.push(with_placeholder(&between));
            rest = after;
        }
        Some(several)
    }

    /// Returns the text that the template writes for an answer with calls.
    ///
    /// Some templates leave out an answer at the end of a conversation. Then the text comes from a
    /// conversation with results, and ends at the first end-of-sequence token.
    fn with_calls(&self, answer: Message, native: Native) -> Option<String> {
        let text = self.continuation(vec![answer.clone()], true)?;
        if text.contains(NAMES[0]) {
            return Some(text);
        }
        let calls = answer.fields["tool_calls"].as_array().map_or(0, Vec::len);
        let results = (0..calls).map(|nth| result(nth, native));
        let text = self.continuation(std::iter::once(answer).chain(results).collect(), true)?;
        let (before, _) = text.split_once(RESULT)?;
        let end = self.ends.iter().filter_map(|end| Some(before.find(end.as_str())? + end.len())).min()?;
        Some(before[..end].to_owned())
    }

    /// Returns the text that the template writes for the messages `after` a question, without an
    /// empty block of thoughts.
    ///
    /// The text starts where the prompt for an answer would end.
    fn continuation(&self, mut after: Vec<Message>, tools: bool) -> Option<String> {
        let question = || vec![Message::new("user", QUESTION)];
        let base = self.render(question(), false, tools)?;
        let prompt = self.render(question(), true, tools)?;
        let header = prompt.strip_prefix(base.as_str()).unwrap_or_default();
        let mut messages = question();
        messages.append(&mut after);
        let text = self.render(messages, false, tools)?;
        let text = match text.strip_prefix(base.as_str()) {
            Some(text) => text,
            // Some templates end with the header or with an end-of-sequence token.
            None if header.is_empty() => {
                let start = arguments::common_prefix(&base, &text).len();
                text.strip_prefix(prompt.as_str()).unwrap_or(&text[start..])
            }
            None => return None,
        };
        // A prompt may end with the start of a thought, which is missing in an answer without
        // thoughts.
        let shorter = header.split("<think>").next().unwrap_or_default();
        // It may also end with tags of its own.
        let same = arguments::whole_tags(arguments::common_prefix(header, text));
        let starts = [header, header.trim_end(), shorter, shorter.trim_end(), same];
        let start = starts.into_iter().find_map(|start| text.strip_prefix(start));
        let text = start.unwrap_or(text);
        let text = self.no_thoughts.as_deref().and_then(|start| text.strip_prefix(start)).unwrap_or(text);
        let thought = text.split_once("</think>").filter(|(before, _)| !before.contains(THOUGHT));
        Some(thought.map_or(text, |(_, rest)| rest.trim_start_matches('\n')).to_owned())
    }

    /// Returns `text` up to the first end-of-sequence token.
    fn until_end<'t>(&self, text: &'t str) -> &'t str {
        let end = self.ends.iter().filter_map(|end| text.find(end.as_str())).min();
        text[..end.unwrap_or(text.len())].trim_end()
    }
}

/// Texts around one call: before its name, between the name and the arguments, and after the
/// arguments.
struct OneCall {
    open: String,
    between: String,
    close: String,
}

/// Texts around several calls: before each name, and between each name and the arguments.
struct Several {
    before: Vec<String>,
    between: Vec<String>,
}

impl Several {
    /// Returns the texts before the first name, between a name and its arguments, and between the
    /// arguments and the next name. Returns `None` if the texts of the calls differ by more than a number
    /// that counts the calls.
    fn counted(&self, one: &OneCall) -> Option<(String, String, String)> {
        let [_, second, third] = self.before.as_slice() else { return None };
        let separator = numbered(second, third)?;
        let [first, second, third] = self.between.as_slice() else { return None };
        let between = numbered(first, second)?;
        if numbered(second, third)? != between {
            return None;
        }
        let open = match separator.rsplit_once(NUMBER) {
            Some((_, end)) => {
                let start = one.open.strip_suffix(end)?.trim_end_matches(|c: char| c.is_ascii_digit());
                format!("{start}{NUMBER}{end}")
            }
            None => one.open.clone(),
        };
        Some((open, between, separator))
    }
}

/// Returns `a` if `b` is equal. If the texts differ in one number, which is greater by 1 in `b`, returns
/// `a` with a placeholder for the number.
fn numbered(a: &str, b: &str) -> Option<String> {
    if a == b {
        return Some(a.to_owned());
    }
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let start = same - a.as_bytes()[..same].iter().rev().take_while(|byte| is_digit(byte)).count();
    let number = |text: &str| {
        let digits = text.as_bytes().get(start..)?.iter().take_while(|byte| is_digit(byte)).count();
        let (number, rest) = text.get(start..)?.split_at(digits);
        Some((number.parse::<u32>().ok()?, rest.to_owned()))
    };
    let ((first, rest), (second, other)) = (number(a)?, number(b)?);
    (first.checked_add(1) == Some(second) && rest == other).then(|| format!("{}{NUMBER}{rest}", &a[..start]))
}

/// Finds the probe call number `nth` in `text`. Returns the texts before its name, between the name and
/// the arguments, and after the arguments, which have one of the `forms`.
fn taken_apart(text: &str, nth: usize, forms: &[String]) -> Option<(String, String, String)> {
    let (open, rest) = text.split_once(NAMES[nth])?;
    forms.iter().find_map(|form| {
        let (between, close) = rest.split_once(form.as_str())?;
        Some((open.to_owned(), between.to_owned(), close.to_owned()))
    })
}

/// Returns the texts that the arguments of probe call number `nth` have in JSON.
fn json_forms(nth: usize) -> Vec<String> {
    vec![format!("{{\"key{nth}\": \"value\"}}"), format!("{{\"key{nth}\":\"value\"}}")]
}

fn probe_arguments(nth: usize) -> Value {
    json!({ format!("key{nth}"): "value" })
}

/// Returns the text between a call and its result. `None` if the text after the call's arguments does not
/// start with `close`.
fn after_call(text: &str, arguments: &Arguments, close: &str) -> Option<String> {
    let (before_result, _) = text.split_once(RESULT)?;
    let (.., after) = taken_apart(before_result, 0, &forms(arguments, 0))?;
    after.strip_prefix(close).map(str::to_owned)
}

/// Returns the texts that the arguments of probe call number `nth` may have.
fn forms(arguments: &Arguments, nth: usize) -> Vec<String> {
    match arguments {
        Arguments::Json => json_forms(nth),
        Arguments::Members { layout, .. } => vec![layout.written(&probe_arguments(nth))],
    }
}

/// Replaces the ids of calls in `text` by placeholders.
fn with_placeholder(text: &str) -> String {
    IDS.iter().fold(text.to_owned(), |text, id| text.replace(id, &ID.to_string()))
}

/// Removes the JSON member with the id of a call after its arguments from `text`, since models need not
/// write such ids.
fn without_id(text: &str) -> String {
    // The first member of an object is part of the format.
    let is_member = |at: &usize| {
        let before = &text[..*at];
        let comma = before.rfind(',').filter(|_| before.ends_with('"'));
        comma.is_some_and(|comma| !before[comma..].contains('{'))
    };
    let Some(at) = IDS.iter().find_map(|id| text.find(id)).filter(is_member) else {
        return text.to_owned();
    };
    let start = text[..at].rfind(',').unwrap_or(at);
    let end = text[at..].find('"').map_or(text.len(), |quote| at + quote + 1);
    format!("{}{}", &text[..start], &text[end..])
}

fn declaration(name: &str) -> Value {
    json!({ "type": "function", "function": { "name": name, "description": "", "parameters": {
        "type": "object", "properties": {}, "required": [] } } })
}

/// Returns a message with calls of the functions `names`. The first call is number 0.
fn call(names: &[&str], native: Native) -> Message {
    calls_from(0, names, native)
}

fn calls_from(start: usize, names: &[&str], native: Native) -> Message {
    let calls = names.iter().zip(start..).map(|(name, nth)| (nth, *name, probe_arguments(nth)));
    message_with(calls, native)
}

fn call_with(name: &str, arguments: Value, native: Native) -> Message {
    message_with([(0, name, arguments)].into_iter(), native)
}

fn message_with<'n>(calls: impl Iterator<Item = (usize, &'n str, Value)>, native: Native) -> Message {
    let calls = calls.map(|(nth, name, arguments)| {
        let id = id(nth, name, native);
        let arguments = if native.arguments_as_text { json!(arguments.to_string()) } else { arguments };
        json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
    });
    let mut message = Message::new("assistant", "");
    message.fields.insert("tool_calls".to_owned(), calls.collect());
    message.content = message.content.filter(|_| !native.null_content);
    message
}

fn result(nth: usize, native: Native) -> Message {
    let mut message = Message::new("tool", RESULT);
    message.fields.insert("tool_call_id".to_owned(), id(nth, NAMES[nth], native).into());
    message.fields.insert("name".to_owned(), NAMES[nth].into());
    message
}

/// Returns the id of probe call number `nth`.
fn id(nth: usize, name: &str, native: Native) -> String {
    if native.named_ids { named_id(name, nth as u32) } else { IDS[nth].to_owned() }
}

/// Returns the number in `text`, which has the form of `pattern`.
fn number_in(pattern: &str, text: &str) -> Option<u32> {
    let (start, end) = pattern.split_once(NUMBER)?;
    text.strip_prefix(start)?.strip_suffix(end)?.parse().ok()
}
