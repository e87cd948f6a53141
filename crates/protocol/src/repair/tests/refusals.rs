//! Requests and formats that the backend rejects.

use super::*;

/// Creates a backend that answers with these texts or fails with these statuses.
fn script(answers: &[Result<&str, u16>]) -> Arc<ScriptedBackend> {
    let refused = |status: &u16| BackendError::from_status(*status, "no such response_format");
    let answers =
        answers.iter().map(|answer| answer.as_ref().map(|text| ScriptedBackend::says(text)).map_err(refused));
    Arc::new(ScriptedBackend::new(answers))
}

#[tokio::test]
async fn keeps_an_answer_if_a_later_mode_fails() {
    for (error, strict) in [(400, true), (503, true), (400, false), (503, false)] {
        let first = if strict { BAD } else { NONE };
        let backend = script(&[Ok(first), Ok(first), Ok(first), Err(error), Err(error)]);
        let options = RepairOptions { strict, ..RepairOptions::default() };
        let answer = repairer(&backend).with_options(options).ask(&question()).await.expect("an answer");
        assert_eq!((answer.verdict, answer.text.as_str()), (Verdict::Text, first), "{error}");
        assert_eq!(answer.mode, Some(Mode::JsonSchema), "{error}");
        assert!(answer.attempts.last().is_some_and(|last| last.text.is_none()), "{error}");
    }
}

#[tokio::test]
async fn keeps_the_best_answer_of_all_modes() {
    let options = RepairOptions {
        max_attempts: 0,
        strict: true,
        modes: vec![Mode::JsonSchema, Mode::JsonObject],
        ..RepairOptions::default()
    };
    for texts in [[BETTER, "{\"content\": 7}"], ["{\"content\": 7}", BETTER], [BETTER, NONE]] {
        let answer = asked(&says(&texts), options.clone()).await;
        assert_eq!((answer.verdict, answer.text.as_str()), (Verdict::Text, BETTER), "{texts:?}");
    }
    // The second answer has fewer errors only because it contains no calls.
    let answer = asked(&says(&[BAD, r#"{"content": 7}"#]), options).await;
    assert_eq!(answer.text, BAD);
}

#[tokio::test]
async fn returns_the_error_without_any_answer() {
    let backend = script(&[Ok(""), Ok(""), Ok(""), Err(503)]);
    let error = repairer(&backend).ask(&question()).await.expect_err("no answer");
    assert_eq!(error.category(), Category::Server);
}

#[tokio::test]
async fn does_not_retry_a_refused_mode() {
    let backend = script(&[Err(400), Ok(GOOD), Ok(BAD), Ok(GOOD)]);
    let repairer = repairer(&backend);
    for _ in 0..2 {
        let answer = repairer.clone().ask(&question()).await.expect("an answer");
        assert_eq!((answer.verdict, answer.mode), (Verdict::Valid, Some(Mode::JsonObject)));
    }
    formats_are(&backend, &[("json_schema", 1), ("json_object", 1), ("json_object", 1), ("json_object", 3)]);
}

#[tokio::test]
async fn does_not_resend_a_refused_format() {
    let backend = script(&[Err(400), Ok(BAD), Ok(BETTER), Ok(GOOD), Ok(GOOD)]);
    let format = response_format(&Shape::tool_calls(), Mode::JsonSchema).expect("a format");
    let plan = Plan { options: [("response_format".to_owned(), format)].into_iter().collect(), ..question() };
    let repairer = repairer(&backend);
    let first = repairer.repair(&plan, BAD).await.expect("an answer");
    assert_eq!((first.verdict, first.repairs), (Verdict::Partial, 2));
    let second = repairer.repair(&plan, BAD).await.expect("an answer");
    assert_eq!((second.verdict, second.repairs), (Verdict::Valid, 1));
    let third = repairer.ask(&question()).await.expect("an answer");
    assert_eq!((third.verdict, third.mode), (Verdict::Valid, Some(Mode::JsonObject)));
    formats_are(&backend, &[("json_schema", 3), ("text", 3), ("text", 5), ("text", 3), ("json_object", 1)]);
}

#[tokio::test]
async fn a_refusal_without_a_format_is_not_remembered() {
    let backend = script(&[Err(400), Err(400), Ok(GOOD)]);
    let format = response_format(&Shape::tool_calls(), Mode::JsonSchema).expect("a format");
    let plan = Plan { options: [("response_format".to_owned(), format)].into_iter().collect(), ..question() };
    let repairer = repairer(&backend);
    assert_eq!(repairer.repair(&plan, BAD).await.expect("an answer").verdict, Verdict::Partial);
    assert_eq!(repairer.repair(&plan, BAD).await.expect("an answer").verdict, Verdict::Valid);
    formats_are(&backend, &[("json_schema", 3), ("text", 3), ("json_schema", 3)]);
}
