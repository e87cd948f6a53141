use formwork_vocab::TokenId;
use serde::Serialize;
use serde_json::Value;

/// Caches that are cleared between instances. Tables that depend only on the tokenizer are always
/// kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Each instance starts with the state after compilation.
    #[default]
    Test,
    /// The instances of a schema share their caches.
    Schema,
}

/// An engine to measure. Every method is timed as a whole.
pub trait Engine: Sync {
    /// A compiled schema.
    type Grammar;
    /// The state of one output.
    type Sequence: Sequence;

    /// Returns the name and version of the engine.
    fn name(&self) -> String;

    /// Compiles `schema` and computes the mask at the start of an output.
    ///
    /// # Errors
    /// Returns an error if the engine refuses the schema.
    fn compile(&self, schema: Value) -> Result<Self::Grammar, Refusal>;

    /// Creates a sequence at the start of an output, with the isolation that the engine is
    /// configured for.
    fn start(&self, grammar: &Self::Grammar) -> Self::Sequence;
}

/// One output, token by token.
pub trait Sequence {
    /// Computes the mask and appends `token` if the mask allows the token. Returns whether it does.
    ///
    /// # Errors
    /// Returns an error with the reason if the engine gives up.
    fn advance(&mut self, token: TokenId) -> Result<bool, String>;

    /// Computes the mask and returns whether it allows end-of-sequence.
    ///
    /// # Errors
    /// Returns the errors of [`Sequence::advance`].
    fn may_end(&mut self) -> Result<bool, String>;
}

/// The reason why an engine refuses a schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Unsupported keyword, if the engine names one.
    pub keyword: Option<String>,
    /// The reason without the location.
    pub reason: String,
    /// The engine's complete message.
    pub message: String,
}
