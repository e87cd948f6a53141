//! The wording of questions.

use serde_json::Value;

use super::{AnswerForm, AskError, DecisionKind, DecisionOption, DecisionQuestion, MAX_LABELS, OptionValue};

/// A question in one order of its options.
pub(super) struct Wording {
    /// Text of the question.
    pub(super) text: String,
    /// Texts that stand for each option, in the order in which they are asked.
    pub(super) answers: Vec<Vec<String>>,
}

impl DecisionQuestion {
    /// Returns the form of the answers.
    ///
    /// # Errors
    /// Returns an error if the requested form cannot tell the options apart.
    pub(super) fn form(&self, requested: Option<AnswerForm>) -> Result<AnswerForm, AskError> {
        let count = self.options();
        let is_choice = matches!(self.kind, DecisionKind::Choice(_));
        let too_many = is_choice && count > MAX_LABELS;
        let form = requested.unwrap_or(if too_many { AnswerForm::Text } else { AnswerForm::Label });
        if form == AnswerForm::Label && too_many {
            return Err(AskError::TooManyLabels { given: count });
        }
        if let (AnswerForm::Text, DecisionKind::Choice(options) | DecisionKind::Score(options)) =
            (form, &self.kind)
        {
            let mut seen = std::collections::HashSet::new();
            if let Some(option) = options.iter().position(|option| !seen.insert(option.value.text())) {
                return Err(AskError::SameText { option });
            }
        }
        Ok(form)
    }

    /// Returns the question with its options in an order. `order` has the indices of the options.
    pub(super) fn wording(&self, order: &[usize], form: AnswerForm) -> Wording {
        match &self.kind {
            DecisionKind::Predicate { when_true, when_false } => {
                self.predicate([when_true, when_false].map(Option::as_deref), order, form)
            }
            DecisionKind::Choice(options) => self.listed(options, order, (form, "option")),
            DecisionKind::Score(options) => self.listed(options, order, (form, "level")),
        }
    }

    fn predicate(&self, when: [Option<&str>; 2], order: &[usize], form: AnswerForm) -> Wording {
        let names = |index: usize| match form {
            AnswerForm::Label | AnswerForm::Text => ["yes", "no"][index].to_owned(),
            AnswerForm::Json => json(&Value::from(index == 0)),
        };
        let criteria = order.iter().filter_map(|&index| Some((names(index), when[index]?)));
        let criteria: Vec<String> =
            criteria.map(|(name, when)| format!("Answer {name} when: {when}")).collect();
        let ending = format!("Answer with {} or {} only.", names(order[0]), names(order[1]));
        let answers = |&index: &usize| match form {
            AnswerForm::Label | AnswerForm::Text => spellings(index == 0),
            AnswerForm::Json => json_spellings(&Value::from(index == 0)),
        };
        Wording {
            text: paragraphs(&[&self.instructions, &criteria.join("\n"), &ending]),
            answers: order.iter().map(answers).collect(),
        }
    }

    fn listed(
        &self,
        options: &[DecisionOption],
        order: &[usize],
        (form, noun): (AnswerForm, &str),
    ) -> Wording {
        let is_score = noun == "level";
        // The label of a level is its number, in every order.
        let label = |place: usize, index: usize| {
            if is_score { index.to_string() } else { char::from(b'A' + place as u8).to_string() }
        };
        let line = |(place, &index): (usize, &usize)| {
            let DecisionOption { value, description } = &options[index];
            let described = description.as_ref().map(|description| format!(": {description}"));
            let described = described.unwrap_or_default();
            match form {
                AnswerForm::Label => format!("{}. {}{described}", label(place, index), value.text()),
                AnswerForm::Text => format!("- {}{described}", value.text()),
                AnswerForm::Json => format!("- {}{described}", value.json()),
            }
        };
        let lines: Vec<String> = order.iter().enumerate().map(line).collect();
        let ending = match (form, is_score) {
            (AnswerForm::Label, true) => "Answer with the number of one level only.".to_owned(),
            (AnswerForm::Label, false) => "Answer with the letter of one option only.".to_owned(),
            (AnswerForm::Text, _) => {
                format!("Answer with the text of one {noun} only, without its description.")
            }
            (AnswerForm::Json, _) => {
                format!(
                    "Answer with JSON only: {{\"answer\": {}}}",
                    if is_score { "LEVEL" } else { "OPTION" }
                )
            }
        };
        let answers = |(place, &index): (usize, &usize)| match form {
            AnswerForm::Label => vec![label(place, index)],
            AnswerForm::Text => vec![options[index].value.text().to_owned()],
            AnswerForm::Json => json_spellings(&options[index].value.json()),
        };
        Wording {
            text: paragraphs(&[&self.instructions, &lines.join("\n"), &ending]),
            answers: order.iter().enumerate().map(answers).collect(),
        }
    }

    /// Returns the question whether an option of a choice is right, in one order of yes and no.
    pub(super) fn whether(&self, option: &DecisionOption, is_reversed: bool) -> Wording {
        let described = option.description.as_ref().map(|description| format!(": {description}"));
        let proposed = format!("Proposed answer: {}{}", option.value.text(), described.unwrap_or_default());
        let (ending, answers) = if is_reversed {
            ("Is the proposed answer right? Answer with no or yes only.", [false, true])
        } else {
            ("Is the proposed answer right? Answer with yes or no only.", [true, false])
        };
        Wording {
            text: paragraphs(&[&self.instructions, &proposed, ending]),
            answers: answers.map(spellings).into(),
        }
    }
}

impl OptionValue {
    fn json(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Bool(value) => Value::from(*value),
        }
    }
}

/// Returns the texts that count as yes or as no.
fn spellings(is_true: bool) -> Vec<String> {
    let spellings = if is_true { ["yes", "Yes"] } else { ["no", "No"] };
    spellings.map(str::to_owned).into()
}

fn json(value: &Value) -> String {
    format!("{{\"answer\": {value}}}")
}

/// Returns the JSON texts that count as an answer, with and without a space.
fn json_spellings(value: &Value) -> Vec<String> {
    vec![json(value), format!("{{\"answer\":{value}}}")]
}

/// Joins the texts that are not empty.
fn paragraphs(texts: &[&str]) -> String {
    let texts: Vec<&str> = texts.iter().copied().filter(|text| !text.trim().is_empty()).collect();
    texts.join("\n\n")
}
