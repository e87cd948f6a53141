//! Reads subschemas into atoms.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value};

use super::atom::{Atom, AtomId, Refusal, Types};
use super::contradiction::Marks;
use super::dialect::{Dialect, Draft};
use super::document::{Document, DynamicScope};
use super::format::Format;
use super::types::unknown_keyword;
use super::{Problem, child_pointer};
use crate::Warning;
use crate::error::SchemaProblem;
use crate::ledger::Ledger;
use crate::options::Formats;
use crate::regular::{ExprId, Expressions};

/// The atoms of all subschemas reached so far. Each subschema is read once, on first use.
pub(super) struct Atoms<'a> {
    pub(super) document: Document<'a>,
    pub(super) formats: Formats,
    /// The formats read so far, by language.
    pub(super) formats_met: FxHashMap<ExprId, Arc<Format>>,
    /// The languages of the patterns read so far, by source.
    pub(super) patterns: FxHashMap<String, ExprId>,
    slots: Vec<Slot>,
    /// The atom of each subschema, by place and dynamic scope.
    by_place: FxHashMap<(String, DynamicScope), AtomId>,
    /// Dynamic scope of the subschema that is being read.
    scope: DynamicScope,
    /// The place of each atom that has one.
    places: FxHashMap<AtomId, String>,
    warnings: Vec<Warning>,
    /// Atoms known not to require themselves for the same value.
    grounded: FxHashSet<AtomId>,
    /// Each atom and its negation, in both directions.
    pub(super) negations: FxHashMap<AtomId, AtomId>,
    pub(super) expressions: Expressions,
    /// The distinguishing members of each atom, computed on demand.
    pub(super) marks: FxHashMap<AtomId, Marks>,
    /// True if some atom requires an unevaluated item or member, because of a negated
    /// `unevaluatedItems` or `unevaluatedProperties`.
    pub(super) asks_for_unevaluated: bool,
    /// The atom that [`Atoms::any_of`] returned for each list of branches.
    unions: FxHashMap<Vec<AtomId>, AtomId>,
    /// For each atom, the language of the names that satisfy the atom. Computed on demand.
    pub(super) name_languages: FxHashMap<AtomId, ExprId>,
    /// For each set of types, the atom that accepts exactly the values of these types.
    pub(super) of_types: FxHashMap<Types, AtomId>,
    /// For each atom, the types whose values all satisfy the atom. Computed on demand.
    pub(super) free_types: FxHashMap<AtomId, Types>,
    pub(super) ledger: Rc<Ledger>,
    /// The atom that no value satisfies, once it is needed.
    nothing: Option<AtomId>,
    /// The atom that every value satisfies, once it is needed.
    anything: Option<AtomId>,
}

/// The results of reading that the solver needs: the languages of strings, and the places of atoms.
pub(super) struct Strings {
    pub(super) expressions: Expressions,
    /// The formats, by language.
    pub(super) formats: FxHashMap<ExprId, Arc<Format>>,
    /// The sources of patterns, by language.
    pub(super) patterns: FxHashMap<ExprId, String>,
    /// The place of each atom that has one.
    pub(super) places: FxHashMap<AtomId, String>,
}

/// An atom, or the information for reading the atom on demand.
pub(super) enum Slot {
    /// The subschema at a place, entered with a dynamic scope.
    Unread(String, DynamicScope),
    /// The negation of another atom.
    Negation(AtomId),
    /// The atom itself.
    Read(Rc<Atom>),
}

/// One keyword of a subschema.
pub(super) struct Keyword<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a Value,
    /// Place of the keyword.
    pub(super) pointer: String,
    /// The subschema that contains the keyword.
    pub(super) siblings: &'a Map<String, Value>,
    pub(super) draft: Draft,
    /// True if a `$schema` names the draft. If false, spellings of other drafts are accepted with
    /// their original meaning.
    pub(super) stated: bool,
}

impl Keyword<'_> {
    pub(super) fn problem(&self, problem: SchemaProblem) -> Problem {
        Problem::new(&self.pointer, self.name, problem)
    }

    pub(super) fn malformed(&self, expected: &'static str) -> Problem {
        self.problem(SchemaProblem::malformed(expected, self.value))
    }

    /// Returns an error about `value`, which is malformed. It is the member or item `key` of the
    /// keyword's value. `expected` describes a correct one.
    pub(super) fn malformed_at(&self, key: &str, value: &Value, expected: &'static str) -> Problem {
        let problem = SchemaProblem::malformed(expected, value);
        Problem::new(&child_pointer(&self.pointer, key), self.name, problem)
    }

    pub(super) fn refusal(&self, types: Types, problem: SchemaProblem) -> Refusal {
        Refusal { types, pointer: self.pointer.clone(), keyword: self.name.to_owned(), problem }
    }

    /// Returns the keyword `name` of the same subschema, or `None` if the subschema does not have
    /// it.
    pub(super) fn sibling(&self, name: &'static str) -> Option<Self> {
        let value = self.siblings.get(name)?;
        let schema = self.pointer.rfind('/').map_or("", |slash| &self.pointer[..slash]);
        Some(Self {
            name,
            value,
            pointer: child_pointer(schema, name),
            siblings: self.siblings,
            draft: self.draft,
            stated: self.stated,
        })
    }

    /// Returns true if the `items` of the same subschema is an array that is read as `prefixItems`.
    pub(super) fn has_prefix_in_items(&self) -> bool {
        let old = self.draft < Draft::D2020 || !self.stated && !self.siblings.contains_key("prefixItems");
        old && matches!(self.siblings.get("items"), Some(Value::Array(_)))
    }

    /// Parses the keyword's value as a non-negative integer, such as a length or a number of items.
    /// Values above `u32::MAX` become `u32::MAX`.
    pub(super) fn count(&self) -> Result<u32, Problem> {
        let integral = self.value.as_f64().filter(|value| value.fract() == 0.0 && *value >= 0.0);
        let value = self.value.as_u64().or(integral.map(|value| value as u64));
        let value = value.ok_or_else(|| self.malformed("a non-negative integer"))?;
        Ok(u32::try_from(value).unwrap_or(u32::MAX))
    }

    /// Parses the keyword's value as an upper bound. Returns `None`, which means unlimited, for
    /// values of `u32::MAX` or more.
    pub(super) fn most(&self) -> Result<Option<u32>, Problem> {
        Ok(Some(self.count()?).filter(|&count| count < u32::MAX))
    }

    /// Parses the keyword's value as a lower bound, which must be less than `u32::MAX`.
    pub(super) fn least(&self) -> Result<u32, Problem> {
        let reason = "a lower bound of 2^32 - 1 or more is not supported";
        let least = Some(self.count()?).filter(|&count| count < u32::MAX);
        least.ok_or_else(|| self.problem(SchemaProblem::UnsupportedForm { reason }))
    }

    /// Parses the keyword's value as an array of strings.
    pub(super) fn strings(&self) -> Result<Vec<String>, Problem> {
        let items = self.value.as_array().ok_or_else(|| self.malformed("an array of strings"))?;
        let string = |(at, item): (usize, &Value)| {
            let string = item.as_str().map(str::to_owned);
            string.ok_or_else(|| self.malformed_at(&at.to_string(), item, "a string"))
        };
        items.iter().enumerate().map(string).collect()
    }
}

impl<'a> Atoms<'a> {
    pub(super) fn new(document: Document<'a>, formats: Formats, ledger: &Rc<Ledger>) -> Self {
        Self {
            document,
            formats,
            formats_met: FxHashMap::default(),
            patterns: FxHashMap::default(),
            slots: Vec::new(),
            by_place: FxHashMap::default(),
            scope: DynamicScope::default(),
            places: FxHashMap::default(),
            warnings: Vec::new(),
            grounded: FxHashSet::default(),
            negations: FxHashMap::default(),
            expressions: Expressions::with_ledger(ledger),
            marks: FxHashMap::default(),
            asks_for_unevaluated: false,
            unions: FxHashMap::default(),
            name_languages: FxHashMap::default(),
            of_types: FxHashMap::default(),
            free_types: FxHashMap::default(),
            ledger: Rc::clone(ledger),
            nothing: None,
            anything: None,
        }
    }

    /// Returns the languages and places for the solver, and all warnings.
    pub(super) fn finish(mut self) -> (Strings, Vec<Warning>) {
        self.warnings.splice(0..0, self.document.warnings());
        let (expressions, formats, places) = (self.expressions, self.formats_met, self.places);
        let mut patterns: FxHashMap<ExprId, String> = FxHashMap::default();
        for (source, language) in self.patterns {
            // Of several sources of one language, the least one counts, whatever their order is.
            let known = patterns.entry(language).or_insert_with(|| source.clone());
            if source < *known {
                *known = source;
            }
        }
        (Strings { expressions, formats, patterns, places }, self.warnings)
    }

    /// Returns the atom of the subschema at `place`, entered from the subschema that is being read.
    /// The subschema is read when [`Atoms::get`] first needs the atom.
    pub(super) fn at(&mut self, place: &str) -> AtomId {
        let scope = self.document.enter(&self.scope, place);
        let key = (place.to_owned(), scope);
        if let Some(&id) = self.by_place.get(&key) {
            return id;
        }
        // Reading fails as soon as the ledger exceeds a limit, so the charges noted here are bounded.
        self.ledger.note(64 + place.len() / 8);
        self.ledger.keep(3 * place.len() + 256);
        let id = self.add_slot(Slot::Unread(key.0.clone(), Rc::clone(&key.1)));
        self.by_place.insert(key, id);
        self.places.insert(id, place.to_owned());
        id
    }

    /// Returns the atom of the target of `keyword`, a `$dynamicRef` or `$recursiveRef`. `schema` is
    /// the place of the subschema that is being read.
    pub(super) fn at_dynamic(&mut self, schema: &str, keyword: &Keyword<'_>) -> Result<AtomId, Problem> {
        let place = self.document.follow_dynamic(schema, keyword, &self.scope)?;
        Ok(self.at(&place))
    }

    /// Adds an atom that has no place in the document.
    pub(super) fn add(&mut self, atom: Atom) -> AtomId {
        self.add_slot(Slot::Read(Rc::new(atom)))
    }

    pub(super) fn add_slot(&mut self, slot: Slot) -> AtomId {
        self.ledger.keep(size_of::<Slot>() + size_of::<Atom>());
        self.slots.push(slot);
        self.slots.len() as AtomId - 1
    }

    /// Returns the atom that no value satisfies.
    pub(super) fn nothing(&mut self) -> AtomId {
        let id = self.nothing.unwrap_or_else(|| self.add(Atom::of(Types::NONE)));
        *self.nothing.insert(id)
    }

    /// Returns the atom that every value satisfies.
    pub(super) fn anything(&mut self) -> AtomId {
        let id = self.anything.unwrap_or_else(|| self.add(Atom::any()));
        *self.anything.insert(id)
    }

    /// Returns an atom that accepts the values that at least one of the `branches` accepts.
    pub(super) fn any_of(&mut self, branches: Vec<AtomId>) -> AtomId {
        if let [only] = *branches {
            return only;
        }
        if let Some(&known) = self.unions.get(&branches) {
            return known;
        }
        let id = self.add(Atom::one_of(branches.clone()));
        self.unions.insert(branches, id);
        id
    }

    /// Returns the place of the atom `id`. For a negation, returns the place of the original atom.
    /// For an atom without a place, returns the place of the root.
    pub(super) fn place(&self, id: AtomId) -> String {
        let original = self.negations.get(&id).filter(|&&other| other < id).copied().unwrap_or(id);
        self.places.get(&original).cloned().unwrap_or_default()
    }

    /// Returns the atom `id`, and reads its subschema on first use.
    pub(super) fn get(&mut self, id: AtomId) -> Result<Rc<Atom>, Problem> {
        let atom = match &self.slots[id as usize] {
            Slot::Read(atom) => return Ok(Rc::clone(atom)),
            _ if self.ledger.is_over() => return Err(self.over(id)),
            Slot::Unread(place, scope) => {
                let (place, scope) = (place.clone(), Rc::clone(scope));
                let outer = std::mem::replace(&mut self.scope, scope);
                let atom = self.read(&place);
                self.scope = outer;
                atom?
            }
            &Slot::Negation(of) => self.read_negation(of)?,
        };
        let atom = Rc::new(atom);
        self.slots[id as usize] = Slot::Read(Rc::clone(&atom));
        Ok(atom)
    }

    /// Returns the error for the exceeded limit of the ledger, at the place of the atom `id`.
    fn over(&self, id: AtomId) -> Problem {
        let error = self.ledger.check().err();
        error.map_or_else(|| self.circular(id), |error| error.at(&self.place(id)).into())
    }

    /// Rejects an atom that requires itself for the same value. For example, `{"$ref": "#"}`
    /// constrains no value.
    pub(super) fn check_grounded(&mut self, id: AtomId) -> Result<(), Problem> {
        enum Visit {
            Enter(AtomId),
            Leave(AtomId),
        }
        let mut open = FxHashSet::default();
        let mut visits = vec![Visit::Enter(id)];
        while let Some(visit) = visits.pop() {
            match visit {
                Visit::Leave(id) => {
                    open.remove(&id);
                    self.grounded.insert(id);
                }
                Visit::Enter(id) if self.grounded.contains(&id) => {}
                Visit::Enter(id) => {
                    if !open.insert(id) {
                        return Err(self.circular(id));
                    }
                    visits.push(Visit::Leave(id));
                    let atom = self.get(id)?;
                    let branches = atom.any.iter().flat_map(|choice| choice.branches.iter());
                    visits.extend(atom.all.iter().chain(branches).map(|&id| Visit::Enter(id)));
                }
            }
        }
        Ok(())
    }

    fn circular(&self, id: AtomId) -> Problem {
        let reason = "circular reference: it leads back to itself for the same value";
        Problem::new(&self.place(id), "$ref", SchemaProblem::UnsupportedForm { reason })
    }

    pub(super) fn warn(&mut self, keyword: &Keyword<'_>, reason: impl Into<Cow<'static, str>>) {
        self.warnings.push(Warning::Keyword {
            pointer: keyword.pointer.clone(),
            keyword: keyword.name.to_owned(),
            reason: reason.into(),
        });
    }

    /// Reads the subschema at the place `pointer`.
    fn read(&mut self, pointer: &str) -> Result<Atom, Problem> {
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let schema = match self.document.get(pointer) {
            Some(Value::Object(schema)) => schema,
            Some(Value::Bool(true)) => return Ok(Atom::any()),
            Some(Value::Bool(false)) => return Ok(Atom::of(Types::NONE)),
            other => {
                let problem = SchemaProblem::malformed(
                    "a schema: an object or a boolean",
                    other.unwrap_or(&Value::Null),
                );
                return Err(Problem::new(pointer, last, problem));
            }
        };
        let Dialect { draft, stated } = self.document.dialect_at(pointer);
        let alone = draft <= Draft::D7 && schema.contains_key("$ref");
        let mut atom = Atom::any();
        for (name, value) in schema {
            let pointer_of = child_pointer(pointer, name);
            let keyword = Keyword { name, value, pointer: pointer_of, siblings: schema, draft, stated };
            if alone && name != "$ref" {
                if !ANNOTATIONS.contains(&name.as_str()) {
                    self.warn(&keyword, "ignored: up to draft 7, keywords beside `$ref` have no effect");
                }
                continue;
            }
            self.ledger.spend(32 + name.len() / 8)?;
            if !in_draft(&keyword) {
                self.warn(&keyword, "the schema's draft does not have this keyword");
                continue;
            }
            self.read_keyword(&mut atom, &keyword, pointer)?;
        }
        Ok(atom)
    }

    fn read_keyword(&mut self, atom: &mut Atom, keyword: &Keyword<'_>, schema: &str) -> Result<(), Problem> {
        match keyword.name {
            "type" | "enum" | "const" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum"
            | "multipleOf" | "divisibleBy" | "nullable" | "disallow" | "minLength" | "maxLength"
            | "pattern" | "format" => self.read_scalar(atom, keyword),
            "items" | "prefixItems" | "additionalItems" | "minItems" | "maxItems" | "uniqueItems"
            | "contains" | "minContains" | "maxContains" | "unevaluatedItems" => {
                self.read_array(atom, keyword)
            }
            "properties"
            | "required"
            | "additionalProperties"
            | "minProperties"
            | "maxProperties"
            | "patternProperties"
            | "propertyNames"
            | "unevaluatedProperties"
            | "dependencies"
            | "dependentRequired"
            | "dependentSchemas" => self.read_object(atom, keyword),
            "allOf" | "anyOf" | "oneOf" | "not" | "if" | "extends" | "$ref" | "$dynamicRef"
            | "$recursiveRef" => self.read_logic(atom, keyword, schema),
            _ if ANNOTATIONS.contains(&keyword.name) => Ok(()),
            _ => {
                self.warn(keyword, unknown_keyword(keyword.name));
                Ok(())
            }
        }
    }
}

/// Keywords that assert nothing, or that are read together with another keyword.
const ANNOTATIONS: [&str; 22] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$id",
    "$recursiveAnchor",
    "$schema",
    "$vocabulary",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "else",
    "examples",
    "id",
    "readOnly",
    "then",
    "title",
    "writeOnly",
];

/// Returns true if the keyword exists in the draft of its subschema. Annotations and unknown
/// keywords count as keywords of every draft.
fn in_draft(keyword: &Keyword<'_>) -> bool {
    let draft = keyword.draft;
    match keyword.name {
        "const" | "contains" | "propertyNames" => draft >= Draft::D6,
        "if" => draft >= Draft::D7,
        "dependentRequired"
        | "dependentSchemas"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "minContains"
        | "maxContains" => draft >= Draft::D2019,
        "$recursiveRef" => draft == Draft::D2019,
        "additionalItems" => draft <= Draft::D2019 || keyword.has_prefix_in_items(),
        "$dynamicRef" | "prefixItems" => draft >= Draft::D2020,
        "extends" | "disallow" => draft == Draft::D3,
        _ => true,
    }
}
