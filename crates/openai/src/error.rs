use formwork_fields::FieldsError;
use formwork_json::JsonError;
use thiserror::Error;

/// Error from parsing the body of a request. The message contains the path of the invalid field.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct RequestError(#[from] Kind);

#[derive(Debug, Error)]
enum Kind {
    #[error("the body is {0}")]
    Syntax(#[source] JsonError),
    #[error("the body must be a JSON object, not {found}")]
    NotAnObject { found: &'static str },
    #[error("`{param}`: {problem}")]
    Field { param: String, problem: Problem },
}

/// Problem of one field. The error that contains the problem adds the path of the field.
#[derive(Debug, Error)]
pub(crate) enum Problem {
    #[error("this field is required")]
    Missing,
    #[error("unrecognized request argument")]
    Unrecognized,
    #[error(
        "unrecognized request argument, whose name is like that of a constraint; it would not be enforced"
    )]
    LikeConstraint,
    #[error("unrecognized request argument, whose name is like that of a parameter; it would have no effect")]
    LikeParameter,
    #[error("unrecognized request argument with `{name}`, which would have no effect here")]
    NestedConstraint { name: String },
    #[error("unrecognized request argument with more than {limit} values")]
    UnknownTooLarge { limit: usize },
    #[error("more than {limit} unrecognized request arguments")]
    TooManyUnknown { limit: usize },
    #[error("expected {expected}, found {found}")]
    Type { expected: &'static str, found: &'static str },
    #[error("unsupported value `{given}`; supported values: {supported}")]
    Value { given: String, supported: &'static str },
    /// The value would have an effect that is not supported. `accepted` describes the values
    /// without effect. `hint` is empty, names a supported alternative, or gives a reason.
    #[error("only {accepted} is supported here{}{hint}", if hint.is_empty() { "" } else { "; " })]
    NotNeutral { accepted: &'static str, hint: &'static str },
    #[error("expected a token id as key")]
    NotATokenId,
    #[error("{given} is out of range; expected {range}")]
    Range { given: String, range: &'static str },
    #[error("this field is set by directives and cannot be given")]
    Decided,
    #[error("must not be empty")]
    Empty,
    #[error("repeats an earlier entry")]
    Repeated,
    #[error("{given} entries are too few; expected at least {least}")]
    TooFew { given: usize, least: usize },
    #[error("{given} levels of nesting exceed the limit of {limit}")]
    TooDeep { given: usize, limit: usize },
    #[error("no earlier call has this id")]
    NoCall,
    #[error("nothing is stored here; send the earlier items in `input`")]
    StoreOff,
    #[error("unknown response `{id}`; it was not stored, was deleted, or made room for newer ones")]
    NoResponse { id: String },
    #[error("unknown conversation `{id}`; it was not created, was deleted, or made room for newer ones")]
    NoConversation { id: String },
    #[error("unknown item `{id}`; send the item itself")]
    NoItem { id: String },
    #[error("stored items of {given} bytes exceed the limit of {limit}")]
    StoredTooLong { given: usize, limit: usize },
    #[error("{given} entries exceed the limit of {limit}")]
    TooMany { given: usize, limit: usize },
    #[error("expected {expected} entries, found {given}")]
    Count { given: usize, expected: usize },
    #[error("the excluded texts and the ends of tags have {given} bytes, more than the limit of {limit}")]
    Excluded { given: usize, limit: usize },
    #[error("must not be empty, since free text before it would not end")]
    Endless,
    #[error("must be one of `trigger_tokens`")]
    NoTrigger,
    #[error(
        "a format of tokens must exclude exactly 1 token, which may be a trigger or the end of its tag; this one excludes {}",
        if *is_none { "none" } else { "more" }
    )]
    TokenCount { is_none: bool },
    #[error("{given} bytes exceed the limit of {limit}")]
    TooLong { given: usize, limit: usize },
    #[error(
        "a constraint is required, such as `response_format`, `grammar`, `guided_json`, `guided_regex` and `guided_choice`"
    )]
    NoFormat,
    #[error("{0}")]
    Definition(#[source] FieldsError),
    #[error("more {what} than the limit of {limit}")]
    DefinitionTooLarge { what: &'static str, limit: usize },
    #[error("{0}")]
    EmbeddedJson(#[source] JsonError),
    #[error("cannot be combined with `{other}`")]
    Conflict { other: &'static str },
    #[error("{given} differs from `{other}`, which is {limit}")]
    Disagreement { given: usize, other: &'static str, limit: usize },
    #[error("{given} is more than `{other}`, which is {limit}")]
    AboveLimit { given: usize, other: &'static str, limit: usize },
    #[error("`{given}` is not a JSON pointer; expected an empty string or a string such as `/team`")]
    Pointer { given: String },
    #[error("requires `stream` to be true")]
    NotStreaming,
    #[error("requires `{other}`{}", if *other == "tools" { " that can be called here" } else { "" })]
    Needs { other: &'static str },
    #[error("unknown tool `{name}`")]
    NoTool { name: String },
    #[error("tool `{name}` is not of the type `{kind}`")]
    OtherKind { name: String, kind: &'static str },
    #[error("duplicate tool name `{name}`")]
    SameName { name: String },
    #[error("expected a name of 1 to 128 letters, digits, `_`, `-` and `.`")]
    BadName,
    #[error("expected a schema of type `object`, since arguments are an object")]
    NotOfObjects,
    #[error("this server keeps no threads; send the whole conversation in `messages`")]
    Thread,
    #[error("expected `content` or `tool_calls`")]
    SaysNothing,
    #[error("only a last message of the assistant, with content and without calls, can be continued")]
    NotAnAnswer,
}

/// Problem of a definition of fields in a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefinitionProblem {
    /// Message with the place.
    pub message: String,
    /// Description of the problem without the line and column.
    pub problem: String,
    /// Line and column of a syntax error, starting at 1.
    pub line_column: Option<(usize, usize)>,
}

impl RequestError {
    /// Returns the path of the invalid field, such as `messages[0].content`. Returns `None` if the
    /// body is not a JSON object.
    pub fn param(&self) -> Option<&str> {
        match &self.0 {
            Kind::Field { param, .. } => Some(param),
            Kind::Syntax(_) | Kind::NotAnObject { .. } => None,
        }
    }

    /// Returns the problem of a definition of fields, if it is the cause.
    pub fn definition(&self) -> Option<DefinitionProblem> {
        let Kind::Field { problem, .. } = &self.0 else { return None };
        match problem {
            Problem::Definition(source) => Some(DefinitionProblem {
                message: source.to_string(),
                problem: source.problem(),
                line_column: source.line_column(),
            }),
            Problem::DefinitionTooLarge { .. } => Some(DefinitionProblem {
                message: problem.to_string(),
                problem: problem.to_string(),
                line_column: None,
            }),
            _ => None,
        }
    }

    /// Returns OpenAI's code for the error, such as `previous_response_not_found`. Returns `None` if
    /// the error has no code.
    pub const fn code(&self) -> Option<&'static str> {
        let Kind::Field { problem, .. } = &self.0 else { return None };
        match problem {
            Problem::NoResponse { .. } => Some("previous_response_not_found"),
            Problem::NoConversation { .. } => Some("conversation_not_found"),
            Problem::Thread => Some(crate::anthropic::THREADS),
            _ => None,
        }
    }

    pub(crate) fn syntax(source: JsonError) -> Self {
        Kind::Syntax(source).into()
    }

    pub(crate) fn not_an_object(found: &'static str) -> Self {
        Kind::NotAnObject { found }.into()
    }

    pub(crate) fn field(param: impl Into<String>, problem: Problem) -> Self {
        Kind::Field { param: param.into(), problem }.into()
    }
}
