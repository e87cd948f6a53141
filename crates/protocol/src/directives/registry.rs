use std::sync::Arc;

use jsonschema::Validator;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::{Fault, RegistryError};
use super::names;
use super::shortened;

/// The most violations of a schema that are told.
const VIOLATIONS: usize = 8;
/// The most characters of one.
const TOLD: usize = 300;

/// A type of directives.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Its name; dots make it readable, as in `ui.show_form`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it does, in a line for the model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Other names by which models call it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// What a payload must be. Unknown fields are allowed unless it closes itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_schema: Option<Value>,
    /// When and how to use it, in so many lines as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Whether a payload is a patch: its `ops` are then normalised and checked as [`patch`](super::patch) says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub patch: bool,
}

/// The types of directives that there are. Cheap to clone.
///
/// As data it is `{"definitions": […], "instructions": "…"}`. One without definitions knows no types, and so allows any.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Data", into = "Data")]
pub struct Registry {
    data: Arc<Data>,
    /// Of each definition that has a schema.
    schemas: Arc<[Option<Validator>]>,
}

#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    definitions: Vec<Definition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
}

impl Definition {
    /// A type of which nothing but the name is known.
    pub fn new(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), ..Self::default() }
    }
}

impl Registry {
    /// A registry of these types.
    ///
    /// # Errors
    /// When a name is empty or given twice, or a payload schema cannot be compiled.
    pub fn new(definitions: Vec<Definition>) -> Result<Self, RegistryError> {
        Self::try_from(Data { definitions, instructions: None })
    }

    /// With a text for the model about all of them.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.data).instructions = Some(instructions.into());
        self
    }

    /// The types, in the order given.
    pub fn definitions(&self) -> &[Definition] {
        &self.data.definitions
    }

    /// The definition of a type, by its own name.
    pub fn get(&self, kind: &str) -> Option<&Definition> {
        self.definitions().iter().find(|definition| definition.kind == kind)
    }

    /// The names of the types.
    pub fn types(&self) -> Vec<String> {
        self.definitions().iter().map(|definition| definition.kind.clone()).collect()
    }

    /// The aliases, each with the type that it stands for.
    pub fn type_aliases(&self) -> Vec<(String, String)> {
        let of = |definition: &Definition| -> Vec<_> {
            definition.aliases.iter().map(|alias| (alias.clone(), definition.kind.clone())).collect()
        };
        self.definitions().iter().flat_map(of).collect()
    }

    /// What the model is told of the types, and of all of them together.
    pub fn instructions(&self) -> String {
        super::instructions::of_types(self, None, false)
    }

    /// The text about all of them that was given.
    pub(super) fn remarks(&self) -> Option<&str> {
        self.data.instructions.as_deref()
    }

    /// What in the payload of a type its schema does not allow: where, and why.
    pub(super) fn violations(&self, kind: &str, payload: &Map<String, Value>) -> Vec<(String, String)> {
        let at = self.definitions().iter().position(|definition| definition.kind == kind);
        let Some(schema) = at.and_then(|at| self.schemas.get(at)).and_then(Option::as_ref) else {
            return Vec::new();
        };
        let payload = Value::Object(payload.clone());
        let told = schema.iter_errors(&payload).take(VIOLATIONS).map(|error| {
            // Without the value, which may be large; the pointer says which it is.
            (error.instance_path().to_string(), shortened(&error.masked().to_string(), TOLD))
        });
        told.collect()
    }
}

impl PartialEq for Registry {
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data
    }
}

impl TryFrom<Data> for Registry {
    type Error = RegistryError;

    fn try_from(data: Data) -> Result<Self, RegistryError> {
        names::check(&data.definitions)?;
        let compile = |(at, definition): (usize, &Definition)| {
            let schema = definition.payload_schema.as_ref();
            schema.map(|schema| compiled(schema, &format!("definitions[{at}].payload_schema"))).transpose()
        };
        let schemas = data.definitions.iter().enumerate().map(compile).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { data: Arc::new(data), schemas: schemas.into() })
    }
}

impl From<Registry> for Data {
    fn from(registry: Registry) -> Self {
        Arc::unwrap_or_clone(registry.data)
    }
}

fn compiled(schema: &Value, place: &str) -> Result<Validator, RegistryError> {
    let of_objects = match schema {
        Value::Object(schema) => match schema.get("type") {
            None => true,
            Some(Value::Array(types)) => types.contains(&"object".into()),
            Some(kind) => kind == "object",
        },
        other => other == &Value::Bool(true),
    };
    if !of_objects {
        return Err(RegistryError::new(place, Fault::NotOfObjects));
    }
    jsonschema::validator_for(schema).map_err(|error| {
        let reason = shortened(&error.masked().to_string(), TOLD);
        RegistryError::new(format!("{place}{}", error.instance_path()), Fault::Schema { reason })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(definitions: Value) -> String {
        let data = Value::Object(Map::from_iter([("definitions".to_owned(), definitions)]));
        serde_json::from_value::<Registry>(data).expect_err("refused").to_string()
    }

    #[test]
    fn what_is_given_twice_is_refused_by_its_place() {
        for (definitions, told) in [
            (json!([{ "type": "a" }, { "type": "a" }]), "definitions[1].type: `a` is defined already"),
            (json!([{ "type": "" }]), "definitions[0].type: a name must not be empty"),
            (json!([{ "type": " a" }]), "definitions[0].type: ` a` has whitespace around it"),
            (
                json!([{ "type": "a", "aliases": ["x", ""] }]),
                "definitions[0].aliases[1]: a name must not be empty",
            ),
            (
                json!([{ "type": "a", "aliases": ["b"] }, { "type": "b" }]),
                "definitions[0].aliases[0]: `b` is a type itself",
            ),
            (
                json!([{ "type": "a", "aliases": ["x"] }, { "type": "b", "aliases": ["y", "x"] }]),
                "definitions[1].aliases[1]: `x` stands for `a` already",
            ),
            (json!([{ "type": "a", "alias": "x" }]), "unknown field `alias`"),
            (json!([{ "aliases": [] }]), "missing field `type`"),
        ] {
            let error = refused(definitions);
            assert!(error.starts_with(told), "{error}");
        }
    }

    #[test]
    fn what_is_no_schema_of_objects_is_refused_by_its_place() {
        for (schema, told) in [
            (json!({ "type": "array" }), "definitions[0].payload_schema: a payload is an object"),
            (json!(false), "definitions[0].payload_schema: a payload is an object"),
            (json!([]), "definitions[0].payload_schema: a payload is an object"),
            (
                json!({ "properties": { "a": { "type": "text" } } }),
                "definitions[0].payload_schema/properties/a/type: not a JSON Schema",
            ),
            (
                json!({ "properties": { "a": { "pattern": "(" } } }),
                "definitions[0].payload_schema/properties/a/pattern: not a JSON Schema",
            ),
            (json!({ "$ref": "#/$defs/none" }), "definitions[0].payload_schema"),
            (json!({ "$ref": "https://example.com/schema" }), "definitions[0].payload_schema"),
        ] {
            let error = refused(json!([{ "type": "a", "payload_schema": schema }]));
            assert!(error.starts_with(told), "{error}");
        }
        let fine = json!([{ "type": "a", "payload_schema": true }, { "type": "b", "payload_schema": { "type": ["object", "null"] } }]);
        assert!(serde_json::from_value::<Registry>(json!({ "definitions": fine })).is_ok());
    }

    #[test]
    fn as_data_it_is_what_was_given() {
        let data = json!({
            "definitions": [
                { "type": "ui.toast", "description": "payload: {message: String}", "aliases": ["toast", "notify"] },
                { "type": "ui.patch", "payload_schema": { "required": ["ops"] }, "instructions": "Seldom.", "patch": true },
            ],
            "instructions": "At most two.",
        });
        let registry: Registry = serde_json::from_value(data.clone()).expect("a registry");
        assert_eq!(serde_json::to_value(&registry).expect("data"), data);
        assert_eq!(registry.types(), ["ui.toast", "ui.patch"]);
        let aliases = registry.type_aliases();
        assert_eq!(aliases, ["toast", "notify"].map(|alias| (alias.to_owned(), "ui.toast".to_owned())));
        assert!(registry.get("ui.patch").is_some_and(|patch| patch.patch) && registry.get("toast").is_none());
    }

    #[test]
    fn violations_have_a_place_and_no_values() {
        let schema = json!({
            "properties": { "level": { "enum": ["info", "error"] }, "message": { "type": "string" } },
            "required": ["message"],
        });
        let definition = Definition { payload_schema: Some(schema), ..Definition::new("ui.toast") };
        let registry = Registry::new(vec![Definition::new("x"), definition]).expect("a registry");
        let check = |payload: Value| registry.violations("ui.toast", payload.as_object().expect("an object"));
        assert_eq!(check(json!({ "message": "Hi", "more": 1 })), []);
        let told = check(json!({ "message": 1, "level": "x".repeat(1000) }));
        let mut places: Vec<_> = told.iter().map(|(place, _)| place.as_str()).collect();
        places.sort_unstable();
        assert_eq!(places, ["/level", "/message"]);
        assert!(told.iter().all(|(_, message)| message.len() < 100), "{told:?}");
        assert_eq!(check(json!({})), [(String::new(), "\"message\" is a required property".to_owned())]);
    }
}
