//! Reads arguments that are members with texts around them, and writes them as JSON.

use std::collections::BTreeSet;
use std::sync::Arc;

use formwork_grammar::{ArgumentTypes, ValueType, ValueTypes};
use serde_json::Value;

use super::literals::{self, LiteralReader, escaped};
use super::{Deltas, held_back};
use crate::arguments::{Members, Section, StringForm};
use crate::tags::{Beginning, Marked, begins_loosely};

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
    /// Names of the members so far.
    names: BTreeSet<String>,
    /// True in a member whose name was there before, which is left out.
    skips: bool,
}

enum Place {
    /// Before a member, or at the end.
    Member,
    Name,
    /// In a raw value that may have one of these types. The flag is true once the opening quote of a
    /// string was written, and the number of bytes was searched for the end of the value.
    Raw(ValueTypes, bool, usize),
    /// In a section of raw text, with the fields of [`Raw`](Self::Raw).
    Section(ValueTypes, bool, usize),
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
            names: BTreeSet::new(),
            skips: false,
        }
    }

    /// Reads as much of `held` as possible, and removes what was read.
    pub(super) fn read(&mut self, held: &mut String, deltas: &mut Deltas) -> Progress {
        loop {
            // What a member that is left out has.
            let mut skipped = Deltas::default();
            let progress = match &mut self.place {
                Place::Member => self.member(held),
                Place::Name => self.name(held, deltas),
                Place::Raw(types, begun, searched) => {
                    let (types, begun, searched) = (*types, *begun, *searched);
                    let deltas = if self.skips { &mut skipped } else { &mut *deltas };
                    self.raw(held, types, (begun, searched), deltas)
                }
                Place::Section(types, begun, searched) => {
                    let (types, begun, searched) = (*types, *begun, *searched);
                    let deltas = if self.skips { &mut skipped } else { &mut *deltas };
                    self.section(held, types, (begun, searched), deltas)
                }
                Place::Literal(reader) => {
                    let deltas = if self.skips { &mut skipped } else { &mut *deltas };
                    let progress = reader.read(held, deltas);
                    if progress == Progress::Done {
                        self.place = Place::Member;
                    }
                    (progress == Progress::Wait).then_some(Progress::Wait)
                }
                Place::After(rest) => match begins_loosely(held.trim_start(), rest) {
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
                    deltas.arguments(if self.names.is_empty() { "{}" } else { "}" });
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
        let before = if self.names.is_empty() { &layout.open } else { &layout.separator };
        let expected = format!("{before}{}", layout.name_open);
        if !expected.trim().is_empty() {
            return match begins_loosely(text, expected.trim_start()) {
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
        let ends: Vec<Beginning> = self.ends.iter().map(|end| end.begins_loosely(text)).collect();
        let is_whole = ends.iter().any(|end| matches!(end, Beginning::Whole(_)));
        if is_whole || !self.names.is_empty() && !ends.contains(&Beginning::Part) {
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
        let Some(at) = texts.iter().filter_map(|text| held.find(first_tag(text))).min() else {
            return Some(Progress::Wait);
        };
        let rest = &held[at..];
        let found: Vec<Beginning> = texts.iter().map(|text| begins_loosely(rest, text)).collect();
        let whole = |kind: ValueType| match found[kind as usize] {
            Beginning::Whole(len) => Some(len),
            Beginning::Part | Beginning::Different => None,
        };
        let kinds: ValueTypes = ValueType::ALL.into_iter().filter(|&kind| whole(kind).is_some()).collect();
        let len = ValueType::ALL.into_iter().filter_map(whole).max();
        let Some(len) =
            len.or_else(|| (!found.contains(&Beginning::Part)).then(|| first_tag(texts[0]).len()))
        else {
            return Some(Progress::Wait);
        };
        let name = bare(held[..at].trim(), &layout.strings).to_owned();
        held.drain(..at + len.min(held.len() - at));
        let types = self.types.get(&name);
        let is_first = self.names.is_empty();
        self.skips = !self.names.insert(name.clone());
        if !self.skips {
            deltas.arguments(if is_first { "{" } else { ", " });
            deltas.arguments(&format!("\"{}\": ", escaped(&name)));
        }
        self.place = match &layout.strings {
            StringForm::Raw { .. } => {
                // Where the text before the value tells strings from other values, it decides.
                let string = ValueTypes::NONE.with(ValueType::String);
                let types = match kinds {
                    ValueTypes::ALL | ValueTypes::NONE => types,
                    kinds if kinds == string => string,
                    kinds if !kinds.has(ValueType::String) => kinds,
                    kinds => ValueType::ALL
                        .into_iter()
                        .filter(|&kind| types.has(kind) && kinds.has(kind))
                        .collect(),
                };
                Place::Raw(types, false, 0)
            }
            StringForm::Quoted { open, close } => {
                Place::Literal(LiteralReader::new(Some((open.clone(), close.clone()))))
            }
            StringForm::Json | StringForm::Python => Place::Literal(LiteralReader::new(None)),
        };
        None
    }

    fn raw(
        &mut self,
        held: &mut String,
        types: ValueTypes,
        (begun, searched): (bool, usize),
        deltas: &mut Deltas,
    ) -> Option<Progress> {
        let layout = Arc::clone(&self.layout);
        let StringForm::Raw { end, section } = &layout.strings else { return Some(Progress::Done) };
        if let Some(section) = section.as_ref().filter(|_| !begun) {
            let text = held.trim_start();
            if let Some(rest) = text.strip_prefix(&section.open) {
                *held = rest.to_owned();
                self.place = Place::Section(types, false, 0);
                return None;
            }
            if section.open.starts_with(text) {
                return Some(Progress::Wait);
            }
        }
        let (before, after) = layout.around(ValueType::String);
        let is_string = types == ValueTypes::NONE.with(ValueType::String);
        let start = search_start(held, searched, end);
        let found = held[start..].find(end.as_str()).map(|at| start + at);
        if !begun && is_string {
            if held.is_empty() {
                return Some(Progress::Wait);
            }
            if before.ends_with('\n') && held.starts_with('\n') {
                held.remove(0);
            }
            deltas.arguments("\"");
            self.place = Place::Raw(types, true, 0);
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
            self.place = Place::Raw(types, begun, held.len());
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

    /// Reads a section of raw text after its opening.
    fn section(
        &mut self,
        held: &mut String,
        types: ValueTypes,
        (begun, searched): (bool, usize),
        deltas: &mut Deltas,
    ) -> Option<Progress> {
        let layout = Arc::clone(&self.layout);
        let StringForm::Raw { section: Some(Section { close, .. }), .. } = &layout.strings else {
            return Some(Progress::Done);
        };
        let is_string = types.has(ValueType::String);
        if is_string && !begun {
            deltas.arguments("\"");
            self.place = Place::Section(types, true, 0);
            return None;
        }
        let start = search_start(held, searched, close);
        let Some(at) = held[start..].find(close.as_str()).map(|at| start + at) else {
            if is_string {
                let shown = held.len() - held_back(held, close);
                deltas.arguments(&escaped(&held[..shown]));
                held.drain(..shown);
            }
            self.place = Place::Section(types, begun, held.len());
            return Some(Progress::Wait);
        };
        if is_string {
            deltas.arguments(&format!("{}\"", escaped(&held[..at])));
        } else {
            deltas.arguments(&literals::typed(&held[..at], types));
        }
        held.drain(..at + close.len());
        self.place = Place::After(layout.around(ValueType::String).1.trim().to_owned());
        None
    }
}

/// Returns the place from which `marker` must be searched in `text`. The first `searched` bytes do not
/// contain the marker.
pub(super) fn search_start(text: &str, searched: usize, marker: &str) -> usize {
    let mut start = searched.saturating_sub(marker.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    start
}

/// Returns `text` up to the end of its first tag, or the whole text if it has no tag.
pub(super) fn first_tag(text: &str) -> &str {
    text.find('>').map_or(text, |at| &text[..=at])
}

/// Returns a name without quotes.
fn bare<'n>(name: &'n str, strings: &StringForm) -> &'n str {
    let within = |open: &str, close: &str| name.strip_prefix(open)?.strip_suffix(close);
    let quoted = match strings {
        StringForm::Raw { .. } => return name,
        StringForm::Quoted { open, close } => within(open, close),
        StringForm::Json | StringForm::Python => None,
    };
    quoted.or_else(|| within("\"", "\"")).or_else(|| within("'", "'")).unwrap_or(name)
}
