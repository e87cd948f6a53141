use formwork_vocab::TokenId;
use serde::Serialize;
use serde_json::Value;

/// What is forgotten between instances. What depends on the tokenizer alone is always kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Each instance starts with what compiling left.
    #[default]
    Test,
    /// The instances of a schema share what they find out.
    Schema,
}

/// An engine to measure. Every method is timed as a whole.
pub trait Engine: Sync {
    /// A compiled schema.
    type Grammar;
    /// The state of one output.
    type Sequence: Sequence;

    /// The engine and its version.
    fn name(&self) -> String;

    /// Compiles `schema` and computes the mask at the start of an output.
    ///
    /// # Errors
    /// When the engine refuses the schema.
    fn compile(&self, schema: Value) -> Result<Self::Grammar, Refusal>;

    /// Sets up a sequence at the start of an output, isolated as the engine was told.
    fn start(&self, grammar: &Self::Grammar) -> Self::Sequence;
}

/// One output, token by token.
pub trait Sequence {
    /// Computes the mask and, if it allows `token`, takes it; says whether it did.
    ///
    /// # Errors
    /// When the engine gives up. The message says why.
    fn advance(&mut self, token: TokenId) -> Result<bool, String>;

    /// Computes the mask and says whether it allows the end of the sequence.
    ///
    /// # Errors
    /// As for [`Sequence::advance`].
    fn may_end(&mut self) -> Result<bool, String>;
}

/// Why an engine does not take a schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The keyword that is to blame, where the engine names one.
    pub keyword: Option<String>,
    /// The reason, without the place.
    pub reason: String,
    /// All that the engine says.
    pub message: String,
}
