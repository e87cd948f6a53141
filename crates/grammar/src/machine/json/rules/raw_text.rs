//! Raw strings: programs that match a string as it stands, together with the text after it.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::automata::Automaton;
use super::notation::{Form, Level, PARTS};
use super::strings::of_language;
use super::{Writer, sequence};
use crate::argument_types::ValueTypes;
use crate::error::GrammarError;
use crate::ir::expr::{Expr, RuleId};
use crate::ir::json::program::{LanguageRule, TextRule};
use crate::ir::text::{TextProgram, TextState};

/// The raw strings of a level and form that have a content, followed by the text `lead`. Strings that read
/// like a value of a type in `rivals` are left out.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct RawText {
    level: usize,
    form: Form,
    rivals: ValueTypes,
    content: Content,
    lead: String,
}

/// The strings among which those without forbidden texts are allowed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Content {
    /// All strings of some lengths.
    Lengths(TextRule),
    /// The strings of the language rule with this index.
    Language(u32),
}

/// Kept programs of raw strings, each with the memory that building it took.
type KnownTexts = FxHashMap<TextKey, (Arc<TextProgram>, usize)>;

/// Key of a program of raw strings with bounded lengths. It has the forbidden texts, the opening of arrays
/// and objects, and the types to exclude. The length bounds and the text after the string follow.
type TextKey = (Vec<String>, Option<String>, ValueTypes, TextRule, String);

impl Writer<'_> {
    /// Returns expressions for raw strings with a content, followed by `lead`, in each form that has some of
    /// them.
    pub(super) fn raw_texts(
        &mut self,
        level: &Level,
        content: &Content,
        rivals: ValueTypes,
        lead: &str,
    ) -> Result<Vec<Expr>, GrammarError> {
        let mut ways = Vec::new();
        for &form in level.forms() {
            let (open, close) = self.around_form(form);
            let (rivals, lead) = (form.rivals(rivals), close + lead);
            let (level, content) = (self.level.unwrap_or_default(), content.clone());
            if let Some(rule) = self.raw_text(RawText { level, form, rivals, content, lead })? {
                ways.push(sequence([Expr::Literal(open.into()), Expr::Rule(rule)]));
            }
        }
        if ways.is_empty() {
            return Err(GrammarError::notation(match content {
                Content::Lengths(_) => "every string of its length contains the text after the value",
                Content::Language(_) => "every string of a pattern contains the text after the value",
            }));
        }
        Ok(ways)
    }

    /// Returns the rule for raw strings and the text after them. Returns `None` if there are no such
    /// strings.
    fn raw_text(&mut self, text: RawText) -> Result<Option<RuleId>, GrammarError> {
        let known = self.notated.as_ref().and_then(|notated| notated.texts.get(&text));
        if let Some(&(rule, _)) = known {
            return Ok(Some(rule));
        }
        let program = match &text.content {
            Content::Lengths(lengths) => self.text_of_lengths(&text, lengths)?,
            Content::Language(language) => self.text_of_language(&text, *language)?,
        };
        let Some(program) = program else { return Ok(None) };
        let rule = self.rule("text");
        self.spend(1)?;
        if let Some(notated) = &mut self.notated {
            notated.texts.insert(text, (rule, program));
        }
        Ok(Some(rule))
    }

    /// Returns the program for all raw strings of some lengths and the text after them.
    ///
    /// The strings of most tools have the same programs, so small programs are built once per process. A
    /// known program costs no work, like an automaton of a format.
    fn text_of_lengths(
        &mut self,
        text: &RawText,
        lengths: &TextRule,
    ) -> Result<Option<Arc<TextProgram>>, GrammarError> {
        /// Maximum number of programs that are kept for later schemas, and their maximum size in bytes.
        const SHARED: (usize, usize) = (256, 1 << 15);
        static KNOWN: LazyLock<Mutex<KnownTexts>> = LazyLock::new(Mutex::default);
        let lock = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let RawText { form, rivals, lead, .. } = text;
        let (avoid, nested_open) = self.avoided(*form);
        let key = (avoid.to_vec(), nested_open.map(str::to_owned), *rivals, lengths.clone(), lead.clone());
        let Some(notated) = &self.notated else { return Ok(None) };
        let ledger = notated.ledger;
        let known = lock().get(&key).cloned();
        if let Some((program, bytes)) = known {
            ledger.hold(bytes)?;
            return Ok(Some(program));
        }
        let bytes = ledger.held();
        // One automaton for the string and the text after it decides every byte.
        let automaton = self.allowed(*rivals, *form, Some(lead))?;
        let TextRule { min, max } = *lengths;
        let Some(program) = self.text_of(&automaton, (min, max), lead)? else { return Ok(None) };
        if program.byte_len() <= SHARED.1 {
            let mut known = lock();
            if known.len() >= SHARED.0 {
                known.clear();
            }
            let bytes = ledger.held().saturating_sub(bytes);
            // Another thread may have built the same program. Equal programs share their masks if they are one.
            let (known, _) = known.entry(key).or_insert_with(|| (program, bytes));
            return Ok(Some(Arc::clone(known)));
        }
        Ok(Some(program))
    }

    /// Returns the program for the raw strings of a language rule and the text after them.
    fn text_of_language(
        &mut self,
        text: &RawText,
        rule: u32,
    ) -> Result<Option<Arc<TextProgram>>, GrammarError> {
        let RawText { form, rivals, lead, .. } = text;
        let LanguageRule { language, max, .. } = self.program.language_rules[rule as usize];
        let of_rule = of_language(self.program.languages[language as usize].dfa(), |label| label != 0);
        let limit = self.limit.min(PARTS);
        let (avoid, _) = self.avoided(*form);
        // Few languages have the characters of the texts after values.
        let is_free = |text: &String| text.chars().any(|c| !of_rule.reads(c));
        let both = if *rivals == ValueTypes::NONE && avoid.iter().all(is_free) {
            of_rule
        } else {
            let allowed = self.allowed(*rivals, *form, None)?;
            of_rule.intersection(&allowed, limit)?
        };
        let both = both.trimmed();
        if !both.can_end() {
            return Ok(None);
        }
        let automaton = both.followed_by(lead, limit)?;
        let parts: usize = automaton.states.iter().map(|state| 1 + state.edges.len()).sum();
        if let Some(notated) = &self.notated {
            notated.ledger.spend(4 * parts)?;
        }
        self.text_of(&automaton, (0, max), lead)
    }

    /// Returns the program of an automaton of strings followed by `lead`. `min` and `max` bound the lengths
    /// of the strings without `lead`.
    fn text_of(
        &self,
        automaton: &Automaton,
        (min, max): (u32, Option<u32>),
        lead: &str,
    ) -> Result<Option<Arc<TextProgram>>, GrammarError> {
        let Some(notated) = &self.notated else { return Ok(None) };
        let states = automaton.states.iter().map(|state| TextState {
            edges: state.edges.iter().map(|&(to, range)| (to as u32, range)).collect(),
            ends: state.ends,
        });
        let len = lead.chars().count() as u32;
        let lengths = (min.saturating_add(len), max.map(|max| max.saturating_add(len)));
        let program = TextProgram::new(states.collect(), automaton.start as u32, lengths, notated.ledger)?;
        Ok(program.map(Arc::new))
    }
}
