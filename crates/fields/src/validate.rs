//! Checks JSON texts, by code that shares nothing with the grammar and the schema.
//!
//! What counts is the value: members may come in any order, and numbers and strings be spelt in any way.

mod number;
mod tree;
mod words;

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::rc::Rc;

use self::tree::Json;
use crate::Definition;
use crate::field::{Array, Composite, Kind, Template, Text, Variant};
use crate::path::is_plain;

/// The most errors that are told of a value.
const ERRORS: usize = 100;

/// What is wrong at a place of a JSON text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invalid {
    /// The place as a JSON path: `$.stats.strength`, `$.items[2]`.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// The errors of a text, none where it is valid.
pub(crate) fn validate(definition: &Definition, text: &str) -> Vec<Invalid> {
    let value: Json = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return vec![Invalid { path: "$".to_owned(), message: format!("not JSON: {error}") }],
    };
    let mut validator =
        Validator { definition, path: "$".to_owned(), errors: Vec::new(), tried: HashMap::new() };
    validator.value(definition.root(), &value);
    validator.errors
}

struct Validator<'d> {
    definition: &'d Definition,
    path: String,
    errors: Vec<Invalid>,
    /// What came of values at untagged variants, which may come to the same value in many ways.
    tried: HashMap<(*const Variant, *const Json), Rc<[Invalid]>>,
}

impl<'d> Validator<'d> {
    fn value(&mut self, kind: &'d Kind, value: &Json) {
        match kind {
            Kind::Int(int) => {
                let is_within = value.as_number().and_then(number::whole).is_some_and(|number| {
                    int.min.is_none_or(|min| number >= min.into())
                        && int.max.is_none_or(|max| number <= max.into())
                        && i64::try_from(number).is_ok()
                });
                self.expect(is_within, value, || words::integer(int));
            }
            Kind::Float(float) => {
                let is_within = value.as_number().is_some_and(|number| number::is_within(number, float));
                self.expect(is_within, value, || words::number(float));
            }
            Kind::String(text) => self.string(text, value),
            Kind::Choice(choice) => {
                let is_option = choice.options.iter().any(|option| value.is(option));
                self.expect(is_option, value, || words::options(choice));
            }
            Kind::Boolean => self.expect(value.is_boolean(), value, || "true or false".to_owned()),
            Kind::Constant(constant) => self.expect(value.is(constant), value, || constant.text()),
            Kind::Composite(composite) => self.object(composite, value),
            Kind::Variant(variant) if variant.untagged => self.untagged(variant, value),
            Kind::Variant(variant) => self.tagged(variant, value),
            Kind::Template(template) => self.template(template, value),
            Kind::Array(array) => self.array(array, value),
            // A checked definition has all of its structures.
            Kind::Ref(name) => {
                if let Some(kind) = self.definition.definition(name) {
                    self.value(kind, value);
                }
            }
        }
    }

    fn string(&mut self, text: &Text, value: &Json) {
        let Some(string) = value.as_str() else {
            return self.wrong(format!("expected a string, found {value}"));
        };
        let length = string.chars().count();
        if length < text.min_length || text.max_length.is_some_and(|max| length > max) {
            return self.wrong(format!("expected {}, found {length}", words::length(text)));
        }
        if let Some(c) = string.chars().find(|&c| !may_be(text, c)) {
            self.wrong(format!("the character {c:?} is not allowed"));
        }
    }

    fn template(&mut self, template: &Template, value: &Json) {
        let fits = value.as_str().is_some_and(|string| is_filled(template, string));
        self.expect(fits, value, || words::template(template));
    }

    fn object(&mut self, composite: &'d Composite, value: &Json) {
        let Some(members) = value.as_object() else {
            return self.wrong(format!("expected an object, found {value}"));
        };
        self.names(members, |name| composite.fields.iter().any(|member| member.name == name));
        for member in &composite.fields {
            match members.iter().find(|(name, _)| *name == member.name) {
                Some((name, value)) => self.member(name, &member.kind, value),
                None if member.optional => {}
                None => self.wrong(format!("the member {:?} is missing", member.name)),
            }
        }
    }

    fn tagged(&mut self, variant: &'d Variant, value: &Json) {
        let members = value.as_object().filter(|members| members.len() == 1);
        let branch = |name: &str| variant.variants.iter().find(|branch| branch.name.as_deref() == Some(name));
        if let Some(((name, value), branch)) =
            members.and_then(|members| Some((&members[0], branch(&members[0].0)?)))
        {
            self.member(name, &branch.kind, value);
        } else {
            let names = variant.variants.iter().filter_map(|branch| branch.name.as_deref());
            let names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
            self.wrong(format!("expected an object with one member of {}, found {value}", names.join(", ")));
        }
    }

    /// Tries all structures; where none fits, tells the errors of the nearest: of those that are wrong within, or else of all, the one
    /// with the fewest.
    fn untagged(&mut self, variant: &'d Variant, value: &Json) {
        let key = (std::ptr::from_ref(variant), std::ptr::from_ref(value));
        if let Some(errors) = self.tried.get(&key) {
            return self.errors.extend_from_slice(&Rc::clone(errors));
        }
        let before = std::mem::take(&mut self.errors);
        let mut nearest: Option<(bool, Vec<Invalid>)> = None;
        for branch in &variant.variants {
            self.value(&branch.kind, value);
            let errors = std::mem::take(&mut self.errors);
            let is_here = errors.iter().any(|error| error.path == self.path);
            let is_nearer =
                |nearest: &(bool, Vec<Invalid>)| (is_here, errors.len()) < (nearest.0, nearest.1.len());
            if nearest.as_ref().is_none_or(is_nearer) {
                nearest = Some((is_here, errors));
            }
        }
        let mut errors = nearest.map(|(_, errors)| errors).unwrap_or_default();
        if !errors.is_empty() && variant.variants.len() > 1 {
            let message = "none of the structures fits; of the nearest:".to_owned();
            errors.insert(0, Invalid { path: self.path.clone(), message });
        }
        self.errors = before;
        self.errors.extend_from_slice(&errors);
        self.tried.insert(key, errors.into());
    }

    fn array(&mut self, array: &'d Array, value: &Json) {
        let Some(items) = value.as_array() else {
            return self.wrong(format!("expected a list, found {value}"));
        };
        let count = items.len();
        if count < array.min_items || array.max_items.is_some_and(|max| count > max) {
            self.wrong(format!("expected {}, found {count}", words::items(array)));
        }
        for (index, item) in items.iter().enumerate() {
            let len = self.path.len();
            let _ = write!(self.path, "[{index}]");
            self.value(&array.element, item);
            self.path.truncate(len);
        }
    }

    fn member(&mut self, name: &str, kind: &'d Kind, value: &Json) {
        let len = self.path.len();
        if is_plain(name) {
            self.path.push('.');
            self.path.push_str(name);
        } else {
            let _ = write!(self.path, "[{}]", serde_json::Value::from(name));
        }
        self.value(kind, value);
        self.path.truncate(len);
    }

    /// Tells the names that are not known, and those that come twice.
    fn names(&mut self, members: &[(String, Json)], is_known: impl Fn(&str) -> bool) {
        let mut names = HashSet::new();
        for (name, _) in members {
            if !is_known(name) {
                self.wrong(format!("there is no member {name:?}"));
            } else if !names.insert(name) {
                self.wrong(format!("the member {name:?} comes twice"));
            }
        }
    }

    fn expect(&mut self, is_right: bool, found: &Json, expected: impl FnOnce() -> String) {
        if !is_right {
            self.wrong(format!("expected {}, found {found}", expected()));
        }
    }

    fn wrong(&mut self, message: String) {
        if self.errors.len() < ERRORS {
            self.errors.push(Invalid { path: self.path.clone(), message });
        }
    }
}

/// Whether a text may have a character.
fn may_be(text: &Text, c: char) -> bool {
    match &text.characters {
        Some(set) => set.contains(c),
        None => c >= ' ' || c == '\n' || c == '\t',
    }
}

/// Whether a string is the template with a text in each place. Texts may begin and end where the fixed parts allow, so all ends
/// of a place are followed at once.
fn is_filled(template: &Template, string: &str) -> bool {
    let chars: Vec<char> = string.chars().collect();
    let literals: Vec<Vec<char>> =
        template.literals().into_iter().map(|literal| literal.chars().collect()).collect();
    let Some((first, others)) = literals.split_first() else { return false };
    let mut ends = vec![false; chars.len() + 1];
    if chars.starts_with(first) {
        ends[first.len()] = true;
    }
    for literal in others {
        ends = after_place(&template.text, &ends, &chars);
        let mut after = vec![false; chars.len() + 1];
        for (at, _) in ends.iter().enumerate().filter(|(_, is_end)| **is_end) {
            if chars[at..].starts_with(literal) {
                after[at + literal.len()] = true;
            }
        }
        ends = after;
    }
    ends[chars.len()]
}

/// Where a text may end that begins at one of `starts`.
fn after_place(text: &Text, starts: &[bool], chars: &[char]) -> Vec<bool> {
    // How many allowed characters there are from each place on.
    let mut runs = vec![0; chars.len() + 1];
    for (at, &c) in chars.iter().enumerate().rev() {
        runs[at] = if may_be(text, c) { runs[at + 1] + 1 } else { 0 };
    }
    // Where ranges of ends begin, less where they are over.
    let mut changes = vec![0i64; chars.len() + 2];
    for (start, _) in starts.iter().enumerate().filter(|(_, is_start)| **is_start) {
        let most = runs[start].min(text.max_length.unwrap_or(usize::MAX));
        if text.min_length <= most {
            changes[start + text.min_length] += 1;
            changes[start + most + 1] -= 1;
        }
    }
    let mut open = 0;
    let ends = changes.iter().take(starts.len()).map(|change| {
        open += change;
        open > 0
    });
    ends.collect()
}

#[cfg(test)]
mod tests {
    use crate::builder::{
        array, choice, composite, constant, field, float, int, reference, string, template, untagged, variant,
    };
    use crate::field::Kind;
    use crate::{Definition, DefinitionBuilder};

    fn told(kind: impl Into<Kind>, text: &str) -> Vec<String> {
        let definition = Definition::new("x", kind).expect("well-formed");
        definition.validate(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_error_has_its_path() {
        let pair = composite([field("x", int(0, 9)), field("odd name", array(1, 2, string(1, 2)))]);
        assert_eq!(
            told(pair, r#"{"x": 10, "odd name": ["a", "", "abc"], "more": 1, "x": 1}"#),
            [
                "$: there is no member \"more\"",
                "$: the member \"x\" comes twice",
                "$.x: expected an integer between 0 and 9, found 10",
                "$[\"odd name\"]: expected 1 to 2 items, found 3",
                "$[\"odd name\"][1]: expected 1 to 2 characters, found 0",
                "$[\"odd name\"][2]: expected 1 to 2 characters, found 3",
            ]
        );
        assert_eq!(
            told(int(0, 9), "{\"a\": 1}"),
            ["$: expected an integer between 0 and 9, found an object with the member \"a\""]
        );
        assert!(told(int(0, 9), "[1")[0].starts_with("$: not JSON: EOF while parsing a list at line 1"));
        assert_eq!(told(string(0, 5), r#""\r""#), ["$: the character '\\r' is not allowed"]);
    }

    #[test]
    fn values_count_and_not_their_spelling() {
        assert!(told(int(0, 9), " 5.0 ").is_empty() && told(int(0, 9), "50e-1").is_empty());
        assert!(told(float(0.5, 1.5), "1.5000").is_empty() && told(float(0.0, 1.0), "-0.0").is_empty());
        assert_eq!(told(float(0.5, 1.5), "1.505").len(), 1);
        assert!(told(choice([2, 3]), "2.0").is_empty() && told(constant(0.5), "5e-1").is_empty());
        assert!(
            told(string(1, 1), r#""\ud83d\ude00""#).is_empty()
                && told(string(1, 1), r#""\u0061""#).is_empty()
        );
    }

    #[test]
    fn of_untagged_structures_the_nearest_is_told() {
        let person = composite([field("name", string(1, 9)), field("age", int(0, 99))]);
        let either = untagged([Kind::from(int(0, 9)), person.into()]);
        assert!(told(either.clone(), "5").is_empty());
        assert_eq!(
            told(either, r#"{"name": "Ava", "age": 100}"#),
            [
                "$: none of the structures fits; of the nearest:",
                "$.age: expected an integer between 0 and 99, found 100",
            ]
        );
        let tagged = variant([("a", Kind::Boolean), ("b", int(0, 1).into())]);
        assert_eq!(
            told(tagged.clone(), r#"{"b": 2}"#),
            ["$.b: expected an integer between 0 and 1, found 2"]
        );
        assert_eq!(
            told(tagged, r#"{"c": 2}"#),
            ["$: expected an object with one member of \"a\", \"b\", found an object with the member \"c\""]
        );
    }

    #[test]
    fn texts_of_places_may_hold_what_is_between_them() {
        let two = template("<generated> and <generated>.", 1, 9);
        assert!(told(two.clone(), r#""a and b.""#).is_empty());
        assert!(
            told(two.clone(), r#""a and b and c.""#).is_empty()
                && told(two.clone(), r#"". and ..""#).is_empty()
        );
        assert_eq!(
            told(two.clone(), r#""a and .""#),
            [
                "$: expected \"<generated> and <generated>.\" with 1 to 9 characters in each place, found \"a and .\""
            ]
        );
        assert!(!told(two.clone(), r#""a and b""#).is_empty() && !told(two, r#""a, b.""#).is_empty());
    }

    #[test]
    fn values_at_many_structures_are_tried_once() {
        let step = |more: &str| {
            composite([field("next", reference("step")).optional(), field(more, int(0, 1)).optional()])
        };
        let step = untagged([step("a"), step("b"), step("c")]);
        let definition =
            DefinitionBuilder::new(reference("step")).define("step", step).build().expect("it can end");
        let text = format!("{}{{\"x\": 1}}{}", r#"{"next": "#.repeat(100), "}".repeat(100));
        assert!(!definition.validate(&text).is_empty());
    }
}
