//! Conversion of token bytes to text.

use std::collections::VecDeque;

/// Converts bytes to whole characters, and holds back text that may become a stop string.
pub(crate) struct TextStream {
    stops: Vec<String>,
    /// Bytes of an incomplete character.
    bytes: Vec<u8>,
    /// Text that is held back because it may be the start of a stop string.
    held: String,
    /// Number of bytes before the held text.
    shown: usize,
    /// Tokens of the held text.
    tokens: VecDeque<TokenStart>,
}

/// Start of a token in the text.
#[derive(Clone, Copy)]
struct TokenStart {
    /// Number of the token in the output.
    token: usize,
    /// Offset of the token in bytes. Exact only if the bytes are UTF-8, which grammars guarantee.
    at: usize,
}

/// Position in the text: a token number and an offset in bytes into this token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) token: usize,
    pub(crate) bytes: usize,
}

/// Result of pushing new bytes.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// Text to show; may be empty.
    pub(crate) text: String,
    /// Stop string that occurred. No text may be shown afterwards.
    pub(crate) stop: Option<String>,
}

impl TextStream {
    pub(crate) fn new(stops: Vec<String>) -> Self {
        Self { stops, bytes: Vec::new(), held: String::new(), shown: 0, tokens: VecDeque::new() }
    }

    /// Appends the bytes of token number `token`.
    ///
    /// A stop string only counts if `may_stop` returns true for its position, that is, if the
    /// output may end there.
    pub(crate) fn push(&mut self, token: usize, bytes: &[u8], may_stop: impl FnMut(Place) -> bool) -> Piece {
        if !self.stops.is_empty() {
            let at = self.shown + self.held.len() + self.bytes.len();
            self.tokens.push_back(TokenStart { token, at });
        }
        self.bytes.extend_from_slice(bytes);
        let text = take_whole(&mut self.bytes);
        self.held.push_str(&text);
        self.settle(may_stop)
    }

    /// Returns all text that was held back, at the end of the text or before a control token.
    ///
    /// Incomplete characters become U+FFFD.
    pub(crate) fn finish(&mut self) -> String {
        let mut text = std::mem::take(&mut self.held);
        text.push_str(&String::from_utf8_lossy(&self.bytes));
        self.bytes.clear();
        self.tokens.clear();
        self.shown = 0;
        text
    }

    fn settle(&mut self, may_stop: impl FnMut(Place) -> bool) -> Piece {
        if self.stops.is_empty() {
            return Piece { text: std::mem::take(&mut self.held), stop: None };
        }
        if let Some((at, stop)) = self.first_stop(may_stop) {
            let stop = Some(stop.to_owned());
            self.held.truncate(at);
            self.bytes.clear();
            return Piece { text: std::mem::take(&mut self.held), stop };
        }
        let keep = self.possible_start();
        let rest = self.held.split_off(self.held.len() - keep);
        let text = std::mem::replace(&mut self.held, rest);
        self.shown += text.len();
        while self.tokens.get(1).is_some_and(|next| next.at <= self.shown) {
            self.tokens.pop_front();
        }
        Piece { text, stop: None }
    }

    /// Returns the first stop string that counts, with its offset in the held text.
    fn first_stop(&self, mut may_stop: impl FnMut(Place) -> bool) -> Option<(usize, &str)> {
        // Occurrences may overlap: one that does not count must not hide the next.
        let starting = |at: usize| {
            let rest = self.held.get(at..)?;
            let stop = self.stops.iter().find(|stop| rest.starts_with(stop.as_str()))?;
            Some((at, stop.as_str()))
        };
        (0..self.held.len()).filter_map(starting).find(|&(at, _)| may_stop(self.place(at)))
    }

    /// Returns the position of an offset in the held text.
    fn place(&self, offset: usize) -> Place {
        let at = self.shown + offset;
        let token = self.tokens.iter().rev().find(|token| token.at <= at);
        let start = token.copied().unwrap_or(TokenStart { token: 0, at });
        Place { token: start.token, bytes: at - start.at }
    }

    /// Returns the length of the longest suffix of the held text that a stop string starts with.
    fn possible_start(&self) -> usize {
        (0..self.held.len())
            .filter(|&at| self.held.is_char_boundary(at))
            .find(|&at| {
                let end = &self.held[at..];
                self.stops.iter().any(|stop| stop.len() > end.len() && stop.starts_with(end))
            })
            .map_or(0, |at| self.held.len() - at)
    }
}

/// Removes and returns the longest prefix of whole characters. Bytes that cannot be part of a
/// character become U+FFFD.
fn take_whole(bytes: &mut Vec<u8>) -> String {
    let mut text = String::new();
    loop {
        match str::from_utf8(bytes) {
            Ok(rest) => {
                text.push_str(rest);
                bytes.clear();
                return text;
            }
            Err(error) => {
                let valid = error.valid_up_to();
                text.push_str(&String::from_utf8_lossy(&bytes[..valid]));
                let Some(len) = error.error_len() else {
                    bytes.drain(..valid);
                    return text;
                };
                text.push(char::REPLACEMENT_CHARACTER);
                bytes.drain(..valid + len);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(stops: &[&str]) -> TextStream {
        TextStream::new(stops.iter().map(|&stop| stop.to_owned()).collect())
    }

    /// Returns the text of `tokens` before a position.
    fn before(tokens: &[&str], place: Place) -> String {
        format!("{}{}", tokens[..place.token].concat(), &tokens[place.token][..place.bytes])
    }

    fn piece(text: &str, stop: Option<&str>) -> Piece {
        Piece { text: text.to_owned(), stop: stop.map(str::to_owned) }
    }

    #[test]
    fn emits_whole_characters() {
        let mut stream = stream(&[]);
        assert_eq!(stream.push(0, b"a\xe2\x82", |_| true), piece("a", None));
        assert_eq!(stream.push(0, b"\xac!", |_| true), piece("€!", None));
        assert_eq!(stream.push(0, b"\xff\xe2", |_| true), piece("\u{fffd}", None));
        assert_eq!(stream.finish(), "\u{fffd}");
    }

    #[test]
    fn stop_strings_across_pieces_are_cut_out() {
        let mut stream = stream(&["END", "\n\n"]);
        assert_eq!(stream.push(0, b"one E", |_| true), piece("one ", None));
        assert_eq!(stream.push(0, b"N", |_| true), piece("", None));
        assert_eq!(stream.push(0, b"T EN", |_| true), piece("ENT ", None));
        assert_eq!(stream.push(0, b"D more", |_| true), piece("", Some("END")));
    }

    #[test]
    fn emits_held_text_at_the_end() {
        let mut stream = stream(&["END"]);
        assert_eq!(stream.push(0, b"the EN", |_| true), piece("the ", None));
        assert_eq!(stream.finish(), "EN");
    }

    #[test]
    fn an_ignored_occurrence_does_not_hide_the_next() {
        let mut stream = stream(&["aa"]);
        let given = stream.push(0, b"aaaa", |place| before(&["aaaa"], place) == "a");
        assert_eq!(given, piece("a", Some("aa")));
    }

    #[test]
    fn a_stop_string_counts_only_where_the_output_may_end() {
        let tokens = ["[[1]", "]", "]"];
        let mut stream = stream(&["]"]);
        let closed = |place| before(&tokens, place).ends_with("]]");
        assert_eq!(stream.push(0, b"[[1]", closed), piece("[[1]", None));
        assert_eq!(stream.push(1, b"]", closed), piece("]", None));
        assert_eq!(stream.push(2, b"]", closed), piece("", Some("]")));
    }

    /// Checks for many tokenizations that `may_stop` gets the position where the stop string
    /// starts.
    #[test]
    fn places_mark_the_start_of_stop_strings() {
        let text = "an €ndless end of endings";
        for seed in 1..200usize {
            let cut = |at: &usize| (at * seed * 7919) % 11 < 3 && text.is_char_boundary(*at);
            let cuts: Vec<usize> = [0].into_iter().chain((1..text.len()).filter(cut)).collect();
            let ends = cuts[1..].iter().copied().chain([text.len()]);
            let tokens: Vec<&str> = cuts.iter().zip(ends).map(|(&from, to)| &text[from..to]).collect();
            let mut stream = stream(&["nd", "end"]);
            let mut asked = Vec::new();
            for (index, token) in tokens.iter().enumerate() {
                stream.push(index, token.as_bytes(), |place| {
                    asked.push(before(&tokens, place).len());
                    false
                });
            }
            asked.dedup();
            asked.sort_unstable();
            asked.dedup();
            let starts = text.char_indices().map(|(at, _)| at);
            let expected: Vec<usize> =
                starts.filter(|&at| text[at..].starts_with("nd") || text[at..].starts_with("end")).collect();
            assert_eq!(asked, expected, "{tokens:?}");
        }
    }
}
