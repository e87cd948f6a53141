use std::path::Path;

use anyhow::{Context, Result};
use formwork_grammar::{Grammar, Limits, SchemaOptions};
use serde_json::{Value, json};

use crate::files;

const PROMPTS: [&str; 8] = [
    "Describe a sailor who has not been home for ten years.",
    "What should a small shop that sells only maps be called, and why?",
    "Tell me about a village at the edge of a salt desert.",
    "Invent a bird, and say what it eats and where it nests.",
    "Which tools does a clockmaker need, and what for?",
    "Write about a train that is late every day but one.",
    "Who lives in the lighthouse, and what do they do in winter?",
    "Plan a supper for six people with what grows in October.",
];

/// The requests that clients send.
pub(super) struct Task {
    model: String,
    prompts: Vec<String>,
    max_tokens: usize,
    shape: Option<(Value, Grammar)>,
}

impl Task {
    pub(super) fn new(
        model: &str,
        prompts: Vec<String>,
        schema: Option<Value>,
        max_tokens: usize,
    ) -> Result<Self> {
        let shape = match schema {
            None => None,
            Some(schema) => {
                // Servers may write the same value in different layouts and orders, so the check
                // accepts all of them.
                let grammar = Grammar::json_schema(&schema, &SchemaOptions::accept(), &Limits::default())?;
                Some((schema, grammar))
            }
        };
        Ok(Self { model: model.to_owned(), prompts, max_tokens, shape })
    }

    pub(super) const fn has_schema(&self) -> bool {
        self.shape.is_some()
    }

    /// Returns the body of request `number`. The prompt starts with the number, so that a server's
    /// prefix cache never holds the rest of the prompt.
    pub(super) fn body(&self, number: usize) -> String {
        let prompt = &self.prompts[number % self.prompts.len()];
        let mut body = json!({
            "model": self.model,
            "messages": [{"role": "user", "content": format!("({number}) {prompt}")}],
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        if let Some((schema, _)) = &self.shape {
            body["response_format"] = json!({
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": schema, "strict": true},
            });
        }
        body.to_string()
    }

    /// Reports whether a text matches the schema; true without a schema.
    pub(super) fn accepts(&self, text: &str) -> bool {
        self.shape.as_ref().is_none_or(|(_, grammar)| grammar.accepts(text.trim().as_bytes()))
    }
}

/// Reads prompts, one a line, from a file; returns the built-in prompts without a file.
pub(super) fn prompts(path: Option<&Path>) -> Result<Vec<String>> {
    let Some(path) = path else { return Ok(PROMPTS.map(str::to_owned).to_vec()) };
    let text = files::read_option("--prompts", path)?;
    Ok(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
}

/// Reads a schema from a file; `built-in` stands for the built-in schema.
pub(super) fn schema(path: &Path) -> Result<Value> {
    if path == Path::new("built-in") {
        let text = json!({"type": "string", "maxLength": 60});
        return Ok(json!({
            "type": "object",
            "properties": {
                "title": text,
                "kind": {"enum": ["person", "place", "thing"]},
                "count": {"type": "integer", "minimum": 0, "maximum": 1000},
                "parts": {"type": "array", "items": text, "minItems": 1, "maxItems": 3},
            },
            "required": ["title", "kind", "count", "parts"],
            "additionalProperties": false,
        }));
    }
    serde_json::from_str(&files::read_option("--schema", path)?)
        .with_context(|| format!("{}: invalid JSON", path.display()))
}
