use formwork_vocab::TokenId;
use serde::Serialize;
use serde_json::Value;

/// Scope of the caches that an engine fills while it computes masks. Tables that depend only on the
/// tokenizer are always kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Caches are reset for each instance to the state after compilation.
    #[default]
    Test,
    /// The instances of a schema share their caches.
    Schema,
}

/// An engine to measure. The time of a call to a method is measured as a whole.
pub trait Engine: Sync {
    /// A compiled schema.
    type Grammar;
    /// The state of one output of a grammar.
    type Sequence: Sequence;

    /// Returns the name and version of the engine.
    fn name(&self) -> String;

    /// Compiles `schema` and computes the mask at the start of an output.
    ///
    /// # Errors
    /// Returns an error if the engine refuses the schema.
    fn compile(&self, schema: Value) -> Result<Self::Grammar, Refusal>;

    /// Creates a sequence at the start of an output. The engine's configured [`Isolation`] decides
    /// which caches the sequence uses.
    fn start(&self, grammar: &Self::Grammar) -> Self::Sequence;
}

/// One output of a grammar, extended token by token.
pub trait Sequence {
    /// Computes the mask, and appends `token` if the mask allows it. Returns true if the token was
    /// appended.
    ///
    /// # Errors
    /// Returns an error with the reason if the engine gives up.
    fn advance(&mut self, token: TokenId) -> Result<bool, String>;

    /// Computes the mask. Returns true if the mask allows end-of-sequence.
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
    /// The reason, without its location in the schema.
    pub reason: String,
    /// The engine's complete message.
    pub message: String,
}
