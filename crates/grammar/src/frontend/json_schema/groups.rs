//! Groups of independent choices about the members of one object.
//!
//! `dependentRequired`, `dependentSchemas` and `if` each relate a few members to each other.
//! Independent choices would multiply: thirteen pairs of names make 2^13 alternatives. So choices
//! that concern only members are grouped by the names that they mention. Each group has its own
//! alternatives, and an object satisfies one alternative of each group.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::Problem;
use super::atom::{AtomId, Choice, ChoiceKind, Types};
use super::build::Builder;
use super::choose::Open;
use crate::error::GrammarError;
use crate::ir::json::program::{GROUP_ALTERNATIVES, NodeId};

/// Largest number of combinations of branches that is expanded without groups.
const PRODUCT: usize = 16;

/// Choices about members of one object that depend on each other, with all ways to make them.
#[derive(Debug)]
pub(super) struct Group {
    /// The names that the choices mention.
    pub(super) names: Vec<String>,
    /// For each alternative, the atoms that hold in addition to those of the object.
    pub(super) alternatives: Vec<Vec<AtomId>>,
}

/// An alternative of a node. Every choice is made, except the choices in `groups`.
pub(super) struct Alternative {
    /// The atoms that hold.
    pub(super) atoms: Vec<AtomId>,
    /// Groups of choices that are left open. An object satisfies one alternative of each group.
    pub(super) groups: Vec<Group>,
}

/// The result of grouping the choices of a conjunction.
pub(super) enum Grouped {
    /// All choices are in groups.
    All(Alternative),
    /// One of the groups has no alternative, so no object satisfies the conjunction.
    Nothing,
    /// The choice at this index concerns more than members and must be made first.
    Other(usize),
    /// The alternatives are too few for groups to help.
    Useless,
}

/// A choice about members, as a group of its own.
struct Local {
    /// Index of the choice in [`Open::choices`].
    at: usize,
    choice: Choice,
    group: Group,
}

impl Builder<'_> {
    /// Turns the choices of `open`, which allows only objects, into groups. Does so only if the
    /// choices have many combinations and concern members only.
    pub(super) fn grouped(&mut self, node: NodeId, open: &Open) -> Result<Grouped, GrammarError> {
        let mut object = Open { choices: VecDeque::new(), ..open.clone() };
        let mut locals = Vec::with_capacity(open.choices.len());
        for (at, choice) in open.choices.iter().enumerate() {
            let Some(group) = self.local(node, &object, choice)? else { return Ok(Grouped::Other(at)) };
            locals.push(Local { at, choice: choice.clone(), group });
        }
        let product =
            locals.iter().fold(1, |all: usize, local| all.saturating_mul(local.group.alternatives.len()));
        if product <= PRODUCT {
            return Ok(Grouped::Useless);
        }
        let mut groups = Vec::new();
        for component in components(locals) {
            let first = component[0].at;
            let group = match <[Local; 1]>::try_from(component) {
                Ok([only]) => Some(only.group),
                Err(several) => {
                    let choices = several.into_iter().map(|local| local.choice).collect();
                    self.joint_group(node, Open { choices, ..object.clone() })?
                }
            };
            let Some(group) = group else { return Ok(Grouped::Other(first)) };
            groups.push(group);
        }
        if groups.iter().any(|group| group.alternatives.is_empty()) {
            return Ok(Grouped::Nothing);
        }
        // A group with a single alternative holds for the whole object.
        for group in groups.extract_if(.., |group| group.alternatives.len() == 1) {
            for &atom in group.alternatives.iter().flatten() {
                self.include(&mut object, atom)?;
            }
        }
        Ok(Grouped::All(Alternative { atoms: object.conjunction, groups }))
    }

    /// Returns true if groups may help: the choices of `open` have many combinations, and neither
    /// the number of members nor their evaluation matters.
    pub(super) fn may_group(&mut self, open: &Open) -> Result<bool, Problem> {
        let product =
            open.choices.iter().fold(1, |all: usize, choice| all.saturating_mul(choice.branches.len()));
        if product <= PRODUCT
            || open.choices.len() < 2
            || !open.types.has(Types::OBJECT)
            || open.unevaluated
            || self.atoms.document.has_unevaluated()
        {
            return Ok(false);
        }
        self.atoms.ledger.spend(4 * open.conjunction.len())?;
        for &atom in &open.conjunction {
            let object = &self.atoms.get(atom)?.object;
            if object.min > 0 || object.max.is_some() || object.asks_for_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns `choice` as a group of its own. `object` is the conjunction without its choices.
    /// Returns `None` if the choice concerns more than members or has many alternatives.
    fn local(&mut self, node: NodeId, object: &Open, choice: &Choice) -> Result<Option<Group>, GrammarError> {
        if choice.branches.len() > GROUP_ALTERNATIVES || choice.kind == ChoiceKind::Optional {
            return Ok(None);
        }
        let mut direct = Some(Vec::with_capacity(choice.branches.len()));
        for &branch in choice.branches.iter() {
            self.atoms.check_grounded(branch)?;
            let atom = self.atoms.get(branch)?;
            self.atoms.ledger.spend(8 + atom.object.properties.len() + atom.object.required.len())?;
            if !atom.types.has(Types::OBJECT) {
                continue;
            }
            if !atom.says_only_of_members() {
                return Ok(None);
            }
            let is_direct = atom.all.is_empty() && atom.any.is_empty();
            direct = direct.filter(|_| is_direct);
            if let Some(alternatives) = &mut direct {
                alternatives.push(vec![branch]);
            }
        }
        if let Some(alternatives) = direct.filter(|_| !matches!(choice.kind, ChoiceKind::One(_))) {
            return self.group_of(alternatives);
        }
        let open = Open { choices: [choice.clone()].into(), ..object.clone() };
        self.group(node, open)
    }

    /// Returns one group for all choices of `open`. Returns `None` if the group would be too large.
    fn joint_group(&mut self, node: NodeId, open: Open) -> Result<Option<Group>, GrammarError> {
        let choices = open.choices.iter();
        let product = choices.fold(1, |all: usize, choice| all.saturating_mul(choice.branches.len()));
        if product > GROUP_ALTERNATIVES * GROUP_ALTERNATIVES {
            return Ok(None);
        }
        self.group(node, open)
    }

    /// Expands the choices of `open` into the alternatives of one group.
    fn group(&mut self, node: NodeId, open: Open) -> Result<Option<Group>, GrammarError> {
        let before = open.conjunction.len();
        let alternatives = self.expand(node, Open { may_group: false, ..open })?;
        let mut alternatives: Vec<_> =
            alternatives.into_iter().map(|alternative| alternative.atoms).collect();
        if alternatives.len() > GROUP_ALTERNATIVES {
            return Ok(None);
        }
        for alternative in &mut alternatives {
            alternative.drain(..before);
        }
        self.group_of(alternatives)
    }

    /// Returns the group with the given `alternatives`. Returns `None` if one of their atoms
    /// constrains more than members.
    fn group_of(&mut self, alternatives: Vec<Vec<AtomId>>) -> Result<Option<Group>, GrammarError> {
        let mut names = Vec::new();
        for alternative in &alternatives {
            for &atom in alternative {
                let atom = self.atoms.get(atom)?;
                if !atom.says_only_of_members() {
                    return Ok(None);
                }
                names.extend(atom.object.properties.iter().map(|(name, _)| name.clone()));
                names.extend(atom.object.required.iter().cloned());
            }
        }
        names.sort_unstable();
        names.dedup();
        Ok(Some(Group { names, alternatives }))
    }
}

/// Partitions the choices into independent sets. Two choices that mention a common name are in the
/// same set.
fn components(locals: Vec<Local>) -> Vec<Vec<Local>> {
    let mut component: Vec<usize> = (0..locals.len()).collect();
    let mut by_name: FxHashMap<&str, usize> = FxHashMap::default();
    for (at, local) in locals.iter().enumerate() {
        for name in &local.group.names {
            let other = *by_name.entry(name).or_insert(at);
            let (a, b) = (root(&component, at), root(&component, other));
            component[a.max(b)] = a.min(b);
        }
    }
    let roots: Vec<usize> = (0..locals.len()).map(|at| root(&component, at)).collect();
    let mut places: FxHashMap<usize, usize> = FxHashMap::default();
    let mut components: Vec<Vec<Local>> = Vec::new();
    for (local, root) in locals.into_iter().zip(roots) {
        let at = *places.entry(root).or_insert_with(|| {
            components.push(Vec::new());
            components.len() - 1
        });
        components[at].push(local);
    }
    components
}

fn root(component: &[usize], mut at: usize) -> usize {
    while component[at] != at {
        at = component[at];
    }
    at
}
