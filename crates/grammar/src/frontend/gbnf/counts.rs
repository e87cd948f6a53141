//! Rewrites repetition counts so that llama.cpp's parser accepts them.
//!
//! llama.cpp rejects a repetition if its count times the number of symbols of the repeated item is
//! 2,000 or more. A literal, a class or a rule name counts as one symbol. A group counts as one
//! symbol, plus the groups and names inside, plus each optional copy of a repetition inside.
//!
//! A large count is written as a product with an extra rule. For example, `a{5000}` becomes `thousand{5}`
//! with `thousand ::= a{1000}`. An item with too many symbols also gets a rule of its own.

use std::borrow::Cow;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::expr::{Expr, RuleId, Rules};

/// Largest repetition count in the output.
const COUNT: u32 = 1000;

/// Exclusive upper bound for the count of a repetition times the number of symbols of its item.
const PRODUCT: usize = 2000;

/// Rewrites the rules so that all counts are small enough for llama.cpp's parser.
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

/// Splits large repetition counts of one grammar.
struct Splitter {
    rules: Rules,
    names: FxHashSet<String>,
    /// Rules added by the splitter, keyed by their expression.
    known: FxHashMap<Expr, RuleId>,
    /// Index of the rule that is being rewritten.
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

    /// Returns expressions that together repeat `item`, which has one symbol, `count` times. They
    /// are a multiple of 1,000, through an extra rule, and the remainder. `counts` returns the
    /// bounds of each repetition: `(n, n)` for exactly `n` copies, or `(0, n)` for at most `n`.
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

    /// Returns a reference to a rule with the expression `expr`, and adds the rule if needed. If
    /// `of` is given, `expr` repeats `of` 1,000 times, and the rule is called `<name>-thousand`.
    /// Otherwise the rule is called `<name>-part`. The name is that of the rule `of`, or of the
    /// current rule if `of` is no rule.
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

/// Returns the number of symbols that each copy of `item` adds. An item without parentheses adds 1.
/// A group adds 1 and the symbols inside.
fn brought(item: &Expr) -> usize {
    if is_single(item) { 1 } else { 1 + symbols(item) }
}

/// Returns true if an item is written without parentheses.
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

/// Returns an upper bound on the symbols inside `expr`, as llama.cpp counts them. If a repetition
/// in `expr` exceeds the limit of llama.cpp, the result is at least [`PRODUCT`].
fn symbols(expr: &Expr) -> usize {
    match expr {
        Expr::Literal(_) | Expr::Class(_) | Expr::Bytes(_) => 0,
        Expr::Rule(_) => 1,
        Expr::Sequence(parts) | Expr::Alternatives(parts) => {
            parts.iter().fold(usize::from(parts.len() > 1), |sum, part| sum.saturating_add(symbols(part)))
        }
        Expr::Repeat { expr, min, max } => {
            // Each level counts once, so nested repetitions do not multiply.
            let inside = symbols(expr);
            let group = usize::from(!is_single(expr));
            let optional = max.map_or(1, |max| max - min) as usize;
            // An exact count has no optional copies, but the count may itself be too large.
            let largest = max.unwrap_or(*min).max(1) as usize;
            let brought = if group == 0 { 1 } else { inside.saturating_add(1) };
            let product = brought.saturating_mul(largest);
            let all = inside.saturating_add(group + optional);
            if product >= PRODUCT { all.max(PRODUCT) } else { all }
        }
    }
}
