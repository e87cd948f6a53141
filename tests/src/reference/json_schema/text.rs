//! Parses JSON text, which may be unfinished, into a tree.

use super::Style;

/// A value, possibly unfinished.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Nothing,
    Literal { text: String, ended: bool },
    Number { text: String, ended: bool },
    String(Text),
    Array { items: Vec<Part>, end: End },
    Object { members: Vec<(Text, Part)>, end: End },
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Text {
    pub(super) chars: String,
    /// Bytes of an unfinished character at the end of the text.
    pub(super) pending: Vec<u8>,
    pub(super) ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Open,
    /// A comma was read, so an item or member must follow.
    Comma,
    Closed,
}

pub(super) struct Reader<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
    pub(super) style: Style,
}

/// The methods return `None` if no JSON text in the reader's style begins with the text.
impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn space(&mut self) {
        while self.style == Style::Accept && self.peek().is_some_and(|byte| b" \n\r\t".contains(&byte)) {
            self.at += 1;
        }
    }

    /// Skips the space that generated texts have after commas and colons. At the end of the text,
    /// skips nothing.
    fn one_space(&mut self) -> Option<()> {
        if self.style == Style::Generate && self.peek().is_some() {
            (self.peek() == Some(b' ')).then(|| self.at += 1)?;
        }
        Some(())
    }

    pub(super) fn value(&mut self) -> Option<Part> {
        self.space();
        let Some(byte) = self.peek() else { return Some(Part::Nothing) };
        match byte {
            b'"' => self.string().map(Part::String),
            b'[' => self.array(),
            b'{' => self.object(),
            b'-' | b'0'..=b'9' => {
                let number = |byte: &&u8| b"0123456789+-.eE".contains(byte);
                let len = self.text[self.at..].iter().take_while(number).count();
                let text = String::from_utf8_lossy(&self.text[self.at..self.at + len]).into_owned();
                self.at += len;
                Some(Part::Number { text, ended: self.at < self.text.len() })
            }
            _ => {
                let rest = &self.text[self.at..];
                let words = ["null", "true", "false"];
                let word = words.iter().find(|word| word.as_bytes()[0] == byte)?;
                let len = rest.len().min(word.len());
                (rest[..len] == word.as_bytes()[..len]).then_some(())?;
                self.at += len;
                Some(Part::Literal { text: (*word).to_owned(), ended: len == word.len() })
            }
        }
    }

    fn array(&mut self) -> Option<Part> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        match self.peek() {
            None => return Some(Part::Array { items, end: End::Open }),
            Some(b']') => {
                self.at += 1;
                return Some(Part::Array { items, end: End::Closed });
            }
            Some(_) => {}
        }
        loop {
            match self.value()? {
                Part::Nothing => return Some(Part::Array { items, end: End::Comma }),
                item => items.push(item),
            }
            self.space();
            match self.peek() {
                None => return Some(Part::Array { items, end: End::Open }),
                Some(b']') => {
                    self.at += 1;
                    return Some(Part::Array { items, end: End::Closed });
                }
                Some(b',') => self.at += 1,
                Some(_) => return None,
            }
            self.one_space()?;
        }
    }

    fn object(&mut self) -> Option<Part> {
        self.at += 1;
        let mut members = Vec::new();
        self.space();
        match self.peek() {
            None => return Some(Part::Object { members, end: End::Open }),
            Some(b'}') => {
                self.at += 1;
                return Some(Part::Object { members, end: End::Closed });
            }
            Some(_) => {}
        }
        loop {
            self.space();
            match self.peek() {
                None => return Some(Part::Object { members, end: End::Comma }),
                Some(b'"') => {}
                Some(_) => return None,
            }
            let name = self.string()?;
            self.space();
            match self.peek() {
                None => {
                    members.push((name, Part::Nothing));
                    return Some(Part::Object { members, end: End::Open });
                }
                Some(b':') => self.at += 1,
                Some(_) => return None,
            }
            self.one_space()?;
            members.push((name, self.value()?));
            self.space();
            match self.peek() {
                None => return Some(Part::Object { members, end: End::Open }),
                Some(b'}') => {
                    self.at += 1;
                    return Some(Part::Object { members, end: End::Closed });
                }
                Some(b',') => self.at += 1,
                Some(_) => return None,
            }
            self.one_space()?;
        }
    }

    fn string(&mut self) -> Option<Text> {
        self.at += 1;
        let mut chars = String::new();
        loop {
            let rest = &self.text[self.at..];
            if rest.first() == Some(&b'"') {
                self.at += 1;
                return Some(Text { chars, pending: Vec::new(), ended: true });
            }
            // Either a prefix of the rest spells a character, or the rest is a prefix of some
            // character's spelling.
            let lens = 1..=rest.len().min(12);
            let next = lens.into_iter().find_map(|len| Some((len, spelled(&rest[..len], self.style)?)));
            if let Some((len, c)) = next {
                chars.push(c);
                self.at += len;
                continue;
            }
            begins(rest, self.style).then_some(())?;
            self.at = self.text.len();
            return Some(Text { chars, pending: rest.to_vec(), ended: false });
        }
    }
}

/// Returns the character that `bytes` spell in a string, or `None` if they are not exactly one
/// character.
fn spelled(bytes: &[u8], style: Style) -> Option<char> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut chars = text.chars();
    match (chars.next()?, chars.next()) {
        ('\\', Some(_)) => {
            let value: String = serde_json::from_str(&format!("\"{text}\"")).ok()?;
            let c = Some(&value).filter(|value| value.chars().count() == 1)?.chars().next()?;
            let canonical = serde_json::to_string(&value).is_ok_and(|json| json == format!("\"{text}\""));
            (style == Style::Accept || canonical).then_some(c)
        }
        (c, None) => (c >= ' ' && c != '"' && c != '\\').then_some(c),
        _ => None,
    }
}

/// Reports whether `bytes` are a prefix of a character's spelling, by trying to complete them.
fn begins(bytes: &[u8], style: Style) -> bool {
    let with = |more: &[u8]| spelled(&[bytes, more].concat(), style).is_some();
    if bytes.first() == Some(&b'\\') {
        let ends = [
            "n",
            "u0001",
            "0001",
            "001",
            "01",
            "1",
            "0",
            "b",
            "\\udc00",
            "udc00",
            "dc00",
            "c00",
            "00",
            "800\\udc00",
        ];
        let ends = ends.iter().chain(&["d800\\udc00", "000", "00\\udc00", "0\\udc00"]);
        return ends.into_iter().any(|more| with(more.as_bytes()));
    }
    bytes.is_empty()
        || std::str::from_utf8(bytes)
            .is_err_and(|error| error.error_len().is_none() && error.valid_up_to() == 0)
}
