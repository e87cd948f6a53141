//! Choices about members of one object that have nothing in common.
//!
//! `dependentRequired`, `dependentSchemas` and `if` each say of a few members what others must be. Independent ones would
//! multiply: thirteen pairs of names make 2^13 alternatives. So choices that ask for members only are grouped by the names
//! that they speak about. Each group has alternatives of its own, and the object holds one of each group.

use rustc_hash::FxHashMap;

use super::Problem;
use super::atom::{AtomId, ChoiceKind, Types};
use super::build::Builder;
use super::choose::Open;
use crate::error::GrammarError;
use crate::machine::json::program::{GROUP_ALTERNATIVES, NodeId};

/// Products of alternatives up to this are written out.
const PRODUCT: usize = 16;

/// Choices about some members, every way to make them.
#[derive(Debug)]
pub(super) struct Group {
    /// The names that it speaks about.
    pub(super) names: Vec<String>,
    /// For each alternative, the atoms that hold beside those of the object.
    pub(super) alternatives: Vec<Vec<AtomId>>,
}

/// The alternatives of a node.
#[derive(Default)]
pub(super) struct Alternatives {
    pub(super) plain: Vec<Vec<AtomId>>,
    /// Objects that hold one alternative of each group, too.
    pub(super) grouped: Vec<Vec<AtomId>>,
    pub(super) groups: Vec<Group>,
}

/// A choice with its alternatives, and the names that they speak about.
struct Local {
    choice: super::atom::Choice,
    group: Group,
}

impl Builder<'_> {
    /// The alternatives of a conjunction by groups, where these are many and independent.
    pub(super) fn grouped(
        &mut self,
        node: NodeId,
        start: &Open,
    ) -> Result<Option<Alternatives>, GrammarError> {
        if !self.may_group(start)? {
            return Ok(None);
        }
        let mut object = start.clone();
        self.restrict(&mut object, Types::OBJECT)?;
        let mut locals = Vec::new();
        let mut rest = std::collections::VecDeque::new();
        for choice in std::mem::take(&mut object.choices) {
            match self.local(node, &object, &choice)? {
                Some(group) => locals.push(Local { choice, group }),
                None => rest.push_back(choice),
            }
        }
        let product =
            locals.iter().fold(1, |all: usize, local| all.saturating_mul(local.group.alternatives.len()));
        if product <= PRODUCT {
            return Ok(None);
        }
        let mut groups = Vec::new();
        for component in components(locals) {
            let group = match <[Local; 1]>::try_from(component) {
                Ok([only]) => only.group,
                Err(several) => {
                    let choices = several.into_iter().map(|local| local.choice).collect();
                    let joint = Open { choices, ..object.clone() };
                    match self.joint_group(node, joint)? {
                        Ok(group) => group,
                        Err(choices) => {
                            rest.extend(choices);
                            continue;
                        }
                    }
                }
            };
            groups.push(group);
        }
        // What has no choice holds for the whole object.
        for group in groups.extract_if(.., |group| group.alternatives.len() < 2) {
            let Some(only) = group.alternatives.first() else {
                object.types = Types::NONE;
                continue;
            };
            for &atom in only {
                self.include(&mut object, atom)?;
            }
            object.choices.clear();
        }
        object.choices = rest;
        let grouped = if object.types.is_empty() { Vec::new() } else { self.expand(node, object)? };
        for &atom in grouped.iter().flatten() {
            let object = &self.atoms.get(atom)?.object;
            if object.min > 0 || object.max.is_some() || !object.some.is_empty() {
                return Ok(None);
            }
        }
        let others = start.types.without(Types::OBJECT);
        let mut plain = Vec::new();
        if !others.is_empty() {
            let mut open = start.clone();
            self.restrict(&mut open, others)?;
            plain = self.expand(node, open)?;
        }
        Ok(Some(Alternatives { plain, grouped, groups }))
    }

    /// Whether it is worth a try, and nothing depends on how many members there are or on what is evaluated.
    fn may_group(&mut self, start: &Open) -> Result<bool, Problem> {
        let product =
            start.choices.iter().fold(1, |all: usize, choice| all.saturating_mul(choice.branches.len()));
        if product <= PRODUCT
            || !start.types.has(Types::OBJECT)
            || start.unevaluated
            || self.atoms.document.has_unevaluated()
        {
            return Ok(false);
        }
        for &atom in &start.conjunction {
            let object = &self.atoms.get(atom)?.object;
            if object.min > 0 || object.max.is_some() || !object.some.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The alternatives of one choice, if they ask for members only and are few.
    fn local(
        &mut self,
        node: NodeId,
        object: &Open,
        choice: &super::atom::Choice,
    ) -> Result<Option<Group>, GrammarError> {
        if choice.branches.len() > GROUP_ALTERNATIVES || choice.kind == ChoiceKind::Optional {
            return Ok(None);
        }
        for &branch in &choice.branches {
            self.atoms.check_grounded(branch)?;
        }
        let open = Open { choices: [choice.clone()].into(), ..object.clone() };
        self.group(node, open)
    }

    /// The alternatives of several choices together, or the choices again.
    fn joint_group(
        &mut self,
        node: NodeId,
        open: Open,
    ) -> Result<Result<Group, std::collections::VecDeque<super::atom::Choice>>, GrammarError> {
        let choices = open.choices.clone();
        let product = choices.iter().fold(1, |all: usize, choice| all.saturating_mul(choice.branches.len()));
        if product > GROUP_ALTERNATIVES * GROUP_ALTERNATIVES {
            return Ok(Err(choices));
        }
        Ok(self.group(node, open)?.ok_or(choices))
    }

    fn group(&mut self, node: NodeId, open: Open) -> Result<Option<Group>, GrammarError> {
        let before = open.conjunction.len();
        let mut alternatives = self.expand(node, open)?;
        if alternatives.len() > GROUP_ALTERNATIVES {
            return Ok(None);
        }
        let mut names = Vec::new();
        for alternative in &mut alternatives {
            alternative.drain(..before);
            for &atom in alternative.iter() {
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

/// The choices that share names, together.
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
