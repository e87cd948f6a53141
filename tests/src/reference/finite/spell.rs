//! Writes a value as sequences of symbols. Different layouts and member orders give different
//! sequences. A single symbol stands for all spellings of a character, of a number, or of
//! whitespace with variable length.

use formwork_grammar::{Layout, Order, Profile, SchemaOptions};
use serde_json::Value;

/// A part of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Symbol {
    /// One fixed byte.
    Byte(u8),
    /// One character of a string, in any of its spellings.
    Char(char),
    /// A number, given in its shortest spelling.
    Number(String),
    /// Whitespace: at most this number of spaces and line breaks. `None` stands for any amount and
    /// kind.
    Space(Option<u8>),
}

/// Returns all texts of `value` that `options` allow, as sequences of symbols.
pub(super) fn texts(value: &Value, options: SchemaOptions) -> Vec<Vec<Symbol>> {
    let writer = Writer { options };
    let around = if options.layout == Layout::Inside { Vec::new() } else { writer.anywhere() };
    let texts = writer.value(value, 0);
    texts.into_iter().map(|text| [around.clone(), text, around.clone()].concat()).collect()
}

struct Writer {
    options: SchemaOptions,
}

type Texts = Vec<Vec<Symbol>>;

impl Writer {
    /// Returns the whitespace at a position where only the accept profile allows whitespace.
    fn anywhere(&self) -> Vec<Symbol> {
        match (self.options.layout, self.options.profile) {
            (Layout::Flexible | Layout::Inside, Profile::Accept) => vec![Symbol::Space(None)],
            _ => Vec::new(),
        }
    }

    /// Returns the whitespace at a position where some layouts have whitespace. If `line`, the
    /// pretty layout has a line break there, with indentation for `depth` levels.
    fn gap(&self, line: bool, depth: usize) -> Vec<Symbol> {
        match (self.options.layout, self.options.profile) {
            (Layout::Compact, _) => Vec::new(),
            (Layout::Flexible | Layout::Inside, Profile::Generate) => vec![Symbol::Space(Some(16))],
            (Layout::Flexible | Layout::Inside, Profile::Accept) => vec![Symbol::Space(None)],
            (Layout::Pretty, _) if line => bytes(&format!("\n{}", "  ".repeat(depth))),
            (Layout::Spaced | Layout::Pretty, _) => bytes(" "),
        }
    }

    /// Returns the whitespace after an opening bracket or before a closing bracket.
    fn inside(&self, depth: usize) -> Vec<Symbol> {
        if self.options.layout == Layout::Spaced { Vec::new() } else { self.gap(true, depth) }
    }

    fn value(&self, value: &Value, depth: usize) -> Texts {
        match value {
            Value::Null | Value::Bool(_) => vec![bytes(&value.to_string())],
            Value::Number(_) => {
                let text = value.to_string();
                let shortest =
                    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
                vec![vec![Symbol::Number(shortest.to_owned())]]
            }
            Value::String(text) => vec![string(text)],
            Value::Array(items) => {
                let items: Vec<Texts> = items.iter().map(|item| self.value(item, depth + 1)).collect();
                self.bracketed("[]", &items, depth)
            }
            Value::Object(members) => {
                let member = |(name, value): (&String, &Value)| {
                    let colon = [string(name), self.anywhere(), bytes(":"), self.gap(false, 0)].concat();
                    let values = self.value(value, depth + 1).into_iter();
                    values.map(|value| [&colon[..], &value].concat()).collect()
                };
                let members: Vec<Texts> = members.iter().map(member).collect();
                let orders = match self.options.order {
                    Order::Declared => vec![(0..members.len()).collect()],
                    Order::Any => permutations(members.len()),
                };
                let ordered = |order: Vec<usize>| order.into_iter().map(|at| members[at].clone()).collect();
                let ordered = orders.into_iter().map(ordered);
                ordered.flat_map(|members: Vec<Texts>| self.bracketed("{}", &members, depth)).collect()
            }
        }
    }

    /// Returns all texts that join one text of each of `parts` with commas, enclosed in `brackets`.
    fn bracketed(&self, brackets: &str, parts: &[Texts], depth: usize) -> Texts {
        let (open, close) = brackets.split_at(1);
        if parts.is_empty() {
            let free = matches!(self.options.layout, Layout::Flexible | Layout::Inside);
            let inside = if free { self.inside(depth) } else { Vec::new() };
            return vec![[bytes(open), inside, bytes(close)].concat()];
        }
        let comma = [self.anywhere(), bytes(","), self.gap(true, depth + 1)].concat();
        let mut texts = vec![[bytes(open), self.inside(depth + 1)].concat()];
        for (at, part) in parts.iter().enumerate() {
            let between = if at > 0 { &comma[..] } else { &[] };
            let with = |text: &Vec<Symbol>, part: &Vec<Symbol>| [text, between, part].concat();
            texts = texts.iter().flat_map(|text| part.iter().map(move |part| with(text, part))).collect();
        }
        let end = [self.inside(depth), bytes(close)].concat();
        texts.into_iter().map(|text| [&text[..], &end].concat()).collect()
    }
}

fn bytes(text: &str) -> Vec<Symbol> {
    text.bytes().map(Symbol::Byte).collect()
}

fn string(text: &str) -> Vec<Symbol> {
    let quote = [Symbol::Byte(b'"')];
    quote.iter().cloned().chain(text.chars().map(Symbol::Char)).chain(quote.iter().cloned()).collect()
}

fn permutations(len: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..len {
        let longer = |order: &Vec<usize>| {
            let left = (0..len).filter(|at| !order.contains(at)).collect::<Vec<_>>();
            left.into_iter().map(|at| [&order[..], &[at]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}
