use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Type of a JSON value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ValueType {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number, with or without a fraction.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl ValueType {
    /// All types.
    pub const ALL: [Self; 6] =
        [Self::Null, Self::Boolean, Self::Number, Self::String, Self::Array, Self::Object];

    /// Returns the type of `value`.
    pub const fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }
}

/// A set of types of JSON values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ValueTypes(u8);

impl ValueTypes {
    /// The set of all types.
    pub const ALL: Self = Self(0b11_1111);
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns true if the set contains `kind`.
    pub const fn has(self, kind: ValueType) -> bool {
        self.0 >> kind as u8 & 1 == 1
    }

    /// Returns the set with `kind` added.
    #[must_use]
    pub const fn with(self, kind: ValueType) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// Returns the set without `kind`.
    #[must_use]
    pub const fn without(self, kind: ValueType) -> Self {
        Self(self.0 & !(1 << kind as u8))
    }

    /// Returns true if `other` contains all types of this set.
    pub const fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<ValueType> for ValueTypes {
    fn from_iter<I: IntoIterator<Item = ValueType>>(types: I) -> Self {
        types.into_iter().fold(Self::NONE, Self::with)
    }
}

/// Names of members that a notation can write.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Names {
    /// Names without control characters and without these characters.
    Without(String),
    /// Identifiers of Python: letters, digits and `_`.
    Identifiers,
    /// Names of tags: letters, digits, `_`, `-`, `.` and characters outside of ASCII. They start with
    /// a letter or `_`.
    Tags,
}

impl Names {
    /// Reports whether `c` may stand in the name of a tag, as its first character if `is_first` is true.
    pub(crate) fn is_in_tags(c: char, is_first: bool) -> bool {
        let is_letter = c == '_' || c.is_ascii_alphabetic();
        let is_inner = c.is_ascii_digit() || matches!(c, '-' | '.');
        is_letter || (is_inner && !is_first) || !(c.is_ascii() || c.is_control() || c.is_whitespace())
    }
}

/// A form of raw strings that marks them as strings, such as `<![CDATA[` and `]]>`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RawSection {
    /// Text before the string.
    pub open: String,
    /// Text after the string, which the string must not contain.
    pub close: String,
}

/// The types that each argument of a tool, and each value in it, may have.
///
/// Some formats write a string as raw text, so that `5` may stand for the string or the number.
/// These types decide: a text is read as a string only if no other admitted type has this text.
///
/// The types are found in the keywords that state them, without solving the schema. A set may
/// therefore have a type that no valid value has, but never lacks a type that some valid value has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ArgumentTypes(Vec<PlaceTypes>);

/// A place of values in the arguments of a tool. Values that the same subschemas describe have the same
/// place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ValuePlace(u32);

/// The types of the values at a place, and the places inside of these values.
#[derive(Clone, PartialEq, Eq, Debug)]
struct PlaceTypes {
    types: ValueTypes,
    members: BTreeMap<String, ValuePlace>,
    others: ValuePlace,
    items: ValuePlace,
}

impl PlaceTypes {
    const fn new(types: ValueTypes) -> Self {
        let any = ValuePlace::ANY;
        Self { types, members: BTreeMap::new(), others: any, items: any }
    }
}

/// Maximum number of subschemas that are visited for the arguments of one tool. Types that are not found
/// by then are unrestricted.
const VISITS: usize = 4096;

/// Maximum number of subschemas that are visited for all values in the arguments of one tool.
const DEEP_VISITS: usize = 1 << 14;

/// Maximum nesting depth of the visits.
const DEPTH: usize = 64;

impl ValuePlace {
    /// The place of values that no schema describes.
    pub const ANY: Self = Self(0);
    /// The place of the arguments as a whole.
    pub const ROOT: Self = Self(1);
}

impl ArgumentTypes {
    /// Finds the types of the arguments that `schema` describes. Values inside of the arguments have
    /// unrestricted types.
    pub fn of(schema: &Value) -> Self {
        Self::found(schema, VISITS, |place| place == ValuePlace::ROOT)
    }

    /// Finds the types of the arguments that `schema` describes, and of all values inside of them.
    pub fn of_all_values(schema: &Value) -> Self {
        Self::found(schema, DEEP_VISITS, |place| place != ValuePlace::ANY)
    }

    /// Finds the types of all places. `enters` reports whether the places inside of a place are found.
    fn found(schema: &Value, visits: usize, enters: impl Fn(ValuePlace) -> bool) -> Self {
        let mut reader = TypeReader { root: schema, visits, has_ids: has_ids(schema, DEPTH) };
        let mut queue = vec![Applied::Any, Applied::Schema(Subschema(schema))];
        let mut ids: BTreeMap<Applied<'_>, ValuePlace> =
            queue.iter().cloned().zip([ValuePlace::ANY, ValuePlace::ROOT]).collect();
        let mut places = Vec::new();
        while let Some(applied) = queue.get(places.len()).cloned() {
            let mut place = PlaceTypes::new(reader.types_of(&applied));
            if enters(ValuePlace(places.len() as u32)) {
                let mut names = BTreeSet::new();
                reader.names_of(&applied, &mut names);
                let members = names.iter().map(|name| Step::Member(name));
                let steps = members.chain([Step::Other, Step::Item]);
                let found = steps.map(|step| {
                    let next = ValuePlace(queue.len() as u32);
                    let inner = reader.step(&applied, step);
                    *ids.entry(inner).or_insert_with_key(|inner| {
                        queue.push(inner.clone());
                        next
                    })
                });
                let mut found = found.collect::<Vec<_>>().into_iter();
                let names = names.into_iter().map(str::to_owned);
                place.members = names.zip(found.by_ref()).collect();
                place.others = found.next().unwrap_or_default();
                place.items = found.next().unwrap_or_default();
            }
            places.push(place);
        }
        Self(places)
    }

    /// Returns the types that the argument `name` may have. All types if the schema does not mention
    /// the name.
    pub fn get(&self, name: &str) -> ValueTypes {
        self.types(self.member(ValuePlace::ROOT, name))
    }

    /// Returns the types that values at `place` may have.
    pub fn types(&self, place: ValuePlace) -> ValueTypes {
        self.at(place).map_or(ValueTypes::ALL, |place| place.types)
    }

    /// Returns the place of the member `name` of objects at `place`.
    pub fn member(&self, place: ValuePlace, name: &str) -> ValuePlace {
        let member = |place: &PlaceTypes| place.members.get(name).copied();
        self.at(place).and_then(member).unwrap_or_else(|| self.other(place))
    }

    /// Returns the place of members of objects at `place` whose names the schema does not mention.
    pub fn other(&self, place: ValuePlace) -> ValuePlace {
        self.at(place).map_or(ValuePlace::ANY, |place| place.others)
    }

    /// Returns the place of the items of arrays at `place`.
    pub fn item(&self, place: ValuePlace) -> ValuePlace {
        self.at(place).map_or(ValuePlace::ANY, |place| place.items)
    }

    fn at(&self, place: ValuePlace) -> Option<&PlaceTypes> {
        self.0.get(place.0 as usize)
    }
}

/// A subschema, compared by its place in the schema.
#[derive(Clone, Copy)]
struct Subschema<'s>(&'s Value);

impl Subschema<'_> {
    const fn address(self) -> *const Value {
        std::ptr::from_ref(self.0)
    }
}

impl PartialEq for Subschema<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Subschema<'_> {}

impl PartialOrd for Subschema<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Subschema<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.address().cmp(&other.address())
    }
}

/// The subschemas that apply to the values at a place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Applied<'s> {
    /// No subschema applies.
    Any,
    Schema(Subschema<'s>),
    /// All of these apply.
    All(Vec<Self>),
    /// At least one of these applies.
    Some(Vec<Self>),
}

/// Maximum number of subschemas in an [`Applied`]. Beyond it, the types are unrestricted.
const APPLIED: usize = 64;

impl Applied<'_> {
    fn all(parts: Vec<Self>) -> Self {
        let parts = parts.into_iter().filter(|part| *part != Self::Any);
        let parts = parts.flat_map(|part| match part {
            Self::All(parts) => parts,
            other => vec![other],
        });
        Self::joined(parts.collect(), Self::All)
    }

    fn some(parts: Vec<Self>) -> Self {
        if parts.contains(&Self::Any) {
            return Self::Any;
        }
        let parts = parts.into_iter().flat_map(|part| match part {
            Self::Some(parts) => parts,
            other => vec![other],
        });
        Self::joined(parts.collect(), Self::Some)
    }

    fn joined(mut parts: Vec<Self>, join: impl Fn(Vec<Self>) -> Self) -> Self {
        parts.sort();
        parts.dedup();
        match parts.len() {
            0 => Self::Any,
            1 => parts.swap_remove(0),
            _ if parts.iter().map(Self::len).sum::<usize>() > APPLIED => Self::Any,
            _ => join(parts),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Any | Self::Schema(_) => 1,
            Self::All(parts) | Self::Some(parts) => parts.iter().map(Self::len).sum(),
        }
    }
}

/// A step from a value to a value inside of it.
#[derive(Clone, Copy)]
enum Step<'n> {
    Member(&'n str),
    /// A member whose name no subschema mentions.
    Other,
    Item,
}

/// Reports whether a subschema has a URI of its own, which changes the meaning of references in it.
fn has_ids(schema: &Value, depth: usize) -> bool {
    let below = |value: &Value| match value {
        Value::Object(object) => object.values().any(|value| depth == 0 || has_ids_in(value, depth - 1)),
        _ => false,
    };
    below(schema)
}

fn has_ids_in(value: &Value, depth: usize) -> bool {
    match value {
        Value::Object(object) => {
            let has_id = ["$id", "id"].iter().any(|key| object.get(*key).is_some_and(Value::is_string));
            has_id || object.values().any(|value| depth == 0 || has_ids_in(value, depth - 1))
        }
        Value::Array(items) => items.iter().any(|value| depth == 0 || has_ids_in(value, depth - 1)),
        _ => false,
    }
}

struct TypeReader<'s> {
    root: &'s Value,
    visits: usize,
    has_ids: bool,
}

/// Keywords with a list of subschemas that apply to the same value.
const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

impl<'s> TypeReader<'s> {
    /// Returns false once the schema has been visited too often or too deeply.
    const fn visits(&mut self, depth: usize) -> bool {
        self.visits = self.visits.saturating_sub(1);
        self.visits > 0 && depth > 0
    }

    /// Collects the names of declared properties in `schema` and in the subschemas that apply to the
    /// same object.
    fn names(&mut self, schema: &'s Value, names: &mut BTreeSet<&'s str>, depth: usize) {
        let Some(object) = schema.as_object().filter(|_| self.visits(depth)) else { return };
        if let Some(Value::Object(properties)) = object.get("properties") {
            names.extend(properties.keys().map(String::as_str));
        }
        for part in LISTS.iter().filter_map(|key| object.get(*key)?.as_array()).flatten() {
            self.names(part, names, depth - 1);
        }
        if let Some(target) = self.target(object) {
            self.names(target, names, depth - 1);
        }
    }

    fn names_of(&mut self, applied: &Applied<'s>, names: &mut BTreeSet<&'s str>) {
        match applied {
            Applied::Any => {}
            Applied::Schema(schema) => self.names(schema.0, names, DEPTH),
            Applied::All(parts) | Applied::Some(parts) => {
                for part in parts {
                    self.names_of(part, names);
                }
            }
        }
    }

    fn types_of(&mut self, applied: &Applied<'s>) -> ValueTypes {
        match applied {
            Applied::Any => ValueTypes::ALL,
            Applied::Schema(schema) => self.types(schema.0, DEPTH),
            Applied::All(parts) => {
                parts.iter().fold(ValueTypes::ALL, |all, part| all.and(self.types_of(part)))
            }
            Applied::Some(parts) => {
                parts.iter().fold(ValueTypes::NONE, |any, part| any.or(self.types_of(part)))
            }
        }
    }

    /// Returns the subschemas that apply after a step.
    fn step(&mut self, applied: &Applied<'s>, step: Step<'_>) -> Applied<'s> {
        match applied {
            Applied::Any => Applied::Any,
            Applied::Schema(schema) => self.below(schema.0, step, DEPTH),
            Applied::All(parts) => Applied::all(parts.iter().map(|part| self.step(part, step)).collect()),
            Applied::Some(parts) => Applied::some(parts.iter().map(|part| self.step(part, step)).collect()),
        }
    }

    /// Returns the subschemas that apply one step below values with `schema`.
    fn below(&mut self, schema: &'s Value, step: Step<'_>, depth: usize) -> Applied<'s> {
        let Some(object) = schema.as_object().filter(|_| self.visits(depth)) else { return Applied::Any };
        if object.contains_key("$ref") {
            return match self.target(object) {
                Some(target) => self.below(target, step, depth - 1),
                None => Applied::Any,
            };
        }
        let list = |key: &str| object.get(key).and_then(Value::as_array);
        let mut all = vec![own(object, step)];
        all.extend(list("allOf").into_iter().flatten().map(|part| self.below(part, step, depth - 1)));
        for ways in ["anyOf", "oneOf"].into_iter().filter_map(list) {
            all.push(Applied::some(ways.iter().map(|part| self.below(part, step, depth - 1)).collect()));
        }
        Applied::all(all)
    }

    /// Returns the types that a value with `schema` may have.
    fn types(&mut self, schema: &'s Value, depth: usize) -> ValueTypes {
        let Some(object) = schema.as_object().filter(|_| self.visits(depth)) else { return ValueTypes::ALL };
        if object.contains_key("$ref") {
            return match self.target(object) {
                Some(target) => self.types(target, depth - 1),
                None => ValueTypes::ALL,
            };
        }
        let own = [
            object.get("type").map(named),
            object.get("const").map(|value| ValueTypes::NONE.with(ValueType::of(value))),
            object.get("enum").and_then(Value::as_array).map(|all| all.iter().map(ValueType::of).collect()),
        ];
        let own = own.into_iter().flatten().fold(ValueTypes::ALL, ValueTypes::and);
        let own = match object.get("nullable") {
            Some(Value::Bool(true)) => own.with(ValueType::Null),
            _ => own,
        };
        self.combined(object, own, |reader, part| reader.types(part, depth - 1))
    }

    /// Combines the types `own` with those of the subschemas that apply to the same value.
    fn combined(
        &mut self,
        object: &'s Map<String, Value>,
        own: ValueTypes,
        mut types: impl FnMut(&mut Self, &'s Value) -> ValueTypes,
    ) -> ValueTypes {
        let list = |key: &str| object.get(key).and_then(Value::as_array);
        let all = list("allOf").into_iter().flatten();
        let mut result = all.fold(own, |result, part| result.and(types(self, part)));
        for ways in ["anyOf", "oneOf"].into_iter().filter_map(list) {
            result = result.and(ways.iter().fold(ValueTypes::NONE, |any, part| any.or(types(self, part))));
        }
        result
    }

    /// Returns the schema that the reference of `object` leads to, if it is a pointer into this
    /// document.
    fn target(&self, object: &'s Map<String, Value>) -> Option<&'s Value> {
        let pointer = object.get("$ref")?.as_str()?.strip_prefix('#').filter(|_| !self.has_ids)?;
        let is_plain = !pointer.contains('%') && (pointer.is_empty() || pointer.starts_with('/'));
        self.root.pointer(pointer).filter(|_| is_plain)
    }
}

/// Returns the subschemas that the keywords of `object` itself apply one step below.
fn own<'s>(object: &'s Map<String, Value>, step: Step<'_>) -> Applied<'s> {
    let applied =
        |value: Option<&'s Value>| value.map_or(Applied::Any, |value| Applied::Schema(Subschema(value)));
    let rest = |key: &str| applied(object.get(key));
    match step {
        Step::Item => match object.get("items") {
            Some(Value::Array(first)) => {
                let first = first.iter().map(|item| applied(Some(item)));
                Applied::some(first.chain([rest("additionalItems")]).collect())
            }
            items => {
                let first = object.get("prefixItems").and_then(Value::as_array).into_iter().flatten();
                let first = first.map(|item| applied(Some(item)));
                Applied::some(first.chain([applied(items)]).collect())
            }
        },
        Step::Member(_) | Step::Other => {
            let declared = match step {
                Step::Member(name) => object.get("properties").and_then(|properties| properties.get(name)),
                _ => None,
            };
            match declared {
                Some(schema) => applied(Some(schema)),
                // A pattern may match the name.
                None if object.contains_key("patternProperties") => Applied::Any,
                None => rest("additionalProperties"),
            }
        }
    }
}

/// Returns the types that a value of the keyword `type` names.
fn named(names: &Value) -> ValueTypes {
    match names {
        Value::Array(names) => names.iter().map(named).fold(ValueTypes::NONE, ValueTypes::or),
        Value::String(name) => match name.as_str() {
            "null" => ValueTypes::NONE.with(ValueType::Null),
            "boolean" => ValueTypes::NONE.with(ValueType::Boolean),
            "number" | "integer" => ValueTypes::NONE.with(ValueType::Number),
            "string" => ValueTypes::NONE.with(ValueType::String),
            "array" => ValueTypes::NONE.with(ValueType::Array),
            "object" => ValueTypes::NONE.with(ValueType::Object),
            _ => ValueTypes::ALL,
        },
        _ => ValueTypes::ALL,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ValueType::{Array, Boolean, Null, Number, Object, String};
    use super::*;

    #[test]
    fn finds_the_types_of_arguments() {
        let types = ArgumentTypes::of(&json!({
            "type": "object",
            "$defs": { "size": { "type": ["integer", "null"] }, "loop": { "$ref": "#/$defs/loop" } },
            "properties": {
                "text": { "type": "string" },
                "size": { "$ref": "#/$defs/size", "description": "ignored" },
                "flag": { "anyOf": [{ "type": "boolean" }, { "const": "auto" }] },
                "list": { "allOf": [{ "type": ["array", "object"] }, { "type": ["object", "string"] }] },
                "loop": { "$ref": "#/$defs/loop" },
                "open": {},
                "old": { "type": "string", "nullable": true },
                "far": { "$ref": "https://example.com/schema" },
            },
            "oneOf": [
                { "properties": { "either": { "type": "number" } } },
                { "properties": { "either": { "enum": [[1], "a"] } } },
            ],
        }));
        let set = |types: &[ValueType]| types.iter().copied().collect::<ValueTypes>();
        for (name, expected) in [
            ("text", set(&[String])),
            ("size", set(&[Number, Null])),
            ("flag", set(&[Boolean, String])),
            ("list", set(&[Object])),
            ("loop", ValueTypes::ALL),
            ("open", ValueTypes::ALL),
            ("old", set(&[String, Null])),
            ("far", ValueTypes::ALL),
            ("either", set(&[Number, Array, String])),
            ("unknown", ValueTypes::ALL),
        ] {
            assert_eq!(types.get(name), expected, "{name}");
        }
    }

    #[test]
    fn a_schema_that_multiplies_is_visited_a_bounded_number_of_times() {
        let mut schema = json!({ "type": "string" });
        for _ in 0..60 {
            schema = json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }], "properties": { "a": schema } });
        }
        assert_eq!(ArgumentTypes::of(&schema).get("a"), ValueTypes::ALL);
        assert!(ArgumentTypes::of_all_values(&schema).0.len() <= DEEP_VISITS);
    }

    #[test]
    fn finds_the_types_of_nested_values() {
        let schema = json!({
            "type": "object",
            "$defs": { "tree": { "type": "object", "properties": {
                "label": { "type": "string" },
                "children": { "type": "array", "items": { "$ref": "#/$defs/tree" } },
            } } },
            "properties": {
                "tree": { "$ref": "#/$defs/tree" },
                "pair": { "type": "array", "prefixItems": [{ "type": "string" }], "items": { "type": "null" } },
                "map": { "type": "object", "additionalProperties": { "type": "number" } },
                "either": { "anyOf": [
                    { "type": "object", "properties": { "a": { "type": "string" } }, "additionalProperties": false },
                    { "type": "object", "properties": { "a": { "type": "boolean" } } },
                ] },
            },
        });
        let types = ArgumentTypes::of_all_values(&schema);
        let set = |types: &[ValueType]| types.iter().copied().collect::<ValueTypes>();
        let at = |path: &[&str]| {
            path.iter().fold(ValuePlace::ROOT, |place, step| match *step {
                "[]" => types.item(place),
                name => types.member(place, name),
            })
        };
        let deep = ["tree", "children", "[]", "children", "[]"];
        assert_eq!(at(&deep[..3]), at(&deep));
        for (path, expected) in [
            (&["tree", "label"][..], set(&[String])),
            (&["tree", "children", "[]", "label"], set(&[String])),
            (&["pair", "[]"], set(&[String, Null])),
            (&["map", "x"], set(&[Number])),
            (&["either", "a"], set(&[String, Boolean])),
            (&["either", "b"], ValueTypes::ALL),
            (&["tree", "other"], ValueTypes::ALL),
        ] {
            assert_eq!(types.types(at(path)), expected, "{path:?}");
        }
    }
}
