//! JSON Schema to a program for the JSON machine.
//!
//! Three steps. *Reading*: each subschema that is reached becomes an [`Atom`](atom::Atom), its keywords checked, its
//! subschemas by reference. *Conjunction*: one place in a value is subject to a set of atoms at once, through `$ref`,
//! `allOf` and the branch of `anyOf` taken, so the program's nodes are sets of atoms; merging their keywords gives sets
//! for the items and members, and since there are finitely many sets, recursion closes by itself. *Solving*: a least
//! fixpoint finds the shortest value of each node, or that there is none, and what nothing satisfies is cut out.
//!
//! The negation of an atom is an atom, too ([`negate`]), so `not`, `if` and `oneOf` need nothing of their own. `oneOf` is
//! read as `anyOf` first, with a conjunction of each pair of branches beside it ([`one_of`]). Where the fixpoint finds a
//! value of both, the graph is built again, and these two keep each other out for the types of such values.
//!
//! Choices at one place would multiply. A choice that is made by what holds already is dropped ([`choose`]), and choices
//! about members of their own become groups ([`groups`]), of which an object holds one alternative each.
//!
//! Every step draws on the [ledger](crate::ledger) of the compilation. A schema without values is refused at its innermost
//! place, with the keywords that clash ([`blame`]).
//!
//! What strings must be is a regular language ([`text`], [`format`](mod@format)), and so is what tells undeclared names
//! apart.
//!
//! # What is refused
//! A keyword that cannot be enforced is refused if values of the types it speaks about can occur at its place:
//! the negation of `uniqueItems` beside `contains`, or where the last two items differ in their subschemas. So is
//! `minProperties` where the shortest names that make it up are longer than 4,096 bytes; and
//! `uniqueItems` with more than 64 required items, or beside `contains` that asks for several items where counts
//! depend on the place of an item, on each other or on `maxContains`. At one place there are at most 32 counts of items
//! in 256 combinations, and four negations that ask for undeclared members. A pattern with back-references or with too
//! many states is refused, too. A maximum length or count of 2³² and more is no bound.
//!
//! # What is read as it is meant
//! Each of these comes with a warning. Without `$schema`, or with an unknown one, `items` may be an array as
//! in draft 7. In every draft, `exclusiveMinimum` and `exclusiveMaximum` may be booleans as in draft 4 or
//! numbers as in draft 6. In every draft, `nullable` beside `type` is that of `OpenAPI` 3.0, and `required:
//! true`, `divisibleBy` and the type `any` are those of draft 3. A JSON pointer that leads nowhere from the
//! nearest `$id` is followed from the document's root.
//!
//! # Numbers
//! Integers that fit 64 bits are exact. Other numbers of a schema have come through a double, and stand for
//! its shortest decimal: the one that JSON tools print, such as 9223372036854776000 for `2^63`.

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

use crate::Warning;
use crate::error::{GrammarError, Kind, SchemaProblem};
use crate::ir::json::JsonProgram;
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::options::SchemaOptions;

/// A schema as a program.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) program: Arc<JsonProgram>,
    /// In the order met.
    pub(crate) warnings: Vec<Warning>,
}

/// The options and documents for the schemas of one grammar.
#[derive(Clone, Copy)]
pub(crate) struct Schemas<'a> {
    pub(crate) options: SchemaOptions,
    /// The documents that they may refer to.
    pub(crate) remotes: &'a Remotes,
    /// Charged with what they take.
    pub(crate) ledger: &'a Rc<Ledger>,
}

#[cfg(test)]
static NO_REMOTES: Remotes = Remotes::new();

impl Schemas<'_> {
    /// Schemas that refer to no other documents, under the default limits.
    #[cfg(test)]
    pub(crate) fn alone(options: SchemaOptions) -> Self {
        let ledger = Box::leak(Box::new(Ledger::new(&Limits::default())));
        Self { options, remotes: &NO_REMOTES, ledger }
    }

    pub(crate) fn compile(self, schema: &Value, limits: &Limits) -> Result<Compiled, GrammarError> {
        let compiled = compile_with(schema, self.remotes, self.options, limits, self.ledger);
        compiled.map_err(|error| error.at(""))
    }
}

/// Compiles a schema by itself.
#[cfg(test)]
pub(crate) fn compile(
    schema: &Value,
    remotes: &Remotes,
    options: SchemaOptions,
    limits: &Limits,
) -> Result<Compiled, GrammarError> {
    compile_with(schema, remotes, options, limits, &Ledger::new(limits))
}

/// Compiles a schema of drafts 4 to 2020-12; without `$schema` it is read as 2020-12. It draws on the ledger of the
/// compilation that it is a part of.
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
            // They are only warnings: a schema that is near its limits goes without them.
            if let Ok(mut document) = document() {
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
            // A schema that is `false` has no keywords to name: what asks for a value of it has.
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

/// The same without a search for what clashes.
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

/// A program, with what was noticed on the way.
struct Solution {
    program: JsonProgram,
    warnings: Vec<Warning>,
    /// Members and branches of which no value is ever written.
    dead: Vec<String>,
}

/// The program, or the subschemas of each place without any value, the innermost last.
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
            // Each time there are more, and there are finitely many pairs of branches and types.
            Solved::Overlapping(more) => {
                for (overlap, types) in more {
                    overlaps.add(overlap, types);
                }
            }
        }
    }
}

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

/// What is wrong, and where.
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

/// The pointer to a member of what `pointer` leads to (RFC 6901).
fn child_pointer(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}
