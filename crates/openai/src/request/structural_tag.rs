//! `response_format` of type `structural_tag`. Two forms are accepted: vLLM's form with a field
//! `structures`, and `XGrammar`'s form with a field `format` of type `triggered_tags`.

use formwork_grammar::{StructuralTag, StructuralTags, TagContent};

use super::fields::{Fields, Place};
use crate::RequestError;

/// Parses the fields of a `response_format` of type `structural_tag`, except `type`.
pub(super) fn read(fields: &mut Fields) -> Result<StructuralTags, RequestError> {
    let Some(structures) = fields.take("structures") else {
        return read_format(fields.required("format")?.fields()?);
    };
    let tags = structures.list("an array of tags")?.into_iter().map(read_structure);
    Ok(StructuralTags {
        tags: tags.collect::<Result<_, _>>()?,
        triggers: read_triggers(fields.required("triggers")?)?,
        at_least_one: false,
        stop_after_first: false,
    })
}

fn read_format(mut fields: Fields) -> Result<StructuralTags, RequestError> {
    let known = |name: &str| (name == "triggered_tags").then_some(());
    fields.required("type")?.one_of(known, "triggered_tags")?;
    let flag = |at: Option<Place>| at.map_or(Ok(false), Place::bool);
    let tags = fields.required("tags")?.list("an array of tags")?.into_iter().map(read_tag);
    let tags = StructuralTags {
        tags: tags.collect::<Result<_, _>>()?,
        triggers: read_triggers(fields.required("triggers")?)?,
        at_least_one: flag(fields.take("at_least_one"))?,
        stop_after_first: flag(fields.take("stop_after_first"))?,
    };
    fields.finish_strictly()?;
    Ok(tags)
}

fn read_triggers(at: Place) -> Result<Vec<String>, RequestError> {
    at.list("an array of strings")?.into_iter().map(Place::non_empty_string).collect()
}

/// Parses a tag in vLLM's form: `{"begin", "schema", "end"}`.
fn read_structure(at: Place) -> Result<StructuralTag, RequestError> {
    let mut fields = at.fields()?;
    let tag = StructuralTag {
        begin: fields.required("begin")?.non_empty_string()?,
        content: TagContent::JsonSchema(fields.required("schema")?.schema()?.into()),
        end: fields.required("end")?.string()?,
    };
    fields.finish_strictly()?;
    Ok(tag)
}

/// Parses a tag in `XGrammar`'s form: `{"type": "tag", "begin", "content": {"type", …}, "end"}`.
fn read_tag(at: Place) -> Result<StructuralTag, RequestError> {
    let mut fields = at.fields()?;
    if let Some(name) = fields.take("type") {
        name.one_of(|name| (name == "tag").then_some(()), "tag")?;
    }
    let tag = StructuralTag {
        begin: fields.required("begin")?.non_empty_string()?,
        content: read_content(fields.required("content")?.fields()?)?,
        end: fields.required("end")?.string()?,
    };
    fields.finish_strictly()?;
    Ok(tag)
}

fn read_content(mut fields: Fields) -> Result<TagContent, RequestError> {
    type Reader = fn(&mut Fields) -> Result<TagContent, RequestError>;
    let known = |name: &str| -> Option<Reader> {
        match name {
            "json_schema" => {
                Some(|fields| Ok(TagContent::JsonSchema(fields.required("json_schema")?.schema()?.into())))
            }
            "grammar" => Some(|fields| Ok(TagContent::Gbnf(fields.required("grammar")?.non_empty_string()?))),
            "regex" => Some(|fields| Ok(TagContent::Regex(fields.required("pattern")?.string()?))),
            _ => None,
        }
    };
    let read = fields.required("type")?.one_of(known, "json_schema, grammar and regex")?;
    let content = read(&mut fields)?;
    fields.finish_strictly()?;
    Ok(content)
}
