//! Reads the keywords for objects.

use serde_json::{Map, Value};

use super::atom::{Atom, AtomId, Choice, ChoiceKind, Types};
use super::read::{Atoms, Keyword};
use super::{Problem, child_pointer};

impl Atoms<'_> {
    pub(super) fn read_object(&mut self, atom: &mut Atom, keyword: &Keyword<'_>) -> Result<(), Problem> {
        atom.object.speaks_of_others |= matches!(
            keyword.name,
            "additionalProperties" | "patternProperties" | "propertyNames" | "unevaluatedProperties"
        );
        match keyword.name {
            "properties" => {
                let members = members(keyword)?;
                // Clients write an empty object for a place that takes anything.
                atom.object.declares |= !members.is_empty();
                for (name, member) in members {
                    let place = self.at(&child_pointer(&keyword.pointer, name));
                    atom.object.properties.push((name.clone(), place));
                    if is_required(member) {
                        atom.object.required.push(name.clone());
                    }
                }
            }
            "required" if keyword.value.is_boolean() => {
                self.warn(
                    keyword,
                    "a boolean is read as in draft 3: `true` in a property makes the property required",
                );
            }
            "required" => atom.object.required.extend(keyword.strings()?),
            "additionalProperties" => atom.object.additional = Some(self.at(&keyword.pointer)),
            "minProperties" => {
                atom.object.min = keyword.least()?;
                atom.object.min_pointer.clone_from(&keyword.pointer);
            }
            "maxProperties" => atom.object.max = keyword.most()?,
            "dependencies" | "dependentRequired" | "dependentSchemas" => {
                self.read_dependent(atom, keyword)?;
            }
            "patternProperties" => {
                for source in members(keyword)?.keys() {
                    let pointer = child_pointer(&keyword.pointer, source);
                    let names = self.pattern(keyword, &pointer, source)?;
                    let place = self.at(&pointer);
                    atom.object.patterns.push((names, place));
                }
            }
            "propertyNames" => {
                let names = self.at(&keyword.pointer);
                atom.object.names.push(names);
            }
            _ => atom.object.unevaluated = Some(self.at(&keyword.pointer)),
        }
        Ok(())
    }

    /// Reads `dependencies`, `dependentRequired` or `dependentSchemas`. Each entry becomes a
    /// choice: either the object lacks the entry's name, or the object has the name and meets the
    /// entry's requirement. The requirement is a list of names or a schema.
    fn read_dependent(&mut self, atom: &mut Atom, keyword: &Keyword<'_>) -> Result<(), Problem> {
        for (name, asked) in members(keyword)? {
            let mut present = Atom::any();
            present.object.required.push(name.clone());
            if let (Value::Array(names), true) = (asked, keyword.name != "dependentSchemas") {
                for other in names {
                    let other = other
                        .as_str()
                        .ok_or_else(|| keyword.malformed_at(name, asked, "an array of strings"))?;
                    present.object.required.push(other.to_owned());
                }
            } else if let (Value::String(other), "dependencies") = (asked, keyword.name) {
                self.warn(keyword, "a string is read as in draft 3: the name of the one required property");
                present.object.required.push(other.clone());
            } else if keyword.name == "dependentRequired" {
                return Err(keyword.malformed_at(name, asked, "an array of strings"));
            } else {
                present.all.push(self.at(&child_pointer(&keyword.pointer, name)));
            }
            present.types = Types::OBJECT;
            let branches = vec![self.absent(name), self.add(present)];
            atom.any.push(Choice { branches: branches.into(), kind: ChoiceKind::Any });
        }
        Ok(())
    }

    /// Returns an atom that accepts every value except the objects that have a member called
    /// `name`.
    pub(super) fn absent(&mut self, name: &str) -> AtomId {
        let nothing = self.nothing();
        let mut atom = Atom::any();
        atom.object.properties.push((name.to_owned(), nothing));
        self.add(atom)
    }
}

/// Returns true if a property's own schema has `required: true`, which makes the property required
/// in draft 3.
fn is_required(schema: &Value) -> bool {
    schema.get("required") == Some(&Value::Bool(true)) && schema.get("$ref").is_none()
}

fn members<'a>(keyword: &Keyword<'a>) -> Result<&'a Map<String, Value>, Problem> {
    keyword.value.as_object().ok_or_else(|| keyword.malformed("an object"))
}
