//! Rules for values in a [notation](crate::Notation) other than JSON.

use std::rc::Rc;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::automata::{Automaton, Chars, State};
use super::strings::{ALL, of_language, outside};
use super::{Shared, Writer, alternatives, sequence};
use crate::argument_types::{ArgumentTypes, ValueType, ValueTypes};
use crate::error::GrammarError;
use crate::ir::expr::{Expr, RuleId, Rules};
use crate::ir::json::program::{FREE, JsonProgram, LanguageRule, Node, NodeId, ObjectRule, TextRule};
use crate::ir::text::{TextProgram, TextState};
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::regular::{CharSet, ExprId, Expressions, TextDfa};

/// A notation with its texts as expressions. Each level of nesting has its notation.
pub(crate) struct Level {
    pub(crate) object: Around,
    pub(crate) array: Around,
    pub(crate) name_open: Expr,
    /// Texts around a value, by type.
    pub(crate) around: [MemberTexts; 6],
    pub(crate) strings: Strings,
    /// Texts of `null`, `false` and `true`.
    pub(crate) literals: [Vec<String>; 3],
    /// Index of the level inside of this one. `None` if nested values are JSON.
    pub(crate) nested: Option<usize>,
    pub(crate) names: crate::Names,
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
    Raw { avoid: Vec<String> },
    Quoted { open: Expr, close: Expr, avoid: Vec<String> },
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

/// Maximum number of states and transitions of an automaton of strings with a length or a pattern. Each
/// takes about a kilobyte as rules, so that more are better written as JSON.
const PARTS: usize = 1 << 15;

/// State of a [`Writer`] that writes a notation.
pub(super) struct Notated<'p> {
    pub(super) levels: &'p [Level],
    types: &'p ArgumentTypes,
    ledger: &'p Rc<Ledger>,
    embedded: Vec<Embedded>,
    /// The rules for raw strings, by what they match.
    texts: FxHashMap<RawText, (RuleId, Arc<TextProgram>)>,
    /// Automata of the allowed strings, by level, by the types whose texts are left out, and by the text
    /// that follows.
    allowed: FxHashMap<(usize, ValueTypes, Option<String>), Rc<Automaton>>,
}

/// What the program of raw strings depends on: the texts that they must not contain, the types that they
/// must not read like, their least and greatest length, and the text after them.
type TextKey = (Vec<String>, ValueTypes, (u32, Option<u32>), String);

/// The raw strings of a level with a length within `min..=max`, followed by the text `lead`. Strings that
/// read like a value of a type in `rivals` are left out.
#[derive(Clone, PartialEq, Eq, Hash)]
struct RawText {
    level: usize,
    rivals: ValueTypes,
    min: u32,
    max: Option<u32>,
    lead: String,
}

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
        for &object in &self.nodes[self.root as usize].objects {
            ways.push(writer.object(object, root)?);
        }
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
        // Types whose texts cannot be told from strings.
        let rivals = match (&self.notated, self.level) {
            (Some(notated), Some(0)) => notated.types.get(name),
            _ => ValueTypes::ALL,
        };
        let part = self.name_in(rule, name);
        self.member_in(level, (Expr::Literal(name.into()), &part), (node, rivals), rule)
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
        let names = names.intersection(&Automaton::of_names(&level.names), self.limit)?.trimmed();
        if !names.can_end() {
            return Err(GrammarError::notation("it cannot contain the names of undeclared members"));
        }
        let key = self.write(&names, rule, Chars::Plain)?;
        let part = self.name_in(rule, "value");
        self.member_in(level, (key, &part), (node, ValueTypes::ALL), rule)
    }

    /// Returns an expression for a member with the name `name` and the value `node`. New rules get the
    /// name `part`. A raw string must not read like a value of a type in `rivals`.
    fn member_in(
        &mut self,
        level: &'p Level,
        (name, part): (Expr, &str),
        (node, rivals): (NodeId, ValueTypes),
        rule: RuleId,
    ) -> Result<Expr, GrammarError> {
        let program = self.program;
        let values = &program.nodes[node as usize];
        let found = ValueType::ALL.into_iter().filter(|&kind| has(values, kind));
        let found: ValueTypes = found.collect();
        let is_raw = matches!(level.strings, Strings::Raw { .. });
        let start = [level.name_open.clone(), name];
        let texts = &level.around[0];
        if !is_raw && level.around.iter().all(|around| around == texts) {
            let value = Expr::Rule(self.node(node, part));
            let end = [Expr::Literal(texts.lead.clone().into()), texts.after.clone()];
            return Ok(sequence(start.into_iter().chain([texts.before.clone(), value]).chain(end)));
        }
        if !found.is_subset(rivals) {
            return Err(GrammarError::notation(format!("the types of {part:?} depend on other members")));
        }
        let string = &level.around[ValueType::String as usize];
        let rivals = ValueType::ALL.into_iter().filter(|&kind| {
            kind != ValueType::String && rivals.has(kind) && level.around[kind as usize] == *string
        });
        let rivals: ValueTypes = rivals.collect();
        let mut ways = Vec::new();
        for kind in ValueType::ALL.into_iter().filter(|&kind| found.has(kind)) {
            let MemberTexts { before, lead, after } = level.around[kind as usize].clone();
            let value = if kind == ValueType::String {
                self.strings(values, rivals, &lead, rule)?
            } else {
                sequence([self.typed(node, kind, rule)?, Expr::Literal(lead.into())])
            };
            ways.push(sequence([before, value, after]));
        }
        Ok(sequence(start.into_iter().chain([alternatives(ways)])))
    }

    /// Returns an expression for the values of `node` at the current level, whose rule is `rule`.
    pub(super) fn value_in(&mut self, node: NodeId, rule: RuleId) -> Result<Expr, GrammarError> {
        let program = self.program;
        let values = &program.nodes[node as usize];
        let mut ways = Vec::new();
        for kind in ValueType::ALL.into_iter().filter(|&kind| has(values, kind)) {
            ways.push(match kind {
                ValueType::String => self.strings(values, ValueTypes::NONE, "", rule)?,
                _ => self.typed(node, kind, rule)?,
            });
        }
        self.spend(ways.len())?;
        Ok(alternatives(ways))
    }

    /// Returns an expression for the values of `node` that have the type `kind`, which is not
    /// [`ValueType::String`].
    fn typed(&mut self, node: NodeId, kind: ValueType, rule: RuleId) -> Result<Expr, GrammarError> {
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
                let Some(nested) = level.nested else { return self.embedded(node, kind) };
                let outer = self.level.replace(nested);
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
                self.level = outer;
                alternatives(ways)
            }
        })
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
        let (Some(level), Some(index)) = (self.current(), self.level) else { return Ok(Expr::empty()) };
        let program = self.program;
        let mut ways = Vec::new();
        for &text in &node.texts {
            let TextRule { min, max } = program.texts[text as usize];
            if matches!(level.strings, Strings::Raw { .. }) {
                let lead = lead.to_owned();
                ways.push(self.raw_text(RawText { level: index, rivals, min, max, lead })?);
                continue;
            }
            if text == FREE {
                ways.push(self.any_string(index, rivals, lead)?);
                continue;
            }
            let lengths = Automaton::of_length(min, max, self.limit.min(PARTS))?;
            ways.push(self.strings_of(&lengths, rivals, lead, rule)?);
        }
        if let Some(words) = node.words {
            let kinds = ValueType::ALL.into_iter().filter(|&kind| rivals.has(kind) && has(node, kind));
            let present = kinds.collect();
            for (_, word) in program.words[words as usize].words() {
                ways.extend(self.word(level, &word, (rivals, present), lead)?);
            }
        }
        for &language in &node.languages {
            let LanguageRule { language, max, .. } = program.language_rules[language as usize];
            let dfa = program.languages[language as usize].dfa();
            let automaton = match max {
                None => of_language(dfa, |label| label != 0),
                Some(max) => self.bounded(dfa, max)?,
            };
            ways.push(self.strings_of(&automaton, rivals, lead, rule)?);
        }
        let strings = alternatives(ways);
        Ok(match &level.strings {
            Strings::Raw { .. } => strings,
            Strings::Quoted { open, close, .. } => sequence([open.clone(), strings, close.clone()]),
            Strings::Python => {
                let quote = || Expr::Literal(b"'".into());
                sequence([quote(), strings, quote()])
            }
        })
    }

    /// Returns a reference to the rule for any allowed string followed by `lead`.
    fn any_string(&mut self, level: usize, rivals: ValueTypes, lead: &str) -> Result<Expr, GrammarError> {
        let shared = Shared::Strings(level, rivals);
        if let Some(&known) = self.shared.get(&shared) {
            return Ok(Expr::Rule(known));
        }
        let rule = self.rule("text");
        self.shared.insert(shared, rule);
        let chars = self.chars_at(level);
        // One automaton for the string and the text after it decides every byte.
        let automaton = self.allowed(level, rivals, Some(lead))?;
        let expr = self.write(&automaton, rule, chars)?;
        self.define(rule, expr)?;
        Ok(Expr::Rule(rule))
    }

    /// Returns a reference to the rule for raw strings and the text after them.
    fn raw_text(&mut self, text: RawText) -> Result<Expr, GrammarError> {
        let known = self.notated.as_ref().and_then(|notated| notated.texts.get(&text));
        if let Some(&(rule, _)) = known {
            return Ok(Expr::Rule(rule));
        }
        let program = self.raw_program(&text)?;
        let rule = self.rule("text");
        self.spend(1)?;
        if let Some(notated) = &mut self.notated {
            notated.texts.insert(text, (rule, program));
        }
        Ok(Expr::Rule(rule))
    }

    /// Returns the program for raw strings and the text after them.
    ///
    /// The strings of most tools have the same programs, so small programs are built once per process.
    fn raw_program(&mut self, text: &RawText) -> Result<Arc<TextProgram>, GrammarError> {
        /// Maximum number of programs that are kept for later schemas, and their maximum size in bytes.
        const SHARED: (usize, usize) = (256, 1 << 15);
        static KNOWN: LazyLock<Mutex<FxHashMap<TextKey, Arc<TextProgram>>>> = LazyLock::new(Mutex::default);
        let lock = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let RawText { level, rivals, min, max, lead } = text;
        let avoid = self.avoided(*level).to_vec();
        let key = (avoid, *rivals, (*min, *max), lead.clone());
        if let Some(known) = lock().get(&key) {
            return Ok(Arc::clone(known));
        }
        // One automaton for the string and the text after it decides every byte.
        let automaton = self.allowed(*level, *rivals, Some(lead))?;
        let states = automaton.states.iter().map(|state| TextState {
            edges: state.edges.iter().map(|&(to, range)| (to as u32, range)).collect(),
            ends: state.ends,
        });
        let len = lead.chars().count() as u32;
        let lengths = (min.saturating_add(len), max.map(|max| max.saturating_add(len)));
        let none = || GrammarError::notation("every string of its length contains the text after the value");
        let ledger = self.notated.as_ref().ok_or_else(none)?.ledger;
        let program = TextProgram::new(states.collect(), automaton.start as u32, lengths, ledger)?;
        let program = Arc::new(program.ok_or_else(none)?);
        if program.byte_len() <= SHARED.1 {
            let mut known = lock();
            if known.len() >= SHARED.0 {
                known.clear();
            }
            known.insert(key, Arc::clone(&program));
        }
        Ok(program)
    }

    /// Returns the texts that the strings of a level must not contain.
    fn avoided(&self, level: usize) -> &'p [String] {
        match self.level_at(level).map(|level| &level.strings) {
            Some(Strings::Raw { avoid } | Strings::Quoted { avoid, .. }) => avoid,
            Some(Strings::Python) | None => &[],
        }
    }

    /// Returns an expression for the strings of an automaton that are allowed, followed by `lead`.
    fn strings_of(
        &mut self,
        automaton: &Automaton,
        rivals: ValueTypes,
        lead: &str,
        rule: RuleId,
    ) -> Result<Expr, GrammarError> {
        let level = self.level.unwrap_or_default();
        let allowed = self.allowed(level, rivals, None)?;
        let both = automaton.intersection(&allowed, self.limit.min(PARTS))?.trimmed();
        if !both.can_end() {
            return Err(GrammarError::notation(
                "every string of a pattern contains the text after the value",
            ));
        }
        let chars = self.chars_at(level);
        let strings = self.write(&both, rule, chars)?;
        Ok(sequence([strings, Expr::Literal(lead.into())]))
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
        let index = self.level.unwrap_or_default();
        if !self.allowed(index, ValueTypes::NONE, None)?.accepts(word) {
            return Err(GrammarError::notation(format!(
                "the string {word:?} contains the text after the value"
            )));
        }
        if !self.allowed(index, present, None)?.accepts(word) {
            return Ok(None);
        }
        if !self.allowed(index, rivals, None)?.accepts(word) {
            return Err(GrammarError::notation(format!("the string {word:?} may be read as another value")));
        }
        let text = match level.strings {
            Strings::Python => super::automata::python(word),
            Strings::Raw { .. } | Strings::Quoted { .. } => word.to_owned(),
        };
        Ok(Some(Expr::Literal((text + lead).into())))
    }

    fn chars_at(&self, level: usize) -> Chars {
        match self.level_at(level).map(|level| &level.strings) {
            Some(Strings::Python) => Chars::Python,
            _ => Chars::Plain,
        }
    }

    /// Returns the automaton of the strings that may be written at a level, without those that read
    /// like a value of a type in `rivals`. With `lead`, each string is followed by this text.
    fn allowed(
        &mut self,
        level: usize,
        rivals: ValueTypes,
        lead: Option<&str>,
    ) -> Result<Rc<Automaton>, GrammarError> {
        let avoid = self.avoided(level);
        let Some(notated) = &mut self.notated else { return Ok(Rc::default()) };
        let key = (level, rivals, lead.map(str::to_owned));
        if let Some(known) = notated.allowed.get(&key) {
            return Ok(Rc::clone(known));
        }
        let mut regular = Expressions::with_ledger(notated.ledger);
        let mut forbidden: Vec<ExprId> = avoid.iter().map(|text| containing(&mut regular, text)).collect();
        forbidden.extend(rivals_of(&mut regular, rivals));
        let forbidden = regular.any_of(forbidden);
        let mut allowed = regular.not(forbidden);
        if let Some(lead) = lead {
            let lead = regular.literal(lead);
            allowed = regular.concat(allowed, lead);
        }
        let dfa = TextDfa::new(&mut regular, &[allowed], STATES)?;
        let automaton = Rc::new(of_language(&dfa, |label| label != 0));
        notated.allowed.insert(key, Rc::clone(&automaton));
        Ok(automaton)
    }
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

fn is_writable(name: &str, names: &crate::Names) -> bool {
    match names {
        crate::Names::Without(reserved) => {
            let is_refused =
                |c: char| c.is_control() || reserved.contains(c) || (c.is_whitespace() && c != ' ');
            !name.is_empty() && name.trim() == name && !name.chars().any(is_refused)
        }
        crate::Names::Identifiers => {
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

/// Returns the languages of the texts that read like a value of a type in `rivals`.
fn rivals_of(regular: &mut Expressions, rivals: ValueTypes) -> Vec<ExprId> {
    let mut languages = Vec::new();
    for kind in ValueType::ALL.into_iter().filter(|&kind| rivals.has(kind)) {
        match kind {
            ValueType::Null => languages.extend(["null", "None"].map(|text| regular.literal(text))),
            ValueType::Boolean => {
                languages.extend(["true", "True", "false", "False"].map(|text| regular.literal(text)));
            }
            ValueType::Number => languages.push(number(regular)),
            ValueType::Array => languages.push(beginning(regular, '[')),
            ValueType::Object => languages.push(beginning(regular, '{')),
            ValueType::String => {}
        }
    }
    languages
}

/// Returns the language of all texts that begin with `c`.
fn beginning(regular: &mut Expressions, c: char) -> ExprId {
    let first = regular.class(CharSet::single(c));
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

impl Automaton {
    /// Returns the automaton of the names that a notation can write. Spaces occur only inside of names.
    fn of_names(names: &crate::Names) -> Self {
        let allowed = |low: u32, high: u32, is_allowed: &dyn Fn(char) -> bool| {
            let chars = (low..=high).filter_map(char::from_u32).filter(|&c| is_allowed(c));
            chars.map(|c| (1, (c.into(), c.into()))).collect::<Vec<_>>()
        };
        match names {
            crate::Names::Without(reserved) => {
                let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && !reserved.contains(c);
                // The last white space of Unicode is U+3000.
                let mut edges = allowed(0, 0x3000, &is_plain);
                edges.extend([(0x3001, 0xd7ff), (0xe000, 0x10_ffff)].map(|range| (1, range)));
                let space = (!reserved.contains(' ')).then_some((2, (0x20, 0x20)));
                let inside: Vec<_> = edges.iter().copied().chain(space).collect();
                let states = [(edges, false), (inside.clone(), true), (inside, false)];
                Self { states: states.map(|(edges, ends)| State { edges, ends }).into(), start: 0 }
            }
            crate::Names::Identifiers => {
                let is_letter = |c: char| c == '_' || c.is_ascii_alphabetic();
                let first = allowed(0, 0x7f, &is_letter);
                let rest = allowed(0, 0x7f, &|c| is_letter(c) || c.is_ascii_digit());
                let states = vec![State { edges: first, ends: false }, State { edges: rest, ends: true }];
                Self { states, start: 0 }
            }
        }
    }

    /// Returns the automaton of all texts of `min` to `max` characters.
    fn of_length(min: u32, max: Option<u32>, limit: usize) -> Result<Self, GrammarError> {
        let last = max.unwrap_or(min) as usize;
        if last >= limit {
            return Err(GrammarError::limit("states for the length of a string", last, limit));
        }
        let state = |chars: usize| {
            let next = if max.is_none() { (chars + 1).min(last) } else { chars + 1 };
            let goes_on = max.is_none() || chars < last;
            let edges = ALL.map(|range| (next, range)).into_iter().filter(|_| goes_on).collect();
            State { edges, ends: chars >= min as usize }
        };
        Ok(Self { states: (0..=last).map(state).collect(), start: 0 })
    }

    /// Returns the automaton of the texts of both automata, which are deterministic.
    fn intersection(&self, other: &Self, limit: usize) -> Result<Self, GrammarError> {
        let start = (self.start, other.start);
        let mut ids = FxHashMap::from_iter([(start, 0)]);
        let mut pairs = vec![start];
        let mut states = Vec::new();
        let mut size = 0;
        while let Some(&(a, b)) = pairs.get(states.len()) {
            let (a, b) = (&self.states[a], &other.states[b]);
            let mut edges = Vec::new();
            for &(to, (low, high)) in &a.edges {
                for &(other_to, (other_low, other_high)) in &b.edges {
                    let range = (low.max(other_low), high.min(other_high));
                    if range.0 > range.1 {
                        continue;
                    }
                    let next = *ids.entry((to, other_to)).or_insert_with(|| {
                        pairs.push((to, other_to));
                        pairs.len() - 1
                    });
                    edges.push((next, range));
                }
            }
            size += 1 + edges.len();
            if size > limit {
                return Err(GrammarError::limit("states of the strings of a place", size, limit));
            }
            states.push(State { edges, ends: a.ends && b.ends });
        }
        Ok(Self { states, start: 0 })
    }

    /// Reports whether the automaton, which is trimmed, has any text.
    fn can_end(&self) -> bool {
        self.states.get(self.start).is_some_and(|start| start.ends || !start.edges.is_empty())
    }

    /// Reports whether `text` is a text of the automaton.
    fn accepts(&self, text: &str) -> bool {
        let mut at = self.start;
        for c in text.chars().map(u32::from) {
            let edge = self
                .states
                .get(at)
                .and_then(|state| state.edges.iter().find(|(_, (low, high))| (*low..=*high).contains(&c)));
            let Some(&(to, _)) = edge else { return false };
            at = to;
        }
        self.states.get(at).is_some_and(|state| state.ends)
    }
}
