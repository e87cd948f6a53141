//! Adaptation: what a model wrote, made the value that a schema asks for, as far as that needs no guess.
//!
//! Models wrap JSON in prose and fences, encode it twice, leave commas and quotes where none belong, and write numbers as strings. An
//! [`Adapter`] takes that back in a chain of stages, each of which says what it did ([`StageReport`]):
//!
//! ```text
//! text ─► extract ─► tolerant ─► syntactic ─► semantic ─► custom ─► strict validation
//!         fences,    JSON5 (1),  mends of     allow-list   the        the whole schema,
//!         prose,     repair (2)  one meaning  by schema,   caller's   always
//!         escapes                             branches
//! ```
//!
//! - `off` does nothing: the text must be JSON as it is.
//! - `minimal` finds JSON, unescapes and parses it, and makes the few conversions that have one meaning.
//! - `full` reads what is not quite JSON as well, as far as [`Tolerance`] goes, mends syntax, and tries branches of `anyOf` and `oneOf`.
//!
//! ```
//! use formwork_protocol::adapt::{AdaptOptions, Adapter, Tolerance};
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
//! // What has two meanings is not decided here.
//! let adaptation = adapter.adapt(r#"{"count": 1, "size": "1"}"#);
//! assert!(!adaptation.is_valid());
//! let semantic = adaptation.stages().iter().find(|stage| stage.path.is_some()).expect("a failure");
//! assert_eq!(semantic.error_preview.as_deref(), Some("/size: this could be 1 or true: the schema takes both"));
//!
//! // What is not JSON is told, or read where that is allowed.
//! let broken = "{count: 7, // seven\n}";
//! assert_eq!(
//!     adapter.adapt(broken).violations()[0].to_string(),
//!     "line 1, column 2: expected a name in double quotes",
//! );
//! let full = Adapter::new(&schema, AdaptOptions::full().with_tolerance(Tolerance::Json5))?;
//! assert_eq!(full.adapt(broken).value(), Some(&json!({"count": 7})));
//! # Ok::<(), formwork_protocol::adapt::AdaptError>(())
//! ```
//!
//! # Laws
//! A value that is valid as it came is left alone, whatever the level, and adapting twice is adapting once. At the end everything is
//! validated by the whole schema; what does not pass is given back as it was read, without any conversion. Names that come twice in an
//! object, and numbers that neither 64 bits nor a double hold, are refused, not decided; so are two values in a text that are as large
//! as each other, and conversions with two meanings.
//!
//! # Limits
//! Those of [`AdaptLimits`]: 4 MiB of text, 128 levels of nesting, one second, 10,000 branches. All that reads text is linear in its
//! length and uses no recursion, but for building values, which is as deep as they may nest.
//!
//! # What is not here
//! No model is asked for anything, nothing is logged, and there is no state: reports are data for who traces. An adapter is made once
//! for a schema and may be shared.

mod chain;
mod coerce;
mod error;
mod extract;
mod kinds;
mod options;
mod processor;
mod report;
pub(crate) mod strict;
mod tape;
mod tolerant;
mod typed;

use std::fmt;
use std::sync::OnceLock;
use std::time::Instant;

use jsonschema::Validator;
use serde_json::Value;

pub use error::{AdaptError, Interrupted, Interruption};
pub use options::{AdaptLimits, AdaptOptions, Allow, Coercion, Conversion, Depth, Tolerance};
pub use processor::{Input, Processor, ProcessorError};
pub use report::{Adaptation, BranchChoice, Outcome, Patch, Stage, StageReport, Violation};
pub use typed::from_text;

use crate::config::OutputProcessing;
pub(crate) use coerce::{Branches, Flat, keyword_place};
use error::Kind;
use kinds::Kinds;
use report::Held;
use tape::OnTape;
pub(crate) use tape::{in_one_line, pointer_token};

/// A schema with what may be done to texts that are to have it. See the [module](self) for an example.
pub struct Adapter {
    schema: Value,
    options: AdaptOptions,
    /// What a value of the schema can be.
    kinds: Kinds,
    /// What it is likely to be.
    meant: Kinds,
    on_values: Validator,
    on_tapes: Validator<OnTape>,
    /// What tells errors, made when there is one.
    flat: OnceLock<Option<Flat>>,
}

impl Adapter {
    /// Compiles a schema.
    ///
    /// # Errors
    /// When the schema is none (references are not fetched), or an option is not what it may be.
    pub fn new(schema: &Value, options: AdaptOptions) -> Result<Self, AdaptError> {
        options.check()?;
        let refused = |error: jsonschema::ValidationError<'_>| Kind::Schema {
            path: error.instance_path().as_str().to_owned(),
            reason: error.to_string(),
        };
        let on_values = jsonschema::validator_for(schema).map_err(refused)?;
        let on_tapes = jsonschema::options_for::<OnTape>().build(schema).map_err(refused)?;
        let (kinds, meant) = (Kinds::of(schema), Kinds::meant(schema));
        Ok(Self { schema: schema.clone(), options, kinds, meant, on_values, on_tapes, flat: OnceLock::new() })
    }

    /// The schema.
    pub const fn schema(&self) -> &Value {
        &self.schema
    }

    /// What may be done.
    pub const fn options(&self) -> &AdaptOptions {
        &self.options
    }

    /// Makes of a text what the schema asks for.
    pub fn adapt(&self, text: &str) -> Adaptation {
        let start = Instant::now();
        let mut adaptation = self.run(text, self.level());
        self.observe(text, &mut adaptation);
        adaptation.elapsed = start.elapsed();
        adaptation
    }

    /// The same, with what the caller does to values in between: each of the processors in order, also at level `off`. In shadow mode
    /// they are given what came, since they are not what is only watched.
    ///
    /// # Errors
    /// When a processor stops everything, with its own error.
    pub fn adapt_with(&self, text: &str, processors: &[&dyn Processor]) -> Result<Adaptation, Interrupted> {
        let start = Instant::now();
        let mut adaptation = self.run(text, self.level());
        self.customize(text, &mut adaptation, processors)?;
        self.observe(text, &mut adaptation);
        adaptation.elapsed = start.elapsed();
        Ok(adaptation)
    }

    /// What tells errors.
    fn flat(&self) -> Option<&Flat> {
        self.flat.get_or_init(|| Flat::new(&self.schema)).as_ref()
    }

    /// The level that counts for the result.
    fn level(&self) -> OutputProcessing {
        if self.options.shadow { OutputProcessing::Off } else { self.options.level }
    }

    /// In shadow mode, adds what would have come.
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
