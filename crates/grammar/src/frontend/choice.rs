//! Grammars that consist of a list of literal outputs.

use crate::GrammarError;
use crate::error::Kind;
use crate::ir::expr::{Expr, Rules};

/// Builds the grammar that matches exactly these strings.
///
/// # Errors
/// Returns an error if the list is empty.
pub(crate) fn parse<S: AsRef<str>>(choices: &[S]) -> Result<Rules, GrammarError> {
    if choices.is_empty() {
        return Err(Kind::NoChoices.into());
    }
    let literals = choices.iter().map(|choice| Expr::Literal(choice.as_ref().into())).collect();
    Ok(Rules::of(Expr::Alternatives(literals)))
}
