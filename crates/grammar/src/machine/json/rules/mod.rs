//! Translates a compiled schema into context-free rules, for writing it as GBNF.
//!
//! The language of a schema is context-free if each value has one spelling, members come in the
//! declared order, and no indentation depends on the depth. Each node becomes a rule that is named
//! after the path to the node. The automata of numbers and strings become expressions, with a rule
//! for each state that several other states lead to. An array with counters, or an object with
//! obligations, has a rule for each state of its counters or obligations.

mod automata;
mod containers;
pub(crate) mod notation;
mod raw_text;
mod strings;
mod text_sets;

use std::collections::VecDeque;

use notation::Notated;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::argument_types::{ValuePlace, ValueType, ValueTypes};
use crate::error::GrammarError;
use crate::ir::expr::{Expr, RuleId, Rules, next_char, normalise};
use crate::ir::json::layout::Gap;
use crate::ir::json::program::{JsonProgram, NodeId};
use crate::limits::Limits;
use crate::options::{Order, Profile};
pub(crate) use strings::spelling;

/// Maximum length of a rule's name in bytes, before a number is appended.
const NAME: usize = 40;

impl JsonProgram {
    /// Returns rules for the same language. The second result is true if the rules allow an
    /// undeclared name to occur twice.
    ///
    /// Rules cannot forbid repeated names. Returns an error if rules cannot express some other
    /// property of the schema, or if there would be too many of them.
    pub(crate) fn to_rules(&self, limits: &Limits) -> Result<(Rules, bool), GrammarError> {
        if self.profile == Profile::Accept {
            return Err(GrammarError::not_gbnf("it allows every spelling of a value"));
        }
        if self.order == Order::Any {
            return Err(GrammarError::not_gbnf("members may come in any order"));
        }
        if self.spacing.bracket == Gap::Line {
            return Err(GrammarError::not_gbnf("its indentation depends on the depth"));
        }
        let mut writer = Writer::new(self, limits, None);
        let root = writer.node(self.root, "root");
        writer.write_nodes()?;
        let repeats = writer.repeats;
        Ok((writer.finish(root, &FxHashSet::default()).0, repeats))
    }
}

struct Writer<'p> {
    program: &'p JsonProgram,
    limit: usize,
    /// Name and expression of each rule. The expression is empty until it is defined.
    rules: Vec<(String, Expr)>,
    names: FxHashSet<String>,
    /// For each name, the last number that was appended to it.
    numbers: FxHashMap<String, usize>,
    /// The rule of each place.
    places: FxHashMap<Place, RuleId>,
    shared: FxHashMap<Shared, RuleId>,
    /// Places that have a rule but no expression yet.
    todo: VecDeque<(Place, RuleId)>,
    /// The levels of a notation. `None` if all values are JSON.
    notated: Option<Notated<'p>>,
    /// Index of the level of the array or object that is being written. `None` if it is JSON.
    level: Option<usize>,
    /// Place of the array or object that is being written, for a level whose strings are raw text.
    types: ValuePlace,
    /// True if the array or object that is being written must not be empty.
    is_filled: bool,
    /// True while the arguments as a whole are being written.
    is_root: bool,
    size: usize,
    /// True if some object may have several undeclared members.
    repeats: bool,
}

/// Values that have a rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    node: NodeId,
    /// Index of a level. `None` for JSON.
    level: Option<usize>,
    /// Place of the values, for a level whose strings are raw text.
    types: ValuePlace,
    what: What,
}

/// Part of a node, and texts around it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    /// All values.
    Values,
    /// All values, written as items of an array at a level that names items.
    Item,
    /// The arrays or the objects. If the flag is true, without empty ones.
    Filled(ValueType, bool),
}

/// Identifies a rule that several nodes share.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Shared {
    Space,
    Char,
    String,
    Number(u32),
    Language(u32),
    /// The arrays or objects of a node as JSON.
    Json(NodeId, ValueType),
    /// The strings that may be written at a level, without those that read like values of the
    /// given types.
    Strings(usize, ValueTypes),
}

impl What {
    const fn is_filled(self) -> bool {
        matches!(self, Self::Filled(_, true))
    }
}

impl<'p> Writer<'p> {
    fn new(program: &'p JsonProgram, limits: &Limits, notated: Option<Notated<'p>>) -> Self {
        Self {
            program,
            limit: limits.states,
            rules: Vec::new(),
            names: FxHashSet::default(),
            numbers: FxHashMap::default(),
            places: FxHashMap::default(),
            shared: FxHashMap::default(),
            todo: VecDeque::new(),
            notated,
            level: None,
            types: ValuePlace::ANY,
            is_filled: false,
            is_root: false,
            size: 0,
            repeats: false,
        }
    }

    /// Writes the expressions of all places that have a rule.
    fn write_nodes(&mut self) -> Result<(), GrammarError> {
        while let Some((place, rule)) = self.todo.pop_front() {
            let Place { node, level, types, what } = place;
            (self.level, self.types, self.is_filled) = (level, types, what.is_filled());
            let expr = match what {
                What::Values if level.is_some() => self.value_in(node, rule),
                What::Values => self.value(node, rule),
                What::Item => self.item_in(node, rule),
                What::Filled(kind, _) => self.containers_in(node, kind, rule),
            };
            self.define(rule, expr?)?;
        }
        Ok(())
    }

    /// Returns the rule of a node at the current level. If the node has no rule yet, creates one with the
    /// name `name`.
    fn node(&mut self, node: NodeId, name: &str) -> RuleId {
        let what = What::Values;
        self.place(Place { node, level: self.level, types: ValuePlace::ANY, what }, name)
    }

    /// Returns the rule of a place. If the place has no rule yet, creates one with the name `name`.
    fn place(&mut self, place: Place, name: &str) -> RuleId {
        if let Some(&known) = self.places.get(&place) {
            return known;
        }
        let rule = self.rule(name);
        self.places.insert(place, rule);
        self.todo.push_back((place, rule));
        rule
    }

    /// Creates a rule with the name `name`. The name is shortened, or a number is appended, if
    /// necessary.
    fn rule(&mut self, name: &str) -> RuleId {
        let name = name.get(..NAME).unwrap_or(name).trim_matches('-');
        let name = if name.is_empty() { "rule" } else { name };
        let mut free = name.to_owned();
        let number = self.numbers.entry(free.clone()).or_insert(1);
        while !self.names.insert(free.clone()) {
            *number += 1;
            free = format!("{name}-{number}");
        }
        self.rules.push((free, Expr::empty()));
        RuleId(self.rules.len() as u32 - 1)
    }

    /// Returns a name for a rule that is `part` of the rule `rule`, for example `root-item`.
    fn name_in(&self, rule: RuleId, part: &str) -> String {
        let part: String = part.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        format!("{}-{part}", self.rules[rule.index()].0)
    }

    fn define(&mut self, rule: RuleId, expr: Expr) -> Result<(), GrammarError> {
        self.rules[rule.index()].1 = expr;
        self.spend(1)
    }

    fn spend(&mut self, size: usize) -> Result<(), GrammarError> {
        self.size += size;
        if self.size > self.limit {
            return Err(GrammarError::limit("parts of GBNF rules", self.size, self.limit));
        }
        Ok(())
    }

    /// Returns a reference to a shared rule. On first use, creates the rule with the name `name`
    /// and the expression that `write` returns.
    fn shared(
        &mut self,
        shared: Shared,
        name: &str,
        write: impl FnOnce(&mut Self, RuleId) -> Result<Expr, GrammarError>,
    ) -> Result<Expr, GrammarError> {
        if let Some(&known) = self.shared.get(&shared) {
            return Ok(Expr::Rule(known));
        }
        let rule = self.rule(name);
        self.shared.insert(shared, rule);
        let expr = write(self, rule)?;
        self.define(rule, expr)?;
        Ok(Expr::Rule(rule))
    }

    /// Returns the expression for the values of a node, whose rule is `rule`.
    fn value(&mut self, node: NodeId, rule: RuleId) -> Result<Expr, GrammarError> {
        let program = self.program;
        let node = &program.nodes[node as usize];
        let literals = [(node.null, "null"), (node.bools[0], "false"), (node.bools[1], "true")];
        let literals = literals.into_iter().filter(|(present, _)| *present);
        let mut ways: Vec<Expr> = literals.map(|(_, text)| Expr::Literal(text.into())).collect();
        if let Some(number) = node.number {
            ways.push(self.number(number)?);
        }
        for &text in &node.texts {
            ways.push(self.text(text)?);
        }
        if let Some(words) = node.words {
            let words = program.words[words as usize].words();
            ways.extend(words.map(|(_, word)| Expr::Literal(strings::json(word).into_bytes())));
        }
        for &language in &node.languages {
            ways.push(self.language(language)?);
        }
        for &array in &node.arrays {
            ways.push(self.array(array, rule)?);
        }
        for &object in &node.objects {
            ways.push(self.object(object, rule)?);
        }
        self.spend(ways.len())?;
        Ok(alternatives(ways))
    }

    /// Returns an expression for the white space of a gap. The expression is empty if the layout
    /// has no white space there.
    fn gap(&mut self, gap: Gap) -> Result<Expr, GrammarError> {
        match gap {
            Gap::Space => Ok(Expr::Literal(b" ".into())),
            Gap::UpTo(bytes) => self.shared(Shared::Space, "ws", |_, _| {
                let space = Expr::Class(vec![('\n', '\n'), (' ', ' ')]);
                Ok(Expr::Repeat { expr: Box::new(space), min: 0, max: Some(bytes.into()) })
            }),
            Gap::None | Gap::Line | Gap::Any => Ok(Expr::empty()),
        }
    }

    /// Returns the rules that can be reached from `root`, renumbered.
    ///
    /// References to a rule that consists only of another reference, a literal or a class are
    /// replaced by the rule's expression, except those in `fixed`. The second result maps the old ids
    /// to the new ones.
    fn finish(self, root: RuleId, fixed: &FxHashSet<RuleId>) -> (Rules, FxHashMap<RuleId, RuleId>) {
        let mut rules = self.rules;
        let short = |expr: &Expr| matches!(expr, Expr::Rule(_) | Expr::Literal(_) | Expr::Class(_));
        let mut stands_for: Vec<Option<Expr>> = Vec::with_capacity(rules.len());
        for (at, (_, expr)) in rules.iter().enumerate() {
            let is_fixed = fixed.contains(&RuleId(at as u32));
            let replaced =
                !is_fixed && short(expr) && at != root.index() && *expr != Expr::Rule(RuleId(at as u32));
            stands_for.push(replaced.then(|| expr.clone()));
        }
        for (_, expr) in &mut rules {
            replace(expr, &stands_for);
        }
        let mut ids: FxHashMap<RuleId, RuleId> = FxHashMap::from_iter([(root, RuleId(0))]);
        let mut order = vec![root];
        let mut done = 0;
        while let Some(&rule) = order.get(done) {
            each_rule(&mut rules[rule.index()].1, &mut |rule| {
                let next = RuleId(order.len() as u32);
                let id = *ids.entry(*rule).or_insert(next);
                if id == next {
                    order.push(*rule);
                }
                *rule = id;
            });
            done += 1;
        }
        let mut taken: Vec<Option<(String, Expr)>> = rules.into_iter().map(Some).collect();
        let (names, exprs) = order.into_iter().filter_map(|rule| taken[rule.index()].take()).unzip();
        (Rules::new(exprs, names, RuleId(0)), ids)
    }
}

/// Replaces references to rules by expressions: a reference to the rule at index `i` becomes
/// `stands_for[i]`, unless that is `None`.
fn replace(expr: &mut Expr, stands_for: &[Option<Expr>]) {
    let mut parts = vec![expr];
    while let Some(part) = parts.pop() {
        // The bound guards against a cycle of references, which no program has.
        for _ in 0..stands_for.len() {
            let Expr::Rule(rule) = *part else { break };
            let Some(other) = &stands_for[rule.index()] else { break };
            *part = other.clone();
        }
        push_parts(part, &mut parts);
    }
}

/// Calls `with` for each reference to a rule in `expr`.
fn each_rule(expr: &mut Expr, with: &mut impl FnMut(&mut RuleId)) {
    let mut parts = vec![expr];
    while let Some(part) = parts.pop() {
        if let Expr::Rule(rule) = part {
            with(rule);
        } else {
            push_parts(part, &mut parts);
        }
    }
}

/// Pushes the direct parts of an expression onto a stack, so that the first part is on top.
fn push_parts<'e>(expr: &'e mut Expr, parts: &mut Vec<&'e mut Expr>) {
    match expr {
        Expr::Sequence(inner) | Expr::Alternatives(inner) => parts.extend(inner.iter_mut().rev()),
        Expr::Repeat { expr, .. } => parts.push(expr),
        Expr::Literal(_) | Expr::Class(_) | Expr::Bytes(_) | Expr::Rule(_) => {}
    }
}

fn alternatives(mut ways: Vec<Expr>) -> Expr {
    if ways.len() == 1 { ways.swap_remove(0) } else { Expr::Alternatives(ways) }
}

/// Concatenates expressions, and merges adjacent literals and adjacent repetitions of the same
/// expression.
fn sequence(parts: impl IntoIterator<Item = Expr>) -> Expr {
    let mut joined: Vec<Expr> = Vec::new();
    let flat = parts.into_iter().flat_map(|part| match part {
        Expr::Sequence(inner) => inner,
        other => vec![other],
    });
    for part in flat {
        match (joined.last_mut(), part) {
            (_, Expr::Literal(text)) if text.is_empty() => {}
            (Some(Expr::Literal(before)), Expr::Literal(text)) => before.extend(text),
            (Some(last), part) => match repeated(last, &part) {
                Some(both) => *last = both,
                None => joined.push(part),
            },
            (None, part) => joined.push(part),
        }
    }
    if joined.len() == 1 { joined.swap_remove(0) } else { Expr::Sequence(joined) }
}

/// Merges two adjacent expressions into one repetition. Returns `None` if they do not repeat the
/// same expression.
fn repeated(a: &Expr, b: &Expr) -> Option<Expr> {
    fn counts(expr: &Expr) -> (&Expr, u32, Option<u32>) {
        match expr {
            Expr::Repeat { expr, min, max } => (expr, *min, *max),
            other => (other, 1, Some(1)),
        }
    }
    let repeats = matches!(a, Expr::Repeat { .. }) || matches!(b, Expr::Repeat { .. });
    let ((a, a_min, a_max), (b, b_min, b_max)) = (counts(a), counts(b));
    if a != b || !(repeats || matches!(a, Expr::Class(_) | Expr::Rule(_))) {
        return None;
    }
    let min = a_min.checked_add(b_min)?;
    let max = match a_max.zip(b_max) {
        Some((a, b)) => Some(a.checked_add(b)?),
        None => None,
    };
    Some(Expr::Repeat { expr: Box::new(a.clone()), min, max })
}

/// Returns an expression that also matches the empty text.
fn optional(expr: Expr) -> Expr {
    match expr {
        Expr::Repeat { min: 0, .. } => expr,
        Expr::Repeat { expr, min: 1, max } => Expr::Repeat { expr, min: 0, max },
        other => Expr::Repeat { expr: Box::new(other), min: 0, max: Some(1) },
    }
}

fn possibly(expr: Expr, ends: bool) -> Expr {
    if ends { optional(expr) } else { expr }
}

/// Returns an expression for one character in `ranges`.
fn class(mut ranges: Vec<(char, char)>) -> Expr {
    normalise(&mut ranges, next_char);
    match *ranges {
        [(low, high)] if low == high => Expr::Literal(low.to_string().into_bytes()),
        _ => Expr::Class(ranges),
    }
}
