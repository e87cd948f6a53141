//! Finds the rules that match no finite text, for the error about a grammar without outputs.

use rustc_hash::FxHashSet;

use crate::ir::expr::{Expr, RuleId, Rules, reached};
use crate::tokens::Origin;

/// Maximum number of steps of the search. If the search needs more, the error names no rules.
const STEPS: usize = 1 << 22;

/// Returns the rules to blame for a grammar without outputs, in the order of their lines.
///
/// An *endless* rule matches no finite text. An endless rule is to blame if each endless rule that
/// it reaches can also reach it. The result is empty if the source is not GBNF, because the rules
/// of other sources have no names that a reader knows.
pub(super) fn endless(rules: &Rules) -> Vec<Origin> {
    if rules.lines.is_empty() {
        return Vec::new();
    }
    let search = Search { rules, ends: vec![false; rules.exprs.len()], steps: STEPS };
    search.run().unwrap_or_default()
}

struct Search<'r> {
    rules: &'r Rules,
    /// For each rule, true once the rule is known to match a finite text.
    ends: Vec<bool>,
    steps: usize,
}

impl Search<'_> {
    fn run(mut self) -> Option<Vec<Origin>> {
        let count = self.rules.exprs.len();
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); count];
        for rule in 0..count {
            for called in self.called(rule)? {
                callers[called.index()].push(rule);
            }
        }
        let mut todo: Vec<usize> = (0..count).collect();
        while let Some(rule) = todo.pop() {
            if !self.ends[rule] && self.rule_ends(rule)? {
                self.ends[rule] = true;
                todo.extend(&callers[rule]);
            }
        }
        let reached = reached(&self.rules.exprs, self.rules.root);
        let stuck: Vec<usize> = (0..count).filter(|&rule| reached[rule] && !self.ends[rule]).collect();
        let mut blamed = Vec::new();
        for &rule in &stuck {
            // A rule is to blame if every endless rule that it reaches leads back to it.
            let from_here = self.stuck_from(rule)?;
            let mut is_circle = true;
            for &other in from_here.iter().filter(|&&other| other != rule) {
                is_circle &= self.stuck_from(other)?.contains(&rule);
            }
            if is_circle {
                let line = self.rules.lines.get(rule).copied().unwrap_or(0);
                blamed.push(Origin { rule: self.rules.names[rule].clone(), line });
            }
        }
        blamed.sort_by_key(|origin| origin.line);
        Some(blamed)
    }

    fn spend(&mut self) -> Option<()> {
        self.steps = self.steps.checked_sub(1)?;
        Some(())
    }

    /// Returns the rules that `rule` calls, sorted. `None` if the search is out of steps, as in all
    /// methods here.
    fn called(&mut self, rule: usize) -> Option<Vec<RuleId>> {
        let rules = self.rules;
        let mut open = vec![&rules.exprs[rule]];
        let mut called = Vec::new();
        while let Some(expr) = open.pop() {
            self.spend()?;
            match expr {
                Expr::Rule(rule) => called.push(*rule),
                Expr::Sequence(parts) | Expr::Alternatives(parts) => open.extend(parts),
                Expr::Repeat { expr, .. } => open.push(expr),
                Expr::Literal(_) | Expr::Class(_) | Expr::Bytes(_) => {}
            }
        }
        called.sort_unstable();
        called.dedup();
        Some(called)
    }

    /// Returns the endless rules that `rule` reaches over endless rules. The set contains `rule`
    /// itself if `rule` reaches itself.
    fn stuck_from(&mut self, rule: usize) -> Option<FxHashSet<usize>> {
        let mut found = FxHashSet::default();
        let mut open = vec![rule];
        while let Some(at) = open.pop() {
            for next in self.called(at)? {
                self.spend()?;
                if !self.ends[next.index()] && found.insert(next.index()) {
                    open.push(next.index());
                }
            }
        }
        Some(found)
    }

    fn rule_ends(&mut self, rule: usize) -> Option<bool> {
        if self.rules.is_placeholder(RuleId(rule as u32)) {
            return Some(true);
        }
        let rules = self.rules;
        self.expr_ends(&rules.exprs[rule])
    }

    /// Reports whether an expression matches a finite text if only the rules in `ends` do. The
    /// nesting limit of the front ends bounds the recursion.
    fn expr_ends(&mut self, expr: &Expr) -> Option<bool> {
        self.spend()?;
        Some(match expr {
            Expr::Literal(_) | Expr::Repeat { min: 0, .. } => true,
            Expr::Class(ranges) => !ranges.is_empty(),
            Expr::Bytes(ranges) => !ranges.is_empty(),
            Expr::Rule(rule) => self.ends[rule.index()],
            Expr::Sequence(parts) => {
                for part in parts {
                    if !self.expr_ends(part)? {
                        return Some(false);
                    }
                }
                true
            }
            Expr::Alternatives(parts) => {
                for part in parts {
                    if self.expr_ends(part)? {
                        return Some(true);
                    }
                }
                false
            }
            Expr::Repeat { expr, .. } => self.expr_ends(expr)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Grammar, Limits};

    #[test]
    fn names_the_rules_that_cannot_end() {
        for (source, named) in [
            ("root ::= \"a\" x\nx ::= y \"b\"\ny ::= x | y", "rules `x` (line 2), `y` (line 3) cannot end"),
            ("root ::= root", "rule `root` (line 1) cannot end"),
            (
                "root ::= \"a\" b? c\n\nb ::= b\nc ::= b | \"x\" [^\\x00-\\U0010FFFF]",
                "rule `b` (line 3) cannot end",
            ),
            (
                "root ::= a | b\na ::= \"(\" a \")\"\nb ::= \"x\"{3} d\nd ::= [^\\x00-\\U0010FFFF]",
                "rules `a` (line 2), `d` (line 4) cannot end",
            ),
        ] {
            let error = Grammar::gbnf(source, &Limits::default()).expect_err(source).to_string();
            let expected = format!("no output can satisfy the grammar: {named}");
            assert!(error.starts_with(&expected), "{source}: {error}");
        }
    }

    #[test]
    fn many_rules_that_cannot_end_are_counted() {
        let rules = (0..2000).map(|at| format!("r{at} ::= \"a\" r{}", (at + 1) % 2000));
        let rules = rules.collect::<Vec<_>>().join("\n");
        let error = Grammar::gbnf(&format!("root ::= r0\n{rules}"), &Limits::default()).expect_err("endless");
        assert!(error.to_string().len() < 400, "{error}");
    }
}
