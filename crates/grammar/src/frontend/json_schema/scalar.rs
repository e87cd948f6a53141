//! `type`, `enum`, `const`, and the keywords of numbers and strings.

use std::collections::BTreeSet;

use serde_json::{Number, Value};

use super::Problem;
use super::atom::{ArrayKeywords, Atom, AtomId, Choice, ChoiceKind, ObjectKeywords, Scalar, Types};
use super::document::Draft;
use super::format::format;
use super::options::Formats;
use super::read::{Atoms, Keyword};
use crate::error::SchemaProblem;
use crate::machine::json::decimal::Decimal;
use crate::machine::json::number::{Bound, Multiple, NumberForm};

/// Digits after the point of a divisor, at most.
const PLACES: usize = 18;

impl Atoms<'_> {
    pub(super) fn read_scalar(&mut self, atom: &mut Atom, keyword: &Keyword<'_>) -> Result<(), Problem> {
        match keyword.name {
            "type" => read_type(atom, keyword),
            "enum" => {
                let values = keyword.value.as_array().ok_or_else(|| keyword.malformed("an array"))?;
                self.one_of_values(atom, keyword, values)
            }
            "const" => self.one_of_values(atom, keyword, std::slice::from_ref(keyword.value)),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => read_bound(atom, keyword),
            "multipleOf" => read_multiple(atom, keyword),
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
        match format(&mut self.expressions, name, keyword.draft) {
            Some(language) => {
                self.formats_met.insert(language, (name.to_owned(), keyword.draft));
                atom.text = self.expressions.all_of(vec![atom.text, language]);
            }
            None => self.warn(keyword, "this format is unknown"),
        }
        Ok(())
    }

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
                None => branches.push(self.container(value, keyword)?),
            }
        }
        if branches.is_empty() {
            atom.list(scalars);
        } else {
            if !scalars.is_empty() {
                branches.insert(0, self.add(Atom { scalars: Some(scalars), ..Atom::any() }));
            }
            atom.any.push(Choice { branches, kind: ChoiceKind::Any });
        }
        Ok(())
    }

    /// An atom that only `value` satisfies.
    fn value(&mut self, value: &Value, keyword: &Keyword<'_>) -> Result<AtomId, Problem> {
        match scalar(value, keyword)? {
            Some(scalar) => Ok(self.add(Atom { scalars: Some(BTreeSet::from([scalar])), ..Atom::any() })),
            None => self.container(value, keyword),
        }
    }

    fn container(&mut self, value: &Value, keyword: &Keyword<'_>) -> Result<AtomId, Problem> {
        // `enum` and `const` evaluate neither items nor members.
        let mut atom = Atom { silent: true, ..Atom::of(Types::ARRAY) };
        if let Value::Object(members) = value {
            let mut properties = Vec::new();
            for (name, value) in members {
                properties.push((name.clone(), self.value(value, keyword)?));
            }
            let required = members.keys().cloned().collect();
            let additional = Some(self.add(Atom::of(Types::NONE)));
            atom.types = Types::OBJECT;
            atom.object = ObjectKeywords { properties, required, additional, ..ObjectKeywords::default() };
        } else if let Value::Array(items) = value {
            let mut prefix = Vec::new();
            for item in items {
                prefix.push(self.value(item, keyword)?);
            }
            let len = items.len() as u32;
            atom.array = ArrayKeywords { prefix, min: len, max: Some(len), ..ArrayKeywords::default() };
        }
        Ok(self.add(atom))
    }
}

fn scalar(value: &Value, keyword: &Keyword<'_>) -> Result<Option<Scalar>, Problem> {
    Ok(match value {
        Value::Null => Some(Scalar::Null),
        Value::Bool(value) => Some(Scalar::Bool(*value)),
        Value::Number(number) => Some(Scalar::Number(exact(number, keyword)?)),
        Value::String(text) => Some(Scalar::String(text.clone())),
        Value::Array(_) | Value::Object(_) => None,
    })
}

fn exact(number: &Number, keyword: &Keyword<'_>) -> Result<Decimal, Problem> {
    let reason = "the number is too large to be read exactly";
    let inexact = || keyword.problem(SchemaProblem::UnsupportedForm { reason });
    Decimal::from_number(number).ok_or_else(inexact)
}

fn decimal(keyword: &Keyword<'_>) -> Result<Decimal, Problem> {
    match keyword.value {
        Value::Number(number) => exact(number, keyword),
        _ => Err(keyword.malformed("a number")),
    }
}

fn read_type(atom: &mut Atom, keyword: &Keyword<'_>) -> Result<(), Problem> {
    let unknown = || keyword.malformed("a type's name or an array of such names");
    let names = match keyword.value {
        Value::Array(names) => names.as_slice(),
        name => std::slice::from_ref(name),
    };
    let mut types = Types::NONE;
    let (mut number, mut integer) = (false, false);
    for name in names {
        types = types
            | match name.as_str().ok_or_else(unknown)? {
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
                _ => return Err(unknown()),
            };
    }
    atom.types = atom.types & types;
    if integer && !number {
        atom.number.form = if keyword.draft == Draft::D4 { NumberForm::Digits } else { NumberForm::Integer };
    }
    Ok(())
}

fn read_bound(atom: &mut Atom, keyword: &Keyword<'_>) -> Result<(), Problem> {
    let exclusive = keyword.name.starts_with("exclusive");
    if keyword.draft == Draft::D4 && exclusive {
        // A flag, read with the bound that it belongs to.
        return keyword.value.as_bool().map(|_| ()).ok_or_else(|| keyword.malformed("a boolean"));
    }
    let value = decimal(keyword)?;
    let is_low = keyword.name.to_ascii_lowercase().ends_with("minimum");
    let flag = if is_low { "exclusiveMinimum" } else { "exclusiveMaximum" };
    let flagged = keyword.draft == Draft::D4 && keyword.siblings.get(flag) == Some(&Value::Bool(true));
    let bound = Bound { value, inclusive: !exclusive && !flagged };
    if is_low {
        atom.number.above(bound);
    } else {
        atom.number.below(bound);
    }
    Ok(())
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
        let reason = "a divisor with so many digits is not supported";
        atom.refusals.push(keyword.refusal(Types::NUMBER, SchemaProblem::UnsupportedForm { reason }));
    }
    Ok(())
}
