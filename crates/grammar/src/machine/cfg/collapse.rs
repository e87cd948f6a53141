//! Rules without recursion as one automaton each.
//!
//! What a rule without recursion matches is regular: written out in its callers it becomes part of their automata, and a
//! byte is one step there instead of a row of callers who all move on. Names for parts of words are rules mostly, so a
//! grammar of a programming language has half as many rules to run as were written.

use rustc_hash::FxHashSet;

use super::simplify::size_with;
use crate::Limits;
use crate::ir::expr::{Expr, RuleId, Rules, reached};

/// Rules of so few states are written out wherever they are called.
const TINY: usize = 8;

/// Each copy of a rule has tables of its own, so others are written out only where that is the only call; or in a root
/// without recursion of at most `INLINED` states; or, if they have no more states than `SHORT`, where a repetition has them
/// more than `OFTEN` times, which would call them from as many places.
const INLINED: usize = 1 << 12;
const SHORT: usize = 64;
const OFTEN: usize = 8;

/// Expressions written out into each other nest at most this deep.
const DEPTH: usize = 64;

/// All rules together may grow by this factor, and always by this many states.
const GROWTH: usize = 2;
const SMALL: usize = 1 << 12;

/// So may the expressions, in nodes: what is empty has no states.
const SMALL_TREE: usize = 1 << 15;

/// The expressions of all rules, those without recursion written out where they are called. Rules that nobody calls any
/// more match the empty text only.
pub(super) fn collapsed(rules: &Rules, limits: &Limits) -> Vec<Expr> {
    let mut collapser = Collapser::new(rules, limits);
    let order = without_recursion(rules);
    for &rule in &order {
        collapser.write_out(rule, true);
    }
    let mut is_recursive = vec![true; rules.exprs.len()];
    for rule in order {
        is_recursive[rule.index()] = false;
    }
    for rule in (0..rules.exprs.len() as u32).map(RuleId).filter(|rule| is_recursive[rule.index()]) {
        collapser.write_out(rule, false);
    }
    drop_empty(&mut collapser.exprs, rules);
    drop_unreachable(&mut collapser.exprs, rules.root);
    collapser.exprs
}

/// Drops the calls of rules that match the empty text only: each would be a place of a row.
fn drop_empty(exprs: &mut [Expr], rules: &Rules) {
    let is_empty = |(at, expr): (usize, &Expr)| {
        !rules.schemas.contains_key(&RuleId(at as u32)) && matches_empty_only(expr)
    };
    let empty: Vec<bool> = exprs.iter().enumerate().map(is_empty).collect();
    if empty.contains(&true) {
        for expr in exprs {
            without_calls(expr, &empty);
        }
    }
}

/// Whether an expression matches the empty text only, as far as that shows without its calls.
fn matches_empty_only(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(bytes) => bytes.is_empty(),
        Expr::Sequence(parts) => parts.iter().all(matches_empty_only),
        Expr::Alternatives(parts) => !parts.is_empty() && parts.iter().all(matches_empty_only),
        Expr::Repeat { expr, .. } => matches_empty_only(expr),
        Expr::Class(_) | Expr::Bytes(_) | Expr::Rule(_) => false,
    }
}

/// Replaces calls of some rules by the empty text.
fn without_calls(expr: &mut Expr, rules: &[bool]) {
    match expr {
        Expr::Rule(rule) if rules[rule.index()] => *expr = Expr::empty(),
        Expr::Sequence(parts) | Expr::Alternatives(parts) => {
            for part in parts {
                without_calls(part, rules);
            }
        }
        Expr::Repeat { expr, .. } => without_calls(expr, rules),
        _ => {}
    }
}

struct Collapser<'a> {
    rules: &'a Rules,
    exprs: Vec<Expr>,
    /// By rule, with what is written out in it.
    sizes: Vec<usize>,
    trees: Vec<usize>,
    depths: Vec<usize>,
    /// How often the rule is called, rounds of repetitions counted.
    calls: Vec<usize>,
    /// Whether the rule may be written out elsewhere.
    regular: Vec<bool>,
    /// States that may still be added, and nodes of expressions.
    room: usize,
    tree_room: usize,
}

/// A rule's expression with others written out.
struct Written {
    expr: Expr,
    size: usize,
    tree: usize,
    depth: usize,
}

impl<'a> Collapser<'a> {
    fn new(rules: &'a Rules, limits: &Limits) -> Self {
        let exprs = rules.exprs.clone();
        let sum = |sizes: &[usize]| sizes.iter().fold(0_usize, |total, &size| total.saturating_add(size));
        let sizes: Vec<usize> = exprs.iter().map(|expr| size_with(expr, &|_| 1)).collect();
        let trees: Vec<usize> = exprs.iter().map(|expr| tree(expr, &|_| 1)).collect();
        let room = (GROWTH - 1).saturating_mul(sum(&sizes)).max(SMALL);
        let mut calls = vec![0_usize; exprs.len()];
        for expr in &exprs {
            called(expr, 1, &mut |rule, times| {
                calls[rule.index()] = calls[rule.index()].saturating_add(times);
            });
        }
        Self {
            rules,
            depths: exprs.iter().map(|expr| depth(expr, &|_| 0)).collect(),
            calls,
            regular: vec![false; exprs.len()],
            room: room.min(limits.states.saturating_sub(sum(&sizes))),
            tree_room: (GROWTH - 1).saturating_mul(sum(&trees)).max(SMALL_TREE),
            sizes,
            trees,
            exprs,
        }
    }

    /// Writes out the rules that one calls; its callees without recursion have been seen to before.
    fn write_out(&mut self, rule: RuleId, is_regular: bool) {
        let at = rule.index();
        if self.rules.schemas.contains_key(&rule) {
            return;
        }
        self.regular[at] = is_regular;
        let everything = |callee: usize| self.regular[callee];
        let mut often = FxHashSet::default();
        called(&self.exprs[at], 1, &mut |callee, times| {
            if times > OFTEN && self.sizes[callee.index()] <= SHORT {
                often.insert(callee.index());
            }
        });
        let some = |callee: usize| {
            let few = self.sizes[callee] <= TINY || self.calls[callee] == 1 || often.contains(&callee);
            self.regular[callee] && few
        };
        let whole = (rule == self.rules.root && is_regular).then(|| self.written_out(at, &everything));
        let written = whole.flatten().or_else(|| self.written_out(at, &some));
        if let Some(Written { expr, size, tree, depth }) = written {
            self.room -= size.saturating_sub(self.sizes[at]);
            self.tree_room -= tree.saturating_sub(self.trees[at]);
            (self.exprs[at], self.sizes[at], self.depths[at]) = (expr, size, depth);
            self.trees[at] = tree;
        }
    }

    /// A rule's expression with some rules written out; `None` if that is too much.
    fn written_out(&self, at: usize, inlined: &impl Fn(usize) -> bool) -> Option<Written> {
        let expr = &self.exprs[at];
        let of = |values: &[usize], callee: RuleId, otherwise| {
            if inlined(callee.index()) { values[callee.index()] } else { otherwise }
        };
        let size = size_with(expr, &|callee| of(&self.sizes, callee, 1));
        let tree = tree(expr, &|callee| of(&self.trees, callee, 1));
        let depth = depth(expr, &|callee| of(&self.depths, callee, 0));
        let fits = size <= INLINED.max(self.sizes[at].saturating_mul(2))
            && depth <= DEPTH.max(self.depths[at])
            && size.saturating_sub(self.sizes[at]) <= self.room
            && tree.saturating_sub(self.trees[at]) <= self.tree_room;
        let callee = |callee: RuleId| inlined(callee.index()).then(|| &self.exprs[callee.index()]);
        fits.then(|| Written { expr: written_out(expr, &callee), size, tree, depth })
    }
}

/// The rules that are no part of a recursion and do not lead to any, callees first.
fn without_recursion(rules: &Rules) -> Vec<RuleId> {
    let mut callers = vec![Vec::new(); rules.exprs.len()];
    let mut waiting = vec![0_usize; rules.exprs.len()];
    for (index, expr) in rules.exprs.iter().enumerate() {
        called(expr, 1, &mut |callee, _| {
            callers[callee.index()].push(RuleId(index as u32));
            waiting[index] += 1;
        });
    }
    let mut order: Vec<RuleId> =
        (0..rules.exprs.len()).filter(|&rule| waiting[rule] == 0).map(|rule| RuleId(rule as u32)).collect();
    let mut next = 0;
    while let Some(&rule) = order.get(next) {
        next += 1;
        for &caller in &callers[rule.index()] {
            waiting[caller.index()] -= 1;
            if waiting[caller.index()] == 0 {
                order.push(caller);
            }
        }
    }
    order
}

/// Calls `visit` with each rule that an expression calls `times` times, and how often it does. Depth is bounded by the front
/// ends' nesting limit, here and below.
fn called(expr: &Expr, times: usize, visit: &mut impl FnMut(RuleId, usize)) {
    match expr {
        Expr::Rule(rule) => visit(*rule, times),
        Expr::Sequence(parts) | Expr::Alternatives(parts) => {
            for part in parts {
                called(part, times, visit);
            }
        }
        Expr::Repeat { expr, min, max } => {
            let rounds = max.unwrap_or(min.saturating_add(1)) as usize;
            called(expr, times.saturating_mul(rounds), visit);
        }
        Expr::Literal(_) | Expr::Class(_) | Expr::Bytes(_) => {}
    }
}

/// How many nodes an expression has, with the characters of its literals and classes, and those of rules that are called.
fn tree(expr: &Expr, of_rule: &impl Fn(RuleId) -> usize) -> usize {
    match expr {
        Expr::Rule(rule) => of_rule(*rule),
        Expr::Sequence(parts) | Expr::Alternatives(parts) => {
            parts.iter().fold(1, |sum: usize, part| sum.saturating_add(tree(part, of_rule)))
        }
        Expr::Repeat { expr, .. } => tree(expr, of_rule).saturating_add(1),
        Expr::Literal(bytes) => 1 + bytes.len(),
        Expr::Class(ranges) => 1 + ranges.len(),
        Expr::Bytes(ranges) => 1 + ranges.len(),
    }
}

/// How deep an expression nests, with the depths of those that are called.
fn depth(expr: &Expr, of_rule: &impl Fn(RuleId) -> usize) -> usize {
    match expr {
        Expr::Rule(rule) => of_rule(*rule),
        Expr::Sequence(parts) | Expr::Alternatives(parts) => {
            1 + parts.iter().map(|part| depth(part, of_rule)).max().unwrap_or(0)
        }
        Expr::Repeat { expr, .. } => 1 + depth(expr, of_rule),
        Expr::Literal(_) | Expr::Class(_) | Expr::Bytes(_) => 0,
    }
}

fn written_out<'a>(expr: &Expr, inlined: &impl Fn(RuleId) -> Option<&'a Expr>) -> Expr {
    let all = |parts: &[Expr]| parts.iter().map(|part| written_out(part, inlined)).collect();
    match expr {
        Expr::Rule(rule) => inlined(*rule).unwrap_or(expr).clone(),
        Expr::Sequence(parts) => Expr::Sequence(all(parts)),
        Expr::Alternatives(parts) => Expr::Alternatives(all(parts)),
        Expr::Repeat { expr, min, max } => {
            Expr::Repeat { expr: Box::new(written_out(expr, inlined)), min: *min, max: *max }
        }
        Expr::Literal(_) | Expr::Class(_) | Expr::Bytes(_) => expr.clone(),
    }
}

fn drop_unreachable(exprs: &mut [Expr], root: RuleId) {
    let reached = reached(exprs, root);
    for (expr, _) in exprs.iter_mut().zip(reached).filter(|(_, reached)| !reached) {
        *expr = Expr::empty();
    }
}
