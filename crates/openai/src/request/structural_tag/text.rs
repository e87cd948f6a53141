//! Free text.

use std::fmt::Write;

use formwork_grammar::{Part, Trigger};

use super::super::fields::Fields;
use super::{EXCLUDED, End, Formats, Scope, texts};
use crate::RequestError;
use crate::error::Problem;

/// Maximum of `max_chars`.
const CHARS: usize = 1 << 20;

impl Formats {
    /// Parses a format of the type `any_text`.
    ///
    /// The text may end anywhere. Inside of a tag, it does not contain an end of the tag.
    pub(super) fn any_text(&self, fields: &mut Fields, scope: &Scope) -> Result<Part, RequestError> {
        refuse_max_tokens(fields)?;
        let excluded = self.excluded(fields, scope)?;
        let max = fields.read("max_chars", |at| at.up_to(CHARS, "0..=1048576"))?;
        Ok(match max {
            Some(0) => Part::literal(""),
            Some(max) => Part::Regex(bounded(&excluded, max)),
            None => {
                let never = |text| (Trigger::Text(text), Part::OneOf(Vec::new()));
                Part::Text { triggers: excluded.into_iter().map(never).collect(), may_end: true }
            }
        })
    }

    /// Parses the field `excludes`, and adds the ends of the tag around the format.
    ///
    /// # Errors
    /// Returns an error if the text may contain anything, and the tag around the format has no end.
    pub(super) fn excluded(&self, fields: &mut Fields, scope: &Scope) -> Result<Vec<String>, RequestError> {
        let mut excluded = fields.read("excludes", texts)?.unwrap_or_default();
        if excluded.is_empty() {
            scope.check_end()?;
        }
        if let End::Texts(ends) = scope.end {
            excluded.extend_from_slice(ends);
        }
        let given = self.excluded.get() + excluded.iter().map(String::len).sum::<usize>();
        self.excluded.set(given);
        if given > EXCLUDED {
            return Err(fields.error("excludes", Problem::Excluded { given, limit: EXCLUDED }));
        }
        Ok(excluded)
    }
}

/// Checks that a format has no maximum number of tokens.
pub(super) fn refuse_max_tokens(fields: &mut Fields) -> Result<(), RequestError> {
    let hint = "a grammar does not count tokens";
    match fields.take("max_tokens") {
        Some(at) => Err(at.error(Problem::NotNeutral { accepted: "null", hint })),
        None => Ok(()),
    }
}

/// Returns a regular expression for up to `max` characters without the texts in `excluded`.
fn bounded(excluded: &[String], max: usize) -> String {
    let mut pattern = String::new();
    for (index, text) in excluded.iter().enumerate() {
        pattern.push_str(if index == 0 { "(?![\\s\\S]*(?:" } else { "|" });
        for c in text.chars() {
            if "^$\\.*+?()[]{}|/".contains(c) {
                pattern.push('\\');
            }
            pattern.push(c);
        }
    }
    if !excluded.is_empty() {
        pattern.push_str("))");
    }
    let _ = write!(pattern, "[\\s\\S]{{0,{max}}}");
    pattern
}
