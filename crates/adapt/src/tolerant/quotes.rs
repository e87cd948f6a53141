//! Decisions about quotes inside strings.

use super::scalar::closing_quotes;
use super::string::{begins_member, without_blanks};
use crate::tape::Fault;

/// Error of a quote that is neither the end of its string nor clearly a part of the text.
pub(super) const UNCLEAR: Fault = Fault::Expected("`\\\"` for a quote inside a string");

/// English words that begin with an apostrophe.
const CONTRACTIONS: [&str; 6] = ["bout", "cause", "em", "til", "tis", "twas"];

/// Maximum number of characters of a name that lacks both quotes.
const LABEL: usize = 64;

/// Separators of members and elements.
pub(super) const SEPARATORS: [char; 4] = [',', ';', '\u{ff0c}', '\u{ff1b}'];

/// Role of a quote inside a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Opening,
    /// Closes a quote that was opened inside the string.
    Closing,
    /// Closes nothing, and follows a digit: the unit of inches or feet.
    Unit,
    /// Closes nothing.
    Stray,
    Apostrophe,
    /// An apostrophe after `s`, which could also end the string.
    Genitive,
}

/// The quotes seen inside a string so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inner {
    /// Number of opening quotes without a closing quote.
    open: usize,
    /// True if a quote without a backslash is part of the text, except for apostrophes.
    has_any: bool,
    /// Offset of the first of these quotes, if that quote is a unit.
    pub(super) first_unit: Option<usize>,
    /// True if the string was joined from pieces.
    pub(super) is_joined: bool,
    /// True if the text after an escaped quote looks like the text after a string, or if one of the
    /// apostrophes could also end the string.
    pub(super) may_end_earlier: bool,
}

impl Inner {
    /// Returns the role of a quote between the texts `before` and `after` in its string.
    pub(super) fn role(&self, before: &str, quote: char, after: &str) -> Role {
        let (last, next) = (before.chars().next_back(), after.chars().next());
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        if matches!(quote, '\'' | '\u{2018}' | '\u{2019}') {
            let is_inside = is_word(last) && is_word(next);
            let is_genitive = self.open == 0
                && last == Some('s')
                && after.strip_prefix(' ').is_some_and(|after| after.starts_with(char::is_alphabetic));
            if is_genitive {
                return Role::Genitive;
            }
            if is_inside || !is_word(last) && begins_contraction(after) {
                return Role::Apostrophe;
            }
        }
        let is_opening = match last {
            None => true,
            Some(c) if c.is_whitespace() || "([{<=:".contains(c) => true,
            Some(c) if c.is_alphanumeric() => false,
            Some(_) => is_word(next),
        };
        match last {
            _ if is_opening => Role::Opening,
            _ if self.open > 0 => Role::Closing,
            Some(c) if c.is_numeric() && !precedes_label(after) => Role::Unit,
            _ => Role::Stray,
        }
    }

    /// Records a quote at the offset `at` that is part of the text. `is_escaped` is true if a
    /// backslash precedes the quote.
    pub(super) fn record(&mut self, role: Role, at: usize, is_escaped: bool) {
        match role {
            Role::Apostrophe => return,
            Role::Genitive => {
                self.may_end_earlier = true;
                return;
            }
            Role::Opening => self.open += 1,
            Role::Closing => self.open -= 1,
            Role::Unit | Role::Stray => {}
        }
        if !is_escaped && !self.has_any {
            self.has_any = true;
            self.first_unit = Some(at).filter(|_| role == Role::Unit);
        }
    }

    /// Reports whether the string can be the first piece of a longer string, or another piece.
    pub(super) const fn can_be_joined(self) -> bool {
        !self.has_any && self.open == 0
    }

    /// Records a typographic quote that opens quoted text.
    pub(super) const fn opened(&mut self) {
        self.open += 1;
    }

    /// Checks that a string with these quotes can end here.
    ///
    /// # Errors
    /// Returns an error if one of the quotes, or the quote here, could belong to another string.
    pub(super) const fn check_end(&self) -> Result<(), Fault> {
        if self.has_any && (self.open > 0 || self.may_end_earlier) { Err(UNCLEAR) } else { Ok(()) }
    }

    /// Returns the length of the text of a string whose closing quote is missing. Another member
    /// follows after `inside`.
    ///
    /// # Errors
    /// Returns an error if the other member could be part of the text.
    pub(super) fn length_before_member(&self, inside: &str) -> Result<usize, Fault> {
        let text = inside.trim_end();
        let has_break = inside[text.len()..].contains('\n');
        let stripped = text.strip_suffix(SEPARATORS);
        let text = stripped.unwrap_or(text).trim_end();
        let is_unclear = self.has_any
            || self.is_joined
            || self.may_end_earlier
            || !(has_break || stripped.is_some())
            || text.is_empty()
            || text.ends_with([':', '=', '"', '\'', '`'])
            || text.ends_with(|c| closing_quotes(c).is_some() || c == '\u{2019}')
            || has_unclosed_bracket(text)
            || has_member(text);
        if is_unclear { Err(UNCLEAR) } else { Ok(text.len()) }
    }
}

/// Reports whether the text after a quote shows that the quote ended a name.
pub(super) fn follows_name(after: &str) -> bool {
    without_blanks(after).starts_with([':', '=', '\u{ff1a}'])
}

/// Reports whether a comma and a text with a colon follow a quote, as in `", unit price: `.
fn precedes_label(after: &str) -> bool {
    let Some(label) = without_blanks(after).strip_prefix(SEPARATORS) else { return false };
    let label = label.chars().take(LABEL).take_while(|&c| c != '"' && c != '\n' && !SEPARATORS.contains(&c));
    label.into_iter().any(|c| c == ':' || c == '\u{ff1a}')
}

/// Reports whether a text continues, after an apostrophe, with a word such as `tis` or a decade.
fn begins_contraction(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    let word = &text[..end];
    let is_decade =
        word.len() == 3 && word.ends_with('s') && word.bytes().take(2).all(|c| c.is_ascii_digit());
    is_decade || CONTRACTIONS.iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn has_unclosed_bracket(text: &str) -> bool {
    [('{', '}'), ('[', ']'), ('(', ')')].into_iter().any(|(opener, closer)| {
        let depth = text.chars().fold(0_usize, |depth, c| match c {
            c if c == opener => depth + 1,
            c if c == closer => depth.saturating_sub(1),
            _ => depth,
        });
        depth > 0
    })
}

/// Reports whether a name and a colon follow a separator or a line break in `text`.
fn has_member(text: &str) -> bool {
    let is_separator = |c: char| c == '\n' || SEPARATORS.contains(&c);
    text.split(is_separator).skip(1).any(|part| {
        let part = part.trim_start();
        !part.starts_with(|c: char| c.is_ascii_digit()) && begins_member(part)
    })
}
