use formwork_grammar::Trigger;
use formwork_lm::ChatTemplate;
use formwork_vocab::{TokenId, Vocabulary};

use crate::harmony::Harmony;
use crate::probe::{Calls, Probe};
use crate::tags::{self, Marked};

/// How a model writes answers. See the [module](crate) documentation.
#[derive(Clone, Debug)]
pub struct ChatFormat {
    pub(crate) calls: CallFormat,
    /// Whether the template writes tools, calls and results, and how it wants arguments; else this crate does.
    pub(crate) native: Option<Native>,
    /// Whether the template writes what the system says; else the first user does.
    pub(crate) system: bool,
    pub(crate) thoughts: Option<Tags>,
    pub(crate) harmony: Option<Harmony>,
}

/// What a template that knows calls wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is found out by itself")]
pub(crate) struct Native {
    /// Whether it writes down which tools there are.
    pub(crate) declares_tools: bool,
    /// Whether it wants arguments as text, rather than as an object.
    pub(crate) arguments_as_text: bool,
    /// Whether it insists on ids of nine letters and digits.
    pub(crate) short_ids: bool,
    /// Whether it wants no content, rather than an empty one, where there are only calls.
    pub(crate) null_content: bool,
}

/// How calls are written: `open name between arguments (separator name between arguments)* close`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CallFormat {
    pub(crate) open: Marked,
    pub(crate) between: Marked,
    pub(crate) separator: Option<Marked>,
    pub(crate) close: Marked,
    /// What comes before content where calls have no opening of their own.
    pub(crate) content_open: String,
}

/// What thoughts are between.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tags {
    pub(crate) open: Marked,
    pub(crate) close: Marked,
}

/// Whether an answer begins with thoughts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Thoughts {
    /// It does not.
    None,
    /// It may.
    Possible,
    /// The prompt ends in the middle of them.
    Begun,
}

impl ChatFormat {
    /// Finds out how `template` writes answers.
    pub fn of(template: &dyn ChatTemplate, vocabulary: &Vocabulary) -> Self {
        let controls = tags::controls(vocabulary);
        let spelling = |token: &TokenId| String::from_utf8_lossy(vocabulary.bytes(*token)).into_owned();
        let ends: Vec<String> =
            vocabulary.ends().iter().map(spelling).filter(|end| !end.is_empty()).collect();
        let probe = Probe::new(template, &ends);
        let before_words = probe.before_words().unwrap_or_default();
        let harmony = Harmony::of(&before_words, vocabulary);
        let calls = probe.calls().map(|calls| (CallFormat::of(&calls, &before_words, &controls), calls));
        let calls = calls.filter(|(format, _)| format.is_usable());
        let (format, native) = match calls {
            Some((format, calls)) => (format, Some(calls.native)),
            None => (CallFormat::fallback(), None),
        };
        let thoughts = thoughts(&probe, &controls);
        Self { calls: format, native, system: probe.has_system(), thoughts, harmony }
    }

    /// Whether an answer to this prompt begins with thoughts.
    pub fn thoughts(&self, prompt: &str) -> Thoughts {
        if self.harmony.is_some() {
            return Thoughts::Possible;
        }
        let Some(tags) = &self.thoughts else { return Thoughts::None };
        let end = prompt.trim_end();
        if end.ends_with(tags.open.text().trim()) {
            Thoughts::Begun
        } else if end.ends_with(tags.close.text().trim()) {
            Thoughts::None
        } else {
            Thoughts::Possible
        }
    }

    /// What a prompt goes on with so that the answer begins in the middle of thoughts; nothing where the model has none, or its
    /// format has no such text.
    pub fn thoughts_open(&self) -> Option<String> {
        self.thoughts.as_ref().filter(|_| self.harmony.is_none()).map(|tags| tags.open.text() + "\n")
    }

    /// The text that ends thoughts, for a model that must come to an end with them.
    pub fn thoughts_close(&self) -> Option<String> {
        match &self.harmony {
            Some(_) => Some(Harmony::END.to_owned()),
            None => self.thoughts.as_ref().map(|tags| tags.close.text()),
        }
    }

    /// Whether the model's template declares tools; else they are described in the system message.
    pub fn declares_tools(&self) -> bool {
        self.native.is_some_and(|native| native.declares_tools)
    }

    /// How calls are written beside content that has a shape, or is free. Where calls are bare JSON and content may be, too, calls
    /// are put into tags: there is no other way to tell them apart.
    pub(crate) fn calls_beside(&self, shaped: bool) -> CallFormat {
        let is_bare = self.calls.content_open.is_empty() && self.calls.trigger().is_none();
        if is_bare && shaped { CallFormat::fallback() } else { self.calls.clone() }
    }
}

/// Tags for thoughts that the template writes, or looks for.
fn thoughts(probe: &Probe<'_>, controls: &[(TokenId, String)]) -> Option<Tags> {
    let tags = |open: &str, close: &str| Tags {
        open: Marked::new(open.trim(), controls),
        close: Marked::new(close.trim(), controls),
    };
    let around = probe.around_thought().filter(|(open, close)| is_tag(open) && is_tag(close));
    let begun = probe.header().filter(|header| header.contains("<think>"));
    let written = probe.before_words().filter(|before| before.contains("</think>"));
    match around {
        Some((open, close)) => Some(tags(&open, &close)),
        None => (begun.is_some() || written.is_some() || probe.can_forgo_thoughts())
            .then(|| tags("<think>", "</think>")),
    }
}

fn is_tag(text: &str) -> bool {
    let text = text.trim();
    text.starts_with('<') && text.ends_with('>') && text.matches('<').count() == 1
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
            content_open,
        }
    }

    /// What any model can be told: a JSON object in tags.
    fn fallback() -> Self {
        let text = |text: &str| Marked::new(text, &[]);
        Self {
            open: text("<tool_call>\n{\"name\": \""),
            between: text("\", \"arguments\": "),
            separator: Some(text("}\n</tool_call>\n<tool_call>\n{\"name\": \"")),
            close: text("}\n</tool_call>"),
            content_open: String::new(),
        }
    }

    /// Whether content can be told from calls.
    fn is_usable(&self) -> bool {
        !self.open.0.is_empty() || (!self.content_open.is_empty() && self.separator.is_some())
    }

    /// What begins calls in the midst of content, and what of their opening is left then.
    pub(crate) fn trigger(&self) -> Option<(Trigger, Marked)> {
        match &self.separator {
            Some(separator) if self.open.0.is_empty() => separator.trigger(),
            _ => self.open.trigger(),
        }
    }
}
