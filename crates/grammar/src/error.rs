use serde_json::Value;
use thiserror::Error;

use crate::regular::TooLarge;
use crate::tokens::Origin;

/// The reason why a grammar was refused.
///
/// The message is a single line and names the place: a JSON pointer for a schema, line and column
/// for GBNF and Lark, or an offset for a regular expression.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error(transparent)]
pub struct GrammarError(#[from] Kind);

#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    #[error("line {line}, column {column}: {problem}")]
    Gbnf { line: usize, column: usize, source_line: String, problem: GbnfProblem },
    #[error("line {line}, column {column}: {problem}")]
    Lark { line: usize, column: usize, source_line: String, problem: LarkProblem },
    #[error("regex, offset {offset}: {problem}")]
    Regex { offset: usize, problem: RegexProblem },
    #[error("{}: {}{problem}", display_pointer(pointer), keyword_in_words(keyword))]
    Schema { pointer: String, keyword: String, problem: SchemaProblem },
    #[error("no output can satisfy the grammar{}", cannot_end(rules))]
    EmptyLanguage { rules: Vec<Origin> },
    #[error("{place}: {problem}")]
    Tags { place: String, problem: TagProblem },
    #[error("a grammar within a JSON string cannot contain {what}")]
    JsonString { what: &'static str },
    #[error("no choices were given")]
    NoChoices,
    #[error("the grammar cannot be written as GBNF: {reason}")]
    NotGbnf { reason: &'static str },
    #[error("the arguments cannot be written in the notation of the calls: {reason}")]
    Notation { reason: String },
    #[error("the vocabulary has no token `{terminal}`")]
    NoToken { terminal: String },
    #[error(
        "{}the token `{terminal}` ends generation, so it cannot be part of a grammar; remove it, because every output ends with such a token",
        place.as_ref().map(|place| format!("rule {place}: ")).unwrap_or_default()
    )]
    EndToken { terminal: String, place: Option<Origin> },
    #[error("the grammar needs {given} {what}, more than the limit of {limit}")]
    Limit { what: &'static str, given: usize, limit: usize },
}

/// Problem at a line and column of a GBNF grammar.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub(crate) enum GbnfProblem {
    #[error("expected {expected}, found {found}")]
    Expected { expected: &'static str, found: String },
    #[error("this {what} is not closed")]
    Unterminated { what: &'static str },
    #[error("rule `{name}` is not defined")]
    Undefined { name: String },
    #[error("rule `{name}` is defined twice; the first time on line {first}")]
    Duplicate { name: String, first: usize },
    #[error("rule `root` is not defined; a grammar starts with it")]
    NoRoot,
    #[error(
        "`{text}` is not an escape; escapes are \\n \\t \\r \\\\ \\\" \\[ \\] \\- \\^ \\xNN \\uNNNN \\UNNNNNNNN"
    )]
    Escape { text: String },
    #[error("U+{given:04X} is not a character")]
    NotACharacter { given: u32 },
    #[error("nothing to repeat; expected a terminal, a rule name or a group before the operator")]
    NothingToRepeat,
    #[error("`{name} ::=` starts a rule, but the rule before it is incomplete or on the same line")]
    RuleInside { name: String },
    #[error("the start of the range is greater than its end")]
    BackwardRange,
    #[error("the minimum of {min} repetitions is greater than the maximum of {max}")]
    BackwardRepetition { min: u32, max: u32 },
    #[error("repetition count {given} exceeds the limit of {limit}")]
    HugeRepetition { given: String, limit: u32 },
    #[error("nested deeper than the limit of {limit}")]
    Nesting { limit: usize },
    #[error("invalid token terminal `{text}`; expected <[id]>, <text>, !<[id]> or !<text>")]
    TokenTerminal { text: String },
    #[error("more than {limit} token terminals")]
    TokenTerminals { limit: usize },
    #[error("the schema is not JSON: {message}")]
    NotJson { message: String },
    #[error("schema: {error}")]
    Schema { error: String, is_over_limit: bool },
}

/// Problem at a line and column of a Lark grammar.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub(crate) enum LarkProblem {
    /// A problem that GBNF grammars can have too.
    #[error(transparent)]
    Shared(#[from] GbnfProblem),
    #[error("{what} not supported; {instead}")]
    Unsupported { what: String, instead: &'static str },
    #[error("{what} `{name}` is not defined")]
    Undefined { what: &'static str, name: String },
    #[error("{what} `{name}` is defined twice; the first time on line {first}")]
    Duplicate { what: &'static str, name: String, first: usize },
    #[error("rule `start` is not defined; a grammar starts with it")]
    NoStart,
    #[error("`{name}` mixes upper and lower case; rules are lower case, and terminals are upper case")]
    MixedCase { name: String },
    #[error("`{name}` is a terminal; only rules take the prefixes `?` and `!`")]
    Prefix { name: String },
    #[error("`{name}:` starts a rule, but the rule before it is incomplete or on the same line")]
    RuleInside { name: String },
    #[error("`{name}` is a rule, but a terminal can contain other terminals only")]
    RuleInTerminal { name: String },
    #[error("{what} cannot be part of a terminal; write it in a rule")]
    NotInTerminal { what: &'static str },
    #[error("terminal `{name}` refers to itself; only rules can be recursive")]
    RecursiveTerminal { name: String },
    #[error(
        "`{name}` is not a terminal of `common`; it has CNAME, CPP_COMMENT, CR, C_COMMENT, DECIMAL, DIGIT, ESCAPED_STRING, _EXP, FLOAT, HEXDIGIT, INT, LCASE_LETTER, LETTER, LF, NEWLINE, NUMBER, SH_COMMENT, SIGNED_FLOAT, SIGNED_INT, SIGNED_NUMBER, SQL_COMMENT, UCASE_LETTER, WORD, WS and WS_INLINE"
    )]
    NotCommon { name: String },
    #[error("`{text}` is not an escape; escapes are \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uNNNN")]
    Escape { text: String },
    #[error("`{flag}` is not a flag; expected {known}, or a blank before a name")]
    Flag { flag: String, known: &'static str },
    #[error("the ends of a range are strings of one character")]
    RangeEnd,
    #[error("invalid token `{text}`; expected <[id]> or <text>")]
    TokenTerminal { text: String },
    #[error("regular expression: {message}")]
    Regex { message: String },
}

/// Problem with a part of [structural tags](crate::StructuralTags), for example with
/// `tags[2].begin`.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub(crate) enum TagProblem {
    #[error("must not be empty")]
    Empty,
    #[error("must begin with one of the triggers")]
    NoTrigger,
    #[error("its trigger `{trigger}` contains another trigger, which always fires first")]
    Hidden { trigger: String },
    #[error("no tag begins with this trigger")]
    NoTag,
    #[error("{error}")]
    Content { error: Box<GrammarError> },
}

/// Names a keyword before its problem. A schema as a whole has none.
fn keyword_in_words(keyword: &str) -> String {
    if keyword.is_empty() { String::new() } else { format!("`{keyword}`: ") }
}

/// Problem at an offset of a regular expression.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub(crate) enum RegexProblem {
    #[error("{message}")]
    Syntax { message: String },
    #[error(
        "regex engines disagree about this syntax, so it is not supported beside assertions; write a single class without operators and blanks"
    )]
    Ambiguous,
}

/// Problem with a keyword of a JSON Schema.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub(crate) enum SchemaProblem {
    #[error("{reason}")]
    UnsupportedForm { reason: &'static str },
    #[error("expected {expected}, found {found}")]
    Malformed { expected: &'static str, found: String },
    #[error(
        "unknown type `{given}`; expected string, number, integer, boolean, object, array or null{}",
        meant.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
    )]
    UnknownType { given: String, meant: Option<&'static str> },
    #[error("unresolved reference `{target}`")]
    UnresolvedRef { target: String },
    #[error("`{target}` is in another document, `{uri}`, which was not given")]
    RemoteRef { target: String, uri: String },
    #[error("{message}")]
    Pattern { message: String },
    #[error("{given} {what}, more than the limit of {limit}")]
    Limit { what: &'static str, given: usize, limit: usize },
    #[error("no value can satisfy this schema")]
    Unsatisfiable,
    #[error("no value can satisfy both this and {others}")]
    Clash { others: String },
    #[error("nested deeper than the limit of {limit}")]
    Nesting { limit: usize },
}

/// Maximum number of characters of a string value that [`SchemaProblem::malformed`] quotes.
const SHOWN: usize = 40;

impl SchemaProblem {
    /// Creates the problem for the value `found`, which has the wrong type or form. `expected`
    /// describes the right form, for example `an array of schemas`.
    pub(crate) fn malformed(expected: &'static str, found: &Value) -> Self {
        let found = match found {
            Value::Array(_) => "an array".to_owned(),
            Value::Object(_) => "an object".to_owned(),
            Value::String(text) if text.chars().count() > SHOWN => {
                let shown: String = text.chars().take(SHOWN).collect();
                format!("the string \"{shown}…\"")
            }
            Value::String(text) => format!("the string {}", Value::from(text.as_str())),
            other => other.to_string(),
        };
        Self::Malformed { expected, found }
    }
}

/// Maximum number of characters of a source line that an excerpt shows.
const EXCERPT: usize = 120;

impl GrammarError {
    /// Returns the JSON pointer of the schema location with the error, for example
    /// `/properties/a/type`. Returns `None` if the error is not about a schema location.
    ///
    /// For a location in a remote document, the result is the document's URI, `#` and the JSON
    /// pointer.
    pub fn pointer(&self) -> Option<&str> {
        match &self.0 {
            Kind::Schema { pointer, .. } => Some(pointer),
            _ => None,
        }
    }

    /// Reports whether the grammar is a valid schema that no value satisfies. A validator should
    /// then accept the schema and reject every value.
    ///
    /// ```
    /// use formwork_grammar::{Grammar, Limits, SchemaOptions};
    /// let schema = serde_json::json!({ "type": "integer", "minimum": 5, "maximum": 2 });
    /// let error = Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default()).unwrap_err();
    /// assert!(error.is_unsatisfiable());
    /// ```
    pub const fn is_unsatisfiable(&self) -> bool {
        let Kind::Schema { problem, .. } = &self.0 else { return false };
        matches!(problem, SchemaProblem::Unsatisfiable | SchemaProblem::Clash { .. })
    }

    /// Returns the keyword that the error is about, for example `minimum`, or `schema` for a whole
    /// subschema. Returns `None` if the error is not about a schema location.
    pub fn keyword(&self) -> Option<&str> {
        match &self.0 {
            Kind::Schema { keyword, .. } => Some(keyword),
            _ => None,
        }
    }

    /// Returns the absolute URI of the missing document, if the error is a reference to a document
    /// that was not given. Returns `None` for all other errors.
    pub fn missing_document(&self) -> Option<&str> {
        match &self.0 {
            Kind::Schema { problem: SchemaProblem::RemoteRef { uri, .. }, .. } => Some(uri),
            _ => None,
        }
    }

    /// Returns the message without the prefix that names the location.
    pub fn problem(&self) -> String {
        match &self.0 {
            Kind::Gbnf { problem, .. } => problem.to_string(),
            Kind::Lark { problem, .. } => problem.to_string(),
            Kind::Regex { problem, .. } => problem.to_string(),
            Kind::Schema { problem, .. } => problem.to_string(),
            Kind::Tags { problem, .. } => problem.to_string(),
            other => other.to_string(),
        }
    }

    /// Returns the line and column of an error in a GBNF or Lark source, both starting at 1. Returns
    /// `None` for all other errors.
    pub fn line_column(&self) -> Option<(usize, usize)> {
        match self.0 {
            Kind::Gbnf { line, column, .. } | Kind::Lark { line, column, .. } => Some((line, column)),
            _ => None,
        }
    }

    /// Returns the offset in bytes of an error in a regular expression. Returns `None` for all other errors.
    pub const fn offset(&self) -> Option<usize> {
        match self.0 {
            Kind::Regex { offset, .. } => Some(offset),
            _ => None,
        }
    }

    /// Returns the GBNF or Lark source line with the error, and below it a line with a caret under the
    /// column. Returns `None` if the error is not in such a source.
    ///
    /// Of a long line, only the 120 characters around the column are shown. The result has no final
    /// line break.
    pub fn excerpt(&self) -> Option<String> {
        match &self.0 {
            Kind::Gbnf { column, source_line, .. } | Kind::Lark { column, source_line, .. } => {
                // Show only the surroundings of the column in a long line.
                let from = column.saturating_sub(EXCERPT / 2);
                let shown: String = source_line.chars().skip(from).take(EXCERPT).collect();
                Some(format!("{shown}\n{}^", " ".repeat(column.saturating_sub(1 + from))))
            }
            _ => None,
        }
    }

    /// Turns an error about a limit without a location into an error at the schema location
    /// `pointer`. Returns other errors unchanged.
    pub(crate) fn at(self, pointer: &str) -> Self {
        let Kind::Limit { what, given, limit } = self.0 else { return self };
        let keyword = keyword_at(pointer).to_owned();
        let problem = SchemaProblem::Limit { what, given, limit };
        Kind::Schema { pointer: pointer.to_owned(), keyword, problem }.into()
    }

    pub(crate) fn into_kind(self) -> Kind {
        self.0
    }

    /// Reports whether the grammar exceeds one of the [`Limits`](crate::Limits).
    ///
    /// ```
    /// use formwork_grammar::{Grammar, Limits};
    /// let limits = Limits { work: 100, ..Limits::default() };
    /// assert!(Grammar::regex("[a-z]{500}", &limits).unwrap_err().is_over_limit());
    /// let embedded = r#"root ::= %json {"enum": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]}"#;
    /// assert!(Grammar::gbnf(embedded, &limits).unwrap_err().is_over_limit());
    /// ```
    pub fn is_over_limit(&self) -> bool {
        match &self.0 {
            Kind::Limit { .. } | Kind::Schema { problem: SchemaProblem::Limit { .. }, .. } => true,
            Kind::Gbnf { problem: GbnfProblem::Schema { is_over_limit, .. }, .. } => *is_over_limit,
            Kind::Lark { problem: LarkProblem::Shared(problem), .. } => {
                matches!(problem, GbnfProblem::Schema { is_over_limit: true, .. })
            }
            Kind::Tags { problem: TagProblem::Content { error }, .. } => error.is_over_limit(),
            _ => false,
        }
    }

    /// Reports whether a [`Notation`](crate::Notation) cannot express the values of a schema, or would
    /// need too many rules. The same schema may compile as JSON.
    pub fn is_notation(&self) -> bool {
        match &self.0 {
            Kind::Notation { .. } => true,
            Kind::Tags { problem: TagProblem::Content { error }, .. } => error.is_notation(),
            _ => false,
        }
    }

    /// Returns the reason why rules cannot express a schema, if this is the error.
    pub(crate) const fn only_rules(&self) -> Option<&'static str> {
        match self.0 {
            Kind::NotGbnf { reason } => Some(reason),
            _ => None,
        }
    }

    pub(crate) fn notation(reason: impl Into<String>) -> Self {
        Kind::Notation { reason: reason.into() }.into()
    }

    /// Reports whether this is an error about a limit to which [`at`](Self::at) can still add a
    /// schema location.
    pub(crate) const fn is_limit(&self) -> bool {
        matches!(self.0, Kind::Limit { .. })
    }

    pub(crate) fn not_gbnf(reason: &'static str) -> Self {
        Kind::NotGbnf { reason }.into()
    }

    pub(crate) fn limit(what: &'static str, given: usize, limit: usize) -> Self {
        Kind::Limit { what, given, limit }.into()
    }
}

impl From<TooLarge> for GrammarError {
    fn from(TooLarge { what, given, limit }: TooLarge) -> Self {
        Self::limit(what, given, limit)
    }
}

/// Returns the keyword at the end of a pointer to a subschema, for example `items` for
/// `/properties/a/items`.
///
/// Returns `schema` if the pointer is empty or ends with a member name or an array index.
fn keyword_at(pointer: &str) -> &str {
    let path =
        if pointer.starts_with('/') { pointer } else { pointer.split_once('#').map_or("", |(_, path)| path) };
    let mut keyword = "schema";
    let mut is_name = false;
    for segment in path.split('/').skip(1) {
        let is_number = !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
        if is_name || (is_number && keyword != "schema") {
            (keyword, is_name) = ("schema", false);
            continue;
        }
        keyword = segment;
        is_name = matches!(
            segment,
            "properties"
                | "patternProperties"
                | "$defs"
                | "definitions"
                | "dependentSchemas"
                | "dependencies"
        );
    }
    keyword
}

/// Formats a pointer for messages: `#` for the root, `#/a/b` for `/a/b`. A pointer that starts with
/// a document URI is returned unchanged.
pub(crate) fn display_pointer(pointer: &str) -> String {
    if pointer.is_empty() || pointer.starts_with('/') { format!("#{pointer}") } else { pointer.to_owned() }
}

/// Maximum number of rules that [`cannot_end`] lists by name.
const NAMED: usize = 8;

/// Formats `rules`, which match no finite text, as the end of a message: `: rules … cannot end`.
/// Returns an empty text if there are no rules.
fn cannot_end(rules: &[Origin]) -> String {
    let named: Vec<String> = rules.iter().take(NAMED).map(ToString::to_string).collect();
    let more = match rules.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match rules.len() {
        0 => String::new(),
        1 => format!(": rule {} cannot end", named.concat()),
        _ => format!(": rules {}{more} cannot end", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyword_at_ignores_member_names_and_indices() {
        for (pointer, keyword) in [
            ("", "schema"),
            ("/properties/mail", "schema"),
            ("/properties/properties", "schema"),
            ("/properties/not/not", "not"),
            ("/items", "items"),
            ("/allOf/3", "schema"),
            ("/$defs/0/prefixItems/1/additionalProperties", "additionalProperties"),
            ("https://example.com/a/b#/properties/x/items", "items"),
            ("https://example.com/a/b", "schema"),
        ] {
            let place = GrammarError::limit("states", 2, 1).at(pointer);
            assert_eq!(place.keyword(), Some(keyword), "{pointer}");
        }
    }
}
