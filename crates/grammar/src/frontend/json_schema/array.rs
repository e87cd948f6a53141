//! Reads the keywords for arrays.

use serde_json::Value;

use super::Problem;
use super::atom::{Atom, Contains};
use super::dialect::Draft;
use super::read::{Atoms, Keyword};

impl Atoms<'_> {
    pub(super) fn read_array(&mut self, atom: &mut Atom, keyword: &Keyword<'_>) -> Result<(), Problem> {
        match (keyword.name, keyword.value) {
            ("items", Value::Array(items)) if keyword.has_prefix_in_items() => {
                if keyword.draft >= Draft::D2020 {
                    self.warn(keyword, "an array is read as in draft 7; in 2020-12, use `prefixItems`");
                }
                self.read_prefix(atom, keyword, items);
            }
            ("items", Value::Array(_)) => {
                let expected = "a schema for all items (use `prefixItems` for an array of schemas)";
                return Err(keyword.malformed(expected));
            }
            ("items", _) => atom.array.rest = Some(self.at(&keyword.pointer)),
            ("prefixItems", Value::Array(items)) => self.read_prefix(atom, keyword, items),
            ("prefixItems", _) => return Err(keyword.malformed("an array of schemas")),
            // `additionalItems` has no effect next to a single schema for all items.
            ("additionalItems", _) => {
                if keyword.has_prefix_in_items() {
                    atom.array.rest = Some(self.at(&keyword.pointer));
                }
            }
            ("minItems", _) => atom.array.min = keyword.least()?,
            ("maxItems", _) => atom.array.max = keyword.most()?,
            ("contains", _) => self.read_contains(atom, keyword)?,
            ("uniqueItems", Value::Bool(false)) | ("minContains" | "maxContains", _) => {}
            ("unevaluatedItems", _) => atom.array.unevaluated = Some(self.at(&keyword.pointer)),
            ("uniqueItems", Value::Bool(true)) => atom.array.unique = Some(keyword.pointer.clone()),
            _ => return Err(keyword.malformed("a boolean")),
        }
        Ok(())
    }

    fn read_contains(&mut self, atom: &mut Atom, keyword: &Keyword<'_>) -> Result<(), Problem> {
        let counts = keyword.draft >= Draft::D2019;
        let bound = |name| keyword.sibling(name).filter(|_| counts);
        let min = bound("minContains").map_or(Ok(1), |bound| bound.least())?;
        let max = bound("maxContains").map_or(Ok(None), |bound| bound.most())?;
        let counted = self.at(&keyword.pointer);
        if keyword.draft >= Draft::D2020 {
            atom.array.contained.push(counted);
        }
        if (min, max) == (0, None) {
            return Ok(());
        }
        let pointer = keyword.pointer.clone();
        atom.array.contains.push(Contains { from: 0, atom: counted, min, max, pointer });
        Ok(())
    }

    fn read_prefix(&mut self, atom: &mut Atom, keyword: &Keyword<'_>, items: &[Value]) {
        let places = (0..items.len()).map(|at| self.at(&format!("{}/{at}", keyword.pointer)));
        atom.array.prefix = places.collect();
    }
}
