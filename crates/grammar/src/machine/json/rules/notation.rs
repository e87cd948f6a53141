//! Rules for values in a [notation](crate::Notation) other than JSON.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::automata::{Automaton, Chars};
use super::raw_text::{Content, RawText};
use super::strings::{of_language, outside};
use super::{Place, Shared, What, Writer, alternatives, sequence};
use crate::argument_types::{ArgumentTypes, Names, RawSection, ValuePlace, ValueType, ValueTypes};
use crate::error::GrammarError;
use crate::ir::expr::{Expr, RuleId, Rules};
use crate::ir::json::program::{FREE, JsonProgram, LanguageRule, Node, NodeId, ObjectRule, TextRule};
use crate::ir::text::TextProgram;
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::regular::{CharSet, ExprId, Expressions, TextDfa};
use crate::shared_cache::SharedCache;

/// A notation with its texts as expressions. Each level of nesting has its notation.
pub(crate) struct Level {
    pub(crate) object: Around,
    pub(crate) array: Around,
    pub(crate) name_open: Expr,
    /// Text after the name that is repeated after a value.
    pub(crate) name_close: Option<Expr>,
    /// Name with which an item of an array is written like a member.
    pub(crate) item_name: Option<String>,
    /// Texts around a value, by type.
    pub(crate) around: [MemberTexts; 6],
    pub(crate) strings: Strings,
    /// Texts of `null`, `false` and `true`.
    pub(crate) literals: [Vec<String>; 3],
    /// Index of the level inside of this one. `None` if nested values are JSON.
    pub(crate) nested: Option<usize>,
    /// True if objects inside of this one are JSON, whatever the level of arrays is.
    pub(crate) json_objects: bool,
    pub(crate) names: Names,
}

/// Texts around the parts of an array or object.
pub(crate) struct Around {
    pub(crate) open: Expr,
    pub(crate) separator: Expr,
    pub(crate) close: Expr,
    pub(crate) empty: Expr,
}

/// Texts around the value of a member.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct MemberTexts {
    pub(crate) before: Expr,
    /// Plain text at the start of the text after the value.
    pub(crate) lead: String,
    /// The rest of the text after the value.
    pub(crate) after: Expr,
}

/// Strings of a level.
pub(crate) enum Strings {
    Raw { avoid: Vec<String>, nested_open: Option<String>, section: Option<RawSection> },
    Quoted { open: Expr, close: Expr, avoid: Vec<String> },
    Json,
    Python,
}

/// Rules for an object, and the values in it that are JSON.
pub(crate) struct Written {
    pub(crate) rules: Rules,
    pub(crate) embedded: Vec<Embedded>,
    /// The rules that match raw strings.
    pub(crate) texts: FxHashMap<RuleId, Arc<TextProgram>>,
}

/// A rule that matches the JSON texts of a node's arrays or objects.
#[derive(Clone, Copy)]
pub(crate) struct Embedded {
    pub(crate) rule: RuleId,
    pub(crate) node: NodeId,
    pub(crate) kinds: ValueTypes,
}

/// Maximum number of states of the automaton of the strings that a place may have.
const STATES: usize = 1 << 14;

/// Maximum number of states and transitions of an automaton of strings with a length or a pattern. Strings
/// with more are better written as JSON.
pub(super) const PARTS: usize = 1 << 15;

/// Form of the strings of a level.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Form {
    Plain,
    /// In a [`RawSection`].
    Section,
}

impl Level {
    /// Reports whether strings are raw text, so that the text of a value may have several types.
    pub(crate) const fn has_raw_text(&self) -> bool {
        matches!(self.strings, Strings::Raw { .. })
    }

    /// Returns the forms of strings.
    pub(super) const fn forms(&self) -> &'static [Form] {
        match self.strings {
            Strings::Raw { section: Some(_), .. } => &[Form::Plain, Form::Section],
            _ => &[Form::Plain],
        }
    }
}

impl Form {
    /// Returns the types in `rivals` whose texts may equal strings of this form.
    pub(super) const fn rivals(self, rivals: ValueTypes) -> ValueTypes {
        match self {
            Self::Plain => rivals,
            Self::Section => ValueTypes::NONE,
        }
    }
}

/// State of a [`Writer`] that writes a notation.
pub(super) struct Notated<'p> {
    pub(super) levels: &'p [Level],
    types: &'p ArgumentTypes,
    pub(super) ledger: &'p Rc<Ledger>,
    embedded: Vec<Embedded>,
    /// The rules for raw strings, by what they match.
    pub(super) texts: FxHashMap<RawText, (RuleId, Arc<TextProgram>)>,
    /// Automata of the allowed strings, by level, by form, by the types whose texts are left out, and by
    /// the text that follows.
    allowed: FxHashMap<(usize, ValueTypes, Form, Option<String>), Arc<Automaton>>,
}

/// Automata of allowed strings that are kept for later schemas.
static ALLOWED_STRINGS: SharedCache<AllowedKey, Arc<Automaton>> = SharedCache::new(8 << 20, 1 << 18);

/// Key of an automaton of allowed strings: the forbidden texts, the opening of arrays and objects, the types
/// to exclude, and the text after the string.
type AllowedKey = (Vec<String>, Option<String>, ValueTypes, Option<String>);

impl JsonProgram {
    /// Returns rules for the objects of the root, written in `levels`. The first level is that of the
    /// root. `types` are the types of the root's members.
    ///
    /// # Errors
    /// Returns an error if the notation cannot express the schema, or if there would be too many
    /// rules.
    pub(crate) fn to_rules_in(
        &self,
        levels: &[Level],
        types: &ArgumentTypes,
        limits: &Limits,
        ledger: &Rc<Ledger>,
    ) -> Result<Written, GrammarError> {
        let notated = Notated {
            levels,
            types,
            ledger,
            embedded: Vec::new(),
            texts: FxHashMap::default(),
            allowed: FxHashMap::default(),
        };
        let mut writer = Writer::new(self, limits, Some(notated));
        let root = writer.rule("arguments");
        let mut ways = Vec::new();
        writer.level = Some(0);
        (writer.types, writer.is_root) = (ValuePlace::ROOT, true);
        for &object in &self.nodes[self.root as usize].objects {
            ways.push(writer.object(object, root)?);
        }
        writer.is_root = false;
        writer.define(root, alternatives(ways))?;
        writer.write_nodes()?;
        let notated = writer.notated.take();
        let (embedded, texts) = notated.map(|notated| (notated.embedded, notated.texts)).unwrap_or_default();
        let rules_of_texts = texts.values().map(|(rule, _)| *rule);
        let fixed = embedded.iter().map(|embedded| embedded.rule).chain(rules_of_texts).collect();
        let (rules, ids) = writer.finish(root, &fixed);
        let embedded = embedded
            .into_iter()
            .filter_map(|embedded| Some(Embedded { rule: *ids.get(&embedded.rule)?, ..embedded }));
        let texts = texts.into_values().filter_map(|(rule, text)| Some((*ids.get(&rule)?, text)));
        Ok(Written { rules, embedded: embedded.collect(), texts: texts.collect() })
    }
}

impl<'p> Writer<'p> {
    /// Returns the level at `index`.
    pub(super) fn level_at(&self, index: usize) -> Option<&'p Level> {
        self.notated.as_ref()?.levels.get(index)
    }

    /// Returns the level of the array or object that is being written. `None` if it is JSON.
    pub(super) fn current(&self) -> Option<&'p Level> {
        self.level_at(self.level?)
    }

    /// Returns an expression for a declared member of an object in a notation.
    pub(super) fn declared_in(
        &mut self,
        level: &'p Level,
        (name, node): (&str, NodeId),
        rule: RuleId,
    ) -> Result<Expr, GrammarError> {
        if !is_writable(name, &level.names) {
            return Err(GrammarError::notation(format!("it cannot contain the name {name:?}")));
        }
        if self.is_like_an_item(level) && level.item_name.as_deref() == Some(name) {
            return Err(GrammarError::notation(format!(
                "objects with the name {name:?} cannot be told from arrays"
            )));
        }
        let types = self.notated.as_ref().map_or(ValuePlace::ANY, |all| all.types.member(self.types, name));
        let part = self.name_in(rule, name);
        self.member_in(level, (Expr::Literal(name.into()), &part), (node, types), rule)
    }

    /// Returns an expression for an undeclared member with the label `label` and the value `node`.
    ///
    /// Rules cannot forbid that a name is repeated. A reader keeps one of such members, so their number
    /// must not matter.
    pub(super) fn other_in(
        &mut self,
        level: &'p Level,
        object: &ObjectRule,
        (label, node): (u32, NodeId),
        rule: RuleId,
    ) -> Result<Expr, GrammarError> {
        if object.tracks() && (object.counts() || object.obligations > 0) {
            return Err(GrammarError::notation("the number of undeclared members is bounded"));
        }
        let names = match object.labels {
            Some(labels) => {
                let dfa = self.program.languages[labels as usize].dfa();
                of_language(dfa, |other| other == label).trimmed()
            }
            None => outside(&object.names),
        };
        let mut names = names.intersection(&Automaton::of_names(&level.names), self.limit)?;
        if let Some(item) = level.item_name.as_deref().filter(|_| self.is_like_an_item(level)) {
            names = names.intersection(&self.all_except(item)?, self.limit)?;
        }
        let names = names.trimmed();
        if !names.can_end() {
            return Err(GrammarError::notation("it cannot contain the names of undeclared members"));
        }
        let key = self.write(&names, rule, Chars::Plain)?;
        let part = self.name_in(rule, "value");
        let types = self.notated.as_ref().map_or(ValuePlace::ANY, |all| all.types.other(self.types));
        self.member_in(level, (key, &part), (node, types), rule)
    }

    /// Reports whether a reader may expect an array where an object is being written. None of the members
    /// may then have the name of an item.
    fn is_like_an_item(&self, level: &Level) -> bool {
        let types = self.notated.as_ref().map_or(ValueTypes::NONE, |all| all.types.types(self.types));
        level.item_name.is_some() && !self.is_root && types.has(ValueType::Array)
    }

    /// Returns the automaton of all texts except `text`.
    fn all_except(&self, text: &str) -> Result<Automaton, GrammarError> {
        let Some(notated) = &self.notated else { return Ok(Automaton::default()) };
        let mut regular = Expressions::with_ledger(notated.ledger);
        let text = regular.literal(text);
        let others = regular.not(text);
        let dfa = TextDfa::new(&mut regular, &[others], STATES)?;
        Ok(of_language(&dfa, |label| label != 0))
    }

    /// Returns the rule of the values of `node` as items of the array that is being written, or as values of
    /// undeclared members in JSON. A new rule gets the name `name`.
    pub(super) fn item_or_value(&mut self, node: NodeId, name: &str) -> RuleId {
        let names_items = self.current().is_some_and(|level| level.item_name.is_some());
        let types = self.notated.as_ref().map_or(ValuePlace::ANY, |all| all.types.item(self.types));
        if names_items {
            self.place(Place { node, level: self.level, types, what: What::Item }, name)
        } else {
            self.node(node, name)
        }
    }

    /// Returns an expression for the item of an array whose items are written like members.
    pub(super) fn item_in(&mut self, node: NodeId, rule: RuleId) -> Result<Expr, GrammarError> {
        let Some(level) = self.current() else { return Ok(Expr::empty()) };
        let name = Expr::Literal(level.item_name.as_deref().unwrap_or_default().into());
        self.member_in(level, (name, "item"), (node, self.types), rule)
    }

    /// Returns an expression for a member with the name `name` and the value `node`. New rules get the
    /// name `part`. A reader expects the types of the place `types`, so that a raw string must not read
    /// like a value of another one of them.
    fn member_in(
        &mut self,
        level: &'p Level,
        (name, part): (Expr, &str),
        (node, types): (NodeId, ValuePlace),
        rule: RuleId,
    ) -> Result<Expr, GrammarError> {
        let program = self.program;
        let values = &program.nodes[node as usize];
        let found = ValueType::ALL.into_iter().filter(|&kind| has(values, kind));
        let found: ValueTypes = found.collect();
        let is_raw = matches!(level.strings, Strings::Raw { .. });
        let again = level.name_close.clone().map(|close| [name.clone(), close]);
        let again: Vec<Expr> = again.into_iter().flatten().collect();
        let start = [level.name_open.clone(), name];
        let texts = &level.around[0];
        if !is_raw && level.around.iter().all(|around| around == texts) {
            let value = Expr::Rule(self.node(node, part));
            let end = [Expr::Literal(texts.lead.clone().into()), texts.after.clone()];
            let member = start.into_iter().chain([texts.before.clone(), value]).chain(end).chain(again);
            return Ok(sequence(member));
        }
        let expected = self.notated.as_ref().map_or(ValueTypes::ALL, |all| all.types.types(types));
        if !found.is_subset(expected) {
            return Err(GrammarError::notation(format!("the types of {part:?} depend on other members")));
        }
        // Types whose texts cannot be told from strings.
        let string = &level.around[ValueType::String as usize];
        let rivals = ValueType::ALL.into_iter().filter(|&kind| {
            let has_text = kind != ValueType::Null || level.literals[0].iter().any(|text| !text.is_empty());
            let is_alike = level.around[kind as usize] == *string;
            kind != ValueType::String && expected.has(kind) && is_alike && has_text
        });
        let rivals: ValueTypes = rivals.collect();
        let mut ways = Vec::new();
        for kind in ValueType::ALL.into_iter().filter(|&kind| found.has(kind)) {
            let MemberTexts { before, lead, after } = level.around[kind as usize].clone();
            let is_filled = self.empty_text_is_taken(level, kind, expected);
            let value = match kind {
                ValueType::String => self.strings(values, rivals, &lead, rule)?,
                ValueType::Null if is_filled => continue,
                _ => {
                    let value = self.typed(node, kind, (types, is_filled), rule)?;
                    sequence([value, Expr::Literal(lead.into())])
                }
            };
            ways.push(sequence([before, value, after]));
        }
        if ways.is_empty() {
            return Err(GrammarError::notation(format!(
                "`null` at {part:?} cannot be told from other values"
            )));
        }
        Ok(sequence(start.into_iter().chain([alternatives(ways)]).chain(again)))
    }

    /// Reports whether the empty text of the type `kind` stands for a value of another type in
    /// `expected`.
    fn empty_text_is_taken(&self, level: &Level, kind: ValueType, expected: ValueTypes) -> bool {
        let nested = level.nested.and_then(|nested| self.level_at(nested));
        let is_empty = |kind: ValueType| match kind {
            ValueType::String => level.has_raw_text(),
            ValueType::Array => nested.is_some_and(|level| is_nothing(&level.array.empty)),
            ValueType::Object => nested.is_some_and(|level| is_nothing(&level.object.empty)),
            ValueType::Null => level.literals[0].iter().any(String::is_empty),
            ValueType::Boolean | ValueType::Number => false,
        };
        let order = [ValueType::String, ValueType::Array, ValueType::Object, ValueType::Null];
        let mut before = order.into_iter().take_while(|&other| other != kind);
        let around = &level.around[kind as usize];
        let takes = |other: ValueType| {
            expected.has(other) && is_empty(other) && level.around[other as usize] == *around
        };
        is_empty(kind) && before.any(takes)
    }

    /// Returns an expression for the values of `node` at the current level, whose rule is `rule`.
    pub(super) fn value_in(&mut self, node: NodeId, rule: RuleId) -> Result<Expr, GrammarError> {
        let program = self.program;
        let values = &program.nodes[node as usize];
        let mut ways = Vec::new();
        for kind in ValueType::ALL.into_iter().filter(|&kind| has(values, kind)) {
            ways.push(match kind {
                ValueType::String => self.strings(values, ValueTypes::NONE, "", rule)?,
                _ => self.typed(node, kind, (ValuePlace::ANY, false), rule)?,
            });
        }
        self.spend(ways.len())?;
        Ok(alternatives(ways))
    }

    /// Returns an expression for the values of `node` that have the type `kind`, which is not
    /// [`ValueType::String`]. The values are at the place `types`. If `is_filled` is true, arrays and
    /// objects must not be empty.
    fn typed(
        &mut self,
        node: NodeId,
        kind: ValueType,
        (types, is_filled): (ValuePlace, bool),
        rule: RuleId,
    ) -> Result<Expr, GrammarError> {
        let program = self.program;
        let values = &program.nodes[node as usize];
        let Some(level) = self.current() else { return Ok(Expr::empty()) };
        let texts = |texts: &Vec<String>| {
            alternatives(texts.iter().map(|text| Expr::Literal(text.clone().into())).collect())
        };
        let [null, no, yes] = &level.literals;
        Ok(match kind {
            ValueType::Null => texts(null),
            ValueType::Boolean => {
                let ways = values.bools.into_iter().zip([no, yes]).filter(|(present, _)| *present);
                alternatives(ways.map(|(_, way)| texts(way)).collect())
            }
            ValueType::Number => values.number.map_or(Ok(Expr::empty()), |number| self.number(number))?,
            ValueType::String => Expr::empty(),
            ValueType::Array | ValueType::Object => {
                let is_json = kind == ValueType::Object && level.json_objects;
                let Some(nested) = level.nested.filter(|_| !is_json) else {
                    return self.embedded(node, kind);
                };
                let is_raw = self.level_at(nested).is_some_and(Level::has_raw_text);
                let types = if is_raw { types } else { ValuePlace::ANY };
                let what = What::Filled(kind, is_filled);
                let name = self.name_in(rule, if kind == ValueType::Array { "array" } else { "object" });
                Expr::Rule(self.place(Place { node, level: Some(nested), types, what }, &name))
            }
        })
    }

    /// Returns an expression for the arrays or objects of `node` at the current level.
    pub(super) fn containers_in(
        &mut self,
        node: NodeId,
        kind: ValueType,
        rule: RuleId,
    ) -> Result<Expr, GrammarError> {
        let program = self.program;
        let values = &program.nodes[node as usize];
        let mut ways = Vec::new();
        if kind == ValueType::Array {
            for &array in &values.arrays {
                ways.push(self.array(array, rule)?);
            }
        } else {
            for &object in &values.objects {
                ways.push(self.object(object, rule)?);
            }
        }
        self.spend(ways.len())?;
        Ok(alternatives(ways))
    }

    /// Returns a reference to a rule for the arrays or objects of `node` as JSON.
    fn embedded(&mut self, node: NodeId, kind: ValueType) -> Result<Expr, GrammarError> {
        let shared = Shared::Json(node, kind);
        if let Some(&known) = self.shared.get(&shared) {
            return Ok(Expr::Rule(known));
        }
        let rule = self.rule("json");
        self.shared.insert(shared, rule);
        self.spend(1)?;
        if let Some(notated) = &mut self.notated {
            notated.embedded.push(Embedded { rule, node, kinds: ValueTypes::NONE.with(kind) });
        }
        Ok(Expr::Rule(rule))
    }

    /// Returns an expression for the strings of a node, followed by the text `lead`. A string that
    /// reads like a value of a type in `rivals` is left out.
    fn strings(
        &mut self,
        node: &Node,
        rivals: ValueTypes,
        lead: &str,
        rule: RuleId,
    ) -> Result<Expr, GrammarError> {
        let Some(level) = self.current() else { return Ok(Expr::empty()) };
        let program = self.program;
        let mut ways = Vec::new();
        for &text in &node.texts {
            let TextRule { min, max } = program.texts[text as usize];
            if level.has_raw_text() {
                let content = Content::Lengths(TextRule { min, max });
                ways.extend(self.raw_texts(level, &content, rivals, lead)?);
                continue;
            }
            if text == FREE {
                ways.push(self.any_string(rivals, lead)?);
                continue;
            }
            let lengths = Automaton::of_length(min, max, self.limit.min(PARTS))?;
            ways.push(self.strings_of(&lengths, (rivals, lead), rule)?);
        }
        if let Some(words) = node.words {
            let kinds = ValueType::ALL.into_iter().filter(|&kind| rivals.has(kind) && has(node, kind));
            let present = kinds.collect();
            for (_, word) in program.words[words as usize].words() {
                ways.extend(self.word(level, &word, (rivals, present), lead)?);
            }
        }
        for &language in &node.languages {
            if level.has_raw_text() {
                ways.extend(self.raw_texts(level, &Content::Language(language), rivals, lead)?);
                continue;
            }
            let LanguageRule { language, max, .. } = program.language_rules[language as usize];
            let dfa = program.languages[language as usize].dfa();
            let automaton = match max {
                None => of_language(dfa, |label| label != 0),
                Some(max) => self.bounded(dfa, max)?,
            };
            ways.push(self.strings_of(&automaton, (rivals, lead), rule)?);
        }
        let strings = alternatives(ways);
        Ok(match &level.strings {
            Strings::Raw { .. } => strings,
            Strings::Quoted { open, close, .. } => sequence([open.clone(), strings, close.clone()]),
            Strings::Json | Strings::Python => {
                let quote = if matches!(level.strings, Strings::Json) { b"\"" } else { b"'" };
                let quote = || Expr::Literal(quote.into());
                sequence([quote(), strings, quote()])
            }
        })
    }

    /// Returns a reference to the rule for any allowed string followed by `lead`. The strings are not raw.
    fn any_string(&mut self, rivals: ValueTypes, lead: &str) -> Result<Expr, GrammarError> {
        let Some(level) = self.level else { return Ok(Expr::empty()) };
        let shared = Shared::Strings(level, rivals);
        if let Some(&known) = self.shared.get(&shared) {
            return Ok(Expr::Rule(known));
        }
        let rule = self.rule("text");
        self.shared.insert(shared, rule);
        let chars = self.chars_at(level);
        // One automaton for the string and the text after it decides every byte.
        let automaton = self.allowed(rivals, Form::Plain, Some(lead))?;
        let text = self.write(&automaton, rule, chars)?;
        self.define(rule, text)?;
        Ok(Expr::Rule(rule))
    }

    /// Returns the texts that the strings of the current level must not contain in a form, and the text
    /// with which arrays and objects begin if they are not JSON.
    pub(super) fn avoided(&self, form: Form) -> (&'p [String], Option<&'p str>) {
        match (self.current().map(|level| &level.strings), form) {
            (Some(Strings::Raw { section: Some(section), .. }), Form::Section) => {
                (std::slice::from_ref(&section.close), None)
            }
            (Some(Strings::Raw { avoid, nested_open, .. }), _) => (avoid, nested_open.as_deref()),
            (Some(Strings::Quoted { avoid, .. }), _) => (avoid, None),
            (Some(Strings::Json | Strings::Python) | None, _) => (&[], None),
        }
    }

    /// Returns an expression for the strings of an automaton followed by `lead`. The strings are not raw.
    fn strings_of(
        &mut self,
        automaton: &Automaton,
        (rivals, lead): (ValueTypes, &str),
        rule: RuleId,
    ) -> Result<Expr, GrammarError> {
        let allowed = self.allowed(rivals, Form::Plain, None)?;
        let both = automaton.intersection(&allowed, self.limit.min(PARTS))?.trimmed();
        if !both.can_end() {
            return Err(GrammarError::notation(
                "every string of a pattern contains the text after the value",
            ));
        }
        let chars = self.chars_at(self.level.unwrap_or_default());
        let strings = self.write(&both, rule, chars)?;
        Ok(sequence([strings, Expr::Literal(lead.into())]))
    }

    /// Returns the texts before and after strings of a form.
    pub(super) fn around_form(&self, form: Form) -> (String, String) {
        match (form, self.current().map(|level| &level.strings)) {
            (Form::Section, Some(Strings::Raw { section: Some(section), .. })) => {
                (section.open.clone(), section.close.clone())
            }
            _ => Default::default(),
        }
    }

    /// Returns an expression for one string followed by `lead`. `None` if it reads like a value of
    /// another type in `present`, the types in `rivals` of which there are values.
    fn word(
        &mut self,
        level: &Level,
        word: &str,
        (rivals, present): (ValueTypes, ValueTypes),
        lead: &str,
    ) -> Result<Option<Expr>, GrammarError> {
        let plain = |writer: &mut Self, rivals| -> Result<bool, GrammarError> {
            Ok(writer.allowed(rivals, Form::Plain, None)?.accepts(word))
        };
        if level.forms().contains(&Form::Section)
            && !plain(self, rivals)?
            && self.allowed(ValueTypes::NONE, Form::Section, None)?.accepts(word)
        {
            let (open, close) = self.around_form(Form::Section);
            return Ok(Some(Expr::Literal(format!("{open}{word}{close}{lead}").into())));
        }
        if !plain(self, ValueTypes::NONE)? {
            return Err(GrammarError::notation(format!(
                "the string {word:?} contains the text after the value"
            )));
        }
        if !plain(self, present)? {
            return Ok(None);
        }
        if !plain(self, rivals)? {
            return Err(GrammarError::notation(format!("the string {word:?} may be read as another value")));
        }
        let text = match level.strings {
            Strings::Json => json_escaped(word),
            Strings::Python => crate::python::escaped(word),
            Strings::Raw { .. } | Strings::Quoted { .. } => word.to_owned(),
        };
        Ok(Some(Expr::Literal((text + lead).into())))
    }

    fn chars_at(&self, level: usize) -> Chars {
        match self.level_at(level).map(|level| &level.strings) {
            Some(Strings::Json) => Chars::Json,
            Some(Strings::Python) => Chars::Python,
            _ => Chars::Plain,
        }
    }

    /// Returns the automaton of the strings that may be written in a form at the current level, without
    /// those that read like a value of a type in `rivals`. With `lead`, each string is followed by this
    /// text.
    ///
    /// Most tools have the same automata, so they are kept for later compilations. A known one costs no work.
    pub(super) fn allowed(
        &mut self,
        rivals: ValueTypes,
        form: Form,
        lead: Option<&str>,
    ) -> Result<Arc<Automaton>, GrammarError> {
        let (avoid, nested_open) = self.avoided(form);
        let level = self.level.unwrap_or_default();
        let Some(notated) = &mut self.notated else { return Ok(Arc::default()) };
        let own_key = (level, rivals, form, lead.map(str::to_owned));
        if let Some(known) = notated.allowed.get(&own_key) {
            return Ok(Arc::clone(known));
        }
        let key = (avoid.to_vec(), nested_open.map(str::to_owned), rivals, lead.map(str::to_owned));
        let automaton = if let Some(known) = ALLOWED_STRINGS.get(&key) {
            known
        } else {
            let automaton = Arc::new(allowed(&key, notated.ledger)?);
            let texts = key.0.iter().chain(&key.1).chain(&key.3);
            let bytes = automaton.byte_len() + texts.map(|text| text.len() + 32).sum::<usize>();
            ALLOWED_STRINGS.insert(key, automaton, bytes)
        };
        notated.allowed.insert(own_key, Arc::clone(&automaton));
        Ok(automaton)
    }
}

/// Builds the automaton of the allowed strings of `key`.
fn allowed(key: &AllowedKey, ledger: &Rc<Ledger>) -> Result<Automaton, GrammarError> {
    let (avoid, nested_open, rivals, lead) = key;
    let mut regular = Expressions::with_ledger(ledger);
    let mut forbidden: Vec<ExprId> = avoid.iter().map(|text| containing(&mut regular, text)).collect();
    forbidden.extend(rivals_of(&mut regular, *rivals, nested_open.as_deref()));
    let forbidden = regular.any_of(forbidden);
    let mut allowed = regular.not(forbidden);
    if let Some(lead) = lead {
        let lead = regular.literal(lead);
        allowed = regular.concat(allowed, lead);
    }
    let dfa = TextDfa::new(&mut regular, &[allowed], STATES)?;
    Ok(of_language(&dfa, |label| label != 0))
}

/// Reports whether a node has values of the type `kind`.
pub(super) const fn has(node: &Node, kind: ValueType) -> bool {
    match kind {
        ValueType::Null => node.null,
        ValueType::Boolean => node.bools[0] || node.bools[1],
        ValueType::Number => node.number.is_some(),
        ValueType::String => !node.texts.is_empty() || node.words.is_some() || !node.languages.is_empty(),
        ValueType::Array => !node.arrays.is_empty(),
        ValueType::Object => !node.objects.is_empty(),
    }
}

/// Reports whether an expression is the empty text.
fn is_nothing(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(text) => text.is_empty(),
        Expr::Sequence(parts) => parts.iter().all(is_nothing),
        _ => false,
    }
}

fn is_writable(name: &str, names: &Names) -> bool {
    match names {
        Names::Without(reserved) => {
            let is_refused =
                |c: char| c.is_control() || reserved.contains(c) || (c.is_whitespace() && c != ' ');
            !name.is_empty() && name.trim() == name && !name.chars().any(is_refused)
        }
        Names::Tags => {
            let is_allowed = |(at, c): (usize, char)| Names::is_in_tags(c, at == 0);
            !name.is_empty() && name.char_indices().all(is_allowed)
        }
        Names::Identifiers => {
            let is_letter = |c: char| c == '_' || c.is_ascii_alphabetic();
            name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
        }
    }
}

/// Returns the language of all texts that contain `text`.
fn containing(regular: &mut Expressions, text: &str) -> ExprId {
    let text = regular.literal(text);
    let rest = regular.concat(text, Expressions::EVERYTHING);
    regular.concat(Expressions::EVERYTHING, rest)
}

/// Returns the languages of the texts that read like a value of a type in `rivals`. `nested_open` is the
/// text with which arrays and objects begin if they are not JSON.
fn rivals_of(regular: &mut Expressions, rivals: ValueTypes, nested_open: Option<&str>) -> Vec<ExprId> {
    let mut languages = Vec::new();
    for kind in ValueType::ALL.into_iter().filter(|&kind| rivals.has(kind)) {
        match kind {
            ValueType::Null => languages.extend(["null", "None"].map(|text| regular.literal(text))),
            ValueType::Boolean => {
                languages.extend(["true", "True", "false", "False"].map(|text| regular.literal(text)));
            }
            ValueType::Number => languages.push(number(regular)),
            ValueType::Array => languages.push(beginning(regular, nested_open.unwrap_or("["))),
            ValueType::Object => languages.push(beginning(regular, nested_open.unwrap_or("{"))),
            ValueType::String => {}
        }
    }
    languages
}

/// Returns the language of all texts that begin with `text`.
fn beginning(regular: &mut Expressions, text: &str) -> ExprId {
    let first = regular.literal(text);
    regular.concat(first, Expressions::EVERYTHING)
}

/// Returns the language of the numbers of JSON.
fn number(regular: &mut Expressions) -> ExprId {
    let class = |regular: &mut Expressions, ranges: &[(char, char)]| {
        let set = CharSet::new(ranges.iter().copied());
        regular.class(set)
    };
    let digit = class(regular, &[('0', '9')]);
    let digits = regular.repeat(digit, 1, None);
    let more = regular.repeat(digit, 0, None);
    let first = class(regular, &[('1', '9')]);
    let long = regular.concat(first, more);
    let zero = class(regular, &[('0', '0')]);
    let whole = regular.any_of(vec![zero, long]);
    let point = class(regular, &[('.', '.')]);
    let fraction = regular.concat(point, digits);
    let e = class(regular, &[('e', 'e'), ('E', 'E')]);
    let sign = class(regular, &[('+', '+'), ('-', '-')]);
    let sign = regular.repeat(sign, 0, Some(1));
    let exponent = regular.concat(sign, digits);
    let exponent = regular.concat(e, exponent);
    let minus = class(regular, &[('-', '-')]);
    let parts = [(minus, 0), (whole, 1), (fraction, 0), (exponent, 0)];
    parts.into_iter().rev().fold(Expressions::EMPTY, |rest, (part, min)| {
        let part = regular.repeat(part, min, Some(1));
        regular.concat(part, rest)
    })
}

/// Returns the text of a JSON string without its quotes.
fn json_escaped(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json[1..json.len() - 1].to_owned()
}
