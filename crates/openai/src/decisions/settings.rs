//! The extension `formwork` of requests for decisions.

use formwork_chat::decision::{AnswerForm, Asking, Calibration, Orders, PROMPT_FORMAT_VERSION};

use crate::RequestError;
use crate::error::Problem;
use crate::request::{Fields, Place};

/// Maximum number of token prefixes that a request may allow for a question.
const MAX_NODES: usize = 8192;

/// Maximum number of tokens of a thought before an answer.
const MAX_REASONING: usize = 32_768;

/// Settings of a request for decisions.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DecisionSettings {
    /// Settings for asking questions.
    pub asking: Asking,
    /// True if the request sets the temperature or another calibration.
    pub has_calibration: bool,
    /// Formula of `confidence`.
    pub confidence: Confidence,
    /// The search for an answer's token sequences ends at this error. `None` means the default.
    pub tolerance: Option<f64>,
    /// Maximum number of token prefixes that the model reads for a prompt. `None` means the default.
    pub max_nodes: Option<usize>,
    /// True to refuse a request if a question's error exceeds the tolerance.
    pub strict: bool,
    /// True if answers contain the tokens of their prompts.
    pub return_prompt_token_ids: bool,
}

/// Formula of `confidence`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Confidence {
    /// The formulas of `TypeSafe`.
    #[default]
    Published,
    /// 1 less the relative entropy.
    Entropy,
    /// The largest probability.
    Max,
}

/// Parses the object `formwork`.
pub(super) fn read(at: Place) -> Result<DecisionSettings, RequestError> {
    let mut fields = at.fields()?;
    let answers = |name: &str| match name {
        "label" => Some(AnswerForm::Label),
        "text" => Some(AnswerForm::Text),
        "json" => Some(AnswerForm::Json),
        _ => None,
    };
    let confidences = |name: &str| match name {
        "published" => Some(Confidence::Published),
        "entropy" => Some(Confidence::Entropy),
        "max" => Some(Confidence::Max),
        _ => None,
    };
    let calibration = fields.read("calibration", read_calibration)?;
    let settings = DecisionSettings {
        asking: Asking {
            answers: fields.read("answers", |at| at.one_of(answers, "label, text and json"))?,
            orders: fields.read("orders", |at| read_orders(&at))?.unwrap_or_default(),
            independent: fields.read("independent", Place::bool)?.unwrap_or(false),
            reasoning: fields.read("reasoning", |at| read_reasoning(&at))?.filter(|most| *most > 0),
            open_end: !fields.read("end", Place::bool)?.unwrap_or(true),
            calibration: calibration.clone().unwrap_or_default(),
        },
        has_calibration: calibration.is_some(),
        confidence: fields
            .read("confidence", |at| at.one_of(confidences, "published, entropy and max"))?
            .unwrap_or_default(),
        tolerance: fields.read("tolerance", |at| at.double(0.0..=1.0, "0..=1"))?,
        max_nodes: fields.read("max_nodes", |at| at.up_to(MAX_NODES, "0..=8192"))?,
        strict: fields.read("strict", Place::bool)?.unwrap_or(false),
        return_prompt_token_ids: fields.read("return_prompt_token_ids", Place::bool)?.unwrap_or(false),
    };
    if let Some(at) = fields.take("prompt_format_version")
        && at.integer(1, "1")? != i64::from(PROMPT_FORMAT_VERSION)
    {
        return Err(at.error(Problem::Range { given: at.value().to_string(), range: "1" }));
    }
    fields.finish_strictly()?;
    Ok(settings)
}

/// Parses the maximum number of tokens of a thought. 0 switches thoughts off.
fn read_reasoning(at: &Place) -> Result<usize, RequestError> {
    at.up_to(MAX_REASONING, "0..=32768")
}

fn read_orders(at: &Place) -> Result<Orders, RequestError> {
    if at.is_string() {
        let known = |name: &str| (name == "cyclic").then_some(Orders::Cyclic);
        return at.one_of(known, "1, 2 and cyclic");
    }
    match at.integer(1, "1, 2 or \"cyclic\"")? {
        1 => Ok(Orders::One),
        2 => Ok(Orders::Two),
        given => Err(at.error(Problem::Range { given: given.to_string(), range: "1, 2 or \"cyclic\"" })),
    }
}

fn read_calibration(at: Place) -> Result<Calibration, RequestError> {
    read_calibration_fields(at.fields()?)
}

/// Parses a calibration: `temperature`, `by_options` and `prior`. This is also the form of calibration
/// files.
pub(super) fn read_calibration_fields(mut fields: Fields) -> Result<Calibration, RequestError> {
    let temperature = |at: Place| at.double(0.01..=100.0, "0.01..=100");
    let mut calibration =
        Calibration { temperature: fields.read("temperature", temperature)?, ..Calibration::default() };
    for (options, at) in fields.read("by_options", Place::entries)?.unwrap_or_default() {
        let count = options.parse().ok().filter(|count| (1..=255).contains(count));
        let range = "a number of options from 1 to 255 as key";
        let count = count.ok_or_else(|| at.error(Problem::Range { given: options, range }))?;
        calibration.by_options.insert(count, temperature(at)?);
    }
    let known = |name: &str| (name == "content_free").then_some(true);
    calibration.content_free = fields.read("prior", |at| at.one_of(known, "content_free"))?.unwrap_or(false);
    fields.finish_strictly()?;
    Ok(calibration)
}
