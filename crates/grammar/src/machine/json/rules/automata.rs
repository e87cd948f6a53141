//! Translates automata to expressions.
//!
//! If only one other state leads to a state, the expression of the state is written in place. Other
//! states have a rule, unless their expression is short. A transition from a state to itself
//! becomes a repetition. A chain of states that read digits or letters becomes a counted
//! repetition.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

use super::{Shared, Writer, alternatives, class, possibly, sequence};
use crate::error::GrammarError;
use crate::ir::expr::{Expr, RuleId};
use crate::ir::json::number::NumberDfa;

/// Maximum nesting depth of states that are written in place.
const DEPTH: usize = 48;

/// Spelling of the characters of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Chars {
    /// As in a JSON string.
    Json,
    /// Without escapes.
    Plain,
    /// As in a literal of Python between single quotes.
    Python,
}

/// An automaton over characters.
#[derive(Clone, Default)]
pub(super) struct Automaton {
    pub(super) states: Vec<State>,
    pub(super) start: usize,
}

#[derive(Clone, Default)]
pub(super) struct State {
    /// `(target, range)` for each transition: the target state, and a range of code points.
    pub(super) edges: Vec<(usize, (u32, u32))>,
    pub(super) ends: bool,
}

impl Automaton {
    /// Removes the transitions to states from which no end can be reached.
    pub(super) fn trimmed(mut self) -> Self {
        let mut into = vec![Vec::new(); self.states.len()];
        for (from, state) in self.states.iter().enumerate() {
            for &(to, _) in &state.edges {
                into[to].push(from);
            }
        }
        let mut alive: Vec<bool> = self.states.iter().map(|state| state.ends).collect();
        let mut todo: Vec<usize> = (0..alive.len()).filter(|&state| alive[state]).collect();
        while let Some(state) = todo.pop() {
            for &from in &into[state] {
                if !std::mem::replace(&mut alive[from], true) {
                    todo.push(from);
                }
            }
        }
        for state in &mut self.states {
            state.edges.retain(|&(to, _)| alive[to]);
        }
        self
    }

    /// Returns the memory of the states and transitions, in bytes.
    pub(super) fn byte_len(&self) -> usize {
        let edges = self.states.iter().map(|state| size_of_val(&*state.edges));
        size_of_val(&*self.states) + edges.sum::<usize>()
    }

    /// Returns, for each state, true if several other states lead to it, so that it needs a rule.
    fn joints(&self) -> Vec<bool> {
        let mut from = vec![None; self.states.len()];
        let mut joints = vec![false; self.states.len()];
        let mut reached = vec![false; self.states.len()];
        let mut todo = vec![self.start];
        while let Some(state) = todo.pop() {
            if std::mem::replace(&mut reached[state], true) {
                continue;
            }
            for &(to, _) in self.states[state].edges.iter().filter(|&&(to, _)| to != state) {
                joints[to] |= from[to].is_some_and(|other| other != state);
                from[to] = Some(state);
                todo.push(to);
            }
        }
        // The start is entered from outside, too, so a single transition to it makes two entries.
        joints[self.start] = from[self.start].is_some();
        joints
    }
}

/// An automaton that is being translated.
struct Text<'a> {
    automaton: &'a Automaton,
    joints: Vec<bool>,
    rules: FxHashMap<usize, RuleId>,
    /// For each state with a short expression, this expression. It is written in place wherever a
    /// transition leads to the state.
    short: FxHashMap<usize, Expr>,
    /// States that are being translated.
    open: FxHashSet<usize>,
    todo: Vec<(usize, RuleId)>,
    name: RuleId,
    chars: Chars,
}

impl Writer<'_> {
    /// Returns an expression for the texts of an automaton, spelt as inside a JSON string.
    ///
    /// New rules are named after the rule `name`.
    pub(super) fn automaton(&mut self, automaton: &Automaton, name: RuleId) -> Result<Expr, GrammarError> {
        self.write(automaton, name, Chars::Json)
    }

    pub(super) fn number(&mut self, number: u32) -> Result<Expr, GrammarError> {
        self.shared(Shared::Number(number), "number", |writer, name| {
            let automaton = of_number(&writer.program.numbers[number as usize]);
            writer.write(&automaton, name, Chars::Plain)
        })
    }

    /// Returns an expression for the texts of an automaton, with their characters spelt as `chars`
    /// says.
    pub(super) fn write(
        &mut self,
        automaton: &Automaton,
        name: RuleId,
        chars: Chars,
    ) -> Result<Expr, GrammarError> {
        let mut text = Text {
            automaton,
            joints: automaton.joints(),
            rules: FxHashMap::default(),
            short: FxHashMap::default(),
            open: FxHashSet::default(),
            todo: Vec::new(),
            name,
            chars,
        };
        let start = self.target(&mut text, automaton.start, 0)?;
        while let Some((state, rule)) = text.todo.pop() {
            let expr = self.state(&mut text, state, 0)?;
            self.define(rule, expr)?;
        }
        Ok(start)
    }

    fn state_rule(&mut self, text: &mut Text<'_>, state: usize) -> RuleId {
        if let Some(&known) = text.rules.get(&state) {
            return known;
        }
        let rule = self.rule(&self.name_in(text.name, "more"));
        text.rules.insert(state, rule);
        text.todo.push((state, rule));
        rule
    }

    /// Returns an expression for the texts from the state `to` to an end.
    ///
    /// The result is a reference to a rule, unless the expression is short or no other state leads
    /// to `to`.
    fn target(&mut self, text: &mut Text<'_>, to: usize, depth: usize) -> Result<Expr, GrammarError> {
        if let Some(&rule) = text.rules.get(&to) {
            return Ok(Expr::Rule(rule));
        }
        if let Some(short) = text.short.get(&to) {
            return Ok(short.clone());
        }
        if depth == DEPTH || !text.open.insert(to) {
            return Ok(Expr::Rule(self.state_rule(text, to)));
        }
        let expr = self.state(text, to, depth + 1)?;
        text.open.remove(&to);
        if let Some(&rule) = text.rules.get(&to) {
            return Ok(Expr::Rule(rule)); // The state leads back to itself, and is written later.
        }
        if is_short(&expr) {
            text.short.insert(to, expr.clone());
        } else if text.joints[to] {
            let rule = self.rule(&self.name_in(text.name, "more"));
            text.rules.insert(to, rule);
            self.define(rule, expr)?;
            return Ok(Expr::Rule(rule));
        }
        Ok(expr)
    }

    /// Returns an expression for the texts from the state `at` to an end, without a rule for the
    /// state itself.
    fn state(&mut self, text: &mut Text<'_>, at: usize, depth: usize) -> Result<Expr, GrammarError> {
        let state = &text.automaton.states[at];
        self.spend(1 + state.edges.len())?;
        let targets = by_target(&state.edges);
        let (mut ways, mut again) = (Vec::new(), None);
        for (to, ranges) in targets {
            let class = match text.chars {
                Chars::Json => self.chars(&ranges)?,
                Chars::Plain => plain(&ranges),
                Chars::Python => python_class(&ranges),
            };
            if to == at {
                again = Some(Expr::Repeat { expr: Box::new(class), min: 0, max: None });
                continue;
            }
            ways.push(sequence([class, self.target(text, to, depth)?]));
        }
        let rest = if ways.is_empty() { Expr::empty() } else { possibly(alternatives(ways), state.ends) };
        Ok(sequence(again.into_iter().chain([rest])))
    }
}

/// A state, and the ranges that lead to it.
type Target = (usize, SmallVec<[(u32, u32); 2]>);

/// Groups transitions by their targets, in the order in which these occur first.
fn by_target(edges: &[(usize, (u32, u32))]) -> Vec<Target> {
    /// Maximum number of transitions whose targets are compared one by one.
    const FEW: usize = 16;
    let mut targets: Vec<Target> = Vec::new();
    let mut places: FxHashMap<usize, usize> = FxHashMap::default();
    for &(to, range) in edges {
        let place = if edges.len() <= FEW {
            targets.iter().position(|(target, _)| *target == to).unwrap_or(targets.len())
        } else {
            *places.entry(to).or_insert(targets.len())
        };
        match targets.get_mut(place) {
            Some((_, ranges)) => ranges.push(range),
            None => targets.push((to, smallvec![range])),
        }
    }
    targets
}

/// Reports whether an expression is about as short as a reference to a rule.
fn is_short(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(_) | Expr::Class(_) | Expr::Rule(_) => true,
        Expr::Repeat { expr, .. } => matches!(**expr, Expr::Literal(_) | Expr::Class(_) | Expr::Rule(_)),
        Expr::Sequence(parts) => parts.is_empty(),
        Expr::Bytes(_) | Expr::Alternatives(_) => false,
    }
}

/// Returns an expression for one character in `ranges`, written without an escape.
fn plain(ranges: &[(u32, u32)]) -> Expr {
    let chars = |&(low, high): &(u32, u32)| char::from_u32(low).zip(char::from_u32(high));
    class(ranges.iter().filter_map(chars).collect())
}

/// Returns an expression for one character in `ranges`, spelt as in a literal of Python.
fn python_class(ranges: &[(u32, u32)]) -> Expr {
    let mut bare = Vec::new();
    let mut ways = Vec::new();
    for &(low, high) in ranges {
        for c in (low..=high.min(0x7f)).filter_map(char::from_u32) {
            let text = crate::python::escaped(c.encode_utf8(&mut [0; 4]));
            if text.len() == 1 {
                bare.push((c.into(), c.into()));
            } else {
                ways.push(Expr::Literal(text.into()));
            }
        }
        if high >= 0x80 {
            bare.push((low.max(0x80), high));
        }
    }
    if !bare.is_empty() {
        ways.insert(0, plain(&bare));
    }
    alternatives(ways)
}

fn of_number(dfa: &NumberDfa) -> Automaton {
    let state = |at: u32| {
        let mut edges: Vec<(usize, (u32, u32))> = Vec::new();
        for byte in b'+'..=b'9' {
            let Some(to) = dfa.step(at, byte) else { continue };
            let (to, byte) = (to as usize, u32::from(byte));
            match edges.last_mut() {
                Some((last, (_, high))) if *last == to && *high + 1 == byte => *high = byte,
                _ => edges.push((to, (byte, byte))),
            }
        }
        State { edges, ends: dfa.closing(at).0 == 0 }
    };
    Automaton { states: (0..dfa.len() as u32).map(state).collect(), start: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_transitions_are_grouped_in_the_same_way() {
        let edges: Vec<(usize, (u32, u32))> =
            (0..40).map(|at| ((at * 7 % 5) as usize, (10 * at, 10 * at + 3))).collect();
        for len in 0..edges.len() {
            let grouped = by_target(&edges[..len]);
            for (to, ranges) in &grouped {
                let own = edges[..len].iter().filter(|(other, _)| other == to).map(|(_, range)| *range);
                assert!(ranges.iter().copied().eq(own), "{len}");
            }
            let firsts: Vec<usize> = grouped.iter().map(|(to, _)| *to).collect();
            assert_eq!(firsts, [0, 2, 4, 1, 3][..len.min(5)], "{len}");
        }
    }
}
