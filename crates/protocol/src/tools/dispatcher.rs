use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;

use super::arguments;
use super::envelope::{Problem, ToolResult, codes};
use super::options::ToolCallingOptions;
use super::registry::{Lookup, Tool, ToolSource};
use super::shapes::ToolCall;
use crate::Body;

/// Executes the calls of a model.
///
/// For each call, it finds the tool, checks the arguments, runs the tool and limits the size of the
/// result. Every outcome is a [`ToolResult`], including a panic of the tool.
///
/// ```
/// use std::sync::Arc;
/// use formwork_protocol::tools::{Closure, ToolCall, ToolDefinition, ToolDispatcher, ToolRegistry};
/// use serde_json::json;
///
/// let mut registry = ToolRegistry::new();
/// let parameters = json!({
///     "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
///     "required": ["a", "b"],
/// });
/// let add =
///     Closure::new(|sum| json!(sum["a"].as_i64().unwrap_or(0) + sum["b"].as_i64().unwrap_or(0)));
/// registry.add(ToolDefinition::new("add", "Adds two numbers.", parameters), add)?;
/// let dispatcher = ToolDispatcher::new(Arc::new(registry));
///
/// let call = |arguments: &str| ToolCall {
///     id: "1".into(),
///     name: "add".into(),
///     arguments: arguments.into(),
/// };
/// # futures_util::FutureExt::now_or_never(async {
/// assert_eq!(dispatcher.dispatch(&call(r#"{"a": 1, "b": 2}"#)).await.data, 3);
/// let failed = dispatcher.dispatch(&call(r#"{"a": "one"}"#)).await;
/// assert_eq!(failed.errors[0].code, "ARGUMENTS_INVALID");
/// # }).expect("at once");
/// # Ok::<(), formwork_protocol::tools::ToolsError>(())
/// ```
#[derive(Clone)]
pub struct ToolDispatcher {
    tools: Arc<dyn ToolSource>,
    max_args_bytes: usize,
    max_output_bytes: usize,
    timeout: Option<Duration>,
}

/// Call after the checks.
pub(super) struct Checked<'a> {
    /// The tool to run with its arguments, or the result if the call was refused.
    pub(super) ready: Result<(&'a Tool, Body), ToolResult>,
    /// JSON text of the arguments for the history. It is always an object, since many servers parse
    /// it; `{}` if the arguments are invalid.
    pub(super) arguments: String,
    /// Warnings about corrected deviations from the expected format.
    pub(super) warnings: Vec<Problem>,
}

impl ToolDispatcher {
    /// Creates a dispatcher with the default limits.
    pub fn new(tools: Arc<dyn ToolSource>) -> Self {
        Self::with_options(tools, &ToolCallingOptions::default())
    }

    /// Creates a dispatcher with the limits of `options`.
    pub fn with_options(tools: Arc<dyn ToolSource>, options: &ToolCallingOptions) -> Self {
        Self {
            tools,
            max_args_bytes: options.max_tool_args_bytes,
            max_output_bytes: options.max_tool_output_bytes,
            timeout: options.tool_timeout_ms.map(Duration::from_millis),
        }
    }

    /// Checks and executes one call. The result has `ok: false` if the call is refused or fails.
    pub async fn dispatch(&self, call: &ToolCall) -> ToolResult {
        let checked = self.check(call, false);
        let result = match &checked.ready {
            Ok((tool, arguments)) => self.execute(tool, arguments).await,
            Err(refusal) => refusal.clone(),
        };
        let bytes = written(&result).to_string().len();
        let is_kept = result.interruption.is_some() || bytes <= self.max_output_bytes;
        if is_kept { result } else { self.too_large(bytes) }
    }

    /// Returns the source of the tools.
    pub(super) fn tools(&self) -> &dyn ToolSource {
        &*self.tools
    }

    /// Finds the tool, parses the arguments and checks them against the tool's schema. `is_cut` is
    /// true if the token limit may have cut off the call.
    pub(super) fn check(&self, call: &ToolCall, is_cut: bool) -> Checked<'_> {
        let read = arguments::read(&call.arguments, is_cut, self.max_args_bytes);
        let (text, warnings) = read.as_ref().map_or_else(
            |_| ("{}".to_owned(), Vec::new()),
            |read| (read.text.clone(), read.warnings.clone()),
        );
        let ready = self.tool(&call.name).and_then(|tool| {
            let arguments = Value::Object(read?.object);
            tool.check(&arguments)?;
            match arguments {
                Value::Object(arguments) => Ok((tool, arguments)),
                _ => Ok((tool, Body::new())),
            }
        });
        Checked { ready: ready.map_err(ToolResult::failed), arguments: text, warnings }
    }

    fn tool(&self, name: &str) -> Result<&Tool, Problem> {
        let (code, message) = match self.tools.find(name) {
            Lookup::Found(tool) => return Ok(tool),
            Lookup::Masked => (codes::TOOL_NOT_ALLOWED, format!("the tool `{name}` is not allowed here")),
            Lookup::Unknown => (codes::TOOL_NOT_FOUND, format!("unknown tool `{name}`")),
        };
        let known: Vec<&str> = self.tools.tools().into_iter().map(Tool::name).collect();
        let message = format!("{message}; available tools: {}", known.join(", "));
        Err(Problem::new(code, message))
    }

    /// Runs a tool, with the timeout of the options.
    pub(super) async fn execute(&self, tool: &Tool, arguments: &Body) -> ToolResult {
        let run = AssertUnwindSafe(async { tool.executor().execute(arguments).await }).catch_unwind();
        let ended = match self.timeout {
            Some(limit) => tokio::time::timeout(limit, run).await.map_err(|_| too_late(limit)),
            None => Ok(run.await),
        };
        match ended {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => ToolResult::failed(format!("the tool panicked: {}", said(&*panic))),
            Err(problem) => ToolResult::failed(problem),
        }
    }

    /// Applies `change` to the envelope of `result`, and returns the result with the text of the
    /// changed envelope. If the text exceeds the size limit, returns a failure and its text
    /// instead.
    pub(super) fn bound(&self, result: ToolResult, change: impl Fn(&mut Value)) -> (ToolResult, String) {
        let text = |result: &ToolResult| {
            let mut envelope = written(result);
            change(&mut envelope);
            envelope.to_string()
        };
        let sent = text(&result);
        // The failure itself may exceed a very low limit.
        let is_replaced =
            result.errors.first().is_some_and(|error| error.code == codes::TOOL_OUTPUT_TOO_LARGE);
        if is_replaced || sent.len() <= self.max_output_bytes {
            return (result, sent);
        }
        let failure = self.too_large(sent.len());
        let sent = text(&failure);
        (failure, sent)
    }

    fn too_large(&self, bytes: usize) -> ToolResult {
        let limit = self.max_output_bytes;
        let message = format!("the result has {bytes} bytes, but the limit is {limit}; request less");
        let problem = Problem::new(codes::TOOL_OUTPUT_TOO_LARGE, message);
        ToolResult::failed(problem.with("bytes", bytes).with("limit", limit))
    }
}

/// Returns the envelope of a result as JSON. Results are plain data, so the conversion cannot fail.
fn written(result: &ToolResult) -> Value {
    serde_json::to_value(result).unwrap_or_default()
}

fn too_late(limit: Duration) -> Problem {
    let message = format!("the tool did not finish within {} seconds", limit.as_secs_f64());
    Problem::new(codes::TIMEOUT, message)
}

/// Returns the message of a panic.
fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::{AsyncClosure, Closure, FilteredToolRegistry, ToolDefinition, ToolRegistry};

    fn registry() -> ToolRegistry {
        let mut registry = ToolRegistry::new();
        let open = |name: &str| ToolDefinition::new(name, "", json!({}));
        let text = json!({ "properties": { "text": { "type": "string" } }, "required": ["text"] });
        registry
            .add(ToolDefinition::new("echo", "", text), Closure::new(|given| given["text"].clone()))
            .expect("new");
        let fails = |_: &Body| Err::<Value, _>(Problem::new("NO_SUCH_CITY", "no"));
        registry.add(open("fails"), Closure::new(fails)).expect("new");
        registry
            .add(open("panics"), Closure::new(|given| -> Value { panic!("at {}", given["at"]) }))
            .expect("new");
        registry.add(open("hangs"), AsyncClosure::new(|_| std::future::pending::<Value>())).expect("new");
        registry
    }

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: "1".to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
    }

    async fn dispatch(dispatcher: &ToolDispatcher, name: &str, arguments: &str) -> ToolResult {
        dispatcher.dispatch(&call(name, arguments)).await
    }

    #[tokio::test]
    async fn every_outcome_is_an_envelope() {
        let filtered = FilteredToolRegistry::new(Arc::new(registry())).deny(["hangs"]);
        let dispatcher = ToolDispatcher::new(Arc::new(filtered));
        assert_eq!(dispatch(&dispatcher, "echo", r#"{"text": "Hi"}"#).await, ToolResult::ok("Hi"));
        let known = "available tools: echo, fails, panics";
        for (name, arguments, code, told) in [
            ("fails", "", "NO_SUCH_CITY", "no".to_owned()),
            ("panics", r#"{"at": 7}"#, codes::TOOL_ERROR, "the tool panicked: at 7".to_owned()),
            ("hangs", "", codes::TOOL_NOT_ALLOWED, format!("the tool `hangs` is not allowed here; {known}")),
            ("nothing", "", codes::TOOL_NOT_FOUND, format!("unknown tool `nothing`; {known}")),
            ("", "", codes::TOOL_NOT_FOUND, format!("unknown tool ``; {known}")),
        ] {
            let result = dispatch(&dispatcher, name, arguments).await;
            assert!(!result.ok && result.data.is_null(), "{name}");
            assert_eq!((result.errors[0].code.as_str(), &result.errors[0].message), (code, &told), "{name}");
        }
        for (arguments, code) in [
            ("{", codes::ARGUMENTS_JSON_PARSE_ERROR),
            ("[]", codes::ARGUMENTS_INVALID),
            ("{}", codes::ARGUMENTS_INVALID),
        ] {
            assert_eq!(dispatch(&dispatcher, "echo", arguments).await.errors[0].code, code, "{arguments}");
        }
    }

    #[tokio::test]
    async fn checks_arguments_before_the_tool_runs() {
        let options = ToolCallingOptions { max_tool_args_bytes: 20, ..Default::default() };
        let dispatcher = ToolDispatcher::with_options(Arc::new(registry()), &options);
        let within = format!("{{\"text\":\"{}\"}}", "x".repeat(9));
        assert_eq!(dispatch(&dispatcher, "echo", &within).await, ToolResult::ok("x".repeat(9)));
        let result = dispatch(&dispatcher, "panics", &format!("{within} ")).await;
        assert_eq!(result.errors[0].code, codes::ARGUMENTS_TOO_LARGE);
    }

    #[tokio::test]
    async fn limits_results_as_sent() {
        let envelope = ToolResult::ok("x".repeat(100));
        let bytes = written(&envelope).to_string().len();
        let dispatcher = |limit| {
            let options = ToolCallingOptions { max_tool_output_bytes: limit, ..Default::default() };
            ToolDispatcher::with_options(Arc::new(registry()), &options)
        };
        let arguments = format!("{{\"text\":\"{}\"}}", "x".repeat(100));
        assert_eq!(dispatch(&dispatcher(bytes), "echo", &arguments).await, envelope);
        let result = dispatch(&dispatcher(bytes - 1), "echo", &arguments).await;
        assert_eq!(result.errors[0].code, codes::TOOL_OUTPUT_TOO_LARGE);
        assert_eq!(result.errors[0].details["limit"], bytes - 1);
        // The limit applies to the text after the transforms.
        let (kept, sent) =
            dispatcher(bytes - 1).bound(envelope.clone(), |envelope| *envelope = json!("short"));
        assert_eq!((kept, sent.as_str()), (envelope, "\"short\""));
    }

    #[tokio::test(start_paused = true)]
    async fn stops_a_tool_at_its_timeout() {
        let options = ToolCallingOptions { tool_timeout_ms: Some(2500), ..Default::default() };
        let dispatcher = ToolDispatcher::with_options(Arc::new(registry()), &options);
        let problem = dispatch(&dispatcher, "hangs", "").await.errors.remove(0);
        assert_eq!(problem, Problem::new(codes::TIMEOUT, "the tool did not finish within 2.5 seconds"));
    }
}
