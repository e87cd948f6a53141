//! Inlines rules that are not recursive into the rules that call them.
//!
//! A rule that reaches no recursion matches a regular language. If its expression replaces the
//! calls, it becomes part of the callers' automata. A byte is then a single step, instead of a row
//! in which all callers advance. In the grammar of a programming language, many rules only name
//! parts of words, and inlining halves the number of rules.

use rustc_hash::FxHashSet;

use super::simplify::size_with;
use crate::Limits;
use crate::ir::expr::{Expr, RuleId, Rules, reached};

/// Maximum number of states of a rule that is inlined at every call.
const TINY: usize = 8;

/// Limits on inlining larger rules. Each copy of a rule has its own tables, so larger rules are
/// inlined only in these cases:
///
/// - The rule has a single call.
/// - The caller is a root without recursion, and inlining leaves it with at most `INLINED` states.
/// - The rule has at most `SHORT` states, and a repetition would call it from more than `OFTEN`
///   places.
const INLINED: usize = 1 << 12;
const SHORT: usize = 64;
const OFTEN: usize = 8;

/// Maximum nesting depth of an expression after inlining.
const DEPTH: usize = 64;

/// Inlining may multiply the number of states of all rules by this factor, and may always add
/// `SMALL` states.
const GROWTH: usize = 2;
const SMALL: usize = 1 << 12;

/// Number of expression nodes that inlining may always add. Nodes have a limit of their own because
/// empty expressions have nodes but no states.
const SMALL_TREE: usize = 1 << 15;

/// Inlines rules without recursion, and returns the resulting expression of each rule. Rules that
/// are no longer called get the empty expression.
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

/// Removes the calls of rules that match only the empty text. Each such call would otherwise be an
/// item in the rows of the machine.
fn drop_empty(exprs: &mut [Expr], rules: &Rules) {
    let is_empty =
        |(at, expr): (usize, &Expr)| !rules.is_placeholder(RuleId(at as u32)) && matches_empty_only(expr);
    let empty: Vec<bool> = exprs.iter().enumerate().map(is_empty).collect();
    if empty.contains(&true) {
        for expr in exprs {
            without_calls(expr, &empty);
        }
    }
}

/// Reports whether an expression matches only the empty text. Called rules are not examined, so a
/// call counts as matching other text.
fn matches_empty_only(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(bytes) => bytes.is_empty(),
        Expr::Sequence(parts) => parts.iter().all(matches_empty_only),
        Expr::Alternatives(parts) => !parts.is_empty() && parts.iter().all(matches_empty_only),
        Expr::Repeat { expr, .. } => matches_empty_only(expr),
        Expr::Class(_) | Expr::Bytes(_) | Expr::Rule(_) => false,
    }
}

/// Replaces each call of a rule by the empty text if `rules` is true at the rule's index.
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
    /// For each rule, the number of states after inlining.
    sizes: Vec<usize>,
    trees: Vec<usize>,
    depths: Vec<usize>,
    /// For each rule, the number of its calls. A call in a repetition counts once for each round.
    calls: Vec<usize>,
    /// For each rule, whether it may be inlined, because it reaches no recursion and is not sealed.
    regular: Vec<bool>,
    /// Number of states that inlining may still add. `tree_room` is the number of expression nodes
    /// that inlining may still add.
    room: usize,
    tree_room: usize,
}

/// A rule's expression after inlining, and the measures of that expression.
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

    /// Inlines called rules into `rule`. The called rules without recursion must have been
    /// processed before. `is_regular` is true if `rule` reaches no recursion.
    fn write_out(&mut self, rule: RuleId, is_regular: bool) {
        let at = rule.index();
        if self.rules.is_placeholder(rule) {
            return;
        }
        self.regular[at] = is_regular && !self.rules.sealed.contains(&rule);
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

    /// Returns the expression of the rule at index `at`, in which the rules for which `inlined` is
    /// true replace their calls. `None` if there are no such calls, or if the result would exceed a limit.
    fn written_out(&self, at: usize, inlined: &impl Fn(usize) -> bool) -> Option<Written> {
        let expr = &self.exprs[at];
        let mut inlines = false;
        called(expr, 1, &mut |callee, _| inlines |= inlined(callee.index()));
        if !inlines {
            return None;
        }
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

/// Returns the rules that reach no recursion. Called rules come before their callers.
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

/// Calls `visit(rule, calls)` for each called rule, with the number of its calls if `expr` occurs
/// `times` times. The nesting limit of the front ends bounds the recursion, here and in the
/// functions below.
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

/// Returns the number of nodes of an expression. Bytes of literals and ranges of classes count as
/// nodes. A call of a rule counts as `of_rule(rule)` nodes.
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

/// Returns the nesting depth of an expression. A call of a rule has the depth `of_rule(rule)`.
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
