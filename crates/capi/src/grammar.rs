use std::ffi::c_char;
use std::mem::MaybeUninit;

use formwork_grammar::{Grammar, Limits, Remotes, SchemaOptions};
use serde_json::Value;

use crate::bytes::{FormworkBytes, FormworkSlice};
use crate::error::{FormworkError, FormworkStatus};
use crate::failure::Failure;
use crate::options::{self, FormworkOptions};
use crate::{guard, tags};

/// A compiled grammar, independent of any vocabulary. Shareable between threads.
pub struct FormworkGrammar {
    pub(crate) grammar: Grammar,
}

/// Compiles a JSON Schema, given as UTF-8 JSON. `options` may be NULL for the defaults.
///
/// An error names the place by JSON pointer and keyword. References to other documents are refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn formwork_grammar_json_schema(
    schema: *const c_char,
    length: usize,
    options: *const FormworkOptions,
    grammar: Option<&mut MaybeUninit<Option<Box<FormworkGrammar>>>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let result = guard::required(grammar, "grammar")?;
        // SAFETY: the caller passes a text of `length` bytes, and options of the size that they have.
        let (text, options) =
            unsafe { (guard::text(schema.cast(), length, "schema")?, options::read(options)?) };
        compile(result, options, |options, limits| {
            let schema = formwork_json::from_str::<Value>(text).map_err(Failure::NotJson)?;
            Ok(Grammar::json_schema(&schema, options, limits)?)
        })
    })
}

/// Compiles a GBNF grammar, given as UTF-8. An output is any text that the rule `root` matches.
/// `options` may be NULL for the defaults.
///
/// An error names line and column.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn formwork_grammar_gbnf(
    source: *const c_char,
    length: usize,
    options: *const FormworkOptions,
    grammar: Option<&mut MaybeUninit<Option<Box<FormworkGrammar>>>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let result = guard::required(grammar, "grammar")?;
        // SAFETY: the caller passes a text of `length` bytes, and options of the size that they have.
        let (source, options) =
            unsafe { (guard::text(source.cast(), length, "source")?, options::read(options)?) };
        compile(result, options, |options, limits| Ok(Grammar::gbnf_with_schemas(source, options, limits)?))
    })
}

/// Compiles a Lark grammar, given as UTF-8. An output is any text that the rule `start` matches.
/// `options` may be NULL for the defaults.
///
/// An error names line and column.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn formwork_grammar_lark(
    source: *const c_char,
    length: usize,
    options: *const FormworkOptions,
    grammar: Option<&mut MaybeUninit<Option<Box<FormworkGrammar>>>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let result = guard::required(grammar, "grammar")?;
        // SAFETY: the caller passes a text of `length` bytes, and options of the size that they have.
        let (source, options) =
            unsafe { (guard::text(source.cast(), length, "source")?, options::read(options)?) };
        compile(result, options, |options, limits| {
            Ok(Grammar::lark_with_remotes(source, &Remotes::new(), options, limits)?)
        })
    })
}

/// Compiles a regular expression that must match the whole output, given as UTF-8. The syntax is
/// ECMA-262, as for `pattern` in JSON Schema. `options` may be NULL for the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn formwork_grammar_regex(
    pattern: *const c_char,
    length: usize,
    options: *const FormworkOptions,
    grammar: Option<&mut MaybeUninit<Option<Box<FormworkGrammar>>>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let result = guard::required(grammar, "grammar")?;
        // SAFETY: the caller passes a text of `length` bytes, and options of the size that they have.
        let (pattern, options) =
            unsafe { (guard::text(pattern.cast(), length, "pattern")?, options::read(options)?) };
        compile(result, options, |_, limits| Ok(Grammar::regex(pattern, limits)?))
    })
}

/// Creates the grammar whose outputs are exactly the given texts, each of them UTF-8. `options` may be
/// NULL for the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn formwork_grammar_choices(
    choices: *const FormworkSlice,
    choice_count: usize,
    options: *const FormworkOptions,
    grammar: Option<&mut MaybeUninit<Option<Box<FormworkGrammar>>>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let result = guard::required(grammar, "grammar")?;
        // SAFETY: the caller passes an array of `choice_count` texts, and options of the size that they
        // have.
        let (choices, options) =
            unsafe { (guard::array(choices, choice_count, "choices")?, options::read(options)?) };
        let texts = choices.iter().enumerate().map(|(index, choice)| {
            // SAFETY: the caller passes an array of bytes for each choice.
            unsafe { guard::text(choice.data, choice.length, format_args!("choices[{index}]")) }
        });
        let texts: Vec<&str> = texts.collect::<Result<_, _>>()?;
        compile(result, options, |_, limits| Ok(Grammar::choices(&texts, limits)?))
    })
}

/// Compiles structural tags, given as UTF-8 JSON in `XGrammar`'s form. `options` may be NULL for the
/// defaults.
///
/// The output is free text in which a tag must follow each trigger. An example:
///
/// `{"type": "triggered_tags", "triggers": ["<add>"], "tags": [{"type": "tag", "begin": "<add>",
/// "content": {"type": "json_schema", "json_schema": {"type": "integer"}}, "end": "</add>"}]}`
///
/// The content of a tag is of type `json_schema`, `grammar` (with a GBNF text in `grammar`) or `regex`
/// (with an expression in `pattern`). The members `excludes`, `at_least_one` and `stop_after_first` are
/// optional. The whole may be the member `format` of an object of type `structural_tag`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn formwork_grammar_structural_tags(
    tags: *const c_char,
    length: usize,
    options: *const FormworkOptions,
    grammar: Option<&mut MaybeUninit<Option<Box<FormworkGrammar>>>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let result = guard::required(grammar, "grammar")?;
        // SAFETY: the caller passes a text of `length` bytes, and options of the size that they have.
        let (text, options) = unsafe { (guard::text(tags.cast(), length, "tags")?, options::read(options)?) };
        compile(result, options, |options, limits| {
            let tags = formwork_json::from_str::<Value>(text).map_err(Failure::NotJson)?;
            Ok(Grammar::structural_tags(&tags::read(tags)?, options, limits)?)
        })
    })
}

/// Compiles on a thread with enough stack, and writes the grammar to `result`.
fn compile(
    result: &mut MaybeUninit<Option<Box<FormworkGrammar>>>,
    (options, limits): (SchemaOptions, Limits),
    work: impl FnOnce(&SchemaOptions, &Limits) -> Result<Grammar, Failure> + Send,
) -> Result<(), Failure> {
    let grammar = guard::with_stack(|| work(&options, &limits))?;
    result.write(Some(Box::new(FormworkGrammar { grammar })));
    Ok(())
}

/// Returns the number of warnings about parts of the grammar that have no effect, such as a branch that
/// no value satisfies. Returns 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_grammar_warning_count(grammar: Option<&FormworkGrammar>) -> usize {
    grammar.map_or(0, |handle| handle.grammar.warnings().len())
}

/// Gives the text of the warning at `index`: one line of UTF-8 that names the place.
///
/// The caller frees `text` with `formwork_bytes_free`.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_grammar_warning(
    grammar: Option<&FormworkGrammar>,
    index: usize,
    text: Option<&mut MaybeUninit<FormworkBytes>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let warnings = guard::required(grammar, "grammar")?.grammar.warnings();
        let result = guard::required(text, "text")?;
        let outside = Failure::WarningOutside { given: index, limit: warnings.len() };
        let warning = warnings.get(index).ok_or(outside)?;
        result.write(warning.to_string().into_bytes().into());
        Ok(())
    })
}

/// Writes the grammar as GBNF, which llama.cpp can read too. The function fails if GBNF cannot express
/// the grammar.
///
/// The caller frees `text` with `formwork_bytes_free`.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_grammar_to_gbnf(
    grammar: Option<&FormworkGrammar>,
    text: Option<&mut MaybeUninit<FormworkBytes>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let grammar = &guard::required(grammar, "grammar")?.grammar;
        let result = guard::required(text, "text")?;
        let gbnf: String = guard::with_stack(|| Ok(grammar.to_gbnf()?))?;
        result.write(gbnf.into_bytes().into());
        Ok(())
    })
}

/// Decides whether the bytes are a complete output.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn formwork_grammar_accepts(
    grammar: Option<&FormworkGrammar>,
    bytes: *const u8,
    length: usize,
    accepted: Option<&mut MaybeUninit<bool>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let handle = guard::required(grammar, "grammar")?;
        let result = guard::required(accepted, "accepted")?;
        // SAFETY: the caller passes an array of `length` bytes.
        let bytes = unsafe { guard::array(bytes, length, "bytes") }?;
        result.write(handle.grammar.accepts(bytes));
        Ok(())
    })
}

/// Gives one of the shortest outputs.
///
/// The caller frees `bytes` with `formwork_bytes_free`.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_grammar_shortest(
    grammar: Option<&FormworkGrammar>,
    bytes: Option<&mut MaybeUninit<FormworkBytes>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let handle = guard::required(grammar, "grammar")?;
        let result = guard::required(bytes, "bytes")?;
        result.write(handle.grammar.shortest().into());
        Ok(())
    })
}

/// Gives a random output. Equal seeds give equal outputs.
///
/// `max_bytes` bounds the length, and 0 stands for a default. If no output is that short, the function
/// gives a shortest output. The caller frees `bytes` with `formwork_bytes_free`.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_grammar_sample(
    grammar: Option<&FormworkGrammar>,
    seed: u64,
    max_bytes: usize,
    bytes: Option<&mut MaybeUninit<FormworkBytes>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let handle = guard::required(grammar, "grammar")?;
        let result = guard::required(bytes, "bytes")?;
        let samples = handle.grammar.samples(seed);
        let mut samples = if max_bytes == 0 { samples } else { samples.max_bytes(max_bytes) };
        result.write(samples.next().unwrap_or_default().into());
        Ok(())
    })
}

/// Frees a grammar. Accepts NULL.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_grammar_free(grammar: Option<Box<FormworkGrammar>>) {
    guard::free(grammar);
}
