//! Random field definitions, and values that match or nearly match them.

use formwork_fields::builder::{array, composite, constant, field, float, int, reference, string, template};
use formwork_fields::field::{
    Array, Branch, Choice, Composite, Float, Int, Member, PLACE, Scalar, Text, Variant,
};
use formwork_fields::{Characters, Definition, DefinitionBuilder, Kind};
use serde_json::{Map, Number, Value, json};

use super::Random;

const NAMES: [&str; 20] = [
    "name",
    "age",
    "class",
    "root",
    "char",
    "boolean",
    "type",
    "odd name",
    "é",
    "q\"uote",
    "back\\slash",
    "a.b",
    "日本",
    "-",
    "x_y",
    "tab\t",
    "item",
    "false",
    "1",
    "yes",
];
const STRUCTURES: [&str; 3] = ["tree", "char", "leaf-2"];
const HINTS: [&str; 5] = ["in years", "what others\n\tcall them", "\"quoted\"", " ", "é: - #"];
const WORDS: [&str; 34] = [
    "warrior",
    "war",
    "mage",
    "",
    "a\"b",
    "c\\d",
    "new\nline",
    "é😀",
    "true",
    "1",
    "null",
    "-",
    "\u{1}",
    "</s>",
    "~",
    " a ",
    "\u{7f}",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "\r\n",
    " \n ",
    "a: b",
    "- a",
    "# a",
    "a #",
    "'",
    "<<",
    "0x1F",
    "1e3",
    ".inf",
    "2024-01-01",
    "{a",
    "|",
];
const SETS: [&str; 8] =
    ["a-c", "a-zA-Z0-9 _-", "^a", "\\n\\t\"\\\\", "日本é", "\\\\", "\\u{1F600}-\\u{1F64F}", "\\[\\]^"];
const CHARS: [char; 18] =
    ['a', 'b', 'c', 'z', ' ', '"', '\\', '\n', '\t', 'é', '日', '😀', '[', '-', '\u{7f}', '\u{1}', '\r', '/'];

/// Generates a random well-formed definition, sometimes with references.
///
/// # Panics
/// Never panics: generated definitions are well-formed.
pub fn definition(random: &mut Random) -> Definition {
    let structures = if random.below(3) == 0 { 1 + random.below(STRUCTURES.len()) } else { 0 };
    let root = kind(random, 3, structures);
    let mut builder = DefinitionBuilder::new(root);
    if random.below(2) == 0 {
        builder = builder.name(*random.pick(&NAMES));
    }
    for (index, name) in STRUCTURES.into_iter().enumerate().take(structures) {
        // A required reference only points to structures that are already defined. Other references
        // are optional, so the recursion can end.
        let ahead = kind(random, 1, index);
        let fields = [
            field("value", ahead),
            field("next", reference(*random.pick(&STRUCTURES[..structures]))).optional(),
        ];
        let more = array(0, random.below(3), reference(*random.pick(&STRUCTURES[..structures])));
        let members = fields.into_iter().chain((random.below(2) == 0).then(|| field("more", more)));
        builder = builder.define(name, composite(members));
    }
    builder.build().expect("well-formed")
}

/// Generates a field kind that is nested at most `depth` deep, sometimes with a description.
/// References point to the first `structures` structures.
fn kind(random: &mut Random, depth: usize, structures: usize) -> Kind {
    let kind = plain_kind(random, depth, structures);
    if random.below(8) == 0 { kind.describe(*random.pick(&HINTS)) } else { kind }
}

fn plain_kind(random: &mut Random, depth: usize, structures: usize) -> Kind {
    match random.below(if depth == 0 { 8 } else { 14 }) {
        0 => ints(random).into(),
        1 => floats(random).into(),
        2 => text(random).into(),
        3 => choices(random).into(),
        4 => Kind::Boolean,
        5 => constant(scalar(random)),
        6 => templates(random).into(),
        7 if structures > 0 => reference(STRUCTURES[random.below(structures)]),
        7 => int(0, 9).into(),
        8..=10 => members(random, depth, structures).into(),
        11 | 12 => variants(random, depth, structures).into(),
        _ => {
            let min_items = random.below(3);
            let max_items = (random.below(4) > 0).then(|| min_items + random.below(3));
            Array { element: Box::new(kind(random, depth - 1, structures)), min_items, max_items }.into()
        }
    }
}

fn members(random: &mut Random, depth: usize, structures: usize) -> Composite {
    let names = distinct(random, 4);
    let member = |name: &&str| {
        let optional = random.below(3) == 0;
        let has_probability = optional && random.below(2) == 0;
        Member {
            name: (*name).to_owned(),
            kind: kind(random, depth - 1, structures),
            optional,
            probability: has_probability.then(|| (1 + random.below(99)) as f64 / 100.0),
        }
    };
    Composite { fields: names.iter().map(member).collect() }
}

fn variants(random: &mut Random, depth: usize, structures: usize) -> Variant {
    let names = distinct(random, 3);
    let untagged = random.below(3) == 0;
    let names = if names.is_empty() { vec!["only"] } else { names };
    let weights = match random.below(4) {
        0 if !untagged => names.iter().map(|_| (1 + random.below(200)) as f64 / 8.0).collect(),
        _ => Vec::new(),
    };
    let branch = |name: &&str| Branch {
        name: (!untagged || random.below(2) == 0).then(|| (*name).to_owned()),
        kind: kind(random, depth - 1, structures),
    };
    Variant { variants: names.iter().map(branch).collect(), untagged, weights }
}

/// Returns at most `most` distinct names.
fn distinct(random: &mut Random, most: usize) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for _ in 0..random.below(most + 1) {
        let name = *random.pick(&NAMES);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn ints(random: &mut Random) -> Int {
    let bound = |random: &mut Random| match random.below(6) {
        0 => i64::MAX - random.below(3) as i64,
        1 => i64::MIN + random.below(3) as i64,
        2 => 10i64.pow(random.below(18) as u32) - random.below(3) as i64,
        _ => random.below(3000) as i64 - 1500,
    };
    let (one, other) = (bound(random), bound(random));
    let mut int = int(one.min(other), one.max(other));
    match random.below(8) {
        0 => int.min = None,
        1 => int.max = None,
        _ => {}
    }
    int
}

fn floats(random: &mut Random) -> Float {
    let most = if random.below(3) == 0 { 15 } else { 4 };
    let decimals = random.below(most + 1) as u32;
    // Largest magnitude of a float with this number of decimals, in units of the last decimal
    // place.
    let limit = if decimals == 0 { (1 << 53) - 1 } else { 10i64.pow(15) };
    let unit = 10i64.pow(decimals);
    let bound = |random: &mut Random| {
        let units = match random.below(5) {
            0 => (random.below(20) as i64 - 10) * 1_000_000 * unit.min(1_000_000),
            1 => (random.below(7) as i64 - 3).saturating_mul(unit),
            2 => (limit - random.below(1000) as i64) * [1, -1][random.below(2)],
            _ => (random.below(4001) as i64 - 2000).saturating_mul(10i64.pow(random.below(4) as u32)),
        };
        number(units.clamp(-limit, limit), decimals)
    };
    let (one, other) = (bound(random), bound(random));
    let mut float = float(one.min(other), one.max(other)).decimals(decimals);
    match random.below(12) {
        0 => float.min = None,
        1 => float.max = None,
        // The default is at least two decimals.
        2 if decimals > 1 => float.decimals = None,
        _ => {}
    }
    if Definition::new("float", float.clone()).is_ok() { float } else { float.decimals(decimals) }
}

/// Returns the number `units` times 10 to the power of `-decimals`.
fn number(units: i64, decimals: u32) -> f64 {
    format!("{units}e-{decimals}").parse().expect("a number")
}

/// Returns `value` times 10 to the power of `decimals`. The result must be a whole number.
fn units(value: f64, decimals: u32) -> i64 {
    let text = value.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    format!("{whole}{fraction:0<width$}", width = decimals as usize).parse().expect("a whole number")
}

fn text(random: &mut Random) -> Text {
    let min = random.below(4);
    let mut text = string(min, min + random.below(4));
    text.characters = (random.below(2) == 0).then(|| set(random));
    if random.below(4) == 0 {
        text.max_length = None;
    }
    text
}

fn set(random: &mut Random) -> Characters {
    random.pick(&SETS).parse().expect("a set")
}

fn templates(random: &mut Random) -> formwork_fields::field::Template {
    let mut source = String::new();
    for place in 0..=1 + random.below(4) {
        source.push_str(if place > 0 { PLACE } else { "" });
        source.push_str(random.pick::<&str>(&["", "a", "says ", "(.*)", "\"q\"", "\n", "[x]", "é\\"]));
    }
    let mut template = template(source, 0, 0);
    template.text = text(random);
    template
}

fn scalar(random: &mut Random) -> Scalar {
    match random.below(6) {
        0 => (random.below(2) == 0).into(),
        1 => (random.below(30) as i64 - 10).into(),
        2 => ((random.below(400) as f64 - 200.0) / 16.0).into(),
        3 => (*random.pick(&[1e-7, 12345.678, -0.5, 4_503_599_627_370_495.5])).into(),
        _ => (*random.pick(&WORDS)).into(),
    }
}

fn choices(random: &mut Random) -> Choice {
    let mut options: Vec<Scalar> = Vec::new();
    for _ in 0..=random.below(4) {
        let option = scalar(random);
        if !options.contains(&option) {
            options.push(option);
        }
    }
    let weights = match random.below(3) {
        0 => options.iter().map(|_| (1 + random.below(200)) as f64 / 8.0).collect(),
        _ => Vec::new(),
    };
    Choice { options, weights }
}

/// A generator of random values for a definition.
pub struct Values<'d> {
    definition: &'d Definition,
    random: Random,
    /// One in this number of parts of a value does not match the definition. If 0, all parts match.
    bent: usize,
}

impl<'d> Values<'d> {
    /// Creates a generator. One in `bent` parts of a value does not match the definition. If `bent`
    /// is 0, all parts match.
    pub const fn new(definition: &'d Definition, random: Random, bent: usize) -> Self {
        Self { definition, random, bent }
    }

    /// Generates a value, with members in declared order.
    pub fn value(&mut self) -> Value {
        self.kind(self.definition.root(), 0)
    }

    fn is_bent(&mut self) -> bool {
        self.bent > 0 && self.random.below(self.bent) == 0
    }

    fn kind(&mut self, kind: &Kind, depth: usize) -> Value {
        if self.is_bent() && self.random.below(4) == 0 {
            let odd = [
                json!(null),
                json!("x"),
                json!(7),
                json!(0.125),
                json!([]),
                json!({}),
                json!(true),
                json!({"a": 1}),
            ];
            return self.random.pick(&odd).clone();
        }
        match kind {
            Kind::Int(int) => self.int(int),
            Kind::Float(float) => self.float(float),
            Kind::String(text) => self.text(text).into(),
            Kind::Choice(choice) => self.random.pick(&choice.options).clone().to_json(),
            Kind::Boolean => (self.random.below(2) == 0).into(),
            Kind::Constant(value) => value.to_json(),
            Kind::Composite(composite) => self.object(composite, depth),
            Kind::Variant(variant) => self.variant(variant, depth),
            Kind::Template(template) => {
                let literals: Vec<&str> = template.template.split(PLACE).collect();
                let mut text = literals[0].to_owned();
                for literal in &literals[1..] {
                    text.push_str(&self.text(&template.text));
                    text.push_str(literal);
                }
                text.into()
            }
            Kind::Array(array) => {
                let count = self.count(array.min_items, array.max_items, depth);
                (0..count).map(|_| self.kind(&array.element, depth + 1)).collect()
            }
            Kind::Described(described) => self.kind(&described.kind, depth),
            Kind::Ref(name) => {
                let structure = self.definition.definitions().iter().find(|(known, _)| known == name);
                self.kind(&structure.expect("checked").1, depth + 1)
            }
        }
    }

    fn int(&mut self, int: &Int) -> Value {
        let (min, max) = (int.min.unwrap_or(i64::MIN), int.max.unwrap_or(i64::MAX));
        if self.is_bent() {
            return match self.random.below(3) {
                0 => min.checked_sub(1).unwrap_or(min).into(),
                1 => max.checked_add(1).unwrap_or(max).into(),
                _ => (min.clamp(-1000, 1000) as f64 + 0.5).into(),
            };
        }
        let span = max.abs_diff(min);
        let offset = match self.random.below(3) {
            0 => 0,
            1 => span,
            _ => (self.random.below(1 << 31) as u64).saturating_mul(1 << 33).checked_rem(span).unwrap_or(0),
        };
        min.wrapping_add_unsigned(offset).into()
    }

    fn float(&mut self, float: &Float) -> Value {
        let digits =
            |value: f64| value.to_string().split_once('.').map_or(0, |(_, digits)| digits.len() as u32);
        let bounds = [float.min, float.max];
        let usual = bounds.iter().flatten().map(|bound| digits(*bound)).max().unwrap_or(0).max(2);
        let decimals = float.decimals.unwrap_or(usual);
        let limit = if decimals == 0 { (1 << 53) - 1 } else { 10i64.pow(15) };
        let low = float.min.map_or(-limit, |min| units(min, decimals));
        let high = float.max.map_or(limit, |max| units(max, decimals));
        let among = |share: usize| low + ((high - low) as f64 * (share as f64 / f64::from(1 << 20))) as i64;
        let units = match self.random.below(4) {
            0 => low,
            1 => high,
            _ => among(self.random.below(1 << 20)).clamp(low, high),
        };
        // One unit more or less, or half a unit more if floats can represent it.
        let (units, decimals) = match if self.is_bent() { self.random.below(3) } else { 3 } {
            0 => (units + 1, decimals),
            1 => (units - 1, decimals),
            2 if units.abs() < limit / 100 => (units * 10 + 5, decimals + 1),
            _ => (units, decimals),
        };
        Scalar::from(number(units, decimals)).to_json()
    }

    fn text(&mut self, text: &Text) -> String {
        let count = self.count(text.min_length, text.max_length, 0);
        let any = Characters::default();
        let set = text.characters.clone().unwrap_or(any);
        let one = |values: &mut Self| {
            let allowed: Vec<char> = CHARS.into_iter().filter(|&c| set.contains(c)).collect();
            if values.is_bent() || allowed.is_empty() {
                return if allowed.is_empty() { set.ranges()[0].0 } else { *values.random.pick(&CHARS) };
            }
            *values.random.pick(&allowed)
        };
        (0..count).map(|_| one(self)).collect()
    }

    fn count(&mut self, min: usize, max: Option<usize>, depth: usize) -> usize {
        let most = max.unwrap_or(min + 3).min(if depth > 4 { min } else { usize::MAX }).max(min);
        let count = min + self.random.below(most - min + 1);
        if self.is_bent() {
            if self.random.below(2) == 0 { most + 1 } else { min.saturating_sub(1) }
        } else {
            count
        }
    }

    fn object(&mut self, composite: &Composite, depth: usize) -> Value {
        let mut object = Map::new();
        for member in &composite.fields {
            let is_there = !member.optional || (depth < 5 && self.random.below(2) == 0);
            if is_there != self.is_bent() {
                let value = self.kind(&member.kind, depth + 1);
                object.insert(member.name.clone(), value);
            }
        }
        if self.is_bent() {
            object.insert("unknown".to_owned(), json!(1));
        }
        object.into()
    }

    fn variant(&mut self, variant: &Variant, depth: usize) -> Value {
        let branch = self.random.pick(&variant.variants).clone();
        let value = self.kind(&branch.kind, depth + 1);
        match branch.name.filter(|_| !variant.untagged) {
            Some(name) if self.is_bent() => json!({ name: value, "unknown": 1 }),
            Some(name) => json!({ name: value }),
            None => value,
        }
    }
}

/// Returns `value` as JSON text with the separators `", "` and `": "`, and with numbers as plain
/// decimals.
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Number(number) => plain(number),
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                format!("{}: {}", Value::from(name.as_str()), canonical(value))
            };
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn plain(number: &Number) -> String {
    match number.as_f64() {
        // The display of a float has no exponent.
        Some(value) if number.is_f64() => value.to_string(),
        _ => number.to_string(),
    }
}
