//! Reads arguments that are members with texts around them, and writes them as JSON.

use std::sync::Arc;

use formwork_grammar::{ArgumentTypes, ValueType, ValueTypes};
use serde_json::Value;

use super::literals::{self, LiteralReader, escaped};
use super::{Deltas, held_back};
use crate::arguments::{Members, StringForm};
use crate::tags::{Beginning, Marked};

/// Incremental reader of the arguments of one call.
///
/// White space around names and values may differ from the layout. A value that has none of the types of
/// its schema is read as a string.
pub(super) struct MembersReader {
    layout: Arc<Members>,
    types: ArgumentTypes,
    /// Texts that may follow the arguments.
    ends: Vec<Marked>,
    place: Place,
    /// Number of members so far.
    members: usize,
}

enum Place {
    /// Before a member, or at the end.
    Member,
    Name,
    /// In a raw value that may have one of these types. True once the opening quote of a string was
    /// written.
    Raw(ValueTypes, bool),
    /// In a value that shows where it ends.
    Literal(LiteralReader),
    /// After a value, before this text.
    After(String),
}

/// Result of reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// More text is needed.
    Wait,
    /// The arguments have ended. The text after them is not read.
    Done,
}

impl MembersReader {
    /// Creates a reader of arguments that `schema` describes, and after which one of `ends` follows.
    pub(super) fn new(layout: &Arc<Members>, schema: Option<&Value>, ends: Vec<Marked>) -> Self {
        Self {
            layout: Arc::clone(layout),
            types: schema.map(ArgumentTypes::of).unwrap_or_default(),
            ends,
            place: Place::Member,
            members: 0,
        }
    }

    /// Reads as much of `held` as possible, and removes what was read.
    pub(super) fn read(&mut self, held: &mut String, deltas: &mut Deltas) -> Progress {
        loop {
            let progress = match &mut self.place {
                Place::Member => self.member(held),
                Place::Name => self.name(held, deltas),
                Place::Raw(types, begun) => {
                    let (types, begun) = (*types, *begun);
                    self.raw(held, types, begun, deltas)
                }
                Place::Literal(reader) => match reader.read(held, deltas) {
                    Progress::Wait => Some(Progress::Wait),
                    Progress::Done => {
                        self.place = Place::Member;
                        None
                    }
                },
                Place::After(rest) => match begins(held.trim_start(), rest) {
                    Beginning::Part => Some(Progress::Wait),
                    beginning => {
                        if let Beginning::Whole(len) = beginning {
                            *held = held.trim_start()[len..].to_owned();
                        }
                        self.place = Place::Member;
                        None
                    }
                },
            };
            match progress {
                None => {}
                Some(Progress::Wait) => return Progress::Wait,
                Some(Progress::Done) => {
                    deltas.arguments(if self.members == 0 { "{}" } else { "}" });
                    return Progress::Done;
                }
            }
        }
    }

    /// Reads what stands before a member's name, or finds that the arguments have ended.
    fn member(&mut self, held: &mut String) -> Option<Progress> {
        let layout = Arc::clone(&self.layout);
        let text = held.trim_start();
        if text.is_empty() {
            return Some(Progress::Wait);
        }
        let before = if self.members == 0 { layout.open.trim() } else { layout.separator.trim() };
        let expected = format!("{before}{}", layout.name_open.trim());
        if !expected.is_empty() {
            return match begins(text, &expected) {
                Beginning::Part => Some(Progress::Wait),
                Beginning::Different => Some(Progress::Done),
                Beginning::Whole(len) => {
                    *held = text[len..].to_owned();
                    self.place = Place::Name;
                    None
                }
            };
        }
        // Nothing announces the first name, so everything but the end is a name.
        let ends: Vec<Beginning> = self.ends.iter().map(|end| end.begins(text)).collect();
        let is_whole = ends.iter().any(|end| matches!(end, Beginning::Whole(_)));
        if is_whole || self.members > 0 && !ends.contains(&Beginning::Part) {
            return Some(Progress::Done);
        }
        if ends.contains(&Beginning::Part) {
            return Some(Progress::Wait);
        }
        self.place = Place::Name;
        None
    }

    fn name(&mut self, held: &mut String, deltas: &mut Deltas) -> Option<Progress> {
        let layout = Arc::clone(&self.layout);
        let texts: Vec<&str> = layout.around.iter().map(|(before, _)| before.trim()).collect();
        let found =
            ValueType::ALL.into_iter().zip(&texts).filter_map(|(kind, text)| Some((held.find(text)?, kind)));
        let Some(at) = found.clone().map(|(at, _)| at).min() else { return Some(Progress::Wait) };
        let kinds: ValueTypes = found.filter(|(place, _)| *place == at).map(|(_, kind)| kind).collect();
        let len = ValueType::ALL
            .into_iter()
            .find(|&kind| kinds.has(kind))
            .map_or(0, |kind| texts[kind as usize].len());
        let name = bare(held[..at].trim(), &layout.strings).to_owned();
        held.drain(..at + len);
        let types = self.types.get(&name);
        deltas.arguments(if self.members == 0 { "{" } else { ", " });
        deltas.arguments(&format!("\"{}\": ", escaped(&name)));
        self.members += 1;
        self.place = match &layout.strings {
            StringForm::Raw { .. } => {
                // Where the text before the value tells strings from other values, it decides.
                let string = ValueTypes::NONE.with(ValueType::String);
                let types = match kinds {
                    ValueTypes::ALL => types,
                    kinds if kinds == string => string,
                    kinds => kinds.without(ValueType::String),
                };
                Place::Raw(types, false)
            }
            StringForm::Quoted { open, close } => {
                Place::Literal(LiteralReader::new(Some((open.clone(), close.clone()))))
            }
            StringForm::Python => Place::Literal(LiteralReader::new(None)),
        };
        None
    }

    fn raw(
        &mut self,
        held: &mut String,
        types: ValueTypes,
        begun: bool,
        deltas: &mut Deltas,
    ) -> Option<Progress> {
        let layout = Arc::clone(&self.layout);
        let StringForm::Raw { end } = &layout.strings else { return Some(Progress::Done) };
        let (before, after) = layout.around(ValueType::String);
        let is_string = types == ValueTypes::NONE.with(ValueType::String);
        let found = held.find(end.as_str());
        if !begun && is_string {
            if held.is_empty() {
                return Some(Progress::Wait);
            }
            if before.ends_with('\n') && held.starts_with('\n') && found != Some(0) {
                // A value without text may have one line break for both sides.
                if found.is_none() && held.len() == 1 {
                    return Some(Progress::Wait);
                }
                held.remove(0);
            }
            deltas.arguments("\"");
            self.place = Place::Raw(types, true);
            return None;
        }
        let ends_line = after.starts_with('\n');
        let Some(at) = found else {
            if is_string {
                let mut keep = held_back(held, end);
                let shown = &held[..held.len() - keep];
                keep += usize::from(ends_line && shown.ends_with('\n'));
                let shown = held.len() - keep;
                deltas.arguments(&escaped(&held[..shown]));
                held.drain(..shown);
            }
            return Some(Progress::Wait);
        };
        let mut text = &held[..at];
        if !begun && before.ends_with('\n') {
            text = text.strip_prefix('\n').unwrap_or(text);
        }
        if ends_line {
            text = text.strip_suffix('\n').unwrap_or(text);
        }
        if is_string {
            deltas.arguments(&format!("{}\"", escaped(text)));
        } else {
            deltas.arguments(&literals::typed(text, types));
        }
        held.drain(..at + end.len());
        let rest = after.trim().strip_prefix(end.as_str()).unwrap_or_default().trim();
        self.place = Place::After(rest.to_owned());
        None
    }
}

/// Compares the start of `text` with `expected`, in which white space may be missing.
fn begins(text: &str, expected: &str) -> Beginning {
    let mut rest = text;
    for c in expected.chars() {
        if c.is_whitespace() {
            rest = rest.strip_prefix(c).unwrap_or(rest);
            continue;
        }
        let Some(next) = rest.chars().next() else { return Beginning::Part };
        if next != c {
            return Beginning::Different;
        }
        rest = &rest[c.len_utf8()..];
    }
    Beginning::Whole(text.len() - rest.len())
}

/// Returns a name without quotes.
fn bare<'n>(name: &'n str, strings: &StringForm) -> &'n str {
    let within = |open: &str, close: &str| name.strip_prefix(open)?.strip_suffix(close);
    let quoted = match strings {
        StringForm::Raw { .. } => return name,
        StringForm::Quoted { open, close } => within(open, close),
        StringForm::Python => None,
    };
    quoted.or_else(|| within("\"", "\"")).or_else(|| within("'", "'")).unwrap_or(name)
}
