//! A list of literal outputs.

use crate::GrammarError;
use crate::error::Kind;
use crate::ir::expr::{Expr, Rules};

/// The grammar of exactly these strings.
pub(crate) fn parse<S: AsRef<str>>(choices: &[S]) -> Result<Rules, GrammarError> {
    if choices.is_empty() {
        return Err(Kind::NoChoices.into());
    }
    let literals = choices.iter().map(|choice| Expr::Literal(choice.as_ref().into())).collect();
    Ok(Rules::of(Expr::Alternatives(literals)))
}
