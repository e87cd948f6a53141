//! Random schemas with finitely many values.
//!
//! Every subschema has a *universe*, keywords that allow only a few values, such as `enum`. Most
//! subschemas also have *rules*, any other keywords, whose names and values are from the same small
//! pool. Rules may refer to each other in cycles, as long as each cycle descends into a member or
//! an item.

use formwork_grammar::{Order, Profile, SchemaOptions};
use serde_json::{Map, Value, json};

use super::Random;

const NAMES: [&str; 5] = ["a", "b", "é", "ab", "\""];
const WORDS: [&str; 6] = ["", "a", "b", "ab", "é", "\"b"];
const PATTERNS: [&str; 12] = [
    "a",
    "^a",
    "b$",
    "^[ab]*$",
    "^[^a]+$",
    "^(ab|é)?$",
    "^[^\"]?$",
    "^(?!a)",
    "^(?=[^b])[ab]{1,2}$",
    "[é\"]",
    "^$",
    "^a{1,2}$",
];
/// References that a rule may contain.
const TARGETS: [&str; 4] = ["#", "#/$defs/r1", "#/$defs/r2", "#/$defs/r3"];

/// Generates a random schema with finitely many values, for one of the drafts that the finite
/// reference supports.
pub fn finite(random: &mut Random, options: &SchemaOptions) -> Value {
    let drafts = ["https://json-schema.org/draft/2019-09/schema", "http://json-schema.org/draft-07/schema#"];
    let draft = *random.pick(&[2020, 2020, 2020, 2020, 2019, 7]);
    let depth = random.below(4);
    let mut writer = Writer { random, options, draft, first: 1, about: About::Any };
    let mut root = writer.universe(depth);
    let mut defs = Map::new();
    for target in 1..TARGETS.len() {
        (writer.first, writer.about) = (target + 1, About::Any);
        defs.insert(format!("r{target}"), writer.rule(2));
    }
    defs.insert("u".to_owned(), writer.universe(0));
    if draft == 7 && root.get("$ref").is_some() {
        root = json!({"allOf": [root]});
    }
    root["$defs"] = Value::Object(defs);
    match draft {
        2019 => root["$schema"] = drafts[0].into(),
        7 => root["$schema"] = drafts[1].into(),
        _ => {}
    }
    root
}

struct Writer<'a> {
    random: &'a mut Random,
    options: &'a SchemaOptions,
    draft: u32,
    /// Index of the first of [`TARGETS`] that the current schema may refer to for the same value. A
    /// reference to an earlier target could lead back to this schema.
    first: usize,
    /// Subject of most rules that are generated.
    about: About,
}

/// Subject of a group of keywords, for example all keywords about numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    Any,
    Numbers,
    Strings,
    Arrays,
    Objects,
    Logic,
}

type Keywords = Map<String, Value>;

impl Writer<'_> {
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound)
    }

    fn one_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }

    fn integer(&mut self, around: usize) -> Value {
        (self.below(2 * around + 1) as i64 - around as i64).into()
    }

    /// Generates a schema with few values.
    fn universe(&mut self, depth: usize) -> Value {
        let kind = if depth == 0 { self.below(6) } else { 4 + self.below(9) };
        let confined = match kind {
            0 => json!({"type": *self.random.pick(&["boolean", "null"])}),
            1 => self.number(),
            2 | 3 => json!({"type": "string", "maxLength": self.below(3)}),
            4 => json!({"enum": (0..=self.below(3)).map(|_| self.value(1)).collect::<Vec<_>>()}),
            5 => json!({"const": self.value(2)}),
            6 | 7 => self.list(depth),
            8 => {
                let keyword = *self.random.pick(&["anyOf", "oneOf"]);
                return json!({keyword: [self.universe(depth - 1), self.universe(depth - 1)]});
            }
            9 => return json!({"$ref": "#/$defs/u"}),
            _ => self.members(depth),
        };
        if self.one_in(5) {
            return confined;
        }
        self.about = match kind {
            1 => About::Numbers,
            2 | 3 => About::Strings,
            6 | 7 => About::Arrays,
            10.. => About::Objects,
            _ => About::Any,
        };
        let rule = self.rule(2);
        self.both(confined, rule)
    }

    fn number(&mut self) -> Value {
        let low = self.below(16) as i64 - 12;
        let high = low + self.below(6) as i64;
        if self.options.profile == Profile::Accept && self.one_in(2) {
            return json!({"type": "number", "multipleOf": 0.5, "minimum": low, "maximum": high});
        }
        match self.below(3) {
            0 => json!({"type": "integer", "exclusiveMinimum": low, "maximum": high}),
            _ => json!({"type": "integer", "minimum": low, "maximum": high}),
        }
    }

    fn list(&mut self, depth: usize) -> Value {
        let mut list = json!({"type": "array", "maxItems": 1 + self.below(3)});
        let (prefix, rest) =
            if self.draft < 2020 { ("items", "additionalItems") } else { ("prefixItems", "items") };
        let universe = |writer: &mut Self| writer.child(|writer| writer.universe(depth - 1));
        match self.below(3) {
            0 => list["items"] = universe(self),
            kind => {
                list[prefix] = (0..=self.below(3)).map(|_| universe(self)).collect();
                list[rest] = if kind == 1 { false.into() } else { universe(self) };
            }
        }
        list
    }

    fn members(&mut self, depth: usize) -> Value {
        let universe = |writer: &mut Self| writer.child(|writer| writer.universe(depth - 1));
        if self.one_in(5) {
            // Allows undeclared names, but at most one member.
            let longest = self.below(3);
            let mut open =
                json!({"type": "object", "propertyNames": {"maxLength": longest}, "maxProperties": 1});
            if self.one_in(2) {
                open["properties"] = json!({*self.random.pick(&NAMES): universe(self)});
            }
            if self.one_in(3) {
                open["patternProperties"] = json!({*self.random.pick(&PATTERNS): universe(self)});
            }
            open["additionalProperties"] = if self.one_in(3) { false.into() } else { universe(self) };
            return open;
        }
        if self.options.order == Order::Any && self.one_in(6) {
            let names = *self.random.pick(&[&NAMES[..2], &NAMES[2..4], &NAMES[1..4]]);
            return json!({"type": "object", "propertyNames": {"enum": names}, "additionalProperties": universe(self)});
        }
        let mut properties = Keywords::new();
        for _ in 0..=self.below(3) {
            properties.insert((*self.random.pick(&NAMES)).to_owned(), universe(self));
        }
        let names: Vec<String> = properties.keys().cloned().collect();
        let mut closed = json!({"type": "object", "properties": properties, "additionalProperties": false});
        if self.one_in(3) {
            closed["required"] = json!([self.random.pick(&names)]);
        }
        closed
    }

    /// Combines `universe` and `rule` into a schema in which both must hold, in one of several
    /// forms.
    fn both(&mut self, universe: Value, rule: Value) -> Value {
        let Value::Object(mut both) = universe else { return universe };
        let Value::Object(rule) = rule else {
            both.insert("allOf".to_owned(), json!([rule]));
            return both.into();
        };
        // `patternProperties` beside `additionalProperties` would open a closed object, and draft 7
        // ignores keywords beside `$ref`.
        let apart = |name: &String| self.draft == 7 && name == "$ref" || name == "patternProperties";
        if self.random.below(2) == 0 && !rule.keys().any(|name| both.contains_key(name) || apart(name)) {
            both.extend(rule);
        } else {
            both.insert("allOf".to_owned(), json!([rule]));
        }
        Value::Object(both)
    }

    /// Generates the schema of a member or an item with `schema`. Rules inside may refer to any
    /// target, because the value is smaller.
    fn child(&mut self, schema: impl FnOnce(&mut Self) -> Value) -> Value {
        let kinds = [About::Any, About::Any, About::Numbers, About::Strings, About::Arrays, About::Objects];
        let about = *self.random.pick(&kinds);
        let outer = (std::mem::take(&mut self.first), std::mem::replace(&mut self.about, about));
        let schema = schema(self);
        (self.first, self.about) = outer;
        schema
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 6 } else { 9 }) {
            0 => Value::Null,
            1 => self.one_in(2).into(),
            2 => self.integer(6),
            3 => json!(0.5),
            4 | 5 => (*self.random.pick(&WORDS)).into(),
            6 => (0..self.below(3)).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let mut members = Keywords::new();
                // The reference does not define the order of members that order rules and listed
                // values give together.
                let most = if self.options.order == Order::Declared { 1 } else { 3 };
                for name in &NAMES[..3] {
                    if members.len() < most && self.one_in(2) {
                        members.insert((*name).to_owned(), self.value(depth - 1));
                    }
                }
                members.into()
            }
        }
    }

    /// Generates a schema with a few random keywords, or a boolean schema.
    fn rule(&mut self, depth: usize) -> Value {
        match self.below(16) {
            0 => return true.into(),
            1 => return false.into(),
            _ => {}
        }
        let mut rule = Keywords::new();
        for _ in 0..=self.below(2) {
            let kinds =
                [About::Any, About::Numbers, About::Strings, About::Arrays, About::Objects, About::Logic];
            let kind = *self.random.pick(&kinds);
            let kind = if kind != About::Logic && self.one_in(2) { self.about } else { kind };
            match kind {
                About::Numbers => self.number_keyword(&mut rule),
                About::Strings => self.string_keyword(&mut rule),
                About::Arrays => self.array_keyword(&mut rule, depth),
                About::Objects => self.object_keyword(&mut rule, depth),
                About::Logic if depth > 0 => {
                    self.logic_keyword(&mut rule, depth);
                }
                About::Any | About::Logic => self.any_keyword(&mut rule),
            }
        }
        rule.into()
    }

    fn any_keyword(&mut self, rule: &mut Keywords) {
        const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
        match self.below(4) {
            0 => rule.insert("type".into(), json!([self.random.pick(&TYPES), self.random.pick(&TYPES[3..])])),
            1 => rule.insert("type".into(), (*self.random.pick(&TYPES)).into()),
            2 => rule.insert("enum".into(), (0..=self.below(3)).map(|_| self.value(1)).collect()),
            _ => rule.insert("const".into(), self.value(1)),
        };
        if let Some(Value::Array(types)) = rule.get_mut("type") {
            types.dedup();
        }
    }

    fn number_keyword(&mut self, rule: &mut Keywords) {
        let name =
            *self.random.pick(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]);
        let value = match name {
            "multipleOf" => {
                self.random.pick(&[json!(2), json!(3), json!(1.5), json!(0.25), json!(1.0)]).clone()
            }
            _ if self.one_in(3) => json!(self.below(12) as f64 - 5.5),
            _ => self.integer(6),
        };
        rule.insert(name.into(), value);
    }

    fn string_keyword(&mut self, rule: &mut Keywords) {
        match self.below(4) {
            0 => rule.insert("minLength".into(), self.below(3).into()),
            1 => rule.insert("maxLength".into(), self.below(3).into()),
            _ => rule.insert("pattern".into(), (*self.random.pick(&PATTERNS)).into()),
        };
    }

    fn object_keyword(&mut self, rule: &mut Keywords, depth: usize) {
        let sub = |writer: &mut Self| writer.child(|writer| writer.rule(depth - 1));
        let old = self.draft == 7;
        let (name, other) = (*self.random.pick(&NAMES), *self.random.pick(&NAMES));
        match self.below(if depth == 0 { 6 } else { 13 }) {
            0 => rule
                .insert("required".into(), if name == other { json!([name]) } else { json!([name, other]) }),
            1 => rule.insert("minProperties".into(), self.below(4).into()),
            2 => rule.insert("maxProperties".into(), self.below(4).into()),
            3 if old => rule.insert("dependencies".into(), json!({name: [other]})),
            3 => rule.insert("dependentRequired".into(), json!({name: [other]})),
            4 => {
                let mut names = Keywords::new();
                self.string_keyword(&mut names);
                let enumerated = json!({"enum": self.random.pick(&[&NAMES[..2], &NAMES[1..4]])});
                rule.insert("propertyNames".into(), if self.one_in(2) { names.into() } else { enumerated })
            }
            5 if old => rule.insert("additionalProperties".into(), false.into()),
            5 => rule.insert("unevaluatedProperties".into(), false.into()),
            6 | 7 => rule.insert("properties".into(), json!({name: sub(self), other: sub(self)})),
            8 => rule.insert("patternProperties".into(), json!({*self.random.pick(&PATTERNS): sub(self)})),
            9 => rule.insert("additionalProperties".into(), sub(self)),
            10 | 11 if old => rule.insert("dependencies".into(), json!({name: self.rule(depth - 1)})),
            10 | 11 => rule.insert("dependentSchemas".into(), json!({name: self.rule(depth - 1)})),
            _ => rule.insert("unevaluatedProperties".into(), sub(self)),
        };
    }

    fn array_keyword(&mut self, rule: &mut Keywords, depth: usize) {
        let sub = |writer: &mut Self| writer.child(|writer| writer.rule(depth.saturating_sub(1)));
        let (prefix, rest) =
            if self.draft < 2020 { ("items", "additionalItems") } else { ("prefixItems", "items") };
        match self.below(if depth == 0 { 4 } else { 10 }) {
            0 => rule.insert("minItems".into(), self.below(3).into()),
            1 => rule.insert("maxItems".into(), self.below(3).into()),
            2 => rule.insert("uniqueItems".into(), true.into()),
            3 => rule.insert("unevaluatedItems".into(), false.into()),
            4 => rule.insert("items".into(), sub(self)),
            5 => {
                rule.insert(prefix.into(), json!([sub(self), sub(self)]));
                rule.insert(rest.into(), sub(self))
            }
            6 => rule.insert("unevaluatedItems".into(), sub(self)),
            _ => {
                if self.draft > 7 && self.one_in(2) {
                    rule.insert("minContains".into(), self.below(3).into());
                }
                if self.draft > 7 && self.one_in(2) {
                    rule.insert("maxContains".into(), self.below(3).into());
                }
                rule.insert("contains".into(), sub(self))
            }
        };
    }

    fn logic_keyword(&mut self, rule: &mut Keywords, depth: usize) -> Option<Value> {
        match self.below(8) {
            0 => rule.insert("not".into(), self.rule(depth - 1)),
            1 | 2 => {
                for name in ["then", "else"] {
                    if !self.one_in(4) {
                        rule.insert(name.into(), self.rule(depth - 1));
                    }
                }
                rule.insert("if".into(), self.rule(depth - 1))
            }
            3 => {
                let targets = &TARGETS[self.first..];
                let target = (!targets.is_empty()).then(|| *self.random.pick(targets))?;
                let dynamic = target == "#" && self.draft > 7 && self.one_in(2);
                let keyword = match self.draft {
                    2020 if dynamic => "$dynamicRef",
                    2019 if dynamic => "$recursiveRef",
                    _ => "$ref",
                };
                rule.insert(keyword.into(), target.into())
            }
            kind => {
                let name = ["allOf", "anyOf", "oneOf", "oneOf"][kind - 4];
                rule.insert(name.into(), (0..2 + self.below(2)).map(|_| self.rule(depth - 1)).collect())
            }
        }
    }
}
