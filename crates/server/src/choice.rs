use std::collections::VecDeque;
use std::sync::Arc;

use formwork_chat::{Delta, Reader};
use formwork_engine::{Finish, FinishReason, Generation, Output};
use formwork_openai::{LikelyToken, OutputDecision, TokenLogprob, TokenMask};
use formwork_vocab::{TokenId, Tokenizer, Vocabulary};

use crate::app::Served;
use crate::custom_input::InputDecoder;
use crate::error::{ApiError, Kind};
use crate::mask_view::MaskViews;
use crate::output_decisions::{Measured, OutputDecisions};
use crate::prepare::Reading;
use crate::random::random;

/// One running output of a request, as a stream of thoughts, content and tool calls.
///
/// Dropping it cancels the generation.
pub(crate) struct Choice {
    generation: Generation,
    /// `None` if the whole text is content.
    reader: Option<Reader>,
    served: Arc<Served>,
    /// Begun content that the reader has not shown yet. It is removed from the first text.
    unsaid: String,
    said: VecDeque<Said>,
    /// Log-probabilities of tokens whose text has not been sent.
    likely: Vec<formwork_engine::TokenLogprob>,
    calls: usize,
    /// Number of calls in the conversation before this output.
    calls_before: u32,
    /// Names of the custom tools.
    custom: Vec<String>,
    /// Decoder of the last call's arguments, if the tool is a custom one.
    input: Option<InputDecoder>,
    /// True if content is free text, which may be incomplete when the budget ends it.
    is_free: bool,
    /// Effect of the constraint on each token, if it is asked for.
    masks: Option<MaskViews>,
    /// Measures the choices within the content, if they are asked for.
    decisions: Option<OutputDecisions>,
    /// Probabilities of choices that no event has reported. `None` if they are not asked for.
    measured: Option<Measured>,
    ended: bool,
}

/// Event of an output.
pub(crate) enum Said {
    /// Effect of the constraint on the tokens since the last event of this kind. It comes before the text that
    /// these tokens complete.
    Masks(Vec<TokenMask>),
    /// More text of the thoughts.
    Thought(String),
    /// More content, with the log-probabilities of its tokens and the probabilities of the choices that it
    /// completes, if requested.
    Content(String, Vec<TokenLogprob>, Vec<OutputDecision>),
    /// Start of the tool call with this index. `is_custom` is true if the tool is a custom one.
    Call { index: usize, id: String, name: String, is_custom: bool },
    /// More text of the last call's arguments, or of its input if the tool is a custom one.
    Arguments { index: usize, text: String, is_custom: bool },
    /// Successful end of the output.
    End(End),
    /// End of the output by an error.
    Failed(ApiError),
}

/// End of an output.
pub(crate) struct End {
    pub(crate) finish: Finish,
    /// True if the model called a tool.
    pub(crate) called: bool,
    /// Probabilities of choices within the content that no earlier event has. `None` if they are not
    /// requested.
    pub(crate) measured: Option<Measured>,
}

impl Choice {
    /// Creates an output.
    ///
    /// # Errors
    /// Returns an error if the prompt has the start of a call, which no output can continue.
    pub(crate) fn new(
        generation: Generation,
        reading: &Reading,
        served: &Arc<Served>,
    ) -> Result<Self, ApiError> {
        let (reader, unsaid) = reading.reader(served).ok_or(Kind::NoContinuation)?;
        let (custom, is_free) = (reading.custom_tools(), reading.is_free());
        let calls_before = reading.calls_before();
        let raw = Self::raw(generation, served);
        Ok(Self { reader: Some(reader), unsaid, calls_before, custom, is_free, ..raw })
    }

    /// Reports what the constraint does to each token.
    pub(crate) fn with_masks(self, masks: Option<MaskViews>) -> Self {
        Self { masks, ..self }
    }

    /// Measures the choices within the content.
    pub(crate) fn with_decisions(self, decisions: Option<OutputDecisions>) -> Self {
        Self { measured: decisions.as_ref().map(|_| Measured::default()), decisions, ..self }
    }

    /// Creates an output that continues a prompt as it is, so its whole text is content.
    pub(crate) fn raw(generation: Generation, served: &Arc<Served>) -> Self {
        Self {
            generation,
            reader: None,
            unsaid: String::new(),
            served: Arc::clone(served),
            said: VecDeque::new(),
            likely: Vec::new(),
            calls: 0,
            calls_before: 0,
            custom: Vec::new(),
            input: None,
            is_free: false,
            masks: None,
            decisions: None,
            measured: None,
            ended: false,
        }
    }

    /// Returns true if the effect of the constraint on each token is reported.
    pub(crate) const fn reports_masks(&self) -> bool {
        self.masks.is_some()
    }

    /// Returns the next event, or `None` after the end.
    pub(crate) async fn next(&mut self) -> Option<Said> {
        loop {
            if self.decisions.as_ref().is_some_and(OutputDecisions::is_due) {
                self.measure().await;
            }
            if let Some(said) = self.said.pop_front() {
                return Some(said);
            }
            if self.ended {
                return None;
            }
            match self.generation.next().await {
                Some(Output::Text(text)) => {
                    if let Some(decisions) = &mut self.decisions {
                        decisions.show(&text);
                    }
                    if let Some(masks) = &mut self.masks {
                        masks.show(&text);
                    }
                    let deltas = match &mut self.reader {
                        Some(reader) => reader.text(&text),
                        None => vec![Delta::Content(text)],
                    };
                    self.take(deltas);
                }
                Some(Output::Control(token)) => {
                    if let Some(reader) = &mut self.reader {
                        let deltas = reader.control(token, self.served.vocabulary());
                        self.take(deltas);
                    }
                }
                Some(Output::Generated(token)) => {
                    if let Some(decisions) = &mut self.decisions {
                        decisions.token(token);
                    }
                }
                Some(Output::Token(token)) => self.likely.push(token),
                Some(Output::Masked(mask)) => {
                    if let Some(masks) = &mut self.masks {
                        masks.token(mask, self.served.vocabulary());
                    }
                }
                Some(Output::PromptToken(_)) => {}
                Some(Output::Finished(finish)) => {
                    let deltas = self.reader.as_mut().map(Reader::finish).unwrap_or_default();
                    self.take(deltas);
                    self.show_masks();
                    self.ended = true;
                    if let Some(decisions) = &mut self.decisions {
                        decisions.end(finish.reason == FinishReason::Length);
                    }
                    let end = self.end(finish);
                    self.said.push_back(Said::End(end));
                    self.report();
                }
                Some(Output::Failed(error)) => self.fail(error.into()),
                // A generation always reports an end before it is over.
                None => self.fail(Kind::Panicked.into()),
            }
        }
    }

    fn end(&self, mut finish: Finish) -> End {
        let called = self.calls > 0;
        if finish.closed_by_budget && self.is_free && !called {
            (finish.reason, finish.closed_by_budget) = (FinishReason::Length, false);
        }
        End { finish, called, measured: None }
    }

    /// Measures the choices that are decided. An error does not end the output, whose text is complete.
    async fn measure(&mut self) {
        let Some(decisions) = self.decisions.take() else { return };
        let (decisions, measured) = decisions.measure().await;
        self.decisions = decisions;
        if let Some(sum) = &mut self.measured {
            sum.extend(measured);
        }
        self.report();
    }

    /// Adds what was measured to the last waiting event.
    fn report(&mut self) {
        match (self.said.back_mut(), &mut self.measured) {
            (Some(Said::Content(_, _, reported)), Some(measured)) => {
                reported.append(&mut measured.decisions);
            }
            (Some(Said::End(end)), Some(measured)) => {
                end.measured.get_or_insert_default().extend(std::mem::take(measured));
            }
            _ => {}
        }
    }

    /// Queues what the constraint did to the tokens that no event has yet.
    fn show_masks(&mut self) {
        let Some(masks) = &mut self.masks else { return };
        let masks = masks.take(self.served.vocabulary());
        if !masks.is_empty() {
            self.said.push_back(Said::Masks(masks));
        }
    }

    fn fail(&mut self, error: ApiError) {
        self.ended = true;
        self.said.push_back(Said::Failed(error));
    }

    /// Queues events for `deltas`. Only content carries log-probabilities; those of other text are
    /// dropped.
    fn take(&mut self, deltas: Vec<Delta>) {
        if deltas.is_empty() {
            if self.reader.as_ref().is_some_and(Reader::is_outside_content) {
                self.likely.clear();
            }
            return;
        }
        let likely = std::mem::take(&mut self.likely);
        let tokenizer = self.served.model.engine.tokenizer();
        let mut likely: Vec<_> = likely.iter().map(|token| logprob(token, tokenizer)).collect();
        let unsaid = &mut self.unsaid;
        let new = |delta| match delta {
            Delta::Content(text) => Delta::Content(without_begun(text, unsaid)),
            other => other,
        };
        let deltas: Vec<Delta> = deltas.into_iter().map(new).collect();
        if let Some(masks) = &mut self.masks {
            for delta in &deltas {
                if let Delta::Content(text) = delta {
                    masks.content(text);
                }
            }
        }
        self.show_masks();
        for delta in deltas {
            let said = match delta {
                Delta::Thought(text) => Said::Thought(text),
                Delta::Content(text) => {
                    if text.is_empty() && likely.is_empty() {
                        continue;
                    }
                    if let Some(decisions) = &mut self.decisions {
                        decisions.content(&text);
                    }
                    Said::Content(text, std::mem::take(&mut likely), Vec::new())
                }
                Delta::Call(name) => {
                    let index = self.calls;
                    self.calls += 1;
                    let is_custom = self.custom.contains(&name);
                    self.input = is_custom.then(InputDecoder::default);
                    let calls = self.calls_before.saturating_add(index as u32);
                    let id = self.served.format.call_id(&name, calls).unwrap_or_else(call_id);
                    Said::Call { index, id, name, is_custom }
                }
                Delta::Arguments(text) => {
                    let index = self.calls.saturating_sub(1);
                    match &mut self.input {
                        None => Said::Arguments { index, text, is_custom: false },
                        Some(decoder) => {
                            let text = decoder.decode(&text);
                            if text.is_empty() {
                                continue;
                            }
                            Said::Arguments { index, text, is_custom: true }
                        }
                    }
                }
            };
            self.said.push_back(said);
        }
    }
}

/// Removes from content its part that the prompt already has. `unsaid` is what remains of this part.
fn without_begun(text: String, unsaid: &mut String) -> String {
    let left = std::mem::take(unsaid);
    if let Some(rest) = text.strip_prefix(&left) {
        return rest.to_owned();
    }
    if let Some(rest) = left.strip_prefix(&text) {
        rest.clone_into(unsaid);
        return String::new();
    }
    text
}

fn call_id() -> String {
    format!("call_{:016x}{:08x}", random(), random() as u32)
}

/// Converts a token's log-probability to the wire type.
pub(crate) fn logprob(token: &formwork_engine::TokenLogprob, tokenizer: &Tokenizer) -> TokenLogprob {
    let likely = |&(token, logprob): &(TokenId, f32)| {
        let (token, bytes) = spelling(token, tokenizer.vocabulary());
        LikelyToken { token, logprob, bytes }
    };
    let top_logprobs = token.top.iter().map(likely).collect();
    let (text, bytes) = spelling(token.token, tokenizer.vocabulary());
    TokenLogprob { token: text, logprob: token.logprob, bytes, top_logprobs }
}

/// Returns the text and the bytes of a token.
pub(crate) fn spelling(token: TokenId, vocabulary: &Vocabulary) -> (String, Vec<u8>) {
    let bytes = vocabulary.bytes(token);
    (String::from_utf8_lossy(bytes).into_owned(), bytes.to_vec())
}
