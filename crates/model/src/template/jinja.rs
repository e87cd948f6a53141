use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::SystemTime;

use formwork_lm::{ChatInput, ChatTemplate, Message, TemplateError};
use formwork_vocab::Tokenizer;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, Value};

use super::{clock, json, lists, python};

/// Maximum number of steps of minijinja in one rendering. This number takes about one second.
///
/// Most known templates take 20 to 70 steps for each message. One template scans the whole
/// conversation for each message, so a thousand messages take 3.7 million steps.
const MAX_STEPS: u64 = 20_000_000;

/// Maximum size of a template's source in bytes. [`MAX_OUTPUT`] is the maximum size of a rendered
/// text.
const MAX_SOURCE: usize = 1 << 20;
const MAX_OUTPUT: usize = 64 << 20;

/// Maximum nesting depth of blocks and macro calls. minijinja counts a macro call as about 10
/// levels. In unoptimised builds, this depth fits the 2 MiB stack of a spawned thread.
const MAX_RECURSION: usize = 250;

const NAME: &str = "chat";

/// Chat template of a model, written in Jinja.
///
/// Templates can use the variables that `transformers` defines: `messages`,
/// `add_generation_prompt`, `bos_token`, `eos_token`, `tools` and `documents`. The last two are
/// `none` unless the input sets them. The input can define further variables.
///
/// A template that writes contents only if they are lists of parts gets such lists.
///
/// The function `strftime_now` uses 1 January 2025, or the time given to
/// [`with_now`](Self::with_now). Equal inputs therefore always give equal prompts.
///
/// ```
/// use formwork_lm::{ChatInput, ChatTemplate, Message};
/// use formwork_model::template::JinjaTemplate;
/// let source = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}";
/// let template = JinjaTemplate::new(source, Some("<s>"), Some("</s>"))?;
/// let messages = vec![Message::new("user", "Hello")];
/// assert_eq!(template.render(&ChatInput { messages, ..ChatInput::default() })?, "<s>[user] Hello\n");
/// # Ok::<(), formwork_lm::TemplateError>(())
/// ```
#[derive(Clone)]
pub struct JinjaTemplate {
    environment: Environment<'static>,
    source: String,
    bos: Option<String>,
    eos: Option<String>,
    /// True if contents are passed as lists of parts.
    has_parts: bool,
    response_template: Option<serde_json::Value>,
}

impl JinjaTemplate {
    /// Compiles the template `source` with the texts of the tokens that start and end a sequence.
    ///
    /// # Errors
    /// Returns an error in the cases of [`new`](Self::new).
    pub fn for_tokenizer(source: &str, tokenizer: &Tokenizer) -> Result<Self, TemplateError> {
        let vocabulary = tokenizer.vocabulary();
        let text = |token| String::from_utf8_lossy(vocabulary.bytes(token)).into_owned();
        let bos = tokenizer.bos().map(text);
        let eos = tokenizer.eos().or_else(|| vocabulary.ends().first().copied()).map(text);
        Self::new(source, bos.as_deref(), eos.as_deref())
    }

    /// Compiles the template `source`.
    ///
    /// `bos` and `eos` are the texts of the tokens that start and end a sequence. If one of them is
    /// `None`, the variable `bos_token` or `eos_token` is undefined.
    ///
    /// # Errors
    /// Returns an error if the source is larger than 1 MiB or is not a valid template. For an
    /// invalid template, the error contains the line number.
    pub fn new(source: &str, bos: Option<&str>, eos: Option<&str>) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE {
            let message =
                format!("the source has {} bytes, more than the limit of {MAX_SOURCE}", source.len());
            return Err(TemplateError { message, line: None });
        }
        let source = without_generation_tags(&source.replace("\r\n", "\n").replace('\r', "\n"));
        let mut environment = Environment::new();
        let source = match lists::with_lists(&source) {
            Some(source) => {
                lists::add_to(&mut environment);
                source
            }
            None => source,
        };
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| described(&error, &source))?);
        environment.set_unknown_method_callback(python::method);
        environment.add_test("iterable", python::is_iterable);
        environment.add_test("sequence", python::is_sequence);
        environment.set_fuel(Some(MAX_STEPS));
        environment.set_recursion_limit(MAX_RECURSION);
        environment.set_debug(true);
        environment.add_filter("tojson", json::tojson);
        environment.add_function("raise_exception", raise_exception);
        add_clock(&mut environment, clock::default_now());
        let compiled = environment.add_template_owned(NAME, source.clone());
        compiled.map_err(|error| described(&error, &source))?;
        let (bos, eos) = (bos.map(Into::into), eos.map(Into::into));
        let mut template = Self { environment, source, bos, eos, has_parts: false, response_template: None };
        if !template.writes_contents() {
            template.has_parts = true;
            template.has_parts = template.writes_contents();
        }
        Ok(template)
    }

    /// Returns true if a prompt has the content of its message.
    fn writes_contents(&self) -> bool {
        const TEXT: &str = "probewords";
        let input = ChatInput { messages: vec![Message::new("user", TEXT)], ..ChatInput::default() };
        self.render(&input).is_ok_and(|prompt| prompt.contains(TEXT))
    }

    /// Sets the time that `strftime_now` formats, in UTC.
    #[must_use]
    pub fn with_now(mut self, now: SystemTime) -> Self {
        add_clock(&mut self.environment, now);
        self
    }

    /// Sets the `response_template` of the tokenizer's configuration.
    #[must_use]
    pub fn with_response_template(self, response_template: Option<serde_json::Value>) -> Self {
        Self { response_template, ..self }
    }

    /// Returns the source that was compiled. Compared to the original source, line endings are
    /// normalised, `generation` tags are replaced, and lists may be wrapped in calls.
    pub fn source(&self) -> &str {
        &self.source
    }

    fn variables(&self, input: &ChatInput) -> Result<Value, TemplateError> {
        let mut variables = BTreeMap::new();
        variables.insert("tools", Value::from(()));
        variables.insert("documents", Value::from(()));
        for (name, token) in [("bos_token", &self.bos), ("eos_token", &self.eos)] {
            if let Some(token) = token {
                variables.insert(name, Value::from(token.as_str()));
            }
        }
        for (name, value) in &input.variables {
            if matches!(name.as_str(), "messages" | "add_generation_prompt") {
                let message = format!("variable {name} is reserved for the conversation");
                return Err(TemplateError { message, line: None });
            }
            variables.insert(name, Value::from(Serde(value)));
        }
        let messages = if self.has_parts {
            let messages: Vec<_> = input.messages.iter().map(with_parts).collect();
            Value::from(Serde(messages))
        } else {
            Value::from(Serde(&input.messages))
        };
        variables.insert("messages", messages);
        variables.insert("add_generation_prompt", Value::from(input.add_generation_prompt));
        Ok(Value::from_pairs(variables))
    }
}

impl fmt::Debug for JinjaTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JinjaTemplate").field("source", &self.source).finish_non_exhaustive()
    }
}

impl ChatTemplate for JinjaTemplate {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let described = |error: Error| described(&error, &self.source);
        let template = self.environment.get_template(NAME).map_err(described)?;
        let mut text = Bounded(Vec::new());
        template.render_captured_to(self.variables(input)?, &mut text).map_err(described)?;
        String::from_utf8(text.0).map_err(|error| TemplateError { message: error.to_string(), line: None })
    }

    fn source(&self) -> Option<&str> {
        Some(&self.source)
    }

    fn response_template(&self) -> Option<&serde_json::Value> {
        self.response_template.as_ref()
    }
}

/// Buffer that refuses to grow beyond [`MAX_OUTPUT`] bytes.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::Error::other(format!(
                "the rendered text exceeds the limit of {MAX_OUTPUT} bytes"
            )));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Error that a template has raised by calling `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// Returns a message whose content is a list with a part for its text, if it has text.
fn with_parts(message: &Message) -> serde_json::Value {
    let text = message.content.iter().filter(|text| !text.is_empty());
    let content = text.map(|text| serde_json::json!({ "type": "text", "text": text }));
    let mut members = message.fields.clone();
    members.insert("role".to_owned(), message.role.as_str().into());
    members.insert("content".to_owned(), content.collect());
    members.into()
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

fn add_clock(environment: &mut Environment<'static>, now: SystemTime) {
    environment.add_function("strftime_now", move |format: &str| {
        clock::strftime(now, format).map_err(|directive| {
            Error::new(ErrorKind::InvalidOperation, format!("strftime_now does not support {directive}"))
        })
    });
}

/// Converts an error of minijinja to a message of one line, which describes the innermost cause.
/// The message contains the failing expression, if known.
fn described(error: &Error, source: &str) -> TemplateError {
    let mut innermost = error;
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(Raised(message)) = current.downcast_ref() {
            return TemplateError { message: message.clone(), line: innermost.line() };
        }
        if let Some(current) = current.downcast_ref::<Error>() {
            innermost = current;
        }
        cause = current.source();
    }
    let mut message = innermost.kind().to_string();
    let foreign = std::error::Error::source(innermost).map(ToString::to_string);
    for detail in innermost.detail().map(ToOwned::to_owned).into_iter().chain(foreign) {
        message = format!("{message}: {detail}");
    }
    let place = innermost.range().and_then(|range| source.get(range)).map(str::trim);
    if let Some(place) = place.filter(|place| !place.is_empty() && place.len() <= 80 && !place.contains('\n'))
    {
        message = format!("{message}, at `{place}`");
    }
    TemplateError { message, line: innermost.line().or(error.line()) }
}

/// Replaces each `generation` block by a block `if true`. `transformers` uses `generation` blocks
/// to mark the assistant's text for training.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        out.push_str(before);
        rest = tag;
        let Some(end) = tag.find("%}") else { break };
        let words = tag[..end].trim_matches(['-', '+']).trim();
        if let Some(plain) = match words {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        } {
            out.push_str(&tag[..end].replace(words, plain));
            rest = &tag[end..];
        }
    }
    out.push_str(rest);
    out
}
