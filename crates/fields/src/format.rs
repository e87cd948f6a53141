//! File formats of definitions.

use std::path::Path;

use crate::builder::DefinitionBuilder;
use crate::error::{Fault, FieldsError};
use crate::node::Node;
use crate::{Definition, constructors, read};

/// File format of a definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// JSON (`.json`).
    Json,
    /// YAML 1.2 (`.yaml` or `.yml`).
    Yaml,
    /// TOML (`.toml`).
    Toml,
    /// Constructor expressions in C# (`.cs`), such as `new IntField("age", 0, 120)`.
    CSharp,
    /// JSON Schema, for example one that `schemars` generates. No extension stands for it.
    JsonSchema,
}

impl Format {
    /// Returns the format that belongs to the extension of `path`: `json`, `yaml`, `yml`, `toml` or
    /// `cs`, in upper or lower case. Returns `None` for other extensions and for paths without an
    /// extension.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            "cs" => Some(Self::CSharp),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Yaml => "YAML",
            Self::Toml => "TOML",
            Self::CSharp => "C#",
            Self::JsonSchema => "JSON Schema",
        }
    }

    pub(crate) fn parse(self, text: &str) -> Result<Definition, FieldsError> {
        let node: Node = match self {
            Self::Json => self.json(text)?,
            Self::Yaml => yaml(text)?,
            Self::Toml => toml::from_str(text).map_err(|error| {
                let at = error.span().map_or(0, |span| span.start);
                self.syntax(line_column(text, at), error.message().to_owned())
            })?,
            Self::CSharp => return constructors::definition(text),
            Self::JsonSchema => return Definition::from_schema(&self.json(text)?),
        };
        read::definition(node).and_then(DefinitionBuilder::build)
    }

    pub(crate) fn write(self, definition: &Definition) -> Result<String, FieldsError> {
        let node = definition.node();
        let text = match self {
            Self::Json => serde_json::to_string_pretty(&node).map_err(|error| error.to_string()),
            Self::Yaml => serde_saphyr::to_string(&node).map_err(|error| error.to_string()),
            Self::Toml => toml::to_string(&node).map_err(|error| error.to_string()),
            Self::CSharp => constructors::to_text(&node),
            Self::JsonSchema => Ok(format!("{:#}", definition.schema())),
        };
        text.map_err(|message| Fault::Unwritable { format: self.name(), message }.into())
    }

    fn json<T: serde::de::DeserializeOwned>(self, text: &str) -> Result<T, FieldsError> {
        formwork_json::from_str(text).map_err(|error| self.syntax(error.place(), error.problem()))
    }

    fn syntax(self, (line, column): (usize, usize), message: String) -> FieldsError {
        Fault::Syntax { format: self.name(), line, column, message }.into()
    }
}

/// Parses YAML 1.2. Ambiguous plain scalars such as `yes`, `010` and `1_0` are strings.
fn yaml(text: &str) -> Result<Node, FieldsError> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
        // Enough for the largest valid definition. `check` enforces the limits of the definition
        // itself.
        budget: serde_saphyr::budget! {
            max_depth: 256,
            max_nodes: 1_000_000,
            max_events: 2_000_000,
            // Aliases within aliases double with each level, so few copies are enough to recognise them.
            max_recorded_anchor_events: 250_000
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location().map_or((1, 1), |place| (place.line() as usize, place.column() as usize));
        let message = error.to_string();
        // Keep the first line only. The position is reported separately.
        let message = message.lines().next().unwrap_or_default();
        let message = message.trim_start_matches("error: ");
        let (line, column) = place;
        let message = message.trim_end_matches(&format!(" at line {line}, column {column}"));
        Format::Yaml.syntax(place, message.to_owned())
    })
}

/// Converts the byte offset `at` in `text` to a line and a column, both starting at 1. Columns
/// count characters.
fn line_column(text: &str, at: usize) -> (usize, usize) {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}
