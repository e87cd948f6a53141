//! Rewriting of objects and arrays: commas, colons and brackets.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

use super::separators::Separator;
use super::string::begins_hash_comment;
use super::{Mend, Mends, Rewritten};
use crate::tape::{Fault, SyntaxError, pointer_token, unescape};

/// An object or array that is not closed yet.
pub(super) struct Unclosed {
    pub(super) is_object: bool,
    /// Separator of the items so far.
    pub(super) separator: Option<Separator>,
    count: usize,
    /// Offset of the last comma in the output, if no item follows the comma yet.
    pub(super) comma: Option<usize>,
    /// Offset of the current item in the output. An item is an element, or a member with its name.
    item: usize,
    /// Offset of the end of the member's name in the output.
    name_end: usize,
    /// Offset of the comma before the current item in the output. 0 for the first item.
    comma_before: usize,
    /// Values of the members before the current one, as ranges of the output.
    members: HashMap<String, Range<usize>>,
    /// True if the object begins with `{{`.
    is_doubled: bool,
}

pub(super) struct Rewriter<'t> {
    pub(super) text: &'t str,
    pub(super) bytes: &'t [u8],
    pub(super) at: usize,
    pub(super) out: String,
    pub(super) open: Vec<Unclosed>,
    allowed: Mends,
    made: Mends,
    /// True if the text ended inside a scalar or a member.
    pub(super) is_cut: bool,
    /// Number of strings that were read again because they swallowed the rest of the text.
    pub(super) swallowed: usize,
    /// True if an object or array was not closed at the end of the text.
    is_unclosed: bool,
    max_depth: usize,
}

/// Result of reading a value.
pub(super) enum Read {
    /// A complete scalar.
    Value,
    /// The beginning of an object or array.
    Open,
    /// Only the end of the text.
    End,
}

pub(super) fn rewrite(text: &str, mends: Mends, max_depth: usize) -> Result<Rewritten, SyntaxError> {
    let mut rewriter = Rewriter {
        text,
        bytes: text.as_bytes(),
        at: 0,
        out: String::with_capacity(text.len() + 16),
        open: Vec::new(),
        allowed: mends,
        made: Mends(0),
        is_cut: false,
        swallowed: 0,
        is_unclosed: false,
        max_depth,
    };
    match rewriter.document() {
        Ok(()) => Ok(Rewritten {
            text: rewriter.out,
            made: rewriter.made,
            is_cut: rewriter.is_cut,
            is_unclosed: rewriter.is_unclosed,
        }),
        Err(fault) => Err(SyntaxError { offset: rewriter.at, path: rewriter.path(), fault }),
    }
}

impl<'t> Rewriter<'t> {
    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }
}

impl Rewriter<'_> {
    fn document(&mut self) -> Result<(), Fault> {
        let mut wants_value = true;
        while wants_value || !self.open.is_empty() {
            wants_value = if wants_value { self.element()? } else { self.after_value()? };
        }
        self.blanks()?;
        if self.at < self.bytes.len() {
            // Text after a comma belongs to the value and must not be dropped.
            if self.peek() == Some(b',') || !self.may(Mend::TrailingText) {
                return Err(Fault::Trailing);
            }
            self.at = self.bytes.len();
        }
        Ok(())
    }

    /// Reports whether a mend is allowed, and records an allowed mend as applied.
    pub(super) fn may(&mut self, mend: Mend) -> bool {
        let is_allowed = self.allowed.has(mend);
        if is_allowed {
            self.made.add(mend);
        }
        is_allowed
    }

    /// Forgets a mend that was recorded and not applied, unless it was recorded in `before`.
    pub(super) const fn forget(&mut self, mend: Mend, before: Mends) {
        if !before.has(mend) {
            self.made.remove(mend);
        }
    }

    /// Returns the mends that are recorded.
    pub(super) const fn made(&self) -> Mends {
        self.made
    }

    /// Reports whether a mend is allowed, without recording it.
    pub(super) const fn could(&self, mend: Mend) -> bool {
        self.allowed.has(mend)
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn in_object(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_object)
    }

    /// Reports whether no element precedes the current one.
    pub(super) fn is_first(&self) -> bool {
        self.open.last().is_none_or(|open| open.count == 0)
    }

    /// Reads a value. Returns true if another value must follow.
    fn element(&mut self) -> Result<bool, Fault> {
        self.blanks()?;
        let begins = self.out.len();
        if let Some(open) = self.open.last_mut()
            && !open.is_object
        {
            open.item = begins;
        }
        match self.value()? {
            Read::Value => Ok(false),
            Read::Open => self.item(),
            Read::End if self.open.is_empty() => Err(Fault::End),
            Read::End => self.cut_item().map(|()| false),
        }
    }

    /// Begins an object or array.
    pub(super) fn begin(&mut self, is_object: bool) -> Result<Read, Fault> {
        if self.open.len() >= self.max_depth {
            return Err(Fault::Depth { limit: self.max_depth });
        }
        self.out.push(if is_object { '{' } else { '[' });
        self.at += 1;
        let item = self.out.len();
        // A brace cannot begin a member, so a second brace repeats the first.
        let is_doubled = is_object && self.peek() == Some(b'{') && self.may(Mend::DoubledBraces);
        self.at += usize::from(is_doubled);
        self.open.push(Unclosed {
            is_object,
            separator: None,
            count: 0,
            comma: None,
            item,
            name_end: item,
            comma_before: 0,
            members: HashMap::new(),
            is_doubled,
        });
        Ok(Read::Open)
    }

    /// Reads the text after an opening bracket or comma: the start of an element, a name with its
    /// colon, or the end. Returns true if a value must follow.
    pub(super) fn item(&mut self) -> Result<bool, Fault> {
        loop {
            self.blanks()?;
            match self.peek() {
                Some(b',') if self.may(Mend::ExtraComma) => self.at += 1,
                Some(b'.') if self.rest().starts_with("...") => return Err(Fault::Ellipsis),
                Some(b'}' | b']') => {
                    if self.closer()? {
                        return Ok(false);
                    }
                }
                None => {
                    self.close_at_end()?;
                    return Ok(false);
                }
                _ if !self.in_object() => return Ok(true),
                _ => return self.name(),
            }
        }
    }

    /// Reads a name and the colon after the name. Returns true if a value must follow.
    fn name(&mut self) -> Result<bool, Fault> {
        let begins = self.out.len();
        if let Some(open) = self.open.last_mut() {
            (open.item, open.name_end) = (begins, begins);
        }
        self.name_token()?;
        let ends = self.out.len();
        if let Some(open) = self.open.last_mut() {
            open.name_end = ends;
        }
        self.blanks()?;
        match self.peek() {
            Some(b':') => self.at += 1,
            None => return self.cut_item().map(|()| false),
            Some(b'=') if self.rest().starts_with("=>") && self.may(Mend::Arrow) => self.at += 2,
            Some(_) if self.rest().starts_with('\u{ff1a}') && self.may(Mend::WidePunctuation) => {
                self.at += '\u{ff1a}'.len_utf8();
            }
            Some(b'=') if self.may(Mend::Colon) => self.at += 1,
            Some(byte) if b"\"'{[-0123456789tfnTFN".contains(&byte) && self.may(Mend::Colon) => {}
            _ => return Err(Fault::Expected("`:`")),
        }
        self.out.push(':');
        Ok(true)
    }

    pub(super) fn comma(&mut self) {
        self.end_member();
        let place = self.out.len();
        self.out.push(',');
        if let Some(open) = self.open.last_mut() {
            open.comma = Some(place);
            open.count += 1;
            open.comma_before = place;
            (open.item, open.name_end) = (place + 1, place + 1);
        }
    }

    /// Records the member that ends here. Removes the member if an earlier one has the same name
    /// and value; a member with another value stays, and the strict parser refuses the name.
    fn end_member(&mut self) {
        if !self.could(Mend::EqualMember) {
            return;
        }
        let Some(open) = self.open.last_mut().filter(|open| open.is_object) else { return };
        let name = self.out.get(open.item..open.name_end).and_then(|name| {
            name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).and_then(unescape)
        });
        let Some(name) = name else { return };
        let written = &self.out[open.name_end..];
        let value = written.trim_start_matches(|c: char| c == ':' || c.is_ascii_whitespace());
        let start = self.out.len() - value.len();
        let place = start..start + value.trim_end().len();
        if let Some(earlier) = open.members.get(&name) {
            if self.out[earlier.clone()] == self.out[place] {
                self.out.truncate(open.comma_before);
                self.may(Mend::EqualMember);
            }
        } else {
            open.members.insert(name, place);
        }
    }

    /// Handles a closing bracket. Returns true if an object or array was closed, by this bracket or
    /// by a missing one before it.
    pub(super) fn closer(&mut self) -> Result<bool, Fault> {
        let is_object = self.peek() == Some(b'}');
        let Some(open) = self.open.last() else { return Ok(false) };
        if open.is_object == is_object {
            self.at += 1;
            if open.is_doubled {
                if self.peek() != Some(b'}') {
                    return Err(Fault::Expected("`}}`, because the object begins with `{{`"));
                }
                self.at += 1;
            }
            self.close(false)?;
            return Ok(true);
        }
        if self.open.iter().any(|open| open.is_object == is_object) && self.may(Mend::MissingCloser) {
            self.close(false)?;
            return Ok(true);
        }
        if self.may(Mend::StrayCloser) {
            self.at += 1;
            return Ok(false);
        }
        Err(Fault::Expected(if is_object { "`,` or `]`" } else { "`,` or `}`" }))
    }

    pub(super) fn close_at_end(&mut self) -> Result<(), Fault> {
        if !self.may(Mend::MissingCloser) {
            return Err(Fault::End);
        }
        self.is_unclosed = true;
        self.close(true)
    }

    /// Closes the innermost object or array. `is_end` is true at the end of the text.
    pub(super) fn close(&mut self, is_end: bool) -> Result<(), Fault> {
        if self.open.last().is_some_and(|open| open.comma.is_none()) {
            self.end_member();
        }
        let Some(open) = self.open.pop() else { return Ok(()) };
        if let Some(comma) = open.comma {
            // A comma at the end of the text is not a trailing comma, because the item after the
            // comma was cut off.
            let cut = if open.is_object { Mend::CutMember } else { Mend::CutValue };
            self.is_cut |= is_end;
            let is_mended = (is_end && self.may(cut)) || self.may(Mend::TrailingComma);
            if !is_mended {
                return Err(Fault::Expected(if open.is_object {
                    "a name in double quotes"
                } else {
                    "a value"
                }));
            }
            self.out.remove(comma);
        }
        self.out.push(if open.is_object { '}' } else { ']' });
        Ok(())
    }

    /// Removes the item that is cut off at the end of the text, and closes its object or array.
    fn cut_item(&mut self) -> Result<(), Fault> {
        let Some(open) = self.open.last() else { return Err(Fault::End) };
        let item = open.item;
        if open.is_object && item < self.out.len() && !self.may(Mend::CutMember) {
            return Err(Fault::End);
        }
        self.is_cut = true;
        self.out.truncate(item);
        if let Some(open) = self.open.last_mut() {
            open.name_end = item;
        }
        self.close_at_end()
    }

    /// Copies whitespace and removes comments.
    pub(super) fn blanks(&mut self) -> Result<(), Fault> {
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else { return Ok(()) };
            match c {
                ' ' | '\n' | '\r' | '\t' => {
                    self.out.push(c);
                    self.at += 1;
                }
                '/' if rest.starts_with("//") && self.could(Mend::Comment) => {
                    let length = rest.find('\n').unwrap_or(rest.len());
                    self.may(Mend::Comment);
                    self.at += length;
                }
                '/' if rest.starts_with("/*") && self.could(Mend::Comment) => {
                    let Some(end) = rest.find("*/") else {
                        self.at = self.bytes.len();
                        return Err(Fault::End);
                    };
                    self.may(Mend::Comment);
                    self.at += end + 2;
                }
                '#' if begins_hash_comment(rest, 0) && self.may(Mend::Comment) => {
                    self.at += rest.find('\n').unwrap_or(rest.len());
                }
                '<' if rest.starts_with("<!--") && self.could(Mend::Comment) => {
                    let Some(end) = rest.find("-->") else {
                        self.at = self.bytes.len();
                        return Err(Fault::End);
                    };
                    self.may(Mend::Comment);
                    self.at += end + 3;
                }
                c if (c.is_whitespace() || c == '\u{feff}') && self.may(Mend::Blank) => {
                    self.out.push(' ');
                    self.at += c.len_utf8();
                }
                _ => return Ok(()),
            }
        }
    }

    /// Returns the JSON pointer of the current position.
    fn path(&self) -> String {
        let mut path = String::new();
        for open in &self.open {
            if !open.is_object {
                let _ = write!(path, "/{}", open.count);
                continue;
            }
            let name = self.out.get(open.item..open.name_end).unwrap_or_default();
            if let Some(name) =
                name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).and_then(unescape)
            {
                path.push('/');
                path.push_str(&pointer_token(&name));
            }
        }
        path
    }
}
