//! Rows of servers that ignore a keyword, refuse a field, or write text around their answers.

use super::*;

/// Server that ignores some keywords or refuses some fields.
#[derive(Clone, Copy)]
struct Partly {
    /// Keyword that the server ignores wherever it is.
    ignores: &'static str,
    /// Message of the refusal of requests with `seed`.
    refuses_seed: Option<(u16, &'static str)>,
    /// Message of the refusal of every request with a schema.
    refuses_all: Option<&'static str>,
    /// Text before and after each answer.
    around: (&'static str, &'static str),
}

const PARTLY: Partly = Partly { ignores: "", refuses_seed: None, refuses_all: None, around: ("", "") };

/// Removes a keyword from a schema at all levels.
fn without(schema: &Value, keyword: &str) -> Value {
    match schema {
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| *name != keyword)
            .map(|(name, value)| (name.clone(), without(value, keyword)))
            .collect(),
        Value::Array(items) => items.iter().map(|item| without(item, keyword)).collect(),
        other => other.clone(),
    }
}

impl ChatBackend for Partly {
    fn name(&self) -> &'static str {
        "partly"
    }

    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>> {
        if let Some((status, text)) = self.refuses_seed.filter(|_| body.contains_key("seed")) {
            return ready(Err(BackendError::from_status(status, text))).boxed();
        }
        if let Some(text) = self.refuses_all {
            return ready(Err(BackendError::from_status(400, text))).boxed();
        }
        let schema = &body["response_format"]["json_schema"]["schema"];
        let probe = PROBES.iter().find(|probe| probe.case().schema == *schema);
        let text = match probe {
            None => json!({ "value": "Hello" }),
            Some(probe) => {
                let wrong = json!({ "value": probe.wrong });
                let is_free = jsonschema::options()
                    .should_validate_formats(true)
                    .build(&without(schema, self.ignores))
                    .expect("a schema")
                    .is_valid(&wrong);
                if is_free { wrong } else { json!({ "value": probe.right }) }
            }
        };
        let answer = ScriptedBackend::says(&format!("{}{text}{}", self.around.0, self.around.1));
        ready(Ok(Answer { body: answer, attempts: 1, retried: Vec::new() })).boxed()
    }

    fn stream<'a>(&'a self, _: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        ready(Err(BackendError::cancelled())).boxed()
    }

    fn capabilities<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        ready(Ok(Capabilities::all())).boxed()
    }
}

/// Returns the rows of the built-in probes for a server.
async fn rows(server: Partly) -> Vec<KeywordRow> {
    let evaluation = evaluation(keyword_probes(), vec![("m", Arc::new(server))]);
    let trials = all(&evaluation).await;
    StructuredSummary::of(evaluation.settings(), &trials).keywords
}

#[tokio::test]
async fn a_server_that_refuses_the_seed_gets_requests_without_it() {
    for refusal in [
        (
            422,
            r#"{"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}"#,
        ),
        (400, r#"{"error": {"message": "'seed' is not supported with this model."}}"#),
    ] {
        for row in rows(Partly { refuses_seed: Some(refusal), ..PARTLY }).await {
            assert_eq!(row.verdict, KeywordVerdict::Enforced, "{row:?}");
        }
    }
}

#[tokio::test]
async fn a_keyword_is_refused_only_if_another_schema_is_accepted() {
    let refuses_all = Some(r#"{"error": {"message": "'response_format' is not supported"}}"#);
    for row in rows(Partly { refuses_all, ..PARTLY }).await {
        let wanted =
            if row.keyword == ANY_SCHEMA { KeywordVerdict::Refused } else { KeywordVerdict::Inconclusive };
        assert_eq!(row.verdict, wanted, "{row:?}");
    }
    let refuses_all = Some(r#"{"error": {"message": "'max_tokens' is not supported"}}"#);
    for row in rows(Partly { refuses_all, ..PARTLY }).await {
        assert_eq!(row.verdict, KeywordVerdict::Inconclusive, "{row:?}");
    }
}

#[tokio::test]
async fn text_around_a_value_is_counted_apart() {
    for around in [("```json\n", "\n```"), ("<think>Hm.</think>", ""), ("", "\nI hope that this helps.")] {
        for row in rows(Partly { around, ..PARTLY }).await {
            assert_eq!(row.verdict, KeywordVerdict::Enforced, "{row:?}");
            assert_eq!(row.not_closed, row.enforced, "{row:?}");
        }
    }
}

#[tokio::test]
async fn an_ignored_keyword_does_not_make_those_around_it_ignored() {
    for (ignores, inconclusive) in [
        ("enum", &["propertyNames", "allOf", "$ref"][..]),
        ("required", &["dependentSchemas", "if/then/else"]),
        ("minimum", &[]),
        ("format", &[]),
    ] {
        for row in rows(Partly { ignores, ..PARTLY }).await {
            let keyword = row.keyword.as_str();
            if keyword == ignores || keyword.starts_with(&format!("{ignores}: ")) {
                assert_eq!(row.verdict, KeywordVerdict::Ignored, "{row:?}");
            } else if inconclusive.contains(&keyword) {
                assert_ne!(row.verdict, KeywordVerdict::Ignored, "{row:?}");
            } else {
                assert_eq!(row.verdict, KeywordVerdict::Enforced, "{ignores}: {row:?}");
            }
        }
    }
    // A keyword with an enforced one inside is ignored if the value violates the inner one.
    for ignores in ["propertyNames", "allOf", "items"] {
        let found = rows(Partly { ignores, ..PARTLY }).await;
        let row = found.iter().find(|row| row.keyword == ignores).expect("a row");
        assert_eq!(row.verdict, KeywordVerdict::Ignored, "{row:?}");
    }
}
