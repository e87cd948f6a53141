use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

use crate::frontend::json_schema::Schemas;
use crate::frontend::parts::{self, Part};
use crate::frontend::tags::StructuralTags;
use crate::frontend::{choice, gbnf, regex, tags};
use crate::ir::expr::Rules;
use crate::ir::json::JsonProgram;
use crate::ledger::Ledger;
use crate::machine::automaton::Automaton;
use crate::machine::cfg::{CfgMachine, Program};
use crate::machine::{Config, Machine};
use crate::tokens::{self, TokenTerminal};
use crate::{ByteSet, GrammarError, Limits, Remotes, Samples, SchemaOptions, Warning};

/// What GBNF cannot say of objects with undeclared members.
const REPEATED_NAMES: &str =
    "# The names of undeclared members may be repeated here. GBNF cannot forbid that.\n";

/// A compiled grammar. Immutable, cheap to clone, and independent of any tokenizer.
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
    /// Bytes that the compilation still held at its end.
    bytes: usize,
    limits: Limits,
    warnings: Arc<[Warning]>,
}

#[derive(Clone, Debug)]
enum AnyProgram {
    Cfg { program: Arc<Program>, rules: Arc<Rules> },
    Json(Arc<JsonProgram>),
}

impl Grammar {
    /// Compiles a JSON Schema.
    ///
    /// # Errors
    /// Where a keyword cannot be enforced exactly, is malformed or unsatisfiable; the error holds the JSON pointer.
    pub fn json_schema(
        schema: &Value,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        Self::json_schema_with_remotes(schema, &Remotes::new(), options, limits)
    }

    /// Compiles a JSON Schema whose references may lead to other documents, by the URIs without fragment that these are
    /// retrieved from. Nothing is fetched.
    ///
    /// ```
    /// use formwork_grammar::{Grammar, Limits, Remotes, SchemaOptions};
    /// let remotes = Remotes::from([("https://example.com/size".to_owned(), serde_json::json!({ "minimum": 0 }))]);
    /// let schema = serde_json::json!({ "type": "integer", "$ref": "https://example.com/size" });
    /// let options = SchemaOptions::default();
    /// let grammar = Grammar::json_schema_with_remotes(&schema, &remotes, &options, &Limits::default())?;
    /// assert!(grammar.accepts(b"3") && !grammar.accepts(b"-3"));
    /// # Ok::<(), formwork_grammar::GrammarError>(())
    /// ```
    ///
    /// # Errors
    /// Like [`json_schema`](Self::json_schema); a place in another document has its URI before the pointer.
    pub fn json_schema_with_remotes(
        schema: &Value,
        remotes: &Remotes,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        let ledger = &Ledger::new(limits);
        let compiled = Schemas { options: *options, remotes, ledger }.compile(schema, limits)?;
        let program = AnyProgram::Json(compiled.program);
        let (bytes, warnings) = (ledger.held(), compiled.warnings.into());
        let grammar = Self { program, bytes, limits: limits.clone(), warnings };
        let automaton = grammar.automaton();
        let shortest = automaton.closing_len(automaton.start()) as usize;
        if shortest > limits.shortest_bytes {
            return Err(GrammarError::limit(
                "bytes for its shortest output",
                shortest,
                limits.shortest_bytes,
            ));
        }
        Ok(grammar)
    }

    /// Compiles a GBNF grammar; the output is whatever its rule `root` matches.
    ///
    /// # Errors
    /// On a syntax error, an undefined rule, or a language without any finite text.
    pub fn gbnf(source: &str, limits: &Limits) -> Result<Self, GrammarError> {
        Self::gbnf_with_schemas(source, &SchemaOptions::default(), limits)
    }

    /// Compiles a GBNF grammar, the JSON Schemas in it with these options.
    ///
    /// `%json` and a schema are a terminal: a JSON text that the schema accepts, as exact as alone.
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
    /// As with [`gbnf`](Self::gbnf), and as with [`json_schema`](Self::json_schema) at the place of a schema.
    pub fn gbnf_with_schemas(
        source: &str,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        Self::gbnf_with_remotes(source, &Remotes::new(), options, limits)
    }

    /// Compiles a GBNF grammar, the JSON Schemas in it with these options and documents to refer to.
    ///
    /// # Errors
    /// As with [`gbnf_with_schemas`](Self::gbnf_with_schemas).
    pub fn gbnf_with_remotes(
        source: &str,
        remotes: &Remotes,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        Self::from_rules(limits, |ledger| {
            gbnf::parse(source, Schemas { options: *options, remotes, ledger }, limits)
        })
    }

    /// Compiles a regular expression that the whole output must match.
    ///
    /// It is read as JSON Schema's `pattern` is, by ECMA-262: `\d` is ASCII, and look-around, anchors and
    /// word boundaries are exact wherever they stand.
    ///
    /// ```
    /// use formwork_grammar::{Grammar, Limits};
    /// let grammar = Grammar::regex(r"(?=.*\d)[a-z0-9]{4,8}", &Limits::default())?;
    /// assert!(grammar.accepts(b"abc1") && !grammar.accepts(b"abcd"));
    /// # Ok::<(), formwork_grammar::GrammarError>(())
    /// ```
    ///
    /// # Errors
    /// On a syntax error, back-references, and where its automaton would be too large.
    pub fn regex(pattern: &str, limits: &Limits) -> Result<Self, GrammarError> {
        Self::from_rules(limits, |ledger| regex::parse(pattern, limits, ledger))
    }

    /// The grammar of exactly these outputs.
    ///
    /// # Errors
    /// When there are none.
    pub fn choices<S: AsRef<str>>(choices: &[S], limits: &Limits) -> Result<Self, GrammarError> {
        Self::from_rules(limits, |_| choice::parse(choices))
    }

    /// Compiles structural tags, the schemas in them with these options.
    ///
    /// # Errors
    /// As for the contents of the tags, and for triggers and tags that do not go together; the error names the place.
    pub fn structural_tags(
        tags: &StructuralTags,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        Self::structural_tags_with_remotes(tags, &Remotes::new(), options, limits)
    }

    /// Compiles structural tags, the schemas in them with these options and documents to refer to.
    ///
    /// # Errors
    /// As with [`structural_tags`](Self::structural_tags).
    pub fn structural_tags_with_remotes(
        tags: &StructuralTags,
        remotes: &Remotes,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        Self::from_rules(limits, |ledger| {
            tags::parse(tags, Schemas { options: *options, remotes, ledger }, limits)
        })
    }

    /// Compiles a grammar that is put together from parts, the schemas in it with these options.
    ///
    /// # Errors
    /// As for the parts; where one has a place, the error begins with it.
    pub fn of_parts(part: &Part, options: &SchemaOptions, limits: &Limits) -> Result<Self, GrammarError> {
        Self::of_parts_with_remotes(part, &Remotes::new(), options, limits)
    }

    /// Compiles a grammar that is put together from parts, the schemas in it with these options and documents
    /// to refer to.
    ///
    /// # Errors
    /// As with [`of_parts`](Self::of_parts).
    pub fn of_parts_with_remotes(
        part: &Part,
        remotes: &Remotes,
        options: &SchemaOptions,
        limits: &Limits,
    ) -> Result<Self, GrammarError> {
        Self::from_rules(limits, |ledger| {
            parts::parse(part, Schemas { options: *options, remotes, ledger }, limits)
        })
    }

    fn from_rules(
        limits: &Limits,
        read: impl FnOnce(&Rc<Ledger>) -> Result<Rules, GrammarError>,
    ) -> Result<Self, GrammarError> {
        let ledger = Ledger::new(limits);
        let rules = read(&ledger)?;
        let program = Arc::new(Program::new(&rules, limits, &ledger)?);
        CfgMachine::check(&program)?;
        let of_schemas = rules.schemas.values().flat_map(|schema| &schema.warnings);
        let warnings = rules.warnings.iter().chain(of_schemas).cloned().collect();
        let program = AnyProgram::Cfg { program, rules: Arc::new(rules) };
        Ok(Self { program, bytes: ledger.held(), limits: limits.clone(), warnings })
    }

    /// What the token terminals of the automata's spellings are.
    pub(crate) fn token_terminals(&self) -> &[TokenTerminal] {
        match &self.program {
            AnyProgram::Cfg { program, .. } => &program.tokens,
            AnyProgram::Json(_) => &[],
        }
    }

    /// What has no effect: annotations of a schema, rules that are not reached.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The same language as GBNF, which llama.cpp reads too, but for `%json` where the source has it.
    ///
    /// A schema is written as it is compiled, so with its layout and one spelling of everything:
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
    /// GBNF cannot forbid that a name comes twice, so a schema with undeclared members is written with a comment that says
    /// so: the GBNF then has more texts than the grammar, and no others than those with a repeated name.
    ///
    /// # Errors
    /// For what GBNF cannot say: members in any order, every spelling of a value, indentation, bytes that are no characters.
    pub fn to_gbnf(&self) -> Result<String, GrammarError> {
        match &self.program {
            AnyProgram::Cfg { rules, .. } => gbnf::print(rules),
            AnyProgram::Json(program) => {
                let (rules, repeats) = program.to_rules(&self.limits)?;
                Ok(format!("{}{}", if repeats { REPEATED_NAMES } else { "" }, gbnf::print(&rules)?))
            }
        }
    }

    /// How large the compiled form is: states of the automata, or nodes of the schema.
    pub fn size(&self) -> usize {
        match &self.program {
            AnyProgram::Cfg { program, .. } => program.states.len(),
            AnyProgram::Json(program) => program.nodes.len(),
        }
    }

    /// Bytes of memory, roughly.
    pub(crate) const fn byte_len(&self) -> usize {
        self.bytes
    }

    /// The limits that the grammar was compiled under.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A shortest output, with the notation of token terminals for these.
    pub fn shortest(&self) -> Vec<u8> {
        let text = match &self.program {
            AnyProgram::Cfg { program, .. } => program.shortest_text(),
            AnyProgram::Json(program) => program.shortest_text(),
        };
        tokens::readable(text, self.token_terminals())
    }

    /// Whether `bytes` are a complete output.
    pub fn accepts(&self, bytes: &[u8]) -> bool {
        let mut recognizer = self.recognizer();
        recognizer.extend(bytes).is_ok() && recognizer.accepting()
    }

    /// Starts to read an output byte by byte.
    pub fn recognizer(&self) -> Recognizer {
        let automaton = self.automaton();
        Recognizer { config: automaton.start(), automaton, len: 0 }
    }

    /// Random outputs: varied in what the grammar leaves open, bounded in length, and the same for equal seeds.
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

    pub(crate) fn automaton(&self) -> Automaton {
        let machine: Box<dyn Machine> = match &self.program {
            AnyProgram::Cfg { program, .. } => Box::new(CfgMachine::new(Arc::clone(program))),
            AnyProgram::Json(program) => Box::new(program.machine()),
        };
        Automaton::new(machine)
    }
}

/// Reads one output against a grammar, byte by byte, without a vocabulary.
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

/// Where a text stops matching.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("at byte {at}: expected {}{expected}", if *.complete { "the end, or " } else { "" })]
pub struct Mismatch {
    /// The offset of the byte that cannot follow, or the length of a text that ends too early.
    pub at: usize,
    /// What may come there.
    pub expected: ByteSet,
    /// Whether the text before `at` is a complete output.
    pub complete: bool,
}

impl Recognizer {
    /// Reads more bytes.
    ///
    /// # Errors
    /// At the first byte that cannot follow; the bytes before it have been read.
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

    /// Whether what was read is a complete output.
    pub fn accepting(&self) -> bool {
        self.automaton.accepting(self.config)
    }

    /// Checks that what was read is a complete output.
    ///
    /// # Errors
    /// When more must follow.
    pub fn finish(&mut self) -> Result<(), Mismatch> {
        if self.accepting() { Ok(()) } else { Err(self.mismatch()) }
    }

    /// The bytes that may come next.
    pub fn following(&mut self) -> ByteSet {
        self.automaton.following(self.config)
    }

    /// What may come next in words, one line for each way on; empty where only the bytes are known.
    pub fn expected(&mut self) -> Vec<String> {
        self.automaton.expected(self.config)
    }

    fn mismatch(&mut self) -> Mismatch {
        Mismatch { at: self.len, expected: self.following(), complete: self.accepting() }
    }
}
