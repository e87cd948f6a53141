//! Execution of the stages, in order.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use super::Adapter;
use super::coerce::{self, FlatSchema};
use super::extract::{self, Unparsed, Unread};
use super::kinds::Kinds;
use super::options::{OutputProcessing, Tolerance};
use super::processor::{Input, Processor, ProcessorError};
use super::report::{Adaptation, Held, Outcome, Stage, StageReport, Violation};
use super::restore;
use super::tape::{Document, Fault, Place, Syntax, SyntaxError, Tape, in_one_line};
use super::tolerant::{self, Mends};
use super::xml;

/// Maximum number of violations that are reported.
const TOLD: usize = 100;

/// Point in time at which the time limit for a text expires.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    end: Option<Instant>,
    limit: Duration,
}

impl Deadline {
    pub(super) fn new(limit: Duration) -> Self {
        Self { end: Instant::now().checked_add(limit), limit }
    }

    /// Checks that the time limit has not expired.
    ///
    /// # Errors
    /// Returns a violation with the keyword `limit` if the time limit has expired.
    pub(super) fn check(self) -> Result<(), Violation> {
        if self.end.is_none_or(|end| Instant::now() <= end) {
            return Ok(());
        }
        let message = format!("the time limit of {} seconds was exceeded", self.limit.as_secs_f64());
        Err(Violation::new("", "limit", message))
    }
}

impl Adapter {
    /// Runs all built-in stages of a level.
    pub(super) fn run(&self, text: &str, level: OutputProcessing) -> Adaptation {
        let limits = &self.options.limits;
        let deadline = Deadline::new(limits.max_time);
        let mut stages = Vec::new();
        if text.len() > limits.max_bytes {
            let message = format!("the text has {} bytes; the limit is {}", text.len(), limits.max_bytes);
            let violation = Violation::new("", "limit", message);
            if level != OutputProcessing::Off {
                stages.push(StageReport::fail(Stage::Extract, &violation));
            }
            return unread(violation, stages);
        }
        let document = match Tape::parse(text, self.options.syntax()) {
            Ok(tape) if tape.is_valid(&self.on_tapes) => {
                if level != OutputProcessing::Off {
                    stages
                        .extend(BUILT_IN.map(|stage| StageReport::skip(stage, "the text is already valid")));
                }
                return valid(Held::Document(Box::new(tape.into_document()), OnceLock::new()), stages);
            }
            Ok(tape) if level == OutputProcessing::Off => tape.into_document(),
            Err(error) if level == OutputProcessing::Off => {
                return unread(extract::violation(text, 0, &error), stages);
            }
            _ => match self.read_any(text, level, deadline, &mut stages) {
                Ok(Read { document, is_truncated: false }) => document,
                Ok(Read { document, is_truncated: true }) => {
                    return self.truncated(text, self.fit(document, level, deadline, stages));
                }
                Err(violation) => return unread(violation, stages),
            },
        };
        self.fit(document, level, deadline, stages)
    }

    /// Finds the value in a text, without mends and conversions.
    pub(super) fn find(&self, text: &str) -> Result<Document, Box<Unread>> {
        let deadline = Deadline::new(self.options.limits.max_time);
        match Tape::parse(text, self.options.syntax()) {
            Ok(tape) if tape.is_valid(&self.on_tapes) => Ok(tape.into_document()),
            _ => extract::extract(self, text, OutputProcessing::Minimal, deadline).1.map_err(Box::new),
        }
    }

    /// Marks the adaptation of a text that ends inside its value.
    fn truncated(&self, text: &str, adaptation: Adaptation) -> Adaptation {
        if self.options.allow_truncated || !adaptation.is_valid {
            return Adaptation { is_truncated: true, ..adaptation };
        }
        let Place { line, column } = Place::of(text, text.len());
        let message = format!("the text ends inside the value, at line {line}, column {column}");
        let violations = vec![Violation::new("", "truncated", message)];
        Adaptation { is_truncated: true, is_valid: false, violations, ..adaptation }
    }

    /// Reads the value of a text. If there is none, undoes changes of the whole text at tolerance 2
    /// and reads the value again.
    fn read_any(
        &self,
        text: &str,
        level: OutputProcessing,
        deadline: Deadline,
        stages: &mut Vec<StageReport>,
    ) -> Result<Read, Violation> {
        let read = self.read(text, level, deadline, stages);
        if level != OutputProcessing::Full || self.options.tolerance < Tolerance::Repair || read.is_ok() {
            return read;
        }
        let Some((restored, name)) = restore::restored(text) else { return read };
        let mut again = Vec::new();
        let found = self.read(&restored, level, deadline, &mut again);
        if found.is_err() {
            return read;
        }
        if let Some(report) = again.iter_mut().find(|report| report.stage == Stage::Extract) {
            (report.outcome, report.reason) = (Outcome::Success, "JSON was found".to_owned());
            report.did(name);
        }
        *stages = again;
        found
    }

    /// Extracts the JSON from a text and decodes it, with mends if the level allows them.
    fn read(
        &self,
        text: &str,
        level: OutputProcessing,
        deadline: Deadline,
        stages: &mut Vec<StageReport>,
    ) -> Result<Read, Violation> {
        let tolerance = self.options.tolerance;
        if level == OutputProcessing::Full
            && tolerance >= Tolerance::Json5
            && self.kinds.has(Kinds::OBJECT)
            && let Some(document) = xml::read(self, text)
        {
            stages.push(StageReport::skip(Stage::Extract, "the text is XML"));
            let reason = "the XML was read with the types of the schema";
            let mut report = StageReport::new(Stage::Tolerant, Outcome::Success, reason);
            report.did("xml");
            stages.push(report);
            stages.push(StageReport::skip(Stage::Syntactic, "the tolerant stage decoded the text"));
            return Ok(Read { document, is_truncated: false });
        }
        let (report, read) = extract::extract(self, text, level, deadline);
        stages.push(report);
        deadline.check()?;
        let is_full = level == OutputProcessing::Full;
        let unread = match read {
            Ok(document) => {
                stages.extend(
                    [Stage::Tolerant, Stage::Syntactic]
                        .map(|stage| StageReport::skip(stage, "the value is already JSON")),
                );
                return Ok(Read { document, is_truncated: false });
            }
            Err(unread) if !is_full => {
                let off = |stage| StageReport::skip(stage, "disabled at level `minimal`");
                stages.extend([Stage::Tolerant, Stage::Syntactic, Stage::Semantic].map(off));
                return Err(unread.violation);
            }
            Err(unread) => unread,
        };
        if tolerance == Tolerance::Strict {
            stages.push(StageReport::skip(Stage::Tolerant, "the tolerance level is 0"));
        } else if let Some(read) = self.mend(text, &unread, (Stage::Tolerant, Mends::of(tolerance)), stages) {
            stages.push(StageReport::skip(Stage::Syntactic, "the tolerant stage decoded the text"));
            return Ok(read);
        }
        deadline.check()?;
        let mends = Mends::of(tolerance) | Mends::SYNTACTIC;
        if mends == Mends::of(tolerance) {
            stages.push(StageReport::skip(Stage::Syntactic, "the tolerant stage tried the same repairs"));
        } else if let Some(read) = self.mend(text, &unread, (Stage::Syntactic, mends), stages) {
            return Ok(read);
        }
        stages.push(StageReport::skip(Stage::Semantic, "no value could be read"));
        Err(unread.violation)
    }

    /// Decodes the region of `text` that is not JSON with the mends of a stage, and adds a report.
    fn mend(
        &self,
        text: &str,
        unread: &Unread,
        (stage, mends): (Stage, Mends),
        stages: &mut Vec<StageReport>,
    ) -> Option<Read> {
        let Some(Unparsed { text: region, begins, is_last, .. }) = &unread.region else {
            stages.push(StageReport::skip(stage, "no region to repair was found"));
            return None;
        };
        let max_depth = self.options.limits.max_depth;
        let tried = tolerant::rewrite(region, mends, max_depth)
            .map_err(|error| extract::at(begins.then(Place::of(region, error.offset)), &error))
            .and_then(|rewritten| match Tape::parse(&rewritten.text, self.options.syntax()) {
                Ok(_) if rewritten.has_guessed_quotes() && goes_on(text, region) => {
                    let (offset, path) = (region.len(), String::new());
                    let error = SyntaxError { offset, path, fault: Fault::Trailing };
                    Err(extract::at(begins.then(Place::of(region, offset)), &error))
                }
                Ok(tape) => Ok((tape.into_document(), rewritten)),
                // The error's offset is in the rewritten text, so no position is reported.
                Err(error) => Err(Violation::new(&error.path, "syntax", error.fault.to_string())),
            });
        match tried {
            Ok((document, rewritten)) => {
                let mut report = StageReport::new(stage, Outcome::Success, rewritten.reason());
                rewritten.names().for_each(|name| report.did(name));
                report.patch = rewritten.patch(region, *begins);
                stages.push(report);
                let is_truncated = rewritten.is_cut || (rewritten.is_unclosed && *is_last);
                Some(Read { document, is_truncated })
            }
            Err(violation) => {
                stages.push(StageReport::fail(stage, &violation));
                None
            }
        }
    }

    /// Returns the value of a region if the stages of `level` make it valid, with the mends of
    /// `tolerance` at level `full`. A region that ends inside a scalar or a member has none. A value
    /// that lacks digits is replaced by its text, so that different values stay different.
    pub(super) fn fitted(
        &self,
        region: &str,
        level: OutputProcessing,
        tolerance: Tolerance,
        deadline: Deadline,
    ) -> Option<Value> {
        let document = self.decoded(region, level, tolerance)?;
        if document.is_valid(&self.on_tapes) {
            let is_rounded = document.is_rounded();
            return Some(if is_rounded { in_one_line(document.text()).into() } else { document.value() });
        }
        if document.is_rounded() {
            return None;
        }
        coerce::coerce(self, &document.value(), level, deadline).1
    }

    /// Decodes a region, with the mends of `tolerance` at level `full`.
    pub(super) fn decoded(
        &self,
        region: &str,
        level: OutputProcessing,
        tolerance: Tolerance,
    ) -> Option<Document> {
        let max_depth = self.options.limits.max_depth;
        let wide_integers = self.options.wide_integers || tolerance == Tolerance::Repair;
        let syntax = Syntax { wide_integers, ..self.options.syntax() };
        match Tape::parse(region, syntax) {
            Ok(tape) => Some(tape.into_document()),
            Err(_) if level == OutputProcessing::Full => {
                let mends = Mends::of(tolerance) | Mends::SYNTACTIC;
                let rewritten = tolerant::rewrite(region, mends, max_depth).ok()?;
                if rewritten.is_cut {
                    return None;
                }
                Some(Tape::parse(&rewritten.text, syntax).ok()?.into_document())
            }
            Err(_) => None,
        }
    }

    /// Converts the value to fit the schema, if the level allows conversions, and validates the
    /// value.
    fn fit(
        &self,
        document: Document,
        level: OutputProcessing,
        deadline: Deadline,
        mut stages: Vec<StageReport>,
    ) -> Adaptation {
        if document.is_valid(&self.on_tapes) {
            if level != OutputProcessing::Off {
                stages.push(StageReport::skip(Stage::Semantic, "the value is valid"));
            }
            return valid(Held::Document(Box::new(document), OnceLock::new()), stages);
        }
        let value = document.value();
        // A conversion would lose digits.
        let is_rounded = document.is_rounded();
        if level != OutputProcessing::Off && is_rounded {
            let reason = "the value has an integer of more than 64 bits";
            stages.push(StageReport::skip(Stage::Semantic, reason));
        } else if level != OutputProcessing::Off {
            if stages.is_empty() {
                stages
                    .extend(BUILT_IN[..3].iter().map(|&stage| StageReport::skip(stage, "the text is JSON")));
            }
            let (report, coerced) = coerce::coerce(self, &value, level, deadline);
            if coerced.is_none()
                && let Some((report, item)) = self.only_item(&value, level, deadline)
            {
                stages.push(report);
                return valid(Held::Value(item), stages);
            }
            stages.push(report);
            if let Some(value) = coerced {
                return valid(Held::Value(value), stages);
            }
        }
        let violations = self.violations(&value);
        let held =
            if is_rounded { Held::Document(Box::new(document), value.into()) } else { Held::Value(value) };
        Adaptation { violations, is_valid: false, ..valid(held, stages) }
    }

    /// Returns the only item of an array where the schema accepts no array, if the item is valid or
    /// can be converted.
    fn only_item(
        &self,
        value: &Value,
        level: OutputProcessing,
        deadline: Deadline,
    ) -> Option<(StageReport, Value)> {
        let [item] = value.as_array()?.as_slice() else { return None };
        if level != OutputProcessing::Full || self.kinds.has(Kinds::ARRAY) {
            return None;
        }
        let (mut report, item) = if self.on_values.is_valid(item) {
            (StageReport::new(Stage::Semantic, Outcome::Success, "the only item was taken"), item.clone())
        } else {
            let (report, item) = coerce::coerce(self, item, level, deadline);
            (report, item?)
        };
        report.did("unwrap");
        Some((report, item))
    }

    /// Runs the caller's processors and validates the values that they return.
    pub(super) fn customize<I>(
        &self,
        text: &str,
        adaptation: &mut Adaptation,
        processors: &[&dyn Processor<I>],
    ) -> Result<(), I> {
        for processor in processors {
            let input = Input { text, value: adaptation.value(), schema: &self.schema };
            let report = match processor.process(input) {
                Ok(Some(value)) if adaptation.value() != Some(&value) => {
                    let violations = self.violations(&value);
                    adaptation.is_valid = violations.is_empty();
                    adaptation.violations = violations;
                    adaptation.held = Held::Value(value);
                    StageReport::new(Stage::Custom, Outcome::Success, "the value was replaced")
                }
                Ok(_) => StageReport::skip(Stage::Custom, "the value was not changed"),
                Err(ProcessorError::Fault { path, message }) => {
                    StageReport::fail(Stage::Custom, &Violation::new(path, "custom", message))
                }
                Err(ProcessorError::Interrupt(interrupted)) => return Err(interrupted),
            };
            let mut report = report;
            report.did(processor.name());
            adaptation.stages.push(report);
        }
        Ok(())
    }

    /// Returns the violations of the schema in a value. Empty if the value is valid.
    pub(super) fn violations(&self, value: &Value) -> Vec<Violation> {
        if self.on_values.is_valid(value) {
            return Vec::new();
        }
        let told = self.flat().map(|flat| match flat.errors(value) {
            Ok(errors) => errors.take(TOLD).map(|error| told(flat, &error)).collect(),
            Err(limit) => vec![limit],
        });
        // An invalid value always has a violation, even if none can be described.
        let unknown = || vec![Violation::new("", "schema", "the value is not valid")];
        told.filter(|told: &Vec<_>| !told.is_empty()).unwrap_or_else(unknown)
    }
}

const BUILT_IN: [Stage; 4] = [Stage::Extract, Stage::Tolerant, Stage::Syntactic, Stage::Semantic];

/// A value that was read from a text.
struct Read {
    document: Document,
    /// True if the text ended inside the value.
    is_truncated: bool,
}

/// Reports whether the text after a region looks like more of the value. Then the last bracket of
/// the region may be inside a string.
fn goes_on(text: &str, region: &str) -> bool {
    text.match_indices(region).any(|(at, _)| {
        let after = text[at + region.len()..].trim_start_matches([' ', '\t']);
        after.starts_with(['"', '\'', ',', ';', '}', ']', ':'])
    })
}

fn valid(held: Held, stages: Vec<StageReport>) -> Adaptation {
    Adaptation {
        held,
        is_valid: true,
        is_truncated: false,
        stages,
        violations: Vec::new(),
        elapsed: Duration::ZERO,
        shadow: None,
    }
}

fn unread(violation: Violation, stages: Vec<StageReport>) -> Adaptation {
    Adaptation { violations: vec![violation], is_valid: false, ..valid(Held::None, stages) }
}

fn told(flat: &FlatSchema, error: &ValidationError<'_>) -> Violation {
    let mut violation = flat.violation(error);
    if let ValidationErrorKind::Type { kind } = error.kind() {
        violation.expected = Some(expected(kind));
        violation.actual = Some(type_of(error.instance()).to_owned());
    }
    violation
}

/// Formats the expected types, such as `integer or null`.
pub(super) fn expected(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(kind) => kind.to_string(),
        TypeKind::Multiple(kinds) => {
            let names: Vec<String> = kinds.iter().map(|kind| kind.to_string()).collect();
            names.join(" or ")
        }
    }
}

/// Returns the name of a value's type in JSON Schema.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
