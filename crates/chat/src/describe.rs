//! Description of a format for people.

use serde_json::{Value, json};

use crate::arguments::{Arguments, StringForm};
use crate::format::ChatFormat;
use crate::harmony::{Harmony, RECIPIENT};
use crate::probe::JsonReason;
use crate::tags::Marked;

/// Description of a [`ChatFormat`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// Way in which calls are written: `JSON`, `raw text`, `quoted text`, `JSON values` of named arguments,
    /// `Python` or `harmony`.
    pub notation: &'static str,
    /// A call with a string and a number, as the model writes it.
    pub sample: String,
    /// The reason why calls are JSON in tags. `None` if the chat template has a format of its own.
    pub json_reason: Option<JsonReason>,
    /// Texts before and after thoughts, if the model has thoughts.
    pub thoughts: Option<(String, String)>,
    /// Texts that end a turn of calls.
    pub turn_ends: Vec<String>,
    /// The id of the first call in a conversation, if the format has ids of its own.
    pub id: Option<String>,
}

impl ChatFormat {
    /// Describes the format, with a call of `get_weather` as a sample.
    pub fn describe(&self) -> Description {
        const NAME: &str = "get_weather";
        let arguments = json!({ "city": "Bern", "days": 2 });
        if self.harmony.is_some() {
            let json = Arguments::Json.written(&arguments);
            let header = format!("<|channel|>commentary {RECIPIENT}{NAME} <|constrain|>json<|message|>");
            return Description {
                notation: "harmony",
                sample: format!("{header}{json}<|call|>"),
                json_reason: None,
                thoughts: Some((Harmony::ANALYSIS.to_owned(), Harmony::END.to_owned())),
                turn_ends: self.ends.clone(),
                id: None,
            };
        }
        let calls = &self.calls;
        let first = |text: &Marked| text.numbered(self.numbering.first).text();
        let (open, between) = (first(&calls.open), first(&calls.between));
        let written = calls.arguments.written(&arguments);
        let own_end = Some(calls.turn_end.text()).filter(|end| !end.is_empty());
        let others = self.ends.iter().filter(|end| Some(*end) != own_end.as_ref()).cloned();
        let text = |tag: &Marked| tag.text().trim().to_owned();
        Description {
            notation: calls.arguments.notation(),
            sample: format!("{open}{NAME}{between}{written}{}", calls.close.text()),
            json_reason: self.reason,
            thoughts: self.thoughts.as_ref().map(|tags| (text(&tags.open), text(&tags.close))),
            turn_ends: own_end.clone().into_iter().chain(others).collect(),
            id: self.call_id(NAME, 0),
        }
    }
}

impl Arguments {
    /// Returns the text of arguments in this layout.
    fn written(&self, arguments: &Value) -> String {
        match self {
            Self::Json => crate::arguments::spaced(arguments),
            Self::Members { layout, .. } => layout.written(arguments),
        }
    }

    fn notation(&self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Members { layout, .. } => layout.strings.name(),
        }
    }
}

impl StringForm {
    const fn name(&self) -> &'static str {
        match self {
            Self::Raw { .. } => "raw text",
            Self::Quoted { .. } => "quoted text",
            Self::Json => "JSON values",
            Self::Python => "Python",
        }
    }
}
