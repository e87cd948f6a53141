//! Expressions that move between collections.

use super::expression::{ExprId, Expressions, Node};

/// An expression outside a collection. It can be added to any collection.
///
/// Adding it takes much less time than building the expression again, because its nodes are
/// normalised already.
#[derive(Debug)]
pub(crate) struct Portable {
    /// The nodes of the expression, each after its parts. The id of a part is its index here. The
    /// last node is the expression itself.
    nodes: Vec<Node>,
}

impl Portable {
    /// Copies `expr` out of `expressions`.
    ///
    /// # Panics
    /// Panics if a recursive expression occurs in `expr`, because its equation would be lost.
    pub(crate) fn new(expressions: &Expressions, expr: ExprId) -> Self {
        assert!(!expressions.is_recursive(expr), "the equation of a recursive expression would be lost");
        // The parts of a node have smaller ids than the node.
        let mut occurs = vec![false; expr.0 as usize + 1];
        occurs[expr.0 as usize] = true;
        for id in (0..=expr.0).rev() {
            if occurs[id as usize] {
                expressions.node(ExprId(id)).for_parts(|part| occurs[part.0 as usize] = true);
            }
        }
        let mut places = vec![ExprId(0); occurs.len()];
        let mut nodes = Vec::new();
        for id in (0..=expr.0).filter(|&id| occurs[id as usize]) {
            places[id as usize] = ExprId(nodes.len() as u32);
            nodes.push(expressions.node(ExprId(id)).with_parts(|part| places[part.0 as usize]));
        }
        Self { nodes }
    }

    /// Adds the expression to `expressions`, and returns its id there.
    pub(crate) fn add_to(&self, expressions: &mut Expressions) -> ExprId {
        let mut ids = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let node = node.with_parts(|part| ids[part.0 as usize]);
            ids.push(expressions.intern(node));
        }
        ids.last().copied().unwrap_or(Expressions::NOTHING)
    }
}

impl Node {
    /// Calls `act` with each part of the node.
    fn for_parts(&self, mut act: impl FnMut(ExprId)) {
        match self {
            Self::Nothing | Self::Empty | Self::Class(_) | Self::Recursive(_) => {}
            Self::Concat(head, tail) => {
                act(*head);
                act(*tail);
            }
            Self::Repeat { inner, .. } | Self::Not(inner) => act(*inner),
            Self::AnyOf(items) | Self::AllOf(items) => items.iter().copied().for_each(act),
        }
    }

    /// Returns the node with the id of each part replaced.
    fn with_parts(&self, id: impl Fn(ExprId) -> ExprId) -> Self {
        let sorted = |items: &[ExprId]| {
            let mut items: Vec<_> = items.iter().map(|&item| id(item)).collect();
            items.sort_unstable();
            items.into()
        };
        match self {
            Self::Nothing | Self::Empty | Self::Class(_) | Self::Recursive(_) => self.clone(),
            Self::Concat(head, tail) => Self::Concat(id(*head), id(*tail)),
            Self::Repeat { inner, min, max } => Self::Repeat { inner: id(*inner), min: *min, max: *max },
            Self::Not(inner) => Self::Not(id(*inner)),
            Self::AnyOf(items) => Self::AnyOf(sorted(items)),
            Self::AllOf(items) => Self::AllOf(sorted(items)),
        }
    }
}
