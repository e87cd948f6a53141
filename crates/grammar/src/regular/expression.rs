//! Hash-consed regular expressions with intersection and complement.
//!
//! Each expression exists once, so equal ids mean equal expressions, and the smart constructors apply the laws that are
//! cheap to see: neutral and absorbing elements, order and repetition in unions and intersections, classes that join,
//! counts that add up. That keeps the number of derivatives finite and mostly small; it does not make equal *languages*
//! equal, which the automaton's minimisation does.
//!
//! Counted repetition is never unrolled: the derivative of `r{m,n}` is `r'·r{m-1,n-1}`.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::CharSet;
use super::automaton::TooLarge;
use super::derivative::Derivatives;
use crate::ledger::Ledger;

/// An expression of one [`Expressions`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ExprId(pub(super) u32);

/// What an expression is made of. Only [`Expressions::intern`] makes ids of these, after normalisation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Node {
    /// No text.
    Nothing,
    /// The empty text.
    Empty,
    /// One code point of a set that is not empty.
    Class(CharSet),
    /// One after the other; the first is no concatenation itself.
    Concat(ExprId, ExprId),
    /// So many times; never exactly once. Where the repeated expression may be empty, `min` is 0.
    Repeat { inner: ExprId, min: u32, max: Option<u32> },
    /// At least two, sorted, none of them a union.
    AnyOf(Arc<[ExprId]>),
    /// At least two, sorted, none of them an intersection.
    AllOf(Arc<[ExprId]>),
    /// Every other text. The complement of nothing is everything.
    Not(ExprId),
    /// The least solution of an equation: see [`Expressions::recursive`].
    Recursive(u32),
}

/// Hash-consed regular expressions. Equal expressions (after normalisation) have equal ids.
#[derive(Debug)]
pub(crate) struct Expressions {
    nodes: Vec<Node>,
    facts: Vec<Facts>,
    ids: FxHashMap<Node, ExprId>,
    /// The right sides of the recursive expressions' equations.
    definitions: Vec<ExprId>,
    derivatives: Derivatives,
    work: usize,
    ledger: Option<Rc<Ledger>>,
}

/// Steps of the ledger for one step of work here.
const STEP: usize = 7;

/// The bytes that an expression takes, with its place in the tables.
const BYTES: usize = 2 * size_of::<Node>() + size_of::<Facts>() + 24;

/// What is known of an expression once it is made.
#[derive(Clone, Copy, Debug)]
struct Facts {
    nullable: bool,
    /// Whether a recursive expression occurs in it.
    recursive: bool,
    /// No text is shorter, and none longer, in code points. `u32::MAX` at most is no bound.
    lengths: (u32, u32),
}

impl Default for Expressions {
    fn default() -> Self {
        Self::new()
    }
}

impl Expressions {
    /// ∅, the language without texts.
    pub(crate) const NOTHING: ExprId = ExprId(0);
    /// ε, the empty text alone.
    pub(crate) const EMPTY: ExprId = ExprId(1);
    /// Σ*, every text.
    pub(crate) const EVERYTHING: ExprId = ExprId(2);
    /// Σ, every text of one code point.
    pub(crate) const ANY: ExprId = ExprId(3);

    pub(crate) fn new() -> Self {
        let mut expressions = Self {
            nodes: Vec::new(),
            facts: Vec::new(),
            ids: FxHashMap::default(),
            definitions: Vec::new(),
            derivatives: Derivatives::over_code_points(),
            work: 0,
            ledger: None,
        };
        for node in [Node::Nothing, Node::Empty, Node::Not(Self::NOTHING), Node::Class(CharSet::any())] {
            expressions.intern(node);
        }
        expressions
    }

    /// Creates expressions that charge their work and memory to the ledger of a compilation.
    ///
    /// No operation here fails. [`TextDfa::new`](super::TextDfa::new) fails once the ledger is over. Code
    /// that makes many expressions calls [`check`](Self::check).
    pub(crate) fn with_ledger(ledger: &Rc<Ledger>) -> Self {
        Self { ledger: Some(Rc::clone(ledger)), ..Self::new() }
    }

    /// Runs `act` without charging the ledger, for results that other compilations use too.
    pub(crate) fn uncharged<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let ledger = self.ledger.take();
        let result = act(self);
        self.ledger = ledger;
        result
    }

    /// Charges bytes of memory.
    pub(super) fn keep(&self, bytes: usize) {
        if let Some(ledger) = &self.ledger {
            ledger.keep(bytes);
        }
    }

    /// Gives back bytes that were charged.
    pub(super) fn release(&self, bytes: usize) {
        if let Some(ledger) = &self.ledger {
            ledger.release(bytes);
        }
    }

    /// Fails once the ledger is over.
    pub(crate) fn check(&self) -> Result<(), TooLarge> {
        let excess = self.ledger.as_ref().and_then(|ledger| ledger.excess());
        excess.map_or(Ok(()), |(what, given, limit)| Err(TooLarge { what, given, limit }))
    }

    /// One code point of the set.
    pub(crate) fn class(&mut self, set: CharSet) -> ExprId {
        if set.is_empty() { Self::NOTHING } else { self.intern(Node::Class(set)) }
    }

    /// Exactly this text.
    pub(crate) fn literal(&mut self, text: &str) -> ExprId {
        let mut expr = Self::EMPTY;
        for c in text.chars().rev() {
            let head = self.class(CharSet::single(c));
            expr = self.concat(head, expr);
        }
        expr
    }

    /// A text of `a`, then one of `b`.
    pub(crate) fn concat(&mut self, a: ExprId, b: ExprId) -> ExprId {
        if a == Self::NOTHING || b == Self::NOTHING {
            return Self::NOTHING;
        }
        if (b == Self::EVERYTHING && self.nullable(a)) || (a == Self::EVERYTHING && self.nullable(b)) {
            return Self::EVERYTHING;
        }
        let mut heads = Vec::new();
        let mut spine = a;
        while let &Node::Concat(head, tail) = self.node(spine) {
            heads.push(head);
            spine = tail;
        }
        heads.push(spine);
        heads.iter().rev().fold(b, |tail, &head| self.prepend(head, tail))
    }

    /// `head · tail`, where `head` is no concatenation. Neighbouring repetitions of the same expression add up, and
    /// beside any number of characters of a class more or less of them make no difference.
    fn prepend(&mut self, mut head: ExprId, mut tail: ExprId) -> ExprId {
        loop {
            if head == Self::EMPTY {
                return tail;
            }
            if tail == Self::EMPTY {
                return head;
            }
            let (next, rest) = self.split(tail);
            let (first, second) = (self.counted(head), self.counted(next));
            if let Some((inner, min, max)) =
                added(first, second).filter(|_| first.0 != head || second.0 != next)
            {
                head = self.repeat(inner, min, max);
                tail = rest;
            } else if first.1 == 0 && self.absorbs(second, first.0) {
                return tail;
            } else if second.1 == 0 && self.absorbs(first, second.0) {
                tail = rest;
            } else {
                if first.2 != Some(first.1) && self.absorbs(second, first.0) {
                    head = self.repeat(first.0, first.1, Some(first.1));
                }
                return self.intern(Node::Concat(head, tail));
            }
        }
    }

    /// Whether a repetition is of any number of a class's characters, among them all those of another class.
    pub(super) fn absorbs(&self, (outer, min, max): Counted, inner: ExprId) -> bool {
        match (self.node(outer), self.node(inner)) {
            (Node::Class(outer), Node::Class(inner)) => (min, max) == (0, None) && inner.is_subset(outer),
            _ => false,
        }
    }

    /// Between `min` and `max` texts of `expr`, one after the other.
    pub(crate) fn repeat(&mut self, expr: ExprId, min: u32, max: Option<u32>) -> ExprId {
        if max.is_some_and(|max| max < min) {
            return Self::NOTHING;
        }
        if expr == Self::EMPTY || max == Some(0) {
            return Self::EMPTY;
        }
        if expr == Self::NOTHING {
            return if min == 0 { Self::EMPTY } else { Self::NOTHING };
        }
        let nullable = self.nullable(expr);
        if expr == Self::EVERYTHING || (max == Some(1) && (min == 1 || nullable)) {
            return expr;
        }
        let min = if nullable { 0 } else { min };
        if let &Node::Repeat { inner, min: inner_min @ 0..=1, max: inner_max } = self.node(expr) {
            // Counts below and up to the most of each round leave no gaps.
            let most = match (inner_max, max) {
                (Some(inner_max), Some(max)) => inner_max.checked_mul(max).map(Some),
                _ => Some(None),
            };
            if let Some(most) = most {
                return self.repeat(inner, inner_min * min, most);
            }
        }
        if expr == Self::ANY && min == 0 && max.is_none() {
            return Self::EVERYTHING;
        }
        self.intern(Node::Repeat { inner: expr, min, max })
    }

    /// The texts of any of these.
    pub(crate) fn any_of(&mut self, items: Vec<ExprId>) -> ExprId {
        self.union(items)
    }

    /// The texts of all of these.
    pub(crate) fn all_of(&mut self, items: Vec<ExprId>) -> ExprId {
        self.intersection(items)
    }

    /// The texts that are not in `expr`.
    pub(crate) fn not(&mut self, expr: ExprId) -> ExprId {
        match *self.node(expr) {
            Node::Not(inner) => inner,
            _ => self.intern(Node::Not(expr)),
        }
    }

    /// A new expression that stands for the least solution of an equation, which [`define`](Self::define) gives.
    ///
    /// `nullable` says whether the solution holds the empty text. Only repetitions with look-ahead inside need this:
    /// each round's condition is about all the text that follows, so a round is not a language by itself.
    pub(super) fn recursive(&mut self, nullable: bool) -> ExprId {
        let node = Node::Recursive(self.definitions.len() as u32);
        self.definitions.push(Self::NOTHING);
        self.add(node, Facts { nullable, recursive: true, lengths: (0, u32::MAX) })
    }

    /// Gives the right side of a recursive expression's equation. The expression itself may occur there behind at least
    /// one code point, and not under a complement.
    pub(super) fn define(&mut self, recursive: ExprId, definition: ExprId) {
        if let Node::Recursive(index) = *self.node(recursive) {
            self.definitions[index as usize] = definition;
        }
    }

    /// Whether the empty text is in the language.
    pub(crate) fn nullable(&self, expr: ExprId) -> bool {
        self.facts[expr.0 as usize].nullable
    }

    /// What may follow `c` in the language.
    pub(crate) fn derive(&mut self, expr: ExprId, c: char) -> ExprId {
        let pieces = self.pieces(expr);
        pieces[pieces.partition_point(|&(start, _)| start <= c.into()) - 1].1
    }

    /// The first code points of the ranges within which all derivatives agree, in order; the first is 0.
    #[cfg(test)]
    pub(crate) fn partition(&mut self, expr: ExprId) -> Arc<[u32]> {
        self.pieces(expr).iter().map(|&(start, _)| start).collect()
    }

    /// The derivatives by ranges of code points: within a range all derivatives agree; the first begins at 0.
    pub(crate) fn pieces(&mut self, expr: ExprId) -> Arc<[(u32, ExprId)]> {
        let mut derivatives = std::mem::replace(&mut self.derivatives, Derivatives::over_code_points());
        let pieces = derivatives.of(self, expr);
        self.derivatives = derivatives;
        pieces
    }

    /// The number of expressions made so far.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Steps taken so far, in proportion to the time spent.
    pub(crate) fn work(&self) -> usize {
        self.work
    }

    pub(super) fn spend(&mut self, work: usize) {
        self.work += work;
        if let Some(ledger) = &self.ledger {
            ledger.note(STEP * work);
        }
    }

    pub(super) fn node(&self, expr: ExprId) -> &Node {
        &self.nodes[expr.0 as usize]
    }

    pub(super) fn definition(&self, index: u32) -> ExprId {
        self.definitions[index as usize]
    }

    /// Whether a recursive expression occurs in it.
    pub(super) fn is_recursive(&self, expr: ExprId) -> bool {
        self.facts[expr.0 as usize].recursive
    }

    /// The first expression of a concatenation, and the rest.
    pub(super) fn split(&self, expr: ExprId) -> (ExprId, ExprId) {
        match *self.node(expr) {
            Node::Concat(head, tail) => (head, tail),
            _ => (expr, Self::EMPTY),
        }
    }

    /// What is repeated, and how often; an expression that is no repetition occurs once.
    pub(super) fn counted(&self, expr: ExprId) -> Counted {
        match *self.node(expr) {
            Node::Repeat { inner, min, max } => (inner, min, max),
            _ if expr == Self::EVERYTHING => (Self::ANY, 0, None),
            _ => (expr, 1, Some(1)),
        }
    }

    /// The id of a node that no law makes simpler.
    pub(super) fn intern(&mut self, node: Node) -> ExprId {
        self.spend(1);
        if let Some(&id) = self.ids.get(&node) {
            return id;
        }
        let facts = self.facts_of(&node);
        let id = self.add(node.clone(), facts);
        self.ids.insert(node, id);
        id
    }

    fn add(&mut self, node: Node, facts: Facts) -> ExprId {
        let id = ExprId(self.nodes.len() as u32);
        let own = match &node {
            Node::AnyOf(items) | Node::AllOf(items) => 2 * size_of_val(&**items),
            Node::Class(set) => size_of_val(set.ranges()),
            _ => 0,
        };
        self.keep(BYTES + own);
        self.nodes.push(node);
        self.facts.push(facts);
        id
    }

    /// Bounds on the lengths of texts, in code points: `u32::MAX` at most is no bound. They need not be
    /// tight.
    pub(super) fn lengths(&self, expr: ExprId) -> (u32, u32) {
        self.facts[expr.0 as usize].lengths
    }

    fn facts_of(&self, node: &Node) -> Facts {
        let facts = |expr: &ExprId| self.facts[expr.0 as usize];
        let all = |items: &[ExprId]| items.iter().all(|item| facts(item).nullable);
        let any = |items: &[ExprId]| items.iter().any(|item| facts(item).nullable);
        let nullable = match node {
            // Made by `recursive`, which knows.
            Node::Nothing | Node::Class(_) | Node::Recursive(_) => false,
            Node::Empty => true,
            Node::Concat(a, b) => all(&[*a, *b]),
            Node::Repeat { inner, min, .. } => *min == 0 || facts(inner).nullable,
            Node::AnyOf(items) => any(items),
            Node::AllOf(items) => all(items),
            Node::Not(inner) => !facts(inner).nullable,
        };
        let recursive = match node {
            Node::Nothing | Node::Class(_) | Node::Empty => false,
            Node::Recursive(_) => true,
            Node::Concat(a, b) => facts(a).recursive || facts(b).recursive,
            Node::Repeat { inner, .. } | Node::Not(inner) => facts(inner).recursive,
            Node::AnyOf(items) | Node::AllOf(items) => items.iter().any(|item| facts(item).recursive),
        };
        Facts { nullable, recursive, lengths: self.lengths_of(node) }
    }

    fn lengths_of(&self, node: &Node) -> (u32, u32) {
        let mins = |items: &[ExprId]| items.iter().map(|&item| self.lengths(item).0).collect::<Vec<_>>();
        let maxes = |items: &[ExprId]| items.iter().map(|&item| self.lengths(item).1).collect::<Vec<_>>();
        match node {
            Node::Nothing => (u32::MAX, 0),
            Node::Empty => (0, 0),
            Node::Class(_) => (1, 1),
            Node::Concat(a, b) => {
                let ((min, max), (more, most)) = (self.lengths(*a), self.lengths(*b));
                (min.saturating_add(more), max.saturating_add(most))
            }
            Node::Repeat { inner, min, max } => {
                let (least, most) = self.lengths(*inner);
                (least.saturating_mul(*min), max.map_or(u32::MAX, |max| most.saturating_mul(max)))
            }
            Node::AnyOf(items) => (
                mins(items).into_iter().min().unwrap_or(0),
                maxes(items).into_iter().max().unwrap_or(u32::MAX),
            ),
            Node::AllOf(items) => (
                mins(items).into_iter().max().unwrap_or(0),
                maxes(items).into_iter().min().unwrap_or(u32::MAX),
            ),
            Node::Not(_) | Node::Recursive(_) => (0, u32::MAX),
        }
    }
}

/// What is repeated, how often at least, and how often at most.
pub(super) type Counted = (ExprId, u32, Option<u32>);

/// Two repetitions of the same expression, one after the other, as one.
fn added((inner, min, max): Counted, (other, other_min, other_max): Counted) -> Option<Counted> {
    let min = min.checked_add(other_min).filter(|_| inner == other)?;
    let max = match (max, other_max) {
        (Some(max), Some(other_max)) => Some(max.checked_add(other_max)?),
        _ => None,
    };
    Some((inner, min, max))
}
