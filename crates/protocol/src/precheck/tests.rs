use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use serde_json::json;

use super::*;
use crate::{Category, Interruption, PromptRunner, ScriptedBackend};

fn body(value: Value) -> Body {
    serde_json::from_value(value).expect("an object")
}

fn options(value: Value) -> PrecheckOptions {
    serde_json::from_value(value).expect("options")
}

fn answer(judgement: Judgement) -> impl PlanValidator {
    move |_: &PlanRequest<'_>| Ok::<_, BackendError>(judgement.clone())
}

/// Validator that must not be called.
fn nobody(_: &PlanRequest<'_>) -> Result<Judgement, BackendError> {
    panic!("the validator is asked")
}

async fn checked(precheck: &Precheck, input: PrecheckInput<'_>) -> PrecheckReport {
    precheck.check(&input).await.expect("not interrupted")
}

fn told(report: &PrecheckReport) -> (Verdict, &str, Option<&str>) {
    (report.verdict, report.reason, report.feedback.as_deref())
}

#[test]
fn defaults_leave_the_precheck_unset() {
    let default = PrecheckOptions::default();
    assert_eq!((default.enabled, default.inject_feedback, default.max_tokens()), (None, None, 200));
    assert_eq!(
        (default.retry_guidance_prefix.as_str(), default.context_feedback_key.as_str()),
        ("Guidance: ", "_aros_retry_guidance")
    );
}

#[tokio::test]
async fn missing_keys_fail_without_a_request() {
    let precheck =
        Precheck::new(options(json!({ "required_context_keys": ["a", "b", "c"] }))).with_validator(nobody);
    let context = body(json!({ "a": 1, "b": null }));
    let report = checked(&precheck, PrecheckInput { plan: Some("p"), ..PrecheckInput::new(&context) }).await;
    assert_eq!(
        told(&report),
        (Verdict::Fail, "missing_context_keys", Some("The context is missing these keys: b, c."))
    );
}

#[tokio::test]
async fn present_keys_pass_without_a_validator() {
    let precheck = Precheck::new(options(json!({ "required_context_keys": ["a"] })));
    let context = body(json!({ "a": 1 }));
    assert_eq!(
        told(&checked(&precheck, PrecheckInput::new(&context)).await),
        (Verdict::Pass, "context_keys", None)
    );
    let report = checked(&Precheck::new(PrecheckOptions::default()), PrecheckInput::new(&context)).await;
    assert_eq!(told(&report), (Verdict::Skipped, "no_validator", None));
}

#[tokio::test]
async fn skips_the_judgement_without_a_plan() {
    let precheck = Precheck::new(PrecheckOptions::default()).with_validator(nobody);
    let context = Body::new();
    for plan in [None, Some(" \n")] {
        let report = checked(&precheck, PrecheckInput { plan, ..PrecheckInput::new(&context) }).await;
        assert_eq!(told(&report), (Verdict::Skipped, "no_plan", None));
    }
}

#[tokio::test]
async fn skips_a_draft_that_lacks_required_fields() {
    let precheck = Precheck::new(PrecheckOptions::default()).with_validator(nobody);
    let (context, schema, draft) = (Body::new(), json!({ "required": ["x"] }), json!({}));
    let input = PrecheckInput {
        plan: Some("p"),
        schema: Some(&schema),
        draft: Some(&draft),
        ..PrecheckInput::new(&context)
    };
    assert_eq!(told(&checked(&precheck, input).await), (Verdict::Skipped, "draft_lacks_basics", None));
    let precheck = Precheck::new(PrecheckOptions::default()).with_validator(answer(Judgement::passed()));
    let draft = json!({ "x": 1 });
    let report = checked(&precheck, PrecheckInput { draft: Some(&draft), ..input }).await;
    assert_eq!(told(&report), (Verdict::Pass, "validator", None));
}

#[tokio::test]
async fn validator_and_score_must_both_pass() {
    let context = Body::new();
    let input = PrecheckInput { plan: Some("p"), ..PrecheckInput::new(&context) };
    let with = |threshold: Option<f64>, judgement: Judgement| {
        let options = PrecheckOptions { score_threshold: threshold, ..PrecheckOptions::default() };
        Precheck::new(options).with_validator(answer(judgement))
    };
    let scored = |score: f64, judgement: Judgement| Judgement { score: Some(score), ..judgement };
    for (threshold, judgement, expected) in [
        (None, Judgement::passed(), (Verdict::Pass, "validator", None)),
        (None, scored(0.1, Judgement::passed()), (Verdict::Pass, "validator", None)),
        (Some(0.7), scored(0.7, Judgement::passed()), (Verdict::Pass, "validator", None)),
        (
            Some(0.7),
            scored(f64::NAN, Judgement::passed()),
            (Verdict::Fail, "score", Some("The plan has no score; at least 0.7 is required.")),
        ),
        (
            Some(0.7),
            Judgement::passed(),
            (Verdict::Fail, "score", Some("The plan has no score; at least 0.7 is required.")),
        ),
        (Some(0.7), Judgement::failed("Ask first."), (Verdict::Fail, "validator", Some("Ask first."))),
        (
            Some(0.7),
            scored(0.5, Judgement::passed()),
            (Verdict::Fail, "score", Some("The plan's score is 0.5; at least 0.7 is required.")),
        ),
        (None, Judgement::failed("Ask first."), (Verdict::Fail, "validator", Some("Ask first."))),
        (None, Judgement::failed(" "), (Verdict::Fail, "validator", Some("The plan was rejected."))),
        (
            Some(0.7),
            scored(0.5, Judgement::failed("Ask first.")),
            (
                Verdict::Fail,
                "validator",
                Some("Ask first. The plan's score is 0.5; at least 0.7 is required."),
            ),
        ),
    ] {
        let report = checked(&with(threshold, judgement.clone()), input).await;
        assert_eq!(told(&report), expected, "{judgement:?}");
        assert!(report.is_judged);
    }
}

#[tokio::test]
async fn skips_the_check_if_the_validator_fails() {
    let context = Body::new();
    let input = PrecheckInput { plan: Some("p"), ..PrecheckInput::new(&context) };
    let down = |_: &PlanRequest<'_>| Err::<Judgement, _>(BackendError::from_status(503, "down"));
    let report = checked(&Precheck::new(PrecheckOptions::default()).with_validator(down), input).await;
    assert_eq!(told(&report), (Verdict::Skipped, "validator_failed", None));
}

#[tokio::test]
async fn interruptions_pass_through() {
    let context = Body::new();
    let input = PrecheckInput { plan: Some("p"), ..PrecheckInput::new(&context) };
    for interruption in [Interruption::Cancelled, Interruption::Paused, Interruption::BudgetExhausted] {
        let stop = move |_: &PlanRequest<'_>| Err::<Judgement, _>(BackendError::from(interruption));
        let precheck = Precheck::new(PrecheckOptions::default()).with_validator(stop);
        let error = precheck.check(&input).await.expect_err("interrupted");
        assert_eq!(error.interruption(), Some(interruption));
        let precheck = Precheck::new(options(json!({ "consensus_samples": 2 })))
            .with_planner(Planned(Mutex::new(vec![Err(interruption.into()), Ok("a")])))
            .with_validator(nobody);
        let error = precheck.check(&input).await.expect_err("interrupted");
        assert_eq!(error.interruption(), Some(interruption));
    }
}

#[tokio::test]
async fn a_model_judges_within_its_token_limit() {
    let judged = r#"{"pass": false, "score": 0.4, "feedback": "Read it first."}"#;
    let refused = Err(BackendError::from_status(400, "no such response_format"));
    let backend = Arc::new(ScriptedBackend::new([
        refused,
        Ok(ScriptedBackend::says(judged)),
        Ok(ScriptedBackend::says("Hm.")),
    ]));
    let validator = PromptValidator::new(PromptRunner::new(backend.clone(), "m"));
    let precheck = Precheck::new(options(json!({ "max_tokens": 50 }))).with_validator(validator);
    let context = Body::new();
    let input = PrecheckInput { plan: Some("write"), task: "edit", ..PrecheckInput::new(&context) };
    let report = checked(&precheck, input).await;
    assert_eq!(
        (told(&report), report.score),
        ((Verdict::Fail, "validator", Some("Read it first.")), Some(0.4))
    );
    let asked = backend.asked();
    assert_eq!(
        (&asked[1]["max_tokens"], &asked[1]["temperature"], asked[1].get("response_format")),
        (&json!(50), &json!(0), None)
    );
    assert_eq!(asked[0]["response_format"]["type"], "json_schema");
    assert_eq!(asked[1]["messages"][1]["content"], "Task:\nedit\n\nPlan:\nwrite");
    assert_eq!(told(&checked(&precheck, input).await), (Verdict::Skipped, "no_judgement", None));
}

/// Planner that returns the plans in the list, from the last to the first.
struct Planned(Mutex<Vec<Result<&'static str, BackendError>>>);

impl Planner for Planned {
    fn plan<'a>(&'a self, _: &'a str, _: u32, _: u32) -> BoxFuture<'a, Result<String, BackendError>> {
        let plan = self.0.lock().expect("a lock").pop().expect("a plan");
        ready(plan.map(str::to_owned)).boxed()
    }
}

#[tokio::test]
async fn only_plans_that_disagree_need_a_validator() {
    let context = Body::new();
    let with = |plans: [&'static str; 3]| {
        let plans = Planned(Mutex::new(plans.into_iter().rev().map(Ok).collect()));
        Precheck::new(options(json!({ "consensus_samples": 3, "consensus_threshold": 0.6 })))
            .with_planner(plans)
    };
    let agreed = with(["read file, write test"; 3]).with_validator(nobody);
    let report = checked(&agreed, PrecheckInput::new(&context)).await;
    assert_eq!(told(&report), (Verdict::Pass, "consensus", None));
    assert_eq!(report.consensus, Some(Consensus { samples: 3, agreement: 1.0, is_agreed: true }));

    let seen = Arc::new(Mutex::new(String::new()));
    let log = Arc::clone(&seen);
    let judge = move |request: &PlanRequest<'_>| {
        request.plan.clone_into(&mut log.lock().expect("a lock"));
        Ok::<_, BackendError>(Judgement::failed("They differ."))
    };
    let differs = with(["read", "write", "delete"]).with_validator(judge);
    let report = checked(&differs, PrecheckInput::new(&context)).await;
    assert_eq!(told(&report), (Verdict::Fail, "validator", Some("They differ.")));
    assert_eq!(report.consensus, Some(Consensus { samples: 3, agreement: 0.0, is_agreed: false }));
    assert_eq!(*seen.lock().expect("a lock"), "read", "the first sample where no plan is given");
}

#[tokio::test]
async fn present_keys_alone_do_not_pass_if_plans_are_judged() {
    let context = body(json!({ "a": 1 }));
    for asks in [json!({ "score_threshold": 0.7 }), json!({ "validator_agent": "agents.judge" })] {
        let mut given = json!({ "required_context_keys": ["a"] });
        given.as_object_mut().expect("an object").extend(body(asks));
        let report = checked(&Precheck::new(options(given)), PrecheckInput::new(&context)).await;
        assert_eq!(told(&report), (Verdict::Skipped, "no_validator", None));
    }
}

#[tokio::test]
async fn empty_plans_never_agree() {
    let context = Body::new();
    for threshold in [0.0, 0.5] {
        for (plans, plan) in [(["", " \n"], None), (["", "- 1."], Some("- 1.")), (["", "read"], Some("read"))]
        {
            let planned = Planned(Mutex::new(plans.into_iter().rev().map(Ok).collect()));
            let seen = Arc::new(Mutex::new(None));
            let log = Arc::clone(&seen);
            let judge = move |request: &PlanRequest<'_>| {
                *log.lock().expect("a lock") = Some(request.plan.to_owned());
                Ok::<_, BackendError>(Judgement::failed("No."))
            };
            let given = json!({ "consensus_samples": 2, "consensus_threshold": threshold });
            let precheck = Precheck::new(options(given)).with_planner(planned).with_validator(judge);
            let report =
                checked(&precheck, PrecheckInput { plan: Some(" "), ..PrecheckInput::new(&context) }).await;
            let expected = match plan {
                Some(_) => (Verdict::Fail, "validator", Some("No.")),
                None => (Verdict::Skipped, "no_plan", None),
            };
            assert_eq!(told(&report), expected, "{plans:?}");
            assert_eq!(report.consensus, Some(Consensus { samples: 2, agreement: 0.0, is_agreed: false }));
            assert_eq!(seen.lock().expect("a lock").as_deref(), plan, "what says something is judged");
        }
    }
}

#[tokio::test]
async fn a_failed_plan_gives_no_consensus() {
    let plans = Planned(Mutex::new(vec![Err(BackendError::from_status(500, "")), Ok("a")]));
    let precheck = Precheck::new(options(json!({ "consensus_samples": 2 }))).with_planner(plans);
    let context = Body::new();
    let report = checked(&precheck, PrecheckInput::new(&context)).await;
    assert_eq!((told(&report), report.consensus), ((Verdict::Skipped, "no_validator", None), None));
}

#[tokio::test]
async fn plans_use_different_seeds() {
    let backend = Arc::new(ScriptedBackend::new(["a", "a"].map(|plan| Ok(ScriptedBackend::says(plan)))));
    let planner = PromptPlanner::new(PromptRunner::new(backend.clone(), "m"));
    let precheck =
        Precheck::new(options(json!({ "consensus_samples": 2, "max_tokens": 30 }))).with_planner(planner);
    let context = Body::new();
    checked(&precheck, PrecheckInput { task: "edit", ..PrecheckInput::new(&context) }).await;
    let seeds: Vec<_> =
        backend.asked().iter().map(|body| (body["seed"].clone(), body["max_tokens"].clone())).collect();
    assert_eq!(seeds, [(json!(0), json!(30)), (json!(1), json!(30))]);
}

#[test]
fn injects_guidance_at_its_destination() {
    let messages =
        vec![json!({ "role": "system", "content": "S" }), json!({ "role": "user", "content": "Do it." })];
    let injected = |given: Value, messages: &[Value]| {
        let (options, mut messages, mut context) = (options(given), messages.to_vec(), Body::new());
        options.guidance("Ask first.").inject(&mut messages, &mut context);
        (messages, Value::Object(context))
    };
    let (told, context) = injected(json!({ "inject_feedback": "prepend" }), &messages);
    assert_eq!((&told[1]["content"], context), (&json!("Guidance: Ask first.\n\nDo it."), json!({})));
    let (told, context) = injected(json!({ "inject_feedback": "context_key" }), &messages);
    assert_eq!((told, context), (messages.clone(), json!({ "_aros_retry_guidance": "Ask first." })));
    let (told, context) = injected(json!({}), &messages);
    assert_eq!((told, context), (messages, json!({})));
    let named = json!({ "inject_feedback": "prepend", "retry_guidance_prefix": "Note: " });
    let parts = [json!({ "role": "user", "content": [{ "type": "text", "text": "Do it." }] })];
    let (told, _) = injected(named.clone(), &parts);
    assert_eq!(told[0]["content"][0]["text"], "Note: Ask first.\n\n");
    assert_eq!(injected(named, &[]).0, [json!({ "role": "user", "content": "Note: Ask first." })]);
}

#[tokio::test]
async fn an_exhausted_quota_ends_the_check() {
    let quota = crate::quota::Quota::unlimited().with_tokens(10);
    let backend = Arc::new(crate::quota::Metered::new(Arc::new(ScriptedBackend::new([])), quota));
    let precheck = Precheck::new(PrecheckOptions::default())
        .with_validator(PromptValidator::new(PromptRunner::new(backend, "m")));
    let context = Body::new();
    let input = PrecheckInput { plan: Some("p"), ..PrecheckInput::new(&context) };
    let error = precheck.check(&input).await.expect_err("exhausted");
    assert_eq!(error.category(), Category::Exhausted);
}

#[tokio::test]
async fn the_probability_that_a_plan_is_good_is_its_score() {
    for (threshold, probability, verdict) in [
        (0.6, 0.25, Verdict::Fail),
        (0.6, 0.5, Verdict::Fail),
        (0.6, 0.75, Verdict::Pass),
        (0.3, 0.375, Verdict::Pass),
    ] {
        let answer = json!({ "answers": [{ "type": "predicate", "probability": probability }] });
        let backend = Arc::new(ScriptedBackend::new([Ok(answer)]));
        let prompts = PromptRunner::new(backend.clone(), "m");
        let validator = DecisionValidator::new(prompts).with_system("Be strict.").with_threshold(threshold);
        let precheck =
            Precheck::new(options(json!({ "score_threshold": threshold }))).with_validator(validator);
        let context = Body::new();
        let input = PrecheckInput { plan: Some("1. read"), task: "Sort.", ..PrecheckInput::new(&context) };
        let report = checked(&precheck, input).await;
        assert_eq!((report.verdict, report.score), (verdict, Some(probability)));
        let input = json!([
            { "role": "system", "content": "Be strict." },
            { "role": "user", "content": "Task:\nSort.\n\nPlan:\n1. read" },
        ]);
        assert_eq!(backend.asked()[0]["input"], input);
    }
}
