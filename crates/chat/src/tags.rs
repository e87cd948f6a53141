use formwork_grammar::{Part, Trigger};
use formwork_vocab::{TokenId, Vocabulary};

/// Text of a template, with control tokens separated from ordinary text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Marked(pub(crate) Vec<Piece>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    Text(String),
    Token(TokenId, String),
}

impl Marked {
    /// Splits `text` at the spellings of control tokens.
    pub(crate) fn new(text: &str, controls: &[(TokenId, String)]) -> Self {
        let mut pieces = Vec::new();
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
        Self(pieces)
    }

    /// Returns the text, including the spellings of control tokens.
    pub(crate) fn text(&self) -> String {
        let spelling = |piece: &Piece| match piece {
            Piece::Text(text) | Piece::Token(_, text) => text.clone(),
        };
        self.0.iter().map(spelling).collect()
    }

    pub(crate) fn part(&self) -> Part {
        let part = |piece: &Piece| match piece {
            Piece::Text(text) => Part::Literal(text.clone()),
            Piece::Token(token, _) => Part::Token(*token),
        };
        Part::Sequence(self.0.iter().map(part).collect())
    }

    /// Returns the trigger that marks the start of this text, and the remaining text.
    ///
    /// If the text starts with a control token, this token is the trigger. Otherwise, the trigger
    /// is the text before the first whitespace or `{`, since models may write whitespace and JSON
    /// in several ways. If the text starts with a tag such as `<tool_call>`, the trigger ends after
    /// the tag at the latest. Returns `None` if the text is empty or starts with whitespace or `{`.
    pub(crate) fn trigger(&self) -> Option<(Trigger, Self)> {
        let (first, rest) = self.0.split_first()?;
        match first {
            Piece::Token(token, _) => Some((Trigger::Token(*token), Self(rest.to_vec()))),
            Piece::Text(text) => {
                let mut end = text.find(|c: char| c.is_whitespace() || c == '{').unwrap_or(text.len());
                if text.starts_with('<') {
                    end = text.find('>').map_or(end, |at| at + 1).min(end);
                }
                if end == 0 {
                    return None;
                }
                let (marker, left) = text.split_at(end);
                let mut rest = rest.to_vec();
                if !left.is_empty() {
                    rest.insert(0, Piece::Text(left.to_owned()));
                }
                Some((Trigger::Text(marker.to_owned()), Self(rest)))
            }
        }
    }
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
