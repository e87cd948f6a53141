//! Reads `$ref`, `allOf`, `anyOf`, `oneOf`, `not` and `if`, and the related keywords of other
//! drafts.

use super::atom::{Atom, AtomId, Choice, ChoiceKind};
use super::read::{Atoms, Keyword};
use super::{Problem, child_pointer};

impl Atoms<'_> {
    pub(super) fn read_logic(
        &mut self,
        atom: &mut Atom,
        keyword: &Keyword<'_>,
        schema: &str,
    ) -> Result<(), Problem> {
        match keyword.name {
            "$ref" => {
                let place = self.document.follow(schema, keyword)?;
                atom.all.push(self.at(&place));
            }
            "extends" if keyword.value.is_object() => atom.all.push(self.at(&keyword.pointer)),
            "extends" => atom.all.extend(self.branches(keyword)?),
            "$dynamicRef" | "$recursiveRef" => atom.all.push(self.at_dynamic(schema, keyword)?),
            "allOf" => {
                let members = self.branches(keyword)?;
                // Declaration order: the members of `allOf` come before those of `$ref`.
                atom.all.splice(0..0, members);
            }
            "anyOf" => {
                atom.any.push(Choice { branches: self.branches(keyword)?.into(), kind: ChoiceKind::Each });
            }
            "oneOf" => {
                let branches = self.branches(keyword)?;
                atom.any.push(Choice {
                    branches: branches.into(),
                    kind: ChoiceKind::One(keyword.pointer.as_str().into()),
                });
            }
            "not" => {
                let negated = self.at(&keyword.pointer);
                atom.all.push(self.negate(negated));
            }
            _ => self.read_if(atom, keyword, schema),
        }
        Ok(())
    }

    /// Returns the atoms of the subschemas in the keyword's array.
    fn branches(&mut self, keyword: &Keyword<'_>) -> Result<Vec<AtomId>, Problem> {
        let schemas = keyword.value.as_array().filter(|schemas| !schemas.is_empty());
        let schemas = schemas.ok_or_else(|| keyword.malformed("a non-empty array of schemas"))?;
        Ok((0..schemas.len()).map(|at| self.at(&format!("{}/{at}", keyword.pointer))).collect())
    }

    /// Reads `if` as a choice: either `if` and `then` hold, or `else` holds and `if` does not.
    fn read_if(&mut self, atom: &mut Atom, keyword: &Keyword<'_>, schema: &str) {
        let mut consequence = |name| {
            let place = keyword.siblings.contains_key(name).then(|| child_pointer(schema, name));
            place.map(|place| self.at(&place))
        };
        let (then, otherwise) = (consequence("then"), consequence("else"));
        if then.is_none() && otherwise.is_none() && !self.document.has_unevaluated() {
            return;
        }
        let holds = self.at(&keyword.pointer);
        let fails = self.negate(holds);
        let branches = [(holds, then), (fails, otherwise)].map(|(condition, consequence)| {
            self.add(Atom::all([Some(condition), consequence].into_iter().flatten().collect()))
        });
        atom.any.push(Choice { branches: branches.into(), kind: ChoiceKind::Any });
    }
}
