//! `POST /v1/grammar/check`, `/explain` and `/sample`: inspect a constraint without a generation.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use formwork_grammar::{Constraint, Grammar, GrammarError, Undeclared, Warning};
use formwork_openai::{
    DefinitionProblem, Format, GrammarCheck, GrammarExplanation, GrammarNote, GrammarProblem, GrammarRequest,
    GrammarSamples, GrammarTask,
};
use formwork_vocab::Tokenizer;

use crate::app::{App, Served};
use crate::body::JsonBody;
use crate::constraints::{self, Compiling, Key};
use crate::error::{ApiError, Kind};
use crate::random::random;

/// `POST /v1/grammar/check`. A constraint that cannot be enforced is a normal result, not a
/// failure.
pub(crate) async fn check(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Json<GrammarCheck>, ApiError> {
    let request = GrammarRequest::check(&body);
    if let Err(error) = &request
        && let Some(fault) = error.definition()
    {
        return Ok(Json(refused(of_definition(fault))));
    }
    let subject = Subject::find(&app, request?).await?;
    app.compile(move |compiling| {
        Ok(Json(match subject.compile(compiling) {
            Ok(compiled) => passed(&compiled),
            Err(error) if compiling == Compiling::Quick && error.is_over_limit() => {
                return Err(Kind::Uncompiled.into());
            }
            Err(error) => refused(problem(&error, subject.format.field)),
        }))
    })
    .await
}

/// `POST /v1/grammar/explain`.
pub(crate) async fn explain(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Json<GrammarExplanation>, ApiError> {
    let subject = Subject::find(&app, GrammarRequest::explain(&body)?).await?;
    app.compile(move |compiling| {
        let compiled = subject.compiled(compiling)?;
        let GrammarTask::Explain { text } = &subject.task else { return Err(Kind::Panicked.into()) };
        let mut recognizer = compiled.grammar.recognizer();
        let read = recognizer.extend(text.as_bytes());
        let tokens = if read.is_ok() { compiled.tokens_after(text)? } else { None };
        Ok(Json(GrammarExplanation {
            matches: read.is_ok(),
            at: read.map_or_else(|mismatch| mismatch.at, |()| text.len()),
            expected: recognizer.expected(),
            bytes: recognizer.following().to_string(),
            tokens,
            may_end: recognizer.accepting(),
        }))
    })
    .await
}

/// `POST /v1/grammar/sample`.
pub(crate) async fn sample(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Json<GrammarSamples>, ApiError> {
    let subject = Subject::find(&app, GrammarRequest::sample(&body)?).await?;
    app.compile(move |compiling| {
        let compiled = subject.compiled(compiling)?;
        let GrammarTask::Sample { count, seed, max_bytes } = subject.task else {
            return Err(Kind::Panicked.into());
        };
        // A default seed has 53 bits, so that JavaScript clients can represent it exactly.
        let seed = seed.unwrap_or_else(|| random() >> 11);
        let mut samples = compiled.grammar.samples(seed);
        if let Some(given) = max_bytes {
            let shortest = compiled.grammar.shortest().len();
            if shortest > given {
                return Err(Kind::SampleTooShort { given, shortest }.into());
            }
            samples = samples.max_bytes(given);
        }
        let outputs = samples.take(count).map(|output| String::from_utf8_lossy(&output).into_owned());
        Ok(Json(GrammarSamples { seed, outputs: outputs.collect() }))
    })
    .await
}

/// The subject of a request: a constraint and the task.
struct Subject {
    app: App,
    served: Option<Arc<Served>>,
    format: Format,
    undeclared: Undeclared,
    task: GrammarTask,
}

/// A compiled grammar, and its constraint over the model's tokens if a model is known.
struct Compiled {
    grammar: Grammar,
    tokens: Option<(Constraint, Arc<Tokenizer>)>,
}

impl Subject {
    /// Finds the model of a request: the named one, or the only one.
    ///
    /// With several models and no name, the request is answered without a model, since a grammar
    /// means the same for all.
    async fn find(app: &App, request: GrammarRequest) -> Result<Self, ApiError> {
        let served = match request.model.as_deref().or_else(|| app.registry().only()) {
            Some(name) => Some(app.model(name).await?),
            None => None,
        };
        let GrammarRequest { format, undeclared, task, .. } = request;
        Ok(Self { app: app.clone(), served, format, undeclared, task })
    }

    fn compile(&self, compiling: Compiling) -> Result<Compiled, GrammarError> {
        let Some(served) = &self.served else {
            let options = self.app.options();
            let (limits, remotes) = (&compiling.limits(&options.grammar_limits), &options.schemas);
            let grammar = constraints::compile(&self.format.part, self.undeclared, limits, remotes)?;
            return Ok(Compiled { grammar, tokens: None });
        };
        let tokenizer = served.model.engine.tokenizer();
        let key = Key::new(self.format.part.clone(), self.undeclared);
        let constraint = served.constraints.get(key, tokenizer.vocabulary(), compiling)?;
        let grammar = constraint.grammar().clone();
        Ok(Compiled { grammar, tokens: Some((constraint, Arc::clone(tokenizer))) })
    }

    fn compiled(&self, compiling: Compiling) -> Result<Compiled, ApiError> {
        let field = self.format.field;
        self.compile(compiling).map_err(|source| Kind::Constraint { field, source }.into())
    }
}

impl Compiled {
    /// Returns the number of tokens that the mask allows after a matching text.
    ///
    /// Returns `None` without a model, or if the tokenizer spells another text.
    fn tokens_after(&self, text: &str) -> Result<Option<usize>, ApiError> {
        let Some((constraint, tokenizer)) = &self.tokens else { return Ok(None) };
        let encoded = tokenizer.encode_fragment(text);
        let mut matcher = constraint.matcher();
        for token in encoded.map_err(|source| Kind::Text { field: "text", source })? {
            // A tokenizer that normalises text may spell a text that does not match.
            if matcher.commit(token).is_err() {
                return Ok(None);
            }
        }
        Ok(Some(matcher.explain().tokens))
    }
}

fn passed(compiled: &Compiled) -> GrammarCheck {
    let shortest = compiled.grammar.shortest();
    let tokens = compiled.tokens.as_ref();
    GrammarCheck {
        ok: true,
        error: None,
        warnings: compiled.grammar.warnings().iter().map(note).collect(),
        states: Some(compiled.grammar.size()),
        minimum_bytes: Some(shortest.len()),
        shortest: Some(String::from_utf8_lossy(&shortest).into_owned()),
        minimum_tokens: tokens.and_then(|(constraint, _)| constraint.minimum_tokens()),
    }
}

const fn refused(error: GrammarProblem) -> GrammarCheck {
    GrammarCheck {
        ok: false,
        error: Some(error),
        warnings: Vec::new(),
        states: None,
        minimum_bytes: None,
        shortest: None,
        minimum_tokens: None,
    }
}

fn problem(error: &GrammarError, field: &str) -> GrammarProblem {
    let (line, column) = error.line_column().unzip();
    GrammarProblem {
        param: field.to_owned(),
        message: error.to_string(),
        problem: error.problem(),
        pointer: error.pointer().map(str::to_owned),
        keyword: error.keyword().map(str::to_owned),
        offset: error.offset(),
        line,
        column,
        excerpt: error.excerpt(),
    }
}

fn of_definition(DefinitionProblem { message, problem, line_column }: DefinitionProblem) -> GrammarProblem {
    let (line, column) = line_column.unzip();
    GrammarProblem {
        param: "fields".to_owned(),
        message,
        problem,
        pointer: None,
        keyword: None,
        offset: None,
        line,
        column,
        excerpt: None,
    }
}

fn note(warning: &Warning) -> GrammarNote {
    let plain =
        GrammarNote { message: warning.to_string(), pointer: None, keyword: None, rule: None, line: None };
    match warning {
        Warning::Keyword { pointer, keyword, .. } => {
            GrammarNote { pointer: Some(pointer.clone()), keyword: Some(keyword.clone()), ..plain }
        }
        Warning::UnreachableRule { rule, line, .. } => {
            GrammarNote { rule: Some(rule.clone()), line: Some(*line), ..plain }
        }
        Warning::At { warning, .. } => GrammarNote { message: plain.message, ..note(warning) },
        _ => plain,
    }
}
