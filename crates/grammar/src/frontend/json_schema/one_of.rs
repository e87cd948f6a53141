//! `oneOf`: branches that must not share a value.
//!
//! `oneOf` is first read as `anyOf`. Then the compiler looks for values that two branches share,
//! type by type:
//! - A type is dropped if two branches accept every value of the type.
//! - The objects of two branches are distinct if both branches require a property with different constants.
//! - Every other pair becomes a probe, which is a node for the values of both branches.
//!
//! If the solver finds a value of a probe, the graph is built again. The two branches then exclude
//! each other for the types of the values found.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::Problem;
use super::atom::{Atom, AtomId, Choice, ChoiceKind, Scalar, Types};
use super::build::{Builder, Pairs};
use super::choose::Open;
use super::read::Atoms;
use crate::error::GrammarError;
use crate::ir::json::program::NodeId;

/// Maximum depth of the recursion in `Atoms::free_types`, through `allOf`, `$ref` and choices.
const DEPTH: usize = 64;

/// Facts about a branch of a `oneOf`, among the values that satisfy the atoms around the `oneOf`.
struct Branch {
    /// The types that the branch and the surrounding atoms allow.
    types: Types,
    /// True if the branch certainly accepts the empty object.
    takes_empty: bool,
    /// True if the negation of the branch has a single alternative for objects: see
    /// [`Builder::is_plain`].
    is_plain: bool,
    /// The values that the branch lists for the key property. The key property is a required
    /// property that distinguishes the objects of the branches. `None` if the branch does not
    /// require it with listed values.
    key: Option<Vec<Scalar>>,
}

impl Builder<'_> {
    /// Removes a type from `open` if two of the `branches` accept every value of the type.
    pub(super) fn drop_free_types(
        &mut self,
        branches: &[AtomId],
        open: &mut Open,
    ) -> Result<(), GrammarError> {
        let (mut once, mut twice) = (Types::NONE, Types::NONE);
        for &branch in branches {
            self.atoms.check_grounded(branch)?;
            let free = self.atoms.free_types(branch, 0)?;
            twice = twice | (once & free);
            once = once | free;
        }
        let left = open.types.without(twice);
        if left != open.types {
            self.restrict(open, left)?;
        }
        Ok(())
    }

    /// Restricts `open` to values of `types`.
    pub(super) fn restrict(&mut self, open: &mut Open, types: Types) -> Result<(), GrammarError> {
        let atom = self.atoms.of_types(types);
        self.include(open, atom)
    }

    /// Adds a probe for each pair of `branches` that may share a value, among the values that
    /// satisfy `open`. `node` is the node with the `oneOf`, and `pointer` is the place of the
    /// `oneOf`. If excluding the objects of a pair is cheap or certainly needed, records an overlap
    /// instead.
    pub(super) fn exclude(
        &mut self,
        node: NodeId,
        open: &Open,
        branches: &[AtomId],
        pointer: &Rc<str>,
    ) -> Result<(), GrammarError> {
        let mut pairs = self.overlaps.take(pointer);
        let excluded = self.exclude_pairs(node, open, branches, (pointer, &mut pairs));
        self.overlaps.put_back(pointer, pairs);
        excluded
    }

    fn exclude_pairs(
        &mut self,
        node: NodeId,
        open: &Open,
        branches: &[AtomId],
        (pointer, pairs): (&Rc<str>, &mut Pairs),
    ) -> Result<(), GrammarError> {
        let known = self.branches(open, branches)?;
        let takes_empty = self.takes_empty(&open.conjunction)? && open.choices.is_empty();
        for (at, &a) in branches.iter().enumerate() {
            self.atoms.ledger.spend(4 + 4 * at)?;
            for (before, &b) in branches[..at].iter().enumerate() {
                let found = pairs.get(&(at, before)).copied().unwrap_or(Types::NONE);
                let mut types = (known[at].types & known[before].types).without(found);
                if are_apart(&known[at], &known[before]) {
                    types = types.without(Types::OBJECT);
                }
                let plain = known[at].is_plain && known[before].is_plain;
                let empty = takes_empty && known[at].takes_empty && known[before].takes_empty;
                if types.has(Types::OBJECT) && (plain || empty) {
                    // The branches share the empty object, or mutual exclusion is cheap.
                    let known = pairs.entry((at, before)).or_insert(Types::NONE);
                    *known = *known | Types::OBJECT;
                    types = types.without(Types::OBJECT);
                }
                if types.is_empty() || (a != b && !self.may_overlap(open, a, b, types)?) {
                    continue;
                }
                let mut pair = open.conjunction.clone();
                if types != open.types {
                    pair.push(self.atoms.of_types(types));
                }
                pair.extend([b, a]);
                self.probing = true;
                let pair = self.node(pair);
                self.probing = false;
                self.atoms.ledger.hold(64)?;
                self.draft.exclusions.push((node, pair?, (Rc::clone(pointer), at, before)));
            }
        }
        Ok(())
    }

    /// Returns the facts about each branch, among the values that satisfy `open`. The key property
    /// is the property that most branches require with listed values.
    fn branches(&mut self, open: &Open, branches: &[AtomId]) -> Result<Vec<Branch>, GrammarError> {
        let mut known = Vec::with_capacity(branches.len());
        let mut keys: Vec<FxHashMap<String, Vec<Scalar>>> = Vec::with_capacity(branches.len());
        for &branch in branches {
            let mut beside = Open { choices: std::collections::VecDeque::new(), ..open.clone() };
            self.include(&mut beside, branch)?;
            self.atoms.narrow(&mut beside)?;
            keys.push(self.atoms.keys(&beside)?);
            let own = &beside.conjunction[open.conjunction.len()..];
            let (is_plain, takes_empty) = (self.is_plain(own)?, self.takes_empty(own)?);
            known.push(Branch { types: beside.types, takes_empty, is_plain, key: None });
        }
        let mut counts: FxHashMap<&str, usize> = FxHashMap::default();
        for name in keys.iter().flat_map(FxHashMap::keys) {
            *counts.entry(name).or_default() += 1;
        }
        let best = counts.iter().max_by_key(|&(name, count)| (count, std::cmp::Reverse(name)));
        if let Some(name) = best.map(|(name, _)| (*name).to_owned()) {
            for (branch, mut keys) in known.iter_mut().zip(keys) {
                branch.key = keys.remove(&name);
            }
        }
        Ok(known)
    }

    /// Returns true if the empty object certainly satisfies the `atoms`. An atom may have one
    /// `oneOf`, which is ignored.
    fn takes_empty(&mut self, atoms: &[AtomId]) -> Result<bool, Problem> {
        for &atom in atoms {
            let atom = self.atoms.get(atom)?;
            let object = &atom.object;
            let asks = object.min > 0 || !object.required.is_empty() || object.asks_for_some();
            let evaluated = object.some_unevaluated.is_some();
            if asks || evaluated || !atom.types.has(Types::OBJECT) || atom.scalars.is_some() {
                return Ok(false);
            }
            let only_one_of = atom.any.iter().all(|choice| matches!(choice.kind, ChoiceKind::One(_)));
            if !atom.refusals.is_empty() || !only_one_of || atom.any.len() > 1 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if the negation of a branch has a single alternative for objects: one name is
    /// absent or has another value. `atoms` are the atoms of the branch.
    fn is_plain(&mut self, atoms: &[AtomId]) -> Result<bool, Problem> {
        let mut names = 0;
        for &atom in atoms {
            let atom = self.atoms.get(atom)?;
            let own = &atom.object;
            let one = own.required.len()
                + own.properties.iter().filter(|(name, _)| !own.required.contains(name)).count();
            if !atom.says_only_of_members() || !atom.any.is_empty() {
                return Ok(false);
            }
            names += one;
        }
        Ok(names == 1)
    }

    /// Returns the alternatives of `taken`, in which the branch with index `at` of `choice` has
    /// been chosen. For a `oneOf`, splits `taken` by type. For the types in which this branch and
    /// another one are known to overlap, adds the negation of the other branch.
    pub(super) fn without_overlaps(
        &mut self,
        choice: &Choice,
        at: usize,
        taken: Open,
    ) -> Result<Vec<Open>, GrammarError> {
        let ChoiceKind::One(pointer) = &choice.kind else { return Ok(vec![taken]) };
        let Some(pairs) = self.overlaps.of(pointer).filter(|_| !self.probing) else {
            return Ok(vec![taken]);
        };
        let mut groups: Vec<(Types, Vec<AtomId>)> = vec![(taken.types, Vec::new())];
        for (other, &branch) in choice.branches.iter().enumerate().filter(|&(other, _)| other != at) {
            let Some(&types) = pairs.get(&(at.max(other), at.min(other))) else { continue };
            let mut split = Vec::with_capacity(groups.len() + 1);
            for (group, mut others) in groups {
                let (shared, own) = (group & types, group.without(types));
                if !own.is_empty() {
                    split.push((own, others.clone()));
                }
                if !shared.is_empty() {
                    others.push(branch);
                    split.push((shared, others));
                }
            }
            groups = split;
        }
        self.spend(choice.branches.len())?;
        let mut left = Vec::with_capacity(groups.len());
        for (types, others) in groups {
            let mut open = taken.clone();
            if types != open.types {
                self.restrict(&mut open, types)?;
            }
            for other in others {
                let negation = self.atoms.negate(other);
                self.include(&mut open, negation)?;
                if open.types.is_empty() {
                    break;
                }
            }
            if !open.types.is_empty() {
                left.push(open);
            }
        }
        Ok(left)
    }

    /// Returns false if a quick check finds that no value of `types` satisfies both `a` and `b`,
    /// among the values that satisfy `open`.
    fn may_overlap(&mut self, open: &Open, a: AtomId, b: AtomId, types: Types) -> Result<bool, GrammarError> {
        let mut both = Open { choices: std::collections::VecDeque::new(), ..open.clone() };
        both.types = both.types & types;
        self.include(&mut both, a)?;
        self.include(&mut both, b)?;
        self.atoms.narrow(&mut both)?;
        Ok(!both.types.is_empty())
    }
}

/// Returns true if the key properties of two branches have no value in common.
fn are_apart(a: &Branch, b: &Branch) -> bool {
    match (&a.key, &b.key) {
        (Some(a), Some(b)) => !a.iter().any(|value| b.contains(value)),
        _ => false,
    }
}

impl Atoms<'_> {
    /// Returns the atom that accepts exactly the values of `types`.
    pub(super) fn of_types(&mut self, types: Types) -> AtomId {
        if let Some(&known) = self.of_types.get(&types) {
            return known;
        }
        let id = self.add(Atom::of(types));
        self.of_types.insert(types, id);
        id
    }

    /// Returns the types whose values all satisfy the atom `id`. Some of these types may be missing
    /// from the result. `depth` is the depth of the recursion.
    pub(super) fn free_types(&mut self, id: AtomId, depth: usize) -> Result<Types, Problem> {
        if depth > DEPTH {
            return Ok(Types::NONE);
        }
        if let Some(&known) = self.free_types.get(&id) {
            return Ok(known);
        }
        self.ledger.spend(8)?;
        let atom = self.get(id)?;
        let mut free = atom.own_free_types();
        for &part in &atom.all {
            if free.is_empty() {
                break;
            }
            free = free & self.free_types(part, depth + 1)?;
        }
        for choice in &atom.any {
            let mut some = Types::NONE;
            if !matches!(choice.kind, ChoiceKind::One(_)) && !free.is_empty() {
                for &branch in choice.branches.iter() {
                    some = some | self.free_types(branch, depth + 1)?;
                }
            }
            free = free & some;
        }
        self.free_types.insert(id, free);
        Ok(free)
    }
}

impl Atom {
    /// Returns the types that the atom's own keywords do not constrain.
    fn own_free_types(&self) -> Types {
        use crate::ir::json::number::NumberRule;
        use crate::regular::Expressions;
        if self.scalars.is_some() {
            return Types::NONE;
        }
        let refused = self.refusals.iter().fold(Types::NONE, |all, refusal| all | refusal.types);
        let mut free = self.types.without(refused);
        for scalar in &self.excluded {
            free = free.without(scalar.types());
        }
        let bounded = [
            (self.number != NumberRule::ANY, Types::NUMBER),
            ((self.min_length, self.max_length) != (0, None), Types::STRING),
            (self.text != Expressions::EVERYTHING, Types::STRING),
            (!self.array.is_any(), Types::ARRAY),
            (!self.object.is_any(), Types::OBJECT),
        ];
        for (_, types) in bounded.into_iter().filter(|(bounded, _)| *bounded) {
            free = free.without(types);
        }
        free
    }
}
