//! Conversion of wire requests to engine requests. Compiling, rendering and encoding take time, so
//! call this off the async threads.

use std::sync::Arc;
use std::time::Instant;

use formwork_chat::{BegunPrompt, ChatFormat, Content, Delta, Reader, Thoughts, Tool, Tools};
use formwork_engine::prompt::{self, Shape};
use formwork_engine::{Dry, EndTokens, OnBudget, Penalties, Reasoning, Request, RequestError, Sampling};
use formwork_fields::Lead;
use formwork_grammar::{Constraint, GrammarError, Guide, Part, Undeclared};
use formwork_lm::{ChatInput, Message};
use formwork_openai::{ChatMessage, ChatRequest, Format, Parameters};
use formwork_vocab::tokenizer::EncodeOptions;
use formwork_vocab::{TokenId, Vocabulary};
use serde_json::{Value, json};

use crate::app::{App, Served, ServerOptions};
use crate::constraints::{Compiling, Key};
use crate::error::{ApiError, Kind};
use crate::ignored::Notes;
use crate::output_decisions::OutputChoices;
use crate::places::Places;
use crate::random::random;

/// Maximum number of warnings in a response.
const MOST_WARNINGS: usize = 8;

/// Default temperature, as in OpenAI's API.
const TEMPERATURE: f32 = 1.0;

/// An engine request, and the settings for reading its output.
pub(crate) struct Prepared {
    pub(crate) request: Request,
    pub(crate) reading: Reading,
    /// Names of the tools that accept any object because their schemas cannot be enforced.
    pub(crate) unsupported: Vec<String>,
    pub(crate) notes: Notes,
    /// Choices within outputs whose probabilities are asked for.
    pub(crate) choices: Option<OutputChoices>,
    /// Places of the mask view of an output, if it is asked for.
    pub(crate) places: Option<Places>,
}

/// Settings for reading the outputs of a request.
pub(crate) struct Reading {
    content: Content,
    tools: Tools,
    thoughts: Thoughts,
    begun: Begun,
    /// Number of calls in the conversation so far.
    calls: u32,
    /// True if calls are JSON because the model's own format cannot express the arguments of a tool.
    json_calls: bool,
}

/// Start of an answer that the prompt already has. Empty if the prompt has none.
#[derive(Default)]
struct Begun {
    /// The start as the model writes it.
    text: String,
    /// Content in this start.
    content: String,
}

/// The prompt of a chat request.
struct Prompt {
    text: String,
    thoughts: Thoughts,
    begun: Begun,
}

impl Reading {
    /// Returns a reader of the output, and the begun content that the reader has not shown yet. Returns
    /// `None` if the start of the answer has a call.
    pub(crate) fn reader(&self, served: &Served) -> Option<(Reader, String)> {
        let mut reader =
            Reader::new(served.format_with(self.json_calls), &self.content, &self.tools, self.thoughts);
        let (mut shown, mut has_thoughts) = (String::new(), false);
        for delta in reader.text(&self.begun.text) {
            match delta {
                Delta::Content(text) => shown.push_str(&text),
                Delta::Thought(_) => has_thoughts = true,
                Delta::Call(_) | Delta::Arguments(_) => return None,
            }
        }
        let content = self.begun.content.as_str();
        let held = match content.strip_prefix(&shown) {
            Some(rest) if !has_thoughts => rest,
            _ if shown.is_empty() => "",
            _ => content.rsplit_once(&shown).map_or("", |(_, rest)| rest),
        };
        Some((reader, held.to_owned()))
    }

    /// Returns the names of the custom tools.
    pub(crate) fn custom_tools(&self) -> Vec<String> {
        let custom = self.tools.tools.iter().filter(|tool| tool.custom.is_some());
        custom.map(|tool| tool.name.clone()).collect()
    }

    /// Returns the number of calls in the conversation before the answer.
    pub(crate) const fn calls_before(&self) -> u32 {
        self.calls
    }

    /// Returns the content that the prompt has already.
    pub(crate) fn begun_content(&self) -> &str {
        &self.begun.content
    }

    /// Returns true if content is free text.
    pub(crate) fn is_free(&self) -> bool {
        self.content == Content::Free
    }
}

/// A tool whose schema or grammar does not compile.
struct FaultyTool {
    tool: Tool,
    source: GrammarError,
}

impl Served {
    /// Prepares a chat request.
    pub(crate) fn prepare(
        &self,
        chat: &ChatRequest,
        options: &ServerOptions,
        compiling: Compiling,
    ) -> Result<Prepared, ApiError> {
        let tools = chat.tools.clone();
        let Prompt { text, thoughts, begun } = self.prompt(chat)?;
        let shaped = |format: &Format| Content::Shaped(format.part.clone());
        let content = chat.format.as_ref().map_or(Content::Free, shaped);
        let calls = chat.messages.iter().map(|message| message.tool_calls.len()).sum::<usize>();
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let mut reading = Reading { content, tools, thoughts, begun, calls, json_calls: false };
        let mut unsupported = Vec::new();
        let constraint = match self.answer_constraint(chat, &mut reading, compiling) {
            Err(error) if chat.any_object.unwrap_or(options.any_object) && error.is_of_tool() => {
                unsupported = self.loosen(&mut reading.tools, chat.undeclared);
                self.answer_constraint(chat, &mut reading, compiling)?
            }
            constraint => constraint?,
        };
        let tokenizer = self.model.engine.tokenizer();
        let prompt = prompt::encode(tokenizer, &text).map_err(Kind::Prompt)?;
        let mut request = engine_request(prompt, &chat.parameters, options);
        request.constraint = constraint;
        // A required call leaves no content.
        request.guide = chat.format.as_ref().filter(|_| !chat.tools.required).and_then(|format| {
            let before = text.strip_suffix(reading.begun.content.as_str()).unwrap_or(&text);
            let mark = self.format_with(reading.json_calls).content_mark(before, thoughts);
            let (close, open) = mark.map(|mark| (mark.close, mark.open)).unzip();
            let begun = reading.begun.text.clone();
            guide(format, self.vocabulary(), Lead { close, open: open.flatten(), begun })
        });
        request.begun.clone_from(&reading.begun.text);
        request.logprobs = chat.logprobs;
        request.mask_view = chat.mask_view;
        // Without a budget, the engine only counts the tokens of the thoughts.
        if let (Thoughts::Begun, Some(close)) = (thoughts, self.format.thoughts_close()) {
            let budget = chat.parameters.reasoning_budget.unwrap_or(usize::MAX);
            let close = tokenizer.encode(&close, EncodeOptions { special: true, bos: false });
            request.reasoning = Some(Reasoning { budget, close: close.map_err(Kind::Prompt)? });
        }
        let is_json = chat.format.as_ref().is_some_and(Format::is_json);
        // The places of JSON text need no grammar.
        let needs_grammar = chat.decisions.is_some() || chat.mask_view.is_some() && !is_json;
        let constraint = match &chat.format {
            Some(format) if needs_grammar => Some(self.constraint(format, chat.undeclared, compiling)?),
            _ => None,
        };
        let grammar = constraint.as_ref().map(Constraint::grammar);
        let choices = match (&chat.decisions, &chat.format, grammar) {
            (Some(scope), Some(format), Some(grammar)) => {
                Some(OutputChoices::new(scope.clone(), format, grammar.clone()))
            }
            _ => None,
        };
        let places = chat.mask_view.map(|_| Places::new(is_json, grammar));
        request.reports_tokens = choices.is_some();
        let warnings = request.constraint.as_ref().map(|constraint| constraint.grammar().warnings());
        let warnings = warnings.into_iter().flatten().take(MOST_WARNINGS).map(ToString::to_string);
        let notes = Notes { json_calls: reading.json_calls, warnings: warnings.collect() };
        Ok(Prepared { request, reading, unsupported, notes, choices, places })
    }

    /// Returns the number of prompt tokens of a chat request.
    pub(crate) fn prompt_tokens(&self, chat: &ChatRequest) -> Result<usize, ApiError> {
        let text = self.prompt_text(chat)?;
        Ok(prompt::encode(self.model.engine.tokenizer(), &text).map_err(Kind::Prompt)?.len())
    }

    /// Returns the text of the prompt of a chat request.
    pub(crate) fn prompt_text(&self, chat: &ChatRequest) -> Result<String, ApiError> {
        Ok(self.prompt(chat)?.text)
    }

    fn prompt(&self, chat: &ChatRequest) -> Result<Prompt, ApiError> {
        let mut input = self.chat_input(chat, &chat.tools);
        if chat.continues {
            let template = &*self.model.template;
            let begun = formwork_chat::render_begun(template, &input).map_err(Kind::Template)?;
            let BegunPrompt { before, content } = begun.ok_or(Kind::NoContinuation)?;
            if !content.is_empty() {
                let thoughts = self.format.thoughts_before(&before, &content);
                let text = self.format.begun(&content).ok_or(Kind::NoContinuation)?;
                if matches!(thoughts, Thoughts::Begun | Thoughts::Possible)
                    && chat.parameters.reasoning_budget.is_some()
                {
                    return Err(Kind::BegunThoughts { field: "reasoning_budget" }.into());
                }
                let is_constrained = chat.format.is_some() || !chat.tools.tools.is_empty();
                if thoughts == Thoughts::Possible && is_constrained {
                    // The grammar and the reader would disagree about tags that are control tokens.
                    let field = chat.format.as_ref().map_or("tools", |format| format.field);
                    return Err(Kind::BegunThoughts { field }.into());
                }
                let begun = Begun { text, content: content.clone() };
                return Ok(Prompt { text: before + &content, thoughts, begun });
            }
            // A message without content and thoughts is an answer from its start.
            let last = input.messages.pop();
            if last.is_some_and(|last| last.fields.contains_key("reasoning_content")) {
                return Err(Kind::NoContinuation.into());
            }
        }
        let text = formwork_chat::render(&*self.model.template, &input).map_err(Kind::Template)?;
        let mut text = self.format.without_begun_thoughts(text, &input);
        let mut thoughts = self.format.thoughts(&text);
        if chat.parameters.reasoning_budget.is_some()
            && thoughts == Thoughts::Possible
            && let Some(open) = self.format.thoughts_open()
        {
            text.push_str(&open);
            thoughts = Thoughts::Begun;
        }
        Ok(Prompt { text, thoughts, begun: Begun::default() })
    }

    /// Returns the format of answers. If `json_calls` is true, calls are JSON in tags.
    fn format_with(&self, json_calls: bool) -> &ChatFormat {
        if json_calls { &self.json_format } else { &self.format }
    }

    /// Returns the template's input for a conversation.
    pub(crate) fn chat_input(&self, chat: &ChatRequest, tools: &Tools) -> ChatInput {
        self.format.input(&messages(chat), &tools.tools, chat.chat_template_kwargs.clone())
    }

    /// Returns the constraint of a whole answer, or `None` if anything is allowed.
    fn answer_constraint(
        &self,
        chat: &ChatRequest,
        reading: &mut Reading,
        compiling: Compiling,
    ) -> Result<Option<Constraint>, ApiError> {
        let Reading { content, tools, thoughts, calls, json_calls, .. } = reading;
        let (format, undeclared) = (chat.format.as_ref(), chat.undeclared);
        if tools.tools.is_empty() && self.format.is_plain(*thoughts) {
            return format.map(|format| self.constraint(format, undeclared, compiling)).transpose();
        }
        let key = |json_calls: bool| {
            let part = self.format_with(json_calls).answer_after(*calls, content, tools, *thoughts)?;
            Some(Key::new(part, undeclared))
        };
        *json_calls = false;
        let Some(own) = key(false) else { return Ok(None) };
        let mut compiled = None;
        if self.format.can_write(tools) && !self.constraints.is_refused(&own) {
            self.check_known(&own, compiling)?;
            let own_calls = self.constraints.get(own.clone(), self.vocabulary(), compiling);
            match own_calls {
                Err(error) if self.needs_json(&error, compiling) => self.constraints.refuse(own),
                own_calls => compiled = Some(own_calls),
            }
        }
        let compiled = if let Some(compiled) = compiled {
            compiled
        } else {
            *json_calls = true;
            let Some(json) = key(true) else { return Ok(None) };
            self.check_known(&json, compiling)?;
            self.constraints.get(json, self.vocabulary(), compiling)
        };
        compiled.map(Some).map_err(|source| {
            if compiling == Compiling::Quick && !tools.tools.is_empty() {
                // Finding the faulty tool requires compiling each tool separately.
                return Kind::Uncompiled.into();
            }
            match (self.faulty(tools, undeclared).into_iter().next(), format) {
                (Some(FaultyTool { tool, source }), _) => {
                    Kind::Tool { name: tool.name, place: tool.place, source }.into()
                }
                (None, Some(format)) => match self.constraint(format, undeclared, compiling) {
                    Err(error) => error,
                    Ok(_) => Kind::Constraint { field: format.field, source }.into(),
                },
                (None, None) => Kind::Constraint { field: "tools", source }.into(),
            }
        })
    }

    /// Returns true if calls may be possible as JSON although they are not in the model's own format. A
    /// format that is not JSON also needs more states.
    fn needs_json(&self, error: &GrammarError, compiling: Compiling) -> bool {
        let is_too_large = compiling == Compiling::Allowed && error.is_over_limit();
        error.is_notation() || (is_too_large && self.format.has_own_arguments())
    }

    /// Returns the constraint of a response format without the rest of the answer.
    pub(crate) fn constraint(
        &self,
        format: &Format,
        undeclared: Undeclared,
        compiling: Compiling,
    ) -> Result<Constraint, ApiError> {
        let key = Key::new(format.part.clone(), undeclared);
        self.check_known(&key, compiling)?;
        let compiled = self.constraints.get(key, self.vocabulary(), compiling);
        compiled.map_err(|source| Kind::Constraint { field: format.field, source }.into())
    }

    /// Fails if the constraint is not cached and compiling is deferred.
    fn check_known(&self, key: &Key, compiling: Compiling) -> Result<(), ApiError> {
        if compiling != Compiling::Deferred || self.constraints.known(key).is_some() {
            return Ok(());
        }
        Err(Kind::Uncompiled.into())
    }

    /// Returns the number of prompt tokens that describe the response format.
    pub(crate) fn described(&self, chat: &ChatRequest) -> Option<usize> {
        let instruction = shape(chat)?.instruction();
        self.model.engine.tokenizer().encode_fragment(&instruction).ok().map(|tokens| tokens.len())
    }

    /// Returns the tools whose schemas or grammars do not compile.
    fn faulty(&self, tools: &Tools, undeclared: Undeclared) -> Vec<FaultyTool> {
        let check = |tool: &Tool| {
            // A sequence compiles like the whole answer, so both report the same error.
            let part = Part::sequence([tool.arguments()]);
            let error = self.constraints.compile(&part, undeclared).err();
            error.map(|source| FaultyTool { tool: tool.clone(), source })
        };
        tools.tools.iter().filter_map(check).collect()
    }

    /// Lets the functions whose schemas do not compile accept any object. Returns their names. Custom tools
    /// stay as they are, so that a faulty grammar is always an error.
    fn loosen(&self, tools: &mut Tools, undeclared: Undeclared) -> Vec<String> {
        let faulty = self.faulty(tools, undeclared).into_iter().map(|faulty| faulty.tool);
        let faulty: Vec<String> = faulty.filter(|tool| tool.custom.is_none()).map(|tool| tool.name).collect();
        for tool in tools.tools.iter_mut().filter(|tool| faulty.contains(&tool.name)) {
            tool.parameters = Arc::new(json!({ "type": "object" }));
        }
        faulty
    }
}

impl App {
    /// Returns the constraint of a response format without the rest of an answer, for requests with a
    /// plain prompt.
    pub(crate) async fn constraint(
        &self,
        served: &Arc<Served>,
        format: Option<Format>,
        undeclared: Undeclared,
    ) -> Result<Option<Constraint>, ApiError> {
        let of = Arc::clone(served);
        self.offload_or_compile(move |compiling| {
            format.as_ref().map(|format| of.constraint(format, undeclared, compiling)).transpose()
        })
        .await
    }
}

/// Returns the guide that applies the weights of typed fields in an output that begins with `lead`. Returns `None`
/// if the format has no weights.
pub(crate) fn guide(format: &Format, vocabulary: &Arc<Vocabulary>, lead: Lead) -> Option<Arc<dyn Guide>> {
    let weights = format.typed.as_ref()?.definition.weights(vocabulary)?;
    Some(Arc::new(weights.after(lead)))
}

/// Creates the engine request from the parameters that all text endpoints share.
pub(crate) fn engine_request(prompt: Vec<TokenId>, given: &Parameters, options: &ServerOptions) -> Request {
    let dry = Dry::default();
    Request {
        sampling: sampling(given),
        penalties: Penalties {
            presence: given.presence_penalty,
            frequency: given.frequency_penalty,
            repetition: given.repetition_penalty,
        },
        dry: Dry {
            multiplier: given.dry.multiplier,
            base: given.dry.base,
            allowed_length: given.dry.allowed_length,
            penalty_last_n: given.dry.penalty_last_n,
            sequence_breakers: given.dry.sequence_breakers.clone().unwrap_or(dry.sequence_breakers),
        },
        logit_bias: given.logit_bias.iter().map(|&(token, bias)| (TokenId(token), bias)).collect(),
        max_tokens: given.max_tokens.map(|limit| limit.tokens),
        min_tokens: given.min_tokens,
        end_tokens: if given.ignore_eos { EndTokens::Excluded } else { EndTokens::Allowed },
        stop: given.stop.clone(),
        stop_tokens: given.stop_token_ids.iter().map(|&token| TokenId(token)).collect(),
        on_budget: if given.cut_off { OnBudget::Length } else { OnBudget::Close },
        deadline: options.request_timeout.map(|timeout| Instant::now() + timeout),
        ..Request::new(prompt)
    }
}

fn sampling(given: &Parameters) -> Sampling {
    let neutral = Sampling::default();
    // OpenAI allows 0, which here selects only the likeliest token.
    let share = |given: Option<f32>, neutral: f32| given.unwrap_or(neutral).max(f32::MIN_POSITIVE);
    Sampling {
        temperature: given.temperature.unwrap_or(TEMPERATURE),
        top_k: given.top_k.unwrap_or(neutral.top_k),
        top_p: share(given.top_p, neutral.top_p),
        min_p: given.min_p.unwrap_or(neutral.min_p),
        typical_p: share(given.typical_p, neutral.typical_p),
        xtc_probability: given.xtc.0,
        xtc_threshold: given.xtc.1,
        seed: given.seed.unwrap_or_else(random),
    }
}

/// Returns the conversation, with an instruction that describes the response format.
fn messages(chat: &ChatRequest) -> Vec<Message> {
    let mut messages = chat.messages.iter().map(message).collect();
    if let Some(shape) = shape(chat) {
        shape.add_to(&mut messages);
    }
    messages
}

/// Returns the response format to describe in the prompt.
fn shape(chat: &ChatRequest) -> Option<Shape<'_>> {
    let format = chat.format.as_ref().filter(|_| chat.schema_in_prompt)?;
    match &format.typed {
        Some(typed) => Some(Shape::Template(&typed.template)),
        None => Shape::of(&format.part),
    }
}

pub(crate) fn message(given: &ChatMessage) -> Message {
    let mut message = Message::new(given.role.name(), "");
    message.content.clone_from(&given.content);
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            message.fields.insert(name.to_owned(), value);
        }
    };
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    set("name", text(&given.name));
    set("tool_call_id", text(&given.tool_call_id));
    set("reasoning_content", text(&given.reasoning));
    let call = |call: &formwork_openai::ToolCall| {
        let function = json!({ "name": call.name, "arguments": call.arguments });
        json!({ "id": call.id, "type": "function", "function": function })
    };
    set("tool_calls", (!given.tool_calls.is_empty()).then(|| given.tool_calls.iter().map(call).collect()));
    message
}

/// Converts an engine error. The engine names fields by their meaning; the result uses the names in
/// the request.
pub(crate) fn refused(source: RequestError, given: &Parameters, format: Option<&Format>) -> ApiError {
    if source.is_busy() {
        return Kind::Busy(source).into();
    }
    if source.is_stopped() {
        return Kind::Stopped(source).into();
    }
    let field = match source.field() {
        Some("messages") if source.is_too_long() => return Kind::TooLong(source).into(),
        Some("max_tokens") => given.max_tokens.map(|limit| limit.field),
        Some("response_format") => Some(format.map_or("tools", |format| format.field)),
        other => other,
    };
    Kind::Refused { field, source }.into()
}
