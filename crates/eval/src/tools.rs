//! Evaluation of tool calling: the scenarios and the run of a trial.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Failure;
use super::evaluation::{Attempt, AttemptResult};
use super::scenarios::CONTROL;
use super::workspace::{ID, Workspace};
use formwork_backend::BackendError;
use formwork_protocol::tools::{Preset, ToolLoopRunner, ToolRun, ToolsError};

/// Text that the last message must have. A fixed text is easy to check.
const DONE: &str = "Done.";

/// Maximum number of requests in a run. The longest scenario needs four.
const TURNS: usize = 6;

/// Maximum size of a call's arguments in `long_arguments_guard`, in bytes. The text in the user
/// message is longer.
const GUARD: usize = 320;

struct Scenario {
    name: &'static str,
    user: &'static str,
    /// True if the user message contains the workspace's id.
    tells_id: bool,
    /// Code of the error that the scenario is about. A trial in which no call causes this error tests
    /// nothing. `None` if the scenario needs no error.
    needs: Option<&'static str>,
    /// Reports whether the final state of the workspace is what the user message asks for.
    is_right: fn(&Workspace) -> bool,
}

const SCENARIOS: [Scenario; 4] = [
    Scenario {
        name: "happy_path",
        user: "Set /draft/foo to \"bar\".",
        tells_id: true,
        needs: None,
        is_right: |workspace| workspace.get("/draft/foo") == Some("bar".into()),
    },
    Scenario {
        name: "missing_workspace_id",
        user: "Set /draft/foo to \"bar\" in the open workspace.",
        tells_id: false,
        needs: None,
        is_right: |workspace| workspace.get("/draft/foo") == Some("bar".into()),
    },
    Scenario {
        name: "type_error_recovery",
        user: "Set /draft/age to the text \"42\". If that is refused for its type, correct the type.",
        tells_id: true,
        needs: Some("TYPE_ERROR"),
        is_right: |workspace| workspace.get("/draft/age") == Some(42.into()),
    },
    Scenario {
        name: "long_arguments_guard",
        user: "Set /draft/summary to this text: \"The harbour lies in the north of the island, where two rivers \
            meet below the old fort. Ships from the mainland come twice a week, more often in summer, and bring flour, \
            cloth, tools and letters; they leave with dried fish, wool and the amber that divers find along the \
            eastern shore. In winter the bay freezes over, and the people mend nets and tell stories.\" If that is refused \
            as too large, set it to a summary of at most 60 characters.",
        tells_id: true,
        needs: Some("ARGUMENTS_TOO_LARGE"),
        is_right: |workspace| {
            let summary = workspace.get("/draft/summary");
            summary.as_ref().and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty())
        },
    },
];

/// Runs the scenario of a trial once.
pub(super) async fn run(attempt: &Attempt<'_>) -> Result<AttemptResult, BackendError> {
    let workspace = Workspace::new();
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == attempt.key.scenario);
    let run = match runner(attempt, &workspace) {
        Ok(runner) => runner.run(messages(scenario)).await?,
        // Not expected: the presets and tools are fixed, and tests check both.
        Err(error) => {
            let failure = Some(Failure::new("SETUP", error.to_string()));
            return Ok(AttemptResult { failure, answered: None, not_exercised: None });
        }
    };
    let is_right = scenario.is_none_or(|scenario| (scenario.is_right)(&workspace));
    let failure = failure(&run, is_right, &workspace);
    let not_exercised = scenario
        .and_then(|scenario| scenario.needs)
        .filter(|code| !is_exercised(&run, code))
        .map(|code| unexercised(code, failure.as_ref()));
    let failure = failure.filter(|_| not_exercised.is_none());
    Ok(AttemptResult { failure, answered: None, not_exercised })
}

/// Reports whether a run counts for a scenario about the error `code`: a call caused the error, or
/// the backend failed before the run could end.
fn is_exercised(run: &ToolRun, code: &str) -> bool {
    let mut results = run.turns.iter().flat_map(|turn| &turn.calls).map(|call| &call.result);
    let is_broken_off = run.turns.last().is_none_or(|turn| turn.error.is_some());
    is_broken_off || results.any(|result| result.errors.iter().any(|error| error.code == code))
}

/// Describes why a trial does not count, and how its run ended.
fn unexercised(code: &str, failure: Option<&Failure>) -> String {
    let end = failure.map_or_else(
        || "the task was completed without the error".to_owned(),
        |failure| format!("the run ended with {}: {}", failure.category, failure.message),
    );
    format!("no call caused the error {code}; {end}")
}

fn runner(attempt: &Attempt<'_>, workspace: &Workspace) -> Result<ToolLoopRunner, ToolsError> {
    let mode = if attempt.key.scenario == CONTROL { "disabled" } else { "enforced" };
    let mut fields = json!({ "tool_use_mode": mode, "max_turns": TURNS });
    if attempt.key.scenario == "long_arguments_guard" {
        fields["max_tool_args_bytes"] = GUARD.into();
    }
    let provider = attempt.model.provider.as_deref().map(Preset::provider_defaults).unwrap_or_default();
    let mut preset = Preset::default_tool_calling().merge(&provider).merge(&Preset::new(fields)?);
    for workaround in attempt.model.workarounds.iter().filter(|_| attempt.works_around()) {
        // Workarounds of directives have no preset of tools.
        preset = Preset::named(workaround.name()).map_or(preset.clone(), |above| preset.merge(&above));
    }
    ToolLoopRunner::new(attempt.runner.clone(), Arc::new(workspace.tools()?), preset.options()?)
}

fn messages(scenario: Option<&Scenario>) -> Vec<Value> {
    let say = |role: &str, content: &str| json!({ "role": role, "content": content });
    let Some(scenario) = scenario else {
        return vec![
            say("system", "You follow instructions to the letter."),
            say("user", "Reply with exactly this, and nothing else: Done."),
        ];
    };
    let system = "You change a workspace with tools. Call state_get, then state_patch, one call at a time and each with the \
        workspace_id. If a result has \"ok\": false, read its errors, correct the arguments and call the tool again. When the \
        change is made, reply with exactly this, and nothing else: Done.";
    let id = if scenario.tells_id { format!("The workspace_id is \"{ID}\". ") } else { String::new() };
    vec![say("system", system), say("user", &format!("{id}{}", scenario.user))]
}

/// Returns the failure of a run: its first error, a wrong state of the workspace, or a wrong last
/// message. Returns `None` if the run succeeded.
fn failure(run: &ToolRun, is_right: bool, workspace: &Workspace) -> Option<Failure> {
    if let Some(problem) = run.errors.first() {
        return Some(Failure::new(problem.code.clone(), problem.message.clone()));
    }
    if !is_right {
        let draft = workspace.get("/draft").unwrap_or_default();
        return Some(Failure::new("ASSERTION_FAILED", format!("the draft is {draft}")));
    }
    let text = run.text.as_deref().unwrap_or_default();
    let is_done = text.trim() == DONE;
    (!is_done)
        .then(|| Failure::new("ASSERTION_FAILED", format!("the last message is {text:?}, not {DONE:?}")))
}
