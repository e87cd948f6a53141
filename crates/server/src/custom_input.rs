//! The input of a custom tool, decoded while the model writes it.

/// Decoder of the arguments of a custom tool's call: from the JSON text `{"input": "…"}`, in any pieces, to
/// the text of the string.
#[derive(Default)]
pub(crate) struct InputDecoder {
    place: Place,
    /// First half of a surrogate pair, whose second half has not arrived.
    high: Option<u16>,
}

#[derive(Clone, Copy, Default)]
enum Place {
    /// Before the colon after the name.
    #[default]
    Name,
    /// Before the quote that opens the string.
    Gap,
    Text,
    /// After a backslash.
    Escape,
    /// In `\u`: the number of digits so far, and their value.
    Digits(u8, u16),
    /// After the string.
    End,
}

impl InputDecoder {
    /// Decodes more of the arguments. Returns the new text of the input, which may be empty.
    pub(crate) fn decode(&mut self, json: &str) -> String {
        let mut text = String::new();
        for c in json.chars() {
            self.place = match self.place {
                Place::Name if c == ':' => Place::Gap,
                Place::Gap if c == '"' => Place::Text,
                Place::Text => match c {
                    '"' => {
                        self.lone_half(&mut text);
                        Place::End
                    }
                    '\\' => Place::Escape,
                    c => {
                        self.push(c, &mut text);
                        Place::Text
                    }
                },
                Place::Escape if c == 'u' => Place::Digits(0, 0),
                Place::Escape => {
                    self.push(unescaped(c), &mut text);
                    Place::Text
                }
                Place::Digits(count, value) => {
                    let value = value << 4 | c.to_digit(16).unwrap_or_default() as u16;
                    if count < 3 {
                        Place::Digits(count + 1, value)
                    } else {
                        self.push_unit(value, &mut text);
                        Place::Text
                    }
                }
                place @ (Place::Name | Place::Gap | Place::End) => place,
            };
        }
        text
    }

    fn push(&mut self, c: char, text: &mut String) {
        self.lone_half(text);
        text.push(c);
    }

    /// Adds a UTF-16 code unit. The first half of a pair waits for the second one.
    fn push_unit(&mut self, unit: u16, text: &mut String) {
        if let Some(high) = self.high
            && let Some(Ok(c)) = char::decode_utf16([high, unit]).next()
        {
            self.high = None;
            text.push(c);
            return;
        }
        let c = char::from_u32(unit.into());
        if c.is_none() && unit < 0xdc00 {
            self.lone_half(text);
            self.high = Some(unit);
        } else {
            self.push(c.unwrap_or(char::REPLACEMENT_CHARACTER), text);
        }
    }

    /// Replaces a first half without a second one.
    fn lone_half(&mut self, text: &mut String) {
        if self.high.take().is_some() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Returns the character that a backslash and `c` stand for.
const fn unescaped(c: char) -> char {
    match c {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes pieces, and returns the text of each.
    fn decoded<'a>(pieces: impl IntoIterator<Item = &'a str>) -> String {
        let mut decoder = InputDecoder::default();
        pieces.into_iter().map(|piece| decoder.decode(piece)).collect()
    }

    #[test]
    fn decodes_at_any_cut() {
        let texts = ["", "a", "say \"hi\"\\\n", "\u{1}\u{1f}\t\r\u{8}\u{c}", "é\u{1f600}/", "a: \"b\"}"];
        let given = texts.map(|text| (format!("{{\"input\": {}}}", serde_json::json!(text)), text));
        let others = [
            (r#"{"input":"\ud83d\ude00\u00E9\/"}"#.to_owned(), "\u{1f600}é/"),
            (r#" { "input" : "a" } "#.to_owned(), "a"),
            (
                r#"{"input": "\ud83da\ude00\ud83d\ud83d\ude00\ud83d"}"#.to_owned(),
                "\u{fffd}a\u{fffd}\u{fffd}\u{1f600}\u{fffd}",
            ),
        ];
        for (json, text) in given.into_iter().chain(others) {
            assert_eq!(decoded([json.as_str()]), text, "{json}");
            for (cut, _) in json.char_indices() {
                let (first, second) = json.split_at(cut);
                assert_eq!(decoded([first, second]), text, "{json}: {cut}");
            }
            assert_eq!(decoded(json.split_inclusive(|_| true)), text, "{json}");
        }
    }

    #[test]
    fn text_is_shown_as_soon_as_it_is_known() {
        let mut decoder = InputDecoder::default();
        let pieces = ["{\"in", "put\": \"a", "b\\", "n\\ud83d", "\\ude0", "0", "\"}"];
        let shown = pieces.map(|piece| decoder.decode(piece));
        assert_eq!(shown, ["", "a", "b", "\n", "", "\u{1f600}", ""]);
    }
}
