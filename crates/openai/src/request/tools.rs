use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use formwork_chat::{Tool, Tools};
use serde_json::{Map, Value, json};

use super::client_tools::{self, ClientTool};
use super::custom;
use super::fields::{Fields, Place};
use super::namespaces::{self, Namespaces};
use crate::RequestError;
use crate::error::Problem;

/// Maximum number of tools in a request.
const MAX_TOOLS: usize = 1024;

/// Form of a tool in a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ToolForm {
    /// The fields are nested in an object `function` or `custom`, as in a chat request.
    Nested,
    /// Like `Nested`, but without custom tools.
    Ollama,
    /// The fields are beside `type`, as in a request for a response.
    Flat,
    /// The fields are those of Anthropic's API: the schema is `input_schema`, and a type is optional.
    Anthropic,
}

impl ToolForm {
    /// Returns the `type` of a function.
    const fn kind(self) -> &'static str {
        match self {
            Self::Nested | Self::Ollama | Self::Flat => "function",
            Self::Anthropic => "custom",
        }
    }

    /// Returns the types of tools that a model can call, for error messages.
    const fn kinds(self) -> &'static str {
        match self {
            Self::Nested => "function and custom",
            Self::Flat => "function, custom and namespace",
            Self::Ollama | Self::Anthropic => self.kind(),
        }
    }

    /// Returns the name of the field with the schema of the arguments.
    const fn schema(self) -> &'static str {
        match self {
            Self::Nested | Self::Ollama | Self::Flat => "parameters",
            Self::Anthropic => "input_schema",
        }
    }

    /// Returns true if the fields of a tool are in an object of their own.
    const fn is_nested(self) -> bool {
        matches!(self, Self::Nested | Self::Ollama)
    }

    /// Returns true if tools of the type `custom` take a text instead of arguments.
    const fn has_custom_tools(self) -> bool {
        matches!(self, Self::Nested | Self::Flat)
    }
}

/// Tools that a request declares, before the choice among them.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct DeclaredTools {
    tools: Vec<Tool>,
    pub(crate) namespaces: Namespaces,
}

/// Parses `tools`, `tool_choice` and `parallel_tool_calls`.
pub(crate) fn read(fields: &mut Fields, form: ToolForm) -> Result<Tools, RequestError> {
    let declared = fields.read("tools", |at| read_tools(at, form))?.unwrap_or_default();
    read_choice(fields, declared.tools, form)
}

/// Parses the fields of [`read`] in a request for a response. `stored` are the tools that earlier items
/// declare, and `added` those of the request's own items, both oldest first. A tool replaces an earlier one
/// with the same name.
pub(crate) fn read_of_response(
    fields: &mut Fields,
    stored: Vec<DeclaredTools>,
    added: Vec<DeclaredTools>,
) -> Result<(Tools, Namespaces), RequestError> {
    let form = ToolForm::Flat;
    let own = fields.read("tools", |at| read_tools(at, form))?;
    let DeclaredTools { tools, namespaces } =
        DeclaredTools::merged(stored.into_iter().chain(own).chain(added))?;
    Ok((read_choice(fields, tools, form)?, namespaces))
}

/// Parses `tool_choice` and `parallel_tool_calls`, and applies them to `tools`.
fn read_choice(fields: &mut Fields, tools: Vec<Tool>, form: ToolForm) -> Result<Tools, RequestError> {
    let choice = fields.read("tool_choice", |at| Choice::read(&at, form))?;
    let parallel = fields.read("parallel_tool_calls", Place::bool)?.unwrap_or(true);
    chosen(Tools { tools, required: false, parallel }, choice.unwrap_or(Choice::Auto), "tool_choice")
}

impl DeclaredTools {
    /// Joins tools that are declared one after the other.
    ///
    /// # Errors
    /// Returns an error if there are too many tools, or if two tools differ in their namespaces but not in
    /// the name that the model sees.
    fn merged(all: impl Iterator<Item = Self>) -> Result<Self, RequestError> {
        let mut namespaces = Namespaces::default();
        let mut tools: Vec<Option<Tool>> = Vec::new();
        let mut indices: HashMap<String, usize> = HashMap::new();
        for declared in all {
            for tool in declared.tools {
                let name = tool.name.clone();
                if let Some(earlier) = indices.insert(name.clone(), tools.len()) {
                    if namespaces.find(&name) != declared.namespaces.find(&name) {
                        return Err(RequestError::field(tool.place, Problem::SameName { name }));
                    }
                    tools[earlier] = None;
                }
                check_count(indices.len(), "tools")?;
                tools.push(Some(tool));
            }
            namespaces.add(declared.namespaces);
        }
        Ok(Self { tools: tools.into_iter().flatten().collect(), namespaces })
    }
}

/// Parses `functions` and `function_call`, the names that were used before `tools`. Returns `None` if
/// there are no functions.
///
/// An answer calls at most one function.
pub(crate) fn read_functions(fields: &mut Fields) -> Result<Option<Tools>, RequestError> {
    let function = |at: Place| {
        let place = format!("{}.parameters", at.path());
        read_function(at.fields()?, place, ToolForm::Flat)
    };
    let all = |at: Place| {
        let places = at.list("an array of functions")?;
        check_count(places.len(), "functions")?;
        distinct(places.into_iter().map(function))
    };
    let functions = fields.read("functions", all)?.unwrap_or_default();
    let choice = fields.read("function_call", |at| {
        if at.is_string() {
            let known = |name: &str| match name {
                "none" => Some(Choice::None),
                "auto" => Some(Choice::Auto),
                _ => None,
            };
            return at.one_of(known, "none, auto and an object with a name");
        }
        let mut fields = at.fields()?;
        let name = fields.required("name")?.string()?;
        fields.finish()?;
        Ok(Choice::Named(Named { name, kind: ToolKind::Function }))
    })?;
    if functions.is_empty() {
        return match choice {
            Some(Choice::Named(_)) => {
                Err(RequestError::field("function_call", Problem::Needs { other: "functions" }))
            }
            _ => Ok(None),
        };
    }
    // Some clients send the newer fields too, with values that ask for nothing.
    for (name, asks_nothing) in [
        ("tools", (|value| value.as_array().is_some_and(Vec::is_empty)) as fn(&Value) -> bool),
        ("tool_choice", |value| value == "none" || value == "auto"),
        ("parallel_tool_calls", Value::is_boolean),
    ] {
        if fields.take(name).is_some_and(|at| !asks_nothing(at.value())) {
            return Err(RequestError::field("functions", Problem::Conflict { other: name }));
        }
    }
    let set = Tools { tools: functions, required: false, parallel: false };
    chosen(set, choice.unwrap_or(Choice::Auto), "function_call").map(Some)
}

/// Parses `tools` and `tool_choice` of a request to Anthropic's API.
pub(crate) fn read_of_anthropic(fields: &mut Fields) -> Result<Tools, RequestError> {
    let declared = fields.read("tools", |at| read_tools(at, ToolForm::Anthropic))?.unwrap_or_default();
    let mut set = Tools { tools: declared.tools, required: false, parallel: true };
    let Some(at) = fields.take("tool_choice") else { return chosen(set, Choice::Auto, "tool_choice") };
    let mut choice = at.fields()?;
    let known = |name: &str| ["auto", "any", "tool", "none"].into_iter().find(|known| *known == name);
    let kind = choice.required("type")?.one_of(known, "auto, any, tool and none")?;
    let chosen_one = match kind {
        "any" => Choice::Required,
        "none" => Choice::None,
        "tool" => {
            let name = choice.required("name")?.string()?;
            Choice::Named(Named { name, kind: ToolKind::Function })
        }
        _ => Choice::Auto,
    };
    set.parallel = !choice.read("disable_parallel_tool_use", Place::bool)?.unwrap_or(false);
    choice.finish()?;
    chosen(set, chosen_one, "tool_choice")
}

/// Applies a choice, which is the value of `field`, to a set of tools.
fn chosen(mut set: Tools, choice: Choice, field: &'static str) -> Result<Tools, RequestError> {
    match choice {
        Choice::None => set.tools.clear(),
        Choice::Auto => {}
        Choice::Required if set.tools.is_empty() => {
            return Err(RequestError::field(field, Problem::Needs { other: "tools" }));
        }
        Choice::Required => set.required = true,
        Choice::Named(named) => {
            named.check(&set, field)?;
            set.tools.retain(|tool| tool.name == named.name);
            // A named tool must be called exactly once.
            (set.required, set.parallel) = (true, false);
        }
        Choice::Allowed { tools, required } => {
            tools.iter().try_for_each(|named| named.check(&set, field))?;
            set.tools.retain(|tool| tools.iter().any(|named| named.name == tool.name));
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
    Named(Named),
    Allowed { tools: Vec<Named>, required: bool },
}

/// Tool that a choice names.
struct Named {
    name: String,
    kind: ToolKind,
}

/// Type of a tool that the model can call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolKind {
    Function,
    Custom,
}

impl ToolKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Custom => "custom",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Function, Self::Custom].into_iter().find(|kind| kind.name() == name)
    }
}

impl Named {
    /// Parses the name of a tool in an object whose type is already read.
    fn read(fields: &mut Fields, form: ToolForm, kind: ToolKind) -> Result<Self, RequestError> {
        if !form.is_nested() {
            return Ok(Self { name: namespaces::read_name(fields)?, kind });
        }
        if fields.get(kind.name()).is_none() && fields.get("name").is_some() {
            // Some clients write the name beside the type in every API.
            return Ok(Self { name: fields.required("name")?.string()?, kind });
        }
        let mut tool = fields.required(kind.name())?.fields()?;
        let name = tool.required("name")?.string()?;
        tool.finish()?;
        Ok(Self { name, kind })
    }

    /// Checks that one of the tools has this name and this type.
    fn check(&self, set: &Tools, field: &'static str) -> Result<(), RequestError> {
        let name = || self.name.clone();
        let Some(tool) = set.tools.iter().find(|tool| tool.name == self.name) else {
            return Err(RequestError::field(field, Problem::NoTool { name: name() }));
        };
        if tool.custom.is_some() == (self.kind == ToolKind::Custom) {
            return Ok(());
        }
        Err(RequestError::field(field, Problem::OtherKind { name: name(), kind: self.kind.name() }))
    }
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
            return at.one_of(
                known,
                "none, auto, required, and objects of type function, custom and allowed_tools",
            );
        }
        let mut fields = at.clone().fields()?;
        // `None` for a list of allowed tools.
        let kind = |name: &str| match name {
            "allowed_tools" => Some(None),
            name => ToolKind::from_name(name).map(Some),
        };
        let kind = fields.required("type")?.one_of(kind, "function, custom and allowed_tools")?;
        let choice = match kind {
            Some(kind) => Self::Named(Named::read(&mut fields, form, kind)?),
            None if form.is_nested() => {
                let mut allowed = fields.required("allowed_tools")?.fields()?;
                let choice = Self::allowed(&mut allowed, form)?;
                allowed.finish_strictly()?;
                choice
            }
            None => Self::allowed(&mut fields, form)?,
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
        check_count(tools.len(), "tool_choice.tools")?;
        let named = tools.into_iter().map(|tool| {
            let mut fields = tool.fields()?;
            let kind = fields.required("type")?.one_of(ToolKind::from_name, "function and custom")?;
            let named = Named::read(&mut fields, form, kind)?;
            fields.finish()?;
            Ok(named)
        });
        let tools: Vec<Named> = named.collect::<Result<_, RequestError>>()?;
        if tools.is_empty() {
            return Err(RequestError::field("tool_choice.tools", Problem::Empty));
        }
        Ok(Self::Allowed { tools, required })
    }
}

/// Parses an array of tools.
pub(crate) fn read_tools(at: Place, form: ToolForm) -> Result<DeclaredTools, RequestError> {
    let field = at.path().to_owned();
    let mut found = Vec::new();
    let mut namespaces = Namespaces::default();
    for place in at.list("an array of tools")? {
        if form == ToolForm::Flat && place.value().get("type").is_some_and(|kind| kind == "namespace") {
            found.extend(namespaces.read(place)?);
        } else {
            found.extend(read_tool(place, form)?);
        }
    }
    check_count(found.len(), field)?;
    Ok(DeclaredTools { tools: distinct(found.into_iter().map(Ok))?, namespaces })
}

/// A tool, and the field with its name.
pub(super) type NamedTool = (Tool, Place);

/// Collects tools and checks that their names differ.
fn distinct(all: impl Iterator<Item = Result<NamedTool, RequestError>>) -> Result<Vec<Tool>, RequestError> {
    let mut tools: Vec<Tool> = Vec::new();
    let mut names = HashSet::new();
    for tool in all {
        let (tool, name) = tool?;
        if !names.insert(tool.name.clone()) {
            return Err(name.error(Problem::SameName { name: tool.name }));
        }
        tools.push(tool);
    }
    Ok(tools)
}

fn check_count(given: usize, field: impl Into<String>) -> Result<(), RequestError> {
    if given <= MAX_TOOLS {
        return Ok(());
    }
    Err(RequestError::field(field, Problem::TooMany { given, limit: MAX_TOOLS }))
}

/// Parses a tool. Returns `None` for a tool without a schema, which only its own host or its own models
/// know, such as a search of the web. It is noted as ignored. The answer is then one in which the model
/// does not call it.
pub(super) fn read_tool(at: Place, form: ToolForm) -> Result<Option<NamedTool>, RequestError> {
    let mut fields = at.clone().fields()?;
    let kind = fields.take("type");
    if form.has_custom_tools() && kind.as_ref().is_some_and(|kind| kind.value() == "custom") {
        return read_custom_tool(fields, form, at.path()).map(Some);
    }
    if form == ToolForm::Anthropic
        && let Some(known) = kind.as_ref().and_then(|kind| client_tools::find(kind.value().as_str()?))
    {
        return read_client_tool(fields, known, at.path()).map(Some);
    }
    let is_hosted = |kind: &Place| {
        kind.one_of(|name| (name != "custom").then_some(()), "function and the tools of hosts")
    };
    if let Some(kind) = kind.filter(|kind| kind.value() != form.kind()) {
        // A misspelt type must not drop a function. The tools that a search would find are offered from the
        // start.
        let is_search = kind.value() == "tool_search";
        let own = ["function", "custom", "parameters", "input_schema", "tools"];
        if !is_search && own.iter().any(|name| fields.get(name).is_some()) {
            kind.one_of(|_| None, form.kinds())?;
        }
        is_hosted(&kind)?;
        at.ignore();
        return Ok(None);
    }
    let (function, place) = match form {
        ToolForm::Flat | ToolForm::Anthropic => (fields, format!("{}.{}", at.path(), form.schema())),
        ToolForm::Nested | ToolForm::Ollama => {
            let function = fields.required("function")?.fields()?;
            fields.finish()?;
            (function, format!("{}.function.parameters", at.path()))
        }
    };
    read_function(function, place, form).map(Some)
}

/// Parses the name of a tool. Returns its field too.
pub(super) fn read_tool_name(fields: &mut Fields) -> Result<(String, Place), RequestError> {
    let name = fields.required("name")?;
    let text = name.clone().non_empty_string()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if text.len() > 128 || !text.chars().all(is_plain) {
        return Err(name.error(Problem::BadName));
    }
    Ok((text, name))
}

/// Parses a tool that the client runs, whose type is already read.
fn read_client_tool(mut fields: Fields, known: ClientTool, path: &str) -> Result<NamedTool, RequestError> {
    let (name, name_at) = read_tool_name(&mut fields)?;
    fields.read("strict", Place::bool)?;
    // These save tokens of the prompt or describe what the client does.
    for name in ["allowed_callers", "cache_control", "defer_loading", "input_examples", "max_characters"] {
        fields.ignore(name);
    }
    fields.finish()?;
    let ClientTool { description, parameters } = known;
    let tool = Tool {
        name,
        description: Some(description.to_owned()),
        parameters: Arc::new(parameters),
        custom: None,
        place: path.to_owned(),
    };
    Ok((tool, name_at))
}

/// Parses a custom tool, whose type is already read.
fn read_custom_tool(mut fields: Fields, form: ToolForm, path: &str) -> Result<NamedTool, RequestError> {
    let (mut fields, place) = if form.is_nested() {
        let custom = fields.required("custom")?.fields()?;
        fields.finish()?;
        (custom, format!("{path}.custom.format.grammar.definition"))
    } else {
        (fields, format!("{path}.format.definition"))
    };
    let (name, name_at) = read_tool_name(&mut fields)?;
    let description = fields.read("description", Place::string)?;
    let input = custom::read_input(&mut fields, form.is_nested())?;
    custom::read_hints(&mut fields)?;
    fields.finish()?;
    Ok((Tool::custom(name, description, input, place), name_at))
}

fn read_function(mut fields: Fields, place: String, form: ToolForm) -> Result<NamedTool, RequestError> {
    let (name, name_at) = read_tool_name(&mut fields)?;
    let description = fields.read("description", Place::string)?;
    // Arguments always follow the schema, whether `strict` is true or false.
    fields.read("strict", Place::bool)?;
    let parameters = fields.read(form.schema(), |at| read_parameters(&at))?;
    // These describe results and hints for hosts, and do not constrain the arguments.
    for name in ["output_schema", "outputSchema", "response", "returns", "annotations", "cache_control"] {
        fields.ignore(name);
    }
    if form == ToolForm::Anthropic {
        // These save tokens of the prompt or describe what hosts do.
        for name in ["defer_loading", "eager_input_streaming", "allowed_callers", "input_examples"] {
            fields.ignore(name);
        }
    }
    if form == ToolForm::Flat {
        custom::read_hints(&mut fields)?;
    }
    fields.finish()?;
    // A function without `parameters` takes no arguments.
    let parameters = parameters
        .unwrap_or_else(|| json!({ "type": "object", "properties": {}, "additionalProperties": false }));
    let tool = Tool { name, description, parameters: Arc::new(parameters), custom: None, place };
    Ok((tool, name_at))
}

/// Parses the schema of a function's arguments. If the schema has no type, adds `"type": "object"`,
/// because arguments are always an object. Another type is an error. A schema that only has empty
/// `properties` is that of a function without arguments.
fn read_parameters(at: &Place) -> Result<Value, RequestError> {
    let mut schema = at.clone().map()?;
    match schema.get("type") {
        None => {
            schema.insert("type".to_owned(), json!("object"));
        }
        Some(given) if given == "object" => {}
        Some(_) => return Err(at.error(Problem::NotOfObjects)),
    }
    let says_no_more = |(name, value): (&String, &Value)| match name.as_str() {
        "properties" => value.as_object().is_some_and(Map::is_empty),
        "required" => value.as_array().is_some_and(Vec::is_empty),
        name => ["type", "title", "description", "$schema"].contains(&name),
    };
    if schema.contains_key("properties") && schema.iter().all(says_no_more) {
        schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    Ok(Value::Object(schema))
}
