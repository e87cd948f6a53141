use serde_json::{Value, json};

/// A function that the model may call.
#[derive(Clone, PartialEq, Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: Option<String>,
    /// The JSON Schema of its arguments, which are an object.
    pub parameters: Value,
    /// Where its schema stands in what asked for it; errors begin with that.
    pub place: String,
}

/// The tools of one answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tools {
    /// Those that may be called.
    pub tools: Vec<Tool>,
    /// Whether one must be called.
    pub required: bool,
    /// Whether several calls may be made at once.
    pub parallel: bool,
}

impl Tool {
    /// As templates know tools. The description is always there: templates join it with other text, which fails where it is not.
    pub(crate) fn declaration(&self) -> Value {
        let description = self.description.as_deref().unwrap_or_default();
        let function =
            json!({ "name": self.name, "description": description, "parameters": self.parameters });
        json!({ "type": "function", "function": function })
    }
}
