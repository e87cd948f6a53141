//! Builds a response item by item, and produces the events of a stream. The last event has the
//! whole response.

use formwork_openai::{
    ContentPart, IncompleteDetails, Item, Namespaces, OutputDecision, OutputText, Response, ResponseError,
    ResponseEvent, ResponseUsage, Status, TokenLogprob,
};

use crate::answer::{new_id, usage};
use crate::choice::{End, Said};
use crate::error::ApiError;
use crate::output_decisions::Measured;

use super::keep::Keep;

pub(super) struct Growing {
    /// Response with the items that have ended.
    response: Response,
    open: Option<Open>,
    /// Events since the last call of `take`.
    events: Vec<ResponseEvent>,
    /// Stores the response when it is complete.
    keep: Option<Keep>,
    namespaces: Namespaces,
}

/// The item that is growing.
struct Open {
    id: String,
    kind: Kind,
    text: String,
    /// Log-probabilities of the tokens of the text.
    logprobs: Vec<TokenLogprob>,
    /// Probabilities of the choices within the text, if they are asked for.
    measured: Option<Measured>,
}

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Thought,
    Message,
    Call(Called),
    CustomCall(Called),
}

/// The tool of a call.
#[derive(Clone, PartialEq, Eq)]
struct Called {
    call_id: String,
    namespace: Option<String>,
    name: String,
}

impl Growing {
    /// Starts from an empty response. `namespaces` has the names of tools that the model may call.
    pub(super) const fn new(response: Response, keep: Option<Keep>, namespaces: Namespaces) -> Self {
        Self { response, open: None, events: Vec::new(), keep, namespaces }
    }

    /// Returns the first events of a stream.
    pub(super) fn first_events(&self) -> Vec<ResponseEvent> {
        vec![
            ResponseEvent::Created { response: self.response.clone() },
            ResponseEvent::InProgress { response: self.response.clone() },
        ]
    }

    /// Returns the response so far. The response is complete after the end event.
    pub(super) fn into_response(self) -> Response {
        self.response
    }

    /// Applies the next event of an output, and returns the resulting events.
    pub(super) fn take(&mut self, said: Said) -> Vec<ResponseEvent> {
        match said {
            Said::Masks(_) => {}
            Said::Thought(text) => self.grow(&Kind::Thought, text, Vec::new(), Vec::new()),
            Said::Content(text, logprobs, decisions) => self.grow(&Kind::Message, text, logprobs, decisions),
            Said::Call { id: call_id, name, is_custom, .. } => {
                self.close(Status::Completed);
                let (namespace, name) = match self.namespaces.find(&name) {
                    Some((namespace, name)) => (Some(namespace.to_owned()), name.to_owned()),
                    None => (None, name),
                };
                let called = Called { call_id, namespace, name };
                self.open(if is_custom { Kind::CustomCall(called) } else { Kind::Call(called) });
            }
            Said::Arguments { text, .. } => self.append(text, Vec::new(), Vec::new()),
            Said::End(end) => self.end(end),
            Said::Failed(error) => self.fail(&error),
        }
        std::mem::take(&mut self.events)
    }

    fn end(&mut self, end: End) {
        let cut_off = end.finish.reason == formwork_engine::FinishReason::Length;
        let status = if cut_off { Status::Incomplete } else { Status::Completed };
        if self.response.output.is_empty() && self.open.is_none() {
            // An answer without any text has an empty message.
            self.open(Kind::Message);
        }
        if let Some(measured) = end.measured {
            self.add(measured);
        }
        self.close(status);
        self.response.status = status;
        self.response.incomplete_details = cut_off.then(IncompleteDetails::max_output_tokens);
        self.response.usage = Some(ResponseUsage::from(usage(&end.finish)));
        self.response.closed_by_budget = end.finish.closed_by_budget;
        // A client may refer to the response as soon as it reads the last event.
        if let Some(keep) = self.keep.take() {
            self.response.store = keep.keep(&self.response);
        }
        let response = self.response.clone();
        self.events.push(if cut_off {
            ResponseEvent::Incomplete { response }
        } else {
            ResponseEvent::Completed { response }
        });
    }

    /// Adds the measurements of the end to the message.
    fn add(&mut self, Measured { decisions, error }: Measured) {
        let Some(open) = self.open.as_mut().filter(|open| open.kind == Kind::Message) else { return };
        let measured = open.measured.get_or_insert_default();
        measured.error = error;
        if !decisions.is_empty() {
            self.append(String::new(), Vec::new(), decisions);
        }
    }

    fn fail(&mut self, error: &ApiError) {
        let code = error.body().error.code.unwrap_or_else(|| "server_error".to_owned());
        self.response.status = Status::Failed;
        self.response.error = Some(ResponseError { code, message: error.to_string() });
        self.events.push(ResponseEvent::Failed { response: self.response.clone() });
    }

    /// Appends text to the open item, or opens a new item if the open one has another kind.
    fn grow(
        &mut self,
        kind: &Kind,
        text: String,
        logprobs: Vec<TokenLogprob>,
        decisions: Vec<OutputDecision>,
    ) {
        if self.open.as_ref().is_none_or(|open| open.kind != *kind) {
            self.close(Status::Completed);
            self.open(kind.clone());
        }
        self.append(text, logprobs, decisions);
    }

    fn open(&mut self, kind: Kind) {
        let prefix = match kind {
            Kind::Thought => "rs_",
            Kind::Message => "msg_",
            Kind::Call(_) => "fc_",
            Kind::CustomCall(_) => "ctc_",
        };
        let open =
            Open { id: new_id(prefix), kind, text: String::new(), logprobs: Vec::new(), measured: None };
        let output_index = self.response.output.len();
        let item = without_parts(open.item(Status::InProgress));
        self.events.push(ResponseEvent::ItemAdded { output_index, item });
        if let Some(part) = open.part() {
            let item_id = open.id.clone();
            self.events.push(ResponseEvent::PartAdded { item_id, output_index, content_index: 0, part });
        }
        self.open = Some(open);
    }

    fn append(&mut self, delta: String, logprobs: Vec<TokenLogprob>, decisions: Vec<OutputDecision>) {
        let Some(open) = &mut self.open else { return };
        open.text.push_str(&delta);
        open.logprobs.extend_from_slice(&logprobs);
        if !decisions.is_empty() {
            open.measured.get_or_insert_default().decisions.extend_from_slice(&decisions);
        }
        let (item_id, output_index, content_index) = (open.id.clone(), self.response.output.len(), 0);
        self.events.push(match open.kind {
            Kind::Thought => ResponseEvent::ReasoningDelta { item_id, output_index, content_index, delta },
            Kind::Message => {
                ResponseEvent::TextDelta { item_id, output_index, content_index, delta, logprobs, decisions }
            }
            Kind::Call(_) => ResponseEvent::ArgumentsDelta { item_id, output_index, delta },
            Kind::CustomCall(_) => ResponseEvent::InputDelta { item_id, output_index, delta },
        });
    }

    /// Ends the open item, if any.
    fn close(&mut self, status: Status) {
        let Some(open) = self.open.take() else { return };
        let (item_id, output_index, content_index) = (open.id.clone(), self.response.output.len(), 0);
        let text = open.text.clone();
        self.events.push(match &open.kind {
            Kind::Thought => {
                ResponseEvent::ReasoningDone { item_id: item_id.clone(), output_index, content_index, text }
            }
            Kind::Message => {
                let (item_id, logprobs) = (item_id.clone(), open.logprobs.clone());
                ResponseEvent::TextDone { item_id, output_index, content_index, text, logprobs }
            }
            Kind::Call(called) => {
                let (item_id, name) = (item_id.clone(), called.name.clone());
                ResponseEvent::ArgumentsDone { item_id, output_index, name, arguments: text }
            }
            Kind::CustomCall(_) => {
                ResponseEvent::InputDone { item_id: item_id.clone(), output_index, input: text }
            }
        });
        if let Some(part) = open.part() {
            self.events.push(ResponseEvent::PartDone { item_id, output_index, content_index, part });
        }
        let item = open.item(status);
        self.events.push(ResponseEvent::ItemDone { output_index, item: item.clone() });
        self.response.output.push(item);
    }
}

impl Open {
    /// Returns the item's only content part; calls have none.
    fn part(&self) -> Option<ContentPart> {
        let text = self.text.clone();
        match self.kind {
            Kind::Thought => Some(ContentPart::ReasoningText { text }),
            Kind::Message => {
                let (annotations, logprobs) = (Vec::new(), self.logprobs.clone());
                Some(ContentPart::OutputText(OutputText { text, annotations, logprobs }))
            }
            Kind::Call(_) | Kind::CustomCall(_) => None,
        }
    }

    fn item(&self, status: Status) -> Item {
        let (id, content) = (self.id.clone(), self.part().into_iter().collect());
        match &self.kind {
            Kind::Thought => Item::Reasoning { id, summary: Vec::new(), content, status },
            Kind::Message => {
                let role = "assistant".to_owned();
                let decisions = self.measured.as_ref().map(|measured| measured.decisions.clone());
                let decisions_error = self.measured.as_ref().and_then(|measured| measured.error.clone());
                Item::Message { id, role, status, content, decisions, decisions_error }
            }
            Kind::Call(called) => {
                let (Called { call_id, namespace, name }, arguments) = (called.clone(), self.text.clone());
                Item::FunctionCall { id, call_id, name, namespace, arguments, status }
            }
            Kind::CustomCall(called) => {
                let (Called { call_id, namespace, name }, input) = (called.clone(), self.text.clone());
                Item::CustomToolCall { id, call_id, name, namespace, input, status }
            }
        }
    }
}

/// Returns the item without its parts, as it is announced.
fn without_parts(mut item: Item) -> Item {
    match &mut item {
        Item::Message { content, .. } | Item::Reasoning { content, .. } => content.clear(),
        Item::FunctionCall { .. } | Item::CustomToolCall { .. } => {}
    }
    item
}
