//! Structural tags: formats that compose an output of literal texts, constrained contents and free text.
//!
//! Two forms are accepted: vLLM's older form with the fields `structures` and `triggers`, and `XGrammar`'s
//! form with a field `format`. A format that the grammar cannot enforce exactly is refused.

mod combined;
mod style;
mod tag;
mod text;
mod token;

use std::cell::Cell;

use formwork_grammar::{Part, StructuralTag, StructuralTags, TagContent};
use serde_json::Value;

use self::token::NamedToken;
use super::fields::{Fields, Place};
use crate::RequestError;
use crate::error::Problem;

/// Maximum nesting of formats.
const LEVELS: usize = 64;

/// Maximum number of bytes of the texts that all free texts together must not contain.
const EXCLUDED: usize = 1 << 16;

/// Parses a structural tag, and returns the outputs that it describes.
///
/// `tag` is one of these, or a string with its JSON text:
///
/// - an object of the type `structural_tag` with a field `format`, which is `XGrammar`'s form;
/// - an object with the fields `structures` and `triggers`, which is vLLM's older form;
/// - the value of `format` alone.
///
/// ```
/// use formwork_grammar::{Grammar, Limits, SchemaOptions};
/// let tag = serde_json::json!({"type": "structural_tag", "format": {
///     "type": "tag", "begin": "<think>", "content": {"type": "any_text"}, "end": "</think>"}});
/// let part = formwork_openai::structural_tag(&tag)?;
/// let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default())?;
/// assert!(grammar.accepts(b"<think>1 < 2</think>") && !grammar.accepts(b"1 < 2"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns an error if a field is missing, unknown or invalid, or if the grammar cannot enforce a format
/// exactly. The message names the field, for example `structural_tag.format.type`. Schemas, grammars and
/// regular expressions are not compiled here.
pub fn structural_tag(tag: &Value) -> Result<Part, RequestError> {
    let at = Place::of_value("structural_tag", tag.clone()).decoded()?;
    let is_whole = ["format", "structures"].iter().any(|name| at.value().get(name).is_some())
        || at.value().get("type").is_some_and(|kind| kind == "structural_tag");
    if !is_whole {
        return Formats::of(at.path()).format(at, &Scope::ROOT);
    }
    let mut fields = at.fields()?;
    if let Some(kind) = fields.take("type") {
        kind.one_of(|name| (name == "structural_tag").then_some(()), "structural_tag")?;
    }
    let part = read(&mut fields)?;
    fields.finish_strictly()?;
    Ok(part)
}

/// Parses the fields of a structural tag, except `type`.
pub(super) fn read(fields: &mut Fields) -> Result<Part, RequestError> {
    let Some(structures) = fields.take("structures") else {
        let format = fields.required("format")?;
        let root = format.path().strip_suffix(".format").unwrap_or_default().to_owned();
        return Formats::of(&root).format(format, &Scope::ROOT);
    };
    let tags = structures.list("an array of tags")?.into_iter().map(read_structure);
    Ok(Part::Tags(StructuralTags {
        tags: tags.collect::<Result<_, _>>()?,
        triggers: texts(fields.required("triggers")?)?,
        excludes: Vec::new(),
        at_least_one: false,
        stop_after_first: false,
    }))
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

/// Parses an array of strings that are not empty.
fn texts(at: Place) -> Result<Vec<String>, RequestError> {
    at.list("an array of strings")?.into_iter().map(Place::non_empty_string).collect()
}

/// Parses an optional boolean, which is false by default.
fn flag(fields: &mut Fields, name: &str) -> Result<bool, RequestError> {
    Ok(fields.read(name, Place::bool)?.unwrap_or_default())
}

/// Parses an array with at least one element.
fn some(at: Place, expected: &'static str) -> Result<Vec<Place>, RequestError> {
    let place = at.clone();
    let list = at.list(expected)?;
    if list.is_empty() { Err(place.error(Problem::Empty)) } else { Ok(list) }
}

/// Reader of the formats of one structural tag.
struct Formats {
    /// Number of bytes in the texts that the free texts so far must not contain.
    excluded: Cell<usize>,
    /// Length of the path of the structural tag, which the places of errors leave out.
    root: usize,
}

/// The surroundings of a format.
struct Scope<'a> {
    level: usize,
    /// True if the error messages of the format need no location.
    is_placed: bool,
    /// Length of the path that the error messages already have.
    base: Option<usize>,
    end: End<'a>,
}

/// The end of the innermost tag around a format.
#[derive(Clone, Copy)]
enum End<'a> {
    /// There is no tag.
    None,
    /// The tag ends with one of these texts, which are not empty.
    Texts(&'a [String]),
    Token(&'a NamedToken),
    /// The tag has no end. The place is that of its field `end`.
    Endless(&'a Place),
}

impl Scope<'_> {
    const ROOT: Self = Self { level: 0, is_placed: true, base: None, end: End::None };

    /// Returns the scope of a format inside of this one.
    const fn inner(&self) -> Self {
        Self { level: self.level + 1, is_placed: false, base: self.base, end: self.end }
    }

    /// Returns the scope of the content of a tag with the end `end`.
    const fn content<'b>(&self, end: End<'b>) -> Scope<'b> {
        Scope { level: self.level + 1, is_placed: false, base: self.base, end }
    }

    /// Returns this scope for a format at `at` that needs no location in its error messages, because the
    /// caller adds one.
    fn placed(self, at: &Place) -> Self {
        Self { is_placed: true, base: Some(at.path().len()), ..self }
    }

    /// Checks that free text ends before the end of the tag around it.
    fn check_end(&self) -> Result<(), RequestError> {
        match self.end {
            End::Endless(at) => Err(at.error(Problem::Endless)),
            End::None | End::Texts(_) | End::Token(_) => Ok(()),
        }
    }
}

/// Function that parses the fields of a format, except `type`.
type Reader = fn(&Formats, &mut Fields, &Scope) -> Result<Part, RequestError>;

impl Formats {
    /// Creates a reader for the structural tag at the path `root`.
    const fn of(root: &str) -> Self {
        Self { excluded: Cell::new(0), root: root.len() }
    }

    /// Parses a format.
    fn format(&self, at: Place, scope: &Scope) -> Result<Part, RequestError> {
        if scope.level >= LEVELS {
            return Err(at.error(Problem::TooDeep { given: scope.level + 1, limit: LEVELS }));
        }
        let place = at.clone();
        let mut fields = at.fields()?;
        let (read, can_fail) = fields.required("type")?.one_of(reader, SUPPORTED)?;
        let part = read(self, &mut fields, scope)?;
        fields.finish_strictly()?;
        if scope.is_placed || !can_fail {
            return Ok(part);
        }
        // The grammar's errors only name places of parts.
        let path = place.path().get(scope.base.unwrap_or(self.root)..).unwrap_or_default();
        Ok(Part::at(path.trim_start_matches('.'), part))
    }
}

/// The supported types, for an error message.
const SUPPORTED: &str = "const_string, json_schema, qwen_xml_parameter, grammar, regex, any_text, sequence, \
    or, optional, plus, star, repeat, tag, triggered_tags, tags_with_separator, dispatch, token, \
    exclude_token, any_tokens, token_triggered_tags and token_dispatch";

/// Returns the function that parses the formats of a type. The flag is true if the grammar may refuse
/// such a format.
fn reader(name: &str) -> Option<(Reader, bool)> {
    let reader: (Reader, bool) = match name {
        "const_string" => (|_, fields, _| Ok(Part::Literal(fields.required("value")?.string()?)), false),
        "json_schema" => (|_, fields, _| style::json_schema(fields), true),
        "qwen_xml_parameter" => (|_, fields, _| style::qwen_parameters(fields), true),
        "grammar" => (|_, fields, _| Ok(Part::Gbnf(fields.required("grammar")?.non_empty_string()?)), true),
        "regex" => (|_, fields, _| Ok(Part::Regex(fields.required("pattern")?.string()?)), true),
        "any_text" => (Formats::any_text, true),
        "sequence" => (|all, fields, scope| Ok(Part::Sequence(all.elements(fields, scope)?)), false),
        "or" => (|all, fields, scope| Ok(Part::OneOf(all.elements(fields, scope)?)), false),
        "optional" => (|all, fields, scope| all.repeated(fields, scope, (0, Some(1))), false),
        "plus" => (|all, fields, scope| all.repeated(fields, scope, (1, None)), false),
        "star" => (|all, fields, scope| all.repeated(fields, scope, (0, None)), false),
        "repeat" => (Formats::repeat, true),
        "tag" => (Formats::tag, false),
        "triggered_tags" => (Formats::triggered_tags, true),
        "tags_with_separator" => (Formats::tags_with_separator, false),
        "dispatch" => (Formats::dispatch, true),
        "token" => (|_, fields, _| Ok(NamedToken::read(&fields.required("token")?)?.part()), false),
        "exclude_token" => (|_, fields, scope| token::other(fields, scope, ""), false),
        "any_tokens" => (token::others, false),
        "token_triggered_tags" => (Formats::token_triggered_tags, false),
        "token_dispatch" => (Formats::token_dispatch, false),
        _ => return None,
    };
    Some(reader)
}
