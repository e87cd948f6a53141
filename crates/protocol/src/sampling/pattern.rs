use serde::{Deserialize, Serialize};

/// Pattern for model names in which `*` matches any number of characters. Matching ignores case.
///
/// Routers append a variant to a name, such as `:nitro` in `qwen/qwen3-32b:nitro`. A pattern
/// matches a model if it matches the name with or without the variant.
///
/// ```
/// use formwork_protocol::sampling::ModelPattern;
/// assert!(ModelPattern::from("qwen/qwen3*").matches("Qwen/Qwen3-32B"));
/// assert!(ModelPattern::from("z-ai/glm-4.7").matches("z-ai/glm-4.7:nitro"));
/// assert!(!ModelPattern::from("z-ai/glm-4.7").matches("z-ai/glm-4.7-flash"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelPattern(String);

impl std::fmt::Display for ModelPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for ModelPattern {
    fn from(pattern: &str) -> Self {
        Self(pattern.to_owned())
    }
}

impl ModelPattern {
    /// Reports whether the pattern matches the name `model`, with or without its variant.
    pub fn matches(&self, model: &str) -> bool {
        let (pattern, model) = (self.0.to_lowercase(), model.to_lowercase());
        matches(&pattern, &model) || matches(&pattern, without_variant(&model))
    }
}

/// Returns the part of a model name before the first colon. The rest is a variant that a router
/// appended, such as `:nitro`.
pub(crate) fn without_variant(model: &str) -> &str {
    model.split_once(':').map_or(model, |(name, _)| name)
}

/// Reports whether `pattern` matches all of `text`. Each piece between stars is matched at its
/// first occurrence, which leaves the most text for later pieces.
fn matches(pattern: &str, mut text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(rest) = text.strip_prefix(first) else { return false };
    text = rest;
    let Some(last) = pieces.next_back() else { return text.is_empty() };
    for piece in pieces {
        let Some(at) = text.find(piece) else { return false };
        text = &text[at + piece.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_characters() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*a", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("**", "x", true),
            ("*ab*ab", "ab", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
