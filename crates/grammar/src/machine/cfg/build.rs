//! Compiles the expression of each rule to an automaton.
//!
//! The steps are Thompson's construction, the removal of empty edges and the subset construction.
//! The last step is omitted if the automaton would grow too much.

use std::sync::Arc;

use super::collapse::collapsed;
use super::determinise::determinise;
use super::endless::endless;
use super::merge::merged;
use super::nfa::Nfa;
use super::program::{EmbeddedProgram, Program, Shortest};
use super::search::{SEARCH_BYTES, search};
use super::simplify::{simplified, size};
use super::states::{Dot, States};
use crate::error::Kind;
use crate::ir::expr::{Expr, RuleId, Rules};
use crate::ledger::Ledger;
use crate::{GrammarError, Limits};

/// Ledger steps for each part of an expression (`PART`), and for each node of a Thompson automaton
/// (`NODE`).
const PART: usize = 16;
const NODE: usize = 16;

/// Memory charged for each node of a Thompson automaton, in bytes. Includes the node's edges and
/// the state made from the node.
const NODE_BYTES: usize = 256;

const NEVER: Shortest = Shortest { len: Shortest::NEVER, first: 0 };

pub(super) fn build(
    rules: &Rules,
    linked: &[(RuleId, &Program)],
    limits: &Limits,
    ledger: &Ledger,
) -> Result<Program, GrammarError> {
    let parts: usize = rules.exprs.iter().map(parts).sum();
    ledger.spend(PART * parts)?;
    ledger.hold(2 * size_of::<Expr>() * parts)?;
    let exprs = collapsed(rules, limits);
    let held = ledger.held();
    let built = build_from(&exprs, rules, linked, limits, ledger);
    match built {
        // The rules may be smaller without inlining.
        Err(error) if error.is_limit() && !ledger.is_over() && exprs != rules.exprs => {
            ledger.release_to(held);
            build_from(&rules.exprs, rules, linked, limits, ledger)
        }
        built => built,
    }
}

/// Compiles `rules` so that the states of each rule follow those of the rule before it.
pub(super) fn build_in_order(
    rules: &Rules,
    limits: &Limits,
    ledger: &Ledger,
) -> Result<Program, GrammarError> {
    build_from(&rules.exprs, rules, &[], limits, ledger)
}

fn build_from(
    exprs: &[Expr],
    rules: &Rules,
    linked: &[(RuleId, &Program)],
    limits: &Limits,
    ledger: &Ledger,
) -> Result<Program, GrammarError> {
    let mut states = States::default();
    let mut starts = Vec::with_capacity(exprs.len());
    let mut embedded = Vec::with_capacity(rules.schemas.len() + rules.texts.len());
    for (index, expr) in exprs.iter().enumerate() {
        let rule = RuleId(index as u32);
        let start = Dot(states.len() as u32);
        let schema = rules.schemas.get(&rule);
        let schema = schema.map(|schema| EmbeddedProgram::Json(Arc::clone(&schema.program), schema.root));
        let text = || rules.texts.get(&rule).map(|text| EmbeddedProgram::Text(Arc::clone(text)));
        if let Some(program) = schema.or_else(text) {
            starts.push(start);
            states.finish_state(false, Some(embedded.len() as u32));
            embedded.push(program);
            continue;
        }
        if rules.linked.contains(&rule) {
            // `append` replaces it.
            starts.push(Dot(0));
            continue;
        }
        starts.push(start);
        if *expr == Expr::empty() {
            // Most of these rules are written out in their callers.
            states.finish_state(true, None);
            continue;
        }
        let automaton = automaton(expr, states.len(), limits, ledger)?;
        ledger.hold(automaton.byte_len())?;
        check_states(states.len() + automaton.len(), limits)?;
        states.append(&automaton);
    }
    let (root, tokens) = (rules.root, rules.tokens.clone());
    let own = states.len();
    let (shortest, ranks) = (vec![NEVER; own], vec![u32::MAX; own]);
    let mut program = Program { states, shortest, ranks, starts, root, embedded, tokens };
    program.reserve(linked);
    for (rule, other) in linked {
        append(&mut program, *rule, other, limits, ledger)?;
    }
    search(&mut program, own, limits, ledger)?;
    if program.shortest[program.start(program.root).index()].len == Shortest::NEVER {
        return Err(Kind::EmptyLanguage { rules: endless(rules) }.into());
    }
    prune(&mut program, own);
    Ok(program)
}

/// Compiles one expression. `others` is the number of states of the other rules so far.
fn automaton(expr: &Expr, others: usize, limits: &Limits, ledger: &Ledger) -> Result<States, GrammarError> {
    let expr = simplified(expr);
    let size = size(&expr);
    check_states(others.saturating_add(size), limits)?;
    let held = ledger.held();
    ledger.spend(NODE * size)?;
    ledger.hold(NODE_BYTES * size)?;
    let states = Nfa::new(&expr, size).without_empty_edges(limits, ledger)?;
    let states = if states.iter().all(|state| state.has_one_target()) {
        merged(states)
    } else {
        determinise(&states, ledger)?.map_or(states, merged)
    };
    ledger.release_to(held);
    Ok(states)
}

fn check_states(given: usize, limits: &Limits) -> Result<(), GrammarError> {
    if given > limits.states {
        return Err(GrammarError::limit("automaton states", given, limits.states));
    }
    Ok(())
}

/// Appends the states and rules of `other`, whose root becomes the rule `rule`.
fn append(
    program: &mut Program,
    rule: RuleId,
    other: &Program,
    limits: &Limits,
    ledger: &Ledger,
) -> Result<(), GrammarError> {
    check_states(program.states.len() + other.states.len(), limits)?;
    ledger.spend(other.states.len())?;
    ledger.hold(other.states.byte_len() + SEARCH_BYTES / 2 * other.states.len())?;
    let (first, rules) = (program.states.len() as u32, program.starts.len() as u32);
    let (embedded, ranks) = (program.embedded.len() as u32, program.ranks.len() as u32);
    program.states.append_program(&other.states, rules, embedded);
    program.starts.extend(other.starts.iter().map(|start| Dot(start.0 + first)));
    program.starts[rule.index()] = Dot(other.start(other.root).0 + first);
    program.embedded.extend(other.embedded.iter().cloned());
    program.shortest.extend(&other.shortest);
    program.ranks.extend(other.ranks.iter().map(|&rank| if rank == u32::MAX { rank } else { rank + ranks }));
    Ok(())
}

/// Removes the edges of the first `own` states after which the end of the rule cannot be reached.
fn prune(program: &mut Program, own: usize) {
    let Program { states, shortest, starts, .. } = program;
    let is_dead = |dot: Dot| shortest[dot.index()].len == Shortest::NEVER;
    states.retain(
        own,
        |edge| !is_dead(edge.target),
        |edge| !is_dead(edge.target) && !is_dead(starts[edge.rule.index()]),
    );
}

/// Returns the number of parts of an expression, a measure of its size. The nesting limit of the
/// front ends bounds the recursion.
fn parts(expr: &Expr) -> usize {
    match expr {
        Expr::Sequence(inner) | Expr::Alternatives(inner) => 1 + inner.iter().map(parts).sum::<usize>(),
        Expr::Repeat { expr, .. } => 1 + parts(expr),
        Expr::Class(ranges) => 1 + ranges.len(),
        Expr::Literal(bytes) => 1 + bytes.len() / 16,
        Expr::Rule(_) | Expr::Bytes(_) => 1,
    }
}
