//! The matcher: one pass over the text with a stack of open brackets.

use super::super::tape::{plain_until, quoted};

/// A part of a text between brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region<'t> {
    pub(super) text: &'t str,
    /// Where it begins.
    pub(super) start: usize,
    pub(super) fit: Fit,
}

/// How near a region is to what is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// It is no JSON: it has assignments, or what may be JSON is a part of it and no answer by itself.
    Broken,
    /// It may be JSON, and begins with another bracket than the one that is wanted.
    Other,
    /// It begins with the bracket that is wanted, or none is.
    Wanted,
}

impl Region<'_> {
    pub(super) const fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// What is greatest in the region that is taken.
    pub(super) const fn rank(&self) -> (Fit, usize) {
        (self.fit, self.text.len())
    }
}

/// A bracket that begins no JSON, and has not ended.
struct Opened {
    bracket: u8,
    start: usize,
    /// How many regions there were before it.
    before: usize,
}

/// The regions of `text` that begin as JSON does and are balanced, or have no end, in order and apart; those that are within a bracket
/// that is no JSON are one with it. The time is linear in the length of the text.
pub(super) fn regions(text: &str, wanted: Option<u8>) -> Vec<Region<'_>> {
    let bytes = text.as_bytes();
    let (mut found, mut opened) = (Vec::new(), Vec::new());
    let (mut at, mut endless) = (0, 0);
    while let Some(mark) = find_mark(bytes, at) {
        at = mark + 1;
        match bytes[mark] {
            // What a fence is in front of belongs to nothing before it.
            b'`' => {
                if (mark == 0 || bytes[mark - 1] == b'\n') && bytes[mark..].starts_with(b"```") {
                    opened.clear();
                }
            }
            b'}' | b']' => {
                if let Some(Opened { start, before, .. }) = closed(&mut opened, bytes[mark])
                    && before < found.len()
                {
                    found.truncate(before);
                    found.push(Region { text: &text[start..at], start, fit: Fit::Broken });
                }
            }
            _ => {
                let begins = Begins::of(&text[mark..]);
                if let Begins::Words(length) = begins {
                    at = mark + length;
                    let brackets = (mark..at).filter(|&at| matches!(bytes[at], b'{' | b'['));
                    let before = found.len();
                    opened.extend(brackets.map(|start| Opened { bracket: bytes[start], start, before }));
                    continue;
                }
                let (mut end, mut was_read_to_the_end) = Matcher::new(text, mark).run();
                // A bracket that closed too much: what goes on as the next member does is a part of it.
                while !was_read_to_the_end && bytes[mark] == b'{' && goes_on(&text[end..]) {
                    (end, was_read_to_the_end) = Matcher::reopened(text, mark, end).run();
                }
                let fit = match begins {
                    Begins::Json if wanted.is_none_or(|bracket| bytes[mark] == bracket) => Fit::Wanted,
                    Begins::Json => Fit::Other,
                    _ => Fit::Broken,
                };
                found.push(Region { text: text[mark..end].trim_end(), start: mark, fit });
                // What is at a fence may have been read to the end of the text, which is not to happen for every fence.
                endless += usize::from(was_read_to_the_end);
                if endless > ENDLESS {
                    break;
                }
                at = end;
            }
        }
    }
    found
}

/// Takes the bracket that a closing one belongs to, with all that was opened in it.
fn closed(opened: &mut Vec<Opened>, closer: u8) -> Option<Opened> {
    let bracket = if closer == b'}' { b'{' } else { b'[' };
    let found = opened.iter().rev().take(NEAR).position(|open| open.bracket == bracket)?;
    opened.truncate(opened.len() - found);
    opened.pop()
}

/// Where the first bracket or backtick at or after `at` is.
fn find_mark(bytes: &[u8], at: usize) -> Option<usize> {
    let found = bytes.get(at..)?.iter().position(|byte| matches!(byte, b'{' | b'[' | b'}' | b']' | b'`'))?;
    Some(at + found)
}

/// Whether another member comes next, behind a comma.
fn goes_on(text: &str) -> bool {
    let member = text.trim_start().strip_prefix(',').map(str::trim_start);
    member.is_some_and(|member| {
        member.starts_with('"')
            && quoted(member).is_some_and(|name| member[name.len() + 2..].trim_start().starts_with(':'))
    })
}

/// Whether a bracket opens in `text`.
fn has_bracket(text: &str) -> bool {
    text.contains(['{', '['])
}

/// What a bracket begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    /// JSON, or what is nearly so.
    Json,
    /// Names with equals signs: code, or what some write in place of JSON.
    Assignments,
    /// Certainly no JSON in so many bytes, in which there may be more brackets.
    Words(usize),
}

impl Begins {
    /// What the bracket at the beginning of `text` begins.
    fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut at = 0;
        loop {
            let bracket = bytes[at];
            let after = at + 1;
            at = after + bytes[after..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let rest = &text[at..];
            match bytes.get(at) {
                None | Some(b'"' | b'\'' | b'/') => return Self::Json,
                Some(b'{' | b'[') if bracket == b'[' => {}
                Some(b'}') if bracket == b'{' => return Self::Json,
                Some(b']') if bracket == b'[' => return Self::Json,
                _ if rest.starts_with(['\u{201c}', '\u{2018}']) => return Self::Json,
                _ if bracket == b'{' => {
                    let name =
                        rest.find(|c: char| !c.is_alphanumeric() && !"_$-".contains(c)).unwrap_or(rest.len());
                    return match rest[name..].trim_start().bytes().next() {
                        Some(b':') if name > 0 => Self::Json,
                        Some(b'=') if name > 0 => Self::Assignments,
                        _ => Self::Words(at),
                    };
                }
                Some(b'0'..=b'9' | b'-' | b'+' | b'.') => return Self::Json,
                Some(_) => {
                    let word = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
                    let is_literal =
                        ["true", "false", "null", "True", "False", "None"].contains(&&rest[..word]);
                    return if is_literal { Self::Json } else { Self::Words(at) };
                }
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

    /// As if the bracket before `at` had not closed the region, which is an object.
    fn reopened(text: &'t str, start: usize, at: usize) -> Self {
        Self { at, open: vec![b'{'], last: b'}', ..Self::new(text, start) }
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
        loop {
            if quote == b'"' {
                self.at = plain_until(self.bytes, self.at);
            }
            match self.bytes.get(self.at) {
                None => return false,
                Some(b'\\') => self.at += 1,
                Some(&byte) if byte == quote => return true,
                Some(_) => {}
            }
            self.at += 1;
        }
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

/// What comes after a model's thoughts, which some servers leave in the text, with the mark before them or without it. After thoughts
/// that do not end comes nothing.
pub(super) fn without_thoughts(text: &str) -> &str {
    let (mut from, mut is_thought) = (0, false);
    for (start, end, is_closing) in marks(text) {
        if !is_thought && has_bracket(&text[from..start]) {
            break;
        }
        is_thought = !is_closing;
        if is_closing {
            from = end;
        }
    }
    if is_thought { "" } else { &text[from..] }
}

/// Where marks of thoughts begin and end, and whether they close.
fn marks(text: &str) -> impl Iterator<Item = (usize, usize, bool)> {
    text.match_indices("think").filter_map(|(at, word)| {
        let after = &text[at + word.len()..];
        let rest = after.strip_prefix("ing").unwrap_or(after).strip_prefix('>')?;
        let before = text[..at].strip_suffix('/');
        let start = before.unwrap_or(&text[..at]).strip_suffix('<')?.len();
        Some((start, text.len() - rest.len(), before.is_some()))
    })
}

/// The part of `text` between brackets that is escaped as in a string: from the first bracket with an escaped quote after it to the
/// last one.
pub(super) fn escaped(text: &str) -> Option<&str> {
    let start = text.match_indices("\\\"").find_map(|(quote, _)| bracket_before(text.as_bytes(), quote))?;
    let end = 1 + text.rfind(['}', ']']).filter(|&end| end > start)?;
    Some(&text[start..end])
}

/// What stands in the JSON strings of `text` that begin with a bracket, behind more quotes perhaps, with the offset of each; of those
/// whose quotes are before `until`.
pub(super) fn strings(text: &str, until: usize) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let begins = move |start: usize| {
        let mut after = bytes[start..].iter().enumerate().take(LEAD);
        let first = after.find(|&(at, &byte)| {
            let is_escaped_blank = b"nrt".contains(&byte) && bytes[start + at - 1] == b'\\';
            !is_escaped_blank && byte != b'"' && byte != b'\\' && !byte.is_ascii_whitespace()
        });
        first.is_some_and(|(_, &byte)| byte == b'{' || byte == b'[')
    };
    let quotes =
        text[..until].match_indices('"').map(|(at, _)| at).filter(|&at| at == 0 || bytes[at - 1] != b'\\');
    let strings = quotes.filter(move |&at| begins(at)).filter_map(|at| Some((at + 1, quoted(&text[at..])?)));
    // What stands between two strings, from the end of one to the beginning of the next, has no quotes in it and ends with no bracket.
    strings.filter(|(_, inside)| {
        let end = inside.trim_end_matches(|c: char| c.is_whitespace() || "\\nrt".contains(c));
        has_bracket(inside) && (inside.contains("\\\"") || end.ends_with(['}', ']']))
    })
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
