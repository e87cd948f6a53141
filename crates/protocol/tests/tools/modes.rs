//! Modes and policies: the conditions for a successful run.

use formwork_protocol::tools::{Transforms, replay};

use super::*;

/// Names of the tools of [`registry`], in order.
const NAMES: [&str; 3] = ["get_weather", "maybe", "echo"];

const FAIL: &str = r#"{"fail": true}"#;

#[tokio::test]
async fn enforced_runs_need_a_call() {
    let enforced = json!({ "tool_use_mode": "enforced" });
    let (run, _) = run(enforced.clone(), [says("I think it is fine.")]).await;
    assert_eq!((run.ok, errors(&run)), (false, vec!["NO_TOOL_CALLS"]));
    assert_eq!(run.text.as_deref(), Some("I think it is fine."));
    let (run, _) =
        super::run(enforced, [calls("a", "get_weather", r#"{"city": "Paris"}"#), says("Clear.")]).await;
    assert_eq!((run.ok, run.text.as_deref()), (true, Some("Clear.")));
}

#[tokio::test]
async fn enforced_runs_need_tools() {
    let none = Arc::new(ToolRegistry::new());
    let (run, asked) = run_with(none, json!({ "tool_use_mode": "enforced" }), vec![]).await;
    assert_eq!((errors(&run), asked.len()), (vec!["NO_TOOLS"], 0));
}

#[tokio::test]
async fn relaxed_runs_need_no_call() {
    let (run, asked) = run(json!({}), [says("Clear.")]).await;
    assert!(run.ok && asked[0].contains_key("tools"));
    let failing = [calls("a", "maybe", FAIL), says("It failed.")];
    let (run, _) = super::run(json!({ "tool_use_mode": "relaxed" }), failing).await;
    assert!(run.ok, "what failed is the model's to tell");
    let (run, asked) = run_with(Arc::new(ToolRegistry::new()), json!({}), vec![Ok(says("Hi"))]).await;
    assert!(run.ok && !asked[0].contains_key("tools"), "providers refuse an empty list");
}

#[tokio::test]
async fn disabled_runs_send_no_tools_and_ignore_calls() {
    let disabled = json!({
        "tool_use_mode": "disabled", "tool_choice": "required", "request_overrides": { "parallel_tool_calls": false },
        "response_transforms": ["assistant_content_tool_call_tags_to_tool_calls"],
    });
    let (run, asked) = run(disabled.clone(), [says("Hi")]).await;
    assert!(run.ok);
    assert_eq!(asked[0].keys().collect::<Vec<_>>(), ["model", "messages"]);
    let mut both = calls("a", "echo", "{}");
    both["choices"][0]["message"]["content"] = json!("Hi");
    let (run, _) = super::run(disabled.clone(), [both]).await;
    assert_eq!((run.ok, run.text.as_deref(), run.stats.tool_calls), (true, Some("Hi"), 0));
    assert_eq!(run.turns[0].ignored_tool_calls_count, 1);
    assert!(run.messages[1].get("tool_calls").is_none());
    let tagged = r#"<tool_call>{"name": "echo"}</tool_call>"#;
    let (run, _) = super::run(disabled, [says(tagged)]).await;
    assert_eq!(run.text.as_deref(), Some(tagged));
}

#[tokio::test]
async fn a_failed_last_call_is_fatal_by_default() {
    let enforced = json!({ "tool_use_mode": "enforced" });
    let ends = [calls("a", "echo", ""), calls("b", "maybe", FAIL), says("It failed.")];
    let (run, _) = run(enforced.clone(), ends).await;
    assert_eq!((run.ok, errors(&run)), (false, vec!["TOOL_ERROR"]));
    assert_eq!(run.errors[0].details["tools"], json!(["maybe"]));
    assert_eq!(run.text.as_deref(), Some("It failed."));
    // The last call of each tool decides.
    let mends = [calls("a", "maybe", FAIL), calls("b", "maybe", "{}"), says("Done.")];
    assert!(super::run(enforced.clone(), mends).await.0.ok);
    let breaks = [calls("a", "maybe", "{}"), calls("b", "maybe", FAIL), says("Done.")];
    assert_eq!(errors(&super::run(enforced.clone(), breaks).await.0), ["TOOL_ERROR"]);
    let unknown = [calls("a", "nothing", ""), calls("b", "echo", ""), says("Done.")];
    assert_eq!(errors(&super::run(enforced, unknown).await.0), ["TOOL_ERROR"]);
}

#[tokio::test]
async fn tolerates_a_failure_if_another_call_succeeds() {
    let tolerated = json!({ "tool_use_mode": "enforced", "tool_failure_policy": "tolerated" });
    let some = [calls("a", "echo", ""), calls("b", "maybe", FAIL), says("Half.")];
    assert!(run(tolerated.clone(), some).await.0.ok);
    let none = [calls("a", "maybe", FAIL), says("Nothing.")];
    assert_eq!(errors(&run(tolerated.clone(), none).await.0), ["NO_SUCCESSFUL_TOOL_CALL"]);
    assert_eq!(errors(&run(tolerated, [says("Hi")]).await.0), ["NO_TOOL_CALLS"]);
}

#[tokio::test]
async fn limits_the_number_of_turns() {
    let endless = || (0..5).map(|turn| calls(&turn.to_string(), "echo", ""));
    let (run, asked) = run(json!({ "max_turns": 3 }), endless()).await;
    assert_eq!((errors(&run), asked.len(), run.stats.tool_calls), (vec!["MAX_TURNS"], 3, 3));
    assert_eq!(run.errors[0].message, "the model still called tools after 3 turns");
    let (run, _) = super::run(json!({ "max_turns": 3 }), endless().take(2).chain([says("Done.")])).await;
    assert!(run.ok, "the last turn may be the answer");
}

#[tokio::test]
async fn fatal_has_one_rule_for_every_failure() {
    let enforced = json!({ "tool_use_mode": "enforced", "max_tool_args_bytes": 40 });
    let long = format!(r#"{{"text": "{}"}}"#, "x".repeat(100));
    for (name, arguments) in
        [("maybe", FAIL), ("get_weather", "{}"), ("echo", "{oops"), ("echo", &long), ("nothing", "{}")]
    {
        let fails = || calls("a", name, arguments);
        let (run, _) = run(enforced.clone(), [fails(), says("It failed.")]).await;
        assert_eq!((errors(&run), &run.errors[0].details["tools"]), (vec!["TOOL_ERROR"], &json!([name])));
        // A later call of the same name decides; a call of another name does not.
        let (run, _) =
            super::run(enforced.clone(), [fails(), calls("b", "maybe", r#"{"fail": false}"#), says("Done.")])
                .await;
        assert_eq!(run.ok, name == "maybe", "{name}");
        // Other modes have no policy.
        let relaxed = json!({ "max_tool_args_bytes": 40 });
        assert!(super::run(relaxed, [fails(), says("It failed.")]).await.0.ok);
    }
}

#[tokio::test]
async fn the_same_call_twice_in_a_row_is_a_warning_or_ends_the_run() {
    let repeats = || {
        [
            calls("a", "echo", r#"{"a": 1, "b": 2}"#),
            calls("b", "echo", r#"{ "b": 2, "a": 1 }"#),
            says("Done."),
        ]
    };
    let (run, _) = run(json!({}), repeats()).await;
    assert_eq!((run.ok, warnings(&run, 0), warnings(&run, 1)), (true, vec![], vec!["REPEATED_CALL"]));
    assert_eq!((code(&run, 1, 0), &run.turns[1].warnings[0].details["name"]), (None, &json!("echo")));
    let stop = json!({ "repeated_calls": "stop" });
    let (run, asked) = super::run(stop.clone(), repeats()).await;
    assert_eq!((run.ok, errors(&run), asked.len()), (false, vec!["REPEATED_CALL"], 2));
    // The repeated call did not run, and the conversation can be continued.
    assert_eq!(code(&run, 1, 0), Some("REPEATED_CALL"));
    assert_eq!((run.messages.len(), &run.messages[4]["role"]), (5, &json!("tool")));
    // An earlier success still counts for the policy.
    let enforced = json!({ "repeated_calls": "stop", "tool_use_mode": "enforced" });
    assert_eq!(errors(&super::run(enforced, repeats()).await.0), ["REPEATED_CALL"]);
    for others in [
        [calls("a", "echo", "{}"), calls("b", "maybe", "{}"), calls("c", "echo", "{}"), says("Done.")],
        [
            calls("a", "echo", r#"{"a": 1}"#),
            calls("b", "echo", r#"{"a": 2}"#),
            calls("c", "echo", r#"{"a": "2"}"#),
            says("Done."),
        ],
    ] {
        assert!(super::run(stop.clone(), others).await.0.ok);
    }
    // The same invalid arguments count, and so do calls of one message.
    let invalid = [calls("a", "get_weather", "{oops"), calls("b", "get_weather", "{oops"), says("Done.")];
    assert_eq!(errors(&super::run(stop.clone(), invalid).await.0), ["REPEATED_CALL"]);
    let three = calls_all(&[("a", "echo", ""), ("b", "echo", "{}"), ("c", "maybe", "{}")]);
    let (run, _) = super::run(stop, [three, says("Done.")]).await;
    assert_eq!(
        (errors(&run), run.turns[0].calls.len(), run.turns[0].ignored_tool_calls_count),
        (vec!["REPEATED_CALL"], 2, 1)
    );
    let replayed = replay(&run, &Transforms::default());
    assert_eq!(replayed.expect("the same"), run);
}

/// Returns the answer to the question which tool is next.
fn decides(choice: &str, options: &[&str]) -> Value {
    let rest = 0.25 / (options.len() - 1) as f64;
    let probability = |option: &&str| if **option == *choice { 0.75 } else { rest };
    let probabilities: Vec<Value> =
        options.iter().map(|option| json!({ "value": option, "probability": probability(option) })).collect();
    json!({ "answers": [{ "type": "choice", "choice": choice, "confidence": 0.5, "probabilities": probabilities }] })
}

#[tokio::test]
async fn a_decision_chooses_each_tool_and_the_answer() {
    let options = [&NAMES[..], &["(no tool)"]].concat();
    let script = [
        decides("echo", &options),
        calls("a", "echo", r#"{"text": "x"}"#),
        decides("(no tool)", &options),
        says("Done."),
    ];
    let (run, asked) = run(json!({ "next_tool": "decision" }), script).await;
    assert_eq!((run.ok, run.text.as_deref()), (true, Some("Done.")));
    assert_eq!(asked[1]["tool_choice"], json!({ "type": "function", "function": { "name": "echo" } }));
    assert_eq!(asked[3]["tool_choice"], json!("none"));
    let [first, last] = [0, 1].map(|turn| run.turns[turn].next_tool.clone().expect("a decision"));
    assert_eq!((first.tool.as_deref(), first.answer), (Some("echo"), Some(0.25 / 3.0)));
    assert_eq!((last.tool, last.answer), (None, Some(0.75)));
    // The result of the call is part of the second question.
    assert_eq!(asked[2]["input"][2]["type"], "function_call_output");
    assert_eq!(replay(&run, &Transforms::default()).expect("a replay"), run);
}

#[tokio::test]
async fn a_required_call_is_still_to_be_decided() {
    let given = json!({ "next_tool": "decision", "tool_use_mode": "enforced", "force_first_call": true });
    let answered = [&NAMES[..], &["(no tool)"]].concat();
    let script =
        [decides("echo", &NAMES), calls("a", "echo", ""), decides("(no tool)", &answered), says("Done.")];
    let (run, asked) = run(given, script).await;
    assert!(run.ok, "{:?}", run.errors);
    assert_eq!(asked[1]["tool_choice"]["function"]["name"], "echo");
    assert_eq!(run.turns[0].next_tool.as_ref().expect("a decision").answer, None);
}

#[tokio::test]
async fn without_a_decision_the_model_chooses() {
    let refused = Err(BackendError::from_status(404, "no such path"));
    let (run, asked) =
        run_with(Arc::new(registry()), json!({ "next_tool": "decision" }), vec![refused, Ok(says("Hi"))])
            .await;
    assert!(run.ok && !asked[1].contains_key("tool_choice"));
    let decision = run.turns[0].next_tool.as_ref().expect("a record");
    assert_eq!(decision.error.as_ref().expect("a reason").code, "INVALID_REQUEST");
    // A choice of the caller leaves nothing to decide.
    let given = json!({ "next_tool": "decision", "tool_choice": "none" });
    let (run, asked) = super::run(given, [says("Hi")]).await;
    assert!(run.ok && asked.len() == 1 && run.turns[0].next_tool.is_none());
    // After a failed decision, later turns have none.
    let refused = Err(BackendError::from_status(404, "no such path"));
    let script = vec![refused, Ok(calls("a", "echo", "")), Ok(says("Hi"))];
    let given = json!({ "next_tool": "decision", "tool_choice": "auto" });
    let (run, asked) = run_with(Arc::new(registry()), given, script).await;
    assert!(run.ok && asked.len() == 3 && run.turns[1].next_tool.is_none(), "{:?}", run.errors);
}
