//! Normalises unions and intersections of expressions.
//!
//! Each member of a union is split into a head and a tail: `head · tail`. Members with equal tails
//! are joined into one if their heads are classes, or repetitions of the same expression. Members
//! with equal heads are joined by the union of their tails. For example, `a·x | b·x` becomes
//! `[ab]·x`, `r{1,3} | r{2,5}` becomes `r{1,5}`, and `a·x | a·y` becomes `a·(x | y)`. Otherwise,
//! the derivatives of a counted repetition would contain a separate member for each count.

use super::CharSet;
use super::expression::{ExprId, Expressions, Node};

/// Maximum depth to which the tails of members with equal heads are joined. Deeper tails are joined
/// when a derivative reaches them.
const FACTORING: u32 = 8;

/// Maximum number of members of a union that results from distributing an intersection over unions.
const PARTS: usize = 1 << 10;

/// Maximum size of a union whose members are first compared pair by pair. If no two members can be
/// joined, sorting is then avoided.
const SMALL: usize = 6;

impl Expressions {
    pub(super) fn union(&mut self, items: Vec<ExprId>) -> ExprId {
        self.union_within(items, FACTORING)
    }

    fn union_within(&mut self, items: Vec<ExprId>, depth: u32) -> ExprId {
        let Some(mut items) = self.flat_union(items) else { return Self::EVERYTHING };
        self.drop_absorbed(&mut items);
        if let &[] | &[_] = items.as_slice() {
            return items.first().copied().unwrap_or(Self::NOTHING);
        }
        let count = items.len();
        let mut terms = items.iter().map(|&item| self.split(item)).collect::<Vec<_>>();
        if count <= SMALL && !any_pair(&terms, |a, b| a.0 == b.0 || a.1 == b.1) {
            return self.union_of(items);
        }
        self.join_heads(&mut terms);
        self.join_tails(&mut terms, depth);
        if terms.len() == count {
            return self.union_of(items);
        }
        let joined = terms.into_iter().map(|(head, tail)| self.concat(head, tail)).collect();
        match self.flat_union(joined) {
            Some(items) => self.union_of(items),
            None => Self::EVERYTHING,
        }
    }

    /// Flattens and sorts the members of a union, and removes duplicates and redundant members.
    /// Returns `None` if the union contains all texts.
    fn flat_union(&mut self, items: Vec<ExprId>) -> Option<Vec<ExprId>> {
        self.spend(items.len());
        let mut flat = Vec::with_capacity(items.len());
        for item in items {
            match self.node(item) {
                Node::Nothing => {}
                Node::AnyOf(members) => flat.extend_from_slice(members),
                _ => flat.push(item),
            }
        }
        flat.sort_unstable();
        flat.dedup();
        let is_complemented =
            |&item: &ExprId| matches!(self.node(item), Node::Not(inner) if flat.binary_search(inner).is_ok());
        if flat.contains(&Self::EVERYTHING) || flat.iter().any(is_complemented) {
            return None;
        }
        // The empty text has a smaller id than all other expressions except the empty language.
        if flat.len() > 1 && flat[0] == Self::EMPTY && flat[1..].iter().any(|&item| self.nullable(item)) {
            flat.remove(0);
        }
        Some(flat)
    }

    fn union_of(&mut self, items: Vec<ExprId>) -> ExprId {
        match *items.as_slice() {
            [] => Self::NOTHING,
            [item] => item,
            [Self::EMPTY, item] => self.repeat(item, 0, Some(1)),
            _ => self.intern(Node::AnyOf(items.into())),
        }
    }

    /// Removes each member `r·x` if `x` is also a member, and `x` begins with an unlimited
    /// repetition of a class that contains `r`.
    fn drop_absorbed(&self, items: &mut Vec<ExprId>) {
        let is_absorbed = |&item: &ExprId| {
            let (head, tail) = self.split(item);
            items.binary_search(&tail).is_ok() && self.begins_with_any_of(tail, self.counted(head).0)
        };
        if items.iter().any(is_absorbed) {
            *items = items.iter().copied().filter(|item| !is_absorbed(item)).collect();
        }
    }

    /// Reports whether `tail` begins with an unlimited repetition of a class that contains the
    /// class `inner`.
    fn begins_with_any_of(&self, tail: ExprId, inner: ExprId) -> bool {
        self.absorbs(self.counted(self.split(tail).0), inner)
    }

    /// Joins terms `(head, tail)` with equal tails if their heads are classes, or repetitions of
    /// the same expression whose counts leave no gap.
    fn join_heads(&mut self, terms: &mut Vec<(ExprId, ExprId)>) {
        let is_class = |expr: ExprId| matches!(self.node(expr), Node::Class(_));
        let mut counts = Vec::new();
        for &(head, tail) in &*terms {
            let (inner, ..) = self.counted(head);
            if inner != head && is_class(inner) {
                counts.push((tail, inner));
            }
        }
        counts.sort_unstable();
        let mut keyed = Vec::with_capacity(terms.len());
        for &(head, tail) in &*terms {
            let (inner, min, max) = self.counted(head);
            // A single class is joined with a count of the same class if possible, and with other
            // single classes otherwise.
            let is_single = is_class(head) && counts.binary_search(&(tail, head)).is_err();
            // If the tail matches any number, the smallest count contains the others.
            let max = if !is_single && self.begins_with_any_of(tail, inner) { None } else { max };
            keyed.push((tail, if is_single { None } else { Some(inner) }, inner, min, max));
        }
        keyed.sort_unstable();
        if keyed.windows(2).all(|pair| (pair[0].0, pair[0].1) != (pair[1].0, pair[1].1)) {
            return;
        }
        terms.clear();
        let mut at = 0;
        while at < keyed.len() {
            let (tail, key, inner, min, mut max) = keyed[at];
            at += 1;
            let head = if key.is_none() {
                let mut ranges = self.ranges_of(inner).to_vec();
                while keyed.get(at).is_some_and(|next| (next.0, next.1) == (tail, None)) {
                    ranges.extend_from_slice(self.ranges_of(keyed[at].2));
                    at += 1;
                }
                self.class(CharSet::from_code_points(ranges))
            } else {
                while let Some(&(next_tail, next_key, _, next_min, next_max)) = keyed.get(at) {
                    let is_gap = max.is_some_and(|max| next_min > max.saturating_add(1));
                    if (next_tail, next_key) != (tail, key) || is_gap {
                        break;
                    }
                    max = max.zip(next_max).map(|(max, next_max)| max.max(next_max));
                    at += 1;
                }
                self.repeat(inner, min, max)
            };
            terms.push((head, tail));
        }
    }

    fn ranges_of(&self, class: ExprId) -> &[(u32, u32)] {
        match self.node(class) {
            Node::Class(set) => set.ranges(),
            _ => &[],
        }
    }

    /// Joins terms `(head, tail)` with equal heads, up to `depth` levels deep.
    fn join_tails(&mut self, terms: &mut Vec<(ExprId, ExprId)>, depth: u32) {
        terms.sort_unstable();
        if depth == 0 || terms.windows(2).all(|pair| pair[0].0 != pair[1].0) {
            return;
        }
        let mut joined = Vec::with_capacity(terms.len());
        for group in terms.chunk_by(|a, b| a.0 == b.0) {
            let tail = match *group {
                [(_, tail)] => tail,
                _ => self.union_within(group.iter().map(|term| term.1).collect(), depth - 1),
            };
            joined.push((group[0].0, tail));
        }
        *terms = joined;
    }

    pub(super) fn intersection(&mut self, items: Vec<ExprId>) -> ExprId {
        self.spend(items.len());
        let mut flat = Vec::with_capacity(items.len());
        let mut excluded = Vec::new();
        let mut run: Option<(CharSet, u32, Option<u32>)> = None;
        let mut pending = items;
        while let Some(item) = pending.pop() {
            match self.node(item) {
                Node::Nothing => return Self::NOTHING,
                Node::AllOf(members) => pending.extend_from_slice(members),
                &Node::Not(inner) => excluded.push(inner),
                _ => match (self.run_of_class(item), run.take()) {
                    (Some(new), None) => run = Some(new),
                    (Some((set, min, max)), Some((other, other_min, other_max))) => {
                        let most = max.map_or(other_max, |max| Some(other_max.map_or(max, |o| o.min(max))));
                        run = Some((set.intersect(&other), min.max(other_min), most));
                    }
                    (None, old) => {
                        run = old;
                        flat.push(item);
                    }
                },
            }
        }
        let excluded = self.union(excluded);
        let least = flat.iter().map(|&item| self.lengths(item).0).max().unwrap_or(0);
        let most = flat.iter().map(|&item| self.lengths(item).1).min().unwrap_or(u32::MAX);
        if most < least {
            return Self::NOTHING;
        }
        if let Some((mut set, mut min, mut max)) = run {
            if max.is_some_and(|max| max < least) || min > most {
                return Self::NOTHING;
            }
            // Bounds that the other members already satisfy need no counting.
            if (min, max) != (1, Some(1)) {
                max = max.filter(|&max| max < most);
                min = if min <= least { 0 } else { min };
            }
            if (min, max) == (1, Some(1)) {
                set = self.without_classes(set, excluded);
            }
            let class = self.class(set);
            let run = self.repeat(class, min, max);
            if run != Self::EVERYTHING || flat.is_empty() {
                flat.push(run);
            }
        }
        self.intersect_with(flat, excluded)
    }

    /// Returns `set` without the members of the classes in `excluded`, which may be a class or a
    /// union.
    fn without_classes(&self, set: CharSet, excluded: ExprId) -> CharSet {
        let members = match self.node(excluded) {
            Node::AnyOf(members) => members,
            _ => std::slice::from_ref(&excluded),
        };
        members.iter().fold(set, |set, &member| match self.node(member) {
            Node::Class(class) => set.without(class),
            _ => set,
        })
    }

    /// Returns the intersection of the expressions in `flat`, without the texts of `excluded`.
    fn intersect_with(&mut self, mut flat: Vec<ExprId>, excluded: ExprId) -> ExprId {
        flat.sort_unstable();
        flat.dedup();
        let is_excluded = |&item: &ExprId| match self.node(excluded) {
            Node::AnyOf(members) => members.binary_search(&item).is_ok(),
            _ => item == excluded,
        };
        if flat.contains(&Self::NOTHING) || excluded == Self::EVERYTHING || flat.iter().any(is_excluded) {
            return Self::NOTHING;
        }
        // The excluded classes have already been removed from the class.
        let is_class = |item: ExprId| matches!(self.node(item), Node::Class(_));
        let is_apart = is_class(excluded) && flat.iter().any(|&item| is_class(item));
        if excluded != Self::NOTHING && !is_apart {
            flat.push(self.not(excluded));
            flat.sort_unstable();
        }
        if flat.contains(&Self::EMPTY) {
            let is_empty_text_in = flat.iter().all(|&item| self.nullable(item));
            return if is_empty_text_in { Self::EMPTY } else { Self::NOTHING };
        }
        if let Some(at) = self.recursive_union(&flat) {
            return self.distribute(flat, at);
        }
        match *flat.as_slice() {
            [] => Self::EVERYTHING,
            [item] => item,
            _ => self.intern(Node::AllOf(flat.into())),
        }
    }

    /// Returns a class with its minimum and maximum count, if `item` is a class or a repeated
    /// class. An intersection of repeated classes is again a repeated class.
    fn run_of_class(&self, item: ExprId) -> Option<(CharSet, u32, Option<u32>)> {
        let (inner, min, max) = self.counted(item);
        match self.node(inner) {
            Node::Class(set) => Some((set.clone(), min, max)),
            _ => None,
        }
    }

    /// Returns the index in `items` of the first union that contains a recursive expression. `None`
    /// if there is no such union, or if distributing the intersection would create more than
    /// [`PARTS`] parts.
    fn recursive_union(&self, items: &[ExprId]) -> Option<usize> {
        let mut first = None;
        let mut parts = 1_usize;
        for (at, &item) in items.iter().enumerate() {
            match self.node(item) {
                Node::AnyOf(members) if self.is_recursive(item) => {
                    first = first.or(Some(at));
                    parts = parts.saturating_mul(members.len());
                }
                _ => {}
            }
        }
        first.filter(|_| parts <= PARTS)
    }

    /// Distributes the intersection of `items` over the union at index `at`: `x & (a | b)` becomes
    /// `x & a | x & b`. Derivatives of a recursive expression contain the expression again, and
    /// their number is finite only in disjunctive normal form.
    fn distribute(&mut self, mut items: Vec<ExprId>, at: usize) -> ExprId {
        let union = items.remove(at);
        let Node::AnyOf(members) = self.node(union).clone() else { return Self::NOTHING };
        let parts = members
            .iter()
            .map(|&member| {
                let mut part = items.clone();
                part.push(member);
                self.intersection(part)
            })
            .collect();
        self.union(parts)
    }
}

fn any_pair(
    terms: &[(ExprId, ExprId)],
    holds: impl Fn(&(ExprId, ExprId), &(ExprId, ExprId)) -> bool,
) -> bool {
    terms.iter().enumerate().any(|(at, a)| terms[at + 1..].iter().any(|b| holds(a, b)))
}
