//! Choices about members of one object that have nothing in common.
//!
//! `dependentRequired`, `dependentSchemas` and `if` each say of a few members what others must be. Independent ones would
//! multiply: thirteen pairs of names make 2^13 alternatives. So choices that ask for members only are grouped by the names
//! that they speak about. Each group has alternatives of its own, and the object holds one of each group.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::Problem;
use super::atom::{AtomId, Choice, ChoiceKind, Types};
use super::build::Builder;
use super::choose::Open;
use crate::error::GrammarError;
use crate::ir::json::program::{GROUP_ALTERNATIVES, NodeId};

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

/// One way to satisfy a node, every choice made but those of its groups.
pub(super) struct Alternative {
    pub(super) atoms: Vec<AtomId>,
    /// Objects hold one alternative of each group, too.
    pub(super) groups: Vec<Group>,
}

/// What became of the choices of a conjunction.
pub(super) enum Grouped {
    /// All are in groups.
    All(Alternative),
    /// Nothing satisfies one of them.
    Nothing,
    /// The one at an index is about more than members, so it comes first.
    Other(usize),
    /// Groups would gain nothing.
    Useless,
}

/// A choice with its alternatives, and the names that they speak about.
struct Local {
    at: usize,
    choice: Choice,
    group: Group,
}

impl Builder<'_> {
    /// The choices of a conjunction of objects by groups, where they are many and independent.
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
        // What has no choice holds for the whole object.
        for group in groups.extract_if(.., |group| group.alternatives.len() == 1) {
            for &atom in group.alternatives.iter().flatten() {
                self.include(&mut object, atom)?;
            }
        }
        Ok(Grouped::All(Alternative { atoms: object.conjunction, groups }))
    }

    /// Whether groups are worth a try, and nothing depends on how many members there are or on what is evaluated.
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

    /// The alternatives of one choice, if they ask for members only and are few.
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

    /// The alternatives of several choices together, if they are few.
    fn joint_group(&mut self, node: NodeId, open: Open) -> Result<Option<Group>, GrammarError> {
        let choices = open.choices.iter();
        let product = choices.fold(1, |all: usize, choice| all.saturating_mul(choice.branches.len()));
        if product > GROUP_ALTERNATIVES * GROUP_ALTERNATIVES {
            return Ok(None);
        }
        self.group(node, open)
    }

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

    /// The group of some alternatives, if they say something of members only.
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
