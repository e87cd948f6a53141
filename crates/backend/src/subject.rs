//! Subject of a refused request, as the server names it.

use super::{BackendError, Category, Feature};

/// Subject of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The output constraint of the request.
    Constraint,
    /// Something else, such as the model, the length of the prompt or another field.
    Elsewhere,
    /// The server does not say.
    Unclear,
}

/// Codes of errors that no other constraint would prevent, in lower case.
const CODES: [&str; 14] = [
    "billing_hard_limit_reached",
    "budget_too_small",
    "context_length_exceeded",
    "exceed_context_size_error",
    "insufficient_quota",
    "invalid_api_key",
    "invalid_model",
    "model_loading",
    "model_not_available",
    "model_not_found",
    "model_not_supported",
    "prompt_too_long",
    "request_too_large",
    "unknown_model",
];

/// Fields that hold an output constraint, as the first part of an error's `param`.
const CONSTRAINTS: [&str; 10] = [
    "response_format",
    "json_schema",
    "schema",
    "tools",
    "tool_choice",
    "functions",
    "grammar",
    "structured_outputs",
    "guided_json",
    "guided_grammar",
];

/// Phrases about a request that is too long for the model, in plain lower case.
const LENGTH: [&str; 9] = [
    "context length",
    "context size",
    "context window",
    "maximum context",
    "prompt is too long",
    "input is too long",
    "prompt too long",
    "input token",
    "too many tokens",
];

/// Parts of a request, and words that say that there is too much of them.
const PARTS: [&str; 7] = ["prompt", "input", "message", "request", "conversation", "token", "context"];
const TOO_MUCH: [&str; 6] = ["too long", "too large", "too many", "too big", "exceed", "maximum"];

/// Words that say that a model is missing.
const MISSING: [&str; 13] = [
    "not found",
    "does not exist",
    "doesn't exist",
    "not exist",
    "no such",
    "unknown model",
    "invalid model",
    "not a valid model",
    "is loading",
    "not loaded",
    "not available",
    "unavailable",
    "not served",
];

/// Words about the account of the user.
const ACCOUNT: [&str; 7] = ["credit", "balance", "billing", "quota", "api key", "payment", "subscription"];

/// Other fields of requests, in plain lower case.
const FIELDS: [&str; 9] = [
    "max tokens",
    "max completion tokens",
    "temperature",
    "top p",
    "top k",
    "frequency penalty",
    "presence penalty",
    "`messages`",
    "'messages'",
];

impl Feature {
    /// Returns the words by which errors name the constraint, in plain lower case.
    const fn words(self) -> &'static [&'static str] {
        match self {
            Self::JsonSchema => &[
                "response format",
                "json schema",
                "structured output",
                "output format",
                "guided json",
                "guided decoding",
                "the schema",
                "invalid schema",
            ],
            Self::JsonObject => &["response format", "json object", "json mode", "output format"],
            Self::Tools => &["tools", "tool choice", "tool call", "tool use", "function call", "functions"],
            Self::Grammar => &["grammar", "gbnf"],
        }
    }
}

impl BackendError {
    /// Returns the subject of a refusal. With a feature, only its own field counts as the
    /// constraint.
    pub(crate) fn subject(&self, feature: Option<Feature>) -> Subject {
        let code = self.code().unwrap_or_default().to_lowercase();
        if self.category() == Category::ContentFilter || CODES.contains(&code.as_str()) {
            return Subject::Elsewhere;
        }
        let text = plain(self.message());
        let says = |words: &[&str]| words.iter().any(|&word| text.contains(word));
        let is_of = |feature: Feature| says(feature.words());
        let named = feature.map_or_else(|| Feature::ALL.into_iter().any(is_of), is_of);
        let param = self.param().unwrap_or_default();
        let field = param.split(['.', '[']).next().unwrap_or_default();
        if CONSTRAINTS.contains(&field) {
            return Subject::Constraint;
        }
        if says(&LENGTH) {
            return Subject::Elsewhere;
        }
        if named {
            return Subject::Constraint;
        }
        let is_too_long = says(&PARTS) && says(&TOO_MUCH);
        let is_of_model = text.contains("model") && says(&MISSING);
        if !field.is_empty() || is_too_long || is_of_model || says(&ACCOUNT) || says(&FIELDS) {
            return Subject::Elsewhere;
        }
        Subject::Unclear
    }
}

/// Returns `text` in lower case, with a space for each character that joins words.
fn plain(text: &str) -> String {
    text.to_lowercase().replace(['_', '-'], " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subject(status: u16, message: &str, param: Option<&str>) -> Subject {
        let body = json!({ "error": { "message": message, "param": param } });
        BackendError::from_status(status, &body.to_string()).subject(None)
    }

    #[test]
    fn a_refusal_has_the_subject_that_the_server_names() {
        for message in [
            "response_format is not supported",
            "This model does not support JSON mode",
            "json_schema unsupported",
            "Structured outputs are not available for this model",
            "'messages' must contain the word 'json' to use 'response_format' of type 'json_object'.",
            "the schema is too long",
            "failed to parse grammar",
            "The model `m` does not exist with json_schema",
        ] {
            assert_eq!(subject(400, message, None), Subject::Constraint, "{message}");
        }
        for message in [
            "prompt is too long: 208310 tokens > 200000 maximum",
            "This model's maximum context length is 4097 tokens (12 in the messages, 4 in the functions).",
            "the request exceeds the available context size",
            "Please reduce the length: too many tokens in the response_format and messages",
            "The model `x` does not exist or you do not have access to it.",
            "model is loading",
            "unknown model x",
            "insufficient credits",
            "temperature must be at most 2",
            "'messages' must not be empty",
        ] {
            assert_eq!(subject(400, message, None), Subject::Elsewhere, "{message}");
        }
        for message in ["no", "Bad Request", "<html>not found</html>", "conversation too odd", ""] {
            assert_eq!(subject(404, message, None), Subject::Unclear, "{message}");
        }
        assert_eq!(subject(400, "bad", Some("response_format.json_schema.name")), Subject::Constraint);
        assert_eq!(subject(400, "bad", Some("tools[0].function")), Subject::Constraint);
        assert_eq!(subject(400, "bad", Some("messages[0].content")), Subject::Elsewhere);
        let detail = json!({ "detail": [{ "loc": ["body", "messages"], "msg": "Field required", "input": { "response_format": 1 } }] });
        let missing = BackendError::from_status(422, &detail.to_string());
        assert_eq!(missing.to_string(), "the backend answered 422: body.messages: Field required");
        assert_eq!(missing.subject(None), Subject::Unclear);
    }

    #[test]
    fn a_refusal_of_another_constraint_says_nothing_about_a_feature() {
        let error = BackendError::from_status(400, "grammar is not supported");
        assert_eq!(error.subject(Some(Feature::Grammar)), Subject::Constraint);
        assert_eq!(error.subject(Some(Feature::JsonSchema)), Subject::Unclear);
    }
}
