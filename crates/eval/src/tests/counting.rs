//! Tests of the trials that count for each mode and strategy.

use super::*;

#[tokio::test]
async fn a_trial_without_the_error_of_its_scenario_does_not_count() {
    let short = || call("state_patch", &set("summary", "short"));
    let wrong_id = json!({ "workspace_id": "ws", "ops": set("age", 42)["ops"] });
    for (scenario, script, told) in [
        (
            "type_error_recovery",
            vec![call("state_patch", &set("age", 42)), says("Done.")],
            "TYPE_ERROR; the task",
        ),
        ("type_error_recovery", vec![says("Done.")], "TYPE_ERROR; the run ended with NO_TOOL_CALLS"),
        (
            "type_error_recovery",
            vec![call("state_patch", &wrong_id), says("Done.")],
            "TYPE_ERROR; the run ended with TOOL_ERROR",
        ),
        ("long_arguments_guard", vec![short(), says("Done.")], "ARGUMENTS_TOO_LARGE; the task"),
        (
            "long_arguments_guard",
            vec![short(), says("I did.")],
            "ARGUMENTS_TOO_LARGE; the run ended with ASSERTION",
        ),
    ] {
        let trial = only(settings(Harness::Tools, scenario), script).await;
        assert_eq!((category(&trial), trial.ok), ("not exercised", false), "{scenario}");
        let reason = trial.not_exercised.as_deref().expect("a reason");
        assert!(reason.starts_with(&format!("no call caused the error {told}")), "{reason}");
        let summary = Summary::of(&settings(Harness::Tools, scenario), &[trial]);
        let stats = &summary.by_scenario.0[0].1;
        assert_eq!((stats.runs, stats.not_exercised), (Rate::default(), 1));
        assert!(summary.overall.failures.is_empty() && summary.matrix[0].top_failures.is_empty());
        let written = serde_json::to_value(&summary).expect("JSON");
        assert_eq!(written["overall"]["ok_rate"], Value::Null);
        assert_eq!(written["matrix"][0]["scenarios"][scenario]["not_exercised"], 1);
    }
}

#[tokio::test]
async fn rates_are_by_the_mode_that_was_asked_for() {
    let modes = vec![EvalMode::Ladder, EvalMode::JsonSchema];
    let settings = EvalSettings { modes, ..settings(Harness::Directives, "toast") };
    let good = envelope("ui.toast", &json!({ "message": "Saved" }));
    let refused = || Err(BackendError::from_status(400, "response_format is not supported"));
    // The ladder ends with prompt_only; the mode json_schema alone is refused.
    let script = vec![refused(), refused(), says(&good), refused()];
    let evaluation = evaluation(settings, ScriptedBackend::new(script));
    let trials = all(&evaluation, &Journal::default(), 1).await;
    let summary = Summary::of(evaluation.settings(), &trials);
    let rates = |groups: &Groups| -> Vec<_> {
        groups.0.iter().map(|(name, stats)| (name.clone(), stats.runs.ok, stats.runs.of)).collect()
    };
    assert_eq!(rates(&summary.by_mode), [("ladder".to_owned(), 1, 1), ("json_schema".to_owned(), 0, 1)]);
    let answered = rates(&summary.by_answered_mode);
    assert_eq!(answered.last(), Some(&("prompt_only".to_owned(), 1, 1)), "{answered:?}");
    assert!(answered.iter().all(|(name, ok, _)| name == "prompt_only" || *ok == 0), "{answered:?}");
}

#[tokio::test]
async fn strategies_are_compared_with_the_same_seeds() {
    let mut settings = settings(Harness::Tools, "chat_only");
    settings.strategies = vec![Strategy::Baseline, Strategy::Production];
    settings.trials = 2;
    settings.models[0].workarounds = vec![Workaround::ContentTagToolCallFallback];
    let backend = Arc::new(ScriptedBackend::new((0..4).map(|_| says("Done."))));
    let backends = BTreeMap::from([("m".to_owned(), Arc::clone(&backend) as Arc<dyn ChatBackend>)]);
    let evaluation = Evaluation::new(settings.clone(), backends).expect("good settings");
    let trials = all(&evaluation, &Journal::default(), 1).await;
    let seeds: Vec<_> = backend.asked().iter().map(|body| body["seed"].clone()).collect();
    assert_eq!((trials.len(), &seeds[..2]), (4, &seeds[2..]));
    assert_ne!(seeds[0], seeds[1]);
    let summary = Summary::of(&settings, &trials);
    assert!(summary.run_once.is_empty() && !summary.matrix[0].is_shared);

    settings.models[0].workarounds.clear();
    let script = (0..4).map(|_| says("Done."));
    let evaluation = self::evaluation(settings.clone(), ScriptedBackend::new(script));
    let trials = all(&evaluation, &Journal::default(), 1).await;
    assert_eq!(trials.len(), 2, "baseline is production");
    let summary = Summary::of(&settings, &trials);
    assert_eq!(summary.run_once, ["m"]);
    assert!(summary.matrix.len() == 1 && summary.matrix[0].is_shared);
    let both: Vec<_> =
        summary.by_strategy.0.iter().map(|(name, stats)| (name.as_str(), stats.runs.of)).collect();
    assert_eq!(both, [("baseline", 2), ("production", 2)]);
    let page = report(&summary, &trials).expect("a report");
    assert!(page.contains("Run once for both strategies, because no workaround applies: m."), "said so");
}

/// `require` names the scenario's type in the request, and exactly one directive counts.
#[tokio::test]
async fn a_required_directive_is_part_of_the_request() {
    let good = envelope("ui.toast", &json!({ "message": "Saved" }));
    for require in [false, true] {
        let settings = EvalSettings { require, ..settings(Harness::Directives, "toast") };
        let backend = Arc::new(ScriptedBackend::new([says(&good)]));
        let backends = BTreeMap::from([("m".to_owned(), Arc::clone(&backend) as Arc<dyn ChatBackend>)]);
        let evaluation = Evaluation::new(settings, backends).expect("good settings");
        let trials = all(&evaluation, &Journal::default(), 1).await;
        assert!(trials[0].ok);
        let body = serde_json::to_string(&backend.asked()[0]).expect("JSON");
        let asked = body.contains("exactly 1 directive of type ui.toast") || body.contains("maxContains");
        assert_eq!(asked, require, "{body}");
    }
}

#[tokio::test]
async fn a_row_has_the_most_frequent_failures() {
    let trial = only(settings(Harness::Directives, "toast"), vec![says("No.")]).await;
    let failed = |scenario: &str, category: &str| {
        let mut trial = trial.clone();
        trial.key.scenario = scenario.to_owned();
        (trial.ok, trial.failure) = (false, Some(Failure::new(category, "")));
        trial
    };
    let mut trials = Vec::new();
    for (count, scenario, category) in
        [(1, "toast", "A"), (4, "show_form", "B"), (2, "patch_draft", "C"), (3, "request_upload", "D")]
    {
        trials.extend((0..count).map(|_| failed(scenario, category)));
    }
    trials.push(failed("show_form", "D"));
    let scenarios = ["toast", "show_form", "patch_draft", "request_upload"].map(str::to_owned).to_vec();
    let settings = EvalSettings { scenarios, ..settings(Harness::Directives, "toast") };
    let summary = Summary::of(&settings, &trials);
    let expected =
        [("show_form", 5), ("request_upload", 3), ("patch_draft", 2), ("B", 4), ("D", 4), ("C", 2)];
    assert_eq!(summary.matrix[0].top_failures, expected.map(|(name, count)| (name.to_owned(), count)));
}
