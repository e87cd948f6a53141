//! Token terminals: positions of a grammar that match one token, whatever the token's text is.
//!
//! `<[7]>` matches the token with id 7, `<think>` the token with this text, and `!<…>` any other
//! token.
//!
//! A grammar is compiled without a vocabulary, and its automata read bytes. The automata therefore
//! spell each terminal as two bytes ([`spelling`]). The first byte of a spelling never occurs in
//! UTF-8, so a spelling cannot be confused with text. Text that contains such a byte is rejected.
//!
//! A terminal never matches a token that ends generation, because generation would end inside the
//! grammar. A terminal that names such a token is refused once the vocabulary is known, even at the
//! end of the grammar. Every output ends with such a token anyway. `!<…>` excludes these tokens and unused ids.

use std::fmt;

use formwork_vocab::{TokenId, TokenKind, TokenSet, Vocabulary};

use crate::error::Kind;
use crate::{ByteSet, GrammarError};

/// A terminal that matches tokens.
#[derive(Clone, Debug)]
pub(crate) struct TokenTerminal {
    /// True if the terminal matches all tokens except the named one.
    pub(crate) negated: bool,
    pub(crate) token: NamedToken,
    /// First occurrence in the source; `None` if the source is neither GBNF nor Lark.
    pub(crate) origin: Option<Origin>,
}

/// A rule, and its line in the GBNF or Lark source. The line is 0 if there is no such source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    pub(crate) rule: String,
    pub(crate) line: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "`{}`", self.rule),
            line => write!(f, "`{}` (line {line})", self.rule),
        }
    }
}

impl TokenTerminal {
    /// Reports whether both terminals match the same tokens, regardless of their places.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.negated, &self.token) == (other.negated, &other.token)
    }
}

/// The token that a terminal names.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum NamedToken {
    Id(u32),
    /// The token's text, including the angle brackets.
    Text(String),
}

impl fmt::Display for TokenTerminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.negated { "!" } else { "" })?;
        match &self.token {
            NamedToken::Id(id) => write!(f, "<[{id}]>"),
            NamedToken::Text(text) => f.write_str(text),
        }
    }
}

/// The smallest of the eight first bytes of spellings. None of the eight occurs in UTF-8.
const LEAD: u8 = 0xf8;

/// The bytes that text may contain.
pub(crate) const TEXT: ByteSet = ByteSet::below(LEAD);

/// Maximum number of terminals of a grammar: the number of different spellings.
pub(crate) const TERMINALS: usize = (u8::MAX - LEAD + 1) as usize * 256;

/// Returns the spelling of the terminal with this index in `Grammar::token_terminals`.
pub(crate) const fn spelling(index: usize) -> [u8; 2] {
    [LEAD + (index / 256) as u8, (index % 256) as u8]
}

/// Reports whether `byte` is the first byte of a spelling.
pub(crate) const fn is_lead(byte: u8) -> bool {
    byte >= LEAD
}

/// Returns the index of the terminal with this spelling, or `None` if `lead` begins no spelling.
pub(crate) fn spelt([lead, rest]: [u8; 2]) -> Option<usize> {
    Some(usize::from(lead.checked_sub(LEAD)?) * 256 + usize::from(rest))
}

/// Replaces each spelling in `output` with the GBNF notation of its terminal, for example `<[7]>`.
pub(crate) fn readable(output: Vec<u8>, terminals: &[TokenTerminal]) -> Vec<u8> {
    if terminals.is_empty() {
        return output;
    }
    let mut text = Vec::with_capacity(output.len());
    let mut rest = output.as_slice();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let terminal = rest.first().and_then(|&second| terminals.get(spelt([byte, second])?));
        match terminal {
            Some(terminal) => {
                text.extend(terminal.to_string().into_bytes());
                rest = &rest[1..];
            }
            None => text.push(byte),
        }
    }
    text
}

/// The tokens of one vocabulary that the terminals of a grammar match.
#[derive(Default)]
pub(crate) struct TokenEdges {
    sets: Vec<TokenSet>,
}

impl TokenEdges {
    /// Finds the tokens of `vocabulary` that each terminal matches.
    ///
    /// # Errors
    /// Returns an error if a terminal matches no token, or names a token that ends generation.
    pub(crate) fn new(terminals: &[TokenTerminal], vocabulary: &Vocabulary) -> Result<Self, GrammarError> {
        let mut sets = Vec::with_capacity(terminals.len());
        for terminal in terminals {
            let mut named = vocabulary.empty_set();
            match &terminal.token {
                NamedToken::Id(id) if (*id as usize) < vocabulary.len() => named.insert(TokenId(*id)),
                NamedToken::Id(_) => {}
                NamedToken::Text(text) => {
                    let same = |token: &TokenId| vocabulary.bytes(*token) == text.as_bytes();
                    vocabulary.ids().filter(same).for_each(|token| named.insert(token));
                }
            }
            if named.is_empty() {
                return Err(Kind::NoToken { terminal: terminal.to_string() }.into());
            }
            if !terminal.negated && named.iter().any(|token| vocabulary.is_end(token)) {
                let (place, terminal) = (terminal.origin.clone(), terminal.to_string());
                return Err(Kind::EndToken { terminal, place }.into());
            }
            if terminal.negated {
                let mut others = vocabulary.empty_set();
                let is_other = |token: &TokenId| {
                    let is_used = vocabulary.kind(*token) != TokenKind::Unused;
                    is_used && !named.contains(*token) && !vocabulary.is_end(*token)
                };
                vocabulary.ids().filter(is_other).for_each(|token| others.insert(token));
                if others.is_empty() {
                    return Err(Kind::NoToken { terminal: terminal.to_string() }.into());
                }
                named = others;
            }
            sets.push(named);
        }
        Ok(Self { sets })
    }

    /// Returns the size of the sets, in bytes.
    pub(crate) fn byte_len(&self) -> usize {
        self.sets.iter().map(TokenSet::byte_len).sum()
    }

    /// Returns `(index, tokens)` for each terminal.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &TokenSet)> {
        self.sets.iter().enumerate()
    }

    /// Returns the tokens of the terminal with this index, or `None` if there is no such terminal.
    pub(crate) fn tokens(&self, index: usize) -> Option<&TokenSet> {
        self.sets.get(index)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }
}
