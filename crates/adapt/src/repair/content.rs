//! Content of an answer that a repair must preserve.
//!
//! A model that is shown its errors may drop the wrong parts, drop everything or shorten the rest.
//! Such a repair is valid, but it has lost information. For an invalid answer, three things are
//! therefore recorded:
//! - Correct scalars. Each must occur in the repaired answer at least as often as before, at any
//!   place.
//! - Wrong values, with their places. The repaired answer must hold a non-empty value at the place,
//!   or contain a wrong scalar's text anywhere.
//! - Lengths of lists, counting only non-empty items. A list must not become shorter.
//!
//! A repair may drop the following:
//! - Empty values: null, blank strings, empty lists and empty objects.
//! - Values that the schema forbids.
//! - Members that the schema does not name, if the schema names others and has no schema for
//!   further members.
//!
//! If no branch of `anyOf` or `oneOf` matches, or if a rule about a whole object is violated,
//! everything inside may change.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use serde_json::{Map, Value};

use crate::schema;
use crate::tape::pointer_token;

/// Keywords whose subschemas apply to the same value as the schema itself.
const ALONG: [&str; 6] = ["allOf", "anyOf", "oneOf", "if", "then", "else"];

/// Places with errors, as JSON pointers.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Places whose value is wrong.
    pub(super) wrong: HashSet<String>,
    /// Places that must be empty.
    pub(super) unwanted: HashSet<String>,
}

/// Content that a repair must preserve.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Content {
    /// Correct scalars, as normalized text.
    scalars: Vec<String>,
    /// Wrong values: place, and normalized text if the value is a scalar.
    wrong: Vec<(String, Option<String>)>,
    /// Lists: place and number of non-empty items.
    lists: Vec<(String, usize)>,
}

impl Content {
    /// No content.
    pub(super) const NONE: Self = Self { scalars: Vec::new(), wrong: Vec::new(), lists: Vec::new() };

    /// Collects the content of `value`, an instance of the schema `root` with errors at `marks`.
    pub(super) fn of(root: &Value, value: &Value, marks: &Marks) -> Self {
        let mut walk = Walk { root, marks, found: Self::NONE };
        walk.value(value, &[root], &mut String::new());
        walk.found
    }

    /// Creates the content of a text in which only one number could be read.
    pub(super) fn of_number(literal: String) -> Self {
        Self { scalars: vec![literal], ..Self::NONE }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// Reports whether `value` preserves all of this content.
    pub(super) fn is_in(&self, value: &Value) -> bool {
        let is_list_kept = |(place, length): &(String, usize)| match value.pointer(place) {
            Some(Value::Array(items)) => items.len() >= *length,
            Some(_) => false,
            // The list may have moved. Its items are checked as scalars.
            None => true,
        };
        if !self.lists.iter().all(is_list_kept) {
            return false;
        }
        let mut there = HashMap::new();
        count(value, &mut there);
        let mut take = |text: &str| match there.get_mut(text) {
            Some(many) if *many > 0 => {
                *many -= 1;
                true
            }
            _ => false,
        };
        self.scalars.iter().all(|text| take(text))
            && self.wrong.iter().all(|(place, text)| {
                value.pointer(place).is_some_and(says_something) || text.as_deref().is_some_and(&mut take)
            })
    }
}

/// Reports whether a value has content: it is neither null, nor a blank string, nor an empty list
/// or object.
pub(super) fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Counts the occurrences of each scalar in a value.
fn count(value: &Value, found: &mut HashMap<String, usize>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| count(item, found)),
        Value::Object(members) => members.values().for_each(|member| count(member, found)),
        scalar => *found.entry(text_of(scalar)).or_default() += 1,
    }
}

/// Normalizes a scalar for comparison. A number in a string equals the number, and runs of
/// whitespace equal one space.
fn text_of(scalar: &Value) -> String {
    match scalar {
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        // 2.0 equals 2.
        Value::Number(number) => number.to_string().trim_end_matches(".0").to_owned(),
        other => other.to_string(),
    }
}

/// Traversal of a value together with its schemas.
struct Walk<'a> {
    root: &'a Value,
    marks: &'a Marks,
    found: Content,
}

impl<'a> Walk<'a> {
    /// Records the content of the value at `place`. `schemas` holds the schemas that may apply to
    /// the value, and is empty if none is known.
    fn value(&mut self, value: &Value, schemas: &[&'a Value], place: &mut String) {
        if !says_something(value) || self.marks.unwanted.contains(place) {
            return;
        }
        if self.marks.wrong.contains(place) {
            let is_scalar = !matches!(value, Value::Array(_) | Value::Object(_));
            self.found.wrong.push((place.clone(), is_scalar.then(|| text_of(value))));
            return;
        }
        let length = place.len();
        match value {
            Value::Object(members) => {
                let parts = schema::parts(self.root, schemas.iter().copied(), &ALONG);
                for (name, member) in members {
                    let Some(schemas) = of_member(&parts, name) else { continue };
                    place.push('/');
                    place.push_str(&pointer_token(name));
                    self.value(member, &schemas, place);
                    place.truncate(length);
                }
            }
            Value::Array(items) => {
                let parts = schema::parts(self.root, schemas.iter().copied(), &ALONG);
                let mut telling = 0;
                for (index, item) in items.iter().enumerate() {
                    let _ = write!(place, "/{index}");
                    self.value(item, &of_item(&parts, index), place);
                    telling += usize::from(says_something(item) && !self.marks.unwanted.contains(place));
                    place.truncate(length);
                }
                self.found.lists.push((place.clone(), telling));
            }
            scalar => self.found.scalars.push(text_of(scalar)),
        }
    }
}

/// Returns the schemas that apply to a member of an object, or `None` if the schema does not ask
/// for the member.
fn of_member<'a>(parts: &[&'a Value], name: &str) -> Option<Vec<&'a Value>> {
    let fields = |part: &'a Value| part.get("properties").and_then(Value::as_object);
    let named: Vec<&Value> = parts.iter().filter_map(|part| fields(part)?.get(name)).collect();
    if !named.is_empty() {
        return Some(named);
    }
    let patterns = parts.iter().filter_map(|part| part.get("patternProperties")?.as_object());
    let mut further: Vec<&Value> = patterns.flat_map(Map::values).collect();
    let rest = ["additionalProperties", "unevaluatedProperties"];
    further.extend(parts.iter().flat_map(|part| rest.iter().filter_map(|keyword| part.get(keyword))));
    further.retain(|schema| **schema != Value::Bool(false));
    let is_free = parts.iter().all(|part| fields(part).is_none_or(Map::is_empty));
    (is_free || !further.is_empty()).then_some(further)
}

/// Returns the schemas that apply to an item of an array.
fn of_item<'a>(parts: &[&'a Value], index: usize) -> Vec<&'a Value> {
    let mut found = Vec::new();
    for part in parts {
        let listed = ["prefixItems", "items"].into_iter().filter_map(|keyword| part.get(keyword)?.as_array());
        let listed: Vec<&Value> = listed.filter_map(|schemas| schemas.get(index)).collect();
        if listed.is_empty() {
            let rest = ["items", "additionalItems", "unevaluatedItems"].into_iter();
            found.extend(rest.filter_map(|keyword| part.get(keyword)).filter(|schema| !schema.is_array()));
        } else {
            found.extend(listed);
        }
    }
    found
}
