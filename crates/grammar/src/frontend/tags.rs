//! Structural tags: free text in which, once a trigger has come up, one of some tags follows.
//!
//! What may come next in free text depends on how much of a trigger it ends in, which is a state of the triggers'
//! [automaton](Triggers). Each state is a rule: a character leads to the rule of another state, or completes a trigger, whose
//! rule is the tags that begin with it.

mod triggers;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde_json::Value;
use triggers::{Next, Triggers};

use super::expr::{EmbeddedSchema, Expr, RuleId, Rules, complement};
use super::{gbnf, json_schema, regex};
use crate::error::{Kind, TagProblem};
use crate::machine::cfg::Program;
use crate::tokens::{TERMINALS, is_lead, spelling, spelt};
use crate::{GrammarError, Limits, Remotes, SchemaOptions};

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

/// The most characters of all triggers together, the most edges of their automaton, and the most tags.
const TRIGGERS: usize = 1 << 13;
const EDGES: usize = 1 << 17;
const TAGS: usize = 1 << 12;

pub(crate) fn parse(
    tags: &StructuralTags,
    options: SchemaOptions,
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
    let mut builder = Builder { rules: Rules::of(Expr::empty()), limits };
    let needs_text = !(tags.at_least_one && tags.stop_after_first);
    let text = if needs_text { Some(builder.states(&automaton)?) } else { None };
    let after = text.filter(|_| !tags.stop_after_first);
    let mut ways = Vec::with_capacity(tags.tags.len());
    for (index, tag) in tags.tags.iter().enumerate() {
        let content = builder.content(index, &tag.content, options)?;
        let mut parts = vec![content, Expr::Literal(tag.end.clone().into())];
        parts.extend(after.map(Expr::Rule));
        ways.push(builder.rule(format!("tag-{index}"), Expr::Sequence(parts)));
    }
    if let Some(text) = text {
        builder.text(text, &automaton, &begun, &ways);
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
    fn states(&mut self, automaton: &Triggers) -> Result<RuleId, GrammarError> {
        let first = RuleId(self.rules.exprs.len() as u32);
        let mut edges = 0;
        for state in 0..automaton.len() {
            // Complete triggers are not gone on from, here and below.
            edges += if automaton.is_complete(state) { 0 } else { automaton.edges(state).len() };
            if edges > EDGES {
                return Err(GrammarError::limit("edges between its triggers", edges, EDGES));
            }
            self.rule(format!("text-{state}"), Expr::empty());
        }
        Ok(first)
    }

    /// Free text: what the rules of the states say, and those of the triggers.
    fn text(&mut self, first: RuleId, automaton: &Triggers, begun: &[Begun], ways: &[RuleId]) {
        let mut tags: BTreeMap<usize, Vec<Expr>> = BTreeMap::new();
        for (begun, &way) in begun.iter().zip(ways) {
            for (&trigger, rest) in begun {
                let parts = vec![Expr::Literal(rest.clone()), Expr::Rule(way)];
                tags.entry(trigger).or_default().push(Expr::Sequence(parts));
            }
        }
        let rules = tags.into_iter().map(|(trigger, ways)| {
            (trigger, self.rule(format!("trigger-{trigger}"), Expr::Alternatives(ways)))
        });
        let triggers: FxHashMap<usize, RuleId> = rules.collect();
        let rule = |state: usize| Expr::Rule(RuleId(first.0 + state as u32));
        for state in (0..automaton.len()).filter(|&state| !automaton.is_complete(state)) {
            let mut ways = vec![Expr::empty()];
            let mut taken = Vec::new();
            for (c, next) in automaton.edges(state) {
                taken.push((c, c));
                let then = match next {
                    Next::State(next) => rule(next),
                    Next::Triggers(complete) => {
                        let known = complete.iter().filter_map(|trigger| triggers.get(trigger));
                        Expr::Alternatives(known.map(|&rule| Expr::Rule(rule)).collect())
                    }
                };
                ways.push(Expr::Sequence(vec![Expr::Class(vec![(c, c)]), then]));
            }
            ways.push(Expr::Sequence(vec![Expr::Class(complement(&taken)), rule(0)]));
            self.rules.exprs[first.index() + state] = Expr::Alternatives(ways);
        }
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
        // What matches nothing would take the trigger out of the text.
        Program::new(&rules, self.limits).map_err(within)?;
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
