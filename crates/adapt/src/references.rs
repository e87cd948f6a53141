//! Check of a schema's references before the schema is compiled.

use std::collections::HashMap;

use serde_json::Value;

use crate::schema::SchemaError;

/// Maximum number of schemas that apply to one value. A schema that refers twice to a schema that
/// refers twice to a third one, and so on, doubles them with each step.
const SCHEMAS: usize = 100_000;

/// Keywords whose schemas apply to the value itself: one schema each.
const ONE: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords whose schemas apply to the value itself: a list of schemas each.
const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords whose schemas apply to the value itself: schemas by name.
const MAPS: [&str; 2] = ["dependentSchemas", "dependencies"];

/// Checks that the schemas that apply to one value end, and that they are not too many. A reference
/// that leads back to itself without a member or item between never ends.
///
/// Pointers, anchors and identifiers as written are followed. Other references are left to the
/// validator. The time is linear in the size of the schema.
///
/// # Errors
/// Returns the place of the first schema that leads back to itself, or has too many schemas.
pub(crate) fn check(root: &Value) -> Result<(), SchemaError> {
    let mut graph = Graph { root, named: HashMap::new(), costs: HashMap::new() };
    let mut schemas = Vec::new();
    let mut open = vec![(String::new(), root, Role::Schema)];
    while let Some((path, value, role)) = open.pop() {
        match value {
            Value::Object(members) => {
                for (name, value) in members.iter().rev() {
                    if let Some(role) = role.of_member(name).filter(|_| is_container(value)) {
                        open.push((format!("{path}/{}", escaped(name)), value, role));
                    }
                }
                if role == Role::Schema {
                    graph.name(value);
                    schemas.push((path, value));
                }
            }
            Value::Array(items) => {
                let items = items.iter().enumerate().rev().filter(|(_, item)| is_container(item));
                open.extend(items.map(|(at, item)| (format!("{path}/{at}"), item, Role::Schema)));
            }
            _ => {}
        }
    }
    for (path, schema) in schemas {
        graph.cost(schema).map_err(|reason| SchemaError { path, reason: reason.to_owned() })?;
    }
    Ok(())
}

/// Role of an object in a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Schema,
    /// Schemas by the names of members or definitions.
    Schemas,
}

impl Role {
    /// Returns the role of the member `name`. Returns `None` for a value that is data, not a schema.
    fn of_member(self, name: &str) -> Option<Self> {
        match (self, name) {
            (Self::Schema, "const" | "enum" | "default" | "examples") => None,
            (
                Self::Schema,
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                | "dependencies",
            ) => Some(Self::Schemas),
            _ => Some(Self::Schema),
        }
    }
}

fn is_container(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Number of schemas that apply to a value, or that the number is being determined.
enum Cost {
    Open,
    Known(usize),
}

struct Graph<'a> {
    root: &'a Value,
    /// Schemas by identifier or by `#` and anchor.
    named: HashMap<String, &'a Value>,
    costs: HashMap<*const Value, Cost>,
}

impl<'a> Graph<'a> {
    fn name(&mut self, schema: &'a Value) {
        for (keyword, prefix) in [("$id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")] {
            if let Some(name) = schema.get(keyword).and_then(Value::as_str) {
                self.named.entry(format!("{prefix}{name}")).or_insert(schema);
            }
        }
    }

    /// Returns the schemas that apply to the same value as `schema`.
    fn in_place(&self, schema: &'a Value) -> Vec<&'a Value> {
        let references = ["$ref", "$dynamicRef", "$recursiveRef"];
        let targets = references.iter().filter_map(|keyword| schema.get(keyword)?.as_str());
        let mut found: Vec<&Value> = targets.filter_map(|target| self.target(target)).collect();
        found.extend(ONE.iter().filter_map(|keyword| schema.get(keyword)));
        found.extend(LISTS.iter().filter_map(|keyword| schema.get(keyword)?.as_array()).flatten());
        found.extend(
            MAPS.iter().filter_map(|keyword| schema.get(keyword)?.as_object()).flat_map(|map| map.values()),
        );
        found
    }

    fn target(&self, target: &str) -> Option<&'a Value> {
        if let Some(schema) = self.named.get(target) {
            return Some(schema);
        }
        let (base, pointer) = target.split_once('#')?;
        let document = if base.is_empty() { self.root } else { self.named.get(base)? };
        document.pointer(&percent_encoding::percent_decode_str(pointer).decode_utf8().ok()?)
    }

    /// Determines the cost of `schema` and of the schemas it leads to.
    fn cost(&mut self, schema: &'a Value) -> Result<(), &'static str> {
        // Each entry has the schemas that are still to be visited, and the cost of the others.
        let mut stack: Vec<(&Value, Vec<&Value>, usize)> = Vec::new();
        let mut next = Some(schema);
        loop {
            if let Some(schema) = next.take() {
                match self.costs.get(&std::ptr::from_ref(schema)) {
                    Some(Cost::Open) => {
                        return Err(
                            "`$ref` leads back to the schema itself, without a member or item between",
                        );
                    }
                    Some(Cost::Known(cost)) => {
                        let Some((_, _, sum)) = stack.last_mut() else { return Ok(()) };
                        *sum += cost;
                    }
                    None => {
                        self.costs.insert(std::ptr::from_ref(schema), Cost::Open);
                        stack.push((schema, self.in_place(schema), 1));
                    }
                }
            }
            let Some((schema, left, sum)) = stack.last_mut() else { return Ok(()) };
            if *sum > SCHEMAS {
                return Err("more than 100000 schemas apply to one value through references");
            }
            if let Some(inner) = left.pop() {
                next = Some(inner);
                continue;
            }
            let cost = *sum;
            self.costs.insert(std::ptr::from_ref(*schema), Cost::Known(cost));
            stack.pop();
            match stack.last_mut() {
                Some((_, _, sum)) => *sum += cost,
                None => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(schema: &Value) -> Option<String> {
        check(schema).err().map(|error| error.to_string())
    }

    #[test]
    fn recursion_through_members_is_fine() {
        let again = json!({ "$ref": "#" });
        for schema in [
            json!({ "properties": { "x": { "anyOf": [again, again] } }, "items": again }),
            json!({ "$defs": { "a": { "$anchor": "a", "items": { "$ref": "#a" } } }, "$ref": "#/$defs/a" }),
            json!({ "allOf": [{ "$ref": "#/$defs/a%20b" }], "$defs": { "a b": { "type": "object" } } }),
            json!({ "properties": { "$ref": { "type": "string" } }, "const": { "$ref": "#" } }),
            json!({ "enum": [{ "allOf": [{ "$ref": "#/enum/0" }] }] }),
            json!({ "properties": { "not": { "items": { "$ref": "#/properties" } } } }),
            json!(true),
        ] {
            assert_eq!(refused(&schema), None, "{schema}");
        }
    }

    #[test]
    fn references_in_a_circle_are_refused() {
        let again = json!({ "$ref": "#" });
        let circle = "`$ref` leads back to the schema itself, without a member or item between";
        for (schema, place) in [
            (json!({ "allOf": [again] }), ""),
            (
                json!({ "allOf": vec![again.clone(); 40], "properties": { "x": { "anyOf": vec![again.clone(); 40] } } }),
                "",
            ),
            (json!({ "properties": { "a": { "$id": "b", "not": { "$ref": "b" } } } }), "at /properties/a: "),
            (json!({ "$defs": { "a/b": { "$anchor": "c", "if": { "$ref": "#c" } } } }), "at /$defs/a~1b: "),
            (
                json!({ "properties": { "const": { "not": { "$ref": "#/properties/const" } } } }),
                "at /properties/const: ",
            ),
            (json!({ "dependentSchemas": { "x": { "oneOf": [{ "else": again }] } } }), ""),
        ] {
            assert_eq!(refused(&schema), Some(format!("{place}{circle}")), "{schema}");
        }
    }

    #[test]
    fn doubling_references_are_refused_and_long_chains_are_not() {
        let chain = |steps: usize, copies: usize| {
            let mut definitions = serde_json::Map::new();
            for step in 0..steps {
                let next = json!({ "$ref": format!("#/$defs/d{}", step + 1) });
                definitions.insert(format!("d{step}"), json!({ "anyOf": vec![next; copies] }));
            }
            definitions.insert(format!("d{steps}"), json!({ "type": "object" }));
            json!({ "$defs": definitions, "$ref": "#/$defs/d0" })
        };
        assert_eq!(refused(&chain(10_000, 1)), None);
        assert_eq!(refused(&chain(10, 2)), None);
        let error = refused(&chain(60, 2)).expect("refused");
        assert!(error.contains("more than 100000 schemas apply to one value"), "{error}");
    }
}
