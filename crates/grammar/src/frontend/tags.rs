//! Structural tags: free text in which, once a trigger has come up, one of some tags follows.
//!
//! What may come next in free text depends on how much of a trigger it ends in, which is a state of the triggers'
//! [automaton](Triggers). Each state is a rule: a character leads to the rule of another state, or completes a trigger, and
//! then the tags that begin with it are the ways on.

mod triggers;

use serde_json::Value;
use triggers::{Next, Triggers};

use super::expr::{EmbeddedSchema, Expr, RuleId, Rules, complement};
use super::{gbnf, json_schema, regex};
use crate::error::{Kind, TagProblem};
use crate::tokens::{TERMINALS, is_lead, spelling, spelt};
use crate::{GrammarError, Limits, Remotes, SchemaOptions};

/// Free text in which, wherever a trigger comes up, one of the tags follows that begin with it.
///
/// This is how models call tools in the midst of an answer. Text without a trigger is free; where one trigger contains
/// another, the inner one is what counts.
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
    /// Whether the output must have a tag.
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

/// The most characters of all triggers together.
const TRIGGERS: usize = 1024;

pub(crate) fn parse(
    tags: &StructuralTags,
    options: SchemaOptions,
    limits: &Limits,
) -> Result<Rules, GrammarError> {
    let characters: usize = tags.triggers.iter().map(|trigger| trigger.chars().count()).sum();
    if characters > TRIGGERS {
        return Err(GrammarError::limit("characters in its triggers", characters, TRIGGERS));
    }
    let automaton = Triggers::new(&tags.triggers);
    let begun = begun(tags, &automaton)?;
    let mut builder = Builder { rules: Rules::of(Expr::empty()), limits };
    // Before a tag, and after one. Without a difference it is the same.
    let after = if tags.stop_after_first { None } else { Some(builder.states("text", &automaton)) };
    let before = match after {
        Some(first) if !tags.at_least_one => first,
        _ => builder.states("before", &automaton),
    };
    let mut ways = Vec::with_capacity(tags.tags.len());
    for (index, tag) in tags.tags.iter().enumerate() {
        let content = builder.content(index, &tag.content, options)?;
        let mut parts = vec![content, Expr::Literal(tag.end.clone().into())];
        parts.extend(after.map(Expr::Rule));
        let name = format!("tag-{index}");
        ways.push(builder.rule(name, Expr::Sequence(parts)));
    }
    let mut phases = vec![(before, !tags.at_least_one)];
    phases.extend(after.filter(|&after| after != before).map(|after| (after, true)));
    for (first, may_end) in phases {
        for state in 0..automaton.len() {
            let mut ends = Vec::new();
            if may_end {
                ends.push(Expr::empty());
            }
            let expr = text(&automaton, state, first, ends, |trigger| {
                let tags = begun.iter().zip(&ways).filter(|(begun, _)| begun.contains_key(&trigger));
                let ways = tags.map(|(begun, &way)| {
                    Expr::Sequence(vec![Expr::Literal(begun[&trigger].clone()), Expr::Rule(way)])
                });
                ways.collect()
            });
            builder.rules.exprs[first.index() + state] = expr;
        }
    }
    builder.rules.exprs[0] = Expr::Rule(before);
    Ok(builder.rules)
}

/// What of a tag's beginning comes after a trigger, by the trigger.
type Begun = rustc_hash::FxHashMap<usize, Vec<u8>>;

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

/// Free text from a state of the triggers' automaton on.
fn text(
    automaton: &Triggers,
    state: usize,
    first: RuleId,
    mut ways: Vec<Expr>,
    tags: impl Fn(usize) -> Vec<Expr>,
) -> Expr {
    let rule = |state: usize| Expr::Rule(RuleId(first.0 + state as u32));
    let edges = automaton.edges(state);
    let mut taken = Vec::with_capacity(edges.len());
    for (c, next) in edges {
        taken.push((c, c));
        let then = match next {
            Next::State(next) => rule(next),
            Next::Triggers(triggers) => Expr::Alternatives(triggers.into_iter().flat_map(&tags).collect()),
        };
        ways.push(Expr::Sequence(vec![Expr::Class(vec![(c, c)]), then]));
    }
    ways.push(Expr::Sequence(vec![Expr::Class(complement(&taken)), rule(0)]));
    Expr::Alternatives(ways)
}

struct Builder<'a> {
    rules: Rules,
    limits: &'a Limits,
}

impl Builder<'_> {
    fn rule(&mut self, name: String, expr: Expr) -> RuleId {
        self.rules.exprs.push(expr);
        self.rules.names.push(name);
        RuleId(self.rules.exprs.len() as u32 - 1)
    }

    /// Rules for the states of the triggers' automaton, which say nothing yet; the first of them.
    fn states(&mut self, name: &str, automaton: &Triggers) -> RuleId {
        let first = RuleId(self.rules.exprs.len() as u32);
        for state in 0..automaton.len() {
            self.rule(format!("{name}-{state}"), Expr::empty());
        }
        first
    }

    fn content(
        &mut self,
        index: usize,
        content: &TagContent,
        options: SchemaOptions,
    ) -> Result<Expr, GrammarError> {
        let within = |error: GrammarError| {
            let place = format!("tags[{index}].content");
            GrammarError::from(Kind::Tags { place, problem: TagProblem::Content { error: Box::new(error) } })
        };
        let rules = match content {
            TagContent::JsonSchema(schema) => {
                let compiled =
                    json_schema::compile(schema, &Remotes::new(), options, self.limits).map_err(within)?;
                let (source, program) = (schema.to_string(), compiled.program);
                let rule = self.rule(format!("tag-{index}-json"), Expr::empty());
                let schema = EmbeddedSchema { source, program, warnings: compiled.warnings };
                self.rules.schemas.insert(rule, schema);
                return Ok(Expr::Rule(rule));
            }
            TagContent::Gbnf(source) => gbnf::parse(source, options, self.limits).map_err(within)?,
            TagContent::Regex(pattern) => regex::parse(pattern, self.limits).map_err(within)?,
        };
        self.include(&format!("tag-{index}"), rules).map(Expr::Rule)
    }

    /// Adds the rules of another grammar; gives its root.
    fn include(&mut self, prefix: &str, other: Rules) -> Result<RuleId, GrammarError> {
        let offset = self.rules.exprs.len() as u32;
        let mut terminals = Vec::with_capacity(other.tokens.len());
        for terminal in other.tokens {
            let known = self.rules.tokens.iter().position(|known| *known == terminal);
            let index = known.unwrap_or(self.rules.tokens.len());
            if index == TERMINALS {
                return Err(GrammarError::limit("token terminals", index + 1, TERMINALS));
            }
            if known.is_none() {
                self.rules.tokens.push(terminal);
            }
            terminals.push(index);
        }
        for (expr, name) in other.exprs.into_iter().zip(other.names) {
            let expr = moved(expr, offset, &terminals);
            self.rule(format!("{prefix}-{name}"), expr);
        }
        for (rule, schema) in other.schemas {
            self.rules.schemas.insert(RuleId(rule.0 + offset), schema);
        }
        Ok(RuleId(other.root.0 + offset))
    }
}

/// An expression in a grammar whose rules and token terminals have other numbers. Depth is bounded by the front ends.
fn moved(expr: Expr, offset: u32, terminals: &[usize]) -> Expr {
    let all = |parts: Vec<Expr>| parts.into_iter().map(|part| moved(part, offset, terminals)).collect();
    match expr {
        Expr::Rule(rule) => Expr::Rule(RuleId(rule.0 + offset)),
        Expr::Sequence(parts) => Expr::Sequence(all(parts)),
        Expr::Alternatives(parts) => Expr::Alternatives(all(parts)),
        Expr::Repeat { expr, min, max } => {
            Expr::Repeat { expr: Box::new(moved(*expr, offset, terminals)), min, max }
        }
        Expr::Literal(bytes) => Expr::Literal(with_terminals(&bytes, terminals)),
        Expr::Class(_) | Expr::Bytes(_) => expr,
    }
}

/// A literal with the spellings of other token terminals.
fn with_terminals(bytes: &[u8], terminals: &[usize]) -> Vec<u8> {
    let mut moved = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        let terminal = after.first().filter(|_| is_lead(byte)).and_then(|&second| spelt([byte, second]));
        rest = after;
        if let Some(&index) = terminal.and_then(|index| terminals.get(index)) {
            moved.extend(spelling(index));
            rest = &after[1..];
        } else {
            moved.push(byte);
        }
    }
    moved
}
