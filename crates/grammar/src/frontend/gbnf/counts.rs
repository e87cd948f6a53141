//! Repetition counts that llama.cpp's parser takes.
//!
//! It refuses a repetition whose count, times the symbols that the repeated item has brought, is 2,000 or
//! more. A literal, a class or a rule's name is one symbol. A group brings itself, the groups and names in
//! it, and each part of a repetition in it that may be left out. So a large count is written as a product
//! over a rule of its own, and so is an item that brings too much.

use std::borrow::Cow;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::expr::{Expr, RuleId, Rules};

/// The largest repetition count that is written.
const COUNT: u32 = 1000;

/// What a count times the symbols of its item stays below.
const PRODUCT: usize = 2000;

/// The same rules in counts that llama.cpp's parser takes.
pub(super) fn bounded(rules: &Rules) -> Cow<'_, Rules> {
    if rules.exprs.iter().all(|expr| symbols(expr) < PRODUCT) {
        return Cow::Borrowed(rules);
    }
    let names = rules.names.iter().cloned().collect();
    let mut splitter = Splitter { rules: rules.clone(), names, known: FxHashMap::default(), current: 0 };
    for at in 0..rules.exprs.len() {
        splitter.current = at;
        let expr = std::mem::replace(&mut splitter.rules.exprs[at], Expr::empty());
        splitter.rules.exprs[at] = splitter.split(expr);
    }
    Cow::Owned(splitter.rules)
}

struct Splitter {
    rules: Rules,
    names: FxHashSet<String>,
    /// Rules made here, by what they say.
    known: FxHashMap<Expr, RuleId>,
    /// The rule being written.
    current: usize,
}

impl Splitter {
    fn split(&mut self, expr: Expr) -> Expr {
        match expr {
            Expr::Sequence(parts) => Expr::Sequence(parts.into_iter().map(|part| self.split(part)).collect()),
            Expr::Alternatives(parts) => {
                Expr::Alternatives(parts.into_iter().map(|part| self.split(part)).collect())
            }
            Expr::Repeat { expr, min, max } => {
                let item = self.split(*expr);
                self.repeat(item, min, max)
            }
            other => other,
        }
    }

    fn repeat(&mut self, item: Expr, min: u32, max: Option<u32>) -> Expr {
        let total = max.unwrap_or(min).max(1);
        if total <= COUNT && brought(&item) * (total as usize) < PRODUCT {
            return Expr::Repeat { expr: Box::new(item), min, max };
        }
        let item = if is_single(&item) { item } else { self.rule_of(item, None) };
        if total <= COUNT {
            return Expr::Repeat { expr: Box::new(item), min, max };
        }
        let mut parts = if min > 0 { self.exactly(&item, min) } else { Vec::new() };
        match max {
            None => parts.push(Expr::Repeat { expr: Box::new(item), min: 0, max: None }),
            Some(max) if max > min => parts.extend(self.at_most(&item, max - min)),
            Some(_) => {}
        }
        Expr::Sequence(parts)
    }

    fn exactly(&mut self, item: &Expr, count: u32) -> Vec<Expr> {
        self.product(item, count, |count| (count, count))
    }

    fn at_most(&mut self, item: &Expr, count: u32) -> Vec<Expr> {
        self.product(item, count, |count| (0, count))
    }

    /// A number of an item of one symbol, as thousands of it and the rest.
    fn product(&mut self, item: &Expr, count: u32, counts: impl Fn(u32) -> (u32, u32) + Copy) -> Vec<Expr> {
        let repeat = |item: Expr, count: u32| {
            let (min, max) = counts(count);
            if (min, max) == (1, 1) {
                return item;
            }
            Expr::Repeat { expr: Box::new(item), min, max: Some(max) }
        };
        let (thousands, rest) = (count / COUNT, count % COUNT);
        let mut parts = Vec::with_capacity(2);
        if thousands > 0 {
            let thousand = self.rule_of(repeat(item.clone(), COUNT), Some(item));
            if thousands > COUNT {
                parts.extend(self.product(&thousand, thousands, counts));
            } else {
                parts.push(repeat(thousand, thousands));
            }
        }
        if rest > 0 {
            parts.push(repeat(item.clone(), rest));
        }
        parts
    }

    /// A rule that says this, named after what it repeats, or after the rule that it is taken from.
    fn rule_of(&mut self, expr: Expr, of: Option<&Expr>) -> Expr {
        if let Some(&known) = self.known.get(&expr) {
            return Expr::Rule(known);
        }
        let (whose, what) = match of {
            Some(Expr::Rule(rule)) => (rule.index(), "thousand"),
            Some(_) => (self.current, "thousand"),
            None => (self.current, "part"),
        };
        let base = &self.rules.names[whose];
        let base = if base.is_empty() { what.to_owned() } else { format!("{base}-{what}") };
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let mut names = [base.clone()].into_iter().chain(numbered);
        let name = names.find(|name| !self.names.contains(name)).unwrap_or_default();
        self.names.insert(name.clone());
        let rule = RuleId(self.rules.exprs.len() as u32);
        self.rules.exprs.push(expr.clone());
        self.rules.names.push(name);
        self.known.insert(expr, rule);
        Expr::Rule(rule)
    }
}

/// What a repetition of an item brings for each time: one symbol, or those of the group.
fn brought(item: &Expr) -> usize {
    if is_single(item) { 1 } else { 1 + symbols(item) }
}

/// Whether an item is written without a group.
fn is_single(item: &Expr) -> bool {
    match item {
        Expr::Literal(_) | Expr::Class(_) | Expr::Bytes(_) | Expr::Rule(_) => true,
        Expr::Sequence(parts) | Expr::Alternatives(parts) => match parts.as_slice() {
            [] => true,
            [only] => is_single(only),
            _ => false,
        },
        Expr::Repeat { .. } => false,
    }
}

/// The most symbols that an expression brings.
fn symbols(expr: &Expr) -> usize {
    match expr {
        Expr::Literal(_) | Expr::Class(_) | Expr::Bytes(_) => 0,
        Expr::Rule(_) => 1,
        Expr::Sequence(parts) | Expr::Alternatives(parts) => {
            parts.iter().fold(usize::from(parts.len() > 1), |sum, part| sum.saturating_add(symbols(part)))
        }
        Expr::Repeat { expr, min, max } => {
            // Once for each level, so that nested repetitions are not counted again and again.
            let inside = symbols(expr);
            let group = usize::from(!is_single(expr));
            let optional = max.map_or(1, |max| max - min) as usize;
            // A count that is exact leaves nothing out, but may be too large by itself.
            let largest = max.unwrap_or(*min).max(1) as usize;
            let brought = if group == 0 { 1 } else { inside.saturating_add(1) };
            let product = brought.saturating_mul(largest);
            let all = inside.saturating_add(group + optional);
            if product >= PRODUCT { all.max(PRODUCT) } else { all }
        }
    }
}
