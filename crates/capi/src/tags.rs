//! Structural tags in `XGrammar`'s form, `{"type": "triggered_tags", …}`.
//!
//! Unknown members are errors, because they could constrain the output.

use formwork_grammar::{StructuralTag, StructuralTags, TagContent};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::failure::Failure;

/// Problem at a place in the JSON of structural tags.
#[derive(Debug, Error)]
pub(crate) enum TagsProblem {
    #[error("missing member `{name}`")]
    Missing { name: &'static str },
    #[error("unknown member `{name}`")]
    Unknown { name: String },
    #[error("expected {expected}")]
    Type { expected: &'static str },
    #[error("unsupported value `{given}`; expected {expected}")]
    Value { given: String, expected: &'static str },
}

/// A JSON value and its pointer.
struct Place {
    pointer: String,
    value: Value,
}

/// The members of a JSON object that have not been read, and the pointer of the object.
struct Members {
    pointer: String,
    members: Map<String, Value>,
}

/// Reads structural tags, also inside `{"type": "structural_tag", "format": …}`.
pub(crate) fn read(value: Value) -> Result<StructuralTags, Failure> {
    let mut members = Place { pointer: String::new(), value }.members()?;
    if members.members.get("type").and_then(Value::as_str) == Some("structural_tag") {
        members.take("type");
        let format = members.required("format")?.members()?;
        members.finish()?;
        members = format;
    }
    members.required("type")?.one_of(&["triggered_tags"], "triggered_tags")?;
    let tags = members.required("tags")?.items("an array of tags")?;
    let texts = |place: Place| {
        let items = place.items("an array of texts")?.into_iter();
        items.map(Place::text).collect::<Result<Vec<_>, _>>()
    };
    let flag = |place: Option<Place>| place.map_or(Ok(false), Place::flag);
    let tags = StructuralTags {
        tags: tags.into_iter().map(read_tag).collect::<Result<_, _>>()?,
        triggers: texts(members.required("triggers")?)?,
        excludes: members.take("excludes").map(texts).transpose()?.unwrap_or_default(),
        at_least_one: flag(members.take("at_least_one"))?,
        stop_after_first: flag(members.take("stop_after_first"))?,
    };
    members.finish()?;
    Ok(tags)
}

fn read_tag(place: Place) -> Result<StructuralTag, Failure> {
    let mut members = place.members()?;
    if let Some(name) = members.take("type") {
        name.one_of(&["tag"], "tag")?;
    }
    let tag = StructuralTag {
        begin: members.required("begin")?.text()?,
        content: read_content(members.required("content")?.members()?)?,
        end: members.required("end")?.text()?,
    };
    members.finish()?;
    Ok(tag)
}

fn read_content(mut members: Members) -> Result<TagContent, Failure> {
    let kinds = ["json_schema", "grammar", "regex"];
    let content = match members.required("type")?.one_of(&kinds, "json_schema, grammar or regex")? {
        0 => TagContent::JsonSchema(members.required("json_schema")?.value.into()),
        1 => TagContent::Gbnf(members.required("grammar")?.text()?),
        _ => TagContent::Regex(members.required("pattern")?.text()?),
    };
    members.finish()?;
    Ok(content)
}

impl Place {
    fn fails(self, problem: TagsProblem) -> Failure {
        Failure::Tags { pointer: self.pointer, problem }
    }

    fn members(self) -> Result<Members, Failure> {
        match self.value {
            Value::Object(members) => Ok(Members { pointer: self.pointer, members }),
            _ => Err(self.fails(TagsProblem::Type { expected: "an object" })),
        }
    }

    fn items(self, expected: &'static str) -> Result<Vec<Place>, Failure> {
        let Self { pointer, value: Value::Array(items) } = self else {
            return Err(self.fails(TagsProblem::Type { expected }));
        };
        let items = items.into_iter().enumerate();
        Ok(items.map(|(index, value)| Self { pointer: format!("{pointer}/{index}"), value }).collect())
    }

    fn text(self) -> Result<String, Failure> {
        match self.value {
            Value::String(text) => Ok(text),
            _ => Err(self.fails(TagsProblem::Type { expected: "a text" })),
        }
    }

    fn flag(self) -> Result<bool, Failure> {
        self.value.as_bool().ok_or_else(|| self.fails(TagsProblem::Type { expected: "true or false" }))
    }

    /// Returns the index of the text in `values`.
    fn one_of(self, values: &[&str], expected: &'static str) -> Result<usize, Failure> {
        let pointer = self.pointer.clone();
        let given = self.text()?;
        let index = values.iter().position(|&value| value == given);
        index.ok_or(Failure::Tags { pointer, problem: TagsProblem::Value { given, expected } })
    }
}

impl Members {
    fn take(&mut self, name: &str) -> Option<Place> {
        let value = self.members.shift_remove(name)?;
        Some(Place { pointer: format!("{}/{name}", self.pointer), value })
    }

    fn required(&mut self, name: &'static str) -> Result<Place, Failure> {
        let missing = TagsProblem::Missing { name };
        let pointer = self.pointer.clone();
        self.take(name).ok_or(Failure::Tags { pointer, problem: missing })
    }

    /// Returns an error if a member was not read.
    fn finish(self) -> Result<(), Failure> {
        match self.members.into_iter().next() {
            Some((name, _)) => {
                Err(Failure::Tags { pointer: self.pointer, problem: TagsProblem::Unknown { name } })
            }
            None => Ok(()),
        }
    }
}
