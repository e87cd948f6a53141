//! Parsing of steps files in each supported format.

use std::fmt;

use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{Error, Spanned};

use super::definition::Format;
use super::error::StepsError;
use crate::config::place;

/// Byte order mark that some editors put at the start of a file; skipped.
const BYTE_ORDER_MARK: char = '\u{feff}';

pub(super) fn read<T: DeserializeOwned>(text: &str, format: Format) -> Result<T, StepsError> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    if text.trim().is_empty() {
        return Err(StepsError::syntax("line 1".to_owned(), "the file is empty".to_owned()));
    }
    match format {
        Format::Yaml => yaml(text),
        Format::Toml => toml::from_str(text).map_err(|error| {
            let at = error.span().unwrap_or_default().start;
            let key = place::key_at(text, at).map(|key| format!(", `{key}`")).unwrap_or_default();
            let line = place::line(text, at);
            StepsError::syntax(format!("line {line}{key}"), error.message().to_owned())
        }),
        Format::Json => serde_json::from_str(text).map_err(|error| {
            let message = error.to_string();
            let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
            StepsError::syntax(
                format!("line {}, column {}", error.line(), error.column()),
                message.to_owned(),
            )
        }),
    }
}

/// Text of a file with its format, for the lines of keys. Two sources are always equal, because they
/// are no part of what a file says.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    text: String,
    format: Option<Format>,
}

impl PartialEq for Source {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Source {
    pub(super) fn new(text: &str, format: Format) -> Self {
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).to_owned();
        Self { text, format: Some(format) }
    }

    /// Adds the line to an error whose place is a path of keys.
    pub(super) fn locate(&self, error: StepsError) -> StepsError {
        let mut path = error.path().to_vec();
        let mut line = self.line(&path);
        if line.is_none() && path.first().is_some_and(|first| first == "agents") {
            // `steps` is another name of the same key, and one step may be at the top level.
            "steps".clone_into(&mut path[0]);
            line = self.line(&path).or_else(|| self.line(path.get(2..).unwrap_or_default()));
        }
        match line {
            Some(line) => error.on_line(line),
            None => error,
        }
    }

    /// Returns the line of the innermost key of `path` that exists. Returns `None` if not even the
    /// first key exists.
    fn line(&self, path: &[String]) -> Option<usize> {
        match self.format? {
            Format::Toml => {
                let offset = place::offset_of(&self.text, path);
                (offset > 0 || self.text.starts_with(path.first()?.as_str()) || self.text.starts_with('['))
                    .then(|| place::line(&self.text, offset))
            }
            // JSON is a subset of YAML 1.2.
            Format::Yaml | Format::Json => {
                let tree: Tree = yaml(&self.text).ok()?;
                tree.line(path)
            }
        }
    }
}

/// Keys of a YAML document with their lines.
enum Tree {
    Map(Vec<(Spanned<String>, Self)>),
    Other,
}

impl Tree {
    fn line(&self, path: &[String]) -> Option<usize> {
        let (name, rest) = path.split_first()?;
        let Self::Map(members) = self else { return None };
        let (key, value) = members.iter().find(|(key, _)| key.value == *name)?;
        Some(value.line(rest).unwrap_or(key.referenced.line() as usize))
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Tree;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Tree::Map(members))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Tree::Other)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
                Ok(Tree::Other)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
                Ok(Tree::Other)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
                Ok(Tree::Other)
            }

            fn visit_i128<E>(self, _: i128) -> Result<Tree, E> {
                Ok(Tree::Other)
            }

            fn visit_u128<E>(self, _: u128) -> Result<Tree, E> {
                Ok(Tree::Other)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
                Ok(Tree::Other)
            }

            fn visit_str<E>(self, _: &str) -> Result<Tree, E> {
                Ok(Tree::Other)
            }

            fn visit_unit<E>(self) -> Result<Tree, E> {
                Ok(Tree::Other)
            }

            fn visit_none<E>(self) -> Result<Tree, E> {
                Ok(Tree::Other)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// Parses YAML 1.2. `off` and `010` are strings, not a boolean and an octal number as in YAML 1.1.
fn yaml<T: DeserializeOwned>(text: &str) -> Result<T, StepsError> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location();
        let place = place.map_or((1, 1), |place| (place.line(), place.column()));
        StepsError::syntax(format!("line {}, column {}", place.0, place.1), words(&error))
    })
}

/// Describes a YAML error in this crate's words; the parser's own messages address its API users.
fn words(error: &Error) -> String {
    match error {
        Error::WithSnippet { error, .. } | Error::AliasError { error, .. } => words(error),
        Error::Message { msg, .. } | Error::SerdeVariantId { msg, .. } => first_line(msg),
        Error::ExternalMessage { msg, .. } => format!("invalid YAML: {}", first_line(msg)),
        Error::Eof { .. } => "unexpected end of input; expected a value".to_owned(),
        Error::MultipleDocuments { .. } => "found more than one document; expected one".to_owned(),
        Error::Unexpected { expected, .. } => format!("expected {}", kind(expected)),
        Error::InvalidScalar { ty, .. } => format!("expected {}", kind(ty)),
        Error::InvalidBooleanStrict { .. } => "expected true or false".to_owned(),
        Error::NullIntoString { .. } => "expected a string, found null".to_owned(),
        Error::SerdeInvalidType { unexpected, expected, .. }
        | Error::SerdeInvalidValue { unexpected, expected, .. } => {
            format!("expected {}, found {unexpected}", kind(expected))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            format!("unknown variant `{variant}`, expected one of {}", expected.join(", "))
        }
        Error::SerdeUnknownField { field, expected, .. } => {
            format!("unknown field `{field}`, expected one of {}", expected.join(", "))
        }
        Error::SerdeMissingField { field, .. } => format!("missing field `{field}`"),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("duplicate key `{key}`"),
        Error::DuplicateMappingKey { .. } => "duplicate key".to_owned(),
        Error::UnknownAnchor { .. } => "unknown anchor".to_owned(),
        Error::UnsupportedTag { tag, .. } => format!("unknown tag `{tag}`"),
        Error::NonFiniteFloat { value, .. } => format!("{value} is invalid; expected a finite number"),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            "the document exceeds the parser's size limits".to_owned()
        }
        _ => "invalid YAML".to_owned(),
    }
}

/// Translates the parser's name for an expected type.
fn kind(wanted: &str) -> String {
    let kind = match wanted {
        "mapping start" | "mapping end" | "map" | "a map" => "a map",
        "sequence start" | "sequence end" | "seq" | "a sequence" => "a list",
        "string scalar" | "string" | "a string" => "a string",
        "scalar" => "a single value",
        "boolean" | "bool" | "a boolean" => "true or false",
        "floating point" | "f64" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a non-negative integer",
        "i8" | "i16" | "i32" | "i64" => "an integer",
        _ if wanted.starts_with("struct ") => "a map",
        "consumed event" | "tagged node" | "single YAML node" => "another value",
        other => other,
    };
    kind.to_owned()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
