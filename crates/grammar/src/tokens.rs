//! Token terminals: places of a grammar where one token stands, whatever its text is.
//!
//! `<[7]>` is the token with id 7, `<think>` the one whose text is that, `!<…>` any other. A grammar is compiled before a
//! vocabulary is known, and its automata are over bytes, so each terminal is spelt there as two bytes of which the first is
//! found in no UTF-8 ([`spelling`]). Only here are tokens turned into these bytes: a token's own text never contains the
//! first, or is not taken if it does.
//!
//! No terminal stands for a token that ends generation, since generation would stop there, inside the
//! grammar. A terminal that names such a token is refused once the vocabulary is known. That holds at the
//! very end of a grammar too: an output ends with such a token anyway. `!<…>` never stands for one.

use std::fmt;

use formwork_vocab::{TokenId, TokenSet, Vocabulary};

use crate::error::Kind;
use crate::{ByteSet, GrammarError};

/// A terminal that stands for a token.
#[derive(Clone, Debug)]
pub(crate) struct TokenTerminal {
    /// Whether it stands for all tokens but this.
    pub(crate) negated: bool,
    pub(crate) token: NamedToken,
    /// Where it was written first, if it was.
    pub(crate) origin: Option<Origin>,
}

/// A rule, and a line of the GBNF source; 0 where it has none.
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
    /// Whether both stand for the same tokens, wherever they are written.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.negated, &self.token) == (other.negated, &other.token)
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum NamedToken {
    Id(u32),
    /// By the token's text, with the angle brackets.
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

/// The least of the eight bytes that no UTF-8 has and that spellings begin with.
const LEAD: u8 = 0xf8;

/// The bytes that text may have.
pub(crate) const TEXT: ByteSet = ByteSet::below(LEAD);

/// The number of spellings.
pub(crate) const TERMINALS: usize = (u8::MAX - LEAD + 1) as usize * 256;

/// How a grammar's automata spell the terminal with an index.
pub(crate) const fn spelling(index: usize) -> [u8; 2] {
    [LEAD + (index / 256) as u8, (index % 256) as u8]
}

/// Whether a spelling begins with `byte`.
pub(crate) const fn is_lead(byte: u8) -> bool {
    byte >= LEAD
}

/// The terminal that is spelt so.
pub(crate) fn spelt([lead, rest]: [u8; 2]) -> Option<usize> {
    Some(usize::from(lead.checked_sub(LEAD)?) * 256 + usize::from(rest))
}

/// The output with the notation of each terminal in place of its spelling.
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

/// The tokens that the terminals of a grammar stand for in some vocabulary.
#[derive(Default)]
pub(crate) struct TokenEdges {
    sets: Vec<TokenSet>,
}

impl TokenEdges {
    /// Looks the terminals up.
    ///
    /// # Errors
    /// When there is no such token, or it ends generation.
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
                let is_other = |token: &TokenId| !named.contains(*token) && !vocabulary.is_end(*token);
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

    /// Bytes of memory.
    pub(crate) fn byte_len(&self) -> usize {
        self.sets.iter().map(TokenSet::byte_len).sum()
    }

    /// All terminals, by index, with their tokens.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &TokenSet)> {
        self.sets.iter().enumerate()
    }

    /// The tokens of a terminal.
    pub(crate) fn tokens(&self, index: usize) -> Option<&TokenSet> {
        self.sets.get(index)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }
}
