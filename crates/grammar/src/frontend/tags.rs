//! Structural tags: free text in which one of several tags must follow each trigger.
//!
//! The possible continuations of free text depend on the longest prefix of a trigger that the text
//! ends with. Each such prefix is a state of the trigger [automaton](Triggers) and becomes a rule.
//! A character leads to the rule of another state or completes a trigger. After a trigger, the rest
//! of a tag that begins with the trigger follows.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::builder::Ends;
use super::json_schema::Schemas;
use super::parts::{Composer, Part};
use super::pieces::Composed;
use super::schema::Schema;
use super::triggers::Triggers;
use crate::error::{Kind, TagProblem};
use crate::ir::expr::{Expr, RuleId};
use crate::{GrammarError, Limits};

/// Free text in which a tag must follow each trigger.
///
/// Models call tools this way in the middle of an answer. Text without a trigger is unconstrained.
/// If a trigger contains another one that is complete earlier, only the inner trigger fires. If
/// several triggers end at the same place, only the longest one fires. The end of a tag never counts
/// as the beginning of a trigger.
///
/// ```
/// use formwork_grammar::{Grammar, Limits, SchemaOptions, StructuralTag, StructuralTags, TagContent};
/// let tags = StructuralTags {
///     triggers: vec!["<tool=".to_owned()],
///     tags: vec![StructuralTag {
///         begin: "<tool=add>".to_owned(),
///         content: TagContent::JsonSchema(serde_json::json!({ "type": "integer" }).into()),
///         end: "</tool>".to_owned(),
///     }],
///     excludes: Vec::new(),
///     at_least_one: false,
///     stop_after_first: false,
/// };
/// let grammar = Grammar::structural_tags(&tags, &SchemaOptions::default(), &Limits::default())?;
/// assert!(grammar.accepts(b"a < b, so <tool=add>4</tool> and <tool=add>5</tool>."));
/// assert!(!grammar.accepts(b"a <tool=sub>4</tool>"));
/// # Ok::<(), formwork_grammar::GrammarError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StructuralTags {
    /// Texts that announce a tag. After a trigger, the output must continue as a tag that begins
    /// with this trigger. No trigger may be empty.
    pub triggers: Vec<String>,
    /// The tags. Each tag must begin with a trigger, and each trigger needs a tag that begins with it.
    pub tags: Vec<StructuralTag>,
    /// Texts that the free text must not contain, in addition to the triggers. An excluded text
    /// counts even at the end of a trigger, but not inside a tag.
    pub excludes: Vec<String>,
    /// True if the output starts with a tag, so it holds at least one tag and no text before it.
    pub at_least_one: bool,
    /// True if the output ends with the first tag.
    pub stop_after_first: bool,
}

/// A tag of [`StructuralTags`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StructuralTag {
    /// Text at the start of the tag. It includes the trigger.
    pub begin: String,
    /// Content between `begin` and `end`.
    pub content: TagContent,
    /// Text at the end of the tag.
    pub end: String,
}

/// Content of a [`StructuralTag`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum TagContent {
    /// JSON text that the given JSON Schema accepts.
    JsonSchema(Schema),
    /// Text that the given GBNF grammar matches.
    Gbnf(String),
    /// Text that the given regular expression matches as a whole.
    Regex(String),
    /// Text that the given part describes.
    Part(Box<Part>),
}

/// Maximum number of characters in all triggers and excluded texts together.
const TRIGGERS: usize = 1 << 13;
/// Maximum number of tags.
const TAGS: usize = 1 << 12;

pub(crate) fn parse(
    tags: &StructuralTags,
    schemas: Schemas<'_>,
    limits: &Limits,
) -> Result<Composed, GrammarError> {
    let mut composer = Composer::new(schemas, limits);
    let root = composer.tags(tags)?;
    Ok(composer.finish(root))
}

impl Composer<'_> {
    /// Returns an expression for free text with tags.
    pub(super) fn tags(&mut self, tags: &StructuralTags) -> Result<Expr, GrammarError> {
        let texts = tags.triggers.iter().chain(&tags.excludes);
        let characters = texts.clone().map(|text| text.chars().count()).sum();
        for (what, given, limit) in
            [("characters in its triggers", characters, TRIGGERS), ("tags", tags.tags.len(), TAGS)]
        {
            if given > limit {
                return Err(GrammarError::limit(what, given, limit));
            }
        }
        let begun = begun(tags)?;
        let automaton = Triggers::with_excluded(&tags.triggers, &tags.excludes);
        let needs_text = !(tags.at_least_one && tags.stop_after_first);
        let text = if needs_text { Some(self.states(&automaton)?) } else { None };
        let after = text.filter(|_| !tags.stop_after_first);
        let mut ways = Vec::with_capacity(tags.tags.len());
        for (index, tag) in tags.tags.iter().enumerate() {
            let mut parts = vec![self.content(index, &tag.content)?, Expr::Literal(tag.end.clone().into())];
            parts.extend(after.map(Expr::Rule));
            ways.push(self.builder.rule(format!("tag-{index}"), Expr::Sequence(parts)));
        }
        if let Some(text) = text {
            self.builder.text(text, &automaton, ends(&begun, &ways));
        }
        let begins = tags.tags.iter().map(|tag| Expr::Literal(tag.begin.clone().into()));
        let whole = begins.zip(&ways).map(|(begin, &way)| Expr::Sequence(vec![begin, Expr::Rule(way)]));
        let first_text = text.filter(|_| !tags.at_least_one).map(Expr::Rule);
        Ok(first_text.unwrap_or_else(|| Expr::Alternatives(whole.collect())))
    }

    /// Returns an expression for the content of the tag with the given index.
    fn content(&mut self, index: usize, content: &TagContent) -> Result<Expr, GrammarError> {
        let expr = match content {
            TagContent::JsonSchema(schema) => self.part(&Part::Json(schema.clone())),
            TagContent::Gbnf(source) => self.part(&Part::Gbnf(source.clone())),
            TagContent::Regex(pattern) => self.part(&Part::Regex(pattern.clone())),
            TagContent::Part(part) => self.part(part),
        };
        expr.map_err(|error| {
            let place = format!("tags[{index}].content");
            Kind::Tags { place, problem: TagProblem::Content { error: Box::new(error) } }.into()
        })
    }
}

/// The triggers that one tag begins with. Maps the index of a trigger to the rest of the tag's
/// `begin` after the trigger.
type Begun = FxHashMap<usize, Vec<u8>>;

/// Returns, for each tag, the triggers that the tag begins with and that can fire.
///
/// # Errors
/// Returns an error in each of these cases:
/// - There are no triggers or no tags, or a trigger or an excluded text is empty.
/// - A tag does not begin with a trigger that can fire.
/// - A trigger can fire, but no tag begins with it.
fn begun(tags: &StructuralTags) -> Result<Vec<Begun>, GrammarError> {
    let problem = |place: String, problem| Err(GrammarError::from(Kind::Tags { place, problem }));
    if tags.triggers.is_empty() {
        return problem("triggers".to_owned(), TagProblem::Empty);
    }
    if tags.tags.is_empty() {
        return problem("tags".to_owned(), TagProblem::Empty);
    }
    for (name, texts) in [("triggers", &tags.triggers), ("excludes", &tags.excludes)] {
        if let Some(at) = texts.iter().position(String::is_empty) {
            return problem(format!("{name}[{at}]"), TagProblem::Empty);
        }
    }
    let automaton = Triggers::new(&tags.triggers);
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

/// Returns the expressions that may follow the free text. The text may end at any point. After a
/// trigger, one of the tags that begin with the trigger must follow: the rest of its `begin`
/// according to `begun`, and its rule in `ways`.
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

#[cfg(test)]
mod tests;
