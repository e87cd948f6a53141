//! Checks all ranges of small numbers: each rule accepts exactly the texts of the range.
//!
//! A separate parser reads a rule and evaluates it to spans. A span holds all numbers between two
//! numbers with the same sign and the same number of digits before and after the point. The rule of
//! a range around zero must combine the rules of its two sides.

use formwork_fields::builder::{float, int};
use formwork_fields::{Definition, Kind};
use formwork_grammar::Limits;

/// Bound of all integer ranges.
const INTEGERS: i64 = 1200;
/// Bound of ranges with decimals, in units of the last decimal.
const DECIMALS: i64 = 400;

/// Texts of the same form: an optional `-`, `whole` digits and, if `point` is set, a point and more
/// digits. Read as one number, the digits range from `low` to `high`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Span {
    negative: bool,
    whole: u32,
    point: Option<u32>,
    low: u64,
    high: u64,
}

const EMPTY: Span = Span { negative: false, whole: 0, point: None, low: 0, high: 0 };

impl Span {
    const fn digits(self) -> u32 {
        self.whole
            + match self.point {
                Some(digits) => digits,
                None => 0,
            }
    }

    /// Returns all concatenations of a text of this span with a text of `next`.
    fn then(self, next: Self) -> Vec<Self> {
        let whole = self.whole + if self.point.is_none() { next.whole } else { 0 };
        let point = match (self.point, next.point) {
            (Some(digits), None) => Some(digits + next.whole),
            (None, point) => point,
            (Some(_), Some(_)) => panic!("two points"),
        };
        let unit = 10u64.pow(next.digits());
        let joined = |low: u64, high: u64| Self {
            negative: self.negative || next.negative,
            whole,
            point,
            low: low * unit + next.low,
            high: high * unit + next.high,
        };
        if next.low == 0 && next.high == unit - 1 {
            return vec![joined(self.low, self.high)];
        }
        (self.low..=self.high).map(|value| joined(value, value)).collect()
    }
}

/// Sorts the spans and merges the ones that touch.
fn normal(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut joined: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match joined.last_mut() {
            Some(last)
                if (last.negative, last.whole, last.point) == (span.negative, span.whole, span.point)
                    && span.low <= last.high + 1 =>
            {
                assert!(span.low > last.high, "{span:?} can be written in two ways");
                last.high = span.high;
            }
            _ => joined.push(span),
        }
    }
    joined
}

/// Evaluates the right side of a rule.
struct Rule<'r> {
    rest: &'r str,
}

impl Rule<'_> {
    fn alternatives(&mut self) -> Vec<Span> {
        let mut spans = self.sequence();
        while self.take("|") {
            spans.extend(self.sequence());
        }
        spans
    }

    fn sequence(&mut self) -> Vec<Span> {
        let mut spans = vec![EMPTY];
        while let Some(next) = self.item() {
            spans = spans.iter().flat_map(|span| next.iter().flat_map(|next| span.then(*next))).collect();
        }
        spans
    }

    fn item(&mut self) -> Option<Vec<Span>> {
        self.rest = self.rest.trim_start();
        let item = if self.take("(") {
            let spans = self.alternatives();
            assert!(self.take(")"));
            spans
        } else if self.take("\"") {
            let (text, rest) = self.rest.split_once('"').expect("a quote");
            self.rest = rest;
            text.chars().fold(vec![EMPTY], |spans, c| spans[0].then(character(c)))
        } else if self.take("[") {
            let (class, rest) = self.rest.split_once(']').expect("a bracket");
            self.rest = rest;
            let [low, b'-', high] = class.as_bytes() else { panic!("a class {class}") };
            vec![Span { whole: 1, low: u64::from(low - b'0'), high: u64::from(high - b'0'), ..EMPTY }]
        } else {
            return None;
        };
        let (min, max) = self.counts();
        if (min, max) == (1, 1) {
            return Some(item);
        }
        let mut spans = Vec::new();
        let mut power = vec![EMPTY];
        for count in 0..=max {
            if count >= min {
                spans.extend_from_slice(&power);
            }
            if count < max {
                power = power.iter().flat_map(|span| item.iter().flat_map(|next| span.then(*next))).collect();
            }
        }
        Some(spans)
    }

    fn counts(&mut self) -> (usize, usize) {
        if self.rest.starts_with('?') {
            self.rest = &self.rest[1..];
            return (0, 1);
        }
        let Some(rest) = self.rest.strip_prefix('{') else { return (1, 1) };
        let (counts, rest) = rest.split_once('}').expect("a brace");
        self.rest = rest;
        let (min, max) = counts.split_once(',').unwrap_or((counts, counts));
        (min.parse().expect("a number"), max.parse().expect("a number"))
    }

    fn take(&mut self, text: &str) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

fn character(c: char) -> Span {
    match c {
        '-' => Span { negative: true, ..EMPTY },
        '.' => Span { point: Some(0), ..EMPTY },
        _ => {
            let digit = c.to_digit(10).expect("a digit").into();
            Span { whole: 1, low: digit, high: digit, ..EMPTY }
        }
    }
}

/// Returns the texts of the numbers from `low` to `high`, in units of the last of `decimals`
/// decimals.
fn expected(low: i64, high: i64, decimals: u32) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut magnitudes = |negative: bool, low: u64, high: u64| {
        for digits in 0..=decimals {
            let unit = 10u64.pow(decimals - digits);
            let (low, high) = (low.div_ceil(unit), high / unit);
            let point = (digits > 0).then_some(digits);
            for whole in 1..=6 {
                let least = if whole == 1 { 0 } else { 10u64.pow(whole - 1 + digits) };
                let (low, high) = (low.max(least), high.min(10u64.pow(whole + digits) - 1));
                if low <= high {
                    spans.push(Span { negative, whole, point, low, high });
                }
            }
        }
    };
    if low < 0 {
        magnitudes(true, high.min(-1).unsigned_abs(), low.unsigned_abs());
    }
    if high >= 0 {
        magnitudes(false, low.max(0).unsigned_abs(), high.unsigned_abs());
    }
    normal(spans)
}

/// Returns the right side of a range's rule.
fn rule(low: i64, high: i64, decimals: u32) -> String {
    let definition = if decimals == 0 {
        Definition::new("number", int(low, high))
    } else {
        let unit = 10f64.powi(decimals as i32);
        Definition::new("number", float(low as f64 / unit, high as f64 / unit).decimals(decimals))
    };
    let gbnf = definition.expect("numbers in order").gbnf();
    let text = gbnf.strip_prefix("root ::= number\nnumber ::= ").expect("one rule").trim_end();
    // A long rule is split over several lines.
    let text = text.strip_prefix("(\n  ").and_then(|text| text.strip_suffix("\n)")).unwrap_or(text);
    text.replace("|\n ", "|")
}

fn check_one_side(low: i64, high: i64, decimals: u32) {
    let text = rule(low, high, decimals);
    let mut rule = Rule { rest: &text };
    let spans = normal(rule.alternatives());
    assert!(rule.rest.trim().is_empty(), "{text}");
    assert_eq!(spans, expected(low, high, decimals), "{low} to {high}, {decimals} decimals: {text}");
}

/// Checks all ranges with bounds of at most `bound` units; returns the number of ranges.
fn check_all(bound: i64, decimals: u32) -> usize {
    let below: Vec<String> = (1..=bound).map(|low| rule(-low, -1, decimals)).collect();
    let above: Vec<String> = (0..=bound).map(|high| rule(0, high, decimals)).collect();
    let check = |low: i64, high: i64| {
        if low < 0 && high >= 0 {
            let sides = format!("{} | {}", below[-low as usize - 1], above[high as usize]);
            assert_eq!(rule(low, high, decimals), sides, "{low} to {high}");
        } else {
            check_one_side(low, high, decimals);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let check_some = |first: usize| {
            let lows = (-bound..=bound).skip(first).step_by(threads);
            lows.map(|low| (low..=bound).inspect(|&high| check(low, high)).count()).sum::<usize>()
        };
        let started: Vec<_> = (0..threads).map(|first| scope.spawn(move || check_some(first))).collect();
        started.into_iter().map(|thread| thread.join().expect("all are right")).sum()
    })
}

#[test]
fn integers() {
    assert_eq!(check_all(INTEGERS, 0), 2401 * 2402 / 2);
}

#[test]
fn one_decimal() {
    assert_eq!(check_all(DECIMALS, 1), 801 * 802 / 2);
}

#[test]
fn two_decimals() {
    assert_eq!(check_all(DECIMALS, 2), 801 * 802 / 2);
}

/// Checks some compiled ranges with all texts of few digits.
#[test]
fn compiled_rules_take_the_texts_of_their_numbers() {
    let texts: Vec<String> = (0..=3u32)
        .flat_map(|digits| {
            (0..10u32.pow(digits)).map(move |number| format!("{number:0width$}", width = digits as usize))
        })
        .collect();
    for (low, high, decimals) in
        [(-17, 250, 0), (0, 0, 0), (-999, -998, 0), (50, 150, 2), (-5, 5, 1), (-150, -50, 2), (0, 100, 2)]
    {
        let unit = 10f64.powi(decimals);
        let kind: Kind = if decimals == 0 {
            int(low, high).into()
        } else {
            float(low as f64 / unit, high as f64 / unit).decimals(decimals as u32).into()
        };
        let grammar = Definition::new("number", kind).unwrap().grammar(&Limits::default()).unwrap();
        for sign in ["", "-"] {
            for whole in &texts {
                for fraction in texts.iter().filter(|fraction| fraction.len() <= 3).map(Some).chain([None]) {
                    let text = fraction.map_or_else(
                        || format!("{sign}{whole}"),
                        |fraction| format!("{sign}{whole}.{fraction}"),
                    );
                    let digits = fraction.map_or(0, String::len);
                    let is_plain = !whole.is_empty()
                        && (whole == "0" || !whole.starts_with('0'))
                        && (fraction.is_none() || (1..=decimals as usize).contains(&digits));
                    let units = format!(
                        "{whole}{:0<width$}",
                        fraction.map_or("", String::as_str),
                        width = decimals as usize
                    );
                    let value =
                        units.parse::<i64>().map(|units| if sign.is_empty() { units } else { -units });
                    let is_signed_zero = !sign.is_empty() && value == Ok(0);
                    let expected =
                        is_plain && !is_signed_zero && value.is_ok_and(|value| (low..=high).contains(&value));
                    // Most texts that are not numbers are rejected at their beginning, so longer
                    // ones add nothing.
                    if is_plain || whole.len() < 2 {
                        assert_eq!(
                            grammar.accepts(text.as_bytes()),
                            expected,
                            "{text} in {low} to {high}, {decimals}"
                        );
                    }
                }
                if decimals == 0 {
                    assert!(!grammar.accepts(format!("{sign}{whole}.0").as_bytes()));
                }
            }
        }
    }
}
