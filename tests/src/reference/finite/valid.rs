//! Validates values keyword by keyword, as the specifications define (drafts 7, 2019-09 and
//! 2020-12).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::pattern::matches;

/// A supported draft of JSON Schema.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Draft {
    D7,
    D2019,
    D2020,
}

/// Validates values against the schemas of the document `root`.
pub(super) struct Validator<'a> {
    pub(super) root: &'a Value,
    pub(super) draft: Draft,
}

/// Members and items of a value that keywords have evaluated, as the `unevaluated` keywords define
/// it.
#[derive(Clone, Default, Debug)]
pub(super) struct Evaluated {
    pub(super) names: BTreeSet<String>,
    pub(super) items: BTreeSet<usize>,
}

impl Evaluated {
    fn add(&mut self, other: Self) {
        self.names.extend(other.names);
        self.items.extend(other.items);
    }
}

impl<'a> Validator<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        let uri = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let draft = if uri.contains("draft-07") {
            Draft::D7
        } else if uri.contains("2019-09") {
            Draft::D2019
        } else {
            Draft::D2020
        };
        Self { root, draft }
    }

    pub(super) fn accepts(&self, schema: &Value, value: &Value) -> bool {
        self.evaluate(schema, value).is_some()
    }

    /// Validates `value` against `schema`. Returns the members and items that the schema evaluates,
    /// or `None` if the value is invalid.
    pub(super) fn evaluate(&self, schema: &Value, value: &Value) -> Option<Evaluated> {
        let map = match schema {
            Value::Object(map) => map,
            schema => return (*schema == Value::Bool(true)).then(Evaluated::default),
        };
        if let (Draft::D7, Some(target)) = (self.draft, map.get("$ref")) {
            return self.evaluate(self.target(target), value); // `$ref` replaces its sibling keywords
        }
        let mut evaluated = Evaluated::default();
        let holds = any_value(map, value)
            && match value {
                Value::Number(_) => number(map, value),
                Value::String(text) => string(map, text),
                Value::Array(items) => self.array(map, items, &mut evaluated),
                Value::Object(members) => self.object(map, members, &mut evaluated),
                _ => true,
            };
        if !holds || !self.branches(map, value, &mut evaluated) {
            return None;
        }
        self.rest(map, value, &mut evaluated).then_some(evaluated)
    }

    /// Returns the schema that a reference points to. Only the root can have a dynamic anchor, so
    /// dynamic references point to the root.
    pub(super) fn target(&self, target: &Value) -> &'a Value {
        let fragment = target.as_str().unwrap_or_default().trim_start_matches('#');
        self.root.pointer(fragment).unwrap_or(self.root)
    }

    /// Applies the keywords whose subschemas apply to the same value, such as `allOf` and `if`.
    /// Reports whether they hold.
    fn branches(&self, map: &Map<String, Value>, value: &Value, evaluated: &mut Evaluated) -> bool {
        let schemas = |name| map.get(name).and_then(Value::as_array);
        let references =
            ["$ref", "$dynamicRef", "$recursiveRef"].into_iter().filter_map(|name| map.get(name));
        for target in
            references.map(|target| self.target(target)).chain(schemas("allOf").into_iter().flatten())
        {
            let Some(part) = self.evaluate(target, value) else { return false };
            evaluated.add(part);
        }
        for (name, most) in [("anyOf", usize::MAX), ("oneOf", 1)] {
            let Some(schemas) = schemas(name) else { continue };
            let held: Vec<_> = schemas.iter().filter_map(|schema| self.evaluate(schema, value)).collect();
            if held.is_empty() || held.len() > most {
                return false;
            }
            for part in held {
                evaluated.add(part);
            }
        }
        if map.get("not").is_some_and(|schema| self.accepts(schema, value)) {
            return false;
        }
        if let Some(condition) = map.get("if") {
            let held = self.evaluate(condition, value);
            let consequence = map.get(if held.is_some() { "then" } else { "else" });
            evaluated.add(held.unwrap_or_default());
            let Some(part) =
                consequence.map_or(Some(Evaluated::default()), |then| self.evaluate(then, value))
            else {
                return false;
            };
            evaluated.add(part);
        }
        self.dependent(map, value, evaluated)
    }

    /// Applies `dependentSchemas`, `dependentRequired` and draft 7's `dependencies`, which combines
    /// both. Reports whether they hold.
    fn dependent(&self, map: &Map<String, Value>, value: &Value, evaluated: &mut Evaluated) -> bool {
        let Value::Object(members) = value else { return true };
        let old = self.draft == Draft::D7;
        let names: &[&str] = if old { &["dependencies"] } else { &["dependentRequired", "dependentSchemas"] };
        let asked = names.iter().filter_map(|name| map.get(*name).and_then(Value::as_object)).flatten();
        for (_, asked) in asked.filter(|(name, _)| members.contains_key(*name)) {
            if let Value::Array(names) = asked {
                if !names.iter().all(|name| name.as_str().is_some_and(|name| members.contains_key(name))) {
                    return false;
                }
            } else {
                let Some(part) = self.evaluate(asked, value) else { return false };
                evaluated.add(part);
            }
        }
        true
    }
}

/// Checks the keywords that apply to values of every type, such as `type` and `enum`.
fn any_value(map: &Map<String, Value>, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_number() && thousandths(value) % 1000 == 0,
        _ => false,
    };
    let type_holds = match map.get("type") {
        None => true,
        Some(Value::Array(names)) => names.iter().any(is),
        Some(name) => is(name),
    };
    let listed = map.get("enum").and_then(Value::as_array);
    type_holds
        && listed.is_none_or(|listed| listed.iter().any(|known| equal(known, value)))
        && map.get("const").is_none_or(|known| equal(known, value))
}

fn number(map: &Map<String, Value>, value: &Value) -> bool {
    let value = thousandths(value);
    let holds =
        |name, test: fn(i64, i64) -> bool| map.get(name).is_none_or(|bound| test(value, thousandths(bound)));
    holds("minimum", |value, bound| value >= bound)
        && holds("maximum", |value, bound| value <= bound)
        && holds("exclusiveMinimum", |value, bound| value > bound)
        && holds("exclusiveMaximum", |value, bound| value < bound)
        && holds("multipleOf", |value, step| value % step == 0)
}

fn string(map: &Map<String, Value>, text: &str) -> bool {
    let len = text.chars().count();
    let pattern = map.get("pattern").and_then(Value::as_str);
    in_bounds(map, len, "minLength", "maxLength") && pattern.is_none_or(|pattern| matches(pattern, text))
}

/// Reports whether `count` is within the bounds of the keywords `min` and `max`, where present.
pub(super) fn in_bounds(map: &Map<String, Value>, count: usize, min: &str, max: &str) -> bool {
    let bound = |name| map.get(name).map(|bound| thousandths(bound) / 1000);
    let count = count as i64;
    bound(min).is_none_or(|min| count >= min) && bound(max).is_none_or(|max| count <= max)
}

/// Reports whether two values are equal. Numbers are compared by value, and objects in any order of
/// members.
pub(super) fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(_), Value::Number(_)) => thousandths(one) == thousandths(other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(name, value)| other.get::<String>(name).is_some_and(|other| equal(value, other));
            one.len() == other.len() && one.iter().all(same)
        }
        _ => one == other,
    }
}

/// Returns a number in thousandths. Numbers in these schemas and values have at most three
/// decimals.
pub(super) fn thousandths(number: &Value) -> i64 {
    let text = number.to_string();
    let (integer, fraction) = text.split_once('.').unwrap_or((&text, ""));
    format!("{integer}{fraction:0<3}").parse().unwrap_or(i64::MAX / 2)
}
