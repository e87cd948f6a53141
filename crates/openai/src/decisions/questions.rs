//! The questions of a request to `/v1/decisions`.

use std::collections::HashSet;

use formwork_chat::decision::{DecisionKind, DecisionOption, DecisionQuestion, MAX_LEVELS, OptionValue};

use super::{MAX_CHOICES, MAX_OPTION_BYTES, NamedQuestion, check_count, input};
use crate::RequestError;
use crate::error::Problem;
use crate::request::{Fields, Place};

/// Parses the array of questions.
pub(super) fn read_list(at: Place) -> Result<Vec<NamedQuestion>, RequestError> {
    let field = at.clone();
    let questions = at.list("an array of questions")?;
    check_count(&field, questions.len())?;
    questions.into_iter().enumerate().map(|(index, at)| read(index, at)).collect()
}

fn read(index: usize, at: Place) -> Result<NamedQuestion, RequestError> {
    let known = |name: &str| ["predicate", "choice", "score"].into_iter().find(|known| *known == name);
    let mut fields = at.fields()?;
    let kind = fields.required("type")?.one_of(known, "predicate, choice and score")?;
    let name = fields.read("name", Place::string)?;
    let at = fields.required("instructions")?;
    let empty = at.error(Problem::Empty);
    let instructions = input::read_content(at, true)?;
    if instructions.trim().is_empty() {
        return Err(empty);
    }
    let (kind, options_field) = match kind {
        "choice" => (DecisionKind::Choice(read_options(&mut fields, "choices")?), "choices"),
        "score" => (DecisionKind::Score(read_options(&mut fields, "levels")?), "levels"),
        _ => (DecisionKind::Predicate { when_true: None, when_false: None }, "instructions"),
    };
    fields.finish_strictly()?;
    let question = DecisionQuestion { instructions, kind };
    Ok(NamedQuestion { name, question, place: format!("questions[{index}]"), options_field })
}

fn read_options(fields: &mut Fields, field: &'static str) -> Result<Vec<DecisionOption>, RequestError> {
    let at = fields.required(field)?;
    let whole = at.clone();
    let items = at.list("an array")?;
    let (is_choice, given) = (field == "choices", items.len());
    let limit = if is_choice { MAX_CHOICES } else { MAX_LEVELS };
    if given > limit {
        return Err(whole.error(Problem::TooMany { given, limit }));
    }
    if given < 2 {
        return Err(whole.error(Problem::TooFew { given, least: 2 }));
    }
    let (mut seen, mut bytes) = (HashSet::new(), 0);
    let option = |item: Place| {
        let repeated = item.error(Problem::Repeated);
        let mut fields = item.fields()?;
        let value = read_value(fields.required(if is_choice { "value" } else { "label" })?, is_choice)?;
        let description = fields.read("description", Place::string)?;
        fields.finish_strictly()?;
        if is_choice && !seen.insert(value.clone()) {
            return Err(repeated);
        }
        bytes += value.text().len() + description.as_ref().map_or(0, String::len);
        Ok(DecisionOption { value, description: description.filter(|text| !text.is_empty()) })
    };
    let options = items.into_iter().map(option).collect::<Result<Vec<_>, _>>()?;
    check_bytes(&whole, bytes)?;
    Ok(options)
}

/// Checks the total length of the options of a question.
pub(super) fn check_bytes(at: &Place, given: usize) -> Result<(), RequestError> {
    if given > MAX_OPTION_BYTES {
        return Err(at.error(Problem::TooLong { given, limit: MAX_OPTION_BYTES }));
    }
    Ok(())
}

fn read_value(at: Place, allows_bool: bool) -> Result<OptionValue, RequestError> {
    match at.value().as_bool() {
        Some(value) if allows_bool => Ok(OptionValue::Bool(value)),
        _ => Ok(OptionValue::Text(at.non_empty_string()?)),
    }
}
