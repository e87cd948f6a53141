use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

use crate::frontend::json_schema::Schemas;
use crate::frontend::missing::compile_missing;
use crate::frontend::part_cache::PartCache;
use crate::frontend::parts::{self, Part};
use crate::frontend::pieces::Composed;
use crate::frontend::tags::StructuralTags;
use crate::frontend::{choice, gbnf, lark, regex, tags};
use crate::ir::expr::Rules;
use crate::ir::json::JsonProgram;
use crate::ledger::Ledger;
use crate::machine::automaton::Automaton;
use crate::machine::cfg::{CfgMachine, Program};
use crate::machine::{Config, Machine};
use crate::tokens::{self, TokenTerminal};
use crate::{ByteSet, GrammarError, Limits, Remotes, Samples, SchemaOptions, Warning};

/// Comment at the top of the GBNF text of a schema whose objects may have undeclared members.
const REPEATED_NAMES: &str =
    "# The names of undeclared members may be repeated here. GBNF cannot forbid that.\n";

/// A compiled grammar, independent of any tokenizer.
///
/// A grammar is immutable and cheap to clone.
///
/// ```
/// use formwork_grammar::{Grammar, Limits};
/// let grammar = Grammar::gbnf("root ::= [0-9]+ (\".\" [0-9]+)?", &Limits::default())?;
/// assert!(grammar.accepts(b"3.14"));
/// assert!(!grammar.accepts(b"3."));
/// assert_eq!(grammar.shortest(), b"0");
/// # Ok::<(), formwork_grammar::GrammarError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Grammar {
    program: AnyProgram,
    /// Memory of the compiled form in bytes, as charged to the ledger of the compilation.
    bytes: usize,
    limits: Limits,
    warnings: Arc<[Warning]>,
}

#[derive(Clone, Debug)]
enum AnyProgram {
    Cfg { program: Arc<Program>, rules: Arc<Composed> },
    Json(Arc<JsonProgram>),
}

impl Grammar {
    /// Compiles a JSON Schema.
    ///
    /// [`SchemaOptions`] decides which JSON texts of a valid value are outputs. References to other
    /// documents need [`json_schema_with_remotes`](Self::json_schema_with_remotes).
    ///
    /// # Errors
    /// Returns an error if a keyword cannot be enforced exactly, is malformed, or is unsatisfiable.
    /// Also returns an error if the schema exceeds one of the `limits`. [`GrammarError::pointer`]
    /// returns the place in the schema, if it is known.
    pub fn json_schema(
        schema: &Value,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        Self::json_schema_with_remotes(schema, &Remotes::new(), options, limits)
    }

    /// Compiles a JSON Schema whose references may lead to other documents.
    ///
    /// `remotes` maps the URI of each such document, without a fragment, to the document. Nothing
    /// is fetched over the network.
    ///
    /// ```
    /// use formwork_grammar::{Grammar, Limits, Remotes, SchemaOptions};
    /// let size = serde_json::json!({ "minimum": 0 });
    /// let remotes = Remotes::from([("https://example.com/size".to_owned(), size)]);
    /// let schema = serde_json::json!({ "type": "integer", "$ref": "https://example.com/size" });
    /// let options = SchemaOptions::default();
    /// let grammar =
    ///     Grammar::json_schema_with_remotes(&schema, &remotes, &options, &Limits::default())?;
    /// assert!(grammar.accepts(b"3") && !grammar.accepts(b"-3"));
    /// # Ok::<(), formwork_grammar::GrammarError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error in the same cases as [`json_schema`](Self::json_schema), or if `remotes`
    /// lacks a document. [`GrammarError::missing_document`] returns the URI of the missing
    /// document. An error inside a remote document has a pointer of the form `URI#/json/pointer`.
    pub fn json_schema_with_remotes(
        schema: &Value,
        remotes: &Remotes,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        let ledger = &Ledger::new(limits);
        let compiled = Schemas { options: *options, remotes, ledger, cache: None }.compile(schema, limits)?;
        let program = AnyProgram::Json(compiled.program);
        let (bytes, warnings) = (ledger.held(), compiled.warnings.into());
        let grammar = Self { program, bytes, limits: limits.clone(), warnings };
        let automaton = grammar.automaton();
        let shortest = automaton.closing_len(automaton.start()) as usize;
        if shortest > limits.shortest_bytes {
            return Err(GrammarError::limit("bytes in its shortest output", shortest, limits.shortest_bytes));
        }
        Ok(grammar)
    }

    /// Compiles a GBNF grammar. An output is any text that the rule `root` matches.
    ///
    /// JSON Schemas in the grammar (`%json`) are compiled with the default [`SchemaOptions`].
    ///
    /// # Errors
    /// Returns an error if the source has a syntax error, a rule is undefined, or no finite text
    /// matches `root`. Also returns an error if the grammar exceeds one of the `limits`.
    pub fn gbnf(source: &str, limits: &Limits) -> Result<Self, GrammarError> {
        Self::gbnf_with_schemas(source, &SchemaOptions::default(), limits)
    }

    /// Compiles a GBNF grammar, and the JSON Schemas in it with the given options.
    ///
    /// `%json` followed by a schema is a terminal. The terminal matches every JSON text that the
    /// schema accepts, as exactly as [`json_schema`](Self::json_schema).
    ///
    /// ```
    /// use formwork_grammar::{Grammar, Limits, SchemaOptions};
    /// let source = r#"root ::= "<answer>" %json { "type": "integer", "minimum": 1 } "</answer>""#;
    /// let grammar = Grammar::gbnf_with_schemas(source, &SchemaOptions::default(), &Limits::default())?;
    /// assert!(grammar.accepts(b"<answer>42</answer>") && !grammar.accepts(b"<answer>0</answer>"));
    /// # Ok::<(), formwork_grammar::GrammarError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error in the same cases as [`gbnf`](Self::gbnf), and if
    /// [`json_schema`](Self::json_schema) would refuse one of the schemas. An error in a schema is
    /// reported at the line and column of the schema in `source`.
    pub fn gbnf_with_schemas(
        source: &str,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        Self::gbnf_with_remotes(source, &Remotes::new(), options, limits)
    }

    /// Compiles a GBNF grammar, and the JSON Schemas in it with the given options and remote
    /// documents.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`gbnf_with_schemas`](Self::gbnf_with_schemas) and
    /// [`json_schema_with_remotes`](Self::json_schema_with_remotes).
    pub fn gbnf_with_remotes(
        source: &str,
        remotes: &Remotes,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        Self::from_rules(limits, |ledger| {
            gbnf::parse(source, Schemas { options: *options, remotes, ledger, cache: None }, limits)
        })
    }

    /// Compiles a Lark grammar. An output is any text that the rule `start` matches.
    ///
    /// The dialect is that of OpenAI's custom tools. Text that `%ignore` names may follow each string,
    /// regular expression and terminal of a rule. Every reading of a text counts, so a terminal can end
    /// wherever it matches. Regular expressions have the syntax of the `regex` crate.
    ///
    /// ```
    /// use formwork_grammar::{Grammar, Limits};
    /// let source = r#"
    ///     start: sum
    ///     sum: NUMBER ("+" NUMBER)*
    ///     %import common.NUMBER
    ///     %ignore " "
    /// "#;
    /// let grammar = Grammar::lark(source, &Limits::default())?;
    /// assert!(grammar.accepts(b"1 + 2.5+3") && !grammar.accepts(b"1 +"));
    /// # Ok::<(), formwork_grammar::GrammarError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the source has a syntax error or an unsupported feature, such as priorities,
    /// templates and imports other than `%import common`. Also returns an error if a rule is undefined,
    /// a terminal is recursive, no finite text matches `start`, or the grammar exceeds one of the
    /// `limits`.
    pub fn lark(source: &str, limits: &Limits) -> Result<Self, GrammarError> {
        Self::lark_with_remotes(source, &Remotes::new(), &SchemaOptions::default(), limits)
    }

    /// Compiles a Lark grammar, and the JSON Schemas in it (`%json`) with the given options and remote
    /// documents.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`lark`](Self::lark) and
    /// [`json_schema_with_remotes`](Self::json_schema_with_remotes).
    pub fn lark_with_remotes(
        source: &str,
        remotes: &Remotes,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        Self::from_rules(limits, |ledger| {
            lark::parse(source, Schemas { options: *options, remotes, ledger, cache: None }, limits)
        })
    }

    /// Compiles a regular expression that must match the whole output.
    ///
    /// The syntax is ECMA-262, as for JSON Schema's `pattern`: for example, `\d` matches ASCII
    /// digits only. Look-around, anchors and word boundaries are exact at every position.
    ///
    /// ```
    /// use formwork_grammar::{Grammar, Limits};
    /// let grammar = Grammar::regex(r"(?=.*\d)[a-z0-9]{4,8}", &Limits::default())?;
    /// assert!(grammar.accepts(b"abc1") && !grammar.accepts(b"abcd"));
    /// # Ok::<(), formwork_grammar::GrammarError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the expression has a syntax error or back-references, or if the
    /// expression or its automaton exceeds one of the `limits`.
    pub fn regex(pattern: &str, limits: &Limits) -> Result<Self, GrammarError> {
        Self::from_rules(limits, |ledger| regex::parse(pattern, limits, ledger))
    }

    /// Creates the grammar whose outputs are exactly the strings in `choices`.
    ///
    /// # Errors
    /// Returns an error if `choices` is empty or exceeds one of the `limits`.
    pub fn choices<S: AsRef<str>>(choices: &[S], limits: &Limits) -> Result<Self, GrammarError> {
        Self::from_rules(limits, |_| choice::parse(choices))
    }

    /// Compiles structural tags, and the JSON Schemas in them with the given options.
    ///
    /// # Errors
    /// Returns an error in these cases:
    ///
    /// - There are no tags, no triggers, or an empty trigger.
    /// - A tag begins with no trigger, or a trigger begins no tag.
    /// - A trigger contains another trigger, which always fires first.
    /// - The content of a tag is invalid, or a limit is exceeded.
    ///
    /// The message starts with the location, for example `tags[2].begin`.
    pub fn structural_tags(
        tags: &StructuralTags,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        Self::structural_tags_with_remotes(tags, &Remotes::new(), options, limits)
    }

    /// Compiles structural tags, and the JSON Schemas in them with the given options and remote
    /// documents.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`structural_tags`](Self::structural_tags) and
    /// [`json_schema_with_remotes`](Self::json_schema_with_remotes).
    pub fn structural_tags_with_remotes(
        tags: &StructuralTags,
        remotes: &Remotes,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        Self::from_rules(limits, |ledger| {
            tags::parse(tags, Schemas { options: *options, remotes, ledger, cache: None }, limits)
        })
    }

    /// Compiles a grammar that is composed of parts, and the JSON Schemas in it with the given
    /// options.
    ///
    /// # Errors
    /// Returns an error if a part is invalid. If the part is nested in [`Part::At`]s, the message
    /// starts with their `place` prefixes, outermost first.
    pub fn of_parts(part: &Part, options: &SchemaOptions, limits: &Limits) -> Result<Self, GrammarError> {
        Self::of_parts_with_remotes(part, &Remotes::new(), options, limits)
    }

    /// Compiles a grammar that is composed of parts like
    /// [`of_parts_with_remotes`](Self::of_parts_with_remotes), and keeps the compiled schemas in `cache` for
    /// later grammars.
    ///
    /// A schema from the cache costs memory, but no [work](Limits::work). Many schemas that are not in the cache
    /// are compiled on the [threads](PartCache::with_threads) of the cache, with a limit of work of their own. This
    /// thread compiles the rest, within the limit.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`of_parts_with_remotes`](Self::of_parts_with_remotes).
    pub fn of_parts_in(
        part: &Part,
        cache: &PartCache,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        match part {
            Part::Tags(_)
            | Part::Sequence(_)
            | Part::OneOf(_)
            | Part::List { .. }
            | Part::Repeat { .. }
            | Part::Text { .. }
            | Part::At { .. } => {
                compile_missing(part, cache, *options, limits);
                Self::from_rules(limits, |ledger| {
                    let remotes = cache.remotes();
                    let schemas = Schemas { options: *options, remotes, ledger, cache: Some(cache) };
                    parts::parse(part, schemas, limits)
                })
            }
            single => Self::of_parts_with_remotes(single, cache.remotes(), options, limits),
        }
    }

    /// Compiles a grammar that is composed of parts, and the JSON Schemas in it with the given
    /// options and remote documents.
    ///
    /// A JSON Schema, a GBNF or Lark source, an expression, choices or tags that are the whole grammar
    /// compile as with the function for that kind.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`of_parts`](Self::of_parts) and
    /// [`json_schema_with_remotes`](Self::json_schema_with_remotes).
    pub fn of_parts_with_remotes(
        part: &Part,
        remotes: &Remotes,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        match part {
            Part::JsonObject => {
                Self::json_schema_with_remotes(&parts::any_object(), remotes, options, limits)
            }
            Part::Json(schema) => Self::json_schema_with_remotes(schema.as_value(), remotes, options, limits),
            Part::Gbnf(source) => Self::gbnf_with_remotes(source, remotes, options, limits),
            Part::Lark(source) => Self::lark_with_remotes(source, remotes, options, limits),
            Part::Regex(pattern) => Self::regex(pattern, limits),
            Part::Choices(choices) => Self::choices(choices, limits),
            Part::Tags(tags) => Self::structural_tags_with_remotes(tags, remotes, options, limits),
            Part::Literal(_)
            | Part::Token(_)
            | Part::Arguments { .. }
            | Part::JsonString(_)
            | Part::Sequence(_)
            | Part::OneOf(_)
            | Part::List { .. }
            | Part::Repeat { .. }
            | Part::Text { .. }
            | Part::At { .. } => Self::from_rules(limits, |ledger| {
                parts::parse(part, Schemas { options: *options, remotes, ledger, cache: None }, limits)
            }),
        }
    }

    fn from_rules<R: Into<Composed>>(
        limits: &Limits,
        read: impl FnOnce(&Rc<Ledger>) -> Result<R, GrammarError>,
    ) -> Result<Self, GrammarError> {
        let ledger = Ledger::new(limits);
        let composed: Composed = read(&ledger)?.into();
        let program = Arc::new(composed.program(limits, &ledger)?);
        CfgMachine::check(&program)?;
        let rules = &composed.rules;
        let of_schemas = rules.schemas.values().flat_map(|schema| &schema.warnings);
        let warnings = rules.warnings.iter().chain(of_schemas).cloned().collect();
        let program = AnyProgram::Cfg { program, rules: Arc::new(composed) };
        Ok(Self { program, bytes: ledger.held(), limits: limits.clone(), warnings })
    }

    /// Returns the token terminals of the grammar. In the automaton, the terminal at index `i` of
    /// this slice is spelt as the two bytes `tokens::spelling(i)`.
    pub(crate) fn token_terminals(&self) -> &[TokenTerminal] {
        match &self.program {
            AnyProgram::Cfg { program, .. } => &program.tokens,
            AnyProgram::Json(_) => &[],
        }
    }

    /// Returns a warning for each part of the grammar that has no effect, or that is read
    /// differently from its definition.
    ///
    /// Examples are annotations of a schema and rules that are unreachable from `root`.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Writes the grammar as GBNF, which llama.cpp can read too.
    ///
    /// A `%json` terminal of a GBNF or Lark source is kept, although llama.cpp does not know this terminal.
    /// A schema is written as rules, with the layout of its [`SchemaOptions`] and one spelling for
    /// each value.
    ///
    /// ```
    /// use formwork_grammar::{Grammar, Limits, SchemaOptions};
    /// let schema = serde_json::json!({ "type": "array", "items": { "enum": [1, "a"] }, "maxItems": 2 });
    /// let grammar = Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default())?;
    /// let gbnf = Grammar::gbnf(&grammar.to_gbnf()?, &Limits::default())?;
    /// assert!(gbnf.accepts(br#"[1, "a"]"#) && !gbnf.accepts(b"[2]"));
    /// # Ok::<(), formwork_grammar::GrammarError>(())
    /// ```
    ///
    /// GBNF cannot forbid repeated names. If an object may have undeclared members, the result
    /// therefore starts with a comment that says so. The GBNF then accepts more texts than the
    /// grammar. Each additional text repeats a name in some object.
    ///
    /// # Errors
    /// Returns an error if GBNF cannot express the grammar. Examples are members in any order, all
    /// spellings of a value, indentation, items that must differ, and bytes that are not UTF-8.
    pub fn to_gbnf(&self) -> Result<String, GrammarError> {
        match &self.program {
            AnyProgram::Cfg { rules, .. } => gbnf::print(&rules.flattened()),
            AnyProgram::Json(program) => {
                let (rules, repeats) = program.to_rules(&self.limits)?;
                Ok(format!("{}{}", if repeats { REPEATED_NAMES } else { "" }, gbnf::print(&rules)?))
            }
        }
    }

    /// Returns the size of the compiled form. The unit is nodes for a JSON Schema, and automaton
    /// states for all other grammars.
    pub fn size(&self) -> usize {
        match &self.program {
            AnyProgram::Cfg { program, .. } => program.states.len(),
            AnyProgram::Json(program) => program.nodes.len(),
        }
    }

    /// Returns the approximate memory of the compiled form, in bytes.
    pub(crate) const fn byte_len(&self) -> usize {
        self.bytes
    }

    /// Returns the limits that the grammar was compiled with.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns one of the shortest outputs, in bytes. A token terminal appears in GBNF notation,
    /// for example as `<[7]>`.
    pub fn shortest(&self) -> Vec<u8> {
        let text = match &self.program {
            AnyProgram::Cfg { program, .. } => program.shortest_text(),
            AnyProgram::Json(program) => program.shortest_text(),
        };
        tokens::readable(text, self.token_terminals())
    }

    /// Reports whether `bytes` is a complete output.
    pub fn accepts(&self, bytes: &[u8]) -> bool {
        let mut recognizer = self.recognizer();
        recognizer.extend(bytes).is_ok() && recognizer.accepting()
    }

    /// Creates a recognizer, which reads one output byte by byte.
    pub fn recognizer(&self) -> Recognizer {
        let automaton = self.automaton();
        Recognizer { config: automaton.start(), automaton, len: 0 }
    }

    /// Returns an endless iterator over random outputs.
    ///
    /// The outputs differ from each other wherever the grammar allows alternatives, and their
    /// length is bounded. Equal seeds give equal outputs.
    ///
    /// ```
    /// use formwork_grammar::{Grammar, Limits};
    /// let grammar = Grammar::regex("[a-z]+(-[0-9]{2})?", &Limits::default())?;
    /// let outputs: Vec<_> = grammar.samples(42).take(3).collect();
    /// assert!(outputs.iter().all(|output| grammar.accepts(output)));
    /// # Ok::<(), formwork_grammar::GrammarError>(())
    /// ```
    pub fn samples(&self, seed: u64) -> Samples {
        Samples::new(self, seed)
    }

    /// Returns the rules of a GBNF or Lark source, and the limits of the grammar. Returns `None` for
    /// all other grammars.
    pub(crate) fn source_rules(&self) -> Option<(&Rules, &Limits)> {
        match &self.program {
            AnyProgram::Cfg { rules, .. } => {
                let is_source = !rules.rules.lines.is_empty() && rules.pieces.is_empty();
                is_source.then_some((&rules.rules, &self.limits))
            }
            AnyProgram::Json(_) => None,
        }
    }

    pub(crate) fn automaton(&self) -> Automaton {
        let machine: Box<dyn Machine> = match &self.program {
            AnyProgram::Cfg { program, .. } => Box::new(CfgMachine::new(Arc::clone(program))),
            AnyProgram::Json(program) => Box::new(program.machine()),
        };
        Automaton::new(machine)
    }
}

/// Reads one output byte by byte, without a vocabulary. Created by [`Grammar::recognizer`].
///
/// ```
/// use formwork_grammar::{Grammar, Limits};
/// let grammar = Grammar::regex("[a-c]{2}", &Limits::default())?;
/// let mut recognizer = grammar.recognizer();
/// let mismatch = recognizer.extend(b"ax").unwrap_err();
/// assert_eq!(mismatch.at, 1);
/// assert_eq!(mismatch.to_string(), "at byte 1: expected `a`-`c`");
/// # Ok::<(), formwork_grammar::GrammarError>(())
/// ```
pub struct Recognizer {
    automaton: Automaton,
    config: Config,
    len: usize,
}

/// Error for a text that a grammar does not match: the position of the first mismatch.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("at byte {at}: expected {}{expected}", if *.complete { "the end, or " } else { "" })]
pub struct Mismatch {
    /// Offset, in bytes, of the first byte that does not match. If the text ends too early, this is
    /// the length of the text.
    pub at: usize,
    /// Bytes that would be allowed at offset `at`.
    pub expected: ByteSet,
    /// True if the text up to `at` is a complete output.
    pub complete: bool,
}

impl Recognizer {
    /// Reads the next `bytes` of the output.
    ///
    /// # Errors
    /// Returns an error at the first byte that is not allowed. The recognizer then stands before
    /// that byte, and [`extend`](Self::extend) can be called again.
    pub fn extend(&mut self, bytes: &[u8]) -> Result<(), Mismatch> {
        for &byte in bytes {
            let next = self.automaton.run(self.config, &[byte]);
            if next == Config::DEAD {
                return Err(self.mismatch());
            }
            self.config = next;
            self.len += 1;
        }
        Ok(())
    }

    /// Reports whether the bytes read so far are a complete output.
    pub fn accepting(&self) -> bool {
        self.automaton.accepting(self.config)
    }

    /// Checks that the bytes read so far are a complete output.
    ///
    /// # Errors
    /// Returns an error if more bytes must follow.
    pub fn finish(&mut self) -> Result<(), Mismatch> {
        if self.accepting() { Ok(()) } else { Err(self.mismatch()) }
    }

    /// Returns the bytes that can come next.
    pub fn following(&mut self) -> ByteSet {
        self.automaton.following(self.config)
    }

    /// Describes in words what can come next, with one entry for each alternative.
    ///
    /// Returns an empty list if the grammar gives no descriptions. [`following`](Self::following)
    /// always returns the bytes.
    pub fn expected(&mut self) -> Vec<String> {
        self.automaton.expected(self.config)
    }

    fn mismatch(&mut self) -> Mismatch {
        Mismatch { at: self.len, expected: self.following(), complete: self.accepting() }
    }
}
