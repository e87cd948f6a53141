//! Compiles the expression of each rule to an automaton.
//!
//! The steps are Thompson's construction, the removal of empty edges and the subset construction.
//! The last step is omitted if the automaton would grow too much.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::collapse::collapsed;
use super::endless::endless;
use super::merge::merged;
use super::nfa::Nfa;
use super::program::{ByteEdge, CallEdge, Dot, EmbeddedProgram, Program, Shortest, State};
use super::simplify::{simplified, size};
use crate::error::Kind;
use crate::ir::expr::{Expr, RuleId, Rules};
use crate::ledger::Ledger;
use crate::{GrammarError, Limits};

/// Determinisation may multiply the number of states of a rule by this factor, and may always
/// create `SMALL` states. If it needs more, the rule stays nondeterministic, which only costs a
/// little time per byte.
const GROWTH: usize = 2;
const SMALL: usize = 64;

/// Ledger steps for each part of an expression (`PART`), and for each node of a Thompson automaton
/// (`NODE`).
const PART: usize = 16;
const NODE: usize = 16;

/// Memory charged for each node of a Thompson automaton, in bytes. Includes the node's edges and
/// the state made from the node.
const NODE_BYTES: usize = 256;

/// Memory charged for each state during the search for shortest texts, in bytes.
const SEARCH_BYTES: usize = 96;

/// States of a nondeterministic automaton that stand for one state of a deterministic one, in order.
type Subset = SmallVec<[Dot; 4]>;

const NEVER: Shortest = Shortest { len: Shortest::NEVER, first: 0 };

/// Number of steps for each allowed edge that determinisation may spend on splitting byte ranges.
const STEPS: usize = 8;

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
    let mut states: Vec<State> = Vec::new();
    let mut starts = Vec::with_capacity(exprs.len());
    let mut embedded = Vec::with_capacity(rules.schemas.len() + rules.texts.len());
    for (index, expr) in exprs.iter().enumerate() {
        let rule = RuleId(index as u32);
        let schema = rules.schemas.get(&rule);
        let schema = schema.map(|schema| EmbeddedProgram::Json(Arc::clone(&schema.program), schema.root));
        let text = || rules.texts.get(&rule).map(|text| EmbeddedProgram::Text(Arc::clone(text)));
        if let Some(program) = schema.or_else(text) {
            starts.push(Dot(states.len() as u32));
            states.push(State { embedded: Some(embedded.len() as u32), ..State::default() });
            embedded.push(program);
            continue;
        }
        if rules.linked.contains(&rule) {
            // `append` replaces it.
            starts.push(Dot(0));
            continue;
        }
        if *expr == Expr::empty() {
            // Most of these rules are written out in their callers.
            starts.push(Dot(states.len() as u32));
            states.push(State { accepting: true, ..State::default() });
            continue;
        }
        let expr = simplified(expr);
        let needed = states.len().saturating_add(size(&expr));
        if needed > limits.states {
            return Err(GrammarError::limit("automaton states", needed, limits.states));
        }
        let held = ledger.held();
        ledger.spend(NODE * size(&expr))?;
        ledger.hold(NODE_BYTES * size(&expr))?;
        let automaton = Nfa::new(&expr).without_empty_edges(limits, ledger)?;
        let automaton = if is_deterministic(&automaton) {
            merged(automaton)
        } else {
            determinise(&automaton, ledger)?.map_or(automaton, merged)
        };
        ledger.release_to(held);
        ledger.hold(bytes(&automaton))?;
        let offset = states.len() as u32;
        if states.len() + automaton.len() > limits.states {
            return Err(GrammarError::limit(
                "automaton states",
                states.len() + automaton.len(),
                limits.states,
            ));
        }
        starts.push(Dot(offset));
        states.extend(automaton.into_iter().map(|state| shifted(state, offset)));
    }
    let (root, tokens) = (rules.root, rules.tokens.clone());
    let own = states.len();
    let (shortest, ranks) = (vec![NEVER; own], vec![u32::MAX; own]);
    let mut program = Program { states, shortest, ranks, starts, root, embedded, tokens };
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

/// Appends the states and rules of `other`, whose root becomes the rule `rule`.
fn append(
    program: &mut Program,
    rule: RuleId,
    other: &Program,
    limits: &Limits,
    ledger: &Ledger,
) -> Result<(), GrammarError> {
    let len = program.states.len() + other.states.len();
    if len > limits.states {
        return Err(GrammarError::limit("automaton states", len, limits.states));
    }
    ledger.spend(other.states.len())?;
    ledger.hold(bytes(&other.states) + SEARCH_BYTES / 2 * other.states.len())?;
    let (first, rules) = (program.states.len() as u32, program.starts.len() as u32);
    let (embedded, ranks) = (program.embedded.len() as u32, program.ranks.len() as u32);
    program.states.extend(other.states.iter().map(|state| {
        let mut state = shifted(state.clone(), first);
        state.embedded = state.embedded.map(|index| index + embedded);
        for edge in &mut state.calls {
            edge.rule.0 += rules;
        }
        state
    }));
    program.starts.extend(other.starts.iter().map(|start| Dot(start.0 + first)));
    program.starts[rule.index()] = Dot(other.start(other.root).0 + first);
    program.embedded.extend(other.embedded.iter().cloned());
    program.shortest.extend(&other.shortest);
    program.ranks.extend(other.ranks.iter().map(|&rank| if rank == u32::MAX { rank } else { rank + ranks }));
    Ok(())
}

fn shifted(mut state: State, offset: u32) -> State {
    for edge in &mut state.bytes {
        edge.target.0 += offset;
    }
    for edge in &mut state.calls {
        edge.target.0 += offset;
    }
    state
}

/// Removes the edges of the first `own` states after which the end of the rule cannot be reached.
fn prune(program: &mut Program, own: usize) {
    let dead: Vec<bool> = program.shortest.iter().map(|shortest| shortest.len == Shortest::NEVER).collect();
    let starts = &program.starts;
    for state in &mut program.states[..own] {
        state.bytes.retain(|edge| !dead[edge.target.index()]);
        state.calls.retain(|edge| !dead[edge.target.index()] && !dead[starts[edge.rule.index()].index()]);
    }
}

/// Finds the shortest text from each of the first `own` dots to the end of its rule. Sets these texts
/// ([`Program::shortest`]), and the order in which they are found ([`Program::ranks`]). The texts of the
/// other dots must be known.
///
/// This is Knuth's generalisation of Dijkstra's algorithm. It settles each dot once, in order of
/// the length of the text. A call edge is followed once the start of the called rule and the dot
/// after the call are both settled.
fn search(program: &mut Program, own: usize, limits: &Limits, ledger: &Ledger) -> Result<(), GrammarError> {
    ledger.hold(own * SEARCH_BYTES)?;
    let mut settled = std::mem::take(&mut program.shortest);
    let mut ranks = std::mem::take(&mut program.ranks);
    // Linked texts were found before, so all others come after them.
    let known = ranks.iter().filter(|&&rank| rank != u32::MAX).max();
    let mut rank = known.map_or(0, |rank| rank + 1);
    let waiting = Waiting::new(program, own);
    let mut open: BinaryHeap<Reverse<(u32, u32, u8)>> = BinaryHeap::new();
    for (index, state) in program.states[..own].iter().enumerate() {
        if state.accepting {
            open.push(Reverse((0, index as u32, 0)));
        } else if let Some(embedded) = state.embedded {
            let mut machine = program.embedded[embedded as usize].machine();
            let start = machine.start();
            let (len, first) = (machine.closing_len(start), machine.closing_byte(start));
            open.push(Reverse((len, index as u32, first)));
        }
    }
    while let Some(Reverse((len, index, first))) = open.pop() {
        let index = index as usize;
        if settled[index].len != Shortest::NEVER {
            continue;
        }
        if len as usize > limits.shortest_bytes {
            return Err(GrammarError::limit(
                "bytes in the shortest text of a rule",
                len as usize,
                limits.shortest_bytes,
            ));
        }
        settled[index] = Shortest { len, first };
        ranks[index] = rank;
        rank += 1;
        ledger.spend(4 + waiting.bytes[index].len() + waiting.calls[index].len())?;
        for &(from, byte) in &waiting.bytes[index] {
            open.push(Reverse((len.saturating_add(1), from, byte)));
        }
        for &(from, edge) in &waiting.calls[index] {
            let inside = settled[program.start(edge.rule).index()];
            let after = settled[edge.target.index()];
            if inside.len != Shortest::NEVER && after.len != Shortest::NEVER {
                let first = if inside.len > 0 { inside.first } else { after.first };
                open.push(Reverse((inside.len.saturating_add(after.len), from, first)));
            }
        }
    }
    (program.shortest, program.ranks) = (settled, ranks);
    Ok(())
}

/// The edges that become usable when a dot is settled.
struct Waiting {
    /// For each dot, the byte edges that lead to the dot: the source and the lowest byte of each
    /// edge.
    bytes: Vec<SmallVec<[(u32, u8); 2]>>,
    /// For each dot, the call edges that lead to the dot or whose called rule starts at the dot.
    /// Each entry has the source of the edge and the edge.
    calls: Vec<SmallVec<[(u32, CallEdge); 1]>>,
}

impl Waiting {
    /// Collects the edges among the first `own` states.
    fn new(program: &Program, own: usize) -> Self {
        let mut bytes = vec![SmallVec::new(); own];
        let mut calls = vec![SmallVec::new(); own];
        for (index, state) in program.states[..own].iter().enumerate() {
            let from = index as u32;
            for edge in &state.bytes {
                bytes[edge.target.index()].push((from, edge.low));
            }
            for edge in &state.calls {
                calls[edge.target.index()].push((from, *edge));
                // The text of a linked rule is known from the start.
                if let Some(calls) = calls.get_mut(program.start(edge.rule).index()) {
                    calls.push((from, *edge));
                }
            }
        }
        Self { bytes, calls }
    }
}

/// Reports whether each state has at most one target for each byte and each rule.
fn is_deterministic(states: &[State]) -> bool {
    states.iter().all(has_one_target)
}

/// Reports whether a state has at most one target for each byte and each rule.
fn has_one_target(state: &State) -> bool {
    let bytes = state.bytes.windows(2).all(|pair| pair[0].high < pair[1].low);
    bytes && state.calls.windows(2).all(|pair| pair[0].rule != pair[1].rule)
}

/// The subsets that a subset construction has found, in the order of their ids.
struct Subsets {
    order: Vec<Subset>,
    ids: FxHashMap<Subset, Dot>,
    /// For each dot, the id of the subset that has this dot alone.
    ones: Vec<Option<Dot>>,
}

impl Subsets {
    /// Creates the subsets of an automaton with `states` states. The first one has the start alone.
    fn new(states: usize) -> Self {
        let mut subsets = Self { order: Vec::new(), ids: FxHashMap::default(), ones: vec![None; states] };
        subsets.id_of_one(Dot(0));
        subsets
    }

    fn id_of_one(&mut self, dot: Dot) -> Dot {
        *self.ones[dot.index()].get_or_insert_with(|| {
            self.order.push(Subset::from_slice(&[dot]));
            Dot(self.order.len() as u32 - 1)
        })
    }

    fn id_of(&mut self, mut subset: Subset) -> Dot {
        subset.sort_unstable();
        subset.dedup();
        if let [only] = *subset {
            return self.id_of_one(only);
        }
        *self.ids.entry(subset).or_insert_with_key(|subset| {
            self.order.push(subset.clone());
            Dot(self.order.len() as u32 - 1)
        })
    }
}

/// Determinises an automaton by the subset construction over bytes and calls. Returns `None` if the
/// automaton would grow too much.
fn determinise(states: &[State], ledger: &Ledger) -> Result<Option<Vec<State>>, GrammarError> {
    let limit = (states.len() * GROWTH).max(SMALL);
    let edges: usize = states.iter().map(|state| state.bytes.len() + state.calls.len()).sum();
    let edge_limit = edges * GROWTH + SMALL * SMALL;
    let (mut work, mut steps) = (0, 0);
    let mut subsets = Subsets::new(states.len());
    let mut result = Vec::new();
    while let Some(subset) = subsets.order.get(result.len()).cloned() {
        let state = match *subset {
            // Most states of long texts are alone.
            [only] if has_one_target(&states[only.index()]) => {
                let mut state = states[only.index()].clone();
                let edges = state.bytes.len() + state.calls.len();
                ledger.spend(8 + 4 * edges)?;
                ledger.hold(16 + 96)?;
                for edge in &mut state.bytes {
                    edge.target = subsets.id_of_one(edge.target);
                }
                for edge in &mut state.calls {
                    edge.target = subsets.id_of_one(edge.target);
                }
                join(&mut state.bytes);
                work += edges;
                steps += edges;
                state
            }
            _ => {
                let members = || subset.iter().map(|dot| &states[dot.index()]);
                let accepting = members().any(|member| member.accepting);
                let mut state = State { accepting, ..State::default() };
                let bytes: SmallVec<[ByteEdge; 16]> =
                    members().flat_map(|member| &member.bytes).copied().collect();
                ledger.spend(8 * subset.len() + 4 * bytes.len())?;
                ledger.hold(16 * subset.len() + 96)?;
                split(&bytes, |low, high, targets| {
                    state.bytes.push(ByteEdge { low, high, target: subsets.id_of(targets) });
                });
                join(&mut state.bytes);
                let mut calls: SmallVec<[CallEdge; 8]> =
                    members().flat_map(|member| &member.calls).copied().collect();
                calls.sort_unstable();
                for group in calls.chunk_by(|a, b| a.rule == b.rule) {
                    let target = subsets.id_of(group.iter().map(|edge| edge.target).collect());
                    state.calls.push(CallEdge { rule: group[0].rule, target });
                }
                work += bytes.len() + calls.len();
                steps += bytes.len() * state.bytes.len();
                ledger.spend(bytes.len() * state.bytes.len() / 4)?;
                state
            }
        };
        ledger.hold(size_of::<State>() + size_of_val(&*state.bytes) + size_of_val(&*state.calls))?;
        result.push(state);
        if subsets.order.len() > limit || work > edge_limit || steps > STEPS * edge_limit {
            return Ok(None);
        }
    }
    Ok(Some(result))
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

/// Returns the memory that the states of an automaton and their edges use, in bytes.
fn bytes(states: &[State]) -> usize {
    let edges = states.iter().map(|state| size_of_val(&*state.bytes) + size_of_val(&*state.calls));
    size_of_val(states) + edges.sum::<usize>()
}

/// Cuts overlapping edges into disjoint byte ranges. Calls `each` with `(low, high, targets)` for each range,
/// where `targets` has the targets of all edges over the range.
fn split(edges: &[ByteEdge], mut each: impl FnMut(u8, u8, Subset)) {
    let mut cuts: SmallVec<[u16; 32]> =
        edges.iter().flat_map(|edge| [u16::from(edge.low), u16::from(edge.high) + 1]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    for window in cuts.windows(2) {
        let (low, high) = (window[0] as u8, (window[1] - 1) as u8);
        let covers = |edge: &&ByteEdge| edge.low <= low && high <= edge.high;
        let targets: Subset = edges.iter().filter(covers).map(|edge| edge.target).collect();
        if !targets.is_empty() {
            each(low, high, targets);
        }
    }
}

/// Joins adjacent byte ranges with the same target. The edges must be sorted and disjoint.
pub(super) fn join(edges: &mut SmallVec<[ByteEdge; 2]>) {
    edges.dedup_by(|next, previous| {
        let touching = previous.target == next.target && u16::from(previous.high) + 1 == u16::from(next.low);
        if touching {
            previous.high = next.high;
        }
        touching
    });
}
