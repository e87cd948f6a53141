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

/// Labels of a counter of HTTP requests.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RequestLabels {
    route: String,
    method: String,
    status: u16,
}

/// Numbers of HTTP requests by their labels.
#[derive(Default)]
pub(crate) struct Counters {
    requests: Mutex<BTreeMap<RequestLabels, u64>>,
}

impl Counters {
    fn count(&self, labels: RequestLabels) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry(labels).or_default() += 1;
    }

    fn requests(&self) -> BTreeMap<RequestLabels, u64> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Counts a request. Unknown paths and methods count as `other`, so that clients cannot create new
/// labels.
pub(crate) async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let method = match request.method().as_str() {
        known @ ("DELETE" | "GET" | "HEAD" | "OPTIONS" | "POST") => known.to_owned(),
        _ => "other".to_owned(),
    };
    let response = next.run(request).await;
    let route = route.unwrap_or_else(|| "other".to_owned());
    app.counters().count(RequestLabels { route, method, status: response.status().as_u16() });
    response
}

/// `GET /metrics`.
pub(crate) async fn metrics(State(app): State<App>) -> Response {
    let mut text = Exposition::default();
    text.family("formwork_build_info", "gauge", "Version of the server.");
    text.sample("", &[("version", &env!("CARGO_PKG_VERSION"))], 1);
    text.family("formwork_http_requests_total", "counter", "Answered HTTP requests.");
    for (RequestLabels { route, method, status }, count) in app.counters().requests() {
        text.sample("", &[("route", &route), ("method", &method), ("status", &status)], count);
    }
    let models = app.registry().loaded();
    text.family("formwork_model_loaded", "gauge", "Whether the model is in memory.");
    for (model, served) in &models {
        text.sample("", &[("model", model)], u8::from(served.is_some()));
    }
    text.family("formwork_model_bytes", "gauge", "Estimated memory use of the model, in bytes.");
    for (model, _) in models.iter().filter(|(_, served)| served.is_some()) {
        text.sample("", &[("model", model)], app.registry().bytes(model));
    }
    if let Some(bytes) = resident_bytes() {
        text.family("process_resident_memory_bytes", "gauge", "Memory of the process in RAM, in bytes.");
        text.sample("", &[], bytes);
    }
    let stats = |(model, served): (&str, Option<_>)| {
        let served: std::sync::Arc<crate::app::Served> = served?;
        Some((model.to_owned(), served.model.engine.stats()))
    };
    write_engines(&mut text, &models.into_iter().filter_map(stats).collect::<Vec<_>>());
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.text).into_response()
}

/// Returns the memory of the process in RAM, in bytes. Mapped files count as far as they were read.
/// Returns `None` on systems other than Linux.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    kilobytes.trim().strip_suffix("kB")?.trim().parse().ok().map(|kilobytes: u64| kilobytes * 1024)
}

/// A metric of an engine with one value.
struct Figure {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&Stats) -> f64,
}

impl Figure {
    /// Creates a value that may rise and fall.
    const fn gauge(name: &'static str, help: &'static str, value: fn(&Stats) -> f64) -> Self {
        Self { name, kind: "gauge", help, value }
    }

    /// Creates a value that only rises.
    const fn counter(name: &'static str, help: &'static str, value: fn(&Stats) -> f64) -> Self {
        Self { name, kind: "counter", help, value }
    }
}

const FIGURES: [Figure; 18] = [
    Figure::gauge("requests_waiting", "Requests waiting in the queue.", |stats| stats.waiting as f64),
    Figure::gauge("requests_running", "Running sequences.", |stats| stats.running as f64),
    Figure::counter("decisions_total", "Prompts of questions that were decided.", |stats| {
        stats.decisions as f64
    }),
    Figure::counter(
        "decision_nodes_total",
        "Token prefixes of options that were read for decisions.",
        |stats| stats.decision_nodes as f64,
    ),
    Figure::counter("prompt_tokens_total", "Prompt tokens, including cached ones.", |stats| {
        stats.prompt_tokens as f64
    }),
    Figure::counter("prompt_tokens_cached_total", "Prompt tokens found in the prefix cache.", |stats| {
        stats.cached_tokens as f64
    }),
    Figure::counter(
        "replayed_tokens_total",
        "Tokens computed again because a recurrent state cannot be cut.",
        |stats| stats.replayed_tokens as f64,
    ),
    Figure::counter("completion_tokens_total", "Output tokens, including forced ones.", |stats| {
        stats.completion_tokens as f64
    }),
    Figure::counter("completion_tokens_forced_total", "Output tokens forced by grammars.", |stats| {
        stats.forced_tokens as f64
    }),
    Figure::counter("drafted_tokens_total", "Drafted tokens that were verified.", |stats| {
        stats.drafted_tokens as f64
    }),
    Figure::counter("accepted_tokens_total", "Drafted tokens that were accepted.", |stats| {
        stats.accepted_tokens as f64
    }),
    Figure::counter("head_rows_total", "Rows of the output head that masks allowed.", |stats| {
        stats.head_rows as f64
    }),
    Figure::counter(
        "head_rows_unmasked_total",
        "Rows of the output head that the same passes would have without masks.",
        |stats| stats.unmasked_head_rows as f64,
    ),
    Figure::counter("steps_total", "Forward passes.", |stats| stats.steps as f64),
    Figure::counter(
        "grammar_seconds_total",
        "Time spent on masks and grammar states, in seconds.",
        |stats| stats.grammar.as_secs_f64(),
    ),
    Figure::counter("model_seconds_total", "Time spent in forward passes, in seconds.", |stats| {
        stats.model.as_secs_f64()
    }),
    Figure::gauge("prefix_cache_tokens", "Tokens in the prefix cache.", |stats| stats.cache_tokens as f64),
    Figure::counter("generations_failed_total", "Generations that failed.", |stats| stats.failed as f64),
];

/// A metric of an engine with a histogram.
struct Distribution {
    name: &'static str,
    help: &'static str,
    histogram: fn(&Stats) -> &Histogram,
}

const DISTRIBUTIONS: [Distribution; 3] = [
    Distribution {
        name: "time_to_first_token_seconds",
        help: "Time from the arrival of a request to its first token, in seconds.",
        histogram: |stats| &stats.first_token,
    },
    Distribution {
        name: "time_between_tokens_seconds",
        help: "Time between two tokens of a generation, in seconds.",
        histogram: |stats| &stats.between_tokens,
    },
    Distribution {
        name: "batch_size",
        help: "Sequences in a forward pass.",
        histogram: |stats| &stats.batch,
    },
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
    for Figure { name, kind, help, value } in FIGURES {
        text.family(&format!("formwork_{name}"), kind, help);
        for (model, stats) in engines {
            text.sample("", &[("model", model)], value(stats));
        }
    }
    for Distribution { name, help, histogram } in DISTRIBUTIONS {
        text.family(&format!("formwork_{name}"), "histogram", help);
        for (model, stats) in engines {
            text.histogram(model, histogram(stats));
        }
    }
}

/// Metrics in Prometheus' text format.
#[derive(Default)]
struct Exposition {
    text: String,
    /// Name of the current metric family.
    family: String,
}

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        name.clone_into(&mut self.family);
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, suffix: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        let labels: Vec<_> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(&value.to_string())))
            .collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{}{suffix}{labels} {value}", self.family);
    }

    fn histogram(&mut self, model: &str, histogram: &Histogram) {
        let mut below = 0;
        for bucket in &histogram.buckets {
            below += bucket.count;
            self.sample("_bucket", &[("model", &model), ("le", &bucket.bound)], below);
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
        assert_eq!(text.text.lines().collect::<Vec<_>>(), expected);
    }
}
