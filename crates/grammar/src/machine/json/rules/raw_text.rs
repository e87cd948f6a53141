//! Raw strings: programs that match a string as it stands, together with the text after it.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

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
#[derive(Default)]
struct KnownTexts {
    /// Each program comes with the memory that building it took.
    programs: FxHashMap<TextKey, (Arc<TextProgram>, usize)>,
    /// Memory of the programs in bytes.
    bytes: usize,
}

/// Everything that a program of raw strings depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct TextKey {
    /// The forbidden texts.
    avoid: Vec<String>,
    /// The text with which arrays and objects begin if they are not JSON.
    nested_open: Option<String>,
    /// The types whose texts are left out.
    rivals: ValueTypes,
    lengths: TextRule,
    /// The automaton of the strings. `None` if they are all strings of these lengths.
    language: Option<Arc<Texts>>,
    /// The text after the string.
    lead: String,
}

impl KnownTexts {
    /// Maximum memory of all programs, in bytes.
    const MOST_BYTES: usize = 16 << 20;
    /// Maximum memory of one program, in bytes.
    const LARGEST: usize = 1 << 20;

    fn lock() -> MutexGuard<'static, Self> {
        static KNOWN: LazyLock<Mutex<KnownTexts>> = LazyLock::new(Mutex::default);
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a program, unless it is too large. Returns the program that is kept for `key`, since programs share
    /// their masks only if they are one.
    fn insert(key: TextKey, program: Arc<TextProgram>, built_bytes: usize) -> Arc<TextProgram> {
        let bytes = program.byte_len() + key.language.as_ref().map_or(0, |language| language.byte_len());
        if bytes > Self::LARGEST {
            return program;
        }
        let mut known = Self::lock();
        if known.bytes > Self::MOST_BYTES {
            *known = Self::default();
        }
        known.bytes += bytes;
        Arc::clone(&known.programs.entry(key).or_insert((program, built_bytes)).0)
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
    /// The strings of most tools have the same programs, so programs are built once per process. A known program
    /// costs no work, like an automaton of a format.
    fn program_of(&mut self, text: &RawText) -> Result<Option<Arc<TextProgram>>, GrammarError> {
        let RawText { form, rivals, lead, .. } = text;
        let (avoid, nested_open) = self.avoided(*form);
        let (lengths, language) = match &text.content {
            Content::Lengths(lengths) => (lengths.clone(), None),
            Content::Language(rule) => {
                let LanguageRule { language, max, .. } = self.program.language_rules[*rule as usize];
                (TextRule { min: 0, max }, Some(Arc::clone(&self.program.languages[language as usize])))
            }
        };
        let key = TextKey {
            avoid: avoid.to_vec(),
            nested_open: nested_open.map(str::to_owned),
            rivals: *rivals,
            lengths,
            language,
            lead: lead.clone(),
        };
        let Some(notated) = &self.notated else { return Ok(None) };
        let ledger = notated.ledger;
        let known = KnownTexts::lock().programs.get(&key).cloned();
        if let Some((program, bytes)) = known {
            ledger.hold(bytes)?;
            return Ok(Some(program));
        }
        let bytes = ledger.held();
        let automaton = match &key.language {
            // One automaton for the string and the text after it decides every byte.
            None => self.allowed(*rivals, *form, Some(lead))?,
            Some(language) => match self.text_of_language(text, language)? {
                Some(automaton) => Arc::new(automaton),
                None => return Ok(None),
            },
        };
        let Some(program) = self.text_of(&automaton, &key.lengths, lead)? else { return Ok(None) };
        Ok(Some(KnownTexts::insert(key, program, ledger.held().saturating_sub(bytes))))
    }

    /// Returns the automaton of the raw strings of a language and the text after them. Returns `None` if there
    /// are no such strings.
    fn text_of_language(
        &mut self,
        text: &RawText,
        language: &Texts,
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
