//! Calls between markers that are control tokens of a model's vocabulary.

use super::super::super::registry::ToolSource;
use super::{Call, gemma, is_known, json, python, short, tagged};

/// Marker that begins calls, with the marker that ends them. The end may be missing or empty.
pub(super) struct Marker {
    pub(super) open: &'static str,
    close: &'static str,
    form: Form,
}

/// Form of the text between markers.
#[derive(Clone, Copy)]
enum Form {
    /// JSON, or a list of Python calls.
    Values,
    /// As `Values`, or Python calls without brackets, such as `f.call(a=1)`.
    Python,
    /// `call:f{…}`, repeated with the same markers.
    Gemma,
    /// `[TOOL_CALLS]f[CALL_ID]id[ARGS]{…}`, or JSON.
    Mistral,
    /// `function<｜tool▁sep｜>f`, a newline and JSON in a fence, or `f<｜tool▁sep｜>{…}`.
    DeepSeek,
    /// `functions.f:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`.
    Kimi,
    /// `id<|tool_call:name|>f<|tool_call:args|>{…}<|tool_call:end|>`.
    Solar,
    /// `<|open|>call …`, repeated. The marker is the beginning of the first call.
    KimiK3,
    /// `<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke …>…`.
    Step,
    /// `to=functions.f …<|message|>{…}<|call|>`, of which the marker is the beginning.
    Harmony,
}

const fn marker(open: &'static str, close: &'static str, form: Form) -> Marker {
    Marker { open, close, form }
}

/// All markers. A marker that begins with another one is before it.
pub(super) const MARKERS: [Marker; 23] = [
    marker("<|tool_call_start|>", "<|tool_call_end|>", Form::Values),
    marker("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", Form::Kimi),
    marker("<|tool_call_begin|>", "", Form::Kimi),
    marker("<|tool_calls|>", "<|calls|>", Form::Solar),
    marker("<|tool_call:begin|>", "<|calls|>", Form::Solar),
    marker("<|tool_call|>", "<|/tool_call|>", Form::Values),
    marker("<|tool_call>", "<tool_call|>", Form::Gemma),
    marker("<start_function_call>", "<end_function_call>", Form::Gemma),
    marker("<|tools_prefix|>", "<|tools_suffix|>", Form::Values),
    marker("<|START_ACTION|>", "<|END_ACTION|>", Form::Values),
    marker("<|action_start|><|plugin|>", "<|action_end|>", Form::Values),
    marker("<|function_call|>", "", Form::Values),
    marker("function call<|role_sep|>", "", Form::Values),
    marker("<|python_tag|>", "<|eom_id|>", Form::Python),
    marker("<|python_start|>", "<|python_end|>", Form::Python),
    marker("functools", "", Form::Values),
    marker("[TOOL_CALLS]", "", Form::Mistral),
    marker("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", Form::DeepSeek),
    marker("<｜tool▁call▁begin｜>", "<｜tool▁calls▁end｜>", Form::DeepSeek),
    marker("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>", Form::Step),
    marker("<｜tool_call_begin｜>", "<｜tool_calls_end｜>", Form::Step),
    marker("<|open|>call ", "", Form::KimiK3),
    marker("to=functions.", "", Form::Harmony),
];

impl Marker {
    /// Parses the calls at the start of `text`, which follows the marker. Returns the calls and the
    /// number of bytes read, including the closing marker.
    pub(super) fn read(&self, text: &str, tools: &dyn ToolSource) -> Option<(Vec<Call>, usize)> {
        let mut input = Input { text, at: 0 };
        let mut calls = Vec::new();
        match self.form {
            Form::Values => calls = input.values(tools)?,
            Form::Python => calls = input.values(tools).or_else(|| input.python(tools))?,
            Form::Gemma => loop {
                let (call, len) = gemma::call(input.rest())?;
                calls.push(call);
                input.at += len;
                if !(input.accept(self.close) && input.accept(self.open)) {
                    break;
                }
            },
            Form::Mistral => calls = input.mistral(tools)?,
            Form::DeepSeek => {
                while input.accept("<｜tool▁call▁begin｜>") || calls.is_empty() {
                    calls.push(input.deepseek()?);
                }
            }
            Form::Kimi => loop {
                input.accept("<|tool_call_begin|>");
                calls.push(input.kimi()?);
                if !input.rest().trim_start().starts_with("<|tool_call_begin|>") {
                    break;
                }
            },
            Form::Solar => {
                while input.accept("<|tool_call:begin|>") || calls.is_empty() {
                    let short = |(head, _): &(&str, &str)| head.len() < 200;
                    let (_, rest) = input.rest().split_once("<|tool_call:name|>").filter(short)?;
                    let (name, rest) = rest.split_once("<|tool_call:args|>").filter(short)?;
                    input.at = text.len() - rest.len();
                    calls.push(input.with_arguments(name)?);
                    input.accept("<|tool_call:end|>");
                }
            }
            Form::Step => {
                while input.accept("<｜tool_call_begin｜>") || calls.is_empty() {
                    let _ = input.accept("function") && input.accept("<｜tool_sep｜>");
                    let start = text.len() - input.rest().trim_start().len();
                    let (call, len) = tagged::element(&text[start..], tools)?;
                    calls.push(call);
                    input.at = start + len;
                    input.accept("<｜tool_call_end｜>");
                }
            }
            Form::KimiK3 => {
                loop {
                    let (call, len) = tagged::kimi(input.rest())?;
                    calls.push(call);
                    input.at += len;
                    if !input.accept(self.open) {
                        break;
                    }
                }
                for end in ["tools", "message"] {
                    input.accept(&format!("<|close|>{end}<|sep|>"));
                }
            }
            Form::Harmony => {
                let name = text.split(|c: char| "<{".contains(c) || c.is_whitespace()).next()?;
                let head = text.split_once("<|message|>").filter(|(head, _)| head.len() < 200);
                if let Some((head, _)) = head.filter(|(head, _)| !head.contains('{')) {
                    input.at = head.len() + "<|message|>".len();
                } else {
                    // A server that removes the tokens leaves the words between them.
                    input.at = name.len();
                    for word in ["commentary", "json", "code"] {
                        input.accept(word);
                    }
                }
                calls.push(input.with_arguments(name)?);
                input.accept("<|call|>");
            }
        }
        if !self.close.is_empty() {
            input.accept(self.close);
        }
        Some((calls, input.at))
    }
}

/// Parses calls without their tokens as the whole text: a name and JSON, such as `f{…}` or `f[ARGS]{…}` of
/// Mistral, `functions.f:0{…}` of Kimi K2, or `functionf` and a fence of `DeepSeek` V3. Servers may remove
/// control tokens from the text.
pub(super) fn stripped(text: &str) -> Option<Vec<Call>> {
    let mut input = Input { text, at: 0 };
    let mut calls = Vec::new();
    while !input.rest().trim().is_empty() {
        let name = input.name()?.trim_end_matches('>');
        let (name, is_fenced) = match name.strip_suffix("```json") {
            Some(name) => (name.trim_end().strip_prefix("function")?, true),
            None => (name, false),
        };
        // Kimi K2 counts its calls.
        let name =
            name.rsplit_once(':').filter(|(_, number)| is_number(number)).map_or(name, |(name, _)| name);
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if !name.chars().all(is_name) {
            return None;
        }
        calls.push(input.with_arguments(name.strip_prefix("functions.").unwrap_or(name))?);
        if is_fenced && !input.accept("```") {
            return None;
        }
    }
    (!calls.is_empty()).then_some(calls)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

struct Input<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Input<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips `wanted` with the whitespace before it. Returns false if the text is different.
    fn accept(&mut self, wanted: &str) -> bool {
        let rest = self.rest().trim_start();
        let found = rest.starts_with(wanted);
        if found {
            self.at = self.text.len() - rest.len() + wanted.len();
        }
        found
    }

    fn values(&mut self, tools: &dyn ToolSource) -> Option<Vec<Call>> {
        let start = self.text.len() - self.rest().trim_start().len();
        let rest = &self.text[start..];
        let (calls, len) = json::calls(rest, tools).or_else(|| python::calls(rest))?;
        self.at = start + len;
        Some(calls)
    }

    /// Reads Python calls without brackets, which must name known tools: other text may be a program.
    fn python(&mut self, tools: &dyn ToolSource) -> Option<Vec<Call>> {
        let (mut calls, len) = python::bare(self.rest())?;
        for call in &mut calls {
            // Llama calls its built-in tools by a method.
            if let Some(name) = call.name.strip_suffix(".call") {
                call.name = name.to_owned();
            }
        }
        self.at += len;
        calls.iter().all(|call| is_known(tools, short(&call.name))).then_some(calls)
    }

    /// Reads the JSON arguments of the call to `name`.
    fn with_arguments(&mut self, name: &str) -> Option<Call> {
        let name = name.trim();
        let start = self.text.len() - self.rest().trim_start().len();
        let (value, len) = json::first(&self.text[start..]).filter(|(value, _)| value.is_object())?;
        self.at = start + len;
        (!name.is_empty()).then(|| Call { name: name.to_owned(), arguments: value.text() })
    }

    fn mistral(&mut self, tools: &dyn ToolSource) -> Option<Vec<Call>> {
        if self.rest().trim_start().starts_with(['[', '{']) {
            return self.values(tools);
        }
        let mut calls = Vec::new();
        loop {
            let name = self.name()?;
            calls.push(self.with_arguments(name)?);
            if !self.accept("[TOOL_CALLS]") {
                return Some(calls);
            }
        }
    }

    /// Reads the name before the arguments, such as `f[CALL_ID]id[ARGS]` or `f`.
    fn name(&mut self) -> Option<&'a str> {
        let end = self.rest().find('{').filter(|end| *end <= 200)?;
        let head = self.rest()[..end].trim_end();
        self.at += end;
        head.strip_suffix("[ARGS]").unwrap_or(head).split("[CALL_ID]").next().map(str::trim)
    }

    fn deepseek(&mut self) -> Option<Call> {
        const SEPARATOR: &str = "<｜tool▁sep｜>";
        let (head, rest) = self.rest().split_once(SEPARATOR).filter(|(head, _)| head.len() < 200)?;
        self.at = self.text.len() - rest.len();
        let mut name = head.trim();
        if name == "function" && !rest.trim_start().starts_with('{') {
            let (line, _) = rest.split_once('\n')?;
            name = line.trim();
            self.at += line.len();
            self.accept("```json");
        }
        let call = self.with_arguments(name)?;
        self.accept("```");
        self.accept("<｜tool▁call▁end｜>");
        Some(call)
    }

    fn kimi(&mut self) -> Option<Call> {
        const SEPARATOR: &str = "<|tool_call_argument_begin|>";
        let (id, rest) = self.rest().split_once(SEPARATOR).filter(|(id, _)| id.len() < 200)?;
        self.at = self.text.len() - rest.len();
        let id = id.trim();
        let name = id.rsplit_once(':').map_or(id, |(name, _)| name);
        let call = self.with_arguments(name.strip_prefix("functions.").unwrap_or(name))?;
        self.accept("<|tool_call_end|>");
        Some(call)
    }
}
