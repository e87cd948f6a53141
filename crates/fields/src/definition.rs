use std::path::Path;
use std::sync::Arc;

use formwork_grammar::{Grammar, GrammarError, Limits};
use formwork_vocab::Vocabulary;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::builder::DefinitionBuilder;
use crate::error::{Fault, FieldsError};
use crate::field::Kind;
use crate::node::Node;
use crate::{Invalid, Weights, check, gbnf, import, read, schema, template, validate, write};

/// A checked definition of a JSON structure.
///
/// ```
/// use formwork_fields::{Definition, Format};
/// let definition = Definition::parse(
///     r#"{"name": "Roll", "fields": [{"name": "die", "type": "choice", "options": [6, 20]}, {"name": "value", "type": "int",
///         "min": 1, "max": 20}]}"#,
///     Format::Json,
/// )?;
/// assert_eq!(definition.template(), "{\n  \"die\": \"<choice between [6, 20]>\",\n  \"value\": \"<integer between 1–20>\"\n}");
/// let error = Definition::parse(r#"{"type": "int", "minimum": 1}"#, Format::Json).unwrap_err();
/// assert_eq!(error.to_string(), "root: there is no key `minimum`; int has `type`, `name`, `definitions`, `min`, `max`");
/// # Ok::<(), formwork_fields::FieldsError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Definition {
    name: Option<String>,
    root: Kind,
    definitions: Vec<(String, Kind)>,
}

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
}

impl Definition {
    /// A definition without structures of its own; see [`DefinitionBuilder`] for those.
    ///
    /// # Errors
    /// Where a field contradicts itself.
    pub fn new(name: impl Into<String>, root: impl Into<Kind>) -> Result<Self, FieldsError> {
        DefinitionBuilder::new(root).name(name).build()
    }

    pub(crate) fn check(built: DefinitionBuilder) -> Result<Self, FieldsError> {
        check::check(&built)?;
        let DefinitionBuilder { name, root, mut definitions } = built;
        // Not all formats keep the order of a map.
        definitions.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Self { name, root, definitions })
    }

    /// The fields of a JSON Schema such as `schemars` writes. Every value of the definition is one of the schema; where that leaves
    /// more open, the definition takes what fields can say.
    ///
    /// # Errors
    /// Where fields have nothing for what the schema says, with the JSON pointer.
    ///
    /// ```
    /// use formwork_fields::Definition;
    /// let schema = serde_json::json!({ "type": "object", "properties": { "tags": { "type": "array", "uniqueItems": true } } });
    /// let error = Definition::from_schema(&schema).unwrap_err();
    /// assert_eq!(error.to_string(), "#/properties/tags: fields have nothing for `uniqueItems`");
    /// ```
    pub fn from_schema(schema: &Value) -> Result<Self, FieldsError> {
        import::definition(schema)?.build()
    }

    /// The fields of a Rust type.
    ///
    /// # Errors
    /// As with [`from_schema`](Self::from_schema).
    ///
    /// ```
    /// use formwork_fields::Definition;
    /// #[derive(schemars::JsonSchema)]
    /// struct Sailor {
    ///     name: String,
    ///     #[schemars(range(min = 16, max = 70))]
    ///     age: u8,
    ///     ship: Option<String>,
    /// }
    /// let sailor = Definition::of::<Sailor>()?;
    /// assert!(sailor.validate(r#"{"name": "Ava", "age": 25}"#).is_empty());
    /// assert!(!sailor.validate(r#"{"name": "Ava", "age": 15}"#).is_empty());
    /// # Ok::<(), formwork_fields::FieldsError>(())
    /// ```
    pub fn of<T: JsonSchema>() -> Result<Self, FieldsError> {
        Self::from_schema(SchemaGenerator::default().into_root_schema_for::<T>().as_value())
    }

    /// Its name, which is that of the root.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What the whole output is.
    pub const fn root(&self) -> &Kind {
        &self.root
    }

    /// The structures that references stand for, by their names, which are in order.
    pub fn definitions(&self) -> &[(String, Kind)] {
        &self.definitions
    }

    /// The structure of this name.
    pub(crate) fn definition(&self, name: &str) -> Option<&Kind> {
        let at = self.definitions.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        Some(&self.definitions[at].1)
    }

    /// The canonical texts as GBNF, in the syntax that llama.cpp reads, too.
    ///
    /// ```
    /// use formwork_fields::Definition;
    /// use formwork_fields::builder::int;
    /// assert_eq!(Definition::new("age", int(0, 120))?.gbnf(), "root ::= [0-9] | [1-9] [0-9] | \"1\" ([0-1] [0-9] | \"20\")\n");
    /// # Ok::<(), formwork_fields::FieldsError>(())
    /// ```
    pub fn gbnf(&self) -> String {
        gbnf::gbnf(self)
    }

    /// The text that shows a model what to write; what stands for what is told with [the code](self).
    ///
    /// ```
    /// use formwork_fields::Definition;
    /// use formwork_fields::builder::{composite, field, int, string, variant};
    /// let battle = composite([field("enemy_level", int(1, 100)), field("terrain", string(3, 15))]);
    /// let dialogue = composite([field("speaker", string(3, 20))]);
    /// let event = composite([field("event", variant([("battle", battle), ("dialogue", dialogue)]))]);
    /// assert_eq!(
    ///     Definition::new("Event", event)?.template(),
    ///     r#"{
    ///   "event": "<choose one of the following structures>
    /// { \"battle\": { \"enemy_level\": <1–100>, \"terrain\": <3–15 chars> } }
    /// OR
    /// { \"dialogue\": { \"speaker\": <3–20 chars> } }"
    /// }"#
    /// );
    /// # Ok::<(), formwork_fields::FieldsError>(())
    /// ```
    pub fn template(&self) -> String {
        template::template(self)
    }

    /// A JSON Schema, draft 2020-12, of the same values.
    ///
    /// ```
    /// use formwork_fields::Definition;
    /// use formwork_fields::builder::int;
    /// let schema = Definition::new("age", int(0, 120))?.schema();
    /// assert_eq!((&schema["type"], &schema["maximum"]), (&"integer".into(), &120.into()));
    /// # Ok::<(), formwork_fields::FieldsError>(())
    /// ```
    pub fn schema(&self) -> Value {
        schema::schema(self)
    }

    /// What is wrong with a JSON text; nothing where it is valid. Its members may come in any order, and its numbers and strings be
    /// spelt in any way.
    ///
    /// ```
    /// use formwork_fields::Definition;
    /// use formwork_fields::builder::{composite, field, int};
    /// let stats = Definition::new("stats", composite([field("strength", int(1, 10))]))?;
    /// let errors = stats.validate(r#"{"strength": 12}"#);
    /// assert_eq!(errors[0].to_string(), "$.strength: expected an integer between 1 and 10, found 12");
    /// # Ok::<(), formwork_fields::FieldsError>(())
    /// ```
    pub fn validate(&self, text: &str) -> Vec<Invalid> {
        validate::validate(self, text)
    }

    /// The weights of choices, for the sampler; `None` where there are none.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use formwork_fields::Definition;
    /// use formwork_fields::builder::weighted;
    /// use formwork_grammar::Guide;
    /// use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
    /// let bytes = (0..=255u8).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Byte });
    /// let vocabulary = Arc::new(Vocabulary::new(bytes.collect(), vec![])?);
    /// let rarity = Definition::new("rarity", weighted([("common", 3.0), ("rare", 1.0)]))?;
    /// let mut place = rarity.weights(&vocabulary).expect("it has weights").follow();
    /// let mut allowed = vocabulary.empty_set();
    /// allowed.insert(TokenId(b'"'.into()));
    /// assert!(place.bias(&allowed).is_empty());
    /// place.push(TokenId(b'"'.into()));
    /// allowed.clear();
    /// allowed.insert(TokenId(b'c'.into()));
    /// allowed.insert(TokenId(b'r'.into()));
    /// let bias = place.bias(&allowed);
    /// assert_eq!(bias, [(TokenId(b'c'.into()), 0.75f32.ln()), (TokenId(b'r'.into()), 0.25f32.ln())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn weights(&self, vocabulary: &Arc<Vocabulary>) -> Option<Weights> {
        Weights::new(self, vocabulary)
    }

    /// Compiles [`gbnf`](Self::gbnf).
    ///
    /// # Errors
    /// Where it meets a limit.
    pub fn grammar(&self, limits: &Limits) -> Result<Grammar, GrammarError> {
        Grammar::gbnf(&self.gbnf(), limits)
    }

    /// Reads a definition.
    ///
    /// # Errors
    /// Where it is not in its format, with line and column, and where it is no definition, with the path of the field.
    pub fn parse(text: &str, format: Format) -> Result<Self, FieldsError> {
        let node = match format {
            Format::Json => serde_json::from_str(text).map_err(|error| {
                // The message ends in the place.
                let message = error.to_string();
                let message = message.split(" at line ").next().unwrap_or_default().to_owned();
                syntax(format, (error.line(), error.column()), message)
            }),
            Format::Yaml => yaml(text),
            Format::Toml => toml::from_str(text).map_err(|error| {
                let at = error.span().map_or(0, |span| span.start);
                syntax(format, line_column(text, at), error.message().to_owned())
            }),
        };
        read::definition(node?)?.build()
    }

    /// Writes the definition, so that it reads as an equal one.
    ///
    /// # Errors
    /// Never for JSON and YAML; for TOML and the others alike what their libraries cannot write, which no definition is known to be.
    pub fn to_text(&self, format: Format) -> Result<String, FieldsError> {
        let node = self.node();
        let unwritable = |message: String| Fault::Unwritable { format: format.name(), message }.into();
        match format {
            Format::Json => {
                serde_json::to_string_pretty(&node).map_err(|error| unwritable(error.to_string()))
            }
            Format::Yaml => serde_saphyr::to_string(&node).map_err(|error| unwritable(error.to_string())),
            Format::Toml => toml::to_string(&node).map_err(|error| unwritable(error.to_string())),
        }
    }

    fn node(&self) -> Node {
        write::definition(self.name.as_deref(), &self.root, &self.definitions)
    }
}

fn syntax(format: Format, (line, column): (usize, usize), message: String) -> FieldsError {
    Fault::Syntax { format: format.name(), line, column, message }.into()
}

/// Reads YAML 1.2, in which `yes` and `010` mean what they look like.
fn yaml(text: &str) -> Result<Node, FieldsError> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location().map_or((1, 1), |place| (place.line() as usize, place.column() as usize));
        let message = error.to_string();
        // The place is told before.
        let message = message.lines().next().unwrap_or_default();
        let message = message.trim_start_matches("error: ").to_owned();
        syntax(Format::Yaml, place, message)
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

impl Serialize for Definition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.node().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Definition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let node = Node::deserialize(deserializer)?;
        read::definition(node).and_then(DefinitionBuilder::build).map_err(serde::de::Error::custom)
    }
}
