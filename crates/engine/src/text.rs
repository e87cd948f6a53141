//! From token bytes to text that may be shown.

/// Turns bytes into text in whole characters, and holds back what may turn out to be a stop string.
pub(crate) struct TextStream {
    stops: Vec<String>,
    /// Bytes not yet known to be whole characters.
    bytes: Vec<u8>,
    /// Text not yet shown: the start of a stop string, perhaps.
    held: String,
    /// Text shown so far; kept only where a stop string must be checked against a grammar.
    shown: Option<String>,
}

/// What new bytes led to.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// Text to show, possibly none.
    pub(crate) text: String,
    /// Whether a stop string came. Nothing may be shown after that.
    pub(crate) stopped: bool,
}

impl TextStream {
    /// `remember` keeps all text, for [`TextStream::push`]'s `may_stop`.
    pub(crate) fn new(stops: Vec<String>, remember: bool) -> Self {
        let shown = (remember && !stops.is_empty()).then(String::new);
        Self { stops, bytes: Vec::new(), held: String::new(), shown }
    }

    /// Adds bytes. A stop string counts only where `may_stop` allows the text before it as a whole output.
    pub(crate) fn push(&mut self, bytes: &[u8], may_stop: impl Fn(&str) -> bool) -> Piece {
        self.bytes.extend_from_slice(bytes);
        let text = take_whole(&mut self.bytes);
        self.held.push_str(&text);
        self.settle(may_stop)
    }

    /// Shows all that was held back: this is the end of the text, or of a stretch of it. Bytes that never became a
    /// character show as U+FFFD.
    pub(crate) fn finish(&mut self) -> String {
        let mut text = std::mem::take(&mut self.held);
        text.push_str(&String::from_utf8_lossy(&self.bytes));
        self.bytes.clear();
        if let Some(shown) = &mut self.shown {
            shown.push_str(&text);
        }
        text
    }

    fn settle(&mut self, may_stop: impl Fn(&str) -> bool) -> Piece {
        if self.stops.is_empty() {
            return Piece { text: std::mem::take(&mut self.held), stopped: false };
        }
        if let Some(at) = self.first_stop(may_stop) {
            self.held.truncate(at);
            self.bytes.clear();
            return Piece { text: std::mem::take(&mut self.held), stopped: true };
        }
        let keep = self.possible_start();
        let rest = self.held.split_off(self.held.len() - keep);
        let text = std::mem::replace(&mut self.held, rest);
        if let Some(shown) = &mut self.shown {
            shown.push_str(&text);
        }
        Piece { text, stopped: false }
    }

    /// The offset in the held text of the first stop string that counts.
    fn first_stop(&self, may_stop: impl Fn(&str) -> bool) -> Option<usize> {
        // Occurrences may overlap: the first that does not count must not hide the next.
        let starts = |at: &usize| {
            self.held.is_char_boundary(*at)
                && self.stops.iter().any(|stop| self.held[*at..].starts_with(stop.as_str()))
        };
        (0..self.held.len()).filter(starts).find(|&at| match &self.shown {
            Some(shown) => may_stop(&format!("{shown}{}", &self.held[..at])),
            None => true,
        })
    }

    /// The length of the longest end of the held text that some stop string starts with.
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

/// Takes the longest prefix of whole characters. Bytes that can never be part of one become U+FFFD.
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
        TextStream::new(stops.iter().map(|&stop| stop.to_owned()).collect(), true)
    }

    fn piece(text: &str, stopped: bool) -> Piece {
        Piece { text: text.to_owned(), stopped }
    }

    #[test]
    fn characters_come_whole() {
        let mut stream = stream(&[]);
        assert_eq!(stream.push(b"a\xe2\x82", |_| true), piece("a", false));
        assert_eq!(stream.push(b"\xac!", |_| true), piece("€!", false));
        assert_eq!(stream.push(b"\xff\xe2", |_| true), piece("\u{fffd}", false));
        assert_eq!(stream.finish(), "\u{fffd}");
    }

    #[test]
    fn stop_strings_across_pieces_are_cut_out() {
        let mut stream = stream(&["END", "\n\n"]);
        assert_eq!(stream.push(b"one E", |_| true), piece("one ", false));
        assert_eq!(stream.push(b"N", |_| true), piece("", false));
        assert_eq!(stream.push(b"T EN", |_| true), piece("ENT ", false));
        assert_eq!(stream.push(b"D more", |_| true), piece("", true));
    }

    #[test]
    fn what_was_held_is_shown_at_the_end() {
        let mut stream = stream(&["END"]);
        assert_eq!(stream.push(b"the EN", |_| true), piece("the ", false));
        assert_eq!(stream.finish(), "EN");
    }

    #[test]
    fn an_occurrence_that_does_not_count_does_not_hide_the_next() {
        let mut stream = stream(&["aa"]);
        assert_eq!(stream.push(b"aaaa", |text| text == "a"), piece("a", true));
    }

    #[test]
    fn a_stop_string_counts_only_where_the_output_may_end() {
        let mut stream = stream(&["]"]);
        let closed = |text: &str| text.ends_with("]]");
        assert_eq!(stream.push(b"[[1]", closed), piece("[[1]", false));
        assert_eq!(stream.push(b"]", closed), piece("]", false));
        assert_eq!(stream.push(b"]", closed), piece("", true));
    }
}
