//! Texts as a tree of symbols, and the positions in the tree after reading some bytes.

use formwork_grammar::Profile;

use super::spell::Symbol;
use super::{ALPHABET, OTHER};

/// A set of texts, each a sequence of symbols. Common prefixes are stored once.
#[derive(Clone)]
pub struct Tree {
    profile: Profile,
    /// True if numbers may be in scientific notation.
    scientific: bool,
    /// The nodes. The first one is the root, which has no symbol of its own.
    nodes: Vec<Node>,
}

#[derive(Clone)]
struct Node {
    /// Symbol on the edge that leads to this node.
    symbol: Symbol,
    children: Vec<u32>,
    /// True if a text ends here.
    ends: bool,
}

/// A position in the tree after some bytes: at a node, or inside the character or number that leads
/// to the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position {
    node: u32,
    /// Number of bytes read of that character or number, which are in `bytes`. Zero at the node.
    len: u8,
    bytes: [u8; 24],
    /// Number of whitespace bytes read at the node, if the node's symbol limits them. Otherwise
    /// zero.
    blanks: u8,
}

/// Relation between some bytes and the spellings of a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spelled {
    No,
    /// The bytes are a proper prefix of a spelling.
    Begun,
    /// The bytes are a whole spelling, and possibly a prefix of longer ones.
    Whole,
}

impl Tree {
    pub(super) fn new(profile: Profile) -> Self {
        Self {
            profile,
            scientific: false,
            nodes: vec![Node { symbol: Symbol::Byte(0), children: Vec::new(), ends: false }],
        }
    }

    /// Returns a copy of the tree that also accepts numbers in scientific notation. If the profile
    /// has only one spelling of a number, the copy accepts the same texts as the tree.
    pub(super) fn with_scientific(&self) -> Self {
        Self { scientific: self.profile == Profile::Accept, ..self.clone() }
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

    /// Returns the positions before any text. The result is empty if the tree has no texts.
    pub fn start(&self) -> Vec<Position> {
        let mut positions = Vec::new();
        if !self.nodes[0].children.is_empty() {
            self.arrive(0, &mut positions);
        }
        positions
    }

    /// Returns the positions after `text`. The result is empty if no text of the tree begins with
    /// `text`.
    pub fn after(&self, text: &[u8]) -> Vec<Position> {
        text.iter().fold(self.start(), |positions, &byte| self.step(&positions, byte))
    }

    /// Reports whether a text is complete, given the positions after it.
    pub fn accepts(&self, positions: &[Position]) -> bool {
        positions.iter().any(|position| position.len == 0 && self.nodes[position.node as usize].ends)
    }

    /// Returns the positions after one more byte. The result is empty if no text of the tree
    /// continues with `byte`.
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
                    // Space may be empty; `arrive` adds a position after the space.
                    Symbol::Byte(_) | Symbol::Space(_) => {}
                }
            }
        }
        next.sort_unstable();
        next.dedup();
        next
    }

    /// Adds the position at `node`. Whitespace may be empty, so also adds the positions at
    /// whitespace nodes that follow directly.
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

    /// Adds the positions after `byte`, given a position inside the character or number of a node.
    fn read(&self, mut position: Position, byte: u8, next: &mut Vec<Position>) {
        let len = usize::from(position.len);
        position.bytes[len] = byte;
        position.len += 1;
        let bytes = &position.bytes[..=len];
        match &self.nodes[position.node as usize].symbol {
            Symbol::Number(number) => {
                let spelled = self.number_spelled(number, bytes);
                // Zeros after the point or before an exponent's digits are as good as one, and so are the
                // digits of a zero's exponent.
                let zeros = len > number.len() && bytes.ends_with(b"00");
                let exponent = bytes.iter().position(|byte| matches!(byte, b'e' | b'E'));
                let digits =
                    exponent.map_or(0, |at| bytes[at..].iter().filter(|b| b.is_ascii_digit()).count());
                let kept = if zeros || (number == "0" && digits > 1) { shorter(position) } else { position };
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
        Self { node, len: 0, bytes: [0; 24], blanks: 0 }
    }
}

/// Returns the position before its last byte was read.
fn shorter(mut position: Position) -> Position {
    position.len -= 1;
    position.bytes[usize::from(position.len)] = 0;
    position
}

impl Tree {
    /// Compares `bytes` with the spellings of `number`, which is given in its shortest spelling.
    ///
    /// With the generate profile, the shortest spelling is the only one. With the accept profile,
    /// zeros may be added at the end of the fraction (`3`, `3.0`, `3.00`), and zero may have a
    /// minus sign.
    fn number_spelled(&self, number: &str, bytes: &[u8]) -> Spelled {
        if self.profile == Profile::Generate {
            return match number.as_bytes().strip_prefix(bytes) {
                Some([]) => Spelled::Whole,
                Some(_) => Spelled::Begun,
                None => Spelled::No,
            };
        }
        let bytes = if number == "0" { bytes.strip_prefix(b"-").unwrap_or(bytes) } else { bytes };
        let scientific = if self.scientific { scientific_spelled(number, bytes) } else { Spelled::No };
        match (plain_spelled(number, bytes), scientific) {
            (Spelled::Whole, _) | (_, Spelled::Whole) => Spelled::Whole,
            (Spelled::No, Spelled::No) => Spelled::No,
            _ => Spelled::Begun,
        }
    }
}

fn plain_spelled(number: &str, bytes: &[u8]) -> Spelled {
    let number = number.as_bytes();
    if bytes.len() < number.len() {
        return if number.starts_with(bytes) { Spelled::Begun } else { Spelled::No };
    }
    let Some(zeros) = bytes.strip_prefix(number) else { return Spelled::No };
    let fraction = number.contains(&b'.');
    match zeros {
        [] => Spelled::Whole,
        [b'.'] if !fraction => Spelled::Begun,
        [b'.', zeros @ ..] if !fraction && zeros.iter().all(|&zero| zero == b'0') => Spelled::Whole,
        zeros if fraction && zeros.iter().all(|&zero| zero == b'0') => Spelled::Whole,
        _ => Spelled::No,
    }
}

/// Compares `bytes` with the spellings of `number` that have one digit before the point and an
/// exponent.
fn scientific_spelled(number: &str, bytes: &[u8]) -> Spelled {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let (text, number) = match number.strip_prefix('-') {
        Some(number) => match text.strip_prefix('-') {
            Some(text) => (text, number),
            None => return if text.is_empty() { Spelled::Begun } else { Spelled::No },
        },
        None => (text.as_str(), number),
    };
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all = format!("{integer}{fraction}");
    let digits = all.trim_start_matches('0').trim_end_matches('0');
    let zeros = all.len() - all.trim_start_matches('0').len();
    let exponent = if digits.is_empty() { 0 } else { integer.len() as i32 - 1 - zeros as i32 };
    let digits = if digits.is_empty() { "0" } else { digits };

    let (mantissa, power) = text.split_once('e').map_or((text, None), |(m, e)| (m, Some(e)));
    let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let written = format!("{first}{rest}");
    let continues = written.bytes().zip(digits.bytes().chain(std::iter::repeat(b'0'))).all(|(a, b)| a == b);
    if first.len() > 1 || first.is_empty() && !mantissa.is_empty() || !continues {
        return Spelled::No;
    }
    let Some(power) = power else { return Spelled::Begun };
    if first.is_empty() || mantissa.ends_with('.') || written.len() < digits.len() {
        return Spelled::No;
    }
    let (sign, power) = match power.as_bytes().first() {
        Some(sign @ (b'+' | b'-')) => (Some(*sign), &power[1..]),
        _ => (None, power),
    };
    let is_zero = digits == "0";
    let may_have = is_zero || exponent == 0 || (sign == Some(b'-')) == (exponent < 0);
    if !power.bytes().all(|byte| byte.is_ascii_digit()) || (sign.is_some() && !may_have) {
        return Spelled::No;
    }
    let expected = if exponent == 0 { String::new() } else { exponent.abs().to_string() };
    let significant = power.trim_start_matches('0');
    match (power.is_empty(), is_zero || significant == expected) {
        (false, true) if may_have => Spelled::Whole,
        _ if !significant.is_empty() && !may_have => Spelled::No,
        _ if is_zero || expected.starts_with(significant) => Spelled::Begun,
        _ => Spelled::No,
    }
}

/// Compares `bytes` with the spellings of `c`. If `c` is [`OTHER`], these are the spellings of all
/// characters outside the alphabet.
fn char_spelled(c: char, bytes: &[u8], profile: Profile) -> Spelled {
    match (decode(bytes, profile), c) {
        // Every prefix of a spelling is also a prefix of a character outside the alphabet.
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
                spellings.push(format!("\\u{:04x}", u32::from(c))); // no character of the alphabet needs two UTF-16 units
            }
            let bytes = bytes.to_ascii_lowercase();
            let begun = spellings.iter().any(|spelling| spelling.as_bytes().starts_with(&bytes));
            if begun { Spelled::Begun } else { Spelled::No }
        }
    }
}

/// Result of decoding some bytes inside a string as one character.
enum Decoded {
    Nothing,
    /// The bytes are a proper prefix of a character's spelling.
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

/// Decodes an escape of a generated text. Generated texts contain only the escapes listed here.
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

/// Decodes the bytes after a backslash in a text of the accept profile, which may escape any
/// character.
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

/// Returns the smallest and largest four-digit hexadecimal numbers that begin with `digits`.
fn units(digits: &[u8]) -> Option<(u32, u32)> {
    let given =
        digits.iter().try_fold(0, |code, &digit| Some(code * 16 + char::from(digit).to_digit(16)?))?;
    let left = 4 * (4 - digits.len() as u32);
    Some((given << left, (given << left) + (1 << left) - 1))
}
