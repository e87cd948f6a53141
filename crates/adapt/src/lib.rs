//! Adaptation of model output to a schema, as far as this is possible without guessing.
//!
//! An [`Adapter`] fits a text to a schema. [`object`] finds an object in a text without a schema.
//! [`repair`] describes the errors of an answer for the model that wrote it.
//!
//! # Adaptation
//! Models wrap JSON in prose and fences, encode it twice, misplace commas and quotes, and write
//! numbers as strings. An [`Adapter`] reverses this in a chain of stages. Each stage reports its
//! changes ([`StageReport`]):
//!
//! ```text
//! text ─► extract ─► tolerant ─► syntactic ─► semantic ─► custom ─► strict validation
//!         fences,    notations,  mends of     allow-list   the        the whole schema,
//!         prose,     repair (2)  one meaning  by schema,   caller's   always
//!         escapes                             branches
//! ```
//!
//! - `off` changes nothing. The text must be valid JSON.
//! - `minimal` extracts, unescapes and parses JSON, and makes the few conversions that have only
//!   one meaning.
//! - `full` also reads text that is almost JSON, as far as [`Tolerance`] allows. It mends syntax
//!   and tries branches of `anyOf` and `oneOf`.
//!
//! ```
//! use formwork_adapt::{AdaptOptions, Adapter, Tolerance};
//! use serde_json::json;
//!
//! let schema = json!({
//!     "type": "object",
//!     "properties": {"count": {"type": "integer"}, "size": {"type": ["integer", "boolean"]}},
//!     "required": ["count"],
//! });
//! let adapter = Adapter::new(&schema, AdaptOptions::minimal())?;
//! let adaptation = adapter.adapt("Here you are:\n```json\n{\"count\": \"42\"}\n```");
//! assert_eq!(adaptation.value(), Some(&json!({"count": 42})));
//! assert_eq!(adaptation.transforms().collect::<Vec<_>>(), ["extract", "json.loads", "str->int"]);
//!
//! // A value with two possible meanings is not converted.
//! let adaptation = adapter.adapt(r#"{"count": 1, "size": "1"}"#);
//! assert!(!adaptation.is_valid());
//! let semantic =
//!     adaptation.stages().iter().find(|stage| stage.path.is_some()).expect("a failure");
//! assert_eq!(
//!     semantic.error_preview.as_deref(),
//!     Some("/size: ambiguous: the value could mean 1 or true, and the schema accepts both")
//! );
//!
//! // Text that is not JSON is reported, or read if the tolerance allows it.
//! let broken = "{count: 7, // seven\n}";
//! assert_eq!(
//!     adapter.adapt(broken).violations()[0].to_string(),
//!     "line 1, column 2: expected a name in double quotes",
//! );
//! let full = Adapter::new(&schema, AdaptOptions::full().with_tolerance(Tolerance::Json5))?;
//! assert_eq!(full.adapt(broken).value(), Some(&json!({"count": 7})));
//! # Ok::<(), formwork_adapt::AdaptError>(())
//! ```
//!
//! # Guarantees
//! - A text that is a valid value is never changed, at any level.
//! - Adapting the result again changes nothing.
//! - The final value is validated against the whole schema. If it is invalid, the value is returned
//!   as read, without any conversion.
//! - Ambiguous input is refused instead of resolved. This applies to repeated names with different
//!   values, to several values in a text that match the schema ([`Prefer`]) and to conversions
//!   with two meanings.
//! - A value is invalid if the text ends inside it, unless
//!   [`allow_truncated`](AdaptOptions::allow_truncated) accepts that.
//! - Numbers that fit neither 64 bits nor a double are refused.
//!
//! # Limits
//! [`AdaptLimits`] holds the limits. The defaults are 4 MiB of text, 128 levels of nesting, 1
//! second and 10,000 branches. All code that reads text runs in linear time without recursion. Only
//! building values is recursive, bounded by the nesting limit.
//!
//! # Out of scope
//! Adaptation sends no requests to a model, writes no log and keeps no state. Reports are plain
//! data, which a caller can trace. An adapter is compiled once for a schema and can be shared.

mod chain;
mod coerce;
mod cues;
mod error;
mod extract;
mod kinds;
pub mod object;
mod options;
mod processor;
mod references;
pub mod repair;
mod report;
mod restore;
pub mod schema;
mod strict;
pub mod subschemas;
mod tape;
pub mod thoughts;
mod tolerant;
mod typed;
mod xml;

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;
use std::time::Instant;

use jsonschema::Validator;
use serde_json::Value;

pub use error::AdaptError;
pub use options::{
    AdaptLimits, AdaptOptions, Allow, AnyOfStrategy, Coercion, Conversion, Depth, OutputProcessing, Prefer,
    Tolerance,
};
pub use processor::{Input, Processor, ProcessorError};
pub use report::{Adaptation, BranchChoice, Outcome, Patch, Stage, StageReport, Violation};
pub use typed::from_text;

pub use coerce::FlatSchema;
use error::Kind;
use kinds::Kinds;
use report::Held;
use tape::OnTape;

/// A compiled schema with the options for adapting texts. See the [crate](self) for an example.
pub struct Adapter {
    schema: Value,
    options: AdaptOptions,
    /// Kinds of values that the schema accepts.
    kinds: Kinds,
    /// Kinds of values that the schema most likely describes.
    meant: Kinds,
    on_values: Validator,
    on_tapes: Validator<OnTape>,
    /// Validator that reports errors, created on first use.
    flat: OnceLock<Option<FlatSchema>>,
    /// Properties of the schema's objects, and whether they are required, collected on first use.
    named: OnceLock<HashMap<String, bool>>,
    /// The same for the objects in arrays of the schema, collected on first use.
    named_in_items: OnceLock<HashMap<String, bool>>,
}

impl Adapter {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Returns an error if `schema` is not a valid JSON Schema, or if an option is out of range.
    /// References to other documents are not fetched.
    pub fn new(schema: &Value, options: AdaptOptions) -> Result<Self, AdaptError> {
        options.check()?;
        let on_values = schema::validator(schema).map_err(Kind::Schema)?;
        let on_tapes = jsonschema::options_for::<OnTape>();
        let on_tapes = on_tapes.should_validate_formats(true).build(schema);
        let on_tapes = on_tapes.map_err(|error| Kind::Schema(error.into()))?;
        let (kinds, meant) = (Kinds::of(schema), Kinds::meant(schema));
        Ok(Self {
            schema: schema.clone(),
            options,
            kinds,
            meant,
            on_values,
            on_tapes,
            flat: OnceLock::new(),
            named: OnceLock::new(),
            named_in_items: OnceLock::new(),
        })
    }

    /// Returns the schema.
    pub const fn schema(&self) -> &Value {
        &self.schema
    }

    /// Returns the options.
    pub const fn options(&self) -> &AdaptOptions {
        &self.options
    }

    /// Adapts a text to the schema.
    pub fn adapt(&self, text: &str) -> Adaptation {
        let start = Instant::now();
        let mut adaptation = self.run(text, self.level());
        self.observe(text, &mut adaptation);
        adaptation.elapsed = start.elapsed();
        adaptation
    }

    /// Adapts a text to the schema and passes the value to each of the processors, in order.
    ///
    /// Processors run at every level, even at `off`. In shadow mode, they receive the value without
    /// adaptation, and their changes take effect.
    ///
    /// # Errors
    /// Returns the interruption if a processor interrupts the adaptation.
    pub fn adapt_with<I>(&self, text: &str, processors: &[&dyn Processor<I>]) -> Result<Adaptation, I> {
        let start = Instant::now();
        let mut adaptation = self.run(text, self.level());
        self.customize(text, &mut adaptation, processors)?;
        self.observe(text, &mut adaptation);
        adaptation.elapsed = start.elapsed();
        Ok(adaptation)
    }

    /// Returns the validator that reports errors.
    fn flat(&self) -> Option<&FlatSchema> {
        self.flat.get_or_init(|| FlatSchema::new(&self.schema)).as_ref()
    }

    /// Returns the properties of the schema's objects, and whether they are required.
    fn named(&self) -> &HashMap<String, bool> {
        self.named.get_or_init(|| {
            let properties = schema::properties(&self.schema, &self.schema).into_iter();
            let properties = properties.map(|(name, _)| (name.to_owned(), false));
            let required = schema::required(&self.schema, &self.schema).into_iter();
            let of_calls = repair::names_of_calls(&self.schema).map(|name| (name.to_owned(), false));
            let properties = properties.chain(of_calls);
            properties.chain(required.map(|name| (name.to_owned(), true))).collect()
        })
    }

    /// Returns the properties of the objects in the schema's arrays, and whether they are required.
    fn named_in_items(&self) -> &HashMap<String, bool> {
        self.named_in_items.get_or_init(|| {
            let keywords = ["allOf", "anyOf", "oneOf", "items", "prefixItems"];
            let parts = schema::parts(&self.schema, [&self.schema], &keywords);
            let named = parts.iter().filter_map(|part| part.get("properties")?.as_object()).flatten();
            let named = named.map(|(name, _)| (name.clone(), false));
            let required = parts.iter().filter_map(|part| part.get("required")?.as_array()).flatten();
            let required = required.filter_map(|name| Some((name.as_str()?.to_owned(), true)));
            named.chain(required).collect()
        })
    }

    /// Returns the names by which a text with an answer is recognized: the properties of the schema's
    /// objects, or else of the objects in its arrays.
    fn labels(&self) -> &HashMap<String, bool> {
        if self.named().is_empty() { self.named_in_items() } else { self.named() }
    }

    /// Returns the level that determines the result, which is `off` in shadow mode.
    fn level(&self) -> OutputProcessing {
        if self.options.shadow { OutputProcessing::Off } else { self.options.level }
    }

    /// In shadow mode, adds the adaptation at the configured level.
    fn observe(&self, text: &str, adaptation: &mut Adaptation) {
        if self.options.shadow {
            let start = Instant::now();
            let mut shadow = self.run(text, self.options.level);
            shadow.elapsed = start.elapsed();
            adaptation.shadow = Some(Box::new(shadow));
        }
    }
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter")
            .field("schema", &self.schema)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod property;
#[cfg(test)]
mod tests;

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
