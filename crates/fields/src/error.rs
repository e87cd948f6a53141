use thiserror::Error;

/// Error in reading, checking, importing or writing a definition.
///
/// The message is a single line. If the location of the problem is known, the line starts with one
/// of:
///
/// - the path of the field: `stats.strength`, `content.dialogue.text`, `items[]`, or `$` for the
///   whole definition,
/// - line and column, for text that is not valid JSON, YAML or TOML,
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
}

/// Problem of a field.
#[derive(Clone, PartialEq, Debug, Error)]
pub(crate) enum Problem {
    #[error("`{key}` is missing")]
    Missing { key: &'static str },
    #[error("there is no key `{key}`; {owner} has {known}")]
    UnknownKey { key: String, owner: &'static str, known: String },
    #[error("`{key}`: expected {expected}, found {found}")]
    Expected { key: &'static str, expected: &'static str, found: &'static str },
    #[error("expected {expected}, found {found}")]
    NoField { expected: &'static str, found: &'static str },
    #[error("`{key}` is {given}, below zero")]
    Negative { key: &'static str, given: i64 },
    #[error("`type` is `{given}`; there are {known}")]
    UnknownType { given: String, known: String },
    #[error("the name is empty")]
    EmptyName,
    #[error("the description is empty")]
    EmptyDescription,
    #[error("there are two descriptions")]
    DescribedTwice,
    #[error("a structure that references name has only ASCII letters, digits, `_` and `-` in its name")]
    DefinitionName,
    #[error("there are two of this name")]
    DuplicateName,
    #[error("min is {min}, above max, which is {max}")]
    Bounds { min: String, max: String },
    #[error("{key} is {given}, which is no finite number")]
    NotFinite { key: &'static str, given: f64 },
    #[error("no number with at most {decimals} decimals lies between {min} and {max}")]
    NoNumber { decimals: u32, min: String, max: String },
    #[error("decimals is {given}; the most are {limit}")]
    Decimals { given: u64, limit: u32 },
    #[error("{bound} has too many digits: with {decimals} decimals, floats tell numbers apart up to {limit}")]
    Digits { bound: String, decimals: u32, limit: String },
    #[error("{given:e} is too large to be exact")]
    Large { given: f64 },
    #[error("min_length is {min}, above max_length, which is {max}")]
    Lengths { min: usize, max: usize },
    #[error("{key} is {given}; the most is {limit}")]
    Count { key: &'static str, given: usize, limit: usize },
    #[error("min_items is {min}, above max_items, which is {max}")]
    Items { min: usize, max: usize },
    #[error("the template has no `<generated>`")]
    NoPlace,
    #[error("the choice has no options")]
    NoOptions,
    #[error("the option {option} comes twice")]
    DuplicateOption { option: String },
    #[error("there are {weights} weights for {options} options")]
    Weights { weights: usize, options: usize },
    #[error("the weight {given} is not between {least:e} and {most:e}")]
    Weight { given: f64, least: f64, most: f64 },
    #[error("the variant has no structures")]
    NoVariants,
    #[error("a structure of a variant with tags needs a name")]
    Untagged,
    #[error("there is no structure `{name}` in `definitions`")]
    Unresolved { name: String },
    #[error("recursion without end: no value of `{name}` can be complete")]
    Endless { name: String },
    #[error("recursion without end: `{name}` stands for itself")]
    Circular { name: String },
    #[error("nested deeper than the limit of {limit}")]
    Nesting { limit: usize },
    #[error("the definition has more than {limit} fields and options")]
    Fields { limit: usize },
    #[error("{0}")]
    Characters(CharactersProblem),
}

/// Problem of a character set.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum CharactersProblem {
    #[error("the character set is empty")]
    Empty,
    #[error("the range {low}-{high} runs backwards")]
    Backward { low: char, high: char },
    #[error("`{c}` must be written `\\{c}`: a character set has no brackets around it")]
    Bracket { c: char },
    #[error("U+{:04X} is a control character, and not `\\n` or `\\t`", u32::from(*.c))]
    Control { c: char },
    #[error(
        "`\\{}` is not an escape; escapes are \\n \\t \\\\ \\[ \\] \\- \\^ \\u{{…}}",
        .c.map(String::from).unwrap_or_default()
    )]
    Escape { c: Option<char> },
    #[error("`\\u` takes the number of a character in hexadecimal, as in \\u{{1F600}}")]
    Code,
}

/// Problem at a location in a JSON Schema.
#[derive(Clone, PartialEq, Debug, Error)]
pub(crate) enum SchemaProblem {
    #[error("fields have nothing for `{keyword}`")]
    Keyword { keyword: String },
    #[error("`{keyword}`: expected {expected}")]
    Malformed { keyword: &'static str, expected: &'static str },
    #[error("fields have nothing for {what}")]
    Inexpressible { what: &'static str },
    #[error("nothing is found at `{target}`")]
    Unresolved { target: String },
    #[error("nested deeper than the limit of {limit}")]
    Nesting { limit: usize },
}

impl FieldsError {
    /// Returns the path of the invalid field, if the error concerns a field.
    pub fn path(&self) -> Option<&str> {
        match &self.0 {
            Fault::Field { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Returns the line and column of a syntax error. Both start at 1.
    pub const fn line_column(&self) -> Option<(usize, usize)> {
        match self.0 {
            Fault::Syntax { line, column, .. } => Some((line, column)),
            _ => None,
        }
    }

    /// Returns the JSON pointer to the problem, if the error concerns an imported JSON Schema.
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
