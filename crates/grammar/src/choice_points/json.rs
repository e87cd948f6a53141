//! Choice points of JSON text.

use serde_json::Value;

use super::explorer::{Explorer, MAX_OPTIONS, Step, Verdict};
use super::scan::{Scalar, is_of_number, is_space, type_of};
use super::{ChoiceKind, ChoiceOption, ChoicePoint, OptionValue};
use crate::Grammar;
use crate::machine::Config;

/// Reads JSON text and finds its choice points.
pub(super) struct JsonReader {
    explorer: Explorer,
    config: Config,
    /// All bytes so far.
    text: Vec<u8>,
    /// Objects and arrays that are open, outermost first.
    open: Vec<Container>,
    expected: Expected,
    /// Value or name that is being read, with its start.
    scalar: Option<(Scalar, usize)>,
    /// Choice of the value that is being read.
    value: Option<Undecided>,
    /// Choice of what follows in the innermost object or array.
    follower: Option<Undecided>,
    found: Vec<ChoicePoint>,
}

/// An object or array that is open.
enum Container {
    /// An object, with the name of the last member.
    Object(String),
    /// An array, with the index of the last item.
    Array(usize),
}

/// What follows, apart from white space.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Value,
    /// The first item of an array, or its end.
    FirstItem,
    /// The first name of an object, or its end.
    FirstName,
    Name,
    Colon,
    /// A comma, or the end of the innermost object or array.
    CommaOrEnd,
    Nothing,
}

/// A choice point whose outcome is not known.
struct Undecided {
    start: usize,
    options: Vec<ChoiceOption>,
    to_end: bool,
}

/// State between the bytes of a text that names the next member, or ends an object.
enum Naming {
    Outside,
    Inside(Scalar),
}

impl JsonReader {
    pub(super) fn new(grammar: &Grammar) -> Self {
        let explorer = Explorer::new(grammar);
        Self {
            config: explorer.start(),
            explorer,
            text: Vec::new(),
            open: Vec::new(),
            expected: Expected::Value,
            scalar: None,
            value: None,
            follower: None,
            found: Vec::new(),
        }
    }

    pub(super) const fn is_spent(&self) -> bool {
        self.explorer.is_spent()
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<ChoicePoint> {
        for &byte in bytes {
            if self.config == Config::DEAD || self.explorer.is_spent() {
                self.config = Config::DEAD;
                break;
            }
            self.take(byte);
        }
        std::mem::take(&mut self.found)
    }

    pub(super) fn finish(&mut self) -> Vec<ChoicePoint> {
        if self.explorer.may_end(self.config) {
            self.end_scalar();
        }
        std::mem::take(&mut self.found)
    }

    fn take(&mut self, byte: u8) {
        match &mut self.scalar {
            Some((scalar, _)) => match scalar.next(byte) {
                Some(next) => {
                    *scalar = next;
                    self.step(byte);
                }
                None if *scalar == Scalar::Number => {
                    self.end_scalar();
                    self.take_structure(byte);
                }
                None => {
                    self.step(byte);
                    self.end_scalar();
                }
            },
            None => self.take_structure(byte),
        }
    }

    fn step(&mut self, byte: u8) {
        self.config = self.explorer.step(self.config, byte);
        self.text.push(byte);
    }

    /// Starts with a new place, at which choices may begin.
    fn begin_place(&mut self) {
        if self.explorer.is_large() {
            self.explorer.renew();
            let start = self.explorer.start();
            self.config = self.text.iter().fold(start, |config, &byte| self.explorer.step(config, byte));
        }
        self.explorer.begin_place();
    }

    /// Takes a byte between values.
    fn take_structure(&mut self, byte: u8) {
        if is_space(byte) {
            return self.step(byte);
        }
        let at = self.text.len();
        match (self.expected, byte) {
            (Expected::FirstItem | Expected::FirstName | Expected::CommaOrEnd, b']' | b'}') => {
                self.step(byte);
                let ended = if byte == b']' { Value::Bool(true) } else { Value::Null };
                self.decide_follower(&OptionValue::Value(ended));
                self.open.pop();
                self.end_value();
            }
            (Expected::CommaOrEnd, _) if matches!(self.open.last(), Some(Container::Object(_))) => {
                self.step(byte);
                self.expected = Expected::Name;
            }
            (Expected::CommaOrEnd, _) => {
                self.step(byte);
                self.decide_follower(&OptionValue::Value(Value::Bool(false)));
                if let Some(Container::Array(index)) = self.open.last_mut() {
                    *index += 1;
                }
                self.expected = Expected::Value;
            }
            (Expected::FirstName | Expected::Name, _) => {
                self.scalar = Some((Scalar::String(false), at));
                self.step(byte);
            }
            (Expected::Colon, _) => {
                self.step(byte);
                self.expected = Expected::Value;
            }
            (Expected::FirstItem | Expected::Value, _) => self.start_value(byte),
            (Expected::Nothing, _) => self.step(byte),
        }
    }

    fn start_value(&mut self, byte: u8) {
        let at = self.text.len();
        self.value = self.value_choice(at);
        self.scalar = Scalar::starting(byte).map(|scalar| (scalar, at));
        self.step(byte);
        if self.expected == Expected::FirstItem {
            self.decide_follower(&OptionValue::Value(Value::Bool(false)));
        }
        let kind = OptionValue::Type(type_of(byte));
        if self.value.as_ref().is_some_and(|choice| choice.options.iter().any(|option| option.value == kind))
        {
            let choice = self.value.take();
            self.decide(choice, ChoiceKind::Value, &kind);
        }
        if self.scalar.is_none() {
            self.value = None;
            let is_object = byte == b'{';
            self.open.push(if is_object { Container::Object(String::new()) } else { Container::Array(0) });
            self.expected = if is_object { Expected::FirstName } else { Expected::FirstItem };
            self.follower = self.follower_choice();
        }
    }

    /// Ends the value or name that is being read.
    fn end_scalar(&mut self) {
        let Some((_, start)) = self.scalar.take() else { return };
        let Ok(value) = serde_json::from_slice::<Value>(&self.text[start..]) else {
            // Some spellings of numbers have no value here.
            self.config = Config::DEAD;
            return;
        };
        if matches!(self.expected, Expected::FirstName | Expected::Name) {
            self.decide_follower(&OptionValue::Value(value.clone()));
            if let (Some(Container::Object(last)), Value::String(name)) = (self.open.last_mut(), value) {
                *last = name;
            }
            self.expected = Expected::Colon;
            return;
        }
        let choice = self.value.take();
        self.decide(choice, ChoiceKind::Value, &OptionValue::Value(value));
        self.end_value();
    }

    fn end_value(&mut self) {
        self.expected = if self.open.is_empty() { Expected::Nothing } else { Expected::CommaOrEnd };
        self.follower = self.follower_choice();
    }

    fn decide_follower(&mut self, value: &OptionValue) {
        let kind = match self.open.last() {
            Some(Container::Array(_)) => ChoiceKind::End,
            _ => ChoiceKind::Member,
        };
        let choice = self.follower.take();
        self.decide(choice, kind, value);
    }

    /// Adds a choice point that the text so far has decided.
    fn decide(&mut self, choice: Option<Undecided>, kind: ChoiceKind, value: &OptionValue) {
        let Some(Undecided { start, mut options, to_end }) = choice else { return };
        let is_value = |option: &ChoiceOption| option.value == *value;
        let any_name = OptionValue::Type("string");
        let is_any = |option: &ChoiceOption| kind == ChoiceKind::Member && option.value == any_name;
        let Some(chosen) = options.iter().position(is_value).or_else(|| options.iter().position(is_any))
        else {
            return;
        };
        let end = self.text.len();
        let Ok(written) = str::from_utf8(&self.text[start..]) else { return };
        let is_same = |text: &String| text.starts_with(written) || written.starts_with(text.as_str());
        if !options[chosen].texts.iter().any(is_same) {
            // All options get the white space that was written.
            let spaces = |text: &str| text.len() - text.trim_start().len();
            let (before, rest) = written.split_at(spaces(written));
            let after = rest.strip_prefix(',').map_or("", |rest| &rest[..spaces(rest)]);
            for text in options.iter_mut().flat_map(|option| &mut option.texts) {
                let rest = text.trim_start();
                *text = match rest.strip_prefix(',') {
                    Some(rest) => format!("{before},{after}{}", rest.trim_start()),
                    None => format!("{before}{rest}"),
                };
            }
        }
        let path = self.path(kind == ChoiceKind::Value);
        self.found.push(ChoicePoint { kind, path, start, end, options, chosen, to_end });
    }

    /// Returns the pointer of the innermost object or array, or of the value in it.
    fn path(&self, of_value: bool) -> String {
        let count = if of_value { self.open.len() } else { self.open.len().saturating_sub(1) };
        let mut path = String::new();
        for container in &self.open[..count] {
            path.push('/');
            match container {
                Container::Object(name) => path.push_str(&name.replace('~', "~0").replace('/', "~1")),
                Container::Array(index) => path.push_str(&index.to_string()),
            }
        }
        path
    }

    /// Returns the choice of the value that starts at the current place.
    fn value_choice(&mut self, start: usize) -> Option<Undecided> {
        self.begin_place();
        let is_root = self.open.is_empty();
        let following = self.explorer.following(self.config);
        let starts: Vec<u8> =
            following.iter().filter(|byte| !is_space(*byte) && !matches!(byte, b']' | b'}')).collect();
        let mut options: Vec<ChoiceOption> = Vec::new();
        let mut has_numbers = false;
        for kind in ["object", "array", "string", "number", "boolean", "null"] {
            let own: Vec<u8> = starts.iter().copied().filter(|&byte| type_of(byte) == kind).collect();
            let is_scalar = !matches!(kind, "object" | "array");
            if own.is_empty() {
                continue;
            }
            let values = if is_scalar { self.scalars(&own, is_root) } else { None };
            match values {
                Some(values) if options.len() + values.len() <= MAX_OPTIONS => {
                    has_numbers |= kind == "number";
                    options.extend(values);
                }
                _ => options.push(type_option(kind, &own)),
            }
        }
        let has_types = options.iter().any(|option| matches!(option.value, OptionValue::Type(_)));
        if is_root && has_numbers && has_types {
            // The end of the output belongs to numbers, but not to the first byte of a type.
            let is_number =
                |option: &ChoiceOption| matches!(&option.value, OptionValue::Value(Value::Number(_)));
            options.retain(|option| !is_number(option));
            options.push(type_option("number", &starts));
            has_numbers = false;
        }
        (options.len() > 1).then_some(Undecided { start, options, to_end: is_root && has_numbers })
    }

    /// Returns all values that start with the given bytes, or `None` if there are too many. A number outside
    /// of objects and arrays is followed by nothing. The texts of other numbers include the byte after
    /// them.
    fn scalars(&mut self, starts: &[u8], is_root: bool) -> Option<Vec<ChoiceOption>> {
        let judge = |state: &Option<Scalar>, step: Step<'_>| {
            let scalar = match state {
                None if !starts.contains(&step.byte) => return Verdict::Skip,
                None => Scalar::starting(step.byte),
                Some(scalar) => scalar.next(step.byte),
            };
            match scalar {
                None => Verdict::Complete,
                Some(Scalar::Number) if is_root && step.may_end => Verdict::Both(scalar),
                scalar => Verdict::Continue(scalar),
            }
        };
        let texts = self.explorer.enumerate(self.config, None, judge)?;
        let mut options: Vec<ChoiceOption> = Vec::new();
        for text in texts {
            let text = String::from_utf8(text).ok()?;
            let is_number = starts.first().is_some_and(|&byte| type_of(byte) == "number");
            let own = if is_number {
                text.trim_end_matches(|last: char| !last.is_ascii() || !is_of_number(last as u8))
            } else {
                &text
            };
            if is_root && is_number && own.len() < text.len() {
                continue;
            }
            let value = OptionValue::Value(serde_json::from_str(own).ok()?);
            match options.iter_mut().find(|option| option.value == value) {
                Some(option) => option.texts.push(text),
                None => options.push(ChoiceOption { value, texts: vec![text] }),
            }
        }
        Some(options)
    }

    /// Returns the choice of what follows in the innermost object or array. A number before it is complete.
    fn follower_choice(&mut self) -> Option<Undecided> {
        self.begin_place();
        let options = match self.open.last()? {
            Container::Object(_) => self.names().unwrap_or_else(|| self.ends(b'}')),
            Container::Array(_) => self.ends(b']'),
        };
        (options.len() > 1).then_some(Undecided { start: self.text.len(), options, to_end: false })
    }

    /// Returns the names of all members that may follow, and null if the object may end. Returns `None` if
    /// there are too many.
    fn names(&mut self) -> Option<Vec<ChoiceOption>> {
        let judge = |state: &Naming, step: Step<'_>| match state {
            Naming::Inside(scalar) => scalar
                .next(step.byte)
                .map_or(Verdict::Complete, |scalar| Verdict::Continue(Naming::Inside(scalar))),
            Naming::Outside if is_space(step.byte) && !is_layout(&step) => Verdict::Skip,
            Naming::Outside if is_of_number(step.byte) => Verdict::Skip,
            Naming::Outside if step.byte == b'"' => Verdict::Continue(Naming::Inside(Scalar::String(false))),
            Naming::Outside if step.byte == b'}' => Verdict::Complete,
            Naming::Outside => Verdict::Continue(Naming::Outside),
        };
        let texts = self.explorer.enumerate(self.config, Naming::Outside, judge)?;
        let option = |text: Vec<u8>| {
            let text = String::from_utf8(text).ok()?;
            let name = text.find('"').map(|at| serde_json::from_str::<Value>(&text[at..]));
            let value = OptionValue::Value(name.transpose().ok()?.unwrap_or_default());
            Some(ChoiceOption { value, texts: vec![text] })
        };
        (texts.len() <= MAX_OPTIONS).then(|| texts.into_iter().map(option).collect())?
    }

    /// Returns the end of the innermost object or array, and anything else.
    fn ends(&mut self, end: u8) -> Vec<ChoiceOption> {
        let is_first = self.expected == Expected::FirstItem;
        let judge = |(): &(), step: Step<'_>| match step.byte {
            byte if !is_first && is_of_number(byte) => Verdict::Skip,
            byte if !is_space(byte) => Verdict::Complete,
            _ if is_layout(&step) => Verdict::Continue(()),
            _ => Verdict::Skip,
        };
        let texts = self.explorer.enumerate(self.config, (), judge).unwrap_or_default();
        let texts: Vec<String> = texts.into_iter().filter_map(|text| String::from_utf8(text).ok()).collect();
        let (ends, others): (Vec<_>, Vec<_>) =
            texts.into_iter().partition(|text| text.as_bytes().last() == Some(&end));
        let (other, ended) = match end {
            b'}' => (OptionValue::Type("string"), Value::Null),
            _ => (OptionValue::Value(Value::Bool(false)), Value::Bool(true)),
        };
        let options = [(other, others), (OptionValue::Value(ended), ends)];
        let options = options.into_iter().filter(|(_, texts)| !texts.is_empty());
        options.map(|(value, texts)| ChoiceOption { value, texts }).collect()
    }
}

/// Returns the option of all values of a type, given the bytes with which values may start.
fn type_option(kind: &'static str, starts: &[u8]) -> ChoiceOption {
    let own = starts.iter().filter(|byte| type_of(**byte) == kind);
    let texts = own.map(|&byte| char::from(byte).to_string()).collect();
    ChoiceOption { value: OptionValue::Type(kind), texts }
}

/// Returns true if a byte of white space is the only one that may follow, as in a fixed layout.
fn is_layout(step: &Step<'_>) -> bool {
    step.following.iter().filter(|&byte| is_space(byte)).count() == 1
}
