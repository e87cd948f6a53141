//! Reads `type`, `enum` and `const`, and the keywords for numbers and strings.

use std::collections::BTreeSet;

use serde_json::{Number, Value};

use super::atom::{ArrayKeywords, Atom, AtomId, Choice, ChoiceKind, ObjectKeywords, Scalar, Types};
use super::dialect::Draft;
use super::format::Format;
use super::read::{Atoms, Keyword};
use super::types::unknown_type;
use super::{Problem, child_pointer};
use crate::error::SchemaProblem;
use crate::ir::json::decimal::Decimal;
use crate::ir::json::number::{Bound, Multiple, NumberForm};
use crate::options::Formats;

/// Maximum number of digits after the decimal point of a `multipleOf`.
const PLACES: usize = 18;

impl Atoms<'_> {
    pub(super) fn read_scalar(&mut self, atom: &mut Atom, keyword: &Keyword<'_>) -> Result<(), Problem> {
        match keyword.name {
            "type" => self.read_type(atom, keyword),
            "nullable" => {
                self.read_nullable(keyword);
                Ok(())
            }
            "disallow" => {
                let mut disallowed = Atom::any();
                self.read_type(&mut disallowed, keyword)?;
                let disallowed = self.add(disallowed);
                atom.all.push(self.negate(disallowed));
                Ok(())
            }
            "enum" => {
                let values = keyword.value.as_array().ok_or_else(|| keyword.malformed("an array"))?;
                self.one_of_values(atom, keyword, values)
            }
            "const" => self.one_of_values(atom, keyword, std::slice::from_ref(keyword.value)),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => self.read_bound(atom, keyword),
            "multipleOf" => read_multiple(atom, keyword),
            "divisibleBy" if keyword.siblings.contains_key("multipleOf") => {
                self.warn(keyword, "ignored because of the `multipleOf` beside it");
                Ok(())
            }
            "divisibleBy" => {
                self.warn(keyword, "read as `multipleOf`, its name since draft 4");
                read_multiple(atom, keyword)
            }
            "minLength" => {
                atom.min_length = keyword.least()?;
                Ok(())
            }
            "maxLength" => {
                atom.max_length = keyword.most()?;
                Ok(())
            }
            "pattern" => {
                let source =
                    keyword.value.as_str().ok_or_else(|| keyword.malformed("a regular expression"))?;
                let language = self.pattern(keyword, &keyword.pointer, source)?;
                atom.text = self.expressions.all_of(vec![atom.text, language]);
                Ok(())
            }
            _ => self.read_format(atom, keyword),
        }
    }

    fn read_format(&mut self, atom: &mut Atom, keyword: &Keyword<'_>) -> Result<(), Problem> {
        let name = keyword.value.as_str().ok_or_else(|| keyword.malformed("a format's name"))?;
        if self.formats == Formats::Annotate {
            return Ok(());
        }
        match Format::get(name, keyword.draft) {
            Some(format) => {
                let language = format.language(&mut self.expressions);
                self.formats_met.insert(language, format);
                atom.text = self.expressions.all_of(vec![atom.text, language]);
            }
            None => self.warn(keyword, "this format is unknown"),
        }
        Ok(())
    }

    fn read_type(&mut self, atom: &mut Atom, keyword: &Keyword<'_>) -> Result<(), Problem> {
        let names = match keyword.value {
            Value::Array(names) if names.is_empty() => return Err(keyword.malformed("at least one type")),
            Value::Array(names) => names.as_slice(),
            name => std::slice::from_ref(name),
        };
        let mut types = if is_nullable(keyword) { Types::NULL } else { Types::NONE };
        let (mut number, mut integer) = (false, false);
        let mut schemas = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let pointer = match keyword.value {
                Value::Array(_) => child_pointer(&keyword.pointer, &at.to_string()),
                _ => keyword.pointer.clone(),
            };
            let name = match name {
                Value::String(name) => name,
                Value::Object(_) if keyword.draft == Draft::D3 => {
                    schemas.push(self.at(&pointer));
                    continue;
                }
                other => {
                    let problem =
                        SchemaProblem::malformed("the name of a type, or an array of such names", other);
                    return Err(Problem::new(&pointer, keyword.name, problem));
                }
            };
            types = types
                | match name.as_str() {
                    "null" => Types::NULL,
                    "boolean" => Types::BOOL,
                    "number" => {
                        number = true;
                        Types::NUMBER
                    }
                    "integer" => {
                        integer = true;
                        Types::NUMBER
                    }
                    "string" => Types::STRING,
                    "array" => Types::ARRAY,
                    "object" => Types::OBJECT,
                    "any" => {
                        self.warn(keyword, "`any` is read as in draft 3: every type");
                        number = true;
                        Types::ALL
                    }
                    _ => return Err(Problem::new(&pointer, keyword.name, unknown_type(name))),
                };
        }
        let mut listed = Atom::of(types);
        if integer && !number {
            // Up to draft 4, an integer is a number that is written without a decimal point.
            listed.number.form =
                if keyword.draft <= Draft::D4 { NumberForm::Digits } else { NumberForm::Integer };
        }
        if schemas.is_empty() {
            atom.types = atom.types & types;
            atom.number.form = if integer && !number { listed.number.form } else { atom.number.form };
        } else {
            if !types.is_empty() {
                schemas.insert(0, self.add(listed));
            }
            atom.any.push(Choice { branches: schemas.into(), kind: ChoiceKind::Any });
        }
        Ok(())
    }

    /// Warns about the effect of `nullable`, a keyword of `OpenAPI` 3.0. Null itself is added to
    /// the types where `type` is read.
    fn read_nullable(&mut self, keyword: &Keyword<'_>) {
        let reason = match keyword.value {
            Value::Bool(false) => return,
            Value::Bool(true) if !keyword.siblings.contains_key("type") => {
                "`nullable` has no effect without `type` beside it, as in OpenAPI 3.0"
            }
            Value::Bool(true) if lists_no_null(keyword) => {
                "`nullable` does not add null to the values of `enum` or `const`, as in OpenAPI 3.0"
            }
            Value::Bool(true) => "read as in OpenAPI 3.0: null is accepted beside the `type`",
            _ => "`nullable` has no effect unless it is true or false",
        };
        self.warn(keyword, reason);
    }

    fn read_bound(&mut self, atom: &mut Atom, keyword: &Keyword<'_>) -> Result<(), Problem> {
        let exclusive = keyword.name.starts_with("exclusive");
        let is_low = keyword.name.to_ascii_lowercase().ends_with("minimum");
        let (bound, flag) =
            if is_low { ("minimum", "exclusiveMinimum") } else { ("maximum", "exclusiveMaximum") };
        let is_old = keyword.draft <= Draft::D4;
        if exclusive && keyword.value.is_boolean() {
            // The flag is read together with its bound.
            if keyword.value == &Value::Bool(true) && !keyword.siblings.contains_key(bound) {
                self.warn(keyword, "`true` has no effect without `minimum` or `maximum` beside it");
            } else if !is_old {
                self.warn(
                    keyword,
                    "a boolean is read as in draft 4: `true` makes the bound beside it exclusive",
                );
            }
            return Ok(());
        }
        let value = decimal(keyword)?;
        if exclusive && is_old {
            self.warn(keyword, "a number is read as in draft 6: an exclusive bound");
        }
        let flagged = !exclusive && keyword.siblings.get(flag) == Some(&Value::Bool(true));
        let bound = Bound { value, inclusive: !exclusive && !flagged };
        if is_low {
            atom.number.above(bound);
        } else {
            atom.number.below(bound);
        }
        Ok(())
    }

    /// Adds the values of `enum` or `const` to `atom`.
    fn one_of_values(
        &mut self,
        atom: &mut Atom,
        keyword: &Keyword<'_>,
        values: &[Value],
    ) -> Result<(), Problem> {
        let mut scalars = BTreeSet::new();
        let mut branches = Vec::new();
        for value in values {
            match scalar(value, keyword)? {
                Some(scalar) => {
                    scalars.insert(scalar);
                }
                None => branches.push(self.container(value, keyword, 0)?),
            }
        }
        if branches.is_empty() {
            atom.list(scalars);
        } else {
            if !scalars.is_empty() {
                branches.insert(0, self.add(Atom { scalars: Some(scalars), ..Atom::any() }));
            }
            atom.any.push(Choice { branches: branches.into(), kind: ChoiceKind::Any });
        }
        Ok(())
    }

    /// Returns an atom that accepts only `value`.
    fn value(&mut self, value: &Value, keyword: &Keyword<'_>, depth: usize) -> Result<AtomId, Problem> {
        match scalar(value, keyword)? {
            Some(scalar) => Ok(self.add(Atom { scalars: Some(BTreeSet::from([scalar])), ..Atom::any() })),
            None => self.container(value, keyword, depth),
        }
    }

    /// Returns an atom that accepts only the array or object `value`. `depth` is the number of
    /// surrounding arrays and objects.
    fn container(&mut self, value: &Value, keyword: &Keyword<'_>, depth: usize) -> Result<AtomId, Problem> {
        let limit = self.document.nesting();
        if depth >= limit {
            return Err(keyword.problem(SchemaProblem::Nesting { limit }));
        }
        // `enum` and `const` do not evaluate items or members.
        let mut atom = Atom { silent: true, ..Atom::of(Types::ARRAY) };
        if let Value::Object(members) = value {
            let mut properties = Vec::new();
            for (name, value) in members {
                properties.push((name.clone(), self.value(value, keyword, depth + 1)?));
            }
            let required = members.keys().cloned().collect();
            let additional = Some(self.add(Atom::of(Types::NONE)));
            atom.types = Types::OBJECT;
            atom.object = ObjectKeywords { properties, required, additional, ..ObjectKeywords::default() };
        } else if let Value::Array(items) = value {
            let mut prefix = Vec::new();
            for item in items {
                prefix.push(self.value(item, keyword, depth + 1)?);
            }
            let len = items.len() as u32;
            atom.array = ArrayKeywords { prefix, min: len, max: Some(len), ..ArrayKeywords::default() };
        }
        Ok(self.add(atom))
    }
}

/// Returns true if `keyword` is a `type` next to `nullable: true`, which makes null acceptable as
/// in `OpenAPI` 3.0.
fn is_nullable(keyword: &Keyword<'_>) -> bool {
    keyword.name == "type" && keyword.siblings.get("nullable") == Some(&Value::Bool(true))
}

/// Returns true if an adjacent `enum` or `const` does not list null.
fn lists_no_null(keyword: &Keyword<'_>) -> bool {
    let listed = keyword.siblings.get("enum").and_then(Value::as_array);
    let only = keyword.siblings.get("const");
    listed.is_some_and(|values| !values.contains(&Value::Null)) || only.is_some_and(|value| !value.is_null())
}

/// Returns the scalar for a value of `enum` or `const`, or `None` if the value is an array or an
/// object.
fn scalar(value: &Value, keyword: &Keyword<'_>) -> Result<Option<Scalar>, Problem> {
    Ok(match value {
        Value::Null => Some(Scalar::Null),
        Value::Bool(value) => Some(Scalar::Bool(*value)),
        Value::Number(number) => Some(Scalar::Number(exact(number, keyword)?)),
        Value::String(text) => Some(Scalar::String(text.clone())),
        Value::Array(_) | Value::Object(_) => None,
    })
}

/// Converts a number of the schema to a decimal.
fn exact(number: &Number, keyword: &Keyword<'_>) -> Result<Decimal, Problem> {
    let reason = "a number with more than 4096 digits is not supported";
    let too_long = || keyword.problem(SchemaProblem::UnsupportedForm { reason });
    Decimal::from_number(number).ok_or_else(too_long)
}

fn decimal(keyword: &Keyword<'_>) -> Result<Decimal, Problem> {
    match keyword.value {
        Value::Number(number) => exact(number, keyword),
        _ => Err(keyword.malformed("a number")),
    }
}

fn read_multiple(atom: &mut Atom, keyword: &Keyword<'_>) -> Result<(), Problem> {
    let value = decimal(keyword)?;
    if value.negative || value.is_zero() {
        return Err(keyword.malformed("a number above zero"));
    }
    let places = value.fraction.len();
    if let Some(units) = value.scaled(places).filter(|_| places <= PLACES) {
        atom.number.multiple_of = Some(Multiple { units, places: places as u16 });
    } else {
        let reason =
            "a divisor with more than 18 decimal places or more than 64 bits of digits is not supported";
        atom.refusals.push(keyword.refusal(Types::NUMBER, SchemaProblem::UnsupportedForm { reason }));
    }
    Ok(())
}
