//! Decodes the characters of JSON strings.
//!
//! All strings pass through this decoder: keys and values, free text and fixed words. The decoder
//! knows UTF-8 and JSON's escapes, and yields one character at a time. The consumer of the
//! characters, such as a counter or a trie, need not know how they are spelled.

use super::cost::Shortest;
use crate::options::Profile;

/// The part of one character's spelling that has been read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Decode {
    /// No part: a position between characters.
    Whole,
    /// Part of a UTF-8 sequence. `left` continuation bytes remain, and the next one is in
    /// `low..=high`. `code` has the bits so far.
    Utf8 { left: u8, low: u8, high: u8, code: u32 },
    /// A backslash.
    Escape,
    /// `\u` and hexadecimal digits. `left` of the four digits remain, and `code` is the value of
    /// the others.
    Hex { left: u8, code: u16 },
    /// The complete escape of a high surrogate. The escape of a low surrogate must follow.
    High { high: u16 },
    /// The escape of a high surrogate and a backslash.
    HighEscape { high: u16 },
    /// The escape of a high surrogate, `\u` and hexadecimal digits. `left` of the four digits
    /// remain, and `code` is the value of the others.
    Low { left: u8, high: u16, code: u16 },
}

/// Effect of a byte on a [`Decode`].
pub(crate) enum Decoded {
    /// The byte completes this character.
    Char(char),
    /// The character is still incomplete.
    Partial(Decode),
    /// The closing quote.
    Quote,
    /// No string continues with the byte.
    Reject,
}

/// Ranges of all code points except surrogates, sorted by the length of their shortest spelling.
pub(crate) const WHOLE: [(u32, u32); 14] = [
    (0x20, 0x21),
    (0x23, 0x5b),
    (0x5d, 0x7f),
    (0x22, 0x22),
    (0x5c, 0x5c),
    (0x8, 0xa),
    (0xc, 0xd),
    (0x80, 0x7ff),
    (0x800, 0xd7ff),
    (0xe000, 0xffff),
    (0x1_0000, 0x10_ffff),
    (0x0, 0x7),
    (0xb, 0xb),
    (0xe, 0x1f),
];

/// Two-byte escapes: the byte after the backslash, and the character.
const SHORT_ESCAPES: [(u8, char); 8] = [
    (b'"', '"'),
    (b'\\', '\\'),
    (b'n', '\n'),
    (b't', '\t'),
    (b'r', '\r'),
    (b'b', '\u{8}'),
    (b'f', '\u{c}'),
    (b'/', '/'),
];

impl Decode {
    /// Returns the effect of `byte`. In state [`Decode::Whole`], the byte starts a character or
    /// ends the string.
    pub(crate) fn step(self, byte: u8, profile: Profile) -> Decoded {
        match self {
            Self::Whole => first_byte(byte),
            Self::Utf8 { left, low, high, code } if (low..=high).contains(&byte) => {
                let code = code << 6 | u32::from(byte & 0x3f);
                if left > 1 {
                    return Decoded::Partial(Self::Utf8 { left: left - 1, low: 0x80, high: 0xbf, code });
                }
                char::from_u32(code).map_or(Decoded::Reject, Decoded::Char)
            }
            Self::Escape if byte == b'u' => Decoded::Partial(Self::Hex { left: 4, code: 0 }),
            Self::Escape => match SHORT_ESCAPES.iter().find(|(name, _)| *name == byte) {
                Some((b'/', _)) if profile == Profile::Generate => Decoded::Reject,
                Some(&(_, c)) => Decoded::Char(c),
                None => Decoded::Reject,
            },
            Self::Hex { left, code } => hex(left, code, byte, profile),
            Self::High { high } if byte == b'\\' => Decoded::Partial(Self::HighEscape { high }),
            Self::HighEscape { high } if byte == b'u' => {
                Decoded::Partial(Self::Low { left: 4, high, code: 0 })
            }
            Self::Low { left, high, code } => low_surrogate(left, high, code, byte),
            Self::Utf8 { .. } | Self::High { .. } | Self::HighEscape { .. } => Decoded::Reject,
        }
    }

    /// Returns the state without the bits that only decide which character this is. The result
    /// still shows where the character ends, which suffices to count characters.
    pub(crate) fn forget(self, profile: Profile) -> Self {
        match self {
            Self::Utf8 { left, low, high, .. } => Self::Utf8 { left, low, high, code: 0 },
            Self::Hex { left, code } if profile == Profile::Accept => {
                let surrogate = match (left, code) {
                    (3, 0xd) => 0xd,
                    (2, 0xd8..=0xdb) => 0xd8,
                    (1, 0xd80..=0xdbf) => 0xd80,
                    _ => 0,
                };
                Self::Hex { left, code: surrogate }
            }
            Self::High { .. } => Self::High { high: 0xd800 },
            Self::HighEscape { .. } => Self::HighEscape { high: 0xd800 },
            Self::Low { left, .. } => {
                let code = (0xdc00u32 >> (4 * left)) as u16;
                Self::Low { left, high: 0xd800, code }
            }
            other => other,
        }
    }

    /// Returns the least number of bytes that complete the character, and the first of these bytes.
    /// Between characters, the number is 0.
    pub(crate) const fn closing(self) -> (u32, u8) {
        match self {
            Self::Whole => (0, b'"'),
            Self::Utf8 { left, low, .. } => (left as u32, low),
            Self::Escape => (1, b'n'),
            Self::Hex { left, code } => match (left, code) {
                (2, 0xd8..=0xdb) | (1, 0xd80..=0xdbf) => (left as u32 + 6, b'0'),
                _ => (left as u32, b'0'),
            },
            Self::High { .. } => (6, b'\\'),
            Self::HighEscape { .. } => (5, b'u'),
            Self::Low { left: 4, .. } => (4, b'd'),
            Self::Low { left: 3, .. } => (3, b'c'),
            Self::Low { left, .. } => (left as u32, b'0'),
        }
    }

    /// Returns the shortest rest of a spelling of `c`. Returns `None` if the character cannot
    /// become `c`.
    pub(crate) fn finish(self, c: char, profile: Profile) -> Option<Shortest> {
        let mut shortest = None;
        for spelling in Spelling::all(c, profile) {
            let mut decode = Self::Whole;
            for (at, &byte) in spelling.bytes().iter().enumerate() {
                if decode == self {
                    let rest = Shortest::new((spelling.bytes().len() - at) as u32, byte);
                    shortest = Shortest::shorter(shortest, Some(rest));
                }
                match decode.step(byte, profile) {
                    Decoded::Partial(next) => decode = next,
                    _ => break,
                }
            }
        }
        shortest
    }

    /// Returns the shortest rest of a spelling of some character from `low` to `high`. Returns
    /// `None` if the character cannot become such a character.
    pub(crate) fn finish_in(self, low: u32, high: u32, profile: Profile) -> Option<Shortest> {
        if self == Self::Whole {
            return WHOLE.iter().find_map(|&(from, to)| {
                let c = char::from_u32(from.max(low))?;
                (from.max(low) <= to.min(high)).then(|| shortest_spelling(c))
            });
        }
        let ranges = self.candidates(profile).into_iter();
        let mut chars = ranges.flat_map(|(from, to)| from.max(low)..=to.min(high)).filter_map(char::from_u32);
        chars.find_map(|c| self.finish(c, profile))
    }

    /// Returns the shortest rest of a spelling of some character from `low` to `high` that is not
    /// in `known`, and this character.
    ///
    /// Among characters with equally short rests, prefers one with a long spelling. A longer name
    /// leaves the short names to other members.
    pub(crate) fn finish_other(
        self,
        low: u32,
        high: u32,
        profile: Profile,
        known: &[char],
    ) -> Option<(Shortest, char)> {
        let new = |(from, to): (u32, u32)| {
            let chars = (from.max(low)..=to.min(high)).filter_map(char::from_u32);
            chars.filter(|c| !known.contains(c))
        };
        if self == Self::Whole {
            return WHOLE.into_iter().flat_map(new).next().map(|c| (shortest_spelling(c), c));
        }
        let candidates = self.candidates(profile).into_iter();
        let mut chars = candidates.flat_map(|(from, to)| {
            let spelled = WHOLE.into_iter().rev();
            spelled.flat_map(move |(low, high)| new((low.max(from), high.min(to))))
        });
        chars.find_map(|c| Some((self.finish(c, profile)?, c)))
    }

    /// Returns ranges of code points that contain all characters that this state can become, those
    /// with the shortest rests first.
    ///
    /// A range may contain other characters, which [`Decode::finish`] rejects. These are surrogates
    /// and, in generated texts, control characters, so a search rejects few characters.
    pub(crate) fn candidates(self, profile: Profile) -> Vec<(u32, u32)> {
        const ALL: u32 = 0x10_ffff;
        let escaped = if profile == Profile::Generate { 0x1f } else { ALL };
        match self {
            Self::Whole => vec![(0x20, 0x21), (0x23, 0x5b), (0x5d, ALL), (0, ALL)],
            Self::Utf8 { left, low, high, code } => {
                let after = 6 * u32::from(left - 1);
                let at = |byte: u8| (code << 6 | u32::from(byte & 0x3f)) << after;
                vec![(at(low), at(high) | ((1 << after) - 1))]
            }
            Self::Escape => {
                let short = SHORT_ESCAPES.iter().map(|&(_, c)| (u32::from(c), u32::from(c)));
                short.chain([(0, escaped.min(0xffff)), (0, escaped)]).collect()
            }
            Self::Hex { left, code } => {
                let span = |code: u16| {
                    let shift = 4 * u32::from(left);
                    (u32::from(code) << shift, ((u32::from(code) << shift) | ((1 << shift) - 1)).min(escaped))
                };
                let (low, high) = span(code);
                let surrogates = (low.max(0xd800), high.min(0xdbff));
                if surrogates.0 > surrogates.1 {
                    return vec![(low, high)];
                }
                let pair = |high: u32| 0x1_0000 + ((high - 0xd800) << 10);
                vec![(low, high), (pair(surrogates.0), pair(surrogates.1) | 0x3ff)]
            }
            Self::High { high } | Self::HighEscape { high } | Self::Low { left: 4 | 3, high, .. } => {
                let low = 0x1_0000 + ((u32::from(high) - 0xd800) << 10);
                vec![(low, low | 0x3ff)]
            }
            Self::Low { left, high, code } => {
                let shift = 4 * u32::from(left);
                let low = 0x1_0000 + ((u32::from(high) - 0xd800) << 10);
                let at = low + ((u32::from(code) << shift) & 0x3ff);
                vec![(at, at | ((1 << shift) - 1))]
            }
        }
    }
}

/// Decodes the first byte of a character, or the closing quote.
fn first_byte(byte: u8) -> Decoded {
    let utf8 =
        |left, low, high, bits| Decoded::Partial(Decode::Utf8 { left, low, high, code: u32::from(bits) });
    match byte {
        b'"' => Decoded::Quote,
        b'\\' => Decoded::Partial(Decode::Escape),
        0x20..=0x7f => Decoded::Char(char::from(byte)),
        0xc2..=0xdf => utf8(1, 0x80, 0xbf, byte & 0x1f),
        0xe0 => utf8(2, 0xa0, 0xbf, 0),
        0xed => utf8(2, 0x80, 0x9f, 0xd),
        0xe1..=0xef => utf8(2, 0x80, 0xbf, byte & 0xf),
        0xf0 => utf8(3, 0x90, 0xbf, 0),
        0xf1..=0xf3 => utf8(3, 0x80, 0xbf, byte & 7),
        0xf4 => utf8(3, 0x80, 0x8f, 4),
        _ => Decoded::Reject,
    }
}

/// Decodes a hexadecimal digit of an escape that is not the second half of a surrogate pair.
fn hex(left: u8, code: u16, byte: u8, profile: Profile) -> Decoded {
    let Some(digit) = char::from(byte).to_digit(16) else { return Decoded::Reject };
    let next = code << 4 | digit as u16;
    if profile == Profile::Generate {
        return generated_hex(left, next, byte);
    }
    match (left, next) {
        (3, 0xdc..=0xdf) => Decoded::Reject,
        (1, 0xd800..=0xdbff) => Decoded::Partial(Decode::High { high: next }),
        (1, _) => char::from_u32(u32::from(next)).map_or(Decoded::Reject, Decoded::Char),
        _ => Decoded::Partial(Decode::Hex { left: left - 1, code: next }),
    }
}

/// Decodes a hexadecimal digit in a generated text. `next` is the value of the digits so far. Such
/// a text has hexadecimal escapes, in lower case, only for control characters without a short
/// escape.
fn generated_hex(left: u8, next: u16, byte: u8) -> Decoded {
    let c = char::from_u32(u32::from(next)).unwrap_or_default();
    let needed = next < 0x20 && !SHORT_ESCAPES.iter().any(|&(_, short)| short == c);
    match left {
        3 | 4 if next == 0 => Decoded::Partial(Decode::Hex { left: left - 1, code: 0 }),
        2 if next < 2 => Decoded::Partial(Decode::Hex { left: 1, code: next }),
        1 if needed && !byte.is_ascii_uppercase() => Decoded::Char(c),
        _ => Decoded::Reject,
    }
}

/// Decodes a hexadecimal digit of the second half of a surrogate pair.
fn low_surrogate(left: u8, high: u16, code: u16, byte: u8) -> Decoded {
    let Some(digit) = char::from(byte).to_digit(16) else { return Decoded::Reject };
    let next = code << 4 | digit as u16;
    match (left, next) {
        (4, 0xd) | (3, 0xdc..=0xdf) | (2, _) => {
            Decoded::Partial(Decode::Low { left: left - 1, high, code: next })
        }
        (1, _) => {
            let code = 0x1_0000 + ((u32::from(high) - 0xd800) << 10) + (u32::from(next) - 0xdc00);
            char::from_u32(code).map_or(Decoded::Reject, Decoded::Char)
        }
        _ => Decoded::Reject,
    }
}

/// One spelling of a character.
#[derive(Clone, Copy)]
struct Spelling {
    bytes: [u8; 12],
    len: u8,
}

impl Spelling {
    fn new(text: &[u8]) -> Self {
        let mut bytes = [0; 12];
        bytes[..text.len()].copy_from_slice(text);
        Self { bytes, len: text.len() as u8 }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns all spellings of `c`. Of spellings that differ only in the case of hexadecimal
    /// digits, returns one, because a [`Decode`] does not keep the case.
    fn all(c: char, profile: Profile) -> impl Iterator<Item = Self> {
        let mut utf8 = [0; 4];
        let raw = !matches!(c, '\0'..='\x1f' | '"' | '\\');
        let plain = raw.then(|| Self::new(c.encode_utf8(&mut utf8).as_bytes()));
        let short = SHORT_ESCAPES.iter().find(|&&(_, short)| short == c);
        let short = short.filter(|_| !(raw && profile == Profile::Generate));
        let short = short.map(|&(name, _)| Self::new(&[b'\\', name]));
        let long = profile == Profile::Accept || (plain.is_none() && short.is_none());
        let long = long.then(|| {
            let mut text = [0; 12];
            let units = c.encode_utf16(&mut [0; 2]).len();
            for (at, unit) in c.encode_utf16(&mut [0; 2]).iter().enumerate() {
                text[6 * at] = b'\\';
                text[6 * at + 1] = b'u';
                for place in 0..4 {
                    let digit = u32::from(unit >> (12 - 4 * place) & 0xf);
                    text[6 * at + 2 + place] = char::from_digit(digit, 16).map_or(b'0', |digit| digit as u8);
                }
            }
            Self::new(&text[..6 * units])
        });
        plain.into_iter().chain(short).chain(long)
    }
}

/// Returns the length of the shortest spelling of `c` in bytes, and its first byte.
pub(crate) fn shortest_spelling(c: char) -> Shortest {
    match c {
        '"' | '\\' | '\n' | '\t' | '\r' | '\u{8}' | '\u{c}' => Shortest::new(2, b'\\'),
        '\0'..='\x1f' => Shortest::new(6, b'\\'),
        _ => {
            let mut utf8 = [0; 4];
            let bytes = c.encode_utf8(&mut utf8).as_bytes();
            Shortest::new(bytes.len() as u32, bytes[0])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the characters of a string's inside, or `None` if the inside is invalid.
    fn read(text: &[u8], profile: Profile) -> Option<String> {
        let (mut decode, mut chars) = (Decode::Whole, String::new());
        for &byte in text {
            match decode.step(byte, profile) {
                Decoded::Char(c) => {
                    chars.push(c);
                    decode = Decode::Whole;
                }
                Decoded::Partial(next) => decode = next,
                Decoded::Quote | Decoded::Reject => return None,
            }
        }
        (decode == Decode::Whole).then_some(chars)
    }

    #[test]
    fn every_spelling_reads_back() {
        let chars = (0..0x3000).chain(0xd7f0..0xe010).chain(0xfff0..0x1_0010).chain(0x10_fff0..0x11_0000);
        for c in chars.filter_map(char::from_u32) {
            for profile in [Profile::Generate, Profile::Accept] {
                let spellings: Vec<_> = Spelling::all(c, profile).collect();
                assert!(spellings.iter().all(|s| read(s.bytes(), profile) == Some(c.to_string())), "{c:?}");
                let least = spellings.iter().map(|s| (s.bytes().len() as u32, s.bytes()[0])).min();
                assert_eq!(least.map(|(len, first)| Shortest::new(len, first)), Some(shortest_spelling(c)));
            }
        }
    }

    #[test]
    fn ill_formed_strings_are_rejected() {
        let bad: [&[u8]; 9] = [
            b"\xc0\x80",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"\x80",
            b"\\x",
            b"\\ud800",
            b"\\udc00",
            b"\\ud800\\u0041",
            b"\x01",
        ];
        for text in bad {
            assert_eq!(read(text, Profile::Accept), None, "{text:?}");
        }
        for text in [&b"\\/"[..], b"\\u0041", b"\\u001F", b"\\u000a"] {
            assert_eq!(read(text, Profile::Generate), None, "{text:?}");
            assert!(read(text, Profile::Accept).is_some(), "{text:?}");
        }
    }

    #[test]
    fn forgetting_keeps_the_closing_length() {
        for text in [&b"\\ud83d\\ude00"[..], b"\\u00e9", "é€😀".as_bytes(), b"\\ud7ff", b"\\n"] {
            let mut decode = Decode::Whole;
            for &byte in text {
                assert_eq!(decode.closing(), decode.forget(Profile::Accept).closing());
                let forgetful = decode.forget(Profile::Accept).step(byte, Profile::Accept);
                match (decode.step(byte, Profile::Accept), forgetful) {
                    (Decoded::Partial(next), Decoded::Partial(_)) => decode = next,
                    (Decoded::Char(_), Decoded::Char(_)) => decode = Decode::Whole,
                    _ => panic!("{text:?}"),
                }
            }
        }
    }
}
