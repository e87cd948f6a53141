use std::time::Duration;

use formwork_vocab::TokenId;

use crate::{GenerationError, TokenMask};

/// Output of a generation. Outputs arrive in order.
#[derive(Debug)]
pub enum Output {
    /// Next piece of text: whole characters, never empty.
    Text(String),
    /// A control token, for example the opening of a tool call. Never end-of-sequence.
    Control(TokenId),
    /// A token of the output, control tokens included. Only sent if
    /// [`Request::reports_tokens`](crate::Request::reports_tokens) is set: once per token, in order, and before the text that
    /// the token completes.
    Generated(TokenId),
    /// A token of the output with its log-probability. Only sent if
    /// [`Request::logprobs`](crate::Request::logprobs) is set: once per token, in order, and before
    /// the text that the token completes.
    Token(TokenLogprob),
    /// Effect of the constraint on a token of the output. Only sent if
    /// [`Request::mask_view`](crate::Request::mask_view) is set. Comes once per token, in order, and before the
    /// text that the token completes.
    Masked(TokenMask),
    /// A token of the prompt with its log-probability. Only sent if
    /// [`Request::prompt_logprobs`](crate::Request::prompt_logprobs) is set: once for each token except
    /// the first, in order, and before all other outputs.
    PromptToken(TokenLogprob),
    /// Successful end of the generation, always the last output.
    Finished(Finish),
    /// End of the generation by an error, always the last output.
    Failed(GenerationError),
}

/// Log-probability of a token by the model's own logits, without mask, temperature, penalties and
/// bias.
#[derive(Clone, PartialEq, Debug)]
pub struct TokenLogprob {
    /// The token.
    pub token: TokenId,
    /// Natural logarithm of the token's probability.
    pub logprob: f32,
    /// Likeliest tokens at this position with their log-probabilities, likeliest first.
    pub top: Vec<(TokenId, f32)>,
}

/// Summary of a finished generation.
#[derive(Clone, PartialEq, Debug)]
pub struct Finish {
    /// Reason for the end.
    pub reason: FinishReason,
    /// Stop string that ended the output. `None` if the output ended in another way.
    pub stop_string: Option<String>,
    /// True if the token budget limited the output: the engine steered it to a complete and valid
    /// end.
    pub closed_by_budget: bool,
    /// Token counts.
    pub usage: Usage,
    /// Sum of the log-probabilities of the output's tokens. `None` unless
    /// [`Request::logprobs`](crate::Request::logprobs) is set.
    pub cumulative_logprob: Option<f64>,
    /// Time spent in each phase.
    pub timings: Timings,
}

/// Reason for the end of a generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FinishReason {
    /// The model ended the output, a stop string or stop token occurred, or the grammar was
    /// complete.
    Stop,
    /// The token budget ran out. Only without a constraint or with
    /// [`OnBudget::Length`](crate::OnBudget::Length).
    Length,
}

/// Token counts of one generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Prompt tokens that were already computed, for this or another request.
    pub cached_tokens: usize,
    /// Tokens of the output without the end-of-sequence token.
    pub completion_tokens: usize,
    /// Output tokens that the grammar forced, without sampling.
    pub forced_tokens: usize,
    /// Output tokens before the end of the reasoning, or all output tokens if the reasoning did not
    /// end. 0 unless [`Request::reasoning`](crate::Request::reasoning) is set.
    pub reasoning_tokens: usize,
}

/// Time spent in each phase of one generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timings {
    /// Time from admission to the first output token. Tokens forced at the start of the output are
    /// emitted before the prompt is read.
    pub first_token: Duration,
    /// Time from admission until the model has read the prompt, or the whole time if the model
    /// never reads all of it.
    pub prompt: Duration,
    /// Time from the end of the prompt to the end of the generation.
    pub decode: Duration,
    /// Part of the time above that was spent on masks and grammar states.
    pub grammar: Duration,
}
