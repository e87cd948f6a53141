use std::sync::Arc;

use jsonschema::Validator;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::{Fault, RegistryError};
use super::names;
use super::shortened;
use crate::adapt::schema;

/// Maximum number of schema violations that are reported for one payload.
const VIOLATIONS: usize = 8;
/// Maximum number of characters in a message about an invalid schema or a schema violation.
const TOLD: usize = 300;

/// Definition of a directive type.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Canonical name of the type, such as `ui.show_form`.
    #[serde(rename = "type")]
    pub kind: String,
    /// One-line description of the type for the model; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Other names that models use for the type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// JSON Schema of the payload. Unknown fields are allowed unless the schema forbids them. If
    /// `None`, a payload may be any object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_schema: Option<Value>,
    /// Instructions for the model about when and how to use the type. May have several lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// True if the field `ops` of each payload is a patch. The [`Validator`](super::Validator) then
    /// normalizes and checks the operations, as described in [`patch`](super::patch).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub patch: bool,
}

/// Definitions of the known directive types. Cheap to clone.
///
/// Serialized as `{"definitions": […], "instructions": "…"}`, where `instructions` is the text of
/// [`Registry::with_instructions`]. A registry without definitions allows any type.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Data", into = "Data")]
pub struct Registry {
    data: Arc<Data>,
    /// Compiled payload schema of each definition, in the order of the definitions. `None` for a
    /// definition without a payload schema.
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
    /// Creates a definition of the type `kind`. All other fields are empty.
    pub fn new(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), ..Self::default() }
    }
}

impl Registry {
    /// Creates a registry of the types in `definitions`.
    ///
    /// # Errors
    /// Returns an error if a type or alias is empty, has surrounding whitespace or occurs twice. A
    /// payload schema that does not compile, or whose `type` excludes objects, is also an error.
    pub fn new(definitions: Vec<Definition>) -> Result<Self, RegistryError> {
        Self::try_from(Data { definitions, instructions: None })
    }

    /// Sets general instructions for the model, which follow the list of types in the system
    /// message.
    #[must_use]
    pub fn with_instructions(mut self, instructions: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.data).instructions = Some(instructions.into());
        self
    }

    /// Returns the definitions in their original order.
    pub fn definitions(&self) -> &[Definition] {
        &self.data.definitions
    }

    /// Returns the definition of the type named `kind`, or `None` if there is no such type. Aliases
    /// are not considered.
    pub fn get(&self, kind: &str) -> Option<&Definition> {
        self.definitions().iter().find(|definition| definition.kind == kind)
    }

    /// Returns the names of the types, in the order of the definitions.
    pub fn types(&self) -> Vec<String> {
        self.definitions().iter().map(|definition| definition.kind.clone()).collect()
    }

    /// Returns all aliases, as pairs of an alias and its type, such as `("toast", "ui.toast")`.
    pub fn type_aliases(&self) -> Vec<(String, String)> {
        let of = |definition: &Definition| -> Vec<_> {
            definition.aliases.iter().map(|alias| (alias.clone(), definition.kind.clone())).collect()
        };
        self.definitions().iter().flat_map(of).collect()
    }

    /// Returns a text that explains the types to the model: each type with its description and
    /// instructions, and then the general instructions. Payload schemas are not included.
    pub fn instructions(&self) -> String {
        super::instructions::of_types(self, None, false)
    }

    /// Returns the general instructions that [`Self::with_instructions`] set.
    pub(super) fn remarks(&self) -> Option<&str> {
        self.data.instructions.as_deref()
    }

    /// Checks `payload` against the schema of the type `kind`. Returns a JSON pointer into the
    /// payload and a message for each violation. A type without a schema has no violations.
    pub(super) fn violations(&self, kind: &str, payload: &Map<String, Value>) -> Vec<(String, String)> {
        let at = self.definitions().iter().position(|definition| definition.kind == kind);
        let Some(schema) = at.and_then(|at| self.schemas.get(at)).and_then(Option::as_ref) else {
            return Vec::new();
        };
        let payload = Value::Object(payload.clone());
        let told = schema.iter_errors(&payload).take(VIOLATIONS).map(|error| {
            // The message omits the value, which may be large. The pointer identifies the value.
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

/// Compiles a payload schema and checks that its `type` includes objects. `place` is the place of
/// the schema, for errors.
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
    schema::validator(schema).map_err(|error| {
        let reason = shortened(&error.reason, TOLD);
        RegistryError::new(format!("{place}{}", error.path), Fault::Schema { reason })
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
    fn rejects_duplicates_with_their_place() {
        for (definitions, told) in [
            (json!([{ "type": "a" }, { "type": "a" }]), "definitions[1].type: `a` is already defined"),
            (json!([{ "type": "" }]), "definitions[0].type: a name must not be empty"),
            (
                json!([{ "type": " a" }]),
                "definitions[0].type: ` a` must not have leading or trailing whitespace",
            ),
            (
                json!([{ "type": "a", "aliases": ["x", ""] }]),
                "definitions[0].aliases[1]: a name must not be empty",
            ),
            (
                json!([{ "type": "a", "aliases": ["b"] }, { "type": "b" }]),
                "definitions[0].aliases[0]: alias `b` is already the name of a type",
            ),
            (
                json!([{ "type": "a", "aliases": ["x"] }, { "type": "b", "aliases": ["y", "x"] }]),
                "definitions[1].aliases[1]: alias `x` already belongs to type `a`",
            ),
            (json!([{ "type": "a", "alias": "x" }]), "unknown field `alias`"),
            (json!([{ "aliases": [] }]), "missing field `type`"),
        ] {
            let error = refused(definitions);
            assert!(error.starts_with(told), "{error}");
        }
    }

    #[test]
    fn rejects_schemas_that_are_not_of_objects_with_their_place() {
        for (schema, told) in [
            (json!({ "type": "array" }), "definitions[0].payload_schema: a payload schema must be an object"),
            (json!(false), "definitions[0].payload_schema: a payload schema must be an object"),
            (json!([]), "definitions[0].payload_schema: a payload schema must be an object"),
            (
                json!({ "properties": { "a": { "type": "text" } } }),
                "definitions[0].payload_schema/properties/a/type: invalid JSON Schema",
            ),
            (
                json!({ "properties": { "a": { "pattern": "(" } } }),
                "definitions[0].payload_schema/properties/a/pattern: invalid JSON Schema",
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
    fn the_registry_round_trips_through_json() {
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
    fn violations_have_a_place_but_no_values() {
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
