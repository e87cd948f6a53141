//! Texts as a tree of symbols, and where in it a text may have come.

use formwork_grammar::Profile;

use super::spell::Symbol;
use super::{ALPHABET, OTHER};

/// Sequences of symbols; what they begin with in common is there once.
pub struct Tree {
    profile: Profile,
    /// The first is the root, before all symbols.
    nodes: Vec<Node>,
}

struct Node {
    /// What leads here.
    symbol: Symbol,
    children: Vec<u32>,
    /// A sequence ends here.
    ends: bool,
}

/// Where a text may have come: at a node, or inside the character or number that leads to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position {
    node: u32,
    /// The bytes of that character or number; zero of them after it.
    len: u8,
    bytes: [u8; 12],
    /// The length of the white space just read, where it is bounded.
    blanks: u8,
}

/// What some bytes are of a symbol's spellings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spelled {
    No,
    /// The beginning of one.
    Begun,
    /// A whole one, and longer ones may begin so.
    Whole,
}

impl Tree {
    pub(super) fn new(profile: Profile) -> Self {
        Self { profile, nodes: vec![Node { symbol: Symbol::Byte(0), children: Vec::new(), ends: false }] }
    }

    pub(super) fn insert(&mut self, text: Vec<Symbol>) {
        let mut at = 0;
        for symbol in text {
            let known =
                self.nodes[at].children.iter().find(|&&child| self.nodes[child as usize].symbol == symbol);
            at = if let Some(&known) = known {
                known as usize
            } else {
                let node = self.nodes.len();
                self.nodes.push(Node { symbol, children: Vec::new(), ends: false });
                self.nodes[at].children.push(node as u32);
                node
            };
        }
        self.nodes[at].ends = true;
    }

    /// Before any text; empty where no sequence was inserted.
    pub fn start(&self) -> Vec<Position> {
        let mut positions = Vec::new();
        if !self.nodes[0].children.is_empty() {
            self.arrive(0, &mut positions);
        }
        positions
    }

    /// Whether a text that has come to `positions` is whole.
    pub fn accepts(&self, positions: &[Position]) -> bool {
        positions.iter().any(|position| position.len == 0 && self.nodes[position.node as usize].ends)
    }

    /// Where one more byte leads: nowhere exactly if no text of the tree goes on so.
    pub fn step(&self, positions: &[Position], byte: u8) -> Vec<Position> {
        let mut next = Vec::new();
        for position in positions {
            let node = &self.nodes[position.node as usize];
            if position.len > 0 {
                self.read(*position, byte, &mut next);
                continue;
            }
            if let Symbol::Space(most) = node.symbol {
                let blanks: &[u8] = if most.is_some() { b" \n" } else { b" \n\r\t" };
                if blanks.contains(&byte) && most.is_none_or(|most| position.blanks < most) {
                    next.push(Position { blanks: position.blanks + u8::from(most.is_some()), ..*position });
                    self.pass(position.node, &mut next);
                }
            }
            for &child in &node.children {
                match self.nodes[child as usize].symbol {
                    Symbol::Byte(expected) if byte == expected => self.arrive(child, &mut next),
                    Symbol::Char(_) | Symbol::Number(_) => self.read(Position::at(child), byte, &mut next),
                    // Space may be empty: what comes after it has a position of its own.
                    Symbol::Byte(_) | Symbol::Space(_) => {}
                }
            }
        }
        next.sort_unstable();
        next.dedup();
        next
    }

    /// After a node's symbol, and after the space behind it, which may be empty.
    fn arrive(&self, node: u32, positions: &mut Vec<Position>) {
        positions.push(Position::at(node));
        self.pass(node, positions);
    }

    fn pass(&self, node: u32, positions: &mut Vec<Position>) {
        for &child in &self.nodes[node as usize].children {
            if matches!(self.nodes[child as usize].symbol, Symbol::Space(_)) {
                self.arrive(child, positions);
            }
        }
    }

    /// One more byte of a character or number.
    fn read(&self, mut position: Position, byte: u8, next: &mut Vec<Position>) {
        let len = usize::from(position.len);
        position.bytes[len] = byte;
        position.len += 1;
        let bytes = &position.bytes[..=len];
        match &self.nodes[position.node as usize].symbol {
            Symbol::Number(number) => {
                let spelled = number_spelled(number, bytes, self.profile);
                // Zeros after the point are as good as one.
                let zeros = len > number.len() && bytes.ends_with(b"00");
                let kept = if zeros { shorter(position) } else { position };
                if spelled != Spelled::No {
                    next.push(kept);
                }
                if spelled == Spelled::Whole {
                    self.arrive(position.node, next);
                }
            }
            Symbol::Char(c) => match char_spelled(*c, bytes, self.profile) {
                Spelled::No => {}
                Spelled::Begun => next.push(position),
                Spelled::Whole => self.arrive(position.node, next),
            },
            Symbol::Byte(_) | Symbol::Space(_) => {}
        }
    }
}

impl Position {
    const fn at(node: u32) -> Self {
        Self { node, len: 0, bytes: [0; 12], blanks: 0 }
    }
}

/// The position without its last byte.
fn shorter(mut position: Position) -> Position {
    position.len -= 1;
    position.bytes[usize::from(position.len)] = 0;
    position
}

/// A number of known value is spelled as given, or where all spellings are accepted also with zeros after its digits, and
/// zero with a minus. Exponents are rejected wherever a number is bounded, so always here.
fn number_spelled(number: &str, bytes: &[u8], profile: Profile) -> Spelled {
    let accept = profile == Profile::Accept;
    let bytes = if accept && number == "0" { bytes.strip_prefix(b"-").unwrap_or(bytes) } else { bytes };
    let number = number.as_bytes();
    if bytes.len() < number.len() {
        return if number.starts_with(bytes) { Spelled::Begun } else { Spelled::No };
    }
    let Some(zeros) = bytes.strip_prefix(number) else { return Spelled::No };
    let fraction = number.contains(&b'.');
    match zeros {
        [] => Spelled::Whole,
        _ if !accept => Spelled::No,
        [b'.'] if !fraction => Spelled::Begun,
        [b'.', zeros @ ..] if !fraction && zeros.iter().all(|&zero| zero == b'0') => Spelled::Whole,
        zeros if fraction && zeros.iter().all(|&zero| zero == b'0') => Spelled::Whole,
        _ => Spelled::No,
    }
}

/// What some bytes are of the spellings of `c`, or of any character outside the alphabet.
fn char_spelled(c: char, bytes: &[u8], profile: Profile) -> Spelled {
    match (decode(bytes, profile), c) {
        // Whatever can be finished at all can be finished as more than the alphabet's characters.
        (Decoded::Begun, OTHER) => Spelled::Begun,
        (Decoded::Whole(read), OTHER) if !ALPHABET.contains(&read) => Spelled::Whole,
        (Decoded::Whole(read), c) if read == c => Spelled::Whole,
        (Decoded::Nothing | Decoded::Whole(_), _) => Spelled::No,
        (Decoded::Begun, c) => {
            let mut spellings = vec![c.to_string()];
            if c == '"' {
                spellings.push("\\\"".to_owned());
            }
            if profile == Profile::Accept {
                spellings.push(format!("\\u{:04x}", u32::from(c))); // none of the alphabet needs two units
            }
            let bytes = bytes.to_ascii_lowercase();
            let begun = spellings.iter().any(|spelling| spelling.as_bytes().starts_with(&bytes));
            if begun { Spelled::Begun } else { Spelled::No }
        }
    }
}

/// What some bytes inside a string are.
enum Decoded {
    Nothing,
    /// The beginning of a character.
    Begun,
    Whole(char),
}

fn decode(bytes: &[u8], profile: Profile) -> Decoded {
    match bytes {
        [b'\\', escape @ ..] if profile == Profile::Accept => accepted_escape(escape),
        [b'\\', ..] => generated_escape(bytes),
        [0..0x20 | b'"', ..] => Decoded::Nothing,
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => text.chars().next().map_or(Decoded::Nothing, Decoded::Whole),
            Err(error) if error.error_len().is_none() => Decoded::Begun,
            Err(_) => Decoded::Nothing,
        },
    }
}

/// Generated texts have just these escapes.
fn generated_escape(bytes: &[u8]) -> Decoded {
    let named = [
        ('"', "\\\""),
        ('\\', "\\\\"),
        ('\n', "\\n"),
        ('\t', "\\t"),
        ('\r', "\\r"),
        ('\u{8}', "\\b"),
        ('\u{c}', "\\f"),
    ];
    let control = (0..0x20u8).map(char::from).filter(|c| named.iter().all(|(known, _)| known != c));
    let control = control.map(|c| (c, format!("\\u{:04x}", c as u32)));
    let escapes = named.iter().map(|&(c, text)| (c, text.to_owned())).chain(control);
    escapes.fold(Decoded::Nothing, |found, (c, text)| match text.as_bytes().strip_prefix(bytes) {
        Some([]) => Decoded::Whole(c),
        Some(_) => Decoded::Begun,
        None => found,
    })
}

/// What follows a backslash, in texts that may escape any character.
fn accepted_escape(escape: &[u8]) -> Decoded {
    let named = |c: u8| b"\"\\/bfnrt".iter().position(|&name| name == c).map(|at| b"\"\\/\x08\x0c\n\r\t"[at]);
    match escape {
        [] => Decoded::Begun,
        [b'u', digits @ ..] => {
            let (first, rest) = digits.split_at(digits.len().min(4));
            let Some((low, high)) = units(first) else { return Decoded::Nothing };
            match (low, high) {
                (0xd800..=0xdbff, _) if first.len() == 4 => low_surrogate(low, rest),
                (0xdc00..=0xdfff, 0xdc00..=0xdfff) => Decoded::Nothing,
                _ if first.len() == 4 => char::from_u32(low).map_or(Decoded::Nothing, Decoded::Whole),
                _ => Decoded::Begun,
            }
        }
        [name] => named(*name).map_or(Decoded::Nothing, |c| Decoded::Whole(c.into())),
        _ => Decoded::Nothing,
    }
}

fn low_surrogate(high: u32, rest: &[u8]) -> Decoded {
    let digits = match rest {
        [] | [b'\\'] => return Decoded::Begun,
        [b'\\', b'u', digits @ ..] => digits,
        _ => return Decoded::Nothing,
    };
    match units(digits) {
        Some((low, last)) if last >= 0xdc00 && low <= 0xdfff => {
            if digits.len() < 4 {
                return Decoded::Begun;
            }
            let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            char::from_u32(code).map_or(Decoded::Nothing, Decoded::Whole)
        }
        _ => Decoded::Nothing,
    }
}

/// The least and greatest number of four hexadecimal digits that begin with these.
fn units(digits: &[u8]) -> Option<(u32, u32)> {
    let given =
        digits.iter().try_fold(0, |code, &digit| Some(code * 16 + char::from(digit).to_digit(16)?))?;
    let left = 4 * (4 - digits.len() as u32);
    Some((given << left, (given << left) + (1 << left) - 1))
}
