//! Values made to fit the schema's types.
//!
//! The validator says what is wrong and where; of that, values of the wrong type are converted, if a conversion is allowed and has one
//! meaning, until nothing is wrong or nothing can be done. So whatever a schema is made of (references, `allOf`, patterns of names,
//! conditions) is understood as validation understands it, and what is valid is never touched. All conversions count together or not
//! at all: only a value that is valid afterwards is given back.
//!
//! The time of a round is linear in the number of errors, and it is given up as soon as the text has had its time. Only what the
//! validator does in one call is not interrupted.

mod branch;
mod convert;
mod flat;

use std::collections::{HashMap, HashSet};

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use super::Adapter;
use super::chain::{Deadline, expected, type_of};
use super::extract::AMBIGUOUS;
use super::report::{BranchChoice, Outcome, Stage, StageReport, Violation};
use super::tape::{DEEPEST, Fault};
use crate::config::OutputProcessing;
use convert::{Allowed, Converted, convert};
pub(crate) use flat::{Branches, Flat, keyword_place};

/// How often a value is validated and converted again: what becomes an array has elements to convert.
const ROUNDS: usize = 16;

/// The conversions of one value.
struct Coercion<'a> {
    adapter: &'a Adapter,
    tries_branches: bool,
    deadline: Deadline,
    trials: usize,
    done: Done,
}

/// What was done.
#[derive(Default)]
struct Done {
    transforms: Vec<&'static str>,
    branches: Vec<BranchChoice>,
    /// The types of the first value that was converted, or could not be.
    types: Option<(String, &'static str)>,
}

impl Done {
    /// Adds what was done after it.
    fn extend(&mut self, later: Self) {
        self.transforms.extend(later.transforms);
        self.branches.extend(later.branches);
        self.types = self.types.take().or(later.types);
    }
}

/// Makes `value`, which is not valid, valid, if conversions can.
pub(super) fn coerce(
    adapter: &Adapter,
    value: &Value,
    level: OutputProcessing,
    deadline: Deadline,
) -> (StageReport, Option<Value>) {
    let mut coercion = Coercion {
        adapter,
        tries_branches: level == OutputProcessing::Full,
        deadline,
        trials: 0,
        done: Done::default(),
    };
    let mut changed = value.clone();
    let result = coercion.run(&mut changed);
    let mut report = match &result {
        Ok(()) => StageReport::new(Stage::Semantic, Outcome::Success, "the value was made to fit the schema"),
        Err(violation) => StageReport::fail(Stage::Semantic, violation),
    };
    let done = coercion.done;
    if let Some((expected, actual)) = done.types {
        (report.expected_type, report.actual_type) = (Some(expected), Some(actual.to_owned()));
    }
    if result.is_err() {
        return (report, None);
    }
    done.transforms.into_iter().for_each(|name| report.did(name));
    report.branch_index = done.branches.first().map(|choice| choice.index);
    report.branch_choices = done.branches;
    (report, Some(changed))
}

/// Where a value and its schema are, as JSON pointers.
#[derive(Clone, Copy, Default)]
struct Base<'a> {
    value: &'a str,
    schema: &'a str,
}

impl Base<'_> {
    /// The place of the keyword that an error is about.
    fn keyword(self, error: &ValidationError<'_>) -> String {
        keyword_place(self.schema, error)
    }
}

impl Coercion<'_> {
    fn run(&mut self, value: &mut Value) -> Result<(), Violation> {
        for _ in 0..ROUNDS {
            self.deadline.check()?;
            if self.adapter.on_values.is_valid(value) {
                return Ok(());
            }
            let Some(flat) = self.adapter.flat() else { break };
            // Errors borrow the value that is to be changed.
            let copy = value.clone();
            let errors: Vec<ValidationError<'_>> = flat.errors(&copy)?.collect();
            if !self.convert_all(&errors, Base::default(), value)? {
                return Err(remaining(flat, &errors));
            }
        }
        Err(Violation::new("", "limit", format!("it is not valid after {ROUNDS} rounds of conversions")))
    }

    /// Converts what errors are about in `value`, which is at `base` of the whole; whether anything changed.
    fn convert_all(
        &mut self,
        errors: &[ValidationError<'_>],
        base: Base<'_>,
        value: &mut Value,
    ) -> Result<bool, Violation> {
        let mut by_place: HashMap<&str, Vec<&ValidationError<'_>>> = HashMap::new();
        for error in errors {
            by_place.entry(error.instance_path().as_str()).or_default().push(error);
        }
        let mut done: HashSet<&str> = HashSet::new();
        for error in errors {
            self.deadline.check()?;
            let within = error.instance_path().as_str();
            // A value with several errors is converted once, by all of them; what is within one that changed is not there any more.
            let is_done = |path: &str| done.contains(path);
            if is_done(within) || within.match_indices('/').any(|(end, _)| is_done(&within[..end])) {
                continue;
            }
            let Some(place) = value.pointer_mut(within) else { continue };
            let path = format!("{}{within}", base.value);
            let new = match error.kind() {
                ValidationErrorKind::FalseSchema if self.tries_branches => {
                    let pointer = base.keyword(error);
                    match self.adapter.flat().and_then(|flat| flat.branches(&pointer)) {
                        Some(branches) => self.branch(branches, &path, place)?,
                        None => None,
                    }
                }
                ValidationErrorKind::Type { .. }
                | ValidationErrorKind::Enum { .. }
                | ValidationErrorKind::Constant { .. } => self.by_types(&by_place[within], &path, place)?,
                _ => None,
            };
            if let Some(new) = new {
                *place = new;
                done.insert(within);
            }
        }
        Ok(!done.is_empty())
    }

    /// What a value becomes by all errors that there are about its type.
    fn by_types(
        &mut self,
        errors: &[&ValidationError<'_>],
        path: &str,
        value: &Value,
    ) -> Result<Option<Value>, Violation> {
        let kinds = || errors.iter().map(|error| error.kind());
        let wanted: Vec<_> = kinds().filter_map(|kind| convert::wanted(kind, false)).collect();
        // Where no type is said, the values that are listed say one.
        let wanted = if wanted.is_empty() {
            kinds().filter_map(|kind| convert::wanted(kind, true)).collect()
        } else {
            wanted
        };
        if wanted.is_empty() {
            return Ok(None);
        }
        let type_wanted = kinds().find_map(|kind| match kind {
            ValidationErrorKind::Type { kind } => Some(kind),
            _ => None,
        });
        if let (None, Some(kind)) = (&self.done.types, type_wanted) {
            self.done.types = Some((expected(kind), type_of(value)));
        }
        let max_depth = self.adapter.options().limits.max_depth.min(DEEPEST);
        // Each part of the path is an object or an array around it.
        let depth = max_depth.saturating_sub(path.matches('/').count());
        match convert(value, &wanted, Allowed { conversions: &self.adapter.options().allow, depth }) {
            Converted::To(new, conversion) => {
                self.done.transforms.push(conversion.name());
                Ok(Some(new))
            }
            Converted::Nothing => Ok(None),
            Converted::Ambiguous(message) => Err(Violation::new(path, AMBIGUOUS, message)),
            Converted::TooDeep => {
                Err(Violation::new(path, "limit", Fault::Depth { limit: max_depth }.to_string()))
            }
        }
    }
}

/// What is left, as one violation: the first, and how many more there are.
fn remaining(flat: &Flat, errors: &[ValidationError<'_>]) -> Violation {
    let Some(first) = errors.first() else { return Violation::new("", "type", "it is not valid") };
    let mut violation = flat.violation(first);
    if errors.len() > 1 {
        violation.message = format!("{} (and {} more)", violation.message, errors.len() - 1);
    }
    violation
}

#[cfg(test)]
mod tests;
