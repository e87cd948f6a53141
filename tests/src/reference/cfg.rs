//! A slow recogniser for GBNF, written to be obviously right: Earley's algorithm as in the textbook, over positions,
//! with its own parser of the notation. It shares no code with the engine.
//!
//! A character class is matched byte by byte: an item inside a class remembers the bytes of the character so far.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// A grammar in plain BNF: nonterminals are numbers, 0 is the root.
pub struct Reference {
    /// Per nonterminal, its productions.
    productions: Vec<Vec<Vec<Symbol>>>,
}

#[derive(Clone, PartialEq, Debug)]
enum Symbol {
    Byte(u8),
    /// One character in these ranges, or outside them.
    Class {
        ranges: Vec<(u32, u32)>,
        negated: bool,
    },
    Nonterminal(usize),
}

/// (nonterminal, production, dot, bytes of a character begun at the dot, origin)
type Item = (usize, usize, usize, Vec<u8>, usize);

/// The Earley sets of a text so far, one per byte boundary.
#[derive(Clone)]
pub struct Chart {
    sets: Vec<Rc<BTreeSet<Item>>>,
}

impl Reference {
    /// Parses GBNF.
    ///
    /// # Panics
    /// When the grammar is not well formed: only valid grammars come here.
    pub fn new(source: &str) -> Self {
        let mut parser =
            Parser { text: source.chars().collect(), at: 0, names: HashMap::new(), productions: Vec::new() };
        parser.nonterminal("root");
        parser.grammar();
        let mut reference = Self { productions: parser.productions };
        reference.drop_unproductive();
        reference
    }

    /// The chart of the empty text.
    pub fn start(&self) -> Chart {
        let first = (0..self.productions[0].len()).map(|production| (0, production, 0, Vec::new(), 0));
        let mut chart = Chart { sets: Vec::new() };
        self.close(&mut chart, first.collect());
        chart
    }

    /// The chart with one more byte. Its last set is empty when no completion exists.
    ///
    /// # Panics
    /// Never: a chart has at least one set.
    pub fn push(&self, chart: &mut Chart, byte: u8) {
        let mut next = BTreeSet::new();
        for (nonterminal, production, dot, partial, origin) in chart.sets.last().expect("never empty").iter()
        {
            match self.productions[*nonterminal][*production].get(*dot) {
                Some(Symbol::Byte(expected)) if *expected == byte => {
                    next.insert((*nonterminal, *production, dot + 1, Vec::new(), *origin));
                }
                Some(Symbol::Class { ranges, negated }) => {
                    let mut bytes = partial.clone();
                    bytes.push(byte);
                    match class_match(&bytes, ranges, *negated) {
                        Match::Whole => {
                            next.insert((*nonterminal, *production, dot + 1, Vec::new(), *origin));
                        }
                        Match::Partial => {
                            next.insert((*nonterminal, *production, *dot, bytes, *origin));
                        }
                        Match::None => {}
                    }
                }
                _ => {}
            }
        }
        self.close(chart, next);
    }

    /// Whether the text of the chart can be completed.
    pub fn viable(&self, chart: &Chart) -> bool {
        chart.sets.last().is_some_and(|set| !set.is_empty())
    }

    /// How many items the last set holds: the time of the next byte grows with its square.
    pub fn width(chart: &Chart) -> usize {
        chart.sets.last().map_or(0, |set| set.len())
    }

    /// Whether the text of the chart is complete.
    pub fn accepting(&self, chart: &Chart) -> bool {
        chart.sets.last().is_some_and(|set| {
            set.iter().any(|(nonterminal, production, dot, partial, origin)| {
                *nonterminal == 0
                    && *origin == 0
                    && partial.is_empty()
                    && *dot == self.productions[0][*production].len()
            })
        })
    }

    /// Whether `text` is complete.
    pub fn accepts(&self, text: &[u8]) -> bool {
        let mut chart = self.start();
        for &byte in text {
            self.push(&mut chart, byte);
        }
        self.accepting(&chart)
    }

    /// Adds a set: prediction and completion until nothing is new.
    fn close(&self, chart: &mut Chart, mut set: BTreeSet<Item>) {
        let here = chart.sets.len();
        loop {
            let mut found: Vec<Item> = Vec::new();
            for (nonterminal, production, dot, partial, origin) in &set {
                if !partial.is_empty() {
                    continue;
                }
                match self.productions[*nonterminal][*production].get(*dot) {
                    Some(Symbol::Nonterminal(called)) => {
                        for index in 0..self.productions[*called].len() {
                            found.push((*called, index, 0, Vec::new(), here));
                        }
                    }
                    None => {
                        let callers = if *origin == here { &set } else { &*chart.sets[*origin] };
                        for (caller, of, at, begun, from) in callers {
                            let waits = self.productions[*caller][*of].get(*at)
                                == Some(&Symbol::Nonterminal(*nonterminal));
                            if begun.is_empty() && waits {
                                found.push((*caller, *of, at + 1, Vec::new(), *from));
                            }
                        }
                    }
                    _ => {}
                }
            }
            let before = set.len();
            set.extend(found);
            if set.len() == before {
                break;
            }
        }
        chart.sets.push(Rc::new(set));
    }

    /// Removes productions that match no finite text, so that a set that is not empty means a viable prefix.
    fn drop_unproductive(&mut self) {
        let mut productive = vec![false; self.productions.len()];
        let ends = |production: &[Symbol], productive: &[bool]| {
            production.iter().all(|symbol| match symbol {
                Symbol::Byte(_) => true,
                Symbol::Class { ranges, negated } => *negated || !ranges.is_empty(),
                Symbol::Nonterminal(called) => productive[*called],
            })
        };
        loop {
            let before = productive.clone();
            for (index, productions) in self.productions.iter().enumerate() {
                productive[index] |= productions.iter().any(|production| ends(production, &productive));
            }
            if productive == before {
                break;
            }
        }
        for productions in &mut self.productions {
            productions.retain(|production| ends(production, &productive));
        }
    }
}

enum Match {
    Whole,
    Partial,
    None,
}

/// Whether bytes are a character of the class, or the beginning of one.
fn class_match(bytes: &[u8], ranges: &[(u32, u32)], negated: bool) -> Match {
    let inside = |c: char| ranges.iter().any(|&(low, high)| (low..=high).contains(&(c as u32))) != negated;
    if let Ok(text) = str::from_utf8(bytes) {
        return match text.chars().next() {
            Some(c) if inside(c) => Match::Whole,
            _ => Match::None,
        };
    }
    // Characters that begin with these bytes are neighbours.
    match neighbours(bytes) {
        Some((low, high)) if (low..=high).filter_map(char::from_u32).any(inside) => Match::Partial,
        _ => Match::None,
    }
}

/// The smallest and the largest code point whose encoding begins with `bytes` and goes on.
fn neighbours(bytes: &[u8]) -> Option<(u32, u32)> {
    let (length, mut low, smallest) = match *bytes.first()? {
        first @ 0xc2..=0xdf => (2, u32::from(first & 0x1f), 0x80),
        first @ 0xe0..=0xef => (3, u32::from(first & 0x0f), 0x800),
        first @ 0xf0..=0xf4 => (4, u32::from(first & 0x07), 0x1_0000),
        _ => return None,
    };
    for &byte in &bytes[1..] {
        if byte & 0xc0 != 0x80 {
            return None;
        }
        low = low << 6 | u32::from(byte & 0x3f);
    }
    let missing = 6 * (length - u32::try_from(bytes.len()).ok()?.min(length));
    let high = (((low + 1) << missing) - 1).min(0x10_ffff);
    let low = (low << missing).max(smallest);
    (missing > 0 && low <= high).then_some((low, high))
}

struct Parser {
    text: Vec<char>,
    at: usize,
    names: HashMap<String, usize>,
    productions: Vec<Vec<Vec<Symbol>>>,
}

impl Parser {
    fn nonterminal(&mut self, name: &str) -> usize {
        if let Some(&known) = self.names.get(name) {
            return known;
        }
        let fresh = self.fresh(Vec::new());
        self.names.insert(name.to_owned(), fresh);
        fresh
    }

    fn fresh(&mut self, productions: Vec<Vec<Symbol>>) -> usize {
        self.productions.push(productions);
        self.productions.len() - 1
    }

    fn grammar(&mut self) {
        self.blank(true);
        while self.at < self.text.len() {
            let name = self.name();
            self.blank(false);
            assert_eq!(self.text[self.at..self.at + 3].iter().collect::<String>(), "::=");
            self.at += 3;
            self.blank(true);
            let productions = self.alternatives(false);
            let nonterminal = self.nonterminal(&name);
            self.productions[nonterminal] = productions;
            self.blank(true);
        }
    }

    fn alternatives(&mut self, nested: bool) -> Vec<Vec<Symbol>> {
        let mut productions = vec![self.sequence(nested)];
        loop {
            let before = self.at;
            self.blank(true);
            if self.peek() != Some('|') {
                self.at = before;
                return productions;
            }
            self.at += 1;
            self.blank(true);
            productions.push(self.sequence(nested));
        }
    }

    fn sequence(&mut self, nested: bool) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        loop {
            self.blank(nested);
            let item = match self.peek() {
                Some('"') => self.literal(),
                Some('[') => vec![self.class()],
                Some('.') => {
                    self.at += 1;
                    vec![Symbol::Class { ranges: vec![], negated: true }]
                }
                Some('(') => {
                    self.at += 1;
                    self.blank(true);
                    let productions = self.alternatives(true);
                    self.blank(true);
                    assert_eq!(self.peek(), Some(')'));
                    self.at += 1;
                    vec![Symbol::Nonterminal(self.fresh(productions))]
                }
                Some(c) if c.is_ascii_alphanumeric() || c == '-' || c == '_' => {
                    let name = self.name();
                    vec![Symbol::Nonterminal(self.nonterminal(&name))]
                }
                _ => return symbols,
            };
            let item = self.repeated(item, nested);
            symbols.extend(item);
        }
    }

    fn repeated(&mut self, mut item: Vec<Symbol>, nested: bool) -> Vec<Symbol> {
        loop {
            let before = self.at;
            self.blank(nested);
            let (min, max) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => {
                    let inside: String = self.text[self.at + 1..].iter().take_while(|&&c| c != '}').collect();
                    self.at += inside.len() + 1;
                    match inside.split_once(',') {
                        None => (inside.trim().parse().expect("count"), inside.trim().parse().ok()),
                        Some((min, max)) => (min.trim().parse().unwrap_or(0), max.trim().parse().ok()),
                    }
                }
                _ => {
                    self.at = before;
                    return item;
                }
            };
            self.at += 1;
            let once = self.fresh(vec![item]);
            let mut symbols = vec![Symbol::Nonterminal(once); min];
            match max {
                None => {
                    let many = self.fresh(vec![]);
                    self.productions[many] =
                        vec![vec![], vec![Symbol::Nonterminal(once), Symbol::Nonterminal(many)]];
                    symbols.push(Symbol::Nonterminal(many));
                }
                Some(max) => {
                    let optional = self.fresh(vec![vec![], vec![Symbol::Nonterminal(once)]]);
                    symbols.extend(vec![Symbol::Nonterminal(optional); max - min]);
                }
            }
            item = symbols;
        }
    }

    fn literal(&mut self) -> Vec<Symbol> {
        self.at += 1;
        let mut text = String::new();
        while self.peek() != Some('"') {
            text.push(self.character());
        }
        self.at += 1;
        text.bytes().map(Symbol::Byte).collect()
    }

    fn class(&mut self) -> Symbol {
        self.at += 1;
        let negated = self.peek() == Some('^');
        self.at += usize::from(negated);
        let mut ranges = Vec::new();
        while self.peek() != Some(']') {
            let low = self.character() as u32;
            let is_range = self.peek() == Some('-') && self.text.get(self.at + 1) != Some(&']');
            let high = if is_range {
                self.at += 1;
                self.character() as u32
            } else {
                low
            };
            ranges.push((low, high));
        }
        self.at += 1;
        Symbol::Class { ranges, negated }
    }

    fn character(&mut self) -> char {
        let c = self.text[self.at];
        self.at += 1;
        if c != '\\' {
            return c;
        }
        let escape = self.text[self.at];
        self.at += 1;
        let digits = match escape {
            'n' => return '\n',
            't' => return '\t',
            'r' => return '\r',
            'x' => 2,
            'u' => 4,
            'U' => 8,
            other => return other,
        };
        let hex: String = self.text[self.at..self.at + digits].iter().collect();
        self.at += digits;
        u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32).expect("a character")
    }

    fn name(&mut self) -> String {
        let name: String = self.text[self.at..]
            .iter()
            .take_while(|c| c.is_ascii_alphanumeric() || **c == '-' || **c == '_')
            .collect();
        assert!(!name.is_empty(), "a name at {}", self.at);
        self.at += name.len();
        name
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn blank(&mut self, newlines: bool) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => self.at += 1,
                '\n' | '\r' if newlines => self.at += 1,
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }
}
