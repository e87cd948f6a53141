use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::{BoxFuture, pending, ready};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};

use super::probes::PROBES;
use super::*;
use crate::tests::check_page;
use crate::{EvalModel, EvalProfile, Journal, structured_report};
use formwork_backend::{Answer, BackendError, Body, Capabilities, ChatBackend, Chunks, ScriptedBackend};
use formwork_protocol::sampling::Sampling;

mod judging;
mod servers;

fn case(schema: &Value, more: &Value) -> Case {
    let mut text = json!({ "schema": schema, "prompt": "?" });
    for (name, value) in more.as_object().into_iter().flatten() {
        text[name] = value.clone();
    }
    Case::parse(&text.to_string(), "c").expect("a case")
}

/// Treatment of schemas by a scripted server.
#[derive(Clone, Copy, PartialEq)]
enum Policy {
    Enforces,
    /// Returns what the prompt asks for.
    Ignores,
    /// Refuses some keywords, enforces some and ignores the others.
    Mixed,
}

impl ChatBackend for Policy {
    fn name(&self) -> &'static str {
        "policy"
    }

    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>> {
        let schema = &body["response_format"]["json_schema"]["schema"];
        let value = schema["properties"]["value"].to_string();
        let policy = match self {
            Self::Mixed if value.contains("pattern") => {
                let text = r#"{"error": {"message": "Unsupported keyword: pattern"}}"#;
                return ready(Err(BackendError::from_status(400, text))).boxed();
            }
            Self::Mixed if value.contains("\"format\"") => {
                return ready(Err(BackendError::from_status(400, "too many messages"))).boxed();
            }
            Self::Mixed if value.contains("minimum") => Self::Ignores,
            Self::Mixed => Self::Enforces,
            other => *other,
        };
        let probe = PROBES.iter().find(|probe| probe.case().schema == *schema);
        let text = match (policy, probe) {
            (Self::Ignores, _) => {
                let prompt = body["messages"][0]["content"].as_str().unwrap_or_default();
                prompt.split_once(": ").map_or("", |(_, wanted)| wanted).to_owned()
            }
            (_, Some(probe)) => json!({ "value": probe.right }).to_string(),
            (_, None) => json!({ "value": "Hello" }).to_string(),
        };
        let mut answer = ScriptedBackend::says(&text);
        answer["usage"] = json!({ "prompt_tokens": 9, "completion_tokens": 4 });
        ready(Ok(Answer { body: answer, attempts: 1, retried: Vec::new() })).boxed()
    }

    fn stream<'a>(&'a self, _: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        ready(Err(BackendError::cancelled())).boxed()
    }

    fn capabilities<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        ready(Ok(Capabilities::all())).boxed()
    }
}

fn evaluation(cases: Vec<Case>, backends: Vec<(&str, Arc<dyn ChatBackend>)>) -> StructuredEvaluation {
    let profile = EvalProfile { name: "default".to_owned(), sampling: Sampling::default() };
    let model = |name: &str| EvalModel::new(name, "script", vec![profile.clone()]);
    let settings = StructuredSettings {
        models: backends.iter().map(|(name, _)| model(name)).collect(),
        cases,
        ..StructuredSettings::new()
    };
    let backends = backends.into_iter().map(|(name, backend)| (name.to_owned(), backend)).collect();
    StructuredEvaluation::new(settings, &backends).expect("good settings")
}

async fn all(evaluation: &StructuredEvaluation) -> Vec<StructuredTrial> {
    let done = Journal::<StructuredTrial>::default().done();
    let made: Vec<_> = evaluation.trials(&done, 3).collect().await;
    made.into_iter().collect::<Result<_, _>>().expect("reached")
}

#[tokio::test]
async fn the_table_says_enforced_ignored_or_refused() {
    let servers: Vec<(&str, Arc<dyn ChatBackend>)> = vec![
        ("enforces", Arc::new(Policy::Enforces)),
        ("ignores", Arc::new(Policy::Ignores)),
        ("mixed", Arc::new(Policy::Mixed)),
    ];
    let evaluation = evaluation(keyword_probes(), servers);
    let trials = all(&evaluation).await;
    let summary = StructuredSummary::of(evaluation.settings(), &trials);
    let verdict = |model: &str, keyword: &str| {
        let row = summary.keywords.iter().find(|row| row.model == model && row.keyword == keyword);
        row.map(|row| row.verdict.name()).expect(keyword)
    };
    for row in &summary.keywords {
        match row.model.as_str() {
            "enforces" => assert_eq!(row.verdict, KeywordVerdict::Enforced, "{row:?}"),
            "ignores" => assert_eq!(row.verdict, KeywordVerdict::Ignored, "{row:?}"),
            _ => {}
        }
    }
    for (keyword, wanted) in [
        ("pattern", "refused"),
        ("patternProperties", "refused"),
        ("minimum", "ignored"),
        ("format: date", "inconclusive"),
        ("maxLength", "enforced"),
        (ANY_SCHEMA, "enforced"),
    ] {
        assert_eq!(verdict("mixed", keyword), wanted, "{keyword}");
    }
    assert_eq!(summary.keywords[0].keyword, ANY_SCHEMA);
    let enforces = &summary.by_model.0[0].1;
    assert_eq!((enforces.ok.ok, enforces.valid.of, enforces.completion_tokens), (55, 55, 220));
    let page = structured_report(&summary, &trials).expect("a report");
    check_page(&page);
    for told in [
        "<h2>Keywords</h2>",
        "<h2>A passing trial</h2>",
        "<h2>Other trials</h2>",
        "Unsupported keyword: pattern",
    ] {
        assert!(page.contains(told), "{told}");
    }
}

#[tokio::test]
async fn answers_to_other_cases_keep_or_violate_keywords() {
    let schema = json!({
        "type": "object",
        "properties": { "n": { "type": "integer", "maximum": 9, "minimum": 1 } },
        "required": ["n"],
    });
    let named = |id: &str| Case { id: id.to_owned(), ..case(&schema, &json!({})) };
    let refusal = r#"{"error": {"message": "'minimum' is not permitted"}}"#;
    let script = [
        Ok(ScriptedBackend::says(r#"{"n": 5}"#)),
        Ok(ScriptedBackend::says(r#"{"n": 50}"#)),
        Err(BackendError::from_status(400, refusal)),
    ];
    let evaluation = evaluation(
        vec![named("a"), named("b"), named("c")],
        vec![("m", Arc::new(ScriptedBackend::new(script)))],
    );
    let trials = all(&evaluation).await;
    let summary = StructuredSummary::of(evaluation.settings(), &trials);
    let rows: BTreeMap<&str, (&str, usize, usize, usize)> = summary
        .keywords
        .iter()
        .map(|row| (row.keyword.as_str(), (row.verdict.name(), row.kept, row.ignored, row.refused)))
        .collect();
    assert_eq!(rows["maximum"], ("ignored", 1, 1, 0));
    assert_eq!(rows["minimum"], ("refused", 2, 0, 1));
    assert_eq!(rows["required"], ("kept", 2, 0, 0));
    assert_eq!((summary.overall.ok.ok, summary.overall.valid.of, summary.overall.refused), (1, 2, 1));
    let written = serde_json::to_value(&summary).expect("JSON");
    assert_eq!(written["overall"]["valid"]["of"], 2);
    assert_eq!(written["cases"][1]["case"], "b");
    assert!(written["cases"][1].get("verdicts").is_none());
}

#[tokio::test]
async fn requests_have_the_schema_the_prompt_and_a_seed() {
    let backend = Arc::new(ScriptedBackend::new([Ok(ScriptedBackend::says("1"))]));
    let evaluation =
        evaluation(vec![case(&json!({ "type": "integer" }), &json!({}))], vec![("m", backend.clone())]);
    let trials = all(&evaluation).await;
    let body = &backend.asked()[0];
    let format = json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": { "type": "integer" }, "strict": true } });
    assert_eq!(body["response_format"], format);
    assert_eq!(body["messages"], json!([{ "role": "user", "content": "?" }]));
    assert_eq!(body["seed"], trials[0].seed);
    assert!(trials[0].ok);
}

#[tokio::test]
async fn an_evaluation_ends_if_the_model_was_never_reached() {
    let cases = || {
        let case = case(&json!({ "type": "integer" }), &json!({}));
        vec![Case { id: "a".to_owned(), ..case.clone() }, Case { id: "b".to_owned(), ..case }]
    };
    let error = |status| Err(BackendError::from_status(status, "model `m` not found"));
    for status in [401, 404] {
        let evaluation = evaluation(cases(), vec![("m", Arc::new(ScriptedBackend::new([error(status)])))]);
        let done = Journal::<StructuredTrial>::default().done();
        let first = evaluation.trials(&done, 1).next().await;
        assert!(matches!(first, Some(Err(_))), "{status}");
        let script = [Ok(ScriptedBackend::says("1")), error(status)];
        let evaluation = self::evaluation(cases(), vec![("m", Arc::new(ScriptedBackend::new(script)))]);
        let trials = all(&evaluation).await;
        assert_eq!(trials.iter().filter(|trial| trial.ok).count(), 1, "{status}");
    }
}

/// A server that never answers.
struct Silent;

impl ChatBackend for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn chat<'a>(&'a self, _: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>> {
        pending().boxed()
    }

    fn stream<'a>(&'a self, _: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        pending().boxed()
    }

    fn capabilities<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        pending().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_trial_ends_at_its_time_limit() {
    let evaluation = evaluation(keyword_probes()[..1].to_vec(), vec![("m", Arc::new(Silent))]);
    let trials = all(&evaluation).await;
    let failure = trials[0].failure.as_ref().expect("a failure");
    assert_eq!(
        (failure.category.as_str(), failure.message.as_str()),
        ("TIMEOUT", "no answer within 300 seconds")
    );
    assert_eq!(trials[0].verdict, Some(Verdict::Inconclusive));
}

#[tokio::test]
async fn an_interrupted_evaluation_resumes() {
    let evaluation = evaluation(keyword_probes(), vec![("m", Arc::new(Policy::Mixed))]);
    let whole = all(&evaluation).await;
    let lines: String = whole.iter().map(Journal::line).collect();
    let cut = &lines.as_bytes()[..lines.len() / 2];
    let journal = Journal::parse_structured(evaluation.settings(), cut).expect("a journal");
    assert!(!journal.trials.is_empty() && journal.trials.len() < whole.len());
    let left: Vec<_> = evaluation.trials(&journal.done(), 2).collect().await;
    assert_eq!(journal.trials.len() + left.len(), whole.len(), "each once");
    let left = left.into_iter().map(|trial| trial.expect("reached"));
    let both: Vec<_> = journal.trials.into_iter().chain(left).collect();
    let verdicts = |trials: &[StructuredTrial]| StructuredSummary::of(evaluation.settings(), trials).keywords;
    assert_eq!(verdicts(&both), verdicts(&whole));
}

#[test]
fn settings_are_checked() {
    let model = EvalModel::new("m", "script", Vec::new());
    let good = StructuredSettings {
        models: vec![model],
        cases: keyword_probes()[..1].to_vec(),
        ..StructuredSettings::new()
    };
    let backends = BTreeMap::from([("m".to_owned(), Arc::new(Silent) as Arc<dyn ChatBackend>)]);
    let error = |settings: StructuredSettings| match StructuredEvaluation::new(settings, &backends) {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    };
    let mut twice = good.clone();
    twice.cases.push(twice.cases[0].clone());
    assert_eq!(error(twice), "duplicate case id `keyword/any-schema`");
    assert_eq!(error(StructuredSettings { cases: Vec::new(), ..good.clone() }), "there are no cases");
    assert!(error(StructuredSettings { version: 9, ..good }).starts_with("the settings have version 9"));
}

#[test]
fn renders_a_report_without_trials() {
    let page =
        structured_report(&StructuredSummary::of(&StructuredSettings::new(), &[]), &[]).expect("a report");
    check_page(&page);
}
