//! What an answer says, for a repair of it to say it, too.
//!
//! A model that is told what is wrong may leave out what is wrong, or all of it, or write the rest shorter: that fits, and less is left
//! than there was. So of an answer that does not fit three things are kept in mind: the scalars that are right, which must be somewhere
//! in what takes its place, as often as they were; the places that are wrong, at which something must be; and how long lists are.
//!
//! What says nothing (null, a blank text, an empty list or object) may go, and so may what the schema does not allow, and members that
//! an object's schema neither names nor is open to by a schema of its own. Where one of several forms is wanted and none fits, or a rule
//! is broken that is about a whole object, anything in it may change.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use serde_json::{Map, Value};

use super::schema;
use crate::adapt::pointer_token;

/// What of a schema holds along with it for the same value.
const ALONG: [&str; 6] = ["allOf", "anyOf", "oneOf", "if", "then", "else"];

/// Places that errors are about, as JSON pointers.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// What is there is wrong.
    pub(super) wrong: HashSet<String>,
    /// Nothing should be there.
    pub(super) unwanted: HashSet<String>,
}

/// What must not be lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Content {
    /// Scalars that are right.
    scalars: Vec<String>,
    /// What is wrong: where it is, and its text if it is a scalar.
    wrong: Vec<(String, Option<String>)>,
    /// Lists, by how many items say something.
    lists: Vec<(String, usize)>,
}

impl Content {
    /// Nothing.
    pub(super) const NONE: Self = Self { scalars: Vec::new(), wrong: Vec::new(), lists: Vec::new() };

    /// That of a value.
    pub(super) fn of(root: &Value, value: &Value, marks: &Marks) -> Self {
        let mut walk = Walk { root, marks, found: Self::NONE };
        walk.value(value, &[root], &mut String::new());
        walk.found
    }

    /// A number that is all that is known.
    pub(super) fn of_number(literal: String) -> Self {
        Self { scalars: vec![literal], ..Self::NONE }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// Whether all of it is in `value`.
    pub(super) fn is_in(&self, value: &Value) -> bool {
        let is_list_kept = |(place, length): &(String, usize)| match value.pointer(place) {
            Some(Value::Array(items)) => items.len() >= *length,
            Some(_) => false,
            // It may be elsewhere, with all that is in it.
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

/// Whether a model has put anything there.
pub(super) fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// How often each scalar is in a value.
fn count(value: &Value, found: &mut HashMap<String, usize>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| count(item, found)),
        Value::Object(members) => members.values().for_each(|member| count(member, found)),
        scalar => *found.entry(text_of(scalar)).or_default() += 1,
    }
}

/// A scalar as it is compared: a number in a string is that number, and one blank is as good as another.
fn text_of(scalar: &Value) -> String {
    match scalar {
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        // 2.0 is 2.
        Value::Number(number) => number.to_string().trim_end_matches(".0").to_owned(),
        other => other.to_string(),
    }
}

/// A way through a value along its schema.
struct Walk<'a> {
    root: &'a Value,
    marks: &'a Marks,
    found: Content,
}

impl<'a> Walk<'a> {
    /// A value at `place`, to which all of these schemas may apply; none where nothing is known.
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

/// The schemas of an object's member; none where the member is nothing that is asked for.
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

/// The schemas of an array's item.
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
