//! The formats in which definitions are written.

use std::path::Path;

use crate::error::{Fault, FieldsError};
use crate::node::Node;

/// How a definition is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML 1.2.
    Yaml,
    /// TOML.
    Toml,
}

impl Format {
    /// The format of files with this extension: `json`, `yaml`, `yml` or `toml`.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Yaml => "YAML",
            Self::Toml => "TOML",
        }
    }

    pub(crate) fn read(self, text: &str) -> Result<Node, FieldsError> {
        match self {
            Self::Json => {
                formwork_json::from_str(text).map_err(|error| self.syntax(error.place(), error.problem()))
            }
            Self::Yaml => yaml(text),
            Self::Toml => toml::from_str(text).map_err(|error| {
                let at = error.span().map_or(0, |span| span.start);
                self.syntax(line_column(text, at), error.message().to_owned())
            }),
        }
    }

    pub(crate) fn write(self, node: &Node) -> Result<String, FieldsError> {
        let unwritable = |message: String| Fault::Unwritable { format: self.name(), message }.into();
        match self {
            Self::Json => serde_json::to_string_pretty(node).map_err(|error| unwritable(error.to_string())),
            Self::Yaml => serde_saphyr::to_string(node).map_err(|error| unwritable(error.to_string())),
            Self::Toml => toml::to_string(node).map_err(|error| unwritable(error.to_string())),
        }
    }

    fn syntax(self, (line, column): (usize, usize), message: String) -> FieldsError {
        Fault::Syntax { format: self.name(), line, column, message }.into()
    }
}

/// Reads YAML 1.2, in which `yes` and `010` mean what they look like.
fn yaml(text: &str) -> Result<Node, FieldsError> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
        // What the largest definition comes to; bounds of the definition itself are those of `check`.
        budget: serde_saphyr::budget! { max_depth: 256, max_nodes: 1_000_000, max_events: 2_000_000 },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location().map_or((1, 1), |place| (place.line() as usize, place.column() as usize));
        let message = error.to_string();
        // The place is told before.
        let message = message.lines().next().unwrap_or_default();
        let message = message.trim_start_matches("error: ").to_owned();
        Format::Yaml.syntax(place, message)
    })
}

/// The line and column of an offset, both from 1; columns count characters.
fn line_column(text: &str, at: usize) -> (usize, usize) {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}
