use thiserror::Error;

/// Error in reading, checking, importing or writing a definition, or in parsing a character set.
///
/// The message is a single line. If the location of the problem is known, the line starts with one
/// of:
///
/// - the path of the field: `stats.strength`, `content.dialogue.text`, `items[]`, or `$` for the
///   whole definition,
/// - line and column, for text that is not valid JSON, YAML or TOML, and for all errors in C#,
/// - the JSON pointer into an imported JSON Schema.
#[derive(Clone, PartialEq, Debug, Error)]
#[error(transparent)]
pub struct FieldsError(#[from] Fault);

#[derive(Clone, PartialEq, Debug, Error)]
pub(crate) enum Fault {
    #[error("{format}, line {line}, column {column}: {message}")]
    Syntax { format: &'static str, line: usize, column: usize, message: String },
    #[error("the definition cannot be written as {format}: {message}")]
    Unwritable { format: &'static str, message: String },
    #[error("{path}: {problem}")]
    Field { path: String, problem: Problem },
    #[error("{problem}")]
    Characters { problem: CharactersProblem },
    #[error("#{pointer}: {problem}")]
    Schema { pointer: String, problem: SchemaProblem },
    #[error(
        "invalid namespace `{given}`; expected C# identifiers with dots in between, such as `Game.Events`"
    )]
    Namespace { given: String },
}

/// Problem of a field. The error that contains the problem adds the path of the field.
#[derive(Clone, PartialEq, Debug, Error)]
pub(crate) enum Problem {
    #[error("`{key}` is missing")]
    Missing { key: &'static str },
    #[error("unknown key `{key}`; {owner} accepts {known}")]
    UnknownKey { key: String, owner: &'static str, known: String },
    #[error("`{key}`: expected {expected}, found {found}")]
    Expected { key: &'static str, expected: &'static str, found: &'static str },
    #[error("expected {expected}, found {found}")]
    NoField { expected: &'static str, found: &'static str },
    #[error("`{key}` is {given}; expected 0 or more")]
    Negative { key: &'static str, given: i64 },
    #[error("unknown type `{given}`; expected one of {known}")]
    UnknownType { given: String, known: String },
    #[error("the name is empty")]
    EmptyName,
    #[error("the description is empty")]
    EmptyDescription,
    #[error("the field has more than one description")]
    DescribedTwice,
    #[error("invalid structure name; expected only ASCII letters, digits, `_` and `-`")]
    DefinitionName,
    #[error("duplicate name")]
    DuplicateName,
    #[error("min ({min}) is greater than max ({max})")]
    Bounds { min: String, max: String },
    #[error("{key} is {given}; expected a finite number")]
    NotFinite { key: &'static str, given: f64 },
    #[error("no number with at most {decimals} decimals lies between {min} and {max}")]
    NoNumber { decimals: u32, min: String, max: String },
    #[error("decimals is {given}; the maximum is {limit}")]
    Decimals { given: u64, limit: u32 },
    #[error("{bound} has too many digits; with {decimals} decimals, 64-bit floats are exact up to {limit}")]
    Digits { bound: String, decimals: u32, limit: String },
    #[error("{given:e} is too large; 64-bit floats are exact for integers up to 9007199254740991")]
    Large { given: f64 },
    #[error("min_length ({min}) is greater than max_length ({max})")]
    Lengths { min: usize, max: usize },
    #[error("{key} is {given}; the maximum is {limit}")]
    Count { key: &'static str, given: usize, limit: usize },
    #[error("min_items ({min}) is greater than max_items ({max})")]
    Items { min: usize, max: usize },
    #[error("the template must contain at least one `<generated>`")]
    NoPlace,
    #[error("the choice has no options")]
    NoOptions,
    #[error("duplicate option {option}")]
    DuplicateOption { option: String },
    #[error("expected {options} weights, one for each option; found {weights}")]
    Weights { weights: usize, options: usize },
    #[error("the weight {given} is not between {least:e} and {most:e}")]
    Weight { given: f64, least: f64, most: f64 },
    #[error("a required member has no probability; add `optional: true`")]
    RequiredProbability,
    #[error("probability is {given}; expected a number from {least:e} to {most}")]
    Probability { given: f64, least: f64, most: f64 },
    #[error("an untagged variant has no weights: the first token of a structure has no name to decide by")]
    UntaggedWeights,
    #[error("expected {structures} weights, one for each structure; found {weights}")]
    StructureWeights { weights: usize, structures: usize },
    #[error("the variant has no structures")]
    NoVariants,
    #[error("every structure of a tagged variant needs a name")]
    Untagged,
    #[error("unknown structure `{name}`; expected a name from `definitions`")]
    Unresolved { name: String },
    #[error("infinite recursion: every value of `{name}` would be infinitely large")]
    Endless { name: String },
    #[error("circular reference: `{name}` refers to itself")]
    Circular { name: String },
    #[error("nested deeper than the limit of {limit}")]
    Nesting { limit: usize },
    #[error("the definition has more than {limit} fields and options")]
    Fields { limit: usize },
    #[error("{0}")]
    Characters(CharactersProblem),
}

/// Problem in the notation of a character set.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum CharactersProblem {
    #[error("the character set is empty")]
    Empty,
    #[error("the range {low}-{high} runs backwards")]
    Backward { low: char, high: char },
    #[error("`{c}` must be written `\\{c}`: a character set has no brackets around it")]
    Bracket { c: char },
    #[error("U+{:04X} is a control character; only `\\n` and `\\t` are allowed", u32::from(*.c))]
    Control { c: char },
    #[error(
        "`\\{}` is not an escape; escapes are \\n \\t \\\\ \\[ \\] \\- \\^ \\u{{…}}",
        .c.map(String::from).unwrap_or_default()
    )]
    Escape { c: Option<char> },
    #[error("`\\u` needs a hexadecimal code point, as in \\u{{1F600}}")]
    Code,
}

/// Problem at a location in an imported JSON Schema.
#[derive(Clone, PartialEq, Debug, Error)]
pub(crate) enum SchemaProblem {
    #[error("unsupported keyword `{keyword}`")]
    Keyword { keyword: String },
    #[error("`{keyword}`: expected {expected}")]
    Malformed { keyword: &'static str, expected: &'static str },
    #[error("unsupported: {what}")]
    Inexpressible { what: &'static str },
    #[error("unresolved reference `{target}`")]
    Unresolved { target: String },
    #[error("nested deeper than the limit of {limit}")]
    Nesting { limit: usize },
}

impl FieldsError {
    /// Returns the path of the invalid field. Returns `None` if the error does not concern a field.
    pub fn path(&self) -> Option<&str> {
        match &self.0 {
            Fault::Field { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Returns the line and column of a syntax error in JSON, YAML or TOML, or of any error in C#,
    /// both starting at 1. Returns `None` for other errors.
    pub const fn line_column(&self) -> Option<(usize, usize)> {
        match self.0 {
            Fault::Syntax { line, column, .. } => Some((line, column)),
            _ => None,
        }
    }

    /// Returns the message without line and column.
    pub fn problem(&self) -> String {
        match &self.0 {
            Fault::Syntax { message, .. } => message.clone(),
            other => other.to_string(),
        }
    }

    /// Returns the JSON pointer to the problem in an imported JSON Schema. Returns `None` for other
    /// errors.
    pub fn pointer(&self) -> Option<&str> {
        match &self.0 {
            Fault::Schema { pointer, .. } => Some(pointer),
            _ => None,
        }
    }

    pub(crate) fn characters(problem: CharactersProblem) -> Self {
        Fault::Characters { problem }.into()
    }
}
