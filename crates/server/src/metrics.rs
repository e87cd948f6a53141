//! `GET /metrics`: metrics of the server and its engines, in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::{Mutex, PoisonError};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use formwork_engine::{Histogram, Stats};

use crate::app::App;

/// Numbers of HTTP requests by route, method and status.
#[derive(Default)]
pub(crate) struct Counters {
    requests: Mutex<BTreeMap<(String, String, u16), u64>>,
}

impl Counters {
    fn count(&self, route: String, method: String, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((route, method, status)).or_default() += 1;
    }

    fn requests(&self) -> BTreeMap<(String, String, u16), u64> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Counts a request. Unknown paths and methods count as `other`, so that clients cannot create new
/// labels.
pub(crate) async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let method = match request.method().as_str() {
        known @ ("GET" | "HEAD" | "OPTIONS" | "POST") => known.to_owned(),
        _ => "other".to_owned(),
    };
    let response = next.run(request).await;
    let route = route.unwrap_or_else(|| "other".to_owned());
    app.counters().count(route, method, response.status().as_u16());
    response
}

/// `GET /metrics`.
pub(crate) async fn metrics(State(app): State<App>) -> Response {
    let mut text = Exposition::default();
    text.family("formwork_build_info", "gauge", "Version of the server.");
    text.sample("", &[("version", &env!("CARGO_PKG_VERSION"))], 1);
    text.family("formwork_http_requests_total", "counter", "Answered HTTP requests.");
    for ((route, method, status), count) in app.counters().requests() {
        text.sample("", &[("route", &route), ("method", &method), ("status", &status)], count);
    }
    let models = app.registry().loaded();
    text.family("formwork_model_loaded", "gauge", "Whether the model is in memory.");
    for (model, served) in &models {
        text.sample("", &[("model", model)], u8::from(served.is_some()));
    }
    let stats = |(model, served): (&str, Option<_>)| {
        let served: std::sync::Arc<crate::app::Served> = served?;
        Some((model.to_owned(), served.model.engine.stats()))
    };
    write_engines(&mut text, &models.into_iter().filter_map(stats).collect::<Vec<_>>());
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.0).into_response()
}

/// A metric of an engine: name, type, help text and value.
type Figure = (&'static str, &'static str, &'static str, fn(&Stats) -> f64);

const FIGURES: [Figure; 13] = [
    ("requests_waiting", "gauge", "Requests waiting in the queue.", |stats| stats.waiting as f64),
    ("requests_running", "gauge", "Running sequences.", |stats| stats.running as f64),
    ("prompt_tokens_total", "counter", "Prompt tokens, including cached ones.", |stats| {
        stats.prompt_tokens as f64
    }),
    ("prompt_tokens_cached_total", "counter", "Prompt tokens found in the prefix cache.", |stats| {
        stats.cached_tokens as f64
    }),
    ("completion_tokens_total", "counter", "Output tokens, including forced ones.", |stats| {
        stats.completion_tokens as f64
    }),
    ("completion_tokens_forced_total", "counter", "Output tokens forced by grammars.", |stats| {
        stats.forced_tokens as f64
    }),
    ("drafted_tokens_total", "counter", "Drafted tokens that were verified.", |stats| {
        stats.drafted_tokens as f64
    }),
    ("accepted_tokens_total", "counter", "Drafted tokens that were accepted.", |stats| {
        stats.accepted_tokens as f64
    }),
    ("steps_total", "counter", "Forward passes.", |stats| stats.steps as f64),
    ("grammar_seconds_total", "counter", "Time spent on masks and grammar states, in seconds.", |stats| {
        stats.grammar.as_secs_f64()
    }),
    ("model_seconds_total", "counter", "Time spent in forward passes, in seconds.", |stats| {
        stats.model.as_secs_f64()
    }),
    ("prefix_cache_tokens", "gauge", "Tokens in the prefix cache.", |stats| stats.cache_tokens as f64),
    ("generations_failed_total", "counter", "Generations that failed.", |stats| stats.failed as f64),
];

type Distribution = (&'static str, &'static str, fn(&Stats) -> &Histogram);

const DISTRIBUTIONS: [Distribution; 3] = [
    (
        "time_to_first_token_seconds",
        "Time from the arrival of a request to its first token, in seconds.",
        |stats| &stats.first_token,
    ),
    ("time_between_tokens_seconds", "Time between two tokens of a generation, in seconds.", |stats| {
        &stats.between_tokens
    }),
    ("batch_size", "Sequences in a forward pass.", |stats| &stats.batch),
];

/// Writes the metrics of all engines, labelled by model.
fn write_engines(text: &mut Exposition, engines: &[(String, Stats)]) {
    text.family("formwork_requests_total", "counter", "Generations that ended.");
    for (model, stats) in engines {
        let outcomes =
            [("finished", stats.finished), ("cancelled", stats.cancelled), ("failed", stats.failed)];
        for (outcome, count) in outcomes {
            text.sample("", &[("model", model), ("outcome", &outcome)], count);
        }
    }
    for (name, kind, help, value) in FIGURES {
        text.family(&format!("formwork_{name}"), kind, help);
        for (model, stats) in engines {
            text.sample("", &[("model", model)], value(stats));
        }
    }
    for (name, help, histogram) in DISTRIBUTIONS {
        text.family(&format!("formwork_{name}"), "histogram", help);
        for (model, stats) in engines {
            text.histogram(model, histogram(stats));
        }
    }
}

/// The text so far in Prometheus' format, and the name of the current metric family.
#[derive(Default)]
struct Exposition(String, String);

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        name.clone_into(&mut self.1);
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, suffix: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        let labels: Vec<_> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(&value.to_string())))
            .collect();
        let _ = writeln!(self.0, "{}{suffix}{{{}}} {value}", self.1, labels.join(","));
    }

    fn histogram(&mut self, model: &str, histogram: &Histogram) {
        let mut below = 0;
        for (bound, count) in &histogram.buckets {
            below += count;
            self.sample("_bucket", &[("model", &model), ("le", bound)], below);
        }
        self.sample("_bucket", &[("model", &model), ("le", &"+Inf")], histogram.count());
        self.sample("_sum", &[("model", &model)], histogram.sum);
        self.sample("_count", &[("model", &model)], histogram.count());
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_labels_escaped() {
        let mut histogram = Histogram::new(&[0.5, 2.0]);
        for value in [0.1, 0.5, 1.0, 7.0] {
            histogram.observe(value);
        }
        let mut text = Exposition::default();
        text.family("f", "histogram", "Some.");
        text.histogram("a\"b\\c\nd", &histogram);
        let model = r#"model="a\"b\\c\nd""#;
        let expected = [
            "# HELP f Some.".to_owned(),
            "# TYPE f histogram".to_owned(),
            format!("f_bucket{{{model},le=\"0.5\"}} 2"),
            format!("f_bucket{{{model},le=\"2\"}} 3"),
            format!("f_bucket{{{model},le=\"+Inf\"}} 4"),
            format!("f_sum{{{model}}} 8.6"),
            format!("f_count{{{model}}} 4"),
        ];
        assert_eq!(text.0.lines().collect::<Vec<_>>(), expected);
    }
}
