use std::sync::Arc;

use formwork_grammar::Part;
use serde_json::{Value, json};

/// A function or a custom tool that the model may call.
#[derive(Clone, PartialEq, Debug)]
pub struct Tool {
    /// Name of the tool.
    pub name: String,
    /// Description of the tool for the model.
    pub description: Option<String>,
    /// JSON Schema of the arguments, which are an object.
    pub parameters: Arc<Value>,
    /// Input of a custom tool. `None` for a function.
    pub custom: Option<CustomInput>,
    /// Location of the schema in the request, for example `tools[0].function.parameters`, or of the grammar
    /// of a custom tool. Error messages about them start with this location.
    pub place: String,
}

/// Input of a custom tool, which is a text instead of arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CustomInput {
    /// Any text.
    Text,
    /// Text that a grammar describes.
    Grammar {
        /// The grammar. It must not contain JSON Schemas and tokens.
        part: Part,
        /// Name of the notation for the model, for example `regular expression`.
        notation: &'static str,
        /// Source text of the grammar, for the model.
        definition: String,
    },
}

/// The tools of one answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tools {
    /// Tools that the model may call.
    pub tools: Vec<Tool>,
    /// True if the model must call a tool.
    pub required: bool,
    /// True if one answer may have several calls.
    pub parallel: bool,
}

impl Tool {
    /// Creates a custom tool. The model sees a function with one argument, the string `input`.
    pub fn custom(name: String, description: Option<String>, input: CustomInput, place: String) -> Self {
        let parameters = json!({
            "type": "object", "properties": { "input": { "type": "string" } }, "required": ["input"],
            "additionalProperties": false,
        });
        let parameters = Arc::new(parameters);
        Self { name, description, parameters, custom: Some(input), place }
    }

    /// Returns the grammar of the arguments, which are JSON text. Its error messages have no location.
    pub fn arguments(&self) -> Part {
        match &self.custom {
            Some(CustomInput::Grammar { part, .. }) => Part::sequence([
                Part::literal("{\"input\": "),
                Part::JsonString(Box::new(part.clone())),
                Part::literal("}"),
            ]),
            Some(CustomInput::Text) | None => Part::Json(self.parameters.clone().into()),
        }
    }

    /// Returns the declaration that templates expect. Always includes a description, because
    /// templates concatenate it with other text and fail without it.
    pub(crate) fn declaration(&self) -> Value {
        let given = self.description.as_deref().unwrap_or_default();
        let description = match &self.custom {
            None => given.to_owned(),
            Some(input) => format!("{given}\n\n{}", input.instruction()).trim_start().to_owned(),
        };
        let function =
            json!({ "name": self.name, "description": description, "parameters": *self.parameters });
        json!({ "type": "function", "function": function })
    }
}

impl CustomInput {
    /// Returns an instruction for the model.
    fn instruction(&self) -> String {
        match self {
            Self::Text => "`input` is free text.".to_owned(),
            Self::Grammar { notation, definition, .. } => {
                format!("`input` must match this {notation}:\n{definition}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use formwork_grammar::{Grammar, Limits, SchemaOptions};

    use super::*;

    fn tool(description: Option<&str>, input: CustomInput) -> Tool {
        Tool::custom("sql".to_owned(), description.map(str::to_owned), input, "tools[0]".to_owned())
    }

    fn regex(pattern: &str) -> CustomInput {
        let (part, definition) = (Part::Regex(pattern.to_owned()), pattern.to_owned());
        CustomInput::Grammar { part, notation: "regular expression", definition }
    }

    #[test]
    fn a_custom_tool_is_declared_as_a_function_with_one_string() {
        let declaration = |tool: &Tool| tool.declaration()["function"].clone();
        let parameters = json!({
            "type": "object", "properties": { "input": { "type": "string" } }, "required": ["input"],
            "additionalProperties": false,
        });
        for (tool, description) in [
            (tool(Some("Runs it."), CustomInput::Text), "Runs it.\n\n`input` is free text."),
            (tool(None, CustomInput::Text), "`input` is free text."),
            (
                tool(Some("Runs it."), regex("[a-z]+")),
                "Runs it.\n\n`input` must match this regular expression:\n[a-z]+",
            ),
        ] {
            let expected = json!({ "name": "sql", "description": description, "parameters": parameters });
            assert_eq!(declaration(&tool), expected);
        }
    }

    #[test]
    fn arguments_of_a_custom_tool_are_an_object_with_the_input() {
        let accepts = |input: CustomInput, arguments: &str| {
            let part = Part::sequence([tool(None, input).arguments()]);
            let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default());
            grammar.expect("a grammar").accepts(arguments.as_bytes())
        };
        for (arguments, is_text, matches) in [
            (r#"{"input": "say \"hi\"\n"}"#, true, true),
            (r#"{"input": "hi"}"#, true, false),
            (r#"{"input": ""}"#, true, false),
            (r#"{"input": 1}"#, false, false),
            (r#"{"input": "say \"hi\"\n", "more": 1}"#, false, false),
            ("{}", false, false),
        ] {
            assert_eq!(accepts(CustomInput::Text, arguments), is_text, "{arguments}");
            assert_eq!(accepts(regex("say \"[a-z]+\"\\n"), arguments), matches, "{arguments}");
        }
    }
}
