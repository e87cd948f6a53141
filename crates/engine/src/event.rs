use std::time::Duration;

use formwork_vocab::TokenId;

use crate::GenerationError;

/// What a generation yields, in order.
#[derive(Debug)]
pub enum Output {
    /// More text: whole characters, never empty.
    Text(String),
    /// A token that is no text, such as the opening of a tool call; never end-of-sequence.
    Control(TokenId),
    /// A token of the output, where [`Request::logprobs`](crate::Request::logprobs) asks for them: each once, in order, and
    /// before the text that it makes visible.
    Token(TokenLogprob),
    /// The end. Nothing follows.
    Finished(Finish),
    /// The end, by a failure. Nothing follows.
    Failed(GenerationError),
}

/// How likely a token was, by the model's own logits: without mask, temperature, penalties and bias.
#[derive(Clone, PartialEq, Debug)]
pub struct TokenLogprob {
    /// The token.
    pub token: TokenId,
    /// The natural logarithm of its probability.
    pub logprob: f32,
    /// The likeliest tokens in its place, likeliest first.
    pub top: Vec<(TokenId, f32)>,
}

/// How a generation ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Finish {
    /// Why it ended.
    pub reason: FinishReason,
    /// Whether the budget kept the output from going on: it was steered to its end, complete and valid.
    pub closed_by_budget: bool,
    /// Tokens that were used.
    pub usage: Usage,
    /// The sum of the log-probabilities of the output's tokens, where [`Request::logprobs`](crate::Request::logprobs) asks for
    /// them.
    pub cumulative_logprob: Option<f64>,
    /// Where the time went.
    pub timings: Timings,
}

/// Why a generation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FinishReason {
    /// The model ended it, a stop string came, or the grammar was complete.
    Stop,
    /// The token budget ran out: only without a constraint, or with [`OnBudget::Length`](crate::OnBudget::Length).
    Length,
}

/// Tokens of one generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Those of the prompt that had been computed before, for this or another request.
    pub cached_tokens: usize,
    /// Tokens of the output, end-of-sequence not counted.
    pub completion_tokens: usize,
    /// Those of the output that the grammar forced, without asking the model.
    pub forced_tokens: usize,
    /// Those of the output before the end of the reasoning, or all where it did not come, where [`Request::reasoning`](crate::Request::reasoning) is given.
    pub reasoning_tokens: usize,
}

/// Where the time of one generation went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timings {
    /// From admission to the first token of the output. What a grammar forces at the beginning comes before the prompt is read.
    pub first_token: Duration,
    /// From admission until the model has read the prompt; the whole time where it never has to.
    pub prompt: Duration,
    /// From there to the end.
    pub decode: Duration,
    /// Spent on masks and grammar states, within the above.
    pub grammar: Duration,
}
