use std::collections::HashSet;
use std::sync::Arc;

use formwork_grammar::{Grammar, GrammarError, Limits};
use formwork_vocab::Vocabulary;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::builder::DefinitionBuilder;
use crate::error::FieldsError;
use crate::field::Kind;
use crate::node::Node;
use crate::{
    CSharpOptions, Format, Invalid, SchemaOptions, TemplateOptions, Weights, check, csharp, gbnf, import,
    read, schema, template, validate, write,
};

/// Checked definition of a JSON structure. All outputs are generated from a definition: grammar,
/// prompt template, JSON Schema, validator and weights.
///
/// ```
/// use formwork_fields::{Definition, Format};
/// let definition = Definition::parse(
///     r#"{"name": "Roll", "fields": [
///         {"name": "die", "type": "choice", "options": [6, 20]},
///         {"name": "value", "type": "int", "min": 1, "max": 20}]}"#,
///     Format::Json,
/// )?;
/// assert_eq!(
///     definition.template(),
///     "{\n  \"die\": \"<choice between [6, 20]>\",\n  \"value\": \"<integer between 1–20>\"\n}"
/// );
/// let error = Definition::parse(r#"{"type": "int", "minimum": 1}"#, Format::Json).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "$: unknown key `minimum`; \
///      int accepts `type`, `description`, `name`, `definitions`, `min`, `max`"
/// );
/// # Ok::<(), formwork_fields::FieldsError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Definition {
    name: Option<String>,
    root: Kind,
    definitions: Vec<(String, Kind)>,
}

impl Definition {
    /// Creates a definition without named structures. Use [`DefinitionBuilder`] to add named
    /// structures.
    ///
    /// # Errors
    /// Returns an error if a field is invalid, for example if its lower bound is above its upper
    /// bound.
    pub fn new(name: impl Into<String>, root: impl Into<Kind>) -> Result<Self, FieldsError> {
        DefinitionBuilder::new(root).name(name).build()
    }

    pub(crate) fn checked(mut built: DefinitionBuilder) -> Result<Self, FieldsError> {
        check::check(&built)?;
        check::normalise(&mut built);
        let DefinitionBuilder { name, root, mut definitions } = built;
        // Sort by name, because not all formats preserve the order of maps.
        definitions.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Self { name, root, definitions })
    }

    /// Creates a definition from a JSON Schema, for example one that `schemars` generates.
    /// Descriptions in the schema become descriptions of fields.
    ///
    /// Every value of the definition is valid under the schema. The definition may be stricter than
    /// the schema. For example, objects have named members only.
    ///
    /// # Errors
    /// Returns an error in these cases:
    ///
    /// - The schema uses a keyword or structure that fields cannot express. The error contains the
    ///   JSON pointer.
    /// - A resulting field is invalid, for example because its bounds contain no number. The error
    ///   contains the path of the field.
    ///
    /// ```
    /// use formwork_fields::Definition;
    /// let schema = serde_json::json!({
    ///     "type": "object",
    ///     "properties": { "tags": { "type": "array", "uniqueItems": true } },
    /// });
    /// let error = Definition::from_schema(&schema).unwrap_err();
    /// assert_eq!(error.to_string(), "#/properties/tags: unsupported keyword `uniqueItems`");
    /// ```
    pub fn from_schema(schema: &Value) -> Result<Self, FieldsError> {
        import::definition(schema)?.build()
    }

    /// Creates a definition from the JSON Schema of a Rust type.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`from_schema`](Self::from_schema).
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

    /// Returns the name of the definition, which is also the `title` of its JSON Schema. Returns
    /// `None` if the definition has no name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the kind of the whole output.
    pub const fn root(&self) -> &Kind {
        &self.root
    }

    /// Returns the named structures, which fields can refer to, sorted by name.
    pub fn definitions(&self) -> &[(String, Kind)] {
        &self.definitions
    }

    /// Returns the named structure called `name`, or `None` if the definition has no such
    /// structure.
    pub(crate) fn definition(&self, name: &str) -> Option<&Kind> {
        let at = self.definitions.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        Some(&self.definitions[at].1)
    }

    /// Returns every kind that a value of the kind `kind` may have, after references, descriptions
    /// and untagged variants have been resolved. The kinds are in the order of the definition,
    /// without duplicates.
    ///
    /// The search is iterative, because a chain of references can be as long as the number of
    /// structures.
    pub(crate) fn alternatives<'d>(&'d self, kind: &'d Kind) -> Vec<&'d Kind> {
        let (mut found, mut seen, mut open) = (Vec::new(), HashSet::new(), vec![kind]);
        while let Some(kind) = open.pop() {
            if !seen.insert(std::ptr::from_ref(kind)) {
                continue;
            }
            match kind {
                Kind::Ref(name) => open.extend(self.definition(name)),
                Kind::Described(described) => open.push(&described.kind),
                Kind::Variant(variant) if variant.untagged => {
                    open.extend(variant.variants.iter().rev().map(|branch| &branch.kind));
                }
                _ => found.push(kind),
            }
        }
        found
    }

    /// Returns a GBNF grammar that accepts exactly the [canonical texts](crate#canonical-text).
    /// llama.cpp can read the grammar too.
    ///
    /// The rule `root` refers to a rule with the name of the definition. Characters other than
    /// ASCII letters and digits become `-`. A definition without such a name has only `root`.
    ///
    /// ```
    /// use formwork_fields::Definition;
    /// use formwork_fields::builder::int;
    /// assert_eq!(
    ///     Definition::new("age", int(0, 120))?.gbnf(),
    ///     "root ::= age\nage ::= [0-9] | [1-9] [0-9] | \"1\" ([0-1] [0-9] | \"20\")\n"
    /// );
    /// # Ok::<(), formwork_fields::FieldsError>(())
    /// ```
    pub fn gbnf(&self) -> String {
        gbnf::gbnf(self, usize::MAX)
    }

    /// Returns what [`gbnf`](Self::gbnf) returns, or `None` if it is longer than `bytes`. Takes memory in proportion
    /// to `bytes` and to the definition.
    pub fn gbnf_within(&self, bytes: usize) -> Option<String> {
        let source = gbnf::gbnf(self, bytes);
        (source.len() <= bytes).then_some(source)
    }

    /// Returns a prompt template that shows a model the structure to write. The placeholders are
    /// described in `grammars/fields/README.md` of the repository.
    ///
    /// The template shows weights as percentages. Use [`template_with`](Self::template_with) to
    /// omit the weights.
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
    /// {
    ///   \"battle\": { \"enemy_level\": <1–100>, \"terrain\": <string of 3–15 characters> }
    /// }
    /// OR
    /// {
    ///   \"dialogue\": { \"speaker\": <3–20 chars> }
    /// }"
    /// }"#
    /// );
    /// # Ok::<(), formwork_fields::FieldsError>(())
    /// ```
    pub fn template(&self) -> String {
        self.template_with(TemplateOptions::default())
    }

    /// Returns the prompt template with the given options, for example without weights.
    ///
    /// ```
    /// use formwork_fields::builder::weighted;
    /// use formwork_fields::{Definition, TemplateOptions};
    /// let rarity = Definition::new("rarity", weighted([("common", 3.0), ("rare", 1.0)]))?;
    /// assert_eq!(rarity.template(), r#""<choice between [\"common\" (75%), \"rare\" (25%)]>""#);
    /// let beside_a_guide = TemplateOptions { shares: false };
    /// assert_eq!(rarity.template_with(beside_a_guide), r#""<choice between [\"common\", \"rare\"]>""#);
    /// # Ok::<(), formwork_fields::FieldsError>(())
    /// ```
    pub fn template_with(&self, options: TemplateOptions) -> String {
        template::template(self, options, usize::MAX)
    }

    /// Returns what [`template_with`](Self::template_with) returns, or `None` if it is longer than `bytes`. Takes
    /// memory in proportion to `bytes` and to the definition.
    pub fn template_within(&self, options: TemplateOptions, bytes: usize) -> Option<String> {
        let template = template::template(self, options, bytes);
        (template.len() <= bytes).then_some(template)
    }

    /// Returns a JSON Schema (draft 2020-12) that accepts the same values as the definition, except
    /// that some numbers may have more decimals ([`open_steps`](Self::open_steps)).
    ///
    /// ```
    /// use formwork_fields::Definition;
    /// use formwork_fields::builder::int;
    /// let schema = Definition::new("age", int(0, 120))?.schema();
    /// assert_eq!((&schema["type"], &schema["maximum"]), (&"integer".into(), &120.into()));
    /// # Ok::<(), formwork_fields::FieldsError>(())
    /// ```
    pub fn schema(&self) -> Value {
        self.schema_with(SchemaOptions::default())
    }

    /// Returns the JSON Schema with the given options.
    ///
    /// ```
    /// use formwork_fields::builder::float;
    /// use formwork_fields::{Definition, SchemaOptions};
    /// let speed = Definition::new("speed", float(0.0, 0.3).decimals(1))?;
    /// assert_eq!(speed.schema()["enum"], serde_json::json!([0, 0.1, 0.2, 0.3]));
    /// assert_eq!(speed.schema_with(SchemaOptions { multiple_of: true })["multipleOf"], 0.1);
    /// # Ok::<(), formwork_fields::FieldsError>(())
    /// ```
    pub fn schema_with(&self, options: SchemaOptions) -> Value {
        schema::schema(self, options).0
    }

    /// Returns the paths of the numbers for which [`schema`](Self::schema) does not limit the
    /// number of decimals. They have more than 50,000 values, or the numbers before them have
    /// 200,000 values together.
    pub fn open_steps(&self) -> Vec<String> {
        schema::schema(self, SchemaOptions::default()).1
    }

    /// Reports whether the definition has weights or probabilities, which a JSON Schema does not
    /// contain.
    pub fn has_weights(&self) -> bool {
        crate::weights::has_weights(self)
    }

    /// Returns the largest number of options of a weighted choice, of structures of a weighted variant, or of
    /// members of an object with probabilities. The time that a guide takes for a token grows with its square.
    pub fn widest_weights(&self) -> usize {
        crate::weights::widest(self)
    }

    /// Returns C# source text with records that read and write the JSON texts, with
    /// `System.Text.Json`. The records do not check bounds, lengths and constants.
    ///
    /// # Errors
    /// Returns an error if the namespace is invalid.
    ///
    /// ```
    /// use formwork_fields::builder::{composite, field, int};
    /// use formwork_fields::{CSharpOptions, Definition};
    /// let stats = Definition::new("stats", composite([field("strength", int(1, 10))]))?;
    /// let text = stats.csharp(&CSharpOptions { namespace: "Game".to_owned() })?;
    /// assert!(text.contains("public sealed record Stats\n"));
    /// assert!(text.contains("public required int Strength { get; init; }\n"));
    /// # Ok::<(), formwork_fields::FieldsError>(())
    /// ```
    pub fn csharp(&self, options: &CSharpOptions) -> Result<String, FieldsError> {
        csharp::records(self, options)
    }

    /// Validates a JSON text. Returns the errors found, at most 100, or an empty list if the text
    /// is valid.
    ///
    /// Members may be in any order, and numbers and strings may be in any valid JSON spelling.
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

    /// Returns a guide for the sampler, which biases tokens by the weights of options and structures
    /// and by the probabilities of optional members. Returns `None` if the output can contain nothing
    /// with weights or a probability.
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

    /// Compiles the grammar that [`gbnf`](Self::gbnf) returns.
    ///
    /// # Errors
    /// Returns an error if the grammar exceeds one of `limits`. The usual cause is a shortest value
    /// that is longer than [`Limits::shortest_bytes`].
    pub fn grammar(&self, limits: &Limits) -> Result<Grammar, GrammarError> {
        Grammar::gbnf(&gbnf::gbnf(self, limits.source_bytes), limits)
    }

    /// Parses a definition in the given format.
    ///
    /// # Errors
    /// Returns an error with line and column if the text is malformed. Returns an error with the
    /// path of a field if the definition is invalid.
    pub fn parse(text: &str, format: Format) -> Result<Self, FieldsError> {
        format.parse(text)
    }

    /// Writes the definition in the given format. Parsing the result returns an equal definition,
    /// except for [`Format::JsonSchema`].
    ///
    /// # Errors
    /// Returns an error if the format cannot express the definition. This happens with
    /// [`Format::CSharp`] only, for example with references and missing bounds.
    pub fn to_text(&self, format: Format) -> Result<String, FieldsError> {
        format.write(self)
    }

    pub(crate) fn node(&self) -> Node {
        write::definition(self.name.as_deref(), &self.root, &self.definitions)
    }
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
