//! A list of literal outputs.

use super::expr::{Expr, Rules};
use crate::GrammarError;
use crate::error::Kind;

/// The grammar of exactly these strings.
pub(crate) fn parse<S: AsRef<str>>(choices: &[S]) -> Result<Rules, GrammarError> {
    if choices.is_empty() {
        return Err(Kind::NoChoices.into());
    }
    let literals = choices.iter().map(|choice| Expr::Literal(choice.as_ref().into())).collect();
    Ok(Rules::of(Expr::Alternatives(literals)))
}
