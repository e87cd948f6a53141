//! The extension `mask_view`: what a constraint did to each token of an output.

use serde::{Deserialize, Serialize};

use crate::RequestError;
use crate::request::{Fields, Place};

/// Number of likeliest tokens that are reported if a request does not set it.
const TOP: usize = 5;
/// Maximum number of likeliest tokens that a request may ask for.
const MAX_TOP: usize = 20;

/// Parses `mask_view`: an object with `top`, true, or false. Returns the number of likeliest tokens to report.
pub(crate) fn read(fields: &mut Fields) -> Result<Option<usize>, RequestError> {
    let Some(at) = fields.take("mask_view") else { return Ok(None) };
    if at.value().is_boolean() {
        return Ok(at.bool()?.then_some(TOP));
    }
    let mut fields = at.fields()?;
    let top = fields.read("top", |at: Place| at.up_to(MAX_TOP, "0..=20"))?.unwrap_or(TOP);
    fields.finish_strictly()?;
    Ok(Some(top))
}

/// Effect of the constraint on one token of an output.
///
/// Probabilities are those by the model's own logits, without mask, temperature, penalties and bias.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TokenMask {
    /// Text of the token. Bytes that are not UTF-8 are replaced.
    pub token: String,
    /// Id of the token.
    pub id: u32,
    /// Bytes of the token.
    pub bytes: Vec<u8>,
    /// Offset of the token in the output as the model wrote it, in bytes. Control tokens have no bytes. An
    /// output with thoughts or calls has more text than its content.
    pub start: usize,
    /// Offset of the end of the token.
    pub end: usize,
    /// Origin of the token.
    pub origin: TokenOrigin,
    /// Number of tokens that the constraint allowed. `null` without a constraint, when all are allowed.
    pub allowed: Option<usize>,
    /// Probability of the token.
    pub probability: f64,
    /// Sum of the probabilities of all tokens that the constraint forbade.
    pub removed: f64,
    /// JSON pointer of the value that the token begins in. A name belongs to its object. `null` for tokens outside
    /// the content, for control tokens, after the JSON value, for pointers of more than 1,024 bytes, and if the
    /// format of the content is not JSON.
    pub path: Option<String>,
    /// Rules of the GBNF or Lark grammar that the token begins in. There are several if the text after
    /// the token decides between them. Text that `%ignore` allows belongs to `%ignore`. Empty outside
    /// the content, for control tokens, after a token that the grammar names, and for other formats.
    pub rules: Vec<String>,
    /// The likeliest tokens before the mask, likeliest first.
    pub top: Vec<MaskedToken>,
}

/// Origin of a token of an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenOrigin {
    /// Sampled from the tokens that the constraint allowed.
    Sampled,
    /// Appended as the only token that the constraint allowed.
    OnlyToken,
    /// Appended because the constraint allowed a single text, which other allowed tokens begin too.
    OnlyText,
    /// Appended because the reasoning had used up its budget.
    ReasoningBudget,
    /// Sampled from those of the allowed tokens that complete the output within its token limit.
    TokenLimit,
}

/// A token that was likely before the mask.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MaskedToken {
    /// Text of the token. Bytes that are not UTF-8 are replaced.
    pub token: String,
    /// Id of the token.
    pub id: u32,
    /// Bytes of the token.
    pub bytes: Vec<u8>,
    /// Probability of the token.
    pub probability: f64,
    /// True if the constraint allowed the token.
    pub allowed: bool,
}
