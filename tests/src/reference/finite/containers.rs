//! Keywords of arrays and objects.

use serde_json::{Map, Value};

use super::pattern::matches;
use super::valid::{Draft, Evaluated, Validator, equal, in_bounds, thousandths};

impl Validator<'_> {
    /// Returns the schemas of the first items, one per position, and the schema of all items after
    /// them, if any.
    pub(super) fn item_schemas<'s>(&self, map: &'s Map<String, Value>) -> (&'s [Value], Option<&'s Value>) {
        let list = |name| map.get(name).and_then(Value::as_array).map(Vec::as_slice);
        match self.draft {
            Draft::D2020 => (list("prefixItems").unwrap_or_default(), map.get("items")),
            _ => match list("items") {
                Some(prefix) => (prefix, map.get("additionalItems")),
                None => (&[], map.get("items")),
            },
        }
    }

    pub(super) fn array(&self, map: &Map<String, Value>, items: &[Value], evaluated: &mut Evaluated) -> bool {
        let (prefix, rest) = self.item_schemas(map);
        for (at, item) in items.iter().enumerate() {
            if let Some(schema) = prefix.get(at).or(rest) {
                if !self.accepts(schema, item) {
                    return false;
                }
                evaluated.items.insert(at);
            }
        }
        let repeated = |(at, item): (usize, &Value)| items[..at].iter().any(|before| equal(before, item));
        let unique = map.get("uniqueItems") == Some(&Value::Bool(true));
        in_bounds(map, items.len(), "minItems", "maxItems")
            && self.contains(map, items, evaluated)
            && !(unique && items.iter().enumerate().any(repeated))
    }

    fn contains(&self, map: &Map<String, Value>, items: &[Value], evaluated: &mut Evaluated) -> bool {
        let Some(schema) = map.get("contains") else { return true };
        let found: Vec<usize> = (0..items.len()).filter(|&at| self.accepts(schema, &items[at])).collect();
        let bound = |name| map.get(name).filter(|_| self.draft > Draft::D7).map(thousandths);
        let count = found.len() as i64 * 1000;
        if self.draft == Draft::D2020 {
            evaluated.items.extend(&found);
        }
        count >= bound("minContains").unwrap_or(1000) && bound("maxContains").is_none_or(|max| count <= max)
    }

    pub(super) fn object(
        &self,
        map: &Map<String, Value>,
        members: &Map<String, Value>,
        evaluated: &mut Evaluated,
    ) -> bool {
        for (name, value) in members {
            let schemas = member_schemas(map, name);
            if !schemas.iter().all(|schema| self.accepts(schema, value)) {
                return false;
            }
            if !schemas.is_empty() {
                evaluated.names.insert(name.clone());
            }
        }
        let text = |name: &String| Value::String(name.clone());
        let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
        in_bounds(map, members.len(), "minProperties", "maxProperties")
            && required.filter_map(Value::as_str).all(|name| members.contains_key(name))
            && map
                .get("propertyNames")
                .is_none_or(|names| members.keys().all(|name| self.accepts(names, &text(name))))
    }

    /// Applies `unevaluatedItems` and `unevaluatedProperties` to the items and members that no
    /// other keyword has evaluated. Reports whether they hold.
    pub(super) fn rest(&self, map: &Map<String, Value>, value: &Value, evaluated: &mut Evaluated) -> bool {
        match value {
            _ if self.draft == Draft::D7 => true,
            Value::Array(items) => {
                let Some(schema) = map.get("unevaluatedItems") else { return true };
                let rest = (0..items.len()).filter(|at| !evaluated.items.contains(at));
                let holds = rest.into_iter().all(|at| self.accepts(schema, &items[at]));
                evaluated.items.extend(0..items.len());
                holds
            }
            Value::Object(members) => {
                let Some(schema) = map.get("unevaluatedProperties") else { return true };
                let mut rest = members.iter().filter(|(name, _)| !evaluated.names.contains(*name));
                let holds = rest.all(|(_, value)| self.accepts(schema, value));
                evaluated.names.extend(members.keys().cloned());
                holds
            }
            _ => true,
        }
    }
}

/// Returns the schemas of `properties`, `patternProperties` and `additionalProperties` that apply
/// to the member `name`.
pub(super) fn member_schemas<'s>(map: &'s Map<String, Value>, name: &str) -> Vec<&'s Value> {
    let all = |keyword| map.get(keyword).and_then(Value::as_object);
    let declared = all("properties").and_then(|properties| properties.get(name));
    let patterns = all("patternProperties").into_iter().flatten();
    let matching = patterns.filter(|(pattern, _)| matches(pattern, name)).map(|(_, schema)| schema);
    let mut schemas: Vec<&Value> = declared.into_iter().chain(matching).collect();
    if schemas.is_empty() {
        schemas.extend(map.get("additionalProperties"));
    }
    schemas
}
