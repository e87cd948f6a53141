//! Reads arguments whose members repeat their names after the value, and writes them as JSON.

use std::collections::BTreeSet;
use std::sync::Arc;

use formwork_grammar::{ArgumentTypes, ValuePlace, ValueType, ValueTypes};
use serde_json::Value;

use super::literals::{self, escaped};
use super::members::{Progress, search_start};
use super::{Deltas, held_back};
use crate::arguments::{Members, NestedForm};
use crate::tags::{Beginning, Marked};

/// Maximum length of a name and of a closing tag, in bytes. Longer ones end the arguments.
const NAME_LEN: usize = 1024;

/// Incremental reader of the arguments of one call.
///
/// White space between tags may differ from the layout. Closing tags close the last open one, whatever
/// their name is. The end of the call closes all open tags.
pub(super) struct NestedReader {
    layout: Arc<Members>,
    types: ArgumentTypes,
    /// Texts that may follow the arguments.
    ends: Vec<Marked>,
    place: Place,
    /// The open arrays and objects. The first one is the object of all arguments.
    open: Vec<Open>,
    /// Names of the open tags. All except that of a value without structure belong to an array or object.
    path: Vec<String>,
    /// Number of open tags around a member whose name was there before, which is left out.
    skipped: Option<usize>,
}

struct Open {
    is_array: bool,
    place: ValuePlace,
    is_empty: bool,
    /// Names of the members so far.
    names: BTreeSet<String>,
}

enum Place {
    /// Before a tag in an array or object.
    Part,
    /// In the name of an opening tag.
    Name,
    /// Before the value of a tag.
    Value(ValuePlace),
    /// In a raw value that may have one of these types. The flag is true once the opening quote of a
    /// string was written, and the number of bytes was searched for the end of the value.
    Text(ValueTypes, bool, usize),
    /// Before a closing tag.
    Close,
}

impl Open {
    const fn new(is_array: bool, place: ValuePlace) -> Self {
        Self { is_array, place, is_empty: true, names: BTreeSet::new() }
    }

    const fn end(&self) -> &'static str {
        match (self.is_array, self.is_empty) {
            (true, true) => "[]",
            (true, false) => "]",
            (false, true) => "{}",
            (false, false) => "}",
        }
    }
}

impl NestedReader {
    /// Creates a reader of arguments that `schema` describes, and after which one of `ends` follows.
    pub(super) fn new(layout: &Arc<Members>, schema: Option<&Value>, ends: Vec<Marked>) -> Self {
        Self {
            layout: Arc::clone(layout),
            types: schema.map(ArgumentTypes::of_all_values).unwrap_or_default(),
            ends,
            place: Place::Part,
            open: vec![Open::new(false, ValuePlace::ROOT)],
            path: Vec::new(),
            skipped: None,
        }
    }

    /// Reads as much of `held` as possible, and removes what was read.
    pub(super) fn read(&mut self, held: &mut String, deltas: &mut Deltas) -> Progress {
        let layout = Arc::clone(&self.layout);
        loop {
            let progress = match self.place {
                Place::Part => self.part(&layout, held),
                Place::Name => self.name(&layout, held, deltas),
                Place::Value(place) => self.value(&layout, held, place),
                Place::Text(types, begun, searched) => self.text(held, types, (begun, searched), deltas),
                Place::Close => self.close(&layout, held, deltas),
            };
            match progress {
                None => {}
                Some(Progress::Wait) => return Progress::Wait,
                Some(Progress::Done) => {
                    while let Some(open) = self.open.pop() {
                        self.path.truncate(self.open.len());
                        if self.skipped.is_none_or(|skipped| self.open.len() <= skipped) {
                            deltas.arguments(open.end());
                        }
                    }
                    return Progress::Done;
                }
            }
        }
    }

    fn emit(&self, text: &str, deltas: &mut Deltas) {
        if self.skipped.is_none() {
            deltas.arguments(text);
        }
    }

    /// Reads what stands before a tag.
    fn part(&mut self, layout: &Members, held: &mut String) -> Option<Progress> {
        let text = held.trim_start();
        let (name_open, close) = (layout.name_open.as_str(), layout.end_of_text());
        let is_root = self.open.len() == 1;
        if text.starts_with(close) {
            if is_root {
                return Some(Progress::Done);
            }
            *held = text.to_owned();
            self.place = Place::Close;
            return None;
        }
        if close.starts_with(text) || name_open.starts_with(text) {
            return Some(Progress::Wait);
        }
        if let Some(rest) = text.strip_prefix(name_open) {
            *held = rest.to_owned();
            self.place = Place::Name;
            return None;
        }
        if is_root {
            return Some(Progress::Done);
        }
        // Text between tags has no meaning.
        let Some(at) = held.find(name_open) else {
            let kept = held.len() - held_back(held, name_open);
            held.drain(..kept);
            return Some(Progress::Wait);
        };
        held.drain(..at);
        None
    }

    fn name(&mut self, layout: &Members, held: &mut String, deltas: &mut Deltas) -> Option<Progress> {
        let before = &layout.around(ValueType::String).0;
        let Some(at) = held.find(before.trim()) else { return wait_for_name(held) };
        let name = held[..at].trim().to_owned();
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '<' | '=')) {
            // Not a member, so the arguments have ended.
            held.insert_str(0, &layout.name_open);
            return Some(Progress::Done);
        }
        let Some(open) = self.open.last_mut() else { return Some(Progress::Done) };
        let is_empty = std::mem::replace(&mut open.is_empty, false);
        let (is_array, parent) = (open.is_array, open.place);
        let is_repeated = !is_array && !open.names.insert(name.clone());
        if is_repeated && self.skipped.is_none() {
            self.skipped = Some(self.path.len());
        }
        self.emit(if is_empty { if is_array { "[" } else { "{" } } else { ", " }, deltas);
        let place = if is_array {
            self.types.item(parent)
        } else {
            self.emit(&format!("\"{}\": ", escaped(&name)), deltas);
            self.types.member(parent, &name)
        };
        held.drain(..at + before.trim().len());
        self.path.push(name);
        self.place = Place::Value(place);
        None
    }

    /// Determines from the start of a value whether it is an array or object.
    fn value(&mut self, layout: &Members, held: &str, place: ValuePlace) -> Option<Progress> {
        let types = self.types.types(place);
        let (may_be_array, may_be_object) = (types.has(ValueType::Array), types.has(ValueType::Object));
        let is_nested = layout.nested == NestedForm::Tags && (may_be_array || may_be_object);
        let text = if types.has(ValueType::String) { held } else { held.trim_start() };
        let (name_open, close) = (layout.name_open.as_str(), layout.end_of_text());
        if is_nested && !text.starts_with(close) {
            if close.starts_with(text) || name_open.starts_with(text) {
                return Some(Progress::Wait);
            }
            if let Some(rest) = text.strip_prefix(name_open) {
                let item = format!("{}{}", layout.item_name, layout.around(ValueType::String).0.trim());
                if may_be_array && may_be_object && item.starts_with(rest) && item != rest {
                    return Some(Progress::Wait);
                }
                let is_array = may_be_array && (!may_be_object || rest.starts_with(&item));
                self.open.push(Open::new(is_array, place));
                self.place = Place::Part;
                return None;
            }
        }
        self.place = Place::Text(types, false, 0);
        None
    }

    fn text(
        &mut self,
        held: &mut String,
        types: ValueTypes,
        (begun, searched): (bool, usize),
        deltas: &mut Deltas,
    ) -> Option<Progress> {
        let layout = Arc::clone(&self.layout);
        let (before, after) = layout.around(ValueType::String);
        let close = layout.end_of_text();
        let is_string = types == ValueTypes::NONE.with(ValueType::String);
        if !begun && is_string {
            if held.is_empty() {
                return Some(Progress::Wait);
            }
            if before.ends_with('\n') && held.starts_with('\n') {
                held.remove(0);
            }
            self.emit("\"", deltas);
            self.place = Place::Text(types, true, 0);
            return None;
        }
        let start = search_start(held, searched, close);
        let Some(at) = held[start..].find(close).map(|at| start + at) else {
            if is_string {
                let mut shown = held.len() - held_back(held, close);
                shown -= usize::from(after.starts_with('\n') && held[..shown].ends_with('\n'));
                self.emit(&escaped(&held[..shown]), deltas);
                held.drain(..shown);
            }
            self.place = Place::Text(types, begun, held.len());
            return Some(Progress::Wait);
        };
        let mut text = &held[..at];
        if !begun && before.ends_with('\n') {
            text = text.strip_prefix('\n').unwrap_or(text);
        }
        if after.starts_with('\n') {
            text = text.strip_suffix('\n').unwrap_or(text);
        }
        let json = if is_string { escaped(text) + "\"" } else { typed(&layout, text, types) };
        self.emit(&json, deltas);
        held.drain(..at);
        self.place = Place::Close;
        None
    }

    /// Reads a closing tag.
    fn close(&mut self, layout: &Members, held: &mut String, deltas: &mut Deltas) -> Option<Progress> {
        let name_close = layout.name_close.as_deref().unwrap_or_default().trim();
        let rest = &held[layout.end_of_text().len()..];
        let Some(at) = rest.find(name_close) else { return wait_for_name(rest) };
        if self.path.last().is_some_and(|name| rest[..at].trim() != name) {
            let ends: Vec<Beginning> = self.ends.iter().map(|end| end.begins_loosely(held)).collect();
            if ends.iter().any(|end| matches!(end, Beginning::Whole(_))) {
                return Some(Progress::Done);
            }
            if ends.contains(&Beginning::Part) {
                return Some(Progress::Wait);
            }
        }
        held.drain(..held.len() - rest.len() + at + name_close.len());
        if self.open.len() > self.path.len()
            && let Some(open) = self.open.pop()
        {
            self.emit(open.end(), deltas);
        }
        self.path.pop();
        if self.skipped == Some(self.path.len()) {
            self.skipped = None;
        }
        self.place = Place::Part;
        None
    }
}

/// Waits for the rest of a name, unless it is too long already.
#[allow(clippy::unnecessary_wraps, reason = "as the readers return it")]
fn wait_for_name(name: &str) -> Option<Progress> {
    Some(if name.len() <= NAME_LEN { Progress::Wait } else { Progress::Done })
}

/// Returns the JSON text of a raw value that has one of `types`.
fn typed(layout: &Members, text: &str, types: ValueTypes) -> String {
    if layout.nested != NestedForm::Tags {
        return literals::typed(text, types);
    }
    let has = |kind| types.has(kind);
    if has(ValueType::String) {
        // Arrays, objects and `null` have other texts.
        let types = types.without(ValueType::Array).without(ValueType::Object);
        let null = if layout.literals[0].is_empty() { types.without(ValueType::Null) } else { types };
        return literals::typed(text, null);
    }
    let empty = [(ValueType::Array, "[]"), (ValueType::Object, "{}"), (ValueType::Null, "null")];
    let empty = empty.into_iter().filter(|_| text.trim().is_empty()).find(|&(kind, _)| has(kind));
    empty.map_or_else(|| literals::typed(text, types), |(_, json)| json.to_owned())
}
