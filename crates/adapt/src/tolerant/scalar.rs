//! Rewriting of scalars and names.

use std::borrow::Cow;

use super::Mend;
use super::quotes::SEPARATORS;
use super::rewriter::{Read, Rewriter};
use super::string::begins_hash_comment;
use crate::tape::{Fault, number_length};

impl<'t> Rewriter<'t> {
    pub(super) fn value(&mut self) -> Result<Read, Fault> {
        let Some(c) = self.rest().chars().next() else { return Ok(Read::End) };
        match c {
            '{' => return self.begin(true),
            '[' => return self.begin(false),
            '"' => self.string(&['"'], false)?,
            '\'' if self.may(Mend::SingleQuotes) => self.string(&['\''], false)?,
            c if closing_quotes(c).is_some() && self.may(Mend::SmartQuotes) => {
                self.string(closing_quotes(c).unwrap_or_default(), false)?;
            }
            '.' | '\u{2026}' if self.rest().starts_with("...") || c == '\u{2026}' => {
                return Err(Fault::Ellipsis);
            }
            'u' | 'U' if self.rest()[1..].starts_with(['"', '\'']) && self.may(Mend::LiteralForm) => {
                self.at += 1;
                return self.value();
            }
            '0'..='9' | '-' | '+' | '.' => return self.number(),
            c if c.is_alphabetic() || c == '_' || c == '$' => self.word()?,
            _ => return Err(Fault::Expected("a value")),
        }
        Ok(Read::Value)
    }

    /// Rewrites the name of a member.
    pub(super) fn name_token(&mut self) -> Result<(), Fault> {
        let rest = self.rest();
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        // JSON5 allows the identifiers of JavaScript; escapes in them are not supported here.
        // Repair also allows hyphens and leading digits.
        let has_more = self.could(Mend::BareValue);
        let end = rest.find(|c: char| !(is_part(c) || has_more && c == '-')).unwrap_or(rest.len());
        let is_bare = end > 0 && (has_more || !rest.starts_with(|c: char| c.is_numeric()));
        match rest.chars().next() {
            Some('"') => self.quoted_name(),
            Some('\'') if self.may(Mend::SingleQuotes) => self.string(&['\''], true),
            Some('u' | 'U') if rest[1..].starts_with(['"', '\'']) && self.may(Mend::LiteralForm) => {
                self.at += 1;
                self.name_token()
            }
            Some(c) if closing_quotes(c).is_some() && self.may(Mend::SmartQuotes) => {
                self.string(closing_quotes(c).unwrap_or_default(), true)
            }
            Some(_) if is_bare && self.may(Mend::BareName) => {
                let ends_with_quote =
                    rest[end..].strip_prefix('"').is_some_and(|after| after.trim_start().starts_with(':'));
                self.out.push('"');
                self.out.push_str(&self.text[self.at..self.at + end]);
                self.out.push('"');
                self.at += end;
                if ends_with_quote && self.may(Mend::MissingQuote) {
                    self.at += 1;
                }
                Ok(())
            }
            Some(_) => Err(Fault::Expected("a name in double quotes")),
            None => Err(Fault::End),
        }
    }

    /// Rewrites a name in double quotes. If the closing quote is missing, the name ends before its
    /// colon.
    fn quoted_name(&mut self) -> Result<(), Fault> {
        let (start, written) = (self.at, self.out.len());
        self.string(&['"'], true)?;
        if self.is_cut {
            return Ok(());
        }
        let has_colon = self.rest().trim_start().starts_with([':', '=']);
        let inside = &self.text[start + 1..self.at - 1];
        let name = inside.trim_end().strip_suffix(':').map(str::trim_end);
        let is_name = |name: &&str| !name.is_empty() && !name.contains(['"', ':', ',', '\\', '\n']);
        if let Some(name) = name.filter(is_name)
            && !has_colon
            && self.may(Mend::MissingQuote)
        {
            self.out.truncate(written);
            self.out.push('"');
            self.out.push_str(name);
            self.out.push('"');
            self.at = start + 1 + name.len();
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Read, Fault> {
        let token = self.token();
        let strict = number_length(token.as_bytes()).map(|(length, _)| length);
        if strict == Some(token.len()) {
            self.copy(token);
            return Ok(Read::Value);
        }
        if let Some(literal) = of_json5(token)
            && self.could(Mend::NumberForm)
        {
            self.may(Mend::NumberForm);
            self.out.push_str(&literal);
            self.at += token.len();
            return Ok(Read::Value);
        }
        let is_last = self.at + token.len() == self.bytes.len();
        let is_unsaid = token.trim_start_matches(['+', '-']) == "Infinity";
        if is_unsaid {
            return Err(Fault::Expected("a finite number"));
        }
        let is_cut = is_last && token.bytes().all(|byte| b"0123456789+-.eE".contains(&byte));
        if is_cut && self.could(Mend::CutValue) {
            self.may(Mend::CutValue);
            self.is_cut = true;
            self.out.push_str(&token[..strict.unwrap_or_default()]);
            self.at = self.bytes.len();
            return Ok(if strict.is_some() { Read::Value } else { Read::End });
        }
        // Some languages read leading zeros as octal, so the meaning is unclear.
        let is_octal =
            token.trim_start_matches(['+', '-']).bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if is_octal {
            return Err(Fault::Expected("a valid JSON number"));
        }
        self.bare("a valid JSON number")?;
        Ok(Read::Value)
    }

    fn word(&mut self) -> Result<(), Fault> {
        let token = self.token();
        let is_last = self.at + token.len() == self.bytes.len();
        match token {
            "true" | "false" | "null" => {
                self.copy(token);
                return Ok(());
            }
            "Infinity" | "NaN" | "undefined" => {
                return Err(Fault::Expected("a value that JSON can represent"));
            }
            _ => {}
        }
        let python = [("True", "true"), ("False", "false"), ("None", "null")];
        if let Some((_, literal)) = python.iter().find(|(word, _)| *word == token)
            && self.may(Mend::PythonLiteral)
        {
            self.out.push_str(literal);
            self.at += token.len();
            return Ok(());
        }
        let others = [("TRUE", "true"), ("FALSE", "false"), ("NULL", "null"), ("nil", "null")];
        if let Some((_, literal)) = others.iter().find(|(word, _)| *word == token)
            && self.may(Mend::LiteralForm)
        {
            self.out.push_str(literal);
            self.at += token.len();
            return Ok(());
        }
        let whole = ["true", "false", "null"].into_iter().find(|literal| literal.starts_with(token));
        if let Some(literal) = whole
            && is_last
            && self.may(Mend::CutValue)
        {
            self.is_cut = true;
            self.out.push_str(literal);
            self.at += token.len();
            return Ok(());
        }
        self.bare("a value")
    }

    /// Adds quotes around bare text, up to the end of the value.
    fn bare(&mut self, expected: &'static str) -> Result<(), Fault> {
        let rest = self.rest();
        let end = bare_length(rest);
        // In an array, the comma before the value may be a part of a text in quotes.
        let ends_with_quote = (self.in_object() || self.is_first())
            && rest[end..].strip_prefix('"').is_some_and(|after| self.follows_value(after));
        if ends_with_quote && !has_more(&rest[..end]) && self.may(Mend::MissingQuote) {
            self.out.push_str(&serde_json::Value::from(&rest[..end]).to_string());
            self.at += end + 1;
            return Ok(());
        }
        let text = rest[..end].trim_end();
        if !self.in_object() && ["etc", "etc.", "and so on"].contains(&text) {
            return Err(Fault::Ellipsis);
        }
        let is_text = !rest[end..].starts_with(['"', '{', '[']) && !is_code(text) && !has_more(text);
        if !is_text || !self.may(Mend::BareValue) {
            return Err(Fault::Expected(expected));
        }
        self.out.push_str(&serde_json::Value::from(text).to_string());
        self.at += text.len();
        Ok(())
    }

    /// Returns the text up to the next delimiter.
    fn token(&self) -> &'t str {
        let rest = &self.text[self.at..];
        let ends = |&(at, c): &(usize, char)| match c {
            '/' => rest[at + 1..].starts_with(['/', '*']),
            c => c.is_whitespace() || ",;:=\"'{}[]<#\u{ff0c}\u{ff1a}\u{ff1b}".contains(c),
        };
        &rest[..rest.char_indices().find(ends).map_or(rest.len(), |(at, _)| at)]
    }

    fn copy(&mut self, token: &str) {
        self.out.push_str(token);
        self.at += token.len();
    }
}

/// Returns the length of the bare value at the beginning of `text`, which ends before a delimiter or
/// a comment. The slashes of `https://` begin no comment.
fn bare_length(text: &str) -> usize {
    let ends = |&(at, c): &(usize, char)| match c {
        '#' => text[..at].ends_with(char::is_whitespace) && begins_hash_comment(text, at),
        '/' if text[at..].starts_with("//") => text[..at].ends_with(char::is_whitespace),
        '/' => text[at..].starts_with("/*"),
        '<' => text[at..].starts_with("<!--"),
        c => matches!(c, '}' | ']' | '\n' | '"' | '{' | '[') || SEPARATORS.contains(&c),
    };
    text.char_indices().find(ends).map_or(text.len(), |(at, _)| at)
}

/// Reports whether a bare value may contain another member or a comment.
fn has_more(text: &str) -> bool {
    let has_name = text.match_indices([':', '\u{ff1a}', '=']).any(|(at, sign)| {
        let after = &text[at + sign.len()..];
        after.is_empty() || after.starts_with(|c: char| c.is_whitespace() || c == '>')
    });
    has_name || text.match_indices("//").any(|(at, _)| !text[..at].ends_with(':'))
}

/// Reports whether a text without quotes is code or a placeholder: `Decimal('3')`, `<number>`.
fn is_code(text: &str) -> bool {
    let is_call = text.match_indices('(').any(|(at, _)| text[..at].ends_with(|c: char| c.is_alphanumeric()));
    is_call || text.contains(['`', '<', '>'])
}

/// Returns the quotes that end a string that begins with the typographic quote `open`.
pub(crate) const fn closing_quotes(open: char) -> Option<&'static [char]> {
    Some(match open {
        '\u{201c}' | '\u{201d}' => &['\u{201d}'],
        '\u{201e}' => &['\u{201c}', '\u{201d}'],
        '\u{2018}' => &['\u{2019}'],
        '\u{201a}' => &['\u{2018}', '\u{2019}'],
        '\u{ab}' => &['\u{bb}'],
        '\u{bb}' => &['\u{ab}'],
        _ => return None,
    })
}

/// Converts a number to JSON. The number may have the forms of JSON5, and underscores between
/// digits.
fn of_json5(token: &str) -> Option<String> {
    let plain = without_underscores(token)?;
    let token = plain.as_ref();
    let (sign, digits) = match token.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", token.strip_prefix('+').unwrap_or(token)),
    };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        let is_hex = !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        let integer = u128::from_str_radix(hex, 16).ok().filter(|_| is_hex)?;
        return Some(format!("{sign}{integer}"));
    }
    // One sign was removed. The part before an exponent has a digit.
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    if digits.starts_with(['+', '-']) || !mantissa.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let lead = if digits.starts_with('.') { "0" } else { "" };
    let mut literal = format!("{sign}{lead}{digits}");
    if let Some(point) = literal.find('.')
        && !literal[point + 1..].starts_with(|c: char| c.is_ascii_digit())
    {
        literal.insert(point + 1, '0');
    }
    let is_number = number_length(literal.as_bytes()).is_some_and(|(length, _)| length == literal.len());
    is_number.then_some(literal)
}

/// Removes underscores between digits. Returns `None` if an underscore is elsewhere.
fn without_underscores(token: &str) -> Option<Cow<'_, str>> {
    if !token.contains('_') {
        return Some(Cow::Borrowed(token));
    }
    let is_hex = token.trim_start_matches(['+', '-']).starts_with("0x") || token.contains("0X");
    let radix = if is_hex { 16 } else { 10 };
    let is_digit = |part: &str, at: Option<char>| !part.is_empty() && at.is_some_and(|c| c.is_digit(radix));
    let parts: Vec<&str> = token.split('_').collect();
    let joins = parts
        .windows(2)
        .all(|pair| is_digit(pair[0], pair[0].chars().last()) && is_digit(pair[1], pair[1].chars().next()));
    joins.then(|| Cow::Owned(parts.concat()))
}
