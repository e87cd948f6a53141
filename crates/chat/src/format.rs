use formwork_grammar::Trigger;
use formwork_lm::{ChatInput, ChatTemplate};
use formwork_vocab::{TokenId, Vocabulary};
use serde_json::Value;

use crate::arguments::Arguments;
use crate::harmony::Harmony;
use crate::named::{self, WrittenCalls};
use crate::numbering::Numbering;
use crate::probe::{Calls, JsonReason, Native, Probe};
use crate::response_template::ResponseTemplate;
use crate::tags::{self, Marked};
use crate::thinking::ThinkingVariables;
use crate::tool::{CustomInput, Tool, Tools};

/// Format of a model's answers. See the [module](crate) documentation.
#[derive(Clone, Debug)]
pub struct ChatFormat {
    pub(crate) calls: CallFormat,
    /// The template's own format for tools, calls and results. If `None`, this crate writes them as
    /// text.
    pub(crate) native: Option<Native>,
    /// The reason why calls have no native format.
    pub(crate) reason: Option<JsonReason>,
    pub(crate) numbering: Numbering,
    /// Form of earlier calls in a conversation with a named format. `None` if the template writes calls.
    pub(crate) written: Option<WrittenCalls>,
    /// True if the template renders system messages. If false, they go into the first user message.
    pub(crate) system: bool,
    pub(crate) thoughts: Option<Tags>,
    /// The template's variables about thoughts.
    pub(crate) thinking: ThinkingVariables,
    pub(crate) harmony: Option<Harmony>,
    /// Spellings of the end-of-sequence tokens.
    pub(crate) ends: Vec<String>,
}

/// Layout of calls: `open name between arguments (separator name between arguments)* close`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CallFormat {
    pub(crate) arguments: Arguments,
    pub(crate) open: Marked,
    pub(crate) between: Marked,
    pub(crate) separator: Option<Marked>,
    pub(crate) close: Marked,
    /// Text with which the template ends a turn of calls, if it is not an end-of-sequence token.
    pub(crate) turn_end: Marked,
    /// Text that the template writes before content, which distinguishes content from calls. Empty
    /// unless `open` is empty.
    pub(crate) content_open: String,
    /// The section of content, if content stands in a section. Such a section precedes calls, too.
    pub(crate) section: Option<Section>,
}

/// A section with content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Section {
    pub(crate) tags: Tags,
    /// Text between the section and the end of an answer without calls.
    pub(crate) end: Marked,
}

/// Tags around thoughts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tags {
    pub(crate) open: Marked,
    pub(crate) close: Marked,
    /// True if an answer without thoughts begins with the closing tag.
    pub(crate) closes_alone: bool,
}

/// Texts before the content of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContentMark {
    /// Text directly before the content, besides white space.
    pub close: String,
    /// Text with which the answer begins, if it may lack the mark. An answer that begins neither with this text nor
    /// with `close` begins with its content. `None` if each answer has the mark.
    pub open: Option<String>,
}

/// Presence of thoughts at the start of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Thoughts {
    /// The answer has no thoughts.
    None,
    /// The answer may start with thoughts.
    Possible,
    /// The prompt ends inside the thoughts.
    Begun,
    /// The prompt ends inside the content, so the answer has no thoughts.
    InContent,
}

impl ChatFormat {
    /// Detects the format in which `template` writes an assistant's answers.
    pub fn of(template: &dyn ChatTemplate, vocabulary: &Vocabulary) -> Self {
        let controls = tags::controls(vocabulary);
        let spelling = |token: &TokenId| String::from_utf8_lossy(vocabulary.bytes(*token)).into_owned();
        let ends: Vec<String> =
            vocabulary.ends().iter().map(spelling).filter(|end| !end.is_empty()).collect();
        let probe = Probe::new(template, &ends);
        // Without a trigger, a grammar could not find the end of thoughts.
        let response = template.response_template().and_then(ResponseTemplate::of);
        let thoughts = thoughts(&probe, template.source(), response, &controls);
        let mut thoughts = thoughts.filter(|tags| tags.close.trigger().is_some());
        let before_words = probe.before_words().unwrap_or_default();
        let closes_alone = |tags: &&mut Tags| before_words.trim() == tags.close.text();
        let alone = thoughts.as_mut().filter(closes_alone);
        let no_thoughts = if let Some(tags) = alone {
            tags.closes_alone = true;
            Some(before_words.clone())
        } else {
            // An empty `<think>` is known to the probe.
            let others = thoughts.as_ref().filter(|tags| tags.close.text() != "</think>");
            others.map(|tags| format!("{}{}", tags.open.text(), tags.close.text()))
        };
        let probe = probe.without_thoughts(no_thoughts);
        let before_words = probe.before_words().unwrap_or_default();
        let harmony = Harmony::of(&before_words, vocabulary);
        let calls = probe.calls(&controls).and_then(|calls| {
            let format = CallFormat::of(&calls, &before_words, &controls).with_section(&probe, &controls);
            if format.is_usable() { Ok((format, calls)) } else { Err(JsonReason::LikeText) }
        });
        let found = calls.as_ref().ok().map(|(format, _)| format);
        let own = response.filter(|_| found.is_none()).and_then(|response| response.calls(&controls, &ends));
        let own = own.filter(CallFormat::is_usable);
        let named = own
            .map(|format| (format, WrittenCalls::of(&probe)))
            .or_else(|| named::of(&probe, template.source(), &controls, found));
        let system = probe.has_system();
        let thinking = ThinkingVariables::of(&|variables| probe.prompt_with(variables), harmony.is_some());
        let none = Numbering::default();
        let (calls, native, written, numbering, reason) = match (calls, named) {
            (_, Some((format, written))) => (format, None, Some(written), none, None),
            (Ok((format, calls)), None) => (format, Some(calls.native), None, calls.numbering, None),
            (Err(reason), None) => (CallFormat::fallback(), None, None, none, Some(reason)),
        };
        Self { calls, native, reason, numbering, written, system, thoughts, thinking, harmony, ends }
    }

    /// Determines whether the answer to `prompt` has no thoughts, may start with thoughts, or
    /// continues thoughts that the prompt began. `prompt` is the rendered template.
    pub fn thoughts(&self, prompt: &str) -> Thoughts {
        if self.harmony.is_some() {
            return Thoughts::Possible;
        }
        let end = prompt.trim_end();
        if self.calls.section.as_ref().is_some_and(|section| end.ends_with(&section.tags.open.text())) {
            return Thoughts::InContent;
        }
        let Some(tags) = &self.thoughts else { return Thoughts::None };
        if end.ends_with(tags.open.text().trim()) {
            Thoughts::Begun
        } else if end.ends_with(tags.close.text().trim()) {
            Thoughts::None
        } else {
            Thoughts::Possible
        }
    }

    /// Ends thoughts that a prompt began, if the variable `enable_thinking` of `input` is false.
    ///
    /// Some templates cannot switch thoughts off. A model that opens its thoughts itself may still think.
    #[must_use]
    pub fn without_begun_thoughts(&self, mut prompt: String, input: &ChatInput) -> String {
        let is_off = input.variables.get("enable_thinking") == Some(&Value::Bool(false));
        if let (true, Thoughts::Begun, Some(close)) = (is_off, self.thoughts(&prompt), self.thoughts_close())
        {
            prompt.push_str(&close);
            prompt.push_str(&self.content_after_thoughts());
        }
        prompt
    }

    /// Returns the start of an answer whose content starts with `content`. Returns `None` if the format
    /// has no place for such a start.
    pub fn begun(&self, content: &str) -> Option<String> {
        self.harmony.is_none().then(|| format!("{}{content}", self.calls.content_open))
    }

    /// Returns the text between a prompt and the content of an answer without thoughts.
    pub fn content_open(&self, prompt: &str) -> String {
        match (&self.harmony, &self.calls.section) {
            (Some(_), _) => Harmony::FINAL.to_owned(),
            (None, Some(section)) if self.thoughts(prompt) != Thoughts::InContent => section.tags.open.text(),
            (None, Some(_)) => String::new(),
            (None, None) => self.calls.content_open.clone(),
        }
    }

    /// Returns what marks the start of the content of an answer to `prompt`. Returns `None` if the answer begins
    /// with its content.
    pub fn content_mark(&self, prompt: &str, thoughts: Thoughts) -> Option<ContentMark> {
        let content_open = self.content_open(prompt);
        if !content_open.trim().is_empty() {
            return Some(ContentMark { close: content_open.trim().to_owned(), open: None });
        }
        let tags = self.thoughts.as_ref()?;
        let open = match thoughts {
            Thoughts::Begun => None,
            Thoughts::Possible => Some(tags.open.text().trim().to_owned()),
            Thoughts::None | Thoughts::InContent => return None,
        };
        Some(ContentMark { close: tags.close.text().trim().to_owned(), open })
    }

    /// Returns the text between the end of thoughts and content.
    pub fn content_after_thoughts(&self) -> String {
        match (&self.harmony, &self.calls.section) {
            (Some(_), _) => format!("{}{}", Harmony::START, Harmony::FINAL),
            (None, Some(section)) => section.tags.open.text(),
            (None, None) => format!("\n\n{}", self.calls.content_open),
        }
    }

    /// Determines the thoughts of an answer whose content is begun after `prompt`. Like
    /// [`thoughts`](Self::thoughts), except that begun content may itself start with thoughts.
    pub fn thoughts_before(&self, prompt: &str, begun: &str) -> Thoughts {
        match self.thoughts(prompt) {
            Thoughts::Possible
                if !self
                    .thoughts
                    .as_ref()
                    .is_some_and(|tags| begun.trim_start().starts_with(tags.open.text().trim())) =>
            {
                Thoughts::None
            }
            thoughts => thoughts,
        }
    }

    /// Returns the text to append to a prompt so that the answer starts inside the thoughts. Returns
    /// `None` if the model has no thoughts.
    pub fn thoughts_open(&self) -> Option<String> {
        match &self.harmony {
            Some(_) => Some(Harmony::ANALYSIS.to_owned()),
            None => self.thoughts.as_ref().map(|tags| tags.open.text() + "\n"),
        }
    }

    /// Returns the text that ends thoughts, for cutting them short. Returns `None` if the model has
    /// no thoughts.
    pub fn thoughts_close(&self) -> Option<String> {
        match &self.harmony {
            Some(_) => Some(Harmony::END.to_owned()),
            None => self.thoughts.as_ref().map(|tags| tags.close.text()),
        }
    }

    /// Returns true if the model's template writes the declarations of tools into the prompt. If
    /// false, [`input`](Self::input) describes the tools in the system message.
    pub fn declares_tools(&self) -> bool {
        self.native.is_some_and(|native| native.declares_tools)
            || self.written.is_some_and(|written| written.declares_tools)
    }

    /// Returns the same format with calls as JSON in `<tool_call>` tags.
    ///
    /// Used for tools whose arguments the model's own format cannot express.
    #[must_use]
    pub fn with_json_calls(&self) -> Self {
        let calls = CallFormat { section: self.calls.section.clone(), ..CallFormat::fallback() };
        Self { calls, ..self.clone() }
    }

    /// Returns true if the arguments of calls are not JSON.
    pub fn has_own_arguments(&self) -> bool {
        self.harmony.is_none() && self.calls.arguments != Arguments::Json
    }

    /// Returns false if a tool certainly needs [JSON calls](Self::with_json_calls): the grammar of a
    /// custom tool describes the text of a JSON string.
    pub fn can_write(&self, tools: &Tools) -> bool {
        let has_grammar = |tool: &Tool| matches!(tool.custom, Some(CustomInput::Grammar { .. }));
        !self.has_own_arguments() || !tools.tools.iter().any(has_grammar)
    }

    /// Returns the id of a call after `calls` earlier calls of the conversation. Returns `None` if the
    /// format has no ids of its own.
    ///
    /// Models copy the ids of earlier calls, so calls should get the ids that the template writes.
    pub fn call_id(&self, name: &str, calls: u32) -> Option<String> {
        let ids = self.numbering.ids.as_ref()?;
        Some(ids.id(name, self.numbering.after(calls)))
    }

    /// Returns the layout of calls in an answer that may have content as well. `shaped` is true if
    /// a grammar constrains the content.
    ///
    /// If the model's calls are JSON without an opening, shaped content could look like a call. In
    /// this case, the layout has `<tool_call>` tags.
    pub(crate) fn calls_beside(&self, shaped: bool) -> CallFormat {
        let is_bare = self.calls.content_open.is_empty() && self.calls.trigger().is_none();
        if is_bare && shaped { CallFormat::fallback() } else { self.calls.clone() }
    }
}

/// Tags around thoughts of models whose templates do not show them in rendered messages.
const THOUGHT_TAGS: [(&str, &str); 4] = [
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought", "<channel|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
];

/// Returns the tags around thoughts. `None` if there are none. The first of these counts:
///
/// - tags that the template writes around a thought;
/// - `<think>` and `</think>`, if a rendered prompt has them;
/// - tags of the response template;
/// - control tokens that the template mentions.
fn thoughts(
    probe: &Probe<'_>,
    source: Option<&str>,
    response: Option<ResponseTemplate<'_>>,
    controls: &[(TokenId, String)],
) -> Option<Tags> {
    let tags = |open: &str, close: &str| Tags {
        open: Marked::new(open, controls),
        close: Marked::new(close, controls),
        closes_alone: false,
    };
    let around = probe.around_thought();
    // The prompt may have the opening.
    let header = probe.header().unwrap_or_default();
    let section = around.as_ref().and_then(|(open, close)| section_tags(&format!("{header}{open}"), close));
    if let Some((open, close)) = section {
        return Some(tags(&open, close));
    }
    let around = around.as_ref().and_then(|(open, close)| {
        let close = first_tag(close)?;
        let begun = || open.trim().is_empty().then(|| opening_of(close, &header)).flatten();
        Some((opening_tag(open).map(str::to_owned).or_else(begun)?, close))
    });
    let begun = header.contains("<think>");
    let written = probe.before_words().filter(|before| before.contains("</think>"));
    let is_mentioned = |(_, close): &(&str, &str)| {
        source.is_some_and(|source| source.contains(close))
            && controls.iter().any(|(_, spelling)| spelling == close)
    };
    match around {
        Some((open, close)) => Some(tags(&open, close)),
        None if begun || written.is_some() || probe.can_forgo_thoughts() => Some(tags("<think>", "</think>")),
        None => {
            let read = response.and_then(ResponseTemplate::thoughts).map(|(open, close)| tags(&open, &close));
            let mentioned = || THOUGHT_TAGS.into_iter().find(is_mentioned);
            read.or_else(|| mentioned().map(|(open, close)| tags(open, close)))
        }
    }
}

/// Returns the opening and the closing of a section between `before` and `after`. Both have the name of the
/// section between two tags, as in `<|open|>response<|sep|>` and `<|close|>response<|sep|>`.
fn section_tags<'t>(before: &str, after: &'t str) -> Option<(String, &'t str)> {
    let last = |text: &str| text.rfind('<').filter(|_| text.ends_with('>'));
    let before = before.trim_end();
    let separator = last(before)?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = before[..separator].trim_end_matches(is_name).len();
    let start = last(&before[..name])?;
    let rest = after.trim_start();
    let len = first_tag(rest)?.len() + before.len() - name;
    let is_closed = name < separator && rest[first_tag(rest)?.len()..].starts_with(&before[name..]);
    is_closed.then(|| (before[start..].to_owned(), &rest[..len]))
}

/// Returns the opening tag for a closing tag, such as `<think>` for `</think>`, if the `header` contains it.
fn opening_of(close: &str, header: &str) -> Option<String> {
    let open = close.replacen('/', "", 1);
    (open != close && header.contains(&open)).then_some(open)
}

/// Returns the tag that `text` consists of, possibly followed by the name of a channel.
fn opening_tag(text: &str) -> Option<&str> {
    let text = text.trim();
    let tag = first_tag(text)?;
    let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name(&text[tag.len()..]).then_some(text)
}

/// Returns the tag at the start of `text`, such as `</think>`.
fn first_tag(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let close = match text.chars().next()? {
        '<' => '>',
        '[' => ']',
        _ => return None,
    };
    let end = text.find(close)?;
    (!text[1..end].contains(['<', '[', '\n', ' '])).then_some(&text[..=end])
}

impl CallFormat {
    fn of(calls: &Calls, before_words: &str, controls: &[(TokenId, String)]) -> Self {
        let marked = |text: &str| Marked::new(text, controls);
        let open = marked(calls.open.trim_start());
        let content_open = if open.0.is_empty() { before_words.to_owned() } else { String::new() };
        Self {
            open,
            between: marked(&calls.between),
            separator: calls.separator.as_deref().map(marked),
            close: marked(&calls.close),
            turn_end: Marked::new(&calls.turn_end, controls).only_tokens(),
            arguments: calls.arguments.clone(),
            content_open,
            section: None,
        }
    }

    /// Returns the same layout with the section of content, if the template has one.
    fn with_section(mut self, probe: &Probe<'_>, controls: &[(TokenId, String)]) -> Self {
        let Some((before, after)) = probe.around_words() else { return self };
        let Some((open, close)) = section_tags(&before, &after) else { return self };
        // Before calls, the section is empty.
        let all = self.open.text();
        let empty = format!("{open}{close}");
        let Some((_, calls)) = all.rsplit_once(&empty).filter(|(_, calls)| !calls.is_empty()) else {
            return self;
        };
        let at = all.len() - calls.len();
        let end = after.trim_start().strip_prefix(close).unwrap_or_default();
        let marked = |text: &str| Marked::new(text, controls);
        self.open = self.open.without_start(at);
        let tags = Tags { open: marked(&open), close: marked(close), closes_alone: false };
        self.section = Some(Section { tags, end: marked(end) });
        self
    }

    /// Returns the layout for templates that do not support calls: a JSON object in tags.
    pub(crate) fn fallback() -> Self {
        let text = |text: &str| Marked::new(text, &[]);
        Self {
            open: text("<tool_call>\n{\"name\": \""),
            between: text("\", \"arguments\": "),
            separator: Some(text("}\n</tool_call>\n<tool_call>\n{\"name\": \"")),
            close: text("}\n</tool_call>"),
            turn_end: Marked::default(),
            arguments: Arguments::Json,
            content_open: String::new(),
            section: None,
        }
    }

    /// Returns true if calls can be distinguished from content.
    fn is_usable(&self) -> bool {
        !self.open.0.is_empty() || (!self.content_open.is_empty() && self.separator.is_some())
    }

    /// Returns the bracket with which calls begin that have no [trigger](Self::trigger).
    pub(crate) fn bracket(&self) -> char {
        self.open.text().chars().next().unwrap_or('{')
    }

    /// Returns the trigger that ends content and starts a call, and the text between the trigger
    /// and the name. Returns `None` if calls cannot be recognized inside content.
    pub(crate) fn trigger(&self) -> Option<(Trigger, Marked)> {
        match &self.separator {
            Some(separator) if self.open.0.is_empty() => separator.trigger(),
            _ => self.open.trigger(),
        }
    }
}
