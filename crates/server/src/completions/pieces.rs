//! Completions as server-sent events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use formwork_engine::{Generation, Output, TokenLogprob};
use formwork_openai::{ChunkUsage, CompletionChoice, StreamOptions, TokenMask, Usage};
use futures_util::stream::{self, SelectAll};
use futures_util::{Stream, StreamExt};

use super::{Started, completion, ended, logprobs, piece, sum};
use crate::answer::{Answer, usage};
use crate::mask_view::MaskViews;
use crate::stream::{done, error_event, event};

/// Streams the generations. Dropping the response cancels them.
pub(super) fn respond(mut started: Started, answer: Answer, options: StreamOptions) -> Response {
    let generations = std::mem::take(&mut started.generations);
    let count = generations.len();
    let pieces = Pieces {
        outputs: together(generations),
        events: VecDeque::new(),
        texts: (0..count).map(|_| Text { masks: started.masks(), ..Text::default() }).collect(),
        used: vec![Usage::default(); started.request.prompts.len()],
        open: count,
        started,
        answer,
        options,
    };
    let events = stream::unfold(pieces, |mut pieces| async {
        let event = pieces.next_event().await?;
        Some((Ok::<_, Infallible>(event), pieces))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

type Outputs = Pin<Box<dyn Stream<Item = (usize, Output)> + Send>>;

fn together(generations: Vec<Generation>) -> SelectAll<Outputs> {
    stream::select_all(generations.into_iter().enumerate().map(|(index, generation)| {
        let outputs = stream::unfold(generation, move |mut generation| async move {
            let output = generation.next().await?;
            Some(((index, output), generation))
        });
        Box::pin(outputs) as Outputs
    }))
}

struct Pieces {
    outputs: SelectAll<Outputs>,
    /// Events that are ready to be sent.
    events: VecDeque<Event>,
    texts: Vec<Text>,
    /// Token counts of each prompt.
    used: Vec<Usage>,
    /// Number of outputs that have not ended.
    open: usize,
    started: Started,
    answer: Answer,
    options: StreamOptions,
}

/// Progress of an output's text.
#[derive(Default)]
struct Text {
    begun: bool,
    /// True if log-probabilities have been sent.
    reported: bool,
    /// Tokens whose text has not been sent.
    tokens: Vec<TokenLogprob>,
    /// Number of characters in the sent tokens.
    offset: usize,
    /// Effect of the constraint on each token, if it is asked for.
    masks: Option<MaskViews>,
}

impl Pieces {
    async fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let (index, output) = self.outputs.next().await?;
            self.take(index, output);
        }
    }

    fn take(&mut self, index: usize, output: Output) {
        match output {
            Output::Token(token) | Output::PromptToken(token) => self.texts[index].tokens.push(token),
            Output::Control(_) | Output::Generated(_) => {}
            Output::Masked(mask) => {
                if let Some(masks) = &mut self.texts[index].masks {
                    masks.token(mask, self.started.served.vocabulary());
                }
            }
            Output::Text(text) => {
                if let Some(masks) = &mut self.texts[index].masks {
                    masks.show_content(&text);
                }
                let text = self.begun(index) + &text;
                let logprobs = self.logprobs(index);
                let mask_view = self.mask_view(index);
                self.push(CompletionChoice { logprobs, mask_view, ..piece(index, text) });
            }
            Output::Finished(finish) => {
                self.answer.log(&finish);
                let prompt = index / self.started.request.parameters.n;
                self.used[prompt] = self.used[prompt].and(usage(&finish));
                let text = self.begun(index);
                let logprobs = self.logprobs(index);
                let mask_view = self.mask_view(index);
                self.push(CompletionChoice { text, logprobs, mask_view, ..ended(index, &finish) });
                self.open -= 1;
                if self.open == 0 {
                    self.close();
                }
            }
            Output::Failed(error) => {
                self.events.push_back(error_event(&error.into()));
                self.outputs.clear();
            }
        }
    }

    /// Returns the echo at the start of an output on the first call, and an empty string
    /// afterwards.
    fn begun(&mut self, index: usize) -> String {
        if std::mem::replace(&mut self.texts[index].begun, true) {
            return String::new();
        }
        self.started.echo(index).to_owned()
    }

    fn logprobs(&mut self, index: usize) -> Option<formwork_openai::CompletionLogprobs> {
        self.started.request.logprobs?;
        let text = &mut self.texts[index];
        let is_first = !std::mem::replace(&mut text.reported, true);
        let first = self.started.first(index).filter(|_| is_first);
        if text.tokens.is_empty() && first.is_none() {
            return None;
        }
        let tokenizer = self.started.served.model.engine.tokenizer();
        Some(logprobs::lists(first, &std::mem::take(&mut text.tokens), tokenizer, &mut text.offset))
    }

    /// Returns what the constraint did to the tokens that were not sent.
    fn mask_view(&mut self, index: usize) -> Option<Vec<TokenMask>> {
        let masks = self.texts[index].masks.as_mut()?.take(self.started.served.vocabulary());
        (!masks.is_empty()).then_some(masks)
    }

    fn push(&mut self, choice: CompletionChoice) {
        let usage = self.options.include_usage.then_some(ChunkUsage::Pending);
        self.events.push_back(event(&completion(&self.answer, vec![choice], usage)));
    }

    fn close(&mut self) {
        if self.options.include_usage {
            let used = self.used.iter().fold(Usage::default(), |all, &used| sum(all, used));
            let usage = Some(ChunkUsage::Total(used));
            self.events.push_back(event(&completion(&self.answer, Vec::new(), usage)));
        }
        self.events.push_back(done());
        self.outputs.clear();
    }
}
