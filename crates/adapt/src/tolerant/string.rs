//! Rewriting of strings: quotes, escapes, and the search for the end.

use super::Mend;
use super::quotes::{Inner, Role, SEPARATORS, UNCLEAR, follows_name};
use super::rewriter::Rewriter;
use super::scalar::closing_quotes;
use crate::tape::Fault;

/// Maximum number of characters after a quote that are inspected to decide whether the quote ends
/// the string.
const AHEAD: usize = 256;

/// Maximum number of strings that are read again because they swallowed the rest of the text.
const SWALLOWED: usize = 8;

/// Maximum number of bytes of a name that the decision about a quote reads.
const NAME_AHEAD: usize = 512;

/// Decisions about a whole string, which a second reading applies.
#[derive(Clone, Copy, Default)]
struct Reading {
    /// True if the string contains backslashes that are plain text, as in paths and LaTeX. Then all
    /// of its backslashes are, except those before a quote or another backslash.
    is_raw: bool,
    /// Offset at which the string ends although its closing quote is missing.
    end: Option<usize>,
    /// Offset of the quote that ends the string, if the text after the quote did not decide so.
    closing: Option<usize>,
}

/// A string with `count` quotes on each side and `length` bytes in between.
struct Repeated {
    count: usize,
    length: usize,
}

/// Result of reading a string once.
enum ReadString {
    Whole,
    /// The text ended inside the string.
    Cut,
    /// The string must be read again.
    Again(Reading),
}

impl Rewriter<'_> {
    /// Rewrites the string that begins here and ends with one of `quotes`.
    pub(super) fn string(&mut self, quotes: &[char], is_name: bool) -> Result<(), Fault> {
        if let Some(repeated) = self.repeated_quotes(is_name) {
            return self.string_in_repeated_quotes(repeated);
        }
        let (start, written, made) = (self.at, self.out.len(), self.made());
        let mut reading = Reading::default();
        loop {
            match self.read_string(quotes, is_name, reading)? {
                ReadString::Whole => return Ok(()),
                ReadString::Again(next) => {
                    self.forget(Mend::InnerQuote, made);
                    self.forget(Mend::StringPieces, made);
                    reading = next;
                    self.at = start;
                    self.out.truncate(written);
                }
                ReadString::Cut => break,
            }
        }
        // A name that is cut off is removed together with its member.
        if !self.may(if is_name { Mend::CutMember } else { Mend::CutValue }) {
            return Err(Fault::End);
        }
        self.is_cut = true;
        self.at = self.bytes.len();
        self.out.push('"');
        Ok(())
    }

    fn read_string(&mut self, quotes: &[char], is_name: bool, reading: Reading) -> Result<ReadString, Fault> {
        let first = self.rest().chars().next().map_or(0, char::len_utf8);
        self.at += first;
        let start = self.at;
        let (mut inner, mut double) = (Inner::default(), Inner::default());
        let opener = self.text[..start].chars().next_back().filter(|c| !quotes.contains(c));
        self.out.push('"');
        loop {
            let rest = &self.text[self.at..reading.end.unwrap_or(self.text.len()).max(self.at)];
            let is_plain =
                |c: char| !quotes.contains(&c) && c != '"' && c != '\\' && c >= ' ' && opener != Some(c);
            let plain = rest.find(|c: char| !is_plain(c)).unwrap_or(rest.len());
            self.out.push_str(&self.text[self.at..self.at + plain]);
            self.at += plain;
            if reading.end.is_some_and(|end| self.at >= end) {
                self.out.push('"');
                return Ok(ReadString::Whole);
            }
            let Some(c) = self.rest().chars().next() else {
                return Ok(self
                    .swallowed(inner.first_unit, reading)
                    .map_or(ReadString::Cut, ReadString::Again));
            };
            match c {
                c if quotes.contains(&c) => {
                    let after = &self.rest()[c.len_utf8()..];
                    let ends = is_name || !self.could(Mend::InnerQuote) || self.ends_string(c);
                    let is_member = !ends && self.in_object() && begins_member(self.rest());
                    let role = inner.role(&self.text[start..self.at], c, after);
                    if is_member && self.could(Mend::MissingQuote) {
                        // A string never continues over the beginning of the next member.
                        let end = start + inner.length_before_member(&self.text[start..self.at])?;
                        self.may(Mend::MissingQuote);
                        return Ok(ReadString::Again(Reading { end: Some(end), ..reading }));
                    }
                    if !ends
                        && let Some(length) = self.next_piece(c, inner)
                        && self.may(Mend::StringPieces)
                    {
                        inner.is_joined = true;
                        self.at += length;
                        continue;
                    }
                    if !ends && follows_name(after) {
                        return Err(UNCLEAR);
                    }
                    // Without an opening quote inside, the quote ends the string.
                    let is_stray = role == Role::Stray
                        || inner.is_joined && !matches!(role, Role::Apostrophe | Role::Genitive);
                    if ends || is_stray || reading.closing == Some(self.at) {
                        inner.check_end()?;
                        self.at += c.len_utf8();
                        self.out.push('"');
                        return Ok(ReadString::Whole);
                    }
                    inner.record(role, self.at, false);
                    self.may(Mend::InnerQuote);
                    if c == '"' {
                        self.out.push('\\');
                    }
                    self.out.push(c);
                    self.at += c.len_utf8();
                }
                c if opener == Some(c) => {
                    inner.opened();
                    self.out.push(c);
                    self.at += c.len_utf8();
                }
                '"' => {
                    // In a string with other quotes, the quote may end the string by mistake.
                    let (before, after) = (&self.text[start..self.at], &self.rest()[1..]);
                    let role = double.role(before, '"', after);
                    let next = without_blanks(after).strip_prefix(SEPARATORS).map(without_blanks);
                    if matches!(role, Role::Stray | Role::Unit)
                        && self.in_object()
                        && next.is_some_and(begins_member)
                    {
                        return Err(UNCLEAR);
                    }
                    double.record(role, self.at, false);
                    self.out.push_str("\\\"");
                    self.at += 1;
                }
                '\\' if reading.is_raw => {
                    self.escaped_quote(start, quotes, &mut inner);
                    self.raw_backslash(start, quotes)?;
                }
                '\\' if self.is_plain_backslash() && self.may(Mend::Backslash) => {
                    return Ok(ReadString::Again(Reading { is_raw: true, ..reading }));
                }
                '\\' => {
                    self.escaped_quote(start, quotes, &mut inner);
                    if !self.escape()? {
                        return Ok(ReadString::Cut);
                    }
                }
                control if self.may(Mend::ControlCharacter) => {
                    self.control(control);
                    self.at += 1;
                }
                _ => return Err(Fault::Control),
            }
        }
    }

    /// Records the escaped quote here, if there is one.
    fn escaped_quote(&self, start: usize, quotes: &[char], inner: &mut Inner) {
        let escaped = &self.rest()[1..];
        let Some(quote) = escaped.chars().next().filter(|c| quotes.contains(c)) else { return };
        let after = &escaped[quote.len_utf8()..];
        inner.record(inner.role(&self.text[start..self.at], quote, after), self.at, true);
        inner.may_end_earlier |= self.could(Mend::InnerQuote) && self.follows_value(after);
    }

    /// Returns the reading of a string that has no end, if the string would swallow the rest of a
    /// value: then the quote at `inner`, which was taken for a unit, ends the string.
    fn swallowed(&mut self, inner: Option<usize>, reading: Reading) -> Option<Reading> {
        let inner = inner.filter(|_| reading.closing.is_none())?;
        if self.swallowed >= SWALLOWED || !self.text[inner..].contains(['}', ']']) {
            return None;
        }
        self.swallowed += 1;
        Some(Reading { closing: Some(inner), ..reading })
    }

    /// Returns the length from the quote here to the text of the next piece of the string, if one
    /// follows: `"a" + "b"`, or a last piece as in `"a" "b"` in an object. In an array, a comma may
    /// be missing. Pieces have no quotes inside.
    fn next_piece(&self, quote: char, inner: Inner) -> Option<usize> {
        if !inner.can_be_joined() {
            return None;
        }
        let rest = self.rest();
        let after = &rest[quote.len_utf8()..];
        let next = without_blanks(after);
        let plus = next.strip_prefix('+').map(without_blanks);
        let next = plus.or_else(|| Some(next).filter(|next| self.in_object() && next.len() < after.len()))?;
        let inside = next.strip_prefix(quote)?;
        let end = inside.char_indices().take(AHEAD).find(|(_, c)| *c == quote || *c == '\n')?;
        let ends = inside[end.0..].strip_prefix(quote)?;
        let following = without_blanks(ends).chars().next();
        let is_last = following.is_none_or(|c| matches!(c, '}' | ']') || SEPARATORS.contains(&c));
        let is_piece = match plus {
            Some(_) => following == Some('+') || self.follows_value(ends),
            None => is_last && self.follows_value(ends),
        };
        is_piece.then(|| rest.len() - inside.len())
    }

    /// Returns the extent of the string here if it has three or two quotes on each side.
    fn repeated_quotes(&mut self, is_name: bool) -> Option<Repeated> {
        let rest = self.rest();
        let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let count = rest.chars().take(4).take_while(|c| *c == quote).count();
        let inside = &rest[count..];
        match count {
            3 => {
                let length = inside.find(&rest[..3])?;
                self.may(Mend::TripleQuotes).then_some(Repeated { count, length })
            }
            // Two quotes alone are an empty string.
            2 if inside.starts_with(|c: char| c.is_alphanumeric() || c == '_') => {
                let length = inside.find(quote)?;
                let after = inside[length..].strip_prefix(&rest[..2])?;
                let ends =
                    if is_name { without_blanks(after).starts_with(':') } else { self.follows_value(after) };
                (ends && self.may(Mend::DoubledQuotes)).then_some(Repeated { count, length })
            }
            _ => None,
        }
    }

    /// Rewrites a string with several quotes on each side.
    ///
    /// # Errors
    /// Returns an error if the string contains a backslash, because it could be an escape or text.
    fn string_in_repeated_quotes(&mut self, Repeated { count, length }: Repeated) -> Result<(), Fault> {
        let inside = &self.rest()[count..count + length];
        if inside.contains('\\') {
            return Err(Fault::Escape);
        }
        self.out.push_str(&serde_json::Value::from(inside).to_string());
        self.at += length + 2 * count;
        Ok(())
    }

    /// Reports whether the quote here ends its string, judged by the text after the quote.
    fn ends_string(&self, quote: char) -> bool {
        let after = &self.rest()[quote.len_utf8()..];
        if let Some(next) = after.strip_prefix(quote) {
            // Of two adjacent quotes, the second ends the string if the text after it allows that.
            return !self.follows_value(next);
        }
        self.follows_value(after)
    }

    /// Reports whether the beginning of `after` is plausible after the end of a value.
    pub(super) fn follows_value(&self, after: &str) -> bool {
        let next = without_blanks(after);
        let skipped = &after[..after.len() - next.len()];
        let is_apart = !skipped.is_empty();
        // A line break is more likely after a string than inside one.
        if skipped.contains('\n') {
            return true;
        }
        let in_object = self.in_object();
        match next.chars().next() {
            None | Some('}' | ']') => true,
            Some(separator) if SEPARATORS.contains(&separator) => {
                let after = &next[separator.len_utf8()..];
                let item = without_blanks(after);
                if after[..after.len() - item.len()].contains('\n') || item.starts_with("...") {
                    return true;
                }
                match item.chars().next() {
                    // A comma inside a text is followed by words more often than by a quote.
                    Some('"' | '\'') => !in_object || begins_member(item),
                    None | Some('}' | ']' | ',') => true,
                    Some('{' | '[' | '-' | '0'..='9') => !in_object,
                    Some(_) if in_object => begins_member(item),
                    Some(_) => ["true", "false", "null", "True", "False", "None"]
                        .iter()
                        .any(|word| item.starts_with(word)),
                }
            }
            // The comma may be missing.
            Some('"' | '\'') if in_object => is_apart && begins_member(next),
            Some('"' | '{' | '[') => is_apart && !in_object,
            Some(_) if in_object => is_apart && begins_member(next),
            Some(_) => false,
        }
    }
}

/// Returns the part of `text` after whitespace and comments at its beginning. At most [`AHEAD`]
/// characters are skipped.
pub(super) fn without_blanks(text: &str) -> &str {
    let window = text.char_indices().nth(AHEAD).map_or(text, |(end, _)| &text[..end]);
    let mut rest = window;
    loop {
        let next = rest.trim_start();
        rest = if next.starts_with("//") || begins_hash_comment(text, window.len() - next.len()) {
            next.find('\n').map_or("", |end| &next[end..])
        } else if let Some(comment) = next.strip_prefix("/*") {
            comment.find("*/").map_or("", |end| &comment[end + 2..])
        } else if let Some(comment) = next.strip_prefix("<!--") {
            comment.find("-->").map_or("", |end| &comment[end + 3..])
        } else {
            return &text[window.len() - next.len()..];
        };
    }
}

/// Reports whether a comment begins with `#` at byte `at` of `text`. Whitespace or an exclamation
/// mark must follow, because `#name` may be a value.
pub(crate) fn begins_hash_comment(text: &str, at: usize) -> bool {
    text[at..]
        .strip_prefix('#')
        .is_some_and(|after| after.chars().next().is_none_or(|c| c.is_whitespace() || c == '!'))
}

/// Reports whether a name without a closing quote begins here, with a colon and a string after the
/// name.
fn lacks_closing_quote(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_alphanumeric() && !"_$-".contains(c)).unwrap_or(text.len());
    let value = text[end..].strip_prefix(':').map(|value| value.trim_start_matches([' ', '\t']));
    end > 0 && value.is_some_and(|value| value.starts_with('"'))
}

/// Reports whether `text` begins with a name and a colon. A quote of the name may be missing.
pub(super) fn begins_member(text: &str) -> bool {
    let prefixed = text.strip_prefix(['u', 'U']).filter(|rest| rest.starts_with(['"', '\'']));
    let text = prefixed.unwrap_or(text);
    let first = text.chars().next();
    let quotes = match first {
        Some('"') => Some(&['"'][..]),
        Some('\'') => Some(&['\''][..]),
        first => first.and_then(closing_quotes),
    };
    let after = if let Some(quotes) = quotes {
        let inside = &text[first.map_or(0, char::len_utf8)..];
        if first == Some('"') && lacks_closing_quote(inside) {
            return true;
        }
        // A name has no line break, and does not contain the text between two strings.
        let end = inside
            .char_indices()
            .take_while(|(at, _)| *at < NAME_AHEAD)
            .find(|(_, c)| quotes.contains(c) || matches!(c, '\n' | ':' | ','));
        end.map(|(at, _)| &inside[at..])
            .filter(|after| after.starts_with(quotes))
            .map(|after| after.trim_start_matches(quotes))
    } else {
        let end = text.find(|c: char| !c.is_alphanumeric() && !"_$-".contains(c)).unwrap_or(text.len());
        // The opening quote may be missing.
        (end > 0).then(|| text[end..].strip_prefix('"').unwrap_or(&text[end..]))
    };
    after.is_some_and(|after| {
        let after = after.trim_start();
        after.starts_with([':', '\u{ff1a}']) || after.starts_with("=>")
    })
}
