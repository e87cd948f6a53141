use std::mem::MaybeUninit;
use std::sync::Arc;

use formwork_grammar::Constraint;

use crate::error::{FormworkError, FormworkStatus};
use crate::grammar::FormworkGrammar;
use crate::guard;
use crate::vocabulary::FormworkVocabulary;

/// A grammar bound to a vocabulary, with the caches that all its matchers share. Shareable between
/// threads.
pub struct FormworkConstraint {
    pub(crate) constraint: Constraint,
}

/// Binds a grammar to a vocabulary. Create one constraint for each grammar, and a matcher for each
/// output, so that later outputs profit from the caches.
///
/// The function fails if the grammar names a token that the vocabulary lacks.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_constraint_new(
    grammar: Option<&FormworkGrammar>,
    vocabulary: Option<&FormworkVocabulary>,
    constraint: Option<&mut MaybeUninit<Option<Box<FormworkConstraint>>>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let grammar = &guard::required(grammar, "grammar")?.grammar;
        let vocabulary = &guard::required(vocabulary, "vocabulary")?.vocabulary;
        let result = guard::required(constraint, "constraint")?;
        let constraint = Constraint::new(grammar, Arc::clone(vocabulary))?;
        result.write(Some(Box::new(FormworkConstraint { constraint })));
        Ok(())
    })
}

/// Returns the approximate memory of the grammar and the caches, in bytes. Returns 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_constraint_memory(constraint: Option<&FormworkConstraint>) -> usize {
    constraint.map_or(0, |handle| handle.constraint.byte_len())
}

/// Frees a constraint. Its matchers remain usable. Accepts NULL.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_constraint_free(constraint: Option<Box<FormworkConstraint>>) {
    guard::free(constraint);
}
