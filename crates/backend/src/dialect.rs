//! Differences between servers in the names of request fields.

use serde::{Deserialize, Serialize};

use super::{BackendError, Body};

/// Name of the field that limits the tokens of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenLimitField {
    /// `max_tokens`, which most servers accept.
    MaxTokens,
    /// `max_completion_tokens`, which some servers require for models that reason.
    MaxCompletionTokens,
}

impl TokenLimitField {
    /// Returns the name of the field.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::MaxTokens => Self::MaxCompletionTokens,
            Self::MaxCompletionTokens => Self::MaxTokens,
        }
    }
}

/// Differences of the requests to a model from the usual form. Unset fields change nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dialect {
    /// Name of the field that limits the tokens of an answer. If `None`, requests keep the name
    /// that they have.
    pub token_limit_field: Option<TokenLimitField>,
    /// False if requests must not set `temperature`.
    pub accepts_temperature: Option<bool>,
}

/// Change of a request after the server has refused one of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjustment {
    /// The limit of tokens is sent under this name.
    TokenLimit(TokenLimitField),
    /// `temperature` is not sent.
    NoTemperature,
}

impl Adjustment {
    /// Reports whether the error is about a field as it was adjusted.
    pub(super) fn is_refused(self, error: &BackendError) -> bool {
        match self {
            Self::TokenLimit(field) => is_of_field(error, field.name()),
            Self::NoTemperature => false,
        }
    }
}

/// Words by which a server says that it does not know or support a field.
const UNSUPPORTED: [&str; 14] = [
    "unsupported",
    "not supported",
    "not support",
    "unknown",
    "unrecognized",
    "unrecognised",
    "unexpected",
    "not permitted",
    "not allowed",
    "not accept",
    "only the default",
    "deprecated",
    "extra_forbidden",
    "use `max_completion_tokens`",
];

/// Words by which a server says that it knows the field but not its value.
const OUT_OF_RANGE: [&str; 14] = [
    "too large",
    "too high",
    "too small",
    "too low",
    "exceed",
    "at least",
    "at most",
    "greater",
    "less than",
    "range",
    "between",
    "maximum",
    "minimum",
    "positive",
];

impl Dialect {
    /// Returns this dialect, with the fields of `other` for those that are not set.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            token_limit_field: self.token_limit_field.or(other.token_limit_field),
            accepts_temperature: self.accepts_temperature.or(other.accepts_temperature),
        }
    }

    /// Returns the request in this dialect.
    pub(super) fn spoken(self, body: &Body) -> Body {
        let mut body = body.clone();
        if let Some(field) = self.token_limit_field
            && !body.contains_key(field.name())
            && let Some(limit) = body.remove(field.other().name())
        {
            body.insert(field.name().to_owned(), limit);
        }
        if self.accepts_temperature == Some(false) {
            body.remove("temperature");
        }
        body
    }

    /// Reports whether the dialect removes a field from the request `body`.
    pub(super) fn drops_temperature(self, body: &Body) -> bool {
        self.accepts_temperature == Some(false) && body.contains_key("temperature")
    }

    /// Adjusts the dialect after the server has refused the request `sent`. Returns `None` if the
    /// error names no field that can be adjusted, or one that was adjusted before.
    pub(super) fn adjust(&mut self, error: &BackendError, sent: &Body) -> Option<Adjustment> {
        if !matches!(error.status(), Some(400 | 422)) {
            return None;
        }
        let refused = |name: &str| sent.contains_key(name) && is_refused(error, name);
        for field in [TokenLimitField::MaxTokens, TokenLimitField::MaxCompletionTokens] {
            if self.token_limit_field.is_none() && refused(field.name()) {
                self.token_limit_field = Some(field.other());
                return Some(Adjustment::TokenLimit(field.other()));
            }
        }
        if self.accepts_temperature.is_none() && refused("temperature") {
            self.accepts_temperature = Some(false);
            return Some(Adjustment::NoTemperature);
        }
        None
    }
}

/// Reports whether the error refuses the field `name` itself instead of its value.
fn is_refused(error: &BackendError, name: &str) -> bool {
    if !is_of_field(error, name) {
        return false;
    }
    let message = error.to_string().to_lowercase();
    let code = error.code().unwrap_or_default();
    let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
    // OpenAI's codes are `unsupported_parameter` and `unsupported_value`.
    says(&UNSUPPORTED)
        || code.starts_with("unsupported")
        || code.starts_with("unknown")
        || !says(&OUT_OF_RANGE)
}

/// Reports whether the error names the field.
fn is_of_field(error: &BackendError, name: &str) -> bool {
    error.param() == Some(name) || names(&error.to_string().to_lowercase(), name)
}

/// Reports whether `text` contains the field name as a whole word.
fn names(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body() -> Body {
        json!({ "max_tokens": 5, "temperature": 0.5 }).as_object().cloned().expect("an object")
    }

    fn adjusted(status: u16, error: &serde_json::Value) -> Option<Adjustment> {
        Dialect::default().adjust(&BackendError::from_status(status, &error.to_string()), &body())
    }

    #[test]
    fn adjusts_refused_fields_but_not_wrong_values() {
        let renamed = Some(Adjustment::TokenLimit(TokenLimitField::MaxCompletionTokens));
        let cold = Some(Adjustment::NoTemperature);
        for (status, message, expected) in [
            (
                400,
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                renamed,
            ),
            (400, "max_tokens must not be set", renamed),
            (
                422,
                "[{\"type\":\"extra_forbidden\",\"loc\":[\"body\",\"max_tokens\"],\"msg\":\"Extra inputs are not permitted\"}]",
                renamed,
            ),
            (
                400,
                "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.",
                cold,
            ),
            (400, "temperature: no such field", cold),
            (400, "temperature must be between 0 and 0.4", None),
            (400, "'max_tokens' is too large: 5. The maximum is 4.", None),
            (400, "max_tokens_per_minute is not supported", None),
            (400, "response_format is not supported", None),
            (500, "max_tokens is not supported", None),
        ] {
            assert_eq!(adjusted(status, &json!({ "error": { "message": message } })), expected, "{message}");
        }
        let by_param = json!({ "error": { "message": "Unsupported parameter.", "param": "max_tokens" } });
        assert_eq!(adjusted(400, &by_param), renamed);
    }

    #[test]
    fn adjusts_each_field_once() {
        let mut dialect = Dialect::default();
        let refused = BackendError::from_status(400, "max_tokens and temperature are not supported");
        assert!(dialect.adjust(&refused, &dialect.spoken(&body())).is_some());
        assert_eq!(dialect.adjust(&refused, &dialect.spoken(&body())), Some(Adjustment::NoTemperature));
        assert_eq!(serde_json::Value::from(dialect.spoken(&body())), json!({ "max_completion_tokens": 5 }));
        let refused = BackendError::from_status(400, "max_completion_tokens is not supported");
        assert_eq!(dialect.adjust(&refused, &dialect.spoken(&body())), None);
    }
}
