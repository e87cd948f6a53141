//! A slow recognizer of GBNF, written to be obviously correct. It runs the textbook version of
//! Earley's algorithm with its own parser of the notation, and shares no code with the engine.
//!
//! A character class is matched byte by byte: an item whose dot is inside a character stores the
//! bytes of the character that were already read.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// A grammar in plain BNF. Nonterminals are numbers; 0 is the root.
pub struct Reference {
    /// Productions of each nonterminal. A production is a sequence of symbols.
    productions: Vec<Vec<Vec<Symbol>>>,
}

#[derive(Clone, PartialEq, Debug)]
enum Symbol {
    Byte(u8),
    /// One character inside the ranges, or outside them if negated.
    Class {
        ranges: Vec<(u32, u32)>,
        negated: bool,
    },
    Nonterminal(usize),
}

/// An Earley item: a production with a dot, and the byte offset in the text where the match of the
/// production began.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Item {
    nonterminal: usize,
    production: usize,
    dot: usize,
    /// First bytes of the character at the dot, if the text ends inside it. Padded with zeros.
    partial: [u8; 4],
    partial_len: usize,
    origin: usize,
}

impl Item {
    fn begin(nonterminal: usize, production: usize, origin: usize) -> Self {
        Self { nonterminal, production, dot: 0, partial: [0; 4], partial_len: 0, origin }
    }

    fn advanced(self) -> Self {
        Self { dot: self.dot + 1, partial: [0; 4], partial_len: 0, ..self }
    }
}

/// The Earley items at one offset of a text.
#[derive(Default)]
struct Set {
    items: Vec<Item>,
    known: HashSet<Item>,
    /// Items whose dot is before a nonterminal, grouped by this nonterminal.
    waiting: HashMap<usize, Vec<Item>>,
}

/// The Earley sets of a text, one for each offset from 0 to the length of the text.
#[derive(Clone)]
pub struct Chart {
    sets: Vec<Rc<Set>>,
}

impl Reference {
    /// Parses a GBNF grammar.
    ///
    /// # Panics
    /// Panics if the grammar is malformed; tests pass valid grammars only.
    pub fn new(source: &str) -> Self {
        let mut parser =
            Parser { text: source.chars().collect(), at: 0, names: HashMap::new(), productions: Vec::new() };
        parser.nonterminal("root");
        parser.grammar();
        let mut reference = Self { productions: parser.productions };
        reference.drop_unproductive();
        reference
    }

    /// Returns the chart of the empty text.
    pub fn start(&self) -> Chart {
        let mut chart = Chart { sets: Vec::new() };
        let first = (0..self.productions[0].len()).map(|production| Item::begin(0, production, 0));
        self.close(&mut chart, first.collect());
        chart
    }

    /// Appends one byte to the text of the chart. If no continuation of the text matches, the new
    /// last set is empty.
    ///
    /// # Panics
    /// Never panics: a chart has at least one set.
    pub fn push(&self, chart: &mut Chart, byte: u8) {
        let mut next = Vec::new();
        for &item in &chart.sets.last().expect("never empty").items {
            match self.symbol(item) {
                Some(Symbol::Byte(expected)) if *expected == byte => next.push(item.advanced()),
                Some(Symbol::Class { ranges, negated }) => {
                    let mut longer = item;
                    longer.partial[item.partial_len] = byte;
                    longer.partial_len += 1;
                    match class_match(&longer.partial[..longer.partial_len], ranges, *negated) {
                        Match::Whole => next.push(item.advanced()),
                        Match::Partial => next.push(longer),
                        Match::None => {}
                    }
                }
                _ => {}
            }
        }
        self.close(chart, next);
    }

    /// Reports whether the grammar accepts some continuation of the text of the chart.
    pub fn viable(&self, chart: &Chart) -> bool {
        chart.sets.last().is_some_and(|set| !set.items.is_empty())
    }

    /// Returns the number of items in the last set of the chart.
    pub fn width(chart: &Chart) -> usize {
        chart.sets.last().map_or(0, |set| set.items.len())
    }

    /// Reports whether the grammar accepts the text of the chart.
    pub fn accepting(&self, chart: &Chart) -> bool {
        let done = |item: &Item| item.nonterminal == 0 && item.origin == 0 && self.symbol(*item).is_none();
        chart.sets.last().is_some_and(|set| set.items.iter().any(done))
    }

    /// Reports whether the grammar accepts `text`.
    pub fn accepts(&self, text: &[u8]) -> bool {
        let mut chart = self.start();
        for &byte in text {
            self.push(&mut chart, byte);
        }
        self.accepting(&chart)
    }

    /// Returns the symbol after the dot, or `None` if the dot is at the end of the production.
    fn symbol(&self, item: Item) -> Option<&Symbol> {
        self.productions[item.nonterminal][item.production].get(item.dot)
    }

    /// Adds to the chart the set of the items `first` and all items that follow by prediction and
    /// completion.
    fn close(&self, chart: &mut Chart, first: Vec<Item>) {
        let here = chart.sets.len();
        let mut set = Set::default();
        // Nonterminals that matched the empty text here. Items that begin to wait for one of these
        // later advance immediately.
        let mut empty: HashSet<usize> = HashSet::new();
        let mut agenda = first;
        while let Some(item) = agenda.pop() {
            if !set.known.insert(item) {
                continue;
            }
            set.items.push(item);
            match self.symbol(item) {
                Some(&Symbol::Nonterminal(called)) => {
                    set.waiting.entry(called).or_default().push(item);
                    agenda.extend((0..self.productions[called].len()).map(|p| Item::begin(called, p, here)));
                    if empty.contains(&called) {
                        agenda.push(item.advanced());
                    }
                }
                None => {
                    let callers = if item.origin == here { &set } else { &*chart.sets[item.origin] };
                    let waiting = callers.waiting.get(&item.nonterminal);
                    agenda.extend(waiting.into_iter().flatten().map(|caller| caller.advanced()));
                    if item.origin == here {
                        empty.insert(item.nonterminal);
                    }
                }
                _ => {}
            }
        }
        chart.sets.push(Rc::new(set));
    }

    /// Removes productions that match no finite text. Then a set with items means that the text can
    /// be continued.
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

/// Matches bytes with a character class. The bytes can be a whole character of the class, a proper
/// prefix of one, or neither.
fn class_match(bytes: &[u8], ranges: &[(u32, u32)], negated: bool) -> Match {
    let inside = |c: char| ranges.iter().any(|&(low, high)| (low..=high).contains(&(c as u32))) != negated;
    if let Ok(text) = str::from_utf8(bytes) {
        return match text.chars().next() {
            Some(c) if inside(c) => Match::Whole,
            _ => Match::None,
        };
    }
    // The characters that begin with these bytes are consecutive.
    match neighbours(bytes) {
        Some((low, high)) if (low..=high).filter_map(char::from_u32).any(inside) => Match::Partial,
        _ => Match::None,
    }
}

/// Returns the smallest and largest code points whose encoding has `bytes` as a proper prefix, or
/// `None` if there is no such code point.
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
