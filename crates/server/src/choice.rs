use std::collections::VecDeque;
use std::sync::Arc;

use formwork_chat::{Delta, Reader};
use formwork_engine::{Finish, FinishReason, Generation, Output};
use formwork_openai::{LikelyToken, TokenLogprob};
use formwork_vocab::{TokenId, Tokenizer};

use crate::app::Served;
use crate::error::{ApiError, Kind};
use crate::prepare::Reading;
use crate::random::random;

/// One output of a request on its way: what the model thinks, says and calls.
///
/// Dropping it cancels the generation.
pub(crate) struct Choice {
    generation: Generation,
    reader: Reader,
    served: Arc<Served>,
    said: VecDeque<Said>,
    /// Log-probabilities of tokens whose text has not been shown.
    likely: Vec<formwork_engine::TokenLogprob>,
    calls: usize,
    /// Whether content is free text, which is not complete where the budget ends it.
    is_free: bool,
    ended: bool,
}

/// What comes of an output.
pub(crate) enum Said {
    /// More of what the model thinks.
    Thought(String),
    /// More of what it says, with the log-probabilities of the tokens in it where they are asked for.
    Content(String, Vec<TokenLogprob>),
    /// It calls a tool, as the one with this index.
    Call { index: usize, id: String, name: String },
    /// More of the arguments of the last call.
    Arguments { index: usize, text: String },
    /// The end.
    End(End),
    /// The end, by a failure.
    Failed(ApiError),
}

/// How an output ended.
pub(crate) struct End {
    pub(crate) finish: Finish,
    /// Whether tools were called.
    pub(crate) called: bool,
}

impl Choice {
    pub(crate) fn new(generation: Generation, reading: &Reading, served: &Arc<Served>) -> Self {
        Self {
            generation,
            reader: reading.reader(served),
            served: Arc::clone(served),
            said: VecDeque::new(),
            likely: Vec::new(),
            calls: 0,
            is_free: reading.is_free(),
            ended: false,
        }
    }

    /// What comes next; `None` after the end.
    pub(crate) async fn next(&mut self) -> Option<Said> {
        loop {
            if let Some(said) = self.said.pop_front() {
                return Some(said);
            }
            if self.ended {
                return None;
            }
            match self.generation.next().await {
                Some(Output::Text(text)) => {
                    let deltas = self.reader.text(&text);
                    self.take(deltas);
                }
                Some(Output::Control(token)) => {
                    let deltas = self.reader.control(token, self.served.vocabulary());
                    self.take(deltas);
                }
                Some(Output::Token(token)) => self.likely.push(token),
                Some(Output::Finished(finish)) => {
                    let deltas = self.reader.finish();
                    self.take(deltas);
                    self.ended = true;
                    self.said.push_back(Said::End(self.end(finish)));
                }
                Some(Output::Failed(error)) => self.fail(error.into()),
                // A generation says how it ended before it is over.
                None => self.fail(Kind::Panicked.into()),
            }
        }
    }

    fn end(&self, mut finish: Finish) -> End {
        let called = self.calls > 0;
        if finish.closed_by_budget && self.is_free && !called {
            (finish.reason, finish.closed_by_budget) = (FinishReason::Length, false);
        }
        End { finish, called }
    }

    fn fail(&mut self, error: ApiError) {
        self.ended = true;
        self.said.push_back(Said::Failed(error));
    }

    /// Log-probabilities go with content alone; those of what was read as something else are dropped.
    fn take(&mut self, deltas: Vec<Delta>) {
        if deltas.is_empty() {
            if self.reader.is_outside_content() {
                self.likely.clear();
            }
            return;
        }
        let likely = std::mem::take(&mut self.likely);
        let tokenizer = self.served.model.engine.tokenizer();
        let mut likely: Vec<_> = likely.iter().map(|token| logprob(token, tokenizer)).collect();
        for delta in deltas {
            let said = match delta {
                Delta::Thought(text) => Said::Thought(text),
                Delta::Content(text) => Said::Content(text, std::mem::take(&mut likely)),
                Delta::Call(name) => {
                    self.calls += 1;
                    Said::Call { index: self.calls - 1, id: call_id(), name }
                }
                Delta::Arguments(text) => Said::Arguments { index: self.calls.saturating_sub(1), text },
            };
            self.said.push_back(said);
        }
    }
}

fn call_id() -> String {
    format!("call_{:016x}{:08x}", random(), random() as u32)
}

/// A token's log-probability on the wire.
pub(crate) fn logprob(token: &formwork_engine::TokenLogprob, tokenizer: &Tokenizer) -> TokenLogprob {
    let likely = |&(token, logprob): &(TokenId, f32)| {
        let (token, bytes) = spelling(token, tokenizer);
        LikelyToken { token, logprob, bytes }
    };
    let top_logprobs = token.top.iter().map(likely).collect();
    let (text, bytes) = spelling(token.token, tokenizer);
    TokenLogprob { token: text, logprob: token.logprob, bytes, top_logprobs }
}

fn spelling(token: TokenId, tokenizer: &Tokenizer) -> (String, Vec<u8>) {
    let bytes = tokenizer.vocabulary().bytes(token);
    (String::from_utf8_lossy(bytes).into_owned(), bytes.to_vec())
}
