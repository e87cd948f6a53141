//! Search for regions in one pass over the text, with a stack of open brackets.

use super::names::{LONGEST_NAME, Named, begins_separator, names};
use crate::cues::Placed;
use crate::tape::{plain_until, quoted};
use crate::tolerant::{begins_hash_comment, closing_quotes};

/// Beginning of a section of character data in XML, after `<!`. The section is not an array.
const CDATA: &str = "[CDATA[";

/// Literals of JSON and Python.
const LITERALS: [&str; 6] = ["true", "false", "null", "True", "False", "None"];

/// A part of a text that is enclosed in brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region<'t> {
    pub(super) text: &'t str,
    /// Byte offset in the text.
    pub(super) start: usize,
    pub(super) fit: Fit,
    /// True if the region is an object with a property that the schema names. Set by
    /// [`mark_named`].
    pub(super) has_named: bool,
    /// True if the region has all properties that the schema requires as well.
    pub(super) has_required: bool,
    /// True if the region has no end of its own. Then the region ends at a fence or with the text.
    pub(super) is_open: bool,
}

/// Suitability of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// Not JSON. The region contains assignments, or it encloses regions that must not be extracted
    /// on their own.
    Broken,
    /// Possibly JSON, but with a different first bracket than the wanted one.
    Other,
    /// Possibly JSON with the wanted bracket, or any bracket is wanted.
    Wanted,
}

impl<'t> Region<'t> {
    const fn new(text: &'t str, start: usize, fit: Fit) -> Self {
        Self { text, start, fit, has_named: false, has_required: false, is_open: false }
    }

    /// Returns the sort key. The region with the greatest key is extracted.
    pub(super) const fn rank(&self) -> (Fit, bool, usize) {
        (self.fit, self.has_named, self.text.len())
    }
}

impl Placed for Region<'_> {
    fn start(&self) -> usize {
        self.start
    }

    fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// Marks the regions that have some or all of the properties in `named`.
pub(super) fn mark_named(regions: &mut [Region<'_>], named: Named<'_>) {
    for region in regions {
        let mention = named.mention(names(region.text));
        (region.has_named, region.has_required) = (mention.has_any, mention.has_required);
    }
}

/// An open bracket that does not begin JSON.
struct Opened {
    bracket: u8,
    start: usize,
    /// Number of regions found before the bracket.
    before: usize,
}

/// Returns the regions of `text`, ordered and disjoint. Runs in linear time.
///
/// A region begins like JSON and is balanced, or has no end. Regions inside a bracket that is not
/// JSON are merged with that bracket into one broken region.
pub(super) fn regions(text: &str, wanted: Option<u8>) -> Vec<Region<'_>> {
    let bytes = text.as_bytes();
    let (mut found, mut opened) = (Vec::new(), Vec::new());
    let (mut at, mut endless, mut closers) = (0, 0, Closers::default());
    while let Some(mark) = find_mark(bytes, at) {
        at = mark + 1;
        match bytes[mark] {
            // A bracket before a fence does not enclose text after the fence.
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
                    found.push(Region::new(&text[start..at], start, Fit::Broken));
                }
            }
            b'[' if text[..mark].ends_with("<!") && text[mark..].starts_with(CDATA) => {
                at = mark + CDATA.len();
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
                let (mut end, mut kind) = Matcher::new(text, mark, &mut closers).run();
                // An extra closing bracket ended the region too early. If another member or item
                // follows, the region continues.
                while kind == End::Bracket && goes_on(&text[end..], bytes[mark]) {
                    (end, kind) = Matcher::reopened(text, mark, end, &mut closers).run();
                }
                let fit = match begins {
                    Begins::Json if wanted.is_none_or(|bracket| bytes[mark] == bracket) => Fit::Wanted,
                    Begins::Json => Fit::Other,
                    _ => Fit::Broken,
                };
                let region = Region::new(text[mark..end].trim_end(), mark, fit);
                found.push(Region { is_open: kind != End::Bracket, ..region });
                // A region that ends at a fence may have been scanned to the end of the text.
                // Limiting these scans keeps the time linear.
                endless += usize::from(kind == End::Text);
                if endless > ENDLESS {
                    // The rest of the text counts as one broken region, because it may contain the
                    // answer.
                    let rest = text[end..].trim();
                    if !rest.is_empty() {
                        let start = text.len() - text[end..].trim_start().len();
                        found.push(Region { is_open: true, ..Region::new(rest, start, Fit::Broken) });
                    }
                    break;
                }
                at = end;
            }
        }
    }
    found
}

/// Pops the bracket that `closer` closes, and all brackets that were opened inside.
fn closed(opened: &mut Vec<Opened>, closer: u8) -> Option<Opened> {
    let bracket = if closer == b'}' { b'{' } else { b'[' };
    let found = opened.iter().rev().take(NEAR).position(|open| open.bracket == bracket)?;
    opened.truncate(opened.len() - found);
    opened.pop()
}

/// Returns the offset of the first bracket or backtick at or after `at`.
fn find_mark(bytes: &[u8], at: usize) -> Option<usize> {
    let found = bytes.get(at..)?.iter().position(|byte| matches!(byte, b'{' | b'[' | b'}' | b']' | b'`'))?;
    Some(at + found)
}

/// Reports whether `text` continues with a comma, and either another member of an object, or
/// further items of an array and a closing bracket.
fn goes_on(text: &str, bracket: u8) -> bool {
    let rest = text.trim_start().strip_prefix(',');
    rest.map(str::trim_start).is_some_and(|rest| match bracket {
        b'{' => begins_member(rest),
        _ => ends_array(rest),
    })
}

/// Reports whether `text` begins with a name in quotes and a colon, or another separator.
pub(super) fn begins_member(text: &str) -> bool {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return false };
    let is_closing = |c: char| match first {
        '"' | '\'' => c == first,
        _ => closing_quotes(first).is_some_and(|closing| closing.contains(&c)),
    };
    if first.is_ascii_alphanumeric() {
        return false;
    }
    let inside = chars.as_str();
    let end = inside.char_indices().take(LONGEST_NAME).find(|(_, c)| is_closing(*c));
    end.is_some_and(|(end, c)| begins_separator(inside[end + c.len_utf8()..].trim_start()))
}

/// Reports whether `text` is a list of scalars that ends with a closing bracket.
fn ends_array(mut text: &str) -> bool {
    loop {
        let length = match text.strip_prefix('"') {
            Some(_) => quoted(text).map_or(0, |inside| inside.len() + 2),
            None => text
                .find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c))
                .filter(|&end| begins_scalar(&text[..end]))
                .unwrap_or(0),
        };
        let rest = text[length..].trim_start();
        match rest.strip_prefix(',') {
            Some(next) if length > 0 => text = next.trim_start(),
            _ => return length > 0 && rest.starts_with(']'),
        }
    }
}

/// Reports whether `word` is a number or a literal.
fn begins_scalar(word: &str) -> bool {
    LITERALS.contains(&word) || word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
}

/// Kind of text that begins at a bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    /// JSON, or text that is almost JSON.
    Json,
    /// Names with equals signs: code, or a notation that some models write instead of JSON.
    Assignments,
    /// Prose. Holds the number of bytes that are certainly not JSON. These may contain further
    /// brackets.
    Words(usize),
}

impl Begins {
    /// Classifies the text after the bracket at the beginning of `text`.
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
                // Some templates double the braces.
                Some(b'{') if bracket == b'{' && at == after => {}
                Some(b']') if bracket == b'[' => return Self::Json,
                Some(b'u' | b'U') if matches!(bytes.get(at + 1), Some(b'"' | b'\'')) => return Self::Json,
                _ if rest.chars().next().and_then(closing_quotes).is_some() => {
                    return Self::Json;
                }
                _ if bracket == b'{' => {
                    let name =
                        rest.find(|c: char| !c.is_alphanumeric() && !"_$-".contains(c)).unwrap_or(rest.len());
                    return match rest[name..].trim_start().bytes().next() {
                        Some(b':') if name > 0 => Self::Json,
                        Some(0xEF) if name > 0 && rest[name..].trim_start().starts_with('\u{ff1a}') => {
                            Self::Json
                        }
                        Some(b'=') if name > 0 => Self::Assignments,
                        _ => Self::Words(at),
                    };
                }
                Some(b'0'..=b'9' | b'-' | b'+' | b'.') => return Self::Json,
                Some(_) => {
                    let word = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
                    let is_literal = LITERALS.contains(&&rest[..word]);
                    return if is_literal { Self::Json } else { Self::Words(at) };
                }
            }
        }
    }
}

/// Searches for the ends of comments and strings. Remembers which ends no longer occur, so that all
/// searches together take linear time.
#[derive(Default)]
pub(super) struct Closers {
    /// Beginnings of comments and strings that have no end at or after the offset.
    missing: Vec<(char, usize)>,
}

impl Closers {
    /// Returns the length of the comment at `at`, from `//` or `#` to the end of the line, or from
    /// `/*` or `<!--` to its end. Returns `None` if there is no comment or it has no end.
    pub(super) fn comment(&mut self, text: &str, at: usize) -> Option<usize> {
        let rest = &text[at..];
        if rest.starts_with("//") || begins_hash_comment(text, at) {
            self.find('\n', at, || rest.find('\n'))
        } else if rest.starts_with("/*") {
            self.find('*', at, || rest.find("*/")).map(|end| end + 2)
        } else if rest.starts_with("<!--") {
            self.find('<', at, || rest.find("-->")).map(|end| end + 3)
        } else {
            None
        }
    }

    /// Returns the length of the string at `at` up to its closing quote, if the string begins with a
    /// typographic quote.
    fn string(&mut self, text: &str, at: usize) -> Option<usize> {
        let first = text[at..].chars().next()?;
        let closing = closing_quotes(first)?;
        let inside = at + first.len_utf8();
        self.find(first, at, || text[inside..].find(closing)).map(|end| inside - at + end)
    }

    /// Runs a search from `at`, unless an earlier search for the same end found nothing.
    fn find(&mut self, key: char, at: usize, search: impl FnOnce() -> Option<usize>) -> Option<usize> {
        if self.missing.iter().any(|&(missing, from)| missing == key && at >= from) {
            return None;
        }
        let found = search();
        if found.is_none() {
            self.missing.push((key, at));
        }
        found
    }
}

/// End of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The closing bracket.
    Bracket,
    /// A fence that comes before the closing bracket.
    Fence,
    /// A fence or the end of the text. The text was scanned to its end.
    Text,
}

/// Finds the end of a region that begins at a bracket.
struct Matcher<'t, 'c> {
    text: &'t str,
    bytes: &'t [u8],
    start: usize,
    at: usize,
    open: Vec<u8>,
    /// The last byte outside of strings and comments that is not whitespace.
    last: u8,
    closers: &'c mut Closers,
}

impl<'t, 'c> Matcher<'t, 'c> {
    fn new(text: &'t str, start: usize, closers: &'c mut Closers) -> Self {
        Self { text, bytes: text.as_bytes(), start, at: start, open: Vec::new(), last: b'[', closers }
    }

    /// Continues a region after the bracket before `at`, as if that bracket had not closed the
    /// region.
    fn reopened(text: &'t str, start: usize, at: usize, closers: &'c mut Closers) -> Self {
        Self { at, open: vec![text.as_bytes()[start]], last: b',', ..Self::new(text, start, closers) }
    }

    /// Returns the end of the region.
    ///
    /// The region ends after its last bracket. Without such a bracket, the region ends at the next
    /// fence or at the end of the text.
    fn run(mut self) -> (usize, End) {
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'{' | b'[' => self.open.push(byte),
                b'}' | b']' => {
                    self.close(byte);
                    if self.open.is_empty() {
                        return (self.at + 1, End::Bracket);
                    }
                }
                // In JSON, a string follows a bracket, comma or colon. A quote elsewhere is prose
                // or broken JSON.
                b'"' | b'\'' if matches!(self.last, b'{' | b'[' | b',' | b':') && !self.string(byte) => break,
                b'/' if !matches!(self.last, b'/' | b'<') && self.comment() => continue,
                b'#' | b'<' | 0x80.. if self.skip_notation() => continue,
                0xEF if self.text[self.at..].starts_with(['\u{ff0c}', '\u{ff1a}', '\u{ff1b}']) => {
                    self.last = b',';
                    self.at += 3;
                    continue;
                }
                b'\n' if self.bytes[self.at + 1..].starts_with(b"```") => return (self.at, End::Fence),
                _ => {}
            }
            if !byte.is_ascii_whitespace() {
                self.last = byte;
            }
            self.at += 1;
        }
        let fence = self.text[self.start..].find("\n```");
        (fence.map_or(self.text.len(), |fence| self.start + fence), End::Text)
    }

    /// Skips a comment or a string of another notation that begins here. Returns false if there is
    /// none.
    fn skip_notation(&mut self) -> bool {
        if !self.text.is_char_boundary(self.at) {
            return false;
        }
        let length = match self.closers.comment(self.text, self.at) {
            None if matches!(self.last, b'{' | b'[' | b',' | b':') => self.closers.string(self.text, self.at),
            length => length,
        };
        self.at += length.unwrap_or_default();
        length.is_some_and(|length| length > 0)
    }

    /// Closes the matching bracket and all brackets that were opened inside. A stray bracket closes
    /// nothing.
    fn close(&mut self, byte: u8) {
        let opener = if byte == b'}' { b'{' } else { b'[' };
        if self.open.last() == Some(&opener) {
            self.open.pop();
        } else if let Some(found) = self.open.iter().rev().take(NEAR).position(|&open| open == opener) {
            self.open.truncate(self.open.len() - 1 - found);
        }
    }

    /// Advances to the closing quote of a string. Returns false if there is none.
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

    /// Skips a comment. Returns false if no comment begins here.
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

/// Maximum number of quotes, blanks and backslashes before a bracket in a string.
const LEAD: usize = 32;
/// Maximum number of regions without an end.
const ENDLESS: usize = 8;
/// Maximum number of open brackets that are searched for the match of a closing bracket.
const NEAR: usize = 16;

/// Returns the part of `text` that is escaped like a string. The part reaches from the first
/// bracket before an escaped quote to the last closing bracket.
pub(super) fn escaped(text: &str) -> Option<&str> {
    let start = text.match_indices("\\\"").find_map(|(quote, _)| bracket_before(text.as_bytes(), quote))?;
    let end = 1 + text.rfind(['}', ']']).filter(|&end| end > start)?;
    Some(&text[start..end])
}

/// Returns the JSON strings in `text` that begin with a bracket, possibly after further quotes.
/// Each string comes with its offset.
///
/// Only strings whose opening quote is before `until` are returned.
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
    // The text between two strings also looks like a string, but has no escaped quotes and does not
    // end with a bracket.
    strings.filter(|(_, inside)| {
        let end = inside.trim_end_matches(|c: char| c.is_whitespace() || "\\nrt".contains(c));
        inside.contains(['{', '[']) && (inside.contains("\\\"") || end.ends_with(['}', ']']))
    })
}

/// Returns the first of the brackets before an escaped quote. Only brackets and blanks, escaped or
/// not, may be in between.
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

/// Returns the content of the fenced block, if there is exactly one.
pub(super) fn only_block(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("```")?;
    let (first, body) = after.split_once('\n')?;
    let is_info = first.trim().chars().all(char::is_alphanumeric);
    let (block, rest) = body.split_once("```")?;
    (is_info && !rest.contains("```")).then_some(block)
}
