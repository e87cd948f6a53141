//! Progress of the reasoning at the start of an output.

use formwork_vocab::{TokenId, Vocabulary};

use crate::Reasoning;

/// Counts the tokens of the reasoning until it ends.
pub(crate) struct Thinking {
    bound: Reasoning,
    /// Bytes of `close` if it is ordinary text, which other tokens may spell as well.
    spelling: Option<Vec<u8>>,
    tokens: usize,
    is_over: bool,
}

impl Thinking {
    pub(crate) fn new(bound: Reasoning, vocabulary: &Vocabulary) -> Self {
        let is_text = bound.close.iter().all(|&token| vocabulary.kind(token).is_text());
        let spell = || bound.close.iter().flat_map(|&token| vocabulary.bytes(token)).copied().collect();
        let spelling = is_text.then(spell);
        Self { bound, spelling, tokens: 0, is_over: false }
    }

    /// Returns the number of reasoning tokens so far, without the end marker.
    pub(crate) const fn tokens(&self) -> usize {
        self.tokens
    }

    /// Records the last token of `output`.
    pub(crate) fn note(&mut self, output: &[TokenId], vocabulary: &Vocabulary) {
        if self.is_over {
            return;
        }
        self.tokens += 1;
        if let Some(end) = self.end(output, vocabulary) {
            self.tokens -= end;
            self.is_over = true;
        }
    }

    /// Returns the number of tokens that belong to the end marker, if the last token of `output`
    /// completed it.
    ///
    /// Counts only tokens that lie entirely inside the marker.
    fn end(&self, output: &[TokenId], vocabulary: &Vocabulary) -> Option<usize> {
        if output.ends_with(&self.bound.close) {
            return Some(self.bound.close.len());
        }
        let spelling = self.spelling.as_ref().filter(|spelling| !spelling.is_empty())?;
        let (&last, before) = output.split_last().filter(|(last, _)| vocabulary.kind(**last).is_text())?;
        let mut text = tail(before, spelling.len() - 1, vocabulary);
        // Only searches for markers that the last token completed; earlier ones were found before.
        let first = (text.len() + 1).saturating_sub(spelling.len());
        text.extend_from_slice(vocabulary.bytes(last));
        let at = first + text[first..].windows(spelling.len()).position(|text| text == spelling)?;
        let mut start = text.len();
        let is_in_end = |token: &&TokenId| {
            let before = start.checked_sub(vocabulary.bytes(**token).len()).filter(|&before| before >= at);
            start = before.unwrap_or(start);
            before.is_some()
        };
        Some(output.iter().rev().take_while(is_in_end).count())
    }

    /// Returns the tokens that must end the reasoning, if its budget is used up.
    ///
    /// If `output` already ends with the start of the marker, returns the rest of the marker.
    pub(crate) fn due(&self, output: &[TokenId], vocabulary: &Vocabulary) -> Option<Vec<TokenId>> {
        if self.is_over || self.tokens < self.bound.budget {
            return None;
        }
        let close = &self.bound.close;
        let text = self.spelling.as_ref().map(|spelling| tail(output, spelling.len(), vocabulary));
        let has_begun = |&len: &usize| match &text {
            Some(text) => {
                let begun: Vec<u8> =
                    close[..len].iter().flat_map(|&token| vocabulary.bytes(token)).copied().collect();
                text.ends_with(&begun)
            }
            None => output.ends_with(&close[..len]),
        };
        let begun = (0..close.len()).rev().find(has_begun);
        Some(close[begun.unwrap_or(0)..].to_vec())
    }
}

/// Returns the text at the end of an output: at least `bytes` bytes, unless the output or the text
/// since the last control token is shorter.
fn tail(output: &[TokenId], bytes: usize, vocabulary: &Vocabulary) -> Vec<u8> {
    let mut text = Vec::new();
    for &token in output.iter().rev().take_while(|&&token| vocabulary.kind(token).is_text()) {
        if text.len() >= bytes {
            break;
        }
        text.splice(..0, vocabulary.bytes(token).iter().copied());
    }
    text
}

#[cfg(test)]
mod tests {
    use formwork_vocab::{Token, TokenKind};

    use super::*;

    fn tokens(ids: &[u32]) -> Vec<TokenId> {
        ids.iter().copied().map(TokenId).collect()
    }

    /// Creates a vocabulary of bytes and some longer tokens. Three of the bytes are control tokens;
    /// one of these is spelt like the end marker.
    fn vocabulary() -> Vocabulary {
        let token = |bytes: &[u8], kind| Token { bytes: bytes.to_vec(), kind };
        let bytes = (0..=255u8).map(|byte| match byte {
            7 => token(b"</end>", TokenKind::Control),
            8 | 9 => token(&[byte], TokenKind::Control),
            _ => token(&[byte], TokenKind::Text),
        });
        let longer = [".</", "end", "</e", ">!"].map(|text| token(text.as_bytes(), TokenKind::Text));
        Vocabulary::new(bytes.chain(longer).collect(), vec![]).unwrap()
    }

    /// Returns the tokens due after each prefix of `output`, and the final number of reasoning
    /// tokens.
    fn follow(budget: usize, close: &[u32], output: &[u32]) -> (Vec<Option<Vec<TokenId>>>, usize) {
        let vocabulary = vocabulary();
        let mut thinking = Thinking::new(Reasoning { budget, close: tokens(close) }, &vocabulary);
        let output = tokens(output);
        let mut due = vec![thinking.due(&[], &vocabulary)];
        for len in 1..=output.len() {
            thinking.note(&output[..len], &vocabulary);
            due.push(thinking.due(&output[..len], &vocabulary));
        }
        (due, thinking.tokens())
    }

    #[test]
    fn the_end_is_due_when_the_budget_is_used_up() {
        assert_eq!(follow(2, &[9], &[1, 2]), (vec![None, None, Some(tokens(&[9]))], 2));
        assert_eq!(follow(0, &[8, 9], &[]), (vec![Some(tokens(&[8, 9]))], 0));
    }

    #[test]
    fn completes_a_started_end_marker() {
        let (due, _) = follow(2, &[8, 9], &[1, 8]);
        assert_eq!(due[2], Some(tokens(&[9])));
        let (due, _) = follow(3, &[8, 8, 9], &[8, 8, 8]);
        assert_eq!(due[3], Some(tokens(&[9])));
    }

    /// Checks several tokenizations of the marker.
    #[test]
    fn recognizes_a_text_end_marker_by_its_bytes() {
        let close: Vec<u32> = "</end>".bytes().map(u32::from).collect();
        let (dot, end, begun, over) = (256, 257, 258, 259);
        for (output, expected) in [
            (vec![1, dot, end, 62], 2),
            (vec![1, begun, 110, 100, over], 1),
            (vec![1, 60, 47, end, 62], 1),
            (vec![dot, end, over], 1),
        ] {
            let (due, count) = follow(2, &close, &output);
            assert_eq!((due.last().unwrap(), count), (&None, expected), "{output:?}");
        }
        // Text spelt like a control token does not end the reasoning, and a control token is not
        // text.
        assert!(follow(1, &[8], &[1, 8, 1]).0[3].is_none());
        assert!(follow(1, &close, &[60, 47, 8, end, 62]).0[5].is_some());
        assert!(follow(1, &close, &[1, 7]).0[2].is_some());
        // If the marker has begun, the rest of it is due.
        assert_eq!(follow(2, &close, &[1, dot, end]).0[3], Some(tokens(&[62])));
        assert_eq!(follow(2, &close, &[1, 2, begun]).0[3], Some(tokens(&close[3..])));
    }

    #[test]
    fn nothing_is_due_after_the_end() {
        let (due, count) = follow(2, &[8, 9], &[1, 8, 9, 5, 5]);
        assert_eq!((&due[3..], count), (&[None, None, None][..], 1));
    }
}
