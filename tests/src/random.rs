//! Random inputs for tests. They are the same on every run.

pub mod fields;
pub mod schema;

use std::fmt::Write;

use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};

/// A small random number generator (`xorshift64*`, Vigna 2016). The same seed gives the same inputs
/// on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator for `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below `bound`, which must be positive.
    pub const fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    /// Returns one of `items`.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Creates a vocabulary with a token for each byte, and tokens of random strings that occur in JSON
/// and in the random grammars.
///
/// # Panics
/// Never panics: the vocabulary is small and not empty.
pub fn vocabulary(random: &mut Random) -> Vocabulary {
    const PIECES: [&str; 24] = [
        "a", "b", "c", "0", "1", " ", "\"", "{", "}", "[", "]", ":", ",", "ab", "é", "€", "日", "\\", "true",
        "\n", "-", ".", "\": ", "\", \"",
    ];
    let mut tokens: Vec<Token> =
        (0..=255).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Byte }).collect();
    for _ in 0..600 {
        let bytes: Vec<u8> = (0..=random.below(4)).flat_map(|_| random.pick(&PIECES).bytes()).collect();
        // Some tokens begin or end within a character, as in real vocabularies.
        let from = random.below(4) / 3;
        let to = bytes.len() - (random.below(4) / 3).min(bytes.len() - from.min(bytes.len()));
        if from < to {
            tokens.push(Token { bytes: bytes[from..to].to_vec(), kind: TokenKind::Text });
        }
    }
    let end = TokenId(tokens.len() as u32);
    tokens.push(Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control });
    Vocabulary::new(tokens, vec![end]).expect("small and not empty")
}

/// Generates a random GBNF grammar of a few rules, with recursion of every kind, empty
/// alternatives, counted repetition and character classes. If `wide`, some classes contain most
/// characters.
///
/// # Panics
/// Never panics: writing to a string cannot fail.
pub fn gbnf(random: &mut Random, wide: bool) -> String {
    let rules = 1 + random.below(4);
    let mut grammar = String::new();
    for rule in 0..rules {
        let name = if rule == 0 { "root".to_owned() } else { format!("r{rule}") };
        let alternatives: Vec<String> =
            (0..=random.below(3)).map(|_| sequence(random, (rules, wide), 0)).collect();
        // The last alternative keeps most rules productive.
        let way_out = random.pick(&["\"a\"", "\"b\" | \"\"", "[0-1]", "\"\\\"\""]);
        writeln!(grammar, "{name} ::= {} | {way_out}", alternatives.join(" | ")).expect("a string");
    }
    grammar
}

fn sequence(random: &mut Random, rules: (usize, bool), depth: usize) -> String {
    let items: Vec<String> = (0..=random.below(3)).map(|_| item(random, rules, depth)).collect();
    items.join(" ")
}

fn item(random: &mut Random, (rules, wide): (usize, bool), depth: usize) -> String {
    let item = match random.below(if depth < 2 { 9 } else { 7 }) {
        0 | 1 => random
            .pick(&["\"a\"", "\"ab\"", "\"{\"", "\"0\"", "\" \"", "\"é\"", "\"true\"", "\"\""])
            .to_string(),
        2 if wide => random.pick(&["[^a]", "[^\"\\\\]", "."]).to_string(),
        2 => random.pick(&["[ab]", "[0-9]", "[a-cé-ü]", "[日-月]", "[-a]"]).to_string(),
        3..=6 => match random.below(rules) {
            0 => "root".to_owned(),
            rule => format!("r{rule}"),
        },
        7 => format!(
            "({} | {})",
            sequence(random, (rules, wide), depth + 1),
            sequence(random, (rules, wide), depth + 1)
        ),
        _ => format!("({})", sequence(random, (rules, wide), depth + 1)),
    };
    let repeat = random.pick(&["", "", "", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "{0,2}"]);
    format!("{item}{repeat}")
}
