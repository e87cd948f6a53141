//! Declarations of tools that a template does not take as they are.

use serde_json::{Map, Value, json};

/// Types that every template can declare.
const SIMPLE: [&str; 4] = ["string", "integer", "number", "boolean"];

/// Adds the members of a declaration's `parameters` that templates read without a check: `type` and
/// `properties`.
pub(crate) fn with_properties(mut declaration: Value) -> Value {
    let parameters = &mut declaration["function"]["parameters"];
    if !parameters.is_object() {
        *parameters = json!({});
    }
    if let Value::Object(members) = parameters {
        members.entry("type").or_insert_with(|| "object".into());
        members.entry("properties").or_insert_with(|| json!({}));
    }
    declaration
}

/// Returns declarations of tools without schemas that a template may not know, such as lists of types. The
/// description of such a tool has its whole schema. Returns `None` if all declarations are simple.
pub(crate) fn simplified(tools: &Value) -> Option<Value> {
    let mut tools = tools.as_array()?.clone();
    let mut is_changed = false;
    for tool in &mut tools {
        let Some(function) = tool.get_mut("function").and_then(Value::as_object_mut) else { continue };
        let Some(parameters) = function.get("parameters") else { continue };
        let simple = simple_parameters(parameters);
        if simple == *parameters {
            continue;
        }
        is_changed = true;
        let description = function.get("description").and_then(Value::as_str).unwrap_or_default();
        let description = format!("{description}\n\nThe arguments match this JSON Schema:\n{parameters}");
        function.insert("description".to_owned(), description.trim_start().into());
        function.insert("parameters".to_owned(), simple);
    }
    is_changed.then(|| tools.into())
}

fn simple_parameters(parameters: &Value) -> Value {
    let properties = parameters["properties"].as_object();
    let simple = |(name, schema): (&String, &Value)| (name.clone(), simple_property(schema));
    let properties: Map<String, Value> = properties.into_iter().flatten().map(simple).collect();
    let mut simple = json!({ "type": "object", "properties": properties });
    if let Some(required) = parameters.get("required").filter(|required| required.is_array()) {
        simple["required"] = required.clone();
    }
    simple
}

/// Returns a schema with a single type and a description.
fn simple_property(schema: &Value) -> Value {
    let is_simple = |name: &&str| SIMPLE.contains(name);
    let named = match (&schema["type"], &schema["enum"]) {
        (Value::String(name), _) => Some(name.as_str()).filter(is_simple),
        (Value::Array(names), _) => names.iter().filter_map(Value::as_str).find(is_simple),
        (_, Value::Array(values)) if values.iter().all(Value::is_string) => Some("string"),
        _ => None,
    };
    let mut simple = json!({ "type": named.unwrap_or("object") });
    let items = schema["items"]["type"].as_str().filter(is_simple);
    if let Some(items) = items.filter(|_| schema["type"] == "array") {
        simple = json!({ "type": "array", "items": { "type": items } });
    }
    if let Some(text) = schema.get("description").filter(|text| text.is_string()) {
        simple["description"] = text.clone();
    }
    if let Some(values) = schema.get("enum").filter(|_| named.is_some()) {
        simple["enum"] = values.clone();
    }
    simple
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(parameters: &Value) -> Value {
        json!([{ "type": "function", "function": {
            "name": "add", "description": "Adds.", "parameters": parameters } }])
    }

    #[test]
    fn templates_find_type_and_properties() {
        for (given, expected) in [
            (json!({}), json!({ "type": "object", "properties": {} })),
            (json!(true), json!({ "type": "object", "properties": {} })),
            (json!({ "required": ["a"] }), json!({ "type": "object", "properties": {}, "required": ["a"] })),
        ] {
            assert_eq!(with_properties(tools(&given)[0].clone()), tools(&expected)[0], "{given}");
        }
    }

    #[test]
    fn simple_declarations_stay_as_they_are() {
        let simple = json!({ "type": "object", "properties": {
            "a": { "type": "integer", "description": "First." }, "b": { "type": "string", "enum": ["x"] } },
            "required": ["a"] });
        assert_eq!(simplified(&tools(&simple)), None);
        assert_eq!(simplified(&Value::Null), None);
    }

    #[test]
    fn other_schemas_move_into_the_description() {
        let schema = json!({ "type": "object", "properties": {
            "a": { "type": ["null", "integer"], "description": "First." }, "b": { "$ref": "#/$defs/b" }, "c": true,
            "d": { "type": "array", "items": { "type": "string" } }, "e": { "enum": ["x", "y"] } },
            "$defs": { "b": { "type": "string" } } });
        let simple = simplified(&tools(&schema)).expect("a change");
        let function = &simple[0]["function"];
        let properties = json!({ "a": { "type": "integer", "description": "First." },
            "b": { "type": "object" }, "c": { "type": "object" },
            "d": { "type": "array", "items": { "type": "string" } }, "e": { "type": "string", "enum": ["x", "y"] } });
        assert_eq!(function["parameters"], json!({ "type": "object", "properties": properties }));
        let description = function["description"].as_str().expect("a text");
        assert!(description.starts_with("Adds.\n\n") && description.contains("$defs"), "{description}");
    }
}
