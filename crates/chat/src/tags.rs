use formwork_grammar::{Part, Trigger};
use formwork_vocab::{TokenId, Vocabulary};

/// Text of a template, with control tokens separated from ordinary text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Marked(pub(crate) Vec<Piece>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    Text(String),
    Token(TokenId, String),
    /// A number that counts calls.
    Number,
    /// The id of a call.
    Id,
}

/// Character that stands for a [`Piece::Number`] in a text.
pub(crate) const NUMBER: char = '\u{f0000}';

/// Character that stands for a [`Piece::Id`] in a text.
pub(crate) const ID: char = '\u{f0001}';

/// Maximum length of the number of a call in bytes.
const NUMBER_LEN: usize = 6;

/// Maximum length of the id of a call in bytes.
const ID_LEN: usize = 64;

/// Start of a text compared with a [`Marked`] text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Beginning {
    /// The text starts with the marked text, which takes this number of bytes.
    Whole(usize),
    /// The text ends inside of the marked text.
    Part,
    Different,
}

impl Marked {
    /// Splits `text` at the spellings of control tokens and at placeholders.
    pub(crate) fn new(text: &str, controls: &[(TokenId, String)]) -> Self {
        let mut pieces = Vec::new();
        for part in text.split_inclusive([NUMBER, ID]) {
            Self::push(part.trim_end_matches([NUMBER, ID]), controls, &mut pieces);
            pieces.extend(part.chars().next_back().and_then(|last| match last {
                NUMBER => Some(Piece::Number),
                ID => Some(Piece::Id),
                _ => None,
            }));
        }
        Self(pieces)
    }

    fn push(text: &str, controls: &[(TokenId, String)], pieces: &mut Vec<Piece>) {
        let mut rest = text;
        while !rest.is_empty() {
            let found = controls
                .iter()
                .filter_map(|(token, spelling)| Some((rest.find(spelling.as_str())?, *token, spelling)))
                // The first occurrence; on ties, the longest spelling.
                .min_by_key(|(at, _, spelling)| (*at, usize::MAX - spelling.len()));
            let Some((at, token, spelling)) = found else {
                pieces.push(Piece::Text(rest.to_owned()));
                break;
            };
            if at > 0 {
                pieces.push(Piece::Text(rest[..at].to_owned()));
            }
            pieces.push(Piece::Token(token, spelling.clone()));
            rest = &rest[at + spelling.len()..];
        }
    }

    /// Returns the text, including the spellings of control tokens. Numbers are 0, and ids are nine
    /// zeros.
    pub(crate) fn text(&self) -> String {
        let spelling = |piece: &Piece| match piece {
            Piece::Text(text) | Piece::Token(_, text) => text.clone(),
            Piece::Number => "0".to_owned(),
            Piece::Id => "000000000".to_owned(),
        };
        self.0.iter().map(spelling).collect()
    }

    /// Returns this text with the number `number`.
    pub(crate) fn numbered(&self, number: u32) -> Self {
        let piece = |piece: &Piece| match piece {
            Piece::Number => Piece::Text(number.to_string()),
            piece => piece.clone(),
        };
        Self(self.0.iter().map(piece).collect())
    }

    /// Returns this text without the first `len` bytes of its [text](Self::text), which must end between
    /// two pieces or in a plain text.
    pub(crate) fn without_start(&self, len: usize) -> Self {
        let mut left = len;
        let mut pieces = Vec::new();
        for piece in &self.0 {
            let text = Self(vec![piece.clone()]).text();
            match piece {
                Piece::Text(text) if left < text.len() && text.is_char_boundary(left) => {
                    pieces.push(Piece::Text(text[left..].to_owned()));
                }
                piece if left == 0 => pieces.push(piece.clone()),
                _ => {}
            }
            left = left.saturating_sub(text.len());
        }
        Self(pieces)
    }

    pub(crate) fn has_number(&self) -> bool {
        self.0.contains(&Piece::Number)
    }

    /// Returns this text without white space at its start.
    pub(crate) fn trimmed_start(&self) -> Self {
        let mut pieces = self.0.clone();
        while let Some(Piece::Text(text)) = pieces.first_mut() {
            *text = text.trim_start().to_owned();
            if !text.is_empty() {
                break;
            }
            pieces.remove(0);
        }
        Self(pieces)
    }

    /// Returns this text without white space at its ends.
    pub(crate) fn trimmed(&self) -> Self {
        let mut pieces = self.trimmed_start().0;
        while let Some(Piece::Text(text)) = pieces.last_mut() {
            text.truncate(text.trim_end().len());
            if !text.is_empty() {
                break;
            }
            pieces.pop();
        }
        Self(pieces)
    }

    /// Compares the start of `text` with this text.
    pub(crate) fn begins(&self, text: &str) -> Beginning {
        self.begins_with(text, |text, expected| {
            if text.starts_with(expected) {
                Beginning::Whole(expected.len())
            } else if expected.starts_with(text) {
                Beginning::Part
            } else {
                Beginning::Different
            }
        })
    }

    /// Compares like [`begins`](Self::begins), but white space may differ as in [`begins_loosely`].
    pub(crate) fn begins_loosely(&self, text: &str) -> Beginning {
        self.begins_with(text, begins_loosely)
    }

    fn begins_with(&self, text: &str, begins: impl Fn(&str, &str) -> Beginning) -> Beginning {
        let mut at = 0;
        for (place, piece) in self.0.iter().enumerate() {
            let rest = &text[at..];
            let is_id = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
            let len = |belongs: &dyn Fn(&char) -> bool| rest.chars().take_while(|c| belongs(c)).count();
            let (len, most) = match piece {
                Piece::Text(expected) | Piece::Token(_, expected) => match begins(rest, expected) {
                    Beginning::Whole(len) => {
                        at += len;
                        continue;
                    }
                    other => return other,
                },
                Piece::Number => (len(&char::is_ascii_digit), NUMBER_LEN),
                Piece::Id => (len(&is_id), ID_LEN),
            };
            if len == rest.len() && place + 1 < self.0.len() && len <= most {
                return Beginning::Part;
            }
            if len == 0 || len > most {
                return Beginning::Different;
            }
            at += len;
        }
        Beginning::Whole(at)
    }

    /// Finds this text in `text`. Returns its place.
    pub(crate) fn find(&self, text: &str) -> Option<std::ops::Range<usize>> {
        text.char_indices().find_map(|(at, _)| match self.begins(&text[at..]) {
            Beginning::Whole(len) => Some(at..at + len),
            Beginning::Part | Beginning::Different => None,
        })
    }

    /// Returns this text if it consists of control tokens, and the empty text otherwise.
    pub(crate) fn only_tokens(self) -> Self {
        let is_token = |piece: &Piece| matches!(piece, Piece::Token(..));
        if self.0.iter().all(is_token) { self } else { Self::default() }
    }

    pub(crate) fn part(&self) -> Part {
        let part = |piece: &Piece| match piece {
            Piece::Text(text) => Part::Literal(text.clone()),
            Piece::Token(token, _) => Part::Token(*token),
            Piece::Number => Part::Regex(format!("[0-9]{{1,{NUMBER_LEN}}}")),
            Piece::Id => Part::Regex("[A-Za-z0-9]{9}".to_owned()),
        };
        Part::Sequence(self.0.iter().map(part).collect())
    }

    /// Returns the trigger that marks the start of this text, and the remaining text.
    ///
    /// If the text starts with a control token, this token is the trigger. Otherwise, the trigger
    /// is the text before the first whitespace or `{`, since models may write whitespace and JSON
    /// in several ways. If the text starts with a tag such as `<tool_call>`, the trigger ends after
    /// the tag at the latest. Returns `None` if the text is empty or the trigger would be empty or a
    /// bracket.
    pub(crate) fn trigger(&self) -> Option<(Trigger, Self)> {
        let (first, rest) = self.0.split_first()?;
        match first {
            Piece::Token(token, _) => Some((Trigger::Token(*token), Self(rest.to_vec()))),
            Piece::Number | Piece::Id => None,
            Piece::Text(text) => {
                let mut end = text.find(|c: char| c.is_whitespace() || c == '{').unwrap_or(text.len());
                if text.starts_with('<') {
                    end = text.find('>').map_or(end, |at| at + 1).min(end);
                }
                let (marker, left) = text.split_at(end);
                // A bracket may stand in any text.
                if marker.chars().all(|c| matches!(c, '[' | '(')) {
                    return None;
                }
                let mut rest = rest.to_vec();
                if !left.is_empty() {
                    rest.insert(0, Piece::Text(left.to_owned()));
                }
                Some((Trigger::Text(marker.to_owned()), Self(rest)))
            }
        }
    }
}

/// Compares the start of `text` with `expected`, in which white space may be missing. After a tag, `text`
/// may have more white space.
pub(crate) fn begins_loosely(text: &str, expected: &str) -> Beginning {
    let mut rest = text;
    let mut after_tag = false;
    for c in expected.chars() {
        if c.is_whitespace() {
            rest = rest.strip_prefix(c).unwrap_or(rest);
            continue;
        }
        if after_tag {
            rest = rest.trim_start();
        }
        let Some(next) = rest.chars().next() else { return Beginning::Part };
        if next != c {
            return Beginning::Different;
        }
        rest = &rest[c.len_utf8()..];
        after_tag = c == '>';
    }
    Beginning::Whole(text.len() - rest.len())
}

/// Returns the control tokens of a vocabulary with their spellings. Tokens without a spelling are
/// omitted.
pub(crate) fn controls(vocabulary: &Vocabulary) -> Vec<(TokenId, String)> {
    let spelling = |token: TokenId| {
        let text = str::from_utf8(vocabulary.bytes(token)).ok()?;
        (!vocabulary.kind(token).is_text() && !text.is_empty()).then(|| (token, text.to_owned()))
    };
    vocabulary.ids().filter_map(spelling).collect()
}
