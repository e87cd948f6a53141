use serde_json::json;

use super::{DirectiveResult, Problem, ProblemCategory, StructuredOutputOptions, Validator, parser, salvage};

/// Reads the text of an answer that came from elsewhere, as a run reads the answer of a model.
///
/// The result has no mode and no attempts. If the text has no valid envelope or does not meet the
/// requirements of `options`, `ok` is false and `errors` has one problem.
///
/// ```
/// use formwork_protocol::directives::{Definition, Registry, StructuredOutputOptions, read};
/// let registry = Registry::new(vec![Definition::new("ui.toast")])?;
/// let text = "```json\n{\"assistant_text\": \"Hi\", \"directives\": []}\n```";
/// let result = read(text, &StructuredOutputOptions::new(registry));
/// assert!(result.ok);
/// assert_eq!(result.assistant_text, "Hi");
/// # Ok::<(), formwork_protocol::directives::RegistryError>(())
/// ```
pub fn read(text: &str, options: &StructuredOutputOptions) -> DirectiveResult {
    let (assistant_text, problem) = match parser::envelope(text, options.max_bytes, &Validator::new(options))
    {
        Ok(envelope) => {
            let reasons = options.unmet(&envelope);
            if reasons.is_empty() {
                return DirectiveResult {
                    ok: true,
                    mode: None,
                    assistant_text: envelope.assistant_text,
                    directives: envelope.directives,
                    warnings: envelope.warnings,
                    errors: Vec::new(),
                    attempts: Vec::new(),
                    skipped: Vec::new(),
                    type_decision: None,
                };
            }
            (envelope.assistant_text, not_met(&reasons))
        }
        Err(problem) => (salvage::assistant_text(text), problem),
    };
    DirectiveResult {
        ok: false,
        mode: None,
        assistant_text,
        directives: Vec::new(),
        warnings: Vec::new(),
        errors: vec![problem],
        attempts: Vec::new(),
        skipped: Vec::new(),
        type_decision: None,
    }
}

/// Returns the problem of a valid envelope that does not meet requirements, with the reasons.
pub(super) fn not_met(reasons: &[String]) -> Problem {
    let message = "the answer does not meet the caller's requirements";
    Problem::new(ProblemCategory::Semantic, "REQUIREMENT_NOT_MET", message)
        .with(json!({ "reasons": reasons }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directives::{Definition, Registry, Requirement};

    fn options() -> StructuredOutputOptions {
        let toast = Definition { aliases: vec!["toast".to_owned()], ..Definition::new("ui.toast") };
        StructuredOutputOptions::new(Registry::new(vec![toast]).expect("a registry"))
    }

    #[test]
    fn reads_a_text_from_elsewhere() {
        let text = r#"Sure: {"assistant_text": "Hi", "directives": [{"type": "Toast", "payload": {}}, {"type": "x", "payload": {}}]}"#;
        let result = read(text, &options());
        assert_eq!((result.ok, result.assistant_text.as_str()), (true, "Hi"));
        assert_eq!((result.directives.len(), result.warnings[0].code.as_str()), (1, "UNKNOWN_TYPE"));
        let lost = read("Sorry, <b>", &options());
        assert_eq!((lost.ok, lost.assistant_text.as_str()), (false, "Sorry, <b>"));
        assert_eq!(lost.errors[0].code, parser::NO_JSON);
    }

    #[test]
    fn several_envelopes_are_an_error_and_other_text_is_a_warning() {
        let envelope = |text: &str| json!({ "assistant_text": text, "directives": [] }).to_string();
        let result = read(&format!("{}\n{}", envelope("a"), envelope("b")), &options());
        assert_eq!((result.ok, result.errors[0].code.as_str()), (false, parser::AMBIGUOUS));
        assert_eq!(
            result.errors[0].details.as_deref(),
            Some(&json!({ "objects": [{ "line": 1, "column": 1 }, { "line": 2, "column": 1 }] }))
        );
        let result = read(&format!("Hello!\n```json\n{}\n```", envelope("a")), &options());
        assert_eq!((result.ok, result.warnings[0].code.as_str()), (true, parser::TEXT_OUTSIDE));
        assert_eq!(result.warnings[0].message, "text outside of the object is dropped: Hello!");
    }

    #[test]
    fn requirements_count_directives_and_characters() {
        let envelope = |count: usize, text: &str| {
            let directives = vec![json!({ "type": "ui.toast", "payload": {} }); count];
            json!({ "assistant_text": text, "directives": directives }).to_string()
        };
        let reasons = |required: Requirement, count: usize, text: &str| {
            let mut options = options().with_required([required]).expect("a type");
            options.max_text_length = Some(3);
            options.max_directives = Some(3);
            let result = read(&envelope(count, text), &options);
            assert_eq!(result.ok, result.errors.is_empty());
            let details = result.errors.first().and_then(|error| error.details.clone());
            details.map_or(json!([]), |details| details["reasons"].clone())
        };
        let one = || Requirement::exactly_one("ui.toast");
        assert_eq!(reasons(one(), 1, "äöü"), json!([]));
        assert_eq!(reasons(one(), 0, ""), json!(["missing ui.toast"]));
        assert_eq!(
            reasons(one(), 2, ""),
            json!(["2 directives of type ui.toast; expected exactly 1 directive of type ui.toast"])
        );
        assert_eq!(
            reasons(one(), 1, "four"),
            json!(["assistant_text has 4 characters; at most 3 are allowed"])
        );
        assert_eq!(reasons(Requirement::at_least_one("ui.toast"), 2, ""), json!([]));
        assert_eq!(
            reasons(Requirement::at_least_one("ui.toast"), 4, ""),
            json!(["4 directives; at most 3 are allowed"])
        );
        let some = Requirement { kind: "ui.toast".to_owned(), min: 2, max: Some(3) };
        assert_eq!(
            reasons(some, 1, ""),
            json!(["1 directives of type ui.toast; expected 2 to 3 directives of type ui.toast"])
        );
        let told =
            |required: Vec<Requirement>| options().with_required(required).expect_err("refused").to_string();
        assert_eq!(
            told(vec![Requirement::at_least_one("toast")]),
            "require[0]: unknown type `toast`; expected a type of the registry"
        );
        assert_eq!(told(vec![one(), one()]), "require[1]: type `ui.toast` is already required");
        assert_eq!(
            told(vec![Requirement { kind: "ui.toast".to_owned(), min: 2, max: Some(1) }]),
            "require[0]: the minimum number of directives of type `ui.toast` is above the maximum"
        );
        let none = options().with_allowed_types(Vec::<String>::new()).expect("none");
        assert_eq!(
            none.with_required([one()]).expect_err("refused").to_string(),
            "require[0]: type `ui.toast` is required but not allowed; add it to the allowed types"
        );
    }
}
