//! Grammars composed of parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use formwork_vocab::TokenId;
use serde_json::{Value, json};

use super::builder::{Builder, Ends};
use super::json_schema::Schemas;
use super::notation::Notation;
use super::part_cache::{CompiledPart, Context, PartCache};
use super::pieces::Composed;
use super::schema::Schema;
use super::tags::StructuralTags;
use super::triggers::Triggers;
use super::{choice, gbnf, json_string, lark, regex};
use crate::error::{Kind, TagProblem};
use crate::ir::expr::{Expr, RuleId};
use crate::{GrammarError, Limits, Warning};

/// A part of an output, for [`Grammar::of_parts`](crate::Grammar::of_parts).
///
/// Parts can describe a whole answer: the reasoning of the model, its text and its tool calls. Equal
/// parts compile to the same grammar, so a part can be the key of a cache.
///
/// ```
/// use formwork_grammar::{Grammar, Limits, Part, SchemaOptions, Trigger};
/// let call = Part::sequence([
///     Part::literal("{\"name\": \"add\", \"arguments\": "),
///     Part::Json(serde_json::json!({ "type": "array", "items": { "type": "integer" } }).into()),
///     Part::literal("}</call>"),
/// ]);
/// let answer = Part::Text { triggers: vec![(Trigger::Text("<call>".to_owned()), call)], may_end: true };
/// let grammar = Grammar::of_parts(&answer, &SchemaOptions::default(), &Limits::default())?;
/// assert!(grammar.accepts(b"2 < 3.") && !grammar.accepts(b"<call>add</call>"));
/// assert!(grammar.accepts(b"Well, <call>{\"name\": \"add\", \"arguments\": [1, 2]}</call>"));
/// # Ok::<(), formwork_grammar::GrammarError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// Exactly this text.
    Literal(String),
    /// The token with this id, whatever its text is.
    Token(TokenId),
    /// Any JSON object.
    JsonObject,
    /// JSON text that the given JSON Schema accepts.
    Json(Schema),
    /// An object that the given JSON Schema accepts, written in the given notation.
    Arguments {
        /// The schema of the object.
        schema: Schema,
        /// The notation in which the object is written.
        notation: Arc<Notation>,
    },
    /// Text that the given GBNF grammar matches.
    Gbnf(String),
    /// Text that the given Lark grammar matches.
    Lark(String),
    /// Text that the given regular expression matches as a whole.
    Regex(String),
    /// One of these texts.
    Choices(Vec<String>),
    /// Free text that contains structural tags.
    Tags(StructuralTags),
    /// A JSON string whose decoded text the given part describes, in the spelling of the generate profile.
    /// The part must not contain JSON Schemas,
    /// arguments and tokens.
    JsonString(Box<Part>),
    /// All of these parts, in order.
    Sequence(Vec<Part>),
    /// Any one of these parts. An empty list matches nothing.
    OneOf(Vec<Part>),
    /// One or more repetitions of `item`, with `separator` between neighbours.
    List {
        /// The repeated part.
        item: Box<Part>,
        /// The part between two items.
        separator: Box<Part>,
        /// Maximum number of items, or `None` for no limit. A limit of 0 has the same effect as 1.
        max: Option<u32>,
    },
    /// Repetitions of a part, with nothing between them.
    Repeat {
        /// The repeated part.
        part: Box<Part>,
        /// Minimum number of repetitions, at most 1,048,576.
        min: u32,
        /// Maximum number of repetitions, at most 1,048,576, or `None` for no limit. A limit below
        /// `min` matches nothing.
        max: Option<u32>,
    },
    /// Free text up to a trigger, followed by the part that belongs to the trigger.
    Text {
        /// Triggers that end the text, each with the part that must follow. A text trigger must not
        /// be empty. If a text trigger contains another one that is complete earlier, only the
        /// inner trigger fires. A trigger whose part matches nothing is a text that must not occur.
        triggers: Vec<(Trigger, Part)>,
        /// True if the text may also end without a trigger, at any point.
        may_end: bool,
    },
    /// A part whose error messages start with a location.
    At {
        /// Prefix of the error messages, for example `tools[2]`.
        place: String,
        /// The wrapped part.
        part: Box<Part>,
    },
}

/// A text or token that ends free text.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Trigger {
    /// This text, however the model splits it into tokens.
    Text(String),
    /// The token with this id. It should be a control token, not a token of ordinary text.
    Token(TokenId),
}

impl Part {
    /// Returns true if the outputs are JSON text.
    pub fn is_json(&self) -> bool {
        match self {
            Self::Json(_) | Self::JsonObject => true,
            Self::At { part, .. } => part.is_json(),
            _ => false,
        }
    }

    /// Creates a [`Part::Literal`].
    pub fn literal(text: impl Into<String>) -> Self {
        Self::Literal(text.into())
    }

    /// Creates a [`Part::Sequence`].
    pub fn sequence(parts: impl IntoIterator<Item = Self>) -> Self {
        Self::Sequence(parts.into_iter().collect())
    }

    /// Creates a [`Part::At`]: `part` with `place` as the prefix of its error messages.
    pub fn at(place: impl Into<String>, part: Self) -> Self {
        Self::At { place: place.into(), part: Box::new(part) }
    }

    /// Creates a [`Part::Repeat`].
    pub fn repeat(part: Self, min: u32, max: Option<u32>) -> Self {
        Self::Repeat { part: Box::new(part), min, max }
    }

    /// Creates free text without triggers. The empty text matches too.
    pub const fn any_text() -> Self {
        Self::Text { triggers: Vec::new(), may_end: true }
    }
}

/// Returns the JSON Schema of [`Part::JsonObject`].
pub(crate) fn any_object() -> Value {
    json!({ "type": "object" })
}

pub(crate) fn parse(part: &Part, schemas: Schemas<'_>, limits: &Limits) -> Result<Composed, GrammarError> {
    let mut composer = Composer::new(schemas, limits);
    let root = composer.part(part)?;
    Ok(composer.finish(root))
}

/// Maximum of the counts of a [`Part::Repeat`], which is that of GBNF.
const REPETITIONS: u32 = 1 << 20;

pub(super) struct Composer<'a> {
    pub(super) builder: Builder<'a>,
    pub(super) schemas: Schemas<'a>,
    pub(super) limits: &'a Limits,
}

impl<'a> Composer<'a> {
    pub(super) fn new(schemas: Schemas<'a>, limits: &'a Limits) -> Self {
        Self { builder: Builder::new(schemas, limits), schemas, limits }
    }

    /// Returns the grammar with the root `root`.
    pub(super) fn finish(mut self, root: Expr) -> Composed {
        self.builder.rules.exprs[0] = root;
        self.builder.finish()
    }

    pub(super) fn part(&mut self, part: &Part) -> Result<Expr, GrammarError> {
        let number = self.builder.rules.exprs.len();
        Ok(match part {
            Part::Literal(text) => Expr::Literal(text.clone().into()),
            Part::Token(token) => self.builder.token(token.0)?,
            Part::JsonObject => self.builder.schema(format!("json-{number}"), &any_object().into())?,
            Part::Json(schema) => {
                let name = format!("json-{number}");
                match self.schemas.cache {
                    Some(cache) => self.cached(part, name, cache)?,
                    None => self.builder.schema(name, schema)?,
                }
            }
            Part::Arguments { schema, notation } => {
                let name = format!("arguments-{number}");
                if let Some(cache) = self.schemas.cache {
                    self.cached(part, name, cache)?
                } else {
                    let piece = self.arguments(schema.as_value(), notation)?;
                    self.builder.link(name, Arc::new(piece))
                }
            }
            Part::Gbnf(source) => {
                let rules = gbnf::parse(source, self.schemas, self.limits)?;
                self.builder.include(&format!("grammar-{number}"), rules)?
            }
            Part::Lark(source) => {
                let rules = lark::parse(source, self.schemas, self.limits)?;
                self.builder.include(&format!("lark-{number}"), rules)?
            }
            Part::Regex(pattern) => {
                let rules = regex::parse(pattern, self.limits, self.schemas.ledger)?;
                self.builder.include(&format!("regex-{number}"), rules)?
            }
            Part::Choices(choices) => {
                let rules = choice::parse(choices)?;
                self.builder.include(&format!("choice-{number}"), rules)?
            }
            Part::Tags(tags) => self.tags(tags)?,
            Part::JsonString(text) => {
                let composed = parse(text, self.schemas, self.limits)?;
                let rules = composed.flattened().into_owned();
                let rules = json_string::quoted(rules, self.schemas.ledger)?;
                self.builder.include(&format!("string-{number}"), rules)?
            }
            Part::Sequence(parts) => Expr::Sequence(self.all(parts)?),
            Part::OneOf(parts) => Expr::Alternatives(self.all(parts)?),
            Part::List { item, separator, max } => {
                let item = self.part(item)?;
                let item = Expr::Rule(self.builder.rule(format!("item-{number}"), item));
                let more = Expr::Sequence(vec![self.part(separator)?, item.clone()]);
                let more = self.builder.rule(format!("more-{number}"), more);
                // A copy of the separator for each item would be most of a grammar of calls.
                self.builder.rules.sealed.insert(more);
                let max = max.map(|max| max.saturating_sub(1));
                let more = Expr::Repeat { expr: Box::new(Expr::Rule(more)), min: 0, max };
                Expr::Sequence(vec![item, more])
            }
            Part::Repeat { part, min, max } => {
                let given = max.unwrap_or_default().max(*min);
                if given > REPETITIONS {
                    let (given, limit) = (given as usize, REPETITIONS as usize);
                    return Err(GrammarError::limit("repetitions of a part", given, limit));
                }
                if max.is_some_and(|max| max < *min) {
                    return Ok(Expr::Alternatives(Vec::new()));
                }
                let item = self.part(part)?;
                let item = self.builder.rule(format!("repeated-{number}"), item);
                if *min > 1 || max.is_some_and(|max| max > 1) {
                    // A copy of the part for each repetition would need too many states.
                    self.builder.rules.sealed.insert(item);
                }
                Expr::Repeat { expr: Box::new(Expr::Rule(item)), min: *min, max: *max }
            }
            Part::Text { triggers, may_end } => self.text(triggers, *may_end)?,
            Part::At { place, part } => {
                let earlier = self.builder.rules.warnings.len();
                let first = self.builder.rules.exprs.len();
                let expr = self.part(part).map_err(|error| {
                    let problem = TagProblem::Content { error: Box::new(error) };
                    GrammarError::from(Kind::Tags { place: place.clone(), problem })
                })?;
                let rules = &mut self.builder.rules;
                let add_place = |warning: &mut Warning| {
                    *warning = Warning::At { place: place.clone(), warning: Box::new(warning.clone()) };
                };
                rules.warnings[earlier..].iter_mut().for_each(add_place);
                for rule in first..rules.exprs.len() {
                    if let Some(schema) = rules.schemas.get_mut(&RuleId(rule as u32)) {
                        schema.warnings.iter_mut().for_each(add_place);
                    }
                }
                expr
            }
        })
    }

    /// Adds a rule called `name` for a JSON Schema or for arguments, and compiles them only if they are
    /// not in `cache`. Returns a reference to the rule.
    fn cached(&mut self, part: &Part, name: String, cache: &PartCache) -> Result<Expr, GrammarError> {
        let (schema, notation) = match part {
            Part::Json(schema) => (schema, None),
            Part::Arguments { schema, notation } => (schema, Some(notation)),
            other => return self.part(other),
        };
        let ledger = self.schemas.ledger;
        let terminals = self.builder.rules.tokens.clone();
        let context = Context { options: self.schemas.options, limits: self.limits, terminals: &terminals };
        let held = ledger.held();
        let (compiled, bytes) = cache.get(part, context, || {
            let compiled = match notation {
                Some(notation) => {
                    CompiledPart::Arguments(Arc::new(self.arguments(schema.as_value(), notation)?))
                }
                None => CompiledPart::Schema(Arc::new(self.schemas.compile(schema.as_value(), self.limits)?)),
            };
            Ok((compiled, ledger.held().saturating_sub(held)))
        })?;
        ledger.release_to(held);
        ledger.hold(bytes)?;
        Ok(match compiled {
            CompiledPart::Arguments(piece) => self.builder.link(name, piece),
            CompiledPart::Schema(compiled) => self.builder.compiled_schema(name, schema, &compiled),
        })
    }

    fn all(&mut self, parts: &[Part]) -> Result<Vec<Expr>, GrammarError> {
        parts.iter().map(|part| self.part(part)).collect()
    }

    /// Adds the rules of the states of `automaton` like [`Builder::states`], and charges their memory.
    pub(super) fn states(&mut self, automaton: &Triggers) -> Result<RuleId, GrammarError> {
        /// Memory of a state and its rule, in bytes.
        const STATE: usize = 1 << 10;
        self.schemas.ledger.hold(STATE * automaton.len())?;
        self.builder.states(automaton)
    }

    fn text(&mut self, triggers: &[(Trigger, Part)], may_end: bool) -> Result<Expr, GrammarError> {
        let mut texts = Vec::new();
        let mut ends = Ends { triggers: BTreeMap::new(), elsewhere: Vec::new() };
        if may_end {
            ends.elsewhere.push(Expr::empty());
        }
        for (trigger, then) in triggers {
            let then = self.part(then)?;
            match trigger {
                Trigger::Text(text) => {
                    ends.triggers.insert(texts.len(), then);
                    texts.push(text.clone());
                }
                Trigger::Token(token) => {
                    let token = self.builder.token(token.0)?;
                    ends.elsewhere.push(Expr::Sequence(vec![token, then]));
                }
            }
        }
        let automaton = Triggers::new(&texts);
        let first = self.states(&automaton)?;
        self.builder.text(first, &automaton, ends);
        Ok(Expr::Rule(first))
    }
}
