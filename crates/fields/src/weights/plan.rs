//! What may come where, by number.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Definition;
use crate::field::{Kind, Scalar};

/// The nodes that a value may be.
pub(super) type Set = Arc<[usize]>;

pub(super) enum Node {
    /// By the text of a member's name, with its quotes.
    Object(Vec<(Vec<u8>, Set)>),
    Array(Set),
    Choice(Options),
    Text,
    Number,
    Boolean,
}

/// The texts of some values, with their weights if these have any.
pub(super) struct Options {
    texts: Vec<Vec<u8>>,
    weights: Vec<f64>,
    total: f64,
}

impl Options {
    fn new(options: &[Scalar], weights: &[f64]) -> Self {
        let texts = options.iter().map(|option| option.text().into_bytes()).collect();
        Self { texts, weights: weights.to_vec(), total: weights.iter().sum() }
    }

    pub(super) const fn is_weighted(&self) -> bool {
        !self.weights.is_empty()
    }

    pub(super) fn has(&self, text: &[u8]) -> bool {
        self.texts.iter().any(|option| option == text)
    }

    pub(super) fn begins(&self, byte: u8) -> bool {
        self.texts.iter().any(|option| option.first() == Some(&byte))
    }

    /// The share of the options that are, or begin with, a text; zero for none.
    pub(super) fn share(&self, is_left: impl Fn(&[u8]) -> bool) -> f64 {
        let left = self.texts.iter().zip(&self.weights).filter(|(text, _)| is_left(text));
        left.map(|(_, weight)| weight).sum::<f64>() / self.total
    }
}

/// A definition as nodes.
pub(super) struct Plan {
    nodes: Vec<Node>,
    pub(super) root: Set,
}

impl Plan {
    pub(super) fn new(definition: &Definition) -> Self {
        let mut planner = Planner { definition, ids: HashMap::new(), kinds: Vec::new() };
        let root = planner.set([definition.root()]);
        let mut nodes = Vec::new();
        while let Some(&kind) = planner.kinds.get(nodes.len()) {
            let node = planner.node(kind);
            nodes.push(node);
        }
        Self { nodes, root }
    }

    pub(super) fn has_weights(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node, Node::Choice(options) if options.is_weighted()))
    }

    pub(super) fn node(&self, id: usize) -> &Node {
        &self.nodes[id]
    }

    /// The weighted choice that a value is in any case.
    pub(super) fn weighted(&self, set: &[usize]) -> Option<&Options> {
        match set {
            [only] => match self.node(*only) {
                Node::Choice(options) if options.is_weighted() => Some(options),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Numbers kinds as they come up.
struct Planner<'d> {
    definition: &'d Definition,
    ids: HashMap<*const Kind, usize>,
    kinds: Vec<&'d Kind>,
}

impl<'d> Planner<'d> {
    /// The nodes of values that are one of some kinds.
    fn set(&mut self, kinds: impl IntoIterator<Item = &'d Kind>) -> Set {
        let mut nodes = Vec::new();
        for kind in kinds {
            self.add(kind, &mut nodes);
        }
        nodes.sort_unstable();
        nodes.dedup();
        nodes.into()
    }

    /// References and untagged structures are what they stand for; a checked definition has no circles of these.
    fn add(&mut self, kind: &'d Kind, nodes: &mut Vec<usize>) {
        match kind {
            Kind::Ref(name) => {
                if let Some(kind) = self.definition.definition(name) {
                    self.add(kind, nodes);
                }
            }
            Kind::Variant(variant) if variant.untagged => {
                for branch in &variant.variants {
                    self.add(&branch.kind, nodes);
                }
            }
            _ => {
                let next = self.kinds.len();
                let id = *self.ids.entry(std::ptr::from_ref(kind)).or_insert(next);
                if id == next {
                    self.kinds.push(kind);
                }
                nodes.push(id);
            }
        }
    }

    fn node(&mut self, kind: &'d Kind) -> Node {
        let name = |name: &str| Scalar::from(name).text().into_bytes();
        match kind {
            Kind::Composite(composite) => {
                let members =
                    composite.fields.iter().map(|member| (name(&member.name), self.set([&member.kind])));
                Node::Object(members.collect())
            }
            Kind::Variant(variant) => {
                let branches = variant.variants.iter();
                let members = branches.map(|branch| {
                    (name(branch.name.as_deref().unwrap_or_default()), self.set([&branch.kind]))
                });
                Node::Object(members.collect())
            }
            Kind::Array(array) => Node::Array(self.set([&*array.element])),
            Kind::Choice(choice) => Node::Choice(Options::new(&choice.options, &choice.weights)),
            Kind::Constant(value) => Node::Choice(Options::new(std::slice::from_ref(value), &[])),
            Kind::Int(_) | Kind::Float(_) => Node::Number,
            Kind::Boolean => Node::Boolean,
            Kind::String(_) | Kind::Template(_) | Kind::Ref(_) => Node::Text,
        }
    }
}
