//! Branches of `anyOf` and `oneOf`, tried in order.

use jsonschema::ValidationError;
use serde_json::Value;

use super::super::report::{BranchChoice, Violation};
use super::flat::{Branches, Flat};
use super::{Base, Coercion};
use crate::config::AnyOfStrategy;

/// How often what a branch makes of a value is converted again.
const ROUNDS: usize = 8;

/// A branch that takes a value, with what led there.
struct Found {
    value: Value,
    index: usize,
    transforms: Vec<&'static str>,
    choices: Vec<BranchChoice>,
}

impl Coercion<'_> {
    /// What a value at `path` becomes that no branch takes: what a branch's errors can be converted to, if all that stands beside the
    /// branches takes it as well.
    pub(super) fn branch(
        &mut self,
        branches: &Branches,
        path: &str,
        value: &Value,
    ) -> Result<Option<Value>, Violation> {
        let mut found: Option<Found> = None;
        let mut ambiguous = None;
        for index in 0..branches.count {
            let before = (std::mem::take(&mut self.transforms), std::mem::take(&mut self.branches));
            let tried = self.attempt([&branches.part, &format!("{}/{index}", branches.place)], path, value);
            let transforms = std::mem::replace(&mut self.transforms, before.0);
            let choices = std::mem::replace(&mut self.branches, before.1);
            match tried {
                Ok(None) => {}
                Ok(Some(value)) => {
                    if let Some(first) = &found {
                        let message = format!(
                            "branches {} and {index} both take it, once it is converted",
                            first.index
                        );
                        return Err(Violation::new(path, "ambiguous", message));
                    }
                    found = Some(Found { value, index, transforms, choices });
                }
                Err(violation) if violation.keyword == "limit" => return Err(violation),
                Err(violation) => ambiguous = ambiguous.or(Some(violation)),
            }
            if found.is_some() && self.adapter.options().anyof_strategy == AnyOfStrategy::FirstPass {
                break;
            }
        }
        let Some(found) = found else { return ambiguous.map_or(Ok(None), Err) };
        self.transforms.extend(found.transforms);
        self.branches.push(BranchChoice { path: path.to_owned(), index: found.index });
        self.branches.extend(found.choices);
        Ok(Some(found.value))
    }

    /// Converts by the errors of one branch until the part of the schema that it is in takes the value.
    fn attempt(
        &mut self,
        [part, branch]: [&str; 2],
        path: &str,
        value: &Value,
    ) -> Result<Option<Value>, Violation> {
        let Some(parts) = self.adapter.flat().and_then(Flat::parts) else { return Ok(None) };
        let validator = |pointer: &str| parts.get(&format!("#{pointer}"));
        let base = Base { value: path, schema: branch };
        let (Some(part), Some(branch)) = (validator(part), validator(branch)) else { return Ok(None) };
        let mut new = value.clone();
        for _ in 0..ROUNDS {
            self.count(path)?;
            let copy = new.clone();
            let errors: Vec<ValidationError<'_>> = branch.iter_errors(&copy).collect();
            if !self.convert_all(&errors, base, &mut new)? {
                return Ok(None);
            }
            if branch.is_valid(&new) && part.is_valid(&new) {
                return Ok(Some(new));
            }
        }
        Ok(None)
    }

    /// # Errors
    /// When enough was tried.
    fn count(&mut self, path: &str) -> Result<(), Violation> {
        let limit = self.adapter.options().limits.max_trials;
        self.trials += 1;
        if self.trials > limit {
            return Err(Violation::new(path, "limit", format!("more than {limit} branches were tried")));
        }
        self.deadline.check()
    }
}
