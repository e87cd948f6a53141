//! Validation of JSON texts. The validator and the generators of the grammar and the schema read the
//! same definition. They share no code that decides whether a value is valid, so tests can compare
//! them.
//!
//! Validation compares values. Members may be in any order, and numbers and strings may be in any
//! valid JSON spelling.

mod json;
mod number;
mod text;
mod words;

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write as _};
use std::rc::Rc;

use self::json::Json;
use self::text::{is_filled, may_be};
use crate::Definition;
use crate::field::{Array, Composite, Kind, Template, Text, Variant};
use crate::path::is_plain;

/// Maximum number of reported errors.
const ERRORS: usize = 100;

/// Validation error at a location in a JSON text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invalid {
    /// Location as a JSON path, such as `$.stats.strength` or `$.items[2]`.
    pub path: String,
    /// Description of the problem, such as `expected an integer between 1 and 10, found 12`.
    pub message: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Returns the errors of a JSON text, at most [`ERRORS`]. The result is empty if the text is valid.
pub(crate) fn validate(definition: &Definition, text: &str) -> Vec<Invalid> {
    let value: Json = match formwork_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return vec![Invalid { path: "$".to_owned(), message: error.to_string() }],
    };
    let mut validator = Validator {
        definition,
        path: "$".to_owned(),
        errors: Vec::new(),
        shapes: HashMap::new(),
        trials: 0,
        tried: HashMap::new(),
    };
    validator.value(definition.root(), &value);
    validator.errors
}

struct Validator<'d> {
    definition: &'d Definition,
    path: String,
    errors: Vec<Invalid>,
    shapes: HashMap<*const Composite, Rc<Shape<'d>>>,
    /// Number of untagged variants whose structures are currently being tried.
    trials: usize,
    /// Errors of the kinds that have been tried for a value within two or more untagged variants.
    /// They are cached, because the same pair of kind and value can be reached in many ways.
    tried: HashMap<(*const Kind, *const Json), Rc<[Invalid]>>,
}

/// Index of an object's members.
struct Shape<'d> {
    places: HashMap<&'d str, usize>,
    /// Indices of the required members in `Composite::fields`, in ascending order.
    required: Vec<usize>,
}

impl<'d> Shape<'d> {
    fn new(composite: &'d Composite) -> Self {
        let fields = composite.fields.iter().enumerate();
        let places = fields.clone().map(|(place, member)| (member.name.as_str(), place)).collect();
        let required = fields.filter(|(_, member)| !member.optional).map(|(place, _)| place).collect();
        Self { places, required }
    }
}

impl<'d> Validator<'d> {
    /// Validates a value against any kind and adds the errors found. Calls nest once for each level
    /// of the JSON text, so the depth of the text bounds the recursion.
    fn value(&mut self, kind: &'d Kind, value: &Json) {
        let is_single = match kind {
            Kind::Ref(_) | Kind::Described(_) => false,
            Kind::Variant(variant) => !variant.untagged,
            _ => true,
        };
        if is_single {
            return self.single(kind, value);
        }
        let definition = self.definition;
        match definition.alternatives(kind).as_slice() {
            [only] => self.single(only, value),
            kinds => self.untagged(kinds, value),
        }
    }

    /// Validates a value against a kind other than a reference, a description or an untagged
    /// variant.
    fn single(&mut self, kind: &'d Kind, value: &Json) {
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
            Kind::Variant(variant) => self.tagged(variant, value),
            Kind::Template(template) => self.template(template, value),
            Kind::Array(array) => self.array(array, value),
            // `Definition::alternatives` resolves these kinds before this call.
            Kind::Ref(_) | Kind::Described(_) => {}
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
        let shape = self.shape(composite);
        let mut found: BTreeMap<usize, Option<&Json>> = BTreeMap::new();
        for (name, value) in members {
            match shape.places.get(name.as_str()) {
                None => self.wrong(format!("unknown member {name:?}")),
                Some(place) if found.contains_key(place) => {
                    self.wrong(format!("duplicate member {name:?}"));
                }
                Some(&place) => {
                    found.insert(place, Some(value));
                }
            }
        }
        let missing: Vec<usize> =
            shape.required.iter().copied().filter(|place| !found.contains_key(place)).take(ERRORS).collect();
        found.extend(missing.into_iter().map(|place| (place, None)));
        for (place, value) in found {
            let member = &composite.fields[place];
            match value {
                Some(value) => self.member(&member.name, &member.kind, value),
                None => self.wrong(format!("the member {:?} is missing", member.name)),
            }
            if self.is_full() {
                return;
            }
        }
    }

    fn shape(&mut self, composite: &'d Composite) -> Rc<Shape<'d>> {
        let shape = self.shapes.entry(std::ptr::from_ref(composite));
        Rc::clone(shape.or_insert_with(|| Rc::new(Shape::new(composite))))
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
            self.wrong(format!(
                "expected an object with exactly one of the members {}, found {value}",
                names.join(", ")
            ));
        }
    }

    /// Validates a value against the structures of an untagged variant, in order, until one
    /// matches. If none matches, reports the errors of the closest structure.
    ///
    /// A structure without an error at the current path is closer than a structure with such an
    /// error. If this is equal, the structure with fewer errors is closer.
    fn untagged(&mut self, kinds: &[&'d Kind], value: &Json) {
        let before = std::mem::take(&mut self.errors);
        self.trials += 1;
        let mut nearest: Option<(bool, Rc<[Invalid]>)> = None;
        for kind in kinds {
            let errors = self.trial(kind, value);
            let is_here = errors.iter().any(|error| error.path == self.path);
            let is_nearer =
                |nearest: &(bool, Rc<[Invalid]>)| (is_here, errors.len()) < (nearest.0, nearest.1.len());
            if nearest.as_ref().is_none_or(is_nearer) {
                nearest = Some((is_here, errors));
            }
            if nearest.as_ref().is_some_and(|(_, errors)| errors.is_empty()) {
                break;
            }
        }
        self.trials -= 1;
        self.errors = before;
        let Some((_, errors)) = nearest.filter(|(_, errors)| !errors.is_empty()) else { return };
        self.wrong("no structure of the variant matches; errors of the closest one:".to_owned());
        let room = ERRORS - self.errors.len();
        self.errors.extend(errors.iter().take(room).cloned());
    }

    /// Returns the errors of a value for one structure of an untagged variant.
    fn trial(&mut self, kind: &'d Kind, value: &Json) -> Rc<[Invalid]> {
        let key = (std::ptr::from_ref(kind), std::ptr::from_ref(value));
        if let Some(errors) = self.tried.get(&key) {
            return Rc::clone(errors);
        }
        self.single(kind, value);
        let errors: Rc<[Invalid]> = std::mem::take(&mut self.errors).into();
        // Outside nested variants, each pair is tried only once and needs no cache.
        if self.trials > 1 {
            self.tried.insert(key, Rc::clone(&errors));
        }
        errors
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
            if self.is_full() {
                return;
            }
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

    fn expect(&mut self, is_right: bool, found: &Json, expected: impl FnOnce() -> String) {
        if !is_right {
            self.wrong(format!("expected {}, found {found}", expected()));
        }
    }

    const fn is_full(&self) -> bool {
        self.errors.len() >= ERRORS
    }

    fn wrong(&mut self, message: String) {
        if !self.is_full() {
            self.errors.push(Invalid { path: self.path.clone(), message });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::builder::{
        array, choice, composite, constant, field, float, int, reference, string, template, untagged, variant,
    };
    use crate::field::{Array, Float, Int, Kind};
    use crate::{Definition, DefinitionBuilder};

    fn told(kind: impl Into<Kind>, text: &str) -> Vec<String> {
        let definition = Definition::new("x", kind).expect("well-formed");
        definition.validate(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn reports_each_error_with_its_path() {
        let pair = composite([field("x", int(0, 9)), field("odd name", array(1, 2, string(1, 2)))]);
        assert_eq!(
            told(pair, r#"{"x": 10, "odd name": ["a", "", "abc"], "more": 1, "x": 1}"#),
            [
                "$: unknown member \"more\"",
                "$: duplicate member \"x\"",
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
        assert!(
            told(int(0, 9), "[1")[0].starts_with("$: not valid JSON: EOF while parsing a list at line 1")
        );
        assert_eq!(told(string(0, 5), r#""\r""#), ["$: the character '\\r' is not allowed"]);
    }

    #[test]
    fn compares_values_and_not_their_spelling() {
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
    fn reports_the_errors_of_the_closest_structure() {
        let person = composite([field("name", string(1, 9)), field("age", int(0, 99))]);
        let either = untagged([Kind::from(int(0, 9)), person.into()]);
        assert!(told(either.clone(), "5").is_empty());
        assert_eq!(
            told(either, r#"{"name": "Ava", "age": 100}"#),
            [
                "$: no structure of the variant matches; errors of the closest one:",
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
            [
                "$: expected an object with exactly one of the members \"a\", \"b\", found an object with the member \"c\""
            ]
        );
    }

    #[test]
    fn generated_text_may_contain_the_literals_of_the_template() {
        let two = template("<generated> and <generated>.", 1, 9);
        assert!(told(two.clone(), r#""a and b.""#).is_empty());
        assert!(
            told(two.clone(), r#""a and b and c.""#).is_empty()
                && told(two.clone(), r#"". and ..""#).is_empty()
        );
        assert_eq!(
            told(two.clone(), r#""a and .""#),
            [
                "$: expected \"<generated> and <generated>.\" with 1 to 9 characters for each `<generated>`, found \"a and .\""
            ]
        );
        assert!(!told(two.clone(), r#""a and b""#).is_empty() && !told(two, r#""a, b.""#).is_empty());
    }

    #[test]
    fn messages_name_all_bounds_of_a_number() {
        assert_eq!(
            told(float(0.0, 1.0), "0.123"),
            ["$: expected a number between 0 and 1 with at most 2 decimals, found 0.123"]
        );
        assert_eq!(
            told(Float::at_least(0.0).decimals(1), "1e300"),
            ["$: expected a number between 0 and 100000000000000 with at most 1 decimal, found 1e300"]
        );
        assert_eq!(
            told(Float::at_most(1.0).decimals(0), "1.5"),
            ["$: expected a number between -9007199254740991 and 1 without decimals, found 1.5"]
        );
        assert_eq!(
            told(Int::at_least(0), "9223372036854775808"),
            ["$: expected a 64-bit integer of at least 0, found 9223372036854775808"]
        );
    }

    #[test]
    fn stops_at_100_errors() {
        let either = untagged([Kind::from(int(0, 9)), Kind::Boolean]);
        let many = format!("[{}\"x\"]", "\"x\",".repeat(99_999));
        assert_eq!(told(Array::at_least(0, either.clone()), &many).len(), 100);
        let within = untagged([Kind::from(Array::at_least(0, either)), int(0, 9).into()]);
        assert_eq!(told(within, &many).len(), 100);
        let names: Vec<String> = (0..300).map(|index| format!("f{index}")).collect();
        let all = composite(names.iter().map(|name| field(name, Kind::Boolean)));
        assert_eq!(told(all, "{}").len(), 100);
    }

    #[test]
    fn validates_large_objects_in_linear_time() {
        let names: Vec<String> = (0..19_000).map(|index| format!("f{index}")).collect();
        let all = composite(names.iter().map(|name| field(name, Kind::Boolean).optional()));
        let list = array(0, 1_000_000, all);
        let members: Vec<String> = names.iter().rev().map(|name| format!("\"{name}\": true")).collect();
        let empty = "{},".repeat(100_000);
        assert!(told(list, &format!("[{empty}{{{}}}]", members.join(","))).is_empty());
    }

    #[test]
    fn follows_long_chains_of_references() {
        let mut builder = DefinitionBuilder::new(reference("d0"));
        for index in 0..499 {
            let next = reference(format!("d{}", index + 1));
            builder = builder.define(format!("d{index}"), untagged([next, Kind::Boolean]));
        }
        let last = composite([field("next", reference("d0")).optional()]);
        let definition = builder.define("d499", last).build().expect("it can end");
        let text = format!("{}true{}", r#"{"next": "#.repeat(120), "}".repeat(120));
        assert!(definition.validate(&text).is_empty());
        assert!(!definition.validate(&text.replace("true", "1")).is_empty());
    }

    #[test]
    fn tries_each_value_once_for_each_structure() {
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
