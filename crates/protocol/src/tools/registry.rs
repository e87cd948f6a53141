use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use jsonschema::Validator;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::envelope::{Problem, codes};
use super::error::{Kind, ToolsError};
use super::executor::ToolExecutor;
use crate::adapt::{FlatSchema, Violation, schema};

/// Maximum number of argument errors reported to a model at once.
const TOLD: usize = 8;

/// Description of a tool for the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// Name of 1 to 64 ASCII letters, digits, `_` and `-`, preferably in `snake_case`.
    pub name: String,
    /// Description of the tool's purpose, for the model.
    pub description: String,
    /// JSON Schema of the arguments, which must be an object.
    pub parameters: Value,
}

impl ToolDefinition {
    /// Creates a definition without checking it; [`Tool::new`] checks it.
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self { name: name.into(), description: description.into(), parameters }
    }

    /// Returns the entry for the `tools` field of a request:
    /// `{"type": "function", "function": {…}}`.
    pub fn to_wire(&self) -> Value {
        let Self { name, description, parameters } = self;
        json!({ "type": "function", "function": { "name": name, "description": description, "parameters": parameters } })
    }
}

/// Tool definition together with its executor.
#[derive(Clone)]
pub struct Tool {
    definition: ToolDefinition,
    executor: Arc<dyn ToolExecutor>,
    checks: Arc<Checks>,
}

/// Validation of arguments.
struct Checks {
    validator: Validator,
    /// Describes violations of the schema; created at the first invalid call. The inner value is
    /// `None` if violations of this schema cannot be described.
    flat: OnceLock<Option<FlatSchema>>,
}

impl Tool {
    /// Checks `definition` and creates a tool. If the schema lacks `type` or `properties`, they are
    /// added, since providers require them.
    ///
    /// # Errors
    /// Returns an error if the name does not follow the rules of [`ToolDefinition::name`], or if
    /// the parameters are not a valid JSON Schema of type `object`.
    pub fn new(
        mut definition: ToolDefinition,
        executor: impl ToolExecutor + 'static,
    ) -> Result<Self, ToolsError> {
        check_name(&definition.name)?;
        let name = || definition.name.clone();
        let Value::Object(schema) = &mut definition.parameters else {
            return Err(Kind::NoObject { name: name() }.into());
        };
        // Providers require `type` and `properties`, which a schema may omit.
        if *schema.entry("type").or_insert("object".into()) != "object" {
            return Err(Kind::NoObject { name: name() }.into());
        }
        schema.entry("properties").or_insert_with(|| json!({}));
        let validator = schema::validator(&definition.parameters)
            .map_err(|error| Kind::Schema { name: name(), reason: error.to_string() })?;
        let checks = Checks { validator, flat: OnceLock::new() };
        Ok(Self { definition, executor: Arc::new(executor), checks: Arc::new(checks) })
    }

    /// Returns the definition that is sent to models.
    pub const fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// Returns the name of the tool.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    pub(super) fn executor(&self) -> &dyn ToolExecutor {
        &*self.executor
    }

    /// Checks `arguments` against the tool's schema. The returned problem describes at most
    /// [`TOLD`] violations for the model.
    pub(super) fn check(&self, arguments: &Value) -> Result<(), Problem> {
        let Checks { validator, flat } = &*self.checks;
        if validator.is_valid(arguments) {
            return Ok(());
        }
        let flat = flat.get_or_init(|| FlatSchema::new(&self.definition.parameters)).as_ref();
        let faults = flat.map(|flat| flat.violations(arguments)).unwrap_or_default();
        let mut told: Vec<Value> = faults.iter().take(TOLD).map(told).collect();
        // Invalid arguments are rejected even if no violation can be described.
        if told.is_empty() {
            told.push(json!({ "path": "", "message": "the arguments are invalid" }));
        }
        let words: Vec<String> = told.iter().map(in_words).collect();
        let message = format!(
            "the arguments do not match the tool's schema: {}; correct them and call the tool again",
            words.join("; ")
        );
        Err(Problem::new(codes::ARGUMENTS_INVALID, message)
            .with("violations", told)
            .with("more", faults.len().saturating_sub(TOLD)))
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tool").field(&self.definition).finish()
    }
}

/// Returns the location and the message of a violation. The rejected value is omitted, since it may
/// be long and the model knows it.
fn told(violation: &Violation) -> Value {
    json!({ "path": violation.path, "message": violation.message })
}

fn in_words(error: &Value) -> String {
    let text = |name: &str| error[name].as_str().unwrap_or_default();
    match text("path") {
        "" => text("message").to_owned(),
        path => format!("{path}: {}", text("message")),
    }
}

fn check_name(name: &str) -> Result<(), ToolsError> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let reason = if name.is_empty() {
        "the name is empty"
    } else if name.len() > 64 {
        "the name has more than 64 characters"
    } else if name.contains('.') {
        "providers reject `.`; use `_`"
    } else if !name.chars().all(is_fine) {
        "providers accept only letters, digits, `_` and `-`"
    } else {
        return Ok(());
    };
    Err(Kind::Name { given: name.to_owned(), reason }.into())
}

/// Result of looking up a tool by name.
#[derive(Clone, Copy, Debug)]
pub enum Lookup<'a> {
    /// Tool that may run.
    Found(&'a Tool),
    /// The tool exists but is masked.
    Masked,
    /// No tool has this name.
    Unknown,
}

/// Source of the tools of a run, such as a [`ToolRegistry`]. Only the tools in
/// [`tools`](Self::tools) are sent to the model and may run.
pub trait ToolSource: Send + Sync {
    /// Returns the tools in the order in which they are sent.
    fn tools(&self) -> Vec<&Tool>;

    /// Looks up a tool by name.
    fn find(&self, name: &str) -> Lookup<'_>;

    /// Returns the names of the masked tools, which exist but must not run. By default, no tool is
    /// masked.
    fn masked(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// List of an application's tools, each with a unique name.
///
/// ```
/// use formwork_protocol::tools::{Closure, Lookup, ToolDefinition, ToolRegistry, ToolSource};
/// use serde_json::json;
///
/// let parameters = json!({
///     "type": "object",
///     "properties": {"city": {"type": "string"}},
///     "required": ["city"],
/// });
/// let mut registry = ToolRegistry::new();
/// registry.add(
///     ToolDefinition::new("get_weather", "The weather in a city.", parameters),
///     Closure::new(|arguments| json!({"city": arguments["city"], "sky": "clear"})),
/// )?;
/// assert!(matches!(registry.find("get_weather"), Lookup::Found(_)));
/// # Ok::<(), formwork_protocol::tools::ToolsError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ToolRegistry {
    tools: Vec<Tool>,
}

impl ToolRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a tool with [`Tool::new`] and adds it.
    ///
    /// # Errors
    /// Returns an error if [`Tool::new`] rejects the definition, or if the registry already has a
    /// tool with this name.
    pub fn add(
        &mut self,
        definition: ToolDefinition,
        executor: impl ToolExecutor + 'static,
    ) -> Result<(), ToolsError> {
        self.insert(Tool::new(definition, executor)?)
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// Returns an error if the registry already has a tool with this name.
    pub fn insert(&mut self, tool: Tool) -> Result<(), ToolsError> {
        if self.tools.iter().any(|known| known.name() == tool.name()) {
            return Err(Kind::Duplicate { name: tool.name().to_owned() }.into());
        }
        self.tools.push(tool);
        Ok(())
    }

    /// Returns a warning for each tool whose name is valid but not in `snake_case`.
    pub fn warnings(&self) -> Vec<String> {
        let is_snake =
            |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let warning = |tool: &Tool| {
            let name = tool.name();
            (!is_snake(name)).then(|| format!("tool `{name}`: models follow names in snake_case best"))
        };
        self.tools.iter().filter_map(warning).collect()
    }
}

impl ToolSource for ToolRegistry {
    fn tools(&self) -> Vec<&Tool> {
        self.tools.iter().collect()
    }

    fn find(&self, name: &str) -> Lookup<'_> {
        self.tools.iter().find(|tool| tool.name() == name).map_or(Lookup::Unknown, Lookup::Found)
    }
}

/// View of another source that masks some of its tools by name. Masked tools are neither sent to
/// the model nor run.
#[derive(Clone)]
pub struct FilteredToolRegistry {
    inner: Arc<dyn ToolSource>,
    allow: Option<BTreeSet<String>>,
    deny: BTreeSet<String>,
}

impl FilteredToolRegistry {
    /// Creates a view of all tools of `inner`, without masking any.
    pub fn new(inner: Arc<dyn ToolSource>) -> Self {
        Self { inner, allow: None, deny: BTreeSet::new() }
    }

    /// Masks all tools except those with these names. Further calls of this method allow further
    /// names.
    #[must_use]
    pub fn allow<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.allow.get_or_insert_default().extend(names.into_iter().map(Into::into));
        self
    }

    /// Masks tools with these names, even if they are allowed.
    #[must_use]
    pub fn deny<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.deny.extend(names.into_iter().map(Into::into));
        self
    }

    fn lets(&self, name: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.contains(name)) && !self.deny.contains(name)
    }
}

impl ToolSource for FilteredToolRegistry {
    fn tools(&self) -> Vec<&Tool> {
        self.inner.tools().into_iter().filter(|tool| self.lets(tool.name())).collect()
    }

    fn find(&self, name: &str) -> Lookup<'_> {
        match self.inner.find(name) {
            Lookup::Found(_) if !self.lets(name) => Lookup::Masked,
            found => found,
        }
    }

    fn masked(&self) -> Vec<&str> {
        let names = self.inner.tools().into_iter().map(Tool::name);
        let mut masked = self.inner.masked();
        masked.extend(names.filter(|name| !self.lets(name)));
        masked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Closure;

    fn tool(name: &str, parameters: Value) -> Result<Tool, ToolsError> {
        Tool::new(ToolDefinition::new(name, "", parameters), Closure::new(|_| Value::Null))
    }

    fn fault(name: &str, parameters: Value) -> String {
        tool(name, parameters).expect_err("refused").to_string()
    }

    #[test]
    fn rejects_names_that_providers_reject() {
        let object = || json!({ "type": "object" });
        assert_eq!(fault("", object()), "invalid tool name ``: the name is empty");
        assert_eq!(fault("a.b", object()), "invalid tool name `a.b`: providers reject `.`; use `_`");
        assert!(fault("a b", object()).ends_with("only letters, digits, `_` and `-`"));
        assert!(fault(&"a".repeat(65), object()).ends_with("more than 64 characters"));
        assert!(tool(&"a".repeat(64), object()).is_ok());
    }

    #[test]
    fn requires_parameters_of_type_object() {
        for parameters in [json!(true), json!({ "type": "string" }), json!({ "type": ["object"] })] {
            let told = fault("f", parameters);
            assert_eq!(told, "tool `f`: the parameters must be a JSON Schema of type object");
        }
        let told = fault("f", json!({ "properties": { "a": { "type": "text" } } }));
        assert!(told.starts_with("tool `f`: the parameters are not a valid JSON Schema: "), "{told}");
        assert!(fault("f", json!({ "$ref": "https://example.com/a" })).starts_with("tool `f`: "));
        let open = tool("f", json!({})).expect("a tool");
        assert_eq!(open.definition().parameters, json!({ "type": "object", "properties": {} }));
    }

    #[test]
    fn rejects_duplicate_tool_names() {
        let mut registry = ToolRegistry::new();
        registry.insert(tool("f", json!({})).expect("a tool")).expect("the first");
        let told =
            registry.insert(tool("f", json!({})).expect("a tool")).expect_err("the second").to_string();
        assert_eq!(told, "duplicate tool `f`");
    }

    #[test]
    fn warns_about_names_not_in_snake_case() {
        let mut registry = ToolRegistry::new();
        for name in ["get_weather2", "getWeather", "get-weather"] {
            registry.insert(tool(name, json!({})).expect("a tool")).expect("a new one");
        }
        let warnings = registry.warnings();
        assert_eq!(warnings.len(), 2);
        assert_eq!(warnings[0], "tool `getWeather`: models follow names in snake_case best");
    }

    #[test]
    fn masks_apply_to_sending_and_running() {
        let mut registry = ToolRegistry::new();
        for name in ["a", "b", "c"] {
            registry.insert(tool(name, json!({})).expect("a tool")).expect("a new one");
        }
        let all: Arc<dyn ToolSource> = Arc::new(registry);
        let names = |source: &FilteredToolRegistry| -> Vec<String> {
            source.tools().into_iter().map(|tool| tool.name().to_owned()).collect()
        };
        let allowed = FilteredToolRegistry::new(all.clone()).allow(["a", "b"]).deny(["b"]);
        assert_eq!(names(&allowed), ["a"]);
        assert!(matches!(allowed.find("a"), Lookup::Found(_)));
        assert!(matches!(allowed.find("b"), Lookup::Masked) && matches!(allowed.find("c"), Lookup::Masked));
        assert!(matches!(allowed.find("d"), Lookup::Unknown));
        assert_eq!(allowed.masked(), ["b", "c"]);
        let denied = FilteredToolRegistry::new(all.clone()).deny(["b"]);
        assert_eq!(names(&denied), ["a", "c"]);
        assert_eq!(names(&FilteredToolRegistry::new(all.clone()).allow::<&str>([])), [""; 0]);
        // Masks can be nested.
        let both = FilteredToolRegistry::new(Arc::new(denied)).allow(["a", "b"]);
        assert_eq!((names(&both), both.masked()), (vec!["a".to_owned()], vec!["b", "c"]));
    }

    #[test]
    fn reports_invalid_arguments_by_place() {
        let properties = json!({ "city": { "type": "string" }, "days": { "type": "integer", "maximum": 7 } });
        let schema = json!({ "type": "object", "properties": properties, "required": ["city"], "additionalProperties": false });
        let tool = tool("f", schema).expect("a tool");
        assert!(tool.check(&json!({ "city": "Paris", "days": 7 })).is_ok());
        let problem = tool.check(&json!({ "days": "x".repeat(1000), "when": 1 })).expect_err("wrong");
        insta::assert_snapshot!(serde_json::to_string_pretty(&problem).expect("JSON"), @r#"
        {
          "code": "ARGUMENTS_INVALID",
          "message": "the arguments do not match the tool's schema: /days: the value is not of type \"integer\"; Additional properties are not allowed ('when' was unexpected); \"city\" is a required property; correct them and call the tool again",
          "violations": [
            {
              "path": "/days",
              "message": "the value is not of type \"integer\""
            },
            {
              "path": "",
              "message": "Additional properties are not allowed ('when' was unexpected)"
            },
            {
              "path": "",
              "message": "\"city\" is a required property"
            }
          ],
          "more": 0
        }
        "#);
        let many = tool.check(&json!({ "city": 1, "a": 1, "b": 1, "days": 8 })).expect_err("wrong");
        assert_eq!(many.details["violations"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn reports_errors_in_trees_in_polynomial_time() {
        let branch = |kind: &str| {
            let children = json!({ "type": "array", "items": { "$ref": "#/$defs/tree" } });
            json!({ "properties": { "leaf": { "type": kind }, "children": children }, "required": ["children"] })
        };
        let tree = json!({ "anyOf": [branch("string"), branch("integer"), branch("boolean")] });
        let schema =
            json!({ "properties": { "tree": { "$ref": "#/$defs/tree" } }, "$defs": { "tree": tree } });
        let tool = tool("f", schema).expect("a tool");
        let mut tree = json!({ "children": 7 });
        for _ in 0..60 {
            tree = json!({ "children": [tree] });
        }
        let start = std::time::Instant::now();
        let problem = tool.check(&json!({ "tree": tree })).expect_err("wrong");
        assert!(start.elapsed().as_secs() < 5);
        assert!(
            problem.message.contains("/tree: the value is not valid under any of the 3 schemas of `anyOf`")
        );
    }
}
