//! Speed of prefill and decode of a model, without the engine around it: the `pp` and `tg` tests of
//! llama-bench. Prompts are processed in pieces of 512 tokens, as in the engine.

use std::fmt;
use std::time::{Duration, Instant};

use formwork_lm::{Batch, LanguageModel, ModelError, Role, Run, SequenceId, Wanted};
use formwork_vocab::{TokenId, TokenKind, Vocabulary};

/// Maximum number of prompt tokens in one forward pass.
const PIECE: usize = 512;

/// Speed of each run of a measurement, in tokens per second.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    runs: Vec<(usize, f64)>,
}

impl Rates {
    /// Adds a run that processed `tokens` tokens in `time`.
    pub fn push(&mut self, tokens: usize, time: Duration) {
        self.runs.push((tokens, tokens as f64 / time.as_secs_f64().max(1e-9)));
    }

    /// Returns the number of tokens in the longest run, or zero if there are none.
    pub fn tokens(&self) -> usize {
        self.runs.iter().map(|run| run.0).max().unwrap_or(0)
    }

    /// Returns the tokens per second of each run, in the order in which the runs were added.
    pub fn per_second(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.1).collect()
    }

    /// Returns the average of the tokens per second over all runs, or zero if there are none.
    pub fn mean(&self) -> f64 {
        self.per_second().iter().sum::<f64>() / self.runs.len().max(1) as f64
    }

    /// Returns the standard deviation of the tokens per second, or zero for fewer than two runs.
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.runs.iter().map(|run| (run.1 - mean).powi(2)).sum();
        (squares / self.runs.len().saturating_sub(1).max(1) as f64).sqrt()
    }

    /// Returns the median of the tokens per second, or zero if there are no runs. For an even
    /// number of runs, this is the average of the middle two.
    ///
    /// ```
    /// use std::time::Duration;
    /// use formwork_benches::throughput::Rates;
    /// let mut rates = Rates::default();
    /// for seconds in [1, 2, 4] {
    ///     rates.push(100, Duration::from_secs(seconds));
    /// }
    /// assert_eq!((rates.median(), rates.per_second()), (50.0, vec![100.0, 50.0, 25.0]));
    /// ```
    pub fn median(&self) -> f64 {
        let mut rates = self.per_second();
        rates.sort_unstable_by(f64::total_cmp);
        match rates.len() {
            0 => 0.0,
            count if count % 2 == 1 => rates[count / 2],
            count => f64::midpoint(rates[count / 2 - 1], rates[count / 2]),
        }
    }
}

impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tokens, runs) = (self.tokens(), self.runs.len());
        let (mean, deviation, median) = (self.mean(), self.deviation(), self.median());
        write!(f, "{tokens} tokens, {mean:.1} ± {deviation:.1} tokens/s, median {median:.1} of {runs}")
    }
}

/// Returns `count` text tokens of `vocabulary` in a fixed order that makes no sense as text.
/// Returns no tokens if the vocabulary has no text tokens.
pub fn tokens(vocabulary: &Vocabulary, count: usize) -> Vec<TokenId> {
    let text: Vec<TokenId> = vocabulary.ids().filter(|&id| vocabulary.kind(id) == TokenKind::Text).collect();
    let stride = text.len() * 5 / 13 + 1;
    (0..count).filter_map(|index| text.get(index * stride % text.len().max(1)).copied()).collect()
}

/// Measures the speed of prefill: `runs` times, processes `prompt` in a new sequence up to the
/// logits after its last token. An additional run for warming up comes first and is not counted.
/// Calls `done` with the index of each run; the warm-up has index 0.
///
/// # Errors
/// Returns an error if the model fails, for example because the prompt does not fit its context.
pub fn prefill(
    model: &mut dyn LanguageModel,
    prompt: &[TokenId],
    runs: usize,
    mut done: impl FnMut(usize),
) -> Result<Rates, ModelError> {
    let mut rates = Rates::default();
    for run in 0..=runs {
        let sequence = model.open();
        let start = Instant::now();
        read(model, sequence, prompt)?;
        if run > 0 {
            rates.push(prompt.len(), start.elapsed());
        }
        model.close(sequence);
        done(run);
    }
    Ok(rates)
}

/// Measures the speed of [`decode_once`] in `runs` runs. An additional run for warming up comes
/// first and is not counted. Calls `done` with the index of each run; the warm-up has index 0.
///
/// # Errors
/// Returns the errors of [`prefill`].
pub fn decode(
    model: &mut dyn LanguageModel,
    before: &[TokenId],
    tokens: &[TokenId],
    runs: usize,
    mut done: impl FnMut(usize),
) -> Result<Rates, ModelError> {
    let mut rates = Rates::default();
    for run in 0..=runs {
        let time = decode_once(model, before, tokens)?;
        if run > 0 {
            rates.push(tokens.len(), time);
        }
        done(run);
    }
    Ok(rates)
}

/// Returns the time for decoding `tokens` after `before` in a new sequence. Each token is appended
/// in its own forward pass that computes all logits, as if the token had been sampled. The prefill
/// of `before` is not timed.
///
/// # Errors
/// Returns the errors of [`prefill`].
pub fn decode_once(
    model: &mut dyn LanguageModel,
    before: &[TokenId],
    tokens: &[TokenId],
) -> Result<Duration, ModelError> {
    let sequence = model.open();
    read(model, sequence, before)?;
    let start = Instant::now();
    for token in tokens {
        append(model, sequence, std::slice::from_ref(token), Role::Generated, Wanted::All)?;
    }
    let time = start.elapsed();
    model.close(sequence);
    Ok(time)
}

/// Appends a prompt to a sequence and computes the logits after its last token.
fn read(model: &mut dyn LanguageModel, sequence: SequenceId, prompt: &[TokenId]) -> Result<(), ModelError> {
    let mut pieces = prompt.chunks(PIECE).peekable();
    while let Some(piece) = pieces.next() {
        let wanted = if pieces.peek().is_some() { Wanted::Nothing } else { Wanted::All };
        append(model, sequence, piece, Role::Prompt, wanted)?;
    }
    Ok(())
}

fn append(
    model: &mut dyn LanguageModel,
    sequence: SequenceId,
    tokens: &[TokenId],
    role: Role,
    wanted: Wanted<'_>,
) -> Result<(), ModelError> {
    let runs = vec![Run { sequence, tokens, role, wanted }];
    let logits = model.forward(&Batch { runs })?;
    model.recycle(logits);
    Ok(())
}

#[cfg(test)]
mod tests {
    use formwork_lm::ScriptedModel;
    use formwork_vocab::Token;

    use super::*;

    fn vocabulary() -> Vocabulary {
        let kind = |id| if id % 2 == 0 { TokenKind::Text } else { TokenKind::Control };
        let tokens = (0..10_u8).map(|id| Token { bytes: vec![b'a' + id], kind: kind(id) }).collect();
        Vocabulary::new(tokens, vec![]).expect("a good vocabulary")
    }

    #[test]
    fn tokens_are_of_text() {
        let vocabulary = vocabulary();
        let tokens = tokens(&vocabulary, 20);
        assert_eq!(tokens.len(), 20);
        assert!(tokens.iter().all(|token| token.0 % 2 == 0), "{tokens:?}");
    }

    #[test]
    fn runs_are_counted_but_the_first_prompt() {
        let mut model = ScriptedModel::new(10, 8, |_, _| {});
        let tokens = tokens(&vocabulary(), 8);
        let mut seen = Vec::new();
        let rates = prefill(&mut model, &tokens, 3, |run| seen.push(run)).expect("it fits");
        assert_eq!((rates.tokens(), rates.per_second().len(), seen), (8, 3, vec![0, 1, 2, 3]));
        let rates = decode(&mut model, &tokens[..2], &tokens[2..], 2, |_| ()).expect("it fits");
        assert_eq!((rates.tokens(), rates.per_second().len()), (6, 2));
        assert!(decode(&mut model, &tokens, &tokens[..1], 1, |_| ()).is_err(), "nine do not fit into eight");
    }
}
