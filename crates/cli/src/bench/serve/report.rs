use std::fmt;
use std::time::Duration;

use anyhow::Result;
use formwork_benches::Distribution;
use serde_json::{Value, json};

use super::client::Answer;

/// Maximum number of errors that are printed per level.
const TOLD: usize = 3;

/// Results for one number of clients.
#[derive(Default)]
pub(super) struct Measured {
    clients: usize,
    schema: bool,
    elapsed: Duration,
    answers: usize,
    tokens: usize,
    /// Number of answers ended by the token limit.
    cut: usize,
    /// Number of complete answers that do not match the schema.
    invalid: usize,
    errors: Vec<String>,
    /// Times to the first token, in milliseconds.
    first: Vec<f64>,
    /// Times between chunks with text, in milliseconds.
    between: Vec<f64>,
}

impl Measured {
    pub(super) fn new(clients: usize, schema: bool) -> Self {
        Self { clients, schema, ..Self::default() }
    }

    /// Adds the result of one request.
    pub(super) fn add(&mut self, answer: Result<Answer>, accepts: impl Fn(&str) -> bool) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.errors.push(crate::one_line(&error)),
        };
        self.answers += 1;
        self.tokens += answer.tokens;
        if answer.cut {
            self.cut += 1;
        } else if !accepts(&answer.text) {
            self.invalid += 1;
        }
        if !answer.first.is_zero() {
            self.first.push(milliseconds(answer.first));
        }
        self.between.extend(answer.between.into_iter().map(milliseconds));
    }

    pub(super) const fn end(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
    }

    pub(super) const fn errors(&self) -> usize {
        self.errors.len()
    }

    pub(super) const fn invalid(&self) -> usize {
        self.invalid
    }

    pub(super) fn first_errors(&self) -> &[String] {
        &self.errors[..self.errors.len().min(TOLD)]
    }

    fn per_second(&self, count: usize) -> f64 {
        if self.elapsed.is_zero() { 0.0 } else { count as f64 / self.elapsed.as_secs_f64() }
    }

    pub(super) fn as_json(&self) -> Value {
        let times = |times: &[f64]| {
            let of = Distribution::of(times.iter().copied());
            json!({ "count": of.count, "avg": of.avg, "p50": of.p50, "p90": of.p90, "p99": of.p99, "max": of.max })
        };
        json!({
            "test": "serve",
            "clients": self.clients,
            "schema": self.schema,
            "seconds": self.elapsed.as_secs_f64(),
            "answers": self.answers,
            "errors": self.errors.len(),
            "invalid": self.invalid,
            "cut": self.cut,
            "output_tokens": self.tokens,
            "output_tokens_per_s": self.per_second(self.tokens),
            "requests_per_s": self.per_second(self.answers),
            "first_token_ms": times(&self.first),
            "between_tokens_ms": times(&self.between),
        })
    }

    /// Returns the header line for the rows that `Display` writes.
    pub(super) fn header() -> String {
        format!(
            "{:>8} {:>7} {:>8} {:>7} {:>8} {:>6} {:>9} {:>9} {:>26} {:>26}",
            "clients",
            "schema",
            "answers",
            "errors",
            "invalid",
            "cut",
            "tokens/s",
            "req/s",
            "first token ms p50/90/99",
            "between p50/90/99"
        )
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |times: &[f64]| {
            let of = Distribution::of(times.iter().copied());
            format!("{:.1}/{:.1}/{:.1}", of.p50, of.p90, of.p99)
        };
        write!(
            f,
            "{:>8} {:>7} {:>8} {:>7} {:>8} {:>6} {:>9.1} {:>9.2} {:>26} {:>26}",
            self.clients,
            if self.schema { "yes" } else { "no" },
            self.answers,
            self.errors.len(),
            self.invalid,
            self.cut,
            self.per_second(self.tokens),
            self.per_second(self.answers),
            times(&self.first),
            times(&self.between),
        )
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
