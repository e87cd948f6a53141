//! Tokens of C#: names, literals and punctuation. Comments and blanks are skipped.

use super::{Place, Wrong};

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    /// Identifier or keyword, without a leading `@`.
    Name(String),
    /// Integer or decimal number. The text has no suffix and no `_`.
    Number(String),
    String(String),
    /// Any other character.
    Sign(char),
}

/// Returns the tokens of a text with their places, and the place of the end.
pub(super) fn tokens(text: &str) -> Result<Tokens, Wrong> {
    let mut lexer =
        Lexer { chars: text.trim_start_matches('\u{feff}').chars().collect(), at: 0, line: 1, start: 0 };
    let mut tokens = Vec::new();
    while let Some((token, place)) = lexer.next()? {
        tokens.push((token, place));
    }
    Ok(Tokens { tokens, end: lexer.place() })
}

pub(super) struct Tokens {
    pub(super) tokens: Vec<(Token, Place)>,
    pub(super) end: Place,
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    /// Index of the first character of the line.
    start: usize,
}

impl Lexer {
    fn place(&self) -> Place {
        (self.line, self.at - self.start + 1)
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(index, c)| self.peek(index) == Some(c))
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        if c == '\n' {
            self.line += 1;
            self.start = self.at;
        }
        Some(c)
    }

    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.bump();
        }
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let mut text = String::new();
        while let Some(c) = self.peek(0).filter(|&c| is_part(c)) {
            text.push(c);
            self.bump();
        }
        text
    }

    fn blanks(&mut self) -> Result<(), Wrong> {
        loop {
            self.take_while(char::is_whitespace);
            let place = self.place();
            if self.starts_with("//") {
                self.take_while(|c| c != '\n');
            } else if self.starts_with("/*") {
                self.skip(2);
                while !self.starts_with("*/") {
                    self.bump().ok_or_else(|| Wrong::new(place, "the comment has no end; expected `*/`"))?;
                }
                self.skip(2);
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Option<(Token, Place)>, Wrong> {
        self.blanks()?;
        let place = self.place();
        let Some(c) = self.peek(0) else { return Ok(None) };
        let token = match c {
            '"' if self.starts_with("\"\"\"") => Token::String(self.raw(place)?),
            '"' => Token::String(self.string(place)?),
            '@' if self.peek(1) == Some('"') => Token::String(self.verbatim(place)?),
            '$' => {
                return Err(Wrong::new(place, "interpolated strings are not supported; expected a literal"));
            }
            '@' if self.peek(1).is_some_and(is_start) => {
                self.bump();
                Token::Name(self.take_while(is_part))
            }
            _ if is_start(c) => Token::Name(self.take_while(is_part)),
            '.' if self.peek(1).is_some_and(|c| c.is_ascii_digit()) => Token::Number(self.number(place)?),
            '0'..='9' => Token::Number(self.number(place)?),
            _ => {
                self.bump();
                Token::Sign(c)
            }
        };
        Ok(Some((token, place)))
    }

    /// Reads an integer, also in hexadecimal or binary notation, or a decimal number.
    fn number(&mut self, place: Place) -> Result<String, Wrong> {
        let radix = match (self.peek(0), self.peek(1)) {
            (Some('0'), Some('x' | 'X')) => 16,
            (Some('0'), Some('b' | 'B')) => 2,
            _ => 10,
        };
        let text = if radix == 10 {
            self.decimal()
        } else {
            self.skip(2);
            let digits = self.take_while(|c| c.is_digit(radix) || c == '_').replace('_', "");
            let value = u64::from_str_radix(&digits, radix);
            value.map_err(|_| Wrong::new(place, "expected an integer of 64 bits"))?.to_string()
        };
        let suffix = self.take_while(is_part);
        let is_known =
            ["", "f", "d", "m", "l", "u", "ul", "lu"].contains(&suffix.to_ascii_lowercase().as_str());
        if is_known {
            Ok(text)
        } else {
            Err(Wrong::new(place, format!("unknown suffix `{suffix}` of a number")))
        }
    }

    fn decimal(&mut self) -> String {
        let digits = |lexer: &mut Self| lexer.take_while(|c| c.is_ascii_digit() || c == '_').replace('_', "");
        let mut text = digits(self);
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            self.bump();
            text = format!("{text}.{}", digits(self));
        }
        let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
        if matches!(self.peek(0), Some('e' | 'E')) && self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit())
        {
            text.push('e');
            self.bump();
            if sign > 0 {
                text.extend(self.bump());
            }
            text.push_str(&digits(self));
        }
        if text.starts_with('.') { format!("0{text}") } else { text }
    }

    fn string(&mut self, place: Place) -> Result<String, Wrong> {
        let no_end = || Wrong::new(place, "the string has no end; expected `\"` on the same line");
        self.bump();
        let mut text = String::new();
        loop {
            let here = self.place();
            match self.bump().ok_or_else(no_end)? {
                '"' => return Ok(text),
                '\n' | '\r' => return Err(no_end()),
                '\\' => self.escape(here, &mut text)?,
                c => text.push(c),
            }
        }
    }

    fn escape(&mut self, place: Place, text: &mut String) -> Result<(), Wrong> {
        let unknown = |c: Option<char>| {
            Wrong::new(place, format!("unknown escape `\\{}`", c.map(String::from).unwrap_or_default()))
        };
        let c = self.bump();
        text.push(match c.ok_or_else(|| unknown(None))? {
            c @ ('"' | '\\' | '\'') => c,
            '0' => '\0',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'e' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => self.code(place, 1, 4)?,
            'U' => self.code(place, 8, 8)?,
            'u' => self.unit(place)?,
            _ => return Err(unknown(c)),
        });
        Ok(())
    }

    /// Reads the hexadecimal digits of a code point.
    fn code(&mut self, place: Place, least: usize, most: usize) -> Result<char, Wrong> {
        let code = self.hex(place, least, most)?;
        char::from_u32(code).ok_or_else(|| Wrong::new(place, format!("U+{code:04X} is no character")))
    }

    /// Reads the four digits after `\u`, and a second escape if the first one is a high surrogate.
    fn unit(&mut self, place: Place) -> Result<char, Wrong> {
        let high = self.hex(place, 4, 4)?;
        if (0xd800..0xdc00).contains(&high) && self.starts_with("\\u") {
            self.skip(2);
            let low = self.hex(place, 4, 4)?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
        }
        char::from_u32(high).ok_or_else(|| Wrong::new(place, "a surrogate without its other half"))
    }

    fn hex(&mut self, place: Place, least: usize, most: usize) -> Result<u32, Wrong> {
        let mut digits = String::new();
        while let Some(c) = self.peek(0).filter(|c| c.is_ascii_hexdigit() && digits.len() < most) {
            digits.push(c);
            self.bump();
        }
        let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() >= least);
        code.ok_or_else(|| Wrong::new(place, format!("the escape needs {least} hexadecimal digits")))
    }

    /// Reads a string such as `@"C:\"`, in which `""` stands for a quote.
    fn verbatim(&mut self, place: Place) -> Result<String, Wrong> {
        self.skip(2);
        let mut text = String::new();
        loop {
            match self.bump().ok_or_else(|| Wrong::new(place, "the string has no end; expected `\"`"))? {
                '"' if self.peek(0) == Some('"') => {
                    self.bump();
                    text.push('"');
                }
                '"' => return Ok(text),
                c => text.push(c),
            }
        }
    }

    /// Reads a raw string, between three or more quotes. If a line break follows the opening quotes,
    /// the text is on the lines between, without the indentation of the closing quotes.
    fn raw(&mut self, place: Place) -> Result<String, Wrong> {
        let quotes = self.take_while(|c| c == '"');
        let mut text = String::new();
        while !self.starts_with(&quotes) {
            let no_end = || Wrong::new(place, format!("the string has no end; expected `{quotes}`"));
            text.push(self.bump().ok_or_else(no_end)?);
        }
        self.skip(quotes.len());
        let text = text.replace("\r\n", "\n");
        let Some((blank, rest)) = text.split_once('\n') else { return Ok(text) };
        let wrong = |message: &str| Err(Wrong::new(place, message));
        let (lines, indentation) = rest.rsplit_once('\n').unwrap_or(("", rest));
        if !blank.trim().is_empty() || !indentation.trim().is_empty() || !rest.contains('\n') {
            return wrong("the quotes of a raw string of several lines stand on lines of their own");
        }
        let mut inside = Vec::new();
        for line in lines.split('\n') {
            match line.strip_prefix(indentation) {
                Some(line) => inside.push(line),
                None if line.trim().is_empty() => inside.push(""),
                None => return wrong("a line of the raw string is indented less than its closing quotes"),
            }
        }
        Ok(inside.join("\n"))
    }
}

fn is_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
