//! Checks that grammars of definitions stay within the limits of llama.cpp's parser.
//!
//! The parser rejects a repetition if its maximum count times the symbols of the repeated item is
//! 2,000 or more. Symbols are counted as follows:
//!
//! - A rule name counts at its first occurrence only, a group counts one.
//! - A repetition counts each optional part, and one if it is unbounded.
//! - A repeated item that is a literal, a class or a name always counts one.

use std::collections::HashSet;

use formwork_fields::builder::{array, composite, constant, field, int, string, template, untagged};
use formwork_fields::field::Array;
use formwork_fields::{Definition, Kind};
use formwork_grammar::Limits;

/// Limit that the product of count and symbols must stay below.
const THRESHOLD: usize = 2000;

struct Counter<'g> {
    rest: &'g str,
    names: HashSet<&'g str>,
    /// Number of symbols so far, including those of names.
    symbols: usize,
    most: usize,
}

/// Returns the largest product of count and symbols over all repetitions of a grammar.
pub(super) fn largest_repetition(gbnf: &str) -> usize {
    let mut counter = Counter { rest: gbnf, names: HashSet::new(), symbols: 0, most: 0 };
    while !counter.rest.is_empty() {
        counter.name();
        assert!(counter.take("::="), "{}", counter.rest);
        counter.alternatives();
        // Each rule begins on its own line.
        counter.rest = counter.rest.trim_start();
    }
    counter.most
}

impl Counter<'_> {
    fn name(&mut self) {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        assert!(end > 0, "{}", self.rest);
        self.symbols += usize::from(self.names.insert(&self.rest[..end]));
        self.rest = &self.rest[end..];
    }

    fn alternatives(&mut self) {
        self.sequence();
        while self.take("|") {
            self.sequence();
        }
    }

    fn sequence(&mut self) {
        loop {
            self.blank();
            let before = self.symbols;
            match self.rest.chars().next() {
                Some('"') => self.quoted('"'),
                Some('[') => self.quoted(']'),
                Some('(') => {
                    self.symbols += 1;
                    self.take("(");
                    self.alternatives();
                    assert!(self.take(")"), "{}", self.rest);
                    let brought = self.symbols - before;
                    self.repetition(brought);
                    continue;
                }
                Some(c) if c.is_ascii_alphanumeric() => self.name(),
                _ => return,
            }
            self.repetition(1);
        }
    }

    fn quoted(&mut self, end: char) {
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            if c == '\\' {
                chars.next();
            } else if c == end {
                self.rest = &self.rest[at + 1..];
                return;
            }
        }
        panic!("no end: {}", self.rest);
    }

    fn repetition(&mut self, brought: usize) {
        let (min, max) = if self.take("*") {
            (0, None)
        } else if self.take("+") {
            (1, None)
        } else if self.take("?") {
            (0, Some(1))
        } else if self.take("{") {
            let (counts, rest) = self.rest.split_once('}').expect("a brace");
            self.rest = rest;
            let number = |text: &str| text.parse::<usize>().expect("a number");
            match counts.split_once(',') {
                None => (number(counts), Some(number(counts))),
                Some((min, "")) => (number(min), None),
                Some((min, max)) => (number(min), Some(number(max))),
            }
        } else {
            return;
        };
        let total = max.filter(|max| *max > 0).unwrap_or(min.max(1));
        self.most = self.most.max(brought * total);
        self.symbols += max.map_or(1, |max| max - min);
    }

    fn take(&mut self, text: &str) -> bool {
        self.blank();
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Skips blanks, and line breaks unless a rule begins after them.
    fn blank(&mut self) {
        let rest = self.rest.trim_start();
        let is_line = self.rest[..self.rest.len() - rest.len()].ends_with('\n');
        if !(is_line && rest.starts_with(|c: char| c.is_ascii_alphanumeric())) {
            self.rest = rest;
        }
    }
}

fn check(kind: impl Into<Kind>) {
    let definition = Definition::new("x", kind).expect("well-formed");
    let gbnf = definition.gbnf();
    let most = largest_repetition(&gbnf);
    assert!(most < THRESHOLD, "{most}: {}", &gbnf[..gbnf.len().min(2000)]);
    if let Ok(grammar) = definition.grammar(&Limits::default()) {
        assert!(grammar.warnings().is_empty(), "{:?}", grammar.warnings());
    }
}

#[test]
fn the_count_is_that_of_llama_cpp() {
    assert_eq!(largest_repetition("root ::= \"a\"{3}\n"), 3);
    assert_eq!(largest_repetition("root ::= [a-z]{0,1999}\n"), 1999);
    // The group, the first occurrence of a name, and the optional part.
    assert_eq!(largest_repetition("root ::= (a b?){100}\na ::= \"a\"\nb ::= a\n"), 400);
    assert_eq!(largest_repetition("a ::= \"a\"\nroot ::= (\n  a |\n  [\\]\"]\n){100}\n"), 100);
    assert_eq!(largest_repetition("root ::= ([a]{0,1999})?\n"), 2000);
}

#[test]
fn long_lists_and_texts_are_within_it() {
    let counts = [
        0, 1, 99, 100, 101, 999, 1000, 1001, 1500, 1996, 1999, 2000, 2001, 2990, 2999, 3000, 10_000, 100_000,
    ];
    for most in counts.into_iter().chain([1_000_000]) {
        for least in [0, 1, most / 2, most].into_iter().filter(|least| *least <= most) {
            for element in [Kind::from(int(0, 9)), Kind::Boolean, constant("x"), string(0, most).into()] {
                check(array(least, most, element));
            }
            check(string(least, most));
            check(string(least, most).of("a-z".parse().expect("a set")));
            check(template("<generated> and <generated>", least, most));
            check(untagged([Kind::from(array(least, most, int(0, 9))), string(least, most).into()]));
        }
        check(Array::at_least(most, string(0, most)));
    }
}

#[test]
fn large_objects_are_within_it() {
    for count in [1, 2, 99, 100, 101, 500, 999, 1000, 1001, 2500] {
        let names: Vec<String> = (0..count).map(|index| format!("f{index}")).collect();
        for required in [None, Some(0), Some(count / 2), Some(count - 1)] {
            let member = |(index, name): (usize, &String)| {
                let member = field(name, string(0, index));
                if required == Some(index) { member } else { member.optional() }
            };
            check(composite(names.iter().enumerate().map(member)));
        }
    }
}
