use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::repair::Shape;
use crate::{BackendError, Plan, PromptRunner};

/// Request to judge a plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanRequest<'a> {
    /// Text of the plan.
    pub plan: &'a str,
    /// Text of the task that the plan is for; may be empty.
    pub task: &'a str,
    /// Maximum number of tokens in a model's answer.
    pub max_tokens: u32,
}

/// Judgement of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// True if the plan is acceptable.
    pub is_passed: bool,
    /// Quality of the plan, where higher is better; `None` if the validator gives no score. The
    /// validator defines the scale, and
    /// [`PrecheckOptions::score_threshold`](super::PrecheckOptions::score_threshold) must use the
    /// same scale.
    pub score: Option<f64>,
    /// Reason for the rejection of the plan, or a suggested improvement. Used only if the check
    /// fails.
    pub feedback: Option<String>,
}

impl Judgement {
    /// Creates the judgement of an acceptable plan, without score and feedback.
    pub const fn passed() -> Self {
        Self { is_passed: true, score: None, feedback: None }
    }

    /// Creates the judgement of an unacceptable plan, without a score. `feedback` gives the reason.
    pub fn failed(feedback: impl Into<String>) -> Self {
        Self { is_passed: false, score: None, feedback: Some(feedback.into()) }
    }
}

/// Judges plans. Closures that take a `&PlanRequest` and return a `Result<Judgement, BackendError>`
/// implement this trait.
pub trait PlanValidator: Send + Sync {
    /// Judges the plan in `request`. Returns `None` if the validator has no opinion.
    fn judge<'a>(
        &'a self,
        request: &'a PlanRequest<'a>,
    ) -> BoxFuture<'a, Result<Option<Judgement>, BackendError>>;
}

impl<F> PlanValidator for F
where
    F: Fn(&PlanRequest<'_>) -> Result<Judgement, BackendError> + Send + Sync,
{
    fn judge<'a>(
        &'a self,
        request: &'a PlanRequest<'a>,
    ) -> BoxFuture<'a, Result<Option<Judgement>, BackendError>> {
        ready(self(request).map(Some)).boxed()
    }
}

/// Validator that asks a model.
///
/// The request has temperature 0 and asks for `{"pass": …, "score": …, "feedback": …}`. If the
/// backend refuses the `response_format`, the request is repeated without a `response_format`. A
/// text that begins with a word such as `pass`, `yes`, `fail` or `no` is also accepted. Any other
/// answer counts as no opinion.
#[derive(Clone)]
pub struct PromptValidator {
    prompts: PromptRunner,
    system: String,
}

/// Default system message of a [`PromptValidator`].
const SYSTEM: &str = "You check plans before they are carried out. Say whether the plan will do what the task asks for. Answer with a \
JSON object: `pass` (true or false), `score` (0 to 1) and `feedback` (one sentence that says what to change).";

/// Judgement in the JSON format that the request asks for.
#[derive(Deserialize)]
struct Written {
    pass: bool,
    #[serde(default)]
    score: Option<f64>,
    #[serde(default)]
    feedback: Option<String>,
}

/// Returns the JSON Schema of [`Written`].
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "pass": { "type": "boolean" }, "score": { "type": "number" }, "feedback": { "type": "string" } },
        "required": ["pass", "score", "feedback"],
        "additionalProperties": false,
    })
}

impl PromptValidator {
    /// Creates a validator that sends its requests through `prompts`.
    pub fn new(prompts: PromptRunner) -> Self {
        Self { prompts, system: SYSTEM.to_owned() }
    }

    /// Sets the system message, which must describe the judgement as a JSON object.
    #[must_use]
    pub fn with_system(mut self, system: impl Into<String>) -> Self {
        self.system = system.into();
        self
    }

    fn plan(&self, request: &PlanRequest<'_>) -> Plan {
        let messages = vec![
            json!({ "role": "system", "content": self.system }),
            json!({ "role": "user", "content": content(request) }),
        ];
        let mut plan = Plan { messages, ..Plan::default() };
        plan.options.insert("max_tokens".to_owned(), request.max_tokens.into());
        plan.options.insert("temperature".to_owned(), 0.into());
        plan
    }
}

impl PlanValidator for PromptValidator {
    fn judge<'a>(
        &'a self,
        request: &'a PlanRequest<'a>,
    ) -> BoxFuture<'a, Result<Option<Judgement>, BackendError>> {
        async move {
            let plain = self.plan(request);
            let mut held = plain.clone();
            let named = json!({ "name": "judgement", "strict": true, "schema": schema() });
            let format = json!({ "type": "json_schema", "json_schema": named });
            held.options.insert("response_format".to_owned(), format);
            let reply = match self.prompts.run(&held).await {
                Err(error) if error.is_of_mode() => self.prompts.run(&plain).await?,
                answered => answered?,
            };
            Ok(read(&reply.content()))
        }
        .boxed()
    }
}

/// Validator that asks a model for the probability that a plan is good, as a decision.
///
/// The probability is the score. The plan passes if it is at least a threshold, 0.5 by default. There is no
/// feedback.
#[derive(Clone)]
pub struct DecisionValidator {
    prompts: PromptRunner,
    system: Option<String>,
    threshold: f64,
}

/// Question of a [`DecisionValidator`].
const IS_GOOD: &str = "Will the plan do what the task asks for?";

impl DecisionValidator {
    /// Creates a validator that sends its questions through `prompts`.
    pub const fn new(prompts: PromptRunner) -> Self {
        Self { prompts, system: None, threshold: 0.5 }
    }

    /// Sets the least probability of a plan that passes.
    #[must_use]
    pub const fn with_threshold(mut self, threshold: f64) -> Self {
        self.threshold = threshold;
        self
    }

    /// Sets a system message that comes before the task and the plan.
    #[must_use]
    pub fn with_system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }
}

impl PlanValidator for DecisionValidator {
    fn judge<'a>(
        &'a self,
        request: &'a PlanRequest<'a>,
    ) -> BoxFuture<'a, Result<Option<Judgement>, BackendError>> {
        async move {
            let system = self.system.iter().map(|text| json!({ "role": "system", "content": text }));
            let messages: Vec<Value> =
                system.chain([json!({ "role": "user", "content": content(request) })]).collect();
            let score = self.prompts.predict(&messages, IS_GOOD).await?.probability;
            Ok(Some(Judgement { is_passed: score >= self.threshold, score: Some(score), feedback: None }))
        }
        .boxed()
    }
}

/// Returns the text with the task and the plan.
fn content(request: &PlanRequest<'_>) -> String {
    let task = request.task.trim();
    let task = if task.is_empty() { String::new() } else { format!("Task:\n{task}\n\n") };
    format!("{task}Plan:\n{}", request.plan.trim())
}

/// Parses a model's answer. Returns `None` if the answer expresses no opinion.
fn read(text: &str) -> Option<Judgement> {
    let shape = Shape::of_schema(schema(), "judgement").ok()?;
    if let Some(value) = shape.read(text).value
        && let Ok(written) = serde_json::from_value::<Written>(value)
    {
        let Written { pass, score, feedback } = written;
        return Some(Judgement { is_passed: pass, score, feedback });
    }
    // Other JSON expresses no opinion.
    if text.contains('{') {
        return None;
    }
    let text = text.trim().trim_start_matches(|c: char| !c.is_alphanumeric());
    let (word, rest) = text.split_at(text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len()));
    let rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric()).trim();
    match word.to_ascii_lowercase().as_str() {
        "pass" | "passed" | "ok" | "yes" => Some(Judgement::passed()),
        "fail" | "failed" | "no" => Some(Judgement::failed(rest)),
        _ => None,
    }
}

/// Returns the trimmed text between `<plan>` and `</plan>`. An unclosed `<plan>` extends to the end
/// of `text`. Returns `None` if there is no `<plan>` or if the plan is blank.
///
/// ```
/// use formwork_protocol::precheck::plan_snippet;
/// assert_eq!(plan_snippet("Well. <plan>\n1. read\n2. write\n</plan> {}"), Some("1. read\n2. write"));
/// assert_eq!(plan_snippet("no plan"), None);
/// ```
pub fn plan_snippet(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("<plan>")?;
    let plan = rest.split_once("</plan>").map_or(rest, |(plan, _)| plan).trim();
    (!plan.is_empty()).then_some(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_judgements_of_models() {
        let failed = |feedback: &str, score| Judgement { score, ..Judgement::failed(feedback) };
        for (text, expected) in [
            (
                r#"{"pass": true, "score": 0.9, "feedback": ""}"#,
                Some(Judgement { score: Some(0.9), feedback: Some(String::new()), ..Judgement::passed() }),
            ),
            (
                "```json\n{\"pass\": false, \"feedback\": \"Ask first.\"}\n```",
                Some(failed("Ask first.", None)),
            ),
            ("PASS", Some(Judgement::passed())),
            ("**Fail**: no test is run.", Some(failed("no test is run.", None))),
            ("It depends.", None),
            ("{\"pass\": \"maybe\"}", None),
            ("", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
