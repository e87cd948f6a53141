//! Prompt instructions that describe a constraint to the model.
//!
//! A mask restricts the tokens, but a model that has not seen the schema does not know what to fill
//! in. So by default the instruction is added to the system message, after the caller's own text.

use formwork_grammar::Part;
use formwork_lm::Message;
use formwork_vocab::tokenizer::EncodeOptions;
use formwork_vocab::{TokenId, Tokenizer, VocabError};
use serde_json::Value;

/// Constraint to describe to the model.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'a> {
    /// JSON that matches this schema.
    Schema(&'a Value),
    /// Any JSON object.
    JsonObject,
    /// Text of this GBNF or Lark grammar.
    Grammar(&'a str),
    /// JSON of this form, with placeholders in angle brackets.
    Template(&'a str),
    /// Text that matches this regular expression.
    Regex(&'a str),
    /// One of these texts.
    Choices(&'a [String]),
}

impl<'a> Shape<'a> {
    /// Returns the shape of a constraint's outputs.
    ///
    /// Returns `None` for structural tags and composed parts, which the caller has to explain.
    pub fn of(part: &'a Part) -> Option<Self> {
        match part {
            Part::Json(schema) => Some(Self::Schema(schema.as_value())),
            Part::JsonObject => Some(Self::JsonObject),
            Part::Gbnf(source) | Part::Lark(source) => Some(Self::Grammar(source)),
            Part::Regex(pattern) => Some(Self::Regex(pattern)),
            Part::Choices(choices) => Some(Self::Choices(choices)),
            _ => None,
        }
    }
}

impl Shape<'_> {
    /// Returns the instruction that describes the constraint.
    pub fn instruction(&self) -> String {
        match self {
            Self::Schema(schema) => {
                format!("Answer with JSON only. The JSON must match this JSON Schema:\n{schema}")
            }
            Self::JsonObject => "Answer with one JSON object only.".to_owned(),
            Self::Grammar(grammar) => {
                format!("Answer only with text that this grammar produces:\n{}", grammar.trim())
            }
            Self::Template(template) => format!(
                "Answer with JSON only, in exactly this form. Put in the place of each <…> what it describes:\n{template}"
            ),
            Self::Regex(pattern) => {
                format!("Answer only with text that matches this regular expression: {pattern}")
            }
            Self::Choices(choices) => format!("Answer with exactly one of these: {}", choices.join(" | ")),
        }
    }

    /// Appends the instruction to the system message, or inserts a system message if there is none.
    pub fn add_to(&self, messages: &mut Vec<Message>) {
        let instruction = self.instruction();
        match messages.first_mut() {
            Some(first) if first.role == "system" || first.role == "developer" => {
                first.content = Some(format!("{}\n\n{instruction}", first.text()));
            }
            _ => messages.insert(0, Message::new("system", instruction)),
        }
    }
}

/// Tokenizes a rendered prompt.
///
/// Control tokens that the template spelt out become control tokens. If the model expects a
/// beginning-of-sequence token, the result starts with exactly one, even if the template wrote it
/// too.
///
/// # Errors
/// Returns an error if the tokenizer has no tokens for a part of the text.
pub fn encode(tokenizer: &Tokenizer, prompt: &str) -> Result<Vec<TokenId>, VocabError> {
    let begins = |bos| prompt.as_bytes().starts_with(tokenizer.vocabulary().bytes(bos));
    let bos = tokenizer.add_bos() && !tokenizer.bos().is_some_and(begins);
    tokenizer.encode(prompt, EncodeOptions { special: true, bos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_of_a_part_is_its_kind() {
        let any = Part::Json(serde_json::json!({ "type": "object" }).into());
        let instructions = [&Part::JsonObject, &any, &Part::Regex("a".to_owned())]
            .map(|part| Shape::of(part).map(|shape| shape.instruction()));
        let expected = [
            "Answer with one JSON object only.",
            "Answer with JSON only. The JSON must match this JSON Schema:\n{\"type\":\"object\"}",
            "Answer only with text that matches this regular expression: a",
        ];
        assert_eq!(instructions, expected.map(|text| Some(text.to_owned())));
        assert!(Shape::of(&Part::any_text()).is_none());
    }

    #[test]
    fn the_instruction_joins_the_system_message() {
        let mut messages = vec![Message::new("system", "Be brief."), Message::new("user", "Hi")];
        Shape::JsonObject.add_to(&mut messages);
        assert_eq!(messages[0].text(), "Be brief.\n\nAnswer with one JSON object only.");
        let mut messages = vec![Message::new("user", "Hi")];
        Shape::Choices(&["a".to_owned(), "b".to_owned()]).add_to(&mut messages);
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[0], Message::new("system", "Answer with exactly one of these: a | b"));
    }
}
