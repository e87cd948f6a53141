//! A slow recogniser of JSON Schema on prefixes of JSON text.
//!
//! The text is read into a tree whose last branch may be unfinished, and then the question is asked of the tree: can it
//! be finished so that the schema holds? Nothing is interned, cached or compiled; numbers are finished by trying
//! digits. Supported are the keywords of the core, boolean schemas, `anyOf`, `allOf` and references into the document.
//!
//! Meant for schemas with small bounds: four characters finish any number that can be finished, and values nested
//! eight deep satisfy whatever can be satisfied.

use serde_json::{Map, Value, json};

/// What is known of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// It is a whole text of the language.
    pub complete: bool,
    /// It is one, or the beginning of one.
    pub viable: bool,
}

/// The spelling of values, whitespace and order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// One spelling, a space after commas and colons, members in declared order.
    Generate,
    /// Every spelling, any whitespace, any order.
    Accept,
}

/// Judges `text` against `schema`.
pub fn judge(schema: &Value, text: &[u8], style: Style) -> Verdict {
    let mut reader = Reader { text, at: 0, style };
    let dead = Verdict { complete: false, viable: false };
    let Some(part) = reader.value() else { return dead };
    if style == Style::Accept {
        reader.space();
    }
    if reader.at < text.len() {
        return dead;
    }
    let judge = Judge { root: schema, style };
    let viable = judge.fits(&part, &[schema.clone()], 8);
    let ended = match part {
        Part::Number { text, .. } => Some(Part::Number { text, ended: true }),
        Part::Literal { text, ended: true } => Some(Part::Literal { text, ended: true }),
        Part::String(text) if text.ended => Some(Part::String(text)),
        Part::Array { items, end: End::Closed } => Some(Part::Array { items, end: End::Closed }),
        Part::Object { members, end: End::Closed } => Some(Part::Object { members, end: End::Closed }),
        _ => None,
    };
    let complete = viable && ended.is_some_and(|part| judge.fits(&part, &[schema.clone()], 8));
    Verdict { complete, viable }
}

/// A value as far as it was read.
#[derive(Clone, Debug)]
enum Part {
    Nothing,
    Literal { text: String, ended: bool },
    Number { text: String, ended: bool },
    String(Text),
    Array { items: Vec<Part>, end: End },
    Object { members: Vec<(Text, Part)>, end: End },
}

#[derive(Clone, PartialEq, Debug)]
struct Text {
    chars: String,
    /// Bytes of a character that has begun.
    pending: Vec<u8>,
    ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Open,
    /// An item or member follows.
    Comma,
    Closed,
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    style: Style,
}

/// `None` where no JSON text of the style begins so.
impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.style == Style::Accept && self.peek().is_some_and(|byte| b" \n\r\t".contains(&byte)) {
            self.at += 1;
        }
    }

    /// The space that generated texts have after commas and colons.
    fn one_space(&mut self) -> Option<()> {
        if self.style == Style::Generate && self.peek().is_some() {
            (self.peek() == Some(b' ')).then(|| self.at += 1)?;
        }
        Some(())
    }

    fn value(&mut self) -> Option<Part> {
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
            // Some character's spelling starts the rest, or the rest starts some character's spelling.
            match (1..=rest.len().min(12)).find_map(|len| Some((len, spelled(&rest[..len], self.style)?))) {
                Some((len, c)) => {
                    chars.push(c);
                    self.at += len;
                }
                None => {
                    begins(rest, self.style).then_some(())?;
                    self.at = self.text.len();
                    return Some(Text { chars, pending: rest.to_vec(), ended: false });
                }
            }
        }
    }
}

/// The character that exactly these bytes spell.
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

/// Whether these bytes are the beginning of a spelling, found by trying to complete them.
fn begins(bytes: &[u8], style: Style) -> bool {
    let with = |more: &[u8]| spelled(&[bytes, more].concat(), style).is_some();
    if bytes.first() == Some(&b'\\') {
        let ends = ["n", "u0001", "0001", "001", "01", "1", "0", "b", "\\udc00", "udc00", "dc00", "c00", "00", "800\\udc00"];
        let ends = ends.iter().chain(&["d800\\udc00", "000", "00\\udc00", "0\\udc00"]);
        return ends.into_iter().any(|more| with(more.as_bytes()));
    }
    bytes.is_empty() || std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none() && error.valid_up_to() == 0)
}

struct Judge<'a> {
    root: &'a Value,
    style: Style,
}

impl Judge<'_> {
    /// Whether `part` can be finished so that all of `schemas` hold, in `fuel` levels.
    fn fits(&self, part: &Part, schemas: &[Value], fuel: u32) -> bool {
        fuel > 0 && self.ways(schemas.to_vec(), 32).iter().any(|maps| self.fits_maps(part, maps, fuel))
    }

    /// Every way to choose branches, each as plain keywords, in the order of declaration.
    fn ways(&self, schemas: Vec<Value>, depth: u32) -> Vec<Vec<Map<String, Value>>> {
        let mut ways = vec![Vec::new()];
        let mut choices = Vec::new();
        let mut todo: Vec<Value> = schemas.into_iter().rev().collect();
        while let Some(schema) = todo.pop() {
            let mut map = match schema {
                Value::Bool(true) => continue,
                Value::Object(map) => map,
                _ => return Vec::new(),
            };
            if let Some(Value::Array(values)) = map.remove("enum") {
                let values: Vec<_> = values.into_iter().map(|value| json!({"const": value})).collect();
                choices.push(values);
            }
            if let Some(value) = map.remove("const") {
                todo.push(constant(value));
            }
            if let Some(target) = map.remove("$ref") {
                let pointer = target.as_str().unwrap_or_default().trim_start_matches('#');
                todo.push(self.root.pointer(pointer).cloned().unwrap_or(Value::Bool(false)));
            }
            if let Some(Value::Array(all)) = map.remove("allOf") {
                todo.extend(all.into_iter().rev());
            }
            if let Some(Value::Array(any)) = map.remove("anyOf") {
                choices.push(any);
            }
            ways[0].push(map);
        }
        for branches in choices {
            let nested: Vec<_> = if depth == 0 { Vec::new() } else {
                branches.into_iter().flat_map(|branch| self.ways(vec![branch], depth - 1)).collect()
            };
            let before = std::mem::take(&mut ways);
            ways = before
                .iter()
                .flat_map(|way| nested.iter().map(move |branch| [way.as_slice(), branch.as_slice()].concat()))
                .collect();
        }
        ways
    }

    fn fits_maps(&self, part: &Part, maps: &[Map<String, Value>], fuel: u32) -> bool {
        let open = || Text { chars: String::new(), pending: Vec::new(), ended: false };
        match part {
            Part::Nothing => [
                Part::Literal { text: "null".into(), ended: true },
                Part::Literal { text: "true".into(), ended: true },
                Part::Literal { text: "false".into(), ended: true },
                Part::Number { text: String::new(), ended: false },
                Part::String(open()),
                Part::Array { items: Vec::new(), end: End::Open },
                Part::Object { members: Vec::new(), end: End::Open },
            ]
            .iter()
            .any(|part| self.fits_maps(part, maps, fuel)),
            Part::Literal { text, .. } => {
                let kind = if text == "null" { "null" } else { "boolean" };
                let value: Value = serde_json::from_str(text).unwrap_or_default();
                maps.iter().all(|map| has_type(map, kind) && map.get("is").is_none_or(|is| *is == value))
            }
            Part::Number { text, ended } => self.fits_number(text, *ended, maps),
            Part::String(text) => {
                let open = usize::from(!text.pending.is_empty());
                let len = text.chars.chars().count() + open;
                maps.iter().all(|map| {
                    let max = map.get("maxLength").and_then(Value::as_u64).is_none_or(|max| len as u64 <= max);
                    let min = map.get("minLength").and_then(Value::as_u64).is_none_or(|min| len as u64 >= min);
                    let is = map.get("is").is_none_or(|is| is.as_str().is_some_and(|is| self.becomes(text, is)));
                    has_type(map, "string") && max && (min || !text.ended) && is
                })
            }
            Part::Array { items, end } => self.fits_array(items, *end, maps, fuel),
            Part::Object { members, end } => self.fits_object(members, *end, maps, fuel),
        }
    }

    /// Whether a text is `word`, or can become it.
    fn becomes(&self, text: &Text, word: &str) -> bool {
        let Some(rest) = word.strip_prefix(&text.chars) else { return false };
        if text.ended || text.pending.is_empty() {
            return !text.ended || rest.is_empty();
        }
        let Some(c) = rest.chars().next() else { return false };
        let plain = c.to_string();
        let short = serde_json::to_string(&plain).unwrap_or_default();
        let short = short.trim_start_matches('"');
        let short = if c == '"' { "\\\"" } else { short.strip_suffix('"').unwrap_or(short) };
        let units = c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
        let mut spellings = vec![short.as_bytes().to_vec()];
        if self.style == Style::Accept {
            spellings.push(units.into_bytes());
            if c == '/' {
                spellings.push(b"\\/".to_vec());
            }
        }
        let pending = text.pending.to_ascii_lowercase();
        let raw = c.len_utf8() > 1 && text.pending[0] >= 0x80;
        if raw { plain.as_bytes().starts_with(&text.pending) } else { spellings.iter().any(|s| s.starts_with(&pending)) }
    }

    fn fits_number(&self, text: &str, ended: bool, maps: &[Map<String, Value>]) -> bool {
        if !maps.iter().all(|map| has_type(map, "number") || has_type(map, "integer")) {
            return false;
        }
        self.is_number(text, maps) || (!ended && self.extend_number(text, 4, maps))
    }

    fn extend_number(&self, text: &str, more: u32, maps: &[Map<String, Value>]) -> bool {
        more > 0
            && "0123456789.-+".chars().any(|c| {
                let longer = format!("{text}{c}");
                let plausible = ["", "0", ".0", "e0"].iter().any(|end| json_number(&format!("{longer}{end}")));
                plausible && (self.is_number(&longer, maps) || self.extend_number(&longer, more - 1, maps))
            })
    }

    /// Whether the text is a number of the language.
    fn is_number(&self, text: &str, maps: &[Map<String, Value>]) -> bool {
        if !json_number(text) {
            return false;
        }
        let number = |map: &Map<String, Value>, key: &str| map.get(key).map(|value| scaled(&value.to_string()));
        let integer = maps.iter().any(|map| !has_type(map, "number"));
        let bounds = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "is"];
        let bounded = maps.iter().any(|map| bounds.iter().any(|key| map.contains_key(*key)));
        if let Some((mantissa, exponent)) = text.split_once(['e', 'E']) {
            let whole = mantissa.split_once('.').is_none_or(|(_, fraction)| fraction.bytes().all(|b| b == b'0'));
            let fits = !integer || (whole && !exponent.starts_with('-'));
            return self.style == Style::Accept && !bounded && fits;
        }
        let digits = text.bytes().filter(u8::is_ascii_digit).count();
        let value = scaled(text);
        if self.style == Style::Generate {
            let zero = text.starts_with('-') && value == 0;
            let literal = maps.iter().find_map(|map| map.get("is"));
            let shortest = literal.is_none_or(|_| !(text.contains('.') && text.ends_with('0')));
            if digits > 15 || zero || (integer && text.contains('.')) || !shortest {
                return false;
            }
        }
        (!integer || value % SCALE == 0)
            && maps.iter().all(|map| {
                number(map, "minimum").is_none_or(|bound| value >= bound)
                    && number(map, "maximum").is_none_or(|bound| value <= bound)
                    && number(map, "exclusiveMinimum").is_none_or(|bound| value > bound)
                    && number(map, "exclusiveMaximum").is_none_or(|bound| value < bound)
                    && number(map, "multipleOf").is_none_or(|step| value % step == 0)
                    && map.get("is").is_none_or(|is| is.is_number() && scaled(&is.to_string()) == value)
            })
    }

    fn fits_array(&self, items: &[Part], end: End, maps: &[Map<String, Value>], fuel: u32) -> bool {
        let item = |at: usize| -> Vec<Value> {
            let of = |map: &Map<String, Value>| {
                map.get("prefixItems").and_then(|prefix| prefix.get(at)).or(map.get("items")).cloned()
            };
            maps.iter().filter_map(of).collect()
        };
        let min = counts(maps, "minItems").max().unwrap_or(0) as usize;
        let max = counts(maps, "maxItems").min().map_or(usize::MAX, |max| max as usize);
        let least = items.len() + usize::from(end == End::Comma);
        let len = if end == End::Closed { least } else { least.max(min) };
        maps.iter().all(|map| has_type(map, "array") && !map.contains_key("is"))
            && (min..=max).contains(&len)
            && items.iter().enumerate().all(|(at, part)| self.fits(part, &item(at), fuel))
            && (items.len()..len).all(|at| self.fits(&Part::Nothing, &item(at), fuel - 1))
    }

    fn fits_object(&self, members: &[(Text, Part)], end: End, maps: &[Map<String, Value>], fuel: u32) -> bool {
        if !maps.iter().all(|map| has_type(map, "object") && !map.contains_key("is")) {
            return false;
        }
        let object = Object::new(maps);
        // An unfinished name may become any declared one, or another.
        if let Some(((name, value), before)) = members.split_last()
            && !name.ended
        {
            let mut names: Vec<String> = object.names.iter().filter(|word| self.becomes(name, word)).cloned().collect();
            names.push(object.other_name());
            return names.into_iter().any(|chars| {
                let name = Text { chars, pending: Vec::new(), ended: true };
                let members = [before, &[(name, value.clone())]].concat();
                self.fits_object(&members, end, maps, fuel)
            });
        }
        let place = |name: &str| object.names.iter().position(|known| known == name);
        let mut seen: Vec<Option<usize>> = Vec::new();
        for (name, part) in members {
            let place = place(&name.chars);
            let repeated = place.is_some() && seen.contains(&place);
            let after = |before: &Option<usize>| before.is_none_or(|before| place.is_some_and(|place| place <= before));
            let late = self.style == Style::Generate && place.is_some() && seen.iter().any(after);
            if repeated || late || !self.fits(part, &object.schemas(&name.chars), fuel) {
                return false;
            }
            seen.push(place);
        }
        let last = if seen.contains(&None) { object.names.len() } else { seen.iter().flatten().max().map_or(0, |at| at + 1) };
        let still = |at: &usize| !seen.contains(&Some(*at)) && (self.style == Style::Accept || *at >= last);
        let possible = |name: &str| self.fits(&Part::Nothing, &object.schemas(name), fuel - 1);
        let free: Vec<usize> = (0..object.names.len()).filter(still).filter(|at| possible(&object.names[*at])).collect();
        let missing = object.required.iter().filter_map(|name| place(name)).filter(|at| !seen.contains(&Some(*at)));
        let missing: Vec<usize> = missing.collect();
        if missing.iter().any(|at| !free.contains(at)) {
            return false;
        }
        let more = if end == End::Closed { 0 } else if possible(&object.other_name()) { usize::MAX } else { free.len() };
        let least = missing.len().max(usize::from(end == End::Comma)).max(object.min.saturating_sub(seen.len()));
        least <= more && seen.len() + least <= object.max
    }
}

/// What some maps together say about an object.
struct Object<'a> {
    maps: &'a [Map<String, Value>],
    names: Vec<String>,
    required: Vec<String>,
    min: usize,
    max: usize,
}

impl<'a> Object<'a> {
    fn new(maps: &'a [Map<String, Value>]) -> Self {
        let required = maps.iter().filter_map(|map| map.get("required").and_then(Value::as_array)).flatten();
        let required: Vec<String> = required.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        let properties = maps.iter().filter_map(|map| map.get("properties").and_then(Value::as_object));
        let mut names: Vec<String> = Vec::new();
        for name in properties.flat_map(Map::keys).chain(&required) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let min = counts(maps, "minProperties").max().unwrap_or(0) as usize;
        let max = counts(maps, "maxProperties").min().map_or(usize::MAX, |max| max as usize);
        Self { maps, names, required, min, max }
    }

    fn schemas(&self, name: &str) -> Vec<Value> {
        let of = |map: &Map<String, Value>| {
            let declared = map.get("properties").and_then(|properties| properties.get(name));
            declared.or(map.get("additionalProperties")).cloned()
        };
        self.maps.iter().filter_map(of).collect()
    }

    /// A name that is not declared, like any other such name.
    fn other_name(&self) -> String {
        (0..).map(|n| "z".repeat(n + 5)).find(|name| !self.names.contains(name)).unwrap_or_default()
    }
}

fn counts(maps: &[Map<String, Value>], key: &'static str) -> impl Iterator<Item = u64> {
    maps.iter().filter_map(move |map| map.get(key).and_then(Value::as_u64))
}

fn has_type(map: &Map<String, Value>, kind: &str) -> bool {
    match map.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(|name| name == kind),
        Some(name) => name == kind,
    }
}

/// A schema without `const` that holds for just this value. `is` stands for equality of scalars.
fn constant(value: Value) -> Value {
    let each = |value: &Value| json!({"const": value});
    match value {
        Value::Array(items) => json!({
            "type": "array", "minItems": items.len(), "maxItems": items.len(),
            "prefixItems": items.iter().map(each).collect::<Vec<_>>(),
        }),
        Value::Object(members) => json!({
            "type": "object", "additionalProperties": false, "required": members.keys().collect::<Vec<_>>(),
            "properties": members.iter().map(|(name, value)| (name.clone(), each(value))).collect::<Map<_, _>>(),
        }),
        scalar => json!({"is": scalar}),
    }
}

fn json_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = text.split_once(['e', 'E']).map_or((text, None), |(m, e)| (m, Some(e)));
    let (integer, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(i, f)| (i, Some(f)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits(integer)
        && (integer == "0" || !integer.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

/// 10¹⁶: numbers have fewer decimal places.
const SCALE: i128 = 10_000_000_000_000_000;

/// A number without exponent, times [`SCALE`].
fn scaled(text: &str) -> i128 {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
    let value = format!("{integer}{fraction:0<16}").parse().unwrap_or(i128::MAX / 2);
    if negative { -value } else { value }
}
