//! Tags, and free text with tags.

use std::collections::BTreeSet;

use formwork_grammar::{Part, StructuralTag, StructuralTags, TagContent};

use super::super::fields::{Fields, Place};
use super::token::{NamedToken, rules};
use super::{End, Formats, Scope, flag, some, texts};
use crate::RequestError;

/// The begin or the end of a tag.
pub(super) enum Edge {
    /// One of these texts.
    Texts(Vec<String>),
    Token(NamedToken),
}

/// A tag.
pub(super) struct Tag {
    /// The begin, with its place.
    pub(super) begin: (Place, Edge),
    content: Part,
    end: Edge,
}

impl Edge {
    /// Parses a text or a format of the type `token`, or an array of texts if `is_end` is true.
    fn read(at: Place, is_end: bool) -> Result<Self, RequestError> {
        if at.value().is_object() {
            let mut fields = at.fields()?;
            fields.required("type")?.one_of(|name| (name == "token").then_some(()), "token")?;
            let token = NamedToken::read(&fields.required("token")?)?;
            fields.finish_strictly()?;
            return Ok(Self::Token(token));
        }
        if is_end && at.value().is_array() {
            let ends = some(at, "an array of strings")?.into_iter().map(Place::string);
            return Ok(Self::Texts(ends.collect::<Result<_, _>>()?));
        }
        Ok(Self::Texts(vec![at.string()?]))
    }

    /// Returns the part that matches the begin or the end.
    fn part(self) -> Part {
        match self {
            Self::Token(token) => token.part(),
            Self::Texts(texts) => match <[String; 1]>::try_from(texts) {
                Ok([text]) => Part::Literal(text),
                Err(texts) => Part::Choices(texts),
            },
        }
    }
}

impl Tag {
    /// Returns the part that matches the whole tag.
    fn part(self) -> Part {
        Part::sequence([self.begin.1.part(), self.content, self.end.part()])
    }

    /// Returns the part that matches the tag after its begin.
    pub(super) fn rest(self) -> Part {
        Part::sequence([self.content, self.end.part()])
    }

    /// Returns the tag for free text with tags.
    ///
    /// # Errors
    /// Returns an error if the tag begins with a token.
    fn triggered(self) -> Result<StructuralTag, RequestError> {
        let begin = self.begin.0.non_empty_string()?;
        let (content, end) = match self.end {
            Edge::Texts(mut texts) if texts.len() == 1 => (self.content, texts.pop().unwrap_or_default()),
            end => (Part::sequence([self.content, end.part()]), String::new()),
        };
        Ok(StructuralTag { begin, content: tag_content(content), end })
    }
}

/// Returns a part as the content of a tag.
fn tag_content(part: Part) -> TagContent {
    match part {
        Part::Json(schema) => TagContent::JsonSchema(schema),
        Part::Gbnf(source) => TagContent::Gbnf(source),
        Part::Regex(pattern) => TagContent::Regex(pattern),
        other => TagContent::Part(Box::new(other)),
    }
}

impl Formats {
    /// Parses a format of the type `tag`.
    pub(super) fn tag(&self, fields: &mut Fields, scope: &Scope) -> Result<Part, RequestError> {
        Ok(self.read_tag(fields, scope, false)?.part())
    }

    /// Parses an object of the type `tag`, whose type may be absent. If `is_placed` is true, the caller adds
    /// the location of the content to error messages.
    pub(super) fn tag_at(&self, at: Place, scope: &Scope, is_placed: bool) -> Result<Tag, RequestError> {
        let mut fields = at.fields()?;
        if let Some(name) = fields.take("type") {
            name.one_of(|name| (name == "tag").then_some(()), "tag")?;
        }
        let tag = self.read_tag(&mut fields, scope, is_placed)?;
        fields.finish_strictly()?;
        Ok(tag)
    }

    fn read_tag(&self, fields: &mut Fields, scope: &Scope, is_placed: bool) -> Result<Tag, RequestError> {
        let begin = fields.required("begin")?;
        let content = fields.required("content")?;
        let end = fields.required("end")?;
        let place = end.clone();
        let begin = (begin.clone(), Edge::read(begin, false)?);
        let end = Edge::read(end, true)?;
        let texts = match &end {
            Edge::Texts(texts) => texts.iter().filter(|text| !text.is_empty()).cloned().collect(),
            Edge::Token(_) => Vec::new(),
        };
        let around = match &end {
            Edge::Token(token) => End::Token(token),
            Edge::Texts(_) if texts.is_empty() => End::Endless(&place),
            Edge::Texts(_) => End::Texts(&texts),
        };
        let inside = scope.content(around);
        let inside = if is_placed { inside.placed(&content) } else { inside };
        let content = self.format(content, &inside)?;
        Ok(Tag { begin, content, end })
    }

    /// Parses a format of the type `triggered_tags`.
    pub(super) fn triggered_tags(&self, fields: &mut Fields, scope: &Scope) -> Result<Part, RequestError> {
        let excludes = self.excluded(fields, scope)?;
        let tags = some(fields.required("tags")?, "an array of tags")?.into_iter();
        let tag = |at| self.tag_at(at, &scope.inner(), true)?.triggered();
        Ok(Part::Tags(StructuralTags {
            tags: tags.map(tag).collect::<Result<_, _>>()?,
            triggers: texts(fields.required("triggers")?)?,
            excludes,
            at_least_one: flag(fields, "at_least_one")?,
            stop_after_first: flag(fields, "stop_after_first")?,
        }))
    }

    /// Parses a format of the type `dispatch`: free text in which a format must follow each pattern.
    ///
    /// The text may contain the end of the tag around it.
    pub(super) fn dispatch(&self, fields: &mut Fields, scope: &Scope) -> Result<Part, RequestError> {
        let excludes = self.excluded(fields, &Scope { end: End::None, ..scope.inner() })?;
        if excludes.is_empty() {
            scope.check_end()?;
        }
        let mut triggers = BTreeSet::new();
        let mut tags = Vec::new();
        for [pattern, format] in rules(fields)? {
            let begin = pattern.non_empty_string()?;
            triggers.insert(begin.clone());
            let content = tag_content(self.format(format, &scope.inner())?);
            tags.push(StructuralTag { begin, content, end: String::new() });
        }
        let stop_after_first = !fields.read("loop", Place::bool)?.unwrap_or(true);
        let triggers = triggers.into_iter().collect();
        Ok(Part::Tags(StructuralTags { triggers, tags, excludes, at_least_one: false, stop_after_first }))
    }

    /// Parses a format of the type `tags_with_separator`.
    pub(super) fn tags_with_separator(
        &self,
        fields: &mut Fields,
        scope: &Scope,
    ) -> Result<Part, RequestError> {
        let tags = some(fields.required("tags")?, "an array of tags")?.into_iter();
        let tags = tags.map(|at| Ok(self.tag_at(at, &scope.inner(), false)?.part()));
        let tag = Part::OneOf(tags.collect::<Result<_, RequestError>>()?);
        let separator = fields.required("separator")?.string()?;
        let is_needed = flag(fields, "at_least_one")?;
        let tags = if flag(fields, "stop_after_first")? {
            tag
        } else {
            Part::List { item: Box::new(tag), separator: Box::new(Part::Literal(separator)), max: None }
        };
        Ok(if is_needed { tags } else { Part::repeat(tags, 0, Some(1)) })
    }
}
