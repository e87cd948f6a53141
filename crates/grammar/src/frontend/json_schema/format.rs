use crate::regular::{ExprId, Expressions};
pub(super) fn format(_expressions: &mut Expressions, _name: &str) -> Option<ExprId> { None }
