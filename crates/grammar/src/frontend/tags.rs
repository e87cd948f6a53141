//! Structural tags: free text in which, once a trigger has come up, one of some tags follows.
//!
//! What may come next in free text depends on how much of a trigger it ends in, which is a state of the triggers'
//! [automaton](Triggers). Each state is a rule: a character leads to the rule of another state, or completes a trigger, whose
//! rule is the tags that begin with it.

use std::collections::BTreeMap;

use super::triggers::Triggers;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::builder::{Builder, Ends};
use super::json_schema::Schemas;
use super::{gbnf, regex};
use crate::error::{Kind, TagProblem};
use crate::ir::expr::{Expr, RuleId, Rules};
use crate::{GrammarError, Limits};

/// Free text in which, wherever a trigger comes up, one of the tags follows that begin with it.
///
/// This is how models call tools in the midst of an answer. Text without a trigger is free; where one trigger contains
/// another, the inner one is what counts. What a tag ends with is no part of the text after it.
///
/// ```
/// use formwork_grammar::{Grammar, Limits, SchemaOptions, StructuralTag, StructuralTags, TagContent};
/// let tags = StructuralTags {
///     triggers: vec!["<tool=".to_owned()],
///     tags: vec![StructuralTag {
///         begin: "<tool=add>".to_owned(),
///         content: TagContent::JsonSchema(serde_json::json!({ "type": "integer" })),
///         end: "</tool>".to_owned(),
///     }],
///     at_least_one: false,
///     stop_after_first: false,
/// };
/// let grammar = Grammar::structural_tags(&tags, &SchemaOptions::default(), &Limits::default())?;
/// assert!(grammar.accepts(b"a < b, so <tool=add>4</tool> and <tool=add>5</tool>."));
/// assert!(!grammar.accepts(b"a <tool=sub>4</tool>"));
/// # Ok::<(), formwork_grammar::GrammarError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct StructuralTags {
    /// After which text a tag must go on. None of them is empty.
    pub triggers: Vec<String>,
    /// The tags; the beginning of each begins with a trigger.
    pub tags: Vec<StructuralTag>,
    /// Whether the output begins with a tag, so that there is one, and no text before it.
    pub at_least_one: bool,
    /// Whether the output ends with the first tag.
    pub stop_after_first: bool,
}

/// One of [`StructuralTags`].
#[derive(Clone, PartialEq, Debug)]
pub struct StructuralTag {
    /// What it begins with, the trigger included.
    pub begin: String,
    /// What is between its beginning and its end.
    pub content: TagContent,
    /// What it ends with.
    pub end: String,
}

/// What is inside a [`StructuralTag`].
#[derive(Clone, PartialEq, Debug)]
pub enum TagContent {
    /// A JSON text that a schema accepts.
    JsonSchema(Value),
    /// What a GBNF grammar matches.
    Gbnf(String),
    /// What a regular expression matches.
    Regex(String),
}

/// The most characters of all triggers together, and the most tags.
const TRIGGERS: usize = 1 << 13;
const TAGS: usize = 1 << 12;

pub(crate) fn parse(
    tags: &StructuralTags,
    schemas: Schemas<'_>,
    limits: &Limits,
) -> Result<Rules, GrammarError> {
    let characters: usize = tags.triggers.iter().map(|trigger| trigger.chars().count()).sum();
    for (what, given, limit) in
        [("characters in its triggers", characters, TRIGGERS), ("tags", tags.tags.len(), TAGS)]
    {
        if given > limit {
            return Err(GrammarError::limit(what, given, limit));
        }
    }
    let automaton = Triggers::new(&tags.triggers);
    let begun = begun(tags, &automaton)?;
    let mut builder = Builder::new(schemas, limits);
    let needs_text = !(tags.at_least_one && tags.stop_after_first);
    let text = if needs_text { Some(builder.states(&automaton)?) } else { None };
    let after = text.filter(|_| !tags.stop_after_first);
    let mut ways = Vec::with_capacity(tags.tags.len());
    for (index, tag) in tags.tags.iter().enumerate() {
        let content = content(&mut builder, index, &tag.content, schemas, limits)?;
        let mut parts = vec![content, Expr::Literal(tag.end.clone().into())];
        parts.extend(after.map(Expr::Rule));
        ways.push(builder.rule(format!("tag-{index}"), Expr::Sequence(parts)));
    }
    if let Some(text) = text {
        builder.text(text, &automaton, ends(&begun, &ways));
    }
    let begins = tags.tags.iter().map(|tag| Expr::Literal(tag.begin.clone().into()));
    let whole = begins.zip(&ways).map(|(begin, &way)| Expr::Sequence(vec![begin, Expr::Rule(way)]));
    let first_text = text.filter(|_| !tags.at_least_one).map(Expr::Rule);
    builder.rules.exprs[0] = first_text.unwrap_or_else(|| Expr::Alternatives(whole.collect()));
    Ok(builder.rules)
}

/// What of a tag's beginning comes after a trigger, by the trigger.
type Begun = FxHashMap<usize, Vec<u8>>;

/// By tag, the triggers that it begins with and that can come up.
fn begun(tags: &StructuralTags, automaton: &Triggers) -> Result<Vec<Begun>, GrammarError> {
    let problem = |place: String, problem| Err(GrammarError::from(Kind::Tags { place, problem }));
    if tags.triggers.is_empty() {
        return problem("triggers".to_owned(), TagProblem::Empty);
    }
    if tags.tags.is_empty() {
        return problem("tags".to_owned(), TagProblem::Empty);
    }
    if let Some(at) = tags.triggers.iter().position(String::is_empty) {
        return problem(format!("triggers[{at}]"), TagProblem::Empty);
    }
    let mut begun = Vec::with_capacity(tags.tags.len());
    for (index, tag) in tags.tags.iter().enumerate() {
        let triggers = tags.triggers.iter().enumerate();
        let own = triggers.filter_map(|(at, trigger)| Some((at, tag.begin.strip_prefix(trigger.as_str())?)));
        let own: Vec<(usize, &str)> = own.collect();
        let possible = own.iter().filter(|(at, _)| automaton.comes_up(*at));
        let possible: Begun = possible.map(|&(at, rest)| (at, rest.into())).collect();
        if possible.is_empty() {
            let within = own.first().map(|&(at, _)| tags.triggers[at].clone());
            let found = within.map_or(TagProblem::NoTrigger, |trigger| TagProblem::Hidden { trigger });
            return problem(format!("tags[{index}].begin"), found);
        }
        begun.push(possible);
    }
    for at in 0..tags.triggers.len() {
        if automaton.comes_up(at) && begun.iter().all(|begun| !begun.contains_key(&at)) {
            return problem(format!("triggers[{at}]"), TagProblem::NoTag);
        }
    }
    Ok(begun)
}

/// The text may end anywhere, and goes on with the tags after a trigger.
fn ends(begun: &[Begun], ways: &[RuleId]) -> Ends {
    let mut tags: BTreeMap<usize, Vec<Expr>> = BTreeMap::new();
    for (begun, &way) in begun.iter().zip(ways) {
        for (&trigger, rest) in begun {
            let parts = vec![Expr::Literal(rest.clone()), Expr::Rule(way)];
            tags.entry(trigger).or_default().push(Expr::Sequence(parts));
        }
    }
    let triggers = tags.into_iter().map(|(trigger, ways)| (trigger, Expr::Alternatives(ways))).collect();
    Ends { triggers, elsewhere: vec![Expr::empty()] }
}

fn content(
    builder: &mut Builder<'_>,
    index: usize,
    content: &TagContent,
    schemas: Schemas<'_>,
    limits: &Limits,
) -> Result<Expr, GrammarError> {
    let add = |builder: &mut Builder<'_>| match content {
        TagContent::JsonSchema(schema) => builder.schema(format!("tag-{index}-json"), schema),
        TagContent::Gbnf(source) => {
            builder.include(&format!("tag-{index}"), gbnf::parse(source, schemas, limits)?)
        }
        TagContent::Regex(pattern) => {
            builder.include(&format!("tag-{index}"), regex::parse(pattern, limits, schemas.ledger)?)
        }
    };
    add(builder).map_err(|error| {
        let place = format!("tags[{index}].content");
        Kind::Tags { place, problem: TagProblem::Content { error: Box::new(error) } }.into()
    })
}
