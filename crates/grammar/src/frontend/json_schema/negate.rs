//! Computes negations: for each atom, an atom that accepts exactly the values that the original rejects.
//!
//! An atom is a conjunction of keywords, so its negation is a choice between the negated keywords.
//! Keywords can express these negations:
//! - A lower bound becomes an upper bound.
//! - `pattern` becomes the complement of its language.
//! - `required` becomes an absent name.
//! - `properties` becomes a required name with another value.
//! - `items` and `additionalProperties` become an item or a member that must exist.
//! - A choice becomes the conjunction of its negated branches.
//!
//! Negations are computed on demand, like subschemas. The negation of a negation is the original
//! atom. So the number of atoms stays proportional to the size of the schema.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Problem;
use super::atom::{
    ArrayKeywords, Atom, AtomId, Choice, ChoiceKind, Contains, ObjectKeywords, SomeMember, Types,
};
use super::read::{Atoms, Slot};
use crate::ir::json::number::{Bound, NumberForm, NumberRule};
use crate::regular::Expressions;

impl Atoms<'_> {
    /// Returns the atom that accepts exactly the values that the atom `id` rejects.
    pub(super) fn negate(&mut self, id: AtomId) -> AtomId {
        if let Some(&known) = self.negations.get(&id) {
            return known;
        }
        let negation = self.add_slot(Slot::Negation(id));
        self.negations.insert(id, negation);
        self.negations.insert(negation, id);
        negation
    }

    /// Computes the negation of the atom `id`.
    pub(super) fn read_negation(&mut self, id: AtomId) -> Result<Atom, Problem> {
        let atom = self.get(id)?;
        let mut branches = Vec::new();
        if atom.types != Types::ALL {
            branches.push(Atom::of(Types::ALL.without(atom.types)));
        }
        negate_number(&atom.number, &mut branches);
        self.negate_text(&atom, &mut branches);
        if let Some(scalars) = &atom.scalars {
            branches.push(Atom { excluded: scalars.clone(), ..Atom::any() });
        }
        if !atom.excluded.is_empty() {
            branches.push(Atom { scalars: Some(atom.excluded.clone()), ..Atom::any() });
        }
        self.negate_array(id, &atom.array, &mut branches)?;
        self.negate_object(id, &atom.object, &mut branches)?;
        for &part in &atom.all {
            branches.push(Atom::all(vec![self.negate(part)]));
        }
        for choice in &atom.any {
            self.negate_choice(choice, &mut branches);
        }
        for refusal in &atom.refusals {
            branches.push(Atom { refusals: vec![refusal.clone()], ..Atom::of(refusal.types) });
        }
        self.negate_unevaluated(&atom, &mut branches)?;
        if branches.len() == 1 && !branches[0].has_some_unevaluated() {
            return Ok(Atom { silent: true, ..branches.swap_remove(0) });
        }
        if branches.is_empty() {
            return Ok(Atom::of(Types::NONE));
        }
        let branches = branches.into_iter().map(|branch| self.add(branch)).collect();
        Ok(Atom { silent: true, ..Atom::one_of(branches) })
    }

    fn negate_text(&mut self, atom: &Rc<Atom>, branches: &mut Vec<Atom>) {
        let strings = || Atom::of(Types::STRING);
        if let Some(max) = atom.min_length.checked_sub(1) {
            branches.push(Atom { max_length: Some(max), ..strings() });
        }
        if let Some(max) = atom.max_length {
            branches.push(Atom { min_length: max + 1, ..strings() });
        }
        if atom.text != Expressions::EVERYTHING {
            branches.push(Atom { text: self.expressions.not(atom.text), ..strings() });
        }
    }

    fn negate_array(
        &mut self,
        id: AtomId,
        array: &ArrayKeywords,
        branches: &mut Vec<Atom>,
    ) -> Result<(), Problem> {
        let mut push = |array: ArrayKeywords| branches.push(Atom { array, ..Atom::of(Types::ARRAY) });
        let none = ArrayKeywords::default;
        if let Some(max) = array.min.checked_sub(1) {
            push(ArrayKeywords { max: Some(max), ..none() });
        }
        if let Some(max) = array.max {
            push(ArrayKeywords { min: max + 1, ..none() });
        }
        if let Some(pointer) = &array.unique {
            push(ArrayKeywords { repeated: Some(pointer.clone()), min: 2, ..none() });
        }
        if let Some(pointer) = &array.repeated {
            push(ArrayKeywords { unique: Some(pointer.clone()), ..none() });
        }
        for (index, &item) in array.prefix.iter().enumerate() {
            if !self.get(item)?.is_any() {
                let any = self.anything();
                let mut prefix = vec![any; index];
                prefix.push(self.negate(item));
                push(ArrayKeywords { prefix, min: index as u32 + 1, ..none() });
            }
        }
        if let Some(rest) = array.rest
            && !self.get(rest)?.is_any()
        {
            let (from, pointer) = (array.prefix.len() as u32, self.place(id));
            let contains = vec![Contains { from, atom: self.negate(rest), min: 1, max: None, pointer }];
            push(ArrayKeywords { contains, ..none() });
        }
        for counted in &array.contains {
            if let Some(max) = counted.min.checked_sub(1) {
                let fewer = Contains { min: 0, max: Some(max), ..counted.clone() };
                push(ArrayKeywords { contains: vec![fewer], ..none() });
            }
            if let Some(max) = counted.max {
                let more = Contains { min: max + 1, max: None, ..counted.clone() };
                push(ArrayKeywords { contains: vec![more], ..none() });
            }
        }
        Ok(())
    }

    fn negate_object(
        &mut self,
        id: AtomId,
        object: &ObjectKeywords,
        branches: &mut Vec<Atom>,
    ) -> Result<(), Problem> {
        let mut push = |object: ObjectKeywords| branches.push(Atom { object, ..Atom::of(Types::OBJECT) });
        let none = ObjectKeywords::default;
        if let Some(max) = object.min.checked_sub(1) {
            push(ObjectKeywords { max: Some(max), ..none() });
        }
        if let Some(max) = object.max {
            push(ObjectKeywords { min: max + 1, min_pointer: self.place(id), ..none() });
        }
        let properties: FxHashMap<&str, AtomId> =
            object.properties.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let required: FxHashSet<&str> = object.required.iter().map(String::as_str).collect();
        let mut met = FxHashSet::default();
        for name in object.required.iter().map(String::as_str).filter(|name| met.insert(*name)) {
            // The name is absent, or present with another value. One `properties` entry expresses both.
            let value = match properties.get(name) {
                Some(&value) if !self.get(value)?.is_any() => self.negate(value),
                _ => self.nothing(),
            };
            push(ObjectKeywords { properties: vec![(name.to_owned(), value)], ..none() });
        }
        for (name, value) in &object.properties {
            if !required.contains(name.as_str()) && !self.get(*value)?.is_any() {
                let properties = vec![(name.clone(), self.negate(*value))];
                push(ObjectKeywords { properties, required: vec![name.clone()], ..none() });
            }
        }
        let mut some = Vec::new();
        for &(names, value) in &object.patterns {
            if !self.get(value)?.is_any() {
                some.push((names, self.negate(value)));
            }
        }
        if let Some(additional) = object.additional
            && !self.get(additional)?.is_any()
        {
            some.push((self.other_names(object), self.negate(additional)));
        }
        for &names in &object.names {
            push(ObjectKeywords { other_names: vec![names], ..none() });
        }
        for &names in &object.other_names {
            push(ObjectKeywords { names: vec![names], ..none() });
        }
        for (names, atom) in some {
            let some = vec![SomeMember { names, atom, pointer: self.place(id) }];
            push(ObjectKeywords { some, ..none() });
        }
        for member in &object.some {
            let patterns = vec![(member.names, self.negate(member.atom))];
            push(ObjectKeywords { patterns, ..none() });
        }
        Ok(())
    }

    /// Adds the branches for negated `unevaluatedItems` and `unevaluatedProperties` of `atom`. In
    /// such a branch, all other keywords hold, and some unevaluated item or member violates the
    /// keyword.
    fn negate_unevaluated(&mut self, atom: &Rc<Atom>, branches: &mut Vec<Atom>) -> Result<(), Problem> {
        let rest = |types| {
            let mut rest = Atom { types: atom.types & types, ..Atom::clone(atom) };
            (rest.array.unevaluated, rest.object.unevaluated) = (None, None);
            rest
        };
        if let Some(items) = atom.array.unevaluated
            && !self.get(items)?.is_any()
        {
            let mut rest = rest(Types::ARRAY);
            rest.array.some_unevaluated = Some(self.negate(items));
            branches.push(rest);
            self.asks_for_unevaluated = true;
        }
        if let Some(members) = atom.object.unevaluated
            && !self.get(members)?.is_any()
        {
            let mut rest = rest(Types::OBJECT);
            rest.object.some_unevaluated = Some(self.negate(members));
            branches.push(rest);
            self.asks_for_unevaluated = true;
        }
        Ok(())
    }

    /// Returns the language of the names that neither `properties` nor `patternProperties` of
    /// `object` mentions.
    fn other_names(&mut self, object: &ObjectKeywords) -> crate::regular::ExprId {
        let expressions = &mut self.expressions;
        let mut named: Vec<_> = object.properties.iter().map(|(name, _)| expressions.literal(name)).collect();
        named.extend(object.patterns.iter().map(|&(names, _)| names));
        let named = expressions.any_of(named);
        expressions.not(named)
    }

    fn negate_choice(&mut self, choice: &Choice, branches: &mut Vec<Atom>) {
        let none = choice.branches.iter().map(|&branch| self.negate(branch)).collect();
        branches.push(Atom::all(none));
        if matches!(choice.kind, ChoiceKind::One(_)) {
            for (at, &a) in choice.branches.iter().enumerate() {
                branches.extend(choice.branches[..at].iter().map(|&b| Atom::all(vec![b, a])));
            }
        }
    }
}

fn negate_number(rule: &NumberRule, branches: &mut Vec<Atom>) {
    let opposite = |bound: &Bound| Bound { value: bound.value.clone(), inclusive: !bound.inclusive };
    let mut push = |number: NumberRule| branches.push(Atom { number, ..Atom::of(Types::NUMBER) });
    if let Some(low) = &rule.low {
        push(NumberRule { high: Some(opposite(low)), ..NumberRule::ANY });
    }
    if let Some(high) = &rule.high {
        push(NumberRule { low: Some(opposite(high)), ..NumberRule::ANY });
    }
    if rule.form != NumberForm::Any {
        push(NumberRule { other_than: Some(rule.form), ..NumberRule::ANY });
    }
    if let Some(form) = rule.other_than {
        push(NumberRule { form, ..NumberRule::ANY });
    }
    if let Some(multiple) = rule.multiple_of {
        push(NumberRule { indivisible: vec![multiple], ..NumberRule::ANY });
    }
    for &multiple in &rule.indivisible {
        push(NumberRule { multiple_of: Some(multiple), ..NumberRule::ANY });
    }
}
