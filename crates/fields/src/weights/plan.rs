//! Table of the kinds that are possible at each location in an output. Kinds are numbered nodes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Definition;
use crate::field::{Kind, Scalar};

/// Numbers of the nodes that are possible for a value, in ascending order.
pub(super) type Set = Arc<[usize]>;

pub(super) enum Part {
    /// Members of an object. Each has the JSON text of its name, including the quotes, and the
    /// nodes that are possible for its value.
    Object(Vec<(Vec<u8>, Set)>),
    Array(Set),
    Choice(Options),
    Text,
    Number,
    Boolean,
}

/// Options of a choice as JSON texts. `weights` is empty or has one weight for each option, and
/// `total` is the sum of the weights.
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

    /// Returns the fraction of the total weight that belongs to options whose text satisfies
    /// `is_left`.
    pub(super) fn share(&self, is_left: impl Fn(&[u8]) -> bool) -> f64 {
        let left = self.texts.iter().zip(&self.weights).filter(|(text, _)| is_left(text));
        left.map(|(_, weight)| weight).sum::<f64>() / self.total
    }
}

/// Definition as a table of nodes. `root` contains the nodes that are possible for the whole
/// output.
pub(super) struct Plan {
    nodes: Vec<Part>,
    pub(super) root: Set,
}

impl Plan {
    /// Builds the table of a definition. Returns `None` if the output can contain no choice with
    /// weights.
    pub(super) fn new(definition: &Definition) -> Option<Self> {
        let kinds = definition.definitions().iter().map(|(_, kind)| kind);
        if !kinds.chain([definition.root()]).any(is_weighted) {
            return None;
        }
        let mut planner =
            Planner { definition, ids: HashMap::new(), kinds: Vec::new(), structures: HashMap::new() };
        let root = planner.set(definition.root());
        let mut nodes = Vec::new();
        while let Some(&kind) = planner.kinds.get(nodes.len()) {
            let node = planner.node(kind);
            nodes.push(node);
        }
        let has_weights =
            nodes.iter().any(|node| matches!(node, Part::Choice(options) if options.is_weighted()));
        has_weights.then_some(Self { nodes, root })
    }

    pub(super) fn node(&self, id: usize) -> &Part {
        &self.nodes[id]
    }

    /// Returns the choice if it has weights and is the only node of the set.
    pub(super) fn weighted(&self, set: &[usize]) -> Option<&Options> {
        match set {
            [only] => match self.node(*only) {
                Part::Choice(options) if options.is_weighted() => Some(options),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Reports whether a kind or one of its parts is a choice with weights. References are not
/// followed.
fn is_weighted(kind: &Kind) -> bool {
    match kind {
        Kind::Choice(choice) => !choice.weights.is_empty(),
        Kind::Described(described) => is_weighted(&described.kind),
        Kind::Composite(composite) => composite.fields.iter().any(|member| is_weighted(&member.kind)),
        Kind::Variant(variant) => variant.variants.iter().any(|branch| is_weighted(&branch.kind)),
        Kind::Array(array) => is_weighted(&array.element),
        _ => false,
    }
}

/// Assigns numbers to kinds, in order of first use.
struct Planner<'d> {
    definition: &'d Definition,
    ids: HashMap<*const Kind, usize>,
    kinds: Vec<&'d Kind>,
    /// Node sets that have been computed for references, by the name of the structure.
    structures: HashMap<&'d str, Set>,
}

impl<'d> Planner<'d> {
    /// Returns the nodes that are possible for a value of a kind. The sets of references are
    /// computed once each.
    fn set(&mut self, kind: &'d Kind) -> Set {
        let Kind::Ref(name) = kind else { return self.whole(kind) };
        if let Some(set) = self.structures.get(name.as_str()) {
            return Arc::clone(set);
        }
        let set = self.whole(kind);
        self.structures.insert(name, Arc::clone(&set));
        set
    }

    /// Computes the nodes that are possible for a value of a kind, by resolving references and
    /// untagged variants. A kind has the same node wherever it is used.
    fn whole(&mut self, kind: &'d Kind) -> Set {
        let definition = self.definition;
        let nodes = definition.alternatives(kind).into_iter().map(|kind| self.id(kind));
        let mut nodes: Vec<usize> = nodes.collect();
        nodes.sort_unstable();
        nodes.into()
    }

    fn id(&mut self, kind: &'d Kind) -> usize {
        let next = self.kinds.len();
        let id = *self.ids.entry(std::ptr::from_ref(kind)).or_insert(next);
        if id == next {
            self.kinds.push(kind);
        }
        id
    }

    fn node(&mut self, kind: &'d Kind) -> Part {
        let name = |name: &str| Scalar::from(name).text().into_bytes();
        match kind {
            Kind::Composite(composite) => {
                let members =
                    composite.fields.iter().map(|member| (name(&member.name), self.set(&member.kind)));
                Part::Object(members.collect())
            }
            Kind::Variant(variant) => {
                let branches = variant.variants.iter();
                let members = branches
                    .map(|branch| (name(branch.name.as_deref().unwrap_or_default()), self.set(&branch.kind)));
                Part::Object(members.collect())
            }
            Kind::Array(array) => Part::Array(self.set(&array.element)),
            Kind::Choice(choice) => Part::Choice(Options::new(&choice.options, &choice.weights)),
            Kind::Constant(value) => Part::Choice(Options::new(std::slice::from_ref(value), &[])),
            Kind::Int(_) | Kind::Float(_) => Part::Number,
            Kind::Boolean => Part::Boolean,
            // References and descriptions have been resolved before, so they do not occur here.
            Kind::String(_) | Kind::Template(_) | Kind::Ref(_) | Kind::Described(_) => Part::Text,
        }
    }
}
