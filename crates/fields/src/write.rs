//! Conversion of definitions to trees, which are then written as JSON, YAML or TOML.

use crate::field::{Choice, Float, Int, Kind, Member, Scalar, Text, Variant};
use crate::node::Node;

/// Returns the tree of a whole definition.
pub(crate) fn definition(name: Option<&str>, root: &Kind, definitions: &[(String, Kind)]) -> Node {
    let mut map = Map::default();
    map.optional("name", name.map(string));
    map.kind(root);
    if !definitions.is_empty() {
        let definition = |(name, kind): &(String, Kind)| (name.clone(), kind_alone(kind));
        map.key("definitions", Node::Map(definitions.iter().map(definition).collect()));
    }
    Node::Map(map.0)
}

#[derive(Default)]
struct Map(Vec<(String, Node)>);

impl Map {
    fn key(&mut self, key: &str, value: Node) {
        self.0.push((key.to_owned(), value));
    }

    fn optional(&mut self, key: &str, value: Option<Node>) {
        if let Some(value) = value {
            self.key(key, value);
        }
    }

    /// Adds `key` with the value `true` if `value` is true. Otherwise adds nothing.
    fn flag(&mut self, key: &str, value: bool) {
        self.optional(key, value.then_some(Node::Boolean(true)));
    }

    fn kind(&mut self, kind: &Kind) {
        self.key("type", string(type_of(kind)));
        self.optional("description", kind.description().map(string));
        match kind.plain() {
            Kind::Int(Int { min, max }) => {
                self.optional("min", min.map(Node::Integer));
                self.optional("max", max.map(Node::Integer));
            }
            Kind::Float(Float { min, max, decimals }) => {
                self.optional("min", min.map(number));
                self.optional("max", max.map(number));
                self.optional("decimals", decimals.map(|decimals| Node::Integer(decimals.into())));
            }
            Kind::String(text) => self.text(text),
            Kind::Choice(Choice { options, weights }) => {
                self.key("options", Node::List(options.iter().map(scalar).collect()));
                self.weights(weights);
            }
            Kind::Constant(value) => self.key("value", scalar(value)),
            Kind::Composite(composite) => {
                self.key("fields", Node::List(composite.fields.iter().map(member).collect()));
            }
            Kind::Variant(variant) => self.variant(variant),
            Kind::Template(template) => {
                self.key("template", string(&template.template));
                self.text(&template.text);
            }
            Kind::Array(array) => {
                self.key("element", kind_alone(&array.element));
                self.optional("min_items", (array.min_items > 0).then(|| count(array.min_items)));
                self.optional("max_items", array.max_items.map(count));
            }
            Kind::Ref(name) => self.key("to", string(name)),
            // Booleans have no keys. A plain kind is never `Described`, because a checked kind has
            // at most one description.
            Kind::Boolean | Kind::Described(_) => {}
        }
    }

    fn text(&mut self, text: &Text) {
        self.optional("min_length", (text.min_length > 0).then(|| count(text.min_length)));
        self.optional("max_length", text.max_length.map(count));
        self.optional("characters", text.characters.as_ref().map(|set| Node::String(set.to_string())));
    }

    fn variant(&mut self, variant: &Variant) {
        let branches = variant.variants.iter().map(|branch| {
            let mut map = Self::default();
            map.optional("name", branch.name.as_deref().map(string));
            map.kind(&branch.kind);
            Node::Map(map.0)
        });
        self.key("variants", Node::List(branches.collect()));
        self.flag("untagged", variant.untagged);
        self.weights(&variant.weights);
    }

    fn weights(&mut self, weights: &[f64]) {
        let weights = weights.iter().copied().map(number).collect::<Vec<_>>();
        self.optional("weights", (!weights.is_empty()).then_some(Node::List(weights)));
    }
}

fn kind_alone(kind: &Kind) -> Node {
    let mut map = Map::default();
    map.kind(kind);
    Node::Map(map.0)
}

fn member(member: &Member) -> Node {
    let mut map = Map::default();
    map.key("name", string(&member.name));
    map.kind(&member.kind);
    map.flag("optional", member.optional);
    map.optional("probability", member.probability.map(number));
    Node::Map(map.0)
}

fn type_of(kind: &Kind) -> &'static str {
    match kind.plain() {
        Kind::Int(_) => "int",
        Kind::Float(_) => "float",
        Kind::String(_) => "string",
        Kind::Choice(_) => "choice",
        Kind::Boolean => "boolean",
        Kind::Constant(_) => "constant",
        Kind::Composite(_) => "composite",
        Kind::Variant(_) => "variant",
        Kind::Template(_) => "template",
        Kind::Array(_) => "array",
        Kind::Ref(_) | Kind::Described(_) => "ref",
    }
}

fn string(text: &str) -> Node {
    Node::String(text.to_owned())
}

const fn count(count: usize) -> Node {
    Node::Integer(count as i64)
}

/// Returns the node of a number. A whole number becomes an integer.
fn number(value: f64) -> Node {
    match Scalar::from(value) {
        Scalar::Integer(value) => Node::Integer(value),
        _ => Node::Number(value),
    }
}

fn scalar(value: &Scalar) -> Node {
    match value {
        Scalar::Boolean(value) => Node::Boolean(*value),
        Scalar::Integer(value) => Node::Integer(*value),
        Scalar::Number(value) => Node::Number(*value),
        Scalar::String(value) => string(value),
    }
}
