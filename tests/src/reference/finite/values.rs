//! Enumerates all values of a schema.
//!
//! In each subschema, one keyword must confine the values to finitely many. Such keywords are
//! `const`, `enum`, bounds of all its types, a reference, or a combination of confined schemas. The
//! values that the keyword allows are listed, and the validator keeps the values that the other
//! keywords accept too. Members are in declared order.

use serde_json::{Map, Value};

use super::containers::member_schemas;
use super::valid::{Draft, Validator, thousandths};
use super::{ALPHABET, MOST_VALUES, OTHER};

/// Enumerates the values of the subschemas of a document.
pub(super) struct Values<'a> {
    validator: &'a Validator<'a>,
    /// True if the document contains `uniqueItems`, which compares values. [`OTHER`] stands for
    /// characters that may differ, so strings are then not enumerated.
    compared: bool,
}

type Keywords = Map<String, Value>;

impl<'a> Values<'a> {
    pub(super) fn new(validator: &'a Validator<'a>) -> Self {
        Self { validator, compared: validator.root.to_string().contains("\"uniqueItems\":true") }
    }

    /// Returns the distinct values of `schema`. Objects that differ only in the order of members
    /// are distinct. Returns `None` if the values are not confined.
    pub(super) fn of(&self, schema: &Value) -> Option<Vec<Value>> {
        self.within(schema, 8)
    }

    /// Returns the values of `schema`, or `None` if they are not confined within `depth` nested
    /// subschemas and references.
    fn within(&self, schema: &Value, depth: usize) -> Option<Vec<Value>> {
        let map = match schema {
            Value::Bool(false) => return Some(Vec::new()),
            Value::Object(map) if depth > 0 => map,
            _ => return None,
        };
        let mut values: Vec<Value> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for value in self.candidates(map, depth - 1)? {
            if self.validator.accepts(schema, &value) && seen.insert(value.to_string()) {
                values.push(value);
            }
        }
        Some(values)
    }

    fn candidates(&self, map: &Keywords, depth: usize) -> Option<Vec<Value>> {
        let reference = map.get("$ref").map(|target| self.validator.target(target));
        if let (Some(target), Draft::D7) = (reference, self.validator.draft) {
            return self.within(target, depth); // `$ref` replaces its sibling keywords
        }
        if let Some(value) = map.get("const") {
            return Some(vec![value.clone()]);
        }
        if let Some(Value::Array(values)) = map.get("enum") {
            return Some(values.clone());
        }
        if let Some(values) = self.typed(map, depth) {
            return Some(values);
        }
        if let Some(target) = reference {
            return self.within(target, depth);
        }
        let schemas = |name| map.get(name).and_then(Value::as_array);
        if let Some(values) =
            schemas("allOf").and_then(|all| all.iter().find_map(|one| self.within(one, depth)))
        {
            return Some(values);
        }
        let branches = schemas("anyOf").or(schemas("oneOf"))?;
        let values: Option<Vec<_>> = branches.iter().map(|branch| self.within(branch, depth)).collect();
        Some(values?.concat())
    }

    /// Returns the values of all types in `type`, within their bounds. Returns `None` if a type is
    /// not confined.
    fn typed(&self, map: &Keywords, depth: usize) -> Option<Vec<Value>> {
        let names = match map.get("type")? {
            Value::Array(names) => names.as_slice(),
            name => std::slice::from_ref(name),
        };
        let mut values = Vec::new();
        for name in names {
            values.extend(match name.as_str()? {
                "null" => vec![Value::Null],
                "boolean" => vec![true.into(), false.into()],
                "integer" => numbers(map, 1000)?,
                "number" => numbers(map, thousandths(map.get("multipleOf")?))?,
                "string" => self.texts(most(map, "maxLength", 3)?)?,
                "array" => self.arrays(map, depth)?,
                "object" => self.objects(map, depth)?,
                _ => return None,
            });
        }
        (values.len() <= MOST_VALUES).then_some(values)
    }

    /// Returns every string of at most `longest` characters. Returns `None` if strings cannot be
    /// enumerated because values are compared.
    fn texts(&self, longest: usize) -> Option<Vec<Value>> {
        (longest == 0 || !self.compared).then(|| texts(longest))
    }

    fn arrays(&self, map: &Keywords, depth: usize) -> Option<Vec<Value>> {
        let (prefix, rest) = self.validator.item_schemas(map);
        let mut arrays: Vec<Vec<Value>> = vec![Vec::new()];
        let mut all = arrays.clone();
        for at in 0..most(map, "maxItems", 3)? {
            let items = self.within(prefix.get(at).or(rest)?, depth)?;
            arrays = arrays
                .iter()
                .flat_map(|before| {
                    items.iter().map(|item| [&before[..], std::slice::from_ref(item)].concat())
                })
                .collect();
            all.extend(arrays.iter().cloned());
            if all.len() > MOST_VALUES {
                return None;
            }
        }
        Some(all.into_iter().map(Value::Array).collect())
    }

    /// Returns all objects whose names are all declared, all listed in `propertyNames`, or at most
    /// one short name. Returns `None` for other schemas.
    fn objects(&self, map: &Keywords, depth: usize) -> Option<Vec<Value>> {
        let member = |name: &str| {
            // Any schema of the member may confine it.
            member_schemas(map, name).into_iter().find_map(|schema| self.within(schema, depth))
        };
        let names = map.get("propertyNames").and_then(Value::as_object);
        if let (Some(1), Some(names)) = (most(map, "maxProperties", 1), names)
            && let Some(longest) = most(names, "maxLength", 2)
        {
            let mut objects = vec![Value::Object(Map::new())];
            for name in self.texts(longest)? {
                let Value::String(name) = name else { continue };
                let values = member(&name)?;
                objects.extend(
                    values.into_iter().map(|value| Value::Object(Map::from_iter([(name.clone(), value)]))),
                );
            }
            return (objects.len() <= MOST_VALUES).then_some(objects);
        }
        let listed = names.and_then(|names| names.get("enum")).and_then(Value::as_array);
        let closed = map.get("additionalProperties") == Some(&Value::Bool(false))
            && !map.contains_key("patternProperties");
        let declared = map.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        let names: Vec<&str> = match listed {
            _ if closed => declared.map(String::as_str).collect(),
            Some(names) => names.iter().filter_map(Value::as_str).collect(),
            None => return None,
        };
        let mut objects = vec![Keywords::new()];
        for name in names {
            let values = member(name)?;
            let with = |object: &Keywords, value: &Value| {
                let mut object = object.clone();
                object.insert(name.to_owned(), value.clone());
                object
            };
            let more: Vec<Keywords> = objects
                .iter()
                .flat_map(|object| values.iter().map(move |value| with(object, value)))
                .collect();
            objects.extend(more);
            if objects.len() > MOST_VALUES {
                return None;
            }
        }
        Some(objects.into_iter().map(Value::Object).collect())
    }
}

/// Returns the number that the keyword `name` gives, or `None` if it is absent or above `limit`.
fn most(map: &Keywords, name: &str, limit: u64) -> Option<usize> {
    map.get(name)?.as_u64().filter(|&most| most <= limit).map(|most| most as usize)
}

/// Returns the multiples of `step` thousandths from the lower to the upper bound, which may include
/// exclusive bounds. Returns `None` if a bound is absent.
fn numbers(map: &Keywords, step: i64) -> Option<Vec<Value>> {
    let bound = |names: [&str; 2]| names.into_iter().find_map(|name| map.get(name)).map(thousandths);
    let low = bound(["minimum", "exclusiveMinimum"])?;
    let high = bound(["maximum", "exclusiveMaximum"])?;
    let values = (low.div_euclid(step)..=high.div_euclid(step)).map(|at| match at * step {
        whole if whole % 1000 == 0 => (whole / 1000).into(),
        fraction => (fraction as f64 / 1000.0).into(),
    });
    Some(values.take(MOST_VALUES).collect())
}

/// Returns every string of at most `longest` characters.
fn texts(longest: usize) -> Vec<Value> {
    let mut texts = vec![String::new()];
    let mut last = 0..1;
    for _ in 0..longest {
        let more = last.clone().flat_map(|at| ALPHABET.iter().chain(&[OTHER]).map(move |c| (at, *c)));
        let more: Vec<String> = more.map(|(at, c)| format!("{}{c}", texts[at])).collect();
        last = texts.len()..texts.len() + more.len();
        texts.extend(more);
    }
    texts.into_iter().map(Value::String).collect()
}
