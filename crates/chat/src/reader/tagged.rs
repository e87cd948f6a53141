use formwork_grammar::Trigger;
use formwork_vocab::TokenId;

use super::json::ObjectEnd;
use super::members::{MembersReader, Progress, first_tag};
use super::nested::NestedReader;
use super::{Deltas, held_back};
use crate::answer::Content;
use crate::arguments::{Arguments, Members};
use crate::format::{CallFormat, ChatFormat, Tags, Thoughts};
use crate::tags::{Beginning, Marked, Piece};
use crate::tool::{Tool, Tools};

/// Reader of thoughts in tags, then content, then calls.
pub(super) struct Tagged {
    calls: CallFormat,
    thoughts: Option<Tags>,
    has_tools: bool,
    /// The tools, if their schemas tell how arguments are read.
    tools: Vec<Tool>,
    /// True if calls may start inside content.
    in_content: bool,
    /// True if calls may start inside thoughts.
    in_thoughts: bool,
    /// White space before the opening that is read, if the opening stands inside thoughts.
    gap: Option<String>,
    place: Place,
    /// Text that is not parsed yet.
    held: String,
}

enum Place {
    /// At the start. True if thoughts may follow.
    Start(bool),
    Thoughts,
    /// After thoughts. Whitespace here belongs neither to the thoughts nor to the content.
    Gap,
    /// Before content or calls.
    Body,
    Content,
    /// After a section of content.
    AfterContent,
    /// In the opening of a call, after the text `read`.
    Opening {
        opening: Marked,
        read: String,
    },
    /// In a name. Has the text of the call so far if the call is the first.
    Name(String),
    Arguments(ObjectEnd),
    /// In arguments that are not JSON.
    Members(MembersReader),
    /// In arguments whose members repeat their names.
    Nested(NestedReader),
    /// After a call's arguments.
    Between,
    /// After the last call, or after the text left the format.
    Rest,
}

/// Result of a parsing step.
#[derive(PartialEq, Eq)]
enum Step {
    Again,
    Wait,
}

impl Tagged {
    pub(super) fn new(format: &ChatFormat, content: &Content, tools: &Tools, thoughts: Thoughts) -> Self {
        let has_tools = !tools.tools.is_empty();
        let shaped = matches!(content, Content::Shaped(_));
        let place = match thoughts {
            Thoughts::Begun => Place::Thoughts,
            Thoughts::Possible => Place::Start(true),
            Thoughts::None => Place::Start(false),
            Thoughts::InContent => Place::Content,
        };
        Self {
            calls: format.calls_beside(shaped && !tools.required),
            thoughts: format.thoughts.clone(),
            has_tools,
            tools: if format.has_own_arguments() { tools.tools.clone() } else { Vec::new() },
            in_content: has_tools && !shaped && !tools.required,
            in_thoughts: false,
            gap: None,
            place,
            held: String::new(),
        }
    }

    pub(super) fn allow_calls_in_thoughts(&mut self, tools: &Tools) {
        self.in_thoughts = self.has_tools;
        self.tools.clone_from(&tools.tools);
    }

    pub(super) fn text(&mut self, text: &str, deltas: &mut Deltas) {
        self.held.push_str(text);
        while self.step(deltas) == Step::Again {}
    }

    pub(super) fn control(&mut self, token: TokenId, spelling: &str, deltas: &mut Deltas) {
        if self.calls.section.is_some() && matches!(self.place, Place::Content | Place::AfterContent) {
            // The token may belong to the end of the section, or to calls after the section.
            self.text(spelling, deltas);
            return;
        }
        let thinks = self.in_thoughts && matches!(self.place, Place::Thoughts);
        let triggers = (thinks
            || matches!(self.place, Place::Start(_) | Place::Gap | Place::Body | Place::Content))
            && self.has_tools
            && self.calls.section.is_none()
            && matches!(self.calls.trigger(), Some((Trigger::Token(trigger), _)) if trigger == token);
        if triggers && thinks {
            self.show_thought(self.held.len(), deltas);
            self.open(spelling);
            return;
        }
        if triggers {
            self.show_content(deltas);
            self.open(spelling);
            return;
        }
        match self.place {
            // An unrelated control token: neither text nor part of the format.
            Place::Content | Place::Rest | Place::Arguments(_) => {}
            Place::Thoughts
                if !self.thoughts.as_ref().is_some_and(|tags| tags.close.text().contains(spelling)) => {}
            _ => self.text(spelling, deltas),
        }
    }

    pub(super) const fn is_outside_content(&self) -> bool {
        !matches!(self.place, Place::Start(_) | Place::Body | Place::Content | Place::Opening { .. })
    }

    pub(super) fn finish(&mut self, deltas: &mut Deltas) {
        let held = std::mem::take(&mut self.held);
        match &self.place {
            Place::Start(_) | Place::Body | Place::Content => deltas.content(&held),
            Place::Thoughts => deltas.thought(&held),
            // A call after other calls.
            Place::Name(opened) if opened.is_empty() => {}
            // A call without the end of its name is text.
            Place::Opening { read: opened, .. } | Place::Name(opened) => match &self.gap {
                Some(gap) => deltas.thought(&format!("{gap}{opened}{held}")),
                None => deltas.content(&format!("{opened}{held}")),
            },
            Place::Gap
            | Place::AfterContent
            | Place::Arguments(_)
            | Place::Members(_)
            | Place::Nested(_)
            | Place::Between
            | Place::Rest => {}
        }
    }

    fn step(&mut self, deltas: &mut Deltas) -> Step {
        match &mut self.place {
            Place::Start(may_think) => {
                let may_think = *may_think;
                self.start(may_think)
            }
            Place::Thoughts => self.in_thoughts(deltas),
            Place::Gap => {
                self.held = self.held.trim_start().to_owned();
                if self.held.is_empty() {
                    return Step::Wait;
                }
                self.place = Place::Body;
                Step::Again
            }
            Place::Body => self.body(),
            Place::Content => self.content(deltas),
            Place::AfterContent => {
                let begins = self.calls.open.begins(&self.held);
                if self.has_tools && begins == Beginning::Part {
                    return Step::Wait;
                }
                if self.has_tools && begins != Beginning::Different {
                    self.open("");
                } else {
                    self.place = Place::Rest;
                }
                Step::Again
            }
            Place::Opening { opening, read } => {
                let text = format!("{read}{}", self.held);
                let is_json = self.calls.arguments == Arguments::Json;
                match if is_json { opening.begins(&text) } else { opening.begins_loosely(&text) } {
                    Beginning::Part => return Step::Wait,
                    Beginning::Whole(len) => {
                        text[len..].clone_into(&mut self.held);
                        self.place = Place::Name(text[..len].to_owned());
                    }
                    // The text is not an opening after all.
                    Beginning::Different => self.reject(text, deltas),
                }
                Step::Again
            }
            Place::Name(opened) => {
                let opened = std::mem::take(opened);
                self.name(opened, deltas)
            }
            Place::Members(reader) => {
                let progress = reader.read(&mut self.held, deltas);
                self.after_arguments(progress)
            }
            Place::Nested(reader) => {
                let progress = reader.read(&mut self.held, deltas);
                self.after_arguments(progress)
            }
            Place::Arguments(end) => {
                let Some(at) = end.find(&self.held) else {
                    deltas.arguments(&std::mem::take(&mut self.held));
                    return Step::Wait;
                };
                deltas.arguments(&self.held[..at]);
                self.held.drain(..at);
                self.place = Place::Between;
                Step::Again
            }
            Place::Between => self.between(),
            Place::Rest => {
                self.held.clear();
                Step::Wait
            }
        }
    }

    fn after_arguments(&mut self, progress: Progress) -> Step {
        if progress == Progress::Wait {
            return Step::Wait;
        }
        self.place = Place::Between;
        Step::Again
    }

    fn start(&mut self, may_think: bool) -> Step {
        let text = self.held.trim_start();
        if let (true, Some(tags)) = (may_think, &self.thoughts) {
            let open = tags.open.text();
            if let Some(rest) = text.strip_prefix(&open) {
                self.held = rest.to_owned();
                self.place = Place::Thoughts;
                return Step::Again;
            }
            let close = tags.close.text();
            if let Some(rest) = text.strip_prefix(&close).filter(|_| tags.closes_alone) {
                self.held = rest.to_owned();
                self.thoughts = None;
                self.place = Place::Gap;
                return Step::Again;
            }
            if open.starts_with(text) || tags.closes_alone && close.starts_with(text) {
                return Step::Wait;
            }
        }
        if self.held.is_empty() {
            return Step::Wait;
        }
        self.place = Place::Body;
        Step::Again
    }

    fn in_thoughts(&mut self, deltas: &mut Deltas) -> Step {
        let close = self.thoughts.as_ref().map(|tags| tags.close.text()).unwrap_or_default();
        let marker = self.marker_in_thoughts();
        let call = marker.as_ref().and_then(|marker| self.held.find(marker.as_str()));
        if let Some(at) = self.held.find(&close).filter(|at| call.is_none_or(|call| *at < call)) {
            deltas.thought(&self.held[..at]);
            self.held.drain(..at + close.len());
            self.place = Place::Gap;
            self.thoughts = None;
            return Step::Again;
        }
        if let Some(at) = call {
            self.show_thought(at, deltas);
            self.open("");
            return Step::Again;
        }
        let mut keep = held_back(&self.held, &close);
        if let Some(marker) = marker {
            keep = keep.max(held_back(&self.held, &marker));
            // White space before a call does not belong to the thoughts.
            keep = self.held.len() - self.held[..self.held.len() - keep].trim_end().len();
        }
        deltas.thought(&self.held[..self.held.len() - keep]);
        self.held.drain(..self.held.len() - keep);
        Step::Wait
    }

    /// Returns the text that starts a call inside thoughts. `None` if thoughts have no calls.
    fn marker_in_thoughts(&self) -> Option<String> {
        let (trigger, _) = self.calls.trigger().filter(|_| self.in_thoughts)?;
        match trigger {
            Trigger::Text(text) => Some(text),
            // Its spelling, if the text has the spellings of control tokens.
            Trigger::Token(_) => match self.opening().0.first() {
                Some(Piece::Token(_, spelling)) => Some(spelling.clone()),
                _ => None,
            },
        }
    }

    /// Treats `text`, which is not a call, as thoughts or content.
    fn reject(&mut self, text: String, deltas: &mut Deltas) {
        let Some(gap) = self.gap.take() else {
            self.held = text;
            self.in_content = false;
            self.place = Place::Content;
            return;
        };
        // The marker must not be found again.
        let marker = self.marker_in_thoughts().unwrap_or_default();
        let (start, rest) = text.split_at(if text.starts_with(&marker) { marker.len() } else { 0 });
        deltas.thought(&gap);
        deltas.thought(start);
        self.held = rest.to_owned();
        self.place = Place::Thoughts;
    }

    /// Decides between content and calls by the first text after thoughts.
    fn body(&mut self) -> Step {
        if let Some(section) = &self.calls.section {
            match section.tags.open.begins(&self.held) {
                Beginning::Part => return Step::Wait,
                Beginning::Whole(len) => {
                    self.held.drain(..len);
                }
                Beginning::Different => {}
            }
            self.place = Place::Content;
            return Step::Again;
        }
        let content_open = self.calls.content_open.as_str();
        if !content_open.is_empty() {
            if let Some(rest) = self.held.strip_prefix(content_open) {
                self.held = rest.to_owned();
                self.place = Place::Content;
                return Step::Again;
            }
            if content_open.starts_with(&self.held) {
                return Step::Wait;
            }
            self.place = if self.has_tools { Place::Name(String::new()) } else { Place::Content };
            return Step::Again;
        }
        if !self.has_tools {
            self.place = Place::Content;
            return Step::Again;
        }
        let text = self.held.trim_start();
        let begins = match self.calls.trigger() {
            Some((Trigger::Text(trigger), _)) => {
                if trigger.starts_with(text) {
                    return Step::Wait;
                }
                text.starts_with(&trigger)
            }
            Some((Trigger::Token(_), _)) => false,
            None if text.is_empty() => return Step::Wait,
            None => text.starts_with(self.calls.bracket()),
        };
        if begins {
            self.held = text.to_owned();
            self.open("");
        } else {
            self.in_content &= self.calls.trigger().is_some();
            self.place = Place::Content;
        }
        Step::Again
    }

    /// Starts an opening, with `read` as the part that is already read.
    fn open(&mut self, read: &str) {
        self.place = Place::Opening { opening: self.opening().clone(), read: read.to_owned() };
    }

    /// Returns the text before the name of the first call.
    fn opening(&self) -> &Marked {
        match &self.calls.separator {
            Some(separator) if self.calls.open.0.is_empty() => separator,
            _ => &self.calls.open,
        }
    }

    fn content(&mut self, deltas: &mut Deltas) -> Step {
        if let Some(section) = &self.calls.section {
            let close = section.tags.close.text();
            if let Some(at) = self.held.find(&close) {
                deltas.content(&self.held[..at]);
                self.held.drain(..at + close.len());
                self.place = Place::AfterContent;
                return Step::Again;
            }
            let shown = self.held.len() - held_back(&self.held, &close);
            deltas.content(&self.held[..shown]);
            self.held.drain(..shown);
            return Step::Wait;
        }
        let trigger = match self.calls.trigger() {
            Some((Trigger::Text(trigger), _)) if self.in_content => trigger,
            Some((Trigger::Token(_), _)) if self.in_content => String::new(),
            _ => {
                deltas.content(&std::mem::take(&mut self.held));
                return Step::Wait;
            }
        };
        let found = self.held.find(&trigger).filter(|_| !trigger.is_empty());
        if let Some(at) = found {
            // Whitespace before a call belongs neither to the content nor to the call.
            deltas.content(self.held[..at].trim_end());
            self.held.drain(..at);
            self.open("");
            return Step::Again;
        }
        let shown = self.held.len() - held_back(&self.held, &trigger);
        let shown = self.held[..shown].trim_end().len();
        deltas.content(&self.held[..shown]);
        self.held.drain(..shown);
        Step::Wait
    }

    /// Emits the held content without trailing whitespace, because a call follows.
    fn show_content(&mut self, deltas: &mut Deltas) {
        let held = std::mem::take(&mut self.held);
        deltas.content(held.trim_end());
    }

    /// Emits the held text up to `end` as thoughts, except white space at its end. A call follows.
    fn show_thought(&mut self, end: usize, deltas: &mut Deltas) {
        let thought = self.held[..end].trim_end();
        deltas.thought(thought);
        self.gap = Some(self.held[thought.len()..end].to_owned());
        self.held.drain(..end);
    }

    /// Reads the name of a function and the text after it.
    fn name(&mut self, opened: String, deltas: &mut Deltas) -> Step {
        let end = match &self.calls.arguments {
            Arguments::Json => self.calls.between.find(&self.held),
            Arguments::Members { layout, .. } => self.name_end(layout),
        };
        let close = self.thoughts.as_ref().map(|tags| tags.close.text()).filter(|_| self.gap.is_some());
        let closed = close.and_then(|close| self.held.find(&close));
        if closed.is_some_and(|at| end.as_ref().is_none_or(|end| at < end.start)) {
            // The thoughts end before the name does.
            let text = opened + &self.held;
            self.reject(text, deltas);
            return Step::Again;
        }
        let Some(end) = end else {
            self.place = Place::Name(opened);
            return Step::Wait;
        };
        let name = self.held[..end.start].trim().to_owned();
        let is_known = self.tools.iter().any(|tool| tool.name == name);
        let must_be_known = self.calls.arguments != Arguments::Json || self.gap.is_some();
        if !is_known && !opened.is_empty() && must_be_known {
            // Not a call of a tool.
            let text = opened + &self.held;
            self.reject(text, deltas);
            return Step::Again;
        }
        self.gap = None;
        deltas.call(&name);
        self.held.drain(..end.end);
        self.place = match &self.calls.arguments {
            Arguments::Json => Place::Arguments(ObjectEnd::default()),
            Arguments::Members { layout, .. } => {
                let schema = self.tools.iter().find(|tool| tool.name == name).map(|tool| &*tool.parameters);
                let ends = self.calls.separator.iter().chain([&self.calls.close]).map(Marked::trimmed_start);
                if layout.name_close.is_some() {
                    Place::Nested(NestedReader::new(layout, schema, ends.collect()))
                } else {
                    Place::Members(MembersReader::new(layout, schema, ends.collect()))
                }
            }
        };
        Step::Again
    }

    /// Returns the place of the text between a name and its arguments. If there is no such text, the name
    /// ends where an argument or the end of the call begins.
    fn name_end(&self, members: &Members) -> Option<std::ops::Range<usize>> {
        let between = self.calls.between.trimmed();
        if !between.0.is_empty() {
            return between.find(&self.held);
        }
        let texts = [format!("{}{}", members.open, members.name_open), self.calls.close.text()];
        let tags = texts.iter().map(|text| first_tag(text.trim())).filter(|tag| !tag.is_empty());
        let at = tags.filter_map(|tag| self.held.find(tag)).min()?;
        Some(at..at)
    }

    fn between(&mut self) -> Step {
        let is_json = self.calls.arguments == Arguments::Json;
        if !is_json {
            self.held = self.held.trim_start().to_owned();
        }
        if let Some(separator) = &self.calls.separator {
            let separator = if is_json { separator.clone() } else { separator.trimmed_start() };
            let begins =
                if is_json { separator.begins(&self.held) } else { separator.begins_loosely(&self.held) };
            match begins {
                Beginning::Whole(len) => {
                    self.held.drain(..len);
                    self.place = Place::Name(String::new());
                    return Step::Again;
                }
                Beginning::Part => return Step::Wait,
                Beginning::Different => {}
            }
        }
        let close = self.calls.close.text();
        if close.starts_with(&self.held) && self.held != close {
            return Step::Wait;
        }
        if !is_json && let Some(step) = self.next_call() {
            return step;
        }
        self.place = Place::Rest;
        Step::Again
    }

    /// Looks for another call after closing tags that differ from the format.
    fn next_call(&mut self) -> Option<Step> {
        let open = self.calls.open.text();
        // A tag may begin with a text of its own.
        let start = match &self.calls.arguments {
            Arguments::Members { layout, .. } if layout.name_close.is_some() => layout.name_open.as_str(),
            _ => "<",
        };
        let last = open.rfind(start).map_or(open.as_str(), |at| &open[at..]);
        for opening in [open.trim(), last].into_iter().filter(|opening| !opening.is_empty()) {
            if self.held.starts_with(opening) {
                self.held.drain(..opening.len());
                self.place = Place::Name(String::new());
                return Some(Step::Again);
            }
        }
        if [open.trim(), last].iter().any(|opening| opening.starts_with(&self.held)) {
            return Some(Step::Wait);
        }
        let tags = open.split_inclusive('>').map(str::trim).filter(|tag| tag.ends_with('>'));
        if let Some(tag) = tags.into_iter().find(|tag| self.held.starts_with(tag)) {
            self.held.drain(..tag.len());
            return Some(Step::Again);
        }
        if self.held.starts_with("</") || self.held.starts_with("<|") {
            let Some(end) = self.held.find('>') else { return Some(Step::Wait) };
            self.held.drain(..=end);
            return Some(Step::Again);
        }
        None
    }
}
