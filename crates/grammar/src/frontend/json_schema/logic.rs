//! References, `allOf`, `anyOf`, `oneOf`, and the negations that can be said with other keywords.

use serde_json::{Map, Value};

use super::atom::{Atom, AtomId, Choice, Types};
use super::read::{Atoms, Keyword};
use super::{Problem, child_pointer};
use crate::error::SchemaProblem;

impl Atoms<'_> {
    pub(super) fn read_logic(
        &mut self,
        atom: &mut Atom,
        keyword: &Keyword<'_>,
        schema: &str,
    ) -> Result<(), Problem> {
        match keyword.name {
            "$ref" => {
                let target = keyword.value.as_str().ok_or_else(|| keyword.malformed("a URI reference"))?;
                let place =
                    self.document.follow(schema, target).map_err(|problem| keyword.problem(problem))?;
                atom.all.push(self.at(&place));
            }
            "allOf" => {
                let members = self.branches(keyword)?;
                // The order of declaration: those of `allOf` before those of `$ref`.
                atom.all.splice(0..0, members);
            }
            "anyOf" => atom.any.push(Choice { branches: self.branches(keyword)?, exclusive: None }),
            "oneOf" => {
                let branches = self.branches(keyword)?;
                atom.any.push(Choice { branches, exclusive: Some(keyword.pointer.clone()) });
            }
            "not" => match self.negation(keyword.value) {
                Some(branches) => atom.any.push(Choice { branches, exclusive: None }),
                None => atom.refusals.push(keyword.refusal(Types::ALL, SchemaProblem::Unsupported)),
            },
            "if" => self.read_if(atom, keyword, schema),
            _ => atom.refusals.push(keyword.refusal(Types::ALL, SchemaProblem::Unsupported)),
        }
        Ok(())
    }

    fn branches(&mut self, keyword: &Keyword<'_>) -> Result<Vec<AtomId>, Problem> {
        let schemas = keyword.value.as_array().filter(|schemas| !schemas.is_empty());
        let schemas = schemas.ok_or_else(|| keyword.malformed("an array of schemas that is not empty"))?;
        Ok((0..schemas.len()).map(|at| self.at(&format!("{}/{at}", keyword.pointer))).collect())
    }

    /// `if` with `then` holds together, or the negation of `if` with `else`.
    fn read_if(&mut self, atom: &mut Atom, keyword: &Keyword<'_>, schema: &str) {
        let branch = |name| keyword.siblings.contains_key(name).then(|| child_pointer(schema, name));
        let (then, otherwise) = (branch("then"), branch("else"));
        if then.is_none() && otherwise.is_none() {
            return;
        }
        let Some(negations) = self.negation(keyword.value) else {
            atom.refusals.push(keyword.refusal(Types::ALL, SchemaProblem::Unsupported));
            return;
        };
        let holds = self.at(&keyword.pointer);
        let mut branches = Vec::new();
        let mut both = |atoms: &mut Self, condition: AtomId, consequence: Option<&String>| {
            let mut all = vec![condition];
            all.extend(consequence.map(|place| atoms.at(place)));
            branches.push(atoms.add(Atom { all, ..Atom::any() }));
        };
        both(self, holds, then.as_ref());
        for negation in negations {
            both(self, negation, otherwise.as_ref());
        }
        atom.any.push(Choice { branches, exclusive: None });
    }

    /// Branches of which one holds exactly where `schema` does not, if it is simple enough for that.
    fn negation(&mut self, schema: &Value) -> Option<Vec<AtomId>> {
        let map = match schema {
            Value::Bool(true) => return Some(vec![self.add(Atom::of(Types::NONE))]),
            Value::Bool(false) => return Some(vec![self.add(Atom::any())]),
            Value::Object(map) => map,
            _ => return None,
        };
        if let [(name, Value::Array(schemas))] = &asserting(map)[..]
            && *name == "anyOf"
        {
            return self.none_of(schemas);
        }
        let mut branches = Vec::new();
        for (name, value) in asserting(map) {
            match name {
                "type" => branches.push(self.other_types(value)?),
                "required" => {
                    for name in value.as_array()? {
                        let absent = self.absent(name.as_str()?);
                        branches.push(self.add(Atom { all: vec![absent], ..Atom::of(Types::OBJECT) }));
                    }
                }
                _ => return None,
            }
        }
        if branches.is_empty() {
            branches.push(self.add(Atom::of(Types::NONE)));
        }
        Some(branches)
    }

    /// All of several negations together.
    fn none_of(&mut self, schemas: &[Value]) -> Option<Vec<AtomId>> {
        let mut any = Vec::new();
        for schema in schemas {
            any.push(Choice { branches: self.negation(schema)?, exclusive: None });
        }
        Some(vec![self.add(Atom { any, ..Atom::any() })])
    }

    fn other_types(&mut self, value: &Value) -> Option<AtomId> {
        let names = match value {
            Value::Array(names) => names.as_slice(),
            name => std::slice::from_ref(name),
        };
        let mut types = Types::ALL;
        for name in names {
            types = types.without(match name.as_str()? {
                "null" => Types::NULL,
                "boolean" => Types::BOOL,
                "number" => Types::NUMBER,
                "string" => Types::STRING,
                "array" => Types::ARRAY,
                "object" => Types::OBJECT,
                _ => return None, // numbers that are no integers cannot be told by the other keywords
            });
        }
        Some(self.add(Atom::of(types)))
    }
}

/// The keywords of a subschema that are not mere annotations.
fn asserting(map: &Map<String, Value>) -> Vec<(&str, &Value)> {
    let annotation =
        |name: &str| matches!(name, "title" | "description" | "$comment" | "default" | "examples");
    map.iter().map(|(name, value)| (name.as_str(), value)).filter(|(name, _)| !annotation(name)).collect()
}
