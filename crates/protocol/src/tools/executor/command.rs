use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::process::Command;

use super::super::envelope::{Problem, ToolResult, codes};
use super::super::error::{Kind, ToolsError};
use super::ToolExecutor;
use crate::Body;
use crate::process::{self, Finished, ProcessError, ProcessLimits, Tail};

/// Environment variables that a new process starts with. Explicitly set variables are added to
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Environment {
    /// The variables of this process.
    #[default]
    Inherit,
    /// No variables: API keys of this process are not passed on. There is no `PATH`, so the program
    /// needs its full path.
    Clear,
}

/// Tool that starts a program for each call.
///
/// The program gets the arguments as JSON on standard input and writes the result to standard
/// output. It is started without a shell, so its arguments are passed unchanged.
///
/// Output in the shape of a [`ToolResult`] is used as the result. Other JSON becomes the `data` of
/// the result, and output that is not JSON becomes a string in `data`. The call fails if the exit
/// code is not zero. If the output is a `ToolResult` with `ok: false`, it is kept for any exit
/// code. Failures have the last lines of standard error as the detail `stderr`.
///
/// On Unix, the program runs in its own process group. The group is killed if the call is
/// cancelled.
#[derive(Clone, Debug)]
pub struct CommandTool {
    program: String,
    arguments: Vec<String>,
    folder: Option<PathBuf>,
    environment: Environment,
    variables: BTreeMap<String, String>,
    timeout: Duration,
    output_limit: usize,
}

impl CommandTool {
    /// Creates a tool from `command`, a program and its arguments. The timeout is 30 seconds, and
    /// the limit of the output is 1 MiB.
    ///
    /// # Errors
    /// Returns an error if `command` is empty or the program is an empty string.
    pub fn new<S: Into<String>>(command: impl IntoIterator<Item = S>) -> Result<Self, ToolsError> {
        let mut command = command.into_iter().map(Into::into);
        let program = command.next().filter(|program: &String| !program.is_empty()).ok_or(Kind::NoCommand)?;
        Ok(Self {
            program,
            arguments: command.collect(),
            folder: None,
            environment: Environment::default(),
            variables: BTreeMap::new(),
            timeout: Duration::from_secs(30),
            output_limit: 1 << 20,
        })
    }

    /// Sets the working directory.
    #[must_use]
    pub fn in_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Sets the environment that the program starts with, and the variables to add.
    #[must_use]
    pub fn with_environment(mut self, environment: Environment, variables: BTreeMap<String, String>) -> Self {
        (self.environment, self.variables) = (environment, variables);
        self
    }

    /// Sets the timeout of each call. A program that runs longer is killed.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum number of bytes on standard output. A program that writes more is killed.
    #[must_use]
    pub const fn with_output_limit(mut self, bytes: usize) -> Self {
        self.output_limit = bytes;
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        if self.environment == Environment::Clear {
            command.env_clear();
        }
        command.envs(&self.variables);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    async fn run(&self, arguments: &Body) -> Result<ToolResult, Problem> {
        let input = Value::Object(arguments.clone()).to_string();
        let limits = ProcessLimits { timeout: self.timeout, output: self.output_limit };
        let tail = Tail::default();
        match process::run(self.command(), input.as_bytes(), limits, &tail).await {
            Ok(Finished { status, output }) => Ok(self.result(&output, status, &tail.text())),
            Err(ProcessError::Timeout(_)) => Err(self.too_late(&tail)),
            Err(ProcessError::Output(_)) => Err(self.too_large(&tail)),
            Err(error) => Err(Problem::from(format!("`{}` {error}", self.program))),
        }
    }

    fn too_large(&self, tail: &Tail) -> Problem {
        let message = format!("the tool wrote more than {} bytes", self.output_limit);
        let problem = Problem::new(codes::TOOL_OUTPUT_TOO_LARGE, message).with("limit", self.output_limit);
        with_stderr(problem, &tail.text())
    }

    fn too_late(&self, tail: &Tail) -> Problem {
        let message = format!("the tool did not finish within {} seconds", self.timeout.as_secs_f64());
        with_stderr(Problem::new(codes::TIMEOUT, message), &tail.text())
    }

    fn result(&self, output: &[u8], status: ExitStatus, stderr: &str) -> ToolResult {
        let text = String::from_utf8_lossy(output);
        let text = text.trim();
        let output = match serde_json::from_str(text) {
            Ok(output) => output,
            Err(_) if text.is_empty() => Value::Null,
            Err(_) => Value::String(text.to_owned()),
        };
        let mut result = ToolResult::from_output(output);
        if !result.ok {
            // The envelope states the failure; standard error may add the reason.
            if let Some(problem) =
                result.errors.first_mut().filter(|problem| !problem.details.contains_key("stderr"))
            {
                *problem = with_stderr(problem.clone(), stderr);
            }
            return result;
        }
        if status.success() {
            return result;
        }
        let mut problem = Problem::from(format!("`{}` failed: {status}", self.program));
        if let Some(code) = status.code() {
            problem = problem.with("exit_code", code);
        }
        ToolResult { data: result.data, ..ToolResult::failed(with_stderr(problem, stderr)) }
    }
}

fn with_stderr(problem: Problem, stderr: &str) -> Problem {
    if stderr.is_empty() { problem } else { problem.with("stderr", stderr) }
}

impl ToolExecutor for CommandTool {
    fn execute<'a>(&'a self, arguments: &'a Body) -> BoxFuture<'a, ToolResult> {
        self.run(arguments).map(|ran| ran.unwrap_or_else(ToolResult::failed)).boxed()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use serde_json::json;

    use super::*;

    fn shell(script: &str) -> CommandTool {
        CommandTool::new(["/bin/sh", "-c", script]).expect("a command")
    }

    async fn run(tool: &CommandTool) -> ToolResult {
        let arguments = json!({ "city": "Paris; rm -rf $HOME" });
        tool.execute(arguments.as_object().expect("an object")).await
    }

    async fn fails(tool: &CommandTool) -> Problem {
        let mut result = run(tool).await;
        assert!(!result.ok);
        result.errors.remove(0)
    }

    #[tokio::test]
    async fn passes_arguments_and_reads_results() {
        let cat = CommandTool::new(["cat"]).expect("a command");
        assert_eq!(run(&cat).await, ToolResult::ok(json!({ "city": "Paris; rm -rf $HOME" })));
        assert_eq!(run(&shell("echo ' plain text '")).await, ToolResult::ok("plain text"));
        assert_eq!(run(&shell("true")).await, ToolResult::ok(Value::Null));
        let envelope = r#"{"ok": false, "errors": [{"code": "NO_SUCH_CITY", "message": "no"}]}"#;
        let failed = ToolResult::failed(Problem::new("NO_SUCH_CITY", "no"));
        assert_eq!(run(&shell(&format!("echo '{envelope}'"))).await, failed);
        assert_eq!(run(&shell(&format!("echo '{envelope}'; exit 3"))).await, failed);
    }

    #[tokio::test]
    async fn does_not_pass_arguments_to_a_shell() {
        let tool = CommandTool::new(["printf", "%s", "$HOME `id` *"]).expect("a command");
        assert_eq!(run(&tool).await, ToolResult::ok("$HOME `id` *"));
    }

    #[tokio::test]
    async fn failures_include_the_reason() {
        let problem = fails(&shell("echo half; echo 'no key' >&2; exit 3")).await;
        assert_eq!((problem.code.as_str(), &problem.details["exit_code"]), (codes::TOOL_ERROR, &json!(3)));
        assert_eq!(problem.details["stderr"], "no key");
        let envelope = r#"{"ok": false, "errors": [{"code": "NO_SUCH_CITY", "message": "no"}]}"#;
        for code in [0, 3] {
            let problem = fails(&shell(&format!("echo why >&2; echo '{envelope}'; exit {code}"))).await;
            assert_eq!((problem.code.as_str(), &problem.details["stderr"]), ("NO_SUCH_CITY", &json!("why")));
        }
        let own = r#"{"ok": false, "errors": [{"code": "X", "message": "no", "stderr": "its own"}]}"#;
        let problem = fails(&shell(&format!("echo why >&2; echo '{own}'"))).await;
        assert_eq!(problem.details["stderr"], "its own");
        // Of a long output, only whole lines at the end are kept.
        let problem = fails(&shell("seq 100000 >&2; exit 1")).await;
        let told = problem.details["stderr"].as_str().expect("a text");
        assert!(told.starts_with("99") && told.ends_with("\n100000") && told.len() <= 4096, "{told}");
        assert!(told.lines().all(|line| line.parse::<u32>().is_ok_and(|number| number > 99_000)), "{told}");
        let killed = fails(&shell("kill -9 $$")).await;
        assert!(killed.message.contains("signal: 9"), "{}", killed.message);
        let missing = fails(&CommandTool::new(["/nowhere/tool"]).expect("a command")).await;
        assert!(missing.message.starts_with("`/nowhere/tool` could not be started: "), "{}", missing.message);
        assert!(CommandTool::new([""; 0]).is_err() && CommandTool::new([""]).is_err());
    }

    #[tokio::test]
    async fn kills_a_slow_command_and_its_children() {
        // The inner shell also holds the pipe open and would create the file `late`.
        let folder = std::env::temp_dir().join(format!("formwork-command-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let script = "echo starting >&2; (sleep 5; touch late) & echo $! > pid; wait";
        let tool = shell(script).in_folder(&folder).with_timeout(Duration::from_millis(300));
        let problem = fails(&tool).await;
        assert_eq!(problem.code, codes::TIMEOUT);
        assert_eq!(problem.message, "the tool did not finish within 0.3 seconds");
        assert_eq!(problem.details["stderr"], "starting");
        let pid = std::fs::read_to_string(folder.join("pid")).expect("a pid");
        let is_gone = shell(&format!("while kill -0 {} 2>/dev/null; do :; done; echo gone", pid.trim()));
        assert_eq!(run(&is_gone).await, ToolResult::ok("gone"));
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[tokio::test]
    async fn does_not_wait_for_processes_left_behind() {
        let started = std::time::Instant::now();
        assert_eq!(run(&shell("sleep 60 & echo done")).await, ToolResult::ok("done"));
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    }

    #[tokio::test]
    async fn limits_the_output() {
        let tool = shell("yes").with_output_limit(1000);
        let problem = fails(&tool).await;
        assert_eq!(
            (problem.code.as_str(), &problem.details["limit"]),
            (codes::TOOL_OUTPUT_TOO_LARGE, &json!(1000))
        );
        assert_eq!(run(&shell("printf aaa").with_output_limit(3)).await, ToolResult::ok("aaa"));
        // Standard error has no limit, but only its end is kept.
        let loud = shell("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1");
        assert_eq!(fails(&loud).await.details["stderr"].as_str().map(str::len), Some(4096));
    }

    #[tokio::test]
    async fn passes_only_the_chosen_environment() {
        let variables = BTreeMap::from([("OWN".to_owned(), "1".to_owned())]);
        let tool = shell("echo \"$OWN ${PATH:+path}\"");
        let inherits = tool.clone().with_environment(Environment::Inherit, variables.clone());
        assert_eq!(run(&inherits).await, ToolResult::ok("1 path"));
        // A shell would set `PATH` for itself, so `env` is run directly.
        let tool = CommandTool::new(["/usr/bin/env"]).expect("a command");
        assert_eq!(run(&tool.with_environment(Environment::Clear, variables)).await, ToolResult::ok("OWN=1"));
    }

    #[tokio::test]
    async fn accepts_programs_that_ignore_their_input() {
        let arguments = json!({ "text": "x".repeat(1 << 20) });
        let result = shell("exit 0").execute(arguments.as_object().expect("an object")).await;
        assert_eq!(result, ToolResult::ok(Value::Null));
    }
}
