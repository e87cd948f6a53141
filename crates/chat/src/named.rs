//! Formats of calls that templates do not show.
//!
//! Some templates write no calls, or write them in another way than the model does. For these models the
//! table [`NAMED`] has the format. An entry applies if the vocabulary has the entry's control tokens and the
//! template has the entry's texts. The name of a model never counts.
//!
//! `SmolLM3` and ERNIE 4.5 need no entry: their form is the one for unknown models, JSON in `<tool_call>`
//! tags.

use formwork_lm::Message;
use formwork_vocab::TokenId;
use serde_json::{Value, json};

use crate::arguments::{Arguments, NestedForm, StringForm, layout};
use crate::conversation::plain;
use crate::format::CallFormat;
use crate::probe::Probe;
use crate::tags::Marked;

/// A format of calls, and the marks of the models that use it.
struct Named {
    /// Control tokens that the vocabulary must have.
    tokens: &'static [&'static str],
    /// Texts that the template must have.
    texts: &'static [&'static str],
    /// True if the format counts although the template writes calls.
    replaces: bool,
    /// Text before the first name.
    open: &'static str,
    /// Text between a name and its arguments.
    between: &'static str,
    /// Text between two calls. `None` if a turn has one call.
    separator: Option<&'static str>,
    /// Text after the last arguments.
    close: &'static str,
    arguments: Form<'static>,
}

/// Form of the arguments of a call.
pub(crate) enum Form<'t> {
    Json,
    /// `a='b', n=3`, with JSON in arrays and objects.
    Python,
    /// `a="b", n=3`, with JSON in arrays and objects.
    Keywords,
    /// Bare names, and strings between two of these quotes.
    Quoted(&'t str),
    /// Raw values, with the texts before a name, before a value and after a value.
    Raw([&'t str; 3]),
}

/// All named formats. Of several that apply, the first counts.
const NAMED: [Named; 9] = [
    // Granite 3.0 to 3.3. The template asks for "<|tool_call|> followed by a JSON list"; vLLM's parser
    // `granite` has the names of the members.
    Named {
        tokens: &["<|tool_call|>"],
        texts: &["available_tools"],
        replaces: false,
        open: "<|tool_call|>[{\"name\": \"",
        between: "\", \"arguments\": ",
        separator: Some("}, {\"name\": \""),
        close: "}]",
        arguments: Form::Json,
    },
    // Phi-4-mini. vLLM's `tool_chat_template_phi4_mini.jinja` asks for this form, without a closing mark,
    // but writes earlier calls without `functools` and brackets.
    Named {
        tokens: &[],
        texts: &["functools["],
        replaces: true,
        open: "functools[{\"name\": \"",
        between: "\", \"arguments\": ",
        separator: Some("}, {\"name\": \""),
        close: "}]",
        arguments: Form::Json,
    },
    // Hunyuan-A13B. The template asks for this form; see vLLM's `tool_chat_template_hunyuan_a13b.jinja`.
    Named {
        tokens: &[],
        texts: &["<tool_calls>[{\"name\":"],
        replaces: false,
        open: "<tool_calls>[{\"name\": \"",
        between: "\", \"arguments\": ",
        separator: Some("}, {\"name\": \""),
        close: "}]</tool_calls>",
        arguments: Form::Json,
    },
    // Llama 4, Llama 3.2, ToolACE and others whose template asks for a list of Python calls. vLLM's templates
    // for them ask for this form, but write the values of earlier calls without their types.
    Named {
        tokens: &[],
        texts: &["[func_name1(param"],
        replaces: false,
        open: "[",
        between: "(",
        separator: Some("), "),
        close: ")]",
        arguments: Form::Keywords,
    },
    // LFM2 and LFM2.5 with templates without calls. The form is that of TRL's `lfm2_v2.jinja`, which
    // writes calls.
    Named {
        tokens: &["<|tool_call_start|>", "<|tool_call_end|>"],
        texts: &[],
        replaces: false,
        open: "<|tool_call_start|>[",
        between: "(",
        separator: Some("), "),
        close: ")]<|tool_call_end|>",
        arguments: Form::Python,
    },
    // InternLM 2. The form is that of its technical documentation; vLLM's parser `internlm` reads it.
    Named {
        tokens: &["<|action_start|>", "<|plugin|>", "<|action_end|>"],
        texts: &[],
        replaces: false,
        open: "<|action_start|><|plugin|>\n{\"name\": \"",
        between: "\", \"parameters\": ",
        separator: None,
        close: "}<|action_end|>",
        arguments: Form::Json,
    },
    // GigaChat 3. vLLM's parser `gigachat3` reads one JSON object after the token.
    Named {
        tokens: &["<|function_call|>", "<|message_sep|>", "<|role_sep|>"],
        texts: &[],
        replaces: false,
        open: "<|function_call|>{\"name\": \"",
        between: "\", \"arguments\": ",
        separator: None,
        close: "}",
        arguments: Form::Json,
    },
    // FunctionGemma. Google's page "FunctionGemma formatting and best practices" has the form.
    Named {
        tokens: &["<start_function_call>", "<end_function_call>", "<escape>"],
        texts: &[],
        replaces: false,
        open: "<start_function_call>call:",
        between: "{",
        separator: Some("}<end_function_call><start_function_call>call:"),
        close: "}<end_function_call>",
        arguments: Form::Quoted("<escape>"),
    },
    // Step 3. vLLM's parser `step3` reads this form.
    Named {
        tokens: &["<｜tool_calls_begin｜>", "<｜tool_call_begin｜>", "<｜tool_sep｜>"],
        texts: &[],
        replaces: false,
        open: "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"",
        between: "\">",
        separator: Some(
            "</steptml:invoke><｜tool_call_end｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"",
        ),
        close: "</steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
        arguments: Form::Raw(["<steptml:parameter name=\"", "\">", "</steptml:parameter>"]),
    },
];

/// Conversations with a named format, whose calls are part of a message's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WrittenCalls {
    /// True if the template writes the declarations of the tools into the prompt.
    pub(crate) declares_tools: bool,
    /// True if the template writes messages with the role `tool`.
    has_results: bool,
}

/// Returns the named format that applies to a model, or `None`. `found` is the format that the template writes.
pub(crate) fn of(
    probe: &Probe<'_>,
    source: Option<&str>,
    controls: &[(TokenId, String)],
    found: Option<&CallFormat>,
) -> Option<(CallFormat, WrittenCalls)> {
    let has_token = |token: &&str| controls.iter().any(|(_, spelling)| spelling == token);
    let has_text = |text: &&str| source.is_some_and(|source| source.contains(*text));
    let applies = |named: &&Named| named.tokens.iter().all(has_token) && named.texts.iter().all(has_text);
    let named = NAMED.iter().find(applies)?;
    let format = named.format(controls);
    // What the template writes counts, unless it is known to be wrong.
    if found.is_some_and(|found| !named.replaces || found.open.trigger() == format.open.trigger()) {
        return None;
    }
    Some((format, WrittenCalls::of(probe)))
}

impl Named {
    fn format(&self, controls: &[(TokenId, String)]) -> CallFormat {
        let marked = |text: &str| Marked::new(text, controls);
        CallFormat {
            arguments: self.arguments.layout(controls),
            open: marked(self.open),
            between: marked(self.between),
            separator: self.separator.map(marked),
            close: marked(self.close),
            ..CallFormat::fallback()
        }
    }
}

impl Form<'_> {
    pub(crate) fn layout(&self, controls: &[(TokenId, String)]) -> Arguments {
        let python = ["None", "False", "True"];
        let json = ["null", "false", "true"];
        match self {
            Self::Json => Arguments::Json,
            Self::Python => {
                layout(["", ", ", "=", ""], StringForm::Python, python, NestedForm::Json, controls)
            }
            Self::Keywords => {
                layout(["", ", ", "=", ""], StringForm::Json, python, NestedForm::Json, controls)
            }
            Self::Quoted(quote) => {
                let strings = StringForm::Quoted { open: (*quote).to_owned(), close: (*quote).to_owned() };
                layout(["", ",", ":", ""], strings, json, NestedForm::Same, controls)
            }
            Self::Raw([name_open, before, after]) => {
                let strings = StringForm::Raw { end: (*after).to_owned(), section: None };
                layout([name_open, "", before, after], strings, json, NestedForm::Json, controls)
            }
        }
    }
}

impl WrittenCalls {
    pub(crate) fn of(probe: &Probe<'_>) -> Self {
        Self { declares_tools: probe.declares_tools(), has_results: probe.writes_results() }
    }

    /// Converts the calls of messages to text. Results become messages of the user if the template
    /// writes no results.
    pub(crate) fn messages(self, messages: &[Message], calls: &CallFormat) -> Vec<Message> {
        let written = messages.iter().map(|message| {
            let mut message = message.clone();
            if let Some(Value::Array(entries)) = message.fields.shift_remove("tool_calls") {
                message.content = Some(format!("{}{}", message.text(), calls.written(&entries)));
            }
            message
        });
        let written: Vec<Message> = written.collect();
        if self.has_results { written } else { plain(&written) }
    }
}

impl CallFormat {
    /// Returns the text of calls, given as in OpenAI's wire format.
    fn written(&self, calls: &[Value]) -> String {
        let separator = match &self.separator {
            Some(separator) => separator.text(),
            None => format!("{}{}", self.close.text(), self.open.text()),
        };
        let calls: Vec<String> = calls
            .iter()
            .map(|call| {
                let function = &call["function"];
                let name = function["name"].as_str().unwrap_or_default();
                format!("{name}{}{}", self.between.text(), self.written_arguments(&function["arguments"]))
            })
            .collect();
        if calls.is_empty() {
            return String::new();
        }
        format!("{}{}{}", self.open.text(), calls.join(&separator), self.close.text())
    }

    fn written_arguments(&self, arguments: &Value) -> String {
        let value = match arguments {
            Value::String(text) => serde_json::from_str(text).ok(),
            other => Some(other.clone()),
        };
        match (&self.arguments, arguments) {
            (Arguments::Members { layout, .. }, _) => layout.written(&value.unwrap_or_default()),
            (Arguments::Json, Value::String(text)) => text.clone(),
            (Arguments::Json, other) => other.to_string(),
        }
    }

    /// Returns an example of a call for the description of tools.
    pub(crate) fn example(&self) -> String {
        let arguments = match &self.arguments {
            Arguments::Json => "{…}".to_owned(),
            Arguments::Members { layout, .. } => layout.written(&json!({ "ARGUMENT": "VALUE" })),
        };
        format!("{}NAME{}{arguments}{}", self.open.text(), self.between.text(), self.close.text())
    }
}
