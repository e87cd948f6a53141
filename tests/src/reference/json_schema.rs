//! A slow recognizer of JSON Schema for prefixes of JSON text.
//!
//! The text is parsed into a tree whose last branch may be unfinished. The recognizer then checks
//! whether the tree can be completed so that the schema holds. Nothing is compiled, and only
//! satisfiability is cached. Numbers are completed by trying digits. The recognizer supports the
//! core keywords, boolean schemas, `anyOf`, `allOf` and references into the document.
//!
//! The recognizer is meant for schemas with small bounds and numbers below 10¹⁴. It assumes that a
//! number that can be completed needs at most two more characters, or at most four characters in
//! total. It also assumes that any satisfiable schema has a value nested at most eight deep.

mod number;
mod object;
mod text;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write;

use number::{SCALE, json_number, scaled, scientific};
use object::Object;
use serde_json::{Map, Value, json};
use text::{End, Part, Reader, Text};

/// The result of judging a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// True if the text is a complete text that the schema accepts.
    pub complete: bool,
    /// True if the text is complete or can be continued to a complete text.
    pub viable: bool,
}

/// The texts that stand for a value: spelling of scalars, whitespace and member order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Each value has one text: a space after commas and colons, members in declared order.
    Generate,
    /// Scalars have any spelling, whitespace is free, and members are in any order.
    Accept,
}

/// A recognizer of the texts of a schema.
pub struct Reference {
    root: Value,
    style: Style,
    /// Known results of [`Reference::fits`] for missing values, by schemas and maximum depth. Every
    /// byte of a text asks for the same ones again.
    satisfiable: RefCell<HashMap<(String, u32), bool>>,
}

impl Reference {
    /// Creates a recognizer for `schema` and for texts in `style`.
    pub fn new(schema: &Value, style: Style) -> Self {
        Self { root: schema.clone(), style, satisfiable: RefCell::default() }
    }

    /// Judges one text.
    pub fn judge(&self, text: &[u8]) -> Verdict {
        let mut reader = Reader { text, at: 0, style: self.style };
        let dead = Verdict { complete: false, viable: false };
        let Some(part) = reader.value() else { return dead };
        reader.space();
        if reader.at < text.len() {
            return dead;
        }
        let schema = [self.root.clone()];
        let viable = self.fits(&part, &schema, LEVELS);
        let complete = match part {
            Part::Number { text, .. } => self.fits(&Part::Number { text, ended: true }, &schema, LEVELS),
            Part::Literal { ended, .. } | Part::String(Text { ended, .. }) => viable && ended,
            Part::Array { end, .. } | Part::Object { end, .. } => viable && end == End::Closed,
            Part::Nothing => false,
        };
        Verdict { complete, viable }
    }
}

/// Maximum depth of the values that are tried. Any satisfiable schema here has a value of at most
/// this depth.
const LEVELS: u32 = 8;

impl Reference {
    /// Reports whether `part` can be completed to a value that all of `schemas` accept. The value
    /// may be nested at most `fuel` levels deep.
    fn fits(&self, part: &Part, schemas: &[Value], fuel: u32) -> bool {
        let fits = || {
            fuel > 0 && self.ways(schemas.to_vec(), 32).iter().any(|maps| self.fits_maps(part, maps, fuel))
        };
        if !matches!(part, Part::Nothing) {
            return fits();
        }
        let key = (serde_json::to_string(schemas).unwrap_or_default(), fuel);
        if let Some(&known) = self.satisfiable.borrow().get(&key) {
            return known;
        }
        let fits = fits();
        self.satisfiable.borrow_mut().insert(key, fits);
        fits
    }

    /// Resolves `enum`, `const`, `$ref`, `allOf` and `anyOf` in `schemas`. Returns the possible
    /// choices of branches in declared order, each as a list of schemas with plain keywords that
    /// must all hold.
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
            if !ways[0].contains(&map) {
                ways[0].push(map);
            }
        }
        for branches in choices {
            let nested: Vec<_> = if depth == 0 {
                Vec::new()
            } else {
                branches.into_iter().flat_map(|branch| self.ways(vec![branch], depth - 1)).collect()
            };
            let before = std::mem::take(&mut ways);
            for (way, branch) in before.iter().flat_map(|way| nested.iter().map(move |branch| (way, branch)))
            {
                let mut both = way.clone();
                both.extend(branch.iter().filter(|map| !way.contains(map)).cloned());
                if !ways.contains(&both) {
                    ways.push(both);
                }
            }
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
                Part::String(open()),
                Part::Array { items: Vec::new(), end: End::Open },
                Part::Object { members: Vec::new(), end: End::Open },
                Part::Number { text: String::new(), ended: false },
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
                let len = (text.chars.chars().count() + usize::from(!text.pending.is_empty())) as u64;
                let min = counts(maps, "minLength").max().unwrap_or(0);
                let len = if text.ended { len } else { len.max(min) };
                let max = counts(maps, "maxLength").min().unwrap_or(u64::MAX);
                let is = |map: &Map<String, Value>| {
                    map.get("is").is_none_or(|is| is.as_str().is_some_and(|is| self.becomes(text, is)))
                };
                (min..=max).contains(&len) && maps.iter().all(|map| has_type(map, "string") && is(map))
            }
            Part::Array { items, end } => self.fits_array(items, *end, maps, fuel),
            Part::Object { members, end } => self.fits_object(members, *end, maps, fuel),
        }
    }

    /// Reports whether `text` is `word`, or can be completed to `word`.
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
        let mut units = String::new();
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(units, "\\u{unit:04x}"); // writing to a string cannot fail
        }
        let mut spellings = vec![short.as_bytes().to_vec()];
        if self.style == Style::Accept {
            spellings.push(units.into_bytes());
            if c == '/' {
                spellings.push(b"\\/".to_vec());
            }
        }
        let pending = text.pending.to_ascii_lowercase();
        let raw = c.len_utf8() > 1 && text.pending[0] >= 0x80;
        if raw {
            plain.as_bytes().starts_with(&text.pending)
        } else {
            spellings.iter().any(|s| s.starts_with(&pending))
        }
    }

    fn fits_number(&self, text: &str, ended: bool, maps: &[Map<String, Value>]) -> bool {
        if !maps.iter().all(|map| has_type(map, "number") || has_type(map, "integer")) {
            return false;
        }
        self.is_number(text, maps)
            || (!ended && self.extend_number(text, 4usize.saturating_sub(text.len()).max(2), maps))
            || (!ended && self.gets_exponent(text, maps))
    }

    /// Reports whether the text becomes a number that the keywords accept if some digits and an
    /// exponent follow.
    fn gets_exponent(&self, text: &str, maps: &[Map<String, Value>]) -> bool {
        let digits = (0..=3).flat_map(|count| (0..10_usize.pow(count)).map(move |n| (n, count as usize)));
        let digits = digits.map(|(n, count)| if count == 0 { String::new() } else { format!("{n:0count$}") });
        self.style == Style::Accept
            && !text.contains(['e', 'E'])
            && digits
                .flat_map(|digits| [format!("{text}{digits}"), format!("{text}.{digits}")])
                .any(|text| (-4..=4).any(|exponent| self.is_number(&format!("{text}e{exponent}"), maps)))
    }

    fn extend_number(&self, text: &str, more: usize, maps: &[Map<String, Value>]) -> bool {
        let full = self.style == Style::Generate && text.bytes().filter(u8::is_ascii_digit).count() > 15;
        more > 0
            && !full
            && "0123456789.-+".chars().any(|c| {
                let longer = format!("{text}{c}");
                let plausible =
                    ["", "0", ".0", "e0"].iter().any(|end| json_number(&format!("{longer}{end}")));
                plausible && (self.is_number(&longer, maps) || self.extend_number(&longer, more - 1, maps))
            })
    }

    /// Reports whether `text` is a complete number that the keywords accept.
    fn is_number(&self, text: &str, maps: &[Map<String, Value>]) -> bool {
        if !json_number(text) {
            return false;
        }
        let number =
            |map: &Map<String, Value>, key: &str| map.get(key).map(|value| scaled(&value.to_string()));
        let integer = maps.iter().any(|map| !has_type(map, "number"));
        let bounds = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "is"];
        let bounded = maps.iter().any(|map| bounds.iter().any(|key| map.contains_key(*key)));
        let in_bounds = |value: i128| {
            maps.iter().all(|map| {
                number(map, "minimum").is_none_or(|bound| value >= bound)
                    && number(map, "maximum").is_none_or(|bound| value <= bound)
                    && number(map, "exclusiveMinimum").is_none_or(|bound| value > bound)
                    && number(map, "exclusiveMaximum").is_none_or(|bound| value < bound)
                    && number(map, "multipleOf").is_none_or(|step| value % step == 0)
                    && map.get("is").is_none_or(|is| is.is_number() && scaled(&is.to_string()) == value)
            })
        };
        if let Some((mantissa, exponent)) = text.split_once(['e', 'E']) {
            let whole =
                mantissa.split_once('.').is_none_or(|(_, fraction)| fraction.bytes().all(|b| b == b'0'));
            let zero = bounded && scientific(mantissa, exponent) == Some(0);
            let fits = !integer || (whole && (zero || !exponent.starts_with('-')));
            let steps = maps.iter().any(|map| map.contains_key("multipleOf"));
            let value = if bounded && !steps { scientific(mantissa, exponent) } else { None };
            return self.style == Style::Accept && fits && (!bounded || value.is_some_and(in_bounds));
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
        (!integer || value % SCALE == 0) && in_bounds(value)
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

    fn fits_object(
        &self,
        members: &[(Text, Part)],
        end: End,
        maps: &[Map<String, Value>],
        fuel: u32,
    ) -> bool {
        if !maps.iter().all(|map| has_type(map, "object") && !map.contains_key("is")) {
            return false;
        }
        let object = Object::new(maps);
        // An unfinished name may become any declared name, or an undeclared one.
        if let Some(((name, value), before)) = members.split_last()
            && !name.ended
        {
            let mut names: Vec<String> =
                object.names.iter().filter(|word| self.becomes(name, word)).cloned().collect();
            // Longer than all previous names, so that the name is not a duplicate.
            names.push(before.iter().fold(object.other_name(), |longer, (name, _)| longer + &name.chars));
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
            let earlier = &members[..seen.len()];
            let repeated = earlier.iter().any(|(other, _)| other.chars == name.chars);
            let after = |before: &Option<usize>| {
                before.is_none_or(|before| place.is_some_and(|place| place <= before))
            };
            let late = self.style == Style::Generate && place.is_some() && seen.iter().any(after);
            if repeated || late || !self.fits(part, &object.schemas(&name.chars), fuel) {
                return false;
            }
            seen.push(place);
        }
        let last = if seen.contains(&None) {
            object.names.len()
        } else {
            seen.iter().flatten().max().map_or(0, |at| at + 1)
        };
        let still = |at: &usize| !seen.contains(&Some(*at)) && (self.style == Style::Accept || *at >= last);
        let possible = |name: &str| self.fits(&Part::Nothing, &object.schemas(name), fuel - 1);
        let free: Vec<usize> =
            (0..object.names.len()).filter(still).filter(|at| possible(&object.names[*at])).collect();
        let missing =
            object.required.iter().filter_map(|name| place(name)).filter(|at| !seen.contains(&Some(*at)));
        let missing: Vec<usize> = missing.collect();
        if missing.iter().any(|at| !free.contains(at)) {
            return false;
        }
        let more = if end == End::Closed {
            0
        } else if possible(&object.other_name()) {
            usize::MAX
        } else {
            free.len()
        };
        let least =
            missing.len().max(usize::from(end == End::Comma)).max(object.min.saturating_sub(seen.len()));
        least <= more && seen.len() + least <= object.max
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

/// Returns a schema without `const` that accepts only `value`. The keyword `is`, which exists only
/// in this module, compares a scalar.
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
