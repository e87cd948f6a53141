//! Arguments of calls in a [notation](super::notation).

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::notation::{self, Brackets, Nested, Notation};
use super::parts::{Composer, Part};
use super::pieces::Piece;
use crate::argument_types::{ArgumentTypes, ValueType, ValueTypes};
use crate::ir::expr::{EmbeddedSchema, Expr};
use crate::ir::json::JsonProgram;
use crate::ir::json::cost::Cost;
use crate::ir::json::program::{Node, NodeId};
use crate::machine::Machine;
use crate::machine::json::rules::notation::{Around, Level, MemberTexts, Strings, Written};
use crate::{GrammarError, Layout, Order, Profile, SchemaOptions};

impl Composer<'_> {
    /// Compiles rules for the objects of `schema` in a notation.
    pub(super) fn arguments(&mut self, schema: &Value, notation: &Notation) -> Result<Piece, GrammarError> {
        let mut schemas = self.schemas;
        schemas.options = SchemaOptions {
            profile: Profile::Generate,
            order: Order::Declared,
            layout: match schemas.options.layout {
                // The depth of a nested value would not be known.
                Layout::Pretty => Layout::Spaced,
                layout => layout,
            },
            ..schemas.options
        };
        let compiled = schemas.compile(schema, self.limits)?;
        let mut program = compiled.program;
        let mut levels = Vec::new();
        self.add_level(notation, &mut levels)?;
        let has_deep_text = levels.iter().skip(1).any(Level::has_raw_text);
        let types =
            if has_deep_text { ArgumentTypes::of_all_values(schema) } else { ArgumentTypes::of(schema) };
        let written = program.to_rules_in(&levels, &types, self.limits, schemas.ledger);
        // What rules cannot express, or only with too many states, may still be possible as JSON.
        let own = |error: GrammarError| match error.only_rules() {
            Some(reason) => GrammarError::notation(reason),
            None if error.is_limit() && !schemas.ledger.is_over() => {
                GrammarError::notation(error.to_string())
            }
            None => error,
        };
        let Written { mut rules, embedded, texts } = written.map_err(own)?;
        rules.texts = texts;
        let mut roots = FxHashMap::default();
        for part in &embedded {
            let key = (part.node, part.kinds);
            if let std::collections::hash_map::Entry::Vacant(entry) = roots.entry(key) {
                entry.insert(restricted(&mut program, part.node, part.kinds));
            }
        }
        for part in embedded {
            let root = roots[&(part.node, part.kinds)];
            let program = Arc::clone(&program);
            let schema = EmbeddedSchema { source: None, program, root, warnings: Vec::new() };
            rules.schemas.insert(part.rule, schema);
        }
        rules.tokens.clone_from(&self.builder.rules.tokens);
        rules.warnings.extend(compiled.warnings);
        Piece::new(rules, self.limits, schemas.ledger).map_err(own)
    }

    /// Appends the level of `notation` and the levels inside of it. Returns its index.
    pub(super) fn add_level(
        &mut self,
        notation: &Notation,
        levels: &mut Vec<Level>,
    ) -> Result<usize, GrammarError> {
        let index = levels.len();
        let object = self.brackets(&notation.object)?;
        let array = self.brackets(&notation.array)?;
        let name_open = self.part(&notation.name_open)?;
        let mut around = Vec::with_capacity(notation.around.len());
        for notation::Around { before, after } in &notation.around {
            let before = self.part(before)?;
            let (lead, after) = self.lead(after)?;
            around.push(MemberTexts { before, lead, after });
        }
        let around = <[MemberTexts; 6]>::try_from(around).ok();
        let around = around.ok_or_else(|| GrammarError::notation("it has no texts for some types"))?;
        let strings = match &notation.strings {
            notation::Strings::Raw { avoid, nested_open, section } => Strings::Raw {
                avoid: avoid.clone(),
                nested_open: nested_open.clone(),
                section: section.clone(),
            },
            notation::Strings::Quoted { open, close, avoid } => {
                Strings::Quoted { open: self.part(open)?, close: self.part(close)?, avoid: avoid.clone() }
            }
            notation::Strings::Json => Strings::Json,
            notation::Strings::Python => Strings::Python,
        };
        let notation::Literals { null, no, yes } = notation.literals.clone();
        let names = notation.names.clone();
        let literals = [null, no, yes];
        let name_close = notation.name_close.as_ref().map(|close| self.part(close)).transpose()?;
        let item_name = notation.item_name.clone();
        let json_objects = matches!(notation.nested, Nested::OtherArrays(_));
        levels.push(Level {
            object,
            array,
            name_open,
            name_close,
            item_name,
            around,
            strings,
            literals,
            nested: None,
            json_objects,
            names,
        });
        levels[index].nested = match &notation.nested {
            Nested::Json => None,
            Nested::Same => Some(index),
            Nested::Other(inner) | Nested::OtherArrays(inner) => Some(self.add_level(inner, levels)?),
        };
        Ok(index)
    }

    fn brackets(&mut self, brackets: &Brackets) -> Result<Around, GrammarError> {
        let Brackets { open, separator, close, empty } = brackets;
        Ok(Around {
            open: self.part(open)?,
            separator: self.part(separator)?,
            close: self.part(close)?,
            empty: self.part(empty)?,
        })
    }

    /// Splits the plain text at the start of a part from the rest.
    fn lead(&mut self, part: &Part) -> Result<(String, Expr), GrammarError> {
        match part {
            Part::Literal(text) => Ok((text.clone(), Expr::empty())),
            Part::Sequence(parts) => {
                let first = parts.first();
                if let Some(Part::Literal(text)) = first {
                    let rest = self.part(&Part::Sequence(parts[1..].to_vec()))?;
                    return Ok((text.clone(), rest));
                }
                Ok((String::new(), self.part(part)?))
            }
            other => Ok((String::new(), self.part(other)?)),
        }
    }
}

/// Returns a node of `program` whose values are those of `node` with a type in `kinds`, which are
/// arrays, objects or both.
fn restricted(program: &mut Arc<JsonProgram>, node: NodeId, kinds: ValueTypes) -> NodeId {
    let whole = &program.nodes[node as usize];
    let kept = |kind: ValueType, rules: &Vec<u32>| if kinds.has(kind) { rules.clone() } else { Vec::new() };
    let part = Node {
        arrays: kept(ValueType::Array, &whole.arrays),
        objects: kept(ValueType::Object, &whole.objects),
        // Any cost will do while the real one is computed.
        cost: Cost::new(2, b'['),
        ..Node::default()
    };
    let is_whole = !whole.null
        && whole.bools == [false; 2]
        && whole.number.is_none()
        && whole.texts.is_empty()
        && whole.words.is_none()
        && whole.languages.is_empty()
        && part.arrays.len() == whole.arrays.len()
        && part.objects.len() == whole.objects.len();
    if is_whole {
        return node;
    }
    let id = program.nodes.len() as NodeId;
    let Some(own) = Arc::get_mut(program) else { return node };
    own.nodes.push(part);
    let least = least_cost(program, id);
    if let Some(own) = Arc::get_mut(program) {
        own.nodes[id as usize].cost = least;
    }
    id
}

/// Returns the least cost of the arrays and objects of `node`.
fn least_cost(program: &Arc<JsonProgram>, node: NodeId) -> Cost {
    let mut machine = program.machine_of(node);
    let start = machine.start();
    let mut least = Cost::NONE;
    for bracket in [b'[', b'{'] {
        let opened = machine.step(start, bracket);
        if opened != crate::machine::Config::DEAD {
            least.or(&Cost::new(machine.closing_len(opened).saturating_add(1), bracket));
        }
    }
    least
}

#[cfg(test)]
pub(crate) mod tests;
