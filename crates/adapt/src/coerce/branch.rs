//! Conversion by the branches of `anyOf` and `oneOf`, tried in order.

use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use super::flat::{Branches, FlatSchema, errors};
use super::{Base, Coercer, Done};
use crate::extract::AMBIGUOUS;
use crate::options::AnyOfStrategy;
use crate::report::{BranchChoice, Violation};

/// Maximum number of conversion rounds for one branch.
const ROUNDS: usize = 8;

/// A branch that accepts the converted value, with the changes that were made.
struct Found {
    value: Value,
    index: usize,
    done: Done,
}

/// Result of trying one branch.
enum Attempt {
    Refused,
    Taken(Value),
    /// Several branches of `oneOf` accept the converted value. Holds their names for a message.
    Several(String),
}

impl<'a> Coercer<'a> {
    /// Converts a value at `path` that no branch accepts, and returns the new value.
    ///
    /// Each branch is tried by converting the value according to the branch's errors. The keywords
    /// beside the branches must accept the result as well.
    ///
    /// # Errors
    /// Returns a violation if several branches of `oneOf` accept the value, with or without
    /// conversion. With [`AnyOfStrategy::Unique`], several matching branches of `anyOf` are a
    /// violation as well.
    pub(super) fn branch(
        &mut self,
        branches: &Branches,
        path: &str,
        value: &Value,
    ) -> Result<Option<Value>, Violation> {
        if let Some(both) = self.both(branches, value) {
            return Err(Violation::new(path, AMBIGUOUS, format!("{both} both accept the value")));
        }
        let mut found: Option<Found> = None;
        let (mut ambiguous, mut missed) = (None, Done::default());
        for index in 0..branches.count {
            let before = std::mem::take(&mut self.done);
            let tried = self.attempt(branches, index, path, value);
            let done = std::mem::replace(&mut self.done, before);
            match tried {
                Ok(Attempt::Refused) => missed.extend(done),
                Ok(Attempt::Several(both)) => {
                    let message = format!("{both} both accept the converted value");
                    return Err(Violation::new(path, AMBIGUOUS, message));
                }
                Ok(Attempt::Taken(value)) => {
                    if let Some(first) = &found {
                        let message =
                            format!("branches {} and {index} both accept the converted value", first.index);
                        return Err(Violation::new(path, AMBIGUOUS, message));
                    }
                    found = Some(Found { value, index, done });
                }
                Err(violation) if violation.keyword == "limit" => return Err(violation),
                Err(violation) => {
                    missed.extend(done);
                    ambiguous = ambiguous.or(Some(violation));
                }
            }
            if found.is_some() && self.adapter.options().anyof_strategy == AnyOfStrategy::FirstPass {
                break;
            }
        }
        let Some(found) = found else {
            self.done.types = self.done.types.take().or(missed.types);
            return ambiguous.map_or(Ok(None), Err);
        };
        self.done.branches.push(BranchChoice { path: path.to_owned(), index: found.index });
        self.done.extend(found.done);
        Ok(Some(found.value))
    }

    /// Converts a value by the errors of one branch, until the schema that contains the branches
    /// accepts the value.
    fn attempt(
        &mut self,
        branches: &Branches,
        index: usize,
        path: &str,
        value: &Value,
    ) -> Result<Attempt, Violation> {
        let place = format!("{}/{index}", branches.place);
        let (Some(part), Some(branch)) = (self.validator(&branches.part), self.validator(&place)) else {
            return Ok(Attempt::Refused);
        };
        let base = Base { value: path, schema: &place };
        let mut new = value.clone();
        for _ in 0..ROUNDS {
            self.count(path)?;
            let copy = new.clone();
            let errors: Vec<ValidationError<'_>> = errors(branch, &copy)?.collect();
            if !self.convert_all(&errors, base, &mut new)? {
                break;
            }
            if !branch.is_valid(&new) {
                continue;
            }
            if part.is_valid(&new) {
                return Ok(Attempt::Taken(new));
            }
            return Ok(self.both(branches, &new).map_or(Attempt::Refused, Attempt::Several));
        }
        Ok(Attempt::Refused)
    }

    /// Describes the first two branches of `oneOf` that accept a value, if there are at least two.
    fn both(&self, branches: &Branches, value: &Value) -> Option<String> {
        if branches.keyword != "oneOf" {
            return None;
        }
        let takes = |index: &usize| {
            let validator = self.validator(&format!("{}/{index}", branches.place));
            validator.is_some_and(|validator| validator.is_valid(value))
        };
        let mut takers = (0..branches.count).filter(takes);
        Some(format!("branches {} and {} of `oneOf`", takers.next()?, takers.next()?))
    }

    /// Returns the validator of the subschema at `pointer`.
    fn validator(&self, pointer: &str) -> Option<&'a Validator> {
        self.adapter.flat().and_then(FlatSchema::parts)?.get(&format!("#{pointer}"))
    }

    /// Counts a trial and checks the limits.
    ///
    /// # Errors
    /// Returns a violation if the maximum number of trials or the time limit is exceeded.
    fn count(&mut self, path: &str) -> Result<(), Violation> {
        let limit = self.adapter.options().limits.max_trials;
        self.trials += 1;
        if self.trials > limit {
            return Err(Violation::new(path, "limit", format!("more than {limit} branches were tried")));
        }
        self.deadline.check()
    }
}
