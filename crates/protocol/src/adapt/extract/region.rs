//! The matcher: one pass over the text with a stack of open brackets.

use super::super::tape::quoted;

/// A part of a text that may be JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region<'t> {
    pub(super) text: &'t str,
    /// Whether it begins with the bracket that is wanted, or none is.
    pub(super) is_preferred: bool,
}

/// The largest region of `text` that begins as JSON does and is balanced, or has no end; of those with the preferred bracket, if there
/// are some. The time is linear in the length of the text.
pub(super) fn largest(text: &str, preferred: Option<u8>) -> Option<Region<'_>> {
    let mut best: Option<Region<'_>> = None;
    let (mut at, mut endless) = (0, 0);
    while let Some(start) = find_open(text.as_bytes(), at) {
        if let Some(skip) = not_json(&text[start..]) {
            at = start + skip;
            continue;
        }
        let (end, was_read_to_the_end) = Matcher::new(text, start).run();
        let is_preferred = preferred.is_none_or(|bracket| text.as_bytes()[start] == bracket);
        let region = Region { text: text[start..end].trim_end(), is_preferred };
        let rank = |region: &Region<'_>| (region.is_preferred, region.text.len());
        if best.is_none_or(|best| rank(&region) > rank(&best)) {
            best = Some(region);
        }
        // What is at a fence may have been read to the end of the text, which is not to happen for every fence.
        endless += usize::from(was_read_to_the_end);
        if endless > ENDLESS {
            break;
        }
        at = end;
    }
    best
}

/// Where the first bracket at or after `at` opens.
fn find_open(bytes: &[u8], at: usize) -> Option<usize> {
    let found = bytes.get(at..)?.iter().position(|&byte| byte == b'{' || byte == b'[')?;
    Some(at + found)
}

/// How many bytes of `text`, which begins with a bracket, are certainly not the beginning of JSON or of what is nearly so; none if they
/// may be.
fn not_json(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        let bracket = bytes[at];
        let after = at + 1;
        at = after + bytes[after..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let rest = &text[at..];
        match bytes.get(at)? {
            b'"' | b'\'' | b'/' => return None,
            b'{' | b'[' if bracket == b'[' => {}
            b'}' if bracket == b'{' => return None,
            b']' if bracket == b'[' => return None,
            _ if rest.starts_with(['\u{201c}', '\u{2018}']) => return None,
            _ if bracket == b'{' => {
                let name =
                    rest.find(|c: char| !c.is_alphanumeric() && !"_$-".contains(c)).unwrap_or(rest.len());
                let is_name = name > 0 && rest[name..].trim_start().starts_with(':');
                return (!is_name).then_some(at);
            }
            b'0'..=b'9' | b'-' | b'+' | b'.' => return None,
            _ => {
                let word = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
                let is_literal = ["true", "false", "null", "True", "False", "None"].contains(&&rest[..word]);
                return (!is_literal).then_some(at);
            }
        }
    }
}

/// Finds the end of a region that begins at a bracket.
struct Matcher<'t> {
    text: &'t str,
    bytes: &'t [u8],
    start: usize,
    at: usize,
    open: Vec<u8>,
    /// The last byte that is not blank, outside strings and comments.
    last: u8,
}

impl<'t> Matcher<'t> {
    fn new(text: &'t str, start: usize) -> Self {
        Self { text, bytes: text.as_bytes(), start, at: start, open: Vec::new(), last: b'[' }
    }

    /// The byte after the region: after its last bracket, or else at the fence that it is in, or at the end of the text. Also whether
    /// all of the text was read.
    fn run(mut self) -> (usize, bool) {
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'{' | b'[' => self.open.push(byte),
                b'}' | b']' => {
                    self.close(byte);
                    if self.open.is_empty() {
                        return (self.at + 1, false);
                    }
                }
                // In JSON nothing else comes before a string. What is quoted in other places is prose, or broken.
                b'"' | b'\'' if matches!(self.last, b'{' | b'[' | b',' | b':') && !self.string(byte) => break,
                b'/' if !matches!(self.last, b'/' | b'<') && self.comment() => continue,
                b'\n' if self.bytes[self.at + 1..].starts_with(b"```") => return (self.at, false),
                _ => {}
            }
            if !byte.is_ascii_whitespace() {
                self.last = byte;
            }
            self.at += 1;
        }
        let fence = self.text[self.start..].find("\n```");
        (fence.map_or(self.text.len(), |fence| self.start + fence), true)
    }

    /// A closing bracket ends what it belongs to, with all that was left open in it; a stray one ends nothing.
    fn close(&mut self, byte: u8) {
        let opener = if byte == b'}' { b'{' } else { b'[' };
        if self.open.last() == Some(&opener) {
            self.open.pop();
        } else if let Some(found) = self.open.iter().rev().take(NEAR).position(|&open| open == opener) {
            self.open.truncate(self.open.len() - 1 - found);
        }
    }

    /// Goes to the quote that ends a string; false if none does.
    fn string(&mut self, quote: u8) -> bool {
        self.at += 1;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'\\' => self.at += 1,
                byte if byte == quote => return true,
                _ => {}
            }
            self.at += 1;
        }
        false
    }

    /// Goes behind a comment, if one begins here.
    fn comment(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let length = if rest.starts_with("//") {
            rest.find('\n')
        } else if rest.starts_with("/*") {
            rest.find("*/").map(|end| end + 2)
        } else {
            return false;
        };
        self.at += length.unwrap_or(rest.len());
        true
    }
}

/// How many quotes, blanks and backslashes there may be before a bracket in a string.
const LEAD: usize = 32;
/// How many regions may have no end.
const ENDLESS: usize = 8;
/// How far away the bracket may be that a closing one belongs to where others are open.
const NEAR: usize = 16;

/// What comes after a model's thoughts, which some servers leave in the text, with the mark before them or without it.
pub(super) fn without_thoughts(text: &str) -> &str {
    match text.split_once("</think>") {
        Some((before, after)) if !after.trim().is_empty() => {
            let is_thought = before.starts_with("<think") || find_open(before.as_bytes(), 0).is_none();
            if is_thought { after } else { text }
        }
        _ => text,
    }
}

/// The part of `text` between brackets that is escaped as in a string: from the first bracket with an escaped quote after it to the
/// last one.
pub(super) fn escaped(text: &str) -> Option<&str> {
    let start = text.match_indices("\\\"").find_map(|(quote, _)| bracket_before(text.as_bytes(), quote))?;
    let end = 1 + text.rfind(['}', ']']).filter(|&end| end > start)?;
    Some(&text[start..end])
}

/// What stands in the first JSON string of `text` that begins with a bracket, behind more quotes perhaps.
pub(super) fn in_string(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let begins = |start: usize| {
        let mut after = bytes[start..].iter().enumerate().take(LEAD);
        let first = after.find(|&(at, &byte)| {
            let is_escaped_blank = b"nrt".contains(&byte) && bytes[start + at - 1] == b'\\';
            !is_escaped_blank && byte != b'"' && byte != b'\\' && !byte.is_ascii_whitespace()
        });
        first.is_some_and(|(_, &byte)| byte == b'{' || byte == b'[')
    };
    let quotes = text.match_indices('"').map(|(at, _)| at).filter(|&at| at == 0 || bytes[at - 1] != b'\\');
    quotes.filter(|&at| begins(at)).find_map(|at| quoted(&text[at..]))
}

/// The first bracket before an escaped quote, with nothing but other brackets and blanks in between, escaped or not.
fn bracket_before(bytes: &[u8], quote: usize) -> Option<usize> {
    let mut start = None;
    for at in (0..quote).rev() {
        match bytes[at] {
            b'{' | b'[' => start = Some(at),
            b'\\' | b' ' | b'\n' | b'\r' | b'\t' => {}
            b'n' | b't' | b'r' if at > 0 && bytes[at - 1] == b'\\' => {}
            _ => break,
        }
    }
    start
}

/// What stands between fences, if there is one block of it.
pub(super) fn only_block(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("```")?;
    let (first, body) = after.split_once('\n')?;
    let is_info = first.trim().chars().all(char::is_alphanumeric);
    let (block, rest) = body.split_once("```")?;
    (is_info && !rest.contains("```")).then_some(block)
}
