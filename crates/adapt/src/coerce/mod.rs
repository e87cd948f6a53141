//! Conversion of values to the types of the schema.
//!
//! The validator reports each error with its place. A value of the wrong type is converted if an
//! allowed conversion has only one meaning. This repeats until the value is valid or nothing can be
//! converted.
//!
//! The validator decides, so all features of a schema have their exact meaning: references,
//! `allOf`, patterns of names and conditions. Valid values are never changed. If the final value is
//! invalid, no conversion takes effect.
//!
//! A round takes linear time in the number of errors and ends when the time limit expires. Only a
//! single call of the validator cannot be interrupted.

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
use super::options::OutputProcessing;
use super::report::{BranchChoice, Outcome, Stage, StageReport, Violation};
use super::tape::{DEEPEST, Fault};
use convert::{Allowed, Converted, convert};
pub(crate) use flat::Branches;
pub use flat::FlatSchema;
use flat::keyword_place;

/// Maximum number of rounds of validation and conversion. Several are needed because a new array
/// may have elements to convert.
const ROUNDS: usize = 16;

/// State of the conversion of one value.
struct Coercer<'a> {
    adapter: &'a Adapter,
    tries_branches: bool,
    deadline: Deadline,
    trials: usize,
    done: Done,
}

/// Changes made so far.
#[derive(Default)]
struct Done {
    transforms: Vec<&'static str>,
    branches: Vec<BranchChoice>,
    /// Expected and actual type of the first value that was converted or could not be converted.
    types: Option<(String, &'static str)>,
}

impl Done {
    /// Adds later changes.
    fn extend(&mut self, later: Self) {
        self.transforms.extend(later.transforms);
        self.branches.extend(later.branches);
        self.types = self.types.take().or(later.types);
    }
}

/// Converts an invalid value. Returns the new value only if it is valid.
pub(super) fn coerce(
    adapter: &Adapter,
    value: &Value,
    level: OutputProcessing,
    deadline: Deadline,
) -> (StageReport, Option<Value>) {
    let mut coercion = Coercer {
        adapter,
        tries_branches: level == OutputProcessing::Full,
        deadline,
        trials: 0,
        done: Done::default(),
    };
    let mut changed = value.clone();
    let result = coercion.run(&mut changed);
    let mut report = match &result {
        Ok(()) => {
            StageReport::new(Stage::Semantic, Outcome::Success, "the value was converted to match the schema")
        }
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

/// Places of a value and of its schema, as JSON pointers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Base<'a> {
    pub(crate) value: &'a str,
    pub(crate) schema: &'a str,
}

impl Base<'_> {
    /// Returns the pointer of the keyword that an error is about.
    pub(crate) fn keyword(self, error: &ValidationError<'_>) -> String {
        keyword_place(self.schema, error)
    }
}

impl Coercer<'_> {
    fn run(&mut self, value: &mut Value) -> Result<(), Violation> {
        for _ in 0..ROUNDS {
            self.deadline.check()?;
            if self.adapter.on_values.is_valid(value) {
                return Ok(());
            }
            let Some(flat) = self.adapter.flat() else { break };
            // The errors borrow the copy while the value is changed.
            let copy = value.clone();
            let errors: Vec<ValidationError<'_>> = flat.errors(&copy)?.collect();
            if !self.convert_all(&errors, Base::default(), value)? {
                return Err(remaining(flat, &errors));
            }
        }
        Err(Violation::new(
            "",
            "limit",
            format!("the value is still invalid after {ROUNDS} rounds of conversion"),
        ))
    }

    /// Converts the values in `value` that the errors are about. `base` is the place of `value`.
    /// Reports whether anything changed.
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
            // A value with several errors is converted once, by all of them. Errors inside a
            // converted value are obsolete.
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

    /// Returns the converted value that satisfies all errors about the type.
    fn by_types(
        &mut self,
        errors: &[&ValidationError<'_>],
        path: &str,
        value: &Value,
    ) -> Result<Option<Value>, Violation> {
        let kinds = || errors.iter().map(|error| error.kind());
        let wanted: Vec<_> = kinds().filter_map(|kind| convert::wanted(kind, false)).collect();
        // Without an expected type, the listed values determine the type.
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
        // Each token of the pointer adds a level of nesting around the value.
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

/// Summarizes the remaining errors: the first error and the number of the others.
fn remaining(flat: &FlatSchema, errors: &[ValidationError<'_>]) -> Violation {
    let Some(first) = errors.first() else { return Violation::new("", "type", "the value is not valid") };
    let mut violation = flat.violation(first);
    if errors.len() > 1 {
        violation.message = format!("{} (and {} more)", violation.message, errors.len() - 1);
    }
    violation
}

#[cfg(test)]
mod tests;
