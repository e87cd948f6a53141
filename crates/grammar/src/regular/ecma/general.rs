//! Builds the language of a pattern in which assertions may be anywhere: look-behind after
//! look-ahead, in loops, and in each other.
//!
//! The pattern and each look-around in it become an automaton. Empty edges of an automaton may
//! carry a condition. Whether a condition holds depends on the text before the position and on the
//! text after it. A [`Context`] summarises the text before the position. In a given context, the
//! condition is therefore a language: the texts after the position for which it holds.
//!
//! A context has the states that the automata of all look-behinds may be in after the text so far.
//! A look-behind may contain look-ahead. Each of these states therefore comes with a condition on
//! the text that follows.
//!
//! For each state and each context, the texts that may follow are a language. These languages are
//! the least solution of equations, one for each pair of state and context
//! ([`Expressions::recursive`]).
//!
//! Contexts are created on demand, like the states of a subset construction. A counted repetition
//! has a copy of its automaton for each round.
//!
//! (Conditions as languages of the following text are from Miyazaki and Minamide, *Derivatives of
//! Regular Expressions with Lookahead*, 2019.)

mod nfa;

use std::rc::Rc;

use rustc_hash::FxHashMap;

use self::nfa::{Body, Condition, Nfa, Node};
use super::ast::Ast;
use super::build::WORK;
use super::class::word_chars;
use super::{PatternError, PatternProblem};
use crate::regular::{CharSet, ExprId, Expressions};

/// Maximum number of steps of the construction (`STEPS`), and of pairs of a state and a context
/// (`PAIRS`).
const STEPS: usize = 1 << 18;
const PAIRS: usize = 1 << 15;

/// Maximum number of conjunctions in a [`Disjunction`].
const WAYS: usize = 64;

/// Position that a match must have: anywhere in the text, or from start to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    Anywhere,
    Whole,
}

/// Returns the language of all texts that have a match of `ast` at the position that `scope`
/// requires.
pub(super) fn texts(expressions: &mut Expressions, ast: &Ast, scope: Scope) -> Result<ExprId, PatternError> {
    let too_large = || PatternProblem::TooManyRounds.at(ast.offset);
    let nfa = Nfa::new(ast, scope).ok_or_else(too_large)?;
    let mut solver = Solver::new(expressions, &nfa);
    solver.solve().ok_or_else(too_large)
}

/// A condition on the text after a position: all these languages must contain the text. Sorted,
/// without the language of all texts.
type Conjunction = Vec<ExprId>;

/// A condition on the text after a position: at least one of these conjunctions must hold. No
/// conjunction contains all languages of another.
type Disjunction = Vec<Conjunction>;

/// Summary of the text before a position: the states of the automata of some look-behinds, and the
/// kind of the preceding character. The first look-behind has the index `first`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Context {
    first: usize,
    is_start: bool,
    is_word: bool,
    behind: Vec<Behind>,
}

/// The states that the automaton of one look-behind may be in after the text so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Behind {
    /// States that read a character next, each with the condition under which the automaton is in
    /// the state.
    states: Vec<(usize, Disjunction)>,
    /// Condition under which the look-behind holds at this position.
    holds: Disjunction,
}

/// The states that are reached from some state without reading a character.
#[derive(Clone, Debug, Default)]
struct Closure {
    /// States that read a character next, each with the condition under which it is reached.
    states: Vec<(usize, Disjunction)>,
    /// Condition under which the end of the automaton is reached.
    end: Disjunction,
}

struct Solver<'a> {
    expressions: &'a mut Expressions,
    nfa: &'a Nfa,
    contexts: Vec<Context>,
    ids: FxHashMap<Context, usize>,
    /// For each context, the sets of characters that lead to the same next context, each with that
    /// context.
    steps: FxHashMap<usize, Rc<[(CharSet, usize)]>>,
    /// For each pair of state and context, the language of the texts that may follow.
    rests: FxHashMap<(usize, usize), ExprId>,
    closures: FxHashMap<(usize, usize), Rc<Closure>>,
    word: ExprId,
    left: usize,
    /// Value of [`Expressions::work`] at which the construction stops.
    most_work: usize,
}

impl<'a> Solver<'a> {
    fn new(expressions: &'a mut Expressions, nfa: &'a Nfa) -> Self {
        let class = expressions.class(word_chars());
        let word = expressions.concat(class, Expressions::EVERYTHING);
        let most_work = expressions.work().saturating_add(WORK);
        Self {
            most_work,
            expressions,
            nfa,
            contexts: Vec::new(),
            ids: FxHashMap::default(),
            steps: FxHashMap::default(),
            rests: FxHashMap::default(),
            closures: FxHashMap::default(),
            word,
            left: STEPS,
        }
    }

    fn solve(&mut self) -> Option<ExprId> {
        let context = self.context(0, self.nfa.behinds.len(), None)?;
        self.language(self.nfa.main, context)
    }

    fn spend(&mut self, steps: usize) -> Option<()> {
        self.left = self.left.checked_sub(steps)?;
        (self.expressions.work() <= self.most_work).then_some(())
    }

    fn intern(&mut self, context: Context) -> usize {
        let next = self.contexts.len();
        *self.ids.entry(context).or_insert_with_key(|context| {
            self.contexts.push(context.clone());
            next
        })
    }

    /// Returns the context of the look-behinds `first..end`. If `before` is `None`, the position is
    /// the start of the text. Otherwise the position comes after a character in the context
    /// `before`. Returns `None` if a limit is exceeded, as in all methods here.
    fn context(&mut self, first: usize, end: usize, before: Option<(usize, char)>) -> Option<usize> {
        let is_word = before.is_some_and(|(_, c)| word_chars().contains(c));
        let mut context = Context {
            first,
            is_start: before.is_none() && self.nfa.has_start,
            is_word: is_word && self.nfa.has_word,
            behind: Vec::with_capacity(end - first),
        };
        for index in first..end {
            let body = self.nfa.behinds[index];
            let mut from: Vec<(usize, Disjunction)> = vec![(body.start, vec![Conjunction::new()])];
            if let Some((before, c)) = before {
                let states = self.contexts[before].behind[index - first].states.clone();
                for (state, ways) in states {
                    if let Node::Char(set, target) = &self.nfa.nodes[state]
                        && set.contains(c)
                    {
                        from.push((*target, self.derived(&ways, c)?));
                    }
                }
            }
            let closure = self.close(from, body, &context)?;
            context.behind.push(Behind { states: closure.states, holds: closure.end });
        }
        Some(self.intern(context))
    }

    /// Restricts `context` to the look-behinds with indices in `first..end`.
    fn part(&mut self, context: &Context, (first, end): (usize, usize)) -> usize {
        let behind = context.behind[first - context.first..end - context.first].to_vec();
        self.intern(Context { first, behind, ..*context })
    }

    /// Returns the condition `ways` after the character `c`: each language in it is replaced by its
    /// derivative by `c`.
    fn derived(&mut self, ways: &Disjunction, c: char) -> Option<Disjunction> {
        let mut derived = Disjunction::new();
        for way in ways {
            self.spend(1 + way.len())?;
            let mut rest = Conjunction::with_capacity(way.len());
            for &expr in way {
                rest.push(self.expressions.derive(expr, c));
            }
            add(&mut derived, rest)?;
        }
        Some(derived)
    }

    /// Divides the characters into sets: two characters are in the same set if they lead from
    /// `context` to the same context. Each set comes with that context.
    fn steps(&mut self, context: usize) -> Option<Rc<[(CharSet, usize)]>> {
        if let Some(known) = self.steps.get(&context) {
            return Some(Rc::clone(known));
        }
        let mut parts = vec![CharSet::any()];
        let mut sets = Vec::new();
        if self.nfa.has_word {
            sets.push(word_chars());
        }
        let behind = self.contexts[context].behind.clone();
        for (state, ways) in behind.iter().flat_map(|behind| &behind.states) {
            if let Node::Char(set, _) = &self.nfa.nodes[*state] {
                sets.push(set.clone());
            }
            for &expr in ways.iter().flatten() {
                sets.extend(self.pieces(expr)?);
            }
        }
        for set in sets {
            self.spend(parts.len())?;
            let outside = set.complement();
            let split = parts.iter().flat_map(|part| [part.intersect(&set), part.intersect(&outside)]);
            parts = split.filter(|part| !part.is_empty()).collect();
        }
        let (first, end) = (self.contexts[context].first, self.contexts[context].first + behind.len());
        let mut steps: Vec<(CharSet, usize)> = Vec::with_capacity(parts.len());
        let mut places: FxHashMap<usize, usize> = FxHashMap::default();
        for part in parts {
            let c = part.ranges().first().and_then(|&(low, _)| char::from_u32(low))?;
            let next = self.context(first, end, Some((context, c)))?;
            if let Some(&place) = places.get(&next) {
                let both = steps[place].0.ranges().iter().chain(part.ranges()).copied();
                steps[place].0 = CharSet::from_code_points(both);
            } else {
                places.insert(next, steps.len());
                steps.push((part, next));
            }
        }
        let steps: Rc<[_]> = steps.into();
        self.steps.insert(context, Rc::clone(&steps));
        Some(steps)
    }

    /// Divides the characters into sets: two characters are in the same set if `expr` has the same
    /// derivative by both.
    fn pieces(&mut self, expr: ExprId) -> Option<Vec<CharSet>> {
        let pieces = self.expressions.pieces(expr);
        self.spend(pieces.len())?;
        let mut sets: FxHashMap<ExprId, Vec<(u32, u32)>> = FxHashMap::default();
        for (at, &(low, derivative)) in pieces.iter().enumerate() {
            let high = pieces.get(at + 1).map_or(char::MAX.into(), |next| next.0 - 1);
            sets.entry(derivative).or_default().push((low, high));
        }
        Some(sets.into_values().map(CharSet::from_code_points).collect())
    }

    /// Returns the states that are reached from the states in `from` without reading a character.
    /// Each state in `from` comes with the condition under which the automaton is there.
    fn close(&mut self, from: Vec<(usize, Disjunction)>, body: Body, context: &Context) -> Option<Closure> {
        let mut known: FxHashMap<usize, Disjunction> = FxHashMap::default();
        let mut order = Vec::new();
        let mut open = from;
        while let Some((node, ways)) = open.pop() {
            self.spend(1 + ways.len())?;
            let here = known.entry(node).or_insert_with(|| {
                order.push(node);
                Disjunction::new()
            });
            let mut fresh = Disjunction::new();
            for way in ways {
                if add(here, way.clone())? {
                    fresh.push(way);
                }
            }
            if fresh.is_empty() {
                continue;
            }
            match &self.nfa.nodes[node] {
                Node::Char(..) | Node::End => {}
                Node::Empty(targets) => open.extend(targets.iter().map(|&target| (target, fresh.clone()))),
                Node::If(condition, target) => {
                    let asked = self.asked(*condition, context)?;
                    let mut met = Disjunction::new();
                    for mut way in fresh {
                        way.push(asked);
                        add(&mut met, way)?;
                    }
                    if !met.is_empty() {
                        open.push((*target, met));
                    }
                }
            }
        }
        let mut closure = Closure::default();
        order.sort_unstable();
        for node in order {
            let mut ways = known.remove(&node).unwrap_or_default();
            ways.sort_unstable();
            match &self.nfa.nodes[node] {
                Node::Char(..) if !ways.is_empty() => closure.states.push((node, ways)),
                Node::End if node == body.end => closure.end = ways,
                _ => {}
            }
        }
        Some(closure)
    }

    /// Returns the condition of an empty edge as a language: the texts after the position for which
    /// the condition holds in `context`.
    fn asked(&mut self, condition: Condition, context: &Context) -> Option<ExprId> {
        let never_or_always = |holds| if holds { Expressions::EVERYTHING } else { Expressions::NOTHING };
        Some(match condition {
            Condition::Start => never_or_always(context.is_start),
            Condition::End => Expressions::EMPTY,
            Condition::WordBoundary { negated } => {
                if context.is_word == negated {
                    self.word
                } else {
                    self.expressions.not(self.word)
                }
            }
            Condition::LookAhead { body, behinds, negated } => {
                let part = self.part(context, behinds);
                let language = self.language(body, part)?;
                if negated { self.expressions.not(language) } else { language }
            }
            Condition::LookBehind { index, negated } => {
                let holds = context.behind[index - context.first].holds.clone();
                let language = self.union(&holds);
                if negated { self.expressions.not(language) } else { language }
            }
        })
    }

    fn union(&mut self, ways: &Disjunction) -> ExprId {
        let ways = ways.iter().map(|way| self.expressions.all_of(way.clone())).collect();
        self.expressions.any_of(ways)
    }

    fn closure(&mut self, node: usize, body: Body, context: usize) -> Option<Rc<Closure>> {
        if let Some(known) = self.closures.get(&(node, context)) {
            return Some(Rc::clone(known));
        }
        let place = self.contexts[context].clone();
        let closure = Rc::new(self.close(vec![(node, vec![Conjunction::new()])], body, &place)?);
        self.closures.insert((node, context), Rc::clone(&closure));
        Some(closure)
    }

    /// Returns the texts that lead the automaton `body` from its start to its end in `context`,
    /// each followed by any text.
    fn language(&mut self, body: Body, context: usize) -> Option<ExprId> {
        let start = self.closure(body.start, body, context)?;
        let mut found = Vec::new();
        let mut seen: FxHashMap<(usize, usize), usize> = FxHashMap::default();
        let add = |pair: (usize, usize), found: &mut Vec<_>, seen: &mut FxHashMap<_, _>, solver: &Self| {
            if !solver.rests.contains_key(&pair) && !seen.contains_key(&pair) {
                seen.insert(pair, found.len());
                found.push(pair);
            }
        };
        for &(state, _) in &start.states {
            add((state, context), &mut found, &mut seen, self);
        }
        // By pair: characters, the context that they lead to, and the states reached there.
        let mut edges: Vec<Vec<(CharSet, usize, Rc<Closure>)>> = Vec::new();
        while let Some(&(state, at)) = found.get(edges.len()) {
            if self.rests.len() + found.len() > PAIRS {
                return None;
            }
            let mut out = Vec::new();
            if let Node::Char(set, target) = &self.nfa.nodes[state] {
                for (chars, next) in &*self.steps(at)? {
                    self.spend(1)?;
                    let chars = chars.intersect(set);
                    if chars.is_empty() {
                        continue;
                    }
                    let closure = self.closure(*target, body, *next)?;
                    for &(state, _) in &closure.states {
                        self.spend(1)?;
                        add((state, *next), &mut found, &mut seen, self);
                    }
                    out.push((chars, *next, closure));
                }
            }
            edges.push(out);
        }
        self.define(&found, &seen, &edges)?;
        self.rest(&start, context)
    }

    /// Creates the languages in `rests` for the pairs in `found`. A pair from which no end can be
    /// reached gets the empty language.
    fn define(
        &mut self,
        found: &[(usize, usize)],
        seen: &FxHashMap<(usize, usize), usize>,
        edges: &[Vec<(CharSet, usize, Rc<Closure>)>],
    ) -> Option<()> {
        let mut into = vec![Vec::new(); found.len()];
        let mut alive = vec![false; found.len()];
        let mut todo = Vec::new();
        for (from, out) in edges.iter().enumerate() {
            for (_, next, closure) in out {
                alive[from] |= !closure.end.is_empty();
                for &(state, _) in &closure.states {
                    self.spend(1)?;
                    if let Some(&to) = seen.get(&(state, *next)) {
                        into[to].push(from);
                    } else {
                        let known = self.rests.get(&(state, *next)).copied();
                        alive[from] |= known.is_some_and(|rest| rest != Expressions::NOTHING);
                    }
                }
            }
            if alive[from] {
                todo.push(from);
            }
        }
        while let Some(at) = todo.pop() {
            for &from in &into[at] {
                if !std::mem::replace(&mut alive[from], true) {
                    todo.push(from);
                }
            }
        }
        for (&pair, &alive) in found.iter().zip(&alive) {
            let rest = if alive { self.expressions.recursive(false) } else { Expressions::NOTHING };
            self.rests.insert(pair, rest);
        }
        for (index, out) in edges.iter().enumerate().filter(|&(index, _)| alive[index]) {
            let mut ways = Vec::with_capacity(out.len());
            for (chars, next, closure) in out {
                let rest = self.rest(closure, *next)?;
                let class = self.expressions.class(chars.clone());
                ways.push(self.expressions.concat(class, rest));
            }
            let definition = self.expressions.any_of(ways);
            self.expressions.define(self.rests[&found[index]], definition);
        }
        Some(())
    }

    /// Returns the texts that may follow at a position at which the automaton may be in the states
    /// of `closure`.
    fn rest(&mut self, closure: &Closure, context: usize) -> Option<ExprId> {
        let mut ways = Vec::with_capacity(closure.states.len() + 1);
        for (state, conditions) in &closure.states {
            self.spend(1)?;
            let rest = self.rests[&(*state, context)];
            let asked = self.union(conditions);
            ways.push(self.expressions.all_of(vec![asked, rest]));
        }
        if !closure.end.is_empty() {
            ways.push(self.union(&closure.end));
        }
        Some(self.expressions.any_of(ways))
    }
}

/// Adds the conjunction `way` to `ways`. Skips `way` if it can never hold, or if it contains all
/// languages of a conjunction in `ways`. Returns true if `way` was added, and `None` if there are
/// more than [`WAYS`] conjunctions.
fn add(ways: &mut Disjunction, mut way: Conjunction) -> Option<bool> {
    if way.contains(&Expressions::NOTHING) {
        return Some(false);
    }
    way.retain(|&expr| expr != Expressions::EVERYTHING);
    way.sort_unstable();
    way.dedup();
    let contains =
        |outer: &Conjunction, inner: &Conjunction| inner.iter().all(|expr| outer.binary_search(expr).is_ok());
    if ways.iter().any(|known| contains(&way, known)) {
        return Some(false);
    }
    ways.retain(|known| !contains(known, &way));
    ways.push(way);
    (ways.len() <= WAYS).then_some(true)
}
