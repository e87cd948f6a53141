//! Table of the kinds that are possible at each location in an output. Kinds are numbered nodes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Definition;
use crate::field::{Kind, Member, Scalar};

/// Possible continuation after a member: the name of the next one, or `None` for the end, and its
/// probability.
pub(super) type Follower<'a> = (Option<&'a [u8]>, f64);

/// Numbers of the nodes that are possible for a value, in ascending order.
pub(super) type Set = Arc<[usize]>;

pub(super) enum Part {
    Object(Object),
    Array(Set),
    Choice(Options),
    Text,
    Number,
    Boolean,
}

/// Members of an object, or the structures of a tagged variant.
pub(super) struct Object {
    /// Members in order. Each has the JSON text of its name, including the quotes, and the nodes
    /// that are possible for its value.
    members: Vec<(Vec<u8>, Set)>,
    rule: Rule,
}

/// Rule for the member that is written next.
enum Rule {
    /// No member has a weight.
    Any,
    /// Exactly one of the members is written. They have these shares, with the sum 1.
    One(Vec<f64>),
    /// The members are written in order.
    Each(Vec<Presence>),
}

#[derive(Clone, Copy)]
enum Presence {
    Required,
    Optional(Option<f64>),
}

/// Probability of an optional member without a given probability. It counts only if another member
/// of the same decision has a given probability.
const EVEN: f64 = 0.5;

impl Object {
    pub(super) fn index(&self, name: &[u8]) -> Option<usize> {
        self.members.iter().position(|(known, _)| known == name)
    }

    pub(super) fn member(&self, name: &[u8]) -> Option<&Set> {
        self.members.iter().find(|(known, _)| known == name).map(|(_, set)| set)
    }

    const fn is_weighted(&self) -> bool {
        !matches!(self.rule, Rule::Any)
    }

    /// Returns what may follow the member `last`, or the opening brace if `last` is `None`. Each
    /// possible member has its name and its probability. The name is `None` for the end of the
    /// object. The sum of all probabilities is 1. Returns `None` if no weight decides.
    pub(super) fn followers(&self, last: Option<usize>) -> Option<Vec<Follower<'_>>> {
        let name = |index: usize| Some(self.members[index].0.as_slice());
        let presences = match &self.rule {
            Rule::Any => return None,
            Rule::One(_) if last.is_some() => return None,
            Rule::One(shares) => {
                return Some(shares.iter().enumerate().map(|(index, share)| (name(index), *share)).collect());
            }
            Rule::Each(presences) => presences,
        };
        let (mut followers, mut left, mut is_weighted) = (Vec::new(), 1.0, false);
        for (index, presence) in presences.iter().enumerate().skip(last.map_or(0, |last| last + 1)) {
            match presence {
                Presence::Required => {
                    followers.push((name(index), left));
                    return is_weighted.then_some(followers);
                }
                Presence::Optional(probability) => {
                    is_weighted |= probability.is_some();
                    let probability = probability.unwrap_or(EVEN);
                    followers.push((name(index), left * probability));
                    left *= 1.0 - probability;
                }
            }
        }
        followers.push((None, left));
        is_weighted.then_some(followers)
    }
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

/// Returns the largest number of weights among which one decides.
pub(crate) fn widest(definition: &Definition) -> usize {
    let plan = Plan::new(definition);
    let nodes = plan.iter().flat_map(|plan| &plan.nodes);
    let widths = nodes.map(|node| match node {
        Part::Choice(options) if options.is_weighted() => options.texts.len(),
        Part::Object(object) if object.is_weighted() => object.members.len(),
        _ => 0,
    });
    widths.max().unwrap_or(0)
}

/// Definition as a table of nodes. `root` contains the nodes that are possible for the whole
/// output.
pub(super) struct Plan {
    nodes: Vec<Part>,
    pub(super) root: Set,
}

impl Plan {
    /// Builds the table of a definition. Returns `None` if the output can contain nothing with
    /// weights.
    pub(super) fn new(definition: &Definition) -> Option<Self> {
        if !has_weights(definition) {
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
        let has_weights = |node: &Part| match node {
            Part::Choice(options) => options.is_weighted(),
            Part::Object(object) => object.is_weighted(),
            _ => false,
        };
        let has_weights = nodes.iter().any(has_weights);
        has_weights.then_some(Self { nodes, root })
    }

    pub(super) fn node(&self, id: usize) -> &Part {
        &self.nodes[id]
    }

    /// Returns the object if it is the only node of the set.
    pub(super) fn object(&self, set: &[usize]) -> Option<&Object> {
        match set {
            [only] => match self.node(*only) {
                Part::Object(object) => Some(object),
                _ => None,
            },
            _ => None,
        }
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

/// Reports whether a part of the definition has weights or a probability.
pub(crate) fn has_weights(definition: &Definition) -> bool {
    let kinds = definition.definitions().iter().map(|(_, kind)| kind);
    kinds.chain([definition.root()]).any(is_weighted)
}

/// Reports whether a kind or one of its parts has weights or a probability. References are not
/// followed.
fn is_weighted(kind: &Kind) -> bool {
    match kind {
        Kind::Choice(choice) => !choice.weights.is_empty(),
        Kind::Described(described) => is_weighted(&described.kind),
        Kind::Composite(composite) => {
            composite.fields.iter().any(|member| member.probability.is_some() || is_weighted(&member.kind))
        }
        Kind::Variant(variant) => {
            !variant.weights.is_empty() || variant.variants.iter().any(|branch| is_weighted(&branch.kind))
        }
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
                let presence = |member: &Member| {
                    if member.optional { Presence::Optional(member.probability) } else { Presence::Required }
                };
                let has_weights = composite.fields.iter().any(|member| member.probability.is_some());
                let presences = has_weights.then(|| composite.fields.iter().map(presence).collect());
                let members =
                    composite.fields.iter().map(|member| (name(&member.name), self.set(&member.kind)));
                Part::Object(Object {
                    members: members.collect(),
                    rule: presences.map_or(Rule::Any, Rule::Each),
                })
            }
            Kind::Variant(variant) => {
                let branches = variant.variants.iter();
                let members = branches
                    .map(|branch| (name(branch.name.as_deref().unwrap_or_default()), self.set(&branch.kind)));
                let members = members.collect();
                let total: f64 = variant.weights.iter().sum();
                let shares: Vec<f64> = variant.weights.iter().map(|weight| weight / total).collect();
                let rule = if shares.is_empty() { Rule::Any } else { Rule::One(shares) };
                Part::Object(Object { members, rule })
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
