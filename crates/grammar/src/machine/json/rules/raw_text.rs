//! Raw strings: programs that match a string as it stands, together with the text after it.

use std::sync::Arc;

use super::automata::Automaton;
use super::notation::{Form, Level, PARTS};
use super::strings::of_language;
use super::{Writer, sequence};
use crate::argument_types::ValueTypes;
use crate::error::GrammarError;
use crate::ir::expr::{Expr, RuleId};
use crate::ir::json::program::{LanguageRule, TextRule};
use crate::ir::json::texts::Texts;
use crate::ir::text::{TextProgram, TextState};
use crate::shared_cache::{Charged, SharedCache};

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

/// Programs of raw strings that are kept for later schemas.
static RAW_TEXTS: SharedCache<ProgramKey, Charged<Arc<TextProgram>>> = SharedCache::new(16 << 20, 1 << 20);

/// Everything that a program of raw strings depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ProgramKey {
    /// The forbidden texts.
    avoid: Vec<String>,
    /// The text with which arrays and objects begin if they are not JSON.
    nested_open: Option<String>,
    /// The types whose texts are left out.
    rivals: ValueTypes,
    lengths: TextRule,
    /// The automaton of a pattern, and the maximum number of states. `None` if there is no pattern.
    pattern: Option<(Arc<Texts>, usize)>,
    /// The text after the string.
    lead: String,
}

impl ProgramKey {
    /// Returns the memory in bytes, with that of `program`.
    fn byte_len_with(&self, program: &TextProgram) -> usize {
        let texts = self.avoid.iter().chain(&self.nested_open).chain([&self.lead]);
        let texts: usize = texts.map(|text| text.len() + 32).sum();
        program.byte_len() + texts + self.pattern.as_ref().map_or(0, |(texts, _)| texts.byte_len())
    }
}

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
        let program = self.program_of(&text)?;
        let Some(program) = program else { return Ok(None) };
        let rule = self.rule("text");
        self.spend(1)?;
        if let Some(notated) = &mut self.notated {
            notated.texts.insert(text, (rule, program));
        }
        Ok(Some(rule))
    }

    /// Returns the program for some raw strings and the text after them. Returns `None` if there are no such
    /// strings.
    ///
    /// The strings of most tools have the same programs, so programs are kept for later compilations. A known
    /// program without a pattern costs no work, like an automaton of a format. One with a pattern costs the
    /// work that building it took.
    fn program_of(&mut self, text: &RawText) -> Result<Option<Arc<TextProgram>>, GrammarError> {
        let RawText { form, rivals, lead, .. } = text;
        let (avoid, nested_open) = self.avoided(*form);
        let (lengths, pattern) = match &text.content {
            Content::Lengths(lengths) => (lengths.clone(), None),
            Content::Language(rule) => {
                let LanguageRule { language, max, .. } = self.program.language_rules[*rule as usize];
                let texts = Arc::clone(&self.program.languages[language as usize]);
                (TextRule { min: 0, max }, Some((texts, self.limit.min(PARTS))))
            }
        };
        let key = ProgramKey {
            avoid: avoid.to_vec(),
            nested_open: nested_open.map(str::to_owned),
            rivals: *rivals,
            lengths,
            pattern,
            lead: lead.clone(),
        };
        let Some(notated) = &self.notated else { return Ok(None) };
        let ledger = notated.ledger;
        if let Some(known) = RAW_TEXTS.get(&key) {
            let program = known.charge(ledger);
            ledger.check()?;
            return Ok(Some(program));
        }
        let ProgramKey { lengths, pattern, .. } = &key;
        // Without a pattern, one automaton for the string and the text after it decides every byte.
        let allowed = self.allowed(*rivals, *form, pattern.is_none().then_some(lead))?;
        let (work, bytes) = (ledger.worked(), ledger.held());
        let of_pattern = match pattern {
            None => None,
            Some((texts, _)) => match self.text_of_language(text, texts, &allowed)? {
                Some(automaton) => Some(automaton),
                None => return Ok(None),
            },
        };
        let automaton = of_pattern.as_ref().unwrap_or(&allowed);
        let Some(program) = self.text_of(automaton, lengths, lead)? else { return Ok(None) };
        let work = if of_pattern.is_some() { ledger.worked() - work } else { 0 };
        let built_bytes = ledger.held().saturating_sub(bytes);
        let entry_bytes = key.byte_len_with(&program);
        let built = Charged { value: program, work, bytes: built_bytes };
        // Another thread may have built it, and programs share their masks only if they are one object.
        Ok(Some(RAW_TEXTS.insert(key, built, entry_bytes).value))
    }

    /// Returns the automaton of the raw strings of a pattern and the text after them. Returns `None` if there
    /// are no such strings. `allowed` is the automaton of all raw strings.
    fn text_of_language(
        &self,
        text: &RawText,
        language: &Texts,
        allowed: &Automaton,
    ) -> Result<Option<Automaton>, GrammarError> {
        let RawText { form, rivals, lead, .. } = text;
        let of_rule = of_language(language.dfa(), |label| label != 0);
        let limit = self.limit.min(PARTS);
        let (avoid, _) = self.avoided(*form);
        // Few languages have the characters of the texts after values.
        let is_free = |text: &String| text.chars().any(|c| !of_rule.reads(c));
        let both = if *rivals == ValueTypes::NONE && avoid.iter().all(is_free) {
            of_rule
        } else {
            of_rule.intersection(allowed, limit)?
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
        Ok(Some(automaton))
    }

    /// Returns the program of an automaton of strings followed by `lead`. `lengths` are those of the strings
    /// without `lead`.
    fn text_of(
        &self,
        automaton: &Automaton,
        lengths: &TextRule,
        lead: &str,
    ) -> Result<Option<Arc<TextProgram>>, GrammarError> {
        let Some(notated) = &self.notated else { return Ok(None) };
        let states = automaton.states.iter().map(|state| TextState {
            edges: state.edges.iter().map(|&(to, range)| (to as u32, range)).collect(),
            ends: state.ends,
        });
        let len = lead.chars().count() as u32;
        let lengths = (lengths.min.saturating_add(len), lengths.max.map(|max| max.saturating_add(len)));
        let program = TextProgram::new(states.collect(), automaton.start as u32, lengths, notated.ledger)?;
        Ok(program.map(Arc::new))
    }
}
