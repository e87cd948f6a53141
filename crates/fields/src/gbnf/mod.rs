//! GBNF grammars of definitions. Rules are named after fields.

pub(crate) mod expr;
mod names;
mod number;
mod object;
mod text;

use self::expr::Expr;
use self::names::Names;
use crate::Definition;
use crate::decimal::Decimals;
use crate::field::{Array, Choice, Int, Kind, Scalar, Variant};

/// Largest repetition count in generated grammars. llama.cpp rejects a repetition if the count
/// times the number of repeated symbols reaches 2,000. A rule name counts as one symbol. A group
/// counts as all symbols in the group.
const COUNT: usize = 1000;

/// Largest number of list items or optional members that a group contains inline. Larger groups are
/// moved to rules.
const GROUP: usize = 100;

/// Reserved rule names that do not belong to a single field.
const CHARACTER: &str = "char";
const BOOLEAN: &str = "boolean";
const ROOT: &str = "root";

/// Returns the grammar of a definition's canonical texts. Stops writing rules after `most` bytes.
/// The result is then incomplete, and longer than a size limit of `most` allows.
pub(crate) fn gbnf(definition: &Definition, most: usize) -> String {
    let mut writer = Writer::new(definition, most);
    writer.whole();
    let rules = writer.rules.into_iter().map(|(name, expr)| format!("{name} ::= {expr}\n"));
    rules.collect()
}

struct Writer<'d> {
    definition: &'d Definition,
    names: Names,
    /// Rules as pairs of name and right side, in output order.
    rules: Vec<(String, String)>,
    /// Bytes of all right sides so far. If this exceeds `most`, further rules are left empty.
    bytes: usize,
    most: usize,
    /// Referenced structures with their rule names, in order of first reference.
    structures: Vec<(&'d str, String)>,
    /// Character sets, in their text notation, with the expression for one character.
    sets: Vec<(String, Expr)>,
    has_boolean: bool,
}

/// Names on the path from the root to a field. Rule names are derived from this path.
type Way<'w> = Vec<&'w str>;

impl<'d> Writer<'d> {
    fn new(definition: &'d Definition, most: usize) -> Self {
        Self {
            definition,
            names: Names::new(&[ROOT, CHARACTER, BOOLEAN]),
            rules: Vec::new(),
            bytes: 0,
            most,
            structures: Vec::new(),
            sets: Vec::new(),
            has_boolean: false,
        }
    }

    fn whole(&mut self) {
        self.root();
        let mut done = 0;
        while let Some(&(name, ref rule)) = self.structures.get(done) {
            done += 1;
            if let Some(kind) = self.definition.definition(name) {
                let rule = rule.clone();
                self.define(rule, kind, &mut vec![name]);
            }
        }
        if self.has_boolean {
            let values = ["true", "false"].map(Expr::text);
            self.push(BOOLEAN.to_owned(), &Expr::alternatives(values.to_vec()));
        }
    }

    /// Adds the rule of the whole output. The rule is named after the definition, and `root` refers
    /// to it.
    fn root(&mut self) {
        let root = self.definition.root();
        let name = self.definition.name().filter(|name| is_rule_name(name));
        // A reference to a structure of the same name already leads to such a rule.
        let is_same = |name: &str| matches!(root.plain(), Kind::Ref(to) if to == name);
        match name.filter(|name| !is_same(name)) {
            Some(name) => {
                let rule = self.names.fresh(&[name]);
                self.push(ROOT.to_owned(), &Expr::Rule(rule.clone()));
                self.define(rule, root, &mut Vec::new());
            }
            None => self.define(ROOT.to_owned(), root, &mut Vec::new()),
        }
    }

    /// Adds the rule of a kind. The rules of its parts follow.
    fn define(&mut self, name: String, kind: &'d Kind, way: &mut Way<'d>) {
        let at = self.rules.len();
        self.rules.push((name, String::new()));
        if self.bytes <= self.most {
            let text = self.expr(kind, way).to_string();
            self.bytes += text.len();
            self.rules[at].1 = text;
        }
    }

    fn push(&mut self, name: String, expr: &Expr) {
        let text = expr.to_string();
        self.bytes += text.len();
        self.rules.push((name, text));
    }

    /// Returns the expression of a nested value. Constants, booleans and references are inlined.
    /// Other kinds get their own rule.
    fn value(&mut self, kind: &'d Kind, way: &mut Way<'d>) -> Expr {
        let kind = kind.plain();
        match kind {
            Kind::Constant(_) | Kind::Boolean | Kind::Ref(_) => self.expr(kind, way),
            _ => {
                let name = self.names.fresh(if way.is_empty() { &["value"] } else { way });
                self.define(name.clone(), kind, way);
                Expr::Rule(name)
            }
        }
    }

    fn expr(&mut self, kind: &'d Kind, way: &mut Way<'d>) -> Expr {
        match kind {
            Kind::Int(Int { min, max }) => number::integers(min.unwrap_or(i64::MIN), max.unwrap_or(i64::MAX)),
            // The range of a checked definition contains a number.
            Kind::Float(float) => Decimals::of(float).map_or_else(|_| Expr::text("0"), number::decimals),
            Kind::String(text) => self.string(text, way),
            Kind::Choice(Choice { options, .. }) => Expr::alternatives(options.iter().map(scalar).collect()),
            Kind::Boolean => {
                self.has_boolean = true;
                Expr::Rule(BOOLEAN.to_owned())
            }
            Kind::Constant(value) => scalar(value),
            Kind::Composite(composite) => self.object(composite, way),
            Kind::Variant(variant) => self.variant(variant, way),
            Kind::Template(template) => self.template(template, way),
            Kind::Array(array) => self.array(array, way),
            Kind::Ref(name) => Expr::Rule(self.structure(name)),
            Kind::Described(described) => self.expr(&described.kind, way),
        }
    }

    fn structure(&mut self, name: &'d str) -> String {
        if let Some((_, rule)) = self.structures.iter().find(|(known, _)| *known == name) {
            return rule.clone();
        }
        let rule = self.names.fresh(&[name]);
        self.structures.push((name, rule.clone()));
        rule
    }

    fn variant(&mut self, variant: &'d Variant, way: &mut Way<'d>) -> Expr {
        let mut ways = Vec::with_capacity(variant.variants.len());
        for branch in &variant.variants {
            let name = branch.name.as_deref();
            way.extend(name);
            let value = self.value(&branch.kind, way);
            way.truncate(way.len() - usize::from(name.is_some()));
            ways.push(match name.filter(|_| !variant.untagged) {
                Some(name) => {
                    let tag = format!("{{{}: ", Scalar::from(name).text());
                    Expr::sequence([Expr::text(tag), value, Expr::text("}")])
                }
                None => value,
            });
        }
        Expr::alternatives(ways)
    }

    fn array(&mut self, array: &'d Array, way: &mut Way<'d>) -> Expr {
        if array.max_items == Some(0) {
            return Expr::text("[]");
        }
        way.push("item");
        let item = self.value(&array.element, way);
        let more = Expr::sequence([Expr::text(", "), item.clone()]);
        let (min, max) = (array.min_items.saturating_sub(1), array.max_items.map(|max| max - 1));
        let is_often = min.max(max.unwrap_or(0)) > GROUP;
        let more = if is_often { self.rule_of("more", &more, way) } else { more };
        let mut items = Expr::sequence([item, self.repeat(more, min, max, way)]);
        way.pop();
        if array.min_items == 0 {
            items = if is_often { self.rule_of("items", &items, way) } else { items }.optional();
        }
        Expr::sequence([Expr::text("["), items, Expr::text("]")])
    }

    /// Defines a rule for a part of a field and returns a reference to the rule.
    fn rule_of(&mut self, part: &'d str, expr: &Expr, way: &mut Way<'d>) -> Expr {
        way.push(part);
        let rule = self.rule(way, expr);
        way.pop();
        rule
    }

    /// Defines a rule named after `way` and returns a reference to the rule.
    fn rule(&mut self, way: &Way<'_>, expr: &Expr) -> Expr {
        let name = self.names.fresh(way);
        self.push(name.clone(), expr);
        Expr::Rule(name)
    }

    /// Repeats `item` from `min` to `max` times, without counts above [`COUNT`]. If a bound exceeds
    /// [`GROUP`], `item` must be a single symbol.
    fn repeat(&mut self, item: Expr, min: usize, max: Option<usize>, way: &Way<'_>) -> Expr {
        if min.max(max.unwrap_or(0)) <= COUNT {
            return item.repeat(min, max);
        }
        if min < COUNT && max.is_some_and(|max| max - min < COUNT) {
            let further = item.clone().repeat(0, max.map(|max| max - min));
            return Expr::sequence([item.repeat(min, Some(min)), further]);
        }
        let mut way = way.clone();
        way.push("block");
        let block = self.rule(&way, &item.clone().repeat(COUNT, Some(COUNT)));
        let blocks = |min: usize, max: usize| block.clone().repeat(min, Some(max));
        let exactly = |count: usize| {
            let rest = item.clone().repeat(count % COUNT, Some(count % COUNT));
            Expr::sequence([blocks(count / COUNT, count / COUNT), rest])
        };
        let further = match max.map(|max| max - min) {
            None => item.clone().repeat(0, None),
            Some(count) if count < COUNT => item.clone().repeat(0, Some(count)),
            // Either fewer than all blocks and a partial block, or all blocks and up to the
            // remainder.
            Some(count) => {
                let some = [blocks(0, count / COUNT - 1), item.clone().repeat(0, Some(COUNT - 1))];
                let all = [blocks(count / COUNT, count / COUNT), item.clone().repeat(0, Some(count % COUNT))];
                Expr::alternatives(vec![Expr::sequence(some), Expr::sequence(all)])
            }
        };
        Expr::sequence([exactly(min), further])
    }
}

/// Reports whether the name of a definition can name a rule other than `root`.
fn is_rule_name(name: &str) -> bool {
    name.contains(|c: char| c.is_ascii_alphanumeric()) && name != ROOT
}

fn scalar(value: &Scalar) -> Expr {
    Expr::text(value.text())
}
