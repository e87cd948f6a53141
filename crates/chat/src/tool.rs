use serde_json::{Value, json};

/// A function that the model may call.
#[derive(Clone, PartialEq, Debug)]
pub struct Tool {
    /// Name of the function.
    pub name: String,
    /// Description of the function for the model.
    pub description: Option<String>,
    /// JSON Schema of the arguments, which are an object.
    pub parameters: Value,
    /// Location of the schema in the request, for example `tools[0].function.parameters`. Error
    /// messages about the schema start with this location.
    pub place: String,
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
    /// Returns the declaration that templates expect. Always includes a description, because
    /// templates concatenate it with other text and fail without it.
    pub(crate) fn declaration(&self) -> Value {
        let description = self.description.as_deref().unwrap_or_default();
        let function =
            json!({ "name": self.name, "description": description, "parameters": self.parameters });
        json!({ "type": "function", "function": function })
    }
}
