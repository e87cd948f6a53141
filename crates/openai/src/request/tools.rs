use formwork_chat::{Tool, Tools};
use serde_json::{Value, json};

use super::fields::{Fields, Place};
use crate::RequestError;
use crate::error::Problem;

/// Maximum number of tools in a request.
const MAX_TOOLS: usize = 256;

/// Form of a tool in a request. In a chat request, the fields are nested in an object `function`.
/// In a request for a response, the form is flat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ToolForm {
    Nested,
    Flat,
}

/// Parses `tools`, `tool_choice` and `parallel_tool_calls`.
pub(crate) fn read(fields: &mut Fields, form: ToolForm) -> Result<Tools, RequestError> {
    let tools = fields.read("tools", |at| read_tools(at, form))?.unwrap_or_default();
    let choice = fields.read("tool_choice", |at| Choice::read(&at, form))?;
    let parallel = fields.read("parallel_tool_calls", Place::bool)?.unwrap_or(true);
    let mut set = Tools { tools, required: false, parallel };
    match choice.unwrap_or(Choice::Auto) {
        Choice::None => set.tools.clear(),
        Choice::Auto => {}
        Choice::Required if set.tools.is_empty() => {
            return Err(RequestError::field("tool_choice", Problem::Needs { other: "tools" }));
        }
        Choice::Required => set.required = true,
        Choice::Named(name) => {
            if set.tools.iter().all(|tool| tool.name != name) {
                return Err(RequestError::field("tool_choice", Problem::NoTool { name }));
            }
            set.tools.retain(|tool| tool.name == name);
            // A named function must be called exactly once.
            (set.required, set.parallel) = (true, false);
        }
        Choice::Allowed { names, required } => {
            let unknown = names.iter().find(|name| set.tools.iter().all(|tool| tool.name != **name));
            if let Some(name) = unknown {
                return Err(RequestError::field("tool_choice", Problem::NoTool { name: name.clone() }));
            }
            set.tools.retain(|tool| names.contains(&tool.name));
            set.required = required;
        }
    }
    if set.tools.is_empty() {
        return Ok(Tools::default());
    }
    Ok(set)
}

/// Parses `on_unsupported_schema`, an extension. Returns true if a tool whose schema cannot be
/// enforced takes any object. Returns `None` if the field is absent.
pub(crate) fn read_any_object(fields: &mut Fields) -> Result<Option<bool>, RequestError> {
    let known = |name: &str| match name {
        "error" => Some(false),
        "json_object" => Some(true),
        _ => None,
    };
    fields.read("on_unsupported_schema", |at| at.one_of(known, "error and json_object"))
}

/// Value of `tool_choice`.
enum Choice {
    None,
    Auto,
    Required,
    Named(String),
    Allowed { names: Vec<String>, required: bool },
}

impl Choice {
    fn read(at: &Place, form: ToolForm) -> Result<Self, RequestError> {
        if at.is_string() {
            let known = |name: &str| match name {
                "none" => Some(Self::None),
                "auto" => Some(Self::Auto),
                // Mistral's name is the second one.
                "required" | "any" => Some(Self::Required),
                _ => None,
            };
            return at.one_of(known, "none, auto, required, and objects of type function and allowed_tools");
        }
        let mut fields = at.clone().fields()?;
        let is_allowed = fields.required("type")?.one_of(
            |name| ["function", "allowed_tools"].contains(&name).then(|| name == "allowed_tools"),
            "function and allowed_tools",
        )?;
        let choice = match (is_allowed, form) {
            (false, _) => Self::Named(read_name(&mut fields, form)?),
            (true, ToolForm::Nested) => {
                let mut allowed = fields.required("allowed_tools")?.fields()?;
                let choice = Self::allowed(&mut allowed, form)?;
                allowed.finish_strictly()?;
                choice
            }
            (true, ToolForm::Flat) => Self::allowed(&mut fields, form)?,
        };
        fields.finish()?;
        Ok(choice)
    }

    fn allowed(fields: &mut Fields, form: ToolForm) -> Result<Self, RequestError> {
        let mode = |name: &str| match name {
            "auto" => Some(false),
            "required" => Some(true),
            _ => None,
        };
        let required = fields.required("mode")?.one_of(mode, "auto and required")?;
        let tools = fields.required("tools")?.list("an array of tools")?;
        let names = tools.into_iter().map(|tool| {
            let mut fields = tool.fields()?;
            fields.required("type")?.one_of(|name| (name == "function").then_some(()), "function")?;
            let name = read_name(&mut fields, form)?;
            fields.finish()?;
            Ok(name)
        });
        let names: Vec<String> = names.collect::<Result<_, RequestError>>()?;
        if names.is_empty() {
            return Err(RequestError::field("tool_choice.tools", Problem::Empty));
        }
        Ok(Self::Allowed { names, required })
    }
}

fn read_name(fields: &mut Fields, form: ToolForm) -> Result<String, RequestError> {
    if form == ToolForm::Flat {
        return fields.required("name")?.string();
    }
    let mut function = fields.required("function")?.fields()?;
    let name = function.required("name")?.string()?;
    function.finish()?;
    Ok(name)
}

fn read_tools(at: Place, form: ToolForm) -> Result<Vec<Tool>, RequestError> {
    let places = at.list("an array of tools")?;
    if places.len() > MAX_TOOLS {
        let problem = Problem::TooMany { given: places.len(), limit: MAX_TOOLS };
        return Err(RequestError::field("tools", problem));
    }
    let mut tools: Vec<Tool> = Vec::with_capacity(places.len());
    for (index, place) in places.into_iter().enumerate() {
        let Some(tool) = read_tool(place, form, index)? else { continue };
        if tools.iter().any(|other| other.name == tool.name) {
            let place = tool.place.replace("parameters", "name");
            return Err(RequestError::field(place, Problem::SameName { name: tool.name }));
        }
        tools.push(tool);
    }
    Ok(tools)
}

/// Parses a tool. Returns `None` for a tool that only a host can run, such as a search of the web: it is
/// noted as ignored, because a model without it writes the same answers as a model that never calls it.
fn read_tool(at: Place, form: ToolForm, index: usize) -> Result<Option<Tool>, RequestError> {
    let mut fields = at.clone().fields()?;
    let kind = fields.take("type");
    let is_hosted = |kind: &Place| {
        kind.one_of(|name| (name != "custom").then_some(()), "function and the tools of hosts")
    };
    if let Some(kind) = kind.filter(|kind| kind.value() != "function") {
        // A misspelt type must not drop a function.
        if ["function", "parameters", "input_schema"].iter().any(|name| fields.get(name).is_some()) {
            kind.one_of(|_| None, "function")?;
        }
        is_hosted(&kind)?;
        at.ignore();
        return Ok(None);
    }
    let (function, place) = match form {
        ToolForm::Flat => (fields, format!("tools[{index}].parameters")),
        ToolForm::Nested => {
            let function = fields.required("function")?.fields()?;
            fields.finish()?;
            (function, format!("tools[{index}].function.parameters"))
        }
    };
    read_function(function, place).map(Some)
}

fn read_function(mut fields: Fields, place: String) -> Result<Tool, RequestError> {
    let name = fields.required("name")?;
    let text = name.clone().non_empty_string()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if text.len() > 128 || !text.chars().all(is_plain) {
        return Err(name.error(Problem::BadName));
    }
    let description = fields.read("description", Place::string)?;
    // Arguments always follow the schema, whether `strict` is true or false.
    fields.read("strict", Place::bool)?;
    let parameters = fields.read("parameters", |at| read_parameters(&at))?;
    // These describe results and hints for hosts, and do not constrain the arguments.
    for name in ["output_schema", "outputSchema", "response", "returns", "annotations", "cache_control"] {
        fields.ignore(name);
    }
    fields.finish()?;
    // A function without `parameters` takes no arguments.
    let parameters = parameters
        .unwrap_or_else(|| json!({ "type": "object", "properties": {}, "additionalProperties": false }));
    Ok(Tool { name: text, description, parameters, place })
}

/// Parses the schema of a function's arguments. If the schema has no type, adds `"type": "object"`,
/// because arguments are always an object. Another type is an error.
fn read_parameters(at: &Place) -> Result<Value, RequestError> {
    let mut schema = at.clone().map()?;
    match schema.get("type") {
        None => {
            schema.insert("type".to_owned(), json!("object"));
        }
        Some(given) if given == "object" => {}
        Some(_) => return Err(at.error(Problem::NotOfObjects)),
    }
    Ok(Value::Object(schema))
}
