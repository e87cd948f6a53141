//! Choice points: places of an output at which the grammar left a choice between few texts.

mod explorer;
mod json;
mod scan;
#[cfg(test)]
mod tests;
mod text;

use serde_json::Value;

use crate::Grammar;
use json::JsonReader;
use text::TextReader;

/// A place of an output at which the grammar left a choice between few texts.
#[derive(Clone, PartialEq, Debug)]
pub struct ChoicePoint {
    /// What is chosen.
    pub kind: ChoiceKind,
    /// JSON pointer of the value, or of the object or array that may go on. Empty for other text.
    pub path: String,
    /// Offset in the output at which the texts of the options begin, in bytes.
    pub start: usize,
    /// Offset at which the text of the chosen option ends.
    pub end: usize,
    /// The options, at least two.
    pub options: Vec<ChoiceOption>,
    /// Index of the chosen option.
    pub chosen: usize,
    /// True if the texts run to the end of the output. Otherwise no text is the beginning of another one.
    pub to_end: bool,
}

/// What is chosen at a [`ChoicePoint`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChoiceKind {
    /// A JSON value that is no object and no array, or the type of a value.
    Value,
    /// The next member of an object, or its end. Values are names, and null for the end.
    Member,
    /// The end of an array. Values are true for the end, and false for another item.
    End,
    /// Text of an output that is not JSON. Values are strings.
    Text,
}

/// An option of a [`ChoicePoint`].
#[derive(Clone, PartialEq, Debug)]
pub struct ChoiceOption {
    /// What the option is.
    pub value: OptionValue,
    /// The texts that stand for the option, at least one.
    pub texts: Vec<String>,
}

/// What an option is.
#[derive(Clone, PartialEq, Debug)]
pub enum OptionValue {
    /// This value.
    Value(Value),
    /// Any value of a JSON type that allows too many values, or any other name of a member. The texts are
    /// the bytes with which such a value can begin.
    Type(&'static str),
}

/// Finds the choice points of one output, byte by byte.
///
/// ```
/// use formwork_grammar::{ChoiceReader, Grammar, Limits, SchemaOptions};
/// let schema = serde_json::json!({
///     "type": "object",
///     "properties": { "team": { "enum": ["billing", "sales"] }, "note": { "type": "string" } },
///     "required": ["team", "note"]
/// });
/// let grammar = Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default())?;
/// let mut reader = ChoiceReader::json(&grammar);
/// let mut points = reader.push(br#"{"team": "sales", "note": ""}"#);
/// points.extend(reader.finish());
/// assert_eq!((points.len(), points[0].path.as_str()), (1, "/team"));
/// assert_eq!(points[0].options[points[0].chosen].texts, ["\"sales\""]);
/// # Ok::<(), formwork_grammar::GrammarError>(())
/// ```
pub struct ChoiceReader {
    reader: Reader,
    /// Number of options so far.
    options: usize,
}

/// Maximum number of options of all choice points of an output.
const MAX_OPTIONS: usize = 1 << 14;

enum Reader {
    Json(JsonReader),
    Text(TextReader),
}

impl ChoiceReader {
    /// Creates a reader of JSON text. The grammar must describe JSON text.
    pub fn json(grammar: &Grammar) -> Self {
        Self { reader: Reader::Json(JsonReader::new(grammar)), options: 0 }
    }

    /// Creates a reader of text of any other form.
    ///
    /// If the grammar has at most 255 outputs, the only choice point is the whole output. Otherwise a choice
    /// point goes from a place where different bytes may follow to the nearest place through which all
    /// outputs go, if at most 255 texts lead there.
    pub fn text(grammar: &Grammar) -> Self {
        Self { reader: Reader::Text(TextReader::new(grammar)), options: 0 }
    }

    /// Reads the next bytes of the output. Returns the choice points that are decided after them.
    ///
    /// After a byte that the grammar does not allow, the reader finds no more choice points.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<ChoicePoint> {
        if self.options > MAX_OPTIONS {
            return Vec::new();
        }
        let points = match &mut self.reader {
            Reader::Json(reader) => reader.push(bytes),
            Reader::Text(reader) => reader.push(bytes),
        };
        self.counted(points)
    }

    /// Returns the choice points that are only decided by the end of the output.
    pub fn finish(&mut self) -> Vec<ChoicePoint> {
        if self.options > MAX_OPTIONS {
            return Vec::new();
        }
        let points = match &mut self.reader {
            Reader::Json(reader) => reader.finish(),
            Reader::Text(reader) => reader.finish(),
        };
        self.counted(points)
    }

    /// Returns true if the output has more choices than the reader may look for: 16,384 options, or 8 million
    /// bytes that are tried.
    pub fn is_cut(&self) -> bool {
        let is_spent = match &self.reader {
            Reader::Json(reader) => reader.is_spent(),
            Reader::Text(reader) => reader.is_spent(),
        };
        is_spent || self.options > MAX_OPTIONS
    }

    /// Counts the options of choice points, and cuts off those beyond the limit.
    fn counted(&mut self, mut points: Vec<ChoicePoint>) -> Vec<ChoicePoint> {
        let options = &mut self.options;
        let within = points.iter().take_while(|point| {
            *options += point.options.len();
            *options <= MAX_OPTIONS
        });
        let within = within.count();
        points.truncate(within);
        points
    }
}
