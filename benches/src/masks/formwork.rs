use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use formwork_grammar::{Constraint, Grammar, GrammarError, Limits, Matcher, SchemaOptions};
use formwork_vocab::{TokenId, Tokenizer, Vocabulary};
use serde_json::Value;

use super::{Engine, Isolation, Refusal, Sequence};

/// Formwork's own engine.
pub struct Formwork {
    vocabulary: Arc<Vocabulary>,
    settings: Settings,
    tables: Duration,
}

/// Compilation options and isolation of [`Formwork`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Options for compiling schemas.
    pub options: SchemaOptions,
    /// Limits on the cost of a grammar.
    pub limits: Limits,
    /// Scope of the caches.
    pub isolation: Isolation,
}

impl Formwork {
    /// Creates the engine for the vocabulary of `tokenizer`. Builds the tables that depend only on
    /// the vocabulary and on JSON, so their time is not part of the time of any schema.
    ///
    /// # Errors
    /// Returns an error if the vocabulary has no end-of-sequence token, because no output could
    /// end.
    pub fn new(tokenizer: &Tokenizer, settings: Settings) -> Result<Self> {
        if tokenizer.vocabulary().ends().is_empty() {
            bail!("the tokenizer names no token that ends a sequence");
        }
        let vocabulary = Arc::clone(tokenizer.vocabulary());
        let mut engine = Self { vocabulary, settings, tables: Duration::ZERO };
        let start = Instant::now();
        let any =
            Grammar::json_schema(&Value::Bool(true), &engine.settings.options, &engine.settings.limits)?;
        engine.constraint(&any).matcher().mask();
        engine.tables = start.elapsed();
        Ok(engine)
    }

    /// Returns the time that [`Formwork::new`] spent building tables.
    pub const fn tables_time(&self) -> Duration {
        self.tables
    }

    fn constraint(&self, grammar: &Grammar) -> Constraint {
        Constraint::new(grammar, Arc::clone(&self.vocabulary)).expect("a schema names no tokens")
    }
}

impl Engine for Formwork {
    type Grammar = Constraint;
    type Sequence = FormworkSequence;

    fn name(&self) -> String {
        concat!("formwork ", env!("CARGO_PKG_VERSION")).to_owned()
    }

    fn compile(&self, schema: Value) -> Result<Constraint, Refusal> {
        let grammar = Grammar::json_schema(&schema, &self.settings.options, &self.settings.limits)?;
        let constraint = self.constraint(&grammar);
        constraint.matcher().mask();
        Ok(constraint)
    }

    fn start(&self, constraint: &Constraint) -> FormworkSequence {
        let matcher = match self.settings.isolation {
            Isolation::Test => self.constraint(constraint.grammar()).matcher(),
            Isolation::Schema => constraint.matcher(),
        };
        FormworkSequence { matcher, vocabulary: Arc::clone(&self.vocabulary) }
    }
}

/// A sequence of [`Formwork`]: a matcher with its vocabulary.
pub struct FormworkSequence {
    matcher: Matcher,
    vocabulary: Arc<Vocabulary>,
}

impl Sequence for FormworkSequence {
    fn advance(&mut self, token: TokenId) -> Result<bool, String> {
        if !self.matcher.mask().contains(token) {
            return Ok(false);
        }
        self.matcher.commit(token).map_err(|error| format!("the mask allowed it, but {error}"))?;
        Ok(true)
    }

    fn may_end(&mut self) -> Result<bool, String> {
        let mask = self.matcher.mask();
        Ok(self.vocabulary.ends().iter().any(|&end| mask.contains(end)))
    }
}

impl From<GrammarError> for Refusal {
    fn from(error: GrammarError) -> Self {
        Self {
            keyword: error.keyword().map(str::to_owned),
            reason: error.problem(),
            message: error.to_string(),
        }
    }
}
