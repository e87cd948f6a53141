//! Numbers as automata over their digits.
//!
//! The rules for one value are first brought into a normal form, by arithmetic ([`normal`]). The
//! remaining rules become an automaton. The automaton compares the text of a number with the bounds
//! digit by digit, without arithmetic and therefore without rounding. The comparison of integer
//! parts is undecided until their lengths are known. A state therefore records the number of
//! digits, up to one more than the bound's, and the order of the digits so far. In the fraction, a
//! state records only the order.
//!
//! `multipleOf` needs the remainder of the digits so far. All rules read the same digits, so one
//! remainder by a common modulus suffices for all of them ([`residues`]). A state of the automaton
//! is a pair of a *base state*, which is independent of remainders, and a remainder. Transitions of
//! pairs are computed. Only the distance to the nearest end is stored for each pair.

mod normal;
mod residues;
mod rule;
mod scientific;
mod walk;

use std::sync::Arc;

pub(crate) use normal::normalize;
pub(crate) use rule::{Bound, Multiple, NumberForm, NumberRule};
use rustc_hash::FxHashMap;
use scientific::Scientific;
use walk::{End, PlainNumber, PreparedRule, spans};

use crate::ledger::Ledger;
use crate::options::Profile;
use crate::regular::minimize::{Edge, Incoming, minimize};
use crate::shared_cache::{Charged, SharedCache};
use residues::Residues;

/// Maximum number of digits of a generated number, unless a bound or divisor has more.
///
/// A number with at most 15 digits is a finite double and reads back as written.
const GENERATED_DIGITS: usize = 15;

/// Maximum number of pairs of a base state and a remainder.
const PAIRS: usize = 1 << 21;

/// Automata that are kept for later schemas, by their rules.
static NUMBERS: SharedCache<Key, Charged<Option<Arc<NumberDfa>>>> = SharedCache::new(16 << 20, 1 << 17);

type Key = (Vec<NumberRule>, Profile);

/// Memory of a rule with its two bounds, in bytes.
const RULE_BYTES: usize = 1024;

/// An automaton over the bytes of a number. Its states are pairs of a base state and a remainder.
/// The index of a pair is the base state times the modulus, plus the remainder. Pair 0 is the
/// start.
#[derive(Clone, Debug)]
pub(crate) struct NumberDfa {
    /// The transitions of each base state.
    rows: Vec<Row>,
    modulus: u32,
    /// For each pair, the number of bytes to the nearest end of a number, and the first of these
    /// bytes. The number is [`NONE`] if no end is reachable.
    closing: Vec<(u16, u8)>,
}

/// Transitions of a base state. The index is the class of the byte.
type Row = [Cell; CLASSES];

/// A transition: the next base state, shifted left by two bits, and the [`Action`] on the remainder
/// in the low bits. [`Cell::NONE`] if there is no transition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cell(u32);

/// Effect of a byte on the remainder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Keep = 0,
    /// Appends the digit to the number and updates the remainder.
    Append = 1,
    /// Sets the remainder to 0, because it is irrelevant from here on.
    Forget = 2,
}

impl Cell {
    const NONE: Self = Self(u32::MAX);

    const fn new(to: u32, action: Action) -> Self {
        Self(to << 2 | action as u32)
    }

    const fn to(self) -> u32 {
        self.0 >> 2
    }

    const fn action(self) -> Action {
        match self.0 & 3 {
            0 => Action::Keep,
            1 => Action::Append,
            _ => Action::Forget,
        }
    }
}

/// Number of classes of bytes. Each byte of a number has its own class, except that `E` has the
/// class of `e`.
const CLASSES: usize = 14;
const CLASS_BYTES: [u8; CLASSES] = *b"0123456789-+.e";
/// Number of bytes to the nearest end for pairs from which no end is reachable.
const NONE: u16 = u16::MAX;

/// Returns the class of a byte, which is its index in [`CLASS_BYTES`]. `E` has the class of `e`.
const fn class(byte: u8) -> Option<usize> {
    match byte {
        b'0'..=b'9' => Some((byte - b'0') as usize),
        b'-' => Some(10),
        b'+' => Some(11),
        b'.' => Some(12),
        b'e' | b'E' => Some(13),
        _ => None,
    }
}

/// Reason why some rules have no automaton.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NumberError {
    /// The least common multiple of the divisors is too large.
    CommonMultiple { given: u64, limit: u64 },
    /// The automaton has too many states.
    States { given: usize, limit: usize },
    /// The compilation exceeds a limit of its ledger.
    Ledger,
}

impl NumberDfa {
    /// Returns the automaton of the numbers that satisfy at least one of `rules`. Returns `None` if
    /// there are no such numbers.
    ///
    /// Schemas repeat few rules, so small automata are kept for later compilations. Each use charges the
    /// ledger as if the automaton was new.
    pub(crate) fn shared(
        rules: &[NumberRule],
        profile: Profile,
        ledger: &Ledger,
    ) -> Result<Option<Arc<Self>>, NumberError> {
        let key = (rules.to_vec(), profile);
        if let Some(known) = NUMBERS.get(&key) {
            let dfa = known.charge(ledger);
            return if ledger.is_over() { Err(NumberError::Ledger) } else { Ok(dfa) };
        }
        let built = Charged::build(ledger, || Ok(Self::new(rules, profile, ledger)?.map(Arc::new)))?;
        let bytes = built.value.as_ref().map_or(0, |dfa| dfa.byte_len()) + RULE_BYTES * rules.len();
        Ok(NUMBERS.insert(key, built, bytes).value)
    }

    /// Returns the memory of the automaton, in bytes.
    fn byte_len(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.rows) + size_of_val(&*self.closing)
    }

    /// Creates the automaton of the numbers that satisfy at least one of `rules`. Returns `None` if
    /// there are no such numbers.
    fn new(rules: &[NumberRule], profile: Profile, ledger: &Ledger) -> Result<Option<Self>, NumberError> {
        let (spans, residues) = spans(rules, profile, ledger)?;
        let mut base = Base::new(&spans, ledger)?;
        if residues.modulus > 1 {
            let Some(small) = base.minimized() else { return Ok(None) };
            base = small;
        }
        let pairs = base.rows.len().saturating_mul(residues.modulus as usize);
        if pairs > PAIRS {
            return Err(NumberError::States { given: pairs, limit: PAIRS });
        }
        ledger.note(pairs * CLASSES);
        if ledger.hold(pairs * 16).is_err() {
            return Err(NumberError::Ledger);
        }
        let closing = base.closing(&residues);
        ledger.release(pairs * 12);
        let dfa = Self { rows: base.rows, modulus: residues.modulus, closing };
        Ok((dfa.closing[0].0 != NONE).then_some(dfa))
    }

    /// Returns the state after `byte`. Returns `None` if no number continues with `byte`.
    pub(crate) fn step(&self, state: u32, byte: u8) -> Option<u32> {
        let cell = self.rows[(state / self.modulus) as usize][class(byte)?];
        if cell == Cell::NONE {
            return None;
        }
        let remainder = match cell.action() {
            Action::Keep => state % self.modulus,
            Action::Append => {
                let digits = u64::from(state % self.modulus) * 10 + u64::from(byte - b'0');
                (digits % u64::from(self.modulus)) as u32
            }
            Action::Forget => 0,
        };
        let next = cell.to() * self.modulus + remainder;
        (self.closing[next as usize].0 != NONE).then_some(next)
    }

    /// Returns the number of bytes from `state` to the nearest end of a number, and the first of
    /// these bytes. The number is 0 if the number may end in `state`.
    pub(crate) fn closing(&self, state: u32) -> (u32, u8) {
        let (len, first) = self.closing[state as usize];
        (len.into(), first)
    }

    pub(crate) fn len(&self) -> usize {
        self.closing.len()
    }
}

/// The automaton of base states, which knows no remainders.
struct Base {
    rows: Vec<Row>,
    /// For each base state, the conditions on the remainder under which a number may end.
    ends: Vec<Box<[End]>>,
}

impl Base {
    fn new(spans: &[PreparedRule], ledger: &Ledger) -> Result<Self, NumberError> {
        let start: Vec<_> =
            spans.iter().zip(0..).flat_map(|(span, rule)| Reading::starts(span, rule)).collect();
        let mut ids = FxHashMap::from_iter([(start.clone(), 0_u32)]);
        let mut states = vec![start];
        let mut base = Self { rows: Vec::new(), ends: Vec::new() };
        let mut next = Vec::new();
        while let Some(state) = states.get(base.rows.len()).cloned() {
            ledger.note(CLASSES * (2 + state.len()));
            let bytes = size_of::<Row>() + 2 * size_of::<Reading>() * state.len() + 96;
            if ledger.hold(bytes).is_err() {
                return Err(NumberError::Ledger);
            }
            if base.rows.len() >= PAIRS {
                return Err(NumberError::States { given: states.len(), limit: PAIRS });
            }
            base.ends.push(ends(&state, spans));
            let mut row = [Cell::NONE; CLASSES];
            for (class, cell) in row.iter_mut().enumerate() {
                next.clear();
                let mut divides = false;
                let mut counts = false;
                for reading in &state {
                    let span = &spans[reading.rule() as usize];
                    if let Some(after) = reading.step(span, CLASS_BYTES[class]) {
                        divides |= after.divides(span);
                        counts |= after.counts_digit(reading, span);
                        next.push(after);
                    }
                }
                if next.is_empty() {
                    continue;
                }
                next.sort_unstable();
                next.dedup();
                let to = if let Some(&known) = ids.get(&next) {
                    known
                } else {
                    let id = states.len() as u32;
                    ids.insert(next.clone(), id);
                    states.push(next.clone());
                    id
                };
                let action = match (divides, counts && class < 10) {
                    (false, _) => Action::Forget,
                    (true, true) => Action::Append,
                    (true, false) => Action::Keep,
                };
                *cell = Cell::new(to, action);
            }
            base.rows.push(row);
        }
        Ok(base)
    }

    /// Returns one flag for each state: true if an end is reachable, ignoring remainders.
    fn live(&self) -> Vec<bool> {
        let parents = self.parents();
        let mut live: Vec<bool> = self.ends.iter().map(|ends| !ends.is_empty()).collect();
        let mut todo: Vec<usize> = (0..live.len()).filter(|&state| live[state]).collect();
        while let Some(state) = todo.pop() {
            for &(from, _) in &parents[state] {
                if !std::mem::replace(&mut live[from], true) {
                    todo.push(from);
                }
            }
        }
        live
    }

    /// Returns the transitions into each state: the source state and the class of the byte.
    fn parents(&self) -> Vec<Vec<(usize, usize)>> {
        let mut parents = vec![Vec::new(); self.rows.len()];
        for (from, row) in self.rows.iter().enumerate() {
            for (class, cell) in row.iter().enumerate().filter(|(_, cell)| **cell != Cell::NONE) {
                parents[cell.to() as usize].push((from, class));
            }
        }
        parents
    }

    /// Merges states that no continuation distinguishes. Returns `None` if no end is reachable.
    fn minimized(self) -> Option<Self> {
        let live = self.live();
        if !live[0] {
            return None;
        }
        let mut number = vec![u32::MAX; live.len()];
        let mut kept = Vec::new();
        for state in (0..live.len()).filter(|&state| live[state]) {
            number[state] = kept.len() as u32;
            kept.push(state);
        }
        let mut labels_of = FxHashMap::from_iter([(Box::default(), 0)]);
        let labels: Vec<u32> = kept
            .iter()
            .map(|&state| {
                let new = labels_of.len() as u32;
                *labels_of.entry(self.ends[state].clone()).or_insert(new)
            })
            .collect();
        let mut edges = Vec::new();
        for &state in &kept {
            for (class, cell) in self.rows[state].iter().enumerate() {
                if *cell != Cell::NONE && live[cell.to() as usize] {
                    let letter = class as u32 * 4 + cell.action() as u32;
                    edges.push(Edge { from: number[state], letter, to: number[cell.to() as usize] });
                }
            }
        }
        let classes = minimize(&labels, &edges, &Incoming::new(&edges));
        // The start is state 0 again.
        let mut order = vec![u32::MAX; kept.len()];
        let mut merged = Self { rows: Vec::new(), ends: Vec::new() };
        for (at, &class) in classes.iter().enumerate() {
            if order[class as usize] == u32::MAX {
                order[class as usize] = merged.rows.len() as u32;
                merged.rows.push([Cell::NONE; CLASSES]);
                merged.ends.push(self.ends[kept[at]].clone());
            }
        }
        for edge in edges {
            let id = |state: u32| order[classes[state as usize] as usize];
            let action = match edge.letter % 4 {
                0 => Action::Keep,
                1 => Action::Append,
                _ => Action::Forget,
            };
            merged.rows[id(edge.from) as usize][edge.letter as usize / 4] = Cell::new(id(edge.to), action);
        }
        Some(merged)
    }

    /// Computes the field `closing` of [`NumberDfa`], backwards from the ends.
    fn closing(&self, residues: &Residues) -> Vec<(u16, u8)> {
        let modulus = residues.modulus as usize;
        let parents = self.parents();
        let before = Before::new(residues);
        let mut closing = vec![(NONE, 0); self.rows.len() * modulus];
        let mut queue = std::collections::VecDeque::new();
        for (state, ends) in self.ends.iter().enumerate().filter(|(_, ends)| !ends.is_empty()) {
            for remainder in 0..modulus {
                let accepts = |end: &End| {
                    let of = |condition| residues.accepts(condition, remainder as u32, end.after_point);
                    end.condition.is_none_or(of)
                };
                if ends.iter().any(accepts) {
                    closing[state * modulus + remainder].0 = 0;
                    queue.push_back(state * modulus + remainder);
                }
            }
        }
        while let Some(pair) = queue.pop_front() {
            let (state, remainder) = (pair / modulus, pair % modulus);
            let len = closing[pair].0.saturating_add(1).min(NONE - 1);
            for &(from, class) in &parents[state] {
                let mut reach = |before: usize| {
                    let slot = &mut closing[from * modulus + before];
                    if slot.0 == NONE {
                        *slot = (len, CLASS_BYTES[class]);
                        queue.push_back(from * modulus + before);
                    }
                };
                match self.rows[from][class].action() {
                    Action::Keep => reach(remainder),
                    Action::Append => before.of(remainder, class).for_each(reach),
                    Action::Forget if remainder == 0 => (0..modulus).for_each(reach),
                    Action::Forget => {}
                }
            }
        }
        closing
    }
}

/// The state of reading a number by one rule, in one notation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Reading {
    Plain(PlainNumber),
    Scientific(Scientific),
}

impl Reading {
    /// Returns the start states of reading a number by the rule `span`, whose index is `rule`. Each
    /// notation that the rule reads has its own start state.
    fn starts(span: &PreparedRule, rule: u32) -> impl Iterator<Item = Self> {
        let scientific = span.scientific.then(|| Self::Scientific(Scientific::start(rule)));
        std::iter::once(Self::Plain(PlainNumber::start(rule))).chain(scientific)
    }

    /// Returns the index of the rule.
    const fn rule(&self) -> u32 {
        match self {
            Self::Plain(walk) => walk.rule,
            Self::Scientific(walk) => walk.rule,
        }
    }

    /// Returns the state after `byte`, or `None` if no number of the rule continues with `byte`.
    fn step(&self, span: &PreparedRule, byte: u8) -> Option<Self> {
        Some(match self {
            Self::Plain(walk) => Self::Plain(walk.step(span, byte)?),
            Self::Scientific(walk) => Self::Scientific(walk.step(span, byte)?),
        })
    }

    /// Returns the condition under which the number may end here, or `None` if it may not end.
    fn ends(&self, span: &PreparedRule) -> Option<End> {
        match self {
            Self::Plain(walk) => walk.ends(span),
            Self::Scientific(walk) => walk.ends(span),
        }
    }

    /// Reports whether the walk has to track a remainder: the digits so far, divided by the divisor
    /// of `multipleOf`.
    fn divides(&self, span: &PreparedRule) -> bool {
        matches!(self, Self::Plain(walk) if walk.divides(span))
    }

    /// Reports whether the last digit changes the remainder. `before` is the state before the
    /// digit.
    fn counts_digit(&self, before: &Self, span: &PreparedRule) -> bool {
        let (Self::Plain(walk), Self::Plain(before)) = (self, before) else { return false };
        walk.divides(span) && walk.counts_digit(before, span)
    }
}

/// Returns the conditions on the remainder under which a number may end. `state` has the states of
/// all rules. A single [`End::ALWAYS`] stands for no condition.
fn ends(state: &[Reading], spans: &[PreparedRule]) -> Box<[End]> {
    let end = |reading: &Reading| reading.ends(&spans[reading.rule() as usize]);
    let mut ends: Vec<_> = state.iter().filter_map(end).collect();
    if ends.contains(&End::ALWAYS) {
        return Box::new([End::ALWAYS]);
    }
    ends.sort_unstable();
    ends.dedup();
    ends.into()
}

/// Computes the possible remainders before a digit from the remainder after the digit.
struct Before {
    modulus: u64,
    /// The greatest common divisor of 10 and the modulus.
    common: u64,
    /// The inverse of `10 / common` modulo `modulus / common`.
    inverse: u64,
}

impl Before {
    fn new(residues: &Residues) -> Self {
        let modulus = u64::from(residues.modulus);
        let common = [10, 5, 2, 1].into_iter().find(|divisor| modulus.is_multiple_of(*divisor)).unwrap_or(1);
        let reduced = modulus / common;
        let factor = 10 / common;
        // Few factors are possible. Their inverses have the form `(k * reduced + 1) / factor`.
        let inverse = (0..factor).map(|k| k * reduced + 1).find(|product| product.is_multiple_of(factor));
        let inverse = inverse.map_or(0, |product| product / factor);
        Self { modulus, common, inverse }
    }

    /// Returns the remainders `before` for which `10 * before + digit` has the remainder `after`.
    fn of(&self, after: usize, digit: usize) -> impl Iterator<Item = usize> {
        let (modulus, common) = (self.modulus, self.common);
        let difference = (after as u64 + modulus - digit as u64 % modulus) % modulus;
        let reduced = modulus / common;
        let solvable = difference.is_multiple_of(common);
        let first = (difference / common % reduced) * (self.inverse % reduced) % reduced;
        (0..if solvable { common } else { 0 }).map(move |at| (first + at * reduced) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn finds_the_remainders_before_a_digit() {
        for modulus in 1..=60_u32 {
            let residues = Residues { places: 0, modulus, conditions: Vec::new() };
            let before = Before::new(&residues);
            for digit in 0..10 {
                for after in 0..modulus {
                    let mut found: Vec<_> = before.of(after as usize, digit).collect();
                    found.sort_unstable();
                    let expected = (0..modulus).filter(|&rest| residues.after(rest, digit as u8) == after);
                    let expected: Vec<_> = expected.map(|rest| rest as usize).collect();
                    assert_eq!(found, expected, "{modulus} {digit} {after}");
                }
            }
        }
    }

    /// Compares every text of up to four characters with arithmetic on its value.
    #[test]
    fn accepts_what_the_rules_say() {
        let bound = |units, inclusive| Bound {
            value: crate::ir::json::decimal::Decimal::from_number(&serde_json::Number::from(units))
                .expect("an integer"),
            inclusive,
        };
        let of =
            |units, places| NumberRule { multiple_of: Some(Multiple { units, places }), ..NumberRule::ANY };
        let rules = [
            vec![of(3, 0), of(25, 2)],
            vec![
                NumberRule { low: Some(bound(10, true)), ..of(7, 0) },
                NumberRule { high: Some(bound(-2, false)), ..of(4, 0) },
            ],
            vec![NumberRule {
                indivisible: vec![Multiple { units: 5, places: 1 }],
                high: Some(bound(40, true)),
                ..NumberRule::ANY
            }],
            vec![
                NumberRule { form: NumberForm::Integer, ..of(15, 1) },
                NumberRule { low: Some(bound(90, false)), ..NumberRule::ANY },
            ],
        ];
        for rules in rules {
            let normal = normalize(rules.clone());
            let ledger = Ledger::new(&Limits::default());
            let dfa = NumberDfa::new(&normal, Profile::Accept, &ledger).expect("small").expect("some number");
            let mut texts = vec![String::new()];
            for at in 0..texts_of_length(4) {
                let text = texts[at].clone();
                if text.len() < 4 {
                    texts.extend("0123456789-.".chars().map(|c| format!("{text}{c}")));
                }
                if !is_number(&text) {
                    continue;
                }
                let hundredths = (text.parse::<f64>().expect("a number") * 1000.0).round() as i64;
                let expected = rules.iter().any(|rule| holds(rule, hundredths));
                let mut state = Some(0);
                for byte in text.bytes() {
                    state = state.and_then(|state| dfa.step(state, byte));
                }
                let accepted = state.is_some_and(|state| dfa.closing(state).0 == 0);
                assert_eq!(accepted, expected, "{text} {rules:?}");
            }
        }
    }

    /// Covers scientific notation with digits, signs and exponents near those of the bounds.
    #[test]
    fn compares_scientific_notation_with_bounds() {
        use crate::ir::json::decimal::Decimal;
        let decimal = |text: &str| Decimal::parse(text).expect("not too long");
        let bounds = [
            "-1e30",
            "-120",
            "-1.05",
            "-0.0012",
            "0",
            "1e-6",
            "0.5",
            "1",
            "7",
            "10",
            "99.5",
            "1.7976931348623157e308",
        ];
        let mantissas = [
            "0", "0.0", "1", "1.0", "1.04", "1.05", "1.2", "1.20000", "1.21", "5", "7", "9.94", "9.95",
            "9.951",
        ];
        let exponents =
            ["0", "00", "1", "2", "3", "6", "7", "06", "29", "30", "31", "307", "308", "309", "4000"];
        let signs = ["e", "e+", "e-"];
        let bound = |at: Option<&str>, inclusive| at.map(|text| Bound { value: decimal(text), inclusive });
        let choices: Vec<Option<&str>> = std::iter::once(None).chain(bounds.map(Some)).collect();
        for (at, &low) in choices.iter().enumerate() {
            for &high in choices.iter().skip(at).chain(&[None]).filter(|high| low.or(**high).is_some()) {
                for (inclusive, form) in
                    [(true, NumberForm::Any), (false, NumberForm::Any), (true, NumberForm::Integer)]
                {
                    let (low, high) = (bound(low, inclusive), bound(high, inclusive));
                    let rule = NumberRule { low, high, form, ..NumberRule::ANY };
                    let ledger = Ledger::new(&Limits::default());
                    let dfa =
                        NumberDfa::new(std::slice::from_ref(&rule), Profile::Accept, &ledger).expect("small");
                    for text in
                        ["", "-"].iter().flat_map(|minus| mantissas.map(|digits| format!("{minus}{digits}")))
                    {
                        for end in signs
                            .iter()
                            .flat_map(|sign| exponents.map(|exponent| format!("{sign}{exponent}")))
                        {
                            let text = format!("{text}{end}");
                            let expected = rule.literal(&decimal(&text)).is_some();
                            let mut state = dfa.as_ref().map(|_| 0);
                            for byte in text.bytes() {
                                state = state.and_then(|state| dfa.as_ref()?.step(state, byte));
                            }
                            let accepted = state.is_some_and(|state| {
                                dfa.as_ref().is_some_and(|dfa| dfa.closing(state).0 == 0)
                            });
                            // An integer with a fraction or a negative exponent is rejected: see
                            // `Profile::Accept`.
                            let is_refused = form == NumberForm::Integer && accepted != expected;
                            let is_odd = text.contains('-') || text.contains('.');
                            assert!(
                                accepted == expected || is_refused && is_odd && !accepted,
                                "{text} {rule:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    fn texts_of_length(most: u32) -> usize {
        (0..=most).map(|len| 12_usize.pow(len)).sum()
    }

    fn is_number(text: &str) -> bool {
        let digits = text.strip_prefix('-').unwrap_or(text);
        serde_json::from_str::<serde_json::Number>(text).is_ok() && !digits.is_empty()
    }

    /// Reports whether a number of thousandths satisfies a rule.
    fn holds(rule: &NumberRule, value: i64) -> bool {
        let units = |bound: &Bound| {
            let digits = bound.value.integer.iter().fold(0, |all, &digit| all * 10 + i64::from(digit)) * 1000;
            if bound.value.negative { -digits } else { digits }
        };
        let divides = |multiple: &Multiple| {
            value % multiple.scaled(3).and_then(|units| i64::try_from(units).ok()).expect("small") == 0
        };
        rule.low.as_ref().is_none_or(|low| value > units(low) || low.inclusive && value == units(low))
            && rule
                .high
                .as_ref()
                .is_none_or(|high| value < units(high) || high.inclusive && value == units(high))
            && rule.multiple_of.as_ref().is_none_or(divides)
            && !rule.indivisible.iter().any(divides)
            && (rule.form == NumberForm::Any || value % 1000 == 0)
    }
}
