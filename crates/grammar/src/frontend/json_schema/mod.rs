//! Compiles a JSON Schema into a program for the JSON machine.
//!
//! Compilation has three steps:
//! - *Reading*: each reachable subschema becomes an [`Atom`](atom::Atom). An atom holds the checked
//!   keywords of the subschema and the ids of nested subschemas.
//! - *Conjunction*: several atoms can apply to the same value, through `$ref`, `allOf` and the
//!   chosen branch of `anyOf`. So each node of the program stands for a set of atoms. Merging the
//!   keywords of these atoms gives, for each item and member, the set of atoms that applies. The
//!   number of sets is finite, so recursive schemas terminate.
//! - *Solving*: a least fixpoint finds the shortest value of each node, or finds that there is
//!   none. Unsatisfiable parts are removed.
//!
//! The negation of an atom is an atom too ([`negate`]), so `not`, `if` and `oneOf` need no
//! machinery of their own. `oneOf` is first read as `anyOf`, plus a conjunction for each pair of
//! branches ([`one_of`]). If the fixpoint finds a value of such a pair, the graph is built again.
//! The two branches then exclude each other for the types of the shared values.
//!
//! The alternatives of several choices about one value multiply. A choice that is already decided
//! is dropped ([`choose`]). Independent choices about members become groups ([`groups`]), and an
//! object satisfies one alternative of each group.
//!
//! Every step charges the [ledger](crate::ledger) of the compilation. A schema without values is
//! rejected with the innermost subschema that no value satisfies, and with the keywords that clash
//! there ([`blame`]).
//!
//! Constraints on strings are regular languages ([`text`], [`format`](mod@format)). Regular
//! languages also classify the undeclared names of an object.
//!
//! The *place* of a subschema or keyword is its location in the schema document: a JSON pointer,
//! with a URI in front if the document is not the main one ([`Document`](document::Document)).
//!
//! # Unsupported schemas
//! A schema is rejected if a keyword cannot be enforced, and if values of the constrained types can
//! occur at the place of the keyword. These cases are unsupported:
//! - the negation of `uniqueItems` next to `contains`;
//! - the negation of `uniqueItems` if items may be arrays or objects, or if the last two items have
//!   different subschemas;
//! - `minProperties` that requires more than 1,024 undeclared members, or undeclared names longer
//!   than 4,096 bytes;
//! - `uniqueItems` with more than 64 required items;
//! - `uniqueItems` next to a `contains` that requires several items, if the counts depend on the
//!   index of an item, on each other or on `maxContains`;
//! - more than 32 `contains` conditions for one array, more than 256 combinations of conditions for
//!   one item, or a count above 4,096;
//! - more than four negations that require undeclared members of one object;
//! - a pattern with back-references or with too many states.
//!
//! A maximum length or count of 2³² − 1 or more is treated as unlimited. A minimum of that size is
//! rejected.
//!
//! # Lenient readings
//! Each of these readings comes with a warning:
//! - Without `$schema`, or with an unknown one, `items` may be an array as in draft 7.
//! - In every draft, `exclusiveMinimum` and `exclusiveMaximum` may be booleans as in draft 4 or
//!   numbers as in draft 6.
//! - In every draft, `nullable` next to `type` has the meaning of `OpenAPI` 3.0.
//! - In every draft, `required: true`, `divisibleBy` and the type `any` have the meaning of draft 3.
//! - A JSON pointer that leads nowhere from the nearest `$id` is resolved from the root of the document.
//!
//! # Numbers
//! Integers that fit into 64 bits are exact. All other numbers of a schema are parsed as doubles. A
//! double stands for the shortest decimal that reads back as the same double, which JSON tools
//! print. For example, `9223372036854775807.0` stands for 9223372036854776000.

mod array;
mod atom;
mod blame;
mod build;
mod choose;
mod conjoin;
mod containers;
mod contradiction;
mod dialect;
mod document;
mod format;
mod groups;
mod logic;
mod metaschema;
mod negate;
mod object;
mod obligations;
mod one_of;
mod read;
mod scalar;
mod solve;
mod text;
mod types;
mod unevaluated;
mod uri;

use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

use solve::Solved;

pub use document::Remotes;

use super::part_cache::PartCache;
use crate::Warning;
use crate::error::{GrammarError, Kind, SchemaProblem};
use crate::ir::json::JsonProgram;
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::options::SchemaOptions;

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) program: Arc<JsonProgram>,
    /// Warnings in the order in which they were found.
    pub(crate) warnings: Vec<Warning>,
}

/// The options, remote documents and ledger for all schemas of one grammar.
#[derive(Clone, Copy)]
pub(crate) struct Schemas<'a> {
    pub(crate) options: SchemaOptions,
    /// The documents that references in the schemas may reach.
    pub(crate) remotes: &'a Remotes,
    /// The ledger that compilation charges.
    pub(crate) ledger: &'a Rc<Ledger>,
    /// Compiled schemas of earlier grammars.
    pub(crate) cache: Option<&'a PartCache>,
}

#[cfg(test)]
static NO_REMOTES: Remotes = Remotes::new();

impl Schemas<'_> {
    /// Creates a context for schemas without remote documents. Its ledger has the default limits.
    #[cfg(test)]
    pub(crate) fn alone(options: SchemaOptions) -> Self {
        let ledger = Box::leak(Box::new(Ledger::new(&Limits::default())));
        Self { options, remotes: &NO_REMOTES, ledger, cache: None }
    }

    /// Compiles one schema. An error about a limit without a place names the root of the schema.
    pub(crate) fn compile(self, schema: &Value, limits: &Limits) -> Result<Compiled, GrammarError> {
        let compiled = compile_with(schema, self.remotes, self.options, limits, self.ledger);
        compiled.map_err(|error| error.at(""))
    }
}

/// Compiles a schema with a ledger of its own.
#[cfg(test)]
pub(crate) fn compile(
    schema: &Value,
    remotes: &Remotes,
    options: SchemaOptions,
    limits: &Limits,
) -> Result<Compiled, GrammarError> {
    compile_with(schema, remotes, options, limits, &Ledger::new(limits))
}

/// Compiles a schema of drafts 4 to 2020-12. A schema without `$schema` is read as 2020-12.
///
/// # Errors
/// Returns an error if the schema is malformed or unsupported, or if a limit is exceeded. If no
/// value satisfies the schema, the error names the keywords that clash.
fn compile_with(
    schema: &Value,
    remotes: &Remotes,
    options: SchemaOptions,
    limits: &Limits,
    ledger: &Rc<Ledger>,
) -> Result<Compiled, GrammarError> {
    let document = || document::Document::new(schema, remotes, limits.nesting, ledger);
    match solve(schema, remotes, options, limits, ledger)? {
        Ok(mut solution) => {
            // Subschemas without values only cause warnings. If a schema is close to its limits, it
            // is compiled without these warnings.
            if !solution.dead.is_empty()
                && let Ok(mut document) = document()
            {
                for place in &solution.dead {
                    if document.get(place) == Some(&Value::Bool(false)) {
                        continue;
                    }
                    let keywords = blame::clash(&mut document, std::slice::from_ref(place), options);
                    let keywords = keywords.into_iter().map(|(_, keyword)| keyword).collect();
                    solution.warnings.push(Warning::NeverWritten { pointer: place.clone(), keywords });
                }
            }
            Ok(Compiled { program: Arc::new(solution.program), warnings: solution.warnings })
        }
        Err(mut to_blame) => {
            let mut document = document()?;
            // A `false` schema has no keywords to name, so blame the place that requires a value of it.
            let is_false = |place: &String| document.get(place) == Some(&Value::Bool(false));
            while to_blame.len() > 1 && to_blame.last().is_some_and(|places| places.iter().any(is_false)) {
                to_blame.pop();
            }
            let places = to_blame.pop().unwrap_or_default();
            let clash = blame::clash(&mut document, &places, options);
            Err(unsatisfiable(&places, &clash).into())
        }
    }
}

/// Compiles like [`compile_with`], but with a ledger of its own and without a search for clashing keywords.
fn compile_plainly(
    schema: &Value,
    remotes: &Remotes,
    options: SchemaOptions,
    limits: &Limits,
) -> Result<Compiled, GrammarError> {
    match solve(schema, remotes, options, limits, &Ledger::new(limits))? {
        Ok(Solution { program, warnings, .. }) => Ok(Compiled { program: Arc::new(program), warnings }),
        Err(to_blame) => Err(unsatisfiable(to_blame.last().map_or(&[][..], Vec::as_slice), &[]).into()),
    }
}

/// A program and the findings of its compilation.
struct Solution {
    program: JsonProgram,
    warnings: Vec<Warning>,
    /// Places of the subschemas of members and branches that no value can have.
    dead: Vec<String>,
}

/// Builds and solves the graph of `schema`. If no value satisfies the schema, the inner error is
/// the chain of unsatisfiable nodes from the root to the innermost cause, which is last. It holds
/// the places of each node's subschemas.
fn solve(
    schema: &Value,
    remotes: &Remotes,
    options: SchemaOptions,
    limits: &Limits,
    ledger: &Rc<Ledger>,
) -> Result<Result<Solution, Vec<Vec<String>>>, GrammarError> {
    let mut overlaps = build::Overlaps::default();
    let held = ledger.held();
    loop {
        ledger.release_to(held);
        let document = document::Document::new(schema, remotes, limits.nesting, ledger)?;
        let mut builder = build::Builder::new(document, options, limits, ledger, overlaps.clone());
        let root = builder.build()?;
        let (draft, strings, warnings) = builder.finish();
        match solve::solve(draft, strings, root, options, (limits, ledger))? {
            Solved::Program(program, dead) => return Ok(Ok(Solution { program: *program, warnings, dead })),
            Solved::Unsatisfiable(to_blame) => return Ok(Err(to_blame)),
            // Each round adds overlaps. The pairs of branches and types are finite, so the loop ends.
            Solved::Overlapping(more) => {
                for (overlap, types) in more {
                    overlaps.add(overlap, types);
                }
            }
        }
    }
}

/// Returns the error for subschemas at `places` that no value satisfies together. `clash` lists the
/// clashing keywords, each with the place of its subschema, or is empty if they are unknown.
fn unsatisfiable(places: &[String], clash: &[(String, String)]) -> Problem {
    let place = places.first().map_or("", String::as_str);
    let Some(((first, keyword), others)) = clash.split_first() else {
        return Problem::new(place, "schema", SchemaProblem::Unsatisfiable);
    };
    if others.is_empty() {
        return Problem::new(first, keyword, SchemaProblem::Unsatisfiable);
    }
    let named = others.iter().map(|(other, keyword)| {
        let place = if other == first { String::new() } else { format!(" at #{other}") };
        format!("`{keyword}`{place}")
    });
    let others = named.collect::<Vec<_>>().join(" and ");
    Problem::new(first, keyword, SchemaProblem::Clash { others })
}

/// An error of the schema front end, with its place. Converts to [`GrammarError`].
#[derive(Debug)]
struct Problem(Kind);

impl Problem {
    fn new(pointer: &str, keyword: &str, problem: SchemaProblem) -> Self {
        Self(Kind::Schema { pointer: pointer.to_owned(), keyword: keyword.to_owned(), problem })
    }
}

impl From<GrammarError> for Problem {
    fn from(error: GrammarError) -> Self {
        Self(error.into_kind())
    }
}

impl From<Problem> for GrammarError {
    fn from(problem: Problem) -> Self {
        problem.0.into()
    }
}

/// Returns the JSON pointer to the member `key` of the value at `pointer` (RFC 6901).
fn child_pointer(pointer: &str, key: &str) -> String {
    let mut child = String::with_capacity(pointer.len() + 1 + key.len());
    child.push_str(pointer);
    child.push('/');
    for c in key.chars() {
        match c {
            '~' => child.push_str("~0"),
            '/' => child.push_str("~1"),
            c => child.push(c),
        }
    }
    child
}
