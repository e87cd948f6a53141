//! Hash-consed regular expressions with intersection and complement.
//!
//! Each expression exists once, so equal ids mean equal expressions. The constructors normalise
//! expressions with laws that are cheap to check. For example, they drop neutral elements, sort
//! unions and intersections, join character classes and add up counts. This keeps the number of
//! derivatives finite and usually small. Expressions with the same *language* may still have
//! different ids. Minimising the automaton merges their states.
//!
//! Counted repetitions are not expanded into copies: the derivative of `r{m,n}` is `r'·r{m-1,n-1}`,
//! where `r'` is the derivative of `r`.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::CharSet;
use super::automaton::TooLarge;
use super::derivative::Derivatives;
use crate::ledger::Ledger;

/// The id of an expression in one [`Expressions`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ExprId(pub(super) u32);

/// The structure of an expression after normalisation. Only [`Expressions::intern`] and
/// [`Expressions::recursive`] create ids of nodes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Node {
    /// ∅, the language without texts.
    Nothing,
    /// ε, the language of the empty text alone.
    Empty,
    /// The texts of one code point in a non-empty set.
    Class(CharSet),
    /// A text of the first expression followed by a text of the second. The first expression is not
    /// a `Concat`.
    Concat(ExprId, ExprId),
    /// `min` to `max` texts of `inner` in sequence, without an upper limit if `max` is `None`. The
    /// counts are never both 1. If `inner` matches the empty text, `min` is 0.
    Repeat { inner: ExprId, min: u32, max: Option<u32> },
    /// A union of at least two expressions, sorted by id. None of them is an `AnyOf`.
    AnyOf(Arc<[ExprId]>),
    /// An intersection of at least two expressions, sorted by id. None of them is an `AllOf`.
    AllOf(Arc<[ExprId]>),
    /// The complement of an expression. The language of all texts is the complement of ∅.
    Not(ExprId),
    /// The least solution of the equation with this index in [`Expressions::definitions`]; see
    /// [`Expressions::recursive`].
    Recursive(u32),
}

/// A collection of hash-consed regular expressions. Expressions that are equal after normalisation
/// have equal ids.
#[derive(Debug)]
pub(crate) struct Expressions {
    nodes: Vec<Node>,
    facts: Vec<Facts>,
    ids: FxHashMap<Node, ExprId>,
    /// For each recursive expression, the right-hand side of its equation.
    definitions: Vec<ExprId>,
    derivatives: Derivatives,
    work: usize,
    ledger: Option<Rc<Ledger>>,
}

/// Number of ledger steps that are charged for one step of work in this module.
const STEP: usize = 7;

/// Memory charged for one expression in bytes, including its table entries.
const BYTES: usize = 2 * size_of::<Node>() + size_of::<Facts>() + 24;

/// Properties of an expression, computed on creation.
#[derive(Clone, Copy, Debug)]
struct Facts {
    nullable: bool,
    /// True if a recursive expression occurs in the expression.
    recursive: bool,
    /// Minimum and maximum length of the texts, in code points. The maximum is `u32::MAX` if there
    /// is none.
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
    /// ε, the language of the empty text alone.
    pub(crate) const EMPTY: ExprId = ExprId(1);
    /// Σ*, the language of all texts.
    pub(crate) const EVERYTHING: ExprId = ExprId(2);
    /// Σ, the language of all texts of one code point.
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

    /// Creates an empty collection that charges its work and memory to the ledger of a compilation.
    ///
    /// Operations on expressions never fail. Once a limit of the ledger is exceeded,
    /// [`TextDfa::new`](super::TextDfa::new) fails. Code that creates many expressions must call
    /// [`check`](Self::check).
    pub(crate) fn with_ledger(ledger: &Rc<Ledger>) -> Self {
        Self { ledger: Some(Rc::clone(ledger)), ..Self::new() }
    }

    /// Charges `bytes` of memory to the ledger. Does nothing without a ledger.
    pub(super) fn keep(&self, bytes: usize) {
        if let Some(ledger) = &self.ledger {
            ledger.keep(bytes);
        }
    }

    /// Gives back `bytes` that were charged to the ledger. Does nothing without a ledger.
    pub(super) fn release(&self, bytes: usize) {
        if let Some(ledger) = &self.ledger {
            ledger.release(bytes);
        }
    }

    /// Checks the limits of the ledger. Never fails without a ledger.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded.
    pub(crate) fn check(&self) -> Result<(), TooLarge> {
        let excess = self.ledger.as_ref().and_then(|ledger| ledger.excess());
        excess.map_or(Ok(()), |(what, given, limit)| Err(TooLarge { what, given, limit }))
    }

    /// Returns the language of all texts of one code point in `set`.
    pub(crate) fn class(&mut self, set: CharSet) -> ExprId {
        if set.is_empty() { Self::NOTHING } else { self.intern(Node::Class(set)) }
    }

    /// Returns the language whose only text is `text`.
    pub(crate) fn literal(&mut self, text: &str) -> ExprId {
        let mut expr = Self::EMPTY;
        for c in text.chars().rev() {
            let head = self.class(CharSet::single(c));
            expr = self.concat(head, expr);
        }
        expr
    }

    /// Returns the language of a text of `a` followed by a text of `b`.
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

    /// Returns `head · tail`, where `head` is not a concatenation.
    ///
    /// Adjacent repetitions of the same expression become one repetition whose counts are the sums.
    /// Next to an unlimited repetition of a class, optional repetitions of a subset of the class
    /// are dropped.
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

    /// Reports whether `outer{min,max}` is an unlimited repetition of a class that contains the
    /// class `inner`.
    pub(super) fn absorbs(&self, (outer, min, max): Counted, inner: ExprId) -> bool {
        match (self.node(outer), self.node(inner)) {
            (Node::Class(outer), Node::Class(inner)) => (min, max) == (0, None) && inner.is_subset(outer),
            _ => false,
        }
    }

    /// Returns the language of `min` to `max` texts of `expr` in sequence, without an upper limit
    /// if `max` is `None`.
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
            // Each round starts at 0 or 1, so the multiplied counts have no gaps.
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

    /// Returns the union of `items`. The union of no expressions is ∅.
    pub(crate) fn any_of(&mut self, items: Vec<ExprId>) -> ExprId {
        self.union(items)
    }

    /// Returns the intersection of `items`. The intersection of no expressions is the language of
    /// all texts.
    pub(crate) fn all_of(&mut self, items: Vec<ExprId>) -> ExprId {
        self.intersection(items)
    }

    /// Returns the complement of `expr`: all texts that are not in its language.
    pub(crate) fn not(&mut self, expr: ExprId) -> ExprId {
        match *self.node(expr) {
            Node::Not(inner) => inner,
            _ => self.intern(Node::Not(expr)),
        }
    }

    /// Creates an expression that stands for the least solution of an equation.
    /// [`define`](Self::define) sets the equation.
    ///
    /// `nullable` says whether the solution contains the empty text. Repetitions with look-around
    /// need such expressions. The condition of a round concerns all the text after the round, so a
    /// round alone has no language.
    pub(super) fn recursive(&mut self, nullable: bool) -> ExprId {
        let node = Node::Recursive(self.definitions.len() as u32);
        self.definitions.push(Self::NOTHING);
        self.add(node, Facts { nullable, recursive: true, lengths: (0, u32::MAX) })
    }

    /// Sets `definition` as the right-hand side of the equation of `recursive`. `recursive` may
    /// occur in `definition`, but only after at least one code point, and not under a complement.
    pub(super) fn define(&mut self, recursive: ExprId, definition: ExprId) {
        if let Node::Recursive(index) = *self.node(recursive) {
            self.definitions[index as usize] = definition;
        }
    }

    /// Reports whether the language of `expr` contains the empty text.
    pub(crate) fn nullable(&self, expr: ExprId) -> bool {
        self.facts[expr.0 as usize].nullable
    }

    /// Returns the derivative of `expr` by `c`: the texts that may follow `c` in texts of the
    /// language.
    pub(crate) fn derive(&mut self, expr: ExprId, c: char) -> ExprId {
        let pieces = self.pieces(expr);
        pieces[pieces.partition_point(|&(start, _)| start <= c.into()) - 1].1
    }

    /// Returns the ranges of code points within which the derivative of `expr` is the same: the
    /// first code point of each range, in order. The first range starts at 0.
    #[cfg(test)]
    pub(crate) fn partition(&mut self, expr: ExprId) -> Arc<[u32]> {
        self.pieces(expr).iter().map(|&(start, _)| start).collect()
    }

    /// Returns the derivatives of `expr` by all code points, as sorted pairs `(first, derivative)`.
    /// `first` is the first code point of a range in which the derivative is the same. The first
    /// range starts at 0.
    pub(crate) fn pieces(&mut self, expr: ExprId) -> Arc<[(u32, ExprId)]> {
        let mut derivatives = std::mem::replace(&mut self.derivatives, Derivatives::over_code_points());
        let pieces = derivatives.of(self, expr);
        self.derivatives = derivatives;
        pieces
    }

    /// Returns the number of expressions created so far.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the number of steps of work so far, which is proportional to the time spent.
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

    /// Reports whether a recursive expression occurs in `expr`.
    pub(super) fn is_recursive(&self, expr: ExprId) -> bool {
        self.facts[expr.0 as usize].recursive
    }

    /// Splits a concatenation into its first expression and the rest. The rest of any other
    /// expression is ε.
    pub(super) fn split(&self, expr: ExprId) -> (ExprId, ExprId) {
        match *self.node(expr) {
            Node::Concat(head, tail) => (head, tail),
            _ => (expr, Self::EMPTY),
        }
    }

    /// Returns a repetition as its repeated expression and its counts. Any other expression is
    /// returned with the counts 1 and 1.
    pub(super) fn counted(&self, expr: ExprId) -> Counted {
        match *self.node(expr) {
            Node::Repeat { inner, min, max } => (inner, min, max),
            _ if expr == Self::EVERYTHING => (Self::ANY, 0, None),
            _ => (expr, 1, Some(1)),
        }
    }

    /// Returns the id of `node`, to which no law of normalisation applies any more.
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

    /// Returns the minimum and maximum length of the texts of `expr`, in code points. The maximum
    /// is `u32::MAX` if there is none. Shorter or longer texts cannot exist, but texts of exactly
    /// these lengths need not exist.
    pub(super) fn lengths(&self, expr: ExprId) -> (u32, u32) {
        self.facts[expr.0 as usize].lengths
    }

    fn facts_of(&self, node: &Node) -> Facts {
        let facts = |expr: &ExprId| self.facts[expr.0 as usize];
        let all = |items: &[ExprId]| items.iter().all(|item| facts(item).nullable);
        let any = |items: &[ExprId]| items.iter().any(|item| facts(item).nullable);
        let nullable = match node {
            // Not used for recursive nodes: `recursive` sets their facts.
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

/// A repeated expression with its minimum and maximum count. The maximum is `None` if there is
/// none.
pub(super) type Counted = (ExprId, u32, Option<u32>);

/// Merges two adjacent repetitions into one, whose counts are the sums. `None` if they repeat
/// different expressions, or if a sum overflows.
fn added((inner, min, max): Counted, (other, other_min, other_max): Counted) -> Option<Counted> {
    let min = min.checked_add(other_min).filter(|_| inner == other)?;
    let max = match (max, other_max) {
        (Some(max), Some(other_max)) => Some(max.checked_add(other_max)?),
        _ => None,
    };
    Some((inner, min, max))
}
