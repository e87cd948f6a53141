use serde_json::Value;

/// Removes descriptions, titles, examples and comments from the schemas of parameters, since they
/// cost the most tokens. The tool's own description stays.
pub(super) fn without_descriptions(tools: &mut [Value]) {
    for tool in tools {
        remove(&mut tool["function"]["parameters"], &["description", "title", "examples", "$comment"]);
    }
}

/// Removes annotations, such as `$schema`, which some providers (for example Google) reject.
pub(super) fn without_annotations(tools: &mut [Value]) {
    for tool in tools {
        remove(
            &mut tool["function"]["parameters"],
            &["$schema", "$id", "$comment", "title", "examples", "default"],
        );
    }
}

/// Keywords whose value is an object with a subschema per name. The names in this object are not
/// keywords.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose value is data instead of a schema.
const DATA: [&str; 2] = ["enum", "const"];

fn remove(schema: &mut Value, keywords: &[&str]) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, _| !keywords.contains(&name.as_str()));
            for (name, value) in fields {
                match value {
                    Value::Object(named) if NAMED.contains(&name.as_str()) => {
                        named.values_mut().for_each(|schema| remove(schema, keywords));
                    }
                    _ if DATA.contains(&name.as_str()) => {}
                    value => remove(value, keywords),
                }
            }
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(|schema| remove(schema, keywords)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn after(change: fn(&mut [Value]), parameters: &Value) -> Value {
        let function = json!({ "name": "f", "description": "F", "parameters": parameters });
        let mut tools = vec![json!({ "type": "function", "function": function })];
        change(&mut tools);
        assert_eq!(tools[0]["function"]["description"], "F");
        tools[0]["function"]["parameters"].clone()
    }

    #[test]
    fn removes_keywords_but_keeps_property_names() {
        let parameters = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "description": "d",
            "properties": {
                "description": { "type": "string", "description": "d", "default": "x" },
                "title": { "anyOf": [{ "title": "t", "const": { "title": "kept" } }, { "enum": [{ "default": 1 }] }] },
            },
            "required": ["description"],
        });
        assert_eq!(
            after(without_descriptions, &parameters),
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
                "properties": {
                    "description": { "type": "string", "default": "x" },
                    "title": { "anyOf": [{ "const": { "title": "kept" } }, { "enum": [{ "default": 1 }] }] },
                },
                "required": ["description"],
            })
        );
        assert_eq!(
            after(without_annotations, &parameters),
            json!({
                "type": "object", "description": "d",
                "properties": {
                    "description": { "type": "string", "description": "d" },
                    "title": { "anyOf": [{ "const": { "title": "kept" } }, { "enum": [{ "default": 1 }] }] },
                },
                "required": ["description"],
            })
        );
    }
}
