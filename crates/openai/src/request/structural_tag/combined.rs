//! Formats of several formats in a row, of alternatives and of repetitions.

use formwork_grammar::Part;

use super::super::fields::Fields;
use super::{Formats, Scope, some};
use crate::RequestError;
use crate::error::Problem;

/// Maximum count of a repetition.
const REPETITIONS: usize = 1 << 20;

impl Formats {
    /// Parses the formats in `elements`.
    pub(super) fn elements(&self, fields: &mut Fields, scope: &Scope) -> Result<Vec<Part>, RequestError> {
        let elements = some(fields.required("elements")?, "an array of formats")?.into_iter();
        elements.map(|at| self.format(at, &scope.inner())).collect()
    }

    /// Parses a format that repeats the format `content` between `min` and `max` times.
    pub(super) fn repeated(
        &self,
        fields: &mut Fields,
        scope: &Scope,
        (min, max): (u32, Option<u32>),
    ) -> Result<Part, RequestError> {
        Ok(Part::repeat(self.format(fields.required("content")?, &scope.inner())?, min, max))
    }

    /// Parses a format of the type `repeat`. A maximum of -1 means no limit.
    pub(super) fn repeat(&self, fields: &mut Fields, scope: &Scope) -> Result<Part, RequestError> {
        let min = fields.required("min")?.up_to(REPETITIONS, "0..=1048576")?;
        let at = fields.required("max")?;
        let max = match at.integer(-1, "-1..=1048576")? {
            -1 => None,
            _ => Some(at.up_to(REPETITIONS, "-1..=1048576")?),
        };
        if let Some(max) = max.filter(|&max| max < min) {
            return Err(at.error(Problem::Range { given: max.to_string(), range: "-1, or at least `min`" }));
        }
        self.repeated(fields, scope, (min as u32, max.map(|max| max as u32)))
    }
}
