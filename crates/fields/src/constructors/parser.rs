//! Parser of statements and constructor expressions.

use std::collections::HashMap;

use super::lexer::{Token, Tokens};
use super::{Place, Wrong};

/// Maximum nesting of expressions.
const DEPTH: usize = 200;

/// Maximum number of values. A declaration counts wherever its name is used.
const VALUES: usize = 200_000;

#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) place: Place,
    pub(super) kind: ValueKind,
    /// Number of values inside, with this one.
    size: usize,
    /// Number of levels of values, with this one.
    height: usize,
}

#[derive(Clone, Debug)]
pub(super) enum ValueKind {
    String(String),
    Integer(i64),
    Number(f64),
    Boolean(bool),
    List(Vec<Value>),
    Field(Field),
}

/// Constructor expression, such as `new IntField("age", 0, 120) { Optional = true }`.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// Name of the type, without namespace and type arguments.
    pub(super) class: String,
    /// Arguments in order. Named arguments have a name.
    pub(super) arguments: Vec<(Option<String>, Value)>,
    /// Properties of the initializer, with the places of their names.
    pub(super) properties: Vec<(String, Place, Value)>,
}

impl ValueKind {
    pub(super) const fn what(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Number(_) => "a number",
            Self::Boolean(_) => "a boolean",
            Self::List(_) => "a list",
            Self::Field(_) => "a field",
        }
    }

    /// Returns the values directly inside.
    fn inner(&self) -> Vec<&Value> {
        match self {
            Self::List(items) => items.iter().collect(),
            Self::Field(field) => {
                let arguments = field.arguments.iter().map(|(_, value)| value);
                arguments.chain(field.properties.iter().map(|(_, _, value)| value)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the field that the statements define.
pub(super) fn root(tokens: Tokens) -> Result<Value, Wrong> {
    let mut parser = Parser { tokens, at: 0, depth: 0, names: HashMap::new(), values: 0, target: None };
    let mut fields: Vec<(Option<String>, Value)> = Vec::new();
    while parser.at < parser.tokens.tokens.len() {
        let Some((name, value)) = parser.statement()? else { continue };
        if matches!(value.kind, ValueKind::Field(_)) {
            fields.push((name, value));
        }
    }
    fields.retain(|(name, _)| name.as_ref().is_none_or(|name| !parser.is_used(name)));
    let mut fields = fields.into_iter();
    let Some((_, first)) = fields.next() else {
        let message = "the text has no definition; expected an expression such as \
                       `new CompositeField(\"Character\", ...)`";
        return Err(Wrong::new(parser.tokens.end, message));
    };
    match fields.next() {
        None => Ok(first),
        Some((_, second)) => {
            let (line, column) = first.place;
            let message = format!(
                "a second definition; the first one is at line {line}, column {column}, and neither uses the other"
            );
            Err(Wrong::new(second.place, message))
        }
    }
}

fn too_deep(place: Place) -> Wrong {
    Wrong::new(place, format!("nested deeper than the limit of {DEPTH}"))
}

struct Parser {
    tokens: Tokens,
    at: usize,
    depth: usize,
    /// Declared values. Each has a flag that is true if the name has been used.
    names: HashMap<String, (Value, bool)>,
    /// Number of values so far.
    values: usize,
    /// Type of the declared variable, if its value begins with `new(`.
    target: Option<String>,
}

impl Parser {
    fn is_used(&self, name: &str) -> bool {
        self.names.get(name).is_some_and(|(_, is_used)| *is_used)
    }

    fn peek(&self, ahead: usize) -> Option<&Token> {
        self.tokens.tokens.get(self.at + ahead).map(|(token, _)| token)
    }

    fn place(&self) -> Place {
        self.tokens.tokens.get(self.at).map_or(self.tokens.end, |(_, place)| *place)
    }

    fn is_sign(&self, ahead: usize, sign: char) -> bool {
        self.peek(ahead) == Some(&Token::Sign(sign))
    }

    fn eat(&mut self, sign: char) -> bool {
        let is_next = self.is_sign(0, sign);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, sign: char) -> Result<(), Wrong> {
        if self.eat(sign) { Ok(()) } else { Err(self.unexpected(&format!("`{sign}`"))) }
    }

    fn unexpected(&self, expected: &str) -> Wrong {
        let found = match self.peek(0) {
            None => "the end of the text".to_owned(),
            Some(Token::Name(name)) => format!("`{name}`"),
            Some(Token::Number(number)) => format!("`{number}`"),
            Some(Token::String(_)) => "a string".to_owned(),
            Some(Token::Sign(sign)) => format!("`{sign}`"),
        };
        Wrong::new(self.place(), format!("expected {expected}, found {found}"))
    }

    fn name(&self, ahead: usize) -> Option<&str> {
        match self.peek(ahead) {
            Some(Token::Name(name)) => Some(name),
            _ => None,
        }
    }

    /// Reads a statement up to its `;`, which the last statement may omit. Returns `None` for a
    /// statement without a value.
    fn statement(&mut self) -> Result<Option<(Option<String>, Value)>, Wrong> {
        if self.eat(';') {
            return Ok(None);
        }
        let end = self.end_of_statement();
        let tokens = &self.tokens.tokens;
        let find = |token: &Token| (self.at..end).find(|&at| tokens[at].0 == *token);
        let (assigned, first_new) = (find(&Token::Sign('=')), find(&Token::Name("new".to_owned())));
        let assigned = assigned.filter(|at| first_new.is_none_or(|new| *at < new));
        let before = |at: usize| at.checked_sub(1).map(|before| &tokens[before].0);
        // A property such as `Schema { get; } = ...` has its name in another statement.
        let declared = match assigned.and_then(before) {
            Some(Token::Name(name)) => Some(name.clone()),
            _ => None,
        };
        if let Some(assigned) = assigned {
            self.at = assigned + 1;
            // `Schema => ...`
            self.eat('>');
        } else if let Some(new) = first_new
            && before(new) == Some(&Token::Name("return".to_owned()))
        {
            self.at = new;
        }
        let is_value = match self.peek(0) {
            Some(Token::Name(name)) => name == "new" || !matches!(self.peek(1), Some(Token::Sign('.' | '('))),
            Some(Token::Sign('[' | '{' | '-' | '+') | Token::String(_) | Token::Number(_)) => true,
            _ => false,
        };
        if first_new.is_none() && !(is_value && assigned.is_some()) {
            // For example `using`, or a call that writes the outputs.
            self.at = end + 1;
            return Ok(None);
        }
        self.target = assigned.and_then(|assigned| self.declared_type(assigned));
        let value = self.value()?;
        if self.at < self.tokens.tokens.len() {
            self.expect(';')?;
        }
        if let Some(name) = &declared
            && self.names.insert(name.clone(), (value.clone(), false)).is_some()
        {
            return Err(Wrong::new(value.place, format!("the name `{name}` is declared twice")));
        }
        Ok(Some((declared, value)))
    }

    /// Returns the type of the variable whose value follows the `=` at index `assigned`, without its
    /// namespace and type arguments. Returns `None` unless the value begins with `new(`.
    fn declared_type(&self, assigned: usize) -> Option<String> {
        let is_untyped = self.name(0) == Some("new") && self.is_sign(1, '(');
        let mut at = assigned.checked_sub(2).filter(|_| is_untyped)?;
        let token = |at: usize| self.tokens.tokens.get(at).map(|(token, _)| token);
        if token(at) == Some(&Token::Sign('?')) {
            at = at.checked_sub(1)?;
        }
        if token(at) == Some(&Token::Sign('>')) {
            at = (0..at).rev().find(|&at| token(at) == Some(&Token::Sign('<')))?.checked_sub(1)?;
        }
        match token(at)? {
            Token::Name(name) if name != "var" => Some(name.clone()),
            _ => None,
        }
    }

    /// Returns the index of the statement's `;`, or of the end of the text.
    fn end_of_statement(&self) -> usize {
        let after = &self.tokens.tokens[self.at..];
        let length = after.iter().position(|(token, _)| *token == Token::Sign(';'));
        self.at + length.unwrap_or(after.len())
    }

    fn made(&mut self, place: Place, kind: ValueKind) -> Result<Value, Wrong> {
        self.values += 1;
        self.within_limit(place)?;
        let inner = kind.inner();
        let size = 1 + inner.iter().map(|value| value.size).sum::<usize>();
        let height = 1 + inner.iter().map(|value| value.height).max().unwrap_or(0);
        // A declared value can be nested deeper than its text.
        if height > DEPTH { Err(too_deep(place)) } else { Ok(Value { place, kind, size, height }) }
    }

    fn within_limit(&self, place: Place) -> Result<(), Wrong> {
        if self.values > VALUES {
            return Err(Wrong::new(place, format!("the definition has more than {VALUES} values")));
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Value, Wrong> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(too_deep(self.place()));
        }
        let value = self.plain_value();
        self.depth -= 1;
        value
    }

    fn plain_value(&mut self) -> Result<Value, Wrong> {
        let place = self.place();
        let expected = "a field, a list or a literal";
        match self.peek(0).cloned() {
            Some(Token::String(mut text)) => {
                self.at += 1;
                while self.is_sign(0, '+')
                    && let Some(Token::String(more)) = self.peek(1)
                {
                    text.push_str(more);
                    self.at += 2;
                }
                self.made(place, ValueKind::String(text))
            }
            Some(Token::Number(text)) => {
                self.at += 1;
                self.number(place, &text)
            }
            Some(Token::Sign(sign @ ('-' | '+'))) => {
                self.at += 1;
                let Some(Token::Number(text)) = self.peek(0).cloned() else {
                    return Err(self.unexpected("a number"));
                };
                self.at += 1;
                self.number(place, &if sign == '-' { format!("-{text}") } else { text })
            }
            Some(Token::Sign(open @ ('[' | '{'))) => {
                self.at += 1;
                let items = self.items(if open == '[' { ']' } else { '}' })?;
                self.made(place, ValueKind::List(items))
            }
            Some(Token::Name(name)) if name == "new" => {
                self.at += 1;
                self.constructed(place)
            }
            Some(Token::Name(name)) if name == "true" || name == "false" => {
                self.at += 1;
                self.made(place, ValueKind::Boolean(name == "true"))
            }
            Some(Token::Name(name)) => self.named(place, &name),
            _ => Err(self.unexpected(expected)),
        }
    }

    fn number(&mut self, place: Place, text: &str) -> Result<Value, Wrong> {
        let is_integer = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let kind = match text.parse::<i64>() {
            Ok(value) => ValueKind::Integer(value),
            Err(_) if is_integer => {
                return Err(Wrong::new(place, format!("{text} does not fit into 64 bits")));
            }
            // A text of digits, point and exponent always parses.
            Err(_) => ValueKind::Number(text.parse().unwrap_or(f64::NAN)),
        };
        self.made(place, kind)
    }

    /// Reads a declared name, or a constant such as `int.MaxValue`.
    fn named(&mut self, place: Place, name: &str) -> Result<Value, Wrong> {
        if self.is_sign(1, '.') {
            let value = match (name, self.name(2)) {
                ("int" | "Int32", Some("MinValue")) => i32::MIN.into(),
                ("int" | "Int32", Some("MaxValue")) => i32::MAX.into(),
                ("long" | "Int64", Some("MinValue")) => i64::MIN,
                ("long" | "Int64", Some("MaxValue")) => i64::MAX,
                _ => {
                    return Err(Wrong::new(place, format!("unknown value `{name}`; expected a literal")));
                }
            };
            self.at += 3;
            return self.made(place, ValueKind::Integer(value));
        }
        let Some((value, is_used)) = self.names.get_mut(name) else {
            let message =
                format!("unknown name `{name}`; expected a field, a list, a literal or a declared name");
            return Err(Wrong::new(place, message));
        };
        *is_used = true;
        let value = value.clone();
        self.values += value.size;
        self.within_limit(place)?;
        self.at += 1;
        Ok(value)
    }

    /// Reads the rest of a `new` expression: a field, or a list such as `new JsonField[] { ... }`.
    fn constructed(&mut self, place: Place) -> Result<Value, Wrong> {
        let mut class = String::new();
        while let Some(name) = self.name(0) {
            name.clone_into(&mut class);
            self.at += 1;
            if !self.eat('.') {
                break;
            }
        }
        if self.is_sign(0, '<') {
            self.type_arguments()?;
        }
        let is_list = class == "List" || self.is_sign(0, '[');
        if self.eat('[') {
            // The length of an array may be given: `new JsonField[2] { ... }`.
            self.at += usize::from(matches!(self.peek(0), Some(Token::Number(_))));
            self.expect(']')?;
        }
        if is_list {
            if self.eat('(') {
                self.expect(')')?;
            }
            self.expect('{')?;
            let items = self.items('}')?;
            return self.made(place, ValueKind::List(items));
        }
        if class.is_empty() {
            // `IntField age = new("age", 0, 120);`
            let Some(target) = self.target.take() else {
                return Err(self.unexpected("the type of a field"));
            };
            class = target;
        }
        self.expect('(')?;
        let arguments = self.arguments()?;
        let properties = if self.eat('{') { self.properties()? } else { Vec::new() };
        self.made(place, ValueKind::Field(Field { class, arguments, properties }))
    }

    /// Skips type arguments such as `<string>`.
    fn type_arguments(&mut self) -> Result<(), Wrong> {
        let mut open = 0;
        loop {
            match self.peek(0) {
                Some(Token::Sign('<')) => open += 1,
                Some(Token::Sign('>')) => open -= 1,
                Some(Token::Name(_) | Token::Sign(',' | '.' | '?' | '[' | ']')) => {}
                _ => return Err(self.unexpected("`>`")),
            }
            self.at += 1;
            if open == 0 {
                return Ok(());
            }
        }
    }

    fn arguments(&mut self) -> Result<Vec<(Option<String>, Value)>, Wrong> {
        let mut arguments = Vec::new();
        if self.eat(')') {
            return Ok(arguments);
        }
        loop {
            let name = self.name(0).filter(|_| self.is_sign(1, ':')).map(str::to_owned);
            self.at += if name.is_some() { 2 } else { 0 };
            arguments.push((name, self.value()?));
            if self.eat(')') {
                return Ok(arguments);
            }
            if !self.eat(',') {
                return Err(self.unexpected("`,` or `)`"));
            }
        }
    }

    fn properties(&mut self) -> Result<Vec<(String, Place, Value)>, Wrong> {
        let mut properties = Vec::new();
        while !self.eat('}') {
            let place = self.place();
            let Some(name) = self.name(0).map(str::to_owned) else {
                return Err(self.unexpected("the name of a property"));
            };
            self.at += 1;
            self.expect('=')?;
            properties.push((name, place, self.value()?));
            if !self.eat(',') && !self.is_sign(0, '}') {
                return Err(self.unexpected("`,` or `}`"));
            }
        }
        Ok(properties)
    }

    /// Reads values up to `close`. A comma may follow the last one.
    fn items(&mut self, close: char) -> Result<Vec<Value>, Wrong> {
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(self.value()?);
            if !self.eat(',') && !self.is_sign(0, close) {
                return Err(self.unexpected(&format!("`,` or `{close}`")));
            }
        }
        Ok(items)
    }
}

impl Value {
    /// Creates a list whose items have been checked already.
    pub(super) const fn list(place: Place, items: Vec<Self>) -> Self {
        Self { place, kind: ValueKind::List(items), size: 1, height: 1 }
    }
}
